"""The procedures of a workspace as resources of one package, to be read as tables: no copy, nothing stored.

A resource's UUID is made of the procedure's (version 5), and so is the package's of the workspace's. Their numbers are
those of the procedure and the workspace, negative, so that they meet none of the store's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final
from uuid import UUID, uuid5

from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import Procedure, ProcedureKind, Workspace
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.store import Store
from thalweg.domain.table_values import FieldType
from thalweg.domain.tables import MAX_FIELD_NAME, ROW_ID, Field, Package, Search, SortKey, TableFigures, TableQuery
from thalweg.services.procedure_rows import TIME, ProcedureSearch, ProcedureTable, Source
from thalweg.services.procedure_sql import ProcedureRelation

PACKAGE_PREFIX: Final = "procedures-of-"
"""Names of these packages: this and the workspace's name. No other package may be named so."""
_NAMESPACE: Final = UUID("2a3b7d54-52a4-4f0e-9d39-6f3f3f6a9c11")
"""Of the UUIDs of these resources and packages."""
_KINDS: Final = {
    ValueKind.NUMBER: FieldType.FLOAT8,
    ValueKind.INTEGER: FieldType.INT8,
    ValueKind.TEXT: FieldType.TEXT,
    ValueKind.BOOLEAN: FieldType.BOOL,
}


@dataclass(slots=True)
class _Made:
    """What was made of a catalogue. ``uuids``: procedures by their resource's UUID."""

    catalogue: Catalogue
    uuids: dict[str, int]
    tables: dict[int, ProcedureTable] = field(default_factory=dict)


class ProcedureTables:
    """The procedures of one store as tables. Rights are asked elsewhere. For all threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._made: dict[int, _Made] = {}
        self._uuid_of: dict[int, str] = {}
        self._places: dict[str, tuple[int, int]] = {}
        self._lock = Lock()

    # -------------------------------------------------------------- finding

    def find(self, key: str) -> tuple[Catalogue, Procedure] | None:
        """The procedure whose resource has that UUID; None: there is none."""
        place = self._places.get(key)
        if place is None:
            if len(key) != 36:
                return None
            for workspace in self._store.workspaces().values():
                self._of(self._store.catalogue(workspace.id))
            place = self._places.get(key)
        if place is None:
            return None
        catalogue = self._store.catalogue(place[0])
        procedure = catalogue.procedures.get(place[1])
        return None if procedure is None else (catalogue, procedure)

    def table(self, catalogue: Catalogue, procedure: Procedure) -> ProcedureTable:
        """A procedure of a workspace's whole catalogue as a table."""
        made = self._of(catalogue)
        known = made.tables.get(procedure.id)
        if known is None:
            known = made.tables[procedure.id] = _table(catalogue, procedure, self._uuid(procedure))
        return known

    def _of(self, catalogue: Catalogue) -> _Made:
        known = self._made.get(catalogue.workspace.id)
        if known is None or known.catalogue is not catalogue:
            uuids = {self._uuid(procedure): key for key, procedure in catalogue.procedures.items()}
            with self._lock:
                known = self._made[catalogue.workspace.id] = _Made(catalogue, uuids)
                self._places.update((uuid, (catalogue.workspace.id, key)) for uuid, key in uuids.items())
        return known

    def _uuid(self, procedure: Procedure) -> str:
        known = self._uuid_of.get(procedure.id)
        if known is None:
            known = self._uuid_of[procedure.id] = str(uuid5(_NAMESPACE, procedure.uuid))
        return known

    # -------------------------------------------------------------- packages

    def package(self, workspace: Workspace) -> Package:
        """The package of a workspace's procedures."""
        title = workspace.title or workspace.name
        return Package(
            -workspace.id,
            str(uuid5(_NAMESPACE, workspace.uuid)),
            workspace.id,
            PACKAGE_PREFIX + workspace.name,
            f"Procedures of {title}",
            workspace.public,
            document={
                "notes": workspace.abstract or f"The observations of the procedures of {title}, a resource for each.",
                "tags": sorted({tag for tag in workspace.keywords if 2 <= len(tag) <= 100}),
                "extras": [],
            },
            generation=workspace.generation,
        )

    def workspace_of_package(self, key: str) -> Workspace | None:
        """The workspace whose package has that UUID or name."""
        workspaces = self._store.workspaces()
        if key.startswith(PACKAGE_PREFIX):
            return workspaces.get(key.removeprefix(PACKAGE_PREFIX))
        if len(key) == 36:
            for workspace in workspaces.values():
                if str(uuid5(_NAMESPACE, workspace.uuid)) == key:
                    return workspace
        return None

    # -------------------------------------------------------------- reading

    def search(self, table: ProcedureTable, query: TableQuery) -> Search:
        return ProcedureSearch(self._store, table, query)

    def records(self, table: ProcedureTable, query: TableQuery) -> Iterator[list[tuple[Any, ...]]]:
        return ProcedureSearch(self._store, table, query).blocks()

    def columns(self, table: ProcedureTable, query: TableQuery) -> Iterator[list[Sequence[Any]]]:
        """See ``TableStore.record_columns``."""
        return ProcedureSearch(self._store, table, query).column_blocks()

    def figures(self, table: ProcedureTable) -> TableFigures:
        """``next_id`` means nothing here: numbers come from times."""
        states = self._store.states([track.id for track in table.tracks]).values()
        newest = max((state.generation for state in states), default=0)
        return TableFigures(sum(state.rows for state in states), newest, 0)

    def newest(self, table: ProcedureTable) -> int | None:
        """The number of the last row; None: there is none."""
        for (number,) in ProcedureSearch(self._store, table, _LAST).run(1, 0).rows:
            return int(number)
        return None

    def relation(self, table: ProcedureTable) -> ProcedureRelation:
        """What SQL reads."""
        columns = ((ROW_ID, "int8"), *((field.name, field.type_name) for field in table.fields))
        return ProcedureRelation(columns, table.layout)


_LAST: Final = TableQuery((ROW_ID,), sort=(SortKey(ROW_ID, True),), limit=1, total=False)


# ------------------------------------------------------------------ a table


def _table(catalogue: Catalogue, procedure: Procedure, uuid: str) -> ProcedureTable:
    workspace = catalogue.workspace
    tracks = catalogue.tracks_by_procedure.get(procedure.id, ())
    fields, sources = _fields(catalogue, procedure, len(tracks) > 1)
    document: dict[str, Any] = {
        "description": procedure.title or f"Observations of {procedure.name}",
        "format": "",
        "procedure": procedure.identifier,
        "procedure_name": procedure.name,
    }
    return ProcedureTable(
        id=-procedure.id,
        uuid=uuid,
        workspace_id=workspace.id,
        package_id=-workspace.id,
        name=procedure.identifier,
        url_type="datastore",
        position=0,
        document=document,
        active=True,
        fields=fields,
        indexes=((TIME,),),
        public=procedure.public,
        # Another one with every state of the catalogue: what is remembered of a table goes by it.
        generation=catalogue.generation,
        procedure=procedure,
        tracks=tracks,
        places=tuple(catalogue.features[track.feature_id].identifier for track in tracks),
        sources=sources,
    )


def _fields(
    catalogue: Catalogue, procedure: Procedure, is_anywhere: bool
) -> tuple[tuple[Field, ...], tuple[Source, ...]]:
    """Fields in order, and where each comes from: time, values with their qualities, other times, place."""
    found: list[tuple[str, FieldType, Source, Mapping[str, Any]]] = []
    taken = {TIME, "begin_time", "result_time", "feature", "x", "y", "z"}

    def add(name: str, kind: FieldType, source: Source, label: str, **info: Any) -> None:
        found.append((name, kind, source, {"label": label, **{key: value for key, value in info.items() if value}}))

    add(TIME, FieldType.TIMESTAMPTZ, Source("time"), "Phenomenon time", notes="Its end, where it lasts")
    for series in procedure.series:
        observed = catalogue.properties[series.property_id]
        name = _free_name(observed.name, taken)
        add(
            name, _KINDS[series.kind], Source("value", series.property_id), observed.description or observed.name,
            definition=observed.identifier, unit=catalogue.units[series.unit_id].code,
        )  # fmt: skip
        add(
            f"{name}_quality", FieldType.INT4, Source("quality", series.property_id), f"Quality index of {name}",
            definition=observed.identifier,
        )  # fmt: skip
    add("begin_time", FieldType.TIMESTAMPTZ, Source("begin"), "Begin of the phenomenon time", notes="Where it lasts")
    add("result_time", FieldType.TIMESTAMPTZ, Source("result"), "Result time", notes="Where it is another than time")
    is_mobile = procedure.kind is ProcedureKind.MOBILE
    if is_anywhere or is_mobile:
        add("feature", FieldType.TEXT, Source("feature"), "Feature of interest")
    if is_mobile:
        for axis in "xyz":
            add(axis, FieldType.FLOAT8, Source(axis), f"Position, {axis}", crs=f"EPSG:{procedure.srid}")
    fields = tuple(Field(name, kind, number=n, info=info) for n, (name, kind, _, info) in enumerate(found, 1))
    return fields, tuple(source for _, _, source, _ in found)


def _free_name(wanted: str, taken: set[str]) -> str:
    """A name for a field and its quality's that is neither taken nor too long; what a name may not be is changed."""
    room = MAX_FIELD_NAME - len("_quality") - 4
    name = wanted.replace('"', "'").strip().lstrip("_") or "value"
    while len(name.encode()) > room:
        name = name[:-1].rstrip()
    free, number = name, 1
    while free in taken or f"{free}_quality" in taken:
        number += 1
        free = f"{name}_{number}"
    taken.update((free, f"{free}_quality"))
    return free
