"""The tables of the WFS, DataStore and LDES studies: their own figures beside ours."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any, Final

from thalweg.bench import studies
from thalweg.bench.report.table import Table, failed, milliseconds, seconds
from thalweg.bench.samples import TOTAL


def is_of(phase: dict[str, Any], case: str, connections: int, side: str) -> bool:
    return (phase.get("case"), phase.get("connections"), phase.get("side")) == (case, connections, side)


def _mean_ms(seen: Sequence[dict[str, Any]]) -> str:
    found = [one["mean_ms"] for one in seen]
    return "" if None in found else milliseconds(statistics.fmean(found))


def wfs(data: dict[str, Any]) -> Table:
    published = {(r["layer"], r["format"], int(r["parallel"])): r for r in studies.rows("wfs")}
    rows = []
    keys = dict.fromkeys((p["case"], p["connections"]) for p in data["phases"] if p.get("side") == "target")
    for case, connections in keys:
        mine = [p["operations"][TOTAL] for p in data["phases"] if is_of(p, case, connections, "target")]
        layer, form = case.rsplit(" ", 1)
        theirs = published.get((layer, form, connections), {})
        rows.append(
            (
                layer, form, f"{connections}", f"{statistics.fmean(o['rate'] for o in mine):,.1f}",
                _mean_ms(mine), f"{mine[0]['bytes_mean'] / 1000:,.0f}",
                f"{sum(o['failures'] for o in mine)}", theirs.get("requests_per_s", ""), theirs.get("response_ms", ""),
                theirs.get("size_kb", ""),
            )
        )  # fmt: skip
    return Table(
        "As the WFS study gives it: mean of the rounds",
        ("layer", "format", "parallel", "here, 1/s", "ms", "KB", "failed", "study, 1/s", "ms", "KB"), tuple(rows),
    )  # fmt: skip


_CKAN_TESTS: Final = {
    "datastore-search": "query of the small table",
    "datastore-deep": "query of the large table",
    "datastore-busy": "query of the small table",
    "datastore-insert": "insert of two records",
    "datastore-malformed": "malformed query (no database)",
    "datastore-sql": "the same by SQL without count(*)",
}
"""The study's tests by the profiles that repeat them."""
_CKAN_LIMIT: Final = "bare nginx reverse proxy"


def ckan(data: dict[str, Any]) -> Table:
    """What was measured in the study's terms, and below it all the study gives; it has one figure a test, at about 100
    clients, and words for the others."""
    rows: list[tuple[str, ...]] = []
    for side, test in (("target", _CKAN_TESTS.get(data["profile"], "")), ("nginx", _CKAN_LIMIT)):
        phases = [p for p in data["phases"] if p.get("side") == side]
        for case, connections in dict.fromkeys((p["case"], p["connections"]) for p in phases):
            seen = [p["operations"][TOTAL] for p in phases if is_of(p, case, connections, side)]
            name = test if side == "target" else "nginx with the same bytes"
            if any(p["case"] == case and p.get("base") for p in phases):
                name += f" ({case})"
            rows.append(
                (name, f"here, {connections}", f"{_mean(seen, 'rate'):,.1f}", *_times(seen), failed_of(seen), "")
            )
    for row in studies.rows("ckan"):
        if row["test"] in (_CKAN_TESTS.get(data["profile"]), _CKAN_LIMIT, "one search with count(*)"):
            rate = row["requests_per_s"]
            rows.append((row["test"], f"study, {row['clients']}", rate, "", "", "", "", row["note"]))
    return Table(
        "As the DataStore study gives it: mean of the rounds",
        ("test", "clients", "1/s", "50 % within, s", "80 % within, s", "longest, s", "failed", "note"), tuple(rows),
        "The study's machine was a desktop of 2016 with a link of 10 MB/s: compare shapes.",
    )  # fmt: skip


def _mean(seen: Sequence[dict[str, Any]], name: str) -> float:
    return statistics.fmean(one[name] for one in seen)


def _times(seen: Sequence[dict[str, Any]]) -> tuple[str, str, str]:
    """Median and 80th percentile as means of the rounds, and the longest of all; empty if one had no answer."""
    if not all(one["percentiles_ms"] for one in seen):
        return "", "", ""
    half, most = (statistics.fmean(one["percentiles_ms"][p] for one in seen) for p in ("50", "80"))
    return seconds(half), seconds(most), seconds(max(one["percentiles_ms"]["100"] for one in seen))


def failed_of(seen: Sequence[dict[str, Any]]) -> str:
    """Part of the requests of all rounds that failed."""
    lost, asked = (sum(one[name] for one in seen) for name in ("failures", "requests"))
    return f"{100 * lost / asked:.2f} %" if lost else "0"


def ldes(data: dict[str, Any]) -> Iterator[Table]:
    rows = []
    for phase in data["phases"]:
        seen = phase.get("ldes")
        if seen is None:
            continue
        total = phase["operations"][TOTAL]
        for view in [*seen["fragmentation_rate"], *seen["views_not_full"]]:
            rate = seen["fragmentation_rate"].get(view)
            rows.append(
                (
                    view, f"{seen['members']:,}", f"{total['rate']:,.0f}", f"{rate:,.0f}" if rate else "not in time",
                    f"{seen['delete_view_s'].get(view, 0):.3f}", f"{seen['delete_stream_s']:.3f}", failed(total),
                )
            )  # fmt: skip
    yield Table(
        "Ingest and fragmentation as the study counts them",
        ("view", "members", "ingest, 1/s", "fragmentation, 1/s", "delete view, s", "delete stream, s", "failed"),
        tuple(rows),
    )
    published = tuple(
        (r["test"], r["members"], r["ingest_members_per_s"], r["fragmentation_members_per_s"])
        for r in studies.rows("ldes")
    )
    yield Table("The LDES study's own figures", ("test", "members", "ingest, 1/s", "fragmentation, 1/s"), published)
