"""Loads without think time: connections that ask without pause, beside nginx or other requests, and fixed rates."""

from __future__ import annotations

import contextlib
import statistics
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from thalweg.bench import drivers, tools, workloads, wrk
from thalweg.bench.errors import BenchError
from thalweg.bench.opening import sign_in
from thalweg.bench.options import RunOptions, Say
from thalweg.bench.phases import allow_files, judge, keep_samples, line, operations
from thalweg.bench.profiles import Closed, Open, Profile
from thalweg.bench.requests import Case
from thalweg.bench.results import Result
from thalweg.bench.samples import TOTAL, Samples
from thalweg.bench.stats import ratios
from thalweg.bench.targets import Target, good_answer, origin_url
from thalweg.bench.watch import Watch

WARM_UP_S: Final = 2
"""Load before the first measured phase of a closed loop, uncounted; not longer than that phase."""


def closed(profile: Profile, load: Closed, target: Target, options: RunOptions, result: Result, say: Say) -> None:
    work = workloads.prepare(profile, target, options.work)
    result.data["data"] |= work.about
    if options.jtl is not None and not options.own_driver:
        raise BenchError("wrk tells of no single requests; a JTL file needs --driver own.")
    for group in groups(work.cases):
        bodies = [first_answer(target, case) for case in group]
        for case in group:
            warm(target, case, options, load.seconds)
        with contextlib.ExitStack() as stack:
            limits = [stack.enter_context(tools.nginx(body)) if load.limit else None for body in bodies]
            for connections in load.connections:
                turns = list(zip(group, limits, strict=True))
                for number in range(load.rounds):
                    # The other way round each time, as a machine grows slower or faster.
                    for case, limit in turns if number % 2 == 0 else reversed(turns):
                        with writer(work, case, target) as written:
                            again = case.fresh(len(result.phases), load.seconds)
                            phase = closed_phase(target, again, connections, load.seconds, options, limit)
                        result.add(phase | {"round": number, "side": "target", "base": case.base} | written)
                        say(line(phase | written))
                        judge(phase)
                        if limit is not None:
                            result.add(_limit_phase(case, connections, number, load.seconds, limit, target))
        for text in ratio_lines(result.phases, group):
            say(text)


def groups(cases: Sequence[Case]) -> list[list[Case]]:
    """Cases that are measured by turns: each with those after it that are compared with it."""
    found: list[list[Case]] = []
    for case in cases:
        if case.base and found and case.base == found[-1][0].label:
            found[-1].append(case)
        else:
            found.append([case])
    return found


def ratio_lines(phases: Sequence[dict[str, Any]], group: Sequence[Case]) -> Iterator[str]:
    """What the rates of compared cases are of their base's."""
    for case in group[1:]:
        for connections, values in ratios(phases, case.label, case.base).items():
            yield f"{case.label} : {case.base}, {connections} connections: {statistics.median(values):.2f}"


def first_answer(target: Target, case: Case) -> bytes:
    """The answer to a case's first request, read and judged before the load; of several the one of middle length.
    Raises BenchError for a bad one."""
    if next(case.source.stream()).method != "GET":
        return b""
    base = origin_url(target.url)
    bodies = [good_answer(base, request) for request in case.sample or (next(case.source.stream()),)]
    return sorted(bodies, key=len)[len(bodies) // 2]


def warm(target: Target, case: Case, options: RunOptions, seconds: int) -> None:
    """Uncounted load, so that caches and connections are as in the middle of a run. Cold runs go without."""
    if options.cold or next(case.source.stream()).method != "GET":
        return
    url, length = origin_url(target.url), min(WARM_UP_S, seconds)
    if options.own_driver:
        drivers.run(drivers.closed(url, case.source.stream(), 8, samples=Samples(), seconds=length))
    else:
        wrk.run(url, case.source, 8, length)


def closed_phase(
    target: Target, case: Case, connections: int, seconds: int, options: RunOptions,
    limit: tools.Started | None = None, apart: tuple[int, ...] = (),
) -> dict[str, Any]:  # fmt: skip
    """One measured closed loop."""
    url = origin_url(target.url)
    if target.is_thalweg and next(case.source.stream()).method != "GET":
        sign_in(target)
    beside = ((limit.pid,) if limit else ()) + apart
    with Watch(target.pids, beside) as watch:
        if options.own_driver:
            samples = Samples()
            drivers.run(
                drivers.closed(
                    url, case.source.stream(), connections, samples=samples, seconds=seconds,
                    limits=drivers.Limits(timeout_s=options.timeout_s),
                )
            )  # fmt: skip
            figures = samples.figures(0, seconds)
        else:
            one = wrk.run(url, case.source, connections, seconds, timeout_s=min(30.0, options.timeout_s))
            figures = {case.label: one, TOTAL: one}
    phase = {
        "label": f"{case.label}, {connections} connections", "case": case.label, "connections": connections,
        "driver": "own" if options.own_driver else "wrk", "seconds": seconds, "operations": operations(figures),
        "watch": watch.as_json(),
    }  # fmt: skip
    if options.own_driver:
        keep_samples(samples, options, connections, phase)
    return phase


def _limit_phase(
    case: Case, connections: int, number: int, seconds: int, limit: tools.Started, target: Target
) -> dict[str, Any]:
    with Watch((limit.pid,), target.pids) as watch:
        figures = wrk.run(limit.url, None, connections, seconds)
    return {
        "label": f"{case.label}, {connections} connections, nginx", "case": case.label, "connections": connections,
        "driver": "wrk", "side": "nginx", "round": number, "seconds": seconds,
        "operations": operations({case.label: figures, TOTAL: figures}), "watch": watch.as_json(),
    }  # fmt: skip


@contextlib.contextmanager
def writer(work: workloads.Work, case: Case, target: Target) -> Iterator[dict[str, Any]]:
    """A writer beside the load of a busy case, at its own rate; what became of its requests is in the object given,
    under ``writer``, afterwards. Raises BenchError if it has written nothing."""
    seen: dict[str, Any] = {}
    if work.beside is None or not case.busy:
        yield seen
        return
    beside, samples, stop = work.beside, Samples(), threading.Event()

    def write() -> None:
        while not stop.is_set():
            drivers.run(
                drivers.open_loop(
                    origin_url(target.url), beside.stream(), work.writer_rate, 1.0, samples=samples, connections=4,
                    steady=True,
                )
            )  # fmt: skip

    thread = threading.Thread(target=write, name="writer", daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join(30)
    bad = [sample.reason for sample in samples if sample.reason]
    if len(bad) == len(samples):
        raise BenchError(f"The writer beside the load failed: {bad[0] if bad else 'it wrote nothing'}.")
    seen["writer"] = {"requests": len(samples), "failures": len(bad), "errors": dict(Counter(bad))}


def open_loop(profile: Profile, load: Open, target: Target, options: RunOptions, result: Result, say: Say) -> None:
    work = workloads.prepare(profile, target, options.work)
    result.data["data"] |= work.about
    allow_files(load.connections)
    for case in work.cases:
        first_answer(target, case)
        for rate in load.rates:
            phase = open_phase(target, case, rate, load, options)
            result.add(phase)
            say(line(phase))
            judge(phase)


def open_phase(target: Target, case: Case, rate: float, load: Open, options: RunOptions) -> dict[str, Any]:
    """One measured open loop."""
    samples = Samples()
    with Watch(target.pids) as watch:
        drivers.run(
            drivers.open_loop(
                origin_url(target.url), case.source.stream(), rate, load.seconds, samples=samples,
                connections=load.connections, seed=options.work.seed,
                limits=drivers.Limits(timeout_s=options.timeout_s),
            )
        )  # fmt: skip
    phase = {
        "label": f"{case.label} at {rate:g}/s", "case": case.label, "driver": "open", "rate": rate,
        "connections": load.connections, "seconds": load.seconds,
        "operations": operations(samples.figures(0, load.seconds)), "watch": watch.as_json(),
    }  # fmt: skip
    keep_samples(samples, options, load.connections, phase)
    return phase
