"""Rows of a track in ranges of phenomenon ends: chunks with the tail laid over them, block by block.

Spans of chunks never overlap and rows of one phenomenon end are never spread over two chunks, so a range of ends
always takes whole groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, TypeAlias

import numpy as np

from thalweg.domain.blocks import Block, Column, ValueKind
from thalweg.domain.errors import DamagedData
from thalweg.domain.store import MAX_BLOCK_ROWS
from thalweg.domain.time import END_US, MIN_US, format_instant
from thalweg.store.codec.chunk import decode_chunk
from thalweg.store.codec.merge import concat_blocks, merge_blocks, rows_with_content
from thalweg.store.codec.row import decode_rows
from thalweg.store.sqlite.connection import Row
from thalweg.store.sqlite.states import Key

Query: TypeAlias = Callable[[str, Sequence[Any]], list[Row]]
"""Runs a statement: a reader's or a transaction's ``rows``."""
Kinds: TypeAlias = Mapping[int, ValueKind]
"""The kind of value by observed property of the track's procedure, in the order of its series."""

_LEAST: Final = -(1 << 63)
_MOST: Final = (1 << 63) - 1
SHORT_CHUNKS: Final = 4

# The hot statement: all that a short interval [?2, ?3) needs, in one snapshot without BEGIN. Chunks from the one that
# the interval begins in, then tail rows; more than fit are a sign to go block by block.
SHORT: Final = f"""
    SELECT first_us, rows, NULL, block FROM (
        SELECT first_us, rows, block FROM chunk
        WHERE track_id = ?1 AND first_us < ?3 AND last_us >= ?2 AND first_us >= ifnull(
            (SELECT first_us FROM chunk WHERE track_id = ?1 AND first_us <= ?2 ORDER BY first_us DESC LIMIT 1), ?2)
        ORDER BY first_us LIMIT {SHORT_CHUNKS})
    UNION ALL
    SELECT * FROM (
        SELECT end_us, begin_us, result_us, cells FROM tail
        WHERE track_id = ?1 AND end_us >= ?2 AND end_us < ?3 ORDER BY end_us, begin_us, result_us LIMIT ?4)"""  # noqa: S608

# Chunks that reach into the ends [?2, ?3], without their blobs; the nearest first.
HEADS: Final = """
    SELECT id, first_us, last_us, rows FROM chunk
    WHERE track_id = ?1 AND first_us <= ?3 AND last_us >= ?2 AND first_us >= ifnull(
        (SELECT first_us FROM chunk WHERE track_id = ?1 AND first_us <= ?2 ORDER BY first_us DESC LIMIT 1), ?2)
    ORDER BY first_us LIMIT ?4"""
HEADS_BACKWARD: Final = """
    SELECT id, first_us, last_us, rows FROM chunk
    WHERE track_id = ?1 AND first_us <= ?3 AND last_us >= ?2 AND first_us >= ifnull(
        (SELECT first_us FROM chunk WHERE track_id = ?1 AND first_us <= ?2 ORDER BY first_us DESC LIMIT 1), ?2)
    ORDER BY first_us DESC LIMIT ?4"""
BLOCK: Final = "SELECT block FROM chunk WHERE id = ?"
# Tail rows between two keys, both excluded.
TAIL: Final = """
    SELECT end_us, begin_us, result_us, cells FROM tail
    WHERE track_id = ?1 AND (end_us, begin_us, result_us) > (?2, ?3, ?4)
        AND (end_us, begin_us, result_us) < (?5, ?6, ?7)
    ORDER BY end_us, begin_us, result_us LIMIT ?8"""
TAIL_BACKWARD: Final = """
    SELECT end_us, begin_us, result_us, cells FROM tail
    WHERE track_id = ?1 AND (end_us, begin_us, result_us) > (?2, ?3, ?4)
        AND (end_us, begin_us, result_us) < (?5, ?6, ?7)
    ORDER BY end_us DESC, begin_us DESC, result_us DESC LIMIT ?8"""
KINDS: Final = """
    SELECT s.property_id, s.kind FROM track t JOIN series s ON s.procedure_id = t.procedure_id
    WHERE t.id = ? ORDER BY s.place"""
NAMES: Final = """
    SELECT p.identifier FROM track t JOIN procedure p ON p.id = t.procedure_id WHERE t.id = ?"""


def kinds_of(query: Query, track_id: int) -> Kinds:
    """Kinds of value of the series of a track's procedure; empty for an unknown track."""
    return {key: ValueKind(kind) for key, kind in query(KINDS, (track_id,))}


def key_before(end_us: int) -> Key:
    """A key below all keys of rows with that end or a later one, above all with an earlier end."""
    return (end_us, _LEAST, _LEAST)


def key_after(end_us: int) -> Key:
    """A key above all keys of rows with that end or an earlier one, below all with a later end."""
    return (end_us, _MOST, _MOST)


# ------------------------------------------------------------------ decoding


def decode(
    query: Query,
    track_id: int,
    first_us: int,
    blob: bytes,
    wanted: Sequence[int] | None,
    span: tuple[int, int] | None = None,
) -> Block:
    """A chunk's block, or of it the rows with ends in [span). Raises DamagedData that names procedure and place."""
    try:
        return decode_chunk(blob, wanted, span)
    except DamagedData as error:
        raise named(query, track_id, f"the chunk from {instant(first_us)}", error) from error


def decode_tail(query: Query, track_id: int, rows: Sequence[Row], wanted: Sequence[int] | None, kinds: Kinds) -> Block:
    """Tail rows (end, begin, result, cells) in key order as a block. Raises DamagedData that names them."""
    ends, begins, results, blobs = zip(*rows, strict=True)
    try:
        return decode_rows(
            ends, None if begins == ends else begins, None if results == ends else results, blobs, wanted, kinds
        )
    except DamagedData as error:
        place = f"a new row between {instant(ends[0])} and {instant(ends[-1])}"
        raise named(query, track_id, place, error) from error


def named(query: Query, track_id: int, place: str, error: DamagedData) -> DamagedData:
    """The error with the names that tell an operator what is hit."""
    rows = query(NAMES, (track_id,))
    whose = f"procedure '{rows[0][0]}'" if rows else f"track {track_id}"
    return DamagedData(f"{error.message.rstrip('.')}: {place} of {whose}.", parameter="procedure")


def instant(us: int) -> str:
    """An instant for a message, whatever its value: windows may begin before the first year."""
    return format_instant(us) if MIN_US <= us < END_US else f"{us} µs"


def slice_ends(block: Block, begin_us: int, end_us: int) -> Block:
    """The rows with begin_us <= end < end_us."""
    end = block.end
    low, high = end.searchsorted((begin_us, end_us)).tolist()
    return block if low == 0 and high == len(end) else block.take(slice(low, high))


def between(block: Block, low: Key, high: Key) -> Block:
    """The rows with low < key < high."""
    n = len(block)
    first, last = block.end.searchsorted((low[0], high[0])).tolist()
    while first < n and block.key(first) <= low:
        first += 1
    while last < n and block.key(last) < high:
        last += 1
    return block if first == 0 and last == n else block.take(slice(first, max(first, last)))


def finished(block: Block, wanted: Sequence[int], kinds: Kinds) -> Block:
    """The block as a scan gives it: all wanted columns in order, rows with content only, no needless arrays."""
    columns = block.columns
    if list(columns) != wanted:
        n = len(block)
        columns = {key: columns[key] if key in columns else Column.missing(kinds[key], n) for key in wanted}
        block = Block(block.end, columns, begin=block.begin, result_time=block.result_time, position=block.position)
    complete = False
    partial = False
    for column in columns.values():
        if column.valid is None:
            complete = True
        else:
            partial = True
    if not complete:
        content = rows_with_content(block)
        if not content.all():
            block = block.take(content)
    if partial:
        for column in block.columns.values():
            if column.valid is not None and column.valid.all():
                column.valid = None
    return with_plain_times(block)


def with_plain_times(block: Block) -> Block:
    """The block, made to do without begins or result times where all equal the ends."""
    if block.begin is not None and np.array_equal(block.begin, block.end):
        block.begin = None
    if block.result_time is not None and np.array_equal(block.result_time, block.end):
        block.result_time = None
    return block


# ------------------------------------------------------------------ reading


def read_short(
    query: Query, track_id: int, wanted: list[int], kinds: Kinds, begin_us: int, end_us: int, rows: int
) -> Block | None:
    """All rows of the ends [begin_us, end_us), not yet ``finished``; None if they are more than one block's."""
    found = query(SHORT, (track_id, begin_us, end_us, rows + 1))
    if len(found) == 1 and found[0][2] is None:  # nearly always
        block = decode(query, track_id, found[0][0], found[0][3], wanted, (begin_us, end_us))
        return block if len(block) <= rows else None
    blocks: list[Block] = []
    n_chunks = 0
    total = 0
    for first_us, _, mark, blob in found:
        if mark is not None:
            break
        n_chunks += 1
        if n_chunks == SHORT_CHUNKS:
            return None
        block = decode(query, track_id, first_us, blob, wanted, (begin_us, end_us))
        total += len(block)
        blocks.append(block)
    if total + len(found) - n_chunks > rows:
        return None
    block = blocks[0] if len(blocks) == 1 else concat_blocks(blocks)
    if len(found) > n_chunks:
        block = merge_blocks(block, decode_tail(query, track_id, found[n_chunks:], wanted, kinds))
    return block


def walk(
    query: Query,
    snapshot: Callable[[], AbstractContextManager[None]],
    track_id: int,
    wanted: list[int],
    kinds: Kinds,
    low: Key,
    high: Key,
    *,
    descending: bool = False,
    rows: int = MAX_BLOCK_ROWS,
) -> Iterator[Block]:
    """Rows with low < key < high in blocks, rows of each in rising order, blocks rising or descending.

    Nothing is held between two blocks: the next one is found by the key that the last one ended with, whatever has
    been sealed or changed since.
    """
    # The first blocks are small: often just one row, or the first screenful, is wanted.
    limit = 1
    while True:
        with snapshot():
            block, reached = _step(query, track_id, wanted, kinds, low, high, descending, limit)
        if len(block):
            block = finished(block, wanted, kinds)
        if len(block) > rows:
            part = block.take(slice(len(block) - rows, None) if descending else slice(0, rows))
            block = with_plain_times(part)
            reached = block.key(0 if descending else -1)
        else:
            limit = min(limit * 2, 8)
        if len(block):
            yield block
        if reached is None:
            return
        low, high = (low, reached) if descending else (reached, high)


def _step(
    query: Query, track_id: int, wanted: list[int], kinds: Kinds, low: Key, high: Key, descending: bool, limit: int
) -> tuple[Block, Key | None]:
    """The next rows, of at most ``limit`` chunks, and the key up to which they are complete (None: the last ones)."""
    heads = query(HEADS_BACKWARD if descending else HEADS, (track_id, low[0], high[0], limit + 1))
    taken: list[Row] = []
    total = 0
    for head in heads[:limit]:
        total += head[3]
        if taken and total > MAX_BLOCK_ROWS:
            break
        taken.append(head)
    blocks: list[Block] = []
    for head in taken:
        try:
            blocks.append(decode(query, track_id, head[1], query(BLOCK, (head[0],))[0][0], wanted))
        except DamagedData:
            # What comes before the damage is given first.
            if not blocks:
                raise
            break
    reached: Key | None = None
    if len(blocks) < len(heads):
        reached = key_before(heads[len(blocks) - 1][1]) if descending else key_after(heads[len(blocks)][1] - 1)
    low_now, high_now = (reached or low, high) if descending else (low, reached or high)
    tail = query(TAIL_BACKWARD if descending else TAIL, (track_id, *low_now, *high_now, MAX_BLOCK_ROWS + 1))
    if len(tail) > MAX_BLOCK_ROWS:
        # The rest of the tail waits for the next step, and with it the chunks' rows beyond.
        end, begin, result, _ = tail.pop()
        low_now, high_now = ((end, begin, result), high) if descending else (low, (end, begin, result))
        reached = (end, begin, result + 1 if descending else result - 1)
    if descending:
        blocks.reverse()
        tail.reverse()
    blocks = [between(block, low_now, high_now) for block in blocks]
    block = concat_blocks(blocks)
    if tail:
        block = merge_blocks(block, decode_tail(query, track_id, tail, wanted, kinds))
    return block, reached
