"""What a file of records is, whatever its format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from thalweg.domain.errors import TooLarge
from thalweg.domain.table_values import FieldType
from thalweg.domain.tables import MAX_FIELD_NAME, MAX_FIELDS

BLOCK_ROWS: Final = 10_000
"""Rows that are converted and stored together."""
MAX_RATIO: Final = 200
"""How much more a file may unpack to than its bytes: bytes of text, or cells. Measurements pack to a fifth or a
fiftieth; what packs better is made to fill a disk."""
RATIO_FREE: Final = 64 << 20
"""So much it may unpack to in any case."""
_INSTANT: Final = re.compile(r"\s*[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ].*)?")
_NUMBER: Final = re.compile(r"\s*[+-]?(?:[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?\s*")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What the caller says of a file; empty or None: to be found out.

    sheet   of a workbook, by name
    header  whether the first row is names
    missing texts that stand for no value
    """

    format: str = ""
    encoding: str = ""
    delimiter: str = ""
    header: bool | None = None
    sheet: str = ""
    missing: tuple[str, ...] = ()


@dataclass(slots=True)
class Shape:
    """What was found out about a file before its rows are read.

    names  of the fields, fit for a table
    types  known from the file itself, by place; None: to be guessed from the values
    texts  whether all values are texts, whose form says what they are
    """

    format: str
    names: list[str]
    types: list[tuple[FieldType, bool] | None]
    texts: bool = False
    encoding: str = ""
    delimiter: str = ""
    header: bool = False
    notes: list[str] = field(default_factory=list)


class Source(Protocol):
    """A file that can be read from the start any number of times.

    raises  InvalidRequest for what cannot be read, TooLarge
    """

    shape: Shape

    def blocks(self) -> Iterator[tuple[list[Sequence[Any]], int]]:
        """Columns of at most BLOCK_ROWS rows each, and the bytes of the file read until then."""
        ...

    def place(self, row: int) -> str:
        """Where a row is, counted from 0: ``line 12``."""
        ...


def check_ratio(unpacked: int, packed: int) -> None:
    """Raises TooLarge."""
    if unpacked > RATIO_FREE and unpacked > MAX_RATIO * packed:
        raise TooLarge(f"The file unpacks to more than {MAX_RATIO} times its length.")


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row is names: it has a cell that is no value, and none is an instant over instants alone.
    Numbers may be names, such as years."""
    first, rest = rows[0], rows[1:]
    if all(not cell.strip() or _INSTANT.fullmatch(cell) or _NUMBER.fullmatch(cell) for cell in first):
        return False
    for place, cell in enumerate(first):
        below = [row[place] for row in rest if place < len(row) and row[place].strip()]
        if below and _INSTANT.fullmatch(cell) and all(map(_INSTANT.fullmatch, below)):
            return False
    return True


NO_HEADER: Final = "the first row holds values, so that columns have numbers for names"


def field_names(given: Sequence[object], notes: list[str]) -> list[str]:
    """Names fit for a table: every one has a name of its own, of at most 63 bytes, without quotes and control
    characters, that does not begin with an underscore. What is changed is noted."""
    names: list[str] = []
    taken: set[str] = set()
    for place, raw in enumerate(given[: MAX_FIELDS + 1], 1):
        text = "" if raw is None else str(raw)
        name = "".join(letter for letter in text if letter != '"' and letter.isprintable())
        name = name.strip().lstrip("_").strip() or f"column_{place}"
        name = name.encode("utf-8", "replace")[:MAX_FIELD_NAME].decode("utf-8", "ignore").strip()
        base, number = name, 2
        while name in taken:
            end = f"_{number}"
            name = base.encode()[: MAX_FIELD_NAME - len(end)].decode("utf-8", "ignore").strip() + end
            number += 1
        taken.add(name)
        if name != text:
            notes.append(f"column {place} {text[:100]!r} is called {name!r}")
        names.append(name)
    return names
