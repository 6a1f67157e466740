"""Cells of files: exact values, markers, refusals."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.domain.blocks import ValueKind
from thalweg.loading.cells import CellFormat, read_cells, read_qualities
from thalweg.loading.findings import Kind

NUMBER = CellFormat(ValueKind.NUMBER)


def bits(value: float) -> bytes:
    return struct.pack("<d", value)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=50))
def test_numbers_come_back_bit_for_bit(numbers: list[float]) -> None:
    cells = read_cells([repr(number) for number in numbers], NUMBER)
    assert [bits(value) for value in cells.values.tolist()] == [bits(number) for number in numbers]
    assert cells.valid.all()


@pytest.mark.parametrize(
    "text", ["1", "1.", ".5", "+1", "-0", "1e3", "1E-3", " 1.5 ", "0001", "5e-324", "1.7976931348623157e308"]
)
def test_plain_numbers_are_read_as_float_reads_them(text: str) -> None:
    assert bits(read_cells([text], NUMBER).values[0]) == bits(float(text))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x", Kind.UNREADABLE_NUMBER), ("1,5", Kind.UNREADABLE_NUMBER), ("1_000", Kind.UNREADABLE_NUMBER),
        ("0x10", Kind.UNREADABLE_NUMBER), ("١٢", Kind.UNREADABLE_NUMBER), ("1 2", Kind.UNREADABLE_NUMBER),
        ("1e", Kind.UNREADABLE_NUMBER), ("--1", Kind.UNREADABLE_NUMBER), ("nan", Kind.NOT_FINITE),
        ("NaN", Kind.NOT_FINITE), ("-inf", Kind.NOT_FINITE), ("Infinity", Kind.NOT_FINITE), ("1e400", Kind.NOT_FINITE),
        ("-1e400", Kind.NOT_FINITE),
    ],
)  # fmt: skip
def test_other_texts_are_refused_and_spoil_nothing(text: str, kind: Kind) -> None:
    cells = read_cells(["1.5", text, "", "2.5"], NUMBER)
    assert cells.rejected == [(1, kind)]
    assert cells.empty == [2]
    assert cells.valid.tolist() == [True, False, False, True]
    assert cells.values[[0, 3]].tolist() == [1.5, 2.5]
    assert math.isnan(cells.values[1])


def test_markers_are_missing_in_any_spelling_of_the_same_number() -> None:
    format = CellFormat(ValueKind.NUMBER, frozenset({"-999.9", "---"}))
    cells = read_cells(["-999.9", "-999.90", " -999.9", "---", "-999.91", "1"], format)
    assert cells.marked == [0, 1, 2, 3]
    assert cells.valid.tolist() == [False] * 4 + [True] * 2


def test_a_declared_nan_is_a_marker() -> None:
    cells = read_cells(["NaN", "1"], CellFormat(ValueKind.NUMBER, frozenset({"NaN"})))
    assert cells.marked == [0]
    assert cells.rejected == []


def test_undeclared_markers_are_suspected_and_kept() -> None:
    cells = read_cells(["1", "-999.9", "-9999"], NUMBER)
    assert cells.suspected == [1, 2]
    assert cells.valid.all()
    assert cells.values.tolist() == [1.0, -999.9, -9999.0]


def test_decimal_comma_is_read_and_a_point_beside_it_refused() -> None:
    format = CellFormat(ValueKind.NUMBER, frozenset({"-999,9"}), decimal_comma=True)
    assert read_cells(["1,5", "-0,25"], format).values.tolist() == [1.5, -0.25]
    cells = read_cells(["1,5", "1.234", "1.234,5", "-999,90"], format)
    assert cells.rejected == [(1, Kind.UNREADABLE_NUMBER), (2, Kind.UNREADABLE_NUMBER)]
    assert cells.marked == [3]


def test_integers_are_exact_and_bounded_by_64_bits() -> None:
    texts = ["9007199254740993", str(2**63 - 1), str(-(2**63)), str(2**63), "1.0", "9" * 5000, "", "٣"]
    cells = read_cells(texts, CellFormat(ValueKind.INTEGER))
    assert cells.values[:3].tolist() == [2**53 + 1, 2**63 - 1, -(2**63)]
    assert cells.rejected == [
        (3, Kind.OUT_OF_RANGE), (4, Kind.UNREADABLE_NUMBER), (5, Kind.OUT_OF_RANGE), (7, Kind.UNREADABLE_NUMBER),
    ]  # fmt: skip
    assert cells.empty == [6]


def test_booleans_and_texts() -> None:
    cells = read_cells(["true", "NO", "1", "maybe", ""], CellFormat(ValueKind.BOOLEAN))
    assert cells.values[:3].tolist() == [True, False, True]
    assert cells.rejected == [(3, Kind.UNREADABLE_VALUE)]
    cells = read_cells([" snow ", "", "NA", "x" * 65_536, "x" * 65_537], CellFormat(ValueKind.TEXT, frozenset({"NA"})))
    assert cells.values[0] == " snow "
    assert (cells.empty, cells.marked, cells.rejected) == ([1], [2], [(4, Kind.OUT_OF_RANGE)])
    assert cells.valid.tolist() == [True, False, False, True, False]


def test_qualities_default_where_empty_and_are_bounded() -> None:
    codes, bad = read_qualities(["110", "", "-110", "40000", "good", "32767"], 100)
    assert codes[[0, 1, 2, 5]].tolist() == [110, 100, -110, 32767]
    assert bad == [3, 4]


@pytest.mark.parametrize("text", ["a\x00b", "\x1b[31m", "\ufffe", "\ud800"])
def test_texts_that_no_store_takes_are_refused_one_by_one(text: str) -> None:
    cells = read_cells(["rain", text, "snow\tshower"], CellFormat(ValueKind.TEXT))
    assert cells.rejected == [(1, Kind.UNREADABLE_VALUE)]
    assert cells.values[[0, 2]].tolist() == ["rain", "snow\tshower"]
