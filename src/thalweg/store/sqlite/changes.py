"""The change log: what was late, corrected or deleted, kept as it was and as it is since.

A side of an entry is kept as ``C`` and a chunk or, of few rows, as ``R`` and their tail form: a chunk of one row takes
0.1 ms to encode, which every property that arrives after the first one of its row would cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error
from typing import Final

import xxhash

from thalweg.domain.blocks import Block
from thalweg.domain.errors import DamagedData
from thalweg.domain.observations import ChangeKind
from thalweg.store.codec.chunk import decode_chunk, encode_chunk
from thalweg.store.codec.merge import empty_block
from thalweg.store.codec.row import decode_rows, encode_rows
from thalweg.store.sqlite.connection import Row
from thalweg.store.sqlite.ranges import Kinds, Query, named
from thalweg.store.sqlite.states import State
from thalweg.store.sqlite.writer import Transaction

INSERT_CHANGE: Final = """
    INSERT INTO change (track_id, sequence, kind, at_us, by, before, after, first_us, last_us, digits)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
CHANGED_AT: Final = "SELECT at_us FROM change WHERE track_id = ? AND sequence = ?"

MAX_ENTRY_ROWS: Final = 4096
"""Rows of an entry; changes of more rows give several entries."""
_FEW_ROWS: Final = 32
_CHECKSUM: Final = Struct("<Q")
_ROW: Final = Struct("<qqqI")


def log_change(
    tx: Transaction, state: State, kind: ChangeKind, by: str, before: Block | None, after: Block | None
) -> None:
    """Append to the track's change log, in entries of at most MAX_ENTRY_ROWS rows.

    Their times rise from entry to entry, whatever the clock does: of two versions the later one is told by its time.

    before, after  blocks of the same rows where both are given; None: that side is empty
    """
    rows = before if before is not None else after
    if rows is None:
        return
    n = len(rows)
    at_us = tx.now_us
    for (last_us,) in tx.rows(CHANGED_AT, (state.track_id, state.change_sequence)) if state.change_sequence else ():
        at_us = max(at_us, last_us + 1)
    for start in range(0, n, MAX_ENTRY_ROWS):
        part = slice(start, start + MAX_ENTRY_ROWS)
        first_us, last_us = int(rows.end[start]), int(rows.end[min(start + MAX_ENTRY_ROWS, n) - 1])
        state.change_sequence += 1
        tx.rows(
            INSERT_CHANGE,
            (
                state.track_id, state.change_sequence, str(kind), at_us, by,
                None if before is None else encode_side(before.take(part) if n > MAX_ENTRY_ROWS else before),
                None if after is None else encode_side(after.take(part) if n > MAX_ENTRY_ROWS else after),
                first_us, last_us, (last_us - first_us).bit_length(),
            ),
        )  # fmt: skip
        at_us += 1


def encode_side(block: Block) -> bytes:
    """A block of at least one row as one side of an entry."""
    if len(block) > _FEW_ROWS:
        return b"C" + encode_chunk(block)
    body = b"".join(_ROW.pack(*block.key(row), len(cells)) + cells for row, cells in enumerate(encode_rows(block)))
    return b"R" + _CHECKSUM.pack(xxhash.xxh3_64_intdigest(body)) + body


def decode_side(query: Query, track_id: int, sequence: int, side: bytes | None, kinds: Kinds) -> Block:
    """One side of an entry; None gives an empty block. Raises DamagedData that names it."""
    if side is None:
        return empty_block()
    try:
        if side[:1] == b"C":
            return decode_chunk(side[1:])
        rows = _rows(side)
        ends, begins, results, cells = zip(*rows, strict=True)
        return decode_rows(ends, begins, results, cells, None, kinds)
    except DamagedData as damage:
        raise named(query, track_id, f"entry {sequence} of the change log", damage) from damage


def _rows(side: bytes) -> Sequence[Row]:
    body = side[9:]
    if side[:1] != b"R" or len(side) < 9 or _CHECKSUM.unpack_from(side, 1)[0] != xxhash.xxh3_64_intdigest(body):
        raise DamagedData("A stored change fails its checksum.")
    rows: list[Row] = []
    at = 0
    try:
        while at < len(body):
            end, begin, result, size = _ROW.unpack_from(body, at)
            at += _ROW.size
            rows.append((end, begin, result, body[at : at + size]))
            at += size
    except error as failure:
        raise DamagedData("A stored change is cut off.") from failure
    return rows
