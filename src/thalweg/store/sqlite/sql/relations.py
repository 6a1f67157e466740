"""What a statement can read: by the name it uses a relation, which says its columns and how rows are got.

A table is one; whatever else is to be read by SQL becomes one by a function for its type in ``relation_of``: a source
that SQLite knows in the process that runs statements (a table, or a virtual table that the process registers), and its
columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.domain.tables import ROW_ID, Table
from thalweg.store.sqlite.table_shape import records_of, texts_of


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """``name`` and type as users see them, and what the column is called inside."""

    name: str
    kind: str
    inside: str


@dataclass(frozen=True, slots=True)
class Relation:
    """A source of rows.

    source  its name in SQLite
    key     the column inside that tells its rows apart; empty: none does
    texts   name of the index of words, whose columns are called as the relation's; empty: none
    needs   names in SQLite that are read along
    """

    source: str
    columns: tuple[RelationColumn, ...]
    key: str = ""
    texts: str = ""
    needs: tuple[str, ...] = ()

    @property
    def numbers(self) -> dict[str, int]:
        """Of the columns that words can be looked for in."""
        return {c.name: int(c.inside[1:]) for c in self.columns if c.inside[:1] == "f" and c.inside[1:].isdigit()}


def relation_of(table: Table) -> Relation:
    """The relation of a table of records."""
    columns = [RelationColumn(ROW_ID, "int4", "id")]
    columns.extend(RelationColumn(each.name, each.type_name, f"f{each.number:d}") for each in table.fields)
    texts = texts_of(table.part)
    needs = tuple(f"{texts}_{end}" for end in ("data", "idx", "docsize", "config", "content"))
    return Relation(records_of(table.part), tuple(columns), "id", texts, (texts, *needs))
