"""Filters, order, pages, formats, validators and access of OGC API - Features, beyond the official assertions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.ogcapi_support import (
    CRS84,
    EDITOR,
    EPSG,
    NOBODY,
    READER,
    Door,
    osm_layer,
    places,
    query_of,
)

from thalweg.domain.features import FieldKind, GeometryKind
from thalweg.settings import Settings


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """Tests only read."""
    made = Door(tmp_path_factory.mktemp("ogcapi"))
    places(made)
    yield made
    made.close()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Door]:
    made = Door(tmp_path)
    yield made
    made.close()


def numbers(door: Door, **parameters: Any) -> list[int]:
    answer = door.get("collections/places/items", **parameters)
    assert answer.status == 200, answer.body
    return [int(identifier.rpartition(".")[2]) for identifier in answer.ids]


# ---------------------------------------------------------------- filters


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("population > 500", [6, 8, 9, 10]),
        ("NOT (population > 500)", [1, 2, 4, 5]),
        ("population IS NULL", [3, 7]),
        ("kind = 'village' AND population BETWEEN 200 AND 600", [2, 4, 6]),
        ("name LIKE 'Place 1%'", [1, 10]),
        ("CASEI(name) LIKE casei('PLACE 1%')", [1, 10]),
        ("name IN ('Place 2', 'Place 5', 'Place 9')", [2, 9]),
        ("capital = TRUE", [1]),
        ("capital", [1]),
        ("founded < DATE('1997-05-22')", [1, 2]),
        ("T_AFTER(seen, TIMESTAMP('2014-05-22T00:00:00Z'))", [9, 10]),
        ("T_DURING(seen, INTERVAL('2014-05-15T00:00:00Z', '2014-05-17T00:00:00Z'))", [2, 3]),
        ("S_INTERSECTS(geometry, BBOX(9.15, 47.15, 9.4, 47.4))", [2, 3, 4]),
        ("S_WITHIN(geometry, POLYGON((9 47, 9.35 47, 9.35 47.35, 9 47.35, 9 47)))", [1, 2, 3]),
        ("population * 2 = 800", [4]),
        ("strLength(name) = 8", [10]),
        ("id = 'places.3' OR id = 'places.4'", [3, 4]),
        ("population > 200 AND NOT kind = 'town'", [4, 6, 8, 10]),
    ],
)
def test_filter_as_text(door: Door, text: str, expected: list[int]) -> None:
    assert numbers(door, filter=text) == expected
    # Whole counts with pages of two, too.
    first = door.get("collections/places/items", filter=text, limit=2)
    assert first.json["numberMatched"] == len(expected)
    assert [i for page in door.pages(first) for i in page.ids] == [f"places.{n}" for n in expected]


def test_filter_as_json(door: Door) -> None:
    text = json.dumps({"op": "and", "args": [{"op": ">", "args": [{"property": "population"}, 500]},
                                             {"op": "=", "args": [{"property": "kind"}, "town"]}]})  # fmt: skip
    assert numbers(door, filter=text, filter__lang="cql2-json") == [9]


def test_filter_crs_says_the_order_of_its_geometries(door: Door) -> None:
    text = "S_INTERSECTS(geometry, BBOX(47.15, 9.15, 47.4, 9.4))"
    assert numbers(door, filter=text, filter__crs=EPSG + "4326") == [2, 3, 4]
    assert numbers(door, filter=text, filter__crs=CRS84) == []


def test_conditions_of_all_kinds_have_to_hold(door: Door) -> None:
    assert numbers(
        door, filter="population > 100", kind="town", bbox="9,47,9.85,47.85", datetime="../2014-05-20T00:00:00Z"
    ) == [5]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [("name", "Place 2", [2]), ("population", "400", [4]), ("capital", "true", [1]), ("founded", "1997-05-20", [1]),
     ("seen", "2014-05-14T16:53:20Z", [1]), ("name", "' OR 1=1 --", [])],
)  # fmt: skip
def test_each_property_is_a_parameter(door: Door, name: str, value: str, expected: list[int]) -> None:
    assert numbers(door, **{name: value}) == expected


def test_queryables_name_what_filters_take(door: Door) -> None:
    document = door.get("collections/places/queryables").json
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert document["additionalProperties"] is False
    assert set(document["properties"]) == {"id", "geometry", "name", "kind", "population", "capital", "founded", "seen"}
    assert document["properties"]["geometry"]["format"] == "geometry-point"
    for name, schema in document["properties"].items():
        if name != "geometry":
            assert numbers(door, filter=f"{name} IS NOT NULL"), schema


def test_schema_tells_types_and_roles(door: Door) -> None:
    properties = door.get("collections/places/schema").json["properties"]
    assert properties["id"] == {"type": "string", "x-ogc-role": "id", "readOnly": True}
    assert properties["geometry"]["x-ogc-role"] == "primary-geometry"
    assert properties["seen"]["x-ogc-role"] == "primary-instant"
    assert (properties["founded"]["type"], properties["founded"]["format"]) == ("string", "date")
    assert properties["population"]["type"] == "integer"


def test_functions_are_listed_as_they_can_be_called(door: Door) -> None:
    listed = {item["name"] for item in door.get("functions").json["functions"]}
    assert {"strToLowerCase", "area", "casei", "year"} <= listed
    assert numbers(door, filter="strToLowerCase(kind) = 'village'") == [2, 4, 6, 8, 10]


@pytest.mark.parametrize("parameters", [{"filter": "NOT " * 5000 + "a = 1"}, {"filter": "(" * 5000}])
def test_hostile_filters_are_refused(door: Door, parameters: dict[str, str]) -> None:
    assert door.get("collections/places/items", **parameters).status in (400, 413)


# ---------------------------------------------------------------- order and pages


@pytest.mark.parametrize(
    ("sortby", "expected"),
    [
        ("-population", [10, 9, 8, 6, 5, 4, 2, 1, 3, 7]),
        ("population", [1, 2, 4, 5, 6, 8, 9, 10, 3, 7]),
        ("kind,-population", [9, 5, 1, 3, 7, 10, 8, 6, 4, 2]),
        ("+kind,-id", [9, 7, 5, 3, 1, 10, 8, 6, 4, 2]),
        ("name", [1, 10, 2, 3, 4, 6, 7, 8, 9, 5]),
        ("-capital", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        ("-seen", [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]),
        ("-id", [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]),
    ],
)
@pytest.mark.parametrize("limit", [3, 100])
def test_order(door: Door, sortby: str, expected: list[int], limit: int) -> None:
    """Missing values come last, ties by number; the same over pages."""
    pages = door.pages(door.get("collections/places/items", sortby=sortby, limit=limit))
    assert [i for page in pages for i in page.ids] == [f"places.{n}" for n in expected]
    assert all(page.json["numberMatched"] == 10 for page in pages)


def test_pages_go_forth_and_back(door: Door) -> None:
    pages = door.pages(door.get("collections/places/items", limit=3))
    assert [len(page.ids) for page in pages] == [3, 3, 3, 1]
    back = [pages[-1]]
    while before := back[-1].link("prev"):
        back.append(door.follow(before))
    assert [page.ids for page in back] == [page.ids for page in reversed(pages)]
    assert not back[-1].link("prev")
    assert door.follow(back[1].link("next")).ids == pages[-1].ids


def test_pages_by_offset(door: Door) -> None:
    page = door.get("collections/places/items", limit=3, offset=4)
    assert page.ids == ["places.5", "places.6", "places.7"]
    assert door.follow(page.link("next")).ids == ["places.8", "places.9", "places.10"]
    assert door.follow(page.link("prev")).ids == ["places.2", "places.3", "places.4"]
    assert door.get("collections/places/items", offset=10).ids == []
    assert door.get("collections/places/items", offset=10).json["numberMatched"] == 10


def test_links_keep_every_parameter(door: Door) -> None:
    asked = {"filter": "kind = 'town' AND population > 0", "properties": "name,kind", "limit": "1", "sortby": "-name"}
    page = door.get("collections/places/items", **asked)
    following = query_of(page.link("next"))
    assert {name: following[name] for name in asked} == asked
    assert query_of(page.link("self"))["filter"] == asked["filter"]


@pytest.mark.parametrize("sortby", ["", "kind,-population", "-name"])
def test_pages_stay_right_while_others_write(fresh: Door, sortby: str) -> None:
    """What is there all the time comes exactly once, whatever is deleted and inserted meanwhile."""
    places(fresh)
    parameters = {"limit": 2} | ({"sortby": sortby} if sortby else {})
    page = fresh.get("collections/places/items", **parameters)
    seen = page.ids
    doomed = [f"places.{n}" for n in (1, 3, 6, 9)]
    while following := page.link("next"):
        if doomed:
            fresh.send("DELETE", f"collections/places/items/{doomed.pop()}", principal=EDITOR)
            body = {"type": "Feature", "geometry": None, "properties": {"name": "Place 0", "kind": "aaa"}}
            fresh.send("POST", "collections/places/items", principal=EDITOR, body=json.dumps(body),
                       headers={"Content-Type": "application/geo+json"})  # fmt: skip
        page = fresh.follow(following)
        seen += page.ids
    assert len(seen) == len(set(seen))
    assert {f"places.{n}" for n in (2, 4, 5, 7, 8, 10)} <= set(seen)


def test_limit_is_clamped(fresh: Door, tmp_path: Path) -> None:
    small = Door(
        tmp_path / "small", Settings(public_url="http://x.org", features_max_limit=4, features_default_limit=3)
    )
    try:
        places(small)
        assert len(small.get("collections/places/items", limit=1_000_000).ids) == 4
        assert len(small.get("collections/places/items").ids) == 3
        pages = small.pages(small.get("collections/places/items", limit=1_000_000))
        assert sum(len(page.ids) for page in pages) == 10
    finally:
        small.close()


# ---------------------------------------------------------------- what is shown


def test_properties_and_geometry_can_be_left_out(door: Door) -> None:
    (feature,) = door.get("collections/places/items", properties="kind,name", limit=1).json["features"]
    assert feature["properties"] == {"name": "Place 1", "kind": "town"}
    (feature,) = door.get("collections/places/items", skipGeometry="true", limit=1).json["features"]
    assert feature["geometry"] is None
    assert len(feature["properties"]) == 6
    (feature,) = door.get("collections/places/items", properties="", limit=1).json["features"]
    assert feature["properties"] == {}


def test_sorting_by_what_is_not_shown(door: Door) -> None:
    page = door.get("collections/places/items", properties="name", sortby="-population", limit=4)
    assert [f["properties"] for f in page.json["features"]] == [{"name": f"Place {n}"} for n in (10, 9, 8, 6)]
    assert door.follow(page.link("next")).ids[0] == "places.5"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", "application/geo+json"),
        ("*/*", "application/geo+json"),
        ("application/geo+json", "application/geo+json"),
        ("application/json;q=0.9, text/html;q=0.8", "application/geo+json"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html; charset=utf-8"),
        ("text/html;q=0", "application/geo+json"),
        ("image/png", "application/geo+json"),
        ("text/html;q=x", "application/geo+json"),
    ],
)
def test_accept_chooses_the_format(door: Door, accept: str, expected: str) -> None:
    answer = door.send("GET", "collections/places/items", headers={"Accept": accept})
    assert answer.content_type == expected
    assert answer.header("Vary") == "Accept"


def test_the_parameter_f_goes_before_accept(door: Door) -> None:
    answer = door.send("GET", "collections/places/items", "f=json", headers={"Accept": "text/html"})
    assert answer.content_type == "application/geo+json"


def test_pages_for_people_run_nothing_and_escape_what_is_in_them(fresh: Door) -> None:
    hostile = "<script>alert(1)</script>\"'&javascript:x"
    fresh.add_layer(
        "bad", {"name": FieldKind.TEXT, "link": FieldKind.TEXT},
        [(1, {"name": hostile, "link": "javascript:alert(1)"}, "POINT (1 2)"),
         (2, {"name": "ok", "link": "https://example.org/?a=1&b=\"x"}, "LINESTRING (1 2, 3 4)"),
         (3, {}, "POLYGON ((0 0, 1 0, 1 1, 0 0))")],
        title=hostile, description=hostile, attribution=hostile, licence="javascript:alert(1)", keywords=(hostile,),
    )  # fmt: skip
    for path in ("", "collections", "collections/bad", "collections/bad/items", "collections/bad/items/bad.1",
                 "collections/bad/queryables", "collections/bad/schema", "functions", "api"):  # fmt: skip
        answer = fresh.get(path, f="html")
        assert answer.status == 200
        text = answer.body.decode()
        assert "<script" not in text
        assert 'href="javascript' not in text
        assert "<!DOCTYPE html>" in text
        assert 'lang="en"' in text
        policy = answer.header("Content-Security-Policy")
        assert policy.startswith("default-src 'none'")
        assert "script" not in policy
        assert "unsafe" not in policy
    page = fresh.get("collections/bad/items", f="html").body.decode()
    assert page.count("<path ") == 2
    assert page.count("<circle ") == 1
    assert 'href="https://example.org/?a=1&amp;b=&#34;x"' in page


def test_pages_for_people_lead_from_one_to_the_next(door: Door) -> None:
    page = door.get("collections/places/items", f="html", limit=4).body.decode()
    assert "4 of 10 features" in page
    assert 'rel="next"' in page
    assert 'rel="prev"' not in page


# ---------------------------------------------------------------- validators


def test_a_page_known_to_the_client_is_not_read_again(door: Door) -> None:
    first = door.get("collections/places/items", limit=2)
    assert first.etag.startswith('"')
    assert door.get("collections/places/items", limit=2).etag == first.etag
    assert door.get("collections/places/items", limit=3).etag != first.etag
    known = door.send("GET", "collections/places/items", "limit=2", headers={"If-None-Match": first.etag})
    # The server makes 304 of it by the validator.
    assert (known.body, known.etag) == (b"", first.etag)


def test_validators_change_with_the_data(fresh: Door) -> None:
    layer = places(fresh)
    paths = ["collections/places/items", "collections/places/items/places.2"]
    before = [fresh.get(path) for path in paths]
    assert [fresh.get(path).body for path in paths] == [answer.body for answer in before]
    body = json.dumps({"properties": {"name": "New"}})
    headers = {"Content-Type": "application/merge-patch+json"}
    assert fresh.send("PATCH", paths[1], principal=EDITOR, body=body, headers=headers).status == 204
    after = [fresh.get(path) for path in paths]
    assert all(a.etag != b.etag for a, b in zip(before, after, strict=True))
    assert after[1].json["properties"]["name"] == "New"
    other = fresh.get("collections/places/items/places.3")
    fresh.add(layer, [(11, {"name": "x"}, None)])
    assert fresh.get("collections/places/items/places.3").etag == other.etag


# ---------------------------------------------------------------- access


def test_who_may_not_read_is_told_nothing(door: Door) -> None:
    for path in ("", "collections", "collections/places/items", "nothing"):
        assert door.get(path, NOBODY).status == 401


def test_a_closed_layer_is_not_there_for_anonymous_callers(fresh: Door) -> None:
    places(fresh)
    fresh.add_layer("secret", {"name": FieldKind.TEXT}, [(1, {"name": "x"}, "POINT (1 2)")], public=False)
    for path in ("collections/secret", "collections/secret/items", "collections/secret/items/secret.1",
                 "collections/secret/queryables", "collections/secret/schema"):  # fmt: skip
        hidden, missing = fresh.get(path, READER), fresh.get(path.replace("secret", "missing"), READER)
        assert (hidden.status, hidden.body) == (404, missing.body.replace(b"missing", b"secret"))
        assert fresh.get(path, EDITOR).status == 200
    for path in ("", "collections", "api"):
        for form in ("json", "html"):
            assert b"secret" not in fresh.get(path, READER, f=form).body
    assert b"secret" in fresh.get("collections", EDITOR).body
    refused = fresh.send("DELETE", "collections/secret/items/secret.1", principal=READER)
    assert refused.status == 404


@pytest.mark.parametrize("path", ["nothing", "collections/places/nothing", "collections//items",
                                  "collections/places/items/a/b", "collections/" + "x" * 500])  # fmt: skip
def test_unknown_paths(door: Door, path: str) -> None:
    answer = door.get(path)
    assert (answer.status, answer.content_type) == (404, "application/problem+json")


@pytest.mark.parametrize(
    "query", ["limit=1&limit=2", "f=%FF", "a" * 5000, "&".join(f"a{n}=1" for n in range(200)), "limit"]
)
def test_query_strings_that_are_none(door: Door, query: str) -> None:
    assert door.send("GET", "collections/places/items", query).status == 400


# ---------------------------------------------------------------- real data

PLACES = {"osm_id": "integer", "name": "text", "name_de": "text", "name_en": "text", "type": "text",
          "population": "integer", "ele": "integer", "country": "text", "z_order": "integer"}  # fmt: skip


@pytest.fixture(scope="module")
def slovenia(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    made = Door(tmp_path_factory.mktemp("osm"))
    yield made
    made.close()


def test_real_places(slovenia: Door, osm_dir: Path) -> None:
    """Numbers counted by PostGIS on the same files."""
    osm_layer(slovenia, osm_dir, "osm_places", PLACES, GeometryKind.POINT)

    def matched(**parameters: str) -> int:
        return int(slovenia.get("collections/osm_places/items", limit=1, **parameters).json["numberMatched"])

    assert matched() == 8048
    assert matched(bbox="9.4,47.0,9.7,47.3") == 82
    assert matched(bbox="47.0,9.4,47.3,9.7", bbox__crs=EPSG + "4326") == 82
    assert matched(filter="population >= 10000") == 20
    assert matched(filter="name LIKE 'Va%'") == 33
    assert matched(country="LI", type="village") == 21
    top = slovenia.get("collections/osm_places/items", sortby="-population", limit=3).json["features"]
    assert [f["properties"]["population"] for f in top] == [2058000, 272000, 96000]
    city = slovenia.get("collections/osm_places/items/osm_places.6968827").json
    assert city["geometry"]["coordinates"] == [14.5068602, 46.0499803]
    assert city["properties"]["name"] == "Ljubljana"
    for parameters in ({}, {"sortby": "name"}):
        pages = slovenia.pages(slovenia.get("collections/osm_places/items", limit=1000, **parameters))
        ids = [i for page in pages for i in page.ids]
        assert len(ids) == len(set(ids)) == 8048
