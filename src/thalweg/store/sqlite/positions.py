"""The number of a row in its track's order, and the row of a number, from the counts of chunks.

The sizes of a track's chunks are read once for each state of them and remembered, some forty bytes a chunk; rows of the
tail are counted as they are. What lies in both, as a cell laid over a sealed row, counts once.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import accumulate
from typing import Final

from thalweg.domain.blocks import Block
from thalweg.domain.bounded import Bounded
from thalweg.domain.time import END_US, MIN_US
from thalweg.store.sqlite.connection import Readers
from thalweg.store.sqlite.ranges import BLOCK, Query, decode

CHUNK_VERSION: Final = "SELECT version FROM chunk_version WHERE track_id = ?"
SIZES: Final = (
    "SELECT id, first_us, last_us, rows FROM chunk INDEXED BY chunk_sizes WHERE track_id = ? ORDER BY first_us"
)
FIGURES: Final = "SELECT rows, tail_rows, generation FROM track_state WHERE track_id = ?"
FIRST_OF_TAIL: Final = "SELECT min(end_us) FROM tail WHERE track_id = ?"
TAIL_KEYS: Final = """
    SELECT end_us, begin_us, result_us FROM tail WHERE track_id = ? ORDER BY end_us, begin_us, result_us"""
TAIL_BEFORE: Final = "SELECT count(*) FROM tail WHERE track_id = ? AND end_us < ?"
TAIL_AT: Final = """
    SELECT end_us FROM tail WHERE track_id = ? ORDER BY end_us, begin_us, result_us LIMIT 1 OFFSET ?"""

MAX_KEPT_CHUNKS: Final = 500_000
"""Chunks whose sizes a process remembers, of all tracks: some 20 MB."""
MAX_TAILS: Final = 20_000
"""Tracks whose newest rows' times a process remembers."""


@dataclass(frozen=True, slots=True)
class _Directory:
    """The chunks of a track at one version, in order. ``before``: rows in the chunks before each, and in all."""

    version: int
    ids: list[int]
    firsts: list[int]
    lasts: list[int]
    before: list[int]


@dataclass(frozen=True, slots=True)
class _Tail:
    """The rows not sealed yet, at one state of the track.

    ends      their phenomenon ends, sorted; None: all lie after the chunks, and are counted where they are
    overlaps  ends of those of them that have the key of a sealed row, sorted
    """

    stamp: tuple[int, int, int]
    ends: list[int] | None
    overlaps: list[int]


class Positions:
    """Rows of tracks by number. For all threads."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._directories: dict[int, _Directory] = {}
        self._tails: Bounded[int, _Tail] = Bounded(MAX_TAILS)
        self._kept = 0
        self._lock = threading.Lock()

    def rows_before(self, track_id: int, ends: Sequence[int]) -> list[int]:
        """See ``ObservationStore.rows_before``."""
        reader = self._readers.mine()
        with reader.snapshot():
            picture = self._picture(reader.rows, track_id)
            return [0] * len(ends) if picture is None else [picture.before(end) for end in ends]

    def end_at(self, track_id: int, position: int) -> int | None:
        """See ``ObservationStore.end_at``."""
        reader = self._readers.mine()
        with reader.snapshot():
            picture = self._picture(reader.rows, track_id)
            return None if picture is None or not 0 <= position < picture.rows else picture.at(position)

    def _picture(self, query: Query, track_id: int) -> _Picture | None:
        """What is known of a track, in the snapshot that the caller holds; None: it has no rows."""
        figures = query(FIGURES, (track_id,))
        if not figures or not figures[0][0]:
            return None
        rows, tail_rows, generation = figures[0]
        directory = self._directory(query, track_id)
        stamp = (directory.version, generation, tail_rows)
        tail = self._tails.get(track_id)
        if tail is None or tail.stamp != stamp:
            tail = _tail(query, track_id, directory, stamp, rows)
            self._tails.put(track_id, tail)
        return _Picture(query, track_id, rows, directory, tail)

    def _directory(self, query: Query, track_id: int) -> _Directory:
        found = query(CHUNK_VERSION, (track_id,))
        version = found[0][0] if found else 0
        known = self._directories.get(track_id)
        if known is not None and known.version == version:
            return known
        chunks = query(SIZES, (track_id,))
        ids, firsts, lasts, sizes = ([row[place] for row in chunks] for place in range(4))
        made = _Directory(version, ids, firsts, lasts, list(accumulate(sizes, initial=0)))
        with self._lock:
            if self._kept + len(ids) > MAX_KEPT_CHUNKS:
                self._directories.clear()
                self._kept = 0
            before = self._directories.get(track_id)
            self._kept += len(ids) - (0 if before is None else len(before.ids))
            self._directories[track_id] = made
        return made


def _tail(query: Query, track_id: int, directory: _Directory, stamp: tuple[int, int, int], rows: int) -> _Tail:
    tail_rows = stamp[2]
    if not tail_rows or not directory.lasts:
        return _Tail(stamp, None, [])
    if query(FIRST_OF_TAIL, (track_id,))[0][0] > directory.lasts[-1]:
        return _Tail(stamp, None, [])
    keys = query(TAIL_KEYS, (track_id,))
    overlaps: list[int] = []
    wanted = directory.before[-1] + tail_rows - rows
    if wanted > 0:
        by_chunk: dict[int, list[tuple[int, int, int]]] = {}
        for end, begin, result in keys:
            place = bisect_right(directory.firsts, end) - 1
            if place >= 0 and end <= directory.lasts[place]:
                by_chunk.setdefault(place, []).append((end, begin, result))
        for place, found in by_chunk.items():
            block = _times(query, track_id, directory, place)
            for key in found:
                low, high = block.end.searchsorted((key[0], key[0] + 1)).tolist()
                overlaps.extend(key[0] for row in range(low, high) if block.key(row) == key)
    return _Tail(stamp, [key[0] for key in keys], sorted(overlaps))


def _times(query: Query, track_id: int, directory: _Directory, place: int) -> Block:
    """The rows of a chunk without their values."""
    return decode(query, track_id, directory.firsts[place], query(BLOCK, (directory.ids[place],))[0][0], [])


@dataclass(slots=True)
class _Picture:
    """A track in one snapshot."""

    query: Query
    track_id: int
    rows: int
    directory: _Directory
    tail: _Tail

    def before(self, end_us: int) -> int:
        """How many rows have an earlier phenomenon end."""
        known = self.directory
        place = bisect_left(known.firsts, end_us)
        sealed = known.before[place]
        if place and known.lasts[place - 1] >= end_us:
            block = _times(self.query, self.track_id, known, place - 1)
            sealed = known.before[place - 1] + int(block.end.searchsorted(end_us))
        tail = self.tail
        if tail.ends is not None:
            return sealed + bisect_left(tail.ends, end_us) - bisect_left(tail.overlaps, end_us)
        if self.rows > known.before[-1] and (not known.lasts or end_us > known.lasts[-1]):
            return sealed + int(self.query(TAIL_BEFORE, (self.track_id, end_us))[0][0])
        return sealed

    def at(self, position: int) -> int:
        """The phenomenon end of the row of that number, which there is."""
        known, tail = self.directory, self.tail
        if tail.ends is None:
            if position < known.before[-1]:
                place = bisect_right(known.before, position) - 1
                return int(_times(self.query, self.track_id, known, place).end[position - known.before[place]])
            return int(self.query(TAIL_AT, (self.track_id, position - known.before[-1]))[0][0])
        # From the first row of each chunk on: those of the chunk, and of the tail those before the next chunk.
        place = bisect_right(range(len(known.firsts)), position, key=lambda i: self.before(known.firsts[i])) - 1
        low = known.firsts[place] if place >= 0 else MIN_US
        high = known.firsts[place + 1] if place + 1 < len(known.firsts) else END_US
        ends = tail.ends[bisect_left(tail.ends, low) : bisect_left(tail.ends, high)]
        if place >= 0:
            sealed: list[int] = _times(self.query, self.track_id, known, place).end.tolist()
            ends = list(merge(sealed, ends))
        for end in tail.overlaps[bisect_left(tail.overlaps, low) : bisect_left(tail.overlaps, high)]:
            ends.pop(bisect_left(ends, end))
        return ends[position - (self.before(low) if place >= 0 else 0)]
