"""Procedures as resources of the CKAN door: what is read, that it is current, and that nobody can change it."""

from __future__ import annotations

import csv
import io
import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import hypothesis
import orjson
import pytest
from hypothesis import strategies as st
from tests.conformance.ckan_support import BASE, Site
from tests.store.support import (
    EVERY_KIND,
    STEP,
    T0,
    WAIT_S,
    Station,
    block,
    default_workspace,
    fill,
    insert,
    kinds_of,
    register,
    times,
)

from thalweg.domain.access import Grant, Role, Scope, User
from thalweg.domain.catalogue import ProcedureKind
from thalweg.domain.observations import OnDuplicate
from thalweg.domain.time import ALL_TIME, Interval
from thalweg.services.procedure_rows import MAX_SHARED, ProcedureTable
from thalweg.services.procedure_sql import FIRST_ROWS

PACKAGE = "procedures-of-default"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def resource_of(site: Site, station: Station) -> str:
    shown = site.act("package_show", id=PACKAGE, token="")
    (found,) = [item["id"] for item in shown["resources"] if item["name"] == station.procedure.identifier]
    return str(found)


def iso(us: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)).isoformat()


# ------------------------------------------------------------------ the catalogue


def test_a_workspace_with_procedures_has_a_package_of_them(site: Site) -> None:
    assert site.act("package_list", token="") == []
    station = register(site.store)
    assert site.act("package_list", token="") == [PACKAGE]
    shown = site.act("package_show", id=PACKAGE, token="")
    assert shown["organization"]["name"] == "default"
    assert shown["num_resources"] == 1
    resource = shown["resources"][0]
    assert UUID(resource["id"]).version == 5
    assert resource["name"] == station.procedure.identifier
    assert resource["datastore_active"] is True
    assert resource["url"] == f"{BASE}/datastore/dump/{resource['id']}"
    assert site.act("resource_show", id=resource["id"], token="") == resource
    assert site.act("package_show", id=shown["id"], token="") == shown
    tables = site.act("datastore_search", resource_id="_table_metadata", token="")["records"]
    assert [item["name"] for item in tables] == [resource["id"]]
    (owner,) = site.act("organization_list", all_fields=True, token="")
    assert owner["package_count"] == 1


def test_fields_say_unit_and_definition(site: Site) -> None:
    station = register(site.store)
    key = resource_of(site, station)
    info = site.act("datastore_info", id=key, token="")
    assert info["meta"]["count"] == 0
    fields = {item["id"]: item for item in info["fields"]}
    assert list(fields) == [
        "time", "air:temperature", "air:temperature_quality", "air:rainfall", "air:rainfall_quality", "begin_time",
        "result_time",
    ]  # fmt: skip
    assert fields["time"]["type"] == "timestamptz"
    assert fields["air:rainfall"]["type"] == "float8"
    assert fields["air:rainfall"]["info"]["unit"] == "mm"
    assert fields["air:rainfall"]["info"]["definition"] == "urn:ogc:def:parameter:x-thalweg:1.0:air:rainfall"
    assert fields["air:rainfall_quality"]["type"] == "int4"


def test_the_id_stays_when_the_server_starts_again(tmp_path: Path) -> None:
    first = Site(tmp_path)
    station = register(first.store)
    key = resource_of(first, station)
    first.close()
    again = Site(tmp_path)
    try:
        assert resource_of(again, station) == key
        # Found at once, too, by a process that has not listed anything.
        assert again.search(key)["total"] == 0
    finally:
        again.close()


# ------------------------------------------------------------------ rows


def test_rows_hold_each_kind_of_value_with_its_quality(site: Site) -> None:
    station = register(site.store, wanted=EVERY_KIND)
    number, count, text, truth = station.ids
    rows = block(
        [T0, T0 + STEP],
        {number: [0.1, None], count: [1 << 60, 3], text: ["a,b", None], truth: [True, False]},
        kinds=kinds_of(station), quality=[101, 110],
    )  # fmt: skip
    insert(site.store, station, rows)
    key = resource_of(site, station)
    found = site.search(key, fields=None)
    assert found["total"] == 2
    assert found["records"][0] == {
        "_id": T0, "time": iso(T0), "air:temperature": 0.1, "air:temperature_quality": 101, "traffic:count": 1 << 60,
        "traffic:count_quality": 101, "weather:present": "a,b", "weather:present_quality": 101, "door:open": True,
        "door:open_quality": 101, "begin_time": None, "result_time": None,
    }  # fmt: skip
    assert found["records"][1]["air:temperature"] is None
    assert found["records"][1]["air:temperature_quality"] is None
    assert found["records"][1]["traffic:count_quality"] == 110
    text_form = site.search(key, records_format="csv", fields="_id,weather:present,door:open")["records"]
    assert list(csv.reader(io.StringIO(text_form))) == [[str(T0), "a,b", "t"], [str(T0 + STEP), "", "f"]]
    tsv = site.search(key, records_format="tsv", fields="_id,traffic:count", limit=1)["records"]
    assert tsv == f"{T0}\t{1 << 60}\n"


@pytest.mark.parametrize("sealed", [False, True])
def test_pages_by_time_totals_and_filters(site: Site, sealed: bool) -> None:
    station = register(site.store)
    fill(site.store, station, 3_000)
    a = station.ids[0]
    insert(site.store, station, block(times(500, T0 + 3_000 * STEP), {a: [float(i) for i in range(500)]}))
    if sealed:
        site.store.seal(station.track, everything=True)
    key = resource_of(site, station)
    ends = times(3_500)

    def ids(**parameters: Any) -> list[int]:
        return [row[0] for row in site.rows(key, fields="_id", **parameters)]

    assert site.search(key)["total"] == 3_500
    for offset in (0, 1, 1_007, 1_008, 2_999, 3_400, 3_499, 3_500, 9_999):
        assert ids(offset=offset, limit=150) == ends[offset : offset + 150]
        assert ids(offset=offset, limit=150, sort="time desc") == ends[::-1][offset : offset + 150]
    assert ids(sort="_id desc", limit=1) == [ends[-1]]
    # Lists, ranges and comparisons of the time, whatever its zone.
    assert ids(filters={"time": iso(ends[7])}) == [ends[7]]
    assert ids(filters={"time": [iso(ends[9]), iso(ends[5]), iso(ends[5] + 1)]}) == [ends[5], ends[9]]
    found = site.search(key, filters={"time": {"gte": iso(ends[1_000]), "lt": iso(ends[2_500])}}, offset=1_490)
    assert found["total"] == 1_500
    assert [row["_id"] for row in found["records"]] == ends[2_490:2_500]
    either = {"$or": [{"time": {"lt": iso(ends[3])}}, {"time": {"gt": iso(ends[3_496])}}]}
    assert ids(filters=either) == ends[:3] + ends[3_497:]
    assert ids(filters=either, sort="time desc", limit=4) == [*ends[:3_496:-1], ends[2]]
    assert ids(filters={"time": []}) == []
    assert ids(filters={"time": None}) == []
    zoned = datetime.fromtimestamp(ends[20] / 1e6, UTC).astimezone(tz=None).isoformat()
    assert ids(filters={"time": zoned}) == [ends[20]]
    # By number, as pages are asked for one after the other.
    page = site.search(key, limit=7, offset=1_000, include_next_page=True)
    assert page["next_page"] == {"_id": {"gt": ends[1_006]}}
    after = site.search(key, limit=7, filters=page["next_page"])
    assert [row["_id"] for row in after["records"]] == ends[1_007:1_014]
    assert after["total"] == 3_500 - 1_007
    # By values: those of the fill are (7 i mod 300) / 10.
    wanted = [end for i, end in enumerate(ends[:3_000]) if (i * 7) % 300 / 10 >= 29.5]
    above = {"air:temperature": {"gte": 29.5}, "time": {"lt": iso(ends[3_000])}}
    assert site.search(key, filters=above)["total"] == len(wanted)
    assert ids(filters=above, offset=20, limit=5) == wanted[20:25]
    assert ids(filters=above, sort="time desc", limit=5) == wanted[::-1][:5]
    assert ids(filters=above, limit=3, include_total=False) == wanted[:3]


def test_orders_by_values_and_distinct_ones(site: Site) -> None:
    station = register(site.store)
    a, b = station.ids
    insert(site.store, station, block(times(5), {a: [2.0, 1.0, 2.0, None, 3.0], b: [0.0] * 5}))
    key = resource_of(site, station)
    rows = site.rows(key, fields="air:temperature", sort="air:temperature desc")
    assert rows == [[None], [3.0], [2.0], [2.0], [1.0]]
    rows = site.rows(key, fields="air:temperature", sort="air:temperature desc nulls last", limit=2, offset=1)
    assert rows == [[2.0], [2.0]]
    found = site.search(key, fields="air:temperature", distinct=True, records_format="lists")
    assert found["total"] == 4
    assert found["records"] == [[2.0], [1.0], [None], [3.0]]


def test_forecasts_of_one_time_have_numbers_of_their_own(site: Site) -> None:
    station = register(site.store)
    a = station.ids[0]
    insert(
        site.store,
        station,
        block([T0, T0, T0, T0 + STEP], {a: [1.0, 2.0, 3.0, 4.0]}, results=[T0 - 3, T0 - 2, T0 - 1, T0 + STEP]),
    )
    key = resource_of(site, station)
    rows = site.rows(key, fields="_id,air:temperature,result_time")
    assert rows == [
        [T0, 1.0, iso(T0 - 3)], [T0 + 1, 2.0, iso(T0 - 2)], [T0 + 2, 3.0, iso(T0 - 1)], [T0 + STEP, 4.0, None],
    ]  # fmt: skip
    assert [row[0] for row in site.rows(key, fields="_id", filters={"_id": {"gt": T0}})] == [T0 + 1, T0 + 2, T0 + STEP]
    assert site.search(key, filters={"_id": {"gt": T0 + 1}})["total"] == 2
    assert site.search(key, filters={"_id": T0 + 2})["records"][0]["air:temperature"] == 3.0
    assert site.search(key, filters={"time": iso(T0)})["total"] == 3
    # A later forecast of the same time leaves the numbers of the others.
    insert(site.store, station, block([T0], {a: [9.0]}, results=[T0]))
    assert [row[:2] for row in site.rows(key, fields="_id,air:temperature")][:4] == [
        [T0, 1.0], [T0 + 1, 2.0], [T0 + 2, 3.0], [T0 + 3, 9.0],
    ]  # fmt: skip


def test_so_many_rows_of_one_time_have_numbers_of_their_own(site: Site) -> None:
    station = register(site.store)
    a, n = station.ids[0], 300
    insert(
        site.store, station, block([T0] * n, {a: [float(i) for i in range(n)]}, results=[T0 - n + i for i in range(n)])
    )
    assert n < MAX_SHARED == 4_096
    key = resource_of(site, station)
    assert site.search(key, filters={"_id": T0 + n - 1})["records"][0]["air:temperature"] == n - 1.0
    assert site.search(key, filters={"_id": {"gte": T0 + 100}})["total"] == n - 100


def test_periods_say_their_begin(site: Site) -> None:
    station = register(site.store)
    a = station.ids[0]
    insert(site.store, station, block([T0, T0 + STEP], {a: [1.0, 2.0]}, begins=[T0 - STEP, T0 + STEP]))
    rows = site.rows(resource_of(site, station), fields="time,begin_time")
    assert rows == [[iso(T0), iso(T0 - STEP)], [iso(T0 + STEP), None]]


def test_a_mobile_procedure_at_several_features_says_where(site: Site) -> None:
    station = register(site.store, "BOAT", places=3, kind=ProcedureKind.MOBILE)
    a = station.ids[0]
    expected = []
    for place in range(3):
        ends = [T0 + (3 * i + place) * STEP for i in range(50)]
        rows = block(ends, {a: [float(place)] * 50}, positions=[[8.9 + i / 1000, 46.0, 270.0] for i in range(50)])
        insert(site.store, station, rows, place=place)
        expected += [[end, float(place), station_feature(site, station, place), 8.9 + i / 1000] for i, end in
                     enumerate(ends)]  # fmt: skip
    key = resource_of(site, station)
    expected.sort()
    assert site.rows(key, fields="_id,air:temperature,feature,x", limit=200) == expected
    for offset in (1, 77, 149):
        found = site.search(key, fields="_id,air:temperature,feature,x", offset=offset, limit=9, records_format="lists")
        assert found["records"] == expected[offset : offset + 9]
        assert found["total"] == 150
    assert site.rows(key, fields="_id", sort="time desc", limit=2) == [[expected[-1][0]], [expected[-2][0]]]
    at = {"feature": station_feature(site, station, 1)}
    assert site.search(key, filters=at)["total"] == 50
    assert site.send("GET", f"/datastore/dump/{key}?fields=_id").text.splitlines()[1:] == [
        str(row[0]) for row in expected
    ]


def station_feature(site: Site, station: Station, place: int) -> str:
    catalogue = site.store.catalogue(station.workspace_id)
    return catalogue.features[station.features[place]].identifier


def test_the_last_acknowledged_observation_is_read(site: Site) -> None:
    station = register(site.store)
    key = resource_of(site, station)
    a = station.ids[0]
    for i in range(30):
        insert(site.store, station, block([T0 + i * STEP], {a: [float(i)]}))
        found = site.search(key, sort="_id desc", limit=1)
        assert (found["total"], found["records"][0]["air:temperature"]) == (i + 1, float(i))
        if i % 10 == 5:
            site.store.seal(station.track, everything=True)
    # A correction, a late row, a deletion.
    insert(site.store, station, block([T0], {a: [-1.0]}), on_duplicate=OnDuplicate.REPLACE)
    insert(site.store, station, block([T0 + 1], {a: [-2.0]}))
    site.store.delete(station.track, Interval(T0 + 5 * STEP, T0 + 8 * STEP)).result(WAIT_S)
    found = site.search(key, fields="air:temperature", records_format="lists", limit=4)
    assert found["records"] == [[-1.0], [-2.0], [1.0], [2.0]]
    assert found["total"] == 28


def test_a_relation_gives_rows_for_sql(site: Site) -> None:
    station = register(site.store)
    fill(site.store, station, 9_000)
    tables = site.application.services.tables
    table = tables.unguarded(resource_of(site, station))
    assert isinstance(table, ProcedureTable)
    relation = tables.procedures.relation(table)
    assert relation.columns[:3] == (("_id", "int8"), ("time", "timestamptz"), ("air:temperature", "float8"))
    assert pickle.loads(pickle.dumps(relation)) == relation  # noqa: S301 (the test's own)
    part, names = Interval(T0 + 100 * STEP, T0 + 8_900 * STEP), ("time", "air:temperature")
    expected = [(T0 + i * STEP, (i * 7) % 300 / 10) for i in range(100, 8_900)]
    with site.store.together():
        assert relation.count(site.store, ALL_TIME) == 9_000
        assert relation.count(site.store, part) == 8_800
        for descending in (False, True):
            blocks = list(relation.blocks(site.store, names, part, descending=descending))
            # The first is short, for those who want no more than the newest.
            assert len(blocks[0]) == FIRST_ROWS
            assert [row for block in blocks for row in block] == expected[:: -1 if descending else 1]
        assert list(relation.blocks(site.store, names, Interval(T0, T0))) == []


def test_dumps_in_every_form(site: Site) -> None:
    station = register(site.store)
    fill(site.store, station, 20_000)
    key = resource_of(site, station)
    text = site.get(f"/datastore/dump/{key}").text
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0][:3] == ["_id", "time", "air:temperature"]
    assert [int(row[0]) for row in rows[1:]] == times(20_000)
    assert [float(row[2]) for row in rows[1:]] == [((i * 7) % 300) / 10 for i in range(20_000)]
    some = orjson.loads(site.get(f"/datastore/dump/{key}?format=json&limit=3&offset=9000&sort=time desc").content)
    assert [row[0] for row in some["records"]] == times(20_000)[::-1][9_000:9_003]
    assert site.get(f"/datastore/dump/{key}?format=xml&limit=1").text.count("<row ") == 1
    assert site.get(f"/datastore/dump/{key}?format=tsv&limit=1").text.splitlines()[1].startswith(f"{T0}\t")


# ------------------------------------------------------------------ refusals


def test_nothing_of_it_can_be_changed(site: Site) -> None:
    station = register(site.store)
    insert(site.store, station, block([T0], {station.ids[0]: [1.0]}))
    key = resource_of(site, station)
    for action, given in (
        ("datastore_upsert", {"resource_id": key, "records": [{"time": "2020-01-01"}], "force": True}),
        ("datastore_create", {"resource_id": key, "records": [{"time": "2020-01-01"}], "force": True}),
        ("datastore_delete", {"resource_id": key, "force": True}),
        ("datastore_records_delete", {"resource_id": key, "filters": {}, "force": True}),
        ("resource_delete", {"id": key}),
        ("package_delete", {"id": PACKAGE}),
        ("dataset_purge", {"id": PACKAGE}),
        ("resource_create", {"package_id": PACKAGE, "url": "http://example.org"}),
    ):
        found = site.error(action, **given)
        assert "Cannot edit read-only resource" in found["read-only"][0], action
        assert site.act(action, 403, token="", **given)["__type"] == "Authorization Error"
    assert site.search(key)["total"] == 1
    assert "name" in site.error("package_create", name="procedures-of-me")
    package = site.act("package_create", name="mine")["id"]
    taken = site.error("datastore_create", resource={"package_id": package, "id": key}, fields=[])
    assert "id" in taken


def test_bad_questions_are_told(site: Site) -> None:
    station = register(site.store)
    insert(site.store, station, block([T0], {station.ids[0]: [1.0]}))
    key = resource_of(site, station)
    assert "not indexed" in site.error("datastore_search", resource_id=key, q="word")["q"][0]
    assert "not indexed" in site.error("datastore_search", resource_id=key, q={"time": "2014"})["q"][0]
    assert site.error("datastore_search", resource_id=key, filters={"nope": 1})["filters"] == ["Unknown field: nope"]
    assert "query" in site.error("datastore_search", resource_id=key, filters={"time": "yesterday"})
    assert "sort" in site.error("datastore_search", resource_id=key, sort="nope")
    for value in (-(1 << 63), (1 << 63) - 1, 0):
        for word in ("gt", "gte", "lt", "lte", "eq"):
            assert site.search(key, filters={"_id": {word: value}})["total"] in (0, 1)
    for when in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"):
        for word, total in (("gt", 0 if when > "5" else 1), ("lt", 1 if when > "5" else 0)):
            assert site.search(key, filters={"time": {word: when}})["total"] == total


def test_more_than_can_be_sorted_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.services.procedure_rows.MAX_SORTED_ROWS", 1_000)
    station = register(site.store)
    fill(site.store, station, 1_001)
    key = resource_of(site, station)
    answer = site.send(
        "POST", "/api/action/datastore_search", json={"resource_id": key, "sort": "air:temperature", "limit": 1}
    )
    assert answer.status_code == 409
    assert "1,000" in answer.json()["error"]["sort"][0]
    near = {"time": {"lt": iso(T0 + 900 * STEP)}}
    assert site.rows(key, sort="air:temperature", filters=near, limit=1, fields="air:temperature") == [[0.0]]


def test_hidden_procedures_are_absent(site: Site) -> None:
    open_one, hidden = register(site.store, "OPEN"), register(site.store, "HIDDEN")
    insert(site.store, hidden, block([T0], {hidden.ids[0]: [1.0]}))
    key = resource_of(site, hidden)
    workspace = default_workspace(site.store)
    site.store.update_procedure(workspace, replace(hidden.procedure, public=False)).result(WAIT_S)
    shown = site.act("package_show", id=PACKAGE, token="")
    assert [item["name"] for item in shown["resources"]] == [open_one.procedure.identifier]
    assert len(site.act("datastore_search", resource_id="_table_metadata", token="")["records"]) == 1
    for action, given in (("datastore_search", {"resource_id": key}), ("datastore_info", {"id": key}),
                          ("resource_show", {"id": key})):  # fmt: skip
        assert site.act(action, 404, token="", **given)["__type"] == "Not Found Error"
    assert site.get(f"/datastore/dump/{key}").status_code == 404
    assert site.act("datastore_search", resource_id=key)["total"] == 1
    # Who holds a role for it sees it; all hidden: no package.
    site.store.put_user(User("guest", Role.NOTHING, "$argon2id$none", 1)).result(WAIT_S)
    site.store.put_grant(
        Grant("guest", Scope(workspace, "procedure", hidden.procedure.id), Role.VIEWER)
    ).result(WAIT_S)  # fmt: skip
    token = site.application.services.access.create_token("guest", "")
    assert site.act("datastore_search", token=token, resource_id=key)["total"] == 1
    site.store.update_procedure(workspace, replace(open_one.procedure, public=False)).result(WAIT_S)
    assert site.act("package_list", token="") == []
    assert site.act("package_show", 404, id=PACKAGE, token="")["__type"] == "Not Found Error"


def test_long_lists_of_times_are_looked_through(site: Site) -> None:
    station = register(site.store)
    fill(site.store, station, 1_000)
    key = resource_of(site, station)
    wanted = [iso(T0 + i * STEP) for i in range(0, 1_000, 4)]
    found = site.search(key, filters={"time": wanted}, fields="_id", limit=3, offset=248, records_format="lists")
    assert found["total"] == 250
    assert found["records"] == [[T0 + 992 * STEP], [T0 + 996 * STEP]]
    assert site.search(key, filters={"_id": [T0 + i for i in range(500)]})["total"] == 1


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=30),
    st.sampled_from([iso(T0), iso(T0 + STEP), "9999-12-31T23:59:59Z"]),
)
NAMES = st.sampled_from(
    ["_id", "time", "air:temperature", "air:rainfall_quality", "begin_time", "result_time", "nope", "$and", "$or", "$x"]
)
FILTERS = st.recursive(
    VALUES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(NAMES, st.sampled_from(["gt", "gte", "lt", "lte", "eq", "in"])), inner, max_size=3),
    ),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, str]]:
    made = Site(tmp_path_factory.mktemp("hostile"))
    station = register(made.store)
    a, b = station.ids
    rows = block(times(40), {a: [float(i) for i in range(40)], b: [None if i % 3 else 1.0 for i in range(40)]})
    insert(made.store, station, rows)
    yield made, resource_of(made, station)
    made.close()


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(
    filters=FILTERS, sort=st.one_of(st.none(), NAMES, st.text(max_size=20)), fields=st.one_of(st.none(), NAMES),
    limit=st.one_of(st.integers(-3, 100), st.text(max_size=5)), offset=st.integers(-2, 1 << 70), distinct=st.booleans(),
)  # fmt: skip
def test_any_question_is_answered_or_refused(
    shared: tuple[Site, str], filters: Any, sort: Any, fields: Any, limit: Any, offset: Any, distinct: bool
) -> None:
    site, key = shared
    asked: dict[str, Any] = {"resource_id": key, "filters": filters, "limit": limit, "offset": offset}
    asked |= {name: value for name, value in (("sort", sort), ("fields", fields)) if value is not None}
    asked["distinct"] = distinct
    answer = site.send("POST", "/api/action/datastore_search", content=json.dumps(asked).encode(),
                       headers={"Content-Type": "application/json"})  # fmt: skip
    assert answer.status_code in (200, 400, 409), answer.text
    if answer.status_code == 200:
        found = answer.json()["result"]
        assert len(found["records"]) <= min(found["limit"], max(found["total"] - found.get("offset", 0), 0))
