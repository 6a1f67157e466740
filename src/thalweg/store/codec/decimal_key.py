"""Exact decimal numbers as bytes whose order is theirs, so that an index of them works.

A key says the value; after it comes, where the number was written with more zeros than it needs (1.50), its exponent.
Of two equal numbers the keys are equal, and no key begins another one: all spellings of a number lie from its key to
before the key followed by FF.

    0                   80
    > 0                 81, exponent, pairs of digits + 1, 00     (0.d1d2... times ten to the exponent, that + 2**15)
    < 0                 7F, the same with every bit turned
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

_BIAS: Final = 1 << 15
_TURNED: Final = bytes(255 - i for i in range(256))
AFTER: Final = b"\xff"
"""What a key is followed by to be behind all its number's spellings."""


def decimal_key(value: Decimal) -> bytes:
    """The key alone: where the number's place is. Finite, at most some thousand digits."""
    return _encode(value)[0]


def encode_decimal(value: Decimal) -> bytes:
    """Key and spelling."""
    key, least = _encode(value)
    exponent = int(value.as_tuple().exponent)
    return key if exponent == least else key + (exponent + _BIAS).to_bytes(2, "big")


def _encode(value: Decimal) -> tuple[bytes, int]:
    """The key, and the exponent that a reader takes without being told."""
    sign, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    stripped = text.rstrip("0")
    if not stripped:
        return b"\x80", 0
    power = len(text) + int(exponent)
    # A whole number is told without a point.
    least = min(0, power - len(stripped))
    if len(stripped) % 2:
        stripped += "0"
    pairs = bytes(int(stripped[i : i + 2]) + 1 for i in range(0, len(stripped), 2))
    body = (power + _BIAS).to_bytes(2, "big") + pairs + b"\0"
    return (b"\x7f" + body.translate(_TURNED) if sign else b"\x81" + body), least


def decode_decimal(blob: bytes) -> Decimal:
    """The number as it was. Raises ValueError for what is no such key."""
    first = blob[:1]
    if first == b"\x80":
        exponent = int.from_bytes(blob[1:3], "big") - _BIAS if len(blob) > 1 else 0
        return Decimal((0, (0,), exponent))
    if first == b"\x81":
        body, negative = blob[1:], False
        end = body.index(b"\0", 2)
        head = body[:end]
    elif first == b"\x7f":
        body, negative = blob[1:], True
        end = body.index(b"\xff", 2)
        head = body[:end].translate(_TURNED)
    else:
        raise ValueError("no decimal key")
    power = int.from_bytes(head[:2], "big") - _BIAS
    digits = "".join([f"{pair - 1:02d}" for pair in head[2:]]).rstrip("0")
    rest = body[end + 1 :]
    exponent = int.from_bytes(rest, "big") - _BIAS if rest else min(0, power - len(digits))
    digits = digits.ljust(power - exponent, "0")
    return Decimal((int(negative), tuple(map(int, digits)), exponent))
