"""Values of a table's fields: types, what is taken for a value of each, and how a cell is written.

A **cell** is a value as the store gives and takes it: None; ``str`` for text, date (ISO 8601) and time; ``int`` for
int4, int8, and, in microseconds UTC, timestamp (of a clock without a zone, read as if it were UTC) and timestamptz;
``float``; ``Decimal`` for numeric, its scale kept; ``bool``; for json and arrays the JSON text as ``str``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, Final

import orjson

MAX_DIGITS: Final = 1_000
"""Most digits of a numeric, before the point and after it. PostgreSQL takes more; nothing measured has them."""
MAX_JSON_DEPTH: Final = 100
"""Deepest nesting of a json value: what writes it is recursive."""

Cell = str | int | float | Decimal | bool | None


class FieldType(StrEnum):
    """Types, named as PostgreSQL names them in answers."""

    TEXT = "text"
    INT4 = "int4"
    INT8 = "int8"
    FLOAT8 = "float8"
    NUMERIC = "numeric"
    BOOL = "bool"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    JSON = "json"


_NAMES: Final[Mapping[str, FieldType]] = {
    **dict.fromkeys(("text", "varchar", "character varying", "char", "bpchar", "character", "name"), FieldType.TEXT),
    **dict.fromkeys(("int", "integer", "int4", "smallint", "int2"), FieldType.INT4),
    **dict.fromkeys(("bigint", "int8"), FieldType.INT8),
    **dict.fromkeys(("float", "float8", "double precision", "real", "float4", "double"), FieldType.FLOAT8),
    **dict.fromkeys(("numeric", "decimal"), FieldType.NUMERIC),
    **dict.fromkeys(("bool", "boolean"), FieldType.BOOL),
    "date": FieldType.DATE,
    **dict.fromkeys(("time", "time without time zone"), FieldType.TIME),
    **dict.fromkeys(("timestamp", "timestamp without time zone"), FieldType.TIMESTAMP),
    **dict.fromkeys(("timestamptz", "timestamp with time zone"), FieldType.TIMESTAMPTZ),
    **dict.fromkeys(("json", "jsonb", "nested"), FieldType.JSON),
}
_LONG_NAMES: Final = {
    FieldType.INT4: "integer",
    FieldType.INT8: "bigint",
    FieldType.FLOAT8: "double precision",
    FieldType.BOOL: "boolean",
    FieldType.TIMESTAMP: "timestamp without time zone",
    FieldType.TIMESTAMPTZ: "timestamp with time zone",
}


def type_named(text: str) -> tuple[FieldType, bool] | None:
    """The type of a PostgreSQL name, and whether it is an array (``int4[]``, ``_int4``); None: not known."""
    name = " ".join(text.lower().split())
    is_array = False
    if name.endswith("[]"):
        name, is_array = name[:-2].strip(), True
    elif name.startswith("_"):
        name, is_array = name[1:], True
    found = _NAMES.get(name)
    return None if found is None or (is_array and found is FieldType.JSON) else (found, is_array)


class BadValue(ValueError):
    """A value that is none of its field's type; the message is worded as PostgreSQL words it."""


def coerce(kind: FieldType, is_array: bool, value: Any) -> Cell:
    """The cell of a JSON value (numbers with a fraction may come as Decimal). Raises BadValue."""
    if value is None:
        return None
    if value == "" and (is_array or (kind is not FieldType.TEXT and kind is not FieldType.JSON)):
        return None
    if is_array:
        return _array(kind, value)
    return _COERCE[kind](value)


def _syntax(kind: FieldType, value: Any) -> BadValue:
    shown = value if isinstance(value, str) else plain_json(value)
    return BadValue(f'invalid input syntax for type {_LONG_NAMES.get(kind, kind.value)}: "{shown[:200]}"')


def _text(value: Any) -> str:
    if not isinstance(value, str):
        value = plain_json(value)
    if "\0" in value:
        raise BadValue("a text cannot hold the character NUL")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadValue("a text holds half of a surrogate pair, which is no character") from None
    text: str = value
    return text


_INTEGER: Final = re.compile(r"\s*[+-]?[0-9]{1,30}\s*", re.ASCII)


def _integer(value: Any, kind: FieldType, bits: int) -> int:
    if isinstance(value, str):
        if not _INTEGER.fullmatch(value):
            raise _syntax(kind, value)
        number = int(value)
    elif isinstance(value, bool):
        raise _syntax(kind, value)
    elif isinstance(value, int):
        number = value
    elif isinstance(value, float | Decimal):
        exact = Decimal(value)
        if not exact.is_finite() or abs(exact) > 10**30:
            raise _syntax(kind, value)
        number = int(exact)
        if number != exact:
            # PostgreSQL would round it, and nobody would know.
            raise _syntax(kind, value)
    else:
        raise _syntax(kind, value)
    if not -(1 << bits) <= number < 1 << bits:
        raise BadValue(f'value "{number}" is out of range for type {_LONG_NAMES[kind]}')
    return number


_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?", re.ASCII)


def _float(value: Any) -> float:
    kind = FieldType.FLOAT8
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise _syntax(kind, value)
    if isinstance(value, str):
        value = value.strip()
        if len(value) > 2_000 or not _NUMBER.fullmatch(value):
            raise _syntax(kind, value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        # NaN and infinity have no form in JSON, by which a table is read.
        raise BadValue(f'"{str(value)[:200]}" is out of range for type double precision')
    return number


def _numeric(value: Any) -> Decimal:
    kind = FieldType.NUMERIC
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise _syntax(kind, value)
    text = (repr(value) if isinstance(value, float) else str(value)).strip()
    if len(text) > 2 * MAX_DIGITS + 20 or not _NUMBER.fullmatch(text):
        raise _syntax(kind, value)
    try:
        number = Decimal(text)
    except InvalidOperation:  # pragma: no cover (the pattern allows what Decimal does)
        raise _syntax(kind, value) from None
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or exponent < -MAX_DIGITS or (any(digits) and number.adjusted() >= MAX_DIGITS):
        raise BadValue(f"value has more than {MAX_DIGITS} digits before or after the point")
    if exponent > 0:
        # As many zeros, so that it has a scale: 1E+5 is 100000.
        number = Decimal((sign, digits + (0,) * exponent, 0)) if any(digits) else Decimal(0)
    return number if number else abs(number)


_TRUE: Final = frozenset(("t", "true", "y", "yes", "on", "1"))
_FALSE: Final = frozenset(("f", "false", "n", "no", "off", "0"))


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    if isinstance(value, str):
        word = value.strip().lower()
        if word in _TRUE:
            return True
        if word in _FALSE:
            return False
    raise _syntax(FieldType.BOOL, value)


_DATE: Final = re.compile(r"\s*([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})\s*", re.ASCII)
_COMPACT: Final = re.compile(r"\s*([0-9]{4})([0-9]{2})([0-9]{2})\s*", re.ASCII)
_STAMP: Final = re.compile(
    r"\s*([0-9]{4}-[0-9]{1,2}-[0-9]{1,2})(?:(?:[Tt]|\s+)([0-9:.]+)\s*([Zz]|UTC|GMT|[+-][0-9:]{1,6})?)?\s*", re.ASCII
)
_CLOCK: Final = re.compile(r"\s*([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?\s*", re.ASCII)
_ZONE: Final = re.compile(r"([+-])([0-9]{1,2})(?::?([0-9]{2}))?", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)


def _day(kind: FieldType, text: str, value: str) -> date:
    match = _DATE.fullmatch(text) or _COMPACT.fullmatch(text)
    if match is None:
        raise _syntax(kind, value)
    try:
        return date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        raise BadValue(f'date/time field value out of range: "{value[:200]}"') from None


def _clock(kind: FieldType, text: str, value: str) -> time:
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise _syntax(kind, value)
    fraction = (match[4] or "").ljust(6, "0")
    if fraction[6:].strip("0"):
        raise BadValue(f'"{value[:200]}" is finer than a microsecond')
    try:
        return time(int(match[1]), int(match[2]), int(match[3] or 0), int(fraction[:6]))
    except ValueError:
        raise BadValue(f'date/time field value out of range: "{value[:200]}"') from None


def _date(value: Any) -> str:
    kind = FieldType.DATE
    if not isinstance(value, str):
        raise _syntax(kind, value)
    match = _STAMP.fullmatch(value)
    if match is not None and match[2] is not None:
        clock = _clock(kind, match[2], value)
        if clock != time():
            # PostgreSQL would cut it off, and nobody would know.
            raise _syntax(kind, value)
        return _day(kind, match[1], value).isoformat()
    return _day(kind, value, value).isoformat()


def _time(value: Any) -> str:
    if not isinstance(value, str):
        raise _syntax(FieldType.TIME, value)
    return _clock(FieldType.TIME, value, value).isoformat()


def _stamp(kind: FieldType, value: Any) -> int:
    if not isinstance(value, str):
        raise _syntax(kind, value)
    if len(value) == 19 and value[10] == "T" and value.isascii():
        # The usual form, at a third of the cost.
        try:
            return (datetime.fromisoformat(value) - _NAIVE) // _MICROSECOND
        except (ValueError, TypeError):
            pass
    match = _STAMP.fullmatch(value)
    if match is None:
        compact = _COMPACT.fullmatch(value)
        if compact is None:
            raise _syntax(kind, value)
        day, clock, zone = _day(kind, value, value), time(), None
    else:
        day = _day(kind, match[1], value)
        clock = _clock(kind, match[2], value) if match[2] else time()
        zone = match[3]
    offset = timedelta()
    if zone and zone.upper() not in ("Z", "UTC", "GMT"):
        parts = _ZONE.fullmatch(zone)
        if parts is None or int(parts[2]) > 15 or int(parts[3] or 0) > 59:
            raise _syntax(kind, value)
        offset = timedelta(hours=int(parts[2]), minutes=int(parts[3] or 0))
        if parts[1] == "-":
            offset = -offset
        if offset and kind is FieldType.TIMESTAMP:
            raise BadValue(
                f'the offset of "{value[:200]}" cannot be kept by the type timestamp; use timestamptz, or give UTC'
            )
    try:
        instant = datetime.combine(day, clock, timezone(offset)).astimezone(UTC)
    except (OverflowError, ValueError):
        raise BadValue(f'timestamp out of range: "{value[:200]}"') from None
    return (instant - _EPOCH) // _MICROSECOND


def _json(value: Any) -> str:
    return _text(json_text(value))


def _array(kind: FieldType, value: Any) -> str:
    if isinstance(value, str):
        # PostgreSQL's own form, {a,b}, as clients that send everything as text write it; or a JSON list.
        text = value.strip()
        if text.startswith("{") and text.endswith("}") and '"' not in text and "\\" not in text:
            inner = text[1:-1].strip()
            value = (
                [None if item.strip().upper() == "NULL" else item.strip() for item in inner.split(",")] if inner else []
            )
        else:
            try:
                value = orjson.loads(text)
            except orjson.JSONDecodeError:
                raise BadValue(f'malformed array literal: "{text[:200]}"') from None
    if not isinstance(value, list):
        raise BadValue(f'malformed array literal: "{plain_json(value)[:200]}"')
    items = [_array_item(kind, item) for item in value]
    return orjson.dumps(items).decode()


def _array_item(kind: FieldType, value: Any) -> Any:
    if isinstance(value, list):
        raise BadValue("arrays of more than one dimension are not supported")
    cell = coerce(kind, False, value)
    return shown(kind, False, cell)


_COERCE: Final[Mapping[FieldType, Callable[[Any], Cell]]] = {
    FieldType.TEXT: _text,
    FieldType.INT4: lambda value: _integer(value, FieldType.INT4, 31),
    FieldType.INT8: lambda value: _integer(value, FieldType.INT8, 63),
    FieldType.FLOAT8: _float,
    FieldType.NUMERIC: _numeric,
    FieldType.BOOL: _bool,
    FieldType.DATE: _date,
    FieldType.TIME: _time,
    FieldType.TIMESTAMP: lambda value: _stamp(FieldType.TIMESTAMP, value),
    FieldType.TIMESTAMPTZ: lambda value: _stamp(FieldType.TIMESTAMPTZ, value),
    FieldType.JSON: _json,
}


# ------------------------------------------------------------------ JSON with exact numbers


def _exact(value: Any) -> Any:
    if isinstance(value, Decimal):
        text = str(value)
        return orjson.Fragment(text.encode("ascii"))
    raise TypeError


def json_text(value: Any) -> str:
    """Compact JSON text of a parsed value, Decimals digit by digit. Raises BadValue."""
    _check_depth(value, MAX_JSON_DEPTH)
    try:
        return orjson.dumps(value, default=_exact).decode()
    except orjson.JSONEncodeError as error:
        raise BadValue(f"a value cannot be written as JSON: {error}") from None


def plain_json(value: Any) -> str:
    """The same for messages and texts; of what has no JSON text a word."""
    try:
        return json_text(value)
    except BadValue:
        return type(value).__name__


def _check_depth(value: Any, left: int) -> None:
    if isinstance(value, dict | list):
        if left == 0:
            raise BadValue(f"a json value is nested deeper than {MAX_JSON_DEPTH}")
        for item in value.values() if isinstance(value, dict) else value:
            if isinstance(item, dict | list):
                _check_depth(item, left - 1)


# ------------------------------------------------------------------ writing


_DAY_US: Final = 86_400_000_000
_MINUTES: Final = tuple(f"{minute // 60:02d}:{minute % 60:02d}:" for minute in range(1440))
_DAYS: Final[dict[int, str]] = {}
"""Texts of days: what is measured has few of them, and making one takes three times as long as all the rest."""
_MAX_DAYS: Final = 20_000


def format_stamp(us: int) -> str:
    """``2020-01-01T00:00:00.000``; six digits of a second where three do not hold it."""
    days, rest = divmod(us, _DAY_US)
    day = _DAYS.get(days)
    if day is None:
        if len(_DAYS) >= _MAX_DAYS:
            _DAYS.clear()
        day = _DAYS[days] = f"{(_NAIVE + timedelta(days=days)).date().isoformat()}T"
    minute, rest = divmod(rest, 60_000_000)
    second, fraction = divmod(rest, 1_000_000)
    if fraction % 1000:
        return f"{day}{_MINUTES[minute]}{second:02d}.{fraction:06d}"
    return f"{day}{_MINUTES[minute]}{second:02d}.{fraction // 1000:03d}"


def format_stamptz(us: int) -> str:
    """``2020-01-01T00:00:00+00:00``, with as many digits of a second as there are."""
    return (_EPOCH + timedelta(microseconds=us)).isoformat()


def shown(kind: FieldType, is_array: bool, cell: Cell) -> Any:
    """A cell as ``orjson`` writes it in an answer."""
    if cell is None:
        return None
    encoder = encoder_of(kind, is_array)
    return cell if encoder is None else encoder(cell)


def _fragment(cell: Any) -> orjson.Fragment:
    return orjson.Fragment(cell.encode())


def _numeric_fragment(cell: Any) -> orjson.Fragment:
    return orjson.Fragment(format(cell, "f").encode("ascii"))


def encoder_of(kind: FieldType, is_array: bool) -> Callable[[Any], Any] | None:
    """What makes of a cell (not None) something that orjson writes rightly; None: the cell is that already."""
    if is_array or kind is FieldType.JSON:
        return _fragment
    return _ENCODERS.get(kind)


_ENCODERS: Final[Mapping[FieldType, Callable[[Any], Any]]] = {
    FieldType.NUMERIC: _numeric_fragment,
    FieldType.TIMESTAMP: format_stamp,
    FieldType.TIMESTAMPTZ: format_stamptz,
}


def as_text(kind: FieldType, is_array: bool, cell: Any) -> str:
    """A cell (not None) as text, for CSV and XML: booleans ``t`` and ``f``, arrays and json as JSON."""
    if is_array or kind is FieldType.JSON:
        return str(cell)
    match kind:
        case FieldType.NUMERIC:
            return format(cell, "f")
        case FieldType.TIMESTAMP:
            return format_stamp(cell)
        case FieldType.TIMESTAMPTZ:
            return format_stamptz(cell)
        case FieldType.BOOL:
            return "t" if cell else "f"
        case FieldType.FLOAT8:
            return orjson.dumps(cell).decode()
        case _:
            return str(cell)


# ------------------------------------------------------------------ guessing


def guess(value: Any) -> tuple[FieldType, bool]:
    """The type of a field from its value in the first record. Raises BadValue where none can be guessed."""
    if isinstance(value, bool):
        return FieldType.BOOL, False
    if isinstance(value, int):
        return _integer_type(value), False
    if isinstance(value, float):
        return FieldType.FLOAT8, False
    if isinstance(value, Decimal):
        # What a float gives back as it was is one.
        is_float = Decimal(repr(float(value))) == value
        return (FieldType.FLOAT8 if is_float else FieldType.NUMERIC), False
    if isinstance(value, list | dict):
        return FieldType.JSON, False
    if value is None:
        return FieldType.TEXT, False
    if not isinstance(value, str):
        raise BadValue("type not guessable")
    if _INTEGER.fullmatch(value):
        return _integer_type(int(value)), False
    if _NUMBER.fullmatch(value.strip()):
        return FieldType.NUMERIC, False
    if _STAMP.fullmatch(value):
        try:
            _stamp(FieldType.TIMESTAMP, value)
        except BadValue:
            pass
        else:
            return FieldType.TIMESTAMP, False
    return FieldType.TEXT, False


def _integer_type(value: int) -> FieldType:
    if -(1 << 31) <= value < 1 << 31:
        return FieldType.INT4
    return FieldType.INT8 if -(1 << 63) <= value < 1 << 63 else FieldType.NUMERIC
