"""GetFeature: from plans to documents.

A page of a layer in its natural order is the hot path: stored fragments of a few rows, joined between a head and a
tail. Everything else goes through the same service call in runs, gathered for a page, streamed beyond.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import shapely

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.features import MAX_BATCH_FEATURES, FeatureQuery, Layer
from thalweg.domain.filters import FeatureIds, GeometryValue, Literal, Spatial
from thalweg.domain.geometry import SpatialOperator
from thalweg.domain.wkb import box_bounds
from thalweg.doors.http import Response
from thalweg.doors.wfs import documents
from thalweg.doors.wfs.anchors import anchored, numbers_of
from thalweg.doors.wfs.context import Context
from thalweg.doors.wfs.documents import MOMENT, Document, Numbers
from thalweg.doors.wfs.formats import JSONP, OutputFormat
from thalweg.doors.wfs.paging import first_page, page_links
from thalweg.doors.wfs.repeated import refer_to_repeated
from thalweg.doors.wfs.request import GetFeature, ResultType
from thalweg.doors.wfs.resolve import Plan
from thalweg.encode.crs import Gml, default_order
from thalweg.encode.feature_formats import FileFormat, WriteOptions
from thalweg.encode.feature_output import FeatureFormat, Output

_CALLBACK: Final = re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*){0,5}", re.ASCII)
_NOT_IN_FILE_NAME: Final = re.compile(r"[^\w.-]+")


INLINE_FEATURES: Final = 20_000
"""What may hold more is looked through in a thread."""
CLUSTERED: Final = 4
"""So many times as close as in the layer as a whole features may lie in a box that is read at once."""


class NeedsThread(Exception):
    """What is asked for may take more than some milliseconds."""


def output_of(plan: Plan, form: FeatureFormat, context: Context, version: str) -> Output:
    """How a plan's features are written: the rule of axis orders is here.

    A CRS that is asked for decides by its spelling. Without one, coordinates are in the layer's CRS: x y in 1.0.0, in
    GML 2 and in GeoJSON, else in the authority's order.
    """
    layer, asked = plan.layer, plan.srs_name
    srid = layer.srid if asked is None else asked.srid
    if form is FeatureFormat.GEOJSON:
        swapped = False
    elif asked is None:
        swapped = form is not FeatureFormat.GML2 and default_order(version, srid)
    else:
        swapped = asked.swapped
    return Output.of(
        layer, form, context.prefix, srid=srid, swapped=swapped, fields=plan.fields, geometry=plan.geometry
    )


@dataclass(slots=True)
class Part:
    """What one plan gives to an answer.

    matched  None: not known, and not asked for
    more     whether features follow that the limit cuts off
    chunks   encoded features
    """

    plan: Plan
    output: Output
    matched: int | None
    returned: int
    more: bool
    chunks: Iterable[bytes]


def select(plan: Plan, output: Output, context: Context, offset: int, limit: int, *, count: bool) -> Part:
    """A plan's features from ``offset`` on.

    count  whether the exact number matched is wanted
    """
    features = context.services.features
    if not (plan.is_plain or context.in_thread or (is_quick(plan) and _is_small(plan, context))):
        raise NeedsThread
    if plan.is_plain and 0 < limit <= MAX_BATCH_FEATURES:
        page = features.page(plan.layer, output, offset, limit)
        total = page.state.count
        return Part(plan, output, total, page.count, offset + page.count < total, page.content)
    if limit == 0:
        matched = matched_by(plan, context) if count else None
        return Part(plan, output, matched, 0, matched is None or matched > offset, ())
    if limit <= MAX_BATCH_FEATURES:
        chosen = features.chosen(plan.layer, output, plan.query(offset, limit))
        returned, chunks = chosen.count, chosen.content
        if returned < limit and (returned or not offset):
            return Part(plan, output, offset + returned, returned, False, chunks)
        if chosen.matched is not None:
            known = chosen.matched if count and _counts(plan, context) else None
            return Part(plan, output, known, returned, offset + returned < chosen.matched, chunks)
        known = matched_by(plan, context) if count else None
        if known is not None:
            return Part(plan, output, known, returned, offset + returned < known, chunks)
        return Part(plan, output, None, returned, _follows(plan, context, offset + returned), chunks)
    if plan.where is not None and not context.in_thread:
        raise NeedsThread
    total = features.count(plan.layer, plan.where)
    returned = max(0, min(limit, total - offset))
    stream = (content for _, content in features.encoded(plan.layer, output, plan.query(offset, limit)))
    return Part(plan, output, total, returned, offset + returned < total, stream)


def is_quick(plan: Plan) -> bool:
    """Whether indexes answer it: ids, or a box, in natural order."""
    if plan.order:
        return False
    where = plan.where
    return isinstance(where, FeatureIds) or (isinstance(where, Spatial) and where.operator is SpatialOperator.BBOX)


def _is_small(plan: Plan, context: Context) -> bool:
    """Whether what indexes find is surely not much: ids, or a box in a small layer, or a small part of a large one."""
    where = plan.where
    if not (isinstance(where, Spatial) and isinstance(where.right, Literal)):
        return True
    state = context.services.features.state(plan.layer)
    value = where.right.value
    if state.count <= INLINE_FEATURES or state.extent is None or not isinstance(value, GeometryValue):
        return True
    west, south, east, north = box_bounds(value.wkb) or shapely.from_wkb(value.wkb).bounds
    share = 1.0
    for size, whole in (
        (east - west, state.extent.max_x - state.extent.min_x),
        (north - south, state.extent.max_y - state.extent.min_y),
    ):
        share *= min(1.0, size / whole) if whole else 1.0
    return share * state.count * CLUSTERED <= INLINE_FEATURES


def matched_by(plan: Plan, context: Context) -> int | None:
    """The exact number of features that a plan matches; None where the operator does not want it counted."""
    if not _counts(plan, context):
        return None
    return context.services.features.count(plan.layer, plan.where)


def _counts(plan: Plan, context: Context) -> bool:
    return plan.where is None or context.services.settings.wfs_number_matched != "unknown"


def _follows(plan: Plan, context: Context, offset: int) -> bool:
    """Whether there is any feature from ``offset`` on."""
    query = FeatureQuery(plan.where, plan.order, offset, 1, (), False)
    return next(iter(context.services.features.features(plan.layer, query)), None) is not None


# ---------------------------------------------------------------- answers


def answer(
    asked: GetFeature, groups: Sequence[Sequence[Plan]], form: OutputFormat, context: Context, *, lock_id: str = ""
) -> Response:
    """The document for a request's queries, each a group of plans; made in a thread where it may take long."""
    made = document(asked, groups, form, context, lock_id=lock_id)
    return made.response() if isinstance(made, Document) else made


def document(
    asked: GetFeature, groups: Sequence[Sequence[Plan]], form: OutputFormat, context: Context, *, lock_id: str = ""
) -> Document | Response:
    """As ``answer``; without its time where all of it is there."""
    try:
        return _answer(asked, groups, form, context, lock_id)
    except NeedsThread:
        inside = replace(context, in_thread=True)

        def make() -> Response:
            made = _answer(asked, groups, form, inside, lock_id)
            return made.response() if isinstance(made, Document) else made

        return Response(lazily(make), form.content_type)


def lazily(make: Callable[[], Response]) -> Iterator[bytes]:
    """A response's body, made only when it is first read, which the server does in a thread."""
    body = make().body
    if isinstance(body, bytes):
        yield body
    else:
        yield from body


def _answer(
    asked: GetFeature, groups: Sequence[Sequence[Plan]], form: OutputFormat, context: Context, lock_id: str
) -> Document | Response:
    if asked.result_type is ResultType.HITS:
        if not context.in_thread and any(plan.where is not None for group in groups for plan in group):
            raise NeedsThread
        return hits(asked, [[matched_by(plan, context) for plan in group] for group in groups], groups, form, context)
    if form.file is not None:
        return _file(asked, groups, form.file, form, context)
    limit = limit_of(asked, context)
    if asked.start_after is not None or asked.end_before is not None:
        asked = _at_anchor(asked, groups, form.document, context, limit)
        limit = limit_of(asked, context)
    wanted = form.features in (FeatureFormat.GML32, FeatureFormat.GEOJSON)
    parts = _parts(asked, groups, form.document, context, limit, count=wanted)
    flat = [part for group in parts for part in group]
    numbers = _numbers(asked, flat, context, limit, lock_id, links=wanted and not lock_id)
    if form.features is FeatureFormat.GEOJSON:
        return _json(asked, flat, numbers, form)
    return _gml(parts, flat, numbers, form, context)


def _at_anchor(
    asked: GetFeature, groups: Sequence[Sequence[Plan]], form: FeatureFormat, context: Context, limit: int
) -> GetFeature:
    plans = [plan for group in groups for plan in group]
    if len(plans) != 1 or plans[0].order:
        return asked
    (plan,) = plans
    if not (plan.is_plain or context.in_thread or is_quick(plan)):
        raise NeedsThread
    return anchored(asked, plan, output_of(plan, form, context, asked.version), limit, context)


def limit_of(asked: GetFeature, context: Context) -> int:
    """Features of one answer at most."""
    most = context.services.settings.wfs_max_features
    return most if asked.count is None else min(asked.count, most)


def _parts(
    asked: GetFeature,
    groups: Sequence[Sequence[Plan]],
    form: FeatureFormat,
    context: Context,
    limit: int,
    *,
    count: bool,
) -> list[list[Part]]:
    """Each plan's part: offset and limit go over the whole answer, query by query."""
    left, offset = limit, asked.start_index
    alone = sum(len(group) for group in groups) == 1
    found: list[list[Part]] = []
    for group in groups:
        parts = []
        for plan in group:
            output = output_of(plan, form, context, asked.version)
            # What comes before is passed over whole, which takes its number.
            part = select(plan, output, context, offset, left, count=count or (offset > 0 and not alone))
            left -= part.returned
            if offset:
                offset = max(0, offset - (part.matched or 0)) if not part.returned else 0
            parts.append(part)
        found.append(parts)
    return found


def _numbers(
    asked: GetFeature, parts: Sequence[Part], context: Context, limit: int, lock_id: str, *, links: bool
) -> Numbers:
    matched: int | None = 0
    for part in parts:
        matched = None if matched is None or part.matched is None else matched + part.matched
    returned = sum(part.returned for part in parts)
    if matched is None:
        more = any(part.more for part in parts)
    else:
        more = asked.start_index + returned < matched
    following, before = "", ""
    if links and (more or asked.start_index):
        first = last = None
        if len(parts) == 1:
            first, last = numbers_of(parts[0].chunks, parts[0].plan, parts[0].output)
        following, before = page_links(asked, context, limit=limit, more=more, first=first, last=last)
    return Numbers(matched, returned, following, before, lock_id)


def _gml(
    groups: Sequence[Sequence[Part]], flat: Sequence[Part], numbers: Numbers, form: OutputFormat, context: Context
) -> Document | Response:
    gml = form.gml
    layers = [part.plan.layer for part in flat]
    bindings = documents.namespaces(context, gml, layers)
    if len({layer.id for layer in layers}) < len(layers):
        bindings += ' xmlns:xlink="http://www.w3.org/1999/xlink"'
        refer_to_repeated(flat)
    if gml is Gml.V32:
        head = documents.head_20(bindings, numbers, MOMENT)
    elif gml is Gml.V31:
        head = documents.head_11(bindings, numbers.returned, numbers.lock_id, MOMENT)
    else:
        head = documents.head_10(bindings, numbers.lock_id)
    if gml is Gml.V32 and len(groups) > 1:
        return _response(_nested(head, groups), form)
    return _response(_flat(head, flat), form)


def _flat(head: bytes, parts: Sequence[Part]) -> list[Iterable[bytes]]:
    return [(head,), *(part.chunks for part in parts), (documents.TAIL,)]


def _nested(head: bytes, groups: Sequence[Sequence[Part]]) -> list[Iterable[bytes]]:
    """A collection for each query (OGC 09-025r2 clause 11.3.3.5)."""
    found: list[Iterable[bytes]] = [(head,)]
    for group in groups:
        matched: int | None = 0
        for part in group:
            matched = None if matched is None or part.matched is None else matched + part.matched
        found.append((documents.inner_20(Numbers(matched, sum(part.returned for part in group)), MOMENT),))
        found += [part.chunks for part in group]
        found.append((documents.INNER_TAIL,))
    found.append((documents.TAIL,))
    return found


def _response(pieces: Sequence[Iterable[bytes]], form: OutputFormat) -> Document | Response:
    """Whole where all is there already, streamed else.

    pieces  lists of what is made here, in which MOMENT may stand, and parts' chunks
    """
    if all(isinstance(piece, Sequence) for piece in pieces):
        return Document.of(chain.from_iterable(pieces), form.content_type)
    return Response(_gathered(chain.from_iterable(map(_dated, pieces))), form.content_type)


def _dated(piece: Iterable[bytes]) -> Iterable[bytes]:
    return [documents.dated(text) for text in piece] if isinstance(piece, tuple) else piece


_BLOCK_BYTES: Final = 256 * 1024


def _gathered(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Chunks in blocks of some size, so that small ones do not cost a write each."""
    held: list[bytes] = []
    size = 0
    for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        if size >= _BLOCK_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


# ---------------------------------------------------------------- GeoJSON


def _json(asked: GetFeature, parts: Sequence[Part], numbers: Numbers, form: OutputFormat) -> Document | Response:
    srids = {
        part.plan.layer.srid if part.plan.srs_name is None else part.plan.srs_name.srid
        for part in parts
        if part.plan.layer.has_geometry
    }
    tail = documents.json_tail(numbers, srids.pop() if len(srids) == 1 else None, MOMENT)
    before, after = callback(asked) if form is JSONP else (b"", b"")
    content: list[Iterable[bytes]] = [(before + documents.JSON_HEAD,)]
    if all(isinstance(part.chunks, Sequence) for part in parts):
        joined = b"".join([chunk for part in parts for chunk in part.chunks])
        content += [(joined[:-1], tail, after)]
    else:
        content += [_without_last_comma(chunk for part in parts for chunk in part.chunks), (tail, after)]
    return _response(content, form)


def _without_last_comma(chunks: Iterable[bytes]) -> Iterator[bytes]:
    held = b""
    for chunk in chunks:
        if chunk:
            if held:
                yield held
            held = chunk
    yield held[:-1]


def callback(asked: GetFeature) -> tuple[bytes, bytes]:
    """What stands around JSONP. Raises InvalidParameter for what is no name of a function."""
    name = asked.options.get("callback", "parseResponse")
    if not _CALLBACK.fullmatch(name):
        raise InvalidParameter("format_options", f"'{name[:60]}' is no name of a function for the callback.")
    return b"/**/" + name.encode() + b"(", b")"


# ---------------------------------------------------------------- numbers alone, files


def hits(
    asked: GetFeature,
    matched: Sequence[Sequence[int | None]],
    groups: Sequence[Sequence[Plan]],
    form: OutputFormat,
    context: Context,
) -> Response:
    """The number of features without any (OGC 09-025r2 clause 7.6.3.6, 04-094 clause 9.2)."""
    total: int | None = 0
    for number in (number for group in matched for number in group):
        total = None if total is None or number is None else total + number
    layers = [plan.layer for group in groups for plan in group]
    return hits_document(asked, total, layers, form, context)


def hits_document(
    asked: GetFeature, total: int | None, layers: Sequence[Layer], form: OutputFormat, context: Context
) -> Response:
    """The same from a number."""
    following = first_page(asked, context, asked.count) if asked.count else ""
    numbers = Numbers(total, 0, following)
    if form.features is FeatureFormat.GEOJSON:
        srid = next((layer.srid for layer in layers if layer.has_geometry), None)
        before, after = callback(asked) if form is JSONP else (b"", b"")
        body = before + documents.JSON_HEAD + documents.json_tail(numbers, srid) + after
        return Response(body, form.content_type)
    gml = Gml.V32 if form.features is None else form.gml
    bindings = documents.namespaces(context, gml, layers)
    if gml is Gml.V32:
        head = documents.head_20(bindings, numbers)
    elif gml is Gml.V31:
        head = documents.head_11(bindings, total or 0)
    else:
        head = documents.head_10(bindings)
    content_type = form.content_type if form.features is not None else "application/gml+xml; version=3.2"
    return Response(head + documents.TAIL, content_type)


def _file(
    asked: GetFeature, groups: Sequence[Sequence[Plan]], file: FileFormat, form: OutputFormat, context: Context
) -> Response:
    """A file by ``encode/feature_formats``."""
    plans = [plan for group in groups for plan in group]
    if len(plans) != 1:
        raise InvalidParameter("outputFormat", f"'{form.names[0]}' holds one type; {len(plans)} are asked for.")
    plan = plans[0]
    srid = plan.layer.srid if plan.srs_name is None else plan.srs_name.srid
    if file.fixed_srid is not None:
        srid = file.fixed_srid
    query = plan.query(asked.start_index, limit_of(asked, context))
    batches = context.services.features.features(plan.layer, query, srid=srid)
    name = _NOT_IN_FILE_NAME.sub("_", asked.options.get("filename", "").rpartition(".")[0] or plan.layer.name)[:100]
    options = WriteOptions(srid, plan.fields, plan.geometry, name, asked.options)
    headers = [("Content-Disposition", f'attachment; filename="{name}.{file.extension}"')]
    return Response(file.write(plan.layer, batches, options), form.content_type, headers=headers)
