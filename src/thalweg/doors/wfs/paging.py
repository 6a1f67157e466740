"""Links to other pages of an answer: the request again, as key-value pairs, with another place to begin.

A request in XML is written as pairs, its filters as XML in a pair. A link that would be longer than the server takes is
left out.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from urllib.parse import quote

from lxml import etree

from thalweg.doors.wfs.context import Context
from thalweg.doors.wfs.request import (
    AnyQuery,
    FilterXml,
    GetFeature,
    GetPropertyValue,
    Query,
    StoredQueryCall,
)
from thalweg.encode.xml_elements import serialized

_OF_PAGES: Final = frozenset(("startindex", "count", "maxfeatures", "resulttype", "startafter", "endbefore"))
_ROOM_BYTES: Final = 1024
"""Left of the longest URL for what proxies and path prefixes add."""
_SAFE: Final = "!$'()*,;:@/?-._~"

Pairs = list[tuple[str, str]]


def page_links(
    asked: GetFeature | GetPropertyValue,
    context: Context,
    *,
    limit: int,
    more: bool,
    first: int | None = None,
    last: int | None = None,
) -> tuple[str, str]:
    """Addresses of the next and the previous page; empty where there is none.

    limit        features of a page
    more         whether features follow
    first, last  numbers of the features of this page, where pages go by them (``anchors.py``)
    """
    start = asked.start_index
    following = ""
    if more and limit:
        anchor = "" if last is None else f"&startAfter={last}"
        following = _link(asked, context, start + limit, limit, anchor)
    before = ""
    if start > 0 and limit:
        anchor = "" if first is None else f"&endBefore={first}"
        before = _link(asked, context, max(0, start - limit), min(limit, start), anchor)
    return following, before


def first_page(asked: GetFeature | GetPropertyValue, context: Context, count: int) -> str:
    """Address of the first page with features, from a request for their number (OGC 09-025r2 clause 7.7.4.4.1)."""
    return _link(asked, context, asked.start_index, count)


def _link(asked: GetFeature | GetPropertyValue, context: Context, start: int, count: int, anchor: str = "") -> str:
    pairs = asked.pairs or _pairs(asked, context)
    if pairs is None:
        return ""
    url = f"{context.base_url}?{_kept(tuple(pairs))}startIndex={start}&count={count}{anchor}"
    return url if len(url) + _ROOM_BYTES <= context.services.settings.max_url_bytes else ""


@lru_cache(maxsize=1024)
def _kept(pairs: tuple[tuple[str, str], ...]) -> str:
    """All of a request but what says which page it is, each pair with an ampersand behind."""
    return "".join(
        f"{quote(name, safe=_SAFE)}={quote(value, safe=_SAFE)}&"
        for name, value in pairs
        if name.lower() not in _OF_PAGES
    )


def _pairs(asked: GetFeature | GetPropertyValue, context: Context) -> Pairs | None:
    """The request as pairs; None where pairs cannot say it."""
    queries: tuple[AnyQuery, ...]
    if isinstance(asked, GetFeature):
        name, queries = "GetFeature", asked.queries
    else:
        name, queries = "GetPropertyValue", (asked.query,)
    pairs: Pairs = [("service", "WFS"), ("version", asked.version), ("request", name)]
    if isinstance(asked, GetPropertyValue):
        pairs.append(("valueReference", asked.value_reference))
    if asked.output_format:
        pairs.append(("outputFormat", asked.output_format))
    ad_hoc = [query for query in queries if isinstance(query, Query)]
    if len(ad_hoc) < len(queries):
        # Only a stored query alone can be said in pairs.
        if len(queries) > 1 or not isinstance(queries[0], StoredQueryCall):
            return None
        return pairs + _stored(queries[0])
    said = _ad_hoc(ad_hoc, context)
    return None if said is None else pairs + said


def _stored(call: StoredQueryCall) -> Pairs:
    pairs: Pairs = [("storedquery_id", call.id)]
    bound = ",".join(f"xmlns({prefix},{uri})" for prefix, uri in call.namespaces.items() if prefix)
    if bound:
        pairs.append(("namespaces", bound))
    for name, value in call.values.items():
        pairs.append((name, serialized(value).decode() if isinstance(value, etree._Element) else value))
    return pairs


def _ad_hoc(queries: list[Query], context: Context) -> Pairs | None:
    if len({None if query.srs_name is None else query.srs_name.text for query in queries}) > 1:
        return None
    names = [",".join(f"{context.prefix}:{item.name}" for item in query.types) for query in queries]
    # In parentheses several types of one query are a join.
    pairs: Pairs = [("typeNames", f"({names[0]})" if len(names) == 1 else _joined(names))]
    if any(query.aliases for query in queries):
        pairs.append(("aliases", _joined([",".join(query.aliases) for query in queries])))
    if queries[0].srs_name is not None:
        pairs.append(("srsName", queries[0].srs_name.text))
    if any(query.property_names for query in queries):
        pairs.append(("propertyName", _joined([",".join(query.property_names or ("*",)) for query in queries])))
    if any(query.sort_by for query in queries):
        sorting = [
            ",".join(f"{k.name} {'DESC' if k.descending else 'ASC'}" for k in query.sort_by) for query in queries
        ]
        pairs.append(("sortBy", _joined(sorting)))
    conditions = [query.condition for query in queries]
    if any(condition is not None for condition in conditions):
        texts = []
        for condition in conditions:
            if condition is not None and not isinstance(condition, FilterXml):
                return None
            texts.append("" if condition is None else serialized(condition.element).decode())
        pairs.append(("filter", _joined(texts)))
    return pairs


def _joined(items: list[str]) -> str:
    """Lists of several queries in parentheses, and so a list of several types, which is a join."""
    if len(items) == 1:
        return items[0]
    return "".join(f"({item})" for item in items)
