"""Features of a GeoJSON file one by one, as bytes, whatever the size of the file.

A FeatureCollection is not read as a whole: its members are found by braces and quotes alone and handed on
unparsed, many at a time. Text sequences (RFC 8142) and newline-delimited files go the same way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final

import orjson

from thalweg.domain.errors import InvalidRequest, TooLarge

MAX_FEATURE_BYTES: Final = 256 << 20
"""Longest text of one feature: memory while loading is some times that."""
MAX_HEAD_BYTES: Final = 16 << 20
"""Longest text before and after the array of features."""
READ_BYTES: Final = 1 << 20
BATCH_FEATURES: Final = 2_000
BATCH_BYTES: Final = 4 << 20

_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|["{}\[\]]', re.DOTALL)
_BRACE: Final = re.compile(rb'[^"{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}]*+)*+[{}]', re.DOTALL)
"""Up to the next brace that is not within a string. Possessive throughout: a text without one fails in linear time."""
_GAP: Final = re.compile(rb"[ \t\r\n\x1e]*+,?[ \t\r\n\x1e]*+")
_COLON: Final = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*")


class FeatureSplitter:
    """One pass over a file. ``batches`` first; ``head`` is filled before its first batch, ``tail`` after its last.

    advance     called with the bytes read since the last call
    read_bytes  read at a time, more where a feature is longer
    head, tail  members of the collection beside ``features``, before and after it
    """

    def __init__(
        self, stream: BinaryIO, advance: Callable[[int], None] = lambda _: None, *, read_bytes: int = READ_BYTES
    ) -> None:
        self._stream = stream
        self._read_bytes = read_bytes
        self._advance = advance
        self._buffer = b""
        self._position = 0
        """Where scanning goes on in the buffer."""
        self._before = 0
        """Bytes of the file before the buffer."""
        self._ended = False
        self.head: dict[str, Any] = {}
        self.tail: dict[str, Any] = {}

    def batches(self) -> Iterator[list[bytes]]:
        """Texts of features in order, at most BATCH_FEATURES or about BATCH_BYTES together.

        raises  InvalidRequest for what is not GeoJSON (the message says the place), TooLarge
        """
        if not self._more():
            raise InvalidRequest("The file is empty.")
        if self._buffer.startswith(b"\xef\xbb\xbf"):
            self._position = 3
        elif self._buffer[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise InvalidRequest("The file is UTF-16; GeoJSON is UTF-8 (RFC 7946 section 11.1 names RFC 8259).")
        if self._enter_collection():
            yield from self._objects(collection=True)
            self._read_tail()
        else:
            yield from self._objects(collection=False)

    def _more(self, at_least: int = 0) -> bool:
        """Read on; forget what lies before the position."""
        if self._ended:
            return False
        data = self._stream.read(max(self._read_bytes, at_least))
        if not data:
            self._ended = True
            return False
        self._advance(len(data))
        self._before += self._position
        self._buffer = self._buffer[self._position :] + data
        self._position = 0
        return True

    def _place(self, position: int) -> str:
        return f"at byte {self._before + position:,}"

    def _enter_collection(self) -> bool:
        """Go to the first feature. False if the file begins with a whole object without an array ``features``: a
        single feature, or a sequence of them."""
        while not (match := _GAP.match(self._buffer, self._position)) or match.end() == len(self._buffer):
            if not self._more():
                raise InvalidRequest("The file is empty.")
        start = match.end()
        if self._buffer[start : start + 1] != b"{":
            raise InvalidRequest(f"The file is not GeoJSON: it does not begin with an object ({self._place(start)}).")
        self._position = start
        depth = 0
        scan = 0
        while True:
            for match in _TOKEN.finditer(self._buffer, self._position + scan):
                token = match.group()
                first = token[:1]
                if token == b'"':
                    break
                if first in b"{[":
                    depth += 1
                elif first in b"}]":
                    depth -= 1
                    if depth == 0:
                        return False
                elif depth == 1 and token == b'"features"':
                    colon = _COLON.match(self._buffer, match.end())
                    if colon is None or colon.end() == len(self._buffer):
                        following = self._buffer[match.end() : match.end() + 1024].strip(b" \t\r\n")
                        # A value of that text, not a key: no colon will follow.
                        is_value = colon is None and bool(following)
                        if is_value or len(self._buffer) - match.end() > 1024 or self._ended:
                            scan = match.end() - self._position
                            continue
                        break
                    if self._buffer[colon.end() : colon.end() + 1] == b"[":
                        text = self._buffer[self._position : match.start()].rstrip(b" \t\r\n,") + b"}"
                        self.head = self._members(text)
                        self._position = colon.end() + 1
                        return True
                scan = match.end() - self._position
            if len(self._buffer) - self._position > MAX_HEAD_BYTES:
                # A single large object, or foreign members beyond all measure: the size of features decides.
                return False
            if not self._more(len(self._buffer)):
                raise InvalidRequest("The file ends in the middle of its first object.")

    def _objects(self, *, collection: bool) -> Iterator[list[bytes]]:
        batch: list[bytes] = []
        size = 0
        depth = 0
        scan = 0
        """Behind the last brace of an object that has begun, from the position."""
        while True:
            buffer, start = self._buffer, self._position
            while True:
                if depth == 0:
                    gap = _GAP.match(buffer, start)
                    at = start if gap is None else gap.end()
                    found = buffer[at : at + 1]
                    if found == b"{":
                        start, depth, scan = at, 1, 1
                    elif not found:
                        self._position = start
                        break
                    elif found == b"]" and collection:
                        self._position = at + 1
                        if batch:
                            yield batch
                        return
                    else:
                        raise InvalidRequest(
                            f"The file is not GeoJSON: a feature was expected {self._place(at)}, not "
                            f"'{buffer[at : at + 20].decode('utf-8', 'replace')}'."
                        )
                brace = _BRACE.match(buffer, start + scan)
                if brace is None:
                    self._position = start
                    break
                scan = brace.end() - start
                if buffer[brace.end() - 1] == 0x7B:
                    depth += 1
                    continue
                depth -= 1
                if depth == 0:
                    batch.append(buffer[start : brace.end()])
                    size += scan
                    start, scan = brace.end(), 0
                    if len(batch) >= BATCH_FEATURES or size >= BATCH_BYTES:
                        self._position = start
                        yield batch
                        batch, size = [], 0
            waiting = len(buffer) - self._position
            if waiting > MAX_FEATURE_BYTES:
                raise TooLarge(f"A feature of more than {MAX_FEATURE_BYTES >> 20} MiB begins {self._place(start)}.")
            # Twice as much each time: what has no end in sight is scanned again at every turn.
            if not self._more(waiting):
                if depth or collection:
                    raise InvalidRequest(
                        "The file ends in the middle: "
                        + ("a feature is not closed." if depth else "the array of features is not closed.")
                    )
                if batch:
                    yield batch
                return

    def _read_tail(self) -> None:
        while self._more():
            if len(self._buffer) - self._position > MAX_HEAD_BYTES:
                raise TooLarge(f"After the features come more than {MAX_HEAD_BYTES >> 20} MiB.")
        text = self._buffer[self._position :].strip(b" \t\r\n\x1e")
        if not text.endswith(b"}"):
            raise InvalidRequest("The file ends in the middle: the feature collection is not closed.")
        self.tail = self._members(b"{" + text.lstrip(b" \t\r\n,"))

    def _members(self, text: bytes) -> dict[str, Any]:
        try:
            found = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise InvalidRequest(f"The file is not GeoJSON: beside its features it is no JSON ({error}).") from None
        return found if isinstance(found, dict) else {}
