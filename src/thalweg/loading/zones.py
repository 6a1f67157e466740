"""Wall-clock times to instants: fixed offsets, and zones whose clocks are changed twice a year."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from thalweg.domain.blocks import BoolArray, TimeArray
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.time import DAY_US, END_US, MIN_US, SECOND_US
from thalweg.loading.times import NO_ZONE, Times

_OFFSET: Final = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d\d))?", re.ASCII | re.IGNORECASE)
_NAIVE_EPOCH: Final = datetime(1970, 1, 1)
_CHANGING: Final = None


def parse_zone(text: str, parameter: str = "zone") -> tzinfo:
    """A zone by ``UTC``, ``Z``, a fixed offset (``+01:00``) or an IANA name (``Europe/Zurich``).

    raises  InvalidParameter for anything else, or a name that the system's time zone database lacks
    """
    if text.upper() in ("Z", "UTC", "GMT"):
        return UTC
    match = _OFFSET.fullmatch(text)
    if match is not None:
        seconds = int(match[2]) * 3600 + int(match[3] or 0) * 60
        if seconds < 86400 and int(match[3] or 0) < 60:
            return timezone(timedelta(seconds=seconds if match[1] == "+" else -seconds))
    try:
        if len(text) <= 60 and "/" in text:
            return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    raise InvalidParameter(
        parameter,
        f"'{text[:60]}' is not a zone; use UTC, a fixed offset such as +01:00, or a name of the system's time zone "
        "database such as Europe/Zurich.",
    )


@dataclass(slots=True)
class Instants:
    """Instants of n times.

    us          shape (n,), microseconds UTC; arbitrary where not ok
    ok          shape (n,)
    ambiguous   indices of wall-clock times that came twice, by the offset taken (seconds east of UTC)
    impossible  indices of wall-clock times that the clock jumped over; not ok
    unzoned     how many times took the zone given here
    outside     indices of instants outside the storable years; not ok
    """

    us: TimeArray
    ok: BoolArray
    ambiguous: dict[int, int] = field(default_factory=dict)
    impossible: list[int] = field(default_factory=list)
    outside: list[int] = field(default_factory=list)
    unzoned: int = 0


class ZoneClock:
    """Turns wall-clock times of one file into instants, in the order of the file.

    An offset written beside a time wins over the zone. A time that the clock showed twice is taken as the first
    showing unless that would not come after the row before, and the second one would.
    """

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._fixed = None if isinstance(zone, ZoneInfo) else int((zone.utcoffset(None) or timedelta()).total_seconds())
        self._offset_of_day: dict[int, int | None] = {}
        self._last_us = MIN_US - 1

    def instants(self, times: Times) -> Instants:
        wall, ok = times.wall_us, times.ok.copy()
        bare = times.offset_s == NO_ZONE
        offset = np.where(bare, 0, times.offset_s).astype(np.int64)
        result = Instants(wall, ok)
        changing = np.zeros(0, np.int64)
        if bare.any():
            result.unzoned = int(np.count_nonzero(bare & ok))
            if self._fixed is not None:
                offset[bare] = self._fixed
            else:
                changing = self._zone_offsets(wall, bare & ok, offset)
        result.us = wall - offset * SECOND_US
        if len(changing):
            self._around_changes(changing, wall, result)
        outside = ok & ((result.us < MIN_US) | (result.us >= END_US))
        if outside.any():
            result.outside = np.flatnonzero(outside).tolist()
            ok &= ~outside
        good = result.us[ok]
        if len(good):
            self._last_us = int(good[-1])
        return result

    def _zone_offsets(self, wall: TimeArray, wanted: BoolArray, offset: TimeArray) -> TimeArray:
        """Fill offsets of days without a change of the clock; indices of times on other days are returned."""
        days = wall // DAY_US
        unique, inverse = np.unique(days[wanted], return_inverse=True)
        known = [self._day_offset(int(day)) for day in unique.tolist()]
        constant = np.array([0 if value is None else value for value in known], np.int64)
        offset[wanted] = constant[inverse]
        if _CHANGING not in known:
            return np.zeros(0, np.int64)
        turning = np.array([value is _CHANGING for value in known], np.bool_)
        return np.flatnonzero(wanted)[turning[inverse]]

    def _day_offset(self, day: int) -> int | None:
        """The offset of a wall-clock day in seconds, None if the clock is changed on it."""
        if day in self._offset_of_day:
            return self._offset_of_day[day]
        if len(self._offset_of_day) > 200_000:
            self._offset_of_day.clear()
        try:
            begin = _NAIVE_EPOCH + timedelta(days=day)
            found = {
                self._zone.utcoffset((begin + timedelta(hours=hour)).replace(fold=fold))
                for hour in (0, 6, 12, 18, 24)
                for fold in (0, 1)
            }
        except OverflowError:
            found = set()
        only = found.pop() if len(found) == 1 else None
        self._offset_of_day[day] = None if only is None else int(only.total_seconds())
        return self._offset_of_day[day]

    def _around_changes(self, indices: TimeArray, wall: TimeArray, result: Instants) -> None:
        reached = last_ok = -1
        for index in indices.tolist():
            for earlier in range(reached + 1, index):
                if result.ok[earlier]:
                    last_ok = earlier
            reached = index - 1
            try:
                local = _NAIVE_EPOCH + timedelta(microseconds=int(wall[index]))
                first = self._seconds(local, 0)
                second = self._seconds(local, 1)
            except OverflowError:
                result.ok[index] = False
                result.outside.append(index)
                continue
            taken = first
            if first < second:
                result.ok[index] = False
                result.impossible.append(index)
            elif first > second:
                last = int(result.us[last_ok]) if last_ok >= 0 else self._last_us
                if wall[index] - first * SECOND_US <= last < wall[index] - second * SECOND_US:
                    taken = second
                result.ambiguous[index] = taken
            result.us[index] = wall[index] - taken * SECOND_US

    def _seconds(self, local: datetime, fold: int) -> int:
        offset = self._zone.utcoffset(local.replace(fold=fold))
        return int((offset or timedelta()).total_seconds())
