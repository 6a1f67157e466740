"""CSV and TSV: encoding, delimiter and header are found out unless they are said."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final

from thalweg.domain.errors import InvalidParameter, InvalidRequest, TooLarge
from thalweg.domain.tables import MAX_FIELDS
from thalweg.loading.tables.source import (
    BLOCK_ROWS,
    NO_HEADER,
    ReadOptions,
    Shape,
    check_ratio,
    field_names,
    has_header,
)

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
_SEPARATOR: Final = re.compile(r"sep=([,;\t|])\r?\n?")
"""The first line by which Excel is told what parts the cells."""
_LETTER: Final = r"[^\W\d_]"
_ODD: Final = re.compile(rf"(?<={_LETTER})(?:[^\w\s\x00-\x7f’–—…·\xad]|[²³¹])(?={_LETTER})")
"""A sign where a letter is likely."""
_LATIN: Final = ("windows-1252", "windows-1250", "cp850")
"""Single-byte encodings of Latin script, the usual ones first."""
_RUN: Final = re.compile(rb"[\x80-\xff]+")


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
        self._lines_before = 0
        delimiter = (
            options.delimiter or self._said_delimiter() or ("\t" if format == "tsv" else self._found_delimiter())
        )
        if delimiter not in DELIMITERS:
            raise InvalidParameter("delimiter", "A delimiter is one of , ; | and tab.")
        self.shape.delimiter = delimiter
        sample = list(islice((row for _, row in self._rows()), SAMPLE_ROWS))
        if not sample:
            raise InvalidRequest("The file has no rows.")
        first = sample[0]
        header = options.header
        if header is None:
            header = has_header(sample)
            if not header:
                notes.append(NO_HEADER)
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

    @contextmanager
    def _reader(self) -> Iterator[tuple[Any, io.BufferedReader]]:
        """A reader of rows, and what it reads; its errors are told as those of the file."""
        csv.field_size_limit(MAX_CELL)
        with self._open() as stream:
            text = io.TextIOWrapper(stream, self.shape.encoding, newline="")
            for _ in range(self._lines_before):
                text.readline()
            reader = csv.reader(text, delimiter=self.shape.delimiter, strict=True)
            try:
                yield reader, stream
            except UnicodeError as error:
                raise InvalidRequest(
                    f"After line {self._line(reader):,} the file is not {self.shape.encoding}: {error}"
                ) from None
            except csv.Error as error:
                raise InvalidRequest(f"Line {self._line(reader):,} is not CSV: {error}.") from None

    def _line(self, reader: Any) -> int:
        return self._lines_before + int(reader.line_num)

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Rows that are not empty, with the number of their last line."""
        with self._reader() as (reader, _):
            for row in reader:
                if row:
                    yield self._line(reader), row

    def blocks(self) -> Iterator[tuple[list[Sequence[Any]], int]]:
        width = self._width
        with self._reader() as (reader, stream):
            done = 0
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
            start = stream.read(1 << 20)
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
        name = _single_byte(sample)
        notes.append(f"the file is not UTF-8 and was read as {name}")
        return name

    def _said_delimiter(self) -> str:
        """What a first line for Excel says, which is then none of the rows; empty: there is none."""
        with self._open() as stream:
            text = stream.read(64).decode(self.shape.encoding, "ignore")
        found = _SEPARATOR.match(text)
        if found is None:
            return ""
        self._lines_before = 1
        return found[1]

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


def _single_byte(sample: bytes) -> str:
    """The encoding of a text that is not UTF-8. Letters of Latin script beyond ASCII stand alone between others: of the
    encodings that have them the one with fewest signs within words counts. Statistics tell the other scripts."""
    runs = _RUN.findall(sample)
    if runs and sum(map(len, runs)) < 2 * len(runs):
        wrong: dict[str, int] = {}
        for name in _LATIN:
            with suppress(UnicodeDecodeError):
                wrong[name] = len(_ODD.findall(sample.decode(name)))
        if wrong:
            return min(wrong, key=lambda name: wrong[name])
    from charset_normalizer import from_bytes

    best = from_bytes(sample).best()
    return "windows-1252" if best is None or best.encoding in ("ascii", "utf_8") else best.encoding


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
        check_ratio(self._total, self._stream.tell())
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._gzip.close()
        self._stream.close()
        super().close()
