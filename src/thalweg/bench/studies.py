"""The studies' published figures, to be set beside ours.

They were measured on other machines: shapes and verdicts compare, absolute times do not. What was measured and how is
said in ``published/README.md``.
"""

from __future__ import annotations

import csv
from importlib import resources
from typing import Final

from thalweg.bench.stats import PERCENTILES

Rows = list[dict[str, str]]

SERVERS: Final = ("gevent", "mod_wsgi")
"""Application servers under istSOS in the SOS study."""
_PERCENTILE_TABLES: Final = {
    ("A", "IO"): 6, ("A", "GO"): 7, ("A", "GC"): 8, ("A", "DS"): 9,
    ("B", "IO"): 11, ("B", "GO"): 12, ("B", "GC"): 13, ("B", "DS"): 14,
    ("C without GC", "DS"): 17, ("C without GC", "GO"): 18,
}  # fmt: skip
_RATE_TABLES: Final = {"A": 5, "B": 10, "C": 15, "C without GC": 16}


def rows(name: str) -> Rows:
    """A table by the begin of its file's name."""
    folder = resources.files("thalweg.bench").joinpath("published")
    for entry in folder.iterdir():
        if entry.name.startswith(name) and entry.name.endswith(".csv"):
            return list(csv.DictReader(entry.read_text("utf-8").splitlines()))
    raise KeyError(name)


def sos_case(network: str, with_capabilities: bool) -> str:
    """The study's name of a set-up: only C was also measured without GetCapabilities."""
    return network if with_capabilities or network != "C" else "C without GC"


def sos_rates(case: str) -> dict[tuple[str, int, str], tuple[float | None, float]]:
    """(server, users, operation) -> requests a second (None: none was answered) and failures in per cent."""
    number = _RATE_TABLES.get(case)
    if number is None:
        return {}
    return {
        (row["server"], int(row["users"]), row["operation"]): (
            float(row["requests_per_s"]) if row["requests_per_s"] else None, float(row["failure_percent"] or 0),
        )
        for row in rows(f"sos_table{number:02d}_")
    }  # fmt: skip


def sos_percentiles(case: str, operation: str) -> dict[tuple[str, int], dict[int, float]]:
    """(server, users) -> response time in seconds by percentile; empty where the study gives no table."""
    number = _PERCENTILE_TABLES.get((case, operation))
    if number is None:
        return {}
    return {
        (row["server"], int(row["users"])): {p: float(row[str(p)]) for p in PERCENTILES}
        for row in rows(f"sos_table{number:02d}_")
    }
