"""Published streams of the embedded store: parts, their pages, and what is read for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import orjson

from thalweg.domain.blocks import Block
from thalweg.domain.errors import DamagedData, NotFound
from thalweg.domain.observations import Change, ChangeKind
from thalweg.domain.published import (
    PUBLISHED_ROWS,
    ChangedRows,
    ClosedPage,
    Mark,
    PageRange,
    Part,
    PublishedRows,
    Source,
    SourceKind,
    first_mark,
)
from thalweg.store.codec.chunk import decode_chunk, encode_chunk
from thalweg.store.codec.merge import empty_block
from thalweg.store.sqlite.came import LAST, rows_as_came
from thalweg.store.sqlite.changes import decode_side
from thalweg.store.sqlite.connection import Reader, Readers, Row
from thalweg.store.sqlite.published_layers import add_layer
from thalweg.store.sqlite.published_ranges import ranges_of
from thalweg.store.sqlite.ranges import Kinds, Query, kinds_of
from thalweg.store.sqlite.states import Key
from thalweg.store.sqlite.writer import Transaction

PARTS: Final = """
    SELECT p.track_id, p.start, p.pages, p.members, p.end_us, p.begin_us, p.result_us, p.sequence, p.row, s.generation
    FROM published_track p JOIN track_state s ON s.track_id = p.track_id WHERE p.stream_id = ?"""
PARTS_OF: Final = PARTS + " AND p.track_id IN (SELECT value FROM json_each(?)) ORDER BY p.track_id"  # noqa: S608
ALL_PARTS: Final = PARTS + " ORDER BY p.track_id"
ENTRIES: Final = """
    SELECT sequence, kind, at_us, by, before, after FROM change
    WHERE track_id = ? AND sequence >= ? AND sequence <= ? ORDER BY sequence LIMIT ?"""
PAGE: Final = """
    SELECT p.end_us, p.begin_us, p.result_us, p.sequence, p.row, p.members, p.least_us, p.greatest_us, p.bucket,
        t.document, p.rows
    FROM published_page p
    JOIN published_terms t ON t.stream_id = p.stream_id AND t.track_id = p.track_id AND t.version = p.terms
    WHERE p.stream_id = ? AND p.track_id = ? AND p.number = ?"""
MARK: Final = """
    SELECT end_us, begin_us, result_us, sequence, row FROM published_page
    WHERE stream_id = ? AND track_id = ? AND number = ?"""
START: Final = "SELECT start FROM published_track WHERE stream_id = ? AND track_id = ?"
NEXT_BUCKET: Final = """
    SELECT min(bucket) FROM published_page WHERE stream_id = ? AND track_id = ? AND bucket > ? AND bucket < ?"""
RANGES: Final = """
    SELECT number, members, least_us, greatest_us FROM published_page
    WHERE stream_id = ? AND track_id = ? AND bucket >= ? AND bucket <= ? ORDER BY bucket, number LIMIT ?"""
WAITING: Final = """
    SELECT s.track_id, s.rows, s.change_sequence, s.generation FROM track_state s
    JOIN published_track p ON p.stream_id = ?1 AND p.track_id = s.track_id
    WHERE s.generation > ?2 AND s.generation > p.generation ORDER BY s.generation LIMIT ?3"""

SOURCE_TRACKS: Final = {
    SourceKind.PROCEDURE: "SELECT t.id FROM track t WHERE t.procedure_id = ?2",
    SourceKind.OFFERING: """
        SELECT t.id FROM track t WHERE t.procedure_id IN (
            SELECT procedure_id FROM offering_procedure WHERE offering_id = ?2
            UNION SELECT procedure_id FROM offering WHERE id = ?2 AND procedure_id IS NOT NULL)""",
}
ADD_PARTS: Final = """
    INSERT INTO published_track (stream_id, track_id, start, end_us, begin_us, result_us, sequence, row)
    SELECT ?1, s.track_id, iif(s.track_id > ?3, 0, s.change_sequence), ?4, ?4, ?4,
        iif(s.track_id > ?3, 0, s.change_sequence) + 1, 0
    FROM track_state s WHERE s.track_id IN ({tracks})
        AND NOT EXISTS (SELECT 1 FROM published_track p WHERE p.stream_id = ?1 AND p.track_id = s.track_id)
    RETURNING track_id"""
MISSING: Final = """
    SELECT 1 FROM track_state s WHERE s.track_id IN ({tracks})
        AND NOT EXISTS (SELECT 1 FROM published_track p WHERE p.stream_id = ?1 AND p.track_id = s.track_id) LIMIT 1"""
NEWEST_TRACK: Final = "SELECT ifnull(max(id), 0) FROM track"
TARGETS: Final = {
    SourceKind.PROCEDURE: "SELECT 1 FROM procedure WHERE workspace_id = ? AND id = ?",
    SourceKind.OFFERING: "SELECT 1 FROM offering WHERE workspace_id = ? AND id = ?",
    SourceKind.LAYER: "SELECT 1 FROM layer WHERE workspace_id = ? AND id = ?",
}
PAGES_OF: Final = "SELECT pages FROM published_track WHERE stream_id = ? AND track_id = ?"
LAST_TERMS: Final = """
    SELECT version, document FROM published_terms WHERE stream_id = ? AND track_id = ? ORDER BY version DESC LIMIT 1"""
ADD_TERMS: Final = "INSERT INTO published_terms (stream_id, track_id, version, document) VALUES (?, ?, ?, ?)"
ADD_PAGE: Final = """
    INSERT INTO published_page (stream_id, track_id, number, end_us, begin_us, result_us, sequence, row, members,
        least_us, greatest_us, bucket, terms)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
MOVE_MARK: Final = """
    UPDATE published_track SET pages = ?, members = members + ?, generation = ifnull(?, generation), end_us = ?,
        begin_us = ?, result_us = ?, sequence = ?, row = ?
    WHERE stream_id = ? AND track_id = ?"""
TOUCH: Final = """
    UPDATE published_page SET touched = touched + 1
    WHERE stream_id = ?1 AND track_id = ?2 AND number = (
        SELECT number FROM published_page WHERE stream_id = ?1 AND track_id = ?2
            AND (end_us, begin_us, result_us) >= (?3, ?4, ?5) ORDER BY end_us, begin_us, result_us, number LIMIT 1)"""
OFTEN_TOUCHED: Final = """
    SELECT number FROM published_page WHERE stream_id = ? AND track_id = ? AND touched >= ? AND rows IS NULL LIMIT 1"""
KEEP_ROWS: Final = "UPDATE published_page SET rows = ? WHERE stream_id = ? AND track_id = ? AND number = ?"

MAX_TOUCHES: Final = 1_000
"""Changes of a closed page's rows after which the page keeps them as they came, so that reading it costs no more."""
_NO_ROWS: Final = b""


def part_of(row: Row) -> Part:
    track_id, start, pages, members, end_us, begin_us, result_us, sequence, number, generation = row
    return Part(track_id, start, pages, members, Mark(end_us, begin_us, result_us, sequence, number), generation)


def read_parts(readers: Readers, stream_id: int, track_ids: Iterable[int] | None) -> dict[int, Part]:
    """See ``PublishedStore.parts``."""
    if track_ids is None:
        rows = readers.rows(ALL_PARTS, (stream_id,))
    else:
        rows = readers.rows(PARTS_OF, (stream_id, orjson.dumps(list(track_ids)).decode()))
    return {row[0]: part_of(row) for row in rows}


def read_rows(
    reader: Reader, stream_id: int, track_id: int, after: Mark, limit: int, through: Mark | None
) -> PublishedRows:
    """See ``PublishedStore.published_rows``; in a snapshot."""
    query = reader.rows
    starts = query(START, (stream_id, track_id))
    if not starts:
        raise NotFound("view", "There is no such part of the event stream.")
    kinds = kinds_of(query, track_id)
    limit = min(limit, PUBLISHED_ROWS)
    high = LAST if through is None else _following(through.key)
    if through is not None:
        limit = PUBLISHED_ROWS
    if after.key >= high:
        rows, is_all = empty_block(), True
    else:
        rows, is_all = rows_as_came(query, track_id, kinds, starts[0][0], after.key, high, limit)
    key = rows.key(len(rows) - 1) if len(rows) else after.key
    changes: list[ChangedRows] = []
    sequence, row = after.sequence, after.row
    if is_all:
        changes, sequence, row = _changes(query, track_id, kinds, after, limit - len(rows), through)
    return PublishedRows(rows, tuple(changes), through or Mark(*key, sequence, row))


def _following(key: Key) -> Key:
    return key[0], key[1], key[2] + 1


def _changes(
    query: Query, track_id: int, kinds: Kinds, after: Mark, room: int, through: Mark | None
) -> tuple[list[ChangedRows], int, int]:
    """Changes from a mark on, at most ``room`` rows of them, and how far they go."""
    sequence, row = after.sequence, after.row
    until = (1 << 62) if through is None else through.sequence
    found: list[ChangedRows] = []
    while room > 0:
        entries = query(ENTRIES, (track_id, sequence, until, min(room, 64)))
        for number, kind, at_us, by, before, later in entries:
            change = Change(
                track_id, number, ChangeKind(kind), at_us, by,
                decode_side(query, track_id, number, before, kinds), decode_side(query, track_id, number, later, kinds),
            )  # fmt: skip
            n = len(change.after) or len(change.before)
            stop = min(n, row + room)
            if through is not None and number == through.sequence:
                stop = min(stop, through.row)
            if stop > row:
                found.append(ChangedRows(change, row, stop))
                room -= stop - row
            if stop < n:
                return found, number, stop
            sequence, row = number + 1, 0
            if room <= 0:
                break
        if not entries:
            break
    return found, sequence, row


def read_page(readers: Readers, stream_id: int, track_id: int, number: int) -> tuple[PublishedRows, ClosedPage] | None:
    """See ``PublishedStore.closed_page``."""
    reader = readers.mine()
    with reader.snapshot():
        rows = reader.rows(PAGE, (stream_id, track_id, number))
        if not rows:
            return None
        *marks, members, least_us, greatest_us, bucket, terms, kept = rows[0]
        before = _mark_before(reader, stream_id, track_id, number)
        page = ClosedPage(Mark(*marks), members, least_us, greatest_us, bucket, terms)
        if kept is None:
            return read_rows(reader, stream_id, track_id, before, PUBLISHED_ROWS, page.mark), page
        block: Block = decode_chunk(kept) if kept else empty_block()
        kinds = kinds_of(reader.rows, track_id)
        changes, _, _ = _changes(reader.rows, track_id, kinds, before, PUBLISHED_ROWS, page.mark)
        return PublishedRows(block, tuple(changes), page.mark), page


def _mark_before(reader: Reader, stream_id: int, track_id: int, number: int) -> Mark:
    if number > 1:
        rows = reader.rows(MARK, (stream_id, track_id, number - 1))
        if not rows:
            raise DamagedData(f"Page {number - 1} of track {track_id} in event stream {stream_id} is not there.")
        return Mark(*rows[0])
    return first_mark(reader.rows(START, (stream_id, track_id))[0][0])


def read_ranges(
    readers: Readers, stream_id: int, track_id: int, bucket: str, digits: int, limit: int
) -> tuple[list[str], list[PageRange]]:
    """See ``PublishedStore.page_ranges``."""
    return ranges_of(readers, NEXT_BUCKET, RANGES, (stream_id, track_id), bucket, digits, limit)


# ---------------------------------------------------------------- writes


def check_source(tx: Transaction, workspace_id: int, source: Source) -> int:
    """The newest track there is. Raises NotFound if what is to be published is not there."""
    if not tx.rows(TARGETS[source.kind], (workspace_id, source.target)):
        raise NotFound(source.kind.value, f"The {source.kind.value} to be published is not there.")
    return int(tx.rows(NEWEST_TRACK)[0][0])


def has_unpublished(readers: Readers, stream_id: int, source: Source) -> bool:
    if source.kind not in SOURCE_TRACKS:
        return False
    return bool(readers.rows(MISSING.format(tracks=SOURCE_TRACKS[source.kind]), (stream_id, source.target)))


def add_parts(tx: Transaction, stream_id: int, source: Source) -> int:
    """See ``PublishedStore.publish_parts``."""
    if source.kind is SourceKind.LAYER:
        add_layer(tx, stream_id, source.target)
        return 1
    mark = first_mark(0)
    statement = ADD_PARTS.format(tracks=SOURCE_TRACKS[source.kind])
    return len(tx.rows(statement, (stream_id, source.target, source.newest, mark.end_us)))


def close_pages(tx: Transaction, stream_id: int, part: Part, pages: Sequence[ClosedPage], is_all: bool) -> bool:
    """See ``PublishedStore.close_pages``; each page's changed rows are told by ``touch_pages``."""
    track_id = part.track_id
    if not pages or tx.rows(PAGES_OF, (stream_id, track_id)) != [(part.pages,)]:
        return False
    version, known = (tx.rows(LAST_TERMS, (stream_id, track_id)) or [(0, None)])[0]
    for number, page in enumerate(pages, part.pages + 1):
        if page.terms != known:
            version, known = version + 1, page.terms
            tx.rows(ADD_TERMS, (stream_id, track_id, version, known))
        tx.rows(
            ADD_PAGE,
            (
                stream_id, track_id, number, *page.mark, page.members, page.least_us, page.greatest_us, page.bucket,
                version,
            ),
        )  # fmt: skip
    members = sum(page.members for page in pages)
    generation = part.generation if is_all else None
    tx.rows(MOVE_MARK, (part.pages + len(pages), members, generation, *pages[-1].mark, stream_id, track_id))
    return True


def touch_pages(tx: Transaction, stream_id: int, track_id: int, keys: Sequence[Key]) -> None:
    """Count changes of rows on the closed pages that these are on."""
    tx.many(TOUCH, [(stream_id, track_id, *key) for key in keys])


def often_touched(readers: Readers, stream_id: int, track_id: int) -> int | None:
    """The number of a page that is to keep its rows."""
    for (number,) in readers.rows(OFTEN_TOUCHED, (stream_id, track_id, MAX_TOUCHES)):
        return int(number)
    return None


def keep_rows(tx: Transaction, stream_id: int, track_id: int, number: int, rows: Block) -> None:
    """Keep a closed page's rows as they came: they are the same whenever they are read."""
    tx.rows(KEEP_ROWS, (encode_chunk(rows) if len(rows) else _NO_ROWS, stream_id, track_id, number))
