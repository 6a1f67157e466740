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
    from thalweg.domain.snapshot import Catalogue
    from thalweg.services.access import Access
    from thalweg.services.catalogue import CatalogueService

ANYBODY = "anonymous"
"""What commands call those without credentials."""
KINDS = ("procedure", "offering")
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
    data-manager     insert and correct observations
    network-manager  register and delete procedures
    admin            everything

    What a user may do somewhere is the greatest of the roles held there: the account's own, which counts everywhere
    ("thalweg user role"), that for the workspace, that for the dataset or one of its offerings. A user who is to see
    one network alone has the account role "none" and a role here.
    """


def _scope(function: click.decorators.FC) -> click.decorators.FC:
    """The options that say what a role is for."""
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
    principal: str, name: str, workspace: str, procedure: str | None, offering: str | None, settings: Settings
) -> None:
    """Have USER hold ROLE for a workspace, a procedure or an offering.

    USER is an account's name, "oidc:" and the name of a user of the identity provider, or "anonymous" for everybody.
    What everybody is granted for a workspace counts for what is public in it, for a procedure or offering also if that
    is not public. A running server acts upon it at once.
    """
    with _services(settings) as (access, catalogues):
        scope, where = _scope_of(catalogues.of(workspace), procedure, offering)
        access.grant(_name(principal), scope, Role.named(name), by=actor_of_command("role grant"))
    click.echo(f"{principal} is now {name} for {where}.")


@role.command("revoke")
@click.argument("principal", metavar="USER")
@_scope
@with_settings()
def revoke(principal: str, workspace: str, procedure: str | None, offering: str | None, settings: Settings) -> None:
    """Take away the role that USER holds for a workspace, a procedure or an offering."""
    with _services(settings) as (access, catalogues):
        scope, where = _scope_of(catalogues.of(workspace), procedure, offering)
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
                what = f"{item.scope.kind} {_name_of(catalogues.of(workspace), item.scope)}"
            rows.append((item.principal or ANYBODY, item.role.word, f"workspace {workspace}", what))
    if principal is not None:
        rows = [row for row in rows if row[0] == principal]
    table(("user", "role", "where", "what"), sorted(rows, key=lambda row: row[0]))


def _name(principal: str) -> str:
    return ANONYMOUS if principal == ANYBODY else principal


def _scope_of(catalogue: Catalogue, procedure: str | None, offering: str | None) -> tuple[Scope, str]:
    """A scope and what it is called. Raises NotFound, InvalidParameter."""
    from thalweg.services.catalogue import find_dataset

    if procedure is not None and offering is not None:
        raise InvalidParameter("offering", "Give --procedure or --offering, not both.")
    workspace_id = catalogue.workspace.id
    for kind, name in (("procedure", procedure), ("offering", offering)):
        if name is not None:
            return Scope(workspace_id, kind, find_dataset(catalogue, kind, name)), f"the {kind} {name}"
    return Scope(workspace_id), f"the workspace {catalogue.workspace.name}"


def _name_of(catalogue: Catalogue, scope: Scope) -> str:
    if scope.kind == "procedure" and scope.id in catalogue.procedures:
        return catalogue.procedures[scope.id].name
    if scope.kind == "offering" and scope.id in catalogue.offerings:
        return catalogue.offerings[scope.id].name
    return str(scope.id)


@click.group()
def dataset() -> None:
    """List datasets, and open or close them to everybody."""


@dataset.command("list")
@click.option("--workspace", metavar="NAME", default=DEFAULT_WORKSPACE, show_default=True)
@click.option("--private", is_flag=True, help="Those alone that are not public.")
@with_settings()
def list_datasets(workspace: str, private: bool, settings: Settings) -> None:
    """List procedures and network offerings of a workspace, and whether they are public."""
    with _services(settings) as (_, catalogues):
        catalogue = catalogues.of(workspace)
        found = [("procedure", p.name, p.public, p.identifier) for p in catalogue.procedures.values()]
        found += [
            ("offering", o.name, o.public, o.identifier) for o in catalogue.offerings.values() if o.procedure_id is None
        ]
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
    all others find it in no list, no count and no message, and neither its observations nor its places. A running
    server acts upon it at once. A procedure's own offering goes with it. "thalweg workspace set NAME
    visibility=private" closes a whole workspace.
    """
    if public is None:
        raise InvalidParameter("public", "Say --public or --private.")
    by = actor_of_command("dataset set")
    word = "public" if public else "private"
    with _services(settings) as (_, catalogues):
        catalogue = catalogues.of(workspace)
        # All of them exist before the first is changed.
        from thalweg.services.catalogue import find_dataset

        for name in names:
            find_dataset(catalogue, kind, name)
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
