"""Formats of the embedded store: made, recorded, refused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from thalweg.domain.errors import InvalidParameter, NotFound, StoreUnavailable
from thalweg.store import open_store
from thalweg.store.sqlite.connection import check_library, connect
from thalweg.store.sqlite.files import FileLock, create_empty
from thalweg.store.sqlite.migrate import APPLICATION_ID, migrate, migrations


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[apsw.Connection]:
    create_empty(tmp_path / "store.sqlite")
    made = connect(tmp_path / "store.sqlite", writer=True)
    yield made
    made.close()


def tables(connection: apsw.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def test_empty_file_gets_the_newest_format_once(connection: apsw.Connection) -> None:
    texts = migrations()
    assert migrate(connection) == sorted(texts)
    assert connection.pragma("user_version") == max(texts)
    assert connection.pragma("application_id") == APPLICATION_ID
    ((epoch,),) = connection.execute("SELECT value FROM store_meta WHERE key = 'epoch'")
    assert len(epoch) == 36
    assert connection.execute("SELECT name, generation FROM workspace").fetchall() == [("default", 1)]
    assert migrate(connection) == []
    assert connection.execute("SELECT value FROM store_meta WHERE key = 'epoch'").fetchall() == [(epoch,)]


def test_migration_that_fails_leaves_the_format_before(connection: apsw.Connection) -> None:
    texts = migrations()
    newest = max(texts)
    migrate(connection)
    before = tables(connection)
    later = {
        **texts,
        newest + 1: "CREATE TABLE one (a INTEGER) STRICT;",
        newest + 2: "CREATE TABLE two (a INTEGER) STRICT; INSERT INTO two VALUES (1); INSERT INTO nowhere VALUES (1);",
    }
    with pytest.raises(apsw.SQLError):
        migrate(connection, later)
    # The first of the two is kept whole, nothing of the second.
    assert connection.pragma("user_version") == newest + 1
    assert tables(connection) == before | {"one"}
    assert not connection.in_transaction
    later[newest + 2] = "CREATE TABLE two (a INTEGER) STRICT;"
    assert migrate(connection, later) == [newest + 2]
    assert tables(connection) == before | {"one", "two"}


def test_a_store_of_the_first_format_is_brought_up_to_date(connection: apsw.Connection) -> None:
    texts = migrations()
    assert migrate(connection, {1: texts[1]}) == [1]
    epoch = connection.execute("SELECT value FROM store_meta WHERE key = 'epoch'").fetchall()
    assert "member" not in tables(connection)
    assert migrate(connection) == [number for number in sorted(texts) if number > 1]
    assert {"event_stream", "member", "page", "stream_view"} <= tables(connection)
    assert connection.execute("SELECT value FROM store_meta WHERE key = 'epoch'").fetchall() == epoch


def test_store_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    open_store(url).close()
    newer = apsw.Connection(str(tmp_path / "store.sqlite"))
    newer.pragma("user_version", 977)
    newer.close()
    with pytest.raises(StoreUnavailable) as refused:
        open_store(url)
    assert "format 977" in refused.value.message
    assert f"up to {max(migrations())}" in refused.value.message


def test_foreign_database_is_refused_and_untouched(tmp_path: Path) -> None:
    foreign = apsw.Connection(str(tmp_path / "other.sqlite"))
    foreign.execute("CREATE TABLE birds (name TEXT)")
    foreign.close()
    with pytest.raises(StoreUnavailable) as refused:
        open_store(f"sqlite:///{tmp_path / 'other.sqlite'}")
    assert "not a Thalweg store" in refused.value.message
    again = apsw.Connection(str(tmp_path / "other.sqlite"))
    assert tables(again) == {"birds"}
    again.close()


def test_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes(b"not a database, but long enough to be looked at. " * 40)
    with pytest.raises(Exception, match="damaged") as refused:
        open_store(f"sqlite:///{tmp_path / 'notes.txt'}")
    assert type(refused.value).__name__ == "DamagedData"
    assert (tmp_path / "notes.txt").read_bytes().startswith(b"not a database")


def test_missing_store_is_not_made_unless_asked(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        open_store(f"sqlite:///{tmp_path / 'none' / 'store.sqlite'}", create=False)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("url", ["", "store.sqlite", "postgres:///x", "sqlite:///", "sqlite:////", "sqlite:///a?b=c"])
def test_url_of_no_back_end_is_refused(url: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        open_store(url)
    assert refused.value.parameter == "store"


def test_relative_url_is_below_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_store("sqlite:///data/store.sqlite").close()
    assert (tmp_path / "data" / "store.sqlite").is_file()


@pytest.mark.parametrize("version", ["3.40.1", "3.51.2", "3.7.0"])
def test_sqlite_with_the_wal_reset_bug_is_refused(version: str) -> None:
    with pytest.raises(StoreUnavailable) as refused:
        check_library(version)
    assert version in refused.value.message
    assert "3.51.3" in refused.value.message


@pytest.mark.parametrize("version", ["3.51.3", "3.52.0", "3.54.1", "4.0.0"])
def test_newer_sqlite_is_taken(version: str) -> None:
    check_library(version)


def test_this_sqlite_is_taken() -> None:
    check_library()


def test_store_locked_by_another_process_can_be_opened_and_read(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    open_store(url).close()
    lock = FileLock(tmp_path / "store.sqlite.lock")
    lock.acquire(1)
    started = time.monotonic()
    store = open_store(url)
    assert list(store.workspaces()) == ["default"]
    assert time.monotonic() - started < 2
    store.close()
    lock.close()
