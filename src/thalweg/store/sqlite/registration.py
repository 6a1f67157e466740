"""Registering, changing and removing procedures inside a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import Offering, Procedure, SensorDescription, Series
from thalweg.domain.errors import AlreadyExists, InvalidParameter, NotFound
from thalweg.domain.store import Registration, SeriesRegistration
from thalweg.store.sqlite import entity_writes as entities
from thalweg.store.sqlite.entities import (
    constraint_text,
    description_document,
    duration_columns,
    procedure_of,
    series_of,
)
from thalweg.store.sqlite.states import EMPTY_SERIES
from thalweg.store.sqlite.writer import Transaction

INSERT_PROCEDURE: Final = """
    INSERT INTO procedure (uuid, identifier, name, assigned_id, kind, title, feature_id, srid,
                           sampling_months, sampling_us, acquisition_months, acquisition_us, generation, public,
                           workspace_id)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"""
UPDATE_PROCEDURE: Final = """
    UPDATE procedure
    SET uuid = ?, identifier = ?, name = ?, assigned_id = ?, kind = ?, title = ?, feature_id = ?, srid = ?,
        sampling_months = ?, sampling_us = ?, acquisition_months = ?, acquisition_us = ?, generation = ?, public = ?
    WHERE workspace_id = ? AND id = ?"""
GET_PROCEDURE: Final = """
    SELECT id, uuid, identifier, name, assigned_id, kind, title, feature_id, srid,
           sampling_months, sampling_us, acquisition_months, acquisition_us, generation, public, workspace_id
    FROM procedure WHERE id = ?"""
DELETE_PROCEDURE: Final = "DELETE FROM procedure WHERE id = ?"
PUT_DESCRIPTION: Final = """
    INSERT INTO sensor_description (procedure_id, document) VALUES (?1, ?2)
    ON CONFLICT (procedure_id) DO UPDATE SET document = ?2"""
DELETE_DESCRIPTION: Final = "DELETE FROM sensor_description WHERE procedure_id = ?"

GET_SERIES: Final = """
    SELECT property_id, unit_id, kind, value_constraint, name FROM series WHERE procedure_id = ? ORDER BY place"""
INSERT_SERIES: Final = """
    INSERT INTO series (procedure_id, place, property_id, unit_id, kind, value_constraint, name)
    VALUES (?, ?, ?, ?, ?, ?, ?)"""
DELETE_SERIES: Final = "DELETE FROM series WHERE procedure_id = ?"
HAS_PROPERTY: Final = "SELECT 1 FROM observed_property WHERE workspace_id = ? AND id = ?"
HAS_UNIT: Final = "SELECT 1 FROM unit WHERE workspace_id = ? AND id = ?"

INSERT_TRACK: Final = """
    INSERT INTO track (workspace_id, procedure_id, feature_id, generation) VALUES (?, ?, ?, ?) RETURNING id"""
INSERT_STATE: Final = "INSERT INTO track_state (track_id, series) VALUES (?, ?)"
TRACKS_OF: Final = "SELECT id FROM track WHERE procedure_id = ?"
FEATURES_OF: Final = "SELECT feature_id FROM track WHERE procedure_id = ?"
DELETE_UNUSED_FEATURE: Final = """
    DELETE FROM feature WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM track WHERE feature_id = ?1)
    AND NOT EXISTS (SELECT 1 FROM procedure WHERE feature_id = ?1) RETURNING id"""
DELETE_UNUSED_PROPERTY: Final = """
    DELETE FROM observed_property WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM series WHERE property_id = ?1)
    RETURNING id"""
OFFERINGS_OF: Final = """
    SELECT o.id, o.procedure_id FROM offering_procedure m JOIN offering o ON o.id = m.offering_id
    WHERE m.procedure_id = ?"""
LEAVE_OFFERING: Final = "DELETE FROM offering_procedure WHERE offering_id = ? AND procedure_id = ?"
OF_TRACK: Final = (
    "DELETE FROM tail WHERE track_id = ?",
    "DELETE FROM chunk WHERE track_id = ?",
    "DELETE FROM chunk_version WHERE track_id = ?",
    "DELETE FROM change WHERE track_id = ?",
    """DELETE FROM published_page WHERE track_id = ?1
        AND stream_id IN (SELECT stream_id FROM published_track WHERE track_id = ?1)""",
    """DELETE FROM published_terms WHERE track_id = ?1
        AND stream_id IN (SELECT stream_id FROM published_track WHERE track_id = ?1)""",
    "DELETE FROM published_track WHERE track_id = ?",
    "DELETE FROM track_state WHERE track_id = ?",
    "DELETE FROM track WHERE id = ?",
)


def register(tx: Transaction, workspace_id: int, registration: Registration) -> Procedure:
    """Store a new procedure and what belongs to it. Raises as ``CatalogueStore.register_procedure``."""
    procedure = registration.procedure
    _refuse_taken(tx, workspace_id, procedure)
    uuid = entities.refuse_taken_uuid(tx, "procedure", procedure.uuid, 0, "procedure")
    generation = entities.raise_generation(tx, workspace_id)
    feature_ids = dict.fromkeys(entities.ensure_feature(tx, workspace_id, f, generation) for f in registration.features)
    series = tuple(_series(tx, workspace_id, item, generation) for item in _without_doubles(registration.series))
    procedure = replace(
        procedure, uuid=uuid, feature_id=next(iter(feature_ids), None), series=series, generation=generation
    )
    ((number,),) = tx.rows(INSERT_PROCEDURE, _columns(procedure, workspace_id))
    procedure = replace(procedure, id=number)
    _insert_series(tx, number, 0, series)
    tx.rows(PUT_DESCRIPTION, (number, description_document(registration.description)))
    for feature_id in feature_ids:
        add_track(tx, workspace_id, number, feature_id, generation)
    for offering in registration.offerings:
        _join(tx, workspace_id, number, offering, generation)
    return procedure


def update(
    tx: Transaction, workspace_id: int, procedure: Procedure, description: SensorDescription | None
) -> Procedure:
    """Replace a procedure's own fields. Raises as ``CatalogueStore.update_procedure``."""
    _, stored = _get(tx, procedure.id, workspace_id)
    _refuse_taken(tx, workspace_id, procedure)
    uuid = procedure.uuid and entities.refuse_taken_uuid(tx, "procedure", procedure.uuid, procedure.id, "procedure")
    generation = entities.raise_generation(tx, workspace_id)
    if procedure.feature_id is not None and not tx.rows(entities.HAS_FEATURE, (workspace_id, procedure.feature_id)):
        raise NotFound("featureOfInterest", f"There is no feature of interest with the number {procedure.feature_id}.")
    procedure = replace(procedure, uuid=uuid or stored.uuid, generation=generation)
    if procedure.series != stored.series:
        _check_series(tx, workspace_id, stored.series, procedure.series)
        tx.rows(DELETE_SERIES, (procedure.id,))
        _insert_series(tx, procedure.id, 0, procedure.series)
    tx.rows(UPDATE_PROCEDURE, (*_columns(procedure, workspace_id), procedure.id))
    if description is not None:
        tx.rows(PUT_DESCRIPTION, (procedure.id, description_document(description)))
    return procedure


def add_series(tx: Transaction, procedure_id: int, items: Sequence[SeriesRegistration]) -> tuple[int, Procedure]:
    """Append the series that the procedure lacks; its workspace, and how it is then. Raises NotFound."""
    workspace_id, procedure = _get(tx, procedure_id)
    generation = entities.raise_generation(tx, workspace_id)
    have = {series.property_id for series in procedure.series}
    added = tuple(_series(tx, workspace_id, item, generation) for item in _without_doubles(items))
    added = tuple(series for series in added if series.property_id not in have)
    _insert_series(tx, procedure_id, len(procedure.series), added)
    tx.rows(entities.TOUCH_PROCEDURE, (generation, workspace_id, procedure_id))
    return workspace_id, replace(procedure, series=procedure.series + added, generation=generation)


def delete(tx: Transaction, workspace_id: int, procedure_id: int) -> None:
    """Remove a procedure with all that is its own. Raises NotFound.

    Features and observed properties stay, but for those of one that is not public which no other procedure has: nobody
    is to see what it alone observed and where, once it is gone.
    """
    _, procedure = _get(tx, procedure_id, workspace_id)
    generation = entities.raise_generation(tx, workspace_id)
    feature_ids = {feature_id for (feature_id,) in tx.rows(FEATURES_OF, (procedure_id,))}
    if procedure.feature_id is not None:
        feature_ids.add(procedure.feature_id)
    for (track_id,) in tx.rows(TRACKS_OF, (procedure_id,)):
        for statement in OF_TRACK:
            tx.rows(statement, (track_id,))
        tx.rows(entities.INSERT_DELETION, (workspace_id, generation, "track", track_id))
    for offering_id, owner in tx.rows(OFFERINGS_OF, (procedure_id,)):
        if owner == procedure_id:
            entities.drop_offering(tx, workspace_id, offering_id, generation)
        else:
            tx.rows(LEAVE_OFFERING, (offering_id, procedure_id))
            tx.rows(entities.TOUCH_MEMBERS, (generation, offering_id))
    tx.rows(DELETE_DESCRIPTION, (procedure_id,))
    tx.rows(DELETE_SERIES, (procedure_id,))
    tx.rows(DELETE_PROCEDURE, (procedure_id,))
    tx.rows(entities.INSERT_DELETION, (workspace_id, generation, "procedure", procedure_id))
    entities.drop_grants_on(tx, workspace_id, "procedure", procedure_id)
    if not procedure.public:
        _drop_unused(tx, workspace_id, generation, feature_ids, {s.property_id for s in procedure.series})


def _drop_unused(
    tx: Transaction, workspace_id: int, generation: int, feature_ids: set[int], property_ids: set[int]
) -> None:
    for kind, statement, numbers in (
        ("feature", DELETE_UNUSED_FEATURE, feature_ids),
        ("property", DELETE_UNUSED_PROPERTY, property_ids),
    ):
        for number in sorted(numbers):
            if tx.rows(statement, (number,)):
                tx.rows(entities.INSERT_DELETION, (workspace_id, generation, kind, number))


def add_track(tx: Transaction, workspace_id: int, procedure_id: int, feature_id: int, generation: int) -> int:
    """A track and its empty state; its id."""
    ((track_id,),) = tx.rows(INSERT_TRACK, (workspace_id, procedure_id, feature_id, generation))
    tx.rows(INSERT_STATE, (track_id, EMPTY_SERIES))
    return int(track_id)


# ------------------------------------------------------------------ parts


def _get(tx: Transaction, procedure_id: int, workspace_id: int | None = None) -> tuple[int, Procedure]:
    """(workspace, procedure) as stored. Raises NotFound, also for one of another workspace."""
    rows = tx.rows(GET_PROCEDURE, (procedure_id,))
    if not rows or workspace_id not in (None, rows[0][15]):
        raise NotFound("procedure", f"There is no procedure with the number {procedure_id}.")
    series = tuple(series_of(row) for row in tx.rows(GET_SERIES, (procedure_id,)))
    return int(rows[0][15]), procedure_of(rows[0], series)


def _refuse_taken(tx: Transaction, workspace_id: int, procedure: Procedure) -> None:
    entities.require(procedure.identifier and procedure.name, "procedure", "procedure")
    keys = {"identifier": procedure.identifier, "name": procedure.name, "assigned_id": procedure.assigned_id}
    entities.refuse_taken(tx, "procedure", workspace_id, procedure.id, "procedure", "procedure", keys)


def _columns(procedure: Procedure, workspace_id: int) -> tuple[object, ...]:
    return (
        procedure.uuid, procedure.identifier, procedure.name, procedure.assigned_id, str(procedure.kind),
        procedure.title, procedure.feature_id, procedure.srid,
        *duration_columns(procedure.sampling), *duration_columns(procedure.acquisition),
        procedure.generation, int(procedure.public), workspace_id,
    )  # fmt: skip


def _without_doubles(items: Sequence[SeriesRegistration]) -> list[SeriesRegistration]:
    """Items of different properties, the first of each."""
    return list({item.observed_property.identifier: item for item in reversed(items)}.values())[::-1]


def _series(tx: Transaction, workspace_id: int, item: SeriesRegistration, generation: int) -> Series:
    """The series that an item asks for, its property and unit created where unknown."""
    rows = tx.rows(entities.FIND_PROPERTY, (workspace_id, item.observed_property.identifier))
    if rows:
        property_id = int(rows[0][0])
    else:
        fresh = replace(item.observed_property, id=0)
        property_id = entities.put_property(tx, workspace_id, fresh, generation).id
    rows = tx.rows(entities.FIND_UNIT, (workspace_id, item.unit.code))
    if rows:
        unit_id = int(rows[0][0])
    else:
        unit_id = entities.put_unit(tx, workspace_id, replace(item.unit, id=0), generation).id
    return Series(property_id, unit_id, ValueKind(item.kind), item.constraint, item.name)


def _insert_series(tx: Transaction, procedure_id: int, place: int, series: tuple[Series, ...]) -> None:
    tx.many(
        INSERT_SERIES,
        [
            (procedure_id, place + i, s.property_id, s.unit_id, str(s.kind), constraint_text(s.constraint), s.name)
            for i, s in enumerate(series)
        ],
    )


def _check_series(tx: Transaction, workspace_id: int, stored: tuple[Series, ...], wanted: tuple[Series, ...]) -> None:
    """Refuse series removed, reordered, doubled, of another kind, or of things unknown."""
    parameter = "observedProperty"
    if [(s.property_id, s.kind) for s in wanted[: len(stored)]] != [(s.property_id, s.kind) for s in stored]:
        raise InvalidParameter(parameter, "A procedure's series keep their order and kinds; new ones come after them.")
    if len({s.property_id for s in wanted}) != len(wanted):
        raise InvalidParameter(parameter, "A procedure has one series for each observed property.")
    for series in wanted:
        if not tx.rows(HAS_PROPERTY, (workspace_id, series.property_id)):
            raise NotFound(parameter, f"There is no observed property with the number {series.property_id}.")
        if not tx.rows(HAS_UNIT, (workspace_id, series.unit_id)):
            raise NotFound("uom", f"There is no unit with the number {series.unit_id}.")


def _join(tx: Transaction, workspace_id: int, procedure_id: int, offering: Offering, generation: int) -> None:
    """Make the procedure a member of an offering, created where its identifier is unknown."""
    own = offering.procedure_id is not None
    rows = tx.rows(entities.FIND_OFFERING, (workspace_id, offering.identifier))
    if not rows:
        owner = procedure_id if own else None
        entities.put_offering(
            tx, workspace_id, replace(offering, id=0, procedure_id=owner, procedure_ids=(procedure_id,)), generation
        )
        return
    offering_id, owner = rows[0]
    if own or owner is not None:
        raise AlreadyExists(
            "offering",
            f"The offering '{offering.identifier[:200]}' is there already and cannot be this procedure's own.",
        )
    ((place,),) = tx.rows(entities.LAST_PLACE, (offering_id,))
    tx.rows(entities.JOIN_OFFERING, (offering_id, place + 1, procedure_id, generation))
    tx.rows(entities.TOUCH_OFFERING, (generation, offering_id))
