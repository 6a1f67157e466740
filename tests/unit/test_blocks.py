"""Columns and blocks."""

import numpy as np
import pytest

from thalweg.domain import blocks
from thalweg.domain.blocks import Block, Column, ValueKind, constant_quality


def test_scaled_values_are_the_doubles_nearest_to_their_decimals() -> None:
    scaled = np.array([1, 3, 69, -123456789, 2**53 - 1], np.int64)
    column = Column(ValueKind.NUMBER, None, None, constant_quality(100, 5), scaled=scaled, decimals=1)
    assert column.values.tolist() == [0.1, 0.3, 6.9, -12345678.9, 900719925474099.1]


def test_missing_scaled_values_are_nan() -> None:
    valid = np.array([True, False])
    column = Column(
        ValueKind.NUMBER, None, valid, constant_quality(100, 2), scaled=np.array([5, 77], np.int16), decimals=0
    )
    assert column.values[0] == 5.0
    assert np.isnan(column.values[1])


def test_a_column_needs_values() -> None:
    with pytest.raises(ValueError, match="scaled"):
        Column(ValueKind.NUMBER, None, None, constant_quality(100, 1))


def test_a_column_of_python_values_marks_what_is_missing() -> None:
    column = Column.of(ValueKind.TEXT, ["a", None, ""], [100, 100, 110])
    assert column.values.tolist() == ["a", "", ""]
    assert column.valid is not None
    assert column.valid.tolist() == [True, False, True]
    assert column.quality.tolist() == [100, 100, 110]
    assert Column.of(ValueKind.INTEGER, [2**53 + 1]).values.tolist() == [2**53 + 1]


def test_constant_quality_is_shared_and_read_only() -> None:
    first, second = constant_quality(210, 10), constant_quality(210, 144)
    assert second.tolist() == [210] * 144
    assert np.shares_memory(first, second)
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1


def test_taking_rows_keeps_all_arrays_in_step() -> None:
    end = np.array([10, 20, 20, 30], np.int64)
    block = Block(
        end,
        {7: Column.of(ValueKind.NUMBER, [1.0, None, 3.0, 4.0])},
        begin=end - 5,
        result_time=end + np.array([0, 1, 2, 3]),
        position=np.arange(12.0).reshape(4, 3),
    )
    part = block.take(np.array([False, True, True, False]))
    assert [part.key(i) for i in range(len(part))] == [(20, 15, 21), (20, 15, 22)]
    assert part.position is not None
    assert part.position.tolist() == [[3.0, 4.0, 5.0], [6.0, 7.0, 8.0]]
    assert part.values_present() == 1
    assert block.values_present() == 3
    reverse = block.take(slice(None, None, -1))
    assert reverse.end.tolist() == [30, 20, 20, 10]


def test_constant_qualities_that_are_kept_are_few() -> None:
    for code in range(1000, 1500):
        assert constant_quality(code, 3).tolist() == [code] * 3
    assert len(blocks._constants) <= blocks._MAX_CONSTANTS
