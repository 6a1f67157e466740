"""How CKAN's actions are called and how they refuse, as was seen of CKAN 2.12."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.conformance.ckan_support import BASE, Site

JSON = "application/json;charset=utf-8"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def table(site: Site) -> str:
    return site.table([{"id": "n", "type": "int"}], records=[{"n": 1}, {"n": 2}])


@pytest.mark.parametrize("path", ["/api/3/action/package_list", "/api/action/package_list"])
def test_both_paths_answer_with_the_envelope(site: Site, path: str) -> None:
    answer = site.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == JSON
    assert answer.headers["vary"] == "Cookie"
    assert set(answer.json()) == {"help", "success", "result"}


@pytest.mark.parametrize(
    ("path", "version"), [("/api", 1), ("/api/", 1), ("/api/1/", 1), ("/api/2", 2), ("/api/3/", 3)]
)
def test_versions(site: Site, path: str, version: int) -> None:
    assert site.get(path).json() == {"version": version}


@pytest.mark.parametrize(
    "path", ["/api/4", "/api/2/action/package_list", "/api/3/action/package_list/", "/datastore", "/api/x"]
)
def test_other_paths_are_not_found(site: Site, path: str) -> None:
    answer = site.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")


def test_workspaces_have_no_paths_of_ckan(site: Site) -> None:
    assert site.get("/default/api/3").status_code == 404


def test_other_methods_are_refused(site: Site) -> None:
    assert site.send("PUT", "/api/3/action/package_list").status_code == 405


@pytest.mark.parametrize(
    ("method", "path", "options", "said"),
    [
        ("GET", "/api/3/action/nope", {}, "Bad request: Action name not known: nope"),
        (
            "GET",
            "/api/3/action/datastore_create?resource_id=x",
            {},
            "Bad request: JSON Error: Invalid request. Please use POST method for your request",
        ),
        (
            "POST",
            "/api/3/action/package_show",
            {"content": b"[1]", "headers": {"Content-Type": "application/json"}},
            "but it needs to be a dictionary.",
        ),
        (
            "POST",
            "/api/3/action/package_show",
            {"content": b'{"id": ', "headers": {"Content-Type": "application/json"}},
            "Bad request: JSON Error: Error decoding JSON data",
        ),
        (
            "POST",
            "/api/3/action/package_show",
            {"content": b'{"id": "\xff"}', "headers": {"Content-Type": "application/json"}},
            "Bad request: JSON Error: Error decoding JSON data",
        ),
        (
            "POST",
            "/api/3/action/package_show",
            {"content": b"[" * 100_000, "headers": {"Content-Type": "application/json"}},
            "Bad request: JSON Error: Error decoding JSON data",
        ),
        (
            "POST",
            "/api/3/action/package_show",
            {"content": b'{"a": NaN}', "headers": {"Content-Type": "application/json"}},
            "Bad request: JSON Error: Error decoding JSON data",
        ),
        (
            "POST",
            "/api/3/action/package_show",
            {"content": b'{"a": 1' + b"0" * 5000 + b"}", "headers": {"Content-Type": "application/json"}},
            "Bad request: JSON Error: Error decoding JSON data",
        ),
        ("GET", "/api/3/action/package_show?id=%ff", {}, "not UTF-8"),
    ],
)
def test_what_is_no_call_is_a_json_string(
    site: Site, method: str, path: str, options: dict[str, Any], said: str
) -> None:
    answer = site.send(method, path, **options)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == JSON
    assert isinstance(answer.json(), str)
    assert said in answer.json()


def test_body_without_a_type_is_415(site: Site) -> None:
    assert site.send("POST", "/api/3/action/package_show", content=b"{}").status_code == 415


def test_parameters_from_form_then_address_then_json(site: Site, table: str) -> None:
    def limit(path: str, **options: Any) -> int:
        answer = site.send("POST", f"/api/3/action/datastore_search?resource_id={table}{path}", **options)
        assert answer.status_code == 200, answer.text
        found: int = answer.json()["result"]["limit"]
        return found

    assert limit("&limit=1", data={"limit": "2"}) == 2
    assert limit("&limit=1", json={"limit": 2}) == 1
    assert limit("", json={"limit": 2}) == 2
    # An empty body: all is in the address (ckanr).
    assert limit("&limit=1") == 1
    # curl -d says form whatever it sends.
    body = json.dumps({"limit": 2}).encode()
    assert limit("", content=body, headers=FORM) == 2


def test_repeated_key_is_a_list_and_so_no_resource(site: Site, table: str) -> None:
    answer = site.get(f"/api/3/action/datastore_search?resource_id={table}&resource_id={table}")
    assert answer.status_code == 404
    assert answer.json()["error"]["__type"] == "Not Found Error"


def test_jsonp_is_anonymous_and_escaped(site: Site) -> None:
    site.act("package_create", name="hidden", private=True)
    headers = {"Authorization": site.token}
    answer = site.send("GET", "/api/3/action/package_list?callback=cb", headers=headers)
    assert answer.headers["content-type"] == "application/javascript;charset=utf-8"
    assert answer.text.startswith("cb({")
    assert answer.text.endswith("});")
    assert "hidden" not in answer.text
    assert "hidden" in site.send("GET", "/api/3/action/package_list", headers=headers).text
    assert site.get("/api/3/action/package_list?callback=<b>").text.startswith("&lt;b&gt;(")
    # Errors are plain JSON.
    refused = site.send("GET", "/api/3/action/package_show?id=hidden&callback=cb", headers=headers)
    assert refused.status_code == 403
    assert refused.json()["error"]["__type"] == "Authorization Error"


def test_token_alone_is_taken_and_a_bad_one_is_nobody(site: Site) -> None:
    assert site.act("package_list", token="nonsense") == site.act("package_list", token="")
    error = site.act("package_create", 403, token="nonsense", name="abc")
    assert error["__type"] == "Authorization Error"
    assert error["message"].startswith("Access denied: ")


@pytest.mark.parametrize("action", ["datastore_search", "datastore_info", "datastore_upsert", "datastore_delete"])
def test_unknown_resource_is_not_found(site: Site, action: str) -> None:
    error = site.act(action, 404, resource_id="nope")
    assert error["__type"] == "Not Found Error"
    assert "nope" in error["message"]
    assert error["message"].startswith("Not found: ")


@pytest.mark.parametrize(
    ("parameters", "faults"),
    [
        ({"limit": -1}, {"limit": ["Must be a natural number"]}),
        ({"limit": "x"}, {"limit": ["Invalid integer", "Please enter an integer value"]}),
        ({"offset": "x"}, {"offset": ["Invalid integer"]}),
        ({"offset": -1}, {"offset": ['invalid value "-1"']}),
        ({"nosuchparam": 1}, {"__extras": ['invalid value "nosuchparam"']}),
        ({"fields": "zz"}, {"fields": ['invalid value "zz"']}),
        ({"sort": "zz desc"}, {"sort": ['invalid value "zz desc"']}),
        ({"q": {"zz": "a"}}, {"q": ['invalid value "zz"']}),
        ({"filters": {"zz": 1}}, {"filters": ["Unknown field: zz"]}),
        ({"filters": "n"}, {"filters": ["Cannot parse JSON"]}),
        ({"filters": ""}, {"filters": ["Cannot parse JSON"]}),
        ({"filters": []}, {"filters": ["Filters must be defined as a dict or a list of dicts"]}),
        ({"filters": {"$and": [{}]}}, {"filters": ['invalid value "$and"']}),
        ({"filters": {"n": {}}}, {"filters": ['invalid value "n"']}),
        ({"filters": {"$nor": []}}, {"filters": ["Unknown operators (must be one of $or, $and): $nor"]}),
        ({"filters": {"n": {"like": 1}}}, {"filters": ["Unknown filter operation: like"]}),
        ({"filters": {"$or": [{"n": 1}] * 101}}, {"filters": ["Maximum number of filter operations exceeded"]}),
        ({"records_format": "xml"}, {"records_format": ["Value must be one of ['objects', 'lists', 'csv', 'tsv']"]}),
    ],
)
def test_search_names_what_is_at_fault(
    site: Site, table: str, parameters: dict[str, Any], faults: dict[str, list[str]]
) -> None:
    assert site.error("datastore_search", resource_id=table, **parameters) == faults


def test_faults_are_told_together(site: Site, table: str) -> None:
    found = site.error("datastore_search", resource_id=table, limit=-1, offset="x", foo=1)
    assert set(found) == {"limit", "offset", "__extras"}


def test_filters_nested_too_deep(site: Site, table: str) -> None:
    filters: Any = {"n": 1}
    for _ in range(10):
        filters = {"$and": [filters]}
    found = site.error("datastore_search", resource_id=table, filters=filters)
    assert found["filters"][0].startswith("Maximum nesting depth")


def test_value_that_does_not_fit_is_an_invalid_query_without_sql(site: Site, table: str) -> None:
    found = site.error("datastore_search", resource_id=table, filters={"n": "abc"})
    assert found["query"] == ["Invalid query"]
    assert found["info"] == {"orig": ['invalid input syntax for type integer: "abc"']}


def test_status_and_help(site: Site) -> None:
    status = site.get("/api/3/action/status_show").json()["result"]
    assert status["ckan_version"] == "2.12.0"
    assert status["site_url"] == BASE
    assert "datastore" in status["extensions"]
    assert site.get("/api/3/action/help_show?name=datastore_search").json()["result"]
    assert site.act("help_show", 404, name="nope")["__type"] == "Not Found Error"
