"""What keeps streams in form: rows of deleted ones removed, keys settled, dictionaries made. All in bounded steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from thalweg.domain.streams import Step
from thalweg.store.sqlite.connection import Readers
from thalweg.store.sqlite.stream_buckets import LOOSEN
from thalweg.store.sqlite.stream_codec import (
    SHIFT,
    Codec,
    compressed_size,
    first_id,
    make_dictionary,
    sample_of,
)
from thalweg.store.sqlite.writer import Transaction

MAX_REMOVED: Final = 4_000
"""Small rows of one table removed in a step, and MAX_MEMBERS members: some 10 ms."""
MAX_MEMBERS: Final = 1_500
FRESH_KEYS: Final = 65_536
"""Keys on the small level that are let stand; MAX_SETTLED of them move to the large one in a step."""
MAX_SETTLED: Final = 4_096
FIRST_DICTIONARY: Final = 200
"""Members before the first dictionary is made; SECOND_DICTIONARY: before it is looked whether a new one is better."""
SECOND_DICTIONARY: Final = 20_000
MAX_SAMPLES: Final = 400
MAX_SAMPLE_BYTES: Final = 4 << 20
GAIN: Final = 0.9
"""A new dictionary is taken if what it makes is so much shorter."""

REMOVAL: Final = "SELECT stream_id, view_id FROM stream_removal ORDER BY stream_id, view_id LIMIT 1"
REMOVED: Final = "DELETE FROM stream_removal WHERE stream_id = ? AND view_id = ?"
GONE: Final = """
    SELECT p.stream_id, p.view_id, p.bucket_id, p.number, p.first, p.last FROM view_state s
    JOIN page p ON p.stream_id = s.stream_id AND p.view_id = s.view_id
    WHERE p.gone_us IS NOT NULL AND p.gone_us <= ? LIMIT ?"""
DROP_PAGE: Final = "DELETE FROM page WHERE stream_id = ? AND view_id = ? AND bucket_id = ? AND number = ?"

# The names of tables and columns are this module's own. The key of each begins with the stream and the view.
_OF_VIEWS: Final = {
    "page": "bucket_id, number",
    "placement": "sequence",
    "aging": "at_us, sequence",
    "version": "object",
    "expired_member": "sequence",
    "bucket": "id",
}
_OF_STREAM: Final = {
    "member_key": "level, digest, sequence",
    "member_dictionary": "version",
    "published_feature_page": "number",
    "published_layer": "layer_id",
    "published_page": "track_id, number",
    "published_terms": "track_id, version",
    "published_track": "track_id",
}
DROP_OF_VIEW: Final = """
    DELETE FROM {table} WHERE stream_id = ?1 AND view_id = ?2 AND ({key}) IN
        (SELECT {key} FROM {table} WHERE stream_id = ?1 AND view_id = ?2 LIMIT ?3) RETURNING 1"""
DROP_OF_VIEWS: Final = """
    DELETE FROM {table} WHERE stream_id = ?1 AND (view_id, {key}) IN
        (SELECT view_id, {key} FROM {table} WHERE stream_id = ?1 LIMIT ?2) RETURNING 1"""
DROP_OF_STREAM: Final = """
    DELETE FROM {table} WHERE stream_id = ?1 AND ({key}) IN
        (SELECT {key} FROM {table} WHERE stream_id = ?1 LIMIT ?2) RETURNING 1"""
FIRST_MEMBER: Final = "SELECT min(id) FROM member WHERE id > ? AND id < ?"
DROP_MEMBERS: Final = "DELETE FROM member WHERE id >= ? AND id < ? RETURNING 1"
SPAN_OF_PAGES: Final = "SELECT min(first), max(last) FROM page WHERE stream_id = ? AND view_id = ? AND members > 0"

SOURCE: Final = "SELECT source_view FROM stream_state WHERE stream_id = ?"
STATE: Final = "SELECT sequence, members, dictionary, fresh_keys, settled FROM stream_state WHERE stream_id = ?"
FRESH: Final = """
    SELECT digest, sequence FROM member_key WHERE stream_id = ? AND level = 0 AND digest > ?
    ORDER BY digest, sequence LIMIT ?"""
DROP_FRESH: Final = "DELETE FROM member_key WHERE stream_id = ? AND level = 0 AND digest = ? AND sequence = ?"
ADD_SETTLED: Final = "INSERT OR IGNORE INTO member_key (stream_id, level, digest, sequence) VALUES (?, 1, ?, ?)"
KEEP_SETTLED: Final = "UPDATE stream_state SET fresh_keys = fresh_keys - ?, settled = ? WHERE stream_id = ?"
_FIRST: Final = -(1 << 63)

NEWEST: Final = """
    SELECT id, at_us, dictionary, body FROM member WHERE id > ? AND id < ? AND length(body) < 65536
    ORDER BY id DESC LIMIT ?"""
LATEST_DICTIONARY: Final = """
    SELECT version, dictionary FROM member_dictionary WHERE stream_id = ? ORDER BY version DESC LIMIT 1"""
ADD_DICTIONARY: Final = """
    INSERT OR IGNORE INTO member_dictionary (stream_id, version, dictionary) VALUES (?, ?, ?) RETURNING version"""
USE_DICTIONARY: Final = "UPDATE stream_state SET dictionary = ? WHERE stream_id = ?"


# ---------------------------------------------------------------- removing


def clean(tx: Transaction, now_us: int) -> Step:
    """See ``StreamStore.clean``."""
    gone = tx.rows(GONE, (now_us, MAX_REMOVED))
    for stream_id, view_id, bucket_id, number, first, last in gone:
        tx.rows(DROP_PAGE, (stream_id, view_id, bucket_id, number))
        tx.rows(LOOSEN, (stream_id, first, last))
    if gone:
        return Step(len(gone), True)
    for stream_id, view_id in tx.rows(REMOVAL):
        done = _remove_view(tx, stream_id, view_id) if view_id else _remove_stream(tx, stream_id)
        if not done:
            tx.rows(REMOVED, (stream_id, view_id))
        return Step(done, True)
    return Step(0, False)


def _remove_view(tx: Transaction, stream_id: int, view_id: int) -> int:
    """Rows removed; 0 when none is left."""
    for table, key in _OF_VIEWS.items():
        if table == "page":
            # What stood on its pages may now be on none.
            for first, last in tx.rows(SPAN_OF_PAGES, (stream_id, view_id)):
                if first is not None:
                    tx.rows(LOOSEN, (stream_id, first, last))
        done = len(tx.rows(DROP_OF_VIEW.format(table=table, key=key), (stream_id, view_id, MAX_REMOVED)))
        if done:
            return done
    return 0


def _remove_stream(tx: Transaction, stream_id: int) -> int:
    low, high = first_id(stream_id), first_id(stream_id + 1)
    first = tx.rows(FIRST_MEMBER, (low, high))[0][0]
    if first is not None:
        return len(tx.rows(DROP_MEMBERS, (first, min(high, first + MAX_MEMBERS))))
    for table, key in (*_OF_VIEWS.items(), *_OF_STREAM.items()):
        form = DROP_OF_VIEWS if table in _OF_VIEWS else DROP_OF_STREAM
        done = len(tx.rows(form.format(table=table, key=key), (stream_id, MAX_REMOVED)))
        if done:
            return done
    return 0


# ---------------------------------------------------------------- keys


def wants_settling(fresh_keys: int) -> bool:
    return fresh_keys > FRESH_KEYS


def settle(tx: Transaction, stream_id: int) -> Step:
    """Move some keys to the large level, going round in the order of its tree."""
    rows = tx.rows(STATE, (stream_id,))
    if not rows or not wants_settling(rows[0][3]):
        return Step(0, False)
    settled = rows[0][4]
    fresh = tx.rows(FRESH, (stream_id, settled, MAX_SETTLED))
    tx.many(ADD_SETTLED, [(stream_id, key, sequence) for key, sequence in fresh])
    tx.many(DROP_FRESH, [(stream_id, key, sequence) for key, sequence in fresh])
    settled = fresh[-1][0] if len(fresh) == MAX_SETTLED else _FIRST
    tx.rows(KEEP_SETTLED, (len(fresh), settled, stream_id))
    return Step(len(fresh), wants_settling(rows[0][3] - len(fresh)))


# ---------------------------------------------------------------- dictionaries


def dictionary_wanted(readers: Readers, codec: Codec, stream_id: int) -> Callable[[Transaction], Step] | None:
    """The work of storing a dictionary made from the newest members, where it is time for one and it is of use."""
    rows = readers.rows(STATE, (stream_id,))
    if not rows:
        return None
    sequence, members, in_use, _, _ = rows[0]
    wanted = (sequence >= FIRST_DICTIONARY) + (sequence >= SECOND_DICTIONARY)
    latest = readers.rows(LATEST_DICTIONARY, (stream_id,))
    version = latest[0][0] if latest else 0
    if version >= wanted or members < FIRST_DICTIONARY // 2:
        return None
    base = first_id(stream_id)
    samples: list[bytes] = []
    size = 0
    for row in readers.rows(NEWEST, (base, base + (1 << SHIFT), MAX_SAMPLES)):
        (member,) = codec.decode(readers.rows, stream_id, [row])
        sample = sample_of(member)
        size += len(sample)
        if size > MAX_SAMPLE_BYTES:
            break
        samples.append(sample)
    if len(samples) < 8:
        return None
    dictionary = make_dictionary(samples)
    if in_use and compressed_size(samples[1::2], dictionary) > GAIN * compressed_size(samples[1::2], latest[0][1]):
        # Not worth it, now and for good: noted under the next version, with which nothing will be compressed.
        use, dictionary = in_use, latest[0][1]
    else:
        use = version + 1

    def work(tx: Transaction) -> Step:
        if tx.rows(STATE, (stream_id,)) and tx.rows(ADD_DICTIONARY, (stream_id, version + 1, dictionary)):
            tx.rows(USE_DICTIONARY, (use, stream_id))
            return Step(1, False)
        return Step(0, False)

    return work
