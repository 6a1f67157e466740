"""XLSX and other workbooks, read by calamine: one sheet, whose first row that is not empty is the header, if it is
names. Cells with errors, and formulas that were never computed, are empty."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from thalweg.domain.errors import InvalidRequest, NotFound, TooLarge
from thalweg.domain.tables import MAX_FIELDS
from thalweg.loading.tables.source import BLOCK_ROWS, NO_HEADER, ReadOptions, Shape, field_names, has_header

MAX_SHEET_BYTES: Final = 256 << 20
"""Most bytes that a workbook may unpack to: it is held in memory."""
SAMPLE_ROWS: Final = 200
"""Rows by which it is seen whether the first is names."""


class SheetSource:
    """See the module."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        import python_calamine as calamine

        self.shape = Shape("xlsx", [], [], header=True)
        self._size = path.stat().st_size
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                unpacked = sum(item.file_size for item in archive.infolist())
            if unpacked > MAX_SHEET_BYTES:
                raise TooLarge(f"The workbook unpacks to more than {MAX_SHEET_BYTES >> 20} MiB.")
        elif self._size > MAX_SHEET_BYTES:
            raise TooLarge(f"The workbook is larger than {MAX_SHEET_BYTES >> 20} MiB.")
        try:
            book = calamine.CalamineWorkbook.from_path(str(path))
            names = book.sheet_names
            if options.sheet and options.sheet not in names:
                raise NotFound(
                    "sheet", f"The workbook has no sheet {options.sheet[:100]!r}; it has {', '.join(names)}."
                )
            # Those that are shown first, as who opens the workbook sees them.
            shown = [
                item.name
                for item in book.sheets_metadata
                if item.visible == calamine.SheetVisibleEnum.Visible and item.typ == calamine.SheetTypeEnum.WorkSheet
            ]
            rows: list[list[Any]] = []
            for name in [options.sheet] if options.sheet else shown or names:
                read = book.get_sheet_by_name(name).to_python(skip_empty_area=True)
                rows = [row for row in read if any(cell != "" for cell in row)]
                if rows:
                    break
        except (calamine.CalamineError, OSError) as error:
            raise InvalidRequest(f"The workbook cannot be read: {str(error)[:200].rstrip('.')}.") from None
        if not rows:
            raise InvalidRequest(
                f"The sheet {options.sheet!r} is empty." if options.sheet else "The workbook is empty."
            )
        if len(names) > 1 and not options.sheet:
            self.shape.notes.append(f"of {len(names)} sheets {name!r} was read, the first that is shown and not empty")
        first = rows[0]
        header = options.header
        if header is None:
            sample = [["" if cell == "" else str(_plain(cell)) for cell in row] for row in rows[:SAMPLE_ROWS]]
            header = all(isinstance(cell, str) for cell in first) or has_header(sample)
            if not header:
                self.shape.notes.append(NO_HEADER)
        self.shape.header = header
        width = max(map(len, rows))
        if width > MAX_FIELDS:
            raise TooLarge(f"The sheet has {width:,} columns; a table has at most {MAX_FIELDS:,}.")
        given = first if header else [f"column_{place}" for place in range(1, width + 1)]
        self.shape.names = field_names([_plain(cell) for cell in given], self.shape.notes)
        self.shape.types = [None] * len(self.shape.names)
        self._rows = rows[1:] if header else rows

    def blocks(self) -> Iterator[tuple[list[Sequence[Any]], int]]:
        for start in range(0, len(self._rows), BLOCK_ROWS):
            block = self._rows[start : start + BLOCK_ROWS]
            yield [[_plain(cell) for cell in column] for column in zip(*block, strict=True)], self._size

    def place(self, row: int) -> str:
        return f"row {row + 1 + int(self.shape.header):,} of those that are not empty"


def _plain(cell: Any) -> Any:
    """A cell as JSON would give it: workbooks have no integers, and an empty cell is none."""
    if cell == "":
        return None
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1 << 53:
        return int(cell)
    if isinstance(cell, datetime.datetime):
        return cell.isoformat()
    if isinstance(cell, datetime.date | datetime.time):
        return cell.isoformat()
    if isinstance(cell, datetime.timedelta):
        return cell.total_seconds()
    return cell
