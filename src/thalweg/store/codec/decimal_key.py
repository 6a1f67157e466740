"""Exact decimal numbers as bytes whose order is theirs, so that an index of them works.

A key says the value; after it comes, where the number was written with more zeros than it needs (1.50), its exponent.
Of two equal numbers the keys are equal, and no key begins another one: all spellings of a number lie from its key to
before the key followed by FF.

    0                   80
    > 0                 81, exponent, pairs of digits + 1, 00     (0.d1d2... times ten to the exponent, that + 2**15)
    < 0                 7F, the same with every bit turned
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Final

BIAS: Final = 1 << 15
_TURNED: Final = bytes(255 - i for i in range(256))
_PAIRS: Final = bytes((pair - 1) // 10 << 4 | (pair - 1) % 10 if 1 <= pair <= 100 else 255 for pair in range(256))
_ENCODED: Final = bytes((byte >> 4) * 10 + (byte & 15) + 1 for byte in range(154)) + bytes(102)
"""What a byte becomes whose hexadecimal text is two digits."""
_TURNED_PAIRS: Final = _PAIRS[::-1]
"""Bytes whose hexadecimal text is the two digits that a byte stands for, of numbers above and below 0."""
_KEPT: Final = 8192
"""Keys whose numbers are remembered: measured values are the same few ones over and over."""
AFTER: Final = b"\xff"
"""What a key is followed by to be behind all its number's spellings."""


def decimal_key(value: Decimal) -> bytes:
    """The key alone: where the number's place is. Finite, at most some thousand digits."""
    return _encode(value)[0]


def encode_decimal(value: Decimal) -> bytes:
    """Key and spelling."""
    key, least = _encode(value)
    exponent = int(value.as_tuple().exponent)
    return key if exponent == least else key + (exponent + BIAS).to_bytes(2, "big")


def _encode(value: Decimal) -> tuple[bytes, int]:
    """The key, and the exponent that a reader takes without being told."""
    shown = str(value)
    if "E" in shown:
        shown = format(value, "f")
    negative = shown.startswith("-")
    whole, _, fraction = shown[negative:].partition(".")
    text = (whole + fraction).lstrip("0")
    stripped = text.rstrip("0")
    if not stripped:
        return b"\x80", 0
    power = len(text) - len(fraction)
    # A whole number is told without a point.
    least = min(0, power - len(stripped))
    if len(stripped) % 2:
        stripped += "0"
    body = (power + BIAS).to_bytes(2, "big") + bytes.fromhex(stripped).translate(_ENCODED) + b"\0"
    return (b"\x7f" + body.translate(_TURNED) if negative else b"\x81" + body), least


@lru_cache(maxsize=_KEPT)
def decode_decimal(blob: bytes) -> Decimal:
    """The number as it was. Raises ValueError for what is no such key."""
    first = blob[:1]
    if first == b"\x81":
        end = blob.index(0, 3)
        digits = blob[3:end].translate(_PAIRS).hex().rstrip("0")
        power = (blob[1] << 8 | blob[2]) - BIAS
        sign = ""
    elif first == b"\x7f":
        end = blob.index(255, 3)
        digits = blob[3:end].translate(_TURNED_PAIRS).hex().rstrip("0")
        power = ((255 - blob[1]) << 8 | 255 - blob[2]) - BIAS
        sign = "-"
    elif first == b"\x80":
        exponent = int.from_bytes(blob[1:3], "big") - BIAS if len(blob) > 1 else 0
        return Decimal((0, (0,), exponent))
    else:
        raise ValueError("no decimal key")
    if not digits:
        raise ValueError("no decimal key")
    if end + 1 == len(blob):
        exponent = min(0, power - len(digits))
    elif end + 3 == len(blob):
        exponent = (blob[end + 1] << 8 | blob[end + 2]) - BIAS
    else:
        raise ValueError("no decimal key")
    try:
        # From a text it is made in a third of the time that a tuple of digits takes.
        return Decimal(f"{sign}{digits.ljust(power - exponent, '0')}E{exponent}")
    except InvalidOperation:
        raise ValueError("no decimal key") from None
