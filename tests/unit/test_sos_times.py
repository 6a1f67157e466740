"""Times in SOS requests."""

# ruff: noqa: E501 (XML reads better unbroken)

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from thalweg.domain.errors import InvalidParameter, MissingParameter, NotSupported, ThalwegError
from thalweg.domain.time import ALL_TIME, END_US, MIN_US, Interval, instant_us, parse_instant
from thalweg.doors.sos.times import (
    TimeFilter,
    combine,
    event_time,
    instant,
    put_back_plus,
    temporal_filter,
    temporal_operator,
    time_object,
)

JUNE = instant_us(datetime(2014, 6, 1, tzinfo=UTC))
HOUR = 3600 * 1_000_000
DAY = 24 * HOUR


def xml(text: str) -> etree._Element:
    return etree.fromstring(
        text.replace(
            ">",
            ' xmlns:ogc="http://www.opengis.net/ogc" xmlns:fes="http://www.opengis.net/fes/2.0"'
            ' xmlns:gml="http://www.opengis.net/gml">',
            1,
        )
    )


# ---------------------------------------------------------------- eventTime


@pytest.mark.parametrize(
    ("text", "intervals", "offset"),
    [
        # A period is (begin, end].
        ("2014-06-01T00:00:00Z/2014-06-02T00:00:00Z", [Interval(JUNE + 1, JUNE + DAY + 1)], 0),
        ("2014-06-01T02:00:00+02:00/2014-06-02T02:00:00+02:00", [Interval(JUNE + 1, JUNE + DAY + 1)], 7200),
        # The plus sign that a URL turned into a blank.
        ("2014-06-01T02:00:00 02:00/2014-06-02T02:00:00 02:00", [Interval(JUNE + 1, JUNE + DAY + 1)], 7200),
        ("2014-06-01 02:00:00 0200", [Interval(JUNE, JUNE + 1)], 7200),
        ("2014-06-01 00:00:00", [Interval(JUNE, JUNE + 1)], 0),
        # An instant is itself.
        ("2014-06-01T00:00:00Z", [Interval(JUNE, JUNE + 1)], 0),
        ("2014-06-01", [Interval(JUNE, JUNE + 1)], 0),
        # A period of no length is an instant, not nothing.
        ("2014-06-01/2014-06-01", [Interval(JUNE, JUNE + 1)], 0),
        ("2014-06-01,2014-06-02T00:00:00-01:00", [Interval(JUNE, JUNE + 1), Interval(JUNE + 25 * HOUR, JUNE + 25 * HOUR + 1)], 0),
        ("2014-06-01/..", [Interval(JUNE + 1, END_US)], 0),
        ("2014-06-01T00:00:00-01:00/", [Interval(JUNE + HOUR + 1, END_US)], -3600),
        ("../2014-06-01T00:00:00+01:00", [Interval(MIN_US, JUNE - HOUR + 1)], 3600),
        ("/2014-06-01", [Interval(MIN_US, JUNE + 1)], 0),
        ("../..", [ALL_TIME], 0),
        ("2014-06-01/PT1H", [Interval(JUNE + 1, JUNE + HOUR + 1)], 0),
        ("P1D/2014-06-02", [Interval(JUNE + 1, JUNE + DAY + 1)], 0),
        ("2014-06-01/P1M", [Interval(JUNE + 1, JUNE + 30 * DAY + 1)], 0),
    ],
)  # fmt: skip
def test_event_time_is_read(text: str, intervals: list[Interval], offset: int) -> None:
    assert event_time(text) == TimeFilter(phenomenon=tuple(intervals), offset_s=offset)


def test_latest_and_first_are_words() -> None:
    assert event_time("latest") == TimeFilter(latest=True)
    assert event_time(" Latest ") == TimeFilter(latest=True)
    assert event_time("first") == TimeFilter(first=True)


@pytest.mark.parametrize(
    "text",
    [
        "scooby",
        "2014-13-01",
        "2014-06-01T25:00:00Z",
        "2014-06-01/scooby",
        "2014-06-01/2014-06-02/2014-06-03",
        "2014-06-01,",
        "latest,2014-06-01",
        "2014-06-01,first",
        "P1D/P1D",
        "PT1H/..",
        "2014-06-01/PT0S",
        "2014-06-01/P1D1D",
        "2014-06-01/-P1D",
        "1" * 50_000,
        "9" * 400 + "-01-01",
        "2014-06-01T00:00:00+99:00",
        "2014-06-01\0",
        ",".join(["2014-06-01"] * 1001),
    ],
)
def test_bad_event_time_is_an_invalid_parameter(text: str) -> None:
    with pytest.raises(InvalidParameter) as raised:
        event_time(text)
    assert raised.value.parameter == "eventTime"
    assert len(raised.value.message) < 400


def test_reversed_period_is_refused_naming_both_ends() -> None:
    with pytest.raises(InvalidParameter) as raised:
        event_time("2014-06-02T00:00:00Z/2014-06-01T00:00:00Z")
    assert "2014-06-02T00:00:00Z" in raised.value.message
    assert "2014-06-01T00:00:00Z" in raised.value.message


def test_empty_event_time_is_missing() -> None:
    for text in ("", "  "):
        with pytest.raises(MissingParameter) as raised:
            event_time(text)
        assert raised.value.parameter == "eventTime"


def test_endless_duration_stays_within_the_storable_years() -> None:
    assert event_time("2014-06-01/P9000Y") == TimeFilter(phenomenon=(Interval(JUNE + 1, END_US),))
    assert event_time("P9000Y/2014-06-01") == TimeFilter(phenomenon=(Interval(MIN_US + 1, JUNE + 1),))


# ---------------------------------------------------------------- temporalFilter


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Closed at both ends.
        (
            "om:phenomenonTime,2014-06-01T00:00:00Z/2014-06-02T00:00:00Z",
            TimeFilter(phenomenon=(Interval(JUNE, JUNE + DAY + 1),)),
        ),
        ("phenomenonTime,2014-06-01/..", TimeFilter(phenomenon=(Interval(JUNE, END_US),))),
        ("om:resultTime,2014-06-01", TimeFilter(result=(Interval(JUNE, JUNE + 1),))),
        ("om:phenomenonTime,latest", TimeFilter(latest=True)),
        ("om:phenomenonTime,first", TimeFilter(first=True)),
        (
            "om:phenomenonTime,2014-06-01,2014-06-02T00:00:00 02:00",
            TimeFilter(phenomenon=(Interval(JUNE, JUNE + 1), Interval(JUNE + 22 * HOUR, JUNE + 22 * HOUR + 1))),
        ),
    ],
)
def test_temporal_filter_is_read(text: str, expected: TimeFilter) -> None:
    assert temporal_filter(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "2014-06-01/2014-06-02",
        "om:phenomenonTime",
        "om:validTime,2014-06-01",
        "om:phenomenonTime,scooby",
        "om:phenomenonTime,2014-06-02/2014-06-01",
        "om:resultTime,latest",
    ],
)
def test_bad_temporal_filter_is_an_invalid_parameter(text: str) -> None:
    with pytest.raises(InvalidParameter) as raised:
        temporal_filter(text)
    assert raised.value.parameter == "temporalFilter"


@pytest.mark.parametrize("text", ["", ",2014-06-01", "om:phenomenonTime,"])
def test_empty_parts_of_temporal_filter_are_missing(text: str) -> None:
    with pytest.raises(MissingParameter) as raised:
        temporal_filter(text)
    assert raised.value.parameter == "temporalFilter"


# ---------------------------------------------------------------- XML


def period_xml(begin: str, end: str) -> str:
    return (
        f"<gml:TimePeriod><gml:beginPosition>{begin}</gml:beginPosition><gml:endPosition>{end}</gml:endPosition>"
        "</gml:TimePeriod>"
    )


def test_during_is_half_open_in_version_1_and_closed_in_2() -> None:
    old = xml(
        f"<ogc:TM_During><ogc:PropertyName>om:samplingTime</ogc:PropertyName>{period_xml('2014-06-01', '2014-06-02')}</ogc:TM_During>"
    )
    new = xml(
        f"<fes:During><fes:ValueReference>om:phenomenonTime</fes:ValueReference>{period_xml('2014-06-01', '2014-06-02')}</fes:During>"
    )
    assert temporal_operator(old, "eventTime", half_open=True).phenomenon == (Interval(JUNE + 1, JUNE + DAY + 1),)
    assert temporal_operator(new, "temporalFilter", half_open=False).phenomenon == (Interval(JUNE, JUNE + DAY + 1),)


def test_equals_after_before() -> None:
    at = "<gml:TimeInstant><gml:timePosition>2014-06-01T02:00:00+02:00</gml:timePosition></gml:TimeInstant>"
    found = {
        name: temporal_operator(xml(f"<ogc:TM_{name}>{at}</ogc:TM_{name}>"), "eventTime", half_open=True)
        for name in ("Equals", "After", "Before")
    }
    assert found["Equals"] == TimeFilter(phenomenon=(Interval(JUNE, JUNE + 1),), offset_s=7200)
    assert found["After"].phenomenon == (Interval(JUNE + 1, END_US),)
    assert found["Before"].phenomenon == (Interval(MIN_US, JUNE),)


def test_equals_with_a_period_means_exactly_that_period() -> None:
    element = xml(f"<ogc:TM_Equals>{period_xml('2014-06-01', '2014-06-02')}</ogc:TM_Equals>")
    assert temporal_operator(element, "eventTime", half_open=True) == TimeFilter(exactly=((JUNE, JUNE + DAY),))


def test_result_time_and_latest_in_xml() -> None:
    latest = xml(
        "<fes:TEquals><fes:ValueReference>om:phenomenonTime</fes:ValueReference><gml:TimeInstant>"
        "<gml:timePosition>latest</gml:timePosition></gml:TimeInstant></fes:TEquals>"
    )
    assert temporal_operator(latest, "temporalFilter", half_open=False) == TimeFilter(latest=True)
    result = xml(
        f"<fes:During><fes:ValueReference>om:resultTime</fes:ValueReference>{period_xml('2014-06-01', '')}</fes:During>"
    )
    assert temporal_operator(result, "temporalFilter", half_open=False).result == (Interval(JUNE, END_US),)


def test_operator_that_is_not_offered_is_named() -> None:
    with pytest.raises(NotSupported, match="Meets"):
        temporal_operator(
            xml(
                f"<fes:Meets><fes:ValueReference>om:phenomenonTime</fes:ValueReference>{period_xml('2014-06-01', '2014-06-02')}</fes:Meets>"
            ),
            "temporalFilter",
            half_open=False,
        )


@pytest.mark.parametrize(
    "inner",
    [
        "<gml:TimeInstant><gml:timePosition>scooby</gml:timePosition></gml:TimeInstant>",
        "<gml:TimeInstant/>",
        "<gml:TimeInstant><gml:timePosition/></gml:TimeInstant>",
        "<gml:TimePeriod/>",
        period_xml("2014-06-02", "2014-06-01"),
        "<gml:TimeNode/>",
        "<gml:TimeInstant><gml:timePosition indeterminatePosition='after'/></gml:TimeInstant>",
    ],
)
def test_bad_time_in_xml_names_the_parameter(inner: str) -> None:
    with pytest.raises((InvalidParameter, MissingParameter)) as raised:
        temporal_operator(xml(f"<ogc:TM_Equals>{inner}</ogc:TM_Equals>"), "eventTime", half_open=True)
    assert raised.value.parameter == "eventTime"


def test_now_is_about_now() -> None:
    element = xml(
        "<gml:TimePeriod><gml:beginPosition>2014-06-01</gml:beginPosition><gml:endPosition indeterminatePosition='now'/></gml:TimePeriod>"
    )
    begin, end, _ = time_object(element, "samplingTime")
    assert begin == JUNE
    assert end is not None
    assert abs(end - instant_us(datetime.now(UTC))) < 60_000_000


# ---------------------------------------------------------------- several


def test_filters_on_one_time_count_beside_each_other() -> None:
    a = TimeFilter(phenomenon=(Interval(1, 2),), offset_s=7200)
    b = TimeFilter(phenomenon=(Interval(5, 6),))
    c = TimeFilter(result=(Interval(8, 9),))
    assert combine([a, b, c], "temporalFilter") == TimeFilter(
        phenomenon=(Interval(1, 2), Interval(5, 6)), result=(Interval(8, 9),), offset_s=7200
    )
    with pytest.raises(InvalidParameter):
        combine([a, TimeFilter(latest=True)], "temporalFilter")


# ---------------------------------------------------------------- properties


@given(
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
    st.sampled_from(["Z", "z", "+00:00", "+02:00", "-11:30", "+05:45", "+14:00", "-14:00", "+23:59", "+0200", "+02"]),
)
def test_quick_instant_equals_thorough_one(moment: datetime, zone: str) -> None:
    text = moment.isoformat(timespec="seconds") + zone
    assert instant(text, "t") == parse_instant(text, "t")
    assert (
        instant(text, "t")[0] == instant_us(moment.replace(microsecond=0, tzinfo=UTC)) - instant(text, "t")[1] * 10**6
    )


@given(st.text("0123456789-T:+Z. W", min_size=19, max_size=25))
def test_quick_instant_refuses_what_the_thorough_one_refuses(text: str) -> None:
    def outcome(function: object) -> object:
        try:
            return function(text, "t")  # type: ignore[operator]
        except ThalwegError as error:
            return error.message

    assert outcome(instant) == outcome(parse_instant)


@given(st.text(max_size=60))
def test_any_text_gives_intervals_or_a_domain_error(text: str) -> None:
    for function in (event_time, temporal_filter):
        try:
            found = function(text)
        except ThalwegError:
            continue
        for interval in found.phenomenon or ():
            assert MIN_US <= interval.begin_us <= END_US


def test_put_back_plus_leaves_a_blank_between_date_and_time() -> None:
    assert put_back_plus("2014-06-01 00:00:00") == "2014-06-01 00:00:00"
    assert put_back_plus("2014-06-01 00:00:00 02:00") == "2014-06-01 00:00:00+02:00"
    assert put_back_plus("2014-06-01T00:00 02:00") == "2014-06-01T00:00+02:00"


def test_days_in_a_row_neither_overlap_nor_leave_a_gap() -> None:
    first = event_time("2014-06-01/2014-06-02").phenomenon
    second = event_time("2014-06-02/2014-06-03").phenomenon
    assert first is not None
    assert second is not None
    assert first[0].end_us == second[0].begin_us
    assert timedelta(microseconds=first[0].end_us - first[0].begin_us) == timedelta(days=1)
