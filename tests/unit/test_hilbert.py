"""The Hilbert order of boxes."""

from __future__ import annotations

import numpy as np
import pytest

from thalweg.domain.hilbert import hilbert_order


def _points(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.column_stack((x, y, x, y)).astype(np.float64)


@pytest.mark.parametrize("side", [2, 4, 16])
def test_along_the_curve_each_cell_of_a_grid_touches_the_next(side: int) -> None:
    # What defines the curve: it goes through all cells, from each to one beside it.
    x, y = (axis.ravel() for axis in np.meshgrid(np.arange(side), np.arange(side)))
    shuffled = np.random.default_rng(1).permutation(side * side)
    x, y = x[shuffled], y[shuffled]
    order = hilbert_order(_points(x, y))
    assert sorted(order.tolist()) == list(range(side * side))
    steps = np.abs(np.diff(x[order])) + np.abs(np.diff(y[order]))
    assert (steps == 1).all()


def test_boxes_go_by_their_centres() -> None:
    boxes = np.array([[0, 0, 10, 10], [4, 4, 6, 6], [5, 5, 5, 5], [90, 90, 110, 110]], np.float64)
    # Three have one centre and stay in the order they came in.
    assert hilbert_order(boxes).tolist() in ([0, 1, 2, 3], [3, 0, 1, 2])


def test_one_place_one_box_and_none_are_in_order() -> None:
    assert hilbert_order(np.zeros((3, 4))).tolist() == [0, 1, 2]
    assert hilbert_order(np.zeros((1, 4))).tolist() == [0]
    assert hilbert_order(np.empty((0, 4))).tolist() == []
    # Too large a span for a float: no order, no error.
    wide = np.array([[-1.7e308] * 4, [1.7e308] * 4])
    with np.errstate(over="ignore"):
        assert hilbert_order(wide).tolist() == [0, 1]
