"""Members of streams: appending them, recognising known ones, reading them in order."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Final

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
    SELECT is_closed, sequence, members, size_bytes, generation, fresh_keys FROM stream_state WHERE stream_id = ?"""
KEEP_STATE: Final = """
    UPDATE stream_state SET sequence = ?, members = ?, size_bytes = ?, generation = ?, fresh_keys = ?
    WHERE stream_id = ?"""
KNOWN: Final = """
    SELECT sequence FROM member_key WHERE stream_id = ?1 AND level = 0 AND digest = ?2
    UNION ALL SELECT sequence FROM member_key WHERE stream_id = ?1 AND level = 1 AND digest = ?2"""
ADD_KEY: Final = "INSERT INTO member_key (stream_id, level, digest, sequence) VALUES (?, 0, ?, ?)"
ADD_MEMBER: Final = "INSERT INTO member (id, at_us, dictionary, body) VALUES (?, ?, ?, ?)"
MEMBER: Final = "SELECT id, at_us, dictionary, body FROM member WHERE id = ?"
MEMBERS: Final = """
    SELECT id, at_us, dictionary, body FROM member WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"""
SOME: Final = """
    SELECT m.id, m.at_us, m.dictionary, m.body FROM json_each(?) AS wanted JOIN member m ON m.id = wanted.value
    ORDER BY wanted.key"""
HANDLE: Final = "SELECT uuid, dictionary FROM stream_state WHERE stream_id = ?"

HANDLE_S: Final = 1.0
"""How long a process goes on with what it knows of a stream's dictionary; an older one is as good, just longer."""
READ_ROWS: Final = 250
"""Rows read at once where members are read in order."""
_NO_LINES: Final = re.compile(r'[\x00-\x20<>"{}|\\^`]')
MAX_TIMESTAMP: Final = 64


class MemberReader:
    """Reading of members, and what appending them needs to know before its transaction."""

    def __init__(self, readers: Readers, codec: Codec) -> None:
        self._readers = readers
        self._codec = codec
        self._handles: dict[int, tuple[float, str, int]] = {}

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
            for row in rows:
                found += self._codec.decode(query, stream_id, (row,))
                size += len(found[-1].text)
                if size >= MAX_MEMBERS_BYTES:
                    break
        return found

    def member(self, stream_id: int, iri: str) -> StoredMember | None:
        query = self._readers.mine().rows
        if not query(HANDLE, (stream_id,)):
            return None
        uuid, _ = self._handle(stream_id)
        return find(query, self._codec, stream_id, uuid, iri)

    def prepare(self, stream_id: int, members: Sequence[Member]) -> Callable[[Transaction], Appended]:
        """The work of storing members, checked and compressed. Raises NotFound, InvalidParameter, TooLarge."""
        if len(members) > MAX_APPEND:
            raise TooLarge(f"A request may bring at most {MAX_APPEND:,} members.", parameter="member")
        for member in members:
            check_member(member)
        uuid, version = self._handle(stream_id)
        bodies = self._codec.encode(self._readers.mine().rows, stream_id, version, members)
        digests = [digest(uuid, member.iri) for member in members]
        return lambda tx: append(tx, self._codec, stream_id, members, digests, version, bodies)

    def forget(self, stream_id: int) -> None:
        """Look at the stream's dictionary again before the next members."""
        self._handles.pop(stream_id, None)

    def _handle(self, stream_id: int) -> tuple[str, int]:
        """UUID of a stream, and the dictionary that new members are compressed with."""
        handle = self._handles.get(stream_id)
        now_s = time.monotonic()
        if handle is None or now_s - handle[0] > HANDLE_S:
            rows = self._readers.rows(HANDLE, (stream_id,))
            if not rows:
                self._handles.pop(stream_id, None)
                raise NotFound("stream", "The event stream is not there.")
            if len(self._handles) > 10_000:
                self._handles.clear()
            handle = self._handles[stream_id] = (now_s, *rows[0])
        return handle[1:]


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


def append(
    tx: Transaction,
    codec: Codec,
    stream_id: int,
    members: Sequence[Member],
    digests: Sequence[int],
    version: int,
    bodies: Sequence[bytes],
) -> Appended:
    """See ``StreamStore.append``. Nothing is written before all is judged."""
    rows = tx.rows(STATE, (stream_id,))
    if not rows:
        raise NotFound("stream", "The event stream is not there.")
    is_closed, sequence, count, size, generation, fresh = rows[0]
    if is_closed:
        raise InvalidParameter("stream", "The event stream is closed: it takes no members any more.")
    base = first_id(stream_id)
    sequences: list[int] = []
    is_new: list[bool] = []
    keys: list[tuple[int, ...]] = []
    stored: list[tuple[int, int | None, int, bytes]] = []
    seen: dict[str, int] = {}
    for member, key, body in zip(members, digests, bodies, strict=True):
        known = seen.get(member.iri) or _known(tx, codec, stream_id, key, member.iri)
        is_new.append(known is None)
        if known is None:
            sequence += 1
            known = sequence
            keys.append((stream_id, key, sequence))
            stored.append((base + sequence, member.timestamp_us, version, body))
            size += len(body)
        seen[member.iri] = known
        sequences.append(known)
    if stored:
        if len(stored) == 1:
            tx.rows(ADD_MEMBER, stored[0])
            tx.rows(ADD_KEY, keys[0])
        else:
            tx.many(ADD_MEMBER, stored)
            tx.many(ADD_KEY, sorted(keys))
        added = len(stored)
        tx.rows(KEEP_STATE, (sequence, count + added, size, generation + 1, fresh + added, stream_id))
    return Appended(tuple(sequences), tuple(is_new))


def _known(tx: Transaction, codec: Codec, stream_id: int, key: int, iri: str) -> int | None:
    """Sequence of the member of that IRI, None if there is none."""
    for (sequence,) in tx.rows(KNOWN, (stream_id, key)):
        (found,) = codec.decode(tx.rows, stream_id, tx.rows(MEMBER, (first_id(stream_id) + sequence,)))
        if found.iri == iri:
            return int(sequence)
    return None


def find(query: Query, codec: Codec, stream_id: int, uuid: str, iri: str) -> StoredMember | None:
    """The member of an IRI."""
    for (sequence,) in query(KNOWN, (stream_id, digest(uuid, iri))):
        for found in codec.decode(query, stream_id, query(MEMBER, (first_id(stream_id) + sequence,))):
            if found.iri == iri:
                return found
    return None
