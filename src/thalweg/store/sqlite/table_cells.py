"""Cells on their way into columns and out of them.

Columns are of the type ANY: what goes in comes out, the sign of a zero included. Only numeric has a form of its own
(``codec/decimal_key.py``), and SQLite has no booleans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from thalweg.domain.table_values import Cell, FieldType, as_text, coerce, format_stamp
from thalweg.domain.tables import Field
from thalweg.store.codec.decimal_key import decode_decimal, encode_decimal
from thalweg.store.sqlite.connection import Row


def stored(cell: Cell) -> Any:
    """What is bound for a cell."""
    if isinstance(cell, Decimal):
        return encode_decimal(cell)
    return cell


def loader(field: Field) -> Callable[[Any], Any]:
    """What makes of a JSON value what is bound. The function raises BadValue."""
    kind, is_array = field.kind, field.is_array
    if kind is FieldType.NUMERIC and not is_array:
        return lambda value: stored(coerce(kind, False, value))
    return lambda value: coerce(kind, is_array, value)


def decoder(field: Field) -> Callable[[Any], Cell] | None:
    """What makes a cell of a column's value (not None); None: it is one."""
    if field.is_array:
        return None
    if field.kind is FieldType.NUMERIC:
        return decode_decimal
    return bool if field.kind is FieldType.BOOL else None


def decode_rows(rows: list[Row], decoders: Sequence[tuple[int, Callable[[Any], Cell]]]) -> list[Row]:
    """Rows of cells; ``decoders``: by place in the row."""
    if not decoders:
        return rows
    decoded: list[Row] = []
    for row in rows:
        cells = list(row)
        for place, decode in decoders:
            if cells[place] is not None:
                cells[place] = decode(cells[place])
        decoded.append(tuple(cells))
    return decoded


def texter(field: Field) -> Callable[[Any], str | None] | None:
    """What makes of what is bound the text that is looked for words in; None: it is that."""
    if field.is_array or field.kind in (FieldType.TEXT, FieldType.JSON, FieldType.DATE, FieldType.TIME):
        return None
    if field.kind is FieldType.TIMESTAMP:
        return lambda value: None if value is None else format_stamp(value)
    decode = decoder(field)
    kind = field.kind

    def text(value: Any) -> str | None:
        if value is None:
            return None
        cell = value if decode is None else decode(value)
        if kind is FieldType.BOOL:
            return "true" if cell else "false"
        return as_text(kind, False, cell)

    return text


def texts_of_rows(
    texters: Sequence[Callable[[Any], str | None] | None], rows: Sequence[Sequence[Any]]
) -> list[tuple[Any, ...]]:
    """Rows of the index of words for rows of a number and what is bound for each field. By whole columns, which is a
    third of the cost of many rows."""
    columns: list[Any] = list(zip(*rows, strict=True))
    for place, text in enumerate(texters, 1):
        if text is not None:
            columns[place] = map(text, columns[place])
    return list(zip(*columns, strict=True))
