"""Accounts, tokens, sessions and roles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from thalweg.domain.access import DATASET_KINDS, Actor, Grant, Role, Scope, Session, Token, User
from thalweg.domain.errors import InvalidParameter, NotFound
from thalweg.store.sqlite.audit import record
from thalweg.store.sqlite.connection import Readers, Row
from thalweg.store.sqlite.entity_writes import RAISE_ACCESS, raise_generation
from thalweg.store.sqlite.writer import Transaction

ACCOUNTS: Final = "SELECT name, role, password_hash, created_us FROM account ORDER BY name"
ACCOUNT: Final = "SELECT name, role, password_hash, created_us FROM account WHERE name = ?"
PUT_ACCOUNT: Final = """
    INSERT INTO account (name, role, password_hash, created_us) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (name) DO UPDATE SET role = ?2, password_hash = ?3, created_us = ?4"""
RENEW_HASH: Final = "UPDATE account SET password_hash = ?3 WHERE name = ?1 AND password_hash = ?2 RETURNING name"
DELETE_ACCOUNT: Final = "DELETE FROM account WHERE name = ? RETURNING name"
OF_ACCOUNT: Final = (
    "DELETE FROM token_use WHERE digest IN (SELECT digest FROM token WHERE account = ?)",
    "DELETE FROM token WHERE account = ?",
    "DELETE FROM session WHERE account = ?",
    "DELETE FROM role_grant WHERE principal = ?",
)

TOKENS: Final = """
    SELECT t.digest, t.account, t.label, t.created_us, t.expires_us, t.role, t.workspace_id, u.used_us
    FROM token t LEFT JOIN token_use u ON u.digest = t.digest ORDER BY t.created_us, t.digest"""
TOKEN: Final = """
    SELECT t.digest, t.account, t.label, t.created_us, t.expires_us, t.role, t.workspace_id, u.used_us
    FROM token t LEFT JOIN token_use u ON u.digest = t.digest WHERE t.digest = ?"""  # noqa: S105
PUT_TOKEN: Final = """
    INSERT INTO token (digest, account, label, created_us, expires_us, role, workspace_id)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
    ON CONFLICT (digest) DO UPDATE
    SET account = ?2, label = ?3, created_us = ?4, expires_us = ?5, role = ?6, workspace_id = ?7"""  # noqa: S105
DELETE_TOKEN: Final = "DELETE FROM token WHERE digest = ? RETURNING account, label"  # noqa: S105
DELETE_TOKEN_USE: Final = "DELETE FROM token_use WHERE digest = ?"  # noqa: S105
NOTE_USE: Final = """
    INSERT INTO token_use (digest, used_us) SELECT digest, ?2 FROM token WHERE digest = ?1
    ON CONFLICT (digest) DO UPDATE SET used_us = max(used_us, ?2)"""

SESSION: Final = "SELECT digest, account, created_us, expires_us, seen_us FROM session WHERE digest = ?"
PUT_SESSION: Final = """
    INSERT INTO session (digest, account, created_us, expires_us, seen_us) VALUES (?, ?, ?, ?, ?)"""
DELETE_SESSION: Final = "DELETE FROM session WHERE digest = ? RETURNING account"
DELETE_OTHERS: Final = "DELETE FROM session WHERE account = ? AND digest <> ?"
DELETE_ENDED: Final = "DELETE FROM session WHERE expires_us <= ?"
NOTE_SEEN: Final = "UPDATE session SET seen_us = max(seen_us, ?2) WHERE digest = ?1"
SESSIONS_OF: Final = "SELECT count(*) FROM session WHERE account = ?"
DELETE_OLDEST: Final = """
    DELETE FROM session WHERE digest IN (
        SELECT digest FROM session WHERE account = ?1 ORDER BY seen_us, digest LIMIT ?2)"""

GRANTS: Final = """
    SELECT principal, workspace_id, kind, entity_id, role, created_us FROM role_grant
    ORDER BY principal, workspace_id, kind, entity_id"""
GRANTS_OF: Final = """
    SELECT principal, workspace_id, kind, entity_id, role, created_us FROM role_grant WHERE principal = ?"""
GRANT: Final = """
    SELECT role FROM role_grant WHERE principal = ? AND workspace_id = ? AND kind = ? AND entity_id = ?"""
PUT_GRANT: Final = """
    INSERT INTO role_grant (principal, workspace_id, kind, entity_id, role, created_us) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (principal, workspace_id, kind, entity_id) DO UPDATE SET role = ?5, created_us = ?6"""
DELETE_GRANT: Final = """
    DELETE FROM role_grant WHERE principal = ? AND workspace_id = ? AND kind = ? AND entity_id = ? RETURNING role"""

GENERATION: Final = "SELECT value FROM counter WHERE name = 'access'"

MAX_SESSIONS: Final = 20
"""Browsers that one user may be signed in with; the one not used for longest is signed out for a new one."""


class AccessReader:
    """Reads accounts, tokens, sessions and grants for any thread."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers

    def users(self) -> list[User]:
        return [User(name, Role(role), *rest) for name, role, *rest in self._readers.rows(ACCOUNTS)]

    def user(self, name: str) -> User | None:
        rows = self._readers.rows(ACCOUNT, (name,))
        return User(rows[0][0], Role(rows[0][1]), *rows[0][2:]) if rows else None

    def tokens(self) -> list[Token]:
        return [_token(row) for row in self._readers.rows(TOKENS)]

    def token(self, digest: str) -> Token | None:
        rows = self._readers.rows(TOKEN, (digest,))
        return _token(rows[0]) if rows else None

    def session(self, digest: str) -> Session | None:
        rows = self._readers.rows(SESSION, (digest,))
        return Session(*rows[0]) if rows else None

    def grants(self, principal: str | None = None) -> list[Grant]:
        rows = self._readers.rows(GRANTS) if principal is None else self._readers.rows(GRANTS_OF, (principal,))
        return [Grant(row[0], Scope(*row[1:4]), Role(row[4]), row[5]) for row in rows]

    def generation(self) -> int:
        known = self._readers.mine().known
        if known is not None and "access" in known:
            return int(known["access"])
        ((generation,),) = self._readers.rows(GENERATION)
        if known is not None:
            known["access"] = generation
        return int(generation)


def _token(row: Row) -> Token:
    digest, user, label, created_us, expires_us, role, workspace_id, used_us = row
    limit = None if role is None else Role(role)
    return Token(digest, user, label, created_us, expires_us, limit, workspace_id, used_us)


# ------------------------------------------------------------------ accounts


def put_user(tx: Transaction, user: User, by: Actor | str = "") -> None:
    if not user.name:
        raise InvalidParameter("user", "A user needs a name.")
    before = tx.rows(ACCOUNT, (user.name,))
    tx.rows(PUT_ACCOUNT, (user.name, int(user.role), user.password_hash, user.created_us))
    tx.rows(RAISE_ACCESS)
    if not before:
        record(tx, by, "add user", user.name, f"role: {user.role.word}")
        return
    changes = []
    if before[0][1] != user.role:
        changes.append(f"role: {Role(before[0][1]).word} -> {user.role.word}")
    if before[0][2] != user.password_hash:
        changes.append("password")
    record(tx, by, "change user", user.name, "; ".join(changes))


def renew_password_hash(tx: Transaction, name: str, before: str, after: str) -> None:
    """Nothing if the password was changed meanwhile, or the user removed."""
    if tx.rows(RENEW_HASH, (name, before, after)):
        record(tx, Actor(name), "change user", name, "hash of the password renewed")


def delete_user(tx: Transaction, name: str, by: Actor | str = "") -> None:
    """Remove a user with its tokens, sessions and grants. Raises NotFound."""
    for statement in OF_ACCOUNT:
        tx.rows(statement, (name,))
    if not name or not tx.rows(DELETE_ACCOUNT, (name,)):
        raise NotFound("user", f"There is no user '{name[:200]}'.")
    tx.rows(RAISE_ACCESS)
    record(tx, by, "delete user", name)


# ------------------------------------------------------------------ tokens


def put_token(tx: Transaction, token: Token, by: Actor | str = "") -> None:
    """Raises NotFound for an unknown user."""
    if not tx.rows(ACCOUNT, (token.user,)):
        raise NotFound("user", f"There is no user '{token.user[:200]}'.")
    role = None if token.role is None else int(token.role)
    tx.rows(
        PUT_TOKEN,
        (token.digest, token.user, token.label, token.created_us, token.expires_us, role, token.workspace_id),
    )
    tx.rows(RAISE_ACCESS)
    scope = "" if token.role is None else f"at most {token.role.word}; "
    record(tx, by, "create token", f"{token.user}/{token.digest[:12]}", f"{scope}label: {token.label}",
           token.workspace_id)  # fmt: skip


def delete_token(tx: Transaction, digest: str, by: Actor | str = "") -> None:
    """Raises NotFound."""
    rows = tx.rows(DELETE_TOKEN, (digest,))
    if not rows:
        raise NotFound("token", "There is no token with this digest.")
    tx.rows(DELETE_TOKEN_USE, (digest,))
    tx.rows(RAISE_ACCESS)
    record(tx, by, "revoke token", f"{rows[0][0]}/{digest[:12]}", f"label: {rows[0][1]}")


def note_uses(tx: Transaction, tokens: Mapping[str, int], sessions: Mapping[str, int]) -> None:
    """Keep when tokens and sessions were last used; those that are gone are left out."""
    tx.many(NOTE_USE, list(tokens.items()))
    tx.many(NOTE_SEEN, list(sessions.items()))


# ------------------------------------------------------------------ sessions


def put_session(tx: Transaction, session: Session, by: Actor | str = "") -> None:
    """Raises NotFound for an unknown user. Sessions that have ended go."""
    if not tx.rows(ACCOUNT, (session.user,)):
        raise NotFound("user", f"There is no user '{session.user[:200]}'.")
    tx.rows(DELETE_ENDED, (tx.now_us,))
    ((count,),) = tx.rows(SESSIONS_OF, (session.user,))
    if count >= MAX_SESSIONS:
        tx.rows(DELETE_OLDEST, (session.user, count - MAX_SESSIONS + 1))
        tx.rows(RAISE_ACCESS)
    tx.rows(PUT_SESSION, (session.digest, session.user, session.created_us, session.expires_us, session.seen_us))
    record(tx, by, "sign in", session.user)


def delete_session(tx: Transaction, digest: str, by: Actor | str = "") -> None:
    """Nothing if it is gone already."""
    rows = tx.rows(DELETE_SESSION, (digest,))
    if rows:
        tx.rows(RAISE_ACCESS)
        record(tx, by, "sign out", rows[0][0])


def delete_sessions(tx: Transaction, user: str, but: str = "") -> None:
    """All sessions of a user, but one."""
    tx.rows(DELETE_OTHERS, (user, but))
    tx.rows(RAISE_ACCESS)


# ------------------------------------------------------------------ grants


def put_grant(tx: Transaction, grant: Grant, by: Actor | str = "") -> None:
    """Create or replace. Raises NotFound for an unknown workspace or dataset, InvalidParameter."""
    scope = grant.scope
    name = _require(tx, scope)
    if not grant.principal.startswith("oidc:") and grant.principal and not tx.rows(ACCOUNT, (grant.principal,)):
        raise NotFound("principal", f"There is no user '{grant.principal[:200]}'.")
    before = tx.rows(GRANT, (grant.principal, *scope))
    tx.rows(PUT_GRANT, (grant.principal, *scope, int(grant.role), tx.now_us))
    _raise(tx, grant)
    old = f"{Role(before[0][0]).word} -> " if before else ""
    record(tx, by, "grant role", grant.principal or "anonymous", f"{old}{grant.role.word} on {name}",
           scope.workspace_id)  # fmt: skip


def delete_grant(tx: Transaction, principal: str, scope: Scope, by: Actor | str = "") -> None:
    """Raises NotFound."""
    rows = tx.rows(DELETE_GRANT, (principal, *scope))
    if not rows:
        raise NotFound("principal", f"'{(principal or 'anonymous')[:200]}' holds no role there.")
    _raise(tx, Grant(principal, scope, Role.NOTHING))
    where = scope.kind and f"{scope.kind} {scope.id}"
    record(tx, by, "revoke role", principal or "anonymous", f"{Role(rows[0][0]).word} on {where or 'the workspace'}",
           scope.workspace_id)  # fmt: skip


def _raise(tx: Transaction, grant: Grant) -> None:
    """What everybody is granted is part of the workspace's catalogue, which every request looks at; what a user is
    granted, of what is remembered of the user."""
    if grant.principal:
        tx.rows(RAISE_ACCESS)
    else:
        raise_generation(tx, grant.scope.workspace_id)


_NAMES: Final = {
    "procedure": "SELECT identifier FROM procedure WHERE workspace_id = ? AND id = ?",
    "offering": "SELECT identifier FROM offering WHERE workspace_id = ? AND id = ?",
    "stream": "SELECT name FROM event_stream WHERE workspace_id = ? AND id = ?",
    "layer": "SELECT name FROM layer WHERE workspace_id = ? AND id = ?",
    "package": "SELECT name FROM package WHERE workspace_id = ? AND id = ?",
    "table": "SELECT uuid FROM package_resource WHERE workspace_id = ? AND id = ?",
}
_WORKSPACE: Final = "SELECT name FROM workspace WHERE id = ?"


def _require(tx: Transaction, scope: Scope) -> str:
    """What the scope is called. Raises NotFound, InvalidParameter."""
    rows: list[tuple[Any, ...]] = tx.rows(_WORKSPACE, (scope.workspace_id,))
    if not rows:
        raise NotFound("workspace", f"There is no workspace with the number {scope.workspace_id}.")
    if not scope.kind:
        return f"the workspace {rows[0][0]}"
    if scope.kind not in DATASET_KINDS:
        raise InvalidParameter(
            "kind", f"'{scope.kind[:40]}' is no kind of dataset; kinds are {', '.join(DATASET_KINDS)}."
        )
    if scope.kind in _NAMES:
        rows = tx.rows(_NAMES[scope.kind], (scope.workspace_id, scope.id))
        if not rows:
            raise NotFound(scope.kind, f"There is no {scope.kind} with the number {scope.id}.")
        return f"the {scope.kind} {rows[0][0]}"
    return f"the {scope.kind} {scope.id}"
