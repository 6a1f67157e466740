"""Accounts, tokens, roles and sessions: what administrators and users change of them."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final

from thalweg.auth.passwords import MAX_PBKDF2_ROUNDS, Passwords, is_foreign_hash, new_password
from thalweg.auth.sessions import new_session, session_digest
from thalweg.auth.tokens import new_token, token_digest
from thalweg.domain.access import ANONYMOUS, Actor, AuditEntry, AuditQuery, Grant, Role, Scope, Session, Token, User
from thalweg.domain.errors import AlreadyExists, InvalidParameter, NotFound, StoreUnavailable
from thalweg.domain.store import AccessStore
from thalweg.settings import Settings

FIRST_ADMINISTRATOR: Final = "admin"
MAX_TOKENS: Final = 1000
"""Most tokens of one user."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
_WRITE_TIMEOUT_S: Final = 60.0
_RESERVED_NAMES: Final = frozenset(("anonymous",))
"""What commands and documents call those without credentials."""


class Accounts:
    """Accounts of one store. May be called from any thread; changes wait until they are durable."""

    def __init__(self, store: AccessStore, settings: Settings, passwords: Passwords | None = None) -> None:
        self._store = store
        self._settings = settings
        self._passwords = passwords or Passwords(concurrency=settings.login_concurrency, wait_s=settings.login_wait_s)

    # ------------------------------------------------------------ users

    def ensure_administrator(self) -> str | None:
        """On a store without any account, make the user ``admin`` and return its password; else None."""
        if self._store.users():
            return None
        password = new_password()
        self.add_user(FIRST_ADMINISTRATOR, Role.ADMIN, password, by=Actor(door="command", operation="first start"))
        return password

    def users(self) -> Sequence[User]:
        return self._store.users()

    def add_user(self, name: str, role: Role, password: str, *, password_hash: str = "", by: Actor | str = "") -> None:
        """Create an account.

        password_hash  in place of a password the hash of one, as CKAN keeps it; it is another at the first sign-in
        raises         InvalidParameter ``name``, ``password``, ``password_hash``; AlreadyExists ``name``
        """
        if not _NAME.fullmatch(name):
            raise InvalidParameter(
                "name",
                f"'{name[:80]}' cannot be a user's name: it must have 1 to 64 of the letters A-Z, digits and . _ @ -, "
                "and begin with a letter or digit.",
            )
        if name.lower() in _RESERVED_NAMES:
            raise InvalidParameter("name", f"'{name}' stands for callers without credentials; choose another name.")
        if self._store.user(name) is not None:
            raise AlreadyExists("name", f"There is a user '{name}' already.")
        self._put(name, role, password, password_hash=password_hash, by=by)

    def set_password_hash(self, name: str, password_hash: str, *, by: Actor | str = "") -> None:
        """Give a user the password that a hash is of, as CKAN keeps it. Its sessions end, its tokens stay.

        raises  NotFound ``name``; InvalidParameter ``password_hash``
        """
        user = self._store.user(name)
        if user is None:
            raise NotFound("name", f"There is no user '{name[:80]}'.")
        self._put(name, user.role, "", user.created_us, password_hash=password_hash, by=by)
        done(self._store.delete_sessions(name))

    def set_password(self, name: str, password: str, *, role: Role | None = None, by: Actor | str = "") -> None:
        """Give a user a new password and, if said, a new role; a user not there yet is created if a role is given.
        Its sessions end, its tokens stay.

        raises  NotFound ``name``; InvalidParameter ``password``, ``role`` (the last administrator cannot be demoted)
        """
        user = self._store.user(name)
        if user is None:
            if role is None:
                raise NotFound("name", f"There is no user '{name[:80]}'.")
            self.add_user(name, role, password, by=by)
            return
        if role is not None and role < Role.ADMIN:
            self._keep_an_administrator(user, "demoted")
        self._put(name, user.role if role is None else role, password, user.created_us, by=by)
        done(self._store.delete_sessions(name))

    def set_role(self, name: str, role: Role, *, by: Actor | str = "") -> None:
        """Give a user another role; its password and tokens stay.

        raises  NotFound ``name``; InvalidParameter ``name`` (the last administrator cannot be demoted)
        """
        user = self._store.user(name)
        if user is None:
            raise NotFound("name", f"There is no user '{name[:80]}'.")
        if role < Role.ADMIN:
            self._keep_an_administrator(user, "demoted")
        done(self._store.put_user(replace(user, role=role), by=by))

    def remove_user(self, name: str, *, by: Actor | str = "") -> None:
        """Remove a user with tokens, sessions and roles. NotFound ``name``; InvalidParameter for the last
        administrator."""
        user = self._store.user(name)
        if user is None:
            raise NotFound("name", f"There is no user '{name[:80]}'.")
        self._keep_an_administrator(user, "removed")
        done(self._store.delete_user(name, by=by))

    def _put(
        self,
        name: str,
        role: Role,
        password: str,
        created_us: int | None = None,
        *,
        password_hash: str = "",
        by: Actor | str = "",
    ) -> None:
        if password_hash and not is_foreign_hash(password_hash):
            raise InvalidParameter("password_hash", "Only hashes that begin with $pbkdf2-sha512$ are taken, of at most "
                                   f"{MAX_PBKDF2_ROUNDS:,} rounds.")  # fmt: skip
        created_us = now_us() if created_us is None else created_us
        stored = password_hash or self._passwords.hash(password)
        done(self._store.put_user(User(name, role, stored, created_us), by=by))

    def _keep_an_administrator(self, user: User, verb: str) -> None:
        if user.role is Role.ADMIN and sum(u.role is Role.ADMIN for u in self._store.users()) < 2:
            raise InvalidParameter("name", f"'{user.name}' is the last administrator and cannot be {verb}.")

    # ------------------------------------------------------------ tokens

    def tokens(self, user: str | None = None) -> Sequence[Token]:
        """All tokens, or those of one user."""
        return [token for token in self._store.tokens() if user in (None, token.user)]

    def create_token(
        self,
        user: str,
        label: str,
        expires_us: int | None = None,
        *,
        role: Role | None = None,
        workspace_id: int = 0,
        by: Actor | str = "",
    ) -> str:
        """Create a token that acts as the user, and return its text, which is not stored.

        label         what it is for, up to 200 characters
        expires_us    instant after which it is refused, microseconds UTC; None: never
        role          the most it may do; None: as its user
        workspace_id  where alone it counts; 0: everywhere
        raises        NotFound ``user``; InvalidParameter ``label``, ``expires``; AlreadyExists: too many
        """
        if self._store.user(user) is None:
            raise NotFound("user", f"There is no user '{user[:80]}'.")
        if len(label) > 200 or any(ord(letter) < 32 or ord(letter) == 127 for letter in label):
            raise InvalidParameter("label", "A label must have at most 200 characters, without control characters.")
        now = now_us()
        if expires_us is not None and expires_us <= now:
            raise InvalidParameter("expires", "The token would have expired already.")
        if len(self.tokens(user)) >= MAX_TOKENS:
            raise AlreadyExists("user", f"'{user}' has {MAX_TOKENS:,} tokens already; revoke some first.")
        text = new_token()
        token = Token(token_digest(text), user, label, now, expires_us, role, workspace_id)
        done(self._store.put_token(token, by=by))
        return text

    def revoke_token(self, key: str, *, user: str | None = None, by: Actor | str = "") -> Token:
        """Remove a token, named by its text or by the first digits (at least 8) of its digest.

        user    None: whosever it is; else only one of that user
        raises  NotFound ``token``; InvalidParameter if several begin so
        """
        digest = token_digest(key)
        if self._store.token(digest) is None and len(key) >= 8:
            matches = [t for t in self.tokens(user) if t.digest.startswith(key.lower())]
            if len(matches) > 1:
                raise InvalidParameter("token", f"{len(matches)} tokens begin with '{key[:64]}'; give more digits.")
            digest = matches[0].digest if matches else digest
        token = self._store.token(digest)
        if token is None or user not in (None, token.user):
            raise NotFound("token", "There is no such token; list them with: thalweg token list")
        done(self._store.delete_token(digest, by=by))
        return token

    # ------------------------------------------------------------ roles

    def grants(self) -> Sequence[Grant]:
        return self._store.grants()

    def grant(self, principal: str, scope: Scope, role: Role, *, by: Actor | str = "") -> None:
        """Have a user, or everybody (``ANONYMOUS``), hold a role for a workspace or dataset, in place of the one held
        there until now.

        raises  NotFound: the user, the workspace, the dataset; InvalidParameter: a role for the server as a whole,
                which is the account's own (``set_role``) and, of everybody, the setting ``anonymous_role``; a role that
                nobody unknown should hold
        """
        if not scope.workspace_id:
            raise InvalidParameter("workspace", "A role for the server as a whole is the account's own, or the setting "
                                   "anonymous_role.")  # fmt: skip
        if principal == ANONYMOUS and role >= Role.NETWORK_MANAGER:
            raise InvalidParameter("role", f"Everybody cannot be {role.word}.")
        if role is Role.NOTHING:
            raise InvalidParameter("role", "A role adds to others and takes none away: revoke the one that is held.")
        done(self._store.put_grant(Grant(principal, scope, role), by=by))

    def revoke(self, principal: str, scope: Scope, *, by: Actor | str = "") -> None:
        """Take away the role that is held for exactly this. NotFound."""
        done(self._store.delete_grant(principal, scope, by=by))

    # ------------------------------------------------------------ sessions

    def open_session(self, user: str, *, by: Actor | str = "") -> str:
        """Sign a browser in; the text of its cookie, which is not stored. A new one at each sign-in."""
        text = new_session()
        now = now_us()
        expires_us = now + int(self._settings.session_lifetime_s * 1e6)
        done(self._store.put_session(Session(session_digest(text), user, now, expires_us, now), by=by))
        return text

    def close_session(self, text: str, *, by: Actor | str = "") -> None:
        """Sign a browser out, whatever copies of its cookie there are."""
        done(self._store.delete_session(session_digest(text), by=by))

    # ------------------------------------------------------------ audit

    def audit(self, query: AuditQuery) -> Sequence[AuditEntry]:
        """Lines of the audit log, newest first."""
        return self._store.audit(query)


def now_us() -> int:
    return time.time_ns() // 1000


def done(future: Future[Any]) -> Any:
    """Wait until a change is durable. StoreUnavailable if that takes more than a minute."""
    try:
        return future.result(_WRITE_TIMEOUT_S)
    except TimeoutError:
        raise StoreUnavailable("The change was not confirmed in time; look whether it was made.") from None
