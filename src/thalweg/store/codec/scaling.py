"""Decimal numbers as integers: 21.5 as 215 with one decimal, only where nothing is lost."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

MAX_DECIMALS: Final = 15
LIMIT: Final = 2.0**53
"""Below it every integer is a float64 of its own."""
POWERS: Final = tuple(10.0**d for d in range(MAX_DECIMALS + 1))
_NEGATIVE_ZERO: Final = np.iinfo(np.int64).min

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.integer[Any]]


def at_decimals(values: FloatArray, decimals: int) -> npt.NDArray[np.int64] | None:
    """Values as integers at the given decimals, or None unless each reads back as the same 64 bits.

    values    shape (n,), contiguous, n >= 1
    decimals  0 to 15
    """
    power = POWERS[decimals]
    largest = max(float(values.max()), -float(values.min()))
    # Also refuses infinities and not-a-number, of which no comparison holds.
    if not largest * power < LIMIT:
        return None
    scaled = np.rint(values * power)
    if not (scaled / power == values).all() or (values.view(np.int64) == _NEGATIVE_ZERO).any():
        return None
    return scaled.astype(np.int64)


def fewest_decimals(values: FloatArray) -> tuple[npt.NDArray[np.int64], int] | None:
    """Values as integers with the fewest decimals that give back each one bit for bit, or None where none do.

    values   shape (n,), contiguous, n >= 1
    returns  (scaled, decimals): ``scaled / 10.0**decimals`` has the bits of ``values``
    """
    # A few values tell how many decimals are needed at least.
    head = values[:16]
    for decimals in range(MAX_DECIMALS + 1):
        power = POWERS[decimals]
        if not abs(float(head[0])) * power < LIMIT:
            return None
        if at_decimals(head, decimals) is not None:
            break
    else:
        return None
    for more in range(decimals, MAX_DECIMALS + 1):
        scaled = at_decimals(values, more)
        if scaled is not None:
            return scaled, more
    return None


def rescale(scaled: IntArray, factor: int) -> IntArray | None:
    """Scaled integers times a power of ten (decimals added), or None where one would reach 2**53."""
    if factor == 1 or not len(scaled):
        return scaled
    if max(int(scaled.max()), -int(scaled.min())) * factor >= LIMIT:
        return None
    return scaled.astype(np.int64) * factor
