"""Requests as XML documents."""

# ruff: noqa: E501 (XML reads better unbroken)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.domain.errors import InvalidParameter, InvalidRequest, MissingParameter, NotSupported, ThalwegError
from thalweg.domain.geometry import Envelope
from thalweg.domain.time import Interval, parse_instant
from thalweg.doors.sos.errors import OperationNotSupported, VersionNegotiationFailed
from thalweg.doors.sos.filters import Comparison
from thalweg.doors.sos.pox import parse
from thalweg.doors.sos.request import (
    DescribeSensor,
    GetCapabilities,
    GetFeatureOfInterest,
    GetObservation,
    InsertObservation10,
    InsertObservation20,
    InsertSensor,
    Operation,
    RegisterSensor,
)
from thalweg.doors.sos.times import LATEST, TimeFilter
from thalweg.doors.sos.versions import OM20_FORMAT
from thalweg.encode.xml_input import parse_document

OLD = (
    'xmlns="http://www.opengis.net/sos/1.0" xmlns:ogc="http://www.opengis.net/ogc" '
    'xmlns:gml="http://www.opengis.net/gml" xmlns:ows="http://www.opengis.net/ows/1.1" '
    'xmlns:om="http://www.opengis.net/om/1.0"'
)
NEW = (
    'xmlns:sos="http://www.opengis.net/sos/2.0" xmlns:swes="http://www.opengis.net/swes/2.0" '
    'xmlns:fes="http://www.opengis.net/fes/2.0" xmlns:gml="http://www.opengis.net/gml/3.2" '
    'xmlns:ows="http://www.opengis.net/ows/1.1" xmlns:swe="http://www.opengis.net/swe/2.0"'
)
V1 = 'service="SOS" version="1.0.0"'
V2 = 'service="SOS" version="2.0.0"'
BEGIN = parse_instant("2014-06-01", "t")[0]
DAY = 86_400_000_000
PERIOD = (
    "<gml:TimePeriod><gml:beginPosition>2014-06-01T00:00:00Z</gml:beginPosition>"
    "<gml:endPosition>2014-06-02T00:00:00Z</gml:endPosition></gml:TimePeriod>"
)


def read(text: str) -> Operation:
    return parse(parse_document(text.encode()), 4326)


def observation(inner: str, attributes: str = "") -> GetObservation:
    found = read(f"<GetObservation {OLD} {V1} {attributes}>{inner}</GetObservation>")
    assert isinstance(found, GetObservation)
    return found


def observation2(inner: str) -> GetObservation:
    found = read(f"<sos:GetObservation {NEW} {V2}>{inner}</sos:GetObservation>")
    assert isinstance(found, GetObservation)
    return found


MANDATORY = (
    "<offering>temporary</offering><observedProperty>rain</observedProperty><responseFormat>text/csv</responseFormat>"
)


# ---------------------------------------------------------------- root


@pytest.mark.parametrize(
    ("operation", "prefix", "uri"),
    [
        ("GetObservation", "sos", "http://www.opengis.net/sos/2.0"),
        ("GetFeatureOfInterest", "sos", "http://www.opengis.net/sos/2.0"),
        ("GetObservationById", "sos", "http://www.opengis.net/sos/2.0"),
        ("InsertObservation", "sos", "http://www.opengis.net/sos/2.0"),
        ("DescribeSensor", "swes", "http://www.opengis.net/swes/2.0"),
        ("InsertSensor", "swes", "http://www.opengis.net/swes/2.0"),
        ("DeleteSensor", "swes", "http://www.opengis.net/swes/2.0"),
    ],
)
def test_service_and_version_of_every_operation(operation: str, prefix: str, uri: str) -> None:
    """The six common assertions of CITE's SOS 2.0 suite."""

    def refusal(attributes: str) -> ThalwegError:
        with pytest.raises(ThalwegError) as raised:
            read(f"<{prefix}:{operation} {NEW} {attributes}/>")
        return raised.value

    for attribute in ("service", "version"):
        other = V2.split()[1 if attribute == "service" else 0]
        absent, empty, wrong = (refusal(f"{other} {part}") for part in ("", f'{attribute}=""', f'{attribute}="x"'))
        assert isinstance(absent, InvalidRequest)
        assert absent.parameter == f"Expected attribute: {attribute} in element {operation}@{uri}"
        assert isinstance(empty, MissingParameter)
        assert isinstance(wrong, InvalidParameter)
        assert empty.parameter == wrong.parameter == attribute


def test_version_has_to_be_that_of_the_namespace() -> None:
    with pytest.raises(InvalidParameter) as raised:
        read(f"<sos:GetObservation {NEW} {V1}/>")
    assert raised.value.parameter == "version"


def test_unknown_roots() -> None:
    with pytest.raises(InvalidRequest):
        read("<GetObservation/>")
    with pytest.raises(InvalidRequest):
        read("<a:GetFeature xmlns:a='http://www.opengis.net/wfs'/>")
    with pytest.raises(InvalidParameter) as raised:
        read(f"<sos:GetCoffee {NEW} {V2}/>")
    assert raised.value.parameter == "request"
    with pytest.raises(OperationNotSupported):
        read(f"<sos:GetResult {NEW} {V2}/>")
    with pytest.raises(OperationNotSupported, match=r"1\.0\.0"):
        read(f"<sos:RegisterSensor {NEW} {V2}/>")


@pytest.mark.parametrize(
    "uri", ["http://www.w3.org/2003/05/soap-envelope", "http://schemas.xmlsoap.org/soap/envelope/"]
)
def test_soap_envelope_gets_a_clear_answer(uri: str) -> None:
    with pytest.raises(NotSupported, match="SOAP"):
        read(f"<s:Envelope xmlns:s='{uri}'><s:Body/></s:Envelope>")


# ---------------------------------------------------------------- GetCapabilities


def test_get_capabilities() -> None:
    assert read(f"<sos:GetCapabilities {NEW}/>") == GetCapabilities("2.0.0")
    assert read(f"<GetCapabilities {OLD} service='SOS'/>") == GetCapabilities("1.0.0", content_type="text/xml")
    found = read(
        f"<sos:GetCapabilities {NEW} service='SOS' updateSequence='12'><ows:AcceptVersions><ows:Version>1.0.0</ows:Version>"
        "<ows:Version>2.0.0</ows:Version></ows:AcceptVersions><ows:Sections><ows:Section>Contents</ows:Section>"
        "</ows:Sections><ows:AcceptFormats><ows:OutputFormat>application/xml</ows:OutputFormat></ows:AcceptFormats>"
        "</sos:GetCapabilities>"
    )
    assert found == GetCapabilities("1.0.0", frozenset(("Contents",)), "12", "application/xml")
    empty = read(f"<sos:GetCapabilities {NEW}><ows:Sections><ows:Section/></ows:Sections></sos:GetCapabilities>")
    assert empty == GetCapabilities("2.0.0", frozenset())


def test_bad_get_capabilities() -> None:
    with pytest.raises(InvalidRequest):
        read(f"<GetCapabilities {OLD}/>")
    with pytest.raises(InvalidParameter) as raised:
        read(f"<sos:GetCapabilities {NEW} service='WFS'/>")
    assert raised.value.parameter == "service"
    with pytest.raises(VersionNegotiationFailed):
        read(
            f"<sos:GetCapabilities {NEW}><ows:AcceptVersions><ows:Version>9.9.9</ows:Version></ows:AcceptVersions></sos:GetCapabilities>"
        )
    with pytest.raises(InvalidRequest):
        read(f"<sos:GetCapabilities {NEW}><sos:bogus/></sos:GetCapabilities>")


# ---------------------------------------------------------------- reading


def test_describe_sensor() -> None:
    assert read(
        f"<DescribeSensor {OLD} {V1} outputFormat='text/xml; subtype=\"sensorML/1.0.1\"'><procedure> p </procedure></DescribeSensor>"
    ) == DescribeSensor("1.0.0", "p", 'text/xml;subtype="sensorML/1.0.1"')
    new = (
        f"<swes:DescribeSensor {NEW} {V2}><swes:procedure>{{}}</swes:procedure><swes:procedureDescriptionFormat>{{}}"
        "</swes:procedureDescriptionFormat></swes:DescribeSensor>"
    )
    uri = "http://www.opengis.net/sensorml/2.0"
    assert read(new.format("p", uri)) == DescribeSensor("2.0.0", "p", uri)
    for procedure, form, error, parameter in (
        ("", uri, MissingParameter, "procedure"),
        ("p", "", MissingParameter, "procedureDescriptionFormat"),
        ("p", "x", InvalidParameter, "procedureDescriptionFormat"),
    ):
        with pytest.raises(error) as raised:
            read(new.format(procedure, form))
        assert raised.value.parameter == parameter


def test_get_observation_10() -> None:
    found = observation(
        "<offering>temporary</offering><eventTime><ogc:TM_During><ogc:PropertyName>t</ogc:PropertyName>" + PERIOD
        + "</ogc:TM_During></eventTime><eventTime><ogc:TM_Equals><gml:TimeInstant><gml:timePosition>2014-07-01"
        "</gml:timePosition></gml:TimeInstant></ogc:TM_Equals></eventTime><procedure>A</procedure><procedure>B</procedure>"
        "<observedProperty>rain</observedProperty><observedProperty>temp</observedProperty>"
        "<featureOfInterest><ObjectID>f</ObjectID><ObjectID>g</ObjectID></featureOfInterest>"
        "<result><ogc:PropertyIsGreaterThan><ogc:PropertyName>rain</ogc:PropertyName><ogc:Literal>5</ogc:Literal>"
        "</ogc:PropertyIsGreaterThan></result><responseFormat>text/csv</responseFormat><qualityIndex>true</qualityIndex>"
        "<resultModel>om:Observation</resultModel><responseMode>inline</responseMode>",
        'srsName="urn:ogc:def:crs:EPSG::4326"',
    )  # fmt: skip
    july = parse_instant("2014-07-01", "t")[0]
    assert found.time == TimeFilter(phenomenon=(Interval(BEGIN + 1, BEGIN + DAY + 1), Interval(july, july + 1)))
    assert (found.procedures, found.observed_properties, found.features) == (("A", "B"), ("rain", "temp"), ("f", "g"))
    assert found.result == Comparison(">", "rain", "5")
    assert found.with_quality
    assert found.crs is not None
    assert found.crs.northing_first


def test_get_observation_10_by_place_and_without_time() -> None:
    found = observation(
        MANDATORY
        + "<featureOfInterest><ogc:BBOX><ogc:PropertyName>x</ogc:PropertyName><gml:Envelope srsName='EPSG:4326'>"
        "<gml:lowerCorner>8 45</gml:lowerCorner><gml:upperCorner>9 46</gml:upperCorner></gml:Envelope></ogc:BBOX>"
        "</featureOfInterest>"
    )
    assert [f.geometry for f in found.spatial] == [Envelope(8.0, 45.0, 9.0, 46.0)]
    assert found.time == LATEST


@pytest.mark.parametrize(
    ("inner", "error", "parameter"),
    [
        ("", MissingParameter, "offering"),
        (MANDATORY.replace("temporary", " "), MissingParameter, "offering"),
        (MANDATORY + "<offering>b</offering>", InvalidParameter, "offering"),
        (MANDATORY.replace("rain", ""), MissingParameter, "observedProperty"),
        (MANDATORY.replace("text/csv", ""), MissingParameter, "responseFormat"),
        (MANDATORY.replace("text/csv", "text/html"), InvalidParameter, "responseFormat"),
        (MANDATORY + "<bogus/>", InvalidRequest, "bogus"),
        (MANDATORY + "<aggregateInterval>PT1H</aggregateInterval>", NotSupported, "aggregateInterval"),
        (MANDATORY + "<result/>", InvalidParameter, "result"),
        (MANDATORY + "<resultModel>om:Bogus</resultModel>", InvalidParameter, "resultModel"),
        (MANDATORY + "<responseMode>attached</responseMode>", InvalidParameter, "responseMode"),
        (MANDATORY + "<eventTime/>", MissingParameter, "eventTime"),
        (MANDATORY + "<eventTime><ogc:TM_Equals/></eventTime>", MissingParameter, "eventTime"),
        (
            MANDATORY + "<eventTime><ogc:TM_Equals><gml:TimeInstant><gml:timePosition>scooby</gml:timePosition>"
            "</gml:TimeInstant></ogc:TM_Equals></eventTime>",
            InvalidParameter,
            "eventTime",
        ),
        (MANDATORY + "<featureOfInterest/>", MissingParameter, "featureOfInterest"),
        (MANDATORY + "<featureOfInterest><ogc:Nope/></featureOfInterest>", NotSupported, "featureOfInterest"),
    ],
)
def test_bad_get_observation_10(inner: str, error: type[ThalwegError], parameter: str) -> None:
    with pytest.raises(error) as raised:
        observation(inner)
    assert raised.value.parameter == parameter


def test_get_observation_20() -> None:
    found = observation2(
        '<swes:extension><swe:Boolean definition="MergeObservationsIntoDataArray"><swe:value>true</swe:value></swe:Boolean>'
        "</swes:extension><sos:procedure>A</sos:procedure><sos:offering>o</sos:offering><sos:offering>p</sos:offering>"
        "<sos:observedProperty>t</sos:observedProperty><sos:temporalFilter><fes:During><fes:ValueReference>"
        f"om:phenomenonTime</fes:ValueReference>{PERIOD}</fes:During></sos:temporalFilter><sos:temporalFilter><fes:During>"
        f"<fes:ValueReference>om:resultTime</fes:ValueReference>{PERIOD}</fes:During></sos:temporalFilter>"
        "<sos:featureOfInterest>f</sos:featureOfInterest><sos:spatialFilter><fes:BBOX><fes:ValueReference>"
        "om:featureOfInterest/*/sams:shape</fes:ValueReference><gml:Envelope srsName='urn:ogc:def:crs:EPSG::4326'>"
        "<gml:lowerCorner>45 8</gml:lowerCorner><gml:upperCorner>46 9</gml:upperCorner></gml:Envelope></fes:BBOX>"
        "</sos:spatialFilter><sos:responseFormat>http://www.opengis.net/om/2.0</sos:responseFormat>"
    )
    closed = Interval(BEGIN, BEGIN + DAY + 1)
    assert found.time == TimeFilter(phenomenon=(closed,), result=(closed,))
    assert [f.geometry for f in found.spatial] == [Envelope(8.0, 45.0, 9.0, 46.0)]
    assert found.merged
    assert found.offerings == ("o", "p")


def test_get_observation_20_needs_nothing() -> None:
    assert observation2("") == GetObservation("2.0.0", OM20_FORMAT)


@pytest.mark.parametrize("name", ["procedure", "offering", "observedProperty", "featureOfInterest", "responseFormat"])
def test_empty_elements_of_20_are_missing_values(name: str) -> None:
    with pytest.raises(MissingParameter) as raised:
        observation2(f"<sos:{name}/>")
    assert raised.value.parameter == name


def test_get_feature_of_interest() -> None:
    assert read(
        f"<GetFeatureOfInterest {OLD} {V1}><FeatureOfInterestId>f</FeatureOfInterestId></GetFeatureOfInterest>"
    ) == (GetFeatureOfInterest("1.0.0", features=("f",)))
    for reference, error in (("", MissingParameter), ("2024-01-01T00:00:00Z", InvalidParameter)):
        with pytest.raises(error) as raised:
            read(
                f"<sos:GetFeatureOfInterest {NEW} {V2}><sos:spatialFilter><fes:BBOX><fes:ValueReference>{reference}"
                "</fes:ValueReference><gml:Envelope srsName='urn:ogc:def:crs:EPSG::4326'><gml:lowerCorner>0 0"
                "</gml:lowerCorner><gml:upperCorner>10 10</gml:upperCorner></gml:Envelope></fes:BBOX></sos:spatialFilter>"
                "</sos:GetFeatureOfInterest>"
            )
        assert raised.value.parameter == "ValueReference"


# ---------------------------------------------------------------- writing


def test_inserts_are_taken_apart() -> None:
    found = read(
        f"<InsertObservation {OLD} {V1}><AssignedSensorId>a</AssignedSensorId><ForceInsert>true</ForceInsert>"
        "<om:Observation/></InsertObservation>"
    )
    assert isinstance(found, InsertObservation10)
    assert (found.assigned_sensor_id, found.force) == ("a", True)
    om2 = 'xmlns:om="http://www.opengis.net/om/2.0"'
    found = read(
        f"<sos:InsertObservation {NEW} {V2} {om2}><sos:offering>o</sos:offering><sos:observation><om:OM_Observation/>"
        "</sos:observation></sos:InsertObservation>"
    )
    assert isinstance(found, InsertObservation20)
    assert found.offerings == ("o",)
    assert len(found.observations) == 1


@pytest.mark.parametrize(
    ("inner", "parameter"),
    [
        ("<om:Observation/>", "assignedSensorId"),
        ("<AssignedSensorId/><om:Observation/>", "assignedSensorId"),
        ("<AssignedSensorId>a</AssignedSensorId>", "Observation"),
        ("<AssignedSensorId>a</AssignedSensorId><om:Observation/><om:Observation/>", "Observation"),
        ("<AssignedSensorId>a</AssignedSensorId><om:Observation/><bogus/>", "bogus"),
        ("<AssignedSensorId>a</AssignedSensorId><ForceInsert>perhaps</ForceInsert><om:Observation/>", "ForceInsert"),
    ],
)
def test_bad_insert_10(inner: str, parameter: str) -> None:
    with pytest.raises(ThalwegError) as raised:
        read(f"<InsertObservation {OLD} {V1}>{inner}</InsertObservation>")
    assert raised.value.parameter == parameter


def insert_sensor(change: dict[str, str] | None = None) -> InsertSensor:
    parts = {
        "format": "http://www.opengis.net/sensorml/2.0", "description": "<x/>", "property": "p",
        "type": "http://www.opengis.net/def/observationType/OGC-OM/2.0/OM_Measurement",
        "feature": "http://www.opengis.net/def/samplingFeatureType/OGC-OM/2.0/SF_SamplingPoint",
    } | (change or {})  # fmt: skip
    found = read(
        "<swes:InsertSensor {} {}><swes:procedureDescriptionFormat>{format}</swes:procedureDescriptionFormat>"
        "<swes:procedureDescription>{description}</swes:procedureDescription>"
        "<swes:observableProperty>{property}</swes:observableProperty><swes:metadata><sos:SosInsertionMetadata>"
        "<sos:observationType>{type}</sos:observationType><sos:featureOfInterestType>{feature}"
        "</sos:featureOfInterestType></sos:SosInsertionMetadata></swes:metadata></swes:InsertSensor>".format(
            NEW, V2, **parts
        )
    )
    assert isinstance(found, InsertSensor)
    return found


def test_insert_sensor() -> None:
    found = insert_sensor()
    assert found.observable_properties == ("p",)
    assert found.observation_types[0].endswith("OM_Measurement")
    assert found.feature_types[0].endswith("SF_SamplingPoint")


@pytest.mark.parametrize(
    ("part", "value", "error", "parameter"),
    [
        ("format", "", MissingParameter, "procedureDescriptionFormat"),
        ("format", "x", InvalidParameter, "procedureDescriptionFormat"),
        ("description", "", MissingParameter, "procedureDescription"),
        ("property", "", MissingParameter, "observableProperty"),
        ("type", "", MissingParameter, "observationType"),
        ("feature", "", MissingParameter, "featureOfInterestType"),
    ],
)
def test_bad_insert_sensor(part: str, value: str, error: type[ThalwegError], parameter: str) -> None:
    with pytest.raises(error) as raised:
        insert_sensor({part: value})
    assert raised.value.parameter == parameter


def test_register_sensor() -> None:
    found = read(
        f"<RegisterSensor {OLD} {V1}><SensorDescription><x/></SensorDescription><ObservationTemplate><om:Observation/>"
        "</ObservationTemplate></RegisterSensor>"
    )
    assert isinstance(found, RegisterSensor)
    assert found.template is not None
    with pytest.raises(MissingParameter) as raised:
        read(f"<RegisterSensor {OLD} {V1}><SensorDescription/></RegisterSensor>")
    assert raised.value.parameter == "SensorDescription"


# ---------------------------------------------------------------- anything

TAGS = ["offering", "procedure", "observedProperty", "eventTime", "temporalFilter", "spatialFilter", "featureOfInterest",
        "result", "responseFormat", "observation", "metadata", "relatedFeature", "observableProperty", "Observation",
        "AssignedSensorId", "extension", "validTime", "procedureDescription"]  # fmt: skip
OPERATIONS = ["GetCapabilities", "GetObservation", "GetFeatureOfInterest", "InsertObservation", "InsertSensor",
              "RegisterSensor", "DescribeSensor", "GetObservationById", "DeleteSensor"]  # fmt: skip
trees = st.recursive(
    st.text("abc 1:/.<".replace("<", ""), max_size=8),
    lambda inner: st.builds(
        lambda tag, parts: f"<s:{tag}>{''.join(parts)}</s:{tag}>",
        st.sampled_from(
            [*TAGS, "Equals", "BBOX", "TM_During", "TimePeriod", "beginPosition", "Point", "pos", "ObjectID"]
        ),
        st.lists(inner, max_size=3),
    ),
    max_leaves=10,
)


@given(st.sampled_from(OPERATIONS), st.sampled_from(["1.0", "2.0"]), st.lists(trees, max_size=5))
def test_any_tree_gives_an_operation_or_a_domain_error(operation: str, version: str, parts: list[str]) -> None:
    text = (
        f"<s:{operation} xmlns:s='http://www.opengis.net/sos/{version}' service='SOS' version='{version}.0'>"
        f"{''.join(parts)}</s:{operation}>"
    )
    message = ""
    try:
        read(text)
    except ThalwegError as error:
        message = error.message
    assert len(message) < 2000
