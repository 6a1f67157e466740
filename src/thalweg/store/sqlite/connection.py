"""Connections to the database file, and SQLite's errors in the domain's words."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Final, TypeAlias
from weakref import WeakSet

import apsw

from thalweg.domain.errors import DamagedData, InvalidRequest, StoreUnavailable, ThalwegError
from thalweg.store.sqlite.table_rank import know_ranks

OLDEST_SQLITE: Final = (3, 51, 3)
"""Before it, a commit that resets the write-ahead log while another connection checkpoints can damage the file
(https://sqlite.org/wal.html, the WAL-reset bug); several writing processes on one file are exactly that case."""
BUSY_MS: Final = 5000
PAGE_BYTES: Final = 8192
READER_CACHE_KIB: Final = 4096
"""Each thread has one, and the system caches the file: more made no read faster."""
TOGETHER_CACHE_KIB: Final = 65_536
"""Of the one thread that answers short requests together. Boxes and lists of ids find their features all over a large
layer, a page of the file each: 1.2 µs from this cache, 3 from the system's."""
BRIEF_STEPS: Final = 1_000
"""Of SQLite's machine between looks at the clock: some ten microseconds where pages are in memory."""
WRITER_CACHE_KIB: Final = 32_768
WAL_LIMIT_BYTES: Final = 64 << 20
"""The write-ahead log is cut to this when it starts again from the beginning."""

Row: TypeAlias = tuple[Any, ...]
Bindings: TypeAlias = Sequence[Any] | dict[str, Any]


def check_library(version: str | None = None) -> None:
    """Refuse an SQLite that may damage the store. Raises StoreUnavailable."""
    found = version or apsw.sqlite_lib_version()
    if tuple(int(part) for part in found.split(".")[:3]) < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise StoreUnavailable(
            f"SQLite {found} can damage a store that several processes write; {oldest} or newer is needed "
            f"(it comes with apsw {oldest} or newer)."
        )


def connect(path: Path, *, writer: bool) -> apsw.Connection:
    """A connection to an existing file; a reader's refuses to write. Raises apsw.Error.

    Readers open the file for writing too: they take part in the shared index of the write-ahead log.
    """
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_timeout(BUSY_MS)
        # Without it a statement with a range or a limit is prepared anew whenever its bounds change, because the
        # library is built with STAT4: 18 instead of 6 µs for the statement that reads a day.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
        connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
        cursor = connection.cursor()
        for pragma in _WRITER_PRAGMAS if writer else _READER_PRAGMAS:
            cursor.execute(pragma).fetchall()
        if not writer:
            know_ranks(connection)
    except BaseException:
        connection.close()
        raise
    return connection


_COMMON_PRAGMAS: Final = ("PRAGMA temp_store = MEMORY", "PRAGMA wal_autocheckpoint = 0")
_READER_PRAGMAS: Final = (
    *_COMMON_PRAGMAS,
    f"PRAGMA cache_size = -{READER_CACHE_KIB}",
    "PRAGMA query_only = ON",
)
_WRITER_PRAGMAS: Final = (
    *_COMMON_PRAGMAS,
    f"PRAGMA cache_size = -{WRITER_CACHE_KIB}",
    # Of an empty file only. A chunk of four properties is some 2.6 kB: one a page of 4 KiB, three a page of 8.
    f"PRAGMA page_size = {PAGE_BYTES}",
    "PRAGMA journal_mode = WAL",
    f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}",
    # FULL: the log is on the disk before a commit is acknowledged.
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
)

LOST: Final = (
    apsw.FullError,
    apsw.IOError,
    apsw.NoMemError,
    apsw.InterruptError,
    apsw.BusyError,
    apsw.LockedError,
    apsw.ReadOnlyError,
    apsw.CantOpenError,
    apsw.ProtocolError,
    apsw.ConnectionClosedError,
    apsw.CursorClosedError,
)
"""Errors that say nothing about the request, and after which a transaction cannot be trusted any more."""


def opening_error(path: Path, error: apsw.Error) -> BaseException:
    """What an error met at opening a file means to the operator, whom it tells the file; see ``domain_error``."""
    if isinstance(error, apsw.NotADBError):
        return DamagedData(f"'{path}' is no SQLite file, so no Thalweg store, or its beginning is damaged.")
    if isinstance(error, apsw.CorruptError):
        return DamagedData(f"The store's file '{path}' is damaged.")
    if isinstance(error, apsw.BusyError | apsw.LockedError | apsw.FullError):
        return domain_error(error)
    return StoreUnavailable(f"The file '{path}' cannot be opened as a store: {error}.")


def domain_error(error: BaseException) -> BaseException:
    """What an error of SQLite means to a client; any other error as it is."""
    if isinstance(error, apsw.FullError):
        return StoreUnavailable("The store's disk is full; reading and deleting still work.", retry_after_s=60)
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreUnavailable("The store is locked by another program; try again later.")
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return DamagedData("The store's file is damaged.")
    if isinstance(error, apsw.ConnectionClosedError | apsw.CursorClosedError):
        return StoreUnavailable("The store is closed.")
    if isinstance(error, LOST):
        return StoreUnavailable("The store's file cannot be read or written now.", retry_after_s=5)
    if isinstance(error, UnicodeEncodeError):
        return InvalidRequest("A text holds half of a surrogate pair, which is no character.")
    return error


class TooLong(Exception):
    """What was begun within ``Reader.brief`` takes more steps, or more time.

    by_steps  the former: it would again, where time depends on what else is done and on what is in memory
    """

    def __init__(self, by_steps: bool) -> None:
        super().__init__()
        self.by_steps = by_steps


class Reader:
    """One thread's connection for reading. Every statement is read to its end: nothing stays open between calls.

    known  while a snapshot is held (``Readers.held``): what has been found out in it, by name; else None
    """

    __slots__ = ("__weakref__", "_end", "_left", "connection", "cursor", "is_roomy", "known")

    def __init__(self, path: Path) -> None:
        self.connection = connect(path, writer=False)
        self.cursor = self.connection.cursor()
        self.known: dict[Hashable, Any] | None = None
        self.is_roomy = False
        self._end = 0.0
        self._left = 0

    def widen(self) -> None:
        """Give it the cache of the thread that reads most, once."""
        if not self.is_roomy:
            self.is_roomy = True
            self.rows(f"PRAGMA cache_size = -{TOGETHER_CACHE_KIB}")

    def rows(self, sql: str, bindings: Bindings = ()) -> list[Row]:
        """All rows of a statement. Raises StoreUnavailable, DamagedData."""
        try:
            return self.cursor.execute(sql, bindings).fetchall()
        except (apsw.Error, UnicodeEncodeError) as error:
            if self._end and isinstance(error, apsw.InterruptError):
                raise TooLong(self._left < 0) from error
            raise domain_error(error) from error

    @contextmanager
    def brief(self, steps: int, seconds: float) -> Iterator[None]:
        """Statements inside are given up, by TooLong, once they have taken so many steps of SQLite's machine together,
        or that much time, but those that begin and end a snapshot. One step takes long only where a virtual table does:
        words of an index may.
        """
        self._left = steps // BRIEF_STEPS
        self._end = perf_counter() + seconds
        self.connection.set_progress_handler(self._is_late, BRIEF_STEPS)
        try:
            yield
        finally:
            self.connection.set_progress_handler(None)
            self._end = 0.0

    def _is_late(self) -> bool:
        if not self._end:
            return False
        self._left -= 1
        return self._left < 0 or perf_counter() > self._end

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All statements inside see one state of the store. Short work only, never a wait."""
        if self.known is not None:
            # One is held already.
            yield
            return
        self._surely("BEGIN")
        try:
            yield
        finally:
            if self.connection.in_transaction:
                self._surely("COMMIT")

    def _surely(self, sql: str) -> None:
        """Run what is never given up, however late it is: a snapshot would stay open, for all that comes after. Even
        the shortest statement is interrupted once in a while, as SQLite counts the steps of all its runs."""
        end, self._end = self._end, 0.0
        try:
            self.rows(sql)
        finally:
            self._end = end


class Readers:
    """A reader for each thread that asks, opened when it first does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        self._all: WeakSet[Reader] = WeakSet()
        self._lock = threading.Lock()
        self._closed = False

    def mine(self) -> Reader:
        """The calling thread's reader. Raises StoreUnavailable when closed or the file cannot be opened."""
        try:
            reader: Reader = self._local.reader
        except AttributeError:
            return self._open()
        return reader

    def rows(self, sql: str, bindings: Bindings = ()) -> list[Row]:
        """All rows of a statement, by the calling thread's reader."""
        return self.mine().rows(sql, bindings)

    @contextmanager
    def held(self) -> Iterator[None]:
        """See ``Store.together``: one lock of the write-ahead log, which is two system calls, for all reads inside."""
        reader = self._begun()
        if reader is None:
            yield
            return
        reader.known = {}
        try:
            yield
        finally:
            reader.known = None
            try:
                if reader.connection.in_transaction:
                    reader.rows("COMMIT")
            except (ThalwegError, apsw.Error):
                # Closed meanwhile.
                pass

    def _begun(self) -> Reader | None:
        """The calling thread's reader in a snapshot of its own. None if it has one, or none can be had: those that
        read are told why."""
        try:
            reader = self.mine()
            if reader.known is not None:
                return None
            reader.widen()
            reader.rows("BEGIN")
        except ThalwegError:
            return None
        return reader

    def _open(self) -> Reader:
        with self._lock:
            if self._closed:
                raise StoreUnavailable("The store is closed.")
            try:
                reader = Reader(self.path)
            except apsw.Error as error:
                raise domain_error(error) from error
            self._all.add(reader)
        self._local.reader = reader
        return reader

    def close(self) -> None:
        """Close every thread's connection; calls still running in other threads end with StoreUnavailable."""
        with self._lock:
            self._closed = True
            readers = list(self._all)
        for reader in readers:
            # Not interrupted before: the last connection to close would leave off its checkpoint for it, too.
            if not _close(reader.connection):
                try:
                    reader.connection.interrupt()
                except apsw.Error:
                    pass
                # If it is still in use, it is closed when its thread lets go of it.
                _close(reader.connection)


def _close(connection: apsw.Connection) -> bool:
    """Close it unless another thread uses it at this very moment; says whether it could."""
    try:
        connection.close()
    except apsw.Error:
        return False
    return True
