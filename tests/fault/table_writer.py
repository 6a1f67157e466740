"""A process that writes records without end, started and killed by test_kill_tables.py.

    python table_writer.py URL UUID NUMBER BASE

Request n of a writer inserts or updates two records of one key range and counts up a third that only it has. It tells,
a line each: ``R`` when the store is open, ``S n`` before request n, ``A n`` once it was acknowledged.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from concurrent.futures import Future
from typing import Any

from thalweg.domain.tables import Method
from thalweg.store.open import open_store


def records(number: int, n: int) -> list[dict[str, Any]]:
    """Two new records, and the writer's own counter."""
    return [
        {"k": f"{number}/{n}/a", "n": n, "note": f"writer{number} word{n}"},
        {"k": f"{number}/{n}/b", "n": n, "note": None},
        {"k": f"counter{number}", "n": n, "note": f"counted{number}x{n}"},
    ]


def tell(mark: str) -> None:
    os.write(1, mark.encode() + b"\n")


def main(url: str, uuid: str, number: int, base: int) -> None:
    store = open_store(url)
    table = store.table(uuid)
    tell("R")
    pending: deque[tuple[int, Future[Any]]] = deque()
    n = base
    while True:
        tell(f"S {n}")
        pending.append((n, store.write_records(table, Method.UPSERT, records(number, n), by=f"writer{number}")))
        n += 1
        while len(pending) > n % 7:
            told, future = pending.popleft()
            future.result(60)
            tell(f"A {told}")
        if n % 50 == 0:
            store.maintain()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
