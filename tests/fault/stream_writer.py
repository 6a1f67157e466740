"""A process that ingests members without end and does background work, started and killed by test_kill_streams.py.

    python stream_writer.py URL NUMBER BASE SEED

Writes to its standard output, a line each, unbuffered:

    R          ready: the store is open
    S n        request n is about to be sent
    A n seq…   request n was acknowledged; sequences of its members
    P view bucket page digest
               a page that says it is immutable, and what it held
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
from collections import deque
from concurrent.futures import Future
from dataclasses import replace

from tests.store.stream_support import member

from thalweg.domain.catalogue import DEFAULT_WORKSPACE
from thalweg.domain.streams import Appended, Member, Node
from thalweg.services.stream_work import StreamWork

STREAM = "hindrances"
TILES = ("POINT (5.47236 50.9642)", "POINT (4.463 51.276)", "POINT (5.47236 50.9642)")


def members(number: int, n: int) -> list[Member]:
    """Request n of a writer: one to three members, whose buckets follow from n."""
    return [
        replace(
            member(
                (number * 100_000_000 + n) * 10 + i,
                obj=n % 50,
                at=f"2021-{n % 3 + 1:02d}-{n % 28 + 1:02d}T00:00:00Z",
                kinds=["a", "b", "c"][: n % 4],
                wkt=TILES[: n % 3],
                padding=n % 7 * 40,
            )
        )
        for i in range(n % 3 + 1)
    ]


def digest_of(node: Node) -> str:
    """Of everything that a client is given of a node."""
    parts = [node.query, str(node.version), str(node.is_immutable), repr(node.relations)]
    parts += [f"{m.sequence} {m.iri} {m.text!r}" for m in node.members]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def main(url: str, number: int, base: int, seed: int) -> None:
    from thalweg.store.open import open_store

    rng = random.Random(seed)
    store = open_store(url)
    stream = store.streams(store.workspaces()[DEFAULT_WORKSPACE].id)[STREAM]
    work = StreamWork(store, retention_s=0.05, grace_us=0)
    say("R")
    waiting: deque[tuple[int, Future[Appended]]] = deque()
    n = base
    while True:
        n += 1
        say("S", n)
        waiting.append((n, store.append(stream.id, members(number, n))))
        while waiting and (len(waiting) > 8 or waiting[0][1].done()):
            done, future = waiting.popleft()
            say("A", done, *future.result().sequences)
        if n % 23 == 0 and store.hold_stream_work():
            work.round()
        if n % 101 == 0:
            for view in store.views(stream.id).values():
                query, page = view.name, rng.randrange(1, 4)
                bucket = {"by-kind": "kind=unknown", "by-time": "year=2021&month=02&day=05"}.get(query, "")
                try:
                    node = store.node(stream.id, view.id, bucket, page)
                except LookupError:
                    continue
                except Exception as error:
                    if type(error).__name__ not in ("NotFound", "Gone"):
                        raise
                    continue
                if node.is_immutable:
                    say("P", view.name, bucket or "-", page, digest_of(node))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
