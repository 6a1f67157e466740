"""The server in front of a fake door, over real sockets: answers, errors, limits, slow clients."""

from __future__ import annotations

import gzip
import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.conformance.server_support import Server, drain

BLOCK = b"0123456789abcdef" * 1024
BIG = b"The quick brown fox jumps over the lazy dog.\n" * 2000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(
        tmp_path_factory.mktemp("server"), max_body_bytes=200_000, max_bulk_body_bytes=400_000,
        max_bodies_bytes=500_000, request_timeout_s=1.5, log_format="json", max_url_bytes=1000,
        max_header_bytes=4000, max_headers=40,
    )  # fmt: skip
    yield started
    assert started.stop() == 0


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with short time-outs."""
    started = Server(
        tmp_path_factory.mktemp("slow"), head_timeout_s=0.7, body_timeout_s=1.5, keep_alive_s=0.6, send_timeout_s=1.0,
        max_connections=20, min_body_rate_bytes_s=100,
    )  # fmt: skip
    yield started
    assert started.stop() == 0


# ---------------------------------------------------------------- answers


def test_bytes_are_answered_with_length_and_protective_headers(server: Server) -> None:
    status, headers, body = server.ask("/fake/about")
    assert (status, body) == (200, f"GET|default|http://127.0.0.1:{server.port}/fake||about".encode())
    assert headers["content-length"] == str(len(body))
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]+", headers["x-request-id"])
    assert "server" not in headers


def test_host_header_does_not_reach_links(server: Server) -> None:
    _, _, body = server.ask("/fake/about", Host="evil.example", X_Forwarded_Host="evil.example")
    assert b"evil" not in body


def test_request_id_differs_between_requests(server: Server) -> None:
    ids = {server.ask("/fake")[1]["x-request-id"] for _ in range(3)}
    assert len(ids) == 3


def test_stream_comes_whole_and_its_generator_ends(server: Server) -> None:
    before = int(server.ask("/fake/closed")[2])
    status, headers, body = server.ask("/fake/stream/40")
    assert (status, body) == (200, BLOCK * 40)
    assert headers["transfer-encoding"] == "chunked"
    assert int(server.ask("/fake/closed")[2]) == before + 1


def test_short_and_empty_streams_get_a_length(server: Server) -> None:
    _, headers, body = server.ask("/fake/short-stream")
    assert (headers["content-length"], body) == ("13", b"one two three")
    status, headers, body = server.ask("/fake/empty-stream")
    assert (status, headers["content-length"], body) == (200, "0", b"")


def test_stream_that_fails_before_its_first_block_is_an_error_document(server: Server) -> None:
    status, headers, body = server.ask("/fake/fail-first")
    assert status == 500
    assert body == f"internal error, request {headers['x-request-id']}".encode()


def test_stream_that_fails_later_is_cut_off_and_logged(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", "/fake/fail-later")
    response = connection.getresponse()
    assert response.status == 200
    with pytest.raises(http.client.IncompleteRead) as caught:
        response.read()
    connection.close()
    assert 0 < len(caught.value.partial) <= 50 * len(BLOCK)
    assert b"secret" not in caught.value.partial
    server.wait_for_log("broke off after its answer had begun")


def test_client_that_goes_away_ends_the_generator(server: Server) -> None:
    before = int(server.ask("/fake/closed")[2])
    with server.connect() as connection:
        connection.sendall(b"GET /fake/slow-stream/2000 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    deadline = time.monotonic() + 5
    while int(server.ask("/fake/closed")[2]) == before:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_reader_that_stops_reading_stops_the_stream(server: Server) -> None:
    """The generator has 1.6 GB to give; what it gives unread must stay within buffers."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(b"GET /fake/stream/100000 HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(1.0)
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
        resident = [
            int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{child}/status").read_text())[1])  # type: ignore[index]
            for child in children
        ]
    assert max(resident) < 400_000  # kB


def test_deferred_answers_once_done_and_renders_failures(server: Server) -> None:
    assert server.ask("/fake/deferred/0.05")[::2] == (201, b"42")
    assert server.ask("/fake/deferred/0")[::2] == (201, b"42")
    assert server.ask("/fake/deferred-failed")[::2] == (404, b"NotFound: no such thing")
    status, _, body = server.ask("/fake/deferred-bug")
    assert (status, body[:14]) == (500, b"internal error")


def test_deferred_that_takes_too_long_is_503_and_others_go_on(server: Server) -> None:
    results: list[tuple[int, dict[str, str], bytes]] = []
    waiter = threading.Thread(target=lambda: results.append(server.ask("/fake/deferred/3")))
    waiter.start()
    time.sleep(0.2)
    started = time.monotonic()
    assert server.ask("/fake")[0] == 200
    assert time.monotonic() - started < 0.5
    waiter.join()
    status, headers, body = results[0]
    assert (status, headers["retry-after"]) == (503, "5")
    assert b"not confirmed within 1.5 s" in body


def test_write_that_others_came_before_is_made_anew(server: Server) -> None:
    assert server.ask("/fake/taken/3")[::2] == (200, b"42")
    # Not for ever, and only where the request left it to the server.
    assert server.ask("/fake/taken/1!")[::2] == (400, b"AlreadyExists: taken")
    assert server.ask("/fake/taken/1!")[::2] == (200, b"42")
    assert server.ask("/fake/taken/30")[::2] == (400, b"AlreadyExists: taken")


def test_many_deferred_at_once_all_end(server: Server) -> None:
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda: statuses.append(server.ask("/fake/deferred/0.01")[0])) for _ in range(40)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [201] * 40


def test_head_gives_the_headers_of_get_alone(server: Server) -> None:
    for path in ("/fake/about", "/fake/big", "/fake/short-stream"):
        _, wanted, _ = server.ask(path)
        status, headers, body = server.ask(path, "HEAD")
        assert (status, body) == (200, b"")
        assert headers["content-length"] == wanted["content-length"]
    answer = server.raw(b"HEAD /fake/stream/100 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.endswith(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")


def test_etag_gives_304_only_where_it_matches(server: Server) -> None:
    _, headers, _ = server.ask("/fake/big")
    assert headers["etag"] == '"big-1"'
    status, headers, body = server.ask("/fake/big", If_None_Match='"other", W/"big-1"')
    assert (status, body) == (304, b"")
    assert headers["etag"] == '"big-1"'
    assert "content-length" not in headers
    assert server.ask("/fake/big", If_None_Match='"big"')[0] == 200
    assert server.ask("/fake/big", "POST", b"", If_None_Match='"big-1"')[0] == 200


def test_large_text_is_compressed_for_those_who_accept(server: Server) -> None:
    _, headers, body = server.ask("/fake/big", Accept_Encoding="br, gzip")
    assert (headers["content-encoding"], headers["vary"]) == ("gzip", "accept-encoding")
    assert headers["etag"] == 'W/"big-1"'
    assert int(headers["content-length"]) == len(body) < len(BIG) / 10
    assert gzip.decompress(body) == BIG
    _, headers, body = server.ask("/fake/big", Accept_Encoding="gzip;q=0")
    assert ("content-encoding" in headers, headers["vary"], body) == (False, "accept-encoding", BIG)
    _, headers, _ = server.ask("/fake/about", Accept_Encoding="gzip")
    assert "content-encoding" not in headers
    _, headers, body = server.ask("/fake/connection-bytes/50000", Accept_Encoding="gzip")
    assert ("content-encoding" in headers, len(body)) == (False, 50000)


def test_stream_is_compressed_as_one_member(server: Server) -> None:
    _, headers, body = server.ask("/fake/stream/40", Accept_Encoding="gzip")
    assert (headers["content-encoding"], headers["transfer-encoding"]) == ("gzip", "chunked")
    assert gzip.decompress(body) == BLOCK * 40


def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    one = b"GET /fake/deferred/0.1 HTTP/1.1\r\nHost: x\r\n\r\n"
    two = b"GET /fake/about HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = server.raw(one + two)
    assert [m.start() < m.end() for m in re.finditer(b"HTTP/1.1", answer)] == [True, True]
    assert answer.index(b"201 Created") < answer.index(b"|about")


def test_requests_sent_ahead_are_bounded(server: Server) -> None:
    one = b"GET /fake/about HTTP/1.1\r\nHost: x\r\n\r\n"
    assert server.raw(one * 200).count(b"HTTP/1.1 200") == 200
    flood = server.raw(b"GET /fake/deferred/0.5 HTTP/1.1\r\nHost: x\r\n\r\n" + one * 2000)
    assert flood.count(b"HTTP/1.1 200") == 0
    assert server.ask("/fake")[0] == 200


# ---------------------------------------------------------------- bodies


def test_body_within_the_limit_reaches_the_door(server: Server) -> None:
    assert server.ask("/fake/size", "POST", b"x" * 200_000)[2] == b"200000"
    assert server.ask("/fake/echo", "POST", iter([b"a" * 5, b"b" * 70_000]))[2] == b"a" * 5 + b"b" * 70_000
    assert server.ask("/fake/size", "POST", b"")[2] == b"0"


def test_declared_length_over_the_limit_is_refused_before_reading(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(b"POST /fake/size HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n\r\n")
        started = time.monotonic()
        answer = connection.recv(65536)
        assert time.monotonic() - started < 1
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"200,000 bytes" in answer


def test_client_that_sends_a_body_too_large_can_read_the_answer(server: Server) -> None:
    """Closing at once would reset the connection while the client still sends."""
    status, _, body = server.ask("/fake/size", "POST", b"x" * 3_000_000)
    assert (status, body[:8]) == (413, b"TooLarge")


def test_chunks_over_the_limit_are_refused(server: Server) -> None:
    status, _, body = server.ask("/fake/size", "POST", iter([b"x" * 50_000] * 5))
    assert (status, body[:8]) == (413, b"TooLarge")


def test_gzip_body_is_read_and_a_bomb_refused(server: Server) -> None:
    assert server.ask("/fake/size", "POST", gzip.compress(b"x" * 150_000), Content_Encoding="gzip")[2] == b"150000"
    bomb = gzip.compress(b"\0" * 50_000_000)
    assert len(bomb) < 200_000
    started = time.monotonic()
    status, _, body = server.ask("/fake/size", "POST", bomb, Content_Encoding="gzip")
    assert (status, body[:8]) == (413, b"TooLarge")
    assert time.monotonic() - started < 1
    assert server.ask("/fake/size", "POST", b"no gzip", Content_Encoding="gzip")[0] == 400


def test_writers_may_send_larger_bodies(server: Server) -> None:
    body = b"x" * 300_000
    assert server.ask("/fake/size", "POST", body)[0] == 413
    assert server.ask("/fake/size", "POST", body, Authorization="Bearer good")[::2] == (200, b"300000")
    assert server.ask("/fake/size", "POST", b"x" * 400_001, Authorization="Bearer good")[0] == 413


def test_bodies_of_all_requests_together_are_bounded(server: Server) -> None:
    """Those that would be too much get 503; what ended, whichever way, is given back."""
    half = b"POST /fake/size HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + b"x" * 190_000
    with server.connect() as one, server.connect() as two:
        one.sendall(half)
        two.sendall(half)
        time.sleep(0.3)
        status, headers, body = server.ask("/fake/size", "POST", b"x" * 150_000)
        assert (status, headers["retry-after"], b"as many request bodies" in body) == (503, "5", True)
        assert server.ask("/fake/size", "POST", b"x" * 50_000)[0] == 200
        one.sendall(b"x" * 10_000)
        assert one.recv(100).startswith(b"HTTP/1.1 200")
    time.sleep(0.2)
    for _ in range(5):
        assert server.ask("/fake/size", "POST", b"x" * 200_000)[0] == 200
        assert server.ask("/fake/size", "POST", gzip.compress(b"x" * 200_000), Content_Encoding="gzip")[0] == 200


def test_body_cut_short_changes_nothing_and_is_logged(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(b"POST /fake/crash HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
    server.wait_for_log('"operation":"crash","status":499')


# ---------------------------------------------------------------- errors


def test_unexpected_exception_is_answered_by_request_id_alone(server: Server) -> None:
    status, headers, body = server.ask("/fake/crash")
    assert (status, body) == (500, f"internal error, request {headers['x-request-id']}".encode())
    entry = server.wait_for_log(f".*request {headers['x-request-id']} failed.*").group()
    assert "RuntimeError: secret text of a bug" in json.loads(entry)["exception"]


def test_header_that_would_split_the_response_is_an_error(server: Server) -> None:
    answer = server.raw(b"GET /fake/bad-header HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert b"Set-Cookie" not in answer
    assert not answer or answer.startswith(b"HTTP/1.1 500")


def test_unavailable_store_says_when_to_try_again(server: Server) -> None:
    status, headers, _ = server.ask("/fake/unavailable")
    assert (status, headers["retry-after"]) == (503, "7")


def test_unknown_paths_go_to_the_pages(server: Server) -> None:
    assert server.ask("/unknown")[::2] == (404, b"page /unknown for ''")
    status, headers, body = server.ask("/page-crash")
    assert status == 500
    assert headers["x-request-id"] in body.decode()
    assert b"secret" not in body


def test_other_methods_are_refused_with_those_allowed(server: Server) -> None:
    status, headers, body = server.ask("/fake", "DELETE")
    assert (status, headers["allow"]) == (405, "GET, POST, HEAD, OPTIONS")
    assert b"DELETE is not allowed" in body
    assert server.ask("/readonly", "POST", b"x")[0] == 405
    status, headers, body = server.ask("/fake", "OPTIONS")
    assert (status, headers["allow"], body) == (204, "GET, POST, HEAD, OPTIONS", b"")


def test_bad_credentials_are_401_with_a_challenge_for_doors_and_pages(server: Server) -> None:
    for path in ("/fake/about", "/unknown"):
        status, headers, _ = server.ask(path, Authorization="Bearer bad")
        assert status == 401
        assert headers["www-authenticate"].startswith('Basic realm="thalweg"')
    assert b"|writer|" in server.ask("/fake/about", Authorization="Bearer good")[2]


def test_slow_sign_in_holds_up_nobody_else(server: Server) -> None:
    results: list[bytes] = []
    waiter = threading.Thread(target=lambda: results.append(server.ask("/fake/about", Authorization="Bearer slow")[2]))
    waiter.start()
    time.sleep(0.05)
    started = time.monotonic()
    assert server.ask("/fake")[0] == 200
    assert time.monotonic() - started < 0.2
    waiter.join()
    assert b"|slow|" in results[0]


@pytest.mark.parametrize(
    "head",
    [
        b"POST /fake/size HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\n\r\nGET /fake HTTP/1.1\r\n\r\n",
        b"POST /fake/size HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"POST /fake/size HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\nabc",
        b"POST /fake/size HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n+3\r\nabc\r\n0\r\n\r\n",
        b"POST /fake/size HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"GET /fake HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
    ],
)
def test_ambiguous_framing_is_refused_and_the_connection_closed(server: Server, head: bytes) -> None:
    with server.connect() as connection:
        connection.settimeout(3)
        connection.sendall(head)
        answer = drain(connection)
    assert answer.count(b"HTTP/1.1 ") <= 1
    assert b" 200 " not in answer


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"HTTP/1.1\r\n", b"400"),
        (b"HTTP/1.1\r\nHost: a\r\nHost: a\r\n", b"400"),
        (b"HTTP/1.0\r\nHost: a\r\nHost: b\r\n", b"400"),
        (b"HTTP/1.0\r\n", b"200"),
        (b"HTTP/1.1\r\nHost:\r\n", b"200"),
        (b"HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer good\r\nAuthorization: Bearer good\r\n", b"400"),
        (b"HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n", b"501"),
    ],
)
def test_host_and_caller_are_named_once(server: Server, head: bytes, status: bytes) -> None:
    body = b"0\r\n\r\n" if b"chunked" in head else b""
    answer = server.raw(b"GET /fake/about " + head + b"Connection: close\r\n\r\n" + body)
    assert answer.split(b" ", 2)[1] == status


def test_trailers_are_no_headers(server: Server) -> None:
    head = b"POST /fake/about HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = server.raw(head + b"1\r\na\r\n0\r\nAuthorization: Bearer good\r\nX: y\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"||about")


@pytest.mark.parametrize("begin", [b"0\r\n", b"0\r\nX: ", b"5;", b"5;x="])
def test_what_goes_with_chunks_is_bounded(server: Server, begin: bytes) -> None:
    """Of 300 MB of trailers a worker made 2.4 GB."""
    piece = b"a: b\r\n" * 10_000 if begin == b"0\r\n" else b"a" * 60_000
    sent = 0
    with server.connect() as connection:
        connection.sendall(b"POST /fake/size HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + begin)
        with suppress(ConnectionError):
            while sent < 50_000_000:
                connection.sendall(piece)
                sent += len(piece)
    assert sent < 20_000_000


def test_many_small_chunks_are_read(server: Server) -> None:
    assert server.ask("/fake/size", "POST", iter([b"x"] * 20_000))[2] == b"20000"


def test_heads_over_the_limits_are_refused(server: Server) -> None:
    assert server.ask("/fake?" + "x" * 1000)[0] == 414
    assert server.ask("/fake?" + "x" * 900)[0] == 200
    many = {f"x{i}": "1" for i in range(60)}
    assert server.ask("/fake", **many)[0] == 431
    assert server.ask("/fake", Big="x" * 4000)[0] == 431
    endless = server.raw(b"GET /fake HTTP/1.1\r\nHost: x\r\nBig: " + b"x" * 3_000_000)
    assert endless == b"" or endless.startswith(b"HTTP/1.1 431")
    # Also for a request that comes in the same piece as another one.
    both = server.raw(
        b"GET /fake HTTP/1.1\r\nHost: x\r\n\r\nGET /fake?" + b"x" * 1500 + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    )
    assert [int(code) for code in re.findall(rb"HTTP/1.1 (\d+)", both)] == [200, 414]


# ---------------------------------------------------------------- log


def test_each_request_is_logged_without_query_or_credentials(server: Server) -> None:
    secret = "c2VjcmV0OnB3"
    _, headers, _ = server.ask(f"/fake/about?password={secret}", Authorization="Bearer good")
    entry = json.loads(server.wait_for_log(f'.*"request":"{headers["x-request-id"]}".*').group())
    assert (entry["method"], entry["door"], entry["operation"], entry["status"]) == ("GET", "fake", "about", 200)
    assert (entry["user"], entry["bytes"]) == ("writer", int(headers["content-length"]))
    assert 0 <= entry["ms"] < 1000
    assert secret not in server.log()


def test_names_cannot_forge_log_lines(server: Server) -> None:
    server.ask("/fake/a%0A%7B%22forged%22:1%7D")
    server.ask("/fake/bad%20name")
    time.sleep(0.4)
    lines = server.log().splitlines()
    assert not any(line.startswith('{"forged"') for line in lines)
    for line in lines:
        json.loads(line)


# ---------------------------------------------------------------- slow clients


def closed_within(connection: socket.socket, seconds: float) -> bytes:
    """What the server sent before it closed; fails if it does not close in time."""
    connection.settimeout(seconds)
    received = b""
    started = time.monotonic()
    while True:
        connection.settimeout(max(0.01, seconds - (time.monotonic() - started)))
        try:
            data = connection.recv(65536)
        except ConnectionResetError:
            return received
        except TimeoutError:
            raise AssertionError(f"still open after {seconds} s") from None
        if not data:
            return received
        received += data


def test_silent_connection_is_closed(slow: Server) -> None:
    with slow.connect() as connection:
        assert closed_within(connection, 2.5) == b""


def test_dripping_head_is_closed_with_408(slow: Server) -> None:
    with slow.connect() as connection:
        for byte in b"GET /fake HTTP/1.1\r\nHo":
            connection.sendall(bytes([byte]))
            time.sleep(0.02)
        assert closed_within(connection, 2.5).startswith(b"HTTP/1.1 408")


def test_empty_lines_do_not_keep_a_connection(slow: Server) -> None:
    with slow.connect() as connection:
        connection.sendall(b"GET /fake HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"root" in connection.recv(65536)
        started = time.monotonic()
        try:
            while time.monotonic() - started < 4:
                connection.sendall(b"\r\n")
                time.sleep(0.1)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert time.monotonic() - started < 3


def test_dripping_body_is_closed(slow: Server) -> None:
    with slow.connect() as connection:
        connection.sendall(b"POST /fake/size HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        answer = b""
        started = time.monotonic()
        connection.settimeout(0.05)
        while not answer and time.monotonic() - started < 4:
            connection.sendall(b"x")
            try:
                answer = connection.recv(65536)
            except TimeoutError:
                pass
        assert answer.startswith(b"HTTP/1.1 408")
        assert 1.4 < time.monotonic() - started < 3.5


def test_dripping_chunks_are_closed(slow: Server) -> None:
    with slow.connect() as connection:
        connection.sendall(b"POST /fake/size HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        assert closed_within(connection, 4).startswith(b"HTTP/1.1 408")


def test_idle_connection_is_closed_and_a_used_one_kept(slow: Server) -> None:
    with slow.connect() as connection:
        for _ in range(4):
            connection.sendall(b"GET /fake HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"root" in connection.recv(65536)
            time.sleep(0.3)
        assert closed_within(connection, 2.5) == b""


def test_running_request_is_not_taken_for_a_slow_client(slow: Server) -> None:
    assert slow.ask("/fake/deferred/2.5")[0] == 201


def test_client_that_does_not_read_its_answer_is_closed(slow: Server) -> None:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", slow.port))
        connection.sendall(b"GET /fake/connection-bytes/30000000 HTTP/1.1\r\nHost: x\r\n\r\n")
        slow.wait_for_log("did not read its answer", 6)


def test_connections_over_the_limit_get_a_quick_503_and_others_go_on(slow: Server) -> None:
    held = []
    try:
        for _ in range(20):
            connection = slow.connect()
            connection.sendall(b"GET /fake/deferred/1.5 HTTP/1.1\r\nHost: x\r\n\r\n")
            held.append(connection)
        time.sleep(0.2)
        started = time.monotonic()
        status, headers, body = slow.ask("/fake")
        assert (status, headers["connection"], headers["retry-after"]) == (503, "close", "2")
        assert b"as many connections as it can serve" in body
        assert time.monotonic() - started < 0.5
        assert held[0].recv(65536).startswith(b"HTTP/1.1 201")
    finally:
        for connection in held:
            connection.close()
    time.sleep(0.3)
    assert slow.ask("/fake")[0] == 200
