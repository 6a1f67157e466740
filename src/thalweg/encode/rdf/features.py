"""Versions of features as members of an event stream.

Sources: GeoSPARQL 1.1 (OGC 22-047r1: geo:Feature, geo:hasGeometry, geo:asWKT with the CRS before the text, in the axis
order of its authority; without one CRS84), OGC 06-103r4 (well-known text), PROV-O.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

import orjson

from thalweg.domain.features import Field, FieldKind, Layer, Value
from thalweg.domain.geometry import WGS84
from thalweg.domain.published_layers import FeatureVersion
from thalweg.domain.streams import StoredMember
from thalweg.domain.time import DAY_US, END_US, format_instant
from thalweg.encode.crs import northing_first
from thalweg.encode.numbers import format_number

_RDF: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_XSD: Final = "http://www.w3.org/2001/XMLSchema#"
_GEO: Final = "http://www.opengis.net/ont/geosparql#"
_PROV: Final = "http://www.w3.org/ns/prov#"
_CRS: Final = "http://www.opengis.net/def/crs/EPSG/0/"
_ESCAPED: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def terms_of(layer: Layer, created_us: int, start: int) -> str:
    """What members of a layer are written with: a JSON document, the same for the same names.

    created_us  when the stream was made, which stands for the time of the versions that were there
    start       number of the newest change then
    """
    swapped = layer.srid != WGS84 and northing_first(layer.srid)
    document = {
        "uuid": layer.uuid,
        "prefix": layer.id_prefix,
        "srid": layer.srid,
        "swapped": swapped,
        "created": created_us,
        "start": start,
        "fields": [[field.number, field.name, field.kind.value] for field in layer.fields],
    }
    return orjson.dumps(document).decode()


def fields_of(terms: str) -> list[Field]:
    """The fields that members are written with."""
    return [Field(name, FieldKind(kind), number=number) for number, name, kind in orjson.loads(terms)["fields"]]


def generated_us(version: FeatureVersion, created_us: int, start: int) -> int:
    """When a version was made: changes of one transaction have one time, so each counts a microsecond on."""
    if not version.sequence:
        return created_us
    return min(max(version.at_us, created_us) + version.sequence - start, END_US - 1)


def times_of(terms: str, versions: Sequence[FeatureVersion]) -> tuple[int, int]:
    """The least and greatest time of some versions; zeros of none."""
    names = orjson.loads(terms)
    times = [generated_us(version, names["created"], names["start"]) for version in versions]
    return (min(times), max(times)) if times else (0, 0)


def feature_members(terms: str, versions: Sequence[FeatureVersion]) -> list[StoredMember]:
    """Members in the order of the versions."""
    names = orjson.loads(terms)
    base = f"urn:uuid:{names['uuid']}#"
    crs = "" if names["srid"] == WGS84 else f"<{_CRS}{names['srid']}> "
    fields = [(name, f"<{base}field/{quote(name, safe='')}>", FieldKind(kind)) for _, name, kind in names["fields"]]
    members: list[StoredMember] = []
    for version in versions:
        identifier = quote(f"{names['prefix']}.{version.number}", safe=".")
        version_of = f"{base}feature/{identifier}"
        iri = f"{version_of}/{version.version}"
        subject = f"<{iri}>"
        at_us = generated_us(version, names["created"], names["start"])
        time = format_instant(at_us)
        moment = f'"{time}"^^<{_XSD}dateTime>'
        lines = [
            f"{subject} <{_RDF}type> <{_GEO}Feature> .\n",
            f"{subject} <http://purl.org/dc/terms/isVersionOf> <{version_of}> .\n",
            f"{subject} <{_PROV}generatedAtTime> {moment} .\n",
        ]
        feature = version.feature
        if feature is None:
            lines.append(f"{subject} <{_PROV}invalidatedAtTime> {moment} .\n")
        else:
            for name, predicate, kind in fields:
                value = feature.columns[name][0] if name in feature.columns else None
                if value is not None:
                    lines.append(f"{subject} {predicate} {literal(kind, value)} .\n")
            wkb = feature.geometries[0] if feature.geometries else None
            if wkb is not None:
                label = f"_:g{version.number}.{version.version}"
                lines.append(f"{subject} <{_GEO}hasGeometry> {label} .\n")
                lines.append(f"{label} <{_RDF}type> <{_GEO}Geometry> .\n")
                text = crs + wkt_of(wkb, swapped=names["swapped"])
                lines.append(f'{label} <{_GEO}asWKT> "{text}"^^<{_GEO}wktLiteral> .\n')
        text_bytes = "".join(lines).encode("utf-8", "surrogatepass")
        members.append(StoredMember(len(members) + 1, iri, version_of, text_bytes, time, at_us))
    return members


def literal(kind: FieldKind, value: Value) -> str:
    """A value as an N-Triples literal."""
    match kind:
        case FieldKind.NUMBER:
            return f'"{format_number(float(value or 0))}"^^<{_XSD}double>'
        case FieldKind.INTEGER:
            return f'"{value}"^^<{_XSD}integer>'
        case FieldKind.BOOLEAN:
            return f'"{"true" if value else "false"}"^^<{_XSD}boolean>'
        case FieldKind.DATE:
            return f'"{format_instant(int(value or 0) * DAY_US)[:10]}"^^<{_XSD}date>'
        case FieldKind.DATETIME:
            return f'"{format_instant(int(value or 0))}"^^<{_XSD}dateTime>'
    return f'"{str(value).translate(_ESCAPED)}"'


# ---------------------------------------------------------------- well-known text

_HEAD: Final = struct.Struct("<BI")
_COUNT: Final = struct.Struct("<I")
_NAMES: Final = {
    1: "POINT", 2: "LINESTRING", 3: "POLYGON", 4: "MULTIPOINT", 5: "MULTILINESTRING", 6: "MULTIPOLYGON",
    7: "GEOMETRYCOLLECTION",
}  # fmt: skip


def wkt_of(wkb: bytes, *, swapped: bool = False) -> str:
    """Well-known text of a stored geometry (ISO WKB, little-endian, checked when it was stored), numbers in the
    shortest form that reads back the same.

    swapped  y before x
    """
    return _geometry(wkb, 0, swapped)[0]


def _geometry(wkb: bytes, at: int, swapped: bool) -> tuple[str, int]:
    _, code = _HEAD.unpack_from(wkb, at)
    text, at = _body(wkb, at + _HEAD.size, code % 1000, code // 1000 + 2, swapped)
    return f"{_NAMES[code % 1000]}{' Z' if code >= 1000 else ''} {text}", at


def _body(wkb: bytes, at: int, kind: int, dimensions: int, swapped: bool) -> tuple[str, int]:
    if kind == 1:
        text, at = _positions(wkb, at, 1, dimensions, swapped)
        return f"({text})", at
    (count,) = _COUNT.unpack_from(wkb, at)
    at += _COUNT.size
    if kind == 2:
        text, at = _positions(wkb, at, count, dimensions, swapped)
        return f"({text})", at
    parts: list[str] = []
    for _ in range(count):
        if kind == 3:
            part, at = _body(wkb, at, 2, dimensions, swapped)
        elif kind == 7:
            part, at = _geometry(wkb, at, swapped)
        else:
            part, at = _body(wkb, at + _HEAD.size, kind - 3, dimensions, swapped)
        parts.append(part)
    return f"({', '.join(parts)})", at


def _positions(wkb: bytes, at: int, count: int, dimensions: int, swapped: bool) -> tuple[str, int]:
    numbers = struct.unpack_from(f"<{count * dimensions}d", wkb, at)
    texts = [format_number(number) for number in numbers]
    positions = [texts[i : i + dimensions] for i in range(0, len(texts), dimensions)]
    if swapped:
        positions = [[second, first, *rest] for first, second, *rest in positions]
    return ", ".join(map(" ".join, positions)), at + 8 * count * dimensions
