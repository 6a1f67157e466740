"""Limits per client, proxies, TLS and workers that do not answer: over real sockets, and the counting by itself."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conformance.server_support import drain, servers
from tests.conformance.test_server_process import is_running, run_failing, wait_until, workers

from thalweg.domain.access import Principal, Role
from thalweg.domain.errors import InvalidParameter, StoreUnavailable, TooManyRequests
from thalweg.doors.http import Request
from thalweg.doors.sos.errors import render_error
from thalweg.server.clients import BURST_S, Clients, Networks, client_of
from thalweg.server.tls import Tls
from thalweg.settings import Settings, load_settings


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    with servers(tmp_path) as start:
        yield start


# ---------------------------------------------------------------- counting


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def admitted(clients: Clients, address: str, count: int) -> int:
    """How many of so many requests at once are admitted."""
    passed = 0
    for _ in range(count):
        try:
            clients.admit(address)
        except TooManyRequests:
            continue
        passed += 1
    return passed


def test_rate_is_a_mean_over_the_burst_and_clients_are_apart() -> None:
    clock = Clock()
    clients = Clients(Settings(max_requests_per_client_s=5), clock)
    assert admitted(clients, "192.0.2.1", 200) == 5 * BURST_S
    assert admitted(clients, "192.0.2.2", 200) == 5 * BURST_S
    clock.now += 2
    assert admitted(clients, "192.0.2.1", 200) == 10
    clock.now += 1000
    assert admitted(clients, "192.0.2.1", 200) == 5 * BURST_S
    # Refused requests do not count: whoever tries on does not have to wait for longer.
    clock.now += 1
    assert admitted(clients, "192.0.2.1", 5) == 5
    assert admitted(Clients(Settings(max_requests_per_client_s=0)), "192.0.2.1", 20_000) == 20_000


def test_trusted_clients_have_no_limit_of_their_own() -> None:
    settings = Settings(
        max_requests_per_client_s=1, max_heavy_requests_per_client=1, trusted_clients=("192.0.2.0/24", "2001:db8::1")
    )
    clients = Clients(settings, Clock())
    for address in ("192.0.2.200", "2001:db8::1", "::ffff:192.0.2.7"):
        assert admitted(clients, address, 100) == 100
        with clients.heavy(address), clients.heavy(address):
            pass
    assert admitted(clients, "2001:db8::2", 100) == BURST_S
    assert admitted(clients, "127.0.0.1", 100) == BURST_S
    assert Settings().trusted_clients == ("127.0.0.0/8", "::1")


def test_one_network_of_ipv6_is_one_client() -> None:
    clients = Clients(Settings(max_requests_per_client_s=1), Clock())
    assert sum(admitted(clients, f"2001:db8:1:2::{n:x}", 5) for n in range(1, 20)) == BURST_S
    assert admitted(clients, "2001:db8:1:3::1", 100) == BURST_S
    assert client_of("::ffff:192.0.2.7") == client_of("192.0.2.7") == "192.0.2.7"
    assert client_of("fe80::1%eth0") == client_of("fe80::2")
    assert client_of("") == ""


def test_memory_of_rates_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.server.clients.MAX_CLIENTS", 100)
    clients = Clients(Settings(max_requests_per_client_s=1), Clock())
    for number in range(1000):
        clients.admit(f"10.0.{number // 250}.{number % 250}")
    assert len(clients._due) == 100


def test_heavy_requests_are_bounded_per_client_and_in_all() -> None:
    clients = Clients(Settings(max_heavy_requests=3, max_heavy_requests_per_client=2), Clock())
    with clients.heavy("192.0.2.1"), clients.heavy("192.0.2.1"):
        with pytest.raises(TooManyRequests), clients.heavy("192.0.2.1"):
            pass
        with clients.heavy("192.0.2.2"):
            with pytest.raises(StoreUnavailable) as refused, clients.heavy("192.0.2.3"):
                pass
            assert not isinstance(refused.value, TooManyRequests)
    with pytest.raises(KeyError), clients.heavy("192.0.2.1"):
        raise KeyError
    assert not clients._heavy
    assert clients._all_heavy == 0


PROXIED = Settings(trusted_proxies=("10.0.0.0/8", "2001:db8::/32"))


@pytest.mark.parametrize(
    ("peer", "lines", "expected"),
    [
        ("192.0.2.1", [b"198.51.100.1"], "192.0.2.1"),  # no proxy: not believed
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", [b"198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", [b"127.0.0.1, 198.51.100.1"], "198.51.100.1"),  # what the client claims comes before
        ("10.0.0.1", [b"127.0.0.1", b"198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", [b"198.51.100.1, 10.0.0.2"], "198.51.100.1"),  # two proxies
        ("10.0.0.1", [b"10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", [b"198.51.100.1, nonsense"], "10.0.0.1"),
        ("10.0.0.1", [b""], "10.0.0.1"),
        ("10.0.0.1", [b"\xff<script>"], "10.0.0.1"),
        ("2001:db8::5", [b"2001:DB9::1"], "2001:db9::1"),
        ("10.0.0.1", [b"1.2.3.4," * 5000 + b"198.51.100.1"], "198.51.100.1"),
        ("", [b"198.51.100.1"], ""),
    ],
)
def test_forwarded_addresses_are_believed_of_trusted_proxies_alone(
    peer: str, lines: list[bytes], expected: str
) -> None:
    headers = [(b"x-forwarded-for", line) for line in lines]
    assert Clients(PROXIED).address(peer, [(b"host", b"x"), *headers]) == expected
    assert Clients(Settings()).address(peer, headers) == peer


@given(st.lists(st.binary(max_size=40), max_size=4))
def test_any_forwarded_header_gives_an_address_or_the_connections_own(lines: list[bytes]) -> None:
    found = Clients(PROXIED).address("10.0.0.1", [(b"x-forwarded-for", line) for line in lines])
    assert found == "10.0.0.1" or Networks(("0.0.0.0/0", "::/0")).holds(found)


def test_networks_of_settings_are_checked() -> None:
    assert load_settings(None, {"THALWEG_TRUSTED_PROXIES": "10.0.0.0/8, ::1"}).trusted_proxies == ("10.0.0.0/8", "::1")
    for text in ("everyone", "10.0.0.0/40", "10.0.0.1:80"):
        with pytest.raises(InvalidParameter, match="addresses and networks such as"):
            load_settings(None, {"THALWEG_TRUSTED_CLIENTS": text})


# ---------------------------------------------------------------- over sockets


def test_client_above_its_rate_gets_429_in_the_doors_form(start: Any) -> None:
    server = start(trusted_clients="192.0.2.1", max_requests_per_client_s=2)
    statuses = [server.ask("/fake")[0] for _ in range(25)]
    assert statuses.count(200) in range(20, 25)
    assert statuses[-1] == 429
    status, headers, body = server.ask("/fake")
    assert (status, headers["retry-after"]) == (429, "1")
    assert body.startswith(b"TooManyRequests: More than 2 requests a second")
    # Also those whose password is to be checked, and those of no door.
    assert server.ask("/fake", Authorization="Bearer wrong")[0] == 429
    assert server.ask("/nowhere")[0] == 429
    assert "429" in server.wait_for_log(r"request GET fake root 429 .*").group()
    assert "warning" not in server.log()
    time.sleep(1.2)
    assert server.ask("/fake")[0] == 200


def test_clients_behind_a_proxy_are_counted_apart(start: Any) -> None:
    server = start(trusted_clients="192.0.2.1", trusted_proxies="127.0.0.1", max_requests_per_client_s=1,
                   max_connections_per_address=1)  # fmt: skip
    for client in ("198.51.100.1", "198.51.100.2"):
        statuses = [server.ask("/fake", X_Forwarded_For=f"127.0.0.1, {client}")[0] for _ in range(14)]
        assert statuses[:10] == [200] * 10
        assert 429 in statuses
    # All connections are the proxy's.
    with server.connect() as first, server.connect() as second:
        for connection in (first, second):
            connection.sendall(b"GET /fake HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 198.51.100.9\r\n\r\n")
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")


def test_connections_of_one_client_are_bounded(start: Any) -> None:
    server = start(trusted_clients="192.0.2.1", max_connections_per_address=2)
    with server.connect() as first, server.connect() as second:
        for connection in (first, second):
            connection.sendall(b"GET /fake HTTP/1.1\r\nHost: x\r\n\r\n")
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        status, headers, body = server.ask("/fake")
        assert (status, headers["connection"]) == (503, "close")
        assert b"This address has as many connections" in body
    wait_until(lambda: server.ask("/fake")[0] == 200, 5)


def test_streams_and_large_bodies_of_one_client_are_bounded(start: Any) -> None:
    server = start(trusted_clients="192.0.2.1", max_heavy_requests_per_client=2, threads=8)
    with ThreadPoolExecutor(4) as pool:
        streams = [pool.submit(server.ask, "/fake/slow-stream/20") for _ in range(2)]
        time.sleep(0.4)
        status, headers, body = server.ask("/fake/stream/20")
        assert (status, headers["retry-after"]) == (429, "5")
        assert b"has 2 long requests under way" in body
        assert server.ask("/fake/size", "POST", b"x" * 100_000)[0] == 429
        # Short ones go on.
        assert server.ask("/fake/size", "POST", b"x" * 1000)[::2] == (200, b"1000")
        assert server.ask("/fake/short-stream")[0] in (200, 429)
        assert {len(stream.result()[2]) for stream in streams} == {20 * 16 * 1024}
    assert server.ask("/fake/size", "POST", b"x" * 100_000)[::2] == (200, b"100000")


def test_slow_reader_of_a_stream_is_held_to_a_rate_and_a_patient_one_is_not_timed(start: Any) -> None:
    server = start(send_timeout_s=1, min_send_rate_bytes_s=100_000, request_timeout_s=0.7)
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", server.port))
        slow.sendall(b"GET /fake/stream/2000 HTTP/1.1\r\nHost: x\r\n\r\n")
        slow.settimeout(5)
        began = time.monotonic()
        with suppress(ConnectionResetError):
            while slow.recv(2000) and time.monotonic() - began < 10:
                time.sleep(0.1)
        assert time.monotonic() - began < 8
    server.wait_for_log("did not read its answer", 3)
    # Takes several times the time limit of a request, but reads all the while.
    with server.connect() as patient:
        patient.sendall(b"GET /fake/stream/200 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        size = 0
        began = time.monotonic()
        while data := patient.recv(65536):
            size += len(data)
            time.sleep(0.04)
        assert size > 200 * 16 * 1024
        assert time.monotonic() - began > 0.7


def test_status_200_for_all_exceptions_leaves_those_that_ask_to_wait() -> None:
    request = Request("GET", "", b"", (), b"", "default", "http://x/sos", Principal("", Role.VIEWER))
    response = render_error(request, TooManyRequests("Too many.", retry_after_s=3), "200", "2.0.0")
    assert (response.status, dict(response.headers)["Retry-After"]) == (503, "3")


# ---------------------------------------------------------------- requests of the attack list


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"TRACE /fake HTTP/1.1\r\nHost: x\r\n", b"405"),
        (b"GET http://evil.example/fake/about HTTP/1.1\r\nHost: evil.example\r\n", b"200"),
        (b"GET /fake/big HTTP/1.1\r\nHost: x\r\nRange: bytes=" + b"0-1," * 7000 + b"2-3\r\n", b"200"),
        (b"GET /fake/about HTTP/1.1\r\nHost: x\r\nX-Forwarded-Host: evil.example\r\nX-Forwarded-Proto: https\r\n"
         b"Forwarded: for=127.0.0.1;host=evil.example\r\n", b"200"),
        (b"POST /fake/size HTTP/1.1\r\nHost: x\r\nContent-Length: 0x5\r\n", b"400"),
        (b"POST /fake/size HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n100000000000000000\r\nabc", b"400"),
        (b"POST /fake/size HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", b"4"),
        (b"CONNECT evil.example:443 HTTP/1.1\r\nHost: x\r\n", b"4"),
    ],
)  # fmt: skip
def test_odd_requests_get_one_honest_answer(start: Any, request_: bytes, status: bytes) -> None:
    server = start(max_header_bytes=60_000)
    head = request_ if b"\r\n\r\n" in request_ else request_ + b"Connection: close\r\n\r\n"
    answer = server.raw(head)
    assert answer.count(b"HTTP/1.1 ") <= 1
    if answer:
        assert answer.split(b" ", 2)[1].startswith(status)
    else:
        assert status != b"200"
    assert b"evil" not in answer
    assert server.ask("/fake")[0] == 200


def test_resets_after_the_request_leave_nothing_behind(start: Any) -> None:
    server = start()
    pid = int(server.ask("/fake/pid")[2])
    files = len(os.listdir(f"/proc/{pid}/fd"))
    for number in range(100):
        connection = server.connect()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        paths = (b"big", b"stream/500", b"deferred/0.05", b"connection-bytes/5000000")
        connection.sendall(b"GET /fake/%s HTTP/1.1\r\nHost: x\r\n\r\n" % paths[number % 4])
        connection.close()
    assert server.ask("/fake")[0] == 200
    wait_until(lambda: len(os.listdir(f"/proc/{pid}/fd")) <= files + 2, 5)
    assert int(server.ask("/fake/pid")[2]) == pid


# ---------------------------------------------------------------- TLS


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate of its own making for localhost, and its key."""
    files = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
         "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", files[0],
         "-keyout", files[1]],
        check=True, capture_output=True, timeout=30,
    )  # fmt: skip
    return files


def ask_tls(port: int, trusted: Path) -> tuple[bytes, str]:
    """An answer, and the name that the certificate has."""
    context = ssl.create_default_context(cafile=trusted)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        secured.sendall(b"GET /fake/about HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        subject: Any = secured.getpeercert()
        return drain(secured), dict(part[0] for part in subject["subject"])["commonName"]


def test_tls_by_certificate_files_renewed_while_serving(start: Any, tmp_path: Path) -> None:
    first, key = certificate(tmp_path, "first")
    server = start(tls_certificate=first, tls_key=key, head_timeout_s=1)
    answer, name = ask_tls(server.port, first)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"|https://127.0.0.1:%d/fake|" % server.port in answer
    assert name == "first"
    # What is no TLS is closed, and so is what says nothing.
    assert b"HTTP/1.1 200" not in server.raw(b"GET /fake HTTP/1.1\r\nHost: x\r\n\r\n")
    with server.connect() as silent:
        silent.settimeout(5)
        assert silent.recv(100) == b""
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname = False
    old.verify_mode = ssl.CERT_NONE
    with pytest.warns(DeprecationWarning, match="deprecated"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as plain, pytest.raises(OSError):  # noqa: PT011
        old.wrap_socket(plain)


def test_renewed_certificate_is_taken_over_and_a_bad_one_is_not(tmp_path: Path) -> None:
    first, key = certificate(tmp_path, "first")
    second, second_key = certificate(tmp_path, "second")
    tls = Tls(str(first), str(key))

    def common_name() -> str:
        left, right = socket.socketpair()
        with left, right, ThreadPoolExecutor(1) as pool:
            serving = pool.submit(tls.context.wrap_socket, left, server_side=True)
            client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            client.load_verify_locations(first)
            client.load_verify_locations(tmp_path / "second-copy.pem")
            with client.wrap_socket(right, server_hostname="localhost") as secured:
                subject: Any = secured.getpeercert()
                name = dict(part[0] for part in subject["subject"])["commonName"]
                serving.result(5).close()
                return str(name)

    (tmp_path / "second-copy.pem").write_bytes(second.read_bytes())
    assert common_name() == "first"
    kept = key.read_bytes()
    first_copy = first.read_bytes()
    # The certificate is written before its key.
    first.write_bytes(second.read_bytes())
    tls.renew()
    first.write_bytes(first_copy)
    assert common_name() == "first"
    first.write_bytes(second.read_bytes())
    key.write_bytes(second_key.read_bytes())
    os.utime(key, ns=(1, 1))
    tls.renew()
    first_again = first.read_bytes()
    first.write_bytes(first_copy)
    assert common_name() == "second"
    assert first_again != first_copy
    assert kept != key.read_bytes()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tls_certificate": "none.pem"}, "'none.pem' (setting tls_certificate) cannot be read"),
        ({"tls_key": "none.pem"}, "needs its certificate (tls_certificate)"),
        ({"tls_certificate": __file__}, "are not a certificate (PEM, with the chain) and its key"),
    ],
)
def test_certificate_that_cannot_be_used_is_told_at_the_start(settings: dict[str, str], message: str) -> None:
    failed = run_failing(**{f"THALWEG_{name.upper()}": value for name, value in settings.items()})
    assert failed.returncode == 1
    assert message in failed.stderr


# ---------------------------------------------------------------- workers that do not answer


@pytest.mark.fault
def test_stopped_worker_is_killed_and_replaced(start: Any) -> None:
    server = start(workers=2, worker_timeout_s=1.5)
    first = workers(server, 2)
    victim = min(first)
    os.kill(victim, signal.SIGSTOP)
    began = time.monotonic()
    server.wait_for_log(rf"process {victim}\) gave no sign of life for 1\.5 s", 8)
    wait_until(lambda: not is_running(victim), 3)
    # Connections that it had been given wait for its successor.
    for _ in range(20):
        assert server.ask("/fake")[0] == 200
    assert time.monotonic() - began < 12
    second = workers(server, 2)
    assert victim not in second
    assert len(second & first) == 1
    assert server.stop() == 0


@pytest.mark.fault
def test_worker_whose_loop_hangs_is_killed_and_one_that_works_is_not(start: Any) -> None:
    server = start(workers=1, worker_timeout_s=1.5)
    pid = int(server.ask("/fake/pid")[2])
    # Work of threads, however long, is no silence of the loop.
    assert server.ask("/fake/deferred/2.5")[0] == 201
    assert int(server.ask("/fake/pid")[2]) == pid
    hanging = threading.Thread(target=lambda: server.raw(b"GET /fake/sleep/30 HTTP/1.1\r\nHost: x\r\n\r\n"))
    hanging.start()
    server.wait_for_log(rf"process {pid}\) gave no sign of life", 8)
    wait_until(lambda: not is_running(pid), 3)
    assert server.ask("/fake")[0] == 200
    hanging.join()
    assert server.stop() == 0


@pytest.mark.fault
def test_workers_outlive_a_stop_of_their_parent(start: Any) -> None:
    server = start(workers=2, worker_timeout_s=1)
    pids = workers(server, 2)
    os.kill(server.process.pid, signal.SIGSTOP)
    time.sleep(2.5)
    os.kill(server.process.pid, signal.SIGCONT)
    time.sleep(1.5)
    assert workers(server, 2) == pids
    assert server.stop() == 0
