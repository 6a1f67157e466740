"""Reports, verdicts and files of runs, from a run written down by hand."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from thalweg.bench import studies
from thalweg.bench.errors import BenchError
from thalweg.bench.jtl import COLUMNS, append
from thalweg.bench.profiles import FIGURES_TO_REACH, PROFILES
from thalweg.bench.report.plot import plot
from thalweg.bench.report.tables import tables
from thalweg.bench.report.users import inspire
from thalweg.bench.report.write import html, markdown
from thalweg.bench.results import FORMAT, Result, read
from thalweg.bench.samples import Sample, Samples
from thalweg.bench.session import measuring
from thalweg.bench.stats import PERCENTILES


def operation(rate: float, time_ms: float, failures: int = 0, size: float = 1000) -> dict[str, Any]:
    return {
        "requests": 100, "failures": failures, "failure_percent": float(failures), "rate": rate, "mean_ms": time_ms,
        "min_ms": time_ms / 2, "max_ms": time_ms * 2, "percentiles_ms": {str(p): time_ms for p in PERCENTILES},
        "bytes_mean": size, "errors": {"status 500": failures} if failures else {},
    }  # fmt: skip


def mix_run(**more: Any) -> dict[str, Any]:
    phases = [
        {
            "label": f"{users} users", "driver": "users", "users": users,
            "operations": {
                "GO": operation(users * 0.075, 12.5), "DS": operation(0.4, 3), "GC": operation(0.1, 3),
                "TOT": operation(users * 0.08, 12.5, failures),
            },
            "watch": {
                "seconds": [1.0, 2.0, 3.0, 4.0], "series": {"server_cpu": [10.0] * 4, "machine_cpu": [5.0] * 4},
                "mean": {"server_cpu": 10.0, "generator_cpu": 4.0, "machine_cpu": 5.0},
                "max": {"server_memory": 3e8, "server_memory_largest": 1.5e8},
            },
        }
        for users, failures in ((100, 0), (500, 2))
    ]  # fmt: skip
    return {
        "format": FORMAT, "status": "complete", "reason": "", "profile": "sos-study", "study": "sos",
        "title": "t <&> t", "load": {"form": "Mix", "weights": {"GC": 1, "DS": 5, "GO": 100}, "users": [100, 500]},
        "data": {"network": "A"}, "target": {"name": "x <script>"}, "context": {"command": "thalweg bench run a|b"},
        "phases": phases, **more,
    }  # fmt: skip


def closed_run() -> dict[str, Any]:
    def phase(side: str, number: int, rate: float) -> dict[str, Any]:
        return {
            "label": "GO", "case": "GO", "driver": "wrk", "connections": 16, "side": side, "round": number,
            "operations": {"TOT": operation(rate, 2)},
        }  # fmt: skip

    rates = [("target", 900, 10_000), ("target", 1000, 10_000), ("target", 700, 10_000)]
    phases = [
        phase(s, n, r) for n, (side, ours, limit) in enumerate(rates) for s, r in ((side, ours), ("nginx", limit))
    ]
    return mix_run() | {"profile": "sos-day", "load": {"form": "Closed"}, "phases": phases}


# ---------------------------------------------------------------- studies


def test_published_figures_are_read_as_printed() -> None:
    rates = studies.sos_rates("A")
    assert rates["gevent", 500, "GO"] == (36.90, 0)
    assert rates["mod_wsgi", 2000, "TOT"] == (66.94, 10)
    assert studies.sos_rates("C")["mod_wsgi", 1000, "GO"] == (None, 0)
    assert studies.sos_percentiles("B", "IO")["gevent", 500][100] == 46.47
    assert studies.sos_percentiles("C without GC", "GO")["gevent", 100][50] == 0.18
    assert studies.sos_percentiles("C", "GO") == {}
    assert (len(studies.rows("wfs")), len(studies.rows("ldes")), len(studies.rows("ckan"))) == (24, 4, 7)


def test_case_without_capabilities_was_measured_for_c_alone() -> None:
    assert [studies.sos_case(n, with_gc) for n, with_gc in (("A", False), ("C", True), ("C", False))] == [
        "A", "C", "C without GC",
    ]  # fmt: skip


def test_bars_are_of_profiles_that_exist() -> None:
    for name, *_ in FIGURES_TO_REACH:
        assert name in PROFILES


# ---------------------------------------------------------------- verdicts


@pytest.mark.parametrize(
    ("name", "rate", "time_ms", "failures", "size", "expected"),
    [
        ("GO", 36.0, 150, 0, 1e3, ("kept", "kept", "kept")),
        ("GO", 36.0, 30_100, 0, 1e3, ("not kept", "kept", "kept")),
        ("GC", 36.0, 10_100, 0, 1e3, ("not kept", "kept", "kept")),
        # 2.5 MB may take 5 s more than the limit's 10.
        ("GC", 36.0, 14_900, 0, 2.5e6, ("kept", "kept", "kept")),
        ("GO", 36.0, 150, 1, 1e3, ("kept", "kept", "kept")),
        ("GO", 36.0, 150, 2, 1e3, ("kept", "not kept", "kept")),
        ("DS", 0.4, 150, 0, 1e3, ("kept", "kept", "asked 0.40/s only")),
        ("DS", 0.4, 150, 50, 1e3, ("kept", "not kept", "not kept")),
        # Refusals at a high rate are no capacity.
        ("GC", 60.0, 1, 100, 1e3, ("kept", "not kept", "not kept")),
    ],
)
def test_inspire_verdict(
    name: str, rate: float, time_ms: float, failures: int, size: float, expected: tuple[str, str, str]
) -> None:
    assert inspire(name, operation(rate, time_ms, failures, size)) == expected


# ---------------------------------------------------------------- tables and pages


def test_study_table_has_both_sides_figures() -> None:
    first = next(tables(mix_run()))
    assert ("100", "GO", "7.50", "0", "7.45", "", "7.45", "") in first.rows
    assert ("500", "TOT", "40.00", "2.00 %", "39.84", "", "39.28", "") in first.rows


def test_shares_of_nginx_are_medians_of_rounds() -> None:
    (shares,) = [table for table in tables(closed_run()) if "Share of nginx" in table.caption]
    assert shares.rows == (("GO", "16", "900", "10,000", "9.0 %", "7.0-10.0 %", "8 %", "10 %", "0"),)


def test_page_is_self_contained_and_escaped() -> None:
    page = html([mix_run(), closed_run()])
    assert "<script" not in page
    assert "x &lt;script&gt;" in page
    assert not re.findall(r'(?:src|href)="', page)
    assert set(re.findall(r"https?://[^\"<\s]+", page)) <= {"http://www.w3.org/2000/svg"}
    assert page.count("<svg") >= 3
    root = etree.fromstring(page.replace("<!DOCTYPE html>", "").encode(), etree.HTMLParser())
    assert len(root.findall(".//table")) > 8


def test_markdown_has_a_row_for_each_figure_and_escapes_bars() -> None:
    text = markdown([mix_run()])
    assert "| 500 | GO | 37.50 | 0 | 36.90 |" in text
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.endswith("|")
    assert "2 requests failed: status 500 (2)" in text


def test_partial_run_says_so_before_any_figure() -> None:
    run = mix_run(status="partial", reason="The run was interrupted.")
    for text in (markdown([run]), html([run])):
        assert text.index("PARTIAL: The run was interrupted.") < text.index("Requests a second")


def test_plot_is_xml_and_leaves_out_what_an_axis_cannot_show() -> None:
    text = plot("a & b", {"one <": [(100, 0.1), (1000, 0.0), (2000, float("nan"))], "study": [(100, 10.0)]},
                x_label="users", y_label="s", log_x=True, log_y=True)  # fmt: skip
    root = etree.fromstring(text.encode())
    assert len(root.findall(".//{*}circle")) == 2
    # From a tenth to ten seconds: the ends of the axis, at its ends.
    places = [float(node.get("cy", "")) for node in root.findall(".//{*}circle")]
    assert places == [294.0, 30.0]
    assert plot("t", {"x": [(1, 0)]}, x_label="", y_label="", log_y=True) == ""


# ---------------------------------------------------------------- files


def test_interrupted_run_keeps_its_phases_marked_partial(tmp_path: Path) -> None:
    result = Result({"profile": "p"}, tmp_path / "r.json")
    phase = closed_run()["phases"][0]
    with pytest.raises(BenchError, match=r"interrupted.*1 phases are kept"), measuring(result):  # noqa: PT012
        result.add(phase)
        raise KeyboardInterrupt
    kept = read(tmp_path / "r.json")
    assert (kept["status"], len(kept["phases"]), kept["failures"]) == ("partial", 1, 0)


def test_file_says_partial_while_the_run_goes_on(tmp_path: Path) -> None:
    result = Result({"profile": "p"}, tmp_path / "r.json")
    result.add(closed_run()["phases"][0])
    assert read(tmp_path / "r.json")["status"] == "partial"
    result.finish()
    assert read(tmp_path / "r.json")["status"] == "complete"


def test_run_that_measured_nothing_leaves_no_file(tmp_path: Path) -> None:
    result = Result({"profile": "p"}, tmp_path / "r.json")
    with pytest.raises(BenchError, match="nobody there"), measuring(result):
        raise BenchError("nobody there")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.fault
def test_full_disk_leaves_the_last_phase_marked_partial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = Result({"profile": "p"}, tmp_path / "r.json")
    original = Path.write_text

    def full(self: Path, *arguments: Any, **named: Any) -> int:
        original(self, "half", "utf-8")
        raise OSError(28, "No space left on device")

    with pytest.raises(BenchError, match="No space left"), measuring(result):  # noqa: PT012
        result.add(closed_run()["phases"][0])
        monkeypatch.setattr(Path, "write_text", full)
        result.add(closed_run()["phases"][1])
    monkeypatch.undo()
    kept = read(tmp_path / "r.json")
    assert (kept["status"], len(kept["phases"])) == ("partial", 1)
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", json.dumps({"format": 1, "phases": []})])
def test_what_is_no_result_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(BenchError, match="no result"):
        read(tmp_path / "r.json")


def test_jtl_is_what_jmeter_writes(tmp_path: Path) -> None:
    samples = Samples(1_600_000_000.0)
    samples.add(Sample("GO", 1.5, 0.2504, 0.2, 0.01, 200, 300, 9000, "", 4))
    samples.add(Sample("GO", 2.0, 60.0, 0.0, 0.0, 0, 300, 0, 'no answer, "never"', 0))
    append(tmp_path / "r.jtl", samples, 10)
    append(tmp_path / "r.jtl", samples, 10)
    with (tmp_path / "r.jtl").open(newline="") as file:
        head, *rows = list(csv.reader(file))
    assert tuple(head) == COLUMNS
    assert len(rows) == 4
    good, bad = (dict(zip(head, row, strict=True)) for row in rows[:2])
    assert (good["timeStamp"], good["elapsed"], good["label"], good["responseCode"]) == (
        "1600000001500", "250", "GO", "200",
    )  # fmt: skip
    assert (good["success"], good["bytes"], good["sentBytes"], good["Latency"], good["Connect"]) == (
        "true", "9000", "300", "200", "10",
    )  # fmt: skip
    assert (bad["success"], bad["failureMessage"], bad["elapsed"]) == ("false", 'no answer, "never"', "60000")
