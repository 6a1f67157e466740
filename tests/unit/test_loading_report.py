"""Reports for people and for programs."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from thalweg.domain.errors import InvalidParameter
from thalweg.loading.findings import MAX_EXAMPLES, FileReport, Finding, Kind, LoadReport, Recorder, Severity, severity
from thalweg.loading.report import ReportFile, details, errors, summary, table


def report_of(findings: int = 2) -> tuple[LoadReport, list[Finding]]:
    seen: list[Finding] = []
    file = FileReport("data/a.csv", "A", "A", rows=10, rows_new=9, values=18, values_new=17, values_already=1)
    recorder = Recorder(file, seen.append)
    for number in range(findings):
        recorder.add(Kind.UNREADABLE_NUMBER, "not a number", 5 + number, column="t", text='=cmd|"x"')
    recorder.add(Kind.EMPTY_FIELD, "no value", 20, 29, count=10, column="r")
    recorder.add(Kind.ASSUMED, "the timestep is taken to be PT10M")
    file.rejected_cells, file.missing, file.holes, file.longest_hole_us = findings, 10, 1, 7_200_000_000
    failed = FileReport("data/b.csv", "B", "B")
    Recorder(failed, seen.append).fail("the file is empty")
    return LoadReport("default", [file, failed], ["A"], seconds=1.5), seen


def test_json_holds_every_finding_and_all_counts(tmp_path: Path) -> None:
    report, findings = report_of()
    path = tmp_path / "r.json"
    with ReportFile(path) as writer:
        for finding in findings:
            writer.add(finding)
        assert not path.exists()
        writer.finish(report)
    document = json.loads(path.read_text(encoding="utf-8"))
    assert len(document["findings"]) == 5
    assert document["findings"][0] == {
        "file": "data/a.csv", "line": 5, "last_line": 5, "severity": "rejected", "kind": "unreadable-number",
        "count": 1, "column": "t", "text": '=cmd|"x"', "message": "not a number",
    }  # fmt: skip
    assert document["procedures_new"] == ["A"]
    first, second = document["files"]
    assert (first["rows"], first["values_new"], first["rejected_cells"], first["longest_hole"]) == (10, 17, 2, "PT2H")
    assert first["found"] == {"assumed": 1, "empty-field": 10, "unreadable-number": 2}
    assert second["error"] == "the file is empty"


def test_json_without_findings_is_json(tmp_path: Path) -> None:
    with ReportFile(tmp_path / "r.json") as writer:
        writer.finish(LoadReport("default"))
    assert json.loads((tmp_path / "r.json").read_text())["findings"] == []


def test_csv_holds_every_finding_and_no_formula(tmp_path: Path) -> None:
    report, findings = report_of()
    with ReportFile(tmp_path / "r.csv") as writer:
        for finding in findings:
            writer.add(finding)
        writer.finish(report)
    rows = list(csv.DictReader((tmp_path / "r.csv").open(newline="")))
    assert [row["kind"] for row in rows] == [
        "unreadable-number", "unreadable-number", "empty-field", "assumed", "unusable-file", "summary", "summary",
    ]  # fmt: skip
    assert rows[0]["text"] == '\'=cmd|"x"'
    assert (rows[2]["line"], rows[2]["last_line"], rows[2]["count"]) == ("20", "29", "10")
    assert "values_new 17" in rows[5]["message"]


def test_a_report_that_is_not_finished_leaves_no_file(tmp_path: Path) -> None:
    with ReportFile(tmp_path / "r.json") as writer:
        writer.add(Finding("a", Kind.HOLE, "x"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["r.txt", "r", "no/such/folder.json"])
def test_reports_elsewhere_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter):
        ReportFile(tmp_path / name)


def test_only_some_examples_are_kept_but_all_are_counted() -> None:
    report, findings = report_of(findings=500)
    assert len(findings) == 503
    assert report.files[0].counts[Kind.UNREADABLE_NUMBER] == 500
    assert len(report.files[0].examples[Kind.UNREADABLE_NUMBER]) == MAX_EXAMPLES


def test_text_for_people() -> None:
    report, _ = report_of()
    lines = list(table(report))
    assert lines[0].split() == [
        "file", "procedure", "rows", "values", "new", "missing", "repeats", "conflicts", "rejected", "holes",
    ]  # fmt: skip
    assert lines[1].split() == ["a.csv", "A", "10", "18", "17", "10", "0", "0", "2", "1", "(longest", "PT2H)"]
    assert lines[2].split() == ["b.csv", "B", *["-"] * 8]
    assert list(details(report.files[0])) == [
        "data/a.csv:",
        "  unreadable-number: 2",
        "    line 5 t '=cmd|\"x\"': not a number",
        "    line 6 t '=cmd|\"x\"': not a number",
        "  assumed: 1",
        "    the timestep is taken to be PT10M",
        "  empty-field: 10 (r 10), first at lines 20-29",
    ]
    assert list(details(report.files[1])) == []
    assert list(errors(report)) == ["data/b.csv: the file is empty"]
    assert list(details(FileReport("c.csv"))) == []
    assert list(summary(report)) == [
        "Registered 1 procedure: A", "1 of 2 files loaded: 17 new values, 1 there already, in 1.5 s",
    ]  # fmt: skip
    assert report.rejected
    assert report.failed


def test_an_error_is_told_with_its_line_and_not_among_the_findings() -> None:
    file = FileReport("a.csv", "A", "A")
    recorder = Recorder(file)
    recorder.add(Kind.ASSUMED, "the zone is taken to be UTC")
    recorder.fail("the header is no header", 3)
    report = LoadReport("default", [file, FileReport("b.csv", "B", "B")])
    assert list(errors(report)) == ["a.csv: line 3: the header is no header"]
    assert list(details(file)) == ["a.csv:", "  assumed: 1", "    the zone is taken to be UTC"]


def test_one_value_of_one_file_is_singular() -> None:
    report = LoadReport("default", [FileReport("a.csv", "A", "A", values=1, values_new=1)], seconds=0.1)
    assert list(summary(report)) == ["1 of 1 file loaded: 1 new value, in 0.1 s"]
    report.dry_run = True
    assert list(summary(report)) == ["1 of 1 file read, 1 value; nothing stored (dry run)"]


def test_every_kind_has_its_severity_and_its_place_in_the_documentation(repository: Path) -> None:
    page = (repository / "docs" / "how-to" / "load-stations.md").read_text(encoding="utf-8")
    assert [kind.value for kind in Kind if f"`{kind.value}`" not in page] == []
    assert {severity(kind) for kind in Kind} == set(Severity)
