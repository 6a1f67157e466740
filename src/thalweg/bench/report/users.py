"""Users with think time: the tables of the SOS study, its own figures beside ours, and the INSPIRE verdict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from thalweg.bench import profiles, studies
from thalweg.bench.report.table import Table, failed, seconds, size
from thalweg.bench.samples import TOTAL
from thalweg.bench.stats import PERCENTILES

_ORDER: Final = ("IO", "GC", "DS", "GO", "RS", TOTAL)
"""The study's order of operations."""


def mix(data: dict[str, Any]) -> Iterator[Table]:
    case, names = case_of(data), operations(data)
    published = studies.sos_rates(case)
    rows = []
    for phase in data["phases"]:
        for name in names:
            seen = phase["operations"].get(name)
            cells = [f"{phase['users']}", name]
            cells += ["", ""] if seen is None else [f"{seen['rate']:.2f}", failed(seen)]
            for server in studies.SERVERS:
                rate, lost = published.get((server, phase["users"], name), (None, 0.0))
                cells += ["" if rate is None else f"{rate:.2f}", f"{lost:g} %" if lost else ""]
            rows.append(tuple(cells))
    yield Table(
        f"Requests a second and failures, network {case}",
        ("users", "operation", "here, 1/s", "failed", "study, gevent", "failed", "study, mod_wsgi", "failed"),
        tuple(rows),
        "The study's figures come from another, larger machine and a separate client: compare shapes and verdicts.",
    )
    for name in names:
        yield _percentiles(data, case, name)
    yield _means(data, names)
    yield _inspire(data, names)


def overview(runs: list[dict[str, Any]]) -> Iterator[Table]:
    """A row for each number of users of several runs; nothing for less than two."""
    found = [data for data in runs if data.get("load", {}).get("form") == "Mix"]
    rows = []
    for data in found:
        names = [name for name in operations(data) if name != TOTAL]
        published = studies.sos_rates(case_of(data))
        for phase in data["phases"]:
            total = phase["operations"].get(TOTAL)
            if total is None:
                continue
            asked = {n: seen for n in names if (seen := phase["operations"].get(n, {})).get("requests")}
            slowest = [seen["percentiles_ms"].get("99") for seen in asked.values()]
            judged = [inspire(name, seen) for name, seen in asked.items()]
            study = [published.get((server, phase["users"], TOTAL), (None, 0.0))[0] for server in studies.SERVERS]
            cost = phase.get("watch", {}).get("mean", {})
            rows.append(
                (
                    case_of(data), f"{phase['users']}", f"{total['rate']:.2f}", failed(total),
                    seconds(total["percentiles_ms"].get("50")),
                    seconds(max((t for t in slowest if t is not None), default=None)),
                    f"{cost['server_cpu']:.0f} %" if "server_cpu" in cost else "",
                    "kept" if judged and all("not kept" not in one for one in judged) else "not kept",
                    *("" if rate is None else f"{rate:.2f}" for rate in study),
                )
            )  # fmt: skip
    if len(found) > 1:
        yield Table(
            "All networks",
            (
                "network", "users", "1/s", "failed", "50 % within, s", "slowest operation, 99 % within, s",
                "server CPU", "INSPIRE", *(f"study, {server}, 1/s" for server in studies.SERVERS),
            ),
            tuple(rows),
        )  # fmt: skip


def operations(data: dict[str, Any]) -> list[str]:
    found = {name for phase in data["phases"] for name in phase["operations"]}
    return [name for name in _ORDER if name in found]


def case_of(data: dict[str, Any]) -> str:
    network = str(data.get("data", {}).get("network", ""))
    return studies.sos_case(network, "GC" in data["load"]["weights"])


def _percentiles(data: dict[str, Any], case: str, name: str) -> Table:
    published = studies.sos_percentiles(case, name)
    rows = []
    for phase in data["phases"]:
        seen = phase["operations"].get(name)
        if seen is not None and seen["percentiles_ms"]:
            times = tuple(seconds(seen["percentiles_ms"].get(str(p))) for p in PERCENTILES)
            rows.append((f"{phase['users']}", "here", *times))
        for server in studies.SERVERS:
            theirs = published.get((server, phase["users"]))
            if theirs:
                rows.append((f"{phase['users']}", f"study, {server}", *(f"{theirs[p]:.2f}" for p in PERCENTILES)))
    heads = ("users", "server", *(f"{p} %" for p in PERCENTILES))
    return Table(f"{name}: response times in seconds by percentile, network {case}", heads, tuple(rows))


def _means(data: dict[str, Any], names: list[str]) -> Table:
    rows = []
    for phase in data["phases"]:
        for name in names:
            seen = phase["operations"].get(name)
            if seen and seen["mean_ms"] is not None:
                times = (seconds(seen["mean_ms"]), seconds(seen["min_ms"]), seconds(seen["max_ms"]))
                rows.append((f"{phase['users']}", name, *times, f"{seen['requests']:,}", size(seen["bytes_mean"])))
    return Table(
        "Mean, shortest and longest response time in seconds",
        ("users", "operation", "mean", "min", "max", "requests", "mean answer"), tuple(rows),
    )  # fmt: skip


def inspire(name: str, seen: dict[str, Any]) -> tuple[str, str, str]:
    """(time, availability, capacity) of an operation at a load: ``kept``, ``not kept``, or why it cannot be said.

    source  INSPIRE limits as the SOS study applies them; ``profiles.inspire_limit_s`` and the constants beside it
    """
    limit_s = profiles.inspire_limit_s(name) + seen["bytes_mean"] / profiles.INSPIRE_BYTES_PER_S
    at = seen["percentiles_ms"].get(str(profiles.INSPIRE_SHARE_PERCENT))
    time = "" if at is None else ("kept" if at / 1000 <= limit_s else "not kept")
    available = 100 - seen["failure_percent"]
    availability = "kept" if available >= profiles.INSPIRE_AVAILABILITY_PERCENT else "not kept"
    served = seen["rate"] * available / 100
    if served >= profiles.INSPIRE_REQUESTS_PER_S:
        capacity = "kept"
    elif availability == "kept" and time == "kept":
        # All that was asked was answered in time: users with think time just do not ask more.
        capacity = f"asked {seen['rate']:.2f}/s only"
    else:
        capacity = "not kept"
    return time, availability, capacity


def _inspire(data: dict[str, Any], names: list[str]) -> Table:
    rows = []
    for phase in data["phases"]:
        for name in names:
            seen = phase["operations"].get(name)
            if seen is not None and seen["requests"] and name != TOTAL:
                limit = profiles.inspire_limit_s(name)
                rows.append((f"{phase['users']}", name, f"{limit:g} s", *inspire(name, seen)))
        total = phase["operations"].get(TOTAL)
        if total is not None and total["requests"]:
            rows.append((f"{phase['users']}", TOTAL, "", "", *inspire(TOTAL, total)[1:]))
    return Table(
        "INSPIRE verdict", ("users", "operation", "limit", "time", "availability", "capacity"), tuple(rows),
        f"Time: {profiles.INSPIRE_SHARE_PERCENT} % of the requests within the limit and "
        f"{profiles.INSPIRE_BYTES_PER_S / 1e6:g} MB/s from then on. Availability: "
        f"{profiles.INSPIRE_AVAILABILITY_PERCENT:g} % answered. Capacity: {profiles.INSPIRE_REQUESTS_PER_S} requests "
        "a second served.",
    )  # fmt: skip
