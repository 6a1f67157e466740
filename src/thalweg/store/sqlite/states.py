"""What is maintained of a track with every write: begin, end, counts, last values; and its packed form.

Packed series, little-endian: checksum (8 bytes, XXH3-64 of the rest), then per observed property a fixed entry, then
the texts of last values one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from struct import Struct
from typing import Any, Final, TypeAlias

import numpy as np
import xxhash

from thalweg.domain.blocks import Block, Column, ValueKind
from thalweg.domain.errors import DamagedData
from thalweg.domain.observations import LastValue, SeriesState, TrackState
from thalweg.store.sqlite.connection import Row
from thalweg.store.sqlite.writer import Transaction

Key: TypeAlias = tuple[int, int, int]
"""(phenomenon end, phenomenon begin, result time) of a row: its identity and place in the track."""

COLUMNS: Final = """begin_us, end_us, rows, tail_rows, change_sequence, longest_us, position, reach_us, series"""
SELECT_STATE: Final = f"SELECT {COLUMNS} FROM track_state WHERE track_id = ?"  # noqa: S608
UPDATE_STATE: Final = """
    UPDATE track_state
    SET begin_us = ?, end_us = ?, rows = ?, tail_rows = ?, change_sequence = ?, longest_us = ?, position = ?,
        reach_us = ?, series = ?, generation = ?, changed_us = ?
    WHERE track_id = ?"""
# Sealing changes nothing that a read returns, so neither generation nor time of change.
UPDATE_TAIL_ROWS: Final = "UPDATE track_state SET tail_rows = ? WHERE track_id = ?"

_CHECKSUM: Final = Struct("<Q")
_NUMBER: Final = Struct("<qqqqqqdhB")
_OTHER: Final = Struct("<qqqqqqqhB")
_KIND_AT: Final = _NUMBER.size - 1
_POSITION: Final = Struct("<3q3d")
"""Key of the newest row, then its position."""
_NOWHERE: Final = (math.nan, math.nan, math.nan)
_CODE_OF: Final = {ValueKind.NUMBER: 1, ValueKind.INTEGER: 2, ValueKind.TEXT: 3, ValueKind.BOOLEAN: 4}
_DAMAGED: Final = "The stored state of a track is damaged."

_digest = xxhash.xxh3_64_intdigest


class SeriesCells:
    """A series' state, to be changed. ``last_key`` and what follows are of the newest cell."""

    __slots__ = ("begin", "code", "count", "last_key", "quality", "value")

    def __init__(self, code: int, begin: int, count: int, last_key: Key, value: Any, quality: int) -> None:
        self.code = code
        self.begin = begin
        self.count = count
        self.last_key = last_key
        self.value = value
        self.quality = quality


class State:
    """A track's state, to be changed inside a transaction."""

    __slots__ = (
        "begin", "change_sequence", "end", "longest", "position", "reach", "rows", "series", "tail_rows",
        "track_id",
    )  # fmt: skip

    def __init__(self, track_id: int, row: Row) -> None:
        """``row`` as COLUMNS say. Raises DamagedData."""
        self.track_id = track_id
        self.begin: int | None
        self.end: int | None
        self.rows: int
        self.tail_rows: int
        self.change_sequence: int
        self.longest: int
        self.position: bytes | None
        self.reach: int | None
        """Greatest end the track ever had, where deletions have made it less; None: ``end``."""
        (
            self.begin, self.end, self.rows, self.tail_rows, self.change_sequence, self.longest, self.position,
            self.reach, packed,
        ) = row  # fmt: skip
        self.series = unpack_series(packed)

    def store(self, tx: Transaction) -> None:
        """Write it as changed by this commit."""
        tx.cursor.execute(
            UPDATE_STATE,
            (
                self.begin, self.end, self.rows, self.tail_rows, self.change_sequence, self.longest, self.position,
                self.reach, pack_series(self.series), tx.commit, tx.now_us, self.track_id,
            ),
        )  # fmt: skip

    @property
    def late_until(self) -> int | None:
        """Rows with ends up to this are late; None: none is."""
        if self.reach is None or self.end is None:
            return self.end if self.reach is None else self.reach
        return max(self.end, self.reach)

    # -------------------------------------------------------------- growing

    def add_row(self, block: Block, key: Key) -> None:
        """Count a block's only row, of which every cell is new."""
        end, begin, _ = key
        if self.position is not None or block.position is not None:
            self._note_position(block, key)
        for property_id, column in block.columns.items():
            if column.valid is None or column.valid[0]:
                cells = self.series.get(property_id)
                value, quality = column.values.item(0), column.quality.item(0)
                if cells is None:
                    self.series[property_id] = SeriesCells(_CODE_OF[column.kind], begin, 1, key, value, quality)
                    continue
                cells.count += 1
                if begin < cells.begin:
                    cells.begin = begin
                if key > cells.last_key:
                    cells.last_key, cells.value, cells.quality = key, value, quality
        self._widen(end, begin, end - begin)
        self.rows += 1

    def add_block(self, block: Block, fresh_rows: int, written: dict[int, int] | None = None) -> None:
        """Count what a block of sorted rows adds.

        block       the cells written
        fresh_rows  how many of its rows were not stored before
        written     new cells per property where some of the block's cells only replace others
        """
        if not len(block):
            return
        if self.position is not None or block.position is not None:
            self._note_position(block, block.key(-1))
        for property_id, column in block.columns.items():
            first = _first_valid(column)
            if first is None:
                continue
            count = column_count(column) if written is None else written[property_id]
            last = _last_valid(column)
            begin = _least_begin(block, column, first)
            key = block.key(last)
            value, quality = column.values.item(last), column.quality.item(last)
            cells = self.series.get(property_id)
            if cells is None:
                self.series[property_id] = SeriesCells(_CODE_OF[column.kind], begin, count, key, value, quality)
                continue
            cells.count += count
            cells.begin = min(cells.begin, begin)
            if key >= cells.last_key:
                cells.last_key, cells.value, cells.quality = key, value, quality
        end = int(block.end[-1])
        begin, longest = int(block.end[0]), 0
        if block.begin is not None:
            begin = int(block.begin.min())
            longest = int((block.end - block.begin).max())
        self._widen(end, begin, longest)
        self.rows += fresh_rows

    def _note_position(self, block: Block, key: Key) -> None:
        """Keep the position of the track's newest row, which may be the block's last one, with that key."""
        newest = self.newest_key()
        if newest is not None and key < newest:
            if self.position is None:
                self.position = pack_position(newest, _NOWHERE)
            return
        where = _NOWHERE if block.position is None else tuple(block.position[-1].tolist())
        if key != newest or not all(map(math.isnan, where)):
            self.position = pack_position(key, where)

    def newest_key(self) -> Key | None:
        """The key of the track's newest row; exact for tracks with positions, where rows without a cell may be."""
        keys = [cells.last_key for cells in self.series.values()]
        if self.position is not None:
            end, begin, result, *_ = _POSITION.unpack(self.position)
            keys.append((end, begin, result))
        return max(keys, default=None)

    def _widen(self, end: int, begin: int, longest: int) -> None:
        if self.end is None or end > self.end:
            self.end = end
        if self.begin is None or begin < self.begin:
            self.begin = begin
        if longest > self.longest:
            self.longest = longest


def pack_position(key: Key, position: tuple[float, ...]) -> bytes:
    return _POSITION.pack(*key, *position)


# ------------------------------------------------------------------ packed form


def pack_series(series: dict[int, SeriesCells]) -> bytes:
    entries: list[bytes] = []
    texts = b""
    for property_id, cells in series.items():
        value = cells.value
        layout = _OTHER
        if cells.code == 1:
            layout = _NUMBER
        elif cells.code == 3:
            text = value.encode("utf-8", "surrogatepass")
            texts += text
            value = len(text)
        end, begin, result = cells.last_key
        entries.append(
            layout.pack(property_id, cells.begin, cells.count, end, begin, result, value, cells.quality, cells.code)
        )
    body = _COUNT.pack(len(entries)) + b"".join(entries) + texts
    return _CHECKSUM.pack(_digest(body)) + body


_COUNT: Final = Struct("<H")


def unpack_series(packed: bytes) -> dict[int, SeriesCells]:
    """The opposite of ``pack_series``. Raises DamagedData."""
    body = packed[8:]
    if len(packed) < 10 or _CHECKSUM.unpack_from(packed)[0] != _digest(body):
        raise DamagedData(_DAMAGED)
    count = body[0] | body[1] << 8
    series: dict[int, SeriesCells] = {}
    at, size = 2, _NUMBER.size
    text_at = at + count * size
    for _ in range(count):
        code = body[at + _KIND_AT]
        layout = _NUMBER if code == 1 else _OTHER
        property_id, begin, cells, last_end, last_begin, result, value, quality, _ = layout.unpack_from(body, at)
        at += size
        if code == 3:
            length = value
            value = body[text_at : text_at + length].decode("utf-8", "surrogatepass")
            text_at += length
        elif code == 4:
            value = bool(value)
        series[property_id] = SeriesCells(code, begin, cells, (last_end, last_begin, result), value, quality)
    return series


EMPTY_SERIES: Final = pack_series({})


# ------------------------------------------------------------------ for readers


def track_state(track_id: int, row: Sequence[Any]) -> TrackState:
    """The domain's state from begin_us, end_us, rows, generation, position, series. Raises DamagedData."""
    begin, end, rows, generation, position, packed = row
    series = {
        property_id: SeriesState(
            property_id,
            cells.begin,
            cells.last_key[0],
            cells.count,
            LastValue(*cells.last_key, cells.value, cells.quality),
        )
        for property_id, cells in unpack_series(packed).items()
    }
    where = None if position is None else _POSITION.unpack(position)[3:]
    return TrackState(track_id, begin, end, rows, generation, series, where)


# ------------------------------------------------------------------ columns


def column_count(column: Column) -> int:
    """How many cells hold a value."""
    return len(column) if column.valid is None else int(np.count_nonzero(column.valid))


def _first_valid(column: Column) -> int | None:
    if column.valid is None:
        return 0 if len(column) else None
    first = int(np.argmax(column.valid))
    return first if column.valid[first] else None


def _last_valid(column: Column) -> int:
    n = len(column)
    return n - 1 if column.valid is None else n - 1 - int(np.argmax(column.valid[::-1]))


def _least_begin(block: Block, column: Column, first: int) -> int:
    if block.begin is None:
        return int(block.end[first])
    begins = block.begin if column.valid is None else block.begin[column.valid]
    return int(begins.min())
