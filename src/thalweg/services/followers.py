"""Who waits for something newer: futures that are done when it is there, without a thread or transaction for each.

One thread a process asks, some times a second, for the newest number of each thing that is waited for; when nobody
waits, it ends. What many wait for is there for all of them at once, and made once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from thalweg.domain.errors import NotFound, StoreUnavailable

MAX_FOLLOWERS: Final = 1_000
"""Clients of one worker that wait at once."""
LOOK_S: Final = 0.1
"""How often it is looked."""

MAKERS: Final = 2
"""Threads of a worker in which answers to followers are made."""

_logger = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Waiting:
    future: Future[None]
    newest: Callable[[], int]
    after: int
    until_s: float


class Followers:
    """Futures that are done once there is something after a number, or their time is over. For all threads.

    name  of the thread
    what  is followed, as those are told who are too many
    """

    def __init__(self, name: str, what: str) -> None:
        self._name = name
        self._what = what
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, list[_Waiting]] = {}
        self._count = 0
        self._thread: threading.Thread | None = None

    def wait(self, key: Hashable, newest: Callable[[], int], after: int, wait_s: float) -> Future[None]:
        """Wait until ``newest()`` gives more than ``after``.

        key     what is waited for: those of one key are asked for once
        raises  StoreUnavailable if too many wait already; the future what ``newest`` raises
        """
        future: Future[None] = Future()
        with self._lock:
            if self._count >= MAX_FOLLOWERS:
                raise StoreUnavailable(f"Too many clients follow {self._what} here; try again later.", retry_after_s=10)
            self._count += 1
            self._waiting.setdefault(key, []).append(_Waiting(future, newest, after, time.monotonic() + wait_s))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        return future

    def _run(self) -> None:
        while True:
            time.sleep(LOOK_S)
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                groups = {key: list(group) for key, group in self._waiting.items()}
            for key, group in groups.items():
                self._look(key, group)

    def _look(self, key: Hashable, group: list[_Waiting]) -> None:
        failure: Exception | None = None
        number = 0
        try:
            number = group[0].newest()
        except NotFound as error:
            failure = error
        except Exception as error:
            _logger.warning("who follows %s cannot be served: %s", self._what, error)
            failure = error
        now_s = time.monotonic()
        ready = [item for item in group if failure is not None or number > item.after or now_s >= item.until_s]
        if not ready:
            return
        gone = {id(item) for item in ready}
        with self._lock:
            left = [item for item in self._waiting.get(key, ()) if id(item) not in gone]
            if left:
                self._waiting[key] = left
            else:
                self._waiting.pop(key, None)
            self._count -= len(ready)
        for item in ready:
            try:
                if failure is None:
                    item.future.set_result(None)
                else:
                    item.future.set_exception(failure)
            except InvalidStateError:
                # Cancelled meanwhile: the client has gone.
                pass


class Together(Generic[T]):
    """Answers that several clients ask for at the same moment, each made once in one of a few threads, after all who
    get it have asked. For all threads.

    name  of the threads
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._asked: dict[Hashable, list[Future[T]]] = {}
        self._executor: ThreadPoolExecutor | None = None

    def made(self, key: Hashable, make: Callable[[], T]) -> Future[T]:
        """What ``make`` gives or raises; those of one key get the same."""
        future: Future[T] = Future()
        with self._lock:
            asked = self._asked.setdefault(key, [])
            asked.append(future)
            if self._executor is None:
                self._executor = ThreadPoolExecutor(MAKERS, thread_name_prefix=self._name)
            if len(asked) == 1:
                self._executor.submit(self._make, key, make)
        return future

    def made_after(self, first: Future[None], key: Hashable, make: Callable[[], T]) -> Future[T]:
        """The same, once another future is done; its exception, if it has one."""
        future: Future[T] = Future()

        def ask(done: Future[None]) -> None:
            error = done.exception()
            if error is not None:
                future.set_exception(error)
            else:
                self.made(key, make).add_done_callback(give)

        def give(done: Future[T]) -> None:
            _settle(future, done.exception(), done)

        first.add_done_callback(ask)
        return future

    def _make(self, key: Hashable, make: Callable[[], T]) -> None:
        with self._lock:
            asked = self._asked.pop(key)
        made: Future[T] = Future()
        try:
            made.set_result(make())
        except Exception as error:
            made.set_exception(error)
        for future in asked:
            _settle(future, made.exception(), made)


def _settle(future: Future[Any], error: BaseException | None, done: Future[Any]) -> None:
    if not future.set_running_or_notify_cancel():
        # Its client has gone; the others are not to go without.
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(done.result())
