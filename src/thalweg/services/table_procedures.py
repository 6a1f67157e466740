"""Tables as procedures: a store whose catalogues hold those that tables declare, computed from their records.

Nothing is copied. Each station of a declared table (``table_declared``) is a procedure at a feature of its own, and its
records are its observations, read by the index of station and time. Of records of the same station and time the last
one counts; records without a time, without a station or without any value are left out, and so are texts that no XML
can hold and numerics beyond a float.

Ids of what is made lie from ``FIRST_ID`` on, where no id of the store's does, and are made of the table's and of the
station's name, so that they stay what they are; observation ids are made of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Final, cast
from uuid import UUID, uuid5

import numpy as np
from xxhash import xxh3_64_intdigest

from thalweg.domain.access import Actor
from thalweg.domain.blocks import Block, Column, ValueKind
from thalweg.domain.bounded import Bounded
from thalweg.domain.catalogue import (
    Feature,
    ObservedProperty,
    Offering,
    Procedure,
    SensorDescription,
    Series,
    Track,
    Unit,
    Workspace,
)
from thalweg.domain.errors import InvalidParameter, NotFound
from thalweg.domain.observations import (
    FORBIDDEN_TEXT,
    MAX_TEXT_LENGTH,
    Insertion,
    LastValue,
    Receipt,
    SeriesState,
    TrackState,
)
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.store import MAX_BLOCK_ROWS, Extent, SeriesRegistration, Store
from thalweg.domain.tables import (
    ROW_ID,
    AllOf,
    Compare,
    Condition,
    Operator,
    SortKey,
    Table,
    TableQuery,
)
from thalweg.domain.tables import (
    Field as TableField,
)
from thalweg.domain.time import ALL_TIME, END_US, MIN_US, Interval
from thalweg.services.table_declared import KINDS, Declaration, declared

FIRST_ID: Final = 1 << 61
MAX_STATIONS: Final = 1_000
"""Most stations of one table that are procedures, the first ones in the order of their names."""
MAX_NEW_RECORDS: Final = 1_000
"""Most changes of a table that are gone through for new stations; after more the stations are listed anew."""
KEPT_STATES: Final = 20_000
_STATION_BITS: Final = 32
_NAMESPACE: Final = UUID("8c0b5a3e-1b0a-4c2e-b9c4-5e6d2a7f9b10")
_NOT_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)
_READ_ONLY: Final = "The procedure '{}' is made of the records of a table: it is read here, and written there."


@dataclass(slots=True)
class _Stations:
    """The stations of a table, as of a state of its records. ``sequence``: of its change log."""

    generation: int
    sequence: int
    names: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a procedure's rows come from. ``station`` None: the whole table."""

    table: Table
    declared: Declaration
    station: str | int | None
    properties: tuple[int, ...]


@dataclass(slots=True)
class _Made:
    """A workspace's catalogue with the procedures of tables, and what it was made of."""

    base: Catalogue
    key: tuple[object, ...]
    catalogue: Catalogue
    sources: dict[int, _Source] = field(default_factory=dict)


def with_table_procedures(store: Store) -> Store:
    """The store, with the procedures of tables in its catalogues; all other calls are the store's own."""
    # All of the contract is there: what the class has not itself, it hands on.
    return cast("Store", TableProcedures(store))


class TableProcedures:
    """The reading half of catalogue and observations, tables included. For all threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stations: dict[int, _Stations] = {}
        self._declarations: dict[int, tuple[int, Declaration | None]] = {}
        self._made: dict[int, _Made] = {}
        self._states: Bounded[int, tuple[int, int, TrackState]] = Bounded(KEPT_STATES)
        self._extents: dict[int, tuple[object, dict[int, Extent]]] = {}
        self._lock = Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    # -------------------------------------------------------------- catalogue

    def catalogue(self, workspace_id: int) -> Catalogue:
        """See ``CatalogueStore.catalogue``."""
        base = self._store.catalogue(workspace_id)
        tables = self._store.declared_tables()
        if not tables:
            return base
        return self._with_tables(base, tables).catalogue

    def _with_tables(self, base: Catalogue, tables: Sequence[Table]) -> _Made:
        workspace_id = base.workspace.id
        found = [
            (table, what, () if what.station is None else self._stations_of(table, what.station))
            for table in tables
            if table.workspace_id == workspace_id and (what := self._declared(table)) is not None
        ]
        key = tuple((table.id, table.generation, names) for table, _, names in found)
        known = self._made.get(workspace_id)
        if known is not None and known.base is base and known.key == key:
            return known
        made = _Made(base, key, base) if not found else _Builder(base, found, key).made
        with self._lock:
            self._made[workspace_id] = made
        return made

    def _declared(self, table: Table) -> Declaration | None:
        known = self._declarations.get(table.id)
        if known is None or known[0] != table.generation:
            known = self._declarations[table.id] = (table.generation, declared(table))
        return known[1]

    def _stations_of(self, table: Table, station: TableField) -> tuple[str | int, ...]:
        """The stations of a table now, sorted; of one that has grown only what is new is looked at."""
        figures = self._store.table_figures(table)
        known = self._stations.get(table.id)
        if known is not None and known.generation == figures.generation:
            return known.names
        changes = self._store.record_changes(table, known.sequence, limit=MAX_NEW_RECORDS) if known is not None else []
        names: tuple[str | int, ...]
        if (
            known is None
            or len(changes) >= MAX_NEW_RECORDS
            or any(change.kind != "insert" for change in changes)
            or sum(change.last - change.first + 1 for change in changes) > MAX_NEW_RECORDS
        ):
            sequence = self._last_sequence(table, 0 if known is None else known.sequence)
            names = tuple(self._listed(table, station))
        else:
            sequence = changes[-1].sequence if changes else known.sequence
            fresh = {name for change in changes for name in self._between(table, station, change.first, change.last)}
            fresh -= set(known.names)
            names = known.names
            if fresh:
                names = tuple(sorted({*names, *fresh}, key=str)[:MAX_STATIONS])
        self._stations[table.id] = _Stations(figures.generation, sequence, names)
        return names

    def _last_sequence(self, table: Table, after: int) -> int:
        while changes := self._store.record_changes(table, after, limit=10_000):
            after = changes[-1].sequence
        return after

    def _listed(self, table: Table, station: TableField) -> Iterator[str | int]:
        """Each station once, by the index: one look for each."""
        where: Condition = _there(station)
        for _ in range(MAX_STATIONS):
            query = TableQuery((station.name,), where, sort=(SortKey(station.name, nulls_first=True),), total=False)
            rows = self._store.search(table, query).run(1, 0).rows
            if not rows:
                return
            yield rows[0][0]
            where = Compare(station.name, Operator.GT, (rows[0][0],))

    def _between(self, table: Table, station: TableField, first: int, last: int) -> Iterator[str | int]:
        where = AllOf((Compare(ROW_ID, Operator.GTE, (first,)), Compare(ROW_ID, Operator.LTE, (last,))))
        query = TableQuery((station.name,), where, total=False)
        for (name,) in self._store.search(table, query).run(MAX_NEW_RECORDS, 0).rows:
            if name is not None:
                yield name

    def _source(self, track_id: int) -> _Source | None:
        # A copy: another thread may add a workspace.
        for made in list(self._made.values()):
            source = made.sources.get(track_id)
            if source is not None:
                return source
        return None

    def description(self, procedure_id: int) -> SensorDescription:
        """See ``CatalogueStore.description``."""
        if procedure_id < FIRST_ID:
            return self._store.description(procedure_id)
        if self._source(procedure_id) is None:
            raise NotFound("procedure", "The table of this procedure is gone.")
        return SensorDescription()

    # -------------------------------------------------------------- observations

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
        if track_id < FIRST_ID:
            return self._store.scan(track_id, property_ids, interval, descending=descending, rows=rows)
        source = self._source(track_id)
        if source is None:
            return iter(())
        return self._scan(source, property_ids, interval, descending, min(rows, MAX_BLOCK_ROWS))

    def _scan(
        self, source: _Source, property_ids: Sequence[int], interval: Interval, descending: bool, rows: int
    ) -> Iterator[Block]:
        wanted = [
            (key, value) for key in dict.fromkeys(property_ids)
            for own, value in zip(source.properties, source.declared.values, strict=True) if own == key
        ]  # fmt: skip
        time = source.declared.time.name
        sort = (SortKey(time, descending, nulls_first=not descending), SortKey(ROW_ID, descending))
        low, high = max(interval.begin_us, MIN_US), min(interval.end_us, END_US)
        names = (time, *(value.name for _, value in wanted))
        while low < high and wanted:
            where = AllOf(
                (*_of_station(source), Compare(time, Operator.GTE, (low,)), Compare(time, Operator.LT, (high,)))
            )
            query = TableQuery(names, where, sort=sort, total=False)
            try:
                found = self._store.search(source.table, query).run(rows + 1, 0).rows
            except NotFound:
                # All its records were deleted, or it is gone.
                return
            if len(found) > rows and found[0][0] != found[-1][0]:
                # Records of one time stay together: those of the last one are read again.
                last = found[-1][0]
                found = [row for row in found if row[0] != last]
                low, high = (low, last + 1) if descending else (last, high)
            elif len(found) > rows:
                low, high = (low, found[0][0]) if descending else (found[0][0] + 1, high)
            else:
                low = high
            block = _block(found, wanted, descending)
            if block is not None:
                yield block

    def states(self, track_ids: Iterable[int]) -> dict[int, TrackState]:
        """See ``ObservationStore.states``."""
        ids = list(dict.fromkeys(track_ids))
        if not any(key >= FIRST_ID for key in ids):
            return self._store.states(ids)
        found = self._store.states([key for key in ids if key < FIRST_ID])
        for key in ids:
            if key >= FIRST_ID and (state := self._state(key)) is not None:
                found[key] = state
        return {key: found[key] for key in ids if key in found}

    def _state(self, track_id: int) -> TrackState | None:
        source = self._source(track_id)
        if source is None:
            return None
        generation = self._store.table_figures(source.table).generation
        known = self._states.get(track_id)
        if known is not None and known[:2] == (source.table.generation, generation):
            return known[2]
        series: dict[int, SeriesState] = {}
        for key, value in zip(source.properties, source.declared.values, strict=True):
            first = self._end_of(source, key, value, last=False)
            last = self._end_of(source, key, value, last=True)
            if first is not None and last is not None:
                series[key] = SeriesState(key, first.end_us, last.end_us, 1 + (last != first), last)
        begin = min((state.begin_us for state in series.values()), default=None)
        end = max((state.end_us for state in series.values()), default=None)
        rows = max((state.count for state in series.values()), default=0)
        if rows and source.station is None:
            rows = self._store.table_figures(source.table).count
        made = TrackState(track_id, begin, end, rows, generation, series)
        self._states.put(track_id, (source.table.generation, generation, made))
        return made

    def _end_of(self, source: _Source, key: int, value: TableField, *, last: bool) -> LastValue | None:
        """The first or last row that has a value of one property."""
        low, high = MIN_US, END_US
        time = source.declared.time.name
        sort = (SortKey(time, last, nulls_first=not last), SortKey(ROW_ID, True))
        for _ in range(MAX_BLOCK_ROWS):
            where = AllOf(
                (
                    *_of_station(source), _there(value),
                    Compare(time, Operator.GTE, (low,)), Compare(time, Operator.LT, (high,)),
                )
            )  # fmt: skip
            query = TableQuery((time, value.name), where, sort=sort, total=False)
            try:
                rows = self._store.search(source.table, query).run(1, 0).rows
            except NotFound:
                return None
            if not rows:
                return None
            at = rows[0][0]
            # Whether it counts, and what is read of it, is for the scan to say.
            for block in self._scan(source, [key], Interval(at, at + 1), False, MAX_BLOCK_ROWS):
                cell = block.columns[key].values[0:1].tolist()[0]
                return LastValue(at, at, at, cell, 100)
            low, high = (low, at) if last else (at + 1, high)
        return None

    def extents(self, workspace_id: int) -> dict[int, Extent]:
        """See ``ObservationStore.extents``; the number of rows is that of the table's records, of one
        of several stations 1, or 2 for more: they are not counted, which would mean to read them all."""
        base = self._store.extents(workspace_id)
        made = self._made.get(workspace_id)
        if made is None or not made.sources:
            return base
        states = [(key, state) for key in made.sources if (state := self._state(key)) is not None and state.rows]
        key = (id(base), tuple((number, state.generation) for number, state in states), made.key)
        known = self._extents.get(workspace_id)
        if known is not None and known[0] == key:
            return known[1]
        whole = dict(base)
        whole.update((number, Extent(state.begin_us, state.end_us, state.rows)) for number, state in states)
        self._extents[workspace_id] = (key, whole)
        return whole

    # -------------------------------------------------------------- refusals

    def insert(
        self, workspace_id: int, insertions: Sequence[Insertion], *, by: Actor | str = ""
    ) -> Future[list[Receipt]]:
        """See ``ObservationStore.insert``. Raises InvalidParameter ``procedure`` for one made of a table."""
        for item in insertions:
            self._refuse(item.procedure_id)
        return self._store.insert(workspace_id, insertions, by=by)

    def load(self, workspace_id: int, insertion: Insertion, *, by: Actor | str = "") -> Receipt:
        self._refuse(insertion.procedure_id)
        return self._store.load(workspace_id, insertion, by=by)

    def update_procedure(
        self,
        workspace_id: int,
        procedure: Procedure,
        description: SensorDescription | None = None,
        *,
        by: Actor | str = "",
    ) -> Future[Procedure]:
        self._refuse(procedure.id)
        return self._store.update_procedure(workspace_id, procedure, description, by=by)

    def add_series(
        self, procedure_id: int, series: Sequence[SeriesRegistration], *, by: Actor | str = ""
    ) -> Future[Procedure]:
        self._refuse(procedure_id)
        return self._store.add_series(procedure_id, series, by=by)

    def delete_procedure(self, workspace_id: int, procedure_id: int, *, by: Actor | str = "") -> Future[None]:
        self._refuse(procedure_id)
        return self._store.delete_procedure(workspace_id, procedure_id, by=by)

    def put_offering(self, workspace_id: int, offering: Offering, *, by: Actor | str = "") -> Future[Offering]:
        for number in (offering.id, *offering.procedure_ids):
            self._refuse(number)
        return self._store.put_offering(workspace_id, offering, by=by)

    def _refuse(self, procedure_id: int) -> None:
        if procedure_id >= FIRST_ID:
            source = self._source(procedure_id)
            raise InvalidParameter("procedure", _READ_ONLY.format("" if source is None else source.table.uuid))


# ------------------------------------------------------------------ conditions and rows


def _there(item: TableField) -> Compare:
    """Whether a field has a value at all: every value that its type has passes."""
    kind = item.kind.value
    least: Any = {"text": "", "int4": -(1 << 31), "int8": -(1 << 63), "float8": -1.7976931348623157e308}.get(kind)
    if kind == "bool":
        return Compare(item.name, Operator.IN, (True, False))
    if kind == "numeric":
        return Compare(item.name, Operator.GT, (-(10**1000),))
    return Compare(item.name, Operator.GTE, (least,))


def _of_station(source: _Source) -> tuple[Condition, ...]:
    station = source.declared.station
    if station is None or source.station is None:
        return ()
    return (Compare(station.name, Operator.EQ, (source.station,)),)


def _value(kind: ValueKind, cell: Any) -> Any:
    """A cell as a value of an observation, or None where it cannot be one."""
    if cell is None:
        return None
    if kind is ValueKind.NUMBER:
        number = float(cell)
        return number if math.isfinite(number) else None
    if kind is ValueKind.TEXT:
        return None if len(cell) > MAX_TEXT_LENGTH or FORBIDDEN_TEXT.search(cell) else cell
    if kind is ValueKind.BOOLEAN:
        return bool(cell)
    return int(cell)


def _block(
    found: Sequence[tuple[Any, ...]], wanted: Sequence[tuple[int, TableField]], descending: bool
) -> Block | None:
    """Records in order of time as a block in the same order; None: nothing is left of them."""
    kinds = [KINDS[value.kind] for _, value in wanted]
    kept: dict[int, list[Any]] = {}
    for time, *cells in found:
        if descending and time in kept:
            # The last record of a time comes first.
            continue
        kept[time] = [_value(kind, cell) for kind, cell in zip(kinds, cells, strict=True)]
    kept = {time: cells for time, cells in kept.items() if any(cell is not None for cell in cells)}
    if not kept:
        return None
    columns = zip(*kept.values(), strict=True)
    return Block(
        np.array(list(kept), np.int64),
        {key: Column.of(kind, cells) for (key, _), kind, cells in zip(wanted, kinds, columns, strict=True)},
    )


# ------------------------------------------------------------------ the catalogue


class _Builder:
    """Makes a catalogue with the procedures of tables."""

    def __init__(
        self,
        base: Catalogue,
        found: Sequence[tuple[Table, Declaration, tuple[str | int, ...]]],
        key: tuple[object, ...],
    ) -> None:
        self._units = dict(base.units)
        self._properties = dict(base.properties)
        self._features = dict(base.features)
        self._procedures = dict(base.procedures)
        self._offerings = dict(base.offerings)
        self._tracks = dict(base.tracks)
        self._sources: dict[int, _Source] = {}
        self._owners: dict[int, tuple[tuple[str, int], ...]] = {}
        self._taken = {item.name for group in (base.procedures, base.offerings, base.features)
                       for item in group.values()}  # fmt: skip
        self._unit_ids = {unit.code: unit.id for unit in base.units.values()}
        self._property_ids = {item.identifier: item.id for item in base.properties.values()}
        self._property_names = {item.name for item in base.properties.values()}
        total = sum(
            (table.generation >> 32) + (table.generation & 0xFFFFFFFF) + len(names) for table, _, names in found
        )
        # Rises with every change but the end of a table, and is another one after that, too.
        self._generation = (base.generation + total << 20) + (xxh3_64_intdigest(repr(key).encode()) & 0xFFFFF)
        self._workspace: Workspace = replace(base.workspace, generation=self._generation)
        for table, what, names in found:
            properties = tuple(self._property(table, value) for value in what.values)
            for station in names if what.station is not None else (None,):
                self._add(table, what, station, properties)
        catalogue = Catalogue(
            self._workspace, units=self._units, properties=self._properties, features=self._features,
            procedures=self._procedures, offerings=self._offerings, tracks=self._tracks, guests=base.guests,
            owners={**base.owners, **self._owners},
        )  # fmt: skip
        self.made = _Made(base, key, catalogue, self._sources)

    def _property(self, table: Table, value: TableField) -> int:
        identifier = str(value.info.get("definition") or "")
        if not identifier or FORBIDDEN_TEXT.search(identifier):
            identifier = self._workspace.urn("parameter", f"{_base_name(table)}:{_slug(value.name)}")
        known = self._property_ids.get(identifier)
        if known is not None:
            return known
        number = _number(table, value.number)
        name = _free(_slug(value.name), self._property_names, f"{table.uuid[:8]}-{value.number}")
        self._properties[number] = ObservedProperty(
            number, str(uuid5(_NAMESPACE, f"{table.uuid} property {value.number}")), identifier, name,
            FORBIDDEN_TEXT.sub("", str(value.info.get("label") or "")),
        )  # fmt: skip
        self._property_ids[identifier] = number
        return number

    def _unit(self, table: Table, value: TableField) -> int:
        code = FORBIDDEN_TEXT.sub("", str(value.info.get("unit") or "")).strip()
        if not code and KINDS[value.kind] in (ValueKind.NUMBER, ValueKind.INTEGER):
            code = "1"
        known = self._unit_ids.get(code)
        if known is None:
            known = self._unit_ids[code] = _number(table, value.number)
            self._units[known] = Unit(known, code)
        return known

    def _add(self, table: Table, what: Declaration, station: str | int | None, properties: tuple[int, ...]) -> None:
        number = _number(table, 0)
        name, shown = _base_name(table), table.name or _base_name(table)
        if station is not None:
            digest = xxh3_64_intdigest(repr(station).encode())
            number = _number(table, digest & 0xFFFFFFFF)
            while number in self._procedures:
                number += 1
            slug = _slug(str(station))
            name = f"{name}-{slug}" if slug == str(station) else f"{name}-{slug}-{digest & 0xFFFFFFFF:08x}"
            shown = f"{shown}: {station}"
        name = _free(name, self._taken, f"{number & 0xFFFFFFFFFF:x}")
        shown = FORBIDDEN_TEXT.sub("", shown)
        urn = self._workspace.urn
        by_property = dict(zip(properties, what.values, strict=True))

        def uuid(kind: str) -> str:
            return str(uuid5(_NAMESPACE, f"{table.uuid} {kind} {station!r}"))

        self._features[number] = Feature(number, uuid("feature"), urn("feature", name), name, shown)
        self._procedures[number] = Procedure(
            number, uuid("procedure"), urn("procedure", name), name, urn("sensor", name), title=shown,
            series=tuple(
                Series(key, self._unit(table, value), KINDS[value.kind], None, value.name)
                for key, value in by_property.items()
            ),
            feature_id=number, generation=self._generation, public=table.public,
        )  # fmt: skip
        self._offerings[number] = Offering(
            number, uuid("offering"), urn("offering", name), name, shown, number, (number,), public=table.public
        )
        self._tracks[number] = Track(number, number, number)
        self._owners[number] = (("table", table.id), ("package", table.package_id))
        self._sources[number] = _Source(table, what, station, properties)


def _number(table: Table, part: int) -> int:
    return FIRST_ID + (table.id << _STATION_BITS) + part


def _base_name(table: Table) -> str:
    """What procedures of a table are named by: its first alias, which is unique in the store, or its UUID."""
    return _slug(table.aliases[0]) if table.aliases else table.uuid


def _slug(text: str) -> str:
    return _NOT_NAME.sub("-", text).strip("-.")[:100] or "x"


def _free(name: str, taken: set[str], otherwise: str) -> str:
    found = name if name not in taken else f"{name}-{otherwise}"
    taken.add(found)
    return found
