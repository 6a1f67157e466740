"""Transaction (OGC 02-058 clause 11, 04-094 clause 12, 09-025r2 clause 15): all of its actions, or none.

Values are read and checked action by action, so that an error can name the action's handle; the edits then go to the
store together, which does them in one transaction, in their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from thalweg.auth.policy import Action
from thalweg.domain.errors import InvalidParameter, MissingParameter, NotSupported, ThalwegError
from thalweg.domain.features import (
    GML_CODE_SPACE,
    GML_IDENTIFIER,
    KEEP,
    Delete,
    Edit,
    EditReceipt,
    Field,
    Insert,
    Layer,
    OnConflict,
    Replace,
    Update,
    Value,
)
from thalweg.domain.filters import Filter
from thalweg.doors.http import Deferred, Response
from thalweg.doors.wfs import request as requests
from thalweg.doors.wfs.context import Context
from thalweg.doors.wfs.errors import InvalidValue
from thalweg.doors.wfs.feature_input import (
    Rows,
    feature_id,
    features_in,
    geometry_of,
    layer_of,
    property_to_change,
    read_feature,
    value_of,
)
from thalweg.doors.wfs.locking import check_may_hold
from thalweg.doors.wfs.request import Condition, Transaction, TypeName
from thalweg.doors.wfs.resolve import check_ids, parse_condition, plans
from thalweg.doors.wfs.transaction_response import Done, response
from thalweg.doors.wfs.versions import V11
from thalweg.services.filter_crs import bind_filter

_CONFLICT: Final = {
    "GenerateNew": OnConflict.REFUSE,
    "UseExisting": OnConflict.REFUSE,
    "ReplaceDuplicate": OnConflict.REPLACE,
}


@dataclass(slots=True)
class _Prepared:
    """An action's edits, with what the answer has to say of them."""

    handle: str
    layer: Layer
    edit: Edit


def transaction(asked: Transaction, context: Context) -> Deferred | Response:
    """Do all that is asked.

    raises  Unauthenticated, PermissionDenied; InvalidValue, InvalidParameter and others, their parameter the handle of
            the action at fault where it has one
    """
    prepared: list[_Prepared] = []
    for change in asked.changes:
        try:
            prepared += _prepare(change, asked.version, context)
        except ThalwegError as error:
            if change.handle and not isinstance(error, MissingParameter):
                error.parameter = change.handle
            raise
    if not prepared:
        return _give_up_lock(asked, context) if asked.lock_id else response([], asked.version)

    def finish(receipts: list[EditReceipt]) -> Response:
        done = [Done(item.handle, item.layer, receipt) for item, receipt in zip(prepared, receipts, strict=True)]
        return response(done, asked.version)

    future = context.services.features.edit(
        [item.edit for item in prepared],
        context.actor("Transaction"),
        lock_id=asked.lock_id,
        release=asked.release_all,
    )
    return Deferred(_in_words_of_transactions(future), finish)


def _give_up_lock(asked: Transaction, context: Context) -> Deferred | Response:
    """A transaction that changes nothing releases a lock (OGC 09-025r2 clause 15.2.3.1.2).

    With SOME it releases what it changed: nothing.
    """
    check_may_hold(asked.lock_id, context)
    if not asked.release_all:
        return response([], asked.version)

    def finish(_: None) -> Response:
        return response([], asked.version)

    return Deferred(context.services.features.release_lock(asked.lock_id), finish)


def _in_words_of_transactions(future: Future[list[EditReceipt]]) -> Future[list[EditReceipt]]:
    """The same future, its errors about values called so."""
    told: Future[list[EditReceipt]] = Future()

    def pass_on(done: Future[list[EditReceipt]]) -> None:
        error = done.exception()
        if error is None:
            told.set_result(done.result())
        elif type(error) is InvalidParameter and error.parameter != "lockId":
            told.set_exception(InvalidValue(error.message, parameter=error.parameter))
        else:
            told.set_exception(error)

    future.add_done_callback(pass_on)
    return told


def _prepare(change: requests.Change, version: str, context: Context) -> Iterable[_Prepared]:
    match change:
        case requests.Insert():
            return _insert(change, version, context)
        case requests.Update():
            return [_update(change, version, context)]
        case requests.Replace():
            return [_replace(change, version, context)]
        case requests.Delete():
            return _delete(change, version, context)
        case requests.Native():
            if not change.safe_to_ignore:
                raise NotSupported(
                    f"The native action of '{change.vendor[:80]}' is not known here, and not safe to ignore.",
                    parameter="Native",
                )
            return []
    raise TypeError(type(change).__name__)


def _insert(change: requests.Insert, version: str, context: Context) -> list[_Prepared]:
    """One edit for each run of features of the same type, so that ids come back in the order of the request."""
    found: list[tuple[Layer, Rows]] = []
    keeps_ids = change.id_gen != "GenerateNew" and version == V11
    for element in features_in(change.elements):
        layer = layer_of(element, context)
        if not found or found[-1][0] is not layer:
            context.require(Action.EDIT, layer)
            found.append((layer, Rows(layer)))
        geometry, values = read_feature(element, layer, change.srs_name, version)
        _check_required(layer, values)
        found[-1][1].add(_number(element, layer) if keeps_ids else 0, geometry, values)
    if not found:
        raise InvalidValue("An Insert holds no feature.", parameter="Insert")
    conflict = _CONFLICT[change.id_gen]
    return [_Prepared(change.handle, layer, Insert(layer.id, rows.batch(), conflict)) for layer, rows in found]


def _number(element: object, layer: Layer) -> int:
    text = feature_id(element)  # type: ignore[arg-type]
    number = layer.feature_number(text)
    if number is None:
        raise InvalidValue(
            f"'{text[:120]}' is no id of the type '{layer.name}', which are {layer.id_prefix}.NUMBER.", parameter="id"
        )
    return number


def _check_required(layer: Layer, values: dict[str, Value]) -> None:
    for field in layer.fields:
        if field.required and values.get(field.name) is None:
            raise InvalidValue(f"The property '{field.name}' is mandatory.", parameter=field.name)


def _update(change: requests.Update, version: str, context: Context) -> _Prepared:
    layer = _layer(change.type, context)
    values: dict[str, Value] = {}
    geometry: object = KEEP
    for name, element in change.changes:
        found = property_to_change(name, layer)
        if isinstance(found, Field):
            values[found.name] = value_of(element, found)
            if found.name == GML_IDENTIFIER and values[found.name] is None:
                values[GML_CODE_SPACE] = None
            if found.required and values[found.name] is None:
                raise InvalidValue(f"The property '{found.name}' is mandatory.", parameter=found.name)
        else:
            geometry = geometry_of(element, layer, change.srs_name, version)
    where = None if change.condition is None else _where(change.condition, layer, version, context)
    return _Prepared(change.handle, layer, Update(layer.id, where, values, geometry))  # type: ignore[arg-type]


def _replace(change: requests.Replace, version: str, context: Context) -> _Prepared:
    layer = layer_of(change.element, context)
    context.require(Action.EDIT, layer)
    geometry, values = read_feature(change.element, layer, change.srs_name, version)
    _check_required(layer, values)
    rows = Rows(layer)
    rows.add(0, geometry, values)
    where = _where(change.condition, layer, version, context)
    return _Prepared(change.handle, layer, Replace(layer.id, where, rows.batch()))


def _delete(change: requests.Delete, version: str, context: Context) -> list[_Prepared]:
    if change.type.name:
        layer = _layer(change.type, context)
        where = _where(change.condition, layer, version, context)
        return [_Prepared(change.handle, layer, Delete(layer.id, where))]
    # Ids alone, as pairs may say it.
    (group,) = plans([requests.Query((), condition=change.condition)], context, version)
    for plan in group:
        context.require(Action.EDIT, plan.layer)
    return [_Prepared(change.handle, plan.layer, Delete(plan.layer.id, plan.where)) for plan in group]


def _layer(name: TypeName, context: Context) -> Layer:
    try:
        layer = context.layer(name, name.text[:200])
    except InvalidParameter as error:
        raise InvalidValue(error.message, parameter="typeName") from None
    context.require(Action.EDIT, layer)
    return layer


def _where(condition: Condition, layer: Layer, version: str, context: Context) -> Filter:
    parsed = parse_condition(condition, layer, version)
    check_ids(parsed, [layer], context)
    return bind_filter(parsed, layer)
