"""Many calls of one thread together: what they read and write is what they would read and write one by one."""

from __future__ import annotations

import threading

import pytest
from tests.store.support import STEP, T0, WAIT_S, Backend, block, insert, insertion, number, register, scan, times

from thalweg.domain.access import Role, User
from thalweg.domain.catalogue import Feature
from thalweg.domain.errors import StoreUnavailable
from thalweg.domain.store import Store


def test_reads_together_see_what_was_acknowledged_before(backend: Backend) -> None:
    store, other = backend.open(), backend.open()
    station = register(store)
    a, _ = station.ids
    for step in range(5):
        insert(other, station, block([T0 + step * STEP], {a: [float(step)]}))
        other.put_feature(1, Feature(0, "", f"urn:f:{step}", f"f{step}")).result(WAIT_S)
        other.put_user(User(f"user{step}", Role.VIEWER, "hash", T0)).result(WAIT_S)
        with store.together():
            for _ in range(2):
                assert [row[1] for row in scan(store, station.track, [a])] == [
                    {a: number(float(n))} for n in range(step + 1)
                ]
                assert store.catalogue(1).feature(f"urn:f:{step}") is not None
                assert store.access_generation() == other.access_generation()


def test_what_another_process_writes_meanwhile_is_seen_after_it(backend: Backend) -> None:
    store, other = backend.open(), backend.open()
    station = register(store)
    a, _ = station.ids
    with store.together():
        assert scan(store, station.track, [a]) == []
        generation = store.catalogue(1).generation
        insert(other, station, block([T0], {a: [1.0]}))
        other.put_feature(1, Feature(0, "", "urn:f", "f")).result(WAIT_S)
        # Any thread but this one sees it at once.
        seen: list[object] = []
        thread = threading.Thread(target=lambda: seen.extend((scan(store, station.track, [a]), store.catalogue(1))))
        thread.start()
        thread.join(WAIT_S)
        assert len(seen[0]) == 1  # type: ignore[arg-type]
        assert store.catalogue(1).generation >= generation
    assert len(scan(store, station.track, [a])) == 1
    assert store.catalogue(1).feature("urn:f") is not None


def test_writes_together_are_acknowledged_after_it(store: Store) -> None:
    station = register(store)
    a, b = station.ids
    with store.together():
        futures = [
            store.insert(1, [insertion(station, block([T0 + step * STEP], {a: [1.0], b: [float(step)]}))])
            for step in range(10)
        ]
    assert sum(future.result(WAIT_S)[0].rows for future in futures) == 10
    assert len(scan(store, station.track, [a, b])) == 10


def test_waiting_for_a_write_within_it_is_no_deadlock(store: Store) -> None:
    station = register(store)
    a, _ = station.ids
    with store.together(), store.together():
        store.insert(1, [insertion(station, block(times(3), {a: [1.0, 2.0, 3.0]}))]).result(WAIT_S)
    assert len(scan(store, station.track, [a])) == 3


def test_it_raises_nothing_of_its_own(store: Store) -> None:
    with pytest.raises(KeyError), store.together():
        raise KeyError
    assert store.workspaces()
    store.close()
    with store.together(), pytest.raises(StoreUnavailable):
        store.workspaces()
