"""Lines of CSV (RFC 4180) that every reader takes for as many lines."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from _csv import Writer

_QUOTED_END: Final = "\r\n"
"""The module csv quotes, beside the delimiter and the quote, the signs that its lines end with; readers take each of
these two for an end, whatever the others are."""


class Stream(Protocol):
    """What lines are written to."""

    def write(self, text: str, /) -> object: ...


class _OtherEnd:
    """Gives lines on with the end that is wanted."""

    def __init__(self, stream: Stream, end: str) -> None:
        self._write = stream.write
        self._end = end

    def write(self, line: str) -> None:
        self._write(line[: -len(_QUOTED_END)] + self._end)


def csv_writer(stream: Stream, *, delimiter: str = ",", end: str = "\n") -> Writer:
    """A writer of the module csv; a cell with a carriage return alone is quoted, too.

    stream  a file is to be opened with ``newline=""``
    end     of a line
    """
    return csv.writer(_OtherEnd(stream, end), delimiter=delimiter, lineterminator=_QUOTED_END)
