"""Geometries of features in GML 3.1.1 and 3.2.1."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from thalweg.domain.geometry import Geometry
from thalweg.encode.numbers import format_number
from thalweg.encode.xmltext import attribute

# Of a multi-geometry: element, property element, type of its parts.
_MULTI: Final = {
    "MultiPoint": ("MultiPoint", "pointMember", "Point"),
    "MultiLineString": ("MultiCurve", "curveMember", "LineString"),
    "MultiPolygon": ("MultiSurface", "surfaceMember", "Polygon"),
}


def gml31(geometry: Geometry, srs_name: str, northing_first: bool) -> str:
    """The geometry in GML 3.1.1, prefix ``gml``.

    srs_name        the CRS as the document names it
    northing_first  write y (north, latitude) before x
    A point on its own has gml:coordinates, which istSOS' clients read; all else gml:pos and gml:posList.
    source          OGC 03-105r1
    """
    if geometry.type == "Point":
        text = ",".join(_ordinates(geometry.coordinates, northing_first))
        return f'<gml:Point srsName="{attribute(srs_name)}"><gml:coordinates>{text}</gml:coordinates></gml:Point>'
    return _element(
        geometry.type, geometry.coordinates, f' srsName="{attribute(srs_name)}"', northing_first, lambda: ""
    )


def gml32(geometry: Geometry, srs_name: str, northing_first: bool, gml_id: str) -> str:
    """The geometry in GML 3.2.1, prefix ``gml``; parts of a multi-geometry have ids ``gml_id.1``, ``gml_id.2`` …

    gml_id  an NCName, unique in the document
    source  OGC 07-036
    """
    count = 0

    def next_id() -> str:
        nonlocal count
        count += 1
        return f' gml:id="{attribute(gml_id)}.{count}"'

    own = f' gml:id="{attribute(gml_id)}" srsName="{attribute(srs_name)}"'
    return _element(geometry.type, geometry.coordinates, own, northing_first, next_id)


def _element(kind: str, coordinates: Any, attributes: str, swap: bool, next_attributes: Callable[[], str]) -> str:
    if kind == "Point":
        return f"<gml:Point{attributes}><gml:pos>{' '.join(_ordinates(coordinates, swap))}</gml:pos></gml:Point>"
    if kind == "LineString":
        return f"<gml:LineString{attributes}>{_positions(coordinates, swap)}</gml:LineString>"
    if kind == "Polygon":
        rings = [f"<gml:LinearRing>{_positions(ring, swap)}</gml:LinearRing>" for ring in coordinates]
        inner = "".join(f"<gml:interior>{ring}</gml:interior>" for ring in rings[1:])
        return f"<gml:Polygon{attributes}><gml:exterior>{rings[0]}</gml:exterior>{inner}</gml:Polygon>"
    name, member, part_kind = _MULTI[kind]
    parts = "".join(
        f"<gml:{member}>{_element(part_kind, part, next_attributes(), swap, next_attributes)}</gml:{member}>"
        for part in coordinates
    )
    return f"<gml:{name}{attributes}>{parts}</gml:{name}>"


def _positions(positions: Iterable[tuple[float, ...]], swap: bool) -> str:
    positions = tuple(positions)
    dimension = ' srsDimension="3"' if positions and len(positions[0]) > 2 else ""
    text = " ".join(" ".join(_ordinates(position, swap)) for position in positions)
    return f"<gml:posList{dimension}>{text}</gml:posList>"


def _ordinates(position: tuple[float, ...], swap: bool) -> list[str]:
    ordered = (position[1], position[0], *position[2:]) if swap else position
    return [format_number(float(value)) for value in ordered]
