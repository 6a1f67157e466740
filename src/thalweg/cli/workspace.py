"""Commands on workspaces: what a service says of itself."""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

import click

from thalweg.cli.options import actor_of_command, with_settings
from thalweg.domain.catalogue import Provider, Workspace
from thalweg.domain.errors import InvalidParameter, NotFound, StoreUnavailable
from thalweg.settings import Settings

if TYPE_CHECKING:
    from concurrent.futures import Future

    from thalweg.services.catalogue import CatalogueService

_WRITE_TIMEOUT_S: Final = 60.0
_TEXTS: Final = ("title", "abstract", "fees", "access_constraints", "authority")
_VISIBILITY: Final = {"public": True, "private": False}
_PROVIDER: Final = tuple(f"provider.{item.name}" for item in fields(Provider))
KEYS: Final = (*_TEXTS[:2], "keywords", *_TEXTS[2:], "srids", "visibility", *_PROVIDER)
"""What ``set`` takes, in the order of ``show``."""

_HELP: Final = f"""
    \b
    title               heading of the service
    abstract            what it offers
    keywords            separated by commas
    fees                NONE if there are none
    access_constraints  NONE if there are none
    authority           third part of the URNs made for new things
    srids               EPSG codes that answers may be asked in, separated by
                        commas, the workspace's own first
    visibility          public, or private: for users with a role for it alone

    Who offers it: {", ".join(_PROVIDER)}.

    Things that are there keep their URNs when the authority changes. An empty value takes a text away (of fees,
    constraints, authority and srids: brings the default back). A running server shows the change at once.
"""


@contextmanager
def _catalogue(settings: Settings) -> Iterator[CatalogueService]:
    from thalweg import app
    from thalweg.services.catalogue import CatalogueService

    store = app.open_existing(settings)
    try:
        yield CatalogueService(store)
    finally:
        store.close()


@click.group()
def workspace() -> None:
    """List, add and describe workspaces.

    A workspace groups datasets under one title, provider and list of CRS. Its services are at /NAME/sos, those of the
    workspace "default" at /sos.
    """


@workspace.command("list")
@with_settings()
def list_workspaces(settings: Settings) -> None:
    """List workspaces with their titles."""
    with _catalogue(settings) as catalogue:
        rows = [("name", "authority", "title")]
        rows += [(item.name, item.authority, item.title) for item in catalogue.workspaces().values()]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for name, authority, title in rows:
        click.echo(f"{name:{widths[0]}}  {authority:{widths[1]}}  {title}".rstrip())


@workspace.command("add", help=f"Add the workspace NAME, and say of it what KEY=VALUE tells.\n{_HELP}")
@click.argument("name")
@click.argument("changes", nargs=-1, metavar="[KEY=VALUE]…")
@with_settings()
def add_workspace(name: str, changes: tuple[str, ...], settings: Settings) -> None:
    with _catalogue(settings) as catalogue:
        made = changed(Workspace(0, str(uuid.uuid4()), name), changes)
        _done(catalogue.put_workspace(made, by=actor_of_command("workspace add")))
    click.echo(
        f"Added {name}. Its services are at {settings.base_url}/{name}/…, such as {settings.base_url}/{name}/sos."
    )


@workspace.command("set", help=f"Change what the workspace NAME says of itself.\n{_HELP}")
@click.argument("name")
@click.argument("changes", nargs=-1, required=True, metavar="KEY=VALUE…")
@with_settings()
def set_workspace(name: str, changes: tuple[str, ...], settings: Settings) -> None:
    with _catalogue(settings) as catalogue:
        before = _existing(catalogue, name)
        after = changed(before, changes)
        if after != before:
            _done(catalogue.put_workspace(after, by=actor_of_command("workspace set")))
    click.echo(f"Changed {name}." if after != before else f"{name} says this already.")
    if after.authority != before.authority:
        click.echo("New things get URNs of the new authority; those that are there keep theirs.")


@workspace.command("show", short_help="Show what the workspace NAME says of itself.")
@click.argument("name")
@with_settings()
def show_workspace(name: str, settings: Settings) -> None:
    """Show what the workspace NAME says of itself, as "thalweg workspace set" takes it."""
    with _catalogue(settings) as catalogue:
        found = _existing(catalogue, name)
    for key in KEYS:
        click.echo(f"{key}={_shown(found, key)}")


def _existing(catalogue: CatalogueService, name: str) -> Workspace:
    found = catalogue.workspaces().get(name)
    if found is None:
        raise NotFound("name", f"There is no workspace '{name[:80]}'; list them with: thalweg workspace list")
    return found


def changed(workspace: Workspace, changes: Sequence[str]) -> Workspace:
    """The workspace with ``KEY=VALUE`` texts applied. InvalidParameter for unknown or doubled keys and other forms."""
    values: dict[str, Any] = {}
    provider: dict[str, str] = {}
    for text in changes:
        name, equals, value = text.partition("=")
        key = name.strip().lower().replace("-", "_")
        value = value.strip()
        if not equals or not key:
            raise InvalidParameter("changes", f"'{text[:80]}' is not of the form KEY=VALUE.")
        if key not in KEYS:
            raise InvalidParameter("changes", f"A workspace has no '{name[:80]}'{_instead(key)}")
        if (
            key in values
            or (key == "visibility" and "public" in values)
            or (key.startswith("provider.") and key.removeprefix("provider.") in provider)
        ):
            raise InvalidParameter("changes", f"'{key}' is given twice.")
        if key.startswith("provider."):
            provider[key.removeprefix("provider.")] = value
        else:
            values[name_of(key)] = _value(key, value)
    if provider:
        values["provider"] = replace(workspace.provider, **provider)
    return replace(workspace, **values)


def name_of(key: str) -> str:
    """The workspace's attribute that a key stands for."""
    return "public" if key == "visibility" else key


def _value(key: str, text: str) -> object:
    if key == "keywords":
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if key == "visibility":
        if not text:
            return True
        if text not in _VISIBILITY:
            raise InvalidParameter("visibility", f"visibility is public or private, not '{text[:40]}'.")
        return _VISIBILITY[text]
    if not text and key not in ("title", "abstract"):
        return getattr(Workspace(0, "", ""), key)
    if key == "srids":
        codes = []
        for part in text.split(","):
            digits = part.strip().upper().removeprefix("EPSG:")
            if not (digits.isascii() and digits.isdecimal() and len(digits) <= 9):
                raise InvalidParameter(
                    "srids", f"'{part.strip()[:80]}' is no EPSG code; give numbers such as 4326,21781."
                )
            codes.append(int(digits))
        return tuple(codes)
    return text


def _instead(key: str) -> str:
    known = {name.removeprefix("provider."): name for name in KEYS}
    near = difflib.get_close_matches(key.removeprefix("provider.")[:80], known, n=1)
    return f"; did you mean '{known[near[0]]}'?" if near else f"; it has {', '.join(KEYS[:8])} and provider.… texts."


def _shown(workspace: Workspace, key: str) -> str:
    if key.startswith("provider."):
        return str(getattr(workspace.provider, key.removeprefix("provider.")))
    if key == "visibility":
        return "public" if workspace.public else "private"
    value = getattr(workspace, key)
    return ",".join(str(part) for part in value) if isinstance(value, tuple) else str(value)


def _done(future: Future[Workspace]) -> None:
    """Wait until a change is durable. StoreUnavailable if that takes more than a minute."""
    try:
        future.result(_WRITE_TIMEOUT_S)
    except TimeoutError:
        raise StoreUnavailable("The change was not confirmed in time; look whether it was made.") from None
