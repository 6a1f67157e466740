"""Leases between stores on one file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from thalweg.store import open_store
from thalweg.store.sqlite.connection import Readers
from thalweg.store.sqlite.files import StoreFiles
from thalweg.store.sqlite.lease import Lease
from thalweg.store.sqlite.writer import Writer

SECOND = 1_000_000


@pytest.fixture
def files(tmp_path: Path) -> StoreFiles:
    open_store(f"sqlite:///{tmp_path / 'store.sqlite'}").close()
    return StoreFiles(tmp_path / "store.sqlite")


@pytest.fixture
def leases(files: StoreFiles) -> Iterator[tuple[Lease, Lease, Writer]]:
    readers, writer = Readers(files.database), Writer(files)
    made = [Lease(readers, writer, "work", length_us=30 * SECOND) for _ in range(2)]
    yield made[0], made[1], writer
    writer.close()
    readers.close()


def row(files: StoreFiles) -> tuple[str, int]:
    connection = apsw.Connection(str(files.database))
    try:
        ((holder, expires_us),) = connection.execute("SELECT holder, expires_us FROM lease WHERE name = 'work'")
        return holder, expires_us
    finally:
        connection.close()


def set_expiry(files: StoreFiles, expires_us: int) -> None:
    connection = apsw.Connection(str(files.database))
    connection.execute("UPDATE lease SET expires_us = ?", (expires_us,))
    connection.close()


def now_us() -> int:
    return time.time_ns() // 1000


def test_one_of_two_holds_it(leases: tuple[Lease, Lease, Writer], files: StoreFiles) -> None:
    one, two, _ = leases
    assert one.hold()
    assert not two.hold()
    assert one.hold()
    holder, expires_us = row(files)
    assert holder == one.holder != two.holder
    assert 25 * SECOND < expires_us - now_us() <= 30 * SECOND


def test_holding_writes_only_when_most_of_it_is_over(leases: tuple[Lease, Lease, Writer], files: StoreFiles) -> None:
    one, _, _ = leases
    assert one.hold()
    first = row(files)
    assert one.hold()
    assert row(files) == first
    set_expiry(files, now_us() + 9 * SECOND)
    assert one.hold()
    assert row(files)[1] > now_us() + 25 * SECOND


def test_expired_lease_is_taken_over(leases: tuple[Lease, Lease, Writer], files: StoreFiles) -> None:
    one, two, _ = leases
    assert one.hold()
    set_expiry(files, now_us() - 1)
    assert two.hold()
    assert not one.hold()


def test_lease_from_a_clock_set_back_since_does_not_count(
    leases: tuple[Lease, Lease, Writer], files: StoreFiles
) -> None:
    one, two, _ = leases
    assert one.hold()
    # Written when the clock was a day ahead.
    set_expiry(files, now_us() + 86_400 * SECOND)
    assert two.hold()
    assert row(files)[0] == two.holder


def test_released_lease_is_free_at_once(leases: tuple[Lease, Lease, Writer]) -> None:
    one, two, writer = leases
    assert one.hold()
    writer.submit(two.release).result(10)
    assert not two.hold()
    writer.submit(one.release).result(10)
    assert two.hold()
