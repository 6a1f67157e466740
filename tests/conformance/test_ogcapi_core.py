"""The 55 assertions of ets-ogcapi-features10 (version 1.8, Core, OpenAPI 3.0, GeoJSON, HTML), by their names there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.conformance.ogcapi_support import CRS84, Answer, Door, places

from thalweg.domain.features import FieldKind, GeometryKind

OPENAPI = "application/vnd.oai.openapi+json;version=3.0"
GEOJSON = "application/geo+json"
COLLECTIONS = ["places", "lines", "plain"]


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """Points with times, lines in metres, and features without geometry."""
    made = Door(tmp_path_factory.mktemp("ogcapi"))
    places(made)
    rows = [(n, {"name": f"r{n}"}, f"LINESTRING (2600000 {1200000 + n}, 2601000 {1200000 + n})") for n in range(1, 26)]
    made.add_layer("lines", {"name": FieldKind.TEXT}, rows, kind=GeometryKind.LINESTRING, srid=2056)
    made.add_layer("plain", {"name": FieldKind.TEXT}, [(1, {"name": "x"}, None)], kind=GeometryKind.NONE)
    yield made
    made.close()


def links_of(document: Any, rel: str) -> list[dict[str, str]]:
    return [link for link in document["links"] if link["rel"] == rel]


def definition_of(door: Door) -> Any:
    return door.get("api").json


def resolved(document: Any, node: Any) -> Any:
    """A node of an OpenAPI document, its reference followed."""
    if "$ref" in node:
        target: Any = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return target
    return node


def parameter_of(door: Door, path: str, name: str) -> Any:
    document = definition_of(door)
    found = [resolved(document, item) for item in document["paths"][path]["get"]["parameters"]]
    return next(item for item in found if item["name"] == name)


# ---------------------------------------------------------------- HTTP, landing page, API, conformance


def test_http(door: Door) -> None:
    assert door.get("").status == 200


def test_landing_page_retrieval(door: Door) -> None:
    answer = door.send("GET", "", headers={"Accept": "application/json"})
    assert (answer.status, answer.content_type) == (200, "application/json")


def test_landing_page_validation(door: Door) -> None:
    document = door.get("").json
    assert links_of(document, "service-desc") or links_of(document, "service-doc")
    assert links_of(document, "conformance")
    assert links_of(document, "data")
    assert all(link["href"].startswith("http://x.org/features") for link in document["links"])


def test_openapi_document_retrieval(door: Door) -> None:
    (described,) = links_of(door.get("").json, "service-desc")
    assert described["type"] == OPENAPI
    answer = door.follow(described["href"])
    assert (answer.status, answer.content_type) == (200, OPENAPI)


def test_api_definition_validation(door: Door) -> None:
    """Structure by the rules of OpenAPI 3.0.3: references resolve, ids are unique, path parameters are declared."""
    document = definition_of(door)
    assert re.fullmatch(r"3\.0\.\d", document["openapi"])
    assert document["info"]["title"]
    assert document["info"]["version"]
    operations: list[str] = []
    for path, item in document["paths"].items():
        assert path.startswith("/")
        for method, operation in item.items():
            assert method in {"get", "post", "put", "patch", "delete"}
            operations.append(operation["operationId"])
            parameters = [resolved(document, parameter) for parameter in operation.get("parameters", [])]
            keys = [(parameter["in"], parameter["name"]) for parameter in parameters]
            assert len(set(keys)) == len(keys), (path, method)
            in_path = {name for kind, name in keys if kind == "path"}
            assert in_path == set(re.findall(r"\{(\w+)\}", path))
            assert all("schema" in parameter for parameter in parameters)
            assert all(parameter["required"] for parameter in parameters if parameter["in"] == "path")
            assert operation["responses"]
            for response in operation["responses"].values():
                assert resolved(document, response)["description"]
    assert len(set(operations)) == len(operations)
    stack: list[Any] = [document]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if "$ref" in node:
                assert resolved(document, node)
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)


def test_validate_conformance_operation_and_response(door: Door) -> None:
    document = door.get("conformance").json
    for name in ("core", "oas30", "geojson", "html"):
        assert f"http://www.opengis.net/spec/ogcapi-features-1/1.0/conf/{name}" in document["conformsTo"]


# ---------------------------------------------------------------- collections


def test_validate_feature_collections_metadata_operation(door: Door) -> None:
    assert door.get("collections").status == 200


def test_validate_feature_collections_metadata_operation_response_links(door: Door) -> None:
    document = door.get("collections").json
    assert [link["type"] for link in links_of(document, "self")] == ["application/json"]
    assert [link["type"] for link in links_of(document, "alternate")] == ["text/html"]
    assert all(link["rel"] and link["type"] for link in document["links"])


def test_validate_feature_collections_metadata_operation_response_items(door: Door) -> None:
    found = door.get("collections").json["collections"]
    assert sorted(item["id"] for item in found) == sorted(COLLECTIONS)
    for item in found:
        links = links_of(item, "items")
        assert {link["type"] for link in links} == {GEOJSON, "text/html"}


def test_validate_feature_collections_metadata_operation_response_crs_property(door: Door) -> None:
    assert door.get("collections").json["crs"][0] == CRS84


def test_validate_feature_collections_metadata_operation_response_content(door: Door) -> None:
    document = door.get("collections").json
    assert document["links"]
    assert document["collections"]


@pytest.mark.parametrize("name", COLLECTIONS)
def test_validate_feature_collection_metadata_operation(door: Door, name: str) -> None:
    assert door.get(f"collections/{name}").status == 200


@pytest.mark.parametrize("name", COLLECTIONS)
def test_validate_feature_collection_metadata_response(door: Door, name: str) -> None:
    """The same as in the list: id, title, description, extent."""
    listed = next(item for item in door.get("collections").json["collections"] if item["id"] == name)
    assert door.get(f"collections/{name}").json == listed


# ---------------------------------------------------------------- features, plain and by box, limit and time


def first_page(door: Door, name: str) -> Answer:
    return door.get(f"collections/{name}/items")


def by_box(door: Door, name: str) -> Answer:
    return door.get(f"collections/{name}/items", bbox="-180,-90,180,90", limit=7)


def by_limit(door: Door, name: str) -> Answer:
    return door.get(f"collections/{name}/items", limit=3)


def by_time(door: Door, name: str) -> Answer:
    return door.get(f"collections/{name}/items", datetime="2014-05-16T00:00:00Z/2014-05-20T00:00:00Z", limit=2)


Ask = Callable[[Door, str], Answer]
WAYS = pytest.mark.parametrize("ask", [first_page, by_box, by_limit, by_time], ids=["", "BBox", "Limit", "Time"])
EACH = pytest.mark.parametrize("name", COLLECTIONS)


@WAYS
@EACH
def test_validate_features_operation(door: Door, ask: Ask, name: str) -> None:
    answer = ask(door, name)
    assert (answer.status, answer.content_type) == (200, GEOJSON)


@WAYS
@EACH
def test_validate_features_response_geometry_in_crs84(door: Door, ask: Ask, name: str) -> None:
    answer = ask(door, name)
    assert answer.header("Content-Crs") == f"<{CRS84}>"
    for feature in answer.json["features"]:
        positions = str(feature["geometry"] and feature["geometry"]["coordinates"])
        numbers = [float(number) for number in re.findall(r"-?\d+\.?\d*", positions)]
        assert all(-180 <= number <= 180 for number in numbers[::2])
        assert all(-90 <= number <= 90 for number in numbers[1::2])


@WAYS
@EACH
def test_validate_features_response_type_property(door: Door, ask: Ask, name: str) -> None:
    assert ask(door, name).json["type"] == "FeatureCollection"


@WAYS
@EACH
def test_validate_features_response_features_property(door: Door, ask: Ask, name: str) -> None:
    features = ask(door, name).json["features"]
    assert isinstance(features, list)
    assert all(feature["type"] == "Feature" for feature in features)


@WAYS
@EACH
def test_validate_features_response_links(door: Door, ask: Ask, name: str) -> None:
    document = ask(door, name).json
    assert [link["type"] for link in links_of(document, "self")] == [GEOJSON]
    assert [link["type"] for link in links_of(document, "alternate")] == ["text/html"]
    assert all(link["rel"] and link["type"] for link in document["links"])
    # What the links lead to is what they say.
    again = door.follow(links_of(document, "self")[0]["href"])
    assert again.json["features"] == document["features"]
    assert door.follow(links_of(document, "alternate")[0]["href"]).content_type.startswith("text/html")


@WAYS
@EACH
def test_validate_features_response_time_stamp(door: Door, ask: Ask, name: str) -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", ask(door, name).json["timeStamp"])


@WAYS
@EACH
def test_validate_features_response_number_matched(door: Door, ask: Ask, name: str) -> None:
    """Equal to the number of features on all pages."""
    first = ask(door, name)
    ids = [identifier for page in door.pages(first) for identifier in page.ids]
    assert first.json["numberMatched"] == len(ids) == len(set(ids))


@WAYS
@EACH
def test_validate_features_response_number_returned(door: Door, ask: Ask, name: str) -> None:
    document = ask(door, name).json
    assert document["numberReturned"] == len(document["features"])


ITEM_PATHS = pytest.mark.parametrize("path", ["/collections/{collectionId}/items", "/collections/places/items"])


@ITEM_PATHS
def test_bounding_box_parameter_definition(door: Door, path: str) -> None:
    found = parameter_of(door, path, "bbox")
    assert (found["in"], found["required"], found["style"], found["explode"]) == ("query", False, "form", False)
    schema = found["schema"]
    assert (schema["type"], schema["minItems"], schema["maxItems"]) == ("array", 4, 6)
    assert schema["items"]["type"] == "number"


def test_validate_features_with_bounding_box_response(door: Door) -> None:
    """Only features that meet the box; the box's border belongs to it."""
    answer = door.get("collections/places/items", bbox="9.15,47.15,9.4,47.4")
    assert answer.ids == ["places.2", "places.3", "places.4"]
    six = door.get("collections/places/items", bbox="9.15,47.15,-100,9.4,47.4,100")
    assert six.ids == answer.ids


@ITEM_PATHS
def test_limit_parameter_definition(door: Door, path: str) -> None:
    found = parameter_of(door, path, "limit")
    assert (found["in"], found["required"], found["style"], found["explode"]) == ("query", False, "form", False)
    schema = found["schema"]
    assert schema["type"] == "integer"
    assert schema["minimum"] == 1
    assert 1 <= schema["default"] <= schema["maximum"] == 10_000


@pytest.mark.parametrize("limit", [1, 2, 9, 10, 11, 10_000])
def test_validate_features_with_limit_response(door: Door, limit: int) -> None:
    answer = door.get("collections/places/items", limit=limit)
    assert len(answer.ids) == min(limit, 10)
    assert bool(answer.link("next")) == (limit < 10)


@ITEM_PATHS
def test_time_parameter_definition(door: Door, path: str) -> None:
    found = parameter_of(door, path, "datetime")
    assert (found["in"], found["required"], found["style"], found["explode"]) == ("query", False, "form", False)
    assert found["schema"]["type"] == "string"


@pytest.mark.parametrize(
    ("written", "numbers"),
    [
        # Place n was seen at 16:53:20 of 13 + n May 2014.
        ("2014-05-16T16:53:20Z", [3]),
        ("2014-05-16T18:53:20+02:00", [3]),
        ("2014-05-16", [3]),
        ("2014-05-16T00:00:00Z/2014-05-17T23:00:00Z", [3, 4]),
        ("2014-05-16/2014-05-17", [3, 4]),
        ("../2014-05-15T16:53:20Z", [1, 2]),
        ("2014-05-22T16:53:20Z/..", [9, 10]),
        ("/2014-05-14T16:53:20Z", [1]),
        ("2014-05-23T16:53:20Z/", [10]),
        ("2014-05-16T16:53:20.000001Z", []),
    ],
)
def test_validate_features_with_date_time_response(door: Door, written: str, numbers: list[int]) -> None:
    assert door.get("collections/places/items", datetime=written).ids == [f"places.{n}" for n in numbers]


# ---------------------------------------------------------------- errors, one feature


@EACH
@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("limit", "unlimited"), ("limit", "0"), ("limit", "-1"), ("limit", ""), ("limit", "1.5"), ("limit", "٣"),
        ("bbox", "1,2,3"), ("bbox", "a,b,c,d"), ("bbox", ""), ("bbox", "1,5,3,4"), ("bbox", "1,2,3,4,5"),
        ("bbox", "nan,2,3,4"), ("bbox", "1e999,2,3,4"), ("datetime", "yesterday"), ("datetime", ""),
        ("datetime", "2014-06-01T00:00:00Z/2014-05-01T00:00:00Z"), ("datetime", "../../.."), ("f", "xml"),
        ("crs", "http://www.opengis.net/def/crs/EPSG/0/999999"), ("bbox-crs", "x"), ("offset", "-1"), ("cursor", "x"),
        ("cursor", "a99999999999999999999"), ("cursor", "sAAAA"), ("sortby", "nothing"), ("properties", "nothing"),
        ("filter", "nothing = 1"), ("filter", "name ="), ("filter-lang", "sql"), ("skipGeometry", "perhaps"),
    ],
)  # fmt: skip
def test_validate_features_operation_query_param_invalid(door: Door, name: str, parameter: str, value: str) -> None:
    answer = door.get(f"collections/{name}/items", **{parameter.replace("-", "__"): value})
    assert (answer.status, answer.content_type) == (400, "application/problem+json")
    assert answer.json["parameter"] in (parameter, value.partition(" ")[0])
    assert answer.json["detail"]


@pytest.mark.parametrize("path", ["", "conformance", "api", "functions", "collections", "collections/places",
                                  "collections/places/items", "collections/places/items/places.1",
                                  "collections/places/queryables", "collections/places/schema"])  # fmt: skip
def test_validate_features_operation_query_param_unknown(door: Door, path: str) -> None:
    answer = door.get(path, unknown="1")
    assert (answer.status, answer.json["parameter"]) == (400, "unknown")


@EACH
def test_feature_operation(door: Door, name: str) -> None:
    first = first_page(door, name).json["features"][0]
    answer = door.get(f"collections/{name}/items/{first['id']}")
    assert (answer.status, answer.content_type) == (200, GEOJSON)
    assert {key: value for key, value in answer.json.items() if key != "links"} == first
    missing = door.get(f"collections/{name}/items/{name}.777")
    assert (missing.status, missing.content_type) == (404, "application/problem+json")
    assert door.get(f"collections/{name}/items/nothing").status == 404


@EACH
def test_validate_feature_response(door: Door, name: str) -> None:
    first = first_page(door, name).ids[0]
    document = door.get(f"collections/{name}/items/{first}").json
    for rel, media_type in (("self", GEOJSON), ("alternate", "text/html"), ("collection", "application/json")):
        (link,) = links_of(document, rel)
        assert link["type"] == media_type
        assert door.follow(link["href"]).status == 200
