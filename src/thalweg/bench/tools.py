"""Programs that a measurement starts, and nginx as the limit of what can be reached. Loopback only."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from thalweg.bench.errors import BenchError, Unreachable


def program(name: str, package: str) -> str:
    """The path of a program, or an error that says which Debian package holds it."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise BenchError(f"'{name}' is not installed (Debian package {package}); `make bench` installs it.")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True, slots=True)
class Started:
    """A program that was started here and serves."""

    url: str
    pid: int


def wait_for(url: str, process: subprocess.Popen[bytes] | None = None, timeout_s: float = 30.0) -> None:
    """Until something answers at the address with a status below 500.

    process  what is to answer; its end ends the waiting
    raises   Unreachable
    """
    end = time.monotonic() + timeout_s
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2):  # noqa: S310 (address made here, loopback)
                return
        except urllib.error.HTTPError as error:
            if error.code < 500:
                return
        except OSError:
            pass
        if process is not None and process.poll() is not None:
            raise Unreachable(f"The program that was to answer at {url} has ended with {process.returncode}.")
        if time.monotonic() > end:
            raise Unreachable(f"Nothing answered at {url} within {timeout_s:.0f} s.")
        time.sleep(0.05)


@contextlib.contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """The process, ended with its children afterwards (it must lead a session of its own)."""
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(5)


@contextlib.contextmanager
def nginx(body: bytes, workers: int = 2) -> Iterator[Started]:
    """nginx serving exactly these bytes as a static file."""
    exe = program("nginx", "nginx-light")
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "body.bin").write_bytes(body)
        port = free_port()
        temp = "".join(
            f"{kind}_temp_path {folder}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        user = "user root; " if os.geteuid() == 0 else ""
        (folder / "nginx.conf").write_text(
            f"{user}worker_processes {workers}; pid {folder}/pid; error_log {folder}/error.log; daemon off;\n"
            "events { worker_connections 4096; }\n"
            "http { access_log off; sendfile on; tcp_nopush on; open_file_cache max=100; "
            f"keepalive_requests 1000000; {temp}\n"
            f"server {{ listen 127.0.0.1:{port} reuseport; root {folder}; }} }}\n"
        )
        command = [exe, "-p", str(folder), "-c", str(folder / "nginx.conf")]
        with ended(subprocess.Popen(command, start_new_session=True)) as process:
            url = f"http://127.0.0.1:{port}/body.bin"
            wait_for(url, process)
            yield Started(url, process.pid)
