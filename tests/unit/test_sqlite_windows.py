"""Windows and the splitting of chunks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.domain.blocks import Block, Column, ValueKind, constant_quality
from thalweg.store.sqlite.windows import MAX_CHUNK_ROWS, choose_window, split, window_start

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def ends(step: int, n: int, start: int = 0) -> np.ndarray:
    return np.arange(n, dtype=np.int64) * step + start


@pytest.mark.parametrize(
    ("step", "window"),
    [
        (10 * MINUTE, 7 * DAY),
        (MINUTE, 1008 * MINUTE),
        (HOUR, 42 * DAY),
        (DAY, 1008 * DAY),
        (SECOND, 17 * MINUTE),  # 1,008 s, to the minute
        (1000, MINUTE),  # a thousand a second: not below a minute
        (365 * DAY, 36_525 * DAY),  # yearly: not above a hundred years
    ],
)
def test_window_holds_about_a_thousand_rows(step: int, window: int) -> None:
    assert choose_window(ends(step, 50)) == window


def test_window_is_by_the_median_so_that_holes_and_repeats_do_not_count() -> None:
    times = np.sort(np.concatenate([ends(10 * MINUTE, 100), ends(10 * MINUTE, 100, 400 * DAY), ends(10 * MINUTE, 30)]))
    assert choose_window(times) == 7 * DAY


def test_few_rows_leave_it_to_the_declared_sampling() -> None:
    assert choose_window(ends(SECOND, 3), 10 * MINUTE) == 7 * DAY
    assert choose_window(ends(SECOND, 30), 10 * MINUTE) == 17 * MINUTE
    assert choose_window(ends(HOUR, 3)) == 42 * DAY
    assert choose_window(ends(HOUR, 1)) == 7 * DAY
    assert choose_window(ends(0, 5), None) == 7 * DAY


def test_windows_are_aligned_to_the_epoch_before_it_too() -> None:
    week = 7 * DAY
    assert window_start(0, week) == 0
    assert window_start(week - 1, week) == 0
    assert window_start(week, week) == week
    assert window_start(-1, week) == -week
    assert window_start(-week, week) == -week


def block(times: list[int]) -> Block:
    """Rows with rising result times, so that ends may repeat."""
    n = len(times)
    values = Column(ValueKind.NUMBER, np.arange(n, dtype=np.float64), None, constant_quality(100, n))
    return Block(np.array(times, np.int64), {1: values}, result_time=np.arange(n, dtype=np.int64))


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 3000)), min_size=1, max_size=12))
def test_split_keeps_rows_order_and_ends_together(groups: list[tuple[int, int]]) -> None:
    times = sorted(end for end, n in groups for _ in range(n))
    pieces = list(split(block(times)))
    assert [t for piece in pieces for t in piece.end.tolist()] == times
    assert all(len(piece) for piece in pieces)
    for piece in pieces:
        # More rows than a chunk may have only where one end has so many.
        counts = np.unique(piece.end, return_counts=True)[1]
        assert len(piece) <= MAX_CHUNK_ROWS or len(counts) == 1 or len(piece) - counts.max() < MAX_CHUNK_ROWS
    for one, two in pairwise(pieces):
        assert one.end[-1] < two.end[0]


def test_split_of_distinct_ends_is_even_and_bounded() -> None:
    pieces = list(split(block(list(range(10_000)))))
    assert [len(p) for p in pieces] == [3333, 3333, 3334]


def test_split_of_a_small_or_empty_block() -> None:
    assert list(split(block([]))) == []
    assert [len(p) for p in split(block([5] * 10))] == [10]
    assert [len(p) for p in split(block([5] * 9000))] == [9000]
