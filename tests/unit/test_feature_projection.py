"""Positions from one CRS to another."""

from __future__ import annotations

import numpy as np
import pytest
from pyproj import Transformer

from thalweg.domain.errors import InvalidParameter
from thalweg.services.feature_projection import move


def test_mercator_is_that_of_the_general_way() -> None:
    rng = np.random.default_rng(5)
    positions = np.column_stack((rng.uniform(-180, 180, 2_000), rng.uniform(-89, 89, 2_000)))
    positions[:4] = [[0, 0], [180, 0], [-180, 85.0511287798066], [7.4474, 46.9481]]
    x, y = Transformer.from_crs(4326, 3857, always_xy=True).transform(positions[:, 0], positions[:, 1])
    # Half of the last decimal that is written, and a little for the arithmetic.
    assert np.abs(move(positions, 4326, 3857) - np.column_stack((x, y))).max() < 0.51e-4
    # By hand: 7.4474 / 180 * 6378137 pi.
    assert move(positions[3:4], 4326, 3857)[0, 0] == 829_040.7757


@pytest.mark.parametrize("target", [3857, 2056, 4258])
def test_nothing_between_runs_stays_nothing(target: int) -> None:
    positions = np.array([[7.4, 46.9], [np.nan, np.nan], [7.5, 47.0]])
    moved = move(positions, 4326, target)
    assert np.isnan(moved[1]).all()
    assert np.isfinite(moved[[0, 2]]).all()
    assert (moved[[0, 2]] == move(positions[[0, 2]], 4326, target)).all()


def test_position_that_cannot_be_expressed_is_named() -> None:
    with pytest.raises(InvalidParameter, match=r"12\.0 91\.0") as error:
        move(np.array([[7.4, 46.9], [12.0, 91.0]]), 4326, 3857, "crs")
    assert error.value.parameter == "crs"
