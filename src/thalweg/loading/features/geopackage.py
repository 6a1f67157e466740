"""GeoPackage (OGC 12-128r18): a layer of a foreign SQLite file, opened read-only."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import apsw

from thalweg.domain.errors import InvalidParameter, InvalidRequest
from thalweg.domain.features import MAX_GEOMETRY_BYTES, FieldKind
from thalweg.loading.features.crs import srid_of_wkt
from thalweg.loading.features.geometries import from_wkb
from thalweg.loading.features.source import BATCH_ROWS, Advance, Batch, ReadOptions
from thalweg.services.projection import is_known

_ENVELOPE_BYTES: Final = (0, 32, 48, 48, 64)
"""By the envelope contents indicator of a geometry's head (clause 2.1.3.1.1)."""
_KINDS: Final = {
    "BOOLEAN": FieldKind.BOOLEAN, "TINYINT": FieldKind.INTEGER, "SMALLINT": FieldKind.INTEGER,
    "MEDIUMINT": FieldKind.INTEGER, "INT": FieldKind.INTEGER, "INTEGER": FieldKind.INTEGER,
    "FLOAT": FieldKind.NUMBER, "DOUBLE": FieldKind.NUMBER, "REAL": FieldKind.NUMBER, "TEXT": FieldKind.TEXT,
    "DATE": FieldKind.DATE, "DATETIME": FieldKind.DATETIME,
}  # fmt: skip
"""Table column data types (clause 1.1.1.1.3)."""


class GeoPackageSource:
    """A feature table of a GeoPackage."""

    format = "GeoPackage"
    textual = False

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.path = path
        self.notes: list[str] = []
        try:
            self._connection = apsw.Connection(
                f"file:{quote(str(path.resolve()))}?mode=ro", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            )
            self._connection.limit(apsw.SQLITE_LIMIT_LENGTH, 4 * MAX_GEOMETRY_BYTES)
            for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
                self._connection.execute(f"PRAGMA {pragma}")
            self._describe(options.layer)
        except apsw.Error as error:
            raise InvalidRequest(f"The file cannot be read as a GeoPackage: {error}.") from None

    def close(self) -> None:
        self._connection.close()

    def _describe(self, wanted: str) -> None:
        tables = self._connection.execute(
            """SELECT g.table_name, g.column_name, g.srs_id, g.geometry_type_name
            FROM gpkg_geometry_columns g JOIN gpkg_contents c ON c.table_name = g.table_name
            WHERE c.data_type = 'features' ORDER BY g.table_name LIMIT 10000"""
        ).fetchall()
        chosen = [row for row in tables if not wanted or row[0] == wanted]
        names = ", ".join(str(row[0]) for row in tables)
        if not tables:
            raise InvalidRequest("The GeoPackage holds no feature table.")
        if len(chosen) != 1:
            why = (
                "holds several layers, name one by --source-layer" if not wanted else f"holds no layer '{wanted[:60]}'"
            )
            raise InvalidParameter("source-layer", f"The GeoPackage {why}: {names[:400]}.")
        self.layer, self._geometry = str(chosen[0][0]), str(chosen[0][1])
        self.srid = self._crs(chosen[0][2])
        self.declared: dict[str, FieldKind | None] = {}
        self._key = "rowid"
        columns: list[Any] = self._connection.execute(
            "SELECT name, type, pk FROM pragma_table_info(?)", (self.layer,)
        ).fetchall()
        for name, type_name, is_key in columns:
            if is_key == 1 and type_name.upper() in ("INTEGER", "INT", "MEDIUMINT"):
                self._key = name
            elif name != self._geometry:
                kind = _KINDS.get(type_name.upper().split("(", 1)[0].strip())
                if kind is None and type_name.upper().startswith("BLOB"):
                    self.notes.append(f"the field '{name}' holds binary data and is left out")
                else:
                    self.declared[name] = kind
        rows: list[Any] = self._connection.execute(f"SELECT count(*) FROM {_quoted(self.layer)}").fetchall()  # noqa: S608
        self._count = int(rows[0][0])
        self.size = self.path.stat().st_size

    def _crs(self, srs_id: Any) -> int | None:
        row: Any = self._connection.execute(
            "SELECT organization, organization_coordsys_id, definition FROM gpkg_spatial_ref_sys WHERE srs_id = ?",
            (srs_id,),
        ).fetchone()
        if row is not None:
            organization, code, definition = row
            if str(organization).upper() == "EPSG" and isinstance(code, int) and is_known(code):
                return code
            found = srid_of_wkt(definition) if isinstance(definition, str) else None
            if found is not None:
                return found
        self.notes.append(f"the CRS {srs_id} is none of EPSG")
        return None

    @property
    def parse(self) -> Callable[[Any], Batch]:
        return batch_of_rows

    def chunks(self, advance: Advance) -> Iterator[tuple[list[Any], int, dict[str, FieldKind | None]]]:
        """All rows in the order of their key, as ``batch_of_rows`` takes them. Raises InvalidRequest."""
        names = tuple(self.declared)
        wanted = ", ".join(_quoted(name) for name in (self._key, self._geometry, *names))
        first, done = 1, 0
        try:
            # Identifiers are the file's own, quoted; the file is no part of the store.
            cursor = self._connection.execute(
                f"SELECT {wanted} FROM {_quoted(self.layer)} ORDER BY {_quoted(self._key)}"  # noqa: S608
            )
            while rows := list(islice(cursor, BATCH_ROWS)):
                yield rows, first, self.declared
                first += len(rows)
                share = min(self.size, self.size * first // max(1, self._count))
                advance(share - done)
                done = share
        except apsw.Error as error:
            raise InvalidRequest(f"The GeoPackage is damaged near feature {first:,}: {error}.") from None
        advance(self.size - done)


def batch_of_rows(chunk: tuple[list[Any], int, dict[str, FieldKind | None]]) -> Batch:
    """chunk  rows of key, geometry, fields; the number of the first one; the fields that the file declares"""
    rows, first, declared = chunk
    names = tuple(declared)
    ids, blobs, *columns = (list(column) for column in zip(*rows, strict=True))
    texts: list[bytes | None] = []
    problems = []
    for index, blob in enumerate(blobs):
        try:
            texts.append(_wkb(blob))
        except ValueError as error:
            texts.append(None)
            problems.append((index, str(error)))
    geometries, unreadable = from_wkb(texts)
    for name, column in zip(names, columns, strict=True):
        kind = declared[name]
        if kind is FieldKind.BOOLEAN:
            column[:] = [bool(v) if v in (0, 1) else v for v in column]
        elif bytes in set(map(type, column)):
            column[:] = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in column]
    return Batch(first, ids, geometries, sorted(problems + unreadable), names, columns)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _wkb(blob: Any) -> bytes | None:
    """The WKB within a geometry of clause 2.1.3; None for an empty one. Raises ValueError saying what is wrong."""
    if blob is None:
        return None
    if not isinstance(blob, bytes) or len(blob) < 8 or blob[:2] != b"GP":
        raise ValueError("not a geometry of a GeoPackage")
    flags = blob[3]
    if flags & 0x20:
        raise ValueError("an extended geometry, which is not supported")
    indicator = (flags >> 1) & 7
    if indicator >= len(_ENVELOPE_BYTES):
        raise ValueError("the geometry's head is broken")
    wkb = blob[8 + _ENVELOPE_BYTES[indicator] :]
    if flags & 0x10 and len(wkb) >= 5 and wkb[1:5] in (struct.pack("<I", 1), struct.pack(">I", 1)):
        return None
    return wkb
