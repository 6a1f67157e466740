"""``/datastore/stream/{id}``: new records of a table or procedure as server-sent events.

An answer waits until there are records with a greater ``_id`` than the client had last, gives them, and ends; the
client's ``EventSource`` comes again soon with ``Last-Event-ID``, as the standard has it. It would give up for good at
any answer but 200, so that as many as follow are answered together: what they all ask for is made once.

source  HTML Living Standard, section 9.2 (server-sent events)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote

import orjson

from thalweg.domain.tables import EVERYTHING, ROW_ID, AllOf, Compare, Operator, SortKey, Table, TableQuery
from thalweg.doors.ckan.errors import NoSuchPage, fault
from thalweg.doors.ckan.reading import Parameters
from thalweg.doors.ckan.rows import RowWriter
from thalweg.doors.ckan.search import query_of
from thalweg.doors.ckan.transport import default, pairs
from thalweg.doors.http import Deferred, Request, Response
from thalweg.services.followers import Followers, Together
from thalweg.services.services import Services

PATH: Final = "datastore/stream/"
EVENT_STREAM: Final = "text/event-stream;charset=UTF-8"
MAX_EVENTS: Final = 250
"""Records of one answer."""
MAX_LOOKED: Final = 100_000
"""Records that filters look through for one answer, some tenths of a second, as others wait for the same threads."""
MAX_BYTES: Final = 4 << 20
"""Their text together, but for the first one."""
WAIT_S: Final = 15.0
"""Longest wait; then the answer ends without a record, so that connections that nobody reads any more end, too."""
RETRY_MS: Final = 500
"""Until a client comes again: records of that time come together, and a hundred browsers behind one address stay within
what one client may ask."""
_KNOWN: Final = frozenset("after filters fields".split())
_HEADERS: Final = (("Cache-Control", "no-store"), ("Vary", "Cookie"))

_followers: Final = Followers("ckan-follow", "resources")
_events_made: Final = Together[bytes]("ckan-events")


def follow(request: Request, services: Services) -> Deferred:
    """Records after ``Last-Event-ID`` or ``after``; without either, those that come from now on."""
    if request.method != "GET":
        raise NoSuchPage("There is nothing to be posted here.")
    key = unquote(request.path.removeprefix(PATH))
    tables = services.tables
    table = tables.active_table(key, request.principal)
    given = pairs(request.query)
    read = Parameters(given)
    read.only(_KNOWN)
    query, _ = query_of(table, read, limit=MAX_EVENTS, offset=0, total=False)
    read.done()
    newest = tables.newest(table)
    after = _after(request, read, newest)

    ask = (id(tables), table.uuid, after, request.query)

    def make() -> bytes:
        return _events(tables.unguarded(table.uuid), query, after, services)

    def finish(body: bytes) -> Response:
        # It may have been closed to this caller meanwhile.
        tables.active_table(key, request.principal)
        return Response(body, EVENT_STREAM, 200, [*_HEADERS])

    if newest != after:
        return Deferred(_events_made.made(ask, make), finish)
    wait_s = min(WAIT_S, services.settings.request_timeout_s / 2)
    look = _followers.wait((id(tables), table.id), lambda: tables.newest(table), after, wait_s)
    return Deferred(_events_made.made_after(look, ask, make), finish)


def _after(request: Request, read: Parameters, newest: int) -> int:
    text = request.header(b"last-event-id") or read.text("after")
    if not text:
        return newest
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        raise fault("after", f"'{text[:40]}' is no _id of a record")
    return int(text)


def _events(table: Table, query: TableQuery, after: int, services: Services) -> bytes:
    """Events of the type ``record``: the ``_id`` as id, the record as data. The last id is that of the newest record
    looked at, whether it passes the filters or not."""
    newest = services.tables.newest(table)
    # Another file may have come, whose records count from 1: who had more of them goes on after these.
    after = min(after, newest)
    if query.where != EVERYTHING:
        newest = min(newest, _reach(table, after, newest, services))
    columns = query.fields or (ROW_ID, *(field.name for field in table.fields))
    bounds = (Compare(ROW_ID, Operator.GT, (after,)), Compare(ROW_ID, Operator.LTE, (newest,)))
    asked = replace(
        query, where=AllOf((*bounds, query.where)), sort=(SortKey(ROW_ID),), fields=(ROW_ID, *columns)
    )  # fmt: skip
    if ROW_ID in columns:
        asked = replace(asked, fields=columns)
    rows = services.tables.search(table, asked).run(MAX_EVENTS, 0).rows
    place = asked.fields.index(ROW_ID) if asked.fields is not None else 0
    lines, whole = [f"retry: {RETRY_MS}\nid: {after}\nevent: metadata\ndata: {table.uuid}\n\n".encode()], True
    size = 0
    for record, row in zip(_objects(table, columns, rows), rows, strict=True):
        data = orjson.dumps(record, default=default)
        size += len(data)
        if size > MAX_BYTES and len(lines) > 1:
            whole = False
            break
        lines.append(b"id: %d\nevent: record\ndata: %b\n\n" % (row[place], data))
    if whole and len(rows) < MAX_EVENTS and newest > after:
        lines.append(b"id: %d\nevent: metadata\ndata: %b\n\n" % (newest, table.uuid.encode()))
    return b"".join(lines)


def _reach(table: Table, after: int, newest: int, services: Services) -> int:
    """The number of the last record that one answer looks at."""
    where = Compare(ROW_ID, Operator.GT, (after,))
    query = TableQuery((ROW_ID,), where, sort=(SortKey(ROW_ID),), total=False)
    rows = services.tables.search(table, query).run(1, MAX_LOOKED - 1).rows
    return int(rows[0][0]) if rows else newest


def _objects(table: Table, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """``_id`` is read in any case, and left out where it is not among the columns."""
    shown = rows if ROW_ID in columns else [row[1:] for row in rows]
    return RowWriter(table, columns).objects(shown)
