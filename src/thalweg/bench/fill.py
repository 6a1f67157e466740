"""Networks brought into a store through its bulk path, by several processes where that helps."""

from __future__ import annotations

import multiprocessing
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any, Final

from thalweg import app
from thalweg.bench.errors import BenchError
from thalweg.bench.networks import Network, blocks, procedure_name, registration
from thalweg.bench.sos import Sensor
from thalweg.domain.catalogue import DEFAULT_WORKSPACE
from thalweg.domain.errors import ThalwegError
from thalweg.domain.observations import Insertion, OnDuplicate
from thalweg.domain.store import Store
from thalweg.domain.time import format_instant

USER: Final = "bench"
_REGISTERED_AT_ONCE: Final = 200
_COMPLETE: Final = 0.99
"""Part of a network's rows that is there when it is filled: gaps are rarer than the rest."""


@dataclass(frozen=True, slots=True)
class Filled:
    """What a store of a network holds."""

    path: Path
    network: Network
    rows: int
    values: int
    size_bytes: int
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return {
            "network": self.network.name, "procedures": self.network.procedures,
            "properties": self.network.properties, "step_s": self.network.step_us // 1_000_000,
            "begin": format_instant(self.network.begin_us), "end": format_instant(self.network.end_us),
            "rows": self.rows, "values": self.values, "store_bytes": self.size_bytes,
        }  # fmt: skip


def store_path(folder: Path, network: str, scale: float) -> Path:
    """Where a network's store is."""
    return folder / f"{network.lower()}-{scale:g}.sqlite"


def fill(
    path: Path, network: Network, *, processes: int = 1, advance: Callable[[int], None] = lambda _: None
) -> Filled:
    """Load a network into the store of that file; one that was interrupted is gone on with.

    processes  that make values and encode; they take turns in writing
    advance    takes how many values more are done
    raises     BenchError if the disk is full or a process fails; what was loaded stays
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    try:
        store = app.open_store(f"sqlite:///{path}")
        try:
            register(store, network)
        finally:
            store.close()
        parts = [range(i, network.procedures, processes) for i in range(processes)]
        if processes == 1:
            _part(path, network, parts[0], advance)
        else:
            _in_processes(path, network, parts, advance)
    except ThalwegError as error:
        raise BenchError(f"The load has stopped: {error.message} What was loaded stays; run it again.") from error
    seconds = time.perf_counter() - start
    found = inspect(path, network)
    return Filled(path, network, found.rows, found.values, found.size_bytes, seconds)


def register(store: Store, network: Network) -> None:
    """Register what is not there of a network's procedures."""
    workspace = store.workspaces()[DEFAULT_WORKSPACE]
    catalogue = store.catalogue(workspace.id)
    missing = [i for i in range(network.procedures) if catalogue.procedure(procedure_name(network, i)) is None]
    for first in range(0, len(missing), _REGISTERED_AT_ONCE):
        some = missing[first : first + _REGISTERED_AT_ONCE]
        waiting = [store.register_procedure(workspace.id, registration(network, index), by=USER) for index in some]
        for future in waiting:
            future.result()


def inspect(path: Path, network: Network) -> Filled:
    """What a store holds of a network. Raises BenchError if it is not there or not filled."""
    if not path.exists():
        raise BenchError(f"{path} is not there; run: thalweg bench fill {network.name}, with the same --scale, first.")
    store = app.open_store(f"sqlite:///{path}", create=False)
    try:
        workspace = store.workspaces()[DEFAULT_WORKSPACE]
        procedures, rows = 0, 0
        for extent in store.extents(workspace.id).values():
            procedures += 1
            rows += extent.rows
    finally:
        store.close()
    if procedures < network.procedures or rows < _COMPLETE * network.procedures * network.rows:
        raise BenchError(
            f"{path} is filled in part: {procedures} of {network.procedures} procedures, {rows:,} of about "
            f"{network.procedures * network.rows:,} rows; run: thalweg bench fill again, it goes on."
        )
    return Filled(path, network, rows, rows * network.properties, path.stat().st_size)


def sensor(network: Network, index: int) -> Sensor:
    """A network's procedure as a client of the SOS knows it."""
    registered = registration(network, index)
    properties = tuple(series.observed_property.identifier for series in registered.series)
    return Sensor(registered.procedure.identifier, "network", properties, network.begin_us, network.end_us)


def newest_us(path: Path) -> int:
    """The latest end of any series in a store; inserts after it are new. 0 for an empty one."""
    store = app.open_store(f"sqlite:///{path}", create=False)
    try:
        extents = store.extents(store.workspaces()[DEFAULT_WORKSPACE].id)
        return max((extent.end_us or 0 for extent in extents.values()), default=0)
    finally:
        store.close()


def _part(path: Path, network: Network, indexes: range, advance: Callable[[int], None]) -> None:
    """Load the procedures of these indexes."""
    store = app.open_store(f"sqlite:///{path}")
    try:
        workspace = store.workspaces()[DEFAULT_WORKSPACE]
        catalogue = store.catalogue(workspace.id)
        extents = store.extents(workspace.id)
        for index in indexes:
            procedure = catalogue.procedure(procedure_name(network, index))
            if procedure is None:
                raise BenchError(f"{procedure_name(network, index)} has vanished from {path}.")
            feature_id = catalogue.feature_ids_of(procedure)[0]
            extent = extents.get(procedure.id)
            loaded_us = extent.end_us if extent is not None and extent.end_us is not None else -(1 << 62)
            ids = tuple(series.property_id for series in procedure.series)
            for block in blocks(network, index, ids):
                # Loading goes in the order of time: what ends before that is there.
                if len(block) and int(block.end[-1]) > loaded_us:
                    insertion = Insertion(procedure.id, feature_id, block, on_duplicate=OnDuplicate.SKIP)
                    store.load(workspace.id, insertion, by=USER)
                advance(len(block) * network.properties)
    finally:
        store.close()


def _worker(path: Path, network: Network, indexes: range, told: Queue[tuple[str, Any]]) -> None:
    try:
        _part(path, network, indexes, lambda values: told.put(("values", values)))
    except ThalwegError as error:
        told.put(("error", error.message))
    except Exception as error:
        told.put(("error", f"{type(error).__name__}: {error}"))
    else:
        told.put(("end", 0))


def _in_processes(path: Path, network: Network, parts: list[range], advance: Callable[[int], None]) -> None:
    # Started anew, not forked: a store's connections must not be shared with a child.
    context = multiprocessing.get_context("spawn")
    told: Queue[tuple[str, Any]] = context.Queue()
    workers = [context.Process(target=_worker, args=(path, network, part, told), daemon=True) for part in parts]
    for worker in workers:
        worker.start()
    running = len(workers)
    try:
        while running:
            try:
                kind, value = told.get(timeout=1)
            except queue.Empty:
                if any(worker.exitcode not in (None, 0) for worker in workers):
                    raise BenchError("A loading process has died; run it again, it goes on.") from None
                continue
            if kind == "error":
                raise BenchError(f"The load has stopped: {value} What was loaded stays; run it again.")
            if kind == "end":
                running -= 1
            else:
                advance(value)
    finally:
        for worker in workers:
            if running:
                worker.terminate()
            worker.join(30)
