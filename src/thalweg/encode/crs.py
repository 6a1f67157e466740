"""Names of coordinate reference systems: every spelling that clients use, and the one to write.

A name says two things: which CRS, and in which order its coordinates come. ``EPSG:n`` and ``…epsg.xml#n`` mean x before
y (easting, longitude first), the urn and http forms the order of the authority, which for many CRSs is y before x. What
is written in srsName and the order of what is written always agree. Only the forms below are read: no PROJ string, WKT
or other text of a client ever reaches PROJ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from pyproj import CRS
from pyproj.exceptions import CRSError

from thalweg.domain.errors import InvalidParameter

WGS84: Final = 4326
CRS84: Final = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"
"""Longitude before latitude: EPSG:4326 in x y order under a name of its own (OGC 09-048r5)."""
MAX_NAME_LENGTH: Final = 200

_SAME: Final = {900913: 3857, 102100: 3857, 102113: 3857, 3785: 3857}
"""Other numbers in use for Web Mercator."""

_XY: Final = re.compile(
    r"(?:EPSG:{1,2}|https?://www\.opengis\.net/gml/srs/epsg\.xml#)?(\d{1,6})", re.ASCII | re.IGNORECASE
)
_AUTHORITY: Final = re.compile(
    r"(?:urn:(?:x-)?ogc:def:crs:EPSG:(?:[\d.]{0,10}:)?|https?://www\.opengis\.net/def/crs/EPSG/[\d.]{1,10}/)(\d{1,6})"
    r"|\[EPSG:(\d{1,6})\]",
    re.ASCII | re.IGNORECASE,
)
_CRS84: Final = re.compile(
    r"(?:urn:(?:x-)?ogc:def:crs:(?:OGC|CRS):(?:[\d.]{0,10}:)?(?:CRS)?|https?://www\.opengis\.net/def/crs/OGC/[\d.]{1,10}/"
    r"CRS|(?:OGC|CRS):(?:CRS)?|CRS|\[OGC:CRS)84(h?)\]?",
    re.ASCII | re.IGNORECASE,
)


class Gml(StrEnum):
    """A version of GML; the value is what media types call it."""

    V2 = "2.1.2"
    V31 = "3.1.1"
    V32 = "3.2"


class Style(StrEnum):
    """How a CRS is spelt; the value takes the EPSG code."""

    EPSG = "EPSG:{}"
    """x y"""
    GML_URL = "http://www.opengis.net/gml/srs/epsg.xml#{}"
    """x y"""
    X_URN = "urn:x-ogc:def:crs:EPSG:{}"
    """authority's order"""
    URN = "urn:ogc:def:crs:EPSG::{}"
    """authority's order"""
    HTTP = "http://www.opengis.net/def/crs/EPSG/0/{}"
    """authority's order"""

    def name(self, srid: int) -> str:  # type: ignore[override]
        """The CRS in this spelling."""
        return self.value.format(srid)


@dataclass(frozen=True, slots=True)
class CrsName:
    """A CRS as a client named it.

    srid      EPSG code
    swapped   coordinates under this name come y (north, latitude) before x
    text      the client's spelling
    """

    srid: int
    swapped: bool
    text: str


@lru_cache(maxsize=1024)
def is_known(srid: int) -> bool:
    """Whether the EPSG dataset has the code as a geographic or projected CRS."""
    if not 0 < srid < 1_000_000:
        return False
    try:
        crs = CRS.from_epsg(srid)
    except CRSError:
        return False
    return bool(crs.is_geographic or crs.is_projected)


@lru_cache(maxsize=1024)
def northing_first(srid: int) -> bool:
    """Whether the authority's axis order is y (north, latitude) before x.

    srid    a known one
    source  the rule by which PROJ swaps axes for ``always_xy``: north before east, or both along meridians (polar
            projections) where the names of the axes say so
    """
    axes = CRS.from_epsg(srid).axis_info
    if len(axes) < 2:
        return False
    first, second = axes[0].direction.lower(), axes[1].direction.lower()
    if first == "north" and second == "east":
        return True
    if first == second and first in ("north", "south"):
        return axes[0].name.lower().startswith("northing")
    return False


def parse_crs(text: str, parameter: str) -> CrsName:
    """Read a CRS reference in any of its spellings.

    ``4326``, ``EPSG:4326`` and ``http://www.opengis.net/gml/srs/epsg.xml#4326`` are x y; ``urn:ogc:def:crs:EPSG::4326``
    (with ``x-ogc``, with a version), ``http://www.opengis.net/def/crs/EPSG/0/4326`` and ``[EPSG:4326]`` in the order of
    the authority; the forms of CRS84 are longitude, latitude.

    raises  InvalidParameter for anything else, and for a code that EPSG does not have
    source  OGC 09-048r5, OGC 07-092r3
    """
    if len(text) > MAX_NAME_LENGTH:
        raise InvalidParameter(parameter, f"'{text[:80]}…' is too long for a CRS reference.")
    return _parse(text.strip(), parameter)


@lru_cache(maxsize=1024)
def _parse(text: str, parameter: str) -> CrsName:
    if match := _XY.fullmatch(text):
        srid = int(match[1])
        swapped = False
    elif match := _AUTHORITY.fullmatch(text):
        srid = int(match[1] or match[2])
        swapped = True
    elif _CRS84.fullmatch(text):
        return CrsName(WGS84, False, text)
    else:
        raise InvalidParameter(
            parameter,
            f"'{text[:80]}' is not a CRS reference; use EPSG:4326, urn:ogc:def:crs:EPSG::4326 or "
            "http://www.opengis.net/def/crs/EPSG/0/4326.",
        )
    srid = _SAME.get(srid, srid)
    if not is_known(srid):
        raise InvalidParameter(parameter, f"EPSG has no geographic or projected CRS with the code {srid}.")
    return CrsName(srid, swapped and northing_first(srid), text)


@lru_cache(maxsize=4096)
def written_name(gml: Gml, srid: int, swapped: bool) -> str:
    """The srsName to write with coordinates in this order.

    swapped  y before x
    returns  GML 2: ``…epsg.xml#n``; GML 3: ``urn:ogc:def:crs:EPSG::n``, which test suites and clients of 1.1.0 expect
             as well as those of 2.0; where that would say the other order, the form that says the right one
    """
    by_authority = swapped if gml is Gml.V2 else swapped == northing_first(srid)
    return (Style.URN if by_authority else Style.GML_URL).name(srid)


def default_order(version: str, srid: int) -> bool:
    """Whether coordinates come y before x when a WFS request of this version names no CRS: never in 1.0.0, in the
    authority's order later on."""
    return version != "1.0.0" and northing_first(srid)
