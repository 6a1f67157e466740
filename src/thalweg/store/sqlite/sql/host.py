"""Statements handed to processes of their own, which are killed when they take too long."""

from __future__ import annotations

import logging
import os
import pickle
import queue
import select
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from thalweg.domain.errors import NotFound, StoreUnavailable, told_again
from thalweg.domain.table_sql import MAX_ANSWER_BYTES, FindTables, SqlAnswer, SqlFault, SqlForbidden, SqlLimits
from thalweg.store.sqlite.sql.process import LENGTH
from thalweg.store.sqlite.sql.relations import relation_of

_log = logging.getLogger(__name__)

PROCESSES: Final = 2
"""Of each server process: statements that run at once."""
MAX_WAITING: Final = 50
"""Statements that wait for a process; more are told to come again."""
IDLE_S: Final = 120.0
"""How long a process is kept that nobody asks anything."""
READ_BYTES: Final = 64 << 10
"""Read at once: as much as a pipe holds."""
GRACE_S: Final = 0.5
"""How long after a statement's time its process may say so itself before it is killed."""
START_S: Final = 20.0
MAX_KEPT: Final = 500
MAX_KEPT_TEXT: Final = 2_000
"""Characters of statements whose tables are remembered."""
_TRIES: Final = 3
_PROGRAM: Final = "from thalweg.store.sqlite.sql.process import main; main()"


class _Lost(Exception):
    """The process ended, or did not answer in time and was killed."""

    def __init__(self, late: bool) -> None:
        super().__init__()
        self.late = late


class _Child:
    def __init__(self, path: Path) -> None:
        # It needs none of the server's settings, some of which are secrets.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("THALWEG_")}
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            bufsize=0,
        )
        self._fresh = True
        self._came = bytearray()

    def ask(self, question: tuple[Any, ...], time_s: float) -> tuple[dict[str, Any], list[bytes]]:
        """Raises _Lost; the process is gone then."""
        deadline = time.monotonic() + time_s + (START_S if self._fresh else 0)
        body = pickle.dumps(question, protocol=pickle.HIGHEST_PROTOCOL)
        try:
            view = memoryview(LENGTH.pack(len(body)) + body)
            while view:
                assert self._process.stdin is not None  # noqa: S101 (for the type checker)
                view = view[self._process.stdin.write(view) or 0 :]
            size = LENGTH.unpack(self._read(LENGTH.size, deadline))[0]
            said = orjson.loads(self._read(size, deadline))
            parts = [self._read(length, deadline + 10) for length in said["sizes"]]
        except (OSError, ValueError):
            self.end()
            raise _Lost(False) from None
        self._fresh = False
        return said, parts

    def _read(self, size: int, deadline: float) -> bytes:
        """So many bytes of what came and, if that is not enough, comes: a short answer by one reading."""
        if size > 2 * MAX_ANSWER_BYTES:
            raise ValueError("longer than any answer")
        assert self._process.stdout is not None  # noqa: S101 (for the type checker)
        source = self._process.stdout.fileno()
        came = self._came
        while len(came) < size:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([source], [], [], left)[0]:
                self.end()
                raise _Lost(True)
            piece = os.read(source, min(max(size - len(came), READ_BYTES), 1 << 20))
            if not piece:
                raise ValueError("ended")
            came += piece
        found = bytes(memoryview(came)[:size])
        del came[:size]
        return found

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass


@dataclass(slots=True)
class _Job:
    statement: str
    find: FindTables
    limits: SqlLimits
    future: Future[SqlAnswer]


class SqlHost:
    """See ``domain.table_sql.SqlStore``. Threads and processes are made when there is something to do."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._jobs: queue.Queue[_Job | None] = queue.Queue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._waiting = 0
        self._closed = False
        self._known: dict[str, tuple[str, ...]] = {}

    def sql(self, statement: str, find: FindTables, limits: SqlLimits) -> Future[SqlAnswer]:
        future: Future[SqlAnswer] = Future()
        with self._lock:
            if self._closed:
                raise StoreUnavailable("The store is closed.")
            if self._waiting >= MAX_WAITING + PROCESSES:
                raise StoreUnavailable("Too many SQL statements are waiting; try again later.", retry_after_s=1)
            self._waiting += 1
            if len(self._threads) < min(PROCESSES, self._waiting):
                thread = threading.Thread(target=self._work, name="sql", daemon=True)
                self._threads.append(thread)
                thread.start()
        self._jobs.put(_Job(statement, find, limits, future))
        return future

    def close(self) -> None:
        """Wait for what runs, at most as long as it may take; what waits is refused."""
        with self._lock:
            self._closed = True
            threads = list(self._threads)
        for _ in threads:
            self._jobs.put(None)
        for thread in threads:
            thread.join(30)

    # -------------------------------------------------------------- the threads

    def _work(self) -> None:
        child: _Child | None = None
        while True:
            try:
                job = self._jobs.get(timeout=IDLE_S)
            except queue.Empty:
                if child is not None:
                    child.end()
                    child = None
                continue
            if job is None:
                break
            if self._closed:
                job.future.set_exception(StoreUnavailable("The store is closed."))
            elif job.future.set_running_or_notify_cancel():
                child = self._run(job, child)
            with self._lock:
                self._waiting -= 1
        if child is not None:
            child.end()

    def _run(self, job: _Job, child: _Child | None) -> _Child | None:
        try:
            child = child or _Child(self._path)
            answer = self._answer(job, child)
        except _Lost as lost:
            child = None
            if lost.late:
                job.future.set_exception(SqlFault("Query took too long"))
            else:
                _log.error("The process that runs SQL ended in the middle of a statement.")
                job.future.set_exception(SqlFault("the statement takes more memory than it may; ask for less at once"))
        except _Last as last:
            child = None
            job.future.set_exception(last.error)
        except BaseException as error:
            job.future.set_exception(error)
        else:
            job.future.set_result(answer)
        return child

    def _answer(self, job: _Job, child: _Child) -> SqlAnswer:
        names = self._known.get(job.statement)
        if names is None:
            said, _ = child.ask(("tables", job.statement), job.limits.time_s + GRACE_S)
            self._check(said, child)
            names = tuple(said["tables"])
            if len(job.statement) <= MAX_KEPT_TEXT:
                if len(self._known) >= MAX_KEPT:
                    self._known.clear()
                self._known[job.statement] = names
        for _ in range(_TRIES):
            relations = {name: relation_of(table) for name, table in job.find(names).items()}
            question = ("answer", job.statement, relations, job.limits.rows, job.limits.time_s)
            said, parts = child.ask(question, job.limits.time_s + GRACE_S)
            if said.get("moved"):
                continue
            self._check(said, child)
            return SqlAnswer(parts[0], parts[1], said["truncated"])
        raise NotFound("resource_id", "A table of the statement is changed all the time; try again later.")

    @staticmethod
    def _check(said: dict[str, Any], child: _Child) -> None:
        if "fault" in said:
            fault = SqlFault(said["fault"], is_grammar=said.get("grammar", False))
            if said.get("last"):
                child.end()
                raise _Last(fault)
            raise fault
        if "forbidden" in said:
            raise SqlForbidden(said["forbidden"])
        if "late" in said:
            raise SqlFault("Query took too long")
        if "again" in said:
            raise told_again(*said["again"])
        if "error" in said:
            raise RuntimeError(f"A statement failed: {said['error']}")


class _Last(Exception):
    """What a process said before it ended of itself."""

    def __init__(self, error: SqlFault) -> None:
        super().__init__()
        self.error = error


class SqlPart:
    """See ``domain.table_sql.SqlStore``. Mixed into the store, which calls ``_open_sql``."""

    _sql_host: SqlHost

    def _open_sql(self, path: Path) -> None:
        self._sql_host = SqlHost(path)

    def sql(self, statement: str, find: FindTables, limits: SqlLimits) -> Future[SqlAnswer]:
        return self._sql_host.sql(statement, find, limits)

    def close_sql(self) -> None:
        self._sql_host.close()
