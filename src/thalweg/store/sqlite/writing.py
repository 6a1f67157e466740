"""Inserting rows: into the tail, in one transaction with the state and the change log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from thalweg.domain.access import Actor, actor
from thalweg.domain.blocks import Block
from thalweg.domain.errors import AlreadyExists, DamagedData, NotFound
from thalweg.domain.observations import ChangeKind, Receipt
from thalweg.store.codec.merge import concat_blocks, merge_blocks
from thalweg.store.codec.row import encode_row, encode_rows
from thalweg.store.sqlite import entity_writes, registration
from thalweg.store.sqlite.audit import record
from thalweg.store.sqlite.changes import log_change
from thalweg.store.sqlite.checks import Checked, keys_of
from thalweg.store.sqlite.connection import Row
from thalweg.store.sqlite.deleting import delete_range
from thalweg.store.sqlite.ranges import BLOCK, HEADS, Kinds, decode, decode_tail, instant, named
from thalweg.store.sqlite.states import COLUMNS, Key, State
from thalweg.store.sqlite.verdict import Duplicate, Verdict, judge, matches
from thalweg.store.sqlite.writer import Transaction

TARGET: Final = f"""
    SELECT t.id, {", ".join("s." + name.strip() for name in COLUMNS.split(","))}
    FROM procedure p
        LEFT JOIN track t ON t.procedure_id = p.id AND t.feature_id = ?2
        LEFT JOIN track_state s ON s.track_id = t.id
    WHERE p.id = ?1 AND p.workspace_id = ?3"""  # noqa: S608
INSERT_TAIL: Final = "INSERT INTO tail (track_id, end_us, begin_us, result_us, cells) VALUES (?, ?, ?, ?, ?)"
REPLACE_TAIL: Final = """
    INSERT OR REPLACE INTO tail (track_id, end_us, begin_us, result_us, cells) VALUES (?, ?, ?, ?, ?)"""
TAIL_ROW: Final = """
    SELECT end_us, begin_us, result_us, cells FROM tail
    WHERE track_id = ? AND end_us = ? AND begin_us = ? AND result_us = ?"""
TAIL_ENDS: Final = """
    SELECT end_us, begin_us, result_us, cells FROM tail
    WHERE track_id = ? AND end_us BETWEEN ? AND ? ORDER BY end_us, begin_us, result_us"""

FEW_KEYS: Final = 16
"""Up to this many keys are looked up one by one."""


class Prepared:
    """An insertion checked and, where that can be told beforehand, encoded: the lock is held the shorter."""

    __slots__ = ("cells", "checked", "key")

    def __init__(self, checked: Checked) -> None:
        self.checked = checked
        block = checked.block
        self.key: Key | None = block.key(0) if len(block) == 1 else None
        self.cells = [encode_row(block, 0)] if len(block) == 1 else encode_rows(block)


def insert(tx: Transaction, workspace_id: int, items: Sequence[Prepared], by: Actor | str) -> list[Receipt]:
    """Store all insertions. Raises NotFound, AlreadyExists."""
    return [_insert(tx, workspace_id, item, by) for item in items]


def _insert(tx: Transaction, workspace_id: int, item: Prepared, by: Actor | str) -> Receipt:
    checked = item.checked
    state = target(tx, workspace_id, checked, by)
    deleted = 0
    if checked.insertion.replace is not None:
        deleted = delete_range(tx, state, checked.insertion.replace, None, checked.kinds, actor(by).name).rows
        if deleted:
            audit_replacement(tx, by, checked, deleted, workspace_id)
    block = checked.block
    n = len(block)
    if n == 0:
        if deleted:
            state.store(tx)
        return Receipt(state.track_id, 0, 0, deleted=deleted)
    track_id = state.track_id
    first_end = item.key[0] if item.key is not None else int(block.end[0])
    if (state.end is None or first_end > state.end) and (state.reach is None or first_end > state.reach):
        # Nothing at or after these ends: no duplicates, nothing late.
        if item.key is not None:
            tx.cursor.execute(INSERT_TAIL, (track_id, *item.key, item.cells[0]))
            state.add_row(block, item.key)
        else:
            tx.many(
                INSERT_TAIL,
                [(track_id, *key, cells) for key, cells in zip(keys_of(block), item.cells, strict=True)],
            )
            state.add_block(block, n)
        state.tail_rows += n
        state.store(tx)
        return Receipt(track_id, n, block.values_present(), deleted=deleted)
    return _insert_among(tx, workspace_id, state, item, by, deleted)


def target(tx: Transaction, workspace_id: int, checked: Checked, by: Actor | str) -> State:
    """The state of the track that an insertion goes to; feature and track are made where they are missing.

    raises  NotFound if the procedure is gone since it was checked, AlreadyExists (name of a new feature)
    """
    procedure_id = checked.procedure.id
    feature_id = checked.feature
    if not isinstance(feature_id, int):
        feature = feature_id
        known = tx.rows(entity_writes.FIND_FEATURE, (workspace_id, feature.identifier))
        feature_id = entity_writes.ensure_feature(tx, workspace_id, feature)
        if not known:
            record(tx, by, "add feature of interest", feature.identifier, "with an observation", workspace_id)
    rows = tx.rows(TARGET, (procedure_id, feature_id, workspace_id))
    if not rows:
        raise NotFound("procedure", f"The procedure '{checked.procedure.identifier}' has been removed.")
    if rows[0][0] is None:
        generation = entity_writes.raise_generation(tx, workspace_id)
        registration.add_track(tx, workspace_id, procedure_id, feature_id, generation)
        rows = tx.rows(TARGET, (procedure_id, feature_id, workspace_id))
    return read_state(tx, rows[0][0], rows[0][1:])


def read_state(tx: Transaction, track_id: int, row: Row) -> State:
    """A track's state, to be changed. Raises DamagedData that names the procedure."""
    try:
        return State(track_id, row)
    except DamagedData as error:
        raise named(tx.rows, track_id, "the maintained state", error) from error


def _insert_among(
    tx: Transaction, workspace_id: int, state: State, item: Prepared, by: Actor | str, deleted: int
) -> Receipt:
    """Insert rows of which some are not after all rows stored."""
    checked = item.checked
    block, kinds = checked.block, checked.kinds
    until = state.late_until
    n_late = int(block.end.searchsorted(int(block.end[0]) if until is None else until, "right"))
    late = block if n_late == len(block) else block.take(slice(0, n_late))
    in_tail = _tail_rows(tx, state.track_id, late, kinds)
    sealed = _sealed_rows(tx, state.track_id, late)
    stored = sealed
    if in_tail is not None:
        stored = in_tail if sealed is None else merge_blocks(sealed, in_tail)
    verdict = judged(checked, late, stored)
    log_verdict(tx, state, verdict, actor(by).name)
    if verdict.before is not None:
        audit_correction(tx, by, checked, verdict.replaced, workspace_id)
    if len(verdict.write):
        _write_late(tx, state, verdict.write, in_tail)
        state.add_block(verdict.write, verdict.fresh_rows, verdict.written)
    added, rows = verdict.added, verdict.fresh_rows
    if n_late < len(block):
        new = block.take(slice(n_late, None))
        tx.many(
            INSERT_TAIL,
            [(state.track_id, *key, cells) for key, cells in zip(keys_of(new), item.cells[n_late:], strict=True)],
        )
        state.add_block(new, len(new))
        state.tail_rows += len(new)
        added += new.values_present()
        rows += len(new)
    if rows or added or deleted or len(verdict.write):
        state.store(tx)
    return Receipt(
        state.track_id,
        rows,
        added,
        replaced=verdict.replaced,
        skipped=verdict.skipped,
        conflicting=verdict.conflicting,
        deleted=deleted,
    )


def judged(checked: Checked, block: Block, stored: Block | None) -> Verdict:
    """The verdict on rows of an insertion. Raises AlreadyExists."""
    try:
        return judge(block, stored, checked.insertion.on_duplicate)
    except Duplicate as duplicate:
        end, begin, _ = duplicate.key
        time = instant(end) if begin == end else f"{instant(begin)}/{instant(end)}"
        what = (
            "a position"
            if duplicate.property_id is None
            else f"a value of '{checked.properties[duplicate.property_id].identifier}'"
        )
        raise AlreadyExists(
            "phenomenonTime", f"The procedure '{checked.procedure.identifier}' has {what} at {time} already."
        ) from None


def log_verdict(tx: Transaction, state: State, verdict: Verdict, by: str, *, end_us: int | None = None) -> None:
    """Log what a verdict writes at or before the end that the track has or had (or ``end_us``)."""
    end_us = state.late_until if end_us is None else end_us
    news = verdict.news
    if news is not None and end_us is not None:
        if int(news.end[-1]) > end_us:
            news = news.take(slice(0, int(news.end.searchsorted(end_us, "right"))))
        if len(news):
            log_change(tx, state, ChangeKind.LATE, by, None, news)
    if verdict.before is not None:
        log_change(tx, state, ChangeKind.CORRECTION, by, verdict.before, verdict.after)


def audit_correction(tx: Transaction, by: Actor | str, checked: Checked, cells: int, workspace_id: int) -> None:
    """Note in the audit log that values or quality indices were corrected; the change log has what they were."""
    block = checked.block
    span = f"{instant(int(block.end[0]))} to {instant(int(block.end[-1]))}"
    record(tx, by, "correct observations", checked.procedure.identifier, f"{cells:,} values, {span}", workspace_id)


def audit_replacement(tx: Transaction, by: Actor | str, checked: Checked, rows: int, workspace_id: int) -> None:
    """Note in the audit log that an insertion took away what was stored in its interval."""
    what = f"{rows:,} rows replaced by an insert of {len(checked.block):,}"
    record(tx, by, "delete observations", checked.procedure.identifier, what, workspace_id)


def _write_late(tx: Transaction, state: State, write: Block, in_tail: Block | None) -> None:
    """Put cells into the tail, beside those that its rows of the same keys have."""
    known = 0
    if in_tail is not None:
        theirs = matches(in_tail, write)[0]
        known = len(theirs)
        if known:
            write = merge_blocks(in_tail.take(theirs), write)
    tx.many(
        REPLACE_TAIL,
        [(state.track_id, *key, cells) for key, cells in zip(keys_of(write), encode_rows(write), strict=True)],
    )
    state.tail_rows += len(write) - known


def _tail_rows(tx: Transaction, track_id: int, block: Block, kinds: Kinds) -> Block | None:
    """The tail's rows of the block's keys (and perhaps others), with all their cells."""
    if len(block) <= FEW_KEYS:
        rows: list[Row] = []
        for key in keys_of(block):
            rows += tx.rows(TAIL_ROW, (track_id, *key))
    else:
        rows = tx.rows(TAIL_ENDS, (track_id, int(block.end[0]), int(block.end[-1])))
    if not rows:
        return None
    return decode_tail(tx.rows, track_id, rows, None, kinds)


def _sealed_rows(tx: Transaction, track_id: int, block: Block) -> Block | None:
    """The chunks' rows of the block's keys, with the block's columns and their positions."""
    wanted = list(block.columns)
    found: list[Block] = []
    at, n = 0, len(block)
    while at < n:
        end_us = int(block.end[at])
        heads = tx.rows(HEADS, (track_id, end_us, int(block.end[-1]), 1))
        if not heads:
            break
        chunk_id, first_us, last_us, _ = heads[0]
        until = int(block.end.searchsorted(last_us, "right"))
        at = max(at, int(block.end.searchsorted(first_us)))
        if at < until:
            part = block if at == 0 and until == n else block.take(slice(at, until))
            found += _of_chunk(tx, track_id, chunk_id, first_us, part, wanted)
        at = until
    return concat_blocks(found) if found else None


def _of_chunk(
    tx: Transaction, track_id: int, chunk_id: int, first_us: int, part: Block, wanted: list[int]
) -> list[Block]:
    blob = tx.rows(BLOCK, (chunk_id,))[0][0]
    # Most late rows are new: times alone tell, and the columns stay as they are.
    times = decode(tx.rows, track_id, first_us, blob, ())
    rows = matches(part, times)[1]
    if not len(rows):
        return []
    return [decode(tx.rows, track_id, first_us, blob, wanted).take(np.asarray(rows))]
