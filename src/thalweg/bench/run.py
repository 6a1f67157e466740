"""One run of a profile against one target: phases in their order, each kept as soon as it has been measured."""

from __future__ import annotations

from dataclasses import asdict

from thalweg.bench import counted, inside, loops, users
from thalweg.bench.context import context
from thalweg.bench.opening import opened
from thalweg.bench.options import RunOptions, Say, chosen
from thalweg.bench.phases import plain
from thalweg.bench.profiles import Closed, Count, Handler, Mix, Open, Profile
from thalweg.bench.results import Result
from thalweg.bench.watch import processes


def run(profile: Profile, options: RunOptions, result: Result, say: Say) -> None:
    """Measure, and add the phases to ``result``; the caller finishes it.

    say     takes a line for whoever watches
    raises  BenchError; phases measured until then are in the result
    """
    processes()
    load = chosen(profile.load, options)
    result.data |= {
        "profile": profile.name, "study": profile.study, "title": profile.title,
        "load": {"form": type(load).__name__, **plain(asdict(load))}, "seed": options.work.seed,
        "context": context(), "target": {}, "data": {},
    }  # fmt: skip
    if profile.workload == "ldes-store" and isinstance(load, Handler):
        inside.stream_store(load, options, result, say)
        return
    if isinstance(load, Handler):
        inside.handler(profile, load, options, result, say)
        return
    if profile.workload == "sos-insert" and not options.url and isinstance(load, Closed):
        counted.insert(profile, load, options, result, say)
        return
    with opened(profile, options, result) as target:
        if isinstance(load, Mix):
            users.mix(load, target, options, result, say)
        elif isinstance(load, Count) and profile.study == "wfs":
            counted.features(profile, load, target, options, result, say)
        elif isinstance(load, Count):
            counted.members(profile, load, target, options, result, say)
        elif isinstance(load, Open):
            loops.open_loop(profile, load, target, options, result, say)
        else:
            loops.closed(profile, load, target, options, result, say)
