"""Rows of cells as answers hold them: objects, lists, and lines of CSV or TSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from thalweg.domain.table_values import as_text, encoder_of
from thalweg.domain.tables import ROW_ID, Field, Table

RANK = "rank"


class RowWriter:
    """Writes rows of the given columns of a table."""

    def __init__(self, table: Table, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self._fields: list[Field | None] = [table.field(name) for name in columns]
        self._encoders: list[tuple[int, Callable[[Any], Any]]] = []
        for place, field in enumerate(self._fields):
            encoder = None if field is None else encoder_of(field.kind, field.is_array)
            if encoder is not None:
                self._encoders.append((place, encoder))
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
        buffer = io.StringIO()
        csv.writer(buffer, delimiter=delimiter, lineterminator="\n").writerows(self.texts(rows))
        return buffer.getvalue()

    def records(self, rows: Sequence[Sequence[Any]], form: str) -> bytes:
        """The JSON of ``records`` in one of the forms of datastore_search."""
        if form == "objects":
            return orjson.dumps(self.objects(rows))
        if form == "lists":
            return orjson.dumps(self.lists(rows))
        return orjson.dumps(self.delimited(rows, "," if form == "csv" else "\t"))


def describe(field: Field) -> dict[str, Any]:
    """A field as search and dumps describe it."""
    described: dict[str, Any] = {"id": field.name, "type": field.type_name}
    if field.info:
        described["info"] = dict(field.info)
    return described
