"""Sealing and bulk loading change where rows are kept, never what is read."""

from __future__ import annotations

from typing import Any

import pytest
from tests.store.support import (
    EVERY_KIND,
    STEP,
    T0,
    Backend,
    Station,
    assert_clean,
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

from thalweg.domain.blocks import Block
from thalweg.domain.catalogue import ProcedureKind
from thalweg.domain.errors import DamagedData, ThalwegError
from thalweg.domain.observations import OnDuplicate, Receipt
from thalweg.domain.store import Store
from thalweg.domain.time import DAY_US, Interval

SKIP, REPLACE = OnDuplicate.SKIP, OnDuplicate.REPLACE


def picture(store: Store, station: Station) -> tuple[Any, ...]:
    """All that can be read of a station's first track."""
    a = station.ids[0]
    middle = Interval(T0 + 3 * STEP, T0 + 2000 * STEP)
    return (
        scan(store, station.track, station.ids),
        scan(store, station.track, station.ids, descending=True, rows=100),
        scan(store, station.track, [a], middle),
        store.states(station.tracks),
        store.extents(station.workspace_id),
        logged(store, station.track),
    )


@pytest.mark.parametrize("everything", [False, True])
def test_sealing_changes_no_read(store: Store, everything: bool) -> None:
    station = register(store, wanted=EVERY_KIND)
    n = 2200
    columns = dict(
        zip(
            station.ids,
            (
                [i / 10 if i % 5 else None for i in range(n)],
                [i if i % 7 else None for i in range(n)],
                [f"weather {i % 20}" if i % 3 == 0 else None for i in range(n)],
                [i % 4 == 0 for i in range(n)],
            ),
            strict=True,
        )
    )
    rows = block(times(n), columns, kinds=kinds_of(station), quality=[100 + (i // 50) % 3 for i in range(n)])
    for start in range(0, n, 200):
        insert(store, station, rows.take(slice(start, start + 200)))
    insert(store, station, block([T0 - 400 * DAY_US, T0 + 7, T0 + 30_000 * DAY_US], {station.ids[0]: [1.0, 2.0, 3.0]}))
    before = picture(store, station)
    sealed = store.seal(station.track, everything=everything)
    assert picture(store, station) == before
    assert sealed == n + 3 if everything else 0 <= sealed <= n + 3
    store.seal(everything=everything)
    assert picture(store, station) == before
    if everything:
        assert store.info().tail_rows == 0
        assert store.seal(everything=True) == 0
    assert_clean(store)


def test_complete_windows_become_due_and_are_sealed_in_the_background(store: Store) -> None:
    station = register(store)
    a = station.ids[0]
    for start in range(0, 6000, 500):
        insert(store, station, block(times(500, T0 + start * STEP), {a: [float(i) for i in range(500)]}))
    before = picture(store, station)
    for _ in range(3):
        store.maintain()
    store.seal()
    assert picture(store, station) == before
    # Five whole weeks have passed; what is left open is at most a few windows.
    assert store.info().tail_rows < 4000
    assert store.info().chunks > 0
    assert_clean(store)


def test_tail_and_chunks_of_one_window_are_merged_again_and_again(store: Store) -> None:
    station = register(store)
    a, b = station.ids
    wanted: dict[int, dict[int, float]] = {}
    for turn in range(6):
        for i in range(turn, 60, 6):
            insert(store, station, block([T0 + i * STEP], {a if turn % 2 else b: [float(i)]}))
            wanted.setdefault(T0 + i * STEP, {})[a if turn % 2 else b] = float(i)
        if turn:
            i = turn - 1
            key = next(iter(wanted[T0 + i * STEP]))
            insert(store, station, block([T0 + i * STEP], {key: [-1.5]}), on_duplicate=REPLACE)
            wanted[T0 + i * STEP][key] = -1.5
        assert store.seal(station.track, everything=True) > 0
        assert scan(store, station.track, [a, b]) == [
            ((t,) * 3, {k: number(v) for k, v in sorted(cells.items())}, None) for t, cells in sorted(wanted.items())
        ]
    assert_clean(store)


def test_mobile_and_forecast_rows_are_sealed(store: Store) -> None:
    mobile = register(store, "BOAT", kind=ProcedureKind.MOBILE)
    forecast = register(store, "MODEL")
    a = mobile.ids[0]
    insert(
        store, mobile,
        block(times(50), {a: [float(i) for i in range(50)]}, positions=[[i / 7, 46.0, -0.0] for i in range(50)]),
    )  # fmt: skip
    ends = [T0 + (i // 5) * STEP for i in range(50)]
    insert(
        store, forecast,
        block(ends, {a: [float(i) for i in range(50)]}, begins=[e - STEP for e in ends],
              results=[T0 - (5 - i % 5) * DAY_US for i in range(50)]),
    )  # fmt: skip
    before = [picture(store, station) for station in (mobile, forecast)]
    assert store.seal(everything=True) == 100
    assert [picture(store, station) for station in (mobile, forecast)] == before
    assert_clean(store)


def test_info_counts_what_is_stored(store: Store) -> None:
    station = register(store)
    empty = store.info()
    assert (empty.procedures, empty.tracks, empty.rows, empty.values, empty.chunks, empty.tail_rows) == (
        1,
        1,
        0,
        0,
        0,
        0,
    )
    fill(store, station, 3000)
    insert(store, station, block([T0 + 3000 * STEP], {station.ids[0]: [1.0]}))
    found = store.info()
    assert (found.workspaces, found.rows, found.values) == (1, 3001, 6001)
    assert found.tail_rows == 1
    assert found.chunks >= 2
    assert found.size_bytes > 0
    assert found.epoch == store.epoch
    assert found.url
    parts = found.bytes_per_part
    for p in ("air:temperature", "air:rainfall"):
        assert any(p in part and size > 0 for part, size in parts.items()), parts
    # A regular series of constant quality takes bytes for its values alone, and those are few.
    assert parts.get("times", 0) == 0
    assert parts.get("quality", 0) == 0
    assert sum(parts.values()) < 2 * 6000


# ------------------------------------------------------------------ loading


def test_load_keeps_everything_and_twice_changes_nothing(store: Store) -> None:
    station = register(store)
    a, b = station.ids
    n = 10_000
    rows = block(
        times(n), {a: [((i * 7) % 300) / 10 for i in range(n)], b: [None if i % 50 else 0.5 for i in range(n)]}
    )
    first = store.load(station.workspace_id, insertion(station, rows, on_duplicate=SKIP), by="loader")
    assert first == Receipt(station.track, rows=n, added=n + n // 50)
    assert scan(store, station.track, [a, b]) == rows_of(rows)
    assert store.info().tail_rows == 0
    before = picture(store, station)
    second = store.load(station.workspace_id, insertion(station, rows, on_duplicate=SKIP), by="loader")
    assert second == Receipt(station.track, rows=0, added=0, skipped=n + n // 50)
    after = picture(store, station)
    assert after[:3] == before[:3]
    assert after[5] == before[5] == []
    assert state(store, station.track).series == before[3][station.track].series
    assert_clean(store)


def test_load_lies_with_what_is_in_the_tail(store: Store) -> None:
    station = register(store)
    a, b = station.ids
    insert(store, station, block([T0 + 5 * STEP, T0 + 5000 * STEP], {a: [-1.0, -2.0]}))
    rows = block(times(3000), {a: [float(i) for i in range(3000)], b: [0.5] * 3000})
    receipt = store.load(station.workspace_id, insertion(station, rows, on_duplicate=SKIP))
    assert receipt == Receipt(station.track, rows=2999, added=5999, skipped=1, conflicting=1)
    found = dict(values(store, station.track, a))
    assert (found[T0 + 4 * STEP], found[T0 + 5 * STEP], found[T0 + 5000 * STEP]) == (4.0, -1.0, -2.0)
    receipt = store.load(station.workspace_id, insertion(station, rows, on_duplicate=REPLACE))
    assert (receipt.rows, receipt.added) == (0, 0)
    assert dict(values(store, station.track, a))[T0 + 5 * STEP] == 5.0
    corrections = [entry for entry in logged(store, station.track) if entry[0] == "correction"]
    key = (T0 + 5 * STEP,) * 3
    assert [(before, after) for _, _, before, after in corrections] == [
        ([(key, {a: number(-1.0)}, None)], [(key, {a: number(5.0)}, None)])
    ]
    assert_clean(store)


def test_load_in_parts_and_backwards_equals_load_at_once(store: Store) -> None:
    one, two = register(store, "ONE"), register(store, "TWO")
    a, b = one.ids
    rows = block(times(4000), {a: [float(i % 97) for i in range(4000)], b: [i / 8 for i in range(4000)]})
    store.load(one.workspace_id, insertion(one, rows, on_duplicate=SKIP))
    for start in range(3700, -300, -300):
        part = rows.take(slice(max(start, 0), start + 300))
        store.load(two.workspace_id, insertion(two, part, on_duplicate=SKIP))
    assert scan(store, two.track, [a, b]) == scan(store, one.track, [a, b])
    first, second = (state(store, station.track) for station in (one, two))
    assert (first.rows, first.begin_us, first.end_us, first.series) == (
        second.rows, second.begin_us, second.end_us, second.series,
    )  # fmt: skip
    assert_clean(store)


def test_load_wants_to_know_what_to_do_with_duplicates(store: Store) -> None:
    station = register(store)
    rows = block([T0], {station.ids[0]: [1.0]})
    with pytest.raises((ThalwegError, ValueError)):
        store.load(station.workspace_id, insertion(station, rows, on_duplicate=OnDuplicate.REFUSE))
    assert state(store, station.track).rows == 0


@pytest.mark.parametrize("sampling_us", [1_000_000, 365 * DAY_US, None])
def test_window_fits_any_cadence(store: Store, sampling_us: int | None) -> None:
    station = register(store, sampling_us=sampling_us)
    a = station.ids[0]
    step = sampling_us or 3_600_000_000
    n = 3000 if step <= 3_600_000_000 else 150
    wanted = [(t, float(i % 11)) for i, t in enumerate(times(n, T0 - n // 2 * step, step))]
    store.load(
        station.workspace_id,
        insertion(station, block([t for t, _ in wanted], {a: [v for _, v in wanted]}), on_duplicate=SKIP),
    )
    assert values(store, station.track, a) == wanted
    insert(store, station, block([wanted[n // 2][0] + 1], {a: [99.0]}))
    store.seal(everything=True)
    assert values(store, station.track, a) == sorted([*wanted, (wanted[n // 2][0] + 1, 99.0)])
    assert_clean(store)


# ------------------------------------------------------------------ damage


def test_damaged_chunk_is_named_and_alone_refused(backend: Backend) -> None:
    store = backend.open()
    station, other = register(store, "LUGANO"), register(store, "OTHER")
    a, b = station.ids
    wanted = fill(store, station, 5000)
    fill(store, other, 1500)
    insert(store, station, block([T0 + 5000 * STEP], {a: [1.0]}))
    assert store.info().chunks >= 5
    before = store.states([station.track, other.track])
    backend.close()
    backend.damage_chunk(station.track, 2)
    store = backend.open()
    with pytest.raises(DamagedData) as refused:
        scan(store, station.track, [a, b])
    message = refused.value.message
    assert "LUGANO" in message or f"track {station.track}" in message, message
    # Everything else goes on: other stations, other windows, states, new rows.
    assert len(scan(store, other.track, [a, b])) == 1500
    day = Interval(T0, T0 + 144 * STEP)
    assert values(store, station.track, a, day) == list(zip(times(144), wanted[a][:144], strict=True))
    newest = Interval(T0 + 4900 * STEP, T0 + 6000 * STEP)
    assert len(values(store, station.track, a, newest)) == 101
    assert next(store.scan(station.track, [a], descending=True, rows=10)).end[0] == T0 + 5000 * STEP
    assert store.states([station.track, other.track]) == before
    insert(store, station, block([T0 + 5001 * STEP], {a: [2.0]}))
    findings = list(store.check())
    assert findings
    assert any("LUGANO" in f.place or str(station.track) in f.place for f in findings)
    assert not any("OTHER" in f.place for f in findings)
    # What comes before the damage is still given, block by block.
    given: list[Block] = []
    with pytest.raises(DamagedData):
        given.extend(store.scan(station.track, [a], rows=500))
    assert 0 < sum(map(len, given)) < 4000


def test_damaged_new_row_is_named_and_alone_refused(backend: Backend) -> None:
    store = backend.open()
    station, other = register(store, "LUGANO"), register(store, "OTHER")
    a = station.ids[0]
    for made in (station, other):
        fill(store, made, 1500)
        insert(store, made, block(times(5, T0 + 1500 * STEP), {a: [1.0] * 5}))
    backend.close()
    backend.damage_tail(station.track)
    store = backend.open()
    with pytest.raises(DamagedData) as refused:
        scan(store, station.track, [a])
    assert "LUGANO" in refused.value.message
    assert len(values(store, station.track, a, Interval(T0, T0 + 1504 * STEP))) == 1504
    assert len(scan(store, other.track, [a])) == 1505
    findings = list(store.check())
    assert findings
    assert all("LUGANO" in f.place for f in findings)
    # Sealing what can be sealed goes on, and the damage is not made whole by it.
    store.seal(other.track, everything=True)
    for _ in range(2):
        store.maintain()
    assert len(scan(store, other.track, [a])) == 1505
    with pytest.raises(DamagedData):
        scan(store, station.track, [a])
