"""The exact sum of many decimals by their keys (``decimal_key.py``), without making a number of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Final

import numpy as np
from numpy.typing import NDArray

from thalweg.store.codec.decimal_key import BIAS, decode_decimal

_MAX_PAIRS: Final = 9
"""Most pairs of digits that a machine's integer holds."""
_LENGTHS: Final = range(5, 5 + _MAX_PAIRS)
"""Of keys with so many pairs at most; those with an exponent behind have two pairs less."""
_HALF: Final = 10**9
_WEIGHTS: Final = np.array([100**i for i in range(_MAX_PAIRS)], np.int64)
_CONTEXT: Final = Context(prec=5_000, Emin=-100_000, Emax=100_000)
"""Sums of numbers of a thousand digits before and after the point are exact in it."""


def sum_decimals(blobs: Sequence[bytes]) -> tuple[Decimal, int]:
    """The sum, and the most digits after the point that a number is written with. Raises ValueError for what is no such
    key."""
    sums: Counter[int] = Counter()
    most = 0
    by_length: dict[int, list[bytes]] = {}
    for blob in blobs:
        by_length.setdefault(len(blob), []).append(blob)
    for length, group in by_length.items():
        if length in _LENGTHS:
            most = max(most, _add(sums, np.frombuffer(b"".join(group), np.uint8).reshape(-1, length)))
            continue
        for blob in group:
            sign, digits, exponent = decode_decimal(blob).as_tuple()
            whole = int("".join(map(str, digits)))
            sums[int(exponent)] += -whole if sign else whole
            most = max(most, -int(exponent))
    total = Decimal(0)
    for exponent, whole in sums.items():
        total = _CONTEXT.add(total, Decimal(whole).scaleb(exponent, _CONTEXT))
    return total, most


def _add(sums: Counter[int], keys: NDArray[np.uint8]) -> int:
    """Keys of one length, a row each, added by their exponents; the most digits after the point."""
    length = keys.shape[1]
    negative = keys[:, 0] == 0x7F
    if not np.all(negative | (keys[:, 0] == 0x81)):
        raise ValueError("no decimal key")
    turned = np.where(negative[:, None], 255 - keys, keys)
    powers = turned[:, 1].astype(np.int64) * 256 + turned[:, 2] - BIAS
    most = 0
    # A key ends with a zero, which is in none of its pairs; an exponent may follow.
    spelled = turned[:, length - 3] == 0 if length >= 7 else np.zeros(len(keys), bool)
    for rows, pairs in ((spelled, length - 6), (~spelled, length - 4)):
        if not rows.any():
            continue
        digits = turned[rows, 3 : 3 + pairs].astype(np.int64) - 1
        if digits.min() < 0 or digits.max() > 99:
            raise ValueError("no decimal key")
        values = digits @ _WEIGHTS[:pairs][::-1] * np.where(negative[rows], -1, 1)
        exponents = powers[rows] - 2 * pairs
        for exponent in np.unique(exponents).tolist():
            own = values[exponents == exponent]
            # Each half's sum is one that a machine's integer holds.
            high = own // _HALF
            sums[exponent] += int(high.sum()) * _HALF + int((own - high * _HALF).sum())
        if rows is spelled:
            written = keys[rows, length - 2].astype(np.int64) * 256 + keys[rows, length - 1] - BIAS
            most = max(most, int(-written.min()))
        else:
            # The last pair's second digit may be there to fill it alone.
            most = max(most, int((2 * pairs - (digits[:, -1] % 10 == 0) - powers[rows]).max()))
    return most
