"""Locks: what they keep others from, when they end, and how they are given up."""

from __future__ import annotations

import time

import numpy as np
import pytest
from tests.store.layer_support import (
    ME,
    batch,
    by_number,
    compare,
    edit,
    ids_of,
    insert,
    layer,
    make_layer,
    point,
    rows_of,
)
from tests.store.support import WAIT_S, Backend, assert_clean

from thalweg.domain.errors import FeatureLocked, InvalidParameter, LockExpired
from thalweg.domain.features import Delete, Insert, Layer, Lock, LockTarget, OnConflict, Update
from thalweg.domain.filters import Filter, Kind
from thalweg.domain.store import Store
from thalweg.services.features import FeatureService


@pytest.fixture
def towns(store: Store) -> Layer:
    made = make_layer(store)
    insert(store, made, [(n, point(n, n), {"population": n}) for n in range(1, 11)])
    return made


def lock(store: Store, of: Layer, where: Filter | None = None, seconds: float = 60.0, some: bool = False) -> Lock:
    return store.lock_features([LockTarget(of.id, where)], seconds, some=some).result(WAIT_S)


def test_locked_features_change_for_the_holder_alone(store: Store, towns: Layer) -> None:
    held = lock(store, towns, compare("population", "<=", 3, Kind.INTEGER))
    assert {key: ids.tolist() for key, ids in held.locked.items()} == {towns.id: [1, 2, 3]}
    assert store.locked_features(towns.id).tolist() == [1, 2, 3]
    for attempt in (
        Update(towns.id, by_number(2), {"name": "x"}),
        Delete(towns.id, None),
        Insert(towns.id, batch([(3, None, {})]), OnConflict.REPLACE),
    ):
        with pytest.raises(FeatureLocked):
            edit(store, attempt)
    with pytest.raises(FeatureLocked):
        FeatureService(store).load(towns, [batch([(3, None, {})])], ME, on_conflict=OnConflict.REPLACE)
    edit(store, Update(towns.id, by_number(4), {"name": "free"}), Insert(towns.id, batch([(0, None, {})])))
    edit(store, Update(towns.id, by_number(2), {"name": "mine"}), lock_id=held.id)
    assert rows_of(store, towns)[1][2]["name"] == "mine"
    # Given up as a whole by that edit.
    assert store.lock(held.id) is None
    assert store.locked_features(towns.id).tolist() == []
    edit(store, Delete(towns.id, by_number(1)))
    assert_clean(store)


def test_release_of_some_lets_go_what_was_edited(store: Store, towns: Layer) -> None:
    held = lock(store, towns, by_number(1, 2, 3))
    edit(store, Delete(towns.id, by_number(1)), lock_id=held.id, release=False)
    assert store.locked_features(towns.id).tolist() == [2, 3]
    with pytest.raises(FeatureLocked):
        edit(store, Delete(towns.id, by_number(2)))
    store.release_lock(held.id).result(WAIT_S)
    edit(store, Delete(towns.id, by_number(2)))


def test_failed_edit_keeps_the_lock(store: Store, towns: Layer) -> None:
    held = lock(store, towns, by_number(1))
    with pytest.raises(InvalidParameter):
        edit(store, Update(towns.id, by_number(1), {"nothing": 1}), lock_id=held.id)
    assert store.locked_features(towns.id).tolist() == [1]


def test_overlapping_lock_is_refused_or_takes_the_rest(store: Store, towns: Layer) -> None:
    lock(store, towns, by_number(1, 2))
    with pytest.raises(FeatureLocked):
        lock(store, towns, by_number(2, 3))
    assert store.locked_features(towns.id).tolist() == [1, 2]
    some = lock(store, towns, by_number(2, 3), some=True)
    assert some.locked[towns.id].tolist() == [3]
    assert some.refused[towns.id].tolist() == [2]


def test_lock_over_several_layers(store: Store, towns: Layer) -> None:
    roads = make_layer(store, layer("roads"))
    insert(store, roads, [(1, None, {})])
    held = store.lock_features([LockTarget(towns.id, by_number(1)), LockTarget(roads.id)], 60).result(WAIT_S)
    assert {key: ids.tolist() for key, ids in held.locked.items()} == {towns.id: [1], roads.id: [1]}
    found = store.lock(held.id)
    assert found is not None
    assert {key: ids.tolist() for key, ids in found.locked.items()} == {towns.id: [1], roads.id: [1]}


def test_expired_lock_holds_nothing_and_says_so(store: Store, towns: Layer) -> None:
    held = lock(store, towns, by_number(1), seconds=0.05)
    time.sleep(0.06)
    assert store.locked_features(towns.id).tolist() == []
    with pytest.raises(LockExpired):
        edit(store, Delete(towns.id, by_number(1)), lock_id=held.id)
    with pytest.raises(LockExpired):
        store.reset_lock(held.id).result(WAIT_S)
    assert store.lock(held.id) is not None
    edit(store, Delete(towns.id, by_number(1)))
    again = lock(store, towns, by_number(2))
    assert again.locked[towns.id].tolist() == [2]
    assert_clean(store)


def test_reset_starts_its_time_anew(store: Store, towns: Layer) -> None:
    held = lock(store, towns, by_number(1), seconds=30)
    longer = store.reset_lock(held.id, 600).result(WAIT_S)
    assert longer.expires_us - held.expires_us > 500_000_000
    assert longer.locked[towns.id].tolist() == [1]
    assert store.reset_lock(held.id).result(WAIT_S).duration_s == 600


@pytest.mark.parametrize("wrong", ["nothing", "x' OR '1'='1", "\x00"])
def test_unknown_lock_is_named(store: Store, towns: Layer, wrong: str) -> None:
    for call in (
        lambda: edit(store, Delete(towns.id, by_number(1)), lock_id=wrong),
        lambda: store.reset_lock(wrong).result(WAIT_S),
        lambda: store.release_lock(wrong).result(WAIT_S),
    ):
        with pytest.raises(InvalidParameter) as caught:
            call()
        assert caught.value.parameter == "lockId"
    assert store.lock(wrong) is None
    assert len(ids_of(store, towns)) == 10


def test_other_processes_respect_a_lock(backend: Backend) -> None:
    one, other = backend.open(), backend.open()
    made = make_layer(one)
    insert(one, made, [(1, None, {})])
    held = lock(one, made)
    with pytest.raises(FeatureLocked):
        edit(other, Delete(made.id, None))
    edit(other, Delete(made.id, None), lock_id=held.id)
    assert np.array_equal(one.locked_features(made.id), [])


def test_lock_of_nothing_holds_nothing(store: Store, towns: Layer) -> None:
    held = lock(store, towns, by_number(99))
    assert held.locked[towns.id].tolist() == []
    assert held.refused == {}
