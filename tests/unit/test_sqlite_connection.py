"""Connections of the embedded store, and SQLite's errors in the domain's words."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from thalweg.domain.errors import DamagedData, InvalidRequest, StoreUnavailable, ThalwegError
from thalweg.store import open_store
from thalweg.store.sqlite.connection import Readers, TooLong, connect, domain_error


@pytest.fixture
def path(tmp_path: Path) -> Path:
    open_store(f"sqlite:///{tmp_path / 'store.sqlite'}").close()
    return tmp_path / "store.sqlite"


@pytest.fixture
def readers(path: Path) -> Iterator[Readers]:
    made = Readers(path)
    yield made
    made.close()


def test_reader_cannot_write(readers: Readers) -> None:
    with pytest.raises(ThalwegError):
        readers.rows("UPDATE counter SET value = 7")
    assert readers.rows("SELECT value FROM counter WHERE name = 'access'") == [(0,)]


def test_a_snapshot_ends_however_late_it_is(readers: Readers) -> None:
    """SQLite counts the steps of all runs of a statement: of so many, BEGIN and COMMIT come to be looked at, too."""
    reader = readers.mine()
    for _ in range(2_000):
        with suppress(TooLong), reader.brief(0, 0), reader.snapshot():
            reader.rows("SELECT 1")
        assert not reader.connection.in_transaction


def test_writer_is_durable_and_leaves_checkpoints_to_the_lease_holder(path: Path) -> None:
    connection = connect(path, writer=True)
    assert connection.pragma("journal_mode") == "wal"
    assert connection.pragma("synchronous") == 2  # FULL
    assert connection.pragma("wal_autocheckpoint") == 0
    assert connection.pragma("foreign_keys") == 1
    connection.close()


def test_plans_do_not_depend_on_bound_values(path: Path) -> None:
    """Without this each change of a bound prepares a statement anew: three times the cost of the hottest read."""
    connection = connect(path, writer=False)
    assert connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1) == 1
    connection.close()


def test_each_thread_has_its_own_connection(readers: Readers) -> None:
    mine = readers.mine()
    assert readers.mine() is mine
    others: list[object] = []
    thread = threading.Thread(target=lambda: others.append(readers.mine()))
    thread.start()
    thread.join()
    assert others[0] is not mine


def test_snapshot_sees_one_state(readers: Readers, path: Path) -> None:
    writer = connect(path, writer=True)
    reader = readers.mine()
    sql = "SELECT value FROM counter WHERE name = 'access'"
    with reader.snapshot():
        assert reader.rows(sql) == [(0,)]
        writer.execute("UPDATE counter SET value = 1 WHERE name = 'access'")
        assert reader.rows(sql) == [(0,)]
    assert reader.rows(sql) == [(1,)]
    writer.close()


def test_no_statement_stays_open_between_calls(readers: Readers, path: Path) -> None:
    """An open one would keep the write-ahead log from starting anew."""
    reader = readers.mine()
    reader.rows("SELECT name FROM counter")
    assert reader.connection.txn_state() == apsw.SQLITE_TXN_NONE
    with pytest.raises(ThalwegError):
        readers.rows("UPDATE counter SET value = 7")
    assert reader.connection.txn_state() == apsw.SQLITE_TXN_NONE


def test_closed_readers_say_so(readers: Readers) -> None:
    readers.rows("SELECT 1")
    readers.close()
    with pytest.raises(StoreUnavailable):
        readers.rows("SELECT 1")


@pytest.mark.parametrize(
    ("error", "kind", "word"),
    [
        (apsw.FullError("full"), StoreUnavailable, "full"),
        (apsw.IOError("fsync"), StoreUnavailable, "cannot be read or written"),
        (apsw.BusyError("busy"), StoreUnavailable, "locked"),
        (apsw.CantOpenError("open"), StoreUnavailable, "cannot be read or written"),
        (apsw.CorruptError("malformed"), DamagedData, "damaged"),
        (apsw.NotADBError("not a database"), DamagedData, "damaged"),
        (apsw.ConnectionClosedError("closed"), StoreUnavailable, "closed"),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"), InvalidRequest, "surrogate"),
    ],
)
def test_errors_are_told_in_the_domains_words(error: Exception, kind: type[ThalwegError], word: str) -> None:
    told = domain_error(error)
    assert type(told) is kind
    assert word in str(told)


def test_other_errors_stay_what_they_are() -> None:
    error = ZeroDivisionError()
    assert domain_error(error) is error
