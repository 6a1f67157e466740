"""From a request to a function: path, method, caller, format."""

from __future__ import annotations

from dataclasses import replace

from thalweg.domain.features import Layer
from thalweg.doors.features import collections, edit, html, openapi, schemas
from thalweg.doors.features.context import (
    OPENAPI,
    SCHEMA_JSON,
    Context,
    Format,
    choose_format,
    document,
    only,
    parse_query,
)
from thalweg.doors.features.errors import MethodNotAllowed
from thalweg.doors.features.item import etag, get_item, item_crs, read_feature, version_of
from thalweg.doors.features.items import get_items, items_etag, plan_of
from thalweg.doors.features.paths import Kind, Target, find, methods_of, operation
from thalweg.doors.http import Deferred, Request, Response
from thalweg.services.services import Services


def handle(request: Request, services: Services) -> Response | Deferred:
    """Answer one request."""
    principal = request.principal
    # What the caller may not read is not in it: all that follows, errors too, is made of this and the layers asked for
    # with it.
    catalogue = services.catalogue.seen(request.workspace, principal)
    target = find(request.path)
    if request.method not in methods_of(target):
        raise MethodNotAllowed(request.method, methods_of(target))
    by = request.actor("features", operation(request.method, request.path))
    context = Context(services, catalogue, principal, by, request.base_url, Format.JSON)
    if target.kind is Kind.ITEMS and request.method == "GET":
        return _items(request, context, target)
    if target.collection:
        return _of_collection(request, context, target, context.layer(target.collection))
    parameters = parse_query(request.query)
    only(parameters, ("f",))
    context = replace(context, format=choose_format(parameters, request))
    as_html = context.format is Format.HTML
    match target.kind:
        case Kind.LANDING:
            return html.landing_page(context) if as_html else document(context, collections.landing(context))
        case Kind.CONFORMANCE:
            return html.conformance_page(context) if as_html else document(context, collections.conformance(context))
        case Kind.API:
            return html.api_page(context) if as_html else document(context, openapi.definition(context), OPENAPI)
        case Kind.FUNCTIONS:
            return html.functions_page(context) if as_html else document(context, schemas.functions(context))
    return html.collections_page(context) if as_html else document(context, collections.collections(context))


def _items(request: Request, context: Context, target: Target) -> Response:
    plan = plan_of(request, context, context.layer(target.collection))
    if plan.query.format is Format.JSON:
        return get_items(request, context, plan)
    context = replace(context, format=Format.HTML)
    state = context.services.features.state(plan.layer)
    return html.items_page(context, plan, state, items_etag(context, plan, state))


def _of_collection(request: Request, context: Context, target: Target, layer: Layer) -> Response | Deferred:
    if request.method != "GET":
        return _write(request, context, target, layer)
    parameters = parse_query(request.query)
    context = replace(context, format=choose_format(parameters, request))
    if target.kind is Kind.ITEM:
        return _item(context, target, layer, parameters)
    only(parameters, ("f",))
    as_html = context.format is Format.HTML
    match target.kind:
        case Kind.COLLECTION:
            state = context.services.features.state(layer)
            if as_html:
                return html.collection_page(context, layer, state)
            return document(context, collections.collection(context, layer, state))
        case Kind.QUERYABLES:
            if as_html:
                return html.schema_page(context, layer, "queryables", "What filters may name")
            return document(context, schemas.queryables(context, layer), SCHEMA_JSON)
        case Kind.SORTABLES:
            if as_html:
                return html.schema_page(context, layer, "sortables", "What can be sorted by")
            return document(context, schemas.sortables(context, layer), SCHEMA_JSON)
    if as_html:
        return html.schema_page(context, layer, "schema", "Schema")
    return document(context, schemas.schema(context, layer), SCHEMA_JSON)


def _item(context: Context, target: Target, layer: Layer, parameters: dict[str, str]) -> Response:
    if context.format is Format.JSON:
        return get_item(context, layer, target.item, parameters)
    item_crs(context, layer, parameters)
    number, features = read_feature(context, layer, target.item)
    tag = etag(context, layer, number, version_of(features), variant="html")
    return html.item_page(context, layer, number, features, tag)


def _write(request: Request, context: Context, target: Target, layer: Layer) -> Deferred:
    edit.check_permitted(context, layer)
    match request.method:
        case "POST":
            return edit.create(request, context, layer)
        case "PUT":
            return edit.replace(request, context, layer, target.item)
        case "PATCH":
            return edit.update(request, context, layer, target.item)
    return edit.delete(request, context, layer, target.item)
