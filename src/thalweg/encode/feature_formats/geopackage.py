"""GeoPackage 1.3 (OGC 12-128r18) with a spatial index, written into a temporary file.

The file is the writer's own: it is no store, and is gone when it has been handed on.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import apsw
import numpy as np
import shapely

from thalweg.domain.features import Features, Field, FieldKind, GeometryKind, Layer
from thalweg.encode.feature_formats.columns import (
    BLOCK_BYTES,
    TEXT_OF,
    GeometryArray,
    column_of,
    fields_of,
    geometries_of,
    shapes_of,
)
from thalweg.encode.feature_formats.contract import WriteOptions
from thalweg.encode.feature_formats.crs_text import crs_name, wkt1

_APPLICATION_ID: Final = 0x47504B47  # GPKG
_USER_VERSION: Final = 10300
_TYPES: Final = {
    FieldKind.TEXT: "TEXT", FieldKind.INTEGER: "INTEGER", FieldKind.NUMBER: "DOUBLE", FieldKind.BOOLEAN: "BOOLEAN",
    FieldKind.DATE: "DATE", FieldKind.DATETIME: "DATETIME",
}  # fmt: skip
_UNDEFINED: Final = "undefined"
_TABLES: Final = """
CREATE TABLE gpkg_spatial_ref_sys (srs_name TEXT NOT NULL, srs_id INTEGER PRIMARY KEY, organization TEXT NOT NULL,
 organization_coordsys_id INTEGER NOT NULL, definition TEXT NOT NULL, description TEXT);
CREATE TABLE gpkg_contents (table_name TEXT NOT NULL PRIMARY KEY, data_type TEXT NOT NULL, identifier TEXT UNIQUE,
 description TEXT DEFAULT '', last_change DATETIME NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ','now')),
 min_x DOUBLE, min_y DOUBLE, max_x DOUBLE, max_y DOUBLE, srs_id INTEGER,
 CONSTRAINT fk_gc_r_srs_id FOREIGN KEY (srs_id) REFERENCES gpkg_spatial_ref_sys(srs_id));
CREATE TABLE gpkg_geometry_columns (table_name TEXT NOT NULL, column_name TEXT NOT NULL,
 geometry_type_name TEXT NOT NULL, srs_id INTEGER NOT NULL, z TINYINT NOT NULL, m TINYINT NOT NULL,
 CONSTRAINT pk_geom_cols PRIMARY KEY (table_name, column_name), CONSTRAINT uk_gc_table_name UNIQUE (table_name),
 CONSTRAINT fk_gc_tn FOREIGN KEY (table_name) REFERENCES gpkg_contents(table_name),
 CONSTRAINT fk_gc_srs FOREIGN KEY (srs_id) REFERENCES gpkg_spatial_ref_sys (srs_id));
CREATE TABLE gpkg_extensions (table_name TEXT, column_name TEXT, extension_name TEXT NOT NULL,
 definition TEXT NOT NULL, scope TEXT NOT NULL,
 CONSTRAINT ge_tce UNIQUE (table_name, column_name, extension_name));
"""
_BOX: Final = "ST_MinX(NEW.{c}), ST_MaxX(NEW.{c}), ST_MinY(NEW.{c}), ST_MaxY(NEW.{c})"
_TRIGGERS: Final = (
    ("insert", "AFTER INSERT ON {t} WHEN (new.{c} NOT NULL AND NOT ST_IsEmpty(NEW.{c}))",
     "INSERT OR REPLACE INTO {r} VALUES (NEW.{i}, {box});"),
    ("update6", "AFTER UPDATE OF {c} ON {t} WHEN OLD.{i} = NEW.{i} AND (NEW.{c} NOTNULL AND NOT ST_IsEmpty(NEW.{c}))"
     " AND (OLD.{c} NOTNULL AND NOT ST_IsEmpty(OLD.{c}))",
     "UPDATE {r} SET minx = ST_MinX(NEW.{c}), maxx = ST_MaxX(NEW.{c}), miny = ST_MinY(NEW.{c}),"
     " maxy = ST_MaxY(NEW.{c}) WHERE id = NEW.{i};"),
    ("update7", "AFTER UPDATE OF {c} ON {t} WHEN OLD.{i} = NEW.{i} AND (NEW.{c} NOTNULL AND NOT ST_IsEmpty(NEW.{c}))"
     " AND (OLD.{c} ISNULL OR ST_IsEmpty(OLD.{c}))",
     "INSERT INTO {r} VALUES (NEW.{i}, {box});"),
    ("update2", "AFTER UPDATE OF {c} ON {t} WHEN OLD.{i} = NEW.{i} AND (NEW.{c} ISNULL OR ST_IsEmpty(NEW.{c}))",
     "DELETE FROM {r} WHERE id = OLD.{i};"),
    ("update5", "AFTER UPDATE ON {t} WHEN OLD.{i} != NEW.{i} AND (NEW.{c} NOTNULL AND NOT ST_IsEmpty(NEW.{c}))",
     "DELETE FROM {r} WHERE id = OLD.{i}; INSERT OR REPLACE INTO {r} VALUES (NEW.{i}, {box});"),
    ("update4", "AFTER UPDATE ON {t} WHEN OLD.{i} != NEW.{i} AND (NEW.{c} ISNULL OR ST_IsEmpty(NEW.{c}))",
     "DELETE FROM {r} WHERE id IN (OLD.{i}, NEW.{i});"),
    ("delete", "AFTER DELETE ON {t} WHEN old.{c} NOT NULL", "DELETE FROM {r} WHERE id = OLD.{i};"),
)  # fmt: skip
"""What keeps the index right when others change the file (annex F.3, extension gpkg_rtree_index)."""


def write(layer: Layer, batches: Iterable[Features], options: WriteOptions) -> Iterator[bytes]:
    """The file, once it is complete. The temporary one lives as long as this iterator."""
    with tempfile.TemporaryDirectory(prefix="thalweg-gpkg-") as folder:
        path = Path(folder) / "features.gpkg"
        with closing(apsw.Connection(str(path))) as connection:
            _fill(connection, layer, batches, options)
        with path.open("rb") as stream:
            while block := stream.read(BLOCK_BYTES):
                yield block


def _fill(connection: apsw.Connection, layer: Layer, batches: Iterable[Features], options: WriteOptions) -> None:
    fields = fields_of(layer, options)
    has_geometry = layer.has_geometry and options.geometry
    for pragma in (
        # Nobody else sees the file before it is whole.
        "journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE",
        f"application_id = {_APPLICATION_ID}", f"user_version = {_USER_VERSION}",
    ):  # fmt: skip
        connection.execute(f"PRAGMA {pragma}").fetchall()
    connection.execute("BEGIN")
    connection.execute(_TABLES)
    _put_crs(connection, options.srid)
    names = {item.name.lower() for item in fields} | ({layer.geometry_field.lower()} if has_geometry else set())
    key = next(name for name in ("fid", "ogc_fid", "fid_", "fid__", "_fid_0") if name not in names)
    columns = [f"{_quoted(key)} INTEGER PRIMARY KEY NOT NULL"]
    if has_geometry:
        columns.append(f"{_quoted(layer.geometry_field)} {_geometry_type(layer)}")
    columns += [f"{_quoted(item.name)} {_declared(item)}" for item in fields]
    connection.execute(f"CREATE TABLE {_quoted(layer.name)} ({', '.join(columns)})")
    box = _insert(connection, layer, batches, options, fields, has_geometry=has_geometry)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    kind = "features" if has_geometry else "attributes"
    connection.execute(
        "INSERT INTO gpkg_contents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (layer.name, kind, layer.title or layer.name, _about(layer), now, *box, options.srid if has_geometry else None),
    )
    if has_geometry:
        connection.execute(
            "INSERT INTO gpkg_geometry_columns VALUES (?, ?, ?, ?, ?, 0)",
            (layer.name, layer.geometry_field, _geometry_type(layer), options.srid, int(layer.dimensions == 3)),
        )
        _put_triggers(connection, layer, key)
    connection.execute("COMMIT")


def _about(layer: Layer) -> str:
    return "\n".join(text for text in (layer.description, layer.attribution, layer.licence) if text)


def _geometry_type(layer: Layer) -> str:
    return "GEOMETRY" if layer.geometry_kind is GeometryKind.GEOMETRY else layer.geometry_kind.value.upper()


def _declared(item: Field) -> str:
    return f"TEXT({item.length})" if item.kind is FieldKind.TEXT and item.length else _TYPES[item.kind]


def _put_crs(connection: apsw.Connection, srid: int) -> None:
    rows: list[tuple[str, int, str, int, str, str | None]] = [
        ("Undefined Cartesian SRS", -1, "NONE", -1, _UNDEFINED, "undefined Cartesian coordinate reference system"),
        ("Undefined geographic SRS", 0, "NONE", 0, _UNDEFINED, "undefined geographic coordinate reference system"),
        ("WGS 84 geodetic", 4326, "EPSG", 4326, wkt1(4326), "longitude/latitude coordinates in decimal degrees"),
    ]
    if srid != 4326:
        rows.append((crs_name(srid), srid, "EPSG", srid, wkt1(srid) or _UNDEFINED, None))
    connection.executemany("INSERT INTO gpkg_spatial_ref_sys VALUES (?, ?, ?, ?, ?, ?)", rows)


def _insert(
    connection: apsw.Connection,
    layer: Layer,
    batches: Iterable[Features],
    options: WriteOptions,
    fields: list[Field],
    *,
    has_geometry: bool,
) -> tuple[float | None, float | None, float | None, float | None]:
    """The features and their boxes; the box around all: west, south, east, north."""
    index = _quoted(f"rtree_{layer.name}_{layer.geometry_field}")
    if has_geometry:
        connection.execute(f"CREATE VIRTUAL TABLE {index} USING rtree(id, minx, maxx, miny, maxy)")
    marks = ", ".join("?" * (1 + has_geometry + len(fields)))
    statement = f"INSERT INTO {_quoted(layer.name)} VALUES ({marks})"  # noqa: S608
    box = np.array([np.inf, np.inf, -np.inf, -np.inf])
    for features in batches:
        ids = features.ids.tolist()
        columns: list[Any] = [ids]
        if has_geometry:
            blobs = geometries_of(layer, features, options)
            shapes = shapes_of(blobs)
            bounds = shapely.bounds(shapes)
            columns.append(_geometries(blobs, shapes, bounds, options.srid))
            there = ~np.isnan(bounds[:, 0])
            if there.any():
                box[:2] = np.minimum(box[:2], bounds[there, :2].min(axis=0))
                box[2:] = np.maximum(box[2:], bounds[there, 2:].max(axis=0))
            boxes = zip(features.ids[there].tolist(), *bounds[there][:, [0, 2, 1, 3]].T.tolist(), strict=True)
            connection.executemany(f"INSERT INTO {index} VALUES (?, ?, ?, ?, ?)", boxes)  # noqa: S608
        columns += [_values(features, item) for item in fields]
        connection.executemany(statement, zip(*columns, strict=True))
    if not np.isfinite(box[0]):
        return None, None, None, None
    return float(box[0]), float(box[1]), float(box[2]), float(box[3])


def _values(features: Features, item: Field) -> list[Any]:
    column = column_of(features, item)
    if item.kind in (FieldKind.DATE, FieldKind.DATETIME):
        write_text = TEXT_OF[item.kind]
        return [None if value is None else write_text(value) for value in column]
    return list(column)


def _geometries(blobs: list[bytes | None], shapes: GeometryArray, bounds: Any, srid: int) -> list[bytes | None]:
    """GeoPackage's binary form (clause 2.1.3): a head, the envelope of all but points, then the WKB."""
    plain = b"GP\x00\x01" + struct.pack("<i", srid)
    boxed = b"GP\x00\x03" + struct.pack("<i", srid)
    points = shapely.get_type_id(shapes) == 0
    envelopes = bounds[:, [0, 2, 1, 3]].astype("<f8").tobytes()
    return [
        None if blob is None else plain + blob if points[i] else boxed + envelopes[32 * i : 32 * i + 32] + blob
        for i, blob in enumerate(blobs)
    ]


def _put_triggers(connection: apsw.Connection, layer: Layer, key: str) -> None:
    connection.execute(
        "INSERT INTO gpkg_extensions VALUES (?, ?, 'gpkg_rtree_index', 'http://www.geopackage.org/spec120/#extension_rtree',"
        " 'write-only')",
        (layer.name, layer.geometry_field),
    )
    names = {
        "t": _quoted(layer.name), "c": _quoted(layer.geometry_field), "i": _quoted(key),
        "r": _quoted(f"rtree_{layer.name}_{layer.geometry_field}"),
    }  # fmt: skip
    names["box"] = _BOX.format(**names)
    for name, when, action in _TRIGGERS:
        trigger = _quoted(f"rtree_{layer.name}_{layer.geometry_field}_{name}")
        connection.execute(f"CREATE TRIGGER {trigger} {when.format(**names)} BEGIN {action.format(**names)} END")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
