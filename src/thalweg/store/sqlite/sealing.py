"""Merging tail rows into chunks, a bounded number in each transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from thalweg.domain.time import HOUR_US
from thalweg.store.codec.merge import merge_blocks
from thalweg.store.sqlite.connection import Row
from thalweg.store.sqlite.deleting import DELETE_TAIL_ENDS
from thalweg.store.sqlite.ranges import TAIL, Kinds, decode_tail, key_after, key_before, kinds_of
from thalweg.store.sqlite.states import UPDATE_TAIL_ROWS
from thalweg.store.sqlite.windows import (
    DELETE_CHUNK,
    MAX_CHUNK_ROWS,
    Part,
    parts_of_window,
    window_length,
    write_chunks,
)
from thalweg.store.sqlite.writer import Transaction

DUE_ROWS: Final = 1200
"""Tail rows that make a track due: a window's worth, and what comes in while the next window fills."""
IDLE_ROWS: Final = 64
IDLE_US: Final = HOUR_US
"""So many rows are due, the newest window's too, once nothing has come in for so long."""
MAX_STEP_ROWS: Final = 8192
MAX_STEP_PARTS: Final = 16
"""Bounds of one transaction, some 10 ms of the lock."""
ENDS_AT_ONCE: Final = 32_768

GET_TAIL_ROWS: Final = "SELECT tail_rows, changed_us FROM track_state WHERE track_id = ?"
TAIL_ENDS: Final = "SELECT end_us FROM tail WHERE track_id = ? ORDER BY end_us LIMIT ?"
DUE_TRACKS: Final = """
    SELECT track_id FROM track_state
    WHERE tail_rows >= ?1 OR (tail_rows >= ?2 AND changed_us <= ?3) ORDER BY tail_rows DESC LIMIT ?4"""
ALL_TRACKS: Final = "SELECT track_id FROM track_state WHERE tail_rows > 0 ORDER BY track_id"


def seal_step(tx: Transaction, track_id: int, *, everything: bool) -> tuple[int, bool]:
    """Merge tail rows of a track into their windows.

    Windows that are complete are sealed; the newest one only if it alone has DUE_ROWS tail rows, if the track has
    been idle, or with ``everything``. A row dated far ahead makes its own window the newest, and the window that is
    being filled is rewritten once per DUE_ROWS rows.

    returns  (rows sealed, whether another step has more to do)
    raises   DamagedData for a chunk that cannot be read: it stays as it is
    """
    rows = tx.rows(GET_TAIL_ROWS, (track_id,))
    if not rows or not rows[0][0]:
        return 0, False
    tail_rows, changed_us = rows[0]
    idle = tail_rows >= IDLE_ROWS and changed_us <= tx.now_us - IDLE_US
    if not (everything or idle or tail_rows >= DUE_ROWS):
        return 0, False
    ends = np.array([end for (end,) in tx.rows(TAIL_ENDS, (track_id, ENDS_AT_ONCE))], np.int64)
    window_us = window_length(tx, track_id, ends)
    starts, counts = np.unique(ends // window_us * window_us, return_counts=True)
    unseen = len(ends) < tail_rows
    kinds = kinds_of(tx.rows, track_id)
    sealed = parts = 0
    more = unseen
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        newest = start == starts[-1] and not unseen
        if newest and not (everything or idle or count >= DUE_ROWS):
            break
        for part in parts_of_window(tx, track_id, start, window_us):
            room = MAX_STEP_ROWS - sealed
            low, high = key_after(part.begin_us - 1), key_before(part.end_us)
            found = tx.rows(TAIL, (track_id, *low, *high, room + 1))
            if not found:
                continue
            if parts >= MAX_STEP_PARTS or room <= 0:
                more = True
                break
            stop_us = part.end_us
            if len(found) > room:
                # Rows of one phenomenon end stay together.
                more = True
                stop_us = found[-1][0]
                found = [row for row in found if row[0] < stop_us]
                if not found:
                    if sealed:
                        break
                    found = tx.rows(TAIL, (track_id, *low, *key_after(stop_us), -1))
                    stop_us += 1
            _merge(tx, track_id, window_us, part, found, stop_us, kinds)
            sealed += len(found)
            parts += 1
        if parts >= MAX_STEP_PARTS or sealed >= MAX_STEP_ROWS:
            more = True
            break
    if sealed:
        tx.rows(UPDATE_TAIL_ROWS, (tail_rows - sealed, track_id))
    return sealed, more and bool(sealed)


def _merge(
    tx: Transaction, track_id: int, window_us: int, part: Part, rows: Sequence[Row], stop_us: int, kinds: Kinds
) -> None:
    """Move the tail rows of [part begin, stop_us) into the part's chunk, or a new one."""
    block = decode_tail(tx.rows, track_id, rows, None, kinds)
    chunk = part.chunk
    if chunk is not None:
        full = chunk.rows + len(block) > MAX_CHUNK_ROWS
        if not (full and int(block.end[0]) > chunk.last_us):
            block = merge_blocks(chunk.block(tx, track_id), block)
            tx.rows(DELETE_CHUNK, (chunk.id,))
    write_chunks(tx, track_id, window_us, block)
    tx.rows(DELETE_TAIL_ENDS, (track_id, part.begin_us, stop_us))
