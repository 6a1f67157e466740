"""istSOS' JSON form of observations: ObservationCollection, values as arrays.

One member per track that has rows. Counts and periods stand after the values they tell of, so that answers of any
length are streamed in one pass. Where a track turns from instants to intervals or gets result times on the way, a
member with more fields begins.

source  istSOS 2, responseFormat application/json and text/x-json; RFC 8259
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

from thalweg.domain.time import format_instant
from thalweg.encode.form import JSON, json_string
from thalweg.encode.gml import gml31
from thalweg.encode.member import Member, Memory, Shape, begin_us, duration, shaped, whole_or_blocks
from thalweg.encode.record import Field, fields
from thalweg.encode.table import rows

__all__ = ["Member", "collection"]

_FIRST_ROW: Final = len(b"],")
"""What a first row's separator begins with in vain."""


def collection(
    members: Iterable[Member], *, name: str, description: str, offset_s: int, with_quality: bool
) -> bytes | Iterator[bytes]:
    """The document; a long one in pieces, of which the first is read already, so that a failure to read can still be
    told as such.

    name, description  of the collection: the offering's
    offset_s           zone of all times, seconds east of UTC
    with_quality       a quality index after each value
    """
    return whole_or_blocks(_pieces(members, name, description, offset_s, with_quality))


def _pieces(
    members: Iterable[Member], name: str, description: str, offset_s: int, with_quality: bool
) -> Iterator[bytes]:
    yield _head(name, description)
    first = 1
    for member in members:
        for piece in _member(member, offset_s, with_quality):
            yield piece[first:]  # the first member needs no comma before it
            first = 0
    yield b"]}}"


@lru_cache(maxsize=256)
def _head(name: str, description: str) -> bytes:
    return b'{"ObservationCollection":{%s,"member":[' % _pairs({"description": description, "name": name})


def _member(member: Member, offset_s: int, with_quality: bool) -> Iterator[bytes]:
    """The members of one track, a comma before each."""
    selected = member.selected
    count = begin = end = 0
    for shape, block, is_new in shaped(selected.procedure, selected.blocks):
        text = rows(
            block,
            [block.columns[series.property_id] for series in selected.series],
            JSON,
            offset_s=offset_s,
            times=shape.times,
            position=shape.position,
            with_quality=with_quality,
        )
        if is_new:
            if count:
                yield _end(count, begin, end, offset_s)
            yield _begins.get(member, shape, with_quality) or _begins.put(
                _begin(member, shape, fields(selected, shape, with_quality)), member, shape, with_quality
            )
            text = text[_FIRST_ROW:]
            count, begin = 0, begin_us(block)
        yield text
        count += len(block)
        begin = min(begin, begin_us(block))
        end = block.end.item(-1)
    if count:
        yield _end(count, begin, end, offset_s)


_begins: Final = Memory[bytes](4096)


def _begin(member: Member, shape: Shape, found: list[Field]) -> bytes:
    selected = member.selected
    feature: dict[str, Any] = {"name": selected.feature.identifier}
    if member.geometry is not None:
        # GML with single quotes, as istSOS has it.
        text = gml31(member.geometry, member.srs_name, member.northing_first)
        feature["geom"] = text.replace("'", "&apos;").replace('"', "'")
    shown = "".join(letter for letter, present in zip("brp", shape, strict=True) if present)
    phenomenon = {
        "id": f"comp_{selected.track.id}{shown}",
        "dimension": str(len(found)),
        "name": "timeSeriesOfObservations",
    }
    columns = [{"name": f.name, "definition": f.definition, **({"uom": f.unit} if f.unit else {})} for f in found]
    parts = {
        "name": selected.procedure.name,
        "procedure": selected.procedure.identifier,
        "observedProperty": {"CompositePhenomenon": phenomenon, "component": [f.definition for f in found]},
        "featureOfInterest": feature,
    }
    return b',{%s,"result":{"DataArray":{"field":%s,"values":[' % (_pairs(parts), _json(columns).encode())


def _end(count: int, begin: int, end: int, offset_s: int) -> bytes:
    return b']],"elementCount":"%d"}},"samplingTime":{"beginPosition":"%s","endPosition":"%s","duration":"%s"}}' % (
        count,
        format_instant(begin, offset_s).encode(),
        format_instant(end, offset_s).encode(),
        duration(end - begin),
    )


def _pairs(parts: dict[str, Any]) -> bytes:
    """The inside of an object."""
    return _json(parts)[1:-1].encode()


def _json(value: Any) -> str:
    if isinstance(value, str):
        return json_string(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_string(key)}:{_json(item)}" for key, item in value.items()) + "}"
    return "[" + ",".join(_json(item) for item in value) + "]"
