"""Progress of long work: a bar on a terminal, now and then a plain line elsewhere. Goes to standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import click

_LINE_S: Final = 5.0


@contextmanager
def progress(label: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Gives a function that takes how much more of ``total`` is done.

    label  what is going on, such as a file's name
    total  in units; 0 if unknown
    unit   plural, such as ``rows``
    """
    if sys.stderr.isatty() and total > 0:
        with click.progressbar(length=total, label=label, file=sys.stderr, show_pos=True) as bar:
            yield bar.update
        return
    lines = _Lines(label, total, unit)
    yield lines.advance
    lines.end()


class _Lines:
    """The first line after some seconds, so that short work says nothing before it ends."""

    def __init__(self, label: str, total: int, unit: str) -> None:
        self._label = label
        self._total = total
        self._unit = unit
        self._done = 0
        self._started = self._said = time.monotonic()

    def advance(self, amount: int) -> None:
        self._done += amount
        now = time.monotonic()
        if now - self._said >= _LINE_S:
            self._said = now
            share = f" of {self._total:,} ({100 * self._done // self._total} %)" if self._total > 0 else ""
            click.echo(f"{self._label}: {self._done:,}{share} {self._unit}", err=True)

    def end(self) -> None:
        seconds = time.monotonic() - self._started
        click.echo(f"{self._label}: {self._done:,} {self._unit} in {seconds:.1f} s", err=True)
