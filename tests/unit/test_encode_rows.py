"""Rows of blocks, against texts worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from thalweg.domain.blocks import Block, Column, ValueKind, constant_quality
from thalweg.domain.time import parse_instant
from thalweg.encode import lookup, table
from thalweg.encode.form import CSV, JSON, SWE, XML, Form
from thalweg.encode.table import RowTime, rows, rows_plain, value_texts


def times(*texts: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array([parse_instant(text, "time")[0] for text in texts], np.int64)


def scaled(values: list[int], decimals: int, quality: int = 100) -> Column:
    return Column(
        ValueKind.NUMBER,
        None,
        None,
        constant_quality(quality, len(values)),
        scaled=np.array(values, np.int32),
        decimals=decimals,
    )


def both(block: Block, form: Form, **options: Any) -> str:
    """The rows, after seeing that the fast and the plain writer agree."""
    columns = list(block.columns.values())
    fast = rows(block, columns, form, **options)
    assert fast == rows_plain(block, columns, form, **options)
    return fast.decode()


BLOCK_TIMES = ("2014-06-01T23:50:00Z", "2014-06-02T00:00:00Z")


def test_rows_of_scaled_numbers() -> None:
    block = Block(times(*BLOCK_TIMES), {1: scaled([214, -5], 1), 2: scaled([690, 0], 2)})
    assert both(block, SWE) == "@2014-06-01T23:50:00Z,21.4,6.9@2014-06-02T00:00:00Z,-0.5,0"
    assert both(block, CSV) == "\n2014-06-01T23:50:00Z,21.4,6.9\n2014-06-02T00:00:00Z,-0.5,0"
    assert both(block, JSON) == '],["2014-06-01T23:50:00Z",21.4,6.9],["2014-06-02T00:00:00Z",-0.5,0'


@pytest.mark.parametrize(
    ("offset_s", "first"),
    [
        (7200, "2014-06-02T01:50:00+02:00"),
        (-12600, "2014-06-01T20:20:00-03:30"),
        (20700, "2014-06-02T05:35:00+05:45"),
        (50400, "2014-06-02T13:50:00+14:00"),
    ],
)
def test_times_are_written_in_the_zone_asked_for(offset_s: int, first: str) -> None:
    block = Block(times(*BLOCK_TIMES), {1: scaled([1, 2], 0)})
    assert both(block, SWE, offset_s=offset_s).startswith(f"@{first},1@2014-06-0")


def test_seconds_and_fractions_are_kept() -> None:
    end = times(
        "2014-06-01T00:00:00Z", "2014-06-01T00:00:07Z", "2014-06-01T00:00:07.25Z", "2014-06-01T00:00:08.000001Z"
    )
    block = Block(end, {1: scaled([1, 2, 3, 4], 0)})
    assert both(block, SWE) == (
        "@2014-06-01T00:00:00Z,1@2014-06-01T00:00:07Z,2@2014-06-01T00:00:07.25Z,3@2014-06-01T00:00:08.000001Z,4"
    )
    assert both(block.take(slice(0, 2)), SWE) == "@2014-06-01T00:00:00Z,1@2014-06-01T00:00:07Z,2"


def test_first_and_last_instants_of_the_calendar() -> None:
    block = Block(
        times("0001-01-01T00:00:00Z", "1899-12-31T23:59:00Z", "9999-12-31T23:59:59Z"), {1: scaled([1, 2, 3], 0)}
    )
    assert both(block, SWE) == "@0001-01-01T00:00:00Z,1@1899-12-31T23:59:00Z,2@9999-12-31T23:59:59Z,3"
    # An hour west of the first instant there is no year to write; such a row is in UTC.
    assert both(block, SWE, offset_s=-3600) == (
        "@0001-01-01T00:00:00Z,1@1899-12-31T22:59:00-01:00,2@9999-12-31T22:59:59-01:00,3"
    )


def test_missing_values_have_a_text_by_kind_and_form() -> None:
    block = Block(
        times(*BLOCK_TIMES),
        {
            1: Column.of(ValueKind.NUMBER, [1.5, None], 210),
            2: Column.of(ValueKind.INTEGER, [7, None], 210),
            3: Column.of(ValueKind.TEXT, ["a", None], 210),
            4: Column.of(ValueKind.BOOLEAN, [True, None], 210),
        },
    )
    assert both(block, SWE).endswith("Z,1.5,7,a,true@2014-06-02T00:00:00Z,NaN,NaN,,")
    assert both(block, CSV).endswith("Z,1.5,7,a,true\n2014-06-02T00:00:00Z,,,,")
    assert both(block, JSON).endswith('Z",1.5,7,"a",true],["2014-06-02T00:00:00Z",null,null,null,null')
    assert both(block, SWE, with_quality=True).endswith(
        "Z,1.5,210,7,210,a,210,true,210@2014-06-02T00:00:00Z,NaN,-100,NaN,-100,,-100,,-100"
    )


def test_gaps_in_scaled_columns_hide_whatever_integers_lie_there() -> None:
    valid = np.array([False, True])
    column = Column(
        ValueKind.NUMBER, None, valid, constant_quality(100, 2), scaled=np.array([2**52, 15], np.int64), decimals=1
    )
    assert both(Block(times(*BLOCK_TIMES), {1: column}), SWE) == "@2014-06-01T23:50:00Z,NaN@2014-06-02T00:00:00Z,1.5"


def test_qualities_of_all_lengths() -> None:
    codes = [0, 100, -100, 32767, -32768, 7]
    block = Block(
        times(*[f"2014-06-01T00:0{i}:00Z" for i in range(6)]),
        {1: Column.of(ValueKind.INTEGER, [1] * 6, codes), 2: scaled([2] * 6, 0, quality=-7)},
    )
    wanted = "".join(f"@2014-06-01T00:0{i}:00Z,1,{code},2,-7" for i, code in enumerate(codes))
    assert both(block, SWE, with_quality=True) == wanted


@pytest.mark.parametrize("decimals", range(6))
def test_numbers_at_the_edges_of_the_table(decimals: int) -> None:
    last = lookup.LOWEST + lookup.SIZE - 1
    values = [lookup.LOWEST - 1, lookup.LOWEST, -1, 0, 1, last, last + 1, 2**31 - 1, -(2**31)]
    for value in values:
        block = Block(times("2014-06-01T00:00:00Z"), {1: scaled([value], decimals)})
        text = both(block, SWE).partition(",")[2]
        assert float(text) == value / 10**decimals
        assert text == repr(value / 10**decimals).removesuffix(".0")


def test_integers_beyond_doubles_are_exact() -> None:
    values = [2**53 + 1, -(2**63), 2**63 - 1, 0, 10_000, 100_000_000, 10**16, -10_001]
    block = Block(times(*[f"2014-06-01T00:0{i}:00Z" for i in range(8)]), {1: Column.of(ValueKind.INTEGER, values)})
    assert [int(row.partition(",")[2]) for row in both(block, SWE).split("@")[1:]] == values


def test_interval_result_time_and_position_follow_the_time() -> None:
    block = Block(
        times(*BLOCK_TIMES),
        {1: scaled([1, 2], 0)},
        begin=times("2014-06-01T23:40:00Z", "2014-06-01T00:00:00Z"),
        result_time=times("2014-06-03T00:00:00Z", "2014-06-02T12:00:00Z"),
        position=np.array([[8.5, 46.25, np.nan], [np.nan, np.nan, np.nan]]),
    )
    shown = (RowTime.END, RowTime.BEGIN, RowTime.RESULT)
    assert both(block, SWE, times=shown, position=True) == (
        "@2014-06-01T23:50:00Z,2014-06-01T23:40:00Z,2014-06-03T00:00:00Z,8.5,46.25,NaN,1"
        "@2014-06-02T00:00:00Z,2014-06-01T00:00:00Z,2014-06-02T12:00:00Z,NaN,NaN,NaN,2"
    )
    assert both(block.take(slice(0, 1)), JSON, times=shown, position=True) == (
        '],["2014-06-01T23:50:00Z","2014-06-01T23:40:00Z","2014-06-03T00:00:00Z",8.5,46.25,null,1'
    )


def test_position_asked_of_a_block_without_any_is_missing() -> None:
    block = Block(times(BLOCK_TIMES[0]), {1: scaled([1], 0)})
    assert both(block, SWE, position=True) == "@2014-06-01T23:50:00Z,NaN,NaN,NaN,1"


def test_constant_parts_stand_among_columns() -> None:
    block = Block(times(*BLOCK_TIMES), {1: scaled([1, 2], 0)})
    parts = [b",P1", b",x", block.columns[1], b",,"]
    assert rows(block, parts, CSV) == rows_plain(block, parts, CSV)
    assert rows(block, parts, CSV) == b"\n2014-06-01T23:50:00Z,P1,x,1,,\n2014-06-02T00:00:00Z,P1,x,2,,"


def test_many_columns_at_once_are_the_same_as_one_by_one() -> None:
    generator = np.random.default_rng(3)
    n = 144
    columns = {
        j: Column(
            ValueKind.NUMBER,
            None,
            None,
            constant_quality(210, n) if j % 2 else generator.integers(-32768, 32767, n).astype(np.int16),
            scaled=generator.integers(-3000, 9000, n).astype(np.int16 if j % 3 else np.int64),
            decimals=j % 5,
        )
        for j in range(10)
    }
    block = Block(times("2014-05-01T00:00:00Z")[0] + np.arange(n) * 600_000_000, columns)
    for _ in range(2):  # before and after the table is filled
        both(block, SWE, with_quality=True)
        both(block, SWE)


def test_constant_qualities_that_can_change_are_read_each_time() -> None:
    codes = np.full(2, 210, np.int16)
    block = Block(times(*BLOCK_TIMES), {1: Column(ValueKind.INTEGER, np.array([1, 2]), None, codes[:])})
    assert both(block, SWE, with_quality=True).endswith("Z,2,210")
    codes[1] = 100
    assert both(block, SWE, with_quality=True).endswith("Z,2,100")


@pytest.mark.parametrize("texts", [["x" * 90], ["x" * 30, "y" * 30, "z" * 30]])
def test_very_long_texts_do_not_pad_all_rows(monkeypatch: pytest.MonkeyPatch, texts: list[str]) -> None:
    plain: list[Block] = []

    def noted(block: Block, *args: Any, **options: Any) -> bytes:
        plain.append(block)
        return rows_plain(block, *args, **options)

    monkeypatch.setattr(table, "MAX_PADDED_BYTES", 150)
    monkeypatch.setattr(table, "rows_plain", noted)
    block = Block(times(*BLOCK_TIMES), {i: Column.of(ValueKind.TEXT, [text, "-"]) for i, text in enumerate(texts)})
    wanted = f"@2014-06-01T23:50:00Z,{','.join(texts)}@2014-06-02T00:00:00Z{',-' * len(texts)}"
    assert both(block, SWE) == wanted
    assert plain == [block]


def test_only_the_rows_around_a_very_long_text_are_written_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    plain: list[int] = []

    def noted(block: Block, *args: Any, **options: Any) -> bytes:
        plain.append(len(block))
        return rows_plain(block, *args, **options)

    monkeypatch.setattr(table, "MAX_PADDED_BYTES", 100_000)
    monkeypatch.setattr(table, "rows_plain", noted)
    n = 1000
    end = np.arange(n, dtype=np.int64) * 60_000_000
    block = Block(end, {1: Column.of(ValueKind.TEXT, ["x" * 5000] + ["-"] * (n - 1)), 2: scaled([5] * n, 1)})
    both(block, SWE)
    assert len(plain) == 1
    assert plain[0] <= table.PLAIN_ROWS


def test_empty_block_has_no_rows() -> None:
    block = Block(np.empty(0, np.int64), {1: Column.of(ValueKind.NUMBER, [])})
    assert rows(block, list(block.columns.values()), SWE) == b""
    assert value_texts(block.columns[1], XML) == []


def test_table_gives_up_on_columns_spread_too_widely() -> None:
    # As many segments as rows: writing digits is cheaper than filling the table for them.
    values = [lookup.LOWEST + i * lookup.SEGMENT + 3 for i in range(3 * lookup.NEW_SEGMENTS)]
    source = lookup.Indexed(np.array(values), 4)
    assert lookup.short_cells(source, None, "NaN") is None
    assert lookup.short_cells(lookup.Indexed(np.array(values[:1]), 4), None, "NaN") is not None


def test_values_seen_for_the_first_time_are_written_like_others() -> None:
    # No table is filled for four decimals before: the quick way finds that out from the text, and then never again.
    end = np.arange(3, dtype=np.int64) * 60_000_000
    for shift in (0, 0, 5000, -20_000):
        column = Column(
            ValueKind.NUMBER, None, None, constant_quality(100, 3),
            scaled=np.array([1 + shift, 12_345 + shift, -7 + shift], np.int16), decimals=4,
        )  # fmt: skip
        block = Block(end, {1: column})
        assert rows(block, [column], SWE) == rows_plain(block, [column], SWE)


def test_warming_up_fills_what_ordinary_values_need() -> None:
    table.warm_up()
    column = scaled([-4096, 0, 12_287], 2)
    assert column.scaled is not None
    assert lookup.scaled_cells(column.scaled.astype(np.int16), 2) is not None
    assert lookup.scaled_cells(column.scaled, 2) is not None
