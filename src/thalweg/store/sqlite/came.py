"""Rows of a track as they came, whatever was changed since: what is stored now, with the change log undone.

A cell as it came is told by the earliest entry that touches it: a late one was not there, a corrected or deleted one
was what the entry has as before. Cells that no entry touches are as they are now.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Final, TypeAlias

import numpy as np

from thalweg.domain.blocks import Block, Column
from thalweg.domain.observations import ChangeKind
from thalweg.store.codec.merge import concat_blocks, empty_block
from thalweg.store.sqlite.changes import decode_side
from thalweg.store.sqlite.ranges import Kinds, Query, between, finished, read_short, walk, with_plain_times
from thalweg.store.sqlite.reading import SHORT_US
from thalweg.store.sqlite.states import Key

NEXT_DIGITS: Final = "SELECT min(digits) FROM change WHERE track_id = ? AND digits > ?"
SPANS: Final = """
    SELECT first_us, last_us, sequence FROM change
    WHERE track_id = ? AND digits = ? AND first_us BETWEEN ? AND ? AND last_us >= ? AND sequence > ?"""
ENTRY: Final = "SELECT kind, before, after FROM change WHERE track_id = ? AND sequence = ?"

_LEAST: Final = -(1 << 63)
_MOST: Final = (1 << 63) - 1
LAST: Final = (_MOST, _MOST, _MOST)
MAX_WEIGHT: Final = 16_384
WIDE: Final = 256
"""Entries that are undone at once, where they begin at different instants: one that spans time counts WIDE, others one.
Some 260,000 rows of memory at most."""

Cells: TypeAlias = dict[int, tuple[Any, int] | None]
"""Value and quality by property; None: no value was there."""


def rows_as_came(
    query: Query, track_id: int, kinds: Kinds, start: int, low: Key, high: Key, limit: int
) -> tuple[Block, bool]:
    """Rows with low < key < high and at least one value, at most ``limit``, without positions.

    query   reads one snapshot throughout
    start   entries of the change log up to this are not undone
    returns the rows, and whether they are all up to ``high``
    raises  DamagedData
    """
    found: list[Block] = []
    total = 0
    while True:
        block, reached = _some(query, track_id, kinds, start, low, high, limit - total)
        if len(block):
            found.append(block)
            total += len(block)
        if reached is None or total >= limit:
            break
        low = reached
    block = found[0] if len(found) == 1 else concat_blocks(found) if found else empty_block()
    if total > limit:
        return with_plain_times(block.take(slice(0, limit))), False
    return block, reached is None


def _some(
    query: Query, track_id: int, kinds: Kinds, start: int, low: Key, high: Key, limit: int
) -> tuple[Block, Key | None]:
    """Rows after ``low``, and the key up to which they are complete; None: up to ``high``."""
    now, reached = _now(query, track_id, kinds, low, high, limit)
    until = high if reached is None else reached
    spans = sorted(_touching(query, track_id, start, low[0], until[0]))
    weight = 0
    for place, (first_us, last_us, _) in enumerate(spans):
        weight += 1 if first_us == last_us else WIDE
        if weight > MAX_WEIGHT and first_us > spans[0][0] and (first_us - 1, _MOST, _MOST) > low:
            # Up to before the first entry that is too many.
            reached = until = (first_us - 1, _MOST, _MOST)
            spans = spans[:place]
            now = between(now, low, until)
            break
    if not spans:
        return _with_values(now), reached
    # A row of the key reached itself belongs here, one of ``high`` does not.
    inside = until if reached is None else (until[0], until[1], min(until[2], _MOST - 1) + 1)
    touched: dict[Key, Cells] = {}
    for sequence in sorted((span[2] for span in spans), reverse=True):
        _undo(query, track_id, sequence, kinds, low, inside, touched)
    return (_applied(now, touched, kinds) if touched else _with_values(now)), reached


def _now(query: Query, track_id: int, kinds: Kinds, low: Key, high: Key, limit: int) -> tuple[Block, Key | None]:
    """What is stored, at most ``limit`` rows, and the last one's key if there may be more."""
    wanted = list(kinds)
    if not wanted:
        return empty_block(), None
    if high[0] - max(low[0], -(1 << 62)) <= SHORT_US:
        short = read_short(query, track_id, wanted, kinds, low[0], high[0] + 1, limit)
        if short is not None:
            short = between(short, low, high) if len(short) else short
            return (finished(short, wanted, kinds) if len(short) else short), None
    found: list[Block] = []
    total = 0
    for block in walk(query, nullcontext, track_id, wanted, kinds, low, high, rows=limit):
        found.append(block)
        total += len(block)
        if total >= limit:
            block = found[0] if len(found) == 1 else concat_blocks(found)
            block = block.take(slice(0, limit)) if total > limit else block
            return block, block.key(-1)
    return (found[0] if len(found) == 1 else concat_blocks(found) if found else empty_block()), None


def _touching(query: Query, track_id: int, start: int, first_us: int, last_us: int) -> list[tuple[int, int, int]]:
    """First and last end and number of the entries with an end in [first_us, last_us]: one range for each length."""
    found: list[tuple[int, int, int]] = []
    digits = -1
    while True:
        ((digits,),) = query(NEXT_DIGITS, (track_id, digits))
        if digits is None:
            return found
        low = max(first_us - (1 << digits) + 1, _LEAST)
        found += query(SPANS, (track_id, digits, low, last_us, first_us, start))


def _undo(
    query: Query, track_id: int, sequence: int, kinds: Kinds, low: Key, high: Key, touched: dict[Key, Cells]
) -> None:
    ((kind, before, after),) = query(ENTRY, (track_id, sequence))
    is_late = kind == ChangeKind.LATE
    block = between(decode_side(query, track_id, sequence, after if is_late else before, kinds), low, high)
    n = len(block)
    if not n:
        return
    rows = [touched.setdefault(block.key(row), {}) for row in range(n)]
    for property_id, column in block.columns.items():
        valid = None if column.valid is None else column.valid.tolist()
        values, qualities = column.values.tolist(), column.quality.tolist()
        for row in range(n):
            if valid is None or valid[row]:
                rows[row][property_id] = None if is_late else (values[row], qualities[row])


def _applied(now: Block, touched: dict[Key, Cells], kinds: Kinds) -> Block:
    """The rows with the touched cells put in their place, those left without a value dropped."""
    rows: dict[Key, Cells] = {now.key(row): {} for row in range(len(now))}
    for property_id, column in now.columns.items():
        valid = None if column.valid is None else column.valid.tolist()
        values, qualities = column.values.tolist(), column.quality.tolist()
        for row, cells in enumerate(rows.values()):
            if valid is None or valid[row]:
                cells[property_id] = (values[row], qualities[row])
    for key, changed in touched.items():
        rows.setdefault(key, {}).update(changed)
    keys = sorted(key for key, cells in rows.items() if any(cell is not None for cell in cells.values()))
    if not keys:
        return empty_block()
    columns: dict[int, Column] = {}
    for property_id, kind in kinds.items():
        given = [rows[key].get(property_id) for key in keys]
        items = [None if cell is None else cell[0] for cell in given]
        columns[property_id] = Column.of(kind, items, [100 if cell is None else cell[1] for cell in given])
    ends, begins, results = (np.array(part, np.int64) for part in zip(*keys, strict=True))
    return with_plain_times(Block(ends, columns, begin=begins, result_time=results))


def _with_values(block: Block) -> Block:
    """The rows that have a value, without positions."""
    n = len(block)
    mask = np.zeros(n, np.bool_)
    for column in block.columns.values():
        if column.valid is None:
            mask[:] = True
            break
        mask |= column.valid
    made = Block(block.end, block.columns, begin=block.begin, result_time=block.result_time)
    return with_plain_times(made if mask.all() else made.take(mask))
