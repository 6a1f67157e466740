"""Requests as key-value pairs."""

# ruff: noqa: E501 (XML reads better unbroken)

from __future__ import annotations

from urllib.parse import quote, unquote_to_bytes, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.domain.errors import InvalidParameter, InvalidRequest, MissingParameter, NotSupported, ThalwegError
from thalweg.domain.geometry import Envelope
from thalweg.domain.time import Interval, parse_instant
from thalweg.doors.sos.errors import OperationNotSupported, VersionNegotiationFailed
from thalweg.doors.sos.filters import Comparison
from thalweg.doors.sos.kvp import parse, parse_query, parse_text
from thalweg.doors.sos.request import (
    DescribeSensor,
    GetCapabilities,
    GetFeatureOfInterest,
    GetObservation,
    GetObservationById,
    Operation,
)
from thalweg.doors.sos.times import LATEST, NO_FILTER, TimeFilter
from thalweg.doors.sos.versions import OM10_FORMAT, OM20_FORMAT, Writer

OM10 = 'text/xml;subtype="om/1.0.0"'
GO10 = {
    "service": "SOS", "version": "1.0.0", "request": "GetObservation", "offering": "temporary",
    "observedProperty": "rainfall", "responseFormat": OM10,
}  # fmt: skip
GO20 = {"service": "SOS", "version": "2.0.0", "request": "GetObservation"}


def read(parameters: dict[str, str]) -> Operation:
    return parse(parse_query(urlencode(parameters).encode()), 4326)


def observation(**parameters: str) -> GetObservation:
    found = read(GO10 | parameters)
    assert isinstance(found, GetObservation)
    return found


def observation2(**parameters: str) -> GetObservation:
    found = read(GO20 | parameters)
    assert isinstance(found, GetObservation)
    return found


def without(parameters: dict[str, str], *names: str) -> dict[str, str]:
    return {key: value for key, value in parameters.items() if key not in names}


# ---------------------------------------------------------------- decoding


def test_query_is_decoded_and_names_are_lower_case() -> None:
    assert parse_query(b"SeRvIcE=SOS&&x=&y&offering=a%2Cb+c%C3%A9&") == {
        "service": "SOS", "x": "", "y": "", "offering": "a,b cé",
    }  # fmt: skip


@given(st.text("ab%25+3AaFf2B/:é\0 ", max_size=30))
def test_decoding_equals_that_of_the_standard_library(text: str) -> None:
    for raw in (text.replace("&", "").replace("=", "").encode(), quote(text).encode(), quote(quote(text)).encode()):
        expected = unquote_to_bytes(raw.replace(b"+", b" ")).decode("utf-8", "replace")
        try:
            found = parse_query(b"eventTime=" + raw)["eventtime"]
        except InvalidRequest:
            assert "\ufffd" in expected
        else:
            assert found == expected


@pytest.mark.parametrize("query", [b"offering=%ff", b"%e9=1", b"offering=\xff", b"&".join([b"a=1"] * 200)])
def test_query_that_cannot_be_decoded_is_an_invalid_request(query: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_query(query)


def test_parameter_given_twice_has_to_say_the_same() -> None:
    assert parse_query(b"a=1&A=1") == {"a": "1"}
    with pytest.raises(InvalidParameter, match="twice") as raised:
        parse_query(b"procedure=1&Procedure=2")
    assert raised.value.parameter == "procedure"


# ---------------------------------------------------------------- what all operations share


@pytest.mark.parametrize(
    ("change", "error", "parameter"),
    [
        ({"service": None}, MissingParameter, "service"),
        ({"service": ""}, MissingParameter, "service"),
        ({"service": "WFS"}, InvalidParameter, "service"),
        ({"request": None}, MissingParameter, "request"),
        ({"request": ""}, MissingParameter, "request"),
        ({"request": "GetCoffee"}, InvalidParameter, "request"),
        ({"version": None}, MissingParameter, "version"),
        ({"version": ""}, MissingParameter, "version"),
        ({"version": "9.9.9"}, InvalidParameter, "version"),
        ({"version": "1.0.0\0"}, InvalidParameter, "version"),
        ({"request": "GetResult"}, OperationNotSupported, "GetResult"),
        ({"request": "InsertSensor"}, OperationNotSupported, "InsertSensor"),
        ({"request": "RegisterSensor"}, OperationNotSupported, "RegisterSensor"),
        ({"request": "InsertObservation"}, OperationNotSupported, "InsertObservation"),
        ({"aggregateInterval": "PT1H"}, NotSupported, "aggregateInterval"),
        ({"qualityFilter": ">100"}, NotSupported, "qualityFilter"),
    ],
)
def test_common_parameters_are_checked(
    change: dict[str, str | None], error: type[ThalwegError], parameter: str
) -> None:
    given = {key: value for key, value in (GO10 | change).items() if value is not None}
    with pytest.raises(error) as raised:
        read(given)
    assert raised.value.parameter == parameter


def test_operation_names_are_compared_without_case() -> None:
    assert isinstance(read(GO10 | {"request": "getobservation"}), GetObservation)


# ---------------------------------------------------------------- GetCapabilities


def capabilities(**parameters: str) -> GetCapabilities:
    found = read({"service": "SOS", "request": "GetCapabilities"} | parameters)
    assert isinstance(found, GetCapabilities)
    return found


@pytest.mark.parametrize(
    ("accepted", "version"),
    [
        ({}, "2.0.0"),
        ({"AcceptVersions": "1.0.0"}, "1.0.0"),
        ({"acceptversions": "2.0.0"}, "2.0.0"),
        ({"AcceptVersions": "1.0.0,2.0.0"}, "1.0.0"),
        ({"AcceptVersions": "2.0.0,1.0.0"}, "2.0.0"),
        ({"AcceptVersions": "3.0.0, 1.0.0,2.0.0"}, "1.0.0"),
        ({"AcceptVersions": ""}, "2.0.0"),
        ({"version": "1.0.0"}, "1.0.0"),
        ({"version": "1.0.0", "AcceptVersions": "2.0.0"}, "2.0.0"),
    ],
)
def test_version_is_negotiated_in_the_clients_order(accepted: dict[str, str], version: str) -> None:
    assert capabilities(**accepted).version == version


@pytest.mark.parametrize("accepted", [{"AcceptVersions": "2000.01.01"}, {"version": "0.1"}])
def test_versions_that_are_not_served_fail_negotiation(accepted: dict[str, str]) -> None:
    with pytest.raises(VersionNegotiationFailed, match=r"2\.0\.0"):
        capabilities(**accepted)


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        (None, None),
        ("All", None),
        ("Contents,all", None),
        ("", frozenset()),
        ("ServiceIdentification,OperationsMetadata", {"ServiceIdentification", "OperationsMetadata"}),
        ("contents,FILTER_CAPABILITIES", {"Contents", "FilterCapabilities"}),
        ("filterCapabilities", {"FilterCapabilities"}),
    ],
)
def test_sections(sections: str | None, expected: set[str] | None) -> None:
    for name in ("sections", "section", "Sections"):
        assert capabilities(**({} if sections is None else {name: sections})).sections == expected


def test_wrong_section_is_named_section() -> None:
    with pytest.raises(InvalidParameter) as raised:
        capabilities(sections="WrongSections")
    assert raised.value.parameter == "section"


def test_accept_formats() -> None:
    assert capabilities(AcceptFormats="text/html,text/xml").content_type == "text/xml"
    assert capabilities(AcceptFormats="application/xml").content_type == "application/xml"
    with pytest.raises(InvalidParameter) as raised:
        capabilities(AcceptFormats="image/png")
    assert raised.value.parameter == "AcceptFormats"


# ---------------------------------------------------------------- DescribeSensor


@pytest.mark.parametrize(
    "spelling",
    [
        'text/xml;subtype="sensorML/1.0.1"',
        'text/xml; subtype="sensorML/1.0.1"',
        "text/xml;subtype='sensorML/1.0.1'",
        "text/xml;subtype=sensorML/1.0.1",
        'TEXT/XML ; subtype = "SensorML/1.0.1"',
        "text/xml;subtype=%22sensorML/1.0.1%22",
        "text%2Fxml%3Bsubtype%3D%2522sensorML%2F1.0.1%2522",
    ],
)
def test_description_format_is_read_in_every_spelling(spelling: str) -> None:
    found = read(
        {
            "service": "SOS", "version": "1.0.0", "request": "DescribeSensor", "procedure": "urn:p:1",
            "outputFormat": spelling,
        }
    )  # fmt: skip
    assert found == DescribeSensor("1.0.0", "urn:p:1", 'text/xml;subtype="sensorML/1.0.1"')


@pytest.mark.parametrize(
    ("version", "parameters", "error", "parameter"),
    [
        ("1.0.0", {"procedure": "p"}, MissingParameter, "outputFormat"),
        ("1.0.0", {"procedure": "p", "outputFormat": "text/html"}, InvalidParameter, "outputFormat"),
        ("1.0.0", {"outputFormat": 'text/xml;subtype="sensorML/1.0.1"'}, MissingParameter, "procedure"),
        ("2.0.0", {"procedure": "p"}, MissingParameter, "procedureDescriptionFormat"),
        ("2.0.0", {"procedure": "p", "procedureDescriptionFormat": ""}, MissingParameter, "procedureDescriptionFormat"),
        (
            "2.0.0",
            {"procedure": "p", "procedureDescriptionFormat": "x"},
            InvalidParameter,
            "procedureDescriptionFormat",
        ),
        (
            "2.0.0",
            {"procedure": "", "procedureDescriptionFormat": "http://www.opengis.net/sensorML/1.0.1"},
            MissingParameter,
            "procedure",
        ),
    ],
)
def test_describe_sensor_is_checked(
    version: str, parameters: dict[str, str], error: type[ThalwegError], parameter: str
) -> None:
    with pytest.raises(error) as raised:
        read({"service": "SOS", "version": version, "request": "DescribeSensor"} | parameters)
    assert raised.value.parameter == parameter


# ---------------------------------------------------------------- GetObservation 1.0


def test_get_observation_10_with_everything() -> None:
    found = observation(
        procedure="A, B", featureOfInterest="f", eventTime="2014-06-01/2014-06-02", srsName="EPSG:4326",
        resultModel="om:Observation", responseMode="inline", qualityIndex="True", observedProperty="rain,temp",
    )  # fmt: skip
    begin = parse_instant("2014-06-01", "t")[0]
    assert found == GetObservation(
        "1.0.0", OM10_FORMAT, ("temporary",), ("A", "B"), ("rain", "temp"), ("f",), (),
        TimeFilter(phenomenon=(Interval(begin + 1, begin + 86_400_000_001),)), None, found.crs, True,
    )  # fmt: skip
    assert found.crs is not None
    assert (found.crs.srid, found.crs.northing_first) == (4326, False)


def test_get_observation_10_without_time_asks_for_the_latest() -> None:
    assert observation().time == LATEST


@pytest.mark.parametrize(
    "spelling",
    [OM10, "text/xml; subtype='om/1.0.0'", "text/xml;subtype=%22om/1.0.0%22", quote(quote(OM10)), "text/xml ;subtype=OM/1.0.0"],
)  # fmt: skip
def test_response_format_is_read_in_every_spelling(spelling: str) -> None:
    assert observation(responseFormat=spelling).response_format is OM10_FORMAT


@pytest.mark.parametrize(
    ("name", "writer"),
    [
        ("text/xml", Writer.OM),
        ("application/json", Writer.JSON),
        ("text/x-json", Writer.JSON),
        ("text/plain", Writer.CSV),
        ("text/csv", Writer.CSV),
    ],
)
def test_other_response_formats(name: str, writer: Writer) -> None:
    found = observation(responseFormat=name).response_format
    assert (found.name, found.writer) == (name, writer)


@pytest.mark.parametrize("name", ["offering", "observedProperty", "responseFormat"])
def test_mandatory_parameters_of_10(name: str) -> None:
    with pytest.raises(MissingParameter) as absent:
        read(without(GO10, name))
    with pytest.raises(MissingParameter) as empty:
        read(GO10 | {name: ""})
    assert absent.value.parameter == empty.value.parameter == name


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("offering", "a,b"),
        ("responseFormat", "text/html"),
        ("responseFormat", "text/xml;subtype=om/1.0.0" + " " * 300),
        ("eventTime", "scooby"),
        ("srsName", "+proj=longlat +nadgrids=/etc/passwd"),
        ("srsName", "EPSG:123456"),
        ("srsName", "bogus"),
        ("resultModel", "om:Bogus"),
        ("responseMode", "out-of-band"),
        ("qualityIndex", "perhaps"),
        ("result", "20"),
        ("result", "<ogc:PropertyIsEqualTo>"),
        ("result", "<ogc:PropertyIsEqualTo><ogc:PropertyName/><ogc:Literal/></ogc:PropertyIsEqualTo>"),
        ("featureOfInterest", "<ogc:BBOX>"),
        ("featureOfInterest", "<!DOCTYPE a><ogc:BBOX/>"),
        ("featureOfInterest", "<ogc:BBOX><gml:Envelope/></ogc:BBOX>"),
    ],
)
def test_wrong_values_name_their_parameter(parameter: str, value: str) -> None:
    with pytest.raises(InvalidParameter) as raised:
        observation(**{parameter: value})
    assert raised.value.parameter == parameter


def test_only_one_offering_is_said_so() -> None:
    with pytest.raises(InvalidParameter, match="only one offering"):
        observation(offering="a,b")


@pytest.mark.parametrize(
    "parameter", ["procedure", "featureOfInterest", "eventTime", "srsName", "resultModel", "result"]
)
def test_empty_optional_parameters_are_missing_values(parameter: str) -> None:
    with pytest.raises(MissingParameter) as raised:
        observation(**{parameter: ""})
    assert raised.value.parameter == parameter


def test_empty_item_of_a_list_is_refused() -> None:
    with pytest.raises(MissingParameter) as raised:
        observation(procedure="a,,b")
    assert raised.value.parameter == "procedure"


def test_feature_filter_as_xml_without_declared_prefixes() -> None:
    text = (
        "<ogc:BBOX><ogc:PropertyName>gml:location</ogc:PropertyName><gml:Envelope srsName='EPSG:4326'>"
        "<gml:lowerCorner>8 45</gml:lowerCorner><gml:upperCorner>9 46</gml:upperCorner></gml:Envelope></ogc:BBOX>"
    )
    found = observation(featureOfInterest=text)
    assert found.features == ()
    assert [f.geometry for f in found.spatial] == [Envelope(8.0, 45.0, 9.0, 46.0)]


def test_result_filter_as_xml() -> None:
    text = (
        "<ogc:PropertyIsLessThan><ogc:PropertyName>rainfall</ogc:PropertyName><ogc:Literal>3</ogc:Literal>"
        "</ogc:PropertyIsLessThan>"
    )
    assert observation(result=text).result == Comparison("<", "rainfall", "3")


def test_plus_sign_that_became_a_blank_is_put_back() -> None:
    query = urlencode(GO10).encode() + b"&eventTime=2014-06-01T00:00:00+02:00/2014-06-01T01:00:00+02:00"
    found = parse(parse_query(query), 4326)
    assert isinstance(found, GetObservation)
    assert found.time.offset_s == 7200


# ---------------------------------------------------------------- GetObservation 2.0


def test_get_observation_20_needs_nothing() -> None:
    assert observation2() == GetObservation("2.0.0", OM20_FORMAT)
    assert observation2().time == NO_FILTER


def test_get_observation_20_with_everything() -> None:
    found = observation2(
        offering="temporary,o2", procedure="B", observedProperty="t", featureOfInterest="f,g", crs="EPSG:4326",
        spatialFilter="om:featureOfInterest/*/sams:shape,45,8,46,9,urn:ogc:def:crs:EPSG::4326",
        temporalFilter="om:phenomenonTime,2014-06-01/2014-06-02", responseFormat="text/plain",
        qualityIndex="false", MergeObservationsIntoDataArray="true",
    )  # fmt: skip
    assert (found.offerings, found.procedures, found.features) == (("temporary", "o2"), ("B",), ("f", "g"))
    assert [f.geometry for f in found.spatial] == [Envelope(8.0, 45.0, 9.0, 46.0)]
    assert found.response_format.writer is Writer.CSV
    assert found.merged
    assert not found.with_quality


@pytest.mark.parametrize(
    "parameter",
    ["offering", "observedProperty", "procedure", "featureOfInterest", "responseFormat", "temporalFilter", "spatialFilter"],
)  # fmt: skip
def test_empty_parameters_of_20_are_missing_values(parameter: str) -> None:
    with pytest.raises(MissingParameter) as raised:
        observation2(**{parameter: ""})
    assert raised.value.parameter == parameter


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("responseFormat", "text/html"), ("temporalFilter", "om:phenomenonTime,scooby"), ("crs", "bogus")],
)
def test_wrong_values_of_20_name_their_parameter(parameter: str, value: str) -> None:
    with pytest.raises(InvalidParameter) as raised:
        observation2(**{parameter: value})
    assert raised.value.parameter == parameter


# ---------------------------------------------------------------- other operations


def test_get_feature_of_interest() -> None:
    old = {"service": "SOS", "version": "1.0.0", "request": "GetFeatureOfInterest"}
    new = {"service": "SOS", "version": "2.0.0", "request": "GetFeatureOfInterest"}
    assert read(old | {"featureOfInterestId": "f"}) == GetFeatureOfInterest("1.0.0", features=("f",))
    assert read(old | {"featureOfInterest": "f,g"}) == GetFeatureOfInterest("1.0.0", features=("f", "g"))
    assert read(new | {"procedure": "p"}) == GetFeatureOfInterest("2.0.0", procedures=("p",))
    with pytest.raises(MissingParameter) as raised:
        read(old)
    assert raised.value.parameter == "featureOfInterestId"
    for parameter in ("procedure", "observedProperty", "featureOfInterest"):
        with pytest.raises(MissingParameter) as raised:
            read(new | {parameter: ""})
        assert raised.value.parameter == parameter


def test_get_observation_by_id() -> None:
    old = {"service": "SOS", "version": "1.0.0", "request": "GetObservationById"}
    new = {"service": "SOS", "version": "2.0.0", "request": "GetObservationById"}
    assert read(old | {"ObservationId": "1.2.3"}) == GetObservationById("1.0.0", OM10_FORMAT, ("1.2.3",))
    assert read(new | {"observation": "1.2.3,4.5.6"}) == GetObservationById("2.0.0", OM20_FORMAT, ("1.2.3", "4.5.6"))
    with pytest.raises(MissingParameter) as raised:
        read(new | {"observation": ""})
    assert raised.value.parameter == "observation"


# ---------------------------------------------------------------- anything

NAMES = st.sampled_from(
    ["service", "version", "request", "offering", "procedure", "observedProperty", "featureOfInterest", "eventTime",
     "temporalFilter", "spatialFilter", "responseFormat", "result", "srsName", "crs", "sections", "AcceptVersions",
     "AcceptFormats", "updateSequence", "qualityIndex", "observation", "outputFormat", "procedureDescriptionFormat",
     "location", "namespaces", "\0", ""]
)  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(["SOS", "1.0.0", "2.0.0", "latest", "text/csv", OM10, "<ogc:BBOX/>", "<", ",", "%", "EPSG:4326"]),
    st.text(max_size=30),
)


@given(
    st.sampled_from(["GetCapabilities", "DescribeSensor", "GetObservation", "GetFeatureOfInterest", "GetObservationById"]),
    st.sampled_from(["1.0.0", "2.0.0"]),
    st.dictionaries(NAMES, VALUES, max_size=8),
)  # fmt: skip
def test_any_parameters_give_an_operation_or_a_domain_error(
    operation: str, version: str, parameters: dict[str, str]
) -> None:
    given = {"service": "SOS", "version": version, "request": operation} | parameters
    message = ""
    try:
        parse({key.lower(): value for key, value in given.items()}, 4326)
    except ThalwegError as error:
        message = error.message
    assert len(message) < 2000


@given(st.binary(max_size=120))
def test_any_query_is_decoded_or_a_domain_error(query: bytes) -> None:
    try:
        parse(parse_query(query), 4326)
    except ThalwegError:
        pass


# ---------------------------------------------------------------- whole query strings

_OBSERVATIONS = (
    b"service=SOS&version=1.0.0&request=GetObservation&offering=o&observedProperty=p&responseFormat=text/xml"
)
_OBSERVATIONS_20 = b"service=SOS&version=2.0.0&request=GetObservation&offering=o"


@pytest.mark.parametrize(
    "query",
    [
        _OBSERVATIONS + b"&eventTime=2014-06-01T00:00:00%2B02:00/2014-06-02",
        b"eventTime=latest&" + _OBSERVATIONS,
        _OBSERVATIONS + b"&eventTime=2014-06-01&procedure=x",
        _OBSERVATIONS + b"&EVENTTIME=2014-06-01",
        _OBSERVATIONS,
        _OBSERVATIONS_20 + b"&temporalFilter=om:phenomenonTime,2014-06-01/2014-06-02",
        _OBSERVATIONS_20 + b"&eventTime=2014-06-01",
        _OBSERVATIONS + b"&temporalFilter=om:phenomenonTime,2014-06-01",
        b"service=SOS&version=2.0.0&request=GetFeatureOfInterest&eventTime=2014-06-01",
    ],
)
def test_a_query_string_is_read_as_its_parameters_are(query: bytes) -> None:
    expected = parse(parse_query(query), 4326)
    for _ in range(2):  # the second time from memory
        assert parse_text(query, 4326) == expected


@pytest.mark.parametrize(
    "query",
    [
        _OBSERVATIONS + b"&eventTime=2014-06-01&eventTime=2015-06-01",
        _OBSERVATIONS + b"&eventTime=2014-06-01&eventtime=2015-06-01",
        _OBSERVATIONS + b"&eventTime=scooby",
        _OBSERVATIONS + b"&eventTime=",
        _OBSERVATIONS + b"&eventTime=%FF",
        b"service=SOS&version=1.0.0&request=GetObservation&observedProperty=p&eventTime=2014-06-01",
        _OBSERVATIONS_20 + b"&temporalFilter=2014-06-01",
        b"&eventTime=2014-06-01",
    ],
)
def test_a_wrong_query_string_is_refused_as_its_parameters_are(query: bytes) -> None:
    with pytest.raises(ThalwegError) as expected:
        parse(parse_query(query), 4326)
    for _ in range(2):
        with pytest.raises(type(expected.value)) as caught:
            parse_text(query, 4326)
        assert (caught.value.parameter, caught.value.message) == (expected.value.parameter, expected.value.message)


def test_times_are_not_remembered() -> None:
    first = parse_text(_OBSERVATIONS + b"&eventTime=2014-06-01", 4326)
    second = parse_text(_OBSERVATIONS + b"&eventTime=2014-06-02", 4326)
    assert isinstance(first, GetObservation)
    assert isinstance(second, GetObservation)
    assert first.time != second.time
    assert first.offerings == second.offerings
