"""Commands on accounts: users and their API tokens."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from thalweg.cli.options import actor_of_command, table, with_settings
from thalweg.domain.access import ROLE_NAMES, Role, Token
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.time import DAY_US, format_instant
from thalweg.settings import Settings, as_text

if TYPE_CHECKING:
    from thalweg.services.access import Access

_ROLES = click.Choice(list(ROLE_NAMES))


@contextmanager
def _access(settings: Settings) -> Iterator[Access]:
    from thalweg import app
    from thalweg.services.access import Access

    store = app.open_existing(settings)
    try:
        yield Access(store, settings)
    finally:
        store.close()


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
    table(("name", "role", "created"), rows)


@user.command("add")
@click.argument("name")
@click.option("--role", type=_ROLES, default="viewer", show_default=True)
@click.option("--generate", is_flag=True, help="Make a random password and show it.")
@with_settings()
def add_user(name: str, role: str, generate: bool, settings: Settings) -> None:
    """Add the user NAME. The password is asked for, or read from standard input.

    The role counts everywhere on the server. With "none" the user may do what callers without credentials may, and what
    "thalweg role grant" adds for workspaces and datasets.
    """
    from thalweg.auth.passwords import new_password

    password = new_password() if generate else _read_password()
    with _access(settings) as access:
        access.add_user(name, Role.named(role), password, by=actor_of_command("user add"))
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
        access.set_password(
            name,
            password,
            role=None if role is None else Role.named(role),
            by=actor_of_command("user password"),
        )
    click.echo(f"Changed the password of {name}." + (f" Password: {password}" if generate else ""))


@user.command("role")
@click.argument("name")
@click.argument("role", type=_ROLES)
@with_settings()
def set_role(name: str, role: str, settings: Settings) -> None:
    """Give the user NAME another role, for the server as a whole. Password, tokens and roles for workspaces stay."""
    with _access(settings) as access:
        access.set_role(name, Role.named(role), by=actor_of_command("user role"))
    click.echo(f"{name} is now {role}.")


@user.command("remove")
@click.argument("name")
@with_settings()
def remove_user(name: str, settings: Settings) -> None:
    """Remove the user NAME with its tokens and roles."""
    with _access(settings) as access:
        access.remove_user(name, by=actor_of_command("user remove"))
    click.echo(f"Removed {name}.")


@click.group()
def token() -> None:
    """List, create and revoke API tokens."""


@token.command("create")
@click.argument("user_name", metavar="USER")
@click.option("--label", default="", help="What the token is for.")
@click.option("--days", type=click.IntRange(1, 36500), help="Days until it expires.  [default: never]")
@click.option("--role", type=_ROLES, help="The most it may do, whatever USER may.  [default: as USER]")
@click.option("--workspace", metavar="NAME", help="Where alone it counts.  [default: everywhere]")
@with_settings()
def create_token(
    user_name: str, label: str, days: int | None, role: str | None, workspace: str | None, settings: Settings
) -> None:
    """Create a token that acts as USER, and show it once.

    Clients send it as "Authorization: Bearer TOKEN", CKAN's as "Authorization: TOKEN". A logger's token is best
    limited: "--role data-manager --workspace rivers". Beyond its limits it may do what callers without credentials may.
    """
    from thalweg import app
    from thalweg.cli.roles import workspace_id_of
    from thalweg.services.access import Access
    from thalweg.services.catalogue import CatalogueService

    expires_us = None if days is None else time.time_ns() // 1000 + days * DAY_US
    store = app.open_existing(settings)
    try:
        text = Access(store, settings).create_token(
            user_name,
            label,
            expires_us,
            role=None if role is None else Role.named(role),
            workspace_id=workspace_id_of(CatalogueService(store), workspace),
            by=actor_of_command("token create"),
        )
    finally:
        store.close()
    click.echo(text)


@token.command("list")
@with_settings()
def list_tokens(settings: Settings) -> None:
    """List tokens: the first digits of their digest, never the tokens themselves."""
    with _access(settings) as access:
        names = access.workspace_names()
        rows = [
            (
                t.digest[:12],
                t.user,
                format_instant(t.created_us // 1_000_000 * 1_000_000),
                "never" if t.expires_us is None else format_instant(t.expires_us // 1_000_000 * 1_000_000),
                "never" if t.used_us is None else format_instant(t.used_us // 1_000_000 * 1_000_000),
                _limits(t, names),
                t.label,
            )
            for t in access.tokens()
        ]
    table(("digest", "user", "created", "expires", "last used", "limited to", "label"), rows)


def _limits(item: Token, names: Mapping[int, str]) -> str:
    parts = [] if item.role is None else [item.role.word]
    if item.workspace_id:
        parts.append(names.get(item.workspace_id, str(item.workspace_id)))
    return ", ".join(parts) or "-"


@token.command("revoke")
@click.argument("digest")
@with_settings()
def revoke_token(digest: str, settings: Settings) -> None:
    """Revoke the token whose digest begins with DIGEST, as shown by "thalweg token list"."""
    with _access(settings) as access:
        revoked = access.revoke_token(digest, by=actor_of_command("token revoke"))
    click.echo(f"Revoked {revoked.digest[:12]} of {revoked.user}.")
