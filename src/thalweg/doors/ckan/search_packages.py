"""package_search, and the small searches around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.packages import ANYTHING, Every, Node, PackageQuery, Words
from thalweg.doors.ckan.catalogue import shown
from thalweg.doors.ckan.documents import iso, only
from thalweg.doors.ckan.errors import SearchQueryError, fault
from thalweg.doors.ckan.package_query import Query, QueryError, read_sort
from thalweg.doors.ckan.reading import Parameters
from thalweg.doors.ckan.transport import Call, answer
from thalweg.doors.http import Response
from thalweg.services.services import Services

MAX_ROWS: Final = 1_000
"""Most packages of one page, as CKAN has it (ckan.search.rows_max)."""
MAX_FACETS: Final = 20
"""Most fields that are counted in one request."""
MAX_FACET_VALUES: Final = 1_000
"""Most values of a facet that are told, also where no bound is asked for."""
MAX_FILTERS: Final = 50
"""Most filter queries (``fq`` and ``fq_list``) of a request."""
_DEFAULT_SORT: Final = "score desc, metadata_modified desc"
_FACETS: Final = {
    "organization": "organization", "owner_org": "owner_org", "groups": "groups", "tags": "tags",
    "res_format": "res_format", "license_id": "license_id", "state": "state", "capacity": "capacity",
    "author": "author", "maintainer": "maintainer", "dataset_type": "dataset_type", "type": "dataset_type",
    "version": "version",
}  # fmt: skip
_ACTIVITIES: Final = 31


def package_search(call: Call, services: Services) -> Response:
    """Packages by words and fields: ``q``, ``fq``, ``fq_list``, ``sort``, ``rows``, ``start``, ``facet.field`` ..."""
    read = Parameters(call.parameters)
    try:
        sort = read_sort(read.text("sort") or _DEFAULT_SORT)
        where, words, fields = _condition(read, services)
    except QueryError as error:
        raise SearchQueryError(str(error)) from None
    # start and rows can be sent as 'offset' and 'limit', as for the other lists.
    rows = min(read.natural("rows", read.natural("limit", 10)), MAX_ROWS)
    start = read.natural("start", read.natural("offset", 0))
    facets = _facet_fields(read, services)
    limit = _integer(read, "facet.limit", 50)
    least = read.natural("facet.mincount", 1)
    wanted = read.listed("fl")
    read.done()
    query = PackageQuery(
        where,
        words,
        sort,
        rows,
        start,
        tuple(dict.fromkeys(facets.values())),
        MAX_FACET_VALUES if limit < 0 else min(limit, MAX_FACET_VALUES),
        max(least, 1),
        private=read.boolean("include_private", False),
        inactive=read.boolean("include_deleted", False) or read.boolean("include_drafts", False) or "state" in fields,
    )
    try:
        page = services.packages.search(query, call.request.principal)
    except InvalidParameter as error:
        raise SearchQueryError(error.message) from None
    titles = _titles(services)
    told = {name: page.facets[field] for name, field in facets.items()}
    return answer(
        call,
        {
            "count": page.count,
            "sort": read.text("sort") or _DEFAULT_SORT,
            "results": [only(shown(package, call, services), wanted) for package in page.packages],
            "facets": {name: dict(values) for name, values in told.items()},
            "search_facets": {
                name: {
                    "title": name,
                    "items": [
                        {"name": value, "display_name": titles.get((facets[name], value), value), "count": count}
                        for value, count in values
                    ],
                }
                for name, values in told.items()
            },
        },
    )


def _condition(read: Parameters, services: Services) -> tuple[Node, tuple[Words, ...], set[str]]:
    """What is asked for, the words to rank by, and the fields that were named."""
    vocabularies: Mapping[str, str] = {v.name: v.uuid for v in services.packages.vocabularies()}
    text = read.text("q").strip()
    asked = Query("" if text == "*:*" else text, vocabularies, lenient=True)
    filters = read.given.get("fq")
    texts = [item for item in (filters if isinstance(filters, list) else [filters]) if isinstance(item, str)]
    texts += read.listed("fq_list") or []
    if len(texts) > MAX_FILTERS:
        raise QueryError(f"There are more than {MAX_FILTERS} filter queries.")
    parts = [asked.node]
    fields = set(asked.fields)
    for item in texts:
        further = Query(item, vocabularies)
        parts.append(further.node)
        fields |= further.fields
    parts = [part for part in parts if part != ANYTHING]
    return Every(tuple(parts)), tuple(asked.words), fields


def _facet_fields(read: Parameters, services: Services) -> dict[str, str]:
    """Fields to count by the names the client has for them."""
    if not read.boolean("facet", True):
        return {}
    names = read.listed("facet.field") or []
    if len(names) > MAX_FACETS:
        raise fault("facet.field", f"More than {MAX_FACETS} fields")
    found: dict[str, str] = {}
    for name in names:
        if name.startswith("vocab_"):
            uuids = {v.name: v.uuid for v in services.packages.vocabularies()}
            found[name] = f"vocabulary {uuids.get(name[6:], '')}"
        else:
            found[name] = _FACETS.get(name) or (name if name.startswith("extras_") else f"extras_{name}")
    return found


def _titles(services: Services) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for workspace in services.catalogue.workspaces().values():
        found["organization", workspace.name] = workspace.title or workspace.name
    for group in services.packages.groups():
        found["groups", group.name] = group.title or group.name
    return found


def _integer(read: Parameters, name: str, default: int) -> int:
    """An integer, which may be negative."""
    text = read.text(name)
    if text.startswith("-") and text[1:].isdigit():
        return -1
    return read.natural(name, default)


def package_autocomplete(call: Call, services: Services) -> Response:
    """Packages with words in name or title that begin so."""
    read = Parameters(call.parameters)
    text = read.required("q")[:200]
    limit = min(read.natural("limit", 10), 100)
    read.done()
    words = text.split()
    if not words:
        return answer(call, [])
    where = Every(tuple(Words(word, prefix=True) for word in words))
    query = PackageQuery(where, (Words(text, prefix=True),), limit=limit, private=True)
    found = services.packages.search(query, call.request.principal).packages
    return answer(
        call,
        [
            {
                "name": package.name,
                "title": package.title or package.name,
                "match_field": "name" if text.lower() in package.name else "title",
                "match_displayed": f"{package.title} ({package.name})" if package.title else package.name,
            }
            for package in found
        ],
    )


def format_autocomplete(call: Call, services: Services) -> Response:
    """Formats of resources that contain a text, those of most packages first, in small letters."""
    read = Parameters(call.parameters)
    text = read.required("q")[:200]
    limit = min(read.natural("limit", 5), 100)
    read.done()
    found = services.packages.values("res_format", call.request.principal, containing=text, limit=MAX_FACET_VALUES)
    found.sort(key=lambda item: (-item[1], item[0]))
    return answer(call, list(dict.fromkeys(name.lower() for name, _ in found))[:limit])


def recently_changed_packages_activity_list(call: Call, services: Services) -> Response:
    """The packages changed last, each with its last change alone: earlier ones are in the audit log."""
    read = Parameters(call.parameters)
    limit, offset = min(read.natural("limit", _ACTIVITIES), 100), read.natural("offset", 0)
    read.done()
    activities: list[dict[str, Any]] = []
    for package in services.packages.changed_last(call.request.principal, limit=limit, offset=offset):
        new = package.created_us == package.modified_us
        activities.append(
            {
                "id": f"{package.uuid}:{package.generation}",
                "timestamp": iso(package.modified_us),
                "object_id": package.uuid,
                "activity_type": "new package" if new else "changed package",
                "data": {"package": shown(package, call, services)},
            }
        )
    return answer(call, activities)
