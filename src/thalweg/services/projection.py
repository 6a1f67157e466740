"""Coordinates from one CRS to another, and which axis a CRS' authority puts first."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pyproj import CRS, Transformer
from pyproj.exceptions import CRSError, ProjError

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.geometry import Envelope, Geometry


@lru_cache(maxsize=256)
def is_known(srid: int) -> bool:
    """Whether the EPSG dataset has the code as a geographic or projected CRS."""
    try:
        crs = CRS.from_epsg(srid)
    except CRSError:
        return False
    return crs.is_geographic or crs.is_projected


@lru_cache(maxsize=256)
def in_degrees(srid: int) -> bool:
    """Whether the coordinates of the CRS are longitudes and latitudes in degrees."""
    try:
        crs = CRS.from_epsg(srid)
    except CRSError:
        return False
    return bool(crs.is_geographic) and all(axis.unit_name == "degree" for axis in crs.axis_info[:2])


@lru_cache(maxsize=256)
def northing_first(srid: int) -> bool:
    """Whether the authority's axis order is north (latitude) before east (longitude)."""
    axes = CRS.from_epsg(srid).axis_info
    return bool(axes) and axes[0].direction.lower() in ("north", "south")


@lru_cache(maxsize=64)
def transformer_between(source: int, target: int) -> Transformer:
    """Raises InvalidParameter for the few codes that no transformation is known to or from."""
    try:
        return Transformer.from_crs(source, target, always_xy=True)
    except ProjError:
        raise InvalidParameter("srsName", f"There is no way from EPSG:{source} to EPSG:{target}.") from None


def transform(geometry: Geometry, srid: int) -> Geometry:
    """The geometry in another CRS, x y order; z is carried over unchanged.

    raises  InvalidParameter where a position lies outside what the projection can express
    """
    if geometry.srid == srid:
        return geometry
    transformer = transformer_between(geometry.srid, srid)

    def move(item: Any) -> Any:
        if isinstance(item[0], int | float):
            x, y = _move(transformer, item[0], item[1], srid)
            return (x, y, *item[2:])
        return tuple(move(part) for part in item)

    return Geometry(geometry.type, move(geometry.coordinates), srid)


def transform_envelope(envelope: Envelope, srid: int) -> Envelope:
    """The box around the four corners and four mid-sides in another CRS."""
    if envelope.srid == srid:
        return envelope
    transformer = transformer_between(envelope.srid, srid)
    xs = (envelope.min_x, (envelope.min_x + envelope.max_x) / 2, envelope.max_x)
    ys = (envelope.min_y, (envelope.min_y + envelope.max_y) / 2, envelope.max_y)
    moved = [_move(transformer, x, y, srid) for x in xs for y in ys]
    return Envelope(
        min(x for x, _ in moved), min(y for _, y in moved), max(x for x, _ in moved), max(y for _, y in moved), srid
    )


def _move(transformer: Transformer, x: float, y: float, srid: int) -> tuple[float, float]:
    try:
        moved_x, moved_y = transformer.transform(x, y, errcheck=True)
    except ProjError:
        moved_x = math.inf
        moved_y = math.inf
    if not (math.isfinite(moved_x) and math.isfinite(moved_y)):
        raise InvalidParameter("srsName", f"The position {x} {y} cannot be expressed in EPSG:{srid}.")
    return float(moved_x), float(moved_y)


@dataclass(frozen=True, slots=True)
class CrsReference:
    """A CRS as a document names it.

    northing_first  coordinates under this name are written north (latitude) before east (longitude)
    name            the text to write in srsName
    """

    srid: int
    northing_first: bool
    name: str


_SHORT = re.compile(r"(?:EPSG:)?(\d{1,6})", re.ASCII | re.IGNORECASE)
_AUTHORITY = re.compile(
    r"(?:urn:(?:x-)?ogc:def:crs:EPSG:[\d.]*:|https?://www\.opengis\.net/def/crs/EPSG/[\d.]{1,8}/"
    r"|http://www\.opengis\.net/gml/srs/epsg\.xml#)(\d{1,6})",
    re.ASCII | re.IGNORECASE,
)


def parse_crs(text: str, parameter: str) -> CrsReference:
    """Read an EPSG reference: ``4326``, ``EPSG:4326`` (x y order), or the urn, http and GML forms (authority's order,
    except the old ``epsg.xml#`` form, which is x y). PROJ strings and WKT are never read.

    raises  InvalidParameter for anything else or a code that EPSG does not have
    source  OGC 09-048r5; WFS practice that ``EPSG:n`` means east before north
    """
    short = _SHORT.fullmatch(text)
    match = short or _AUTHORITY.fullmatch(text)
    if match is None:
        raise InvalidParameter(
            parameter,
            f"'{text[:80]}' is not a CRS reference; use EPSG:4326, urn:ogc:def:crs:EPSG::4326 or "
            "http://www.opengis.net/def/crs/EPSG/0/4326.",
        )
    srid = int(match.group(1))
    if not is_known(srid):
        raise InvalidParameter(parameter, f"EPSG has no CRS with the code {srid}.")
    swapped = short is None and "epsg.xml#" not in text.lower() and northing_first(srid)
    return CrsReference(srid, swapped, f"EPSG:{srid}" if short else text)
