"""Times in SOS requests: instants, periods, lists, ``latest`` and ``first``, in KVP and in XML.

A period is (begin, end] in SOS 1.0, as istSOS reads it, so that days in a row neither overlap nor leave a gap; it is
closed at both ends in SOS 2.0 (OGC 12-006 leaves it to the server; clients send the bounds they want to see).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from lxml import etree

from thalweg.domain.errors import InvalidParameter, MissingParameter, NotSupported
from thalweg.domain.time import (
    ALL_TIME,
    END_US,
    MIN_US,
    SECOND_US,
    Interval,
    format_instant,
    format_offset,
    parse_duration,
    parse_instant,
)
from thalweg.encode.xml_elements import local_name, text_of
from thalweg.services.observe import closed, open_begin

MAX_TIMES: Final = 1000
"""Most instants and periods of one request."""

_NAIVE_EPOCH: Final = datetime(1970, 1, 1)
# Offsets in use, in quarters of an hour; others take the thorough path.
_OFFSETS: Final = {format_offset(quarter * 900): quarter * 900 for quarter in range(-56, 57)} | {"+00:00": 0, "z": 0}


@dataclass(frozen=True, slots=True)
class TimeFilter:
    """Which times are asked for; intervals half-open, microseconds UTC.

    phenomenon, result  unions; None: no condition
    latest, first       only the newest or oldest value of each series; then there are no intervals
    exactly             periods (begin, end), both inclusive: rows whose phenomenon time equals one count as well
    offset_s            the offset from UTC of the first time given: answers are written in it
    """

    phenomenon: tuple[Interval, ...] | None = None
    result: tuple[Interval, ...] | None = None
    latest: bool = False
    first: bool = False
    exactly: tuple[tuple[int, int], ...] = ()
    offset_s: int = 0


NO_FILTER: Final = TimeFilter()
LATEST: Final = TimeFilter(latest=True)


def instant(text: str, parameter: str) -> tuple[int, int]:
    """``parse_instant`` with a quick path for the two usual forms (``…T00:00:00Z``, ``…T00:00:00+02:00``).

    returns  (microseconds UTC, offset in seconds); a text without a zone is UTC
    """
    if len(text) in (20, 25) and text[4] == "-" == text[7] and text[10] == "T" and text[13] == ":" == text[16]:
        offset_s = _OFFSETS.get(text[19:])
        if offset_s is not None:
            try:
                delta = datetime.fromisoformat(text[:19]) - _NAIVE_EPOCH
            except ValueError:
                return parse_instant(text, parameter)
            us = (delta.days * 86400 + delta.seconds - offset_s) * SECOND_US
            if MIN_US <= us < END_US:
                return us, offset_s
    return parse_instant(text, parameter)


# ---------------------------------------------------------------- KVP


def event_time(text: str) -> TimeFilter:
    """``eventTime`` of SOS 1.0: instants, periods, ``latest`` or ``first``, separated by commas.

    raises  InvalidParameter (eventTime), MissingParameter for an empty text
    source  OGC 06-009r6 table 4; istSOS; open ends as OGC API Features writes them
    """
    return _filter_of(text.split(","), "eventTime", half_open=True)


def temporal_filter(text: str) -> TimeFilter:
    """``temporalFilter`` of SOS 2.0: a value reference, then times as in ``event_time``.

    raises  InvalidParameter (temporalFilter), MissingParameter for an empty text
    source  OGC 12-006 clause 13.2.2
    """
    reference, comma, times = text.partition(",")
    is_result = _is_result_time(reference.strip(), "temporalFilter")
    if not comma:
        raise InvalidParameter(
            "temporalFilter", f"'{text[:80]}' names no time; write om:phenomenonTime,2014-06-01/2014-06-02."
        )
    found = _filter_of(times.split(","), "temporalFilter", half_open=False)
    return _of_result_time(found, "temporalFilter") if is_result else found


def _filter_of(texts: list[str], parameter: str, *, half_open: bool) -> TimeFilter:
    if len(texts) > MAX_TIMES:
        raise InvalidParameter(parameter, f"{len(texts):,} times are given; at most {MAX_TIMES:,} are allowed.")
    if len(texts) == 1:
        word = texts[0].strip().lower()
        if not word:
            raise MissingParameter(parameter)
        if word == "latest":
            return LATEST
        if word == "first":
            return TimeFilter(first=True)
    intervals = []
    offset: int | None = None
    for text in texts:
        interval, zone = _interval(text.strip(), parameter, half_open=half_open)
        intervals.append(interval)
        if offset is None:
            offset = zone
    return TimeFilter(phenomenon=tuple(intervals), offset_s=offset or 0)


def _interval(text: str, parameter: str, *, half_open: bool) -> tuple[Interval, int | None]:
    begin, slash, end = text.partition("/")
    if not slash:
        if text.lower() in ("latest", "first"):
            raise InvalidParameter(parameter, f"'{text}' cannot be combined with other times.")
        us, offset = instant(put_back_plus(text), parameter)
        return closed(us, us), offset
    begin, end = put_back_plus(begin.strip()), put_back_plus(end.strip())
    if begin[:1] in "Pp" and begin and end[:1] not in ("", "."):
        end_us, offset = instant(end, parameter)
        return period(_added(end_us, begin, -1, parameter), end_us, parameter, half_open=half_open), offset
    begin_us, first_offset = (None, None) if begin in ("", "..") else instant(begin, parameter)
    if end[:1] in ("P", "p"):
        if begin_us is None:
            raise InvalidParameter(parameter, f"'{text[:80]}' is a duration without a begin or an end.")
        end_us = _added(begin_us, end, 1, parameter)
        return period(begin_us, end_us, parameter, half_open=half_open), first_offset
    if end in ("", ".."):
        return period(begin_us, None, parameter, half_open=half_open), first_offset
    end_us, second_offset = instant(end, parameter)
    offset_s = second_offset if first_offset is None else first_offset
    return period(begin_us, end_us, parameter, half_open=half_open), offset_s


def _added(us: int, duration: str, times: int, parameter: str) -> int:
    """An instant a duration later or earlier, kept within the storable years."""
    try:
        moved = parse_duration(duration.upper(), parameter).add_to(us, times)
    except (OverflowError, ValueError):
        moved = END_US - 1 if times > 0 else MIN_US
    return min(max(moved, MIN_US), END_US - 1)


def put_back_plus(text: str) -> str:
    """An instant whose ``+`` was decoded to a blank (clients leave it unescaped in URLs), with its ``+``.

    A blank between date and time stays: only one after a time of day is a sign.
    """
    if " " not in text:
        return text
    head, _, tail = text.rpartition(" ")
    return f"{head}+{tail}" if ":" in head else text


def period(begin_us: int | None, end_us: int | None, parameter: str, *, half_open: bool) -> Interval:
    """The interval of a period; None is an open end. A period without length is its instant.

    raises  InvalidParameter for a reversed one, naming both ends
    """
    if begin_us is not None and end_us is not None:
        if begin_us > end_us:
            raise InvalidParameter(
                parameter,
                f"The period begins ({format_instant(begin_us)}) after it ends ({format_instant(end_us)}).",
            )
        if half_open and begin_us < end_us:
            return open_begin(begin_us, end_us)
        return closed(begin_us, end_us)
    if begin_us is not None:
        return Interval(begin_us + 1 if half_open else begin_us, END_US)
    return ALL_TIME if end_us is None else closed(MIN_US, end_us)


def combine(filters: Iterable[TimeFilter], parameter: str) -> TimeFilter:
    """Several filters of one request: those on the same time count beside each other, phenomenon and result time
    together."""
    parts = tuple(filters)
    if not parts:
        return NO_FILTER
    if len(parts) == 1:
        return parts[0]
    if len(parts) > MAX_TIMES:
        raise InvalidParameter(parameter, f"{len(parts):,} filters are given; at most {MAX_TIMES:,} are allowed.")
    if any(part.latest or part.first for part in parts):
        raise InvalidParameter(parameter, "'latest' and 'first' cannot be combined with other times.")
    phenomenon = tuple(i for part in parts for i in part.phenomenon or ())
    result = tuple(i for part in parts for i in part.result or ())
    return TimeFilter(
        phenomenon=phenomenon or None,
        result=result or None,
        exactly=tuple(pair for part in parts for pair in part.exactly),
        offset_s=parts[0].offset_s,
    )


def _is_result_time(reference: str, parameter: str) -> bool:
    name = reference.rpartition(":")[2].rpartition("/")[2]
    if name in ("phenomenonTime", "samplingTime"):
        return False
    if name == "resultTime":
        return True
    if not reference:
        raise MissingParameter(parameter, "The value reference of the temporal filter is missing or empty.")
    raise InvalidParameter(
        parameter, f"'{reference[:80]}' is not a time of observations; use om:phenomenonTime or om:resultTime."
    )


def _of_result_time(found: TimeFilter, parameter: str) -> TimeFilter:
    if found.latest or found.first:
        raise InvalidParameter(parameter, "'latest' and 'first' are offered for om:phenomenonTime only.")
    return TimeFilter(result=found.phenomenon, offset_s=found.offset_s)


# ---------------------------------------------------------------- XML


def temporal_operator(element: etree._Element, parameter: str, *, half_open: bool) -> TimeFilter:
    """A temporal operator of OGC 06-009r6 (``ogc:TM_During`` …) or of FES 2.0 (``fes:During`` …).

    half_open  read periods as SOS 1.0 does
    raises     InvalidParameter, MissingParameter, NotSupported for operators beyond During, Equals, After, Before
    """
    operator = local_name(element).removeprefix("TM_")
    reference = ""
    operand: etree._Element | None = None
    for child in element:
        if local_name(child) in ("PropertyName", "ValueReference"):
            reference = text_of(child)
        else:
            operand = child
    # SOS 1.0 has one time to filter by, under various names (om:samplingTime, urn:ogc:data:time:iso8601).
    is_result = False if half_open else _is_result_time(reference, parameter)
    if operand is None:
        raise MissingParameter(parameter, f"The operator {operator} has no gml:TimeInstant or gml:TimePeriod.")
    if operator in ("Equals", "TEquals") and text_of_instant(operand).lower() in ("latest", "first"):
        word = text_of_instant(operand).lower()
        found = LATEST if word == "latest" else TimeFilter(first=True)
        return _of_result_time(found, parameter) if is_result else found
    begin, end, offset_s = time_object(operand, parameter)
    if operator == "During":
        interval = period(begin, end, parameter, half_open=half_open)
    elif operator in ("Equals", "TEquals"):
        if begin is None or end is None:
            raise InvalidParameter(parameter, f"{operator} needs a period with both ends, or an instant.")
        if begin < end and not is_result:
            return TimeFilter(exactly=((begin, end),), offset_s=offset_s)
        interval = period(begin, end, parameter, half_open=False)
    elif operator == "After":
        interval = Interval(MIN_US if end is None else end + 1, END_US)
    elif operator == "Before":
        interval = Interval(MIN_US, END_US if begin is None else begin)
    else:
        raise NotSupported(
            f"The temporal operator {operator[:40]} is not offered; use During, Equals (TEquals), After or Before.",
            parameter=parameter,
        )
    if is_result:
        return TimeFilter(result=(interval,), offset_s=offset_s)
    return TimeFilter(phenomenon=(interval,), offset_s=offset_s)


def time_object(element: etree._Element, parameter: str) -> tuple[int | None, int | None, int]:
    """A ``gml:TimeInstant`` or ``gml:TimePeriod`` of any GML version.

    returns  (begin, end, offset in seconds), microseconds UTC; equal for an instant, None for an open end
    raises   InvalidParameter, MissingParameter
    """
    kind = local_name(element)
    if kind == "TimeInstant":
        for child in element:
            if local_name(child) == "timePosition":
                us, offset_s = _position(child, parameter)
                if us is None:
                    raise InvalidParameter(parameter, "A gml:TimeInstant needs a time.")
                return us, us, offset_s or 0
        raise MissingParameter(parameter, "The gml:TimeInstant has no gml:timePosition.")
    if kind != "TimePeriod":
        raise InvalidParameter(parameter, f"A gml:TimeInstant or gml:TimePeriod is expected, not '{kind[:60]}'.")
    ends: dict[str, tuple[int | None, int | None]] = {}
    for child in element:
        name = local_name(child)
        if name in ("beginPosition", "endPosition"):
            ends[name] = _position(child, parameter)
        elif name in ("begin", "end") and len(child) and local_name(child[0]) == "TimeInstant":
            us, _, zone = time_object(child[0], parameter)
            ends[name + "Position"] = us, zone
    if len(ends) < 2:
        raise MissingParameter(parameter, "A gml:TimePeriod needs gml:beginPosition and gml:endPosition.")
    begin, first_offset = ends["beginPosition"]
    end, second_offset = ends["endPosition"]
    if begin is not None and end is not None and begin > end:
        raise InvalidParameter(
            parameter, f"The period begins ({format_instant(begin)}) after it ends ({format_instant(end)})."
        )
    offset = second_offset if first_offset is None else first_offset
    return begin, end, offset or 0


def _position(element: etree._Element, parameter: str) -> tuple[int | None, int | None]:
    text = text_of(element)
    if text:
        if text.lower() == "now":
            return now_us(), None
        return instant(text, parameter)
    indeterminate = element.get("indeterminatePosition", "unknown")
    if indeterminate == "now":
        return now_us(), None
    if indeterminate == "unknown":
        return None, None
    raise InvalidParameter(parameter, f"The indeterminate position '{indeterminate[:40]}' is not understood.")


def text_of_instant(element: etree._Element) -> str:
    """The text of a ``gml:TimeInstant``'s position, empty for anything else."""
    if local_name(element) == "TimeInstant" and len(element):
        return text_of(element[0])
    return ""


def now_us() -> int:
    return time.time_ns() // 1000
