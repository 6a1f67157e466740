"""A server that is stopped in order leaves a store of one file: nothing waits in the write-ahead log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.store.support import STEP, T0, SqliteBackend, block, insert, register, state, times, values

import thalweg

LONG_LOG_BYTES = 1 << 20


class Server:
    """``thalweg serve`` with two workers on a free port."""

    def __init__(self, store: str) -> None:
        source = str(Path(thalweg.__file__).parent.parent)
        environ = {k: v for k, v in os.environ.items() if not k.startswith("THALWEG_")} | {"PYTHONPATH": source}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "thalweg", "serve", "--store", store, "--port", "0", "--workers", "2"],
            env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.said: list[str] = []
        for line in self.process.stdout:
            self.said.append(line)
            if line.rstrip().endswith("/sos"):
                self.sos = line.strip()
                break
        else:
            raise AssertionError("".join(self.said))

    def ask(self) -> None:
        with urllib.request.urlopen(f"{self.sos}?service=SOS&version=1.0.0&request=GetCapabilities", timeout=20) as got:  # noqa: S310
            assert b"LUGANO" in got.read()


@pytest.mark.fault
def test_stop_of_two_workers_leaves_no_long_log(tmp_path: Path) -> None:
    backend = SqliteBackend(tmp_path)
    station = register(backend.open())
    backend.close()
    log = tmp_path / "thalweg.sqlite-wal"
    server = Server(backend.url)
    try:
        store = backend.open()
        for i in range(400):
            insert(store, station, block(times(5, T0 + 5 * i * STEP), {station.ids[0]: [float(i)] * 5}))
            if i % 20 == 0:
                server.ask()
        assert log.stat().st_size > LONG_LOG_BYTES
        backend.close()
        for _ in range(20):
            server.ask()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
    assert not log.exists() or log.stat().st_size == 0
    store = backend.open()
    assert state(store, station.track).rows == 2000
    assert len(values(store, station.track, station.ids[0])) == 2000
    assert list(store.check()) == []
    backend.close()
