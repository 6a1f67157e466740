"""Boxes of geometries that are to be stored are those that the geometry library finds, whichever way they are found."""

from __future__ import annotations

import numpy as np
import pytest
import shapely

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.features import GeometryKind, Layer
from thalweg.store.sqlite.layer_checks import check_geometries


def layer(dimensions: int) -> Layer:
    return Layer(1, "", 1, "roads", geometry_kind=GeometryKind.LINESTRING, dimensions=dimensions)


def lines(dimensions: int) -> list[bytes | None]:
    random = np.random.default_rng(7)
    made = [shapely.LineString(random.uniform(-90, 90, (count, dimensions))) for count in (2, 9, 2, 700, 3)]
    return list(shapely.to_wkb(np.array(made), flavor="iso", byte_order=1))


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("missing", [False, True])
def test_boxes_of_lines(dimensions: int, missing: bool) -> None:
    items = [*lines(dimensions), *([None] if missing else [])]
    expected = shapely.bounds(shapely.from_wkb(np.array(items, dtype=object)))
    assert np.array_equal(check_geometries(layer(dimensions), items), expected, equal_nan=True)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_line_with_a_coordinate_that_is_not_finite_is_named(bad: float) -> None:
    items = lines(2)
    wrong = bytearray(items[2] or b"")
    wrong[-8:] = np.float64(bad).tobytes()
    items[2] = bytes(wrong)
    with pytest.raises(
        InvalidParameter, match="The geometry of feature 3 has a coordinate that is not a finite number"
    ):
        check_geometries(layer(2), items)
