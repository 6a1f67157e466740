"""Programs that a measurement needs beside the server: wrk as load generator, nginx as the limit. Loopback only."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click


@dataclass(frozen=True, slots=True)
class Load:
    """What one run of wrk saw; milliseconds."""

    connections: int
    rate: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    requests: int
    bad_status: int
    socket_errors: str

    @property
    def failed(self) -> bool:
        return bool(self.bad_status or self.socket_errors)


def program(name: str, package: str) -> str:
    """The path of a program, or an error that says which Debian package holds it."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise click.ClickException(f"'{name}' is not installed (Debian package {package}); `make bench` installs it.")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(url: str, timeout_s: float = 30.0) -> None:
    """Until something answers at the address with a status below 500."""
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
        if time.monotonic() > end:
            raise click.ClickException(f"Nothing answered at {url} within {timeout_s:.0f} s.")
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
def nginx(body: bytes, workers: int = 2) -> Iterator[str]:
    """nginx serving exactly these bytes as a static file; gives the address."""
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
        with ended(subprocess.Popen(command, start_new_session=True)):
            url = f"http://127.0.0.1:{port}/body.bin"
            wait_for(url)
            yield url


@contextlib.contextmanager
def thalweg(store: Path, *, workers: int = 2, settings: dict[str, str] | None = None) -> Iterator[str]:
    """The server as operators start it, on a free port; gives its address."""
    port = free_port()
    command = [
        sys.executable, "-m", "thalweg", "serve", "--store", f"sqlite:///{store}", "--port", str(port),
        "--workers", str(workers),
    ]  # fmt: skip
    environment = os.environ | {f"THALWEG_{k.upper()}": v for k, v in (settings or {}).items()}
    # The access log is written, as operators have it, and read by nobody.
    silent = subprocess.DEVNULL
    with ended(subprocess.Popen(command, start_new_session=True, env=environment, stdout=silent, stderr=silent)):
        url = f"http://127.0.0.1:{port}"
        wait_for(f"{url}/health/live")
        yield url


def wrk(url: str, connections: int, seconds: int, script: Path | None = None, arguments: Sequence[str] = ()) -> Load:
    """One run of wrk with one thread."""
    command = [program("wrk", "wrk"), "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "--latency"]
    command += (["-s", str(script)] if script else []) + [url] + (["--", *arguments] if arguments else [])
    out = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=False).stdout
    scale = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}

    def milliseconds(pattern: str) -> float:
        match = re.search(pattern, out, re.MULTILINE)
        return float(match[1]) * scale[match[2]] if match else float("nan")

    rate = re.search(r"Requests/sec:\s+([\d.]+)", out)
    if rate is None:
        raise click.ClickException(f"wrk gave no rate:\n{out}")
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    lost = re.search(r"Socket errors: (.*)", out)
    total = re.search(r"(\d+) requests in", out)
    return Load(
        connections,
        float(rate[1]),
        milliseconds(r"^\s+50%\s+([\d.]+)(us|ms|s|m)\s*$"),
        milliseconds(r"^\s+99%\s+([\d.]+)(us|ms|s|m)\s*$"),
        milliseconds(r"^\s+Latency\s+\S+\s+\S+\s+([\d.]+)(us|ms|s|m)\s"),
        int(total[1]) if total else 0,
        int(bad[1]) if bad else 0,
        lost[1] if lost else "",
    )


def fetch(url: str, *, body: bytes | None = None, headers: dict[str, str] | None = None) -> bytes:
    """The body of one answer; the caller's address is loopback."""
    request = urllib.request.Request(url, data=body, headers=headers or {})  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
        return bytes(response.read())
