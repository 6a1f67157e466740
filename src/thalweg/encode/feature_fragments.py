"""Features as GML and GeoJSON, whole batches at a time: the bytes that are stored, and those written per request.

A fragment is a feature with its member element (GML) or with a comma behind it (GeoJSON), compact: no white space, no
boundedBy, missing values left out in GML and ``null`` in GeoJSON. The properties that GML has for every feature stand
before the others in GML and behind them in GeoJSON, where they are left out, too, if they are missing. In content of
elements ``"`` is escaped, too, so that ``srsName="…"`` and tags can be replaced in finished bytes: what looks like one
is one.

Fields are written column by column: all values of a field as one text, with the tags put in between by replacing the
separators, which no stored text can hold (U+001E, U+001F).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Final

import numpy as np
import orjson

from thalweg.domain.features import (
    GML_CODE_SPACE,
    GML_FIELDS,
    GML_IDENTIFIER,
    EncodedFeatures,
    Features,
    Field,
    FieldKind,
    FragmentForm,
    Layer,
    Value,
)
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
    shared = _Shared()
    result: dict[FragmentForm, EncodedFeatures] = {}
    for form, output, features in outputs:
        if id(features) not in taken_apart:
            taken_apart[id(features)] = _geometries(layer, features, output)
        result[form] = _joined(_texts(layer, features, output, taken_apart[id(features)], shared))
    return result


def _joined(texts: list[bytes]) -> EncodedFeatures:
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    return EncodedFeatures(b"".join(texts), ends, texts)


def _geometries(layer: Layer, features: Features, output: Output) -> GeometryBatch | None:
    if not (layer.has_geometry and output.geometry and features.geometries):
        return None
    return GeometryBatch.of(features.geometries, layer.dimensions, layer.geometry_kind)


@dataclass(slots=True)
class _Shared:
    """What the forms of a batch have in common, made by the first that needs it.

    ids      of the features, ``roads.17``
    columns  by whether it is JSON, and the field's name
    rows     all fields of each feature in GML, by the prefix
    heads    what GML has for every feature, see ``_heads``, by whether it is GML 3.2
    """

    ids: list[bytes] | None = None
    columns: dict[tuple[bool, str], list[bytes]] = field(default_factory=dict)
    rows: dict[str, list[bytes]] = field(default_factory=dict)
    heads: dict[bool, list[bytes]] = field(default_factory=dict)


def _texts(
    layer: Layer,
    features: Features,
    output: Output,
    geometries: GeometryBatch | None,
    shared: _Shared | None = None,
) -> list[bytes]:
    if not len(features):
        return []
    shared = shared or _Shared()
    fields: list[Field] = []
    standard: set[str] = set()
    for item in layer.fields:
        if output.fields is None or item.name in output.fields:
            if item.of_gml:
                standard.add(item.name)
            else:
                fields.append(item)
    if shared.ids is None:
        prefix = layer.id_prefix.encode() + b"."
        shared.ids = [prefix + text for text in str(features.ids.tolist())[1:-1].encode().split(b", ")]
    json = output.format is FeatureFormat.GEOJSON
    columns: list[list[bytes]] = []
    if json or output.fields is not None or output.prefix not in shared.rows:
        for field in fields:
            key = (json, field.name)
            column = shared.columns.get(key)
            if column is None:
                values = features.columns.get(field.name)
                column = shared.columns[key] = _column(
                    field, [None] * len(features) if values is None else values, None if json else output.prefix
                )
            columns.append(column)
    if json:
        more = _extra(features, standard, empty=not columns) if standard else None
        return _geojson(layer, output, geometries, shared.ids, columns, more)
    rows = shared.rows.get(output.prefix) if output.fields is None else None
    if rows is None:
        rows = list(map(b"".join, zip(*columns, strict=True))) if columns else [b""] * len(features)
        if output.fields is None:
            shared.rows[output.prefix] = rows
    heads: list[bytes] | None = None
    if standard:
        newest = output.format is FeatureFormat.GML32
        heads = shared.heads.get(newest) if output.fields is None else None
        if heads is None:
            heads = _heads(features, standard, identifier=newest)
            if output.fields is None:
                shared.heads[newest] = heads
    return _gml(layer, output, geometries, shared.ids, rows, heads)


def _heads(features: Features, names: set[str], *, identifier: bool) -> list[bytes]:
    """Of each feature the properties that GML has for all, in the order of OGC 07-036 annex C (gmlBase.xsd)."""
    parts: list[list[bytes]] = []
    for name, item in GML_FIELDS.items():
        values = features.columns.get(name) if name in names else None
        if values is None or name == GML_CODE_SPACE:
            continue
        if name != GML_IDENTIFIER:
            parts.append(_tagged(item, values, name))
        elif identifier:
            spaces = features.columns.get(GML_CODE_SPACE) or [None] * len(features)
            parts.append(list(map(_identifier, values, spaces)))
    return list(map(b"".join, zip(*parts, strict=True))) if parts else [b""] * len(features)


def _identifier(value: Value, space: Value) -> bytes:
    """A code space has to be said; an empty one says that it is not known."""
    if value is None:
        return b""
    said = attribute(str(space or "")).encode()
    return b'<gml:identifier codeSpace="' + said + b'">' + _escaped(str(value)) + b"</gml:identifier>"


def _extra(features: Features, names: set[str], *, empty: bool) -> list[bytes] | None:
    """The same as members of a JSON object, with a comma before each but the first of an object that is else empty."""
    found = [(name, features.columns[name]) for name in GML_FIELDS if name in names and name in features.columns]
    texts: list[bytes] = []
    for row in range(len(features)):
        text = b"".join(
            b"," + orjson.dumps(name) + b":" + orjson.dumps(values[row])
            for name, values in found
            if values[row] is not None
        )
        texts.append(text[1:] if empty else text)
    return texts if any(texts) else None


def _gml(
    layer: Layer,
    output: Output,
    geometries: GeometryBatch | None,
    ids: list[bytes],
    rows: list[bytes],
    heads: list[bytes] | None,
) -> list[bytes]:
    """rows  the layer's fields of each feature; heads: what GML has for all, before the geometry"""
    name = f"{output.prefix}:{layer.name}".encode()
    member = output.member.encode()
    before = (b"<" + member + b">" if member else b"") + b"<" + name
    after = b"</" + name + b">" + (b"</" + member + b">" if member else b"")
    before += b' fid="' if output.format is FeatureFormat.GML2 else b' gml:id="'
    join = b"".join
    starts, opened = ids, b'">'
    if heads is not None:
        starts, opened = [feature_id + b'">' + head for feature_id, head in zip(ids, heads, strict=True)], b""
    if geometries is None:
        return [join((before, start, opened, row, after)) for start, row in zip(starts, rows, strict=True)]
    tag = output.prefix.encode() + b":" + layer.geometry_field.encode()
    opening, closing = opened + b"<" + tag + b">", b"</" + tag + b">"
    texts = _gml_geometries(layer, output, geometries, ids)
    return [
        join((before, start, opening, text, closing, row, after)) if text else join((before, start, opened, row, after))
        for start, text, row in zip(starts, texts, rows, strict=True)
    ]


def _gml_geometries(layer: Layer, output: Output, geometries: GeometryBatch, ids: list[bytes]) -> list[bytes]:
    srs_name = attribute(output.srs_name).encode()
    property_name = layer.geometry_field.encode()
    if output.format is FeatureFormat.GML2:
        texts = geometries.gml2(srs_name, swapped=output.swapped)
    else:
        suffix = b"." + property_name
        texts = geometries.gml3(srs_name, [feature_id + suffix for feature_id in ids], swapped=output.swapped)
    return texts


def _geojson(
    layer: Layer,
    output: Output,
    geometries: GeometryBatch | None,
    ids: list[bytes],
    columns: list[list[bytes]],
    more: list[bytes] | None,
) -> list[bytes]:
    """more  what stands behind the columns"""
    n = len(ids)
    heads = repeat(b'{"type":"Feature","id":"', n)
    plain = layer.id_prefix.encode()
    escaped = orjson.dumps(layer.id_prefix)[1:-1]
    if escaped != plain:
        ids = [escaped + feature_id[len(plain) :] for feature_id in ids]
    shapes = [b"null"] * n if geometries is None else geometries.geojson(swapped=output.swapped)
    name = b""
    if layer.has_geometry and output.geometry:
        name = b',"geometry_name":' + orjson.dumps(layer.geometry_field)
    parts: list[Any] = [heads, ids, repeat(b'","geometry":', n), shapes, repeat(name + b',"properties":{', n)]
    for number, column in enumerate(columns):
        if number:
            parts.append(repeat(b",", n))
        parts.append(column)
    if more is not None:
        parts.append(more)
    parts.append(repeat(b"}},", n))
    join = b"".join
    return [join(row) for row in zip(*parts, strict=True)]


# ---------------------------------------------------------------- columns


def _column(field: Field, values: Sequence[Value], prefix: str | None) -> list[bytes]:
    """All values of a field, each between its tags or, without a prefix, behind its name in JSON."""
    return _json_column(field, values) if prefix is None else _xml_column(field, values, prefix)


def _xml_column(field: Field, values: Sequence[Value], prefix: str) -> list[bytes]:
    return _tagged(field, values, f"{prefix}:{field.name}")


def _tagged(field: Field, values: Sequence[Value], name: str) -> list[bytes]:
    tag = name.encode()
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
