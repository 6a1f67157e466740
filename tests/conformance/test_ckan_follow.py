"""Server-sent events of new records: of tables and of procedures."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from tests.conformance.ckan_support import Site
from tests.store.support import STEP, T0, WAIT_S, block, insert, register

from thalweg.domain.tables import Method
from thalweg.doors.ckan import follow
from thalweg.services import followers


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


@pytest.fixture
def table(site: Site) -> str:
    return site.table([{"id": "n", "type": "int"}, {"id": "word", "type": "text"}], aliases="words",
                      records=[{"n": i, "word": f"w\n{i}"} for i in range(5)])  # fmt: skip


def events(answer: httpx.Response) -> list[tuple[int, Any]]:
    """Ids and records; metadata with None. As the standard says it, lines of data joined."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].lower() == "text/event-stream;charset=utf-8"
    found = []
    for part in answer.text.split("\n\n")[:-1]:
        lines = [line.partition(": ")[::2] for line in part.split("\n")]
        fields = dict(lines)
        found.append((int(fields["id"]), orjson.loads(fields["data"]) if fields["event"] == "record" else None))
    return found


def test_records_after_a_number(site: Site, table: str) -> None:
    found = events(site.get(f"/datastore/stream/{table}", after="3"))
    assert found == [
        (3, None),
        (4, {"_id": 4, "n": 3, "word": "w\n3"}),
        (5, {"_id": 5, "n": 4, "word": "w\n4"}),
        (5, None),
    ]
    again = site.send("GET", "/datastore/stream/words?fields=word&after=0", headers={"Last-Event-ID": "4"})
    assert events(again) == [(4, None), (5, {"word": "w\n4"}), (5, None)]


def test_who_had_more_than_there_is_goes_on_after_what_there_is(site: Site, table: str) -> None:
    """As after another file has taken the place of the records."""
    assert events(site.get(f"/datastore/stream/{table}", after="70")) == [(5, None)]


def test_filters_pass_over_what_does_not_match(site: Site, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = events(site.get(f"/datastore/stream/{table}", after="0", filters='{"n": {"lt": 2}}', fields="n"))
    assert found == [(0, None), (1, {"n": 0}), (2, {"n": 1}), (5, None)]
    # Where there are many, an answer ends with the last that it looked at, and the next one goes on.
    monkeypatch.setattr(follow, "MAX_LOOKED", 2)
    asked = {"filters": '{"n": [1, 4]}', "fields": "n"}
    for after, expected in ((0, [(2, {"n": 1}), (2, None)]), (2, [(4, None)]), (4, [(5, {"n": 4}), (5, None)])):
        found = events(site.get(f"/datastore/stream/{table}", after=str(after), **asked))
        assert found == [(after, None), *expected]


def test_many_records_come_in_parts(site: Site, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.doors.ckan.follow.MAX_EVENTS", 3)
    first = events(site.get(f"/datastore/stream/{table}", after="0"))
    assert [number for number, _ in first] == [0, 1, 2, 3]
    rest = events(site.get(f"/datastore/stream/{table}", after="3"))
    assert [number for number, record in rest if record] == [4, 5]
    monkeypatch.setattr("thalweg.doors.ckan.follow.MAX_BYTES", 40)
    short = events(site.get(f"/datastore/stream/{table}", after="0"))
    assert [number for number, _ in short] == [0, 1]


def test_an_answer_waits_for_the_next_record(site: Site, table: str) -> None:
    number = site.store.table(table)

    def write() -> None:
        time.sleep(0.3)
        site.store.write_records(number, Method.INSERT, [{"n": 77}]).result(WAIT_S)

    thread = threading.Thread(target=write)
    started = time.monotonic()
    thread.start()
    found = events(site.get(f"/datastore/stream/{table}"))
    thread.join()
    assert time.monotonic() - started >= 0.3
    assert found[1] == (6, {"_id": 6, "n": 77, "word": None})


def test_a_wait_without_a_record_ends(site: Site, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.doors.ckan.follow.WAIT_S", 0.3)
    assert events(site.get(f"/datastore/stream/{table}")) == [(5, None)]


def test_observations_of_a_procedure_are_followed(site: Site) -> None:
    station = register(site.store)
    key = site.act("package_show", id="procedures-of-default")["resources"][0]["id"]

    def write() -> None:
        time.sleep(0.2)
        insert(site.store, station, block([T0], {station.ids[0]: [1.5]}))

    thread = threading.Thread(target=write)
    thread.start()
    found = events(site.get(f"/datastore/stream/{key}", fields="air:temperature"))
    thread.join()
    assert found[1] == (T0, {"air:temperature": 1.5})
    insert(site.store, station, block([T0 + STEP], {station.ids[0]: [2.5]}))
    later = events(site.get(f"/datastore/stream/{key}", after=str(T0)))
    assert later[1][0] == T0 + STEP
    assert later[1][1]["_id"] == T0 + STEP


def test_refusals(site: Site, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for query in ("after=x", "after=1e3", "nope=1", "fields=nope", 'filters={"nope":1}', f"after={'9' * 30}"):
        assert site.send("GET", f"/datastore/stream/{table}?{query}").status_code == 400
    assert site.get("/datastore/stream/nope").status_code == 404
    assert site.send("POST", f"/datastore/stream/{table}", content=b"{}").status_code == 404
    package = site.store.packages()[0]
    site.store.put_package(replace(package, public=False)).result(WAIT_S)
    assert site.get(f"/datastore/stream/{table}", after="0").status_code == 404
    site.store.put_package(replace(package, public=True)).result(WAIT_S)
    monkeypatch.setattr(followers, "MAX_FOLLOWERS", 0)
    assert site.get(f"/datastore/stream/{table}").status_code == 503


def test_what_is_closed_while_it_is_waited_for_is_not_told(site: Site, table: str) -> None:
    package = site.store.packages()[0]
    number = site.store.table(table)

    def close() -> None:
        time.sleep(0.2)
        site.store.put_package(replace(package, public=False)).result(WAIT_S)
        site.store.write_records(number, Method.INSERT, [{"n": 78}]).result(WAIT_S)

    thread = threading.Thread(target=close)
    thread.start()
    answer = site.get(f"/datastore/stream/{table}")
    thread.join()
    assert answer.status_code == 404
    assert b"78" not in answer.content


def test_all_who_wait_are_told_whatever_the_bound_of_long_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser's ``EventSource`` gives up for good at an answer that is not 200."""
    made: list[Any] = []
    as_it_was = follow._events
    monkeypatch.setattr(follow, "_events", lambda *asked: made.append(asked) or as_it_was(*asked))
    site = Site(tmp_path, max_heavy_requests=1)
    try:
        key = site.table([{"id": "n", "type": "int"}])

        async def wait_together() -> list[httpx.Response]:
            waiting = [asyncio.create_task(site._client.get(f"/datastore/stream/{key}")) for _ in range(50)]
            await asyncio.sleep(0.3)
            site.store.write_records(site.store.table(key), Method.INSERT, [{"n": 7}])
            return await asyncio.gather(*waiting)

        for answer in site._runner.run(wait_together()):
            assert events(answer)[1] == (1, {"_id": 1, "n": 7})
        assert len(made) < 25
    finally:
        site.close()


def test_a_client_that_goes_leaves_the_others_their_answer() -> None:
    together = followers.Together[int]("test")
    asked, let_go = threading.Event(), threading.Event()

    def busy() -> int:
        asked.set()
        assert let_go.wait(WAIT_S)
        return 0

    held = [together.made(number, busy) for number in range(followers.MAKERS)]
    assert asked.wait(WAIT_S)
    gone, stays = together.made("same", lambda: 7), together.made("same", lambda: 8)
    gone.cancel()
    let_go.set()
    assert stays.result(WAIT_S) == 7
    assert [future.result(WAIT_S) for future in held] == [0] * followers.MAKERS
