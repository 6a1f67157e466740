"""datastore_search: parameters to a query, a page to an answer.

What a request leads to is remembered, whatever its offset: the table is looked up and the caller's right asked for
each time, all else is made once for each state of the table's fields.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from thalweg.domain.access import Principal
from thalweg.domain.errors import NotFound, ThalwegError
from thalweg.domain.tables import ROW_ID, AllOf, Search, SortKey, Table, TableQuery, TextTerm
from thalweg.doors.ckan.errors import JSON
from thalweg.doors.ckan.filters import condition_of
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
_HEADERS: Final = (("Vary", "Cookie"),)


@dataclass(slots=True)
class Prepared:
    """A search made ready for a table as it is.

    head, tail  the answer before the records and after them, in parts between which numbers go
    """

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


# ------------------------------------------------------------------ parameters


def prepare(table: Table, given: Mapping[str, Any], services: Services, call: Call) -> Prepared:
    """Raises ValidationError, InvalidParameter."""
    read = Parameters(given)
    read.only(_KNOWN)
    key = given.get("resource_id") or given.get("id")
    limit = min(read.natural("limit", DEFAULT_LIMIT), services.settings.ckan_rows_max)
    offset = read.natural("offset", 0)
    form = read.text("records_format", "objects")
    if form not in FORMATS:
        read.fault("records_format", f"Value must be one of {list(FORMATS)}")
    include_total = read.boolean("include_total", True)
    include_next = read.boolean("include_next_page", False)
    query = query_of(table, read, limit=limit, offset=offset, total=include_total)
    read.done()
    search = services.tables.search(table, query)
    writer = RowWriter(table, search.columns)
    # Echoed as CKAN does: what was given, and what counts without being given.
    echo: dict[str, Any] = {"include_next_page": include_next, "include_total": include_total, "limit": limit}
    after: dict[str, Any] = {"records_format": form, "resource_id": table.uuid}
    for name in ("filters", "q", "full_text", "sort", "plain", "language", "distinct", "total_estimation_threshold"):
        if name in given:
            after[name] = json_or(given[name]) if name in ("filters", "q") else given[name]
    if "fields" in given:
        # Answers describe the fields under the same name.
        after.pop("fields", None)
    start = head_of(call.site, call.name) + orjson.dumps(echo)[:-1]
    rest = b"," + orjson.dumps(after, default=default)[1:-1] + b',"records":'
    tail = b',"fields":' + orjson.dumps(writer.fields, default=default) + b',"_links":{"start":'
    next_page = 0
    by_id = query.sort in ((), (SortKey(ROW_ID),), (SortKey(ROW_ID, True),)) and not query.texts and not query.distinct
    if include_next and by_id and ROW_ID in search.columns:
        next_page = -1 if query.sort == (SortKey(ROW_ID, True),) else 1
    link = _link(call.request)
    return Prepared(
        str(key), table, search, writer, form, limit, offset, (start, rest), tail, link, next_page
    )  # fmt: skip


def _link(request: Request) -> str:
    """Path and query of the request without its offset."""
    text = urlencode([(name, value) for name, value in pairs(request.query).items() if name != "offset"], doseq=True)
    return f"/{request.path}?{text}" if text else f"/{request.path}"


def query_of(table: Table, read: Parameters, *, limit: int, offset: int, total: bool) -> TableQuery:
    """The query of a search or dump. Faults of single parameters are gathered, others raised."""
    where = AllOf(())
    filters = json_or(read.given.get("filters"))
    condition = condition_of(table, filters) if filters is not None and filters != "" else where
    plain = read.boolean("plain", True)
    texts = _texts(table, read, plain)
    distinct = read.boolean("distinct", False)
    names = {ROW_ID, *(field.name for field in table.fields)}
    if texts:
        names.add(RANK)
    fields = read.listed("fields") or ()
    for name in fields:
        if name not in names:
            read.fault("fields", f'invalid value "{name[:200]}"')
    return TableQuery(
        tuple(dict.fromkeys(fields)) or None,
        condition,
        texts,
        _sort(read, names),
        limit,
        offset,
        distinct,
        total,
    )


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
                read.fault("q", f'invalid value "{text}"')
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


def _sort(read: Parameters, names: set[str]) -> tuple[SortKey, ...]:
    keys: list[SortKey] = []
    for text in read.listed("sort") or ():
        match = _SORT.fullmatch(text.strip())
        name = match["name"].strip('"') if match is not None else ""
        if match is None or name not in names:
            read.fault("sort", f'invalid value "{text[:200]}"')
            continue
        nulls = match["nulls"]
        keys.append(
            SortKey(name, (match["way"] or "").lower() == "desc", None if nulls is None else nulls.lower() == "first")
        )
    return tuple(keys)


# ------------------------------------------------------------------ answering


def run(prepared: Prepared, offset: int, has_offset: bool) -> bytes:
    """The whole answer. Raises NotFound when the table has changed its place."""
    limit = prepared.limit
    page = prepared.search.run(limit, offset)
    rows = page.rows
    start, rest = prepared.head
    link = prepared.link
    joint = "&" if "?" in link else "?"
    links = orjson.dumps(link) + b',"next":' + orjson.dumps(f"{link}{joint}offset={offset + limit}")
    if offset - limit > 0:
        links += b',"prev":' + orjson.dumps(f"{link}{joint}offset={offset - limit}")
    parts = [
        start,
        b',"offset":%d' % offset if has_offset else b"",
        rest,
        prepared.writer.records(rows, prepared.form),
        prepared.tail,
        links,
        b"}",
    ]
    if page.total is not None:
        parts.append(b',"total":%d' % page.total)
    if prepared.next_page and rows:
        last = rows[-1][prepared.writer.columns.index(ROW_ID)]
        sign = b"gt" if prepared.next_page > 0 else b"lt"
        parts.append(b',"next_page":{"_id":{"%b":%d}}' % (sign, last))
    parts.append(b"}}")
    return b"".join(parts)


def datastore_search(call: Call, services: Services) -> Response:
    """Records of a table that match."""
    given = call.parameters
    read = Parameters(given)
    key = given.get("resource_id") or given.get("id")
    if not key:
        read.only(_KNOWN)
        read.fault("resource_id", "Missing value")
        read.done()
    if key == ALL_TABLES:
        return _all_tables(call, services)
    table = services.tables.active_table(str(key), call.request.principal)
    prepared = prepare(table, given, services, call)
    if is_short(prepared, services):
        return wrapped(call, _searched(call, prepared, services))
    response = wrapped(call, b"")
    response.body = in_thread(lambda: wrapped(call, _searched(call, prepared, services)))
    return response


def is_short(prepared: Prepared, services: Services) -> bool:
    """Whether a page takes no longer than may be taken on the event loop."""
    if prepared.limit > MAX_INLINE_ROWS:
        return False
    return prepared.search.is_quick or services.tables.figures(prepared.table).count <= MAX_INLINE_SCAN


def _searched(call: Call, prepared: Prepared, services: Services) -> bytes:
    given = call.parameters
    for _ in range(_TRIES):
        try:
            return run(prepared, prepared.offset, _gives_offset(given))
        except NotFound:
            # All its records were deleted at this moment, or it is gone: look again.
            table = services.tables.active_table(prepared.key, call.request.principal)
            prepared = prepare(table, given, services, call)
    return run(prepared, prepared.offset, _gives_offset(given))


def _gives_offset(given: Mapping[str, Any]) -> bool:
    return given.get("offset") not in (None, "")


def _all_tables(call: Call, services: Services) -> Response:
    """The tables the caller may read, as CKAN's view of them is asked for by clients that list tables."""
    read = Parameters(call.parameters)
    limit = min(read.natural("limit", DEFAULT_LIMIT), services.settings.ckan_rows_max)
    offset = read.natural("offset", 0)
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
        "include_total": True,
        "limit": limit,
        "records_format": "objects",
        "resource_id": ALL_TABLES,
        "records": records[offset : offset + limit],
        "fields": [
            {"id": "_id", "type": "text"},
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
        self._kept: OrderedDict[tuple[str, bytes, bytes, bytes], Prepared] = OrderedDict()
        self._lock = Lock()

    def quick(self, request: Request, services: Services) -> Response | None:
        """The answer to a request that is like one before; None: it has to be read. Raises NotFound and what the
        policy raises."""
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
            if table.generation == prepared.table.generation:
                if not is_short(prepared, services):
                    return None
                try:
                    return Response(run(prepared, offset, bool(places)), JSON, 200, [*_HEADERS])
                except NotFound:
                    return None
        try:
            prepared = self._make(request, text, bool(places), principal, services)
        except ThalwegError:
            # It is said again, and rightly, when the request itself is read.
            return None
        if prepared is None:
            return None
        with self._lock:
            self._kept[key] = prepared
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return None

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
        key = given.get("resource_id") or given.get("id")
        if not key or key == ALL_TABLES or not isinstance(key, str):
            return None
        table = services.tables.active_table(key, principal)
        return prepare(table, given, services, Call("datastore_search", given, shape))


def _without(match: re.Match[bytes]) -> bytes:
    return match[0][: match.start(1) - match.start(0)] + b"%d" % _STAND_IN
