"""Opening and restoring a store by its URL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw

from thalweg.domain.errors import InvalidParameter, NotFound, StoreUnavailable
from thalweg.domain.store import Finding, Store
from thalweg.store.sqlite.backup import restore_to
from thalweg.store.sqlite.check import check
from thalweg.store.sqlite.connection import Readers, check_library, connect, opening_error
from thalweg.store.sqlite.files import FileLock, Reserve, StoreFiles, create_empty, expect_usable
from thalweg.store.sqlite.migrate import format_version, migrate, migrations
from thalweg.store.sqlite.store import SqliteStore
from thalweg.store.sqlite.writer import LOCK_TIMEOUT_S, MAX_QUEUE

OPEN_TIMEOUT_S: Final = 30.0
"""Wait for another process that brings the store to a new format."""
_FORMS: Final = "sqlite:///relative/path or sqlite:////absolute/path"


def open_store(
    url: str, *, create: bool = True, lock_timeout_s: float = LOCK_TIMEOUT_S, max_queue: int = MAX_QUEUE
) -> Store:
    """Open a store, made or brought to the current format where needed.

    url      ``sqlite:///`` and a path: relative, or absolute with a fourth slash
    create   make folder and file if they are not there
    lock_timeout_s  longest wait of a write for other processes that write, seconds
    max_queue       most writes of this process that wait for their commit
    raises   InvalidParameter for an URL that names no back end; NotFound for no store with ``create`` False;
             StoreUnavailable for an SQLite too old, a file that cannot be opened, read and written, is no store or is
             too new; DamagedData for one that is no SQLite file (any more). The messages name the file and the reason
    """
    files = _files(url)
    check_library()
    try:
        is_there = files.database.exists()
    except OSError as error:
        raise StoreUnavailable(f"The file '{files.database}' cannot be reached: {error.strerror}.") from error
    if not is_there:
        if not create:
            raise NotFound(
                "store",
                f"There is no store at {url}. If it is elsewhere, name its file: --store sqlite:///path/of/file.",
            )
        create_empty(files.database)
    expect_usable(files)
    try:
        _bring_up_to_date(files)
    except apsw.Error as error:
        raise opening_error(files.database, error) from error
    Reserve(files.reserve).keep()
    return SqliteStore(files, url, lock_timeout_s=lock_timeout_s, max_queue=max_queue)


def check_copy(source: str) -> Iterator[Finding]:
    """What ``MaintenanceStore.check`` would find in a copy that ``MaintenanceStore.backup`` wrote, as ``restore`` will
    look at it; the copy is left as it is.

    raises  StoreUnavailable for a file that cannot be opened
    """
    check_library()
    readers = Readers(Path(source))
    try:
        yield from check(readers)
    finally:
        readers.close()


def restore(source: str, url: str, *, overwrite: bool = False, accept_damage: bool = False) -> list[Finding]:
    """Put a back-up in a store's place after checking it; the store there gets a new epoch.

    source         file that ``MaintenanceStore.backup`` wrote
    overwrite      replace a store that is there, if no process uses it
    accept_damage  take also a copy of which parts are damaged: these are refused by name when they are asked for, all
                   else is served. Not one whose file itself is damaged, from which wrong answers might come
    returns        the damage that was accepted
    raises         InvalidParameter, AlreadyExists, StoreUnavailable; DamagedData, with the parameter ``accept_damage``
                   where that would accept it. Nothing is changed then
    """
    files = _files(url)
    check_library()
    return restore_to(Path(source), files, overwrite=overwrite, accept_damage=accept_damage)


def _bring_up_to_date(files: StoreFiles) -> None:
    """Make the file of the newest format; one that is so already is not waited for, whoever has it locked."""
    newest = max(migrations())
    connection = connect(files.database, writer=False)
    try:
        if format_version(connection, newest) == newest:
            return
    finally:
        connection.close(True)
    lock = FileLock(files.lock)
    try:
        lock.acquire(OPEN_TIMEOUT_S)
        connection = connect(files.database, writer=True)
        try:
            migrate(connection)
        finally:
            connection.close(True)
    finally:
        lock.close()


def _files(url: str) -> StoreFiles:
    scheme, separator, path = url.partition(":///")
    if not separator or scheme != "sqlite" or not path.strip("/"):
        raise InvalidParameter("store", f"'{url[:200]}' names no store; allowed are {_FORMS}.")
    if "\0" in path or "?" in path or "#" in path:
        raise InvalidParameter("store", f"'{url[:200]}' has a character that a store's path may not have.")
    return StoreFiles(Path(path).absolute())
