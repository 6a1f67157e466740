"""SQL over procedures: what PostgreSQL answers over tables of the same records, and what is read for it."""

from __future__ import annotations

import csv
import math
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

import apsw
import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from tests.store.sql_support import Postgres, ask, differences, rows_of, same, statements, unlike
from tests.store.support import (
    EVERY_KIND,
    STEP,
    T0,
    WAIT_S,
    SqliteBackend,
    Station,
    block,
    fill,
    insert,
    insertion,
    kinds_of,
    register,
    series,
    times,
)
from tests.store.table_support import insert as write
from tests.store.table_support import make

import thalweg
from thalweg.domain.blocks import Block, Column, ValueKind
from thalweg.domain.catalogue import ProcedureKind
from thalweg.domain.errors import DamagedData, StoreUnavailable
from thalweg.domain.observations import OnDuplicate
from thalweg.domain.store import Store
from thalweg.domain.table_sql import MadeTable, SqlFault, SqlLimits
from thalweg.domain.table_values import FieldType
from thalweg.domain.tables import Field, Table
from thalweg.domain.time import Interval
from thalweg.services.procedure_sql import FIRST_ROWS
from thalweg.services.procedure_tables import ProcedureTables
from thalweg.store.open import open_store
from thalweg.store.sqlite.sql.made import MAX_MODULES, Reads

NYC = Path(thalweg.__file__).parent / "demo" / "nyc2013"
AIRPORTS = (Field("name", FieldType.TEXT), Field("opened", FieldType.TIMESTAMPTZ))
AIRPORT_ROWS = (
    {"name": "JFK", "opened": "2013-07-01T00:00:00+00:00"},
    {"name": "LGA", "opened": "2013-10-15T13:00:00+00:00"},
    {"name": "EWR", "opened": "1928-10-01T00:00:00+00:00"},
    {"name": "SWF"},
)

Known = dict[str, Table | MadeTable]


def relation(store: Store, station: Station) -> MadeTable:
    tables = ProcedureTables(store)
    catalogue = store.catalogue(station.workspace_id)
    return tables.relation(tables.table(catalogue, catalogue.procedures[station.procedure.id]))


def measured(code: str) -> tuple[list[int], dict[str, list[float | None]]]:
    """A year of an airport's weather by the hour: instants and columns; a reading is taken once an instant."""
    with (NYC / f"{code}.csv").open() as source:
        rows = {row.pop("time"): row for row in csv.DictReader(source)}
    ends = [int(datetime.fromisoformat(key).timestamp()) * 1_000_000 for key in rows]
    names = list(next(iter(rows.values())))
    return ends, {name: [float(row[name]) if row[name] else None for row in rows.values()] for name in names}


def column(kind: ValueKind, values: list[Any], quality: int | list[int] = 100) -> Column:
    return Column.of(kind, values, quality)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = open_store(f"sqlite:///{tmp_path_factory.mktemp('sql') / 'store.sqlite'}")
    yield store
    store.close()


@pytest.fixture(scope="module")
def known(kept: Store) -> Known:
    found: Known = {"airports": make(kept, AIRPORTS, AIRPORT_ROWS, name="airports")}
    for code in ("jfk", "lga", "ewr"):
        ends, columns = measured(code)
        station = register(kept, code, [series(name) for name in columns], sampling_us=None)
        values = dict(zip(station.ids, columns.values(), strict=True))
        rows = Block(
            np.array(ends, np.int64),
            {key: column(ValueKind.NUMBER, items) for key, items in values.items()},
        )
        # The last month comes in as a sensor sends it: it is not in chunks.
        split = len(ends) * 11 // 12
        kept.load(station.workspace_id, insertion(station, rows.take(slice(0, split)), on_duplicate=OnDuplicate.SKIP))
        insert(kept, station, rows.take(slice(split, None)))
        found[code] = relation(kept, station)
    return found


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    made = Postgres()
    made.connection.execute("CREATE TABLE airports (_id serial PRIMARY KEY, name text, opened timestamptz)")
    for row in AIRPORT_ROWS:
        made.connection.execute("INSERT INTO airports (name, opened) VALUES (%s, %s)", (row["name"], row.get("opened")))
    for code in ("jfk", "lga", "ewr"):
        ends, columns = measured(code)
        names = "".join(f", {name} float8, {name}_quality int4" for name in columns)
        made.connection.execute(
            f"CREATE TABLE {code} (_id int8, time timestamptz{names}, begin_time timestamptz, result_time timestamptz)"
        )
        with made.connection.cursor().copy(f"COPY {code} FROM STDIN") as copy:
            for place, end in enumerate(ends):
                cells: list[Any] = [end, datetime.fromtimestamp(end // 1_000_000, UTC)]
                for items in columns.values():
                    value = items[place]
                    cells += [value, None if value is None else 100]
                copy.write_row([*cells, None, None])
    yield made
    made.close()


def test_statements_over_a_year_of_real_stations_are_answered_as_postgresql_answers_them(
    postgres: Postgres, kept: Store, known: Known
) -> None:
    asked = statements("sql_procedures.sql")
    wrong = unlike(postgres, kept, known, asked)
    assert not wrong, "\n".join(wrong)
    assert len(asked) > 60


@pytest.mark.parametrize(
    ("width", "minutes"), [("1 minute", 1), ("15 minutes", 15), ("6 hours", 360), ("1 week", 10_080), ("11 hours", 660)]
)
def test_buckets_of_time_are_counted_from_a_monday(kept: Store, known: Known, width: str, minutes: int) -> None:
    """3 January 2000, as the door's README says."""
    length, monday = minutes * 60, int(datetime(2000, 1, 3, tzinfo=UTC).timestamp())
    counts = Counter((end // 1_000_000 - monday) // length * length + monday for end in measured("jfk")[0])
    sql = f"SELECT time_bucket('{width}', time) AS b, count(*) AS n FROM jfk GROUP BY b ORDER BY b"  # noqa: S608
    _, records = ask(kept, known, sql)
    expected = [(datetime.fromtimestamp(second, UTC).isoformat(), n) for second, n in sorted(counts.items())]
    assert [(record["b"], record["n"]) for record in records] == expected


BOUND = st.sampled_from(["'2013-01-31'", "'2013-05-05 13:00Z'", "'2014-06-01'", "'2012-01-01'", "NULL",
                         "'2013-05-05'::date", "'2013-12-30 23:30'::timestamp"])  # fmt: skip
CONDITION = st.one_of(
    st.builds("a.{} {} {}".format, st.just("time"), st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]), BOUND),
    st.builds("a.time BETWEEN {} AND {}".format, BOUND, BOUND),
    st.builds("a._id {} {}".format, st.sampled_from(["<", "<=", ">", ">=", "="]),
              st.sampled_from(["1367758800000000", "1367758800000001", "0", "9e15", "-5", "1367758800000000.5"])),
    st.sampled_from(["a.temp > 50", "a.wind_gust IS NULL", "a.temp IS NOT NULL"]),
)  # fmt: skip
WHERE = st.recursive(
    CONDITION,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner)
        | st.builds("NOT ({})".format, inner)
    ),
    max_leaves=4,
)
ORDER = st.sampled_from(
    ["a.time", "a.time DESC", "a._id", "a._id DESC", "a.time DESC, a._id DESC", "a.time, a._id DESC"]
)


@hypothesis.given(where=WHERE, order=ORDER, limit=st.integers(0, 5), offset=st.sampled_from([0, 1, 70, 8_300]))
@hypothesis.settings(max_examples=60, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
def test_made_conditions_are_answered_alike(
    postgres: Postgres, kept: Store, known: Known, where: str, order: str, limit: int, offset: int
) -> None:
    page = f"SELECT a.time, a.temp FROM jfk a WHERE {where} ORDER BY {order} LIMIT {limit} OFFSET {offset}"  # noqa: S608
    total = f"SELECT count(*), sum(b.temp) FROM jfk a LEFT JOIN lga b ON b.time = a.time WHERE {where}"  # noqa: S608
    for sql in (page, total):
        columns, theirs = postgres.ask(sql)
        fields, records = ask(kept, known, sql)
        assert not differences(rows_of(fields, records), theirs, [kind for _, kind in columns]), sql


# ------------------------------------------------------------------ of every kind


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = open_store(f"sqlite:///{tmp_path / 'store.sqlite'}")
    yield made
    made.close()


def answer(store: Store, made: MadeTable, sql: str, **limits: Any) -> list[list[Any]]:
    fields, records = ask(store, {"p": made}, sql, SqlLimits(**{"time_s": 20, **limits}))
    return rows_of(fields, records)


def test_values_of_every_kind_and_their_qualities(store: Store) -> None:
    station = register(store, wanted=EVERY_KIND)
    number, count, text, truth = station.ids
    rows = block(
        [T0, T0 + STEP],
        {number: [0.1, None], count: [1 << 60, 3], text: ["a,b", None], truth: [True, False]},
        kinds=kinds_of(station), quality=[101, 110],
    )  # fmt: skip
    insert(store, station, rows)
    fields, records = ask(store, {"p": relation(store, station)}, "SELECT * FROM p")
    assert fields == [
        ("_id", "int8"), ("time", "timestamptz"), ("air:temperature", "float8"), ("air:temperature_quality", "int4"),
        ("traffic:count", "int8"), ("traffic:count_quality", "int4"), ("weather:present", "text"),
        ("weather:present_quality", "int4"), ("door:open", "bool"), ("door:open_quality", "int4"),
        ("begin_time", "timestamptz"), ("result_time", "timestamptz"),
    ]  # fmt: skip
    first, second = (list(row.values())[2:10] for row in records)
    assert same(first.pop(0), 0.1, "float8")
    assert [first, second[1:]] == [
        [101, 1 << 60, 101, "a,b", 101, True, 101],
        [None, 3, 110, None, None, False, 110],
    ]
    made = relation(store, station)
    sql = 'SELECT "traffic:count" + 1 FROM p WHERE "door:open" AND "weather:present" LIKE \'a%\''
    assert answer(store, made, sql) == [[(1 << 60) + 1]]
    assert answer(store, made, 'SELECT sum("traffic:count") FROM p') == [[(1 << 60) + 3]]
    with pytest.raises(SqlFault, match="out of range"):
        answer(store, made, 'SELECT "traffic:count" * 100 FROM p')


def test_forecasts_and_places_are_told_apart(store: Store) -> None:
    station = register(store, places=2, wanted=[series("flow", "m3/s")])
    (flow,) = station.ids
    insert(store, station, block([T0, T0, T0 + STEP], {flow: [1, 2, 3]}, results=[T0 - STEP, T0, T0 + STEP]))
    insert(store, station, block([T0, T0 + 2 * STEP], {flow: [4, 5]}), place=1)
    made = relation(store, station)
    assert answer(store, made, "SELECT _id, flow FROM p ORDER BY _id") == [
        [T0, 1], [T0 + 1, 2], [T0 + 2, 4], [T0 + STEP, 3], [T0 + 2 * STEP, 5],
    ]  # fmt: skip
    assert answer(store, made, "SELECT flow FROM p ORDER BY time DESC, _id DESC") == [[5], [3], [4], [2], [1]]
    where = "SELECT flow FROM p WHERE "
    assert answer(store, made, where + f"_id = {T0 + 1}") == [[2]]
    assert answer(store, made, where + f"_id > {T0} AND _id < {T0 + STEP}") == [[2], [4]]
    assert answer(store, made, "SELECT feature, sum(flow) FROM p GROUP BY feature ORDER BY 2") == [
        [made.layout.tracks[0][1], 6], [made.layout.tracks[1][1], 9],  # type: ignore[attr-defined]
    ]  # fmt: skip
    # Each row of a time meets each other one, as often as it is looked up.
    sql = "SELECT count(*) FROM p a JOIN p b ON a.time = b.time"
    assert answer(store, made, sql) == [[9 + 1 + 1]]
    either = f"_id = {T0} OR _id = {T0 + 1} OR time = '{datetime.fromtimestamp(T0 / 1e6, UTC)}' ORDER BY flow"
    assert answer(store, made, where + either) == [[1], [2], [4]]


def test_more_rows_of_one_time_than_a_look_up_keeps(store: Store) -> None:
    station = register(store, wanted=[series("flow", "m3/s")])
    (flow,) = station.ids
    n = 3 * FIRST_ROWS
    insert(store, station, block([T0] * n + [T0 + STEP], {flow: list(range(n + 1))}, results=[*times(n), T0 + STEP]))
    made = relation(store, station)
    sql = "SELECT count(*), count(DISTINCT b.flow) FROM (SELECT DISTINCT time FROM p) a JOIN p b ON a.time = b.time"
    assert answer(store, made, sql) == [[n + 1, n + 1]]


def test_positions_of_mobile_procedures(store: Store) -> None:
    station = register(store, kind=ProcedureKind.MOBILE, wanted=[series("ph", "1")])
    places = [[8.95, 46.0, 273.0], [8.96, 46.1, math.nan]]
    insert(store, station, block([T0, T0 + STEP], {station.ids[0]: [7.1, 7.2]}, positions=places))
    sql = "SELECT x, y, z, ph FROM p ORDER BY time DESC LIMIT 1"
    ((x, y, z, ph),) = answer(store, relation(store, station), sql)
    assert [float(x), float(y), z, float(ph)] == [8.96, 46.1, None, 7.2]


def test_what_was_acknowledged_is_there_and_what_is_deleted_is_not(store: Store) -> None:
    station = register(store)
    fill(store, station, 5_000)
    made = relation(store, station)
    count = "SELECT count(*) FROM p"
    assert answer(store, made, count) == [[5_000]]
    a = station.ids[0]
    for i in range(20):
        insert(store, station, block([T0 + (5_000 + i) * STEP], {a: [float(i)]}))
        latest = 'SELECT time, "air:temperature" FROM p ORDER BY time DESC LIMIT 1'
        assert [same(x, i, "float8") for _, x in answer(store, made, latest)] == [True]
    store.delete(station.track, Interval(T0, T0 + 100 * STEP)).result(WAIT_S)
    assert answer(store, made, count) == [[4_920]]
    # A correction is laid over a sealed row.
    insert(store, station, block([T0 + 200 * STEP], {a: [-40.0]}), on_duplicate=OnDuplicate.REPLACE)
    assert answer(store, made, 'SELECT count(*), min("air:temperature") FROM p') == [[4_920, -40]]


def test_tables_and_procedures_of_a_statement_are_of_one_state(store: Store) -> None:
    """A record is written before its observation: no statement sees the observation without it."""
    station = register(store)
    fill(store, station, 10)
    made = relation(store, station)
    fields = (Field("n", FieldType.INT4),)
    table = make(store, fields, [{"n": i} for i in range(10)])
    stop, failed = Event(), []

    def work() -> None:
        i = 10
        while not stop.is_set():
            try:
                write(store, table, {"n": i})
                insert(store, station, block([T0 + i * STEP], {station.ids[0]: [1.0]}))
            except Exception as error:  # (told by the test)
                failed.append(error)
                return
            i += 1

    thread = Thread(target=work)
    thread.start()
    try:
        end = time.monotonic() + 2
        asked = 0
        # On a busy machine longer.
        while asked < 10 or time.monotonic() < end:
            _, (found,) = ask(
                store, {"p": made, "t": table},
                "SELECT (SELECT count(*) FROM t) AS a, (SELECT count(*) FROM p) AS b",
            )  # fmt: skip
            assert found["a"] - found["b"] in (0, 1), found
            asked += 1
    finally:
        stop.set()
        thread.join(WAIT_S)
    assert not failed


# ------------------------------------------------------------------ bounds


def test_a_long_statement_is_ended_and_the_process_goes_on(store: Store) -> None:
    station = register(store)
    fill(store, station, 20_000)
    made = relation(store, station)
    begun = time.monotonic()
    for sql in (
        "SELECT count(*) FROM p a, p b",
        "SELECT count(*) FROM p a JOIN p b ON a.time < b.time",
        'SELECT count(*) FROM p a JOIN p b ON a."air:rainfall" = b."air:rainfall"',
        "SELECT count(*) FROM p a, p b WHERE to_char(a.time, 'YYYY') = 'x' || b._id",
    ):
        with pytest.raises(SqlFault, match="too long"):
            answer(store, made, sql, time_s=0.3)
    assert time.monotonic() - begun < 20
    assert answer(store, made, "SELECT count(*) FROM p") == [[20_000]]
    # Nothing is held that keeps the write-ahead log from being taken over.
    assert answer(store, made, "SELECT 1") == [[1]]


def test_rows_and_memory_are_bounded(store: Store) -> None:
    station = register(store)
    fill(store, station, 30_000)
    made = relation(store, station)
    found = store.sql("SELECT _id FROM p", lambda names: dict.fromkeys(names, made), SqlLimits(500, 20)).result(60)
    assert found.truncated
    with pytest.raises(SqlFault, match=r"memory|too long"):
        answer(store, made, "SELECT array_agg(a.time::text || repeat('x', 2000)) FROM p a")


def test_the_newest_row_and_a_day_cost_the_same_with_a_year_and_with_ten(store: Store) -> None:
    def asked(n: int, name: str) -> float:
        station = register(store, name)
        fill(store, station, n)
        store.seal(everything=True)
        made = relation(store, station)
        newest = 'SELECT time, "air:temperature" FROM p ORDER BY time DESC LIMIT 1'
        assert same(answer(store, made, newest)[0][1], (n - 1) * 7 % 300 / 10, "float8")
        half = f"'{datetime.fromtimestamp((T0 + n // 2 * STEP) / 1e6, UTC)}'::timestamptz"
        day = f"time >= {half} AND time < {half} + '1 day'"
        mean = f'SELECT avg("air:temperature") FROM p WHERE {day}'  # noqa: S608
        best = math.inf
        for _ in range(12):
            begun = time.perf_counter()
            answer(store, made, newest)
            answer(store, made, mean)
            best = min(best, time.perf_counter() - begun)
        return best

    small, large = asked(52_560, "A"), asked(525_600, "B")
    # Reading ten years takes a hundred times as long.
    assert large < 4 * small, (small, large)


def test_many_procedures_are_read_by_one_process(store: Store) -> None:
    stations = [register(store, f"S{i}") for i in range(MAX_MODULES + 5)]
    for station in stations[:3]:
        fill(store, station, 5)
    made = [relation(store, station) for station in stations]
    for each in (*made, made[0]):
        answer(store, each, "SELECT count(*) FROM p")
    assert answer(store, made[0], "SELECT count(*) FROM p") == [[5]]


def test_a_procedure_is_there_when_room_is_made_for_another_of_its_statement(store: Store) -> None:
    stations = [register(store, f"S{i}") for i in range(MAX_MODULES + 1)]
    for station in stations:
        fill(store, station, 5)
    made = [relation(store, station) for station in stations]
    for each in made[:-1]:
        answer(store, each, "SELECT count(*) FROM p")
    known: Known = {"known": made[0], "new": made[-1]}
    assert rows_of(*ask(store, known, "SELECT count(*) FROM known JOIN new USING (time)")) == [[5]]


def test_a_damaged_chunk_is_named_and_the_process_goes_on(tmp_path: Path) -> None:
    backend = SqliteBackend(tmp_path)
    try:
        store = backend.open()
        station = register(store)
        fill(store, station, 3000)
        store.seal(everything=True)
        backend.damage_chunk(station.track, 0)
        made = relation(store, station)
        with pytest.raises(DamagedData, match="chunk"):
            answer(store, made, 'SELECT sum("air:temperature") FROM p')
        # How many there are is known without looking at them.
        assert answer(store, made, "SELECT count(*) FROM p WHERE time > '1990-01-01'") == [[3000]]
        # The last row is in another chunk.
        assert answer(store, made, "SELECT time FROM p ORDER BY time DESC LIMIT 1")
    finally:
        backend.close()


def test_a_store_that_never_rests_is_unavailable_rather_than_of_two_states(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = Reads(tmp_path / "store.sqlite")
    connection = apsw.Connection(str(tmp_path / "store.sqlite"))
    versions = iter(range(100))
    monkeypatch.setattr(Reads, "_version", lambda self: next(versions))
    with pytest.raises(StoreUnavailable, match="written to all the time"), reads.beside(connection):
        pytest.fail("two states")
    assert not connection.in_transaction


def test_a_name_of_the_inside_is_none_of_a_statement(store: Store) -> None:
    station = register(store)
    made = relation(store, station)
    for sql in ("SELECT * FROM made_1", "SELECT id FROM p", "SELECT at FROM p", "SELECT v2 FROM p"):
        with pytest.raises((SqlFault, KeyError)):
            answer(store, made, sql)


def test_none_of_the_rows(store: Store) -> None:
    made = relation(store, register(store))
    assert answer(store, made, "SELECT * FROM p ORDER BY time DESC LIMIT 1") == []
    assert answer(store, made, "SELECT count(*), max(time) FROM p") == [[0, None]]
    assert answer(store, made, "SELECT count(*) FROM p a JOIN p b ON a.time = b.time") == [[0]]


def test_steps_that_begin_before_all_timestamps_are_told(store: Store) -> None:
    airports = make(store, AIRPORTS)
    write(store, airports, *({"name": year, "opened": f"{year}-01-02T00:00:00+00:00"} for year in ("0001", "2020")))
    known: Known = {"airports": airports}

    def begins(width: str, year: str) -> list[list[Any]]:
        sql = f"SELECT time_bucket('{width}', opened) AS begin FROM airports WHERE name = '{year}'"  # noqa: S608
        return rows_of(*ask(store, known, sql))

    assert begins("7 days", "0001") == [["0001-01-01T00:00:00+00:00"]]
    # 7,304 days after 3 January 2000: 243 times 30 and 14 more.
    assert begins("30 days", "2020") == [["2019-12-19T00:00:00+00:00"]]
    assert begins("2000000000 days", "2020") == [["2000-01-03T00:00:00+00:00"]]
    for width in ("30 days", "2000000000 days"):
        with pytest.raises(SqlFault, match="timestamp out of range"):
            begins(width, "0001")
