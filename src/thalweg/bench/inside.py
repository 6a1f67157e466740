"""The doors' own time, inside one process and without HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from thalweg.bench import wfs, wfs_cases, wfs_runs
from thalweg.bench.opening import prepared_store
from thalweg.bench.options import RunOptions, Say, network_of
from thalweg.bench.profiles import Handler, Profile
from thalweg.bench.requests import Case
from thalweg.bench.results import Result


def stream_store(load: Handler, options: RunOptions, result: Result, say: Say) -> None:
    from thalweg.bench import ldes_store

    result.data["target"] = {"name": "Thalweg, inside one process", "is_thalweg": True}
    seen = ldes_store.measure(options.folder, load.requests, options.work.members, options.workers, say)
    result.add({"label": "stream", "driver": "handler", "stream": seen, "operations": {}})


def handler(profile: Profile, load: Handler, options: RunOptions, result: Result, say: Say) -> None:
    from thalweg.bench import sos_handler

    store = prepared_store(profile, options, result)
    result.data["target"] = {"name": "Thalweg, inside one process", "is_thalweg": True}
    if profile.study == "wfs":
        _wfs_handler(profile, load, store, options, result, say)
        return
    period = int(profile.parameters["seconds"]) * 1_000_000
    seen = sos_handler.measure(store, network_of(options), period, load.requests, options.work.seed)
    result.add({"label": "handler", "driver": "handler", "handler": seen, "operations": {}})
    say(f"handler p50 {seen['p50_us']:.0f} µs, p99 {seen['p99_us']:.0f} µs, {seen['bytes_mean']:.0f} bytes")


def _wfs_handler(profile: Profile, load: Handler, store: Path, options: RunOptions, result: Result, say: Say) -> None:
    def cases(service: wfs.Service, fetch: wfs_cases.Fetch) -> Iterator[Case]:
        for kind, parameters in profile.parameters["cases"]:
            yield from wfs_cases.MAKERS[kind](service, parameters, fetch, options.work.seed)

    for seen in wfs_runs.handler(store, cases, load.requests):
        label = f"handler {seen['case']}"
        result.add({"label": label, "case": seen["case"], "driver": "handler", "handler": seen, "operations": {}})
        say(
            f"{label}: p50 {seen['p50_us']:.0f} µs, p99 {seen['p99_us']:.0f} µs, processor {seen['cpu_us']:.0f} µs, "
            f"{seen['bytes_mean']:.0f} bytes"
        )
