"""Observations & Measurements 1.0 as SOS 1.0.0 answers it: om:ObservationCollection, values as SWE text.

One om:Observation per track that has rows, laid out as istSOS does; the sampling time is the period of the rows
given. An array's number of rows comes before them, so its text is gathered first, up to ``GATHERED_BYTES``; a longer
one is streamed with an empty count and, if ``Member.end_us`` does not tell it, an unknown end. Where a track turns
from instants to intervals or gets result times on the way, an observation with more fields begins.

source  OGC 07-022r1 (O&M 1.0), 06-009r6 (SOS 1.0), 07-000 (SWE Common 1.0.1), istSOS 2
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Final

from thalweg.domain.blocks import Block
from thalweg.domain.selection import Selected
from thalweg.domain.time import format_instant
from thalweg.encode.gml import gml31
from thalweg.encode.member import Member, Memory, Shape, begin_us, duration, shaped, whole_or_blocks
from thalweg.encode.record import Field, component, fields
from thalweg.encode.swe_text import leading_rows
from thalweg.encode.xmltext import attribute, escape, ncname

__all__ = ["GATHERED_BYTES", "Member", "collection"]

GATHERED_BYTES: Final = 8 * 2**20
"""Most text of one array that is held to count its rows before they are written."""

_ROOT: Final = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<om:ObservationCollection xmlns:om="http://www.opengis.net/om/1.0" xmlns:swe="http://www.opengis.net/swe/1.0.1"'
    ' xmlns:gml="http://www.opengis.net/gml" xmlns:xlink="http://www.w3.org/1999/xlink">'
)
_END: Final = b"</om:ObservationCollection>"
_NO_MEMBER: Final = b"<om:member/>"


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
    is_empty = True
    for member in members:
        selected = member.selected
        blocks = selected.blocks
        only = next(blocks, None)
        if only is None:
            continue
        is_empty = False
        following = next(blocks, None)
        if following is None:  # nearly always
            shape = Shape.of(only, selected.procedure)
            text = leading_rows(only, selected, shape, offset_s, with_quality)
            envelope = _envelope(member, shape, with_quality)
            begin = begin_us(only) if shape.begin else only.end.item(0)
            yield b"".join(_observation(envelope, [text], len(only), begin, only.end.item(-1), shape, offset_s))
            continue
        array: _Array | None = None
        for shape, block, is_new in shaped(selected.procedure, chain((only, following), blocks)):
            if array is None or is_new:
                if array is not None:
                    yield from array.close()
                array = _Array(member, shape, offset_s, with_quality)
            yield from array.add(block)
        if array is not None:
            yield from array.close()
    if is_empty:
        yield _NO_MEMBER
    yield _END


@lru_cache(maxsize=256)
def _head(name: str, description: str) -> bytes:
    text = f"<gml:description>{escape(description)}</gml:description>" if description else ""
    return f"{_ROOT}{text}<gml:name>{escape(name)}</gml:name>".encode()


class _Array:
    """One om:Observation on its way: gathered until it is whole or too long."""

    def __init__(self, member: Member, shape: Shape, offset_s: int, with_quality: bool) -> None:
        self._member = member
        self._shape = shape
        self._offset_s = offset_s
        self._with_quality = with_quality
        self._envelope = _envelope(member, shape, with_quality)
        self._texts: list[bytes] = []
        self._size = 0
        self._rows = 0
        self._begin_us = 0
        self._end_us = 0
        self._is_streamed = False

    def add(self, block: Block) -> Iterable[bytes]:
        """Take a block's rows; returns what can be written."""
        text = leading_rows(block, self._member.selected, self._shape, self._offset_s, self._with_quality)
        if self._is_streamed:
            return (text,)
        begin = begin_us(block) if self._shape.begin else block.end.item(0)
        self._begin_us = min(self._begin_us, begin) if self._texts else begin
        self._end_us = block.end.item(-1)
        self._rows += len(block)
        self._size += len(text)
        self._texts.append(text)
        if self._size <= GATHERED_BYTES:
            return ()
        self._is_streamed = True
        envelope = self._envelope
        end = self._member.end_us
        known = b'<gml:endPosition indeterminatePosition="unknown"/>'
        if end is not None:
            known = f"<gml:endPosition>{format_instant(end, self._offset_s)}</gml:endPosition>".encode()
        texts = self._texts
        texts[0] = texts[0][1:]
        self._texts = []
        begin_text = format_instant(self._begin_us, self._offset_s).encode()
        return (
            envelope.name, begin_text, b"</gml:beginPosition>", known, envelope.place,
            b"<swe:elementCount><swe:Count/></swe:elementCount>", envelope.record, *texts,
        )  # fmt: skip

    def close(self) -> Iterable[bytes]:
        """The rest of the observation."""
        if self._is_streamed:
            return (_ARRAY_END,)
        return _observation(
            self._envelope, self._texts, self._rows, self._begin_us, self._end_us, self._shape, self._offset_s
        )


def _observation(
    envelope: _Envelope, texts: list[bytes], rows: int, begin_us: int, end_us: int, shape: Shape, offset_s: int
) -> tuple[bytes, ...]:
    """A whole om:Observation from the texts of its blocks, each row led by a separator."""
    first, last = texts[0], texts[-1]
    # The first and last time are written already; finding them is cheaper than formatting them again.
    begin = format_instant(begin_us, offset_s).encode() if shape.begin else first[1 : first.index(b",")]
    last_row = last.rfind(b"@") + 1
    end = last[last_row : last.index(b",", last_row)]
    texts[0] = first[1:]
    return (
        envelope.name, begin, b"</gml:beginPosition><gml:endPosition>", end,
        b"</gml:endPosition><gml:duration>", duration(end_us - begin_us),
        envelope.place_and_count, b"%d" % rows, envelope.count_and_record, *texts, _ARRAY_END,
    )  # fmt: skip


_ARRAY_END: Final = b"</swe:values></swe:DataArray></om:result></om:Observation></om:member>"


class _Envelope:
    """All of an om:Observation but period, count and values, as bytes.

    name              up to the begin of the period
    place             from the end of the period up to the count
    record            from after the count up to the values
    place_and_count, count_and_record
                      the same with the tags that stand around a known length and count
    """

    __slots__ = ("count_and_record", "name", "place", "place_and_count", "record")

    def __init__(self, member: Member, shape: Shape, with_quality: bool) -> None:
        selected = member.selected
        found = fields(selected, shape, with_quality)
        self.name = (
            f"<om:member><om:Observation><gml:name>{escape(selected.procedure.name)}</gml:name>"
            "<om:samplingTime><gml:TimePeriod><gml:beginPosition>"
        ).encode()
        procedure = attribute(selected.procedure.identifier)
        self.place = (
            f'</gml:TimePeriod></om:samplingTime><om:procedure xlink:href="{procedure}"/>'
            f"{_observed_property(selected, shape, found)}{_feature(member)}<om:result><swe:DataArray>"
        ).encode()
        self.record = _record(found).encode()
        self.place_and_count = b"</gml:duration>" + self.place + b"<swe:elementCount><swe:Count><swe:value>"
        self.count_and_record = b"</swe:value></swe:Count></swe:elementCount>" + self.record


_envelopes: Final = Memory[_Envelope](4096)


def _envelope(member: Member, shape: Shape, with_quality: bool) -> _Envelope:
    found = _envelopes.get(member, shape, with_quality)
    return found or _envelopes.put(_Envelope(member, shape, with_quality), member, shape, with_quality)


def _observed_property(selected: Selected, shape: Shape, found: list[Field]) -> str:
    # The id is unique in the document: a track is there once for each shape that it has.
    shown = "".join(letter for letter, present in zip("brp", shape, strict=True) if present)
    components = "".join(f'<swe:component xlink:href="{attribute(field.definition)}"/>' for field in found)
    return (
        f'<om:observedProperty><swe:CompositePhenomenon gml:id="{ncname(f"comp_{selected.track.id}{shown}")}"'
        f' dimension="{len(found)}"><gml:name>timeSeriesOfObservations</gml:name>{components}'
        "</swe:CompositePhenomenon></om:observedProperty>"
    )


def _feature(member: Member) -> str:
    feature = member.selected.feature
    reference = f'xlink:href="{attribute(feature.identifier)}" xlink:title="{attribute(feature.name)}"'
    if member.geometry is None:
        return f"<om:featureOfInterest {reference}/>"
    geometry = gml31(member.geometry, member.srs_name, member.northing_first)
    return (
        f"<om:featureOfInterest {reference}><gml:FeatureCollection><gml:location>{geometry}</gml:location>"
        "</gml:FeatureCollection></om:featureOfInterest>"
    )


def _record(found: list[Field]) -> str:
    texts = "".join(f'<swe:field name="{attribute(field.name)}">{component(field)}</swe:field>' for field in found)
    return (
        '<swe:elementType name="SimpleDataArray">'
        f'<swe:DataRecord definition="urn:ogc:def:dataType:x-istsos:1.0:timeSeries">{texts}</swe:DataRecord>'
        '</swe:elementType><swe:encoding><swe:TextBlock tokenSeparator="," blockSeparator="@" decimalSeparator="."/>'
        "</swe:encoding><swe:values>"
    )
