"""A run's file: written after each phase, so that whatever happens, what was measured is kept and says what it is."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Final

from thalweg.bench.errors import BenchError
from thalweg.bench.places import hidden

FORMAT: Final = 2
COMPLETE: Final = "complete"
PARTIAL: Final = "partial"
_NUMBERS: Final = re.compile(r"\[\s+((?:-?[\d.]+(?:e[-+]?\d+)?,\s+)*-?[\d.]+(?:e[-+]?\d+)?)\s+\]")


class Result:
    """The figures of one run or comparison as they grow, and the file they go to.

    status  ``partial`` until ``finish`` is called; then ``complete``, or still ``partial`` with a reason
    """

    def __init__(self, head: dict[str, Any], file: Path | None = None) -> None:
        self.file = file
        self.data: dict[str, Any] = {"format": FORMAT, "status": PARTIAL, "reason": "still running", **head}
        self.data["phases"] = []

    @property
    def phases(self) -> list[dict[str, Any]]:
        phases: list[dict[str, Any]] = self.data["phases"]
        return phases

    def add(self, phase: dict[str, Any]) -> None:
        """Keep a phase. Raises BenchError if it cannot be written."""
        self.phases.append(phase)
        self.write()

    def finish(self, reason: str = "") -> None:
        """The run has ended; with a reason, before its time."""
        self.data["status"] = PARTIAL if reason else COMPLETE
        self.data["reason"] = reason
        self.data["failures"] = sum(failures(phase) for phase in self.phases)
        self.write()

    def write(self) -> None:
        """Replace the file as a whole, so that a full disk leaves the last complete one."""
        if self.file is None:
            return
        temporary = self.file.with_name(self.file.name + ".part")
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(self._text(), "utf-8")
            os.replace(temporary, self.file)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise BenchError(f"The figures cannot be written to {self.file}: {error.strerror}.") from error

    def _text(self) -> str:
        """The file's text: readable, a list of numbers in a line, and without hosts and folders."""
        # Phases hold figures and the drivers' own words alone.
        data = {key: value if key == "phases" else hidden(value) for key, value in self.data.items()}
        text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)
        return _NUMBERS.sub(lambda found: "[" + re.sub(r"\s+", " ", found[1]) + "]", text) + "\n"


def failures(phase: dict[str, Any]) -> int:
    """Failed requests of a phase."""
    return int(phase.get("operations", {}).get("TOT", {}).get("failures", 0))


def read(file: Path) -> dict[str, Any]:
    """A run's file. Raises BenchError for what is none, or one of another format."""
    try:
        data = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise BenchError(f"{file} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise BenchError(f"{file} is no result of a run: {error}.") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT or "phases" not in data:
        raise BenchError(f"{file} is no result of this version's runs (format {FORMAT}).")
    return data
