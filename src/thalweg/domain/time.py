"""Instants, intervals and durations.

Inside, an instant is an integer: microseconds since 1970-01-01T00:00:00 UTC (POSIX scale, no leap seconds), and an
interval is half-open. Each door converts to its standard's rule at the edge.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from thalweg.domain.errors import InvalidParameter

SECOND_US: Final = 1_000_000
MINUTE_US: Final = 60 * SECOND_US
HOUR_US: Final = 3600 * SECOND_US
DAY_US: Final = 86400 * SECOND_US

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MIN_US: Final = -62_135_596_800 * SECOND_US
"""0001-01-01T00:00:00Z, the first instant that can be stored."""
END_US: Final = 253_402_300_800 * SECOND_US
"""10000-01-01T00:00:00Z, just after the last instant that can be stored."""

_INSTANT = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,12}))?)?"
    r"(Z|z|[+-]\d\d(?::?\d\d)?)?)?)?)?",
    re.ASCII,
)
_DURATION = re.compile(
    r"P(?=[\dT])(?:(\d{1,9})Y)?(?:(\d{1,9})M)?(?:(\d{1,9})W)?(?:(\d{1,9})D)?"
    r"(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:\.(\d{1,6}))?S)?)?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Interval:
    """The half-open interval [begin_us, end_us), microseconds UTC. Empty if end_us <= begin_us."""

    begin_us: int
    end_us: int

    def __contains__(self, instant_us: object) -> bool:
        return isinstance(instant_us, int) and self.begin_us <= instant_us < self.end_us

    @property
    def is_empty(self) -> bool:
        return self.end_us <= self.begin_us


ALL_TIME: Final = Interval(MIN_US, END_US)


def instant_us(moment: datetime) -> int:
    """Microseconds UTC of an aware datetime, exact."""
    delta = moment - EPOCH
    return (delta.days * 86400 + delta.seconds) * SECOND_US + delta.microseconds


def parse_instant(text: str, parameter: str, *, default_offset_s: int | None = 0) -> tuple[int, int]:
    """Read an ISO 8601 instant.

    text              extended form; a reduced date (``2014``, ``2014-06``, ``2014-06-01``) means its first instant;
                      ``24:00:00`` is the end of its day
    default_offset_s  the zone of a text without one, seconds east of UTC; None refuses such a text
    returns           (microseconds UTC, seconds east of UTC of the zone it was written in)
    raises            InvalidParameter, naming the parameter, for anything else: an instant outside the years
                      0001-9999, a second 60, more precision than a microsecond
    source            ISO 8601:2004 sections 4.1-4.3, XML Schema dateTime
    """
    match = _INSTANT.fullmatch(text) if len(text) <= 40 else None
    if match is None:
        raise InvalidParameter(
            parameter,
            f"'{text[:60]}' is not an ISO 8601 instant; an example of one is 2014-06-01T00:00:00+02:00.",
        )
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    if zone is None:
        if default_offset_s is None:
            raise InvalidParameter(parameter, f"'{text}' does not say its time zone; add Z or an offset.")
        offset_s = default_offset_s
    elif zone in "Zz":
        offset_s = 0
    else:
        digits = zone[1:].replace(":", "")
        offset_s = int(digits[:2]) * 3600 + int(digits[2:] or 0) * 60
        if offset_s >= 86400 or int(digits[2:] or 0) > 59:
            raise InvalidParameter(parameter, f"'{text}' has an impossible offset from UTC.")
        if zone[0] == "-":
            offset_s = -offset_s
    microsecond = 0
    if fraction is not None:
        if fraction[6:].strip("0"):
            raise InvalidParameter(parameter, f"'{text}' is finer than a microsecond, which cannot be kept.")
        microsecond = int(fraction[:6].ljust(6, "0"))
    hours = int(hour or 0)
    end_of_day = hours == 24 and int(minute) == 0 and int(second or 0) == 0 and microsecond == 0
    try:
        local = datetime(
            int(year), int(month or 1), int(day or 1), 0 if end_of_day else hours, int(minute or 0),
            int(second or 0), microsecond, tzinfo=UTC,
        )  # fmt: skip
    except ValueError:
        raise InvalidParameter(parameter, f"'{text}' is not a date and time of the calendar.") from None
    result = instant_us(local) - offset_s * SECOND_US + (DAY_US if end_of_day else 0)
    if not MIN_US <= result < END_US:
        raise InvalidParameter(parameter, f"'{text}' is outside the years 0001 to 9999 (UTC).")
    return result, offset_s


def format_instant(instant: int, offset_s: int = 0) -> str:
    """Write an instant in the zone asked for, shortest form that keeps the microsecond.

    instant   microseconds UTC, MIN_US <= instant < END_US
    offset_s  seconds east of UTC, whole minutes; 0 writes ``Z``
    returns   ``2014-06-01T00:00:00+02:00``, with ``.25`` after the seconds only where needed; an instant whose
              local time would leave the years 0001-9999 is written in UTC
    raises    OverflowError for an instant that cannot be stored
    """
    try:
        moment = EPOCH + timedelta(microseconds=instant + offset_s * SECOND_US)
    except OverflowError:
        if offset_s == 0:
            raise
        return format_instant(instant)
    text = moment.replace(tzinfo=None).isoformat()
    if moment.microsecond:
        text = text.rstrip("0")
    return text + format_offset(offset_s)


def format_offset(offset_s: int) -> str:
    """``Z`` for 0, else ``+hh:mm`` or ``-hh:mm``."""
    if offset_s == 0:
        return "Z"
    sign, minutes = ("-", -offset_s // 60) if offset_s < 0 else ("+", offset_s // 60)
    return f"{sign}{minutes // 60:02d}:{minutes % 60:02d}"


@dataclass(frozen=True, slots=True)
class Duration:
    """An ISO 8601 duration: calendar months apart from exact microseconds, since a month has no fixed length."""

    months: int
    us: int

    @property
    def approximate_us(self) -> int:
        """Microseconds with months of 30.436875 days (Gregorian mean); for comparing and choosing, not for adding."""
        return self.us + self.months * 2_629_746 * SECOND_US

    def add_to(self, instant: int, times: int = 1) -> int:
        """The instant ``times`` durations later (UTC calendar; a day that the month lacks becomes its last).

        raises  ValueError or OverflowError where months lead out of the years 1 to 9999
        """
        if self.months:
            moment = EPOCH + timedelta(microseconds=instant)
            month = moment.year * 12 + moment.month - 1 + self.months * times
            year, month = divmod(month, 12)
            for day in range(moment.day, 27, -1):
                try:
                    moment = moment.replace(year=year, month=month + 1, day=day)
                    break
                except ValueError:
                    continue
            else:
                moment = moment.replace(year=year, month=month + 1)
            instant = instant_us(moment)
        return instant + self.us * times


def parse_duration(text: str, parameter: str) -> Duration:
    """Read a positive ISO 8601 duration such as ``PT10M``, ``P1M``, ``P1DT12H``.

    raises  InvalidParameter for zero, negative, malformed or longer than 9,999 years
    source  ISO 8601:2004 section 4.4.3.2
    """
    match = _DURATION.fullmatch(text) if 2 < len(text) <= 60 else None
    if match is None:
        raise InvalidParameter(parameter, f"'{text[:60]}' is not an ISO 8601 duration such as PT10M or P1D.")
    years, months, weeks, days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:7])
    fraction = int((match.group(8) or "").ljust(6, "0"))
    us = (weeks * 7 + days) * DAY_US + hours * HOUR_US + minutes * MINUTE_US + seconds * SECOND_US + fraction
    duration = Duration(years * 12 + months, us)
    if not 0 < duration.approximate_us <= 9999 * 366 * DAY_US:
        raise InvalidParameter(parameter, f"The duration '{text}' must be longer than zero and at most 9,999 years.")
    return duration


def format_duration(us: int) -> str:
    """Write exact microseconds (>= 0) as an ISO 8601 duration in days, hours, minutes and seconds."""
    if us == 0:
        return "PT0S"
    days, rest = divmod(us, DAY_US)
    hours, rest = divmod(rest, HOUR_US)
    minutes, rest = divmod(rest, MINUTE_US)
    seconds, fraction = divmod(rest, SECOND_US)
    text = "P" + (f"{days}D" if days else "")
    if hours or minutes or seconds or fraction:
        text += "T" + (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
        if seconds or fraction:
            text += f"{seconds}" + (f".{fraction:06d}".rstrip("0") if fraction else "") + "S"
    return text
