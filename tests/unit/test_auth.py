"""Credentials, passwords, tokens, roles, and the service that turns a header into a principal."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, cast

import pytest
from argon2 import PasswordHasher

from thalweg.auth.credentials import Basic, Bearer, parse_authorization
from thalweg.auth.passwords import MAX_PBKDF2_ROUNDS, Passwords, new_password
from thalweg.auth.policy import Action, may, require
from thalweg.auth.sessions import MAX_COOKIE, cookie_name, cookie_value, csrf_token, is_csrf_token
from thalweg.auth.tokens import new_token, token_digest
from thalweg.domain.access import (
    Actor,
    AuditEntry,
    AuditQuery,
    Grant,
    Principal,
    Resource,
    Role,
    Scope,
    Session,
    Token,
    User,
)
from thalweg.domain.catalogue import Workspace
from thalweg.domain.errors import (
    AlreadyExists,
    InvalidParameter,
    NotFound,
    PermissionDenied,
    StoreUnavailable,
    TooManyTries,
    Unauthenticated,
)
from thalweg.services.access import Access
from thalweg.settings import Settings


def done(value: Any = None) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


class MemoryAccounts:
    """Accounts kept in dictionaries."""

    def __init__(self) -> None:
        self.by_name: dict[str, User] = {}
        self.by_digest: dict[str, Token] = {}
        self.sessions: dict[str, Session] = {}
        self.held: list[Grant] = []
        self.entries: list[AuditEntry] = []
        self.used: dict[str, int] = {}
        self.generation = 1
        self.lookups = 0

    def workspaces(self) -> dict[str, Workspace]:
        return {"default": Workspace(1, "", "default"), "lakes": Workspace(2, "", "lakes")}

    def users(self) -> list[User]:
        return list(self.by_name.values())

    def user(self, name: str) -> User | None:
        self.lookups += 1
        return self.by_name.get(name)

    def put_user(self, user: User, *, by: Actor | str = "") -> Future[None]:
        self.by_name[user.name] = user
        self.generation += 1
        return done()

    def renew_password_hash(self, name: str, before: str, after: str) -> Future[None]:
        if self.by_name[name].password_hash == before:
            self.by_name[name] = replace(self.by_name[name], password_hash=after)
        return done()

    def delete_user(self, name: str, *, by: Actor | str = "") -> Future[None]:
        del self.by_name[name]
        self.by_digest = {d: t for d, t in self.by_digest.items() if t.user != name}
        self.generation += 1
        return done()

    def tokens(self) -> list[Token]:
        return list(self.by_digest.values())

    def token(self, digest: str) -> Token | None:
        return self.by_digest.get(digest)

    def put_token(self, token: Token, *, by: Actor | str = "") -> Future[None]:
        self.by_digest[token.digest] = token
        self.generation += 1
        return done()

    def delete_token(self, digest: str, *, by: Actor | str = "") -> Future[None]:
        del self.by_digest[digest]
        self.generation += 1
        return done()

    def session(self, digest: str) -> Session | None:
        return self.sessions.get(digest)

    def put_session(self, session: Session, *, by: Actor | str = "") -> Future[None]:
        self.sessions[session.digest] = session
        return done()

    def delete_session(self, digest: str, *, by: Actor | str = "") -> Future[None]:
        self.sessions.pop(digest, None)
        self.generation += 1
        return done()

    def delete_sessions(self, user: str, *, but: str = "") -> Future[None]:
        self.sessions = {d: s for d, s in self.sessions.items() if s.user != user or d == but}
        self.generation += 1
        return done()

    def note_uses(self, tokens: Mapping[str, int], sessions: Mapping[str, int]) -> Future[None]:
        self.used.update(tokens)
        for digest, seen_us in sessions.items():
            if digest in self.sessions:
                self.sessions[digest] = replace(self.sessions[digest], seen_us=seen_us)
        return done()

    def grants(self, principal: str | None = None) -> list[Grant]:
        return [grant for grant in self.held if principal in (None, grant.principal)]

    def put_grant(self, grant: Grant, *, by: Actor | str = "") -> Future[None]:
        self.held.append(grant)
        self.generation += 1
        return done()

    def delete_grant(self, principal: str, scope: Scope, *, by: Actor | str = "") -> Future[None]:
        self.held = [grant for grant in self.held if (grant.principal, grant.scope) != (principal, scope)]
        self.generation += 1
        return done()

    def access_generation(self) -> int:
        return self.generation

    def audit(self, query: AuditQuery) -> list[AuditEntry]:
        return self.entries[::-1]

    def append_audit(self, entries: Sequence[AuditEntry]) -> Future[None]:
        self.entries += entries
        return done()

    def delete_audit(self, before_us: int, *, limit: int = 1000) -> Future[int]:
        return done(0)


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


@pytest.fixture
def accounts() -> MemoryAccounts:
    return MemoryAccounts()


# Cheap, so that tests about other things than hashing take milliseconds.
QUICK = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)


@pytest.fixture
def access(accounts: MemoryAccounts) -> Access:
    return Access(accounts, Settings(), Passwords(hasher=QUICK))


# ---------------------------------------------------------------- header


def test_basic_credentials_keep_colons_and_other_letters() -> None:
    assert parse_authorization(basic("ann", "a:b:ç€")) == Basic("ann", "a:b:ç€")
    assert parse_authorization("bAsIc   " + basic("ann", "").split()[1]) == Basic("ann", "")
    latin = base64.b64encode("ann:ç".encode("latin-1")).decode()
    assert parse_authorization(f"Basic {latin}") == Basic("ann", "ç")


def test_bearer_token_and_no_header() -> None:
    assert parse_authorization("Bearer tw_abc-_~+/==") == Bearer("tw_abc-_~+/==")
    assert parse_authorization("") is None


@pytest.mark.parametrize(
    "header",
    [
        " ",
        "Basic",
        "Basic ",
        "Basic !!!!",
        "Basic YW5u",  # ann, without colon
        "Basic OnNlY3JldA==",  # empty name
        "Basic YQBiOmM=",  # a NUL in the name
        "Basic YW5uOmEKYg==",  # a line feed in the password
        "Basic YW5uOg",  # padding missing
        "Bearer",
        "Bearer a b",
        "Bearer ",
        "Bearer tök",
        "Digest username=x",
        "tw_token",
        "Basic " + "A" * 5000,
        "Bearer " + "a" * 2000,
        "\udcff\udcff",
    ],
)
def test_malformed_headers_are_unauthenticated_and_not_repeated(header: str) -> None:
    with pytest.raises(Unauthenticated) as caught:
        parse_authorization(header)
    value = header.partition(" ")[2].strip()
    assert not value or value not in caught.value.message


def test_credentials_do_not_show_their_secret() -> None:
    assert "hunter2" not in repr(Basic("ann", "hunter2"))
    assert "hunter2" not in repr(Bearer("hunter2"))


# ---------------------------------------------------------------- roles


@pytest.mark.parametrize(
    ("action", "least"),
    [
        (Action.READ, Role.VIEWER),
        (Action.INSERT, Role.DATA_MANAGER),
        (Action.REGISTER, Role.NETWORK_MANAGER),
        (Action.ADMINISTER, Role.ADMIN),
    ],
)
def test_each_action_needs_its_role(action: Action, least: Role) -> None:
    for role in Role:
        known, anonymous = Principal("ann", role), Principal("", role)
        assert may(known, action) is may(anonymous, action) is (role >= least)
        if role >= least:
            require(known, action)
            require(anonymous, action)
        else:
            with pytest.raises(PermissionDenied, match="'ann' may not"):
                require(known, action)
            with pytest.raises(Unauthenticated, match="Credentials are needed to"):
                require(anonymous, action)


# ---------------------------------------------------------------- passwords and tokens


def test_password_hash_is_argon2id_and_verifies_only_its_password() -> None:
    passwords = Passwords()
    stored = passwords.hash("correct horse")
    assert stored.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert passwords.hash("correct horse") != stored
    assert passwords.verify(stored, "correct horse")
    assert not passwords.verify(stored, "correct horse ")
    assert not passwords.verify("no hash", "correct horse")
    assert not passwords.verify(None, "correct horse")


@pytest.mark.parametrize("password", ["", "1234567", "x" * 1025, "é" * 513])
def test_passwords_too_short_or_too_long_are_refused(password: str) -> None:
    with pytest.raises(InvalidParameter, match=r"at least 8 characters and at most 1,024 bytes"):
        Passwords().hash(password)


def test_password_over_the_limit_is_wrong_at_no_cost() -> None:
    class Never:
        def verify(self, stored: str, password: str) -> bool:
            raise AssertionError("it was hashed")

    passwords = Passwords(hasher=cast(Any, Never()))
    assert not passwords.verify("$argon2id$v=19$m=65536,t=3,p=4$AAAAAAAA$AAAAAAAA", "x" * 1_000_000)


def test_hashings_at_once_are_bounded_and_the_wait_too() -> None:
    passwords = Passwords(concurrency=1, wait_s=0.05)
    with passwords.turn(), pytest.raises(StoreUnavailable, match="Too many passwords") as caught:
        passwords.hash("long enough")
    assert caught.value.retry_after_s == 5
    assert passwords.hash("long enough")


def test_new_secrets_are_random_and_recognisable() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(t.startswith("tw_") and len(t) == 46 for t in tokens)
    assert len({new_password() for _ in range(100)}) == 100
    # From sha256sum.
    assert token_digest("tw_x") == "e7bf685cd967d021d20f02f8bae69732d544734802e859d70e3dbe10ab4c1f02"


# ---------------------------------------------------------------- access


def test_no_header_is_anonymous_with_the_role_of_the_setting(accounts: MemoryAccounts) -> None:
    for role in (Role.NOTHING, Role.VIEWER):
        access = Access(accounts, Settings(anonymous_role=role))
        assert access.quick("") == access.authenticate("") == Principal("", role)


def test_right_password_gives_the_principal_and_is_remembered(access: Access, accounts: MemoryAccounts) -> None:
    access.add_user("ann", Role.DATA_MANAGER, "correct horse")
    header = basic("ann", "correct horse")
    assert access.quick(header) is None
    assert access.authenticate(header) == Principal("ann", Role.DATA_MANAGER)
    assert access.quick(header) == Principal("ann", Role.DATA_MANAGER)
    assert access.quick(basic("ann", "correct horsf")) is None
    started = time.process_time()
    for _ in range(100):
        access.quick(header)
    assert time.process_time() - started < 0.05


def test_a_hash_with_old_parameters_is_renewed_at_a_good_sign_in_alone(accounts: MemoryAccounts) -> None:
    old = PasswordHasher(time_cost=1, memory_cost=32, parallelism=1)
    Access(accounts, Settings(), Passwords(hasher=old)).add_user("ann", Role.VIEWER, "correct horse")
    before = accounts.by_name["ann"].password_hash
    assert "m=32," in before
    # One hashing at a time: renewing takes no second turn.
    today = Access(accounts, Settings(), Passwords(hasher=QUICK, concurrency=1, wait_s=0.1))
    generation = accounts.generation
    with pytest.raises(Unauthenticated):
        today.authenticate(basic("ann", "wrong horse"))
    assert accounts.by_name["ann"].password_hash == before
    assert today.authenticate(basic("ann", "correct horse")).name == "ann"
    after = accounts.by_name["ann"].password_hash
    assert "m=64," in after
    assert QUICK.verify(after, "correct horse")
    assert accounts.generation == generation
    assert accounts.by_name["ann"].role is Role.VIEWER
    today.sign_in("ann", "correct horse", by=Actor("ann"))
    assert accounts.by_name["ann"].password_hash == after


# What CKAN 2.12 made of the password "longpassword1".
OF_CKAN = (
    "$pbkdf2-sha512$25000$qTUGIGRMiVFKyZlTSskZow$"
    "hmgR3KyjEib.PQG23Jis2HGg5./pR0p9QQEreKWGKcrsa2ChyEeXAFlCD/QoGQJp.voXFt5Vr84ESZDNvzzBGA"
)


def test_a_hash_of_ckan_is_verified_and_renewed_at_the_first_sign_in(accounts: MemoryAccounts) -> None:
    access = Access(accounts, Settings(), Passwords(hasher=QUICK))
    access.add_user("ann", Role.VIEWER, "", password_hash=OF_CKAN)
    assert accounts.by_name["ann"].password_hash == OF_CKAN
    with pytest.raises(Unauthenticated):
        access.authenticate(basic("ann", "longpassword2"))
    assert access.authenticate(basic("ann", "longpassword1")).name == "ann"
    assert QUICK.verify(accounts.by_name["ann"].password_hash, "longpassword1")
    assert access.authenticate(basic("ann", "longpassword1")).name == "ann"
    access.set_password_hash("ann", OF_CKAN)
    assert accounts.by_name["ann"].password_hash == OF_CKAN
    # A sign-in must not take minutes, and a text that is no hash would let nobody in.
    assert MAX_PBKDF2_ROUNDS == 1_000_000
    cut = OF_CKAN.replace("Zow$", "Zo$")
    for wrong in (OF_CKAN.replace("25000", "1000001"), OF_CKAN[:-1], cut, "$6$x$y", "longpassword1"):
        with pytest.raises(InvalidParameter, match=r"pbkdf2-sha512"):
            access.add_user("bob", Role.VIEWER, "", password_hash=wrong)
    assert "bob" not in accounts.by_name


def test_a_hash_that_cannot_be_written_keeps_nobody_out(
    accounts: MemoryAccounts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    old = PasswordHasher(time_cost=1, memory_cost=32, parallelism=1)
    Access(accounts, Settings(), Passwords(hasher=old)).add_user("ann", Role.VIEWER, "correct horse")
    failed: Future[None] = Future()
    failed.set_exception(StoreUnavailable("The disk is full."))
    monkeypatch.setattr(accounts, "renew_password_hash", lambda *_: failed)
    today = Access(accounts, Settings(), Passwords(hasher=QUICK))
    assert today.authenticate(basic("ann", "correct horse")).name == "ann"
    assert "could not be renewed" in caplog.text
    assert "horse" not in caplog.text


def test_wrong_password_and_unknown_user_are_refused_alike(accounts: MemoryAccounts) -> None:
    access = Access(accounts, Settings())
    access.add_user("ann", Role.ADMIN, "correct horse")
    access.prepare()
    messages, seconds = set(), []
    for name in ("ann", "bob"):
        started = time.process_time()
        with pytest.raises(Unauthenticated) as caught:
            access.authenticate(basic(name, "wrong horse"))
        seconds.append(time.perf_counter() - started)
        messages.add(caught.value.message)
    assert len(messages) == 1
    # Generous for a busy machine; without the decoy an unknown user takes a thousandth.
    assert 0.2 < seconds[0] / seconds[1] < 5


def test_bad_credentials_are_never_anonymous(accounts: MemoryAccounts) -> None:
    access = Access(accounts, Settings(anonymous_role=Role.ADMIN))
    for header in (basic("x", "y" * 10), "Bearer tw_unknown", "Nonsense", "Basic %%%"):
        with pytest.raises(Unauthenticated):
            access.authenticate(header)
        assert access.quick(header) is None


def test_any_change_of_accounts_ends_what_is_remembered(access: Access, accounts: MemoryAccounts) -> None:
    access.add_user("ann", Role.ADMIN, "correct horse")
    access.add_user("bob", Role.VIEWER, "battery staple")
    header = basic("ann", "correct horse")
    access.authenticate(header)
    access.set_password("ann", "another horse")
    assert access.quick(header) is None
    with pytest.raises(Unauthenticated):
        access.authenticate(header)
    bob = basic("bob", "battery staple")
    access.authenticate(bob)
    # Done by another process: only the generation tells.
    accounts.by_name.pop("bob")
    accounts.generation += 1
    assert access.quick(bob) is None
    with pytest.raises(Unauthenticated):
        access.authenticate(bob)


def test_change_during_a_verification_is_not_remembered_over(access: Access, accounts: MemoryAccounts) -> None:
    access.add_user("ann", Role.ADMIN, "correct horse")
    header = basic("ann", "correct horse")
    original = accounts.user

    def changing(name: str) -> User | None:
        found = original(name)
        accounts.generation += 1
        return found

    accounts.user = changing  # type: ignore[method-assign]
    access.authenticate(header)
    accounts.user = original  # type: ignore[method-assign]
    assert access.quick(header) is None


def test_memory_ends_in_time_and_is_bounded(accounts: MemoryAccounts) -> None:
    access = Access(accounts, Settings(remembered_login_s=0.2, remembered_logins=2), Passwords(hasher=QUICK))
    access.add_user("ann", Role.ADMIN, "correct horse")
    headers = [f"Bearer {access.create_token('ann', str(i))}" for i in range(3)]
    for header in headers:
        access.authenticate(header)
    assert [access.quick(header) is not None for header in headers] == [False, True, True]
    time.sleep(0.25)
    assert [access.quick(header) for header in headers] == [None] * 3


def test_a_password_in_use_is_not_hashed_again_and_again(
    accounts: MemoryAccounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = 1_000.0
    monkeypatch.setattr("thalweg.services.access.time.monotonic", lambda: clock)
    access = Access(accounts, Settings(), Passwords(hasher=QUICK))
    access.add_user("ann", Role.ADMIN, "correct horse")
    password, token = basic("ann", "correct horse"), f"Bearer {access.create_token('ann', '')}"
    access.authenticate(password)
    access.authenticate(token)
    for _ in range(79):
        clock += 45
        assert access.quick(password) == Principal("ann", Role.ADMIN)
    assert access.quick(token) is None  # which costs no hashing
    # After an hour it is, and after a minute without use.
    clock += 46
    assert access.quick(password) is None
    access.authenticate(password)
    clock += 61
    assert access.quick(password) is None
    access.authenticate(password)
    clock += 45
    assert access.quick(password) is not None
    access.add_user("bob", Role.VIEWER, "correct horse")
    assert access.quick(password) is None


def test_parallel_requests_with_one_password_hash_it_little(accounts: MemoryAccounts) -> None:
    access = Access(accounts, Settings())
    access.add_user("ann", Role.ADMIN, "correct horse")
    accounts.lookups = 0
    results: list[Principal] = []
    threads = [
        threading.Thread(target=lambda: results.append(access.authenticate(basic("ann", "correct horse"))))
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [Principal("ann", Role.ADMIN)] * 12
    assert accounts.lookups <= 3


def test_token_acts_as_its_user_until_revoked(access: Access, accounts: MemoryAccounts) -> None:
    access.add_user("ann", Role.DATA_MANAGER, "correct horse")
    token = access.create_token("ann", "logger 7")
    stored = accounts.tokens()[0]
    assert (stored.digest, stored.user, stored.label) == (token_digest(token), "ann", "logger 7")
    assert token not in repr(stored)
    header = f"Bearer {token}"
    assert access.authenticate(header) == access.quick(header) == Principal("ann", Role.DATA_MANAGER)
    access.revoke_token(stored.digest[:12])
    assert access.quick(header) is None
    with pytest.raises(Unauthenticated, match="unknown, revoked or expired"):
        access.authenticate(header)


def test_token_ends_at_its_expiry_also_in_memory(access: Access) -> None:
    access.add_user("ann", Role.VIEWER, "correct horse")
    token = access.create_token("ann", "", time.time_ns() // 1000 + 300_000)
    header = f"Bearer {token}"
    assert access.authenticate(header).name == "ann"
    assert access.quick(header) is not None
    time.sleep(0.35)
    assert access.quick(header) is None
    with pytest.raises(Unauthenticated):
        access.authenticate(header)


def test_token_of_a_removed_user_is_refused(access: Access, accounts: MemoryAccounts) -> None:
    access.add_user("ann", Role.VIEWER, "correct horse")
    token = access.create_token("ann", "")
    kept = accounts.tokens()[0]
    access.remove_user("ann")
    accounts.put_token(kept)
    with pytest.raises(Unauthenticated):
        access.authenticate(f"Bearer {token}")


def test_tokens_are_checked_when_made_and_named_without_doubt_when_revoked(
    access: Access, accounts: MemoryAccounts
) -> None:
    access.add_user("ann", Role.VIEWER, "correct horse")
    with pytest.raises(NotFound, match="'bob'"):
        access.create_token("bob", "")
    with pytest.raises(InvalidParameter, match="expired already"):
        access.create_token("ann", "", 1)
    with pytest.raises(InvalidParameter, match="at most 200"):
        access.create_token("ann", "x" * 201)
    for tail in ("aa", "bb"):
        accounts.put_token(Token("12345678" + tail, "ann", "", 1))
    with pytest.raises(InvalidParameter, match="2 tokens begin"):
        access.revoke_token("12345678")
    with pytest.raises(NotFound):
        access.revoke_token("1234567")
    with pytest.raises(NotFound):
        access.revoke_token("")
    assert access.revoke_token("12345678A").digest == "12345678aa"
    token = access.create_token("ann", "")
    assert access.revoke_token(token).digest == token_digest(token)


def test_first_administrator_is_made_once(access: Access, accounts: MemoryAccounts) -> None:
    password = access.ensure_administrator()
    assert password is not None
    assert access.authenticate(basic("admin", password)) == Principal("admin", Role.ADMIN)
    assert access.ensure_administrator() is None
    assert len(accounts.users()) == 1


def test_last_administrator_stays(access: Access) -> None:
    access.add_user("ann", Role.ADMIN, "correct horse")
    for change in (
        lambda: access.remove_user("ann"),
        lambda: access.set_password("ann", "correct horse", role=Role.VIEWER),
        lambda: access.set_role("ann", Role.VIEWER),
    ):
        with pytest.raises(InvalidParameter, match="last administrator"):
            change()
    access.add_user("bob", Role.ADMIN, "correct horse")
    access.set_password("ann", "correct horse", role=Role.VIEWER)
    with pytest.raises(InvalidParameter, match="last administrator"):
        access.remove_user("bob")


def test_role_changes_without_the_password(access: Access, accounts: MemoryAccounts) -> None:
    access.add_user("ann", Role.VIEWER, "correct horse")
    header = basic("ann", "correct horse")
    assert access.authenticate(header).role is Role.VIEWER
    access.set_role("ann", Role.NETWORK_MANAGER)
    assert access.quick(header) is None
    assert access.authenticate(header).role is Role.NETWORK_MANAGER
    with pytest.raises(NotFound):
        access.set_role("bob", Role.ADMIN)


@pytest.mark.parametrize("name", ["", "a:b", "a b", "-a", "é", "a" * 65, "a\n", "../x", "a/b", "<b>"])
def test_names_that_cannot_be_sent_or_shown_are_refused(access: Access, name: str) -> None:
    with pytest.raises(InvalidParameter, match="cannot be a user's name"):
        access.add_user(name, Role.VIEWER, "correct horse")


def test_accounts_are_not_overwritten_or_made_by_accident(access: Access) -> None:
    access.add_user("ann.o@x-1", Role.ADMIN, "correct horse")
    with pytest.raises(AlreadyExists, match=r"'ann\.o@x-1'"):
        access.add_user("ann.o@x-1", Role.VIEWER, "another horse")
    with pytest.raises(NotFound, match="'bob'"):
        access.set_password("bob", "correct horse")
    with pytest.raises(NotFound, match="'bob'"):
        access.remove_user("bob")
    access.set_password("bob", "correct horse", role=Role.VIEWER)
    assert [u.role for u in access.users()] == [Role.ADMIN, Role.VIEWER]


# ---------------------------------------------------------------- roles, limits, sessions, tries


def test_principal_holds_its_grants(access: Access, accounts: MemoryAccounts) -> None:
    access.add_user("ann", Role.NOTHING, "correct horse")
    header = basic("ann", "correct horse")
    assert access.authenticate(header) == Principal("ann", Role.NOTHING, Role.VIEWER)
    access.grant("ann", Scope(1), Role.DATA_MANAGER)
    assert access.quick(header) is None
    assert dict(access.authenticate(header).grants) == {Scope(1): Role.DATA_MANAGER}
    access.revoke("ann", Scope(1))
    assert access.authenticate(header).grants == {}
    for principal, scope, role in (
        ("ann", Scope(), Role.VIEWER),
        ("", Scope(1), Role.ADMIN),
        ("", Scope(1), Role.NETWORK_MANAGER),
        ("ann", Scope(1), Role.NOTHING),
    ):
        with pytest.raises(InvalidParameter):
            access.grant(principal, scope, role)


def test_token_gives_no_more_than_its_limits(access: Access, accounts: MemoryAccounts) -> None:
    access.add_user("ann", Role.NETWORK_MANAGER, "correct horse")
    access.grant("ann", Scope(1, "procedure", 5), Role.ADMIN)

    def holds(**limits: Any) -> Principal:
        return access.authenticate(f"Bearer {access.create_token('ann', '', **limits)}")

    assert holds().role is Role.NETWORK_MANAGER
    reading = holds(role=Role.VIEWER)
    assert (reading.role, dict(reading.grants)) == (Role.VIEWER, {Scope(1, "procedure", 5): Role.VIEWER})
    assert holds(role=Role.ADMIN).role is Role.NETWORK_MANAGER
    there = holds(workspace_id=1)
    assert there.role is Role.NOTHING
    assert dict(there.grants) == {Scope(1): Role.NETWORK_MANAGER, Scope(1, "procedure", 5): Role.ADMIN}
    assert not may(there, Action.ADMINISTER)
    assert may(there, Action.READ, Resource(2)), "as an anonymous caller may"
    assert not may(there, Action.READ, Resource(2, "procedure", 1, False))
    assert dict(holds(workspace_id=2, role=Role.DATA_MANAGER).grants) == {Scope(2): Role.DATA_MANAGER}
    assert access.authenticate(basic("ann", "correct horse")).role is Role.NETWORK_MANAGER


def test_demoting_a_user_demotes_its_tokens(access: Access) -> None:
    access.add_user("ann", Role.ADMIN, "correct horse")
    access.add_user("bob", Role.ADMIN, "correct horse")
    header = f"Bearer {access.create_token('ann', '', role=Role.ADMIN)}"
    assert access.authenticate(header).role is Role.ADMIN
    access.set_role("ann", Role.VIEWER)
    assert access.quick(header) is None
    assert access.authenticate(header).role is Role.VIEWER


def test_bare_token_is_taken_where_the_door_says_so_and_a_bad_one_is_anonymous(access: Access) -> None:
    access.add_user("ann", Role.DATA_MANAGER, "correct horse")
    token = access.create_token("ann", "")
    assert access.authenticate(token, bare=True).name == "ann"
    assert access.quick(token, "", True) == Principal("ann", Role.DATA_MANAGER)
    assert access.authenticate(f"Bearer {token}", bare=True).name == "ann"
    assert access.authenticate("tw_unknown", bare=True).is_anonymous
    # Elsewhere it is malformed, although it is remembered.
    assert access.quick(token) is None
    with pytest.raises(Unauthenticated):
        access.authenticate(token)
    with pytest.raises(Unauthenticated):
        access.authenticate(basic("ann", "wrong horse"), bare=True)


def test_use_of_a_token_is_noted_in_the_background(access: Access, accounts: MemoryAccounts) -> None:
    access.add_user("ann", Role.VIEWER, "correct horse")
    token = access.create_token("ann", "")
    before = time.time_ns() // 1000
    for _ in range(5):
        access.authenticate(f"Bearer {token}")
    assert accounts.used == {}
    access.maintain()
    assert before <= accounts.used[token_digest(token)] <= time.time_ns() // 1000


def test_session_stands_for_its_user_until_it_ends(accounts: MemoryAccounts) -> None:
    access = Access(accounts, Settings(session_idle_s=100, session_lifetime_s=1000), Passwords(hasher=QUICK))
    access.add_user("ann", Role.DATA_MANAGER, "correct horse")
    text = access.open_session("ann")
    (stored,) = accounts.sessions.values()
    assert text not in repr(stored)
    assert stored.expires_us - stored.created_us == 1000 * 10**6
    principal = access.authenticate("", text)
    assert (principal, principal.via) == (Principal("ann", Role.DATA_MANAGER), "session")
    assert access.quick("", text) == principal
    # A header counts first, a good or a bad one.
    with pytest.raises(Unauthenticated):
        access.authenticate("Bearer tw_unknown", text)
    assert access.authenticate("", "unknown").is_anonymous
    access.close_session(text)
    assert access.quick("", text) is None
    assert access.authenticate("", text).is_anonymous
    accounts.sessions = {}
    access.maintain()
    for changes in ({"expires_us": 1}, {"seen_us": stored.seen_us - 101 * 10**6}):
        accounts.sessions = {stored.digest: replace(stored, **changes)}
        assert access.authenticate("", text).is_anonymous
    accounts.sessions = {stored.digest: replace(stored, seen_us=stored.seen_us - 90 * 10**6)}
    assert access.authenticate("", text).name == "ann"
    access.maintain()
    assert accounts.sessions[stored.digest].seen_us >= stored.seen_us


def test_new_password_ends_other_sessions(access: Access) -> None:
    access.add_user("ann", Role.VIEWER, "correct horse")
    mine, other = access.open_session("ann"), access.open_session("ann")
    by = Actor("ann", "192.0.2.1")
    with pytest.raises(InvalidParameter) as caught:
        access.change_password("ann", "wrong horse", "better horse", keep=mine, by=by)
    assert caught.value.parameter == "old"
    access.change_password("ann", "correct horse", "better horse", keep=mine, by=by)
    assert access.authenticate("", mine).name == "ann"
    assert access.authenticate("", other).is_anonymous
    assert access.authenticate(basic("ann", "better horse")).name == "ann"
    access.set_password("ann", "third horse!")
    assert access.authenticate("", mine).is_anonymous


def test_wrong_passwords_are_counted_by_name_and_address_and_logged(access: Access, accounts: MemoryAccounts) -> None:
    access.add_user("ann", Role.VIEWER, "correct horse")
    wrong, right = basic("ann", "wrong horse"), basic("ann", "correct horse")
    for _ in range(5):
        with pytest.raises(Unauthenticated):
            access.authenticate(wrong, address="192.0.2.1", request_id="r-7")
    lookups = accounts.lookups
    with pytest.raises(TooManyTries) as caught:
        access.authenticate(right, address="192.0.2.1")
    assert caught.value.retry_after_s in (1, 2)
    assert accounts.lookups == lookups, "nothing is hashed"
    assert access.authenticate(right, address="192.0.2.2").name == "ann"
    with pytest.raises(Unauthenticated):
        access.authenticate(basic("hunter2-typed-as-name", "x" * 10), address="192.0.2.3")
    access.maintain()
    noted = [(e.action, e.object, e.actor.address) for e in accounts.entries]
    assert noted == [
        *[("sign in failed", "ann", "192.0.2.1")] * 5,
        ("sign in", "ann", "192.0.2.2"),
        ("sign in failed", "(unknown user)", "192.0.2.3"),
    ]
    assert accounts.entries[0].actor.request == "r-7"
    assert "hunter2" not in repr(accounts.entries)
    assert "horse" not in repr(accounts.entries)


def test_flood_of_failures_does_not_fill_the_log(accounts: MemoryAccounts) -> None:
    access = Access(accounts, Settings(login_tries=1000), Passwords(hasher=QUICK))
    for number in range(300):
        with pytest.raises(Unauthenticated):
            access.authenticate(basic(f"n{number}", "wrong horse"), address=f"10.0.0.{number % 250}")
    access.maintain()
    # A minute may end in between.
    assert 120 <= len(accounts.entries) <= 241


def test_client_that_sends_its_password_each_time_signs_in_once_an_hour(accounts: MemoryAccounts) -> None:
    access = Access(accounts, Settings(remembered_login_s=0), Passwords(hasher=QUICK))
    access.add_user("ann", Role.VIEWER, "correct horse")
    for _ in range(3):
        access.authenticate(basic("ann", "correct horse"), address="192.0.2.1")
    access.maintain()
    assert [e.action for e in accounts.entries] == ["sign in"]


def test_cookies_are_read_within_bounds() -> None:
    header = "a=b; thalweg-session=tw; other=x=y; thalweg-session=second"
    assert cookie_value(header, "thalweg-session") == "tw"
    assert cookie_value(header, "other") == "x=y"
    assert cookie_value(header, "session") == ""
    assert cookie_value("thalweg-session=" + "x" * 129, "thalweg-session") == ""
    room = MAX_COOKIE - len("thalweg-session=x")
    assert cookie_value(" " * room + "thalweg-session=x", "thalweg-session") == "x"
    assert cookie_value(" " * (room + 1) + "thalweg-session=x", "thalweg-session") == ""
    assert cookie_name(True).startswith("__Host-")


def test_csrf_token_belongs_to_one_session() -> None:
    token = csrf_token("session one")
    assert is_csrf_token(token, "session one")
    assert not is_csrf_token(token, "session two")
    assert not is_csrf_token("", "session one")
    assert not is_csrf_token("é\udcff", "session one")
    assert "session" not in token


def test_sign_ins_that_could_not_be_written_are_written_later(
    access: Access, accounts: MemoryAccounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Unauthenticated):
        access.authenticate(basic("ann", "wrong horse"), address="192.0.2.1")

    def full(entries: Sequence[AuditEntry]) -> Future[None]:
        future: Future[None] = Future()
        future.set_exception(StoreUnavailable("The disk is full."))
        return future

    with monkeypatch.context() as patch:
        patch.setattr(accounts, "append_audit", full)
        access.maintain()
    assert accounts.entries == []
    access.maintain()
    assert [e.action for e in accounts.entries] == ["sign in failed"]
