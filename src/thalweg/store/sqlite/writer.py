"""The one thread of a process that writes: queued requests share transactions and the wait for the disk."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import apsw

from thalweg.domain.errors import StoreUnavailable, ThalwegError
from thalweg.store.sqlite.connection import LOST, PAGE_BYTES, Bindings, Row, connect, domain_error
from thalweg.store.sqlite.files import FileLock, Reserve, StoreFiles
from thalweg.store.sqlite.repeated import RepeatedLog

T = TypeVar("T")
Item = TypeVar("Item")

MAX_QUEUE: Final = 4096
"""Requests waiting in one process; more are refused at once."""
MAX_BATCH: Final = 256
"""Requests that share one transaction."""
LOCK_TIMEOUT_S: Final = 5.0
PAUSE_S: Final = 0.0002
"""Wait after unlocking. The file lock is unfair: without the pause a busy process takes it again before another one
wakes up, and that one's slowest inserts wait 13-30 instead of 5 ms."""
HELP_PAGES: Final = (256 << 20) // PAGE_BYTES
"""A write-ahead log of so many pages (256 MiB) is checkpointed by whoever writes, should no process do background
work."""

_log = logging.getLogger(__name__)
_repeated = RepeatedLog(_log)


class Transaction:
    """What the work of a request may use: statements inside the shared transaction.

    now_us   the commit's time, microseconds UTC
    commit   number of this commit for observations, greater than those of all before; using it marks the commit as
             one that changed observations
    """

    __slots__ = ("_commit", "commit_used", "cursor", "now_us")

    def __init__(self, cursor: apsw.Cursor) -> None:
        self.cursor = cursor
        self.now_us = time.time_ns() // 1000
        self._commit = int(self.rows(_SELECT_COMMIT)[0][0]) + 1
        self.commit_used = False

    @property
    def commit(self) -> int:
        self.commit_used = True
        return self._commit

    def rows(self, sql: str, bindings: Bindings = ()) -> list[Row]:
        """All rows of a statement."""
        return self.cursor.execute(sql, bindings).fetchall()

    def many(self, sql: str, bindings: Iterable[Bindings]) -> None:
        """A statement once for each set of bindings."""
        self.cursor.executemany(sql, bindings)


_SELECT_COMMIT: Final = "SELECT value FROM counter WHERE name = 'commit'"
_UPDATE_COMMIT: Final = "UPDATE counter SET value = ? WHERE name = 'commit'"
_PROBE: Final = "UPDATE counter SET value = value + 1 WHERE name = 'reopened'"


_Outcome = tuple[Future[Any], Any, BaseException | None]


@dataclass(slots=True, eq=False)
class _Request:
    """One queued write, or several that are done by one piece of work (``submit_joined``).

    alone   work gets the connection outside of any transaction, the lock held
    future  of the write; of joined ones unused
    joined  items that go to the work together, each with its future; None for a single write
    key     of what may join
    """

    work: Callable[..., Any]
    future: Future[Any] | None
    frees_space: bool
    decides_first: bool
    alone: bool
    joined: list[tuple[Any, Future[Any]]] | None = None
    key: Hashable = None

    def begin(self) -> bool:
        """Whether anybody still waits for it; from now on it cannot be cancelled."""
        if self.joined is not None:
            self.joined = [pair for pair in self.joined if pair[1].set_running_or_notify_cancel()]
            return bool(self.joined)
        return self.future is not None and self.future.set_running_or_notify_cancel()

    def futures(self) -> list[Future[Any]]:
        if self.joined is not None:
            return [future for _, future in self.joined]
        return [] if self.future is None else [self.future]

    def run(self, argument: Any) -> list[_Outcome]:
        """Do the work. Raises what a single write raises, or what makes all joined ones fail."""
        if self.joined is not None:
            results = self.work(argument, [item for item, _ in self.joined])
            return [
                (future, None, result) if isinstance(result, BaseException) else (future, result, None)
                for (_, future), result in zip(self.joined, results, strict=True)
            ]
        value = self.work(argument)
        return [] if self.future is None else [(self.future, value, None)]


class _Promise(Future[Any]):
    """What a queued write will give. A thread that holds its writes back and waits for one would wait for ever."""

    def __init__(self, writer: Writer) -> None:
        super().__init__()
        self._writer = writer

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            self._writer.before_waiting()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if not self.done():
            self._writer.before_waiting()
        return super().exception(timeout)


class _LateFailure(Exception):
    """A request without a savepoint has failed after it had written something."""


class Writer:
    """Runs queued work in shared, durable transactions.

    A request that fails undoes only itself (savepoint). Futures are resolved after the commit has returned, so what
    they promise is on the disk. The thread starts with the first request.
    """

    def __init__(
        self,
        files: StoreFiles,
        *,
        max_queue: int = MAX_QUEUE,
        max_batch: int = MAX_BATCH,
        lock_timeout_s: float = LOCK_TIMEOUT_S,
    ) -> None:
        self._files = files
        self._reserve = Reserve(files.reserve)
        self._max_queue = max_queue
        self._max_batch = max_batch
        self._lock_timeout_s = lock_timeout_s
        self._lock = FileLock(files.lock)
        self._queue: deque[_Request] = deque()
        self._waiting = 0
        self._wake = threading.Condition()
        self._closing = False
        self._held_by = 0
        self._thread: threading.Thread | None = None
        self._connection: apsw.Connection | None = None
        self._needs_probe = False
        self.wal_pages = 0
        """Length of the write-ahead log after this process's last commit, pages."""

    # -------------------------------------------------------------- any thread

    def submit(
        self, work: Callable[[Transaction], T], *, frees_space: bool = False, decides_first: bool = False
    ) -> Future[T]:
        """Queue work for the next transaction.

        work           called in the writer's thread, perhaps again if its transaction was undone; raises a domain
                       error to be undone
        frees_space    try once more with the reserve given back if the disk is full
        decides_first  work hardly ever fails once it has written: it goes without a savepoint, which is two statements
                       of five for an insert; should it fail then, the whole batch is run again with savepoints
        returns        the work's result, once durable; StoreUnavailable where queue, lock or disk do not allow it
        """
        return self._put(_Request(work, _Promise(self), frees_space, decides_first, alone=False))

    def submit_joined(
        self, key: Hashable, item: Item, work: Callable[[Transaction, list[Item]], Sequence[T | BaseException]]
    ) -> Future[T]:
        """Queue a write that is done together with those of the same key right before it, if these have not begun:
        statements that all of them need are made once.

        item  what this one brings
        work  that of the first of them; gives for each item, in order, a result or a domain error. It decides first:
              see ``submit``; what it raises, all of them get
        """
        promise = _Promise(self)
        with self._wake:
            last = self._queue[-1] if self._queue else None
            if (
                last is not None
                and last.joined is not None
                and last.key == key
                and not self._closing
                and len(last.joined) < self._max_batch
                and self._waiting < self._max_queue
            ):
                last.joined.append((item, promise))
                self._waiting += 1
                return promise
            return self._put(_Request(work, None, False, True, False, [(item, promise)], key))

    def submit_alone(self, work: Callable[[apsw.Connection], T]) -> Future[T]:
        """Queue work that needs the connection outside of a transaction while no process writes."""
        return self._put(_Request(work, _Promise(self), frees_space=False, decides_first=False, alone=True))

    def _put(self, request: _Request) -> Future[Any]:
        (future,) = request.futures()
        with self._wake:
            if self._closing:
                future.set_exception(StoreUnavailable("The store is closed."))
            elif self._waiting >= self._max_queue:
                future.set_exception(
                    StoreUnavailable(f"{self._max_queue} writes are waiting already; try again later.")
                )
            else:
                self._queue.append(request)
                self._waiting += 1
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="thalweg-writer", daemon=True)
                    self._thread.start()
                elif self._held_by != threading.get_ident():
                    self._wake.notify()
        return future

    @contextmanager
    def held(self) -> Iterator[None]:
        """What the calling thread queues inside is begun at the end, so that it shares a transaction: waking the
        writer for the first one would leave all others to the next. For some milliseconds; one thread at a time, a
        second one's calls change nothing. Waiting for a result inside begins what is queued."""
        with self._wake:
            mine = not self._held_by
            if mine:
                self._held_by = threading.get_ident()
        try:
            yield
        finally:
            if mine:
                self._let_go()

    def _let_go(self) -> None:
        with self._wake:
            self._held_by = 0
            if self._queue:
                self._wake.notify()

    def before_waiting(self) -> None:
        """The calling thread is about to wait for something queued."""
        if self._held_by == threading.get_ident():
            self._let_go()

    @property
    def queued(self) -> int:
        """Requests that wait."""
        return self._waiting

    @property
    def is_started(self) -> bool:
        """Whether there was any request yet, and the writer is open."""
        return self._thread is not None and not self._closing

    def close(self) -> None:
        """Finish what is queued, then end the thread and close the connection."""
        with self._wake:
            if self._closing:
                return
            self._closing = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join()
        self._lock.close()

    # -------------------------------------------------------------- the writer's thread

    def _run(self) -> None:
        while True:
            with self._wake:
                while (not self._queue or self._held_by) and not self._closing:
                    self._wake.wait()
                if not self._queue:
                    break
            try:
                self._lock.acquire(self._lock_timeout_s)
            except StoreUnavailable as error:
                self._refuse_all(error)
                continue
            try:
                outcomes = self._serve()
            finally:
                self._lock.release()
            unlocked = time.monotonic()
            for future, value, failure in outcomes:
                if failure is None:
                    future.set_result(value)
                else:
                    future.set_exception(failure)
            del outcomes
            rest = PAUSE_S - (time.monotonic() - unlocked)
            if rest > 0:
                time.sleep(rest)
        self._disconnect()

    def _refuse_all(self, error: BaseException) -> None:
        """Fail everything that has waited."""
        with self._wake:
            waiting = list(self._queue)
            self._queue.clear()
            self._waiting = 0
        for request in waiting:
            if request.begin():
                for future in request.futures():
                    future.set_exception(error)

    def _serve(self) -> list[_Outcome]:
        """Take a batch and run it; the lock is held."""
        batch: list[_Request] = []
        with self._wake:
            # What came in while the lock was waited for goes along.
            taken = 0
            while self._queue:
                size = len(self._queue[0].futures())
                if batch and (self._queue[0].alone or taken + size > self._max_batch):
                    break
                request = self._queue.popleft()
                taken += size
                if request.begin():
                    batch.append(request)
                    if request.alone:
                        break
            self._waiting -= taken
        if not batch:
            return []
        try:
            connection = self._connect()
        except Exception as error:
            return _failed(batch, error)
        if batch[0].alone:
            return self._run_alone(connection, batch[0])
        try:
            return self._transact(connection, batch)
        except apsw.FullError as error:
            # Nothing of the batch is kept, and SQLite can go on. Deletions get another try, with the reserve's room.
            retry = [r for r in batch if r.frees_space]
            outcomes = _failed([r for r in batch if not r.frees_space], error)
            try:
                self._roll_back(connection)
                if retry and self._reserve.release():
                    outcomes += self._transact(connection, retry)
                else:
                    outcomes += _failed(retry, error)
                return outcomes
            except Exception as second:
                self._give_up(second)
                return outcomes + _failed(retry, second)
        except Exception as error:
            self._give_up(error)
            return _failed(batch, error)

    def _transact(self, connection: apsw.Connection, batch: list[_Request]) -> list[_Outcome]:
        """One transaction for all requests; raises what makes the transaction as a whole fail."""
        try:
            return self._run_batch(connection, batch, careful=False)
        except _LateFailure:
            self._roll_back(connection)
            return self._run_batch(connection, batch, careful=True)

    def _run_batch(self, connection: apsw.Connection, batch: list[_Request], *, careful: bool) -> list[_Outcome]:
        """``careful``: every request gets a savepoint. Raises _LateFailure for one that would have needed it."""
        cursor = connection.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        transaction = Transaction(cursor)
        outcomes: list[_Outcome] = []
        for request in batch:
            savepoint = careful or not request.decides_first
            if savepoint:
                cursor.execute("SAVEPOINT request")
            changes = connection.total_changes()
            try:
                outcomes += request.run(transaction)
            except LOST:
                raise
            except Exception as error:
                if savepoint:
                    cursor.execute("ROLLBACK TO request")
                elif connection.total_changes() != changes:
                    raise _LateFailure from error
                failure = domain_error(error)
                outcomes += [(future, None, failure) for future in request.futures()]
                if not isinstance(failure, ThalwegError):
                    _log.exception("a write failed unexpectedly and was undone")
            if savepoint:
                cursor.execute("RELEASE request")
        if transaction.commit_used:
            cursor.execute(_UPDATE_COMMIT, (transaction.commit,))
        cursor.execute("COMMIT")
        if self.wal_pages > HELP_PAGES:
            self._help(connection)
        return outcomes

    def _run_alone(self, connection: apsw.Connection, request: _Request) -> list[_Outcome]:
        try:
            return request.run(connection)
        except Exception as error:
            if isinstance(error, LOST):
                self._give_up(error)
            return _failed([request], error)

    # -------------------------------------------------------------- the connection

    def _connect(self) -> apsw.Connection:
        """The connection, opened anew after an error. Raises apsw.Error."""
        if self._connection is None:
            connection = connect(self._files.database, writer=True)
            connection.set_wal_hook(self._committed)
            if self._needs_probe:
                # A failed sync may have left the frames of the refused commit in the log, where a recovery after a
                # crash would find and replay them. A small commit in their place proves that the disk works again
                # and makes sure that what was refused stays refused.
                cursor = connection.cursor()
                try:
                    cursor.execute("BEGIN IMMEDIATE")
                    cursor.execute(_PROBE)
                    cursor.execute("COMMIT")
                except BaseException:
                    connection.close(True)
                    raise
                self._needs_probe = False
            self._connection = connection
        return self._connection

    def _committed(self, _connection: apsw.Connection, _database: str, pages: int) -> int:
        self.wal_pages = pages
        return apsw.SQLITE_OK

    def _help(self, connection: apsw.Connection) -> None:
        """Shorten the log; what was committed stays so even if that fails."""
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:
            _repeated.log(logging.WARNING, "a checkpoint failed: %s", error)

    def _roll_back(self, connection: apsw.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")

    def _give_up(self, error: BaseException) -> None:
        """Open a new connection after an error that leaves the state of this one in doubt; the lock is held."""
        _repeated.log(
            logging.ERROR, "a transaction on '%s' failed: %s %s", self._files.database, type(error).__name__, error
        )
        self._disconnect()
        if isinstance(error, apsw.IOError | apsw.FullError):
            self._needs_probe = True
            try:
                self._connect()
            except apsw.Error as second:
                # The next batch tries again.
                _repeated.log(logging.ERROR, "the disk does not work yet: %s %s", type(second).__name__, second)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close(True)
            except apsw.Error:
                _log.exception("closing the writing connection failed")


def _failed(batch: list[_Request], error: BaseException) -> list[_Outcome]:
    failure = domain_error(error)
    return [(future, None, failure) for request in batch for future in request.futures()]
