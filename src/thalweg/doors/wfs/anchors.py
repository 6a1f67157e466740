"""Pages that stay right while others write: links say after (before) which feature a page begins, not only how many
features come before it.

``startIndex`` alone counts from the begin, so that a deletion makes the next page skip a feature. In natural order
links carry a vendor parameter, too: ``startAfter`` or ``endBefore`` with the number of a feature. The page then begins
where that feature is now, or would be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from thalweg.domain.filters import NumberRange, both
from thalweg.doors.wfs.context import Context
from thalweg.doors.wfs.request import GetFeature
from thalweg.doors.wfs.resolve import Plan
from thalweg.encode.feature_output import FeatureFormat, Output


def anchored(asked: GetFeature, plan: Plan, output: Output, limit: int, context: Context) -> GetFeature:
    """The request with the start index that its anchor means now.

    plan    the only one, in natural order
    limit   features of a page
    """
    if asked.start_after is not None:
        return replace(asked, start_index=_up_to(asked.start_after, asked.start_index, plan, output, context))
    if asked.end_before is not None:
        # One less: the feature itself belongs to the page after.
        before = _up_to(asked.end_before - 1, asked.start_index + limit, plan, output, context)
        return replace(asked, start_index=max(0, before - limit), count=min(limit, before))
    return asked


def _up_to(number: int, likely: int, plan: Plan, output: Output, context: Context) -> int:
    """How many features of the plan have this number or a lower one.

    likely  the answer if nothing has been written meanwhile
    """
    features = context.services.features
    if plan.where is not None:
        return features.count(plan.layer, both(plan.where, NumberRange(None, number + 1)))
    total = features.state(plan.layer).count

    def at(index: int) -> int | None:
        page = features.page(plan.layer, output, index, 1)
        return first_number(page.content, plan, output)

    # Two looks where nothing has changed, else a search by halves: a page of one is found at once wherever it is.
    low, high = 0, total
    if 0 < likely <= total:
        before = at(likely - 1)
        if before is not None and before <= number:
            low = likely
        else:
            high = likely - 1
    if low == likely and low < total:
        following = at(low)
        if following is not None and following > number:
            return low
    while low < high:
        middle = (low + high) // 2
        found = at(middle)
        if found is None or found > number:
            high = middle
        else:
            low = middle + 1
    return low


def _begin(plan: Plan, output: Output) -> bytes:
    """What a feature begins with, its number following. In finished bytes nothing else looks like it, as quotation
    marks of texts are escaped."""
    prefix = plan.layer.id_prefix
    if output.format is FeatureFormat.GEOJSON:
        return f'{{"type":"Feature","id":"{prefix}.'.encode()
    label = "fid" if output.format is FeatureFormat.GML2 else "gml:id"
    return f'<{output.prefix}:{plan.layer.name} {label}="{prefix}.'.encode()


def first_number(chunks: Sequence[bytes], plan: Plan, output: Output) -> int | None:
    """The number of the first feature in encoded ones."""
    for chunk in chunks:
        if chunk:
            return _number(chunk, chunk.find(_begin(plan, output)), plan, output)
    return None


def last_number(chunks: Sequence[bytes], plan: Plan, output: Output) -> int | None:
    """The number of the last one."""
    for chunk in reversed(chunks):
        if chunk:
            return _number(chunk, chunk.rfind(_begin(plan, output)), plan, output)
    return None


def _number(chunk: bytes, at: int, plan: Plan, output: Output) -> int | None:
    if at < 0:
        return None
    start = at + len(_begin(plan, output))
    return int(chunk[start : chunk.find(b'"', start)])


def numbers_of(chunks: Iterable[bytes], plan: Plan, output: Output) -> tuple[int | None, int | None]:
    """First and last number of a page; None where they are not at hand."""
    if plan.order or not isinstance(chunks, Sequence):
        return None, None
    return first_number(chunks, plan, output), last_number(chunks, plan, output)
