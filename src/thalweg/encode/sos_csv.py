"""istSOS' CSV form of observations.

One header, then rows ``time,procedure,v1[,q1],…`` of all selections, one selection after another, ended by ``\\n``.
The header has every observed property of any selection once; a cell is empty where the procedure lacks the property
or the value is missing (the quality index of the latter is -100). The time is the phenomenon end; begin of intervals,
result time and position have no column in this form. Fields are quoted where RFC 4180 asks for it.

source  istSOS 2, responseFormat text/plain; RFC 4180
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from thalweg.domain.selection import Selected
from thalweg.encode.form import CSV, csv_field
from thalweg.encode.member import whole_or_blocks
from thalweg.encode.record import QUALITY_INDEX, TIME
from thalweg.encode.table import Part, rows

PROCEDURE: Final = "urn:ogc:def:procedure"
"""Header of the column with the procedure's name."""


def csv(selections: Iterable[Selected], *, offset_s: int, with_quality: bool) -> bytes | Iterator[bytes]:
    """The document; a long one in pieces, of which the first is read already, so that a failure to read can still be
    told as such.

    selections    listed at once for the header; their blocks are read one by one
    offset_s      zone of all times, seconds east of UTC
    with_quality  a column ``<property>:qualityIndex`` after each property
    """
    return whole_or_blocks(_pieces(list(selections), offset_s, with_quality))


def _pieces(selections: list[Selected], offset_s: int, with_quality: bool) -> Iterator[bytes]:
    header = {observed.id: observed.identifier for selected in selections for observed in selected.properties}
    yield _header(header.values(), with_quality)
    empty = b",," if with_quality else b","
    for selected in selections:
        own = {series.property_id for series in selected.series}
        name = b"," + csv_field(selected.procedure.name).encode()
        for block in selected.blocks:
            parts: list[Part] = [name]
            parts += [block.columns[i] if i in own else empty for i in header]
            yield rows(block, parts, CSV, offset_s=offset_s, with_quality=with_quality)
    yield b"\n"


def _header(identifiers: Iterable[str], with_quality: bool) -> bytes:
    names = [TIME, PROCEDURE]
    for identifier in identifiers:
        names.append(identifier)
        if with_quality:
            names.append(identifier + QUALITY_INDEX)
    return ",".join(csv_field(name) for name in names).encode()
