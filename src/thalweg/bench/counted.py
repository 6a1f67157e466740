"""Numbers of requests, each answer read: members of streams, whole layers, transactions, and inserts by turns."""

from __future__ import annotations

import secrets
import shutil
import time

from thalweg import app
from thalweg.bench import drivers, fill, ldes, sos, targets, wfs_runs, workloads
from thalweg.bench.errors import BenchError
from thalweg.bench.loops import closed_phase
from thalweg.bench.opening import describe, prepared_store, sign_in
from thalweg.bench.options import RunOptions, Say, network_of
from thalweg.bench.phases import judge, keep_samples, line, operations
from thalweg.bench.profiles import Closed, Count, Profile
from thalweg.bench.requests import Case, basic
from thalweg.bench.results import Result
from thalweg.bench.samples import Samples
from thalweg.bench.targets import Target, ask, origin_url
from thalweg.bench.watch import Watch


def features(profile: Profile, load: Count, target: Target, options: RunOptions, result: Result, say: Say) -> None:
    """Each case so many times, one after the other, and what that does to the memory of the server's processes."""
    work = workloads.prepare(profile, target, options.work)
    result.data["data"] |= work.about
    for case in work.cases:
        if next(case.source.stream()).method != "GET":
            sign_in(target)
        # Processes, connections and what they keep are there before.
        for small in case.sample:
            ask(origin_url(target.url) + small.path, headers=dict(small.headers))
        samples = Samples()
        begin = time.perf_counter()
        with Watch(target.pids) as watch:
            extra = wfs_runs.send(target, case, load.requests, samples, drivers.Limits(timeout_s=options.timeout_s))
        seconds = time.perf_counter() - begin
        seen = watch.as_json()
        if "server_memory_largest" in seen["series"]:
            extra["memory_growth_bytes"] = seen["max"]["server_memory_largest"] - watch.first("server_memory_largest")
        figures = samples.figures(0, seconds)
        phase = {
            "label": case.label, "case": case.label, "driver": "count", "connections": 1, "seconds": seconds,
            "operations": operations(figures), "watch": seen, "wfs": extra,
        }  # fmt: skip
        result.add(phase)
        said = ", ".join(f"{key} {value:,.0f}" for key, value in extra.items())
        say(f"{line(phase)}; {said}")
        judge(phase)


def members(profile: Profile, load: Count, target: Target, options: RunOptions, result: Result, say: Say) -> None:
    samples = Samples()
    with Watch(target.pids) as watch:
        extra = ldes.run(
            target, load.requests, load.connections, tuple(profile.parameters["views"]), file=options.work.members,
            samples=samples,
        )  # fmt: skip
    figures = samples.figures(0, extra["ingest_s"])
    phase = {
        "label": f"{load.requests} members", "driver": "count", "connections": load.connections,
        "seconds": extra["ingest_s"], "operations": operations(figures), "watch": watch.as_json(), "ldes": extra,
    }  # fmt: skip
    keep_samples(samples, options, load.connections, phase)
    result.add(phase)
    say(line(phase))
    judge(phase)
    if extra["views_not_full"]:
        raise BenchError(f"Not all members reached {', '.join(extra['views_not_full'])} in time.")


def insert(profile: Profile, load: Closed, options: RunOptions, result: Result, say: Say) -> None:
    """Inserts on the filled store and on an empty one of the same procedures, by turns, each at times of its own."""
    network = network_of(options)
    full = prepared_store(profile, options, result)
    empty = options.folder / f"empty-{secrets.token_hex(4)}.sqlite"
    base_s = fill.newest_us(full) // 1_000_000
    sensors = tuple(fill.sensor(network, index) for index in range(network.procedures))
    try:
        store = app.open_store(f"sqlite:///{empty}")
        try:
            fill.register(store, network)
        finally:
            store.close()
        for number in range(load.rounds):
            for connections in load.connections:
                for side, path in (("empty", empty), ("full", full)):
                    # After all that went before; a million seconds hold what a run can send in one.
                    base_s += 1_000_000 * load.seconds
                    with targets.thalweg(targets.Options(path, options.workers, options.settings)) as target:
                        result.data["target"] = describe(target)
                        service = sos.Service(target.door("sos"), "1.0.0", sensors, {}, basic(target.credentials))
                        case = Case("IO", sos.inserts(service, base_s * 1_000_000, 600))
                        phase = closed_phase(target, case, connections, load.seconds, options)
                    result.add(phase | {"round": number, "side": side})
                    say(f"{side:5} {line(phase)}")
                    judge(phase)
    finally:
        for leftover in options.folder.glob(f"{empty.name}*"):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)
