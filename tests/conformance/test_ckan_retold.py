"""What CKAN's own tests of the DataStore say and no other file here does: names, nulls, words, JSON, pages of dumps.

Which behaviour of theirs is checked where is listed in the door's COVERAGE.md.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any
from xml.parsers import expat

import pytest
from lxml import etree
from tests.conformance.ckan_support import Site

ODD = [{"id": "the year", "type": "int"}, {"id": "foo%bar", "type": "text"}, {"id": "a;b", "type": "text"}]


@pytest.fixture(scope="module")
def odd(site: Site) -> str:
    return site.table(
        ODD,
        records=[
            {"the year": 2014, "foo%bar": "x%y", "a;b": "one"},
            {"the year": 2013, "foo%bar": "xay", "a;b": "two"},
        ],
    )


# ------------------------------------------------------------------ search


def test_columns_with_blanks_percents_and_semicolons(site: Site, odd: str) -> None:
    assert site.rows(odd, filters={"the year": 2014, "foo%bar": "x%y"}, fields=["the year"]) == [[2014]]
    assert site.rows(odd, sort="the year asc", fields="the year,a;b") == [[2013, "two"], [2014, "one"]]
    assert site.rows(odd, q={"the year": "2013"}, fields=["foo%bar"]) == [["xay"]]
    assert site.rows(odd, fields=["a;b"], distinct=True, sort="a;b") == [["one"], ["two"]]
    assert site.act("datastore_delete", resource_id=odd, filters={"foo%bar": "nope"}) is not None
    assert site.search(odd)["total"] == 2


def test_a_number_finds_a_text(site: Site) -> None:
    table = site.table([{"id": "code", "type": "text"}], records=[{"code": "37"}, {"code": "037"}])
    assert site.rows(table, filters={"code": 37}, fields="code") == [["37"]]
    site.act("datastore_records_delete", resource_id=table, filters={"code": 37})
    assert site.rows(table, fields="code") == [["037"]]


def test_nulls_come_where_it_is_said(site: Site) -> None:
    table = site.table([{"id": "a", "type": "int"}], records=[{"a": 1}, {"a": None}, {"a": 2}])
    for sort, expected in (
        ("a", [1, 2, None]), ("a desc", [None, 2, 1]), ("a nulls first", [None, 1, 2]),
        ("a desc nulls last", [2, 1, None]), ("a asc nulls last", [1, 2, None]),
    ):  # fmt: skip
        assert [row[0] for row in site.rows(table, sort=sort, fields="a")] == expected, sort
    assert site.search(table, records_format="csv", fields="_id,a")["records"] == "1,1\n2,\n3,2\n"
    assert "sort" in site.error("datastore_search", resource_id=table, sort="a upwards")
    assert "sort" in site.error("datastore_search", resource_id=table, sort="b")


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        ("99", [1]), ("4", []), ("53.3", [2]), ("2014-01-01", [3]), ('"quoted": "json"', [4]), ("{}", None),
        ("json", [4]), ("99*", None),
    ],
)  # fmt: skip
def test_numbers_dates_and_json_like_texts_are_words(site: Site, q: str, expected: list[int] | None) -> None:
    table = site.table(
        [{"id": "n", "type": "int"}, {"id": "x", "type": "numeric"}, {"id": "d", "type": "date"},
         {"id": "t", "type": "text"}],
        records=[{"n": 99}, {"x": 53.3}, {"d": "2014-01-01"}, {"t": '"quoted": "json"'}],
    )  # fmt: skip
    found = site.act("datastore_search", resource_id=table, q=q, sort="_id")
    if expected is not None:
        assert [record["_id"] for record in found["records"]] == expected


def test_ranks_are_told_of_the_fields_that_are_looked_through(site: Site, odd: str) -> None:
    assert [f["id"] for f in site.search(odd, q="one")["fields"]][-1] == "rank"
    assert [f["id"] for f in site.search(odd, q={"a;b": "one"})["fields"]][-1].startswith("rank")
    assert "rank" not in site.search(odd, q="one", fields="a;b")["records"][0]
    assert "rank" not in site.search(odd)["records"][0]


def test_filters_of_an_array_field_and_several_of_one_field(site: Site) -> None:
    table = site.table(
        [{"id": "tags", "type": "text[]"}, {"id": "n", "type": "int"}],
        records=[{"tags": ["a", "b"], "n": 1}, {"tags": ["c"], "n": 2}],
    )
    assert site.rows(table, filters={"tags": [["a", "b"]]}, fields="n") == [[1]]
    assert site.rows(table, filters={"n": [1, 2]}, fields="n") == [[1], [2]]
    assert site.rows(table, filters={"n": {"gt": 1, "lte": 2}}, fields="n") == [[2]]


def test_results_as_csv_are_sorted_filtered_and_of_the_fields_asked_for(site: Site, odd: str) -> None:
    found = site.search(odd, records_format="csv", sort="the year", fields="a;b,the year")
    assert found["records"] == "two,2013\none,2014\n"
    assert [field["id"] for field in found["fields"]] == ["a;b", "the year"]
    assert site.search(odd, records_format="csv", filters={"a;b": "one"}, fields="a;b")["records"] == "one\n"


# ------------------------------------------------------------------ create and upsert


def test_json_of_any_kind_comes_back(site: Site) -> None:
    table = site.table([{"id": "k", "type": "int"}, {"id": "j", "type": "json"}], primary_key="k")
    given: list[Any] = [[], {}, "", "text", 0, False, {"a": [1, {"b": None}]}]
    records = [{"k": i, "j": value} for i, value in enumerate(given)]
    site.act("datastore_upsert", resource_id=table, records=records)
    assert [row[0] for row in site.rows(table, fields="j", sort="k")] == given
    site.act("datastore_upsert", resource_id=table, records=[{"k": 0, "j": {"now": "an object"}}])
    assert site.rows(table, fields="j", filters={"k": 0}) == [[{"now": "an object"}]]


def test_empty_texts_are_nulls_but_in_texts(site: Site) -> None:
    fields = [{"id": "k", "type": "text"}, {"id": "n", "type": "numeric"}, {"id": "d", "type": "date"}]
    for method in ("insert", "upsert", "update"):
        table = site.table(fields, primary_key="k", records=[{"k": "b", "n": 1}])
        key = "" if method == "insert" else "b"
        site.act("datastore_upsert", resource_id=table, method=method, records=[{"k": key, "n": "", "d": ""}])
        assert site.rows(table, filters={"k": key}, fields="k,n,d") == [[key, None, None]]
        found = site.error("datastore_upsert", resource_id=table, method="upsert", records=[{"k": "z", "n": " "}])
        assert found["records_row"] == 0


def test_what_is_left_out_stays_in_an_update_and_is_null_in_an_insert(site: Site) -> None:
    fields = [{"id": "k", "type": "text"}, {"id": "a", "type": "int"}, {"id": "b", "type": "int"}]
    table = site.table(fields, primary_key="k", records=[{"k": "x", "a": 1, "b": 2}])
    site.act("datastore_upsert", resource_id=table, method="update", records=[{"k": "x", "b": 3}])
    site.act("datastore_upsert", resource_id=table, records=[{"k": "x", "a": 4}, {"k": "y", "a": 5}])
    site.act("datastore_upsert", resource_id=table, method="insert", records=[{"k": "z"}])
    assert site.rows(table) == [[1, "x", 4, 3], [2, "y", 5, None], [3, "z", None, None]]
    site.act("datastore_upsert", resource_id=table, method="update", records=[{"_id": 2, "a": None}])
    assert site.rows(table, filters={"k": "y"}) == [[2, "y", None, None]]


def test_records_come_back_when_asked_for_each_once(site: Site) -> None:
    table = site.table([{"id": "k", "type": "text"}, {"id": "n", "type": "int"}], primary_key="k")
    records = [{"k": "a", "n": 1}, {"k": "b", "n": 2}]
    for method in ("insert", "update", "upsert"):
        done = site.act("datastore_upsert", resource_id=table, method=method, records=records, include_records=True)
        assert [(r["_id"], r["k"], r["n"]) for r in done["records"]] == [(1, "a", 1), (2, "b", 2)]
        assert "records" not in site.act("datastore_upsert", resource_id=table, method="update", records=records)
    made = site.act("datastore_create", resource_id=table, records=[{"k": "c"}], include_records=True)
    assert [r["_id"] for r in made["records"]] == [3]
    assert "records" not in site.act("datastore_create", resource_id=table, records=[{"k": "d"}])


def test_records_come_back_as_they_are_stored_each_once_in_the_order_first_written(site: Site) -> None:
    kinds = {
        "k": "text", "n": "numeric", "i": "int", "at": "timestamp", "zone": "timestamptz", "j": "json",
        "list": "int[]", "day": "date", "yes": "bool", "f": "float8",
    }  # fmt: skip
    given = {
        "k": "a", "n": "1.50", "i": "7", "at": "2024-01-02", "zone": "2024-01-02T03:04:05+02:00", "j": {"x": [1, 2.5]},
        "list": ["1", 2], "day": "2024-02-03", "yes": "true", "f": "0.25",
    }  # fmt: skip
    first = {
        "_id": 1, "k": "a", "n": 1.5, "i": 7, "at": "2024-01-02T00:00:00.000", "zone": "2024-01-02T01:04:05+00:00",
        "j": {"x": [1, 2.5]}, "list": [1, 2], "day": "2024-02-03", "yes": True, "f": 0.25,
    }  # fmt: skip
    nothing = dict.fromkeys(kinds)
    second = {**nothing, "_id": 2, "k": "b"}
    fields = [{"id": name, "type": kind} for name, kind in kinds.items()]
    site.act("package_create", name="given-back")
    made = site.act(
        "datastore_create", resource={"package_id": "given-back"}, fields=fields, primary_key="k",
        records=[given, {"k": "b"}], include_records=True,
    )  # fmt: skip
    assert made["records"] == [first, second]
    table = made["resource_id"]

    def written(method: str, *records: dict[str, Any], **more: Any) -> Any:
        return site.act(
            "datastore_upsert", resource_id=table, method=method, records=list(records), include_records=True, **more
        ).get("records")

    assert written("update", {"k": "b", "i": 1}, {"k": "a"}, {"k": "b", "f": 2}) == [second | {"i": 1, "f": 2}, first]
    third = {**nothing, "_id": 3, "k": "c", "i": 5}
    upserts = {"k": "c", "i": 4}, {"_id": 1, "i": 8}, {"k": "c", "i": 5}
    assert written("upsert", *upserts, dry_run=True) == [third, first | {"i": 8}]
    assert site.search(table)["records"] == [first, second | {"i": 1, "f": 2}]
    assert written("upsert", *upserts) == [third, first | {"i": 8}]
    assert written("insert", {}) == [{**nothing, "_id": 4}]
    assert written("insert") is None
    more = site.act("datastore_create", resource_id=table, records=[{"k": "e", "new": "n"}], include_records=True)
    assert more["records"] == [{**nothing, "_id": 5, "k": "e", "new": "n"}]


def test_a_trial_with_a_fault_tells_it_and_one_without_changes_nothing(site: Site) -> None:
    table = site.table([{"id": "n", "type": "int"}])
    found = site.error("datastore_upsert", resource_id=table, method="insert", dry_run=True, records=[{"n": "x"}])
    assert found["records_row"] == 0
    for count in (True, False, "background"):
        site.act(
            "datastore_upsert", resource_id=table, method="insert", dry_run=True, records=[{"n": 1}],
            calculate_record_count=count,
        )  # fmt: skip
    assert site.search(table)["total"] == 0


def test_an_alias_moves_to_the_table_that_is_created_anew_with_it(site: Site) -> None:
    table = site.table([{"id": "n", "type": "int"}], aliases=["one-name", "another"])
    other = site.table([{"id": "n", "type": "int"}])
    assert "alias" in site.error("datastore_create", resource_id=other, aliases="one-name")
    site.act("datastore_create", resource_id=table, aliases="another")
    site.act("datastore_search", 404, resource_id="one-name")
    site.act("datastore_create", resource_id=other, aliases="one-name")
    assert site.search("one-name")["resource_id"] == other


def test_nobody_writes_without_a_token(site: Site, odd: str) -> None:
    for action, given in (
        ("datastore_create", {"fields": [{"id": "z", "type": "int"}]}),
        ("datastore_upsert", {"records": [{"the year": 1}], "method": "insert"}),
        ("datastore_delete", {}),
        ("datastore_records_delete", {"filters": {}}),
    ):
        assert site.act(action, 403, token="", resource_id=odd, **given)["__type"] == "Authorization Error"
    assert site.search(odd)["total"] == 2


# ------------------------------------------------------------------ delete


def test_deleted_records_come_back_when_asked_for(site: Site) -> None:
    for action in ("datastore_delete", "datastore_records_delete"):
        table = site.table([{"id": "n", "type": "int"}], records=[{"n": 1}, {"n": 2}, {"n": 3}])
        done = site.act(action, resource_id=table, filters={"n": 1})
        assert "deleted_records" not in done
        done = site.act(action, resource_id=table, filters={"n": [2, 9]}, include_deleted_records=True)
        assert [record["n"] for record in done["deleted_records"]] == [2]
        assert site.rows(table) == [[3, 3]]
        for wrong in ("n", [1], {"zz": 1}):
            assert site.error(action, resource_id=table, filters=wrong)
        assert site.search(table)["total"] == 1


def test_a_table_goes_with_its_resource_alone(site: Site) -> None:
    site.act("package_create", name="two-tables")
    given = {"package_id": "two-tables"}
    one, two = (
        site.act("datastore_create", resource=given, records=[{"a": i}])["resource_id"] for i in range(2)
    )  # fmt: skip
    site.act("resource_delete", id=one)
    site.act("datastore_search", 404, resource_id=one)
    assert site.search(two)["total"] == 1
    site.act("datastore_delete", 404, resource_id=one)
    site.act("datastore_delete", 404, resource_id="4f2c7e4e-0000-4000-8000-000000000000")


# ------------------------------------------------------------------ dump


def test_dumps_do_not_know_the_bound_of_searches(tmp_path: Path) -> None:
    site = Site(tmp_path, ckan_rows_max=3)
    try:
        table = site.table([{"id": "n", "type": "int"}], records=[{"n": i} for i in range(10)])
        assert len(site.search(table)["records"]) == 3
        path = f"/datastore/dump/{table}"
        assert site.get(path, fields="n").text == "n\r\n" + "".join(f"{i}\n" for i in range(10))
        assert site.get(path, fields="n", limit=5).text == "n\r\n0\n1\n2\n3\n4\n"
        assert site.get(path, fields="n", limit=2, offset=7).text == "n\r\n7\n8\n"
        assert site.get(path, format="json", fields="n", limit=4).json()["records"] == [[0], [1], [2], [3]]
    finally:
        site.close()


def test_dumps_are_named_by_their_format(site: Site, odd: str) -> None:
    for form in ("csv", "tsv", "json", "xml"):
        answer = site.get(f"/datastore/dump/{odd}", format=form)
        assert answer.headers["content-disposition"] == f'attachment; filename="{odd}.{form}"'


def test_names_of_columns_become_names_of_xml(site: Site, odd: str) -> None:
    root = etree.fromstring(site.get(f"/datastore/dump/{odd}", format="xml").content)
    assert len(root) == 2
    assert [len(row) for row in root] == [3, 3]
    assert "x%y" in [element.text for element in root[0]]


def test_a_dump_writes_every_type(site: Site) -> None:
    fields = [
        {"id": name, "type": kind}
        for name, kind in (
            ("t", "text"), ("j", "json"), ("d", "date"), ("ts", "timestamp"), ("i", "int"), ("n", "numeric"),
            ("x", "float"), ("b", "bool"), ("l", "int[]"), ("c", "time"),
        )
    ]  # fmt: skip
    record = {
        "t": 'a "b", c', "j": {"k": [1, "ö"]}, "d": "2016-01-02", "ts": "2016-01-02T03:04:05", "i": -1, "n": 1.50,
        "x": 0.1, "b": True, "l": [1, 2], "c": "03:04:05",
    }  # fmt: skip
    table = site.table(fields, records=[record, {}])
    text = site.get(f"/datastore/dump/{table}").text
    assert text.splitlines()[0] == "_id,t,j,d,ts,i,n,x,b,l,c"
    assert text.splitlines()[2] == "2" + "," * 10
    (cells,) = [line for line in text.splitlines() if line.startswith("1,")]
    assert cells.startswith('1,"a ""b"", c","{""k"":[1,""ö""]}",2016-01-02,2016-01-02T03:04:05.000,-1,1.5,0.1,')
    assert cells.endswith(',"[1,2]",03:04:05')


ENDS = ["\r", "a\rb", "a\r\nb", "\n", "", '"', "a\tb,c"]


@pytest.mark.parametrize(("form", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_carriage_returns_inside_of_cells_end_no_row(site: Site, form: str, delimiter: str) -> None:
    fields = [{"id": "t", "type": "text"}, {"id": "u", "type": "text"}]
    table = site.table(fields, records=[{"t": text, "u": text} for text in ENDS])
    dumped = site.get(f"/datastore/dump/{table}", format=form).content.decode()
    search = site.search(table, records_format=form, sort="_id")["records"]
    for text, header in ((dumped, [["_id", "t", "u"]]), (search, [])):
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
        assert rows == [*header, *([str(number), text, text] for number, text in enumerate(ENDS, 1))]
    alone = site.get(f"/datastore/dump/{table}", format=form, fields="t").content.decode()
    assert list(csv.reader(io.StringIO(alone, newline=""), delimiter=delimiter)) == [["t"], *([text] for text in ENDS)]


@pytest.mark.parametrize("name", ["a²", "ºb", "²", "x½", "à-b.c", "1a", "\uff41", "a\u0301", "\U0001d4b3", "a:b"])
def test_whatever_a_column_is_called_a_dump_is_xml(site: Site, name: str) -> None:
    table = site.table([{"id": name, "type": "text"}], records=[{name: "here"}])
    content = site.get(f"/datastore/dump/{table}", format="xml").content
    # Expat goes by another edition of XML than libxml2.
    expat.ParserCreate().Parse(content, True)
    ((element,),) = etree.fromstring(content)
    assert element.text == "here"
