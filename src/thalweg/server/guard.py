"""Time and size limits of connections, which the HTTP library leaves to others.

uvicorn holds for ever a client that sends its headers or its body a byte at a time, one that connects and says
nothing, and one that does not read its answer. Here each connection notes when what it waits for began, and one sweep
a second over all connections ends those that are late, so that a request in time costs two looks at the clock.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, cast

from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from thalweg.server.clients import Networks, client_of
from thalweg.server.contract import AsgiCallable, Direct, Receive, Scope, Send
from thalweg.server.reply import Whole
from thalweg.server.turn import Turn
from thalweg.settings import Settings

logger = logging.getLogger(__name__)

SWEEP_S: Final = 0.5
_RATE_GRACE_S: Final = 5.0
"""A body's mean rate is looked at from then on."""
_LINGER_S: Final = 3.0
"""How long a body that nobody wants any more is read on, so that the client gets to read its answer: closing a
socket with unread data resets the connection, and the answer is lost."""
_FRAMING: Final = 16
"""Bytes of chunk sizes that may come with each byte of a chunked body, beside one head's worth: six are needed where
each chunk holds a single byte. What is more can only be chunk extensions and trailers, which nobody here reads."""
_REFUSED_PLACES: Final = 100
"""Connections above the limit that are held to be told so; further ones are closed at once."""


class GuardedProtocol(HttpToolsProtocol):
    """One connection. ``settings`` and ``turn`` are set by ``guarded``."""

    settings: Settings
    turn: Turn
    unlimited: Networks
    by_address: Counter[str]

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config=config, server_state=server_state, app_state=app_state, _loop=_loop)
        self.address = ""
        # Instants of time.monotonic, 0 while nothing of the kind is under way.
        self.head_since = 0.0
        self.head_bytes = 0
        self.piece_bytes = 0
        self.body_since = 0.0
        self.body_bytes = 0
        self.content_bytes = 0
        self.answered_since = 0.0
        self.stalled_since = 0.0
        self.stalled_bytes = 0
        self.is_arriving = False
        self.arriving: RequestResponseCycle | None = None

    @property
    def is_between_requests(self) -> bool:
        """Whether no request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle
        # uvicorn declares it as always there; before the first request it is not.
        return cycle is None or cycle.response_complete

    # ------------------------------------------------------------ connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.head_since = time.monotonic()
        open_now = len(self.connections)
        limit = self.settings.max_connections
        if open_now > limit + _REFUSED_PLACES:
            transport.abort()
            return
        if open_now > limit:
            self.app = _refusal(503, "The server has as many connections as it can serve; try again shortly.")
        limit = self.settings.max_connections_per_address
        # All connections of a proxy's clients are its own.
        if limit and self.client is not None and not self.unlimited.holds(self.client[0]):
            self.address = client_of(self.client[0])
            self.by_address[self.address] += 1
            if self.by_address[self.address] > limit:
                self.app = _refusal(503, "This address has as many connections open as are allowed to one.")

    def connection_lost(self, exc: Exception | None) -> None:
        if self.address:
            self.by_address[self.address] -= 1
            if self.by_address[self.address] <= 0:
                del self.by_address[self.address]
            self.address = ""
        # uvicorn leaves the timer running when the connection broke.
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    # ------------------------------------------------------------ request

    def data_received(self, data: bytes) -> None:
        self.piece_bytes = len(data)
        if self.body_since:
            self.body_bytes += len(data)
        elif self.head_since:
            self.head_bytes += len(data)
        super().data_received(data)
        if self.arriving is not None:
            # The rest of its body is still to come.
            self.by_asgi(self.arriving, self.app)
        if self.body_since:
            allowed = self.settings.max_header_bytes + _FRAMING * self.content_bytes
            if self.body_bytes - self.content_bytes > allowed:
                self._close_with(431, "The body's chunks have larger extensions or trailers than allowed.")
        elif self.head_since:
            if self.head_bytes > self.settings.max_header_bytes + self.settings.max_url_bytes:
                self._close_with(431, "The request's headers are larger than allowed.")
        elif not self.body_since and self.timeout_keep_alive_task is None and self.is_between_requests:
            # Empty lines before a request begin no message, but have stopped the timer of an idle connection.
            self.head_since = time.monotonic()
            self.head_bytes = len(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.head_since = time.monotonic()
        # More than the head where other things came in the same piece: enough to know when to count exactly.
        self.head_bytes = self.piece_bytes

    def on_header(self, name: bytes, value: bytes) -> None:
        # Those that follow a chunked body (trailers) are no headers, or a client could name there what a proxy in
        # front of the server has checked or taken away (RFC 9110 section 6.5.1).
        if not self.body_since:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self.content_bytes += len(body)
        super().on_body(body)

    def on_headers_complete(self) -> None:
        self.head_since = 0.0
        self.body_since = time.monotonic()
        self.body_bytes = 0
        self.content_bytes = 0
        self.answered_since = 0.0
        settings = self.settings
        if self.head_bytes > settings.max_url_bytes or len(self.headers) > settings.max_headers:
            self._check_head()
        # Last, so that it is what is answered: of a request whose parts can be read in two ways nothing is to be used.
        self._check_single()
        if len(self.pipeline) >= settings.max_pipelined:
            # One piece of 256 kB may hold thousands, each of which would take up some kilobytes while it waits.
            self.transport.abort()
            raise ValueError("too many requests sent ahead")
        # A client that waits for leave to send its body is unusual enough for the long way, which gives it.
        self.is_arriving = self.app is self.config.loaded_app and not self.expect_100_continue
        super().on_headers_complete()
        self.is_arriving = False

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: AsgiCallable) -> None:  # type: ignore[override]
        if self.is_arriving:
            # Called for the request whose head has just been read: it waits for its body, which most often is here.
            self.arriving = cycle
        else:
            self.by_asgi(cycle, app)

    def by_asgi(self, cycle: RequestResponseCycle, app: AsgiCallable) -> None:
        self.arriving = None
        if cycle.scope["method"] != "HEAD":
            # Nothing of it has run yet: its task begins in the next turn of the loop.
            cycle.transport = cast("asyncio.Transport", _OneWrite(cycle.transport))
        super()._start_asgi_task(cycle, cast("ASGI3Application", app))

    def _check_single(self) -> None:
        """Have a request refused that names its host not once, or its caller twice (RFC 9112 section 3.2, RFC 9110
        section 5.3), or whose body comes encoded otherwise than in chunks."""
        names = [name for name, _ in self.headers]
        if names.count(b"host") != 1 and (self.parser.get_http_version() != "1.0" or b"host" in names):
            self.app = _refusal(400, "The request needs one header Host, and no more than one.")
        elif names.count(b"authorization") > 1:
            self.app = _refusal(400, "The request has more than one header Authorization.")
        elif b"transfer-encoding" in names and any(
            name == b"transfer-encoding" and value.strip().lower() != b"chunked" for name, value in self.headers
        ):
            self.app = _refusal(501, "Of transfer codings, only 'chunked' is read.")

    def _check_head(self) -> None:
        """Have a request whose head passes a limit answered by that alone."""
        settings = self.settings
        if len(self.url) > settings.max_url_bytes:
            self.app = _refusal(414, f"The path and query are longer than {settings.max_url_bytes:,} bytes.")
        elif len(self.headers) > settings.max_headers:
            self.app = _refusal(431, f"The request has more than {settings.max_headers} headers.")
        elif sum(len(name) + len(value) for name, value in self.headers) > settings.max_header_bytes:
            self.app = _refusal(431, f"The request's headers are larger than {settings.max_header_bytes:,} bytes.")

    def on_message_complete(self) -> None:
        self.body_since = 0.0
        super().on_message_complete()
        cycle = self.arriving
        if cycle is None:
            return
        if self.flow.write_paused:
            self.by_asgi(cycle, self.app)
        else:
            self.arriving = None
            self.turn.take(self.loop, (self, cycle))

    def write(self, cycle: RequestResponseCycle, answer: Whole) -> None:
        """Write a whole answer, and go on with what comes next, as ``RequestResponseCycle.send`` does."""
        cycle.response_started = cycle.response_complete = True
        transport = self.transport
        # uvloop raises where the transport is closing.
        if not cycle.disconnected and not transport.is_closing():
            parts = [STATUS_LINE[answer.status]]
            for name, value in self.server_state.default_headers:
                parts += (name, b": ", value, b"\r\n")
            for name, value in answer.head:
                parts += (name, b": ", value, b"\r\n")
            parts.append(b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n")
            body = answer.body
            if isinstance(body, bytes) and len(body) <= _COPIED_BYTES:
                parts.append(body)
                transport.write(b"".join(parts))
            else:
                transport.writelines((b"".join(parts), *((body,) if isinstance(body, bytes) else body)))
            if not cycle.keep_alive:
                transport.close()
        self.on_response_complete()

    def on_response_complete(self) -> None:
        if self.body_since:
            self.answered_since = time.monotonic()
        super().on_response_complete()

    # ------------------------------------------------------------ answer

    def pause_writing(self) -> None:
        super().pause_writing()
        self.stalled_since = time.monotonic()
        self.stalled_bytes = self.transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.stalled_since = 0.0

    # ------------------------------------------------------------ sweep

    def check(self, now: float) -> None:
        """End the connection if what it waits for is late."""
        settings = self.settings
        # Also once the connection is to be closed: it stays open until the client has read the rest.
        if self.stalled_since and now - self.stalled_since > settings.send_timeout_s:
            # While stalled nothing is added to the buffer, so that it only shrinks.
            left = self.transport.get_write_buffer_size()
            least = max(1, settings.min_send_rate_bytes_s * settings.send_timeout_s)
            if self.stalled_bytes - left < least:
                logger.info("closed a connection whose client did not read its answer")
                self._reset()
                return
            self.stalled_since = now
            self.stalled_bytes = left
        if self.transport.is_closing():
            return
        if self.head_since and now - self.head_since > settings.head_timeout_s:
            if self.head_bytes and self.is_between_requests:
                self._close_with(408, f"The request's headers did not arrive within {settings.head_timeout_s:g} s.")
            else:
                self.transport.close()
        elif self.body_since:
            self._check_body(now)

    def _reset(self) -> None:
        """Close at once, and have the system forget what it still holds for the client: some megabytes, that it would
        go on to offer for minutes."""
        connection = self.transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()

    def _check_body(self, now: float) -> None:
        settings = self.settings
        if self.answered_since:
            if now - self.answered_since > _LINGER_S:
                self.transport.close()
            return
        if self.flow.read_paused:
            # It is the server that does not read; the clock starts anew when it does.
            self.body_since = now
            self.body_bytes = 0
            self.content_bytes = 0
            return
        elapsed = now - self.body_since
        if elapsed > settings.body_timeout_s:
            self._close_with(408, f"The request's body did not arrive within {settings.body_timeout_s:g} s.")
        elif elapsed > _RATE_GRACE_S and self.body_bytes < settings.min_body_rate_bytes_s * elapsed:
            self._close_with(408, f"The request's body arrives slower than {settings.min_body_rate_bytes_s:,} bytes/s.")

    def _close_with(self, status: int, text: str) -> None:
        """Answer in place of the application, whose request is not whole, and close."""
        if self.transport.is_closing():
            return
        if self.is_between_requests or not self.cycle.response_started:
            body = f"{text}\n".encode()
            self.transport.write(
                b"HTTP/1.1 %d %s\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
                b"connection: close\r\n\r\n%s" % (status, _PHRASES[status], len(body), body)
            )
        self.transport.close()


class _OneWrite:
    """The transport of one request and its answer, which sends the head together with the first of the body.

    uvicorn writes them apart, and each write is a system call that wakes the client: a tenth of the time of a small
    answer. A head is always followed by a write of the body (if empty, of no bytes) or by closing, except for HEAD.
    """

    __slots__ = ("_begun", "_head", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        self._begun = False

    def write(self, data: bytes) -> None:
        if self._transport.is_closing():
            # uvloop raises; uvicorn hears of a client that has gone only in the next turn of the loop.
            self._head = b""
            return
        if self._head:
            head, self._head = self._head, b""
            self._transport.writelines((head, data))
        elif self._begun or data == _CONTINUE:
            self._transport.write(data)
        else:
            self._begun = True
            self._head = data

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        if self._head:
            self._transport.write(self._head)
            self._head = b""
        self._transport.close()


_COPIED_BYTES: Final = 16 * 1024
"""A body of up to this size is sent as one piece with its head, which is cheaper than two."""
_NO_LINGER: Final = struct.pack("ii", 1, 0)
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_PHRASES: Final = {408: b"Request Timeout", 431: b"Request Header Fields Too Large"}


def guarded(settings: Settings, direct: Direct) -> type[GuardedProtocol]:
    """The protocol class of one worker, with its limits, its turns and its count of connections by address."""
    members = {
        "settings": settings,
        "turn": Turn(direct),
        "unlimited": Networks((*settings.trusted_clients, *settings.trusted_proxies)),
        "by_address": Counter(),
    }
    return type("Guarded", (GuardedProtocol,), members)


def sweep(connections: Iterable[object]) -> None:
    """Check all connections; about a millisecond for 5,000."""
    now = time.monotonic()
    for connection in list(connections):
        if isinstance(connection, GuardedProtocol):
            connection.check(now)


def _refusal(status: int, text: str) -> AsgiCallable:
    """An application that says one thing, whatever is asked, and closes the connection."""
    body = f"{text}\n".encode()
    head = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    if status == 503:
        head.append((b"retry-after", b"2"))

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    return refuse
