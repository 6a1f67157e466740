"""Processes that write records are killed (SIGKILL): what was acknowledged is there, nothing is half there, and counts,
words and the change log agree with the records."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.fault import support, table_writer
from tests.fault.support import new_seed
from tests.store.support import BACKENDS
from tests.store.table_support import find, make

from thalweg.domain.table_values import FieldType
from thalweg.domain.tables import Field, TextTerm

WRITERS = 2
PER_ROUND = 100_000


def run_round(url: str, uuid: str, base: int, rng: random.Random) -> list[list[list[str]]]:
    """Start the writers, kill them, and give what each has told."""
    processes = [support.start(table_writer, url, uuid, number, base) for number in range(WRITERS)]
    texts = [b""] * WRITERS
    try:
        for place, process in enumerate(processes):
            assert process.stdout is not None
            while b"R\n" not in texts[place]:
                found = os.read(process.stdout.fileno(), 1 << 16)
                assert found, "a writer ended by itself"
                texts[place] += found
        time.sleep(rng.uniform(0.05, 0.5))
    finally:
        for process in processes:
            os.kill(process.pid, signal.SIGKILL)
    for place, process in enumerate(processes):
        assert process.stdout is not None
        texts[place] += process.stdout.read()
        process.stdout.close()
        process.wait()
    # A line cut by the kill was not told.
    return [[line.split() for line in text.decode().split("\n")[:-1]] for text in texts]


@pytest.mark.fault
@pytest.mark.timeout(200)
@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_acknowledged_records_survive_kill(name: str, tmp_path: Path) -> None:
    backend = BACKENDS[name](tmp_path)
    fields = (Field("k", FieldType.TEXT), Field("n", FieldType.INT4), Field("note", FieldType.TEXT))
    uuid = make(backend.open(), fields, key=("k",)).uuid
    backend.close()
    before: dict[str, tuple[int, str | None]] = {}
    acknowledged = 0
    with closing(backend), new_seed() as seed:
        rng = random.Random(seed)
        for number in range(1, 5):
            base = number * PER_ROUND
            told = run_round(backend.url, uuid, base, rng)
            store = backend.open()
            assert list(store.check()) == []
            table = store.table(uuid)
            rows, total = find(store, table, 10**6)
            there = {key: (n, note) for _, key, n, note in rows}
            assert total == len(rows) == len(there)
            expected = dict(before)
            for writer, lines in enumerate(told):
                submitted = {int(line[1]) for line in lines if line[0] == "S"}
                done = {int(line[1]) for line in lines if line[0] == "A"}
                acknowledged += len(done)
                last = None
                for n in sorted(submitted):
                    records = table_writer.records(writer, n)
                    if n in done or records[0]["k"] in there:
                        expected.update({r["k"]: (r["n"], r["note"]) for r in records})
                        last = n
                if last is not None:
                    assert find(store, table, 1, texts=(TextTerm(f"writer{writer} word{last}"),))[1] == 1
                    assert find(store, table, 1, texts=(TextTerm(f"counted{writer}x{last}"),))[1] == 1
            # Each request that is there is there as a whole, none that was acknowledged is missing, nothing else is.
            assert there == expected
            before = there
            backend.close()
        assert acknowledged > 100
