"""Tables: fields, records, keys, counts, offsets, words, and what stays after a failure."""

from __future__ import annotations

import os
from decimal import Decimal
from typing import Any

import pytest
from tests.store.support import WAIT_S, Backend, assert_clean, bits, default_workspace
from tests.store.table_support import EVERY_TYPE, TWO, alter, find, insert, make, make_in, numbered, package, write

from thalweg.domain.access import Grant, Role, Scope, User
from thalweg.domain.errors import AlreadyExists, InvalidParameter, NotFound
from thalweg.domain.store import Store
from thalweg.domain.table_values import FieldType
from thalweg.domain.tables import (
    EVERYTHING,
    AllOf,
    AnyOf,
    BadRecord,
    Compare,
    Field,
    Method,
    Operator,
    Package,
    SortKey,
    Table,
    TableQuery,
    TextTerm,
)
from thalweg.store.sqlite import table_reading

INSERT, UPDATE, UPSERT = Method.INSERT, Method.UPDATE, Method.UPSERT


def ids(rows: list[tuple[Any, ...]]) -> list[int]:
    return [row[0] for row in rows]


# ------------------------------------------------------------------ values


def test_values_of_every_type_come_back_bit_for_bit(store: Store) -> None:
    table = make(store, EVERY_TYPE)
    given = {
        "name": "Ticino ☔ é", "n": -(2**31), "big": 2**63 - 1, "x": -0.0,
        "exact": Decimal("12345678901234567890.10"), "ok": True, "day": "2020-02-29", "clock": "23:59:59.000001",
        "at": "2014-05-13T17:00:00.123456", "zoned": "2014-05-13T19:00:00+02:00",
        "doc": {"b": [1, 2.5, None], "a": Decimal("0.10")}, "list": [3, None, -1],
    }  # fmt: skip
    insert(store, table, given, {})
    rows, total = find(store, table)
    # 2014-05-13T17:00:00Z is 1 400 000 400 s after 1970.
    expected = (
        1, "Ticino ☔ é", -(2**31), 2**63 - 1, -0.0, Decimal("12345678901234567890.10"), True, "2020-02-29",
        "23:59:59.000001", 1_400_000_400_123_456, 1_400_000_400_000_000, '{"b":[1,2.5,null],"a":0.10}', "[3,null,-1]",
    )  # fmt: skip
    assert total == 2
    assert [bits(value) for value in rows[0]] == [bits(value) for value in expected]
    assert str(rows[0][5]) == "12345678901234567890.10"
    assert rows[1] == (2, *[None] * 12)
    assert_clean(store)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("n", 2**31, "out of range for type integer"),
        ("n", 1.5, "invalid input syntax for type integer"),
        ("n", True, "invalid input syntax for type integer"),
        ("x", "abc", "invalid input syntax for type double precision"),
        ("x", "NaN", "invalid input syntax for type double precision"),
        ("x", Decimal("1e400"), "out of range"),
        ("exact", " ", 'invalid input syntax for type numeric: " "'),
        ("exact", "1e1001", "digits"),
        ("ok", "maybe", "invalid input syntax for type boolean"),
        ("day", "2021-02-29", "out of range"),
        ("day", "2020-01-01T10:00:00", "invalid input syntax for type date"),
        ("clock", "25:00", "out of range"),
        ("at", "2020-01-01T00:00:00+02:00", "timestamptz"),
        ("at", 1577836800, "invalid input syntax for type timestamp"),
        ("zoned", "2020-13-01", "out of range"),
        ("list", "{1,x}", "invalid input syntax for type integer"),
        ("list", [[1]], "dimension"),
        ("name", "a\0b", "NUL"),
        ("name", "\ud800", "surrogate"),
        ("doc", [[]], ""),
    ],
)
def test_value_that_is_none_of_its_type_is_refused_by_row(store: Store, field: str, value: Any, said: str) -> None:
    table = make(store, EVERY_TYPE)
    if field == "doc":
        value = []
        for _ in range(200):
            value = [value]
        said = "nested deeper"
    with pytest.raises(BadRecord) as refused:
        insert(store, table, {"n": 1}, {field: value})
    assert said in refused.value.message
    assert refused.value.row == 1
    assert find(store, table) == ([], 0)


def test_empty_text_is_null_but_in_text(store: Store) -> None:
    table = make(store, EVERY_TYPE)
    insert(store, table, {f.name: "" for f in EVERY_TYPE})
    ((_, name, *rest, document, array),), _ = find(store, table)
    assert (name, rest, document, array) == ("", [None] * 9, '""', None)


# ------------------------------------------------------------------ writing


def test_all_records_of_a_request_are_written_or_none(store: Store) -> None:
    table = make(store, key=("n",))
    insert(store, table, *numbered(3))
    with pytest.raises(BadRecord) as refused:
        insert(store, table, {"n": 10}, {"n": 11}, {"n": 1})
    assert refused.value.row == 2
    assert "already exists" in refused.value.message
    assert ids(find(store, table)[0]) == [1, 2, 3]
    # Numbers of what was undone are not lost, and none is used twice.
    assert insert(store, table, {"n": 10}).ids == (4,)
    assert_clean(store)


def test_upsert_updates_by_key_and_inserts_the_rest(store: Store) -> None:
    table = make(store, key=("n",))
    insert(store, table, {"n": 1, "name": "old"})
    done = write(store, table, UPSERT, {"n": 1, "name": "new"}, {"n": 2, "name": "b"}, {"n": 2, "name": "c"})
    assert (done.ids, done.inserted, done.updated) == ((1, 2, 2), 1, 2)
    assert find(store, table)[0] == [(1, "new", 1), (2, "c", 2)]
    # What is not named stays as it was.
    write(store, table, UPDATE, {"n": 2})
    assert find(store, table)[0][1] == (2, "c", 2)
    with pytest.raises(BadRecord) as refused:
        write(store, table, UPDATE, {"n": 1, "name": "x"}, {"n": 7})
    assert (refused.value.parameter, refused.value.row) == ("key", 1)
    assert find(store, table)[0][0] == (1, "new", 1)
    assert_clean(store)


def test_update_by_number_without_a_key(store: Store) -> None:
    table = make(store, TWO, numbered(3))
    write(store, table, UPDATE, {"_id": 2, "name": "two"})
    assert find(store, table)[0][1] == (2, "two", 1)
    with pytest.raises(BadRecord) as refused:
        write(store, table, UPSERT, {"name": "x"})
    assert refused.value.parameter == "table"
    with pytest.raises(BadRecord) as refused:
        write(store, table, UPSERT, {"_id": 9, "name": "x"})
    assert "not found" in refused.value.message


def test_equal_numerics_are_one_key_however_written(store: Store) -> None:
    table = make(store, (Field("k", FieldType.NUMERIC), Field("v", FieldType.TEXT)), key=("k",))
    insert(store, table, {"k": "1.5", "v": "a"})
    with pytest.raises(BadRecord):
        insert(store, table, {"k": "1.500", "v": "b"})
    assert write(store, table, UPSERT, {"k": "1.50", "v": "c"}).updated == 1
    assert [str(row[1]) for row in find(store, table)[0]] == ["1.50"]
    with pytest.raises(BadRecord):
        write(store, table, UPDATE, {"_id": insert(store, table, {"k": 2}).ids[0], "k": "1.5000"})
    assert_clean(store)


def test_dry_run_says_what_would_be_and_changes_nothing(store: Store) -> None:
    table = make(store, TWO, numbered(2), key=("n",))
    before = store.table_figures(table)
    assert write(store, table, UPSERT, {"n": 0}, {"n": 9}, dry_run=True).ids == (1, 3)
    assert store.table_figures(table) == before
    with pytest.raises(BadRecord):
        insert(store, table, {"n": 0}, dry_run=True)


def test_records_with_unknown_names_are_refused(store: Store) -> None:
    table = make(store, key=("n",))
    with pytest.raises(BadRecord, match='row "2" has extra keys "bogus"'):
        insert(store, table, {"n": 1}, {"bogus": 1})
    with pytest.raises(BadRecord, match='fields "bogus" do not exist'):
        write(store, table, UPSERT, {"n": 1, "bogus": 1})
    with pytest.raises(BadRecord, match="is not a json object"):
        insert(store, table, ["n"])


def test_write_for_a_table_that_was_changed_meanwhile_goes_by_what_it_is_now(store: Store) -> None:
    table = make(store)
    alter(store, table, fields=(*table.fields, Field("more", FieldType.TEXT)))
    insert(store, table, {"n": 1})
    alter(store, table, key=("n",))
    with pytest.raises(BadRecord, match="already exists"):
        insert(store, table, {"n": 2}, {"n": 1})
    assert find(store, table)[0] == [(1, None, 1, None)]
    assert_clean(store)


# ------------------------------------------------------------------ fields


def test_fields_are_added_and_taken_away_with_their_words(store: Store) -> None:
    table = make(store, TWO, [{"name": "alpha", "n": 1}])
    table = alter(store, table, fields=(*TWO, Field("note", FieldType.TEXT)))
    insert(store, table, {"name": "beta", "note": "gamma"})
    assert find(store, table)[0] == [(1, "alpha", 1, None), (2, "beta", None, "gamma")]
    assert ids(find(store, table, texts=(TextTerm("gamma"),))[0]) == [2]
    table = alter(store, table, fields=(TWO[1], Field("note", FieldType.TEXT)), delete_fields=True)
    assert find(store, table)[0] == [(1, 1, None), (2, None, "gamma")]
    assert ids(find(store, table, texts=(TextTerm("alpha"),))[0]) == []
    # The same name again is another field.
    table = alter(store, table, fields=(*table.fields, Field("name", FieldType.FLOAT8)))
    assert find(store, table)[0][0] == (1, 1, None, None)
    assert_clean(store)


def test_many_fields_added_one_by_one_are_all_searched(store: Store) -> None:
    table = make(store)
    for i in range(20):
        table = alter(store, table, {f"f{i}": f"word{i}"}, fields=(*table.fields, Field(f"f{i}", FieldType.TEXT)))
    for i in range(20):
        assert ids(find(store, table, texts=(TextTerm(f"word{i}", f"f{i}"),))[0]) == [i + 1]
    assert_clean(store)


@pytest.mark.parametrize("name", ["", "_a", 'a"b', " a", "x" * 64, "ü" * 32, "a\nb"])
def test_names_that_fields_cannot_have(store: Store, name: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        make(store, (Field(name, FieldType.TEXT),))
    assert refused.value.parameter == "fields"


@pytest.mark.parametrize("name", ["select", "a b", "f1", "id", "rank", "ü", "a'; DROP TABLE package;--", "%s", "A"])
def test_names_that_fields_can_have(store: Store, name: str) -> None:
    table = make(store, (Field(name, FieldType.INT4), Field("a", FieldType.INT4)), [{name: 5}], indexes=((name,),))
    where = Compare(name, Operator.EQ, (5,))
    assert find(store, table, where=where, sort=(SortKey(name),))[0] == [(1, 5, None)]
    assert_clean(store)


def test_types_are_kept_and_doubled_names_refused(store: Store) -> None:
    table = make(store)
    with pytest.raises(InvalidParameter, match="cannot be changed"):
        alter(store, table, fields=(Field("n", FieldType.TEXT),))
    with pytest.raises(InvalidParameter, match="Duplicate"):
        alter(store, table, fields=(Field("b", FieldType.TEXT), Field("b", FieldType.TEXT)))
    assert store.table(table.uuid).fields == table.fields


def test_key_that_records_contradict_is_refused_and_all_stays(store: Store) -> None:
    table = make(store, TWO, [{"n": 1}, {"n": 1}])
    with pytest.raises(BadRecord) as refused:
        alter(store, table, key=("n",), fields=(*TWO, Field("more", FieldType.TEXT)))
    assert refused.value.parameter == "constraints"
    assert store.table(table.uuid) == table
    assert find(store, table)[1] == 2
    assert_clean(store)


def test_aliases_name_the_table_and_are_unique(store: Store) -> None:
    table = make(store, aliases=("levels", "pegel"))
    assert store.table("pegel").id == table.id
    with pytest.raises(InvalidParameter, match="already exists"):
        make(store, name="other", aliases=("levels",))
    alter(store, table, aliases=("levels",))
    with pytest.raises(NotFound):
        store.table("pegel")
    with pytest.raises(InvalidParameter, match="not a valid alias name"):
        alter(store, table, aliases=("a%b",))


# ------------------------------------------------------------------ counts and offsets


def test_every_offset_gives_the_same_as_all_records_with_gaps(store: Store) -> None:
    table = make(store)
    store.load_records(table, [(f"w{i}", i) for i in range(5000)])
    store.delete_records(table, Compare("n", Operator.IN, tuple(range(3, 5000, 7))))
    store.delete_records(table, AllOf((Compare("n", Operator.GTE, (1000,)), Compare("n", Operator.LT, (3200,)))))
    kept = [i for i in range(5000) if i % 7 != 3 and not 1000 <= i < 3200]
    for offset in (0, 1, 5, 700, 857, 858, 900, len(kept) - 3, len(kept) - 1, len(kept), len(kept) + 10):
        rows, total = find(store, table, 3, offset)
        assert [row[2] for row in rows] == kept[offset : offset + 3]
        assert total == len(kept)
        rows, total = find(store, table, 3, offset, sort=(SortKey("_id", True),))
        assert [row[2] for row in rows] == kept[::-1][offset : offset + 3]
    # Appended at the end, what was known of the blocks stays true.
    insert(store, table, {"n": 9999})
    assert [row[2] for row in find(store, table, 3, len(kept) - 1)[0]] == [kept[-1], 9999]
    store.delete_records(table, Compare("n", Operator.EQ, (0,)))
    assert [row[2] for row in find(store, table, 1, len(kept) - 1)[0]] == [9999]
    assert_clean(store)


def test_a_search_that_takes_longer_than_it_may_is_given_up_and_can_be_run(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(store, TWO, numbered(7_000), indexes=(("name",),))
    third = TableQuery(where=Compare("name", Operator.EQ, ("station 3",)))
    # Numbers 3, 10, 17 ... lie in records 4, 11, 18 ...: a thousand of them.
    expected = ([(4, "station 3", 3), (11, "station 3", 10)], 1000)
    monkeypatch.setattr(table_reading, "ATTEMPT_S", 60)
    search = store.search(table, third)
    found = search.attempt(2, 0)
    assert found is not None
    assert (found.rows, found.total) == expected
    # Three steps for each of them.
    monkeypatch.setattr(table_reading, "ATTEMPT_STEPS", 1_000)
    long = store.search(table, third)
    with store.together():
        assert long.attempt(2, 0) is None
        page = long.run(2, 0)
    assert (page.rows, page.total) == expected
    # What is told by a record's place takes no time.
    found = store.search(table, TableQuery()).attempt(1, 6_999)
    assert found is not None
    assert (found.rows, found.total) == ([(7_000, "station 6", 6_999)], 7_000)
    monkeypatch.setattr(table_reading, "ATTEMPT_STEPS", 20_000)
    assert long.attempt(2, 0) is None
    # Time is another time's.
    monkeypatch.setattr(table_reading, "ATTEMPT_S", 0)
    assert search.attempt(2, 998) is None
    monkeypatch.setattr(table_reading, "ATTEMPT_S", 60)
    assert search.attempt(2, 998) is not None
    # One step through an index of words can take any time.
    assert store.search(table, TableQuery(texts=(TextTerm("station"),))).attempt(2, 0) is None
    assert_clean(store)


def test_totals_are_exact_in_another_process_at_once(backend: Backend) -> None:
    one, other = backend.open(), backend.open()
    table = make(one)
    for n in range(1, 6):
        insert(one, table, {"n": n, "name": "ab"})
        assert find(other, table)[1] == n
        assert find(other, table, 10, n - 1)[0] == [(n, "ab", n)]
        assert find(other, table, texts=(TextTerm("ab"),))[1] == n
    one.delete_records(table, EVERYTHING)
    assert find(other, table) == ([], 0)
    insert(other, other.table(table.uuid), {"n": 7})
    assert find(one, table) == ([(6, None, 7)], 1)


def test_dump_gives_each_record_once_while_others_write(store: Store) -> None:
    table = make(store)
    store.load_records(table, [("a", i) for i in range(12_000)])
    seen: list[int] = []
    for block in store.records(table, TableQuery(limit=-1)):
        seen += ids(block)
        insert(store, table, {"n": -1})
        store.delete_records(table, Compare("_id", Operator.EQ, (11_999,)))
        write(store, table, UPDATE, {"_id": 1, "n": 5})
    assert seen == [i for i in range(1, 12_001) if i != 11_999]


def test_dump_with_offset_limit_and_order(store: Store) -> None:
    table = make(store, TWO, numbered(50))

    def dumped(**query: Any) -> list[int]:
        return [row[0] for block in store.records(table, TableQuery(**query)) for row in block]

    assert dumped(limit=5, offset=10) == [11, 12, 13, 14, 15]
    assert dumped(limit=3, offset=10, sort=(SortKey("_id", True),)) == [40, 39, 38]
    assert dumped(limit=-1, offset=48) == [49, 50]
    assert dumped(limit=-1, offset=60) == []
    assert dumped(limit=4, sort=(SortKey("n", True),)) == [50, 49, 48, 47]
    assert dumped(limit=-1, texts=(TextTerm("station 3", "name"),)) == [4, 11, 18, 25, 32, 39, 46]
    assert dumped(limit=2, offset=1, where=Compare("n", Operator.GTE, (10,))) == [12, 13]
    names = [row for b in store.records(table, TableQuery(("name",), distinct=True, limit=-1)) for row in b]
    assert names == [(f"station {i}",) for i in range(7)]


def test_offset_from_behind_at_the_first_record_of_a_block_with_gaps(store: Store) -> None:
    table = make(store, TWO, numbered(3))
    store.delete_records(table, Compare("n", Operator.EQ, (0,)))
    assert find(store, table, 2, 1, sort=(SortKey("_id", True),)) == ([(2, "station 1", 1)], 2)


# ------------------------------------------------------------------ asking


def test_comparisons_and_their_combinations(store: Store) -> None:
    table = make(store, EVERY_TYPE)
    insert(store, table, *({"n": i, "exact": f"{i}.50", "name": "ab"[i % 2]} for i in range(6)), {"name": "c"})

    def matching(where: Any) -> list[int]:
        rows, total = find(store, table, where=where)
        assert total == len(rows)
        return ids(rows)

    eq = Compare("n", Operator.EQ, (2,))
    assert matching(eq) == [3]
    assert matching(Compare("n", Operator.EQ, (None,))) == []
    assert matching(Compare("n", Operator.IN, (1, None, 4))) == [2, 5]
    assert matching(Compare("n", Operator.IN, ())) == []
    assert matching(AnyOf((eq, Compare("name", Operator.EQ, ("c",))))) == [3, 7]
    assert matching(AllOf((eq, Compare("name", Operator.EQ, ("b",))))) == []
    assert matching(AnyOf(())) == []
    assert matching(AllOf(())) == [1, 2, 3, 4, 5, 6, 7]
    value = (Decimal("2.5"),)
    assert matching(Compare("exact", Operator.EQ, value)) == [3]
    assert matching(Compare("exact", Operator.LT, value)) == [1, 2]
    assert matching(Compare("exact", Operator.LTE, value)) == [1, 2, 3]
    assert matching(Compare("exact", Operator.GT, value)) == [4, 5, 6]
    assert matching(Compare("exact", Operator.GTE, value)) == [3, 4, 5, 6]
    with pytest.raises(InvalidParameter, match="Unknown field: nope"):
        matching(Compare("nope", Operator.EQ, (1,)))


def test_order_puts_nulls_as_postgresql_does(store: Store) -> None:
    table = make(store, TWO, [{"n": 2}, {}, {"n": 1}, {"n": 2}])
    assert ids(find(store, table, sort=(SortKey("n"),))[0]) == [3, 1, 4, 2]
    assert ids(find(store, table, sort=(SortKey("n", True),))[0]) == [2, 1, 4, 3]
    assert ids(find(store, table, sort=(SortKey("n", True, False),))[0]) == [1, 4, 3, 2]
    assert ids(find(store, table, sort=(SortKey("n"), SortKey("_id", True)))[0]) == [3, 4, 1, 2]


def test_distinct_counts_different_rows(store: Store) -> None:
    table = make(store, TWO, numbered(50))
    rows, total = find(store, table, 3, 2, fields=("name",), distinct=True)
    assert (rows, total) == ([("station 2",), ("station 3",), ("station 4",)], 7)
    with pytest.raises(InvalidParameter):
        find(store, table, fields=("name",), distinct=True, sort=(SortKey("n"),))


@pytest.mark.parametrize(
    ("text", "plain", "expected"),
    [
        ("moby", True, [1, 2]),
        ("MOBY dick", True, [1]),
        ("dick & moby", True, [1]),
        ("nothing", True, []),
        ("&", True, []),
        ('"moby', True, [1, 2]),
        ("moby & !dick", False, [2]),
        ("dick | karenina", False, [1, 3]),
        ("(dick | white) & moby", False, [1, 2]),
        ("kar:*", False, [3]),
        ("moby <-> dick", False, [1]),
        ("dick <-> moby", False, []),
        ("2020-Q4:*", False, [4]),
        ("q4", True, [4]),
        ("'sistēm':*", False, [4]),
        ("sistem:*", False, []),
        ("1851", True, [1]),
    ],
)
def test_words_are_found(store: Store, text: str, plain: bool, expected: list[int]) -> None:
    table = make(store)
    insert(
        store, table, {"name": "Moby Dick", "n": 1851}, {"name": "moby the white whale"}, {"name": "Anna Karenina"},
        {"name": "01-2019-2020-Q4 Datu Sistēmas"},
    )  # fmt: skip
    rows, total = find(store, table, texts=(TextTerm(text, None, plain),), sort=(SortKey("_id"),))
    assert ids(rows) == expected
    assert total == len(expected)


@pytest.mark.parametrize(
    "text", ["a &", "& a", "a b", "(a", "a)", "!a", "a | !b", "a <2> b", "a:* <-> b", "((((" * 50, "'a"]
)
def test_expressions_that_cannot_be_read_are_refused(store: Store, text: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        find(store, make(store), texts=(TextTerm(text, None, False),))
    assert refused.value.parameter in ("q", "query")


def test_words_follow_updates_and_fields(store: Store) -> None:
    table = make(store, (Field("a", FieldType.TEXT), Field("b", FieldType.TEXT)), [{"a": "red", "b": "blue"}])
    assert find(store, table, texts=(TextTerm("blue", "a"),))[1] == 0
    assert find(store, table, texts=(TextTerm("blue", "b"), TextTerm("red", "a")))[1] == 1
    write(store, table, UPDATE, {"_id": 1, "b": "green"})
    assert find(store, table, texts=(TextTerm("blue"),))[1] == 0
    assert find(store, table, texts=(TextTerm("green red"),))[1] == 1


def test_better_matches_come_first(store: Store) -> None:
    table = make(store, TWO, [{"name": "rain " + "word " * 30}, {"name": "rain rain"}])
    rows, _ = find(store, table, texts=(TextTerm("rain"),))
    assert ids(rows) == [2, 1]
    assert rows[0][-1] > rows[1][-1] > 0


# ------------------------------------------------------------------ deleting, the log, removal


def test_change_log_tells_what_was(store: Store) -> None:
    table = make(store, EVERY_TYPE)
    insert(store, table, {"exact": "1.50", "ok": False, "x": 0.1}, {"n": 2}, by="ada")
    write(store, table, UPDATE, {"_id": 1, "ok": True}, by="bob")
    store.delete_records(table, Compare("n", Operator.EQ, (2,)), by="eva")
    store.delete_records(table, EVERYTHING, by="eva")
    found = store.record_changes(table)
    assert [(c.sequence, c.kind, c.first, c.last, c.by) for c in found] == [
        (1, "insert", 1, 2, "ada"), (2, "update", 1, 1, "bob"), (3, "delete", 2, 2, "eva"),
        (4, "truncate", 1, 2, "eva"),
    ]  # fmt: skip
    number = {field.name: field.number for field in table.fields}
    assert found[1].before == {number["exact"]: Decimal("1.50"), number["ok"]: False, number["x"]: 0.1}
    assert str((found[1].before or {})[number["exact"]]) == "1.50"
    assert found[2].before == {number["n"]: 2}
    assert [c.sequence for c in store.record_changes(table, 2, limit=1)] == [3]


def test_all_records_go_at_once_and_numbers_go_on(store: Store) -> None:
    table = make(store, TWO, numbered(30), key=("n",), indexes=(("name",),))
    count, kept = store.delete_records(table, EVERYTHING, keep=2)
    assert (count, kept) == (30, [(1, "station 0", 0), (2, "station 1", 1)])
    table = store.table(table.uuid)
    assert insert(store, table, {"n": 0}).ids == (31,)
    with pytest.raises(BadRecord):
        insert(store, table, {"n": 0})
    assert_clean(store)


def test_purged_package_frees_its_tables(backend: Backend) -> None:
    store = backend.open()
    owner = package(store)
    table = make_in(store, owner, TWO, numbered(20_000), aliases=("levels",))
    store.put_user(User("eva", Role.NOTHING, "x", 1)).result(WAIT_S)
    scope = Scope(table.workspace_id, "table", table.id)
    store.put_grant(Grant("eva", scope, Role.VIEWER)).result(WAIT_S)
    store.purge_package(owner.id).result(WAIT_S)
    for key in (table.uuid, "levels"):
        with pytest.raises(NotFound):
            store.table(key)
    with pytest.raises(NotFound):
        store.package("rivers")
    assert store.grants("eva") == []
    for _ in range(50):
        store.maintain()
    assert_clean(store)
    before = store.figures().size_bytes
    # The room is there again: as many records in new tables make the file little longer.
    make(store, TWO, numbered(20_000), name="again")
    for _ in range(3):
        store.maintain()
    assert store.figures().size_bytes < before * 1.3


def test_dropped_table_leaves_the_resource(store: Store) -> None:
    table = make(store, TWO, numbered(3), aliases=("levels",))
    store.drop_table(table).result(WAIT_S)
    found = store.table(table.uuid)
    assert (found.active, found.fields, found.aliases) == (False, (), ())
    with pytest.raises(NotFound):
        insert(store, table, {"n": 1})
    again = alter(store, found, fields=(Field("z", FieldType.TEXT),))
    assert insert(store, again, {"z": "a"}).ids == (1,)
    for _ in range(10):
        store.maintain()
    assert find(store, again) == ([(1, "a")], 1)
    assert_clean(store)


def test_search_made_before_its_table_moved_says_so(store: Store) -> None:
    table = make(store, TWO, numbered(3))
    search = store.search(table, TableQuery())
    store.drop_table(table).result(WAIT_S)
    for _ in range(10):
        store.maintain()
    with pytest.raises(NotFound):
        search.run(10, 0)


def test_load_is_the_same_as_inserting(store: Store) -> None:
    table = make(store, key=("n",))
    assert store.load_records(table, ((f"a{i}", i) for i in range(25_000))) == 25_000
    assert find(store, table, 1, 24_999) == ([(25_000, "a24999", 24_999)], 25_000)
    assert ids(find(store, table, texts=(TextTerm("a777"),))[0]) == [778]
    with pytest.raises(BadRecord) as refused:
        store.load_records(table, [("a", 30_000), ("b", "x")])
    assert refused.value.row == 1
    assert find(store, table)[1] == 25_000
    assert_clean(store)


# ------------------------------------------------------------------ packages and resources


def test_packages_and_resources_are_listed_changed_and_unique(store: Store) -> None:
    owner = package(store, "b", title="B", document={"notes": "text", "tags": ["x"]})
    package(store, "a", public=False)
    assert [p.name for p in store.packages()] == ["a", "b"]
    assert store.package(owner.uuid) == store.package("b") == owner
    with pytest.raises(AlreadyExists):
        package(store, "a")
    with pytest.raises(NotFound):
        store.put_package(Package(0, "", 999, "c")).result(WAIT_S)
    new = Table(0, "", default_workspace(store), owner.id, "link", document={"url": "http://example.org"})
    link = store.put_resource(new).result(WAIT_S)
    table = make_in(store, owner)
    assert [t.id for t in store.tables(owner.id)] == [link.id, table.id]
    assert [t.id for t in store.active_tables()] == [table.id]
    assert not link.active
    # A package that is closed closes what is in it, in every process at once.
    closed = store.put_package(Package(owner.id, owner.uuid, owner.workspace_id, "b", public=False)).result(WAIT_S)
    assert closed.generation > owner.generation
    assert not store.table(table.uuid).public
    store.delete_resource(link.id).result(WAIT_S)
    assert [t.id for t in store.tables(owner.id)] == [table.id]


def test_backup_holds_the_tables(backend: Backend) -> None:
    store = backend.open()
    table = make(store, TWO, numbered(2000), aliases=("levels",), key=("n",))
    target = backend.beside("copy.sqlite")
    store.backup(target)
    assert os.path.exists(target)
    copy = backend.open_at(backend.url_of(target))
    assert find(copy, table, 1, 1999) == find(store, table, 1, 1999)
    assert (
        find(copy, table, texts=(TextTerm("station 3", "name"),))[1]
        == find(store, table, texts=(TextTerm("station 3", "name"),))[1]
    )
    assert_clean(copy)
