"""Create, replace, update and delete features (OGC 20-002r1), with If-Match against lost updates."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from thalweg.auth.policy import Action
from thalweg.domain.errors import InvalidParameter, InvalidRequest
from thalweg.domain.features import (
    KEEP,
    Delete,
    Edit,
    EditReceipt,
    Features,
    Insert,
    Layer,
    Replace,
    Update,
)
from thalweg.domain.filters import FeatureIds
from thalweg.doors.features import crs
from thalweg.doors.features.context import Context, only, parse_query
from thalweg.doors.features.errors import PreconditionFailed, UnsupportedMediaType
from thalweg.doors.features.feature_input import GivenFeature, read_feature_body
from thalweg.doors.features.item import etag, no_feature, number_of, read_feature, state_tag, version_of
from thalweg.doors.http import Deferred, Request, Response
from thalweg.encode.crs import CrsName

_FEATURE_TYPES: Final = ("application/geo+json", "application/json", "")
_PATCH_TYPES: Final = ("application/merge-patch+json", *_FEATURE_TYPES)
_MAX_TAGS: Final = 20
"""Most validators of an If-Match that are looked at."""


def create(request: Request, context: Context, layer: Layer) -> Deferred:
    """POST on items: 201 with the new feature's address and validator."""
    given = _body(request, context, layer, partial=False)
    edit = Insert(layer.id, _row(layer, given))

    def finish(receipts: list[EditReceipt]) -> Response:
        number, version = int(receipts[0].ids[0]), int(receipts[0].versions[0])
        headers = [("Location", context.item_url(layer, number)), ("ETag", _etag(context, layer, number, version))]
        return Response(b"", "", 201, headers)

    return _deferred(context, edit, finish)


def replace(request: Request, context: Context, layer: Layer, item: str) -> Deferred:
    """PUT on an item: 204. A feature that is not there is not made: its id is the server's to give."""
    given = _body(request, context, layer, partial=False)
    number, version = _precondition(request, context, layer, item)
    edit = Replace(layer.id, FeatureIds((number,)), _row(layer, given), version)
    return _changed(context, layer, item, edit)


def update(request: Request, context: Context, layer: Layer, item: str) -> Deferred:
    """PATCH on an item: 204. A merge patch: what it does not name stays, null removes."""
    given = _body(request, context, layer, partial=True)
    number, version = _precondition(request, context, layer, item)
    geometry = given.geometry if given.has_geometry else KEEP
    edit = Update(layer.id, FeatureIds((number,)), given.values, geometry, version)
    return _changed(context, layer, item, edit)


def delete(request: Request, context: Context, layer: Layer, item: str) -> Deferred:
    """DELETE on an item: 204."""
    number, version = _precondition(request, context, layer, item)
    edit = Delete(layer.id, FeatureIds((number,)), version)

    def finish(receipts: list[EditReceipt]) -> Response:
        if not len(receipts[0].ids):
            raise no_feature(layer, item)
        return Response(b"", "", 204)

    return _deferred(context, edit, finish)


def check_permitted(context: Context, layer: Layer) -> None:
    """Raises Unauthenticated, PermissionDenied."""
    context.require(Action.EDIT, layer)


def _changed(context: Context, layer: Layer, item: str, edit: Edit) -> Deferred:
    def finish(receipts: list[EditReceipt]) -> Response:
        if not len(receipts[0].ids):
            raise no_feature(layer, item)
        number, version = int(receipts[0].ids[0]), int(receipts[0].versions[0])
        return Response(b"", "", 204, [("ETag", _etag(context, layer, number, version))])

    return _deferred(context, edit, finish)


def _deferred(context: Context, edit: Edit, finish: Any) -> Deferred:
    return Deferred(context.services.features.edit([edit], context.by), finish)


def _etag(context: Context, layer: Layer, number: int, version: int) -> str:
    """Of the feature as it is given out where nothing else is asked for."""
    return etag(context, layer, number, version, variant=str(crs.DEFAULT.srid))


def _row(layer: Layer, given: GivenFeature) -> Features:
    return Features(
        np.zeros(1, np.int64),
        [given.geometry] if layer.has_geometry else [],
        {field.name: [given.values.get(field.name)] for field in layer.fields},
    )


def _body(request: Request, context: Context, layer: Layer, *, partial: bool) -> GivenFeature:
    only_known(request)
    media_type = request.header(b"content-type").partition(";")[0].strip().lower()
    known = _PATCH_TYPES if partial else _FEATURE_TYPES
    if media_type not in known:
        raise UnsupportedMediaType(
            f"A body of type '{media_type[:60]}' is not read here; use {known[0]}.", parameter="Content-Type"
        )
    if not request.body.strip():
        raise InvalidRequest("The request has no body; a GeoJSON Feature is expected.", parameter="body")
    return read_feature_body(request.body, layer, _body_crs(request, context, layer), partial=partial)


def _body_crs(request: Request, context: Context, layer: Layer) -> CrsName:
    """The header Content-Crs says another CRS than the usual one (OGC 20-002r1 clause 11)."""
    named = request.header(b"content-crs").strip()
    if not named:
        return crs.DEFAULT
    return crs.parse(named, "Content-Crs", layer, context.workspace)[0]


def only_known(request: Request) -> None:
    """A write has no query parameters."""
    if request.query:
        only(parse_query(request.query), ())


def _precondition(request: Request, context: Context, layer: Layer, item: str) -> tuple[int, int | None]:
    """The feature's number, and the version that it must still have when it is changed; None: any.

    raises  NotFound; PreconditionFailed where If-Match names another state
    """
    only_known(request)
    number = number_of(layer, item)
    wanted = request.header(b"if-match").strip()
    if not wanted:
        return number, None
    number, features = read_feature(context, layer, item)
    if wanted == "*":
        return number, None
    version = version_of(features)
    state = state_tag(context, layer, number, version)
    tags = wanted.split(",")
    if len(tags) > _MAX_TAGS:
        raise InvalidParameter("If-Match", f"If-Match names more than {_MAX_TAGS} validators.")
    for tag in tags:
        # Whatever form and CRS the client has read. A compressed answer's validator is a weak one, but names the
        # version as well.
        named = tag.strip().removeprefix("W/")
        if named.startswith('"') and named.endswith('"') and named.strip('"').rpartition(".")[0] == state:
            return number, version
    raise PreconditionFailed(f"The feature '{item[:100]}' has been changed since; read it again.", parameter="If-Match")
