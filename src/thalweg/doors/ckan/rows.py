"""Rows of cells as answers hold them: objects, lists, and lines of CSV or TSV."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import orjson

from thalweg.domain.csv_lines import csv_writer
from thalweg.domain.table_columns import column_encoder, column_texts, number_texts
from thalweg.domain.table_values import FieldType, as_text, encoder_of
from thalweg.domain.tables import ROW_ID, Field, Table

RANK = "rank"


class RowWriter:
    """Writes rows of the given columns of a table. ``names``: what they are called, where it is not as they are."""

    def __init__(self, table: Table, columns: Sequence[str], names: Sequence[str] | None = None) -> None:
        self.columns = tuple(names or columns)
        self._fields: list[Field | None] = [table.field(name) for name in columns]
        self._encoders: list[tuple[int, Callable[[Any], Any]]] = []
        for place, field in enumerate(self._fields):
            encoder = None if field is None else encoder_of(field.kind, field.is_array)
            if encoder is not None:
                self._encoders.append((place, encoder))
        self._column_encoders = [
            None if field is None else column_encoder(field.kind, field.is_array) for field in self._fields
        ]
        self._named = [(self.columns[place], encoder) for place, encoder in self._encoders]

    @property
    def fields(self) -> list[dict[str, Any]]:
        """What answers say of the columns."""
        described: list[dict[str, Any]] = []
        for name, field in zip(self.columns, self._fields, strict=True):
            if field is None:
                described.append({"id": name, "type": "int" if name == ROW_ID else "float"})
            else:
                described.append(describe(field))
        return described

    def lists(self, rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Rows that orjson can write."""
        encoders = self._encoders
        written = [list(row) for row in rows]
        if encoders:
            for row in written:
                for place, encode in encoders:
                    if row[place] is not None:
                        row[place] = encode(row[place])
        return written

    def objects(self, rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
        columns = self.columns
        written = [dict(zip(columns, row, strict=True)) for row in rows]
        for name, encode in self._named:
            for record in written:
                cell = record[name]
                if cell is not None:
                    record[name] = encode(cell)
        return written

    def texts(self, rows: Sequence[Sequence[Any]]) -> list[list[str]]:
        """Cells as text; null is empty."""
        fields = self._fields
        return [[self._text(field, cell) for field, cell in zip(fields, row, strict=True)] for row in rows]

    @staticmethod
    def _text(field: Field | None, cell: Any) -> str:
        if cell is None:
            return ""
        if isinstance(cell, str):
            return cell
        if field is None:
            return orjson.dumps(cell).decode()
        return as_text(field.kind, field.is_array, cell)

    def delimited(self, rows: Sequence[Sequence[Any]], delimiter: str) -> str:
        """Lines that end in a line feed, without a header."""
        return _quoted_lines(self.texts(rows), delimiter)

    # -------------------------------------------------------------- blocks of columns

    def column_texts(self, columns: Sequence[Sequence[Any]]) -> list[list[str]]:
        """The same as ``texts`` of columns of cells, by columns."""
        return [
            number_texts(cells) if field is None else column_texts(field.kind, field.is_array, cells)
            for field, cells in zip(self._fields, columns, strict=True)
        ]

    def delimited_columns(self, columns: Sequence[Sequence[Any]], delimiter: str) -> str:
        """The same as ``delimited`` of columns of cells."""
        texts = self.column_texts(columns)
        # What has such signs is quoted, as is a line that would be empty.
        if len(texts) > 1 and not any(
            field is not None and is_free_text(field) and _has_any(f'{delimiter}"\n\r', cells)
            for field, cells in zip(self._fields, texts, strict=True)
        ):
            return "\n".join(map(delimiter.join, zip(*texts, strict=True))) + "\n"
        return _quoted_lines(zip(*texts, strict=True), delimiter)

    def encoded(self, columns: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
        """Rows that orjson can write, of columns of cells."""
        written = [
            cells if encode is None else encode(cells)
            for encode, cells in zip(self._column_encoders, columns, strict=True)
        ]
        return zip(*written, strict=True)

    # -------------------------------------------------------------- answers

    def records(self, rows: Sequence[Sequence[Any]], form: str) -> bytes:
        """The JSON of ``records`` in one of the forms of datastore_search."""
        if form == "objects":
            return orjson.dumps(self.objects(rows))
        if form == "lists":
            return orjson.dumps(self.lists(rows))
        return orjson.dumps(self.delimited(rows, "," if form == "csv" else "\t"))


def _quoted_lines(rows: Iterable[Sequence[str]], delimiter: str) -> str:
    lines = io.StringIO()
    csv_writer(lines, delimiter=delimiter).writerows(rows)
    return lines.getvalue()


def is_free_text(field: Field) -> bool:
    """Whether a cell's text can hold any sign."""
    return field.is_array or field.kind in (FieldType.TEXT, FieldType.JSON)


def _has_any(signs: str, texts: Sequence[str]) -> bool:
    joined = "".join(texts)
    return any(sign in joined for sign in signs)


def describe(field: Field) -> dict[str, Any]:
    """A field as search and dumps describe it."""
    described: dict[str, Any] = {"id": field.name, "type": field.type_name}
    if field.info:
        described["info"] = dict(field.info)
    return described
