"""Commands on roles, and on what is public."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from thalweg.cli.options import actor_of_command, table, with_settings
from thalweg.domain.access import ANONYMOUS, ROLE_NAMES, Role, Scope
from thalweg.domain.catalogue import DEFAULT_WORKSPACE
from thalweg.domain.errors import InvalidParameter, NotFound
from thalweg.settings import Settings

if TYPE_CHECKING:
    from thalweg.services.access import Access
    from thalweg.services.catalogue import CatalogueService

ANYBODY = "anonymous"
"""What commands call those without credentials."""
KINDS = ("procedure", "offering", "layer", "stream")
_ROLES = click.Choice([name for name in ROLE_NAMES if name != "none"])


@contextmanager
def _services(settings: Settings) -> Iterator[tuple[Access, CatalogueService]]:
    from thalweg import app
    from thalweg.services.access import Access
    from thalweg.services.catalogue import CatalogueService

    store = app.open_existing(settings)
    try:
        yield Access(store, settings), CatalogueService(store)
    finally:
        store.close()


@click.group()
def role() -> None:
    """Grant, revoke and list roles for workspaces and single datasets.

    \b
    viewer           read, also what is not public
    data-manager     insert and correct observations, edit features, add members
    network-manager  register and delete procedures, layers, stored queries, event streams
    admin            everything

    What a user may do somewhere is the greatest of the roles held there: the account's own, which counts everywhere
    ("thalweg user role"), that for the workspace, that for the dataset or one of its offerings. A user who is to see
    one network or layer alone has the account role "none" and a role here.
    """


def _scope(function: click.decorators.FC) -> click.decorators.FC:
    """The options that say what a role is for."""
    function = click.option("--stream", metavar="NAME", help="For this event stream alone.")(function)
    function = click.option("--layer", metavar="NAME", help="For this layer alone.")(function)
    function = click.option("--offering", metavar="NAME", help="For the procedures of this offering alone.")(function)
    function = click.option("--procedure", metavar="NAME", help="For this procedure alone.")(function)
    return click.option(
        "--workspace", metavar="NAME", default=DEFAULT_WORKSPACE, show_default=True, help="For this workspace."
    )(function)


@role.command("grant")
@click.argument("principal", metavar="USER")
@click.argument("name", metavar="ROLE", type=_ROLES)
@_scope
@with_settings()
def grant(
    principal: str,
    name: str,
    workspace: str,
    procedure: str | None,
    offering: str | None,
    layer: str | None,
    stream: str | None,
    settings: Settings,
) -> None:
    """Have USER hold ROLE for a workspace, a procedure, an offering, a layer or an event stream.

    USER is an account's name, "oidc:" and the name of a user of the identity provider, or "anonymous" for everybody.
    What everybody is granted for a workspace counts for what is public in it, for a single dataset also if that is
    not public. A running server acts upon it at once.
    """
    with _services(settings) as (access, catalogues):
        scope, where = _scope_of(
            catalogues, workspace, procedure=procedure, offering=offering, layer=layer, stream=stream
        )
        access.grant(_name(principal), scope, Role.named(name), by=actor_of_command("role grant"))
    click.echo(f"{principal} is now {name} for {where}.")


@role.command("revoke")
@click.argument("principal", metavar="USER")
@_scope
@with_settings()
def revoke(
    principal: str,
    workspace: str,
    procedure: str | None,
    offering: str | None,
    layer: str | None,
    stream: str | None,
    settings: Settings,
) -> None:
    """Take away the role that USER holds for a workspace, a procedure, an offering, a layer or an event stream."""
    with _services(settings) as (access, catalogues):
        scope, where = _scope_of(
            catalogues, workspace, procedure=procedure, offering=offering, layer=layer, stream=stream
        )
        access.revoke(_name(principal), scope, by=actor_of_command("role revoke"))
    click.echo(f"{principal} holds no role of its own for {where} any more.")


@role.command("list")
@click.option("--user", "principal", metavar="USER", help="Of this user alone; anonymous: of everybody.")
@with_settings()
def list_roles(principal: str | None, settings: Settings) -> None:
    """List who holds which role, and where."""
    with _services(settings) as (access, catalogues):
        rows = [(u.name, u.role.word, "everywhere", "") for u in access.users()]
        rows.append((ANYBODY, settings.anonymous_role.word, "everywhere, of what is public", ""))
        by_id = {workspace.id: workspace.name for workspace in catalogues.workspaces().values()}
        for item in access.grants():
            workspace = by_id.get(item.scope.workspace_id, str(item.scope.workspace_id))
            what = ""
            if item.scope.kind:
                name = catalogues.dataset_name(catalogues.of(workspace), item.scope.kind, item.scope.id)
                what = f"{item.scope.kind} {name}"
            rows.append((item.principal or ANYBODY, item.role.word, f"workspace {workspace}", what))
    if principal is not None:
        rows = [row for row in rows if row[0] == principal]
    table(("user", "role", "where", "what"), sorted(rows, key=lambda row: row[0]))


def _name(principal: str) -> str:
    return ANONYMOUS if principal == ANYBODY else principal


def _scope_of(catalogues: CatalogueService, workspace: str, **named: str | None) -> tuple[Scope, str]:
    """A scope and what it is called.

    named   by kind of dataset, the name of one or None
    raises  NotFound, InvalidParameter
    """
    catalogue = catalogues.of(workspace)
    given = [(kind, name) for kind, name in named.items() if name is not None]
    if len(given) > 1:
        raise InvalidParameter(given[1][0], f"Give one of {' and '.join(f'--{kind}' for kind, _ in given)}, not both.")
    for kind, name in given:
        number = catalogues.find_dataset(catalogue, kind, name)
        return Scope(catalogue.workspace.id, kind, number), f"the {kind} {name}"
    return Scope(catalogue.workspace.id), f"the workspace {catalogue.workspace.name}"


@click.group()
def dataset() -> None:
    """List datasets, and open or close them to everybody."""


@dataset.command("list")
@click.option("--workspace", metavar="NAME", default=DEFAULT_WORKSPACE, show_default=True)
@click.option("--private", is_flag=True, help="Those alone that are not public.")
@with_settings()
def list_datasets(workspace: str, private: bool, settings: Settings) -> None:
    """List procedures, network offerings, layers and event streams of a workspace, and whether they are public.

    The layers "stations" and "latest" are not listed: they show the procedures that whoever asks may read.
    """
    from thalweg.encode.feature_output import type_prefix

    with _services(settings) as (_, catalogues):
        catalogue = catalogues.of(workspace)
        found = [("procedure", p.name, p.public, p.identifier) for p in catalogue.procedures.values()]
        found += [
            ("offering", o.name, o.public, o.identifier) for o in catalogue.offerings.values() if o.procedure_id is None
        ]
        found += [("stream", s.name, s.public, s.uuid) for s in catalogues.streams(catalogue)]
        prefix = type_prefix(workspace)
        found += [("layer", y.name, y.public, f"{prefix}:{y.name}") for y in catalogues.layers(catalogue)]
    rows = [
        (kind, name, "public" if public else "private", identifier)
        for kind, name, public, identifier in found
        if not (private and public)
    ]
    table(("kind", "name", "for", "identifier"), rows)
    if not catalogue.workspace.public:
        click.echo(f"The workspace {workspace} is private: nothing in it is public.")


@dataset.command("set")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@click.option("--workspace", metavar="NAME", default=DEFAULT_WORKSPACE, show_default=True)
@click.option("--public/--private", "public", default=None, help="Who may read it; one of the two is needed.")
@with_settings()
def set_dataset(kind: str, names: tuple[str, ...], workspace: str, public: bool | None, settings: Settings) -> None:
    """Open datasets to everybody who may read public ones, or close them.

    A private procedure is there only for users with a role for it, one of its offerings, its workspace or the server:
    all others find it in no list, no count and no message, and neither its observations nor its places; the same holds
    for a private layer and its features, and for a private event stream, of whose pages shared caches may keep what
    they have until its time is over. A running server acts upon it at once. A procedure's own offering goes with it.
    "thalweg workspace set NAME visibility=private" closes a whole workspace.
    """
    if public is None:
        raise InvalidParameter("public", "Say --public or --private.")
    by = actor_of_command("dataset set")
    word = "public" if public else "private"
    with _services(settings) as (_, catalogues):
        catalogue = catalogues.of(workspace)
        # All of them exist before the first is changed.
        for name in names:
            catalogues.find_dataset(catalogue, kind, name)
        for name in names:
            catalogues.set_public(catalogue, kind, name, public, by=by).result(60)
            click.echo(f"The {kind} {name} is {word}.")


def workspace_id_of(catalogues: CatalogueService, name: str | None) -> int:
    """The id of a workspace by name; 0 for None. Raises NotFound."""
    if name is None:
        return 0
    found = catalogues.workspaces().get(name)
    if found is None:
        raise NotFound("workspace", f"There is no workspace '{name[:80]}'; list them with: thalweg workspace list")
    return found.id
