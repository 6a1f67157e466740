"""GetPropertyValue (OGC 09-025r2 clause 10): the values of one property of what a query selects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.features import Features, Field
from thalweg.domain.filters import BOUNDS, FEATURE_ID, GEOMETRY, Filter, IsNull, Not, Property, both
from thalweg.doors.http import Response
from thalweg.doors.wfs import documents
from thalweg.doors.wfs.context import Context
from thalweg.doors.wfs.documents import Numbers
from thalweg.doors.wfs.formats import GML32, output_format
from thalweg.doors.wfs.get_feature import lazily, matched_by, output_of
from thalweg.doors.wfs.paging import first_page, page_links
from thalweg.doors.wfs.request import GetPropertyValue, ResultType
from thalweg.doors.wfs.resolve import Plan, property_of
from thalweg.encode.crs import Gml
from thalweg.encode.feature_output import FeatureFormat, Output

_TAIL: Final = b"</wfs:ValueCollection>\n"


def get_property_value(asked: GetPropertyValue, plans: Sequence[Plan], context: Context) -> Response:
    """Values of features that have one; numbers count values.

    plans   of the query: one, or one for each type that ids belong to
    raises  InvalidParameter (``valueReference``) for an unknown property
    """
    if output_format(asked.output_format, asked.version) is not GML32:
        raise InvalidParameter("outputFormat", f"Values are given as '{GML32.names[0]}' only.")
    wanted = [_narrowed(plan, asked.value_reference) for plan in plans]
    inside = replace(context, in_thread=True)
    return Response(lazily(lambda: _document(asked, wanted, inside)), GML32.content_type)


def _narrowed(plan: Plan, reference: str) -> tuple[Plan, Field | str]:
    """The plan for features that have the property, and the property."""
    found = property_of(reference, plan.layer, "valueReference")
    condition: Filter | None = None
    if found == BOUNDS:
        raise InvalidParameter("valueReference", "gml:boundedBy is not written here.")
    if isinstance(found, Field):
        condition = Not(IsNull(Property(found.name)))
        plan = replace(plan, fields=(found.name,), geometry=False)
    elif found == GEOMETRY:
        condition = Not(IsNull(Property(plan.layer.geometry_field)))
        plan = replace(plan, fields=(), geometry=True)
    else:
        plan = replace(plan, fields=(), geometry=False)
    return replace(plan, where=both(plan.where, condition)), found


def _document(asked: GetPropertyValue, wanted: Sequence[tuple[Plan, Field | str]], context: Context) -> Response:
    most = context.services.settings.wfs_max_features
    limit = most if asked.count is None else min(asked.count, most)
    layers = [plan.layer for plan, _ in wanted]
    bindings = documents.namespaces(context, Gml.V32, layers)
    counts = [0 if prop == "" else matched_by(plan, context) for plan, prop in wanted]
    matched = None if None in counts else sum(number for number in counts if number is not None)
    if asked.result_type is ResultType.HITS:
        following = first_page(asked, context, asked.count) if asked.count else ""
        return Response(_head(bindings, Numbers(matched, 0, following)) + _TAIL, GML32.content_type)
    values = _paged(wanted, counts, asked, limit, context)
    if matched is None:
        found = list(values)
        returned, more = len(found), len(found) == limit
        values = iter(found)
    else:
        returned = max(0, min(limit, matched - asked.start_index))
        more = asked.start_index + returned < matched
    following, before = page_links(asked, context, limit=limit, more=more)
    head = _head(bindings, Numbers(matched, returned, following, before))
    members = (b"<wfs:member>" + value + b"</wfs:member>" for value in values)
    return Response(_joined(chain((head,), members, (_TAIL,))), GML32.content_type)


def _head(bindings: str, numbers: Numbers) -> bytes:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<wfs:ValueCollection {bindings}{documents.attributes_20(numbers)}>'
    ).encode()


def _paged(
    wanted: Sequence[tuple[Plan, Field | str]],
    counts: Sequence[int | None],
    asked: GetPropertyValue,
    limit: int,
    context: Context,
) -> Iterator[bytes]:
    offset, left = asked.start_index, limit
    for (plan, prop), number in zip(wanted, counts, strict=True):
        if left == 0 or prop == "":
            continue
        taken = 0
        for value in _values(plan, prop, context, offset, left):
            taken += 1
            yield value
        left -= taken
        offset = max(0, offset - (number or 0)) if not taken else 0


def _values(plan: Plan, prop: Field | str, context: Context, offset: int, limit: int) -> Iterator[bytes]:
    """XML content of each value."""
    output = replace(output_of(plan, FeatureFormat.GML32, context, "2.0.0"), member="")
    layer = plan.layer
    name = prop.name if isinstance(prop, Field) else layer.geometry_field
    standard = isinstance(prop, Field) and prop.of_gml
    if not standard:
        name = f"{context.prefix}:{name}"
    opening, closing = (f"<{name}" if standard else f"<{name}>").encode(), f"</{name}>".encode()
    batches = context.services.features.features(layer, plan.query(offset, limit))
    for batch in batches:
        if prop == FEATURE_ID:
            yield from (layer.feature_id(number).encode() for number in batch.ids.tolist())
            continue
        for text in _texts(plan, batch, output, context):
            if standard:
                # It comes before all others, and the identifier has an attribute.
                yield text[text.index(b">", text.index(opening)) + 1 : text.index(closing)]
            else:
                yield text[text.index(opening) + len(opening) : text.rindex(closing)]


def _texts(plan: Plan, batch: Features, output: Output, context: Context) -> Iterator[bytes]:
    encoded = context.services.features.encode(plan.layer, batch, output)
    start = 0
    for end in encoded.ends.tolist():
        yield encoded.content[start:end]
        start = end


def _joined(chunks: Iterator[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        if size > 64 * 1024:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)
