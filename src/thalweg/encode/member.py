"""What observation documents are made of: a selection with its place, and the times and positions its rows show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Final, Generic, NamedTuple, TypeVar

from thalweg.domain.blocks import Block
from thalweg.domain.bounded import Bounded
from thalweg.domain.catalogue import Procedure, ProcedureKind
from thalweg.domain.geometry import Geometry
from thalweg.domain.selection import Selected
from thalweg.domain.time import format_duration
from thalweg.encode.table import END_ONLY, RowTime

BLOCK_BYTES: Final = 64 * 2**10
"""Least size of the pieces that streamed documents leave in, but for the last one."""
WHOLE_BYTES: Final = 2**20
"""Documents up to this size are handed over as one text, whose length is known before it is sent."""


@dataclass(frozen=True, slots=True)
class Member:
    """One track's observations in a document.

    selected        its blocks are consumed
    geometry        of the feature of interest, in the answer's CRS, x y order; None if it has none
    srs_name        the CRS as the document names it
    northing_first  under that name coordinates are written y (north, latitude) before x
    end_us          the greatest phenomenon end selected, if known before reading: written as the end of a period
                    that is too long to be read before it is written
    """

    selected: Selected
    geometry: Geometry | None
    srs_name: str
    northing_first: bool
    end_us: int | None = None


class Shape(NamedTuple):
    """What rows show beside values: the phenomenon begin of intervals, a result time of its own, a position."""

    begin: bool = False
    result_time: bool = False
    position: bool = False

    @staticmethod
    def of(block: Block, procedure: Procedure) -> Shape:
        begin, result_time = block.begin is not None, block.result_time is not None
        position = block.position is not None or procedure.kind is _MOBILE
        return Shape(begin, result_time, position) if begin or result_time or position else PLAIN

    def union(self, other: Shape) -> Shape:
        return Shape(self.begin or other.begin, self.result_time or other.result_time, self.position or other.position)

    @property
    def times(self) -> tuple[RowTime, ...]:
        """The phenomenon end, then what else there is."""
        if self is PLAIN:
            return END_ONLY
        extra = [(self.begin, RowTime.BEGIN), (self.result_time, RowTime.RESULT)]
        return (RowTime.END, *(time for shown, time in extra if shown))


PLAIN: Final = Shape()
"""Instants alone, and nearly always so."""

_MOBILE: Final = ProcedureKind.MOBILE


def shaped(procedure: Procedure, blocks: Iterable[Block]) -> Iterator[tuple[Shape, Block, bool]]:
    """The blocks, each with the shape to write it in and whether that differs from the block before.

    A shape only grows, so that a selection takes at most a few arrays, nearly always one.
    """
    shape: Shape | None = None
    for block in blocks:
        found = Shape.of(block, procedure)
        if shape == found:
            yield found, block, False
        else:
            grown = found if shape is None else shape.union(found)
            yield grown, block, grown != shape
            shape = grown


def begin_us(block: Block) -> int:
    """The least phenomenon begin of a block."""
    return int((block.end if block.begin is None else block.begin).min())


def in_blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of at least ``BLOCK_BYTES``, but for the last one.

    The first piece holds at least two of those given: a document's head never goes out before the first block of
    observations is read, so that a failure to read it can still be told as such.
    """
    gathered: list[bytes] = []
    size = 0
    least = 2
    for piece in pieces:
        gathered.append(piece)
        size += len(piece)
        if size >= BLOCK_BYTES and len(gathered) >= least:
            yield b"".join(gathered)
            gathered = []
            size = 0
            least = 1
    if gathered:
        yield b"".join(gathered)


def whole_or_blocks(pieces: Iterator[bytes]) -> bytes | Iterator[bytes]:
    """A document of up to ``WHOLE_BYTES`` as one text; a longer one in pieces, the first one read already."""
    gathered: list[bytes] = []
    size = 0
    for piece in pieces:
        gathered.append(piece)
        size += len(piece)
        if size > WHOLE_BYTES:
            return chain((b"".join(gathered),), in_blocks(pieces))
    return b"".join(gathered)


T = TypeVar("T")


class Memory(Generic[T]):
    """What was made of entities of the catalogue, kept as long as they stay the same.

    The entities of an unchanged catalogue are the same objects each time, which makes comparing them cheap; where they
    are not, they are compared by value, so what is given out is never out of date.
    """

    def __init__(self, size: int) -> None:
        self._kept: Bounded[tuple[object, ...], tuple[tuple[object, ...], T]] = Bounded(size)

    def get(self, member: Member, *options: object) -> T | None:
        """What was put for an equal member and the same options (hashable)."""
        found = self._kept.get(self._key(member, options))
        return found[1] if found is not None and found[0] == self._parts(member) else None

    def put(self, made: T, member: Member, *options: object) -> T:
        self._kept.put(self._key(member, options), (self._parts(member), made))
        return made

    @staticmethod
    def _key(member: Member, options: tuple[object, ...]) -> tuple[object, ...]:
        selected = member.selected
        return (selected.track.id, member.srs_name, options, *[series.property_id for series in selected.series])

    @staticmethod
    def _parts(member: Member) -> tuple[object, ...]:
        selected = member.selected
        return (
            selected.track, selected.procedure, selected.feature, selected.properties, selected.series,
            selected.units, member.geometry, member.northing_first,
        )  # fmt: skip


@lru_cache(maxsize=1024)
def duration(us: int) -> bytes:
    """``format_duration``, remembered: the same few lengths come again and again."""
    return format_duration(us).encode()
