"""The catalogue of layers: pictures kept by each process, creating, changing and deleting."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from thalweg.domain.access import Actor
from thalweg.domain.errors import AlreadyExists, InvalidParameter, NotFound
from thalweg.domain.features import MAX_FIELDS, Field, FieldKind, GeometryKind, Layer, StoredQuery
from thalweg.domain.xmlnames import is_ncname
from thalweg.store.sqlite.audit import differences, record
from thalweg.store.sqlite.connection import Readers
from thalweg.store.sqlite.entities import new_uuid
from thalweg.store.sqlite.entity_writes import drop_grants_on, move_grants
from thalweg.store.sqlite.layer_entities import SELECT_LAYERS, layer_document, layer_of
from thalweg.store.sqlite.layer_groups import FIRST_GROUP
from thalweg.store.sqlite.layer_tables import add_field_statement, create_statements, tables_of
from thalweg.store.sqlite.layer_writing import layer_in, no_layer
from thalweg.store.sqlite.published_layers import is_published
from thalweg.store.sqlite.writer import Transaction

GENERATION: Final = "SELECT generation FROM layer_catalogue WHERE workspace_id = ?"
RAISE_GENERATION: Final = """
    INSERT INTO layer_catalogue (workspace_id, generation) VALUES (?, 1)
    ON CONFLICT (workspace_id) DO UPDATE SET generation = generation + 1 RETURNING generation"""
WORKSPACE_OF: Final = "SELECT workspace_id FROM layer WHERE id = ?"
FIND_WORKSPACE: Final = "SELECT 1 FROM workspace WHERE id = ?"
FIND_NAME: Final = "SELECT id FROM layer WHERE workspace_id = ? AND name = ?"
FIND_UUID: Final = "SELECT id FROM layer WHERE uuid = ?"
INSERT_LAYER: Final = """
    INSERT INTO layer (workspace_id, uuid, name, generation, document) VALUES (?, ?, ?, ?, ?) RETURNING id"""
UPDATE_LAYER: Final = "UPDATE layer SET name = ?, generation = ?, document = ? WHERE id = ?"
DELETE_LAYER: Final = "DELETE FROM layer WHERE workspace_id = ? AND id = ? RETURNING name"
COUNT_FEATURES: Final = "SELECT count FROM layer_state WHERE layer_id = ?"
INSERT_STATE: Final = "INSERT INTO layer_state (layer_id, next_field) VALUES (?, ?)"
NEXT_FIELD: Final = "SELECT next_field, count FROM layer_state WHERE layer_id = ?"
SET_NEXT_FIELD: Final = "UPDATE layer_state SET next_field = ? WHERE layer_id = ?"
INSERT_REMOVAL: Final = "INSERT INTO layer_removal (layer_id) VALUES (?)"

SELECT_QUERIES: Final = """
    SELECT identifier, document FROM stored_query WHERE workspace_id = ? ORDER BY identifier"""
INSERT_QUERY: Final = """
    INSERT INTO stored_query (workspace_id, identifier, document) VALUES (?, ?, ?) ON CONFLICT DO NOTHING
    RETURNING 1"""
DELETE_QUERY: Final = "DELETE FROM stored_query WHERE workspace_id = ? AND identifier = ? RETURNING 1"
COUNT_QUERIES: Final = "SELECT count(*) FROM stored_query WHERE workspace_id = ?"

MAX_STORED_QUERIES: Final = 1_000
"""Of a workspace; they are listed in one document."""
MAX_QUERY_LENGTH: Final = 1_000_000
MAX_IDENTIFIER: Final = 500
MAX_NAME: Final = 100
"""Longest name of a layer or field, characters."""

_WIDER: Final = {
    GeometryKind.POINT: GeometryKind.MULTIPOINT,
    GeometryKind.LINESTRING: GeometryKind.MULTILINESTRING,
    GeometryKind.POLYGON: GeometryKind.MULTIPOLYGON,
}


class LayerReader:
    """Layers by workspace; a picture is shared by all threads until its generation rises."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._pictures: dict[int, tuple[int, dict[str, Layer]]] = {}
        self._by_id: dict[int, tuple[int, Layer]] = {}
        self._lock = threading.Lock()

    def layers(self, workspace_id: int) -> Mapping[str, Layer]:
        """See ``FeatureStore.layers``."""
        generation = self._generation(workspace_id)
        picture = self._pictures.get(workspace_id)
        if picture is not None and picture[0] == generation:
            return picture[1]
        with self._lock:
            reader = self._readers.mine()
            with reader.snapshot():
                rows = reader.rows(GENERATION, (workspace_id,))
                generation = rows[0][0] if rows else 0
                layers = {layer.name: layer for layer in map(layer_of, reader.rows(SELECT_LAYERS, (workspace_id,)))}
            self._pictures[workspace_id] = (generation, layers)
            known = {key: item for key, item in self._by_id.items() if item[1].workspace_id != workspace_id}
            known.update((layer.id, (generation, layer)) for layer in layers.values())
            self._by_id = known
        return layers

    def _generation(self, workspace_id: int) -> int:
        """Of the workspace's layers, 0 without any; asked once in a snapshot that is held."""
        reader = self._readers.mine()
        known = reader.known
        if known is not None:
            found: int | None = known.get(("layers", workspace_id))
            if found is not None:
                return found
        rows = reader.rows(GENERATION, (workspace_id,))
        generation: int = rows[0][0] if rows else 0
        if known is not None:
            known["layers", workspace_id] = generation
        return generation

    def layer(self, layer_id: int) -> Layer:
        """A layer by its number, as of the last commit. Raises NotFound ``layer``."""
        found = self._by_id.get(layer_id)
        if found is not None:
            generation, layer = found
            if self._generation(layer.workspace_id) == generation:
                return layer
        rows = self._readers.rows(WORKSPACE_OF, (layer_id,))
        if not rows:
            raise no_layer(layer_id)
        for layer in self.layers(rows[0][0]).values():
            if layer.id == layer_id:
                return layer
        raise no_layer(layer_id)

    def stored_queries(self, workspace_id: int) -> dict[str, StoredQuery]:
        rows = self._readers.rows(SELECT_QUERIES, (workspace_id,))
        return {identifier: StoredQuery(workspace_id, identifier, document) for identifier, document in rows}


# ---------------------------------------------------------------- checks


def check_layer(layer: Layer) -> None:
    """What needs no store. Raises InvalidParameter naming the field."""
    _check_name("name", layer.name)
    if layer.id_prefix:
        _check_name("id_prefix", layer.id_prefix)
    if layer.has_geometry:
        _check_name("geometry_field", layer.geometry_field)
    if layer.dimensions not in (2, 3):
        raise InvalidParameter("dimensions", f"A layer has 2 or 3 dimensions, not {layer.dimensions}.")
    if not 0 < layer.srid < 1_000_000:
        raise InvalidParameter("srid", f"{layer.srid} is no EPSG code.")
    if len(layer.fields) > MAX_FIELDS:
        raise InvalidParameter("fields", f"A layer has at most {MAX_FIELDS} fields, not {len(layer.fields)}.")
    taken = {layer.geometry_field.casefold()} if layer.has_geometry else set()
    for field in layer.fields:
        if field.of_gml:
            if field.kind is not FieldKind.TEXT or field.required or field.length:
                raise InvalidParameter("fields", f"'{field.name}' is a text, of any length, that may be missing.")
        else:
            _check_name("fields", field.name)
        if field.name.casefold() in taken:
            raise InvalidParameter("fields", f"The name '{field.name}' is there twice (case does not count).")
        taken.add(field.name.casefold())
        if field.length < 0:
            raise InvalidParameter("fields", f"The field '{field.name}' has the length {field.length}.")


def _check_name(parameter: str, name: str) -> None:
    if len(name) > MAX_NAME or not is_ncname(name):
        raise InvalidParameter(
            parameter,
            f"'{name[:MAX_NAME]}' is no name for an XML element: letters, digits, '.', '-', '_', beginning with a "
            f"letter or '_', at most {MAX_NAME} characters.",
        )


# ---------------------------------------------------------------- inside a transaction


def raise_generation(tx: Transaction, workspace_id: int) -> int:
    """Raises NotFound."""
    if not tx.rows(FIND_WORKSPACE, (workspace_id,)):
        raise NotFound("workspace", f"There is no workspace with the number {workspace_id}.")
    return int(tx.rows(RAISE_GENERATION, (workspace_id,))[0][0])


def put_layer(tx: Transaction, layer: Layer, replaces: int = 0, by: Actor | str = "") -> Layer:
    """See ``FeatureStore.put_layer``; the layer has passed ``check_layer``."""
    workspace_id = layer.workspace_id
    generation = raise_generation(tx, workspace_id)
    if replaces:
        if replaces == layer.id:
            raise InvalidParameter("replaces", "A layer cannot take its own place.")
        name = _remove(tx, workspace_id, replaces)
        record(tx, by, "delete layer", name, "another one takes its place", workspace_id)
    for (taken,) in tx.rows(FIND_NAME, (workspace_id, layer.name)):
        if taken != layer.id:
            raise AlreadyExists("name", f"There is a layer '{layer.name}' already.")
    if layer.id == 0:
        stored = _create(tx, layer, generation)
        record(tx, by, "add layer", stored.name, "" if stored.public else "private", workspace_id)
    else:
        before = layer_in(tx, layer.id)
        stored = _change(tx, layer, generation)
        record(tx, by, "change layer", stored.name, _changes(before, stored), workspace_id)
    if replaces:
        move_grants(tx, workspace_id, "layer", replaces, stored.id)
    return stored


def _changes(before: Layer, after: Layer) -> str:
    """What was changed, for the audit log."""
    detail = differences(before, after, leave_out=("id", "uuid", "generation", "schema_version", "fields"))
    if before.fields != after.fields:
        old, new = (", ".join(field.name for field in layer.fields) for layer in (before, after))
        detail += f"; fields: {old} -> {new}" if old != new else "; fields"
    return detail.removeprefix("; ")


def _create(tx: Transaction, layer: Layer, generation: int) -> Layer:
    fields = tuple(replace(field, number=number) for number, field in enumerate(layer.fields, 1))
    uuid = layer.uuid or new_uuid()
    if tx.rows(FIND_UUID, (uuid,)):
        raise AlreadyExists("uuid", f"There is a layer with the UUID {uuid} already.")
    made = replace(
        layer, uuid=uuid, fields=fields, id_prefix=layer.id_prefix or layer.name, schema_version=1,
        generation=generation,
    )  # fmt: skip
    ((layer_id,),) = tx.rows(INSERT_LAYER, (made.workspace_id, uuid, made.name, generation, layer_document(made)))
    tx.rows(INSERT_STATE, (layer_id, len(fields) + 1))
    tx.rows(FIRST_GROUP, (layer_id,))
    for statement in create_statements(layer_id, fields):
        tx.rows(statement)
    return replace(made, id=layer_id)


def _change(tx: Transaction, layer: Layer, generation: int) -> Layer:
    old = layer_in(tx, layer.id)
    if old.workspace_id != layer.workspace_id:
        raise no_layer(layer.id)
    ((next_field, count),) = tx.rows(NEXT_FIELD, (layer.id,))
    _check_change(old, layer, count)
    known = {field.number: field for field in old.fields}
    fields: list[Field] = []
    for field in layer.fields:
        if field.of_gml and (kept := old.field(field.name)) is not None:
            field = replace(field, number=kept.number)
        if field.number == 0:
            if field.required and count:
                raise InvalidParameter("fields", f"'{field.name}' cannot be required: there are features without it.")
            field = replace(field, number=next_field)
            next_field += 1
            tx.rows(add_field_statement(layer.id, field))
        else:
            before = known.pop(field.number, None)
            if before is None:
                raise InvalidParameter("fields", f"There is no field with the number {field.number} ('{field.name}').")
            _check_field(tx, layer, before, field, count)
        fields.append(field)
    # Those of GML stay: the fragments of their features do not depend on them but by their values.
    fields += [field for field in known.values() if field.of_gml]
    known = {number: field for number, field in known.items() if not field.of_gml}
    if known and is_published(tx, layer.id):
        gone = ", ".join(f"'{field.name}'" for field in known.values())
        raise InvalidParameter(
            "fields", f"{gone} cannot go while an event stream publishes the layer: its pages keep every value."
        )
    # The columns of fields that are gone stay, empty of meaning: taking them out would write the whole table anew.
    tx.rows(SET_NEXT_FIELD, (next_field, layer.id))
    changed = replace(
        layer, uuid=old.uuid, fields=tuple(fields), id_prefix=layer.id_prefix or old.id_prefix, generation=generation,
        schema_version=old.schema_version,
    )  # fmt: skip
    if _shape(changed) != _shape(old):
        changed = replace(changed, schema_version=old.schema_version + 1)
    tx.rows(UPDATE_LAYER, (changed.name, generation, layer_document(changed), layer.id))
    return changed


def _shape(layer: Layer) -> tuple[object, ...]:
    """What fragments depend on."""
    return (
        layer.name, layer.id_prefix, layer.srid, layer.geometry_field, layer.geometry_kind, layer.dimensions,
        tuple((field.name, field.kind, field.number) for field in layer.own_fields),
    )  # fmt: skip


def _check_change(old: Layer, new: Layer, count: int) -> None:
    if not count:
        return
    for name in ("srid", "dimensions"):
        if getattr(old, name) != getattr(new, name):
            raise InvalidParameter(name, f"The {name} of a layer that has features cannot be changed.")
    kinds = (new.geometry_kind, old.geometry_kind)
    wider = new.geometry_kind is GeometryKind.GEOMETRY and old.has_geometry
    if kinds[0] is not kinds[1] and not wider and _WIDER.get(old.geometry_kind) is not new.geometry_kind:
        raise InvalidParameter(
            "geometry_kind",
            f"The layer has features of the kind {old.geometry_kind.value or 'without geometry'}; its kind can only "
            "become one that takes them.",
        )


def _check_field(tx: Transaction, layer: Layer, old: Field, new: Field, count: int) -> None:
    if old.kind is not new.kind:
        raise InvalidParameter("fields", f"'{new.name}' is of the kind {old.kind}; a field's kind cannot be changed.")
    if count and (new.required and not old.required):
        raise InvalidParameter("fields", f"'{new.name}' cannot be made required while the layer has features.")
    if count and new.length and (not old.length or new.length < old.length):
        raise InvalidParameter("fields", f"'{new.name}' cannot be made shorter while the layer has features.")


def delete_layer(tx: Transaction, workspace_id: int, layer_id: int, by: Actor | str = "") -> None:
    """The first step: gone for every reader, and nothing is granted on it any more."""
    ((count,),) = tx.rows(COUNT_FEATURES, (layer_id,)) or [(0,)]
    name = _remove(tx, workspace_id, layer_id)
    raise_generation(tx, workspace_id)
    drop_grants_on(tx, workspace_id, "layer", layer_id)
    record(tx, by, "delete layer", name, f"features: {count:,}", workspace_id)


def _remove(tx: Transaction, workspace_id: int, layer_id: int) -> str:
    """Take it out of the catalogue; its name. Raises NotFound."""
    rows = tx.rows(DELETE_LAYER, (workspace_id, layer_id))
    if not rows:
        raise no_layer(layer_id)
    tx.rows(INSERT_REMOVAL, (layer_id,))
    return str(rows[0][0])


# ---------------------------------------------------------------- removal in steps

REMOVALS: Final = "SELECT layer_id FROM layer_removal ORDER BY layer_id"
HAS_TABLE: Final = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
SHARED_TABLES: Final = ("layer_change", "feature_lock_member", "layer_group", "layer_state")
REMOVAL_STEP: Final = 2_000
"""Rows removed in one transaction; some ten milliseconds."""


def removal_step(tx: Transaction, layer_id: int) -> bool:
    """Remove some rows of a layer that is gone; whether there may be more."""
    for table in tables_of(layer_id):
        if not tx.rows(HAS_TABLE, (table,)):
            continue
        ids = tx.rows(f"SELECT id FROM {table} LIMIT {REMOVAL_STEP}")
        tx.many(f"DELETE FROM {table} WHERE id = ?", ids)
        if ids:
            return True
        tx.rows(f"DROP TABLE {table}")
    for table in SHARED_TABLES:
        key = {"layer_change": "sequence", "feature_lock_member": "number", "layer_group": "first"}.get(table)
        if key is None:
            tx.rows(f"DELETE FROM {table} WHERE layer_id = ?", (layer_id,))
            continue
        text = (
            f"DELETE FROM {table} WHERE layer_id = ?1 AND {key} IN "
            f"(SELECT {key} FROM {table} WHERE layer_id = ?1 LIMIT {REMOVAL_STEP}) RETURNING 1"
        )
        if tx.rows(text, (layer_id,)):
            return True
    tx.rows("DELETE FROM layer_removal WHERE layer_id = ?", (layer_id,))
    return False


# ---------------------------------------------------------------- stored queries


def put_stored_query(tx: Transaction, query: StoredQuery, by: Actor | str = "") -> None:
    """See ``FeatureStore.put_stored_query``."""
    if not query.identifier or len(query.identifier) > MAX_IDENTIFIER:
        raise InvalidParameter("id", f"An id has 1 to {MAX_IDENTIFIER} characters.")
    if len(query.document) > MAX_QUERY_LENGTH:
        raise InvalidParameter("id", f"The query has more than {MAX_QUERY_LENGTH:,} characters.")
    raise_generation(tx, query.workspace_id)
    if tx.rows(COUNT_QUERIES, (query.workspace_id,))[0][0] >= MAX_STORED_QUERIES:
        raise InvalidParameter("id", f"There are {MAX_STORED_QUERIES} stored queries already; drop some first.")
    if not tx.rows(INSERT_QUERY, (query.workspace_id, query.identifier, query.document)):
        raise AlreadyExists("id", f"There is a stored query '{query.identifier}' already.")
    record(tx, by, "add stored query", query.identifier, "", query.workspace_id)


def delete_stored_query(tx: Transaction, workspace_id: int, identifier: str, by: Actor | str = "") -> None:
    if not tx.rows(DELETE_QUERY, (workspace_id, identifier)):
        raise NotFound("id", f"There is no stored query '{identifier[:200]}'.")
    raise_generation(tx, workspace_id)
    record(tx, by, "delete stored query", identifier, "", workspace_id)
