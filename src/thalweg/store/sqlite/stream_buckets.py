"""Buckets and pages of a view inside one transaction: finding, filling, emptying them.

A page holds sequences of members, not members: a view of a hundred thousand members is a thousand rows. What was
changed is written once, at the end of the step.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from thalweg.domain.errors import DamagedData
from thalweg.domain.streams import Chain, View
from thalweg.store.sqlite.connection import Row
from thalweg.store.sqlite.writer import Transaction

STATE: Final = """
    SELECT position, members, placed, buckets, pages, generation, next_bucket FROM view_state
    WHERE stream_id = ? AND view_id = ?"""
KEEP_STATE: Final = """
    UPDATE view_state
    SET position = ?, members = ?, placed = ?, buckets = ?, pages = ?, generation = ?, next_bucket = ?
    WHERE stream_id = ? AND view_id = ?"""

BUCKET: Final = """
    SELECT id, parent_id, query, members, own, first_page, open_page, pages_made, dead, generation, is_removed,
        is_due
    FROM bucket WHERE stream_id = ? AND view_id = ? AND id = ?"""
BUCKET_OF: Final = """
    SELECT id, parent_id, query, members, own, first_page, open_page, pages_made, dead, generation, is_removed,
        is_due
    FROM bucket WHERE stream_id = ? AND view_id = ? AND query = ?"""
KEEP_BUCKET: Final = """
    INSERT INTO bucket (stream_id, view_id, id, parent_id, query, members, own, first_page, open_page, pages_made, dead,
                        generation, is_removed, is_due)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
    ON CONFLICT (stream_id, view_id, id) DO UPDATE
    SET members = ?6, own = ?7, first_page = ?8, open_page = ?9, pages_made = ?10, dead = ?11, generation = ?12,
        is_removed = ?13, is_due = ?14"""
HAS_CHILDREN: Final = """
    SELECT 1 FROM bucket WHERE stream_id = ? AND view_id = ? AND parent_id = ? AND is_removed = 0 LIMIT 1"""

PAGE: Final = """
    SELECT number, first, last, members, is_closed, next_page, dead, gone_us, generation, sequences, dead_bits
    FROM page WHERE stream_id = ? AND view_id = ? AND bucket_id = ? AND number = ?"""
PAGE_OF: Final = """
    SELECT number, first, last, members, is_closed, next_page, dead, gone_us, generation, sequences, dead_bits
    FROM page WHERE stream_id = ? AND view_id = ? AND bucket_id = ? AND gone_us IS NULL AND first <= ?
    ORDER BY first DESC LIMIT 1"""
FORMER_PAGES_OF: Final = """
    SELECT number, first, last, members, is_closed, next_page, dead, gone_us, generation, sequences, dead_bits
    FROM page
    WHERE stream_id = ?1 AND view_id = ?2 AND bucket_id = ?3 AND gone_us IS NOT NULL AND first <= ?4 AND last >= ?4"""
KEEP_PAGE: Final = """
    INSERT OR REPLACE INTO page (stream_id, view_id, bucket_id, number, first, last, members, is_closed, next_page,
                                 dead, gone_us, generation, sequences, dead_bits)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
DROP_PAGE: Final = "DELETE FROM page WHERE stream_id = ? AND view_id = ? AND bucket_id = ? AND number = ?"
LOOSEN: Final = """
    UPDATE expired_member SET is_loose = 1
    WHERE stream_id = ?1 AND view_id = (SELECT source_view FROM stream_state WHERE stream_id = ?1)
        AND sequence BETWEEN ?2 AND ?3 AND is_loose = 0"""

ROOT: Final = 0
"""Id of a view's own node."""


# ---------------------------------------------------------------- sequences


def pack(sequences: list[int]) -> bytes:
    """Empty where they are all numbers from the first to the last."""
    n = len(sequences)
    if not n or (sequences[-1] - sequences[0] + 1 == n and sequences == list(range(sequences[0], sequences[0] + n))):
        return b""
    return struct.pack(f"<{len(sequences)}q", *sequences)


def unpack(first: int, members: int, packed: bytes) -> Sequence[int]:
    if not packed:
        return range(first, first + members)
    if len(packed) != members * 8:
        raise DamagedData("A page of a view is damaged: its list of members has another length.")
    return struct.unpack(f"<{members}q", packed)


# ---------------------------------------------------------------- pages and buckets as they are worked on


@dataclass(slots=True)
class Page:
    """A page's row; ``sequences`` in order, except in a view of latest states.

    is_fixed  nothing that a client sees of it changes any more, so it keeps its generation
    """

    number: int
    sequences: list[int] = field(default_factory=list)
    is_closed: bool = False
    next_page: int | None = None
    dead: int = 0
    dead_bits: bytearray | None = None
    gone_us: int | None = None
    generation: int = 0
    is_fixed: bool = False
    is_dirty: bool = False

    @staticmethod
    def of(row: Row) -> Page:
        number, first, _, members, is_closed, next_page, dead, gone_us, generation, packed, bits = row
        return Page(
            number,
            list(unpack(first, members, packed)),
            bool(is_closed),
            next_page,
            dead,
            None if bits is None else bytearray(bits),
            gone_us,
            generation,
            is_fixed=bool(is_closed),
        )

    @property
    def first(self) -> int:
        return min(self.sequences, default=0)

    @property
    def last(self) -> int:
        return max(self.sequences, default=-1)

    def is_dead(self, place: int) -> bool:
        return self.dead_bits is not None and bool(self.dead_bits[place >> 3] & (1 << (place & 7)))

    def living(self) -> list[int]:
        """Members that retention has not let go."""
        if not self.dead:
            return self.sequences
        return [sequence for place, sequence in enumerate(self.sequences) if not self.is_dead(place)]

    def bury(self, place: int) -> None:
        """Note that retention lets the member at a place go."""
        if self.dead_bits is None:
            self.dead_bits = bytearray((len(self.sequences) + 7) // 8)
        self.dead_bits[place >> 3] |= 1 << (place & 7)
        self.dead += 1
        self.is_dirty = True


@dataclass(slots=True)
class Bucket:
    """A bucket's row, and its pages that this step has touched."""

    id: int
    parent_id: int
    query: str
    members: int = 0
    own: int = 0
    first_page: int | None = None
    open_page: int | None = None
    pages_made: int = 0
    dead: int = 0
    generation: int = 0
    is_removed: bool = False
    is_due: bool = False
    pages: dict[int, Page] = field(default_factory=dict)
    is_dirty: bool = False

    @staticmethod
    def of(row: Row) -> Bucket:
        made = Bucket(*row)
        made.is_removed, made.is_due = bool(made.is_removed), bool(made.is_due)
        return made


class Step:
    """One step on one view: its state, the buckets and pages touched, and their writing.

    raises  KeyError where the view is not there
    """

    def __init__(self, tx: Transaction, view: View) -> None:
        rows = tx.rows(STATE, (view.stream_id, view.id))
        if not rows:
            raise KeyError(view.id)
        self.tx = tx
        self.stream_id = view.stream_id
        self.view_id = view.id
        self.page_size = view.page_size
        # Pages of latest states are full, but never closed: states take one another's place.
        self._closes = not view.materialised
        (
            self.position,
            self.members,
            self.placed,
            self.buckets,
            self.pages,
            self.generation,
            self.next_bucket,
        ) = rows[0]
        self.generation += 1
        self._by_query: dict[str, Bucket] = {}
        self._by_id: dict[int, Bucket] = {}

    # -------------------------------------------------------------- finding

    def bucket(self, bucket_id: int) -> Bucket:
        """An existing bucket. Raises DamagedData."""
        found = self._by_id.get(bucket_id)
        if found is None:
            rows = self.tx.rows(BUCKET, (self.stream_id, self.view_id, bucket_id))
            if not rows:
                raise DamagedData(f"Bucket {bucket_id} of view {self.view_id} is not there.")
            found = self._remember(Bucket.of(rows[0]))
        return found

    def chain(self, chain: Chain) -> list[Bucket]:
        """The buckets of a chain, the root first, made or taken up again where they are not there."""
        found = self.bucket(ROOT)
        result = [found]
        for query in chain:
            child = self._by_query.get(query)
            if child is None:
                rows = self.tx.rows(BUCKET_OF, (self.stream_id, self.view_id, query))
                if rows:
                    child = Bucket.of(rows[0])
                else:
                    child = Bucket(self.next_bucket, found.id, query, is_dirty=True)
                    self.next_bucket += 1
                    self.buckets += 1
                self._remember(child)
            if child.is_removed:
                child.is_removed = False
                child.is_dirty = True
                self.buckets += 1
            result.append(child)
            found = child
        return result

    def _remember(self, bucket: Bucket) -> Bucket:
        self._by_id[bucket.id] = bucket
        self._by_query[bucket.query] = bucket
        return bucket

    def page(self, bucket: Bucket, number: int) -> Page:
        found = bucket.pages.get(number)
        if found is None:
            rows = self.tx.rows(PAGE, (self.stream_id, self.view_id, bucket.id, number))
            if not rows:
                raise DamagedData(f"Page {number} of bucket '{bucket.query}' of view {self.view_id} is not there.")
            found = bucket.pages[number] = Page.of(rows[0])
        return found

    def page_of(self, bucket: Bucket, sequence: int) -> tuple[Page, int] | None:
        """The page in use that has a member, and its place on it."""
        for page in bucket.pages.values():
            # Touched in this step: the rows may be behind.
            if page.gone_us is None and sequence in page.sequences:
                return page, page.sequences.index(sequence)
        for row in self.tx.rows(PAGE_OF, (self.stream_id, self.view_id, bucket.id, sequence)):
            number = row[0]
            page = bucket.pages.get(number) or Page.of(row)
            if sequence in page.sequences:
                bucket.pages[number] = page
                return page, page.sequences.index(sequence)
        return None

    # -------------------------------------------------------------- filling

    def new_page(self, bucket: Bucket) -> Page:
        """An empty page with the bucket's next number."""
        bucket.pages_made += 1
        page = bucket.pages[bucket.pages_made] = Page(bucket.pages_made, is_dirty=True)
        bucket.is_dirty = True
        self.pages += 1
        return page

    def extend(self, bucket: Bucket, sequences: Sequence[int]) -> None:
        """Put members at the end of a bucket; a page that gets full is closed, and the next one opened, at once."""
        if bucket.open_page is None:
            page = self.new_page(bucket)
            bucket.open_page = page.number
            if bucket.first_page is None:
                bucket.first_page = page.number
        else:
            page = self.page(bucket, bucket.open_page)
        start = 0
        while start < len(sequences):
            stop = min(len(sequences), start + self.page_size - len(page.sequences))
            page.sequences += sequences[start:stop]
            page.is_dirty = True
            start = stop
            if len(page.sequences) >= self.page_size:
                following = self.new_page(bucket)
                page.is_closed = self._closes
                page.next_page = following.number
                bucket.open_page = following.number
                page = following
        bucket.own += len(sequences)
        bucket.is_dirty = True
        self.placed += len(sequences)

    # -------------------------------------------------------------- emptying

    def drop_page(self, bucket: Bucket, page: Page) -> None:
        """Remove a page for good: who asks for it is told that it is gone."""
        self.tx.rows(DROP_PAGE, (self.stream_id, self.view_id, bucket.id, page.number))
        self.tx.rows(LOOSEN, (self.stream_id, page.first, page.last))
        bucket.pages.pop(page.number, None)
        bucket.dead -= page.dead
        bucket.is_dirty = True
        self.pages -= 1

    def remove_empty(self, bucket: Bucket) -> None:
        """Take a bucket without members, and then its parents, off all lists; not one with pages still to go."""
        while bucket.id != ROOT and not bucket.is_removed and not bucket.members:
            if bucket.first_page != bucket.open_page:
                return
            # The children's rows are read: those of this step have to be written before.
            self.write()
            if self.tx.rows(HAS_CHILDREN, (self.stream_id, self.view_id, bucket.id)):
                return
            if bucket.open_page is not None:
                self.drop_page(bucket, self.page(bucket, bucket.open_page))
            bucket.first_page = bucket.open_page = None
            bucket.is_removed = True
            bucket.is_dirty = True
            self.buckets -= 1
            bucket = self.bucket(bucket.parent_id)
            bucket.is_dirty = True

    def emptied(self) -> list[Bucket]:
        """Buckets touched in this step that have no member any more."""
        return [bucket for bucket in self._by_id.values() if not bucket.members and not bucket.is_removed]

    # -------------------------------------------------------------- writing

    def write(self) -> None:
        """Write what was touched."""
        pages: list[tuple[object, ...]] = []
        buckets: list[tuple[object, ...]] = []
        for bucket in self._by_id.values():
            for page in bucket.pages.values():
                if page.is_dirty:
                    page.is_dirty = False
                    if not page.is_fixed:
                        page.generation = self.generation
                        page.is_fixed = page.is_closed
                    pages.append(self._page_row(bucket, page))
            if bucket.is_dirty:
                bucket.is_dirty = False
                bucket.generation = self.generation
                buckets.append((self.stream_id, self.view_id, *_bucket_row(bucket)))
        self.tx.many(KEEP_PAGE, pages)
        self.tx.many(KEEP_BUCKET, buckets)
        self.tx.rows(
            KEEP_STATE,
            (
                self.position,
                self.members,
                self.placed,
                self.buckets,
                self.pages,
                self.generation,
                self.next_bucket,
                self.stream_id,
                self.view_id,
            ),
        )

    def _page_row(self, bucket: Bucket, page: Page) -> tuple[object, ...]:
        return (
            self.stream_id,
            self.view_id,
            bucket.id,
            page.number,
            page.first,
            page.last,
            len(page.sequences),
            int(page.is_closed),
            page.next_page,
            page.dead,
            page.gone_us,
            page.generation,
            pack(page.sequences),
            None if page.dead_bits is None else bytes(page.dead_bits),
        )


def _bucket_row(bucket: Bucket) -> tuple[object, ...]:
    return (
        bucket.id,
        bucket.parent_id,
        bucket.query,
        bucket.members,
        bucket.own,
        bucket.first_page,
        bucket.open_page,
        bucket.pages_made,
        bucket.dead,
        bucket.generation,
        int(bucket.is_removed),
        int(bucket.is_due),
    )


def pack_ids(ids: Iterable[int]) -> bytes:
    """Bucket ids of a placement."""
    found = list(ids)
    return struct.pack(f"<{len(found)}i", *found)


def unpack_ids(packed: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(packed) // 4}i", packed)
