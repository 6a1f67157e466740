"""Reading: order, intervals, columns, bounds; the same from the tail, from chunks and from both."""

from __future__ import annotations

import pytest
from tests.store.support import (
    EVERY_KIND,
    STEP,
    T0,
    Station,
    block,
    fill,
    insert,
    number,
    register,
    rows_of,
    scan,
    times,
    values,
)

from thalweg.domain.blocks import Column
from thalweg.domain.observations import OnDuplicate
from thalweg.domain.store import MAX_BLOCK_ROWS, Store
from thalweg.domain.time import ALL_TIME, END_US, MIN_US, Interval

N = 2500


@pytest.fixture(params=["tail", "sealed", "tail over chunks"])
def filled(store: Store, request: pytest.FixtureRequest) -> Station:
    """A station with N ten-minute rows of two numbers: value i and i / 10, the second only in every third row."""
    station = register(store)
    a, b = station.ids

    def part(rows: range) -> None:
        insert(
            store,
            station,
            block(
                [T0 + i * STEP for i in rows],
                {a: [float(i) for i in rows], b: [i / 10 if i % 3 == 0 else None for i in rows]},
            ),
        )

    if request.param == "tail over chunks":
        part(range(0, N, 2))
        store.seal(station.track, everything=True)
        part(range(1, N, 2))
    else:
        part(range(N))
        if request.param == "sealed":
            store.seal(station.track, everything=True)
    return station


def ends(
    store: Store, station: Station, wanted: list[int], interval: Interval = ALL_TIME, **options: object
) -> list[int]:
    return [(key[0] - T0) // STEP for key, _, _ in scan(store, station.track, wanted, interval, **options)]


def test_all_rows_in_order(store: Store, filled: Station) -> None:
    a, b = filled.ids
    found = scan(store, filled.track, [a, b])
    assert [key for key, _, _ in found] == [(t,) * 3 for t in times(N)]
    for i in (0, 1, 3, 1007, 1008, 1009, N - 1):
        cells = {a: number(i)} | ({b: number(i / 10)} if i % 3 == 0 else {})
        assert found[i][1] == cells


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        (0, 144), (1000, 1144), (0, N), (5, 6), (5, 5), (6, 5), (-10, 3), (N - 2, N + 10), (N, N + 10), (-10, 0),
        (2016, 2017), (900, 2100),
    ],
)  # fmt: skip
def test_interval_is_half_open_on_the_phenomenon_end(store: Store, filled: Station, begin: int, end: int) -> None:
    a = filled.ids[0]
    interval = Interval(T0 + begin * STEP, T0 + end * STEP)
    assert ends(store, filled, [a], interval) == list(range(max(begin, 0), min(end, N)))
    inner = Interval(interval.begin_us + 1, interval.end_us + 1)
    assert ends(store, filled, [a], inner) == list(range(max(begin + 1, 0), min(end + 1, N)))


def test_only_rows_with_a_value_of_the_wanted_properties(store: Store, filled: Station) -> None:
    b = filled.ids[1]
    assert ends(store, filled, [b]) == list(range(0, N, 3))
    assert scan(store, filled.track, [b], Interval(T0 + STEP, T0 + 3 * STEP)) == []


def test_columns_come_as_asked_without_doubles_and_unknown_ones(store: Store, filled: Station) -> None:
    a, b = filled.ids
    interval = Interval(T0, T0 + 9 * STEP)
    for wanted, expected in (([b, a], [b, a]), ([a, b, a], [a, b]), ([99_999, a], [a]), ([99_999], []), ([], [])):
        blocks = list(store.scan(filled.track, wanted, interval))
        assert all(list(found.columns) == expected for found in blocks)
        assert bool(blocks) == bool(expected)


@pytest.mark.parametrize("rows", [1, 7, 1000, 1008, MAX_BLOCK_ROWS])
@pytest.mark.parametrize("descending", [False, True])
def test_blocks_are_bounded_and_keep_the_order(store: Store, filled: Station, rows: int, descending: bool) -> None:
    a = filled.ids[0]
    interval = Interval(T0 + 1000 * STEP, T0 + 1050 * STEP) if rows == 1 else ALL_TIME
    wanted = list(range(1000, 1050)) if rows == 1 else list(range(N))
    assert ends(store, filled, [a], interval, rows=rows, descending=descending) == (
        wanted[::-1] if descending else wanted
    )


def test_descending_gives_the_newest_first_and_may_be_left(store: Store, filled: Station) -> None:
    a = filled.ids[0]
    blocks = store.scan(filled.track, [a], descending=True, rows=10)
    first = next(blocks)
    assert 1 <= len(first) <= 10
    assert first.end.tolist() == [T0 + (N - 1 - i) * STEP for i in range(len(first))]
    del blocks
    # Nothing is locked by a scan that was left half-way.
    insert(store, filled, block([T0 + N * STEP], {a: [0.0]}))


def test_writes_between_two_blocks_are_not_kept_waiting(store: Store, filled: Station) -> None:
    a = filled.ids[0]
    blocks = store.scan(filled.track, [a], rows=100)
    seen: list[int] = next(blocks).end.tolist()
    insert(store, filled, block([T0 + (N + 5) * STEP], {a: [1.0]}))
    store.seal(filled.track, everything=True)
    for found in blocks:
        assert found.end[0] > seen[-1]
        seen += found.end.tolist()
    # Every row that was there from first to last is given once; the one that came in between may be.
    assert [s for s in seen if s < T0 + N * STEP] == times(N)


def test_values_of_every_kind_have_their_types(store: Store) -> None:
    station = register(store, wanted=EVERY_KIND)
    kinds = {s.property_id: s.kind for s in station.procedure.series}
    wanted = block(
        times(3),
        dict(zip(station.ids, ([1.0, None, 2.0], [1, 2, None], [None, "a", "b"], [True, None, False]), strict=True)),
        kinds=kinds,
    )
    insert(store, station, wanted)
    for sealed in (False, True):
        if sealed:
            store.seal(station.track, everything=True)
        (found,) = store.scan(station.track, station.ids)
        assert {key: column.kind for key, column in found.columns.items()} == kinds
        for key, dtype in zip(station.ids, ("float64", "int64", "object", "bool"), strict=True):
            column: Column = found.columns[key]
            assert column.values.dtype == dtype
            assert column.quality.dtype == "int16"
        assert rows_of(found) == rows_of(wanted)
        # Filled where missing, as columns are documented.
        number_, integer, text, boolean = (found.columns[key].values.tolist() for key in station.ids)
        assert number_[1] != number_[1]
        assert (integer[2], text[0], boolean[1]) == (0, "", False)


def test_unknown_and_empty_tracks_give_nothing(store: Store) -> None:
    station = register(store)
    assert scan(store, station.track, station.ids) == []
    assert scan(store, 4711, station.ids) == []
    assert scan(store, station.track, station.ids, descending=True) == []


def test_interval_beyond_all_time_is_bounded(store: Store) -> None:
    station = register(store)
    a = station.ids[0]
    insert(store, station, block([MIN_US, T0, END_US - 1], {a: [1.0, 2.0, 3.0]}))
    for sealed in (False, True):
        if sealed:
            store.seal(station.track, everything=True)
        assert values(store, station.track, a, Interval(-(2**63), 2**63 - 1)) == [
            (MIN_US, 1.0), (T0, 2.0), (END_US - 1, 3.0),
        ]  # fmt: skip
        assert values(store, station.track, a, Interval(MIN_US, END_US - 1)) == [(MIN_US, 1.0), (T0, 2.0)]


def test_dense_window_is_read_whole(store: Store) -> None:
    """Rows every second in a procedure announced at ten minutes: a window of far more rows than planned."""
    station = register(store)
    a, b = station.ids
    wanted = fill(store, station, 20_000, step=1_000_000)
    assert values(store, station.track, a) == list(zip(times(20_000, step=1_000_000), wanted[a], strict=True))
    assert values(store, station.track, b, Interval(T0 + 9_000_000_000, T0 + 9_003_000_000)) == [
        (T0 + i * 1_000_000, wanted[b][i]) for i in range(9000, 9003)
    ]
    insert(store, station, block([T0 + 9_000_500_000], {a: [7.0]}))
    insert(store, station, block([T0 + 9_001_000_000], {a: [8.0]}), on_duplicate=OnDuplicate.REPLACE)
    for sealed in (False, True):
        if sealed:
            store.seal(station.track, everything=True)
        assert values(store, station.track, a, Interval(T0 + 9_000_000_000, T0 + 9_002_000_000)) == [
            (T0 + 9_000_000_000, wanted[a][9000]), (T0 + 9_000_500_000, 7.0), (T0 + 9_001_000_000, 8.0),
        ]  # fmt: skip
    assert len(values(store, station.track, a)) == 20_001


def test_many_rows_of_one_end_are_read_in_bounded_blocks(store: Store) -> None:
    """Forecasts: thousands of result times of one phenomenon time, more than a block or a chunk may hold."""
    station = register(store)
    a = station.ids[0]
    n = 10_000
    rows = block([T0] * n, {a: [float(i) for i in range(n)]}, results=[T0 - (n - i) * STEP for i in range(n)])
    insert(store, station, rows)
    for sealed in (False, True):
        if sealed:
            store.seal(station.track, everything=True)
        assert scan(store, station.track, [a]) == rows_of(rows)
        found = scan(store, station.track, [a], rows=1000, descending=True)
        assert found == rows_of(rows)[::-1]
