"""Commands on the store as a whole: check, backup, restore, info."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from thalweg.cli.options import with_settings
from thalweg.domain.errors import AlreadyExists, DamagedData
from thalweg.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from thalweg.domain.store import Finding


def _tell(findings: Iterable[Finding]) -> int:
    """Write each finding as it comes; how many there were."""
    count = 0
    for finding in findings:
        count += 1
        click.echo(f"{finding.place}: {finding.problem}")
    return count


def _count(findings: int) -> str:
    return f"{findings:,} finding{'s' * (findings != 1)}"


@click.command()
@with_settings()
def check(settings: Settings) -> None:
    """Verify every part of the store: the file, each chunk, the maintained counts.

    May run while the server does. Ends with 0 if nothing is wrong, 1 if there are findings, which are listed.
    """
    from thalweg import app

    store = app.open_existing(settings)
    started = time.monotonic()
    try:
        click.echo(f"Checking {settings.store}", err=True)
        findings = _tell(store.check())
    finally:
        store.close()
    seconds = time.monotonic() - started
    outcome = _count(findings) if findings else "Nothing is wrong"
    click.echo(f"{outcome} ({seconds:.1f} s)", err=True)
    sys.exit(1 if findings else 0)


@click.command()
@click.argument("target", type=click.Path())
@with_settings()
def backup(target: str, settings: Settings) -> None:
    """Write a consistent copy of the store to the new file TARGET, while others read and write.

    Uploaded files go to the folder TARGET.files, which belongs to it. The copy is checked as "thalweg check" does. Ends
    with 0 if nothing is wrong, 1 if there are findings, which are listed; the copy is kept, and "thalweg restore
    --accept-damage" takes it.
    """
    from thalweg import app

    store = app.open_existing(settings)
    started = time.monotonic()
    try:
        store.backup(target)
    finally:
        store.close()
    size = os.path.getsize(target)
    click.echo(f"{target}: {size:,} bytes in {time.monotonic() - started:.1f} s")
    findings = _tell(app.check_copy(target))
    if findings:
        click.echo(f"{_count(findings)} in the copy, which is kept; see also: thalweg check", err=True)
        sys.exit(1)
    click.echo(f"The copy was checked: nothing is wrong with it ({time.monotonic() - started:.1f} s)", err=True)


@click.command()
@click.argument("source", type=click.Path())
@click.option("--force", is_flag=True, help="Replace a store that is there; its content is lost.")
@click.option(
    "--accept-damage", is_flag=True,
    help="Take a back-up of which parts are damaged: they are refused when asked for, all else is served.",
)  # fmt: skip
@with_settings()
def restore(source: str, force: bool, accept_damage: bool, settings: Settings) -> None:
    """Put the back-up SOURCE in the place of the store, if nothing is wrong with it. Stop the server before."""
    from thalweg import app

    try:
        findings = app.restore(source, settings, force=force, accept_damage=accept_damage)
    except AlreadyExists:
        raise AlreadyExists("store", f"There is a store at {settings.store}; --force replaces it.") from None
    except DamagedData as error:
        if error.parameter != "accept_damage":
            raise
        raise DamagedData(f"{error.message} --accept-damage restores it all the same.") from None
    if _tell(findings):
        click.echo(f"{_count(len(findings))} in what was restored; what they name is refused.", err=True)
    click.echo(f"{settings.store} holds what {source} holds.")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@with_settings()
def info(as_json: bool, settings: Settings) -> None:
    """Show what the store holds and how large it is."""
    from thalweg import app

    store = app.open_existing(settings)
    try:
        found = store.info()
    except DamagedData as error:
        raise DamagedData(f"{error.message} All that is damaged is listed by: thalweg check") from None
    finally:
        store.close()
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2))
        return
    per_value = f" ({found.size_bytes / found.values:,.3f} per value)" if found.values else ""
    lines = [
        ("store", found.url),
        ("epoch", found.epoch),
        ("format", str(found.format_version)),
        ("bytes", f"{found.size_bytes:,}{per_value}"),
        ("workspaces", f"{found.workspaces:,}"),
        ("procedures", f"{found.procedures:,}"),
        ("layers", f"{found.layers:,}"),
        ("features", f"{found.features:,}"),
        ("tracks", f"{found.tracks:,}"),
        ("rows", f"{found.rows:,}"),
        ("values", f"{found.values:,}"),
        ("chunks", f"{found.chunks:,}"),
        ("rows in the tail", f"{found.tail_rows:,}"),
        ("event streams", f"{found.event_streams:,}"),
        ("members", f"{found.members:,}"),
        ("views", f"{found.views:,}"),
        ("packages", f"{found.packages:,}"),
        ("tables", f"{found.tables:,}"),
        ("records", f"{found.records:,}"),
    ]
    lines += [(f"bytes of {part}", f"{size:,}") for part, size in sorted(found.bytes_per_part.items())]
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        click.echo(f"{name:{width}}  {value}")
