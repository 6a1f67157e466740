"""What an event stream's store does by itself: bulk load, filling of views, pages, deleting; one process, no HTTP."""

from __future__ import annotations

import os
import resource
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from thalweg import app
from thalweg.bench import ldes
from thalweg.bench.errors import BenchError
from thalweg.domain.access import Principal, Role
from thalweg.domain.catalogue import DEFAULT_WORKSPACE
from thalweg.domain.streams import EventStream
from thalweg.doors.http import Deferred, Request, Response
from thalweg.encode.rdf.administration import read_graph, read_view
from thalweg.encode.rdf.members import read_members
from thalweg.loading.members import bodies, media_type_of
from thalweg.services.stream_load import load_members
from thalweg.services.stream_work import StreamWork
from thalweg.settings import Settings

NODE_MEMBERS: Final = 250
"""Members of a page, where pages are read."""
NODE_SECONDS: Final = 1.0
"""Pages are read for so long in each syntax."""
NODE_TYPES: Final = ("application/n-quads", "text/turtle")
_NUMBER: Final = 987_654_321


def measure(folder: Path, count: int, file: Path | None, processes: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Of ``count`` members: rates in members a second, seconds, bytes, kB of the largest resident size.

    folder     where the members and the store are put, and removed again
    file       see ``ldes.members``
    processes  that read bodies
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = f"members-{secrets.token_hex(4)}"
    source, store = folder / f"{name}.nq", folder / f"{name}.sqlite"
    try:
        with source.open("wb") as out:
            for text in texts(file, count):
                out.write(text + b"\n")
        found: dict[str, Any] = {"members": count, "file_bytes": source.stat().st_size}
        with _opened(store) as application:
            _filled(application, source, count, processes, say, found)
        # Closing has merged the write-ahead log.
        found["bytes_per_member"] = store.stat().st_size / count
        with _opened(store) as application:
            _deleted(application, found)
        kib = 1 if sys.platform == "darwin" else 1024
        found["memory_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * kib
        return found
    finally:
        for leftover in folder.glob(f"{name}*"):
            leftover.unlink(missing_ok=True)


@contextmanager
def _opened(store: Path) -> Iterator[app.Application]:
    application = app.build(Settings(store=f"sqlite:///{store}", anonymous_role=Role.ADMIN))
    try:
        yield application
    finally:
        application.close()


def texts(file: Path | None, count: int) -> Iterator[bytes]:
    """Members in N-Quads, all different."""
    source = ldes.members("/", {}, file, first=_NUMBER)
    if isinstance(source, ldes.Actual):
        yield from (request.body for request in islice(source.stream(), count))
        return
    request = next(iter(source.stream()))
    stream = EventStream(0, "", 0, "", ldes.TIMESTAMP_PATH, ldes.VERSION_OF_PATH, shape_class=ldes.CLASS)
    (member,) = read_members(stream, request.body, request.headers["Content-Type"])
    for number in range(count):
        yield member.text.replace(b"%d" % _NUMBER, b"%09d" % number)


def _filled(
    application: app.Application, source: Path, count: int, processes: int, say: Callable[[str], None],
    found: dict[str, Any],
) -> None:  # fmt: skip
    """Load, fill views, read pages."""
    streams = application.services.streams
    workspace_id = application.services.catalogue.workspace_id()
    stream, _ = streams.declare(workspace_id, ldes.STREAM_DOCUMENT.encode(), "text/turtle")
    work = StreamWork(application.store)
    begin, cpu = time.perf_counter(), _cpu_s()
    loaded = load_members(streams, stream, bodies(source, media_type_of(source)), processes=processes)
    found["load_rate"] = count / (time.perf_counter() - begin)
    found["load_cpu_us"] = (_cpu_s() - cpu) / count * 1e6
    if loaded.stored != count:
        raise BenchError(f"{loaded.stored:,} of {count:,} members were stored.")
    say(f"loaded {count:,} members: {found['load_rate']:,.0f}/s")
    found["fill_rate"], found["fill_cpu_us"] = {}, {}
    for kind, view_name in ldes.VIEWS.items():
        described = read_view(read_graph(ldes.view_document(kind).encode(), "text/turtle", "http://localhost/"))
        view = streams.create_view(stream, replace(described, page_size=NODE_MEMBERS))
        begin, cpu = time.perf_counter(), _cpu_s()
        while work.fill():
            pass
        found["fill_rate"][view_name] = count / (time.perf_counter() - begin)
        found["fill_cpu_us"][view_name] = (_cpu_s() - cpu) / count * 1e6
        if streams.view_states(stream)[view.id].members != count:
            raise BenchError(f"The view '{view_name}' does not hold all members.")
        say(f"filled '{view_name}': {found['fill_rate'][view_name]:,.0f} members/s")
    found["node_rate"] = {kind: _node_rate(application, stream, count, kind) for kind in NODE_TYPES}
    say("nodes: " + ", ".join(f"{rate:,.0f} members/s as {kind}" for kind, rate in found["node_rate"].items()))


def _deleted(application: app.Application, found: dict[str, Any]) -> None:
    """Delete the views, then the stream."""
    streams = application.services.streams
    stream = streams.stream(application.services.catalogue.workspace_id(), ldes.STREAM)
    work = StreamWork(application.store)
    found["delete_view_s"] = {
        name: _timed(lambda name=name: streams.delete_view(stream, name), work)  # type: ignore[misc]
        for name in list(streams.views(stream))
    }
    found["delete_stream_s"] = _timed(lambda: streams.delete_stream(stream), work)


def _cpu_s() -> float:
    """Of this process and those it has waited for."""
    return sum(os.times()[:4])


def _timed(delete: Callable[[], object], work: StreamWork) -> float:
    """Seconds until nothing is left of it."""
    begin = time.perf_counter()
    delete()
    while work.clean(time.time_ns() // 1000):
        pass
    return time.perf_counter() - begin


def _node_rate(application: app.Application, stream: EventStream, count: int, media_type: str) -> float:
    """Members a second on full pages, from the raw request to the last byte of the body."""
    door = next(door for door in application.doors if door.name == "ldes")
    reader = Principal("", Role.VIEWER)
    headers = ((b"accept", media_type.encode()),)
    full = max(1, count // NODE_MEMBERS)
    read, page = 0, 0
    begin = time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < NODE_SECONDS:
        query = b"pageNumber=%d" % (page % full + 1)
        path = f"{stream.name}/{ldes.VIEWS['page']}"
        request = Request("GET", path, query, headers, b"", DEFAULT_WORKSPACE, "http://127.0.0.1/ldes", reader)
        answer = door.handle(request, application.services)
        response = answer.finish(answer.future.result()) if isinstance(answer, Deferred) else answer
        if response.status != 200 or not _length(response):
            raise BenchError(f"A page was answered {response.status}.")
        read += min(NODE_MEMBERS, count)
        page += 1
    return read / elapsed


def _length(response: Response) -> int:
    return len(response.body) if isinstance(response.body, bytes) else sum(map(len, response.body))
