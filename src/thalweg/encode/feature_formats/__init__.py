"""Files of features, for every door and the export command. The writers are registered here."""

from __future__ import annotations

from typing import Final

from thalweg.domain.geometry import WGS84
from thalweg.encode.feature_formats import csv_file, flatgeobuf, geopackage, kml, shapefile
from thalweg.encode.feature_formats.contract import FileFormat, WriteOptions

__all__ = ["FILE_FORMATS", "FileFormat", "WriteOptions"]

FILE_FORMATS: Final[dict[str, FileFormat]] = {
    item.key: item
    for item in (
        FileFormat("csv", ("csv", "text/csv"), "text/csv; charset=utf-8", "csv", csv_file.write),
        FileFormat(
            "shape-zip", ("shape-zip", "shapezip", "shapefile", "application/x-shapefile"), "application/zip", "zip",
            shapefile.write,
        ),
        FileFormat(
            "gpkg", ("application/geopackage+sqlite3", "gpkg", "geopackage", "application/x-gpkg"),
            "application/geopackage+sqlite3", "gpkg", geopackage.write,
        ),
        FileFormat(
            "kml", ("application/vnd.google-earth.kml+xml", "kml", "application/vnd.google-earth.kml xml"),
            "application/vnd.google-earth.kml+xml", "kml", kml.write, WGS84,
        ),
        FileFormat(
            "fgb", ("application/flatgeobuf", "flatgeobuf", "fgb"), "application/flatgeobuf", "fgb", flatgeobuf.write
        ),
    )
}  # fmt: skip
"""By key, in the order of documents."""
