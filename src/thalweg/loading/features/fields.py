"""Fields of a file to fields of a layer: kinds from values, names that XML takes, values in the store's form."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.features import MAX_FIELDS, MAX_VALUE_LENGTH, Field, FieldKind
from thalweg.domain.observations import FORBIDDEN_TEXT
from thalweg.domain.time import parse_instant
from thalweg.domain.xmlnames import NOT_NAME, NOT_START

_INT64: Final = (-(1 << 63), (1 << 63) - 1)
_INTEGER: Final = re.compile(r"[+-]?(?:0|[1-9]\d{0,18})", re.ASCII)
"""No leading zeros: a code such as 00123 is a text."""
_NUMBER: Final = re.compile(r"[+-]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_DATE: Final = re.compile(r"\d{4}[-/]\d\d[-/]\d\d", re.ASCII)
_INSTANT: Final = re.compile(
    r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)
_TRUTH: Final = {"true": True, "false": False}
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
MAX_NAME_LENGTH: Final = 64


def days(text: str) -> int:
    """Days since 1970-01-01 of an ISO 8601 date (``/`` may divide it). Raises ValueError."""
    return date.fromisoformat(text.replace("/", "-")).toordinal() - _EPOCH_DAY


def microseconds(text: str) -> int:
    """Microseconds UTC of an ISO 8601 instant; without a zone it is UTC. Raises ValueError."""
    try:
        return parse_instant(text.replace("/", "-"), "value")[0]
    except InvalidParameter as error:
        raise ValueError(error.message) from None


def _integer(text: str) -> int:
    number = int(text)
    if not _INT64[0] <= number <= _INT64[1]:
        raise ValueError(text)
    return number


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


_TESTS: Final[dict[FieldKind, tuple[Callable[[str], object], Callable[[str], Any]]]] = {
    FieldKind.BOOLEAN: (lambda text: text.lower() in _TRUTH, lambda text: _TRUTH[text.lower()]),
    FieldKind.INTEGER: (_INTEGER.fullmatch, _integer),
    FieldKind.NUMBER: (_NUMBER.fullmatch, _number),
    FieldKind.DATE: (_DATE.fullmatch, days),
    FieldKind.DATETIME: (_INSTANT.fullmatch, microseconds),
}
_OF_TEXTS: Final = (FieldKind.BOOLEAN, FieldKind.INTEGER, FieldKind.NUMBER, FieldKind.DATE, FieldKind.DATETIME)
"""What columns of texts may turn out to be, the narrowest first."""
_OF_STRINGS: Final = (FieldKind.DATE, FieldKind.DATETIME)
"""The same where numbers are written as numbers (GeoJSON)."""


class _Column:
    """What has been seen of one field."""

    def __init__(self, declared: FieldKind | None, candidates: tuple[FieldKind, ...]) -> None:
        self.declared = declared
        self.types: set[type] = set()
        self.candidates = list(candidates)
        self.too_large = False
        self.longest = 0

    def see(self, values: Sequence[Any]) -> None:
        found = set(map(type, values))
        self.types |= found
        if int in found and not self.too_large:
            numbers = [v for v in values if type(v) is int]
            self.too_large = not (_INT64[0] <= min(numbers) and max(numbers) <= _INT64[1])
        if str in found:
            texts = [v for v in values if type(v) is str]
            self.longest = max(self.longest, max(map(len, texts)))
            self.candidates = [kind for kind in self.candidates if _all_are(texts, kind)]

    def add(self, other: _Column) -> None:
        """What was seen of the same field elsewhere."""
        self.types |= other.types
        self.too_large |= other.too_large
        self.candidates = [kind for kind in self.candidates if kind in other.candidates]
        self.longest = max(self.longest, other.longest)

    @property
    def kind(self) -> FieldKind:
        types = self.types - {type(None)}
        if not types:
            return self.declared or FieldKind.TEXT
        if types == {bool}:
            found = FieldKind.BOOLEAN
        elif types == {int} and not self.too_large:
            found = FieldKind.INTEGER
        elif types <= {int, float}:
            found = FieldKind.NUMBER
        elif types == {str} and self.candidates:
            found = self.candidates[0]
        else:
            found = FieldKind.TEXT
        declared = self.declared
        if declared is None or declared is found:
            return found
        if declared is FieldKind.TEXT:
            return FieldKind.TEXT
        if declared is FieldKind.NUMBER and found is FieldKind.INTEGER:
            return declared
        if declared in (FieldKind.DATE, FieldKind.DATETIME) and found is FieldKind.INTEGER:
            # Given as days or microseconds.
            return declared
        return found


def _all_are(texts: Sequence[str], kind: FieldKind) -> bool:
    fits, read = _TESTS[kind]
    for text in texts:
        if not fits(text):
            return False
    if kind is not FieldKind.BOOLEAN:
        try:
            for text in texts:
                read(text)
        except ValueError:
            return False
    return True


@dataclass(frozen=True, slots=True)
class SeenColumns:
    """What the columns of a batch hold, by their names in the file."""

    columns: dict[str, _Column]


def see_columns(
    names: Sequence[str],
    columns: Sequence[Sequence[Any]],
    declared: Mapping[str, FieldKind | None],
    *,
    textual: bool,
) -> SeenColumns:
    """declared  what the file says of its fields; textual: values are texts whatever they mean"""
    seen: dict[str, _Column] = {}
    for name, values in zip(names, columns, strict=True):
        column = seen[name] = _made(declared.get(name), textual)
        column.see(values)
    return SeenColumns(seen)


def _made(declared: FieldKind | None, textual: bool) -> _Column:
    candidates = _OF_TEXTS if textual else _OF_STRINGS
    return _Column(declared, candidates if declared is None else ())


class FieldSurvey:
    """Finds out, batch by batch, what the fields of a file hold."""

    def __init__(self, *, textual: bool) -> None:
        self._columns: dict[str, _Column] = {}
        self._textual = textual

    def see(self, seen: SeenColumns) -> None:
        """The next batch of the file. Raises InvalidParameter (``fields``) beyond MAX_FIELDS."""
        for name, column in seen.columns.items():
            known = self._columns.get(name)
            if known is None:
                self._keep(name, column)
            else:
                known.add(column)

    def declare(self, declared: Mapping[str, FieldKind | None]) -> None:
        """Fields that a file without features declares all the same."""
        for name, kind in declared.items():
            if name not in self._columns:
                self._keep(name, _made(kind, self._textual))

    def _keep(self, name: str, column: _Column) -> None:
        if len(self._columns) >= MAX_FIELDS:
            raise InvalidParameter("fields", f"The file has more than {MAX_FIELDS} fields.")
        self._columns[name] = column

    def kinds(self) -> dict[str, FieldKind]:
        """By name in the file, in the order seen."""
        return {name: column.kind for name, column in self._columns.items()}

    def is_empty(self, name: str) -> bool:
        """Whether no feature has a value."""
        return self._columns[name].types <= {type(None)}

    def is_mixed(self, name: str) -> bool:
        """Whether values of several types were seen, which all become texts."""
        types = self._columns[name].types - {type(None)}
        return len(types) > 1 and types != {int, float}


@dataclass(frozen=True, slots=True)
class Mapped:
    """A field of the file as the layer has it. ``source`` is its name in the file."""

    source: str
    field: Field


def map_fields(kinds: Mapping[str, FieldKind], taken: Iterable[str]) -> list[Mapped]:
    """Names that XML takes, each once whatever the case: what a name cannot hold becomes ``_``.

    taken  names in use: the geometry field's
    """
    used = {name.lower() for name in taken}
    result = []
    for source, kind in kinds.items():
        name = free_name(ncname(source), used)
        used.add(name.lower())
        result.append(Mapped(source, Field(name, kind, title="" if name == source else source[:200])))
    return result


def ncname(text: str) -> str:
    """The nearest name without colon (Namespaces in XML, NCName), not empty."""
    name = NOT_NAME.sub("_", unicodedata.normalize("NFC", text.strip()))[:MAX_NAME_LENGTH]
    return f"_{name}"[:MAX_NAME_LENGTH] if not name or NOT_START.match(name) else name


def free_name(name: str, used: Iterable[str]) -> str:
    """The name, or the name with a number, that is not in use; ``used`` is in small letters."""
    taken = set(used)
    free, number = name, 2
    while free.lower() in taken:
        ending = f"_{number}"
        free = name[: MAX_NAME_LENGTH - len(ending)] + ending
        number += 1
    return free


# ------------------------------------------------------------------ values


@dataclass(slots=True)
class Losses:
    """Cells that could not be kept as they were, by field.

    cleaned   texts from which characters that XML forbids were taken out
    dropped   values that the field's kind cannot hold, now missing
    """

    cleaned: dict[str, int]
    dropped: dict[str, int]

    def add(self, other: Losses) -> None:
        for mine, others in ((self.cleaned, other.cleaned), (self.dropped, other.dropped)):
            for name, count in others.items():
                mine[name] = mine.get(name, 0) + count


def convert(kind: FieldKind, name: str, values: list[Any], losses: Losses) -> list[Any]:
    """Values of a field in the store's form; see ``domain/features.py``."""
    if kind is FieldKind.TEXT:
        return _texts(name, values, losses)
    if kind is FieldKind.NUMBER:
        return _each(_as_number, name, values, losses)
    types = set(map(type, values))
    if kind is FieldKind.INTEGER and types <= {int, type(None)}:
        return values
    if kind is FieldKind.BOOLEAN and types <= {bool, type(None)}:
        return values
    if kind in (FieldKind.DATE, FieldKind.DATETIME) and types <= {int, type(None)}:
        return values
    read = _TESTS[kind][1]
    return _each(lambda v: read(v) if type(v) is str else _as_is(kind, v), name, values, losses)


def _as_is(kind: FieldKind, value: Any) -> Any:
    if kind is FieldKind.BOOLEAN and value in (0, 1):
        return bool(value)
    if kind is FieldKind.INTEGER and not isinstance(value, float) and _INT64[0] <= value <= _INT64[1]:
        return int(value)
    if kind in (FieldKind.DATE, FieldKind.DATETIME) and type(value) is int:
        return value
    raise ValueError(value)


def _as_number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    return number


def _each(read: Callable[[Any], Any], name: str, values: list[Any], losses: Losses) -> list[Any]:
    try:
        return [None if value is None else read(value) for value in values]
    except (ValueError, OverflowError, TypeError):
        pass
    result: list[Any] = []
    for value in values:
        try:
            result.append(None if value is None else read(value))
        except (ValueError, OverflowError, TypeError):
            result.append(None)
            losses.dropped[name] = losses.dropped.get(name, 0) + 1
    return result


def _texts(name: str, values: list[Any], losses: Losses) -> list[Any]:
    if not set(map(type, values)) <= {str, type(None)}:
        values = [_text(value) for value in values]
    # One search over all texts: nearly always nothing is wrong with any of them.
    present = [value for value in values if value is not None]
    if FORBIDDEN_TEXT.search("".join(present)) is None and max(map(len, present), default=0) <= MAX_VALUE_LENGTH:
        return values
    result: list[Any] = []
    for value in values:
        if value is None:
            result.append(None)
            continue
        clean = FORBIDDEN_TEXT.sub("", value)
        if clean != value:
            losses.cleaned[name] = losses.cleaned.get(name, 0) + 1
        if len(clean) > MAX_VALUE_LENGTH:
            losses.dropped[name] = losses.dropped.get(name, 0) + 1
            result.append(None)
        else:
            result.append(clean)
    return result


def _text(value: Any) -> str | None:
    if value is None or type(value) is str:
        return value
    if value is True or value is False:
        return "true" if value else "false"
    return repr(value)
