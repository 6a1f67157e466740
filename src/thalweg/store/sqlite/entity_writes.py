"""Writing single catalogue entities inside a transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from thalweg.domain.catalogue import (
    DEFAULT_WORKSPACE,
    Feature,
    ObservedProperty,
    Offering,
    Unit,
    Workspace,
)
from thalweg.domain.errors import AlreadyExists, InvalidParameter, NotFound
from thalweg.store.sqlite.entities import constraint_text, geometry_text, new_uuid, workspace_document
from thalweg.store.sqlite.writer import Transaction

RAISE_GENERATION: Final = "UPDATE workspace SET generation = generation + 1 WHERE id = ? RETURNING generation"

FIND_UNIT: Final = "SELECT id FROM unit WHERE workspace_id = ? AND code = ?"
INSERT_UNIT: Final = """
    INSERT INTO unit (code, description, generation, workspace_id) VALUES (?, ?, ?, ?) RETURNING id"""
UPDATE_UNIT: Final = """
    UPDATE unit SET code = ?, description = ?, generation = ? WHERE workspace_id = ? AND id = ? RETURNING id"""

FIND_PROPERTY: Final = "SELECT id FROM observed_property WHERE workspace_id = ? AND identifier = ?"
INSERT_PROPERTY: Final = """
    INSERT INTO observed_property (uuid, identifier, name, description, value_constraint, generation, workspace_id)
    VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id"""
UPDATE_PROPERTY: Final = """
    UPDATE observed_property
    SET uuid = ?, identifier = ?, name = ?, description = ?, value_constraint = ?, generation = ?
    WHERE workspace_id = ? AND id = ? RETURNING id"""

FIND_FEATURE: Final = "SELECT id FROM feature WHERE workspace_id = ? AND identifier = ?"
HAS_FEATURE: Final = "SELECT 1 FROM feature WHERE workspace_id = ? AND id = ?"
INSERT_FEATURE: Final = """
    INSERT INTO feature
        (uuid, identifier, name, description, type_uri, sampled, geometry, generation, workspace_id)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"""
UPDATE_FEATURE: Final = """
    UPDATE feature
    SET uuid = ?, identifier = ?, name = ?, description = ?, type_uri = ?, sampled = ?, geometry = ?, generation = ?
    WHERE workspace_id = ? AND id = ? RETURNING id"""

FIND_OFFERING: Final = "SELECT id, procedure_id FROM offering WHERE workspace_id = ? AND identifier = ?"
GET_OFFERING: Final = "SELECT procedure_id FROM offering WHERE workspace_id = ? AND id = ?"
INSERT_OFFERING: Final = """
    INSERT INTO offering (uuid, identifier, name, description, procedure_id, active, public, members_generation,
                          generation, workspace_id)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"""
UPDATE_OFFERING: Final = """
    UPDATE offering
    SET uuid = ?, identifier = ?, name = ?, description = ?, procedure_id = ?, active = ?, public = ?,
        members_generation = ?, generation = ?
    WHERE workspace_id = ? AND id = ? RETURNING id"""
TOUCH_OFFERING: Final = "UPDATE offering SET generation = ? WHERE id = ?"
TOUCH_MEMBERS: Final = "UPDATE offering SET generation = ?1, members_generation = ?1 WHERE id = ?2"
DELETE_OFFERING: Final = "DELETE FROM offering WHERE id = ?"
MEMBERS: Final = "SELECT procedure_id FROM offering_procedure WHERE offering_id = ? ORDER BY place"
LAST_PLACE: Final = "SELECT coalesce(max(place), 0) FROM offering_procedure WHERE offering_id = ?"
JOIN_OFFERING: Final = """
    INSERT INTO offering_procedure (offering_id, place, procedure_id, generation) VALUES (?, ?, ?, ?)"""
EMPTY_OFFERING: Final = "DELETE FROM offering_procedure WHERE offering_id = ?"
TOUCH_PROCEDURE: Final = "UPDATE procedure SET generation = ? WHERE workspace_id = ? AND id = ? RETURNING id"

INSERT_DELETION: Final = """
    INSERT INTO deletion (workspace_id, generation, kind, entity_id) VALUES (?, ?, ?, ?)"""

RAISE_ACCESS: Final = "UPDATE counter SET value = value + 1 WHERE name = 'access'"
DELETE_GRANTS_ON: Final = """
    DELETE FROM role_grant WHERE workspace_id = ? AND kind = ? AND entity_id = ? RETURNING principal"""
MOVE_GRANTS: Final = """
    UPDATE OR REPLACE role_grant SET entity_id = ?4 WHERE workspace_id = ?1 AND kind = ?2 AND entity_id = ?3
    RETURNING principal"""

FIND_WORKSPACE: Final = "SELECT id FROM workspace WHERE name = ?"
GET_WORKSPACE: Final = "SELECT name, generation FROM workspace WHERE id = ?"
INSERT_WORKSPACE: Final = "INSERT INTO workspace (uuid, name, generation, document) VALUES (?, ?, 1, ?) RETURNING id"
UPDATE_WORKSPACE: Final = "UPDATE workspace SET uuid = ?, name = ?, generation = ?, document = ? WHERE id = ?"


def raise_generation(tx: Transaction, workspace_id: int) -> int:
    """The workspace's next generation, for what this request changes. Raises NotFound."""
    rows = tx.rows(RAISE_GENERATION, (workspace_id,))
    if not rows:
        raise NotFound("workspace", f"There is no workspace with the number {workspace_id}.")
    return int(rows[0][0])


def refuse_taken(
    tx: Transaction, table: str, workspace_id: int, own_id: int, parameter: str, what: str, keys: dict[str, str]
) -> None:
    """Raise AlreadyExists if another entity has one of the keys.

    table      a name of this module's, never one from outside
    keys       the value wanted by column; an empty one is never taken
    """
    for column, value in keys.items():
        if not value:
            continue
        sql = f"SELECT 1 FROM {table} WHERE workspace_id = ? AND {column} = ? AND id <> ?"  # noqa: S608
        if tx.rows(sql, (workspace_id, value, own_id)):
            word = {"assigned_id": "assigned id"}.get(column, column)
            raise AlreadyExists(parameter, f"There is a {what} with the {word} '{value[:200]}' already.")


def refuse_taken_uuid(
    tx: Transaction, table: str, uuid: str, own_id: int, parameter: str, *, by_name: bool = False
) -> str:
    """The uuid, for an empty text the stored one or a new one; uuids are unique in the whole store.

    by_name  entities of the table are found by their uuid or their name, too: one that is another's name would hide it
    """
    if not uuid:
        rows = tx.rows(f"SELECT uuid FROM {table} WHERE id = ?", (own_id,))  # noqa: S608
        return str(rows[0][0]) if rows else new_uuid()
    name = "name" if by_name else "NULL"
    sql = f"SELECT 1 FROM {table} WHERE (uuid = ?1 OR {name} = ?1) AND id <> ?2"  # noqa: S608
    if tx.rows(sql, (uuid, own_id)):
        raise AlreadyExists(parameter, f"The UUID {uuid[:60]} is in use already.")
    return uuid


def require(value: str, parameter: str, what: str) -> None:
    if not value:
        raise InvalidParameter(parameter, f"A {what} needs an identifier and a name, neither of them empty.")


def put_workspace(tx: Transaction, workspace: Workspace) -> Workspace:
    """Create (id 0) or change. Raises AlreadyExists, NotFound, InvalidParameter."""
    require(workspace.name, "workspace", "workspace")
    for (other,) in tx.rows(FIND_WORKSPACE, (workspace.name,)):
        if other != workspace.id:
            raise AlreadyExists("workspace", f"There is a workspace '{workspace.name[:200]}' already.")
    uuid = refuse_taken_uuid(tx, "workspace", workspace.uuid, workspace.id, "uuid", by_name=True)
    document = workspace_document(workspace)
    if workspace.id == 0:
        ((workspace_id,),) = tx.rows(INSERT_WORKSPACE, (uuid, workspace.name, document))
        return replace(workspace, id=workspace_id, uuid=uuid, generation=1)
    rows = tx.rows(GET_WORKSPACE, (workspace.id,))
    if not rows:
        raise NotFound("workspace", f"There is no workspace with the number {workspace.id}.")
    if rows[0][0] == DEFAULT_WORKSPACE and workspace.name != DEFAULT_WORKSPACE:
        raise InvalidParameter("workspace", f"The workspace '{DEFAULT_WORKSPACE}' keeps its name.")
    generation = rows[0][1] + 1
    tx.rows(UPDATE_WORKSPACE, (uuid, workspace.name, generation, document, workspace.id))
    return replace(workspace, uuid=uuid, generation=generation)


def put_unit(tx: Transaction, workspace_id: int, unit: Unit, generation: int) -> Unit:
    # The empty code is a unit too: that of texts and booleans.
    for (other,) in tx.rows(FIND_UNIT, (workspace_id, unit.code)):
        if other != unit.id:
            raise AlreadyExists("uom", f"There is a unit with the code '{unit.code[:200]}' already.")
    values = (unit.code, unit.description, generation, workspace_id)
    return replace(unit, id=_stored(tx, INSERT_UNIT, UPDATE_UNIT, values, unit.id, "uom", "unit"))


def put_property(
    tx: Transaction, workspace_id: int, observed_property: ObservedProperty, generation: int
) -> ObservedProperty:
    this = observed_property
    parameter, what = "observedProperty", "observed property"
    require(this.identifier and this.name, parameter, what)
    keys = {"identifier": this.identifier, "name": this.name}
    refuse_taken(tx, "observed_property", workspace_id, this.id, parameter, what, keys)
    uuid = refuse_taken_uuid(tx, "observed_property", this.uuid, this.id, parameter)
    values = (
        uuid, this.identifier, this.name, this.description, constraint_text(this.constraint), generation, workspace_id
    )  # fmt: skip
    number = _stored(tx, INSERT_PROPERTY, UPDATE_PROPERTY, values, this.id, parameter, what)
    return replace(this, id=number, uuid=uuid)


def put_feature(tx: Transaction, workspace_id: int, feature: Feature, generation: int) -> Feature:
    parameter, what = "featureOfInterest", "feature of interest"
    require(feature.identifier and feature.name, parameter, what)
    keys = {"identifier": feature.identifier, "name": feature.name}
    refuse_taken(tx, "feature", workspace_id, feature.id, parameter, what, keys)
    uuid = refuse_taken_uuid(tx, "feature", feature.uuid, feature.id, parameter)
    values = (
        uuid, feature.identifier, feature.name, feature.description, feature.type_uri, feature.sampled,
        geometry_text(feature.geometry), generation, workspace_id,
    )  # fmt: skip
    number = _stored(tx, INSERT_FEATURE, UPDATE_FEATURE, values, feature.id, parameter, what)
    return replace(feature, id=number, uuid=uuid)


def put_offering(tx: Transaction, workspace_id: int, offering: Offering, generation: int) -> Offering:
    """Create or change, membership included; procedures that joined or left get the generation too."""
    require(offering.identifier and offering.name, "offering", "offering")
    keys = {"identifier": offering.identifier, "name": offering.name}
    refuse_taken(tx, "offering", workspace_id, offering.id, "offering", "offering", keys)
    uuid = refuse_taken_uuid(tx, "offering", offering.uuid, offering.id, "offering")
    members = tuple(dict.fromkeys(offering.procedure_ids))
    if offering.id:
        rows = tx.rows(GET_OFFERING, (workspace_id, offering.id))
        if not rows:
            raise NotFound("offering", f"There is no offering with the number {offering.id}.")
        if rows[0][0] != offering.procedure_id:
            raise InvalidParameter("offering", "An offering cannot change whether it belongs to one procedure alone.")
    if offering.procedure_id is not None and members != (offering.procedure_id,):
        raise InvalidParameter("offering", "A procedure's own offering has that procedure as its only member.")
    values = (
        uuid, offering.identifier, offering.name, offering.description, offering.procedure_id, int(offering.active),
        int(offering.public), generation, generation, workspace_id,
    )  # fmt: skip
    number = _stored(tx, INSERT_OFFERING, UPDATE_OFFERING, values, offering.id, "offering", "offering")
    before = {procedure_id for (procedure_id,) in tx.rows(MEMBERS, (number,))}
    tx.rows(EMPTY_OFFERING, (number,))
    for procedure_id in before.symmetric_difference(members):
        if not tx.rows(TOUCH_PROCEDURE, (generation, workspace_id, procedure_id)):
            raise NotFound("procedure", f"There is no procedure with the number {procedure_id}.")
    tx.many(JOIN_OFFERING, [(number, place, member, generation) for place, member in enumerate(members, 1)])
    return replace(offering, id=number, uuid=uuid, procedure_ids=members)


def delete_offering(tx: Transaction, workspace_id: int, offering_id: int) -> None:
    """Remove a network offering. Raises NotFound, InvalidParameter."""
    rows = tx.rows(GET_OFFERING, (workspace_id, offering_id))
    if not rows:
        raise NotFound("offering", f"There is no offering with the number {offering_id}.")
    if rows[0][0] is not None:
        raise InvalidParameter("offering", "A procedure's own offering goes with its procedure, not alone.")
    generation = raise_generation(tx, workspace_id)
    for (procedure_id,) in tx.rows(MEMBERS, (offering_id,)):
        tx.rows(TOUCH_PROCEDURE, (generation, workspace_id, procedure_id))
    drop_offering(tx, workspace_id, offering_id, generation)


def drop_offering(tx: Transaction, workspace_id: int, offering_id: int, generation: int) -> None:
    tx.rows(EMPTY_OFFERING, (offering_id,))
    tx.rows(DELETE_OFFERING, (offering_id,))
    drop_grants_on(tx, workspace_id, "offering", offering_id)
    tx.rows(INSERT_DELETION, (workspace_id, generation, "offering", offering_id))


def drop_grants_on(tx: Transaction, workspace_id: int, kind: str, number: int) -> None:
    """Take away what is granted on a dataset that goes."""
    _tell_changed(tx, workspace_id, tx.rows(DELETE_GRANTS_ON, (workspace_id, kind, number)))


def move_grants(tx: Transaction, workspace_id: int, kind: str, number: int, other: int) -> None:
    """Have what is granted on a dataset that goes be granted on the one that takes its place."""
    _tell_changed(tx, workspace_id, tx.rows(MOVE_GRANTS, (workspace_id, kind, number, other)))


def _tell_changed(tx: Transaction, workspace_id: int, principals: list[tuple[str]]) -> None:
    """What everybody is granted is part of the workspace's catalogue, what users are, of what is remembered of them."""
    if any(name for (name,) in principals):
        tx.rows(RAISE_ACCESS)
    if any(not name for (name,) in principals):
        raise_generation(tx, workspace_id)


def ensure_feature(tx: Transaction, workspace_id: int, feature: Feature, generation: int | None = None) -> int:
    """The id of a stored feature; one with an unknown identifier is stored, a known one is used as it is.

    feature     ``id`` > 0 names a stored one
    generation  of the request; None: raised only if the feature has to be stored
    raises      NotFound, AlreadyExists (the name)
    """
    if feature.id:
        if not tx.rows(HAS_FEATURE, (workspace_id, feature.id)):
            raise NotFound("featureOfInterest", f"There is no feature of interest with the number {feature.id}.")
        return feature.id
    rows = tx.rows(FIND_FEATURE, (workspace_id, feature.identifier))
    if rows:
        return int(rows[0][0])
    if generation is None:
        generation = raise_generation(tx, workspace_id)
    return put_feature(tx, workspace_id, feature, generation).id


def _stored(
    tx: Transaction, insert: str, update: str, values: tuple[object, ...], number: int, parameter: str, what: str
) -> int:
    """Insert (number 0) or update one row; its id. Raises NotFound."""
    rows = tx.rows(update, (*values, number)) if number else tx.rows(insert, values)
    if not rows:
        raise NotFound(parameter, f"There is no {what} with the number {number}.")
    return int(rows[0][0])
