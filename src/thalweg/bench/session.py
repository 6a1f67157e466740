"""Around a run: its file, and what becomes of it when the run ends before its time."""

from __future__ import annotations

import errno
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from thalweg.bench.errors import BenchError
from thalweg.bench.results import Result
from thalweg.domain.errors import ThalwegError


def default_file(folder: Path, name: str) -> Path:
    """Where a run's figures go if nothing else is said: a file of its own, named by time and profile."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return folder / "results" / f"{stamp}-{name}.json"


@contextmanager
def measuring(result: Result) -> Iterator[None]:
    """The block measures; however it ends, the result is finished and says so.

    raises  BenchError with what has stopped the run, and where what was measured is kept
    """
    reason = ""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    except KeyboardInterrupt:
        reason = "The run was interrupted."
    except BenchError as error:
        reason = str(error)
    except ThalwegError as error:
        reason = error.message
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "The disk is full." if full else f"{error.strerror or error}."
    finally:
        signal.signal(signal.SIGTERM, before)
        _finish(result, reason)
    if reason:
        kept = f" {len(result.phases)} phases are kept in {result.file}, marked partial." if result.phases else ""
        raise BenchError(reason + kept)


def _finish(result: Result, reason: str) -> None:
    if not result.phases and reason:
        # Nothing was measured: a file would say nothing.
        return
    try:
        result.finish(reason)
    except BenchError as error:
        # The file of the last phase is there and says that the run was going on.
        raise BenchError(f"{reason} {error} What was written last stays, marked partial.".strip()) from error


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
