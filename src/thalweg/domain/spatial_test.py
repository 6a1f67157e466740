"""One spatial condition as a test of geometries: stores and plain evaluation share it.

Geometries are WKB, x y, in one CRS. The test's own side is prepared once, however many features follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from thalweg.domain.geometry import Envelope, SpatialOperator

if TYPE_CHECKING:
    from pyproj import Geod
    from shapely.geometry.base import BaseGeometry

_DEGREE_M: Final = 110_500.0
"""Less than any degree of latitude on Earth, metres, so that a box made by it is not too small."""


class SpatialTest:
    """``subject OPERATOR object`` for a fixed object.

    distance  for DWITHIN and BEYOND; metric: it is in metres on the ellipsoid of ``srid``, a geographic CRS
    """

    def __init__(
        self, operator: SpatialOperator, other: bytes, srid: int, *, distance: float | None = None, metric: bool = False
    ) -> None:
        import shapely

        self.operator = operator
        self._other: BaseGeometry = shapely.from_wkb(other)
        shapely.prepare(self._other)
        self._srid = srid
        self._distance = distance or 0.0
        self._metric = metric
        self._test = self._chosen()

    def __call__(self, subject: bytes | None) -> bool | None:
        """None for a missing geometry. False where the geometry library cannot tell (an invalid geometry)."""
        if subject is None:
            return None
        import shapely

        try:
            return self._test(shapely.from_wkb(subject))
        except shapely.errors.GEOSException:
            return False

    def _chosen(self) -> Callable[[BaseGeometry], bool]:
        """Predicates are asked of the prepared side, so that the subject's are turned around."""
        import shapely

        other = self._other
        match self.operator:
            case SpatialOperator.BBOX | SpatialOperator.INTERSECTS:
                return lambda subject: bool(shapely.intersects(other, subject))
            case SpatialOperator.DISJOINT:
                return lambda subject: bool(shapely.disjoint(other, subject))
            case SpatialOperator.WITHIN:
                return lambda subject: bool(shapely.contains(other, subject))
            case SpatialOperator.CONTAINS:
                return lambda subject: bool(shapely.within(other, subject))
            case SpatialOperator.TOUCHES:
                return lambda subject: bool(shapely.touches(other, subject))
            case SpatialOperator.CROSSES:
                return lambda subject: bool(shapely.crosses(subject, other))
            case SpatialOperator.OVERLAPS:
                return lambda subject: bool(shapely.overlaps(other, subject))
            case SpatialOperator.EQUALS:
                return lambda subject: bool(shapely.equals(other, subject))
            case SpatialOperator.DWITHIN:
                if not self._metric:
                    return lambda subject: bool(shapely.dwithin(subject, other, self._distance))
                return lambda subject: self._metres(subject) <= self._distance
            case SpatialOperator.BEYOND:
                if not self._metric:
                    return lambda subject: bool(shapely.distance(subject, other) > self._distance)
                return lambda subject: self._metres(subject) > self._distance

    def _metres(self, subject: BaseGeometry) -> float:
        """Between the two nearest points, on the ellipsoid; NaN with an empty geometry.

        They are looked for in degrees with longitudes shrunk as they are at the object's latitude, which finds the
        nearest for whatever is small against the Earth.
        """
        import shapely

        first, second = subject, self._other
        if first.is_empty or second.is_empty:
            return math.nan
        scale = max(0.01, math.cos(math.radians(second.centroid.y)))
        line = shapely.shortest_line(_scaled(first, scale), _scaled(second, scale))
        (x0, y0), (x1, y1) = ((x / scale, y) for x, y, *_ in line.coords)
        return float(_ellipsoid(self._srid).inv(x0, y0, x1, y1)[2])

    def box(self) -> Envelope | None:
        """The box that a subject's box has to meet for the test to be true; None: it may be anywhere.

        An empty object has the box of nothing (its edges are NaN), which meets none.
        """
        if self.operator in (SpatialOperator.DISJOINT, SpatialOperator.BEYOND):
            return None
        x0, y0, x1, y1 = self._other.bounds
        if self.operator is not SpatialOperator.DWITHIN:
            return Envelope(x0, y0, x1, y1, self._srid)
        d = self._distance
        if not self._metric:
            return Envelope(x0 - d, y0 - d, x1 + d, y1 + d, self._srid)
        up = d / _DEGREE_M
        latitude = max(abs(y0), abs(y1)) + up
        if not latitude < 89.0:
            return None
        across = up / math.cos(math.radians(latitude)) * 1.01
        if x0 - across < -180 or x1 + across > 180:
            # Beyond the antimeridian it goes on at the other side.
            return None
        return Envelope(x0 - across, y0 - up, x1 + across, y1 + up, self._srid)


def related(operator: SpatialOperator, subject: bytes | None, other: bytes | None, srid: int, distance: float | None,
            metric: bool) -> bool | None:  # fmt: skip
    """A test of two geometries that both come with the feature."""
    if subject is None or other is None:
        return None
    return SpatialTest(operator, other, srid, distance=distance, metric=metric)(subject)


def _scaled(shape: BaseGeometry, scale: float) -> BaseGeometry:
    import shapely

    return shapely.transform(shape, lambda positions: positions * (scale, 1.0))


@lru_cache(maxsize=64)
def _ellipsoid(srid: int) -> Geod:
    from pyproj import CRS, Geod

    ellipsoid = CRS.from_epsg(srid).ellipsoid
    if ellipsoid is None:
        return Geod(ellps="WGS84")
    return Geod(a=ellipsoid.semi_major_metre, b=ellipsoid.semi_minor_metre)
