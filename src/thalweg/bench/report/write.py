"""A report of one or more runs: Markdown, and one HTML page that needs nothing beside itself."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any, Final

from thalweg.bench import studies
from thalweg.bench.report.plot import plot
from thalweg.bench.report.table import Table
from thalweg.bench.report.tables import tables
from thalweg.bench.report.users import overview
from thalweg.bench.samples import TOTAL

ANSWERS_EACH: Final = 2
"""Answers a connection that a load without pause must have brought: of the last of each, wrk does not know the time."""

_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;color:#1d1d1f;max-width:72rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:.5rem 0 1.5rem;font-size:13px;display:block;overflow-x:auto}
caption{text-align:left;font-weight:600;padding:.3rem 0}
th,td{border-bottom:1px solid #ddd;padding:.2rem .6rem;text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left}
tr:hover td{background:#f4f7fa}
.partial{background:#fff2d6;border-left:4px solid #c98a00;padding:.6rem 1rem}
svg{max-width:40rem;height:auto;display:block;margin:1rem 0;border:1px solid #eee}
.note{color:#555;font-size:13px;margin-top:-1rem}
dl{display:grid;grid-template-columns:max-content auto;gap:.1rem 1rem;font-size:13px}
dt{color:#555}dd{margin:0;overflow-wrap:anywhere}
"""


def markdown(runs: list[dict[str, Any]]) -> str:
    """All runs, one after another."""
    lines: list[str] = []
    for table in overview(runs):
        lines += _lines(table)
    for data in runs:
        lines += [f"# {heading(data)}", ""]
        lines += [f"**{warning}**" for warning in warnings(data)] + [""]
        lines += [f"* {name}: {value}" for name, value in facts(data)] + [""]
        for table in tables(data):
            lines += _lines(table)
    return "\n".join(lines).rstrip() + "\n"


def _lines(table: Table) -> list[str]:
    return [
        f"## {table.caption}", "",
        "| " + " | ".join(_cell(text) for text in table.head) + " |",
        "|---|" + "---:|" * (len(table.head) - 1),
        *("| " + " | ".join(_cell(text) for text in row) + " |" for row in table.rows),
        "", *([table.note, ""] if table.note else []),
    ]  # fmt: skip


def heading(data: dict[str, Any]) -> str:
    """What was run, on which network, and at whom if not at Thalweg."""
    network = data.get("data", {}).get("network", "")
    target = data.get("target") or {}
    at = "" if target.get("is_thalweg", True) else f", {target.get('name', '')}"
    return f"{data['profile']}{f', network {network}' if network else ''}{at}: {data['title']}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def html(runs: list[dict[str, Any]]) -> str:
    """The same as a page with plots."""
    parts = [
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1"><title>Measurements</title>',
        f"<style>{_STYLE}</style></head><body>",
    ]
    parts += [_html(table) for table in overview(runs)]
    for data in runs:
        parts.append(f"<h1>{escape(heading(data))}</h1>")
        parts += [f'<p class="partial">{escape(warning)}</p>' for warning in warnings(data)]
        parts.append("<dl>" + "".join(f"<dt>{escape(n)}</dt><dd>{escape(v)}</dd>" for n, v in facts(data)) + "</dl>")
        parts += plots(data)
        parts += [_html(table) for table in tables(data)]
    return "\n".join([*parts, "</body></html>\n"])


def _html(table: Table) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in table.head)
    rows = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in table.rows)
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return (
        f"<table><caption>{escape(table.caption)}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        + note
    )


def warnings(data: dict[str, Any]) -> list[str]:
    """What a reader must know before any figure."""
    found = []
    if data["status"] != "complete":
        found.append(f"PARTIAL: {data['reason'] or 'the run did not end'} Figures are those measured until then.")
    failed = sum(p.get("operations", {}).get(TOTAL, {}).get("failures", 0) for p in data["phases"])
    if failed:
        reasons: dict[str, int] = {}
        for phase in data["phases"]:
            for reason, count in phase.get("operations", {}).get(TOTAL, {}).get("errors", {}).items():
                reasons[reason] = reasons.get(reason, 0) + count
        most = sorted(reasons.items(), key=lambda item: -item[1])[:5]
        found.append(f"{failed:,} requests failed: " + "; ".join(f"{reason} ({count:,})" for reason, count in most))
    short = [phase["label"] for phase in data["phases"] if is_short(phase)]
    if short:
        found.append(
            f"{len(short)} phases were too short for so slow a server: fewer than {ANSWERS_EACH} answers a connection, "
            f"and what was under way at their end is in no figure. Take more --seconds: {'; '.join(short[:5])}"
        )
    return found


def is_short(phase: dict[str, Any]) -> bool:
    """Whether a load without pause brought so few answers that its times are cut at the phase's end."""
    total = phase.get("operations", {}).get(TOTAL)
    if not total or phase.get("driver") != "wrk":
        return False
    return bool(total["requests"] - total["failures"] < ANSWERS_EACH * phase["connections"])


def facts(data: dict[str, Any]) -> list[tuple[str, str]]:
    """What is needed to judge and to repeat a run."""
    context = data.get("context", {})
    machine = context.get("machine", {})
    found = [
        ("command", context.get("command", "")),
        ("at", context.get("at", "")),
        ("commit", context.get("commit") or "unknown"),
        (
            "machine",
            f"{machine.get('processor', '')}, {machine.get('cores', '')} cores, "
            f"{machine.get('memory_bytes', 0) / 1e9:.0f} GB, {machine.get('system', '')}; "
            f"load before {machine.get('load_before', '')}",
        ),
        ("versions", ", ".join(f"{name} {version}" for name, version in context.get("versions", {}).items())),
    ]
    for name in sorted({"base", "change"} & data.keys()):
        found += [(name, f"{data[name]}: {_target(data.get('targets', {}).get(name, {}))}")]
    if data.get("target"):
        found.append(("target", _target(data["target"])))
    found += [("data", _shown(data.get("data", {}))), ("load", _shown(data.get("load", {})))]
    for check in data.get("checks", []):
        found.append(("answers compared", _shown(check)))
    return found


def _target(target: dict[str, Any]) -> str:
    """Who was measured, and how it was set where that is known."""
    more = {k: v for k, v in target.items() if k not in ("name", "is_thalweg") and v not in ("", {}, None)}
    return f"{target.get('name', '')}{', ' if more else ''}{_shown(more) if more else ''}"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_shown(one)}" for name, one in value.items())
    if isinstance(value, list):
        return " ".join(_shown(one) for one in value) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 9999 else str(value)


# ---------------------------------------------------------------- plots


def plots(data: dict[str, Any]) -> Iterator[str]:
    """Plots as SVG elements."""
    if data.get("load", {}).get("form") == "Mix" and data["phases"]:
        yield from _users_plots(data)
    rates = _rate_series(data)
    if rates:
        yield plot("Requests a second", rates, x_label="connections", y_label="1/s", log_x=True)
    longest = max(
        (phase for phase in data["phases"] if phase.get("watch", {}).get("seconds")),
        key=lambda phase: len(phase["watch"]["seconds"]), default=None,
    )  # fmt: skip
    if longest is not None and len(longest["watch"]["seconds"]) > 2:
        yield from _watch_plots(longest)


def _users_plots(data: dict[str, Any]) -> Iterator[str]:
    names = [n for n in ("IO", "GC", "DS", "GO") if any(n in phase["operations"] for phase in data["phases"])]
    means = {
        name: [
            (phase["users"], phase["operations"][name]["mean_ms"] / 1000)
            for phase in data["phases"]
            if phase["operations"].get(name, {}).get("mean_ms")
        ]
        for name in names
    }
    case = studies.sos_case(str(data.get("data", {}).get("network", "")), "GC" in data["load"]["weights"])
    if case:
        # The study prints medians, not means, for all users; they are near enough for an axis of decades.
        for server in studies.SERVERS:
            table = studies.sos_percentiles(case, "GO")
            means[f"study, GO median, {server}"] = [(users, p[50]) for (s, users), p in table.items() if s == server]
    yield plot("Mean response time over users", means, x_label="users", y_label="seconds", log_x=True, log_y=True)
    totals = {
        "here": [(p["users"], p["operations"][TOTAL]["rate"]) for p in data["phases"] if TOTAL in p["operations"]]
    }
    for server in studies.SERVERS:
        totals[f"study, {server}"] = [
            (users, rate)
            for (s, users, name), (rate, _) in studies.sos_rates(case).items()
            if s == server and name == TOTAL and rate is not None
        ]
    yield plot("Requests a second over users", totals, x_label="users", y_label="1/s", log_x=True, log_y=True)


def _rate_series(data: dict[str, Any]) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, dict[float, list[float]]] = {}
    for phase in data["phases"]:
        total = phase.get("operations", {}).get(TOTAL)
        if total and phase.get("connections") and phase.get("driver") in ("wrk", "own"):
            name = " ".join(
                filter(None, (str(phase.get("case", "")), str(phase.get("side", "")).replace("target", "")))
            )
            found.setdefault(name, {}).setdefault(phase["connections"], []).append(total["rate"])
    series = {name: [(x, sum(ys) / len(ys)) for x, ys in sorted(points.items())] for name, points in found.items()}
    return series if any(len(points) > 1 for points in series.values()) else {}


def _watch_plots(phase: dict[str, Any]) -> Iterator[str]:
    watch = phase["watch"]
    for title, names, unit, scale in (
        ("Processor", ("server_cpu", "generator_cpu", "machine_cpu"), "%", 1.0),
        ("Memory", ("server_memory", "generator_memory"), "MB", 1e-6),
        ("Disk and network", ("disk_read", "disk_written", "net_sent"), "MB/s", 1e-6),
    ):
        series = {
            name.replace("_", " "): [
                (t, value * scale) for t, value in zip(watch["seconds"], watch["series"][name], strict=True)
            ]
            for name in names
            if name in watch["series"]
        }
        yield plot(f"{title}, {phase['label']}", series, x_label="seconds", y_label=unit)
