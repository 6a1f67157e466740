"""Geometries of GeoJSON (RFC 7946) as they come in, from values that a JSON parser has made.

Form, depth and numbers are checked here, before a library sees anything.
"""

from __future__ import annotations

import math
from typing import Any, Final, NoReturn

import shapely
from shapely.errors import GEOSException
from shapely.geometry.base import BaseGeometry

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.features import MAX_GEOMETRY_DEPTH

_DEPTHS: Final = {"Point": 0, "MultiPoint": 1, "LineString": 1, "MultiLineString": 2, "Polygon": 2, "MultiPolygon": 3}
"""How many lists stand around a position."""


def read_geojson(value: Any, parameter: str) -> bytes:
    """A geometry's WKB (ISO), coordinates in the order of writing.

    raises  InvalidParameter for another form, mixed dimensions, a ring that is not closed or has fewer than four
            positions, numbers that are not finite
    """
    return shapely.to_wkb(_Reader(parameter).shape(value, 0), flavor="iso", byte_order=1)


class _Reader:
    def __init__(self, parameter: str) -> None:
        self._parameter = parameter
        self._dimension = 0

    def shape(self, value: Any, depth: int) -> BaseGeometry:
        if not isinstance(value, dict):
            self._refuse("a geometry is an object with type and coordinates")
        kind = value.get("type")
        if kind == "GeometryCollection":
            parts = value.get("geometries")
            if not isinstance(parts, list):
                self._refuse("a GeometryCollection has no list of geometries")
            if depth >= MAX_GEOMETRY_DEPTH:
                self._refuse(f"collections are nested more than {MAX_GEOMETRY_DEPTH} deep")
            return shapely.GeometryCollection([self.shape(part, depth + 1) for part in parts])
        if not isinstance(kind, str) or kind not in _DEPTHS:
            self._refuse(f"'{str(kind)[:40]}' is no type of geometry; {', '.join(_DEPTHS)} and GeometryCollection are")
        coordinates = value.get("coordinates")
        if not isinstance(coordinates, list):
            self._refuse(f"a {kind} has no list of coordinates")
        checked = self._level(coordinates, _DEPTHS[kind])
        try:
            return self._made(kind, checked)
        except (GEOSException, ValueError) as error:
            self._refuse(f"{kind}: {str(error)[:100]}")

    def _made(self, kind: str, coordinates: list[Any]) -> BaseGeometry:
        if kind == "Point":
            return shapely.Point(coordinates) if coordinates else shapely.Point()
        if kind == "MultiPoint":
            return shapely.MultiPoint(coordinates)
        if kind == "LineString":
            return self._line(coordinates)
        if kind == "MultiLineString":
            return shapely.MultiLineString([self._line(part) for part in coordinates])
        if kind == "Polygon":
            return self._polygon(coordinates)
        return shapely.MultiPolygon([self._polygon(part) for part in coordinates])

    def _line(self, positions: list[Any]) -> shapely.LineString:
        if len(positions) == 1:
            self._refuse("a line needs two positions at least")
        return shapely.LineString(positions)

    def _polygon(self, rings: list[Any]) -> shapely.Polygon:
        for ring in rings:
            if len(ring) < 4 or ring[0] != ring[-1]:
                self._refuse("a ring needs four positions at least, the last equal to the first")
        return shapely.Polygon(rings[0], rings[1:]) if rings else shapely.Polygon()

    def _level(self, value: Any, depth: int) -> list[Any]:
        if not isinstance(value, list):
            self._refuse("coordinates are not nested as the type asks for")
        if depth:
            return [self._level(item, depth - 1) for item in value]
        return self._position(value)

    def _position(self, value: list[Any]) -> list[float]:
        if not value:
            return []
        # RFC 7946 section 3.1.1: more than three elements should not be written; what follows is left out.
        size = min(len(value), 3)
        if self._dimension not in (0, size) or size < 2:
            self._refuse("positions have two coordinates each, or three each")
        self._dimension = size
        for item in value[:size]:
            if isinstance(item, bool) or not isinstance(item, int | float) or not math.isfinite(item):
                self._refuse(f"'{str(item)[:40]}' is no finite number")
        return [float(item) for item in value[:size]]

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidParameter(self._parameter, f"The geometry cannot be read: {what}.")
