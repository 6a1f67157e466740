"""``thalweg layer``: layers without a file, and what doors then make of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from thalweg.cli import cli
from thalweg.cli.layer import changed, field_of
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.features import Field, FieldKind, GeometryKind, Layer
from thalweg.store.open import open_store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in [name for name in os.environ if name.startswith("THALWEG_")]:
        monkeypatch.delenv(name)
    return f"sqlite:///{tmp_path}/thalweg.sqlite"


def run(store: str, *arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(cli, ["layer", *arguments, "--store", store])
    assert result.exit_code == code, result.output
    return result.output


def stored(store: str) -> dict[str, Layer]:
    opened = open_store(store)
    try:
        return dict(opened.layers(opened.workspaces()["default"].id))
    finally:
        opened.close()


WELLS = (
    "create", "wells", "--geometry", "point", "--crs", "urn:ogc:def:crs:EPSG::2056", "--dimensions", "3",
    "--geometry-field", "place", "--field", "name:text:80:required", "--field", "depth:number",
    "--field", "dry:BOOLEAN", "--title", "Wells", "--keyword", "water", "--keyword", "ground",
)  # fmt: skip


def test_a_layer_is_what_was_said(store: str) -> None:
    assert run(store, *WELLS) == "Created wells; its features are of the type tw:wells.\n"
    layer = stored(store)["wells"]
    assert (layer.geometry_kind, layer.srid, layer.dimensions, layer.geometry_field) == (
        GeometryKind.POINT, 2056, 3, "place",
    )  # fmt: skip
    assert [(f.name, f.kind, f.length, f.required) for f in layer.fields] == [
        ("name", FieldKind.TEXT, 80, True),
        ("depth", FieldKind.NUMBER, 0, False),
        ("dry", FieldKind.BOOLEAN, 0, False),
    ]
    assert (layer.title, layer.keywords, layer.public) == ("Wells", ("water", "ground"), True)
    shown = run(store, "show", "wells").splitlines()
    assert "geometry: place, Point, 3D, EPSG:2056" in shown
    assert "field: name, text, at most 80 characters, required" in shown
    assert "features: 0" in shown


def test_texts_visibility_and_end(store: str) -> None:
    run(store, "create", "notes", "--geometry", "none", "--field", "text:text", "--private")
    assert run(store, "list").splitlines()[1].split() == ["notes", "none", "0", "private"]
    run(store, "set", "notes", "title=Notes", "keywords=a, b,", "description=")
    assert run(store, "set", "notes", "title=Notes") == "notes says this already.\n"
    assert run(store, "publish", "notes") == "notes is public.\n"
    layer = stored(store)["notes"]
    assert (layer.title, layer.keywords, layer.public) == ("Notes", ("a", "b"), True)
    run(store, "hide", "notes")
    assert not stored(store)["notes"].public
    # Without a yes it stays.
    run(store, "delete", "notes", code=1)
    assert "notes" in stored(store)
    run(store, "delete", "notes", "--yes")
    assert stored(store) == {}
    log = CliRunner().invoke(cli, ["audit", "--store", store]).output
    for command in ("create", "set", "publish", "hide", "delete"):
        assert f"command layer {command}" in log


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("create", "a b", "--geometry", "none"), "'a b' is no name"),
        (("create", "stations", "--geometry", "none"), "choose another name"),
        (("create", "a", "--geometry", "none", "--field", "x y:text"), "'x y' is no name"),
        (("create", "a", "--geometry", "none", "--field", "x:text", "--field", "X:text"), "X"),
        (("create", "a", "--geometry", "Point", "--crs", "EPSG:999999"), "999999"),
        (("create", "a", "--geometry", "Point", "--workspace", "nowhere"), "no workspace 'nowhere'"),
        (("show", "nothing"), "no layer 'nothing'"),
        (("delete", "latest", "--yes"), "shows the procedures"),
        (("hide", "notes", "nothing"), "no layer 'nothing'"),
        (("set", "notes", "colour=red"), "not KEY=VALUE"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(store: str, arguments: tuple[str, ...], message: str) -> None:
    run(store, "create", "notes", "--geometry", "none")
    before = stored(store)
    assert message in run(store, *arguments, code=2)
    assert stored(store) == before


@pytest.mark.parametrize("text", ["", "a", "a:", "a:blob", "a:number:5", "a:text:long", "a:text:5:needed", "a:text:-1"])
def test_fields_that_are_none(text: str) -> None:
    with pytest.raises(InvalidParameter):
        field_of(text)
    assert field_of("a : Text : 5 : REQUIRED") == Field("a", FieldKind.TEXT, length=5, required=True)


@pytest.mark.parametrize("changes", [("title",), ("name=x",), ("title=a", "title=b"), ("=a",)])
def test_changes_that_are_none(changes: tuple[str, ...]) -> None:
    with pytest.raises(InvalidParameter):
        changed(Layer(1, "", 1, "a"), changes)
