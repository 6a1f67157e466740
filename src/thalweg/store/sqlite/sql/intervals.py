"""Intervals, and instants and days with them.

An interval is months, days and microseconds, kept as a number by which intervals are compared (months of thirty days),
twelve bytes, then the three. Instants are microseconds UTC, days and times of day are their ISO texts.
"""

from __future__ import annotations

import re
import struct
from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_EVEN, Decimal
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from thalweg.domain.table_sql import SqlFault
from thalweg.domain.table_values import BadValue, FieldType, coerce
from thalweg.store.codec.decimal_key import encode_decimal
from thalweg.store.sqlite.sql.numbers import divide, quotient_scale

DAY_US: Final = 86_400_000_000
KEY_BYTES: Final = 12
_BIAS: Final = 1 << 95
_REST: Final = struct.Struct(">iiq")
_EPOCH: Final = datetime(1970, 1, 1)
_MICRO: Final = timedelta(microseconds=1)
FIRST_US: Final = (datetime(1, 1, 1) - _EPOCH) // _MICRO
MILLENNIUM_US: Final = 10_957 * DAY_US
LAST_US: Final = (datetime.max - _EPOCH) // _MICRO

Parts = tuple[int, int, int]


def pack(months: int, days: int, us: int) -> bytes:
    try:
        rest = _REST.pack(months, days, us)
    except struct.error:
        raise SqlFault("interval out of range") from None
    return ((months * 30 + days) * DAY_US + us + _BIAS).to_bytes(KEY_BYTES, "big") + rest


def unpack(blob: bytes) -> Parts:
    months, days, us = _REST.unpack_from(blob, KEY_BYTES)
    return months, days, us


_UNITS: Final[dict[str, tuple[int, int, int]]] = {}
_CALLED: Final[dict[str, str]] = {}
"""Of each spelling of a unit the one it is known by."""
for _names, _parts in (
    ("microsecond microseconds us usec usecs", (0, 0, 1)),
    ("millisecond milliseconds ms msec msecs", (0, 0, 1000)),
    ("second seconds sec secs s", (0, 0, 1_000_000)),
    ("minute minutes min mins m", (0, 0, 60_000_000)),
    ("hour hours hr hrs h", (0, 0, 3_600_000_000)),
    ("day days d", (0, 1, 0)),
    ("week weeks w", (0, 7, 0)),
    ("month months mon mons", (1, 0, 0)),
    ("year years yr yrs y", (12, 0, 0)),
    ("decade decades", (120, 0, 0)),
    ("century centuries c", (1200, 0, 0)),
    ("millennium millennia", (12_000, 0, 0)),
):
    for _name in _names.split():
        _UNITS[_name] = _parts
        _CALLED[_name] = _names.split()[0]
_ITEM: Final = re.compile(
    r"\s*(?:(?P<years>[+-]?[0-9]{1,9})-(?P<months>[0-9]{1,2})"
    r"|(?P<sign>[+-])?(?P<h>[0-9]{1,9}):(?P<m>[0-5]?[0-9])(?::(?P<s>[0-5]?[0-9](?:\.[0-9]{1,6})?))?"
    r"|(?P<number>[+-]?(?:[0-9]{1,15}(?:\.[0-9]{0,12})?|\.[0-9]{1,12}))\s*(?P<unit>[a-zA-Z]+)?|(?P<ago>ago))(?=\s|$)",
    re.IGNORECASE | re.ASCII,
)
_CLOCK_FOLLOWS: Final = re.compile(r"\s+[+-]?[0-9]+:", re.ASCII)
_ISO: Final = re.compile(
    r"P(?:([+-]?[0-9.]+)Y)?(?:([+-]?[0-9.]+)M)?(?:([+-]?[0-9.]+)W)?(?:([+-]?[0-9.]+)D)?"
    r"(?:T(?:([+-]?[0-9.]+)H)?(?:([+-]?[0-9.]+)M)?(?:([+-]?[0-9.]+)S)?)?",
    re.ASCII,
)


def _add(parts: list[Decimal], number: Decimal, unit: Parts) -> None:
    """A fraction of years is whole months, of a month days, of a day time; months of 30 days."""
    months, days, us = unit
    if months > 1:
        parts[0] += (number * months).to_integral_value(ROUND_HALF_EVEN)
    elif months:
        whole = number * months
        parts[0] += int(whole)
        rest = (whole - int(whole)) * 30
        parts[1] += int(rest)
        parts[2] += (rest - int(rest)) * DAY_US
    elif days:
        whole = number * days
        parts[1] += int(whole)
        parts[2] += (whole - int(whole)) * DAY_US
    else:
        parts[2] += number * us


def parse(text: str, unit: str = "second") -> bytes:
    """``unit``: of a number without one."""
    bad = SqlFault(f'invalid input syntax for type interval: "{text[:200]}"')
    parts = [Decimal(0), Decimal(0), Decimal(0)]
    plain = text.strip().removeprefix("@").strip()
    if not plain or len(plain) > 200:
        raise bad
    try:
        if plain[:1] in "Pp" and plain[1:2] and plain[1:2] in "+-.0123456789Tt":
            match = _ISO.fullmatch(plain.upper())
            if match is None or not any(match.groups()):
                raise bad
            units = ("year", "month", "week", "day", "hour", "minute", "second")
            for value, name in zip(match.groups(), units, strict=True):
                if value is not None:
                    _add(parts, Decimal(value), _UNITS[name])
        else:
            place = 0
            ago = False
            named: list[str] = []
            while place < len(plain):
                match = _ITEM.match(plain, place)
                if match is None or match.end() == place or ago:
                    raise bad
                place = match.end()
                if match["ago"]:
                    ago = True
                elif match["years"] is not None:
                    if int(match["months"]) >= 12:
                        raise bad
                    named += ("year", "month")
                    months = abs(int(match["years"])) * 12 + int(match["months"])
                    parts[0] += -months if match["years"].startswith("-") else months
                elif match["h"] is not None:
                    named += ("hour", "minute", "second")
                    us = (Decimal(match["h"]) * 60 + Decimal(match["m"])) * 60 + Decimal(match["s"] or 0)
                    parts[2] += (-us if match["sign"] == "-" else us) * 1_000_000
                else:
                    # What stands before a time of day is days.
                    name = (match["unit"] or ("day" if _CLOCK_FOLLOWS.match(plain, place) else unit)).lower()
                    if name not in _UNITS:
                        raise bad
                    named.append(_CALLED[name])
                    _add(parts, Decimal(match["number"]), _UNITS[name])
            if len(named) > len(set(named)):
                raise bad
            if ago:
                parts = [-part for part in parts]
    except ArithmeticError:
        raise bad from None
    return pack(int(parts[0]), int(parts[1]), round(parts[2]))


def text(blob: bytes) -> str:
    """``1 year 2 mons 3 days 04:05:06.7``"""
    months, days, us = unpack(blob)
    years, months = (abs(months) // 12 * (1 if months >= 0 else -1)), abs(months) % 12 * (1 if months >= 0 else -1)
    shown: list[str] = []
    before = False
    for number, name in ((years, "year"), (months, "mon"), (days, "day")):
        if number:
            plus = "+" if before and number > 0 else ""
            shown.append(f"{plus}{number} {name}{'' if number == 1 else 's'}")
            before = number < 0
    if us or not shown:
        sign = "-" if us < 0 else "+" if before else ""
        seconds, fraction = divmod(abs(us), 1_000_000)
        clock = f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        shown.append(clock + (f".{fraction:06d}".rstrip("0") if fraction else ""))
    return " ".join(shown)


# ------------------------------------------------------------------ instants


def moment(us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=us)


def instant(value: datetime) -> int:
    return (value - _EPOCH) // _MICRO


def checked(us: int) -> int:
    if not FIRST_US <= us <= LAST_US:
        raise SqlFault("timestamp out of range")
    return us


def add_months(us: int, months: int) -> int:
    value = moment(us)
    total = value.year * 12 + value.month - 1 + months
    year, month = total // 12, total % 12 + 1
    if not 1 <= year <= 9999:
        raise SqlFault("timestamp out of range")
    return instant(value.replace(year=year, month=month, day=min(value.day, monthrange(year, month)[1])))


def instant_add(us: int, blob: bytes) -> int:
    months, days, rest = unpack(blob)
    if months:
        us = add_months(us, months)
    return checked(us + days * DAY_US + rest)


def instant_sub(us: int, blob: bytes) -> int:
    months, days, rest = unpack(blob)
    if months:
        us = add_months(us, -months)
    return checked(us - days * DAY_US - rest)


def instants_between(a: int, b: int) -> bytes:
    """a - b: days and time, never months."""
    difference = a - b
    days = abs(difference) // DAY_US * (1 if difference >= 0 else -1)
    return pack(0, days, difference - days * DAY_US)


def age(a: int, b: int) -> bytes:
    """The difference in years, months and days of the calendar."""
    sign = 1
    late, early = a, b
    if a < b:
        late, early, sign = b, a, -1
    x, y = moment(late), moment(early)
    months = (x.year - y.year) * 12 + x.month - y.month
    days = x.day - y.day
    us = (late % DAY_US) - (early % DAY_US)
    if us < 0:
        us += DAY_US
        days -= 1
    if days < 0:
        # Days are those of the month of the earlier instant.
        days += monthrange(y.year, y.month)[1]
        months -= 1
    return pack(sign * months, sign * days, sign * us)


def interval_add(a: bytes, b: bytes) -> bytes:
    return pack(*(x + y for x, y in zip(unpack(a), unpack(b), strict=True)))


def interval_sub(a: bytes, b: bytes) -> bytes:
    return pack(*(x - y for x, y in zip(unpack(a), unpack(b), strict=True)))


def interval_neg(a: bytes) -> bytes:
    return pack(*(-x for x in unpack(a)))


def interval_mul(a: bytes, factor: float) -> bytes:
    """Fractions cascade: of months to days, of days to time."""
    months, days, us = unpack(a)
    if abs(factor) > 1e12:
        raise SqlFault("interval out of range")
    month = int(months * factor)
    day = int(days * factor)
    month_days = (months * factor - month) * 30
    month_days = round(month_days * 1e6) / 1e6
    seconds = (days * factor - day + month_days - int(month_days)) * 86_400
    seconds = round(seconds * 1e6) / 1e6
    if abs(seconds) >= 86_400:
        day += int(seconds / 86_400)
        seconds -= int(seconds / 86_400) * 86_400
    return pack(month, day + int(month_days), round(us * factor + seconds * 1e6))


def interval_div(a: bytes, divisor: float) -> bytes:
    if divisor == 0:
        raise SqlFault("division by zero")
    months, days, us = unpack(a)
    month = int(months / divisor)
    day = int(days / divisor)
    month_days = (months / divisor - month) * 30
    month_days = round(month_days * 1e6) / 1e6
    seconds = (days / divisor - day + month_days - int(month_days)) * 86_400
    seconds = round(seconds * 1e6) / 1e6
    if abs(seconds) >= 86_400:
        day += int(seconds / 86_400)
        seconds -= int(seconds / 86_400) * 86_400
    return pack(month, day + int(month_days), round(us / divisor + seconds * 1e6))


def justify_hours(a: bytes) -> bytes:
    months, days, us = unpack(a)
    whole = abs(us) // DAY_US * (1 if us >= 0 else -1)
    days, us = days + whole, us - whole * DAY_US
    if days > 0 and us < 0:
        days, us = days - 1, us + DAY_US
    elif days < 0 and us > 0:
        days, us = days + 1, us - DAY_US
    return pack(months, days, us)


def justify_days(a: bytes) -> bytes:
    months, days, us = unpack(a)
    whole = abs(days) // 30 * (1 if days >= 0 else -1)
    months, days = months + whole, days - whole * 30
    if months > 0 and days < 0:
        months, days = months - 1, days + 30
    elif months < 0 and days > 0:
        months, days = months + 1, days - 30
    return pack(months, days, us)


def justify_interval(a: bytes) -> bytes:
    months, days, us = unpack(a)
    whole = abs(us) // DAY_US * (1 if us >= 0 else -1)
    days, us = days + whole, us - whole * DAY_US
    whole = abs(days) // 30 * (1 if days >= 0 else -1)
    months, days = months + whole, days - whole * 30
    if months > 0 and (days < 0 or (days == 0 and us < 0)):
        months, days = months - 1, days + 30
    elif months < 0 and (days > 0 or (days == 0 and us > 0)):
        months, days = months + 1, days - 30
    if days > 0 and us < 0:
        days, us = days - 1, us + DAY_US
    elif days < 0 and us > 0:
        days, us = days + 1, us - DAY_US
    return pack(months, days, us)


def make_interval(*given: float) -> bytes:
    """years, months, weeks, days, hours, mins, secs; those left out are none."""
    padded: list[float] = [*given, *([0.0] * (7 - len(given)))]
    years, months, weeks, days, hours, mins, secs = padded
    us = int(hours) * 3_600_000_000 + int(mins) * 60_000_000 + round(secs * 1_000_000)
    return pack(int(years) * 12 + int(months), int(weeks) * 7 + int(days), us)


# ------------------------------------------------------------------ texts


_ZONED: Final = re.compile(
    r"(?P<rest>\s*[0-9]{4}-?[0-9]{1,2}-?[0-9]{1,2}(?:[Tt\s]\s*[0-9:.]+))\s*(?P<zone>[Zz]|UTC|GMT|[+-][0-9:]{1,6})?\s*",
    re.ASCII,
)


def _no_clock() -> int:
    """For texts that are made, or of records."""
    raise SqlFault("now, today, yesterday and tomorrow are understood where a constant says them")


def _special(text_value: str, now: Callable[[], int]) -> int | None:
    word = text_value.strip().lower()
    if word in ("now", "today", "yesterday", "tomorrow", "epoch"):
        if word == "epoch":
            return 0
        if word == "now":
            return now()
        return now() // DAY_US * DAY_US + {"today": 0, "yesterday": -DAY_US, "tomorrow": DAY_US}[word]
    return None


def read_instant(value: str, zoned: bool, now: Callable[[], int] = _no_clock) -> int:
    """Of a timestamp without a zone one that is given is passed over, as PostgreSQL does. ``now``: asked where the text
    means it."""
    name = "timestamp with time zone" if zoned else "timestamp"
    special = _special(value, now)
    if special is not None:
        return special
    if not value.strip():
        raise SqlFault(f'invalid input syntax for type {name}: "{value[:200]}"')
    plain = value.replace("/", "-", 2) if re.match(r"\s*[0-9]{4}/", value) else value
    if not zoned:
        match = _ZONED.fullmatch(plain)
        if match is not None:
            plain = match["rest"]
    try:
        found = coerce(FieldType.TIMESTAMPTZ if zoned else FieldType.TIMESTAMP, False, plain)
    except BadValue as error:
        raise SqlFault(str(error).replace("timestamp without time zone", "timestamp")) from None
    return int(found)  # type: ignore[arg-type]


def read_day(value: str, now: Callable[[], int] = _no_clock) -> str:
    special = _special(value, now)
    if special is not None:
        return day_of(special)
    if not value.strip():
        raise SqlFault(f'invalid input syntax for type date: "{value[:200]}"')
    try:
        return day_of(read_instant(value, False))
    except SqlFault as error:
        raise SqlFault(error.message.replace("type timestamp", "type date")) from None


def read_clock(value: str) -> str:
    try:
        if not value.strip():
            raise BadValue(f'invalid input syntax for type time: "{value[:200]}"')
        return str(coerce(FieldType.TIME, False, value))
    except BadValue as error:
        raise SqlFault(str(error)) from None


def instant_text(us: int) -> str:
    shown = moment(us).isoformat(" ")
    return shown.rstrip("0") if "." in shown else shown


def instant_zoned_text(us: int) -> str:
    return f"{instant_text(us)}+00"


def instant_iso(us: int) -> str:
    """As answers have it: without digits of a second that are not there."""
    return moment(us).isoformat()


def instant_zoned_iso(us: int) -> str:
    return f"{moment(us).isoformat()}+00:00"


def day_of(us: int) -> str:
    return _day_text(us // DAY_US)


@lru_cache(4096)
def _day_text(day: int) -> str:
    return moment(day * DAY_US).date().isoformat()


def clock_of(us: int) -> str:
    return moment(us).time().isoformat()


@lru_cache(4096)
def _ordinal(day: str) -> int:
    return date.fromisoformat(day).toordinal()


_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


def day_instant(day: str) -> int:
    return (_ordinal(day) - _EPOCH_DAY) * DAY_US


def day_add(day: str, number: int) -> str:
    try:
        return date.fromordinal(_ordinal(day) + number).isoformat()
    except (ValueError, OverflowError):
        raise SqlFault("date out of range") from None


def day_sub(day: str, number: int) -> str:
    return day_add(day, -number)


def days_between(a: str, b: str) -> int:
    return _ordinal(a) - _ordinal(b)


def clock_us(clock: str) -> int:
    hours, minutes, seconds = clock.split(":")
    whole, _, fraction = seconds.partition(".")
    return (int(hours) * 3600 + int(minutes) * 60 + int(whole)) * 1_000_000 + int(fraction.ljust(6, "0") or 0)


def clock_text(clock: str) -> str:
    return clock.rstrip("0") if "." in clock else clock


def us_clock(us: int) -> str:
    return clock_of(us % DAY_US)


def clock_add(clock: str, blob: bytes) -> str:
    return us_clock(clock_us(clock) + unpack(blob)[2])


def clock_sub(clock: str, blob: bytes) -> str:
    return us_clock(clock_us(clock) - unpack(blob)[2])


def clocks_between(a: str, b: str) -> bytes:
    return pack(0, 0, clock_us(a) - clock_us(b))


def clock_interval(clock: str) -> bytes:
    return pack(0, 0, clock_us(clock))


def interval_clock(blob: bytes) -> str:
    return us_clock(unpack(blob)[2])


def day_clock(day: str, clock: str) -> int:
    return day_instant(day) + clock_us(clock)


def make_day(year: int, month: int, day: int) -> str:
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        raise SqlFault(f"date field value out of range: {year}-{month:02d}-{day:02d}") from None


def make_clock(hour: int, minute: int, second: float) -> str:
    us = (hour * 3600 + minute * 60) * 1_000_000 + round(second * 1_000_000)
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60):
        raise SqlFault(f"time field value out of range: {hour}:{minute:02d}:{second:g}")
    return us_clock(us)


def make_instant(year: int, month: int, day: int, hour: int, minute: int, second: float) -> int:
    return day_clock(make_day(year, month, day), make_clock(hour, minute, second))


_SHORT_ZONES: Final = {
    "cet": 1, "cest": 2, "met": 1, "mest": 2, "eet": 2, "eest": 3, "wet": 0, "west": 1, "est": -5, "edt": -4, "cst": -6,
    "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7, "hst": -10, "bst": 1, "msk": 3, "jst": 9,
}  # fmt: skip
"""Hours of the abbreviations that PostgreSQL takes for what they say, all the year."""


@lru_cache(1)
def _zones() -> dict[str, str]:
    """Names without case."""
    return {name.lower(): name for name in available_timezones()}


@lru_cache(64)
def _zone(name: str) -> tzinfo:
    short = _SHORT_ZONES.get(name.lower())
    if short is not None:
        return timezone(timedelta(hours=short))
    try:
        if not re.fullmatch(r"[A-Za-z0-9_+/-]{1,60}", name):
            raise ValueError
        return ZoneInfo(_zones()[name.lower()])
    except (ZoneInfoNotFoundError, KeyError, ValueError, OSError):
        raise SqlFault(f'time zone "{name[:60]}" not recognized') from None


def to_zone(zone: str, us: int) -> int:
    """An instant on the clocks of a zone."""
    local = moment(us).replace(tzinfo=UTC).astimezone(_zone(zone))
    return checked(instant(local.replace(tzinfo=None)))


def from_zone(zone: str, us: int) -> int:
    local = moment(us).replace(tzinfo=_zone(zone))
    return checked(instant(local.astimezone(UTC).replace(tzinfo=None)))


# ------------------------------------------------------------------ fields and cutting off


def _iso_week(value: datetime) -> tuple[int, int]:
    year, week, _ = value.isocalendar()
    return year, week


def instant_field(field: str, us: int) -> Decimal:
    """EXTRACT."""
    name = field.lower()
    match name:
        case "hour" | "hours" | "h" | "hr" | "hrs":
            return Decimal(us // 3_600_000_000 % 24)
        case "minute" | "minutes" | "m" | "min" | "mins":
            return Decimal(us // 60_000_000 % 60)
        case "second" | "seconds" | "s" | "sec" | "secs":
            return Decimal(us % 60_000_000).scaleb(-6)
        case "milliseconds" | "millisecond" | "ms" | "msec" | "msecs":
            return Decimal(us % 60_000_000).scaleb(-3)
        case "microseconds" | "microsecond" | "us" | "usec" | "usecs":
            return Decimal(us % 60_000_000)
        case "epoch":
            return Decimal(us).scaleb(-6)
        case "julian":
            part = Decimal(us % DAY_US)
            digits = quotient_scale(part, Decimal(DAY_US))
            return us // DAY_US + 2_440_588 + divide(part, Decimal(DAY_US), digits)
    return _field_of_day(name, us // DAY_US)


@lru_cache(4096)
def _field_of_day(name: str, day: int) -> Decimal:
    """Of a day, by its number."""
    value = moment(day * DAY_US)
    match name:
        case "year" | "years" | "y" | "yr" | "yrs":
            return Decimal(value.year)
        case "month" | "months" | "mon" | "mons":
            return Decimal(value.month)
        case "day" | "days" | "d":
            return Decimal(value.day)
        case "dow":
            return Decimal(value.isoweekday() % 7)
        case "isodow":
            return Decimal(value.isoweekday())
        case "doy":
            return Decimal(value.timetuple().tm_yday)
        case "week" | "weeks" | "w":
            return Decimal(_iso_week(value)[1])
        case "isoyear":
            return Decimal(_iso_week(value)[0])
        case "quarter" | "qtr":
            return Decimal((value.month + 2) // 3)
        case "decade" | "decades":
            return Decimal(value.year // 10)
        case "century" | "centuries" | "c":
            return Decimal((value.year + 99) // 100)
        case "millennium" | "millennia" | "mil" | "mils":
            return Decimal((value.year + 999) // 1000)
    raise SqlFault(f'unit "{name[:50]}" not recognized for type timestamp without time zone')


_OF_DAY: Final = frozenset("year month day dow isodow doy week isoyear quarter decade century millennium".split())


def instant_key(field: str, us: int) -> bytes:
    """EXTRACT, as a key."""
    return _day_key(field, us // DAY_US) if field in _OF_DAY else encode_decimal(instant_field(field, us))


@lru_cache(4096)
def _day_key(field: str, day: int) -> bytes:
    return encode_decimal(_field_of_day(field, day))


_OF_CLOCK: Final = frozenset("hour minute second milliseconds microseconds epoch".split())


def clock_field(field: str, clock: str) -> Decimal:
    if field.lower() not in _OF_CLOCK:
        raise SqlFault(f'unit "{field[:50]}" not supported for type time without time zone')
    return instant_field(field, clock_us(clock))


def day_field(field: str, day: str) -> Decimal:
    if field.lower() in ("hour", "minute", "second", "milliseconds", "microseconds"):
        raise SqlFault(f'unit "{field}" not supported for type date')
    found = instant_field(field, day_instant(day))
    # Of a day there is no fraction.
    return Decimal(int(found)) if field.lower() in ("epoch", "julian") else found


def interval_field(field: str, blob: bytes) -> Decimal:
    months, days, us = unpack(blob)
    sign = 1 if months >= 0 else -1
    years = abs(months) // 12 * sign
    match field.lower():
        case "year" | "years":
            return Decimal(years)
        case "month" | "months":
            return Decimal(abs(months) % 12 * sign)
        case "quarter":
            if months < 0:
                raise SqlFault("the quarter of a negative interval is not answered")
            return Decimal(months % 12 // 3 + 1)
        case "day" | "days":
            return Decimal(days)
        case "hour" | "hours":
            return Decimal(int(us / 3_600_000_000) if abs(us) < 1 << 53 else us // 3_600_000_000)
        case "minute" | "minutes":
            return Decimal(abs(us) // 60_000_000 % 60 * (1 if us >= 0 else -1))
        case "second" | "seconds":
            return Decimal(abs(us) % 60_000_000 * (1 if us >= 0 else -1)).scaleb(-6)
        case "milliseconds":
            return Decimal(abs(us) % 60_000_000 * (1 if us >= 0 else -1)).scaleb(-3)
        case "microseconds":
            return Decimal(abs(us) % 60_000_000 * (1 if us >= 0 else -1))
        case "decade":
            return Decimal(abs(years) // 10 * sign)
        case "century":
            return Decimal(abs(years) // 100 * sign)
        case "epoch":
            # Years of 365.25 days, months of 30.
            rest = abs(months) % 12 * sign
            total = Decimal(years) * Decimal("365.25") + rest * 30 + days
            return (total * 86_400 + Decimal(us).scaleb(-6)).quantize(Decimal("0.000001"))
    raise SqlFault(f'unit "{field[:50]}" not supported for type interval')


def truncate(field: str, us: int) -> int:
    """date_trunc."""
    name = field.lower()
    size = _SIZES.get(name)
    return us // size * size if size is not None else _begin(name, us // DAY_US)


_SIZES: Final = {
    **dict.fromkeys(("microseconds", "microsecond"), 1),
    **dict.fromkeys(("milliseconds", "millisecond"), 1000),
    **dict.fromkeys(("second", "seconds"), 1_000_000),
    **dict.fromkeys(("minute", "minutes"), 60_000_000),
    **dict.fromkeys(("hour", "hours"), 3_600_000_000),
    **dict.fromkeys(("day", "days"), DAY_US),
}


@lru_cache(4096)
def _begin(name: str, day: int) -> int:
    """Of the week, month or more years that a day is in, by its number: measured times come in order, many a day."""
    value = moment(day * DAY_US)
    year, month = value.year, value.month
    match name:
        case "week" | "weeks":
            # The first of January 1970 was a Thursday.
            return checked(((day + 3) // 7 * 7 - 3) * DAY_US)
        case "month" | "months":
            pass
        case "quarter":
            month = (month - 1) // 3 * 3 + 1
        case "year" | "years":
            month = 1
        case "decade" | "decades":
            year, month = year // 10 * 10, 1
        case "century" | "centuries":
            year, month = (year - 1) // 100 * 100 + 1, 1
        case "millennium" | "millennia":
            year, month = (year - 1) // 1000 * 1000 + 1, 1
        case _:
            raise SqlFault(f'unit "{name[:50]}" not recognized for type timestamp without time zone')
    if year < 1:
        raise SqlFault("timestamp out of range")
    return instant(datetime(year, month, 1))


def truncate_zoned(field: str, us: int, zone: str) -> int:
    return from_zone(zone, truncate(field, to_zone(zone, us)))


def truncate_interval(field: str, blob: bytes) -> bytes:
    months, days, us = unpack(blob)
    sign = 1 if us >= 0 else -1
    for names, size in (
        (("microseconds",), 1),
        (("milliseconds",), 1000),
        (("second", "seconds"), 1_000_000),
        (("minute", "minutes"), 60_000_000),
        (("hour", "hours"), 3_600_000_000),
    ):
        if field.lower() in names:
            return pack(months, days, abs(us) // size * size * sign)
    sign = 1 if months >= 0 else -1
    match field.lower():
        case "day" | "days":
            return pack(months, days, 0)
        case "month" | "months":
            return pack(months, 0, 0)
        case "quarter":
            return pack(abs(months) // 3 * 3 * sign, 0, 0)
        case "year" | "years":
            return pack(abs(months) // 12 * 12 * sign, 0, 0)
    raise SqlFault(f'unit "{field[:50]}" not supported for type interval')


def bucket(stride: bytes, us: int, origin: int) -> int:
    """date_bin: the begin of the stretch of that length, counted from the origin, that an instant is in."""
    months, days, rest = unpack(stride)
    if months:
        raise SqlFault("timestamps cannot be binned into intervals containing months or years")
    length = days * DAY_US + rest
    if length <= 0:
        raise SqlFault("stride must be greater than zero")
    return checked(origin + (us - origin) // length * length)


MONDAY_US: Final = 10_959 * DAY_US
"""3 January 2000, from which weeks and shorter buckets are counted."""


def time_bucket(stride: bytes, us: int) -> int:
    """The same, counted from a Monday; strides of months from January 2000."""
    months, days, rest = unpack(stride)
    if not months:
        return bucket(stride, us, MONDAY_US)
    if days or rest or months < 0:
        raise SqlFault("a bucket is of months, or of days and times")
    value = moment(us)
    number = (value.year - 2000) * 12 + value.month - 1
    begin = number // months * months + 2000 * 12
    if begin < 12:
        raise SqlFault("timestamp out of range")
    return instant(datetime(begin // 12, begin % 12 + 1, 1))


def steps_of(how: str, literal: Any) -> tuple[int, int] | None:
    """Length and origin, both in microseconds, of what a truncation or bucket cuts time into, where they are all as
    long; None: they are not, or it has to be looked at otherwise.

    how      ``truncate`` with a unit's name, ``time_bucket`` with an interval
    """
    if how == "truncate":
        length = _LENGTHS.get(str(literal).lower())
        return None if length is None else (length, _MONDAY if length == 7 * DAY_US else 0)
    months, days, rest = unpack(literal)
    length = days * DAY_US + rest
    return None if months or not 0 < length <= LAST_US - FIRST_US else (length, MONDAY_US)


_MONDAY: Final = 4 * DAY_US
"""The first of January 1970 was a Thursday."""
_LENGTHS: Final = {
    **dict.fromkeys(("second", "seconds"), 1_000_000),
    **dict.fromkeys(("minute", "minutes"), 60_000_000),
    **dict.fromkeys(("hour", "hours"), 3_600_000_000),
    **dict.fromkeys(("day", "days"), DAY_US),
    **dict.fromkeys(("week", "weeks"), 7 * DAY_US),
}


def epoch_instant(seconds: float) -> int:
    """Floats are counted from the year 2000 there, which is seen in their last digits."""
    return checked(round((seconds - MILLENNIUM_US / 1e6) * 1e6) + MILLENNIUM_US)
