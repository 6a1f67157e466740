"""What a driver notes of each request, kept in arrays: a long run with 2,000 users holds millions."""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from thalweg.bench.stats import TOTAL, Figures, figures

__all__ = ["MAX_REASONS", "TOTAL", "Sample", "Samples"]

MAX_REASONS: Final = 200
"""Different reasons of failures that are kept; a server that writes a new one each time must not fill the memory."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One request.

    due_s      when it was to be sent, seconds from the begin of the phase; latencies count from here
    latency_s  until the last byte of the answer, or until it was given up
    first_s    until the first byte; connect_s of that was for a new connection
    reason     empty for a good answer
    """

    operation: str
    due_s: float
    latency_s: float
    first_s: float
    connect_s: float
    status: int
    sent: int
    received: int
    reason: str
    thread: int


class Samples:
    """Samples of one phase, in the order their answers came.

    started_at_s  the phase's begin, seconds since 1970
    """

    def __init__(self, started_at_s: float | None = None) -> None:
        self.started_at_s = time.time() if started_at_s is None else started_at_s
        self._operations: dict[str, int] = {}
        self._reasons: dict[str, int] = {"": 0}
        self._operation = array("H")
        self._reason = array("H")
        self._times = array("d")
        self._numbers = array("q")

    def __len__(self) -> int:
        return len(self._operation)

    def __iter__(self) -> Iterator[Sample]:
        operations, reasons = list(self._operations), list(self._reasons)
        for i, (operation, reason) in enumerate(zip(self._operation, self._reason, strict=True)):
            times, numbers = self._times[4 * i : 4 * i + 4], self._numbers[4 * i : 4 * i + 4]
            yield Sample(
                operations[operation], times[0], times[1], times[2], times[3], numbers[0], numbers[1], numbers[2],
                reasons[reason], numbers[3],
            )  # fmt: skip

    def add(self, sample: Sample) -> None:
        """Note one request."""
        self._operation.append(self._operations.setdefault(sample.operation, len(self._operations)))
        reason = sample.reason
        if reason not in self._reasons and len(self._reasons) > MAX_REASONS:
            reason = "other reasons"
        self._reason.append(self._reasons.setdefault(reason, len(self._reasons)))
        self._times.extend((sample.due_s, sample.latency_s, sample.first_s, sample.connect_s))
        self._numbers.extend((sample.status, sample.sent, sample.received, sample.thread))

    def figures(self, begin_s: float, end_s: float) -> dict[str, Figures]:
        """Figures of the requests that were due in an interval of the phase, by operation, and of all as TOTAL.

        raises  ValueError unless begin_s < end_s
        """
        if not begin_s < end_s:
            raise ValueError("an empty measured time")
        latencies: dict[str, list[float]] = {TOTAL: []}
        received: Counter[str] = Counter()
        failures: Counter[str] = Counter()
        errors: dict[str, Counter[str]] = {TOTAL: Counter()}
        for sample in self:
            if not begin_s <= sample.due_s < end_s:
                continue
            for name in (sample.operation, TOTAL):
                latencies.setdefault(name, []).append(sample.latency_s)
                received[name] += sample.received
                if sample.reason:
                    failures[name] += 1
                    errors.setdefault(name, Counter())[sample.reason] += 1
        return {
            name: figures(
                values, failures[name], end_s - begin_s, received[name], dict(errors.get(name, Counter()).most_common())
            )
            for name, values in sorted(latencies.items(), key=lambda item: (item[0] == TOTAL, item[0]))
        }
