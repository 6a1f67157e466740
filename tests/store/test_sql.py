"""SQL of users: what PostgreSQL answers, the store does, or it refuses."""

from __future__ import annotations

import decimal
import json
import re
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.store.sql_support import (
    FIELDS,
    READINGS,
    SITE_ROWS,
    SITES,
    Postgres,
    ask,
    differences,
    in_any_order,
    rows_of,
    statements,
    tables,
    unlike,
)
from tests.store.table_support import alter, find, insert, make, numbered

from thalweg.domain.errors import StoreUnavailable
from thalweg.domain.store import Store
from thalweg.domain.table_sql import (
    MAX_ANSWER_BYTES,
    MAX_TEMPORARY_BYTES,
    MAX_VALUE_BYTES,
    SqlFault,
    SqlForbidden,
    SqlLimits,
)
from thalweg.domain.table_values import FieldType
from thalweg.domain.tables import Field, Method, Table
from thalweg.sql.allowed import FUNCTIONS
from thalweg.sql.parse import MAX_DEPTH, MAX_NODES, MAX_SQL_BYTES, MAX_TABLES, parse
from thalweg.store.open import open_store
from thalweg.store.sqlite.sql.calls import NAMES
from thalweg.store.sqlite.sql.engine import HEAP_BYTES


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    made = Postgres()
    made.table("readings", FIELDS, READINGS)
    made.table("sites", SITES, SITE_ROWS)
    yield made
    made.close()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store that all tests of reading share."""
    store = open_store(f"sqlite:///{tmp_path_factory.mktemp('sql') / 'store.sqlite'}")
    yield store
    store.close()


class Both:
    """The server and the store with the same tables."""

    def __init__(self, postgres: Postgres, store: Store, tables: dict[str, Table]) -> None:
        self.postgres, self.store, self.tables = postgres, store, tables


@pytest.fixture(scope="module")
def both(postgres: Postgres, kept: Store, known: dict[str, Table]) -> Both:
    return Both(postgres, kept, known)


@pytest.fixture(scope="module")
def known(kept: Store) -> dict[str, Table]:
    return tables(kept)


def test_statements_of_users_are_answered_as_postgresql_answers_them(
    postgres: Postgres, kept: Store, known: dict[str, Table]
) -> None:
    asked = statements("sql_answered.sql")
    wrong = unlike(postgres, kept, known, asked)
    assert not wrong, "\n".join(wrong)
    assert len(asked) > 250


def test_lists_of_hundreds_are_answered_as_postgresql_answers_them(
    postgres: Postgres, kept: Store, known: dict[str, Table]
) -> None:
    """SQLite's functions take 127 arguments."""
    numbers, members = ", ".join(map(str, range(3, 300))), ", ".join(f"'m{i}', n" for i in range(50))
    wrong = unlike(postgres, kept, known, [
        f"SELECT _id, ARRAY[{numbers}] AS a, n = ANY(ARRAY[{numbers}]) AS b FROM readings",
        f"SELECT ARRAY[n, {numbers}] AS a FROM readings",
        f"SELECT json_build_object({members}) AS a, jsonb_build_array(n, {numbers[:298]}) AS b FROM readings",
        "SELECT _id, n > ALL(list) AS a, n <= ANY(list) AS b, station LIKE ANY(ARRAY['L%', NULL]) AS c, "
        "n > ANY(SELECT _id FROM sites) AS d, x >= ALL(SELECT height FROM sites WHERE height < n) AS e FROM readings",
    ])  # fmt: skip
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("sql", statements("sql_wrong.sql"))
def test_what_postgresql_refuses_is_refused(postgres: Postgres, kept: Store, known: dict[str, Table], sql: str) -> None:
    with pytest.raises(psycopg.Error):
        postgres.ask(sql)
    with pytest.raises((SqlFault, KeyError)):
        ask(kept, known, sql)


# ------------------------------------------------------------------ made statements

NUMBERS = st.sampled_from(["n", "big", "x", "exact", "2", "-3", "0", "1.5", "0.25::float", "_id", "NULL::int"])
TEXTS = st.sampled_from(["station", '"Upper Case"', "'Lugano'", "'a%'", "''", "NULL::text"])
TIMES = st.sampled_from(["at", "day", "zoned", "'2020-02-29'::timestamp", "'2020-01-31'::date"])
COLUMNS = st.sampled_from([*(f'"{field.name}"' for field in FIELDS if field.name != "doc"), "_id"])


def numeric(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, st.sampled_from("+-*/%"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(st.sampled_from(["abs", "round", "ceil", "floor", "sign", "-", "trunc"]), inner).map(
            lambda t: f"{t[0]}({t[1]})"
        ),
        st.tuples(st.sampled_from(["greatest", "least", "coalesce", "nullif"]), inner, inner).map(
            lambda t: f"{t[0]}({t[1]}, {t[2]})"
        ),
        st.tuples(inner, inner, inner).map(lambda t: f"(CASE WHEN {t[0]} > {t[1]} THEN {t[2]} ELSE {t[1]} END)"),
        st.tuples(inner, st.sampled_from(["int", "numeric", "float", "bigint"])).map(lambda t: f"({t[0]})::{t[1]}"),
        TEXTS.map(lambda t: f"length({t})"),
        TIMES.map(lambda t: f"extract(year FROM {t})"),
        TIMES.map(lambda t: f"date_part('doy', {t})"),
    )


NUMERIC = st.recursive(NUMBERS, numeric, max_leaves=4)
TEXT = st.one_of(
    TEXTS,
    st.tuples(st.sampled_from(["upper", "lower", "initcap", "reverse", "btrim"]), TEXTS).map(
        lambda t: f"{t[0]}({t[1]})"
    ),
    st.tuples(TEXTS, TEXTS).map(lambda t: f"({t[0]} || {t[1]})"),
    NUMERIC.map(lambda t: f"({t})::text"),
    st.tuples(TEXTS, st.integers(-3, 4)).map(lambda t: f"left({t[0]}, {t[1]})"),
    st.tuples(TEXTS, st.integers(0, 4), st.integers(0, 3)).map(lambda t: f"substring({t[0]} from {t[1]} for {t[2]})"),
)
TRUTH = st.one_of(
    st.tuples(NUMERIC, st.sampled_from(["=", "<>", "<", ">=", "IS DISTINCT FROM"]), NUMERIC).map(" ".join),
    st.tuples(TEXT, st.sampled_from(["=", "<", "LIKE", "ILIKE", "NOT LIKE"]), TEXTS).map(" ".join),
    st.tuples(TIMES, st.sampled_from(["=", "<", ">="]), TIMES).map(" ".join),
    COLUMNS.map(lambda c: f"{c} IS NULL"),
    st.tuples(NUMERIC, NUMERIC, NUMERIC).map(lambda t: f"{t[0]} IN ({t[1]}, {t[2]})"),
    st.tuples(NUMERIC, NUMERIC, NUMERIC).map(lambda t: f"{t[0]} BETWEEN {t[1]} AND {t[2]}"),
    st.sampled_from(["ok", "NOT ok", "ok IS NOT TRUE", "2 = ANY(list)"]),
)
ANY = st.one_of(NUMERIC, TEXT, TRUTH, COLUMNS)
AGGREGATE = st.one_of(
    st.tuples(st.sampled_from(["sum", "avg", "min", "max", "count", "stddev", "var_pop"]), NUMERIC).map(
        lambda t: f"{t[0]}({t[1]})"
    ),
    st.tuples(st.sampled_from(["count(DISTINCT {0})", "min({0})", "string_agg({0}, ',' ORDER BY _id)"]), TEXT).map(
        lambda t: t[0].format(t[1])
    ),
    st.tuples(NUMERIC, TRUTH).map(lambda t: f"sum({t[0]}) FILTER (WHERE {t[1]})"),
)
MADE = st.one_of(
    st.tuples(ANY, ANY, TRUTH).map(
        lambda t: f"SELECT _id, {t[0]} AS a, {t[1]} AS b FROM readings WHERE {t[2]} ORDER BY _id"
    ),
    st.tuples(ANY, ANY).map(lambda t: f"SELECT {t[0]} AS a FROM readings ORDER BY {t[1]} DESC, _id LIMIT 4 OFFSET 1"),
    st.tuples(TEXT, AGGREGATE, AGGREGATE).map(
        lambda t: f"SELECT {t[0]} AS a, {t[1]} AS b, {t[2]} AS c FROM readings GROUP BY 1 ORDER BY 1"
    ),
    st.tuples(NUMERIC, AGGREGATE, TRUTH).map(
        lambda t: f"SELECT ({t[0]})::float AS a, {t[1]} AS b FROM readings WHERE {t[2]} GROUP BY 1 ORDER BY 1"
    ),
    st.tuples(NUMERIC, TEXT).map(
        lambda t: f"SELECT _id, sum({t[0]}) OVER (PARTITION BY {t[1]} ORDER BY _id) AS a FROM readings ORDER BY _id"
    ),
    st.tuples(TEXT, TRUTH).map(lambda t: f"SELECT DISTINCT {t[0]} AS a FROM readings WHERE {t[1]} ORDER BY 1"),
    st.tuples(TEXT, TEXT).map(lambda t: f"SELECT {t[0]} AS a FROM readings UNION SELECT {t[1]} FROM sites, readings"),
)


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
@given(sql=MADE)
def test_made_statements_are_answered_alike_or_refused(both: Both, sql: str) -> None:
    try:
        fields, records = ask(both.store, both.tables, sql)
    except SqlFault:
        # A refusal is never wrong here; what users write must not be refused, above.
        return
    try:
        columns, theirs = both.postgres.ask(sql)
    except psycopg.errors.DataError:
        # It computes what is constant also where no row needs it, as 1 / 0 beside a condition that is never true.
        return
    assert fields == columns
    mine = rows_of(fields, records)
    kinds = [kind for _, kind in columns]
    if re.search("min|max|greatest|least|DISTINCT|UNION|GROUP", sql):
        # Of equal numerics any spelling may be given.
        mine, theirs = _unspelled(mine), _unspelled(theirs)
        kinds = ["float8" if kind == "numeric" else kind for kind in kinds]
    if "ORDER BY" not in sql or "UNION" in sql:
        mine, theirs = in_any_order(mine), in_any_order(theirs)
    assert differences(mine, theirs, kinds) == ""


def _unspelled(rows: list[list[Any]]) -> list[list[Any]]:
    return [[float(value) if isinstance(value, Decimal) else value for value in row] for row in rows]


# ------------------------------------------------------------------ the store's own rules


def test_allowed_functions_are_those_that_are_translated() -> None:
    assert FUNCTIONS == NAMES


def test_a_statement_sees_what_was_acknowledged(store: Store) -> None:
    table = make(store, records=numbered(3))
    for i in range(3):
        insert(store, table, {"name": "new", "n": 100 + i})
        _, records = ask(store, {"t": table}, "SELECT count(*) AS c, max(n) AS m FROM t")
        assert records == [{"c": 4 + i, "m": 100 + i}]


def test_a_table_changed_meanwhile_is_looked_up_again(store: Store) -> None:
    """All records deleted give a table another part: what a statement holds of it is of no use then."""
    from thalweg.domain.tables import EVERYTHING

    table = make(store, records=numbered(3))
    asked: list[Table] = []

    def find_it(names: tuple[str, ...]) -> dict[str, Table]:
        asked.append(store.table(table.uuid))
        if len(asked) == 1:
            store.delete_records(table, EVERYTHING)
            store.maintain()
        return dict.fromkeys(names, asked[-1])

    answer = store.sql("SELECT count(*) AS c FROM t", find_it, SqlLimits(time_s=20)).result(30)
    assert answer.records == b'[{"c":0}]'


def test_fields_added_and_taken_away_are_seen(store: Store) -> None:
    table = make(store, records=numbered(2))
    table = alter(store, table, fields=(*table.fields, Field("more", FieldType.INT4)))
    store.write_records(table, Method.INSERT, [{"n": 9, "more": 5}]).result(30)
    assert ask(store, {"t": table}, "SELECT more FROM t ORDER BY _id")[1] == [
        {"more": None},
        {"more": None},
        {"more": 5},
    ]
    kept = tuple(field for field in table.fields if field.name != "name")
    table = alter(store, table, fields=kept, delete_fields=True)
    with pytest.raises(SqlFault, match='column "name" does not exist'):
        ask(store, {"t": table}, "SELECT name FROM t")


@pytest.mark.parametrize(
    "clock", ["now()", "current_timestamp", "localtimestamp", "'now'::timestamptz", "CAST('now' AS timestamp)"]
)
def test_a_statement_asked_again_is_told_the_time_again(store: Store, clock: str) -> None:
    table = make(store, records=numbered(1))
    # Each of the processes is asked more than once.
    times = [ask(store, {"t": table}, f"SELECT {clock} AS at FROM t")[1][0]["at"] for _ in range(5)]
    assert times == sorted(set(times))


def test_a_text_that_is_made_does_not_mean_the_time(store: Store) -> None:
    """PostgreSQL reads it as that of the statement; it was the year 1970 here."""
    table = make(store, records=[{"name": "today", "n": 1}])
    for sql in ("SELECT name::date FROM t", "SELECT 'now'::text::timestamp AS a FROM t"):
        with pytest.raises(SqlFault, match="where a constant says them"):
            ask(store, {"t": table}, sql)


def test_a_statement_is_translated_once_for_what_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again for each request, but again when the table has other fields, or the statement means the time."""
    from thalweg.store.sqlite.sql import engine
    from thalweg.store.sqlite.sql.relations import relation_of

    asked: list[str] = []

    def counted(*given: Any) -> engine.Compiled:
        asked.append(given[0])
        return translate(*given)

    translate = engine.compile_statement
    monkeypatch.setattr(engine, "compile_statement", counted)
    monkeypatch.setattr(engine.apsw, "hard_heap_limit", lambda _bytes: 0)
    path = tmp_path / "store.sqlite"
    store = open_store(f"sqlite:///{path}")
    # An engine has its process, and the numbers' context there, to itself.
    with decimal.localcontext():
        table = make(store, records=numbered(2))
        made = engine.Engine(path)
        for _ in range(3):
            assert made.answer("SELECT n FROM t ORDER BY n", {"t": relation_of(table)}, 10, 5).records
        assert len(asked) == 1
        table = alter(store, table, fields=(*table.fields, Field("more", FieldType.INT4)))
        fields = json.loads(made.answer("SELECT * FROM t", {"t": relation_of(table)}, 10, 5).fields)
        assert fields[-1] == {"id": "more", "type": "int4"}
        made.answer("SELECT n FROM t ORDER BY n", {"t": relation_of(table)}, 10, 5)
        assert len(asked) == 3
        for text, more in (("'2020-01-01'", 1), ("'today'", 3)):
            before = len(asked)
            for _ in range(3):
                made.answer(f"SELECT n FROM t WHERE n > 0 OR TIMESTAMP {text} > '2020-06-01'",
                            {"t": relation_of(table)}, 10, 5)  # fmt: skip
            assert len(asked) - before == more
    store.close()


def test_words_are_found(store: Store) -> None:
    table = make(
        store, records=[{"name": "blue river", "n": 1}, {"name": "red river", "n": 2}, {"name": "sea", "n": 3}]
    )

    def ids(condition: str) -> list[int]:
        records = ask(store, {"t": table}, f"SELECT _id FROM t WHERE {condition} ORDER BY 1")[1]
        return [record["_id"] for record in records]

    assert ids("_full_text @@ to_tsquery('river & !red')") == [1]
    assert ids("_full_text @@ to_tsquery('english', 'riv:*')") == [1, 2]
    assert ids("t._full_text @@ plainto_tsquery('red river') OR n = 3") == [2, 3]
    assert ids("_full_text @@ phraseto_tsquery('river blue')") == []
    assert ids("NOT _full_text @@ to_tsquery('river')") == [3]
    with pytest.raises(SqlFault):
        ids("_full_text = 'x'")


def test_time_buckets_begin_on_a_monday(store: Store) -> None:
    fields = (Field("t", FieldType.TIMESTAMP), Field("v", FieldType.FLOAT8))
    times = ["2020-01-01T00:07:00", "2020-01-01T00:14:59", "2020-01-01T00:15:00", "2020-01-08T00:00:00"]
    table = make(store, fields, [{"t": t, "v": float(i)} for i, t in enumerate(times)])

    def buckets(width: str) -> list[list[Any]]:
        sql = f"SELECT time_bucket('{width}', t) AS b, avg(v) AS m FROM t GROUP BY 1 ORDER BY 1"
        fields, records = ask(store, {"t": table}, sql)
        return rows_of(fields, records)

    assert buckets("15 minutes") == [
        ["2020-01-01T00:00:00", Decimal("0.5")],
        ["2020-01-01T00:15:00", 2],
        ["2020-01-08T00:00:00", 3],
    ]
    assert [row[0] for row in buckets("1 week")] == ["2019-12-30T00:00:00", "2020-01-06T00:00:00"]
    assert [row[0] for row in buckets("3 months")] == ["2020-01-01T00:00:00"]


def test_rows_beyond_the_limit_are_cut_off_and_said_so(store: Store) -> None:
    table = make(store, records=numbered(10))
    for rows, truncated in ((9, True), (10, False)):
        answer = store.sql("SELECT n FROM t", lambda names: {"t": table}, SqlLimits(rows, 20)).result(30)
        assert answer.truncated is truncated
        assert len(json.loads(answer.records)) == min(rows, 10)


def test_what_takes_too_long_is_ended_and_others_go_on(store: Store) -> None:
    table = make(store, records=numbered(1000))
    ask(store, {"t": table}, "SELECT 1")
    slow = store.sql("SELECT count(*) FROM t a, t b, t c, t d", lambda names: {"t": table}, SqlLimits(time_s=0.5))
    quick = store.sql("SELECT count(*) AS c FROM t", lambda names: {"t": table}, SqlLimits(time_s=20))
    assert quick.result(30).records == b'[{"c":1000}]'
    with pytest.raises(SqlFault, match="Query took too long"):
        slow.result(30)
    assert ask(store, {"t": table}, "SELECT 1 AS a")[1] == [{"a": 1}]


def test_what_takes_too_much_memory_is_refused(store: Store) -> None:
    table = make(store, records=numbered(10))
    many = "generate_series(1, 100000)"
    for sql in (
        f"SELECT count(*) FROM (SELECT repeat('abc', 1000) || a AS b FROM {many} AS a ORDER BY 1) q",
        f"SELECT count(DISTINCT repeat('abc', 1000) || a) FROM {many} AS a",
        f"SELECT string_agg(repeat('abc', 1000), '') FROM {many} AS a",
        f"SELECT array_agg(repeat('abc', 1000)) FROM {many} AS a",
        "SELECT repeat('a', 1000000000)",
        f"SELECT repeat('a', {MAX_VALUE_BYTES + 1})",
        f"SELECT repeat('a', {MAX_VALUE_BYTES}) AS a FROM generate_series(0, {MAX_ANSWER_BYTES // MAX_VALUE_BYTES})",
        f"SELECT repeat('abc', 300000) AS a FROM {many}",
    ):
        with pytest.raises(SqlFault, match=r"memory|long|large|sorts"):
            ask(store, {"t": table}, sql)
    assert ask(store, {"t": table}, "SELECT count(*) AS c FROM t")[1] == [{"c": 10}]


def test_what_memory_does_not_hold_is_sorted_in_a_bounded_file(store: Store) -> None:
    rows = 300
    table = make(store, records=[{"name": f"{i:03d}" + "x" * 1000, "n": i} for i in range(rows)])
    grouped = "SELECT left(a.name, 3) AS k, sum(b.n) AS s FROM t a, t b GROUP BY a.name ORDER BY 1 DESC LIMIT 1"
    # The groups of 90,000 names of a thousand letters.
    assert rows**2 * 1000 > 2 * HEAP_BYTES
    assert ask(store, {"t": table}, grouped)[1] == [{"k": "299", "s": rows * (rows - 1) // 2}]
    wanted = MAX_TEMPORARY_BYTES // 1000 // rows**2 + 1
    longer = grouped.replace("t b", f"t b, generate_series(1, {wanted})")
    with pytest.raises(SqlFault, match="sorts or groups more than it may"):
        ask(store, {"t": table}, longer)
    assert ask(store, {"t": table}, grouped)[1]


def test_too_many_that_wait_are_told_to_come_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from thalweg.store.sqlite.sql import host

    monkeypatch.setattr(host, "MAX_WAITING", 0)
    go = threading.Event()

    def find_it(names: tuple[str, ...]) -> dict[str, Table]:
        go.wait(30)
        return {}

    futures = [store.sql("SELECT 1 AS a", find_it, SqlLimits(time_s=20)) for _ in range(host.PROCESSES)]
    with pytest.raises(StoreUnavailable):
        store.sql("SELECT 1", find_it, SqlLimits())
    go.set()
    assert [future.result(30).records for future in futures] == [b'[{"a":1}]'] * 2


def test_a_killed_process_is_replaced(store: Store) -> None:
    import psutil

    table = make(store, records=numbered(2))
    ask(store, {"t": table}, "SELECT 1")
    for child in psutil.Process().children():
        if "sqlite.sql.process" in " ".join(child.cmdline()):
            child.kill()
            child.wait(10)
    with pytest.raises(SqlFault):
        ask(store, {"t": table}, "SELECT 1")
    assert ask(store, {"t": table}, "SELECT count(*) AS c FROM t")[1] == [{"c": 2}]
    assert find(store, table)[1] == 2


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT 1 AS a, " + "+".join(["1"] * 8000), "parts|deep|long"),
        ("SELECT " + "(" * 12_000 + "1" + ")" * 12_000, "longer|memory"),
        ("SELECT " + "NOT " * 900 + "true", "deep"),
        ("SELECT " + "array[" * 900 + "1" + "]" * 900, "deep"),
        ("SELECT 1 AS a" + ", 1" * 9_000, "longer|parts"),
        ("SELECT 1 UNION " * 400 + "SELECT 1", "deep"),
        ("SELECT * FROM " + ", ".join(f"t AS a{i}" for i in range(MAX_TABLES + 1)), "times"),
        ("SELECT '" + "x" * MAX_SQL_BYTES + "'", "longer"),
        ("SELECT '\ud800'", "surrogate"),
        ("SELECT '\0'", "NUL"),
        ("", "single"),
        ("-- nothing", "single"),
    ],
)  # fmt: skip
def test_texts_of_statements_are_bounded(sql: str, message: str) -> None:
    with pytest.raises(SqlFault, match=message):
        parse(sql)
    assert MAX_DEPTH < 200
    assert MAX_NODES <= 20_000


@pytest.mark.fuzz
@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from("SELECT FROM WHERE t n , ( ) * + 'a' 1 AS JOIN ON ; -- [ ] :: int . \" $1 @@".split())))
def test_any_text_is_parsed_or_refused(words: list[str]) -> None:
    try:
        parse(" ".join(words))
    except (SqlFault, SqlForbidden):
        pass
