"""A load that was killed is simply run again; a back-up that was killed leaves nothing that looks like one."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from tests.fault import loader, support
from tests.store.support import (
    BACKENDS,
    WAIT_S,
    Backend,
    assert_clean,
    default_workspace,
    feature,
    procedure,
    series,
    values,
)

from thalweg.domain.store import Registration, Store


def run_and_kill(url: str, name: str, copy: str, after_s: float) -> str:
    """Run the loader, kill it some time after it has opened the store; gives what it said."""
    process = support.start(loader, url, name, copy)
    assert process.stdout is not None
    try:
        said = process.stdout.read(2).decode()
        time.sleep(after_s)
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        rest = process.communicate()[0].decode()
    assert process.returncode in (0, -signal.SIGKILL)
    return said + rest


def loaded(store: Store, name: str) -> tuple[int, list[list[tuple[int, float]]]]:
    """The track, and the values of both properties."""
    catalogue = store.catalogue(default_workspace(store))
    found = catalogue.procedure(name)
    assert found is not None
    (track,) = catalogue.tracks_by_procedure[found.id]
    return track.id, [values(store, track.id, s.property_id) for s in found.series]


def run(backend: Backend, rounds: int) -> None:
    """Each round one kill; when a load has come to its end, the next procedure is loaded."""
    ends, first, second = loader.rows()
    wanted = [list(zip(ends, first, strict=True)), [(e, v) for e, v in zip(ends, second, strict=True) if v is not None]]
    rng = random.Random(rounds)
    name = ""
    interrupted = before = 0
    for number in range(rounds):
        if before in (0, loader.ROWS):
            store = backend.open()
            name, before = f"LOADED{number}", 0
            made = Registration(procedure(name), (series("first"), series("second")), (feature(name),))
            store.register_procedure(default_workspace(store), made).result(WAIT_S)
            backend.close()
        copy = backend.beside(f"copy{number}")
        said = run_and_kill(backend.url, name, copy, rng.uniform(0.0, 0.06 if number % 4 else 0.6))
        store = backend.open()
        assert_clean(store)
        track, found = loaded(store, name)
        # Window by window: what is there is the beginning of what was loaded, and never less than before.
        n = len(found[0])
        there = {end for end, _ in found[0]}
        assert n >= before
        assert found == [wanted[0][:n], [item for item in wanted[1] if item[0] in there]]
        assert store.changes(track) == []
        interrupted += 0 < n < loader.ROWS
        before = n
        if "L" in said:
            assert n == loader.ROWS
        backend.close()
        if Path(copy).exists():
            whole = backend.open_at(backend.url_of(copy))
            assert_clean(whole)
            assert loaded(whole, name)[1] == wanted
            backend.close()
        else:
            assert "B" not in said
    # At last it comes to its end.
    store = backend.open()
    workspace_id = default_workspace(store)
    receipt = store.load(workspace_id, loader.insertion(store.catalogue(workspace_id), name))
    assert receipt.rows == loader.ROWS - before
    assert receipt.conflicting == 0
    assert loaded(store, name)[1] == wanted
    assert_clean(store)
    # Some of many kills have to hit a load half-way, or nothing is tested here.
    assert interrupted or rounds < 20


@pytest.mark.fault
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_killed_load_is_run_again(name: str, tmp_path: Path) -> None:
    backend = BACKENDS[name](tmp_path)
    try:
        run(backend, rounds=4)
    finally:
        backend.close()


@pytest.mark.fault
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_load_killed_twenty_five_times_is_run_again(name: str, tmp_path: Path) -> None:
    backend = BACKENDS[name](tmp_path)
    try:
        run(backend, rounds=25)
    finally:
        backend.close()
