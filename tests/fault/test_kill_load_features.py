"""A load of features that was killed shows nothing of itself and is simply run again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.store.support import SqliteBackend, assert_clean

from thalweg.domain.access import Principal, Role
from thalweg.loading.features.load import MIN_SHARED_BYTES
from thalweg.services.features import FeatureService

COUNT = 12_000


def write(path: Path, count: int, note: str, length: int = 60) -> None:
    """Points with ids 1 … count, each with a text of that length."""
    features = [
        {
            "type": "Feature",
            "id": number,
            "geometry": {"type": "Point", "coordinates": [number / 1000, 46]},
            "properties": {"note": note, "text": "x" * length},
        }
        for number in range(1, count + 1)
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))


def load(store: str, path: Path, *, kill_after_s: float | None = None) -> int:
    """Run the command, perhaps killing it some time after the layer in the making is there."""
    words = ["load", "features", "--store", store, str(path), "--if-exists", "replace", "--quiet"]
    process = subprocess.Popen(
        [sys.executable, "-m", "thalweg", *words], stderr=subprocess.DEVNULL, start_new_session=True
    )
    if kill_after_s is not None:
        time.sleep(kill_after_s)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return process.wait(60)


@pytest.mark.fault
def test_readers_see_the_old_features_until_the_new_ones_are_all_there(tmp_path: Path) -> None:
    path = tmp_path / "points.geojson"
    backend = SqliteBackend(tmp_path)
    store = backend.open()
    service = FeatureService(store)
    anybody = Principal("", Role.VIEWER)
    try:
        write(path, 500, "old")
        assert load(backend.url, path) == 0
        write(path, COUNT, "new")
        started = time.monotonic()
        assert load(backend.url, path) == 0
        takes_s = time.monotonic() - started
        write(path, 500, "old")
        assert load(backend.url, path) == 0
        write(path, COUNT, "new")
        seen = set()
        for number in range(5):
            # From the start of the interpreter to the end of the load.
            code = load(backend.url, path, kill_after_s=random.Random(number).uniform(0.2, 1.0) * takes_s)
            layers = service.layers(store.catalogue(1), anybody)
            assert [layer.name for layer in layers] == ["points"]
            notes = {note for batch in service.features(layers[0]) for note in batch.columns["note"]}
            assert len(notes) == 1
            assert service.count(layers[0]) == (500 if notes == {"old"} else COUNT)
            seen |= notes | {code}
        assert -signal.SIGKILL in seen
        assert load(backend.url, path) == 0
        (layer,) = service.layers(store.catalogue(1), Principal("somebody", Role.ADMIN))
        assert service.count(layer) == COUNT
        assert_clean(store)
    finally:
        backend.close()


@pytest.mark.fault
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_helping_processes_end_with_a_load_that_ends_early(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "points.geojson"
    write(path, COUNT, "new", 2 * MIN_SHARED_BYTES // COUNT)
    backend = SqliteBackend(tmp_path)
    store = backend.open()
    service = FeatureService(store)
    try:
        words = ["load", "features", "--store", backend.url, str(path), "--quiet"]
        # What a script starts in the background ignores the signal, and so would all that it starts.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "thalweg", *words], stderr=subprocess.PIPE, start_new_session=True, text=True
            )
        finally:
            signal.signal(signal.SIGINT, before)
        until = time.monotonic() + 60
        while not service.stored_layers(store.workspaces()["default"]):
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.005)
        helpers = children(process.pid)
        assert len(helpers) >= 2
        if number is signal.SIGINT:
            # As a terminal does it: every process of the group gets it.
            os.killpg(process.pid, number)
        else:
            os.kill(process.pid, number)
        _, said = process.communicate(timeout=30)
        assert process.returncode != 0
        assert "Traceback" not in said
        until = time.monotonic() + 10
        while any(Path(f"/proc/{helper}").exists() for helper in helpers):
            assert time.monotonic() < until
            time.sleep(0.02)
        anybody = Principal("", Role.VIEWER)
        assert service.layers(store.catalogue(1), anybody) == []
        if number is signal.SIGINT:
            assert service.stored_layers(store.workspaces()["default"]) == {}
        assert load(backend.url, path) == 0
        (layer,) = service.layers(store.catalogue(1), anybody)
        assert service.count(layer) == COUNT
        assert_clean(store)
    finally:
        backend.close()


def children(pid: int) -> list[int]:
    """Helping processes of a process."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(word) for word in (task / "children").read_text().split()]
    return found
