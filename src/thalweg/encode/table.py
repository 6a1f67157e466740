"""Rows of observations as text, a block at a time: the record gather.

Every row is laid out as fixed-width cells, all rows as one array, and the padding (NUL, which no text contains) is
dropped in one pass over its bytes. Cells come from look-up tables where there is one, else digit by digit, else value
by value. ``rows_plain`` writes the same bytes one value after another; it is what the tests compare with, and what
writes blocks whose texts are too long to be padded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, TypeAlias

import numpy as np

from thalweg.domain.blocks import Block, Column, TimeArray, ValueKind
from thalweg.domain.time import SECOND_US, format_instant
from thalweg.encode.clock import clock
from thalweg.encode.digits import Cells, is_plain_decimal, number_cells, padded
from thalweg.encode.form import CSV, JSON, QUALITY_MISSING, SWE, Form
from thalweg.encode.lookup import (
    MAX_DECIMALS,
    SEGMENT,
    UNFILLED,
    Indexed,
    indexed,
    join_cells,
    lay,
    quality_cells,
    quick_cells,
    scaled_cells,
    short_cells,
    word,
)

MAX_PADDED_BYTES: Final = 8 * 2**20
"""Largest array of padded rows; a block that needs more, for many columns or one long text, is written in halves."""
PLAIN_ROWS: Final = 64
"""Blocks as short as this are not halved any more but written plainly."""

Part: TypeAlias = Column | bytes
"""What makes up a row after its times: a column, or the same text in every row, its leading comma included."""


class RowTime(Enum):
    """Times that a row may show."""

    END = "phenomenon end"
    BEGIN = "phenomenon begin"
    RESULT = "result time"

    def of(self, block: Block) -> TimeArray:
        """Shape (n,)."""
        times = block.begin if self is RowTime.BEGIN else block.result_time if self is RowTime.RESULT else None
        return block.end if times is None else times


END_ONLY: Final = (RowTime.END,)

_END: Final = RowTime.END  # looked up once: members of an enumeration are slow to come by


class _TooWide(Exception):
    """Padded rows would pass ``MAX_PADDED_BYTES``."""


def rows(
    block: Block,
    parts: Sequence[Part],
    form: Form,
    *,
    offset_s: int = 0,
    times: tuple[RowTime, ...] = END_ONLY,
    position: bool = False,
    with_quality: bool = False,
) -> bytes:
    """All rows of a block, each beginning with ``form.row`` (also the first one).

    parts         after the times, in this order; columns as long as the block
    offset_s      zone of the times, seconds east of UTC
    times         at least one
    position      x, y, z follow the times, missing where the block has no positions
    with_quality  every column is followed by its quality indexes
    """
    n = len(block)
    if n == 0:
        return b""
    try:
        text = _padded(block, parts, form, offset_s, times, position, with_quality, True)
        if UNFILLED in text:  # hardly ever: values seen for the first time
            text = _padded(block, parts, form, offset_s, times, position, with_quality, False)
        return text
    except _TooWide:
        if n <= PLAIN_ROWS:
            return rows_plain(
                block, parts, form, offset_s=offset_s, times=times, position=position, with_quality=with_quality
            )
        keys = Block(block.end, {}, begin=block.begin, result_time=block.result_time, position=block.position)
        halves = []
        for half in (slice(0, n // 2), slice(n // 2, n)):
            columns = [part if isinstance(part, bytes) else part.take(half) for part in parts]
            halves.append(
                rows(
                    keys.take(half), columns, form,
                    offset_s=offset_s, times=times, position=position, with_quality=with_quality,
                )
            )  # fmt: skip
        return b"".join(halves)


def _padded(
    block: Block,
    parts: Sequence[Part],
    form: Form,
    offset_s: int,
    times: tuple[RowTime, ...],
    position: bool,
    with_quality: bool,
    quick: bool,
) -> bytes:
    """``rows`` as one padded record. Raises _TooWide.

    quick  take 16-bit integers from the table unchecked: the text then has ``UNFILLED`` in it where one was missing
    """
    n = len(block)
    cells: list[Cells] = []
    long_bytes = 0
    lead = form.row
    for time in times:
        writer = clock(lead, offset_s, form.time_close)
        cells += (
            writer.cells(block.end, ascending=True) if time is _END else writer.cells(time.of(block), ascending=False)
        )
        lead = form.time_open
    if position:
        cells += _position_cells(block, form)
    for part in parts:
        if isinstance(part, bytes):
            cells.append(padded([part]))
            continue
        scaled = part.scaled
        short = None
        if scaled is not None and part.valid is None:  # most columns of most blocks: no detour for them
            short = quick_cells(scaled, part.decimals) if quick else None
            if short is None:
                short = scaled_cells(scaled, part.decimals)
        if short is not None:
            cells.append(short)
        else:
            texts = _texts_of(part, form)
            # Bounded before it is all there: each column of long texts may take as much as a whole record may.
            long_bytes += sum([cell.nbytes for cell in texts])
            if long_bytes > MAX_PADDED_BYTES:
                raise _TooWide
            cells += texts
        if with_quality:
            cells.append(quality_cells(part))
    record = lay(cells, n)
    if record.nbytes > MAX_PADDED_BYTES:
        raise _TooWide
    return record.tobytes().translate(None, b"\0")


def warm_up() -> None:
    """Fill the tables that the first answers need (some 100 ms), for a server to call before it takes requests."""
    minutes = np.arange(0, 3600 * SECOND_US, 60 * SECOND_US)
    quality = np.arange(len(minutes), dtype=np.int16)
    for decimals in range(3):
        for first in range(-(2**15), 2**15, SEGMENT):
            scaled = np.full(len(minutes), first, np.int16)
            column = Column(ValueKind.NUMBER, None, None, quality, scaled=scaled, decimals=decimals)
            for form in (SWE, CSV, JSON):
                rows(Block(minutes, {0: column}), [column], form, with_quality=True)


def rows_plain(
    block: Block,
    parts: Sequence[Part],
    form: Form,
    *,
    offset_s: int = 0,
    times: tuple[RowTime, ...] = END_ONLY,
    position: bool = False,
    with_quality: bool = False,
) -> bytes:
    """The same bytes as ``rows``, one value after another."""
    out: list[str] = []
    for i in range(len(block)):
        before = form.row
        for time in times:
            out += (before.decode(), format_instant(int(time.of(block)[i]), offset_s), form.time_close.decode())
            before = form.time_open
        if position:
            for axis in range(3):
                out += (",", _coordinate(block, i, axis, form))
        for part in parts:
            if isinstance(part, bytes):
                out.append(part.decode())
                continue
            present = part.valid is None or bool(part.valid[i])
            out += (",", text_writer(part.kind, form)(part.values[i]) if present else form.missing[part.kind])
            if with_quality:
                out.append(f",{part.quality[i] if present else QUALITY_MISSING}")
    return "".join(out).encode()


def text_writer(kind: ValueKind, form: Form) -> Callable[[Any], str]:
    """What writes one value that is there."""
    match kind:
        case ValueKind.NUMBER:
            return form.number
        case ValueKind.INTEGER:
            return _integer
        case ValueKind.BOOLEAN:
            return _truth
        case ValueKind.TEXT:
            return form.text


def _integer(value: Any) -> str:
    return str(int(value))


def _truth(value: Any) -> str:
    return "true" if value else "false"


def value_texts(column: Column, form: Form) -> list[bytes]:
    """The texts of a column without gaps and without separators, one per row."""
    source = indexed(column)
    if source is not None and len(column):
        cells = short_cells(source, None, "") if source.decimals <= MAX_DECIMALS else None
        if cells is not None:
            # What follows the comma: seven of eight bytes.
            after: list[bytes] = cells.view(np.uint8).reshape(-1, 8)[:, 1:].copy().view("S7")[:, 0].tolist()
            return after
        digits = _digits(column, source)
        if digits is not None:
            return join_cells(digits).split(b",")[1:]
    write = text_writer(column.kind, form)
    return [write(value).encode() for value in column.values.tolist()]


def _coordinate(block: Block, row: int, axis: int, form: Form) -> str:
    if block.position is None:
        return form.missing[ValueKind.NUMBER]
    value = float(block.position[row, axis])
    return form.number(value) if value == value else form.missing[ValueKind.NUMBER]


def _position_cells(block: Block, form: Form) -> list[Cells]:
    if block.position is None:
        return [padded([("," + form.missing[ValueKind.NUMBER]).encode() * 3])]
    cells: list[Cells] = []
    for axis in range(3):
        values = np.ascontiguousarray(block.position[:, axis])
        valid = values == values
        quality = np.zeros(len(values), np.int16)
        cells += _texts_of(Column(ValueKind.NUMBER, values, None if valid.all() else valid, quality), form)
    return cells


def _texts_of(column: Column, form: Form) -> list[Cells]:
    """Cells of one column."""
    source = indexed(column)
    if source is not None and source.decimals <= MAX_DECIMALS:
        cells = short_cells(source, column.valid, form.missing[column.kind])
        if cells is not None:
            return [cells]
    return _long_cells(column, source, form)


def _long_cells(column: Column, source: Indexed | None, form: Form) -> list[Cells]:
    """Cells of a column that the table has no texts for."""
    valid = column.valid
    missing = form.missing[column.kind]
    cells = None if source is None else _digits(column, source)
    if cells is not None:
        if valid is not None:
            for cell in cells:
                cell[~valid] = 0
            cells[0][~valid] = word(missing)
        return cells
    write = text_writer(column.kind, form)
    present = [True] * len(column) if valid is None else valid.tolist()
    texts = [
        f",{write(value) if there else missing}".encode()
        for value, there in zip(column.values.tolist(), present, strict=True)
    ]
    if max(map(len, texts)) * len(texts) > MAX_PADDED_BYTES:
        raise _TooWide
    return [padded(texts)]


def _digits(column: Column, source: Indexed) -> list[Cells] | None:
    """Cells of the digits of a column's numbers, if they are the right texts; of 0 where a value is missing."""
    integers = source.integers.astype(np.int64)
    if column.valid is not None:
        integers[~column.valid] = 0
    if column.kind is ValueKind.INTEGER or is_plain_decimal(integers, source.decimals):
        return number_cells(integers, source.decimals)
    return None
