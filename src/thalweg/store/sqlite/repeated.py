"""Log lines about what may fail again every second."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

EVERY_S: Final = 60.0
"""The same line is not written again for so long."""
MAX_KNOWN: Final = 64


class RepeatedLog:
    """Writes a line when it is new, then at most once a minute, and how often it would have been written meanwhile."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._lock = threading.Lock()
        # By line: when it was written last, and how often it was not since.
        self._known: dict[str, tuple[float, int]] = {}

    def log(self, level: int, message: str, *arguments: object) -> None:
        line = message % arguments
        now_s = time.monotonic()
        with self._lock:
            written_s, unsaid = self._known.get(line, (now_s - EVERY_S, 0))
            if now_s - written_s < EVERY_S:
                self._known[line] = (written_s, unsaid + 1)
                return
            # The newest last.
            self._known.pop(line, None)
            self._known[line] = (now_s, 0)
            if len(self._known) > MAX_KNOWN:
                del self._known[next(iter(self._known))]
        self._logger.log(level, "%s%s", line, f" ({unsaid} times more since the last line)" if unsaid else "")
