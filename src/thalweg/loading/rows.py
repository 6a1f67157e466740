"""Rows of a delimited file, block by block: fields to instants and typed columns, defects told by line."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from thalweg.domain.blocks import BoolArray, QualityArray, TimeArray, ValueArray, ValueKind
from thalweg.domain.time import format_offset
from thalweg.loading.cells import CellFormat, read_cells, read_qualities
from thalweg.loading.findings import Kind, Recorder
from thalweg.loading.header import Header, read_header
from thalweg.loading.lines import READ_BYTES, LineBlock, read_lines
from thalweg.loading.mapping import ColumnMapping, Format
from thalweg.loading.times import TimeReader
from thalweg.loading.zones import ZoneClock, parse_zone

LineArray = npt.NDArray[np.int64]

FIELD_LIMIT: Final = 131_072
"""Longest field of a station file, characters: Python's own limit."""
BATCH_CELLS: Final = 1 << 20
"""Cells of a batch, times included; 11 bytes each."""

_CELL_MESSAGES: Final = {
    Kind.UNREADABLE_NUMBER: "not a number",
    Kind.NOT_FINITE: "not a finite number",
    Kind.OUT_OF_RANGE: "outside what can be stored",
    Kind.UNREADABLE_VALUE: "not a truth value (true, false, yes, no, 1, 0)",
}


@dataclass(slots=True)
class ColumnValues:
    """One column of a block of rows: values (n,), valid (n,), quality (n,)."""

    values: ValueArray
    valid: BoolArray
    quality: QualityArray


@dataclass(slots=True)
class Rows:
    """Rows in the order of the file, those left out that have no usable time.

    time_us  shape (n,), instants
    wall_us  shape (n,), the clock as written
    lines    shape (n,), 1-based
    columns  in the order of the mapping
    """

    time_us: TimeArray
    wall_us: TimeArray
    lines: LineArray
    columns: list[ColumnValues]

    def __len__(self) -> int:
        return len(self.time_us)


def stretches(lines: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run of consecutive numbers in rising ones."""
    if not lines:
        return
    begin = last = lines[0]
    for line in lines[1:]:
        if line != last + 1:
            yield begin, last
            begin = line
        last = line
    yield begin, last


def batches(blocks: Iterator[Rows]) -> Iterator[Rows]:
    """The same rows in fewer, larger blocks: storing likes long ones, reading short ones."""
    gathered: list[Rows] = []
    cells = 0
    for rows in blocks:
        gathered.append(rows)
        cells += len(rows) * (len(rows.columns) + 1)
        if cells >= BATCH_CELLS:
            yield _joined(gathered)
            gathered, cells = [], 0
    if gathered:
        yield _joined(gathered)


def _joined(parts: Sequence[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    return Rows(
        np.concatenate([part.time_us for part in parts]),
        np.concatenate([part.wall_us for part in parts]),
        np.concatenate([part.lines for part in parts]),
        [
            ColumnValues(
                np.concatenate([column.values for column in columns]),
                np.concatenate([column.valid for column in columns]),
                np.concatenate([column.quality for column in columns]),
            )
            for columns in zip(*(part.columns for part in parts), strict=True)
        ],
    )


class StationFile:
    """One file being read. ``open`` first, then ``blocks`` once.

    advance  called with the bytes of the file that have been read since the last call
    """

    def __init__(
        self,
        path: Path,
        format: Format,
        recorder: Recorder,
        *,
        advance: Callable[[int], None] = lambda _: None,
        read_bytes: int = READ_BYTES,
    ) -> None:
        self._format = format
        self._recorder = recorder
        self._advance = advance
        self._lines = read_lines(path, read_bytes=read_bytes)
        self._first = LineBlock(1)
        self._reader = TimeReader(format.time_format)
        self._clock = ZoneClock(parse_zone(format.zone or "UTC"))
        self._zone_told = False

    def open(self) -> Header:
        """Read the head. Raises Unusable, OSError."""
        for block in self._lines:
            # Of a line that is too long to keep, only its end gives a line.
            block.read_bytes += self._first.read_bytes
            self._first = block
            if block.lines or block.problem:
                break
        self.header = read_header(self._first, self._format)
        for sentence in self.header.found:
            self._recorder.add(Kind.ASSUMED, sentence)
        return self.header

    def use(self, format: Format) -> None:
        """Another format for the rows, known only from the header: the time columns."""
        self._format = format
        self._reader = TimeReader(format.time_format)
        self._clock = ZoneClock(parse_zone(format.zone or "UTC"))

    def check(self, columns: Sequence[ColumnMapping]) -> None:
        """Raises Unusable if a column is missing or there twice."""
        for name in self._format.time:
            self.header.index(name)
        for column in columns:
            self.header.index(column.column)
            if isinstance(column.quality, str):
                self.header.index(column.quality)

    def blocks(self, columns: Sequence[ColumnMapping]) -> Iterator[Rows]:
        """All rows. Raises Unusable if a column is missing."""
        header = self.header
        self._times = [header.index(name) for name in self._format.time] or [0]
        self._columns = [(column, header.index(column.column)) for column in columns]
        self._qualities = [
            header.index(column.quality) if isinstance(column.quality, str) else -1 for column in columns
        ]
        self._formats = [
            CellFormat(
                column.kind,
                frozenset(self._format.missing if column.missing is None else column.missing),
                header.decimal == ",",
            )
            for column in columns
        ]
        self._note_ignored()
        block: LineBlock | None = self._first
        self._first = LineBlock(1)
        any_rows = False
        while block is not None:
            self._advance(block.read_bytes)
            rows = self._rows(block)
            if rows is not None:
                any_rows = True
                yield rows
            if block.problem:
                self._recorder.add(
                    Kind.TRUNCATED, f"{block.problem}; what comes before is loaded", block.first + len(block.lines)
                )
            block = next(self._lines, None)
        if not any_rows and not self._recorder.report.rows:
            self._recorder.add(Kind.NO_ROWS, "the file has a header and no rows")

    def _note_ignored(self) -> None:
        used = {index for _, index in self._columns} | set(self._times) | set(self._qualities)
        for index, name in enumerate(self.header.names):
            if index not in used and name:
                self._recorder.add(Kind.COLUMN_IGNORED, f"no mapping names the column '{name}'", column=name)

    # -- lines to fields

    def _rows(self, block: LineBlock) -> Rows | None:
        records, numbers = self._records(block)
        if not records:
            return None
        report = self._recorder.report
        report.rows += len(records)
        width = len(self.header.names)
        if set(map(len, records)) != {width}:
            records, numbers = self._of_width(records, numbers, width)
            if not records:
                return None
        fields = list(zip(*records, strict=True))
        return self._typed(fields, np.array(numbers, np.int64))

    def _records(self, block: LineBlock) -> tuple[list[list[str]], Sequence[int]]:
        """Fields of the block's rows and the lines they stand in."""
        skip = max(0, self.header.first_row - block.first)
        lines = block.lines[skip:]
        first = block.first + skip
        if not lines:
            return [], []
        texts, numbers = self._texts(lines, first)
        try:
            # Others in this process may have raised it: the limit is the process's.
            csv.field_size_limit(FIELD_LIMIT)
            records = list(csv.reader(texts, delimiter=self.header.delimiter, strict=True))
        except csv.Error:
            records = []
        if len(records) != len(texts):
            # A quote that does not close would take the lines after it along: part line from line.
            return self._records_by_line(texts, numbers)
        return records, numbers

    def _texts(self, lines: list[bytes | None], first: int) -> tuple[list[str], Sequence[int]]:
        """The lines as text, without blank ones, comments and those that cannot be read."""
        numbers: Sequence[int] = range(first, first + len(lines))
        if None not in lines:
            joined = b"\n".join(lines)  # type: ignore[arg-type]  # none is None
            if b"\0" not in joined:
                try:
                    texts = joined.decode(self._format.encoding).split("\n")
                except UnicodeDecodeError:
                    pass
                else:
                    if all(texts) and not self._format.comment:
                        return texts, numbers
        texts, kept, blank = [], [], []
        for number, line in zip(numbers, lines, strict=True):
            if line is not None and not line.strip():
                blank.append(number)
                continue
            text = self._text(line, number)
            if text is not None:
                texts.append(text)
                kept.append(number)
        for begin, end in stretches(blank):
            self._recorder.add(Kind.BLANK_LINE, "blank", begin, end, count=end - begin + 1)
        return texts, kept

    def _text(self, line: bytes | None, number: int) -> str | None:
        recorder, report = self._recorder, self._recorder.report
        if line is not None and self._format.comment and line.lstrip().startswith(self._format.comment.encode()):
            return None
        if line is None:
            kind, message, shown = Kind.LINE_TOO_LONG, "the line is longer than 1 MiB", ""
        elif b"\0" in line:
            kind, message = Kind.NUL, "the line holds NUL characters"
            shown = line.decode("latin-1").replace("\0", "␀")
        else:
            try:
                return line.decode(self._format.encoding)
            except UnicodeDecodeError as error:
                kind = Kind.NOT_DECODABLE
                message = f"byte {error.start + 1} of the line is not {self._format.encoding}"
                shown = line.decode(self._format.encoding, "backslashreplace")
        report.rows += 1
        report.rejected_rows += 1
        recorder.add(kind, message, number, text=shown)
        return None

    def _records_by_line(self, texts: Sequence[str], numbers: Sequence[int]) -> tuple[list[list[str]], list[int]]:
        records: list[list[str]] = []
        kept: list[int] = []
        for text, number in zip(texts, numbers, strict=True):
            try:
                csv.field_size_limit(FIELD_LIMIT)
                record = next(csv.reader([text], delimiter=self.header.delimiter, strict=True), [])
            except csv.Error as error:
                self._recorder.report.rows += 1
                self._recorder.report.rejected_rows += 1
                self._recorder.add(Kind.BAD_QUOTING, f"the fields cannot be parted: {error}", number, text=text)
            else:
                records.append(record)
                kept.append(number)
        return records, kept

    def _of_width(
        self, records: list[list[str]], numbers: Sequence[int], width: int
    ) -> tuple[list[list[str]], list[int]]:
        right: list[list[str]] = []
        kept: list[int] = []
        report = self._recorder.report
        for record, number in zip(records, numbers, strict=True):
            if len(record) == width or (len(record) > width and not any(map(str.strip, record[width:]))):
                # Some programs end each row, but not the header, with a delimiter.
                right.append(record[:width])
                kept.append(number)
            elif not any(field.strip() for field in record):
                report.rows -= 1
                self._recorder.add(Kind.BLANK_LINE, "line without any field filled", number)
            else:
                report.rejected_rows += 1
                self._recorder.add(
                    Kind.WRONG_FIELD_COUNT,
                    f"{len(record)} fields where the header has {width}",
                    number,
                    text=self.header.delimiter.join(record),
                )
        return right, kept

    # -- fields to values

    def _typed(self, fields: list[tuple[str, ...]], numbers: LineArray) -> Rows:
        texts = fields[self._times[0]]
        if len(self._times) > 1:
            texts = tuple(map(" ".join, zip(*(fields[index] for index in self._times), strict=True)))
        times = self._reader.read(texts)
        instants = self._clock.instants(times)
        ok = times.ok & instants.ok
        self._drop_blank(fields, numbers, times.problems)
        self._tell_times(texts, numbers, times.problems, instants)
        keep: npt.NDArray[np.int64] | None = None
        if not ok.all():
            keep = np.flatnonzero(ok)
            self._recorder.report.rejected_rows += (
                len(times.problems) + len(instants.outside) + len(instants.impossible)
            )
            numbers = numbers[keep]
        columns = []
        for (column, place), quality, format in zip(self._columns, self._qualities, self._formats, strict=True):
            cells = fields[place] if keep is None else [fields[place][index] for index in keep.tolist()]
            codes: Sequence[str] | int = column.quality if isinstance(column.quality, int) else 0
            if quality >= 0:
                codes = fields[quality] if keep is None else [fields[quality][index] for index in keep.tolist()]
            columns.append(self._column(column, cells, codes, format, numbers))
        return Rows(
            instants.us if keep is None else instants.us[keep],
            times.wall_us if keep is None else times.wall_us[keep],
            numbers,
            columns,
        )

    def _drop_blank(self, fields: list[tuple[str, ...]], numbers: LineArray, problems: dict[int, str]) -> None:
        """Rows without any field filled, as spreadsheets write them after the last one, are no rows."""
        for index in list(problems):
            if not any(column[index].strip() for column in fields):
                del problems[index]
                self._recorder.report.rows -= 1
                self._recorder.add(Kind.BLANK_LINE, "line without any field filled", int(numbers[index]))

    def _tell_times(self, texts: Sequence[str], numbers: LineArray, problems: dict[int, str], instants: Any) -> None:
        recorder = self._recorder
        for index, message in problems.items():
            recorder.add(Kind.UNREADABLE_TIME, message, int(numbers[index]), text=texts[index])
        for index in instants.outside:
            recorder.add(
                Kind.UNREADABLE_TIME, "outside the years 0001 to 9999 (UTC)", int(numbers[index]), text=texts[index]
            )
        for index in instants.impossible:
            recorder.add(
                Kind.IMPOSSIBLE_LOCAL_TIME,
                f"the clock of {self._format.zone} jumped over this time; if the station's clock is not changed in "
                "summer, give its fixed offset",
                int(numbers[index]),
                text=texts[index],
            )
        for index, offset in instants.ambiguous.items():
            recorder.add(
                Kind.AMBIGUOUS_TIME,
                f"the clock of {self._format.zone} showed this time twice; taken as {format_offset(offset)}",
                int(numbers[index]),
                text=texts[index],
            )
        if instants.unzoned and self._format.zone is None and not self._zone_told:
            self._zone_told = True
            recorder.add(Kind.ASSUMED, "times do not say their zone; UTC is assumed", int(numbers[0]), text=texts[0])

    def _column(
        self,
        column: ColumnMapping,
        cells: Sequence[str],
        codes: Sequence[str] | int,
        format: CellFormat,
        numbers: LineArray,
    ) -> ColumnValues:
        read = read_cells(cells, format)
        report = self._recorder.report
        report.missing += len(read.empty) + len(read.marked)
        report.rejected_cells += len(read.rejected)
        self._tell_cells(Kind.EMPTY_FIELD, "no value", read.empty, cells, numbers, column)
        self._tell_cells(Kind.MISSING_MARKER, "marked as missing", read.marked, cells, numbers, column)
        self._tell_cells(
            Kind.SUSPECTED_MARKER,
            "this number often means that there is no value; if so, declare it as missing",
            read.suspected, cells, numbers, column,
        )  # fmt: skip
        for kind in _CELL_MESSAGES:
            rejected = [index for index, found in read.rejected if found is kind]
            message = f"{_CELL_MESSAGES[kind]}; if it means that there is no value, declare it as missing"
            self._tell_cells(kind, message, rejected, cells, numbers, column)
        if isinstance(codes, int):
            quality = np.full(len(cells), codes, np.int16)
        else:
            quality, bad = read_qualities(codes, 100)
            bad = [index for index in bad if read.valid[index]]
            if bad:
                # A value whose quality is unknown is not passed off as raw.
                read.valid[bad] = False
                report.rejected_cells += len(bad)
                self._tell_cells(
                    Kind.UNREADABLE_VALUE, "the quality index is not a whole number of 16 bits",
                    bad, codes, numbers, column,
                )  # fmt: skip
                if column.kind is ValueKind.NUMBER:
                    read.values[bad] = np.nan
        return ColumnValues(read.values, read.valid, quality)

    def _tell_cells(
        self,
        kind: Kind,
        message: str,
        indices: Sequence[int],
        cells: Sequence[str],
        numbers: LineArray,
        column: ColumnMapping,
    ) -> None:
        """One finding for each stretch of consecutive lines with the same text."""
        if not indices:
            return
        lines = numbers[np.array(indices)].tolist()
        start = 0
        for position in range(1, len(indices) + 1):
            if (
                position < len(indices)
                and lines[position] == lines[position - 1] + 1
                and cells[indices[position]] == cells[indices[start]]
            ):
                continue
            self._recorder.add(
                kind,
                message,
                lines[start],
                lines[position - 1],
                count=position - start,
                column=column.column,
                text=cells[indices[start]],
            )
            start = position
