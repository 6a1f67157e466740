"""Judging rows that come in against the rows that are stored: pure functions on blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from thalweg.domain.blocks import Block, BoolArray, Column, PositionArray, ValueArray, ValueKind
from thalweg.domain.observations import OnDuplicate
from thalweg.store.sqlite.states import column_count

Rows: TypeAlias = npt.NDArray[np.intp]

_ALL: Final = slice(None)


class Duplicate(Exception):
    """A cell that is stored already, where none may be. ``property_id`` None: the row's position."""

    def __init__(self, key: tuple[int, int, int], property_id: int | None) -> None:
        super().__init__(key, property_id)
        self.key = key
        self.property_id = property_id


@dataclass(slots=True)
class Verdict:
    """What of incoming rows is to be written.

    write      the cells and positions to write; only rows that have some
    written    new cells per property in ``write``
    fresh_rows rows that are not stored
    added, replaced, skipped, conflicting   cells, as in a receipt
    news       cells of ``write`` that are not stored, and rows that are not; None if there are none
    before, after  cells that are stored and change, as they are and as they will be; None if there are none
    """

    write: Block
    written: dict[int, int]
    fresh_rows: int
    added: int
    replaced: int
    skipped: int
    conflicting: int
    news: Block | None
    before: Block | None
    after: Block | None


def judge(incoming: Block, stored: Block | None, on_duplicate: OnDuplicate) -> Verdict:
    """Compare incoming rows cell by cell with the stored ones, of which others may be in ``stored`` too.

    raises  Duplicate for the first cell that is stored already, if those are to be refused
    """
    n = len(incoming)
    if stored is None or not len(stored):
        written = {key: column_count(column) for key, column in incoming.columns.items()}
        return Verdict(incoming, written, n, sum(written.values()), 0, 0, 0, incoming, None, None)
    ours, theirs = matches(incoming, stored)
    fresh = np.ones(n, np.bool_)
    fresh[ours] = False
    total_new = total_replaced = total_skipped = total_conflicting = 0
    write: dict[int, BoolArray] = {}
    new: dict[int, BoolArray] = {}
    changed: dict[int, BoolArray] = {}
    for key, column in incoming.columns.items():
        have = np.ones(n, np.bool_) if column.valid is None else column.valid
        other = stored.columns.get(key)
        both = np.zeros(n, np.bool_)
        if other is not None:
            both[ours] = True if other.valid is None else other.valid[theirs]
            both &= have
        new[key] = write[key] = have & ~both
        total_new += int(np.count_nonzero(new[key]))
        count = int(np.count_nonzero(both))
        changed[key] = np.zeros(n, np.bool_)
        if not count or other is None:
            continue
        if on_duplicate is OnDuplicate.REFUSE:
            raise Duplicate(incoming.key(int(np.argmax(both))), key)
        at = np.flatnonzero(both[ours])
        mine, his = ours[at], theirs[at]
        values_differ = ~same_values(column.kind, column.values[mine], other.values[his])
        if on_duplicate is OnDuplicate.SKIP:
            total_skipped += count
            total_conflicting += int(np.count_nonzero(values_differ))
            continue
        total_replaced += count
        changed[key][mine] = values_differ | (column.quality[mine] != other.quality[his])
        write[key] = new[key] | changed[key]
    moved = _moved(incoming, stored, ours, theirs, fresh, on_duplicate)

    news = _restricted(incoming, new, fresh, moved.added)
    before = after = None
    corrected = moved.changed.copy()
    for mask in changed.values():
        corrected |= mask
    if corrected.any():
        after = _restricted(incoming, changed, np.zeros(n, np.bool_), moved.changed)
        place = np.zeros(n, np.intp)
        place[ours] = theirs
        at = np.flatnonzero(corrected)
        there = stored.take(place[at])
        columns = {key: _masked(there.columns[key], mask[at]) for key, mask in changed.items() if mask.any()}
        before = Block(
            there.end, columns, begin=there.begin, result_time=there.result_time,
            position=_only(there.position, moved.changed[at]),
        )  # fmt: skip
    return Verdict(
        write=_restricted(incoming, write, fresh, moved.added | moved.changed),
        written={key: int(np.count_nonzero(mask)) for key, mask in new.items()},
        fresh_rows=int(np.count_nonzero(fresh)),
        added=total_new,
        replaced=total_replaced,
        skipped=total_skipped,
        conflicting=total_conflicting,
        news=news if len(news) else None,
        before=before,
        after=after,
    )


def matches(one: Block, other: Block) -> tuple[Rows, Rows]:
    """Rows of equal keys in two blocks: indexes into the one, and into the other, both rising."""
    if one.begin is one.result_time is other.begin is other.result_time is None:
        place = other.end.searchsorted(one.end)
        place[place == len(other)] = 0
        found = np.flatnonzero(other.end[place] == one.end)
        return found, place[found]
    rows = {other.key(row): row for row in range(len(other))}
    pairs = [(row, rows[key]) for row in range(len(one)) if (key := one.key(row)) in rows]
    table = np.array(pairs, np.intp).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def same_values(kind: ValueKind, one: ValueArray, other: ValueArray) -> BoolArray:
    """Whether values are the same, numbers bit for bit (zero is not negative zero)."""
    if kind is ValueKind.NUMBER:
        one = np.ascontiguousarray(one, np.float64).view(np.int64)
        other = np.ascontiguousarray(other, np.float64).view(np.int64)
    return np.asarray(one == other, np.bool_)


@dataclass(slots=True)
class _Moves:
    """Rows whose position is added to a stored row that has none, and rows whose position is changed."""

    added: BoolArray
    changed: BoolArray


def _moved(
    incoming: Block, stored: Block, ours: Rows, theirs: Rows, fresh: BoolArray, on_duplicate: OnDuplicate
) -> _Moves:
    n = len(incoming)
    moves = _Moves(np.zeros(n, np.bool_), np.zeros(n, np.bool_))
    if incoming.position is None or not len(ours):
        return moves
    mine = incoming.position[ours]
    known = ~np.isnan(mine).all(axis=1)
    if stored.position is None:
        moves.added[ours] = known
        return moves
    his = stored.position[theirs]
    his_known = ~np.isnan(his).all(axis=1)
    differs = known & his_known & ~((mine == his) | (np.isnan(mine) & np.isnan(his))).all(axis=1)
    moves.added[ours] = known & ~his_known
    if differs.any():
        if on_duplicate is OnDuplicate.REFUSE:
            raise Duplicate(incoming.key(int(ours[np.argmax(differs)])), None)
        if on_duplicate is OnDuplicate.REPLACE:
            moves.changed[ours] = differs
    return moves


def _restricted(block: Block, masks: dict[int, BoolArray], rows: BoolArray, positions: BoolArray) -> Block:
    """The masked cells; of ``rows`` also where no cell is; positions of ``rows`` and of ``positions``."""
    wanted = rows | positions
    for mask in masks.values():
        wanted = wanted | mask
    if wanted.all():
        at: Any = _ALL
    else:
        at = np.flatnonzero(wanted)
    there = block.take(at)
    columns = {key: _masked(there.columns[key], mask[at]) for key, mask in masks.items() if mask.any()}
    position = _only(there.position, (rows | positions)[at])
    return Block(there.end, columns, begin=there.begin, result_time=there.result_time, position=position)


def _masked(column: Column, mask: BoolArray) -> Column:
    """The column with values only where the mask says so."""
    values = None if column.scaled is not None else column.values
    valid = None if mask.all() else mask
    return Column(column.kind, values, valid, column.quality, scaled=column.scaled, decimals=column.decimals)


def _only(position: PositionArray | None, mask: BoolArray) -> PositionArray | None:
    """Positions only where the mask says so; None where it never does."""
    if position is None or not mask.any():
        return None
    if mask.all():
        return position
    return np.where(mask[:, None], position, np.nan)
