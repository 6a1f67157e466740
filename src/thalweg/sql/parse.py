"""From the text of a statement to a checked tree of PostgreSQL's own grammar.

What comes out is one SELECT made of the nodes of ``NODES`` alone, that calls functions of an allow-list alone, nested
no deeper than ``MAX_DEPTH``; and the names of the tables it reads. What is a column, which types go together and what
a statement means is not looked at here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pgparse

from thalweg.domain.table_sql import SqlFault, SqlForbidden
from thalweg.sql.allowed import FUNCTIONS, SYNTAX

MAX_SQL_BYTES: Final = 20_000
"""Longest text: a parser's work and memory grow with it."""
MAX_DEPTH: Final = 150
"""Deepest nesting of the tree, lists included. Three or four levels go to one level of parentheses with a call."""
MAX_NODES: Final = 20_000
MAX_TABLES: Final = 20
"""Most mentions of tables in one statement: each multiplies the rows of a join."""

Node = dict[str, Any]

NODES: Final = frozenset(
    (
        "SelectStmt ResTarget ColumnRef A_Star A_Expr A_Const FuncCall TypeCast CaseExpr CaseWhen CoalesceExpr "
        "MinMaxExpr NullTest BooleanTest BoolExpr SubLink A_ArrayExpr A_Indirection A_Indices SQLValueFunction "
        "RangeVar RangeSubselect RangeFunction JoinExpr SortBy WindowDef CommonTableExpr List String Integer Float "
        "TypeName CollateClause NamedArgExpr RowExpr"
    ).split()
)
"""Kinds of nodes that a statement may be made of. A few are refused later on with a reason of their own."""
_REFUSED_PARTS: Final = {
    "intoClause": "IntoClause",
    "lockingClause": "LockingClause",
    "search_clause": "CTESearchClause",
    "cycle_clause": "CTECycleClause",
}


@dataclass(frozen=True, slots=True)
class Statement:
    """A checked statement: the SELECT's tree, and the tables it reads, each once, in the order of their mention."""

    select: Node
    tables: tuple[str, ...]


def parse(sql: str) -> Statement:
    """Raises SqlFault, SqlForbidden."""
    try:
        size = len(sql.encode())
    except UnicodeEncodeError:
        raise SqlFault("Invalid SQL: the text holds half of a surrogate pair, which is no character") from None
    if size > MAX_SQL_BYTES:
        raise SqlFault(f"Invalid SQL: the text is longer than {MAX_SQL_BYTES:,} bytes")
    if "\0" in sql:
        raise SqlFault("Invalid SQL: the text holds the character NUL")
    try:
        statements = pgparse.parse(sql)
    except pgparse.PGQueryError as error:
        raise SqlFault(f"Invalid SQL: {error.message}, at index {max(error.position - 1, 0)}") from None
    except RecursionError:
        raise _too_deep() from None
    if not statements:
        raise SqlFault("Query is not a single statement")
    if len(statements) > 1:
        raise SqlFault("Query is not a single statement")
    ((kind, body),) = statements[0]["stmt"].items()
    if kind != "SelectStmt":
        raise SqlFault(f"Invalid query AST element: {kind}")
    checker = _Checker()
    checker.select(body, frozenset(), 1)
    return Statement(body, tuple(checker.tables))


@lru_cache(500)
def is_free(word: str) -> bool:
    """Whether a word of small letters is no keyword, or one that may name a table and a function: quote_ident() leaves
    those as they are."""
    try:
        pgparse.parse(f"SELECT FROM {word}")
        pgparse.parse(f"CREATE FUNCTION {word}() RETURNS int AS ''")
    except pgparse.PGQueryError:
        return False
    return True


def _too_deep() -> SqlFault:
    return SqlFault(f"Invalid SQL: the statement is nested deeper than {MAX_DEPTH}")


class _Checker:
    def __init__(self) -> None:
        self.tables: dict[str, None] = {}
        self._mentions = 0
        self._nodes = 0

    def select(self, body: Node, known: frozenset[str], depth: int) -> None:
        """``known``: names of WITH queries that are in sight."""
        with_clause = body.get("withClause")
        if with_clause:
            if with_clause.get("recursive"):
                raise SqlFault("Invalid query AST element: WITH RECURSIVE")
            for wrapped in with_clause["ctes"]:
                cte = wrapped["CommonTableExpr"]
                self._walk(wrapped, known, depth + 1)
                known = known | {cte["ctename"]}
        for key, value in body.items():
            if key in _REFUSED_PARTS and value:
                raise SqlFault(f"Invalid query AST element: {_REFUSED_PARTS[key]}")
            if key in ("larg", "rarg"):
                self.select(value, known, depth + 1)
            elif key != "withClause":
                self._walk(value, known, depth + 1)

    def _walk(self, value: Any, known: frozenset[str], depth: int) -> None:
        if depth > MAX_DEPTH:
            raise _too_deep()
        if isinstance(value, list):
            for item in value:
                self._walk(item, known, depth + 1)
            return
        if not isinstance(value, dict):
            return
        # Where something stands says nothing of what it is.
        value.pop("location", None)
        for key, item in value.items():
            if key in _REFUSED_PARTS and item:
                raise SqlFault(f"Invalid query AST element: {_REFUSED_PARTS[key]}")
            if key[:1].isupper():
                self._node(key, item, known, depth)
            else:
                self._walk(item, known, depth + 1)

    def _node(self, kind: str, item: Any, known: frozenset[str], depth: int) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise SqlFault(f"Invalid SQL: the statement has more than {MAX_NODES:,} parts")
        if kind not in NODES:
            raise SqlFault(f"Invalid query AST element: {kind}")
        if kind == "SelectStmt":
            self.select(item, known, depth + 1)
            return
        if kind == "RangeVar":
            self._table(item, known)
        elif kind == "FuncCall":
            self._function(item)
        self._walk(item, known, depth + 1)

    def _table(self, item: Node, known: frozenset[str]) -> None:
        name, schema = item["relname"], item.get("schemaname", "")
        if item.get("catalogname") or schema not in ("", "public") or name.startswith("pg_"):
            raise SqlForbidden("Not authorized to access system tables")
        if not schema and name in known:
            return
        self._mentions += 1
        if self._mentions > MAX_TABLES:
            raise SqlFault(f"Invalid SQL: tables are named more than {MAX_TABLES} times")
        self.tables[name] = None

    def _function(self, item: Node) -> None:
        names = [part["String"]["sval"] for part in item["funcname"]]
        if len(names) == 2 and names[0] == "pg_catalog" and names[1] in SYNTAX:
            return
        if item.get("funcformat") == "COERCE_SQL_SYNTAX" and len(names) == 2:
            # What the grammar itself makes of EXTRACT, POSITION, TRIM, AT TIME ZONE ...; nobody can write it.
            names = names[1:]
        if len(names) != 1 or names[0] not in FUNCTIONS:
            raise SqlForbidden(f"Not authorized to call function {'.'.join(names)[:200]}")


def walk(value: Any) -> Iterator[tuple[str, Node]]:
    """All nodes of a tree, not those of inner SELECTs."""
    if isinstance(value, list):
        for item in value:
            yield from walk(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key[:1].isupper() and isinstance(item, dict):
                yield key, item
                if key == "SelectStmt":
                    continue
            yield from walk(item)
