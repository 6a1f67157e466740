"""A small HTTP/1.1 client for load: one connection sends one request at a time and notes when what happened.

Written for this use, as the generator shares the machine with the server: it costs about 30 microseconds a request
and decodes nothing it need not.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import httptools

from thalweg.bench.errors import BenchError

MAX_ANSWER_BYTES: Final = 1 << 30
"""Longest answer that is taken; a target that never ends must not fill the memory."""
LONG_BYTES: Final = 256 * 1024
"""Of a body whose declared length passes this only the beginning is kept, some hundred kilobytes: answers are judged by
their first bytes, and 2,000 users who hold a document of 7 MB each would fill the generator's memory with them."""
_JUDGED_BYTES: Final = 4096
"""That much of it is there in any case."""
_BUFFER: Final = memoryview(bytearray(256 * 1024))
"""Where all connections read to: what has come is dealt with before the next of them reads."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. Times in seconds since the request was sent, a new connection's set-up included.

    body  its beginning alone where it is long (``LONG_BYTES``)
    size  bytes of the whole body
    """

    status: int
    headers: dict[str, str]
    body: bytes
    size: int
    first_s: float
    connect_s: float


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a target is; ``prefix`` is what its paths begin with."""

    host: str
    port: int
    tls: bool
    prefix: str

    @property
    def name(self) -> str:
        """The Host header."""
        usual = 443 if self.tls else 80
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == usual else f"{host}:{self.port}"


def origin(url: str) -> Origin:
    """The parts of an address. Raises BenchError for what is no http or https address."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
        raise BenchError(f"'{url}' is no address; allowed are http://HOST[:PORT][/PATH] and https://….")
    tls = parts.scheme == "https"
    return Origin(parts.hostname, port or (443 if tls else 80), tls, parts.path.rstrip("/"))


class _Wire(asyncio.BufferedProtocol):
    """One open connection."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.closed = False
        self._parser: httptools.HttpResponseParser | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.first = 0.0
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body: list[bytes] = []
        self.size = 0
        self._keep = True
        self.begun = False
        self._until_close = False
        self._left = 0

    # -------------------------------------------------------------- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # a stream transport, as create_connection gives

    def get_buffer(self, sizehint: int) -> memoryview:
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        if not self.begun:
            self.begun = True
            self.first = time.perf_counter()
        if self._parser is None or self._waiter is None or self._waiter.done():
            # An answer that nobody has asked for.
            self.close()
            return
        if self._left:
            self._go_on(nbytes)
            return
        try:
            self._parser.feed_data(_BUFFER[:nbytes])
        except httptools.HttpParserError as error:
            self._fail(ConnectionError(f"not HTTP: {error}"))

    def _go_on(self, nbytes: int) -> None:
        """Take more of a long body, which is counted; the parser sees no more of it."""
        if self.size < _JUDGED_BYTES:
            self.body.append(bytes(_BUFFER[:nbytes]))
        self.size += nbytes
        self._left -= nbytes
        if self._left < 0:
            self._fail(ConnectionError("more than the length it told"))
        elif self._left == 0:
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._waiter is not None and not self._waiter.done():
            if self._until_close and exc is None:
                # RFC 9112 section 6.3: without a length the body ends with the connection.
                self._keep = False
                self._waiter.set_result(None)
            else:
                self._waiter.set_exception(ConnectionResetError("closed" if exc is None else str(exc)))

    # -------------------------------------------------------------- httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._parser is None:
            return
        self.status = self._parser.get_status_code()
        self._until_close = not (
            "content-length" in self.headers
            or "chunked" in self.headers.get("transfer-encoding", "")
            or self.status in (204, 304)
        )
        self._keep = self._parser.should_keep_alive()
        length = self.headers.get("content-length", "")
        if "transfer-encoding" not in self.headers and length.isdecimal() and int(length) > LONG_BYTES:
            self._left = int(length)
            if self._left > MAX_ANSWER_BYTES:
                self._fail(ConnectionError(f"more than {MAX_ANSWER_BYTES} bytes"))

    def on_body(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > MAX_ANSWER_BYTES:
            self._fail(ConnectionError(f"more than {MAX_ANSWER_BYTES} bytes"))
            return
        if self._left:
            # What came together with the head.
            self._left -= len(data)
        self.body.append(data)

    def on_message_complete(self) -> None:
        if self.status < 200:
            # 100 Continue and the like: the answer follows.
            self.headers = {}
            return
        self._left = 0
        self._end()

    def _end(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # -------------------------------------------------------------- use

    async def ask(self, data: bytes) -> bool:
        """Send a request and wait for its answer; says whether the connection may be used again."""
        self._parser = httptools.HttpResponseParser(self)
        self._waiter = asyncio.get_running_loop().create_future()
        self.headers, self.body, self.size, self.status = {}, [], 0, 0
        self.begun = self._until_close = False
        self._left = 0
        self._keep = True
        if self.transport is None or self.closed:
            raise ConnectionResetError("closed")
        self.transport.write(data)
        await self._waiter
        return self._keep and not self.closed

    def close(self) -> None:
        self.closed = True
        if self.transport is not None:
            self.transport.abort()

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self.close()


class Connection:
    """A kept connection to one origin, opened again where the server has closed it."""

    def __init__(self, to: Origin, context: ssl.SSLContext | None = None) -> None:
        self._origin = to
        self._context = context or (ssl.create_default_context() if to.tls else None)
        self._wire: _Wire | None = None

    async def ask(self, data: bytes, *, repeatable: bool) -> Answer:
        """Send a request and wait for the whole answer.

        repeatable  a request that may be sent again (GET) when a kept connection turns out to be closed before a byte
                    of an answer has come (RFC 9110 section 9.2.2)
        raises      OSError for a connection that cannot be made or breaks
        """
        begin = time.perf_counter()
        kept = self._wire is not None and not self._wire.closed
        connect_s = 0.0
        while True:
            wire = self._wire
            if wire is None or wire.closed:
                connecting = time.perf_counter()
                loop = asyncio.get_running_loop()
                _, wire = await loop.create_connection(
                    _Wire, self._origin.host, self._origin.port, ssl=self._context,
                )  # fmt: skip
                connect_s += time.perf_counter() - connecting
                self._wire = wire
            try:
                usable = await wire.ask(data)
            except ConnectionResetError:
                again = kept and repeatable and not wire.begun
                self.close()
                if not again:
                    raise
                kept = False
                continue
            except BaseException:
                # Cancelled or broken: the answer may still come, so the connection is of no more use.
                self.close()
                raise
            if not usable:
                self.close()
            body, wire.body = b"".join(wire.body), []
            return Answer(wire.status, wire.headers, body, wire.size, wire.first - begin, connect_s)

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None
