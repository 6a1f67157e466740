"""A table, and how figures are written in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its caption; the first column is words, the others figures."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def seconds(milliseconds: float | None) -> str:
    """A time as the study writes it; smaller ones with the digits they need."""
    if milliseconds is None:
        return ""
    value = milliseconds / 1000
    return f"{value:.2f}" if value >= 0.095 else f"{value:.4f}"


def milliseconds(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}"


def size(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:,.0f} B"


def failed(seen: dict[str, Any]) -> str:
    return f"{seen['failure_percent']:.2f} %" if seen["failures"] else "0"


def percent(share: float) -> str:
    """A share in per cent: one digit, or as many as a small one needs to be told from nothing."""
    value = 100 * share
    return f"{value:.1f}" if value >= 1 or value == 0 else f"{value:.2g}"
