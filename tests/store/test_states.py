"""Maintained begin, end, count and last values, and the extents that capabilities are made of."""

from __future__ import annotations

import math

import pytest
from tests.store.support import (
    EVERY_KIND,
    STEP,
    T0,
    WAIT_S,
    Backend,
    block,
    default_workspace,
    fill,
    insert,
    insertion,
    kinds_of,
    register,
    state,
    times,
)

from thalweg.domain.catalogue import ProcedureKind
from thalweg.domain.observations import LastValue, OnDuplicate, SeriesState, TrackState
from thalweg.domain.store import Extent, Store
from thalweg.domain.time import Interval


def last(at_us: int, value: float | str, quality: int) -> LastValue:
    """The last value of an instant."""
    return LastValue(at_us, at_us, at_us, value, quality)


def test_track_without_rows_is_known_and_empty_and_unknown_ones_are_left_out(store: Store) -> None:
    station = register(store)
    found = store.states([station.track, 4711])
    assert list(found) == [station.track]
    empty = found[station.track]
    assert (empty.begin_us, empty.end_us, empty.rows, empty.series, empty.position) == (None, None, 0, {}, None)
    assert store.states([]) == {}
    assert store.extents(station.workspace_id) == {}


def test_state_is_that_of_the_rows(store: Store) -> None:
    station = register(store, wanted=EVERY_KIND)
    a, b, c, d = station.ids
    insert(
        store,
        station,
        block(
            times(4),
            {a: [1.0, 2.0, None, 3.5], b: [None, 2**53 + 1, 5, None], c: [None, None, "rain", None], d: [None] * 4},
            kinds=kinds_of(station),
            quality=[1, 2, 3, 4],
            begins=[T0 - STEP, T0 + STEP, T0 + 2 * STEP, T0 + 2 * STEP],
        ),
    )
    found = state(store, station.track)
    assert found == TrackState(
        station.track,
        T0 - STEP,
        T0 + 3 * STEP,
        4,
        found.generation,
        {
            a: SeriesState(
                a, T0 - STEP, T0 + 3 * STEP, 3, LastValue(T0 + 3 * STEP, T0 + 2 * STEP, T0 + 3 * STEP, 3.5, 4)
            ),
            b: SeriesState(b, T0 + STEP, T0 + 2 * STEP, 2, last(T0 + 2 * STEP, 5, 3)),
            c: SeriesState(c, T0 + 2 * STEP, T0 + 2 * STEP, 1, last(T0 + 2 * STEP, "rain", 3)),
        },
    )
    assert type(found.series[b].last.value) is int
    assert type(found.series[a].last.value) is float


@pytest.mark.parametrize("sealed", [False, True])
def test_late_rows_widen_the_state_and_do_not_touch_the_last_value(store: Store, sealed: bool) -> None:
    station = register(store)
    a, b = station.ids
    insert(store, station, block([T0], {a: [1.0]}))
    if sealed:
        store.seal(station.track, everything=True)
    insert(store, station, block([T0 - 5 * STEP], {a: [0.5], b: [7.0]}))
    found = state(store, station.track)
    assert (found.begin_us, found.end_us, found.rows) == (T0 - 5 * STEP, T0, 2)
    assert found.series[a].last == LastValue(T0, T0, T0, 1.0, 100)
    assert (found.series[a].begin_us, found.series[a].count) == (T0 - 5 * STEP, 2)
    assert found.series[b].last == last(T0 - 5 * STEP, 7.0, 100)


def test_last_value_is_that_of_the_greatest_key(store: Store) -> None:
    station = register(store)
    a = station.ids[0]
    insert(store, station, block([T0], {a: [1.0]}, results=[T0 + STEP]))
    # The same end, an earlier result: not newer. The same end and result, a later begin: newer.
    insert(store, station, block([T0], {a: [2.0]}, results=[T0]))
    assert state(store, station.track).series[a].last.value == 1.0
    insert(store, station, block([T0], {a: [3.0]}, begins=[T0 - STEP], results=[T0 + 2 * STEP]))
    assert state(store, station.track).series[a].last.value == 1.0
    insert(store, station, block([T0], {a: [4.0]}, results=[T0 + 3 * STEP]))
    assert state(store, station.track).series[a].last == LastValue(T0, T0, T0 + 3 * STEP, 4.0, 100)


def test_generation_rises_with_every_change_and_not_with_sealing(store: Store) -> None:
    station = register(store)
    a = station.ids[0]
    seen = [state(store, station.track).generation]

    def changed() -> bool:
        seen.append(state(store, station.track).generation)
        return seen[-1] > seen[-2]

    insert(store, station, block([T0], {a: [1.0]}))
    assert changed()
    insert(store, station, block([T0 - STEP], {a: [1.0]}))
    assert changed()
    insert(store, station, block([T0], {a: [2.0]}), on_duplicate=OnDuplicate.REPLACE)
    assert changed()
    store.seal(station.track, everything=True)
    assert not changed()
    store.load(
        station.workspace_id,
        insertion(station, block([T0 + STEP], {a: [2.0]}), on_duplicate=OnDuplicate.SKIP),
    )
    assert changed()
    store.delete(station.track, Interval(T0, T0 + 1)).result(WAIT_S)
    assert changed()


def test_position_of_the_newest_row(store: Store) -> None:
    station = register(store, kind=ProcedureKind.MOBILE)
    a = station.ids[0]
    insert(store, station, block([T0], {a: [1.0]}, positions=[[8.0, 46.0, 200.0]]))
    insert(store, station, block([T0 - STEP], {a: [1.0]}, positions=[[7.0, 45.0, 100.0]]))
    assert state(store, station.track).position == (8.0, 46.0, 200.0)
    insert(store, station, block([T0 + STEP], {a: [1.0]}, positions=[[9.0, 47.0, math.nan]]))
    x, y, z = state(store, station.track).position or (0.0, 0.0, 0.0)
    assert (x, y, math.isnan(z)) == (9.0, 47.0, True)
    store.delete(station.track, Interval(T0 + STEP, T0 + 2 * STEP)).result(WAIT_S)
    assert state(store, station.track).position == (8.0, 46.0, 200.0)


def test_extents_cover_all_tracks_of_each_procedure(store: Store) -> None:
    one, two, empty = register(store, "ONE", places=2), register(store, "TWO"), register(store, "EMPTY")
    a = one.ids[0]
    insert(store, one, block([T0], {a: [1.0]}, begins=[T0 - STEP]), place=0)
    insert(store, one, block([T0 + STEP, T0 + 2 * STEP], {a: [1.0, 2.0]}), place=1)
    insert(store, two, block([T0], {a: [1.0]}))
    assert store.extents(one.workspace_id) == {
        one.procedure.id: Extent(T0 - STEP, T0 + 2 * STEP, 3),
        two.procedure.id: Extent(T0, T0, 1),
    }
    insert(store, two, block([T0 + STEP], {a: [1.0]}))
    assert store.extents(one.workspace_id)[two.procedure.id] == Extent(T0, T0 + STEP, 2)
    store.delete(two.track, Interval(T0, T0 + 9 * STEP)).result(WAIT_S)
    store.delete(one.tracks[1], Interval(T0 + 2 * STEP, T0 + 9 * STEP)).result(WAIT_S)
    assert store.extents(one.workspace_id) == {one.procedure.id: Extent(T0 - STEP, T0 + STEP, 2)}
    insert(store, empty, block([T0], {a: [1.0]}))
    assert store.extents(one.workspace_id)[empty.procedure.id] == Extent(T0, T0, 1)


def test_extents_handed_out_do_not_change_afterwards(store: Store) -> None:
    station = register(store)
    a = station.ids[0]
    insert(store, station, block([T0], {a: [1.0]}))
    before = store.extents(station.workspace_id)
    copy = dict(before)
    insert(store, station, block([T0 + STEP], {a: [1.0]}))
    assert store.extents(station.workspace_id) != copy
    assert before == copy


def test_states_are_the_same_after_sealing_and_reopening(backend: Backend) -> None:
    store = backend.open()
    station = register(store)
    fill(store, station, 1500)
    insert(store, station, block(times(3, T0 + 1500 * STEP), {station.ids[0]: [1.5, 2.5, -0.0]}, quality=[1, 2, 3]))
    before = store.states(station.tracks), store.extents(station.workspace_id)
    assert before[0][station.track].rows == 1503
    store.seal(everything=True)
    assert (store.states(station.tracks), store.extents(station.workspace_id)) == before
    backend.close()
    store = backend.open()
    assert (store.states(station.tracks), store.extents(default_workspace(store))) == before
    assert math.copysign(1.0, state(store, station.track).series[station.ids[0]].last.value) == -1.0  # type: ignore[arg-type]
