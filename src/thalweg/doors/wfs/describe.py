"""DescribeFeatureType: the application schema of a workspace's layers, for each version of GML, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.features import Field, FieldKind, GeometryKind, Layer
from thalweg.doors.http import Response
from thalweg.doors.wfs.context import Context
from thalweg.doors.wfs.formats import GEOJSON, GML2, GML31, GML32, OutputFormat, output_format
from thalweg.doors.wfs.request import DescribeFeatureType
from thalweg.encode.crs import Gml
from thalweg.encode.xmltext import attribute, escape

_SCHEMAS: Final = {
    Gml.V2: ("http://www.opengis.net/gml", "http://schemas.opengis.net/gml/2.1.2/feature.xsd", "gml:_Feature"),
    Gml.V31: ("http://www.opengis.net/gml", "http://schemas.opengis.net/gml/3.1.1/base/gml.xsd", "gml:_Feature"),
    Gml.V32: (
        "http://www.opengis.net/gml/3.2", "http://schemas.opengis.net/gml/3.2.1/gml.xsd", "gml:AbstractFeature",
    ),
}  # fmt: skip
"""Of each version of GML: namespace, schema, head of the substitution group."""

_SIMPLE: Final = {
    FieldKind.TEXT: "string",
    FieldKind.INTEGER: "long",
    FieldKind.NUMBER: "double",
    FieldKind.BOOLEAN: "boolean",
    FieldKind.DATE: "date",
    FieldKind.DATETIME: "dateTime",
}
# Precise ones: with GeometryPropertyType clients have to look at the data to know what a layer holds.
_GML2_TYPES: Final = {
    GeometryKind.POINT: "Point",
    GeometryKind.LINESTRING: "LineString",
    GeometryKind.POLYGON: "Polygon",
    GeometryKind.MULTIPOINT: "MultiPoint",
    GeometryKind.MULTILINESTRING: "MultiLineString",
    GeometryKind.MULTIPOLYGON: "MultiPolygon",
    GeometryKind.GEOMETRYCOLLECTION: "MultiGeometry",
    GeometryKind.GEOMETRY: "Geometry",
}
_GML31_TYPES: Final = _GML2_TYPES | {
    GeometryKind.MULTILINESTRING: "MultiCurve",
    GeometryKind.MULTIPOLYGON: "MultiSurface",
}
_GML32_TYPES: Final = _GML31_TYPES | {GeometryKind.LINESTRING: "Curve", GeometryKind.POLYGON: "Surface"}
_TYPES: Final = {Gml.V2: _GML2_TYPES, Gml.V31: _GML31_TYPES, Gml.V32: _GML32_TYPES}


def geometry_type(kind: GeometryKind, gml: Gml) -> str:
    """The property type of a geometry, as ``gml:PointPropertyType``; it allows what the encoders write of the kind."""
    return f"gml:{_TYPES[gml][kind]}PropertyType"


def describe_feature_type(asked: DescribeFeatureType, context: Context) -> Response:
    """OGC 02-058 clause 8, 04-094 clause 8, 09-025r2 clause 9."""
    layers: Sequence[Layer]
    if asked.types:
        layers = list(
            {layer.id: layer for name in asked.types for layer in (context.layer(name, "typeName"),)}.values()
        )
    else:
        layers = context.layers()
    form = _form(asked)
    if form is GEOJSON:
        return Response(schema_json(layers, context), "application/json")
    return Response(schema(layers, context, form.gml), form.content_type)


def _form(asked: DescribeFeatureType) -> OutputFormat:
    text = asked.output_format
    if text.upper() == "XMLSCHEMA":
        # The name that 1.0.0 has for the schema language, with GML 2.
        return GML2
    found = output_format(text, asked.version)
    if found not in (GML2, GML31, GML32, GEOJSON):
        raise InvalidParameter(
            "outputFormat", f"'{text[:80]}' is no format of schemas; use those of GML, or application/json."
        )
    return found


def schema(layers: Sequence[Layer], context: Context, gml: Gml) -> bytes:
    """An XML schema of the types, complete by itself."""
    uri, location, head = _SCHEMAS[gml]
    prefix = context.prefix
    parts = [
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<xsd:schema xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:gml="{uri}" '
        f'xmlns:{prefix}="{attribute(context.uri)}" targetNamespace="{attribute(context.uri)}" '
        'elementFormDefault="qualified" version="1.0">\n'
        f'<xsd:import namespace="{uri}" schemaLocation="{location}"/>\n'
    ]
    for layer in layers:
        elements = "".join(_elements(layer, gml))
        parts.append(
            f'<xsd:complexType name="{layer.name}Type">\n{_annotation(layer.description)}<xsd:complexContent>\n'
            f'<xsd:extension base="gml:AbstractFeatureType">\n<xsd:sequence>\n{elements}</xsd:sequence>\n'
            "</xsd:extension>\n</xsd:complexContent>\n</xsd:complexType>\n"
            f'<xsd:element name="{layer.name}" type="{prefix}:{layer.name}Type" substitutionGroup="{head}"/>\n'
        )
    parts.append("</xsd:schema>\n")
    return "".join(parts).encode()


def _elements(layer: Layer, gml: Gml) -> list[str]:
    """In the order of documents: the geometry first."""
    found = []
    if layer.has_geometry:
        found.append(
            f'<xsd:element name="{layer.geometry_field}" type="{geometry_type(layer.geometry_kind, gml)}" '
            'minOccurs="0" maxOccurs="1" nillable="true"/>\n'
        )
    # Those of GML are inherited.
    found += [_element(field) for field in layer.own_fields]
    return found


def _element(field: Field) -> str:
    simple = _SIMPLE[field.kind]
    occurs = 'minOccurs="1" maxOccurs="1"' if field.required else 'minOccurs="0" maxOccurs="1" nillable="true"'
    note = _annotation(field.title)
    if field.length and field.kind is FieldKind.TEXT:
        return (
            f'<xsd:element name="{field.name}" {occurs}>{note}<xsd:simpleType><xsd:restriction base="xsd:{simple}">'
            f'<xsd:maxLength value="{field.length}"/></xsd:restriction></xsd:simpleType></xsd:element>\n'
        )
    if note:
        return f'<xsd:element name="{field.name}" type="xsd:{simple}" {occurs}>{note}</xsd:element>\n'
    return f'<xsd:element name="{field.name}" type="xsd:{simple}" {occurs}/>\n'


def _annotation(text: str) -> str:
    if not text:
        return ""
    return f"<xsd:annotation><xsd:documentation>{escape(text)}</xsd:documentation></xsd:annotation>"


def schema_json(layers: Sequence[Layer], context: Context) -> bytes:
    """The form that servers and browser clients use for schemas in JSON."""
    return orjson.dumps(
        {
            "elementFormDefault": "qualified",
            "targetNamespace": context.uri,
            "targetPrefix": context.prefix,
            "featureTypes": [{"typeName": layer.name, "properties": _properties(layer)} for layer in layers],
        }
    )


def _properties(layer: Layer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if layer.has_geometry:
        found.append(_property(layer.geometry_field, f"gml:{layer.geometry_kind.value}", layer.geometry_kind.value))
    for field in layer.own_fields:
        simple = _SIMPLE[field.kind]
        found.append(_property(field.name, f"xsd:{simple}", simple, required=field.required))
    return found


def _property(name: str, kind: str, local: str, *, required: bool = False) -> dict[str, Any]:
    return {
        "name": name,
        "maxOccurs": 1,
        "minOccurs": int(required),
        "nillable": not required,
        "type": kind,
        "localType": local,
    }
