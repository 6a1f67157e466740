"""LockFeature and GetFeatureWithLock (OGC 02-058 clause 10, 04-094 clauses 9 and 11, 09-025r2 clauses 12 and 13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

import numpy as np

from thalweg.auth.policy import Action
from thalweg.domain.errors import InvalidParameter, TooLarge
from thalweg.domain.features import MAX_EDIT_FEATURES, FeatureQuery, IdArray, Layer, Lock, LockTarget
from thalweg.domain.filters import FeatureIds, both
from thalweg.doors.http import Deferred, Response
from thalweg.doors.wfs.context import Context
from thalweg.doors.wfs.formats import output_format
from thalweg.doors.wfs.get_feature import answer, limit_of
from thalweg.doors.wfs.request import GetFeature, LockFeature, Query, ResultType
from thalweg.doors.wfs.request import Lock as LockTerms
from thalweg.doors.wfs.resolve import Plan, plans
from thalweg.doors.wfs.versions import FES2, OGC, V10, V11, WFS1, WFS2
from thalweg.encode.xmltext import attribute

_NOBODY: Final = np.zeros(0, np.int64)


def _duration(asked: float | None, context: Context) -> float:
    settings = context.services.settings
    if asked is None:
        return settings.wfs_lock_expiry_s
    if asked > settings.wfs_max_lock_expiry_s:
        raise InvalidParameter(
            "expiry", f"A lock may be held {settings.wfs_max_lock_expiry_s:g} s at most, not {asked:g} s."
        )
    return asked


def lock_feature(asked: LockFeature, queries: Sequence[Query], context: Context) -> Deferred | Response:
    """Lock what queries select, or prolong a lock.

    raises  InvalidParameter; from the future FeatureLocked, LockExpired
    """
    features = context.services.features
    layers = {layer.id: layer for layer in context.layers()}
    if asked.lock_id:
        check_may_hold(asked.lock_id, context)
        future = features.reset_lock(
            asked.lock_id, None if asked.lock.expiry_s is None else _duration(asked.lock.expiry_s, context)
        )
    else:
        groups = plans(_separate(queries), context, asked.version)
        targets = []
        for plan in chain.from_iterable(groups):
            context.require(Action.EDIT, plan.layer)
            targets.append(LockTarget(plan.layer.id, plan.where))
        future = features.lock_features(
            targets, _duration(asked.lock.expiry_s, context), context.actor("LockFeature"), some=asked.lock.some
        )

    def finish(lock: Lock) -> Response:
        kind = "text/xml" if asked.version in (V10, V11) else "application/xml"
        return Response(_lock_document(lock, layers, asked.version), kind)

    return Deferred(future, finish)


def check_may_hold(lock_id: str, context: Context) -> None:
    """Whether the caller may change what a lock holds, as for getting it; one on what the caller may not read is
    unknown."""
    layers = {layer.id: layer for layer in context.layers()}
    held = context.services.features.lock(lock_id)
    for layer_id in () if held is None else held.locked:
        if layer_id not in layers:
            raise InvalidParameter("lockId", f"There is no lock '{lock_id[:100]}'.")
        context.require(Action.EDIT, layers[layer_id])


def _separate(queries: Sequence[Query]) -> list[Query]:
    """A lock on several types is one on each."""
    found = []
    for query in queries:
        found += [replace(query, types=(name,)) for name in query.types] if len(query.types) > 1 else [query]
    return found


def _lock_document(lock: Lock, layers: Mapping[int, Layer], version: str) -> bytes:
    if version in (V10, V11):
        element, name, uri, prefix, kind = "ogc:FeatureId", "fid", WFS1, "ogc", OGC
    else:
        element, name, uri, prefix, kind = "fes:ResourceId", "rid", WFS2, "fes", FES2
    root = "WFS_LockFeatureResponse" if version == V10 else "LockFeatureResponse"

    def listed(tag: str, numbers: Mapping[int, IdArray]) -> str:
        ids = "".join(
            f'<{element} {name}="{attribute(layers[layer_id].feature_id(number))}"/>'
            for layer_id, array in numbers.items()
            if layer_id in layers
            for number in array.tolist()
        )
        return f"<wfs:{tag}>{ids}</wfs:{tag}>" if ids else ""

    lists = listed("FeaturesLocked", lock.locked) + listed("FeaturesNotLocked", lock.refused)
    lock_id = attribute(lock.id)
    own, inside = (f' lockId="{lock_id}"', "") if uri == WFS2 else ("", f"<wfs:LockId>{lock_id}</wfs:LockId>")
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<wfs:{root} xmlns:wfs="{uri}" xmlns:{prefix}="{kind}"{own}>'
        f"{inside}{lists}</wfs:{root}>\n"
    ).encode()


def get_feature_with_lock(
    asked: GetFeature, held: LockTerms, queries: Sequence[Query], context: Context
) -> Deferred | Response:
    """What GetFeature gives, locked: features first, as pages and limits decide which they are, then the lock.

    raises  InvalidParameter (``resultType``); TooLarge; from the future FeatureLocked
    """
    if asked.result_type is ResultType.HITS:
        raise InvalidParameter("resultType", "Features are locked by GetFeatureWithLock, not counted.")
    form = output_format(asked.output_format, asked.version)
    groups = plans(_separate(queries), context, asked.version)
    numbers = _numbers(asked, groups, context)
    if not any(len(array) for array in numbers):
        return answer(asked, groups, form, context)
    flat = list(chain.from_iterable(groups))
    targets = [
        LockTarget(plan.layer.id, FeatureIds(tuple(array.tolist())))
        for plan, array in zip(flat, numbers, strict=True)
        if len(array)
    ]

    def finish(lock: Lock) -> Response:
        kept = [_held(plan, array, lock) for plan, array in zip(flat, numbers, strict=True)]
        ordered = iter(kept)
        locked = [[next(ordered) for _ in group] for group in groups]
        # The page is in the ids already.
        whole = replace(asked, start_index=0, count=None)
        return answer(whole, locked, form, context, lock_id=lock.id)

    future = context.services.features.lock_features(
        targets, _duration(held.expiry_s, context), context.actor("GetFeatureWithLock"), some=held.some
    )
    return Deferred(future, finish)


def _numbers(asked: GetFeature, groups: Sequence[Sequence[Plan]], context: Context) -> list[IdArray]:
    """Of each plan, the features in the answer."""
    left, offset = limit_of(asked, context), asked.start_index
    found: list[IdArray] = []
    total = 0
    for plan in chain.from_iterable(groups):
        context.require(Action.EDIT, plan.layer)
        query = FeatureQuery(plan.where, plan.order, offset, min(left, MAX_EDIT_FEATURES + 1), (), False)
        arrays = [batch.ids for batch in context.services.features.features(plan.layer, query)] if left else []
        array = np.concatenate(arrays) if arrays else _NOBODY
        if offset and not len(array):
            offset = max(0, offset - context.services.features.count(plan.layer, plan.where))
        elif offset:
            offset = 0
        left -= len(array)
        total += len(array)
        if total > MAX_EDIT_FEATURES:
            raise TooLarge(f"More than {MAX_EDIT_FEATURES:,} features cannot be locked at once.", parameter="count")
        found.append(array)
    return found


def _held(plan: Plan, numbers: IdArray, lock: Lock) -> Plan:
    mine = lock.locked.get(plan.layer.id, _NOBODY)
    kept = numbers[np.isin(numbers, mine)]
    where = FeatureIds(tuple(kept.tolist()))
    return replace(plan, where=both(where))
