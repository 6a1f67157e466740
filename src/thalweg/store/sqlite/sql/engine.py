"""Statements run on the store's file: translated, prepared under an authorizer that knows what they may touch."""

from __future__ import annotations

import decimal
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import apsw
import orjson

from thalweg.domain.table_sql import MAX_VALUE_BYTES, SqlAnswer, SqlFault
from thalweg.sql.parse import Statement, parse
from thalweg.store.sqlite.connection import connect
from thalweg.store.sqlite.sql.made import Modules, OutOfTime, Reads
from thalweg.store.sqlite.sql.numbers import CONTEXT
from thalweg.store.sqlite.sql.relations import Relation
from thalweg.store.sqlite.sql.rows import BLOCK, Records
from thalweg.store.sqlite.sql.runtime import NAMES, register
from thalweg.store.sqlite.sql.selects import Selects

HEAP_BYTES: Final = 32 << 20
"""Memory of SQLite: sorting, grouping and what is gathered."""
MAX_KEPT: Final = 200
"""Statements that are remembered, parsed and translated."""
MAX_KEPT_TEXT: Final = 10_000
"""Characters of translated statements that are remembered."""
_LIMITS: Final = (
    (apsw.SQLITE_LIMIT_LENGTH, 2 * MAX_VALUE_BYTES),
    (apsw.SQLITE_LIMIT_SQL_LENGTH, 1_000_000),
    (apsw.SQLITE_LIMIT_ATTACHED, 0),
    (apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
    (apsw.SQLITE_LIMIT_TRIGGER_DEPTH, 0),
    (apsw.SQLITE_LIMIT_WORKER_THREADS, 0),
)
_NATIVE: Final = frozenset(
    "abs avg coalesce count cume_dist dense_rank first_value group_concat lag last_value lead max min nth_value ntile "
    "percent_rank rank row_number substr sum match fts5".split()
)
_STEPS: Final = 20_000
"""Of SQLite's machine between looks at the clock: some milliseconds."""


class Moved(Exception):
    """A table was changed since its description was read."""


@dataclass(slots=True)
class Compiled:
    """A statement in SQLite's words. ``asks_time``: it holds the time at which it was translated."""

    sql: str
    bindings: list[Any]
    names: list[str]
    kinds: list[str]
    allowed: frozenset[str]
    asks_time: bool


def compile_statement(statement: Statement, relations: Mapping[str, Relation], now_us: int) -> Compiled:
    """Raises SqlFault."""
    selects = Selects(relations, now_us)
    try:
        sql, columns = selects.statement(statement.select)
    except RecursionError:
        raise SqlFault("Invalid SQL: the statement is nested too deep") from None
    names, kinds = [name for name, _ in columns], [kind for _, kind in columns]
    sql, bindings = _numbered(sql, selects.bindings)
    return Compiled(sql, bindings, names, kinds, frozenset(("", "json_each", *selects.read)), selects.asks_time)


_PARAMETER: Final = re.compile(r"\?([0-9]+)")


def _numbered(sql: str, bindings: list[Any]) -> tuple[str, list[Any]]:
    """Without the constants that are used no more."""
    used = sorted({int(number) for number in _PARAMETER.findall(sql)})
    if len(used) == len(bindings):
        return sql, bindings
    places = {number: place for place, number in enumerate(used, 1)}
    text = _PARAMETER.sub(lambda match: f"?{places[int(match[1])]:d}", sql)
    return text, [bindings[number - 1] for number in used]


class Engine:
    """One connection, for one thread, in a process of its own."""

    def __init__(self, path: Path) -> None:
        decimal.setcontext(CONTEXT)
        apsw.hard_heap_limit(HEAP_BYTES)
        self._connection = connect(path, writer=False)
        register(self._connection)
        # What is sorted and grouped may be more than memory; see process.restrict for how much that may be.
        self._connection.execute("PRAGMA temp_store = FILE")
        for limit, value in _LIMITS:
            self._connection.limit(limit, value)
        self._connection.authorizer = self._authorize
        self._connection.set_progress_handler(self._is_late, _STEPS)
        self._reads = Reads(path)
        self._modules = Modules(self._connection, self._reads)
        self._allowed: frozenset[str] = frozenset()
        self._known: dict[str, Statement] = {}
        self._compiled: dict[str, tuple[dict[str, Relation], Compiled]] = {}
        self._end = 0.0

    def tables(self, sql: str) -> tuple[str, ...]:
        """The tables that a statement names. Raises SqlFault, SqlForbidden."""
        return self._parsed(sql).tables

    def _parsed(self, sql: str) -> Statement:
        found = self._known.get(sql)
        if found is None:
            found = parse(sql)
            if len(self._known) >= MAX_KEPT:
                self._known.clear()
            self._known[sql] = found
        return found

    def _translated(self, sql: str, relations: Mapping[str, Relation]) -> Compiled:
        """Once for what it reads as that is, where the time has no part in it. Raises SqlFault."""
        known = self._compiled.get(sql)
        if known is not None and known[0] == relations:
            return known[1]
        made = compile_statement(self._parsed(sql), relations, time.time_ns() // 1000)
        if not made.asks_time and len(made.sql) <= MAX_KEPT_TEXT:
            if len(self._compiled) >= MAX_KEPT:
                self._compiled.clear()
            self._compiled[sql] = (dict(relations), made)
        return made

    def _is_late(self) -> bool:
        return time.monotonic() > self._end

    def _authorize(
        self, action: int, first: str | None, second: str | None, database: str | None, by: str | None
    ) -> int:
        if action == apsw.SQLITE_SELECT:
            return apsw.SQLITE_OK
        if action == apsw.SQLITE_READ and (first or "") in self._allowed and database in ("main", None, ""):
            return apsw.SQLITE_OK
        if action == apsw.SQLITE_READ and first == "json_each":
            return apsw.SQLITE_OK
        if action == apsw.SQLITE_READ and first is not None and first[:1] in "sqgj" and first[1:].isdigit():
            return apsw.SQLITE_OK
        if action == apsw.SQLITE_FUNCTION and second is not None and (second in NAMES or second.lower() in _NATIVE):
            return apsw.SQLITE_OK
        if action == apsw.SQLITE_TRANSACTION or (action == apsw.SQLITE_PRAGMA and first == "data_version"):
            # The second is how the index of words knows whether it changed.
            return apsw.SQLITE_OK
        return apsw.SQLITE_DENY

    def answer(self, sql: str, relations: Mapping[str, Relation], rows: int, time_s: float) -> SqlAnswer:
        """Raises SqlFault, OutOfTime, Moved, MemoryError."""
        self._end = self._reads.end = time.monotonic() + time_s
        made = [relation.made for relation in relations.values() if relation.made is not None]
        if not made:
            return self._answer(sql, relations, rows)
        sources = self._modules.names(made)
        named = {
            name: relation if relation.made is None else replace(relation, source=sources[relation.made])
            for name, relation in relations.items()
        }
        with self._reads.beside(self._connection):
            return self._answer(sql, named, rows)

    def _answer(self, sql: str, relations: Mapping[str, Relation], rows: int) -> SqlAnswer:
        compiled = self._translated(sql, relations)
        self._allowed = compiled.allowed
        records = Records(compiled.names, compiled.kinds)
        count = 0
        truncated = False
        cursor = self._connection.cursor()
        try:
            found = cursor.execute(compiled.sql, compiled.bindings)
            block: list[Any] = []
            for row in found:
                count += 1
                if count > rows:
                    truncated = True
                    break
                block.append(row)
                if len(block) >= BLOCK:
                    records.add(block)
                    block = []
            records.add(block)
        except apsw.InterruptError:
            raise OutOfTime from None
        except apsw.NoMemError:
            raise SqlFault("the statement takes more memory than it may; ask for less at once") from None
        except OverflowError:
            # What a function gives is no integer of SQLite's.
            raise SqlFault("bigint out of range") from None
        except (apsw.FullError, apsw.IOError) as error:
            if isinstance(error, apsw.IOError) and getattr(error, "extendedresult", 0) != apsw.SQLITE_IOERR_WRITE:
                raise
            # Nothing is written but what is sorted and grouped.
            raise SqlFault("the statement sorts or groups more than it may; ask for less at once") from None
        except apsw.TooBigError:
            raise SqlFault("a value is longer than it may be") from None
        except apsw.SQLError as error:
            raise _meant(error) from error
        except SystemError as error:
            # What fails in the step of an aggregate is told when the next row of a made table is asked for.
            cause: BaseException = error
            while isinstance(cause, SystemError) and cause.__cause__ is not None:
                cause = cause.__cause__
            raise cause from None
        finally:
            cursor.close()
        fields = [{"id": name, "type": kind} for name, kind in zip(compiled.names, compiled.kinds, strict=True)]
        return SqlAnswer(orjson.dumps(fields), records.json(), truncated)


def _meant(error: apsw.SQLError) -> BaseException:
    said = str(error)
    if "no such table: record_" in said or "no such column: t" in said:
        return Moved()
    if "integer overflow" in said:
        return SqlFault("bigint out of range")
    if "too many columns" in said or "Expression tree is too large" in said or "parser stack" in said:
        return SqlFault("the statement is too large or nested too deep")
    if "at most 64 tables in a join" in said:
        return SqlFault("too many tables are joined")
    return error
