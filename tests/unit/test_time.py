"""Instants, durations, offsets: values worked out by hand or by the standard library's calendar."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.time import (
    DAY_US,
    END_US,
    HOUR_US,
    MIN_US,
    Duration,
    Interval,
    format_duration,
    format_instant,
    parse_duration,
    parse_instant,
)


@pytest.mark.parametrize(
    ("text", "instant", "offset_s"),
    [
        ("1970-01-01T00:00:00Z", 0, 0),
        ("1970-01-01T00:00:00z", 0, 0),
        ("1970-01-01", 0, 0),
        ("1970", 0, 0),
        ("1970-02", 31 * DAY_US, 0),
        ("1970-01-01T01:00+01:00", 0, 3600),
        ("1970-01-01T01:00:00+01", 0, 3600),
        ("1970-01-01T05:45:00+0545", 0, 20700),
        ("1969-12-31T18:00:00-06:00", 0, -21600),
        ("1970-01-01 00:00:00.000001Z", 1, 0),
        ("1970-01-01T00:00:00,25Z", 250_000, 0),
        ("1970-01-01T00:00:00.100000000Z", 100_000, 0),
        ("1970-01-01T24:00:00Z", DAY_US, 0),
        ("0001-01-01T00:00:00Z", MIN_US, 0),
        ("9999-12-31T23:59:59.999999Z", END_US - 1, 0),
        ("2000-02-29T12:00:00Z", 951_825_600_000_000, 0),
        ("1969-12-31T23:59:59.999999Z", -1, 0),
    ],
)
def test_an_instant_is_read_to_the_microsecond_and_keeps_its_zone(text: str, instant: int, offset_s: int) -> None:
    assert parse_instant(text, "eventTime") == (instant, offset_s)


@pytest.mark.parametrize(
    "text",
    [
        "", "scooby", "2014-13-01", "2014-02-30T00:00:00Z", "2014-06-01T25:00:00Z", "2014-06-01T24:00:01Z",
        "2014-06-01T00:60:00Z", "2014-06-01T00:00:60Z", "2014-06-01T00:00:00.0000001Z", "2014-06-01T00:00:00+24:00",
        "2014-06-01T00:00:00+01:75", "20140601T000000Z", "2014-W01-1", "2014-06-01T00:00:00 02:00", "١٩٧٠-01-01",
        "0000-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "1" * 50_000, "now",
        "2014-06-01T00:00:00Z\n", " 2014-06-01T00:00:00Z",
    ],
)  # fmt: skip
def test_anything_else_is_refused_naming_the_parameter(text: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        parse_instant(text, "eventTime")
    assert caught.value.parameter == "eventTime"
    assert len(caught.value.message) < 200


def test_a_missing_zone_is_refused_where_there_is_no_default() -> None:
    with pytest.raises(InvalidParameter, match="time zone"):
        parse_instant("2014-06-01T00:00:00", "time", default_offset_s=None)
    assert parse_instant("1970-01-01T02:00:00", "time", default_offset_s=7200) == (0, 7200)


@pytest.mark.parametrize(
    ("instant", "offset_s", "text"),
    [
        (0, 0, "1970-01-01T00:00:00Z"),
        (250_000, 0, "1970-01-01T00:00:00.25Z"),
        (1, 3600, "1970-01-01T01:00:00.000001+01:00"),
        (0, -12600, "1969-12-31T20:30:00-03:30"),
        (MIN_US, -3600, "0001-01-01T00:00:00Z"),
        (END_US - 1, 3600, "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_an_instant_is_written_in_the_zone_asked_for(instant: int, offset_s: int, text: str) -> None:
    assert format_instant(instant, offset_s) == text


@pytest.mark.parametrize(
    ("instant", "offset_s"), [(MIN_US - 1, 0), (MIN_US - 1, -3600), (END_US, 0), (END_US, 3600), (2**62, 3600)]
)
def test_an_instant_that_cannot_be_stored_is_not_written(instant: int, offset_s: int) -> None:
    with pytest.raises(OverflowError):
        format_instant(instant, offset_s)


@given(
    st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 12, 31)),
    st.integers(min_value=-14 * 60, max_value=14 * 60),
)
def test_reading_what_was_written_gives_the_same_instant(moment: datetime, minutes: int) -> None:
    zone = timezone(timedelta(minutes=minutes))
    expected = (moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    text = format_instant(expected, minutes * 60)
    assert parse_instant(text, "t") == (expected, minutes * 60)
    assert datetime.fromisoformat(text) == moment.replace(tzinfo=UTC).astimezone(zone)


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("PT10M", Duration(0, 600_000_000)),
        ("P1M", Duration(1, 0)),
        ("P1Y2M3DT4H5M6.5S", Duration(14, 3 * DAY_US + 4 * HOUR_US + 306_500_000)),
        ("P2W", Duration(0, 14 * DAY_US)),
        ("PT0.000001S", Duration(0, 1)),
    ],
)
def test_a_duration_keeps_months_apart(text: str, duration: Duration) -> None:
    assert parse_duration(text, "aggregateInterval") == duration


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "PT0S", "P0D", "-P1D", "P1S", "PT1D", "10M", "P" + "9" * 400 + "D", "P99999Y"]
)
def test_an_impossible_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        parse_duration(text, "aggregateInterval")
    assert caught.value.parameter == "aggregateInterval"


def test_adding_a_month_stays_within_the_month() -> None:
    january_31 = parse_instant("2023-01-31T10:00:00Z", "t")[0]
    assert format_instant(Duration(1, 0).add_to(january_31)) == "2023-02-28T10:00:00Z"
    assert format_instant(Duration(1, 0).add_to(january_31, 13)) == "2024-02-29T10:00:00Z"
    assert format_instant(Duration(12, DAY_US).add_to(january_31)) == "2024-02-01T10:00:00Z"


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "PT0S"),
        (600_000_000, "PT10M"),
        (DAY_US, "P1D"),
        (DAY_US + 1, "P1DT0.000001S"),
        (90_061_000_000, "P1DT1H1M1S"),
    ],
)
def test_a_duration_is_written_in_exact_units(us: int, text: str) -> None:
    assert format_duration(us) == text


def test_an_interval_is_half_open() -> None:
    interval = Interval(10, 20)
    assert 10 in interval
    assert 19 in interval
    assert 20 not in interval
    assert Interval(5, 5).is_empty
