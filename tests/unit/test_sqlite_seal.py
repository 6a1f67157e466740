"""When tail rows are sealed, into what, and at which cost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import numpy as np
import pytest

from thalweg.domain.blocks import Block, Column, ValueKind, constant_quality
from thalweg.domain.catalogue import Feature, ObservedProperty, Procedure, Unit
from thalweg.domain.observations import Insertion, OnDuplicate
from thalweg.domain.store import Registration, SeriesRegistration, Store
from thalweg.domain.time import DAY_US, MINUTE_US
from thalweg.store import open_store
from thalweg.store.sqlite import sealing
from thalweg.store.sqlite.sealing import DUE_ROWS

STEP = 10 * MINUTE_US
WEEK = 7 * DAY_US
T0 = 2300 * WEEK
"""Begin of a window of 10-minute data."""
YEAR_2099 = 4_070_908_800_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    made = open_store(f"sqlite:///{path}")
    made.register_procedure(
        1,
        Registration(
            Procedure(0, "", "urn:p", "p", "urn:s"),
            (SeriesRegistration(ObservedProperty(0, "", "urn:t", "t"), Unit(0, "Cel")),),
            (Feature(0, "", "urn:f", "f"),),
        ),
    ).result(20)
    yield made
    made.close()


def rows(start: int, n: int, step: int = STEP) -> Block:
    values = Column(ValueKind.NUMBER, np.arange(n) / 10, None, constant_quality(100, n))
    return Block(np.arange(n, dtype=np.int64) * step + start, {1: values})


def insert(store: Store, block: Block, **options: object) -> None:
    store.insert(1, [Insertion(1, 1, block, **options)]).result(20)  # type: ignore[arg-type]


def query(path: Path, sql: str) -> list[tuple[int, ...]]:
    connection = apsw.Connection(str(path))
    try:
        return connection.execute(sql).fetchall()  # type: ignore[return-value]
    finally:
        connection.close()


def chunks(path: Path) -> list[tuple[int, ...]]:
    """(window, first, rows), weeks and steps from T0."""
    found = query(path, "SELECT window_us, first_us, rows FROM chunk ORDER BY first_us")
    return [((w - T0) // WEEK, (f - T0) // STEP, n) for w, f, n in found]


def tail(path: Path) -> int:
    ((count, said),) = query(path, "SELECT (SELECT count(*) FROM tail), tail_rows FROM track_state")
    assert count == said
    return count


def test_below_the_number_nothing_is_due(store: Store, path: Path) -> None:
    insert(store, rows(T0, DUE_ROWS - 1))
    assert store.seal() == 0
    assert store.seal(1) == 0
    assert chunks(path) == []


def test_complete_window_is_sealed_and_the_newest_stays(store: Store, path: Path) -> None:
    insert(store, rows(T0, 1008 + 192))
    assert store.seal() == 1008
    assert chunks(path) == [(0, 0, 1008)]
    assert tail(path) == 192
    assert store.seal() == 0
    assert list(store.check()) == []


def test_newest_window_is_sealed_once_it_alone_has_the_number(store: Store, path: Path) -> None:
    insert(store, rows(T0, 20))
    store.seal(everything=True)
    # Ten times as often as the window was made for.
    insert(store, rows(T0 + 20 * STEP, DUE_ROWS, STEP // 10))
    assert store.seal() == DUE_ROWS
    assert chunks(path) == [(0, 0, 20 + DUE_ROWS)]


def test_idle_rows_are_sealed_with_the_newest_window(store: Store, path: Path) -> None:
    insert(store, rows(T0, 70))
    assert store.seal() == 0
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE track_state SET changed_us = changed_us - 3600000001")
    connection.close()
    assert store.seal() == 70
    assert chunks(path) == [(0, 0, 70)]


def test_window_that_holds_too_much_is_split(store: Store, path: Path) -> None:
    insert(store, rows(T0, 20))
    store.seal(everything=True)
    insert(store, rows(T0 + 20 * STEP, 10_000, STEP // 20))
    assert store.seal() == 10_000
    sizes = [n for _, _, n in chunks(path)]
    assert sum(sizes) == 10_020
    assert max(sizes) <= 4096
    assert {w for w, _, _ in chunks(path)} == {0}
    assert list(store.check()) == []


def test_appending_to_a_full_chunk_begins_another(store: Store, path: Path) -> None:
    insert(store, rows(T0, 20))
    store.seal(everything=True)
    insert(store, rows(T0 + 20 * STEP, 4000, STEP // 10))
    store.seal(everything=True)
    insert(store, rows(T0 + 420 * STEP, 500, STEP // 10))
    assert store.seal(everything=True) == 500
    assert [n for _, _, n in chunks(path)] == [4020, 500]


def test_row_of_2099_does_not_make_each_insert_rewrite_a_chunk(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It makes its own window the newest; the one being filled is rewritten once per DUE_ROWS rows."""
    insert(store, rows(YEAR_2099, 1))
    written: list[int] = []
    plain = sealing.write_chunks
    monkeypatch.setattr(
        sealing,
        "write_chunks",
        lambda tx, track, window, block: (written.append(len(block)), plain(tx, track, window, block)),
    )
    n, sealed = 6000, 0
    for start in range(0, n, 50):
        insert(store, rows(T0 + start * STEP, 50))
        sealed += store.seal()
    # Rows written to chunks, over rows that came in: each is rewritten once or twice, not hundreds of times.
    assert sealed >= n - DUE_ROWS
    assert sum(written) <= 2.5 * n
    assert len(written) <= 3 * n / DUE_ROWS + 6
    assert tail(path) <= DUE_ROWS + 50
    assert list(store.check()) == []


def test_many_corrections_in_one_window_rewrite_it_once(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(store, rows(T0, 1008))
    store.seal(everything=True)
    insert(store, rows(T0, 600), on_duplicate=OnDuplicate.REPLACE)
    for i in range(600, 610):
        insert(store, rows(T0 + i * STEP, 1), on_duplicate=OnDuplicate.REPLACE)
    assert chunks(path) == [(0, 0, 1008)]
    written: list[int] = []
    plain = sealing.write_chunks
    monkeypatch.setattr(
        sealing,
        "write_chunks",
        lambda tx, track, window, block: (written.append(len(block)), plain(tx, track, window, block)),
    )
    store.seal(everything=True)
    assert written == [1008]
    assert tail(path) == 0


def test_steps_are_bounded_and_lead_to_the_same_end(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "MAX_STEP_ROWS", 300)
    monkeypatch.setattr(sealing, "MAX_STEP_PARTS", 2)
    monkeypatch.setattr(sealing, "ENDS_AT_ONCE", 700)
    insert(store, rows(T0, 3000))
    before = [b.end.tolist() for b in store.scan(1, [1])]
    assert store.seal(everything=True) == 3000
    assert sum(n for _, _, n in chunks(path)) == 3000
    assert tail(path) == 0
    assert [t for b in store.scan(1, [1]) for t in b.end.tolist()] == [t for part in before for t in part]
    assert list(store.check()) == []


def test_sealing_after_a_kill_in_the_middle_goes_on(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that fails leaves nothing of itself; the next round does it."""
    insert(store, rows(T0, 3000))
    calls = 0
    plain = sealing.write_chunks

    def fails_at_second(*arguments: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise MemoryError
        plain(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(sealing, "write_chunks", fails_at_second)
    with pytest.raises(MemoryError):
        store.seal(everything=True)
    assert tail(path) == 3000
    assert chunks(path) == []
    assert store.seal(everything=True) == 3000
    assert [n for _, _, n in chunks(path)] == [1008, 1008, 984]


def test_first_window_length_stays(store: Store, path: Path) -> None:
    insert(store, rows(T0, 100))
    store.seal(everything=True)
    insert(store, rows(T0 + 100 * STEP, 100, MINUTE_US))
    store.seal(everything=True)
    assert query(path, "SELECT window_us FROM track") == [(WEEK,)]
