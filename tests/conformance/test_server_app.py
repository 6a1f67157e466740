"""Small parts of the server, and a fake application that the other server tests start as real processes.

``python test_server_app.py`` serves one door, ``fake``, whose path says what happens; settings come from the
environment. It prints ``ready <port>`` once it serves.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from thalweg.domain.access import Principal, Role
from thalweg.domain.errors import (
    AlreadyExists,
    InvalidRequest,
    NotFound,
    StoreUnavailable,
    ThalwegError,
    TooLarge,
    TooManyRequests,
    Unauthenticated,
)
from thalweg.doors.door import Door
from thalweg.doors.http import Deferred, Kept, Request, Response
from thalweg.server.asgi import Asgi
from thalweg.server.body import decode_body
from thalweg.server.contract import Message, Receive, Scope, Send
from thalweg.server.direct import ShortWay
from thalweg.server.guard import _OneWrite
from thalweg.server.logs import AccessLog
from thalweg.server.pool import Bridge, Pool
from thalweg.server.reply import Reply, accepts_gzip, matches
from thalweg.server.supervisor import serve
from thalweg.settings import Settings, load_settings

TEXT = "text/plain; charset=utf-8"
BLOCK = b"0123456789abcdef" * 1024  # 16 KiB
BIG = b"The quick brown fox jumps over the lazy dog.\n" * 2000  # 90 kB, compressible
SEGMENTS = tuple(f"segment {number}: ".encode() + BLOCK * (4 if number % 20 else 60) for number in range(80))  # 8.9 MB
KEPT = Kept()


class Fake:
    """What the fake door gets as its services."""

    def __init__(self) -> None:
        self.closed = 0
        self.pool = ThreadPoolExecutor(40)
        self.maintained = 0
        self.taken = 0

    def blocks(self, count: int, *, fail_at: int = -1, pause_s: float = 0) -> Iterator[bytes]:
        try:
            for index in range(count):
                if index == fail_at:
                    raise RuntimeError("secret text of a failure in a stream")
                if pause_s:
                    time.sleep(pause_s)
                yield BLOCK
        finally:
            self.closed += 1

    def later(self, seconds: float, result: Any) -> Future[Any]:
        def work() -> Any:
            time.sleep(seconds)
            if isinstance(result, Exception):
                raise result
            return result

        return self.pool.submit(work)


def handle(request: Request, fake: Fake) -> Response | Deferred:
    name, _, argument = request.path.partition("/")
    if name == "":
        return Response(b"root", TEXT)
    if name == "echo":
        return Response(request.body, "application/octet-stream")
    if name == "size":
        return Response(str(len(request.body)).encode(), TEXT)
    if name == "about":
        parts = (request.method, request.workspace, request.base_url, request.principal.name, request.path)
        return Response("|".join(parts).encode(), TEXT)
    if name == "big":
        return Response(BIG, TEXT, etag='"big-1"')
    if name == "kept":
        return Response(SEGMENTS, TEXT, etag='"kept-1"', kept=KEPT)
    if name == "stream":
        return Response(fake.blocks(int(argument)), TEXT)
    if name == "short-stream":
        return Response(iter([b"one ", b"two ", b"three"]), TEXT)
    if name == "empty-stream":
        return Response(iter(()), TEXT)
    if name == "slow-stream":
        return Response(fake.blocks(int(argument), pause_s=0.06), TEXT)
    if name == "fail-first":
        return Response(fake.blocks(3, fail_at=0), TEXT)
    if name == "fail-later":
        return Response(fake.blocks(100, fail_at=50), TEXT)
    if name == "closed":
        return Response(str(fake.closed).encode(), TEXT)
    if name == "deferred":
        return Deferred(fake.later(float(argument), 42), lambda result: Response(str(result).encode(), TEXT, 201))
    if name == "deferred-failed":
        return Deferred(fake.later(0.01, NotFound("thing", "no such thing")), lambda result: Response(b"", TEXT))
    if name == "deferred-bug":
        return Deferred(fake.later(0, 1), lambda result: Response(str(result / 0).encode(), TEXT))
    if name == "taken":
        # Taken so often before: a name chosen anew each time, or (``never``) one that the client gave.
        fake.taken += 1
        error = AlreadyExists("thing", "taken") if fake.taken <= int(argument.strip("!")) else 42
        fake.taken %= int(argument.strip("!")) + 1
        return Deferred(
            fake.later(0, error), lambda result: Response(str(result).encode(), TEXT), repeatable="!" not in argument
        )
    if name == "crash":
        raise RuntimeError("secret text of a bug")
    if name == "unavailable":
        raise StoreUnavailable("locked", retry_after_s=7)
    if name == "bad-header":
        return Response(b"x", TEXT, headers=[("Location", "a\r\nSet-Cookie: b=c")])
    if name == "pid":
        return Response(str(os.getpid()).encode(), TEXT)
    if name == "sleep":
        time.sleep(float(argument))
        return Response(b"slept", TEXT)
    if name == "maintained":
        return Response(str(fake.maintained).encode(), TEXT)
    if name == "connection-bytes":
        return Response(b"x" * int(argument), "application/octet-stream")
    raise NotFound("path", f"There is no {name}.")


def render_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, ThalwegError):
        return Response(f"internal error, request {request.request_id}".encode(), TEXT, 500)
    status = {NotFound: 404, TooLarge: 413, Unauthenticated: 401, StoreUnavailable: 503, TooManyRequests: 503}.get(
        type(error), 400
    )
    return Response(f"{type(error).__name__}: {error.message}".encode(), TEXT, status)


def operation(request: Request) -> str:
    if request.path == "bad name":
        raise RuntimeError("an operation without a name")
    return request.path.partition("/")[0] or "root"


DOOR: Door[Fake] = Door("fake", ("GET", "POST"), handle, render_error, operation, {})
OTHER: Door[Fake] = Door("readonly", ("GET",), handle, render_error, operation, {})


class FakeAccess:
    """``Bearer good`` is a writer, known at once; ``Bearer slow`` takes a while; all else is refused."""

    def quick(self, authorization: str, session: str = "", bare: bool = False) -> Principal | None:
        if authorization == "":
            return Principal("", Role.VIEWER)
        return Principal("writer", Role.DATA_MANAGER) if authorization == "Bearer good" else None

    def authenticate(
        self, authorization: str, session: str = "", bare: bool = False, address: str = "", request_id: str = ""
    ) -> Principal:
        time.sleep(0.3)
        if authorization == "Bearer slow":
            return Principal("slow", Role.DATA_MANAGER)
        raise Unauthenticated("Wrong.")


async def pages(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["path"] == "/page-crash":
        raise RuntimeError("secret text of a page")
    body = f"page {scope['path']} for '{scope['principal'].name}'".encode()
    head = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 404, "headers": head})
    await send({"type": "http.response.body", "body": body})


class FakeApplication:
    def __init__(self, settings: Settings) -> None:
        self.fake = Fake()
        self.asgi = Asgi([DOOR, OTHER], self.fake, FakeAccess(), settings, pages)
        self.direct = ShortWay(self.asgi)

    def warm_up(self) -> None:
        pass

    def maintain(self) -> None:
        self.fake.maintained += 1
        if self.fake.maintained == 1:
            raise RuntimeError("the first round of background work fails")

    def close(self) -> None:
        self.asgi.close()
        # Seen by the test in the log: close was reached.
        os.write(2, b"closed the application\n")


def build(settings: Settings) -> FakeApplication:
    failure = os.environ.get("FAKE_START")
    if failure == "refused":
        raise StoreUnavailable("the fake store is locked")
    if failure == "crash":
        raise RuntimeError("secret text of a start")
    if failure == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return FakeApplication(settings)


# ---------------------------------------------------------------- tests of small parts


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"", False),
        (b"gzip", True),
        (b"deflate, GZIP;q=0.5", True),
        (b"br, gzip;q=0", False),
        (b"gzip; q=0.000", False),
        (b"*", True),
        (b"*;q=0", False),
        (b"*;q=0, gzip", True),
        (b"gzip;q=0, *", False),
        (b"identity", False),
        (b"gzipped", False),
    ],
)
def test_accept_encoding_is_read_as_rfc_9110_says(value: bytes, expected: bool) -> None:
    assert accepts_gzip(value) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'"a"', True),
        (b'W/"a"', True),
        (b'"b", "a"', True),
        (b"*", True),
        (b'"b"', False),
        (b'"ab"', False),
        (b"a", False),
        (b"", False),
    ],
)
def test_if_none_match_compares_whole_validators(value: bytes, expected: bool) -> None:
    assert matches(value, '"a"') is expected


def test_gzip_bodies_are_bounded_and_whole() -> None:
    import gzip

    assert decode_body(gzip.compress(b"x" * 1000), b"gzip", 1000) == b"x" * 1000
    assert decode_body(gzip.compress(b"a") + gzip.compress(b"b"), b"GZIP", 2) == b"ab"
    with pytest.raises(TooLarge, match="1,000") as raised:
        decode_body(gzip.compress(b"x" * 1001), b"gzip", 1000)
    # Doors tell by it that the request is too large, not the answer.
    assert raised.value.parameter == "request"
    with pytest.raises(TooLarge):
        decode_body(gzip.compress(b"a" * 600) + gzip.compress(b"b" * 600), b"gzip", 1000)
    with pytest.raises(InvalidRequest, match="cut off"):
        decode_body(gzip.compress(b"x" * 1000)[:-9], b"gzip", 1000)
    with pytest.raises(InvalidRequest, match="not gzip") as refused:
        decode_body(b"<xml/>", b"gzip", 1000)
    assert refused.value.parameter == "request"
    with pytest.raises(ThalwegError, match="'br' cannot be read"):
        decode_body(b"x", b"br", 1000)


def test_large_blocks_leave_in_pieces_that_wait_for_the_client() -> None:
    sizes: list[int] = []

    async def receive() -> Message:
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sizes.append(len(message.get("body", b"")))

    async def answer() -> None:
        pool = Pool("x", Bridge(), threads=1, queue=10, timeout_s=5)
        reply = Reply("GET", {}, [], receive, send, pool, 0)
        await reply.send(Response(iter([b"a" * 1_000_000, b"b" * 10, b"c" * 300_000]), TEXT))
        assert reply.size == 1_300_010
        pool.close()

    asyncio.run(answer())
    assert sum(sizes) == 1_300_010
    assert max(sizes) <= 256 * 1024


def test_full_pool_refuses_at_once() -> None:
    async def work() -> None:
        pool = Pool("x", Bridge(), threads=1, queue=2, timeout_s=5)
        running = [asyncio.ensure_future(pool.run(time.sleep, 0.1)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable, match="busy"):
            await pool.run(int)
        await asyncio.gather(*running)
        assert await pool.run(int) == 0
        pool.close()

    asyncio.run(work())


def test_callback_of_a_future_is_made_once_by_whatever_comes_first() -> None:
    calls: list[str] = []

    async def work() -> None:
        bridge = Bridge()
        done: Future[int] = Future()
        bridge.call(done, 0.02, lambda: calls.append("done"))
        done.set_result(1)
        late: Future[int] = Future()
        bridge.call(late, 0.02, lambda: calls.append("late"))
        forgotten: Future[int] = Future()
        bridge.call(forgotten, 0.02, lambda: calls.append("forgotten")).forget()
        forgotten.set_result(1)
        await asyncio.sleep(0.06)
        late.set_result(1)
        await asyncio.sleep(0.02)
        with pytest.raises(TimeoutError):
            await bridge.wait(Future(), 0.01)

    asyncio.run(work())
    assert calls == ["done", "late"]


def test_failed_work_leaves_nothing_behind() -> None:
    class Large:
        pass

    left: list[weakref.ref[Large]] = []

    def fail() -> None:
        large = Large()
        left.append(weakref.ref(large))
        raise InvalidRequest("no")

    async def work() -> None:
        pool = Pool("x", Bridge(), threads=1, queue=10, timeout_s=5)
        with pytest.raises(InvalidRequest):
            await pool.run(fail)
        # The thread lets go of its own reference when it goes on to the next thing.
        await pool.run(int)
        pool.close()

    gc.disable()
    try:
        asyncio.run(work())
        assert left[0]() is None
    finally:
        gc.enable()


def test_answer_to_a_client_that_has_gone_is_dropped() -> None:
    class Gone:
        def is_closing(self) -> bool:
            return True

        def write(self, data: bytes) -> None:
            raise RuntimeError("the handler is closed")

        writelines = write

    writer = _OneWrite(Gone())  # type: ignore[arg-type]
    writer.write(b"head")
    writer.write(b"body")


def _call(asgi: Asgi, path: str, *, method: str = "GET", headers: dict[bytes, bytes] | None = None) -> list[Message]:
    """One request on an event loop of its own, without sockets."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope: Scope = {
        "type": "http", "method": method, "path": path, "query_string": b"", "headers": list((headers or {}).items()),
    }  # fmt: skip
    asyncio.run(asgi(scope, receive, send))
    return sent


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/fake/about", "GET|default|https://example.org/x/fake||about"),
        ("/fake/about/a/b", "GET|default|https://example.org/x/fake||about/a/b"),
        ("/blue sky/fake/about", "GET|blue sky|https://example.org/x/blue%20sky/fake||about"),
        ("/default/fake/about", "GET|default|https://example.org/x/default/fake||about"),
        ("/fake", "root"),
        ("/fake/", "root"),
        ("/blue/fake", "root"),
        ("/blue/fake/", "root"),
        ("/", "page / for ''"),
        ("/fakes", "page /fakes for ''"),
        ("/static/fake", "page /static/fake for ''"),
        ("//fake", "page //fake for ''"),
        ("/a/b/fake", "page /a/b/fake for ''"),
    ],
)
def test_paths_lead_to_doors_workspaces_and_pages(path: str, expected: str) -> None:
    settings = Settings(public_url="https://example.org/x/", access_log=False)
    asgi = Asgi([DOOR, OTHER], Fake(), FakeAccess(), settings, pages)
    try:
        assert b"".join(m.get("body", b"") for m in _call(asgi, path)).decode() == expected
    finally:
        asgi.close()


def test_cross_origin_reading_is_allowed_to_the_origins_of_the_setting() -> None:
    settings = Settings(cors_origins=("https://a.example",), access_log=False)
    asgi = Asgi([DOOR], Fake(), FakeAccess(), settings, pages)
    try:
        ours = dict(_call(asgi, "/fake", headers={b"origin": b"https://a.example"})[0]["headers"])
        theirs = dict(_call(asgi, "/fake", headers={b"origin": b"https://b.example"})[0]["headers"])
        asked = {b"origin": b"https://a.example", b"access-control-request-method": b"POST"}
        preflight = _call(asgi, "/fake", method="OPTIONS", headers=asked)[0]
    finally:
        asgi.close()
    assert ours[b"access-control-allow-origin"] == b"https://a.example"
    assert ours[b"vary"] == b"origin"
    assert b"access-control-allow-origin" not in theirs
    assert preflight["status"] == 204
    assert dict(preflight["headers"])[b"access-control-allow-methods"] == b"GET, POST, HEAD, OPTIONS"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_access_log_writes_whole_lines_into_a_pipe(log_format: str) -> None:
    # In packet mode each read gives what one write wrote.
    reader, writer = os.pipe2(os.O_DIRECT)
    log = AccessLog(log_format, writer)
    for number in range(500):
        log.add("GET", "fake", "x" * (number % 200), 200, 1, 0.001, f"id-{number:x}", 'a"\nb' if number % 7 else "")
    pieces: list[bytes] = []
    while b"".join(pieces).count(b"\n") < 500:
        pieces.append(os.read(reader, 4096))
    log.close()
    os.close(reader)
    os.close(writer)
    assert all(piece.endswith(b"\n") for piece in pieces)
    assert len(pieces) < 50
    lines = b"".join(pieces).decode().splitlines()
    assert len(lines) == 500
    assert [f"id-{number:x}" in line for number, line in enumerate(lines)] == [True] * 500
    if log_format == "json":
        assert json.loads(lines[1])["user"] == 'a"\nb'


def test_access_log_goes_on_when_nobody_reads() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    log = AccessLog("text", writer)
    log.add("GET", "fake", "x", 200, 1, 0.001, "id", "")
    time.sleep(0.25)
    log.add("GET", "fake", "x", 200, 1, 0.001, "id", "")
    log.close()
    os.close(writer)


if __name__ == "__main__":

    def announce(settled: Settings) -> None:
        sys.stdout.write(f"ready {settled.port} {settled.max_connections}\n")
        sys.stdout.flush()

    sys.exit(serve(load_settings(None, os.environ), build, announce=announce))
