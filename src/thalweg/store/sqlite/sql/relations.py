"""What a statement can read: by the name it uses a relation, which says its columns and how rows are got.

A table of records is one, and so is one that is made of observations, which becomes a virtual table in the process that
runs statements (``made.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from thalweg.domain.table_sql import MadeTable
from thalweg.domain.tables import ROW_ID, Table
from thalweg.store.sqlite.table_shape import records_of, texts_of

NUMBER: Final = "id"
"""What the column of records' numbers is called inside."""
TIME: Final = "at"
"""What the column of the time is called inside, by which a made table is ordered."""


_MINUTE_US: Final = 60_000_000
STEPS: Final[tuple[tuple[int, int], ...]] = (
    *((minutes * _MINUTE_US, 0) for minutes in (1, 5, 10, 15, 20, 30, 60, 120, 180, 360, 720, 1440)),
    # Weeks begin on Monday; the first of January 1970 was a Thursday.
    (7 * 1440 * _MINUTE_US, 4 * 1440 * _MINUTE_US),
)
"""Lengths and origins, microseconds, of the steps of time that a made table has a column for: ``s0``, ``s1`` ... Its
rows come in their order, too, so that they are grouped as they come, without being held."""


COUNTED: Final = "_count"
"""What the source of a made table is followed by for the one that tells how many rows have a time, in ``n``."""


def step_column(length_us: int, origin_us: int) -> str | None:
    """What the column of such steps is called; None: there is none."""
    step = (length_us, origin_us % length_us)
    return f"s{STEPS.index(step):d}" if step in STEPS else None


def is_never_null(sql: str) -> bool:
    """Of a column's text: it is a number or time of records, which SQLite's planner does not know to be never null."""
    return sql.endswith((f".{NUMBER}", f".{TIME}"))


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """``name`` and type as users see them, and what the column is called inside."""

    name: str
    kind: str
    inside: str


@dataclass(frozen=True, slots=True)
class Relation:
    """A source of rows.

    source  its name in SQLite; empty: the process that runs the statement gives it one
    key     the column inside that tells its rows apart; empty: none does
    indexed  columns inside of which the least and the greatest value are found without reading all rows
    texts   name of the index of words, whose columns are called as the relation's; empty: none
    needs   names in SQLite that are read along
    made    what makes its rows
    """

    source: str
    columns: tuple[RelationColumn, ...]
    key: str = ""
    indexed: frozenset[str] = frozenset()
    texts: str = ""
    needs: tuple[str, ...] = ()
    made: MadeTable | None = None

    @property
    def numbers(self) -> dict[str, int]:
        """Of the columns that words can be looked for in."""
        return {c.name: int(c.inside[1:]) for c in self.columns if c.inside[:1] == "f" and c.inside[1:].isdigit()}


def relation_of(table: Table | MadeTable) -> Relation:
    """The relation of a table."""
    if not isinstance(table, Table):
        inside = (NUMBER, TIME, *(f"v{place:d}" for place in range(2, len(table.columns))))
        named = (RelationColumn(*column, name) for column, name in zip(table.columns, inside, strict=True))
        # Numbers may be shared, so that none determines the other columns: no key.
        return Relation("", tuple(named), indexed=frozenset((NUMBER, TIME)), made=table)
    columns = [RelationColumn(ROW_ID, "int4", NUMBER)]
    columns.extend(RelationColumn(each.name, each.type_name, f"f{each.number:d}") for each in table.fields)
    texts = texts_of(table.part)
    needs = tuple(f"{texts}_{end}" for end in ("data", "idx", "docsize", "config", "content"))
    places = {column.name: column.inside for column in columns}
    indexed = frozenset((NUMBER, *(places[names[0]] for names in (table.key, *table.indexes) if names)))
    return Relation(records_of(table.part), tuple(columns), NUMBER, indexed, texts, (texts, *needs))
