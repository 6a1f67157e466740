"""Requests by which others were broken, at the CKAN door: an error of CKAN's own, and nothing changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.conformance.ckan_support import Site

from thalweg.domain.table_values import MAX_DIGITS, MAX_JSON_DEPTH
from thalweg.domain.tables import MAX_ALIASES, MAX_FIELD_NAME, MAX_FIELDS, MAX_INDEXES
from thalweg.doors.ckan import describing, filters, reading, transport
from thalweg.services.tables import MAX_DOCUMENT_BYTES
from thalweg.store.sqlite.table_text import MAX_TEXT, MAX_WORDS

SQL = (
    "1; DROP TABLE package;--",
    "' OR '1'='1", '" OR 1=1 --', "n) OR (1=1", "(SELECT 1)", "n UNION SELECT * FROM account",
    "sqlite_schema", "record_1", "f1", "rowid", "oid", "n COLLATE NOCASE", "n/**/desc", "n;desc", "\\'; --", "$$x$$",
)  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("attacks"), login_tries=10)
    yield made
    assert list(made.store.check()) == []
    made.close()


@pytest.fixture(scope="module")
def table(site: Site) -> str:
    return site.table([{"id": "n", "type": "int"}, {"id": "s", "type": "text"}], records=[{"n": 1, "s": "one"}])


def post(site: Site, action: str, body: bytes) -> Any:
    headers = {"Content-Type": "application/json", "Authorization": site.token}
    return site.send("POST", f"/api/action/{action}", content=body, headers=headers)


@pytest.mark.parametrize("text", SQL)
@pytest.mark.parametrize(
    "parameter", ["filters", "fields", "sort", "distinct", "language", "q", "limit", "resource_id"]
)
def test_sql_in_parameters_is_no_sql(site: Site, table: str, parameter: str, text: str) -> None:
    before = site.rows(table)
    for value in (text, [text], {text: text}, {"n": text}, [{text: [text]}]):
        given = {"resource_id": table, parameter: value}
        answer = post(site, "datastore_search", json.dumps(given).encode())
        assert answer.status_code in (200, 404, 409), (value, answer.text)
        if answer.status_code == 200 and parameter != "language":
            records = answer.json()["result"]["records"]
            assert records in ([], [{"_id": 1, "n": 1, "s": "one"}], [{"n": 1}]) or parameter == "q", (value, records)
    assert site.rows(table) == before


@pytest.mark.parametrize("number", [-1, 10**30, "-1", "1e3", "10" * 40, "0x10", "\uff11", True, [1], {"a": 1}, 1.5])
@pytest.mark.parametrize("parameter", ["limit", "offset"])
def test_numbers_out_of_bounds_are_named(site: Site, table: str, parameter: str, number: Any) -> None:
    answer = post(site, "datastore_search", json.dumps({"resource_id": table, parameter: number}).encode())
    assert answer.status_code in (200, 409), answer.text
    if answer.status_code == 409:
        assert parameter in answer.json()["error"]
    else:
        assert len(answer.json()["result"]["records"]) <= 1


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000 + b"]" * 200_000, b'{"a":' * 200_000, b'{"limit": ' + b"9" * 10**6 + b"}", b'{"limit": NaN}',
        b'{"limit": Infinity}', b'{"q": "\\ud800"}', b'{"limit": 1, "limit": 2}', b"[]", b"[1]", b'"x"', b"null", b"12",
        b"{", b'{"a"', b"\xff\xfe{\x00}\x00", b'{"q": "\xff"}', b"", b" ", b'{"resource_id": {"a": 1}}',
    ],
    ids=lambda body: repr(body[:20]),
)  # fmt: skip
def test_odd_json_is_an_error_of_ckans(site: Site, body: bytes) -> None:
    answer = post(site, "datastore_search", body)
    assert answer.status_code in (400, 404, 409), answer.text[:300]
    answer.json()


def test_fields_beyond_measure_and_names_that_end_statements(site: Site, table: str) -> None:
    resource = {"package_id": site.store.packages()[0].name}
    many = [{"id": f"c{n}", "type": "int"} for n in range(20_000)]
    assert site.error("datastore_create", resource=resource, fields=many) == {
        "fields": [f"A table has at most {MAX_FIELDS} fields."]
    }
    for name in (
        'a"); DROP TABLE package;--',
        "a\0b",
        "_id",
        "_x",
        "",
        " a",
        "a\nb",
        "x" * (MAX_FIELD_NAME + 1),
        "\ud800",
    ):
        answer = post(
            site,
            "datastore_create",
            json.dumps({"resource": resource, "fields": [{"id": name, "type": "int"}]}).encode(),
        )
        assert answer.status_code == (400 if name == "\ud800" else 409), (name, answer.text)
    legal = ["a'); DROP TABLE package;--", "select", "ü", "a b", "a.b", "{f1}", "%s", "a$1", "a;b", "f1", "id", "rowid"]
    made = site.table([{"id": name, "type": "text"} for name in legal], records=[dict.fromkeys(legal, "x")])
    assert site.search(made, filters=dict.fromkeys(legal, "x"), sort=[f'"{legal[0]}" desc'])["total"] == 1
    assert [field["id"] for field in site.search(made)["fields"]] == ["_id", *legal]


def test_numbers_of_indexes_aliases_and_sizes_of_values(site: Site, table: str) -> None:
    fields = [{"id": f"c{n}", "type": "int"} for n in range(MAX_INDEXES + 1)]
    resource = {"package_id": site.store.packages()[0].name}
    many = [f"c{n}" for n in range(MAX_INDEXES + 1)]
    assert "index" in site.error("datastore_create", resource=resource, fields=fields, indexes=many)
    aliases = [f"a{n}" for n in range(MAX_ALIASES + 1)]
    assert "alias" in site.error("datastore_create", resource=resource, fields=fields, aliases=aliases)
    numeric = site.table([{"id": "x", "type": "numeric"}, {"id": "j", "type": "json"}])
    deep: Any = 1
    for _ in range(MAX_JSON_DEPTH + 1):
        deep = [deep]
    for record in ({"x": "9" * (MAX_DIGITS + 1)}, {"x": "1e-1001"}, {"j": deep}):
        answer = post(
            site,
            "datastore_upsert",
            json.dumps({"resource_id": numeric, "method": "insert", "records": [record]}).encode(),
        )
        assert answer.status_code in (400, 409), answer.text
    assert site.rows(numeric) == []


def test_searches_beyond_measure_are_named(site: Site, table: str) -> None:
    deep: Any = {"n": 1}
    for _ in range(filters.MAX_DEPTH + 1):
        deep = {"$and": [deep]}
    assert "filters" in site.error("datastore_search", resource_id=table, filters=deep)
    wide = {"$or": [{"n": n} for n in range(filters.MAX_OPERATIONS + 1)]}
    assert "filters" in site.error("datastore_search", resource_id=table, filters=wide)
    assert "q" in site.error("datastore_search", resource_id=table, q="x" * (MAX_TEXT + 1))
    assert "q" in site.error("datastore_search", resource_id=table, q="x " * (MAX_WORDS + 1))
    names = ["n"] * (reading._MAX_LIST + 1)
    assert "fields" in site.error("datastore_search", resource_id=table, fields=names)
    query = "&".join(f"p{n}=1" for n in range(transport.MAX_PARAMETERS + 1))
    assert site.get(f"/api/action/datastore_search?{query}").status_code == 400


def test_packages_beyond_measure_are_named(site: Site) -> None:
    for given in (
        {"tags": [{"name": f"t{n}"} for n in range(describing.MAX_TAGS + 1)]},
        {"extras": [{"key": f"k{n}", "value": "v"} for n in range(describing.MAX_EXTRAS + 1)]},
        {"resources": [{"url": f"http://example.org/{n}"} for n in range(describing.MAX_RESOURCES + 1)]},
        {"notes": "x" * (MAX_DOCUMENT_BYTES + 1)},
    ):
        site.act("package_create", 409, name="too-much", **given)
    assert not any(package.name == "too-much" for package in site.store.packages())


def test_lines_of_a_head_cannot_be_made(site: Site) -> None:
    name = "a\r\nX-Injected: 1"
    site.act("package_create", name="lines")
    made = site.act(
        "datastore_create", resource={"package_id": "lines", "name": name}, fields=[{"id": "a", "type": "int"}]
    )
    for format in ("csv", "json", "xml", "tsv"):
        answer = site.get(f"/datastore/dump/{made['resource_id']}?format={format}")
        assert answer.status_code == 200
        assert "x-injected" not in answer.headers
        assert "\n" not in answer.headers.get("content-disposition", "")


@pytest.mark.parametrize(
    "name", ["__class__", "../../etc/passwd", "%2e%2e/x", "datastore_search/../x", "", "a" * 5000, "\0"]
)
def test_names_of_actions_are_those_of_a_table(site: Site, name: str) -> None:
    from urllib.parse import quote

    answer = site.get(f"/api/3/action/{quote(name)}")
    assert answer.status_code in (400, 404)


@pytest.mark.parametrize(
    "action", ["datastore_create", "datastore_upsert", "datastore_delete", "datastore_records_delete"]
)
def test_force_does_nothing_for_nobody(site: Site, table: str, action: str) -> None:
    before = site.rows(table)
    given = {"filters": {}} if "delete" in action else {"records": [{"n": 2}]}
    site.act(action, 403, token="", resource_id=table, force=True, **given)
    assert site.rows(table) == before
