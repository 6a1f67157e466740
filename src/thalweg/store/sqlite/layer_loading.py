"""Bulk loading of features: bounded transactions, with the encoding done outside of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from thalweg.domain.access import Actor, actor
from thalweg.domain.errors import InvalidParameter, ThalwegError
from thalweg.domain.features import (
    ChangeKind,
    EncodedFeatures,
    Features,
    FragmentEncoder,
    FragmentForm,
    IdArray,
    Layer,
    LoadReceipt,
    OnConflict,
    PreparedFeatures,
)
from thalweg.store.sqlite.audit import record
from thalweg.store.sqlite.layer_checks import BoundsArray, CheckedFeatures, check_features
from thalweg.store.sqlite.layer_edits import taken_error
from thalweg.store.sqlite.layer_index import WaitingBoxes, begin
from thalweg.store.sqlite.layer_locks import refuse_held
from thalweg.store.sqlite.layer_tables import tables
from thalweg.store.sqlite.layer_writing import (
    SELECT_WRITING,
    LayerWriter,
    checksum,
    layer_in,
    values_of,
    write_fragments,
)
from thalweg.store.sqlite.published_layers import is_published
from thalweg.store.sqlite.writer import Transaction, Writer

STEP_FEATURES: Final = 1_024
"""Features of one transaction: some 30 ms of the lock for lines of a dozen positions in four forms."""
STEP_BYTES: Final = 8 << 20
"""WKB of one transaction; a step of large geometries has fewer features."""

NEXT_NUMBER: Final = "SELECT next_number FROM layer_state WHERE layer_id = ?"
REFRESH_ROWS: Final = "SELECT id, version{columns}, geometry FROM {table} WHERE id > ? ORDER BY id LIMIT ?"
SET_PENDING: Final = "UPDATE layer_state SET pending = ? WHERE layer_id = ?"
SET_STAMP: Final = """
    UPDATE layer_state SET stamp = ?1, generation = generation + 1
    WHERE layer_id = ?2 AND pending = ?1 RETURNING 1"""


def steps(batches: Iterable[Features]) -> Iterator[Features]:
    """The same features in batches of a step's size at most."""
    for batch in batches:
        start = 0
        while start < len(batch):
            end = min(start + STEP_FEATURES, len(batch))
            size = 0
            if batch.geometries:
                for row in range(start, end):
                    size += len(batch.geometries[row] or b"")
                    if size > STEP_BYTES and row > start:
                        end = row
                        break
            if start == 0 and end == len(batch):
                yield batch
            else:
                yield Features(
                    batch.ids[start:end],
                    batch.geometries[start:end],
                    {name: column[start:end] for name, column in batch.columns.items()},
                )
            start = end


@dataclass(frozen=True, slots=True)
class Step:
    """Features with the numbers they will have, if nobody else takes them meanwhile, and their fragments.

    layer  that they were checked against
    given  which came with numbers of their own
    """

    layer: Layer
    features: CheckedFeatures
    given: npt.NDArray[np.bool_]
    encoded: Mapping[FragmentForm, EncodedFeatures]

    def __len__(self) -> int:
        return len(self.features)

    def __reduce__(self) -> tuple[Any, ...]:
        # Fragments as one text: many small ones take longer to be pickled than to be cut out again.
        encoded = {form: replace(item, texts=None) for form, item in self.encoded.items()}
        return Step, (self.layer, self.features, self.given, encoded)


@dataclass(frozen=True, slots=True)
class Preparer:
    """See ``domain.features.FeaturePreparer``."""

    layer: Layer
    encoder: FragmentEncoder

    def __call__(self, features: Features) -> list[PreparedFeatures]:
        return [self._step(batch) for batch in steps((features,))]

    def _step(self, batch: Features) -> Step:
        checked = check_features(self.layer, batch)
        given = checked.ids != 0
        if not given.all():
            raise InvalidParameter("id", "Features that are encoded before they are stored must have numbers.")
        encoded = self.encoder.encode(self.layer, checked.features(self.layer))
        summed = {form: replace(item, checksums=list(map(checksum, item.each()))) for form, item in encoded.items()}
        return Step(self.layer, checked, given, summed)


def load(
    writer: Writer,
    layer: Layer,
    next_number: int,
    batches: Iterable[Features | PreparedFeatures],
    encoder: FragmentEncoder,
    on_conflict: OnConflict,
    by: Actor | str,
    progress: Callable[[LoadReceipt], None] | None,
    relieve: Callable[[], None],
    *,
    unseen: bool,
) -> LoadReceipt:
    """See ``FeatureStore.load_features``. While a step is written the next one is encoded."""
    total = LoadReceipt(0, 0, 0)
    begun = False
    waiting: Future[_Written] | None = None
    boxes = WaitingBoxes(writer, layer.id, relieve)

    def settle() -> None:
        nonlocal total, next_number, waiting
        if waiting is None:
            return
        future, waiting = waiting, None
        done, reached, later = future.result()
        next_number = max(next_number, reached)
        if later is not None:
            boxes.add(*later)
        total = LoadReceipt(total.added + done.added, total.replaced + done.replaced, total.skipped + done.skipped)
        if progress is not None:
            progress(total)

    def made() -> Iterator[Step]:
        for item in batches:
            if isinstance(item, Step):
                yield item
            else:
                yield from (_made(layer, batch, next_number, encoder) for batch in steps((cast(Features, item),)))

    try:
        for step in made():
            # What the step will make of it, unless others insert meanwhile.
            next_number = max(next_number, int(step.features.ids.max()) + 1)
            settle()
            relieve()
            waiting = writer.submit(
                lambda tx, step=step, first=not begun: _write(  # type: ignore[misc]
                    tx, step, encoder, on_conflict, by, first=first, unseen=unseen
                )
            )
            begun = True
        settle()
        boxes.finish()
    except BaseException:
        # What was handed over is written all the same, and told.
        with suppress(ThalwegError):
            settle()
        if begun:
            with suppress(ThalwegError):
                writer.submit(lambda tx: _record_end(tx, layer, total, by, "broken off")).result()
        raise
    if begun:
        writer.submit(lambda tx: _record_end(tx, layer, total, by, "done")).result()
    return total


def _made(layer: Layer, batch: Features, next_number: int, encoder: FragmentEncoder) -> Step:
    checked = check_features(layer, batch)
    given = checked.ids != 0
    ids = checked.ids
    if not given.all():
        ids = ids.copy()
        start = max(next_number, int(ids.max()) + 1)
        ids[~given] = np.arange(start, start + int((~given).sum()))
    features = checked.with_ids(ids)
    return Step(layer, features, given, encoder.encode(layer, features.features(layer)))


def _record_end(tx: Transaction, layer: Layer, total: LoadReceipt, by: Actor | str, how: str) -> None:
    detail = f"{how}: {total.added:,} inserted, {total.replaced:,} changed, {total.skipped:,} skipped"
    record(tx, by, "load features", layer.name, detail, layer.workspace_id)


_Written: TypeAlias = tuple[LoadReceipt, int, tuple[IdArray, BoundsArray] | None]
"""What was done, the next number, and the boxes that are to come into the index later."""


def _write(
    tx: Transaction,
    step: Step,
    encoder: FragmentEncoder,
    on_conflict: OnConflict,
    by: Actor | str,
    *,
    first: bool,
    unseen: bool,
) -> _Written:
    """first  whether the load begins with it"""
    layer = layer_in(tx, step.layer.id)
    if first:
        record(tx, by, "load features", layer.name, "begun", layer.workspace_id)
    writer = LayerWriter(tx, layer, encoder, actor(by).name)
    features, encoded = step.features, step.encoded
    if layer.fields != step.layer.fields or layer.schema_version != step.layer.schema_version:
        features = check_features(layer, features.features(step.layer))
        encoded = encoder.encode(layer, features.features(layer))
    if not step.given.all() and (features.ids[~step.given] < writer.next_number).any():
        # Somebody else took the numbers.
        ids = features.ids.copy()
        ids[~step.given] = 0
        features = writer.numbered(features.with_ids(ids))
        encoded = encoder.encode(layer, features.features(layer))
    taken = writer.known(features.ids)
    published = is_published(tx, layer.id)
    receipt = LoadReceipt(len(features), 0, 0)
    later = None
    if len(taken):
        if on_conflict is OnConflict.REFUSE:
            raise taken_error(layer, taken)
        conflicting = np.isin(features.ids, taken)
        new = features.take(np.flatnonzero(~conflicting))
        if on_conflict is OnConflict.REPLACE:
            refuse_held(tx, layer, taken, "")
            replacing = features.take(np.flatnonzero(conflicting))
            before = writer.rows_of(replacing.ids)
            versions = writer.replace(before, replacing)
            if published:
                writer.log(ChangeKind.UPDATE, replacing.ids, versions, before)
            receipt = LoadReceipt(len(new), len(replacing), 0)
        else:
            receipt = LoadReceipt(len(new), 0, len(taken))
        versions = writer.insert(new)
        inserted = new
        touched = features.ids if on_conflict is OnConflict.REPLACE else new.ids
    else:
        if unseen and not published:
            later = features.boxes()
            begin(tx, layer.id, later[1])
        versions = writer.insert(features, encoded, with_boxes=later is None)
        inserted = features
        touched = features.ids
    if published:
        # A stream tells each of them, so each has its entry.
        writer.log(ChangeKind.INSERT, inserted.ids, versions)
    elif len(touched):
        writer.log_load(touched)
    writer.finish()
    return receipt, writer.next_number, later


# ---------------------------------------------------------------- encoding anew


def refresh(writer: Writer, layer_id: int, encoder: FragmentEncoder, relieve: Callable[[], None]) -> Iterator[int]:
    """See ``FeatureStore.refresh_fragments``."""
    while True:
        stamp = writer.submit(lambda tx: _begin(tx, layer_id, encoder)).result()
        if stamp is None:
            return
        after: int | None = -(1 << 63)
        first = True
        while after is not None:
            count, after = writer.submit(
                lambda tx, after=after, first=first: _refresh_step(tx, layer_id, encoder, after, first)  # type: ignore[misc]
            ).result()
            first = False
            relieve()
            yield count
        if writer.submit(lambda tx, stamp=stamp: bool(tx.rows(SET_STAMP, (stamp, layer_id)))).result():  # type: ignore[misc]
            return
        # Somebody wrote with another encoder meanwhile: once more.


def _begin(tx: Transaction, layer_id: int, encoder: FragmentEncoder) -> int | None:
    """The stamp to be reached; None if all stand on it already."""
    layer = layer_in(tx, layer_id)
    ((*_, stamp, _pending),) = tx.rows(SELECT_WRITING, (layer_id,))
    wanted = encoder.stamp(layer)
    if stamp == wanted:
        return None
    tx.rows(SET_PENDING, (wanted, layer_id))
    return wanted


def _refresh_step(
    tx: Transaction, layer_id: int, encoder: FragmentEncoder, after: int, first: bool
) -> tuple[int, int | None]:
    layer = layer_in(tx, layer_id)
    statements = tables(layer)
    text = REFRESH_ROWS.format(columns=statements.columns, table=statements.features)
    if first:
        text = text.replace("id > ?", "id >= ?", 1)
    rows = tx.rows(text, (after, STEP_FEATURES))
    if not rows:
        return 0, None
    features = values_of(layer, rows)
    encoded = encoder.encode(layer, features)
    ids = features.ids.tolist()
    write_fragments(tx, statements, ids, encoded)
    for form in FragmentForm:
        if form not in encoded:
            tx.many(statements.delete_fragment(form), zip(ids))
    return len(rows), ids[-1]
