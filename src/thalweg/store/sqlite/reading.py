"""Observations as they are read: scans, maintained states, extents, the change log."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import orjson

from thalweg.domain.blocks import Block
from thalweg.domain.bounded import Bounded
from thalweg.domain.errors import DamagedData
from thalweg.domain.observations import Change, ChangeKind, TrackState
from thalweg.domain.store import MAX_BLOCK_ROWS, Extent
from thalweg.domain.time import ALL_TIME, DAY_US, END_US, MIN_US, Interval
from thalweg.store.sqlite.catalogue import GENERATION
from thalweg.store.sqlite.changes import decode_side
from thalweg.store.sqlite.connection import Readers, Row
from thalweg.store.sqlite.ranges import Kinds, finished, key_after, key_before, kinds_of, named, read_short, walk
from thalweg.store.sqlite.states import track_state

STATE: Final = """
    SELECT begin_us, end_us, rows, generation, position, series FROM track_state WHERE track_id = ?"""
GENERATIONS: Final = """
    SELECT track_id, generation FROM track_state WHERE track_id IN (SELECT value FROM json_each(?))"""
STATES: Final = """
    SELECT track_id, begin_us, end_us, rows, generation, position, series
    FROM track_state WHERE track_id IN (SELECT value FROM json_each(?))"""
COMMIT: Final = "SELECT value FROM counter WHERE name = 'commit'"
# CROSS JOIN keeps the order: the few states that changed first, then their tracks.
EXTENTS: Final = """
    SELECT t.procedure_id, s.track_id, s.begin_us, s.end_us, s.rows
    FROM track_state s CROSS JOIN track t ON t.id = s.track_id WHERE s.generation > ? AND t.workspace_id = ?"""
GONE_PROCEDURES: Final = """
    SELECT entity_id FROM deletion WHERE workspace_id = ? AND generation > ? AND kind = 'procedure'"""
CHANGES: Final = """
    SELECT sequence, kind, at_us, by, before, after FROM change
    WHERE track_id = ? AND sequence > ? ORDER BY sequence LIMIT ?"""

SHORT_US: Final = 32 * DAY_US
"""Intervals up to this are tried in one statement first."""
MAX_PLANS: Final = 50_000
MAX_KNOWN_STATES: Final = 20_000


class ObservationReader:
    """Reads observations for any thread."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._plans: Bounded[tuple[int, tuple[int, ...]], tuple[list[int], Kinds]] = Bounded(MAX_PLANS)
        self._states: Bounded[int, TrackState] = Bounded(MAX_KNOWN_STATES)
        self._extents: dict[int, _Extents] = {}
        self._lock = threading.Lock()

    # -------------------------------------------------------------- scans

    def scan(
        self,
        track_id: int,
        property_ids: Sequence[int],
        interval: Interval = ALL_TIME,
        *,
        descending: bool = False,
        rows: int = MAX_BLOCK_ROWS,
    ) -> Iterator[Block]:
        """See ``ObservationStore.scan``."""
        if rows < 1:
            raise ValueError(f"a block holds at least one row, not {rows}")
        rows = min(rows, MAX_BLOCK_ROWS)
        begin_us, end_us = max(interval.begin_us, MIN_US), min(interval.end_us, END_US)
        if end_us <= begin_us:
            return
        plan = self._plans.get((track_id, tuple(property_ids)))
        wanted, kinds = self._plan(track_id, property_ids) if plan is None else plan
        if not kinds:
            return
        if end_us - begin_us <= SHORT_US:
            block = read_short(self._readers.mine().rows, track_id, wanted, kinds, begin_us, end_us, rows)
            if block is not None:
                if len(block):
                    block = finished(block, wanted, kinds)
                    if len(block):
                        yield block.take(slice(None, None, -1)) if descending else block
                return
        query = self._readers.rows
        low, high = key_after(begin_us - 1), key_before(end_us)
        for block in walk(query, self._snapshot, track_id, wanted, kinds, low, high, descending=descending, rows=rows):
            yield block.take(slice(None, None, -1)) if descending else block

    def _snapshot(self) -> AbstractContextManager[None]:
        return self._readers.mine().snapshot()

    def _plan(self, track_id: int, property_ids: Sequence[int]) -> tuple[list[int], Kinds]:
        """The columns that a scan gives, and the kinds of value of the procedure's series; those empty for an unknown
        track.

        Series are only ever appended and ids never given twice, so a plan stays true; one with a property that the
        procedure does not have is not kept, as it may get it.
        """
        kinds = kinds_of(self._readers.rows, track_id)
        wanted = [key for key in dict.fromkeys(property_ids) if key in kinds]
        if kinds and all(key in kinds for key in property_ids):
            self._plans.put((track_id, tuple(property_ids)), (wanted, kinds))
        return wanted, kinds

    # -------------------------------------------------------------- what is maintained

    def states(self, track_ids: Iterable[int]) -> dict[int, TrackState]:
        """See ``ObservationStore.states``; in the order asked for. Given out again while unchanged: not to be
        written to."""
        ids = list(dict.fromkeys(track_ids))
        query = self._readers.rows
        if len(ids) == 1:
            rows = query(STATE, (ids[0],))
            return {ids[0]: self._state(ids[0], rows[0])} if rows else {}
        states: dict[int, TrackState] = {}
        changed: list[int] = []
        for key, generation in query(GENERATIONS, (orjson.dumps(ids).decode(),)):
            state = self._states.get(key)
            if state is not None and state.generation == generation:
                states[key] = state
            else:
                changed.append(key)
        if changed:
            for key, *row in query(STATES, (orjson.dumps(changed).decode(),)):
                states[key] = self._state(key, row)
        return {key: states[key] for key in ids if key in states}

    def _state(self, track_id: int, row: Sequence[Any]) -> TrackState:
        """The state that a row of STATE tells. Raises DamagedData that names it.

        A generation is the number of a commit, never given twice: with the same one the state is the same.
        """
        state = self._states.get(track_id)
        if state is None or state.generation != row[3]:
            try:
                state = track_state(track_id, row)
            except DamagedData as error:
                raise named(self._readers.rows, track_id, "the maintained state", error) from error
            self._states.put(track_id, state)
        return state

    def extents(self, workspace_id: int) -> dict[int, Extent]:
        """See ``ObservationStore.extents``. The same dictionary until something changes: not to be written to."""
        reader = self._readers.mine()
        ((commit,),) = reader.rows(COMMIT)
        generations = reader.rows(GENERATION, (workspace_id,))
        generation = generations[0][0] if generations else 0
        known = self._extents.get(workspace_id)
        if known is not None and known.commit == commit and known.generation == generation:
            return known.by_procedure
        with self._lock:
            with reader.snapshot():
                known = self._extents.get(workspace_id)
                ((commit,),) = reader.rows(COMMIT)
                generations = reader.rows(GENERATION, (workspace_id,))
                generation = generations[0][0] if generations else 0
                since = -1 if known is None else known.commit
                changed = reader.rows(EXTENTS, (since, workspace_id))
                gone: list[int] = []
                if known is not None and known.generation != generation:
                    gone = [key for (key,) in reader.rows(GONE_PROCEDURES, (workspace_id, known.generation))]
            known = _Extents(commit, generation, known)
            known.take(changed, gone)
            self._extents[workspace_id] = known
        return known.by_procedure

    # -------------------------------------------------------------- the change log

    def changes(self, track_id: int, after: int = 0, *, limit: int = 1000) -> list[Change]:
        """See ``ObservationStore.changes``."""
        query = self._readers.rows
        kinds = kinds_of(query, track_id)
        return [
            Change(
                track_id, sequence, ChangeKind(kind), at_us, by,
                decode_side(query, track_id, sequence, before, kinds),
                decode_side(query, track_id, sequence, later, kinds),
            )
            for sequence, kind, at_us, by, before, later in query(CHANGES, (track_id, after, max(limit, 0)))
        ]  # fmt: skip


class _Extents:
    """Extents of a workspace at one commit and generation."""

    __slots__ = ("_tracks", "by_procedure", "commit", "generation")

    def __init__(self, commit: int, generation: int, before: _Extents | None) -> None:
        self.commit = commit
        self.generation = generation
        self.by_procedure: dict[int, Extent] = {} if before is None else before.by_procedure
        self._tracks: dict[int, dict[int, Extent]] = {} if before is None else before._tracks

    def take(self, changed: Sequence[Row], gone: Sequence[int]) -> None:
        """Take over states that have changed, and drop procedures that are gone."""
        if not changed and not gone:
            return
        # The one before is in use: copied, never written to.
        self.by_procedure = dict(self.by_procedure)
        for procedure_id, track_id, begin_us, end_us, rows in changed:
            self._tracks.setdefault(procedure_id, {})[track_id] = Extent(begin_us, end_us, rows)
        for procedure_id in gone:
            self._tracks.pop(procedure_id, None)
            self.by_procedure.pop(procedure_id, None)
        for procedure_id in {row[0] for row in changed}:
            extents = [e for e in self._tracks[procedure_id].values() if e.rows]
            if extents:
                self.by_procedure[procedure_id] = Extent(
                    min(e.begin_us for e in extents if e.begin_us is not None),
                    max(e.end_us for e in extents if e.end_us is not None),
                    sum(e.rows for e in extents),
                )
            else:
                self.by_procedure.pop(procedure_id, None)
