"""What became of a file that was loaded into a layer, as text for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from thalweg.domain.errors import InvalidParameter
from thalweg.loading.features.fields import Losses, Mapped
from thalweg.loading.findings import printable

MAX_EXAMPLES: Final = 20
"""Features with a problem that a report keeps in memory; a sink is given all of them."""
_SHOWN_EXAMPLES: Final = 5
_SHOWN_FIELDS: Final = 40


@dataclass(frozen=True, slots=True)
class Problem:
    """A feature with something wrong.

    number  its place in the file, from 1
    id      as the file gives it, or empty
    action  ``kept``, ``repaired``, ``skipped``, ``refused``
    """

    file: str
    number: int
    id: str
    reason: str
    action: str

    def sentence(self) -> str:
        name = f"feature {self.number:,}" + (f" ({printable(self.id[:60])})" if self.id else "")
        return f"{name}: {printable(self.reason)}; {self.action}"


Sink = Callable[[Problem], None]


@dataclass(slots=True)
class LayerReport:
    """What became of one file.

    how        ``new``, ``replaced``, ``appended``; empty if nothing was stored
    read       features in the file
    loaded     features stored by this run; replaced: of these, in the place of one with the same id
    problems   by action
    empty      features without a geometry
    fields     as the layer has them
    error      why nothing was loaded, or empty
    """

    file: str
    workspace: str
    layer: str = ""
    format: str = ""
    srid: int | None = None
    geometry: str = ""
    dimensions: int = 2
    how: str = ""
    read: int = 0
    loaded: int = 0
    replaced: int = 0
    empty: int = 0
    problems: dict[str, int] = field(default_factory=dict)
    examples: list[Problem] = field(default_factory=list)
    fields: list[Mapped] = field(default_factory=list)
    losses: Losses = field(default_factory=lambda: Losses({}, {}))
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    dry_run: bool = False
    error: str = ""

    def add(self, problem: Problem, sink: Sink | None) -> None:
        self.problems[problem.action] = self.problems.get(problem.action, 0) + 1
        if len(self.examples) < MAX_EXAMPLES:
            self.examples.append(problem)
        if sink is not None:
            sink(problem)

    @property
    def rejected(self) -> bool:
        """Whether something in the file was not stored."""
        return bool(self.problems.get("skipped") or self.losses.dropped)


def lines(report: LayerReport) -> Iterator[str]:
    """The report for people; what the error says is left to the caller."""
    name = printable(Path(report.file).name)
    if report.layer:
        yield f"{name} ({report.format}) → layer {report.layer} of the workspace {report.workspace}"
    if report.fields or report.geometry:
        yield f"  geometry: {_geometry(report)}"
    for mapped in report.fields[:_SHOWN_FIELDS]:
        renamed = "" if mapped.source == mapped.field.name else f" (in the file: {printable(mapped.source)[:60]})"
        yield f"  field: {mapped.field.name}, {mapped.field.kind.value}{renamed}"
    if len(report.fields) > _SHOWN_FIELDS:
        yield f"  and {len(report.fields) - _SHOWN_FIELDS} fields more"
    for note in report.notes:
        yield f"  note: {printable(note)}"
    for column, count in sorted(report.losses.cleaned.items()):
        yield f"  {printable(column)}: {_counted(count, 'text')} had characters that XML forbids; they were taken out"
    for column, count in sorted(report.losses.dropped.items()):
        yield f"  {printable(column)}: {_counted(count, 'value')} could not be kept and {_are(count)} missing now"
    if report.problems:
        counts = ", ".join(f"{count:,} {action}" for action, count in sorted(report.problems.items()))
        yield f"  features with a problem: {counts}"
        for problem in report.examples[:_SHOWN_EXAMPLES]:
            yield f"    {problem.sentence()}"
        if sum(report.problems.values()) > _SHOWN_EXAMPLES:
            yield "    …"
    if report.error:
        return
    what = _counted(report.read, "feature")
    if report.dry_run:
        yield f"  {what} read in {report.seconds:.1f} s; nothing stored (dry run)"
        return
    text = f"  {what} read, {report.loaded:,} stored"
    if report.replaced:
        text += f" ({report.replaced:,} in the place of ones with the same id)"
    rate = f", {report.loaded / report.seconds:,.0f} a second" if report.seconds >= 0.1 else ""
    yield f"{text} in {report.seconds:.1f} s{rate}"


def _geometry(report: LayerReport) -> str:
    if not report.geometry:
        return "none"
    empty = f", {_counted(report.empty, 'feature')} without" if report.empty else ""
    return f"{report.geometry}, {report.dimensions}D, EPSG:{report.srid}{empty}"


def _counted(number: int, one: str) -> str:
    return f"{number:,} {one}{'s' * (number != 1)}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


class ReportFile:
    """Writes problems to a JSON file as they are found; the file appears whole.

    raises  InvalidParameter (``report``) for a name that does not end in .json or cannot be written
    """

    def __init__(self, path: Path) -> None:
        if path.suffix.lower() != ".json":
            raise InvalidParameter("report", f"The report '{path}' must end in .json.")
        self._path = path
        self._part = path.with_name(path.name + ".part")
        try:
            self._stream = self._part.open("w", encoding="utf-8")
        except OSError as error:
            raise InvalidParameter("report", f"The report '{path}' cannot be written: {error.strerror}.") from None
        self._stream.write('{"problems": [')
        self._any = False

    def __enter__(self) -> ReportFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._part.unlink(missing_ok=True)

    def add(self, problem: Problem) -> None:
        """The sink to give to ``load_layer``."""
        found = {
            "file": problem.file,
            "number": problem.number,
            "id": problem.id or None,
            "reason": problem.reason,
            "action": problem.action,
        }
        self._stream.write((",\n" if self._any else "\n") + json.dumps(found, ensure_ascii=False))
        self._any = True

    def finish(self, reports: list[LayerReport]) -> None:
        """Add what became of each file and put the report in its place."""
        files = json.dumps([as_dict(report) for report in reports], ensure_ascii=False, indent=1)
        self._stream.write(f'\n], "files": {files}}}\n')
        self._stream.close()
        self._part.replace(self._path)


def as_dict(report: LayerReport) -> dict[str, Any]:
    """A file's report as JSON has it."""
    return {
        "file": report.file,
        "workspace": report.workspace,
        "layer": report.layer or None,
        "format": report.format or None,
        "srid": report.srid,
        "geometry": report.geometry or None,
        "dimensions": report.dimensions,
        "how": report.how or None,
        "read": report.read,
        "loaded": report.loaded,
        "replaced": report.replaced,
        "without_geometry": report.empty,
        "problems": report.problems,
        "fields": [{"name": m.field.name, "kind": m.field.kind.value, "in_file": m.source} for m in report.fields],
        "cleaned": report.losses.cleaned,
        "dropped": report.losses.dropped,
        "notes": report.notes,
        "seconds": round(report.seconds, 3),
        "error": report.error or None,
    }
