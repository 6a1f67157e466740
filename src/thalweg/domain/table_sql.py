"""What users ask in SQL, PostgreSQL's, whatever the store: tables it may read, bounds, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from thalweg.domain.blocks import Block
from thalweg.domain.errors import InvalidParameter, PermissionDenied
from thalweg.domain.observations import TrackState
from thalweg.domain.tables import Table
from thalweg.domain.time import Interval

MAX_VALUE_BYTES: Final = 4 << 20
"""Longest text or array that an expression may make."""
MAX_ANSWER_BYTES: Final = 32 << 20
MAX_TEMPORARY_BYTES: Final = 256 << 20
"""Longest file that a statement may sort and group in, where memory does not hold it."""


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


class ObservationReads(Protocol):
    """What a made table reads from where statements run: calls of ``domain.store.Store`` of the same names."""

    def scan(
        self, track_id: int, property_ids: Sequence[int], interval: Interval = ..., *, descending: bool = ...,
        rows: int = ...,
    ) -> Iterator[Block]: ...  # fmt: skip

    def states(self, track_ids: Iterable[int]) -> dict[int, TrackState]: ...

    def rows_before(self, track_id: int, ends: Sequence[int]) -> list[int]: ...

    def end_at(self, track_id: int, position: int) -> int | None: ...

    def together(self) -> AbstractContextManager[None]: ...


class MadeTable(Protocol):
    """A table whose records are made of observations when they are read. To be hashed and pickled: it goes to where
    statements run.

    Its first column is the record's number, an int8, which rises with its second, the record's time, a timestamptz;
    neither is ever null. A number is never less than its time, and by no more than ``spread`` more.
    """

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Names and PostgreSQL's names of types."""
        ...

    @property
    def spread(self) -> int: ...

    def count(self, reads: ObservationReads, interval: Interval) -> int:
        """How many records have a time in the interval, by arithmetic."""
        ...

    def blocks(
        self, reads: ObservationReads, names: Sequence[str], interval: Interval, *, descending: bool = False
    ) -> Iterator[list[tuple[Any, ...]]]:
        """The records whose time lies in the interval, with the columns of these names, in the order of their
        numbers; the first block is a short one. Within ``reads.together()``."""
        ...


FindTables: TypeAlias = Callable[[tuple[str, ...]], Mapping[str, Table | MadeTable]]


class SqlStore(Protocol):
    """Reading tables by SQL."""

    def sql(self, statement: str, find: FindTables, limits: SqlLimits) -> Future[SqlAnswer]:
        """Run a statement as of the last commit, in a process of its own.

        find    gives the tables of names that the statement uses, and asks whether the caller may read them: what it
                raises comes from the future. Called in another thread, and again when a table was changed meanwhile
        raises  from the future SqlFault, SqlForbidden; StoreUnavailable at once when too many statements wait
        """
        ...
