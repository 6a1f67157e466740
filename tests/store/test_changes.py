"""Deletion, replacement of an interval, late rows, and the change log that keeps what was."""

from __future__ import annotations

import pytest
from tests.store.support import (
    EVERY_KIND,
    NUMBERS,
    STEP,
    T0,
    WAIT_S,
    Backend,
    Station,
    assert_clean,
    bits,
    block,
    fill,
    insert,
    insertion,
    kinds_of,
    logged,
    number,
    register,
    rows_of,
    scan,
    state,
    times,
    values,
)

from thalweg.domain.catalogue import ProcedureKind
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.observations import OnDuplicate
from thalweg.domain.store import Store
from thalweg.domain.time import ALL_TIME, DAY_US, Interval


@pytest.fixture(params=["tail", "sealed", "half sealed"])
def station(store: Store, request: pytest.FixtureRequest) -> Station:
    """Six rows: a everywhere (0.0 … 5.0), b in every second row (0.5, 2.5, 4.5)."""
    made = register(store)
    a, b = made.ids
    rows = block(times(6), {a: [float(i) for i in range(6)], b: [i + 0.5 if i % 2 == 0 else None for i in range(6)]})
    if request.param == "half sealed":
        insert(store, made, rows.take(slice(0, 3)))
        store.seal(made.track, everything=True)
        insert(store, made, rows.take(slice(3, 6)))
    else:
        insert(store, made, rows)
        if request.param == "sealed":
            store.seal(made.track, everything=True)
    return made


def at(i: int) -> tuple[int, int, int]:
    return (T0 + i * STEP,) * 3


# ------------------------------------------------------------------ deletion


def test_whole_rows_are_deleted_and_logged(store: Store, station: Station) -> None:
    a, b = station.ids
    assert store.delete(station.track, Interval(T0 + 2 * STEP, T0 + 4 * STEP), by="anna").result(WAIT_S) == 3
    assert [key for key, _, _ in scan(store, station.track, [a, b])] == [at(0), at(1), at(4), at(5)]
    assert logged(store, station.track) == [
        (
            "deletion",
            "anna",
            [(at(2), {a: number(2.0), b: number(2.5)}, None), (at(3), {a: number(3.0)}, None)],
            [],
        )
    ]
    found = state(store, station.track)
    assert (found.rows, found.series[a].count, found.series[b].count) == (4, 4, 2)
    assert_clean(store)


def test_cells_of_one_property_are_deleted_and_rows_left_empty_go_too(store: Store, station: Station) -> None:
    a, b = station.ids
    assert store.delete(station.track, Interval(T0, T0 + 3 * STEP), [a]).result(WAIT_S) == 3
    assert scan(store, station.track, [a, b]) == [
        (at(0), {b: number(0.5)}, None),
        (at(2), {b: number(2.5)}, None),
        (at(3), {a: number(3.0)}, None),
        (at(4), {a: number(4.0), b: number(4.5)}, None),
        (at(5), {a: number(5.0)}, None),
    ]
    found = state(store, station.track)
    assert (found.rows, found.begin_us, found.series[a].begin_us, found.series[a].count) == (5, T0, T0 + 3 * STEP, 3)
    assert_clean(store)


def test_deleting_the_ends_recomputes_extremes_and_last_values(store: Store, station: Station) -> None:
    a, b = station.ids
    assert store.delete(station.track, Interval(T0 + 4 * STEP, T0 + 100 * STEP)).result(WAIT_S) == 3
    found = state(store, station.track)
    assert (found.begin_us, found.end_us, found.rows) == (T0, T0 + 3 * STEP, 4)
    assert (found.series[a].last.value, found.series[b].last.value) == (3.0, 2.5)
    assert store.delete(station.track, Interval(T0 - STEP, T0 + STEP)).result(WAIT_S) == 2
    found = state(store, station.track)
    assert (found.begin_us, found.series[a].begin_us, found.series[b].begin_us) == (T0 + STEP, T0 + STEP, T0 + 2 * STEP)
    assert store.delete(station.track, ALL_TIME, [b]).result(WAIT_S) == 1
    assert list(state(store, station.track).series) == [a]
    assert store.delete(station.track, ALL_TIME).result(WAIT_S) == 3
    found = state(store, station.track)
    assert (found.begin_us, found.end_us, found.rows, found.series) == (None, None, 0, {})
    assert store.extents(station.workspace_id) == {}
    assert scan(store, station.track, [a, b]) == []
    assert_clean(store)


def test_deleting_nothing_changes_nothing(store: Store, station: Station) -> None:
    before = state(store, station.track)
    for interval, ids in (
        (Interval(T0 + STEP, T0 + STEP), None),
        (Interval(T0 + 1, T0 + STEP), None),
        (Interval(T0 + STEP, T0 + 2 * STEP), [station.ids[1]]),
        (ALL_TIME, [99_999]),
        (ALL_TIME, []),
    ):
        assert store.delete(station.track, interval, ids).result(WAIT_S) == 0
    assert logged(store, station.track) == []
    assert state(store, station.track) == before


def test_deleted_time_can_be_written_again(store: Store, station: Station) -> None:
    a, b = station.ids
    store.delete(station.track, Interval(T0, T0 + STEP)).result(WAIT_S)
    receipt = insert(store, station, block([T0], {a: [9.0]}))
    assert (receipt.rows, receipt.added) == (1, 1)
    assert scan(store, station.track, [a, b], Interval(T0, T0 + STEP)) == [(at(0), {a: number(9.0)}, None)]
    store.seal(station.track, everything=True)
    assert scan(store, station.track, [a, b], Interval(T0, T0 + STEP)) == [(at(0), {a: number(9.0)}, None)]


def test_deletion_over_many_chunks(store: Store) -> None:
    station = register(store)
    a, b = station.ids
    wanted = fill(store, station, 5000)
    insert(store, station, block(times(10, T0 + 5000 * STEP), {a: [1.0] * 10}))
    deleted = store.delete(station.track, Interval(T0 + 500 * STEP, T0 + 5005 * STEP)).result(WAIT_S)
    assert deleted == 2 * 4500 + 5
    assert values(store, station.track, a) == [
        *zip(times(500), wanted[a][:500], strict=True),
        *zip(times(5, T0 + 5005 * STEP), [1.0] * 5, strict=True),
    ]
    found = state(store, station.track)
    assert (found.rows, found.series[a].count, found.series[b].count) == (505, 505, 500)
    assert found.series[b].last.end_us == T0 + 499 * STEP
    before = [row for change in store.changes(station.track, limit=100_000) for row in rows_of(change.before)]
    assert len(before) == 4505
    assert sorted(key[0] for key, _, _ in before) == times(4505, T0 + 500 * STEP)
    assert_clean(store)


@pytest.mark.parametrize("sealed", [False, True])
def test_begin_after_a_deletion_may_be_that_of_a_much_later_row(store: Store, sealed: bool) -> None:
    """Intervals: the row that begins first is not the row that ends first."""
    station = register(store)
    a, b = station.ids
    week = 7 * DAY_US
    ends = [T0 - 8 * week, T0, T0 + STEP, T0 + 2 * week, T0 + 4 * week]
    begins = [T0 - 8 * week, T0, T0 + STEP, T0 - week, T0 + 4 * week]
    insert(store, station, block(ends, {a: [1.0, 2.0, 3.0, 4.0, 5.0], b: [1.0, 2.0, 3.0, None, 5.0]}, begins=begins))
    if sealed:
        store.seal(station.track, everything=True)
    store.delete(station.track, Interval(ends[0], ends[0] + 1)).result(WAIT_S)
    found = state(store, station.track)
    assert (found.begin_us, found.series[a].begin_us, found.series[b].begin_us) == (T0 - week, T0 - week, T0)
    store.delete(station.track, Interval(ends[3], ends[3] + 1), [a]).result(WAIT_S)
    found = state(store, station.track)
    assert (found.begin_us, found.series[a].begin_us, found.rows) == (T0, T0, 3)
    assert_clean(store)


def test_position_of_a_deleted_row_is_in_the_log(store: Store) -> None:
    station = register(store, kind=ProcedureKind.MOBILE)
    a = station.ids[0]
    rows = block(times(2), {a: [1.0, None]}, positions=[[8.0, 46.0, 1.0], [9.0, 47.0, 2.0]])
    insert(store, station, rows)
    store.delete(station.track, ALL_TIME).result(WAIT_S)
    assert scan(store, station.track, [a]) == []
    assert [(kind, before) for kind, _, before, _ in logged(store, station.track)] == [("deletion", rows_of(rows))]


# ------------------------------------------------------------------ replacing an interval


def test_interval_is_replaced_in_one_transaction(store: Store, station: Station) -> None:
    a, b = station.ids
    rows = block([T0 + STEP, T0 + STEP + 1, T0 + 3 * STEP], {a: [10.0, 11.0, 12.0]}, quality=200)
    receipt = insert(store, station, rows, replace=Interval(T0 + STEP, T0 + 5 * STEP), by="anna")
    assert (receipt.deleted, receipt.added) == (4, 3)
    assert scan(store, station.track, [a, b]) == [
        (at(0), {a: number(0.0), b: number(0.5)}, None),
        (at(1), {a: number(10.0, 200)}, None),
        ((T0 + STEP + 1,) * 3, {a: number(11.0, 200)}, None),
        (at(3), {a: number(12.0, 200)}, None),
        (at(5), {a: number(5.0)}, None),
    ]
    found = state(store, station.track)
    assert (found.rows, found.series[a].count, found.series[b].count) == (5, 5, 1)
    assert found.series[b].last.value == 0.5
    log = logged(store, station.track)
    assert {by for _, by, _, _ in log} == {"anna"}
    # The old cells are in the log, however the change is told.
    old = {(key, p): cell for _, _, before, _ in log for key, cells, _ in before for p, cell in cells.items()}
    assert old == {
        (at(1), a): number(1.0), (at(2), a): number(2.0), (at(2), b): number(2.5), (at(3), a): number(3.0),
        (at(4), a): number(4.0), (at(4), b): number(4.5),
    }  # fmt: skip
    assert_clean(store)


def test_refused_replacement_deletes_nothing(store: Store, station: Station) -> None:
    before = scan(store, station.track, station.ids), state(store, station.track)
    bad = block([T0 + STEP, T0], {station.ids[0]: [1.0, 2.0]})
    with pytest.raises(InvalidParameter):
        insert(store, station, bad, replace=ALL_TIME)
    assert (scan(store, station.track, station.ids), state(store, station.track)) == before
    assert logged(store, station.track) == []


def test_replacement_may_leave_less_or_nothing(store: Store, station: Station) -> None:
    nothing = block([], {station.ids[0]: []})
    receipt = insert(store, station, nothing, replace=Interval(T0, T0 + 3 * STEP))
    assert (receipt.deleted, receipt.rows, receipt.added) == (3, 0, 0)
    assert [key for key, _, _ in scan(store, station.track, station.ids)] == [at(3), at(4), at(5)]
    assert_clean(store)


# ------------------------------------------------------------------ the log


def test_new_rows_in_order_are_not_logged_and_late_ones_are(store: Store) -> None:
    station = register(store)
    a, b = station.ids
    insert(store, station, block(times(3), {a: [0.0, 1.0, 2.0]}))
    insert(store, station, block([T0 + 5 * STEP], {a: [5.0]}))
    assert logged(store, station.track) == []
    insert(store, station, block([T0 + 4 * STEP, T0 + 6 * STEP], {a: [4.0, 6.0]}), by="bob")
    assert logged(store, station.track) == [("late", "bob", [], [(at(4), {a: number(4.0)}, None)])]
    # A cell that joins a row that is there is late as well.
    insert(store, station, block([T0 + 6 * STEP], {b: [7.0]}))
    assert logged(store, station.track, after=1) == [("late", "", [], [(at(6), {b: number(7.0)}, None)])]


def test_log_is_numbered_per_track_timed_and_read_in_portions(store: Store) -> None:
    one, two = register(store, "ONE"), register(store, "TWO")
    a = one.ids[0]
    for station in (one, two):
        insert(store, station, block(times(6), {a: [0.0] * 6}))
    for i in range(5):
        insert(store, one, block([T0 + i * STEP], {a: [i + 1.0]}), on_duplicate=OnDuplicate.REPLACE, by=f"user{i}")
        insert(store, two, block([T0 + i * STEP], {a: [i + 1.0]}), on_duplicate=OnDuplicate.REPLACE)
    log = store.changes(one.track)
    assert [change.sequence for change in log] == [1, 2, 3, 4, 5]
    assert [change.track_id for change in log] == [one.track] * 5
    assert [change.by for change in log] == [f"user{i}" for i in range(5)]
    assert [change.at_us for change in log] == sorted(change.at_us for change in log)
    assert log[0].at_us > 1_600_000_000_000_000
    assert [c.sequence for c in store.changes(one.track, 2)] == [3, 4, 5]
    assert [c.sequence for c in store.changes(one.track, 2, limit=2)] == [3, 4]
    assert store.changes(one.track, 5) == []
    assert store.changes(4711) == []


def test_log_keeps_every_kind_of_value_bit_for_bit(store: Store) -> None:
    station = register(store, wanted=EVERY_KIND)
    of = kinds_of(station)
    old = (-0.0, 2**53 + 1, "naïve\t🌧", True)
    new = (0.1 + 0.2, -(2**63), "", False)
    columns = [{key: [value] for key, value in zip(station.ids, cells, strict=True)} for cells in (old, new)]
    insert(store, station, block([T0], columns[0], kinds=of, begins=[T0 - STEP], results=[T0 + STEP]))
    insert(
        store,
        station,
        block([T0], columns[1], kinds=of, quality=0, begins=[T0 - STEP], results=[T0 + STEP]),
        on_duplicate=OnDuplicate.REPLACE,
    )
    key = (T0, T0 - STEP, T0 + STEP)
    assert logged(store, station.track) == [
        (
            "correction",
            "",
            [(key, {p: (bits(v), 100) for p, v in zip(station.ids, old, strict=True)}, None)],
            [(key, {p: (bits(v), 0) for p, v in zip(station.ids, new, strict=True)}, None)],
        )
    ]


def test_log_survives_sealing_and_reopening(backend: Backend) -> None:
    store = backend.open()
    station = register(store, wanted=NUMBERS)
    a = station.ids[0]
    insert(store, station, block(times(3), {a: [0.0, 1.0, 2.0]}))
    insert(store, station, block([T0], {a: [9.0]}), on_duplicate=OnDuplicate.REPLACE)
    store.delete(station.track, Interval(T0 + STEP, T0 + 2 * STEP)).result(WAIT_S)
    before = logged(store, station.track)
    assert [kind for kind, _, _, _ in before] == ["correction", "deletion"]
    store.seal(everything=True)
    backend.close()
    store = backend.open()
    assert logged(store, station.track) == before
    insert(store, station, block([T0 + STEP], {a: [1.5]}))
    assert [change.sequence for change in store.changes(station.track)] == [1, 2, 3]


def test_corrections_of_a_long_history_touch_only_what_they_name(store: Store) -> None:
    station = register(store)
    a, b = station.ids
    wanted = fill(store, station, 3000)
    picked = [0, 1007, 1008, 1500, 2999]
    insert(
        store,
        station,
        block([T0 + i * STEP for i in picked], {b: [i + 0.25 for i in picked]}, quality=201),
        on_duplicate=OnDuplicate.REPLACE,
    )
    for sealed in (False, True):
        if sealed:
            store.seal(station.track, everything=True)
        assert values(store, station.track, a) == list(zip(times(3000), wanted[a], strict=True))
        found = scan(store, station.track, [b])
        for i in range(3000):
            assert found[i][1][b] == (number(i + 0.25, 201) if i in picked else number(wanted[b][i]))
    (entry,) = logged(store, station.track)
    assert [key for key, _, _ in entry[2]] == [at(i) for i in picked]
    assert_clean(store)


def test_late_rows_by_loading_are_logged_too(store: Store) -> None:
    station = register(store)
    a = station.ids[0]
    insert(store, station, block([T0 + 10 * STEP], {a: [10.0]}))
    store.load(
        station.workspace_id,
        insertion(station, block(times(12), {a: [float(i) for i in range(12)]}), on_duplicate=OnDuplicate.SKIP),
        by="loader",
    )
    log = logged(store, station.track)
    assert {(kind, by) for kind, by, _, _ in log} == {("late", "loader")}
    assert [key for _, _, _, after in log for key, _, _ in after] == [at(i) for i in range(10)]
