"""A process that edits and loads a layer is killed (SIGKILL) at random moments: what was acknowledged is there, every
edit is whole or not there, and rows, boxes, fragments, counts and extents agree."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from tests.fault import layer_writer, support
from tests.fault.support import new_seed
from tests.store.layer_support import expected_fragments, fragments_of, make_layer, rows_of
from tests.store.support import BACKENDS

from thalweg.domain.features import FragmentForm

REPOSITORY = Path(__file__).resolve().parent.parent.parent


def run_and_kill(url: str, layer_id: int, base: int, seconds: float) -> tuple[set[int], set[int]]:
    """Edits begun and edits acknowledged."""
    process = support.start(layer_writer, url, layer_id, base)
    assert process.stdout is not None
    try:
        text = os.read(process.stdout.fileno(), 1 << 16)
        assert text, f"the writer ended with {process.wait()}"
        time.sleep(seconds)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with process.stdout:
        text += process.stdout.read()
    begun: set[int] = set()
    done: set[int] = set()
    for line in text.decode().split("\n")[:-1]:
        mark, number = line.split()
        (begun if mark == "S" else done).add(int(number))
    return begun, done


def run(name: str, folder: Path, rounds: int, rng: random.Random) -> None:
    backend = BACKENDS[name](folder)
    made = make_layer(backend.open())
    backend.close()
    acknowledged: set[int] = set()
    uncertain: set[int] = set()
    try:
        for number in range(rounds):
            begun, done = run_and_kill(backend.url, made.id, number * 100_000, rng.uniform(0.05, 1.0))
            acknowledged |= done
            uncertain |= begun - done
            store = backend.open()
            assert list(store.check()) == [], f"round {number}"
            rows = rows_of(store, made)
            there = {row[0] for row in rows}
            for n in acknowledged | uncertain:
                own = {10 * n, 10 * n + 1, 10 * n + 2}
                gone = {10 * n + 1} if n + 1 in acknowledged or (n + 1 in uncertain and 10 * n + 10 in there) else set()
                present = own & there
                if n in acknowledged or present:
                    assert present == own - gone, f"edit {n}"
                if n % 7 == 0 and n in acknowledged:
                    first = layer_writer.LOAD_FROM + n * layer_writer.LOADED
                    assert set(range(first, first + layer_writer.LOADED)) <= there, f"load {n}"
            for form in FragmentForm:
                assert fragments_of(store, made, form) == expected_fragments(made, form, rows)
            backend.close()
    finally:
        backend.close()
    assert len(acknowledged) > rounds


@pytest.mark.fault
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_acknowledged_edits_of_layers_survive_kill(name: str, tmp_path: Path) -> None:
    with new_seed() as seed:
        run(name, tmp_path, 4, random.Random(seed))
