"""Who makes a request: credentials in, principal out."""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from typing import Final, NamedTuple, Protocol

from thalweg.auth.credentials import Basic, parse_authorization, parse_bare
from thalweg.auth.identity import looks_signed
from thalweg.auth.passwords import Passwords
from thalweg.auth.sessions import session_digest
from thalweg.auth.throttle import Throttle
from thalweg.auth.tokens import token_digest
from thalweg.auth.tries import Tries
from thalweg.domain.access import NO_GRANTS, Actor, AuditEntry, Principal, Role, Scope, Session, Token, User
from thalweg.domain.bounded import Bounded
from thalweg.domain.catalogue import Workspace
from thalweg.domain.errors import InvalidParameter, ThalwegError, Unauthenticated
from thalweg.domain.store import AccessStore
from thalweg.domain.time import DAY_US
from thalweg.services.accounts import FIRST_ADMINISTRATOR, Accounts, done, now_us
from thalweg.services.identity import Provider, provider_of
from thalweg.settings import Settings

__all__ = ["FIRST_ADMINISTRATOR", "Access", "Accounts"]

logger = logging.getLogger(__name__)

MAX_NOTES: Final = 120
"""Most sign-ins that a process writes to the audit log in a minute; of further ones their number alone."""
SIGN_IN_AGAIN_S: Final = 3600.0
"""A client that sends its password with each request signs in once an hour, as far as the audit log is concerned."""
MAX_KNOWN: Final = 10_000
TRIM_S: Final = 3600.0
"""How often old lines of the audit log are removed."""
TRIM_ROWS: Final = 1000
# What no header can hold sets apart what is remembered of other ways to say who one is.
_BARE: Final = "\0bare "
_SESSION: Final = "\0session "


class AccessSource(AccessStore, Protocol):
    """What is asked of a store here."""

    def workspaces(self) -> Mapping[str, Workspace]: ...


class Access(Accounts):
    """Accounts, and the callers of requests. May be called from any thread.

    Verified credentials are remembered for ``remembered_login_s`` under a keyed digest of what was sent, so that
    hashing is not paid with each request; a password that comes again within that time is, for an hour, or all who send
    it with many requests at once would wait together for a hashing every minute. Any change of accounts, tokens or
    roles, by whichever process, voids them all.

    provider    for tests; else what the settings say
    tries       where failed sign-ins are counted; else in this process alone
    """

    def __init__(
        self,
        store: AccessSource,
        settings: Settings,
        passwords: Passwords | None = None,
        provider: Provider | None = None,
        tries: Tries | None = None,
    ) -> None:
        super().__init__(store, settings, passwords)
        self._workspaces = store
        self._anonymous = Principal("", settings.anonymous_role)
        self._memory = _Memory(settings.remembered_logins, settings.remembered_login_s)
        self._throttle = Throttle(settings.login_tries, settings.login_delay_s, tries)
        self._provider = provider_of(settings) if provider is None else provider
        self._notes = _Notes()
        self._uses_lock = threading.Lock()
        self._token_uses: dict[str, int] = {}
        self._session_uses: dict[str, int] = {}
        self._trimmed_s = -TRIM_S

    # ------------------------------------------------------------ requests

    def quick(self, authorization: str, session: str = "", bare: bool = False) -> Principal | None:
        """The caller, if known without hashing: no credentials, or remembered ones. None: call ``authenticate``.

        Takes some microseconds; fit for an event loop. Arguments as of ``authenticate``.
        """
        if authorization:
            key = _BARE + authorization if bare else authorization
        elif session:
            key = _SESSION + session
        else:
            return self._anonymous
        return self._memory.get(key, self._store.access_generation())

    def authenticate(
        self, authorization: str, session: str = "", bare: bool = False, address: str = "", request_id: str = ""
    ) -> Principal:
        """The caller. May take a second; not for an event loop.

        authorization  value of the Authorization header, empty if there is none
        session        the session cookie's value, which counts where there is no header; one that has ended, or is
                       unknown, is an anonymous caller: a browser sends it without being asked
        bare           whether the header may hold a token alone, a bad one being an anonymous caller (CKAN)
        address        of the client, for bounded tries and the audit log
        raises         Unauthenticated for bad credentials, whatever anonymous callers may do; the same text for an
                       unknown user and a wrong password; TooManyTries; StoreUnavailable if too many hashings wait, or
                       the identity provider's keys cannot be had
        """
        # Read before the account is: a change in between makes what is remembered void from the start.
        generation = self._store.access_generation()
        if not authorization:
            return self._by_session(session, generation) if session else self._anonymous
        if bare and (alone := parse_bare(authorization)) is not None:
            try:
                principal, left_s = self._by_bearer(alone.token, address, request_id)
            except Unauthenticated:
                return self._anonymous
            self._memory.put(_BARE + authorization, generation, principal, left_s)
            return principal
        credentials = parse_authorization(authorization)
        if credentials is None:
            return self._anonymous
        if isinstance(credentials, Basic):
            return self._by_password(credentials, authorization, generation, address, request_id)
        principal, left_s = self._by_bearer(credentials.token, address, request_id)
        self._memory.put(authorization, generation, principal, left_s)
        return principal

    def _by_password(
        self, given: Basic, authorization: str, generation: int, address: str, request_id: str
    ) -> Principal:
        self._throttle.check(given.name, address)
        with self._passwords.turn():
            # Parallel requests with the same credentials: the first ones paid for those that waited.
            remembered = self._memory.get(authorization, generation)
            if remembered is not None:
                return remembered
            user = self._verified(given.name, given.password, Actor("", address, request_id, "", "Basic"))
        principal = self._principal(user.name, user.role, "password")
        self._memory.put(authorization, generation, principal, None, SIGN_IN_AGAIN_S)
        self._notes.sign_in(Actor(user.name, address, request_id, "", "Basic"))
        return principal

    def sign_in(self, name: str, password: str, *, by: Actor) -> User:
        """The user, if the password is right: for forms. Raises Unauthenticated, TooManyTries, StoreUnavailable."""
        self._throttle.check(name, by.address)
        with self._passwords.turn():
            return self._verified(name, password, by)

    def _verified(self, name: str, password: str, by: Actor) -> User:
        """Within a turn: the user whose password it is. Raises Unauthenticated, TooManyTries."""
        # Again: others of the same name may have failed meanwhile.
        self._throttle.check(name, by.address)
        user = self._store.user(name)
        if not self._passwords.verify(None if user is None else user.password_hash, password) or user is None:
            count = self._throttle.failed(name, by.address)
            # What is no user's name may be a password typed into the wrong field.
            self._notes.failure(by, name if user is not None else "(unknown user)", count)
            raise Unauthenticated("User name or password is wrong.")
        self._throttle.succeeded(name, by.address)
        self._renew(user, password)
        return user

    def _renew(self, user: User, password: str) -> None:
        """Within a turn: keep the password hashed as it is done today. That it cannot be written keeps nobody out."""
        renewed = self._passwords.renewed(user.password_hash, password)
        if renewed is not None:
            try:
                self._store.renew_password_hash(user.name, user.password_hash, renewed).add_done_callback(_told)
            except ThalwegError as error:
                logger.warning("a password's hash could not be renewed: %s", error.message)

    def change_password(self, name: str, old: str, new: str, *, keep: str = "", by: Actor) -> None:
        """A user's own change of password, who has to know the old one; tries of it are bounded, too.

        keep    the text of a session that stays; the user's others end
        raises  InvalidParameter ``old``, ``password``; TooManyTries, StoreUnavailable
        """
        try:
            user = self.sign_in(name, old, by=by)
        except Unauthenticated:
            raise InvalidParameter("old", "The password given as the present one is wrong.") from None
        self._put(name, user.role, new, user.created_us, by=by)
        done(self._store.delete_sessions(name, but=session_digest(keep) if keep else ""))

    def _by_bearer(self, text: str, address: str, request_id: str) -> tuple[Principal, float | None]:
        """The principal, and how many seconds it may be remembered at most."""
        if self._provider is not None and looks_signed(text):
            name, role, workspaces, until = self._provider.identify(text)
            principal = self._principal(name, role, "provider", extra=self._scopes(workspaces))
            self._notes.sign_in(Actor(name, address, request_id, "", "provider"))
            return principal, until - time.time()
        token = self._store.token(token_digest(text))
        now = now_us()
        user = None
        if token is not None and (token.expires_us is None or token.expires_us > now):
            user = self._store.user(token.user)
        if token is None or user is None:
            raise Unauthenticated("The token is unknown, revoked or expired.")
        with self._uses_lock:
            self._token_uses[token.digest] = now
        left_s = None if token.expires_us is None else (token.expires_us - now) / 1e6
        return self._limited(self._principal(user.name, user.role, "token"), token), left_s

    def _by_session(self, text: str, generation: int) -> Principal:
        session = self.session(text)
        user = None if session is None else self._store.user(session.user)
        if session is None or user is None:
            return self._anonymous
        now = now_us()
        with self._uses_lock:
            self._session_uses[session.digest] = now
        principal = self._principal(user.name, user.role, "session")
        self._memory.put(_SESSION + text, generation, principal, (session.expires_us - now) / 1e6)
        return principal

    def session(self, text: str) -> Session | None:
        """The session of a cookie's text, if it has not ended."""
        session = self._store.session(session_digest(text))
        now = now_us()
        if session is None or session.expires_us <= now:
            return None
        idle_s = (now - max(session.seen_us, self._session_uses.get(session.digest, 0))) / 1e6
        # Uses are noted about once a minute.
        return session if idle_s <= self._settings.session_idle_s else None

    # ------------------------------------------------------------ principals

    def _principal(self, name: str, role: Role, via: str, extra: Mapping[Scope, Role] = NO_GRANTS) -> Principal:
        grants = dict(extra)
        for grant in self._store.grants(name):
            grants[grant.scope] = max(grant.role, grants.get(grant.scope, grant.role))
        guest = self._anonymous.role
        return Principal(name, role, guest if guest > role else Role.NOTHING, grants or NO_GRANTS, via)

    def _limited(self, principal: Principal, token: Token) -> Principal:
        """What a token gives of its user's rights."""
        if token.role is None and not token.workspace_id:
            return principal
        most = Role.ADMIN if token.role is None else token.role
        role = min(principal.role, most)
        grants = {scope: min(held, most) for scope, held in principal.grants.items()}
        if token.workspace_id:
            whole = Scope(token.workspace_id)
            grants = {scope: held for scope, held in grants.items() if scope.workspace_id == token.workspace_id}
            grants[whole] = max(role, grants.get(whole, role))
            role = Role.NOTHING
        guest = self._anonymous.role
        return Principal(principal.name, role, guest if guest > role else Role.NOTHING, grants, principal.via)

    def workspace_names(self) -> dict[int, str]:
        """Names of workspaces by id."""
        return {workspace.id: name for name, workspace in self._workspaces.workspaces().items()}

    def _scopes(self, workspaces: Mapping[str, Role]) -> dict[Scope, Role]:
        """Roles by name of workspace as roles by scope; workspaces that are not there are left out."""
        if not workspaces:
            return {}
        known = self._workspaces.workspaces()
        return {Scope(known[name].id): role for name, role in workspaces.items() if name in known}

    # ------------------------------------------------------------ background

    def prepare(self) -> None:
        """Make the first sign-in of an unknown user take as long as later ones. Takes a hashing's time."""
        self._passwords.prepare()

    def maintain(self) -> None:
        """Keep when tokens were used and who signed in, and remove old lines of the audit log. About once a second."""
        with self._uses_lock:
            tokens, self._token_uses = self._token_uses, {}
            sessions, self._session_uses = self._session_uses, {}
        notes = self._notes.take()
        try:
            if tokens or sessions:
                self._store.note_uses(tokens, sessions)
            if notes:
                self._store.append_audit(notes).add_done_callback(partial(self._notes.written, notes))
            days = self._settings.audit_keep_days
            if days and time.monotonic() - self._trimmed_s > TRIM_S:
                removed = done(self._store.delete_audit(now_us() - days * DAY_US, limit=TRIM_ROWS))
                if removed < TRIM_ROWS:
                    self._trimmed_s = time.monotonic()
        except ThalwegError as error:
            logger.warning("who signed in could not be written down: %s", error.message)


def _told(future: Future[None]) -> None:
    error = future.exception()
    if error is not None:
        logger.warning("a password's hash could not be renewed: %s", error)


class _Notes:
    """Sign-ins for the audit log, so many a minute."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[AuditEntry] = []
        self._minute = 0
        self._count = 0
        self._dropped = 0
        self._signed_in: Bounded[tuple[str, str, str], float] = Bounded(MAX_KNOWN)

    def sign_in(self, by: Actor) -> None:
        """A sign-in that succeeded, unless the same was noted within the hour."""
        key = (by.name, by.address, by.operation)
        now = time.monotonic()
        with self._lock:
            before = self._signed_in.get(key)
            if before is not None and now - before < SIGN_IN_AGAIN_S:
                return
            self._signed_in.put(key, now)
            self._add(by, "sign in", by.name, "")

    def failure(self, by: Actor, name: str, count: int) -> None:
        with self._lock:
            self._add(by, "sign in failed", name, f"failure {count} from this address")

    def _add(self, by: Actor, action: str, what: str, detail: str) -> None:
        now = now_us()
        minute = now // 60_000_000
        if minute != self._minute:
            self._minute, self._count = minute, 0
        self._count += 1
        if self._count > MAX_NOTES:
            self._dropped += 1
        else:
            self._waiting.append(AuditEntry(now, 0, by, action, what, 0, detail))

    def written(self, notes: list[AuditEntry], future: Future[None]) -> None:
        """Keep what could not be written for the next time, so much of it as one minute may have."""
        if not future.cancelled() and future.exception() is not None:
            with self._lock:
                self._waiting = (notes + self._waiting)[:MAX_NOTES]

    def take(self) -> list[AuditEntry]:
        """What waits, and how many were left out once the minute is over."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            now = now_us()
            if self._dropped and now // 60_000_000 != self._minute:
                detail = f"{self._dropped:,} further sign-ins of that minute, most of them failures"
                waiting.append(AuditEntry(now, 0, Actor(), "sign in failed", "(many)", 0, detail))
                self._dropped = 0
        return waiting


class _Remembered(NamedTuple):
    """Whom credentials are known to be of. until, last: by the monotonic clock, that of a use and that of all."""

    principal: Principal
    until: float
    last: float


class _Memory:
    """Verified credentials by keyed digest; never the credentials themselves."""

    def __init__(self, size: int, keep_s: float) -> None:
        self._size = size
        self._keep_s = keep_s
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._generation = -1
        self._entries: dict[bytes, _Remembered] = {}

    def _digest(self, authorization: str) -> bytes:
        return hashlib.blake2b(
            authorization.encode("utf-8", "surrogatepass"), key=self._key, digest_size=16
        ).digest()  # fmt: skip

    def get(self, authorization: str, generation: int) -> Principal | None:
        if generation != self._generation:
            return None
        entries = self._entries
        digest = self._digest(authorization)
        entry = entries.get(digest)
        now = time.monotonic()
        if entry is None or entry.until <= now:
            return None
        if entry.until < entry.last and entry.until - now < self._keep_s / 2:
            with self._lock:
                # Not where others have been put, or this one removed, meanwhile.
                if entries.get(digest) is entry:
                    entries[digest] = entry._replace(until=min(now + self._keep_s, entry.last))
        return entry.principal

    def put(
        self, authorization: str, generation: int, principal: Principal, left_s: float | None, used_s: float = 0.0
    ) -> None:
        """Remember for the usual time, but no longer than ``left_s`` seconds.

        used_s  how long use makes that time begin anew
        """
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
                self._entries = {k: e for k, e in self._entries.items() if e.until > now}
                while len(self._entries) >= self._size:
                    self._entries.pop(next(iter(self._entries)))
            until = now + keep_s
            self._entries[self._digest(authorization)] = _Remembered(principal, until, max(until, now + used_s))
