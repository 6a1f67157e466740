"""Who asks, what they hold, and what is remembered of what they did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple


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

    @property
    def word(self) -> str:
        """The name that settings and commands use."""
        return _ROLE_WORDS[self]


ROLE_NAMES: Final = {
    "none": Role.NOTHING,
    "viewer": Role.VIEWER,
    "data-manager": Role.DATA_MANAGER,
    "network-manager": Role.NETWORK_MANAGER,
    "admin": Role.ADMIN,
}
_ROLE_WORDS: Final = {role: name for name, role in ROLE_NAMES.items()}

ANONYMOUS: Final = ""
"""The name under which everybody is granted something."""


class Scope(NamedTuple):
    """What a role is held for.

    workspace_id  0: the server as a whole
    kind, id      of one dataset in the workspace: ``procedure``, ``offering``, ``layer``, ``table``, ``stream``;
                  empty and 0: the workspace as a whole
    """

    workspace_id: int = 0
    kind: str = ""
    id: int = 0


@dataclass(frozen=True, slots=True)
class Resource:
    """What is acted on: the server as a whole, a workspace, or one dataset in it.

    workspace_id  0: the server as a whole
    kind, id      of the dataset: ``procedure``, ``offering``, ``layer``, ``table``, ``stream``; empty and 0: none
    public        False: a dataset for those alone who hold a role for it, its workspace or the server
    guests        what everybody is granted on it, be it public or not
    within        kind and id of further datasets whose roles count for it, too: the offerings of a procedure
    """

    workspace_id: int = 0
    kind: str = ""
    id: int = 0
    public: bool = True
    guests: Role = Role.NOTHING
    within: tuple[tuple[str, int], ...] = ()


SERVER: Final = Resource()

NO_GRANTS: Final[Mapping[Scope, Role]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Principal:
    """Who makes a request; ``name`` is empty for anonymous.

    role        held for the server as a whole; an anonymous caller's counts for what is public alone
    guest_role  what anonymous callers may do with what is public, so that nobody gains by leaving credentials off
    grants      roles held for workspaces and single datasets
    via         how the caller is known: ``password``, ``token``, ``session``, ``provider``; empty for anonymous
    """

    name: str
    role: Role
    guest_role: Role = Role.NOTHING
    grants: Mapping[Scope, Role] = field(default_factory=lambda: NO_GRANTS, hash=False)
    via: str = field(default="", compare=False)

    @property
    def is_anonymous(self) -> bool:
        return not self.name


@dataclass(frozen=True, slots=True)
class User:
    """An account as stored: ``password_hash`` is an argon2id string, or one of CKAN's until its user signs in; never a
    password."""

    name: str
    role: Role
    password_hash: str
    created_us: int


@dataclass(frozen=True, slots=True)
class Token:
    """An API token as stored: ``digest`` is SHA-256 of the token's random text, hex.

    role          the most it may do, whatever its user may; None: as its user
    workspace_id  where alone it gives more than anonymous callers have; 0: everywhere
    used_us       when it was last used, to about a minute; None: never
    """

    digest: str
    user: str
    label: str
    created_us: int
    expires_us: int | None = None
    role: Role | None = None
    workspace_id: int = 0
    used_us: int | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """A signed-in browser as stored: ``digest`` is SHA-256 of the cookie's random text, hex.

    expires_us  when it ends whatever is done; seen_us: when it was last used, to about a minute
    """

    digest: str
    user: str
    created_us: int
    expires_us: int
    seen_us: int


@dataclass(frozen=True, slots=True)
class Grant:
    """A role that a user (or everybody: ``ANONYMOUS``) holds for a workspace or a dataset."""

    principal: str
    scope: Scope
    role: Role
    created_us: int = 0


@dataclass(frozen=True, slots=True)
class Actor:
    """Who changes something, from where and by what: what the audit log keeps of it.

    name       the principal's, empty for anonymous and for the server itself
    address    of the client, empty for commands
    request    the request's id, as in the log
    door       the door's name; ``web`` or ``command`` otherwise
    operation  as the door names it, or the command
    """

    name: str = ""
    address: str = ""
    request: str = ""
    door: str = ""
    operation: str = ""


def actor(by: Actor | str) -> Actor:
    """An actor; of a bare name no more is known."""
    return by if isinstance(by, Actor) else Actor(by)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One line of the audit log.

    action  a verb and a noun: ``insert procedure``, ``correct observations``, ``grant role``, ``sign in``
    object  what it was done to, by identifier or name
    detail  in short what it was and is; never a secret
    """

    at_us: int
    number: int
    actor: Actor
    action: str
    object: str
    workspace_id: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Which lines of the audit log are wanted; texts None: any. Newest first.

    object  a text that the object contains; action: one that it begins with
    before  only lines before this (time, number): where a page before ended
    """

    since_us: int | None = None
    until_us: int | None = None
    user: str | None = None
    object: str | None = None
    action: str | None = None
    before: tuple[int, int] | None = None
    limit: int = 1000


DATASET_KINDS: Final = ("procedure", "offering", "layer", "package", "table", "stream")
