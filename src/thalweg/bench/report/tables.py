"""The tables of a report, by the form of its load."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from thalweg.bench import profiles, stats
from thalweg.bench.report.of_studies import ckan, is_of, ldes, wfs
from thalweg.bench.report.table import Table, failed, milliseconds, percent, size
from thalweg.bench.report.users import mix
from thalweg.bench.samples import TOTAL


def tables(data: dict[str, Any]) -> Iterator[Table]:
    """All tables of a run or comparison."""
    if data.get("kind") == "comparison":
        yield from _comparison(data)
        return
    form = data.get("load", {}).get("form")
    if form == "Mix":
        yield from mix(data)
    elif form == "Handler":
        yield _stream(data) if data["study"] == "ldes" else _handler(data)
    elif form in ("Closed", "Open", "Count"):
        yield from _plain(data, form)
    yield from _cost(data)


def _plain(data: dict[str, Any], form: str) -> Iterator[Table]:
    rows = []
    for phase in data["phases"]:
        total = phase["operations"].get(TOTAL)
        if total is None:
            continue
        p = total["percentiles_ms"]
        amount = f"{phase['rate']:g}/s" if form == "Open" else f"{phase.get('connections', '')}"
        rows.append(
            (
                f"{phase.get('case', phase['label'])}", str(phase.get("side", "")), amount,
                f"{phase.get('round', 0) + 1}", f"{total['rate']:,.1f}", milliseconds(p.get("50")),
                milliseconds(p.get("99")), milliseconds(p.get("100")), size(total["bytes_mean"]), failed(total),
            )
        )  # fmt: skip
    asked = "due" if form == "Open" else "connections"
    yield Table(
        "Phases", ("request", "side", asked, "round", "1/s", "p50, ms", "p99, ms", "max, ms", "answer", "failed"),
        tuple(rows),
    )  # fmt: skip
    shares = _shares(data)
    if shares:
        yield Table(
            "Share of nginx serving the same bytes, median of the rounds",
            ("request", "connections", "here, 1/s", "nginx, 1/s", "share", "spread", "bar", "stretch", "failed"),
            tuple(shares),
        )
    beside = _ratios(data)
    if beside:
        yield Table(
            "Rate to that of the request beside, median of the rounds",
            ("request", "beside", "connections", "ratio", "spread", "bar", "stretch"), tuple(beside),
        )  # fmt: skip
    if data["profile"] in ("wfs-study", "wfs-limit"):
        yield wfs(data)
    if data["study"] == "ckan":
        yield ckan(data)
    if data["study"] == "ldes":
        yield from ldes(data)


def _shares(data: dict[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    keys = dict.fromkeys((p["case"], p["connections"]) for p in data["phases"] if p.get("side") == "nginx")
    for case, connections in keys:
        here = {p["round"]: p for p in data["phases"] if is_of(p, case, connections, "target")}
        limit = {p["round"]: p for p in data["phases"] if is_of(p, case, connections, "nginx")}
        both = [(here[n]["operations"][TOTAL], limit[n]["operations"][TOTAL]) for n in here if n in limit]
        if not both:
            continue
        ratios = [a["rate"] / b["rate"] for a, b in both]
        bar, stretch = bar_of(data, connections)
        lost = sum(a["failures"] for a, _ in both)
        rows.append(
            (
                str(case), f"{connections}", f"{statistics.median(a['rate'] for a, _ in both):,.0f}",
                f"{statistics.median(b['rate'] for _, b in both):,.0f}", f"{percent(statistics.median(ratios))} %",
                f"{percent(min(ratios))}-{percent(max(ratios))} %", bar, stretch, f"{lost}" if lost else "0",
            )
        )  # fmt: skip
    return rows


def _ratios(data: dict[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    pairs = dict.fromkeys((p["case"], p["base"]) for p in data["phases"] if p.get("base"))
    for case, base in pairs:
        for connections, values in stats.ratios(data["phases"], case, base).items():
            bar, stretch = bar_of(data, connections, "ratio")
            rows.append(
                (
                    case, base, f"{connections}", f"{statistics.median(values):.2f}",
                    f"{min(values):.2f}-{max(values):.2f}", bar, stretch,
                )
            )  # fmt: skip
    return rows


def bar_of(data: dict[str, Any], connections: int, wanted: str = "share of nginx") -> tuple[str, str]:
    network = data.get("data", {}).get("network", "")
    for profile, of, loads, quantity, bar, stretch in profiles.FIGURES_TO_REACH:
        fits = profile == data["profile"] and of in ("", network) and str(connections) in loads.split(", ")
        if fits and quantity == wanted:
            return (f"{bar:g}", f"{stretch:g}") if wanted == "ratio" else (f"{100 * bar:g} %", f"{100 * stretch:g} %")
    return "", ""


def _handler(data: dict[str, Any]) -> Table:
    rows = tuple(
        (
            str(s.get("case", data["profile"])),
            f"{s['requests']:,}",
            *(f"{s[name]:.0f}" for name in ("p50_us", "p99_us", "mean_us", "bytes_mean")),
        )
        for s in (phase["handler"] for phase in data["phases"])
    )
    return Table("The door's own time, µs", ("request", "requests", "p50", "p99", "mean", "bytes"), rows)


def _stream(data: dict[str, Any]) -> Table:
    rows: list[tuple[str, ...]] = []
    for seen in (phase["stream"] for phase in data["phases"]):
        rows.append(("members", f"{seen['members']:,}"))
        rows.append(("bulk load, members/s", f"{seen['load_rate']:,.0f}"))
        rows.append(("processor time of it, µs a member", f"{seen['load_cpu_us']:.0f}"))
        rows += [(f"filling '{view}', members/s", f"{rate:,.0f}") for view, rate in seen["fill_rate"].items()]
        rows += [(f"pages as {kind}, members/s", f"{rate:,.0f}") for kind, rate in seen["node_rate"].items()]
        rows.append(("disk, bytes per member", f"{seen['bytes_per_member']:,.0f}"))
        rows += [(f"deleting '{view}', s", f"{taken:.2f}") for view, taken in seen["delete_view_s"].items()]
        rows.append(("deleting the stream, s", f"{seen['delete_stream_s']:.2f}"))
        rows.append(("memory, MB", f"{seen['memory_bytes'] / 1e6:,.0f}"))
    return Table("An event stream inside one process", ("what", "figure"), tuple(rows))


def _cost(data: dict[str, Any]) -> Iterator[Table]:
    """Processor, memory and disk of server and generator, phase by phase."""
    rows = []
    for phase in data["phases"]:
        watch = phase.get("watch")
        if not watch or not watch["mean"]:
            continue
        mean, most = watch["mean"], watch["max"]
        rows.append(
            (
                f"{phase['label']}" + (f", round {phase['round'] + 1}" if "round" in phase else "")
                + (f", {phase['side']}" if "side" in phase else ""),
                f"{mean['server_cpu']:.0f} %" if "server_cpu" in mean else "",
                f"{mean['generator_cpu']:.0f} %", f"{mean['machine_cpu']:.0f} %",
                size(most["server_memory"]) if "server_memory" in most else "",
                size(most["server_memory_largest"]) if "server_memory_largest" in most else "",
                size(mean.get("disk_read", 0)) + "/s", size(mean.get("disk_written", 0)) + "/s",
                size(mean.get("net_sent", 0)) + "/s",
            )
        )  # fmt: skip
    if rows:
        yield Table(
            "What it cost",
            (
                "phase", "server CPU", "generator CPU", "machine CPU", "server memory, most", "largest process",
                "disk read", "disk written", "network",
            ),
            tuple(rows),
            "CPU of server and generator in per cent of one core, of the machine in per cent of all; means. Memory of "
            "processes (RSS) counts pages they share for each.",
        )  # fmt: skip


def _ratio(one: dict[str, Any]) -> tuple[str, str]:
    if one["ratio"] is None:
        return "", ""
    return f"{one['ratio']:.3f}", f"{one['low']:.3f}-{one['high']:.3f}"


def _comparison(data: dict[str, Any]) -> Iterator[Table]:
    rows = []
    for found in data.get("comparison", []):
        for quantity, one in found["quantities"].items():
            rows.append(
                (
                    found["case"], f"{found['load']:g}", quantity, *_ratio(one), one["verdict"], f"{found['failures']}",
                )
            )  # fmt: skip
    yield Table(
        f"change ({data['change']}) : base ({data['base']}), median of {data['rounds']} rounds",
        ("request", "load", "quantity", "ratio", "spread", "verdict", "failed"), tuple(rows),
        "Above 1 a rate has risen, a time has grown. A verdict is given only if all rounds agree; never with failures.",
    )  # fmt: skip
    # The studies' tables are of one server.
    yield from _plain(data | {"study": "", "profile": ""}, "Open" if data["load"]["form"] == "Open" else "Closed")
    yield from _cost(data)
