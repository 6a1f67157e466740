"""Commands on accounts: users and their API tokens."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from thalweg.cli.options import with_settings
from thalweg.domain.access import ROLE_NAMES, Role
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.time import DAY_US, format_instant
from thalweg.settings import Settings, as_text

if TYPE_CHECKING:
    from thalweg.services.access import Access

_ROLES = click.Choice([name for name in ROLE_NAMES if name != "none"])


@contextmanager
def _access(settings: Settings) -> Iterator[Access]:
    from thalweg import app
    from thalweg.services.access import Access

    store = app.open_existing(settings)
    try:
        yield Access(store, settings)
    finally:
        store.close()


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _read_password() -> str:
    """From a prompt, twice, or from the first line of standard input; never from the command line, where other users
    of the machine see it."""
    if sys.stdin.isatty():
        answer: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
        return answer
    line = sys.stdin.readline(4096)
    if not line:
        raise InvalidParameter("password", "No password came on standard input.")
    return line.rstrip("\r\n")


@click.group()
def user() -> None:
    """List, add, change and remove users."""


@user.command("list")
@with_settings()
def list_users(settings: Settings) -> None:
    """List users with their roles."""
    with _access(settings) as access:
        rows = [
            (u.name, as_text(u.role), format_instant(u.created_us // 1_000_000 * 1_000_000)) for u in access.users()
        ]
    _table(("name", "role", "created"), rows)


@user.command("add")
@click.argument("name")
@click.option("--role", type=_ROLES, default="viewer", show_default=True)
@click.option("--generate", is_flag=True, help="Make a random password and show it.")
@with_settings()
def add_user(name: str, role: str, generate: bool, settings: Settings) -> None:
    """Add the user NAME. The password is asked for, or read from standard input."""
    from thalweg.auth.passwords import new_password

    password = new_password() if generate else _read_password()
    with _access(settings) as access:
        access.add_user(name, Role.named(role), password)
    click.echo(f"Added {name} as {role}." + (f" Password: {password}" if generate else ""))


@user.command("password")
@click.argument("name")
@click.option("--role", type=_ROLES, help="Give the user this role, too.")
@click.option("--generate", is_flag=True, help="Make a random password and show it.")
@with_settings()
def set_password(name: str, role: str | None, generate: bool, settings: Settings) -> None:
    """Set the password of the user NAME. It is asked for, or read from standard input."""
    from thalweg.auth.passwords import new_password

    with _access(settings) as access:
        if all(u.name != name for u in access.users()):
            raise InvalidParameter("name", f"There is no user '{name[:80]}'.")
        password = new_password() if generate else _read_password()
        access.set_password(name, password, role=None if role is None else Role.named(role))
    click.echo(f"Changed the password of {name}." + (f" Password: {password}" if generate else ""))


@user.command("role")
@click.argument("name")
@click.argument("role", type=_ROLES)
@with_settings()
def set_role(name: str, role: str, settings: Settings) -> None:
    """Give the user NAME another role. Password and tokens stay."""
    with _access(settings) as access:
        access.set_role(name, Role.named(role))
    click.echo(f"{name} is now {role}.")


@user.command("remove")
@click.argument("name")
@with_settings()
def remove_user(name: str, settings: Settings) -> None:
    """Remove the user NAME and its tokens."""
    with _access(settings) as access:
        access.remove_user(name)
    click.echo(f"Removed {name}.")


@click.group()
def token() -> None:
    """List, create and revoke API tokens."""


@token.command("create")
@click.argument("user_name", metavar="USER")
@click.option("--label", default="", help="What the token is for.")
@click.option("--days", type=click.IntRange(1, 36500), help="Days until it expires.  [default: never]")
@with_settings()
def create_token(user_name: str, label: str, days: int | None, settings: Settings) -> None:
    """Create a token that acts as USER, and show it once.

    Clients send it as "Authorization: Bearer TOKEN".
    """
    expires_us = None if days is None else time.time_ns() // 1000 + days * DAY_US
    with _access(settings) as access:
        text = access.create_token(user_name, label, expires_us)
    click.echo(text)


@token.command("list")
@with_settings()
def list_tokens(settings: Settings) -> None:
    """List tokens: the first digits of their digest, never the tokens themselves."""
    with _access(settings) as access:
        rows = [
            (
                t.digest[:12],
                t.user,
                format_instant(t.created_us // 1_000_000 * 1_000_000),
                "never" if t.expires_us is None else format_instant(t.expires_us // 1_000_000 * 1_000_000),
                t.label,
            )
            for t in access.tokens()
        ]
    _table(("digest", "user", "created", "expires", "label"), rows)


@token.command("revoke")
@click.argument("digest")
@with_settings()
def revoke_token(digest: str, settings: Settings) -> None:
    """Revoke the token whose digest begins with DIGEST, as shown by "thalweg token list"."""
    with _access(settings) as access:
        revoked = access.revoke_token(digest)
    click.echo(f"Revoked {revoked.digest[:12]} of {revoked.user}.")
