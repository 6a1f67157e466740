"""Drivers against servers that behave and servers that do not."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from mock_server import Reply, Stalling, serving

from thalweg.bench import drivers, wrk
from thalweg.bench.errors import BenchError
from thalweg.bench.http import Answer, Connection, origin
from thalweg.bench.requests import NAME, NUMBER, TIME, Pool, Request, Template, status_ok
from thalweg.bench.samples import Samples

GET = Request("get", "/")


def fine(_method: str, _path: str, _body: bytes) -> Reply:
    return 200, "text/plain", b"ok"


# ---------------------------------------------------------------- open and closed loop


def test_open_loop_counts_the_wait_for_a_stalled_server_from_when_requests_were_due() -> None:
    # 100 requests a second for 2 s; nothing is answered from 0.5 s to 1.5 s. Those due meanwhile wait 0.5 s on
    # average; a generator that counts from sending sees one slow request a connection.
    samples = Samples()
    with serving(Stalling(0.5, 1.5)) as url:
        drivers.run(
            drivers.open_loop(
                url, itertools.repeat(GET), 100, 2.0, samples=samples, connections=4, steady=True
            )
        )  # fmt: skip
    found = samples.figures(0, 2.0)["TOT"]
    assert found.failures == 0
    assert 195 <= found.requests <= 200
    waiting = [s for s in samples if 0.55 <= s.due_s <= 1.4]
    assert len(waiting) >= 80
    for one in waiting:
        assert one.due_s + one.latency_s >= 1.45, one
    # Half of all requests were due in the stall: the median of these is half its length.
    assert found.percentiles[75] == pytest.approx(500, abs=150)
    assert found.max_ms >= 900


def test_closed_loop_is_flattered_by_the_same_stall() -> None:
    samples = Samples()
    with serving(Stalling(0.3, 0.9)) as url:
        drivers.run(drivers.closed(url, itertools.repeat(GET), 2, samples=samples, seconds=1.2))
    found = samples.figures(0, 1.2)["TOT"]
    assert sum(1 for s in samples if s.latency_s > 0.3) == 2
    assert found.percentiles[50] < 100


def test_open_loop_notes_what_is_unanswered_at_the_end_as_failed() -> None:
    samples = Samples()
    limits = drivers.Limits(timeout_s=30, drain_s=0.2)
    with serving(Stalling(0.0, 3.0)) as url:
        drivers.run(
            drivers.open_loop(
                url, itertools.repeat(GET), 50, 0.4, samples=samples, connections=2, steady=True, limits=limits
            )
        )  # fmt: skip
    found = samples.figures(0, 0.4)["TOT"]
    # The 20th is due when the time is over; fractions of a second are no exact ones.
    assert found.failures == found.requests
    assert found.requests in (19, 20)
    assert set(found.errors) == {"no answer when the run ended", "no free connection when the run ended"}
    assert found.min_ms >= 150


def test_random_arrivals_have_the_rate_asked_for() -> None:
    samples = Samples()
    with serving(fine) as url:
        drivers.run(drivers.open_loop(url, itertools.repeat(GET), 200, 1.5, samples=samples, connections=20, seed=3))
    count = len(samples)
    # Poisson of mean 300: five standard deviations.
    assert 213 <= count <= 387
    assert len({round(s.due_s, 6) for s in samples}) == count


def test_users_think_between_requests_and_come_over_the_ramp() -> None:
    samples = Samples()

    async def behave(session: drivers.Session) -> None:
        while not session.over:
            await session.ask(GET)
            await session.think(0.1)

    with serving(fine) as url:
        drivers.run(drivers.users(url, [behave] * 10, ramp_s=0.5, seconds=1.0, samples=samples))
    first = sorted(min(s.due_s for s in samples if s.thread == thread) for thread in range(10))
    assert first[0] < 0.05
    assert first[-1] == pytest.approx(0.45, abs=0.1)
    # Ten users with a pause of 0.1 s ask some 100 times a second.
    assert 70 <= samples.figures(0.5, 1.5)["TOT"].rate <= 101


def test_counted_requests_are_sent_once_each() -> None:
    seen: list[str] = []

    def note(_method: str, path: str, _body: bytes) -> Reply:
        seen.append(path)
        return 200, "text/plain", b""

    samples = Samples()
    template = Template(Request("n", f"/{NUMBER}"), width=4)
    with serving(note) as url:
        drivers.run(drivers.closed(url, template.stream(), 7, samples=samples, requests=50))
    assert sorted(seen) == [f"/{n:04d}" for n in range(50)]
    assert len(samples) == 50


# ---------------------------------------------------------------- what servers do wrong


def test_answers_are_judged_not_only_their_status() -> None:
    request = Request("x", "/", check=lambda status, body: "empty" if not body else status_ok(status, body))
    samples = Samples()
    with serving(lambda *_: (200, "text/plain", b"")) as url:
        drivers.run(drivers.closed(url, itertools.repeat(request), 1, samples=samples, requests=3))
    assert samples.figures(0, 100)["TOT"].errors == {"empty": 3}


def test_answer_that_does_not_come_in_time_is_a_failure_with_that_time() -> None:
    samples = Samples()
    with serving(Stalling(0.0, 1.0)) as url:
        limits = drivers.Limits(timeout_s=0.2)
        drivers.run(drivers.closed(url, itertools.repeat(GET), 1, samples=samples, requests=1, limits=limits))
    (one,) = samples
    assert one.reason == "no answer within 0.2 s"
    assert 0.2 <= one.latency_s < 0.9


def test_refused_connection_is_a_failure_and_not_asked_again_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    samples = Samples()
    drivers.run(drivers.closed(url, itertools.repeat(GET), 1, samples=samples, seconds=0.5))
    assert 1 <= len(samples) <= 6
    assert all(s.reason.startswith("connection") for s in samples)


def test_connection_closed_by_the_server_is_opened_again() -> None:
    count = itertools.count()

    def every_other(_method: str, _path: str, _body: bytes) -> Reply | None:
        return None if next(count) % 2 else (200, "text/plain", b"ok")

    samples = Samples()
    with serving(every_other) as url:
        drivers.run(drivers.closed(url, itertools.repeat(GET), 1, samples=samples, requests=4))
    # A kept connection that turns out closed is no failure of a request that may be repeated.
    assert [s.reason for s in samples] == ["", "", "", ""]


@pytest.mark.parametrize(
    ("wire", "body", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end", b"until the end", ""),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", b"abc", ""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok", ""),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", ""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", b"", "connection"),
        (b"not HTTP at all\r\n\r\n", b"", "connection"),
        (b"", b"", "connection"),
    ],
    ids=["until close", "chunked", "continue", "no content", "cut short", "no HTTP", "nothing"],
)  # fmt: skip
def test_forms_of_answers(wire: bytes, body: bytes, reason: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(wire)

    thread = threading.Thread(target=serve)
    thread.start()
    samples, bodies = Samples(), []

    async def behave(session: drivers.Session) -> None:
        answer = await session.ask(Request("p", "/", "POST", body=b"x"))
        bodies.append(answer.body if answer else b"")

    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    drivers.run(drivers.users(url, [behave], ramp_s=0, seconds=5, samples=samples))
    thread.join(5)
    listener.close()
    (one,) = samples
    assert one.reason.startswith(reason)
    assert bool(one.reason) == bool(reason)
    assert bodies == [body]


@pytest.mark.parametrize("url", ["ftp://host/", "localhost:8080", "http://", "http://host:port/", ""])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(BenchError, match="no address"):
        origin(url)


def test_address_parts() -> None:
    assert origin("https://[::1]/sos?x=1").name == "[::1]"
    assert origin("http://host:8080/a/").prefix == "/a"
    assert (origin("https://host").port, origin("http://host:81").name) == (443, "host:81")


# ---------------------------------------------------------------- requests


def test_template_takes_names_in_turn_and_a_time_a_round() -> None:
    template = Template(
        Request("IO", "/sos", "POST", {}, f"{NAME} {TIME} {NUMBER}".encode()), ("A0", "B1"), base_s=0, step_s=600,
        first=5, width=3,
    )  # fmt: skip
    bodies = [request.body.decode() for request in itertools.islice(template.stream(), 3)]
    assert bodies == ["A0 1970-01-01T00:00:00Z 005", "B1 1970-01-01T00:00:00Z 006", "A0 1970-01-01T00:10:00Z 007"]


@pytest.mark.parametrize("kind", ["template", "pool", "address"])
def test_wrk_sends_what_the_other_drivers_send(kind: str) -> None:
    seen: list[tuple[str, str, bytes]] = []

    def note(method: str, path: str, body: bytes) -> Reply:
        if len(seen) < 6:
            seen.append((method, path, body))
        return 200, "text/plain", b"ok"

    body = f'<a b="{NAME}">@{TIME},1@2 ü {NUMBER}</a>'.encode()
    template = Template(
        Request("IO", f"/p?n={NUMBER}", "POST", {"Content-Type": 'text/xml; x="1"'}, body),
        ("n1", "n2"),
        86_400,
        60,
        7,
        3,
    )
    pool = Pool(tuple(Request("g", f"/{n}", headers={"X": "y"}) for n in range(4)))
    source = {"template": template, "pool": pool, "address": None}[kind]
    with serving(note) as url:
        found = wrk.run(url + "/only", source, 1, 1)
    assert found.failures == 0
    assert found.requests >= 6
    assert found.percentiles[50] <= found.percentiles[99] <= found.percentiles[100]
    if source is None:
        expected = [("GET", "/only", b"")] * 6
    else:
        expected = [(r.method, r.path, r.body) for r in itertools.islice(source.stream(), 6)]
    # wrk asks its script for one request before it begins, which it does not send.
    asked = [(r.method, r.path, r.body) for r in itertools.islice(source.stream(), 12)] if source else expected
    assert seen == expected or seen in [asked[n : n + 6] for n in range(4)]


def test_wrk_tells_failures() -> None:
    with serving(lambda *_: (503, "text/plain", b"no")) as url:
        found = wrk.run(url, None, 1, 1)
    assert found.failures == found.requests > 0
    assert found.errors == {"status 400 or above": found.failures}


def test_three_hundred_users_have_a_connection_each() -> None:
    begin = time.perf_counter()
    samples = Samples()

    async def behave(session: drivers.Session) -> None:
        await session.ask(GET)
        await session.think(60)

    with serving(fine) as url:
        drivers.run(drivers.users(url, [behave] * 300, ramp_s=0.3, seconds=0.5, samples=samples))
    assert len(samples) == 300
    assert not [s.reason for s in samples if s.reason]
    assert time.perf_counter() - begin < 20


# ---------------------------------------------------------------- long answers


def _slices(head: bytes, body: bytes, cuts: tuple[int, ...]) -> Iterator[bytes]:
    """The answer in pieces, cut so many bytes after the head's end."""
    whole = head + body
    places = [0, *(len(head) + cut for cut in cuts), len(whole)]
    for begin, end in itertools.pairwise(places):
        yield whole[begin:end]


@pytest.mark.parametrize("cuts", [(), (0,), (0, 1, 3000), (100, 200_000), (299_999,)])
def test_long_answers_are_counted_whole_and_judged_by_their_beginning(cuts: tuple[int, ...]) -> None:
    body = b"<begin/>" + bytes(300_000 - 8)
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 300000\r\n\r\n"
    told: list[Answer] = []

    async def ask(port: int) -> None:
        connection = Connection(origin(f"http://127.0.0.1:{port}"))
        # The connection is kept, and the second answer begins where the first has ended.
        request = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
        told.extend([await connection.ask(request, repeatable=True) for _ in range(3)])
        connection.close()

    connections = 0
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            nonlocal connections
            other, _ = listening.accept()
            connections += 1
            with other:
                other.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while other.recv(1000):
                    for piece in _slices(head, body, cuts):
                        other.sendall(piece)
                        time.sleep(0.01)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        drivers.run(ask(listening.getsockname()[1]))
        thread.join(5)
    assert connections == 1
    assert [one.size for one in told] == [300_000] * 3
    for one in told:
        assert body.startswith(one.body)
        assert one.body.startswith(b"<begin/>")


def test_a_long_answer_that_breaks_off_or_goes_on_is_an_error() -> None:
    for extra in (-1, 1):
        body = bytes(300_000 + extra)

        async def ask(port: int) -> None:
            connection = Connection(origin(f"http://127.0.0.1:{port}"))
            await connection.ask(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", repeatable=False)

        with socket.create_server(("127.0.0.1", 0)) as listening:

            def serve(listening: socket.socket = listening, body: bytes = body) -> None:
                other, _ = listening.accept()
                with other:
                    other.recv(1000)
                    other.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 300000\r\n\r\n")
                    time.sleep(0.05)
                    other.sendall(body[:299_000])
                    time.sleep(0.05)
                    other.sendall(body[299_000:])

            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            with pytest.raises(ConnectionError):
                drivers.run(ask(listening.getsockname()[1]))
            thread.join(5)
