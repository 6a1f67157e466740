"""Layers and their states to and from rows."""

from __future__ import annotations

from typing import Any, Final

import orjson

from thalweg.domain.features import Field, FieldKind, GeometryKind, Layer, LayerState
from thalweg.domain.geometry import Envelope
from thalweg.store.sqlite.connection import Row
from thalweg.store.sqlite.entities import to_json

SELECT_LAYER: Final = "SELECT id, workspace_id, uuid, name, generation, document FROM layer WHERE id = ?"
SELECT_LAYERS: Final = """
    SELECT id, workspace_id, uuid, name, generation, document FROM layer WHERE workspace_id = ? ORDER BY name"""
SELECT_STATE: Final = """
    SELECT s.layer_id, s.generation, s.count, s.min_x, s.min_y, s.max_x, s.max_y, s.changed_us, s.sequence, s.stamp
    FROM layer l JOIN layer_state s ON s.layer_id = l.id WHERE l.id = ?"""
SELECT_STATES: Final = """
    SELECT s.layer_id, s.generation, s.count, s.min_x, s.min_y, s.max_x, s.max_y, s.changed_us, s.sequence, s.stamp
    FROM layer l JOIN layer_state s ON s.layer_id = l.id WHERE l.workspace_id = ?"""

STAMPS: Final = """
    SELECT s.layer_id, s.stamp FROM layer l JOIN layer_state s ON s.layer_id = l.id
    WHERE l.workspace_id = ? AND s.count > 0"""

_PLAIN: Final = (
    "title", "description", "licence", "attribution", "public", "srid", "geometry_field", "dimensions", "id_prefix",
    "schema_version",
)  # fmt: skip


def layer_document(layer: Layer) -> str:
    document: dict[str, Any] = {name: getattr(layer, name) for name in _PLAIN}
    document["keywords"] = list(layer.keywords)
    document["geometry_kind"] = layer.geometry_kind.value
    document["fields"] = [
        {
            "name": field.name,
            "kind": field.kind.value,
            "number": field.number,
            "title": field.title,
            "length": field.length,
            "required": field.required,
        }
        for field in layer.fields
    ]
    return to_json(document, "layer")


def layer_of(row: Row) -> Layer:
    """Columns: id, workspace_id, uuid, name, generation, document."""
    layer_id, workspace_id, uuid, name, generation, text = row
    document = orjson.loads(text)
    fields = tuple(Field(**{**item, "kind": FieldKind(item["kind"])}) for item in document.pop("fields"))
    return Layer(
        id=layer_id,
        uuid=uuid,
        workspace_id=workspace_id,
        name=name,
        generation=generation,
        fields=fields,
        keywords=tuple(document.pop("keywords")),
        geometry_kind=GeometryKind(document.pop("geometry_kind")),
        **document,
    )


def state_of(row: Row, srid: int) -> LayerState:
    """Columns: layer_id, generation, count, min_x, min_y, max_x, max_y, changed_us, sequence (and more)."""
    layer_id, generation, count, min_x, min_y, max_x, max_y, changed_us, sequence = row[:9]
    extent = None if min_x is None else Envelope(min_x, min_y, max_x, max_y, srid)
    return LayerState(layer_id, generation, count, extent, changed_us, sequence)
