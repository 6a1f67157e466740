"""Writing and selecting observations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace

import numpy as np

from thalweg.domain.access import Actor
from thalweg.domain.blocks import Block, BoolArray, Column
from thalweg.domain.catalogue import Feature, Procedure, Series, Track
from thalweg.domain.geometry import Geometry
from thalweg.domain.observations import Insertion, LastValue, Receipt, TrackState
from thalweg.domain.selection import ObservationQuery, Selected
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.store import MAX_BLOCK_ROWS, Store
from thalweg.domain.time import ALL_TIME, END_US, Interval
from thalweg.services.places import place_test


class Observe:
    """The observations of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def insert(self, catalogue: Catalogue, insertions: Sequence[Insertion], by: Actor | str) -> Future[list[Receipt]]:
        """Store rows, all or none; see ``ObservationStore.insert``. Whether the caller may is asked before."""
        return self._store.insert(catalogue.workspace.id, insertions, by=by)

    def states(self, tracks: Sequence[Track]) -> dict[int, TrackState]:
        return self._store.states([track.id for track in tracks])

    def select(self, catalogue: Catalogue, query: ObservationQuery) -> list[Selected]:
        """The tracks that can hold what is asked for, each with its rows still to be read, in order of procedure.

        A track of which no row passes is among them, with no blocks. Names are resolved already; nothing raises
        here but the store.
        """
        return self.read(self.choose(catalogue, query), query)

    def choose(self, catalogue: Catalogue, query: ObservationQuery) -> list[Selected]:
        """The first half of ``select``, which no time changes: the tracks, without blocks."""
        chosen: list[Selected] = []
        property_ids = None if query.properties is None else tuple([p.id for p in query.properties])
        features_passed: dict[int, bool] = {}
        places = [place_test(spatial) for spatial in query.spatial]
        for procedure in self._procedures(catalogue, query):
            wanted = catalogue.series_of(procedure, property_ids)
            if not wanted.series:
                continue
            for track in catalogue.tracks_by_procedure.get(procedure.id, ()):
                feature = catalogue.features[track.feature_id]
                passed = features_passed.get(feature.id)
                if passed is None:
                    passed = features_passed[feature.id] = _feature_passes(feature, query, places)
                if passed:
                    chosen.append(
                        Selected(
                            procedure,
                            feature,
                            track,
                            wanted.properties,
                            wanted.series,
                            wanted.units,
                            iter(()),
                        )
                    )
        return chosen

    def read(self, chosen: Iterable[Selected], query: ObservationQuery) -> list[Selected]:
        """The second half of ``select``: copies of what was chosen, with the blocks of the query's times."""
        if query.latest:
            return self._read_latest(list(chosen))
        intervals = None if query.phenomenon is None else union(query.phenomenon)
        return [
            Selected(
                s.procedure, s.feature, s.track, s.properties, s.series, s.units,
                self._first(s.track, s.series) if query.first else self._scan(s, intervals, query),
            )
            for s in chosen
        ]  # fmt: skip

    def _read_latest(self, chosen: list[Selected]) -> list[Selected]:
        states = self._store.states([s.track.id for s in chosen])
        return [
            replace(s, blocks=_latest(states[s.track.id], s.series) if s.track.id in states else iter(()))
            for s in chosen
        ]

    @staticmethod
    def _procedures(catalogue: Catalogue, query: ObservationQuery) -> Iterator[Procedure]:
        wanted = catalogue.procedures.values() if query.procedures is None else query.procedures
        if query.offerings is None:
            yield from wanted
            return
        offerings = [catalogue.members(offering) for offering in query.offerings]
        for procedure in wanted:
            if any(procedure.id in members for members in offerings):
                yield procedure

    def _scan(
        self, selected: Selected, phenomenon: tuple[Interval, ...] | None, query: ObservationQuery
    ) -> Iterator[Block]:
        result = query.result
        ids = [s.property_id for s in selected.series]
        for interval in (ALL_TIME,) if phenomenon is None else phenomenon:
            for block in self._store.scan(selected.track.id, ids, interval):
                mask: BoolArray | None = None
                if block.begin is not None and phenomenon is not None:
                    mask = block.begin >= interval.begin_us - query.half_open
                if result is not None:
                    times = block.end if block.result_time is None else block.result_time
                    inside = np.zeros(len(block), np.bool_)
                    for part in result:
                        inside |= (times >= part.begin_us) & (times < part.end_us)
                    mask = inside if mask is None else mask & inside
                if mask is None or mask.all():
                    yield block
                elif mask.any():
                    yield block.take(mask)

    def _first(self, track: Track, series: tuple[Series, ...]) -> Iterator[Block]:
        cells = [(item, cell) for item in series if (cell := self._first_value(track, item)) is not None]
        return _rows_of_cells(cells, series)

    def _first_value(self, track: Track, item: Series) -> LastValue | None:
        # Nearly always the first row has a value; those of a mobile procedure may hold positions alone.
        for rows in (1, MAX_BLOCK_ROWS):
            for block in self._store.scan(track.id, [item.property_id], rows=rows):
                column = block.columns[item.property_id]
                row = 0 if column.valid is None else int(column.valid.argmax())
                if column.valid is None or column.valid[row]:
                    end, begin, result = block.key(row)
                    return LastValue(
                        end, begin, result, column.values[row : row + 1].tolist()[0], int(column.quality[row])
                    )
                if rows == 1:
                    break
        return None


def union(intervals: Sequence[Interval]) -> tuple[Interval, ...]:
    """The same instants as sorted, disjoint, non-empty intervals."""
    if len(intervals) == 1 and not intervals[0].is_empty:  # nearly always
        return (intervals[0],)
    merged: list[Interval] = []
    for interval in sorted(intervals, key=lambda i: i.begin_us):
        if interval.is_empty:
            continue
        if merged and interval.begin_us <= merged[-1].end_us:
            merged[-1] = Interval(merged[-1].begin_us, max(merged[-1].end_us, interval.end_us))
        else:
            merged.append(interval)
    return tuple(merged)


def closed(begin_us: int, end_us: int) -> Interval:
    """Both ends belong to it (SOS 2.0)."""
    return Interval(begin_us, min(end_us + 1, END_US))


def open_begin(begin_us: int, end_us: int) -> Interval:
    """(begin, end] (SOS 1.0 as istSOS reads it)."""
    return Interval(begin_us + 1, min(end_us + 1, END_US))


def _feature_passes(
    feature: Feature, query: ObservationQuery, places: Sequence[Callable[[Geometry | None], bool]]
) -> bool:
    if query.features is not None and all(feature.id != f.id for f in query.features):
        return False
    return all(test(feature.geometry) for test in places)


def _latest(state: TrackState, series: tuple[Series, ...]) -> Iterator[Block]:
    cells = [(s, state.series[s.property_id].last) for s in series if s.property_id in state.series]
    return _rows_of_cells(cells, series, state)


def _rows_of_cells(
    cells: Sequence[tuple[Series, LastValue]], series: tuple[Series, ...], state: TrackState | None = None
) -> Iterator[Block]:
    """One block of the rows that the cells lie in; each row holds just those cells."""
    if not cells:
        return
    keys = sorted({(c.end_us, c.begin_us, c.result_us) for _, c in cells})
    place = {key: row for row, key in enumerate(keys)}
    items: dict[int, list[object]] = {s.property_id: [None] * len(keys) for s in series}
    quality: dict[int, list[int]] = {s.property_id: [100] * len(keys) for s in series}
    for item, cell in cells:
        row = place[cell.end_us, cell.begin_us, cell.result_us]
        items[item.property_id][row] = cell.value
        quality[item.property_id][row] = cell.quality
    table = np.array(keys, np.int64)
    end, begin, result = table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy()
    position = None
    if state is not None and state.position is not None:
        position = np.full((len(keys), 3), np.nan)
        if keys[-1][0] == state.end_us:
            position[-1] = state.position
    yield Block(
        end,
        {s.property_id: Column.of(s.kind, items[s.property_id], quality[s.property_id]) for s in series},
        begin=None if np.array_equal(begin, end) else begin,
        result_time=None if np.array_equal(result, end) else result,
        position=position,
    )
