"""What stops a measurement, in words for whoever started it."""

from __future__ import annotations


class BenchError(Exception):
    """A measurement cannot be made or not go on: the target, a program or a file it needs. The text says what to do."""


class Unreachable(BenchError):
    """Nothing, or nothing of use, answers at a target's address."""


class DoorMissing(BenchError):
    """The target does not serve the protocol that a profile speaks."""
