"""``thalweg audit``: who changed what, when and from where."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import click

from thalweg.cli.options import table, with_settings
from thalweg.domain.access import AuditEntry, AuditQuery
from thalweg.domain.time import format_instant, parse_instant
from thalweg.settings import Settings

MAX_LINES = 100_000
_PAGE = 1000


@click.command()
@click.option("--since", metavar="TIME", help="From this time on (2026-05-01, 2026-05-01T12:00:00Z).")
@click.option("--until", metavar="TIME", help="Before this time.")
@click.option("--user", metavar="NAME", help="By this user.")
@click.option("--object", "what", metavar="TEXT", help="About what has this in its name.")
@click.option("--action", metavar="TEXT", help='Of actions that begin so, such as "delete" or "sign in failed".')
@click.option("--limit", type=click.IntRange(1, MAX_LINES), default=100, show_default=True, help="Newest lines.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@with_settings()
def audit(
    since: str | None,
    until: str | None,
    user: str | None,
    what: str | None,
    action: str | None,
    limit: int,
    as_json: bool,
    settings: Settings,
) -> None:
    """Show the audit log, newest line first.

    It has changes of metadata, corrections and deletions of observations, changes of accounts, tokens and roles, and
    sign-ins, each written in the transaction of what it tells of. Plain inserts are not in it. Lines are kept for
    audit_keep_days.
    """
    from thalweg import app

    query = AuditQuery(
        since_us=None if since is None else parse_instant(since, "since")[0],
        until_us=None if until is None else parse_instant(until, "until")[0],
        user=user,
        object=what,
        action=action,
    )
    store = app.open_existing(settings)
    found: list[AuditEntry] = []
    try:
        while len(found) < limit:
            page = store.audit(replace(query, limit=min(_PAGE, limit - len(found))))
            found += page
            if len(page) < _PAGE:
                break
            query = replace(query, before=(page[-1].at_us, page[-1].number))
    finally:
        store.close()
    if as_json:
        for entry in found:
            click.echo(json.dumps({"time": format_instant(entry.at_us), **asdict(entry)}, ensure_ascii=False))
        return
    rows = [
        (
            format_instant(entry.at_us // 1_000_000 * 1_000_000),
            entry.actor.name or "-",
            entry.actor.address or "-",
            " ".join(filter(None, (entry.actor.door, entry.actor.operation))) or "-",
            entry.action,
            entry.object,
            entry.detail,
        )
        for entry in found
    ]
    table(("time", "user", "from", "by", "action", "object", "detail"), rows)
