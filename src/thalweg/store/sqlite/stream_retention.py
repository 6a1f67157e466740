"""Retention in bounded steps: each costs what it lets go, whatever is stored."""

from __future__ import annotations

from typing import Final

from thalweg.domain.streams import EventStream, Step, View
from thalweg.store.sqlite.stream_buckets import KEEP_STATE, STATE
from thalweg.store.sqlite.stream_buckets import Step as ViewStep
from thalweg.store.sqlite.stream_codec import Codec, digest, first_id, object_digest
from thalweg.store.sqlite.stream_expiry import expire, is_on_a_page, note_versions, shorten
from thalweg.store.sqlite.writer import Transaction

MAX_AGED: Final = 1_000
"""Members that one step finds old."""
MAX_DUE: Final = 100
"""Buckets that one step shortens."""
MAX_NOTED: Final = 500
"""Members that one step takes up for the event source's policies."""
MAX_LOOSE: Final = 500
"""Members that one step removes from a stream."""

STREAM: Final = "SELECT uuid, is_closed, sequence, source_view FROM stream_state WHERE stream_id = ?"
OLD: Final = """
    SELECT at_us, sequence FROM aging WHERE stream_id = ? AND view_id = ? AND at_us < ?
    ORDER BY at_us, sequence LIMIT ?"""
DROP_OLD: Final = "DELETE FROM aging WHERE stream_id = ? AND view_id = ? AND at_us = ? AND sequence = ?"
AGE: Final = "INSERT OR REPLACE INTO aging (stream_id, view_id, at_us, sequence) VALUES (?, ?, ?, ?)"
MEMBERS: Final = "SELECT id, at_us, dictionary, body FROM member WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
MEMBER: Final = "SELECT id, at_us, dictionary, body FROM member WHERE id = ?"
DUE: Final = "SELECT id FROM bucket WHERE stream_id = ? AND view_id = ? AND is_due = 1 ORDER BY id LIMIT ?"

EXPIRE: Final = "INSERT OR IGNORE INTO expired_member (stream_id, view_id, sequence, is_loose) VALUES (?, ?, ?, 1)"
LOOSE: Final = """
    SELECT sequence FROM expired_member WHERE stream_id = ? AND view_id = ? AND is_loose = 1 AND sequence <= ?
    ORDER BY sequence LIMIT ?"""
FASTEN: Final = "UPDATE expired_member SET is_loose = 0 WHERE stream_id = ? AND view_id = ? AND sequence = ?"
DROP_EXPIRED: Final = "DELETE FROM expired_member WHERE stream_id = ? AND view_id = ? AND sequence = ?"
VIEWS: Final = """
    SELECT v.id, s.position FROM stream_view v JOIN view_state s ON s.stream_id = v.stream_id AND s.view_id = v.id
    WHERE v.stream_id = ?"""
DROP_MEMBER: Final = "DELETE FROM member WHERE id = ?"
DROP_KEY: Final = "DELETE FROM member_key WHERE stream_id = ? AND level = ? AND digest = ? AND sequence = ?"
DROP_PLACEMENT: Final = "DELETE FROM placement WHERE stream_id = ? AND view_id = ? AND sequence = ?"
LOSE: Final = """
    UPDATE stream_state
    SET members = members - ?1, size_bytes = size_bytes - ?2, generation = generation + 1, fresh_keys = fresh_keys - ?3
    WHERE stream_id = ?4"""


def retain_view(tx: Transaction, codec: Codec, stream_id: int, view: View, now_us: int, grace_us: int) -> Step:
    """A step of a view's own retention."""
    rows = tx.rows(STREAM, (stream_id,))
    if not rows or not view.retention:
        return Step(0, False)
    uuid, is_closed, sequence, _ = rows[0]
    try:
        step = ViewStep(tx, view)
    except KeyError:
        return Step(0, False)
    old, more = _take_old(tx, codec, stream_id, view.id, uuid, view.retention.versions, view, now_us)
    if not old and not tx.rows(DUE, (stream_id, view.id, 1)):
        return Step(0, more)
    expire(step, old, fixed=bool(is_closed) and step.position >= sequence)
    step.write()
    due = tx.rows(DUE, (stream_id, view.id, MAX_DUE))
    for (bucket_id,) in due:
        more |= shorten(step, step.bucket(bucket_id), now_us, grace_us)
    for bucket in step.emptied():
        step.remove_empty(bucket)
    step.write()
    return Step(len(old), more or len(due) == MAX_DUE)


def _take_old(
    tx: Transaction,
    codec: Codec,
    stream_id: int,
    view_id: int,
    uuid: str,
    versions: int,
    policy: View | EventStream,
    now_us: int,
) -> tuple[list[int], bool]:
    """Members that have become old by now and are to go, and whether there are more."""
    limit_us = policy.retention.old_before_us(now_us)
    if limit_us is None:
        return [], False
    rows = tx.rows(OLD, (stream_id, view_id, limit_us, MAX_AGED))
    tx.many(DROP_OLD, [(stream_id, view_id, at_us, sequence) for at_us, sequence in rows])
    old = [sequence for _, sequence in rows]
    if versions and old:
        # Of the old ones of each object, the newest by order of ingest stay.
        keys = [
            (object_digest(uuid, member.version_of), member.sequence)
            for sequence in old
            for member in codec.decode(tx.rows, stream_id, tx.rows(MEMBER, (first_id(stream_id) + sequence,)))
            if member.version_of
        ]
        old = note_versions(tx, stream_id, view_id, versions, keys)
    return old, len(rows) == MAX_AGED


# ---------------------------------------------------------------- event source


def retain_source(tx: Transaction, codec: Codec, stream: EventStream, now_us: int) -> Step:
    """A step of the event source's retention: note what is to go, remove what is on no page any more."""
    rows = tx.rows(STREAM, (stream.id,))
    if not rows:
        return Step(0, False)
    uuid, _, sequence, source = rows[0]
    if not source:
        return Step(0, False)
    noted, expired, more = _note(tx, codec, stream, uuid, source, sequence)
    old, more_old = _take_old(tx, codec, stream.id, source, uuid, stream.retention.versions, stream, now_us)
    tx.many(EXPIRE, [(stream.id, source, item) for item in (*expired, *old)])
    removed, more_loose = _remove_loose(tx, codec, stream.id, source, uuid)
    return Step(noted + removed, more or more_old or more_loose)


def _note(
    tx: Transaction, codec: Codec, stream: EventStream, uuid: str, source: int, sequence: int
) -> tuple[int, list[int], bool]:
    """Take up members that came since the last step. Returns how many, those that go at once, whether more wait."""
    state = tx.rows(STATE, (stream.id, source))
    if not state or state[0][0] >= sequence:
        return 0, [], False
    position = state[0][0]
    base = first_id(stream.id)
    rows = tx.rows(MEMBERS, (base + position, base + sequence, MAX_NOTED))
    expired: list[int] = []
    if stream.retention.by_age:
        tx.many(AGE, [(stream.id, source, row[1], row[0] - base) for row in rows if row[1] is not None])
    else:
        versions = [
            (object_digest(uuid, member.version_of), member.sequence)
            for member in codec.decode(tx.rows, stream.id, rows)
            if member.version_of
        ]
        expired = note_versions(tx, stream.id, source, stream.retention.versions, versions)
    more = len(rows) == MAX_NOTED
    tx.rows(KEEP_STATE, (rows[-1][0] - base if more else sequence, *state[0][1:], stream.id, source))
    return len(rows), expired, more


def _remove_loose(tx: Transaction, codec: Codec, stream_id: int, source: int, uuid: str) -> tuple[int, bool]:
    """Remove members that the event source lets go and that are on no page of any view."""
    views = tx.rows(VIEWS, (stream_id,))
    # A view that has not come so far may still need them.
    limit = min((position for _, position in views), default=1 << 40)
    loose = [sequence for (sequence,) in tx.rows(LOOSE, (stream_id, source, limit, MAX_LOOSE))]
    removed = size = fresh = 0
    for sequence in loose:
        if any(is_on_a_page(tx, stream_id, view_id, sequence) for view_id, _ in views):
            tx.rows(FASTEN, (stream_id, source, sequence))
            continue
        member_id = first_id(stream_id) + sequence
        for row in tx.rows(MEMBER, (member_id,)):
            (member,) = codec.decode(tx.rows, stream_id, [row])
            key = digest(uuid, member.iri)
            for level in (0, 1):
                changes = tx.rows(DROP_KEY + " RETURNING level", (stream_id, level, key, sequence))
                fresh += bool(changes) and level == 0
            size += len(row[3])
            removed += 1
        tx.rows(DROP_MEMBER, (member_id,))
        tx.rows(DROP_EXPIRED, (stream_id, source, sequence))
        for view_id, _ in views:
            tx.rows(DROP_PLACEMENT, (stream_id, view_id, sequence))
    if removed:
        tx.rows(LOSE, (removed, size, fresh, stream_id))
    return removed, len(loose) == MAX_LOOSE
