"""Deleting cells and rows, and finding begins, ends and last values again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from thalweg.domain.blocks import Block, BoolArray, Column
from thalweg.domain.observations import ChangeKind
from thalweg.domain.time import END_US, MIN_US, Interval
from thalweg.store.codec.merge import concat_blocks, merge_blocks
from thalweg.store.codec.row import encode_rows
from thalweg.store.sqlite.changes import MAX_ENTRY_ROWS, log_change
from thalweg.store.sqlite.checks import keys_of
from thalweg.store.sqlite.ranges import HEADS, TAIL, Kinds, decode_tail, key_after, key_before, slice_ends, walk
from thalweg.store.sqlite.states import Key, State, column_count, pack_position
from thalweg.store.sqlite.windows import DELETE_CHUNK, Chunk, window_length, write_chunks
from thalweg.store.sqlite.writer import Transaction

DELETE_TAIL_ROW: Final = """
    DELETE FROM tail WHERE track_id = ? AND end_us = ? AND begin_us = ? AND result_us = ?"""
DELETE_TAIL_ENDS: Final = "DELETE FROM tail WHERE track_id = ? AND end_us >= ? AND end_us < ?"
UPDATE_TAIL_ROW: Final = """
    UPDATE tail SET cells = ? WHERE track_id = ? AND end_us = ? AND begin_us = ? AND result_us = ?"""
TAIL_BATCH: Final = 4096


@dataclass(slots=True)
class Removed:
    """What a deletion took away so far.

    newest, least_begin   over the rows that are gone; of the cells per property in the two dictionaries
    """

    rows: int = 0
    cells: int = 0
    newest: Key | None = None
    least_begin: int | None = None
    newest_of: dict[int, Key] = field(default_factory=dict)
    least_begin_of: dict[int, int] = field(default_factory=dict)


def delete_range(
    tx: Transaction, state: State, interval: Interval, property_ids: Sequence[int] | None, kinds: Kinds, by: str
) -> Removed:
    """Delete cells of the properties (None: whole rows) with ends in the interval; change ``state``, not stored yet."""
    removed = Removed()
    begin_us, end_us = max(interval.begin_us, MIN_US), min(interval.end_us, END_US)
    targets = None if property_ids is None else set(property_ids)
    log: list[Block] = []
    for victims, gone in _take_away(tx, state, begin_us, end_us, targets, kinds):
        _count(state, removed, victims, gone)
        log.append(victims)
        if sum(map(len, log)) >= MAX_ENTRY_ROWS:
            log_change(tx, state, ChangeKind.DELETION, by, concat_blocks(log), None)
            log.clear()
    if log:
        log_change(tx, state, ChangeKind.DELETION, by, concat_blocks(log), None)
    if removed.rows or removed.cells:
        reached = state.late_until
        _find_again(tx, state, removed, kinds)
        if reached is not None and (state.end is None or state.end < reached):
            # What comes there again has been before: it is late, and so goes to the log.
            state.reach = reached
    return removed


# ------------------------------------------------------------------ taking away


def _take_away(
    tx: Transaction, state: State, begin_us: int, end_us: int, targets: set[int] | None, kinds: Kinds
) -> Iterator[tuple[Block, BoolArray]]:
    """Stretch by stretch: the cells taken away, in key order, and which of their rows are gone altogether."""
    at = begin_us
    while at < end_us:
        heads = tx.rows(HEADS, (state.track_id, at, end_us - 1, 1))
        if not heads:
            yield from _from_tail(tx, state, at, end_us, targets, kinds)
            return
        chunk = Chunk(*heads[0])
        if chunk.first_us > at:
            yield from _from_tail(tx, state, at, chunk.first_us, targets, kinds)
            at = chunk.first_us
        stop = min(end_us, chunk.last_us + 1)
        victims = _from_chunk(tx, state, chunk, at, stop, targets, kinds)
        if victims is not None:
            yield victims
        at = stop


def _from_tail(
    tx: Transaction, state: State, begin_us: int, end_us: int, targets: set[int] | None, kinds: Kinds
) -> Iterator[tuple[Block, BoolArray]]:
    low, high = key_after(begin_us - 1), key_before(end_us)
    while True:
        rows = tx.rows(TAIL, (state.track_id, *low, *high, TAIL_BATCH))
        if not rows:
            return
        low = rows[-1][:3]
        block = decode_tail(tx.rows, state.track_id, rows, None, kinds)
        parted = part(block, targets)
        if parted is None:
            continue
        victims, gone, rest, lost = parted
        tx.many(DELETE_TAIL_ROW, [(state.track_id, *key) for key in keys_of(block.take(lost))])
        state.tail_rows -= int(np.count_nonzero(lost))
        if len(rest):
            tx.many(
                UPDATE_TAIL_ROW,
                [(cells, state.track_id, *key) for key, cells in zip(keys_of(rest), encode_rows(rest), strict=True)],
            )
        yield victims, gone


def _from_chunk(
    tx: Transaction,
    state: State,
    chunk: Chunk,
    begin_us: int,
    end_us: int,
    targets: set[int] | None,
    kinds: Kinds,
) -> tuple[Block, BoolArray] | None:
    """Rewrite a chunk without the cells; the tail's rows of these ends go into it."""
    whole = chunk.block(tx, state.track_id)
    inside = slice_ends(whole, begin_us, end_us)
    rows = tx.rows(TAIL, (state.track_id, *key_after(begin_us - 1), *key_before(end_us), -1))
    if rows:
        inside = merge_blocks(inside, decode_tail(tx.rows, state.track_id, rows, None, kinds))
    parted = part(inside, targets)
    if parted is None:
        return None
    victims, gone, rest, _ = parted
    tx.rows(DELETE_TAIL_ENDS, (state.track_id, begin_us, end_us))
    state.tail_rows -= len(rows)
    tx.rows(DELETE_CHUNK, (chunk.id,))
    kept = [slice_ends(whole, MIN_US, begin_us), rest, slice_ends(whole, end_us, END_US)]
    left = concat_blocks([block for block in kept if len(block)])
    window_us = window_length(tx, state.track_id, whole.end)
    write_chunks(tx, state.track_id, window_us, left)
    return victims, gone


def part(block: Block, targets: set[int] | None) -> tuple[Block, BoolArray, Block, BoolArray] | None:
    """Part a block into what is deleted and what stays; None if nothing is.

    targets  properties whose cells go; None: whole rows
    returns  (cells deleted, which of those rows are gone, rows that stay, which rows of ``block`` are gone)
    """
    n = len(block)
    if not n:
        return None
    if targets is None:
        all_rows = np.ones(n, np.bool_)
        return block, all_rows, block.take(slice(0, 0)), all_rows
    leaving = {key: column for key, column in block.columns.items() if key in targets}
    staying = {key: column for key, column in block.columns.items() if key not in targets}
    hit = _any_valid(leaving, n)
    if not hit.any():
        return None
    lost = hit & ~_any_valid(staying, n)
    position = block.position
    if position is not None:
        # The position goes into the log with the row it goes with.
        position = np.where(lost[:, None], position, np.nan) if lost.any() else None
    victims = Block(block.end, leaving, begin=block.begin, result_time=block.result_time, position=position).take(hit)
    rest = Block(block.end, staying, begin=block.begin, result_time=block.result_time, position=block.position).take(
        ~lost
    )
    return victims, lost[hit], rest, lost


def _any_valid(columns: dict[int, Column], n: int) -> BoolArray:
    mask = np.zeros(n, np.bool_)
    for column in columns.values():
        if column.valid is None:
            return np.ones(n, np.bool_)
        mask |= column.valid
    return mask


def _count(state: State, removed: Removed, victims: Block, gone: BoolArray) -> None:
    """Take the cells off the counts, and note where extremes may have been."""
    for key, column in victims.columns.items():
        count = column_count(column)
        if not count:
            continue
        state.series[key].count -= count
        removed.cells += count
        rows = np.arange(len(victims)) if column.valid is None else np.flatnonzero(column.valid)
        removed.newest_of[key] = victims.key(int(rows[-1]))
        begin = int((victims.end if victims.begin is None else victims.begin)[rows].min())
        removed.least_begin_of[key] = min(begin, removed.least_begin_of.get(key, begin))
    rows = np.flatnonzero(gone)
    if len(rows):
        removed.rows += len(rows)
        removed.newest = victims.key(int(rows[-1]))
        begin = int((victims.end if victims.begin is None else victims.begin)[rows].min())
        removed.least_begin = begin if removed.least_begin is None else min(begin, removed.least_begin)
    state.rows -= len(rows)


# ------------------------------------------------------------------ extremes


def _find_again(tx: Transaction, state: State, removed: Removed, kinds: Kinds) -> None:
    """Make begins, ends, last values and the position exact again, looking from the ends of the track."""
    for key in [key for key, cells in state.series.items() if not cells.count]:
        del state.series[key]
    last_lost = [key for key, cells in state.series.items() if removed.newest_of.get(key) == cells.last_key]
    begin_lost = [
        key for key, cells in state.series.items() if removed.least_begin_of.get(key, cells.begin + 1) <= cells.begin
    ]
    if last_lost:
        _find_last(tx, state, last_lost, kinds)
    if begin_lost:
        for key, begin in _find_begins(tx, state, begin_lost, kinds).items():
            state.series[key].begin = begin
    if not state.rows:
        state.begin = state.end = state.position = None
        return
    if removed.newest is not None and (state.position is not None or removed.newest[0] == state.end):
        _find_newest_row(tx, state, kinds)
    if removed.least_begin is not None and state.begin is not None and removed.least_begin <= state.begin:
        begins = _find_begins(tx, state, None, kinds)
        state.begin = begins[_ANY_ROW]


_ANY_ROW: Final = 0
"""Stands for the row itself where begins are looked for; no property has this id."""
_LOW: Final = key_before(MIN_US)
_HIGH: Final = key_after(END_US)


def _find_last(tx: Transaction, state: State, properties: list[int], kinds: Kinds) -> None:
    missing = set(properties)
    for block in walk(tx.rows, nullcontext, state.track_id, properties, kinds, _LOW, _HIGH, descending=True):
        for key in list(missing):
            column = block.columns[key]
            rows = np.arange(len(block)) if column.valid is None else np.flatnonzero(column.valid)
            if len(rows):
                row = int(rows[-1])
                cells = state.series[key]
                cells.last_key = block.key(row)
                cells.value, cells.quality = column.values.item(row), column.quality.item(row)
                missing.remove(key)
        if not missing:
            return


def _find_newest_row(tx: Transaction, state: State, kinds: Kinds) -> None:
    for block in walk(tx.rows, nullcontext, state.track_id, list(kinds), kinds, _LOW, _HIGH, descending=True, rows=1):
        state.end = int(block.end[0])
        if state.position is not None:
            where = (np.nan, np.nan, np.nan) if block.position is None else tuple(block.position[0].tolist())
            state.position = pack_position(block.key(0), where)
        return


def _find_begins(tx: Transaction, state: State, properties: list[int] | None, kinds: Kinds) -> dict[int, int]:
    """The least phenomenon begin of each property's cells; None: of any row, under _ANY_ROW."""
    found: dict[int, int] = {}
    missing = {_ANY_ROW} if properties is None else set(properties)
    wanted = list(kinds) if properties is None else properties
    for block in walk(tx.rows, nullcontext, state.track_id, wanted, kinds, _LOW, _HIGH):
        begins = block.end if block.begin is None else block.begin
        for key in list(missing):
            valid = None if key == _ANY_ROW else block.columns[key].valid
            mine = begins if valid is None else begins[valid]
            if len(mine):
                found[key] = min(int(mine.min()), found.get(key, END_US))
            # A later row ends later, and no row is longer than the longest.
            if key in found and int(block.end[-1]) - state.longest >= found[key]:
                missing.remove(key)
        if not missing:
            break
    return found
