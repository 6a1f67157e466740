"""Features as GML and GeoJSON, whole batches at a time: the bytes that are stored, and those written per request.

A fragment is a feature with its member element (GML) or with a comma behind it (GeoJSON), compact: no white space, no
boundedBy, missing values left out in GML and ``null`` in GeoJSON. In content of elements ``"`` is escaped, too, so that
``srsName="…"`` and tags can be replaced in finished bytes: what looks like one is one.

Fields are written column by column: all values of a field as one text, with the tags put in between by replacing the
separators, which no stored text can hold (U+001E, U+001F).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final

import numpy as np
import orjson

from thalweg.domain.features import EncodedFeatures, Features, Field, FieldKind, FragmentForm, Layer, Value
from thalweg.encode.feature_geometry import GeometryBatch
from thalweg.encode.feature_output import FeatureFormat, Output
from thalweg.encode.xmltext import attribute

FORMAT_VERSION: Final = 1
"""Of the bytes that are stored: to be raised whenever they change."""

_NEXT: Final = "\x1f"
_NULL: Final = "\x1e"
_ESCAPES: Final = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("\r", "&#13;"))
_DAY_US: Final = 86_400_000_000


def encode(layer: Layer, features: Features, output: Output) -> EncodedFeatures:
    """A batch in one form.

    features  all in the CRS of ``output``; x y order
    """
    return _joined(_texts(layer, features, output, _geometries(layer, features, output)))


def encode_forms(layer: Layer, outputs: Sequence[tuple[FragmentForm, Output, Features]]) -> dict[
    FragmentForm, EncodedFeatures
]:  # fmt: skip
    """A batch in several forms; what they have in common is done once.

    outputs  each with the features in its CRS; the same object where it is the same CRS
    """
    taken_apart: dict[int, GeometryBatch | None] = {}
    columns: dict[tuple[bool, str], list[bytes]] = {}
    result: dict[FragmentForm, EncodedFeatures] = {}
    for form, output, features in outputs:
        if id(features) not in taken_apart:
            taken_apart[id(features)] = _geometries(layer, features, output)
        result[form] = _joined(_texts(layer, features, output, taken_apart[id(features)], columns))
    return result


def feature_texts(layer: Layer, features: Features, output: Output) -> list[bytes]:
    """As ``encode``, a text for each feature."""
    return _texts(layer, features, output, _geometries(layer, features, output))


def _joined(texts: list[bytes]) -> EncodedFeatures:
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    return EncodedFeatures(b"".join(texts), ends, texts)


def _geometries(layer: Layer, features: Features, output: Output) -> GeometryBatch | None:
    if not (layer.has_geometry and output.geometry and features.geometries):
        return None
    return GeometryBatch.of(features.geometries, layer.dimensions, layer.geometry_kind)


def _texts(
    layer: Layer,
    features: Features,
    output: Output,
    geometries: GeometryBatch | None,
    columns: dict[tuple[bool, str], list[bytes]] | None = None,
) -> list[bytes]:
    if not len(features):
        return []
    columns = {} if columns is None else columns
    fields = [field for field in layer.fields if output.fields is None or field.name in output.fields]
    write = _geojson if output.format is FeatureFormat.GEOJSON else _gml
    json = output.format is FeatureFormat.GEOJSON
    written: list[list[bytes]] = []
    for field in fields:
        key = (json, field.name)
        column = columns.get(key)
        if column is None:
            values = features.columns.get(field.name)
            column = columns[key] = _column(
                field, [None] * len(features) if values is None else values, None if json else output.prefix
            )
        written.append(column)
    return write(layer, features, output, geometries, written)


def _gml(
    layer: Layer, features: Features, output: Output, geometries: GeometryBatch | None, columns: list[list[bytes]]
) -> list[bytes]:
    name = f"{output.prefix}:{layer.name}".encode()
    member = output.member.encode()
    before = (b"<" + member + b">" if member else b"") + b"<" + name
    after = b"</" + name + b">" + (b"</" + member + b">" if member else b"")
    ids = [b"%b.%d" % (layer.id_prefix.encode(), number) for number in features.ids.tolist()]
    label = b' fid="' if output.format is FeatureFormat.GML2 else b' gml:id="'
    parts: list[Any] = [[before + label + feature_id + b'">' for feature_id in ids]]
    if geometries is not None:
        parts.append(_gml_geometries(layer, output, geometries, ids))
    parts += columns
    parts.append(repeat(after, len(ids)))
    join = b"".join
    return [join(row) for row in zip(*parts, strict=True)]


def _gml_geometries(layer: Layer, output: Output, geometries: GeometryBatch, ids: list[bytes]) -> list[bytes]:
    srs_name = attribute(output.srs_name).encode()
    property_name = layer.geometry_field.encode()
    if output.format is FeatureFormat.GML2:
        texts = geometries.gml2(srs_name, swapped=output.swapped)
    else:
        suffix = b"." + property_name
        texts = geometries.gml3(srs_name, [feature_id + suffix for feature_id in ids], swapped=output.swapped)
    tag = output.prefix.encode() + b":" + property_name
    opening, closing = b"<" + tag + b">", b"</" + tag + b">"
    return [opening + text + closing if text else b"" for text in texts]


def _geojson(
    layer: Layer, features: Features, output: Output, geometries: GeometryBatch | None, columns: list[list[bytes]]
) -> list[bytes]:
    n = len(features)
    prefix = b'{"type":"Feature","id":"' + orjson.dumps(layer.id_prefix)[1:-1]
    heads = [b'%b.%d","geometry":' % (prefix, number) for number in features.ids.tolist()]
    shapes = [b"null"] * n if geometries is None else geometries.geojson(swapped=output.swapped)
    name = b""
    if layer.has_geometry and output.geometry:
        name = b',"geometry_name":' + orjson.dumps(layer.geometry_field)
    parts: list[Any] = [heads, shapes, repeat(name + b',"properties":{', n)]
    for number, column in enumerate(columns):
        if number:
            parts.append(repeat(b",", n))
        parts.append(column)
    parts.append(repeat(b"}},", n))
    join = b"".join
    return [join(row) for row in zip(*parts, strict=True)]


# ---------------------------------------------------------------- columns


def _column(field: Field, values: Sequence[Value], prefix: str | None) -> list[bytes]:
    """All values of a field, each between its tags or, without a prefix, behind its name in JSON."""
    return _json_column(field, values) if prefix is None else _xml_column(field, values, prefix)


def _xml_column(field: Field, values: Sequence[Value], prefix: str) -> list[bytes]:
    tag = f"{prefix}:{field.name}".encode()
    opening, closing = b"<" + tag + b">", b"</" + tag + b">"
    text = _plain_texts(field.kind, values, _escaped)
    text = opening + text.replace(b"\x1f", closing + b"\x1f" + opening) + closing
    return text.replace(opening + b"\x1e" + closing, b"").split(b"\x1f")


def _escaped(text: str) -> bytes:
    for letter, entity in _ESCAPES:
        if letter in text:
            text = text.replace(letter, entity)
    return text.encode()


def _plain_texts(kind: FieldKind, values: Sequence[Value], escape: Callable[[str], bytes]) -> bytes:
    """All values as one text, U+001F between them, U+001E for a missing one."""
    if kind is FieldKind.TEXT:
        return escape(_NEXT.join([_NULL if value is None else value for value in values]))  # type: ignore[misc]
    if kind in _TIMES:
        return _NEXT.join(_TIMES[kind](values)).encode()
    text = orjson.dumps(list(values))[1:-1]
    if kind is FieldKind.NUMBER:
        text = text.replace(b".0,", b",")
        if text.endswith(b".0"):
            text = text[:-2]
    return text.replace(b",", b"\x1f").replace(b"null", b"\x1e")


def _json_column(field: Field, values: Sequence[Value]) -> list[bytes]:
    name = orjson.dumps(field.name) + b":"
    kind = field.kind
    if kind is FieldKind.TEXT:
        # Separators come out as \u001f; where a text itself has backslashes before such letters, one by one.
        text = orjson.dumps(_NEXT.join([_NULL if value is None else value for value in values]))  # type: ignore[misc]
        if b"\\\\u001" in text:
            return [name + orjson.dumps(value) for value in values]
        text = name + text.replace(b"\\u001f", b'"\x1f' + name + b'"')
        return text.replace(b'"\\u001e"', b"null").split(b"\x1f")
    text = _plain_texts(kind, values, str.encode)
    if kind in _TIMES:
        text = name + b'"' + text.replace(b"\x1f", b'"\x1f' + name + b'"') + b'"'
        return text.replace(b'"\x1e"', b"null").split(b"\x1f")
    return (name + text.replace(b"\x1f", b"\x1f" + name)).replace(b"\x1e", b"null").split(b"\x1f")


def _dates(values: Sequence[Value]) -> list[str]:
    days = np.array([0 if value is None else value for value in values], "datetime64[D]")
    return [_NULL if value is None else text for value, text in zip(values, _iso(days), strict=True)]


def _datetimes(values: Sequence[Value]) -> list[str]:
    instants = np.array([0 if value is None else value for value in values], "datetime64[us]")
    texts = _iso(instants)
    # Fractions in their shortest form.
    texts = [text[:-7] if text.endswith(".000000") else text.rstrip("0") for text in texts]
    return [_NULL if value is None else text + "Z" for value, text in zip(values, texts, strict=True)]


def _iso(array: Any) -> list[str]:
    texts: list[str] = np.datetime_as_string(array).tolist()
    return texts


_TIMES: Final[Mapping[FieldKind, Callable[[Sequence[Value]], list[str]]]] = {
    FieldKind.DATE: _dates,
    FieldKind.DATETIME: _datetimes,
}
