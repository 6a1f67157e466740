"""Background work: checkpoints by one process, nothing at all when idle, room kept, loads that let others between."""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import numpy as np
import pytest

from thalweg.domain.blocks import Block, Column, ValueKind, constant_quality
from thalweg.domain.catalogue import Feature, ObservedProperty, Procedure, Unit
from thalweg.domain.errors import StoreUnavailable
from thalweg.domain.observations import Insertion, OnDuplicate
from thalweg.domain.store import Registration, SeriesRegistration, Store
from thalweg.domain.time import DAY_US, MINUTE_US
from thalweg.store import open_store
from thalweg.store.sqlite import lease, loading, maintenance, repeated, writer

STEP = 10 * MINUTE_US
T0 = 2300 * 7 * DAY_US


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def stores(path: Path) -> Iterator[tuple[Store, Store]]:
    made = [open_store(f"sqlite:///{path}") for _ in range(2)]
    for name in "ab":
        made[0].register_procedure(
            1,
            Registration(
                Procedure(0, "", f"urn:p:{name}", name, f"urn:s:{name}"),
                (SeriesRegistration(ObservedProperty(0, "", "urn:t", "t"), Unit(0, "Cel")),),
                (Feature(0, "", f"urn:f:{name}", name),),
            ),
        ).result(20)
    yield made[0], made[1]
    for store in made:
        store.close()


def rows(start: int, n: int) -> Block:
    values = Column(ValueKind.NUMBER, np.arange(n) / 10, None, constant_quality(100, n))
    return Block(np.arange(n, dtype=np.int64) * STEP + start, {1: values})


def insert(store: Store, block: Block, procedure: int = 1) -> None:
    store.insert(1, [Insertion(procedure, procedure, block)]).result(20)


class Watcher:
    """A connection of its own that sees whether anything is committed."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.execute("SELECT count(*) FROM lease").fetchall()
        self._version = self._connection.pragma("data_version")

    def committed(self) -> bool:
        before, self._version = self._version, self._connection.pragma("data_version")
        return bool(before != self._version)

    def pending(self) -> int:
        """Pages of the log that are not in the database file yet. Copies them."""
        pages, _ = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        return pages

    def lease(self) -> list[str]:
        return [holder for (holder,) in self._connection.execute("SELECT holder FROM lease")]

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def watcher(path: Path, stores: object) -> Iterator[Watcher]:
    made = Watcher(path)
    yield made
    made.close()


def content(path: Path) -> str:
    """A digest of the database file, without its log. By a program of its own: a process that closes the file loses
    all its locks on it."""
    return subprocess.run(["sha256sum", str(path)], check=True, capture_output=True, text=True).stdout


def test_only_the_lease_holder_checkpoints(stores: tuple[Store, Store], watcher: Watcher, path: Path) -> None:
    one, two = stores
    insert(one, rows(T0, 10))
    before = content(path)
    one.maintain()
    (holder,) = watcher.lease()
    assert content(path) != before
    insert(two, rows(T0 + 10 * STEP, 10))
    before = content(path)
    for _ in range(3):
        two.maintain()
    assert content(path) == before
    assert watcher.lease() == [holder]
    one.maintain()
    assert content(path) != before


def test_closing_gives_the_lease_to_another(stores: tuple[Store, Store], watcher: Watcher) -> None:
    one, two = stores
    insert(one, rows(T0, 10))
    one.maintain()
    assert len(watcher.lease()) == 1
    one.close()
    assert watcher.lease() == []
    insert(two, rows(T0 + 10 * STEP, 10))
    two.maintain()
    assert len(watcher.lease()) == 1


def test_idle_store_is_not_written_to(stores: tuple[Store, Store], watcher: Watcher) -> None:
    one, two = stores
    insert(one, rows(T0, 10))
    for _ in range(3):
        one.maintain()
        two.maintain()
    watcher.committed()
    for _ in range(20):
        one.maintain()
        two.maintain()
    assert not watcher.committed()


def test_long_log_is_cut_in_quiet_times(
    stores: tuple[Store, Store], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "QUIET_WAL_BYTES", 50_000)
    one, _ = stores
    log = path.with_name(path.name + "-wal")
    insert(one, rows(T0, 3000))
    assert log.stat().st_size > 50_000
    one.maintain()
    # Something may come any moment: the length is kept for it.
    assert log.stat().st_size > 50_000
    one.maintain()
    assert log.stat().st_size == 0
    insert(one, rows(T0 + 3000 * STEP, 10))
    assert list(one.check()) == []


def test_rounds_seal_what_is_due(stores: tuple[Store, Store], path: Path) -> None:
    one, _ = stores
    insert(one, rows(T0, 2500))
    one.maintain()
    info = one.info()
    assert (info.chunks, info.tail_rows) == (2, 2500 - 2 * 1008)


def test_reserve_is_made_again_when_there_is_room(stores: tuple[Store, Store], path: Path) -> None:
    one, _ = stores
    reserve = path.with_name(path.name + ".reserve")
    reserve.unlink()
    insert(one, rows(T0, 1))
    one.maintain()
    assert reserve.stat().st_size == 4 << 20


def test_damaged_chunk_does_not_keep_other_tracks_from_being_sealed(stores: tuple[Store, Store], path: Path) -> None:
    one, two = stores
    for procedure in (1, 2):
        insert(one, rows(T0, 2500), procedure)
    one.seal(everything=True)
    spoiler = apsw.Connection(str(path))
    spoiler.execute("UPDATE chunk SET block = x'00' WHERE track_id = 1")
    spoiler.close()
    for procedure in (1, 2):
        insert(one, rows(T0 + 2500 * STEP, 3000), procedure)
    for _ in range(3):
        two.maintain()
    left = dict(
        apsw.Connection(str(path)).execute("SELECT track_id, tail_rows FROM track_state").fetchall()  # type: ignore[arg-type]
    )
    assert left[1] == 3000
    assert left[2] < 1200


def test_last_to_close_leaves_no_log(stores: tuple[Store, Store], path: Path) -> None:
    """Also with readers of threads that are still there."""
    log = path.with_name(path.name + "-wal")
    stop = threading.Event()
    ready = threading.Barrier(4)

    def read() -> None:
        for store in stores:
            store.states([1])
        ready.wait()
        stop.wait()

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    ready.wait()
    for i in range(20):
        insert(stores[i % 2], rows(T0 + i * 50 * STEP, 50))
    assert log.stat().st_size > 100_000
    for store in stores:
        store.close()
    try:
        assert not log.exists()
        assert list(path.parent.glob("*-shm")) == []
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    again = open_store(f"sqlite:///{path}")
    assert again.states([1])[1].rows == 1000
    assert list(again.check()) == []
    again.close()


def test_log_is_short_even_if_the_last_two_close_at_once(stores: tuple[Store, Store], path: Path) -> None:
    """Then SQLite leaves the log to the other one each time; here a third connection stands for that other one."""
    other = apsw.Connection(str(path))
    other.execute("SELECT count(*) FROM lease").fetchall()
    for i in range(20):
        insert(stores[i % 2], rows(T0 + i * 50 * STEP, 50))
    for store in stores:
        store.close()
    assert path.with_name(path.name + "-wal").stat().st_size == 0
    other.close()


def test_store_that_closes_leaves_the_log_to_the_one_that_goes_on(stores: tuple[Store, Store], path: Path) -> None:
    one, two = stores
    insert(one, rows(T0, 10))
    one.maintain()
    insert(two, rows(T0 + 10 * STEP, 3000))
    size = path.with_name(path.name + "-wal").stat().st_size
    two.close()
    assert path.with_name(path.name + "-wal").stat().st_size >= size > 0


def test_same_failure_is_logged_once_a_minute(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one, _ = stores
    insert(one, rows(T0, 10))

    def fails(*arguments: object) -> bool:
        raise apsw.ReadOnlyError("attempt to write a readonly database")

    monkeypatch.setattr(lease.Lease, "_take", fails)
    monkeypatch.setattr(maintenance, "_repeated", repeated.RepeatedLog(logging.getLogger("maintenance")))
    monkeypatch.setattr(writer, "_repeated", repeated.RepeatedLog(logging.getLogger("writer")))
    now_s = [1000.0]
    monkeypatch.setattr(repeated.time, "monotonic", lambda: now_s[0])
    for _ in range(5):
        one.maintain()
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert "ReadOnlyError" in lines[0]
    assert "store.sqlite" in lines[0]
    assert "put off" in lines[1]
    caplog.clear()
    now_s[0] += 61
    for _ in range(5):
        one.maintain()
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert "4 times more" in lines[1]


# ------------------------------------------------------------------ loads


def test_load_lets_other_writers_between_its_steps(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = stores
    monkeypatch.setattr(loading, "MAX_STEP_WINDOWS", 1)
    done = threading.Event()
    between: list[int] = []

    def load() -> None:
        try:
            one.load(1, Insertion(1, 1, rows(T0, 60_000), OnDuplicate.SKIP))
        finally:
            done.set()

    thread = threading.Thread(target=load)
    thread.start()
    i = 0
    while not done.is_set():
        insert(two, rows(T0 + i * STEP, 1), 2)
        loaded = two.states([1])
        between.append(loaded[1].rows)
        i += 1
    thread.join()
    # Inserts were acknowledged at many points of the load, by another store.
    assert len({n for n in between if 0 < n < 60_000}) >= 5
    assert two.states([1])[1].rows == 60_000


def test_interrupted_load_is_completed_by_running_it_again(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = stores
    monkeypatch.setattr(loading, "MAX_STEP_WINDOWS", 2)
    steps = 0
    plain = loading.load_step

    def breaks_off(*arguments: object) -> loading.Progress:
        nonlocal steps
        steps += 1
        if steps == 4:
            raise StoreUnavailable("the disk is full")
        return plain(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("thalweg.store.sqlite.store.load_step", breaks_off)
    block = rows(T0, 20_000)
    with pytest.raises(StoreUnavailable):
        one.load(1, Insertion(1, 1, block, OnDuplicate.SKIP))
    part = two.states([1])[1].rows
    assert part == 6 * 1008
    receipt = two.load(1, Insertion(1, 1, block, OnDuplicate.SKIP))
    assert (receipt.rows, receipt.added, receipt.skipped, receipt.conflicting) == (
        20_000 - part,
        20_000 - part,
        part,
        0,
    )
    assert list(one.check()) == []
