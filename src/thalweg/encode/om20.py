"""Observations & Measurements 2.0 as SOS 2.0 answers it: sos:GetObservationResponse.

One om:OM_Observation per value, each in a sos:observationData of its own; a value that is missing gives none. The
order is that of members, then blocks of rows, then properties, then time. An observation's identifier is
``observation_id``; its gml:ids are made of it, so that they are unique in the document and the same in every answer.
The result time is inline, since clients (OWSLib) read no reference there. With qualities, each observation has its
quality index as an om:parameter; one of a mobile procedure has its position as the parameter samplingGeometry.

``merged`` gives the form of ``om20_array`` instead.

source  OGC 10-025r1 (O&M 2.0 XML), OGC 12-006 (SOS 2.0; clause 14.1 for samplingGeometry)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from thalweg.domain.blocks import Block, Column, ValueKind
from thalweg.domain.observations import observation_id
from thalweg.domain.time import format_instant
from thalweg.encode.clock import clock
from thalweg.encode.digits import Cells, number_cells
from thalweg.encode.form import XML
from thalweg.encode.lookup import lay
from thalweg.encode.member import Member, Memory, whole_or_blocks
from thalweg.encode.numbers import format_number
from thalweg.encode.om20_array import merged_pieces
from thalweg.encode.record import QUALITY_INDEX, uom_identifier
from thalweg.encode.table import text_writer, value_texts
from thalweg.encode.xmltext import attribute

__all__ = ["Member", "response"]

_HEAD: Final = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n'
    b'<sos:GetObservationResponse xmlns:sos="http://www.opengis.net/sos/2.0" xmlns:om="http://www.opengis.net/om/2.0"'
    b' xmlns:gml="http://www.opengis.net/gml/3.2" xmlns:swe="http://www.opengis.net/swe/2.0"'
    b' xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:xs="http://www.w3.org/2001/XMLSchema"'
    b' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
)
_TAIL: Final = b"</sos:GetObservationResponse>"

SLICE_VALUES: Final = 1024
"""Values written at a time, or those of one row: some 1.4 kB of text each."""

_TYPES: Final = {
    ValueKind.NUMBER: "OM_Measurement",
    ValueKind.INTEGER: "OM_CountObservation",
    ValueKind.TEXT: "OM_TextObservation",
    ValueKind.BOOLEAN: "OM_TruthObservation",
}
_SCHEMA_TYPES: Final = {
    ValueKind.INTEGER: "xs:integer",
    ValueKind.TEXT: "xs:string",
    ValueKind.BOOLEAN: "xs:boolean",
}


def response(
    members: Iterable[Member], *, offset_s: int, with_quality: bool, merged: bool = False
) -> bytes | Iterator[bytes]:
    """The document; a long one in pieces, of which the first is read already, so that a failure to read can still be
    told as such.

    offset_s      zone of all times, seconds east of UTC
    with_quality  each observation tells its quality index
    merged        an observation per series with an array of values, instead of one per value
    """
    return whole_or_blocks(_pieces(members, offset_s, with_quality, merged))


def _pieces(members: Iterable[Member], offset_s: int, with_quality: bool, merged: bool) -> Iterator[bytes]:
    yield _HEAD
    for member in members:
        if merged:
            yield from merged_pieces(member, offset_s, with_quality)
            continue
        all_series = _memory.get(member) or _memory.put(kits(member), member)
        slice_rows = max(1, SLICE_VALUES // max(1, len(all_series)))
        for block in member.selected.blocks:
            for first in range(0, len(block), slice_rows):
                rows = block if len(block) <= slice_rows else block.take(slice(first, first + slice_rows))
                yield observations(rows, all_series, offset_s, with_quality)
    yield _TAIL


@dataclass(frozen=True, slots=True)
class Kit:
    """What all observations of one series have in common.

    type_, procedure, target, result  ready elements, or the begin of one
    srs_name, swap                    of positions; swap: y is written before x
    """

    track_id: int
    property_id: int
    kind: ValueKind
    definition: str
    type_: str
    procedure: str
    target: str
    result: str
    srs_name: str
    swap: bool


def kits(member: Member) -> list[Kit]:
    """One for each series of a member."""
    selected = member.selected
    feature = selected.feature
    srs_name, swap = _positions_crs(member)
    found = []
    for observed, series, unit in zip(selected.properties, selected.series, selected.units, strict=True):
        kind = series.kind
        typed = (
            f'xsi:type="gml:MeasureType" uom="{attribute(uom_identifier(unit.code))}"'
            if kind is ValueKind.NUMBER
            else f'xsi:type="{_SCHEMA_TYPES[kind]}"'
        )
        found.append(
            Kit(
                selected.track.id,
                observed.id,
                kind,
                observed.identifier,
                f'<om:type xlink:href="http://www.opengis.net/def/observationType/OGC-OM/2.0/{_TYPES[kind]}"/>',
                f'<om:procedure xlink:href="{attribute(selected.procedure.identifier)}"/>',
                f'<om:observedProperty xlink:href="{attribute(observed.identifier)}"/><om:featureOfInterest'
                f' xlink:href="{attribute(feature.identifier)}" xlink:title="{attribute(feature.name)}"/>',
                f"<om:result {typed}>",
                srs_name,
                swap,
            )
        )
    return found


_memory: Final = Memory[list[Kit]](4096)


def _positions_crs(member: Member) -> tuple[str, bool]:
    """The name to write positions under, and whether y comes first: the answer's CRS where it is the procedure's
    own, else the short name, which means x y order."""
    srid = member.selected.procedure.srid
    if re.search(rf"(?<!\d){srid}$", member.srs_name):
        return member.srs_name, member.northing_first
    return f"EPSG:{srid}", False


_DATA_END: Final = "</om:result></om:OM_Observation></sos:observationData>"


def _observation(
    kit: Kit, oid: str, begin: str, end: str, result: str, quality: str | None, place: str, value: str
) -> str:
    """One observation from its texts; ``begin`` is empty for an instant, ``place`` a ready parameter or empty."""
    if begin:
        phenomenon = (
            f'<gml:TimePeriod gml:id="p_{oid}"><gml:beginPosition>{begin}</gml:beginPosition>'
            f"<gml:endPosition>{end}</gml:endPosition></gml:TimePeriod>"
        )
    else:
        phenomenon = f'<gml:TimeInstant gml:id="p_{oid}"><gml:timePosition>{end}</gml:timePosition></gml:TimeInstant>'
    parameter = ""
    if quality is not None:
        parameter = (
            f'<om:parameter><om:NamedValue><om:name xlink:href="{attribute(kit.definition + QUALITY_INDEX)}"/>'
            f'<om:value xsi:type="xs:integer">{quality}</om:value></om:NamedValue></om:parameter>'
        )
    return (
        f'<sos:observationData><om:OM_Observation gml:id="o_{oid}">'
        f'<gml:identifier codeSpace="http://www.opengis.net/def/nil/OGC/0/unknown">{oid}</gml:identifier>'
        f"{kit.type_}<om:phenomenonTime>{phenomenon}</om:phenomenonTime>"
        f'<om:resultTime><gml:TimeInstant gml:id="r_{oid}"><gml:timePosition>{result}</gml:timePosition>'
        f"</gml:TimeInstant></om:resultTime>{kit.procedure}{parameter}{place}{kit.target}{kit.result}{value}{_DATA_END}"
    )


def observations_plain(block: Block, series: Iterable[Kit], offset_s: int, with_quality: bool) -> bytes:
    """The observations in a block, series by series, one after another."""
    out = []
    for kit in series:
        column = block.columns[kit.property_id]
        write = text_writer(kit.kind, XML)
        for i in range(len(block)):
            if column.valid is not None and not column.valid[i]:
                continue
            end, begin, result = key = block.key(i)
            oid = observation_id(kit.track_id, key, kit.property_id)
            out.append(
                _observation(
                    kit,
                    oid,
                    "" if begin == end else format_instant(begin, offset_s),
                    format_instant(end, offset_s),
                    format_instant(result, offset_s),
                    str(column.quality[i]) if with_quality else None,
                    _sampling_geometry(block, i, oid, kit),
                    write(column.values[i]),
                )
            )
    return "".join(out).encode()


def _sampling_geometry(block: Block, row: int, oid: str, kit: Kit) -> str:
    if block.position is None:
        return ""
    x, y, z = block.position[row].tolist()
    if x != x or y != y:
        return ""
    ordered = [y, x] if kit.swap else [x, y]
    text = " ".join(format_number(value) for value in (*ordered, *([z] if z == z else [])))
    dimension = ' srsDimension="3"' if z == z else ""
    return (
        "<om:parameter><om:NamedValue>"
        '<om:name xlink:href="http://www.opengis.net/def/param-name/OGC-OM/2.0/samplingGeometry"/>'
        f'<om:value><gml:Point gml:id="g_{oid}" srsName="{attribute(kit.srs_name)}">'
        f"<gml:pos{dimension}>{text}</gml:pos></gml:Point></om:value></om:NamedValue></om:parameter>"
    )


def observations(block: Block, series: Iterable[Kit], offset_s: int, with_quality: bool) -> bytes:
    """The same bytes as ``observations_plain``: rows are laid over a template, values set in between."""
    end = block.end
    n = len(end)
    keys = times = None
    # Before 1970 a sign would be in the way.
    if n and end[0] >= 0 and block.begin is None and block.result_time is None and block.position is None:
        keys = _fixed(number_cells(end, 0)[1:], n)
        times = _fixed(clock(b"", offset_s, b"").cells(end, ascending=True), n)
    if keys is None or times is None:  # lengths change within the block: in 2001, or with fractions of seconds
        return observations_plain(block, series, offset_s, with_quality)
    pieces: list[bytes] = []
    for kit in series:
        column = block.columns[kit.property_id]
        valid = column.valid
        if valid is None:
            pieces += _over_template(keys, times, column, kit, with_quality)
        elif valid.any():
            pieces += _over_template(keys[valid], times[valid], column.take(valid), kit, with_quality)
    return b"".join(pieces)


Bytes = npt.NDArray[np.uint8]


def _fixed(cells: list[Cells], n: int) -> Bytes | None:
    """Texts in cells side by side as bytes (n, length), if all have the same length."""
    raw = lay(cells, n).view(np.uint8).reshape(n, -1)
    filled = raw[:, raw[0] != 0]
    return filled if filled.all() and np.count_nonzero(raw) == filled.size else None


# Stand-ins in a template, of the length of what takes their place; none of them occurs in XML.
_KEY: Final = "\1"
_TIME: Final = "\2"
_QUALITY: Final = "\3"
_VALUE: Final = "\4"


class _Template(NamedTuple):
    """An observation cut at what differs from row to row.

    line         what ends an observation and begins the next one, up to the quality index or value
    tail         what ends one
    middle       between quality index and value
    keys, times  places in ``line``
    """

    line: Bytes
    tail: bytes
    middle: bytes
    keys: tuple[slice, ...]
    times: tuple[slice, ...]


@lru_cache(maxsize=1024)
def _template(kit: Kit, key_length: int, time_length: int, with_quality: bool) -> _Template:
    oid = f"{kit.track_id}.{kit.property_id}.{_KEY * key_length}"
    time = _TIME * time_length
    text = _observation(kit, oid, "", time, time, _QUALITY if with_quality else None, "", _VALUE).encode()
    head, tail = text.split(_VALUE.encode())
    head, *middle = head.split(_QUALITY.encode())
    line = tail + head
    keys, times = (
        tuple(slice(*match.span()) for match in re.finditer(re.escape(sign.encode()) + b"+", line))
        for sign in (_KEY, _TIME)
    )
    return _Template(np.frombuffer(line, np.uint8), tail, b"".join(middle), keys, times)


def _over_template(keys: Bytes, times: Bytes, column: Column, kit: Kit, with_quality: bool) -> list[bytes]:
    """The observations of one series, in pieces; the column has no gaps."""
    template = _template(kit, keys.shape[1], times.shape[1], with_quality)
    n, length = len(keys), len(template.line)
    lines = np.empty((n, length), np.uint8)
    lines[:] = template.line
    for place in template.keys:
        lines[:, place] = keys
    for place in template.times:
        lines[:, place] = times
    rows: list[bytes] = lines.view(f"S{length}")[:, 0].tolist()
    rows[0] = rows[0][len(template.tail) :]
    values = value_texts(column, XML)
    if not with_quality:
        pieces = [b""] * (2 * n)
        pieces[0::2] = rows
        pieces[1::2] = values
    else:
        pieces = [template.middle] * (4 * n)
        pieces[0::4] = rows
        pieces[1::4] = [b"%d" % code for code in column.quality.tolist()]
        pieces[3::4] = values
    pieces.append(template.tail)
    return pieces
