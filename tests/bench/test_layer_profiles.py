"""The profiles of layers: what they ask for, inside the process and over HTTP, and what their reports say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import CliRunner
from test_profiles import LONG, has_programs, run

from thalweg import app
from thalweg.bench import layers, wfs, wfs_cases, wfs_runs
from thalweg.bench.errors import BenchError
from thalweg.bench.loops import groups
from thalweg.bench.profiles import PROFILES
from thalweg.bench.report.tables import tables
from thalweg.bench.requests import Case, Pool, Request
from thalweg.bench.stats import ratios
from thalweg.cli import cli
from thalweg.domain.catalogue import DEFAULT_WORKSPACE

SIZES = {"osm_mainroads": 600, "osm_places": 500, "osm_mainroads_1m": 1500}


@pytest.fixture(scope="module")
def filled_layers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the store of small layers."""
    folder = tmp_path_factory.mktemp("layers")
    for layer, size in SIZES.items():
        ended = CliRunner().invoke(cli, ["bench", "fill", layer, "--features", str(size), "--folder", str(folder)])
        assert ended.exit_code == 0, ended.output
    return folder


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small pools."""
    monkeypatch.setattr(wfs_runs, "WARM_UP", 1)
    monkeypatch.setattr(wfs_cases, "PAGES", 4)
    monkeypatch.setattr(wfs_cases, "BOXES", 6)
    monkeypatch.setattr(wfs_cases, "CENTRES", 3)


def _answers(folder: Path, kind: str, **parameters: Any) -> Iterator[tuple[Case, list[bytes]]]:
    """Each case of a workload with the answers to a few of its requests."""
    made: list[tuple[Case, list[bytes]]] = []

    def make(service: wfs.Service, fetch: wfs_cases.Fetch) -> Iterator[Case]:
        for case in wfs_cases.MAKERS[kind](service, parameters, fetch, 7):
            made.append((case, [fetch(request) for request in case.sample]))
            yield case

    wfs_runs.handler(folder / "layers.sqlite", make, 2)
    return iter(made)


def _features(body: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(body)["features"]
    return found


@pytest.mark.usefixtures("few")
def test_other_crs_is_asked_for_the_same_pages(filled_layers: Path) -> None:
    found = {case.label: (case, bodies) for case, bodies in _answers(
        filled_layers, "wfs-crs", layers=("osm_mainroads",), count=20)}  # fmt: skip
    assert len(found) == 9
    base, native = found["osm_mainroads GeoJSON"]
    moved, mercator = found["osm_mainroads GeoJSON EPSG:3857"]
    assert moved.base == base.label
    for one, other in zip(native, mercator, strict=True):
        here, there = _features(one), _features(other)
        assert [f["id"] for f in here] == [f["id"] for f in there]
        assert len(here) == 20
        (x, _), (east, _) = (f[0]["geometry"]["coordinates"][0] for f in (here, there))
        # EPSG:3857: 111,319.49 m of easting a degree.
        assert east == pytest.approx(x * 111_319.4908, abs=0.01)


@pytest.mark.usefixtures("few")
def test_far_page_follows_the_first_ones(filled_layers: Path) -> None:
    seen = _answers(filled_layers, "wfs-paging", layers=("osm_places",), count=50, start=6500)
    by_label = {case.label: bodies[0] for case, bodies in seen}
    near = {f["id"] for f in _features(by_label["osm_places GeoJSON"])}
    # There are 500: the last page that is full.
    far = {f["id"] for f in _features(by_label["osm_places GeoJSON startIndex=450"])}
    assert len(near) == len(far) == 50
    assert not near & far


@pytest.mark.usefixtures("few")
def test_numbers_are_told_beside_documents_without(filled_layers: Path) -> None:
    for case, bodies in _answers(filled_layers, "wfs-hits", layers=("osm_mainroads",), count=50):
        for body in bodies:
            assert body.count(b"<tw:osm_mainroads ") == 50
            found = re.search(rb'numberMatched="(\d+)"', body)
            assert (found is None) == case.label.endswith("GML2")
            # Filters let all through: ids of made features begin at 1.
            assert found is None or found[1] == b"600"


@pytest.mark.usefixtures("few")
def test_boxes_hold_about_what_is_asked_for_and_differ(filled_layers: Path) -> None:
    seen = list(_answers(filled_layers, "wfs-bbox", layers=("osm_mainroads", "osm_mainroads_1m"), count=100))
    assert [case.base for case, _ in seen[:2]] == ["", "osm_mainroads box GML3.2"]
    for case, bodies in seen:
        if not case.label.endswith("GeoJSON"):
            continue
        assert isinstance(case.source, Pool)
        boxes = {parse_qs(urlsplit(request.path).query)["bbox"][0] for request in case.source.requests}
        assert len(boxes) == 6
        for body in bodies:
            assert 60 <= len(_features(body)) <= 100


@pytest.mark.usefixtures("few")
def test_pages_of_a_big_layer_and_all_of_it(filled_layers: Path) -> None:
    seen = list(_answers(filled_layers, "wfs-big-layer", layers=("osm_mainroads", "osm_mainroads_1m"), count=50))
    assert len(seen) == 12
    assert all(body.count(b"osm_mainroads_1m.") >= 50 for case, bodies in seen if case.base for body in bodies)
    ((case, _),) = _answers(filled_layers, "wfs-whole-layer", layers=("osm_mainroads_1m",))
    assert "count=" not in next(case.source.stream()).path


def test_whole_layer_is_read_to_its_end_and_counted(filled_layers: Path, tmp_path: Path) -> None:
    found = run("wfs-whole-layer", tmp_path / "r.json", "--folder", str(filled_layers), "--workers", "1")
    (phase,) = found["phases"]
    assert phase["wfs"]["features"] == 1500
    assert phase["wfs"]["bytes"] == phase["operations"]["TOT"]["bytes_mean"]
    assert abs(phase["wfs"]["memory_growth_bytes"]) < 64 << 20


def test_transactions_insert_what_they_say(filled_layers: Path, tmp_path: Path) -> None:
    found = run("wfs-insert", tmp_path / "r.json", "--folder", str(filled_layers), "--workers", "1", "--requests", "2")
    assert found["phases"][0]["operations"]["TOT"]["requests"] == 2
    store = app.open_store(f"sqlite:///{filled_layers / 'layers.sqlite'}")
    try:
        layer = store.layers(store.workspaces()[DEFAULT_WORKSPACE].id)[wfs_runs.INSERTS]
        assert store.layer_state(layer.id).count == 100 + 2 * wfs_runs.INSERTED
    finally:
        store.close()


@pytest.mark.usefixtures("few")
def test_handler_profile(filled_layers: Path, tmp_path: Path) -> None:
    found = run("wfs-handler", tmp_path / "r.json", "--folder", str(filled_layers), "--requests", "3")
    assert len(found["phases"]) == 24
    assert all(phase["handler"]["cpu_us"] > 0 and phase["handler"]["requests"] == 3 for phase in found["phases"])
    text = CliRunner().invoke(cli, ["bench", "report", str(tmp_path / "r.json")]).output
    assert "| osm_mainroads_1m box GeoJSON |" in text


@LONG
@has_programs
def test_boxes_over_http_by_turns(filled_layers: Path, tmp_path: Path) -> None:
    found = run("wfs-bbox", tmp_path / "r.json", "--folder", str(filled_layers), "--seconds", "1", "--rounds", "1",
                "--connections", "4", "--workers", "1")  # fmt: skip
    sides = [(phase["case"], phase["side"]) for phase in found["phases"][:4]]
    small, large = "osm_mainroads box GML3.2", "osm_mainroads_1m box GML3.2"
    assert sides == [(small, "target"), (small, "nginx"), (large, "target"), (large, "nginx")]
    text = CliRunner().invoke(cli, ["bench", "report", str(tmp_path / "r.json")]).output
    assert "Rate to that of the request beside" in text


# ---------------------------------------------------------------- figures


def _phase(case: str, base: str, rate: float, number: int) -> dict[str, Any]:
    total = {
        "rate": rate, "percentiles_ms": {}, "bytes_mean": 1.0, "failures": 0, "requests": 1, "failure_percent": 0.0,
        "mean_ms": 1.0, "errors": {},
    }  # fmt: skip
    return {
        "label": case, "case": case, "base": base, "side": "target", "connections": 16, "round": number, "seconds": 1,
        "driver": "wrk", "operations": {"TOT": total}, "watch": {"mean": {}, "max": {}, "series": {}, "seconds": []},
    }  # fmt: skip


def test_ratios_are_those_of_the_same_round() -> None:
    phases = [_phase("a", "", 100, 0), _phase("b", "a", 40, 0), _phase("a", "", 50, 1), _phase("b", "a", 45, 1)]
    assert ratios(phases, "b", "a") == {16: [0.4, 0.9]}
    assert ratios(phases, "b", "c") == {}
    data = {"kind": "run", "profile": "wfs-crs", "study": "wfs", "load": {"form": "Closed"}, "phases": phases}
    (table,) = [table for table in tables(data) if table.caption.startswith("Rate to that")]
    assert table.rows == (("b", "a", "16", "0.65", "0.40-0.90", "0.4", "1"),)


def test_cases_go_with_the_one_they_are_compared_with() -> None:
    def case(label: str, base: str = "") -> Case:
        return Case(label, Pool((Request(label, "/"),)), (), base)

    found = groups([case("a"), case("b", "a"), case("c", "a"), case("d"), case("e", "a")])
    assert [[item.label for item in group] for group in found] == [["a", "b", "c"], ["d"], ["e"]]


def test_every_figure_of_a_layer_has_its_profile() -> None:
    for name in ("crs", "bbox", "paging", "hits", "big-layer", "whole-layer", "insert", "handler"):
        profile = PROFILES[f"wfs-{name}"]
        assert profile.data == "layers"
        assert profile.workload in {*wfs_cases.MAKERS, "wfs-handler"}
    assert set(layers.FEATURES) <= set(layers.LAYERS)


def test_a_service_without_numbers_or_features_is_told() -> None:
    service = wfs.Service("http://127.0.0.1/wfs", {"osm_places": "osm_places"}, dict.fromkeys(wfs.FORMATS, "x"), {})
    with pytest.raises(BenchError, match="does not say how many"):
        wfs_cases.matched(service, "osm_places", lambda _: b'<a numberMatched="unknown"/>')
    with pytest.raises(BenchError, match="no layer osm_mainroads"):
        wfs_cases.matched(service, "osm_mainroads", lambda _: b"")
    with pytest.raises(BenchError, match="none"):
        list(wfs_cases.hits(service, {"layers": ("osm_places",), "count": 1}, lambda _: b"<a/>", 1))
