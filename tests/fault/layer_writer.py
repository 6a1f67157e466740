"""A process that edits a layer without end, started and killed by test_kill_layers.py.

    python layer_writer.py URL LAYER BASE

Edit n inserts the features 10 n, 10 n + 1 and 10 n + 2 and removes 10 (n - 1) + 1; every seventh is a load of two
thousand more. Writes ``S n`` before and ``A n`` after each, unbuffered.
"""

from __future__ import annotations

import os
import sys

from tests.store.layer_support import ME, batch, by_number, point

from thalweg.domain.features import Delete, Insert, OnConflict
from thalweg.services.features import FeatureService
from thalweg.store.open import open_store

LOADED = 2_000
LOAD_FROM = 1_000_000_000


def main(url: str, layer_id: int, base: int) -> None:
    store = open_store(url)
    service = FeatureService(store)
    (layer,) = [item for item in store.layers(store.workspaces()["default"].id).values() if item.id == layer_id]
    n = base
    while True:
        n += 1
        os.write(1, b"S %d\n" % n)
        rows = [(10 * n + i, point(n % 180, i), {"name": f"{n}/{i}"}) for i in range(3)]
        service.edit([Insert(layer_id, batch(rows)), Delete(layer_id, by_number(10 * n - 9))], ME).result(30)
        if n % 7 == 0:
            first = LOAD_FROM + n * LOADED
            loaded = batch((first + i, point(i % 180, n % 90), {}) for i in range(LOADED))
            service.load(layer, [loaded], ME, on_conflict=OnConflict.SKIP)
        os.write(1, b"A %d\n" % n)
        store.maintain()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
