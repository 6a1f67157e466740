"""The whole application over a real store: start page, health, access, and ``thalweg serve`` as a process."""

from __future__ import annotations

import asyncio
import html
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest

from thalweg import app
from thalweg.domain.access import Role
from thalweg.domain.catalogue import Feature, ObservedProperty, Offering, Procedure, Unit, Workspace
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.store import Registration, SeriesRegistration
from thalweg.services.catalogue import CatalogueService
from thalweg.settings import Settings

HOSTILE = "\"><script>alert('{{7*7}}')</script>"


def new(name: str) -> tuple[int, str, str, str]:
    """id, uuid, identifier and short name of something to be registered."""
    return 0, str(uuid.uuid4()), f"urn:ogc:def:x:x-test:1.0:{name}", name


def registration(name: str) -> Registration:
    number, key, identifier, short = new(name)
    return Registration(
        Procedure(number, key, identifier, short, f"urn:ogc:def:sensor:x-test:1.0:{name}"),
        (SeriesRegistration(ObservedProperty(*new("air:temperature")), Unit(0, "Cel")),),
        (Feature(*new(f"{name}-place")),),
        (Offering(*new(f"{name}-offering"), procedure_id=0),),
    )


@pytest.fixture
def application(tmp_path: Path) -> Iterator[app.Application]:
    built = app.build(Settings(store=f"sqlite:///{tmp_path}/s/thalweg.sqlite", public_url="https://example.org/data/"))
    yield built
    built.close()


class Client:
    """Requests to an application in this process, without sockets; one event loop for all of them."""

    def __init__(self, application: app.Application) -> None:
        self._runner = asyncio.Runner()
        transport = httpx.ASGITransport(application.asgi)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://internal.example:1")

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()

    def get(
        self, path: str, auth: tuple[str, str] | None = None, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        return self._runner.run(self._client.get(path, auth=auth, headers=headers))

    def post(self, path: str) -> httpx.Response:
        return self._runner.run(self._client.post(path))


def test_start_page_lists_services_with_requests_that_work(application: app.Application) -> None:
    store = application.store
    workspace = store.workspaces()["default"]
    store.register_procedure(workspace.id, registration("lugano")).result(30)
    with Client(application) as web:
        page = web.get("/")
        assert page.status_code == 200
        assert "1 procedure,\n1 observed property,\n0 rows of observations" in page.text
        assert "<h1>Sensor Observation Service</h1>" in page.text
        assert "internal.example" not in page.text
        links = [html.unescape(link) for link in re.findall(r'href="([^"]+)"', page.text)]
        examples = [link for link in links if "/sos?" in link]
        assert len(examples) == 5
        for link in examples:
            assert link.startswith("https://example.org/data/sos?")
            answer = web.get(link.removeprefix("https://example.org/data"))
            assert answer.status_code == 200, (link, answer.text)
            assert "Exception" not in answer.text
        style = next(link for link in links if link.endswith(".css"))
        assert web.get(urljoin("/", style)).status_code == 200


def test_start_page_needs_no_script_and_nothing_from_outside(application: app.Application) -> None:
    with Client(application) as web:
        page = web.get("/")
    assert "<script" not in page.text
    assert "style=" not in page.text
    addresses = [html.unescape(found) for found in re.findall(r'(?:src|href)="([^"]+)"', page.text)]
    # Whatever the page was asked by: an absolute style sheet would be another origin than the page's own ('self').
    for seen_at in ("https://example.org/data/", "http://127.0.0.1:8080/", "http://inside.example/"):
        for address in addresses:
            found = urljoin(seen_at, address)
            assert found.startswith(seen_at if address.endswith(".css") else "https://example.org/data/"), address
    assert "static/thalweg.css" in addresses
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_what_others_named_is_text_on_the_page(application: app.Application) -> None:
    workspace = Workspace(0, str(uuid.uuid4()), "blue", title=HOSTILE, abstract=HOSTILE)
    application.store.put_workspace(workspace).result(30)
    with Client(application) as web:
        page = web.get("/").text
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "49" not in page
    assert "https://example.org/data/blue/sos" in page


def test_default_workspace_is_headed_by_its_title(application: app.Application) -> None:
    store = application.store
    with Client(application) as web:
        assert "<title>Sensor Observation Service</title>" in web.get("/").text
        described = replace(store.workspaces()["default"], title="Rivers of Ticino", abstract="Levels and flows.")
        store.put_workspace(described).result(30)
        page = web.get("/").text
    assert "<title>Rivers of Ticino</title>" in page
    assert page.count("<h1>Rivers of Ticino</h1>") == 1
    assert page.count("Rivers of Ticino") == 2
    assert page.count("Levels and flows.") == 1
    assert ">default<" not in page


def test_addresses_break_between_their_parts(application: app.Application) -> None:
    workspace = application.store.workspaces()["default"]
    application.store.register_procedure(workspace.id, registration("lugano")).result(30)
    with Client(application) as web:
        page = web.get("/").text
    assert "<code>https://<wbr>example.org/<wbr>data/<wbr>sos</code>" in page
    assert "procedure=<wbr>urn:<wbr>ogc:<wbr>def:<wbr>x:<wbr>x-test:<wbr>1.0:<wbr>lugano&amp;<wbr>" in page
    assert "wbr&gt;" not in page


def test_start_page_is_made_once_for_a_state_of_the_metadata(
    application: app.Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = application.store
    read: list[str] = []
    extents = CatalogueService.extents

    def counting(self: CatalogueService, catalogue: Catalogue) -> object:
        read.append(catalogue.workspace.name)
        return extents(self, catalogue)

    monkeypatch.setattr(CatalogueService, "extents", counting)
    clock = [1000.0]
    monkeypatch.setattr("thalweg.web.pages.time.monotonic", lambda: clock[0])
    workspace = store.workspaces()["default"]
    with Client(application) as web:
        assert "0 procedures" in web.get("/").text
        web.get("/")
        assert len(read) == 1
        store.register_procedure(workspace.id, registration("lugano")).result(30)
        assert "1 procedure," in web.get("/").text
        assert len(read) == 2
        clock[0] += 6
        web.get("/")
        assert len(read) == 3


def test_start_page_describes_a_bounded_number_of_workspaces(
    application: app.Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = application.store
    for number in range(30):
        store.put_workspace(Workspace(0, str(uuid.uuid4()), f"w{number:02}", title=f"Basin {number}")).result(30)
    read: list[int] = []
    catalogue = store.catalogue

    def counting(workspace_id: int) -> object:
        read.append(workspace_id)
        return catalogue(workspace_id)

    monkeypatch.setattr(store, "catalogue", counting)
    monkeypatch.setattr("thalweg.web.pages._MAX_LISTED", 5)
    with Client(application) as web:
        page = web.get("/").text
    assert len(set(read)) == 20
    assert "<h2>Basin 18</h2>" in page
    assert "<li>Basin 19<br><code>https://<wbr>example.org/<wbr>data/<wbr>w19/<wbr>sos</code><br>" in page
    assert "Basin 24" not in page
    assert "And 6 more." in page


def test_health_tells_life_from_readiness(application: app.Application, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(application) as web:
        assert web.get("/health/live").text == "alive\n"
        assert web.get("/health/ready").text == "ready\n"

    monkeypatch.setattr(application.store, "problems", lambda: ["it cannot be written"])
    del application.asgi
    with Client(application) as web:
        assert web.get("/health/live").status_code == 200
        ready = web.get("/health/ready")
        assert ready.status_code == 503
        assert "secret" not in ready.text


def test_unknown_paths_and_methods_are_answered_in_plain_words(application: app.Application) -> None:
    with Client(application) as web:
        for path in (
            "/nothing",
            "/static/",
            "/static/../pages.py",
            "/static/%2e%2e/pages.py",
            "/static/absent.css",
            "/health",
        ):
            missing = web.get(path)
            assert missing.status_code == 404, path
            assert missing.headers["content-type"].startswith("text/plain")
            assert "https://example.org/data/" in missing.text
        refused = web.post("/")
        assert refused.status_code == 405
        assert "POST is not allowed" in refused.text
        assert set(refused.headers["allow"].split(", ")) == {"GET", "HEAD"}


def test_closed_server_shows_nothing_without_signing_in(tmp_path: Path) -> None:
    settings = Settings(store=f"sqlite:///{tmp_path}/thalweg.sqlite", anonymous_role=Role.NOTHING)
    application = app.build(settings)
    try:
        application.services.access.add_user("ann", Role.VIEWER, "correct horse")
        with Client(application) as web:
            for path in ("/", "/sos?service=SOS&request=GetCapabilities"):
                closed = web.get(path)
                assert closed.status_code == 401
                assert closed.headers["www-authenticate"].startswith("Basic")
                assert "procedures" not in closed.text
                assert web.get(path, auth=("ann", "correct horse")).status_code == 200
                assert web.get(path, auth=("ann", "wrong horse")).status_code == 401
            assert web.get("/health/ready").status_code == 200
    finally:
        application.close()


def test_doors_are_known_by_name_without_importing_them() -> None:
    assert [door.name for door in app.all_doors(Settings())] == list(app.DOOR_NAMES)


# ---------------------------------------------------------------- thalweg serve


class Serving:
    """``thalweg serve`` on a free port, with what it said until it served."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        environ = {k: v for k, v in os.environ.items() if not k.startswith("THALWEG_")}
        environ["PYTHONPATH"] = os.pathsep.join(sys.path)
        command = [sys.executable, "-c", "from thalweg.cli import main; main()", "serve", "--port", "0", *arguments]
        self.process = subprocess.Popen(
            command, env=environ, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        self.said: list[str] = []
        for line in self.process.stdout:
            self.said.append(line.rstrip())
            if line.strip().endswith("/sos"):
                break
        found = re.search(r"http://[\d.]+:\d+", "\n".join(self.said))
        assert found is not None, self.said
        self.base_url = found.group()

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(15)


def test_serve_makes_the_store_shows_the_password_once_and_stops_cleanly(tmp_path: Path) -> None:
    first = Serving(tmp_path)
    try:
        text = "\n".join(first.said)
        password = re.search(r"^  password +(\S{16})$", text, re.MULTILINE)
        assert password is not None
        assert "Thalweg serves sqlite:///thalweg-data/thalweg.sqlite" in text
        capabilities = httpx.get(f"{first.base_url}/sos?service=SOS&request=GetCapabilities")
        assert f"{first.base_url}/sos" in capabilities.text
        assert httpx.get(f"{first.base_url}/", auth=("admin", "wrong horse")).status_code == 401
        assert httpx.get(f"{first.base_url}/", auth=("admin", password.group(1))).status_code == 200
        assert first.stop(signal.SIGINT) == 0
    finally:
        first.process.kill()
    second = Serving(tmp_path, "--workers", "1")
    try:
        assert "password" not in "\n".join(second.said)
        assert "with 1 worker:" in "\n".join(second.said)
        assert second.stop() == 0
    finally:
        second.process.kill()
