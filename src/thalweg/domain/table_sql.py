"""What users ask in SQL, PostgreSQL's, whatever the store: tables it may read, bounds, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from thalweg.domain.errors import InvalidParameter, PermissionDenied
from thalweg.domain.tables import Table

MAX_VALUE_BYTES: Final = 4 << 20
"""Longest text or array that an expression may make."""
MAX_ANSWER_BYTES: Final = 32 << 20


class SqlFault(InvalidParameter):
    """A statement that is wrong, or that is not answered. ``message``: what to tell the user.

    is_grammar  whether it is one by its text alone, whatever tables there are
    """

    def __init__(self, message: str, *, is_grammar: bool = False) -> None:
        super().__init__("query", message)
        self.is_grammar = is_grammar or message.startswith(("Invalid", "Query is not"))


class SqlForbidden(PermissionDenied):
    """A function or a table that nobody may use."""


@dataclass(frozen=True, slots=True)
class SqlLimits:
    """``rows``: of the answer, which is cut off there; ``time_s``: of the statement."""

    rows: int = 32_000
    time_s: float = 2.0


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """``fields``, ``records``: JSON, of lists of ``{"id", "type"}`` and of objects; ``truncated``: there were more."""

    fields: bytes
    records: bytes
    truncated: bool


FindTables: TypeAlias = Callable[[tuple[str, ...]], Mapping[str, Table]]


class SqlStore(Protocol):
    """Reading tables by SQL."""

    def sql(self, statement: str, find: FindTables, limits: SqlLimits) -> Future[SqlAnswer]:
        """Run a statement as of the last commit, in a process of its own.

        find    gives the tables of names that the statement uses, and asks whether the caller may read them: what it
                raises comes from the future. Called in another thread, and again when a table was changed meanwhile
        raises  from the future SqlFault, SqlForbidden; StoreUnavailable at once when too many statements wait
        """
        ...
