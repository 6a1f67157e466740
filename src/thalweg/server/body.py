"""Request bodies: read whole, bounded before and while they arrive, decompressed."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from typing import Final

from thalweg.domain.errors import InvalidRequest, NotSupported, StoreUnavailable, TooLarge
from thalweg.server.contract import Receive

_GZIP: Final = 16 + zlib.MAX_WBITS


class ClientGone(Exception):
    """The client closed the connection before its request was whole."""


class Budget:
    """Bytes of bodies that a worker holds, of all requests together. Used on the event loop only."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    def take(self, size: int) -> None:
        """StoreUnavailable if so much is not left; nothing is taken then."""
        if size > self._left:
            raise StoreUnavailable("The server holds as many request bodies as it can; try again.", retry_after_s=5)
        self._left -= size

    def give_back(self, size: int) -> None:
        self._left += size


async def read_body(receive: Receive, headers: dict[bytes, bytes], limit: int, budget: Budget) -> bytes:
    """The request's body as sent.

    headers  names in lower case
    budget   its length has been taken from it on return, and is the caller's to give back
    raises   TooLarge as soon as the length declared or the bytes received pass the limit (nothing is read for the
             former); StoreUnavailable if the budget is used up; ClientGone
    """
    declared = headers.get(b"content-length")
    # The HTTP parser has refused what is not a number.
    if declared is not None and int(declared) > limit:
        raise _too_large(limit)
    parts: list[bytes] = []
    size = 0
    try:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            part: bytes = message.get("body", b"")
            if size + len(part) > limit:
                raise _too_large(limit)
            budget.take(len(part))
            size += len(part)
            if not message.get("more_body", False):
                return b"".join([*parts, part]) if parts else part
            parts.append(part)
    except BaseException:
        budget.give_back(size)
        raise


async def body_parts(
    receive: Receive, headers: dict[bytes, bytes], limit: int, budget: Budget, part_bytes: int
) -> AsyncIterator[bytes]:
    """The request's body in parts of about ``part_bytes`` and what arrives at once; errors as of ``read_body``. The
    budget holds one part at a time."""
    declared = headers.get(b"content-length")
    if declared is not None and int(declared) > limit:
        raise _too_large(limit)
    parts: list[bytes] = []
    held = size = 0
    more = True
    try:
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            part: bytes = message.get("body", b"")
            more = message.get("more_body", False)
            size += len(part)
            if size > limit:
                raise _too_large(limit)
            budget.take(len(part))
            held += len(part)
            parts.append(part)
            if held >= part_bytes or not more:
                yield b"".join(parts)
                parts.clear()
                budget.give_back(held)
                held = 0
    finally:
        budget.give_back(held)


def decode_body(body: bytes, encoding: bytes, limit: int) -> bytes:
    """Undo Content-Encoding ``gzip``; several members are read as one. Memory stays within the limit.

    raises  TooLarge if the result passes the limit, InvalidRequest for what is not gzip or is cut off,
            NotSupported for other encodings
    """
    name = encoding.strip().lower()
    if name in (b"", b"identity"):
        return body
    if name not in (b"gzip", b"x-gzip"):
        raise NotSupported(
            f"A body with Content-Encoding '{encoding[:40].decode('latin-1')}' cannot be read; use gzip or none.",
            parameter="Content-Encoding",
        )
    parts: list[bytes] = []
    left = limit
    try:
        while body:
            member = zlib.decompressobj(_GZIP)
            # One byte more than allowed tells that there is more.
            part = member.decompress(body, left + 1)
            left -= len(part)
            if left < 0:
                raise _too_large(limit)
            if not member.eof:
                raise InvalidRequest("The gzip-compressed body is cut off.", parameter="request")
            parts.append(part)
            body = member.unused_data
            if len(parts) > 1000:
                raise InvalidRequest("The gzip-compressed body has more than 1,000 members.", parameter="request")
    except zlib.error:
        raise InvalidRequest("The body is not gzip, as its Content-Encoding says.", parameter="request") from None
    return b"".join(parts)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The request body is larger than the {limit:,} bytes allowed.", parameter="request")
