"""Processes that ingest members and fill views are killed (SIGKILL) at random moments.

What was acknowledged is there under the sequence that was told, nothing is half there, background work goes on where it
was, every view holds every member where its rule puts it, and pages that were immutable are what they were, or gone.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.fault import stream_writer
from tests.fault.support import new_seed
from tests.fault.test_kill import PER_ROUND, START_S, Process, kill, pump, start
from tests.store.stream_support import BY_KIND, BY_TILE, BY_TIME, make_stream, make_view, number, walk, work
from tests.store.support import BACKENDS, Backend, assert_clean

from thalweg.domain.store import Store
from thalweg.domain.streams import EventStream, Gone, Retention

WRITERS = 2


def run_round(url: str, round_number: int, rng: random.Random) -> list[Process]:
    """Start the writers and kill them, each at a moment of its own."""
    processes = [start(w, stream_writer, url, round_number * PER_ROUND, rng.randrange(1 << 30)) for w in range(WRITERS)]
    try:
        pump(processes, time.monotonic() + START_S, lambda: all(["R"] in process.lines() for process in processes))
        assert all(["R"] in process.lines() for process in processes), "a writer did not open the store"
        for process in rng.sample(processes, len(processes)):
            pump(processes, time.monotonic() + rng.choice((rng.uniform(0.0, 0.1), rng.uniform(0.3, 1.2))))
            kill(process)
    finally:
        for process in processes:
            if not process.killed:
                kill(process)
            assert process.popen.stdout is not None
            process.popen.stdout.close()
    return processes


def everything(store: Store, stream: EventStream) -> dict[int, tuple[int, bytes]]:
    """Sequence and text of every member by its number."""
    found: dict[int, tuple[int, bytes]] = {}
    after = 0
    while page := store.members(stream.id, after):
        after = page[-1].sequence
        for m in page:
            assert number(m.iri) not in found, "a member stored twice"
            found[number(m.iri)] = (m.sequence, m.text)
    return found


def expected_buckets(writer: int, n: int) -> dict[str, set[str]]:
    """By hand, for the members of a request."""
    quoted = "kind=https%3A%2F%2Fexample.org%2Fns%23"
    kinds = {quoted + k for k in "abc"[: n % 4]} or {"kind=unknown"}
    tiles = {"tile=13%2F4220%2F2743", "tile=13%2F4197%2F2732"}
    by_tile = [{"tile=unknown"}, {"tile=13%2F4220%2F2743"}, tiles][n % 3]
    day = f"year=2021&month={n % 3 + 1:02d}&day={n % 28 + 1:02d}"
    return {"by-page": {""}, "by-kind": kinds, "by-tile": by_tile, "by-time": {day}}


def run(backend: Backend, rounds: int, seed: int) -> None:
    rng = random.Random(seed)
    store = backend.open()
    stream = make_stream(store, stream_writer.STREAM)
    for name, fragmentation in (("by-page", ()), ("by-kind", BY_KIND), ("by-tile", BY_TILE), ("by-time", BY_TIME)):
        make_view(store, stream, name, fragmentation, page_size=20)
    make_view(store, stream, "newest", retention=Retention(versions=1), page_size=20)
    make_view(store, stream, "latest", materialised=True, page_size=20)
    backend.close()
    acknowledged: dict[int, int] = {}
    submitted: dict[int, tuple[int, int]] = {}
    pages: dict[tuple[str, str, int], str] = {}
    for round_number in range(1, rounds + 1):
        for process in run_round(backend.url, round_number, rng):
            for mark, *rest in process.lines():
                if mark in "SA":
                    n = int(rest[0])
                    sent = stream_writer.members(process.number, n)
                    submitted.update({number(m.iri): (process.number, n) for m in sent})
                    if mark == "A":
                        numbers = [number(m.iri) for m in sent]
                        acknowledged.update(zip(numbers, map(int, rest[1:]), strict=True))
                elif mark == "P":
                    key = (rest[0], rest[1].strip("-"), int(rest[2]))
                    assert pages.setdefault(key, rest[3]) == rest[3]
        store = backend.open()
        assert_clean(store)
        verify(store, stream, acknowledged, submitted, pages)
        backend.close()
    assert len(acknowledged) > 50 * rounds
    assert pages


def verify(
    store: Store,
    stream: EventStream,
    acknowledged: dict[int, int],
    submitted: dict[int, tuple[int, int]],
    pages: dict[tuple[str, str, int], str],
) -> None:
    stored = everything(store, stream)
    assert {n: stored[n][0] for n in acknowledged if n in stored} == acknowledged
    by_request: dict[tuple[int, int], set[int]] = defaultdict(set)
    for n in stored:
        by_request[submitted[n]].add(n)
    for (writer, request), numbers in by_request.items():
        sent = {number(m.iri): m.text for m in stream_writer.members(writer, request)}
        assert {n: stored[n][1] for n in numbers} == sent, "a request that is there by half, or changed"
    work(store)
    views = store.views(stream.id)
    for name in ("by-page", "by-kind", "by-tile", "by-time"):
        found: dict[int, set[str]] = defaultdict(set)
        listed = 0
        walked = walk(store, views[name])
        for (bucket, _), iris in walked.pages.items():
            listed += len(iris)
            for iri in iris:
                found[number(iri)].add(bucket)
        assert found == {n: expected_buckets(*submitted[n])[name] for n in stored}
        assert listed == sum(map(len, found.values())), "a member twice in a bucket"
        for bucket in {bucket for bucket, _ in walked.pages}:
            order = [stored[n][0] for n in walked.members(bucket)]
            assert order == sorted(order)
    newest: dict[int, int] = {}
    for n in sorted(stored, key=lambda n: stored[n][0]):
        newest[submitted[n][1] % 50] = n
    assert set(newest.values()) <= walk(store, views["newest"]).everything()
    # Of each object the state of the latest time, of equal ones the one ingested last.
    latest = max_by(stored, lambda n: submitted[n][1] % 50, lambda n: (submitted[n][1] % 3, submitted[n][1] % 28))
    assert walk(store, views["latest"]).everything() == latest
    for (name, bucket, page), digest in pages.items():
        try:
            node = store.node(stream.id, views[name].id, bucket, page)
        except Gone:
            assert name == "newest"
            continue
        assert stream_writer.digest_of(node) == digest, "an immutable page has changed"
    assert_clean(store)


def max_by(
    stored: dict[int, tuple[int, bytes]], key: Callable[[int], int], when: Callable[[int], tuple[int, int]]
) -> set[int]:
    """The member of each key with the latest time, then the highest sequence."""
    best: dict[int, int] = {}
    for n in stored:
        other = best.setdefault(key(n), n)
        best[key(n)] = max(n, other, key=lambda m: (when(m), stored[m][0]))
    return set(best.values())


def run_with_new_seed(name: str, folder: Path, rounds: int) -> None:
    backend = BACKENDS[name](folder)
    with closing(backend), new_seed() as seed:
        run(backend, rounds, seed)


@pytest.mark.fault
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_streams_survive_kill(name: str, tmp_path: Path) -> None:
    run_with_new_seed(name, tmp_path, rounds=3)


@pytest.mark.fault
@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_streams_survive_forty_rounds_of_kill(name: str, tmp_path: Path) -> None:
    run_with_new_seed(name, tmp_path, rounds=30)
