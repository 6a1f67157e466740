"""Packages of procedures wherever a user of CKAN looks for packages, and SQL over their resources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.ckan_support import Site
from tests.store.support import STEP, T0, WAIT_S, Station, block, fill, insert, register

from thalweg.services import made_packages

PACKAGE = "procedures-of-default"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def names(site: Site, **query: Any) -> list[str]:
    return [item["name"] for item in site.act("package_search", token="", **query)["results"]]


def facets(*fields: str, least: int = 1) -> dict[str, Any]:
    return {"facet.field": fields, "facet.mincount": least}


def resource_of(site: Site, station: Station) -> str:
    shown = site.act("package_show", id=PACKAGE)
    (found,) = [item["id"] for item in shown["resources"] if item["name"] == station.procedure.identifier]
    return str(found)


def hide(site: Site, station: Station) -> None:
    changed = replace(station.procedure, public=False)
    site.store.update_procedure(station.workspace_id, changed).result(WAIT_S)


def test_package_search_finds_the_package_of_procedures_after_the_others(site: Site) -> None:
    register(site.store, "LUGANO")
    for name in ("aaa-levels", "zzz-lugano"):
        site.act("package_create", name=name)
    assert names(site) == ["zzz-lugano", "aaa-levels", PACKAGE]
    found = site.act("package_search", token="", rows=1, start=2)
    assert (found["count"], [item["name"] for item in found["results"]]) == (3, [PACKAGE])
    assert found["results"][0] == site.act("package_show", id=PACKAGE, token="")
    assert site.act("package_search", token="", rows=0)["count"] == 3
    assert names(site, start=3) == []
    assert names(site, sort="name asc", rows=2) == ["aaa-levels", "zzz-lugano"]


@pytest.mark.parametrize(
    ("q", "found"),
    [
        ("lugano", True), ("LUGANO", True), ("Lugáno", True), ("luganos", True), ("lug", False), ("lug*", True),
        ("procedure", True), ("locarno", False), ("-lugano", False), ("lugano AND observations", True),
        ("lugano AND locarno", False), ("lugano OR locarno", True), (f"name:{PACKAGE}", True), ("name:other", False),
        ("organization:default", True), ("organization:other", False), ("capacity:public", True),
        ("state:active", True), ("dataset_type:dataset", True), ("title:procedures", True), ("tags:none", False),
        ("name:[a TO z]", True), ("name:[a TO b]", False), ("name:procedures*", True), ("res_format:CSV", True),
        ("res_format:JSON", False),
        ('"observations of LUGANO"', True), ('"LUGANO of observations"', False), ("res_name:*LUGANO", True),
        ("metadata_modified:[2020-01-01T00:00:00Z TO *]", False), ("*:*", True),
    ],
)  # fmt: skip
def test_words_and_fields_find_it_or_not(site: Site, q: str, found: bool) -> None:
    register(site.store, "LUGANO")
    assert names(site, q=q) == ([PACKAGE] if found else [])
    assert names(site, fq=q) == ([PACKAGE] if found else [])


def test_facets_and_counts_include_it(site: Site) -> None:
    register(site.store)
    site.act("package_create", name="other", tags=[{"name": "water"}])
    found = site.act("package_search", token="", **facets("organization", "tags", "capacity"))
    assert found["facets"] == {"organization": {"default": 2}, "tags": {"water": 1}, "capacity": {"public": 2}}
    (items,) = [found["search_facets"]["organization"]["items"]]
    assert [(item["name"], item["count"]) for item in items] == [("default", 2)]
    least = site.act("package_search", token="", **facets("organization", "tags", least=2))
    assert least["facets"] == {"organization": {"default": 2}, "tags": {}}
    (owner,) = site.act("organization_list", all_fields=True, token="")
    assert owner["package_count"] == 2
    shown = site.act("organization_show", id="default", include_datasets=True, token="")
    assert (shown["package_count"], [item["name"] for item in shown["packages"]]) == (2, ["other", PACKAGE])


def test_lists_autocomplete_and_resource_search(site: Site) -> None:
    station = register(site.store, "LUGANO")
    site.act("package_create", name="other", resources=[{"name": "lugano.csv", "url": "http://example.org/a.csv"}])
    current = site.act("current_package_list_with_resources", token="")
    assert [item["name"] for item in current] == ["other", PACKAGE]
    assert current[1]["resources"][0]["name"] == station.procedure.identifier
    assert [item["name"] for item in site.act("package_autocomplete", q="proced", token="")] == [PACKAGE]
    found = site.act("resource_search", query="name:lugano", token="")
    assert (found["count"], [item["name"] for item in found["results"]]) == (
        2, ["lugano.csv", station.procedure.identifier],
    )  # fmt: skip
    assert site.act("resource_search", query="name:lugano", limit=1, offset=1, token="")["results"] == [
        site.act("resource_show", id=resource_of(site, station), token="")
    ]
    assert site.act("resource_search", query=["name:lugano", "format:csv"], token="")["count"] == 2
    assert site.act("resource_search", query=["name:lugano", "format:json"], token="")["count"] == 0
    # Only packages that someone changed.
    changes = site.act("recently_changed_packages_activity_list", token="")
    assert [item["data"]["package"]["name"] for item in changes] == ["other"]


def test_what_is_hidden_is_found_by_those_alone_who_may_read_it(site: Site) -> None:
    seen, hidden = register(site.store, "LUGANO"), register(site.store, "SECRET")
    hide(site, hidden)
    for q in ("secret", "res_name:*SECRET", "sec*"):
        assert names(site, q=q) == []
        assert site.act("package_search", q=q)["count"] == 1
    assert site.act("resource_search", query="name:secret", token="")["count"] == 0
    assert site.act("resource_search", query="name:secret")["count"] == 1
    hide(site, seen)
    assert site.act("package_search", token="")["count"] == 0
    assert site.act("organization_list", all_fields=True, token="")[0]["package_count"] == 0


def test_patterns_of_a_search_are_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(3):
        register(site.store, f"S{i}")
    monkeypatch.setattr(made_packages, "MAX_COMPARED", 5)
    error = site.act("package_search", 400, q="NOT res_name:*x AND NOT res_name:*y")
    assert error["__type"] == "Search Query Error"
    assert site.act("package_search", q="NOT res_name:*x")["count"] == 1
    # Of all workspaces together.
    site.act("organization_create", name="hydro")
    register(site.store, "S9", workspace_id=site.store.workspaces()["hydro"].id)
    assert site.act("package_search", q="NOT res_name:*x")["count"] == 2
    monkeypatch.setattr(made_packages, "MAX_COMPARED", 3)
    assert site.act("package_search", 400, q="NOT res_name:*x")["__type"] == "Search Query Error"


# ------------------------------------------------------------------ SQL


def test_sql_reads_a_procedure_as_search_does(site: Site) -> None:
    station = register(site.store)
    fill(site.store, station, 3_000)
    key = resource_of(site, station)
    newest = site.act("datastore_search_sql", token="", sql=f'SELECT * FROM "{key}" ORDER BY time DESC LIMIT 2')  # noqa: S608
    searched = site.search(key, fields=None, sort="time desc", limit=2)
    assert newest["records"] == searched["records"]
    # The number is an int of eight bytes; searches call every number "int", as CKAN does.
    assert [(f["id"], f["type"]) for f in newest["fields"]][1:] == [(f["id"], f["type"]) for f in searched["fields"]][
        1:
    ]
    assert (newest["fields"][0]["type"], searched["fields"][0]["type"]) == ("int8", "int")
    info = site.act("datastore_info", id=key, token="")
    assert [(f["id"], f["type"]) for f in info["fields"]] == [(f["id"], f["type"]) for f in newest["fields"]][1:]
    schema = {f["id"]: f["schema"]["native_type"] for f in info["fields"]}
    assert schema["time"] == "timestamp with time zone"


def test_sql_joins_a_procedure_with_a_table_and_another_one(site: Site) -> None:
    a, b = register(site.store, "A"), register(site.store, "B")
    fill(site.store, a, 100)
    insert(site.store, b, block([T0 + 3 * STEP, T0 + 5 * STEP], {b.ids[0]: [1.0, 2.0]}))
    table = site.table(
        [{"id": "at", "type": "timestamptz"}, {"id": "note", "type": "text"}],
        records=[{"at": "2014-05-13T17:30:00Z", "note": "cleaned"}],
    )
    one, two = resource_of(site, a), resource_of(site, b)
    sql = (
        f'SELECT t.note, x."air:temperature" AS a, y."air:temperature" AS b FROM "{one}" x '  # noqa: S608
        f'JOIN "{two}" y ON x.time = y.time LEFT JOIN "{table}" t ON t.at = x.time ORDER BY x.time'
    )
    # Rows 3 and 5: 21 and 35 tenths, modulo 300.
    assert site.act("datastore_search_sql", token="", sql=sql)["records"] == [
        {"note": "cleaned", "a": 2.1, "b": 1.0}, {"note": None, "a": 3.5, "b": 2.0},
    ]  # fmt: skip


def test_sql_of_a_hidden_procedure_is_refused_in_any_place(site: Site) -> None:
    hidden, seen = register(site.store, "SECRET"), register(site.store, "LUGANO")
    fill(site.store, hidden, 3)
    secret, open_one = resource_of(site, hidden), resource_of(site, seen)
    hide(site, hidden)
    for sql in (
        'SELECT * FROM "{0}"',
        'SELECT (SELECT count(*) FROM "{0}") AS n',
        'SELECT 1 FROM "{1}" x WHERE EXISTS (SELECT 1 FROM "{0}" y WHERE x.time = y.time)',
    ):
        sql = sql.format(secret, open_one)
        site.act("datastore_search_sql", 404, token="", sql=sql)
        assert site.act("datastore_search_sql", sql=sql) is not None


def test_names_of_features_and_packages_are_no_tables(site: Site) -> None:
    station = register(site.store)
    for name in (station.procedure.identifier, station.procedure.name, PACKAGE, "made_1"):
        site.act("datastore_search_sql", 404, token="", sql=f'SELECT * FROM "{name}"')  # noqa: S608
