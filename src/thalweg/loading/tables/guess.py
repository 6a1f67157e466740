"""Types of fields, from values.

A column of texts is what all of its texts are: integers, numbers, instants, true and false, or just texts. Numbers
with leading zeros are texts: they are codes, and would lose the zeros; so are long ones with a plus, which are numbers
of telephones. A fraction is a float where that gives every number back, else an exact numeric. Where commas do not part
the cells, they may be decimal ones. What programs write in the place of a number or an instant that is missing is
taken for no value in columns of these alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from thalweg.domain.table_values import BadValue, FieldType, coerce
from thalweg.loading.tables.source import Shape

MISSING: Final = frozenset(("NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "Null", "null", "None"))
"""Texts that stand for no value among numbers, instants and flags."""
_INTEGER: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]*)", re.ASCII)
_TELEPHONE: Final = re.compile(r"\+[1-9][0-9]{6,}", re.ASCII)
_FRACTION: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]*)?(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_COMMA: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]*)?,[0-9]+(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_THOUSANDS: Final = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}", re.ASCII)
"""Either a fraction with a decimal comma or an integer of thousands: where all are so, nobody knows."""
_SWAP: Final = str.maketrans(",.", ".,")
_STAMP: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?",
    re.ASCII,
)
_FLAGS: Final = frozenset(("true", "false", "True", "False", "TRUE", "FALSE"))
_FLOAT_DIGITS: Final = 15
"""So many digits of a decimal come out of a float as they went in."""
_RANK: Final = (FieldType.BOOL, FieldType.INT4, FieldType.INT8, FieldType.FLOAT8, FieldType.NUMERIC)


@dataclass(frozen=True, slots=True)
class Column:
    """How a column is read.

    missing texts in it that stand for no value
    comma   whether its numbers have decimal commas
    """

    kind: FieldType
    is_array: bool = False
    missing: frozenset[str] = frozenset()
    comma: bool = False

    def plain(self, values: Sequence[Any]) -> Sequence[Any]:
        """Values as they are stored."""
        if self.missing:
            values = [None if isinstance(value, str) and value in self.missing else value for value in values]
        if self.comma:
            # A point among decimal commas is then none: it may be one of thousands.
            values = [value and value.translate(_SWAP) for value in values]
        return values


class ColumnGuess:
    """What a column can be, after all the values that it was shown.

    shape   of the file: whether numbers and flags are written as texts in it, and whether commas part its cells
    missing what the caller says stands for no value
    """

    def __init__(self, shape: Shape, missing: frozenset[str]) -> None:
        self._texts = shape.texts
        self._commas = shape.texts and shape.delimiter != ","
        self._said = missing
        self._kind: FieldType | None = None
        """None: nothing but empty values so far."""
        self._missing: set[str] = set()
        self._comma: bool | None = None
        """Whether fractions have a comma; None: there are none."""
        self._thousands = True
        """Whether all of these may be thousands."""

    def see(self, values: Iterable[Any]) -> None:
        """The next values of the column."""
        if self._kind is FieldType.TEXT:
            return
        for value in values:
            if value is None or value == "":
                continue
            found = self._of_text(value) if isinstance(value, str) else _of_value(value)
            if found is not None and found is not self._kind:
                self._kind = found if self._kind is None else _common(self._kind, found)
                if self._kind is FieldType.TEXT:
                    return

    def _of_text(self, value: str) -> FieldType | None:
        """None: no value."""
        if value in self._said:
            return None
        if not self._texts:
            return _of_stamp(value)
        text = value.strip()
        if not text or text in MISSING:
            self._missing.add(value)
            return None
        if _INTEGER.fullmatch(text):
            if _TELEPHONE.fullmatch(text):
                return FieldType.TEXT
            return _integer(int(text)) if len(text) < 400 else FieldType.TEXT
        if text in _FLAGS:
            return FieldType.BOOL
        if text[-1] in "0123456789.":
            comma = self._commas and _COMMA.fullmatch(text) is not None
            if comma or (_FRACTION.fullmatch(text) and any(map(str.isdigit, text))):
                if self._comma is not None and self._comma is not comma:
                    return FieldType.TEXT
                self._comma = comma
                self._thousands = self._thousands and comma and _THOUSANDS.fullmatch(text) is not None
                return _fraction(text.replace(",", "."))
        return _of_stamp(text)

    def column(self, known: tuple[FieldType, bool] | None = None) -> Column:
        """``known``: the type, where it need not be guessed."""
        comma = self._comma is True
        guess = FieldType.TEXT if self._kind is None or (comma and self._thousands) else self._kind
        kind, is_array = known or (guess, False)
        if kind is FieldType.TEXT or is_array:
            return Column(kind, is_array, self._said)
        return Column(kind, False, self._said | self._missing, comma)


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


def _of_stamp(value: str) -> FieldType:
    match = _STAMP.fullmatch(value)
    if match is None:
        return FieldType.TEXT
    kind = FieldType.TIMESTAMPTZ if match[1] else FieldType.TIMESTAMP
    try:
        coerce(kind, False, value)
    except BadValue:
        return FieldType.TEXT
    return kind


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
    blocks: Iterable[Sequence[Sequence[Any]]],
    shape: Shape,
    known: Sequence[tuple[FieldType, bool] | None],
    missing: Iterable[str] = (),
) -> list[Column]:
    """How each column is read; those whose type is known keep it."""
    said = frozenset(missing)
    # Of a known type it is still to be found out how a file of texts writes it.
    guesses = [
        ColumnGuess(shape, said) if type_ is None or (shape.texts and type_[0] is not FieldType.TEXT) else None
        for type_ in known
    ]
    for columns in blocks:
        for guess, values in zip(guesses, columns, strict=True):
            if guess is not None:
                guess.see(values)
    return [
        Column(*(type_ or (FieldType.TEXT, False)), said) if guess is None else guess.column(type_)
        for guess, type_ in zip(guesses, known, strict=True)
    ]


def notes_on(columns: Sequence[Column], names: Sequence[str], said: Iterable[str]) -> list[str]:
    """What was made of texts that are no numbers as they stand."""
    notes = []
    for name, column in zip(names, columns, strict=True):
        found = sorted({text.strip() for text in column.missing.difference(said)} - {""})
        if found:
            notes.append(f"in {name!r} {' and '.join(map(repr, found))} counts as no value")
        if column.comma:
            notes.append(f"the numbers of {name!r} have decimal commas")
    return notes
