"""Opening, closing, several store objects on one store, background work, copies."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from tests.store.support import (
    STEP,
    T0,
    WAIT_S,
    Backend,
    assert_clean,
    block,
    default_workspace,
    fill,
    insert,
    insertion,
    logged,
    register,
    scan,
    state,
    station_of,
    times,
    values,
)

from thalweg.domain.errors import AlreadyExists, DamagedData, NotFound, StoreUnavailable, ThalwegError
from thalweg.domain.observations import OnDuplicate
from thalweg.domain.time import Interval
from thalweg.store.open import check_copy, open_store, restore


def test_everything_survives_reopening(backend: Backend) -> None:
    store = backend.open()
    station = register(store)
    a = station.ids[0]
    fill(store, station, 1500)
    insert(store, station, block(times(3, T0 + 1500 * STEP), {a: [1.5, 2.5, 3.5]}))
    epoch = store.epoch
    before = scan(store, station.track, station.ids), store.states(station.tracks)
    for _ in range(3):
        backend.close()
        store = backend.open()
        assert (scan(store, station.track, station.ids), store.states(station.tracks)) == before
        assert store.epoch == epoch
    insert(store, station, block([T0 + 1503 * STEP], {a: [4.5]}))
    assert state(store, station.track).rows == 1504


def test_new_stores_have_epochs_of_their_own(backend: Backend) -> None:
    first = backend.open()
    second = backend.open_at(backend.url_of(backend.beside("second")))
    assert first.epoch
    assert first.epoch != second.epoch


def test_close_finishes_what_was_queued(backend: Backend) -> None:
    store = backend.open()
    station = register(store)
    a = station.ids[0]
    futures = [
        store.insert(station.workspace_id, [insertion(station, block([T0 + i * STEP], {a: [float(i)]}))])
        for i in range(300)
    ]
    backend.close()
    assert [future.exception(0) for future in futures] == [None] * 300
    store = backend.open()
    assert len(values(store, station.track, a)) == 300
    assert_clean(store)


def test_closed_store_takes_no_writes(backend: Backend) -> None:
    store = backend.open()
    station = register(store)
    backend.close()
    with pytest.raises((ThalwegError, RuntimeError)):
        store.insert(station.workspace_id, [insertion(station, block([T0], {station.ids[0]: [1.0]}))]).result(WAIT_S)


def test_two_store_objects_see_each_commit_at_once(backend: Backend) -> None:
    one, two = backend.open(), backend.open()
    station = register(one)
    a, b = station.ids
    for i in range(40):
        writer, reader = (one, two) if i % 2 else (two, one)
        insert(writer, station, block([T0 + i * STEP], {a: [float(i)]}))
        assert state(reader, station.track).rows == i + 1
        assert state(reader, station.track).series[a].last.value == float(i)
        assert values(reader, station.track, a)[-1] == (T0 + i * STEP, float(i))
        assert reader.extents(station.workspace_id)[station.procedure.id].end_us == T0 + i * STEP
        with pytest.raises(AlreadyExists):
            insert(reader, station, block([T0 + i * STEP], {a: [0.0]}))
        if i % 10 == 9:
            writer.seal(everything=True)
            assert len(values(reader, station.track, a)) == i + 1
    two.delete(station.track, Interval(T0, T0 + STEP)).result(WAIT_S)
    assert state(one, station.track).begin_us == T0 + STEP
    assert [kind for kind, _, _, _ in logged(one, station.track)] == ["deletion"]
    two.delete_procedure(station.workspace_id, station.procedure.id).result(WAIT_S)
    assert one.extents(station.workspace_id) == {}
    assert scan(one, station.track, [a, b]) == []
    assert_clean(one)


def test_two_store_objects_write_side_by_side(backend: Backend) -> None:
    stores = [backend.open(), backend.open()]
    station = register(stores[0])
    a, b = station.ids
    failures: list[BaseException] = []

    def write(k: int) -> None:
        try:
            for i in range(100):
                # Both write into the same rows, each its own property.
                insert(stores[k], station, block([T0 + i * STEP], {(a, b)[k]: [float(i)]}))
                if i % 20 == 10 + k:
                    stores[k].seal(everything=True)
                stores[k].maintain()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for store in stores:
        found = scan(store, station.track, [a, b])
        assert [(key[0], sorted(cells)) for key, cells, _ in found] == [(t, [a, b]) for t in times(100)]
        assert state(store, station.track).rows == 100
    assert_clean(stores[1])


def test_reads_beside_writes_see_whole_inserts(backend: Backend) -> None:
    """A reader in another store object never sees part of an insert, nor loses rows while they are sealed."""
    writer, reader = backend.open(), backend.open()
    station = register(writer)
    a, b = station.ids
    done = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            for i in range(120):
                rows = times(5, T0 + 5 * i * STEP)
                insert(writer, station, block(rows, {a: [float(i)] * 5, b: [float(i)] * 5}))
                if i % 10 == 9:
                    writer.seal(everything=True)
        except BaseException as error:
            failures.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen = 0
    while not done.is_set():
        found = scan(reader, station.track, [a, b])
        assert len(found) % 5 == 0
        assert len(found) >= seen
        assert all(sorted(cells) == [a, b] for _, cells, _ in found)
        seen = len(found)
        rows = state(reader, station.track).rows
        assert rows % 5 == 0
        assert rows >= seen
    thread.join()
    assert failures == []
    assert len(scan(reader, station.track, [a, b])) == 600


def test_maintenance_changes_no_read_and_may_be_called_by_all(backend: Backend) -> None:
    one, two = backend.open(), backend.open()
    station = register(one)
    insert(one, station, block(times(1500), {station.ids[0]: [float(i) for i in range(1500)]}))
    before = scan(one, station.track, station.ids), one.states(station.tracks)
    for _ in range(3):
        for store in (one, two):
            store.maintain()
            assert (scan(store, station.track, station.ids), store.states(station.tracks)) == before
    assert_clean(two)


def test_check_beside_writes_finds_nothing(backend: Backend) -> None:
    """All that is compared with one another is of one moment."""
    writer, checker = backend.open(), backend.open()
    stations = [register(writer, f"S{k}") for k in range(8)]
    done = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        i = 0
        try:
            while not done.is_set():
                for station in stations:
                    rows = block(times(3, T0 + 3 * i * STEP), {station.ids[0]: [float(i)] * 3})
                    insert(writer, station, rows)
                    if i:
                        insert(
                            writer, station, block([T0], {station.ids[0]: [i + 0.5]}), on_duplicate=OnDuplicate.REPLACE
                        )
                if i % 5 == 4:
                    writer.seal(everything=True)
                i += 1
            writer.delete_procedure(stations[0].workspace_id, stations[0].procedure.id).result(WAIT_S)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    found = []
    try:
        deadline = time.monotonic() + 2.0
        while not found and time.monotonic() < deadline:
            found = list(checker.check())
    finally:
        done.set()
        thread.join()
    assert failures == []
    assert found == []
    assert_clean(checker)


def test_unknown_kind_of_address_is_refused() -> None:
    for url in ("", "thalweg.sqlite", "mysql://localhost/x", "sqlite://"):
        with pytest.raises(ThalwegError) as refused:
            open_store(url)
        assert url[:10] in refused.value.message


# ------------------------------------------------------------------ copies


def test_backup_is_a_whole_store(backend: Backend) -> None:
    store = backend.open()
    station = register(store)
    a = station.ids[0]
    fill(store, station, 1500)
    insert(store, station, block([T0 + 1500 * STEP], {a: [1.0]}))
    insert(store, station, block([T0], {a: [9.0]}), on_duplicate=OnDuplicate.REPLACE, by="anna")
    target = backend.beside("copy")
    store.backup(target)
    insert(store, station, block([T0 + 1501 * STEP], {a: [2.0]}))
    copy = backend.open_at(backend.url_of(target))
    again = station_of(copy, default_workspace(copy), station.procedure.id)
    assert again.procedure == station.procedure
    assert scan(copy, station.track, station.ids) == scan(store, station.track, station.ids)[:-1]
    assert logged(copy, station.track) == logged(store, station.track)
    assert_clean(copy)
    # Two stores now: each goes its own way.
    insert(copy, again, block([T0 + 1501 * STEP], {a: [3.0]}))
    assert values(store, station.track, a)[-1] == (T0 + 1501 * STEP, 2.0)
    with pytest.raises(AlreadyExists):
        store.backup(target)
    assert values(copy, station.track, a)[-1] == (T0 + 1501 * STEP, 3.0)


def test_backup_while_writing_holds_all_that_was_acknowledged_before(backend: Backend) -> None:
    store = backend.open()
    station = register(store)
    a, b = station.ids
    fill(store, station, 5000)
    stop = threading.Event()
    acknowledged: list[int] = []
    failures: list[BaseException] = []

    def write() -> None:
        i = 0
        try:
            while not stop.is_set() and i < 5000:
                rows = times(2, T0 + (5000 + 2 * i) * STEP)
                insert(store, station, block(rows, {a: [float(i)] * 2, b: [float(i)] * 2}))
                acknowledged.append(rows[-1])
                i += 1
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    while len(acknowledged) < 20 and thread.is_alive():
        time.sleep(0.002)
    before = acknowledged[-1]
    target = backend.beside("copy")
    store.backup(target)
    stop.set()
    thread.join()
    assert failures == []
    copy = backend.open_at(backend.url_of(target))
    found = scan(copy, station.track, [a, b])
    assert found == scan(store, station.track, [a, b])[: len(found)]
    assert found[-1][0][0] >= before
    assert len(found) % 2 == 0
    assert_clean(copy)


def test_backup_into_a_missing_folder_is_refused(backend: Backend) -> None:
    store = backend.open()
    with pytest.raises(ThalwegError):
        store.backup(backend.beside("nowhere/copy"))


def test_restored_store_has_all_rows_and_an_epoch_of_its_own(backend: Backend) -> None:
    store = backend.open()
    station = register(store)
    a = station.ids[0]
    fill(store, station, 1500)
    insert(store, station, block([T0 + 1500 * STEP], {a: [1.0]}))
    before = scan(store, station.track, station.ids), store.states(station.tracks)
    epoch = store.epoch
    target = backend.beside("copy")
    store.backup(target)
    insert(store, station, block([T0 + 1501 * STEP], {a: [2.0]}))
    # Somewhere else, beside the store that goes on.
    elsewhere = backend.url_of(backend.beside("elsewhere"))
    restore(target, elsewhere)
    copy = backend.open_at(elsewhere)
    assert (scan(copy, station.track, station.ids), copy.states(station.tracks)) == before
    assert copy.epoch not in ("", epoch)
    with pytest.raises(AlreadyExists):
        restore(target, elsewhere)
    # In its own place: not while it is in use, not without saying so.
    with pytest.raises(AlreadyExists):
        restore(target, backend.url)
    with pytest.raises(StoreUnavailable):
        restore(target, backend.url, overwrite=True)
    assert values(store, station.track, a)[-1] == (T0 + 1501 * STEP, 2.0)
    backend.close()
    restore(target, backend.url, overwrite=True)
    store = backend.open()
    assert (scan(store, station.track, station.ids), store.states(station.tracks)) == before
    assert store.epoch not in (epoch, copy.epoch)
    insert(store, station, block([T0 + 1501 * STEP], {a: [3.0]}))
    assert_clean(store)


def test_damaged_backup_is_not_restored(backend: Backend) -> None:
    store = backend.open()
    station = register(store)
    fill(store, station, 1500)
    target = backend.beside("copy")
    store.backup(target)
    fill(store, station, 10, start=T0 + 1500 * STEP)
    backend.close()
    backend.damage_chunk(station.track, 0, target)
    with pytest.raises(DamagedData):
        restore(target, backend.url, overwrite=True)
    store = backend.open()
    assert len(scan(store, station.track, station.ids)) == 1510
    assert_clean(store)


def test_copy_of_a_store_with_damage_is_restored_when_that_is_accepted(backend: Backend) -> None:
    """What is damaged is refused by name, all else is served."""
    store = backend.open()
    hit, whole = register(store, "HIT"), register(store, "WHOLE")
    for station in (hit, whole):
        fill(store, station, 2500)
        store.seal(station.track, everything=True)
    backend.close()
    backend.damage_chunk(hit.track, 0)
    store = backend.open()
    damage = list(store.check())
    assert damage
    target = backend.beside("copy")
    store.backup(target)
    assert list(check_copy(target)) == damage
    elsewhere = backend.url_of(backend.beside("elsewhere"))
    with pytest.raises(DamagedData) as refused:
        restore(target, elsewhere)
    assert refused.value.parameter == "accept_damage"
    assert "HIT" in refused.value.message
    assert restore(target, elsewhere, accept_damage=True) == damage
    copy = backend.open_at(elsewhere)
    assert scan(copy, whole.track, whole.ids) == scan(store, whole.track, whole.ids)
    assert scan(copy, hit.track, hit.ids, Interval(T0 + 1500 * STEP, T0 + 2500 * STEP)) != []
    with pytest.raises(DamagedData, match="HIT"):
        scan(copy, hit.track, hit.ids)
    assert list(copy.check()) == damage
    assert copy.epoch != store.epoch


def test_clean_copy_has_no_findings_and_none_are_accepted(backend: Backend) -> None:
    store = backend.open()
    station = register(store)
    fill(store, station, 1500)
    target = backend.beside("copy")
    store.backup(target)
    assert list(check_copy(target)) == []
    elsewhere = backend.url_of(backend.beside("elsewhere"))
    assert restore(target, elsewhere, accept_damage=True) == []
    assert_clean(backend.open_at(elsewhere))


def test_missing_store_is_not_made_where_one_is_expected(backend: Backend) -> None:
    with pytest.raises(NotFound) as refused:
        open_store(backend.url, create=False)
    assert backend.url in refused.value.message
    assert "--store" in refused.value.message


def test_what_is_no_backup_is_not_restored(backend: Backend) -> None:
    store = backend.open()
    station = register(store)
    fill(store, station, 10)
    backend.close()
    rubbish = Path(backend.beside("rubbish"))
    for content in (b"", b"x" * 10_000):
        rubbish.write_bytes(content)
        with pytest.raises(ThalwegError):
            restore(str(rubbish), backend.url, overwrite=True)
    with pytest.raises(ThalwegError):
        restore(backend.beside("missing"), backend.url, overwrite=True)
    store = backend.open()
    assert len(scan(store, station.track, station.ids)) == 10
