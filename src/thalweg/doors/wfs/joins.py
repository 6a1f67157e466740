"""Joins of GetFeature 2.0 (OGC 09-025r2 clause 7.9.2.5.3): standard, spatial and temporal ones.

One type after the other: for each feature of the first (the one that its own conditions leave fewest of), the
conditions between types become conditions on the next alone, with the values of the feature in the place of its
properties. The store then answers them by its own indexes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from thalweg.domain.errors import InvalidParameter, TooLarge
from thalweg.domain.features import FeatureQuery, Features, Layer, SortKey
from thalweg.domain.filter_binding import bind, kind_of
from thalweg.domain.filters import (
    FEATURE_ID,
    And,
    Comparison,
    FeatureIds,
    Filter,
    GeometryValue,
    IsNull,
    Kind,
    Literal,
    Property,
    Spatial,
    Temporal,
    Truth,
    both,
    walk,
)
from thalweg.domain.geometry import SpatialOperator
from thalweg.doors.http import Response
from thalweg.doors.wfs import documents
from thalweg.doors.wfs.context import Context
from thalweg.doors.wfs.documents import Numbers
from thalweg.doors.wfs.formats import GML32, OutputFormat
from thalweg.doors.wfs.get_feature import hits_document, lazily, limit_of, output_of
from thalweg.doors.wfs.paging import page_links
from thalweg.doors.wfs.request import Box, GetFeature, IdList, Query, ResultType
from thalweg.doors.wfs.resolve import Plan, check_ids, parse_condition, projection, sort_keys
from thalweg.encode.crs import Gml
from thalweg.encode.feature_output import FeatureFormat, Output
from thalweg.encode.filters.references import parse_reference
from thalweg.services.filter_crs import REFERENCE

MAX_TYPES: Final = 5
"""Most types in one join."""
MAX_PROBES: Final = 100_000
"""Most features that conditions are looked up for: each takes some hundred microseconds."""
MAX_TUPLES: Final = 10_000
"""Most tuples of one answer; others follow on the next page."""
_MIRRORED: Final = {
    SpatialOperator.WITHIN: SpatialOperator.CONTAINS,
    SpatialOperator.CONTAINS: SpatialOperator.WITHIN,
}
Row = tuple[int, Features]
"""A feature: its number, and a batch of it alone."""


@dataclass(frozen=True, slots=True)
class _Join:
    """What is joined, in the order of the request.

    conjuncts  conditions that all have to hold, each property with its source
    """

    aliases: tuple[str, ...]
    layers: tuple[Layer, ...]
    plans: tuple[Plan, ...]
    conjuncts: tuple[Filter, ...]
    sort: tuple[SortKey, ...]


def join_answer(asked: GetFeature, query: Query, form: OutputFormat, context: Context) -> Response:
    """A collection of tuples.

    raises  InvalidParameter, OperationNotSupported; TooLarge while it is made
    """
    if form is not GML32:
        raise InvalidParameter("outputFormat", f"Joins are answered as '{GML32.names[0]}' only.")
    join = _prepared(query, context, asked.version)
    inside = replace(context, in_thread=True)
    return Response(lazily(lambda: _document(asked, join, form, inside)), form.content_type)


# ---------------------------------------------------------------- reading


def _prepared(query: Query, context: Context, version: str) -> _Join:
    if len(query.types) > MAX_TYPES:
        raise TooLarge(f"At most {MAX_TYPES} types can be joined.", parameter="typeNames")
    layers = tuple(context.layer(name, "typeNames") for name in query.types)
    aliases = query.aliases or tuple(layer.name for layer in layers)
    if len(aliases) != len(layers):
        raise InvalidParameter("aliases", f"There are {len(layers)} types, but {len(aliases)} aliases.")
    if len(set(aliases)) != len(aliases):
        raise InvalidParameter("aliases", "A type that is joined with itself needs an alias for each time.")
    condition = query.condition
    if condition is None or isinstance(condition, Box | IdList):
        raise InvalidParameter("filter", "A join needs a filter that says which features belong together.")
    others = dict(zip(aliases, layers, strict=True))
    parsed = parse_condition(condition, layers[0], version)
    check_ids(parsed, layers, context)
    bound = bind(parsed, layers[0], REFERENCE, others=others)
    parts = bound.conditions if isinstance(bound, And) else (bound,)
    conjuncts = tuple(_owned(part, aliases[0]) for part in parts)
    return _Join(aliases, layers, _plans(query, aliases, layers), conjuncts, sort_keys(query.sort_by, layers[0]))


def _owned(condition: Any, first: str) -> Any:
    """With a source at every property: one without is of the first type."""
    if isinstance(condition, Property | FeatureIds) and condition.source is None:
        return replace(condition, source=first)
    return _mapped(condition, lambda node: _owned(node, first))


def _mapped(node: Any, change: Any) -> Any:
    """The node with its children changed."""
    changed = {}
    for item in fields(node):
        value = getattr(node, item.name)
        if _is_node(value):
            changed[item.name] = change(value)
        elif isinstance(value, tuple) and any(_is_node(part) for part in value):
            changed[item.name] = tuple(change(part) if _is_node(part) else part for part in value)
    return replace(node, **changed) if changed else node


def _is_node(value: Any) -> bool:
    return hasattr(value, "__dataclass_fields__") and not isinstance(value, GeometryValue)


def _sources(condition: Filter) -> set[str]:
    return {
        node.source for node in walk(condition) if isinstance(node, Property | FeatureIds) and node.source is not None
    }


def _order(join: _Join, context: Context) -> tuple[int, ...]:
    """Indexes of the types: the one with the fewest features by its own conditions comes first, unless an order is
    asked for."""
    indexes = list(range(len(join.layers)))
    if join.sort:
        return tuple(indexes)

    def size(index: int) -> int:
        own = [_bare(part) for part in join.conjuncts if _sources(part) <= {join.aliases[index]}]
        return context.services.features.count(join.layers[index], both(*own))

    first = min(indexes, key=size)
    return (first, *(index for index in indexes if index != first))


def _bare(condition: Any) -> Any:
    """Without sources, as a layer alone takes it."""
    if isinstance(condition, Property | FeatureIds):
        return replace(condition, source=None)
    return _mapped(condition, _bare)


def _placed(join: _Join, order: Sequence[int]) -> tuple[Filter | None, ...]:
    """Each condition where the last type that it names is reached."""
    reached: set[str] = set()
    left = list(join.conjuncts)
    found: list[Filter | None] = []
    for index in order:
        reached.add(join.aliases[index])
        here = [part for part in left if _sources(part) <= reached]
        left = [part for part in left if part not in here]
        found.append(both(*here))
    return tuple(found)


def _plans(query: Query, aliases: Sequence[str], layers: Sequence[Layer]) -> tuple[Plan, ...]:
    """Properties to write: each name belongs to the type before it, else to the first that has it."""
    if query.property_names is None:
        return tuple(Plan(layer, srs_name=query.srs_name) for layer in layers)
    names: list[list[str]] = [[] for _ in layers]
    for text in query.property_names:
        names[_owner(text, aliases, layers)].append(text)
    found = []
    for layer, own in zip(layers, names, strict=True):
        wanted, geometry = projection(own, layer)
        found.append(Plan(layer, fields=wanted, geometry=geometry, srs_name=query.srs_name))
    return tuple(found)


def _owner(text: str, aliases: Sequence[str], layers: Sequence[Layer]) -> int:
    read = parse_reference(text, {}, "propertyName")
    if read.source is not None:
        local = read.source.rpartition(":")[2]
        for index, (alias, layer) in enumerate(zip(aliases, layers, strict=True)):
            if read.source == alias or local in (alias, layer.name):
                return index
        raise InvalidParameter("propertyName", f"'{read.source[:80]}' is none of the types that are joined.")
    local = read.name.rpartition(":")[2]
    for index, layer in enumerate(layers):
        if layer.field(local) is not None or local == layer.geometry_field:
            return index
    return 0


# ---------------------------------------------------------------- joining


@dataclass(slots=True)
class _Work:
    """Features looked up so far."""

    probes: int = 0


def _tuples(join: _Join, context: Context, work: _Work) -> Iterator[dict[int, Row]]:
    """Rows by index of the type."""
    order = _order(join, context)
    conditions = _placed(join, order)

    def step(place: int, rows: dict[int, Row]) -> Iterator[dict[int, Row]]:
        if place == len(order):
            yield rows
            return
        index = order[place]
        condition = conditions[place]
        where = None if condition is None else _for_layer(condition, join, index, rows)
        if where == Truth(False) or where == Truth(None):
            return
        query = FeatureQuery(where, join.sort if index == 0 else ())
        for batch in context.services.features.features(join.layers[index], query):
            for position, number in enumerate(batch.ids.tolist()):
                if place + 1 < len(order):
                    work.probes += 1
                    if work.probes > MAX_PROBES:
                        raise TooLarge(
                            f"The join looks more than {MAX_PROBES:,} features up; narrow it down by further "
                            "conditions.",
                            parameter="filter",
                        )
                yield from step(place + 1, rows | {index: (number, batch.take([position]))})

    yield from step(0, {})


def _for_layer(condition: Filter, join: _Join, index: int, rows: Mapping[int, Row]) -> Filter:
    """The condition on one type alone: properties of the others are their values."""
    of_alias = {join.aliases[i]: i for i in range(len(join.aliases))}
    target = join.layers[index]

    def put(node: Any) -> Any:
        if isinstance(node, Property):
            at = of_alias[node.source or join.aliases[0]]
            return replace(node, source=None) if at == index else _literal(node, join.layers[at], rows[at], target)
        if isinstance(node, FeatureIds):
            at = of_alias[node.source or join.aliases[0]]
            return replace(node, source=None) if at == index else Truth(rows[at][0] in node.numbers)
        changed = _mapped(node, put)
        if isinstance(changed, IsNull) and isinstance(changed.operand, Literal):
            return Truth(changed.operand.value is None)
        if isinstance(changed, Comparison | Spatial | Temporal):
            return _judged(changed)
        return changed

    result: Filter = put(condition)
    return result


def _judged(node: Comparison | Spatial | Temporal) -> Filter:
    """Neither true nor false where a value is missing; a property at the left of a spatial test."""
    for side in (node.left, node.right):
        if isinstance(side, Literal) and side.value is None:
            return Truth(None)
    if isinstance(node, Spatial) and isinstance(node.left, Literal) and not isinstance(node.right, Literal):
        return replace(node, left=node.right, right=node.left, operator=_MIRRORED.get(node.operator, node.operator))
    return node


def _literal(node: Property, layer: Layer, row: Row, target: Layer) -> Literal:
    number, feature = row
    if node.name == FEATURE_ID:
        return Literal(layer.feature_id(number), Kind.TEXT)
    if layer.has_geometry and node.name == layer.geometry_field:
        wkb = feature.geometries[0]
        if wkb is None:
            return Literal(None, Kind.GEOMETRY)
        moved = REFERENCE.moved(GeometryValue(wkb, layer.srid), target.srid, "filter")
        return Literal(moved, Kind.GEOMETRY)
    found = layer.field(node.name)
    if found is None:
        raise KeyError(node.name)
    return Literal(feature.columns[node.name][0], kind_of(found.kind))


# ---------------------------------------------------------------- document


def _document(asked: GetFeature, join: _Join, form: OutputFormat, context: Context) -> Response:
    work = _Work()
    tuples = _tuples(join, context, work)
    if asked.result_type is ResultType.HITS:
        return hits_document(asked, sum(1 for _ in tuples), join.layers, form, context)
    limit = min(limit_of(asked, context), MAX_TUPLES)
    outputs = [replace(output_of(plan, FeatureFormat.GML32, context, asked.version), member="") for plan in join.plans]
    written: set[tuple[int, int]] = set()
    members: list[bytes] = []
    seen = 0
    more = False
    for rows in tuples:
        seen += 1
        if seen <= asked.start_index:
            continue
        if len(members) == limit:
            more = True
            break
        members.append(_tuple(rows, join, outputs, written, context))
    # Where all have been seen their number is known.
    matched = None if more else seen
    following, before = page_links(asked, context, limit=limit, more=more)
    numbers = Numbers(matched, len(members), following, before)
    bindings = documents.namespaces(context, Gml.V32, join.layers) + ' xmlns:xlink="http://www.w3.org/1999/xlink"'
    return Response(documents.head_20(bindings, numbers) + b"".join(members) + documents.TAIL, form.content_type)


def _tuple(
    rows: Mapping[int, Row],
    join: _Join,
    outputs: Sequence[Output],
    written: set[tuple[int, int]],
    context: Context,
) -> bytes:
    """A tuple, its features in the order of the types. One that was written before is referred to: ids are unique."""
    parts = []
    for index, layer in enumerate(join.layers):
        number, feature = rows[index]
        key = (layer.id, number)
        if key in written:
            parts.append(f'<wfs:member xlink:href="#{layer.feature_id(number)}"/>'.encode())
            continue
        written.add(key)
        content = context.services.features.encode(layer, feature, outputs[index]).content
        parts.append(b"<wfs:member>" + content + b"</wfs:member>")
    return b"<wfs:member><wfs:Tuple>" + b"".join(parts) + b"</wfs:Tuple></wfs:member>"
