"""Who makes a request: credentials in, principal out; accounts and tokens."""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final

from thalweg.auth.credentials import Basic, parse_authorization
from thalweg.auth.passwords import Passwords, new_password
from thalweg.auth.tokens import new_token, token_digest
from thalweg.domain.access import Principal, Role, Token, User
from thalweg.domain.errors import AlreadyExists, InvalidParameter, NotFound, StoreUnavailable, Unauthenticated
from thalweg.domain.store import AccessStore
from thalweg.settings import Settings

FIRST_ADMINISTRATOR: Final = "admin"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
_WRITE_TIMEOUT_S: Final = 60.0


class Access:
    """Accounts of one store. May be called from any thread.

    Verified credentials are remembered for ``remembered_login_s`` under a keyed digest of the header, so that hashing
    is paid once a minute by each client; any change of accounts or tokens, by whichever process, voids them all.
    """

    def __init__(self, store: AccessStore, settings: Settings, passwords: Passwords | None = None) -> None:
        self._store = store
        self._anonymous = Principal("", settings.anonymous_role)
        self._passwords = passwords or Passwords(concurrency=settings.login_concurrency, wait_s=settings.login_wait_s)
        self._memory = _Memory(settings.remembered_logins, settings.remembered_login_s)

    # ------------------------------------------------------------ requests

    def quick(self, authorization: str) -> Principal | None:
        """The caller, if known without hashing: no header, or credentials remembered. None: call ``authenticate``.

        Takes some microseconds; fit for an event loop.
        """
        if not authorization:
            return self._anonymous
        return self._memory.get(authorization, self._store.access_generation())

    def authenticate(self, authorization: str) -> Principal:
        """The caller. May take a second; not for an event loop.

        authorization  value of the Authorization header, empty if there is none: anonymous, with ``anonymous_role``
        raises         Unauthenticated for bad credentials, whatever anonymous callers may do; the same text for an
                       unknown user and a wrong password; StoreUnavailable if too many hashings wait
        """
        credentials = parse_authorization(authorization)
        if credentials is None:
            return self._anonymous
        # Read before the account is: a change in between makes what is remembered void from the start.
        generation = self._store.access_generation()
        if isinstance(credentials, Basic):
            with self._passwords.turn():
                # Parallel requests with the same credentials: the first ones paid for those that waited.
                remembered = self._memory.get(authorization, generation)
                if remembered is not None:
                    return remembered
                user = self._store.user(credentials.name)
                if not self._passwords.verify(None if user is None else user.password_hash, credentials.password):
                    user = None
            if user is None:
                raise Unauthenticated("User name or password is wrong.")
            principal = Principal(user.name, user.role)
            self._memory.put(authorization, generation, principal, None)
            return principal
        token = self._store.token(token_digest(credentials.token))
        now_us = time.time_ns() // 1000
        if token is None or (token.expires_us is not None and token.expires_us <= now_us):
            raise Unauthenticated("The token is unknown, revoked or expired.")
        user = self._store.user(token.user)
        if user is None:
            raise Unauthenticated("The token is unknown, revoked or expired.")
        principal = Principal(user.name, user.role)
        left_s = None if token.expires_us is None else (token.expires_us - now_us) / 1e6
        self._memory.put(authorization, generation, principal, left_s)
        return principal

    def prepare(self) -> None:
        """Make the first sign-in of an unknown user take as long as later ones. Takes a hashing's time."""
        self._passwords.prepare()

    # ------------------------------------------------------------ accounts

    def ensure_administrator(self) -> str | None:
        """On a store without any account, make the user ``admin`` and return its password; else None."""
        if self._store.users():
            return None
        password = new_password()
        self.add_user(FIRST_ADMINISTRATOR, Role.ADMIN, password)
        return password

    def users(self) -> Sequence[User]:
        return self._store.users()

    def add_user(self, name: str, role: Role, password: str) -> None:
        """Create an account. InvalidParameter ``name``, ``password``; AlreadyExists ``name``."""
        if not _NAME.fullmatch(name):
            raise InvalidParameter(
                "name",
                f"'{name[:80]}' cannot be a user's name: it must have 1 to 64 of the letters A-Z, digits and . _ @ -, "
                "and begin with a letter or digit.",
            )
        if self._store.user(name) is not None:
            raise AlreadyExists("name", f"There is a user '{name}' already.")
        self._put(name, role, password)

    def set_password(self, name: str, password: str, *, role: Role | None = None) -> None:
        """Give a user a new password and, if said, a new role; a user not there yet is created if a role is given.

        raises  NotFound ``name``; InvalidParameter ``password``, ``role`` (the last administrator cannot be demoted)
        """
        user = self._store.user(name)
        if user is None:
            if role is None:
                raise NotFound("name", f"There is no user '{name[:80]}'.")
            self.add_user(name, role, password)
            return
        if role is not None and role < Role.ADMIN:
            self._keep_an_administrator(user, "demoted")
        self._put(name, user.role if role is None else role, password, user.created_us)

    def set_role(self, name: str, role: Role) -> None:
        """Give a user another role; its password and tokens stay.

        raises  NotFound ``name``; InvalidParameter ``name`` (the last administrator cannot be demoted)
        """
        user = self._store.user(name)
        if user is None:
            raise NotFound("name", f"There is no user '{name[:80]}'.")
        if role < Role.ADMIN:
            self._keep_an_administrator(user, "demoted")
        _done(self._store.put_user(replace(user, role=role)))

    def remove_user(self, name: str) -> None:
        """Remove a user and its tokens. NotFound ``name``; InvalidParameter for the last administrator."""
        user = self._store.user(name)
        if user is None:
            raise NotFound("name", f"There is no user '{name[:80]}'.")
        self._keep_an_administrator(user, "removed")
        _done(self._store.delete_user(name))

    def _put(self, name: str, role: Role, password: str, created_us: int | None = None) -> None:
        created_us = time.time_ns() // 1000 if created_us is None else created_us
        _done(self._store.put_user(User(name, role, self._passwords.hash(password), created_us)))

    def _keep_an_administrator(self, user: User, verb: str) -> None:
        if user.role is Role.ADMIN and sum(u.role is Role.ADMIN for u in self._store.users()) < 2:
            raise InvalidParameter("name", f"'{user.name}' is the last administrator and cannot be {verb}.")

    # ------------------------------------------------------------ tokens

    def tokens(self) -> Sequence[Token]:
        return self._store.tokens()

    def create_token(self, user: str, label: str, expires_us: int | None = None) -> str:
        """Create a token that acts as the user, and return its text, which is not stored.

        label       what it is for, up to 200 characters
        expires_us  instant after which it is refused, microseconds UTC; None: never
        raises      NotFound ``user``; InvalidParameter ``label``, ``expires``
        """
        if self._store.user(user) is None:
            raise NotFound("user", f"There is no user '{user[:80]}'.")
        if len(label) > 200 or any(ord(letter) < 32 for letter in label):
            raise InvalidParameter("label", "A label must have at most 200 characters, without control characters.")
        now_us = time.time_ns() // 1000
        if expires_us is not None and expires_us <= now_us:
            raise InvalidParameter("expires", "The token would have expired already.")
        token = new_token()
        _done(self._store.put_token(Token(token_digest(token), user, label, now_us, expires_us)))
        return token

    def revoke_token(self, key: str) -> Token:
        """Remove a token, named by its text or by the first digits (at least 8) of its digest.

        raises  NotFound ``token``; InvalidParameter if several begin so
        """
        digest = token_digest(key)
        if self._store.token(digest) is None and len(key) >= 8:
            matches = [t for t in self._store.tokens() if t.digest.startswith(key.lower())]
            if len(matches) > 1:
                raise InvalidParameter("token", f"{len(matches)} tokens begin with '{key[:64]}'; give more digits.")
            digest = matches[0].digest if matches else digest
        token = self._store.token(digest)
        if token is None:
            raise NotFound("token", "There is no such token; list them with: thalweg token list")
        _done(self._store.delete_token(digest))
        return token


class _Memory:
    """Verified credentials by keyed digest; never the credentials themselves."""

    def __init__(self, size: int, keep_s: float) -> None:
        self._size = size
        self._keep_s = keep_s
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._generation = -1
        self._entries: dict[bytes, tuple[Principal, float]] = {}

    def _digest(self, authorization: str) -> bytes:
        return hashlib.blake2b(
            authorization.encode("utf-8", "surrogatepass"), key=self._key, digest_size=16
        ).digest()  # fmt: skip

    def get(self, authorization: str, generation: int) -> Principal | None:
        if generation != self._generation:
            return None
        entry = self._entries.get(self._digest(authorization))
        if entry is None or entry[1] <= time.monotonic():
            return None
        return entry[0]

    def put(self, authorization: str, generation: int, principal: Principal, left_s: float | None) -> None:
        """Remember for the usual time, but no longer than ``left_s`` seconds."""
        keep_s = self._keep_s if left_s is None else min(self._keep_s, left_s)
        if keep_s <= 0:
            return
        now = time.monotonic()
        with self._lock:
            if generation < self._generation:
                return
            if generation > self._generation:
                # A new mapping, not a cleared one: a reader may hold the old one.
                self._entries = {}
                self._generation = generation
            if len(self._entries) >= self._size:
                self._entries = {k: e for k, e in self._entries.items() if e[1] > now}
                while len(self._entries) >= self._size:
                    self._entries.pop(next(iter(self._entries)))
            self._entries[self._digest(authorization)] = (principal, now + keep_s)


def _done(future: Future[Any]) -> None:
    """Wait until a change is durable. StoreUnavailable if that takes more than a minute."""
    try:
        future.result(_WRITE_TIMEOUT_S)
    except TimeoutError:
        raise StoreUnavailable("The change was not confirmed in time; look whether it was made.") from None
