"""What tests share that kill a program which writes to a store."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import thalweg

_ROOTS = (Path(thalweg.__file__).parents[1], Path(__file__).parents[2])


def start(program: ModuleType, *words: object) -> subprocess.Popen[bytes]:
    """A program of this folder in a process and session of its own; what it tells is read from its pipe."""
    path = os.pathsep.join([*map(str, _ROOTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, str(program.__file__), *map(str, words)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
        start_new_session=True,
    )


@contextmanager
def new_seed() -> Iterator[int]:
    """A seed that no run before had, told by what fails with it."""
    seed = random.SystemRandom().randrange(1 << 30)
    try:
        yield seed
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
