"""Chunks on the writing side: windows, splitting, and finding the chunks that rows belong to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from thalweg.domain.blocks import Block, TimeArray
from thalweg.domain.time import DAY_US, MINUTE_US
from thalweg.store.codec.chunk import encode_chunk
from thalweg.store.sqlite.ranges import BLOCK, decode
from thalweg.store.sqlite.writer import Transaction

WINDOW_ROWS: Final = 1008
"""Rows that a window is meant to hold: seven days of 10-minute steps. Fewer rows compress worse, 4,000 save 6 % more
and double the time to read a day."""
MAX_CHUNK_ROWS: Final = 4096
LEAST_WINDOW_US: Final = MINUTE_US
LONGEST_WINDOW_US: Final = 36_525 * DAY_US
DEFAULT_WINDOW_US: Final = 7 * DAY_US

GET_WINDOW: Final = """
    SELECT t.window_us, p.sampling_months, p.sampling_us
    FROM track t JOIN procedure p ON p.id = t.procedure_id WHERE t.id = ?"""
SET_WINDOW: Final = "UPDATE track SET window_us = ? WHERE id = ? AND window_us IS NULL"
WINDOW_HEADS: Final = """
    SELECT id, first_us, last_us, rows FROM chunk
    WHERE track_id = ? AND first_us >= ? AND first_us < ? ORDER BY first_us"""
INSERT_CHUNK: Final = """
    INSERT INTO chunk (track_id, first_us, last_us, window_us, rows, block) VALUES (?, ?, ?, ?, ?, ?)"""
DELETE_CHUNK: Final = "DELETE FROM chunk WHERE id = ?"
RAISE_VERSION: Final = """
    INSERT INTO chunk_version (track_id, version) VALUES (?, 1)
    ON CONFLICT (track_id) DO UPDATE SET version = version + 1"""


def window_length(tx: Transaction, track_id: int, ends: TimeArray) -> int:
    """The track's window length, fixed now from the rows at hand if it is not yet.

    ends  rising phenomenon ends of some of its rows
    """
    ((window_us, months, us),) = tx.rows(GET_WINDOW, (track_id,))
    if window_us is None:
        sampling_us = None if us is None else us + months * 30 * DAY_US
        window_us = choose_window(ends, sampling_us)
        tx.rows(SET_WINDOW, (window_us, track_id))
    return int(window_us)


def choose_window(ends: TimeArray, sampling_us: int | None = None) -> int:
    """A window of about WINDOW_ROWS rows, whole minutes, from the median step between rows.

    sampling_us  what the procedure is said to sample at, for want of rows
    """
    steps = np.diff(ends)
    steps = steps[steps > 0]
    if len(steps) >= 8 or (sampling_us is None and len(steps)):
        step = int(np.median(steps))
    elif sampling_us is not None:
        step = sampling_us
    else:
        return DEFAULT_WINDOW_US
    window_us = round(step * WINDOW_ROWS / MINUTE_US) * MINUTE_US
    return min(max(window_us, LEAST_WINDOW_US), LONGEST_WINDOW_US)


def window_start(end_us: int, window_us: int) -> int:
    """Where the window begins that a phenomenon end lies in."""
    return end_us // window_us * window_us


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk without its blob."""

    id: int
    first_us: int
    last_us: int
    rows: int

    def block(self, tx: Transaction, track_id: int) -> Block:
        """All of it. Raises DamagedData."""
        return decode(tx.rows, track_id, self.first_us, tx.rows(BLOCK, (self.id,))[0][0], None)


@dataclass(frozen=True, slots=True)
class Part:
    """A range of ends [begin_us, end_us) of one window that at most one chunk lies in."""

    begin_us: int
    end_us: int
    chunk: Chunk | None


def parts_of_window(tx: Transaction, track_id: int, start_us: int, window_us: int) -> list[Part]:
    """A window's parts, in order: one, or as many as it has chunks; together the whole window."""
    stop_us = start_us + window_us
    chunks = [Chunk(*row) for row in tx.rows(WINDOW_HEADS, (track_id, start_us, stop_us))]
    if not chunks:
        return [Part(start_us, stop_us, None)]
    begins = [start_us, *(chunk.first_us for chunk in chunks[1:])]
    return [Part(begin, end, chunk) for begin, end, chunk in zip(begins, [*begins[1:], stop_us], chunks, strict=True)]


def write_chunks(tx: Transaction, track_id: int, window_us: int, block: Block) -> None:
    """Write rows of one window, not in any chunk, as one or more chunks. Also to be called, without rows, when chunks
    were taken away: it is noted here that they are others now."""
    tx.rows(RAISE_VERSION, (track_id,))
    for part in split(block):
        first_us, last_us = int(part.end[0]), int(part.end[-1])
        tx.rows(
            INSERT_CHUNK,
            (track_id, first_us, last_us, window_start(first_us, window_us), len(part), encode_chunk(part)),
        )


def split(block: Block) -> Iterator[Block]:
    """Pieces of at most MAX_CHUNK_ROWS rows, about equal; more only where so many rows share one phenomenon end."""
    n = len(block)
    if n <= MAX_CHUNK_ROWS:
        if n:
            yield block
        return
    pieces = -(-n // MAX_CHUNK_ROWS)
    start = 0
    for piece in range(1, pieces + 1):
        stop = n * piece // pieces
        if stop <= start:
            continue
        if stop < n:
            # Before the group of rows of one end, or after it where the piece would be empty.
            stop = int(block.end.searchsorted(block.end[stop]))
            if stop <= start:
                stop = int(block.end.searchsorted(block.end[start], "right"))
        yield block.take(slice(start, stop))
        start = stop
