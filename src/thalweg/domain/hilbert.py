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
    source  D. Hilbert, Ueber die stetige Abbildung einer Linie auf ein Flächenstück, Math. Ann. 38 (1891)
    """
    if len(boxes) < 2:
        return np.arange(len(boxes))
    x, y = (_cells(boxes[:, side] + boxes[:, side + 2]) for side in (0, 1))
    place = np.zeros(len(boxes), np.int64)
    for bit in range(BITS - 1, -1, -1):
        east, north = (x >> bit) & 1, (y >> bit) & 1
        place = place << 2 | (3 * east) ^ north
        # The lower quarters are turned: mirrored in the east, and x and y change places.
        mirrored = (north == 0) & (east == 1)
        x = np.where(mirrored, ~x, x)
        y = np.where(mirrored, ~y, y)
        x, y = np.where(north == 0, y, x), np.where(north == 0, x, y)
    return np.argsort(place, kind="stable")


def _cells(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    least, most = values.min(), values.max()
    size = most - least
    if not np.isfinite(size) or size <= 0:
        return np.zeros(len(values), np.int64)
    cells: npt.NDArray[np.int64] = ((values - least) / size * ((1 << BITS) - 1)).astype(np.int64)
    return cells
