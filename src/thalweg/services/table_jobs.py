"""Loading uploaded files into tables in the background: one at a time, in a process of its own.

A job is a row of the store. The process that leads the background work takes the oldest one, starts the command that
loads a file, writes down how far it is, and what became of it. A job whose server has died is begun anew by the next.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Final

from thalweg.domain.access import Actor
from thalweg.domain.errors import InvalidParameter, ThalwegError
from thalweg.domain.packages import JobState, LoadJob, StoredFile, file_of
from thalweg.domain.store import Store
from thalweg.domain.tables import Table

_log = logging.getLogger(__name__)

LOADABLE: Final = {
    "csv": "CSV", "tsv": "TSV", "tab": "TSV", "json": "JSON", "ndjson": "NDJSON", "jsonl": "NDJSON",
    "geojson": "GeoJSON", "xlsx": "XLSX", "xlsm": "XLSX", "xlsb": "XLSX", "xls": "XLS", "ods": "ODS",
    "parquet": "Parquet", "txt": "CSV",
}  # fmt: skip
"""Formats that are loaded, by the ending of a file's name, after which there may be ``.gz``."""
MAX_OPEN: Final = 1_000
"""Most jobs that wait."""
MAX_ATTEMPTS: Final = 3
"""How often a job is begun whose server has died under it: it may be what killed it."""
POLL_S: Final = 1.0
NOTE_S: Final = 2.0
"""How often a running job shows that it lives."""
STALE_S: Final = 20.0
"""A running job without a sign of life for so long has lost its server."""
MAX_MESSAGE: Final = 4_000
"""Longest report that is kept of a job, characters; its end counts."""
_ENDING: Final = re.compile(r"\.([a-z0-9]{1,10})$")

Command = Callable[[Path, Table], Sequence[str]]


def ending_of(file: StoredFile, table: Table) -> str:
    """The ending by which a file is read, from its name, or else from what is said of its format; empty: none."""
    found = _ENDING.search(file.name.lower().removesuffix(".gz"))
    if found is not None and found[1] in LOADABLE and found[1] != "txt":
        return found[1]
    said = str(table.document.get("format") or "").lower()
    if said in LOADABLE:
        return said
    return ""


class TableJobs:
    """The jobs of one store, for those who ask for them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def can_load(self, table: Table) -> bool:
        """Whether the resource has an uploaded file of a format that is loaded."""
        file = file_of(table)
        return file is not None and bool(ending_of(file, table))

    def ask(self, table: Table, by: Actor) -> Future[None]:
        """Have a resource's file loaded into its table; the caller has been asked for the right to change it.

        raises  InvalidParameter ``resource_id`` for a resource without a file that is loaded, or too many jobs
        """
        if not self.can_load(table):
            known = ", ".join(sorted(set(LOADABLE.values())))
            raise InvalidParameter("resource_id", f"The resource has no uploaded file of the formats {known}.")
        if len(self._store.open_jobs(MAX_OPEN)) >= MAX_OPEN:
            raise InvalidParameter("resource_id", f"{MAX_OPEN:,} files wait to be loaded already; try again later.")
        return self._store.put_job(LoadJob(table.id, str(uuid.uuid4()), by=by.name))

    def of(self, table: Table) -> LoadJob | None:
        return self._store.job(table.id)


class JobRunner:
    """Does the jobs, in a thread of its own.

    command  the command that loads a file into a resource's table. It may write lines of JSON to its standard
             output: ``rows``, ``bytes`` and ``of`` as it goes, ``notes`` in the end; other lines are its report. It
             ends with 0 if all went well
    """

    def __init__(self, store: Store, command: Command, *, poll_s: float = POLL_S) -> None:
        self._store = store
        self._command = command
        self._poll_s = poll_s
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="table jobs", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; a job that runs is ended, and waits for the next server."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._poll_s):
            try:
                while self.step() and not self._stop.is_set():
                    pass
            except ThalwegError as error:
                _log.warning("loading of files was put off: %s", error.message)
            except Exception:
                _log.exception("loading of files failed")

    def step(self) -> bool:
        """Do the next job, if there is one and this process leads; whether it did."""
        waiting = self._store.open_jobs()
        if not waiting or not self._store.leads():
            return False
        now_us = time.time_ns() // 1000
        for job in waiting:
            if job.state is JobState.RUNNING and now_us - job.seen_us < STALE_S * 1e6:
                continue
            self._do(job)
            return True
        return False

    def _do(self, job: LoadJob) -> None:
        if job.attempts >= MAX_ATTEMPTS:
            self._end(job, JobState.ERROR, f"The server ended {MAX_ATTEMPTS} times while this file was loaded.")
            return
        job = replace(job, state=JobState.RUNNING, attempts=job.attempts + 1, rows=0, bytes_done=0, message="")
        if not self._store.note_job(job).result():
            return
        table = self._table(job)
        file = file_of(table) if table is not None else None
        if table is None or file is None:
            self._end(job, JobState.ERROR, "The resource has no file any more.")
            return
        job = replace(job, bytes_all=file.size)
        link = self._linked(job, table, file)
        try:
            self._load(job, self._command(link, table))
        finally:
            with suppress(OSError):
                link.unlink()

    def _table(self, job: LoadJob) -> Table | None:
        uuids = self._store.uuid_of_table(job.table_id)
        return None if uuids is None else self._store.table(uuids)

    def _linked(self, job: LoadJob, table: Table, file: StoredFile) -> Path:
        """The file by a name that tells its format, and which is there whatever becomes of the resource."""
        path = self._store.file_path(file.key)
        link = path.parent.parent / "incoming" / f"{job.uuid}.{ending_of(file, table) or 'csv'}"
        link.parent.mkdir(mode=0o700, exist_ok=True)
        with suppress(OSError):
            link.unlink()
        try:
            os.link(path, link)
        except OSError:
            # A file system without hard links.
            os.symlink(path, link)
        return link

    def _load(self, job: LoadJob, command: Sequence[str]) -> None:
        child = [sys.executable, "-m", "thalweg.services.job_child", str(os.getpid()), *command]
        process = subprocess.Popen(child, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        report: deque[str] = deque(maxlen=200)
        told: dict[str, int] = {}
        reader = threading.Thread(target=_read, args=(process.stdout, report, told), daemon=True)
        reader.start()
        begun = time.monotonic()
        try:
            noted = begun
            while process.poll() is None:
                if self._stop.wait(0.05 if time.monotonic() - begun < 2 else 0.25):
                    # It waits for the next server, and this was no fault of its own.
                    self._store.note_job(replace(job, state=JobState.PENDING, attempts=job.attempts - 1)).result()
                    return
                if time.monotonic() - noted >= NOTE_S:
                    noted = time.monotonic()
                    job = _with(job, told)
                    if not self._store.note_job(job).result():
                        # Another file has come in its place.
                        return
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            reader.join(5)
            if process.stdout is not None:
                process.stdout.close()
        job = _with(job, told)
        text = "\n".join(report)[-MAX_MESSAGE:]
        if process.returncode == 0:
            self._end(replace(job, bytes_done=job.bytes_all), JobState.COMPLETE, text)
        else:
            self._end(job, JobState.ERROR, text or f"The loading ended with {process.returncode}.")

    def _end(self, job: LoadJob, state: JobState, message: str) -> None:
        ended = replace(job, state=state, message=message, ended_us=time.time_ns() // 1000)
        self._store.note_job(ended).result()


def _with(job: LoadJob, told: dict[str, int]) -> LoadJob:
    return replace(
        job,
        rows=told.get("rows", job.rows),
        bytes_done=told.get("bytes", job.bytes_done),
        bytes_all=told.get("of", job.bytes_all),
    )


def _read(stream: IO[bytes] | None, report: deque[str], told: dict[str, int]) -> None:
    """Take what a command says until it ends."""
    if stream is None:
        return
    with suppress(ValueError, OSError):
        while line := stream.readline(64 * 1024):
            text = line.decode("utf-8", "replace").rstrip()
            found: Any = None
            if text.startswith("{"):
                with suppress(ValueError):
                    found = json.loads(text)
            if isinstance(found, dict):
                told.update((k, v) for k, v in found.items() if k in ("rows", "bytes", "of") and type(v) is int)
                notes = found.get("notes")
                report.extend(str(note)[:2_000] for note in (notes if isinstance(notes, list) else ()))
            elif text:
                report.append(text[:2_000])
