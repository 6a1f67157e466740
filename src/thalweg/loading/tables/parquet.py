"""Parquet, read by pyarrow (the extra ``parquet``): types are the file's own."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from thalweg.domain.errors import InvalidRequest, NotSupported, TooLarge
from thalweg.domain.table_values import FieldType
from thalweg.domain.tables import MAX_FIELDS
from thalweg.loading.tables.source import BLOCK_ROWS, ReadOptions, Shape, field_names


class ParquetSource:
    """See the module."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        try:
            import pyarrow
            import pyarrow.parquet as parquet
        except ImportError:
            raise NotSupported("Parquet is read with the extra 'parquet': pip install thalweg[parquet]") from None
        self._size = path.stat().st_size
        try:
            self._file = parquet.ParquetFile(path, memory_map=True)
            schema = self._file.schema_arrow
        except (pyarrow.ArrowException, OSError) as error:
            raise InvalidRequest(f"The file is not Parquet that can be read: {str(error)[:200]}.") from None
        self._fault = (pyarrow.ArrowException, OSError)
        if len(schema.names) > MAX_FIELDS:
            raise TooLarge(f"The file has {len(schema.names):,} columns; a table has at most {MAX_FIELDS:,}.")
        self.shape = Shape("parquet", [], [])
        self.shape.names = field_names(schema.names, self.shape.notes)
        self._convert: list[Callable[[Any], Any] | None] = []
        for item in schema:
            kind, is_array, convert = _type_of(pyarrow.types, item.type)
            self.shape.types.append((kind, is_array))
            self._convert.append(convert)

    def blocks(self) -> Iterator[tuple[list[Sequence[Any]], int]]:
        done = 0
        total = max(1, self._file.metadata.num_rows)
        try:
            for batch in self._file.iter_batches(BLOCK_ROWS):
                if not batch.num_rows:
                    continue
                done += batch.num_rows
                columns: list[Sequence[Any]] = []
                for column, convert in zip(batch.columns, self._convert, strict=True):
                    values = column.to_pylist()
                    if convert is not None:
                        values = [None if value is None else convert(value) for value in values]
                    columns.append(values)
                yield columns, self._size * done // total
        except self._fault as error:
            raise InvalidRequest(f"The file cannot be read to its end: {str(error)[:200]}.") from None

    def place(self, row: int) -> str:
        return f"row {row + 1:,}"


def _type_of(types: Any, kind: Any) -> tuple[FieldType, bool, Callable[[Any], Any] | None]:
    if types.is_dictionary(kind):
        return _type_of(types, kind.value_type)
    if types.is_boolean(kind):
        return FieldType.BOOL, False, None
    if types.is_integer(kind):
        if kind.bit_width < 32 or str(kind) == "int32":
            return FieldType.INT4, False, None
        return (FieldType.NUMERIC if str(kind) == "uint64" else FieldType.INT8), False, None
    if types.is_floating(kind):
        return FieldType.FLOAT8, False, _finite
    if types.is_decimal(kind):
        return FieldType.NUMERIC, False, None
    if types.is_timestamp(kind):
        return (FieldType.TIMESTAMPTZ if kind.tz else FieldType.TIMESTAMP), False, _iso_instant
    if types.is_date(kind):
        return FieldType.DATE, False, _iso
    if types.is_time(kind):
        return FieldType.TIME, False, _iso
    if types.is_string(kind) or types.is_large_string(kind):
        return FieldType.TEXT, False, None
    if types.is_list(kind) or types.is_large_list(kind):
        inner, is_array, _ = _type_of(types, kind.value_type)
        if not is_array and inner in (FieldType.TEXT, FieldType.INT4, FieldType.INT8, FieldType.FLOAT8, FieldType.BOOL):
            return inner, True, None
        return FieldType.JSON, False, _nested
    if types.is_struct(kind) or types.is_map(kind):
        return FieldType.JSON, False, _nested
    if types.is_null(kind):
        return FieldType.TEXT, False, None
    return FieldType.TEXT, False, _nested_text


def _finite(value: float) -> float | None:
    """Not-a-number is what Parquet of data frames has for nothing."""
    return None if value != value else value


def _iso(value: datetime.date | datetime.time) -> str:
    return value.isoformat()


def _iso_instant(value: datetime.datetime) -> str:
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC)
    return value.isoformat()


def _nested(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _nested(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_nested(item) for item in value]
    if isinstance(value, float):
        return _finite(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    return _nested_text(value)


def _nested_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
