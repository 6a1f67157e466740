"""Procedures as tables that SQL reads: see ``domain.table_sql.MadeTable``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from thalweg.domain.store import MAX_BLOCK_ROWS
from thalweg.domain.table_sql import ObservationReads
from thalweg.domain.tables import ROW_ID
from thalweg.domain.time import Interval
from thalweg.services.procedure_rows import MAX_SHARED, Layout, Rows

FIRST_ROWS: Final = 64
"""Of the first block: who asks for the newest record needs no more."""


@dataclass(frozen=True, slots=True)
class ProcedureRelation:
    """A procedure for SQL. ``columns``: names and PostgreSQL's names of types, the number and the time first."""

    columns: tuple[tuple[str, str], ...]
    layout: Layout

    @property
    def spread(self) -> int:
        return MAX_SHARED

    def count(self, reads: ObservationReads, interval: Interval) -> int:
        rows = Rows(reads, self.layout, ())
        return max(rows.before(interval.end_us) - rows.before(interval.begin_us), 0)

    def blocks(
        self, reads: ObservationReads, names: Sequence[str], interval: Interval, *, descending: bool = False
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Rows are taken by their places, which stay as they are while the snapshot is held."""
        rows = Rows(reads, self.layout, tuple(name for name in dict.fromkeys(names) if name != ROW_ID))
        first, last = rows.before(interval.begin_us), rows.before(interval.end_us)
        size = FIRST_ROWS
        while first < last:
            low, high = (max(first, last - size), last) if descending else (first, min(first + size, last))
            blocks = [frame.rows(names) for frame in rows.read(low, high)]
            if descending:
                blocks = [block[::-1] for block in reversed(blocks)]
                last = low
            else:
                first = high
            yield from blocks
            size = MAX_BLOCK_ROWS
