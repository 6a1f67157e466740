"""Geometries of GML 2.1.2, 3.1.1 and 3.2.1 as they come in: filters, transactions, loaded files.

Elements are known by their local names, in whatever namespace: many clients bind the wrong version of GML, or none.
Coordinates leave as x y [z]; the ``srsName`` that is nearest above a position decides in which order it was written.
Arcs and circles through positions become lines (``gml_curves.py``); other curves are refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt
import shapely
from lxml.etree import _Element
from shapely.errors import GEOSException
from shapely.geometry.base import BaseGeometry

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.features import MAX_GEOMETRY_DEPTH
from thalweg.domain.filters import GeometryValue
from thalweg.encode.crs import CrsName, parse_crs
from thalweg.encode.gml_curves import SEGMENTS, NoCurve
from thalweg.encode.xml_elements import local_name

Positions = npt.NDArray[np.float64]

GEOMETRY_ELEMENTS: Final = frozenset(
    {
        "Point", "LineString", "LinearRing", "Ring", "Curve", "CompositeCurve", "Polygon", "Surface",
        "CompositeSurface", "PolyhedralSurface", "MultiPoint", "MultiLineString", "MultiCurve", "MultiPolygon",
        "MultiSurface", "MultiGeometry", "Envelope", "Box",
    }
)  # fmt: skip
"""Local names of the elements that ``read_geometry`` takes."""

_CURVES: Final = frozenset({"LineString", "Curve", "CompositeCurve", "LinearRing", "Ring"})
_SURFACES: Final = frozenset({"Polygon", "Surface", "CompositeSurface", "PolyhedralSurface"})
_COLLECTIONS: Final = frozenset({"MultiPoint", "MultiLineString", "MultiCurve", "MultiPolygon", "MultiSurface",
                                 "MultiGeometry"})  # fmt: skip
_MEMBERS: Final = frozenset(
    {
        "pointMember", "pointMembers", "lineStringMember", "curveMember", "curveMembers", "polygonMember",
        "surfaceMember", "surfaceMembers", "geometryMember", "geometryMembers",
    }
)  # fmt: skip
_PATCHES: Final = frozenset({"PolygonPatch", "Rectangle", "Triangle"})
_MAX_DIMENSION: Final = 3
MAX_CURVE_POSITIONS: Final = 1_000_000
"""Most positions of the segments of one geometry, arcs drawn as lines."""


def read_geometry(
    element: _Element,
    parameter: str,
    *,
    default: CrsName | None = None,
    authority_order: bool = True,
    always_xy: bool = False,
) -> GeometryValue:
    """A geometry from its element (or from an element that holds exactly one).

    parameter        named by errors
    default          the CRS where no ``srsName`` says one
    authority_order  without either: whether coordinates come in the order of the authority of the layer's CRS
                     (GML 3 in WFS 1.1 and 2.0) rather than x y (WFS 1.0); see ``GeometryValue.as_written``
    always_xy        coordinates come x y however their CRS is spelt
    returns          WKB in the CRS it was written in; an envelope as a rectangle, marked
    raises           InvalidParameter for another element, another CRS inside than outside, broken coordinates, a ring
                     of fewer than four positions, mixed dimensions, a curve that is not straight
    """
    element = _found(element, parameter)
    reader = _Reader(parameter, default, always_xy)
    context = reader.context(element, _Context(default, 0))
    shape = reader.shape(element, context, 0)
    crs = reader.crs
    return GeometryValue(
        shapely.to_wkb(shape, flavor="iso", byte_order=1),
        0 if crs is None else crs.srid,
        local_name(element) in ("Envelope", "Box"),
        crs is None and authority_order and not always_xy,
    )


def is_geometry(element: _Element) -> bool:
    """Whether it is a geometry by its name, in a namespace of GML or none."""
    name = str(element.tag)
    if name.startswith("{") and not name.startswith("{http://www.opengis.net/gml"):
        return False
    return local_name(element) in GEOMETRY_ELEMENTS


def _found(element: _Element, parameter: str) -> _Element:
    if local_name(element) in GEOMETRY_ELEMENTS:
        return element
    inside = [child for child in element if local_name(child) in GEOMETRY_ELEMENTS]
    if len(inside) != 1 or len(element) != 1:
        raise InvalidParameter(
            parameter,
            f"'{local_name(element)[:60]}' is no geometry that is read here; "
            f"{', '.join(sorted(GEOMETRY_ELEMENTS))} are.",
        )
    return inside[0]


@dataclass(frozen=True, slots=True)
class _Context:
    """What elements above say: the CRS, and the dimension (0: nothing)."""

    crs: CrsName | None
    dimension: int


class _Reader:
    """One geometry. ``crs`` is that of the positions read so far."""

    def __init__(self, parameter: str, default: CrsName | None, always_xy: bool) -> None:
        self._parameter = parameter
        self._always_xy = always_xy
        self._any_position = False
        self._made = 0
        self.crs: CrsName | None = default

    def context(self, element: _Element, above: _Context) -> _Context:
        name = element.get("srsName")
        dimension = element.get("srsDimension") or element.get("dimension")
        crs, size = above.crs, above.dimension
        if name:
            crs = parse_crs(name, self._parameter)
        if dimension is not None:
            if dimension not in ("2", "3"):
                self._refuse(f"srsDimension '{dimension[:20]}' is neither 2 nor 3")
            size = int(dimension)
        return _Context(crs, size) if name or dimension is not None else above

    def shape(self, element: _Element, context: _Context, depth: int) -> BaseGeometry:
        name = local_name(element)
        try:
            if name == "Point":
                return self._point(element, context)
            if name in _CURVES:
                return self._curve(element, context)
            if name in _SURFACES:
                return self._surface(element, context)
            if name in ("Envelope", "Box"):
                return self._box(element, context)
            if name in _COLLECTIONS:
                return self._collection(element, context, depth)
        except (GEOSException, ValueError) as error:
            self._refuse(f"{name}: {str(error)[:200]}")
        self._refuse(f"'{name[:60]}' is not read here")

    # ---- parts -------------------------------------------------------------------------------------------------

    def _point(self, element: _Element, context: _Context) -> BaseGeometry:
        positions = self._positions(element, context)
        if len(positions) == 0:
            return shapely.Point()
        if len(positions) != 1:
            self._refuse("a Point has more than one position")
        return _made(shapely.points(positions[0]))

    def _curve(self, element: _Element, context: _Context) -> BaseGeometry:
        positions = self._line(element, context)
        if len(positions) == 0:
            return shapely.LineString()
        if len(positions) < 2:
            self._refuse(f"a {local_name(element)} needs two positions at least")
        return _made(shapely.linestrings(positions))

    def _line(self, element: _Element, context: _Context) -> Positions:
        """The positions of any curve, segments and members joined."""
        context = self.context(element, context)
        name = local_name(element)
        if name in ("LineString", "LinearRing", "LineStringSegment"):
            return self._positions(element, context)
        parts: list[Positions] = []
        if name == "Curve":
            for holder in element:
                if local_name(holder) == "segments":
                    parts += [self._segment(segment, self.context(segment, context)) for segment in holder]
        elif name in ("CompositeCurve", "Ring"):
            for holder in element:
                if local_name(holder) in ("curveMember", "curveMembers"):
                    parts += [self._line(child, context) for child in holder]
        else:
            self._refuse(f"'{name[:60]}' is no curve that is read here")
        if not parts:
            self._refuse(f"a {name} has no segments")
        joined = [parts[0]]
        for part in parts[1:]:
            before = joined[-1]
            if len(before) and len(part) and not np.array_equal(before[-1], part[0]):
                self._refuse(f"the parts of a {name} do not join")
            joined.append(part[1:])
        return np.concatenate(joined)

    def _segment(self, segment: _Element, context: _Context) -> Positions:
        kind = local_name(segment)
        as_line = SEGMENTS.get(kind)
        if as_line is None:
            self._refuse(f"curve segments of the kind '{kind[:60]}' are not read here; {', '.join(SEGMENTS)} are")
        try:
            positions = as_line(self._positions(segment, context))
        except NoCurve as error:
            self._refuse(str(error))
        self._made += len(positions)
        if self._made > MAX_CURVE_POSITIONS:
            self._refuse(f"its arcs make a line of more than {MAX_CURVE_POSITIONS:,} positions")
        return positions

    def _surface(self, element: _Element, context: _Context) -> BaseGeometry:
        name = local_name(element)
        if name == "Polygon":
            return self._polygon(element, context)
        patches: list[BaseGeometry] = []
        for holder in element:
            inside = self.context(holder, context)
            if local_name(holder) in ("patches", "polygonPatches"):
                for patch in holder:
                    if local_name(patch) not in _PATCHES:
                        self._refuse(f"surface patches of the kind '{local_name(patch)[:60]}' are not read here")
                    patches.append(self._polygon(patch, self.context(patch, inside)))
            elif local_name(holder) in ("surfaceMember", "surfaceMembers"):
                patches += [self._surface(child, self.context(child, inside)) for child in holder]
        if not patches:
            self._refuse(f"a {name} has no patches")
        if len(patches) == 1:
            return patches[0]
        # Patches share borders, which the parts of a multipolygon may not.
        return shapely.union_all(patches)

    def _polygon(self, element: _Element, context: _Context) -> BaseGeometry:
        exterior: Positions | None = None
        interior: list[Positions] = []
        for holder in element:
            kind = local_name(holder)
            if kind not in ("exterior", "interior", "outerBoundaryIs", "innerBoundaryIs"):
                continue
            for ring in holder:
                positions = self._line(ring, self.context(holder, context))
                if len(positions) < 4:
                    self._refuse("a ring needs four positions at least, the last equal to the first")
                if not np.array_equal(positions[0], positions[-1]):
                    self._refuse("a ring does not end where it begins")
                if kind in ("exterior", "outerBoundaryIs"):
                    if exterior is not None:
                        self._refuse("a polygon has two exterior rings")
                    exterior = positions
                else:
                    interior.append(positions)
        if exterior is None:
            if interior:
                self._refuse("a polygon has holes but no exterior ring")
            return shapely.Polygon()
        if any(ring.shape[1] != exterior.shape[1] for ring in interior):
            self._refuse("positions have two and three coordinates mixed")
        return shapely.Polygon(exterior, interior)

    def _collection(self, element: _Element, context: _Context, depth: int) -> BaseGeometry:
        if depth >= MAX_GEOMETRY_DEPTH:
            self._refuse(f"collections are nested more than {MAX_GEOMETRY_DEPTH} deep")
        parts: list[BaseGeometry] = []
        for holder in element:
            if local_name(holder) not in _MEMBERS:
                continue
            inside = self.context(holder, context)
            parts += [self.shape(child, self.context(child, inside), depth + 1) for child in holder]
        if len({part.has_z for part in parts if not part.is_empty}) > 1:
            self._refuse("positions have two and three coordinates mixed")
        name = local_name(element)
        if name == "MultiPoint":
            return _together(shapely.multipoints, self._only(parts, "Point", name), shapely.MultiPoint())
        if name in ("MultiLineString", "MultiCurve"):
            parts = self._only(parts, "LineString", name)
            return _together(shapely.multilinestrings, parts, shapely.MultiLineString())
        if name in ("MultiPolygon", "MultiSurface"):
            # A surface of several patches is a multipolygon already.
            flat: list[BaseGeometry] = shapely.get_parts(np.array(parts, dtype=object)).tolist()
            return _together(shapely.multipolygons, self._only(flat, "Polygon", name), shapely.MultiPolygon())
        return _together(shapely.geometrycollections, parts, shapely.GeometryCollection())

    def _only(self, parts: list[BaseGeometry], kind: str, name: str) -> list[BaseGeometry]:
        if any(part.geom_type != kind for part in parts):
            self._refuse(f"a {name} holds other geometries than {kind}")
        return parts

    def _box(self, element: _Element, context: _Context) -> BaseGeometry:
        corners = [
            self._tuple(child, self.context(child, context))
            for child in element
            if local_name(child) in ("lowerCorner", "upperCorner")
        ]
        positions = np.concatenate(corners) if corners else self._positions(element, context)
        if len(positions) != 2:
            self._refuse(f"a {local_name(element)} needs two corners")
        (x0, y0), (x1, y1) = positions[0][:2].tolist(), positions[1][:2].tolist()
        if x0 > x1 or y0 > y1:
            self._refuse(f"the lower corner of a {local_name(element)} is not below its upper corner; is the order of "
                         "coordinates that of the CRS?")  # fmt: skip
        return _made(shapely.box(x0, y0, x1, y1))

    # ---- coordinates -------------------------------------------------------------------------------------------

    def _positions(self, element: _Element, context: _Context) -> Positions:
        """What an element's own ``pos``, ``posList``, ``coord`` and ``coordinates`` say, x y [z]."""
        runs: list[Positions] = []
        for child in element:
            name = local_name(child)
            inside = self.context(child, context)
            if name == "pos":
                runs.append(self._tuple(child, inside))
            elif name == "posList":
                runs.append(self._list(child, inside))
            elif name == "coordinates":
                runs.append(self._coordinates(child, inside))
            elif name == "coord":
                runs.append(self._ordered([[self._number(part) for part in child]], inside))
            elif name in ("pointProperty", "pointRep"):
                runs += [self._positions(point, self.context(point, inside)) for point in child]
        if not runs:
            return np.empty((0, 2))
        if len({run.shape[1] for run in runs if len(run)}) > 1:
            self._refuse("positions have two and three coordinates mixed")
        return runs[0] if len(runs) == 1 else np.concatenate([run for run in runs if len(run)])

    def _tuple(self, element: _Element, context: _Context) -> Positions:
        values = self._numbers((element.text or "").split())
        return self._ordered([values], context) if values else np.empty((0, 2))

    def _list(self, element: _Element, context: _Context) -> Positions:
        values = self._numbers((element.text or "").split())
        size = context.dimension
        if not size:
            size = 3 if len(values) % 2 and not len(values) % 3 else 2
        if len(values) % size:
            self._refuse(f"a posList has {len(values)} numbers, which are no positions of {size}")
        return self._ordered(np.array(values, np.float64).reshape(-1, size), context)

    def _coordinates(self, element: _Element, context: _Context) -> Positions:
        """source: OGC 02-069 clause 4.3.1, gml:CoordinatesType"""
        decimal, comma, blank = element.get("decimal", "."), element.get("cs", ","), element.get("ts", " ")
        text = element.text or ""
        if len({decimal, comma, blank}) != 3 or any(len(sign) != 1 for sign in (decimal, comma, blank)):
            self._refuse("the separators of coordinates are not three different signs")
        if not blank.isspace():
            text = text.replace(blank, " ")
        elif not comma.isspace():
            # '1, 2 3 ,4' is seen in the wild.
            text = comma.join(part.strip() for part in text.split(comma))
        rows: list[list[float]] = []
        for item in text.split():
            parts = item.split(comma)
            rows.append(self._numbers(parts if decimal == "." else [part.replace(decimal, ".") for part in parts]))
        if len({len(row) for row in rows}) > 1:
            self._refuse("positions have two and three coordinates mixed")
        return self._ordered(rows, context) if rows else np.empty((0, 2))

    def _number(self, element: _Element) -> float:
        return self._numbers([(element.text or "").strip()])[0]

    def _numbers(self, texts: list[str]) -> list[float]:
        try:
            values = [float(text) for text in texts]
        except ValueError:
            wrong = next(text for text in texts if not _is_number(text))
            self._refuse(f"'{wrong[:40]}' is no number")
        # What Python reads and XML Schema does not.
        if not all(map(math.isfinite, values)) or any("_" in text or not text.isascii() for text in texts):
            self._refuse("a coordinate is no finite number")
        return values

    def _ordered(self, rows: list[list[float]] | Positions, context: _Context) -> Positions:
        """An array of positions in x y order; the CRS has to be the same for all."""
        positions = np.array(rows, np.float64)
        if positions.ndim != 2 or not 2 <= positions.shape[1] <= _MAX_DIMENSION:
            self._refuse("a position has neither two nor three coordinates")
        crs = context.crs
        if self._any_position and (crs and crs.srid) != (self.crs and self.crs.srid):
            self._refuse("the parts of a geometry are in different CRSs")
        self._any_position = True
        self.crs = crs
        if crs is not None and crs.swapped and not self._always_xy:
            positions[:, [0, 1]] = positions[:, [1, 0]]
        return positions

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidParameter(self._parameter, f"The geometry cannot be read: {what}.")


def _made(shape: Any) -> BaseGeometry:
    """What shapely's functions on arrays give for a single one."""
    result: BaseGeometry = shape
    return result


def _together(gather: Callable[..., Any], parts: list[BaseGeometry], empty: BaseGeometry) -> BaseGeometry:
    return _made(gather(np.array(parts, dtype=object))) if parts else empty


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
