"""What of a catalogue a caller sees."""

from __future__ import annotations

from typing import Final

from thalweg.auth.policy import Action, may
from thalweg.domain.access import Principal, Resource, Role
from thalweg.domain.catalogue import Workspace
from thalweg.domain.snapshot import PUBLIC, Catalogue, View

_PUBLIC_ALONE: Final[View] = frozenset((PUBLIC,))


def seen_by(catalogue: Catalogue, principal: Principal) -> Catalogue | None:
    """The catalogue as the caller may see it: itself, or a picture of what the caller may READ.

    Pictures are kept with the catalogue, one for each set of things that callers hold roles for, so that asking takes
    some microseconds at most, and under one where everything is public.
    returns  None if there is nothing in the workspace that the caller may read
    """
    if catalogue.is_open and (principal.role >= Role.VIEWER or principal.guest_role >= Role.VIEWER):
        return catalogue
    # Who may read what is not public, may read everything.
    workspace_id = catalogue.workspace.id
    if may(principal, Action.READ, Resource(workspace_id, public=False)):
        return catalogue
    view = view_of(catalogue, principal)
    return catalogue.restricted(view) if view else None


def sees_workspace(workspace: Workspace, principal: Principal) -> bool | None:
    """Whether there is anything in a workspace that the caller may read, as far as can be told without its catalogue;
    None: that has to be asked (``seen_by``), for what everybody is granted stands there."""
    if may(principal, Action.READ, Resource(workspace.id, public=workspace.public)):
        return True
    if any(scope.workspace_id == workspace.id and role >= Role.VIEWER for scope, role in principal.grants.items()):
        return True
    return None


def view_of(catalogue: Catalogue, principal: Principal) -> View:
    """Kind and id of what the caller, or everybody, holds a role for in the workspace; ``PUBLIC`` if the caller may
    read what is public there. Of callers who may not read everything."""
    reads_public = may(principal, Action.READ, catalogue.resource)
    workspace_id = catalogue.workspace.id
    if not principal.grants and not catalogue.guests:
        return _PUBLIC_ALONE if reads_public else frozenset()
    named = {
        (scope.kind, scope.id)
        for grants in (principal.grants, catalogue.guests)
        for scope, role in grants.items()
        if role >= Role.VIEWER and scope.kind and scope.workspace_id == workspace_id
    }
    if reads_public:
        named.add(PUBLIC)
    return frozenset(named)
