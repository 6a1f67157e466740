"""Times of files: forms, zones, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.time import parse_instant
from thalweg.loading.times import NO_ZONE, TimeReader
from thalweg.loading.zones import ZoneClock, parse_zone

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def us(*parts: int) -> int:
    """Microseconds of a UTC date and time."""
    return (datetime(*parts, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)  # type: ignore[arg-type, misc]


def instants(texts: list[str], format: str = "iso", zone: str = "UTC") -> list[int | None]:
    result = ZoneClock(parse_zone(zone)).instants(TimeReader(format).read(texts))
    return [int(value) if ok else None for value, ok in zip(result.us, result.ok, strict=True)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2014-06-01T00:00:00Z", us(2014, 6, 1)),
        ("2014-06-01 00:00:00", us(2014, 6, 1)),
        ("2014-06-01T00:00:00+02:00", us(2014, 5, 31, 22)),
        ("2014-06-01T00:00:00-0330", us(2014, 6, 1, 3, 30)),
        ("2014-06-01T00:00+01", us(2014, 5, 31, 23)),
        ("2014-06-01T12:34", us(2014, 6, 1, 12, 34)),
        ("2014-06-01", us(2014, 6, 1)),
        ("2014-06-01T00:00:00.25Z", us(2014, 6, 1) + 250_000),
        ("2014-06-01T00:00:00,000001Z", us(2014, 6, 1) + 1),
        ("1879-12-31T23:59:59Z", us(1879, 12, 31, 23, 59, 59)),
        ("2014-06-01T24:00:00Z", us(2014, 6, 2)),
        ("2016-02-29T00:00:00Z", us(2016, 2, 29)),
        ("9999-12-31T23:59:59Z", us(9999, 12, 31, 23, 59, 59)),
        ("0001-01-01T00:00:00Z", us(1, 1, 1)),
    ],
)
def test_iso_times_are_read_exactly_alone_and_in_a_column(text: str, expected: int) -> None:
    assert instants([text]) == [expected]
    assert instants([text] * 5) == [expected] * 5


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "2014-13-01T00:00:00Z", "2014-02-29T00:00:00Z", "2014-06-01T25:00:00Z", "2014-06-01T00:60:00Z",
        "2014-06-01T00:00:60Z", "2014-06-31", "01.06.2014", "2014-06-01T00:00:00+24:00", "0000-01-01T00:00:00Z",
        "2014-06-01T00:00:00.0000001Z", "\uff12014-06-01T00:00:00Z", "2014-06-01T00:00:00Zjunk", "2014/06/01 00:00:00",
        "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "2014-00-10", "2014-06-00",
    ],
)  # fmt: skip
def test_unreadable_times_are_told_and_do_not_spoil_their_column(text: str) -> None:
    good = "2014-06-01T00:00:00Z"
    for column in ([text], [good, text, good], [text, good, good]):
        times = TimeReader().read(column)
        assert [bool(ok) for ok in times.ok] == [item == good for item in column]
        assert set(times.problems) == {column.index(text)}


@given(
    st.lists(st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=st.none()), min_size=1, max_size=30),
    st.integers(-14 * 60, 14 * 60),
    st.sampled_from(["seconds", "minutes", "microseconds", "milliseconds"]),
)
def test_a_column_gives_what_single_texts_give(moments: list[datetime], minutes: int, precision: str) -> None:
    zone = timezone(timedelta(minutes=minutes))
    texts = [moment.replace(tzinfo=zone).isoformat(timespec=precision) for moment in moments]
    expected = [parse_instant(text, "time")[0] for text in texts]
    assert instants(texts) == expected


def test_mixed_forms_in_one_column_are_all_read() -> None:
    texts = ["2014-06-01T00:00:00Z", "2014-06-01T00:10Z", "2014-06-01 02:20:00+02:00", "2014-06-02"]
    assert instants(texts) == [us(2014, 6, 1), us(2014, 6, 1, 0, 10), us(2014, 6, 1, 0, 20), us(2014, 6, 2)]


@pytest.mark.parametrize(
    ("format", "text", "expected"),
    [
        ("%d.%m.%Y %H:%M", "31.12.2014 23:50", us(2014, 12, 31, 23, 50)),
        ("%d.%m.%Y %H:%M", "1.2.2014 3:04", us(2014, 2, 1, 3, 4)),
        ("%Y%m%d%H%M%S", "20141231235000", us(2014, 12, 31, 23, 50)),
        ("%m/%d/%y %I:%M:%S %p", "05/01/13 02:00:00 PM", us(2013, 5, 1, 14)),
        ("%d-%b-%Y", "05-Mar-2013", us(2013, 3, 5)),
        ("%Y-%m-%dT%H:%M:%S%z", "2013-03-05T01:00:00+0100", us(2013, 3, 5)),
        ("%Y-%m-%d %H:%M:%S.%f", "2013-03-05 01:00:00.125", us(2013, 3, 5, 1) + 125_000),
        ("%Y %j", "2016 366", us(2016, 12, 31)),
        ("unix", "1400000000", 1_400_000_000_000_000),
        ("unix", "1400000000.000001", 1_400_000_000_000_001),
        ("unix-ms", "-1", -1000),
    ],
)  # fmt: skip
def test_patterns_and_counts_are_read(format: str, text: str, expected: int) -> None:
    assert instants([text, text, text], format) == [expected] * 3


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("%d.%m.%Y", "31.02.2014"), ("%d.%m.%Y", "2014-02-01"), ("%d.%m.%Y", "01.02.2014x"),
        ("unix", "1e400"), ("unix", "nan"), ("unix", "1.0000001"), ("unix", "1_000"), ("unix", "99999999999999"),
        ("%d-%b-%Y", "05-Foo-2013"),
    ],
)  # fmt: skip
def test_texts_against_their_pattern_are_refused(format: str, text: str) -> None:
    assert instants([text], format) == [None]


@pytest.mark.parametrize("format", ["%Q", "%H:%M", "%Y", "no directive", "%d.%m %H", "%"])
def test_a_pattern_that_gives_no_date_is_refused(format: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        TimeReader(format)
    assert caught.value.parameter == "time_format"


@pytest.mark.parametrize("text", ["UTC", "Z", "gmt", "+01:00", "-0330", "UTC+1", "Europe/Zurich", "+14"])
def test_zones_are_known(text: str) -> None:
    parse_zone(text)


@pytest.mark.parametrize(
    "text", ["", "CET?", "+25:00", "+01:60", "Europe/Nowhere", "../../etc/passwd", "/etc/localtime"]
)
def test_other_texts_are_no_zone(text: str) -> None:
    with pytest.raises(InvalidParameter):
        parse_zone(text)


def test_an_offset_in_the_text_wins_over_the_zone() -> None:
    assert instants(["2014-06-01T02:00:00+02:00", "2014-06-01T02:00:00"], zone="-05:00") == [
        us(2014, 6, 1), us(2014, 6, 1, 7),
    ]  # fmt: skip


def test_summer_time_of_a_named_zone_is_followed() -> None:
    texts = ["2014-01-15T12:00:00", "2014-07-15T12:00:00"]
    assert instants(texts, zone="Europe/Zurich") == [us(2014, 1, 15, 11), us(2014, 7, 15, 10)]


def test_hour_shown_twice_is_told_and_taken_by_the_order_of_rows() -> None:
    # 2014-10-26: Zurich goes from +02:00 back to +01:00 at 03:00.
    texts = [f"2014-10-26T{clock}:00" for clock in ("01:30", "02:00", "02:30", "02:00", "02:30", "03:00")]
    result = ZoneClock(parse_zone("Europe/Zurich")).instants(TimeReader().read(texts))
    assert result.us.tolist() == [
        us(2014, 10, 25, 23, 30), us(2014, 10, 26, 0, 0), us(2014, 10, 26, 0, 30),
        us(2014, 10, 26, 1, 0), us(2014, 10, 26, 1, 30), us(2014, 10, 26, 2, 0),
    ]  # fmt: skip
    assert result.ambiguous == {1: 7200, 2: 7200, 3: 3600, 4: 3600}
    assert result.impossible == []


def test_hour_shown_twice_is_taken_by_order_also_across_blocks() -> None:
    clock = ZoneClock(parse_zone("Europe/Zurich"))
    reader = TimeReader()
    first = clock.instants(reader.read(["2014-10-26T02:50:00"]))
    second = clock.instants(reader.read(["2014-10-26T02:00:00"]))
    assert [int(first.us[0]), int(second.us[0])] == [us(2014, 10, 26, 0, 50), us(2014, 10, 26, 1, 0)]


def test_hour_that_the_clock_jumps_over_is_refused() -> None:
    texts = [f"2014-03-30T{clock}:00" for clock in ("01:59", "02:00", "02:59", "03:00")]
    result = ZoneClock(parse_zone("Europe/Zurich")).instants(TimeReader().read(texts))
    assert result.impossible == [1, 2]
    assert result.ok.tolist() == [True, False, False, True]
    assert int(result.us[3]) - int(result.us[0]) == 60_000_000


@given(
    st.lists(st.datetimes(datetime(1950, 1, 1), datetime(2037, 12, 31)), min_size=1, max_size=50),
    st.sampled_from(
        ["Europe/Zurich", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca"]
    ),
)
def test_instants_of_a_named_zone_are_those_of_the_standard_library(moments: list[datetime], name: str) -> None:
    zone = ZoneInfo(name)
    times = TimeReader().read([moment.isoformat(timespec="microseconds") for moment in moments])
    result = ZoneClock(zone).instants(times)
    for index, moment in enumerate(moments):
        offsets = {moment.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1)}
        if len(offsets) == 1:
            expected = (moment.replace(tzinfo=UTC) - EPOCH) - next(iter(offsets))  # type: ignore[operator]
            assert int(result.us[index]) == expected // timedelta(microseconds=1)
        else:
            assert index in result.ambiguous or index in result.impossible


def test_times_without_zone_are_marked() -> None:
    times = TimeReader().read(["2014-06-01T00:00:00", "2014-06-01T00:00:00Z"])
    assert times.offset_s.tolist() == [NO_ZONE, 0]


def test_nothing_is_read_of_nothing() -> None:
    assert len(TimeReader().read([]).wall_us) == 0
    assert np.array_equal(TimeReader("unix").read([]).ok, np.zeros(0, np.bool_))
