"""The Hilbert curve: places in an order in which neighbours in the order are neighbours in space."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

BITS: Final = 12
"""Cells of each side: 2**12, which tells more places apart than a batch has."""


def hilbert_order(boxes: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Indexes of boxes along the curve through their centres, in the area that they cover.

    boxes   shape (n, 4): least x, least y, greatest x, greatest y; finite
    """
    if len(boxes) < 2:
        return np.arange(len(boxes))
    # Twice the centre: nothing but where it lies among the others counts.
    centres = boxes[:, :2] + boxes[:, 2:]
    return np.argsort(hilbert_places(centres, centres.min(axis=0), centres.max(axis=0)), kind="stable")


def hilbert_places(
    points: npt.NDArray[np.floating], least: npt.NDArray[np.floating], most: npt.NDArray[np.floating], bits: int = BITS
) -> npt.NDArray[np.int64]:
    """How far along the curve points lie, in cells: 0 to 4**bits - 1.

    points  shape (n, 2), finite
    least   x and y, shape (2,), of the area's corner that the curve begins at
    most    of the corner opposite
    bits    the curve goes through 2**bits cells along each side; 31 at most
    source  D. Hilbert, Ueber die stetige Abbildung einer Linie auf ein Flächenstück, Math. Ann. 38 (1891)
    """
    x, y = (_cells(points[:, axis], least[axis], most[axis], bits) for axis in (0, 1))
    place = np.zeros(len(points), np.int64)
    for bit in range(bits - 1, -1, -1):
        east, north = (x >> bit) & 1, (y >> bit) & 1
        place = place << 2 | (3 * east) ^ north
        # The lower quarters are turned: mirrored in the east, and x and y change places.
        mirrored = (north == 0) & (east == 1)
        x = np.where(mirrored, ~x, x)
        y = np.where(mirrored, ~y, y)
        x, y = np.where(north == 0, y, x), np.where(north == 0, x, y)
    return place


def _cells(values: npt.NDArray[np.floating], least: np.floating, most: np.floating, bits: int) -> npt.NDArray[np.int64]:
    size = most - least
    if not np.isfinite(size) or size <= 0:
        return np.zeros(len(values), np.int64)
    cells: npt.NDArray[np.int64] = ((values - least) / size * ((1 << bits) - 1)).astype(np.int64)
    return cells
