"""Bad input: the right exception report, nothing stored, no failure of the server."""

# ruff: noqa: E501 (XML reads better unbroken)

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conformance.door_support import Validator
from tests.conformance.sos_support import (
    ADMIN,
    NOBODY,
    NS10,
    NS20,
    PROCEDURE,
    RAIN,
    READER,
    SOS10,
    Answer,
    Sos,
    fill,
    insert_observation,
    quantity,
    register_sensor,
)

from thalweg.doors.http import Request
from thalweg.settings import Settings


@pytest.fixture(scope="module")
def sos(tmp_path_factory: pytest.TempPathFactory, schemas: Validator) -> Iterator[Sos]:
    made = Sos(tmp_path_factory.mktemp("hostile"), schemas)
    made.ids = fill(made)  # type: ignore[attr-defined]
    yield made
    made.close()


def stored(sos: Sos) -> list[list[str]]:
    return sos.rows2()


def mended(answer: Answer) -> bool:
    """The client's fault, said as such."""
    return answer.status in (400, 413, 501) and answer.root.tag.endswith("ExceptionReport")  # type: ignore[union-attr, arg-type]


# ---------------------------------------------------------------- XML

GOOD = f'<GetCapabilities xmlns="{SOS10}" service="SOS"/>'


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"   ",
        b"{}",
        b"\x00\x01\x02",
        b"\xff\xfe<\x00",
        gzip.compress(GOOD.encode(), mtime=0),
        GOOD[:-2].encode(),
        f"<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]>{GOOD}".encode(),
        f"<!DOCTYPE a SYSTEM 'http://127.0.0.1:9/x.dtd'>{GOOD}".encode(),
        f"<?xml version='1.0' encoding='UTF-16'?><!DOCTYPE a [<!ENTITY x 'y'>]>{GOOD}".encode("utf-16"),
        b"<a>" * 100_000,
        b"<a>" * 200 + b"</a>" * 200,
        b"<a " + b" ".join(b"b%d=''" % i for i in range(200_000)) + b"/>",
        f"<GetObservation xmlns='{SOS10}' service='SOS' version='1.0.0'>{'<procedure>a</procedure>' * 20_000}</GetObservation>".encode(),
        b"<s:Envelope xmlns:s='http://www.w3.org/2003/05/soap-envelope'><s:Body/></s:Envelope>",
        b"<?xml version='1.0' encoding='nope'?><a/>",
    ],
)  # fmt: skip
def test_hostile_documents_are_refused_at_once(sos: Sos, body: bytes) -> None:
    start = time.process_time()
    assert mended(sos.post(body, READER))
    assert time.process_time() - start < 2


def test_passwords_are_never_in_an_answer(sos: Sos) -> None:
    for body in (
        f"<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><GetCapabilities xmlns='{SOS10}' service='&x;'/>",
        f"<GetCapabilities xmlns='{SOS10}' xmlns:xi='http://www.w3.org/2001/XInclude' service='SOS'>"
        "<xi:include href='/etc/passwd' parse='text'/></GetCapabilities>",
    ):
        assert b"root:" not in sos.post(body, READER).body


def test_truncated_inserts_store_nothing(sos: Sos) -> None:
    before = stored(sos)
    body = insert_observation(
        sos.ids["LUGANO"], "LUGANO", "2014-08-01T00:00:00Z,1,2@2014-08-01T00:10:00Z,3,4",  # type: ignore[attr-defined]
        begin="2014-08-01", end="2014-08-02",
    )  # fmt: skip
    for length in range(0, len(body) - 1, 97):
        assert mended(sos.post(body[:length]))
    assert stored(sos) == before


def test_insert_with_one_bad_row_stores_nothing(sos: Sos) -> None:
    before = stored(sos)
    for bad in ("2014-08-01T00:20:00Z,1e400,1", "2014-08-01T00:20:00Z,1", "scooby,1,1", "2014-08-03T00:00:00Z,1,1"):
        body = insert_observation(
            sos.ids["LUGANO"],
            "LUGANO",
            f"2014-08-01T00:00:00Z,1,2@{bad}",
            begin="2014-08-01",
            end="2014-08-02",  # type: ignore[attr-defined]
        )
        assert mended(sos.post(body))
    assert stored(sos) == before


def test_too_many_values_are_too_large(sos: Sos, tmp_path_factory: pytest.TempPathFactory, schemas: Validator) -> None:
    small = Sos(tmp_path_factory.mktemp("small"), schemas, Settings(max_observations_per_insert=100))
    try:
        ids = fill(small)
        rows = "@".join(f"2015-01-01T00:{m:02d}:00Z,1,2" for m in range(50))
        answer = small.post(insert_observation(ids["LUGANO"], "LUGANO", rows, begin="2015-01-01", end="2015-01-02"))
        assert (answer.status, answer.exception) == (413, ("InvalidRequest", "request"))
        assert "100" in answer.text
    finally:
        small.close()


def test_registering_twice_is_refused(sos: Sos) -> None:
    answer = sos.post(register_sensor("LUGANO"))
    assert (answer.status, answer.exception) == (400, ("InvalidParameterValue", "procedure"))


NOT_URIS = (":x", "::", "1:b", "a_b:c", "%zz", "a%", "a#b#c", "http://h:port/", "http://a@b@c/", "{x}", "a|b")


@pytest.mark.parametrize("name", NOT_URIS)
def test_names_that_would_make_answers_invalid_are_not_registered(sos: Sos, name: str) -> None:
    """Capabilities with one of them are refused by whoever validates them: a single sensor would spoil all others."""
    body = register_sensor("OK").replace(f"{PROCEDURE}OK", name)
    answer = sos.post(body)
    assert (answer.status, answer.exception) == (400, ("InvalidParameterValue", "procedure"))
    answer = sos.post(register_sensor("OK", [(name, "mm")]))
    assert (answer.status, answer.exception) == (400, ("InvalidParameterValue", "observedProperty"))


def test_unusual_names_are_registered_and_listed(
    sos: Sos, tmp_path_factory: pytest.TempPathFactory, schemas: Validator
) -> None:
    other = Sos(tmp_path_factory.mktemp("names"), schemas)
    try:
        for name in (
            "urn:x:(a),b;c=d!$&amp;'*+",
            "http://h:8080/a?b:c#d:e",
            "\N{GRINNING FACE}",
            "été",
            "a/b:c",
            "//h",
            "%41",
            "..",
            "-",
        ):
            answer = other.post(register_sensor("OK").replace(f"{PROCEDURE}OK", name).replace(">OK<", f">{name}<"))
            assert answer.status == 200, answer.body
        for version in ("1.0.0", "2.0.0"):
            assert other.get(service="SOS", request="GetCapabilities", acceptVersions=version).status == 200
    finally:
        other.close()


@pytest.mark.parametrize("place", ["8.96,946", "1000,46"])
def test_sensor_nowhere_on_earth_is_refused(sos: Sos, place: str) -> None:
    answer = sos.post(register_sensor("NOWHERE").replace("8.96,46.03", place))
    assert (answer.status, answer.exception) == (400, ("InvalidParameterValue", "featureOfInterest"))


def test_questions_may_not_have_as_many_elements_as_inserts(sos: Sos) -> None:
    """A million elements take 130 MB, for each thread of a worker, of callers whom nobody knows."""
    many = f"<GetObservation xmlns='{SOS10}' service='SOS' version='1.0.0'>{'<procedure>a</procedure>' * 150_000}</GetObservation>"
    answer = sos.post(many, READER)
    assert (answer.status, answer.exception) == (413, ("InvalidRequest", "request"))
    assert sos.post(many).exception != ("InvalidRequest", "request")


def test_who_may_not_read_learns_nothing_of_workspaces(sos: Sos) -> None:
    for workspace in ("default", "nowhere"):
        for query in (b"service=SOS&request=GetCapabilities", b"", b"service=SOS&request=Nothing"):
            answer = sos.send(Request("GET", "", query, (), b"", workspace, "http://x/sos", NOBODY, "r"))
            assert (answer.status, answer.exception) == (401, ("NoApplicableCode", None))


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(
    "text",
    [
        "' OR '1'='1", '"; DROP TABLE observation; --', "%", "_", "(a|a)*$", "\0", "<script>alert(1)</script>",
        "{{1337*1338}}", "../../etc/passwd", "a" * 10_000, "\u202e\uffff", "\r\nX-Injected: 1", "+proj=longlat +nadgrids=@null",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "parameter",
    ["offering", "procedure", "observedProperty", "featureOfInterest", "responseFormat", "eventTime", "srsName"],
)
def test_hostile_names_are_just_unknown(sos: Sos, parameter: str, text: str) -> None:
    answer = sos.observations(**{parameter: text})
    assert mended(answer)
    assert answer.exception[1] == parameter
    assert b"<script>" not in answer.body


def test_messages_stay_short(sos: Sos) -> None:
    assert len(sos.observations(procedure="x" * 100_000).body) < 3000


@pytest.mark.parametrize(
    "query",
    [
        "service=SOS&version=1.0.0&request=GetObservation&offering=%FF",
        "service=SOS&version=1.0.0&request=GetObservation&" + "&".join(f"a{i}=1" for i in range(1000)),
        "service=SOS&service=WFS&request=GetCapabilities",
        "service=SOS&request=GetCapabilities&acceptVersions=%3Cscript%3E",
        "request=" + "x" * 5000,
        "&&&&",
        "=",
        "service",
    ],
)
def test_hostile_queries(sos: Sos, query: str) -> None:
    assert mended(sos.raw(query))


def test_twenty_thousand_times_are_refused(sos: Sos) -> None:
    start = time.process_time()
    answer = sos.observations(eventTime=",".join(["2014-06-01T00:00:00Z"] * 20_000))
    assert answer.exception == ("InvalidParameterValue", "eventTime")
    assert time.process_time() - start < 1


def test_hundreds_of_procedures_are_answered_or_refused_quickly(sos: Sos) -> None:
    """TerriaJS issue 3118: servers fell over."""
    start = time.process_time()
    inner = f"<sos:procedure>{PROCEDURE}LUGANO</sos:procedure>" * 500
    body = f'<sos:GetObservation {NS20} service="SOS" version="2.0.0">{inner}</sos:GetObservation>'
    assert len(sos.post(body, READER).root) == 12
    assert time.process_time() - start < 1


def test_coordinates_have_to_be_finite(sos: Sos) -> None:
    shape = "om:featureOfInterest/*/sams:shape"
    for box in ("nan,0,1,1", "0,0,inf,1", "0,0,1e999,1", "1,1,0,0"):
        answer = sos.sos2("GetObservation", spatialFilter=f"{shape},{box},EPSG:4326")
        assert answer.exception == ("InvalidParameterValue", "spatialFilter")


def test_place_that_no_projection_can_express_is_refused(sos: Sos) -> None:
    shape = "om:featureOfInterest/*/sams:shape"
    # UTM zone 33 of a box on the other side of the earth, and a CRS of the moon.
    assert sos.sos2("GetObservation", spatialFilter=f"{shape},0,0,1,1,EPSG:32633").status in (200, 400)
    assert mended(sos.sos2("GetObservation", spatialFilter=f"{shape},0,0,1,1,EPSG:30100"))


def test_failure_inside_says_the_request_id_alone(sos: Sos, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("thalweg.services.observe.Observe.read", broken)
    monkeypatch.setattr(sos, "hides_failures", True)
    answer = sos.sos2("GetObservation")
    assert (answer.status, answer.exception) == (500, ("NoApplicableCode", None))
    assert "r-1" in answer.text
    assert b"secret" not in answer.body


# ---------------------------------------------------------------- anything


def never_fails(sos: Sos, request: Request) -> None:
    answer = sos.send(request, check=False)
    assert answer.status in (200, 400, 401, 403, 413, 501), answer.body[:500]


BODIES = [
    GOOD,
    register_sensor("FUZZ"),
    insert_observation("x", "LUGANO", "2014-08-01T00:00:00Z,1,2", begin="2014-08-01", end="2014-08-02"),
    insert_observation("x", "LUGANO", "", begin="2014", end="2015", fields=quantity(RAIN, "mm"), force=True),
    f"""<sos:GetObservation {NS10} service="SOS" version="1.0.0"><sos:offering>temporary</sos:offering><sos:eventTime>
<ogc:TM_During><gml:TimePeriod><gml:beginPosition>2014</gml:beginPosition><gml:endPosition>2015</gml:endPosition></gml:TimePeriod>
</ogc:TM_During></sos:eventTime><sos:observedProperty>{RAIN}</sos:observedProperty><sos:featureOfInterest><ogc:Within>
<gml:Polygon srsName="EPSG:4326"><gml:exterior><gml:LinearRing><gml:posList>0 0 0 90 90 90 90 0 0 0</gml:posList>
</gml:LinearRing></gml:exterior></gml:Polygon></ogc:Within></sos:featureOfInterest><sos:result><ogc:PropertyIsLessThan>
<ogc:PropertyName>rainfall</ogc:PropertyName><ogc:Literal>1</ogc:Literal></ogc:PropertyIsLessThan></sos:result>
<sos:responseFormat>text/xml;subtype="om/1.0.0"</sos:responseFormat></sos:GetObservation>""",
    f'<swes:DescribeSensor {NS20} service="SOS" version="2.0.0"><swes:procedure>LUGANO</swes:procedure>'
    "<swes:procedureDescriptionFormat>http://www.opengis.net/sensorml/2.0</swes:procedureDescriptionFormat>"
    "</swes:DescribeSensor>",
]


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=st.sampled_from(BODIES),
    place=st.floats(0, 1),
    length=st.integers(0, 40),
    text=st.one_of(st.text(max_size=10), st.sampled_from(["<", ">", "&amp;", '"', "<x/>", "9" * 400, "</", "&#0;", "1e400", "EPSG:"])),
)  # fmt: skip
def test_changed_documents_never_fail_the_server(sos: Sos, body: str, place: float, length: int, text: str) -> None:
    at = int(place * len(body))
    changed = body[:at] + text + body[at + length :]
    headers = ((b"content-type", b"text/xml"),)
    data = changed.encode("utf-8", "surrogatepass")
    never_fails(sos, Request("POST", "", b"", headers, data, "default", "http://x/sos", READER, "r"))
    if "RegisterSensor" not in body:
        never_fails(sos, Request("POST", "", b"", headers, data, "default", "http://x/sos", ADMIN, "r"))


PARAMETERS = st.sampled_from(
    ["offering", "procedure", "observedProperty", "featureOfInterest", "eventTime", "temporalFilter", "spatialFilter",
     "responseFormat", "srsName", "crs", "result", "qualityIndex", "outputFormat", "procedureDescriptionFormat",
     "sections", "AcceptVersions", "updateSequence", "observation", "featureOfInterestId", "location"]
)  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(
        ["temporary", "LUGANO", RAIN, "rainfall", "lugano", "latest", "2014-06-01/2014-06-02", "text/csv", "application/json",
         "om:phenomenonTime,latest", "om:featureOfInterest/*/sams:shape,0,0,90,90,EPSG:4326", "EPSG:4326", "True", "1.1.5",
         "<ogc:PropertyIsLessThan><ogc:PropertyName/><ogc:Literal>1</ogc:Literal></ogc:PropertyIsLessThan>"]
    ),
    st.text(max_size=20),
)  # fmt: skip


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    operation=st.sampled_from(["GetCapabilities", "DescribeSensor", "GetObservation", "GetFeatureOfInterest", "GetObservationById"]),
    version=st.sampled_from(["1.0.0", "2.0.0"]),
    parameters=st.dictionaries(PARAMETERS, VALUES, max_size=6),
)  # fmt: skip
def test_any_parameters_never_fail_the_server(
    sos: Sos, operation: str, version: str, parameters: dict[str, str]
) -> None:
    given_all = {"service": "SOS", "version": version, "request": operation} | parameters
    query = "&".join(f"{k}={quote(v.encode('utf-8', 'surrogatepass'))}" for k, v in given_all.items())
    never_fails(sos, Request("GET", "", query.encode(), (), b"", "default", "http://x/sos", READER, "r"))
