"""Reading records: pages with exact totals, any offset at the same cost, and all of a query in blocks."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import apsw
import orjson

from thalweg.domain.errors import NotFound, TooLarge
from thalweg.domain.tables import ROW_ID, Page, Table, TableFigures, TableQuery
from thalweg.store.sqlite.connection import Readers, Row, TooLong
from thalweg.store.sqlite.table_cells import decode_rows
from thalweg.store.sqlite.table_log import BLOCK_BITS
from thalweg.store.sqlite.table_plan import RANK, Plan, plan
from thalweg.store.sqlite.table_shape import records_of, texts_of

ATTEMPT_STEPS: Final = 20_000
"""Most that a search takes of the time of all who wait at the event loop: three for each record that an index has, six
or more for one that is read, in all some 0.2 ms where pages are in memory."""
ATTEMPT_S: Final = 0.003
"""The same where they are not."""
BLOCK_ROWS: Final = 2_000
"""Rows of one block of ``records``: as many as the processor's cache holds."""
MAX_DISTINCT: Final = 1_000_000
"""Most different rows that ``records`` gathers: they are held while they are given out."""
MAX_KEPT: Final = 256
"""Tables whose blocks a process remembers; those of ten million records take 160 KB."""

FIGURES: Final = "SELECT count, generation, next_id FROM table_state WHERE table_id = ?"
SHAPE: Final = "SELECT shape, count, next_id FROM table_state WHERE table_id = ?"
BLOCKS: Final = "SELECT block, count FROM table_block WHERE table_id = ? AND block >= ? ORDER BY block"


class Blocks:
    """How many records lie before each block, as of some state; true of all later ones of the same shape, as records
    are only added at the end.

    shape, next_id  of that state
    """

    __slots__ = ("before", "next_id", "numbers", "shape", "total")

    def __init__(self, shape: int, next_id: int, rows: list[Row]) -> None:
        self.shape = shape
        self.next_id = next_id
        self.numbers = array("q")
        self.before = array("q")
        total = 0
        for number, count in rows:
            self.numbers.append(number)
            self.before.append(total)
            total += count
        self.total = total

    def locate(self, position: int) -> tuple[int, int]:
        """Where the record at a position (below ``total``) is: a number to begin at, and how many records to pass from
        there; none where the block has no gaps."""
        place = bisect_right(self.before, position) - 1
        first = self.numbers[place] << BLOCK_BITS
        behind = self.before[place + 1] if place + 1 < len(self.before) else self.total
        count, skip = behind - self.before[place], position - self.before[place]
        begin = max(first, 1)
        if count == min(first + (1 << BLOCK_BITS), self.next_id) - begin:
            return begin + skip, 0
        return begin, skip


class TableReader:
    """Reads of one store; for all threads."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._blocks: dict[int, Blocks] = {}

    def figures(self, table: Table) -> TableFigures:
        rows = self._readers.rows(FIGURES, (table.id,))
        return TableFigures(*rows[0]) if rows else TableFigures(0, 0, 1)

    def search(self, table: Table, query: TableQuery) -> PreparedSearch:
        return PreparedSearch(self._readers, self, plan(table, query), query.total)

    def known_blocks(self, table_id: int) -> Blocks | None:
        return self._blocks.get(table_id)

    def blocks(self, table_id: int, shape: int, next_id: int) -> Blocks:
        """The blocks inside a snapshot."""
        rows = self._readers.mine().rows(BLOCKS, (table_id, 0))
        if len(self._blocks) >= MAX_KEPT:
            self._blocks.clear()
        self._blocks[table_id] = found = Blocks(shape, next_id, rows)
        return found

    # -------------------------------------------------------------- everything

    def records(self, table: Table, query: TableQuery) -> Iterator[list[Row]]:
        """See ``TableStore.records``."""
        made, blocks = self._blocks_of(table, query)
        return (
            decode_rows([row[skipped:] for row in rows] if skipped else rows, made.decoders) for skipped, rows in blocks
        )

    def columns(self, table: Table, query: TableQuery) -> Iterator[list[Sequence[Any]]]:
        """See ``TableStore.record_columns``."""
        made, blocks = self._blocks_of(table, query)
        return (_columns(made, rows, skipped) for skipped, rows in blocks)

    def _blocks_of(self, table: Table, query: TableQuery) -> tuple[Plan, Iterator[tuple[int, list[Row]]]]:
        """How rows are made, and blocks of them as SQLite gives them, each with how many values lie before those that
        are asked for."""
        if query.fields is None:
            query = replace(query, fields=(ROW_ID, *(field.name for field in table.fields)))
        made = plan(table, query)
        if made.never or query.limit == 0:
            return made, iter(())
        if RANK in made.columns:
            # Its value is known only while words are looked for.
            raise TooLarge("Ranks are told of pages alone, not of all records.")
        if made.distinct:
            return made, self._distinct(made, query)
        return made, self._by_id(made, query) if made.by_id else self._sorted(made, query)

    def _by_id(self, made: Plan, query: TableQuery) -> Iterator[tuple[int, list[Row]]]:
        rising = made.by_id > 0
        skipped = 0 if made.columns[:1] == (ROW_ID,) else 1
        plain = with_number(made) if skipped else made
        last = self.figures(made.table).next_id - 1
        # The index of words goes on from a number as well as the records do, if it is told so.
        by = "r.id" if made.match is None else f"{texts_of(made.table.part)}.rowid"
        statement = plain.rows_statement(f"{by} > ? AND {by} <= ?" if rising else f"{by} < ? AND {by} >= ?")
        place, end = (0, last) if rising else (last + 1, 0)
        left, offset = query.limit, query.offset
        if offset and made.is_plain:
            with self._readers.mine().snapshot():
                shape, count, next_id = self._readers.mine().rows(SHAPE, (made.table.id,))[0]
                if offset >= count:
                    return
                blocks = self.blocks(made.table.id, shape, next_id)
                number, offset = blocks.locate(offset if rising else count - 1 - offset)
                if rising:
                    place = number - 1
                else:
                    # From the end it is a walk within the block, at most.
                    rows = self._readers.mine().rows(
                        f"SELECT id FROM {records_of(made.table.part)} WHERE id >= ? ORDER BY id LIMIT 1 OFFSET ?",
                        (number, offset),
                    )
                    place, offset = rows[0][0] + 1, 0
        while left:
            wanted = BLOCK_ROWS if left < 0 else min(BLOCK_ROWS, left)
            rows = ask(self._readers, made.table, statement, (*made.bindings, place, end, wanted, offset))
            offset = 0
            if not rows:
                return
            place = rows[-1][0]
            yield skipped, rows
            if len(rows) < wanted:
                return
            left = left - len(rows) if left > 0 else left

    def _sorted(self, made: Plan, query: TableQuery) -> Iterator[tuple[int, list[Row]]]:
        where = f" WHERE {made.where}" if made.where else ""
        numbers = array("q")
        found = ask(
            self._readers, made.table, f"SELECT r.id FROM {made.source}{where} ORDER BY {made.order} LIMIT ? OFFSET ?",
            (*made.bindings, query.limit, query.offset),
        )  # fmt: skip
        numbers.extend(row[0] for row in found)
        del found
        statement = (
            f"SELECT {made.selected} FROM json_each(?) j JOIN {records_of(made.table.part)} r ON r.id = j.value "
            "ORDER BY j.key"
        )
        for start in range(0, len(numbers), BLOCK_ROWS):
            text = orjson.dumps(numbers[start : start + BLOCK_ROWS].tolist()).decode()
            rows = ask(self._readers, made.table, statement, (text,))
            if rows:
                yield 0, rows

    def _distinct(self, made: Plan, query: TableQuery) -> Iterator[tuple[int, list[Row]]]:
        limit = MAX_DISTINCT + 1 if query.limit < 0 else min(query.limit, MAX_DISTINCT + 1)
        rows = ask(self._readers, made.table, made.rows_statement(), (*made.bindings, limit, query.offset))
        if len(rows) > MAX_DISTINCT:
            raise TooLarge(f"There are more than {MAX_DISTINCT:,} different rows; ask for them in pages.")
        for start in range(0, len(rows), BLOCK_ROWS):
            yield 0, rows[start : start + BLOCK_ROWS]


def _columns(made: Plan, rows: list[Row], skipped: int) -> list[Sequence[Any]]:
    found: list[Sequence[Any]] = []
    found += zip(*rows, strict=True)
    del found[:skipped]
    for place, decode in made.decoders:
        found[place] = [None if value is None else decode(value) for value in found[place]]
    return found


def with_number(made: Plan) -> Plan:
    """The same plan with the record's number before its columns."""
    return replace(made, selected=f"r.id, {made.selected}" if made.selected else "r.id")


def ask(readers: Readers, table: Table, statement: str, bindings: tuple[Any, ...]) -> list[Row]:
    """Rows of a statement on a table's part. Raises NotFound once the part is gone."""
    try:
        return readers.mine().rows(statement, bindings)
    except apsw.SQLError as error:
        raise _moved(table, error) from error


def _moved(table: Table, error: BaseException) -> BaseException:
    if "no such table" in str(error) or "no such column" in str(error):
        return NotFound("resource_id", f'The records of the resource "{table.uuid}" are gone.')
    return error


class PreparedSearch:
    """See ``domain.tables.Search``. For all threads."""

    def __init__(self, readers: Readers, reader: TableReader, made: Plan, total: bool) -> None:
        self._readers = readers
        self._reader = reader
        self._plan = made
        self._total = total
        self._is_long = False
        self._table_id = made.table.id
        self._run: Callable[[int, int], Page]
        if made.is_plain:
            self._run = self._plain
            self._rising = made.by_id > 0
            records = records_of(made.table.part)
            # Rows, shape and total of one state by one statement: each inner question is asked once.
            self._statement = (
                f"SELECT {made.selected}, (SELECT shape FROM table_state WHERE table_id = {self._table_id:d}), "
                f"(SELECT count FROM table_state WHERE table_id = {self._table_id:d}) FROM {records} r "
                f"WHERE r.id {'>=' if self._rising else '<='} ? ORDER BY {made.order} LIMIT ? OFFSET ?"
            )
            self._walk = f"SELECT id FROM {records} WHERE id >= ? ORDER BY id LIMIT 1 OFFSET ?"
        elif made.never:
            self._run = self._nothing
        else:
            self._run = self._filtered
            self._statement = made.page_statement()
            self._count = made.count_statement()

    @property
    def columns(self) -> tuple[str, ...]:
        return self._plan.columns

    @property
    def is_quick(self) -> bool:
        return self._plan.is_plain or self._plan.never

    def attempt(self, limit: int, offset: int) -> Page | None:
        """See ``domain.tables.Search.attempt``. How many records match is known only once they are counted: by an
        index some thousand are within the steps, and what was not once is not tried again."""
        if self.is_quick:
            return self.run(limit, offset)
        if self._is_long or self._plan.match is not None:
            return None
        try:
            with self._readers.mine().brief(ATTEMPT_STEPS, ATTEMPT_S):
                return self.run(limit, offset)
        except TooLong as stopped:
            self._is_long = stopped.by_steps
            return None

    def run(self, limit: int, offset: int) -> Page:
        """See ``domain.tables.Search.run``."""
        try:
            return self._run(limit, offset)
        except apsw.SQLError as error:
            raise _moved(self._plan.table, error) from error

    def _nothing(self, limit: int, offset: int) -> Page:
        return Page([], 0 if self._total else None)

    def _plain(self, limit: int, offset: int) -> Page:
        if limit > 0 and self._rising:
            shape, number, skip = -1, 0, 0
            if offset:
                blocks = self._reader.known_blocks(self._table_id)
                if blocks is not None and offset < blocks.total:
                    shape = blocks.shape
                    number, skip = blocks.locate(offset)
            if not offset or shape >= 0:
                rows = self._readers.mine().rows(self._statement, (number, limit, skip))
                if rows and (not offset or rows[0][-2] == shape):
                    return self._page([row[:-2] for row in rows], rows[0][-1])
        # The first time, when records have gone since, at the end, and from behind.
        with self._readers.mine().snapshot():
            return self._placed(limit, offset)

    def _placed(self, limit: int, offset: int) -> Page:
        query = self._readers.mine().rows
        found = query(SHAPE, (self._table_id,))
        if not found:
            raise NotFound("resource_id", "The resource has no records any more.")
        shape, count, next_id = found[0]
        if offset >= count or limit == 0:
            return self._page([], count)
        number, skip = (0, 0) if self._rising else (next_id, 0)
        if offset:
            blocks = self._reader.known_blocks(self._table_id)
            position = offset if self._rising else count - 1 - offset
            if blocks is None or blocks.shape != shape or position >= blocks.total:
                blocks = self._reader.blocks(self._table_id, shape, next_id)
            number, skip = blocks.locate(position)
            if not self._rising:
                # Where a block has gaps, the number to begin at may be one of a record that is gone.
                number, skip = query(self._walk, (number, skip))[0][0], 0
        rows = query(self._statement, (number, limit, skip))
        return self._page([row[:-2] for row in rows], count)

    def _filtered(self, limit: int, offset: int) -> Page:
        made = self._plan
        total: int | None = None
        with self._readers.mine().snapshot():
            query = self._readers.mine().rows
            rows = query(self._statement, made.page_bindings(limit, offset)) if limit else []
            if self._total:
                if len(rows) < limit and (rows or not offset):
                    total = offset + len(rows)
                else:
                    total = query(self._count, made.bindings)[0][0]
        return self._page(rows, total)

    def _page(self, rows: list[Row], total: int | None) -> Page:
        return Page(decode_rows(rows, self._plan.decoders), total if self._total else None)
