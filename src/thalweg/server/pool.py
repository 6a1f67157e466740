"""Work outside the event loop, and waiting for it without blocking a thread."""

from __future__ import annotations

import asyncio
import ctypes
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Any, ParamSpec, TypeVar

from thalweg.domain.errors import StoreUnavailable

T = TypeVar("T")
P = ParamSpec("P")


class Bridge:
    """Tells the event loop when futures of threads are done.

    Each wake-up of an event loop from a thread costs a system call; a group commit ends many writes at once, so
    those that end before the loop gets to run share one.
    """

    def __init__(self) -> None:
        self._done: deque[Once] = deque()
        self._armed = False

    def call(self, future: Future[Any], timeout_s: float, callback: Callable[[], None]) -> Once:
        """Call back on the event loop when the future is done or the time is over, whichever comes first.

        Call it on the event loop. What it gives can be told to forget the callback.
        """
        loop = asyncio.get_running_loop()
        once = Once(callback)
        once.timer = loop.call_later(timeout_s, once)
        future.add_done_callback(partial(self._notify, loop, once))
        return once

    async def wait(self, future: Future[T], timeout_s: float) -> T:
        """The future's result or exception. TimeoutError if it is not there in time; the work goes on then."""
        if not future.done():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            once = self.call(future, timeout_s, partial(_release, waiter))
            try:
                await waiter
            finally:
                once.forget()
            if not future.done():
                raise TimeoutError
        try:
            return future.result()
        finally:
            # It holds the exception, whose traceback holds this frame: a cycle that would keep alive all that the
            # failed work held, a whole document say, until the garbage collector comes by.
            del future

    def _notify(self, loop: asyncio.AbstractEventLoop, once: Once, _: Future[Any]) -> None:
        """In whichever thread ended the future."""
        self._done.append(once)
        if not self._armed:
            self._armed = True
            try:
                loop.call_soon_threadsafe(self._wake)
            except RuntimeError:
                # The loop is closed: nobody waits any more.
                pass

    def _wake(self) -> None:
        # First, so that a future done from now on asks for another round.
        self._armed = False
        while self._done:
            self._done.popleft()()


class Once:
    """A callback that is made once, by a timer or otherwise."""

    __slots__ = ("_callback", "timer")

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback
        self.timer: asyncio.TimerHandle | None = None

    def __call__(self) -> None:
        callback = self._callback
        if callback is not None:
            self.forget()
            callback()

    def forget(self) -> None:
        self._callback = None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def release_memory() -> None:
    """Give free memory back to the system.

    glibc keeps what a large document took, in each thread's arena apart, so that a few of them in turn would leave a
    worker several times its usual size. Takes some milliseconds; other libraries do it by themselves.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class Pool:
    """Threads for long work, with a bounded queue and a bounded wait."""

    def __init__(self, name: str, bridge: Bridge, *, threads: int, queue: int, timeout_s: float) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._bridge = bridge
        self._limit = threads + queue
        self._timeout_s = timeout_s
        self._lock = Lock()
        self._running = 0

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The function's result, computed in a thread. Call it on the event loop.

        raises  what the function raises; StoreUnavailable if the queue is full or the result is not there in time
                (work not begun is dropped then, work begun goes on unheeded)
        """
        if self._running >= self._limit:
            raise StoreUnavailable("The server is busy; try again shortly.", retry_after_s=2)
        return await self.go_on(function, *args, **kwargs)

    async def go_on(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Like ``run`` for a request that was let in before, however much waits already."""
        future = self.submit(function, *args, **kwargs)
        try:
            return await self.share(future)
        finally:
            future.cancel()
            # As in Bridge.wait.
            del future

    async def share(self, future: Future[T]) -> T:
        """The result of submitted work that others may wait for, too: it goes on if it is not there in time. Raises
        what ``run`` does, but for the full queue."""
        try:
            return await self._bridge.wait(future, self._timeout_s)
        except TimeoutError:
            # Raised by the function itself, too, on Python 3.11 and later; then it is done.
            if future.done():
                raise
            raise StoreUnavailable(f"No answer was ready within {self._timeout_s:g} s.", retry_after_s=5) from None
        except CancelledError:
            raise StoreUnavailable("The server is stopping.", retry_after_s=5) from None
        finally:
            # As in Bridge.wait.
            del future

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queue work, however much waits already. StoreUnavailable once the pool is closed."""
        with self._lock:
            self._running += 1
        try:
            future = self._executor.submit(function, *args, **kwargs)
        except RuntimeError:
            with self._lock:
                self._running -= 1
            raise StoreUnavailable("The server is stopping.", retry_after_s=5) from None
        future.add_done_callback(self._ended)
        return future

    def _ended(self, _: Future[Any]) -> None:
        with self._lock:
            self._running -= 1

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)
