"""What stands around features in an answer: collections of each GML version, and of GeoJSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final
from urllib.parse import quote

import orjson

from thalweg.domain.features import Layer
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


def time_stamp() -> str:
    """Now, as documents write it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


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


def head_20(bindings: str, numbers: Numbers) -> bytes:
    """Opening of a wfs:FeatureCollection of 2.0."""
    return f"{_DECLARATION}<wfs:FeatureCollection {bindings}{attributes_20(numbers)}>".encode()


def attributes_20(numbers: Numbers) -> str:
    """Response parameters of OGC 09-025r2 clause 7.7.4, with a blank before."""
    matched = "unknown" if numbers.matched is None else str(numbers.matched)
    text = f' timeStamp="{time_stamp()}" numberMatched="{matched}" numberReturned="{numbers.returned}"'
    if numbers.next_url:
        text += f' next="{attribute(numbers.next_url)}"'
    if numbers.previous_url:
        text += f' previous="{attribute(numbers.previous_url)}"'
    if numbers.lock_id:
        text += f' lockId="{attribute(numbers.lock_id)}"'
    return text


def inner_20(numbers: Numbers) -> bytes:
    """Opening of the collection of one query of several."""
    return f"<wfs:member><wfs:FeatureCollection{attributes_20(numbers)}>".encode()


INNER_TAIL: Final = b"</wfs:FeatureCollection></wfs:member>"


def head_11(bindings: str, number: int, lock_id: str = "") -> bytes:
    """Opening of a collection of 1.1.0. ``number`` matched for hits, else in this answer."""
    lock = f' lockId="{attribute(lock_id)}"' if lock_id else ""
    return (
        f'{_DECLARATION}<wfs:FeatureCollection {bindings}{lock} timeStamp="{time_stamp()}" numberOfFeatures="{number}">'
    ).encode()


def head_10(bindings: str, lock_id: str = "") -> bytes:
    """Opening of a collection of 1.0.0, which must have a boundedBy."""
    lock = f' lockId="{attribute(lock_id)}"' if lock_id else ""
    return (
        f"{_DECLARATION}<wfs:FeatureCollection {bindings}{lock}>"
        "<gml:boundedBy><gml:null>unknown</gml:null></gml:boundedBy>"
    ).encode()


JSON_HEAD: Final = b'{"type":"FeatureCollection","features":['


def json_tail(numbers: Numbers, srid: int | None) -> bytes:
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
        "timeStamp": time_stamp(),
    }
    parts = [orjson.dumps(tail)[1:-1]]
    if links:
        parts.append(b'"links":' + orjson.dumps(links))
    if numbers.lock_id:
        parts.append(b'"lockId":' + orjson.dumps(numbers.lock_id))
    name = "null" if srid is None else f'{{"type":"name","properties":{{"name":"urn:ogc:def:crs:EPSG::{srid}"}}}}'
    return b"]," + b",".join(parts) + b',"crs":' + name.encode() + b"}"
