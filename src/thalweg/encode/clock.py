"""Instants as fixed-width cells of text, from a table of dates and one of the minutes of a day.

The text is that of ``domain.time.format_instant``. Rows on whole minutes, nearly all there are, take two cells;
seconds and fractions take more.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from thalweg.domain.blocks import TimeArray
from thalweg.domain.time import DAY_US, END_US, MIN_US, MINUTE_US, SECOND_US, format_instant, format_offset
from thalweg.encode.digits import Cells, IntArray, fraction_cells, padded

# Days in the table, 1900 to 2099, counted from 1970-01-01.
_FIRST_DAY: Final = -25_567
_END_DAY: Final = 47_482

_MINUTE: Final = np.int64(MINUTE_US)
_SECOND: Final = np.int64(SECOND_US)
_MINUTES_A_DAY: Final = np.int64(1440)


@lru_cache(maxsize=16)
def _dates(lead: bytes) -> Cells:
    """``lead`` and date of each day. Day 0 comes first and the days before it last, so that a negative number of a
    day is its index, as numpy counts from the end."""
    days = np.concatenate([np.arange(_END_DAY), np.arange(_FIRST_DAY, 0)])
    return _date_cells(days, lead)


def _date_cells(days: IntArray, lead: bytes) -> Cells:
    texts = np.datetime_as_string(days.astype("datetime64[D]")).astype("S10")
    cells = np.empty((len(days), len(lead) + 10), np.uint8)
    if lead:
        cells[:, : len(lead)] = np.frombuffer(lead, np.uint8)
    cells[:, len(lead) :] = texts.view(np.uint8).reshape(-1, 10)
    return cells.view(f"S{len(lead) + 10}")[:, 0]


@lru_cache(maxsize=256)
def _minutes(tail: bytes) -> Cells:
    """``Thh:mm`` and ``tail`` for each minute of a day."""
    return padded([b"T%02d:%02d" % divmod(i, 60) + tail for i in range(1440)])


@lru_cache(maxsize=256)
def _seconds(tail: bytes) -> Cells:
    return padded([b":%02d" % i + tail for i in range(60)])


class Clock:
    """Writes instants in one zone between two constant texts.

    lead, tail  before and after each instant, without NUL
    offset_s    seconds east of UTC, whole minutes, less than a day
    """

    __slots__ = ("_offset", "_offset_s", "_on_minutes", "_tail", "_zone", "lead")

    def __init__(self, lead: bytes, offset_s: int, tail: bytes) -> None:
        self.lead = lead
        self._tail = tail
        self._offset_s = offset_s
        self._offset = np.int64(offset_s * SECOND_US)
        self._zone = format_offset(offset_s).encode() + tail
        self._on_minutes = _minutes(b":00" + self._zone)

    def text(self, instant: int) -> bytes:
        """One instant with lead and tail."""
        return self.lead + format_instant(instant, self._offset_s).encode() + self._tail

    def cells(self, instants: TimeArray, *, ascending: bool) -> list[Cells]:
        """Lead, text and tail of each instant, as cells side by side (of n rows or one for all), to be read only.

        ascending  the first instant is the least and the last one the greatest
        """
        if not ascending or len(instants) > _PATTERN_ROWS:
            return self._cells(instants, ascending)[0]
        # Blocks with the same steps from the same time of day differ in their dates alone, and most do: a regular
        # series read from one midnight to the next.
        first = instants.item(0)
        day, time = divmod(first + self._offset_s * SECOND_US, DAY_US)
        key = (self, time, (instants - first).tobytes())
        known = _patterns.get(key)
        if known is not None:
            days, rest = known
            if day >= _FIRST_DAY and day + days.item(-1) < _END_DAY:
                return [_dates(self.lead).take(days + day), *rest]
        cells, all_days = self._cells(instants, ascending)
        if all_days is not None:
            if len(_patterns) >= _MAX_PATTERNS:
                _patterns.clear()
            _patterns[key] = (all_days - day, tuple(cells[1:]))
        return cells

    def _cells(self, instants: TimeArray, ascending: bool) -> tuple[list[Cells], IntArray | None]:
        """The cells, the date first, and the days since 1970; no days if the cells are whole texts."""
        local = instants + self._offset if self._offset_s else instants
        first, last = (local.item(0), local.item(-1)) if ascending else (int(local.min()), int(local.max()))
        minute = local // _MINUTE
        day = minute // _MINUTES_A_DAY
        if first >= _FIRST_DAY * DAY_US and last < _END_DAY * DAY_US:
            date = _dates(self.lead).take(day)
        elif first >= MIN_US and last < END_US:
            date = _date_cells(day, self.lead)
        else:  # the zone leads out of the calendar: such rows are written in UTC
            return [padded([self.text(instant) for instant in instants.tolist()])], None
        whole = minute * _MINUTE
        minute -= day * _MINUTES_A_DAY
        # Comparing bytes is several times faster than comparing arrays.
        if whole.tobytes() == local.tobytes():
            return [date, self._on_minutes.take(minute)], day
        rest = local - whole
        second = rest // _SECOND
        rest -= second * _SECOND
        if not rest.any():
            return [date, _minutes(b"").take(minute), _seconds(self._zone).take(second)], day
        fraction = fraction_cells(rest, 6)
        return [date, _minutes(b"").take(minute), _seconds(b"").take(second), *fraction, padded([self._zone])], day


_PATTERN_ROWS: Final = 512
_MAX_PATTERNS: Final = 256
_patterns: Final[dict[tuple[Clock, int, bytes], tuple[IntArray, tuple[Cells, ...]]]] = {}


@lru_cache(maxsize=256)
def clock(lead: bytes, offset_s: int, tail: bytes) -> Clock:
    """The clock of a zone, made once."""
    return Clock(lead, offset_s, tail)
