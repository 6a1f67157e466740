"""Decimal numbers as fixed-width cells of text, many at once, without a float in sight.

A cell is a fixed number of bytes, padded with NUL; a number is spread over several neighbouring cells. All tables
here are small (four digits each).
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from thalweg.encode.numbers import format_number

Cells = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]

GROUP: Final = 10_000
"""Numbers are written in groups of four digits."""

_EXACT: Final = 10**15
"""Below this a decimal of as many digits is the shortest text of the double nearest to it (DBL_DIG is 15)."""


def padded(texts: list[bytes]) -> Cells:
    """One column of cells, as wide as the longest text."""
    return np.array(texts, np.bytes_)


def words(texts: list[bytes], dtype: str) -> Cells:
    """Cells of 4 (``u4``) or 8 (``u8``) bytes as integers, which move faster than bytes do."""
    return np.array(texts, f"S{dtype[1:]}").view(dtype)


@cache
def _sign_cells() -> Cells:
    return words([b",", b",-"], "u8")


@cache
def _whole_cells() -> Cells:
    """Three tables in one: last group (0 is ``0``), leading group (0 is nothing), later group (four digits)."""
    plain = [b"%d" % i for i in range(GROUP)]
    return words([*plain, b"", *plain[1:], *(b"%04d" % i for i in range(GROUP))], "u4")


@cache
def _fraction_cells(first: bool) -> Cells:
    """Two tables in one: last group that matters (without its trailing zeros), group before others (four digits)."""
    dot = b"." if first else b""
    full = [dot + b"%04d" % i for i in range(GROUP)]
    return words([b"", *(text.rstrip(b"0") for text in full[1:]), *full], "u8" if first else "u4")


def number_cells(scaled: IntArray, decimals: int) -> list[Cells]:
    """The texts of ``scaled / 10**decimals``, each with a leading comma, as cells side by side.

    decimals  0 to 15
    The text is the plain decimal without trailing zeros, which is ``format_number``'s if ``is_plain_decimal``.
    """
    magnitude = np.abs(scaled).view(np.uint64)  # the view puts right the one integer that abs leaves negative
    cells = [_sign_cells().take((scaled < 0).view(np.int8))]
    if decimals == 0:
        return cells + _whole(magnitude)
    whole = magnitude // np.uint64(10**decimals)
    return (
        cells + _whole(whole) + fraction_cells((magnitude - whole * np.uint64(10**decimals)).view(np.int64), decimals)
    )


def _whole(number: npt.NDArray[np.uint64]) -> list[Cells]:
    table = _whole_cells()
    cells: list[Cells] = []
    most = int(number.max(initial=0))
    while True:
        higher = number // np.uint64(GROUP)
        group = (number - higher * np.uint64(GROUP)).view(np.int64)
        most //= GROUP
        start = GROUP if cells else 0
        index = group + start if most == 0 else group + np.where(higher == 0, start, 2 * GROUP)
        cells.append(table.take(index))
        if most == 0:
            return cells[::-1]
        number = higher


def fraction_cells(fraction: IntArray, decimals: int) -> list[Cells]:
    """The texts of ``fraction / 10**decimals``, which is less than 1, from the point on: ``.25``; nothing for 0."""
    groups = -(-decimals // 4)
    rest = fraction * 10 ** (4 * groups - decimals)
    cells: list[Cells] = []
    for place in range(groups - 1, -1, -1):
        unit = GROUP**place
        group = rest // unit if place else rest
        rest = rest - group * unit
        index = group + GROUP * (rest != 0) if place else group
        cells.append(_fraction_cells(not cells).take(index))
    return cells


def is_plain_decimal(scaled: IntArray, decimals: int) -> bool:
    """Whether every ``scaled / 10**decimals`` is a double whose shortest text is the plain decimal.

    Not so for tiny ones, which are written with an exponent, and beyond 15 digits, where a shorter or another
    decimal may be nearer.
    """
    if len(scaled) == 0:
        return True
    if not (0 <= decimals <= 15 and int(scaled.min()) > -_EXACT and int(scaled.max()) < _EXACT):
        return False
    # repr() turns to exponents below 1e-4.
    return decimals < 5 or not bool(((np.abs(scaled) < 10 ** (decimals - 4)) & (scaled != 0)).any())


_SAMPLE: Final = 8
_WORTH_IT: Final = 12
"""With fewer values than this, writing each by itself is as fast."""


def find_decimals(values: npt.NDArray[np.float64]) -> tuple[IntArray, int] | None:
    """Integers and a number of decimals so that ``values == scaled / 10**decimals`` bit for bit, if a few values
    taken as a sample suggest it and it holds for all. Values that are not finite make it fail."""
    if len(values) < _WORTH_IT:
        return None
    decimals = 0
    for value in values[:: -(-len(values) // _SAMPLE)].tolist():
        text = format_number(value)
        if "e" in text or "N" in text:
            return None
        decimals = max(decimals, len(text.partition(".")[2]))
    if decimals > 9:
        return None  # such values use the digits of a double, and so will the others
    with np.errstate(over="ignore", invalid="ignore"):
        nearest = np.rint(values * 10.0**decimals)
        if not bool((np.abs(nearest) < _EXACT).all()):
            return None
        scaled = nearest.astype(np.int64)
        # Compared as bytes: negative zero, which an integer cannot hold, differs from zero.
        return (scaled, decimals) if (scaled / 10.0**decimals).tobytes() == values.tobytes() else None
