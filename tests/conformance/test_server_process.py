"""The supervisor and its workers as real processes: start, death, restart, stop."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.server_support import APP, servers


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    with servers(tmp_path) as start:
        yield start


def workers(server: Any, count: int) -> set[int]:
    """Process ids of all workers, from their own answers."""
    found: set[int] = set()
    deadline = time.monotonic() + 10
    while len(found) < count:
        assert time.monotonic() < deadline, f"only {found} answered"
        found.add(int(server.ask("/fake/pid")[2]))
    return found


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until(condition: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def run_failing(**environ: str) -> subprocess.CompletedProcess[str]:
    """A start that is expected to fail."""
    base = {k: v for k, v in os.environ.items() if not k.startswith("THALWEG_")}
    base |= {"THALWEG_PORT": "0", "THALWEG_WORKERS": "2", "PYTHONPATH": os.pathsep.join(sys.path)} | environ
    return subprocess.run([sys.executable, str(APP)], env=base, capture_output=True, text=True, timeout=30, check=False)


def test_both_workers_serve_and_do_background_work(start: Any) -> None:
    server = start(workers=2)
    assert len(workers(server, 2)) == 2
    # The first round fails in each worker; later ones must come all the same.
    wait_until(lambda: int(server.ask("/fake/maintained")[2]) >= 2, 6)
    assert "background work of the store failed" in server.log()
    assert server.stop() == 0


def test_stop_finishes_running_requests_and_refuses_new_ones(start: Any) -> None:
    server = start(workers=2)
    results: list[Any] = []
    running = [threading.Thread(target=lambda: results.append(server.ask("/fake/deferred/1.5")[::2])) for _ in range(6)]
    stream = threading.Thread(target=lambda: results.append(len(server.ask("/fake/slow-stream/25")[2])))
    for thread in [*running, stream]:
        thread.start()
    time.sleep(0.4)
    started = time.monotonic()
    server.process.terminate()
    time.sleep(0.5)
    with pytest.raises(ConnectionRefusedError):
        server.connect().close()
    assert server.process.wait(10) == 0
    assert time.monotonic() - started < 5
    for thread in [*running, stream]:
        thread.join(5)
    assert results.count((201, b"42")) == 6
    assert results.count(25 * 16 * 1024) == 1
    assert server.log().count("closed the application") == 2
    assert "stopping: running requests have 8 s to end" in server.log()
    assert server.log().rstrip().endswith("stopped")


def test_stop_does_not_wait_for_idle_or_endless_clients(start: Any) -> None:
    server = start(stop_timeout_s=1)
    with server.connect() as idle, server.connect() as dripping, server.connect() as endless:
        idle.sendall(b"GET /fake HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"root" in idle.recv(65536)
        dripping.sendall(b"POST /fake HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
        endless.sendall(b"GET /fake/slow-stream/100000 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert endless.recv(1000)
        started = time.monotonic()
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(10) == 0
        assert time.monotonic() - started < 4
    assert "closed the application" in server.log()


def test_worker_that_hangs_is_killed_at_the_end(start: Any) -> None:
    server = start(stop_timeout_s=0.5)
    with server.connect() as hanging:
        hanging.sendall(b"GET /fake/sleep/30 HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.3)
        server.process.terminate()
        assert server.process.wait(10) == 1
    assert "did not stop in time and is killed" in server.log()


def test_second_signal_ends_at_once(start: Any) -> None:
    server = start(stop_timeout_s=30)
    with server.connect() as endless:
        endless.sendall(b"GET /fake/slow-stream/100000 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert endless.recv(1000)
        server.process.terminate()
        # Two that come close together are taken for one, also where the first is heard late.
        time.sleep(1.5)
        assert server.process.poll() is None
        started = time.monotonic()
        server.process.terminate()
        assert server.process.wait(10) == 1
        assert time.monotonic() - started < 2


def test_killed_worker_is_replaced_and_its_address_serves_on(start: Any) -> None:
    server = start(workers=2)
    first = workers(server, 2)
    victim = min(first)
    os.kill(victim, signal.SIGKILL)
    server.wait_for_log(rf"process {victim}\) ended with exit code -9; another one starts in 0\.\d s")
    # Connections of the dead worker's socket wait for its successor instead of being refused.
    for _ in range(20):
        assert server.ask("/fake")[0] == 200
    second = workers(server, 2)
    assert victim not in second
    assert len(second & first) == 1
    assert server.stop() == 0
    assert not any(is_running(pid) for pid in first | second)


def test_workers_end_when_the_parent_is_killed(start: Any) -> None:
    server = start(workers=2)
    pids = workers(server, 2)
    server.process.kill()
    server.process.wait()
    wait_until(lambda: not any(is_running(pid) for pid in pids), 6)


def test_reason_of_a_worker_that_cannot_start_is_told() -> None:
    refused = run_failing(FAKE_START="refused")
    assert refused.returncode == 1
    assert "StoreUnavailable: the fake store is locked" in refused.stderr
    assert "ready" not in refused.stdout
    crash = run_failing(FAKE_START="crash")
    assert "the log says why" in crash.stderr
    assert "secret text of a start" in crash.stderr
    assert "exit code -9" in run_failing(FAKE_START="die").stderr


def test_port_in_use_is_told_also_if_the_other_program_shares_it(start: Any) -> None:
    server = start()
    taken = run_failing(THALWEG_PORT=str(server.port))
    assert taken.returncode == 1
    assert f"Port {server.port} of 127.0.0.1 cannot be used: another program listens on it" in taken.stderr
    assert server.ask("/fake")[0] == 200


def test_host_without_address_is_told() -> None:
    assert "has no address" in run_failing(THALWEG_HOST="no-such-host.invalid").stderr
    assert "has no address '203.0.113.7'" in run_failing(THALWEG_HOST="203.0.113.7").stderr


def test_host_may_be_a_name_or_ipv6(start: Any) -> None:
    server = start(host="localhost")
    assert server.ask("/fake/about")[2].endswith(b"||about")
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 loopback here")
    six = start(host="::1")
    with socket.create_connection(("::1", six.port)) as connection:
        connection.sendall(b"GET /fake/about HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = b""
        while data := connection.recv(65536):
            answer += data
    assert f"http://[::1]:{six.port}/fake".encode() in answer


def test_too_few_open_files_lower_the_connections_and_say_so(tmp_path: Path) -> None:
    def limited(most: int) -> subprocess.Popen[str]:
        base = {k: v for k, v in os.environ.items() if not k.startswith("THALWEG_")}
        base |= {"THALWEG_PORT": "0", "THALWEG_WORKERS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.Popen(
            [sys.executable, str(APP)], env=base, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)),
        )  # fmt: skip

    process = limited(300)
    assert process.stdout is not None
    assert process.stdout.readline().split()[2] == "200"
    process.terminate()
    _, errors = process.communicate(timeout=15)
    assert process.returncode == 0
    assert "serves 200 connections instead of 5,000: a process may open 300 files only" in errors
    process = limited(105)
    _, errors = process.communicate(timeout=15)
    assert process.returncode == 1
    assert "No connections could be served" in errors
