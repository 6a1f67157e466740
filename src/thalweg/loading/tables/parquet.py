"""Parquet, read by pyarrow (the extra ``parquet``): types are the file's own."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from thalweg.domain.errors import InvalidRequest, NotSupported, TooLarge
from thalweg.domain.table_values import FieldType
from thalweg.domain.tables import MAX_FIELDS
from thalweg.loading.tables.source import BLOCK_ROWS, ReadOptions, Shape, check_ratio, field_names


class ParquetSource:
    """See the module."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        try:
            import pyarrow
            import pyarrow.parquet as parquet
        except ImportError:
            raise NotSupported("Parquet is read with the extra 'parquet': pip install thalweg[parquet]") from None
        self._size = path.stat().st_size
        # ValueError, OverflowError: instants beyond Python's.
        self._fault = (pyarrow.ArrowException, OSError, ValueError, OverflowError)
        try:
            self._file = parquet.ParquetFile(path, memory_map=True)
            schema = self._file.schema_arrow
        except self._fault as error:
            raise InvalidRequest(f"The file is not Parquet that can be read: {_told(error)}.") from None
        if len(schema.names) > MAX_FIELDS:
            raise TooLarge(f"The file has {len(schema.names):,} columns; a table has at most {MAX_FIELDS:,}.")
        check_ratio(self._file.metadata.num_rows * len(schema.names), self._size)
        self.shape = Shape("parquet", [], [])
        self.shape.names = field_names(schema.names, self.shape.notes)
        self._read: list[Callable[[Any], list[Any]]] = []
        for place, item in enumerate(schema):
            kind, is_array, convert = _type_of(pyarrow.types, item.type)
            read = _values(convert)
            if kind in (FieldType.TIMESTAMP, FieldType.TIMESTAMPTZ) and self._is_fine(place, item.type):
                kind, read = FieldType.TEXT, _fine_instants
                self.shape.notes.append(f"{item.name!r} has instants finer than a microsecond, and is kept as text")
            self.shape.types.append((kind, is_array))
            self._read.append(read)

    def _is_fine(self, place: int, kind: Any) -> bool:
        """Whether a column of instants has others than whole microseconds."""
        if getattr(kind, "unit", "") != "ns":
            return False
        import pyarrow

        name = self._file.schema_arrow.names[place]
        return any(
            (batch.column(0).cast(pyarrow.int64()).drop_null().to_numpy() % 1000).any()
            for batch in self._batches([name])
        )

    def _batches(self, names: list[str] | None = None) -> Iterator[Any]:
        try:
            for batch in self._file.iter_batches(BLOCK_ROWS, columns=names):
                if batch.num_rows:
                    yield batch
        except self._fault as error:
            raise InvalidRequest(f"The file cannot be read to its end: {_told(error)}.") from None

    def blocks(self) -> Iterator[tuple[list[Sequence[Any]], int]]:
        done = 0
        total = max(1, self._file.metadata.num_rows)
        for batch in self._batches():
            columns: list[Sequence[Any]] = []
            for name, column, read in zip(self.shape.names, batch.columns, self._read, strict=True):
                try:
                    columns.append(read(column))
                except self._fault as error:
                    raise InvalidRequest(f"After row {done:,} the column {name!r}: {_told(error)}.") from None
            done += batch.num_rows
            yield columns, self._size * done // total

    def place(self, row: int) -> str:
        return f"row {row + 1:,}"


def _told(error: Exception) -> str:
    return str(error)[:200].rstrip(".\n") or type(error).__name__


def _values(convert: Callable[[Any], Any] | None) -> Callable[[Any], list[Any]]:
    def read(column: Any) -> list[Any]:
        values: list[Any] = column.to_pylist()
        return values if convert is None else [None if value is None else convert(value) for value in values]

    return read


def _fine_instants(column: Any) -> list[Any]:
    """Instants as texts with nanoseconds; those with a zone in UTC, with Z."""
    import pyarrow

    if column.type.tz:
        column = column.cast(pyarrow.timestamp("ns", "UTC"))
    return [None if text is None else text.replace(" ", "T") for text in column.cast("string").to_pylist()]


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
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return FieldType.TEXT, False, None
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner, is_array, _ = _type_of(types, kind.value_type)
        if not is_array and inner in (FieldType.TEXT, FieldType.INT4, FieldType.INT8, FieldType.FLOAT8, FieldType.BOOL):
            return inner, True, _nested
        return FieldType.JSON, False, _nested
    if types.is_struct(kind):
        return FieldType.JSON, False, _nested
    if types.is_map(kind):
        return FieldType.JSON, False, _mapping
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


def _mapping(value: list[tuple[Any, Any]]) -> Any:
    """A map as an object, where each of its keys is there once."""
    made = {key if isinstance(key, str) else _nested_text(key): _nested(item) for key, item in value}
    return made if len(made) == len(value) else _nested(value)


def _nested(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _nested(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_nested(item) for item in value]
    if isinstance(value, float):
        return _finite(value)
    if value is None or isinstance(value, bool | int | str | Decimal):
        return value
    return _nested_text(value)


def _nested_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
