"""``thalweg workspace``: what it refuses, and that a running server shows what it changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import httpx
import pytest
from click.testing import CliRunner, Result
from tests.conformance.process_support import running

from thalweg import app
from thalweg.cli import cli
from thalweg.cli.workspace import KEYS
from thalweg.domain.catalogue import RESERVED_WORKSPACE_NAMES, Provider

pytestmark = pytest.mark.usefixtures("no_settings")

VERSIONS = ("1.0.0", "2.0.0")
TEXTS = {
    "title": "Rivers & lakes of Ticino",
    "abstract": "Levels, flows\nand temperatures.",
    "fees": "Free",
    "access_constraints": "CC BY 4.0",
}
PROVIDER = {
    "name": "Istituto <idro>",
    "site": "https://www.example.org/hydro",
    "contact_name": "Ada Rossi",
    "contact_position": "Hydrologist",
    "voice": "+41 91 000 00 00",
    "fax": "+41 91 000 00 01",
    "delivery_point": "Via Trevano 1",
    "city": "Canobbio",
    "administrative_area": "Ticino",
    "postal_code": "6952",
    "country": "Switzerland",
    "email": "ada@example.org",
}


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/data/thalweg.sqlite"
    app.open_store(url).close()
    return url


@pytest.fixture
def base_url(store: str) -> Iterator[str]:
    """Address of a server on the store, two workers."""
    with running("serve", "--workers", "2", "--store", store) as served:
        yield served.url


def run(store: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["workspace", *arguments, "--store", store])


def done(store: str, *arguments: str) -> str:
    result = run(store, *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def capabilities(address: str, version: str) -> str:
    """From each worker, on connections of their own: all must say the same."""
    query = {"service": "SOS", "request": "GetCapabilities", "acceptVersions": version}
    answers = {httpx.get(address, params=query).text for _ in range(6)}
    assert len(answers) == 1
    return answers.pop()


def test_running_server_shows_a_change_at_once(store: str, base_url: str, schemas: Any) -> None:
    for version in VERSIONS:
        before = capabilities(f"{base_url}/sos", version)
        assert "<ows:Title>Sensor Observation Service default</ows:Title>" in before
    given = [f"{key}={text}" for key, text in TEXTS.items()] + [f"provider.{k}={text}" for k, text in PROVIDER.items()]
    assert done(store, "set", "default", *given, "keywords=water, level ,", "srids=4326,EPSG:2056") == (
        "Changed default.\n"
    )
    for version in VERSIONS:
        after = capabilities(f"{base_url}/sos", version)
        for text in (*TEXTS.values(), *PROVIDER.values()):
            assert escape(text) in after, text
        assert re.findall(r"<ows:Keyword>(.*?)</ows:Keyword>", after) == ["water", "level"]
        assert "EPSG:2056" in after
        assert schemas.validate(after.encode()) == []
    page = httpx.get(f"{base_url}/").text
    assert "<h1>Rivers &amp; lakes of Ticino</h1>" in page
    done(store, "set", "default", "title=", "provider.city=")
    for version in VERSIONS:
        cleared = capabilities(f"{base_url}/sos", version)
        assert "<ows:Title>Sensor Observation Service default</ows:Title>" in cleared
        assert "Canobbio" not in cleared


def test_new_workspace_answers_at_once(store: str, base_url: str, schemas: Any) -> None:
    query = {"service": "SOS", "request": "GetCapabilities"}
    assert httpx.get(f"{base_url}/blue/sos", params=query).status_code == 404
    said = done(store, "add", "blue", "title=Blue", "authority=x-blue")
    assert "/blue/sos" in said
    for version in VERSIONS:
        answer = capabilities(f"{base_url}/blue/sos", version)
        assert "<ows:Title>Blue</ows:Title>" in answer
        assert f"{base_url}/blue/sos" in answer
        assert schemas.validate(answer.encode()) == []
    assert "<h2>Blue</h2>" in httpx.get(f"{base_url}/").text


def test_list_and_show_give_what_set_takes(store: str) -> None:
    done(store, "add", "blue", "title=Blue", "keywords=a,b", "srids=21781,4326", "provider.contact-name=Ada")
    assert done(store, "list").splitlines() == [
        "name     authority  title", "default  x-thalweg", "blue     x-thalweg  Blue",
    ]  # fmt: skip
    shown = dict(line.split("=", 1) for line in done(store, "show", "blue").splitlines())
    assert tuple(shown) == KEYS
    assert {key: text for key, text in shown.items() if text} == {
        "title": "Blue", "keywords": "a,b", "fees": "NONE", "access_constraints": "NONE", "authority": "x-thalweg",
        "srids": "21781,4326", "visibility": "public", "provider.contact_name": "Ada",
    }  # fmt: skip
    again = [f"{key}={text}" for key, text in shown.items()]
    assert done(store, "set", "blue", *again) == "blue says this already.\n"


def test_every_field_of_a_provider_can_be_set() -> None:
    assert {f"provider.{item.name}" for item in fields(Provider)} == {key for key in KEYS if "." in key}
    assert set(PROVIDER) == {item.name for item in fields(Provider)}


def test_things_keep_their_urns_when_the_authority_changes(store: str, tmp_path: Path) -> None:
    def load(name: str) -> None:
        path = tmp_path / f"{name}.csv"
        path.write_text("time,t\n2014-06-01T00:00:00Z,1\n")
        arguments = ["load", "stations", str(path), "--store", store, "--column", "t=air:temperature,Cel"]
        assert CliRunner().invoke(cli, arguments).exit_code == 0

    load("first")
    assert "keep theirs" in done(store, "set", "default", "authority=x-new")
    load("second")
    opened = app.open_store(store)
    try:
        catalogue = opened.catalogue(opened.workspaces()["default"].id)
        assert [p.identifier for p in catalogue.procedures.values()] == [
            "urn:ogc:def:procedure:x-thalweg:1.0:first",
            "urn:ogc:def:procedure:x-new:1.0:second",
        ]
        assert len(catalogue.properties) == 1
    finally:
        opened.close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("add", "default"), "There is a workspace 'default' already"),
        *(((("add", name)), "first part of other paths") for name in sorted(RESERVED_WORKSPACE_NAMES)),
        (("add", "SOS"), "first part of other paths"),
        (("add", "a/b"), "cannot name a workspace"),
        (("add", ".."), "cannot name a workspace"),
        (("add", ""), "cannot name a workspace"),
        (("add", "è"), "cannot name a workspace"),
        (("add", "x" * 65), "cannot name a workspace"),
        (("add", "blue", "srids=999999"), "no geographic or projected CRS with the code 999999"),
        (("show", "red"), "no workspace 'red'"),
        (("set", "red", "title=x"), "no workspace 'red'"),
        (("set", "default", "title"), "not of the form KEY=VALUE"),
        (("set", "default", "=x"), "not of the form KEY=VALUE"),
        (("set", "default", "tilte=x"), "did you mean 'title'?"),
        (("set", "default", "city=x"), "did you mean 'provider.city'?"),
        (("set", "default", "zzzz=x"), "it has title, abstract"),
        (("set", "default", "title=a", "title=b"), "'title' is given twice"),
        (("set", "default", "provider.city=a", "provider.city=b"), "'provider.city' is given twice"),
        (("set", "default", "title=two\nlines"), "title must be a single line"),
        (("set", "default", "title=bell\x07"), "characters that cannot be shown"),
        (("set", "default", "abstract=" + "x" * 10_001), "abstract has 10,001 characters"),
        (("set", "default", "keywords=" + ",".join("abc" for _ in range(101))), "There are 101 keywords"),
        (("set", "default", "authority=x:y"), "cannot be part of a URN"),
        (("set", "default", "srids=wgs84"), "'wgs84' is no EPSG code"),
        (("set", "default", "srids=5773"), "no geographic or projected CRS with the code 5773"),
        (("set", "default", "srids=4326,4326"), "4326 is given twice"),
        (("set", "default", "provider.site=javascript:alert(1)"), "http:// or https://"),
        (("set", "default", "provider.site=http://[x"), "http:// or https://"),
        (("set", "default", "provider.email=ada"), "no e-mail address"),
    ],
)
def test_what_the_caller_can_mend_is_one_line_and_nothing_changes(
    store: str, arguments: tuple[str, ...], words: str
) -> None:
    before = done(store, "list") + done(store, "show", "default")
    refused = run(store, *arguments)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert words in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert done(store, "list") + done(store, "show", "default") == before


def test_store_is_not_made_by_looking_for_workspaces(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/none/a.sqlite"
    for arguments in (("list",), ("add", "blue"), ("show", "default"), ("set", "default", "title=x")):
        refused = run(url, *arguments)
        assert (refused.exit_code, "There is no store" in refused.stderr) == (2, True)
    assert not (tmp_path / "none").exists()
