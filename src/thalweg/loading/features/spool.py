"""Batches between the two halves of a load, in a temporary file: surveyed once, then stored.

A layer's fields and types are known for certain only when a file has been read to its end; reading and parsing it a
second time would cost more than this.
"""

from __future__ import annotations

import marshal
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Protocol

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

    @staticmethod
    def joined(batches: Sequence[Spooled]) -> Spooled:
        """All of them as one, without ids."""
        names = tuple(dict.fromkeys(name for batch in batches for name in batch.names))
        columns: list[list[Any]] = [[] for _ in names]
        for batch in batches:
            there = dict(zip(batch.names, batch.columns, strict=True))
            for name, column in zip(names, columns, strict=True):
                column += there.get(name) or [None] * len(batch.numbers)
        numbers = [number for batch in batches for number in batch.numbers]
        return Spooled(numbers, None, [wkb for batch in batches for wkb in batch.geometries], names, columns)

    def take(self, rows: Sequence[int], numbers: list[int]) -> Spooled:
        """These rows, without ids, with other numbers."""
        return Spooled(
            numbers,
            None,
            [self.geometries[row] for row in rows],
            self.names,
            [[column[row] for row in rows] for column in self.columns],
        )


class Batches(Protocol):
    """Packed batches in the order in which they are to be stored.

    batches  how many there are
    """

    @property
    def batches(self) -> int: ...

    def __iter__(self) -> Iterator[bytes]: ...


class Spool:
    """Packed batches, written once, read as often as wanted; gone when closed, at the latest with the process."""

    def __init__(self) -> None:
        # It has no name on disk, so that nothing is left behind whatever happens.
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115
        self._ends = [0]

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give its room back. May be called again."""
        self._file.close()

    @property
    def batches(self) -> int:
        return len(self._ends) - 1

    def add(self, data: bytes) -> int:
        """Write a batch behind the others; its number, from 0."""
        self._file.seek(self._ends[-1])
        self._file.write(data)
        self._ends.append(self._ends[-1] + len(data))
        return self.batches - 1

    def read(self, number: int) -> bytes:
        start, end = self._ends[number : number + 2]
        self._file.seek(start)
        return self._file.read(end - start)

    def __iter__(self) -> Iterator[bytes]:
        return map(self.read, range(self.batches))
