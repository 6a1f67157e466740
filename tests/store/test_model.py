"""Random sequences of inserts, corrections, deletions, sealing, loading and reopening against a plain dictionary.

After every step all that can be read equals what the dictionary says, bit for bit.
"""

from __future__ import annotations

import shutil
import struct
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.store.support import (
    BACKENDS,
    EVERY_KIND,
    STEP,
    T0,
    WAIT_S,
    Key,
    Station,
    bits,
    block,
    insertion,
    kinds_of,
    register,
    rows_of,
    scan,
    series,
)

from thalweg.domain.blocks import Block, ValueKind
from thalweg.domain.catalogue import ProcedureKind
from thalweg.domain.errors import AlreadyExists
from thalweg.domain.observations import Change, ChangeKind, LastValue, OnDuplicate, Receipt, SeriesState, TrackState
from thalweg.domain.store import Extent, Store
from thalweg.domain.time import ALL_TIME, DAY_US, END_US, MIN_US, Interval

REFUSE, SKIP, REPLACE = OnDuplicate.REFUSE, OnDuplicate.SKIP, OnDuplicate.REPLACE

VALUES: dict[ValueKind, st.SearchStrategy[Any]] = {
    ValueKind.NUMBER: st.one_of(
        st.integers(-50, 400).map(lambda i: i / 10),
        st.sampled_from([-0.0, 0.0, 5e-324, 1e300, 0.1 + 0.2, 2.0**53, -999.9]),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    ValueKind.INTEGER: st.one_of(st.integers(-3, 3), st.sampled_from([2**53 + 1, 2**63 - 1, -(2**63)])),
    ValueKind.TEXT: st.sampled_from(["", "rain", "é🌧", "a\t", "x" * 300]),
    ValueKind.BOOLEAN: st.booleans(),
}
# Few different times, so that rows meet; some in other windows, some far away.
ENDS = st.one_of(
    st.integers(0, 12).map(lambda i: T0 + i * STEP),
    st.integers(0, 12).map(lambda i: T0 + i * STEP),
    st.builds(lambda week, i: T0 + week * 7 * DAY_US + i * STEP, st.integers(-3, 3), st.integers(0, 3)),
    st.sampled_from([MIN_US, END_US - 1, T0 - 1, T0 + 1, 4_102_444_800_000_000]),
)
BEFORE = st.sampled_from([0, 0, 0, 0, STEP, 9 * DAY_US])
AFTER = st.sampled_from([0, 0, 0, 0, -STEP, STEP, 3 * DAY_US])
QUALITIES = st.sampled_from([100, 100, 100, 0, 110, 32767, -1])


@st.composite
def keys(draw: st.DrawFn) -> list[Key]:
    """Sorted unique keys: instants, a run of them, or intervals and forecasts."""
    form = draw(st.sampled_from(["few", "run", "full"]))
    if form == "run":
        start, n = draw(ENDS), draw(st.integers(2, 40))
        return [(e,) * 3 for e in range(start, min(start + n * STEP, END_US), STEP)]
    ends = draw(st.sets(ENDS, min_size=1, max_size=4))
    if form == "few":
        return [(e,) * 3 for e in sorted(ends)]
    found = set()
    for end in ends:
        for _ in range(draw(st.integers(1, 3))):
            begin, result = max(MIN_US, end - draw(BEFORE)), end + draw(AFTER)
            found.add((end, begin, min(max(result, MIN_US), END_US - 1)))
    return sorted(found)


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    begin, end = sorted((draw(ENDS), draw(ENDS)))
    return draw(st.sampled_from([Interval(begin, end), Interval(begin, end + 1), Interval(begin + 1, end), ALL_TIME]))


@dataclass
class ModelRow:
    """A row of the model: cells as (value, quality) by property, and where it was."""

    cells: dict[int, tuple[Any, int]] = field(default_factory=dict)
    place: tuple[float, float, float] | None = None

    def plain(self) -> tuple[dict[int, tuple[Any, int]], bytes | None]:
        return (
            {key: (bits(value), quality) for key, (value, quality) in self.cells.items()},
            None if self.place is None else struct.pack("<3d", *self.place),
        )


Track = dict[Key, ModelRow]
Told = dict[tuple[Key, int], tuple[Any, int]]
"""Cells as the change log tells them."""


def place_of(key: Key) -> tuple[float, float, float]:
    """Where the boat is at a time: the same however often it is told."""
    return (key[0] % 997) / 7, -0.0 if key[0] % 2 else 46.5, float(key[2] % 13)


def told(changes: list[Change], kind: ChangeKind) -> tuple[Told, Told]:
    """All cells before and after, of the entries of one kind."""
    before: Told = {}
    after: Told = {}
    for change in changes:
        if change.kind is kind:
            for target, found in ((before, change.before), (after, change.after)):
                for key, cells, _ in rows_of(found):
                    for p, cell in cells.items():
                        assert (key, p) not in target, "a cell told twice"
                        target[key, p] = cell
    return before, after


class StoreMachine(RuleBasedStateMachine):
    """The store beside its model. Subclassed per back end."""

    backend_name: str

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="thalweg-model-"))
        self.backend = BACKENDS[self.backend_name](self.folder)
        self.store: Store = self.backend.open()
        fixed = register(self.store, "FIXED", EVERY_KIND, places=2)
        mobile = register(
            self.store, "BOAT", [series("air:temperature"), series("depth", "m")], kind=ProcedureKind.MOBILE
        )
        other = self.backend.open()
        self.stores = [self.store, other]
        self.stations: list[tuple[Station, int]] = [(fixed, 0), (fixed, 1), (mobile, 0)]
        self.model: list[Track] = [{}, {}, {}]
        self.logged = [0, 0, 0]
        self.ends: list[int | None] = [None, None, None]

    def teardown(self) -> None:
        if hasattr(self, "backend"):
            try:
                assert list(self.store.check()) == []
            finally:
                self.backend.close()
                shutil.rmtree(self.folder)

    # -------------------------------------------------------------- building and expecting

    def build(self, data: st.DataObject, number: int) -> tuple[Block, list[tuple[Key, dict[int, tuple[Any, int]]]]]:
        """A random block for a track, and its valid cells by row."""
        station, _ = self.stations[number]
        rows = data.draw(keys(), label="keys")
        kinds = kinds_of(station)
        chosen = data.draw(st.lists(st.sampled_from(station.ids), min_size=1, unique=True), label="properties")
        mobile = station.procedure.kind is ProcedureKind.MOBILE
        columns, qualities = {}, {}
        for key in chosen:
            cell = VALUES[kinds[key]] if data.draw(st.booleans()) else st.none() | VALUES[kinds[key]]
            columns[key] = data.draw(st.lists(cell, min_size=len(rows), max_size=len(rows)), label=f"values {key}")
            qualities[key] = data.draw(QUALITIES, label="quality")
        made = block(
            [k[0] for k in rows],
            columns,
            kinds=kinds,
            begins=None if all(k[1] == k[0] for k in rows) else [k[1] for k in rows],
            results=None if all(k[2] == k[0] for k in rows) else [k[2] for k in rows],
            positions=[place_of(k) for k in rows] if mobile else None,
        )
        for key, quality in qualities.items():
            made.columns[key].quality = made.columns[key].quality.copy()
            made.columns[key].quality[:] = quality
        cells = [
            (k, {p: (items[i], qualities[p]) for p, items in columns.items() if items[i] is not None})
            for i, k in enumerate(rows)
        ]
        return made, [(k, c) for k, c in cells if c or mobile]

    def end_of(self, number: int) -> int | None:
        """The greatest end that the track ever had: rows up to it are late, also where rows were deleted."""
        ends = [key[0] for key in self.model[number]]
        ends += [end for end in (self.ends[number],) if end is not None]
        self.ends[number] = max(ends, default=None)
        return self.ends[number]

    def expect(
        self, number: int, cells: list[tuple[Key, dict[int, tuple[Any, int]]]], policy: OnDuplicate
    ) -> tuple[Receipt, int, Told, Told, Told]:
        """Apply an insert to the model: (receipt with only differing cells counted as replaced, cells replaced in
        all, late cells, corrected cells before and after)."""
        station, place = self.stations[number]
        track = self.model[number]
        end = self.end_of(number)
        rows = added = replaced = equal = skipped = conflicting = 0
        late: Told = {}
        before: Told = {}
        after: Told = {}
        mobile = station.procedure.kind is ProcedureKind.MOBILE
        for key, row_cells in cells:
            row = track.get(key)
            if row is None:
                row = track[key] = ModelRow(place=place_of(key) if mobile else None)
                rows += 1
            for p, (value, quality) in row_cells.items():
                new = (bits(value), quality)
                if p not in row.cells:
                    added += 1
                    row.cells[p] = (value, quality)
                    if end is not None and key[0] <= end:
                        late[key, p] = new
                    continue
                old = (bits(row.cells[p][0]), row.cells[p][1])
                if policy is SKIP:
                    skipped += 1
                    conflicting += old != new
                elif old == new:
                    equal += 1
                else:
                    replaced += 1
                    before[key, p], after[key, p] = old, new
                    row.cells[p] = (value, quality)
        receipt = Receipt(station.tracks[place], rows, added, replaced, skipped, conflicting)
        return receipt, replaced + equal, late, before, after

    def new_changes(self, number: int) -> list[Change]:
        station, place = self.stations[number]
        found = self.store.changes(station.tracks[place], self.logged[number], limit=100_000)
        assert [c.sequence for c in found] == list(range(self.logged[number] + 1, self.logged[number] + 1 + len(found)))
        self.logged[number] += len(found)
        assert all(c.by == "model" for c in found)
        return found

    def compare_receipt(self, found: Receipt, wanted: Receipt, replaced_in_all: int) -> None:
        assert (found.track_id, found.rows, found.added) == (wanted.track_id, wanted.rows, wanted.added)
        assert found.skipped == wanted.skipped
        assert found.conflicting <= wanted.conflicting
        # Whether a cell replaced by the same counts is left open.
        assert wanted.replaced <= found.replaced <= replaced_in_all
        assert found.deleted == 0

    # -------------------------------------------------------------- steps

    @rule(data=st.data(), number=st.integers(0, 2), policy=st.sampled_from([REFUSE, REFUSE, SKIP, REPLACE]))
    def insert(self, data: st.DataObject, number: int, policy: OnDuplicate) -> None:
        station, place = self.stations[number]
        rows, cells = self.build(data, number)
        future = self.store.insert(
            station.workspace_id, [insertion(station, rows, place=place, on_duplicate=policy)], by="model"
        )
        track = self.model[number]
        taken = any(p in track[key].cells for key, row in cells if key in track for p in row)
        if policy is REFUSE and taken:
            assert isinstance(future.exception(WAIT_S), AlreadyExists)
            assert self.new_changes(number) == []
            return
        (found,) = future.result(WAIT_S)
        receipt, in_all, late, before, after = self.expect(number, cells, policy)
        self.compare_receipt(found, receipt, in_all)
        changes = self.new_changes(number)
        assert told(changes, ChangeKind.LATE) == ({}, late)
        assert told(changes, ChangeKind.CORRECTION) == (before, after)
        assert told(changes, ChangeKind.DELETION) == ({}, {})

    @rule(data=st.data(), number=st.integers(0, 2), policy=st.sampled_from([SKIP, REPLACE]))
    def load(self, data: st.DataObject, number: int, policy: OnDuplicate) -> None:
        station, place = self.stations[number]
        rows, cells = self.build(data, number)
        found = self.store.load(
            station.workspace_id, insertion(station, rows, place=place, on_duplicate=policy), by="model"
        )
        receipt, in_all, late, before, after = self.expect(number, cells, policy)
        self.compare_receipt(found, receipt, in_all)
        changes = self.new_changes(number)
        # Loading goes window by window, so later windows of one load are late only beside what was there before.
        assert told(changes, ChangeKind.LATE) == ({}, late)
        assert told(changes, ChangeKind.CORRECTION) == (before, after)
        assert told(changes, ChangeKind.DELETION) == ({}, {})

    @rule(data=st.data(), pair=st.permutations([0, 1, 2]), spoil=st.booleans())
    def insert_into_two_tracks(self, data: st.DataObject, pair: list[int], spoil: bool) -> None:
        made = [(number, *self.build(data, number)) for number in pair[:2]]
        insertions = []
        for number, rows, _ in made:
            station, place = self.stations[number]
            insertions.append(insertion(station, rows, place=place, on_duplicate=SKIP))
        if spoil:
            station, place = self.stations[pair[2]]
            insertions.append(insertion(station, block([T0], {99_999: [1.0]}), place=place))
        future = self.store.insert(self.stations[0][0].workspace_id, insertions, by="model")
        if spoil:
            assert future.exception(WAIT_S) is not None
            return
        for (number, _, cells), found in zip(made, future.result(WAIT_S), strict=True):
            receipt, in_all, late, _, _ = self.expect(number, cells, SKIP)
            self.compare_receipt(found, receipt, in_all)
            assert told(self.new_changes(number), ChangeKind.LATE) == ({}, late)

    @rule(data=st.data(), number=st.integers(0, 2), interval=intervals())
    def replace_interval(self, data: st.DataObject, number: int, interval: Interval) -> None:
        station, place = self.stations[number]
        rows, cells = self.build(data, number)
        track = self.model[number]
        gone = {key: row for key, row in track.items() if key[0] in interval}
        self.end_of(number)
        (found,) = self.store.insert(
            station.workspace_id,
            [insertion(station, rows, place=place, on_duplicate=SKIP, replace=interval)],
            by="model",
        ).result(WAIT_S)
        was = {(k, p): (bits(v), q) for k, row in track.items() for p, (v, q) in row.cells.items()}
        for key in gone:
            del track[key]
        rest_end = self.end_of(number)
        receipt, _, _, _, _ = self.expect(number, cells, SKIP)
        assert found.deleted == len(gone)
        assert found.added == receipt.added
        assert found.skipped == receipt.skipped
        # However it is told, replaying the log leads from the old cells to the new ones, but for those after the end.
        now = {(k, p): (bits(v), q) for k, row in track.items() for p, (v, q) in row.cells.items()}
        for change in self.new_changes(number):
            for key, row_cells, _ in rows_of(change.before):
                for p, cell in row_cells.items():
                    assert was.pop((key, p)) == cell
            for key, row_cells, _ in rows_of(change.after):
                for p, cell in row_cells.items():
                    assert (key, p) not in was
                    was[key, p] = cell
        untold = {key: cell for key, cell in now.items() if key not in was}
        assert was == {key: cell for key, cell in now.items() if key not in untold}
        assert all(rest_end is None or key[0] > rest_end for key, _ in untold)

    @rule(data=st.data(), number=st.integers(0, 2), interval=intervals(), whole=st.booleans())
    def delete(self, data: st.DataObject, number: int, interval: Interval, whole: bool) -> None:
        station, place = self.stations[number]
        track = self.model[number]
        chosen = list(station.ids)
        if not whole:
            chosen = data.draw(st.lists(st.sampled_from(station.ids), unique=True, max_size=2), label="properties")
        hit = {
            (key, p): (bits(v), q)
            for key, row in track.items()
            if key[0] in interval
            for p, (v, q) in row.cells.items()
            if p in chosen
        }
        # What becomes of rows that had a position and no value at all is left open here.
        bare = [key for key, row in track.items() if key[0] in interval and not row.cells]
        if bare and not whole:
            return
        deleted = self.store.delete(station.tracks[place], interval, None if whole else chosen, by="model").result(
            WAIT_S
        )
        assert deleted == len(hit)
        self.end_of(number)
        for key, p in hit:
            del track[key].cells[p]
        for key in [key for key, row in track.items() if key[0] in interval and not row.cells]:
            del track[key]
        changes = self.new_changes(number)
        assert told(changes, ChangeKind.DELETION) == (hit, {})
        assert told(changes, ChangeKind.LATE) == told(changes, ChangeKind.CORRECTION) == ({}, {})

    @rule(number=st.none() | st.integers(0, 2), everything=st.booleans())
    def seal(self, number: int | None, everything: bool) -> None:
        track = None if number is None else self.stations[number][0].tracks[self.stations[number][1]]
        generations = [self.state(n).generation for n in range(3)]
        assert self.store.seal(track, everything=everything) >= 0
        assert [self.state(n).generation for n in range(3)] == generations
        if everything and track is None:
            assert self.store.info().tail_rows == 0

    @rule()
    def maintain(self) -> None:
        self.store.maintain()

    @rule()
    def other_store_object(self) -> None:
        """From here on the other one writes, and both are read in turn."""
        self.stores.reverse()
        self.store = self.stores[0]

    @rule()
    def reopen(self) -> None:
        self.backend.close()
        self.stores = [self.backend.open(), self.backend.open()]
        self.store = self.stores[0]

    @precondition(lambda self: any(self.model))
    @rule()
    def check(self) -> None:
        assert list(self.store.check()) == []

    # -------------------------------------------------------------- comparing

    def state(self, number: int) -> TrackState:
        station, place = self.stations[number]
        return self.store.states([station.tracks[place]])[station.tracks[place]]

    @rule(
        data=st.data(),
        number=st.integers(0, 2),
        interval=intervals(),
        descending=st.booleans(),
        rows=st.sampled_from([1, 3, 50, 8192]),
    )
    def scan_part(self, data: st.DataObject, number: int, interval: Interval, descending: bool, rows: int) -> None:
        station, place = self.stations[number]
        wanted = data.draw(st.lists(st.sampled_from(station.ids), min_size=1, max_size=3), label="properties")
        expected = []
        for key, row in sorted(self.model[number].items()):
            cells, where = row.plain()
            cells = {p: cell for p, cell in cells.items() if p in wanted}
            if key[0] in interval and (cells or where is not None):
                expected.append((key, cells, where))
        found = scan(self.stores[1], station.tracks[place], wanted, interval, descending=descending, rows=rows)
        assert found == (expected[::-1] if descending else expected)

    @invariant()
    def everything_is_as_in_the_model(self) -> None:
        if not hasattr(self, "model"):
            return
        extents: dict[int, Extent] = {}
        for number, (station, place) in enumerate(self.stations):
            track = self.model[number]
            track_id = station.tracks[place]
            wanted = [(key, *row.plain()) for key, row in sorted(track.items())]
            reader = self.stores[number % 2]
            assert scan(reader, track_id, station.ids) == wanted
            state = reader.states([track_id])[track_id]
            begin = min((key[1] for key in track), default=None)
            end = max((key[0] for key in track), default=None)
            assert (state.begin_us, state.end_us, state.rows) == (begin, end, len(track))
            assert set(state.series) == {p for row in track.values() for p in row.cells}
            for p, found in state.series.items():
                with_value = sorted(key for key, row in track.items() if p in row.cells)
                last = with_value[-1]
                value, quality = track[last].cells[p]
                assert bits(found.last.value) == bits(value)
                assert found == SeriesState(
                    p,
                    min(key[1] for key in with_value),
                    last[0],
                    len(with_value),
                    LastValue(last[0], last[1], last[2], found.last.value, quality),
                )
            if station.procedure.kind is ProcedureKind.MOBILE and track:
                assert state.position is not None
                assert struct.pack("<3d", *state.position) == struct.pack("<3d", *place_of(max(track)))
            else:
                assert state.position is None or not track
            if track:
                assert begin is not None
                assert end is not None
                had = extents.get(station.procedure.id)
                extents[station.procedure.id] = (
                    Extent(begin, end, len(track))
                    if had is None
                    else Extent(min(begin, had.begin_us or 0), max(end, had.end_us or 0), had.rows + len(track))
                )
        for store in self.stores:
            assert store.extents(self.stations[0][0].workspace_id) == extents


def machine(name: str) -> type[StoreMachine]:
    return type(f"{name.capitalize()}Machine", (StoreMachine,), {"backend_name": name})


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_random_sequences_equal_the_model(name: str) -> None:
    chosen = settings(max_examples=min(settings().max_examples, 400), stateful_step_count=30)
    run_state_machine_as_test(machine(name), settings=chosen)
