"""Numbers as PostgreSQL computes them. Numerics are keys (``codec/decimal_key.py``), exact decimals of any scale."""

from __future__ import annotations

import decimal
import math
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Final

from thalweg.domain.table_sql import SqlFault
from thalweg.domain.table_values import MAX_DIGITS, BadValue, FieldType, coerce
from thalweg.store.codec.decimal_key import decode_decimal, encode_decimal

CONTEXT: Final = decimal.Context(prec=5 * MAX_DIGITS, Emin=-100_000, Emax=100_000, rounding=ROUND_HALF_UP)
"""Sums and products of values within the bounds are exact in it. To be set in the thread that computes."""
_LEAST_DIGITS: Final = 16
"""Significant digits that a quotient has at least (NUMERIC_MIN_SIG_DIGITS)."""
_BITS: Final = {"int2": 15, "int4": 31, "int8": 63}
_NAMES: Final = {"int2": "smallint", "int4": "integer", "int8": "bigint"}


def key(blob: bytes) -> bytes:
    """What numerics are compared by: their value without their spelling."""
    first = blob[0]
    if first == 0x81:
        return blob[: blob.index(0, 3) + 1]
    if first == 0x80:
        return blob[:1]
    return blob[: blob.index(255, 3) + 1]


def encoded(value: Decimal) -> bytes:
    """Raises SqlFault beyond ``MAX_DIGITS``."""
    shown = str(value)
    if len(shown) < MAX_DIGITS and "E" not in shown:
        return encode_decimal(value)
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise SqlFault("value overflows numeric format")
    if exponent < -MAX_DIGITS or (value and value.adjusted() >= MAX_DIGITS):
        raise SqlFault(f"a numeric has more than {MAX_DIGITS} digits before or after the point")
    if exponent > 0:
        value = value.quantize(Decimal(1), context=CONTEXT)
    return encode_decimal(value if value else abs(value))


def scale(value: Decimal) -> int:
    return max(0, -int(value.as_tuple().exponent))


def rounded(value: Decimal, digits: int, mode: str = ROUND_HALF_UP) -> Decimal:
    """To so many digits after the point; of fewer than none the zeros are kept."""
    if digits > MAX_DIGITS:
        raise SqlFault(f"a numeric has more than {MAX_DIGITS} digits before or after the point")
    digits = max(digits, -MAX_DIGITS)
    unit = Decimal(1).scaleb(-digits)
    if digits < 0 and value and value.adjusted() + 1 < -digits:
        return Decimal(0)
    found = value.quantize(unit, rounding=mode, context=CONTEXT)
    return found if digits >= 0 else found.quantize(Decimal(1), context=CONTEXT)


# ------------------------------------------------------------------ integers


def _checked(kind: str, value: int) -> int:
    bound = 1 << _BITS[kind]
    if not -bound <= value < bound:
        raise SqlFault(f"{_NAMES[kind]} out of range")
    return value


def int2(value: int) -> int:
    return _checked("int2", value)


def int4(value: int) -> int:
    if -2147483648 <= value <= 2147483647:
        return value
    raise SqlFault("integer out of range")


def int8(value: int) -> int:
    return _checked("int8", value)


def int8_add(a: int, b: int) -> int:
    return _checked("int8", a + b)


def int8_sub(a: int, b: int) -> int:
    return _checked("int8", a - b)


def int8_mul(a: int, b: int) -> int:
    return _checked("int8", a * b)


def int_div(a: int, b: int) -> int:
    """Towards zero."""
    if b == 0:
        raise SqlFault("division by zero")
    found = abs(a) // abs(b)
    return found if (a < 0) == (b < 0) else -found


def int_mod(a: int, b: int) -> int:
    if b == 0:
        raise SqlFault("division by zero")
    return int(math.fmod(a, b)) if abs(a) < 1 << 53 and abs(b) < 1 << 53 else a - b * int_div(a, b)


# ------------------------------------------------------------------ floats


def float8(value: float) -> float:
    """A result of arithmetic on finite numbers."""
    if math.isfinite(value):
        return value
    raise SqlFault("value out of range: overflow")


def _not_lost(value: float) -> float:
    """A result that is not nothing."""
    if value == 0:
        raise SqlFault("value out of range: underflow")
    return float8(value)


def float_mul(a: float, b: float) -> float:
    return _not_lost(a * b) if a and b else a * b


def float_div(a: float, b: float) -> float:
    if b == 0:
        raise SqlFault("division by zero")
    return _not_lost(a / b) if a else a / b


def float_power(a: float, b: float) -> float:
    if a == 0 and b < 0:
        raise SqlFault("zero raised to a negative power is undefined")
    if a < 0 and b != int(b):
        raise SqlFault("a negative number raised to a non-integer power yields a complex result")
    found = math.pow(a, b)
    return _not_lost(found) if a else found


def float_exp(a: float) -> float:
    return _not_lost(math.exp(a))


def float_degrees(a: float) -> float:
    return float8(math.degrees(a))


def _positive(a: float) -> float:
    if a == 0:
        raise SqlFault("cannot take logarithm of zero")
    if a < 0:
        raise SqlFault("cannot take logarithm of a negative number")
    return a


def float_ln(a: float) -> float:
    return math.log(_positive(a))


def float_log(a: float) -> float:
    return math.log10(_positive(a))


def float_sqrt(a: float) -> float:
    if a < 0:
        raise SqlFault("cannot take square root of a negative number")
    return math.sqrt(a)


def float_cbrt(a: float) -> float:
    return math.cbrt(a)


def float_acos(a: float) -> float:
    if not -1 <= a <= 1:
        raise SqlFault("input is out of range")
    return math.acos(a)


def float_asin(a: float) -> float:
    if not -1 <= a <= 1:
        raise SqlFault("input is out of range")
    return math.asin(a)


def float_round(a: float) -> float:
    """Half to even, as the C library's rint."""
    return math.copysign(float(round(a)), a) if abs(a) < 1e15 else a


def float_trunc(a: float) -> float:
    return math.copysign(float(math.trunc(a)), a)


def float_ceil(a: float) -> float:
    return float(math.ceil(a)) if a > 0 or a == math.ceil(a) or a <= -1 else -0.0


def float_floor(a: float) -> float:
    return float(math.floor(a))


def float_sign(a: float) -> float:
    return 0.0 if a == 0 else math.copysign(1.0, a)


def float_text(a: float) -> str:
    """The shortest text that reads back the same, with an exponent from 1e15 on and below 1e-4."""
    if a == 0:
        return "-0" if math.copysign(1, a) < 0 else "0"
    digits_text, _, exponent_text = f"{a!r}e".partition("e")
    exponent = int(exponent_text.rstrip("e") or 0)
    sign = "-" if digits_text.startswith("-") else ""
    whole, _, fraction = digits_text.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    point = exponent + len(whole) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    power = point - 1
    if power < -4 or power >= 15:
        mantissa = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
        return f"{sign}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if len(digits) <= point:
        return f"{sign}{digits}{'0' * (point - len(digits))}"
    return f"{sign}{digits[:point]}.{digits[point:]}"


def text_float(text: str) -> float:
    try:
        return float(coerce(FieldType.FLOAT8, False, _filled(text, "double precision")))  # type: ignore[arg-type]
    except BadValue as error:
        raise SqlFault(str(error)) from None


def _filled(text: str, name: str) -> str:
    if not text.strip():
        raise SqlFault(f'invalid input syntax for type {name}: "{text[:200]}"')
    return text


def text_int(text: str, kind: str) -> int:
    try:
        value = coerce(FieldType.INT8, False, _filled(text, _NAMES[kind]))
        return _checked(kind, int(value))  # type: ignore[arg-type]
    except SqlFault as error:
        if "out of range" in error.message:
            raise SqlFault(f'value "{text.strip()[:200]}" is out of range for type {_NAMES[kind]}') from None
        raise
    except BadValue as error:
        raise SqlFault(str(error).replace("type bigint", f"type {_NAMES[kind]}")) from None


def text_numeric(text: str) -> bytes:
    try:
        value = coerce(FieldType.NUMERIC, False, _filled(text, "numeric"))
    except BadValue as error:
        raise SqlFault(str(error)) from None
    return encoded(value)  # type: ignore[arg-type]


def float_int(value: float, kind: str) -> int:
    bound = 1 << _BITS[kind]
    found = round(value)
    if not -bound <= found < bound:
        raise SqlFault(f"{_NAMES[kind]} out of range")
    return found


def float_numeric(value: float) -> bytes:
    """By the fifteen digits that are sure."""
    return encoded(Decimal(f"{value:.15g}"))


# ------------------------------------------------------------------ numerics


def numeric_of_int(value: int) -> bytes:
    return encode_decimal(Decimal(value))


def numeric_float(value: bytes) -> float:
    found = float(decode_decimal(value))
    if math.isinf(found):
        raise SqlFault(f'"{numeric_text(value)[:100]}" is out of range for type double precision')
    return found


def numeric_int(value: bytes, kind: str) -> int:
    return _checked(kind, int(rounded(decode_decimal(value), 0)))


def numeric_text(value: bytes) -> str:
    return format(decode_decimal(value), "f")


def numeric_typed(value: bytes, precision: int, digits: int) -> bytes:
    found = rounded(decode_decimal(value), digits)
    if found and found.adjusted() >= precision - digits:
        raise SqlFault("numeric field overflow")
    return encoded(found)


def numeric_add(a: bytes, b: bytes) -> bytes:
    return encoded(CONTEXT.add(decode_decimal(a), decode_decimal(b)))


def numeric_sub(a: bytes, b: bytes) -> bytes:
    return encoded(CONTEXT.subtract(decode_decimal(a), decode_decimal(b)))


def numeric_mul(a: bytes, b: bytes) -> bytes:
    return encoded(CONTEXT.multiply(decode_decimal(a), decode_decimal(b)))


def _weight(value: Decimal) -> tuple[int, int]:
    """Of the first digit to the base 10,000: its place and the digit."""
    if not value:
        return 0, 0
    place = value.adjusted() // 4
    return place, int(abs(value).scaleb(-4 * place, context=CONTEXT))


def quotient_scale(a: Decimal, b: Decimal) -> int:
    """Digits after the point of a quotient: at least sixteen significant ones, no fewer than either side has."""
    weight_a, first_a = _weight(a)
    weight_b, first_b = _weight(b)
    weight = weight_a - weight_b
    if first_a <= first_b:
        weight -= 1
    return min(max(_LEAST_DIGITS - weight * 4, scale(a), scale(b), 0), 1000)


def divide(a: Decimal, b: Decimal, digits: int) -> Decimal:
    """Rounded half away from zero, without a step between."""
    if not b:
        raise SqlFault("division by zero")
    power = digits + int(a.as_tuple().exponent) - int(b.as_tuple().exponent)
    top, bottom = abs(int(a.scaleb(-int(a.as_tuple().exponent)))), abs(int(b.scaleb(-int(b.as_tuple().exponent))))
    if power >= 0:
        top *= 10**power
    else:
        bottom *= 10**-power
    found = (2 * top + bottom) // (2 * bottom)
    return Decimal(-found if (a < 0) != (b < 0) else found).scaleb(-digits, context=CONTEXT)


def numeric_div(a: bytes, b: bytes) -> bytes:
    x, y = decode_decimal(a), decode_decimal(b)
    return encoded(divide(x, y, quotient_scale(x, y)))


def mean_of_ints(total: int, count: int) -> bytes | None:
    """The avg of integers by their sum and number."""
    if not count:
        return None
    x, y = Decimal(total), Decimal(count)
    return encoded(divide(x, y, quotient_scale(x, y)))


def numeric_mod(a: bytes, b: bytes) -> bytes:
    y = decode_decimal(b)
    if not y:
        raise SqlFault("division by zero")
    return encoded(CONTEXT.remainder(decode_decimal(a), y))


def numeric_quotient(a: bytes, b: bytes) -> bytes:
    """div(): the whole part."""
    y = decode_decimal(b)
    if not y:
        raise SqlFault("division by zero")
    return encoded(CONTEXT.divide_int(decode_decimal(a), y).quantize(Decimal(1), context=CONTEXT))


def numeric_neg(a: bytes) -> bytes:
    return encoded(CONTEXT.minus(decode_decimal(a)))


def numeric_abs(a: bytes) -> bytes:
    return encoded(abs(decode_decimal(a)))


def numeric_round(a: bytes, digits: int = 0) -> bytes:
    return encoded(rounded(decode_decimal(a), digits))


def numeric_trunc(a: bytes, digits: int = 0) -> bytes:
    return encoded(rounded(decode_decimal(a), digits, ROUND_DOWN))


def numeric_ceil(a: bytes) -> bytes:
    return encoded(rounded(decode_decimal(a), 0, ROUND_CEILING))


def numeric_floor(a: bytes) -> bytes:
    return encoded(rounded(decode_decimal(a), 0, ROUND_FLOOR))


def numeric_sign(a: bytes) -> bytes:
    value = decode_decimal(a)
    return encode_decimal(Decimal((value > 0) - (value < 0)))


def numeric_scale(a: bytes) -> int:
    return scale(decode_decimal(a))


def root(value: Decimal, digits: int) -> Decimal:
    """The square root, rounded half away from zero."""
    shifted = int(value.scaleb(2 * digits + 2, context=CONTEXT).to_integral_value(ROUND_DOWN))
    found = math.isqrt(shifted)
    return Decimal((found + 5) // 10).scaleb(-digits, context=CONTEXT)


def numeric_sqrt(a: bytes) -> bytes:
    value = decode_decimal(a)
    if value < 0:
        raise SqlFault("cannot take square root of a negative number")
    place, _ = _weight(value)
    # Half the digits before the point are the root's (sweight of numeric.c).
    weight = (place + 1) * 4 // 2 - 1 if place >= 0 else -((-(place + 1) * 4 + 1) // 2) - 1
    return encoded(root(value, min(max(_LEAST_DIGITS - weight, scale(value), 0), 1000)))


def _log_weight(value: Decimal) -> int:
    """About how many digits the natural logarithm has before the point (estimate_ln_dweight of numeric.c)."""
    if Decimal("0.9") <= value <= Decimal("1.1"):
        rest = value - 1
        place, first = _weight(rest)
        return place * 4 + int(math.log10(first)) if rest else 0
    place = value.adjusted() // 4
    digits = int(value.scaleb(4 - 4 * place, context=CONTEXT))
    return int(math.log10(abs(math.log(digits) + (place - 1) * 4 * math.log(10))))


def _fitting(scale_: int, *values: Decimal) -> int:
    """Digits after the point: no fewer than the values have, at most a thousand."""
    return min(max(scale_, 0, *map(scale, values)), 1000)


def _logged(value: Decimal) -> Decimal:
    if not value:
        raise SqlFault("cannot take logarithm of zero")
    if value < 0:
        raise SqlFault("cannot take logarithm of a negative number")
    return value


def _within(digits: int) -> decimal.Context:
    """For functions that are not exact: so many digits and some more, that the last one is right."""
    return decimal.Context(prec=digits + 12, Emin=-100_000, Emax=100_000)


def numeric_ln(a: bytes) -> bytes:
    value = _logged(decode_decimal(a))
    digits = _fitting(_LEAST_DIGITS - _log_weight(value), value)
    return encoded(rounded(value.ln(_within(digits + 5)), digits))


def numeric_log(a: bytes) -> bytes:
    return numeric_log_to(encode_decimal(Decimal(10)), a)


def numeric_log_to(base: bytes, a: bytes) -> bytes:
    foot, value = _logged(decode_decimal(base)), _logged(decode_decimal(a))
    digits = _fitting(_LEAST_DIGITS - _log_weight(value) + _log_weight(foot), foot, value)
    context = _within(digits + 40)
    bottom = foot.ln(context)
    if not bottom:
        raise SqlFault("division by zero")
    return encoded(rounded(context.divide(value.ln(context), bottom), digits))


_LOG10_E: Final = 0.434294481903252


def numeric_exp(a: bytes) -> bytes:
    value = decode_decimal(a)
    weight = float(value) * _LOG10_E
    if weight > MAX_DIGITS:
        raise SqlFault("value overflows numeric format")
    if weight < -MAX_DIGITS:
        return encoded(Decimal(0).scaleb(-MAX_DIGITS))
    digits = _fitting(_LEAST_DIGITS - int(weight), value)
    return encoded(rounded(value.exp(_within(digits + max(int(weight), 0) + 10)), digits))


def numeric_power(a: bytes, b: bytes) -> bytes:
    """As numeric.c of PostgreSQL 15: sixteen digits after the point for whole exponents, sixteen significant ones for
    others."""
    base, exponent = decode_decimal(a), decode_decimal(b)
    if not base and exponent < 0:
        raise SqlFault("zero raised to a negative power is undefined")
    if base < 0 and exponent != int(exponent):
        raise SqlFault("a negative number raised to a non-integer power yields a complex result")
    whole = exponent == int(exponent) and -(1 << 31) <= exponent < 1 << 31
    digits = _fitting(_LEAST_DIGITS, base) if whole else _LEAST_DIGITS
    if not base:
        return encoded(rounded(Decimal(0 if exponent else 1), digits))
    context = _within(60)
    weight = float(context.multiply(abs(base).ln(context), exponent)) * _LOG10_E
    if weight > MAX_DIGITS:
        raise SqlFault("value overflows numeric format")
    if whole:
        if weight + 1 < -digits:
            return encoded(Decimal(0).scaleb(-digits))
        return encoded(rounded(_within(digits + max(int(weight), 0) + 20).power(base, exponent), digits))
    if weight + 1 < -MAX_DIGITS:
        return encoded(Decimal(0).scaleb(-MAX_DIGITS))
    digits = _fitting(_LEAST_DIGITS - int(weight), base, exponent)
    context = _within(digits + max(int(weight), 0) + 40)
    return encoded(rounded(context.multiply(abs(base).ln(context), exponent).exp(context), digits))


# ------------------------------------------------------------------ both


def gcd(a: int, b: int) -> int:
    return _checked("int8", math.gcd(a, b))


def lcm(a: int, b: int) -> int:
    return _checked("int8", math.lcm(a, b))


def width_bucket_float(value: float, low: float, high: float, count: int) -> int:
    if count <= 0:
        raise SqlFault("count must be greater than zero")
    if low == high:
        raise SqlFault("lower bound cannot equal upper bound")
    if low < high:
        if value < low:
            return 0
        return count + 1 if value >= high else int(count * (value - low) / (high - low)) + 1
    if value > low:
        return 0
    return count + 1 if value <= high else int(count * (low - value) / (low - high)) + 1


def width_bucket_numeric(value: bytes, low: bytes, high: bytes, count: int) -> int:
    x, a, b = decode_decimal(value), decode_decimal(low), decode_decimal(high)
    if count <= 0:
        raise SqlFault("count must be greater than zero")
    if a == b:
        raise SqlFault("lower bound cannot equal upper bound")
    if a > b:
        x, a, b = -x, -a, -b
    if x < a:
        return 0
    return count + 1 if x >= b else int(CONTEXT.divide_int((x - a) * count, b - a)) + 1


def to_hex4(value: int) -> str:
    return f"{value & (1 << 32) - 1:x}"


def to_hex8(value: int) -> str:
    return f"{value & (1 << 64) - 1:x}"
