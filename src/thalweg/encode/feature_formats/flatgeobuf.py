"""FlatGeobuf 3 without an index: written as it comes, so that nothing has to be kept (specification at flatgeobuf.org).

FlatBuffers tables are laid out by hand: a table, then what its offsets lead to. The order of the fields is that of
the format's schemas (header.fbs, feature.fbs). Positions count from the size in front of each table, as alignment does.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from thalweg.domain.features import Features, Field, FieldKind, GeometryKind, Layer
from thalweg.encode.feature_formats.columns import TEXT_OF, column_of, fields_of, geometries_of
from thalweg.encode.feature_formats.contract import WriteOptions
from thalweg.encode.feature_formats.crs_text import crs_name, wkt1

MAGIC: Final = b"fgb\x03fgb\x01"
_GEOMETRY_TYPES: Final = {
    GeometryKind.NONE: 0, GeometryKind.GEOMETRY: 0, GeometryKind.POINT: 1, GeometryKind.LINESTRING: 2,
    GeometryKind.POLYGON: 3, GeometryKind.MULTIPOINT: 4, GeometryKind.MULTILINESTRING: 5,
    GeometryKind.MULTIPOLYGON: 6, GeometryKind.GEOMETRYCOLLECTION: 7,
}  # fmt: skip
_COLUMN_TYPES: Final = {
    FieldKind.TEXT: 11, FieldKind.INTEGER: 7, FieldKind.NUMBER: 10, FieldKind.BOOLEAN: 2, FieldKind.DATE: 13,
    FieldKind.DATETIME: 13,
}  # fmt: skip
_BLOCK_BYTES: Final = 256 << 10


class _Table:
    """A table to be: its fields by number.

    A field is a scalar, or what an offset leads to: bytes (a vector of bytes or text), a _Table, a list of tables, or
    a _Vector.
    """

    __slots__ = ("fields",)

    def __init__(self, fields: dict[int, Any]) -> None:
        self.fields = fields


class _Vector:
    """A vector of numbers: how many, their bytes, their width."""

    __slots__ = ("count", "data", "width")

    def __init__(self, data: bytes, width: int) -> None:
        self.data = data
        self.width = width
        self.count = len(data) // width


def _sized(root: _Table) -> bytes:
    """The table with its size in front."""
    buffer = bytearray(8)
    _put_table(buffer, root, 4)
    buffer += bytes(-len(buffer) % 8)
    struct.pack_into("<I", buffer, 0, len(buffer) - 4)
    return bytes(buffer)


def _pad(buffer: bytearray, width: int, before: int = 0) -> None:
    """So that what comes after ``before`` more bytes lies at a multiple of its width."""
    buffer += bytes(-(len(buffer) + before) % width)


def _put_table(buffer: bytearray, table: _Table, reference: int) -> None:
    """Append a table, and let the offset at ``reference`` lead to it."""
    numbers = sorted(table.fields)
    slots = numbers[-1] + 1 if numbers else 0
    # The widest first, so that all are aligned: 8 bytes, then 4, then 2 and 1.
    ordered = sorted(numbers, key=lambda n: -_width(table.fields[n]))
    places, at = {}, 4
    for number in ordered:
        width = _width(table.fields[number])
        at += -at % width
        places[number] = at
        at += width
    _pad(buffer, 2)
    # The table's begin has to be a multiple of 8, as the widest field may need.
    length = 4 + 2 * slots
    _pad(buffer, 8, length)
    vtable = len(buffer)
    buffer += struct.pack(f"<HH{slots}H", length, at, *(places.get(n, 0) for n in range(slots)))
    start = len(buffer)
    struct.pack_into("<I", buffer, reference, start - reference)
    buffer += struct.pack("<i", start - vtable) + bytes(at - 4)
    for number in ordered:
        value = table.fields[number]
        if isinstance(value, tuple):
            struct.pack_into("<" + value[0], buffer, start + places[number], value[1])
        else:
            _put_value(buffer, value, start + places[number])


def _width(value: Any) -> int:
    return struct.calcsize(value[0]) if isinstance(value, tuple) else 4


def _put_value(buffer: bytearray, value: Any, reference: int) -> None:
    if isinstance(value, _Table):
        _put_table(buffer, value, reference)
        return
    if isinstance(value, list):
        _pad(buffer, 4)
        struct.pack_into("<I", buffer, reference, len(buffer) - reference)
        buffer += struct.pack("<I", len(value))
        places = len(buffer)
        buffer += bytes(4 * len(value))
        for index, item in enumerate(value):
            _put_table(buffer, item, places + 4 * index)
        return
    if isinstance(value, _Vector):
        _pad(buffer, 4)
        _pad(buffer, value.width, 4)
        struct.pack_into("<I", buffer, reference, len(buffer) - reference)
        buffer += struct.pack("<I", value.count) + value.data
        return
    _pad(buffer, 4)
    struct.pack_into("<I", buffer, reference, len(buffer) - reference)
    buffer += struct.pack("<I", len(value)) + value + b"\0"


# ------------------------------------------------------------------ file


def write(layer: Layer, batches: Iterable[Features], options: WriteOptions) -> Iterator[bytes]:
    """The file; memory holds a batch."""
    fields = fields_of(layer, options)
    kind = layer.geometry_kind if options.geometry else GeometryKind.NONE
    yield MAGIC + _sized(_header(layer, fields, _GEOMETRY_TYPES[kind], options.srid))
    block = bytearray()
    for features in batches:
        properties = _properties(features, fields)
        for wkb, data in zip(geometries_of(layer, features, options), properties, strict=True):
            table: dict[int, Any] = {}
            if wkb is not None:
                table[0] = _geometry(wkb, 0)[0]
            if data:
                table[1] = _Vector(data, 1)
            block += _sized(_Table(table))
            if len(block) >= _BLOCK_BYTES:
                yield bytes(block)
                block.clear()
    if block:
        yield bytes(block)


def _header(layer: Layer, fields: list[Field], kind: int, srid: int) -> _Table:
    columns = []
    for item in fields:
        column: dict[int, Any] = {0: item.name.encode(), 1: ("B", _COLUMN_TYPES[item.kind])}
        if item.title:
            column[2] = item.title.encode()
        columns.append(_Table(column))
    crs = {0: b"EPSG", 1: ("i", srid), 2: crs_name(srid).encode(), 4: wkt1(srid).encode()}
    header: dict[int, Any] = {
        0: layer.name.encode(),
        2: ("B", kind),
        3: ("?", layer.dimensions == 3),
        7: columns,
        9: ("H", 0),  # no index
        10: _Table(crs),
    }
    for number, text in ((11, layer.title), (12, layer.description)):
        if text:
            header[number] = text.encode()
    return _Table(header)


def _properties(features: Features, fields: list[Field]) -> list[bytes]:
    """Per feature: for each value that is there its column's number and its bytes."""
    rows: list[list[bytes]] = [[] for _ in range(len(features))]
    for number, item in enumerate(fields):
        head = struct.pack("<H", number)
        write_value = _VALUES[item.kind]
        for row, value in zip(rows, column_of(features, item), strict=True):
            if value is not None:
                row.append(head + write_value(value))
    return [b"".join(row) for row in rows]


def _text(value: Any) -> bytes:
    data: bytes = value.encode("utf-8", "replace")
    return struct.pack("<I", len(data)) + data


_VALUES: Final[dict[FieldKind, Callable[[Any], bytes]]] = {
    FieldKind.TEXT: _text,
    FieldKind.INTEGER: lambda value: struct.pack("<q", value),
    FieldKind.NUMBER: lambda value: struct.pack("<d", value),
    FieldKind.BOOLEAN: lambda value: struct.pack("<?", value),
    FieldKind.DATE: lambda value: _text(TEXT_OF[FieldKind.DATE](value)),
    FieldKind.DATETIME: lambda value: _text(TEXT_OF[FieldKind.DATETIME](value)),
}


# ------------------------------------------------------------------ geometries


def _geometry(wkb: bytes, at: int) -> tuple[_Table, int]:
    """The table of the geometry that begins at a place of a WKB, and where it ends there."""
    (number,) = struct.unpack_from("<I", wkb, at + 1)
    kind, width = number % 1000, 24 if number >= 1000 else 16
    at += 5
    if kind == 1:
        return _places(kind, wkb[at : at + width], width, []), at + width
    (count,) = struct.unpack_from("<I", wkb, at)
    at += 4
    if kind == 2:
        end = at + count * width
        return _places(kind, wkb[at:end], width, []), end
    if kind == 3:
        runs: list[bytes] = []
        for _ in range(count):
            (points,) = struct.unpack_from("<I", wkb, at)
            runs.append(wkb[at + 4 : at + 4 + points * width])
            at += 4 + points * width
        return _runs(kind, runs, width), at
    if kind in (4, 5):
        runs = []
        for _ in range(count):
            if kind == 4:
                runs.append(wkb[at + 5 : at + 5 + width])
                at += 5 + width
                continue
            (points,) = struct.unpack_from("<I", wkb, at + 5)
            runs.append(wkb[at + 9 : at + 9 + points * width])
            at += 9 + points * width
        return (_places(kind, b"".join(runs), width, []) if kind == 4 else _runs(kind, runs, width)), at
    parts = []
    for _ in range(count):
        part, at = _geometry(wkb, at)
        parts.append(part)
    return _Table({6: ("B", kind), 7: parts}), at


def _runs(kind: int, runs: list[bytes], width: int) -> _Table:
    """Several lines or rings: where each ends, unless there is but one."""
    ends, end = [], 0
    for run in runs:
        end += len(run) // width
        ends.append(end)
    return _places(kind, b"".join(runs), width, ends if len(runs) > 1 else [])


def _places(kind: int, data: bytes, width: int, ends: list[int]) -> _Table:
    table: dict[int, Any] = {6: ("B", kind)}
    if width == 24:
        numbers = memoryview(data).cast("d")
        xy = bytearray(len(data) // 3 * 2)
        target = memoryview(xy).cast("d")
        target[0::2], target[1::2] = numbers[0::3], numbers[1::3]
        table[2] = _Vector(numbers[2::3].tobytes(), 8)
        data = bytes(xy)
    table[1] = _Vector(data, 8)
    if ends:
        table[0] = _Vector(struct.pack(f"<{len(ends)}I", *ends), 4)
    return _Table(table)
