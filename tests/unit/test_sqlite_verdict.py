"""Judging incoming rows against stored ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from thalweg.domain.blocks import Block, Column, ValueKind
from thalweg.domain.observations import OnDuplicate
from thalweg.store.sqlite.verdict import Duplicate, judge, matches, same_values

REFUSE, SKIP, REPLACE = OnDuplicate.REFUSE, OnDuplicate.SKIP, OnDuplicate.REPLACE


def block(
    ends: list[int],
    columns: dict[int, list[Any]],
    *,
    quality: int = 100,
    begins: list[int] | None = None,
    places: list[tuple[float, float, float]] | None = None,
) -> Block:
    return Block(
        np.array(ends, np.int64),
        {key: Column.of(ValueKind.NUMBER, items, quality) for key, items in columns.items()},
        begin=None if begins is None else np.array(begins, np.int64),
        position=None if places is None else np.array(places),
    )


def cells(found: Block | None) -> dict[tuple[int, int], tuple[float, int]]:
    """(end, property) to (value, quality) of all valid cells."""
    if found is None:
        return {}
    return {
        (int(found.end[row]), key): (column.values.item(row), column.quality.item(row))
        for key, column in found.columns.items()
        for row in range(len(found))
        if column.valid is None or column.valid[row]
    }


STORED = block([10, 20, 30], {1: [1.0, 2.0, None], 2: [None, 5.0, 6.0]})


def test_rows_among_others_are_all_new() -> None:
    verdict = judge(block([15, 25], {1: [7.0, 8.0]}), STORED, REFUSE)
    assert (verdict.fresh_rows, verdict.added, verdict.replaced, verdict.skipped) == (2, 2, 0, 0)
    assert cells(verdict.write) == cells(verdict.news) == {(15, 1): (7.0, 100), (25, 1): (8.0, 100)}
    assert verdict.before is verdict.after is None


def test_absent_cell_of_a_stored_row_is_added_whatever_the_policy() -> None:
    for policy in OnDuplicate:
        verdict = judge(block([10, 30], {2: [9.0, None], 1: [None, 4.0]}), STORED, policy)
        assert (verdict.fresh_rows, verdict.added) == (0, 2)
        assert cells(verdict.write) == {(10, 2): (9.0, 100), (30, 1): (4.0, 100)}
        assert verdict.written == {1: 1, 2: 1}


def test_first_stored_cell_is_named_when_refused() -> None:
    with pytest.raises(Duplicate) as refused:
        judge(block([10, 20], {2: [1.0, 5.0]}), STORED, REFUSE)
    assert (refused.value.key, refused.value.property_id) == ((20, 20, 20), 2)


def test_skipped_cells_conflict_where_values_differ() -> None:
    verdict = judge(block([10, 20, 40], {1: [1.0, 2.5, 3.0]}, quality=110), STORED, SKIP)
    assert (verdict.skipped, verdict.conflicting, verdict.added, verdict.fresh_rows) == (2, 1, 1, 1)
    assert cells(verdict.write) == {(40, 1): (3.0, 110)}
    assert verdict.before is None


def test_replaced_cells_are_told_where_value_or_quality_differ() -> None:
    verdict = judge(block([10, 20], {1: [1.0, 2.5], 2: [None, 5.0]}), STORED, REPLACE)
    assert verdict.replaced == 3
    assert cells(verdict.write) == cells(verdict.after) == {(20, 1): (2.5, 100)}
    assert cells(verdict.before) == {(20, 1): (2.0, 100)}
    other_quality = judge(block([10], {1: [1.0]}, quality=200), STORED, REPLACE)
    assert cells(other_quality.before) == {(10, 1): (1.0, 100)}
    assert cells(other_quality.after) == {(10, 1): (1.0, 200)}


def test_replacing_by_the_same_writes_nothing() -> None:
    verdict = judge(block([10, 20], {1: [1.0, 2.0]}), STORED, REPLACE)
    assert (len(verdict.write), verdict.replaced, verdict.before, verdict.news) == (0, 2, None, None)


def test_negative_zero_is_another_value_than_zero() -> None:
    assert same_values(ValueKind.NUMBER, np.array([0.0, -0.0, 1.5]), np.array([-0.0, -0.0, 1.5])).tolist() == [
        False,
        True,
        True,
    ]
    verdict = judge(block([10], {1: [-0.0]}), block([10], {1: [0.0]}), SKIP)
    assert verdict.conflicting == 1


def test_rows_are_matched_by_all_three_times() -> None:
    one = block([10, 10, 20], {1: [1.0, 2.0, 3.0]}, begins=[5, 10, 20])
    other = block([10, 10, 20], {1: [1.0, 2.0, 3.0]}, begins=[4, 5, 20])
    ours, theirs = matches(one, other)
    assert (ours.tolist(), theirs.tolist()) == ([0, 2], [1, 2])
    # Begins told by one side only: instants match instants.
    ours, theirs = matches(one, block([10, 20], {1: [1.0, 2.0]}))
    assert (ours.tolist(), theirs.tolist()) == ([1, 2], [0, 1])


NAN = float("nan")


def test_unknown_position_of_a_stored_row_is_added() -> None:
    stored = block([10, 20], {1: [1.0, 2.0]}, places=[(NAN, NAN, NAN), (1, 1, 1)])
    verdict = judge(block([10, 20], {2: [5.0, 6.0]}, places=[(7, 8, 9), (1, 1, 1)]), stored, REFUSE)
    assert verdict.added == 2
    assert verdict.write.position is not None
    assert verdict.write.position[0].tolist() == [7, 8, 9]
    assert np.isnan(verdict.write.position[1]).all()


def test_other_position_of_a_stored_row_follows_the_policy() -> None:
    stored = block([10], {1: [1.0]}, places=[(1, 1, NAN)])
    moved = block([10], {2: [5.0]}, places=[(2, 1, NAN)])
    with pytest.raises(Duplicate) as refused:
        judge(moved, stored, REFUSE)
    assert refused.value.property_id is None
    kept = judge(moved, stored, SKIP)
    assert kept.write.position is None
    replaced = judge(moved, stored, REPLACE)
    assert replaced.before is not None
    assert replaced.after is not None
    assert replaced.before.position is not None
    assert replaced.after.position is not None
    assert replaced.before.position[0, :2].tolist() == [1, 1]
    assert replaced.after.position[0, :2].tolist() == [2, 1]


def test_nothing_stored_means_all_is_written_as_it_is() -> None:
    incoming = block([10, 20], {1: [1.0, None], 2: [2.0, 3.0]})
    for stored in (None, STORED.take(slice(0, 0))):
        verdict = judge(incoming, stored, REFUSE)
        assert verdict.write is incoming
        assert verdict.written == {1: 1, 2: 2}
        assert (verdict.fresh_rows, verdict.added) == (2, 3)
