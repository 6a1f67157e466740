"""Reading features: pages of stored fragments, batches of rows, counts."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from thalweg.domain.bounded import Bounded
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.features import (
    MAX_BATCH_FEATURES,
    FeatureChange,
    FeatureKey,
    FeatureQuery,
    Features,
    FragmentForm,
    FragmentPage,
    FragmentRun,
    IdArray,
    Known,
    Layer,
    LayerState,
    SortKey,
)
from thalweg.domain.filters import Filter
from thalweg.store.sqlite.connection import Reader, Readers, Row
from thalweg.store.sqlite.layer_entities import SELECT_STATE, SELECT_STATES, state_of
from thalweg.store.sqlite.layer_log import SELECT_CHANGES, SELECT_HISTORY, changes_of
from thalweg.store.sqlite.layer_select import (
    MAX_WALKED,
    count_in_box,
    expected_in_box,
    first_in_box,
    prepare,
    select_ids,
)
from thalweg.store.sqlite.layer_tables import features_table, field_column, form_table, tables
from thalweg.store.sqlite.layer_writing import carray, no_layer, values_of
from thalweg.store.sqlite.layers import LayerReader

RUN_FEATURES: Final = 1_000
"""Fragments that are joined to one run when many are read: some hundred kilobytes to a megabyte."""
MAX_REMEMBERED_IDS: Final = 2_000_000
"""Ids of filtered queries that a process remembers (8 bytes each), so that a count, a page and the pages after it look
through the layer once."""
MAX_REMEMBERED: Final = 256
DENSE: Final = 10_000
"""A box that may hold so many features is counted without giving out their ids, and its first ones are looked for in
natural order."""
MAX_BOUNDARIES: Final = 4_096
"""Ids at offsets that a process remembers of all layers together."""
FIRST_GROUPS: Final = 64
"""Groups read first when an offset is looked for; then all of them."""
MAX_GROUP_LISTS: Final = 64
"""Layers whose groups a process remembers, 16 bytes a group of some hundred features, until they change."""

GROUPS: Final = """
    SELECT first, count FROM layer_group WHERE layer_id = ? ORDER BY first LIMIT ?"""
# One value of all fragments: for two hundred of them joining in SQLite takes 24 µs, and joining rows in Python 55.
PAGE: Final = """
    SELECT CAST(group_concat(content, '') AS BLOB), count(*) FROM
        (SELECT content FROM {form} WHERE id >= ? AND id < ? ORDER BY id)"""
# Where it is not known yet where the page ends.
FIRST_PAGE: Final = """
    SELECT CAST(group_concat(content, '') AS BLOB), count(*), max(id) FROM
        (SELECT id, content FROM {form} WHERE id >= ? ORDER BY id LIMIT ?)"""
OF_IDS: Final = """
    SELECT CAST(group_concat(content, '') AS BLOB), count(*) FROM
        (SELECT f.content FROM carray(?) c CROSS JOIN {form} f ON f.id = c.value)"""
AFTER: Final = """
    SELECT CAST(group_concat(content, '') AS BLOB), count(*), max(id) FROM
        (SELECT id, content FROM {form} WHERE id > ? ORDER BY id LIMIT ?)"""
SHAPES: Final = "SELECT geometry FROM {table} WHERE id BETWEEN ? AND ? ORDER BY id"
SHAPES_OF_IDS: Final = "SELECT f.geometry FROM carray(?) c CROSS JOIN {table} f ON f.id = c.value"
KEYS: Final = "SELECT id, version FROM {table} WHERE id >= ? ORDER BY id LIMIT ?"
KEYS_OF_IDS: Final = "SELECT f.id, f.version FROM carray(?) c CROSS JOIN {table} f ON f.id = c.value"
LAST_ID: Final = (1 << 63) - 1
AT_OFFSET: Final = "SELECT id FROM {table} WHERE id >= ? ORDER BY id LIMIT 1 OFFSET ?"


class FeatureReader:
    """Reads features, each thread by its own connection."""

    def __init__(self, readers: Readers, layers: LayerReader) -> None:
        self._readers = readers
        self._layers = layers
        self._lock = threading.Lock()
        self._boundaries: Bounded[tuple[int, int, int], int] = Bounded(MAX_BOUNDARIES)
        self._groups: dict[int, tuple[int, _Groups]] = {}
        self._selected: OrderedDict[tuple[int, int, Filter | None, tuple[SortKey, ...]], IdArray] = OrderedDict()
        self._selected_ids = 0
        self._counted: Bounded[tuple[int, int, Filter], int] = Bounded(MAX_REMEMBERED)

    # ------------------------------------------------------------ states and counts

    def state(self, layer_id: int) -> LayerState:
        """See ``FeatureStore.layer_state``."""
        return self._state(self._readers.mine(), self._layer(layer_id))[0]

    def _state(self, reader: Reader, layer: Layer) -> tuple[LayerState, int]:
        """The state, and the stamp that all fragments stand on. Raises NotFound for a layer that is gone, whose tables
        may be, too: to be asked first in every snapshot, as a stream may have waited long."""
        known = reader.known
        if known is not None:
            found: tuple[LayerState, int] | None = known.get(("layer state", layer.id))
            if found is not None:
                return found
        rows = reader.rows(SELECT_STATE, (layer.id,))
        if not rows:
            raise no_layer(layer.id)
        found = state_of(rows[0], layer.srid), rows[0][9]
        if known is not None:
            known["layer state", layer.id] = found
        return found

    def states(self, workspace_id: int) -> dict[int, LayerState]:
        """See ``FeatureStore.layer_states``."""
        srids = {layer.id: layer.srid for layer in self._layers.layers(workspace_id).values()}
        rows = self._readers.rows(SELECT_STATES, (workspace_id,))
        return {row[0]: state_of(row, srids[row[0]]) for row in rows if row[0] in srids}

    def count(self, layer_id: int, where: Filter | None) -> int:
        """See ``FeatureStore.count_features``."""
        if where is None:
            return self.state(layer_id).count
        layer = self._layer(layer_id)
        reader = self._readers.mine()
        with reader.snapshot():
            state, _ = self._state(reader, layer)
            key = (layer.id, state.generation, where)
            counted = self._counted.get(key)
            if counted is None:
                if (*key, ()) not in self._selected and expected_in_box(layer, where, state) >= DENSE:
                    counted = count_in_box(reader.rows, tables(layer), where)
                if counted is None:
                    return len(self._ids(reader, layer, state, where, ()))
                self._counted.put(key, counted)
            return counted

    def _layer(self, layer_id: int) -> Layer:
        return self._layers.layer(layer_id)

    # ------------------------------------------------------------ ids

    def _ids(
        self, reader: Reader, layer: Layer, state: LayerState, where: Filter | None, order: tuple[SortKey, ...]
    ) -> IdArray:
        """Ids of all features that fulfil a filter, in order; in the snapshot that the state is of."""
        key = (layer.id, state.generation, where, order)
        with self._lock:
            ids = self._selected.get(key)
            if ids is not None:
                self._selected.move_to_end(key)
                return ids
        prepare(reader.connection)
        ids = select_ids(reader.rows, tables(layer), where, order, extent=state.extent)
        with self._lock:
            if key not in self._selected and len(ids) <= MAX_REMEMBERED_IDS:
                self._selected[key] = ids
                self._selected_ids += len(ids)
                while self._selected_ids > MAX_REMEMBERED_IDS or len(self._selected) > MAX_REMEMBERED:
                    _, oldest = self._selected.popitem(last=False)
                    self._selected_ids -= len(oldest)
        return ids

    def _page_ids(
        self, reader: Reader, layer: Layer, state: LayerState, query: FeatureQuery
    ) -> tuple[IdArray, int | None]:
        """Ids of what is asked for, and how many there are without its limit, where that is known."""
        where, limit = query.where, query.limit
        if where is not None and limit is not None and not query.order:
            wanted = query.offset + limit
            expected = expected_in_box(layer, where, state)
            # Where a walk from the first feature on may well find them soon.
            soon = expected >= DENSE and 2 * wanted * state.count <= MAX_WALKED * expected
            if soon and (layer.id, state.generation, where, ()) not in self._selected:
                ids = first_in_box(reader.rows, tables(layer), where, wanted)
                if ids is not None:
                    return ids[query.offset :], None
        ids = self._ids(reader, layer, state, where, query.order)
        return _cut(ids, query), len(ids)

    def _id_at(self, reader: Reader, layer_id: int, generation: int, offset: int) -> int | None:
        """The id of the feature at an offset of the natural order, None behind the last; in a snapshot."""
        key = (layer_id, generation, offset)
        found = self._boundaries.get(key)
        if found is None:
            found = self._find_offset(reader, layer_id, generation, offset)
            if found is not None:
                self._boundaries.put(key, found)
        return found

    def _find_offset(self, reader: Reader, layer_id: int, generation: int, offset: int) -> int | None:
        first, left, is_full = self._group_at(reader, layer_id, generation, offset)
        if first is None or is_full:
            return None if first is None else first + left
        rows = reader.rows(AT_OFFSET.format(table=features_table(layer_id)), (first, left))
        return rows[0][0] if rows else None

    def _group_at(self, reader: Reader, layer_id: int, generation: int, offset: int) -> tuple[int | None, int, bool]:
        """Where the group begins that an offset lies in, None behind the last; the offset in it; whether it is known to
        have every id that it can have."""
        known = self._groups.get(layer_id)
        if known is None or known[0] != generation:
            # Most pages are among the first ones.
            groups = _Groups(reader.rows(GROUPS, (layer_id, FIRST_GROUPS)))
            if groups.total <= offset and len(groups.firsts) == FIRST_GROUPS:
                groups = _Groups(reader.rows(GROUPS, (layer_id, -1)))
                with self._lock:
                    if len(self._groups) >= MAX_GROUP_LISTS:
                        self._groups.clear()
                    self._groups[layer_id] = (generation, groups)
        else:
            groups = known[1]
        return groups.at(offset)

    # ------------------------------------------------------------ fragments

    def page(
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
        """See ``FeatureStore.fragment_page``."""
        if offset < 0 or not 0 <= limit <= MAX_BATCH_FEATURES:
            raise InvalidParameter("limit", f"A page has 0 to {MAX_BATCH_FEATURES} features, from 0 on.")
        layer = self._layer(layer_id)
        reader = self._readers.mine()
        with reader.snapshot():
            state, stored = self._state(reader, layer)
            if limit == 0 or offset >= state.count:
                return FragmentPage(state, 0, ())
            start = self._id_at(reader, layer_id, state.generation, offset)
            if start is None:
                return FragmentPage(state, 0, ())
            if stored != stamp:
                end = self._id_at(reader, layer_id, state.generation, offset + limit)
                features = self._rows_between(reader, layer, start, end)
                return FragmentPage(state, len(features), (FragmentRun(len(features), None, features),))
            if known is not None:
                keys = reader.rows(KEYS.format(table=features_table(layer_id)), (start, limit))
                self._remember(layer_id, state.generation, offset, limit, len(keys), keys[-1][0] if keys else 0)
                run = _unknown(reader, layer_id, form, keys, known)
                return FragmentPage(state, run.count, (run,))
            end = self._boundaries.get((layer_id, state.generation, offset + limit))
            table = form_table(layer_id, form)
            if end is None:
                ((content, count, last),) = reader.rows(FIRST_PAGE.format(form=table), (start, limit))
                self._remember(layer_id, state.generation, offset, limit, count, last or 0)
            else:
                ((content, count),) = reader.rows(PAGE.format(form=table), (start, end))
                last = end - 1
            geometries = None
            if shapes:
                statement = SHAPES.format(table=features_table(layer_id))
                geometries = _first(reader.rows(statement, (start, start if last is None else last)))
        return FragmentPage(state, count, (FragmentRun(count, content or b"", None, geometries),))

    def _remember(self, layer_id: int, generation: int, offset: int, limit: int, count: int, last: int) -> None:
        """Where the next page begins: behind the last feature of this one, if it is full."""
        if count == limit and last < LAST_ID:
            self._boundaries.put((layer_id, generation, offset + limit), last + 1)

    def _rows_between(self, reader: Reader, layer: Layer, start: int, end: int | None) -> Features:
        statement = f"SELECT id, version{tables(layer).columns}, geometry FROM {features_table(layer.id)} WHERE id >= ?"
        if end is None:
            return values_of(layer, reader.rows(f"{statement} ORDER BY id", (start,)))
        return values_of(layer, reader.rows(f"{statement} AND id < ? ORDER BY id", (start, end)))

    def fragments(
        self, layer_id: int, form: FragmentForm, stamp: int, query: FeatureQuery, *, shapes: bool = False
    ) -> Iterator[FragmentRun]:
        """See ``FeatureStore.fragments``."""
        layer = self._layer(layer_id)
        if query.where is None and not query.order:
            return self._all_fragments(layer, form, stamp, query, shapes)
        return self._chosen_fragments(layer, form, stamp, query, shapes)

    def _all_fragments(
        self, layer: Layer, form: FragmentForm, stamp: int, query: FeatureQuery, shapes: bool
    ) -> Iterator[FragmentRun]:
        left = query.limit
        statement = AFTER.format(form=form_table(layer.id, form))
        after: int | None = None
        while left is None or left > 0:
            wanted = RUN_FEATURES if left is None else min(left, RUN_FEATURES)
            reader = self._readers.mine()
            with reader.snapshot():
                state, stored = self._state(reader, layer)
                if after is None:
                    start = self._id_at(reader, layer.id, state.generation, query.offset)
                    if start is None:
                        return
                    after = start - 1
                if stored == stamp:
                    ((content, count, last),) = reader.rows(statement, (after, wanted))
                    run = FragmentRun(count, content)
                    if shapes and count:
                        between = SHAPES.format(table=features_table(layer.id))
                        run = FragmentRun(count, content, None, _first(reader.rows(between, (after + 1, last))))
                else:
                    features = self._rows_after(reader, layer, after, wanted, query)
                    count = len(features)
                    last = int(features.ids[-1]) if count else after
                    run = FragmentRun(count, None, features)
            if not count:
                return
            after = last
            if left is not None:
                left -= count
            yield run

    def chosen(
        self,
        layer_id: int,
        form: FragmentForm,
        stamp: int,
        query: FeatureQuery,
        *,
        shapes: bool = False,
        known: Known | None = None,
    ) -> FragmentPage:
        """See ``FeatureStore.chosen_fragments``."""
        if query.offset < 0 or query.limit is None or not 0 <= query.limit <= MAX_BATCH_FEATURES:
            raise InvalidParameter("limit", f"A page has 0 to {MAX_BATCH_FEATURES} features, from 0 on.")
        layer = self._layer(layer_id)
        reader = self._readers.mine()
        with reader.snapshot():
            state, stored = self._state(reader, layer)
            ids, matched = self._page_ids(reader, layer, state, query)
            if not len(ids):
                return FragmentPage(state, 0, (), matched)
            run = self._run(reader, layer, form, ids, is_current=stored == stamp, shapes=shapes, known=known)
        return FragmentPage(state, run.count, (run,), matched)

    def _chosen_fragments(
        self,
        layer: Layer,
        form: FragmentForm,
        stamp: int,
        query: FeatureQuery,
        shapes: bool,
    ) -> Iterator[FragmentRun]:
        ids: IdArray | None = None
        at = 0
        while ids is None or at < len(ids):
            reader = self._readers.mine()
            with reader.snapshot():
                state, stored = self._state(reader, layer)
                if ids is None:
                    ids, _ = self._page_ids(reader, layer, state, query)
                part = ids[at : at + RUN_FEATURES]
                if not len(part):
                    return
                run = self._run(reader, layer, form, part, is_current=stored == stamp, shapes=shapes)
            at += len(part)
            if run.count:
                yield run

    @staticmethod
    def _run(
        reader: Reader,
        layer: Layer,
        form: FragmentForm,
        ids: IdArray,
        *,
        is_current: bool,
        shapes: bool,
        known: Known | None = None,
    ) -> FragmentRun:
        """The fragments of those of these features that are there; in a snapshot."""
        bound = carray(ids)
        if not is_current:
            features = values_of(layer, reader.rows(tables(layer).rows_by_id, (bound,)))
            return FragmentRun(len(features), None, features)
        if known is not None:
            keys = reader.rows(KEYS_OF_IDS.format(table=features_table(layer.id)), (bound,))
            return _unknown(reader, layer.id, form, keys, known)
        ((content, count),) = reader.rows(OF_IDS.format(form=form_table(layer.id, form)), (bound,))
        geometries = None
        if shapes:
            geometries = _first(reader.rows(SHAPES_OF_IDS.format(table=features_table(layer.id)), (bound,)))
        return FragmentRun(count, content or b"", None, geometries)

    # ------------------------------------------------------------ rows

    def scan(self, layer_id: int, query: FeatureQuery) -> Iterator[Features]:
        """See ``FeatureStore.scan_features``."""
        layer = self._layer(layer_id)
        if query.where is None and not query.order:
            return self._scan_all(layer, query)
        return self._scan_chosen(layer, query)

    def _scan_all(self, layer: Layer, query: FeatureQuery) -> Iterator[Features]:
        left = query.limit
        after: int | None = None
        while left is None or left > 0:
            reader = self._readers.mine()
            wanted = RUN_FEATURES if left is None else min(left, RUN_FEATURES)
            with reader.snapshot():
                state, _ = self._state(reader, layer)
                if after is None:
                    start = self._id_at(reader, layer.id, state.generation, query.offset)
                    if start is None:
                        return
                    after = start - 1
                features = self._rows_after(reader, layer, after, wanted, query)
            if not len(features):
                return
            after = int(features.ids[-1])
            if left is not None:
                left -= len(features)
            yield features

    def _scan_chosen(self, layer: Layer, query: FeatureQuery) -> Iterator[Features]:
        chosen, select = _columns(layer, query)
        statement = (
            f"SELECT f.id, version{select} FROM carray(?) c CROSS JOIN {features_table(layer.id)} f ON f.id = c.value"
        )
        ids: IdArray | None = None
        at = 0
        while ids is None or at < len(ids):
            reader = self._readers.mine()
            with reader.snapshot():
                state, _ = self._state(reader, layer)
                if ids is None:
                    ids, _ = self._page_ids(reader, layer, state, query)
                part = ids[at : at + RUN_FEATURES]
                if not len(part):
                    return
                features = values_of(chosen, reader.rows(statement, (carray(part),)))
            at += len(part)
            if len(features):
                yield features

    def _rows_after(self, reader: Reader, layer: Layer, after: int, limit: int, query: FeatureQuery) -> Features:
        chosen, select = _columns(layer, query)
        rows = reader.rows(
            f"SELECT id, version{select} FROM {features_table(layer.id)} WHERE id > ? ORDER BY id LIMIT ?",
            (after, limit),
        )
        return values_of(chosen, rows)

    # ------------------------------------------------------------ change log

    def changes(self, layer_id: int, after: int, limit: int) -> list[FeatureChange]:
        return changes_of(self._layer(layer_id), self._readers.rows(SELECT_CHANGES, (layer_id, after, limit)))

    def history(self, layer_id: int, number: int, limit: int) -> list[FeatureChange]:
        return changes_of(self._layer(layer_id), self._readers.rows(SELECT_HISTORY, (layer_id, number, limit)))


def _unknown(
    reader: Reader, layer_id: int, form: FragmentForm, keys: Sequence[FeatureKey], known: Known
) -> FragmentRun:
    """The run of these features, with the fragments and geometries of those that the caller has not; in a snapshot."""
    texts = known(keys)
    missing = [key[0] for key, text in zip(keys, texts, strict=True) if text is None]
    if not missing:
        return FragmentRun(len(keys), b"", None, (), keys, texts)
    ids = carray(np.array(missing, np.int64))
    ((content, _),) = reader.rows(OF_IDS.format(form=form_table(layer_id, form)), (ids,))
    geometries = _first(reader.rows(SHAPES_OF_IDS.format(table=features_table(layer_id)), (ids,)))
    return FragmentRun(len(keys), content or b"", None, geometries, keys, texts)


class _Groups:
    """The groups of a layer in order, with what they hold up to and with each."""

    __slots__ = ("_sums", "firsts", "total")

    def __init__(self, rows: list[Row]) -> None:
        self.firsts = np.fromiter((row[0] for row in rows), np.int64, len(rows))
        self._sums = np.cumsum(np.fromiter((row[1] for row in rows), np.int64, len(rows)))
        self.total = int(self._sums[-1]) if len(rows) else 0

    def at(self, offset: int) -> tuple[int | None, int, bool]:
        if offset >= self.total:
            return None, 0, False
        place = int(np.searchsorted(self._sums, offset, side="right"))
        first, before = int(self.firsts[place]), int(self._sums[place - 1]) if place else 0
        count = int(self._sums[place]) - before
        is_full = place + 1 < len(self.firsts) and int(self.firsts[place + 1]) - first == count
        return first, offset - before, is_full


def _first(rows: list[Row]) -> list[bytes | None]:
    """The only column of rows."""
    return [row[0] for row in rows]


def _cut(ids: IdArray, query: FeatureQuery) -> IdArray:
    end = None if query.limit is None else query.offset + query.limit
    return ids[query.offset : end]


def _columns(layer: Layer, query: FeatureQuery) -> tuple[Layer, str]:
    """The layer with the fields asked for alone, and their columns and the geometry's for SELECT."""
    chosen = layer
    if query.fields is not None:
        wanted = set(query.fields)
        chosen = replace(layer, fields=tuple(field for field in layer.fields if field.name in wanted))
    geometry = ", geometry" if query.geometry and layer.has_geometry else ", NULL"
    return chosen, "".join(f", {field_column(field)}" for field in chosen.fields) + geometry
