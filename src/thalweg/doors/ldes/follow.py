"""Live following: server-sent events of members, in the order of acknowledgement.

An answer waits until there are members after the one that the client had last, gives them, and ends; the client's
``EventSource`` comes again soon with ``Last-Event-ID``, as the standard has it. No thread and no transaction is held
while it waits: one thread a process asks the store for the newest sequence of each stream that is followed.

source  HTML Living Standard, section 9.2 (server-sent events)
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.streams import EventStream, StoredMember
from thalweg.doors.http import Deferred, Request, Response
from thalweg.doors.ldes.answer import find_stream, head
from thalweg.encode.rdf.syntax import EVENT_STREAM
from thalweg.services.followers import Followers
from thalweg.services.services import Services

MAX_EVENTS: Final = 250
"""Members of one answer."""
MAX_BYTES: Final = 4 << 20
"""Their text together, but for the first one."""
WAIT_S: Final = 15.0
"""Longest wait; then the answer ends without a member, so that connections that nobody reads any more end, too."""
RETRY_MS: Final = 500
"""Until a client comes again: members of that time come together, and a hundred clients behind one address stay within
what one may ask."""

followers: Final = Followers("ldes-follow", "streams")


def follow(request: Request, services: Services, stream: EventStream) -> Response | Deferred:
    """Members after ``Last-Event-ID`` (or ``?after=``; without either: those that come from now on)."""
    streams = services.streams
    newest = streams.state(stream).sequence
    after = _after(request, newest)
    headers = [item for item in head(services, public=False) if item[0] != "Cache-Control"]
    headers.append(("Cache-Control", "no-store"))

    def finish(_: object) -> Response:
        body = events(streams.members(stream, after, limit=MAX_EVENTS), stream, after)
        return Response(body, f"{EVENT_STREAM};charset=UTF-8", 200, headers)

    def finish_later(_: object) -> Response:
        # It may have been closed to this caller, or deleted, while the answer waited.
        find_stream(request, services, stream.name)
        return finish(None)

    if newest > after:
        return finish(None)
    wait_s = min(WAIT_S, services.settings.request_timeout_s / 2)
    look = followers.wait((id(streams), stream.id), lambda: streams.state(stream).sequence, after, wait_s)
    return Deferred(look, finish_later)


def _after(request: Request, newest: int) -> int:
    text = request.header(b"last-event-id")
    if not text:
        text = parse_qs(request.query.decode("latin-1"), max_num_fields=20).get("after", [""])[0]
    if not text:
        return newest
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidParameter("Last-Event-ID", f"'{text[:40]}' is no number of a member of this stream.")
    return int(text)


def events(members: list[StoredMember], stream: EventStream, after: int) -> bytes:
    """Events of the type ``member``: its sequence as id, its N-Triples as data."""
    lines = [f"retry: {RETRY_MS}\nid: {after}\nevent: metadata\ndata: {stream.name}\n\n".encode()]
    size = 0
    for member in members:
        size += len(member.text)
        if size > MAX_BYTES and len(lines) > 1:
            break
        data = member.text.rstrip(b"\n").replace(b"\n", b"\ndata: ")
        lines.append(b"id: %d\nevent: member\ndata: %b\n\n" % (member.sequence, data))
    return b"".join(lines)
