"""From what files say of their CRS to an EPSG code."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from pyproj import CRS
from pyproj.exceptions import CRSError

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.geometry import WGS84
from thalweg.services.projection import is_known, parse_crs

_MAX_WKT: Final = 64 << 10
_MAX_WKT_DEPTH: Final = 40
_CRS84: Final = re.compile(
    r"(?:urn:ogc:def:crs:OGC:[\d.]*:|OGC:|https?://www\.opengis\.net/def/crs/OGC/[\d.]+/)CRS84h?"
)
_LEAST_CONFIDENCE: Final = 70
"""How sure the projection library must be, percent, that a text without a code means an EPSG CRS; it tells 70 for one
that differs in names alone."""


def srid_of_name(name: str) -> int | None:
    """The EPSG code of a CRS name, None if unknown. CRS84 counts as 4326: inside, both are x y."""
    if _CRS84.fullmatch(name):
        return WGS84
    try:
        return parse_crs(name, "crs").srid
    except InvalidParameter:
        return None


def srid_of_text(text: str) -> int:
    """The EPSG code that a caller names: ``2056``, ``EPSG:2056``, a URN or URL. Raises InvalidParameter ``crs``."""
    if _CRS84.fullmatch(text):
        return WGS84
    return parse_crs(text, "crs").srid


@lru_cache(maxsize=16)
def srid_of_wkt(text: str) -> int | None:
    """The EPSG code of a CRS in well-known text (``.prj``), None if it has none that is surely meant.

    Text from files is bounded in length and depth before the projection library reads it; anything but WKT is not
    read at all.
    """
    text = text.strip("\ufeff \t\r\n\0")
    if not re.match(r"(PROJCS|GEOGCS|PROJCRS|GEOGCRS|GEODCRS|BASEGEOGCRS|COMPD_CS|COMPOUNDCRS|BOUNDCRS)\s*\[", text):
        return None
    depth = 0
    for mark in re.findall(r"[\[\]]", text[:_MAX_WKT]):
        depth += 1 if mark == "[" else -1
        if depth > _MAX_WKT_DEPTH:
            return None
    if len(text) > _MAX_WKT:
        return None
    try:
        crs = CRS.from_wkt(text)
        if crs.is_compound and crs.sub_crs_list:
            # z is carried along as it is; the place is told by the horizontal part.
            crs = crs.sub_crs_list[0]
        found = crs.to_epsg(min_confidence=_LEAST_CONFIDENCE)
    except CRSError:
        return None
    return found if found is not None and is_known(found) else None
