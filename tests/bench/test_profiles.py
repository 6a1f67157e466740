"""Smoke runs of the profiles: a second or two each, against a started server, a peer's mock, and what is missing."""

from __future__ import annotations

import csv
import json
import os
import py_compile
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from mock_server import Ckan, Ldes, serving, wfs

from conftest import SCALE
from thalweg import app
from thalweg.bench import answers, fill, layers, ldes, loops, phases, targets, workloads
from thalweg.bench.errors import BenchError
from thalweg.bench.networks import NETWORKS, SHAPES, block
from thalweg.bench.profiles import PROFILES, Closed, Mix
from thalweg.bench.targets import Target
from thalweg.cli import cli

has_programs = pytest.mark.skipif(
    shutil.which("wrk") is None or shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin") is None,
    reason="wrk and nginx (Debian packages wrk, nginx-light) are not installed",
)


LONG = pytest.mark.long
ANY = tuple(range(400, 600))


def bench(*words: str, environment: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(cli, ["bench", *words], env=environment)


def run(profile: str, out: Path, *words: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """A run that ends well."""
    ended = bench("run", profile, "--out", str(out), *words, environment=environment)
    assert ended.exit_code == 0, ended.output
    found: dict[str, Any] = json.loads(out.read_text())
    assert found["status"] == "complete"
    assert found["failures"] == 0
    return found


def as_peer(served: Target, door: str = "sos") -> list[str]:
    return ["--target", f"{served.url}/{door}", "--server-pid", str(served.pids[0])]


def credentials(served: Target) -> dict[str, str]:
    assert served.credentials is not None
    return {"THALWEG_BENCH_CREDENTIALS": ":".join(served.credentials)}


def total(phase: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = phase["operations"]["TOT"]
    return found


# ---------------------------------------------------------------- data


def test_network_is_the_same_at_each_call_and_looks_like_weather() -> None:
    network = NETWORKS["B"].scaled(0.01)
    ids = tuple(range(1, 11))
    one, other = (block(network, 7, ids, 0, 8000) for _ in range(2))
    assert (one.end == other.end).all()
    assert all((one.columns[i].values == other.columns[i].values).all() for i in ids)
    assert not (one.columns[1].values == block(network, 8, ids, 0, 8000).columns[1].values[: len(one)]).all()
    # Gaps, zeros of rain, flagged stretches, a day's cycle.
    assert 7950 < len(one) < 8000
    by_name = {shape.name: one.columns[i + 1] for i, shape in enumerate(SHAPES)}
    assert 0.85 < float((by_name["air:rainfall"].values == 0).mean()) < 0.99
    assert set(np.unique(np.concatenate([c.quality for c in one.columns.values()]))) == {201, 210}
    hours = one.end // 3_600_000_000 % 24
    warm, cool = (by_name["air:temperature"].values[hours == h].mean() for h in (14, 3))
    assert warm - cool > 4


def test_filling_goes_on_where_it_stopped_and_changes_nothing_more(tmp_path: Path) -> None:
    network = NETWORKS["A"].scaled(0.0001)
    path = tmp_path / "n.sqlite"
    with pytest.raises(BenchError, match="is not there"):
        fill.inspect(path, network)
    store = app.open_store(f"sqlite:///{path}")
    fill.register(store, network)
    store.close()
    with pytest.raises(BenchError, match="filled in part"):
        fill.inspect(path, network)
    seen: list[int] = []
    first = fill.fill(path, network, processes=2, advance=seen.append)
    assert sum(seen) > 0.99 * network.values
    assert first.rows > 0.99 * network.procedures * network.rows
    assert fill.fill(path, network).rows == first.rows
    assert fill.newest_us(path) <= network.end_us


def test_copies_of_a_layer_are_moved_and_have_ids_of_their_own(tmp_path: Path) -> None:
    source = tmp_path / "in.geojson"
    feature = {
        "type": "Feature", "id": "osm_places.5", "geometry": {"type": "Point", "coordinates": [9.5, 47.1]},
        "properties": {"osm_id": 5, "name": "Ä"},
    }  # fmt: skip
    source.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    out = tmp_path / "out.geojson"
    layers.write(out, "osm_places", 3, source)
    found = json.loads(out.read_text())["features"]
    assert found[0] == feature
    assert [f["properties"]["osm_id"] for f in found] == [5, 10_000_000_005, 20_000_000_005]
    assert found[2]["geometry"]["coordinates"] == [10.24, 47.1]
    assert found[2]["id"] == "osm_places.20000000005"
    layers.write(out, "osm_mainroads", 50)
    made = json.loads(out.read_text())["features"]
    assert {f["geometry"]["type"] for f in made} == {"LineString"}
    assert len({f["id"] for f in made}) == 50
    source.write_text("{}")
    with pytest.raises(BenchError, match="no GeoJSON"):
        layers.write(out, "osm_places", 3, source)


def test_list_names_every_profile_and_what_to_fill() -> None:
    shown = bench("list").output
    for name in [*PROFILES, *layers.LAYERS]:
        assert f" {name} " in shown


def test_users_and_weights_are_those_of_the_study() -> None:
    load = PROFILES["sos-study"].load
    assert isinstance(load, Mix)
    assert load.users == (100, 200, 500, 1000, 2000)
    assert dict(load.weights) == {"GC": 1, "DS": 5, "GO": 100}
    # A hundred users who pause 12.5 s on average ask 8 times a second.
    assert 100 / (sum(load.think_s) / 2) == 8
    rounds = PROFILES["wfs-study"].load
    assert isinstance(rounds, Closed)
    assert (rounds.connections, rounds.rounds) == ((4, 8, 16, 32), 3)


# ---------------------------------------------------------------- SOS


def test_study_runs_on_a_server_started_for_it(folder: Path) -> None:
    out = folder / "r.json"
    found = run(
        "sos-study", out, "--folder", str(folder), "--scale", str(SCALE), "--users", "10,20", "--seconds", "2",
        "--ramp", "0.3", "--think", "0.1,0.3", "--producer-every", "0.5", "--workers", "1",
        "--jtl", str(folder / "r.jtl"), "--setting", "access_log=false",
    )  # fmt: skip
    assert [phase["users"] for phase in found["phases"]] == [10, 20]
    first, second = found["phases"]
    assert set(second["operations"]) >= {"IO", "GO", "TOT"}
    # 20 users with a pause of 0.2 s, beside 20 sensors that insert twice a second.
    assert 40 < total(second)["rate"] < 145
    assert second["operations"]["IO"]["requests"] >= 20
    assert 5000 < second["operations"]["GO"]["bytes_mean"] < 12_000
    assert second["watch"]["max"]["server_memory"] > 20e6
    assert found["target"]["settings"] == {"access_log": "false"}
    assert found["data"]["network"] == "A"
    assert found["context"]["versions"]["sqlite"]
    with (folder / "r.jtl").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= total(first)["requests"] + total(second)["requests"]
    assert {row["success"] for row in rows} == {"true"}
    # Sensors that reported twice are at their own times: what they sent is in the store.
    assert fill.newest_us(fill.store_path(folder, "A", SCALE)) > NETWORKS["A"].end_us
    page = folder / "r.html"
    assert bench("report", str(out), "--html", str(page)).exit_code == 0
    assert "INSPIRE verdict" in page.read_text()


@pytest.mark.parametrize("version", ["1.0.0", "2.0.0"])
def test_study_runs_on_any_sos_by_its_address(served: Target, version: str, tmp_path: Path) -> None:
    found = run(
        "sos-study", tmp_path / "r.json", *as_peer(served), "--users", "5", "--seconds", "1", "--ramp", "0.2",
        "--think", "0.05,0.1", "--no-producers", "--sos-version", version,
    )  # fmt: skip
    assert found["data"]["sensors"] == 20
    assert total(found["phases"][0])["requests"] > 10
    assert "IO" not in found["phases"][0]["operations"]


def test_producers_register_at_a_peer_and_insert(served: Target, tmp_path: Path) -> None:
    found = run(
        "sos-study", tmp_path / "r.json", *as_peer(served), "--users", "1", "--seconds", "1.5", "--ramp", "0.1",
        "--producer-every", "1", environment=credentials(served),
    )  # fmt: skip
    assert found["phases"][0]["producers"] == 20
    assert found["phases"][0]["operations"]["IO"]["requests"] >= 20


@has_programs
def test_random_days_beside_nginx(served: Target, tmp_path: Path) -> None:
    found = run("sos-day", tmp_path / "r.json", *as_peer(served), "--connections", "2", "--seconds", "1",
                "--rounds", "1")  # fmt: skip
    ours, limit = found["phases"]
    assert (ours["side"], limit["side"]) == ("target", "nginx")
    assert total(limit)["rate"] > total(ours)["rate"] > 0
    text = bench("report", str(tmp_path / "r.json")).output
    assert "Share of nginx" in text


@has_programs
@pytest.mark.parametrize(
    "profile",
    ["sos-capabilities", *(pytest.param(p, marks=LONG) for p in ("sos-describe", "sos-day-quality", "sos-five-days"))],
)
def test_other_reads(served: Target, profile: str, tmp_path: Path) -> None:
    found = run(profile, tmp_path / "r.json", *as_peer(served), "--connections", "2", "--seconds", "1", "--rounds",
                "1", "--driver", "own")  # fmt: skip
    assert total(found["phases"][0])["requests"] > 1


def test_fixed_rate(served: Target, tmp_path: Path) -> None:
    found = run("sos-open", tmp_path / "r.json", *as_peer(served), "--rates", "30", "--seconds", "1.5")
    assert 20 <= total(found["phases"][0])["requests"] <= 75


@pytest.mark.parametrize("actual", [False, True])
def test_stream_store(tmp_path: Path, actual: bool) -> None:
    words: list[str] = []
    if actual:
        lines = tmp_path / "two.nq"
        blocks = [
            f"# member {n}: http://ex.org/{n}\n<http://ex.org/{n}> <{ldes.VERSION_OF_PATH}> <http://ex.org/o> .\n"
            f'<http://ex.org/{n}> <{ldes.TIMESTAMP_PATH}> "2021-01-06"^^<http://www.w3.org/2001/XMLSchema#dateTime> .\n'
            for n in (1, 2)
        ]
        lines.write_text("\n".join(blocks))
        words = ["--members", str(lines)]
    found = run("ldes-store", tmp_path / "r.json", "--folder", str(tmp_path / "f"), "--requests", "600", *words)
    seen = found["phases"][0]["stream"]
    assert seen["members"] == 600
    assert sorted(seen["fill_rate"]) == ["by-location", "by-time", "pagination"]
    assert all(rate > 10 for rate in (seen["load_rate"], *seen["fill_rate"].values(), *seen["node_rate"].values()))
    assert 20 < seen["bytes_per_member"] < 20_000
    assert list((tmp_path / "f").iterdir()) == []
    assert "filling 'by-time', members/s" in bench("report", str(tmp_path / "r.json")).output


def test_handler_alone(folder: Path) -> None:
    found = run("sos-handler", folder / "r.json", "--folder", str(folder), "--scale", str(SCALE), "--requests", "50")
    (phase,) = found["phases"]
    assert 5000 < phase["handler"]["bytes_mean"] < 12_000
    assert 10 < phase["handler"]["p50_us"] <= phase["handler"]["p99_us"]
    assert "The door's own time" in bench("report", str(folder / "r.json")).output


@LONG
@has_programs
def test_inserts_on_empty_and_full_store(folder: Path) -> None:
    found = run("sos-insert", folder / "r.json", "--folder", str(folder), "--scale", str(SCALE), "--connections", "4",
                "--seconds", "1", "--rounds", "1", "--workers", "1")  # fmt: skip
    assert [phase["side"] for phase in found["phases"]] == ["empty", "full"]
    assert not [path.name for path in folder.iterdir() if path.name.startswith("empty")]
    path = fill.store_path(folder, "A", SCALE)
    kept = fill.inspect(path, NETWORKS["A"].scaled(SCALE)).rows
    before = NETWORKS["A"].scaled(SCALE)
    # What wrk was answered is stored; at most what was under way at its end more.
    assert kept >= 0.99 * before.procedures * before.rows + 0.9 * total(found["phases"][1])["requests"]


def test_own_driver_checks_each_answer_where_wrk_cannot(served: Target, tmp_path: Path) -> None:
    ended = bench("run", "sos-day", *as_peer(served), "--jtl", str(tmp_path / "x.jtl"), "--out", str(tmp_path / "r"))
    assert "--driver own" in ended.output


@has_programs
def test_comparison_of_equal_sides(served: Target, tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    url = f"{served.url}/sos"
    ended = bench("compare", "sos-day", "--base", url, "--change", url, "--connections", "2", "--seconds", "1",
                  "--rounds", "2", "--out", str(out))  # fmt: skip
    assert ended.exit_code == 0, ended.output
    found = json.loads(out.read_text())
    assert [(p["round"], p["side"]) for p in found["phases"]] == [
        (0, "base"), (0, "change"), (1, "change"), (1, "base"),
    ]  # fmt: skip
    assert found["checks"] == [{"case": "GO", "compared": 8, "differences": []}]
    rate = found["comparison"][0]["quantities"]["rate"]
    assert rate["verdict"] == "too few rounds to tell"
    assert rate["low"] <= rate["ratio"] <= rate["high"]
    assert "too few rounds" in bench("report", str(out)).output


def test_different_answers_are_not_compared(served: Target, tmp_path: Path) -> None:
    def liar(method: str, path: str, _body: bytes) -> tuple[int, str, bytes]:
        status, headers, body = targets.ask(served.url + path, method=method, good=ANY)
        return status, headers["content-type"], body.replace(b",0@", b",7@", 1)

    with serving(liar) as url:
        ended = bench("compare", "sos-day", "--base", f"{served.url}/sos", "--change", f"{url}/sos",
                      "--out", str(tmp_path / "r.json"))  # fmt: skip
    assert ended.exit_code == 1
    assert "The answers differ" in ended.output
    assert "7.0" in ended.output
    assert not (tmp_path / "r.json").exists()


def test_locust_file_asks_what_the_study_asks(served: Target, tmp_path: Path) -> None:
    file = tmp_path / "locustfile.py"
    assert bench("locustfile", str(file), "--target", f"{served.url}/sos").exit_code == 0
    py_compile.compile(str(file), doraise=True)
    text = file.read_text()
    assert "wait_time = between(5.0, 20.0)" in text
    assert [text.count(f"@task({weight})") for weight in (1, 5, 100)] == [1, 1, 1]
    assert len(set(re.findall(r"procedure:x-thalweg:1\.0:(A00\d\d)'", text))) == 20


# ---------------------------------------------------------------- the other studies, against mocks


@has_programs
@pytest.mark.parametrize(
    "profile",
    [
        "datastore-busy",
        *(pytest.param(f"datastore-{name}", marks=LONG) for name in ("search", "deep", "insert", "malformed", "sql")),
    ],
)
def test_datastore_profiles(profile: str, tmp_path: Path) -> None:
    ckan = Ckan()
    with serving(ckan) as url:
        found = run(profile, tmp_path / "r.json", "--target", url, "--rows", "120", "--connections", "2", "--seconds",
                    "1", "--rounds", "1")  # fmt: skip
    assert found["data"] == {"resource": "r0", "rows": 120}
    assert total(found["phases"][0])["requests"] > 5
    if profile == "datastore-busy":
        quiet, busy = found["phases"]
        assert (quiet["case"], quiet["base"]) == ("search", "")
        assert (busy["case"], busy["base"]) == ("search beside 10 inserts/s", "search")
        assert "search beside 10 inserts/s" in bench("report", str(tmp_path / "r.json")).output
    (table,) = ckan.tables.values()
    assert table[0] == {"_id": 1, "ts": "2018-01-01T00:00:00", **{k: table[0][k] for k in ("temp", "humid", "pm25")}}
    assert table[119]["ts"] == "2018-01-01T01:59:00"
    inserted = table[120:]
    if profile in ("datastore-busy", "datastore-insert"):
        assert inserted[0] == {"_id": 121, "temp": 1, "humid": 2}
        assert len(inserted) % 2 == 0
    else:
        assert not inserted
    assert "As the DataStore study gives it" in bench("report", str(tmp_path / "r.json")).output


def test_busy_cases_alone_have_a_writer() -> None:
    ckan = Ckan()
    with serving(ckan) as url:
        target = Target("a peer", url, False)
        work = workloads.prepare(PROFILES["datastore-busy"], target, workloads.Options(rows=12))
        (records,) = ckan.tables.values()
        seen = []
        for case in work.cases:
            with loops.writer(work, case, target):
                time.sleep(0.3)
            seen.append(len(records))
    assert [case.busy for case in work.cases] == [False, True]
    assert seen[0] == 12
    assert seen[1] > 12


@has_programs
@pytest.mark.parametrize(
    ("profile", "labels"),
    [
        ("datastore-filter", ["all", "filter"]),
        pytest.param("datastore-words", ["all", "amber", "basalt", "cobalt", "dolomite"], marks=LONG),
    ],
)
def test_filters_and_words_have_a_table_of_their_own(profile: str, labels: list[str], tmp_path: Path) -> None:
    ckan = Ckan()
    with serving(ckan) as url:
        found = run(profile, tmp_path / "r.json", "--target", url, "--rows", "3000", "--connections", "1", "--seconds",
                    "1", "--rounds", "1", "--driver", "own")  # fmt: skip
    assert [phase["label"] for phase in found["phases"]] == [f"{label}, 1 connections" for label in labels]
    assert {phase["base"] for phase in found["phases"][1:]} == {"all"}
    for phase in found["phases"]:
        # Every answer's total was what the rows say.
        assert total(phase)["failures"] == 0
        assert total(phase)["requests"] > 5
    (table,) = ckan.tables.values()
    assert list(ckan.indexes.values()) == [["code"]]
    assert len(table) == 3000
    assert [sum(row["code"] == f"c{i}" for row in table) for i in range(4)] == [1000, 1000, 1000, 0]
    for word, count in (("basalt", 3), ("cobalt", 30), ("dolomite", 300)):
        assert sum(word in row["note"].split() for row in table) == count


def test_filter_with_a_wrong_total_is_not_measured(tmp_path: Path) -> None:
    ckan = Ckan()
    args = ("--rows", "100", "--connections", "1", "--seconds", "1", "--rounds", "1", "--driver", "own")
    with serving(ckan) as url:
        run("datastore-filter", tmp_path / "r.json", "--target", url, *args)
        (table,) = ckan.tables.values()
        table[7]["code"] = "elsewhere"
        ended = bench("run", "datastore-filter", "--out", str(tmp_path / "r.json"), "--target", url, *args)
    assert ended.exit_code != 0
    assert "filter: total 99 instead of 100" in ended.output


@LONG
def test_datastore_table_is_made_once(tmp_path: Path) -> None:
    ckan = Ckan()
    with serving(ckan) as url:
        for _ in range(2):
            run("datastore-malformed", tmp_path / "r.json", "--target", url, "--rows", "30", "--connections", "1",
                "--seconds", "1", "--rounds", "1", "--driver", "own")  # fmt: skip
    assert [len(table) for table in ckan.tables.values()] == [30]


@LONG
@has_programs
def test_wfs_profile(tmp_path: Path) -> None:
    with serving(wfs) as url:
        found = run("wfs-study", tmp_path / "r.json", "--target", f"{url}/wfs?map=/x.map", "--connections", "4",
                    "--seconds", "1", "--rounds", "1")  # fmt: skip
    cases = [phase["case"] for phase in found["phases"]]
    assert cases == [
        f"{layer} {form}" for layer in ("osm_mainroads", "osm_places") for form in ("GML3.2", "GML2", "GeoJSON")
    ]
    assert found["data"]["formats"]["GML3.2"] == "text/xml; subtype=gml/3.2.1"
    text = bench("report", str(tmp_path / "r.json")).output
    # The study's figures for 4 parallel.
    assert "| 24.2 | 140 | 230 |" in text


@pytest.mark.parametrize(
    ("profile", "views"),
    [
        ("ldes-100k", ["pagination"]), ("ldes-100k-time", ["by-time"]), ("ldes-100k-geospatial", ["by-location"]),
        ("ldes-100k-both", ["by-time", "by-location"]), ("ldes-1m", ["by-time", "by-location"]),
    ],
)  # fmt: skip
def test_ldes_profiles(profile: str, views: list[str], tmp_path: Path) -> None:
    server = Ldes()
    with serving(server) as url:
        found = run(profile, tmp_path / "r.json", "--target", url, "--requests", "40", "--jtl", str(tmp_path / "r.jtl"))
    assert len(server.members) == 40
    assert server.views == views
    assert server.deleted == ["mobility-hindrances", *views, "mobility-hindrances"]
    seen = found["phases"][0]["ldes"]
    assert sorted(seen["fragmentation_rate"]) == sorted(views)
    for rate in seen["fragmentation_rate"].values():
        # It counts from the begin of ingest, so it cannot exceed the ingest's rate.
        assert 0 < rate <= 40 / seen["ingest_s"]
    assert "Ingest and fragmentation" in bench("report", str(tmp_path / "r.json")).output
    assert len((tmp_path / "r.jtl").read_text().splitlines()) == 41


def test_actual_members_get_new_ids_each_round(tmp_path: Path) -> None:
    file = tmp_path / "members.nq"
    file.write_text("# member 1: http://e/1\n<http://e/1> <http://e/p> <http://e/1> .\n"
                    "# member 2: http://e/2\n<http://e/2> <http://e/p> _:b .\n")  # fmt: skip
    server = Ldes()
    with serving(server) as url:
        run("ldes-10k", tmp_path / "r.json", "--target", url, "--requests", "4", "--connections", "1", "--members",
            str(file))  # fmt: skip
    assert server.members == {
        b"<http://e/1/0> <http://e/p> <http://e/1/0> .\n", b"<http://e/2/1> <http://e/p> _:b .\n",
        b"<http://e/1/2> <http://e/p> <http://e/1/2> .\n", b"<http://e/2/3> <http://e/p> _:b .\n",
    }  # fmt: skip
    file.write_text("neither")
    with pytest.raises(BenchError, match="neither"):
        ldes.members("/s", {}, file, first=0)


def test_made_member_is_rdf_of_the_studys_size() -> None:
    text = ldes.member().replace("@N@", "000000001")
    facts = answers.decode(text.encode(), "text/turtle")
    assert 35 <= len(facts) <= 60
    assert 2500 < len(text) < 5000


def test_view_that_is_not_full_in_time_makes_the_run_partial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ldes, "FRAGMENTATION_TIMEOUT_S", 0.5)
    out = tmp_path / "r.json"
    with serving(Ldes(lag=1000)) as url:
        ended = bench("run", "ldes-100k", "--target", url, "--requests", "10", "--out", str(out))
    assert ended.exit_code == 1
    assert "Not all members reached pagination in time" in ended.output
    found = json.loads(out.read_text())
    assert (found["status"], found["phases"][0]["ldes"]["views_not_full"]) == ("partial", ["pagination"])


# ---------------------------------------------------------------- what is missing, what breaks


@pytest.mark.parametrize(("status", "told"), [(404, "is not there"), (503, "answered 503, text/html."), (200, None)])
@pytest.mark.parametrize("profile", ["datastore-search", "ldes-100k", "wfs-study", "sos-day"])
def test_target_that_does_not_speak_the_protocol(profile: str, status: int, told: str | None, tmp_path: Path) -> None:
    def page(*_: Any) -> tuple[int, str, bytes]:
        return status, "text/html", b"<!doctype html>\n<html>\n<p>a page\n<p>for people\n</html>\n"

    with serving(page) as url:
        ended = bench("run", profile, "--target", url, "--out", str(tmp_path / "r.json"))
    assert ended.exit_code == 1
    (line,) = ended.output.splitlines()
    assert url in line
    assert "for people" not in line
    assert told is None or told in line
    assert not (tmp_path / "r.json").exists()


def test_nobody_at_the_address(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/sos"
    ended = bench("run", "sos-study", "--target", url, "--out", str(tmp_path / "r.json"))
    assert ended.exit_code == 1
    assert f"Nothing answers at {url}" in ended.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "sos-nothing"], "There is no profile 'sos-nothing'"),
        (["run", "sos-day", "--users", "a"], "no list of numbers"),
        (["run", "sos-day", "--connections", "0"], "above 0"),
        (["run", "sos-day", "--setting", "workers"], "NAME=VALUE"),
        (["run", "sos-day", "--target", "file:///etc/passwd"], "no address"),
        (["run", "sos-day", "--folder", "/nonexistent"], "run: thalweg bench fill A"),
        (["compare", "sos-day", "--base", "yesterday"], "names nothing to compare"),
        (["compare", "sos-study", "--base", "checkout"], "not compared"),
        (["report", "/nonexistent.json"], "cannot be read"),
    ],
)
def test_bad_words_get_a_line(words: list[str], said: str) -> None:
    ended = bench(*words)
    assert ended.exit_code in (1, 2)
    assert said in ended.output
    assert "Traceback" not in ended.output


@pytest.mark.fault
def test_target_that_dies_leaves_a_partial_run(served: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alive = True

    def dying(method: str, path: str, _body: bytes) -> tuple[int, str, bytes] | None:
        if not alive:
            return None
        status, headers, body = targets.ask(served.url + path, method=method, good=ANY)
        return status, headers["content-type"], body

    out = tmp_path / "r.json"

    def after_the_first(phase: dict[str, Any]) -> str:
        nonlocal alive
        alive = False
        return phases.line(phase)

    monkeypatch.setattr(loops, "line", after_the_first)
    with serving(dying) as url:
        ended = bench("run", "sos-open", "--target", f"{url}/sos", "--rates", "20,21,22", "--seconds", "1",
                      "--out", str(out))  # fmt: skip
    assert ended.exit_code == 1
    assert "The target has stopped answering" in ended.output
    found = json.loads(out.read_text())
    assert found["status"] == "partial"
    assert [total(phase)["failures"] > 0 for phase in found["phases"]] == [False, True]
    assert "PARTIAL" in bench("report", str(out)).output


@pytest.mark.fault
def test_interrupted_process_keeps_what_it_has(served: Target, tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    command = [
        sys.executable, "-m", "thalweg", "bench", "run", "sos-open", *as_peer(served), "--rates", "10,11", "--seconds",
        "1.5", "--out", str(out),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 30
    while not out.exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "The run was interrupted. 1 phases are kept" in said
    found = json.loads(out.read_text())
    assert (found["status"], found["reason"], len(found["phases"])) == ("partial", "The run was interrupted.", 1)
