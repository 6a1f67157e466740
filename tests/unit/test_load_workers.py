"""Processes that help a load: results in order, errors as they were, and none that outlives the load."""

from __future__ import annotations

import operator
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from thalweg.domain.errors import InvalidParameter, InvalidRequest, TooLarge
from thalweg.domain.time import parse_instant
from thalweg.encode.filters.cql2_json import check_json_depth
from thalweg.loading.features import workers
from thalweg.loading.features.workers import Task, Workers

SIZES = [number * 40_000 for number in (3, 0, 11, 1, 7, 2, 30, 0, 5)]


@pytest.mark.parametrize("count", [0, 2])
def test_results_come_in_the_order_of_the_tasks_whatever_their_size(count: int) -> None:
    # Tasks and results beyond what a pipe holds: neither side may wait for the other for ever.
    texts = [b"x" * size for size in SIZES]
    with Workers(count) as made:
        assert list(made.map((operator.mul, (b"x", size)) for size in SIZES)) == texts
        assert list(made.map((len, (text,)) for text in texts)) == SIZES
        assert list(made.map(())) == []


def test_no_more_tasks_are_taken_than_are_being_done() -> None:
    taken = 0

    def tasks() -> Iterator[Task[int]]:
        nonlocal taken
        for number in range(100):
            taken += 1
            yield abs, (-number,)

    with Workers(2) as made:
        results = made.map(tasks())
        assert next(results) == 0
        assert taken == workers.WAITING * 2


def test_there_are_no_more_processes_than_help() -> None:
    assert workers.MAX_WORKERS == 4
    with Workers(64) as made:
        assert len(set(made.map((os.getpid, ()) for _ in range(12)))) == 4


def test_errors_of_a_process_are_the_errors_of_the_load() -> None:
    def tasks() -> Iterator[Task[Any]]:
        yield os._exit, (0,)
        yield os.getpid, ()

    with Workers(1) as made:
        with pytest.raises(InvalidParameter, match="now and then") as caught:
            list(made.map([(parse_instant, ("now and then", "x"))]))
        assert caught.value.parameter == "x"
        # An error that is not made of its parameter first.
        with pytest.raises(TooLarge, match="more than 2 deep") as refused:
            list(made.map([(check_json_depth, (b"[[[", 2, "file"))]))
        assert refused.value.parameter == "file"
        with pytest.raises(InvalidRequest, match="ZeroDivisionError: division by zero"):
            list(made.map([(operator.truediv, (1, 0))]))
        with pytest.raises(InvalidRequest, match="was ended"):
            list(made.map(tasks()))


def test_a_process_takes_no_more_memory_than_it_may() -> None:
    assert workers.MAX_MEMORY_BYTES == 4 << 30
    with Workers(1, memory_bytes=400 << 20) as made:
        assert list(made.map([(operator.mul, (b"x", 1 << 20))])) == [b"x" * (1 << 20)]
        with pytest.raises(TooLarge, match="more memory than a load may have"):
            list(made.map([(operator.mul, (b"x", 1 << 30))]))


def test_processes_end_with_the_context() -> None:
    with Workers(2) as made:
        pids = set(made.map((os.getpid, ()) for _ in range(4)))
        assert len(pids) == 2
        assert all(map(runs, pids))
    assert not any(map(runs, pids))


def test_processes_end_when_the_one_that_started_them_is_killed(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "from thalweg.loading.features.workers import Workers\n"
        "if __name__ == '__main__':\n"
        "    with Workers(2) as made:\n"
        "        print(*set(made.map((os.getpid, ()) for _ in range(4))), flush=True)\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    script = tmp_path / "killed.py"
    script.write_text(code)
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    assert result.returncode == -signal.SIGKILL
    pids = [int(word) for word in result.stdout.split()]
    assert len(pids) == 2
    until = time.monotonic() + 10
    while any(map(runs, pids)):
        assert time.monotonic() < until
        time.sleep(0.02)


def runs(number: int) -> bool:
    """Whether the process is there and not only waiting to be told of."""
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"
