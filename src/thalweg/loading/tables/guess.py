"""Types of fields, from values.

A column of texts is what all of its texts are: integers, numbers, instants, true and false, or just texts. Numbers
with leading zeros are texts: they are codes, and would lose the zeros. A fraction is a float where that gives every
number back, else an exact numeric.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, Final

from thalweg.domain.table_values import BadValue, FieldType, coerce

_INTEGER: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]*)", re.ASCII)
_FRACTION: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]*)?(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_STAMP: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?",
    re.ASCII,
)
_FLAGS: Final = frozenset(("true", "false", "True", "False", "TRUE", "FALSE"))
_FLOAT_DIGITS: Final = 15
"""So many digits of a decimal come out of a float as they went in."""
_RANK: Final = (FieldType.BOOL, FieldType.INT4, FieldType.INT8, FieldType.FLOAT8, FieldType.NUMERIC)


class ColumnGuess:
    """What a column can be, after all the values that it was shown."""

    def __init__(self, texts: bool) -> None:
        self._texts = texts
        self._kind: FieldType | None = None
        """None: nothing but empty values so far."""

    def see(self, values: Iterable[Any]) -> None:
        """The next values of the column."""
        if self._kind is FieldType.TEXT:
            return
        for value in values:
            if value is None or value == "":
                continue
            found = _of_text(value, self._texts) if isinstance(value, str) else _of_value(value)
            if found is not self._kind:
                self._kind = found if self._kind is None else _common(self._kind, found)
                if self._kind is FieldType.TEXT:
                    return

    @property
    def kind(self) -> FieldType:
        return self._kind or FieldType.TEXT


def _common(one: FieldType, other: FieldType) -> FieldType:
    """The narrowest type for values of both."""
    if one is other:
        return one
    numbers = _RANK[1:]
    if one in numbers and other in numbers:
        wide = max(one, other, key=numbers.index)
        narrow = min(one, other, key=numbers.index)
        # A float holds no more than 53 bits of an integer.
        return FieldType.NUMERIC if wide is FieldType.FLOAT8 and narrow is FieldType.INT8 else wide
    return FieldType.TEXT


def _of_value(value: Any) -> FieldType:
    if isinstance(value, bool):
        return FieldType.BOOL
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, float):
        return FieldType.FLOAT8
    if isinstance(value, Decimal):
        return _decimal(value)
    return FieldType.JSON if isinstance(value, list | dict) else FieldType.TEXT


def _integer(value: int) -> FieldType:
    if -(1 << 31) <= value < 1 << 31:
        return FieldType.INT4
    return FieldType.INT8 if -(1 << 63) <= value < 1 << 63 else FieldType.NUMERIC


def _decimal(value: Decimal) -> FieldType:
    digits = len(value.as_tuple().digits)
    fits = digits <= _FLOAT_DIGITS and -290 < value.adjusted() < 290
    return FieldType.FLOAT8 if fits or Decimal(repr(float(value))) == value else FieldType.NUMERIC


def _of_text(value: str, texts: bool) -> FieldType:
    """``texts``: whether numbers and flags are written as texts in this file."""
    if texts:
        if _INTEGER.fullmatch(value):
            return _integer(int(value)) if len(value) < 400 else FieldType.TEXT
        if value[-1] in "0123456789." and _FRACTION.fullmatch(value) and any(map(str.isdigit, value)):
            return _fraction(value)
        if value in _FLAGS:
            return FieldType.BOOL
    match = _STAMP.fullmatch(value)
    if match is not None:
        kind = FieldType.TIMESTAMPTZ if match[1] else FieldType.TIMESTAMP
        try:
            coerce(kind, False, value)
        except BadValue:
            return FieldType.TEXT
        return kind
    return FieldType.TEXT


def _fraction(value: str) -> FieldType:
    if len(value) > 400:
        return FieldType.TEXT
    kind = _decimal(Decimal(value))
    try:
        coerce(kind, False, value)
    except BadValue:
        return FieldType.TEXT
    return kind


def guess_columns(
    blocks: Iterable[Sequence[Sequence[Any]]], known: Sequence[tuple[FieldType, bool] | None], texts: bool
) -> list[tuple[FieldType, bool]]:
    """The type of each column, those that are known as they are."""
    guesses = [None if type_ is not None else ColumnGuess(texts) for type_ in known]
    for columns in blocks:
        for guess, values in zip(guesses, columns, strict=True):
            if guess is not None:
                guess.see(values)
    return [
        (guess.kind, False) if guess is not None else type_ or (FieldType.TEXT, False)
        for guess, type_ in zip(guesses, known, strict=True)
    ]
