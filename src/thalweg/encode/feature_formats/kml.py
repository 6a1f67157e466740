"""KML 2.2 (OGC 07-147r2): a placemark per feature, its properties as SchemaData."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import shapely

from thalweg.domain.features import Features, FieldKind, Layer
from thalweg.encode.feature_formats.columns import fields_of, geometries_of, shapes_of, texts_of
from thalweg.encode.feature_formats.contract import WriteOptions
from thalweg.encode.xmltext import attribute, escape

_TYPES: Final = {
    FieldKind.TEXT: "string", FieldKind.INTEGER: "string", FieldKind.NUMBER: "double", FieldKind.BOOLEAN: "bool",
    FieldKind.DATE: "string", FieldKind.DATETIME: "string",
}  # fmt: skip
"""Types of SimpleField (clause 9.9); its ``int`` has 32 bits, which ids of OpenStreetMap pass."""
_NAMES: Final = ("name", "title", "label")


def write(layer: Layer, batches: Iterable[Features], options: WriteOptions) -> Iterator[bytes]:
    """The document in UTF-8. Coordinates are longitude, latitude, height."""
    fields = fields_of(layer, options)
    title = escape(layer.title or layer.name)
    head = [
        '<?xml version="1.0" encoding="UTF-8"?>\n<kml xmlns="http://www.opengis.net/kml/2.2"><Document>'
        f"<name>{title}</name>"
    ]
    about = " ".join(text for text in (layer.description, layer.attribution, layer.licence) if text)
    if about:
        head.append(f"<description>{escape(about)}</description>")
    schema = attribute(layer.name)
    head.append(f'<Schema name="{schema}" id="{schema}">')
    head += [f'<SimpleField name="{attribute(item.name)}" type="{_TYPES[item.kind]}"/>' for item in fields]
    head.append("</Schema>")
    yield "".join(head).encode()
    label = next((item for name in _NAMES for item in fields if item.name.lower() == name), None)
    for features in batches:
        yield _placemarks(layer, features, options, label, schema)
    yield b"</Document></kml>\n"


def _placemarks(layer: Layer, features: Features, options: WriteOptions, label: Any, schema: str) -> bytes:
    fields = fields_of(layer, options)
    shapes = shapes_of(geometries_of(layer, features, options)).tolist()
    columns = [texts_of(features, item) for item in fields]
    names = texts_of(features, label) if label is not None else [None] * len(features)
    opening = [f'<SimpleData name="{attribute(item.name)}">' for item in fields]
    parts: list[str] = []
    for row, (number, shape, name) in enumerate(zip(features.ids.tolist(), shapes, names, strict=True)):
        parts.append(f'<Placemark id="{attribute(layer.feature_id(number))}">')
        if name is not None:
            parts.append(f"<name>{escape(name)}</name>")
        data = [
            f"{tag}{escape(text)}</SimpleData>"
            for tag, column in zip(opening, columns, strict=True)
            if (text := column[row]) is not None
        ]
        if data:
            parts.append(f'<ExtendedData><SchemaData schemaUrl="#{schema}">{"".join(data)}</SchemaData></ExtendedData>')
        if shape is not None:
            parts.append(_geometry(shape))
        parts.append("</Placemark>")
    return "".join(parts).encode()


def _geometry(shape: Any) -> str:
    kind = shape.geom_type
    if kind == "Point":
        return f"<Point><coordinates>{_coordinates(shape)}</coordinates></Point>"
    if kind == "LineString":
        return f"<LineString><coordinates>{_coordinates(shape)}</coordinates></LineString>"
    if kind == "Polygon":
        outer = f"<outerBoundaryIs>{_ring(shape.exterior)}</outerBoundaryIs>"
        inner = "".join([f"<innerBoundaryIs>{_ring(ring)}</innerBoundaryIs>" for ring in shape.interiors])
        return f"<Polygon>{outer}{inner}</Polygon>"
    return f"<MultiGeometry>{''.join(_geometry(part) for part in shape.geoms)}</MultiGeometry>"


def _ring(ring: Any) -> str:
    return f"<LinearRing><coordinates>{_coordinates(ring)}</coordinates></LinearRing>"


def _coordinates(shape: Any) -> str:
    places = shapely.get_coordinates(shape, include_z=shape.has_z).tolist()
    return " ".join([",".join(map(repr, place)) for place in places])
