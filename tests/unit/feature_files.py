"""What the tests of vector files share: features with everything ugly, and files of them that GDAL wrote."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyogrio
import pyogrio.raw
import shapely

from thalweg.domain.features import Features, Field, FieldKind, GeometryKind, Layer

TEXTS = ["Zürich & Umgebung", "", None, 'a "quoted", comma', "line\nbreak", "<tag>", "日本 🗻", "'; DROP TABLE x; --"]
INTEGERS = [1, -5, None, 2**53 + 1, 0, -(2**62), 2**31, 7]
NUMBERS = [0.1, -1e-12, None, 1e300, 46.0499803, 0.0, -273.15, 1 / 3]
TRUTHS = [True, False, None, True, True, False, False, None]
DATES = [0, 18_993, None, -25_567, 11_016, 1, 2, 3]
"""days: 1970-01-01, 2022-01-01, -, 1900-01-01, 2000-02-29 …"""
INSTANTS = [0, 1_640_995_200_000_000, None, 1_640_995_200_123_000, 1, 2_000_000, 3_000_000, -1_000_000]
POINTS = [
    "POINT (9.5227962 47.1392862)", "POINT (0 0)", None, "POINT (-180 -90)", "POINT (14.5068602 46.0499803)",
    "POINT (1e-7 -1e-7)", "POINT (180 90)", "POINT (9.5 47)",
]  # fmt: skip
POLYGONS = [
    "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0), (2 2, 2 4, 4 4, 4 2, 2 2))",
    "MULTIPOLYGON (((20 0, 30 0, 30 10, 20 0)), ((40 0, 50 0, 50 10, 40 0), (45 1, 48 1, 48 3, 45 1)))",
    None,
    # An island in a hole of the same geometry.
    "MULTIPOLYGON (((0 0, 100 0, 100 100, 0 100, 0 0), (10 10, 90 10, 90 90, 10 90, 10 10)),"
    " ((40 40, 60 40, 60 60, 40 60, 40 40), (45 45, 55 45, 55 55, 45 55, 45 45)))",
    "POLYGON ((5 5, 6 5, 6 6, 5 5))",
]
LINES = ["LINESTRING (0 0, 1 1, 2 0)", None, "MULTILINESTRING ((0 0, 1 0), (2 0, 3 0, 4 1))", "LINESTRING (5 5, 6 6)"]
POINTS_Z = ["POINT Z (9.5 47.1 460.25)", "POINT Z (9.6 47.2 -3)", None]
LINES_Z = ["LINESTRING Z (0 0 1, 1 1 2, 2 2 3)", "MULTILINESTRING Z ((0 0 1, 1 0 2), (5 5 6, 7 7 8))"]
POLYGONS_Z = ["POLYGON Z ((0 0 1, 1 0 2, 1 1 3, 0 0 1))", "POLYGON Z ((9 9 9, 10 9 9, 10 10 9, 9 9 9))"]

FIELDS = (
    Field("name", FieldKind.TEXT, 1),
    Field("count", FieldKind.INTEGER, 2),
    Field("measure", FieldKind.NUMBER, 3),
    Field("open", FieldKind.BOOLEAN, 4),
    Field("since", FieldKind.DATE, 5),
    Field("seen", FieldKind.DATETIME, 6),
)


def shapes(texts: Sequence[str | None]) -> Any:
    return shapely.from_wkt(np.array(texts, dtype=object))


def wkb(texts: Sequence[str | None]) -> list[bytes | None]:
    written: list[bytes | None] = shapely.to_wkb(shapes(texts), byte_order=1, flavor="iso").tolist()
    return written


def layer(kind: GeometryKind = GeometryKind.POINT, *, name: str = "sites", **given: Any) -> Layer:
    given.setdefault("fields", FIELDS)
    return Layer(7, "uuid", 1, name, id_prefix=name, geometry_kind=kind, **given)


def features(texts: Sequence[str | None] = POINTS, *, ids: Sequence[int] | None = None) -> Features:
    """As many features as geometries, with values of every kind."""
    n = len(texts)
    columns = {
        "name": TEXTS, "count": INTEGERS, "measure": NUMBERS, "open": TRUTHS, "since": DATES, "seen": INSTANTS,
    }  # fmt: skip
    return Features(
        np.array(ids if ids is not None else range(1, n + 1), np.int64),
        wkb(texts),
        {name: (values * n)[:n] for name, values in columns.items()},
    )


def write_by_gdal(
    path: Path, texts: Sequence[str | None], *, driver: str, geometry: str, crs: str, **options: Any
) -> None:
    """A file of these geometries with a text, an integer and a number each."""
    n = len(texts)
    if driver == "FlatGeobuf" and None in texts:
        # Its index cannot hold features without a place.
        options["SPATIAL_INDEX"] = "NO"
    names = np.array([f"Nr. {i} Ä" if i % 3 else None for i in range(n)], dtype=object)
    pyogrio.raw.write(
        str(path),
        geometry=np.array(wkb(texts), dtype=object),
        field_data=[names, np.arange(n, dtype=np.int64) * 10**10, np.arange(n) / 3],
        fields=["name", "big", "third"],
        driver=driver,
        geometry_type=geometry,
        crs=crs,
        **options,
    )


def read_by_gdal(path: str | Path, layer_name: str | None = None) -> tuple[list[Any], dict[str, list[Any]], str | None]:
    """Geometries, values by field and the CRS that GDAL reads from a file."""
    meta, _, geometry, data = pyogrio.raw.read(str(path), layer=layer_name)
    values = {name: column.tolist() for name, column in zip(meta["fields"].tolist(), data, strict=True)}
    return shapely.from_wkb(geometry).tolist() if geometry is not None else [], values, meta["crs"]
