"""What a statement's parts are made of while it is translated: expressions, columns, and what is in sight where."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from thalweg.domain.table_sql import SqlFault
from thalweg.store.sqlite.sql.relations import Relation

Node = dict[str, Any]


@dataclass(frozen=True, slots=True)
class E:
    """An expression: SQLite's text for it and PostgreSQL's type.

    literal  of a constant its value, as the store keeps it; of one of type ``unknown`` its text, or None for NULL
    """

    sql: str
    kind: str
    literal: Any = None
    is_constant: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column that can be named. ``of``: alias of the item it is of, which determines it where its key is grouped."""

    name: str
    expression: E
    of: str


@dataclass(slots=True)
class Item:
    """A table, subquery, or call in FROM.

    alias     in SQLite's text
    name      by which it is called
    relation  what it reads; None: a subquery or a call
    """

    alias: str
    name: str
    columns: list[Column]
    relation: Relation | None = None


@dataclass(slots=True)
class Cte:
    alias: str
    columns: list[tuple[str, str]]


@dataclass(slots=True)
class Grouping:
    """What rows are put together by: texts of expressions, and aliases of tables whose ``_id`` is among them."""

    texts: set[str] = field(default_factory=set)
    tables: set[str] = field(default_factory=set)
    has_expressions: bool = False


@dataclass(slots=True)
class Scope:
    """What can be named at a place, and then what can be around it."""

    parent: Scope | None
    items: list[Item] = field(default_factory=list)
    merged: list[Column] = field(default_factory=list)
    ctes: dict[str, Cte] = field(default_factory=dict)
    grouping: Grouping | None = None
    aggregates: str = ""
    """Why there can be no aggregates here; empty: there can."""
    in_aggregate: int = 0
    windows: dict[str, Node] = field(default_factory=dict)
    touched: int = 0
    series: list[str] = field(default_factory=list)
    given: dict[str, E] = field(default_factory=dict)
    expands: str = ""
    """Why functions that give several rows cannot be called here; empty: they can."""

    def cte(self, name: str) -> Cte | None:
        scope: Scope | None = self
        while scope is not None:
            found = scope.ctes.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None

    def column(self, name: str, qualifier: str = "") -> E:
        """Raises SqlFault: no such column, or several."""
        scope: Scope | None = self
        while scope is not None:
            found = scope._own(name, qualifier)
            if found is not None:
                scope.touched += 1
                scope._check_grouped(found, name, qualifier)
                return found.expression
            scope = scope.parent
        if qualifier:
            if self._has_item(qualifier):
                raise SqlFault(f"column {qualifier}.{name} does not exist")
            raise SqlFault(f'missing FROM-clause entry for table "{qualifier}"')
        raise SqlFault(f'column "{name}" does not exist')

    def _has_item(self, name: str) -> bool:
        scope: Scope | None = self
        while scope is not None:
            if any(item.name == name for item in scope.items):
                return True
            scope = scope.parent
        return False

    def _own(self, name: str, qualifier: str) -> Column | None:
        if not qualifier:
            merged = [column for column in self.merged if column.name == name]
            if merged:
                return merged[0]
        found = [
            column
            for item in self.items
            if not qualifier or item.name == qualifier
            for column in item.columns
            if column.name == name
        ]
        if len(found) > 1:
            raise SqlFault(f'column reference "{name}" is ambiguous')
        return found[0] if found else None

    def _check_grouped(self, column: Column, name: str, qualifier: str) -> None:
        grouping = self.grouping
        if grouping is None or self.in_aggregate:
            return
        if column.expression.sql in grouping.texts or column.of in grouping.tables:
            return
        shown = f"{qualifier}.{name}" if qualifier else name
        raise SqlFault(f'column "{shown}" must appear in the GROUP BY clause or be used in an aggregate function')

    def item(self, name: str) -> Item | None:
        scope: Scope | None = self
        while scope is not None:
            for item in scope.items:
                if item.name == name:
                    return item
            scope = scope.parent
        return None
