"""InsertObservation of both versions: from XML to blocks, and what is refused."""

# ruff: noqa: E501 (XML reads better unbroken)

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.sos_network import (
    FEATURE,
    OFFERING,
    PARAMETER,
    PROCEDURE,
    SENSOR,
    NotingObserve,
    network,
    noting_services,
    post,
)

from thalweg.domain.errors import (
    InvalidParameter,
    MissingParameter,
    NotFound,
    NotSupported,
    ThalwegError,
    TooLarge,
)
from thalweg.domain.geometry import point
from thalweg.domain.observations import Insertion, OnDuplicate
from thalweg.domain.time import Interval, instant_us
from thalweg.doors.http import Deferred
from thalweg.doors.sos.handle import handle
from thalweg.settings import Settings

RAIN = PARAMETER + "meteo:air:rainfall"
TEMPERATURE = PARAMETER + "meteo:air:temperature"
LEVEL, STATE, ALARM = (PARAMETER + name for name in ("river:water:level", "river:water:state", "river:alarm"))
WATER = PARAMETER + "river:water:temperature"
TIME = PARAMETER + "time:iso8601"
T0 = instant_us(datetime(2014, 6, 1, tzinfo=UTC))
MINUTE = 60_000_000
RAW = 100


def send(body: str, settings: Settings | None = None) -> tuple[list[Insertion], str]:
    """What is handed to the store, and the answer."""
    services = noting_services(network(), settings)
    response = handle(post(body), services)
    if isinstance(response, Deferred):
        response = response.finish(response.future.result())
    assert isinstance(response.body, bytes)
    return cast(NotingObserve, cast(Any, services.observe)).insertions, response.body.decode()


def one(body: str) -> Insertion:
    (insertion,) = send(body)[0]
    return insertion


def refused(body: str, settings: Settings | None = None) -> ThalwegError:
    with pytest.raises(ThalwegError) as raised:
        send(body, settings)
    return raised.value


def values(insertion: Insertion, property_id: int) -> list[Any]:
    """Values of a column, None where missing."""
    column = insertion.block.columns[property_id]
    items = column.values.tolist()
    return items if column.valid is None else [v if ok else None for v, ok in zip(items, column.valid, strict=True)]


# ---------------------------------------------------------------- version 1.0

FIELD = '<swe:field name="{0}"><swe:Quantity definition="{0}"><swe:uom code="{1}"/></swe:Quantity></swe:field>'
TIME_FIELD = f'<swe:field name="Time"><swe:Time definition="{TIME}"/></swe:field>'
RAIN_FIELD = FIELD.format(RAIN, "mm")
TEMPERATURE_FIELD = FIELD.format(TEMPERATURE, "Cel")
TEXT_BLOCK = '<swe:TextBlock tokenSeparator="," blockSeparator="@" decimalSeparator="."/>'
SAMPLING = (
    "<om:samplingTime><gml:TimePeriod><gml:beginPosition>2014-06-01T00:00:00Z</gml:beginPosition>"
    "<gml:endPosition>2014-06-01T01:00:00Z</gml:endPosition></gml:TimePeriod></om:samplingTime>"
)
FOI = f'<om:featureOfInterest xlink:href="{FEATURE}lugano"/>'


def array(fields: str, text: str, encoding: str = TEXT_BLOCK) -> str:
    return (
        f"<swe:DataArray><swe:elementType><swe:DataRecord>{fields}</swe:DataRecord></swe:elementType><swe:encoding>"
        f"{encoding}</swe:encoding><swe:values>{text}</swe:values></swe:DataArray>"
    )


def insert(
    text: str = "2014-06-01T00:10:00Z,0.5,21.5",
    fields: str = TIME_FIELD + RAIN_FIELD + TEMPERATURE_FIELD,
    *,
    sensor: str = SENSOR + "a1",
    procedure: str = f'<om:procedure xlink:href="{PROCEDURE}LUGANO"/>',
    foi: str = FOI,
    sampling: str = SAMPLING,
    result: str | None = None,
    encoding: str = TEXT_BLOCK,
    swe: str = "http://www.opengis.net/swe/1.0.1",
    force: str = "",
    observed: str = '<om:observedProperty><swe:CompositePhenomenon dimension="1"/></om:observedProperty>',
) -> str:
    return f"""<sos:InsertObservation service="SOS" version="1.0.0" xmlns:sos="http://www.opengis.net/sos/1.0"
 xmlns:om="http://www.opengis.net/om/1.0" xmlns:swe="{swe}" xmlns:gml="http://www.opengis.net/gml"
 xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:sa="http://www.opengis.net/sampling/1.0">
<sos:AssignedSensorId>{sensor}</sos:AssignedSensorId>{force}<om:Observation>{procedure}{sampling}{observed}{foi}
<om:result>{array(fields, text, encoding) if result is None else result}</om:result></om:Observation>
</sos:InsertObservation>"""


def test_one_row() -> None:
    insertions, answer = send(insert())
    (insertion,) = insertions
    assert (insertion.procedure_id, insertion.feature, insertion.on_duplicate) == (1, 1, OnDuplicate.REFUSE)
    assert insertion.block.end.tolist() == [T0 + 10 * MINUTE]
    assert insertion.block.begin is None
    assert (values(insertion, 1), values(insertion, 2)) == ([0.5], [21.5])
    assert insertion.block.columns[1].quality.tolist() == [RAW]
    # Ids of both values, joined as istSOS joins them.
    at = T0 + 10 * MINUTE
    assert f"<sos:AssignedObservationId>40.1.{at}@40.2.{at}</sos:AssignedObservationId>" in answer


@pytest.mark.parametrize("version", ["", "/0", "/1.0", "/1.0.1", "/2.0"])
def test_every_namespace_of_swe_is_read_alike(version: str) -> None:
    found = one(insert(swe=f"http://www.opengis.net/swe{version}"))
    assert (values(found, 1), values(found, 2)) == ([0.5], [21.5])


def test_columns_are_bound_by_definition_not_position() -> None:
    """istSOS/istsos2 issue 6: value and quality swapped, 18 °C stored as 100 °C."""
    fields = (
        TIME_FIELD + FIELD.format(TEMPERATURE + ":qualityIndex", "-") + FIELD.format(RAIN + ":qualityIndex", "-")
        + TEMPERATURE_FIELD + RAIN_FIELD
    )  # fmt: skip
    found = one(insert("2014-06-01T00:10:00Z,210,110,18,0.2", fields))
    assert (values(found, 1), values(found, 2)) == ([0.2], [18.0])
    assert found.block.columns[1].quality.tolist() == [110]
    assert found.block.columns[2].quality.tolist() == [210]


def test_quality_is_raw_where_it_is_not_given() -> None:
    fields = TIME_FIELD + RAIN_FIELD + FIELD.format(RAIN + ":qualityIndex", "-") + TEMPERATURE_FIELD
    found = one(insert("2014-06-01T00:10:00Z,1,,2@2014-06-01T00:20:00Z,3,-110,4", fields))
    assert found.block.columns[1].quality.tolist() == [RAW, -110]
    assert found.block.columns[2].quality.tolist() == [RAW, RAW]


@pytest.mark.parametrize("code", ["good", "1e2", "99999", "-40000", "1.5", "0x10"])
def test_what_is_no_quality_index_is_refused(code: str) -> None:
    fields = TIME_FIELD + RAIN_FIELD + FIELD.format(RAIN + ":qualityIndex", "-")
    error = refused(insert(f"2014-06-01T00:10:00Z,1,{code}", fields))
    assert (type(error), error.parameter) == (InvalidParameter, "qualityIndex")


def test_registered_properties_may_be_left_out() -> None:
    found = one(insert("2014-06-01T00:10:00Z,0.5", TIME_FIELD + RAIN_FIELD))
    assert list(found.block.columns) == [1]


def test_property_is_found_by_a_part_of_its_urn_too() -> None:
    found = one(insert("2014-06-01T00:10:00Z,0.5", TIME_FIELD + FIELD.format("rainfall", "mm")))
    assert values(found, 1) == [0.5]


@pytest.mark.parametrize("marker", ["", " ", "NaN", "nan", "NULL", "None", "nil", "-999.9"])
def test_missing_markers_give_no_value(marker: str) -> None:
    found = one(insert(f"2014-06-01T00:10:00Z,{marker},21@2014-06-01T00:20:00Z,1,{marker}"))
    assert (values(found, 1), values(found, 2)) == ([None, 1.0], [21.0, None])
    single = one(insert(f"2014-06-01T00:10:00Z,{marker},21"))
    assert (values(single, 1), values(single, 2)) == ([None], [21.0])


@pytest.mark.parametrize(
    "text", ["inf", "-inf", "Infinity", "1e400", "-1e400", "1_000", "1,5", "12abc", "--1", "0x1F", "١٢", "1 2", "true"]
)
@pytest.mark.parametrize("rows", [1, 2])
def test_what_is_no_finite_number_is_refused(text: str, rows: int) -> None:
    body = "@".join(f"2014-06-01T00:{m}0:00Z;{text};1" for m in range(1, rows + 1))
    block = '<swe:TextBlock tokenSeparator=";" blockSeparator="@" decimalSeparator="."/>'
    error = refused(insert(body, encoding=block))
    assert (type(error), error.parameter) == (InvalidParameter, "result")
    assert text[:4] in error.message


@given(st.floats(allow_nan=False, allow_infinity=False).filter(lambda v: v != -999.9))
def test_numbers_come_in_bit_for_bit(value: float) -> None:
    found = one(insert(f"2014-06-01T00:10:00Z,{value!r},1"))
    stored = values(found, 1)[0]
    assert stored == value
    assert math.copysign(1, stored) == math.copysign(1, value)


def test_other_separators_and_decimals() -> None:
    block = '<swe:TextBlock tokenSeparator=";" blockSeparator=" " decimalSeparator=","/>'
    found = one(insert("2014-06-01T00:10:00Z;0,5;21,25 2014-06-01T00:20:00Z;-0,5;", encoding=block))
    assert (values(found, 1), values(found, 2)) == ([0.5, -0.5], [21.25, None])
    lines = '<swe:TextEncoding tokenSeparator="," blockSeparator="&#10;"/>'
    found = one(insert("\n2014-06-01T00:10:00Z,1,2\n2014-06-01T00:20:00Z,3,4\n", encoding=lines))
    assert values(found, 1) == [1.0, 3.0]
    found = one(insert("2014-06-01T00:10:00Z,1,2@2014-06-01T00:20:00Z,3,4@"))
    assert values(found, 1) == [1.0, 3.0]


@pytest.mark.parametrize("values_text", ["1.234;5", "1;2 2014-06-01T00:20:00Z;1.234,5;5"])
def test_point_beside_a_decimal_comma_is_refused(values_text: str) -> None:
    """1.234 would be taken for a little more than one where a thousand is meant."""
    block = '<swe:TextBlock tokenSeparator=";" blockSeparator=" " decimalSeparator=","/>'
    assert refused(insert("2014-06-01T00:10:00Z;" + values_text, encoding=block)).parameter == "result"
    missing = one(insert("2014-06-01T00:10:00Z;-999.9;5", encoding=block))
    assert values(missing, 1) == [None]


@pytest.mark.parametrize(
    "block",
    [
        '<swe:TextBlock tokenSeparator="@" blockSeparator="@"/>',
        '<swe:TextBlock tokenSeparator="" blockSeparator="@"/>',
        '<swe:TextBlock tokenSeparator="," blockSeparator="@" decimalSeparator=","/>',
        '<swe:TextBlock tokenSeparator="," blockSeparator="@" decimalSeparator="dot"/>',
        '<swe:TextBlock tokenSeparator="," blockSeparator="@" decimalSeparator="e"/>',
        '<swe:TextBlock tokenSeparator="," blockSeparator="@" decimalSeparator="-"/>',
    ],
)
def test_separators_have_to_differ(block: str) -> None:
    assert refused(insert(encoding=block)).parameter == "result"


@pytest.mark.parametrize(
    "text",
    ["2014-06-01T00:10:00Z,1", "2014-06-01T00:10:00Z,1,2,3", "2014-06-01T00:10:00Z,1,2@@2014-06-01T00:20:00Z,1,2"],
)
def test_row_of_another_length_is_named(text: str) -> None:
    error = refused(insert(text))
    assert (error.parameter, "Row" in error.message) == ("result", True)


def test_rows_are_put_in_order() -> None:
    found = one(insert("2014-06-01T00:30:00Z,3,30@2014-06-01T00:10:00Z,1,10@2014-06-01T00:20:00Z,2,20"))
    assert found.block.end.tolist() == [T0 + m * MINUTE for m in (10, 20, 30)]
    assert (values(found, 1), values(found, 2)) == ([1.0, 2.0, 3.0], [10.0, 20.0, 30.0])


def test_time_that_comes_twice_is_refused() -> None:
    error = refused(insert("2014-06-01T00:10:00Z,1,2@2014-06-01T02:10:00+02:00,1,2"))
    assert (error.parameter, "2014-06-01T00:10:00Z" in error.message) == ("result", True)


@pytest.mark.parametrize("text", ["scooby,1,2", ",1,2", "2014-02-30T00:00:00Z,1,2", "1" * 5000 + ",1,2"])
def test_bad_time_is_refused(text: str) -> None:
    assert refused(insert(text)).parameter == "result"


@pytest.mark.parametrize("time", ["2014-05-31T23:59:59Z", "2014-06-01T01:00:01Z"])
def test_rows_have_to_lie_in_the_sampling_time(time: str) -> None:
    """istSOS lets rows before the begin pass."""
    error = refused(insert(f"{time},1,2"))
    assert (error.parameter, time in error.message) == ("samplingTime", True)


def test_rows_on_the_ends_of_the_sampling_time_are_taken() -> None:
    found = one(insert("2014-06-01T00:00:00Z,1,2@2014-06-01T01:00:00Z,1,2"))
    assert len(found.block) == 2


def test_sampling_time_is_checked() -> None:
    assert (
        refused(
            insert(sampling=SAMPLING.replace("T01:00", "T00:00").replace("T00:00:00Z</gml:b", "T02:00:00Z</gml:b"))
        ).parameter
        == "samplingTime"
    )
    assert refused(insert(sampling="<om:samplingTime/>")).parameter == "samplingTime"
    assert len(one(insert(sampling="")).block) == 1


def test_force_insert_replaces_the_closed_sampling_time() -> None:
    found = one(insert(force="<sos:ForceInsert>true</sos:ForceInsert>"))
    assert found.on_duplicate is OnDuplicate.REPLACE
    assert found.replace == Interval(T0, T0 + 60 * MINUTE + 1)
    empty = one(insert("", force="<sos:ForceInsert>True</sos:ForceInsert>"))
    assert (len(empty.block), empty.replace) == (0, Interval(T0, T0 + 60 * MINUTE + 1))
    assert refused(insert(force="<sos:ForceInsert>true</sos:ForceInsert>", sampling="")).parameter == "samplingTime"


def test_empty_list_stores_nothing() -> None:
    insertions, answer = send(insert(""))
    assert insertions == []
    assert "<sos:AssignedObservationId></sos:AssignedObservationId>" in answer


@pytest.mark.parametrize(
    ("body", "error", "parameter"),
    [
        (insert(sensor="nobody"), NotFound, "assignedSensorId"),
        (insert(procedure=f'<om:procedure xlink:href="{PROCEDURE}RIVER"/>'), InvalidParameter, "procedure"),
        (insert(procedure='<om:procedure xlink:href="nobody"/>'), InvalidParameter, "procedure"),
        (insert(procedure="<om:procedure/>"), MissingParameter, "procedure"),
        (insert(foi='<om:featureOfInterest xlink:href="nowhere"/>'), NotFound, "featureOfInterest"),
        (insert(foi="<om:featureOfInterest/>"), MissingParameter, "featureOfInterest"),
        (insert(fields=TIME_FIELD + RAIN_FIELD + FIELD.format(LEVEL, "")), InvalidParameter, "observedProperty"),
        (insert(fields=TIME_FIELD + RAIN_FIELD + FIELD.format("urn:unknown", "")), InvalidParameter, "observedProperty"),
        (insert(fields=TIME_FIELD + RAIN_FIELD + RAIN_FIELD), InvalidParameter, "observedProperty"),
        (insert(fields=TIME_FIELD + FIELD.format(RAIN, "in") + TEMPERATURE_FIELD), InvalidParameter, "uom"),
        (insert(fields=TIME_FIELD + TIME_FIELD + RAIN_FIELD), InvalidParameter, "result"),
        (insert("1,2@3,4", RAIN_FIELD + TEMPERATURE_FIELD), InvalidParameter, "result"),
        (insert(fields=TIME_FIELD + '<swe:field name="x"/>'), InvalidParameter, "result"),
        (insert(fields=""), InvalidParameter, "result"),
        (insert(fields=TIME_FIELD + RAIN_FIELD + FIELD.format("urn:ogc:crs:EPSG:4326:x-position", "-")), InvalidParameter, "result"),
        (insert(observed='<om:observedProperty xlink:href="urn:unknown"/>'), InvalidParameter, "observedProperty"),
        (insert(result=""), MissingParameter, "result"),
        (insert(result="<swe:Quantity/>"), InvalidParameter, "result"),
        (insert(result="<swe:DataArray/>"), InvalidParameter, "result"),
        (insert(encoding="<swe:BinaryBlock/>"), NotSupported, "result"),
        (insert(encoding=""), NotSupported, "result"),
        (insert("<swe:x/>"), NotSupported, "result"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(body: str, error: type[ThalwegError], parameter: str) -> None:
    found = refused(body)
    assert (type(found), found.parameter) == (error, parameter)


def test_number_of_values_is_bounded() -> None:
    settings = Settings(max_observations_per_insert=5)
    assert isinstance(refused(insert("2014-06-01T00:10:00Z,1,2@2014-06-01T00:20:00Z,1,2"), settings), TooLarge)
    assert len(send(insert(), settings)[0]) == 1


def test_single_record_has_the_sampling_time() -> None:
    record = (
        f"<swe:SimpleDataRecord><swe:field name='r'><swe:Quantity definition='{RAIN}'><swe:uom code='mm'/><swe:value>0.5"
        "</swe:value></swe:Quantity></swe:field></swe:SimpleDataRecord>"
    )
    found = one(insert(result=record))
    assert found.block.end.tolist() == [T0 + 60 * MINUTE]
    assert found.block.begin is not None
    assert found.block.begin.tolist() == [T0]
    assert values(found, 1) == [0.5]
    instant = "<om:samplingTime><gml:TimeInstant><gml:timePosition>2014-06-01T00:10:00Z</gml:timePosition></gml:TimeInstant></om:samplingTime>"
    found = one(insert(result=record, sampling=instant))
    assert (found.block.end.tolist(), found.block.begin) == ([T0 + 10 * MINUTE], None)
    own = record.replace(
        "<swe:field",
        f"<swe:field name='T'><swe:Time definition='{TIME}'><swe:value>2014-06-01T00:20:00Z</swe:value></swe:Time></swe:field><swe:field",
        1,
    )
    assert one(insert(result=own)).block.end.tolist() == [T0 + 20 * MINUTE]


def test_kinds_other_than_number() -> None:
    fields = TIME_FIELD + "".join(
        f'<swe:field name="{name}"><swe:{kind} definition="{name}"/></swe:field>'
        for kind, name in (("Count", LEVEL), ("Text", STATE), ("Boolean", ALARM))
    )
    body = insert(
        "2014-06-01T00:10:00Z,9007199254740993, low tide ,true@2014-06-01T00:20:00Z,-3,,0@2014-06-01T00:30:00Z,12.0,NaN,NULL",
        fields, sensor=SENSOR + "a2", procedure=f'<om:procedure xlink:href="{PROCEDURE}RIVER"/>',
        foi=f'<om:featureOfInterest xlink:href="{FEATURE}river"/>',
    )  # fmt: skip
    found = one(body)
    assert values(found, 3) == [2**53 + 1, -3, 12]
    # Of texts, only the empty one means that there is none.
    assert values(found, 4) == ["low tide", None, "NaN"]
    assert values(found, 5) == [True, False, None]


@pytest.mark.parametrize("text", ["1.5", "9223372036854775808", "1e3", "x", "٣"])
def test_what_is_no_integer_is_refused(text: str) -> None:
    body = insert(
        f"2014-06-01T00:10:00Z,{text}", TIME_FIELD + FIELD.format(LEVEL, ""), sensor=SENSOR + "a2",
        procedure="", foi="",
    )  # fmt: skip
    assert refused(body).parameter == "result"


def test_positions_of_a_moving_sensor() -> None:
    axes = "".join(FIELD.format(f"urn:ogc:crs:EPSG:4326:{a}-position", "-") for a in "xyz")
    quality = FIELD.format("urn:ogc:crs:EPSG:4326:position:qualityIndex", "-")
    found = one(
        insert(
            "2014-06-01T00:10:00Z,9.5,45.5,,100,12@2014-06-01T00:20:00Z,9.6,45.6,200,100,13",
            TIME_FIELD + axes + quality + FIELD.format(WATER, "Cel"),
            sensor=SENSOR + "a3", procedure=f'<om:procedure xlink:href="{PROCEDURE}BOAT"/>',
            foi=f'<om:featureOfInterest xlink:href="{FEATURE}lake"/>',
        )
    )  # fmt: skip
    assert found.block.position is not None
    np.testing.assert_array_equal(found.block.position, [[9.5, 45.5, math.nan], [9.6, 45.6, 200]])
    assert values(found, 6) == [12.0, 13.0]


@pytest.mark.parametrize("place", ["9.5,946", "1000,45", "-361,0", "9,1e300"])
def test_position_nowhere_on_earth_is_refused(place: str) -> None:
    axes = "".join(FIELD.format(f"urn:ogc:crs:EPSG:4326:{a}-position", "-") for a in "xy")
    body = insert(
        f"2014-06-01T00:10:00Z,9.5,45.5,12@2014-06-01T00:20:00Z,{place},13",
        TIME_FIELD + axes + FIELD.format(WATER, "Cel"),
        sensor=SENSOR + "a3", procedure=f'<om:procedure xlink:href="{PROCEDURE}BOAT"/>',
        foi=f'<om:featureOfInterest xlink:href="{FEATURE}lake"/>',
    )  # fmt: skip
    assert refused(body).parameter == "result"


@pytest.mark.parametrize("text", ["\u00a0", "\u3000x\u3000", "\x85", "\u2028a"])
def test_text_loses_the_blanks_of_xml_alone(text: str) -> None:
    body = insert(
        f"2014-06-01T00:10:00Z, {text}\n", TIME_FIELD + FIELD.format(STATE, "").replace("Quantity", "Text"),
        sensor=SENSOR + "a2", procedure="", foi="",
    )  # fmt: skip
    assert values(one(body), 4) == [text]
    result = f'<om:result xsi:type="xs:string"> {text}\n</om:result>'
    assert values(one(insert2(river(result, "TextObservation", STATE))), 4) == [text]


def test_new_feature_comes_with_the_observation() -> None:
    described = (
        f'<om:featureOfInterest xlink:href="{FEATURE}roof"><gml:FeatureCollection><gml:location>'
        "<gml:Point srsName='EPSG:4326'><gml:coordinates>8.9,46.1,300</gml:coordinates></gml:Point></gml:location>"
        "</gml:FeatureCollection></om:featureOfInterest>"
    )
    feature = one(insert(foi=described)).feature
    assert not isinstance(feature, int)
    assert (feature.id, feature.identifier, feature.name) == (0, FEATURE + "roof", "roof")
    assert feature.geometry == point(8.9, 46.1, 300.0)
    sampling_point = (
        '<om:featureOfInterest><sa:SamplingPoint gml:id="x"><gml:name>my roof</gml:name><sa:sampledFeature xlink:href="urn:s"/>'
        "<sa:position><gml:Point srsName='urn:ogc:def:crs:EPSG::4326'><gml:pos>46.1 8.9</gml:pos></gml:Point>"
        "</sa:position></sa:SamplingPoint></om:featureOfInterest>"
    )
    feature = one(insert(foi=sampling_point)).feature
    assert not isinstance(feature, int)
    assert (feature.identifier, feature.name) == ("urn:ogc:def:feature:x-thalweg:1.0:my-roof", "my-roof")
    assert (feature.geometry, feature.sampled) == (point(8.9, 46.1), "urn:s")


def test_feature_is_the_registered_one_where_none_is_named() -> None:
    assert one(insert(foi="")).feature == 1


def test_what_the_server_writes_it_also_reads() -> None:
    """Intervals and result times have fields of their own in O&M 1.0 answers."""
    fields = (
        TIME_FIELD + f'<swe:field name="Begin"><swe:Time definition="{TIME}:begin"/></swe:field>'
        f'<swe:field name="ResultTime"><swe:Time definition="{TIME}:result"/></swe:field>' + RAIN_FIELD
    )  # fmt: skip
    text = (
        "2014-06-01T00:20:00Z,2014-06-01T00:10:00Z,2014-06-01T00:00:00Z,2@"
        "2014-06-01T00:20:00Z,2014-06-01T00:00:00Z,2014-06-01T00:00:00Z,1"
    )
    block = one(insert(text, fields)).block
    assert [block.key(row) for row in range(2)] == [
        (T0 + 20 * MINUTE, T0, T0),
        (T0 + 20 * MINUTE, T0 + 10 * MINUTE, T0),
    ]
    assert block.columns[1].values.tolist() == [1.0, 2.0]
    double = "@".join(["2014-06-01T00:20:00Z,2014-06-01T00:10:00Z,2014-06-01T00:00:00Z,2"] * 2)
    assert refused(insert(double, fields)).parameter == "result"


@given(st.text("0123456789-:T.Z,@ +eNaNinf_", max_size=80))
def test_any_values_give_rows_or_a_domain_error(text: str) -> None:
    fields = TIME_FIELD + RAIN_FIELD + FIELD.format(RAIN + ":qualityIndex", "-")
    try:
        insertions, _ = send(insert(text, fields, sampling=""))
    except ThalwegError:
        return
    for insertion in insertions:
        column = insertion.block.columns[1]
        assert np.isfinite(column.values if column.valid is None else column.values[column.valid]).all()


# ---------------------------------------------------------------- version 2.0

OBSERVATION_TYPE = "http://www.opengis.net/def/observationType/OGC-OM/2.0/OM_"


def at(text: str = "2014-06-01T00:10:00Z", name: str = "t1") -> str:
    return f'<gml:TimeInstant gml:id="{name}"><gml:timePosition>{text}</gml:timePosition></gml:TimeInstant>'


def during(begin: str, end: str, name: str = "p1") -> str:
    return (
        f'<gml:TimePeriod gml:id="{name}"><gml:beginPosition>{begin}</gml:beginPosition><gml:endPosition>{end}'
        "</gml:endPosition></gml:TimePeriod>"
    )


def observation(
    result: str = '<om:result xsi:type="gml:MeasureType" uom="mm">0.5</om:result>',
    *,
    kind: str | None = OBSERVATION_TYPE + "Measurement",
    procedure: str = PROCEDURE + "LUGANO",
    observed: str = RAIN,
    foi: str = f'xlink:href="{FEATURE}lugano"/>',
    phenomenon: str = "",
    result_time: str = '<om:resultTime xlink:href="#t1"/>',
    parameter: str = "",
) -> str:
    type_ = "" if kind is None else f'<om:type xlink:href="{kind}"/>'
    return (
        f'<sos:observation><om:OM_Observation gml:id="o">{type_}<om:phenomenonTime>{phenomenon or at()}</om:phenomenonTime>'
        f'{result_time}<om:procedure xlink:href="{procedure}"/>{parameter}<om:observedProperty xlink:href="{observed}"/>'
        f"<om:featureOfInterest {foi}{result}</om:OM_Observation></sos:observation>"
    )


def insert2(*observations: str, offering: str = f"<sos:offering>{OFFERING}temporary</sos:offering>") -> str:
    return f"""<sos:InsertObservation service="SOS" version="2.0.0" xmlns:sos="http://www.opengis.net/sos/2.0"
 xmlns:om="http://www.opengis.net/om/2.0" xmlns:gml="http://www.opengis.net/gml/3.2" xmlns:xlink="http://www.w3.org/1999/xlink"
 xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xs="http://www.w3.org/2001/XMLSchema"
 xmlns:swe="http://www.opengis.net/swe/2.0" xmlns:sams="http://www.opengis.net/samplingSpatial/2.0"
 xmlns:sf="http://www.opengis.net/sampling/2.0">{offering}{"".join(observations)}</sos:InsertObservation>"""


def test_one_measurement() -> None:
    insertions, answer = send(insert2(observation()))
    (found,) = insertions
    assert (found.procedure_id, found.feature, found.on_duplicate) == (1, 1, OnDuplicate.REFUSE)
    assert (found.block.end.tolist(), found.block.begin, found.block.result_time) == ([T0 + 10 * MINUTE], None, None)
    assert values(found, 1) == [0.5]
    assert "InsertObservationResponse" in answer


def test_values_of_one_time_are_one_row_and_features_apart() -> None:
    found, _ = send(
        insert2(
            observation(phenomenon=at("2014-06-01T00:20:00Z")),
            observation(),
            observation('<om:result uom="Cel">21</om:result>', observed=TEMPERATURE),
            observation(foi=f'xlink:href="{FEATURE}lake"/>'),
        )
    )
    assert [(i.procedure_id, i.feature, len(i.block)) for i in found] == [(1, 1, 2), (1, 3, 1)]
    assert (values(found[0], 1), values(found[0], 2)) == ([0.5, 0.5], [21.0, None])


def test_periods_and_result_times() -> None:
    forecast = observation(
        phenomenon=during("2014-06-01T00:00:00Z", "2014-06-01T01:00:00Z"),
        result_time=f"<om:resultTime>{at('2014-05-31T12:00:00Z', 'r1')}</om:resultTime>",
    )
    block = one(insert2(forecast)).block
    assert block.key(0) == (T0 + 60 * MINUTE, T0, T0 - 12 * 60 * MINUTE)
    referring = observation(
        phenomenon=during("2014-06-01T00:00:00Z", "2014-06-01T01:00:00Z"),
        result_time='<om:resultTime xlink:href="#p1"/>',
    )
    assert one(insert2(referring)).block.key(0) == (T0 + 60 * MINUTE, T0, T0 + 60 * MINUTE)


def test_time_and_feature_are_referred_to_across_observations() -> None:
    described = (
        '><sams:SF_SpatialSamplingFeature gml:id="f9"><gml:identifier codeSpace="">urn:roof</gml:identifier>'
        '<gml:name>roof</gml:name><sf:type xlink:href="http://www.opengis.net/def/samplingFeatureType/OGC-OM/2.0/SF_SamplingPoint"/>'
        '<sf:sampledFeature xlink:href="urn:earth"/><sams:shape><gml:Point gml:id="g" srsName="http://www.opengis.net/def/crs/EPSG/0/4326">'
        "<gml:pos>46.1 8.9</gml:pos></gml:Point></sams:shape></sams:SF_SpatialSamplingFeature></om:featureOfInterest>"
    )
    second = observation('<om:result uom="Cel">21</om:result>', observed=TEMPERATURE, foi='xlink:href="#f9"/>').replace(
        f"<om:phenomenonTime>{at()}</om:phenomenonTime>", '<om:phenomenonTime xlink:href="#t1"/>'
    )
    found = one(insert2(observation(foi=described), second))
    assert not isinstance(found.feature, int)
    assert (found.feature.identifier, found.feature.name, found.feature.geometry, found.feature.sampled) == (
        "urn:roof", "roof", point(8.9, 46.1), "urn:earth",
    )  # fmt: skip
    assert (values(found, 1), values(found, 2)) == ([0.5], [21.0])


def river(result: str, kind: str, observed: str) -> str:
    return observation(
        result, kind=OBSERVATION_TYPE + kind, procedure=PROCEDURE + "RIVER", observed=observed,
        foi=f'xlink:href="{FEATURE}river"/>',
    )  # fmt: skip


def test_other_observation_types() -> None:
    found = one(
        insert2(
            river('<om:result xsi:type="xs:integer">42</om:result>', "CountObservation", LEVEL),
            river('<om:result xsi:type="xs:string">low</om:result>', "TextObservation", STATE),
            river('<om:result xsi:type="xs:boolean">true</om:result>', "TruthObservation", ALARM),
        )
    )
    assert (values(found, 3), values(found, 4), values(found, 5)) == ([42], ["low"], [True])
    category = '<om:result xsi:type="gml:ReferenceType" xlink:href="http://x/low" xlink:title="low"/>'
    assert values(one(insert2(river(category, "CategoryObservation", STATE))), 4) == ["http://x/low"]


def test_nil_results_give_nothing() -> None:
    nil = '<om:result xsi:nil="true" xsi:type="gml:MeasureType"/>'
    assert send(insert2(observation(nil)))[0] == []
    found = one(insert2(observation(nil), observation('<om:result uom="Cel">2</om:result>', observed=TEMPERATURE)))
    assert list(found.block.columns) == [2]


def test_arrays_and_records() -> None:
    fields = TIME_FIELD + RAIN_FIELD + TEMPERATURE_FIELD + FIELD.format(RAIN + ":qualityIndex", "-")
    encoding = '<swe:TextEncoding tokenSeparator="," blockSeparator="@"/>'
    text = "2014-06-01T00:10:00Z,1,10,110@2014-06-01T00:20:00Z,,20,"
    found = one(
        insert2(
            observation(
                f'<om:result xsi:type="swe:DataArrayPropertyType">{array(fields, text, encoding)}</om:result>',
                kind=OBSERVATION_TYPE + "SWEArrayObservation", observed="urn:composite",
                phenomenon=during("2014-06-01T00:00:00Z", "2014-06-01T01:00:00Z", "t1"),
            )
        )
    )  # fmt: skip
    assert found.block.end.tolist() == [T0 + 10 * MINUTE, T0 + 20 * MINUTE]
    assert found.block.result_time is None
    assert (values(found, 1), values(found, 2)) == ([1.0, None], [10.0, 20.0])
    assert found.block.columns[1].quality.tolist()[0] == 110
    record = (
        f'<swe:DataRecord><swe:field name="r"><swe:Quantity definition="{RAIN}"><swe:uom code="mm"/><swe:value>3'
        f'</swe:value></swe:Quantity></swe:field><swe:field name="t"><swe:Quantity definition="{TEMPERATURE}"><swe:uom '
        'code="Cel"/><swe:value>4</swe:value></swe:Quantity></swe:field></swe:DataRecord>'
    )
    found = one(insert2(observation(f"<om:result>{record}</om:result>", kind=OBSERVATION_TYPE + "ComplexObservation")))
    assert (found.block.end.tolist(), values(found, 1), values(found, 2)) == ([T0 + 10 * MINUTE], [3.0], [4.0])


def named(name: str, value: str) -> str:
    return (
        f'<om:parameter><om:NamedValue><om:name xlink:href="{name}"/><om:value>{value}</om:value></om:NamedValue>'
        "</om:parameter>"
    )


def test_quality_and_position_as_parameters() -> None:
    quality = named(RAIN + ":qualityIndex", "210")
    assert one(insert2(observation(parameter=quality))).block.columns[1].quality.tolist() == [210]
    geometry = named(
        "http://www.opengis.net/req/omxml/2.0/data/samplingGeometry",
        '<gml:Point gml:id="q"><gml:pos srsName="http://www.opengis.net/def/crs/EPSG/0/4326">45.5 9.5</gml:pos></gml:Point>',
    )
    boat = observation(
        '<om:result uom="Cel">12</om:result>', procedure=PROCEDURE + "BOAT", observed=WATER,
        foi=f'xlink:href="{FEATURE}lake"/>', parameter=geometry,
    )  # fmt: skip
    block = one(insert2(boat)).block
    assert block.position is not None
    np.testing.assert_array_equal(block.position, [[9.5, 45.5, math.nan]])
    # The place of a fixed sensor is its feature's.
    assert one(insert2(observation(parameter=geometry))).block.position is None
    error = refused(insert2(observation(parameter=named("urn:depth", "3"))))
    assert (type(error), error.parameter) == (NotSupported, "parameter")


@pytest.mark.parametrize(
    ("body", "error", "parameter"),
    [
        (insert2(observation(), offering=""), MissingParameter, "offering"),
        (insert2(observation(), offering="<sos:offering/>"), MissingParameter, "offering"),
        (insert2(observation(), offering="<sos:offering>x</sos:offering>"), NotFound, "offering"),
        (insert2(), MissingParameter, "observation"),
        (insert2(observation(kind="")), MissingParameter, "observationType"),
        (insert2(observation(kind="x")), InvalidParameter, "observationType"),
        (insert2(observation(procedure="")), MissingParameter, "procedure"),
        (insert2(observation(procedure="x")), NotFound, "procedure"),
        (insert2(observation(observed="")), MissingParameter, "observedProperty"),
        (insert2(observation(observed="x")), NotFound, "observedProperty"),
        (insert2(observation(observed=LEVEL)), InvalidParameter, "observedProperty"),
        (insert2(observation(foi='xlink:href=""/>')), MissingParameter, "featureOfInterest"),
        (insert2(observation(foi='xlink:href="x"/>')), NotFound, "featureOfInterest"),
        (insert2(observation('<om:result xsi:type="" uom="mm">1</om:result>')), MissingParameter, "resultType"),
        (insert2(observation('<om:result xsi:type="gml:Bogus" uom="mm">1</om:result>')), InvalidParameter, "resultType"),
        (insert2(observation('<om:result xsi:type="xs:string">1</om:result>')), InvalidParameter, "resultType"),
        (insert2(observation('<om:result uom="in">1</om:result>')), InvalidParameter, "uom"),
        (insert2(observation('<om:result uom="mm">x</om:result>')), InvalidParameter, "result"),
        (insert2(observation('<om:result uom="mm">1e999</om:result>')), InvalidParameter, "result"),
        (insert2(observation("")), MissingParameter, "result"),
        (insert2(observation('<om:result xsi:type="xs:integer">1</om:result>', kind=OBSERVATION_TYPE + "CountObservation")), InvalidParameter, "observationType"),
        (insert2(observation(phenomenon=at("scooby"))), InvalidParameter, "phenomenonTime"),
        (insert2(observation(phenomenon=during("2014-06-02", "2014-06-01"))), InvalidParameter, "phenomenonTime"),
        (insert2(observation(result_time='<om:resultTime xlink:href="#nope"/>')), InvalidParameter, "resultTime"),
        (insert2(observation(), observation()), InvalidParameter, "observation"),
        (insert2(observation(), offering=f"<sos:offering>{OFFERING}LUGANO</sos:offering>").replace(PROCEDURE + "LUGANO", PROCEDURE + "BOAT").replace(RAIN, WATER), InvalidParameter, "offering"),
    ],
)  # fmt: skip
def test_every_refusal_has_its_locator(body: str, error: type[ThalwegError], parameter: str) -> None:
    found = refused(body)
    assert (type(found), found.parameter) == (error, parameter)


def test_one_bad_observation_stores_none() -> None:
    services = noting_services(network())
    with pytest.raises(NotFound):
        handle(post(insert2(observation(), observation(procedure="x"))), services)
    assert cast(NotingObserve, cast(Any, services.observe)).insertions == []


def test_observation_type_may_be_left_out() -> None:
    assert values(one(insert2(observation(kind=None))), 1) == [0.5]
    assert values(one(insert2(observation('<om:result uom="mm">1</om:result>', kind=None))), 1) == [1.0]


PIECES = st.sampled_from(
    [observation(), observation(kind=None), observation('<om:result/>'), "<sos:observation/>", "<x/>",
     observation(phenomenon="<gml:TimeInstant/>"), observation(parameter="<om:parameter/>"),
     observation('<om:result><swe:DataArray/></om:result>', kind=None), observation(foi="><x/></om:featureOfInterest>"),
     observation('<om:result><swe:DataRecord/></om:result>', kind=None), observation(result_time="<om:resultTime/>")]
)  # fmt: skip


@given(st.lists(PIECES, max_size=4), st.integers(0, 3000), st.text("<>/\"'ab0 ", max_size=6))
def test_any_change_of_a_request_gives_blocks_or_a_domain_error(pieces: list[str], place: int, text: str) -> None:
    body = insert2(*pieces)
    for candidate in (body, body[:place] + text + body[place:]):
        try:
            send(candidate)
        except ThalwegError:
            pass
