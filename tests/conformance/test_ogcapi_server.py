"""OGC API - Features through the server's own code: methods, validators, headers of pages, other workspaces."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conformance.ogcapi_support import READER, Door, places

from thalweg.app import Application
from thalweg.doors.features.html import POLICY, STYLE
from thalweg.settings import Settings


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    door = Door(tmp_path_factory.mktemp("server"))
    places(door)
    made = Application(Settings(public_url="http://x.org", cors_origins=("https://map.example",)), door.store)
    yield made
    made.close()


def ask(
    application: Application, path: str, method: str = "GET", query: str = "", **headers: str
) -> tuple[int, dict[str, list[str]], bytes]:
    """Status, headers (each a list) and body of a request in this process."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": method, "path": path, "query_string": query.encode(),
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    asyncio.run(application.asgi(scope, receive, send))
    found: dict[str, list[str]] = {}
    for name, value in sent[0]["headers"]:
        found.setdefault(name.decode(), []).append(value.decode())
    return sent[0]["status"], found, b"".join(message.get("body", b"") for message in sent[1:])


ITEMS = "/features/collections/places/items"


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/features", "GET, HEAD, OPTIONS"),
        (ITEMS, "GET, POST, HEAD, OPTIONS"),
        (ITEMS + "/places.1", "GET, PUT, PATCH, DELETE, HEAD, OPTIONS"),
    ],
)
def test_options_tells_what_a_resource_takes(application: Application, path: str, allowed: str) -> None:
    status, headers, _ = ask(application, path, "OPTIONS")
    assert (status, headers["allow"]) == (204, [allowed])


def test_browsers_may_edit_from_allowed_origins(application: Application) -> None:
    status, headers, _ = ask(
        application, ITEMS + "/places.1", "OPTIONS", origin="https://map.example", access_control_request_method="PUT"
    )
    assert status == 204
    assert "PUT" in headers["access-control-allow-methods"][0]
    assert "If-Match" in headers["access-control-allow-headers"][0]
    _, headers, _ = ask(application, ITEMS, origin="https://map.example")
    assert {"Content-Crs", "ETag", "Location"} <= set(headers["access-control-expose-headers"][0].split(", "))


def test_a_known_page_is_answered_with_304(application: Application) -> None:
    for path in (ITEMS, ITEMS + "/places.1", "/features/collections"):
        for query in ("f=json", "f=html"):
            _, headers, body = ask(application, path, query=query)
            assert body
            status, _, body = ask(application, path, query=query, if_none_match=headers["etag"][0])
            assert (status, body) == (304, b""), (path, query)


def test_head_has_the_headers_of_get(application: Application) -> None:
    _, of_get, _ = ask(application, ITEMS)
    status, headers, body = ask(application, ITEMS, "HEAD")
    assert (status, body) == (200, b"")
    for name in ("content-type", "content-length", "content-crs", "etag"):
        assert headers[name] == of_get[name]


def test_pages_for_people_have_one_policy_which_lets_their_style_through(application: Application) -> None:
    for path in ("/features", ITEMS):
        _, headers, body = ask(application, path, query="f=html")
        assert headers["content-security-policy"] == [POLICY]
        assert f"<style>{STYLE}</style>".encode() in body
        assert headers["x-content-type-options"] == ["nosniff"]
    _, headers, _ = ask(application, ITEMS)
    assert "sandbox" in headers["content-security-policy"][0]


def test_links_never_follow_the_host_header(application: Application) -> None:
    _, _, body = ask(application, ITEMS, host="evil.example", x_forwarded_host="evil.example")
    assert b"evil" not in body
    assert b"http://x.org/features/" in body


def test_unknown_methods_and_workspaces(application: Application) -> None:
    assert ask(application, "/features", "TRACE")[0] == 405
    assert ask(application, ITEMS, "DELETE")[0] == 405
    status, headers, _ = ask(application, "/nowhere/features")
    assert (status, headers["content-type"]) == (404, ["application/problem+json"])


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    made = Door(tmp_path_factory.mktemp("fuzz"))
    places(made)
    yield made
    made.close()


NAMES = ["f", "limit", "offset", "cursor", "bbox", "bbox-crs", "datetime", "crs", "filter", "filter-lang", "filter-crs",
         "properties", "skipGeometry", "sortby", "name", "population", "capital", "founded", "seen", "x"]  # fmt: skip
PIECES = st.sampled_from(
    ["a1", "b9", "s", "name", "-", ",", "/", "..", "2014-05-16", "T12:00:00Z", "EPSG:4326", "cql2-json", "true", "1",
     "-1", "9" * 30, "1e308", "(", ")", "'", '"', " AND ", " = ", "NOT ", "S_WITHIN(geometry,", "POINT(1 2)",
     "BBOX(1,2,3,4)",
     "DATE('2014-05-16')", "{", '"op"', "[", "]", "}", ":", "\x00", "\ud800", "é", "%", "\n", "html", "LIKE '%'"]
)  # fmt: skip
VALUES = st.lists(PIECES, max_size=6).map("".join) | st.text(max_size=20)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parameters=st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3))
def test_no_query_makes_the_server_fail(door: Door, parameters: dict[str, str]) -> None:
    from urllib.parse import urlencode

    query = urlencode(parameters, errors="surrogatepass")
    # The support raises what would be a 500.
    answer = door.send("GET", "collections/places/items", query, principal=READER)
    assert answer.status in (200, 400, 413)
    if answer.status != 200:
        assert answer.json["parameter"]


def test_paths_outside_are_not_reached(application: Application, tmp_path: Path) -> None:
    for path in ("/features/../etc/passwd", "/features/collections/../../x", "/features/collections/%2e%2e/items"):
        assert ask(application, path)[0] == 404
