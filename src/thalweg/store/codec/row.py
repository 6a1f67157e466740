"""Rows of the tail: the cells of one row as one small blob, quick to write one at a time and to read by the hundred.

Layout, little-endian; the row's key is its key in the table, not in the blob:

    shape      version, flags, number of cells, property ids (8 bytes each), kinds (1 byte each)
    values     8 bytes per cell: float64, int64, 0 or 1 for a boolean, size in bytes of a text
    qualities  2 bytes per cell
    position   three float64, if the flags say so
    texts      UTF-8, one after the other

Only cells that hold a value are there. Rows of one shape are decoded together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from thalweg.domain.blocks import QUALITY_RAW, Block, Column, PositionArray, TimeArray, ValueKind
from thalweg.domain.errors import DamagedData

_VERSION: Final = 1
_POSITION: Final = 1
_START: Final = Struct("<BBH")
_CODE_OF: Final = {ValueKind.NUMBER: 1, ValueKind.INTEGER: 2, ValueKind.TEXT: 3, ValueKind.BOOLEAN: 4}
_KIND_OF: Final = {code: kind for kind, code in _CODE_OF.items()}
_FORMAT_OF: Final = {1: "d", 2: "q", 3: "q", 4: "q"}
_DAMAGED: Final = "A stored row is damaged."

Times = Sequence[int] | TimeArray


class _Shape(NamedTuple):
    """What a row's first bytes say, and the layout of the fixed part that follows from it."""

    ids: tuple[int, ...]
    kinds: tuple[ValueKind, ...]
    has_position: bool
    layout: np.dtype[Any]
    """fields: shape (bytes), values (k × int64), qualities (k × int16), position (3 × float64)"""
    texts: tuple[int, ...]
    """indexes of the cells that are texts"""


@lru_cache(maxsize=4096)
def _packer(codes: bytes, has_position: bool) -> Struct:
    k = len(codes)
    values = "".join(_FORMAT_OF[code] for code in codes)
    return Struct(f"<BBH{k}q{k}s{values}{k}h{'3d' if has_position else ''}")


@lru_cache(maxsize=4096)
def _shape(start: bytes) -> _Shape:
    """The shape that a row's first bytes describe. Raises DamagedData."""
    version, flags, k = _START.unpack_from(start)
    if version != _VERSION or flags > _POSITION or len(start) != _START.size + 9 * k:
        raise DamagedData(_DAMAGED)
    ids = tuple(np.frombuffer(start, "<i8", k, _START.size).tolist())
    codes = start[_START.size + 8 * k :]
    if len(set(ids)) != k or any(code not in _KIND_OF for code in codes):
        raise DamagedData(_DAMAGED)
    fields: list[tuple[str, Any, Any]] = [("shape", "u1", len(start)), ("values", "<i8", k), ("qualities", "<i2", k)]
    if flags & _POSITION:
        fields.append(("position", "<f8", 3))
    kinds = tuple(_KIND_OF[code] for code in codes)
    texts = tuple(i for i, kind in enumerate(kinds) if kind is ValueKind.TEXT)
    return _Shape(ids, kinds, bool(flags & _POSITION), np.dtype([(n, t, (s,)) for n, t, s in fields]), texts)


# ------------------------------------------------------------------ writing


def encode_row(block: Block, row: int) -> bytes:
    """The valid cells and the position (if any coordinate is known) of one row of a block."""
    ids: list[int] = []
    codes: list[int] = []
    values: list[Any] = []
    qualities: list[int] = []
    texts = b""
    for key, column in block.columns.items():
        if column.valid is None or column.valid[row]:
            value = column.values.item(row)
            kind = column.kind
            if kind is ValueKind.TEXT:
                text = value.encode("utf-8", "surrogatepass")
                texts += text
                value = len(text)
            ids.append(key)
            codes.append(_CODE_OF[kind])
            values.append(value)
            qualities.append(column.quality.item(row))
    position: list[float] = []
    if block.position is not None:
        position = block.position[row].tolist()
        if all(x != x for x in position):
            position = []
    return _pack(ids, bytes(codes), values, qualities, position) + texts


def encode_rows(block: Block) -> list[bytes]:
    """Every row of a block as ``encode_row`` gives it."""
    n = len(block)
    columns = block.columns
    uniform = all(c.valid is None and c.kind is not ValueKind.TEXT for c in columns.values())
    if n < 4 or not uniform or (block.position is not None and np.isnan(block.position).all(axis=1).any()):
        return [encode_row(block, row) for row in range(n)]
    # All rows of one shape: filled column by column.
    start = _START.pack(_VERSION, 0 if block.position is None else _POSITION, len(columns))
    start += np.array(list(columns), "<i8").tobytes() + bytes(_CODE_OF[c.kind] for c in columns.values())
    layout = _shape(start).layout
    records = np.empty(n, layout)
    records["shape"] = np.frombuffer(start, np.uint8)
    for i, column in enumerate(columns.values()):
        if column.kind is ValueKind.NUMBER:
            records["values"][:, i] = np.ascontiguousarray(column.values, "<f8").view("<i8")
        else:
            records["values"][:, i] = column.values
        records["qualities"][:, i] = column.quality
    if block.position is not None:
        records["position"] = block.position
    joined = records.tobytes()
    size = layout.itemsize
    return [joined[i : i + size] for i in range(0, n * size, size)]


def _pack(ids: list[int], codes: bytes, values: list[Any], qualities: list[int], position: list[float]) -> bytes:
    packer = _packer(codes, bool(position))
    return packer.pack(_VERSION, _POSITION if position else 0, len(ids), *ids, codes, *values, *qualities, *position)


# ------------------------------------------------------------------ reading


def decode_rows(
    ends: Times,
    begins: Times | None,
    results: Times | None,
    blobs: Sequence[bytes],
    property_ids: Sequence[int] | None,
    kinds: Mapping[int, ValueKind],
) -> Block:
    """Rows of the tail as a block, in the order given.

    ends, begins, results  the keys, parallel to ``blobs``; begins or results None: equal to the ends
    property_ids           the columns wanted, in that order; None: all, in the order of ``kinds``
    kinds                  the kind of value of each property of the procedure
    returns                only rows that hold one of the wanted properties or a position; only columns that hold a
                           value, of properties that ``kinds`` knows; begin and result time None where all equal
                           the end
    raises                 DamagedData for malformed blobs and for kinds other than those given
    """
    n = len(blobs)
    end = np.array(ends, np.int64)
    begin = None if begins is None else np.array(begins, np.int64)
    result = None if results is None else np.array(results, np.int64)
    try:
        groups = _group(blobs)
        wanted = [key for key in dict.fromkeys(kinds if property_ids is None else property_ids) if key in kinds]
        decoded = [_decode_group(blobs, rows, shape, wanted, kinds) for shape, rows in groups]
    except DamagedData:
        raise
    except Exception as error:
        raise DamagedData(_DAMAGED) from error
    position: PositionArray | None = None
    if len(decoded) == 1 and decoded[0].rows is None:
        # All rows of one shape, the ordinary case.
        group = decoded[0]
        if not group.columns and group.position is None:
            return Block(np.empty(0, np.int64), {})
        columns = {key: Column(kinds[key], values, None, quality) for key, values, quality in group.columns}
        position = group.position
    else:
        columns, position, content = _scatter(decoded, n, wanted, kinds)
        if not content.all():
            end = end[content]
            begin = None if begin is None else begin[content]
            result = None if result is None else result[content]
            position = None if position is None else position[content]
            columns = {key: column.take(content) for key, column in columns.items()}
    if begin is not None and (begin == end).all():
        begin = None
    if result is not None and (result == end).all():
        result = None
    return Block(end, columns, begin=begin, result_time=result, position=position)


class _Group(NamedTuple):
    """Decoded rows of one shape. ``rows`` None: all rows that there are."""

    rows: npt.NDArray[np.intp] | None
    columns: list[tuple[int, npt.NDArray[Any], npt.NDArray[np.int16]]]
    position: PositionArray | None


def _start_of(blob: bytes) -> bytes:
    return blob[: _START.size + 9 * (blob[2] | blob[3] << 8)]


def _group(blobs: Sequence[bytes]) -> list[tuple[_Shape, list[int] | None]]:
    """Rows by shape; None instead of a list of rows where all have one shape."""
    if not blobs:
        return []
    start = _start_of(blobs[0])
    if all(blob.startswith(start) for blob in blobs):
        return [(_shape(start), None)]
    rows_of: dict[bytes, list[int]] = {}
    for row, blob in enumerate(blobs):
        rows_of.setdefault(_start_of(blob), []).append(row)
    return [(_shape(start), rows) for start, rows in rows_of.items()]


def _decode_group(
    blobs: Sequence[bytes],
    rows: list[int] | None,
    shape: _Shape,
    wanted: list[int],
    kinds: Mapping[int, ValueKind],
) -> _Group:
    if rows is not None:
        blobs = [blobs[row] for row in rows]
    size = shape.layout.itemsize
    sizes = set(map(len, blobs))
    if shape.texts:
        if min(sizes) < size:
            raise DamagedData(_DAMAGED)
        records = np.frombuffer(b"".join([blob[:size] for blob in blobs]), shape.layout)
    elif sizes == {size}:
        records = np.frombuffer(b"".join(blobs), shape.layout)
    else:
        raise DamagedData(_DAMAGED)
    values, qualities = records["values"], records["qualities"]
    texts = _texts(blobs, size, values[:, shape.texts]) if shape.texts else {}
    columns: list[tuple[int, npt.NDArray[Any], npt.NDArray[np.int16]]] = []
    for key in wanted:
        if key not in shape.ids:
            continue
        i = shape.ids.index(key)
        kind = shape.kinds[i]
        if kinds[key] is not kind:
            raise DamagedData(f"{_DAMAGED[:-1]}: a value of kind {kind} where another is registered.")
        cells: npt.NDArray[Any] = values[:, i].copy()
        if kind is ValueKind.NUMBER:
            cells = cells.view(np.float64)
        elif kind is ValueKind.BOOLEAN:
            if cells.min() < 0 or cells.max() > 1:
                raise DamagedData(_DAMAGED)
            cells = cells.astype(np.bool_)
        elif kind is ValueKind.TEXT:
            cells = texts[shape.texts.index(i)]
        columns.append((key, cells, qualities[:, i].copy()))
    position = records["position"].copy() if shape.has_position else None
    return _Group(None if rows is None else np.array(rows, np.intp), columns, position)


def _texts(blobs: Sequence[bytes], start: int, sizes: npt.NDArray[np.int64]) -> dict[int, npt.NDArray[Any]]:
    """Text columns, by their number among the text cells.

    sizes  shape (rows, text cells), bytes
    """
    columns = {j: np.empty(len(blobs), object) for j in range(sizes.shape[1])}
    for row, (blob, row_sizes) in enumerate(zip(blobs, sizes.tolist(), strict=True)):
        at = start
        for j, size in enumerate(row_sizes):
            if size < 0:
                raise DamagedData(_DAMAGED)
            columns[j][row] = blob[at : at + size].decode("utf-8", "surrogatepass")
            at += size
        if at != len(blob):
            raise DamagedData(_DAMAGED)
    return columns


def _scatter(
    groups: list[_Group], n: int, wanted: list[int], kinds: Mapping[int, ValueKind]
) -> tuple[dict[int, Column], PositionArray | None, npt.NDArray[np.bool_]]:
    """Rows of several shapes put in their places: (columns, position, rows that hold something)."""
    content = np.zeros(n, np.bool_)
    position: PositionArray | None = None
    parts: dict[int, list[tuple[npt.NDArray[np.intp], npt.NDArray[Any], npt.NDArray[np.int16]]]] = {}
    for group in groups:
        rows = np.arange(n) if group.rows is None else group.rows
        for key, values, quality in group.columns:
            parts.setdefault(key, []).append((rows, values, quality))
        if group.position is not None:
            if position is None:
                position = np.full((n, 3), np.nan)
            position[rows] = group.position
        if group.columns or group.position is not None:
            content[rows] = True
    columns: dict[int, Column] = {}
    for key in wanted:
        if key not in parts:
            continue
        kind = kinds[key]
        valid = np.zeros(n, np.bool_)
        quality = np.full(n, QUALITY_RAW, np.int16)
        cells = Column.missing(kind, n).values
        for rows, values, codes in parts[key]:
            valid[rows], cells[rows], quality[rows] = True, values, codes
        columns[key] = Column(kind, cells, None if valid.all() else valid, quality)
    return columns, position, content
