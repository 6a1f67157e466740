"""What is maintained beside the records of a table: its counts, its blocks, its change log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import orjson

from thalweg.domain.table_values import Cell, FieldType
from thalweg.domain.tables import Field, RecordChange
from thalweg.store.sqlite.connection import Readers, Row
from thalweg.store.sqlite.table_cells import decoder
from thalweg.store.sqlite.writer import Transaction

BLOCK_BITS: Final = 10
"""A block is 1,024 numbers: a million records have a thousand blocks, and an offset in one that has gaps is some ten
microseconds' walk."""

STATE: Final = "SELECT generation, shape, count, next_id, sequence FROM table_state WHERE table_id = ?"
STORE_STATE: Final = """
    UPDATE table_state SET generation = ?, shape = ?, count = ?, next_id = ?, sequence = ? WHERE table_id = ?"""
ADD_TO_BLOCK: Final = """
    INSERT INTO table_block (table_id, block, count) VALUES (?, ?, ?)
    ON CONFLICT (table_id, block) DO UPDATE SET count = count + excluded.count"""
DROP_EMPTY: Final = "DELETE FROM table_block WHERE table_id = ? AND block = ? AND count = 0"
APPEND: Final = """
    INSERT INTO table_change (table_id, sequence, kind, first, last, at_us, by, before)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
CHANGES: Final = """
    SELECT sequence, kind, first, last, at_us, by, before FROM table_change
    WHERE table_id = ? AND sequence > ? ORDER BY sequence LIMIT ?"""


@dataclass(slots=True)
class State:
    """A table's row of table_state inside a transaction."""

    generation: int
    shape: int
    count: int
    next_id: int
    sequence: int

    @staticmethod
    def of(tx: Transaction, table_id: int) -> State:
        return State(*tx.rows(STATE, (table_id,))[0])

    def store(self, tx: Transaction, table_id: int) -> None:
        tx.rows(
            STORE_STATE, (self.generation + 1, self.shape, self.count, self.next_id, self.sequence, table_id)
        )  # fmt: skip


def append_log(
    tx: Transaction, table_id: int, state: State, kind: str, first: int, last: int, by: str, before: bytes | None = None
) -> None:
    """Append one line; the state's sequence goes up."""
    state.sequence += 1
    tx.rows(APPEND, (table_id, state.sequence, kind, first, last, tx.now_us, by, before))


def count_in(tx: Transaction, table_id: int, first: int, last: int) -> None:
    """Count records numbered from first to last into their blocks."""
    for block in range(first >> BLOCK_BITS, (last >> BLOCK_BITS) + 1):
        low, high = max(first, block << BLOCK_BITS), min(last, ((block + 1) << BLOCK_BITS) - 1)
        tx.rows(ADD_TO_BLOCK, (table_id, block, high - low + 1))


def count_out(tx: Transaction, table_id: int, ids: Iterable[int]) -> None:
    """Count records out of their blocks."""
    blocks = Counter(number >> BLOCK_BITS for number in ids)
    tx.many(ADD_TO_BLOCK, [(table_id, block, -count) for block, count in blocks.items()])
    tx.many(DROP_EMPTY, [(table_id, block) for block in blocks])


# ------------------------------------------------------------------ what records were


def _text(value: Any) -> Any:
    if isinstance(value, Decimal):
        return format(value, "f")
    raise TypeError


def pack(fields: Sequence[Field], values: Row) -> bytes:
    """What a record's columns hold, by number of field; numeric as text, as it was written."""
    cells: dict[str, Any] = {}
    for field, value in zip(fields, values, strict=True):
        if value is not None:
            decode = decoder(field)
            kind = "" if field.is_array else field.kind.value
            cells[str(field.number)] = [kind, value if decode is None else decode(value)]
    return orjson.dumps(cells, default=_text)


def unpack(blob: bytes) -> dict[int, Cell]:
    found: Mapping[str, Any] = orjson.loads(blob)
    return {
        int(number): Decimal(value) if kind == FieldType.NUMERIC.value else value
        for number, (kind, value) in found.items()
    }


def changes(readers: Readers, table_id: int, after: int, limit: int) -> list[RecordChange]:
    """See ``TableStore.record_changes``."""
    return [
        RecordChange(sequence, kind, first, last, at_us, by, None if before is None else unpack(before))
        for sequence, kind, first, last, at_us, by, before in readers.rows(CHANGES, (table_id, after, limit))
    ]
