"""The number of a row, and the row of a number: as a scan of everything counts them."""

from __future__ import annotations

import random

import pytest
from tests.store.support import STEP, T0, WAIT_S, Station, block, fill, insert, register, scan, times

from thalweg.domain.catalogue import ProcedureKind
from thalweg.domain.observations import OnDuplicate
from thalweg.domain.store import Store
from thalweg.domain.time import END_US, MIN_US, Interval


def agrees(store: Store, station: Station, track: int | None = None) -> list[int]:
    """Compare with the phenomenon ends that a scan gives; these."""
    track = station.track if track is None else track
    ends = [key[0] for key, _, _ in scan(store, track, station.ids)]
    asked = sorted({MIN_US, END_US - 1, *ends[:50], *ends[-50:], *ends[:: max(len(ends) // 50, 1)]})
    asked += [end + 1 for end in asked[1:-1]]
    assert store.rows_before(track, asked) == [sum(end < one for end in ends) for one in asked]
    for place in {*range(min(50, len(ends))), *range(0, len(ends), max(len(ends) // 50, 1)), len(ends) - 1} - {-1}:
        assert store.end_at(track, place) == ends[place]
    assert store.end_at(track, len(ends)) is None
    assert store.end_at(track, -1) is None
    return ends


def test_a_track_without_rows_and_an_unknown_one_have_no_positions(store: Store) -> None:
    station = register(store)
    for track in (station.track, 999_999):
        assert store.rows_before(track, [T0, END_US - 1]) == [0, 0]
        assert store.end_at(track, 0) is None


def test_positions_of_new_rows_of_sealed_rows_and_of_both(store: Store) -> None:
    station = register(store)
    a, b = station.ids
    insert(store, station, block(times(300), {a: [float(i) for i in range(300)]}))
    assert agrees(store, station) == times(300)
    store.seal(station.track, everything=True)
    assert agrees(store, station) == times(300)
    # After the sealed rows, between them, before them, and cells laid over them.
    insert(store, station, block(times(40, T0 + 300 * STEP), {a: [1.0] * 40}))
    assert agrees(store, station) == times(340)
    insert(store, station, block(times(30, T0 + STEP // 2), {a: [2.0] * 30}))
    insert(store, station, block(times(20, T0 - 100 * STEP), {a: [3.0] * 20}))
    insert(store, station, block(times(60, T0 + 270 * STEP), {b: [4.0] * 60}))
    assert len(agrees(store, station)) == 390
    store.seal(station.track, everything=True)
    assert len(agrees(store, station)) == 390


def test_positions_follow_deletions_loads_and_the_end_of_the_procedure(store: Store) -> None:
    station = register(store)
    fill(store, station, 5_000)
    assert len(agrees(store, station)) == 5_000
    store.delete(station.track, Interval(T0 + 900 * STEP, T0 + 1_200 * STEP)).result(WAIT_S)
    assert len(agrees(store, station)) == 4_700
    fill(store, station, 1_500, start=T0 + 4_000 * STEP)
    assert len(agrees(store, station)) == 5_200
    store.delete(station.track, Interval(MIN_US, END_US)).result(WAIT_S)
    assert agrees(store, station) == []
    store.delete_procedure(station.workspace_id, station.procedure.id).result(WAIT_S)
    assert store.end_at(station.track, 0) is None


def test_rows_that_share_a_phenomenon_time_are_counted_each(store: Store) -> None:
    station = register(store, kind=ProcedureKind.FIXED)
    a = station.ids[0]
    results = [T0 - hours * STEP for hours in range(30, 0, -1)]
    for _ in range(2):
        insert(store, station, block([T0] * 30, {a: [1.0] * 30}, results=results), on_duplicate=OnDuplicate.SKIP)
        insert(store, station, block([T0 + STEP], {a: [1.0]}), on_duplicate=OnDuplicate.SKIP)
        assert agrees(store, station) == [T0] * 30 + [T0 + STEP]
        store.seal(station.track, everything=True)


@pytest.mark.parametrize("seed", range(6))
def test_positions_hold_whatever_was_done_before(store: Store, seed: int) -> None:
    chance = random.Random(seed)
    station = register(store)
    a, b = station.ids
    for _ in range(12):
        start, n = chance.randrange(-200, 1_500), chance.randrange(1, 400)
        ends = times(n, T0 + start * STEP)
        match chance.randrange(5):
            case 0 | 1:
                rows = block(ends, {chance.choice((a, b)): [float(i) for i in range(n)]})
                insert(store, station, rows, on_duplicate=OnDuplicate.SKIP)
            case 2:
                fill(store, station, n, start=T0 + start * STEP)
            case 3:
                which = chance.choice((None, [a], [b]))
                store.delete(station.track, Interval(ends[0], ends[-1]), which).result(WAIT_S)
            case _:
                store.seal(station.track, everything=True)
        agrees(store, station)
