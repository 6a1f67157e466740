"""Processes that insert are killed (SIGKILL) at random moments: what was acknowledged is there, nothing is half there.

Writers insert several rows of several properties at two procedures per call, one they have to themselves and one that
all share, and seal and maintain in between. After each round the store is opened and compared with what the writers
told through their pipes.
"""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.fault import support, writer
from tests.fault.support import new_seed
from tests.store.support import BACKENDS, WAIT_S, Backend, default_workspace, feature, procedure, rows_of, series

from thalweg.domain.blocks import ValueKind
from thalweg.domain.store import Registration, Store

WRITERS = 3
PER_ROUND = 100_000
"""Inserts of a writer are numbered from round × PER_ROUND."""
START_S = 30.0
SERIES = (series("first"), series("second"), series("third", "", ValueKind.TEXT))


@dataclass
class Process:
    """A writer and what it has told."""

    number: int
    popen: subprocess.Popen[bytes]
    text: bytes = b""
    killed: bool = False

    def read(self) -> bool:
        """Take what there is; False at the end of the pipe."""
        assert self.popen.stdout is not None
        found = os.read(self.popen.stdout.fileno(), 1 << 16)
        self.text += found
        return bool(found)

    def lines(self) -> list[list[str]]:
        """Whole lines; a line cut by the kill was not told."""
        return [line.split() for line in self.text.decode().split("\n")[:-1]]


Rows = dict[int, dict[int, tuple[Any, int]]]
"""Cells by phenomenon end, all that a procedure holds."""


@dataclass
class Told:
    """Numbers of one writer's inserts of the last round, and of its refused ones in all."""

    submitted: set[int] = field(default_factory=set)
    acknowledged: set[int] = field(default_factory=set)
    acknowledged_in_all: int = 0
    refused_in_all: int = 0


def start(number: int, program: ModuleType, url: str, base: int, seed: int) -> Process:
    return Process(number, support.start(program, url, number, base, seed))


def pump(processes: list[Process], until: float, enough: Callable[[], bool] = lambda: False) -> None:
    """Read the pipes until a moment of the monotonic clock, or until it is enough."""
    while not enough():
        left = until - time.monotonic()
        if left <= 0:
            return
        by_pipe = {p.popen.stdout.fileno(): p for p in processes if p.popen.stdout is not None and not p.killed}
        ready, _, _ = select.select(list(by_pipe), [], [], min(left, 0.05))
        for process in map(by_pipe.__getitem__, ready):
            if not process.read():
                raise AssertionError(f"writer {process.number} ended by itself with {process.popen.wait()}")


def kill(process: Process) -> None:
    os.kill(process.popen.pid, signal.SIGKILL)
    process.killed = True
    process.popen.wait()
    while process.read():
        pass


def run_round(url: str, number: int, rng: random.Random) -> list[Process]:
    """Start the writers and kill them, each at a moment of its own."""
    processes = [start(w, writer, url, number * PER_ROUND, rng.randrange(1 << 30)) for w in range(WRITERS)]
    try:
        if rng.random() < 0.25:
            # Also while they start, open the store and recover what the last round left.
            pump(processes, time.monotonic() + rng.uniform(0.1, 1.5))
        else:
            pump(
                processes,
                time.monotonic() + START_S,
                lambda: all(["R"] in process.lines() for process in processes),
            )
            assert all(["R"] in process.lines() for process in processes), "a writer did not open the store"
        order = list(processes)
        rng.shuffle(order)
        for process in order:
            pump(processes, time.monotonic() + rng.choice((rng.uniform(0.0, 0.05), rng.uniform(0.1, 0.8))))
            kill(process)
    finally:
        for process in processes:
            if not process.killed:
                kill(process)
            assert process.popen.stdout is not None
            process.popen.stdout.close()
    return processes


def verify(store: Store, told: dict[int, Told], expected: dict[str, Rows]) -> None:
    """Compare the store with what was told; ``expected``, what was there before, grows by what is there now."""
    catalogue = store.catalogue(default_workspace(store))
    everything: dict[str, Rows] = {}
    for name in expected:
        found = writer.procedure(catalogue, name)
        (track,) = catalogue.tracks_by_procedure[found.id]
        rows = everything[name] = {}
        for block in store.scan(track.id, [s.property_id for s in found.series]):
            for key, cells, _ in rows_of(block):
                assert key[0] == key[1] == key[2]
                assert key[0] not in rows, "a row given twice"
                rows[key[0]] = cells
        state = store.states([track.id])[track.id]
        assert state.rows == len(rows)
        assert all(state.series[p].count == sum(p in cells for cells in rows.values()) for p in state.series)
    for number, record in told.items():
        own = everything[f"OWN{number}"]
        there = {n for n in record.submitted if any(end in own for end in writer.ends(n))}
        there |= {n for n in record.submitted if writer.shared_end(n) + number in everything["SHARED"]}
        lost = record.acknowledged - there
        assert not lost, f"writer {number}: acknowledged but not there: {sorted(lost)[:10]}"
        for n in there:
            parts = writer.insertions(catalogue, number, n)
            for name, part in zip((f"OWN{number}", "SHARED"), parts, strict=True):
                expected[name].update({key[0]: cells for key, cells, _ in rows_of(part.block)})
    # Each insert that is there is whole, and stays; and nothing else is there: no half, no refused, no forged one.
    for name, rows in everything.items():
        assert rows == expected[name]


def prepare(backend: Backend) -> None:
    store = backend.open()
    workspace_id = default_workspace(store)
    for name in ("SHARED", *(f"OWN{w}" for w in range(WRITERS))):
        store.register_procedure(workspace_id, Registration(procedure(name), SERIES, (feature(name),))).result(WAIT_S)
    backend.close()


def run(backend: Backend, rounds: int, seed: int) -> None:
    rng = random.Random(seed)
    prepare(backend)
    told = {w: Told() for w in range(WRITERS)}
    expected: dict[str, Rows] = {name: {} for name in ("SHARED", *(f"OWN{w}" for w in range(WRITERS)))}
    for number in range(1, rounds + 1):
        for process in run_round(backend.url, number, rng):
            record = told[process.number]
            record.submitted, record.acknowledged = set(), set()
            for mark, *rest in process.lines():
                assert mark in "RSAD", f"writer {process.number} says {mark} {rest}"
                if mark == "S":
                    record.submitted.add(int(rest[0]))
                elif mark == "A":
                    record.acknowledged.add(int(rest[0]))
                elif mark == "D":
                    record.refused_in_all += 1
            record.acknowledged_in_all += len(record.acknowledged)
        store = backend.open()
        assert list(store.check()) == [], f"round {number}"
        verify(store, told, expected)
        backend.close()
    # The test itself would be worth nothing if hardly anything had happened.
    assert sum(record.acknowledged_in_all for record in told.values()) > 20 * rounds
    assert sum(record.refused_in_all for record in told.values()) > rounds


def run_with_new_seed(name: str, folder: Path, rounds: int) -> None:
    backend = BACKENDS[name](folder)
    with closing(backend), new_seed() as seed:
        run(backend, rounds, seed)


@pytest.mark.fault
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_acknowledged_inserts_survive_kill(name: str, tmp_path: Path) -> None:
    run_with_new_seed(name, tmp_path, rounds=6)


@pytest.mark.fault
@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_acknowledged_inserts_survive_sixty_rounds_of_kill(name: str, tmp_path: Path) -> None:
    run_with_new_seed(name, tmp_path, rounds=60)
