"""Schemas of collections: all properties (OGC 23-058r1), queryables (OGC 19-079r2), sortables; functions of filters."""

from __future__ import annotations

from typing import Any, Final

from thalweg.domain.features import Field, FieldKind, GeometryKind, Layer
from thalweg.domain.filter_functions import FUNCTIONS
from thalweg.domain.filters import Kind
from thalweg.doors.features.context import Context, link
from thalweg.doors.features.query import ITEMS_PARAMETERS, temporal_field

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_TYPES: Final[dict[FieldKind, dict[str, Any]]] = {
    FieldKind.TEXT: {"type": "string"},
    FieldKind.INTEGER: {"type": "integer"},
    FieldKind.NUMBER: {"type": "number"},
    FieldKind.BOOLEAN: {"type": "boolean"},
    FieldKind.DATE: {"type": "string", "format": "date"},
    FieldKind.DATETIME: {"type": "string", "format": "date-time"},
}
_GEOMETRIES: Final = {
    GeometryKind.GEOMETRY: "geometry-any",
    GeometryKind.POINT: "geometry-point",
    GeometryKind.LINESTRING: "geometry-linestring",
    GeometryKind.POLYGON: "geometry-polygon",
    GeometryKind.MULTIPOINT: "geometry-multipoint",
    GeometryKind.MULTILINESTRING: "geometry-multilinestring",
    GeometryKind.MULTIPOLYGON: "geometry-multipolygon",
    GeometryKind.GEOMETRYCOLLECTION: "geometry-geometrycollection",
}
_FUNCTION_TYPES: Final = {
    Kind.TEXT: "string",
    Kind.INTEGER: "integer",
    Kind.REAL: "number",
    Kind.BOOLEAN: "boolean",
    Kind.DATE: "date",
    Kind.INSTANT: "datetime",
    Kind.GEOMETRY: "geometry",
}


def field_schema(field: Field) -> dict[str, Any]:
    """A property as JSON Schema."""
    schema = dict(_TYPES[field.kind])
    if field.title:
        schema["title"] = field.title
    if field.kind is FieldKind.TEXT and field.length:
        schema["maxLength"] = field.length
    return schema


def schema(context: Context, layer: Layer) -> dict[str, Any]:
    """What a feature's properties are, with the roles of geometry, id and time."""
    time = temporal_field(layer)
    properties: dict[str, Any] = {}
    if layer.field("id") is None:
        properties["id"] = {"type": "string", "x-ogc-role": "id", "readOnly": True}
    if layer.has_geometry:
        properties[layer.geometry_field] = {
            "x-ogc-role": "primary-geometry",
            "format": _GEOMETRIES[layer.geometry_kind],
        }
    for number, field in enumerate(layer.fields, 1):
        properties[field.name] = {**field_schema(field), "x-ogc-propertySeq": number}
        if time is not None and field.name == time.name:
            properties[field.name]["x-ogc-role"] = "primary-instant"
    required = [field.name for field in layer.fields if field.required]
    return _document(context, layer, "schema", properties, required=required)


def queryables(context: Context, layer: Layer) -> dict[str, Any]:
    """What filters may name; each but the geometry is a query parameter, too."""
    properties: dict[str, Any] = {}
    if layer.has_geometry:
        properties[layer.geometry_field] = {
            "title": "Geometry",
            "format": _GEOMETRIES[layer.geometry_kind],
            "x-ogc-role": "primary-geometry",
        }
    properties |= {field.name: field_schema(field) for field in layer.fields}
    if layer.field("id") is None:
        properties["id"] = {"title": "Id of the feature", "type": "string", "x-ogc-role": "id"}
    return _document(context, layer, "queryables", properties)


def sortables(context: Context, layer: Layer) -> dict[str, Any]:
    """What ``sortby`` may name."""
    properties = {field.name: field_schema(field) for field in layer.fields}
    if layer.field("id") is None:
        properties["id"] = {"title": "Id of the feature", "type": "string"}
    return _document(context, layer, "sortables", properties)


def _document(
    context: Context, layer: Layer, name: str, properties: dict[str, Any], *, required: list[str] | None = None
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "$schema": DIALECT,
        "$id": f"{context.collection_url(layer)}/{name}",
        "type": "object",
        "title": layer.title or layer.name,
    }
    if layer.description:
        found["description"] = layer.description
    found["properties"] = properties
    found["additionalProperties"] = False
    if required:
        found["required"] = required
    return found


def parameter_names(layer: Layer) -> list[Field]:
    """Fields that are query parameters of their own."""
    return [field for field in layer.fields if field.name not in ITEMS_PARAMETERS]


def functions(context: Context) -> dict[str, Any]:
    """Functions that filters may call (OGC 19-079r2 clause 10)."""
    listed = []
    for definition in FUNCTIONS.values():
        arguments = [
            {"title": f"argument {number}", "type": sorted({_FUNCTION_TYPES[kind] for kind in kinds})}
            for number, kinds in enumerate(definition.arguments, 1)
        ]
        returned = [definition.returns] if definition.returns else list(definition.arguments[0])
        listed.append(
            {
                "name": definition.name,
                "description": definition.description,
                "arguments": arguments,
                "returns": sorted({_FUNCTION_TYPES[kind] for kind in returned}),
            }
        )
    return {"functions": listed, "links": [link(f"{context.base_url}/functions", "self")]}
