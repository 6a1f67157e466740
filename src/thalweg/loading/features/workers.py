"""Processes that do a load's work on batches, while the one that loads reads the file and writes to the store.

A task is a function of a module with its arguments; results come in the order of the tasks. Processes end with the
one that started them: their pipe is closed then. Without processes (small files, one processor) tasks are done at once.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import queue
import resource
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Final, TypeVar

from thalweg.domain.errors import InvalidRequest, ThalwegError, TooLarge, told_again

T = TypeVar("T")

MAX_WORKERS: Final = 4
"""Beyond these the one that writes is what takes the time."""
MAX_MEMORY_BYTES: Final = 4 << 30
"""Of each process: a file made to unpack beyond all measure is refused, and takes nobody else's memory."""
WAITING: Final = 2
"""Tasks that each process has at a time: the next one is there when one is done."""
_COLLECT_TASKS: Final = 32
_END_S: Final = 5.0

Task = tuple[Callable[..., T], tuple[Any, ...]]


def processors() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """A context; processes are started by its first task.

    count         of processes; 0: none
    memory_bytes  that each may take
    """

    def __init__(self, count: int, memory_bytes: int = MAX_MEMORY_BYTES) -> None:
        self._count = min(count, MAX_WORKERS)
        self._memory_bytes = memory_bytes
        self._processes: list[Any] = []
        self._pipes: list[Connection] = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            # What they still do is for nobody.
            process.terminate()
        for process in self._processes:
            process.join(_END_S)
            if process.is_alive():
                process.kill()
                process.join()
        self._processes, self._pipes = [], []

    def map(self, tasks: Iterable[Task[T]]) -> Iterator[T]:
        """Results in the order of the tasks, of which no more are taken than are being done.

        raises  what a task raises, in its turn; InvalidRequest where a process was ended, TooLarge where it took too
                much memory
        """
        if not self._count:
            for function, arguments in tasks:
                with _no_collection():
                    result = function(*arguments)
                yield result
            return
        self._start()
        waiting: deque[Connection] = deque()
        for number, task in enumerate(tasks):
            pipe = self._pipes[number % self._count]
            try:
                pipe.send(task)
            except OSError:
                raise _ended() from None
            waiting.append(pipe)
            if len(waiting) >= WAITING * self._count:
                yield _received(waiting.popleft())
        while waiting:
            yield _received(waiting.popleft())

    def _start(self) -> None:
        # Fresh interpreters: a copy of a process with threads may hold their locks for ever.
        context = multiprocessing.get_context("spawn")
        while len(self._processes) < self._count:
            here, there = context.Pipe()
            process = context.Process(target=work, args=(there, self._memory_bytes), name="thalweg-loader", daemon=True)
            # Ctrl-C reaches every process of a terminal; the one that starts them ends them. A process inherits what is
            # blocked, so that it hears of none before it has said that it ignores it. (What starts with the first
            # process would end the blocking.)
            resource_tracker.ensure_running()
            before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
            try:
                process.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            there.close()
            self._processes.append(process)
            self._pipes.append(here)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Batches are trees of many small objects: to look for cycles among them takes as long as to parse them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _received(pipe: Connection) -> Any:
    try:
        message = pipe.recv()
    except (EOFError, OSError):
        raise _ended() from None
    match message:
        case ("done", result):
            return result
        case ("fault", kind, parameter, text):
            raise told_again(kind, parameter, text)
    raise _ended()


def _ended() -> InvalidRequest:
    return InvalidRequest("The file cannot be loaded: a process that reads it was ended, as by a lack of memory.")


# ------------------------------------------------------------------ in the process


def work(connection: Connection, memory_bytes: int) -> None:
    """What a process does until its pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    gc.disable()
    gc.freeze()
    tasks: queue.Queue[Task[Any] | None] = queue.Queue(WAITING)

    def receive() -> None:
        # Beside the work, so that whoever sends a task never waits for one that waits to be rid of a result.
        try:
            with suppress(EOFError, OSError):
                while True:
                    tasks.put(connection.recv())
        finally:
            tasks.put(None)

    threading.Thread(target=receive, name="tasks", daemon=True).start()
    done = 0
    while (task := tasks.get()) is not None:
        # Without collection, see ``_no_collection``; what little there is, is looked for now and then.
        message = _done(*task)
        del task
        done += 1
        if done % _COLLECT_TASKS == 0:
            gc.collect()
        try:
            connection.send(message)
        except OSError:
            return


def _done(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    try:
        return "done", function(*arguments)
    except MemoryError:
        error: ThalwegError = TooLarge("The file takes more memory than a load may have.")
    except ThalwegError as raised:
        error = raised
    except Exception as raised:
        # A library that meets a file it was not made for.
        error = InvalidRequest(f"The file cannot be read: {type(raised).__name__}: {str(raised)[:200]}")
    return "fault", type(error).__name__, error.parameter or "", error.message
