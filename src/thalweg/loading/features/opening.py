"""Which reader a file is for: by its first bytes where they tell, else by its name's ending."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Final

from thalweg.domain.errors import InvalidRequest, NotFound
from thalweg.loading.features.flatgeobuf import MAGIC, FlatGeobufSource
from thalweg.loading.features.gdal import GdalSource
from thalweg.loading.features.geojson import GeoJsonSource
from thalweg.loading.features.geopackage import GeoPackageSource
from thalweg.loading.features.shapefile import ShapefileSource
from thalweg.loading.features.source import ReadOptions, Source
from thalweg.loading.features.table import CsvSource

_GEOJSON: Final = (".geojson", ".json", ".geojsonl", ".geojsons", ".geojsonseq", ".ndjson", ".jsonl")
_CSV: Final = (".csv", ".tsv", ".txt")
_SHAPEFILE: Final = (".shp", ".shx", ".dbf")


def open_source(path: Path, options: ReadOptions) -> Source:
    """A reader for the file; ``close`` it.

    raises  NotFound (``source``), InvalidRequest for what cannot be read, InvalidParameter for options that do not
            fit, NotSupported where GDAL would be needed and is not installed
    """
    if not path.exists():
        raise NotFound("source", f"There is no file '{path}'.")
    if path.is_dir():
        # A File Geodatabase is a folder.
        return GdalSource(path, options)
    try:
        with path.open("rb") as stream:
            head = stream.read(16)
    except OSError as error:
        raise InvalidRequest(f"'{path}' cannot be read: {error.strerror}.") from None
    name = path.name.lower()
    plain = name.removesuffix(".gz")
    if head.startswith(b"SQLite format 3\0") and not name.endswith((".mbtiles", ".sqlite", ".db")):
        return GeoPackageSource(path, options)
    if head.startswith(MAGIC):
        return FlatGeobufSource(path)
    if plain.endswith(_GEOJSON):
        return GeoJsonSource(path)
    if plain.endswith(_CSV):
        return CsvSource(path, options)
    if name.endswith(_SHAPEFILE):
        return ShapefileSource(path, options)
    if zipfile.is_zipfile(path) and _holds_shapefile(path):
        return ShapefileSource(path, options)
    return GdalSource(path, options)


def _holds_shapefile(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.lower().endswith(".shp") for name in archive.namelist())
    except (zipfile.BadZipFile, OSError):
        return False
