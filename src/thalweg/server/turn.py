"""Requests that are answered together: those that have come whole since the last turn of the event loop.

A system call, or another kind of work, leaves the processor's caches cold for what follows: answering a request right
where its last byte is read, and sending each answer by itself, takes a third more time than first reading what has come
on all connections, then making the answers, then sending them. The answers of one turn also share what each of them
would find out anew (``Direct.together``). Nobody waits for long: a turn is cut where its answers get large, or old.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from thalweg.server.contract import AsgiCallable, Direct, Later, Scope
from thalweg.server.reply import Whole

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    from thalweg.server.guard import GuardedProtocol

logger = logging.getLogger(__name__)

MAX_ANSWERS: Final = 16
"""Answers that are sent together."""
MAX_BYTES: Final = 256 * 1024
"""Answers of this size together are sent before any other is made."""
MAX_S: Final = 0.003
"""An answer waits this long for others at most, and for the one being made."""

Answer: TypeAlias = Whole | Later | AsgiCallable
Request: TypeAlias = "tuple[GuardedProtocol, RequestResponseCycle]"


class Turn:
    """The requests that wait for the next turn, and the answers that wait to be sent; of one worker's connections."""

    def __init__(self, direct: Direct) -> None:
        self._direct = direct
        self._requests: deque[Request] = deque()
        self._ready: deque[tuple[Request, Whole]] = deque()
        self._is_due = False

    def take(self, loop: asyncio.AbstractEventLoop, request: Request) -> None:
        """A request that has come whole; it is answered in the next turn of the loop."""
        self._requests.append(request)
        if not self._is_due:
            self._is_due = True
            loop.call_soon(self._answer)

    def _answer(self) -> None:
        self._is_due = False
        requests = self._requests
        if len(requests) == 1:
            self._answer_some()
        while requests:
            with self._direct.together():
                self._answer_some()
            self._send()
        self._send()

    def _answer_some(self) -> None:
        begun = perf_counter()
        size = 0
        for _ in range(min(MAX_ANSWERS, len(self._requests))):
            connection, cycle = request = self._requests.popleft()
            answer = self._direct.answer(cast("Scope", cycle.scope), bytes(cycle.body))
            if isinstance(answer, Whole):
                self._ready.append((request, answer))
                size += answer.size
            elif callable(answer):
                connection.by_asgi(cycle, answer)
            else:
                answer.then(partial(self._later, request))
            if size > MAX_BYTES or perf_counter() - begun > MAX_S:
                return

    def _later(self, request: Request, answer: Whole | AsgiCallable) -> None:
        """An answer that had to be waited for. Those of one commit come one right after the other."""
        connection, cycle = request
        if not isinstance(answer, Whole):
            connection.by_asgi(cycle, answer)
            return
        self._ready.append((request, answer))
        if len(self._ready) == 1:
            connection.loop.call_soon(self._send)

    def _send(self) -> None:
        while self._ready:
            (connection, cycle), answer = self._ready.popleft()
            try:
                connection.write(cycle, answer)
            except Exception:
                # One connection's trouble is not that of those after it.
                logger.exception("an answer could not be sent")
                connection.transport.abort()
