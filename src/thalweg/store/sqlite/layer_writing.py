"""Writing features inside a transaction: rows, boxes, fragments, groups, state and change log, always together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Final, TypeAlias

import apsw
import numpy as np
import xxhash

from thalweg.domain.errors import InvalidParameter, NotFound
from thalweg.domain.features import (
    ChangeKind,
    EncodedFeatures,
    Features,
    FieldKind,
    FragmentEncoder,
    FragmentForm,
    IdArray,
    Layer,
)
from thalweg.domain.hilbert import hilbert_order
from thalweg.store.sqlite.connection import Row
from thalweg.store.sqlite.layer_checks import GREATEST_ID, BoundsArray, CheckedFeatures
from thalweg.store.sqlite.layer_entities import SELECT_LAYER, layer_of
from thalweg.store.sqlite.layer_groups import GroupChange, extent, read_bounds
from thalweg.store.sqlite.layer_log import INSERT_CHANGE, LAST_VERSION, pack
from thalweg.store.sqlite.layer_tables import LayerTables, tables
from thalweg.store.sqlite.writer import Transaction

SELECT_WRITING: Final = "SELECT count, sequence, next_number, stamp, pending FROM layer_state WHERE layer_id = ?"
UPDATE_STATE: Final = """
    UPDATE layer_state SET generation = generation + 1, count = ?, min_x = ?, min_y = ?, max_x = ?, max_y = ?,
        changed_us = ?, sequence = ?, next_number = ?, stamp = ?, pending = ?
    WHERE layer_id = ?"""
RESERVE: Final = "UPDATE layer_state SET next_number = next_number + ?2 WHERE layer_id = ?1 RETURNING next_number"

Encoded: TypeAlias = Mapping[FragmentForm, EncodedFeatures]

ROWS_AT_ONCE: Final = 32
"""Rows of one statement; with MAX_FIELDS fields below the 32,766 values that SQLite binds."""
NO_IDS: Final[IdArray] = np.empty(0, np.int64)
NO_BOUNDS: Final[BoundsArray] = np.empty((0, 4), np.float64)


def layer_in(tx: Transaction, layer_id: int) -> Layer:
    """The layer as of this transaction. Raises NotFound."""
    rows = tx.rows(SELECT_LAYER, (layer_id,))
    if not rows:
        raise no_layer(layer_id)
    return layer_of(rows[0])


def no_layer(layer_id: int) -> NotFound:
    return NotFound("layer", f"There is no layer with the number {layer_id}.")


def carray(ids: IdArray) -> Any:
    """An array of ids as a bound value."""
    return apsw.carray(np.ascontiguousarray(ids, np.int64))


class LayerWriter:
    """One layer in one request; ``finish`` once at its end.

    by  who makes the changes, for the log
    """

    def __init__(self, tx: Transaction, layer: Layer, encoder: FragmentEncoder, by: str) -> None:
        self.tx = tx
        self.layer = layer
        self.tables: LayerTables = tables(layer)
        self._encoder = encoder
        self._by = by
        rows = tx.rows(SELECT_WRITING, (layer.id,))
        if not rows:
            raise no_layer(layer.id)
        self.count, self.sequence, self.next_number, self._stamp, self._pending = rows[0]
        self._changed = False
        stamp = encoder.stamp(layer)
        if self.count == 0:
            self._stamp = self._pending = stamp
        if self._stamp != stamp:
            self._stamp = 0
        if self._pending != stamp:
            self._pending = 0

    # ------------------------------------------------------------ reading

    def rows_of(self, ids: IdArray) -> list[Row]:
        """Rows of id, version, fields, WKB of those that are there, in the order of ids."""
        return self.tx.rows(self.tables.rows_by_id, (carray(ids),))

    def known(self, ids: IdArray) -> IdArray:
        """Those that are there."""
        rows = self.tx.rows(self.tables.known_ids, (carray(ids),))
        return np.fromiter((row[0] for row in rows), np.int64, len(rows))

    # ------------------------------------------------------------ numbers

    def numbered(self, features: CheckedFeatures) -> CheckedFeatures:
        """With numbers for those that have none. Raises InvalidParameter ``id`` when there is none left."""
        ids = features.ids
        missing = ids == 0
        count = int(np.count_nonzero(missing))
        if count:
            # Numbers that come with others must not be given, either.
            start = max(self.next_number, int(ids.max()) + 1)
            if start + count > GREATEST_ID:
                raise InvalidParameter("id", f"The layer '{self.layer.name}' has no numbers left for new features.")
            ids = ids.copy()
            ids[missing] = np.arange(start, start + count)
            features = features.with_ids(ids)
        return features

    # ------------------------------------------------------------ writing

    def insert(self, features: CheckedFeatures, encoded: Encoded | None = None, *, with_boxes: bool = True) -> IdArray:
        """New features with ids that are free; their versions.

        encoded     what the encoder makes of them, if that is known already
        with_boxes  False: their boxes come into the index later, see ``layer_index``
        """
        if not len(features):
            return NO_IDS
        versions = self._first_versions(features.ids)
        self._write(features, versions, fresh=True, encoded=encoded, with_boxes=with_boxes)
        GroupChange(self.tx, self.tables).apply(NO_IDS, NO_BOUNDS, features.ids, features.bounds)
        self.count += len(features)
        self.next_number = max(self.next_number, min(int(features.ids.max()) + 1, GREATEST_ID))
        return versions

    def replace(self, before: Sequence[Row], features: CheckedFeatures, encoded: Encoded | None = None) -> IdArray:
        """Features in the place of those in ``before`` (the same ids in the same order); their versions."""
        if not len(features):
            return NO_IDS
        versions = np.fromiter((row[1] + 1 for row in before), np.int64, len(before))
        _, bounds = read_bounds([(row[0], row[-1]) for row in before])
        self._write(features, versions, fresh=False, encoded=encoded)
        # Boxes of those that have lost theirs.
        lost = np.isnan(features.bounds[:, 0]) & ~np.isnan(bounds[:, 0])
        self.tx.many(self.tables.delete_box, ((number,) for number in features.ids[lost].tolist()))
        moved = ~((bounds == features.bounds) | (np.isnan(bounds) & np.isnan(features.bounds))).all(axis=1)
        ids = features.ids[moved]
        GroupChange(self.tx, self.tables).apply(ids, bounds[moved], ids, features.bounds[moved])
        return versions

    def delete(self, before: Sequence[Row]) -> None:
        """Remove the features of these rows."""
        if not before:
            return
        ids, bounds = read_bounds([(row[0], row[-1]) for row in before])
        keys = [(number,) for number in ids.tolist()]
        self.tx.many(self.tables.delete, keys)
        self.tx.many(self.tables.delete_box, keys)
        for form in FragmentForm:
            self.tx.many(self.tables.delete_fragment(form), keys)
        GroupChange(self.tx, self.tables).apply(ids, bounds, NO_IDS, NO_BOUNDS)
        self.count -= len(before)
        self._changed = True

    def _write(
        self,
        features: CheckedFeatures,
        versions: IdArray,
        *,
        fresh: bool,
        encoded: Encoded | None,
        with_boxes: bool = True,
    ) -> None:
        tx, statements = self.tx, self.tables
        ids = features.ids.tolist()
        rows = zip(ids, versions.tolist(), *features.columns, features.geometries, strict=True)
        insert_rows(tx, statements.insert if fresh else statements.replace, rows)
        if with_boxes:
            numbers, boxes = features.boxes()
            # Neighbours one after the other make an index whose nodes overlap less: a third of the time of a search.
            order = hilbert_order(boxes)
            insert_boxes(tx, statements, numbers[order], boxes[order])
        if encoded is None:
            encoded = self._encoder.encode(self.layer, features.features(self.layer))
        write_fragments(tx, statements, ids, encoded)
        if not fresh:
            for form in FragmentForm:
                if form not in encoded:
                    tx.many(statements.delete_fragment(form), zip(ids))
        self._changed = True

    def _first_versions(self, ids: IdArray) -> IdArray:
        """1, or one more than that of the tombstone where a number is used again."""
        versions = np.ones(len(ids), np.int64)
        if self.sequence:
            for place in np.flatnonzero(ids < self.next_number).tolist():
                rows = self.tx.rows(LAST_VERSION, (self.layer.id, int(ids[place])))
                if rows:
                    versions[place] = rows[0][0] + 1
        return versions

    # ------------------------------------------------------------ log and state

    def log(self, kind: ChangeKind, ids: IdArray, versions: IdArray, before: Sequence[Row] | None = None) -> None:
        """An entry for each feature."""
        packed: Iterable[bytes | None]
        packed = repeat(None, len(ids)) if before is None else [pack(self.layer, row) for row in before]
        first = self.sequence + 1
        self.tx.many(
            INSERT_CHANGE,
            (
                (self.layer.id, sequence, kind.value, number, number, version, self.tx.now_us, self._by, image)
                for sequence, (number, version, image) in enumerate(
                    zip(ids.tolist(), versions.tolist(), packed, strict=True), first
                )
            ),
        )
        self.sequence += len(ids)

    def log_load(self, ids: IdArray) -> None:
        """One entry for many features."""
        self.sequence += 1
        self.tx.rows(
            INSERT_CHANGE,
            (
                self.layer.id, self.sequence, ChangeKind.LOAD.value, int(ids.min()), int(ids.max()), len(ids),
                self.tx.now_us, self._by, None,
            ),
        )  # fmt: skip

    def finish(self) -> None:
        """Write the state, if anything has changed."""
        if not self._changed:
            return
        self.tx.rows(
            UPDATE_STATE,
            (
                self.count, *extent(self.tx, self.layer.id), self.tx.now_us, self.sequence, self.next_number,
                self._stamp, self._pending, self.layer.id,
            ),
        )  # fmt: skip


def insert_rows(tx: Transaction, statement: str, rows: Iterable[Row]) -> None:
    """Many rows by few statements.

    statement  without VALUES. A statement for each row would take and give back the interpreter's lock at each, and so
               stand still beside a thread that encodes the next rows
    """
    waiting = list(rows)
    if not waiting:
        return
    marks = f"({', '.join('?' * len(waiting[0]))})"
    whole = len(waiting) - len(waiting) % ROWS_AT_ONCE
    if whole:
        text = f"{statement} VALUES {', '.join([marks] * ROWS_AT_ONCE)}"
        for start in range(0, whole, ROWS_AT_ONCE):
            tx.rows(text, list(chain.from_iterable(waiting[start : start + ROWS_AT_ONCE])))
    if whole < len(waiting):
        tx.many(f"{statement} VALUES {marks}", waiting[whole:])


def insert_boxes(tx: Transaction, statements: LayerTables, ids: IdArray, boxes: BoundsArray) -> None:
    """Boxes of features into the spatial index, in place of those that are there."""
    sides = boxes[:, [0, 2, 1, 3]].T.tolist()
    insert_rows(tx, statements.insert_box, zip(ids.tolist(), *sides, strict=True))


def checksum(text: bytes) -> int:
    """Of a fragment; 32 bits, which tell a damaged one."""
    return xxhash.xxh3_64_intdigest(text) & 0xFFFFFFFF


def write_fragments(tx: Transaction, statements: LayerTables, ids: list[int], encoded: Encoded) -> None:
    """Fragments of features in every form, in place of those that are there."""
    for form, fragments in encoded.items():
        texts = fragments.each()
        sums = map(checksum, texts) if fragments.checksums is None else fragments.checksums
        insert_rows(tx, statements.put_fragment(form), zip(ids, sums, texts, strict=True))


def values_of(layer: Layer, rows: Sequence[Row]) -> Features:
    """Rows of id, version, fields, WKB as a batch."""
    n = len(rows)
    if not n:
        columns: list[Any] = [[] for _ in range(len(layer.fields) + 3)]
    else:
        columns = list(zip(*rows, strict=True))
    fields: dict[str, Any] = {}
    for field, values in zip(layer.fields, columns[2:-1], strict=True):
        if field.kind is FieldKind.BOOLEAN:
            fields[field.name] = [None if value is None else bool(value) for value in values]
        else:
            fields[field.name] = list(values)
    return Features(
        np.array(columns[0], np.int64),
        list(columns[-1]) if layer.has_geometry else [],
        fields,
        np.array(columns[1], np.int64),
    )
