"""The 25 assertions of ets-ogcapi-features10 on Part 2 (coordinate reference systems), by their names there."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from pyproj import Transformer
from tests.conformance.ogcapi_support import CRS84, EPSG, Door, places

from thalweg.domain.features import FieldKind, GeometryKind

CRS84H = "http://www.opengis.net/def/crs/OGC/0/CRS84h"
NAMES = ["places", "lines", "heights"]
EACH = pytest.mark.parametrize("name", NAMES)
STORED = {"places": CRS84, "lines": EPSG + "2056", "heights": CRS84H}
DEFAULT = {"places": CRS84, "lines": CRS84, "heights": CRS84H}


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    made = Door(tmp_path_factory.mktemp("ogcapi"))
    places(made)
    rows = [(n, {"name": f"r{n}"}, f"LINESTRING (2600000 {1200000 + n}, 2601000 {1200000 + n})") for n in range(1, 26)]
    made.add_layer("lines", {"name": FieldKind.TEXT}, rows, kind=GeometryKind.LINESTRING, srid=2056)
    made.add_layer(
        "heights", {"name": FieldKind.TEXT}, [(1, {"name": "top"}, "POINT Z (9.5 47.1 2599)")],
        kind=GeometryKind.POINT, dimensions=3,
    )  # fmt: skip
    yield made
    made.close()


def collection(door: Door, name: str) -> Any:
    return door.get(f"collections/{name}").json


def listed(door: Door, name: str) -> Any:
    return next(item for item in door.get("collections").json["collections"] if item["id"] == name)


def is_crs_uri(text: str) -> bool:
    return text.startswith("http://www.opengis.net/def/crs/") and len(text.rsplit("/", 2)) == 3


def test_verify_conformance_class(door: Door) -> None:
    assert "http://www.opengis.net/spec/ogcapi-features-2/1.0/conf/crs" in door.get("conformance").json["conformsTo"]


# ---------------------------------------------------------------- discovery


def test_verify_collections_crs_identifier_of_crs_property(door: Door) -> None:
    assert all(map(is_crs_uri, door.get("collections").json["crs"]))


def test_verify_collections_crs_identifier_of_storage_crs(door: Door) -> None:
    """None is told for all collections at once, as each has its own."""
    assert "storageCrs" not in door.get("collections").json


@EACH
def test_verify_collections_collection_crs_identifier_of_crs_property(door: Door, name: str) -> None:
    assert all(map(is_crs_uri, listed(door, name)["crs"]))


@EACH
def test_verify_collections_collection_crs_identifier_of_storage_crs(door: Door, name: str) -> None:
    assert is_crs_uri(listed(door, name)["storageCrs"])


@EACH
def test_verify_collections_path_collection_crs_property_contains_default_crs(door: Door, name: str) -> None:
    assert DEFAULT[name] in listed(door, name)["crs"]


@EACH
def test_verify_collections_path_collection_crs_property_contains_storage_crs(door: Door, name: str) -> None:
    assert listed(door, name)["storageCrs"] in listed(door, name)["crs"]


@EACH
def test_verify_collection_crs_identifier_of_crs_property(door: Door, name: str) -> None:
    found = collection(door, name)["crs"]
    assert all(map(is_crs_uri, found))
    assert len(set(found)) == len(found)


@EACH
def test_verify_collection_crs_identifier_of_storage_crs_property(door: Door, name: str) -> None:
    assert collection(door, name)["storageCrs"] == STORED[name]


@EACH
def test_verify_collection_default_crs(door: Door, name: str) -> None:
    assert collection(door, name)["crs"][0] == DEFAULT[name]


@EACH
def test_verify_collection_storage_crs_is_listed(door: Door, name: str) -> None:
    assert STORED[name] in collection(door, name)["crs"]


# ---------------------------------------------------------------- crs


@EACH
def test_verify_features_crs_parameter(door: Door, name: str) -> None:
    for uri in collection(door, name)["crs"]:
        answer = door.get(f"collections/{name}/items", crs=uri)
        assert (answer.status, answer.header("Content-Crs")) == (200, f"<{uri}>")


@EACH
def test_verify_features_crs_parameter_default(door: Door, name: str) -> None:
    assert door.get(f"collections/{name}/items").header("Content-Crs") == f"<{DEFAULT[name]}>"


@EACH
@pytest.mark.parametrize("uri", ["http://www.opengis.net/def/crs/0/unknown", EPSG + "2154", "urn:x", "", "0", "<x>"])
def test_verify_features_crs_parameter_invalid(door: Door, name: str, uri: str) -> None:
    answer = door.get(f"collections/{name}/items", crs=uri)
    assert (answer.status, answer.json["parameter"]) == (400, "crs")


@EACH
def test_verify_features_crs_parameter_transform_without_crs_parameter(door: Door, name: str) -> None:
    plain = door.get(f"collections/{name}/items").json["features"]
    assert plain == door.get(f"collections/{name}/items", crs=DEFAULT[name]).json["features"]


def test_verify_features_crs_parameter_transform_with_crs_parameter(door: Door) -> None:
    first = door.get("collections/places/items", limit=1, crs=EPSG + "4326").json["features"][0]
    assert first["geometry"]["coordinates"] == [47.1, 9.1]
    mercator = door.get("collections/places/items", limit=1, crs=EPSG + "3857").json["features"][0]
    # EPSG method 1024 (Popular Visualisation Pseudo Mercator).
    x = 6378137 * math.radians(9.1)
    y = 6378137 * math.log(math.tan(math.pi / 4 + math.radians(47.1) / 2))
    assert mercator["geometry"]["coordinates"] == pytest.approx([x, y], abs=0.001)
    stored = door.get("collections/lines/items", limit=1, crs=EPSG + "2056").json["features"][0]
    assert stored["geometry"]["coordinates"] == [[2600000, 1200001], [2601000, 1200001]]
    # The origin of LV95 is the old observatory of Bern, 7°26'19.09" east, 46°57'03.89" north (swisstopo).
    bern = door.get("collections/lines/items", limit=1).json["features"][0]
    assert bern["geometry"]["coordinates"][0] == pytest.approx([7.438637, 46.951091], abs=1e-5)
    top = door.get("collections/heights/items", crs=EPSG + "4326").json["features"][0]
    assert top["geometry"]["coordinates"] == [47.1, 9.5, 2599]


@EACH
def test_verify_feature_crs_parameter(door: Door, name: str) -> None:
    for uri in collection(door, name)["crs"]:
        answer = door.get(f"collections/{name}/items/{name}.1", crs=uri)
        assert (answer.status, answer.header("Content-Crs")) == (200, f"<{uri}>")


@EACH
def test_verify_feature_crs_parameter_default(door: Door, name: str) -> None:
    assert door.get(f"collections/{name}/items/{name}.1").header("Content-Crs") == f"<{DEFAULT[name]}>"


@EACH
def test_verify_feature_crs_parameter_invalid(door: Door, name: str) -> None:
    answer = door.get(f"collections/{name}/items/{name}.1", crs=EPSG + "999999")
    assert (answer.status, answer.json["parameter"]) == (400, "crs")


@EACH
def test_verify_feature_crs_parameter_transform_without_crs_parameter(door: Door, name: str) -> None:
    plain = door.get(f"collections/{name}/items/{name}.1").json
    assert plain["geometry"] == door.get(f"collections/{name}/items/{name}.1", crs=DEFAULT[name]).json["geometry"]


@EACH
def test_verify_feature_crs_parameter_transform_with_crs_parameter(door: Door, name: str) -> None:
    for uri in collection(door, name)["crs"]:
        one = door.get(f"collections/{name}/items/{name}.1", crs=uri).json
        page = door.get(f"collections/{name}/items", crs=uri, limit=1).json
        assert one["geometry"] == page["features"][0]["geometry"]


# ---------------------------------------------------------------- bbox-crs


@pytest.mark.parametrize("name", ["places", "lines", "heights"])
def test_verify_bbox_crs_parameter_with_default_crs(door: Door, name: str) -> None:
    """The collection's extent as a box finds all of it."""
    box = ",".join(map(str, collection(door, name)["extent"]["spatial"]["bbox"][0]))
    everything = [item["id"] for item in door.get(f"collections/{name}/items").json["features"] if item["geometry"]]
    assert door.get(f"collections/{name}/items", bbox=box, bbox__crs=DEFAULT[name]).ids == everything


@pytest.mark.parametrize("name", ["places", "lines", "heights"])
def test_verify_bbox_crs_parameter(door: Door, name: str) -> None:
    """The same box in every CRS finds the same."""
    found = collection(door, name)
    west, south, east, north = found["extent"]["spatial"]["bbox"][0]
    expected = door.get(f"collections/{name}/items", bbox=f"{west},{south},{east},{north}").ids
    for uri in found["crs"]:
        if not uri.startswith(EPSG):
            continue
        code = int(uri.removeprefix(EPSG))
        x, y = Transformer.from_crs(4326, code, always_xy=True).transform([west, east, west, east],
                                                                          [south, north, north, south])  # fmt: skip
        corners = [min(x), min(y), max(x), max(y)]
        if code == 4326:
            corners = [corners[1], corners[0], corners[3], corners[2]]
        box = ",".join(map(repr, corners))
        assert door.get(f"collections/{name}/items", bbox=box, bbox__crs=uri).ids == expected, uri


def test_a_box_in_latitude_longitude_is_not_one_in_longitude_latitude(door: Door) -> None:
    assert door.get("collections/places/items", bbox="47.15,9.15,47.4,9.4", bbox__crs=EPSG + "4326").ids == [
        "places.2", "places.3", "places.4",
    ]  # fmt: skip
    assert door.get("collections/places/items", bbox="47.15,9.15,47.4,9.4").ids == []


@EACH
def test_verify_bbox_crs_parameter_default(door: Door, name: str) -> None:
    assert (
        door.get(f"collections/{name}/items", bbox="5,45,11,48").ids
        == door.get(f"collections/{name}/items", bbox="5,45,11,48", bbox__crs=CRS84).ids
    )


@EACH
def test_verify_bbox_crs_parameter_invalid(door: Door, name: str) -> None:
    answer = door.get(
        f"collections/{name}/items", bbox="5,45,11,48", bbox__crs="http://www.opengis.net/def/crs/unknown"
    )
    assert (answer.status, answer.json["parameter"]) == (400, "bbox-crs")
