"""A process that writes to a published procedure and closes its pages is killed (SIGKILL) at random moments.

Everything acknowledged is a member once, corrections and deletions are members after what they change, what the stream
tells last is what is stored, and pages that were closed are what they were.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from tests.fault import published_writer
from tests.fault.published_writer import digest_of, end_of, kind_of
from tests.fault.test_kill import PER_ROUND, START_S, Process, kill, pump, start
from tests.store.published_support import Told, pages, publish, told, work
from tests.store.support import BACKENDS, Backend, assert_clean, register, series, values

from thalweg.domain.published import SourceKind


def run(backend: Backend, rounds: int, seed: int) -> None:
    rng = random.Random(seed)
    store = backend.open()
    station = register(store, published_writer.PROCEDURE, [series("a")])
    stream = publish(
        store, station.workspace_id, SourceKind.PROCEDURE, station.procedure.id, name=published_writer.STREAM
    )
    backend.close()
    acknowledged: set[int] = set()
    closed: dict[int, str] = {}
    for round_number in range(1, rounds + 1):
        process = killed(backend.url, round_number, rng)
        for mark, *rest in process.lines():
            if mark == "A":
                acknowledged.add(int(rest[0]))
            elif mark == "P":
                assert closed.setdefault(int(rest[0]), rest[1]) == rest[1]
        store = backend.open()
        assert_clean(store)
        work(store)
        found = pages(store, stream, station.track)
        for node in found[:-1]:
            assert node.page is not None
            assert closed.setdefault(node.page, digest_of(node)) == digest_of(node)
        verify([told(member) for node in found for member in node.members], acknowledged)
        (a,) = station.ids
        last = {m.key[0]: m for node in found for m in map(told, node.members)}
        left = {end: m.value for end, m in last.items() if not m.is_deletion}
        assert left == dict(values(store, station.track, a))
        backend.close()
    assert len(acknowledged) > 30 * rounds
    assert len(closed) > 2 * rounds


def killed(url: str, round_number: int, rng: random.Random) -> Process:
    """Start the writer and kill it somewhere in its work."""
    process = start(0, published_writer, url, round_number * PER_ROUND, rng.randrange(1 << 30))
    pump([process], time.monotonic() + START_S, lambda: ["R"] in process.lines())
    is_ready = ["R"] in process.lines()
    pump([process], time.monotonic() + rng.uniform(0.5, 1.5))
    kill(process)
    assert process.popen.stdout is not None
    process.popen.stdout.close()
    assert is_ready, "the writer did not open the store"
    return process


def verify(members: list[Told], acknowledged: set[int]) -> None:
    assert len({(m.key, m.version) for m in members}) == len(members)
    came = [m.key for m in members if m.version == 0]
    assert came == sorted(came)
    versions = [m.version for m in members if m.version]
    assert versions == list(range(1, len(versions) + 1)), "a change is missing, or told twice"
    told_of = {m.value: m for m in members if not m.is_deletion}
    assert len(told_of) == sum(not m.is_deletion for m in members)
    deleted = {m.key[0] for m in members if m.is_deletion}
    for n in acknowledged:
        match kind_of(n):
            case "delete":
                assert end_of(n) in deleted
            case "row":
                assert told_of[float(n)].version == 0
                assert told_of[float(n)].key[0] == end_of(n)
            case _:
                assert told_of[float(n)].version > 0
                assert told_of[float(n)].key[0] == end_of(n)


@pytest.mark.fault
@pytest.mark.parametrize("name", BACKENDS)
def test_nothing_is_lost_or_told_twice_and_closed_pages_stay_when_the_writer_is_killed(
    tmp_path: Path, name: str
) -> None:
    run(BACKENDS[name](tmp_path), rounds=3, seed=20_141)


@pytest.mark.fault
@pytest.mark.long
@pytest.mark.parametrize("name", BACKENDS)
def test_many_kills(tmp_path: Path, name: str) -> None:
    run(BACKENDS[name](tmp_path), rounds=15, seed=7)
