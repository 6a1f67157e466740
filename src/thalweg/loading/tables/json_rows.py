"""JSON: a list of objects, a CKAN dump (``fields`` and ``records``), lines of objects, whatever they are called, or
GeoJSON.

Numbers keep their digits: a fraction is read as a decimal. A document is read as a whole, up to a bound; lines and
the features of a collection one by one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, Final

from thalweg.domain.errors import InvalidRequest, TooLarge
from thalweg.domain.table_values import FieldType, type_named
from thalweg.domain.tables import MAX_FIELDS, ROW_ID
from thalweg.loading.features.json_split import FeatureSplitter
from thalweg.loading.tables.source import BLOCK_ROWS, ReadOptions, Shape, field_names

MAX_DOCUMENT_BYTES: Final = 256 << 20
"""Longest JSON document that is read as a whole; some ten times that is taken of memory."""
MAX_LINE_BYTES: Final = 64 << 20
MAX_DIGITS: Final = 2_000
_GEOMETRY: Final = "geometry"
HEAD_BYTES: Final = 4_096
_CRS: Final = re.compile(rb'"crs"\s*:\s*\{[^{}]*\{\s*"name"\s*:\s*"([^"]{1,200})"')


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError("a number has too many digits")
    return int(text)


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def parse(text: bytes | str, where: str) -> Any:
    """Raises InvalidRequest."""
    try:
        return json.loads(text, parse_float=Decimal, parse_int=_integer, parse_constant=_constant)
    except RecursionError:
        raise InvalidRequest(f"The JSON {where} is nested too deep.") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"The JSON {where} cannot be read: {str(error)[:200]}.") from None


class JsonSource:
    """See the module."""

    def __init__(self, path: Path, options: ReadOptions, format: str) -> None:
        self._path = path
        self._features = format == "geojson"
        self._lines = not self._features and (
            format == "ndjson" or path.name.lower().endswith((".ndjson", ".jsonl")) or self._has_lines()
        )
        self._document: Sequence[Any] | None = None
        self.shape = Shape("geojson" if self._features else "json", [], [])
        self._keys: list[str] = []
        """What rows are looked up by; empty: rows are lists."""
        fields: list[Mapping[str, Any]] = []
        if not self._lines and not self._features:
            self._document, fields = self._whole()
        if fields:
            names = [str(item.get("id", "")) for item in fields]
            self._skip = [place for place, name in enumerate(names) if name == ROW_ID]
            kept = [place for place in range(len(names)) if place not in self._skip]
            self.shape.names = field_names([names[place] for place in kept], self.shape.notes)
            self.shape.types = [type_named(str(fields[place].get("type", ""))) for place in kept]
            self._places: list[int] = kept
            self._keys = [] if self._is_lists() else [names[place] for place in kept]
            return
        if self._features:
            self._note_crs()
        keys: dict[str, None] = {}
        for number, row in enumerate(self._rows(), 1):
            if not isinstance(row, Mapping):
                raise InvalidRequest(f"Row {number:,} is not an object.")
            keys.update(dict.fromkeys(row))
            if len(keys) > MAX_FIELDS + 1:
                raise TooLarge(f"The rows have more than {MAX_FIELDS:,} different names.")
        keys.pop(ROW_ID, None)
        if not keys:
            raise InvalidRequest("The file has no rows with values.")
        self._keys = list(keys)
        self.shape.names = field_names(self._keys, self.shape.notes)
        self.shape.types = [
            (FieldType.JSON, False) if self._features and key == _GEOMETRY else None for key in self._keys
        ]

    def _has_lines(self) -> bool:
        """Whether the first line is an object, and another one follows."""
        with self._path.open("rb") as stream:
            line = stream.readline(MAX_LINE_BYTES + 1)
            if not line.lstrip(b"\xef\xbb\xbf").startswith(b"{") or stream.readline(2)[:1] != b"{":
                return False
        with suppress(InvalidRequest):
            return isinstance(parse(line, ""), Mapping)
        return False

    def _is_lists(self) -> bool:
        return bool(self._document) and self._document is not None and isinstance(self._document[0], list)

    def _whole(self) -> tuple[Sequence[Any], list[Mapping[str, Any]]]:
        """The records, and the fields that a dump gives with them."""
        if self._path.stat().st_size > MAX_DOCUMENT_BYTES:
            raise TooLarge(
                f"The JSON document is longer than {MAX_DOCUMENT_BYTES >> 20} MiB; give an object a line (.ndjson)."
            )
        document = parse(self._path.read_bytes(), "document")
        if isinstance(document, Mapping):
            for key in ("records", "data", "rows", "results", "items"):
                if isinstance(document.get(key), list):
                    fields = document.get("fields")
                    given = isinstance(fields, list) and all(isinstance(item, Mapping) for item in fields)
                    return document[key], list(fields) if given and fields else []
            return [document], []
        if not isinstance(document, list):
            raise InvalidRequest("The JSON document is neither a list of objects nor an object.")
        return document, []

    def _rows(self) -> Iterator[Any]:
        if self._document is not None:
            yield from self._document
        elif self._lines:
            with self._path.open("rb") as stream:
                number = 0
                while line := stream.readline(MAX_LINE_BYTES + 1):
                    number += 1
                    if len(line) > MAX_LINE_BYTES:
                        raise TooLarge(f"Line {number:,} is longer than {MAX_LINE_BYTES >> 20} MiB.")
                    if line.strip():
                        yield parse(line, f"of line {number:,}")
        else:
            with self._path.open("rb") as stream:
                number = 0
                for batch in FeatureSplitter(stream).batches():
                    for text in batch:
                        number += 1
                        yield self._of_feature(parse(text, f"of feature {number:,}"), number)

    def _note_crs(self) -> None:
        """GeoJSON has one; what older files say of another is in their head."""
        with self._path.open("rb") as stream:
            found = _CRS.search(stream.read(HEAD_BYTES))
        name = found[1].decode("utf-8", "replace") if found else ""
        if name and not name.endswith((":CRS84", ":4326")):
            self.shape.notes.append(f"the coordinates are kept as they are, in the CRS that the file names: {name}")

    @staticmethod
    def _of_feature(feature: Any, number: int) -> dict[str, Any]:
        if not isinstance(feature, dict) or feature.get("type") != "Feature":
            raise InvalidRequest(f"What is in the place of feature {number:,} is none.")
        properties = feature.get("properties")
        row = dict(properties) if isinstance(properties, dict) else {}
        if _GEOMETRY in row:
            row[f"properties.{_GEOMETRY}"] = row.pop(_GEOMETRY)
        if "id" in feature and "id" not in row:
            row = {"id": feature["id"], **row}
        row[_GEOMETRY] = feature.get(_GEOMETRY)
        return row

    def blocks(self) -> Iterator[tuple[list[Sequence[Any]], int]]:
        rows = self._rows()
        size = self._path.stat().st_size
        done = 0
        while block := list(islice(rows, BLOCK_ROWS)):
            if self._keys:
                for place, row in enumerate(block):
                    if not isinstance(row, Mapping):
                        raise InvalidRequest(f"Row {done + place + 1:,} is not an object.")
                columns: list[Sequence[Any]] = [[row.get(key) for row in block] for key in self._keys]
            else:
                width = max(self._places, default=0) + 1
                for place, row in enumerate(block):
                    if not isinstance(row, list) or len(row) < width:
                        raise InvalidRequest(f"Row {done + place + 1:,} does not have a value for each field.")
                columns = [[row[place] for row in block] for place in self._places]
            done += len(block)
            yield columns, size if self._document is not None else 0

    def place(self, row: int) -> str:
        return f"{'feature' if self._features else 'row'} {row + 1:,}"
