"""Addresses of a view's buckets, and the relations that lead to them: pure functions on their keys.

A bucket is known by its query string, percent-encoded and with its parameters in the order of the view's fragmentation
list: ``tile=13%2F4197%2F2732&year=2021&month=01``.

Source: TREE hypermedia specification, relation types and their meaning; tiles as slippy maps number them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote, unquote

from thalweg.domain.streams import (
    GEO_AS_WKT,
    GRANULARITIES,
    UNKNOWN,
    Fragmentation,
    GeospatialFragmentation,
    Granularity,
    ReferenceFragmentation,
    Relation,
    RelationType,
    SubstringFragmentation,
    TimeFragmentation,
    View,
)

PAGE_NUMBER: Final = "pageNumber"
MAX_PAGE_DIGITS: Final = 12
ROOT_TILE: Final = "0/0/0"
WKT_LITERAL: Final = "http://www.opengis.net/ont/geosparql#wktLiteral"
DATE_TIME: Final = "http://www.w3.org/2001/XMLSchema#dateTime"
STRING: Final = "http://www.w3.org/2001/XMLSchema#string"
CRS84: Final = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"


def part(key: str, value: str) -> str:
    """One parameter of a query string."""
    return f"{key}={quote(value, safe='')}"


def join(parts: Iterable[str]) -> str:
    return "&".join(parts)


def canonical(view: View, query: Sequence[tuple[str, str]]) -> tuple[str, int | None] | None:
    """Bucket and page that decoded parameters name, in whatever order; None if no node of the view has such ones."""
    given = dict(query)
    if len(given) != len(query):
        return None
    page: int | None = None
    number = given.pop(PAGE_NUMBER, None)
    if number is not None:
        if not number.isascii() or not number.isdigit() or len(number) > MAX_PAGE_DIGITS or number.startswith("0"):
            return None
        page = int(number)
    parts = [part(key, given.pop(key)) for key in view.keys if key in given]
    if given:
        return None
    return join(parts), page


# ---------------------------------------------------------------- relations


def relations_to(view: View, query: str, members: int) -> tuple[Relation, ...]:
    """The relations that lead from a bucket to the one below it with that query string."""
    pairs = [(key, unquote(value)) for key, _, value in (item.partition("=") for item in query.split("&"))]
    key, value = pairs[-1]
    fragmentation = _owner(view.fragmentation, key)
    plain = (Relation(RelationType.PLAIN, query, remaining=members),)
    if value == UNKNOWN or fragmentation is None:
        return plain
    if isinstance(fragmentation, GeospatialFragmentation):
        if value == ROOT_TILE:
            return plain
        z, x, y = map(int, value.split("/"))
        return (
            Relation(
                RelationType.CONTAINS, query, GEO_AS_WKT, f"<{CRS84}> {tile_polygon(z, x, y)}", WKT_LITERAL, members
            ),
        )
    if isinstance(fragmentation, TimeFragmentation):
        own = [int(text) for name, text in pairs if name in fragmentation.keys]
        begin, end = time_bounds(own)
        path = fragmentation.path
        if end is None:
            return (Relation(RelationType.GREATER_OR_EQUAL, query, path, begin, DATE_TIME, members),)
        return (
            Relation(RelationType.GREATER_OR_EQUAL, query, path, begin, DATE_TIME, members),
            Relation(RelationType.LESS, query, path, end, DATE_TIME, members),
        )
    if isinstance(fragmentation, ReferenceFragmentation):
        return (Relation(RelationType.EQUAL, query, fragmentation.path, value, "", members),)
    return (Relation(RelationType.PREFIX, query, fragmentation.path, value, STRING, members),)


def _owner(fragmentations: Iterable[Fragmentation], key: str) -> Fragmentation | None:
    """The strategy whose key it is."""
    for item in fragmentations:
        if key in item.keys:
            return item
    return None


def tile_polygon(z: int, x: int, y: int) -> str:
    """The tile's outline as WKT, longitude before latitude: north-east, south-east, south-west, north-west corner."""
    west, south, east, north = tile_bounds(z, x, y)
    corners = ((east, north), (east, south), (west, south), (west, north), (east, north))
    return f"POLYGON (({', '.join(f'{x!r} {y!r}' for x, y in corners)}))"


def tile_bounds(z: int, x: int, y: int) -> tuple[float, float, float, float]:
    """West, south, east, north in degrees."""
    n = 1 << z
    return x / n * 360.0 - 180.0, _latitude(y + 1, n), (x + 1) / n * 360.0 - 180.0, _latitude(y, n)


def _latitude(y: int, n: int) -> float:
    return math.degrees(math.atan(math.sinh(math.pi - 2.0 * math.pi * y / n)))


def time_bounds(parts: Sequence[int]) -> tuple[str, str | None]:
    """First instant of a year, month, ... and the first after it, as ``xsd:dateTime`` in UTC; None past year 9999."""
    granularity = GRANULARITIES[len(parts) - 1]
    filled = [*parts, *(1, 1, 1, 0, 0, 0)[len(parts) :]]
    begin = datetime(*filled, tzinfo=UTC)  # type: ignore[misc,arg-type]
    try:
        end = _following(begin, granularity)
    except (OverflowError, ValueError):
        return _lexical(begin), None
    return _lexical(begin), _lexical(end)


def _following(begin: datetime, granularity: Granularity) -> datetime:
    if granularity is Granularity.YEAR:
        return begin.replace(year=begin.year + 1)
    if granularity is Granularity.MONTH:
        return begin.replace(year=begin.year + begin.month // 12, month=begin.month % 12 + 1)
    return begin + timedelta(**{granularity.value + "s": 1})


def _lexical(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat().rjust(19, "0") + "Z"


# ---------------------------------------------------------------- keys of time and text


def time_parts(moment: datetime, granularity: Granularity) -> tuple[str, ...]:
    """Parameters of a moment in UTC, from the year down: ``year=2021``, ``month=01`` ..."""
    values = (
        f"{moment.year:04d}",
        f"{moment.month:02d}",
        f"{moment.day:02d}",
        f"{moment.hour:02d}",
        f"{moment.minute:02d}",
        f"{moment.second:02d}",
    )
    depth = GRANULARITIES.index(granularity) + 1
    return tuple(f"{GRANULARITIES[i].value}={values[i]}" for i in range(depth))


def substrings(text: str, fragmentation: SubstringFragmentation) -> tuple[str, ...]:
    """Parameters of a text's beginnings, shortest first; none for an empty text."""
    return tuple(part("substring", text[:n]) for n in range(1, min(len(text), fragmentation.length) + 1))
