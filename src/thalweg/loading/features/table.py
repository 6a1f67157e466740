"""CSV with coordinates or well-known text, also gzipped (RFC 4180, and what spreadsheets make of it)."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import shapely

from thalweg.domain.errors import InvalidParameter, InvalidRequest
from thalweg.domain.features import MAX_FIELDS, MAX_GEOMETRY_DEPTH, MAX_VALUE_LENGTH, FieldKind
from thalweg.loading.features import shapes
from thalweg.loading.features.geometries import GeometryArray
from thalweg.loading.features.source import BATCH_ROWS, Advance, Batch, ReadOptions, open_binary, stem

DELIMITERS: Final = (",", ";", "\t", "|")
_X: Final = ("x", "lon", "longitude", "long", "lng", "easting", "east", "x_coord", "coord_x", "e")
_Y: Final = ("y", "lat", "latitude", "northing", "north", "y_coord", "coord_y", "n")
_WKT: Final = ("wkt", "geometry", "geom", "the_geom", "wkt_geom", "shape")
_EWKT: Final = re.compile(r"SRID=(\d{1,6});", re.ASCII | re.IGNORECASE)
_WKT_TYPE: Final = re.compile(
    r"(POINT|LINESTRING|POLYGON|MULTIPOINT|MULTILINESTRING|MULTIPOLYGON|GEOMETRYCOLLECTION)\b", re.IGNORECASE
)
_MAX_HEAD: Final = 1 << 20
_MAX_PARENTHESES: Final = 3 + MAX_GEOMETRY_DEPTH
"""A multipolygon has three within one another."""


class CsvSource:
    """A CSV file."""

    format = "CSV"
    parse = None
    textual = True

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.path = path
        self.layer = stem(path)
        self.srid: int | None = None
        self.notes: list[str] = []
        self.size = path.stat().st_size
        self._options = options
        self._gzipped = path.suffix.lower() == ".gz"
        self._raw = open_binary(path)
        encoding = options.encoding or "utf-8"
        try:
            codecs.lookup(encoding)
        except LookupError:
            raise InvalidParameter("encoding", f"'{encoding[:40]}' is not the name of an encoding.") from None
        self._encoding = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
        self._text = io.TextIOWrapper(cast(Any, self._raw), encoding=self._encoding, newline="")
        self._open()

    def close(self) -> None:
        self._text.close()

    def _open(self) -> None:
        try:
            head = self._text.readline(_MAX_HEAD)
        except UnicodeDecodeError as error:
            raise self._not_decodable(error) from None
        except (EOFError, OSError) as error:
            raise InvalidRequest(f"The file cannot be read: {error}.") from None
        if not head.strip():
            raise InvalidRequest("The file is empty: its first line must name the columns.")
        delimiter = self._options.delimiter
        if not delimiter:
            delimiter = max(DELIMITERS, key=head.count)
            if head.count(delimiter):
                shown = "tab" if delimiter == "\t" else delimiter
                self.notes.append(f"columns are divided by '{shown}'")
        elif delimiter not in DELIMITERS:
            raise InvalidParameter("delimiter", "The delimiter must be one of , ; | and tab.")
        csv.field_size_limit(MAX_VALUE_LENGTH * 16)
        self._delimiter = delimiter
        try:
            names = next(csv.reader([head], delimiter=delimiter, strict=True))
        except csv.Error as error:
            raise InvalidRequest(f"The first line cannot be read as names of columns: {error}.") from None
        self._names = [name.strip() for name in names]
        if len(self._names) > MAX_FIELDS:
            raise InvalidRequest(f"The file has {len(self._names):,} columns; {MAX_FIELDS} may be.")
        twice = {name for name in self._names if self._names.count(name) > 1}
        if twice:
            raise InvalidRequest(f"Columns with the same name: {', '.join(sorted(twice))[:200]}.")
        self._choose_place()
        place = {self._wkt, self._x, self._y}
        self._kept = [i for i, name in enumerate(self._names) if i not in place and name]
        self.declared: dict[str, FieldKind | None] = {self._names[i]: None for i in self._kept}

    def _choose_place(self) -> None:
        options = self._options
        self._wkt = self._x = self._y = -1
        if options.wkt:
            self._wkt = self._column(options.wkt)
        elif options.x or options.y:
            if not (options.x and options.y):
                raise InvalidParameter("x", "--x and --y are only of use together.")
            self._x, self._y = self._column(options.x), self._column(options.y)
        else:
            small = [name.lower() for name in self._names]
            self._wkt = next((small.index(name) for name in _WKT if name in small), -1)
            if self._wkt < 0:
                self._x = next((small.index(name) for name in _X if name in small), -1)
                self._y = next((small.index(name) for name in _Y if name in small), -1)
            if self._wkt < 0 and (self._x < 0 or self._y < 0):
                raise InvalidParameter(
                    "x",
                    "No columns of coordinates were found: name them by --x and --y, or a column of WKT by --wkt. "
                    f"There are: {', '.join(self._names)[:300]}.",
                )
            if self._wkt >= 0:
                self.notes.append(f"the geometry is the WKT in '{self._names[self._wkt]}'")
            else:
                self.notes.append(f"x is '{self._names[self._x]}', y is '{self._names[self._y]}'")

    def _column(self, name: str) -> int:
        if name not in self._names:
            raise InvalidParameter("x", f"There is no column '{name[:60]}'. There are: {', '.join(self._names)[:300]}.")
        return self._names.index(name)

    def _not_decodable(self, error: UnicodeDecodeError) -> InvalidRequest:
        return InvalidRequest(
            f"The file is not {self._encoding.removesuffix('-sig')} (byte 0x{error.object[error.start]:02x}); say its "
            "encoding by --encoding, such as cp1252."
        )

    def chunks(self, advance: Advance) -> Iterator[Batch]:
        """All rows. Raises InvalidRequest."""
        reader = csv.reader(self._text, delimiter=self._delimiter, strict=True)
        width = len(self._names)
        rows: list[list[str]] = []
        lost: list[tuple[int, str]] = []
        first = number = 1
        done = 0
        while True:
            try:
                row = next(reader, None)
            except csv.Error as error:
                raise InvalidRequest(f"Line {reader.line_num + 1:,} cannot be read: {error}.") from None
            except UnicodeDecodeError as error:
                raise self._not_decodable(error) from None
            except (EOFError, OSError) as error:
                raise InvalidRequest(f"The compressed file is damaged or cut off: {error}.") from None
            if row is not None:
                if not row or row == [""]:
                    continue
                if len(row) != width:
                    lost.append((number, f"line {reader.line_num + 1:,} has {len(row)} fields instead of {width}"))
                else:
                    rows.append(row)
                number += 1
            if row is None or len(rows) >= BATCH_ROWS or len(lost) >= BATCH_ROWS:
                if rows or lost:
                    yield self._batch(rows, first, lost)
                rows, lost, first = [], [], number
                if not self._gzipped:
                    here = self._raw.tell()
                    advance(here - done)
                    done = here
            if row is None:
                advance(self.size - done)
                return

    def _batch(self, rows: list[list[str]], first: int, lost: list[tuple[int, str]]) -> Batch:
        fields = list(zip(*rows, strict=True)) if rows else [()] * len(self._names)
        if self._wkt >= 0:
            geometries, problems = self._from_wkt(fields[self._wkt])
        else:
            geometries, problems = self._from_xy(fields[self._x], fields[self._y])
        columns = [[text or None for text in fields[i]] for i in self._kept]
        return Batch(first, None, geometries, problems, tuple(self._names[i] for i in self._kept), columns, lost)

    def _from_xy(self, xs: tuple[str, ...], ys: tuple[str, ...]) -> tuple[GeometryArray, list[tuple[int, str]]]:
        result: GeometryArray = np.empty(len(xs), dtype=object)
        problems = []
        places, points = [], []
        for index, (x, y) in enumerate(zip(xs, ys, strict=True)):
            if not x.strip() and not y.strip():
                continue
            try:
                points.append((self._number(x), self._number(y)))
                places.append(index)
            except ValueError:
                problems.append((index, f"'{x[:30]}', '{y[:30]}' are not coordinates"))
        if points:
            array = np.array(points, np.float64)
            finite = np.isfinite(array).all(axis=1)
            problems += [(places[i], "a coordinate is not a finite number") for i in np.flatnonzero(~finite).tolist()]
            result[np.array(places)[finite]] = shapes.points(array[finite])
        return result, sorted(problems)

    def _number(self, text: str) -> float:
        if self._options.decimal == ",":
            text = text.replace(",", ".")
        if "_" in text:
            raise ValueError(text)
        return float(text)

    def _from_wkt(self, texts: tuple[str, ...]) -> tuple[GeometryArray, list[tuple[int, str]]]:
        problems = []
        clean: list[str | None] = []
        for index, text in enumerate(texts):
            text = text.strip()
            srid = _EWKT.match(text)
            if srid is not None:
                text = text[srid.end() :]
                self.srid = int(srid.group(1))
            why = _refused_wkt(text) if text else ""
            if why:
                problems.append((index, why))
            clean.append(text if text and not why else None)
        wanted = np.array(clean, dtype=object)
        result: GeometryArray = shapely.from_wkt(wanted, on_invalid="ignore")
        problems += [
            (index, f"not well-known text: '{texts[index][:40]}'")
            for index in np.flatnonzero(shapely.is_missing(result)).tolist()
            if clean[index] is not None
        ]
        return result, sorted(problems)


def _refused_wkt(text: str) -> str:
    """Why a WKT must not reach the geometry library, or an empty text."""
    if not _WKT_TYPE.match(text):
        return f"not well-known text: '{text[:40]}'"
    depth = 0
    for mark in re.findall(r"[()]", text):
        depth += 1 if mark == "(" else -1
        if depth > _MAX_PARENTHESES:
            return f"collections lie more than {MAX_GEOMETRY_DEPTH} deep in one another"
    return ""
