"""datastore_search: parameters to a query, a page to an answer.

What a request leads to is remembered, whatever its offset: the table is looked up and the caller's right asked for
each time, all else is made once for each state of the table's fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from thalweg.domain.access import Principal
from thalweg.domain.bounded import Bounded
from thalweg.domain.errors import NotFound, ThalwegError
from thalweg.domain.tables import ROW_ID, AllOf, Page, Search, SortKey, Table, TableQuery, TextTerm
from thalweg.doors.ckan.filters import condition_of, operations_of
from thalweg.doors.ckan.reading import Parameters, json_or
from thalweg.doors.ckan.rows import RANK, RowWriter
from thalweg.doors.ckan.transport import Call, answer, default, head_of, in_thread, pairs, parameters_of, wrapped
from thalweg.doors.http import Request, Response
from thalweg.services.services import Services

DEFAULT_LIMIT: Final = 100
ALL_TABLES: Final = "_table_metadata"
FORMATS: Final = ("objects", "lists", "csv", "tsv")
_KNOWN: Final = frozenset(
    "resource_id id filters q full_text plain language distinct limit offset fields sort include_total records_format "
    "include_next_page total_estimation_threshold".split()
)
_TRIES: Final = 3
MAX_INLINE_ROWS: Final = 1_000
"""Longest page that is made on the event loop: some three milliseconds."""
MAX_INLINE_SCAN: Final = 10_000
"""Records of a table that is looked through on the event loop; others are in a thread."""


@dataclass(slots=True)
class Prepared:
    """A search made ready for a table as it is.

    call        the request, or one like it that anybody else may have made
    head, tail  the answer before the records and after them, in parts between which numbers go
    next_page   -1, 1: by which way records follow one another, where that is told; otherwise 0
    hides_id    whether rows end with their number, which was not asked for
    """

    call: Call
    key: str
    table: Table
    search: Search
    writer: RowWriter
    form: str
    limit: int
    offset: int
    head: tuple[bytes, bytes]
    tail: bytes
    link: str
    next_page: int
    hides_id: bool


# ------------------------------------------------------------------ parameters


def prepare(table: Table, given: Mapping[str, Any], services: Services, call: Call) -> Prepared:
    """Raises ValidationError, InvalidParameter."""
    read = Parameters(given)
    read.only(_KNOWN)
    key = _key(given)
    limit = min(read.limit(DEFAULT_LIMIT), services.settings.ckan_rows_max)
    offset = read.offset()
    form = read.text("records_format") or "objects"
    if form not in FORMATS:
        read.fault("records_format", f"Value must be one of {list(FORMATS)}")
    include_total = read.boolean("include_total", True)
    include_next = read.boolean("include_next_page", False)
    query, names = query_of(table, read, limit=limit, offset=offset, total=include_total)
    read.done()
    next_page = _next_page(query) if include_next else 0
    hides_id = next_page != 0 and query.fields is not None and ROW_ID not in query.fields
    if hides_id:
        query = replace(query, fields=(*(query.fields or ()), ROW_ID))
    search = services.tables.search(table, query)
    writer = RowWriter(table, search.columns[:-1] if hides_id else search.columns, names)
    # Echoed as CKAN does: what was given, and what counts without being given.
    echo: dict[str, Any] = {"include_next_page": include_next, "include_total": include_total, "limit": limit}
    after: dict[str, Any] = {"records_format": form, "resource_id": table.uuid}
    for name in ("filters", "q", "full_text", "sort", "language", "total_estimation_threshold"):
        if given.get(name) is not None:
            after[name] = json_or(given[name]) if name in ("filters", "q") else given[name]
    for name in ("plain", "distinct"):
        if given.get(name) is not None:
            after[name] = read.boolean(name, False)
    if after.get("filters"):
        after["filterops"] = operations_of(after["filters"])
    start = head_of(call.site, call.name) + orjson.dumps(echo)[:-1]
    rest = b"," + orjson.dumps(after, default=default)[1:-1] + b',"records":'
    tail = b',"fields":' + orjson.dumps(writer.fields, default=default) + b',"_links":{"start":'
    link = _link(call.request)
    return Prepared(
        call, str(key), table, search, writer, form, limit, offset, (start, rest), tail, link, next_page, hides_id
    )  # fmt: skip


def _key(given: Mapping[str, Any]) -> Any:
    """What names the table: of the two parameters, ``id`` counts, as in CKAN."""
    return given.get("id") or given.get("resource_id")


def _next_page(query: TableQuery) -> int:
    """1, -1: the way in which each page goes on after the last number of the one before; 0: it does not."""
    if query.texts or query.distinct:
        return 0
    return {(): 1, (SortKey(ROW_ID),): 1, (SortKey(ROW_ID, True),): -1}.get(query.sort, 0)


def _link(request: Request) -> str:
    """Path and query of the request without its offset."""
    text = urlencode([(name, value) for name, value in pairs(request.query).items() if name != "offset"], doseq=True)
    return f"/{request.path}?{text}" if text else f"/{request.path}"


def query_of(
    table: Table, read: Parameters, *, limit: int, offset: int, total: bool
) -> tuple[TableQuery, tuple[str, ...] | None]:
    """The query of a search or dump, and what its columns are called where it is not as they are.

    A column of ranks is called ``rank``, and ``rank NAME`` where the words of one field are looked for.
    Faults of single parameters are gathered, others raised.
    """
    filters = json_or(read.given.get("filters"))
    condition = AllOf(()) if filters is None else condition_of(table, filters)
    plain = read.boolean("plain", True)
    texts = _texts(table, read, plain)
    distinct = read.boolean("distinct", False)
    names = (ROW_ID, *(field.name for field in table.fields))
    ranks = dict.fromkeys(RANK if term.field is None else f"{RANK} {term.field}" for term in texts)
    fields = tuple(dict.fromkeys(map(_unquoted, read.listed("fields") or ())))
    for name in fields:
        if name not in names and name not in ranks:
            read.fault("fields", f'invalid value "{name[:200]}"')
    if not fields and any(name != RANK for name in ranks):
        fields = (*names, *ranks)
    columns = tuple(name if name in names else RANK for name in fields)
    sort = _sort(read, {*names, *ranks, *([RANK] if ranks else ())})
    sort = tuple(key if key.field in names else replace(key, field=RANK) for key in sort)
    query = TableQuery(columns or None, condition, texts, sort, limit, offset, distinct, total)
    return query, None if columns == fields else fields


def _texts(table: Table, read: Parameters, plain: bool) -> tuple[TextTerm, ...]:
    terms: list[TextTerm] = []
    q = json_or(read.given.get("q"))
    if isinstance(q, dict):
        for name, text in q.items():
            if table.field(name) is None:
                read.fault("q", f'invalid value "{name[:200]}"')
            elif isinstance(text, str | int | float):
                terms.append(TextTerm(str(text), name, plain))
            else:
                read.fault("q", f'invalid value "{name[:200]}"')
    elif q is not None and q != "":
        if isinstance(q, list):
            read.fault("q", "q must be a text or a dict of texts")
        else:
            terms.append(TextTerm(str(read.given["q"]), None, plain))
    full_text = read.given.get("full_text")
    if full_text is not None and full_text != "":
        terms.append(TextTerm(str(full_text), None, plain))
    return tuple(terms)


_SORT: Final = re.compile(
    r"(?P<name>\"[^\"]+\"|.+?)(?:\s+(?P<way>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?", re.I
)


def _unquoted(name: str) -> str:
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] == '"' else name


def _sort(read: Parameters, names: set[str]) -> tuple[SortKey, ...]:
    keys: list[SortKey] = []
    for text in read.listed("sort") or ():
        match = _SORT.fullmatch(text.strip())
        name = _unquoted(match["name"]) if match is not None else ""
        if match is None or name not in names:
            read.fault("sort", f'invalid value "{text[:200]}"')
            continue
        nulls = match["nulls"]
        keys.append(
            SortKey(name, (match["way"] or "").lower() == "desc", None if nulls is None else nulls.lower() == "first")
        )
    return tuple(keys)


# ------------------------------------------------------------------ answering


def at_once(prepared: Prepared, offset: int, has_offset: bool, services: Services) -> bytes | None:
    """The whole answer; None if that takes longer than may be taken on the event loop. Raises NotFound when the table
    has changed its place."""
    limit, search = prepared.limit, prepared.search
    if limit > MAX_INLINE_ROWS:
        return None
    if search.is_quick or services.tables.figures(prepared.table).count <= MAX_INLINE_SCAN:
        return written(prepared, search.run(limit, offset), offset, has_offset)
    page = search.attempt(limit, offset)
    return None if page is None else written(prepared, page, offset, has_offset)


def run(prepared: Prepared, offset: int, has_offset: bool) -> bytes:
    """The whole answer, however long it takes. Raises NotFound when the table has changed its place."""
    return written(prepared, prepared.search.run(prepared.limit, offset), offset, has_offset)


def written(prepared: Prepared, page: Page, offset: int, has_offset: bool) -> bytes:
    """The answer that a page is given in."""
    limit, rows = prepared.limit, page.rows
    start, rest = prepared.head
    link = prepared.link
    joint = "&" if "?" in link else "?"
    shown = [row[:-1] for row in rows] if prepared.hides_id else rows
    links = orjson.dumps(link) + b',"next":' + orjson.dumps(f"{link}{joint}offset={offset + limit}")
    if offset - limit > 0:
        links += b',"prev":' + orjson.dumps(f"{link}{joint}offset={offset - limit}")
    parts = [
        start,
        b',"offset":%d' % offset if has_offset else b"",
        rest,
        prepared.writer.records(shown, prepared.form),
        prepared.tail,
        links,
        b"}",
    ]
    if page.total is not None:
        parts.append(b',"total":%d' % page.total)
    if prepared.next_page and rows:
        last = rows[-1][prepared.search.columns.index(ROW_ID)]
        sign = b"gt" if prepared.next_page > 0 else b"lt"
        parts.append(b',"next_page":{"_id":{"%b":%d}}' % (sign, last))
    parts.append(b"}}")
    return b"".join(parts)


def datastore_search(call: Call, services: Services) -> Response:
    """Records of a table that match."""
    given = call.parameters
    read = Parameters(given)
    key = _key(given)
    if not key:
        read.fault("resource_id", "Missing value")
        read.done()
    if key == ALL_TABLES:
        return _all_tables(call, services)
    table = services.tables.active_table(str(key), call.request.principal)
    prepared = prepare(table, given, services, call)
    return _searched(call, prepared, prepared.offset, given.get("offset") not in (None, ""), services)


def _searched(call: Call, prepared: Prepared, offset: int, has_offset: bool, services: Services) -> Response:
    """A page at once, or else from a thread."""
    try:
        found = at_once(prepared, offset, has_offset, services)
    except NotFound:
        # Its records were moved at this moment: it is looked up again in the thread.
        found = None
    response = wrapped(call, found or b"")
    if found is None:
        principal = call.request.principal
        response.body = in_thread(lambda: wrapped(call, _looked_up(prepared, offset, has_offset, principal, services)))
    return response


def _looked_up(prepared: Prepared, offset: int, has_offset: bool, principal: Principal, services: Services) -> bytes:
    for _ in range(_TRIES):
        try:
            return run(prepared, offset, has_offset)
        except NotFound:
            # All its records were deleted at this moment, or it is gone: look again.
            table = services.tables.active_table(prepared.key, principal)
            prepared = prepare(table, prepared.call.parameters, services, prepared.call)
    return run(prepared, offset, has_offset)


def _all_tables(call: Call, services: Services) -> Response:
    """The tables the caller may read, as CKAN's view of them is asked for by clients that list tables."""
    read = Parameters(call.parameters)
    limit = min(read.limit(DEFAULT_LIMIT), services.settings.ckan_rows_max)
    offset = read.offset()
    read.done()
    response = wrapped(call, b"")
    # In a thread: there may be thousands, of procedures too.
    response.body = in_thread(lambda: _listed_tables(call, services, limit, offset))
    return response


def _listed_tables(call: Call, services: Services, limit: int, offset: int) -> Response:
    records: list[dict[str, Any]] = []
    for table in services.tables.active_tables(call.request.principal):
        records.append({"_id": len(records) + 1, "name": table.uuid, "oid": table.id, "alias_of": None})
        for alias in table.aliases:
            records.append({"_id": len(records) + 1, "name": alias, "oid": table.id, "alias_of": table.uuid})
    result = {
        "include_next_page": False,
        "include_total": True,
        "limit": limit,
        "records_format": "objects",
        "resource_id": ALL_TABLES,
        "records": records[offset : offset + limit],
        "fields": [
            {"id": "_id", "type": "int"},
            {"id": "name", "type": "name"},
            {"id": "oid", "type": "oid"},
            {"id": "alias_of", "type": "name"},
        ],
        "total": len(records),
    }
    return answer(call, result)


# ------------------------------------------------------------------ remembered

MAX_KEPT: Final = 2_000
MAX_KEY: Final = 4_096
"""Longest query and body that are remembered, bytes; longer requests do more than be parsed."""
_OFFSET: Final = re.compile(rb'(?:(?:^|(?<=&))offset=|"offset":\s?)(0|[1-9][0-9]{0,14})(?=&|$|[,}\s])')
_STAND_IN: Final = 913_846_205_771


class Remembered:
    """Searches by the text of their request. For all threads."""

    def __init__(self) -> None:
        self._kept: Bounded[tuple[str, bytes, bytes, bytes], Prepared] = Bounded(MAX_KEPT)

    def quick(self, request: Request, services: Services) -> Response | None:
        """The answer to a request of which only the offset may differ from one before, or will from those after; None:
        it has to be read as a whole. Raises NotFound and what the policy raises."""
        query, body = request.query, request.body
        if len(query) + len(body) > MAX_KEY:
            return None
        is_post = request.method == "POST"
        text = body if is_post else query
        offset = 0
        places = _OFFSET.findall(text)
        if places:
            if len(places) > 1:
                return None
            offset = int(places[0])
            text = _OFFSET.sub(_without, text)
        content_type = request.header(b"content-type").encode("latin-1", "replace") if is_post else b""
        key = (request.path, text, query if is_post else b"", content_type)
        prepared = self._kept.get(key)
        principal = request.principal
        if prepared is not None:
            table = services.tables.active_table(prepared.key, principal)
            if table.generation != prepared.table.generation:
                prepared = None
        if prepared is None:
            try:
                prepared = self._make(request, text, bool(places), principal, services)
            except ThalwegError:
                # It is said again, and rightly, when the request itself is read.
                return None
            if prepared is None:
                return None
            self._kept.put(key, prepared)
        call = Call("datastore_search", prepared.call.parameters, request)
        return _searched(call, prepared, offset, bool(places), services)

    @staticmethod
    def _make(
        request: Request, text: bytes, has_offset: bool, principal: Principal, services: Services
    ) -> Prepared | None:
        """What a request with that text leads to, if its offset is really where it was found."""
        shape = Request(
            request.method, request.path, request.query if request.method == "POST" else text, request.headers,
            text if request.method == "POST" else b"", request.workspace, request.base_url, principal,
        )  # fmt: skip
        given, callback = parameters_of(shape, changes=False)
        if callback:
            return None
        if str(given.get("offset", "")) != (str(_STAND_IN) if has_offset else ""):
            return None
        key = _key(given)
        if not key or key == ALL_TABLES or not isinstance(key, str):
            return None
        table = services.tables.active_table(key, principal)
        return prepare(table, given, services, Call("datastore_search", given, shape))


def _without(match: re.Match[bytes]) -> bytes:
    return match[0][: match.start(1) - match.start(0)] + b"%d" % _STAND_IN
