"""Columns of many values come out as cell by cell, whichever way they are converted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.domain.table_values import BadValue, FieldType
from thalweg.domain.tables import BadRecord, Field
from thalweg.store.sqlite.table_batches import batch_maker, make_batch
from thalweg.store.sqlite.table_cells import loader, texter

NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.integers(-99, 99).map(str),
    st.floats().map(repr),
    st.sampled_from(
        ["", "+5", "-0", "-0.0", "007", "1_000", " 1", "1 ", "٣", "1e400", "nan", "inf", "1.", ".5", "5-3", "--1"]
    ),
    st.from_regex(r"[+-]?[0-9]{1,25}(\.[0-9]{0,5})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)
STAMPS = st.one_of(
    st.datetimes().map(lambda t: t.isoformat()),
    st.datetimes().map(lambda t: t.replace(microsecond=0).isoformat(" ")),
    st.datetimes().map(lambda t: t.isoformat()[:16]),
    st.dates().map(str),
    st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2})?)?", fullmatch=True),
    st.sampled_from(
        ["", "2020-01-01T24:00:00", "2020-01-01T00:00:60", "0000-01-01", "0001-01-01", "9999-12-31T23:59:59"]
    ),
    st.text("0123456789-:T ", min_size=10, max_size=19),
)
TEXTS = st.one_of(st.text(), st.sampled_from(["", "a\0b", "\ud800"]))
VALUES = st.one_of(NUMBERS, STAMPS, TEXTS, st.none(), st.integers(), st.booleans())
KINDS = st.sampled_from(list(FieldType))


def plainly(field: Field, values: list[Any]) -> tuple[list[Any], list[Any]] | int:
    """Cell by cell; the place of the one at fault."""
    load, text = loader(field), texter(field)
    bound: list[Any] = []
    for value in values:
        try:
            bound.append(load(value))
        except BadValue:
            return len(bound)
    return bound, bound if text is None else [text(value) for value in bound]


def check(field: Field, values: list[Any]) -> None:
    expected = plainly(field, values)
    if isinstance(expected, int):
        with pytest.raises(BadRecord) as caught:
            make_batch((field,), (values,))
        assert caught.value.row == expected
        return
    batch = batch_maker((field,))((values,))
    assert batch.length == len(values)
    assert list(map(repr, batch.columns[0])) == list(map(repr, expected[0]))
    texts = batch.texts[0]
    assert list(batch.columns[0] if texts is None else texts) == expected[1]


@given(kind=KINDS, is_array=st.booleans(), values=st.lists(VALUES, max_size=6))
def test_anything_is_converted_as_cell_by_cell(kind: FieldType, is_array: bool, values: list[Any]) -> None:
    check(Field("f", kind, is_array, 1), values)


@given(kind=st.sampled_from([FieldType.INT4, FieldType.INT8, FieldType.FLOAT8]), values=st.lists(NUMBERS, max_size=6))
def test_numbers_are_converted_as_cell_by_cell(kind: FieldType, values: list[Any]) -> None:
    check(Field("f", kind, False, 1), values)


@given(values=st.lists(STAMPS, max_size=4))
def test_instants_are_converted_as_cell_by_cell(values: list[Any]) -> None:
    check(Field("f", FieldType.TIMESTAMP, False, 1), values)


def test_plain_columns_by_hand() -> None:
    batch = make_batch(
        tuple(Field(kind.value, kind) for kind in (FieldType.INT4, FieldType.FLOAT8, FieldType.TIMESTAMP)),
        (["1", "", "-3"], ["1.50", "-0.0", None], ["2020-01-01T00:00:00", "1970-01-01 00:00:01", ""]),
    )  # fmt: skip
    assert batch.columns == [[1, None, -3], [1.5, -0.0, None], [1_577_836_800_000_000, 1_000_000, None]]
    assert str(batch.columns[1][1]) == "-0.0"
    assert batch.texts == [
        ["1", None, "-3"],
        ["1.5", "-0.0", None],
        ["2020-01-01T00:00:00.000", "1970-01-01T00:00:01.000", None],
    ]
