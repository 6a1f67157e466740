"""Whatever is in a block, the fast writers give the bytes of the plain ones, and the values read back bit for bit."""

from __future__ import annotations

import csv
import io
import json
import struct
from typing import Any
from unittest.mock import patch
from urllib.parse import unquote

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from thalweg.domain.blocks import Block, Column, ValueKind, constant_quality
from thalweg.domain.time import END_US, MIN_US, parse_instant
from thalweg.encode import om20, table
from thalweg.encode.digits import find_decimals, is_plain_decimal, number_cells
from thalweg.encode.form import CSV, JSON, SWE, XML, Form
from thalweg.encode.lookup import join_cells
from thalweg.encode.numbers import format_json_number, format_number
from thalweg.encode.table import RowTime, rows, rows_plain, text_writer, value_texts
from thalweg.encode.xmltext import ncname

HOSTILE = [
    -0.0, 0.0, 1e-5, -1e-5, 1e300, -1e300, 5e-324, 2.2250738585072014e-308, 0.1 + 0.2, 123456789.12345679, 1e15, 1e16,
    999999999999999.0, 9007199254740992.0, 0.0001, 0.00012, 1e22, 4.35, 2.675,
]  # fmt: skip
DECIMALS = st.integers(0, 15)
DOUBLES = st.one_of(
    st.sampled_from(HOSTILE),
    st.floats(allow_nan=False, allow_infinity=False),
    st.builds(lambda i, d: i / 10**d, st.integers(-(10**7), 10**7), st.integers(0, 6)),
)
TEXTS = st.one_of(
    st.text(max_size=12), st.sampled_from(["", ",", "@", "%2C", 'a"b', "\0", "\r\n", "\ud800", "<&>", " x ", "é" * 20])
)
QUALITIES = st.integers(-32768, 32767)
OFFSETS = st.sampled_from([0, 3600, 7200, -12600, 20700, 50400, -43200])
DAY = 86_400_000_000


def bits(value: float) -> bytes:
    return struct.pack("<d", value)


@st.composite
def ends(draw: st.DrawFn, n: int) -> Any:
    """Strictly rising instants: regular or not, of any precision, anywhere in the calendar."""
    unit = draw(st.sampled_from([60_000_000, 60_000_000, 1_000_000, 1]))
    if draw(st.booleans()):
        steps = [draw(st.sampled_from([unit, 10 * unit, 1440 * unit]))] * n
    else:
        steps = draw(st.lists(st.integers(1, 5000).map(lambda i: i * unit), min_size=n, max_size=n))
    offsets = np.cumsum(np.array(steps, np.int64))
    room = END_US - 1 - int(offsets[-1]) if n else END_US - 1
    start = draw(
        st.one_of(st.integers(1_300_000_000, 1_500_000_000).map(lambda s: s * 1_000_000), st.integers(MIN_US, room))
    )
    return offsets + min(start // unit * unit, room)


@st.composite
def columns(draw: st.DrawFn, n: int) -> Column:
    kind = draw(st.sampled_from([ValueKind.NUMBER, ValueKind.NUMBER, ValueKind.NUMBER, *ValueKind]))
    if draw(st.booleans()):
        quality: Any = constant_quality(draw(QUALITIES), n)
    else:
        quality = np.array(draw(st.lists(QUALITIES, min_size=n, max_size=n)), np.int16)
    gaps = draw(st.sampled_from([False, False, True]))
    valid = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), np.bool_) if gaps else None
    if kind is ValueKind.NUMBER and draw(st.booleans()):
        limit = draw(st.sampled_from([99, 30_000, 10**6, 10**9, 2**53 - 1]))
        integers = draw(st.lists(st.integers(-limit, limit), min_size=n, max_size=n))
        dtype = draw(
            st.sampled_from([np.int64, *([np.int32] if limit < 2**31 else []), *([np.int16] if limit < 2**15 else [])])
        )
        return Column(kind, None, valid, quality, scaled=np.array(integers, dtype), decimals=draw(DECIMALS))
    if kind is ValueKind.NUMBER and draw(st.booleans()):
        decimals = draw(st.integers(0, 5))
        short = draw(st.lists(st.integers(-(10**6), 10**6), min_size=n, max_size=n))
        values = np.array(short, np.int64) / 10**decimals
        return Column(kind, values, valid, quality)
    item: dict[ValueKind, st.SearchStrategy[Any]] = {
        ValueKind.NUMBER: DOUBLES,
        ValueKind.INTEGER: st.one_of(st.integers(-500, 500), st.integers(-(2**63), 2**63 - 1)),
        ValueKind.TEXT: TEXTS,
        ValueKind.BOOLEAN: st.booleans(),
    }
    items = draw(st.lists(item[kind], min_size=n, max_size=n))
    made = Column.of(kind, items)
    return Column(kind, made.values, valid, quality)


@st.composite
def blocks(draw: st.DrawFn, *, least: int = 1, extras: bool = True) -> Block:
    n = draw(st.integers(least, 30))
    end = draw(ends(n))
    count = draw(st.integers(1, 9))
    block = Block(end, {j: draw(columns(n)) for j in range(count)})
    if extras and draw(st.booleans()):
        spans = np.array(draw(st.lists(st.integers(0, 10**9), min_size=n, max_size=n)), np.int64)
        block.begin = np.maximum(end - spans, MIN_US)
        block.result_time = np.minimum(end + spans[::-1], END_US - 1)
        coordinates = st.one_of(DOUBLES, st.just(float("nan")))
        block.position = np.array(draw(st.lists(coordinates, min_size=3 * n, max_size=3 * n))).reshape(n, 3)
    return block


@given(blocks(), st.sampled_from([SWE, CSV, JSON]), OFFSETS, st.booleans())
def test_fast_rows_are_the_plain_rows(block: Block, form: Form, offset_s: int, with_quality: bool) -> None:
    parts = list(block.columns.values())
    shown = (RowTime.END,) if block.begin is None else (RowTime.END, RowTime.BEGIN, RowTime.RESULT)
    options: dict[str, Any] = {
        "offset_s": offset_s,
        "times": shown,
        "position": block.position is not None,
        "with_quality": with_quality,
    }
    wanted = rows_plain(block, parts, form, **options)
    assert rows(block, parts, form, **options) == wanted
    assert rows(block, parts, form, **options) == wanted  # again, now that tables are filled


@given(blocks(), st.sampled_from([SWE, CSV, JSON]), st.integers(0, 2000))
def test_blocks_too_wide_to_be_padded_are_the_plain_rows(block: Block, form: Form, most_bytes: int) -> None:
    parts = list(block.columns.values())
    shown = (RowTime.END,) if block.begin is None else (RowTime.END, RowTime.BEGIN, RowTime.RESULT)
    options: dict[str, Any] = {"times": shown, "position": block.position is not None, "with_quality": True}
    with patch.object(table, "MAX_PADDED_BYTES", most_bytes), patch.object(table, "PLAIN_ROWS", 2):
        assert rows(block, parts, form, **options) == rows_plain(block, parts, form, **options)


@given(blocks(extras=False))
def test_texts_of_a_column_are_those_of_its_values(block: Block) -> None:
    for column in block.columns.values():
        if column.valid is None:
            wanted = [text_writer(column.kind, XML)(value).encode() for value in column.values.tolist()]
            assert value_texts(column, XML) == wanted


def expected(column: Column, row: int) -> Any:
    """The Python value of a cell, None where it is missing."""
    if column.valid is not None and not column.valid[row]:
        return None
    return column.values.tolist()[row]


def legal(text: str) -> str:
    """As an XML parser hands it over: what XML forbids replaced."""
    return "".join(
        c if c in "\t\n\r" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c >= "\U00010000" else "\ufffd"
        for c in text
    )


@given(blocks(extras=False), OFFSETS)
def test_swe_text_reads_back_bit_for_bit(block: Block, offset_s: int) -> None:
    document = b"<v>" + rows(block, list(block.columns.values()), SWE, offset_s=offset_s)[1:] + b"</v>"
    content = etree.fromstring(document).text
    assert content is not None
    lines = content.split("@")
    assert len(lines) == len(block)
    for i, line in enumerate(lines):
        time, *tokens = line.split(",")
        assert parse_instant(time, "time")[0] == block.end[i]
        assert len(tokens) == len(block.columns)
        for token, column in zip(tokens, block.columns.values(), strict=True):
            value = expected(column, i)
            if value is None:
                assert token == ("NaN" if column.kind in (ValueKind.NUMBER, ValueKind.INTEGER) else "")
            elif column.kind is ValueKind.NUMBER:
                assert bits(float(token)) == bits(value)
            elif column.kind is ValueKind.INTEGER:
                assert int(token) == value
            elif column.kind is ValueKind.BOOLEAN:
                assert token == str(value).lower()
            else:
                assert unquote(token, errors="strict") == legal(value)


@given(blocks(extras=False))
def test_json_rows_read_back_bit_for_bit(block: Block) -> None:
    text = rows(block, list(block.columns.values()), JSON)[2:].decode() + "]"
    read = json.loads(f"[{text}]")
    assert len(read) == len(block)
    for i, (_, *values) in enumerate(read):
        for found, column in zip(values, block.columns.values(), strict=True):
            value = expected(column, i)
            if column.kind is ValueKind.NUMBER and value is not None:
                assert bits(float(found)) == bits(value)
            elif column.kind is ValueKind.TEXT and value is not None:
                assert found == value.replace("\ud800", "\ufffd")
            else:
                assert found == value
                assert type(found) is type(value)


@given(blocks(extras=False))
def test_csv_rows_read_back(block: Block) -> None:
    text = rows(block, list(block.columns.values()), CSV)[1:].decode()
    read = list(csv.reader(io.StringIO(text, newline="")))
    assert len(read) == len(block)
    for i, (_, *fields) in enumerate(read):
        for found, column in zip(fields, block.columns.values(), strict=True):
            value = expected(column, i)
            if value is None:
                assert found == ""
            elif column.kind is ValueKind.NUMBER:
                assert bits(float(found)) == bits(value)
            elif column.kind is ValueKind.TEXT:
                # A text of printable characters is itself; what XML forbids is replaced in CSV, too.
                assert found == legal(value)
            else:
                assert found == str(value).lower()


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30), DECIMALS)
def test_digits_are_those_of_the_decimal(integers: list[int], decimals: int) -> None:
    texts = join_cells(number_cells(np.array(integers, np.int64), decimals)).decode().split(",")[1:]
    for text, integer in zip(texts, integers, strict=True):
        whole, _, fraction = text.partition(".")
        assert int(whole + fraction.ljust(decimals, "0")) == integer
        assert not fraction.endswith("0")
        assert text.startswith("-") == (integer < 0)
        assert not whole.lstrip("-").startswith("0") or whole.lstrip("-") == "0"


@given(st.integers(-(2**53) + 1, 2**53 - 1), DECIMALS)
def test_plain_decimals_are_the_shortest_texts(integer: int, decimals: int) -> None:
    array = np.array([integer], np.int64)
    if is_plain_decimal(array, decimals):
        assert join_cells(number_cells(array, decimals)).decode()[1:] == format_number(integer / 10**decimals)


@given(st.lists(DOUBLES, min_size=12, max_size=40))
def test_decimals_found_give_the_same_doubles(values: list[float]) -> None:
    array = np.array(values)
    found = find_decimals(array)
    if found is not None:
        scaled, decimals = found
        assert (scaled / 10.0**decimals).tobytes() == array.tobytes()


@given(DOUBLES)
def test_number_texts_read_back_as_the_same_bits(value: float) -> None:
    assert bits(float(format_number(value))) == bits(value)
    assert bits(float(json.loads(format_json_number(value)))) == bits(value)


@given(blocks(), OFFSETS, st.booleans())
def test_fast_observations_are_the_plain_ones(block: Block, offset_s: int, with_quality: bool) -> None:
    series = [
        om20.Kit(7, key, column.kind, "p", "<type/>", "<procedure/>", "<target/>", "<result>", "EPSG:4326", False)
        for key, column in block.columns.items()
    ]
    wanted = om20.observations_plain(block, series, offset_s, with_quality)
    assert om20.observations(block, series, offset_s, with_quality) == wanted


ID_TEXTS = st.one_of(st.text(max_size=8), st.text("_xX5FéA0: ", max_size=10))


@given(ID_TEXTS, ID_TEXTS)
def test_ids_are_valid_and_differ_as_their_texts_do(one: str, other: str) -> None:
    root = etree.fromstring(f'<a xmlns:xml="http://www.w3.org/XML/1998/namespace" xml:id="{ncname(one)}"/>')
    assert root.get("{http://www.w3.org/XML/1998/namespace}id") == ncname(one)
    etree.QName(ncname(one))  # refuses what is no NCName
    assert (ncname(one) == ncname(other)) == (one == other)
