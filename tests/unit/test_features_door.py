"""The door OGC API - Features as the server sees it: operations, names, methods."""

from __future__ import annotations

from pathlib import Path

import pytest

import thalweg.doors.features
from thalweg.auth.policy import Action
from thalweg.domain.access import Principal, Role
from thalweg.doors.features import make_door
from thalweg.doors.features.paths import METHODS, Kind
from thalweg.doors.http import Request
from thalweg.settings import Settings

DOOR = make_door(Settings())
PATHS = {
    Kind.LANDING: "", Kind.CONFORMANCE: "conformance", Kind.API: "api", Kind.FUNCTIONS: "functions",
    Kind.COLLECTIONS: "collections", Kind.COLLECTION: "collections/x", Kind.QUERYABLES: "collections/x/queryables",
    Kind.SORTABLES: "collections/x/sortables", Kind.SCHEMA: "collections/x/schema", Kind.ITEMS: "collections/x/items",
    Kind.ITEM: "collections/x/items/x.1",
}  # fmt: skip


def request(method: str, path: str) -> Request:
    return Request(method, path, b"", (), b"", "default", "http://x.org/features", Principal("", Role.VIEWER))


def test_every_operation_is_named_and_told_in_the_readme() -> None:
    named = {DOOR.operation(request(method, path)) for kind, path in PATHS.items() for method in METHODS[kind]}
    assert named == set(DOOR.operations)
    readme = (Path(thalweg.doors.features.__file__).parent / "README.md").read_text()
    assert all(name in readme for name in DOOR.operations)


def test_only_reading_is_open_to_readers() -> None:
    assert {name for name, action in DOOR.operations.items() if action is not Action.READ} == {
        "create", "replace", "update", "delete",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "nothing"), ("PUT", ""), ("BREW", "collections"), ("GET", "a/b/c/d")]
)
def test_what_is_no_operation_has_a_name_for_logs_all_the_same(method: str, path: str) -> None:
    assert DOOR.operation(request(method, path)) == "unknown"
