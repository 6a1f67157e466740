"""What each role permits: one table, one function."""

from __future__ import annotations

from enum import Enum
from typing import Final

from thalweg.domain.access import SERVER, Principal, Resource, Role, Scope
from thalweg.domain.errors import PermissionDenied, Unauthenticated


class Action(Enum):
    """What a caller wants to do; the value is the phrase that messages use."""

    READ = "read"
    INSERT = "insert or change data"
    EDIT = "change features"
    REGISTER = "register or remove datasets or stored queries"
    ADMINISTER = "administer the server"


LEAST_ROLE: Final = {
    Action.READ: Role.VIEWER,
    Action.INSERT: Role.DATA_MANAGER,
    Action.EDIT: Role.DATA_MANAGER,
    Action.REGISTER: Role.NETWORK_MANAGER,
    Action.ADMINISTER: Role.ADMIN,
}


def role_on(principal: Principal, resource: Resource = SERVER) -> Role:
    """The role a caller holds for a resource: the greatest of those that apply.

    What is not public counts no role of anonymous callers but one granted on it by name. Takes well under a
    microsecond for callers without grants.
    """
    role = principal.role
    if resource.public:
        if principal.guest_role > role:
            role = principal.guest_role
    elif not principal.name:
        role = Role.NOTHING
    if resource.guests > role:
        role = resource.guests
    grants = principal.grants
    if grants and resource.workspace_id:
        workspace_id = resource.workspace_id
        role = max(role, grants.get(Scope(workspace_id), role))
        if resource.kind:
            role = max(role, grants.get(Scope(workspace_id, resource.kind, resource.id), role))
            for kind, number in resource.within:
                role = max(role, grants.get(Scope(workspace_id, kind, number), role))
    return role


def may(principal: Principal, action: Action, resource: Resource = SERVER) -> bool:
    """Whether the caller may do this to that. A dataset that is not public is closed to those without a role for it,
    its workspace or the server."""
    return role_on(principal, resource) >= LEAST_ROLE[action]


def may_somewhere(principal: Principal, action: Action, workspace_id: int | None = None) -> bool:
    """Whether there may be something that the caller may do this to, as far as the caller's own roles say: for bounds
    on what is looked at before it is known what a request is about.

    workspace_id  within this workspace; None: anywhere
    """
    least = LEAST_ROLE[action]
    if principal.role >= least or principal.guest_role >= least:
        return True
    return any(role >= least and workspace_id in (None, scope.workspace_id) for scope, role in principal.grants.items())


def require(principal: Principal, action: Action, resource: Resource = SERVER) -> None:
    """Nothing if the caller may do it.

    raises  Unauthenticated for an anonymous caller who may not: credentials may help;
            PermissionDenied for a known one. For a dataset the caller may not read, a door says NotFound instead,
            as for one that is not there: ask ``may`` with READ first
    """
    if not may(principal, action, resource):
        refuse(principal, action)


def refuse(principal: Principal, action: Action) -> None:
    """Raise what ``require`` raises."""
    if not principal.name:
        raise Unauthenticated(f"Credentials are needed to {action.value}.")
    raise PermissionDenied(f"The user '{principal.name}' may not {action.value}.")
