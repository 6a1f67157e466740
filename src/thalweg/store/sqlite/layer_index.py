"""The spatial index of a layer that nobody sees yet: filled along a curve, some way behind its features.

A box from anywhere in a large layer changes a page of the index of its own, which is written twice (log and file): of
features in no order of space, a step of a load writes more for its boxes than for all else. So the boxes of a load
wait, up to a bound, and go in as neighbours. Until the last are in, the index holds a mark as well: a box of a number
that no feature can have. An index that has it, as an interrupted load leaves it, holds some of the layer's boxes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from thalweg.domain.features import IdArray
from thalweg.domain.hilbert import hilbert_order
from thalweg.store.sqlite.connection import Bindings, Row
from thalweg.store.sqlite.layer_checks import LEAST_ID, BoundsArray
from thalweg.store.sqlite.layer_tables import box_table, tables
from thalweg.store.sqlite.layer_writing import insert_boxes, layer_in
from thalweg.store.sqlite.writer import Transaction, Writer

MAX_WAITING: Final = 1 << 19
"""Boxes that a load holds, 40 bytes each, and three times that while they are sorted."""
STEP_BOXES: Final = 4_096
"""Boxes of one transaction: some 20 ms of the lock."""

_MARK: Final = LEAST_ID
_HAS_MARK: Final = "SELECT 1 FROM {box}_rowid WHERE rowid = ?"
# What was edited meanwhile has its box by that, or none. The entries are few: a load logs each of its steps as one.
_LOGGED: Final = "SELECT sequence, number, kind <> 'load' FROM layer_change WHERE layer_id = ? AND sequence > ?"
# Answers to queries of boxes are remembered by it.
_NEXT_GENERATION: Final = "UPDATE layer_state SET generation = generation + 1 WHERE layer_id = ?"


def is_unfinished(query: Callable[[str, Bindings], list[Row]], layer_id: int) -> bool:
    """Whether boxes of the layer are missing in its index, as a load has not ended."""
    return bool(query(_HAS_MARK.format(box=box_table(layer_id)), (_MARK,)))


def begin(tx: Transaction, layer_id: int, boxes: BoundsArray) -> None:
    """Mark the index, in the transaction that stores the first features whose boxes (these) are to wait."""
    if len(boxes) and not is_unfinished(tx.rows, layer_id):
        # At a place of the layer's: from elsewhere its node would reach over all that is between.
        insert_boxes(tx, tables(layer_in(tx, layer_id)), np.array([_MARK]), boxes[:1])


class WaitingBoxes:
    """The boxes of one load that are not in the index yet. For one thread, which waits for the transactions."""

    def __init__(self, writer: Writer, layer_id: int, relieve: Callable[[], None]) -> None:
        self._writer = writer
        self._layer_id = layer_id
        self._relieve = relieve
        self._parts: list[tuple[IdArray, BoundsArray]] = []
        self._count = 0
        self._any = False
        self._edited: set[int] = set()
        self._read = 0
        """Entries of the change log up to this one have been seen."""

    def add(self, ids: IdArray, boxes: BoundsArray) -> None:
        """Boxes of features that are stored. Raises NotFound for a layer that is gone."""
        if len(ids):
            self._any = True
            self._parts.append((ids, boxes))
            self._count += len(ids)
        if self._count >= MAX_WAITING:
            self._flush()

    def finish(self) -> None:
        """Put in what still waits, and take the mark away. Raises NotFound for a layer that is gone."""
        if self._any:
            self._flush()
            self._writer.submit(lambda tx: _end(tx, self._layer_id)).result()

    def _flush(self) -> None:
        if not self._parts:
            return
        ids = np.concatenate([part[0] for part in self._parts])
        boxes = np.concatenate([part[1] for part in self._parts])
        self._parts, self._count = [], 0
        order = hilbert_order(boxes)
        for start in range(0, len(order), STEP_BOXES):
            rows = order[start : start + STEP_BOXES]
            part = ids[rows], boxes[rows]
            self._relieve()
            logged = self._writer.submit(lambda tx, part=part: self._put(tx, *part)).result()  # type: ignore[misc]
            self._edited.update(number for _, number, is_edit in logged if is_edit)
            self._read = max(self._read, *(sequence for sequence, _, _ in logged), 0)

    def _put(self, tx: Transaction, ids: IdArray, boxes: BoundsArray) -> list[Row]:
        """Insert boxes of what has not been edited; the entries of the change log since the last time."""
        statements = tables(layer_in(tx, self._layer_id))
        logged = tx.rows(_LOGGED, (self._layer_id, self._read))
        edited = self._edited.union(number for _, number, is_edit in logged if is_edit)
        if edited:
            left = ~np.isin(ids, np.fromiter(edited, np.int64, len(edited)))
            ids, boxes = ids[left], boxes[left]
        insert_boxes(tx, statements, ids, boxes)
        return logged


def _end(tx: Transaction, layer_id: int) -> None:
    tx.rows(tables(layer_in(tx, layer_id)).delete_box, (_MARK,))
    tx.rows(_NEXT_GENERATION, (layer_id,))
