"""``thalweg bench``: fill a network, measure, write the figures down."""

from __future__ import annotations

import json
import os
import platform
import secrets
import shutil
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

PROFILES = {
    "sos-day": "GetObservation of a random day of a random procedure, beside nginx serving the same bytes",
    "sos-handler": "the SOS door's own time for that request, without HTTP",
    "sos-insert": "durable InsertObservation on an empty store and on the filled one",
}


@click.group()
def bench() -> None:
    """Measure this server on made networks of the SOS performance study."""


@bench.command("list")
def list_profiles() -> None:
    """List networks and profiles."""
    from thalweg.bench.networks import NETWORKS

    for network in NETWORKS.values():
        click.echo(
            f"network {network.name}  {network.procedures} procedures x {network.properties} properties, "
            f"{network.rows} rows each, {network.values / 1e6:,.1f} M values"
        )
    for name, text in PROFILES.items():
        click.echo(f"profile {name:12} {text}")


def _folder_store(folder: Path, network: str, scale: float) -> Path:
    return folder / f"{network.lower()}-{scale:g}.sqlite"


@bench.command()
@click.argument("network", type=click.Choice(["A", "B", "C"], case_sensitive=False))
@click.option("--scale", default=1.0, show_default=True, help="Part of the history that is made, 1 for all.")
@click.option("--folder", type=click.Path(path_type=Path), default=Path("thalweg-bench"), show_default=True)
def fill(network: str, scale: float, folder: Path) -> None:
    """Load NETWORK (A, B or C) into a store of its own through the bulk path."""
    from thalweg import app
    from thalweg.bench.networks import NETWORKS
    from thalweg.bench.sos import fill as fill_network
    from thalweg.cli.progress import progress

    chosen = NETWORKS[network.upper()].scaled(scale)
    path = _folder_store(folder, network, scale)
    folder.mkdir(parents=True, exist_ok=True)
    store = app.open_store(f"sqlite:///{path}")
    start = time.perf_counter()
    try:
        with progress(f"network {chosen.name}", total=chosen.values, unit="values") as advance:
            values = fill_network(store, chosen, advance)
        seconds = time.perf_counter() - start
    finally:
        store.close()
    # Closed, the store is one file: nothing waits in its log.
    size = path.stat().st_size
    click.echo(
        f"{path}: {values:,} values in {seconds:.1f} s ({values / seconds / 1e6:.1f} M/s), "
        f"{size / 1e6:.1f} MB, {size / max(values, 1):.3f} bytes per value"
    )


@bench.command()
@click.argument("profile", type=click.Choice(sorted(PROFILES)))
@click.option("--network", type=click.Choice(["A", "B", "C"], case_sensitive=False), default="A", show_default=True)
@click.option("--scale", default=1.0, show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), default=Path("thalweg-bench"), show_default=True)
@click.option("--connections", default="16,64", show_default=True)
@click.option("--seconds", default=4, show_default=True, help="Length of one run.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--workers", default=2, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Write the figures to this JSON file too.")
def run(
    profile: str, network: str, scale: float, folder: Path, connections: str, seconds: int, rounds: int, workers: int,
    out: Path | None,
) -> None:  # fmt: skip
    """Run PROFILE on a network made by ``thalweg bench fill``."""
    from thalweg.bench import sos
    from thalweg.bench.networks import NETWORKS

    chosen = NETWORKS[network.upper()].scaled(scale)
    store = _folder_store(folder, network, scale)
    if not store.exists():
        raise click.ClickException(f"{store} is not there; run: thalweg bench fill {network} --scale {scale:g}")
    counts = tuple(int(c) for c in connections.split(","))
    result: dict[str, Any]
    if profile == "sos-day":
        result = sos.measure_day(store, chosen, counts, seconds, rounds, workers)
        click.echo(f"{result['bytes']} bytes an answer")
        for row in result["rows"]:
            runs = [pair["thalweg"] for pair in row["runs"]]
            by_share = sorted(row["runs"], key=lambda pair: pair["thalweg"]["rate"] / pair["nginx"]["rate"])
            ours, limit = by_share[len(runs) // 2]["thalweg"], by_share[len(runs) // 2]["nginx"]
            click.echo(
                f"c={row['connections']:3}  share of nginx {row['share_of_nginx']:.3f} "
                f"({min(row['shares']):.3f}-{max(row['shares']):.3f})  "
                f"{ours['rate']:,.0f}/s of {limit['rate']:,.0f}/s  "
                f"p50 {ours['p50_ms']:.2f} p99 {ours['p99_ms']:.2f} ms"
                + ("  FAILURES" if any(run["bad_status"] or run["socket_errors"] for run in runs) else "")
            )
    elif profile == "sos-handler":
        result = sos.measure_handler(store, chosen)
        click.echo(
            f"handler p50 {result['p50_us']:.0f} us, p99 {result['p99_us']:.0f} us; in turns of {sos.TURN} "
            f"p50 {result['together_p50_us']:.0f} us, p99 {result['together_p99_us']:.0f} us; "
            f"{result['mean_bytes']:.0f} bytes"
        )
    else:
        result = _insert(store, chosen, folder, counts, seconds, rounds, workers)
        for name, loads in result["stores"].items():
            for load in loads:
                click.echo(
                    f"{name:5} round {load['round']} c={load['connections']:3}  {load['rate']:,.0f}/s  "
                    f"p50 {load['p50_ms']:.2f} p99 {load['p99_ms']:.2f} max {load['max_ms']:.1f} ms"
                    + ("  FAILURES" if load["bad_status"] or load["socket_errors"] else "")
                )
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(_context(profile, store) | result, indent=1) + "\n")


def _insert(
    store: Path, network: Any, folder: Path, counts: tuple[int, ...], seconds: int, rounds: int, workers: int
) -> dict[str, Any]:
    """Make an empty store with the same procedures, give both a writer's account, and measure alternately."""
    from thalweg import app
    from thalweg.bench import sos
    from thalweg.bench.networks import registration
    from thalweg.domain.access import Role
    from thalweg.domain.catalogue import DEFAULT_WORKSPACE
    from thalweg.settings import Settings

    password = secrets.token_urlsafe(16)
    empty = folder / f"empty-{secrets.token_hex(4)}.sqlite"
    begin_us = network.end_us
    for path in (empty, store):
        application = app.build(Settings(store=f"sqlite:///{path}"))
        try:
            if path is empty:
                workspace_id = application.store.workspaces()[DEFAULT_WORKSPACE].id
                for index in range(network.procedures):
                    application.store.register_procedure(workspace_id, registration(network, index)).result()
            workspace_id = application.store.workspaces()[DEFAULT_WORKSPACE].id
            for extent in application.store.extents(workspace_id).values():
                begin_us = max(begin_us, extent.end_us or begin_us)
            application.services.access.set_password(sos.USER, password, role=Role.DATA_MANAGER)
        finally:
            application.close()
    try:
        return sos.measure_insert(
            {"empty": empty, "full": store}, network, password, begin_us, counts, seconds, rounds, workers
        )
    finally:
        for leftover in folder.glob(f"{empty.name}*"):
            leftover.unlink()


def _context(profile: str, store: Path) -> dict[str, Any]:
    """What a reader needs to trust the figures."""
    import thalweg

    commit = ""
    git = shutil.which("git")
    if git is not None:
        commit = subprocess.run(
            [git, "rev-parse", "--short", "HEAD"],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parent,
        ).stdout.strip()
    return {
        "profile": profile, "at": datetime.now(UTC).isoformat(timespec="seconds"), "thalweg": thalweg.__version__,
        "commit": commit, "python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count(),
        "store_bytes": store.stat().st_size,
    }  # fmt: skip
