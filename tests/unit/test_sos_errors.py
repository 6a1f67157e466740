"""Exception reports, versions guessed for them, and names of operations for metrics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from tests.unit.sos_network import get, post

from thalweg.domain import errors as domain
from thalweg.doors.sos import DOOR, make_door
from thalweg.doors.sos.errors import (
    InvalidUpdateSequence,
    OperationNotSupported,
    VersionNegotiationFailed,
    render_error,
)
from thalweg.doors.sos.request import operation_of
from thalweg.doors.sos.versions import likely_version
from thalweg.settings import Settings

OWS = "{http://www.opengis.net/ows/1.1}"
QUERY = "service=SOS&version=1.0.0&request=GetObservation"


def report(error: Exception, http_status: str = "ogc") -> tuple[int, str, str | None, str]:
    """(status, code, locator, text)."""
    response = render_error(get(QUERY), error, http_status, "2.0.0")
    assert isinstance(response.body, bytes)
    found = etree.fromstring(response.body).find(f"{OWS}Exception")
    assert found is not None
    return (
        response.status, str(found.get("exceptionCode")), found.get("locator"),
        str(found.findtext(f"{OWS}ExceptionText")),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("error", "status", "code", "locator"),
    [
        (domain.MissingParameter("service"), 400, "MissingParameterValue", "service"),
        (domain.InvalidParameter("offering", "no"), 400, "InvalidParameterValue", "offering"),
        (domain.NotFound("procedure", "no"), 400, "InvalidParameterValue", "procedure"),
        (domain.NotFound("workspace", "no"), 404, "InvalidParameterValue", None),
        (domain.AlreadyExists("phenomenonTime", "is there"), 400, "InvalidParameterValue", "phenomenonTime"),
        (domain.InvalidRequest("bad", parameter="request"), 400, "InvalidRequest", "request"),
        (VersionNegotiationFailed("none"), 400, "VersionNegotiationFailed", None),
        (InvalidUpdateSequence("none"), 400, "InvalidUpdateSequence", None),
        (OperationNotSupported("no", parameter="GetResult"), 501, "OperationNotSupported", "GetResult"),
        (domain.NotSupported("no", parameter="result"), 501, "OptionNotSupported", "result"),
        (domain.TooLarge("much", parameter="eventTime"), 413, "ResponseExceedsSizeLimit", None),
        (domain.TooLarge("much", parameter="request"), 413, "InvalidRequest", "request"),
        (domain.Unauthenticated("who?"), 401, "NoApplicableCode", None),
        (domain.PermissionDenied("no"), 403, "NoApplicableCode", None),
        (domain.StoreUnavailable("later"), 503, "NoApplicableCode", None),
        (domain.DamagedData("chunk 7"), 500, "NoApplicableCode", None),
        (ValueError("secret /etc/passwd"), 500, "NoApplicableCode", None),
    ],
)
def test_every_error_has_its_code_and_status(error: Exception, status: int, code: str, locator: str | None) -> None:
    assert report(error)[:3] == (status, code, locator)
    always = report(error, "200")
    assert always[:3] == (status if status in (401, 503) else 200, code, locator)


def test_unexpected_error_says_the_request_id_alone() -> None:
    text = report(ValueError("secret /etc/passwd"))[3]
    assert "r1" in text
    assert "secret" not in text


def test_retry_after_is_said() -> None:
    response = render_error(get(QUERY), domain.StoreUnavailable("later", retry_after_s=7), "ogc", "2.0.0")
    assert ("Retry-After", "7") in response.headers


def test_status_policy_is_the_setting() -> None:
    error = domain.MissingParameter("service")
    assert DOOR.render_error(get(QUERY), error).status == 400
    assert make_door(Settings(sos_http_status="200")).render_error(get(QUERY), error).status == 200


@given(st.text(max_size=3000), st.text(max_size=400))
def test_any_message_and_locator_give_a_document(message: str, locator: str) -> None:
    status, code, where, _ = report(domain.InvalidParameter(locator, message))
    assert (status, code) == (400, "InvalidParameterValue")
    assert where is not None


def test_markup_in_a_message_stays_text() -> None:
    assert report(domain.InvalidParameter('"><script>', "<script>&\0"))[2:] == ('"><script>', "<script>&\ufffd")


def test_report_is_valid_in_both_versions(schemas: object) -> None:
    for version in ("1.0.0", "2.0.0"):
        body = render_error(get(QUERY), domain.InvalidParameter("a b", "x\ny"), "ogc", version).body
        assert isinstance(body, bytes)
        assert f'version="{version}"'.encode() in body
        assert schemas.validate(body) == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("query", "version"),
    [
        (QUERY, "1.0.0"),
        ("VERSION=2.0.0", "2.0.0"),
        ("acceptVersions=1.0.0", "1.0.0"),
        ("", "2.0.0"),
        ("version=%31", "2.0.0"),
    ],
)
def test_version_of_a_report_is_guessed_from_a_query(query: str, version: str) -> None:
    assert likely_version(get(query)) == version


def test_version_of_a_report_is_guessed_from_a_body() -> None:
    assert likely_version(post('<GetObservation xmlns="http://www.opengis.net/sos/1.0">')) == "1.0.0"
    assert likely_version(post('<GetObservation xmlns="http://www.opengis.net/sos/2.0">')) == "2.0.0"
    assert likely_version(post("service=SOS&version=1.0.0")) == "1.0.0"
    assert likely_version(post(b"\xff\xfe\x00")) == "2.0.0"


@pytest.mark.parametrize(
    ("query", "name"),
    [
        (QUERY, "GetObservation"),
        ("request=getcapabilities", "GetCapabilities"),
        ("service=SOS&REQUEST=DescribeSensor&x=y", "DescribeSensor"),
        ("norequest=DescribeSensor", "unknown"),
        ("request=", "unknown"),
        ("request=<script>", "unknown"),
        ("", "unknown"),
    ],
)
def test_operation_is_named_from_a_query(query: str, name: str) -> None:
    assert operation_of(get(query)) == name


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ('<?xml version="1.0"?>\n<!-- c --><sos:InsertObservation xmlns:sos="u">', "InsertObservation"),
        ("<GetCapabilities/>", "GetCapabilities"),
        ("<a:GetObservation>", "GetObservation"),
        ("<nothing>", "unknown"),
        ("<", "unknown"),
        ("< ", "unknown"),
        ("service=SOS&request=GetObservation", "GetObservation"),
        ("\0", "unknown"),
    ],
)
def test_operation_is_named_from_a_body(body: str, name: str) -> None:
    assert operation_of(post(body)) == name


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_naming_never_fails(query: bytes, body: bytes) -> None:
    for request in (get(query.decode("latin-1")), post(body)):
        assert isinstance(operation_of(request), str)
        assert likely_version(request) in ("1.0.0", "2.0.0")
