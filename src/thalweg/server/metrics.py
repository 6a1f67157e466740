"""Figures of requests, kept by each worker in a small file that all of them can read, so that a scrape sums them all.

A worker's file is a row of float64 in memory that it alone writes to; nothing is locked and nothing is copied when a
request is counted. The file of a worker that died stays and goes on being summed, so that counters never fall while the
server runs. Labels come from the doors' own tables of operations: nothing a client sends makes a new one.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from struct import Struct
from typing import Final

logger = logging.getLogger(__name__)

OTHER: Final = "other"
"""Label of operations that a door's table does not have."""
BUCKETS_S: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
"""Upper bounds of the latency histogram, seconds; one more has no bound."""
_CLASSES: Final = ("2xx", "3xx", "4xx", "5xx", "gone")
"""Of HTTP statuses; ``gone``: the client closed the connection first."""
_SUM: Final = len(_CLASSES) + len(BUCKETS_S) + 1
_SLOTS: Final = _SUM + 1
"""Numbers of one operation: by class of status, by bucket of time, sum of seconds."""
_HEAD: Final = Struct("<8sQ")
_MAGIC: Final = b"twmetr01"
_MAX_LAYOUT: Final = 1 << 20
_GONE: Final = 499

Key = tuple[str, str]


class Metrics:
    """The figures of one worker, and the sum of all.

    operations  names of operations by door
    gauges      names of further figures of each worker, set by ``set``
    folder      where workers' files are, made at need; None: in memory, for one process alone
    run         tells apart servers that share the folder; by default the parent process
    """

    def __init__(
        self,
        operations: Mapping[str, Iterable[str]],
        gauges: Sequence[str] = (),
        folder: Path | None = None,
        run: str | None = None,
    ) -> None:
        keys = [(door, name) for door, names in operations.items() for name in (*names, OTHER)]
        keys.append(("web", "page"))
        self._layout = {"keys": keys, "gauges": list(gauges)}
        self._index: dict[Key, int] = {key: place * _SLOTS for place, key in enumerate(keys)}
        self._others: dict[str, int] = {door: self._index[door, OTHER] for door in operations}
        self._gauges = {name: len(keys) * _SLOTS + place for place, name in enumerate(gauges)}
        self._folder = folder
        self._run = _run_id() if run is None else run
        text = json.dumps(self._layout).encode()
        text += b" " * (-len(text) % 8)
        count = len(keys) * _SLOTS + len(gauges)
        head = _HEAD.pack(_MAGIC, len(text)) + text
        self._path: Path | None = None
        size = len(head) + 8 * count
        try:
            self._path = None if folder is None else self._make_file(folder, size)
        except OSError as error:
            # A full disk keeps nobody from serving; the others' sums lack this worker then.
            logger.warning("the figures of this worker are not shared: %s", error.strerror)
            self._folder = None
        if self._path is None:
            self._map = mmap.mmap(-1, size)
        else:
            with self._path.open("r+b") as stream:
                self._map = mmap.mmap(stream.fileno(), size)
        self._map[: len(head)] = head
        self._view = memoryview(self._map)[len(head) :].cast("d")

    # ------------------------------------------------------------ counting

    def add(self, door: str, operation: str, status: int, seconds: float) -> None:
        """Count one request; about a microsecond. On the event loop only."""
        place = self._index.get((door, operation))
        if place is None:
            place = self._others.get(door)
            if place is None:
                return
        view = self._view
        if status == _GONE:
            kind = 4
        else:
            kind = status // 100 - 2
            if not 0 <= kind <= 3:
                kind = 3
        view[place + kind] += 1.0
        view[place + len(_CLASSES) + bisect_left(BUCKETS_S, seconds)] += 1.0
        view[place + _SUM] += seconds

    def set(self, gauge: str, value: float) -> None:
        """Say how large a figure of this worker is now."""
        self._view[self._gauges[gauge]] = value

    # ------------------------------------------------------------ files

    def _make_file(self, folder: Path, size: int) -> Path:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in folder.glob("*.metrics"):
            run, _, pid = path.stem.rpartition("-")
            if run != self._run and not _is_alive(run.partition(".")[0]) and not _is_alive(pid):
                path.unlink(missing_ok=True)
        path = folder / f"{self._run}-{os.getpid()}.metrics"
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size)
        finally:
            os.close(descriptor)
        return path

    def _files(self) -> list[Path]:
        """Those of this run, of workers that live and of those that died."""
        return [] if self._folder is None else sorted(self._folder.glob(f"{self._run}-*.metrics"))

    def close(self) -> None:
        """Take the files away if no other worker of this run lives."""
        if self._path is None or self._folder is None:
            return
        if any(_is_alive(path.stem.rpartition("-")[2]) for path in self._files() if path != self._path):
            return
        for path in self._files():
            path.unlink(missing_ok=True)
        try:
            self._folder.rmdir()
        except OSError:
            # Another server's files are in it.
            pass

    # ------------------------------------------------------------ reading

    def totals(self) -> tuple[dict[Key, list[float]], dict[str, float], int]:
        """Numbers by door and operation, gauges, both summed over the workers, and how many of these live."""
        sums: dict[Key, list[float]] = {}
        gauges: dict[str, float] = dict.fromkeys(self._gauges, 0.0)
        workers = 0
        blobs: list[tuple[bytes, bool]] = []
        if self._folder is None:
            blobs.append((bytes(self._map), True))
        for path in self._files():
            try:
                blobs.append((path.read_bytes(), _is_alive(path.stem.rpartition("-")[2])))
            except OSError:
                continue
        for blob, lives in blobs:
            read = _read(blob)
            if read is None:
                continue
            workers += lives
            for key, numbers in read[0].items():
                known = sums.setdefault(key, [0.0] * _SLOTS)
                for place, number in enumerate(numbers):
                    known[place] += number
            for name, number in read[1].items() if lives else ():
                gauges[name] = gauges.get(name, 0.0) + number
        return sums, gauges, workers

    def text(self, more: Mapping[str, tuple[str, str, float]] | None = None) -> str:
        """All figures in the text format of Prometheus (version 0.0.4).

        more  further ones of the server as a whole: type, help and value by name
        """
        sums, gauges, workers = self.totals()
        lines = [
            "# HELP thalweg_requests_total Requests answered, by door, operation and class of HTTP status.",
            "# TYPE thalweg_requests_total counter",
        ]
        for (door, operation), numbers in sums.items():
            for name, number in zip(_CLASSES, numbers, strict=False):
                if number:
                    labels = f'door="{_label(door)}",operation="{_label(operation)}",status="{name}"'
                    lines.append(f"thalweg_requests_total{{{labels}}} {number:.0f}")
        lines += [
            "# HELP thalweg_request_seconds Time from the request's head to the end of its answer.",
            "# TYPE thalweg_request_seconds histogram",
        ]
        for (door, operation), numbers in sums.items():
            counts = numbers[len(_CLASSES) : _SUM]
            if not any(counts):
                continue
            labels = f'door="{_label(door)}",operation="{_label(operation)}"'
            total = 0.0
            for bound, number in zip((*BUCKETS_S, None), counts, strict=True):
                total += number
                le = "+Inf" if bound is None else f"{bound:g}"
                lines.append(f'thalweg_request_seconds_bucket{{{labels},le="{le}"}} {total:.0f}')
            lines.append(f"thalweg_request_seconds_sum{{{labels}}} {numbers[_SUM]!r}")
            lines.append(f"thalweg_request_seconds_count{{{labels}}} {total:.0f}")
        figures: dict[str, tuple[str, str, float]] = {
            "thalweg_workers": ("gauge", "Worker processes that serve.", workers)
        }
        figures.update({name: ("gauge", "Sum over the worker processes.", value) for name, value in gauges.items()})
        figures.update(more or {})
        for name, (kind, sentence, value) in figures.items():
            lines += [f"# HELP {name} {sentence}", f"# TYPE {name} {kind}", f"{name} {_number(value)}"]
        return "\n".join(lines) + "\n"


def _read(blob: bytes) -> tuple[dict[Key, list[float]], dict[str, float]] | None:
    """The numbers of a worker's file by its own layout; None for what is none."""
    if len(blob) < _HEAD.size:
        return None
    magic, length = _HEAD.unpack_from(blob)
    if magic != _MAGIC or length > _MAX_LAYOUT:
        return None
    try:
        layout = json.loads(blob[_HEAD.size : _HEAD.size + length])
        numbers = memoryview(blob)[_HEAD.size + length :].cast("d")
        keys = {
            (str(door), str(name)): [float(x) for x in numbers[place * _SLOTS : (place + 1) * _SLOTS]]
            for place, (door, name) in enumerate(layout["keys"])
        }
        first = len(keys) * _SLOTS
        gauges = {str(name): float(numbers[first + place]) for place, name in enumerate(layout["gauges"])}
    except (ValueError, KeyError, TypeError, IndexError):
        return None
    return keys, gauges


def _label(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return f"{value:.0f}" if float(value).is_integer() else repr(value)


def _run_id() -> str:
    """The parent process, told apart from a later one of the same number by its time of start."""
    parent = os.getppid()
    try:
        started = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        started = "0"
    return f"{parent}.{started}"


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
