"""A process that inserts without end, started and killed by test_kill.py.

    python writer.py URL NUMBER BASE SEED

Writes to its standard output, a line each, unbuffered:

    R          ready: the store is open
    S n        insert n is about to be made
    A n        insert n was acknowledged
    D n        insert n was refused as a duplicate, as it had to be

What insert n consists of is in ``insertions``; the test reads it back by the same function.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections import deque
from concurrent.futures import Future
from typing import Any

import numpy as np

from thalweg.domain.blocks import Block, Column, ValueKind
from thalweg.domain.catalogue import DEFAULT_WORKSPACE, Procedure
from thalweg.domain.errors import AlreadyExists
from thalweg.domain.observations import Insertion, OnDuplicate
from thalweg.domain.snapshot import Catalogue

ROWS = 3
STEP_US = 60_000_000
ORIGIN_US = 1_500_000_000_000_000
FORGED = -777.0
"""Value of inserts that must be refused."""


def ends(n: int) -> list[int]:
    """Phenomenon ends of insert n at the writer's own procedure. Some inserts go far ahead or far back."""
    # The odd microsecond keeps them apart from all ordinary ones.
    shift = 200_000_000_000_001 if n % 37 == 5 else -399_999_999_999_998 if n % 41 == 7 else 0
    return [ORIGIN_US + shift + (n * ROWS + i) * STEP_US for i in range(ROWS)]


def values(n: int) -> tuple[list[float], list[float], list[str]]:
    """Values of insert n: two numbers and a text per row."""
    return [n + i / 10 for i in range(ROWS)], [-n - i / 4 for i in range(ROWS)], [f"{n}/{i}" for i in range(ROWS)]


def shared_end(n: int) -> int:
    """Phenomenon end of insert n's row at the procedure that all writers share."""
    return ORIGIN_US + n * STEP_US


def insertions(catalogue: Catalogue, number: int, n: int, *, forged: bool = False) -> list[Insertion]:
    """Insert n of a writer: ROWS rows of three properties at its own procedure, one row at the shared one."""
    own, shared = procedure(catalogue, f"OWN{number}"), procedure(catalogue, "SHARED")
    first, second, text = values(n)
    if forged:
        first = [FORGED] * ROWS
    a, b, c = (s.property_id for s in own.series)
    block = Block(
        np.array(ends(n), np.int64),
        {
            a: Column.of(ValueKind.NUMBER, first, n % 300),
            b: Column.of(ValueKind.NUMBER, second, 100),
            c: Column.of(ValueKind.TEXT, text, 100),
        },
    )
    # Rows of all writers interleave at the shared procedure; none has the time of another's.
    one = Block(
        np.array([shared_end(n) + number], np.int64), {a: Column.of(ValueKind.NUMBER, [FORGED if forged else float(n)])}
    )
    assert own.feature_id is not None
    assert shared.feature_id is not None
    return [
        Insertion(own.id, own.feature_id, block, OnDuplicate.REFUSE),
        Insertion(shared.id, shared.feature_id, one, OnDuplicate.REFUSE),
    ]


def procedure(catalogue: Catalogue, name: str) -> Procedure:
    found = catalogue.procedure(name)
    assert found is not None
    return found


def tell(mark: str, n: int | None = None) -> None:
    os.write(1, (mark if n is None else f"{mark} {n}").encode() + b"\n")


def main(url: str, number: int, base: int, seed: int) -> None:
    from thalweg.store.open import open_store

    rng = random.Random(seed)
    store = open_store(url)
    catalogue = store.catalogue(store.workspaces()[DEFAULT_WORKSPACE].id)
    workspace_id = catalogue.workspace.id
    tell("R")
    pending: deque[tuple[int, bool, Future[Any]]] = deque()
    n = base
    while True:
        forged = n > base + 20 and rng.random() < 0.1
        if forged:
            # A second try of one long acknowledged, with other values, beside a new row: refused as a whole.
            old = n - rng.randrange(15, 20)
            parts = [
                *insertions(catalogue, number, n, forged=True)[1:],
                *insertions(catalogue, number, old, forged=True),
            ]
        else:
            parts = insertions(catalogue, number, n)
            tell("S", n)
        pending.append((n, forged, store.insert(workspace_id, parts, by=f"writer{number}")))
        if not forged:
            n += 1
        while len(pending) > rng.randrange(0, 12):
            told, was_forged, future = pending.popleft()
            try:
                future.result(60)
                tell("X" if was_forged else "A", told)
            except AlreadyExists:
                tell("D" if was_forged else "X", told)
        if rng.random() < 0.1:
            # Not always under pressure: single commits, and a queue that runs empty.
            time.sleep(rng.uniform(0.001, 0.03))
        if rng.random() < 0.02:
            store.maintain()
        if rng.random() < 0.01:
            store.seal(everything=rng.random() < 0.5)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
