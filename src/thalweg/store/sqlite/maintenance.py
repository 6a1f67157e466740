"""Background work and what operators ask: checkpoints, sealing, sizes."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import apsw

from thalweg.domain.errors import DamagedData, ThalwegError
from thalweg.domain.store import StoreFigures, StoreInfo
from thalweg.store.codec.chunk import part_sizes
from thalweg.store.sqlite.connection import BUSY_MS, PAGE_BYTES, Readers, connect, domain_error
from thalweg.store.sqlite.files import RESERVE_BYTES, Reserve, StoreFiles
from thalweg.store.sqlite.layers import REMOVALS, removal_step
from thalweg.store.sqlite.lease import Lease
from thalweg.store.sqlite.repeated import RepeatedLog
from thalweg.store.sqlite.sealing import ALL_TRACKS, DUE_ROWS, DUE_TRACKS, IDLE_ROWS, IDLE_US, seal_step
from thalweg.store.sqlite.states import unpack_series
from thalweg.store.sqlite.table_drafts import LEFT, LEFT_AFTER_US, discard
from thalweg.store.sqlite.table_shape import REMOVALS as TABLE_REMOVALS
from thalweg.store.sqlite.table_shape import removal_step as table_removal_step
from thalweg.store.sqlite.writer import Transaction, Writer

SWEEP_S: Final = 5.0
"""How often due tracks are looked for while something is written; IDLE_SWEEP_S: otherwise."""
IDLE_SWEEP_S: Final = 60.0
ROUND_S: Final = 0.25
"""A round of background work seals no longer than this, so that it spreads over time."""
MAX_DUE: Final = 1000
RELIEF_PAGES: Final = (32 << 20) // PAGE_BYTES
"""A write-ahead log of so many pages (32 MiB) is made to start anew while no process writes."""
RESTART_WAIT_MS: Final = 50
"""Longest wait for readers in the log then; writers wait with it. A long one (a back-up) puts it off."""

BEHIND_BYTES: Final = 1 << 30
"""A write-ahead log of so many bytes says that checkpoints do not keep up: writers help from a quarter of it on."""
QUIET_WAL_BYTES: Final = 4 << 20
"""Length of the write-ahead log's file that is left alone in quiet times."""

_log = logging.getLogger(__name__)
_repeated = RepeatedLog(_log)

COUNTS: Final = """
    SELECT (SELECT count(*) FROM workspace), (SELECT count(*) FROM procedure), (SELECT count(*) FROM track),
           (SELECT coalesce(sum(rows), 0) FROM track_state), (SELECT count(*) FROM chunk),
           (SELECT coalesce(sum(tail_rows), 0) FROM track_state), (SELECT count(*) FROM layer),
           (SELECT coalesce(sum(s.count), 0) FROM layer l JOIN layer_state s ON s.layer_id = l.id)"""
STREAM_COUNTS: Final = """
    SELECT count(*), coalesce(sum(members), 0), coalesce(sum(size_bytes), 0), (SELECT count(*) FROM stream_view)
    FROM stream_state"""
TABLE_COUNTS: Final = """
    SELECT (SELECT count(*) FROM package), count(*), coalesce(sum(s.count), 0)
    FROM package_resource r JOIN table_state s ON s.table_id = r.id WHERE r.active"""
FIGURES: Final = "SELECT count(*), coalesce(sum(rows), 0), coalesce(sum(tail_rows), 0) FROM track_state"
FEW_FIGURES: Final = """
    SELECT (SELECT count(*) FROM procedure), (SELECT value FROM counter WHERE name = 'reopened'),
           (SELECT count(*) FROM layer),
           (SELECT coalesce(sum(s.count), 0) FROM layer l JOIN layer_state s ON s.layer_id = l.id)"""
ACCESS: Final = "SELECT value FROM counter WHERE name = 'access'"
PACKED_STATES: Final = "SELECT track_id, series FROM track_state WHERE track_id > ? ORDER BY track_id LIMIT 1000"
PROPERTIES: Final = "SELECT id, identifier FROM observed_property"
BLOCKS: Final = "SELECT id, block FROM chunk WHERE id > ? ORDER BY id LIMIT 500"

_Removal: TypeAlias = Callable[[Transaction], bool]
"""A step of removing; whether there is more to do."""


class Maintenance:
    """Background work of one process; what it does is the lease holder's alone."""

    def __init__(self, files: StoreFiles, readers: Readers, writer: Writer) -> None:
        self._files = files
        self._readers = readers
        self._writer = writer
        self._reserve = Reserve(files.reserve)
        self.lease = Lease(readers, writer, "maintenance")
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._checkpointed_version = -1
        self._may_truncate = False
        self._swept_version = -1
        self._looked_version = -1
        self._swept_s = -IDLE_SWEEP_S
        self._damaged: set[int] = set()

    # -------------------------------------------------------------- rounds

    def round(self) -> None:
        """One round, if there is something to do and this process holds or gets the lease."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._round()
        except ThalwegError as error:
            _repeated.log(logging.WARNING, "background work was put off: %s", error.message)
        finally:
            self._lock.release()

    def _round(self) -> None:
        version = self._version()
        due = self._due(version)
        gone = self._gone(version)
        if not due and not gone and version == self._checkpointed_version:
            if self._may_truncate and _size(self._files.beside("-wal")) > QUIET_WAL_BYTES:
                # Nothing was written since the last round: the log need not keep the length of its busiest hour.
                self._writer.submit_alone(_truncate_log).result()
            self._may_truncate = False
            return
        if not self.lease.hold():
            # Another process does it: nothing to do here until something is written again.
            self._checkpointed_version = version
            self._may_truncate = False
            return
        stop_s = time.monotonic() + ROUND_S
        for track_id in due:
            if time.monotonic() > stop_s:
                # More of it in the next round.
                self._swept_s = -IDLE_SWEEP_S
                break
            self.seal_track(track_id, everything=False)
        self._remove(gone, stop_s)
        self._reserve.keep()
        version = self._version()
        if self._checkpoint():
            self._checkpointed_version = version
            self._may_truncate = True

    def _due(self, version: int) -> list[int]:
        """Tracks that are to be sealed, now and then looked for."""
        waited_s = time.monotonic() - self._swept_s
        if waited_s < (SWEEP_S if version != self._swept_version else IDLE_SWEEP_S):
            return []
        self._swept_s, self._swept_version = time.monotonic(), version
        return [track_id for track_id in self._due_tracks() if track_id not in self._damaged]

    def _gone(self, version: int) -> list[_Removal]:
        """What removes rows of layers and records of tables that are gone for readers, looked for when something was
        written."""
        if version == self._looked_version:
            return []
        self._looked_version = version
        layers = [partial(removal_step, layer_id=layer_id) for (layer_id,) in self._readers.rows(REMOVALS)]
        tables = [
            partial(table_removal_step, part=part, table_id=table_id)
            for part, table_id in self._readers.rows(TABLE_REMOVALS)
        ]
        left_us = time.time_ns() // 1000 - LEFT_AFTER_US
        drafts = [partial(discard, part=part) for (part,) in self._readers.rows(LEFT, (left_us,))]
        return [*layers, *tables, *drafts]

    def _remove(self, removals: list[_Removal], stop_s: float) -> None:
        for step in removals:
            while self._writer.submit(step, frees_space=True).result():
                self.relieve()
                if time.monotonic() > stop_s:
                    # More of it in the next round, which the steps' own commits bring about.
                    return

    def _due_tracks(self) -> list[int]:
        idle_since_us = time.time_ns() // 1000 - IDLE_US
        rows = self._readers.rows(DUE_TRACKS, (DUE_ROWS, IDLE_ROWS, idle_since_us, MAX_DUE))
        return [track_id for (track_id,) in rows]

    # -------------------------------------------------------------- sealing

    def seal(self, track_id: int | None, *, everything: bool) -> int:
        """See ``ObservationStore.seal``."""
        if track_id is not None:
            return self.seal_track(track_id, everything=everything, tolerant=False)
        if everything:
            tracks = [track_id for (track_id,) in self._readers.rows(ALL_TRACKS)]
        else:
            tracks = self._due_tracks()
        return sum(self.seal_track(track_id, everything=everything) for track_id in tracks)

    def seal_track(self, track_id: int, *, everything: bool, tolerant: bool = True) -> int:
        """Seal a track in bounded transactions; the rows sealed.

        tolerant  a damaged chunk is logged, and the track left as it is
        """
        sealed = 0
        while True:
            try:
                rows, more = self._writer.submit(lambda tx: seal_step(tx, track_id, everything=everything)).result()
            except DamagedData as error:
                if not tolerant:
                    raise
                self._damaged.add(track_id)
                _log.error("track %d is not sealed: %s", track_id, error.message)
                return sealed
            sealed += rows
            self.relieve()
            if not more:
                return sealed

    # -------------------------------------------------------------- checkpoints

    def relieve(self) -> None:
        """Shorten the write-ahead log in the middle of long work of this process."""
        if self._writer.wal_pages > RELIEF_PAGES and self._lock.acquire(blocking=False):
            try:
                if self.lease.hold():
                    self._checkpoint()
            finally:
                self._lock.release()

    def _checkpoint(self) -> bool:
        """Copy the log into the database; says whether all of it was."""
        connection = self._connect()
        try:
            pages, copied = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.BusyError:
            return False
        except apsw.Error as error:
            raise domain_error(error) from error
        if pages > RELIEF_PAGES:
            # Writers were faster, or a reader was in the log when it could have started anew. What is left is short.
            return self._writer.submit_alone(_restart_log).result()
        return bool(copied == pages)

    def _version(self) -> int:
        """A number that changes with every commit of any process."""
        try:
            return int(self._connect().pragma("data_version"))
        except apsw.Error as error:
            raise domain_error(error) from error

    def _connect(self) -> apsw.Connection:
        if self._connection is None:
            try:
                self._connection = connect(self._files.database, writer=True)
            except apsw.Error as error:
                raise domain_error(error) from error
        return self._connection

    def leave(self) -> None:
        """Give up the lease and, unless another process has it, the length of the write-ahead log.

        SQLite empties the log when the last connection is closed, but not if processes close theirs at the same
        moment, as workers do that are stopped together.
        """
        try:
            if self._writer.submit(self.lease.release).result():
                self._writer.submit_alone(_truncate_log).result()
        except ThalwegError as error:
            # The lease expires by itself, and the log is read at the next start.
            _log.warning("the write-ahead log is not shortened at the end: %s", error.message)

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close(True)
                self._connection = None

    # -------------------------------------------------------------- health

    def problems(self, timeout_s: float) -> list[str]:
        """See ``MaintenanceStore.problems``."""
        found = []
        try:
            self._readers.rows(ACCESS)
        except ThalwegError:
            return ["it cannot be read"]
        try:
            # Takes the lock and a transaction, and writes nothing.
            self._writer.submit(lambda tx: None).result(timeout_s)
        except ThalwegError as error:
            _repeated.log(logging.WARNING, "the store cannot be written: %s", error.message)
            found.append("it cannot be written")
        except TimeoutError:
            found.append(f"a write takes longer than {timeout_s:g} s")
        if not self._reserve.is_there and self._free_bytes() < RESERVE_BYTES:
            found.append("its disk is full")
        if _size(self._files.beside("-wal")) > BEHIND_BYTES:
            found.append("background work is behind")
        return found

    def figures(self) -> StoreFigures:
        """See ``MaintenanceStore.figures``."""
        ((tracks, rows, tail_rows),) = self._readers.rows(FIGURES)
        ((procedures, reopened, layers, features),) = self._readers.rows(FEW_FIGURES)
        return StoreFigures(
            tracks=tracks,
            rows=rows,
            tail_rows=tail_rows,
            procedures=procedures,
            layers=layers,
            features=features,
            size_bytes=_size(self._files.database),
            log_bytes=_size(self._files.beside("-wal")),
            free_bytes=self._free_bytes(),
            reserve=self._reserve.is_there,
            reopened=reopened,
        )

    def _free_bytes(self) -> int:
        try:
            return shutil.disk_usage(self._files.database.parent).free
        except OSError:
            return 0

    # -------------------------------------------------------------- sizes

    def info(self, url: str, epoch: str) -> StoreInfo:
        """See ``MaintenanceStore.info``; reads every chunk. Raises DamagedData."""
        ((workspaces, procedures, tracks, rows, chunks, tail_rows, layers, features),) = self._readers.rows(COUNTS)
        values = 0
        after = 0
        while states := self._readers.rows(PACKED_STATES, (after,)):
            after = states[-1][0]
            values += sum(cells.count for _, packed in states for cells in unpack_series(packed).values())
        identifiers: dict[int, str] = dict(self._readers.rows(PROPERTIES))
        parts: dict[str, int] = {}
        after = 0
        while blocks := self._readers.rows(BLOCKS, (after,)):
            after = blocks[-1][0]
            for _, block in blocks:
                for part, size in part_sizes(block).items():
                    word, _, number = part.partition(" ")
                    name = f"{word} {identifiers.get(int(number), number)}" if number else word
                    parts[name] = parts.get(name, 0) + size
        ((streams, members, member_bytes, views),) = self._readers.rows(STREAM_COUNTS)
        ((packages, tables, records),) = self._readers.rows(TABLE_COUNTS)
        if member_bytes:
            parts["members"] = member_bytes
        return StoreInfo(
            url=url,
            epoch=epoch,
            format_version=int(self._readers.rows("PRAGMA user_version")[0][0]),
            size_bytes=sum(_size(self._files.beside(suffix)) for suffix in ("", "-wal")),
            workspaces=workspaces,
            procedures=procedures,
            layers=layers,
            features=features,
            tracks=tracks,
            rows=rows,
            values=values,
            chunks=chunks,
            tail_rows=tail_rows,
            bytes_per_part=dict(sorted(parts.items())),
            event_streams=streams,
            members=members,
            views=views,
            packages=packages,
            tables=tables,
            records=records,
        )


def _restart_log(connection: apsw.Connection) -> bool:
    return _start_anew(connection, apsw.SQLITE_CHECKPOINT_RESTART)


def _truncate_log(connection: apsw.Connection) -> bool:
    return _start_anew(connection, apsw.SQLITE_CHECKPOINT_TRUNCATE)


def _start_anew(connection: apsw.Connection, mode: int) -> bool:
    """Copy all of the log and have the next commit begin it anew; False if readers did not leave it in time."""
    connection.set_busy_timeout(RESTART_WAIT_MS)
    try:
        connection.wal_checkpoint(mode=mode)
    except apsw.BusyError:
        return False
    finally:
        connection.set_busy_timeout(BUSY_MS)
    return True


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
