"""What all forms of load do with a phase: its figures as JSON, a line of it, and whether to go on."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from typing import Any, Final

from thalweg.bench import jtl
from thalweg.bench.errors import BenchError, Unreachable
from thalweg.bench.options import RunOptions
from thalweg.bench.samples import TOTAL, Samples
from thalweg.bench.stats import Figures

_FILES_BESIDE: Final = 200
"""Open files of this process that are no users' connections."""


def operations(figures: Mapping[str, Figures]) -> dict[str, Any]:
    return {name: one.as_json() for name, one in figures.items()}


def judge(phase: dict[str, Any]) -> None:
    """Raise Unreachable if nothing at all was answered: to go on would measure refusals."""
    total = phase["operations"].get(TOTAL, {})
    reasons = total.get("errors", {})
    if total.get("requests") and sum(n for r, n in reasons.items() if r.startswith("connection")) >= total["requests"]:
        raise Unreachable(f"The target has stopped answering: {next(iter(reasons))}.")


def keep_samples(samples: Samples, options: RunOptions, threads: int, phase: dict[str, Any]) -> None:
    if options.jtl is not None:
        jtl.append(options.jtl, samples, threads)
        phase["jtl"] = options.jtl.name


def allow_files(connections: int) -> None:
    """Let this process open so many connections. Raises BenchError where the system does not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + _FILES_BESIDE
    if needed > hard:
        raise BenchError(f"{connections} users need {needed} open files, the system allows {hard} (ulimit -Hn).")
    if needed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def plain(value: Any) -> Any:
    """What JSON takes."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list | tuple) else value


def line(phase: dict[str, Any]) -> str:
    """A phase in one line."""
    total = phase["operations"].get(TOTAL)
    if total is None:
        return str(phase["label"])
    p = total["percentiles_ms"]
    text = f"{phase['label']}: {total['rate']:,.1f}/s"
    if p:
        text += f", p50 {p['50']:.2f} p99 {p['99']:.2f} max {p['100']:.1f} ms"
    if total["failures"]:
        text += f", {total['failures']} FAILED ({', '.join(list(total['errors'])[:3])})"
    return text
