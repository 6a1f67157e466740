"""What each role permits: one table, one function."""

from __future__ import annotations

from enum import Enum
from typing import Final

from thalweg.domain.access import SERVER, Principal, Resource, Role
from thalweg.domain.errors import PermissionDenied, Unauthenticated


class Action(Enum):
    """What a caller wants to do; the value is the phrase that messages use."""

    READ = "read"
    INSERT = "insert or change observations"
    REGISTER = "register or remove procedures"
    ADMINISTER = "administer the server"


LEAST_ROLE: Final = {
    Action.READ: Role.VIEWER,
    Action.INSERT: Role.DATA_MANAGER,
    Action.REGISTER: Role.NETWORK_MANAGER,
    Action.ADMINISTER: Role.ADMIN,
}


def may(principal: Principal, action: Action, resource: Resource = SERVER) -> bool:
    """Whether the caller may do this to that. A dataset that is not public is closed to anonymous callers."""
    return principal.role >= LEAST_ROLE[action] and (resource.public or not principal.is_anonymous)


def require(principal: Principal, action: Action, resource: Resource = SERVER) -> None:
    """Nothing if the caller may do it.

    raises  Unauthenticated for an anonymous caller who may not: credentials may help;
            PermissionDenied for a known one. For a dataset the caller may not read, a door says NotFound instead,
            as for one that is not there: ask ``may`` with READ first
    """
    if may(principal, action, resource):
        return
    if not principal.name:
        raise Unauthenticated(f"Credentials are needed to {action.value}.")
    raise PermissionDenied(f"The user '{principal.name}' may not {action.value}.")
