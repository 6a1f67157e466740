"""Slippy-map tiles that a WKT literal touches.

Source: GeoSPARQL (OGC 11-052r4) section 8.5.1 for the literal; coordinates in the axis order of the CRS, CRS84 where
none is named. Tiles as OpenStreetMap and the Flanders event stream server number them.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Final

import numpy as np
import shapely
from pyproj import CRS, Transformer
from pyproj.exceptions import CRSError, ProjError

from thalweg.domain.tree import tile_bounds

MAX_TILES: Final = 1_024
"""Tiles of one geometry; a larger one is of no use to a reader who looks for a tile, and costs the others time."""
MAX_WKT_LENGTH: Final = 1 << 20
MAX_WKT_DEPTH: Final = 16
"""Nested parentheses: six are the most that a collection of multipolygons needs; GEOS crashes on some thousands."""
MAX_LATITUDE: Final = math.degrees(math.atan(math.sinh(math.pi)))
"""Where the square of the tiles ends, 85.05113 degrees."""
_REMEMBERED: Final = 2_048
_REMEMBERED_LENGTH: Final = 4_000

_LITERAL: Final = re.compile(r"\s*(?:<([^<>]{1,200})>\s*)?([A-Za-z][A-Za-z0-9\s.,()+-]*)")
_EPSG: Final = re.compile(
    r"(?:https?://www\.opengis\.net/def/crs/EPSG/[\d.]{1,10}/|urn:(?:x-)?ogc:def:crs:EPSG:[\d.]{0,10}:)(\d{1,6})",
    re.ASCII | re.IGNORECASE,
)
_CRS84: Final = re.compile(
    r"(?:https?://www\.opengis\.net/def/crs/OGC/[\d.]{1,10}/|urn:(?:x-)?ogc:def:crs:OGC:[\d.]{0,10}:)CRS84",
    re.IGNORECASE,
)


def tiles(literal: str, zoom: int) -> tuple[tuple[int, int], ...] | None:
    """Columns and rows of the tiles at a zoom that a geometry touches, in order; None where it cannot be read, lies
    outside of the tiles' square or touches more than MAX_TILES."""
    if len(literal) > _REMEMBERED_LENGTH:
        return _tiles(literal, zoom)
    return _remembered(literal, zoom)


def _tiles(literal: str, zoom: int) -> tuple[tuple[int, int], ...] | None:
    geometry = read_wkt(literal)
    if geometry is None:
        return None
    west, south, east, north = shapely.bounds(geometry).tolist()
    if not (-180.0 <= west <= east <= 180.0 and -MAX_LATITUDE <= south <= north <= MAX_LATITUDE):
        return None
    n = 1 << zoom
    left, right = _column(west, n), _column(east, n)
    top, bottom = _row(north, n), _row(south, n)
    count = (right - left + 1) * (bottom - top + 1)
    if count == 1:
        return ((left, top),)
    if count > MAX_TILES:
        return None
    found = [(x, y) for x in range(left, right + 1) for y in range(top, bottom + 1)]
    bounds = np.array([tile_bounds(zoom, x, y) for x, y in found])
    shapely.prepare(geometry)
    touched = shapely.intersects(geometry, shapely.box(bounds[:, 0], bounds[:, 1], bounds[:, 2], bounds[:, 3]))
    # Rounding at an edge must not lose a member.
    return tuple(tile for tile, is_touched in zip(found, touched.tolist(), strict=True) if is_touched) or None


_remembered: Final = lru_cache(_REMEMBERED)(_tiles)
"""Versions of one object mostly have one geometry."""


def _column(longitude: float, n: int) -> int:
    return min(n - 1, max(0, math.floor((longitude + 180.0) / 360.0 * n)))


def _row(latitude: float, n: int) -> int:
    radians = math.radians(latitude)
    return min(n - 1, max(0, math.floor((1.0 - math.asinh(math.tan(radians)) / math.pi) / 2.0 * n)))


def read_wkt(literal: str) -> shapely.Geometry | None:
    """The geometry in longitude and latitude (WGS 84); None where it cannot be read, is empty or has no such place."""
    if len(literal) > MAX_WKT_LENGTH:
        return None
    match = _LITERAL.fullmatch(literal)
    if match is None or not _is_shallow(match[2]):
        return None
    try:
        with np.errstate(all="ignore"):
            geometry = shapely.from_wkt(match[2])
    except (shapely.errors.ShapelyError, ValueError):
        return None
    if geometry.is_empty:
        return None
    name = match[1]
    if name is None or _CRS84.fullmatch(name):
        coordinates = shapely.get_coordinates(geometry)
    else:
        transformer = _transformer(name)
        if transformer is None:
            return None
        given = shapely.get_coordinates(geometry)
        try:
            x, y = transformer.transform(given[:, 0], given[:, 1])
        except ProjError:
            return None
        coordinates = np.column_stack((x, y))
        if np.isfinite(coordinates).all():
            geometry = shapely.set_coordinates(shapely.force_2d(geometry), coordinates)
    return geometry if np.isfinite(coordinates).all() else None


def _is_shallow(text: str) -> bool:
    if text.count("(") <= MAX_WKT_DEPTH:
        return True
    depth = deepest = 0
    for character in re.findall(r"[()]", text):
        depth += 1 if character == "(" else -1
        deepest = max(deepest, depth)
    return deepest <= MAX_WKT_DEPTH


@lru_cache(256)
def _transformer(name: str) -> Transformer | None:
    """From the CRS, its axes in the authority's order, to longitude and latitude. None for one that is not known."""
    match = _EPSG.fullmatch(name)
    if match is None:
        return None
    try:
        crs = CRS.from_epsg(int(match[1]))
        if not (crs.is_geographic or crs.is_projected):
            return None
        return Transformer.from_crs(crs, "OGC:CRS84")
    except (CRSError, ProjError):
        return None
