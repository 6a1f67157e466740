"""Live following of a published stream: where each of its parts stands is the id of an event.

As with other streams an answer gives what there is after the client's last id, or waits for it, and ends. Only the last
event of an answer carries an id, so that a client that is cut off gets the whole answer again.
"""

from __future__ import annotations

from urllib.parse import parse_qs

from thalweg.domain.streams import EventStream, StoredMember
from thalweg.doors.http import Deferred, Request, Response
from thalweg.doors.ldes.answer import find_stream, head, seen
from thalweg.doors.ldes.follow import MAX_EVENTS, RETRY_MS, WAIT_S, followers
from thalweg.encode.rdf.syntax import EVENT_STREAM
from thalweg.services.published import TRACK, track_of
from thalweg.services.services import Services


def follow_published(request: Request, services: Services, stream: EventStream) -> Response | Deferred:
    """Members after ``Last-Event-ID`` (or ``?after=``; without either: those that come from now on), of all parts or
    of the one that ``?track=`` names."""
    published = services.published
    shown = seen(request, services)
    asked = parse_qs(request.query.decode("latin-1"), max_num_fields=20)
    track = track_of(asked.get(TRACK, [""])[0])
    # Before it is read: what comes in between ends the waiting.
    newest = published.state(stream, shown).sequence
    after = request.header(b"last-event-id") or asked.get("after", [""])[0]
    after = after or published.cursor(stream, shown, track)
    headers = [item for item in head(services, public=False) if item[0] != "Cache-Control"]
    headers.append(("Cache-Control", "no-store"))

    def answer(members: list[StoredMember], cursor: str) -> Response:
        return Response(_events(members, stream, after, cursor), f"{EVENT_STREAM};charset=UTF-8", 200, headers)

    members, cursor = published.members_after(stream, shown, after, MAX_EVENTS, track)
    if members:
        return answer(members, cursor)

    def finish_later(_: object) -> Response:
        # It may have been closed to this caller, or deleted, while the answer waited.
        found = find_stream(request, services, stream.name)
        return answer(*published.members_after(found, seen(request, services), after, MAX_EVENTS, track))

    wait_s = min(WAIT_S, services.settings.request_timeout_s / 2)
    # Each sees parts of its own: none is asked for together with another.
    look = followers.wait(object(), lambda: published.state(stream, shown).sequence, newest, wait_s)
    return Deferred(look, finish_later)


def _events(members: list[StoredMember], stream: EventStream, after: str, cursor: str) -> bytes:
    lines = [f"retry: {RETRY_MS}\nid: {after}\nevent: metadata\ndata: {stream.name}\n\n".encode()]
    for number, member in enumerate(members, 1):
        data = member.text.rstrip(b"\n").replace(b"\n", b"\ndata: ")
        mark = f"id: {cursor}\n".encode() if number == len(members) else b""
        lines.append(b"%bevent: member\ndata: %b\n\n" % (mark, data))
    return b"".join(lines)
