"""Statistics of a run: percentiles as the studies give them, and ratios of alternating runs with their spread."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

TOTAL: Final = "TOT"
"""Name of all operations together, as the SOS study writes it."""
PERCENTILES: Final = (50, 66, 75, 80, 90, 95, 98, 99, 100)
"""Those of the SOS study's tables, per cent."""


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile: the smallest value that at least so many per cent of all do not exceed.

    ordered  ascending, at least one value
    percent  above 0, up to 100
    raises   ValueError for no values or a percentage out of range
    """
    if not ordered or not 0 < percent <= 100:
        raise ValueError(f"no {percent} percentile of {len(ordered)} values")
    # Rounded before the ceiling: 0.07 * 100 is 7.000000000000001.
    return ordered[max(1, math.ceil(round(len(ordered) * percent / 100, 9))) - 1]


@dataclass(frozen=True, slots=True)
class Figures:
    """One operation of one phase; times in milliseconds, from when a request was due to the last byte of its answer.

    requests       all that were due in the measured time, the failed ones among them
    rate           of all of them, a second
    percentiles    by PERCENTILES; those that the driver does not know are left out
    errors         reason -> how often
    """

    requests: int
    failures: int
    rate: float
    mean_ms: float
    min_ms: float
    max_ms: float
    percentiles: dict[int, float]
    bytes_mean: float
    errors: dict[str, int]

    @property
    def failure_percent(self) -> float:
        return 100.0 * self.failures / self.requests if self.requests else 0.0

    def as_json(self) -> dict[str, object]:
        return {
            "requests": self.requests,
            "failures": self.failures,
            "failure_percent": round(self.failure_percent, 3),
            "rate": round(self.rate, 4),
            "mean_ms": _short(self.mean_ms),
            "min_ms": _short(self.min_ms),
            "max_ms": _short(self.max_ms),
            "percentiles_ms": {str(p): _short(value) for p, value in self.percentiles.items()},
            "bytes_mean": round(self.bytes_mean, 1),
            "errors": self.errors,
        }


def _short(value: float) -> float | None:
    """Microseconds are all that a time is known to; JSON has no NaN."""
    return None if math.isnan(value) else round(value, 3)


def figures(
    latencies_s: Sequence[float], failures: int, seconds: float, total_bytes: int, errors: dict[str, int]
) -> Figures:
    """Figures of requests whose latencies are all known.

    latencies_s  of every request, failed ones too: what has waited for nothing has waited
    seconds      length of the measured time, > 0
    """
    ordered = sorted(latencies_s)
    n = len(ordered)
    nan = float("nan")
    return Figures(
        n,
        failures,
        n / seconds,
        statistics.fmean(ordered) * 1e3 if n else nan,
        ordered[0] * 1e3 if n else nan,
        ordered[-1] * 1e3 if n else nan,
        {p: percentile(ordered, p) * 1e3 for p in PERCENTILES} if n else {},
        total_bytes / n if n else 0.0,
        dict(errors),
    )


def ratios(phases: Sequence[Mapping[str, Any]], label: str, base: str) -> dict[int, list[float]]:
    """By connections, the rates of a case to those of another in the same rounds of one run."""
    rates: dict[tuple[str, int, int], float] = {}
    for phase in phases:
        if phase.get("side") == "target" and "case" in phase:
            total = phase["operations"][TOTAL]
            rates[phase["case"], phase["connections"], phase["round"]] = total["rate"]
    found: dict[int, list[float]] = {}
    for (case, connections, number), rate in rates.items():
        beside = rates.get((base, connections, number))
        if case == label and beside:
            found.setdefault(connections, []).append(rate / beside)
    return found


ROUNDS_TO_TELL: Final = 5
"""Five rounds of two equal sides agree by chance once in 16 times, three once in four."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Middle and ends of repeated measurements."""

    median: float
    low: float
    high: float
    values: tuple[float, ...]


def spread(values: Sequence[float]) -> Spread:
    """Median with the smallest and greatest value. Raises ValueError for none."""
    if not values:
        raise ValueError("no values")
    return Spread(statistics.median(values), min(values), max(values), tuple(values))


def verdict(ratios: Spread, errors: int, *, higher_is_better: bool = True) -> str:
    """What alternating runs show of a change against its base: ``faster``, ``slower``, ``no difference beyond the
    spread``, ``too few rounds to tell`` or ``not comparable``.

    ratios  change : base, one per round
    errors  failed requests of both sides; a run with errors is never called faster
    """
    if errors:
        return "not comparable"
    if len(ratios.values) < ROUNDS_TO_TELL:
        return "too few rounds to tell"
    if ratios.low > 1:
        return "faster" if higher_is_better else "slower"
    if ratios.high < 1:
        return "slower" if higher_is_better else "faster"
    return "no difference beyond the spread"
