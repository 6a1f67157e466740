"""Times as files write them, read exactly: ISO 8601, a pattern, or seconds since 1970.

What comes out is the time as written (its wall clock) and, where the text says it, its offset from UTC; ``zones``
makes instants of it. Texts of one fixed form are read as whole columns; all others one by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from thalweg.domain.blocks import BoolArray, TimeArray
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.time import DAY_US, END_US, HOUR_US, MIN_US, MINUTE_US, SECOND_US, instant_us, parse_instant

NO_ZONE: Final = 1_000_000
"""Offset of a text that does not say one."""
ISO: Final = "iso"
UNIX: Final = "unix"
UNIX_MS: Final = "unix-ms"

_ISO_FORM: Final = re.compile(
    r"\d{4}-\d\d-\d\d(?P<clock>[T ]\d\d:\d\d(?P<second>:\d\d(?P<fraction>[.,]\d{1,6})?)?)?"
    r"(?P<zone>[Zz]|[+-]\d\d(?P<colon>:)?(?P<minutes>\d\d)?)?",
    re.ASCII,
)
_HAS_ZONE: Final = re.compile(r"[T ].*(?:[Zz]|[+-]\d\d(?::?\d\d)?)$", re.ASCII)
_WIDTHS: Final = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2}
_DIGITS: Final = {"Y": r"\d{4}", "m": r"\d{1,2}", "d": r"\d{1,2}", "H": r"\d{1,2}", "M": r"\d{1,2}", "S": r"\d{1,2}",
                  "f": r"\d{1,6}"}  # fmt: skip
_TOKEN: Final = re.compile(r"%(.)|(.)", re.DOTALL)


@dataclass(slots=True)
class Times:
    """Times of n texts.

    wall_us   shape (n,), the clock as written, as if it were UTC; arbitrary where not ok
    offset_s  shape (n,), seconds east of UTC as written, or NO_ZONE
    ok        shape (n,)
    problems  by index where not ok: what is wrong
    """

    wall_us: TimeArray
    offset_s: npt.NDArray[np.int32]
    ok: BoolArray
    problems: dict[int, str]


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where in a text of fixed width the parts of a time stand: (field, start, width), (character, place)."""

    width: int
    fields: tuple[tuple[str, int, int], ...]
    literals: tuple[tuple[str, int], ...]
    sign: int = -1
    utc: int = -1
    either: int = -1


class TimeReader:
    """Reads times of one format.

    format  ``iso``, ``unix`` (seconds since 1970, decimals allowed), ``unix-ms``, or a pattern of strptime's
            directives such as ``%d.%m.%Y %H:%M``
    raises  InvalidParameter (``time_format``) for a pattern that strptime does not know or that gives no date
    """

    def __init__(self, format: str = ISO) -> None:
        self.format = format
        self._pattern: re.Pattern[str] | None = None
        if format not in (ISO, UNIX, UNIX_MS):
            self._check_pattern()
            self._pattern = _pattern(format)

    def _check_pattern(self) -> None:
        try:
            sample = datetime(2017, 11, 23, 14, 35, 46, tzinfo=UTC).strftime(self.format)
            parsed = datetime.strptime(sample, self.format)
        except ValueError as error:
            raise InvalidParameter(
                "time_format", f"'{self.format}' is neither iso, unix, unix-ms nor a pattern of strptime: {error}."
            ) from None
        if (parsed.year, parsed.month, parsed.day) != (2017, 11, 23):
            raise InvalidParameter(
                "time_format",
                f"'{self.format}' does not give year, month and day; an example of one that does is %d.%m.%Y %H:%M.",
            )

    def read(self, texts: Sequence[str]) -> Times:
        """Read all texts (blanks around them do not matter)."""
        n = len(texts)
        times = Times(np.zeros(n, np.int64), np.full(n, NO_ZONE, np.int32), np.zeros(n, np.bool_), {})
        if n == 0:
            return times
        if self.format in (UNIX, UNIX_MS):
            times.offset_s[:] = 0
        else:
            self._read_columnwise(texts, times)
        for index in np.flatnonzero(~times.ok).tolist():
            try:
                wall, offset = self.read_one(texts[index].strip())
            except InvalidParameter as error:
                times.problems[index] = error.message
            else:
                times.wall_us[index], times.offset_s[index], times.ok[index] = wall, offset, True
        return times

    def read_one(self, text: str) -> tuple[int, int]:
        """(wall clock, offset) of one text. Raises InvalidParameter (``time``)."""
        if self.format == ISO:
            if _HAS_ZONE.search(text):
                instant, offset = parse_instant(text, "time")
                return instant + offset * SECOND_US, offset
            return parse_instant(text, "time", default_offset_s=0)[0], NO_ZONE
        if self.format in (UNIX, UNIX_MS):
            return _epoch(text, 6 if self.format == UNIX else 3), 0
        return self._read_by_pattern(text)

    def _read_by_pattern(self, text: str) -> tuple[int, int]:
        try:
            if self._pattern is not None:
                match = self._pattern.fullmatch(text) if len(text) <= 100 else None
                if match is None:
                    raise ValueError
                parts = match.groupdict()
                moment = datetime(
                    int(parts["Y"]), int(parts["m"]), int(parts["d"]), int(parts.get("H") or 0),
                    int(parts.get("M") or 0), int(parts.get("S") or 0), int((parts.get("f") or "0").ljust(6, "0")),
                    tzinfo=UTC,
                )  # fmt: skip
                return instant_us(moment), NO_ZONE
            parsed = datetime.strptime(text[:100], self.format)
        except ValueError:
            raise InvalidParameter("time", f"'{text[:60]}' is not a time of the form {self.format}.") from None
        offset = parsed.utcoffset()
        wall = instant_us(parsed.replace(tzinfo=UTC))
        return wall, NO_ZONE if offset is None else int(offset.total_seconds())

    def _read_columnwise(self, texts: Sequence[str], times: Times) -> None:
        """Read those texts that share width and form with the first one."""
        first = texts[0]
        layout = self._layout(first)
        if layout is None:
            return
        width = layout.width
        joined = "".join(texts)
        if len(joined) != width * len(texts) or not joined.isascii() or set(map(len, texts)) != {width}:
            return
        characters = np.frombuffer(joined.encode("ascii"), np.uint8).reshape(len(texts), width)
        ok = np.ones(len(texts), np.bool_)
        for character, place in layout.literals:
            ok &= characters[:, place] == ord(character)
        if layout.either >= 0:
            ok &= (characters[:, layout.either] == ord("T")) | (characters[:, layout.either] == ord(" "))
        parts: dict[str, npt.NDArray[np.int64]] = {}
        for name, start, length in layout.fields:
            value = np.zeros(len(texts), np.int64)
            for place in range(start, start + length):
                digit = characters[:, place].astype(np.int64) - 48
                ok &= (digit >= 0) & (digit <= 9)
                value = value * 10 + digit
            parts[name] = value * 10 ** (6 - length) if name == "f" else value
        wall = _wall(parts, ok)
        offset = np.full(len(texts), NO_ZONE, np.int32)
        if layout.utc >= 0:
            ok &= (characters[:, layout.utc] | 32) == ord("z")
            offset[:] = 0
        elif layout.sign >= 0:
            sign = characters[:, layout.sign]
            minutes = parts["zM"] if "zM" in parts else np.zeros(len(texts), np.int64)
            ok &= ((sign == ord("+")) | (sign == ord("-"))) & (parts["zH"] < 24) & (minutes < 60)
            seconds = parts["zH"] * 3600 + minutes * 60
            offset[:] = np.where(sign == ord("-"), -seconds, seconds)
        # Near the ends of the calendar the offset decides; the plain reader knows.
        ok &= (wall >= MIN_US + DAY_US) & (wall < END_US - DAY_US)
        times.wall_us, times.offset_s, times.ok = wall, offset, ok

    def _layout(self, sample: str) -> _Layout | None:
        if self.format == ISO:
            return _iso_layout(sample)
        return _pattern_layout(self.format, sample) if self._pattern is not None else None


def _wall(parts: dict[str, Any], ok: BoolArray) -> TimeArray:
    """Microseconds of calendar parts; clears ``ok`` where they are no date and time."""
    year, month, day = parts["Y"], parts["m"], parts["d"]
    ok &= (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    months = np.where(ok, (year - 1970) * 12 + month - 1, 0)
    first = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    following = (months + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    ok &= day <= following - first
    wall = (first + np.where(ok, day, 1) - 1) * DAY_US
    for name, limit, unit in (("H", 24, HOUR_US), ("M", 60, MINUTE_US), ("S", 60, SECOND_US), ("f", 10**6, 1)):
        if name in parts:
            ok &= parts[name] < limit
            wall = wall + parts[name] * unit
    return wall


def _iso_layout(sample: str) -> _Layout | None:
    match = _ISO_FORM.fullmatch(sample)
    if match is None:
        return None
    fields = [("Y", 0, 4), ("m", 5, 2), ("d", 8, 2)]
    literals = [("-", 4), ("-", 7)]
    either = sign = utc = -1
    if match["clock"]:
        either = 10
        fields += [("H", 11, 2), ("M", 14, 2)]
        literals.append((":", 13))
        if match["second"]:
            fields.append(("S", 17, 2))
            literals.append((":", 16))
            if match["fraction"]:
                fields.append(("f", 20, len(match["fraction"]) - 1))
                literals.append((match["fraction"][0], 19))
    zone = match["zone"]
    if zone:
        if not match["clock"]:
            return None
        start = match.start("zone")
        if zone in "Zz":
            utc = start
        else:
            sign = start
            fields.append(("zH", start + 1, 2))
            if match["minutes"]:
                fields.append(("zM", match.start("minutes"), 2))
            if match["colon"]:
                literals.append((":", start + 3))
    return _Layout(len(sample), tuple(fields), tuple(literals), sign, utc, either)


def _pattern_layout(format: str, sample: str) -> _Layout | None:
    """The layout of a pattern whose numbers have leading zeros, or None if the sample shows that they do not."""
    fields: list[tuple[str, int, int]] = []
    literals: list[tuple[str, int]] = []
    place = 0
    for directive, literal in _TOKEN.findall(format):
        if literal or directive == "%":
            literals.append((literal or "%", place))
            place += 1
        else:
            width = _WIDTHS.get(directive)
            if width is None:
                # A fraction of unknown width can only be measured at the end.
                width = len(sample) - place
                if not 1 <= width <= 6 or not format.endswith("%f"):
                    return None
            fields.append((directive, place, width))
            place += width
    return _Layout(place, tuple(fields), tuple(literals)) if place == len(sample) else None


def _pattern(format: str) -> re.Pattern[str] | None:
    """A pattern of numbers alone as a regular expression; None where strptime has to read it (names, AM/PM, %y, %z)."""
    expression = ""
    seen: set[str] = set()
    for directive, literal in _TOKEN.findall(format):
        if literal or directive == "%":
            expression += re.escape(literal or "%")
        elif directive in _DIGITS and directive not in seen:
            seen.add(directive)
            expression += f"(?P<{directive}>{_DIGITS[directive]})"
        else:
            return None
    return re.compile(expression, re.ASCII)


def _epoch(text: str, decimals: int) -> int:
    """Microseconds of a count of seconds (decimals 6) or milliseconds (3) since 1970."""
    try:
        if len(text) > 40 or "_" in text or not text.isascii():
            raise ValueError
        number = Decimal(text).scaleb(decimals)
        result = int(number)
        if not number.is_finite() or number != result:
            raise ValueError
    except (InvalidOperation, ValueError, OverflowError):
        raise InvalidParameter("time", f"'{text[:60]}' is not a count since 1970 in whole microseconds.") from None
    if not MIN_US <= result < END_US:
        raise InvalidParameter("time", f"'{text[:60]}' is outside the years 0001 to 9999 (UTC).")
    return result
