"""The short way: a request that has come whole is answered where its last byte is read, without ASGI.

An event loop's task, its coroutines and the messages between them take as long as a small answer itself. Here the same
steps are taken by plain calls: ``Asgi.open``, the caller, ``door.handle``, ``reply.at_once``. Whatever has to be waited
for goes on by ``Asgi.go_on`` from where it has got to: a caller who has to be looked up, a large or compressed body,
a streamed answer, one that takes long to compress, a write that may have to be made anew. Both ways give the same
bytes; a test holds them side by side.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from time import perf_counter

from thalweg.domain.access import Principal
from thalweg.domain.errors import StoreUnavailable
from thalweg.doors.http import Deferred, Response
from thalweg.server.asgi import INLINE_BODY_BYTES, Asgi, Exchange
from thalweg.server.contract import AsgiCallable, Later, Receive, Scope, Send
from thalweg.server.reply import Whole, at_once, is_large

_FORM = b"multipart/"

logger = logging.getLogger(__name__)


class ShortWay:
    """The short way past an application.

    together  within it, reads of the store see one state and share what each would do anew
    """

    def __init__(self, asgi: Asgi, together: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        self._asgi = asgi
        self.together = together

    def answer(self, scope: Scope, body: bytes) -> Whole | Later | AsgiCallable:
        try:
            return _answer(self._asgi, scope, body)
        except Exception:
            logger.exception("a request failed outside of its door")
            return _failed


async def _failed(scope: Scope, receive: Receive, send: Send) -> None:
    text = b"Internal error.\n"
    head = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(text))]
    await send({"type": "http.response.start", "status": 500, "headers": [*head, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": text})


def _answer(asgi: Asgi, scope: Scope, body: bytes) -> Whole | Later | AsgiCallable:
    exchange = asgi.open(scope, perf_counter())
    if exchange is None:
        return asgi
    request = exchange.request
    principal: Principal | None
    try:
        principal = asgi.known_caller(exchange)
    except Exception:
        # Told by the long way, which meets it again.
        principal = None
    if principal is None or not asgi.takes(exchange.door, exchange.method):
        return _by_asgi(asgi, exchange)
    if exchange.door.receive is not None and exchange.headers.get(b"content-type", b"").lower().startswith(_FORM):
        return _by_asgi(asgi, exchange)
    if body:
        if len(body) > min(INLINE_BODY_BYTES, asgi.body_limit(principal)) or b"content-encoding" in exchange.headers:
            return _by_asgi(asgi, exchange)
        try:
            asgi.budget.take(len(body))
        except StoreUnavailable:
            return _by_asgi(asgi, exchange)
    asgi.recognise(exchange, principal)
    request.body = body
    try:
        asgi.admit(request)
        result = exchange.door.handle(request, asgi.services)
    except Exception as error:
        result = asgi.failure(exchange.door, request, error)
    if isinstance(result, Response):
        if scope["scheme"] == "https" and is_large(result):
            # What is written at once is encrypted at once: each client that reads slowly would hold a copy of its own,
            # where without encryption all of them share the bytes that the door keeps.
            return _by_asgi(asgi, exchange, result)
        return _finished(asgi, exchange, result)
    if result.repeatable:
        return _by_asgi(asgi, exchange, result)
    return _Written(asgi, exchange, result)


def _by_asgi(asgi: Asgi, exchange: Exchange, result: Response | Deferred | None = None) -> AsgiCallable:
    async def go_on(scope: Scope, receive: Receive, send: Send) -> None:
        await asgi.go_on(exchange, receive, send, result)

    return go_on


def _finished(asgi: Asgi, exchange: Exchange, response: Response) -> Whole | AsgiCallable:
    minimum = asgi.settings.compress_min_bytes
    try:
        answer = at_once(exchange.method, exchange.headers, exchange.common, response, minimum)
    except ValueError as error:
        response = asgi.failure(exchange.door, exchange.request, error)
        answer = at_once(exchange.method, exchange.headers, exchange.common, response, minimum)
    if answer is None:
        return _by_asgi(asgi, exchange, response)
    if exchange.request.body:
        asgi.budget.give_back(len(exchange.request.body))
    asgi.log(exchange, answer.status, answer.size)
    return answer


class _Written:
    """The answer to a write, once that is durable."""

    __slots__ = ("_asgi", "_deferred", "_exchange")

    def __init__(self, asgi: Asgi, exchange: Exchange, deferred: Deferred) -> None:
        self._asgi = asgi
        self._exchange = exchange
        self._deferred = deferred

    def then(self, callback: Callable[[Whole | AsgiCallable], None]) -> None:
        asgi = self._asgi
        asgi.bridge.call(self._deferred.future, asgi.settings.request_timeout_s, partial(self._tell, callback))

    def _tell(self, callback: Callable[[Whole | AsgiCallable], None]) -> None:
        deferred, exchange = self._deferred, self._exchange
        # What is done must not be held by the frames of its own failure; see Bridge.wait.
        del self._deferred
        try:
            if not deferred.future.done():
                raise self._asgi.unconfirmed()
            response = deferred.finish(deferred.future.result())
        except Exception as error:
            response = self._asgi.failure(exchange.door, exchange.request, error)
        finally:
            del deferred
        callback(_finished(self._asgi, exchange, response))
