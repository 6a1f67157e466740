"""A whole layer as a file: every format that features are written in, memory bounded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import orjson

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.features import ALL_FEATURES, FeatureQuery, Layer
from thalweg.domain.geometry import WGS84
from thalweg.encode.feature_formats import FILE_FORMATS, WriteOptions
from thalweg.encode.feature_output import FeatureFormat, Output
from thalweg.services.features import FeatureService

_GEOJSON: Final = "geojson"
_SEQUENCE: Final = "geojsonl"


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """A format of whole layers. ``endings`` of file names, the usual one first; ``fixed_srid``: its only CRS."""

    key: str
    endings: tuple[str, ...]
    fixed_srid: int | None = None


EXPORT_FORMATS: Final = {
    item.key: item
    for item in (
        ExportFormat(_GEOJSON, ("geojson", "json"), WGS84),
        ExportFormat(_SEQUENCE, ("geojsonl", "geojsons", "ndjson"), WGS84),
        *(ExportFormat(item.key, (item.extension,), item.fixed_srid) for item in FILE_FORMATS.values()),
    )
}


def format_of(file_name: str) -> ExportFormat | None:
    """The format that a file's name ends like."""
    ending = file_name.rpartition(".")[2].lower()
    return next((item for item in EXPORT_FORMATS.values() if ending in item.endings), None)


def export_layer(
    service: FeatureService,
    layer: Layer,
    key: str,
    *,
    srid: int | None = None,
    query: FeatureQuery = ALL_FEATURES,
    file_name: str = "",
) -> Iterator[bytes]:
    """The file, in blocks.

    key    of EXPORT_FORMATS
    srid   CRS of the coordinates; None: the layer's, or the only one of the format
    raises InvalidParameter (``format``, ``crs``), TooLarge for what the format cannot hold
    """
    wanted = EXPORT_FORMATS.get(key)
    if wanted is None:
        raise InvalidParameter("format", f"'{key[:40]}' is no format; formats are {', '.join(EXPORT_FORMATS)}.")
    if wanted.fixed_srid is not None and srid not in (None, wanted.fixed_srid):
        raise InvalidParameter("crs", f"{key} holds EPSG:{wanted.fixed_srid} alone.")
    if key == _GEOJSON:
        return _collection(service, layer, query)
    if key == _SEQUENCE:
        return _sequence(service, layer, query)
    srid = wanted.fixed_srid or srid or layer.srid
    options = WriteOptions(srid, fields=query.fields, geometry=query.geometry, file_name=file_name or layer.name)
    return FILE_FORMATS[key].write(layer, service.features(layer, query, srid=srid), options)


def _output(service: FeatureService, layer: Layer, query: FeatureQuery) -> Output:
    return Output.of(
        layer, FeatureFormat.GEOJSON, service.prefix(layer), fields=query.fields, geometry=query.geometry
    )  # fmt: skip


def _collection(service: FeatureService, layer: Layer, query: FeatureQuery) -> Iterator[bytes]:
    """A FeatureCollection (RFC 7946), a feature a run of bytes as they are stored."""
    yield b'{"type":"FeatureCollection","name":' + orjson.dumps(layer.name) + b',"features":[\n'
    before = b""
    for _, content in service.encoded(layer, _output(service, layer, query), query):
        # Each feature is followed by a comma; the last one's is held back.
        if content:
            yield before
            yield content[:-1]
            before = b",\n"
    yield b"\n]}\n"


def _sequence(service: FeatureService, layer: Layer, query: FeatureQuery) -> Iterator[bytes]:
    """A feature a line (newline-delimited GeoJSON)."""
    output = _output(service, layer, query)
    for features in service.features(layer, query, srid=WGS84):
        encoded = service.encode(layer, features, output)
        begin, lines = 0, []
        for end in encoded.ends.tolist():
            lines.append(encoded.content[begin : end - 1])
            begin = end
        yield b"\n".join(lines) + b"\n"
