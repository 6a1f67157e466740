"""OGC API - Features part 4: create, replace, update and delete, with If-Match against lost updates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.ogcapi_support import BASE, EDITOR, EPSG, READER, Answer, Door, places

from thalweg.domain.access import Principal, Role
from thalweg.domain.features import FieldKind, GeometryKind

GEOJSON = {"Content-Type": "application/geo+json"}
PATCH = {"Content-Type": "application/merge-patch+json"}
ITEMS = "collections/places/items"
SECOND = f"{ITEMS}/places.2"
FEATURE: dict[str, Any] = {
    "type": "Feature",
    "geometry": {"type": "Point", "coordinates": [10.5, 47.5]},
    "properties": {"name": "Neu <&>", "population": 12, "capital": False, "founded": "2020-02-29",
                   "seen": "2020-02-29T12:00:00+01:00"},
}  # fmt: skip


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    made = Door(tmp_path)
    places(made)
    yield made
    made.close()


def send(door: Door, method: str, path: str, body: Any = None, principal: Principal = EDITOR, **headers: str) -> Answer:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None and "Content-Type" not in given:
        given |= PATCH if method == "PATCH" else GEOJSON
    text = "" if body is None else body if isinstance(body, str | bytes) else json.dumps(body)
    return door.send(method, path, principal=principal, headers=given, body=text)


def test_create_gives_the_new_features_address(door: Door) -> None:
    answer = send(door, "POST", ITEMS, FEATURE)
    assert (answer.status, answer.body) == (201, b"")
    assert answer.header("Location") == f"{BASE}/collections/places/items/places.11"
    made = door.follow(answer.header("Location"))
    assert made.etag == answer.header("ETag")
    assert made.json["geometry"] == FEATURE["geometry"]
    assert made.json["properties"] == FEATURE["properties"] | {"kind": None, "seen": "2020-02-29T11:00:00Z"}
    assert door.get(ITEMS).json["numberMatched"] == 11


def test_an_id_in_the_body_is_the_servers_to_give(door: Door) -> None:
    answer = send(door, "POST", ITEMS, FEATURE | {"id": "places.5"})
    assert answer.header("Location").endswith("places.11")


def test_replace_leaves_nothing_of_what_was(door: Door) -> None:
    answer = send(door, "PUT", SECOND, FEATURE | {"properties": {"name": "only"}})
    assert answer.status == 204
    document = door.get(SECOND).json
    assert document["geometry"] == FEATURE["geometry"]
    assert document["properties"] == dict.fromkeys(("kind", "population", "capital", "founded", "seen")) | {
        "name": "only"
    }
    assert door.get(SECOND).etag == answer.header("ETag")


def test_update_changes_what_it_names(door: Door) -> None:
    before = door.get(SECOND).json
    assert send(door, "PATCH", SECOND, {"properties": {"population": None, "name": "x"}}).status == 204
    after = door.get(SECOND).json
    assert after["properties"] == before["properties"] | {"population": None, "name": "x"}
    assert after["geometry"] == before["geometry"]
    assert send(door, "PATCH", SECOND, {"geometry": None}).status == 204
    assert door.get(SECOND).json["geometry"] is None
    assert send(door, "PATCH", SECOND, {"geometry": FEATURE["geometry"]}).status == 204
    assert door.get(SECOND).json["geometry"] == FEATURE["geometry"]


def test_delete(door: Door) -> None:
    assert send(door, "DELETE", SECOND).status == 204
    assert door.get(SECOND).status == 404
    assert send(door, "DELETE", SECOND).status == 404
    assert door.get(ITEMS).json["numberMatched"] == 9
    # Its number is not given again.
    assert send(door, "POST", ITEMS, FEATURE).header("Location").endswith("places.11")


@pytest.mark.parametrize(
    ("method", "body"), [("PUT", FEATURE), ("PATCH", {"properties": {"name": "z"}}), ("DELETE", None)]
)
def test_if_match_refuses_a_lost_update(door: Door, method: str, body: Any) -> None:
    read = door.get(SECOND).etag
    assert send(door, "PATCH", SECOND, {"properties": {"name": "meanwhile"}}).status == 204
    refused = send(door, method, SECOND, body, If_Match=read)
    assert (refused.status, refused.content_type) == (412, "application/problem+json")
    assert door.get(SECOND).json["properties"]["name"] == "meanwhile"
    now = door.get(SECOND, crs=EPSG + "4326").etag
    assert send(door, method, SECOND, body, If_Match=f'"other", W/{now}').status == 204


def test_if_match_with_a_star_wants_any_feature(door: Door) -> None:
    assert send(door, "PATCH", SECOND, {"properties": {"name": "z"}}, If_Match="*").status == 204
    assert send(door, "PATCH", f"{ITEMS}/places.99", {"properties": {"name": "z"}}, If_Match="*").status == 404


def test_content_crs_says_the_order_of_the_body(door: Door) -> None:
    turned = FEATURE | {"geometry": {"type": "Point", "coordinates": [47.5, 10.5]}}
    answer = send(door, "POST", ITEMS, turned, Content_Crs=f"<{EPSG}4326>")
    assert door.follow(answer.header("Location")).json["geometry"]["coordinates"] == [10.5, 47.5]


def test_a_body_is_brought_into_the_collections_crs(door: Door) -> None:
    door.add_layer("metres", {"name": FieldKind.TEXT}, kind=GeometryKind.POINT, srid=2056)
    body = {"type": "Feature", "geometry": {"type": "Point", "coordinates": [7.438637, 46.951091]}, "properties": {}}
    answer = send(door, "POST", "collections/metres/items", body)
    stored = door.get(answer.header("Location").removeprefix(BASE + "/"), crs=EPSG + "2056").json
    # The origin of LV95 is the old observatory of Bern.
    assert stored["geometry"]["coordinates"] == pytest.approx([2_600_000, 1_200_000], abs=1)


BROKEN: list[tuple[Any, str]] = [
    ("{", "body"),
    ("[]", "body"),
    ({"type": "FeatureCollection", "features": []}, "type"),
    ({"type": "Feature", "properties": {}}, "geometry"),
    ({"type": "Feature", "geometry": {"type": "Point", "coordinates": [1, "x"]}, "properties": {}}, "geometry"),
    ({"type": "Feature", "geometry": {"type": "Circle", "coordinates": [1, 2]}, "properties": {}}, "geometry"),
    ({"type": "Feature", "geometry": {"type": "Point", "coordinates": [1, 2, 3]}, "properties": {}}, "geometry"),
    ({"type": "Feature", "geometry": {"type": "LineString", "coordinates": [[1, 2], [3, 4]]}, "properties": {}},
     "geometry"),
    ({"type": "Feature", "geometry": None, "properties": {"nothing": 1}}, "nothing"),
    ({"type": "Feature", "geometry": None, "properties": {"population": "many"}}, "population"),
    ({"type": "Feature", "geometry": None, "properties": {"population": True}}, "population"),
    ({"type": "Feature", "geometry": None, "properties": {"population": 1.5}}, "population"),
    ({"type": "Feature", "geometry": None, "properties": {"name": {"a": 1}}}, "name"),
    ({"type": "Feature", "geometry": None, "properties": {"name": "a\u0000b"}}, "name"),
    ({"type": "Feature", "geometry": None, "properties": {"founded": "2021-02-29"}}, "founded"),
    ({"type": "Feature", "geometry": None, "properties": {"seen": "noon"}}, "seen"),
    ({"type": "Feature", "geometry": None, "properties": []}, "properties"),
    ("", "body"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "parameter"), BROKEN, ids=range(len(BROKEN)))
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_broken_bodies_are_refused_and_leave_nothing(door: Door, method: str, body: Any, parameter: str) -> None:
    before = door.get(ITEMS).body
    answer = send(door, method, ITEMS if method == "POST" else SECOND, body)
    assert (answer.status, answer.json["parameter"]) == (400, parameter), answer.body
    assert door.get(ITEMS).body == before


def test_deep_bodies_are_refused_before_they_are_read(door: Door) -> None:
    deep = '{"type":"Feature","properties":{},"geometry":' + '{"type":"GeometryCollection","geometries":[' * 20_000
    assert send(door, "POST", ITEMS, deep).status == 413


@pytest.mark.parametrize("media_type", ["text/xml", "application/gml+xml", "multipart/form-data; boundary=x"])
def test_other_media_types_are_refused(door: Door, media_type: str) -> None:
    assert send(door, "POST", ITEMS, FEATURE, Content_Type=media_type).status == 415
    assert send(door, "POST", ITEMS, FEATURE, Content_Type="application/json; charset=utf-8").status == 201


def test_who_may_not_edit(door: Door) -> None:
    viewer = Principal("vera", Role.VIEWER)
    for method, path, body in (("POST", ITEMS, FEATURE), ("PUT", SECOND, FEATURE), ("PATCH", SECOND, {}),
                               ("DELETE", SECOND, None)):  # fmt: skip
        assert send(door, method, path, body, READER).status == 401
        assert send(door, method, path, body, viewer).status == 403
    assert door.get(ITEMS).json["numberMatched"] == 10


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("POST", "", "GET"), ("DELETE", ITEMS, "GET, POST"), ("POST", SECOND, "GET, PUT, PATCH, DELETE"),
     ("PUT", "collections/places", "GET")],
)  # fmt: skip
def test_methods_that_a_resource_does_not_take(door: Door, method: str, path: str, allowed: str) -> None:
    answer = send(door, method, path, FEATURE)
    assert (answer.status, answer.header("Allow")) == (405, allowed)


def test_query_parameters_of_a_write_are_unknown(door: Door) -> None:
    assert door.send("DELETE", SECOND, "force=true", principal=EDITOR).status == 400
    assert door.get(SECOND).status == 200


def test_missing_features(door: Door) -> None:
    for method, body in (("PUT", FEATURE), ("PATCH", {"properties": {"name": "z"}}), ("DELETE", None)):
        for name in ("places.99", "others.1", "places.x", "1"):
            assert send(door, method, f"{ITEMS}/{name}", body).status == 404
