"""What the WFS door reads, whatever it is given: answered, or refused by its own exception, in bounded time."""

# ruff: noqa: E501 (strategies and documents read better unbroken)

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree
from tests.conformance import policy_wfs
from tests.conformance.door_support import Validator
from tests.conformance.policy_support import Target
from tests.conformance.wfs_support import READER, WRITER, Answer, Wfs, small
from tests.fuzz import wfs as fuzz
from tests.fuzz.mutate import Wire, wire_of
from tests.property.hostile import Within, changed, is_read_or_refused, requests, texts

from thalweg.doors.wfs import soap, versions
from thalweg.encode.xml_input import parse_document

KEYS = {"name": "towns", "type": "tw:towns", "feature": "towns.1", "place": "towns.1.place", "query": "urn:x:fuzz:1"}
TARGET = Target("default", "layer", 1, KEYS, ())


def _wires() -> list[Wire]:
    found = []
    for number, row in enumerate((*policy_wfs.ROWS.rows, *fuzz.DOOR.seeds)):
        wire = wire_of(row.send(TARGET, number))
        # The small network has other names of the address and the geometry.
        for old, new in (
            ("http://127.0.0.1:8080/default", "http://x.org/default"),
            ("label", "name"),
            ("f_towns", "population"),
        ):
            wire.query = [(key, value.replace(old, new)) for key, value in wire.query]
            wire.body = wire.body.replace(old.encode(), new.encode())
        found.append(wire)
    return found


WIRES = _wires()
WORDS = (
    *fuzz.DOOR.words,
    "tw:towns",
    "tw:roads",
    "tw:areas",
    "tw:swiss",
    "tw:notes",
    "name",
    "population",
    "seen",
    "founded",
    "course",
    "area",
)


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory, schemas: Validator) -> Iterator[Wfs]:
    made = small(Wfs(tmp_path_factory.mktemp("any"), schemas))
    yield made
    made.close()


def holds(answer: Answer) -> None:
    """A failure of the server is raised by the support; what is said is a document."""
    assert answer.status in (200, 400, 401, 403, 404, 409, 413, 501), answer.body[:500]
    assert answer.content_type
    if "xml" in answer.content_type and answer.body:
        etree.fromstring(answer.body, etree.XMLParser(huge_tree=True, resolve_entities=False))
    if answer.status != 200 and "json" not in answer.content_type:
        code, _ = answer.exception
        assert code


TRIES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=150)


@TRIES
@given(wire=requests([wire for wire in WIRES if not wire.body], WORDS))
def test_pairs_are_answered_or_refused(door: Wfs, wire: Wire) -> None:
    query = "&".join(f"{quote(k, errors='surrogatepass')}={quote(v, errors='surrogatepass')}" for k, v in wire.query)
    query = query if wire.query_text is None else wire.query_text
    with Within():
        holds(door.raw(query.encode("latin-1", "replace").decode("latin-1"), WRITER, check=False))


@TRIES
@given(wire=requests([wire for wire in WIRES if wire.body], WORDS))
def test_documents_are_answered_or_refused(door: Wfs, wire: Wire) -> None:
    kind = dict(wire.headers).get("Content-Type", "text/xml")
    with Within():
        holds(door.post(wire.body, WRITER, kind, check=False))
        holds(door.post(wire.body, READER, kind, check=False))


ENVELOPES = [wire.body for wire in WIRES if b"Envelope" in wire.body] + [
    b'<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Header><x s:mustUnderstand="0"/></s:Header><s:Body><a/></s:Body></s:Envelope>'
]


@given(changed(ENVELOPES, (*WORDS, "s:Header", "s:Body", "s:mustUnderstand", "s:Envelope"), "xml"))
def test_envelopes_are_opened_or_refused(document: bytes) -> None:
    found = is_read_or_refused(parse_document, document)
    if found[0] == "given" and soap.envelope_of(found[1]):
        inside = is_read_or_refused(soap.content, found[1])
        if inside[0] == "given":
            assert inside[1].getparent().tag.endswith("}Body")


NUMBERS = st.lists(
    st.sampled_from((*versions.VERSIONS, "0", "3.0", "1.2.7", "9" * 30, "-1", "1.0.0 ", "2.0.2", "x")), max_size=5
)


@given(
    NUMBERS,
    st.one_of(
        texts((*versions.VERSIONS, ".", "1")),
        st.lists(st.integers(0, 12), min_size=1, max_size=4).map(lambda n: ".".join(map(str, n))),
    ),
)
def test_versions_are_chosen_or_refused(accepted: list[str], text: str) -> None:
    found = is_read_or_refused(versions.negotiate, accepted)
    served = [item for item in accepted if item in versions.VERSIONS]
    assert found[:2] == ("given", served[0]) if served else found[0] == "refused"
    number = is_read_or_refused(versions.negotiate_number, text)
    if number[0] == "given":
        assert number[1] in versions.VERSIONS
        if text in versions.VERSIONS:
            assert number[1] == text
    required = is_read_or_refused(versions.require_version, text)
    assert required[0] == "refused" or text in (*versions.VERSIONS, versions.V202)
