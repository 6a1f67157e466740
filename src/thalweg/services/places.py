"""Spatial filters on features of interest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.geometry import Envelope, Geometry, SpatialFilter, SpatialOperator
from thalweg.services.projection import transform

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry


def place_test(spatial: SpatialFilter) -> Callable[[Geometry | None], bool]:
    """A test of features' geometries; the filter's own geometry is prepared once, however many features follow.

    The feature is brought into the filter's CRS; one without geometry, or one that cannot be expressed there, passes no
    filter. BBOX means: intersects the box, borders included.
    source: OGC 09-026r2 clause 7.8
    """
    other = spatial.geometry
    in_crs = _in_box(other) if isinstance(other, Envelope) else _against(other, spatial)

    def test(geometry: Geometry | None) -> bool:
        if geometry is None:
            return False
        try:
            moved = transform(geometry, other.srid)
        except InvalidParameter:
            return False
        return in_crs(moved)

    return test


def _in_box(box: Envelope) -> Callable[[Geometry], bool]:
    def test(geometry: Geometry) -> bool:
        if geometry.type == "Point":
            x, y = geometry.coordinates[:2]
            return bool(box.min_x <= x <= box.max_x and box.min_y <= y <= box.max_y)
        from shapely.geometry import box as rectangle

        return bool(_shape(geometry).intersects(rectangle(box.min_x, box.min_y, box.max_x, box.max_y)))

    return test


def _against(other: Geometry, spatial: SpatialFilter) -> Callable[[Geometry], bool]:
    """A test against a prepared geometry: predicates are asked of it, so the feature's side is turned around."""
    import shapely

    right = _shape(other)
    shapely.prepare(right)
    near_by = spatial.distance or 0.0

    def test(geometry: Geometry) -> bool:
        left = _shape(geometry)
        match spatial.operator:
            case SpatialOperator.DWITHIN:
                return _distance(left, right, other.srid, spatial) <= near_by
            case SpatialOperator.BEYOND:
                return _distance(left, right, other.srid, spatial) > near_by
            case SpatialOperator.BBOX | SpatialOperator.INTERSECTS:
                return bool(right.intersects(left))
            case SpatialOperator.EQUALS:
                return bool(left.equals(right))
            case SpatialOperator.DISJOINT:
                return bool(right.disjoint(left))
            case SpatialOperator.TOUCHES:
                return bool(right.touches(left))
            case SpatialOperator.CROSSES:
                return bool(right.crosses(left))
            case SpatialOperator.WITHIN:
                return bool(right.contains(left))
            case SpatialOperator.CONTAINS:
                return bool(right.within(left))
            case SpatialOperator.OVERLAPS:
                return bool(right.overlaps(left))

    return test


def _distance(left: BaseGeometry, right: BaseGeometry, srid: int, spatial: SpatialFilter) -> float:
    """In the CRS' own units, or in metres on the ellipsoid between the two nearest points."""
    from shapely.ops import nearest_points

    if not spatial.distance_m:
        return float(left.distance(right))
    from pyproj import CRS, Geod

    crs = CRS.from_epsg(srid)
    if not crs.is_geographic:
        return float(left.distance(right)) * float(crs.axis_info[0].unit_conversion_factor)
    a, b = nearest_points(left, right)
    ellipsoid = crs.ellipsoid
    if ellipsoid is None:
        return float(left.distance(right))
    geod = Geod(a=ellipsoid.semi_major_metre, b=ellipsoid.semi_minor_metre)
    return float(geod.inv(a.x, a.y, b.x, b.y)[2])


def _shape(geometry: Geometry) -> BaseGeometry:
    from shapely.geometry import shape

    return shape({"type": geometry.type, "coordinates": geometry.coordinates})
