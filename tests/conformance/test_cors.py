"""Whose pages may read answers in a browser (Fetch standard, CORS): of doors, the origins set; of pages, none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from thalweg import app
from thalweg.settings import Settings

VIEWER = "https://viewer.example.org"
PATHS = [f"/{app.DOOR_PATHS.get(door, door)}" for door in app.DOOR_NAMES]


def nowhere(path: str) -> str:
    """Where a door has nothing: another workspace's, or another path of one that knows no workspaces."""
    return f"/nowhere{path}" if path.count("/") == 1 else f"{path}/nothing"


class Asked:
    """Requests to an application in this process."""

    def __init__(self, folder: Path, *origins: str) -> None:
        self._application = app.build(
            Settings(store=f"sqlite:///{folder}/s.sqlite", cors_origins=origins, access_log=False)
        )
        self._runner = asyncio.Runner()
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(self._application.asgi), base_url="http://127.0.0.1:8080"
        )

    def __call__(self, method: str, path: str, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._runner.run(self._client.request(method, path, headers=named))

    def close(self) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()
        self._application.close()


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Asked]:
    made = Asked(tmp_path, VIEWER)
    yield made
    made.close()


@pytest.fixture
def anybody(tmp_path: Path) -> Iterator[Asked]:
    made = Asked(tmp_path, "*")
    yield made
    made.close()


@pytest.mark.parametrize("path", PATHS)
def test_a_named_origin_reads_answers_and_errors_of_doors(one: Asked, path: str) -> None:
    for method, asked, more in (
        ("GET", path, {}),
        ("GET", f"{path}?request=Nothing", {}),
        ("PROPFIND", path, {}),
        ("GET", path, {"Authorization": "Bearer bad"}),
        ("GET", nowhere(path), {}),
    ):
        answer = one(method, asked, Origin=VIEWER, **more)
        assert answer.headers["access-control-allow-origin"] == VIEWER, (method, asked)
        assert "Retry-After" in answer.headers["access-control-expose-headers"]
        # A cache must not give it to another origin, nor an answer to one without.
        assert "origin" in answer.headers["vary"].lower()
        # A cookie is never let in: whoever reads is who the page's own credentials say.
        assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "",
        "https://viewer.example.org.evil.example",
        "http://viewer.example.org",
        "https://VIEWER.example.org",
        "https://viewer.example.org:444",
        "https://viewer.example.org/",
    ],
)
def test_other_origins_read_nothing(one: Asked, path: str, origin: str) -> None:
    answer = one("GET", path, Origin=origin)
    assert "access-control-allow-origin" not in answer.headers
    assert "origin" in answer.headers["vary"].lower()
    preflight = one("OPTIONS", path, Origin=origin, Access_Control_Request_Method="POST")
    assert "access-control-allow-origin" not in preflight.headers


@pytest.mark.parametrize("path", PATHS)
def test_a_preflight_says_what_may_be_sent(one: Asked, path: str) -> None:
    answer = one(
        "OPTIONS",
        path,
        Origin=VIEWER,
        Access_Control_Request_Method="POST",
        Access_Control_Request_Headers="authorization",
    )
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == VIEWER
    assert "GET" in answer.headers["access-control-allow-methods"]
    assert "authorization" in answer.headers["access-control-allow-headers"].lower()


@pytest.mark.parametrize("path", PATHS)
def test_any_origin_is_any_without_cookies(anybody: Asked, path: str) -> None:
    answer = anybody("GET", path, Origin="https://evil.example")
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize(
    "path", ["/", "/login", "/account", "/metrics", "/admin/audit", "/health/ready", "/static/thalweg.css", "/nothing"]
)
def test_pages_are_read_by_no_other_site(one: Asked, anybody: Asked, path: str) -> None:
    for asked in (one, anybody):
        for origin in (VIEWER, "https://evil.example"):
            for method in ("GET", "OPTIONS"):
                answer = asked(method, path, Origin=origin, Access_Control_Request_Method="POST")
                assert not any(name.startswith("access-control-") for name in answer.headers)


@pytest.mark.parametrize("path", PATHS)
def test_an_answer_says_that_it_depends_on_the_origin_also_where_none_asks(
    one: Asked, tmp_path: Path, path: str
) -> None:
    """Else a cache would give it to a page that may read it, which then could not (Fetch standard, section 3.2.5)."""
    for method, asked in (
        ("GET", path),
        ("GET", f"{path}?request=Nothing"),
        ("POST", path),
        ("GET", nowhere(path)),
    ):
        answer = one(method, asked)
        assert "origin" in answer.headers["vary"].lower(), (method, asked)
        assert "access-control-allow-origin" not in answer.headers
    none = Asked(tmp_path / "none")
    try:
        assert "origin" not in none("GET", path).headers.get("vary", "").lower()
    finally:
        none.close()


@pytest.mark.parametrize("path", PATHS)
def test_an_answer_for_any_origin_is_the_same_without_one(anybody: Asked, path: str) -> None:
    answer = anybody("GET", path)
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "origin" not in answer.headers.get("vary", "").lower()
