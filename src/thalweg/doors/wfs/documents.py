"""What stands around features in an answer: collections of each GML version, and of GeoJSON."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import quote

import orjson

from thalweg.domain.features import Layer
from thalweg.doors.http import Response
from thalweg.doors.wfs.context import Context
from thalweg.encode.crs import Gml
from thalweg.encode.xmltext import attribute

_XSI: Final = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
_DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
_VERSION: Final = {Gml.V2: "1.0.0", Gml.V31: "1.1.0", Gml.V32: "2.0.0"}
_SCHEMA: Final = {
    Gml.V2: "http://www.opengis.net/wfs http://schemas.opengis.net/wfs/1.0.0/WFS-basic.xsd",
    Gml.V31: "http://www.opengis.net/wfs http://schemas.opengis.net/wfs/1.1.0/wfs.xsd",
    Gml.V32: (
        "http://www.opengis.net/wfs/2.0 http://schemas.opengis.net/wfs/2.0/wfs.xsd "
        "http://www.opengis.net/gml/3.2 http://schemas.opengis.net/gml/3.2.1/gml.xsd"
    ),
}
_NAMESPACES: Final = {
    Gml.V2: 'xmlns:wfs="http://www.opengis.net/wfs" xmlns:gml="http://www.opengis.net/gml"',
    Gml.V31: 'xmlns:wfs="http://www.opengis.net/wfs" xmlns:gml="http://www.opengis.net/gml"',
    Gml.V32: 'xmlns:wfs="http://www.opengis.net/wfs/2.0" xmlns:gml="http://www.opengis.net/gml/3.2"',
}
TAIL: Final = b"</wfs:FeatureCollection>\n"


@dataclass(frozen=True, slots=True)
class Numbers:
    """What a collection says of itself.

    matched   None: unknown
    next_url, previous_url   empty: none
    lock_id   empty: none
    """

    matched: int | None
    returned: int
    next_url: str = ""
    previous_url: str = ""
    lock_id: str = ""


MOMENT: Final = "\0"
"""Stands in documents being made where the time of the answer goes; no document may hold that character."""


def time_stamp() -> str:
    """Now, as documents write it."""
    milliseconds = time.time_ns() // 1_000_000
    return f"{_second(milliseconds // 1000)}.{milliseconds % 1000:03d}Z"


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """An answer of which all is there but its time.

    pieces  one after the other, MOMENT in any of the small ones
    """

    pieces: tuple[bytes, ...]
    content_type: str

    @staticmethod
    def of(pieces: Iterable[bytes], content_type: str) -> Document:
        """Small pieces that are neighbours as one."""
        found: list[bytes] = []
        for piece in pieces:
            if found and len(piece) + len(found[-1]) <= _SMALL_BYTES:
                found[-1] += piece
            elif piece:
                found.append(piece)
        return Document(tuple(found), content_type)

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces))

    def response(self) -> Response:
        """It as of now. Large pieces are sent as they lie, without being copied."""
        pieces = [dated(piece) if len(piece) <= _SMALL_BYTES else piece for piece in self.pieces]
        return Response(pieces[0] if len(pieces) == 1 else pieces, self.content_type)


def dated(text: bytes) -> bytes:
    """A part of a document with the time of now."""
    return text.replace(_MOMENT, time_stamp().encode()) if _MOMENT in text else text


_MOMENT: Final = MOMENT.encode()
_SMALL_BYTES: Final = 16 * 1024
"""Pieces are joined up to this size, which costs less than to send two."""


def namespaces(context: Context, gml: Gml, layers: Sequence[Layer]) -> str:
    """Bindings of all prefixes that fragments use, and where their schemas are."""
    names = tuple(dict.fromkeys(layer.name for layer in layers))
    return _namespaces(context.prefix, context.uri, context.base_url, gml, names)


@lru_cache(maxsize=1024)
def _namespaces(prefix: str, uri: str, base_url: str, gml: Gml, names: tuple[str, ...]) -> str:
    location = _SCHEMA[gml]
    if names:
        types = quote(",".join(f"{prefix}:{name}" for name in names), safe=",:")
        parameter = "typeNames" if gml is Gml.V32 else "typeName"
        url = f"{base_url}?service=WFS&version={_VERSION[gml]}&request=DescribeFeatureType&{parameter}={types}"
        location = f"{quote(uri, safe=':/?#&=%~@!$+;*')} {url} {location}"
    return f'{_NAMESPACES[gml]} xmlns:{prefix}="{attribute(uri)}" {_XSI} xsi:schemaLocation="{attribute(location)}"'


def head_20(bindings: str, numbers: Numbers, moment: str = "") -> bytes:
    """Opening of a wfs:FeatureCollection of 2.0.

    moment  the time as written, here and below; empty: now
    """
    return f"{_DECLARATION}<wfs:FeatureCollection {bindings}{attributes_20(numbers, moment)}>".encode()


def attributes_20(numbers: Numbers, moment: str = "") -> str:
    """Response parameters of OGC 09-025r2 clause 7.7.4, with a blank before."""
    matched = "unknown" if numbers.matched is None else str(numbers.matched)
    text = f' timeStamp="{moment or time_stamp()}" numberMatched="{matched}" numberReturned="{numbers.returned}"'
    if numbers.next_url:
        text += f' next="{attribute(numbers.next_url)}"'
    if numbers.previous_url:
        text += f' previous="{attribute(numbers.previous_url)}"'
    if numbers.lock_id:
        text += f' lockId="{attribute(numbers.lock_id)}"'
    return text


def inner_20(numbers: Numbers, moment: str = "") -> bytes:
    """Opening of the collection of one query of several."""
    return f"<wfs:member><wfs:FeatureCollection{attributes_20(numbers, moment)}>".encode()


INNER_TAIL: Final = b"</wfs:FeatureCollection></wfs:member>"


def head_11(bindings: str, number: int, lock_id: str = "", moment: str = "") -> bytes:
    """Opening of a collection of 1.1.0. ``number`` matched for hits, else in this answer."""
    lock = f' lockId="{attribute(lock_id)}"' if lock_id else ""
    return (
        f'{_DECLARATION}<wfs:FeatureCollection {bindings}{lock} timeStamp="{moment or time_stamp()}" '
        f'numberOfFeatures="{number}">'
    ).encode()


def head_10(bindings: str, lock_id: str = "") -> bytes:
    """Opening of a collection of 1.0.0, which must have a boundedBy."""
    lock = f' lockId="{attribute(lock_id)}"' if lock_id else ""
    return (
        f"{_DECLARATION}<wfs:FeatureCollection {bindings}{lock}>"
        "<gml:boundedBy><gml:null>unknown</gml:null></gml:boundedBy>"
    ).encode()


JSON_HEAD: Final = b'{"type":"FeatureCollection","features":['


def json_tail(numbers: Numbers, srid: int | None, moment: str = "") -> bytes:
    """What follows the features: counts, links to other pages, and the CRS, whose order in GeoJSON is x y.

    srid  None: there is no geometry
    """
    matched = "unknown" if numbers.matched is None else numbers.matched
    links = [
        {"title": f"{rel} page", "type": "application/json", "rel": name, "href": url}
        for rel, name, url in (
            ("next", "next", numbers.next_url),
            ("previous", "prev", numbers.previous_url),
        )
        if url
    ]
    tail = {
        "totalFeatures": matched,
        "numberMatched": matched,
        "numberReturned": numbers.returned,
    }
    parts = [orjson.dumps(tail)[1:-1], f'"timeStamp":"{moment or time_stamp()}"'.encode()]
    if links:
        parts.append(b'"links":' + orjson.dumps(links))
    if numbers.lock_id:
        parts.append(b'"lockId":' + orjson.dumps(numbers.lock_id))
    name = "null" if srid is None else f'{{"type":"name","properties":{{"name":"urn:ogc:def:crs:EPSG::{srid}"}}}}'
    return b"]," + b",".join(parts) + b',"crs":' + name.encode() + b"}"
