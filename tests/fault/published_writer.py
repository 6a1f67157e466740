"""A process that inserts, corrects and deletes observations of a published procedure and closes its pages, started and
killed by test_kill_published.py.

    python published_writer.py URL NUMBER BASE SEED

Writes to its standard output, a line each, unbuffered:

    R          ready: the store is open
    S n        operation n is about to be sent
    A n        operation n was acknowledged
    P page digest
               a page that says it is immutable, and what it held
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
from collections import deque
from concurrent.futures import Future
from typing import Any

from tests.store.published_support import node
from tests.store.support import STEP, T0, block, default_workspace, insertion, station_of

from thalweg.domain.observations import OnDuplicate
from thalweg.domain.streams import Node
from thalweg.domain.time import Interval
from thalweg.services.published_work import PublishedWork

PROCEDURE = "ALPHA"
STREAM = "published"


def kind_of(n: int) -> str:
    """What operation n is."""
    return {3: "correct", 5: "late", 7: "delete"}.get(n % 8, "row")


def end_of(n: int) -> int:
    """The phenomenon end that operation n is about: its own, between two rows, or that of three operations before."""
    match kind_of(n):
        case "row":
            return T0 + n * STEP
        case "late":
            return T0 + (n - 3) * STEP + 7
    return T0 + (n - 1) * STEP


def digest_of(found: Node) -> str:
    parts = [found.query, str(found.is_immutable), repr(found.relations)]
    parts += [f"{m.iri} {m.text!r}" for m in found.members]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def main(url: str, base: int, seed: int) -> None:
    from thalweg.store.open import open_store

    rng = random.Random(seed)
    store = open_store(url)
    workspace_id = default_workspace(store)
    procedure = store.catalogue(workspace_id).procedure(PROCEDURE)
    assert procedure is not None
    station = station_of(store, workspace_id, procedure.id)
    stream = store.streams(workspace_id)[STREAM]
    work = PublishedWork(store)
    (a,) = station.ids
    say("R")
    waiting: deque[tuple[int, Future[Any]]] = deque()
    n = base
    while True:
        n += 1
        say("S", n)
        end = end_of(n)
        if kind_of(n) == "delete":
            waiting.append((n, store.delete(station.track, Interval(end, end + 1))))
        else:
            item = insertion(station, block([end], {a: [float(n)]}), on_duplicate=OnDuplicate.REPLACE)
            waiting.append((n, store.insert(workspace_id, [item])))
        while waiting and (len(waiting) > 8 or waiting[0][1].done()):
            done, future = waiting.popleft()
            future.result()
            say("A", done)
        if n % 17 == 0 and store.hold_stream_work():
            work.round(everything=True)
        if n % 40 == 0:
            store.seal(everything=True)
        if n % 11 == 0:
            pages = store.parts(stream.id)[station.track].pages
            if pages:
                number = rng.randrange(1, pages + 1)
                found = node(store, stream, "by-page", f"track={station.track}&pageNumber={number}")
                assert found.is_immutable
                say("P", number, digest_of(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[3]), int(sys.argv[4]))
