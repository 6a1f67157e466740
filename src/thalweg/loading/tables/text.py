"""CSV and TSV: encoding, delimiter and header are found out unless they are said."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from thalweg.domain.errors import InvalidParameter, InvalidRequest, TooLarge
from thalweg.domain.tables import MAX_FIELDS
from thalweg.loading.tables.source import BLOCK_ROWS, ReadOptions, Shape, field_names

MAX_CELL: Final = 10_000_000
"""Longest cell of a file of text, characters: a quote that is never closed is not read to the end of the file."""
MAX_UNPACKED_BYTES: Final = 64 << 30
"""Longest text of a gzip file."""
DELIMITERS: Final = (",", ";", "\t", "|")
SAMPLE_BYTES: Final = 256 << 10
SAMPLE_ROWS: Final = 200
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
_VALUE: Final = re.compile(
    r"\s*[+-]?(?:[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?\s*|\s*[0-9]{4}-[0-9]{2}-[0-9]{2}.*"
)
"""A cell that is a number or an instant, which the name of a column is not."""


class TextSource:
    """A file of delimited rows."""

    def __init__(self, path: Path, options: ReadOptions, format: str) -> None:
        self._path = path
        self.shape = Shape(format, [], [], texts=True)
        notes = self.shape.notes
        self.shape.encoding = options.encoding or self._found_encoding(notes)
        try:
            codecs.lookup(self.shape.encoding)
        except LookupError:
            raise InvalidParameter("encoding", f"The encoding {self.shape.encoding[:100]!r} is not known.") from None
        delimiter = options.delimiter or ("\t" if format == "tsv" else self._found_delimiter())
        if delimiter not in DELIMITERS:
            raise InvalidParameter("delimiter", "A delimiter is one of , ; | and tab.")
        self.shape.delimiter = delimiter
        sample = list(islice((row for _, row in self._rows()), SAMPLE_ROWS))
        if not sample:
            raise InvalidRequest("The file has no rows.")
        first = sample[0]
        header = options.header
        if header is None:
            # Years are names, too: a row of values alone is none of names.
            header = any(cell.strip() and not _VALUE.fullmatch(cell) for cell in first)
            if not header:
                notes.append("the first row holds values, so that columns have numbers for names")
        self.shape.header = header
        width = max(map(len, sample[1:] or sample)) if not header else len(first)
        if header:
            # Names end where the last one does: rows often end in a delimiter.
            while (
                width > 1 and not first[width - 1].strip() and all(len(r) < width or not r[width - 1] for r in sample)
            ):
                width -= 1
        if width > MAX_FIELDS:
            raise TooLarge(f"The file has {width:,} columns; a table has at most {MAX_FIELDS:,}.")
        self._width = width
        given = first[:width] if header else [f"column_{place}" for place in range(1, width + 1)]
        self.shape.names = field_names(given, notes)
        self.shape.types = [None] * width

    # -------------------------------------------------------------- reading

    def _open(self) -> io.BufferedReader:
        stream = self._path.open("rb")
        if stream.peek(2)[:2] == b"\x1f\x8b":
            return io.BufferedReader(_Unpacked(stream), 1 << 20)
        return stream

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Rows that are not empty, with the number of their last line."""
        csv.field_size_limit(MAX_CELL)
        with self._open() as stream:
            text = io.TextIOWrapper(stream, self.shape.encoding, newline="")
            reader = csv.reader(text, delimiter=self.shape.delimiter, strict=True)
            try:
                for row in reader:
                    if row:
                        yield reader.line_num, row
            except UnicodeError as error:
                raise InvalidRequest(
                    f"After line {reader.line_num:,} the file is not {self.shape.encoding}: {error}"
                ) from None
            except csv.Error as error:
                raise InvalidRequest(f"Line {reader.line_num + 1:,} is not CSV: {error}.") from None

    def blocks(self) -> Iterator[tuple[list[Sequence[Any]], int]]:
        csv.field_size_limit(MAX_CELL)
        width = self._width
        with self._open() as stream:
            text = io.TextIOWrapper(stream, self.shape.encoding, newline="")
            reader = csv.reader(text, delimiter=self.shape.delimiter, strict=True)
            done = 0
            try:
                if self.shape.header:
                    for row in reader:
                        if row:
                            break
                while rows := list(islice(reader, BLOCK_ROWS)):
                    if set(map(len, rows)) != {width}:
                        rows = self._mended(rows, done)
                    done += len(rows)
                    if rows:
                        yield list(zip(*rows, strict=True)), _told(stream)
            except UnicodeError as error:
                raise InvalidRequest(
                    f"After line {reader.line_num:,} the file is not {self.shape.encoding}: {error}"
                ) from None
            except csv.Error as error:
                raise InvalidRequest(f"Line {reader.line_num + 1:,} is not CSV: {error}.") from None

    def _mended(self, rows: list[list[str]], done: int) -> list[list[str]]:
        """Without empty lines; short rows filled up; empty cells beyond the last column left out."""
        width = self._width
        mended: list[list[str]] = []
        for row in rows:
            if len(row) == width:
                mended.append(row)
            elif len(row) < width:
                if row:
                    mended.append(row + [""] * (width - len(row)))
                    if len(row) > 1 or row[0]:
                        self._note_short(done + len(mended) - 1)
            elif any(row[width:]):
                place = self.place(done + len(mended))
                raise InvalidRequest(f"There are {len(row):,} cells in {place}, and {width:,} columns.")
            else:
                mended.append(row[:width])
        return mended

    def _note_short(self, row: int) -> None:
        note = "some rows are shorter than the header; what they lack is empty"
        if not any(known.startswith(note) for known in self.shape.notes):
            self.shape.notes.append(f"{note} (the first is row {row + 1:,})")

    def place(self, row: int) -> str:
        rows = self._rows()
        try:
            line, _ = next(islice(rows, row + int(self.shape.header), None), (0, []))
        except InvalidRequest:
            line = 0
        return f"line {line:,}" if line else f"row {row + 1:,}"

    # -------------------------------------------------------------- finding out

    def _found_encoding(self, notes: list[str]) -> str:
        with self._open() as stream:
            start = stream.read(4)
            for mark, name in _MARKS:
                if start.startswith(mark):
                    return name
            decoder = codecs.getincrementaldecoder("utf-8")("strict")
            seen = start
            try:
                decoder.decode(start)
                while data := stream.read(1 << 20):
                    seen = data
                    decoder.decode(data)
                decoder.decode(b"", True)
                return "utf-8"
            except UnicodeDecodeError as error:
                # With what could not be read in the middle of it.
                sample = seen[max(0, error.start - SAMPLE_BYTES // 2) :][:SAMPLE_BYTES]
        # Of single-byte encodings statistics find what is likely; Western European is what most such files are.
        from charset_normalizer import from_bytes

        best = from_bytes(sample).best()
        name = "windows-1252" if best is None or best.encoding in ("ascii", "utf_8") else best.encoding
        if best is not None and name != "windows-1252" and _same(sample, name, "windows-1252"):
            name = "windows-1252"
        notes.append(f"the file is not UTF-8 and was read as {name}")
        return name

    def _found_delimiter(self) -> str:
        """The one that makes most columns of the same number in most rows."""
        with self._open() as stream:
            sample = stream.read(SAMPLE_BYTES)
        text = sample.decode("utf-8-sig" if self.shape.encoding == "utf-8-sig" else self.shape.encoding, "ignore")
        best = (0.0, 0, ",")
        for delimiter in DELIMITERS:
            try:
                rows = [
                    r for r in islice(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), SAMPLE_ROWS) if r
                ]
            except csv.Error:
                continue
            # The last row may be cut off.
            widths = [len(row) for row in (rows[:-1] or rows)]
            if not widths:
                continue
            width = max(set(widths), key=widths.count)
            if width > 1:
                best = max(best, (round(widths.count(width) / len(widths), 1), width, delimiter))
        return best[2]


def _same(sample: bytes, one: str, other: str) -> bool:
    try:
        return sample.decode(one) == sample.decode(other)
    except UnicodeDecodeError:
        return False


def _told(stream: io.BufferedReader) -> int:
    """Bytes of the file read, the compressed ones of a compressed file."""
    raw = stream.raw
    return raw.packed if isinstance(raw, _Unpacked) else stream.tell()


class _Unpacked(io.RawIOBase):
    """What a gzip file holds; longer than any file that is loaded it ends with an error."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream = stream
        self._gzip = gzip.GzipFile(fileobj=stream)
        self._total = 0

    @property
    def packed(self) -> int:
        return self._stream.tell()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._gzip.read(len(buffer))
        except (EOFError, OSError, zlib.error) as error:
            raise InvalidRequest(f"The compressed file is cut off or damaged: {error}.") from None
        self._total += len(data)
        if self._total > MAX_UNPACKED_BYTES:
            raise TooLarge(f"The file unpacks to more than {MAX_UNPACKED_BYTES >> 30} GiB.")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._gzip.close()
        self._stream.close()
        super().close()
