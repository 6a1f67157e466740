"""Filters by place and by value: ``spatialFilter``, spatial operators of OGC and FES filters, comparisons.

Coordinates are read in the axis order of the CRS name they come with: the authority's order under
``urn:ogc:def:crs:EPSG::n`` and ``http://www.opengis.net/def/crs/EPSG/0/n``, easting first under ``EPSG:n``. Without a
name they are in the workspace's first CRS, easting first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from lxml import etree

from thalweg.domain.errors import InvalidParameter, MissingParameter, NotSupported, TooLarge
from thalweg.domain.geometry import WGS84, Envelope, Geometry, SpatialFilter, SpatialOperator
from thalweg.encode.xml_elements import children, descendant, local_name, required_text, text_of
from thalweg.services.projection import CrsReference, parse_crs

MAX_VERTICES: Final = 1_000_000
"""Most positions in the operand of a spatial filter."""
MAX_NESTING: Final = 32
"""Deepest nesting of elements in the operand of a spatial filter."""

_SHAPES: Final = ("shape", "featureOfInterest", "geometry", "position", "the_geom", "location")
_METRES: Final = frozenset(("m", "metre", "meter", "metres", "meters", "urn:ogc:def:uom:EPSG::9001", "EPSG:9001"))
_METRES_EACH: Final = {"km": 1000.0, "kilometre": 1000.0, "kilometer": 1000.0, "cm": 0.01, "mm": 0.001}
_AXIS_UNITS: Final = frozenset(("", "deg", "degree", "degrees", "urn:ogc:def:uom:EPSG::9102", "EPSG:9102"))

Position = tuple[float, ...]


@lru_cache(maxsize=512)
def crs_reference(text: str, parameter: str) -> CrsReference:
    """``parse_crs``, remembered; also CRS84, which is EPSG:4326 with longitude first (OGC 09-048r5)."""
    if text.upper().replace("/1.3/", ":1.3:").endswith(("OGC:1.3:CRS84", "OGC::CRS84", "OGC:CRS84")):
        return CrsReference(WGS84, False, text)
    return parse_crs(text, parameter)


# ---------------------------------------------------------------- spatial filters in KVP


def spatial_filter(text: str, default_srid: int) -> SpatialFilter:
    """``spatialFilter=om:featureOfInterest/*/sams:shape,minx,miny,maxx,maxy[,crs]``.

    The corners are in the axis order of the CRS name.
    raises  MissingParameter, InvalidParameter (``spatialFilter``, or ``ValueReference`` for the first part)
    source  OGC 12-006 clause 13.2.2
    """
    parts = [part.strip() for part in text.split(",")]
    if not text.strip():
        raise MissingParameter("spatialFilter")
    _check_reference(parts[0])
    if len(parts) not in (5, 6):
        raise InvalidParameter(
            "spatialFilter",
            f"'{text[:120]}' is not a box; write om:featureOfInterest/*/sams:shape,minx,miny,maxx,maxy,"
            "urn:ogc:def:crs:EPSG::4326 with the corners in the axis order of the CRS.",
        )
    crs = crs_reference(parts[5], "spatialFilter") if len(parts) == 6 and parts[5] else _plain(default_srid)
    a, b, c, d = (_number(part, "spatialFilter") for part in parts[1:5])
    return SpatialFilter(SpatialOperator.BBOX, _box((a, b), (c, d), crs, "spatialFilter"))


def _check_reference(text: str) -> None:
    """The value reference has to name the shape of the feature of interest; it is compared, never evaluated."""
    if not text:
        raise MissingParameter("ValueReference", "The value reference of the spatial filter is missing or empty.")
    last = text.rpartition("/")[2].rpartition(":")[2]
    # A time (clients and test suites send one as a wrong value) holds colons as well.
    if last not in _SHAPES:
        raise InvalidParameter(
            "ValueReference",
            f"'{text[:120]}' is not the shape of the feature of interest; use om:featureOfInterest/*/sams:shape.",
        )


# ---------------------------------------------------------------- spatial operators in XML


def spatial_operator(element: etree._Element, parameter: str, default_srid: int) -> SpatialFilter:
    """An operator of OGC 04-095 or 09-026r2 with a GML operand.

    raises  InvalidParameter, MissingParameter (``ValueReference``), NotSupported, TooLarge
    """
    name = local_name(element)
    try:
        operator = SpatialOperator("Intersects" if name == "Intersect" else name)
    except ValueError:
        raise NotSupported(
            f"'{name[:60]}' is not offered; spatial operators are {', '.join(SpatialOperator)}.", parameter=parameter
        ) from None
    operand: etree._Element | None = None
    distance: float | None = None
    metres = False
    for part in element:
        kind = local_name(part)
        if kind == "ValueReference":
            _check_reference(text_of(part))
        elif kind == "PropertyName":
            # SOS 1.0 clients write many names here; there is one geometry to test.
            continue
        elif kind in ("Distance", "DistanceUnits"):
            distance, metres = _distance(part, parameter)
        elif operand is None:
            operand = part
        else:
            raise InvalidParameter(parameter, f"{name} has more than one geometry.")
    if operand is None:
        raise InvalidParameter(
            parameter, f"{name} has no geometry; GML envelopes, points, lines and polygons are read."
        )
    geometry = read_geometry(operand, parameter, default_srid)
    if isinstance(geometry, Envelope) and operator is not SpatialOperator.BBOX:
        geometry = _polygon_of(geometry)
    if operator in (SpatialOperator.DWITHIN, SpatialOperator.BEYOND) and distance is None:
        raise InvalidParameter(parameter, f"{name} has no Distance.")
    return SpatialFilter(operator, geometry, distance, metres)


def _distance(element: etree._Element, parameter: str) -> tuple[float, bool]:
    value = _number(text_of(element), parameter)
    if value < 0:
        raise InvalidParameter(parameter, f"A distance of {value:g} is negative.")
    unit = (element.get("uom") or element.get("units") or element.get("unit") or "").strip()
    if unit in _METRES:
        return value, True
    if unit in _METRES_EACH:
        return value * _METRES_EACH[unit], True
    if unit in _AXIS_UNITS:
        return value, False
    raise InvalidParameter(parameter, f"The unit of distance '{unit[:40]}' is not understood; use m, km or degree.")


# ---------------------------------------------------------------- GML geometries


class _Gml:
    """Reads one operand, counting its vertices."""

    def __init__(self, parameter: str) -> None:
        self.parameter = parameter
        self.vertices = 0

    def positions(self, element: etree._Element, crs: CrsReference, dimension: int) -> list[Position]:
        """All positions directly in an element: pos, posList, coordinates, coord or pointProperty children."""
        found: list[Position] = []
        for part in element:
            kind = local_name(part)
            if kind in ("pos", "posList", "lowerCorner", "upperCorner"):
                own = part.get("srsName")
                order = crs if own is None else _same_crs(own, crs, self.parameter)
                given = part.get("srsDimension") or part.get("dimension")
                size = dimension if given is None else _dimension(given, self.parameter)
                numbers = self.numbers((part.text or "").split())
                if kind != "posList":
                    if len(numbers) not in (2, 3):
                        raise self.wrong(f"gml:{kind} holds {len(numbers)} numbers instead of 2 or 3")
                    size = len(numbers)
                elif len(numbers) % size:
                    raise self.wrong(f"gml:posList holds {len(numbers):,} numbers, which is no multiple of {size}")
                found.extend(_turned(numbers[i : i + size], order) for i in range(0, len(numbers), size))
            elif kind == "coordinates":
                found.extend(self.coordinates(part, crs))
            elif kind == "coord":
                axes = self.numbers([text_of(axis) for axis in part])
                if len(axes) not in (2, 3):
                    raise self.wrong(f"gml:coord holds {len(axes)} numbers instead of 2 or 3")
                found.append(_turned(axes, crs))
            elif kind in ("pointProperty", "pointMember", "pointRep") and len(part):
                found.extend(self.positions(part[0], crs, dimension))
            if len(found) + self.vertices > MAX_VERTICES:
                raise TooLarge(f"The geometry has more than {MAX_VERTICES:,} vertices.", parameter="request")
        self.vertices += len(found)
        return found

    def coordinates(self, element: etree._Element, crs: CrsReference) -> Iterator[Position]:
        decimal, between, tuples = element.get("decimal", "."), element.get("cs", ","), element.get("ts", " ")
        text = element.text or ""
        for item in text.split() if tuples.isspace() or not tuples else text.split(tuples):
            parts = item.split(between) if between else [item]
            if decimal not in (".", ""):
                parts = [part.replace(decimal, ".") for part in parts]
            numbers = self.numbers([part.strip() for part in parts])
            if len(numbers) not in (2, 3):
                raise self.wrong(f"gml:coordinates holds '{item[:60]}' instead of x{between}y")
            yield _turned(numbers, crs)

    def numbers(self, texts: list[str]) -> list[float]:
        if len(texts) > 3 * MAX_VERTICES:
            raise TooLarge(f"The geometry has more than {MAX_VERTICES:,} vertices.", parameter="request")
        return [_number(text, self.parameter) for text in texts]

    def wrong(self, what: str) -> InvalidParameter:
        return InvalidParameter(self.parameter, what + ".")

    def geometry(self, element: etree._Element, outer: CrsReference, dimension: int, depth: int) -> tuple[str, Any]:
        """Type and coordinates as ``domain.geometry.Geometry`` holds them."""
        if depth > MAX_NESTING:
            raise TooLarge(f"The geometry is nested more than {MAX_NESTING} deep.", parameter="request")
        kind = local_name(element)
        own = element.get("srsName")
        crs = outer if own is None else _same_crs(own, outer, self.parameter)
        given = element.get("srsDimension")
        size = dimension if given is None else _dimension(given, self.parameter)
        if kind == "Point":
            return "Point", self.one(element, crs, size)
        if kind in ("LineString", "LineStringSegment"):
            line = tuple(self.positions(element, crs, size))
            if len(line) < 2:
                raise self.wrong("A line needs two positions")
            return "LineString", line
        if kind == "Curve":
            segments = descendant(element, "segments", "LineStringSegment")
            if segments is None:
                raise self.wrong("Of gml:Curve, only straight segments (gml:LineStringSegment) are read")
            return self.geometry(segments, crs, size, depth + 1)
        if kind in ("Polygon", "PolygonPatch"):
            return "Polygon", self.polygon(element, crs, size)
        if kind == "Surface":
            patch = descendant(element, "patches", "PolygonPatch")
            if patch is None:
                raise self.wrong("Of gml:Surface, only plane patches (gml:PolygonPatch) are read")
            return self.geometry(patch, crs, size, depth + 1)
        if kind in ("MultiPoint", "MultiLineString", "MultiCurve", "MultiPolygon", "MultiSurface"):
            single = {"Point": "Point", "LineString": "LineString", "Curve": "LineString"}.get(kind[5:], "Polygon")
            parts = []
            for member in element:
                for item in member:
                    found, coordinates = self.geometry(item, crs, size, depth + 2)
                    if found != single:
                        raise self.wrong(f"gml:{kind} holds a {found}")
                    parts.append(coordinates)
            if not parts:
                raise self.wrong(f"gml:{kind} has no members")
            return "Multi" + single, tuple(parts)
        raise self.wrong(
            f"'{kind[:60]}' is not read; geometries are gml:Envelope, Point, LineString, Curve, Polygon, Surface and "
            "their Multi forms"
        )

    def one(self, element: etree._Element, crs: CrsReference, size: int) -> Position:
        found = self.positions(element, crs, size)
        if len(found) != 1:
            raise self.wrong(f"A gml:Point has one position, not {len(found)}")
        return found[0]

    def polygon(self, element: etree._Element, crs: CrsReference, size: int) -> tuple[tuple[Position, ...], ...]:
        outer: list[tuple[Position, ...]] = []
        inner: list[tuple[Position, ...]] = []
        for boundary in element:
            kind = local_name(boundary)
            ring = next(children(boundary, "LinearRing"), None)
            if ring is None:
                raise self.wrong(f"gml:{kind[:60]} has no gml:LinearRing")
            line = tuple(self.positions(ring, crs, size))
            if len(line) < 4 or line[0] != line[-1]:
                raise self.wrong("A ring needs four positions or more, the last of them equal to the first")
            (outer if kind in ("exterior", "outerBoundaryIs") else inner).append(line)
        if len(outer) != 1:
            raise self.wrong(f"A polygon has one exterior, not {len(outer)}")
        return (*outer, *inner)


def read_geometry(element: etree._Element, parameter: str, default_srid: int) -> Geometry | Envelope:
    """A GML 2, 3.1 or 3.2 geometry; coordinates come out easting first.

    raises  InvalidParameter for unknown kinds, not-a-number, rings that are open or cross themselves; TooLarge
    """
    own = element.get("srsName")
    if own is None:
        # Some clients name the CRS at the position alone.
        own = next((part.get("srsName") for part in element if part.get("srsName")), None)
    crs = _plain(default_srid) if not own else crs_reference(own.strip()[:200], parameter)
    reader = _Gml(parameter)
    if local_name(element) in ("Envelope", "Box"):
        corners = reader.positions(element, crs, 2)
        if len(corners) != 2:
            raise reader.wrong(f"A box has two corners, not {len(corners)}")
        return _box(corners[0], corners[1], CrsReference(crs.srid, False, crs.name), parameter)
    kind, coordinates = reader.geometry(element, crs, 2, 0)
    geometry = Geometry(kind, coordinates, crs.srid)
    if kind.endswith("Polygon"):
        _require_valid(geometry, parameter)
    return geometry


def _require_valid(geometry: Geometry, parameter: str) -> None:
    """Predicates on polygons that cross themselves fail or answer at random, so they are refused here."""
    from shapely import is_valid_reason
    from shapely.geometry import shape

    reason = is_valid_reason(shape({"type": geometry.type, "coordinates": geometry.coordinates}))
    if reason != "Valid Geometry":
        raise InvalidParameter(parameter, f"The polygon is not valid: {reason}.")


def _polygon_of(box: Envelope) -> Geometry:
    ring = (
        (box.min_x, box.min_y), (box.max_x, box.min_y), (box.max_x, box.max_y), (box.min_x, box.max_y),
        (box.min_x, box.min_y),
    )  # fmt: skip
    return Geometry("Polygon", (ring,), box.srid)


def _box(lower: Position, upper: Position, crs: CrsReference, parameter: str) -> Envelope:
    a, b = _turned(list(lower), crs), _turned(list(upper), crs)
    if a[0] > b[0] or a[1] > b[1]:
        raise InvalidParameter(
            parameter,
            f"The lower corner of the box ({a[0]:g} east, {a[1]:g} north) is not below and left of the upper one "
            f"({b[0]:g} east, {b[1]:g} north) in the axis order of {crs.name}.",
        )
    return Envelope(a[0], a[1], b[0], b[1], crs.srid)


def _plain(srid: int) -> CrsReference:
    return CrsReference(srid, False, f"EPSG:{srid}")


def _same_crs(text: str, outer: CrsReference, parameter: str) -> CrsReference:
    """The CRS of an inner element; one geometry is in one CRS."""
    found = crs_reference(text.strip()[:200], parameter)
    if found.srid != outer.srid:
        raise InvalidParameter(parameter, f"One geometry is given in EPSG:{outer.srid} and EPSG:{found.srid}.")
    return found


def _turned(numbers: list[float], crs: CrsReference) -> Position:
    """A position easting first."""
    if crs.northing_first:
        return (numbers[1], numbers[0], *numbers[2:])
    return tuple(numbers)


def _dimension(text: str, parameter: str) -> int:
    if text.strip() not in ("2", "3"):
        raise InvalidParameter(parameter, f"srsDimension is '{text[:20]}'; positions have 2 or 3 numbers.")
    return int(text)


def _number(text: str, parameter: str) -> float:
    try:
        value = float(text) if len(text) <= 60 and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InvalidParameter(parameter, f"'{text[:40]}' is not a finite number.")
    return value


# ---------------------------------------------------------------- comparisons of results


@dataclass(frozen=True, slots=True)
class Comparison:
    """A test of result values.

    operator  ``==``, ``!=``, ``<``, ``>``, ``<=``, ``>=`` or ``between`` (both ends inclusive)
    name      identifier, name or part of the observed property to test; empty: every one asked for
    literal   as written, trimmed; ``upper`` is the second one of ``between``
    """

    operator: str
    name: str
    literal: str
    upper: str = ""


_COMPARISONS: Final = {
    "PropertyIsEqualTo": "==",
    "PropertyIsNotEqualTo": "!=",
    "PropertyIsLessThan": "<",
    "PropertyIsGreaterThan": ">",
    "PropertyIsLessThanOrEqualTo": "<=",
    "PropertyIsGreaterThanOrEqualTo": ">=",
}
_ANY_RESULT: Final = frozenset(("", "result", "value", "om:result", "om:value", "*"))


def comparison(element: etree._Element, parameter: str = "result") -> Comparison:
    """A comparison operator of OGC 04-095 with a property name and a literal.

    raises  InvalidParameter (``result``), NotSupported for PropertyIsLike, PropertyIsNull and what is no comparison
    """
    name = local_name(element)
    reference = ""
    literals: list[str] = []
    for part in element:
        kind = local_name(part)
        if kind in ("PropertyName", "ValueReference"):
            reference = text_of(part)
        elif kind == "Literal":
            literals.append(_literal(part, parameter))
        elif kind in ("LowerBoundary", "UpperBoundary") and len(part):
            literals.append(_literal(part[0], parameter))
        else:
            raise InvalidParameter(parameter, f"'{kind[:60]}' is not read in a filter of results.")
    if reference in _ANY_RESULT:
        reference = ""
    operator = "between" if name == "PropertyIsBetween" else _COMPARISONS.get(name)
    if operator is None:
        offered = ", ".join([*_COMPARISONS, "PropertyIsBetween"])
        raise NotSupported(f"'{name[:60]}' is not offered; comparisons are {offered}.", parameter=parameter)
    if len(literals) != (2 if operator == "between" else 1):
        raise InvalidParameter(parameter, f"{name} has {len(literals)} literals.")
    return Comparison(operator, reference, literals[0], literals[1] if operator == "between" else "")


def _literal(element: etree._Element, parameter: str) -> str:
    try:
        return required_text(element, parameter)
    except MissingParameter:
        raise InvalidParameter(parameter, "The literal of the filter is empty.") from None
