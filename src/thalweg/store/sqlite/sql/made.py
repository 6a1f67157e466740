"""Tables that are made of observations when they are read, as virtual tables of SQLite.

Conditions on the number and the time become the interval that is read; the order by either is the one that rows come
in. Everything else SQLite does with the rows. They are read by a connection of their own, which holds one snapshot for
the whole statement.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

import apsw
import orjson

from thalweg.domain.blocks import Block
from thalweg.domain.errors import StoreUnavailable
from thalweg.domain.observations import TrackState
from thalweg.domain.store import MAX_BLOCK_ROWS
from thalweg.domain.table_sql import MadeTable
from thalweg.domain.time import ALL_TIME, Interval
from thalweg.store.sqlite.connection import Readers
from thalweg.store.sqlite.positions import Positions
from thalweg.store.sqlite.reading import ObservationReader
from thalweg.store.sqlite.sql.relations import COUNTED, NUMBER, STEPS, TIME

MAX_MODULES: Final = 100
"""Made tables that a process keeps ready between statements; where more would be there, all are given up."""
_TRIES: Final = 5
"""To begin the snapshots of both connections without a commit between them."""
_FIRST: Final = 0
_SECOND: Final = 1
_LAST_BIT: Final = 63
"""Of the columns that are used: it means any from there on."""
_BOUNDS: Final = {
    apsw.SQLITE_INDEX_CONSTRAINT_EQ: "=",
    apsw.SQLITE_INDEX_CONSTRAINT_GT: ">",
    apsw.SQLITE_INDEX_CONSTRAINT_GE: ">=",
    apsw.SQLITE_INDEX_CONSTRAINT_LT: "<",
    apsw.SQLITE_INDEX_CONSTRAINT_LE: "<=",
}


class OutOfTime(Exception):
    """A statement that took longer than it may."""


class Reads:
    """See ``domain.table_sql.ObservationReads``: on a connection of its own."""

    def __init__(self, path: Path) -> None:
        self._readers = Readers(path)
        self._observations = ObservationReader(self._readers)
        self._positions = Positions(self._readers)
        self.end = 0.0
        """By the monotonic clock: when the statement is out of time."""

    def scan(
        self,
        track_id: int,
        property_ids: Sequence[int],
        interval: Interval = ALL_TIME,
        *,
        descending: bool = False,
        rows: int = MAX_BLOCK_ROWS,
    ) -> Iterator[Block]:
        self.check()
        return self._observations.scan(track_id, property_ids, interval, descending=descending, rows=rows)

    def states(self, track_ids: Iterable[int]) -> dict[int, TrackState]:
        return self._observations.states(track_ids)

    def rows_before(self, track_id: int, ends: Sequence[int]) -> list[int]:
        self.check()
        return self._positions.rows_before(track_id, ends)

    def end_at(self, track_id: int, position: int) -> int | None:
        self.check()
        return self._positions.end_at(track_id, position)

    def check(self) -> None:
        """Raises OutOfTime."""
        if time.monotonic() > self.end:
            raise OutOfTime

    @contextmanager
    def together(self) -> Iterator[None]:
        with self._readers.held():
            yield

    @contextmanager
    def beside(self, connection: apsw.Connection) -> Iterator[None]:
        """Hold one state of the store, and have a connection hold the same one. Raises StoreUnavailable."""
        for _ in range(_TRIES):
            before = self._version()
            connection.execute("BEGIN")
            try:
                # A read begins the snapshot.
                connection.execute("PRAGMA data_version").fetchall()
                with self._readers.held():
                    if self._version() == before:
                        yield
                        return
            finally:
                # A statement that was ended took it along.
                if connection.in_transaction:
                    connection.execute("COMMIT")
        raise StoreUnavailable("The store is written to all the time; try again later.")

    def _version(self) -> int:
        return int(self._readers.rows("PRAGMA data_version")[0][0])


class Modules:
    """The made tables that a connection knows, each by a name of its own."""

    def __init__(self, connection: apsw.Connection, reads: Reads) -> None:
        self._connection = connection
        self._reads = reads
        self._names: dict[MadeTable, str] = {}
        self._given = 0

    def names(self, wanted: Iterable[MadeTable]) -> dict[MadeTable, str]:
        """The names of all that one statement reads, together: making room for one must not give up another."""
        asked = dict.fromkeys(wanted)
        if len(self._names.keys() | asked.keys()) > MAX_MODULES:
            for old in self._names.values():
                self._connection.create_module(old, None)
                self._connection.create_module(old + COUNTED, None)
            self._names.clear()
        return {made: self._name(made) for made in asked}

    def _name(self, made: MadeTable) -> str:
        found = self._names.get(made)
        if found is None:
            self._given += 1
            found = self._names[made] = f"made_{self._given:d}"
            # One that is there by its name alone needs no more than Connect.
            for name, module in ((found, _Module(made, self._reads)), (found + COUNTED, _Counting(made, self._reads))):
                given: Any = module
                self._connection.create_module(
                    name, given, use_bestindex_object=True, eponymous_only=True, read_only=True
                )
        return found


class _Module:
    def __init__(self, made: MadeTable, reads: Reads) -> None:
        self._made = made
        self._reads = reads

    def Connect(self, *_: Any) -> tuple[str, _Table]:  # noqa: N802 (apsw's name)
        named = (f"{NUMBER} INTEGER NOT NULL", f"{TIME} INTEGER NOT NULL")
        others = (f"v{place:d}" for place in range(2, len(self._made.columns)))
        steps = (f"s{place:d} INTEGER NOT NULL" for place in range(len(STEPS)))
        return f"CREATE TABLE made({', '.join((*named, *others, *steps))})", _Table(self._made, self._reads)


class _Table:
    """What SQLite asks before it reads."""

    def __init__(self, made: MadeTable, reads: Reads) -> None:
        self.made = made
        self.reads = reads

    def BestIndexObject(self, info: apsw.IndexInfo) -> bool:  # noqa: N802 (apsw's name)
        bounds: list[tuple[int, str]] = []
        for place in range(info.nConstraint):
            column = info.get_aConstraint_iColumn(place)
            bound = _BOUNDS.get(info.get_aConstraint_op(place))
            if column in (_FIRST, _SECOND) and bound is not None and info.get_aConstraint_usable(place):
                bounds.append((column, bound))
                info.set_aConstraintUsage_argvIndex(place, len(bounds))
        rows = 1e6
        signs = {bound[:1] for _, bound in bounds}
        if "=" in signs:
            rows = 2.0
        else:
            rows /= 30.0 ** len(signs)
        info.estimatedRows = int(rows)
        info.estimatedCost = 200.0 + rows
        orders = [(info.get_aOrderBy_iColumn(i), info.get_aOrderBy_desc(i)) for i in range(info.nOrderBy)]
        descending = bool(orders) and orders[0][1]
        if orders and self._is_ordered(orders):
            info.orderByConsumed = True
        else:
            descending = False
        count = len(self.made.columns)
        used = sorted(place for place in info.colUsed if _SECOND < place < min(count, _LAST_BIT))
        if _LAST_BIT in info.colUsed:
            used.extend(range(_LAST_BIT, count))
        info.idxStr = orjson.dumps([bounds, used, descending]).decode()
        return True

    def _is_ordered(self, orders: Sequence[tuple[int, bool]]) -> bool:
        """By steps of the time, or by the number, or by the time and then the number, each in the same direction. What
        else comes after the number does not count for rows whose numbers are their own, but numbers may be shared."""
        if len({descending for _, descending in orders}) > 1:
            return False
        columns = [column for column, _ in orders]
        if columns[0] >= len(self.made.columns):
            columns.pop(0)
        return columns in ([], [_FIRST], [_SECOND], [_SECOND, _FIRST], [_FIRST, _SECOND])

    def Open(self) -> _Cursor:  # noqa: N802 (apsw's name)
        return _Cursor(self)

    def Disconnect(self) -> None:  # noqa: N802 (apsw's name)
        """Nothing is held."""

    Destroy = Disconnect


class _Counting:
    """How many rows a made table has: a table of one row, of which conditions on the time are asked."""

    def __init__(self, made: MadeTable, reads: Reads) -> None:
        self._made = made
        self._reads = reads

    def Connect(self, *_: Any) -> tuple[str, _Counted]:  # noqa: N802 (apsw's name)
        return f"CREATE TABLE counted(n INTEGER NOT NULL, {TIME} INTEGER HIDDEN)", _Counted(self._made, self._reads)


class _Counted:
    """The table and the cursor over its row."""

    def __init__(self, made: MadeTable, reads: Reads) -> None:
        self._made = made
        self._reads = reads
        self._count = 0
        self._is_over = True

    def BestIndexObject(self, info: apsw.IndexInfo) -> bool:  # noqa: N802 (apsw's name)
        """Conditions are all used up here: there is no row that SQLite could look at."""
        bounds: list[tuple[int, str]] = []
        for place in range(info.nConstraint):
            bound = _BOUNDS.get(info.get_aConstraint_op(place))
            if info.get_aConstraint_iColumn(place) != _SECOND or bound is None:
                continue
            if not info.get_aConstraint_usable(place):
                return False
            bounds.append((_SECOND, bound))
            info.set_aConstraintUsage_argvIndex(place, len(bounds))
            info.set_aConstraintUsage_omit(place, True)
        info.estimatedRows, info.estimatedCost = 1, 1.0
        info.idxStr = orjson.dumps(bounds).decode()
        return True

    def Open(self) -> _Counted:  # noqa: N802 (apsw's name)
        return _Counted(self._made, self._reads)

    def Disconnect(self) -> None:  # noqa: N802 (apsw's name)
        """Nothing is held."""

    Destroy = Close = Disconnect

    def Filter(self, _: int, text: str, values: tuple[Any, ...]) -> None:  # noqa: N802 (apsw's name)
        self._reads.check()
        interval = interval_of(orjson.loads(text), values, 0)
        self._count = 0 if interval is None else self._made.count(self._reads, interval)
        self._is_over = False

    def Next(self) -> None:  # noqa: N802 (apsw's name)
        self._is_over = True

    def Eof(self) -> bool:  # noqa: N802 (apsw's name)
        return self._is_over

    def Column(self, number: int) -> int | None:  # noqa: N802 (apsw's name)
        return self._count if number == _FIRST else None

    def Rowid(self) -> int:  # noqa: N802 (apsw's name)
        return 1


class _Plan:
    """What was agreed upon with SQLite: columns to read (number and time always, first), conditions, direction."""

    def __init__(self, made: MadeTable, text: str) -> None:
        bounds, used, self.descending = orjson.loads(text)
        read = (_FIRST, _SECOND, *used)
        self.names = [made.columns[place][0] for place in read]
        self.places = [0] * len(made.columns)
        for place, column in enumerate(read):
            self.places[column] = place
        self._bounds: list[tuple[int, str]] = bounds
        self._spread = made.spread
        self.is_lookup = any(sign == "=" for _, sign in bounds)

    def interval(self, values: Sequence[Any]) -> Interval | None:
        return interval_of(self._bounds, values, self._spread)


def interval_of(bounds: Sequence[tuple[int, str]], values: Sequence[Any], spread: int) -> Interval | None:
    """The times of all rows that can fulfil the conditions; None: there are none. Those on numbers are wider than
    what is asked for, so that SQLite checks each row, too."""
    begin, end = ALL_TIME.begin_us, ALL_TIME.end_us
    for (column, sign), value in zip(bounds, values, strict=True):
        if value is None:
            return None
        if not isinstance(value, int):
            continue
        first, last = value, value + 1
        if sign == ">":
            first += 1
        elif sign == "<":
            last -= 1
        if column == _FIRST:
            first -= spread
        if sign in ("=", ">", ">="):
            begin = max(begin, first)
        if sign in ("=", "<", "<="):
            end = min(end, last)
    return Interval(begin, end) if begin < end else None


class _Cursor:
    """One reading of a made table, or many look-ups in it."""

    def __init__(self, table: _Table) -> None:
        self._made = table.made
        self._reads = table.reads
        self._plans: dict[str, _Plan] = {}
        self._blocks: Iterator[list[tuple[Any, ...]]] = iter(())
        self._rows: list[tuple[Any, ...]] = []
        self._row: tuple[Any, ...] = ()
        self._next = 0
        self._is_over = True
        self._places: list[int] = []
        self._kept: _Kept | None = None

    def Filter(self, _: int, text: str, values: tuple[Any, ...]) -> None:  # noqa: N802 (apsw's name)
        plan = self._plans.get(text)
        if plan is None:
            plan = self._plans[text] = _Plan(self._made, text)
            self._kept = None
        self._places = plan.places
        interval = plan.interval(values)
        self._rows, self._next, self._is_over = [], 0, False
        if interval is None:
            self._blocks = iter(())
        elif plan.is_lookup:
            self._blocks = self._looked_up(plan, interval)
        else:
            self._blocks = self._made.blocks(self._reads, plan.names, interval, descending=plan.descending)
        self.Next()

    def _looked_up(self, plan: _Plan, interval: Interval) -> Iterator[list[tuple[Any, ...]]]:
        """Rows of one time, from those around it that are kept: a join asks for one time after the other."""
        kept = self._kept
        if kept is None or not kept.holds(interval):
            goes_on = kept is not None and kept.end_us <= interval.end_us
            kept = self._kept = _Kept(self._made, self._reads, plan, interval.begin_us, goes_on)
        if not kept.holds(interval):
            # More rows share a time than are kept.
            return self._made.blocks(self._reads, plan.names, interval, descending=plan.descending)
        found = kept.rows[bisect_left(kept.times, interval.begin_us) : bisect_left(kept.times, interval.end_us)]
        return iter((found[::-1] if plan.descending else found,))

    def Next(self) -> None:  # noqa: N802 (apsw's name)
        try:
            self._row = self._rows[self._next]
            self._next += 1
        except IndexError:
            for block in self._blocks:
                self._reads.check()
                if block:
                    self._rows, self._row, self._next = block, block[0], 1
                    return
            self._is_over = True

    def Eof(self) -> bool:  # noqa: N802 (apsw's name)
        return self._is_over

    def Column(self, number: int) -> Any:  # noqa: N802 (apsw's name)
        try:
            return self._row[self._places[number]]
        except IndexError:
            length, origin = STEPS[number - len(self._places)]
            us: int = self._row[_SECOND]
            return us - (us - origin) % length

    def Rowid(self) -> int:  # noqa: N802 (apsw's name)
        """Tells rows apart whose numbers are the same, too: those have other times."""
        return hash(self._row[:2])

    def Close(self) -> None:  # noqa: N802 (apsw's name)
        self._blocks, self._rows, self._kept = iter(()), [], None


class _Kept:
    """Some rows from a time on, in order: a short block of them, or, where look-ups go on in time, a long one, too.
    Those of [begin, end) are all there."""

    __slots__ = ("begin_us", "end_us", "rows", "times")

    def __init__(self, made: MadeTable, reads: Reads, plan: _Plan, begin_us: int, goes_on: bool) -> None:
        blocks = made.blocks(reads, plan.names, Interval(begin_us, ALL_TIME.end_us))
        wanted = 2 if goes_on else 1
        found = list(islice(blocks, wanted))
        self.rows = [row for block in found for row in block]
        self.times: list[int] = [row[_SECOND] for row in self.rows]
        self.begin_us = begin_us
        # There may be more of the last one's time.
        self.end_us = ALL_TIME.end_us if len(found) < wanted or not self.times else self.times[-1]

    def holds(self, interval: Interval) -> bool:
        return self.begin_us <= interval.begin_us and interval.end_us <= self.end_us
