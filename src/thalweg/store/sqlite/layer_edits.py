"""Edits: inserting, updating, replacing and deleting features of several layers, all or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final, cast

import numpy as np

from thalweg.domain.access import Actor, actor
from thalweg.domain.errors import AlreadyExists, InvalidParameter, TooLarge, VersionConflict
from thalweg.domain.features import (
    GML_FIELDS,
    KEEP,
    MAX_BATCH_FEATURES,
    MAX_EDIT_FEATURES,
    ChangeKind,
    Delete,
    Edit,
    EditReceipt,
    Features,
    FragmentEncoder,
    IdArray,
    Insert,
    Layer,
    OnConflict,
    Replace,
    Update,
    Value,
)
from thalweg.domain.filters import Filter
from thalweg.store.sqlite.audit import record
from thalweg.store.sqlite.connection import Row
from thalweg.store.sqlite.layer_checks import (
    BoundsArray,
    CheckedFeatures,
    check_features,
    check_geometries,
    check_values,
)
from thalweg.store.sqlite.layer_groups import read_bounds
from thalweg.store.sqlite.layer_locks import (
    DELETE_LOCK,
    DELETE_MEMBERS,
    refuse_held,
    release_members,
    valid_lock,
)
from thalweg.store.sqlite.layer_select import prepare, select_ids
from thalweg.store.sqlite.layer_writing import NO_IDS, LayerWriter, layer_in, values_of
from thalweg.store.sqlite.layers import check_layer, put_layer
from thalweg.store.sqlite.writer import Transaction

_NO_NAMES: Final[frozenset[str]] = frozenset()


@dataclass(slots=True)
class PreparedEdit:
    """An edit, checked against a layer as it was before the transaction.

    edits     what it stands for: one, or inserts that follow one another
    features  of inserts all in one batch; of a replacement one row
    values    of an update
    bounds    of an update's geometry, shape (1, 4)
    """

    layer: Layer
    edits: list[Edit]
    features: CheckedFeatures | None = None
    values: dict[str, Value] = field(default_factory=dict)
    bounds: BoundsArray | None = None


def of_gml(edit: Edit) -> frozenset[str]:
    """Names of those of GML_FIELDS that an edit gives a value to."""
    if isinstance(edit, Delete):
        return _NO_NAMES
    if isinstance(edit, Update):
        return frozenset(name for name in GML_FIELDS if edit.values.get(name) is not None)
    columns = edit.features.columns if isinstance(edit, Insert) else edit.feature.columns
    return frozenset(
        name for name in GML_FIELDS if name in columns and any(value is not None for value in columns[name])
    )


def with_fields_of_gml(layer: Layer, names: frozenset[str]) -> Layer:
    """The layer with those of GML_FIELDS behind its own; the same one where nothing is missing."""
    missing = [item for name, item in GML_FIELDS.items() if name in names and layer.field(name) is None]
    return replace(layer, fields=(*layer.fields, *missing)) if missing else layer


def prepare_edits(layers: dict[int, Layer], edits: Sequence[Edit]) -> list[PreparedEdit]:
    """Check what can be checked without the transaction. Raises InvalidParameter, TooLarge."""
    for edit in edits:
        # As it will be by then.
        layers[edit.layer_id] = with_fields_of_gml(layers[edit.layer_id], of_gml(edit))
    prepared: list[PreparedEdit] = []
    inserted = 0
    for key, group in groupby(enumerate(edits), _batch_key):
        run = [edit for _, edit in group]
        if key[0] >= 0:
            prepared.append(prepare_edit(layers[run[0].layer_id], run))
            continue
        inserted += sum(len(cast(Insert, edit).features) for edit in run)
        if inserted > MAX_EDIT_FEATURES:
            raise _too_many()
        prepared.append(prepare_edit(layers[run[0].layer_id], run))
    return prepared


def _batch_key(item: tuple[int, Edit]) -> tuple[int, int, str]:
    """Inserts into one layer that follow one another are one batch; anything else stands alone."""
    place, edit = item
    if isinstance(edit, Insert):
        return (-1, edit.layer_id, edit.on_conflict.value)
    return (place, 0, "")


def prepare_edit(layer: Layer, run: list[Edit]) -> PreparedEdit:
    """Raises InvalidParameter."""
    first = run[0]
    if isinstance(first, Insert):
        return PreparedEdit(layer, run, _joined(layer, [cast(Insert, edit).features for edit in run]))
    if isinstance(first, Replace):
        if len(first.feature) != 1:
            raise InvalidParameter("feature", "A replacement is one feature.")
        alone = Features(np.zeros(1, np.int64), first.feature.geometries, first.feature.columns)
        return PreparedEdit(layer, run, check_features(layer, alone))
    if isinstance(first, Update):
        bounds = None if first.geometry is KEEP else check_geometries(layer, [first.geometry])
        return PreparedEdit(layer, run, None, check_values(layer, first.values), bounds)
    return PreparedEdit(layer, run)


def _joined(layer: Layer, batches: list[Features]) -> CheckedFeatures:
    if len(batches) == 1:
        return check_features(layer, batches[0])
    names: dict[str, None] = {}
    for batch in batches:
        names.update(dict.fromkeys(batch.columns))
    ids = np.concatenate([batch.ids for batch in batches])
    columns: dict[str, list[Value]] = {}
    for name in names:
        column = columns[name] = []
        for batch in batches:
            column.extend(batch.columns.get(name) or [None] * len(batch))
    geometries: list[bytes | None] = []
    for batch in batches:
        geometries.extend(batch.geometries or [None] * len(batch))
    return check_features(layer, Features(ids, geometries, columns))


def _too_many() -> TooLarge:
    return TooLarge(
        f"One edit changes at most {MAX_EDIT_FEATURES:,} features; split it, or load them instead.", parameter="edit"
    )


# ---------------------------------------------------------------- inside the transaction


class EditRun:
    """All edits of one request.

    lock_id, release  as ``FeatureStore.edit_features``
    """

    def __init__(
        self,
        tx: Transaction,
        encoder: FragmentEncoder,
        *,
        lock_id: str = "",
        release: bool = True,
        by: Actor | str = "",
    ) -> None:
        self._tx = tx
        self._encoder = encoder
        self._lock_id = lock_id
        self._release = release
        self._by = by
        self._writers: dict[int, LayerWriter] = {}
        self._left = MAX_EDIT_FEATURES

    def run(self, prepared: Sequence[PreparedEdit]) -> list[EditReceipt]:
        """See ``FeatureStore.edit_features``."""
        prepare(self._tx.cursor.connection)
        if self._lock_id:
            valid_lock(self._tx, self._lock_id)
        self._complete(prepared)
        receipts: list[EditReceipt] = []
        for item in prepared:
            writer = self._writer(item.layer.id)
            if writer.layer.schema_version != item.layer.schema_version or writer.layer.fields != item.layer.fields:
                # The layer has changed since: what was checked may not hold.
                item = prepare_edit(writer.layer, item.edits)
            receipts += self._one(writer, item)
        for writer in self._writers.values():
            writer.finish()
        self._record(receipts)
        if self._lock_id:
            self._let_go(receipts)
        return receipts

    def _complete(self, prepared: Sequence[PreparedEdit]) -> None:
        """Give the layers the fields of GML that they lack and that are given values."""
        wanted: dict[int, frozenset[str]] = {}
        for item in prepared:
            for edit in item.edits:
                if names := of_gml(edit):
                    wanted[edit.layer_id] = wanted.get(edit.layer_id, _NO_NAMES) | names
        for layer_id, names in wanted.items():
            layer = layer_in(self._tx, layer_id)
            complete = with_fields_of_gml(layer, names)
            if complete is not layer:
                check_layer(complete)
                put_layer(self._tx, complete, by=self._by)

    def _writer(self, layer_id: int) -> LayerWriter:
        writer = self._writers.get(layer_id)
        if writer is None:
            layer = layer_in(self._tx, layer_id)
            writer = self._writers[layer_id] = LayerWriter(self._tx, layer, self._encoder, actor(self._by).name)
        return writer

    def _record(self, receipts: list[EditReceipt]) -> None:
        """A line of the audit log for each layer of which something was changed."""
        counts: dict[int, dict[str, int]] = {}
        for receipt in receipts:
            of_layer = counts.setdefault(receipt.edit.layer_id, {})
            for word, count in _counted(receipt):
                of_layer[word] = of_layer.get(word, 0) + count
        for layer_id, of_layer in counts.items():
            detail = ", ".join(f"{count:,} {word}" for word, count in of_layer.items() if count)
            if detail:
                layer = self._writers[layer_id].layer
                record(self._tx, self._by, "edit features", layer.name, detail, layer.workspace_id)

    def _let_go(self, receipts: list[EditReceipt]) -> None:
        if self._release:
            self._tx.rows(DELETE_MEMBERS, (self._lock_id,))
            self._tx.rows(DELETE_LOCK, (self._lock_id,))
            return
        for receipt in receipts:
            if not isinstance(receipt.edit, Insert):
                release_members(self._tx, self._lock_id, receipt.edit.layer_id, receipt.ids)

    def _one(self, writer: LayerWriter, item: PreparedEdit) -> list[EditReceipt]:
        first = item.edits[0]
        if isinstance(first, Insert):
            return self._insert(writer, item)
        ids = self._selected(writer, first.where)
        refuse_held(self._tx, writer.layer, ids, self._lock_id)
        versions: list[IdArray] = [NO_IDS]
        for start in range(0, len(ids), MAX_BATCH_FEATURES):
            before = writer.rows_of(ids[start : start + MAX_BATCH_FEATURES])
            if first.version is not None:
                _expect_version(writer.layer, before, first.version)
            versions.append(self._change(writer, item, before))
        return [EditReceipt(first, ids, np.concatenate(versions))]

    def _selected(self, writer: LayerWriter, where: Filter | None) -> IdArray:
        ids = select_ids(self._tx.rows, writer.tables, where, limit=self._left + 1)
        self._left -= len(ids)
        if self._left < 0:
            raise _too_many()
        return ids

    def _change(self, writer: LayerWriter, item: PreparedEdit, before: list[Row]) -> IdArray:
        """Do an update, replacement or deletion to some features; their versions now."""
        first = item.edits[0]
        ids, bounds = read_bounds([(row[0], row[-1]) for row in before])
        if isinstance(first, Delete):
            versions = np.fromiter((row[1] + 1 for row in before), np.int64, len(before))
            writer.delete(before)
            writer.log(ChangeKind.DELETE, ids, versions, before)
            return versions
        n = len(before)
        if isinstance(first, Replace):
            one = cast(CheckedFeatures, item.features)
            features = CheckedFeatures(
                ids,
                [one.geometries[0]] * n,
                [[column[0]] * n for column in one.columns],
                np.repeat(one.bounds, n, axis=0),
            )
        else:
            features = self._updated(writer.layer, item, cast(Update, first), before, ids, bounds)
        versions = writer.replace(before, features)
        writer.log(ChangeKind.UPDATE, ids, versions, before)
        return versions

    @staticmethod
    def _updated(
        layer: Layer, item: PreparedEdit, update: Update, before: list[Row], ids: IdArray, bounds: BoundsArray
    ) -> CheckedFeatures:
        n = len(before)
        old = values_of(layer, before)
        columns = [
            [item.values[field.name]] * n if field.name in item.values else old.columns[field.name]
            for field in layer.fields
        ]
        geometries: Sequence[bytes | None] = old.geometries or [None] * n
        if update.geometry is not KEEP:
            geometries = [update.geometry] * n
            bounds = np.repeat(cast(BoundsArray, item.bounds), n, axis=0)
        return CheckedFeatures(ids, geometries, columns, bounds)

    # ------------------------------------------------------------ inserts

    def _insert(self, writer: LayerWriter, item: PreparedEdit) -> list[EditReceipt]:
        inserted = cast(CheckedFeatures, item.features)
        self._left -= len(inserted)
        if self._left < 0:
            raise _too_many()
        first = cast(Insert, item.edits[0])
        features = writer.numbered(inserted)
        done: dict[int, int] = {}
        for start in range(0, len(features), MAX_BATCH_FEATURES):
            part = features.take(np.arange(start, min(start + MAX_BATCH_FEATURES, len(features))))
            self._insert_part(writer, part, first.on_conflict, done)
        receipts: list[EditReceipt] = []
        at = 0
        for edit in item.edits:
            size = len(cast(Insert, edit).features)
            ids = [number for number in features.ids[at : at + size].tolist() if number in done]
            at += size
            versions = np.array([done[number] for number in ids], np.int64)
            receipts.append(EditReceipt(edit, np.array(ids, np.int64), versions))
        return receipts

    def _insert_part(
        self, writer: LayerWriter, features: CheckedFeatures, on_conflict: OnConflict, done: dict[int, int]
    ) -> None:
        taken = writer.known(features.ids)
        if len(taken):
            if on_conflict is OnConflict.REFUSE:
                raise taken_error(writer.layer, taken)
            conflicting = np.isin(features.ids, taken)
            if on_conflict is OnConflict.REPLACE:
                refuse_held(self._tx, writer.layer, taken, self._lock_id)
                replacing = features.take(np.flatnonzero(conflicting))
                before = writer.rows_of(replacing.ids)
                versions = writer.replace(before, replacing)
                writer.log(ChangeKind.UPDATE, replacing.ids, versions, before)
                done.update(zip(replacing.ids.tolist(), versions.tolist(), strict=True))
            features = features.take(np.flatnonzero(~conflicting))
        versions = writer.insert(features)
        writer.log(ChangeKind.INSERT, features.ids, versions)
        done.update(zip(features.ids.tolist(), versions.tolist(), strict=True))


def _counted(receipt: EditReceipt) -> list[tuple[str, int]]:
    """How many features were inserted, changed or deleted by an edit."""
    if isinstance(receipt.edit, Delete):
        return [("deleted", len(receipt.ids))]
    if isinstance(receipt.edit, Insert) and receipt.edit.on_conflict is not OnConflict.REPLACE:
        return [("inserted", len(receipt.ids))]
    if isinstance(receipt.edit, Insert):
        # A number that was used before is inserted anew as a later version, too; such are told as changed.
        first = int(np.count_nonzero(receipt.versions == 1))
        return [("inserted", first), ("changed", len(receipt.ids) - first)]
    return [("changed", len(receipt.ids))]


def taken_error(layer: Layer, taken: IdArray) -> AlreadyExists:
    return AlreadyExists(
        "id", f"There is a feature '{layer.feature_id(int(taken[0]))}' already ({len(taken)} of the ids are taken)."
    )


def _expect_version(layer: Layer, before: Sequence[Row], version: int) -> None:
    for row in before:
        if row[1] != version:
            raise VersionConflict(
                f"'{layer.feature_id(row[0])}' has the version {row[1]}, not {version}: it has been changed meanwhile.",
                parameter="version",
            )
