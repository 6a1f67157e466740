"""Queries with the layers at hand: names of types and properties resolved, filters parsed and bound."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from thalweg.domain.errors import InvalidParameter, MissingParameter
from thalweg.domain.features import GML_CODE_SPACE, GML_FIELDS, GML_IDENTIFIER, FeatureQuery, Field, Layer, SortKey
from thalweg.domain.filters import (
    BOUNDS,
    FEATURE_ID,
    GEOMETRY,
    Filter,
    GeometryValue,
    Ids,
    Kind,
    Literal,
    Property,
    Spatial,
    follows_the_clock,
    walk,
)
from thalweg.domain.geometry import SpatialOperator
from thalweg.domain.wkb import box_wkb
from thalweg.doors.wfs.context import Context
from thalweg.doors.wfs.errors import OperationNotSupported
from thalweg.doors.wfs.request import Box, Condition, FilterText, FilterXml, IdList, Query, SortBy
from thalweg.doors.wfs.versions import V10
from thalweg.encode.crs import CRS84, WGS84, CrsName
from thalweg.encode.filters.cql2_json import parse_cql2_json
from thalweg.encode.filters.cql2_text import parse_cql2_text
from thalweg.encode.filters.ecql import parse_ecql
from thalweg.encode.filters.fes import parse_fes
from thalweg.encode.filters.references import parse_reference
from thalweg.encode.xml_elements import local_name
from thalweg.services.filter_crs import bind_filter

_ID_ELEMENTS: Final = frozenset(("FeatureId", "GmlObjectId", "ResourceId"))
MAX_PROPERTY_NAMES: Final = 1_000
"""Most properties in a list of those to write; layers have fewer."""
MAX_SORT_KEYS: Final = 32
"""Most properties to sort by; each is a column of a temporary index."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What is wanted of one layer.

    where     bound
    fields    names, in the layer's order; None: all
    srs_name  as asked; None: the usual one
    passing   whether the same request means something else later, as "now" does in its filter
    """

    layer: Layer
    where: Filter | None = None
    order: tuple[SortKey, ...] = ()
    fields: tuple[str, ...] | None = None
    geometry: bool = True
    srs_name: CrsName | None = None
    handle: str = ""
    passing: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether it is all of the layer in its natural order."""
        return self.where is None and not self.order

    def query(self, offset: int = 0, limit: int | None = None) -> FeatureQuery:
        """For the features service."""
        return FeatureQuery(self.where, self.order, offset, limit, self.fields, self.geometry)


def plans(queries: Sequence[Query], context: Context, version: str) -> list[list[Plan]]:
    """For each ad hoc query its plans: one, or, where ids alone are given, one per layer that they belong to."""
    asked = [[context.layer(name, _types_parameter(version)) for name in query.types] for query in queries]
    every = {layer.id: layer for layers in asked for layer in layers}
    return [
        _plans(query, layers, every.values(), context, version) for query, layers in zip(queries, asked, strict=True)
    ]


def _types_parameter(version: str) -> str:
    return "typeName" if version.startswith("1.") else "typeNames"


def _plans(query: Query, layers: list[Layer], asked: Iterable[Layer], context: Context, version: str) -> list[Plan]:
    if len(layers) > 1:
        raise OperationNotSupported("A join is only offered by GetFeature 2.0.", parameter="typeNames")
    if layers:
        return [plan(query, layers[0], context, version, asked)]
    if not isinstance(query.condition, IdList):
        raise MissingParameter(_types_parameter(version))
    return [plan(query, layer, context, version, None) for layer in _layers_of(query.condition.ids, context)]


def _layers_of(ids: Iterable[str], context: Context) -> list[Layer]:
    """The layers that ids belong to, in the order of first mention. Ids of no layer name no feature."""
    wanted = list(ids)
    found: dict[int, Layer] = {}
    layers = context.layers()
    for text in wanted:
        for layer in layers:
            if layer.id not in found and layer.feature_number(text) is not None:
                found[layer.id] = layer
    return list(found.values())


def plan(query: Query, layer: Layer, context: Context, version: str, asked: Iterable[Layer] | None = None) -> Plan:
    """One query on one layer.

    asked   layers that ids may belong to without being an error; None: any
    raises  InvalidParameter and its kin; TooLarge
    """
    where, passing = None, False
    if query.condition is not None:
        parsed = parse_condition(query.condition, layer, version)
        if asked is not None and not isinstance(query.condition, Box):
            check_ids(parsed, [layer, *asked], context)
        passing = follows_the_clock(parsed)
        where = bind_filter(parsed, layer)
    fields, geometry = projection(query.property_names, layer)
    return Plan(layer, where, sort_keys(query.sort_by, layer), fields, geometry, query.srs_name, query.handle, passing)


# ---------------------------------------------------------------- conditions


def parse_condition(condition: Condition, layer: Layer, version: str) -> Filter:
    """The filter tree of a condition, not yet bound.

    Coordinates without a CRS are in the layer's: x y in 1.0.0, in ECQL and CQL2, else in the authority's order.
    """
    by_authority = version != V10
    match condition:
        case FilterXml(element):
            kinds = {local_name(child) for child in element} & _ID_ELEMENTS
            if len(kinds) > 1:
                # OGC 04-095 clause 13
                raise InvalidParameter("filter", f"A filter has ids of one kind, not {' and '.join(sorted(kinds))}.")
            return parse_fes(element, authority_order=by_authority)
        case Box():
            return _box(condition, by_authority=by_authority)
        case IdList(ids):
            return Ids(ids)
        case FilterText(text, language):
            if language == "ecql":
                return parse_ecql(text, parameter="cql_filter")
            # CQL2 has a default of its own (OGC 21-065r2 clause 7.8).
            crs = CrsName(WGS84, False, CRS84)
            return parse_cql2_json(text, crs) if language == "cql2-json" else parse_cql2_text(text, crs)
    raise TypeError(type(condition).__name__)


def _box(box: Box, *, by_authority: bool) -> Filter:
    (x0, y0), (x1, y1) = box.low, box.high
    srid = 0
    if box.crs is not None:
        srid = box.crs.srid
        if box.crs.swapped:
            x0, y0, x1, y1 = y0, x0, y1, x1
    value = GeometryValue(box_wkb(x0, y0, x1, y1), srid, is_box=True, as_written=box.crs is None and by_authority)
    return Spatial(SpatialOperator.BBOX, Property(GEOMETRY), Literal(value, Kind.GEOMETRY))


def check_ids(condition: Filter, asked: Iterable[Layer], context: Context) -> None:
    """Refuse ids of other types than those asked for; one that no type has names no feature.

    raises  InvalidParameter ``RESOURCEID`` (OGC 09-025r2 clause 7.9.2.4.1 and the CITE suite)
    """
    ids = [text for node in walk(condition) if isinstance(node, Ids) for text in node.ids]
    if not ids:
        return
    own = list(asked)
    strangers = [text for text in ids if not any(layer.feature_number(text) is not None for layer in own)]
    if not strangers:
        return
    others = context.layers()
    for text in strangers:
        for layer in others:
            if layer.feature_number(text) is not None:
                raise InvalidParameter(
                    "RESOURCEID",
                    f"'{text[:120]}' is a feature of the type '{context.outside(layer)}', which is not asked for.",
                )


# ---------------------------------------------------------------- properties


def property_of(text: str, layer: Layer, parameter: str) -> Field | str:
    """A property by its name as written.

    returns  the field; or GEOMETRY, FEATURE_ID, BOUNDS; or an empty text for a property of GML that the layer lacks
    raises   InvalidParameter for a name that the layer does not have
    """
    found = parse_reference(text, {}, parameter)
    name = found.name
    if name in (FEATURE_ID, BOUNDS, GEOMETRY):
        return name
    prefix, _, local = name.rpartition(":")
    # GML's own before those of the layer; where it keeps none, ``gml:name`` is its ``name`` to those who read.
    field = (layer.field(name) if name in GML_FIELDS else None) or layer.field(local)
    if field is not None:
        return field
    if layer.has_geometry and local == layer.geometry_field:
        return GEOMETRY
    if prefix == "gml":
        return ""
    raise unknown_property(text, layer, parameter)


def unknown_property(text: str, layer: Layer, parameter: str) -> InvalidParameter:
    """The error for a property that is not there."""
    known = [layer.geometry_field] if layer.has_geometry else []
    known += [field.name for field in layer.fields]
    return InvalidParameter(
        parameter,
        f"The type '{layer.name}' has no property '{text[:120]}'; it has {', '.join(known[:50])}.",
    )


def projection(names: Sequence[str] | None, layer: Layer) -> tuple[tuple[str, ...] | None, bool]:
    """Fields to write (mandatory ones always), and whether the geometry is."""
    if names is None:
        return None, True
    if len(names) > MAX_PROPERTY_NAMES:
        raise InvalidParameter("propertyName", f"{len(names):,} properties are named; {MAX_PROPERTY_NAMES:,} may be.")
    wanted: set[str] = {field.name for field in layer.fields if field.required}
    geometry = False
    for text in names:
        found = property_of(text, layer, "propertyName")
        if isinstance(found, Field):
            wanted.add(found.name)
            if found.name == GML_IDENTIFIER:
                wanted.add(GML_CODE_SPACE)
        elif found == GEOMETRY:
            geometry = True
    fields = tuple(field.name for field in layer.fields if field.name in wanted)
    if len(fields) == len(layer.fields):
        return None, geometry or not layer.has_geometry
    return fields, geometry


def sort_keys(items: Sequence[SortBy], layer: Layer) -> tuple[SortKey, ...]:
    """The order asked for. Raises InvalidParameter (``sortBy``)."""
    if len(items) > MAX_SORT_KEYS:
        raise InvalidParameter("sortBy", f"{len(items)} properties are to be sorted by; {MAX_SORT_KEYS} may be.")
    keys: dict[str, SortKey] = {}
    for item in items:
        found = property_of(item.name, layer, "sortBy")
        if isinstance(found, Field):
            keys.setdefault(found.name, SortKey(found.name, item.descending))
        elif found == FEATURE_ID:
            keys.setdefault(FEATURE_ID, SortKey(FEATURE_ID, item.descending))
        elif found:
            raise InvalidParameter("sortBy", f"'{item.name[:120]}' is a geometry, which has no order.")
    return tuple(keys.values())
