"""datastore_search_sql: shapes, rights, and statements that mean harm."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.conformance.ckan_support import Site

FIELDS = [
    {"id": "bük", "type": "text"},
    {"id": "author", "type": "text"},
    {"id": "published", "type": "timestamp"},
    {"id": "price", "type": "numeric"},
    {"id": "ZIP_CODE", "type": "text"},
]
RECORDS = [
    {"bük": "annakarenina", "author": "tolstoy", "published": "2005-03-01", "price": 12.50, "ZIP_CODE": "6900"},
    {"bük": "warandpeace", "author": "tolstoy", "price": 10},
    {"bük": "foo; bar", "author": "bob"},
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("ckan"), ckan_rows_max=100, ckan_sql_time_s=1.0)
    yield made
    made.close()


@pytest.fixture(scope="module")
def table(site: Site) -> str:
    return site.table(FIELDS, records=RECORDS, aliases="books4")


@pytest.fixture(scope="module")
def private(site: Site) -> str:
    site.act("package_create", name="private-one", private=True)
    found = site.act(
        "datastore_create",
        resource={"package_id": "private-one"},
        fields=[{"id": "ham", "type": "text"}],
        records=[{"ham": "secret"}],
        aliases="hidden",
    )
    return str(found["resource_id"])


def ask(site: Site, sql: str, **options: Any) -> Any:
    return site.act("datastore_search_sql", token="", sql=sql, **options)


def test_shape_of_an_answer(site: Site, table: str) -> None:
    sql = f"SELECT * FROM public.\"{table}\" WHERE author LIKE 'tol%' ORDER BY _id"  # noqa: S608
    found = ask(site, sql)
    assert found == {
        "sql": sql,
        "records": [
            {
                "_id": 1,
                "bük": "annakarenina",
                "author": "tolstoy",
                "published": "2005-03-01T00:00:00",
                "price": 12.5,
                "ZIP_CODE": "6900",
            },
            {
                "_id": 2,
                "bük": "warandpeace",
                "author": "tolstoy",
                "published": None,
                "price": 10,
                "ZIP_CODE": None,
            },
        ],
        "fields": [
            {"id": "_id", "type": "int4"},
            {"id": "bük", "type": "text"},
            {"id": "author", "type": "text"},
            {"id": "published", "type": "timestamp"},
            {"id": "price", "type": "numeric"},
            {"id": "ZIP_CODE", "type": "text"},
        ],
    }


def test_get_and_alias(site: Site, table: str) -> None:
    answer = site.get("/api/3/action/datastore_search_sql", sql="SELECT count(*) FROM books4")
    assert answer.json()["result"]["records"] == [{"count": 3}]
    answer = site.get("/api/3/action/datastore_search_sql", sql="SELECT 1 AS a", callback="cb")
    assert answer.text.startswith("cb({")


def test_self_join(site: Site, table: str) -> None:
    sql = (
        f'select a._id as first, b._id as second from "{table}" AS a, "{table}" AS b '  # noqa: S608
        "where a.author = b.author order by 1, 2 limit 2"
    )
    assert ask(site, sql)["records"] == [{"first": 1, "second": 1}, {"first": 1, "second": 2}]


def test_semicolons_within_texts_and_comments(site: Site, table: str) -> None:
    sql = f'SELECT _id FROM "{table}" WHERE "bük" = \'foo; bar\' -- done; really'  # noqa: S608
    assert ask(site, sql)["records"] == [{"_id": 3}]
    assert ask(site, "SELECT 1 AS a;")["records"] == [{"a": 1}]


def test_upper_case_columns_need_quotes(site: Site, table: str) -> None:
    error = site.error("datastore_search_sql", sql=f'SELECT ZIP_CODE FROM "{table}"')  # noqa: S608
    assert error["query"] == ['column "zip_code" does not exist']
    assert ask(site, f'SELECT "ZIP_CODE" FROM "{table}" LIMIT 1')["records"] == [{"ZIP_CODE": "6900"}]  # noqa: S608


def test_functions_are_named_in_any_case(site: Site, table: str) -> None:
    assert ask(site, f'SELECT UpPeR(author) FROM "{table}" LIMIT 1')["records"] == [{"upper": "TOLSTOY"}]  # noqa: S608


def test_more_records_than_one_answer_has_are_said_to_be_there(site: Site) -> None:
    found = ask(site, "SELECT * FROM generate_series(1, 101) AS s")
    assert (len(found["records"]), found["records_truncated"]) == (100, True)
    found = ask(site, "SELECT * FROM generate_series(1, 100) AS s")
    assert len(found["records"]) == 100
    assert "records_truncated" not in found


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELEC 1", 'Invalid SQL: syntax error at or near "SELEC", at index 0'),
        ("SELECT 1; SELECT 2", "Query is not a single statement"),
        ("DELETE FROM books4", "Invalid query AST element: DeleteStmt"),
        ("WITH a AS (DELETE FROM books4 RETURNING *) SELECT * FROM a", "Invalid query AST element: DeleteStmt"),
    ],
)
def test_faults_of_the_text_alone(site: Site, table: str, sql: str, message: str) -> None:
    assert site.error("datastore_search_sql", sql=sql) == {"message": message, "query": [message]}


def test_a_statement_is_needed(site: Site) -> None:
    for parameters in ({}, {"sql": ""}, {"sql": None}):
        assert site.error("datastore_search_sql", **parameters) == {"sql": ["Missing value"]}
    assert site.error("datastore_search_sql", sql={"a": 1}) == {"sql": ["Must be a text"]}


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT ham FROM "{private}"',
        "SELECT ham FROM hidden",
        'SELECT author, ham FROM "{table}", "{private}"',
        'SELECT (SELECT max(ham) FROM "{private}")',
        'SELECT 1 WHERE EXISTS (SELECT 1 FROM "{private}")',
        'WITH a AS (SELECT * FROM "{private}") SELECT 1',
        'SELECT 1 UNION SELECT count(*) FROM "{private}"',
        'SELECT * FROM "{table}" WHERE author IN (SELECT ham FROM "{private}")',
        'WITH hidden AS (SELECT * FROM hidden) SELECT * FROM hidden',
        'SELECT * FROM public.hidden',
    ],
)  # fmt: skip
def test_private_tables_cannot_be_read_in_any_place(site: Site, table: str, private: str, sql: str) -> None:
    filled = sql.format(table=table, private=private)
    error = site.act("datastore_search_sql", 403, token="", sql=filled)
    assert error == {"__type": "Authorization Error", "message": "Access denied: Not authorized to read resource."}
    assert site.act("datastore_search_sql", sql=filled)["records"] is not None


FORBIDDEN = [
    "SELECT * FROM pg_roles",
    "SELECT * FROM pg_catalog.pg_database",
    "SELECT * FROM pg_catalog./**/pg_authid",
    "SELECT * FROM information_schema.tables",
    'SELECT p.rolpassword FROM pg_roles p JOIN "{table}" r ON p.rolpassword = r.author',
    "SELECT pg_sleep(20)",
    'SELECT "pg_sleep"(20)',
    "SELECT pg_catalog.pg_sleep(20)",
    "SELECT pg_catalog./**/pg_sleep(20)",
    "SELECT query_to_xml('SELECT 1', true, true, '')",
    "SELECT current_setting('data_directory')",
    "SELECT set_config('a', 'b', false)",
    "SELECT lo_import('/etc/passwd')",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT dblink('host=127.0.0.1', 'SELECT 1')",
    "SELECT load_extension('x')",
    "SELECT writefile('x', 'y')",
    "SELECT readfile('/etc/passwd')",
    "SELECT sqlite_version()",
    "SELECT zeroblob(1000000000)",
    "SELECT randomblob(1000000000)",
    "SELECT count(*) FROM pragma_table_info('package')",
    "SELECT fts5_source_id()",
    "SELECT pg_key(author) FROM books4",
    "SELECT * FROM main.package",
]
REFUSED = [
    "SELECT * FROM sqlite_master",
    "SELECT * FROM sqlite_schema",
    "SELECT * FROM package",
    "SELECT * FROM record_1",
    "SELECT * FROM json_each",
    "SELECT f1 FROM books4",
    "SELECT rowid FROM books4",
    "SELECT id FROM books4",
    "SELECT ctid FROM books4",
    "SELECT * FROM \"books4\"\" UNION SELECT * FROM package --\"",
    "INSERT INTO books4 VALUES (1)",
    "UPDATE books4 SET author = 'x'",
    "DROP TABLE books4",
    "CREATE TABLE x (a int)",
    "COPY books4 TO '/tmp/x'",
    "SELECT * INTO x FROM books4",
    "SELECT * FROM books4 FOR UPDATE",
    "ATTACH DATABASE 'x' AS y",
    "PRAGMA table_info(package)",
    "BEGIN",
    "EXPLAIN SELECT 1",
    "DO $$ BEGIN END $$",
    "SET ROLE postgres",
    "WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a) SELECT count(*) FROM a",
    "SELECT 1 WHERE 1 IN (WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n FROM a) SELECT n FROM a)",
    "SELECT repeat('a', 1000000000)",
    "SELECT lpad('a', 1000000000)",
    "SELECT repeat(repeat('a', 1000000), 1000)",
    "SELECT generate_series(1, 1000000000)",
    "SELECT count(*) FROM generate_series(1, 9223372036854775807)",
    "SELECT * FROM generate_series(now(), now() + interval '9000 years', '1 microsecond') AS s",
    "SELECT count(*) FROM books4 a, books4 b, books4 c, books4 d, books4 e, books4 f, books4 g, books4 h, books4 i, "
    "books4 j, books4 k, books4 l, books4 m, books4 n, books4 o, books4 p, books4 q, books4 r, books4 s, books4 t",
    "SELECT count(*) FROM generate_series(1, 200000) a, generate_series(1, 200000) b",
    "SELECT $1",
    "SELECT 'a' ~ '(a|a)*{1000}{1000}'",
    "SELECT format('%1000000000s', 'a')",
    "SELECT 10.0 ^ 100000000",
    "SELECT 1e1000000",
    "SELECT * FROM books4 LIMIT -1",
    "SELECT random()",
]  # fmt: skip


@pytest.mark.fuzz
@pytest.mark.parametrize("sql", FORBIDDEN)
def test_forbidden_functions_and_tables(site: Site, table: str, sql: str) -> None:
    error = site.act("datastore_search_sql", sql=sql.format(table=table), status=403)
    assert error["__type"] == "Authorization Error"
    assert error["message"].startswith("Access denied: Not authorized to ")


@pytest.mark.fuzz
@pytest.mark.parametrize("sql", REFUSED)
def test_hostile_statements_are_refused_in_time(site: Site, table: str, sql: str) -> None:
    began = time.monotonic()
    answer = site.send("POST", "/api/3/action/datastore_search_sql", json={"sql": sql})
    assert answer.status_code in (403, 404, 409), answer.text
    assert "record_" not in answer.text.replace("record_1", "") or "record_" in sql
    assert time.monotonic() - began < 8
    assert site.rows(table)[0][1] == "annakarenina"


def test_what_is_costly_yet_bounded_is_answered(site: Site, table: str) -> None:
    assert ask(site, "SELECT repeat('(a|a)*', 20) || 'b' ~ '(a|a)*c' AS m")["records"] == [{"m": False}]
    assert ask(site, "SELECT repeat('a', 5000) ~ '(a|a)*b' AS m")["records"] == [{"m": False}]
    assert ask(site, f"SELECT repeat('a', 5000) LIKE '{'%a' * 400}b' AS m")["records"] == [{"m": False}]


def test_the_loop_is_free_while_a_statement_runs(site: Site, table: str) -> None:
    """Another request is answered while one takes its second."""
    import asyncio

    async def both() -> float:
        slow = asyncio.ensure_future(site._client.post("/api/3/action/datastore_search_sql", json={"sql": REFUSED[-8]}))
        await asyncio.sleep(0.2)
        began = time.monotonic()
        answer = await site._client.get("/api/3/action/datastore_search", params={"resource_id": table})
        took = time.monotonic() - began
        assert answer.status_code == 200
        assert not slow.done()
        assert "too long" in (await slow).text
        return took

    assert site._runner.run(both()) < 0.7
