"""FlatGeobuf 3: features one after the other as FlatBuffers tables (specification at flatgeobuf.org).

Only what the format's schemas (header.fbs, feature.fbs) declare is read, with bounds checked at every step.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import shapely

from thalweg.domain.errors import InvalidRequest
from thalweg.domain.features import MAX_FIELDS, MAX_GEOMETRY_BYTES, MAX_GEOMETRY_DEPTH, FieldKind
from thalweg.loading.features import shapes
from thalweg.loading.features.crs import srid_of_wkt
from thalweg.loading.features.geometries import BadGeometry, GeometryArray
from thalweg.loading.features.source import BATCH_ROWS, Advance, Batch, stem
from thalweg.services.projection import is_known

MAGIC: Final = b"fgb\x03fgb"
_MAX_HEADER: Final = 10 << 20
_MAX_FEATURE: Final = 2 * MAX_GEOMETRY_BYTES
_NODE_BYTES: Final = 40
_COLUMNS: Final[tuple[tuple[str, FieldKind | None], ...]] = (
    ("b", FieldKind.INTEGER), ("B", FieldKind.INTEGER), ("?", FieldKind.BOOLEAN), ("h", FieldKind.INTEGER),
    ("H", FieldKind.INTEGER), ("i", FieldKind.INTEGER), ("I", FieldKind.INTEGER), ("q", FieldKind.INTEGER),
    ("Q", FieldKind.INTEGER), ("f", FieldKind.NUMBER), ("d", FieldKind.NUMBER), ("", FieldKind.TEXT),
    ("", FieldKind.TEXT), ("", FieldKind.DATETIME), ("", None),
)  # fmt: skip
"""By ColumnType: struct's letter, empty for bytes with a length before them; what it holds."""
_BINARY: Final = 14


class _Broken(Exception):
    """An offset leads nowhere."""


class _Node:
    """A FlatBuffers table within a buffer."""

    __slots__ = ("_data", "_fields", "_start")

    def __init__(self, data: bytes, start: int) -> None:
        self._data = data
        self._start = start
        try:
            table = start - struct.unpack_from("<i", data, start)[0]
            if table < 0:
                raise _Broken
            (size,) = struct.unpack_from("<H", data, table)
            self._fields = struct.unpack_from(f"<{max(0, size - 4) // 2}H", data, table + 4)
        except struct.error:
            raise _Broken from None

    @staticmethod
    def root(data: bytes) -> _Node:
        try:
            return _Node(data, struct.unpack_from("<I", data)[0])
        except struct.error:
            raise _Broken from None

    def _at(self, field: int) -> int:
        return self._start + self._fields[field] if field < len(self._fields) and self._fields[field] else 0

    def number(self, field: int, letter: str, default: int = 0) -> Any:
        at = self._at(field)
        try:
            return struct.unpack_from("<" + letter, self._data, at)[0] if at else default
        except struct.error:
            raise _Broken from None

    def _target(self, field: int) -> int:
        """Where the offset of a field leads, 0 where it is absent."""
        at = self._at(field)
        try:
            return at + int(struct.unpack_from("<I", self._data, at)[0]) if at else 0
        except struct.error:
            raise _Broken from None

    def _vector(self, field: int, width: int) -> tuple[int, int]:
        """(where its items begin, how many)."""
        target = self._target(field)
        if not target:
            return 0, 0
        try:
            (count,) = struct.unpack_from("<I", self._data, target)
        except struct.error:
            raise _Broken from None
        if target + 4 + count * width > len(self._data):
            raise _Broken
        return target + 4, count

    def text(self, field: int) -> str:
        at, count = self._vector(field, 1)
        return self._data[at : at + count].decode("utf-8", "replace")

    def bytes(self, field: int) -> bytes:
        at, count = self._vector(field, 1)
        return self._data[at : at + count]

    def doubles(self, field: int) -> npt.NDArray[np.float64]:
        at, count = self._vector(field, 8)
        return np.frombuffer(self._data, "<f8", count, at)

    def integers(self, field: int) -> list[int]:
        at, count = self._vector(field, 4)
        return list(struct.unpack_from(f"<{count}I", self._data, at))

    def table(self, field: int) -> _Node | None:
        target = self._target(field)
        return _Node(self._data, target) if target else None

    def tables(self, field: int) -> list[_Node]:
        at, count = self._vector(field, 4)
        if count > len(self._data) // 4:
            raise _Broken
        places = [at + 4 * i for i in range(count)]
        return [_Node(self._data, place + struct.unpack_from("<I", self._data, place)[0]) for place in places]


class FlatGeobufSource:
    """A FlatGeobuf file."""

    format = "FlatGeobuf"
    parse = None
    textual = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes: list[str] = []
        self.size = path.stat().st_size
        self._stream = path.open("rb")
        try:
            self._read_header()
        except (_Broken, struct.error):
            self._stream.close()
            raise InvalidRequest("The head of the FlatGeobuf file is broken.") from None
        except BaseException:
            self._stream.close()
            raise

    def close(self) -> None:
        self._stream.close()

    def _read_header(self) -> None:
        if self._stream.read(8)[:7] != MAGIC:
            raise InvalidRequest("The file is no FlatGeobuf file of version 3.")
        (length,) = struct.unpack("<I", self._stream.read(4))
        if length > _MAX_HEADER:
            raise InvalidRequest(f"The head of the FlatGeobuf file has {length:,} bytes.")
        header = _Node.root(self._stream.read(length))
        self.layer = header.text(0) or stem(self.path)
        self._type = header.number(2, "B")
        self._has_z = bool(header.number(3, "B"))
        self._columns = [_column(item) for item in header.tables(7)]
        if len(self._columns) > MAX_FIELDS:
            raise InvalidRequest(f"The file has more than {MAX_FIELDS} fields.")
        self._kept = [(name, kind) for name, number, kind in self._columns if number != _BINARY]
        self.declared: dict[str, FieldKind | None] = dict(self._kept)
        for name, number, _ in self._columns:
            if number == _BINARY:
                self.notes.append(f"the field '{name}' holds binary data and is left out")
        self.srid = self._crs(header.table(10))
        count, node_size = header.number(8, "Q"), header.number(9, "H", 16)
        self._index_bytes = _index_bytes(count, node_size)

    def _crs(self, crs: _Node | None) -> int | None:
        if crs is not None:
            code = crs.number(1, "i")
            if code and crs.text(0).upper() in ("", "EPSG") and is_known(code):
                return int(code)
            found = srid_of_wkt(crs.text(4))
            if found is not None:
                return found
            self.notes.append("its CRS is none of EPSG")
        return None

    def chunks(self, advance: Advance) -> Iterator[Batch]:
        """All features in the order of the file. Raises InvalidRequest."""
        done = self._stream.tell()
        if self._index_bytes:
            if done + self._index_bytes > self.size:
                raise InvalidRequest("The FlatGeobuf file ends in its index.")
            self._stream.seek(self._index_bytes, 1)
            done += self._index_bytes
        advance(done)
        first = 1
        while True:
            features: list[bytes] = []
            read = 0
            while len(features) < BATCH_ROWS:
                head = self._stream.read(4)
                if not head:
                    break
                length = struct.unpack("<I", head)[0] if len(head) == 4 else 0
                number = first + len(features)
                if not 4 <= length <= _MAX_FEATURE:
                    raise InvalidRequest(f"Feature {number:,} of the FlatGeobuf file has the length {length:,}.")
                data = self._stream.read(length)
                if len(data) < length:
                    raise InvalidRequest(f"The FlatGeobuf file ends in the middle of feature {number:,}.")
                features.append(data)
                read += 4 + length
            if not features:
                return
            yield self._batch(features, first)
            advance(read)
            first += len(features)

    def _batch(self, features: list[bytes], first: int) -> Batch:
        kept, problems, lost = [], [], []
        rows: list[dict[str, Any]] = []
        for number, data in enumerate(features, first):
            try:
                feature = _Node.root(data)
                properties = self._properties(feature)
                geometry = feature.table(0)
            except (_Broken, struct.error, ValueError, IndexError):
                lost.append((number, "its record is broken"))
                continue
            rows.append(properties)
            try:
                kept.append(None if geometry is None else self._geometry(geometry, self._type, 0))
            except BadGeometry as error:
                problems.append((len(kept), str(error)))
                kept.append(None)
            except (_Broken, struct.error, ValueError, IndexError, shapely.errors.GEOSException):
                problems.append((len(kept), "the geometry is broken"))
                kept.append(None)
        geometries: GeometryArray = np.empty(len(kept), dtype=object)
        geometries[:] = kept
        names = tuple(name for name, _ in self._kept)
        columns = [[row.get(name) for row in rows] for name in names]
        return Batch(first, None, geometries, problems, names, columns, lost)

    def _properties(self, feature: _Node) -> dict[str, Any]:
        data = feature.bytes(1)
        own = feature.tables(2)
        columns = [_column(item) for item in own] if own else self._columns
        at, result = 0, {}
        while at < len(data):
            (index,) = struct.unpack_from("<H", data, at)
            name, number, _ = columns[index]
            letter = _COLUMNS[number][0]
            at += 2
            if letter:
                (result[name],) = struct.unpack_from("<" + letter, data, at)
                at += struct.calcsize(letter)
                continue
            (length,) = struct.unpack_from("<I", data, at)
            at += 4
            if at + length > len(data):
                raise _Broken
            if number != _BINARY:
                result[name] = data[at : at + length].decode("utf-8", "replace")
            at += length
        return result

    def _geometry(self, node: _Node, kind: int, depth: int) -> Any:
        kind = node.number(6, "B") or kind
        if kind in (6, 7):
            if depth >= MAX_GEOMETRY_DEPTH:
                raise BadGeometry(f"collections lie more than {MAX_GEOMETRY_DEPTH} deep in one another")
            parts = [self._geometry(part, 3 if kind == 6 else 0, depth + 1) for part in node.tables(7)]
            built = [part for part in parts if part is not None]
            if not built:
                return None
            return shapes.multipolygons(built) if kind == 6 else shapes.geometrycollections(built)
        if not 1 <= kind <= 5:
            raise BadGeometry("curves and surfaces other than lines and polygons are not supported")
        xy = node.doubles(1)
        places = xy.reshape(len(xy) // 2, 2)
        if self._has_z and len(heights := node.doubles(2)) == len(places):
            places = np.column_stack((places, heights))
        if not len(places):
            return None
        if not np.isfinite(places).all():
            raise BadGeometry("a coordinate is not a finite number")
        if kind == 1:
            return shapes.points(places[0])
        if kind == 4:
            return shapes.multipoints(shapes.points(places))
        if kind == 2:
            return shapes.linestrings(places)
        ends = node.integers(0) or [len(places)]
        starts = [0, *ends[:-1]]
        if ends[-1] != len(places) or any(b <= a for a, b in zip(starts, ends, strict=True)):
            raise BadGeometry("the ends of its parts are not in order")
        parts = [places[a:b] for a, b in zip(starts, ends, strict=True)]
        if kind == 5:
            return shapes.multilinestrings([shapes.linestrings(part) for part in parts])
        rings = [shapes.linearrings(part) for part in parts]
        return shapes.polygons(rings[0], rings[1:] or None)


def _column(item: _Node) -> tuple[str, int, FieldKind | None]:
    number = item.number(1, "B")
    if number >= len(_COLUMNS):
        raise _Broken
    return item.text(0), number, _COLUMNS[number][1]


def _index_bytes(count: int, node_size: int) -> int:
    """Length of the packed R-tree between head and features; 0 without one."""
    if not count or node_size < 2:
        return 0
    level = total = count
    while level > 1:
        level = -(-level // node_size)
        total += level
    return int(total * _NODE_BYTES)
