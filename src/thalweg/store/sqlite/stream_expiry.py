"""Members that retention lets go: who they are, and what becomes of the pages they stand on.

A closed page never changes. Members that leave it are noted beside it; the page goes as a whole. Only pages at the
beginning of a bucket's chain go, so that no closed page that stays ever leads to one that has gone: the bucket's node,
which may change, leads to the first one that is left. Where half of the places at the beginning are empty, the members
left there are written to new pages, and the former pages can be read for a time of grace.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from thalweg.store.sqlite.stream_buckets import FORMER_PAGES_OF, PAGE_OF, ROOT, Bucket, Page, Step, unpack, unpack_ids
from thalweg.store.sqlite.writer import Transaction

PLACEMENT: Final = "SELECT buckets FROM placement WHERE stream_id = ? AND view_id = ? AND sequence = ?"
VERSIONS: Final = "SELECT sequences FROM version WHERE stream_id = ? AND view_id = ? AND object = ?"
KEEP_VERSIONS: Final = "INSERT OR REPLACE INTO version (stream_id, view_id, object, sequences) VALUES (?, ?, ?, ?)"

MAX_DROPPED: Final = 1_000
"""Pages removed from one bucket in a step."""
MAX_JOINED: Final = 512
"""Pages at the beginning of a chain that a step looks at to join them."""


def note_versions(
    tx: Transaction, stream_id: int, view_id: int, versions: int, members: Iterable[tuple[bytes, int]]
) -> list[int]:
    """Note further versions of objects; returns the members that are not among the newest of their object any more.

    versions  how many stay, the newest by order of ingest
    members   object and sequence
    """
    known: dict[bytes, list[int]] = {}
    expired: list[int] = []
    for key, sequence in members:
        newest = known.get(key)
        if newest is None:
            rows = tx.rows(VERSIONS, (stream_id, view_id, key))
            newest = known[key] = list(unpack_versions(rows[0][0])) if rows else []
        if sequence in newest:
            continue
        newest.append(sequence)
        if len(newest) > versions:
            oldest = min(newest)
            newest.remove(oldest)
            expired.append(oldest)
    tx.many(KEEP_VERSIONS, [(stream_id, view_id, key, pack_versions(newest)) for key, newest in known.items()])
    return expired


def pack_versions(sequences: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(sequences)}q", *sequences)


def unpack_versions(packed: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(packed) // 8}q", packed)


def expire(step: Step, sequences: Iterable[int], *, fixed: bool = False) -> list[Bucket]:
    """Take members off a view; those on closed pages are noted there. Returns the buckets concerned.

    fixed  the stream is closed and the view complete: its last pages are fixed, too
    """
    concerned: dict[int, Bucket] = {}
    for sequence in sequences:
        above: dict[int, Bucket] = {}
        found = False
        for bucket_id in placed_in(step.tx, step.stream_id, step.view_id, sequence):
            bucket = step.bucket(bucket_id)
            entry = step.page_of(bucket, sequence)
            if entry is None:
                continue
            page, place = entry
            if page.is_dead(place):
                continue
            found = True
            if fixed and not page.is_closed:
                page.is_closed = page.is_fixed = True
                bucket.open_page = None
            if page.is_closed:
                page.bury(place)
                bucket.dead += 1
                bucket.is_due = True
            else:
                del page.sequences[place]
                page.is_dirty = True
            bucket.own -= 1
            step.placed -= 1
            concerned[bucket.id] = bucket
            while True:
                above[bucket.id] = bucket
                if bucket.id == ROOT:
                    break
                bucket = step.bucket(bucket.parent_id)
        for bucket in above.values():
            bucket.members -= 1
            bucket.is_dirty = True
        step.members -= found
    return list(concerned.values())


def placed_in(tx: Transaction, stream_id: int, view_id: int, sequence: int) -> tuple[int, ...]:
    """Ids of the buckets that hold a member, or held it."""
    for (packed,) in tx.rows(PLACEMENT, (stream_id, view_id, sequence)):
        return unpack_ids(packed)
    return (ROOT,)


def is_on_a_page(tx: Transaction, stream_id: int, view_id: int, sequence: int) -> bool:
    """Whether any page of a view that can be read holds a member."""
    for bucket_id in placed_in(tx, stream_id, view_id, sequence):
        where = (stream_id, view_id, bucket_id, sequence)
        for row in (*tx.rows(PAGE_OF, where), *tx.rows(FORMER_PAGES_OF, where)):
            if sequence in unpack(row[1], row[3], row[9]):
                return True
    return False


def shorten(step: Step, bucket: Bucket, now_us: int, grace_us: int) -> bool:
    """Remove pages at the beginning of a chain whose members have all gone; join those that have become half empty.

    returns  whether there may be more to do
    """
    dropped = 0
    while bucket.first_page is not None and dropped < MAX_DROPPED:
        page = step.page(bucket, bucket.first_page)
        if not page.is_closed or page.dead < len(page.sequences):
            break
        bucket.first_page = page.next_page
        step.drop_page(bucket, page)
        dropped += 1
    joined = bucket.dead * 2 >= step.page_size and _join(step, bucket, now_us + grace_us)
    if not bucket.members:
        step.remove_empty(bucket)
    bucket.is_due = dropped == MAX_DROPPED or joined
    bucket.is_dirty = True
    return bucket.is_due


def _join(step: Step, bucket: Bucket, gone_us: int) -> bool:
    """Write the members left on the first pages of a chain to new pages, if half of their places or more are empty."""
    pages: list[Page] = []
    empty = 0
    best = 0
    number = bucket.first_page
    while number is not None and len(pages) < MAX_JOINED:
        page = step.page(bucket, number)
        if not page.is_closed or page.next_page is None:
            break
        pages.append(page)
        empty += step.page_size - len(page.sequences) + page.dead
        if empty * 2 >= len(pages) * step.page_size:
            best = len(pages)
        number = page.next_page
    pages = pages[:best]
    if not any(page.dead for page in pages) or len(pages) < 2:
        return False
    following = pages[-1].next_page
    living = [sequence for page in pages for sequence in page.living()]
    made: list[Page] = []
    for start in range(0, len(living), step.page_size):
        page = step.new_page(bucket)
        page.sequences = living[start : start + step.page_size]
        page.is_closed = True
        if made:
            made[-1].next_page = page.number
        made.append(page)
    if made:
        made[-1].next_page = following
    bucket.first_page = made[0].number if made else following
    for page in pages:
        page.gone_us = gone_us
        page.is_dirty = True
        bucket.dead -= page.dead
        step.pages -= 1
    bucket.is_dirty = True
    return True
