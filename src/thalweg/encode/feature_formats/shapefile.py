"""Shapefiles in a zip (ESRI Shapefile Technical Description, 1998), one for each kind of shape that occurs.

Names of fields are cut to ten bytes and texts to 254; a file FIELDS.txt in the zip says which.
"""

from __future__ import annotations

import io
import struct
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import IO, Any, Final, cast

import numpy as np
import numpy.typing as npt
import shapely

from thalweg.domain.errors import TooLarge
from thalweg.domain.features import Features, Field, FieldKind, Layer
from thalweg.encode.feature_formats.columns import (
    BLOCK_BYTES,
    column_of,
    fields_of,
    geometries_of,
    shapes_of,
    texts_of,
)
from thalweg.encode.feature_formats.contract import WriteOptions
from thalweg.encode.feature_formats.crs_text import wkt1

_MAX_BYTES: Final = (1 << 31) - 1
"""Longest .shp and .dbf: offsets are signed 32-bit words, and programs stop at 2 GB."""
_MAX_FIELDS: Final = 255
_MAX_NAME: Final = 10
_MAX_TEXT: Final = 254
_KINDS: Final = {0: (1, "points"), 4: (8, "multipoints"), 1: (3, "lines"), 5: (3, "lines"), 3: (5, "polygons"),
                 6: (5, "polygons")}  # fmt: skip
"""By GEOS' type: the shape's type and the file's ending where there are several."""
_NULL: Final = (0, "")
_NO_DATA: Final = -1e39
"""Measures below -1e38 mean that there is none."""
_Places = npt.NDArray[np.float64]


class _Part:
    """One shapefile being written: shapes as they will be, rows still of the widths of their values."""

    def __init__(self, folder: Path, kind: int, name: str, *, has_z: bool, fields: list[Field]) -> None:
        self.name = name
        self.type = kind + 10 if has_z and kind else kind
        self._has_z = has_z
        self._fields = fields
        self.widths = [1] * len(fields)
        self.rows = 0
        self.cut: set[str] = set()
        self._at = 50  # words
        self._box = np.array([np.inf, np.inf, -np.inf, -np.inf])
        self._heights = [np.inf, -np.inf]
        self.paths = {ending: folder / f"{name}.{ending}" for ending in ("shp", "shx", "dbf", "rows")}
        self._files: dict[str, IO[bytes]] = {}

    def open(self, stack: ExitStack) -> None:
        for ending, path in self.paths.items():
            self._files[ending] = stack.enter_context(path.open("w+b"))
        self._files["shp"].write(bytes(100))
        self._files["shx"].write(bytes(100))

    def add(self, shape: Any, cells: list[bytes | None]) -> None:
        content = self._content(shape)
        words = len(content) // 2
        if (self._at + words + 4) * 2 > _MAX_BYTES:
            raise TooLarge("The shapefile would be larger than 2 GB; ask for another format or for less.")
        self.rows += 1
        self._files["shp"].write(struct.pack(">ii", self.rows, words) + content)
        self._files["shx"].write(struct.pack(">ii", self._at, words))
        self._at += words + 4
        row = []
        for index, cell in enumerate(cells):
            data = b"" if cell is None else cell
            if len(data) > _MAX_TEXT:
                data = data[:_MAX_TEXT].decode("utf-8", "ignore").encode()
                self.cut.add(self._fields[index].name)
            self.widths[index] = max(self.widths[index], len(data))
            row.append(struct.pack("<B", len(data)) + data)
        self._files["rows"].write(b"".join(row))

    def _content(self, shape: Any) -> bytes:
        if shape is None or self.type == 0:
            return struct.pack("<i", 0)
        kind = self.type % 10
        rings = (
            _rings(shape)
            if kind == 5
            else _lines(shape)
            if kind == 3
            else [shapely.get_coordinates(shape, include_z=self._has_z)]
        )
        places = np.concatenate(rings) if len(rings) > 1 else rings[0]
        flat = places[:, :2]
        low, high = flat.min(axis=0), flat.max(axis=0)
        self._box[:2] = np.minimum(self._box[:2], low)
        self._box[2:] = np.maximum(self._box[2:], high)
        z = places[:, 2] if self._has_z else None
        if z is not None:
            self._heights = [min(self._heights[0], float(z.min())), max(self._heights[1], float(z.max()))]
        head = struct.pack("<i", self.type)
        if kind == 1:
            # A height never comes without a measure.
            return head + flat.astype("<f8").tobytes() + (b"" if z is None else struct.pack("<2d", z[0], _NO_DATA))
        parts = [head, struct.pack("<4d", *low, *high)]
        if kind == 8:
            parts.append(struct.pack("<i", len(places)))
        else:
            starts = np.cumsum([0, *(len(ring) for ring in rings[:-1])])
            parts += [struct.pack("<2i", len(rings), len(places)), starts.astype("<i4").tobytes()]
        parts.append(np.ascontiguousarray(flat, "<f8").tobytes())
        if z is not None:
            parts += [struct.pack("<2d", z.min(), z.max()), np.ascontiguousarray(z, "<f8").tobytes()]
        return b"".join(parts)

    def finish(self, names: list[bytes]) -> None:
        for ending, words in (("shp", self._at), ("shx", 50 + 4 * self.rows)):
            stream = self._files[ending]
            stream.seek(0)
            box = self._box if np.isfinite(self._box[0]) else np.zeros(4)
            heights = self._heights if np.isfinite(self._heights[0]) else [0.0, 0.0]
            stream.write(
                struct.pack(">7i", 9994, 0, 0, 0, 0, 0, words)
                + struct.pack("<2i8d", 1000, self.type, *box.tolist(), *heights, 0.0, 0.0)
            )
            stream.flush()
        self._write_table(names)

    def _write_table(self, names: list[bytes]) -> None:
        """The table with its columns as wide as their values, at least as the kind asks for."""
        widths = [_width(item, width) for item, width in zip(self._fields, self.widths, strict=True)]
        length = 1 + sum(widths)
        if length > 65_535 or self.rows * length > _MAX_BYTES:
            raise TooLarge("The table of the shapefile would be too large; ask for another format or for less.")
        out = self._files["dbf"]
        today = date.today()
        out.write(
            struct.pack("<4BIHH20x", 3, today.year - 1900, today.month, today.day, self.rows,
                        33 + 32 * len(names), length)
        )  # fmt: skip
        for name, item, width in zip(names, self._fields, widths, strict=True):
            letter, decimals = _LETTERS[item.kind]
            out.write(struct.pack("<11sc4xBB14x", name, letter, width, decimals))
        out.write(b"\r")
        rows = self._files["rows"]
        rows.seek(0)
        right = [item.kind in (FieldKind.INTEGER, FieldKind.NUMBER) for item in self._fields]
        for _ in range(self.rows):
            cells = [b" "]
            for width, to_right in zip(widths, right, strict=True):
                data = rows.read(rows.read(1)[0])
                cells.append(data.rjust(width) if to_right else data.ljust(width))
            out.write(b"".join(cells))
        out.write(b"\x1a")
        out.flush()


_LETTERS: Final = {
    FieldKind.TEXT: (b"C", 0), FieldKind.INTEGER: (b"N", 0), FieldKind.NUMBER: (b"N", 15), FieldKind.BOOLEAN: (b"L", 0),
    FieldKind.DATE: (b"D", 0), FieldKind.DATETIME: (b"C", 0),
}  # fmt: skip


def _width(item: Field, widest: int) -> int:
    if item.kind is FieldKind.DATE:
        return 8
    if item.kind is FieldKind.BOOLEAN:
        return 1
    # Nine digits fit 32 bits, which is what readers make of so narrow a column.
    return (
        max(widest, 9)
        if item.kind is FieldKind.INTEGER
        else max(widest, 24)
        if item.kind is FieldKind.NUMBER
        else widest
    )


def _places(shape: Any) -> _Places:
    places: _Places = shapely.get_coordinates(shape, include_z=bool(shape.has_z))
    return places


def _lines(shape: Any) -> list[_Places]:
    return [_places(part) for part in shapely.get_parts(shape).tolist()]


def _rings(shape: Any) -> list[_Places]:
    """Outer rings clockwise, holes the other way round."""
    result = []
    for part in shapely.get_parts(shape).tolist():
        for index, ring in enumerate(shapely.get_rings(part).tolist()):
            places = _places(ring)
            if bool(shapely.is_ccw(ring)) == (index == 0):
                places = places[::-1]
            result.append(places)
    return result


def write(layer: Layer, batches: Iterable[Features], options: WriteOptions) -> Iterator[bytes]:
    """The zip, once all shapes are written into temporary files.

    Geometry collections, which shapefiles cannot hold, become null shapes and are told in FIELDS.txt.
    raises  TooLarge beyond 2 GB or 255 fields
    """
    fields = fields_of(layer, options)
    if len(fields) > _MAX_FIELDS:
        raise TooLarge(f"A shapefile has at most {_MAX_FIELDS} fields, and the layer has {len(fields)}.")
    names = field_names(fields)
    with tempfile.TemporaryDirectory(prefix="thalweg-shp-") as folder, ExitStack() as stack:
        parts, left_out = _write_parts(Path(folder), stack, layer, batches, options, fields)
        for part in parts:
            part.finish(names)
        notes = _notes(fields, names, parts, left_out)
        yield from _zipped(parts, options.srid, notes)


def _write_parts(
    folder: Path,
    stack: ExitStack,
    layer: Layer,
    batches: Iterable[Features],
    options: WriteOptions,
    fields: list[Field],
) -> tuple[list[_Part], int]:
    parts: dict[int, _Part] = {}
    has_z = layer.dimensions == 3
    expected = _expected(layer, options)
    left_out = 0

    def part_of(kind: int, ending: str) -> _Part:
        part = parts.get(kind)
        if part is None:
            name = options.file_name if expected is not None else f"{options.file_name}_{ending or 'nothing'}"
            part = parts[kind] = _Part(folder, kind, name, has_z=has_z, fields=fields)
            part.open(stack)
        return part

    for features in batches:
        shapes = shapes_of(geometries_of(layer, features, options))
        types = shapely.get_type_id(shapes).tolist()
        cells = [_cells(features, item) for item in fields]
        for index, (shape, number) in enumerate(zip(shapes.tolist(), types, strict=True)):
            if number == 7:
                left_out += 1
                shape = None
            kind, ending = _KINDS.get(number, expected or _NULL)
            part_of(kind, ending).add(shape, [column[index] for column in cells])
    if not parts:
        part_of(*(expected or _NULL))
    return list(parts.values()), left_out


def _expected(layer: Layer, options: WriteOptions) -> tuple[int, str] | None:
    """The one kind of shape that all features have; None if there may be several."""
    if not (layer.has_geometry and options.geometry):
        return _NULL
    numbers = {"Point": 0, "MultiPoint": 4, "LineString": 1, "MultiLineString": 5, "Polygon": 3, "MultiPolygon": 6}
    return _KINDS.get(numbers.get(layer.geometry_kind.value, -1))


def _cells(features: Features, item: Field) -> list[bytes | None]:
    if item.kind is FieldKind.DATE:
        return [None if text is None else text.replace("-", "").encode() for text in texts_of(features, item)]
    if item.kind is FieldKind.BOOLEAN:
        return [b"?" if v is None else b"T" if v else b"F" for v in column_of(features, item)]
    return [None if text is None else text.encode("utf-8", "replace") for text in texts_of(features, item)]


def field_names(fields: Iterable[Field]) -> list[bytes]:
    """Names of at most ten bytes, each once whatever the case: cut, then numbered."""
    used: set[str] = set()
    result = []
    for item in fields:
        name = _cut(item.name, _MAX_NAME)
        number = 1
        while name.lower() in used:
            ending = f"_{number}"
            name = _cut(item.name, _MAX_NAME - len(ending)) + ending
            number += 1
        used.add(name.lower())
        result.append(name.encode())
    return result


def _cut(text: str, size: int) -> str:
    return text.encode()[:size].decode("utf-8", "ignore")


def _notes(fields: list[Field], names: list[bytes], parts: list[_Part], left_out: int) -> str:
    """What the shapefile could not hold; empty if it holds all."""
    lines = [
        f"{name.decode()}\t{item.name}" for name, item in zip(names, fields, strict=True) if name.decode() != item.name
    ]
    if lines:
        lines.insert(0, "Names of fields that were cut (in the shapefile, in the layer):")
    lines += [
        f"Texts of the field '{name}' were cut to {_MAX_TEXT} bytes."
        for name in sorted({name for part in parts for name in part.cut})
    ]
    if left_out:
        lines.append(f"{left_out} geometry collections were left out: their shapes are null.")
    return "".join(f"{line}\r\n" for line in lines)


class _Pipe(io.RawIOBase):
    """What a zip writes into; taken out block by block."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        self._size += len(data)
        return len(data)

    def take(self, least: int = 0) -> bytes:
        if self._size < max(least, 1):
            return b""
        data = b"".join(self._parts)
        self._parts, self._size = [], 0
        return data


def _zipped(parts: list[_Part], srid: int, notes: str) -> Iterator[bytes]:
    pipe = _Pipe()
    with zipfile.ZipFile(cast(IO[bytes], pipe), "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for part in parts:
            for ending in ("shp", "shx", "dbf"):
                with part.paths[ending].open("rb") as source, archive.open(f"{part.name}.{ending}", "w") as target:
                    while block := source.read(BLOCK_BYTES):
                        target.write(block)
                        if data := pipe.take(BLOCK_BYTES):
                            yield data
            archive.writestr(f"{part.name}.prj", wkt1(srid, esri=True))
            archive.writestr(f"{part.name}.cpg", "UTF-8")
        if notes:
            archive.writestr("FIELDS.txt", notes)
    if data := pipe.take():
        yield data
