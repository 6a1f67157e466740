"""Filling views: each step puts the next members of a stream into a view's buckets, all of a member's at once."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.streams import Placement, View
from thalweg.store.sqlite.stream_buckets import LOOSEN, ROOT, Bucket, Step, pack_ids
from thalweg.store.sqlite.stream_codec import first_id, object_digest
from thalweg.store.sqlite.stream_expiry import expire, note_versions
from thalweg.store.sqlite.writer import Transaction

STREAM: Final = "SELECT uuid, sequence FROM stream_state WHERE stream_id = ?"
SEQUENCES: Final = "SELECT id, at_us FROM member WHERE id > ? AND id <= ? ORDER BY id"
PLACE: Final = "INSERT OR REPLACE INTO placement (stream_id, view_id, sequence, buckets) VALUES (?, ?, ?, ?)"
AGE: Final = "INSERT OR REPLACE INTO aging (stream_id, view_id, at_us, sequence) VALUES (?, ?, ?, ?)"
STANDING: Final = "SELECT sequences FROM version WHERE stream_id = ? AND view_id = ? AND object = ?"
STAND: Final = "INSERT OR REPLACE INTO version (stream_id, view_id, object, sequences) VALUES (?, ?, ?, ?)"

_STANDING: Final = struct.Struct("<qqq")
_NEVER: Final = -(1 << 62)
"""Time of a state without timestamp: any other is newer."""


def assign(
    tx: Transaction, stream_id: int, view: View, after: int, through: int, placements: Sequence[Placement] | None
) -> bool:
    """See ``StreamStore.assign``."""
    try:
        step = Step(tx, view)
    except KeyError:
        return False
    rows = tx.rows(STREAM, (stream_id,))
    if step.position != after or not rows:
        return False
    uuid, sequence = rows[0]
    through = min(through, sequence)
    if placements is None:
        base = first_id(stream_id)
        found = tx.rows(SEQUENCES, (base + after, base + through))
        placements = [Placement(member_id - base, ((),), at_us) for member_id, at_us in found]
    _check(placements, after, through)
    if view.materialised:
        _stand(step, uuid, placements)
    else:
        _fill(step, placements)
        retention = view.retention
        if retention.by_age:
            tx.many(
                AGE,
                [(stream_id, view.id, p.timestamp_us, p.sequence) for p in placements if p.timestamp_us is not None],
            )
        elif retention.versions:
            versions = [(object_digest(uuid, p.version_of), p.sequence) for p in placements if p.version_of]
            step.write()
            expire(step, note_versions(tx, stream_id, view.id, retention.versions, versions))
            for bucket in step.emptied():
                step.remove_empty(bucket)
    step.position = through
    step.write()
    return True


def _check(placements: Sequence[Placement], after: int, through: int) -> None:
    """Raises InvalidParameter for what no worker should bring."""
    before = after
    for placement in placements:
        if not before < placement.sequence <= through or not placement.chains:
            raise InvalidParameter("placements", "Members must be in order, between the two positions, and placed.")
        before = placement.sequence


def _fill(step: Step, placements: Sequence[Placement]) -> None:
    """Put members into their buckets and count them in all buckets above."""
    chains: dict[tuple[str, ...], list[Bucket]] = {}
    in_order: dict[int, tuple[Bucket, list[int]]] = {}
    rows: list[tuple[int, int, int, bytes]] = []
    for placement in placements:
        sequence = placement.sequence
        ids: list[int] = []
        above: dict[int, Bucket] = {}
        for chain in placement.chains:
            found = chains.get(chain)
            if found is None:
                found = chains[chain] = step.chain(chain)
            leaf = found[-1]
            if leaf.id in ids:
                continue
            ids.append(leaf.id)
            entry = in_order.get(leaf.id)
            if entry is None:
                entry = in_order[leaf.id] = (leaf, [])
            entry[1].append(sequence)
            for bucket in found:
                above[bucket.id] = bucket
        for bucket in above.values():
            bucket.members += 1
            bucket.is_dirty = True
        if ids != [ROOT]:
            rows.append((step.stream_id, step.view_id, sequence, pack_ids(ids)))
    for leaf, sequences in in_order.values():
        step.extend(leaf, sequences)
    if rows:
        step.tx.many(PLACE, rows)
    step.members += len(placements)


def _stand(step: Step, uuid: str, placements: Iterable[Placement]) -> None:
    """Put each object's newest state into its slot; new objects get the next one.

    Newest is what has the latest timestamp, of equal ones what was ingested last.
    """
    root = step.bucket(ROOT)
    where = (step.stream_id, step.view_id)
    known: dict[bytes, tuple[int, int, int] | None] = {}
    changed: dict[bytes, tuple[int, int, int]] = {}
    for placement in placements:
        if not placement.version_of:
            continue
        key = object_digest(uuid, placement.version_of)
        if key not in known:
            rows = step.tx.rows(STANDING, (*where, key))
            known[key] = _STANDING.unpack(rows[0][0]) if rows else None
        standing = known[key]
        at_us = _NEVER if placement.timestamp_us is None else placement.timestamp_us
        if standing is None:
            slot = root.members
            step.extend(root, [placement.sequence])
            root.members += 1
            step.members += 1
        elif at_us >= standing[1]:
            slot = standing[0]
            page = step.page(root, slot // step.page_size + 1)
            page.sequences[slot % step.page_size] = placement.sequence
            page.is_dirty = True
            root.is_dirty = True
            step.tx.rows(LOOSEN, (step.stream_id, standing[2], standing[2]))
        else:
            continue
        known[key] = changed[key] = (slot, at_us, placement.sequence)
    step.tx.many(STAND, [(*where, key, _STANDING.pack(*standing)) for key, standing in changed.items()])
