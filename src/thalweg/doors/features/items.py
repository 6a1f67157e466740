"""``/collections/{id}/items``: pages of features as GeoJSON.

What a request leads to is remembered by its text, so that a plain page is a look-up, one or two statements and a join
of stored bytes. Links to further pages name the feature they begin after, not a number of features to skip: what others
insert or delete meanwhile makes no feature come twice or get lost.

Where features and links are made in one go, the answer is bytes; where it may take longer, it is an iterator that the
server pulls in a thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from threading import Lock
from typing import Any, Final
from urllib.parse import quote

import orjson
from xxhash import xxh3_64_hexdigest

from thalweg.domain.features import FeatureQuery, Features, Layer, LayerState, SortKey
from thalweg.domain.filters import FEATURE_ID, And, Filter, NumberRange
from thalweg.domain.time import format_instant
from thalweg.doors.features.context import GEOJSON, Context, Format, Link, link, parse_query
from thalweg.doors.features.query import (
    ItemsQuery,
    beyond,
    cursor_after,
    cursor_before,
    read_items,
    sorted_cursor,
)
from thalweg.doors.http import Request, Response
from thalweg.encode.feature_output import FeatureFormat, Output

HEAD: Final = b'{"type":"FeatureCollection","features":['
INLINE_FEATURES: Final = 1_000
"""Plain pages up to this are made on the event loop, some milliseconds at most."""
PLANS: Final = 4_096
"""Most requests remembered."""
_PLAN_BYTES: Final = 2_000
"""Longest request that is remembered."""
_MARK: Final = "CURSOR-OF-THE-NEXT-PAGE"
_FEATURE: Final = b'{"type":"Feature","id":"'


@dataclass(frozen=True, slots=True)
class Plan:
    """What a request leads to, as long as the layer stays as it is.

    workspace_generation  of the metadata, which list the CRSs to choose from
    tag      of the request in validators
    links    every page has, as JSON without the closing bracket
    next_link  around the cursor of the page after, as JSON
    """

    layer: Layer
    workspace_generation: int
    query: ItemsQuery
    output: Output
    tag: str
    headers: tuple[tuple[str, str], ...]
    links: bytes = b""
    next_link: tuple[bytes, bytes] = (b"", b"")


class Plans:
    """Requests remembered, the oldest forgotten first."""

    def __init__(self) -> None:
        self._plans: dict[tuple[str, str, bytes, str], Plan] = {}
        self._lock = Lock()

    def get(self, key: tuple[str, str, bytes, str]) -> Plan | None:
        return self._plans.get(key)

    def put(self, key: tuple[str, str, bytes, str], plan: Plan) -> None:
        if sum(len(part) for part in key) > _PLAN_BYTES:
            return
        with self._lock:
            while len(self._plans) >= PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[key] = plan


_plans: Final = Plans()


def plan_of(request: Request, context: Context, layer: Layer) -> Plan:
    """The plan of a request. Raises InvalidParameter."""
    key = (request.base_url, request.path, request.query, request.header(b"accept"))
    known = _plans.get(key)
    # The same object: the store gives out another as soon as anything of a layer changes.
    generation = context.workspace.generation
    if known is not None and known.layer is layer and known.workspace_generation == generation:
        return known
    parameters = parse_query(request.query)
    query = read_items(parameters, request, layer, context.workspace, context.services.settings)
    output = Output.of(
        layer,
        FeatureFormat.GEOJSON,
        context.services.features.prefix(layer),
        srid=query.crs.srid,
        swapped=query.crs.swapped,
        fields=query.fields,
        geometry=query.geometry,
    )
    tag = xxh3_64_hexdigest(b"\0".join(part.encode() if isinstance(part, str) else part for part in key))
    headers = (("Content-Crs", f"<{query.crs_uri}>"), ("Vary", "Accept"))
    plan = Plan(layer, generation, query, output, tag, headers)
    if query.is_plain and query.format is Format.JSON:
        plan = _with_links(context, plan)
    _plans.put(key, plan)
    return plan


def _with_links(context: Context, plan: Plan) -> Plan:
    """The plan with what is the same in the links of each of its pages."""
    written = orjson.dumps(page_link(context, plan, "next", cursor=_MARK))
    before, after = written.split(_MARK.encode())
    return replace(plan, links=orjson.dumps(base_links(context, plan))[:-1], next_link=(before, after))


def get_items(request: Request, context: Context, plan: Plan) -> Response:
    """A page. The validator stands for the state of the layer's data and metadata and the request."""
    query, layer = plan.query, plan.layer
    service = context.services.features
    if query.is_plain and query.limit <= INLINE_FEATURES:
        known = request.header(b"if-none-match")
        if known:
            etag = items_etag(context, plan, service.state(layer))
            if etag in known:
                return Response(b"", GEOJSON, headers=list(plan.headers), etag=etag)
        page = service.page(layer, plan.output, query.offset, query.limit)
        body = _plain_page(context, plan, page.state, page.count, list(page.content))
        return Response(body, GEOJSON, headers=list(plan.headers), etag=items_etag(context, plan, page.state))
    state = service.state(layer)
    etag = items_etag(context, plan, state)
    if etag in request.header(b"if-none-match"):
        return Response(b"", GEOJSON, headers=list(plan.headers), etag=etag)
    body_parts = _streamed(context, plan, state)
    return Response(body_parts, GEOJSON, headers=list(plan.headers), etag=etag)


def items_etag(context: Context, plan: Plan, state: LayerState) -> str:
    """Strong: names the epoch, the layer, both its generations and the request."""
    epoch = xxh3_64_hexdigest(context.services.catalogue.epoch.encode())
    return f'"{epoch}.{plan.layer.id}.{plan.layer.generation}.{state.generation}.{plan.tag}"'


def _plain_page(context: Context, plan: Plan, state: LayerState, count: int, content: list[bytes]) -> bytes:
    query, layer = plan.query, plan.layer
    links = [plan.links]
    if count:
        if query.offset + count < state.count:
            before, after = plan.next_link
            links.append(b"%b%b%b" % (before, cursor_after(_last_number(layer, content)).encode(), after))
        if query.offset:
            offset = max(0, query.offset - query.limit)
            links.append(orjson.dumps(page_link(context, plan, "prev", offset=offset)))
        content[-1] = content[-1][:-1]
    content.insert(0, HEAD)
    content.append(tail(b",".join(links) + b"]", count, state.count, state))
    return b"".join(content)


def _last_number(layer: Layer, content: list[bytes]) -> int:
    """The number of the last feature, from its bytes: a quote within a text is escaped, so that nothing else looks like
    the beginning of a feature."""
    beginning = _FEATURE + orjson.dumps(layer.id_prefix)[1:-1] + b"."
    for piece in reversed(content):
        at = piece.rfind(beginning)
        if at >= 0:
            at += len(beginning)
            return int(piece[at : piece.index(b'"', at)])
    raise ValueError("no feature in a page that has some")


def tail(links: bytes, returned: int, matched: int, state: LayerState) -> bytes:
    """What follows the features, with the links as JSON. ``timeStamp`` is the time since when the page is what it is,
    that of the last change of the collection: the same state has the same bytes, which the validator promises."""
    stamp = _stamp(state.changed_us)
    return b'],"numberMatched":%d,"numberReturned":%d%b,"links":%b}' % (matched, returned, stamp, links)


@lru_cache(maxsize=1_024)
def _stamp(changed_us: int) -> bytes:
    return b',"timeStamp":"%b"' % format_instant(changed_us).encode() if changed_us else b""


def base_links(context: Context, plan: Plan) -> list[Link]:
    """Links that every page has: itself, its HTML, its collection."""
    cursor, offset = _cursor_text(plan), plan.query.offset
    this = _url(context, plan, "json", cursor, offset)
    page = _url(context, plan, "html", cursor, offset)
    self_link, other = link(this, "self", GEOJSON, "This page"), link(page, "alternate", "text/html", "As HTML")
    if plan.query.format is Format.HTML:
        self_link["rel"], other["rel"] = "alternate", "self"
    return [self_link, other, link(context.collection_url(plan.layer), "collection", title="The collection")]


def page_link(context: Context, plan: Plan, rel: str, *, cursor: str | None = None, offset: int = 0) -> Link:
    """A link to another page, in the same format."""
    if plan.query.format is Format.HTML:
        return link(_url(context, plan, "html", cursor, offset), rel, "text/html", rel)
    return link(_url(context, plan, "json", cursor, offset), rel, GEOJSON, f"{rel} page")


def _url(context: Context, plan: Plan, form: str, cursor: str | None, offset: int) -> str:
    parts = [f"f={form}"]
    if plan.query.kept:
        parts.append(plan.query.kept)
    if cursor:
        parts.append(f"cursor={quote(cursor, safe='')}")
    elif offset:
        parts.append(f"offset={offset}")
    return f"{context.items_url(plan.layer)}?{'&'.join(parts)}"


def _cursor_text(plan: Plan) -> str:
    cursor = plan.query.cursor
    if cursor is None:
        return ""
    if plan.query.order:
        return sorted_cursor(cursor.number, cursor.values)
    return cursor_before(cursor.number) if cursor.backward else cursor_after(cursor.number)


# ---------------------------------------------------------------- other pages


@dataclass(frozen=True, slots=True)
class ItemsPage:
    """Features of a page and what is known around it; for pages whose links need the features' numbers and values.

    features  of the page, in the CRS of the layer, in order; batches
    """

    features: list[Features]
    count: int
    matched: int
    links: list[Link]


def read_page(context: Context, plan: Plan, state: LayerState) -> ItemsPage:
    """The features of any page, with its links."""
    query, layer = plan.query, plan.layer
    service = context.services.features
    cursor = query.cursor
    where = query.where
    if cursor is not None:
        where = _and(where, beyond(cursor, query.order, layer))
    order = query.order
    if cursor is not None and cursor.backward:
        order = (SortKey(FEATURE_ID, descending=True),)
    wanted = query.fields
    if wanted is not None:
        wanted = tuple(dict.fromkeys([*wanted, *(key.name for key in query.order if key.name != FEATURE_ID)]))
    # One more than is shown says whether a page follows.
    asked = FeatureQuery(where, order, query.offset, query.limit + 1, wanted, query.geometry)
    batches = list(service.features(layer, asked))
    found = sum(map(len, batches))
    more = found > query.limit
    batches = _cut(batches, query.limit)
    if cursor is not None and cursor.backward:
        batches = [batch.take(range(len(batch) - 1, -1, -1)) for batch in reversed(batches)]
    count = sum(map(len, batches))
    if query.where is None:
        matched = state.count
    elif cursor is None and not more and (count or not query.offset):
        matched = query.offset + count
    else:
        matched = service.count(layer, query.where)
    return ItemsPage(batches, count, matched, _links_around(context, plan, batches, more))


def _cut(batches: list[Features], limit: int) -> list[Features]:
    kept: list[Features] = []
    for batch in batches:
        if limit <= 0:
            break
        kept.append(batch if len(batch) <= limit else batch.take(range(limit)))
        limit -= len(batch)
    return kept


def _links_around(context: Context, plan: Plan, batches: list[Features], more: bool) -> list[Link]:
    query = plan.query
    links = base_links(context, plan)
    if not batches:
        return links
    first, last = int(batches[0].ids[0]), int(batches[-1].ids[-1])
    backward = query.cursor is not None and query.cursor.backward
    if query.order:
        if more:
            values = tuple(last if key.name == FEATURE_ID else batches[-1].columns[key.name][-1] for key in query.order)
            text = sorted_cursor(last, values)
            if text:
                links.append(page_link(context, plan, "next", cursor=text))
            else:
                links.append(page_link(context, plan, "next", offset=query.offset + query.limit))
        if query.offset:
            links.append(page_link(context, plan, "prev", offset=max(0, query.offset - query.limit)))
        return links
    # Back from a page there is always the one it was come from.
    if more or backward:
        links.append(page_link(context, plan, "next", cursor=cursor_after(last)))
    if (backward and more) or (query.cursor is not None and not backward):
        links.append(page_link(context, plan, "prev", cursor=cursor_before(first)))
    elif query.offset:
        links.append(page_link(context, plan, "prev", offset=max(0, query.offset - query.limit)))
    return links


def _streamed(context: Context, plan: Plan, state: LayerState) -> Iterator[bytes]:
    """The document in pieces."""
    query, layer = plan.query, plan.layer
    service = context.services.features
    if not query.order and not (query.cursor is not None and query.cursor.backward):
        yield from _natural(context, plan, state)
        return
    page = read_page(context, plan, state)
    yield HEAD
    for number, batch in enumerate(page.features):
        content = service.encode(layer, batch, plan.output).content
        yield content[:-1] if number == len(page.features) - 1 else content
    yield tail(orjson.dumps(page.links), page.count, page.matched, state)


def _natural(context: Context, plan: Plan, state: LayerState) -> Iterator[bytes]:
    """A page in natural order: stored bytes as they come, memory bounded."""
    query, layer = plan.query, plan.layer
    service = context.services.features
    where = query.where
    if query.cursor is not None:
        where = _and(where, beyond(query.cursor, (), layer))
    yield HEAD
    count = 0
    held: bytes | None = None
    first: int | None = None
    for found, content in service.encoded(layer, plan.output, FeatureQuery(where, (), query.offset, query.limit)):
        if held is not None:
            yield held
        if first is None:
            first = _first_number(layer, content)
        count += found
        held = content
    links = base_links(context, plan)
    more = False
    if held is not None:
        last = _last_number(layer, [held])
        yield held[:-1]
        if count == query.limit:
            following = _and(query.where, NumberRange(last, None))
            rest = service.features(layer, FeatureQuery(following, (), 0, 1, (), geometry=False))
            more = any(len(batch) for batch in rest)
        if more:
            links.append(page_link(context, plan, "next", cursor=cursor_after(last)))
        if query.cursor is not None and first is not None:
            links.append(page_link(context, plan, "prev", cursor=cursor_before(first)))
    if query.offset and query.cursor is None:
        links.append(page_link(context, plan, "prev", offset=max(0, query.offset - query.limit)))
    if query.where is None:
        matched = state.count
    elif query.cursor is None and not more and (count or not query.offset):
        matched = query.offset + count
    else:
        matched = service.count(layer, query.where)
    yield tail(orjson.dumps(links), count, matched, state)


def _first_number(layer: Layer, content: bytes) -> int:
    at = len(_FEATURE) + len(orjson.dumps(layer.id_prefix)) - 2 + 1
    return int(content[at : content.index(b'"', at)])


def _and(first: Filter | None, second: Filter) -> Filter:
    return second if first is None else And((first, second))


def rows_of(batches: list[Features]) -> Iterator[tuple[int, dict[str, Any], bytes | None]]:
    """Number, values and geometry of each feature."""
    for batch in batches:
        for row in range(len(batch)):
            values = {name: column[row] for name, column in batch.columns.items()}
            yield int(batch.ids[row]), values, batch.geometries[row] if batch.geometries else None
