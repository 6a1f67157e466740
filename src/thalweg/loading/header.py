"""The head of a file: its delimiter, decimal mark and columns, given or found out."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from thalweg.domain.errors import InvalidParameter
from thalweg.loading.lines import LineBlock
from thalweg.loading.mapping import DELIMITERS, Format
from thalweg.loading.times import TimeReader

SAMPLE_LINES: Final = 50
MAX_COLUMNS: Final = 4096

_BOM: Final = b"\xef\xbb\xbf"
_WIDE_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")
_SEPARATOR_LINE: Final = re.compile(r"sep=([,;\t|])", re.IGNORECASE)
_COMMA_NUMBER: Final = re.compile(r"\s*[+-]?\d+,\d+\s*", re.ASCII)
_POINT_NUMBER: Final = re.compile(r"\s*[+-]?\d*\.\d+\s*", re.ASCII)


class Unusable(Exception):
    """The file cannot be loaded; the message says why and what would help."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass(slots=True)
class Header:
    """What the first lines say.

    names      columns in order, without surrounding blanks; numbers from 1 where there is no header
    first_row  1-based line where rows may begin
    found      what was found out rather than given, as sentences
    """

    names: list[str]
    delimiter: str
    decimal: str
    first_row: int
    found: list[str] = field(default_factory=list)

    def index(self, column: str) -> int:
        """Place of a column. Raises Unusable where it is missing or there twice."""
        places = [index for index, name in enumerate(self.names) if name == column]
        if not places:
            known = ", ".join(f"'{name}'" for name in self.names[:30])
            raise Unusable(f"there is no column '{column}'; the columns are {known}")
        if len(places) > 1:
            raise Unusable(f"the column '{column}' is there {len(places)} times")
        return places[0]


def read_header(block: LineBlock, format: Format) -> Header:
    """Find out how a file is laid out from its first block of lines. Raises Unusable."""
    lines = block.lines
    if not lines:
        raise Unusable(block.problem or "the file is empty")
    if lines[0] is not None and lines[0].startswith(_WIDE_BOMS):
        raise Unusable("the file is UTF-16; convert it to UTF-8")
    found: list[str] = []
    place = max(format.header - 1, 0)
    delimiter = format.delimiter
    if lines[0] is not None:
        lines[0] = lines[0].removeprefix(_BOM)
        match = _SEPARATOR_LINE.fullmatch(lines[0].decode("latin-1"))
        if match is not None and format.header == 1:
            delimiter = delimiter or match[1]
            place = 1
    place = _skip(lines, place, format.comment)
    if place >= len(lines):
        raise Unusable("the file has no header line" if format.header else "the file has no rows")
    text = _decode(lines[place], format.encoding, place + 1)
    sample = _sample(lines, place + (1 if format.header else 0) + format.skip_after_header, format)
    if delimiter is None:
        delimiter = _delimiter(text, sample)
        if delimiter != ",":
            found.append(f"the delimiter is taken to be {'a tab' if delimiter == chr(9) else repr(delimiter)}")
    decimal = format.decimal
    if decimal is None:
        decimal = _decimal(sample, delimiter)
        if decimal == ",":
            found.append("the decimal mark is taken to be a comma")
    cells = _cells(text, delimiter)
    if cells is None or not any(cell.strip() for cell in cells):
        raise Unusable("the header line cannot be read: quotes do not match", place + 1)
    if len(cells) > MAX_COLUMNS:
        raise Unusable(f"the header has {len(cells)} columns; at most {MAX_COLUMNS} can be read", place + 1)
    if not format.header:
        names = [str(number) for number in range(1, len(cells) + 1)]
        return Header(names, delimiter, decimal, place + 1 + format.skip_after_header, found)
    names = [cell.strip() for cell in cells]
    _check_is_header(names, format, place + 1)
    return Header(names, delimiter, decimal, place + 2 + format.skip_after_header, found)


def _skip(lines: Sequence[bytes | None], place: int, comment: str) -> int:
    """The first line from ``place`` that is neither blank nor a comment."""
    mark = comment.encode() if comment else None
    while place < len(lines):
        line = lines[place]
        if line is None or (line.strip() and (mark is None or not line.lstrip().startswith(mark))):
            break
        place += 1
    return place


def _decode(line: bytes | None, encoding: str, number: int) -> str:
    if line is None:
        raise Unusable("the header line is too long", number)
    if b"\0" in line:
        raise Unusable("the header line holds NUL characters; this is not a text file", number)
    try:
        return line.decode(encoding)
    except UnicodeDecodeError:
        raise Unusable(
            f"the header line is not {encoding}; give the file's encoding (encoding, --encoding), for example latin-1",
            number,
        ) from None


def _sample(lines: Sequence[bytes | None], start: int, format: Format) -> list[str]:
    return [
        line.decode(format.encoding, "replace")
        for line in lines[start : start + SAMPLE_LINES]
        if line is not None and line.strip() and not (format.comment and line.startswith(format.comment.encode()))
    ]


def _cells(text: str, delimiter: str) -> list[str] | None:
    try:
        return next(csv.reader([text], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return None


def _delimiter(header: str, sample: Sequence[str]) -> str:
    """The one that parts header and rows into the same number of fields, more rather than fewer."""
    best, best_score = ",", (0, 0)
    for delimiter in DELIMITERS:
        cells = _cells(header, delimiter)
        if cells is None or len(cells) < 2:
            continue
        agreeing = sum(len(_cells(line, delimiter) or ()) == len(cells) for line in sample)
        if (agreeing, len(cells)) > best_score:
            best, best_score = delimiter, (agreeing, len(cells))
    return best


def _decimal(sample: Sequence[str], delimiter: str) -> str:
    if delimiter == ",":
        return "."
    cells = [cell for line in sample for cell in (_cells(line, delimiter) or ())]
    commas = sum(_COMMA_NUMBER.fullmatch(cell) is not None for cell in cells)
    points = sum(_POINT_NUMBER.fullmatch(cell) is not None for cell in cells)
    return "," if commas and not points else "."


def _check_is_header(names: Sequence[str], format: Format, line: int) -> None:
    """A first line that begins with a time is a row: the header is missing."""
    if format.time and any(column in names for column in format.time):
        return
    try:
        TimeReader(format.time_format).read_one(names[0])
    except InvalidParameter:
        return
    raise Unusable(
        "there is no header: the first line is a row already; give header = 0 and name the columns by their numbers",
        line,
    )
