"""Verifying a store: the file, every chunk and row, and everything maintained against what it is maintained from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Final

import numpy as np

from thalweg.domain.blocks import Block
from thalweg.domain.errors import DamagedData
from thalweg.domain.observations import LastValue, SeriesState, TrackState
from thalweg.domain.store import Finding
from thalweg.domain.time import END_US, MIN_US
from thalweg.store.codec.merge import is_sorted_unique
from thalweg.store.sqlite.changes import decode_side
from thalweg.store.sqlite.connection import Readers, Row
from thalweg.store.sqlite.layer_check import check_layers
from thalweg.store.sqlite.package_check import check_packages
from thalweg.store.sqlite.package_files import check_files
from thalweg.store.sqlite.published_check import check_published
from thalweg.store.sqlite.ranges import (
    BLOCK,
    Kinds,
    decode,
    decode_tail,
    instant,
    key_after,
    key_before,
    kinds_of,
    walk,
)
from thalweg.store.sqlite.reading import STATE
from thalweg.store.sqlite.states import column_count, track_state
from thalweg.store.sqlite.stream_check import check_streams
from thalweg.store.sqlite.table_check import check_tables, refresh_words

TRACKS: Final = "SELECT id FROM track WHERE id > ? ORDER BY id LIMIT 200"
TRACK: Final = """
    SELECT t.id, t.window_us, p.identifier, f.identifier, s.tail_rows, s.change_sequence, s.longest_us
    FROM track t LEFT JOIN procedure p ON p.id = t.procedure_id LEFT JOIN feature f ON f.id = t.feature_id
        LEFT JOIN track_state s ON s.track_id = t.id
    WHERE t.id = ?"""
CHUNKS: Final = """
    SELECT id, first_us, last_us, window_us, rows FROM chunk WHERE track_id = ? ORDER BY first_us"""
TAIL_ROWS: Final = """
    SELECT end_us, begin_us, result_us, cells FROM tail
    WHERE track_id = ?1 AND (end_us, begin_us, result_us) > (?2, ?3, ?4)
    ORDER BY end_us, begin_us, result_us LIMIT 2000"""
CHANGES: Final = """
    SELECT sequence, before, after FROM change WHERE track_id = ? AND sequence > ? ORDER BY sequence LIMIT 500"""
# Rows of tracks that are not there. The names of the tables are this module's own.
STRAYS: Final = "SELECT DISTINCT track_id FROM {table} WHERE track_id NOT IN (SELECT id FROM track)"
FILE: Final = "file"
"""The place of findings that concern the database file itself."""
NOTHING_BEFORE: Final = (-(1 << 63),) * 3


def check(readers: Readers) -> Iterator[Finding]:
    """Findings as they come; none means clean.

    All that is compared with one another is read in one snapshot, a track in one of its own: others may write
    meanwhile. None is open while a finding is given out.
    """
    try:
        yield from _check_file(readers)
        yield from _check_tracks(readers)
        yield from check_layers(readers)
        yield from check_streams(readers)
        yield from check_published(readers)
        yield from check_tables(readers)
        yield from check_packages(readers)
        yield from check_files(readers, readers.path)
    except DamagedData as error:
        # Damage at which not even the lists can be read.
        yield Finding(FILE, error.message)


def _check_file(readers: Readers) -> Iterator[Finding]:
    with readers.mine().snapshot():
        refresh_words(readers.mine().rows)
        messages = readers.rows("PRAGMA integrity_check(100)")
    for (message,) in messages:
        if message != "ok":
            yield Finding(FILE, str(message))
    for table, rowid, parent, _ in readers.rows("PRAGMA foreign_key_check"):
        yield Finding(f"table {table}", f"row {rowid} refers to a row of {parent} that is not there")
    for table in ("chunk", "tail", "change", "track_state"):
        for (track_id,) in readers.rows(STRAYS.format(table=table)):
            yield Finding(f"track {track_id}", f"the table {table} has rows of this track, which is not there")


def _check_tracks(readers: Readers) -> Iterator[Finding]:
    after = 0
    while tracks := readers.rows(TRACKS, (after,)):
        after = tracks[-1][0]
        for (track_id,) in tracks:
            findings: list[Finding] = []
            try:
                with readers.mine().snapshot():
                    # None if it has been deleted since it was listed.
                    for track in readers.rows(TRACK, (track_id,)):
                        _Track(readers, track, findings).check()
            except DamagedData as error:
                findings.append(Finding(f"track {track_id}", error.message))
            yield from findings


class _Track:
    """The check of one track, inside a snapshot."""

    def __init__(self, readers: Readers, row: Row, findings: list[Finding]) -> None:
        self._query = readers.mine().rows
        self._id, self._window_us, procedure, feature, self._tail_rows, self._changes, self._longest_us = row
        self._place = f"procedure {procedure or '?'} at {feature or '?'} (track {self._id})"
        self._findings = findings
        self._kinds: Kinds = kinds_of(self._query, self._id)

    def _found(self, problem: str, where: str = "") -> None:
        self._findings.append(Finding(f"{self._place}, {where}" if where else self._place, problem))

    def check(self) -> None:
        if self._tail_rows is None:
            self._found("it has no state")
            return
        readable = self._check_chunks()
        readable &= self._check_tail()
        self._check_changes()
        try:
            stored = track_state(self._id, self._query(STATE, (self._id,))[0])
        except DamagedData as error:
            self._found(error.message, "state")
            return
        # Without all rows there is nothing to compare the state with.
        if readable:
            self._compare(stored, self._from_rows())

    # -------------------------------------------------------------- chunks, tail, changes

    def _check_chunks(self) -> bool:
        readable = True
        before_us = MIN_US - 1
        for chunk_id, first_us, last_us, window_us, rows in self._query(CHUNKS, (self._id,)):
            where = f"window from {instant(window_us)}, chunk from {instant(first_us)}"
            try:
                block = decode(self._query, self._id, first_us, self._query(BLOCK, (chunk_id,))[0][0], None)
            except DamagedData as error:
                self._found(error.message, where)
                readable = False
                continue
            length_us = self._window_us
            if (
                length_us is None
                or window_us % length_us
                or not window_us <= first_us <= last_us < window_us + length_us
            ):
                self._found("the chunk is not inside its window", where)
            if first_us <= before_us:
                self._found("the chunk begins before the one before it ends", where)
            if len(block) != rows or int(block.end[0]) != first_us or int(block.end[-1]) != last_us:
                self._found("the chunk holds other rows than its entry says", where)
            self._check_block(block, where)
            before_us = max(before_us, last_us)
        return readable

    def _check_tail(self) -> bool:
        after: tuple[int, int, int] = NOTHING_BEFORE
        count = 0
        readable = True
        while rows := self._query(TAIL_ROWS, (self._id, *after)):
            after = rows[-1][:3]
            count += len(rows)
            where = f"new rows from {instant(rows[0][0])}"
            try:
                block = decode_tail(self._query, self._id, rows, None, self._kinds)
            except DamagedData as error:
                self._found(error.message, where)
                readable = False
                continue
            if len(block) != len(rows):
                self._found(f"{len(rows) - len(block)} rows hold nothing", where)
            self._check_block(block, where)
        if count != self._tail_rows:
            self._found(f"there are {count} new rows, where the state says {self._tail_rows}", "new rows")
        return readable

    def _check_block(self, block: Block, where: str) -> None:
        if not is_sorted_unique(block):
            self._found("rows are not in order, or doubled", where)
        begin = block.end if block.begin is None else block.begin
        for times in (block.end, begin, block.end if block.result_time is None else block.result_time):
            if len(times) and not (times.min() >= MIN_US and times.max() < END_US):
                self._found("a time is outside the years 0001 to 9999", where)
        if (begin > block.end).any():
            self._found("a phenomenon time begins after its end", where)
        elif len(begin) and int((block.end - begin).max()) > self._longest_us:
            self._found("a phenomenon time is longer than the longest the state knows", where)
        for key, column in block.columns.items():
            if self._kinds.get(key) is not column.kind:
                self._found(f"values of property {key}, kind {column.kind}, which the procedure does not have", where)

    def _check_changes(self) -> None:
        after = 0
        while rows := self._query(CHANGES, (self._id, after)):
            for sequence, before, later in rows:
                after += 1
                if sequence != after:
                    self._found(f"entry {after} is missing", "change log")
                    after = sequence
                for side in (before, later):
                    try:
                        decode_side(self._query, self._id, sequence, side, self._kinds)
                    except DamagedData as error:
                        self._found(error.message, "change log")
        if after != self._changes:
            self._found(f"it ends with entry {after}, where the state says {self._changes}", "change log")

    # -------------------------------------------------------------- what is maintained

    def _from_rows(self) -> _Seen:
        seen = _Seen()
        low, high = key_after(MIN_US - 1), key_before(END_US)
        # Already inside a snapshot: no other one per block.
        for block in walk(self._query, nullcontext, self._id, list(self._kinds), self._kinds, low, high):
            seen.take(block)
        return seen

    def _compare(self, stored: TrackState, seen: _Seen) -> None:
        if (stored.begin_us, stored.end_us, stored.rows) != (seen.begin_us, seen.end_us, seen.rows):
            self._found(
                f"begin, end and rows are {(seen.begin_us, seen.end_us, seen.rows)}, where the state says "
                f"{(stored.begin_us, stored.end_us, stored.rows)}",
                "state",
            )
        for key in stored.series.keys() | seen.series.keys():
            mine, theirs = stored.series.get(key), seen.series.get(key)
            if mine is None or theirs is None or mine != theirs:
                self._found(f"property {key} is {theirs}, where the state says {mine}", "state")
        if stored.position is not None and not np.array_equal(stored.position, seen.position, equal_nan=True):
            self._found(f"the newest position is {seen.position}, where the state says {stored.position}", "state")


class _Seen:
    """The state as the rows give it."""

    def __init__(self) -> None:
        self.begin_us: int | None = None
        self.end_us: int | None = None
        self.rows = 0
        self.series: dict[int, SeriesState] = {}
        self.position: tuple[float, ...] = (np.nan, np.nan, np.nan)

    def take(self, block: Block) -> None:
        begins = block.end if block.begin is None else block.begin
        least = int(begins.min())
        self.begin_us = least if self.begin_us is None else min(self.begin_us, least)
        self.end_us = int(block.end[-1])
        self.rows += len(block)
        self.position = (np.nan, np.nan, np.nan) if block.position is None else tuple(block.position[-1].tolist())
        for key, column in block.columns.items():
            count = column_count(column)
            if not count:
                continue
            rows = np.arange(len(block)) if column.valid is None else np.flatnonzero(column.valid)
            row = int(rows[-1])
            least = int(begins[rows].min())
            before = self.series.get(key)
            last = LastValue(*block.key(row), column.values.item(row), column.quality.item(row))
            self.series[key] = SeriesState(
                key,
                least if before is None else min(before.begin_us, least),
                int(block.end[row]),
                count + (0 if before is None else before.count),
                last,
            )
