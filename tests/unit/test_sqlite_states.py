"""Packed states: what is maintained comes back bit for bit, and damage is seen."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.domain.blocks import Block, Column, ValueKind
from thalweg.domain.errors import DamagedData
from thalweg.store.sqlite.states import EMPTY_SERIES, SeriesCells, State, pack_series, track_state, unpack_series

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
KEYS = st.tuples(INT64, INT64, INT64)
CELLS = st.one_of(
    st.tuples(st.just(1), st.floats(allow_nan=False)),
    st.tuples(st.just(2), INT64),
    st.tuples(st.just(3), st.text(max_size=20)),
    st.tuples(st.just(4), st.booleans()),
)


def plain(cells: SeriesCells) -> tuple[object, ...]:
    value = struct.pack("<d", cells.value) if cells.code == 1 else (type(cells.value), cells.value)
    return cells.code, cells.begin, cells.count, cells.last_key, value, cells.quality


@given(st.dictionaries(INT64, st.tuples(CELLS, INT64, INT64, KEYS, st.integers(-32768, 32767)), max_size=6))
def test_series_come_back_as_they_were(
    given_: dict[int, tuple[tuple[int, object], int, int, tuple[int, int, int], int]],
) -> None:
    series = {
        key: SeriesCells(code, begin, count, last, value, quality)
        for key, ((code, value), begin, count, last, quality) in given_.items()
    }
    found = unpack_series(pack_series(series))
    assert list(found) == list(series)
    assert {k: plain(c) for k, c in found.items()} == {k: plain(c) for k, c in series.items()}


def test_any_flipped_bit_is_seen() -> None:
    packed = pack_series({4: SeriesCells(1, 10, 2, (20, 20, 20), 21.5, 100)})
    for bit in range(8 * len(packed)):
        damaged = bytearray(packed)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedData):
            unpack_series(bytes(damaged))


@pytest.mark.parametrize("length", range(10))
def test_cut_off_state_is_seen(length: int) -> None:
    with pytest.raises(DamagedData):
        unpack_series(EMPTY_SERIES[:length])


# ------------------------------------------------------------------ growing


def state() -> State:
    return State(7, (None, None, 0, 0, 0, 0, None, None, EMPTY_SERIES))


def block(ends: list[int], columns: dict[int, list[float | None]], **times: list[int]) -> Block:
    arrays = {name: np.array(items, np.int64) for name, items in times.items()}
    made = {key: Column.of(ValueKind.NUMBER, items) for key, items in columns.items()}
    return Block(np.array(ends, np.int64), made, begin=arrays.get("begin"), result_time=arrays.get("result"))


def test_a_row_and_a_block_of_one_row_count_the_same() -> None:
    rows = [
        block([100], {1: [1.5], 2: [None]}),
        block([200], {1: [2.5], 2: [7.0]}, begin=[50]),
        block([150], {2: [8.0]}),
    ]
    by_row, by_block = state(), state()
    for row in rows:
        by_row.add_row(row, row.key(0))
        by_block.add_block(row, 1)
    for one in (by_row, by_block):
        assert (one.begin, one.end, one.rows, one.longest) == (50, 200, 3, 150)
        assert {k: plain(c) for k, c in one.series.items()} == {
            1: (1, 50, 2, (200, 50, 200), struct.pack("<d", 2.5), 100),
            2: (1, 50, 2, (200, 50, 200), struct.pack("<d", 7.0), 100),
        }


def test_late_row_widens_but_does_not_become_the_last() -> None:
    one = state()
    one.add_block(block([100, 200], {1: [1.0, 2.0]}), 2)
    one.add_block(block([50], {1: [9.0]}), 1)
    found = one.series[1]
    assert (found.begin, found.count, found.last_key, found.value) == (50, 3, (200, 200, 200), 2.0)


def test_correction_of_the_last_cell_changes_its_value_and_no_count() -> None:
    one = state()
    one.add_block(block([100, 200], {1: [1.0, 2.0]}), 2)
    one.add_block(block([200], {1: [5.0]}), 0, {1: 0})
    assert (one.rows, one.series[1].count, one.series[1].value) == (2, 2, 5.0)


def test_of_rows_of_one_end_the_newest_result_is_the_last() -> None:
    one = state()
    one.add_block(block([200, 200], {1: [1.0, 2.0]}, result=[10, 90]), 2)
    one.add_block(block([200], {1: [3.0]}, result=[50]), 1)
    assert (one.series[1].value, one.series[1].last_key) == (2.0, (200, 200, 90))


def placed(ends: list[int], places: list[tuple[float, float, float]]) -> Block:
    made = block(ends, {1: [1.0] * len(ends)})
    return Block(made.end, made.columns, position=np.array(places))


def position(one: State) -> tuple[float, ...] | None:
    return track_state(7, (one.begin, one.end, one.rows, 1, one.position, pack_series(one.series))).position


def test_position_is_that_of_the_newest_row() -> None:
    one = state()
    one.add_block(placed([100, 200], [(1, 1, 1), (2, 2, 2)]), 2)
    assert position(one) == (2, 2, 2)
    row = placed([150], [(9, 9, 9)])
    one.add_row(row, row.key(0))
    assert position(one) == (2, 2, 2)
    one.add_block(placed([300], [(3, 3, 3)]), 1)
    assert position(one) == (3, 3, 3)
    row = block([400], {1: [1.0]})
    one.add_row(row, row.key(0))
    assert np.isnan(position(one) or ()).all()
    assert len(position(one) or ()) == 3


def test_fixed_track_has_no_position() -> None:
    one = state()
    one.add_block(block([100], {1: [1.0]}), 1)
    assert position(one) is None
