"""Verifying event streams: every member, and every view against the members."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from thalweg.domain.errors import DamagedData
from thalweg.domain.store import Finding
from thalweg.domain.streams import View
from thalweg.store.sqlite.connection import Readers
from thalweg.store.sqlite.stream_buckets import ROOT, Bucket, Page, unpack_ids
from thalweg.store.sqlite.stream_codec import SHIFT, Codec, digest, first_id
from thalweg.store.sqlite.stream_entities import view_of

STREAMS: Final = """
    SELECT s.stream_id, e.name, s.uuid, s.sequence, s.members, s.size_bytes, s.fresh_keys
    FROM stream_state s LEFT JOIN event_stream e ON e.id = s.stream_id WHERE s.stream_id = ?"""
IDS: Final = "SELECT stream_id FROM stream_state UNION SELECT id FROM event_stream ORDER BY 1"
MEMBERS: Final = "SELECT id, at_us, dictionary, body FROM member WHERE id > ? AND id < ? ORDER BY id LIMIT 1000"
KEY: Final = "SELECT level FROM member_key WHERE stream_id = ?1 AND level IN (0, 1) AND digest = ?2 AND sequence = ?3"
KEYS: Final = "SELECT count(*), coalesce(sum(level = 0), 0) FROM member_key WHERE stream_id = ?"
STRAY_MEMBERS: Final = """
    SELECT DISTINCT id >> 40 FROM member WHERE (id >> 40) NOT IN
        (SELECT stream_id FROM stream_state UNION SELECT stream_id FROM stream_removal WHERE view_id = 0) LIMIT 100"""
VIEWS: Final = "SELECT stream_id, id, name, document FROM stream_view WHERE stream_id = ? ORDER BY id"
STATE: Final = """
    SELECT position, members, placed, buckets, pages FROM view_state WHERE stream_id = ? AND view_id = ?"""
BUCKETS: Final = """
    SELECT id, parent_id, query, members, own, first_page, open_page, pages_made, dead, generation, is_removed,
        is_due
    FROM bucket WHERE stream_id = ? AND view_id = ? ORDER BY id"""
PAGES: Final = """
    SELECT number, first, last, members, is_closed, next_page, dead, gone_us, generation, sequences, dead_bits
    FROM page WHERE stream_id = ? AND view_id = ? AND bucket_id = ? ORDER BY number"""
PLACEMENTS: Final = "SELECT sequence, buckets FROM placement WHERE stream_id = ? AND view_id = ?"


def check_streams(readers: Readers) -> Iterator[Finding]:
    """Findings as they come; each stream is read in one snapshot that is over before any is given out."""
    codec = Codec()
    for (stream_id,) in readers.rows(STRAY_MEMBERS):
        yield Finding(f"event stream {stream_id}", "there are members of this stream, which is not there")
    for (stream_id,) in readers.rows(IDS):
        findings: list[Finding] = []
        try:
            with readers.mine().snapshot():
                _Stream(readers, codec, stream_id, findings).check()
        except DamagedData as error:
            findings.append(Finding(f"event stream {stream_id}", error.message))
        yield from findings


class _Stream:
    """The check of one stream, inside a snapshot."""

    def __init__(self, readers: Readers, codec: Codec, stream_id: int, findings: list[Finding]) -> None:
        self._query = readers.mine().rows
        self._codec = codec
        self._id = stream_id
        self._findings = findings
        self._place = f"event stream {stream_id}"
        self._sequences: set[int] = set()

    def _found(self, problem: str, where: str = "") -> None:
        self._findings.append(Finding(f"{self._place}, {where}" if where else self._place, problem))

    def check(self) -> None:
        rows = self._query(STREAMS, (self._id,))
        if not rows:
            self._found("it has no state")
            return
        _, name, uuid, sequence, members, size, fresh = rows[0]
        if name is None:
            self._found("it has a state, but no description")
            return
        self._place = f"event stream '{name}'"
        self._check_members(uuid, sequence, members, size, fresh)
        for row in self._query(VIEWS, (self._id,)):
            self._check_view(view_of(row), sequence)

    # -------------------------------------------------------------- members

    def _check_members(self, uuid: str, sequence: int, members: int, size: int, fresh: int) -> None:
        base = after = first_id(self._id)
        count = bytes_found = 0
        while rows := self._query(MEMBERS, (after, base + (1 << SHIFT))):
            after = rows[-1][0]
            for row in rows:
                count += 1
                bytes_found += len(row[3])
                self._sequences.add(row[0] - base)
                try:
                    (member,) = self._codec.decode(self._query, self._id, [row])
                except DamagedData as error:
                    self._found(error.message)
                    continue
                if len(self._query(KEY, (self._id, digest(uuid, member.iri), member.sequence))) != 1:
                    self._found(f"member {member.sequence} is not found by its IRI")
        if (count, bytes_found) != (members, size) or after - base > sequence:
            self._found(
                f"it has {count} members of {bytes_found} bytes up to {after - base}, where its state says "
                f"{members} of {size} up to {sequence}"
            )
        ((keys, fresh_found),) = self._query(KEYS, (self._id,))
        if (keys, fresh_found) != (count, fresh):
            self._found(
                f"there are {keys} keys, {fresh_found} of them fresh, for {count} members and {fresh} fresh keys"
            )

    # -------------------------------------------------------------- views

    def _check_view(self, view: View, sequence: int) -> None:
        where = f"view '{view.name}'"
        states = self._query(STATE, (self._id, view.id))
        if not states:
            self._found("it has no state", where)
            return
        position, members, placed, buckets, pages = states[0]
        if position > sequence:
            self._found(f"it is at {position}, where the stream ends with {sequence}", where)
        found = {bucket.id: bucket for bucket in map(Bucket.of, self._query(BUCKETS, (self._id, view.id)))}
        if ROOT not in found:
            self._found("its root is not there", where)
            return
        holders: dict[int, set[int]] = {}
        listed = 0
        for bucket in found.values():
            own, chain = self._check_pages(view, bucket, where)
            listed += chain
            for item in own:
                holders.setdefault(item, set()).add(bucket.id)
            if bucket.id != ROOT and bucket.parent_id not in found:
                self._found("the bucket above it is not there", f"{where}, bucket '{bucket.query}'")
                return
        active = sum(not bucket.is_removed for bucket in found.values())
        counts = (len(holders), sum(map(len, holders.values())), active, listed)
        if counts != (members, placed, buckets, pages):
            self._found(
                f"members, places, buckets and pages are {counts}, where its state says "
                f"{(members, placed, buckets, pages)}",
                where,
            )
        self._check_counts(found, holders, where)
        self._check_complete(view, position, holders, where)

    def _check_pages(self, view: View, bucket: Bucket, where: str) -> tuple[list[int], int]:
        """Living members on the chain of a bucket, and the length of the chain."""
        where = f"{where}, bucket '{bucket.query}'"
        try:
            pages = {page.number: page for page in map(Page.of, self._query(PAGES, (self._id, view.id, bucket.id)))}
        except DamagedData as error:
            self._found(error.message, where)
            return [], 0
        for page in pages.values():
            missing = [item for item in page.sequences if item not in self._sequences]
            if missing:
                self._found(f"page {page.number} lists members that are not there: {missing[:5]}", where)
            if len(page.sequences) > view.page_size or (page.is_closed and not page.sequences):
                self._found(f"page {page.number} has {len(page.sequences)} members", where)
            if not view.materialised and any(a >= b for a, b in zip(page.sequences, page.sequences[1:], strict=False)):
                self._found(f"the members of page {page.number} are not in order", where)
        own: list[int] = []
        dead = length = 0
        last: int | None = None
        number = bucket.first_page
        while number is not None and length <= len(pages):
            following = pages.get(number)
            if following is None or following.gone_us is not None:
                self._found(f"page {number} is led to, and not there", where)
                break
            living = following.living()
            if not view.materialised and own and living and living[0] <= own[-1]:
                self._found(f"page {number} has members that belong before those of an earlier page", where)
            own += living
            dead += following.dead
            length += 1
            last, number = number, following.next_page
        if bucket.open_page is not None and bucket.open_page != last:
            self._found(f"its chain ends with page {last}, not with its open page {bucket.open_page}", where)
        if (len(own), dead) != (bucket.own, bucket.dead) or len(set(own)) != len(own):
            self._found(f"it has {len(own)} members and {dead} gone, not {bucket.own} and {bucket.dead}", where)
        return own, length

    def _check_counts(self, buckets: dict[int, Bucket], holders: dict[int, set[int]], where: str) -> None:
        """Members at and below each bucket, each once."""
        counts = dict.fromkeys(buckets, 0)
        for ids in holders.values():
            above: set[int] = set()
            for bucket_id in ids:
                while bucket_id not in above:
                    above.add(bucket_id)
                    if bucket_id == ROOT:
                        break
                    bucket_id = buckets[bucket_id].parent_id
            for bucket_id in above:
                counts[bucket_id] += 1
        for bucket in buckets.values():
            if bucket.members != counts[bucket.id]:
                self._found(
                    f"it counts {bucket.members} members, and there are {counts[bucket.id]}",
                    f"{where}, bucket '{bucket.query}'",
                )

    def _check_complete(self, view: View, position: int, holders: dict[int, set[int]], where: str) -> None:
        """That every member is where it was put, unless retention has let it go."""
        placed = {sequence: set(unpack_ids(ids)) for sequence, ids in self._query(PLACEMENTS, (self._id, view.id))}
        for sequence, ids in holders.items():
            if not view.materialised and ids != placed.get(sequence, {ROOT}):
                self._found(f"member {sequence} is in buckets {sorted(ids)}, and was put elsewhere", where)
        if not view.retention and not view.materialised:
            missing = [item for item in self._sequences if item <= position and item not in holders]
            if missing:
                self._found(f"members are on no page: {sorted(missing)[:5]}", where)
