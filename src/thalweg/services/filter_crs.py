"""Geometries of filters in the CRS of a layer: what ``domain/filter_binding`` asks of coordinate reference systems."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import shapely
from pyproj import CRS
from shapely.geometry.base import BaseGeometry

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.features import Layer
from thalweg.domain.filter_binding import bind
from thalweg.domain.filters import Filter, GeometryValue
from thalweg.domain.geometry import WGS84
from thalweg.encode.crs import northing_first
from thalweg.services.projection import transformer_between

_EDGE_STEPS: Final = 32
"""Pieces each edge of a box is cut into before it is moved, as straight lines of one CRS are curves of another."""
_AREA_MARGIN: Final = 5.0
"""Degrees around the area a CRS is made for, to which a literal is cut that reaches where the projection ends."""


class CrsReference:
    """A ``filter_binding.Reference`` by PROJ."""

    def moved(self, value: GeometryValue, srid: int, parameter: str) -> GeometryValue:
        if value.srid == 0:
            if not (value.as_written and northing_first(srid)):
                return GeometryValue(value.wkb, srid, value.is_box)
            shape = _shape(value.wkb)
            turned = shapely.transform(shape, _swapped, include_z=shape.has_z)
            return GeometryValue(_wkb(turned), srid, value.is_box)
        if value.srid == srid:
            return value
        shape = _shape(value.wkb)
        if value.is_box and not shape.is_empty:
            x0, y0, x1, y1 = shape.bounds
            longest = max(x1 - x0, y1 - y0)
            if longest > 0:
                shape = shapely.segmentize(shape, longest / _EDGE_STEPS)
        moved = _projected(shape, value.srid, srid)
        if moved is None:
            moved = _projected(_within_area(shape, value.srid, srid), value.srid, srid)
        if moved is None:
            raise InvalidParameter(
                parameter, f"A geometry of the filter cannot be expressed in EPSG:{srid}, the CRS of the layer."
            )
        return GeometryValue(_wkb(moved), srid)

    def metres_per_unit(self, srid: int) -> float | None:
        crs = CRS.from_epsg(srid)
        if crs.is_geographic:
            return None
        return float(crs.axis_info[0].unit_conversion_factor)


REFERENCE: Final = CrsReference()


def to_store(value: GeometryValue, layer: Layer, parameter: str) -> bytes:
    """WKB of a feature's geometry in the layer's CRS.

    raises  InvalidParameter where it cannot be expressed in that, or lies beyond a pole or more than once around
    """
    moved = REFERENCE.moved(value, layer.srid, parameter)
    furthest = _furthest(layer.srid)
    if furthest is not None:
        west, south, east, north = shapely.bounds(_shape(moved.wkb)).tolist()
        if max(-west, east) > furthest[0] or max(-south, north) > furthest[1]:
            raise InvalidParameter(
                parameter,
                f"The geometry reaches from {west:g} {south:g} to {east:g} {north:g}, longitude and latitude, which is "
                "nowhere on Earth; is the order of its coordinates that of their CRS?",
            )
    return moved.wkb


@lru_cache(maxsize=64)
def _furthest(srid: int) -> tuple[float, float] | None:
    """Greatest longitude and latitude of a geographic CRS in its units; None for other CRSs.

    Longitudes are counted from 0 to 360 degrees or from -180 to 180, and lines cross the border between.
    """
    crs = CRS.from_epsg(srid)
    if not crs.is_geographic:
        return None
    unit = math.radians(1.0) / float(crs.axis_info[0].unit_conversion_factor)
    return 360 * unit, 90 * unit * (1 + 1e-12)


def bind_filter(condition: Filter, layer: Layer, *, parameter: str = "filter") -> Filter:
    """``domain.filter_binding.bind`` for one layer."""
    return bind(condition, layer, REFERENCE, parameter=parameter)


def _projected(shape: BaseGeometry, source: int, target: int) -> BaseGeometry | None:
    """None where a position has no image."""
    transformer = transformer_between(source, target)

    def move(positions: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        x, y = transformer.transform(positions[:, 0], positions[:, 1])
        return np.column_stack([x, y, *positions[:, 2:].T])

    moved = shapely.transform(shape, move, include_z=shape.has_z)
    return moved if bool(np.isfinite(shapely.get_coordinates(moved)).all()) else None


def _within_area(shape: BaseGeometry, source: int, target: int) -> BaseGeometry:
    """The part in the area that the target CRS is made for, as its own geometry type or an empty one."""
    area = CRS.from_epsg(target).area_of_use
    if area is None:
        return shape
    box: BaseGeometry = shapely.box(
        max(-180.0, area.west - _AREA_MARGIN), max(-90.0, area.south - _AREA_MARGIN),
        min(180.0, area.east + _AREA_MARGIN), min(90.0, area.north + _AREA_MARGIN),
    )  # fmt: skip
    if source != WGS84:
        own = _projected(shapely.segmentize(box, 1.0), WGS84, source)
        if own is None:
            return shape
        box = own
    if not shape.is_valid or not box.is_valid:
        return shape
    cut = shape.intersection(box)
    return shapely.segmentize(cut, 1.0) if CRS.from_epsg(source).is_geographic else cut


def _swapped(positions: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return positions[:, [1, 0, *range(2, positions.shape[1])]]


def _shape(wkb: bytes) -> BaseGeometry:
    return shapely.from_wkb(wkb)


def _wkb(shape: BaseGeometry) -> bytes:
    return shapely.to_wkb(shape, flavor="iso", byte_order=1)
