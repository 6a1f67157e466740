"""A CRS as well-known text, for files that carry it along."""

from __future__ import annotations

from functools import lru_cache

from pyproj import CRS
from pyproj.enums import WktVersion
from pyproj.exceptions import CRSError


@lru_cache(maxsize=256)
def wkt1(srid: int, *, esri: bool = False) -> str:
    """WKT of OGC 01-009 (``esri``: as Esri's programs write it); WKT 2 for the few CRSs that it cannot say."""
    crs = CRS.from_epsg(srid)
    for version in (WktVersion.WKT1_ESRI if esri else WktVersion.WKT1_GDAL, WktVersion.WKT2_2019):
        try:
            return str(crs.to_wkt(version))
        except CRSError:
            continue
    return ""


@lru_cache(maxsize=256)
def crs_name(srid: int) -> str:
    """The name in the EPSG dataset."""
    return CRS.from_epsg(srid).name
