"""The assertions of OGC's test suites (ets-sos20, ets-sos10) that concern requests: code and locator of each refusal,
the form of each answer. Every XML answer, reports among them, is checked by its schema."""

# ruff: noqa: E501 (XML reads better unbroken)

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conformance.door_support import Validator
from tests.conformance.sos_support import (
    NS10,
    NS20,
    OM10_FORMAT,
    PROCEDURE,
    RAIN,
    READER,
    SOS10,
    SOS20,
    SWES,
    Sos,
    fill,
)

FORM20 = "http://www.opengis.net/sensorML/1.0.1"
SENSORML10 = 'text/xml;subtype="sensorML/1.0.1"'
OWS = "{http://www.opengis.net/ows/1.1}"


@pytest.fixture(scope="module")
def sos(tmp_path_factory: pytest.TempPathFactory, schemas: Validator) -> Iterator[Sos]:
    made = Sos(tmp_path_factory.mktemp("cite"), schemas)
    fill(made)
    yield made
    made.close()


# ---------------------------------------------------------------- the common six, KVP and POST

COMPLETE20 = {
    "DescribeSensor": {"procedure": PROCEDURE + "LUGANO", "procedureDescriptionFormat": FORM20},
    "GetObservation": {"procedure": PROCEDURE + "LUGANO"},
    "GetObservationById": {"observation": "1.1.1"},
    "GetFeatureOfInterest": {"procedure": PROCEDURE + "LUGANO"},
}
COMPLETE10 = {
    "DescribeSensor": {"procedure": PROCEDURE + "LUGANO", "outputFormat": SENSORML10},
    "GetObservation": {"offering": "temporary", "observedProperty": RAIN, "responseFormat": OM10_FORMAT},
    "GetFeatureOfInterest": {"featureOfInterestId": "lugano"},
}
ALL_COMPLETE = [("2.0.0", *item) for item in COMPLETE20.items()] + [("1.0.0", *item) for item in COMPLETE10.items()]


@pytest.mark.parametrize(("version", "operation", "rest"), ALL_COMPLETE)
def test_common_parameters_by_kvp(sos: Sos, version: str, operation: str, rest: dict[str, str]) -> None:
    complete = {"service": "SOS", "version": version, "request": operation} | rest
    assert sos.get(**complete).status == 200
    for name in ("service", "version"):
        absent = {key: value for key, value in complete.items() if key != name}
        assert sos.get(**absent).exception == ("MissingParameterValue", name)
        assert sos.get(**(complete | {name: ""})).exception == ("MissingParameterValue", name)
        wrong = sos.get(**(complete | {name: "wrong"}))
        assert (wrong.status, wrong.exception) == (400, ("InvalidParameterValue", name))


@pytest.mark.parametrize(
    ("operation", "prefix", "uri"),
    [
        ("DescribeSensor", "swes", SWES), ("GetObservation", "sos", SOS20), ("GetObservationById", "sos", SOS20),
        ("GetFeatureOfInterest", "sos", SOS20), ("InsertSensor", "swes", SWES), ("InsertObservation", "sos", SOS20),
    ],
)  # fmt: skip
def test_common_attributes_by_post(sos: Sos, operation: str, prefix: str, uri: str) -> None:
    def exception(attributes: str) -> tuple[str, str | None]:
        return sos.post(f"<{prefix}:{operation} {NS20} {attributes}/>").exception

    for name, other in (("service", 'version="2.0.0"'), ("version", 'service="SOS"')):
        locator = f"Expected attribute: {name} in element {operation}@{uri}"
        assert exception(other) == ("InvalidRequest", locator)
        assert exception(f'{other} {name}=""') == ("MissingParameterValue", name)
        assert exception(f'{other} {name}="wrong"') == ("InvalidParameterValue", name)


# ---------------------------------------------------------------- GetCapabilities


def capabilities(sos: Sos, **parameters: str) -> tuple[str, list[str], str]:
    """(root, local names of sections, Content-Type)."""
    answer = sos.get(**({"service": "SOS", "request": "GetCapabilities"} | parameters))
    assert answer.status == 200, answer.body
    root = answer.root
    return str(root.tag), [str(e.tag).rpartition("}")[2] for e in root], answer.content_type


def test_capabilities_without_versions_are_of_the_highest_one(sos: Sos) -> None:
    assert capabilities(sos)[0] == f"{{{SOS20}}}Capabilities"


def test_names_are_compared_without_case(sos: Sos) -> None:
    answers = [
        sos.get(**{s: "SOS", r: "GetCapabilities"}).body for s, r in (("SERVICE", "REQUEST"), ("SeRvIcE", "RequesT"))
    ]
    assert answers[0] == answers[1] == sos.get(service="SOS", request="GetCapabilities").body


def test_accept_versions_are_in_order_of_preference(sos: Sos) -> None:
    assert capabilities(sos, acceptversions="2000.01.01,1.0.0,2.0.0")[0] == f"{{{SOS10}}}Capabilities"
    assert capabilities(sos, AcceptVersions="2.0.0,1.0.0")[0] == f"{{{SOS20}}}Capabilities"


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"request": "GetCapabilities"}, ("MissingParameterValue", "service")),
        ({"service": "", "request": "GetCapabilities"}, ("MissingParameterValue", "service")),
        ({"service": "ASDF", "request": "GetCapabilities"}, ("InvalidParameterValue", "service")),
        ({"service": "SOS"}, ("MissingParameterValue", "request")),
        ({"service": "SOS", "request": "GetBogus"}, ("InvalidParameterValue", "request")),
        (
            {"service": "SOS", "request": "GetCapabilities", "acceptversions": "2000.01.01"},
            ("VersionNegotiationFailed", None),
        ),
        (
            {"service": "SOS", "request": "GetCapabilities", "updatesequence": "9999999999"},
            ("InvalidUpdateSequence", None),
        ),
        (
            {"service": "SOS", "request": "GetCapabilities", "sections": "WrongSections"},
            ("InvalidParameterValue", "section"),
        ),
    ],
)
def test_bad_get_capabilities(sos: Sos, parameters: dict[str, str], expected: tuple[str, str | None]) -> None:
    for accepted in ({}, {"AcceptVersions": "1.0.0"}):
        given = parameters if "acceptversions" in parameters else parameters | accepted
        answer = sos.get(**given)
        assert (answer.status, answer.exception) == (400, expected)


def test_sections(sos: Sos) -> None:
    for version in ({"AcceptVersions": "1.0.0"}, {"AcceptVersions": "2.0.0"}):
        assert capabilities(sos, sections="", **version)[1] == []
        some = capabilities(sos, sections="ServiceIdentification,OperationsMetadata", **version)[1]
        assert [name for name in some if name != "extension"] == ["ServiceIdentification", "OperationsMetadata"]
        assert capabilities(sos, sections="All", **version)[1] == capabilities(sos, **version)[1]


def test_empty_and_listed_sections_by_post(sos: Sos) -> None:
    body = f"<sos:GetCapabilities {NS20} service='SOS'><ows:Sections>{{}}</ows:Sections></sos:GetCapabilities>"
    assert len(sos.post(body.format("<ows:Section></ows:Section>"), READER).root) == 0
    found = sos.post(body.format("<ows:Section>ServiceIdentification</ows:Section>"), READER).root
    assert [e.tag for e in found] == [OWS + "ServiceIdentification"]


def test_accept_formats_and_content_type(sos: Sos) -> None:
    assert capabilities(sos)[2] == "application/xml"
    assert capabilities(sos, AcceptFormats="text/xml")[2] == "text/xml"
    assert capabilities(sos, AcceptVersions="1.0.0")[2] == "text/xml"


def test_operations_and_sections_are_listed(sos: Sos) -> None:
    root = sos.get(service="SOS", request="GetCapabilities").root
    operations = {e.get("name") for e in root.iter(OWS + "Operation")}
    assert {"GetCapabilities", "DescribeSensor", "GetObservation"} <= operations
    names = {str(e.tag).rpartition("}")[2] for e in root}
    assert {"ServiceIdentification", "ServiceProvider", "OperationsMetadata", "filterCapabilities", "contents"} <= names


def test_every_listed_operation_is_known_to_the_door(sos: Sos) -> None:
    """Of a listed one, a request without parameters is incomplete, never unknown or not supported."""
    for version in ("1.0.0", "2.0.0"):
        root = sos.get(service="SOS", request="GetCapabilities", AcceptVersions=version).root
        for operation in root.iter(OWS + "Operation"):
            name = str(operation.get("name"))
            methods = {str(e.tag).rpartition("}")[2] for e in operation.iter(OWS + "Get", OWS + "Post")}
            # A GET, which any page can make a browser send, never deletes.
            if "Get" in methods and name not in ("GetCapabilities", "DeleteSensor"):
                answer = sos.get(service="SOS", version=version, request=name)
                assert answer.status in (200, 400), (version, name, answer.body)
            uri, prefix = (SOS10, "sos") if version == "1.0.0" else (SOS20, "sos")
            namespaces = NS10 if version == "1.0.0" else NS20
            answer = sos.post(f'<{prefix}:{name} {namespaces} service="SOS" version="{version}"/>')
            assert answer.status in (200, 400), (version, uri, name, answer.body)


def test_etag_is_given_and_stays(sos: Sos) -> None:
    first, second = (sos.get(service="SOS", request="GetCapabilities") for _ in range(2))
    assert first.etag.startswith('"')
    assert first.etag == second.etag


# ---------------------------------------------------------------- each operation: empty and invalid


@pytest.mark.parametrize(
    ("operation", "parameter"),
    [
        ("DescribeSensor", "procedure"),
        ("DescribeSensor", "procedureDescriptionFormat"),
        *(("GetObservation", p) for p in ("offering", "observedProperty", "procedure", "featureOfInterest", "responseFormat")),
        *(("GetFeatureOfInterest", p) for p in ("procedure", "observedProperty", "featureOfInterest")),
    ],
)  # fmt: skip
def test_empty_and_invalid_parameters_of_20(sos: Sos, operation: str, parameter: str) -> None:
    complete = COMPLETE20[operation]
    assert sos.sos2(operation, **(complete | {parameter: ""})).exception == ("MissingParameterValue", parameter)
    assert sos.sos2(operation, **(complete | {parameter: "http://www.example.org/none"})).exception == (
        "InvalidParameterValue", parameter,
    )  # fmt: skip
    prefix = "swes" if operation == "DescribeSensor" else "sos"
    for value, code in (("", "MissingParameterValue"), ("http://www.example.org/none", "InvalidParameterValue")):
        inner = "".join(f"<{prefix}:{k}>{v}</{prefix}:{k}>" for k, v in (complete | {parameter: value}).items())
        body = f'<{prefix}:{operation} {NS20} service="SOS" version="2.0.0">{inner}</{prefix}:{operation}>'
        assert sos.post(body, READER).exception == (code, parameter)


def test_value_reference_of_a_spatial_filter(sos: Sos) -> None:
    box = "0.0,10.0,0.0,10.0,urn:ogc:def:crs:EPSG::4326"
    for reference, code in (("", "MissingParameterValue"), ("2024-01-01T00:00:00.123+01:00", "InvalidParameterValue")):
        assert sos.sos2("GetFeatureOfInterest", spatialFilter=f"{reference},{box}").exception == (
            code,
            "ValueReference",
        )


def test_observation_by_id(sos: Sos) -> None:
    assert sos.sos2("GetObservationById", observation="").exception == ("MissingParameterValue", "observation")
    empty = sos.sos2("GetObservationById", observation="http://www.example.org/none")
    assert (empty.root.tag, len(empty.root)) == (f"{{{SOS20}}}GetObservationByIdResponse", 0)


def test_observations_without_conditions_and_in_om_20(sos: Sos) -> None:
    for rest in ({}, {"responseFormat": "http://www.opengis.net/om/2.0"}):
        root = sos.sos2("GetObservation", **rest).root
        assert (root.tag, len(root)) == (f"{{{SOS20}}}GetObservationResponse", 24)


def test_first_offering_of_the_capabilities_can_be_asked_for(sos: Sos) -> None:
    root = sos.get(service="SOS", request="GetCapabilities").root
    offering = root.find(f".//{{{SOS20}}}ObservationOffering")
    assert offering is not None
    found = sos.sos2(
        "GetObservation",
        offering=str(offering.findtext(f"{{{SWES}}}identifier")),
        procedure=str(offering.findtext(f"{{{SWES}}}procedure")),
        observedProperty=str(offering.findtext(f"{{{SWES}}}observableProperty")),
    )
    assert len(found.root) == 6


def test_every_offering_of_the_capabilities_can_be_asked_for(sos: Sos) -> None:
    root = sos.get(service="SOS", request="GetCapabilities").root
    for offering in root.iter(f"{{{SOS20}}}ObservationOffering"):
        names = {e.tag: str(e.text) for e in offering if e.tag.startswith(f"{{{SWES}}}")}  # type: ignore[union-attr, arg-type]
        rest = {"offering": names[f"{{{SWES}}}identifier"], "procedure": names[f"{{{SWES}}}procedure"]}
        assert len(sos.sos2("GetObservation", **rest).root) > 0
        described = {"procedure": rest["procedure"], "procedureDescriptionFormat": FORM20}
        assert sos.sos2("DescribeSensor", **described).status == 200


# ---------------------------------------------------------------- SOS 1.0

GET10 = COMPLETE10["GetObservation"]


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("srsName", "urn:ogc:def:crs:EPSG::99999999"),
        ("offering", "none"),
        ("eventTime", "scooby"),
        ("procedure", "urn:ogc:object:none"),
        ("observedProperty", "urn:none"),
        ("featureOfInterest", "urn:none"),
        ("result", "<ogc:PropertyIsEqualTo><ogc:PropertyName/><ogc:Literal/></ogc:PropertyIsEqualTo>"),
        ("responseFormat", "text/xml;subtype=bogus"),
        ("resultModel", "om:Bogus"),
        ("responseMode", "bogus"),
    ],
)
def test_bad_values_of_get_observation_10(sos: Sos, parameter: str, value: str) -> None:
    answer = sos.sos1("GetObservation", **(GET10 | {parameter: value}))
    assert (answer.status, answer.exception) == (400, ("InvalidParameterValue", parameter))
    assert b'version="1.0.0"' in answer.body


def test_describe_sensor_10(sos: Sos) -> None:
    complete = COMPLETE10["DescribeSensor"]
    for name, wrong in (("procedure", "urn:none"), ("outputFormat", "text/plain")):
        absent = {key: value for key, value in complete.items() if key != name}
        assert sos.sos1("DescribeSensor", **absent).exception == ("MissingParameterValue", name)
        assert sos.sos1("DescribeSensor", **(complete | {name: wrong})).exception == ("InvalidParameterValue", name)
    answer = sos.sos1("DescribeSensor", **complete)
    assert answer.content_type == SENSORML10
    term = answer.root.find(".//{*}Term[@definition='urn:ogc:def:identifier:OGC:uniqueID']")
    assert term is not None
    assert "".join(str(t) for t in term.itertext()).strip() == complete["procedure"]


def test_bad_time_in_a_posted_request(sos: Sos) -> None:
    body = f"""<GetObservation xmlns="{SOS10}" xmlns:ogc="http://www.opengis.net/ogc" xmlns:gml="http://www.opengis.net/gml"
 service="SOS" version="1.0.0"><offering>temporary</offering><eventTime><ogc:TM_Equals><ogc:PropertyName>om:samplingTime
</ogc:PropertyName><gml:TimeInstant><gml:timePosition>scooby</gml:timePosition></gml:TimeInstant></ogc:TM_Equals></eventTime>
<observedProperty>{RAIN}</observedProperty><responseFormat>text/csv</responseFormat></GetObservation>"""
    assert sos.post(body, READER).exception == ("InvalidParameterValue", "eventTime")


def test_schema_faults_of_a_posted_request_are_invalid_requests(sos: Sos) -> None:
    body = f'<sos:GetObservation {NS10} service="SOS" version="1.0.0"><sos:bogus/></sos:GetObservation>'
    assert sos.post(body, READER).exception[0] == "InvalidRequest"
    assert sos.post("<sos:GetObservation", READER).exception == ("InvalidRequest", "request")
