"""The store's calls on layers and features, each handed to the module that does it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar

import numpy as np

from thalweg.domain.access import Actor, actor
from thalweg.domain.errors import ThalwegError
from thalweg.domain.features import (
    ALL_FEATURES,
    Edit,
    EditReceipt,
    FeatureChange,
    FeaturePreparer,
    FeatureQuery,
    Features,
    FragmentEncoder,
    FragmentForm,
    FragmentPage,
    FragmentRun,
    IdArray,
    Known,
    Layer,
    LayerState,
    LoadReceipt,
    Lock,
    LockTarget,
    OnConflict,
    PreparedFeatures,
    StoredQuery,
)
from thalweg.domain.filters import Filter
from thalweg.domain.published import SourceKind
from thalweg.store.sqlite import layer_loading, layer_locks, layers
from thalweg.store.sqlite.connection import Readers
from thalweg.store.sqlite.layer_edits import EditRun, prepare_edits
from thalweg.store.sqlite.layer_entities import STAMPS
from thalweg.store.sqlite.layer_loading import NEXT_NUMBER
from thalweg.store.sqlite.layer_locks import HELD_IN_LAYER
from thalweg.store.sqlite.layer_reading import FeatureReader
from thalweg.store.sqlite.layer_writing import RESERVE, no_layer
from thalweg.store.sqlite.layers import LayerReader
from thalweg.store.sqlite.stream_catalogue import delete_streams_of
from thalweg.store.sqlite.writer import Transaction, Writer

T = TypeVar("T")


class FeaturePart:
    """``FeatureStore`` over one file; what a store inherits."""

    def _open_features(self, readers: Readers, writer: Writer, relieve: Callable[[], None]) -> None:
        """relieve  shortens the write-ahead log in the middle of long work"""
        self.__readers = readers
        self.__writer = writer
        self.__relieve = relieve
        self.__layers = LayerReader(readers)
        self.__features = FeatureReader(readers, self.__layers)

    # ------------------------------------------------------------ layers

    def layers(self, workspace_id: int) -> Mapping[str, Layer]:
        return self.__layers.layers(workspace_id)

    def layer_state(self, layer_id: int) -> LayerState:
        return self.__features.state(layer_id)

    def layer_states(self, workspace_id: int) -> dict[int, LayerState]:
        return self.__features.states(workspace_id)

    def put_layer(self, layer: Layer, *, replaces: int = 0, by: Actor | str = "") -> Future[Layer]:
        try:
            layers.check_layer(layer)
        except ThalwegError as error:
            return _refused(error)

        def work(tx: Transaction) -> Layer:
            if replaces:
                delete_streams_of(tx, layer.workspace_id, SourceKind.LAYER, replaces, by)
            return layers.put_layer(tx, layer, replaces, by)

        return self.__writer.submit(work)

    def delete_layer(self, workspace_id: int, layer_id: int, *, by: Actor | str = "") -> Future[None]:
        def work(tx: Transaction) -> None:
            delete_streams_of(tx, workspace_id, SourceKind.LAYER, layer_id, by)
            layers.delete_layer(tx, workspace_id, layer_id, by)

        return self.__writer.submit(work, frees_space=True)

    # ------------------------------------------------------------ reading

    def count_features(self, layer_id: int, where: Filter | None = None) -> int:
        return self.__features.count(layer_id, where)

    def scan_features(self, layer_id: int, query: FeatureQuery = ALL_FEATURES) -> Iterator[Features]:
        return self.__features.scan(layer_id, query)

    def fragment_page(
        self,
        layer_id: int,
        form: FragmentForm,
        stamp: int,
        offset: int,
        limit: int,
        *,
        shapes: bool = False,
        known: Known | None = None,
    ) -> FragmentPage:
        return self.__features.page(layer_id, form, stamp, offset, limit, shapes=shapes, known=known)

    def chosen_fragments(
        self,
        layer_id: int,
        form: FragmentForm,
        stamp: int,
        query: FeatureQuery,
        *,
        shapes: bool = False,
        known: Known | None = None,
    ) -> FragmentPage:
        return self.__features.chosen(layer_id, form, stamp, query, shapes=shapes, known=known)

    def fragments(
        self, layer_id: int, form: FragmentForm, stamp: int, query: FeatureQuery, *, shapes: bool = False
    ) -> Iterator[FragmentRun]:
        return self.__features.fragments(layer_id, form, stamp, query, shapes=shapes)

    def feature_changes(self, layer_id: int, after: int = 0, *, limit: int = 1000) -> list[FeatureChange]:
        return self.__features.changes(layer_id, after, limit)

    def feature_history(self, layer_id: int, number: int, *, limit: int = 1000) -> list[FeatureChange]:
        return self.__features.history(layer_id, number, limit)

    # ------------------------------------------------------------ writing

    def edit_features(
        self,
        edits: Sequence[Edit],
        encoder: FragmentEncoder,
        *,
        lock_id: str = "",
        release: bool = True,
        by: Actor | str = "",
    ) -> Future[list[EditReceipt]]:
        try:
            found = {edit.layer_id: self.__layers.layer(edit.layer_id) for edit in edits}
            prepared = prepare_edits(found, edits)
        except ThalwegError as error:
            return _refused(error)

        def work(tx: Transaction) -> list[EditReceipt]:
            return EditRun(tx, encoder, lock_id=lock_id, release=release, by=by).run(prepared)

        return self.__writer.submit(work)

    def reserve_numbers(self, layer_id: int, count: int) -> Future[int]:
        def work(tx: Transaction) -> int:
            rows = tx.rows(RESERVE, (layer_id, count))
            if not rows:
                raise no_layer(layer_id)
            return int(rows[0][0]) - count

        return self.__writer.submit(work)

    def feature_preparer(self, layer_id: int, encoder: FragmentEncoder) -> FeaturePreparer:
        return layer_loading.Preparer(self.__layers.layer(layer_id), encoder)

    def load_features(
        self,
        layer_id: int,
        batches: Iterable[Features | PreparedFeatures],
        encoder: FragmentEncoder,
        *,
        on_conflict: OnConflict = OnConflict.REFUSE,
        by: Actor | str = "",
        progress: Callable[[LoadReceipt], None] | None = None,
        unseen: bool = False,
    ) -> LoadReceipt:
        layer = self.__layers.layer(layer_id)
        ((next_number,),) = self.__readers.rows(NEXT_NUMBER, (layer_id,))
        return layer_loading.load(
            self.__writer, layer, next_number, batches, encoder, on_conflict, by, progress, self.__relieve,
            unseen=unseen,
        )  # fmt: skip

    def refresh_fragments(self, layer_id: int, encoder: FragmentEncoder) -> Iterator[int]:
        return layer_loading.refresh(self.__writer, layer_id, encoder, self.__relieve)

    def fragment_stamps(self, workspace_id: int) -> dict[int, int]:
        return dict(self.__readers.rows(STAMPS, (workspace_id,)))

    # ------------------------------------------------------------ locks

    def lock_features(
        self, targets: Sequence[LockTarget], duration_s: float, *, some: bool = False, by: Actor | str = ""
    ) -> Future[Lock]:
        name = actor(by).name
        return self.__writer.submit(lambda tx: layer_locks.lock_features(tx, targets, duration_s, some, name))

    def reset_lock(self, lock_id: str, duration_s: float | None = None) -> Future[Lock]:
        return self.__writer.submit(lambda tx: layer_locks.reset_lock(tx, lock_id, duration_s))

    def release_lock(self, lock_id: str) -> Future[None]:
        return self.__writer.submit(lambda tx: layer_locks.release_lock(tx, lock_id))

    def lock(self, lock_id: str) -> Lock | None:
        return layer_locks.read_lock(self.__readers, lock_id)

    def locked_features(self, layer_id: int) -> IdArray:
        rows = self.__readers.rows(HELD_IN_LAYER, (layer_id, time.time_ns() // 1000))
        return np.fromiter((row[0] for row in rows), np.int64, len(rows))

    # ------------------------------------------------------------ stored queries

    def stored_queries(self, workspace_id: int) -> dict[str, StoredQuery]:
        return self.__layers.stored_queries(workspace_id)

    def put_stored_query(self, query: StoredQuery, *, by: Actor | str = "") -> Future[None]:
        return self.__writer.submit(lambda tx: layers.put_stored_query(tx, query, by))

    def delete_stored_query(self, workspace_id: int, identifier: str, *, by: Actor | str = "") -> Future[None]:
        return self.__writer.submit(lambda tx: layers.delete_stored_query(tx, workspace_id, identifier, by))


def _refused(error: ThalwegError) -> Future[T]:
    future: Future[T] = Future()
    future.set_exception(error)
    return future
