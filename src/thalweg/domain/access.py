"""Who asks, and which role they have."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class Role(IntEnum):
    """Rising rights: each role may do all that the lower ones may (istSOS' four roles)."""

    NOTHING = 0
    VIEWER = 1
    """read"""
    DATA_MANAGER = 2
    """change observations and procedure metadata"""
    NETWORK_MANAGER = 3
    """register procedures, everything inside a workspace"""
    ADMIN = 4

    @staticmethod
    def named(text: str) -> Role:
        """The role of a setting or command line: ``none``, ``viewer``, ``data-manager`` … Raises KeyError."""
        return ROLE_NAMES[text.strip().lower().replace("_", "-")]


ROLE_NAMES: Final = {
    "none": Role.NOTHING,
    "viewer": Role.VIEWER,
    "data-manager": Role.DATA_MANAGER,
    "network-manager": Role.NETWORK_MANAGER,
    "admin": Role.ADMIN,
}


@dataclass(frozen=True, slots=True)
class Resource:
    """What is acted on: the server as a whole, a workspace, or one dataset in it.

    workspace_id  0: the server as a whole
    kind, id      of the dataset: ``procedure``, ``offering``, ``layer``, ``table``, ``stream``; empty and 0: none
    public        False: a dataset for those alone who hold a role for it, its workspace or the server
    """

    workspace_id: int = 0
    kind: str = ""
    id: int = 0
    public: bool = True


SERVER: Final = Resource()


@dataclass(frozen=True, slots=True)
class Principal:
    """Who makes a request; ``name`` is empty for anonymous."""

    name: str
    role: Role

    @property
    def is_anonymous(self) -> bool:
        return not self.name


@dataclass(frozen=True, slots=True)
class User:
    """An account as stored: ``password_hash`` is an argon2id string, never a password."""

    name: str
    role: Role
    password_hash: str
    created_us: int


@dataclass(frozen=True, slots=True)
class Token:
    """An API token as stored: ``digest`` is SHA-256 of the token's random text, hex."""

    digest: str
    user: str
    label: str
    created_us: int
    expires_us: int | None = None
