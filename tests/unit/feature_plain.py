"""Features as text, one at a time and without haste: what the writers of whole batches have to equal."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from xml.sax.saxutils import escape

import shapely

from thalweg.domain.features import FieldKind, Layer, Value
from thalweg.encode.feature_output import FeatureFormat, Output

Position = Sequence[float]


def number(value: float) -> str:
    """The shortest digits that read back the same; an exponent from 1e16 on and below 1e-5, without leading zeros."""
    text = repr(float(value))
    if text.endswith("e-05"):
        return format(Decimal(text), "f")
    return re.sub(r"e([+-]?)0*(\d)", r"e\1\2", text).removesuffix(".0")


def text_of(kind: FieldKind, value: Value) -> str:
    match kind:
        case FieldKind.TEXT:
            return str(value)
        case FieldKind.INTEGER:
            return str(int(value))  # type: ignore[arg-type]
        case FieldKind.NUMBER:
            return number(value)  # type: ignore[arg-type]
        case FieldKind.BOOLEAN:
            return "true" if value else "false"
        case FieldKind.DATE:
            return (date(1970, 1, 1) + timedelta(days=value)).isoformat()  # type: ignore[arg-type]
        case FieldKind.DATETIME:
            moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)  # type: ignore[arg-type]
            text = moment.replace(tzinfo=None).isoformat()
            return (text.rstrip("0") if "." in text else text) + "Z"


def xml(text: str) -> str:
    return escape(text, {'"': "&quot;", "\r": "&#13;"})


# ------------------------------------------------------------------ geometries


def parts_of(shape: Any) -> list[Any]:
    return list(shape.geoms)


def promoted(layer: Layer, shape: Any) -> Any:
    wrap = {"MultiPoint": shapely.MultiPoint, "MultiLineString": shapely.MultiLineString,
            "MultiPolygon": shapely.MultiPolygon}.get(layer.geometry_kind.value)  # fmt: skip
    if wrap is not None and shape.geom_type == layer.geometry_kind.single.value:
        return wrap([shape])
    return shape


def positions(shape: Any, swapped: bool) -> list[Position]:
    return [(p[1], p[0], *p[2:]) if swapped else tuple(p) for p in shape.coords]


def gml2(shape: Any, srs: str, swapped: bool) -> str:
    def coordinates(line: Any) -> str:
        text = " ".join(",".join(map(number, p)) for p in positions(line, swapped))
        return f"<gml:coordinates>{text}</gml:coordinates>"

    def ring(line: Any) -> str:
        return f"<gml:LinearRing>{coordinates(line)}</gml:LinearRing>"

    def element(item: Any, own: str) -> str:
        kind = item.geom_type
        if kind in ("Point", "LineString"):
            return f"<gml:{kind}{own}>{coordinates(item)}</gml:{kind}>"
        if kind == "Polygon":
            inner = "".join(f"<gml:innerBoundaryIs>{ring(r)}</gml:innerBoundaryIs>" for r in item.interiors)
            outer = f"<gml:outerBoundaryIs>{ring(item.exterior)}</gml:outerBoundaryIs>"
            return f"<gml:Polygon{own}>{outer}{inner}</gml:Polygon>"
        name, member = {
            "MultiPoint": ("MultiPoint", "pointMember"),
            "MultiLineString": ("MultiLineString", "lineStringMember"),
            "MultiPolygon": ("MultiPolygon", "polygonMember"),
            "GeometryCollection": ("MultiGeometry", "geometryMember"),
        }[kind]
        inside = "".join(f"<gml:{member}>{element(part, '')}</gml:{member}>" for part in parts_of(item))
        # Required by the schema of GML 2.1.2, also inside of a collection.
        return f'<gml:{name} srsName="{srs}">{inside}</gml:{name}>'

    return element(shape, f' srsName="{srs}"')


def gml3(shape: Any, srs: str, swapped: bool, gml_id: str) -> str:
    def pos_list(line: Any) -> str:
        points = positions(line, swapped)
        dimension = ' srsDimension="3"' if len(points[0]) == 3 else ""
        text = " ".join(" ".join(map(number, p)) for p in points)
        return f"<gml:posList{dimension}>{text}</gml:posList>"

    def element(item: Any, name_id: str, more: str) -> str:
        own = f' gml:id="{name_id}"{more}'
        kind = item.geom_type
        if kind == "Point":
            (only,) = positions(item, swapped)
            return f"<gml:Point{own}><gml:pos>{' '.join(map(number, only))}</gml:pos></gml:Point>"
        if kind == "LineString":
            return f"<gml:LineString{own}>{pos_list(item)}</gml:LineString>"
        if kind == "Polygon":
            outer = f"<gml:exterior><gml:LinearRing>{pos_list(item.exterior)}</gml:LinearRing></gml:exterior>"
            inner = "".join(
                f"<gml:interior><gml:LinearRing>{pos_list(r)}</gml:LinearRing></gml:interior>" for r in item.interiors
            )
            return f"<gml:Polygon{own}>{outer}{inner}</gml:Polygon>"
        name, member = {
            "MultiPoint": ("MultiPoint", "pointMember"),
            "MultiLineString": ("MultiCurve", "curveMember"),
            "MultiPolygon": ("MultiSurface", "surfaceMember"),
            "GeometryCollection": ("MultiGeometry", "geometryMember"),
        }[kind]
        inside = "".join(
            f"<gml:{member}>{element(part, f'{name_id}.{i}', '')}</gml:{member}>"
            for i, part in enumerate(parts_of(item), 1)
        )
        return f"<gml:{name}{own}>{inside}</gml:{name}>"

    return element(shape, gml_id, f' srsName="{srs}"')


def geojson(shape: Any, swapped: bool) -> str:
    def points(line: Any) -> str:
        return ",".join("[" + ",".join(map(number, p)) + "]" for p in positions(line, swapped))

    def nested(item: Any) -> str:
        kind = item.geom_type
        if kind == "Point":
            return points(item)
        if kind == "LineString":
            return f"[{points(item)}]"
        if kind == "Polygon":
            return "[" + ",".join(f"[{points(r)}]" for r in [item.exterior, *item.interiors]) + "]"
        return "[" + ",".join(nested(part) for part in parts_of(item)) + "]"

    if shape.geom_type == "GeometryCollection":
        inside = ",".join(geojson(part, swapped) for part in parts_of(shape))
        return f'{{"type":"GeometryCollection","geometries":[{inside}]}}'
    return f'{{"type":"{shape.geom_type}","coordinates":{nested(shape)}}}'


# ------------------------------------------------------------------ features


def feature_text(
    layer: Layer, output: Output, number_: int, wkb: bytes | None, values: dict[str, Value]
) -> str:  # fmt: skip
    """One feature as ``encode`` writes it; geometry and values as they come from a store."""
    shape = None if wkb is None or not output.geometry else promoted(layer, shapely.from_wkb(wkb))
    asked = [field for field in layer.fields if output.fields is None or field.name in output.fields]
    fields = [field for field in asked if not field.name.startswith("gml:")]
    # In GML's order; written where there is a value.
    of_gml = [
        (name, str(values[name]))
        for name in ("gml:description", "gml:identifier", "gml:codeSpace", "gml:name")
        if any(field.name == name for field in asked) and values.get(name) is not None
    ]
    fid = f"{layer.id_prefix}.{number_}"
    if output.format is FeatureFormat.GEOJSON:
        properties = []
        for field in fields:
            value = values.get(field.name)
            if value is None:
                text = "null"
            elif field.kind in (FieldKind.TEXT, FieldKind.DATE, FieldKind.DATETIME):
                text = json.dumps(text_of(field.kind, value), ensure_ascii=False)
            else:
                text = text_of(field.kind, value)
            properties.append(f"{json.dumps(field.name, ensure_ascii=False)}:{text}")
        properties += [f'"{name}":{json.dumps(text, ensure_ascii=False)}' for name, text in of_gml]
        geometry = "null" if shape is None else geojson(shape, output.swapped)
        name = f',"geometry_name":{json.dumps(layer.geometry_field, ensure_ascii=False)}'
        name = name if layer.has_geometry and output.geometry else ""
        return (
            f'{{"type":"Feature","id":{json.dumps(fid, ensure_ascii=False)},"geometry":{geometry}{name},'
            f'"properties":{{{",".join(properties)}}}}},'
        )
    prefix = output.prefix
    inside = ""
    for name, text in of_gml:
        if name == "gml:identifier" and output.format is FeatureFormat.GML32:
            space = xml(dict(of_gml).get("gml:codeSpace", "")).replace("\n", "&#10;").replace("\t", "&#9;")
            inside += f'<gml:identifier codeSpace="{space}">{xml(text)}</gml:identifier>'
        elif name in ("gml:description", "gml:name"):
            inside += f"<{name}>{xml(text)}</{name}>"
    if shape is not None:
        if output.format is FeatureFormat.GML2:
            text = gml2(shape, output.srs_name, output.swapped)
        else:
            text = gml3(shape, output.srs_name, output.swapped, f"{fid}.{layer.geometry_field}")
        inside += f"<{prefix}:{layer.geometry_field}>{text}</{prefix}:{layer.geometry_field}>"
    for field in fields:
        value = values.get(field.name)
        if value is not None:
            inside += f"<{prefix}:{field.name}>{xml(text_of(field.kind, value))}</{prefix}:{field.name}>"
    label = "fid" if output.format is FeatureFormat.GML2 else "gml:id"
    whole = f'<{prefix}:{layer.name} {label}="{fid}">{inside}</{prefix}:{layer.name}>'
    return f"<{output.member}>{whole}</{output.member}>" if output.member else whole
