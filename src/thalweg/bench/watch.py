"""What a run costs: processor, memory, disk and network of server and generator, noted each second."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final

from thalweg.bench.errors import BenchError

INTERVAL_S: Final = 1.0
SHORTEST_S: Final = 0.2
"""A last look after less than this would give rates of chance."""
MAX_POINTS: Final = 600
"""Points kept of each series: neighbours are joined beyond that, so that a long run's file stays small."""

SERIES: Final = {
    "server_cpu": "processor of the server, per cent of one core",
    "generator_cpu": "processor of the generator, per cent of one core",
    "machine_cpu": "processor of the machine, per cent of all cores",
    "server_memory": "memory of all server processes (RSS; pages they share count for each), bytes",
    "server_memory_largest": "memory of the largest server process, bytes",
    "generator_memory": "memory of the generator, bytes",
    "server_read": "read from the disk by the server, bytes a second",
    "server_written": "written to the disk by the server, bytes a second",
    "generator_written": "written to the disk by the generator, bytes a second",
    "disk_read": "read from the machine's disks, bytes a second",
    "disk_written": "written to the machine's disks, bytes a second",
    "net_received": "received by the machine over all interfaces, bytes a second",
    "net_sent": "sent by the machine over all interfaces, bytes a second",
}


def processes() -> Any:
    """The module psutil. Raises BenchError where it is not installed."""
    try:
        import psutil
    except ImportError:
        raise BenchError("psutil is not installed; run: pip install 'thalweg[bench]'") from None
    return psutil


class Watch:
    """Notes all series from ``with`` on until its end.

    server  processes whose families are the server; those that end meanwhile are let go
    apart   processes whose families are neither server nor generator, such as the other side of a comparison.
            The generator is this process with all its other children
    """

    def __init__(self, server: Iterable[int] = (), apart: Iterable[int] = ()) -> None:
        self._psutil = processes()
        self._roots = tuple(server)
        self._apart = tuple(apart)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._begin = time.monotonic()
        self._began_at = time.time()
        self._rows: list[dict[str, float]] = []
        self._kept: dict[int, Any] = {}
        self._last: dict[int, tuple[float, int, int]] = {}

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(5)

    def as_json(self) -> dict[str, Any]:
        """``seconds`` and every series, with mean and greatest value."""
        rows = self._rows[1:] if len(self._rows) > 1 else self._rows
        step = max(1, -(-len(rows) // MAX_POINTS))
        joined = [rows[i : i + step] for i in range(0, len(rows), step)]
        names = [name for name in SERIES if any(name in row for row in rows)]
        return {
            "seconds": [round(part[0]["t"], 1) for part in joined],
            "series": {n: [round(sum(row.get(n, 0) for row in part) / len(part), 1) for part in joined] for n in names},
            "mean": {n: round(sum(row.get(n, 0) for row in rows) / len(rows), 1) for n in names},
            "max": {n: round(max(row.get(n, 0) for row in rows), 1) for n in names},
        }

    def first(self, name: str) -> float:
        """A series' value at the begin."""
        return self._rows[0].get(name, 0.0) if self._rows else 0.0

    # -------------------------------------------------------------- the thread

    def _run(self) -> None:
        psutil = self._psutil
        psutil.cpu_percent()
        before = self._machine()
        at = time.monotonic()
        self._one(1.0, before, before)
        over = False
        while not over:
            over = self._stop.wait(INTERVAL_S)
            passed = time.monotonic() - at
            if over and passed < SHORTEST_S:
                return
            now, at = self._machine(), time.monotonic()
            self._one(passed, before, now)
            before = now

    def _machine(self) -> dict[str, float]:
        psutil = self._psutil
        disk, net = psutil.disk_io_counters(), psutil.net_io_counters()
        found: dict[str, float] = {}
        if disk is not None:
            found |= {"disk_read": disk.read_bytes, "disk_written": disk.write_bytes}
        if net is not None:
            found |= {"net_received": net.bytes_recv, "net_sent": net.bytes_sent}
        return found

    def _one(self, passed: float, before: dict[str, float], now: dict[str, float]) -> None:
        row = {"t": time.monotonic() - self._begin, "machine_cpu": float(self._psutil.cpu_percent())}
        row |= {name: (value - before.get(name, value)) / passed for name, value in now.items()}
        server = self._family(self._roots)
        if self._roots:
            cpu, memory, largest, read, written = self._sum(server, passed)
            row |= {
                "server_cpu": cpu, "server_memory": memory, "server_memory_largest": largest, "server_read": read,
                "server_written": written,
            }  # fmt: skip
        ours = self._family((os.getpid(),)) - server - self._family(self._apart)
        cpu, memory, _, _, written = self._sum(ours, passed)
        self._rows.append(row | {"generator_cpu": cpu, "generator_memory": memory, "generator_written": written})

    def _family(self, roots: Iterable[int]) -> set[int]:
        found: set[int] = set()
        for pid in roots:
            try:
                process = self._kept.setdefault(pid, self._psutil.Process(pid))
                found |= {pid} | {child.pid for child in process.children(recursive=True)}
            except self._psutil.Error:
                continue
        return found

    def _sum(self, pids: set[int], passed: float) -> tuple[float, float, float, float, float]:
        """Processor per cent, memory, that of the largest, bytes read and written a second."""
        cpu = memory = largest = read = written = 0.0
        for pid in pids:
            try:
                process = self._kept.setdefault(pid, self._psutil.Process(pid))
                with process.oneshot():
                    times = process.cpu_times()
                    used = float(process.memory_info().rss)
                    io = process.io_counters()
            except (self._psutil.Error, OSError):
                continue
            seen = (times.user + times.system, io.read_bytes, io.write_bytes)
            # What has begun since the last look has spent all of it since then.
            last = self._last.get(pid, (0.0, 0, 0) if process.create_time() > self._began_at else seen)
            self._last[pid] = seen
            cpu += 100 * (seen[0] - last[0]) / passed
            read += (seen[1] - last[1]) / passed
            written += (seen[2] - last[2]) / passed
            memory += used
            largest = max(largest, used)
        return cpu, memory, largest, read, written
