"""Members of streams: appending them, recognising known ones, reading them in order."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from itertools import chain
from typing import Final

import apsw

from thalweg.domain.errors import InvalidParameter, NotFound, TooLarge
from thalweg.domain.streams import (
    MAX_APPEND,
    MAX_IRI_LENGTH,
    MAX_MEMBER_BYTES,
    MAX_MEMBERS_BYTES,
    Appended,
    Member,
    StoredMember,
)
from thalweg.domain.time import END_US, MIN_US
from thalweg.store.sqlite.connection import Readers
from thalweg.store.sqlite.stream_codec import Codec, Query, digest, first_id
from thalweg.store.sqlite.writer import Transaction

STATE: Final = """
    SELECT is_closed, sequence, members, size_bytes, generation, fresh_keys, uuid, dictionary FROM stream_state
    WHERE stream_id = ?"""
KEEP_STATE: Final = """
    UPDATE stream_state SET sequence = ?, members = ?, size_bytes = ?, generation = ?, fresh_keys = ?
    WHERE stream_id = ?"""
KNOWN: Final = """
    SELECT sequence FROM member_key WHERE stream_id = ?1 AND level = 0 AND digest = ?2
    UNION ALL SELECT sequence FROM member_key WHERE stream_id = ?1 AND level = 1 AND digest = ?2"""
KNOWN_OF: Final = """
    SELECT k.sequence FROM carray(?1) d CROSS JOIN member_key k
        ON k.stream_id = ?2 AND k.level = 0 AND k.digest = d.value
    UNION ALL SELECT k.sequence FROM carray(?1) d CROSS JOIN member_key k
        ON k.stream_id = ?2 AND k.level = 1 AND k.digest = d.value"""
ADD_KEY: Final = "INSERT INTO member_key (stream_id, level, digest, sequence) VALUES (?, 0, ?, ?)"
ADD_MEMBER: Final = "INSERT INTO member (id, at_us, dictionary, body) VALUES (?, ?, ?, ?)"
MEMBER: Final = "SELECT id, at_us, dictionary, body FROM member WHERE id = ?"
MEMBERS: Final = """
    SELECT id, at_us, dictionary, body FROM member WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"""
SOME: Final = """
    SELECT m.id, m.at_us, m.dictionary, m.body FROM json_each(?) AS wanted JOIN member m ON m.id = wanted.value
    ORDER BY wanted.key"""
UUID: Final = "SELECT uuid FROM stream_state WHERE stream_id = ?"

READ_ROWS: Final = 250
"""Rows read at once where members are read in order."""
_NO_LINES: Final = re.compile(r'[\x00-\x20<>"{}|\\^`]')
MAX_TIMESTAMP: Final = 64


class MemberReader:
    """Reading of members."""

    def __init__(self, readers: Readers, codec: Codec) -> None:
        self._readers = readers
        self._codec = codec

    def members(self, stream_id: int, after: int, limit: int) -> list[StoredMember]:
        query = self._readers.mine().rows
        end = first_id(stream_id + 1) - 1
        after_id = first_id(stream_id) + max(0, after)
        found: list[StoredMember] = []
        size = 0
        while len(found) < limit and size < MAX_MEMBERS_BYTES:
            rows = query(MEMBERS, (after_id, end, min(READ_ROWS, limit - len(found))))
            if not rows:
                break
            after_id = rows[-1][0]
            decoded = self._codec.decode(query, stream_id, rows, MAX_MEMBERS_BYTES - size)
            found += decoded
            size += sum(len(member.text) for member in decoded)
            if len(decoded) < len(rows):
                break
        return found

    def member(self, stream_id: int, iri: str) -> StoredMember | None:
        query = self._readers.mine().rows
        for (uuid,) in query(UUID, (stream_id,)):
            return find(query, self._codec, stream_id, uuid, iri)
        return None


def check_member(member: Member) -> None:
    """That a member can be kept and given out as it is. Raises InvalidParameter, TooLarge."""
    if not member.iri or len(member.iri) > MAX_IRI_LENGTH or _NO_LINES.search(member.iri):
        raise InvalidParameter("member", f"'{member.iri[:80]}' cannot be the IRI of a member.")
    if len(member.version_of) > MAX_IRI_LENGTH or _NO_LINES.search(member.version_of):
        raise InvalidParameter("versionOf", f"'{member.version_of[:80]}' cannot be the IRI of an object.")
    if len(member.timestamp) > MAX_TIMESTAMP or "\n" in member.timestamp:
        raise InvalidParameter("timestamp", f"'{member.timestamp[:80]}' cannot be a timestamp.")
    if member.timestamp_us is not None and not MIN_US <= member.timestamp_us < END_US:
        raise InvalidParameter("timestamp", f"'{member.timestamp[:80]}' is outside the years 0001 to 9999 (UTC).")
    if len(member.text) > MAX_MEMBER_BYTES:
        raise TooLarge(
            f"Member {member.iri[:200]} has {len(member.text):,} bytes of triples; {MAX_MEMBER_BYTES:,} are allowed.",
            parameter="member",
        )


def check_members(members: Sequence[Member]) -> None:
    """That the members of one request can be kept. Raises InvalidParameter, TooLarge."""
    if len(members) > MAX_APPEND:
        raise TooLarge(f"A request may bring at most {MAX_APPEND:,} members.", parameter="member")
    for member in members:
        check_member(member)


def append(
    tx: Transaction, codec: Codec, stream_id: int, requests: Sequence[Sequence[Member]]
) -> list[Appended | BaseException]:
    """See ``StreamStore.append``, of several requests in their order. Nothing is written before all is judged.

    Members are compressed here: the library lets go of the interpreter for it, so other threads work on meanwhile.
    """
    rows = tx.rows(STATE, (stream_id,))
    if not rows:
        return [NotFound("stream", "The event stream is not there.") for _ in requests]
    is_closed, sequence, count, size, generation, fresh, uuid, version = rows[0]
    if is_closed:
        return [
            InvalidParameter("stream", "The event stream is closed: it takes no members any more.") for _ in requests
        ]
    base = first_id(stream_id)
    digests = [[digest(uuid, member.iri) for member in members] for members in requests]
    known = _known(tx, codec, stream_id, digests, requests)
    keys: list[tuple[int, ...]] = []
    fresh_members: list[Member] = []
    first = sequence + 1
    appended: list[Appended | BaseException] = []
    for members, own in zip(requests, digests, strict=True):
        sequences: list[int] = []
        is_new: list[bool] = []
        for member, key in zip(members, own, strict=True):
            found = known.get(member.iri)
            is_new.append(found is None)
            if found is None:
                sequence += 1
                found = known[member.iri] = sequence
                keys.append((stream_id, key, sequence))
                fresh_members.append(member)
            sequences.append(found)
        appended.append(Appended(tuple(sequences), tuple(is_new)))
    if fresh_members:
        bodies = codec.encode(tx.rows, stream_id, version, fresh_members)
        stored = [
            (base + number, member.timestamp_us, version, body)
            for number, (member, body) in enumerate(zip(fresh_members, bodies, strict=True), first)
        ]
        size += sum(map(len, bodies))
        if len(stored) == 1:
            tx.rows(ADD_MEMBER, stored[0])
            tx.rows(ADD_KEY, keys[0])
        else:
            tx.many(ADD_MEMBER, stored)
            tx.many(ADD_KEY, sorted(keys))
        added = len(stored)
        tx.rows(KEEP_STATE, (sequence, count + added, size, generation + 1, fresh + added, stream_id))
    return appended


def _known(
    tx: Transaction,
    codec: Codec,
    stream_id: int,
    digests: Sequence[Sequence[int]],
    requests: Sequence[Sequence[Member]],
) -> dict[str, int]:
    """Sequences, by IRI, of the members that are there already."""
    keys = list(chain.from_iterable(digests))
    if not keys:
        return {}
    rows = tx.rows(KNOWN_OF, (apsw.carray(array("q", keys)), stream_id))
    if not rows:
        return {}
    iris = {member.iri for members in requests for member in members}
    known: dict[str, int] = {}
    for (sequence,) in rows:
        (found,) = codec.decode(tx.rows, stream_id, tx.rows(MEMBER, (first_id(stream_id) + sequence,)))
        # Digests of others may be equal.
        if found.iri in iris:
            known[found.iri] = int(sequence)
    return known


def find(query: Query, codec: Codec, stream_id: int, uuid: str, iri: str) -> StoredMember | None:
    """The member of an IRI."""
    for (sequence,) in query(KNOWN, (stream_id, digest(uuid, iri))):
        for found in codec.decode(query, stream_id, query(MEMBER, (first_id(stream_id) + sequence,))):
            if found.iri == iri:
                return found
    return None
