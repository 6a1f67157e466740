"""Runs a command as a job of a server: at lower priority, and never longer than the server lives.

``python -m thalweg.services.job_child SERVER_PID COMMAND...``
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

NICE: Final = 10
_PR_SET_PDEATHSIG: Final = 1


def main(arguments: list[str]) -> None:
    server = int(arguments[0])
    os.nice(NICE)
    # Linux alone has it; elsewhere a job goes on by itself when its server is killed, and is begun anew by the next.
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != server:
            sys.exit(1)
    os.execvp(arguments[1], arguments[1:])  # noqa: S606 (what the server says, no shell)


if __name__ == "__main__":
    main(sys.argv[1:])
