"""What the door of OGC API - Features reads, whatever it is given: answered, or refused naming the parameter."""

# ruff: noqa: E501 (strategies and documents read better unbroken)

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote, unquote_to_bytes, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conformance import policy_features
from tests.conformance.ogcapi_support import EDITOR, READER, Answer, Door, places
from tests.conformance.policy_support import Target
from tests.fuzz import features as fuzz
from tests.fuzz.mutate import Wire, wire_of
from tests.property.hostile import Within, changed, requests, texts

from thalweg.doors.features import crs
from thalweg.doors.features.feature_input import MAX_JSON_DEPTH

KEYS = {"name": "places", "type": "places", "feature": "places.1", "place": "", "query": ""}
TARGET = Target("default", "layer", 1, KEYS, ())
TRIES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=150)
WORDS = (*fuzz.DOOR.words, "places", "name", "population", "capital", "founded", "seen", "geometry", "places.1")


def _wires() -> list[Wire]:
    found = []
    for number, row in enumerate((*policy_features.ROWS.rows, *fuzz.DOOR.seeds)):
        wire = wire_of(row.send(TARGET, number))
        wire.query = [
            (key.replace("label", "name"), value.replace("label", "name").replace("place,", "geometry,"))
            for key, value in wire.query
        ]
        wire.body = wire.body.replace(b"label", b"name").replace(b"f_{name}", b"population")
        found.append(wire)
    return found


WIRES = _wires()


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    made = Door(tmp_path_factory.mktemp("any"))
    places(made)
    yield made
    made.close()


def holds(answer: Answer) -> None:
    """A failure of the server is raised by the support."""
    assert answer.status in (200, 201, 204, 400, 401, 403, 404, 405, 409, 412, 413, 415), answer.body[:500]
    if answer.status >= 400:
        assert answer.content_type == "application/problem+json"
        assert answer.json["status"] == answer.status
    elif answer.body and "json" in answer.content_type:
        # No NaN or infinity: other parsers refuse them.
        json.loads(answer.body, parse_constant=lambda text: pytest.fail(text))


def send(door: Door, wire: Wire) -> Answer:
    path = unquote_to_bytes(quote(wire.path, safe="/%", errors="surrogatepass")).decode("utf-8", "replace")
    query = urlencode(wire.query, errors="surrogatepass") if wire.query_text is None else wire.query_text
    method = wire.method
    return door.send(method, path.removeprefix("/features").strip("/"), quote(query, safe="&=%+;", errors="surrogatepass"),
                     principal=READER if method == "GET" else EDITOR, headers=dict(wire.headers), body=wire.body)  # fmt: skip


@TRIES
@given(wire=requests([wire for wire in WIRES if not wire.body and wire.method == "GET"], WORDS))
def test_queries_are_answered_or_refused(door: Door, wire: Wire) -> None:
    with Within():
        holds(send(door, wire))


@TRIES
@given(wire=requests([wire for wire in WIRES if wire.method != "GET"], WORDS))
def test_bodies_are_taken_or_refused(door: Door, wire: Wire) -> None:
    if wire.method == "DELETE":
        # The features that the others change are to stay.
        wire.path = wire.path.replace("places.1", "places.2")
    with Within():
        holds(send(door, wire))


BODIES = [wire.body for wire in WIRES if wire.body]


@TRIES
@given(
    body=st.one_of(
        changed(BODIES, WORDS, "json"),
        st.binary(max_size=80),
        texts(WORDS).map(lambda text: text.encode("utf-8", "surrogatepass")),
    )
)
def test_what_was_refused_has_changed_nothing_and_what_was_taken_is_given_back(door: Door, body: bytes) -> None:
    before = door.get("collections/places/items", limit="1000").body
    answer = door.send(
        "POST",
        "collections/places/items",
        principal=EDITOR,
        headers={"content-type": "application/geo+json"},
        body=body,
    )
    holds(answer)
    if answer.status == 201:
        found = door.follow(answer.header("Location"))
        assert found.json["type"] == "Feature"
        given_properties = json.loads(body).get("properties") or {}
        for name, value in given_properties.items():
            if isinstance(value, str) and name in ("name", "kind"):
                assert found.json["properties"][name] == value
    else:
        assert door.get("collections/places/items", limit="1000").body == before


def test_bodies_are_nested_as_deep_as_allowed_and_no_deeper(door: Door) -> None:
    for depth, status in ((MAX_JSON_DEPTH - 2, 400), (MAX_JSON_DEPTH, 413)):
        body = '{"type":"Feature","geometry":null,"properties":{"name":' + "[" * depth + "]" * depth + "}}"
        headers = {"content-type": "application/geo+json"}
        assert (
            door.send("POST", "collections/places/items", principal=EDITOR, headers=headers, body=body).status == status
        )


@given(texts((*WORDS, crs.__name__)))
def test_headers_of_crs_are_read_or_refused(door: Door, text: str) -> None:
    headers = {
        "content-type": "application/geo+json",
        "content-crs": text.encode("latin-1", "replace").decode("latin-1"),
    }
    holds(door.send("POST", "collections/places/items", principal=EDITOR, headers=headers, body=BODIES[0]))
