"""GeoJSON (RFC 7946), whole collections and text sequences (RFC 8142, newline-delimited), also gzipped.

The file is parsed once and never held as a whole. ``crs`` of the 2008 form is read, as many national files have it.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import orjson

from thalweg.domain.errors import InvalidRequest
from thalweg.domain.features import MAX_FIELDS, FieldKind
from thalweg.domain.geometry import WGS84
from thalweg.loading.features.crs import srid_of_name
from thalweg.loading.features.geometries import build
from thalweg.loading.features.json_split import FeatureSplitter
from thalweg.loading.features.source import Advance, Batch, open_binary, stem

_TAIL_BYTES: Final = 1 << 16
"""Of the end of a file, looked at for a CRS."""


class GeoJsonSource:
    """A GeoJSON file."""

    format = "GeoJSON"
    textual = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self.layer = stem(path)
        self.srid: int | None = WGS84
        self.declared: dict[str, FieldKind | None] = {}
        self.notes: list[str] = []
        self.size = path.stat().st_size
        self._gzipped = path.suffix.lower() == ".gz"
        self._stream = open_binary(path)

    def close(self) -> None:
        self._stream.close()

    @property
    def parse(self) -> Callable[[Any], Batch]:
        return batch_of_texts

    def chunks(self, advance: Advance) -> Iterator[tuple[list[bytes], int]]:
        """All features, as ``batch_of_texts`` takes them. Raises InvalidRequest, TooLarge."""
        gzipped = self._gzipped
        splitter = FeatureSplitter(self._stream, (lambda _: None) if gzipped else advance)
        first = 1
        try:
            for texts in splitter.batches():
                if first == 1:
                    self._begin(splitter.head)
                yield texts, first
                first += len(texts)
        except (EOFError, gzip.BadGzipFile, OSError) as error:
            if not gzipped:
                raise
            raise InvalidRequest(f"The compressed file is damaged or cut off: {error}.") from None
        if gzipped:
            advance(self.size)
        name = splitter.head.get("name", splitter.tail.get("name"))
        if isinstance(name, str) and name:
            self.layer = name
        self.srid = WGS84
        self._read_crs(splitter.head.get("crs", splitter.tail.get("crs")))

    def _begin(self, head: dict[str, Any]) -> None:
        """What the features' CRS is while they are read: unknown, if it may be told behind them."""
        if "crs" in head:
            with suppress(TypeError, KeyError):
                self.srid = srid_of_name(head["crs"]["properties"]["name"])
        elif self._gzipped:
            # Its end cannot be looked at before.
            self.srid = None
        else:
            with self.path.open("rb") as stream:
                stream.seek(max(0, self.size - _TAIL_BYTES))
                if b'"crs"' in stream.read():
                    self.srid = None

    def _read_crs(self, crs: Any) -> None:
        if crs is None:
            return
        try:
            name = crs["properties"]["name"]
        except (TypeError, KeyError):
            self.srid = None
            self.notes.append("the member 'crs' is not of the form of a named CRS")
            return
        self.srid = srid_of_name(name) if isinstance(name, str) else None
        if self.srid is None:
            self.notes.append(f"the CRS '{str(name)[:80]}' is not known")


def batch_of_texts(chunk: tuple[list[bytes], int]) -> Batch:
    """chunk  texts of features, and the number of the first one in the file"""
    texts, first = chunk
    lost: list[tuple[int, str]] = []
    try:
        items = orjson.loads(b"[" + b",".join(texts) + b"]")
    except orjson.JSONDecodeError:
        items = []
        for number, text in enumerate(texts, first):
            try:
                items.append(orjson.loads(text))
            except orjson.JSONDecodeError as error:
                lost.append((number, f"not JSON: {error}"))
    geometries, properties, ids = [], [], []
    for number, item in enumerate(items, first):
        kind = item.get("type")
        if kind == "Feature":
            geometries.append(item.get("geometry"))
            found = item.get("properties")
            properties.append(found if isinstance(found, dict) else {})
            ids.append(item.get("id"))
        elif kind == "FeatureCollection":
            lost.append((number, "a collection within another, or one without an array 'features'"))
        elif isinstance(kind, str) and ("coordinates" in item or "geometries" in item):
            # A geometry is a GeoJSON text, too (RFC 7946 section 2).
            geometries.append(item)
            properties.append({})
            ids.append(None)
        else:
            lost.append((number, f"not a Feature: its type is {str(kind)[:40]!r}"))
    built, problems = build(geometries)
    names, columns = _columns(properties)
    return Batch(first, ids if any(item is not None for item in ids) else None, built, problems, names, columns, lost)


def _columns(properties: list[dict[str, Any]]) -> tuple[tuple[str, ...], list[list[Any]]]:
    """Objects to columns. Arrays and objects become their JSON text."""
    shapes = set(map(tuple, properties))
    if len(shapes) == 1:
        names: tuple[str, ...] = shapes.pop()
        columns = [list(column) for column in zip(*map(dict.values, properties), strict=True)]
    else:
        every: dict[str, None] = {}
        for item in properties:
            every.update(dict.fromkeys(item))
            if len(every) > MAX_FIELDS:
                raise InvalidRequest(f"Features have more than {MAX_FIELDS:,} different properties.")
        names = tuple(every)
        columns = [[item.get(name) for item in properties] for name in names]
    for column in columns:
        if not {list, dict}.isdisjoint(map(type, column)):
            column[:] = [orjson.dumps(v).decode() if isinstance(v, list | dict) else v for v in column]
    return names, columns
