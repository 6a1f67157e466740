"""Pictures of the catalogue, kept by each process and refreshed by generation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from thalweg.domain.access import Role, Scope
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
from thalweg.domain.errors import NotFound
from thalweg.domain.snapshot import NO_GUESTS, Catalogue
from thalweg.store.sqlite.connection import Reader, Readers, Row
from thalweg.store.sqlite.entities import (
    description_of,
    feature_of,
    procedure_of,
    property_of,
    series_of,
    unit_of,
    workspace_of,
)

E = TypeVar("E")

GENERATION: Final = "SELECT generation FROM workspace WHERE id = ?"
WORKSPACES: Final = "SELECT id, uuid, name, generation, document FROM workspace ORDER BY id"
WORKSPACE: Final = "SELECT id, uuid, name, generation, document FROM workspace WHERE id = ?"
DESCRIPTION: Final = "SELECT document FROM sensor_description WHERE procedure_id = ?"

# What has changed in a workspace since a generation, in order of creation.
UNITS: Final = "SELECT id, code, description FROM unit WHERE workspace_id = ? AND generation > ? ORDER BY id"
PROPERTIES: Final = """
    SELECT id, uuid, identifier, name, description, value_constraint FROM observed_property
    WHERE workspace_id = ? AND generation > ? ORDER BY id"""
FEATURES: Final = """
    SELECT id, uuid, identifier, name, description, type_uri, sampled, geometry FROM feature
    WHERE workspace_id = ? AND generation > ? ORDER BY id"""
PROCEDURES: Final = """
    SELECT id, uuid, identifier, name, assigned_id, kind, title, feature_id, srid,
           sampling_months, sampling_us, acquisition_months, acquisition_us, generation, public
    FROM procedure WHERE workspace_id = ? AND generation > ? ORDER BY id"""
SERIES: Final = """
    SELECT s.property_id, s.unit_id, s.kind, s.value_constraint, s.name, s.procedure_id
    FROM procedure p JOIN series s ON s.procedure_id = p.id
    WHERE p.workspace_id = ? AND p.generation > ? ORDER BY s.procedure_id, s.place"""
OFFERINGS: Final = """
    SELECT id, uuid, identifier, name, description, procedure_id, active, members_generation, public FROM offering
    WHERE workspace_id = ? AND generation > ? ORDER BY id"""
MEMBERS: Final = """
    SELECT procedure_id FROM offering_procedure WHERE offering_id = ? AND generation > ? ORDER BY place"""
TRACKS: Final = """
    SELECT id, procedure_id, feature_id FROM track WHERE workspace_id = ? AND generation > ? ORDER BY id"""
# What everybody is granted; few.
GUESTS: Final = "SELECT workspace_id, kind, entity_id, role FROM role_grant WHERE workspace_id = ? AND principal = ''"
DELETIONS: Final = "SELECT kind, entity_id FROM deletion WHERE workspace_id = ? AND generation > ?"


class CatalogueReader:
    """Reads the catalogue; a workspace's picture is shared by all threads until its generation rises."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._pictures: dict[int, Catalogue] = {}
        self._lock = threading.Lock()

    def workspaces(self) -> dict[str, Workspace]:
        return {row[2]: workspace_of(row) for row in self._readers.rows(WORKSPACES)}

    def catalogue(self, workspace_id: int) -> Catalogue:
        """The newest committed picture. Raises NotFound."""
        reader = self._readers.mine()
        known = reader.known
        if known is not None:
            found: Catalogue | None = known.get(("catalogue", workspace_id))
            if found is not None:
                return found
        rows = reader.rows(GENERATION, (workspace_id,))
        if not rows:
            raise NotFound("workspace", f"There is no workspace with the number {workspace_id}.")
        picture = self._pictures.get(workspace_id)
        # One that another thread has read may be newer than a snapshot that is held.
        if picture is None or picture.workspace.generation < rows[0][0]:
            with self._lock:
                picture = self._pictures.get(workspace_id)
                if picture is None or picture.workspace.generation < rows[0][0]:
                    with reader.snapshot():
                        picture = refresh(reader, workspace_id, picture)
                    self._pictures[workspace_id] = picture
        if known is not None:
            known["catalogue", workspace_id] = picture
        return picture

    def description(self, procedure_id: int) -> SensorDescription:
        """What a procedure's description says. Raises NotFound."""
        rows = self._readers.rows(DESCRIPTION, (procedure_id,))
        if not rows:
            raise NotFound("procedure", f"There is no procedure with the number {procedure_id}.")
        return description_of(rows[0][0])


def refresh(reader: Reader, workspace_id: int, old: Catalogue | None) -> Catalogue:
    """The picture of the reader's snapshot, made from an older one and what has changed since.

    raises  NotFound
    """
    rows = reader.rows(WORKSPACE, (workspace_id,))
    if not rows:
        raise NotFound("workspace", f"There is no workspace with the number {workspace_id}.")
    workspace = workspace_of(rows[0])
    if old is None:
        old = Catalogue(workspace, units={}, properties={}, features={}, procedures={}, offerings={}, tracks={})
        since = -1
    elif old.generation == workspace.generation:
        return old
    else:
        since = old.generation
    key = (workspace_id, since)

    gone: dict[str, set[int]] = {}
    if since >= 0:
        for kind, entity_id in reader.rows(DELETIONS, key):
            gone.setdefault(kind, set()).add(entity_id)

    series_of_procedure: dict[int, list[Series]] = {}
    for row in reader.rows(SERIES, key):
        series_of_procedure.setdefault(row[5], []).append(series_of(row))

    def changed(sql: str, make: Callable[[Row], E]) -> dict[int, E]:
        return {row[0]: make(row) for row in reader.rows(sql, key)}

    def offering_of(row: Row) -> Offering:
        before = old.offerings.get(row[0])
        if before is None or row[7] > since:
            members = reader.rows(MEMBERS, (row[0], -1))
            procedure_ids: tuple[int, ...] = ()
        else:
            # A network of thousands that one procedure joined: only that one is read.
            members = reader.rows(MEMBERS, (row[0], since))
            procedure_ids = before.procedure_ids
        procedure_ids += tuple(member for (member,) in members)
        number, uuid, identifier, name, description, owner, active, _, public = row
        return Offering(number, uuid, identifier, name, description, owner, procedure_ids, bool(active), bool(public))

    procedures: dict[int, Procedure] = changed(
        PROCEDURES, lambda row: procedure_of(row, tuple(series_of_procedure.get(row[0], ())))
    )
    units: dict[int, Unit] = changed(UNITS, unit_of)
    properties: dict[int, ObservedProperty] = changed(PROPERTIES, property_of)
    features: dict[int, Feature] = changed(FEATURES, feature_of)
    tracks: dict[int, Track] = changed(TRACKS, lambda row: Track(*row))
    return Catalogue(
        workspace,
        units=merged(old.units, units),
        properties=merged(old.properties, properties, gone.get("property")),
        features=merged(old.features, features, gone.get("feature")),
        procedures=merged(old.procedures, procedures, gone.get("procedure")),
        offerings=merged(old.offerings, changed(OFFERINGS, offering_of), gone.get("offering")),
        tracks=merged(old.tracks, tracks, gone.get("track")),
        guests={Scope(*scope): Role(role) for *scope, role in reader.rows(GUESTS, (workspace_id,))} or NO_GUESTS,
    )


def merged(old: Mapping[int, E], changed: dict[int, E], gone: set[int] | None = None) -> Mapping[int, E]:
    """The old mapping with what has changed and without what is gone; the old one itself where nothing did."""
    if not changed and not gone:
        return old
    if not old:
        return changed
    result: dict[int, Any] = {**old, **changed}
    for entity_id in gone or ():
        result.pop(entity_id, None)
    return result
