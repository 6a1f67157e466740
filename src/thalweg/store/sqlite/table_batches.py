"""Many values of a table's fields at once, by whole columns, as they are bound: the bulk path of ``table_cells``.

What a file of text holds is mostly plain: ``12``, ``-3.25``, ``2020-01-01T00:00:00``. Such columns are converted as a
whole, a tenth of a microsecond a cell; any other goes cell by cell through ``table_cells.loader``, which says what is
wrong with it. The two give the same (a property test holds that).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import orjson

from thalweg.domain.table_values import BadValue, FieldType
from thalweg.domain.tables import BadRecord, Batch, Field
from thalweg.store.sqlite.table_cells import loader, texter

_Converted = tuple[list[Any], list[Any] | None]
"""What is bound, and the texts that are looked for words in; None: the same."""

_SIGNED: Final = frozenset("0123456789+-")
_NUMBER: Final = _SIGNED | frozenset(".eE")
_MAX_LENGTH: Final = 40
"""Longest text of a plain number."""
_STAMP_MARKS: Final = {
    19: {4: "-", 7: "-", 10: "T", 13: ":", 16: ":"},
    16: {4: "-", 7: "-", 10: "T", 13: ":"},
    10: {4: "-", 7: "-"},
}
"""What a plain instant's text has between its digits, by its length: place and mark."""
_STAMP_ENDS: Final = {19: ".000", 16: ":00.000", 10: "T00:00:00.000"}
_FIRST_YEAR_US: Final = -62_135_596_800_000_000
"""0001-01-01: there is no year 0."""


def batch_maker(fields: Sequence[Field]) -> Callable[[Sequence[Sequence[Any]]], Batch]:
    """What makes a batch of columns of JSON values or texts, one for each field; can be sent to another process.
    Raises BadRecord with the row at fault, counted from 0."""
    # What is said of fields is not needed, and need not be something that can be sent.
    return partial(make_batch, tuple(replace(field, info={}) for field in fields))


def make_batch(fields: Sequence[Field], columns: Sequence[Sequence[Any]]) -> Batch:
    """See ``batch_maker``."""
    if len(columns) != len(fields):
        raise BadRecord("records", f"The rows have {len(columns)} values for {len(fields)} fields.", 0)
    length = len(columns[0]) if columns else 0
    bound: list[list[Any]] = []
    texts: list[list[Any] | None] = []
    for field, values in zip(fields, columns, strict=True):
        values, words = _fast(field, values) or _slow(field, values)
        bound.append(values)
        texts.append(words)
    return Batch(length, bound, texts)


def _slow(field: Field, values: Sequence[Any]) -> _Converted:
    load = loader(field)
    bound: list[Any] = []
    try:
        for value in values:
            bound.append(load(value))  # noqa: PERF401 (how far it came says which one is at fault)
    except BadValue as error:
        raise BadRecord("records", f'field "{field.name}": {error}', len(bound)) from None
    text = texter(field)
    return bound, None if text is None else [text(value) for value in bound]


def _fast(field: Field, values: Sequence[Any]) -> _Converted | None:
    """None: not all is plain."""
    convert = None if field.is_array else _FAST.get(field.kind)
    if convert is None or not set(map(type, values)) <= _TEXTS:
        return None
    return convert(values)


_TEXTS: Final = {str, type(None)}


def _integers(bits: int, values: Sequence[str | None]) -> _Converted | None:
    present = [value for value in values if value]
    # int() also takes underscores, blanks and digits of other scripts, which are no integers here.
    if not set("".join(present)) <= _SIGNED or max(map(len, present), default=0) > _MAX_LENGTH:
        return None
    try:
        numbers = list(map(int, present))
    except ValueError:
        return None
    if numbers and not (-(1 << bits) <= min(numbers) and max(numbers) < 1 << bits):
        return None
    return _with_gaps(values, numbers, list(map(str, numbers)))


def _floats(values: Sequence[str | None]) -> _Converted | None:
    present = [value for value in values if value]
    # Neither "nan" and "inf" nor what float() takes beyond numbers.
    if not set("".join(present)) <= _NUMBER or max(map(len, present), default=0) > _MAX_LENGTH:
        return None
    try:
        numbers = list(map(float, present))
    except ValueError:
        return None
    if not all(map(math.isfinite, numbers)):
        return None
    texts = orjson.dumps(numbers)[1:-1].decode("ascii").split(",") if numbers else []
    return _with_gaps(values, numbers, texts)


def _plain_texts(values: Sequence[str | None]) -> _Converted | None:
    joined = "".join(value for value in values if value is not None)
    try:
        joined.encode()
    except UnicodeEncodeError:
        return None
    return None if "\0" in joined else (list(values), None)


def _stamps(values: Sequence[str | None]) -> _Converted | None:
    present = [value for value in values if value]
    length = len(present[0]) if present else 19
    marks = _STAMP_MARKS.get(length)
    joined = "\n".join(present).replace(" ", "T")
    if marks is None or len(joined) != len(present) * (length + 1) - 1 or set(map(len, present)) - {length}:
        return None if present else ([None] * len(values), [None] * len(values))
    # Every text has the marks in their places, and all else are digits.
    if any(joined[place :: length + 1] != mark * len(present) for place, mark in marks.items()):
        return None
    if not joined.isascii() or len(joined.translate(_NO_DIGITS)) != len(present) * (len(marks) + 1) - 1:
        return None
    texts = joined.split("\n")
    try:
        instants = np.array(texts, dtype="U").astype("datetime64[us]").astype(np.int64).tolist()
    except ValueError:
        return None
    if min(instants) < _FIRST_YEAR_US:
        return None
    end = _STAMP_ENDS[length]
    return _with_gaps(values, instants, [text + end for text in texts])


_NO_DIGITS: Final = dict.fromkeys(map(ord, "0123456789"))


def _with_gaps(values: Sequence[str | None], numbers: list[Any], texts: list[str]) -> _Converted:
    if len(numbers) == len(values):
        return numbers, texts
    following, words = iter(numbers), iter(texts)
    return [next(following) if value else None for value in values], [
        next(words) if value else None for value in values
    ]


_FAST: Final[dict[FieldType, Callable[[Sequence[str | None]], _Converted | None]]] = {
    FieldType.INT4: partial(_integers, 31),
    FieldType.INT8: partial(_integers, 63),
    FieldType.FLOAT8: _floats,
    FieldType.TEXT: _plain_texts,
    FieldType.TIMESTAMP: _stamps,
}
