"""``thalweg stream publish``: what it makes, says and refuses."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from tests.store.layer_support import insert, make_layer, point
from tests.store.support import SqliteBackend, fill, register

from thalweg.cli import cli


@pytest.fixture
def url(backend: SqliteBackend) -> str:
    store = backend.open()
    fill(store, register(store, "LUGANO"), 30)
    insert(store, make_layer(store), [(n, point(8, 46), {"name": f"P{n}"}) for n in range(1, 8)])
    backend.close()
    return backend.url


def run(url: str, *arguments: str) -> tuple[int, str]:
    found = CliRunner().invoke(cli, ["stream", *arguments, "--store", url], env={"THALWEG_STORE": None})
    return found.exit_code, found.output


def test_publish_makes_a_stream_and_list_says_of_what(url: str) -> None:
    assert run(url, "publish", "procedure", "LUGANO", "--page-size", "20") == (
        0, "LUGANO: publishes the procedure LUGANO; views: by-page, by-time\n"
    )  # fmt: skip
    code, output = run(url, "publish", "layer", "places", "--name", "towns", "--page-size", "5", "--private")
    assert (code, output) == (0, "towns: publishes the layer places; views: by-page, by-time\n")
    code, output = run(url, "work")
    assert code == 0, output
    _, listed = run(url, "list")
    lines = [line.split() for line in listed.splitlines()]
    # Three pages of ten rows of two values; one page of five features.
    assert ["LUGANO", "60", "publishes", "procedure", "urn:ogc:def:procedure:x-thalweg:1.0:LUGANO"] in lines
    assert ["towns", "5", "publishes", "layer", "places,", "not", "public"] in lines
    assert run(url, "delete", "towns", "--yes")[0] == 0
    assert "towns" not in run(url, "list")[1]


def test_publish_refuses_what_is_not_there_or_has_its_name_taken(url: str) -> None:
    code, output = run(url, "publish", "offering", "nowhere")
    assert code != 0
    assert "no offering 'nowhere'" in output
    assert run(url, "publish", "procedure", "LUGANO")[0] == 0
    code, output = run(url, "publish", "procedure", "LUGANO")
    assert code != 0
    assert "already" in output
