"""Features that come in: a GeoJSON Feature as values of a layer's fields and a geometry in its CRS."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

import orjson

from thalweg.domain.errors import InvalidParameter, InvalidRequest
from thalweg.domain.features import Field, FieldKind, Layer, Value
from thalweg.domain.filter_functions import days_of
from thalweg.domain.filters import GeometryValue
from thalweg.domain.time import parse_instant
from thalweg.encode.crs import CrsName
from thalweg.encode.filters.cql2_json import check_json_depth
from thalweg.encode.filters.text import in_crs
from thalweg.encode.geojson_input import read_geojson
from thalweg.services.filter_crs import to_store

MAX_JSON_DEPTH: Final = 40
"""Deepest nesting of a body: a multipolygon in nested collections takes about twenty."""
_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class GivenFeature:
    """What a body says.

    values        by field name, of the fields that it names
    has_geometry  whether it names a geometry; ``geometry``: its WKB in the layer's CRS, None for null
    """

    values: dict[str, Value]
    has_geometry: bool
    geometry: bytes | None


def read_feature_body(body: bytes, layer: Layer, crs: CrsName, *, partial: bool) -> GivenFeature:
    """Read a Feature (or, ``partial``, a merge patch of one, RFC 7396).

    crs     of the geometry's coordinates
    raises  InvalidRequest for what is no JSON or no Feature; InvalidParameter naming the property; TooLarge
    """
    check_json_depth(body, MAX_JSON_DEPTH, "body")
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"The body is no JSON: {str(error)[:200]}.", parameter="body") from None
    if not isinstance(document, dict):
        raise InvalidRequest("The body is no GeoJSON Feature.", parameter="body")
    kind = document.get("type")
    if kind != "Feature" and not (partial and kind is None):
        raise InvalidRequest(f"The body is of type '{str(kind)[:40]}'; one Feature is expected.", parameter="type")
    properties = document.get("properties", {})
    if properties is None:
        properties = {}
    if not isinstance(properties, dict):
        raise InvalidParameter("properties", "The properties of a Feature are an object or null.")
    values: dict[str, Value] = {}
    for name, value in properties.items():
        field = layer.field(name)
        if field is None:
            known = ", ".join(item.name for item in layer.fields)[:500]
            raise InvalidParameter(name[:100], f"'{layer.name}' has no property '{name[:60]}'; it has {known}.")
        values[name] = value_of(value, field)
    given = "geometry" in document
    if not given and not partial and layer.has_geometry:
        raise InvalidParameter("geometry", "The Feature has no member geometry; null says that there is none.")
    geometry: bytes | None = None
    if document.get("geometry") is not None:
        if not layer.has_geometry:
            raise InvalidParameter("geometry", f"The features of '{layer.name}' have no geometry.")
        written = GeometryValue(read_geojson(document["geometry"], "geometry"), 0)
        geometry = to_store(in_crs(written, crs), layer, "geometry")
    return GivenFeature(values, given, geometry)


def value_of(value: Any, field: Field) -> Value:
    """A JSON value as one of the field's kind. InvalidParameter naming the field."""
    if value is None:
        return None
    match field.kind:
        case FieldKind.TEXT:
            if isinstance(value, str):
                return value
        case FieldKind.BOOLEAN:
            if isinstance(value, bool):
                return value
        case FieldKind.INTEGER:
            if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
                return value
            if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
                return int(value)
        case FieldKind.NUMBER:
            if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
                return float(value)
        case FieldKind.DATE:
            match = _DATE.fullmatch(value) if isinstance(value, str) else None
            if match is not None:
                try:
                    return days_of(date(*map(int, match.groups())))
                except ValueError:
                    pass
        case FieldKind.DATETIME:
            if isinstance(value, str):
                return parse_instant(value, field.name)[0]
    shown = orjson.dumps(value).decode()[:60] if not isinstance(value, int) else str(value)[:60]
    raise InvalidParameter(field.name, f"{shown} is no value of '{field.name}', which is of type {field.kind}.")
