"""The DataStore by its actions: what users of CKAN asked for and reported, with the outcome that is right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from lxml import etree
from tests.conformance.ckan_support import Site

from thalweg.doors.ckan import search

BOOKS = [
    {"b": "annakarenina", "author": "tolstoy", "published": "2005-03-01", "n": [1, 2], "d": {"a": 1.50}},
    {"b": "warandpeace", "author": "tolstoy", "d": {"a": 2}},
    {"b": "faust", "author": "goethe", "published": "1808-01-01"},
]
FIELDS = [
    {"id": "b", "type": "text", "info": {"label": "Book"}},
    {"id": "author", "type": "text"},
    {"id": "published", "type": "timestamp"},
    {"id": "n", "type": "int[]"},
    {"id": "d", "type": "json"},
]


@pytest.fixture(scope="module")
def books(site: Site) -> str:
    return site.table(FIELDS, records=BOOKS, primary_key="b", indexes=["author"], aliases="books")


# ------------------------------------------------------------------ search


def test_search_says_all_that_clients_read(site: Site, books: str) -> None:
    found = site.search(books)
    assert found["total"] == 3
    assert found["resource_id"] == books
    assert (found["limit"], found["include_total"], found["records_format"]) == (100, True, "objects")
    assert found["records"][0] == {
        "_id": 1, "b": "annakarenina", "author": "tolstoy", "published": "2005-03-01T00:00:00.000", "n": [1, 2],
        "d": {"a": 1.5},
    }  # fmt: skip
    assert found["records"][1]["published"] is None
    assert found["fields"] == [
        {"id": "_id", "type": "int"},
        {"id": "b", "type": "text", "info": {"label": "Book"}},
        {"id": "author", "type": "text"},
        {"id": "published", "type": "timestamp"},
        {"id": "n", "type": "_int4"},
        {"id": "d", "type": "json"},
    ]
    assert "offset" not in found


def test_alias_answers_with_the_real_id(site: Site, books: str) -> None:
    assert site.search("books", limit=1)["resource_id"] == books


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"author": "tolstoy"}, [1, 2]),
        ({"author": ["goethe", "tolstoy"]}, [1, 2, 3]),
        ({"author": []}, []),
        ({"author": None}, []),
        ([{"b": "faust"}, {"b": "warandpeace"}], [2, 3]),
        ({"published": {"gte": "1900-01-01", "lt": "2006-01-01"}}, [1]),
        ({"published": {"lt": "2005-03-01T00:00:00"}}, [3]),
        ({"published": {"lte": "2005-03-01"}}, [1, 3]),
        ({"b": {"in": ["faust"]}}, [3]),
        ({"b": ["faust", {"gt": "w"}]}, [2, 3]),
        ({"$or": [{"b": "faust"}, {"$and": [{"author": "tolstoy"}, {"b": {"eq": "warandpeace"}}]}]}, [2, 3]),
        ({"_id": {"gt": 2}}, [3]),
        ({"n": [[1, 2]]}, [1]),
        ({}, [1, 2, 3]),
    ],
)
def test_filters(site: Site, books: str, filters: Any, expected: list[int]) -> None:
    found = site.search(books, filters=filters)
    assert [r["_id"] for r in found["records"]] == expected
    assert found["total"] == len(expected)
    # The same as text in an address.
    answer = site.get("/api/3/action/datastore_search", resource_id=books, filters=json.dumps(filters))
    assert [r["_id"] for r in answer.json()["result"]["records"]] == expected


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"q": "tolstoy"}, {1, 2}),
        ({"q": {"b": "tolstoy"}}, set()),
        ({"q": {"b": "faust", "author": "goethe"}}, {3}),
        ({"q": '{"b": "anna:*"}', "plain": False}, {1}),
        ({"full_text": "goethe"}, {3}),
        ({"full_text": "tolstoy", "q": {"b": "warandpeace"}}, {2}),
        ({"q": '"b":"faust"'}, set()),
        ({"q": "goethe", "language": "simple"}, {3}),
        ({"q": "2005"}, {1}),
    ],
)
def test_words(site: Site, books: str, parameters: dict[str, Any], expected: set[int]) -> None:
    found = site.search(books, **parameters)
    assert {r["_id"] for r in found["records"]} == expected
    assert found["total"] == len(expected)
    assert found["fields"][-1]["id"] in ("rank", "rank b", "rank author")
    assert found["fields"][-1]["type"] == "float"


def test_sort_fields_distinct_and_limits(site: Site, books: str) -> None:
    assert site.rows(books, sort="author, b desc", fields="b") == [["faust"], ["warandpeace"], ["annakarenina"]]
    assert site.rows(books, sort=["published desc nulls last"], fields=["_id"]) == [[1], [3], [2]]
    found = site.search(books, fields=["author"], distinct=True, limit=1)
    assert (found["records"], found["total"]) == ([{"author": "goethe"}], 2)
    found = site.search(books, limit=0)
    assert (found["records"], found["total"]) == ([], 3)
    assert site.search(books, limit=50_000)["limit"] == 32_000
    assert site.search(books, total_estimation_threshold=10)["total"] == 3


def test_no_fields_named_are_all_of_them(site: Site, books: str) -> None:
    """As CKAN 2.12 has it."""
    for form in ("objects", "lists", "csv"):
        asked = {"resource_id": books, "records_format": form, "limit": 1}
        everything, named = site.act("datastore_search", **asked), site.act("datastore_search", **asked, fields=[])
        assert named["records"] == everything["records"]
        assert named["fields"] == everything["fields"]


def test_total_only_when_asked_for(site: Site, books: str) -> None:
    assert "total" not in site.search(books, include_total=False)
    assert "total" not in site.search(books, include_total="nonsense")
    assert "total" in site.search(books, include_total="yes")


@pytest.mark.parametrize("more", [{"filters": '{"author": "tolstoy"}'}, {"q": "tolstoy"}, {"sort": "b"}])
def test_a_page_from_a_thread_is_the_same_as_one_given_at_once(
    site: Site, books: str, more: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"resource_id": books, "limit": "1", **more}

    def bodies() -> list[bytes]:
        # Of a text met first, of one met before, and with another offset.
        answers = [site.get("/api/action/datastore_search", **asked, offset=offset) for offset in ("0", "0", "1")]
        assert [answer.status_code for answer in answers] == [200, 200, 200]
        return [answer.content for answer in answers]

    at_once = bodies()
    assert at_once[0] == at_once[1]
    # 2 of the 3 books are Tolstoy's; all are sorted.
    records = [json.loads(body)["result"] for body in at_once[1:]]
    assert [found["total"] for found in records] == [3 if "sort" in more else 2] * 2
    assert records[0]["records"] != records[1]["records"]
    monkeypatch.setattr(search, "MAX_INLINE_ROWS", 0)
    assert bodies() == at_once


def test_record_formats(site: Site, books: str) -> None:
    assert site.rows(books, fields="_id,b", limit=1) == [[1, "annakarenina"]]
    csv = site.search(books, records_format="csv", limit=2)["records"]
    assert csv == (
        '1,annakarenina,tolstoy,2005-03-01T00:00:00.000,"[1,2]","{""a"":1.5}"\n2,warandpeace,tolstoy,,,"{""a"":2}"\n'
    )
    assert site.search(books, records_format="tsv", fields="_id,b", limit=1)["records"] == "1\tannakarenina\n"


def test_links_and_next_page_lead_through_all_records(site: Site) -> None:
    table = site.table([{"id": "n", "type": "int"}], records=[{"n": i} for i in range(25)])
    seen: list[int] = []
    path = f"/api/3/action/datastore_search?resource_id={table}&limit=10"
    while True:
        result = site.get(path).json()["result"]
        if not result["records"]:
            break
        seen += [r["n"] for r in result["records"]]
        path = result["_links"]["next"]
    assert seen == list(range(25))
    assert parse_qs(urlsplit(path).query)["offset"] == ["30"]
    assert "offset=20" in result["_links"]["prev"]
    seen, filters = [], {}
    while True:
        result = site.search(table, limit=10, include_next_page=True, filters=filters)
        seen += [r["n"] for r in result["records"]]
        if not result["records"]:
            assert "next_page" not in result
            break
        filters = result["next_page"]
    assert seen == list(range(25))
    down = site.search(table, limit=5, include_next_page=True, sort="_id desc")
    assert down["next_page"] == {"_id": {"lt": 21}}
    assert "next_page" not in site.search(table, include_next_page=True, sort="n")


def test_remembered_requests_answer_as_new_ones(site: Site) -> None:
    """The same requests again and again, with other offsets, while the table changes."""
    table = site.table([{"id": "n", "type": "int"}, {"id": "offset", "type": "int"}], records=[{"n": 0, "offset": 7}])
    queries = [
        {"resource_id": table},
        {"resource_id": table, "limit": 2, "offset": 1},
        {"resource_id": table, "limit": 2, "offset": 2},
        {"resource_id": table, "limit": 2, "offset": 3, "include_next_page": "true"},
        {"resource_id": table, "filters": '{"offset": 7}', "offset": 0},
        {"resource_id": table, "sort": "n desc", "limit": 3, "offset": 1, "fields": "n"},
    ]
    expected_rows = [(0, 7)]
    for step in range(1, 6):
        for query in queries:
            for way in ("get", "json"):
                for _ in range(3):
                    if way == "get":
                        answer = site.get("/api/3/action/datastore_search", **query)
                    else:
                        body = {**query, "offset": int(query.get("offset", 0))}
                        answer = site.send("POST", "/api/3/action/datastore_search", json=body)
                    result = answer.json()["result"]
                    offset = int(query.get("offset", 0))
                    rows = [r for r in expected_rows if "filters" not in query or r[1] == 7]
                    if "sort" in query:
                        rows = rows[::-1]
                    rows = rows[offset : offset + int(query.get("limit", 100))]
                    assert [r["n"] for r in result["records"]] == [r[0] for r in rows]
                    assert result.get("offset", 0) == offset
                    assert f"offset={offset + result['limit']}" in result["_links"]["next"]
        site.act("datastore_upsert", resource_id=table, method="insert", records=[{"n": step}])
        expected_rows.append((step, None))  # type: ignore[arg-type]
    site.act("datastore_delete", resource_id=table, filters={})
    assert site.get("/api/3/action/datastore_search", **queries[0]).json()["result"]["total"] == 0
    site.act("datastore_delete", resource_id=table)
    assert site.get("/api/3/action/datastore_search", **queries[0]).status_code == 404


def test_long_table_is_looked_through_beside_the_event_loop(site: Site) -> None:
    table = site.table([{"id": "n", "type": "int"}, {"id": "s", "type": "text"}])
    site.store.load_records(site.store.table(table), [(i, f"w{i % 9}") for i in range(11_000)])
    for _ in range(3):
        found = site.search(table, filters={"n": {"gte": 10_990}}, limit=3)
        assert ([r["n"] for r in found["records"]], found["total"]) == ([10_990, 10_991, 10_992], 10)
        answer = site.get("/api/3/action/datastore_search", resource_id=table, q="w3", limit=2, callback="cb")
        assert answer.text.startswith("cb({")
        assert json.loads(answer.text[3:-2])["result"]["total"] == 1222
        found = site.search(table, limit=5000, offset=10_000, records_format="lists")
        assert ([r[1] for r in found["records"]], found["total"]) == (list(range(10_000, 11_000)), 11_000)
        assert site.error("datastore_search", resource_id=table, q="a &", plain=False)["query"] == ["Invalid query"]


def test_private_table_is_closed_at_once_also_to_remembered_requests(site: Site) -> None:
    site.act("package_create", name="closing")
    table = site.act("datastore_create", resource={"package_id": "closing"}, records=[{"a": 1}])["resource_id"]
    for _ in range(3):
        assert site.get("/api/3/action/datastore_search", resource_id=table).status_code == 200
    site.act("package_delete", id="closing")
    answer = site.get("/api/3/action/datastore_search", resource_id=table)
    assert answer.status_code == 403
    assert answer.json()["error"]["__type"] == "Authorization Error"


# ------------------------------------------------------------------ create


def test_types_are_guessed_from_the_first_record(site: Site) -> None:
    record = {
        "i": 1, "big": 5_000_000_000, "f": 1.5, "t": "2020-01-02T03:04:05", "s": "abc", "ti": "17", "tn": "1.5",
        "j": {"a": 1}, "l": [1], "ok": True, "d": "31/12/2020", "none": None,
    }  # fmt: skip
    table = site.table(records=[record])
    types = {f["id"]: f["type"] for f in site.search(table)["fields"]}
    assert types == {
        "_id": "int", "i": "int4", "big": "int8", "f": "float8", "t": "timestamp", "s": "text", "ti": "int4",
        "tn": "numeric", "j": "json", "l": "json", "ok": "bool", "d": "text", "none": "text",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("parameters", "faults"),
    [
        ({"fields": [{"id": "a", "type": "notype"}]}, {"fields": ['"notype" is not a valid field type']}),
        ({"fields": [{"id": "_a"}]}, {"fields": [{"id": ['"_a" is not a valid field name']}]}),
        ({"fields": [{"id": "a"}]}, {"fields": ['"a" type not guessable']}),
        (
            {"fields": [{"id": "x" * 64, "type": "text"}]},
            {"fields": [f'Column heading "{"x" * 64}" exceeds limit of 63 characters.']},
        ),
        (
            {"fields": [{"id": "a", "type": "text"}, {"id": "a", "type": "text"}]},
            {"field": ["Duplicate column names are not supported"]},
        ),
        (
            {"fields": [{"id": "a", "type": "text"}], "indexes": "zz"},
            {"index": ['The field "zz" is not a valid column name.']},
        ),
        (
            {"fields": [{"id": "a", "type": "text"}], "primary_key": ["zz"], "records": [{"a": "b"}]},
            {"index": ["The field \"['zz']\" is not a valid column name."]},
        ),
        (
            {"fields": [{"id": "a", "type": "text"}], "primary_key": ["a"], "records": [{"a": "b"}, {"a": "b"}]},
            {
                "records": ['duplicate key value violates unique constraint: key {"a":"b"} already exists'],
                "records_row": 1,
            },
        ),
        (
            {"fields": [{"id": "a", "type": "text"}], "aliases": "foo%bar"},
            {"alias": ['"foo%bar" is not a valid alias name']},
        ),
        (
            {"fields": [{"id": "a", "type": "text"}], "aliases": "books"},
            {"alias": ['The alias "books" already exists.']},
        ),
        (
            {"fields": [{"id": "a", "type": "float"}], "records": [{"a": 1}, {"a": "abc"}]},
            {"records": ['invalid input syntax for type double precision: "abc"'], "records_row": 1},
        ),
        ({"fields": "nonsense"}, {"fields": ["Not a list of dicts"]}),
    ],
)
def test_create_names_what_is_at_fault_and_leaves_nothing(
    site: Site, books: str, parameters: dict[str, Any], faults: dict[str, Any]
) -> None:
    name = f"fault-{len(site.store.packages())}"
    site.act("package_create", name=name)
    assert site.error("datastore_create", resource={"package_id": name}, **parameters) == faults
    # CKAN leaves an empty resource behind.
    assert site.act("package_show", id=name)["resources"] == []


def test_create_needs_a_resource(site: Site, books: str) -> None:
    assert site.error("datastore_create") == {"resource_id": ["resource_id or resource required"]}
    assert site.error("datastore_create", resource_id="nope") == {"resource_id": ["Resource not found: nope"]}
    both = site.error("datastore_create", resource_id=books, resource={"package_id": "x"})
    assert both == {"resource": ["resource cannot be used with resource_id"]}


def test_create_again_adds_fields_records_and_dictionary(site: Site) -> None:
    table = site.table([{"id": "a", "type": "int"}], records=[{"a": 1}])
    site.act(
        "datastore_create",
        resource_id=table,
        fields=[{"id": "a", "info": {"label": "A"}}, {"id": "c", "type": "text"}],
        records=[{"a": 2, "c": "x"}],
    )
    assert site.rows(table) == [[1, 1, None], [2, 2, "x"]]
    assert site.search(table)["fields"][1] == {"id": "a", "type": "int4", "info": {"label": "A"}}
    site.act("datastore_create", resource_id=table, fields=[{"id": "c"}], delete_fields=True)
    assert site.rows(table) == [[1, None], [2, "x"]]


def test_resource_that_is_a_link_is_read_only(site: Site) -> None:
    site.act("package_create", name="links")
    link = site.act("resource_create", package_id="links", url="http://example.org/a.csv", name="a")
    assert (link["url_type"], link["datastore_active"]) == (None, False)
    found = site.error("datastore_create", resource_id=link["id"], records=[{"a": 1}])
    assert list(found) == ["read-only"]
    site.act("datastore_create", resource_id=link["id"], records=[{"a": 1}], force=True)
    shown = site.act("resource_show", id=link["id"])
    assert (shown["datastore_active"], shown["url"]) == (True, "http://example.org/a.csv")
    assert "read-only" in site.error("datastore_upsert", resource_id=link["id"], records=[{"a": 1}], method="insert")


# ------------------------------------------------------------------ upsert


def test_upsert_says_what_it_did(site: Site) -> None:
    table = site.table([{"id": "k", "type": "text"}, {"id": "v", "type": "numeric"}], primary_key="k")
    done = site.act("datastore_upsert", resource_id=table, records=[{"k": "a", "v": 1}])
    assert done == {"resource_id": table, "method": "upsert", "calculate_record_count": "background"}
    done = site.act(
        "datastore_upsert", resource_id=table, records=[{"k": "a", "v": 2}, {"k": "b"}], dry_run=True,
        include_records=True,
    )  # fmt: skip
    assert done["dry_run"] is True
    assert [r["_id"] for r in done["records"]] == [1, 2]
    assert site.rows(table) == [[1, "a", 1]]


@pytest.mark.parametrize(
    ("parameters", "faults"),
    [
        ({"method": "nope", "records": []}, {"method": ["Value must be one of ['upsert', 'insert', 'update']"]}),
        ({"records": [{"v": 1}]}, {"key": ['fields "k" are missing but needed as key']}),
        ({"records": [{"k": "z"}], "method": "update"}, {"key": ['key "{"k":"z"}" not found']}),
        (
            {"records": [{"k": "a"}, {"k": "b", "v": "abc"}]},
            {"records": ['invalid input syntax for type numeric: "abc"'], "records_row": 1},
        ),
        (
            {"records": [{"k": "y"}, {"k": "y"}], "method": "insert"},
            {
                "records": ['duplicate key value violates unique constraint: key {"k":"y"} already exists'],
                "records_row": 1,
            },
        ),
        (
            {"records": [{"k": "c", "bogus": 1}], "method": "insert"},
            {"records": ['row "1" has extra keys "bogus"'], "records_row": 0},
        ),
        ({"records": [{"k": "c", "x": 1}]}, {"fields": ['fields "x" do not exist']}),
        ({"records": ["a"]}, {"records": ['row "0" is not a json object'], "records_row": 0}),
        ({"records": "abc"}, {"records": ["Not a list of dicts"]}),
    ],
)
def test_upsert_names_what_is_at_fault_and_writes_nothing(
    site: Site, parameters: dict[str, Any], faults: dict[str, Any]
) -> None:
    table = site.table([{"id": "k", "type": "text"}, {"id": "v", "type": "numeric"}], primary_key="k")
    assert site.error("datastore_upsert", resource_id=table, **parameters) == faults
    assert site.search(table)["total"] == 0


def test_upsert_without_a_key(site: Site) -> None:
    table = site.table([{"id": "a", "type": "int"}], records=[{"a": 1}])
    found = site.error("datastore_upsert", resource_id=table, records=[{"a": 1}])
    assert found == {"table": ["unique key must be passed for update/upsert"]}
    site.act("datastore_upsert", resource_id=table, records=[{"_id": 1, "a": 5}])
    assert site.rows(table) == [[1, 5]]


def test_numbers_survive_digit_by_digit(site: Site) -> None:
    table = site.table([{"id": "n", "type": "numeric"}, {"id": "x", "type": "float"}, {"id": "j", "type": "json"}])
    texts = ["12345678901234567890123.450", "0.10", "-0.000", "1e5", "100"]
    records = ",".join(f'{{"n": {t}, "x": -0.0, "j": [{t}, 123456789012345678901234567890]}}' for t in texts)
    body = f'{{"resource_id": "{table}", "method": "insert", "records": [{records}]}}'
    headers = {"Authorization": site.token, "Content-Type": "application/json"}
    assert site.send("POST", "/api/action/datastore_upsert", content=body, headers=headers).status_code == 200
    text = site.send("GET", f"/api/3/action/datastore_search?resource_id={table}&records_format=lists").text
    assert '"records":[[1,12345678901234567890123.450,-0.0,[12345678901234567890123.450,' in text
    assert "[2,0.10,-0.0,[0.10,123456789012345678901234567890]]" in text
    assert "[3,0.000,-0.0," in text
    assert "[4,100000,-0.0," in text
    assert "[5,100,-0.0,[100,123456789012345678901234567890]]" in text


def test_too_many_records_in_one_request(tmp_path: Path) -> None:
    site = Site(tmp_path, ckan_max_records=3, ckan_rows_max=2)
    try:
        table = site.table([{"id": "a", "type": "int"}])
        assert "records" in site.error("datastore_upsert", resource_id=table, records=[{}] * 4, method="insert")
        site.act("datastore_upsert", resource_id=table, records=[{"a": 1}] * 3, method="insert")
        found = site.search(table)
        assert (found["limit"], len(found["records"]), found["total"]) == (2, 2, 3)
    finally:
        site.close()


# ------------------------------------------------------------------ delete


def test_delete_with_filters_without_and_with_empty_ones(site: Site) -> None:
    table = site.table([{"id": "a", "type": "int"}], records=[{"a": i} for i in range(10)])
    done = site.act(
        "datastore_delete", resource_id=table, filters={"a": {"gte": 7}}, include_deleted_records=True
    )  # fmt: skip
    assert [r["a"] for r in done["deleted_records"]] == [7, 8, 9]
    assert site.search(table)["total"] == 7
    assert site.error("datastore_records_delete", resource_id=table) == {"filters": ["Missing value"]}
    site.act("datastore_records_delete", resource_id=table, filters={"a": [0, 1]})
    assert site.search(table)["total"] == 5
    site.act("datastore_delete", resource_id=table, filters={})
    assert site.search(table)["total"] == 0
    assert site.act("resource_show", id=table)["datastore_active"] is True
    site.act("datastore_delete", resource_id=table)
    assert site.act("resource_show", id=table)["datastore_active"] is False
    site.act("datastore_search", 404, resource_id=table)
    assert list(site.error("datastore_delete", resource_id=table, foo=1)) == ["__extras"]


def test_purged_package_takes_its_tables_along(site: Site) -> None:
    site.act("package_create", name="gone")
    table = site.act("datastore_create", resource={"package_id": "gone"}, records=[{"a": 1}])["resource_id"]
    site.act("package_delete", id="gone")
    assert "gone" not in site.act("package_list")
    assert site.act("package_show", id="gone")["state"] == "deleted"
    site.act("package_show", 403, id="gone", token="")
    site.act("dataset_purge", id="gone")
    site.act("package_show", 404, id="gone")
    site.act("datastore_search", 404, resource_id=table)


# ------------------------------------------------------------------ info and dump


def test_info_tells_fields_and_indexes(site: Site, books: str) -> None:
    found = site.act("datastore_info", id="books", token="")
    assert found["meta"]["id"] == books
    assert (found["meta"]["count"], found["meta"]["aliases"]) == (3, ["books"])
    assert found["fields"][1] == {
        "id": "author", "type": "text",
        "schema": {
            "native_type": "text", "notnull": False, "index_name": "author", "is_index": True, "uniquekey": False,
        },
    }  # fmt: skip
    assert "schema" not in site.act("datastore_info", id=books, include_fields_schema=False)["fields"][0]
    assert "meta" not in site.act("datastore_info", id=books, include_meta=False)
    assert site.act("datastore_info", 404, id="zz")["message"] == 'Not found: Resource/Alias "zz" was not found.'


def test_tables_are_listed_as_metadata(site: Site, books: str) -> None:
    found = site.search("_table_metadata", limit=1000)
    named = {record["name"]: record for record in found["records"]}
    assert named["books"]["alias_of"] == books
    assert named[books]["alias_of"] is None
    assert found["total"] == len(found["records"])


def test_dump_as_csv_tsv_json_and_xml(site: Site, books: str) -> None:
    answer = site.get(f"/datastore/dump/{books}", limit=2, bom="true")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == f'attachment; filename="{books}.csv"'
    assert (
        answer.content
        == (
            "\ufeff_id,b,author,published,n,d\r\n"
            '1,annakarenina,tolstoy,2005-03-01T00:00:00.000,"[1,2]","{""a"":1.5}"\n'
            '2,warandpeace,tolstoy,,,"{""a"":2}"\n'
        ).encode()
    )
    assert site.get("/datastore/dump/books", format="tsv", fields="b", offset=2).text == "b\r\nfaust\n"
    answer = site.get("/datastore/dump/books", format="json", fields="_id,d", sort="_id desc")
    assert answer.text.startswith('{\n  "fields": [')
    assert answer.text.endswith('\n  "records": [\n    [3,null],\n    [2,{"a":2}],\n    [1,{"a":1.5}]\n]}\n')
    root = etree.fromstring(site.get("/datastore/dump/books", format="xml").content)
    assert [row.get("_id") for row in root] == ["1", "2", "3"]
    assert root[0].findtext("b") == "annakarenina"
    assert [(v.get("key"), v.text) for v in root[0].find("n")] == [("0", "1"), ("1", "2")]
    assert root[1].find("published").get("{http://www.w3.org/2001/XMLSchema-instance}nil") == "true"


def test_dump_filters_searches_and_refuses(site: Site, books: str) -> None:
    assert site.get("/datastore/dump/books", q="goethe", fields="b").text == "b\r\nfaust\n"
    text = site.get("/datastore/dump/books", filters='{"author": "tolstoy"}', fields="b", sort="b desc").text
    assert text == "b\r\nwarandpeace\nannakarenina\n"
    assert site.get("/datastore/dump/books", filters='{"author": "nobody"}', fields="b").text == "b\r\n"
    for query in ({"format": "zip"}, {"foo": "1"}, {"limit": "x"}, {"filters": '{"zz": 1}'}):
        assert site.get("/datastore/dump/books", **query).status_code == 400
    assert site.get("/datastore/dump/nope").status_code == 404


def test_long_dump_is_whole(site: Site) -> None:
    table = site.table([{"id": "n", "type": "int"}])
    site.store.load_records(site.store.table(table), [(i,) for i in range(12_345)])
    lines = site.get(f"/datastore/dump/{table}").text.splitlines()
    assert len(lines) == 12_346
    assert lines[-1] == "12345,12344"
    found = site.get(f"/datastore/dump/{table}", format="json").json()["records"]
    assert found == [[i + 1, i] for i in range(12_345)]


# ------------------------------------------------------------------ catalogue


def test_package_with_its_resources_and_organization(site: Site) -> None:
    made = site.act(
        "package_create", name="lakes", title="Lakes", notes="levels", tags=[{"name": "water"}], private=True,
        extras=[{"key": "a", "value": "b"}], resources=[{"url": "http://example.org/x", "name": "x", "own": 1.5}],
    )  # fmt: skip
    shown = site.act("package_show", id="lakes", include_tracking=False)
    assert shown == made
    assert (shown["title"], shown["private"], shown["num_resources"], shown["state"]) == ("Lakes", True, 1, "active")
    assert shown["organization"]["name"] == "default"
    assert [tag["name"] for tag in shown["tags"]] == ["water"]
    assert shown["extras"] == [{"key": "a", "value": "b"}]
    (resource,) = shown["resources"]
    assert (resource["own"], resource["package_id"], resource["position"]) == (1.5, shown["id"], 0)
    assert "lakes" not in site.act("package_list", token="")
    assert site.act("package_show", 403, id="lakes", token="")["__type"] == "Authorization Error"
    assert site.error("package_create", name="lakes") == {"name": ["That URL is already in use."]}
    assert list(site.error("package_create", name="No Name")) == ["name"]
    assert site.error("package_create", name="abc", owner_org="nowhere") == {
        "owner_org": ["Organization does not exist"]
    }
    assert site.act("organization_show", id="default")["name"] == "default"
    assert site.act("organization_list") == ["default"]
    site.act("resource_delete", id=resource["id"])
    assert site.act("package_show", id="lakes")["resources"] == []


def test_audit_log_names_what_was_changed(site: Site) -> None:
    from thalweg.domain.access import AuditQuery

    site.act("package_create", name="audited")
    table = site.act("datastore_create", resource={"package_id": "audited"}, records=[{"a": 1}])["resource_id"]
    site.act("datastore_delete", resource_id=table, filters={})
    lines = site.store.audit(AuditQuery(user="root", limit=3))
    assert [(line.action, line.actor.door, line.actor.operation) for line in lines] == [
        ("delete records", "ckan", "datastore_delete"),
        ("create table", "ckan", "datastore_create"),
        ("add package", "ckan", "package_create"),
    ]
