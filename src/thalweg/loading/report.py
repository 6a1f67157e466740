"""Load reports as text for people, and as JSON or CSV for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from thalweg.domain.csv_lines import csv_writer
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.time import format_duration, format_instant
from thalweg.loading.findings import FileReport, Finding, Kind, LoadReport, Severity, printable, severity

_SHOWN_EXAMPLES: Final = 3
_SHOWN_COLUMNS: Final = 20
_COUNTS: Final = (
    "rows rows_new values values_new values_already values_different replaced missing repeats conflicts "
    "rejected_rows rejected_cells holes"
).split()


class ReportFile:
    """Writes findings to a file as they are made, so that their number costs no memory; the file appears whole.

    path    ends in ``.json`` or ``.csv``
    raises  InvalidParameter (``report``) for another ending or a file that cannot be written
    """

    def __init__(self, path: Path) -> None:
        if path.suffix.lower() not in (".json", ".csv"):
            raise InvalidParameter("report", f"The report '{path}' must end in .json or .csv.")
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._json = path.suffix.lower() == ".json"
        try:
            self._stream = self._part.open("w", encoding="utf-8", newline="")
        except OSError as error:
            raise InvalidParameter("report", f"The report '{path}' cannot be written: {error.strerror}.") from None
        self._csv = csv_writer(self._stream)
        self._any = False
        if self._json:
            self._stream.write('{"findings": [')
        else:
            self._csv.writerow(("file", "line", "last_line", "severity", "kind", "count", "column", "text", "message"))

    def __enter__(self) -> ReportFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stream.close()
        self._part.unlink(missing_ok=True)

    def add(self, finding: Finding) -> None:
        """The sink to give to ``load_stations``."""
        if self._json:
            self._stream.write(",\n" if self._any else "\n")
            self._any = True
            self._stream.write(json.dumps(_finding(finding), ensure_ascii=False))
            return
        self._csv.writerow(
            (
                finding.file, finding.line or "", finding.last_line or "", severity(finding.kind).name.lower(),
                finding.kind.value, finding.count, finding.column, _harmless(finding.text), finding.message,
            )
        )  # fmt: skip

    def finish(self, report: LoadReport) -> None:
        """Add the files' counts and put the file in its place."""
        if self._json:
            self._stream.write("\n], ")
            summary = {
                "workspace": report.workspace,
                "dry_run": report.dry_run,
                "procedures_new": report.procedures_new,
                "seconds": round(report.seconds, 3),
                "files": [as_dict(file) for file in report.files],
            }
            self._stream.write(json.dumps(summary, ensure_ascii=False, indent=1)[1:] + "\n")
        else:
            for file in report.files:
                counts = ", ".join(f"{name} {getattr(file, name)}" for name in _COUNTS)
                self._csv.writerow((file.file, "", "", "summary", "summary", "", "", file.procedure, counts))
        self._stream.close()
        self._part.replace(self._path)


def _harmless(text: str) -> str:
    """Spreadsheets compute what begins like a formula."""
    return f"'{text}" if text[:1] in ("=", "@") else text


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "file": finding.file,
        "line": finding.line or None,
        "last_line": finding.last_line or None,
        "severity": severity(finding.kind).name.lower(),
        "kind": finding.kind.value,
        "count": finding.count,
        "column": finding.column or None,
        "text": finding.text or None,
        "message": finding.message,
    }


def as_dict(file: FileReport) -> dict[str, Any]:
    """A file's counts as JSON has them."""
    return {
        "file": file.file,
        "procedure": file.procedure,
        "feature": file.feature,
        "error": file.error or None,
        **{name: getattr(file, name) for name in _COUNTS},
        "longest_hole": format_duration(file.longest_hole_us) if file.holes else None,
        "begin": None if file.first_us is None else format_instant(file.first_us),
        "end": None if file.last_us is None else format_instant(file.last_us),
        "by_column": [
            {"kind": kind.value, "column": column, "count": count} for (kind, column), count in file.by_column.items()
        ],
        "found": {kind.value: count for kind, count in sorted(file.counts.items())},
        "seconds": round(file.seconds, 3),
    }


def _left_out(file: FileReport) -> bool:
    """A file beside a mapping that does not name it: told, not loaded."""
    return Kind.NOT_NAMED in file.counts


_TITLES: Final = ("file", "procedure", "rows", "values", "new", "missing", "repeats", "conflicts", "rejected", "holes")


def table(report: LoadReport) -> Iterator[str]:
    """A line per file, numbers to the right."""
    rows: list[tuple[str, ...]] = [_TITLES]
    for file in report.files:
        rejected = file.rejected_rows + file.rejected_cells
        holes = f"{file.holes} (longest {format_duration(file.longest_hole_us)})" if file.holes else "0"
        numbers = (file.rows, file.values, file.values_new, file.missing, file.repeats, file.conflicts, rejected)
        cells = [f"{number:,}" for number in numbers]
        if report.dry_run:
            cells[2] = "-"
        if (file.error and not file.rows) or _left_out(file):
            cells = ["-"] * len(cells)
            holes = "-"
        rows.append((printable(Path(file.file).name), file.procedure, *cells, holes))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_TITLES))]
    for row in rows:
        cells = [text.ljust(width) for text, width in zip(row[:2], widths[:2], strict=True)]
        cells += [text.rjust(width) for text, width in zip(row[2:-1], widths[2:-1], strict=True)]
        yield "  ".join((*cells, row[-1])).rstrip()


def details(file: FileReport) -> Iterator[str]:
    """What was found in a file, worst first, some examples of each kind; why it could not be loaded is for ``errors``.
    Nothing for a file without findings."""
    kinds = [kind for kind in file.counts if severity(kind) is not Severity.ERROR]
    if not kinds:
        return
    yield f"{printable(file.file)}:"
    for kind in sorted(kinds, key=lambda k: (-severity(k), k.value)):
        examples = file.examples[kind]
        level = severity(kind)
        if level is Severity.NOTE and kind not in (Kind.ASSUMED, Kind.DECIDED, Kind.NOT_NAMED):
            columns = [f"{column} {n:,}" for (found, column), n in file.by_column.items() if found is kind]
            where = f" ({', '.join(columns[:_SHOWN_COLUMNS])})" if columns else ""
            yield f"  {kind.value}: {file.counts[kind]:,}{where}, first at {examples[0].place() or 'the header'}"
            continue
        yield f"  {kind.value}: {file.counts[kind]:,}"
        for example in examples[:_SHOWN_EXAMPLES]:
            yield f"    {_sentence(example)}"
        if len(examples) > _SHOWN_EXAMPLES:
            yield "    …"


def _sentence(finding: Finding) -> str:
    place = finding.place()
    parts = [place] if place else []
    if finding.column:
        parts.append(finding.column)
    if finding.text:
        parts.append(f"'{finding.text}'")
    return f"{' '.join(parts)}: {finding.message}" if parts else finding.message


def errors(report: LoadReport) -> Iterator[str]:
    """Why files could not be loaded, a line each."""
    for file in report.files:
        if file.error:
            place = next((finding.place() for finding in file.examples.get(Kind.UNUSABLE, ())), "")
            yield ": ".join(part for part in (printable(file.file), place, file.error) if part)


def _counted(number: int, one: str) -> str:
    return f"{number:,} {one}{'s' * (number != 1)}"


def summary(report: LoadReport) -> Iterator[str]:
    """The closing lines."""
    files = sum(not _left_out(file) for file in report.files)
    failed = sum(bool(file.error) for file in report.files)
    if report.procedures_new:
        yield f"Registered {_counted(len(report.procedures_new), 'procedure')}: {', '.join(report.procedures_new)}"
    if report.dry_run:
        values = _counted(report.total("values"), "value")
        yield f"{files - failed} of {_counted(files, 'file')} read, {values}; nothing stored (dry run)"
    else:
        values = _counted(report.total("values_new"), "new value")
        line = f"{files - failed} of {_counted(files, 'file')} loaded: {values}"
        already = report.total("values_already")
        replaced = report.total("replaced")
        if already:
            line += f", {already:,} there already"
        if replaced:
            line += f", {replaced:,} there already, replaced where different"
        yield f"{line}, in {report.seconds:.1f} s"
