"""The server in front of a fake door as a process of its own, and requests over sockets."""

from __future__ import annotations

import http.client
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

APP = Path(__file__).with_name("test_server_app.py")


class Server:
    """A started fake application; its log goes to a file."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.log_file = folder / f"log-{time.monotonic_ns()}"
        environ = {k: v for k, v in os.environ.items() if not k.startswith("THALWEG_")}
        environ |= {"THALWEG_PORT": "0", "THALWEG_WORKERS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        environ |= {f"THALWEG_{name.upper()}": str(value) for name, value in settings.items()}
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(APP)], env=environ, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline().split()
        assert line[:1] == ["ready"], self.log()
        self.port = int(line[1])

    def log(self) -> str:
        return self.log_file.read_text("utf-8")

    def wait_for_log(self, pattern: str, seconds: float = 5) -> re.Match[str]:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = re.search(pattern, self.log())
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"no {pattern!r} in the log:\n{self.log()}")

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def ask(
        self, path: str, method: str = "GET", body: bytes | Iterator[bytes] | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """One request on a connection of its own: status, headers by lower-case name, body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            chunked = body is not None and not isinstance(body, bytes)
            if chunked:
                named["Transfer-Encoding"] = "chunked"
            connection.request(method, path, body, named, encode_chunked=chunked)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return response.status, found, response.read()
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def raw(self, data: bytes) -> bytes:
        """Everything that comes back for some bytes until the server closes or two seconds pass in silence."""
        with self.connect() as connection:
            connection.settimeout(2)
            # A server that has refused the beginning does not read the rest.
            with suppress(ConnectionError):
                connection.sendall(data)
            return drain(connection)


def drain(connection: socket.socket) -> bytes:
    received = b""
    try:
        while data := connection.recv(65536):
            received += data
    except (TimeoutError, ConnectionResetError):
        pass
    return received


@contextmanager
def servers(folder: Path) -> Iterator[Callable[..., Server]]:
    """What starts a server with the settings it is given; all are gone in the end."""
    started: list[Server] = []

    def start(**settings: object) -> Server:
        started.append(Server(folder, **settings))
        return started[-1]

    try:
        yield start
    finally:
        for server in started:
            if server.process.poll() is None:
                server.process.kill()
                server.process.wait()
