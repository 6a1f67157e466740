"""O&M 2.0 observations merged into arrays: one om:OM_Observation per series, its result a swe:DataArray.

This is what 52°North's request extension MergeObservationsIntoDataArray gives. Rows without a value are left out. A
selection whose text passes ``GATHERED_BYTES`` comes as several observations per series, one after the other in time,
so that counts and periods are right and memory stays bounded; so does one that turns from instants to intervals.

An interval is one field, swe:TimeRange, of two tokens: begin, end.

source  OGC 10-025r1 clause 7.9.11 (OM_SWEArrayObservation), OGC 08-094r1 (SWE Common 2.0)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from thalweg.domain.blocks import Block
from thalweg.domain.catalogue import ObservedProperty, Series, Unit
from thalweg.domain.observations import observation_id
from thalweg.domain.time import format_instant
from thalweg.encode.form import SWE
from thalweg.encode.member import Member, Shape, begin_us, shaped
from thalweg.encode.record import QUALITY_INDEX, component, position_fields, value_fields
from thalweg.encode.table import RowTime, rows
from thalweg.encode.xmltext import attribute, ncname

GATHERED_BYTES: Final = 8 * 2**20
"""Most text of one member's arrays that is held to count rows before they are written."""

_PHENOMENON_TIME: Final = "http://www.opengis.net/def/property/OGC/0/PhenomenonTime"
_RESULT_TIME: Final = "http://www.opengis.net/def/property/OGC/0/ResultTime"
_GREGORIAN: Final = '<swe:uom xlink:href="http://www.opengis.net/def/uom/ISO-8601/0/Gregorian"/>'


@dataclass(slots=True)
class _Gathered:
    """The rows of one series so far."""

    first: str = ""
    texts: list[bytes] = field(default_factory=list)
    rows: int = 0
    begin_us: int = 0
    end_us: int = 0
    result_us: int = 0


def merged_pieces(member: Member, offset_s: int, with_quality: bool) -> Iterator[bytes]:
    """The sos:observationData elements of one member."""
    selected = member.selected
    gathered: dict[int, _Gathered] = {}
    size = 0
    before: Shape | None = None
    for shape, block, is_new in shaped(selected.procedure, selected.blocks):
        if before is not None and (is_new or size > GATHERED_BYTES):
            yield from _flush(member, gathered, before, offset_s, with_quality)
            size = 0
        before = shape
        for series in selected.series:
            size += _gather(member, block, series, shape, gathered, offset_s, with_quality)
    if before is not None:
        yield from _flush(member, gathered, before, offset_s, with_quality)


def _gather(
    member: Member, block: Block, series: Series, shape: Shape, gathered: dict[int, _Gathered], offset_s: int,
    with_quality: bool,
) -> int:  # fmt: skip
    """Add a block's rows of one series; returns the size of their text."""
    column = block.columns[series.property_id]
    if column.valid is not None:
        if not column.valid.any():
            return 0
        block = Block(
            block.end, {series.property_id: column},
            begin=block.begin, result_time=block.result_time, position=block.position,
        ).take(column.valid)  # fmt: skip
        column = block.columns[series.property_id]
        column.valid = None
    text = rows(
        block,
        [column],
        SWE,
        offset_s=offset_s,
        times=_times(shape),
        position=shape.position,
        with_quality=with_quality,
    )
    begin, result = begin_us(block), int(RowTime.RESULT.of(block).max())
    found = gathered.get(series.property_id)
    if found is None:
        first = observation_id(member.selected.track.id, block.key(0), series.property_id)
        found = gathered[series.property_id] = _Gathered(first, begin_us=begin, result_us=result)
        text = text[1:]
    found.texts.append(text)
    found.rows += len(block)
    found.begin_us = min(found.begin_us, begin)
    found.end_us = block.end.item(-1)
    found.result_us = max(found.result_us, result)
    return len(text)


def _times(shape: Shape) -> tuple[RowTime, ...]:
    phenomenon = (RowTime.BEGIN, RowTime.END) if shape.begin else (RowTime.END,)
    return (*phenomenon, RowTime.RESULT) if shape.result_time else phenomenon


def _flush(
    member: Member, gathered: dict[int, _Gathered], shape: Shape, offset_s: int, with_quality: bool
) -> Iterator[bytes]:
    """Write and forget what is gathered, in the order of the series."""
    selected = member.selected
    for observed, series, unit in zip(selected.properties, selected.series, selected.units, strict=True):
        found = gathered.pop(series.property_id, None)
        if found is not None:
            yield _head(member, observed, found, offset_s)
            yield _array(member, observed, series, unit, found, shape, with_quality)
            yield from found.texts
            yield b"</swe:values></swe:DataArray></om:result></om:OM_Observation></sos:observationData>"


def _head(member: Member, observed: ObservedProperty, found: _Gathered, offset_s: int) -> bytes:
    selected = member.selected
    feature = selected.feature
    begin, end, result = (format_instant(t, offset_s) for t in (found.begin_us, found.end_us, found.result_us))
    oid = found.first
    if found.begin_us == found.end_us:
        phenomenon = f'<gml:TimeInstant gml:id="p_{oid}"><gml:timePosition>{end}</gml:timePosition></gml:TimeInstant>'
    else:
        phenomenon = (
            f'<gml:TimePeriod gml:id="p_{oid}"><gml:beginPosition>{begin}</gml:beginPosition>'
            f"<gml:endPosition>{end}</gml:endPosition></gml:TimePeriod>"
        )
    return (
        f'<sos:observationData><om:OM_Observation gml:id="a_{oid}">'
        '<om:type xlink:href="http://www.opengis.net/def/observationType/OGC-OM/2.0/OM_SWEArrayObservation"/>'
        f"<om:phenomenonTime>{phenomenon}</om:phenomenonTime>"
        f'<om:resultTime><gml:TimeInstant gml:id="r_{oid}"><gml:timePosition>{result}</gml:timePosition>'
        f'</gml:TimeInstant></om:resultTime><om:procedure xlink:href="{attribute(selected.procedure.identifier)}"/>'
        f'<om:observedProperty xlink:href="{attribute(observed.identifier)}"/>'
        f'<om:featureOfInterest xlink:href="{attribute(feature.identifier)}" xlink:title="{attribute(feature.name)}"/>'
    ).encode()


def _array(
    member: Member, observed: ObservedProperty, series: Series, unit: Unit, found: _Gathered, shape: Shape,
    with_quality: bool,
) -> bytes:  # fmt: skip
    """The swe:DataArray up to its values."""
    time = "TimeRange" if shape.begin else "Time"
    texts = [_field("phenomenonTime", f'<swe:{time} definition="{_PHENOMENON_TIME}">{_GREGORIAN}</swe:{time}>')]
    if shape.result_time:
        texts.append(_field("resultTime", f'<swe:Time definition="{_RESULT_TIME}">{_GREGORIAN}</swe:Time>'))
    if shape.position:
        texts += [_field(f.name, component(f)) for f in position_fields(member.selected.procedure.srid)]
    name = ncname(observed.name)
    value = value_fields(name, observed.identifier, series.kind, unit.code, False)[0]
    texts.append(_field(name, component(value)))
    if with_quality:
        index = "qualityIndex" if name != "qualityIndex" else "qualityIndex_"
        texts.append(_field(index, f'<swe:Count definition="{attribute(observed.identifier + QUALITY_INDEX)}"/>'))
    return (
        '<om:result xsi:type="swe:DataArrayPropertyType"><swe:DataArray>'
        f"<swe:elementCount><swe:Count><swe:value>{found.rows}</swe:value></swe:Count></swe:elementCount>"
        f'<swe:elementType name="row"><swe:DataRecord>{"".join(texts)}</swe:DataRecord></swe:elementType>'
        '<swe:encoding><swe:TextEncoding tokenSeparator="," blockSeparator="@" decimalSeparator="."'
        ' collapseWhiteSpaces="false"/></swe:encoding><swe:values>'
    ).encode()


def _field(name: str, component: str) -> str:
    return f'<swe:field name="{name}">{component}</swe:field>'
