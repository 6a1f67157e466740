"""What each role permits: one table, one function."""

from __future__ import annotations

from enum import Enum
from typing import Final

from thalweg.domain.access import Principal, Role
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


def may(principal: Principal, action: Action) -> bool:
    """Whether the caller's role permits the action."""
    return principal.role >= LEAST_ROLE[action]


def require(principal: Principal, action: Action) -> None:
    """Nothing if the caller may do it.

    raises  Unauthenticated for an anonymous caller who may not: credentials may help;
            PermissionDenied for a known one
    """
    if principal.role >= LEAST_ROLE[action]:
        return
    if not principal.name:
        raise Unauthenticated(f"Credentials are needed to {action.value}.")
    raise PermissionDenied(f"The user '{principal.name}' may not {action.value}.")
