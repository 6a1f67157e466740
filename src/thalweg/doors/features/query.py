"""What a request for items asks: parameters of the standard's parts and of the collection, read and checked."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import orjson

from thalweg.domain.catalogue import Workspace
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.features import Field, FieldKind, Layer, SortKey
from thalweg.domain.filters import (
    FEATURE_ID,
    GEOMETRY,
    And,
    Comparison,
    ComparisonOperator,
    Filter,
    IsNull,
    Kind,
    Literal,
    NumberRange,
    Or,
    Period,
    Property,
    Spatial,
    Temporal,
    TemporalOperator,
    both,
)
from thalweg.domain.geometry import SpatialOperator
from thalweg.domain.time import DAY_US, parse_instant
from thalweg.doors.features import crs
from thalweg.doors.features.context import Format, choose_format, only
from thalweg.doors.http import Request
from thalweg.encode.crs import CrsName
from thalweg.encode.filters.cql2 import corners
from thalweg.encode.filters.cql2_json import parse_cql2_json
from thalweg.encode.filters.cql2_text import parse_cql2_text
from thalweg.encode.filters.lexer import box
from thalweg.services.filter_crs import bind_filter
from thalweg.settings import Settings

ITEMS_PARAMETERS: Final = (
    "f", "limit", "offset", "cursor", "bbox", "bbox-crs", "datetime", "crs", "filter", "filter-lang", "filter-crs",
    "properties", "skipGeometry", "sortby",
)  # fmt: skip
"""Of every collection, before its own properties. A property of one of these names is no parameter by itself."""
FILTER_LANGUAGES: Final = ("cql2-text", "cql2-json")
HTML_LIMIT: Final = 50
"""Features of an HTML page where no limit is asked for."""
MAX_SORT_KEYS: Final = 20
MAX_CURSOR_LENGTH: Final = 4_000
_NUMBER: Final = re.compile(r"[+-]?\d{1,300}(?:\.\d{0,300})?(?:[eE][+-]?\d{1,3})?|[+-]?\.\d{1,300}", re.ASCII)
_WHOLE: Final = re.compile(r"\d{1,18}", re.ASCII)
_CURSOR: Final = re.compile(r"[ab](-?\d{1,19})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page begins: after (or, ``backward``, before) a feature.

    values  of the sort keys; empty in natural order
    """

    number: int
    backward: bool = False
    values: tuple[str | int | float | bool | None, ...] = ()


@dataclass(frozen=True, slots=True)
class ItemsQuery:
    """One request for items.

    where     bound, without the cursor
    fields    in the layer's order; None: all
    crs, crs_uri  of the answer
    kept      the parameters that links to other pages keep, as a query string
    """

    format: Format
    limit: int
    offset: int
    cursor: Cursor | None
    where: Filter | None
    order: tuple[SortKey, ...]
    fields: tuple[str, ...] | None
    geometry: bool
    crs: CrsName
    crs_uri: str
    kept: str

    @property
    def is_plain(self) -> bool:
        """A page of the natural order of all features."""
        return self.where is None and self.cursor is None and not self.order


def items_parameters(layer: Layer) -> list[str]:
    """Names of all parameters of a collection's items."""
    return [*ITEMS_PARAMETERS, *(field.name for field in layer.fields if field.name not in ITEMS_PARAMETERS)]


def read_items(
    parameters: Mapping[str, str], request: Request, layer: Layer, workspace: Workspace, settings: Settings
) -> ItemsQuery:
    """Read the parameters of ``/collections/{id}/items``. InvalidParameter by name."""
    own = {field.name: field for field in layer.fields}
    only(parameters, items_parameters(layer))
    form = choose_format(dict(parameters), request)
    limit = _whole(parameters, "limit", at_least=1)
    if limit is None:
        limit = HTML_LIMIT if form is Format.HTML else settings.features_default_limit
    order = _order(parameters.get("sortby"), layer)
    text = parameters.get("cursor")
    cursor = None if text is None else _cursor(text, layer, order)
    if cursor is not None and "offset" in parameters:
        raise InvalidParameter("offset", "A cursor says where to begin; leave offset out.")
    chosen, uri = crs.DEFAULT, crs.default_uri(layer)
    if "crs" in parameters:
        chosen, uri = crs.parse(parameters["crs"], "crs", layer, workspace)
    conditions = [
        _bbox(parameters, layer, workspace),
        _datetime(parameters.get("datetime"), layer),
        _filter(parameters, layer, workspace),
        *(
            _equals(own[name], value, layer)
            for name, value in parameters.items()
            if name in own and name not in ITEMS_PARAMETERS
        ),
    ]
    return ItemsQuery(
        form,
        min(limit, settings.features_max_limit),
        _whole(parameters, "offset", at_least=0) or 0,
        cursor,
        both(*conditions),
        order,
        _fields(parameters.get("properties"), layer),
        not _boolean(parameters, "skipGeometry"),
        chosen,
        uri,
        _query_string({n: v for n, v in parameters.items() if n not in ("cursor", "offset", "f")}),
    )


def _query_string(parameters: Mapping[str, str]) -> str:
    return "&".join(f"{quote(name, safe='')}={quote(value, safe=',:/-._~*()')}" for name, value in parameters.items())


# ---------------------------------------------------------------- paging


def _whole(parameters: Mapping[str, str], name: str, *, at_least: int) -> int | None:
    text = parameters.get(name)
    if text is None:
        return None
    if not _WHOLE.fullmatch(text) or int(text) < at_least:
        raise InvalidParameter(name, f"'{text[:40]}' is no whole number from {at_least} upwards.")
    return int(text)


def _cursor(text: str, layer: Layer, order: tuple[SortKey, ...]) -> Cursor:
    """Read what ``cursor_after`` has written."""
    wrong = InvalidParameter("cursor", "The cursor is none that was given out for this order; follow the links.")
    match = _CURSOR.fullmatch(text)
    if match is not None:
        number = int(match[1])
        if order or not -(2**63) <= number < 2**63:
            raise wrong
        return Cursor(number, text[0] == "b")
    if not text.startswith("s") or len(text) > MAX_CURSOR_LENGTH:
        raise wrong
    try:
        raw = base64.urlsafe_b64decode(text[1:] + "=" * (-len(text[1:]) % 4))
        number, *values = orjson.loads(raw)
    except (binascii.Error, ValueError, TypeError):
        raise wrong from None
    if not isinstance(number, int) or isinstance(number, bool) or len(values) != len(order):
        raise wrong
    for key, value in zip(order, values, strict=True):
        if value is not None and not _fits(value, layer, key):
            raise wrong
    return Cursor(number, values=tuple(values))


def _fits(value: Any, layer: Layer, key: SortKey) -> bool:
    field = layer.field(key.name)
    if field is None:
        return isinstance(value, int)
    match field.kind:
        case FieldKind.TEXT:
            return isinstance(value, str)
        case FieldKind.NUMBER:
            return isinstance(value, int | float) and not isinstance(value, bool)
        case FieldKind.BOOLEAN:
            return isinstance(value, bool | int)
    return isinstance(value, int) and not isinstance(value, bool)


def cursor_after(number: int) -> str:
    """A page of the natural order after a feature."""
    return f"a{number}"


def cursor_before(number: int) -> str:
    """A page of the natural order that ends before a feature."""
    return f"b{number}"


def sorted_cursor(number: int, values: tuple[Any, ...]) -> str:
    """A page in another order after a feature with these values; empty where it would be too long for a link."""
    text = "s" + base64.urlsafe_b64encode(orjson.dumps([number, *values])).decode().rstrip("=")
    return text if len(text) <= MAX_CURSOR_LENGTH else ""


def beyond(cursor: Cursor, order: tuple[SortKey, ...], layer: Layer) -> Filter:
    """The condition of features after (before) the cursor's, in this order.

    With keys a, b: a is beyond, or equal and b is beyond, or both equal and the number is. Missing values come last.
    """
    if not order:
        return NumberRange(None, cursor.number) if cursor.backward else NumberRange(cursor.number, None)
    alternatives: list[Filter] = []
    equal: list[Filter] = []
    for key, value in zip(order, cursor.values, strict=True):
        if key.name == FEATURE_ID:
            # Total by itself: no later key matters.
            alternatives.append(
                And((*equal, NumberRange(None, cursor.number) if key.descending else NumberRange(cursor.number, None)))
            )
            return Or(tuple(alternatives))
        named = Property(key.name)
        missing = IsNull(named)
        if value is None:
            equal.append(missing)
            continue
        literal = Literal(value, _kind(layer, key.name))
        operator = ComparisonOperator.LESS if key.descending else ComparisonOperator.GREATER
        alternatives.append(And((*equal, Or((Comparison(operator, named, literal), missing)))))
        equal.append(Comparison(ComparisonOperator.EQUAL, named, literal))
    alternatives.append(And((*equal, NumberRange(cursor.number, None))))
    return Or(tuple(alternatives))


_KINDS: Final = {
    FieldKind.TEXT: Kind.TEXT,
    FieldKind.INTEGER: Kind.INTEGER,
    FieldKind.NUMBER: Kind.REAL,
    FieldKind.BOOLEAN: Kind.BOOLEAN,
    FieldKind.DATE: Kind.DATE,
    FieldKind.DATETIME: Kind.INSTANT,
}


def _kind(layer: Layer, name: str) -> Kind:
    field = layer.field(name)
    return Kind.INTEGER if field is None else _KINDS[field.kind]


# ---------------------------------------------------------------- what is shown


def _order(text: str | None, layer: Layer) -> tuple[SortKey, ...]:
    """``name,-population``; a plus arrives as a blank where it was not encoded."""
    if text is None:
        return ()
    keys: list[SortKey] = []
    for part in text.split(","):
        written = part.strip()
        descending = written.startswith("-")
        name = written[1:] if written[:1] in ("-", "+") else written
        if name == "id" and layer.field("id") is None:
            name = FEATURE_ID
        elif layer.field(name) is None:
            raise InvalidParameter("sortby", f"'{name[:60]}' is no property of '{layer.name}' to sort by.")
        if any(key.name == name for key in keys):
            raise InvalidParameter("sortby", f"'{name[:60]}' comes twice.")
        keys.append(SortKey(name, descending))
    if len(keys) > MAX_SORT_KEYS:
        raise InvalidParameter("sortby", f"More than {MAX_SORT_KEYS} properties to sort by.")
    return tuple(keys)


def _fields(text: str | None, layer: Layer) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = {part.strip() for part in text.split(",") if part.strip()}
    for name in names:
        if layer.field(name) is None:
            raise InvalidParameter("properties", f"'{name[:60]}' is no property of '{layer.name}'.")
    return tuple(field.name for field in layer.fields if field.name in names)


def _boolean(parameters: Mapping[str, str], name: str) -> bool:
    text = parameters.get(name, "false").lower()
    if text not in ("true", "false"):
        raise InvalidParameter(name, f"'{text[:40]}' is neither true nor false.")
    return text == "true"


# ---------------------------------------------------------------- conditions


def _bbox(parameters: Mapping[str, str], layer: Layer, workspace: Workspace) -> Filter | None:
    """OGC 17-069r4 clause 7.15.3, OGC 18-058r1 clause 6.2.3."""
    text = parameters.get("bbox")
    name = crs.DEFAULT
    if "bbox-crs" in parameters:
        name, _ = crs.parse(parameters["bbox-crs"], "bbox-crs", layer, workspace)
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) not in (4, 6) or not all(_NUMBER.fullmatch(part) for part in parts):
        raise InvalidParameter("bbox", f"'{text[:100]}' is no box of four or six numbers with commas in between.")
    x0, y0, x1, y1 = corners([float(part) for part in parts], "bbox")
    if name.swapped:
        x0, y0, x1, y1 = y0, x0, y1, x1
    value = box(x0, y0, x1, y1, "bbox", name.srid)
    if not layer.has_geometry:
        return None
    condition = Spatial(SpatialOperator.BBOX, Property(GEOMETRY), Literal(value, Kind.GEOMETRY))
    return bind_filter(condition, layer, parameter="bbox")


def temporal_field(layer: Layer) -> Field | None:
    """The property that ``datetime`` is about: the first that is a time, else the first that is a date."""
    for kind in (FieldKind.DATETIME, FieldKind.DATE):
        for field in layer.fields:
            if field.kind is kind:
                return field
    return None


def _datetime(text: str | None, layer: Layer) -> Filter | None:
    """An instant, or two with a slash, where ``..`` or nothing is unbounded (OGC 17-069r4 clause 7.15.4). Features of a
    collection without times are not chosen by it."""
    if text is None:
        return None
    parts = text.split("/")
    if len(parts) > 2 or not text:
        raise InvalidParameter("datetime", f"'{text[:80]}' is neither a time nor two with a slash in between.")
    begins = [_instant(part, last=False) for part in parts[:1]]
    ends = [_instant(part, last=True) for part in parts[-1:]]
    begin, end = begins[0], ends[0]
    if len(parts) == 1 and begin is None:
        raise InvalidParameter("datetime", "A single time cannot be unbounded.")
    if begin is not None and end is not None and begin > end:
        raise InvalidParameter("datetime", f"The period '{text[:80]}' ends before it begins.")
    field = temporal_field(layer)
    if field is None:
        return None
    period = Period(
        None if begin is None else Literal(begin, Kind.INSTANT), None if end is None else Literal(end, Kind.INSTANT)
    )
    condition = Temporal(TemporalOperator.INTERSECTS, Property(field.name), period)
    return bind_filter(condition, layer, parameter="datetime")


def _instant(text: str, *, last: bool) -> int | None:
    """A date stands for all of its day."""
    if text in ("", ".."):
        return None
    instant = parse_instant(text, "datetime")[0]
    return instant + DAY_US - 1 if last and len(text) == 10 else instant


def _filter(parameters: Mapping[str, str], layer: Layer, workspace: Workspace) -> Filter | None:
    """OGC 19-079r2 clause 8."""
    language = parameters.get("filter-lang", FILTER_LANGUAGES[0])
    if language not in FILTER_LANGUAGES:
        raise InvalidParameter(
            "filter-lang", f"The language '{language[:40]}' is not known; {' and '.join(FILTER_LANGUAGES)} are."
        )
    name = crs.DEFAULT
    if "filter-crs" in parameters:
        name, _ = crs.parse(parameters["filter-crs"], "filter-crs", layer, workspace)
    text = parameters.get("filter")
    if text is None:
        return None
    parsed = parse_cql2_text(text, name) if language == "cql2-text" else parse_cql2_json(text, name)
    return bind_filter(parsed, layer)


def _equals(field: Field, text: str, layer: Layer) -> Filter:
    """A queryable as a parameter of its own (OGC 19-079r2 clause 7)."""
    condition = Comparison(ComparisonOperator.EQUAL, Property(field.name), Literal(text))
    return bind_filter(condition, layer, parameter=field.name)
