"""Copies of a store: taken while it is in use, and put in its place."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import apsw

from thalweg.domain.errors import AlreadyExists, DamagedData, InvalidParameter, StoreUnavailable
from thalweg.domain.store import Finding
from thalweg.store.sqlite.check import FILE, check
from thalweg.store.sqlite.connection import Readers, connect, domain_error
from thalweg.store.sqlite.files import FileLock, StoreFiles, create_empty, expect_readable, sync_file, sync_folder
from thalweg.store.sqlite.migrate import format_version, migrate, migrations, set_new_epoch
from thalweg.store.sqlite.package_files import FILE_KEYS, FileFolder, copy_files, folder_of, move_files

STEP_PAGES: Final = 1024
"""Pages copied between two chances to be interrupted."""


def copy_to(database: Path, target: Path) -> None:
    """Write a consistent copy to a new file, and uploaded files to a folder beside it: whole or not at all, on the
    disk when it is there.

    Readers and writers go on; the copy is of the moment when it began, and the write-ahead log is kept until it ends.

    raises  AlreadyExists, InvalidParameter (no such folder), StoreUnavailable
    """
    partial = target.with_name(target.name + ".partial")
    stack = ExitStack()
    try:
        if target.exists():
            raise FileExistsError
        if not target.parent.is_dir():
            raise InvalidParameter("target", f"There is no folder '{target.parent}'; make it first.")
        partial.unlink(missing_ok=True)
        if folder_of(target).exists():
            raise FileExistsError
        create_empty(partial)
        stack.enter_context(FileFolder(database).held())
        source = connect(database, writer=False)
        try:
            # An open snapshot: without it every commit would make the copy start again.
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM store_meta").fetchall()
            _copy(source, partial)
            # As the copy has them: what is removed from now on is kept until this has ended.
            keys = [str(key) for key, _, _ in source.execute(FILE_KEYS).fetchall()]
        finally:
            source.close(True)
        sync_file(partial)
        # If this fails, so much of them as was copied is of no use.
        stack.callback(_drop_files_without, target)
        copy_files(keys, database, target)
        _give_name(partial, target)
        sync_folder(target.parent)
    except FileExistsError:
        raise AlreadyExists("target", f"'{target}' exists already; a back-up is written to a new file.") from None
    except apsw.FullError as error:
        raise StoreUnavailable(f"There is not enough room for the back-up in '{target.parent}'.") from error
    except apsw.Error as error:
        raise domain_error(error) from error
    except OSError as error:
        raise StoreUnavailable(f"The back-up '{target}' cannot be written: {error.strerror}.") from error
    finally:
        stack.close()
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _drop_files_without(target: Path) -> None:
    """Remove the files of a copy that did not come about."""
    if not target.exists():
        shutil.rmtree(folder_of(target), ignore_errors=True)


def _give_name(partial: Path, target: Path) -> None:
    """Rename, but never over a file that has come to be there since. Raises FileExistsError."""
    try:
        os.link(partial, target)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links.
        if target.exists():
            raise FileExistsError from None
        os.rename(partial, target)


def _copy(source: apsw.Connection, target: Path) -> None:
    connection = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.execute("PRAGMA synchronous = OFF")  # synced as a whole, once it is whole
        with connection.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(STEP_PAGES)
        # One file, without a log beside it.
        connection.execute("PRAGMA journal_mode = DELETE").fetchall()
    finally:
        connection.close(True)


def restore_to(source: Path, files: StoreFiles, *, overwrite: bool, accept_damage: bool) -> list[Finding]:
    """Put a copy in a store's place, with a new epoch, brought to this program's format.

    returns  the damage accepted
    raises   InvalidParameter for a source that is no back-up, DamagedData for a damaged one, AlreadyExists if a store
             is there and may not be overwritten, StoreUnavailable if it is in use or files cannot be read or written
    """
    try:
        if not source.is_file():
            reason = f"'{source}' is a directory, no back-up." if source.is_dir() else f"There is no file '{source}'."
            raise InvalidParameter("source", reason)
        expect_readable(source)
        if files.database.is_dir():
            raise InvalidParameter("store", f"'{files.database}' is a directory; a store is a file.")
        if files.database.exists() and files.database.stat().st_size and not overwrite:
            raise AlreadyExists(
                "store", "There is a store already; say that it may be overwritten, or choose another place."
            )
        prepared = files.beside(".restoring")
        prepared.unlink(missing_ok=True)
        create_empty(prepared)
        try:
            return _put_in_place(source, prepared, files, accept_damage)
        finally:
            for suffix in ("", "-journal", "-wal", "-shm"):
                prepared.with_name(prepared.name + suffix).unlink(missing_ok=True)
            shutil.rmtree(folder_of(prepared), ignore_errors=True)
    except apsw.FullError as error:
        raise StoreUnavailable(f"There is not enough room for the store in '{files.database.parent}'.") from error
    except apsw.Error as error:
        raise domain_error(error) from error
    except OSError as error:
        raise StoreUnavailable(
            f"The store cannot be restored: {error.strerror}: '{error.filename or files.database}'."
        ) from error


def _put_in_place(source: Path, prepared: Path, files: StoreFiles, accept_damage: bool) -> list[Finding]:
    lock = FileLock(files.lock)
    try:
        lock.acquire(10.0)
        accepted = _prepare(source, prepared, accept_damage)
        if files.database.exists():
            _retire(files)
        # Their names are of their own: none of the store's that was is overwritten by another's.
        move_files(prepared, files.database)
        os.replace(prepared, files.database)
        sync_folder(files.database.parent)
        return accepted
    finally:
        lock.close()


def _prepare(source: Path, prepared: Path, accept_damage: bool) -> list[Finding]:
    """Copy and check, and give the copy its own life."""
    try:
        origin = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            if format_version(origin, max(migrations())) == 0:
                raise InvalidParameter("source", f"'{source}' is an empty file, not a back-up of a store.")
            _copy(origin, prepared)
        finally:
            origin.close(True)
        connection = apsw.Connection(str(prepared), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            migrate(connection)
            set_new_epoch(connection)
            keys = [str(key) for key, _, _ in connection.execute(FILE_KEYS).fetchall()]
        finally:
            connection.close(True)
        copy_files(keys, source, prepared)
        readers = Readers(prepared)
        accepted: list[Finding] = []
        try:
            for finding in check(readers):
                said = f"{finding.place}: {finding.problem.rstrip('.')}."
                if finding.place == FILE:
                    raise DamagedData(f"The back-up's file itself is damaged: {said}", parameter="source")
                if not accept_damage:
                    raise DamagedData(f"The back-up is damaged: {said}", parameter="accept_damage")
                accepted.append(finding)
        finally:
            readers.close()
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise DamagedData(f"'{source}' is damaged or no back-up of a store.", parameter="source") from error
    sync_file(prepared)
    return accepted


def _retire(files: StoreFiles) -> None:
    """Make the store that is there a single file that nobody uses, so that another one can take its name.

    Its log must not outlive it: SQLite would replay it into the new file.
    """
    try:
        old = apsw.Connection(str(files.database), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            old.set_busy_timeout(1000)
            # Only granted when no other connection has the file open, and empties the log.
            mode = old.execute("PRAGMA journal_mode = DELETE").fetchall()
        finally:
            old.close(True)
    except apsw.BusyError as error:
        raise StoreUnavailable("The store is in use; stop the server before restoring into its place.") from error
    except (apsw.NotADBError, apsw.CorruptError):
        # Damaged beyond opening, which may be why it is to be replaced.
        mode = [("delete",)]
    if mode != [("delete",)]:
        raise StoreUnavailable("The store is in use; stop the server before restoring into its place.")
    for suffix in ("-wal", "-shm"):
        files.beside(suffix).unlink(missing_ok=True)
