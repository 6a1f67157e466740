"""Batches between the two halves of a load, in a temporary file: surveyed once, then stored.

A layer's fields and types are known for certain only when a file has been read to its end; reading and parsing it a
second time would cost more than this.
"""

from __future__ import annotations

import marshal
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

_IN_MEMORY_BYTES: Final = 32 << 20
"""A small file's features never reach the disk."""


@dataclass(slots=True)
class Spooled:
    """Features that are to be stored: numbers in the file, ids that it gives (None where they cannot be used), WKB,
    columns by name."""

    numbers: list[int]
    ids: bytes | None
    geometries: list[bytes | None]
    names: tuple[str, ...]
    columns: list[list[Any]]

    def packed(self) -> bytes:
        return marshal.dumps((self.numbers, self.ids, self.geometries, self.names, self.columns))

    @staticmethod
    def unpacked(data: bytes) -> Spooled:
        # Own bytes of a moment ago: not an input from outside.
        return Spooled(*marshal.loads(data))  # noqa: S302


class Spool:
    """Packed batches, written once, read as often as wanted; gone when closed, at the latest with the process."""

    def __init__(self) -> None:
        # It has no name on disk, so that nothing is left behind whatever happens.
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115
        self.batches = 0

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, data: bytes) -> None:
        self._file.write(struct.pack("<Q", len(data)))
        self._file.write(data)
        self.batches += 1

    def __iter__(self) -> Iterator[bytes]:
        self._file.seek(0)
        while head := self._file.read(8):
            yield self._file.read(struct.unpack("<Q", head)[0])
