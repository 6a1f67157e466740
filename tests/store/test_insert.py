"""Insertion: what is kept, what is refused and then leaves nothing, and what duplicates do, cell by cell."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.store.support import (
    EVERY_KIND,
    STEP,
    T0,
    WAIT_S,
    Station,
    assert_clean,
    bits,
    block,
    feature,
    insert,
    insertion,
    kinds_of,
    logged,
    number,
    register,
    rows_of,
    scan,
    state,
    station_of,
    times,
    values,
)

from thalweg.domain.blocks import Block, Column, ValueKind
from thalweg.domain.catalogue import ProcedureKind
from thalweg.domain.errors import AlreadyExists, InvalidParameter, NotFound, ThalwegError
from thalweg.domain.observations import MAX_TEXT_LENGTH, Insertion, OnDuplicate, Receipt
from thalweg.domain.store import Store
from thalweg.domain.time import END_US, MIN_US, Interval, parse_instant

REFUSE, SKIP, REPLACE = OnDuplicate.REFUSE, OnDuplicate.SKIP, OnDuplicate.REPLACE
BOTH_STATES = pytest.mark.parametrize("sealed", [False, True], ids=["tail", "sealed"])


def test_rows_come_back_as_they_went_in(store: Store) -> None:
    station = register(store)
    a, b = station.ids
    receipt = insert(
        store, station, block(times(3), {a: [1.5, None, -3.25], b: [0.0, 0.1, None]}, quality=[100, 110, 0])
    )
    assert receipt == Receipt(station.track, rows=3, added=4)
    assert scan(store, station.track, [a, b]) == [
        ((T0,) * 3, {a: number(1.5), b: number(0.0)}, None),
        ((T0 + STEP,) * 3, {b: number(0.1, 110)}, None),
        ((T0 + 2 * STEP,) * 3, {a: number(-3.25, 0)}, None),
    ]


@BOTH_STATES
def test_ugly_values_of_every_kind_come_back_bit_for_bit(store: Store, sealed: bool) -> None:
    station = register(store, wanted=EVERY_KIND)
    columns: dict[int, list[Any]] = dict(
        zip(
            station.ids,
            (
                [-0.0, 5e-324, 1.7976931348623157e308, 0.1 + 0.2, 12345.678901234567, 2.0**53, None, -999.9],
                [2**53 + 1, 2**63 - 1, -(2**63), 0, None, 1, -1, 2**31],
                ["", "é 日本語 🌧", "a\tb\x7f\x85", " x ", "<&>\"'", None, "x" * MAX_TEXT_LENGTH, "\r\n"],
                [True, False, None, True, True, False, False, True],
            ),
            strict=True,
        )
    )
    wanted = block(times(8), columns, kinds=kinds_of(station), quality=[100, 0, -32768, 32767, 210, 110, 1, 2])
    insert(store, station, wanted)
    if sealed:
        assert store.seal(station.track, everything=True) == 8
    assert scan(store, station.track, station.ids) == rows_of(wanted)
    last = state(store, station.track).series
    assert [bits(last[i].last.value) for i in station.ids] == [bits(v) for v in (-999.9, 2**31, "\r\n", True)]
    assert_clean(store)


@BOTH_STATES
def test_properties_that_arrive_one_by_one_merge_into_the_row(store: Store, sealed: bool) -> None:
    station = register(store, wanted=EVERY_KIND)
    a, b, c, d = station.ids
    cells: list[tuple[int, Any]] = [(a, 1.5), (b, 7), (c, "rain"), (d, False)]
    for i, (key, value) in enumerate(cells):
        receipt = insert(store, station, block([T0], {key: [value]}, kinds=kinds_of(station), quality=100 + i))
        assert (receipt.rows, receipt.added) == (1 if i == 0 else 0, 1)
        if sealed:
            store.seal(station.track, everything=True)
    assert scan(store, station.track, station.ids) == [
        ((T0,) * 3, {key: (bits(value), 100 + i) for i, (key, value) in enumerate(cells)}, None)
    ]
    assert state(store, station.track).rows == 1


def test_intervals_and_forecasts_are_rows_of_their_own(store: Store) -> None:
    station = register(store)
    a = station.ids[0]
    rows = block(
        [T0] * 4 + [T0 + STEP],
        {a: [1.0, 2.0, 3.0, 4.0, 5.0]},
        begins=[T0 - 2 * STEP, T0 - STEP, T0, T0, T0 + STEP],
        results=[T0, T0, T0 - STEP, T0, T0 + 9 * STEP],
    )
    assert insert(store, station, rows).rows == 5
    found = scan(store, station.track, [a])
    assert found == rows_of(rows)
    # A second forecast for the same time is no duplicate; the same one is.
    insert(store, station, block([T0], {a: [9.0]}, results=[T0 + STEP]))
    with pytest.raises(AlreadyExists):
        insert(store, station, block([T0], {a: [9.0]}, results=[T0 - STEP]))
    assert [key[2] - T0 for key, _, _ in scan(store, station.track, [a], Interval(T0, T0 + 1))] == [
        0,
        0,
        -STEP,
        0,
        STEP,
    ]
    last = state(store, station.track).series[a]
    assert (last.begin_us, last.end_us, last.count) == (T0 - 2 * STEP, T0 + STEP, 6)
    assert (last.last.end_us, last.last.begin_us, last.last.result_us) == (T0 + STEP, T0 + STEP, T0 + 9 * STEP)


@BOTH_STATES
def test_early_late_and_far_rows_lie_in_key_order(store: Store, sealed: bool) -> None:
    station = register(store)
    a = station.ids[0]
    far, _ = parse_instant("2099-12-31T23:00:00Z", "t")
    old, _ = parse_instant("1864-01-01", "t")
    ends = [T0 + 5 * STEP, far, T0 + 2 * STEP, old, END_US - 1, MIN_US, T0 + 7 * STEP, T0 + 3 * STEP]
    for i, end in enumerate(ends):
        insert(store, station, block([end], {a: [float(i)]}))
        if sealed and i % 2:
            store.seal(station.track, everything=True)
    wanted = sorted((end, float(i)) for i, end in enumerate(ends))
    assert values(store, station.track, a) == wanted
    assert values(store, station.track, a, Interval(T0, far)) == [w for w in wanted if T0 <= w[0] < far]
    found = state(store, station.track)
    assert (found.begin_us, found.end_us, found.rows) == (MIN_US, END_US - 1, 8)
    assert found.series[a].last.value == 4.0
    assert_clean(store)


def test_several_features_are_several_tracks(store: Store) -> None:
    station = register(store, places=2)
    a = station.ids[0]
    one = insert(store, station, block([T0], {a: [1.0]}), place=0)
    two = insert(store, station, block([T0], {a: [2.0]}), place=1)
    assert (one.track_id, two.track_id) == station.tracks
    assert values(store, one.track_id, a) == [(T0, 1.0)]
    assert values(store, two.track_id, a) == [(T0, 2.0)]


def test_new_feature_is_stored_with_the_rows_and_known_one_is_used(store: Store) -> None:
    station = register(store)
    a = station.ids[0]
    place = feature("LAKE", geometry=None)
    first, second = (
        store.insert(
            station.workspace_id, [Insertion(station.procedure.id, where, block([T0 + i], {a: [1.0]}))]
        ).result(WAIT_S)[0]
        for i, where in enumerate((place, feature("LAKE", description="another text")))
    )
    assert first.track_id == second.track_id != station.track
    catalogue = store.catalogue(station.workspace_id)
    stored = catalogue.features[catalogue.tracks[first.track_id].feature_id]
    assert replace(stored, id=0) == place
    assert len(station_of(store, station.workspace_id, station.procedure.id).tracks) == 2
    with pytest.raises(InvalidParameter):
        store.insert(
            station.workspace_id,
            [Insertion(station.procedure.id, feature("NOWHERE"), block([T0], {a: [math.nan]}))],
        ).result(WAIT_S)
    assert store.catalogue(station.workspace_id).feature("NOWHERE") is None


@BOTH_STATES
def test_mobile_positions_come_back_bit_for_bit(store: Store, sealed: bool) -> None:
    station = register(store, kind=ProcedureKind.MOBILE)
    a, b = station.ids
    places = [[8.5, 46.1, 200.0], [8.500000000000002, -0.0, math.nan], [1 / 3, 46.25, -5.5]]
    rows = block(times(3), {a: [1.0, None, None], b: [None, None, 2.0]}, positions=places)
    receipt = insert(store, station, rows)
    # The middle row has no value, but a place: it is kept.
    assert (receipt.rows, receipt.added) == (3, 2)
    if sealed:
        store.seal(station.track, everything=True)
    assert scan(store, station.track, [a, b]) == rows_of(rows)
    assert [key[0] for key, _, _ in scan(store, station.track, [a])] == times(3)
    found = state(store, station.track)
    assert found.rows == 3
    assert found.position == (1 / 3, 46.25, -5.5)
    assert_clean(store)


def test_rows_without_a_value_are_left_out(store: Store) -> None:
    station = register(store)
    a, b = station.ids
    receipt = insert(store, station, block(times(3), {a: [None, 1.0, None], b: [None, None, None]}))
    assert (receipt.rows, receipt.added) == (1, 1)
    assert [key[0] for key, _, _ in scan(store, station.track, [a, b])] == [T0 + STEP]
    nothing = insert(store, station, block(times(2, T0 + 9 * STEP), {a: [None, None]}))
    assert (nothing.rows, nothing.added) == (0, 0)
    assert state(store, station.track).end_us == T0 + STEP


# ------------------------------------------------------------------ duplicates


@BOTH_STATES
def test_duplicate_is_refused_whole_with_names_in_the_message(store: Store, sealed: bool) -> None:
    station = register(store)
    a, b = station.ids
    insert(store, station, block(times(3), {a: [1.0, 2.0, 3.0]}))
    if sealed:
        store.seal(station.track, everything=True)
    before = state(store, station.track)
    with pytest.raises(AlreadyExists) as refused:
        insert(store, station, block(times(3, T0 + 2 * STEP), {a: [3.0, 4.0, 5.0], b: [1.0, 1.0, 1.0]}))
    assert refused.value.parameter == "phenomenonTime"
    assert "LUGANO" in refused.value.message
    assert "temperature" in refused.value.message
    assert "2014-05-13T17:20:00Z" in refused.value.message
    assert state(store, station.track) == before
    assert len(scan(store, station.track, [a, b])) == 3


@BOTH_STATES
def test_skip_keeps_what_is_there_and_adds_the_rest(store: Store, sealed: bool) -> None:
    station = register(store)
    a, b = station.ids
    insert(store, station, block(times(2), {a: [1.0, 2.0], b: [0.5, None]}))
    if sealed:
        store.seal(station.track, everything=True)
    receipt = insert(store, station, block(times(3), {a: [1.0, 9.0, 3.0], b: [None, 0.7, 0.8]}), on_duplicate=SKIP)
    assert receipt == Receipt(station.track, rows=1, added=3, skipped=2, conflicting=1)
    assert scan(store, station.track, [a, b]) == [
        ((T0,) * 3, {a: number(1.0), b: number(0.5)}, None),
        ((T0 + STEP,) * 3, {a: number(2.0), b: number(0.7)}, None),
        ((T0 + 2 * STEP,) * 3, {a: number(3.0), b: number(0.8)}, None),
    ]


@BOTH_STATES
def test_replace_puts_value_and_quality_and_logs_the_old_ones(store: Store, sealed: bool) -> None:
    station = register(store)
    a, b = station.ids
    insert(store, station, block(times(3), {a: [1.0, 2.0, 3.0], b: [0.5, 0.6, 0.7]}))
    if sealed:
        store.seal(station.track, everything=True)
    receipt = insert(
        store,
        station,
        block([T0 + STEP, T0 + 2 * STEP], {a: [9.0, None]}, quality=210),
        on_duplicate=REPLACE,
        by="anna",
    )
    assert (receipt.rows, receipt.added, receipt.replaced, receipt.skipped) == (0, 0, 1, 0)
    assert scan(store, station.track, [a, b]) == [
        ((T0,) * 3, {a: number(1.0), b: number(0.5)}, None),
        ((T0 + STEP,) * 3, {a: number(9.0, 210), b: number(0.6)}, None),
        ((T0 + 2 * STEP,) * 3, {a: number(3.0), b: number(0.7)}, None),
    ]
    key = (T0 + STEP,) * 3
    assert logged(store, station.track) == [
        ("correction", "anna", [(key, {a: number(2.0)}, None)], [(key, {a: number(9.0, 210)}, None)])
    ]


def test_replacing_by_the_same_leaves_no_trace_in_the_log(store: Store) -> None:
    station = register(store)
    a = station.ids[0]
    rows = block(times(2), {a: [1.0, 0.0]})
    insert(store, station, rows)
    insert(store, station, rows, on_duplicate=REPLACE)
    assert logged(store, station.track) == []
    # Another quality is another fact, and so is the other zero.
    insert(store, station, block([T0], {a: [1.0]}, quality=110), on_duplicate=REPLACE)
    insert(store, station, block([T0 + STEP], {a: [-0.0]}), on_duplicate=REPLACE)
    assert [entry[0] for entry in logged(store, station.track)] == ["correction", "correction"]
    assert scan(store, station.track, [a]) == [
        ((T0,) * 3, {a: number(1.0, 110)}, None),
        ((T0 + STEP,) * 3, {a: number(-0.0)}, None),
    ]


@BOTH_STATES
def test_correcting_the_last_value_changes_the_state(store: Store, sealed: bool) -> None:
    station = register(store)
    a = station.ids[0]
    insert(store, station, block(times(2), {a: [1.0, 2.0]}))
    if sealed:
        store.seal(station.track, everything=True)
    before = state(store, station.track)
    insert(store, station, block([T0 + STEP], {a: [7.5]}, quality=0), on_duplicate=REPLACE)
    after = state(store, station.track)
    assert (after.series[a].last.value, after.series[a].last.quality, after.series[a].count) == (7.5, 0, 2)
    assert after.generation > before.generation


# ------------------------------------------------------------------ checks


def bad_blocks(station: Station) -> dict[str, tuple[Block, str]]:
    number_, integer, text, _ = station.ids
    of = kinds_of(station)
    return {
        "unknown property": (block([T0], {99_999: [1.0]}), "observedProperty"),
        "wrong kind": (block([T0], {integer: [1.0]}), "observedProperty"),
        "not a number": (block([T0], {number_: [math.nan]}), "result"),
        "infinite": (block([T0], {number_: [-math.inf]}), "result"),
        "long text": (block([T0], {text: ["x" * (MAX_TEXT_LENGTH + 1)]}, kinds=of), "result"),
        "control character": (block([T0], {text: ["a\x00b"]}, kinds=of), "result"),
        "escape": (block(times(2), {text: ["dry", "\x1b[31mwet"]}, kinds=of), "result"),
        "no character": (block([T0], {text: ["\uffff"]}, kinds=of), "result"),
        "half a surrogate pair": (block([T0], {text: ["\ud800"]}, kinds=of), "result"),
        "too early": (block([MIN_US - 1], {number_: [1.0]}), "phenomenonTime"),
        "too late": (block([END_US], {number_: [1.0]}), "phenomenonTime"),
        "begin too early": (block([T0], {number_: [1.0]}, begins=[MIN_US - 1]), "phenomenonTime"),
        "begin after end": (block([T0], {number_: [1.0]}, begins=[T0 + 1]), "phenomenonTime"),
        "unsorted": (block([T0 + 1, T0], {number_: [1.0, 2.0]}), "phenomenonTime"),
        "doubled": (block([T0, T0], {number_: [1.0, 2.0]}), "phenomenonTime"),
        "unsorted results": (
            block([T0, T0], {number_: [1.0, 2.0]}, results=[T0 + 1, T0]),
            "phenomenonTime",
        ),
    }


@pytest.mark.parametrize(
    "fault",
    [
        "unknown property", "wrong kind", "not a number", "infinite", "long text", "control character", "escape",
        "no character", "half a surrogate pair", "too early", "too late", "begin too early", "begin after end",
        "unsorted", "doubled", "unsorted results",
    ],
)  # fmt: skip
@pytest.mark.parametrize("way", ["insert", "load"])
def test_bad_rows_are_refused_and_nothing_of_the_call_is_kept(store: Store, fault: str, way: str) -> None:
    station = register(store, wanted=EVERY_KIND)
    good = insertion(station, block([T0 - STEP], {station.ids[0]: [1.0]}))
    rows, parameter = bad_blocks(station)[fault]
    bad = insertion(station, rows, on_duplicate=SKIP)

    def attempt() -> None:
        if way == "insert":
            store.insert(station.workspace_id, [good, bad, good]).result(WAIT_S)
        else:
            store.load(station.workspace_id, bad)

    with pytest.raises(InvalidParameter) as refused:
        attempt()
    assert refused.value.parameter == parameter
    assert scan(store, station.track, station.ids) == []
    assert state(store, station.track).rows == 0
    assert store.extents(station.workspace_id) == {}
    assert_clean(store)


def test_bounds_themselves_are_allowed(store: Store) -> None:
    station = register(store, wanted=EVERY_KIND)
    a = station.ids[0]
    rows = block([MIN_US, END_US - 1], {a: [1.0, 2.0]}, begins=[MIN_US, MIN_US], results=[END_US - 1, MIN_US])
    insert(store, station, rows)
    assert scan(store, station.track, [a]) == rows_of(rows)


def test_values_of_missing_cells_are_not_judged(store: Store) -> None:
    station = register(store)
    a, b = station.ids
    column = Column(ValueKind.NUMBER, np.array([math.inf, 1.0]), np.array([False, True]), np.array([-1, 100], np.int16))
    insert(store, station, Block(np.array(times(2)), {a: column, b: Column.of(ValueKind.NUMBER, [2.0, None])}))
    assert scan(store, station.track, [a, b]) == [
        ((T0,) * 3, {b: number(2.0)}, None),
        ((T0 + STEP,) * 3, {a: number(1.0)}, None),
    ]


def test_checks_come_in_their_order(store: Store) -> None:
    station = register(store, wanted=EVERY_KIND)
    a, integer = station.ids[:2]
    insert(store, station, block([T0], {a: [1.0]}))
    with pytest.raises(NotFound) as unknown:
        store.insert(
            station.workspace_id, [Insertion(4711, station.features[0], block([T0], {99_999: [math.nan]}))]
        ).result(WAIT_S)
    assert unknown.value.parameter == "procedure"
    cases = [
        (block([T0 + 1, T0], {integer: [1.0, 2.0], a: [math.nan, 1.0]}), "observedProperty"),
        (block([T0, T0], {a: [math.nan, 1.0]}, begins=[T0 + 1, T0]), "result"),
        (block([T0, T0], {a: [1.0, 1.0]}), "phenomenonTime"),
    ]
    for rows, parameter in cases:
        with pytest.raises(InvalidParameter) as refused:
            insert(store, station, rows)
        assert refused.value.parameter == parameter


def test_unknown_feature_is_refused(store: Store) -> None:
    station = register(store)
    with pytest.raises(ThalwegError):
        store.insert(
            station.workspace_id, [Insertion(station.procedure.id, 4711, block([T0], {station.ids[0]: [1.0]}))]
        ).result(WAIT_S)


def test_insertions_of_one_call_are_all_kept_or_none(store: Store) -> None:
    one, two = register(store, "ONE"), register(store, "TWO")
    a = one.ids[0]
    good = [insertion(one, block(times(2), {a: [1.0, 2.0]})), insertion(two, block([T0], {a: [3.0]}))]
    first, second = store.insert(one.workspace_id, good).result(WAIT_S)
    assert (first.track_id, first.rows, second.track_id, second.rows) == (one.track, 2, two.track, 1)
    before = store.states([one.track, two.track])
    with pytest.raises(AlreadyExists):
        store.insert(
            one.workspace_id,
            [
                insertion(one, block(times(2, T0 + 5 * STEP), {a: [1.0, 2.0]})),
                Insertion(two.procedure.id, feature("NEW"), block([T0], {a: [1.0]})),
                insertion(two, block([T0], {a: [3.0]})),
            ],
        ).result(WAIT_S)
    assert store.states([one.track, two.track]) == before
    assert values(store, one.track, a) == [(T0, 1.0), (T0 + STEP, 2.0)]
    assert store.catalogue(one.workspace_id).feature("NEW") is None
    # Two insertions of one call see one another.
    twice = insertion(one, block([T0 + 9 * STEP], {a: [1.0]}))
    with pytest.raises(AlreadyExists):
        store.insert(one.workspace_id, [twice, twice]).result(WAIT_S)
    assert store.states([one.track, two.track]) == before
    assert_clean(store)


def test_refused_insert_undoes_only_itself_among_many(store: Store) -> None:
    station = register(store)
    a = station.ids[0]
    futures = [
        store.insert(station.workspace_id, [insertion(station, block([T0 + (i // 2) * STEP], {a: [float(i)]}))])
        for i in range(200)
    ]
    done = [future.exception(WAIT_S) for future in futures]
    # Each time is written twice; the first of the two is kept.
    assert [error is None for error in done] == [True, False] * 100
    assert all(isinstance(error, AlreadyExists) for error in done[1::2])
    assert values(store, station.track, a) == [(T0 + i * STEP, 2.0 * i) for i in range(100)]
    assert_clean(store)


def test_many_threads_insert_at_once(store: Store) -> None:
    stations = [register(store, f"P{i}") for i in range(4)]
    a = stations[0].ids[0]

    def write(k: int) -> None:
        for i in range(25):
            insert(store, stations[k % 4], block([T0 + (k * 25 + i) * STEP], {a: [float(k)]}))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    for i, station in enumerate(stations):
        assert [value for _, value in values(store, station.track, a)] == [float(i)] * 25 + [float(i + 4)] * 25
        assert state(store, station.track).series[a].count == 50
    assert_clean(store)
