"""Locks on features: while one has not expired, only edits that name it change what it holds."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

import numpy as np

from thalweg.domain.errors import FeatureLocked, InvalidParameter, LockExpired, TooLarge
from thalweg.domain.features import MAX_EDIT_FEATURES, IdArray, Layer, Lock, LockTarget
from thalweg.store.sqlite.connection import Readers, Row
from thalweg.store.sqlite.layer_select import prepare, select_ids
from thalweg.store.sqlite.layer_tables import tables
from thalweg.store.sqlite.layer_writing import carray, layer_in
from thalweg.store.sqlite.writer import Transaction

REMEMBERED_US: Final = 86_400_000_000
"""An expired lock is known as such for a day."""
MAX_LOCKS: Final = 10_000
"""Locks that have not expired; more are refused."""

SELECT_LOCK: Final = "SELECT id, expires_us, duration_us FROM feature_lock WHERE id = ?"
SELECT_MEMBERS: Final = """
    SELECT layer_id, number FROM feature_lock_member WHERE lock_id = ? ORDER BY layer_id, number"""
INSERT_LOCK: Final = "INSERT INTO feature_lock (id, expires_us, duration_us, by) VALUES (?, ?, ?, ?)"
UPDATE_LOCK: Final = "UPDATE feature_lock SET expires_us = ?, duration_us = ? WHERE id = ?"
DELETE_LOCK: Final = "DELETE FROM feature_lock WHERE id = ?"
INSERT_MEMBER: Final = "INSERT OR REPLACE INTO feature_lock_member (layer_id, number, lock_id) VALUES (?, ?, ?)"
DELETE_MEMBERS: Final = "DELETE FROM feature_lock_member WHERE lock_id = ?"
DELETE_MEMBER: Final = "DELETE FROM feature_lock_member WHERE layer_id = ? AND number = ? AND lock_id = ?"
HAS_MEMBERS: Final = "SELECT 1 FROM feature_lock_member WHERE layer_id = ? LIMIT 1"
HELD: Final = """
    SELECT m.number FROM carray(?1) c CROSS JOIN feature_lock_member m ON m.layer_id = ?2 AND m.number = c.value
        JOIN feature_lock l ON l.id = m.lock_id
    WHERE l.expires_us > ?3 AND m.lock_id <> ?4"""
HELD_IN_LAYER: Final = """
    SELECT m.number FROM feature_lock_member m JOIN feature_lock l ON l.id = m.lock_id
    WHERE m.layer_id = ? AND l.expires_us > ? ORDER BY m.number"""
COUNT_LOCKS: Final = "SELECT count(*) FROM feature_lock WHERE expires_us > ?"
PURGE_MEMBERS: Final = """
    DELETE FROM feature_lock_member WHERE lock_id IN (SELECT id FROM feature_lock WHERE expires_us < ?)"""
PURGE_LOCKS: Final = "DELETE FROM feature_lock WHERE expires_us < ?"


def held_by_others(tx: Transaction, layer_id: int, ids: IdArray, lock_id: str) -> IdArray:
    """Those of the features that another lock holds now."""
    if not len(ids) or not tx.rows(HAS_MEMBERS, (layer_id,)):
        return np.empty(0, np.int64)
    rows = tx.rows(HELD, (carray(ids), layer_id, tx.now_us, lock_id))
    return np.fromiter((row[0] for row in rows), np.int64, len(rows))


def refuse_held(tx: Transaction, layer: Layer, ids: IdArray, lock_id: str) -> None:
    """Raises FeatureLocked if another lock holds one of the features."""
    held = held_by_others(tx, layer.id, ids, lock_id)
    if len(held):
        raise FeatureLocked(
            f"{len(held)} of the features are locked, '{layer.feature_id(int(held[0]))}' among them; "
            "give the id of the lock that holds them, or wait until it expires.",
            parameter="lockId",
        )


def valid_lock(tx: Transaction, lock_id: str) -> Row:
    """The row of a lock that has not expired. Raises InvalidParameter ``lockId``, LockExpired."""
    rows = tx.rows(SELECT_LOCK, (lock_id,))
    if not rows:
        raise _unknown(lock_id)
    if rows[0][1] <= tx.now_us:
        raise LockExpired(f"The lock '{lock_id}' has expired; lock the features again.", parameter="lockId")
    return rows[0]


def _unknown(lock_id: str) -> InvalidParameter:
    return InvalidParameter("lockId", f"There is no lock '{lock_id[:100]}'.")


def lock_features(tx: Transaction, targets: Sequence[LockTarget], duration_s: float, some: bool, by: str) -> Lock:
    """See ``FeatureStore.lock_features``."""
    prepare(tx.cursor.connection)
    tx.rows(PURGE_MEMBERS, (tx.now_us,))
    tx.rows(PURGE_LOCKS, (tx.now_us - REMEMBERED_US,))
    if tx.rows(COUNT_LOCKS, (tx.now_us,))[0][0] >= MAX_LOCKS:
        raise TooLarge(f"There are {MAX_LOCKS:,} locks already; more have to wait until some expire.")
    wanted: dict[int, IdArray] = {}
    layers: dict[int, Layer] = {}
    total = 0
    for target in targets:
        layer = layers[target.layer_id] = layers.get(target.layer_id) or layer_in(tx, target.layer_id)
        ids = select_ids(tx.rows, tables(layer), target.where, limit=MAX_EDIT_FEATURES + 1)
        total += len(ids)
        if total > MAX_EDIT_FEATURES:
            raise TooLarge(f"A lock holds at most {MAX_EDIT_FEATURES:,} features; lock fewer at a time.")
        wanted[layer.id] = np.union1d(wanted[layer.id], ids) if layer.id in wanted else ids
    refused = {layer_id: held_by_others(tx, layer_id, ids, "") for layer_id, ids in wanted.items()}
    refused = {layer_id: ids for layer_id, ids in refused.items() if len(ids)}
    if refused and not some:
        layer_id, ids = next(iter(refused.items()))
        raise FeatureLocked(
            f"Not all features can be locked: '{layers[layer_id].feature_id(int(ids[0]))}' and perhaps others are "
            "locked already.",
            parameter="lockAction",
        )
    locked = {
        layer_id: np.setdiff1d(ids, refused[layer_id]) if layer_id in refused else ids
        for layer_id, ids in wanted.items()
    }
    lock_id = secrets.token_urlsafe(16)
    duration_us = round(duration_s * 1e6)
    tx.rows(INSERT_LOCK, (lock_id, tx.now_us + duration_us, duration_us, by))
    for layer_id, ids in locked.items():
        tx.many(INSERT_MEMBER, ((layer_id, number, lock_id) for number in ids.tolist()))
    return Lock(lock_id, tx.now_us + duration_us, duration_us / 1e6, locked, refused)


def reset_lock(tx: Transaction, lock_id: str, duration_s: float | None) -> Lock:
    _, _, duration_us = valid_lock(tx, lock_id)
    if duration_s is not None:
        duration_us = round(duration_s * 1e6)
    expires_us = tx.now_us + duration_us
    tx.rows(UPDATE_LOCK, (expires_us, duration_us, lock_id))
    return Lock(lock_id, expires_us, duration_us / 1e6, _members(tx.rows(SELECT_MEMBERS, (lock_id,))))


def release_lock(tx: Transaction, lock_id: str) -> None:
    valid_lock(tx, lock_id)
    tx.rows(DELETE_MEMBERS, (lock_id,))
    tx.rows(DELETE_LOCK, (lock_id,))


def release_members(tx: Transaction, lock_id: str, layer_id: int, ids: IdArray) -> None:
    """Let single features go."""
    tx.many(DELETE_MEMBER, ((layer_id, number, lock_id) for number in ids.tolist()))


def read_lock(readers: Readers, lock_id: str) -> Lock | None:
    """See ``FeatureStore.lock``."""
    reader = readers.mine()
    with reader.snapshot():
        rows = reader.rows(SELECT_LOCK, (lock_id,))
        members = reader.rows(SELECT_MEMBERS, (lock_id,))
    if not rows:
        return None
    return Lock(lock_id, rows[0][1], rows[0][2] / 1e6, _members(members))


def _members(rows: Sequence[Row]) -> dict[int, IdArray]:
    numbers: dict[int, list[int]] = {}
    for layer_id, number in rows:
        numbers.setdefault(layer_id, []).append(number)
    return {layer_id: np.array(ids, np.int64) for layer_id, ids in numbers.items()}
