"""Answers of the DataStore as CKAN 2.12 gives them to the same requests: what is echoed, named, taken and refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.ckan_support import Site

FIELDS = [{"id": "n", "type": "int"}, {"id": "name", "type": "text"}, {"id": "ok", "type": "bool"}]
RECORDS: list[dict[str, Any]] = [
    {"n": 1, "name": "red apple", "ok": True},
    {"n": 2, "name": "blue", "ok": False},
    {"n": 3},
]


@pytest.fixture(scope="module")
def table(site: Site) -> str:
    return site.table(FIELDS, records=RECORDS, aliases="fruit")


def _op(word: str, field: str | None, value: Any) -> dict[str, Any]:
    return {"op": word, "field": field, "value": value}


@pytest.mark.parametrize(
    ("filters", "operations"),
    [
        ({"n": 1}, _op("eq", "n", 1)),
        ({"n": [1, 2]}, _op("in", "n", [1, 2])),
        ({"$and": [{"n": 1}]}, _op("eq", "n", 1)),
        ({"n": {"gte": 1, "lt": 3}}, _op("$and", None, [_op("gte", "n", 1), _op("lt", "n", 3)])),
        ({"n": [{"eq": 1}, 2]}, _op("$or", None, [_op("eq", "n", 1), _op("in", "n", [2])])),
        (
            {"$and": [{"$or": [{"n": 1}, {"n": 2}]}, {"ok": True}]},
            _op("$and", None, [_op("$or", None, [_op("eq", "n", 1), _op("eq", "n", 2)]), _op("eq", "ok", True)]),
        ),
        ([{"n": 1}], _op("$or", None, [_op("eq", "n", 1)])),
    ],
)
def test_filters_are_echoed_as_operations(site: Site, table: str, filters: Any, operations: Any) -> None:
    found = site.search(table, filters=filters)
    assert (found["filters"], found["filterops"]) == (filters, operations)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"n": 1.5}, []),
        ({"n": 1.0}, [1]),
        ({"n": [2, 2.5, 2**40]}, [2]),
        ({"n": {"gt": 1.5}}, [2, 3]),
        ({"n": {"gte": 2.5}}, [3]),
        ({"n": {"lt": 1.5}}, [1]),
        ({"n": {"lte": 2.5}}, [1, 2]),
        ({"n": {"lt": 2**40}}, [1, 2, 3]),
        ({"n": {"gt": 2**40}}, []),
        ({"n": {"gt": -(2**40)}}, [1, 2, 3]),
        ({"n": {"lte": -(2**31) - 0.5}}, []),
    ],
)
def test_integers_are_compared_with_any_number(site: Site, table: str, filters: Any, expected: list[int]) -> None:
    assert [row[0] for row in site.rows(table, filters=filters, fields="n")] == expected


@pytest.mark.parametrize("filters", ["", "x", [], [{}], [{"n": 1}], {"n": {}}, {"$or": []}, {"$or": [{}]}])
@pytest.mark.parametrize("action", ["datastore_delete", "datastore_records_delete"])
def test_nothing_is_deleted_by_filters_that_say_nothing(site: Site, table: str, action: str, filters: Any) -> None:
    assert "filters" in site.error(action, resource_id=table, filters=filters)
    assert site.search(table)["total"] == 3


def test_what_is_echoed_of_a_search(site: Site, table: str) -> None:
    found = site.search(table, plain="false", distinct=0, sort=None, language=None, q=None, fields=["n"], limit=10**30)
    assert (found["plain"], found["distinct"], found["limit"]) == (False, False, 32_000)
    assert not {"sort", "language", "q", "filterops"} & set(found)


def test_ranks_are_named_after_the_fields_looked_through(site: Site, table: str) -> None:
    found = site.search(table, q={"name": "red"})
    assert [field["id"] for field in found["fields"]] == ["_id", "n", "name", "ok", "rank name"]
    assert found["records"][0]["rank name"] == pytest.approx(0.057308756, abs=1e-8)
    found = site.search(table, q={"name": "red"}, fields='"rank name",n', records_format="lists", full_text="apple")
    assert found["fields"][0] == {"id": "rank name", "type": "float"}
    assert found["records"][0][1] == 1
    assert site.error("datastore_search", resource_id=table, q={"name": "red"}, fields="rank") == {
        "fields": ['invalid value "rank"']
    }


def test_pages_go_on_also_where_their_numbers_are_not_asked_for(site: Site, table: str) -> None:
    found = site.search(table, fields=["n"], limit=2, include_next_page=True)
    assert found["records"] == [{"n": 1}, {"n": 2}]
    assert found["fields"] == [{"id": "n", "type": "int4"}]
    assert found["next_page"] == {"_id": {"gt": 2}}
    assert site.search(table, fields=[], limit=1)["records"] == [{"_id": 1, **RECORDS[0]}]


def test_id_counts_before_resource_id(site: Site, table: str) -> None:
    assert site.search(table, id="fruit")["resource_id"] == table
    assert site.act("datastore_search", 404, resource_id=table, id="nope")["__type"] == "Not Found Error"


def test_what_is_echoed_of_a_table_that_is_made(site: Site) -> None:
    package = site.act("package_create", name="echoes")["id"]
    made = site.act(
        "datastore_create", resource={"package_id": package, "name": "e"}, fields=[{"id": "a", "type": None}],
        records=[{"a": 1, "b": "x"}], primary_key=["a", "a"], indexes=None,
    )  # fmt: skip
    table = made.pop("resource_id")
    assert made == {
        "calculate_record_count": "background",
        "delete_fields": False,
        "fields": [{"id": "a", "type": "int4"}],
        "method": "insert",
        "primary_key": ["a", "a"],
        "resource": {"package_id": package, "name": "e", "url": "_datastore_only_resource"},
    }
    # A key of the first record that is no field has become one, and a type that is said again changes nothing.
    assert site.rows(table) == [[1, 1, "x"]]
    site.act("datastore_create", resource_id=table, fields=[{"id": "a", "type": "text"}], records=[{"a": 2, "c": 1.5}])
    assert [f["type"] for f in site.search(table)["fields"]] == ["int", "int4", "text", "float8"]


@pytest.mark.parametrize(
    ("parameters", "faults"),
    [
        ({"fields": [{"type": "int"}]}, {"fields": [{"id": ["Missing value"]}]}),
        ({"fields": FIELDS, "records": ["x"]}, {"records": ["The first row is not a json object"]}),
        (
            {"fields": FIELDS, "calculate_record_count": "maybe"},
            {"calculate_record_count": ["Value must be boolean or one of: background"]},
        ),
        ({"fields": FIELDS, "aliases": ["twice", "twice"]}, {"alias": ['The alias "twice" already exists.']}),
    ],
)
def test_what_is_refused_of_a_table(site: Site, parameters: dict[str, Any], faults: Any) -> None:
    package = site.act("package_show", id="echoes")["id"]
    assert site.error("datastore_create", resource={"package_id": package}, **parameters) == faults


def test_triggers_are_refused(site: Site, table: str) -> None:
    assert "triggers" in site.error("datastore_create", resource_id=table, triggers=[{"function": "f"}])


def test_a_posted_callback_is_no_parameter(site: Site, table: str) -> None:
    assert site.search(table, callback="f", limit=1)["records"] == [{"_id": 1, **RECORDS[0]}]


def test_xml_says_booleans_and_nothing_as_ckan_does(site: Site) -> None:
    table = site.table(
        [{"id": "ok", "type": "bool"}, {"id": "js", "type": "json"}], records=[{"ok": True, "js": {"a": None}}]
    )
    text = site.get(f"/datastore/dump/{table}", format="xml").text
    assert '<ok>True</ok><js><value xsi:nil="true" key="a" /></js>' in text
