"""What loading finds in files: defects by kind, file and line, and the counts that sum them up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final

MAX_EXAMPLES: Final = 20
"""Findings of one kind that a file's report keeps in memory; a sink is given all of them."""
MAX_QUOTED: Final = 80
"""Longest part of a file's text that a finding repeats, characters."""


class Severity(IntEnum):
    NOTE = 0
    """what was assumed or decided, nothing wrong"""
    WARNING = 1
    """something odd; all that the file says is stored, or was stored before"""
    REJECTED = 2
    """a cell or a row could not be stored"""
    ERROR = 3
    """a whole file could not be loaded"""


class Kind(StrEnum):
    """What can be found. The unit of the counts is said where it is not the row."""

    # notes
    ASSUMED = "assumed"
    """something the file does not say was taken as given: zone, delimiter, decimal mark, unit (files)"""
    DECIDED = "decided"
    """how stations, procedures and features were made of files (files)"""
    EMPTY_FIELD = "empty-field"
    """cells"""
    MISSING_MARKER = "missing-marker"
    """cells that hold a marker declared to mean "no value" """
    BLANK_LINE = "blank-line"
    COLUMN_IGNORED = "column-ignored"
    """columns that no mapping names"""
    NOT_NAMED = "file-not-named"
    """files beside a mapping that does not name them; not loaded (files)"""
    ROW_WITHOUT_VALUES = "row-without-values"
    """all cells missing: there is nothing to store"""

    # warnings
    REPEATED_ROW = "repeated-row"
    """the time of an earlier row, nothing in contradiction to it"""
    CONFLICTING_ROW = "conflicting-row"
    """the time of an earlier row, other values: the first one in the file is kept"""
    BACKWARD_TIME = "backward-time"
    """a row earlier than the row before; stored in its place all the same"""
    HOLE = "hole"
    """between two rows that are further apart than the timestep"""
    SWAPPED_DATES = "swapped-dates"
    """rows whose day and month seem to have changed places; stored as written"""
    SUSPECTED_MARKER = "suspected-marker"
    """cells with a number that often means "no value", not declared to do so; stored as numbers"""
    AMBIGUOUS_TIME = "ambiguous-time"
    """a local time that the clock showed twice; taken by the order of the rows"""
    ALREADY_DIFFERENT = "already-different"
    """cells whose stored value differs from the file's; kept, or replaced if asked to"""
    TRUNCATED = "truncated-file"
    """compressed data end or break in the middle; what came before is loaded (files)"""
    NO_ROWS = "no-rows"
    """a header alone (files)"""

    # rejected
    UNREADABLE_NUMBER = "unreadable-number"
    """cells"""
    NOT_FINITE = "not-finite"
    """cells: nan, inf, or a number beyond float64"""
    OUT_OF_RANGE = "out-of-range"
    """cells: an integer beyond int64, a text too long, a quality index beyond int16"""
    UNREADABLE_VALUE = "unreadable-value"
    """cells of a boolean column, or quality indices"""
    UNREADABLE_TIME = "unreadable-time"
    IMPOSSIBLE_LOCAL_TIME = "impossible-local-time"
    """a local time that the clock jumped over"""
    WRONG_FIELD_COUNT = "wrong-field-count"
    BAD_QUOTING = "bad-quoting"
    LINE_TOO_LONG = "line-too-long"
    NOT_DECODABLE = "not-decodable"
    """bytes that are not of the file's encoding"""
    NUL = "nul-character"

    # errors
    UNUSABLE = "unusable-file"
    """the message says why: empty, no header, columns missing, unknown procedure, unit in contradiction (files)"""


_REJECTED: Final = frozenset(
    {
        Kind.UNREADABLE_NUMBER, Kind.NOT_FINITE, Kind.OUT_OF_RANGE, Kind.UNREADABLE_VALUE, Kind.UNREADABLE_TIME,
        Kind.IMPOSSIBLE_LOCAL_TIME, Kind.WRONG_FIELD_COUNT, Kind.BAD_QUOTING, Kind.LINE_TOO_LONG,
        Kind.NOT_DECODABLE, Kind.NUL,
    }
)  # fmt: skip
_NOTES: Final = frozenset(
    {
        Kind.ASSUMED, Kind.DECIDED, Kind.EMPTY_FIELD, Kind.MISSING_MARKER, Kind.BLANK_LINE, Kind.COLUMN_IGNORED,
        Kind.NOT_NAMED, Kind.ROW_WITHOUT_VALUES,
    }
)  # fmt: skip


def severity(kind: Kind) -> Severity:
    if kind in _REJECTED:
        return Severity.REJECTED
    if kind in _NOTES:
        return Severity.NOTE
    return Severity.ERROR if kind is Kind.UNUSABLE else Severity.WARNING


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found.

    file              as it was named to the loader
    line, last_line   1-based lines of the (uncompressed) file, both included; 0 where it concerns the file as a whole
    count             rows, cells or files, as the kind says
    column            the column's name in the file, empty for whole rows
    text              what stands there, shortened
    """

    file: str
    kind: Kind
    message: str
    line: int = 0
    last_line: int = 0
    count: int = 1
    column: str = ""
    text: str = ""

    def place(self) -> str:
        """``line 12``, ``lines 12-17`` or an empty text."""
        if not self.line:
            return ""
        return f"line {self.line}" if self.last_line <= self.line else f"lines {self.line}-{self.last_line}"


def printable(text: str) -> str:
    """Text of a file that may be shown: control characters, which terminals obey, are escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


Sink = Callable[[Finding], None]


@dataclass(slots=True)
class FileReport:
    """What became of one file.

    rows             data rows read, whether stored or not (no header, blank or comment lines)
    rows_new         rows that the store did not have before
    values           cells that hold a value and were handed to the store
    values_new       of these, stored now; values_already: stored before with the same value
    values_different stored before with another value: kept, or (``replaced``) replaced
    missing          cells empty or holding a marker
    rejected_rows, rejected_cells
                     not stored because unreadable or impossible
    holes, longest_hole_us
                     distances between stored rows of this file longer than the timestep
    error            why nothing of the file was loaded, or only a part; empty if it was
    """

    file: str
    procedure: str = ""
    feature: str = ""
    size_bytes: int = 0
    rows: int = 0
    rows_new: int = 0
    values: int = 0
    values_new: int = 0
    values_already: int = 0
    values_different: int = 0
    replaced: int = 0
    missing: int = 0
    repeats: int = 0
    conflicts: int = 0
    rejected_rows: int = 0
    rejected_cells: int = 0
    holes: int = 0
    longest_hole_us: int = 0
    first_us: int | None = None
    last_us: int | None = None
    seconds: float = 0.0
    error: str = ""
    counts: Counter[Kind] = field(default_factory=Counter)
    by_column: Counter[tuple[Kind, str]] = field(default_factory=Counter)
    examples: dict[Kind, list[Finding]] = field(default_factory=dict)


@dataclass(slots=True)
class LoadReport:
    """What became of all files, in the order loaded.

    procedures_new  names of procedures registered by this run
    """

    workspace: str
    files: list[FileReport] = field(default_factory=list)
    procedures_new: list[str] = field(default_factory=list)
    dry_run: bool = False
    seconds: float = 0.0

    @property
    def rejected(self) -> bool:
        return any(f.rejected_rows or f.rejected_cells for f in self.files)

    @property
    def failed(self) -> bool:
        return any(f.error for f in self.files)

    def total(self, name: str) -> int:
        """The sum of one of the files' counts."""
        return sum(int(getattr(f, name)) for f in self.files)


class Recorder:
    """Counts findings into a file's report, keeps some as examples and hands all to the sink."""

    def __init__(self, report: FileReport, sink: Sink | None = None) -> None:
        self.report = report
        self._sink = sink

    def add(
        self,
        kind: Kind,
        message: str,
        line: int = 0,
        last_line: int = 0,
        *,
        count: int = 1,
        column: str = "",
        text: str = "",
    ) -> None:
        finding = Finding(
            self.report.file,
            kind,
            printable(message),
            line,
            max(line, last_line),
            count=count,
            column=printable(column),
            text=printable(text if len(text) <= MAX_QUOTED else text[:MAX_QUOTED] + "…"),
        )
        self.report.counts[kind] += count
        if column:
            self.report.by_column[kind, finding.column] += count
        kept = self.report.examples.setdefault(kind, [])
        if len(kept) < MAX_EXAMPLES:
            kept.append(finding)
        if self._sink is not None:
            self._sink(finding)

    def fail(self, message: str, line: int = 0) -> None:
        """The file, or the rest of it, is not loaded."""
        if not self.report.error:
            self.report.error = printable(message)
        self.add(Kind.UNUSABLE, message, line)
