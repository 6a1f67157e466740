"""Accounts and tokens."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace

import pytest
from tests.store.support import T0, WAIT_S, Backend, block, insert, register

from thalweg.domain.access import Role, Token, User
from thalweg.domain.errors import NotFound
from thalweg.domain.store import Store

ANNA = User("anna", Role.ADMIN, "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ$aGFzaA", T0)
BOB = User("bob é", Role.VIEWER, "$argon2id$other", T0 + 1)
TOKEN = Token("ab" * 32, "anna", "station Lugano", T0, T0 + 10**12)
LASTING = Token("cd" * 32, "bob é", "", T0)


def test_new_store_has_neither(store: Store) -> None:
    assert store.users() == []
    assert store.tokens() == []
    assert store.user("anna") is None
    assert store.token("ab" * 32) is None


def test_users_are_made_replaced_and_removed(store: Store) -> None:
    store.put_user(ANNA).result(WAIT_S)
    store.put_user(BOB).result(WAIT_S)
    assert sorted(store.users(), key=lambda u: u.name) == [ANNA, BOB]
    assert store.user("bob é") == BOB
    assert store.user("Anna") is None
    changed = replace(ANNA, role=Role.DATA_MANAGER, password_hash="$argon2id$new")
    store.put_user(changed).result(WAIT_S)
    assert store.user("anna") == changed
    assert len(store.users()) == 2
    store.delete_user("anna").result(WAIT_S)
    assert store.users() == [BOB]
    with pytest.raises(NotFound):
        store.delete_user("anna").result(WAIT_S)


def test_tokens_are_made_and_removed_and_go_with_their_user(store: Store) -> None:
    for user in (ANNA, BOB):
        store.put_user(user).result(WAIT_S)
    second = replace(TOKEN, digest="ef" * 32)
    for token in (TOKEN, LASTING, second):
        store.put_token(token).result(WAIT_S)
    assert {t.digest: t for t in store.tokens()} == {t.digest: t for t in (TOKEN, LASTING, second)}
    assert store.token(TOKEN.digest) == TOKEN
    assert store.token(LASTING.digest) == LASTING
    store.delete_token(TOKEN.digest).result(WAIT_S)
    assert store.token(TOKEN.digest) is None
    with pytest.raises(NotFound):
        store.delete_token(TOKEN.digest).result(WAIT_S)
    store.delete_user("anna").result(WAIT_S)
    assert store.tokens() == [LASTING]


def test_replacing_a_user_keeps_its_tokens(store: Store) -> None:
    store.put_user(ANNA).result(WAIT_S)
    store.put_token(TOKEN).result(WAIT_S)
    store.put_user(replace(ANNA, role=Role.VIEWER)).result(WAIT_S)
    assert store.tokens() == [TOKEN]


def test_access_generation_rises_with_each_change_in_every_store_object(backend: Backend) -> None:
    one, two = backend.open(), backend.open()
    seen = [one.access_generation()]
    changes: list[Callable[[Store], Future[None]]] = [
        lambda store: store.put_user(ANNA),
        lambda store: store.put_user(replace(ANNA, role=Role.VIEWER)),
        lambda store: store.put_token(TOKEN),
        lambda store: store.delete_token(TOKEN.digest),
        lambda store: store.delete_user("anna"),
    ]
    for i, change in enumerate(changes):
        change((one, two)[i % 2]).result(WAIT_S)
        assert one.access_generation() == two.access_generation() > seen[-1]
        assert one.users() == two.users()
        seen.append(one.access_generation())
    station = register(one)
    insert(one, station, block([T0], {station.ids[0]: [1.0]}))
    assert one.access_generation() == seen[-1]


def test_access_survives_reopening(backend: Backend) -> None:
    store = backend.open()
    store.put_user(ANNA).result(WAIT_S)
    store.put_token(TOKEN).result(WAIT_S)
    generation = store.access_generation()
    backend.close()
    store = backend.open()
    assert (store.users(), store.tokens(), store.access_generation()) == ([ANNA], [TOKEN], generation)
