"""Work that takes longer than an event loop should be held up: in a few threads of the door, without one per waiter."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from thalweg.domain.errors import StoreUnavailable
from thalweg.doors.http import Deferred, Response

THREADS: Final = 2
"""Administration waits for commits, and large pages are turned into other syntaxes: both seldom."""
MAX_WAITING: Final = 200

_lock: Final = threading.Lock()
_executor: ThreadPoolExecutor | None = None
_waiting = 0


def in_thread(work: Callable[[], Response]) -> Deferred:
    """The answer that the function gives, made in a thread. StoreUnavailable if too many wait already."""
    global _executor, _waiting
    with _lock:
        if _waiting >= MAX_WAITING:
            raise StoreUnavailable("The server is busy; try again shortly.", retry_after_s=2)
        if _executor is None:
            _executor = ThreadPoolExecutor(THREADS, thread_name_prefix="ldes")
        _waiting += 1
    future = _executor.submit(work)
    future.add_done_callback(_done)
    return Deferred(future, _itself)


def _done(_: Future[Response]) -> None:
    global _waiting
    with _lock:
        _waiting -= 1


def _itself(response: Response) -> Response:
    return response
