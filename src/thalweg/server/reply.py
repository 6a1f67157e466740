"""Responses on their way out: validators, compression, streaming with back-pressure."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Iterator
from functools import lru_cache
from threading import Lock
from typing import Final

from thalweg.domain.errors import StoreUnavailable
from thalweg.doors.http import Response
from thalweg.server.contract import Receive, Send
from thalweg.server.pool import Pool

BLOCK_BYTES: Final = 64 * 1024
"""Streamed answers leave in pieces of about this size, whatever the items of the iterator."""
_PIECE_BYTES: Final = 256 * 1024
"""A larger block is handed to the transport in pieces, each once the client has taken most of the one before: what
waits for a client is then the block itself, not a second copy of it."""
_INLINE_COMPRESS_BYTES: Final = 256 * 1024
"""Larger answers are compressed in a thread (level 1: about 4 µs per KiB)."""
_PULL_S: Final = 0.05

# A document of data runs nothing and is no page, whatever a browser makes of it.
SECURITY_HEADERS: Final = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; sandbox"),
]


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
    return kind.startswith("text/") or kind.endswith(("xml", "json")) or kind == "application/n-triples"


@lru_cache(maxsize=256)
def _encoded(content_type: str) -> bytes:
    return content_type.encode("latin-1")


def matches(if_none_match: bytes, etag: str) -> bool:
    """Whether a value of If-None-Match names the validator (weak comparison, RFC 9110 section 13.1.2)."""
    if if_none_match.strip() == b"*":
        return True
    own = etag.encode("latin-1").removeprefix(b"W/")
    return any(item.strip().removeprefix(b"W/") == own for item in if_none_match.split(b","))


class Reply:
    """Sends one response.

    method      as received; HEAD sends no body
    headers     of the request, names in lower case
    common      headers that every answer to this request gets
    """

    __slots__ = ("_common", "_headers", "_method", "_minimum", "_pool", "_receive", "_send", "size", "status")

    def __init__(
        self,
        method: str,
        headers: dict[bytes, bytes],
        common: list[tuple[bytes, bytes]],
        receive: Receive,
        send: Send,
        pool: Pool,
        compress_min_bytes: int,
    ) -> None:
        self._method = method
        self._headers = headers
        self._common = common
        self._receive = receive
        self._send = send
        self._pool = pool
        self._minimum = compress_min_bytes
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
        if response.etag and self._method in ("GET", "HEAD") and response.status == 200:
            known = self._headers.get(b"if-none-match")
            if known is not None and matches(known, response.etag):
                if not isinstance(response.body, bytes):
                    self._close(_Blocks(response.body))
                await self._start(304, self._head(response))
                await self._send({"type": "http.response.body", "body": b""})
                return
        body = response.body
        if isinstance(body, bytes):
            await self._whole(response, body, self._head(response))
        else:
            await self._stream(response, body)

    def _head(self, response: Response) -> list[tuple[bytes, bytes]]:
        head = [*self._common]
        if response.content_type:
            head.append((b"content-type", _encoded(response.content_type)))
        for name, value in response.headers:
            head.append((name.lower().encode("latin-1"), value.encode("latin-1")))
        if response.etag and self._method != "POST":
            head.append((b"etag", response.etag.encode("latin-1")))
            # Kept by caches, asked for again each time.
            head.append((b"cache-control", b"no-cache"))
        return head

    async def _start(self, status: int, head: list[tuple[bytes, bytes]]) -> None:
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": head})

    async def _whole(self, response: Response, body: bytes, head: list[tuple[bytes, bytes]]) -> None:
        if 0 < self._minimum <= len(body) and self._may_compress(response, head):
            head.append((b"vary", b"accept-encoding"))
            if accepts_gzip(self._headers.get(b"accept-encoding", b"")):
                if len(body) <= _INLINE_COMPRESS_BYTES:
                    body = _gzip(body)
                else:
                    body = await self._pool.run(_gzip, body)
                _mark_compressed(head)
        self.size = len(body)
        # RFC 9110 section 8.6: no length with 204.
        if response.status != 204:
            head.append((b"content-length", b"%d" % len(body)))
        self.status = response.status
        await self._send({"type": "http.response.start", "status": response.status, "headers": head})
        await self._send({"type": "http.response.body", "body": b"" if self._method == "HEAD" else body})

    @staticmethod
    def _may_compress(response: Response, head: list[tuple[bytes, bytes]]) -> bool:
        return _is_compressible(response.content_type) and not any(name == b"content-encoding" for name, _ in head)

    async def _stream(self, response: Response, iterator: Iterator[bytes]) -> None:
        blocks = _Blocks(iterator)
        ended = False
        gone: asyncio.Task[None] | None = None
        try:
            block, ended = await self._pool.run(blocks.pull)
            head = self._head(response)
            if ended:
                await self._whole(response, block, head)
                return
            if self._minimum and self._may_compress(response, head):
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
                    while len(block) - sent > _PIECE_BYTES and not gone.done():
                        # Waits while the client has not read what was sent before.
                        piece = block[sent : sent + _PIECE_BYTES]
                        await self._send({"type": "http.response.body", "body": piece, "more_body": True})
                        sent += _PIECE_BYTES
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


def _gzip(body: bytes) -> bytes:
    compressor = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return compressor.compress(body) + compressor.flush()


def _mark_compressed(head: list[tuple[bytes, bytes]]) -> None:
    head.append((b"content-encoding", b"gzip"))
    for index, (name, value) in enumerate(head):
        # Other bytes than the strong validator stands for.
        if name == b"etag" and not value.startswith(b"W/"):
            head[index] = (name, b"W/" + value)
