"""Formats of resources, written in one way whatever a client writes."""

from __future__ import annotations

import posixpath
from typing import Final
from urllib.parse import urlsplit

FORMATS: Final = {
    name.lower(): name
    for name in "CSV TSV JSON GeoJSON XLSX XLS ODS Parquet XML KML KMZ GML SHP ZIP PDF HTML TXT WMS WFS RDF TTL "
    "GeoTIFF NetCDF GPKG PNG JPEG API DOCX DOC GTFS SHAPE YAML SQL".split()
}
"""Formats that are written in one way whatever a client writes, as facets count them."""
_ALIASES: Final = {
    "jpg": "JPEG", "htm": "HTML", "tif": "GeoTIFF", "nc": "NetCDF", "yml": "YAML", "tab": "TSV", "shapefile": "SHP",
    "excel": "XLS", "text": "TXT", "text/csv": "CSV", "application/csv": "CSV", "text/tab-separated-values": "TSV",
    "application/json": "JSON", "application/geo+json": "GeoJSON", "application/vnd.geo+json": "GeoJSON",
    "application/vnd.ms-excel": "XLS", "application/zip": "ZIP", "application/pdf": "PDF", "application/xml": "XML",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "XLSX", "text/xml": "XML", "text/html": "HTML",
    "text/plain": "TXT", "application/rdf+xml": "RDF", "text/turtle": "TTL", "image/png": "PNG", "image/jpeg": "JPEG",
    "application/vnd.google-earth.kml+xml": "KML", "application/vnd.google-earth.kmz": "KMZ",
    "application/geopackage+sqlite3": "GPKG", "application/gml+xml": "GML", "image/tiff": "GeoTIFF",
    "application/x-netcdf": "NetCDF",
}  # fmt: skip
"""Other names of formats, endings and media types among them."""


def path_of(address: str) -> str:
    """The path of an address; empty for one that is none."""
    try:
        return urlsplit(address).path
    except ValueError:
        return ""


def format_of(path: str) -> str:
    """By the ending of a file's name or a path; empty: not known."""
    ending = posixpath.splitext(path)[1].lstrip(".").lower()
    return _ALIASES.get(ending) or FORMATS.get(ending, "")


def format_named(text: str) -> str:
    """A format that is named or by its media type, as it is written here; one that is not known as it is."""
    key = text.lower().lstrip(".")
    return FORMATS.get(key) or _ALIASES.get(key, text)
