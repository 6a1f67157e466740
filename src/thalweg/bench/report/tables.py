"""The tables of a report, in the studies' form, the studies' own figures beside ours."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from thalweg.bench import profiles, stats, studies
from thalweg.bench.samples import TOTAL
from thalweg.bench.stats import PERCENTILES


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its caption; the first column is words, the others figures."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


_ORDER: Final = ("IO", "GC", "DS", "GO", "RS", TOTAL)
"""The study's order of operations."""


def tables(data: dict[str, Any]) -> Iterator[Table]:
    """All tables of a run or comparison."""
    if data.get("kind") == "comparison":
        yield from _comparison(data)
        return
    form = data.get("load", {}).get("form")
    if form == "Mix":
        yield from _mix(data)
    elif form == "Handler":
        yield _stream(data) if data["study"] == "ldes" else _handler(data)
    elif form in ("Closed", "Open", "Count"):
        yield from _plain(data, form)
    yield from _cost(data)


def seconds(milliseconds: float | None) -> str:
    """A time as the study writes it; smaller ones with the digits they need."""
    if milliseconds is None:
        return ""
    value = milliseconds / 1000
    return f"{value:.2f}" if value >= 0.095 else f"{value:.4f}"


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}"


def _sizes(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:,.0f} B"


# ---------------------------------------------------------------- users with think time


def _operations(data: dict[str, Any]) -> list[str]:
    found = {name for phase in data["phases"] for name in phase["operations"]}
    return [name for name in _ORDER if name in found]


def _case(data: dict[str, Any]) -> str:
    network = str(data.get("data", {}).get("network", ""))
    return studies.sos_case(network, "GC" in data["load"]["weights"])


def _mix(data: dict[str, Any]) -> Iterator[Table]:
    case, names = _case(data), _operations(data)
    published = studies.sos_rates(case)
    rows = []
    for phase in data["phases"]:
        for name in names:
            seen = phase["operations"].get(name)
            cells = [f"{phase['users']}", name]
            cells += ["", ""] if seen is None else [f"{seen['rate']:.2f}", _failures(seen)]
            for server in studies.SERVERS:
                rate, failed = published.get((server, phase["users"], name), (None, 0.0))
                cells += ["" if rate is None else f"{rate:.2f}", f"{failed:g} %" if failed else ""]
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


def _failures(seen: dict[str, Any]) -> str:
    return f"{seen['failure_percent']:.2f} %" if seen["failures"] else "0"


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
                rows.append((f"{phase['users']}", name, *times, f"{seen['requests']:,}", _sizes(seen["bytes_mean"])))
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


# ---------------------------------------------------------------- loads without think time


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
                f"{phase.get('round', 0) + 1}", f"{total['rate']:,.1f}", _ms(p.get("50")), _ms(p.get("99")),
                _ms(p.get("100")), _sizes(total["bytes_mean"]), _failures(total),
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
        yield _wfs(data)
    if data["study"] == "ckan":
        yield _ckan()
    if data["study"] == "ldes":
        yield from _ldes(data)


def _shares(data: dict[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    keys = dict.fromkeys((p["case"], p["connections"]) for p in data["phases"] if p.get("side") == "nginx")
    for case, connections in keys:
        here = {p["round"]: p for p in data["phases"] if _is(p, case, connections, "target")}
        limit = {p["round"]: p for p in data["phases"] if _is(p, case, connections, "nginx")}
        both = [(here[n]["operations"][TOTAL], limit[n]["operations"][TOTAL]) for n in here if n in limit]
        if not both:
            continue
        ratios = [a["rate"] / b["rate"] for a, b in both]
        bar, stretch = _bar(data, connections)
        failed = sum(a["failures"] for a, _ in both)
        rows.append(
            (
                str(case), f"{connections}", f"{statistics.median(a['rate'] for a, _ in both):,.0f}",
                f"{statistics.median(b['rate'] for _, b in both):,.0f}", f"{100 * statistics.median(ratios):.1f} %",
                f"{100 * min(ratios):.1f}-{100 * max(ratios):.1f} %", bar, stretch, f"{failed}" if failed else "0",
            )
        )  # fmt: skip
    return rows


def _ratios(data: dict[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    pairs = dict.fromkeys((p["case"], p["base"]) for p in data["phases"] if p.get("base"))
    for case, base in pairs:
        for connections, values in stats.ratios(data["phases"], case, base).items():
            bar, stretch = _bar(data, connections, "ratio")
            rows.append(
                (
                    case, base, f"{connections}", f"{statistics.median(values):.2f}",
                    f"{min(values):.2f}-{max(values):.2f}", bar, stretch,
                )
            )  # fmt: skip
    return rows


def _is(phase: dict[str, Any], case: str, connections: int, side: str) -> bool:
    return (phase.get("case"), phase.get("connections"), phase.get("side")) == (case, connections, side)


def _bar(data: dict[str, Any], connections: int, wanted: str = "share of nginx") -> tuple[str, str]:
    network = data.get("data", {}).get("network", "")
    for profile, of, loads, quantity, bar, stretch in profiles.FIGURES_TO_REACH:
        fits = profile == data["profile"] and of in ("", network) and str(connections) in loads.split(", ")
        if fits and quantity == wanted:
            return (f"{bar:g}", f"{stretch:g}") if wanted == "ratio" else (f"{100 * bar:g} %", f"{100 * stretch:g} %")
    return "", ""


def _wfs(data: dict[str, Any]) -> Table:
    published = {(r["layer"], r["format"], int(r["parallel"])): r for r in studies.rows("wfs")}
    rows = []
    keys = dict.fromkeys((p["case"], p["connections"]) for p in data["phases"] if p.get("side") == "target")
    for case, connections in keys:
        mine = [p["operations"][TOTAL] for p in data["phases"] if _is(p, case, connections, "target")]
        layer, form = case.rsplit(" ", 1)
        theirs = published.get((layer, form, connections), {})
        rows.append(
            (
                layer, form, f"{connections}", f"{statistics.fmean(o['rate'] for o in mine):,.1f}",
                _ms(statistics.fmean(o["mean_ms"] for o in mine)), f"{mine[0]['bytes_mean'] / 1000:,.0f}",
                f"{sum(o['failures'] for o in mine)}", theirs.get("requests_per_s", ""), theirs.get("response_ms", ""),
                theirs.get("size_kb", ""),
            )
        )  # fmt: skip
    return Table(
        "As the WFS study gives it: mean of the rounds",
        ("layer", "format", "parallel", "here, 1/s", "ms", "KB", "failed", "study, 1/s", "ms", "KB"), tuple(rows),
    )  # fmt: skip


def _ckan() -> Table:
    rows = tuple((r["test"], r["clients"], r["requests_per_s"], r["note"]) for r in studies.rows("ckan"))
    return Table("The DataStore study's own figures", ("test", "clients", "1/s", "note"), rows)


def _ldes(data: dict[str, Any]) -> Iterator[Table]:
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
                    f"{seen['delete_view_s'].get(view, 0):.3f}", f"{seen['delete_stream_s']:.3f}", _failures(total),
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


# ---------------------------------------------------------------- both


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
                _sizes(most["server_memory"]) if "server_memory" in most else "",
                _sizes(most["server_memory_largest"]) if "server_memory_largest" in most else "",
                _sizes(mean.get("disk_read", 0)) + "/s", _sizes(mean.get("disk_written", 0)) + "/s",
                _sizes(mean.get("net_sent", 0)) + "/s",
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


def _comparison(data: dict[str, Any]) -> Iterator[Table]:
    rows = []
    for found in data.get("comparison", []):
        for quantity, one in found["quantities"].items():
            rows.append(
                (
                    found["case"], f"{found['load']:g}", quantity, f"{one['ratio']:.3f}",
                    f"{one['low']:.3f}-{one['high']:.3f}", one["verdict"], f"{found['failures']}",
                )
            )  # fmt: skip
    yield Table(
        f"change ({data['change']}) : base ({data['base']}), median of {data['rounds']} rounds",
        ("request", "load", "quantity", "ratio", "spread", "verdict", "failed"), tuple(rows),
        "Above 1 a rate has risen, a time has grown. A verdict is given only if all rounds agree; never with failures.",
    )  # fmt: skip
    yield from _plain(data | {"study": ""}, "Open" if data["load"]["form"] == "Open" else "Closed")
    yield from _cost(data)
