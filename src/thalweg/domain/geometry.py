"""Geometries of features of interest and spatial filters, without a geometry library.

Inside, coordinates are always **x y [z]**: easting before northing, longitude before latitude, whatever the
authority's order of the CRS is. A door turns them at its edge. A CRS is its EPSG code, an integer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

WGS84: Final = 4326


@dataclass(frozen=True, slots=True)
class Geometry:
    """A geometry in the form of GeoJSON (RFC 7946 section 3.1), x y [z], in the CRS of its EPSG code.

    type         Point, LineString, Polygon, MultiPoint, MultiLineString, MultiPolygon
    coordinates  nested tuples of floats, as deep as the type asks for
    """

    type: str
    coordinates: Any
    srid: int = WGS84

    def positions(self) -> Iterator[tuple[float, ...]]:
        """Every position, in order of writing."""
        stack: list[Any] = [self.coordinates]
        while stack:
            item = stack.pop()
            if item and isinstance(item[0], int | float):
                yield tuple(item)
            else:
                stack.extend(reversed(item))

    def envelope(self) -> Envelope:
        xs, ys = zip(*((p[0], p[1]) for p in self.positions()), strict=True)
        return Envelope(min(xs), min(ys), max(xs), max(ys), self.srid)


def point(x: float, y: float, z: float | None = None, srid: int = WGS84) -> Geometry:
    """A point, x (east, longitude) before y (north, latitude); z in metres up."""
    return Geometry("Point", (x, y) if z is None else (x, y, z), srid)


@dataclass(frozen=True, slots=True)
class Envelope:
    """A box, x y order, closed at all sides."""

    min_x: float
    min_y: float
    max_x: float
    max_y: float
    srid: int = WGS84

    def union(self, other: Envelope) -> Envelope:
        """The smallest box around both; both in the same CRS."""
        return Envelope(
            min(self.min_x, other.min_x), min(self.min_y, other.min_y),
            max(self.max_x, other.max_x), max(self.max_y, other.max_y), self.srid,
        )  # fmt: skip


class SpatialOperator(StrEnum):
    """Operators of OGC 04-095 and 09-026r2; the feature's geometry is the left operand."""

    BBOX = "BBOX"
    EQUALS = "Equals"
    DISJOINT = "Disjoint"
    INTERSECTS = "Intersects"
    TOUCHES = "Touches"
    CROSSES = "Crosses"
    WITHIN = "Within"
    CONTAINS = "Contains"
    OVERLAPS = "Overlaps"
    DWITHIN = "DWithin"
    BEYOND = "Beyond"


@dataclass(frozen=True, slots=True)
class SpatialFilter:
    """A test of a feature's geometry against another geometry.

    geometry  an Envelope only with BBOX
    distance  for DWITHIN and BEYOND, in units of ``geometry.srid``'s axes unless ``distance_m``
    distance_m  the distance is in metres: on a geographic CRS it is measured on the ellipsoid
    """

    operator: SpatialOperator
    geometry: Geometry | Envelope
    distance: float | None = None
    distance_m: bool = False
