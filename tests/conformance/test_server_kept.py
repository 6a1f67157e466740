"""Large bodies that a door keeps, over real sockets: one copy for all who read, however slowly; one compressed copy."""

from __future__ import annotations

import gzip
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.conformance.server_support import Server
from tests.conformance.test_server_app import SEGMENTS
from tests.conformance.test_server_clients import certificate

WHOLE = b"".join(SEGMENTS)
SLOW = 60
"""Clients that stop reading; a copy for each would take 530 MB."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One thread, and one place before it: whatever is done for each client in threads is refused to most of them."""
    started = Server(tmp_path_factory.mktemp("kept"), threads=1, max_pool_queue=1, keep_alive_s=30)
    yield started
    assert started.stop() == 0


def request(method: str = "GET", *lines: str) -> bytes:
    return "\r\n".join([f"{method} /fake/kept HTTP/1.1", "Host: x", *lines, "", ""]).encode()


def head(connection: socket.socket) -> tuple[dict[str, str], bytes]:
    """The head of an answer, and what has come of its body."""
    received = b""
    while b"\r\n\r\n" not in received:
        data = connection.recv(65536)
        assert data, received
        received += data
    text, _, rest = received.partition(b"\r\n\r\n")
    lines = text.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    return headers | {"status": lines[0].split()[1]}, rest


def body(connection: socket.socket, headers: dict[str, str], begun: bytes) -> bytes:
    """The rest of an answer, to its last byte and no further."""
    parts, left = [begun], int(headers["content-length"]) - len(begun)
    while left > 0:
        data = connection.recv(min(left, 1 << 20))
        assert data, left
        parts.append(data)
        left -= len(data)
    return b"".join(parts)


def resident_kb(server: Server) -> int:
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    found = []
    for child in children:
        lines = Path(f"/proc/{child}/status").read_text().splitlines()
        found += [int(line.split()[1]) for line in lines if line.startswith("VmRSS:")]
    return max(found)


def test_as_it_is_and_compressed_it_is_the_same_and_caches_are_told_so(server: Server) -> None:
    status, headers, plain = server.ask("/fake/kept")
    assert (status, plain == WHOLE) == (200, True)
    assert (headers["etag"], headers["vary"]) == ('"kept-1"', "accept-encoding")
    assert "content-encoding" not in headers
    for _ in range(2):
        status, headers, packed = server.ask("/fake/kept", Accept_Encoding="gzip, deflate")
        assert (status, gzip.decompress(packed) == WHOLE) == (200, True)
        # Other bytes than those the strong validator stands for.
        assert (headers["etag"], headers["vary"]) == ('W/"kept-1"', "accept-encoding")
        assert headers["content-encoding"] == "gzip"
        assert len(packed) < len(WHOLE) / 20
    assert server.ask("/fake/kept", Accept_Encoding="gzip;q=0")[2] == WHOLE
    for known in ('"kept-1"', 'W/"kept-1"'):
        assert server.ask("/fake/kept", Accept_Encoding="gzip", If_None_Match=known)[::2] == (304, b"")


def test_all_who_ask_at_once_for_the_compressed_copy_get_the_one_that_is_made(tmp_path: Path) -> None:
    server = Server(tmp_path, threads=1, max_pool_queue=1)
    try:
        with ThreadPoolExecutor(24) as pool:
            answers = list(pool.map(lambda _: server.ask("/fake/kept", Accept_Encoding="gzip"), range(24)))
        assert {status for status, _, _ in answers} == {200}
        (packed,) = {packed for _, _, packed in answers}
        assert gzip.decompress(packed) == WHOLE
    finally:
        assert server.stop() == 0


def test_connection_goes_on_after_it_and_a_head_has_its_length_alone(server: Server) -> None:
    with server.connect() as connection:
        for _ in range(2):
            connection.sendall(request("HEAD"))
            headers, rest = head(connection)
            assert (headers["status"], int(headers["content-length"]), rest) == ("200", len(WHOLE), b"")
            connection.sendall(request())
            headers, rest = head(connection)
            assert body(connection, headers, rest) == WHOLE
        connection.sendall(b"GET /fake/about HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        headers, rest = head(connection)
        assert body(connection, headers, rest).startswith(b"GET|default|")
        assert connection.recv(1) == b""


def test_requests_sent_ahead_are_answered_in_their_order(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(request() + request("GET", "Accept-Encoding: gzip") + request())
        rest = b""
        for packed in (False, True, False):
            received = rest
            while b"\r\n\r\n" not in received:
                received += connection.recv(65536)
            text, _, rest = received.partition(b"\r\n\r\n")
            length = int(text.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            parts, left = [rest[:length]], length - len(rest[:length])
            rest = rest[length:]
            while left:
                parts.append(connection.recv(left))
                left -= len(parts[-1])
            whole = b"".join(parts)
            assert (gzip.decompress(whole) if packed else whole) == WHOLE


def test_client_that_has_said_all_it_wants_to_say_gets_no_more_than_it_or_the_whole(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(request("GET", "Connection: close"))
        headers, rest = head(connection)
        connection.shutdown(socket.SHUT_WR)
        assert body(connection, headers, rest) == WHOLE
        assert connection.recv(1) == b""
    assert server.ask("/fake")[0] == 200


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_clients_that_stop_reading_share_its_bytes_and_hold_up_nobody(tmp_path: Path, encrypted: bool) -> None:
    files = dict(zip(("tls_certificate", "tls_key"), certificate(tmp_path, "own"), strict=True)) if encrypted else {}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    server = Server(tmp_path, **files, send_timeout_s=3)

    def connect(stack: ExitStack) -> socket.socket:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        connection.settimeout(20)
        connection.connect(("127.0.0.1", server.port))
        return stack.enter_context(context.wrap_socket(connection) if encrypted else connection)

    try:
        with ExitStack() as stack:
            fresh = connect(stack)
            fresh.sendall(request())
            headers, rest = head(fresh)
            assert body(fresh, headers, rest) == WHOLE
            before = resident_kb(server)
            slow = [connect(stack) for _ in range(SLOW)]
            for connection in slow:
                connection.sendall(request())
                assert head(connection)[0]["status"] == "200"
            started = time.monotonic()
            fresh.sendall(request())
            headers, rest = head(fresh)
            assert body(fresh, headers, rest) == WHOLE
            assert time.monotonic() - started < 3
            assert resident_kb(server) - before < 150_000
            # Some go, in the middle; the server cuts the others off.
            for connection in slow[::2]:
                connection.close()
            server.wait_for_log("closed a connection whose client did not read its answer", 15)
            fresh.sendall(request())
            headers, rest = head(fresh)
            assert body(fresh, headers, rest) == WHOLE
    finally:
        assert server.stop() == 0
