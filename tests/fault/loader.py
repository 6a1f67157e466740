"""A process that loads rows in bulk and takes copies, started and killed by test_kill_load.py.

    python loader.py URL NAME COPY

Says ``R`` on its standard output, loads what ``insertion`` gives for the procedure of that name, says ``L``, copies
the store to COPY, says ``B`` and ends.
"""

from __future__ import annotations

import os
import sys

import numpy as np

from thalweg.domain.blocks import Block, Column, ValueKind
from thalweg.domain.catalogue import DEFAULT_WORKSPACE
from thalweg.domain.observations import Insertion, OnDuplicate
from thalweg.domain.snapshot import Catalogue

ROWS = 150_000
STEP_US = 600_000_000
ORIGIN_US = 1_200_000_000_000_000


def rows() -> tuple[list[int], list[float], list[float | None]]:
    """Ends, and the values of two properties; the second one has gaps."""
    return (
        [ORIGIN_US + i * STEP_US for i in range(ROWS)],
        [((i * 31) % 977) / 10 for i in range(ROWS)],
        [None if i % 17 == 0 else i / 4 for i in range(ROWS)],
    )


def insertion(catalogue: Catalogue, name: str) -> Insertion:
    procedure = catalogue.procedure(name)
    assert procedure is not None
    assert procedure.feature_id is not None
    ends, first, second = rows()
    a, b = (series.property_id for series in procedure.series)
    columns = {a: Column.of(ValueKind.NUMBER, first), b: Column.of(ValueKind.NUMBER, second)}
    return Insertion(procedure.id, procedure.feature_id, Block(np.array(ends), columns), OnDuplicate.SKIP)


def main(url: str, name: str, copy: str) -> None:
    from thalweg.store.open import open_store

    store = open_store(url)
    catalogue = store.catalogue(store.workspaces()[DEFAULT_WORKSPACE].id)
    made = insertion(catalogue, name)
    os.write(1, b"R\n")
    store.load(catalogue.workspace.id, made, by="loader")
    os.write(1, b"L\n")
    store.backup(copy)
    os.write(1, b"B\n")
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
