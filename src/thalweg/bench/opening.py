"""The target of a run: a peer by its address, or Thalweg started on the store that the profile wants."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from thalweg import app
from thalweg.bench import fill, targets, wfs_runs
from thalweg.bench.options import RunOptions, network_of
from thalweg.bench.profiles import Profile
from thalweg.bench.requests import basic
from thalweg.bench.results import Result
from thalweg.bench.targets import Target, ask


@contextlib.contextmanager
def opened(profile: Profile, options: RunOptions, result: Result) -> Iterator[Target]:
    """The target of a run, started at need; what it is and holds goes into the result."""
    if options.url:
        target = targets.peer(
            options.url, name=options.name, pids=options.pids, credentials=options.credentials, token=options.token
        )
        result.data["target"] = describe(target)
        yield target
        return
    store = prepared_store(profile, options, result)
    started = targets.Options(store, options.workers, options.settings, options.cold)
    with targets.thalweg(started, commit=options.commit) as target:
        if profile.study == "ckan":
            target = replace(target, token=targets.token(store))
        result.data["target"] = describe(target)
        yield target


def prepared_store(profile: Profile, options: RunOptions, result: Result) -> Path:
    """The store that Thalweg is started on. Raises BenchError if a network's store is not filled."""
    if profile.data != "network":
        store = options.folder / f"{profile.data}.sqlite"
        app.open_store(f"sqlite:///{store}").close()
        if profile.workload == "wfs-insert":
            wfs_runs.make_insert_layer(store)
        return store
    if options.commit:
        # Another commit's store may be of another format: each has its own, filled by its own command.
        return options.folder / options.commit / f"{options.network.lower()}-{options.scale:g}.sqlite"
    store = fill.store_path(options.folder, options.network, options.scale)
    result.data["data"] = {"scale": options.scale, **fill.inspect(store, network_of(options)).as_json()}
    return store


def describe(target: Target) -> dict[str, Any]:
    """What a report says of a target; never its credentials."""
    return {"name": target.name, "is_thalweg": target.is_thalweg, **target.about}


def sign_in(target: Target) -> None:
    """Have each worker verify the credentials: a password's hashing, once a minute, is measured elsewhere."""
    for _ in range(8 * int(target.about.get("workers", 1))):
        ask(f"{target.url}/sos?service=SOS&request=GetCapabilities", headers=basic(target.credentials))
