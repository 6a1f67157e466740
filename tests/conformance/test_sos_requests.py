"""SOS 1.0 and 2.0 over a real store: write, read back, filter. Every XML answer is checked by its schema."""

# ruff: noqa: E501 (XML reads better unbroken)

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from lxml import etree
from tests.conformance.door_support import Validator
from tests.conformance.sos_support import (
    ADMIN,
    NOBODY,
    NS20,
    OM10_FORMAT,
    PROCEDURE,
    RAIN,
    READER,
    SOS10,
    SOS20,
    SWES,
    TEMPERATURE,
    Sos,
    fill,
    insert_observation,
    quantity,
    register_sensor,
)

from thalweg.domain.access import Principal, Role
from thalweg.doors.http import Request
from thalweg.settings import Settings

SHAPE = "om:featureOfInterest/*/sams:shape"
GML = {
    "gml": "http://www.opengis.net/gml",
    "om": "http://www.opengis.net/om/1.0",
    "swe": "http://www.opengis.net/swe/1.0.1",
}
OM2 = {"om": "http://www.opengis.net/om/2.0", "sos": SOS20, "gml": "http://www.opengis.net/gml/3.2"}


@pytest.fixture(scope="module")
def sos(tmp_path_factory: pytest.TempPathFactory, schemas: Validator) -> Iterator[Sos]:
    """A store that tests only read, but for what they add themselves."""
    made = Sos(tmp_path_factory.mktemp("sos"), schemas)
    fill(made)
    yield made
    made.close()


@pytest.fixture
def fresh(tmp_path: Path, schemas: Validator) -> Iterator[Sos]:
    made = Sos(tmp_path, schemas)
    yield made
    made.close()


def hours(begin: str, end: str) -> str:
    """A period of that morning, +02:00."""
    return f"2014-06-01T{begin}:00+02:00/2014-06-01T{end}:00+02:00"


def names_and_values(rows: list[list[str]]) -> list[tuple[str, str, str]]:
    """(minutes past midnight, station, rain)."""
    return [(row[0][14:16], row[1], row[2]) for row in rows]


# ---------------------------------------------------------------- version 1.0


def test_period_of_10_leaves_out_its_begin(sos: Sos) -> None:
    rows = sos.rows(eventTime=hours("00:10", "00:30"), procedure="LUGANO")
    assert rows == [
        ["2014-06-01T00:20:00+02:00", "LUGANO", "0.2", "12"],
        ["2014-06-01T00:30:00+02:00", "LUGANO", "0.3", "13"],
    ]


def test_answer_has_the_zone_of_the_first_time_or_utc(sos: Sos) -> None:
    assert (
        sos.rows(eventTime="2014-05-31T22:00:00Z/2014-05-31T22:10:00Z", procedure="LUGANO")[0][0]
        == "2014-05-31T22:10:00Z"
    )
    assert sos.rows(eventTime="2014-05-31T19:10:00-03:00", procedure="LUGANO")[0][0] == "2014-05-31T19:10:00-03:00"
    assert sos.rows(procedure="LUGANO")[0][0] == "2014-05-31T23:00:00Z"


def test_no_time_means_the_latest_of_each(sos: Sos) -> None:
    rows = [["2014-05-31T23:00:00Z", "LUGANO", "0.6", "16"], ["2014-05-31T23:00:00Z", "BELLINZONA", "1.6", "26"]]
    assert sos.rows() == rows
    assert sos.rows(eventTime="latest") == rows
    assert sos.rows2(temporalFilter="om:phenomenonTime,latest") == rows


def test_first_means_the_oldest_of_each(sos: Sos) -> None:
    rows = [["2014-05-31T22:10:00Z", "LUGANO", "0.1", "11"], ["2014-05-31T22:10:00Z", "BELLINZONA", "1.1", "21"]]
    assert sos.rows(eventTime="first") == rows
    assert sos.rows2(temporalFilter="om:phenomenonTime,first") == rows


@pytest.mark.parametrize(
    ("time", "minutes"),
    [
        ("2014-06-01T00:10:00+02:00", ["10"]),
        ("2014-06-01T00:10:00+02:00,2014-06-01T00:40:00+02:00", ["10", "40"]),
        (f"{hours('00:00', '00:10')},{hours('00:30', '00:40')}", ["10", "40"]),
        (f"{hours('00:00', '00:20')},{hours('00:10', '00:30')}", ["10", "20", "30"]),
        ("2014-06-01T00:50:00+02:00/..", ["00"]),
        ("2014-06-01T00:50:00+02:00/", ["00"]),
        ("../2014-06-01T00:20:00+02:00", ["10", "20"]),
        ("/2014-06-01T00:20:00+02:00", ["10", "20"]),
        ("2014-06-01T00:00:00+02:00/PT10M", ["10"]),
        ("2013-01-01/2013-12-31", []),
    ],
)
def test_times_of_10(sos: Sos, time: str, minutes: list[str]) -> None:
    assert [row[0][14:16] for row in sos.rows(eventTime=time, procedure="LUGANO")] == minutes


def test_unescaped_plus_sign(sos: Sos) -> None:
    query = (
        "service=SOS&version=1.0.0&request=GetObservation&offering=temporary&observedProperty=rainfall&procedure=LUGANO"
        "&responseFormat=text/csv&eventTime=2014-06-01T00:00:00+02:00/2014-06-01T00:10:00+02:00"
    )
    assert sos.raw(query).body.decode().splitlines()[1:] == ["2014-06-01T00:10:00+02:00,LUGANO,0.1"]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (RAIN, [RAIN]),
        ("rainfall", [RAIN]),
        ("air:temperature", [TEMPERATURE]),
        ("urn:ogc:def:parameter:x-istsos:1.0:", [RAIN, TEMPERATURE]),
        ("meteo", [RAIN, TEMPERATURE]),
        ("meteo-air-temperature", [TEMPERATURE]),
    ],
)
def test_observed_property_by_part_of_the_urn(sos: Sos, text: str, columns: list[str]) -> None:
    header = sos.observations(observedProperty=text).body.decode().splitlines()[0].split(",")
    assert header[2:] == columns


def test_filters_are_combined_with_and(sos: Sos) -> None:
    when = hours("00:00", "00:10")
    assert names_and_values(sos.rows(eventTime=when)) == [("10", "LUGANO", "0.1"), ("10", "BELLINZONA", "1.1")]
    assert names_and_values(sos.rows(eventTime=when, featureOfInterest="lugano")) == [("10", "LUGANO", "0.1")]
    assert sos.rows(eventTime=when, featureOfInterest="lugano", procedure="BELLINZONA") == []
    assert names_and_values(sos.rows(eventTime=when, procedure="BELLINZONA,LUGANO")) == [
        ("10", "BELLINZONA", "1.1"), ("10", "LUGANO", "0.1"),
    ]  # fmt: skip


BOX = (
    "<ogc:BBOX><ogc:PropertyName>gml:location</ogc:PropertyName><gml:Envelope srsName='{}'><gml:lowerCorner>{}"
    "</gml:lowerCorner><gml:upperCorner>{}</gml:upperCorner></gml:Envelope></ogc:BBOX>"
)


def test_feature_of_interest_by_place(sos: Sos) -> None:
    when = hours("00:00", "00:10")
    east = BOX.format("EPSG:4326", "9 46", "9.1 46.2")
    assert names_and_values(sos.rows(eventTime=when, featureOfInterest=east)) == [("10", "BELLINZONA", "1.1")]
    north_first = BOX.format("urn:ogc:def:crs:EPSG::4326", "46 8.9", "46.1 9")
    assert names_and_values(sos.rows(eventTime=when, featureOfInterest=north_first)) == [("10", "LUGANO", "0.1")]
    near = (
        "<ogc:DWithin><ogc:PropertyName>g</ogc:PropertyName><gml:Point srsName='EPSG:4326'><gml:coordinates>8.96,46.04"
        "</gml:coordinates></gml:Point><ogc:Distance units='m'>{}</ogc:Distance></ogc:DWithin>"
    )
    # One hundredth of a degree of latitude is 1.11 km.
    assert names_and_values(sos.rows(eventTime=when, featureOfInterest=near.format(1200))) == [("10", "LUGANO", "0.1")]
    assert sos.rows(eventTime=when, featureOfInterest=near.format(1000)) == []
    beyond = near.format(1200).replace("DWithin", "Beyond")
    assert names_and_values(sos.rows(eventTime=when, featureOfInterest=beyond)) == [("10", "BELLINZONA", "1.1")]


@pytest.mark.parametrize("crs", ["urn:ogc:def:crs:EPSG::4326", "http://www.opengis.net/def/crs/EPSG/0/4326"])
def test_spatial_filter_of_20_in_both_forms(sos: Sos, crs: str) -> None:
    """istSOS/istsos2 PR 15: any spatialFilter failed."""
    rows = sos.rows2(temporalFilter="om:phenomenonTime,first", spatialFilter=f"{SHAPE},46,8.9,46.1,9,{crs}")
    assert [row[1] for row in rows] == ["LUGANO"]
    turned = sos.rows2(temporalFilter="om:phenomenonTime,first", spatialFilter=f"{SHAPE},8.9,46,9,46.1,{crs}")
    assert turned == []
    plain = sos.rows2(temporalFilter="om:phenomenonTime,first", spatialFilter=f"{SHAPE},8.9,46,9,46.1,EPSG:4326")
    assert [row[1] for row in plain] == ["LUGANO"]


@pytest.mark.parametrize(
    ("test", "minutes"),
    [
        (
            "PropertyIsGreaterThan><ogc:PropertyName>rainfall</ogc:PropertyName><ogc:Literal>0.4</ogc:Literal></ogc:PropertyIsGreaterThan",
            ["50", "00"],
        ),
        (
            "PropertyIsEqualTo><ogc:PropertyName>temperature</ogc:PropertyName><ogc:Literal>12</ogc:Literal></ogc:PropertyIsEqualTo",
            ["20"],
        ),
        (
            "PropertyIsBetween><ogc:PropertyName>rainfall</ogc:PropertyName><ogc:LowerBoundary><ogc:Literal>0.2</ogc:Literal></ogc:LowerBoundary><ogc:UpperBoundary><ogc:Literal>0.3</ogc:Literal></ogc:UpperBoundary></ogc:PropertyIsBetween",
            ["20", "30"],
        ),
        (
            "PropertyIsLessThan><ogc:PropertyName>rainfall</ogc:PropertyName><ogc:Literal>-5</ogc:Literal></ogc:PropertyIsLessThan",
            [],
        ),
    ],
)
def test_result_filter_of_a_named_property(sos: Sos, test: str, minutes: list[str]) -> None:
    rows = sos.rows(eventTime=hours("00:00", "01:00"), procedure="LUGANO", result=f"<ogc:{test}>")
    assert [row[0][14:16] for row in rows] == minutes
    assert all(row[3] for row in rows)


def test_result_filter_of_any_property_leaves_only_what_passes(sos: Sos) -> None:
    test = "<ogc:PropertyIsLessThanOrEqualTo><ogc:PropertyName>om:result</ogc:PropertyName><ogc:Literal>11</ogc:Literal></ogc:PropertyIsLessThanOrEqualTo>"
    rows = sos.rows(eventTime=hours("00:00", "00:20"), procedure="LUGANO", result=test)
    assert [row[2:] for row in rows] == [["0.1", "11"], ["0.2", ""]]


@pytest.mark.parametrize(("name", "literal"), [("rainfall", "wet"), ("snow", "1"), ("temperature", "1")])
def test_result_filter_that_cannot_be_applied(sos: Sos, name: str, literal: str) -> None:
    test = f"<ogc:PropertyIsEqualTo><ogc:PropertyName>{name}</ogc:PropertyName><ogc:Literal>{literal}</ogc:Literal></ogc:PropertyIsEqualTo>"
    answer = sos.observations(observedProperty="rainfall", result=test, eventTime=hours("00:00", "01:00"))
    assert answer.exception == ("InvalidParameterValue", "result")


def test_om_10_document(sos: Sos) -> None:
    answer = sos.observations(responseFormat=OM10_FORMAT, eventTime=hours("00:00", "00:20"), procedure="LUGANO")
    assert answer.content_type == OM10_FORMAT
    root = answer.root
    assert root.findtext("gml:name", namespaces=GML) == "temporary"
    assert root.findtext(".//swe:values", namespaces=GML) == (
        "2014-06-01T00:10:00+02:00,0.1,11@2014-06-01T00:20:00+02:00,0.2,12"
    )
    assert root.findtext(".//swe:Count/swe:value", namespaces=GML) == "2"
    point = root.find(".//gml:Point", GML)
    assert point is not None
    assert (point.get("srsName"), point.findtext("gml:coordinates", namespaces=GML)) == ("EPSG:4326", "8.96,46.03,273")


def test_srs_name_decides_the_axis_order(sos: Sos) -> None:
    answer = sos.observations(responseFormat="text/xml", procedure="LUGANO", srsName="urn:ogc:def:crs:EPSG::4326")
    point = answer.root.find(".//gml:Point", GML)
    assert point is not None
    assert point.get("srsName") == "urn:ogc:def:crs:EPSG::4326"
    assert "".join(point.itertext()).replace(",", " ").split()[:2] == ["46.03", "8.96"]
    assert sos.observations(srsName="EPSG:2056").exception == ("InvalidParameterValue", "srsName")


def test_no_match_is_an_empty_answer(sos: Sos) -> None:
    nothing = {"eventTime": "1990-01-01/1990-01-02"}
    assert sos.observations(responseFormat=OM10_FORMAT, **nothing).root.findall("om:member/*", GML) == []
    assert json.loads(sos.observations(responseFormat="application/json", **nothing).body) == {
        "ObservationCollection": {"description": "", "name": "temporary", "member": []}
    }
    empty = sos.sos2("GetObservation", temporalFilter="om:phenomenonTime,1990-01-01/1990-01-02")
    assert (empty.status, len(empty.root)) == (200, 0)


def test_quality_index(sos: Sos) -> None:
    rows = sos.rows(eventTime=hours("00:00", "00:10"), procedure="LUGANO", qualityIndex="True")
    assert rows == [["2014-06-01T00:10:00+02:00", "LUGANO", "0.1", "100", "11", "100"]]


@pytest.mark.parametrize("name", ["application/json", "text/x-json"])
def test_json(sos: Sos, name: str) -> None:
    answer = sos.observations(responseFormat=name, eventTime=hours("00:00", "00:20"), procedure="LUGANO")
    (member,) = json.loads(answer.body)["ObservationCollection"]["member"]
    assert member["result"]["DataArray"]["values"] == [
        ["2014-06-01T00:10:00+02:00", 0.1, 11], ["2014-06-01T00:20:00+02:00", 0.2, 12],
    ]  # fmt: skip
    assert answer.content_type.startswith(name)


# ---------------------------------------------------------------- version 2.0


def test_network_offering_and_procedure_in_20(sos: Sos) -> None:
    """istSOS/istsos2 issue 62: a network offering was taken for a procedure."""
    rows = sos.rows2(offering="temporary", procedure="BELLINZONA", temporalFilter="om:phenomenonTime,first")
    assert [row[1] for row in rows] == ["BELLINZONA"]
    assert sos.sos2("GetObservation", offering="x", procedure="LUGANO").exception == (
        "InvalidParameterValue",
        "offering",
    )
    assert sos.sos2("GetObservation", offering="temporary", procedure="x").exception == (
        "InvalidParameterValue", "procedure",
    )  # fmt: skip
    assert sos.rows2(offering="LUGANO", procedure="BELLINZONA") == []


def test_period_of_20_is_closed_and_no_time_is_all_time(sos: Sos) -> None:
    rows = sos.rows2(procedure="LUGANO", temporalFilter=f"om:phenomenonTime,{hours('00:10', '00:30')}")
    assert [row[0][14:16] for row in rows] == ["10", "20", "30"]
    assert len(sos.rows2(procedure="LUGANO")) == 6


def test_om_20_document(sos: Sos) -> None:
    answer = sos.sos2(
        "GetObservation", procedure=PROCEDURE + "LUGANO", observedProperty=RAIN,
        temporalFilter="om:phenomenonTime,2014-06-01T00:10:00+02:00",
    )  # fmt: skip
    assert answer.content_type == "application/xml"
    (observation,) = answer.root.findall("sos:observationData/om:OM_Observation", OM2)
    result = observation.find("om:result", OM2)
    assert result is not None
    assert (result.text, result.get("uom")) == ("0.1", "mm")
    assert observation.findtext("om:phenomenonTime//gml:timePosition", namespaces=OM2) == "2014-06-01T00:10:00+02:00"


def test_merged_observations(sos: Sos) -> None:
    answer = sos.sos2("GetObservation", procedure="LUGANO", MergeObservationsIntoDataArray="true")
    assert len(answer.root.findall("sos:observationData", OM2)) == 2
    assert len(sos.sos2("GetObservation", procedure="LUGANO").root.findall("sos:observationData", OM2)) == 12


def test_get_observation_by_xml(sos: Sos) -> None:
    old = f"""<GetObservation xmlns="{SOS10}" xmlns:ogc="http://www.opengis.net/ogc" xmlns:gml="http://www.opengis.net/gml"
 service="SOS" version="1.0.0"><offering>temporary</offering><eventTime><ogc:TM_During><ogc:PropertyName>t</ogc:PropertyName>
<gml:TimePeriod><gml:beginPosition>2014-06-01T00:00:00+02:00</gml:beginPosition><gml:endPosition>2014-06-01T00:20:00+02:00
</gml:endPosition></gml:TimePeriod></ogc:TM_During></eventTime><observedProperty>rainfall</observedProperty>
<featureOfInterest><ObjectID>lugano</ObjectID></featureOfInterest><responseFormat>text/csv</responseFormat></GetObservation>"""
    assert sos.post(old, READER).body.decode().splitlines()[1:] == [
        "2014-06-01T00:10:00+02:00,LUGANO,0.1", "2014-06-01T00:20:00+02:00,LUGANO,0.2",
    ]  # fmt: skip
    new = f"""<sos:GetObservation {NS20} service="SOS" version="2.0.0"><sos:offering>temporary</sos:offering>
<sos:temporalFilter><fes:During><fes:ValueReference>om:phenomenonTime</fes:ValueReference><gml:TimePeriod gml:id="t">
<gml:beginPosition>2014-06-01T00:10:00+02:00</gml:beginPosition><gml:endPosition>2014-06-01T00:20:00+02:00</gml:endPosition>
</gml:TimePeriod></fes:During></sos:temporalFilter><sos:spatialFilter><fes:BBOX><fes:ValueReference>{SHAPE}
</fes:ValueReference><gml:Envelope srsName="http://www.opengis.net/def/crs/EPSG/0/4326"><gml:lowerCorner>46 9</gml:lowerCorner>
<gml:upperCorner>47 10</gml:upperCorner></gml:Envelope></fes:BBOX></sos:spatialFilter>
<sos:responseFormat>text/csv</sos:responseFormat></sos:GetObservation>"""
    rows = sos.post(new, READER).body.decode().splitlines()[1:]
    assert [row.split(",")[:3] for row in rows] == [
        ["2014-06-01T00:10:00+02:00", "BELLINZONA", "1.1"], ["2014-06-01T00:20:00+02:00", "BELLINZONA", "1.2"],
    ]  # fmt: skip


def test_forms(sos: Sos) -> None:
    form = "application/x-www-form-urlencoded"
    pairs = "service=SOS&version=2.0.0&request=GetObservation&responseFormat=text/csv&temporalFilter=om:phenomenonTime,first"
    assert len(sos.post(pairs, READER, form).body.splitlines()) == 3
    document = f"<GetCapabilities xmlns='{SOS10}' service='SOS'/>"
    answer = sos.post(urlencode({"request": document}), READER, form)
    assert answer.root.tag == f"{{{SOS10}}}Capabilities"
    # A document that says it is a form.
    assert sos.post(document, READER, form).root.tag == f"{{{SOS10}}}Capabilities"


# ---------------------------------------------------------------- other readings


def test_get_feature_of_interest(sos: Sos) -> None:
    every = sos.sos2("GetFeatureOfInterest").root
    assert len(every) == 2
    assert len(sos.sos2("GetFeatureOfInterest", procedure="LUGANO").root) == 1
    assert len(sos.sos2("GetFeatureOfInterest", observedProperty="rainfall").root) == 2
    assert len(sos.sos2("GetFeatureOfInterest", featureOfInterest="lugano", procedure="BELLINZONA").root) == 0
    far = f"{SHAPE},179,90,179,90,urn:ogc:def:crs:EPSG::4326"
    assert len(sos.sos2("GetFeatureOfInterest", spatialFilter=far).root) == 0
    old = sos.sos1("GetFeatureOfInterest", featureOfInterestId="lugano")
    assert b"8.96,46.03,273" in old.body
    assert sos.sos1("GetFeatureOfInterest", featureOfInterestId="x").exception == (
        "InvalidParameterValue", "featureOfInterestId",
    )  # fmt: skip


def test_get_observation_by_id(sos: Sos) -> None:
    listed = sos.sos2(
        "GetObservation", procedure="LUGANO", observedProperty="rainfall", temporalFilter="om:phenomenonTime,first"
    )
    identifier = str(listed.root.findtext(".//gml:identifier", namespaces=OM2))
    answer = sos.sos2("GetObservationById", observation=identifier)
    assert answer.root.tag == f"{{{SOS20}}}GetObservationByIdResponse"
    assert answer.root.findtext("sos:observation/om:OM_Observation/om:result", namespaces=OM2) == "0.1"
    # An id of nothing is no error in 2.0, and one in 1.0.
    for nothing in ("nonsense", "999.1.5", identifier + "1", "1.999.5", "1.1.5.7.9"):
        empty = sos.sos2("GetObservationById", observation=nothing)
        assert (empty.status, len(empty.root)) == (200, 0)
        assert sos.sos1("GetObservationById", ObservationId=nothing).exception == (
            "InvalidParameterValue",
            "ObservationId",
        )
    old = sos.sos1("GetObservationById", ObservationId=identifier, responseFormat=OM10_FORMAT)
    assert old.root.findtext(".//swe:values", namespaces=GML) == "2014-05-31T22:10:00Z,0.1,100"


def test_describe_sensor(sos: Sos) -> None:
    for name in ("LUGANO", PROCEDURE + "LUGANO"):
        answer = sos.sos1("DescribeSensor", procedure=name, outputFormat='text/xml;subtype="sensorML/1.0.1"')
        assert answer.content_type == 'text/xml;subtype="sensorML/1.0.1"'
        assert b"-40 500" in answer.body
    for form in ("http://www.opengis.net/sensorML/1.0.1", "http://www.opengis.net/sensorml/2.0"):
        answer = sos.sos2("DescribeSensor", procedure="LUGANO", procedureDescriptionFormat=form)
        assert answer.root.findtext(f"{{{SWES}}}procedureDescriptionFormat") == form


# ---------------------------------------------------------------- writing


def test_second_identical_insert_is_said_to_be_contained(fresh: Sos) -> None:
    """52North/SOS issue 17: a raw SQL error."""
    ids = fill(fresh)
    again = insert_observation(
        ids["LUGANO"], "LUGANO", "2014-06-01T00:10:00+02:00,9,9", begin="2014-06-01", end="2014-06-02"
    ).replace("<gml:beginPosition>2014-06-01", "<gml:beginPosition>2014-05-31")
    answer = fresh.post(again)
    assert (answer.status, answer.exception[0]) == (400, "InvalidParameterValue")
    assert "already" in answer.text
    assert "LUGANO" in answer.text
    assert "2014-05-31T22:10:00Z" in answer.text
    assert RAIN in answer.text
    assert "SQL" not in answer.text.upper()
    assert fresh.rows(eventTime="2014-06-01T00:10:00+02:00", procedure="LUGANO")[0][2:] == ["0.1", "11"]


def test_force_insert_replaces_the_period(fresh: Sos) -> None:
    ids = fill(fresh)
    body = insert_observation(
        ids["LUGANO"], "LUGANO", "2014-06-01T00:15:00+02:00,7,70", begin="2014-06-01T00:10:00+02:00",
        end="2014-06-01T00:30:00+02:00", force=True,
    )  # fmt: skip
    assert fresh.post(body).status == 200
    rows = fresh.rows(eventTime=hours("00:00", "00:50"), procedure="LUGANO")
    assert [(row[0][14:16], row[2]) for row in rows] == [("15", "7"), ("40", "0.4"), ("50", "0.5")]


def test_force_insert_of_nothing_empties_the_period(fresh: Sos) -> None:
    ids = fill(fresh)
    body = insert_observation(
        ids["LUGANO"], "LUGANO", "", begin="2014-06-01T00:20:00+02:00", end="2014-06-01T00:50:00+02:00", force=True
    )
    answer = fresh.post(body)
    assert (answer.status, answer.root.findtext(f"{{{SOS10}}}AssignedObservationId")) == (200, "")
    rows = fresh.rows(eventTime=hours("00:00", "01:00"), procedure="LUGANO")
    assert [row[0][11:16] for row in rows] == ["00:10", "01:00"]


def test_intervals_and_forecasts(fresh: Sos) -> None:
    fill(fresh)

    def forecast(value: str, begin: str, end: str, result: str, number: int) -> str:
        at = f'<gml:TimeInstant gml:id="t{number}"><gml:timePosition>2014-07-01T00:00:00Z</gml:timePosition></gml:TimeInstant>'
        period = (
            f'<gml:TimePeriod gml:id="t{number}"><gml:beginPosition>{begin}</gml:beginPosition><gml:endPosition>{end}'
            "</gml:endPosition></gml:TimePeriod>"
        )
        made = (
            f'<om:resultTime><gml:TimeInstant gml:id="r{number}"><gml:timePosition>{result}</gml:timePosition>'
            "</gml:TimeInstant></om:resultTime>"
        )
        text = measurement(value, number=number).replace(at, period)
        return text.replace(f'<om:resultTime xlink:href="#t{number}"/>', made)

    day, noon = ("2014-07-01T00:00:00Z", "2014-07-02T00:00:00Z"), "2014-07-01T12:00:00Z"
    body = insert20(
        forecast("1", *day, "2014-06-30T00:00:00Z", 1),
        forecast("2", *day, "2014-06-30T12:00:00Z", 2),
        forecast("3", noon, day[1], "2014-06-30T12:00:00Z", 3),
    )
    assert fresh.post(body).status == 200

    def values(*filters: str) -> list[str]:
        inner = "".join(f"<sos:temporalFilter>{text}</sos:temporalFilter>" for text in filters)
        answer = fresh.post(
            f'<sos:GetObservation {NS20} service="SOS" version="2.0.0">{inner}</sos:GetObservation>', READER
        )
        return sorted(str(e.text) for e in answer.root.iter("{http://www.opengis.net/om/2.0}result"))

    def operator(name: str, reference: str, begin: str, end: str) -> str:
        return (
            f"<fes:{name}><fes:ValueReference>om:{reference}</fes:ValueReference><gml:TimePeriod gml:id='{name}'>"
            f"<gml:beginPosition>{begin}</gml:beginPosition><gml:endPosition>{end}</gml:endPosition></gml:TimePeriod></fes:{name}>"
        )

    assert values(operator("During", "phenomenonTime", *day)) == ["1", "2", "3"]
    # The whole phenomenon time lies in the period, not its end alone.
    assert values(operator("During", "phenomenonTime", noon, day[1])) == ["3"]
    assert values(operator("TEquals", "phenomenonTime", *day)) == ["1", "2"]
    late = operator("During", "resultTime", "2014-06-30T06:00:00Z", "2014-06-30T18:00:00Z")
    assert values(operator("TEquals", "phenomenonTime", *day), late) == ["2"]
    assert values(late) == ["2", "3"]


def test_new_feature_comes_with_an_observation(fresh: Sos) -> None:
    fill(fresh)
    described = (
        '<om:featureOfInterest><sams:SF_SpatialSamplingFeature gml:id="f"><gml:identifier codeSpace="">urn:roof</gml:identifier>'
        '<gml:name>roof</gml:name><sf:type xlink:href="http://www.opengis.net/def/samplingFeatureType/OGC-OM/2.0/SF_SamplingPoint"/>'
        '<sf:sampledFeature xlink:href="urn:earth"/><sams:shape><gml:Point gml:id="g" '
        'srsName="http://www.opengis.net/def/crs/EPSG/0/4326"><gml:pos>46.2 8.8</gml:pos></gml:Point></sams:shape>'
        "</sams:SF_SpatialSamplingFeature></om:featureOfInterest>"
    )
    text = measurement("3").replace('<om:featureOfInterest xlink:href="lugano"/>', described)
    assert fresh.post(insert20(text)).status == 200
    assert [row[2] for row in fresh.rows2(featureOfInterest="roof")] == ["3"]
    assert b"46.2 8.8" in fresh.sos2("GetFeatureOfInterest", featureOfInterest="urn:roof").body
    # Known now, so its name is enough.
    again = measurement("4", time="2014-07-02T00:00:00Z").replace('xlink:href="lugano"', 'xlink:href="urn:roof"')
    assert fresh.post(insert20(again)).status == 200
    assert [row[2] for row in fresh.rows2(featureOfInterest="roof")] == ["3", "4"]


def test_moving_sensor_gives_its_positions_back(fresh: Sos) -> None:
    answer = fresh.post(register_sensor("BOAT", ((TEMPERATURE, "Cel"),), kind="insitu-mobile-point"))
    sensor_id = str(answer.root.findtext(f"{{{SOS10}}}AssignedSensorId"))
    fields = "".join(quantity(f"urn:ogc:crs:EPSG:4326:{axis}-position") for axis in "xyz") + quantity(
        TEMPERATURE, "Cel"
    )
    body = insert_observation(
        sensor_id, "BOAT", "2014-07-01T00:00:00Z,9.5,45.5,200,12@2014-07-01T00:10:00Z,9.6,45.6,,13",
        begin="2014-07-01", end="2014-07-02", fields=fields,
    )  # fmt: skip
    assert fresh.post(body).status == 200
    found = fresh.observations(
        observedProperty=TEMPERATURE, responseFormat=OM10_FORMAT, eventTime="2014-06-30/2014-07-02"
    )
    text = str(found.root.findtext(".//swe:values", namespaces=GML))
    first, second = text.split("@")
    assert first == "2014-07-01T00:00:00Z,9.5,45.5,200,12"
    assert second.split(",")[1:3] == ["9.6", "45.6"]


def test_other_kinds_of_values_come_back(fresh: Sos) -> None:
    fields = "".join(
        f'<swe:field name="{kind}"><swe:{kind} definition="urn:x:{kind}"/></swe:field>'
        for kind in ("Count", "Text", "Boolean")
    )
    head, _, tail = register_sensor("GATE", ((RAIN, "mm"),)).partition("</swe:DataRecord></sml:output>")
    answer = fresh.post(f"{head}{fields}</swe:DataRecord></sml:output>{tail}")
    assert answer.status == 200, answer.body
    sensor_id = str(answer.root.findtext(f"{{{SOS10}}}AssignedSensorId"))
    body = insert_observation(
        sensor_id, "GATE", "2014-07-01T00:00:00Z,9007199254740993,open &amp; wet,true", begin="2014-07-01", end="2014-07-02",
        fields=fields,
    )  # fmt: skip
    assert fresh.post(body).status == 200
    rows = fresh.rows(observedProperty="urn:x:Count,urn:x:Text,urn:x:Boolean")
    assert rows == [["2014-07-01T00:00:00Z", "GATE", "9007199254740993", "open & wet", "true"]]
    text = "<ogc:PropertyIsEqualTo><ogc:PropertyName>urn:x:Text</ogc:PropertyName><ogc:Literal>open &amp; wet</ogc:Literal></ogc:PropertyIsEqualTo>"
    assert len(fresh.rows(observedProperty="urn:x:Text", result=text)) == 1
    assert len(fresh.rows(observedProperty="urn:x:Text", result=text.replace("open", "shut"))) == 0
    number = "<ogc:PropertyIsEqualTo><ogc:PropertyName>urn:x:Count</ogc:PropertyName><ogc:Literal>{}</ogc:Literal></ogc:PropertyIsEqualTo>"
    assert len(fresh.rows(observedProperty="urn:x:Count", result=number.format(2**53 + 1))) == 1
    assert len(fresh.rows(observedProperty="urn:x:Count", result=number.format(2**53))) == 0


def test_late_insert_does_not_move_the_end(fresh: Sos) -> None:
    """istSOS sets the procedure's end backwards, and hides newer data."""
    ids = fill(fresh)
    late = insert_observation(
        ids["LUGANO"], "LUGANO", "2014-05-01T00:00:00Z,5,50", begin="2014-05-01", end="2014-05-02"
    )
    assert fresh.post(late).status == 200
    assert fresh.rows(procedure="LUGANO") == [["2014-05-31T23:00:00Z", "LUGANO", "0.6", "16"]]
    assert fresh.rows(eventTime="first", procedure="LUGANO")[0][2:] == ["5", "50"]


def test_properties_that_arrive_one_by_one_become_a_row(fresh: Sos) -> None:
    ids = fill(fresh)
    for definition, unit, value in ((RAIN, "mm", "3"), (TEMPERATURE, "Cel", "30")):
        body = insert_observation(
            ids["LUGANO"], "LUGANO", f"2014-07-01T00:00:00Z,{value}", begin="2014-07-01", end="2014-07-01",
            fields=quantity(definition, unit),
        )  # fmt: skip
        assert fresh.post(body).status == 200
    assert fresh.rows(procedure="LUGANO", eventTime="2014-07-01") == [["2014-07-01T00:00:00Z", "LUGANO", "3", "30"]]


def test_assigned_ids_are_those_of_get_observation_by_id(fresh: Sos) -> None:
    ids = fill(fresh)
    answer = fresh.post(
        insert_observation(ids["LUGANO"], "LUGANO", "2014-07-01T00:00:00Z,3,30", begin="2014-07-01", end="2014-07-01")
    )
    first, second = str(answer.root.findtext(f"{{{SOS10}}}AssignedObservationId")).split("@")
    for identifier, value in ((first, "3"), (second, "30")):
        found = fresh.sos2("GetObservationById", observation=identifier).root
        assert found.findtext(".//om:result", namespaces=OM2) == value


def test_sensor_without_data_is_listed_and_described(fresh: Sos) -> None:
    """52North/SOS issue 716."""
    assert fresh.post(register_sensor("ALP")).status == 200
    for version in ("1.0.0", "2.0.0"):
        assert b"ALP" in fresh.get(service="SOS", request="GetCapabilities", AcceptVersions=version).body
    assert fresh.sos1("DescribeSensor", procedure="ALP", outputFormat='text/xml;subtype="sensorML/1.0.1"').status == 200
    assert fresh.rows() == []


def insert20(*observations: str, offering: str = "temporary") -> str:
    return (
        f'<sos:InsertObservation {NS20} service="SOS" version="2.0.0"><sos:offering>{offering}</sos:offering>'
        + "".join(f"<sos:observation>{text}</sos:observation>" for text in observations)
        + "</sos:InsertObservation>"
    )


def measurement(
    value: str, *, time: str = "2014-07-01T00:00:00Z", observed: str = RAIN, unit: str = "mm", number: int = 1
) -> str:
    return (
        f'<om:OM_Observation gml:id="o{number}"><om:type xlink:href="http://www.opengis.net/def/observationType/OGC-OM/2.0/OM_Measurement"/>'
        f'<om:phenomenonTime><gml:TimeInstant gml:id="t{number}"><gml:timePosition>{time}</gml:timePosition></gml:TimeInstant>'
        f'</om:phenomenonTime><om:resultTime xlink:href="#t{number}"/><om:procedure xlink:href="{PROCEDURE}LUGANO"/>'
        f'<om:observedProperty xlink:href="{observed}"/><om:featureOfInterest xlink:href="lugano"/>'
        f'<om:result xsi:type="gml:MeasureType" uom="{unit}">{value}</om:result></om:OM_Observation>'
    )


def test_insert_observation_20(fresh: Sos, schemas: Validator) -> None:
    fill(fresh)
    body = insert20(measurement("3"), measurement("30", observed=TEMPERATURE, unit="Cel", number=2))
    assert schemas.validate(body.encode()) == []
    answer = fresh.post(body)
    assert answer.root.tag == f"{{{SOS20}}}InsertObservationResponse"
    assert fresh.rows2(temporalFilter="om:phenomenonTime,2014-07-01") == [["2014-07-01T00:00:00Z", "LUGANO", "3", "30"]]


def test_insert_observation_20_is_all_or_nothing(fresh: Sos) -> None:
    fill(fresh)
    contained = measurement("9", time="2014-06-01T00:10:00+02:00", number=2)
    answer = fresh.post(insert20(measurement("3"), contained))
    assert answer.exception[0] == "InvalidParameterValue"
    assert "already" in answer.text
    assert fresh.rows2(temporalFilter="om:phenomenonTime,2014-07-01") == []


def test_array_with_many_rows_in_one_request(fresh: Sos) -> None:
    """52North/SOS issue 825: 2,700 rows took minutes."""
    ids = fill(fresh)
    rows = "@".join(
        f"2015-01-{1 + m // 1440:02d}T{m // 60 % 24:02d}:{m % 60:02d}:00Z,{m},{m / 2:g}" for m in range(2700)
    )
    answer = fresh.post(insert_observation(ids["LUGANO"], "LUGANO", rows, begin="2015-01-01", end="2015-01-03"))
    assert answer.status == 200
    assert len(str(answer.root.findtext(f"{{{SOS10}}}AssignedObservationId")).split("@")) == 1000
    assert len(fresh.rows(procedure="LUGANO", eventTime="2014-12-31/2015-02-01")) == 2700


def test_restart_keeps_everything(tmp_path: Path, schemas: Validator) -> None:
    first = Sos(tmp_path, schemas)
    fill(first)
    before = first.rows(eventTime=hours("00:00", "01:00"))
    first.close()
    second = Sos(tmp_path, schemas)
    try:
        assert second.rows(eventTime=hours("00:00", "01:00")) == before
        assert len(before) == 12
    finally:
        second.close()


def delete_sensor(name: str) -> str:
    return (
        f'<swes:DeleteSensor {NS20} service="SOS" version="2.0.0"><swes:procedure>{name}</swes:procedure>'
        "</swes:DeleteSensor>"
    )


def test_deleted_sensor_is_gone_everywhere(fresh: Sos) -> None:
    """52North/SOS issues 658 and 640."""
    fill(fresh)
    answer = fresh.post(delete_sensor("LUGANO"))
    assert answer.status == 200
    assert answer.root.findtext(f"{{{SWES}}}deletedProcedure") == PROCEDURE + "LUGANO"
    for version in ("1.0.0", "2.0.0"):
        assert b"LUGANO" not in fresh.get(service="SOS", request="GetCapabilities", AcceptVersions=version).body
    described = fresh.sos1("DescribeSensor", procedure="LUGANO", outputFormat='text/xml;subtype="sensorML/1.0.1"')
    assert described.exception == ("InvalidParameterValue", "procedure")
    assert [row[1] for row in fresh.rows()] == ["BELLINZONA"]


def test_bad_delete_sensor(fresh: Sos) -> None:
    fill(fresh)
    assert fresh.post(delete_sensor("")).exception == ("MissingParameterValue", "procedure")
    assert fresh.post(delete_sensor("x")).exception == ("InvalidParameterValue", "procedure")
    assert fresh.post(delete_sensor("LUGANO"), READER).status == 401
    assert fresh.get(ADMIN, service="SOS", version="2.0.0", request="DeleteSensor", procedure="LUGANO").exception == (
        "OperationNotSupported", "DeleteSensor",
    )  # fmt: skip


# ---------------------------------------------------------------- who may


@pytest.mark.parametrize("principal", [READER, NOBODY, Principal("vera", Role.VIEWER)])
def test_writing_needs_rights(fresh: Sos, principal: Principal) -> None:
    fill(fresh)
    expected = (403 if principal.name else 401, ("NoApplicableCode", None))
    for body in (
        register_sensor("ALP"),
        insert20(measurement("3")),
        insert_observation("x", "y", "", begin="", end=""),
    ):
        answer = fresh.post(body, principal)
        assert (answer.status, answer.exception) == expected
    assert fresh.rows2(temporalFilter="om:phenomenonTime,2014-07-01") == []


def test_data_manager_inserts_but_does_not_register(fresh: Sos) -> None:
    fill(fresh)
    manager = Principal("dan", Role.DATA_MANAGER)
    assert fresh.post(insert20(measurement("3")), manager).status == 200
    assert fresh.post(register_sensor("ALP"), manager).status == 403


def test_reading_may_be_closed(fresh: Sos) -> None:
    fill(fresh)
    for request in ("GetCapabilities", "GetObservation", "GetFeatureOfInterest"):
        answer = fresh.get(NOBODY, service="SOS", version="2.0.0", request=request)
        assert (answer.status, answer.exception) == (401, ("NoApplicableCode", None))


# ---------------------------------------------------------------- limits and policy


def test_wide_requests_give_the_same_answer(sos: Sos, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many procedures, observations are selected while the answer is pulled."""
    ways = [
        {"offering": "temporary", "responseFormat": "text/csv"},
        {"procedure": "LUGANO,BELLINZONA"},
        {"responseFormat": "application/json"},
    ]
    narrow = [sos.sos2("GetObservation", **way) for way in ways]
    monkeypatch.setattr("thalweg.doors.sos.observations.WIDE_PROCEDURES", 1)
    wide = [sos.sos2("GetObservation", **way) for way in ways]
    assert [answer.body for answer in wide] == [answer.body for answer in narrow]
    assert sos.sos2("GetObservation", procedure="LUGANO,x").exception == ("InvalidParameterValue", "procedure")


def test_unknown_workspace_is_not_found(sos: Sos) -> None:
    query = b"service=SOS&request=GetCapabilities"
    answer = sos.send(Request("GET", "", query, (), b"", "nowhere", "http://x/sos", READER, "r-1"))
    assert (answer.status, answer.exception) == (404, ("InvalidParameterValue", None))


def test_longest_period_is_a_setting(tmp_path: Path, schemas: Validator) -> None:
    sos = Sos(tmp_path, schemas, Settings(max_period_days=2, sos_http_status="200"))
    try:
        fill(sos)
        assert len(sos.rows(eventTime="2014-05-31/2014-06-02")) == 12
        answer = sos.observations(eventTime="2014-05-30T23:59:59Z/2014-06-02")
        assert (answer.status, answer.exception) == (200, ("InvalidParameterValue", "eventTime"))
        assert "2" in answer.text
        for parameters in ({}, {"temporalFilter": "om:phenomenonTime,2014-01-01/2014-06-02"}):
            answer = sos.sos2("GetObservation", **parameters)
            assert (answer.status, answer.exception) == (200, ("ResponseExceedsSizeLimit", None))
        assert len(sos.rows()) == 2
    finally:
        sos.close()


def test_answers_to_posted_reads_are_those_of_get(sos: Sos) -> None:
    body = f'<sos:GetCapabilities {NS20} service="SOS"/>'
    assert sos.post(body, READER).body == sos.get(service="SOS", request="GetCapabilities").body
    assert etree.fromstring(sos.post(body, ADMIN).body).tag == f"{{{SOS20}}}Capabilities"
