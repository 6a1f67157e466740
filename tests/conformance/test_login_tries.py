"""Tries of passwords at a started server: whichever worker a connection comes to, they count together."""

from __future__ import annotations

import base64
import http.client
from pathlib import Path

from tests.fuzz.harness import WORKERS, Server

from thalweg.settings import Settings


def status(port: int, name: str) -> int:
    """Of a request with a wrong password, on a connection of its own."""
    text = base64.b64encode(f"{name}:wrong password".encode()).decode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(
            "GET", "/sos?service=SOS&request=GetCapabilities", headers={"Authorization": f"Basic {text}"}
        )
        return connection.getresponse().status
    finally:
        connection.close()


def test_tries_count_over_all_workers_and_over_a_restart(tmp_path: Path) -> None:
    assert WORKERS > 1
    tries = Settings().login_tries
    server = Server(tmp_path)
    try:
        assert len(server.workers) == WORKERS
        assert [status(server.port, "ann") for _ in range(tries)] == [401] * tries
        # Each new connection may come to either worker.
        assert {status(server.port, "ann") for _ in range(6)} == {429}
        assert status(server.port, "bob") == 401
    finally:
        assert server.stop() == 0
    assert b"ann" not in (tmp_path / "store" / "thalweg.sqlite.tries").read_bytes()
    again = Server(tmp_path)
    try:
        # The wait is over; one more failure, and it is longer than before.
        assert [status(again.port, "ann") for _ in range(2)] == [401, 429]
    finally:
        assert again.stop() == 0
