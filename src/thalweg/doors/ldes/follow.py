"""Live following: server-sent events of members, in the order of acknowledgement.

An answer waits until there are members after the one that the client had last, gives them, and ends; the client's
``EventSource`` comes again at once with ``Last-Event-ID``, as the standard has it. No thread and no transaction is held
while it waits: one thread a process asks the store for the newest sequence of each stream that is followed.

source  HTML Living Standard, section 9.2 (server-sent events)
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future, InvalidStateError
from typing import Final, Protocol
from urllib.parse import parse_qs

from thalweg.domain.errors import InvalidParameter, NotFound, StoreUnavailable
from thalweg.domain.streams import EventStream, StoredMember, StreamState
from thalweg.doors.http import Deferred, Request, Response
from thalweg.doors.ldes.answer import find_stream, head
from thalweg.encode.rdf.syntax import EVENT_STREAM
from thalweg.services.services import Services

MAX_FOLLOWERS: Final = 1_000
"""Clients of one worker that wait at once."""
MAX_EVENTS: Final = 250
"""Members of one answer."""
MAX_BYTES: Final = 4 << 20
"""Their text together, but for the first one."""
WAIT_S: Final = 15.0
"""Longest wait; then the answer ends without a member, so that connections that nobody reads any more end, too."""
LOOK_S: Final = 0.1
RETRY_MS: Final = 50

_logger = logging.getLogger(__name__)


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
    return Deferred(followers.wait(streams, stream, after, wait_s), finish_later)


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


class Newest(Protocol):
    """What is asked for the newest sequence of a stream."""

    def state(self, stream: EventStream) -> StreamState:
        """NotFound ``stream``."""
        ...


class _Followers:
    """Futures that are done once their stream has a member after a given one, or their time is over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[tuple[int, int], list[tuple[Future[None], Newest, EventStream, int, float]]] = {}
        self._count = 0
        self._thread: threading.Thread | None = None

    def wait(self, streams: Newest, stream: EventStream, after: int, wait_s: float) -> Future[None]:
        """StoreUnavailable if too many wait already."""
        future: Future[None] = Future()
        with self._lock:
            if self._count >= MAX_FOLLOWERS:
                raise StoreUnavailable("Too many clients follow streams here; try again later.", retry_after_s=10)
            self._count += 1
            entry = (future, streams, stream, after, time.monotonic() + wait_s)
            self._waiting.setdefault((id(streams), stream.id), []).append(entry)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="ldes-follow", daemon=True)
                self._thread.start()
        return future

    def _run(self) -> None:
        while True:
            time.sleep(LOOK_S)
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                groups = {key: list(group) for key, group in self._waiting.items()}
            for key, group in groups.items():
                self._look(key, group)

    def _look(self, key: tuple[int, int], group: list[tuple[Future[None], Newest, EventStream, int, float]]) -> None:
        failure: Exception | None = None
        sequence = 0
        try:
            _, streams, stream, _, _ = group[0]
            sequence = streams.state(stream).sequence
        except NotFound as error:
            failure = error
        except Exception as error:
            _logger.warning("followers of a stream cannot be served: %s", error)
            failure = error
        now = time.monotonic()
        ready = [entry for entry in group if failure is not None or sequence > entry[3] or now >= entry[4]]
        if not ready:
            return
        with self._lock:
            left = [entry for entry in self._waiting.get(key, ()) if entry not in ready]
            if left:
                self._waiting[key] = left
            else:
                self._waiting.pop(key, None)
            self._count -= len(ready)
        for future, *_ in ready:
            try:
                if failure is None:
                    future.set_result(None)
                else:
                    future.set_exception(failure)
            except InvalidStateError:
                # Cancelled meanwhile: the client has gone.
                pass


followers: Final = _Followers()
