"""Responses on their way out: validators, compression, streaming with back-pressure.

``at_once`` makes the answer of which all bytes lie ready, for both ways a request can take: ``Reply`` sends it by ASGI,
``guard`` writes it straight to the connection.
"""

from __future__ import annotations

import asyncio
import re
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import lru_cache
from threading import Lock
from typing import Final, NamedTuple, TypeAlias, cast

from thalweg.domain.errors import StoreUnavailable
from thalweg.doors.http import Kept, Response
from thalweg.server.contract import Receive, Send
from thalweg.server.pool import Pool

Header: TypeAlias = tuple[bytes, bytes]
_Ready: TypeAlias = bytes | tuple[bytes, ...] | list[bytes]

BLOCK_BYTES: Final = 64 * 1024
"""Streamed answers leave in pieces of about this size, whatever the items of the iterator."""
PIECE_BYTES: Final = 256 * 1024
"""A larger block is handed to the transport in pieces, each once the client has taken most of the one before: what
waits for a client is then the block itself, not a second copy of it."""
_INLINE_COMPRESS_BYTES: Final = 256 * 1024
"""Larger answers are compressed in a thread (level 1: about 4 µs per KiB)."""
_PULL_S: Final = 0.05

# A document of data runs nothing and is no page, whatever a browser makes of it.
SECURITY_HEADERS: Final[list[Header]] = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; sandbox"),
]

_POLICY: Final = b"content-security-policy"


class BrokenOff(Exception):
    """The answer failed after its status line had gone out; the connection has to be closed without its end."""


@lru_cache(maxsize=256)
def accepts_gzip(accept_encoding: bytes) -> bool:
    """Whether a value of Accept-Encoding allows gzip (RFC 9110 section 12.5.3)."""
    anything = False
    for item in accept_encoding.lower().split(b","):
        name, _, parameters = item.partition(b";")
        weight = parameters.partition(b"q=")[2].strip()
        refused = weight != b"" and not weight.strip(b"0.")
        if name.strip() in (b"gzip", b"x-gzip"):
            return not refused
        if name.strip() == b"*":
            anything = not refused
    return anything


@lru_cache(maxsize=256)
def _is_compressible(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind.endswith(("xml", "json", "/n-triples", "/n-quads", "/trig"))


_AS_IT_IS: Final = (b"content-encoding", b"content-range", b"accept-ranges", b"content-length")
"""Headers of what is sent byte by byte as it is."""
_LONGEST_REMEMBERED: Final = 256
_NO_HEADER_VALUE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_NO_HEADER_NAME: Final = re.compile(r"[\x00-\x20\x7f()<>@,;:\\\[\]={}\"]")


def _line(name: str, value: str) -> Header:
    """A header as sent. ValueError for one that would break the head apart; UnicodeEncodeError is one, too."""
    if _NO_HEADER_NAME.search(name) or _NO_HEADER_VALUE.search(value):
        raise ValueError(f"the header '{name[:40]!r}' of an answer holds control characters")
    return name.lower().encode("latin-1"), value.encode("latin-1")


_remembered_line: Final = lru_cache(maxsize=1024)(_line)


def header_line(name: str, value: str) -> Header:
    """``_line``, remembered where it is short: the same few come again and again."""
    return _remembered_line(name, value) if len(value) <= _LONGEST_REMEMBERED else _line(name, value)


def matches(if_none_match: bytes, etag: str) -> bool:
    """Whether a value of If-None-Match names the validator (weak comparison, RFC 9110 section 13.1.2)."""
    if if_none_match.strip() == b"*":
        return True
    own = etag.encode("latin-1").removeprefix(b"W/")
    return any(item.strip().removeprefix(b"W/") == own for item in if_none_match.split(b","))


class Whole(NamedTuple):
    """An answer of which every byte is there.

    head  in order, with its length
    size  bytes of the body as told to the client; HEAD has a size and no body
    """

    status: int
    head: list[Header]
    body: bytes | tuple[bytes, ...] | list[bytes]
    size: int


def at_once(
    method: str,
    headers: dict[bytes, bytes],
    common: list[Header],
    response: Response,
    compress_min_bytes: int,
    compressed: bytes | None = None,
) -> Whole | None:
    """The answer, if nothing has to be waited for; None for a stream, and for a large body that is to be compressed.

    method      as received
    headers     of the request, names in lower case
    common      headers that every answer to this request gets
    compressed  the body compressed, where that has been waited for
    raises      ValueError for a header of the response that is none
    """
    body = response.body
    if not isinstance(body, bytes | tuple | list):
        return None
    if is_known(method, headers, response):
        return Whole(304, head_of(method, common, response), b"", 0)
    head = head_of(method, common, response)
    size = len(body) if isinstance(body, bytes) else sum(map(len, body))
    if 0 < compress_min_bytes <= size and may_compress(response, head):
        head.append((b"vary", b"accept-encoding"))
        if accepts_gzip(headers.get(b"accept-encoding", b"")):
            if compressed is None and response.kept is not None:
                compressed = response.kept.compressed
            if compressed is None:
                if size > _INLINE_COMPRESS_BYTES:
                    return None
                compressed = _gzip(body)
            body = compressed
            size = len(body)
            _mark_compressed(head)
    # RFC 9110 section 8.6: no length with 204.
    if response.status != 204:
        head.append((b"content-length", b"%d" % size))
    return Whole(response.status, head, b"" if method == "HEAD" else body, size)


def is_large(response: Response) -> bool:
    """Whether its body lies ready and is sent in more than one piece where each waits for the client."""
    body = response.body
    if isinstance(body, bytes):
        return len(body) > PIECE_BYTES
    return isinstance(body, tuple | list) and sum(map(len, body)) > PIECE_BYTES


def is_known(method: str, headers: dict[bytes, bytes], response: Response) -> bool:
    """Whether the client has the response already, by its validator."""
    if not response.etag or response.status != 200 or method not in ("GET", "HEAD"):
        return False
    known = headers.get(b"if-none-match")
    return known is not None and matches(known, response.etag)


def head_of(method: str, common: list[Header], response: Response) -> list[Header]:
    """All headers but those that tell of the body's length and coding. Raises ValueError."""
    head = [*common]
    if response.content_type:
        head.append(header_line("content-type", response.content_type))
    for name, value in response.headers:
        line = header_line(name, value)
        if line[0] == _POLICY:
            # A page says its own policy: of two, browsers enforce both.
            head = [item for item in head if item[0] != _POLICY]
        head.append(line)
    if response.etag and method != "POST":
        head.append(header_line("etag", response.etag))
        if not any(name == "Cache-Control" for name, _ in response.headers):
            # Kept by caches, asked for again each time.
            head.append((b"cache-control", b"no-cache"))
    return head


def may_compress(response: Response, head: list[Header]) -> bool:
    return _is_compressible(response.content_type) and not any(name in _AS_IT_IS for name, _ in head)


class Reply:
    """Sends one response.

    method      as received; HEAD sends no body
    headers     of the request, names in lower case
    common      headers that every answer to this request gets
    heavy       entered while an answer is streamed; may refuse that by an exception
    """

    __slots__ = ("_common", "_headers", "_heavy", "_method", "_minimum", "_pool", "_receive", "_send", "size", "status")

    def __init__(
        self,
        method: str,
        headers: dict[bytes, bytes],
        common: list[Header],
        receive: Receive,
        send: Send,
        pool: Pool,
        compress_min_bytes: int,
        heavy: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._method = method
        self._headers = headers
        self._common = common
        self._receive = receive
        self._send = send
        self._pool = pool
        self._minimum = compress_min_bytes
        self._heavy = heavy
        self.status = 0
        self.size = 0

    @property
    def begun(self) -> bool:
        """Whether the status line has gone out."""
        return self.status != 0

    async def send(self, response: Response) -> None:
        """Send it whole.

        raises  whatever the body's iterator raises before its first block, with nothing sent yet;
                BrokenOff if it fails later
        """
        body = response.body
        if isinstance(body, bytes | tuple | list):
            await self._whole(response)
        elif is_known(self._method, self._headers, response):
            self._close(_Blocks(body))
            await self._start(304, head_of(self._method, self._common, response))
            await self._send({"type": "http.response.body", "body": b""})
        else:
            try:
                busy = self._heavy()
                busy.__enter__()
            except BaseException:
                self._close(_Blocks(body))
                raise
            try:
                await self._stream(response, body)
            finally:
                busy.__exit__(None, None, None)

    async def _start(self, status: int, head: list[Header]) -> None:
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": head})

    async def _whole(self, response: Response) -> None:
        answer = at_once(self._method, self._headers, self._common, response, self._minimum)
        if answer is None:
            # Streams do not come here: it is to be compressed, and large.
            compressed = await self._compressed(cast("_Ready", response.body), response.kept)
            answer = at_once(self._method, self._headers, self._common, response, self._minimum, compressed)
        status, head, body, self.size = cast("Whole", answer)
        await self._start(status, head)
        more: list[bytes] | tuple[bytes, ...] = () if isinstance(body, bytes) else body
        last = body if isinstance(body, bytes) else b""
        if self.size <= PIECE_BYTES:
            last = b"".join((*more, last))
        else:
            for block in more:
                await self._pieces(block)
            last = await self._pieces(last, last=True)
        await self._send({"type": "http.response.body", "body": last})

    async def _pieces(self, block: bytes, *, last: bool = False) -> bytes:
        """Send a block of a large body, each piece once the client has read most of what was sent before.

        last  its last piece is given back, to end the answer with
        """
        sent = 0
        while len(block) - sent > (PIECE_BYTES if last else 0):
            piece = block[sent : sent + PIECE_BYTES]
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})
            sent += len(piece)
        return block[sent:]

    async def _compressed(self, body: _Ready, kept: Kept | None) -> bytes:
        """The body in gzip, of a kept one made once for all who ask for it meanwhile."""
        if kept is None:
            return await self._pool.run(_gzip, body)
        making = kept.making
        if making is None:
            making = kept.making = self._pool.submit(_gzip, body)
        try:
            kept.compressed = compressed = await self._pool.share(making)
        finally:
            # Made, or to be tried again.
            if making.done() and kept.making is making:
                kept.making = None
            # As in Bridge.wait.
            del making
        return compressed

    async def _stream(self, response: Response, iterator: Iterator[bytes]) -> None:
        blocks = _Blocks(iterator)
        ended = False
        gone: asyncio.Task[None] | None = None
        try:
            block, ended = await self._pool.run(blocks.pull)
            if ended:
                await self._whole(replace(response, body=block))
                return
            head = head_of(self._method, self._common, response)
            if self._minimum and may_compress(response, head):
                head.append((b"vary", b"accept-encoding"))
                if accepts_gzip(self._headers.get(b"accept-encoding", b"")):
                    _mark_compressed(head)
                    block = await self._pool.go_on(blocks.compress_from, block)
            await self._start(response.status, head)
            if self._method == "HEAD":
                await self._send({"type": "http.response.body", "body": b""})
                return
            gone = asyncio.ensure_future(self._until_gone())
            while True:
                # A compressor may hold back what it was given.
                if block or ended:
                    self.size += len(block)
                    sent = 0
                    while len(block) - sent > PIECE_BYTES and not gone.done():
                        # Waits while the client has not read what was sent before.
                        piece = block[sent : sent + PIECE_BYTES]
                        await self._send({"type": "http.response.body", "body": piece, "more_body": True})
                        sent += PIECE_BYTES
                    rest = block[sent:] if sent else block
                    await self._send({"type": "http.response.body", "body": rest, "more_body": not ended})
                    del rest
                if ended or gone.done():
                    return
                try:
                    block, ended = await self._pool.go_on(blocks.pull)
                except Exception as error:
                    raise BrokenOff from error
        finally:
            if gone is not None:
                gone.cancel()
            if not ended:
                self._close(blocks)

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def _close(self, blocks: _Blocks) -> None:
        """Close the iterator in a thread, after the pull that may still run in one; nobody waits for it."""
        try:
            self._pool.submit(blocks.close)
        except StoreUnavailable:
            # The pool is closed: the process ends.
            pass


class _Blocks:
    """The items of an iterator, joined to blocks and compressed. ``close`` waits for a pull that still runs, as a
    generator cannot be closed while it runs."""

    def __init__(self, iterator: Iterator[bytes]) -> None:
        self._iterator = iterator
        self._lock = Lock()
        self._compressor: zlib._Compress | None = None

    def pull(self) -> tuple[bytes, bool]:
        """Items until there are BLOCK_BYTES or some time has passed, and whether they were the last ones."""
        items: list[bytes] = []
        size = 0
        ended = True
        deadline = time.monotonic() + _PULL_S
        with self._lock:
            for item in self._iterator:
                items.append(item)
                size += len(item)
                if size >= BLOCK_BYTES or time.monotonic() > deadline:
                    ended = False
                    break
        block = items[0] if len(items) == 1 else b"".join(items)
        if self._compressor is not None:
            block = self._compressor.compress(block)
            if ended:
                block += self._compressor.flush()
        return block, ended

    def compress_from(self, block: bytes) -> bytes:
        """Compress this block, which is not the last one, and those pulled after it, as one gzip member."""
        self._compressor = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
        return self._compressor.compress(block)

    def close(self) -> None:
        close = getattr(self._iterator, "close", None)
        if close is not None:
            with self._lock:
                close()


def _gzip(body: _Ready) -> bytes:
    compressor = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    pieces = (body,) if isinstance(body, bytes) else body
    return b"".join([*map(compressor.compress, pieces), compressor.flush()])


def _mark_compressed(head: list[Header]) -> None:
    head.append((b"content-encoding", b"gzip"))
    for index, (name, value) in enumerate(head):
        # Other bytes than the strong validator stands for.
        if name == b"etag" and not value.startswith(b"W/"):
            head[index] = (name, b"W/" + value)
