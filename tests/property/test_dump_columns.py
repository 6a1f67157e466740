"""Dumps are written by whole columns: what they say is what the same rows say cell by cell."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from thalweg.domain.table_columns import column_texts, stamp_texts
from thalweg.domain.table_values import FieldType, as_text, format_stamp, format_stamptz
from thalweg.domain.tables import Field, Table
from thalweg.doors.ckan.dump import _WRITERS
from thalweg.doors.ckan.rows import RowWriter

FIRST_US = -62_135_596_800_000_000
LAST_US = 253_402_300_799_999_999
TEXTS = st.text(st.sampled_from("ab,;\"'\t\n\r <>&][\\ \0\x1fé\u2028\ufffe"), max_size=8) | st.sampled_from(
    ["],[", "null", "None", "[[1],[2]]", "%s", "</row>", ""]
)
INSTANTS = st.one_of(
    st.integers(FIRST_US, LAST_US),
    st.integers(FIRST_US // 1_000_000, LAST_US // 1_000_000).map(lambda s: s * 1_000_000),
    st.integers(1_577_836_800_000, 1_577_923_200_000).map(lambda ms: ms * 1_000),
)
CELLS: dict[tuple[FieldType, bool], st.SearchStrategy[Any]] = {
    (FieldType.TEXT, False): TEXTS,
    (FieldType.INT4, False): st.integers(-(1 << 31), (1 << 31) - 1),
    (FieldType.INT8, False): st.integers(-(1 << 63), (1 << 63) - 1),
    (FieldType.FLOAT8, False): st.floats(allow_nan=False, allow_infinity=False) | st.just(-0.0),
    (FieldType.NUMERIC, False): st.decimals(-1000, 1000, places=3) | st.just(Decimal("0.000000001")),
    (FieldType.BOOL, False): st.booleans(),
    (FieldType.DATE, False): st.dates().map(lambda day: day.isoformat()),
    (FieldType.TIME, False): st.times().map(lambda clock: clock.isoformat()),
    (FieldType.TIMESTAMP, False): INSTANTS,
    (FieldType.TIMESTAMPTZ, False): INSTANTS,
    (FieldType.JSON, False): st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | TEXTS, lambda x: st.lists(x, max_size=3), max_leaves=5
    ).map(lambda value: orjson.dumps(value).decode()),
    (FieldType.TEXT, True): st.lists(st.none() | TEXTS, max_size=3).map(lambda value: orjson.dumps(value).decode()),
}
KINDS = st.sampled_from(list(CELLS))


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Field], list[tuple[Any, ...]]]:
    kinds = draw(st.lists(KINDS, min_size=1, max_size=4))
    fields = [Field(f"f%{i} é", kind, is_array, number=i) for i, (kind, is_array) in enumerate(kinds, 1)]
    with_nulls = draw(st.booleans())
    row = st.tuples(*((st.none() | CELLS[kind]) if with_nulls else CELLS[kind] for kind in kinds))
    return fields, draw(st.lists(row, min_size=1, max_size=12))


def plain(field: Field, cell: Any) -> str:
    return "" if cell is None else cell if isinstance(cell, str) else as_text(field.kind, field.is_array, cell)


@settings(max_examples=150, deadline=None)
@given(tables(), st.sampled_from([",", "\t"]), st.booleans())
def test_lines_are_those_of_the_csv_module(
    made: tuple[list[Field], list[tuple[Any, ...]]], delimiter: str, with_id: bool
) -> None:
    fields, rows = made
    names = [field.name for field in fields]
    shown = [[plain(field, cell) for field, cell in zip(fields, row, strict=True)] for row in rows]
    if with_id:
        names.insert(0, "_id")
        rows = [(number, *row) for number, row in enumerate(rows, 1)]
        shown = [[str(number), *row] for number, row in enumerate(shown, 1)]
    lines = ""
    for row in shown:
        buffer = io.StringIO()
        # The module quotes a carriage return only where one is in the end of a line.
        csv.writer(buffer, delimiter=delimiter, lineterminator="\r\n").writerow(row)
        lines += buffer.getvalue().removesuffix("\r\n") + "\n"
    writer = RowWriter(Table(1, "", 1, 1, fields=tuple(fields)), names)
    assert writer.delimited_columns(list(zip(*rows, strict=True)), delimiter) == lines


@settings(max_examples=150, deadline=None)
@given(tables())
def test_json_and_xml_hold_the_rows(made: tuple[list[Field], list[tuple[Any, ...]]]) -> None:
    fields, rows = made
    table = Table(1, "", 1, 1, fields=tuple(fields))
    names = ["_id", *(field.name for field in fields)]
    numbered = [(number, *row) for number, row in enumerate(rows, 1)]
    blocks = [numbered[:7], numbered[7:]] if len(numbered) > 7 else [numbered]
    columns = [list(zip(*block, strict=True)) for block in blocks]

    writer = RowWriter(table, names)
    text = b"".join(_WRITERS["json"](table, writer, iter(columns), False))
    lines = [orjson.dumps(row) for row in writer.lists(numbered)]
    assert text.endswith(b'\n  "records": [\n    ' + b",\n    ".join(lines) + b"\n]}\n")

    root = etree.fromstring(b"".join(_WRITERS["xml"](table, writer, iter(columns), False)))
    assert [row.get("_id") for row in root] == [str(number) for number, *_ in numbered]
    for element, row in zip(root, rows, strict=True):
        for child, field, cell in zip(element, fields, row, strict=True):
            is_nil = child.get("{http://www.w3.org/2001/XMLSchema-instance}nil") == "true"
            assert is_nil == (cell is None)
            if not field.is_array and field.kind is not FieldType.JSON:
                allowed = plain(field, cell)
                if field.kind is FieldType.BOOL:
                    allowed = {"t": "True", "f": "False"}.get(allowed, "")
                for sign in "\0\x1f\ufffe":
                    allowed = allowed.replace(sign, "\ufffd")
                assert (child.text or "") == allowed


@settings(max_examples=150, deadline=None)
@given(KINDS, st.data())
def test_a_column_is_its_cells(kind: tuple[FieldType, bool], data: st.DataObject) -> None:
    cells = data.draw(st.lists(st.none() | CELLS[kind], max_size=40))
    assert column_texts(*kind, cells) == [plain(Field("f", *kind), cell) for cell in cells]


def test_instants_over_a_long_time() -> None:
    # One a day and an hour over 2,700 years, and many of one day.
    for instants in (
        range(FIRST_US, LAST_US, 90_000_000_000 * 365),
        range(1_600_000_000_000_000, 1_600_000_100_000_000, 50_000),
    ):
        instants_list = [us - us % 1_000_000 for us in instants][:30_000]
        assert stamp_texts(FieldType.TIMESTAMP, instants_list) == list(map(format_stamp, instants_list))
        assert stamp_texts(FieldType.TIMESTAMPTZ, instants_list) == list(map(format_stamptz, instants_list))
