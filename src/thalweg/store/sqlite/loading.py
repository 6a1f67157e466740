"""Bulk loading: rows go straight into chunks, window by window, in bounded transactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from thalweg.domain.access import Actor, actor
from thalweg.domain.blocks import Block
from thalweg.domain.observations import Receipt
from thalweg.store.codec.merge import merge_blocks
from thalweg.store.sqlite.checks import Checked
from thalweg.store.sqlite.deleting import DELETE_TAIL_ENDS, delete_range
from thalweg.store.sqlite.ranges import TAIL, decode_tail, key_after, key_before, slice_ends
from thalweg.store.sqlite.states import State
from thalweg.store.sqlite.verdict import Verdict
from thalweg.store.sqlite.windows import (
    DELETE_CHUNK,
    MAX_CHUNK_ROWS,
    Part,
    parts_of_window,
    window_length,
    window_start,
    write_chunks,
)
from thalweg.store.sqlite.writer import Transaction
from thalweg.store.sqlite.writing import audit_correction, audit_replacement, judged, log_verdict, target

MAX_STEP_ROWS: Final = 16_384
MAX_STEP_WINDOWS: Final = 64
"""Bounds of one transaction, some 10 to 20 ms of the lock."""


@dataclass(slots=True)
class Progress:
    """How far a load has come: rows done, and what they did."""

    done: int = 0
    track_id: int = 0
    rows: int = 0
    added: int = 0
    replaced: int = 0
    skipped: int = 0
    conflicting: int = 0
    deleted: int = 0

    def receipt(self) -> Receipt:
        return Receipt(
            self.track_id, self.rows, self.added, self.replaced, self.skipped, self.conflicting, self.deleted
        )

    def add(self, step: Progress) -> None:
        """Take over what a further step did, and how far it came."""
        self.done, self.track_id = step.done, step.track_id
        self.rows += step.rows
        self.added += step.added
        self.replaced += step.replaced
        self.skipped += step.skipped
        self.conflicting += step.conflicting
        self.deleted += step.deleted

    def count(self, verdict: Verdict) -> None:
        self.rows += verdict.fresh_rows
        self.added += verdict.added
        self.replaced += verdict.replaced
        self.skipped += verdict.skipped
        self.conflicting += verdict.conflicting


def load_step(tx: Transaction, workspace_id: int, checked: Checked, start: int, by: Actor | str) -> Progress:
    """Load the next rows from row ``start`` of the block on, sealed at once. Raises NotFound, DamagedData."""
    block, interval = checked.block, checked.insertion.replace
    name = actor(by).name
    state = target(tx, workspace_id, checked, by)
    progress = Progress(start, state.track_id)
    changed = False
    if start == 0 and interval is not None:
        progress.deleted = delete_range(tx, state, interval, None, checked.kinds, name).rows
        changed = bool(progress.deleted)
        if changed:
            audit_replacement(tx, by, checked, progress.deleted, workspace_id)
    n = len(block)
    window_us = window_length(tx, state.track_id, block.end[:10_000]) if n else 0
    windows = 0
    while progress.done < n and windows < MAX_STEP_WINDOWS:
        at = progress.done
        start_us = window_start(int(block.end[at]), window_us)
        stop = int(block.end.searchsorted(start_us + window_us))
        if stop - start > MAX_STEP_ROWS:
            if at > start:
                break
            # One window of so many rows: in several steps, rows of one phenomenon end together.
            stop = int(block.end.searchsorted(block.end[start + MAX_STEP_ROWS]))
            if stop <= at:
                stop = int(block.end.searchsorted(block.end[at], "right"))
        rows = block if at == 0 and stop == n else block.take(slice(at, stop))
        for part in parts_of_window(tx, state.track_id, start_us, window_us):
            piece = slice_ends(rows, part.begin_us, part.end_us)
            if len(piece):
                changed |= _load_part(tx, state, checked, part, window_us, piece, progress, name)
        progress.done = stop
        windows += 1
    if changed:
        state.store(tx)
    if progress.replaced:
        audit_correction(tx, by, checked, progress.replaced, workspace_id)
    return progress


def _load_part(
    tx: Transaction,
    state: State,
    checked: Checked,
    part: Part,
    window_us: int,
    piece: Block,
    progress: Progress,
    by: str,
) -> bool:
    """Load rows of one part of a window; says whether anything was written."""
    track_id, chunk = state.track_id, part.chunk
    in_tail = []
    if state.tail_rows:
        low, high = key_after(part.begin_us - 1), key_before(part.end_us)
        in_tail = tx.rows(TAIL, (track_id, *low, *high, -1))
    stored: Block | None = None
    if chunk is not None:
        full = chunk.rows + len(piece) > MAX_CHUNK_ROWS
        if in_tail or not full or int(piece.end[0]) <= chunk.last_us:
            stored = chunk.block(tx, track_id)
        else:
            # Nothing stored so late, and no room in the chunk before: a chunk of its own.
            chunk = None
    if in_tail:
        tail = decode_tail(tx.rows, track_id, in_tail, None, checked.kinds)
        stored = tail if stored is None else merge_blocks(stored, tail)
    verdict = judged(checked, piece, stored)
    progress.count(verdict)
    if not len(verdict.write):
        return False
    log_verdict(tx, state, verdict, by)
    state.add_block(verdict.write, verdict.fresh_rows, verdict.written)
    if in_tail:
        tx.rows(DELETE_TAIL_ENDS, (track_id, part.begin_us, part.end_us))
        state.tail_rows -= len(in_tail)
    if chunk is not None:
        tx.rows(DELETE_CHUNK, (chunk.id,))
    write_chunks(tx, track_id, window_us, verdict.write if stored is None else merge_blocks(stored, verdict.write))
    return True
