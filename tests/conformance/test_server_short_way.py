"""The short way of a request and the way by ASGI give the same bytes; requests of one turn share what they can."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.conformance.test_server_app import DOOR, OTHER, Fake, FakeAccess, pages
from uvicorn.config import Config
from uvicorn.server import ServerState

from thalweg.domain.access import Principal, Role
from thalweg.domain.errors import StoreUnavailable
from thalweg.doors.door import Door
from thalweg.doors.http import Request, Response
from thalweg.server.asgi import Asgi
from thalweg.server.contract import AsgiCallable, Direct, Later, Scope
from thalweg.server.direct import ShortWay
from thalweg.server.guard import guarded
from thalweg.server.reply import Whole
from thalweg.settings import Settings

SETTINGS = Settings(
    access_log=False, cors_origins=("https://a.example",), max_body_bytes=4000, max_bulk_body_bytes=4000,
    max_pipelined=50,
)  # fmt: skip
PIECES = (b"<one/>" * 2000, b"", b"<two/>")


def answer(request: Request, fake: Fake) -> Any:
    """The fake door of the other server tests, with answers in pieces and some with headers of their own."""
    name = request.path.partition("/")[0]
    if name == "pieces":
        return Response(PIECES, "text/xml", etag='"pieces"')
    if name == "listed":
        return Response(
            list(PIECES), "application/octet-stream", headers=[("Link", "<x>; rel=next"), ("Vary", "Accept")]
        )
    if name == "packed":
        return Response(b"x" * 20_000, "text/xml", headers=[("Content-Encoding", "br")])
    if name == "none":
        return Response(b"", "", 204)
    return DOOR.handle(request, fake)


BOTH: Door[Fake] = Door("fake", ("GET", "POST"), answer, DOOR.render_error, DOOR.operation, {})


class LongWay:
    """Everything by ASGI."""

    def __init__(self, asgi: Asgi) -> None:
        self._asgi = asgi

    def answer(self, scope: Scope, body: bytes) -> Whole | Later | AsgiCallable:
        return self._asgi

    @contextmanager
    def together(self) -> Iterator[None]:
        yield


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.sent = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.sent += data

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else default

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


def exchange(
    way: Callable[[Asgi], Direct], pieces: list[bytes], answers: int, door: Door[Fake] = BOTH
) -> tuple[bytes, bool, list[tuple[int, int, str]]]:
    """What comes back for some pieces, whether the connection is closed then, and what is logged."""
    logged: list[tuple[int, int, str]] = []
    fake = Fake()
    asgi = Asgi([door, OTHER], fake, FakeAccess(), SETTINGS, pages)
    asgi.log = lambda exchange, status, size: logged.append((status, size, exchange.request.principal.name))  # type: ignore[method-assign]
    wire = Wire()

    async def run() -> None:
        config = Config(asgi, lifespan="off", log_config=None, access_log=False, proxy_headers=False)
        config.load()
        state = ServerState()
        state.default_headers = [(b"date", b"today")]
        protocol = guarded(SETTINGS, way(asgi))(config, state, {})
        protocol.connection_made(cast(asyncio.Transport, wire))
        for piece in pieces:
            if not wire.closed:
                protocol.data_received(piece)
        for _ in range(400):
            await asyncio.sleep(0.002)
            if wire.closed or (len(logged) >= answers and protocol.is_between_requests and not state.tasks):
                break
        closed = wire.closed
        protocol.connection_lost(None)
        wire.closed = closed

    asyncio.run(run())
    asgi.close()
    fake.pool.shutdown()
    # Made new by each server, and counted.
    return re.sub(rb"(x-request-id: |request )[0-9a-f]{8}-", rb"\1id-", wire.sent), wire.closed, logged


PATHS = [
    "/fake", "/fake/about", "/blue%20sky/fake/about", "/fake/big", "/fake/stream/2", "/fake/short-stream",
    "/fake/deferred/0", "/fake/deferred-failed", "/fake/deferred-bug", "/fake/taken/1", "/fake/taken/2!", "/fake/crash",
    "/fake/unavailable", "/fake/bad-header", "/fake/nowhere", "/readonly/about", "/nowhere", "/fake/pieces",
    "/fake/listed", "/fake/packed", "/fake/none", "/fake/fail-first", "/fake/connection-bytes/70000",
]  # fmt: skip
HEADERS = [
    "Accept-Encoding: gzip", "If-None-Match: \"big-1\", \"pieces\"", "Origin: https://a.example",
    "Origin: https://b.example", "Authorization: Bearer good", "Authorization: Bearer bad", "Connection: close",
    "Expect: 100-continue", "Content-Encoding: gzip", "X-Other: something",
]  # fmt: skip


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    method = draw(st.sampled_from(["GET", "GET", "GET", "POST", "HEAD", "OPTIONS", "DELETE"]))
    version = draw(st.sampled_from(["1.1", "1.1", "1.1", "1.0"]))
    lines = [f"{method} {draw(st.sampled_from(PATHS))}?a=b HTTP/{version}", "Host: x"]
    names = draw(st.lists(st.sampled_from(HEADERS), max_size=3, unique_by=lambda line: line.partition(":")[0]))
    body = b""
    if method == "POST":
        body = draw(st.sampled_from([b"", b"<x/>", b"y" * 3000, b"z" * 5000]))
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, *names, "", ""]).encode() + body


@example([b"GET /fake/pieces HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n"], [])
@example([b"POST /fake HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n"], [])
@example([b"POST /fake/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"] * 3, [])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(requests(), min_size=1, max_size=3), st.lists(st.integers(1, 4000), max_size=2))
def test_both_ways_give_the_same_bytes_close_alike_and_log_alike(sent: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(sent)
    places = [0, *sorted({cut for cut in cuts if cut < len(whole)}), len(whole)]
    pieces = [whole[low:high] for low, high in pairwise(places)]
    short = exchange(ShortWay, pieces, len(sent))
    assert short == exchange(LongWay, pieces, len(sent))
    assert short[0].startswith(b"HTTP/1.1 ")


def test_ordinary_requests_go_the_short_way_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    ways: list[str] = []
    go_on = Asgi.go_on

    async def noted(self: Asgi, *args: Any) -> None:
        ways.append("long")
        await go_on(self, *args)

    monkeypatch.setattr(Asgi, "go_on", noted)
    short = [
        b"GET /fake/big HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /fake/crash HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /fake/deferred/0 HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nAuthorization: Bearer good\r\n\r\nbody",
    ]
    for request in short:
        exchange(ShortWay, [request], 1)
    assert ways == []
    long = [
        b"HEAD /fake/big HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /fake/stream/9 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /fake/taken/0 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /fake/big HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer slow\r\n\r\n",
    ]
    for request in long:
        exchange(ShortWay, [request], 1)
    # The rest of a body that comes later.
    exchange(ShortWay, [b"POST /fake/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbo", b"dy"], 1)
    assert ways == ["long"] * 5


def test_answer_to_a_client_that_went_away_meanwhile_is_dropped() -> None:
    asgi = Asgi([BOTH], Fake(), FakeAccess(), SETTINGS, pages)
    wire = Wire()

    async def run() -> None:
        config = Config(asgi, lifespan="off", log_config=None, access_log=False, proxy_headers=False)
        config.load()
        protocol = guarded(SETTINGS, ShortWay(asgi))(config, ServerState(), {})
        protocol.connection_made(cast(asyncio.Transport, wire))
        protocol.data_received(b"GET /fake/deferred/0.05 HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(0.01)
        protocol.connection_lost(ConnectionResetError())
        await asyncio.sleep(0.15)

    asyncio.run(run())
    asgi.close()
    assert wire.sent == b""


def test_requests_that_have_come_since_the_last_turn_are_answered_together() -> None:
    events: list[str] = []

    @contextmanager
    def together() -> Iterator[None]:
        events.append("begin")
        yield
        events.append("end")

    def handle(request: Request, fake: Fake) -> Response:
        events.append(request.path)
        return Response(b"x", "text/plain")

    class Noting(Wire):
        def write(self, data: bytes) -> None:
            events.append("sent")

    asgi = Asgi([Door("fake", ("GET",), handle, DOOR.render_error, DOOR.operation, {})], Fake(), FakeAccess(),
                SETTINGS, pages)  # fmt: skip

    async def run() -> None:
        config = Config(asgi, lifespan="off", log_config=None, access_log=False, proxy_headers=False)
        config.load()
        kind = guarded(SETTINGS, ShortWay(asgi, together))
        connections = [kind(config, ServerState(), {}) for _ in range(3)]
        for connection in connections:
            connection.connection_made(cast(asyncio.Transport, Noting()))
        for number, connection in enumerate(connections):
            connection.data_received(b"GET /fake/%d HTTP/1.1\r\nHost: x\r\n\r\n" % number)
        await asyncio.sleep(0.01)
        connections[0].data_received(b"GET /fake/alone HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(0.01)

    asyncio.run(run())
    asgi.close()
    assert events == ["begin", "0", "1", "2", "end", "sent", "sent", "sent", "alone", "sent"]


def test_failure_to_know_the_caller_is_the_doors_error_by_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: FakeAccess, authorization: str) -> Principal | None:
        if authorization:
            raise StoreUnavailable("locked", retry_after_s=7)
        return Principal("", Role.VIEWER)

    monkeypatch.setattr(FakeAccess, "quick", fail)
    request = b"GET /fake HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\n\r\n"
    short = exchange(ShortWay, [request], 1)
    assert short == exchange(LongWay, [request], 1)
    assert short[0].startswith(b"HTTP/1.1 503")
    assert b"retry-after: 7\r\n" in short[0]


def test_failure_outside_of_a_door_is_answered_and_the_connection_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("a bug")

    asgi = Asgi([BOTH], Fake(), FakeAccess(), SETTINGS, pages)
    monkeypatch.setattr(asgi, "open", fail)
    wire = Wire()

    async def run() -> None:
        config = Config(asgi, lifespan="off", log_config=None, access_log=False, proxy_headers=False)
        config.load()
        protocol = guarded(SETTINGS, ShortWay(asgi))(config, ServerState(), {})
        protocol.connection_made(cast(asyncio.Transport, wire))
        protocol.data_received(b"GET /fake HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(0.05)

    asyncio.run(run())
    asgi.close()
    assert wire.sent.startswith(b"HTTP/1.1 500")
    assert wire.closed
