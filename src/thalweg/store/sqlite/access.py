"""Accounts and tokens."""

from __future__ import annotations

from typing import Final

from thalweg.domain.access import Role, Token, User
from thalweg.domain.errors import InvalidParameter, NotFound
from thalweg.store.sqlite.connection import Readers
from thalweg.store.sqlite.writer import Transaction

ACCOUNTS: Final = "SELECT name, role, password_hash, created_us FROM account ORDER BY name"
ACCOUNT: Final = "SELECT name, role, password_hash, created_us FROM account WHERE name = ?"
PUT_ACCOUNT: Final = """
    INSERT INTO account (name, role, password_hash, created_us) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (name) DO UPDATE SET role = ?2, password_hash = ?3, created_us = ?4"""
DELETE_TOKENS: Final = "DELETE FROM token WHERE account = ?"
DELETE_ACCOUNT: Final = "DELETE FROM account WHERE name = ? RETURNING name"
TOKENS: Final = "SELECT digest, account, label, created_us, expires_us FROM token ORDER BY created_us, digest"
TOKEN: Final = "SELECT digest, account, label, created_us, expires_us FROM token WHERE digest = ?"  # noqa: S105
PUT_TOKEN: Final = """
    INSERT INTO token (digest, account, label, created_us, expires_us) VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT (digest) DO UPDATE SET account = ?2, label = ?3, created_us = ?4, expires_us = ?5"""  # noqa: S105
DELETE_TOKEN: Final = "DELETE FROM token WHERE digest = ? RETURNING digest"  # noqa: S105
GENERATION: Final = "SELECT value FROM counter WHERE name = 'access'"
RAISE_GENERATION: Final = "UPDATE counter SET value = value + 1 WHERE name = 'access'"


class AccessReader:
    """Reads accounts and tokens for any thread."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers

    def users(self) -> list[User]:
        return [User(name, Role(role), *rest) for name, role, *rest in self._readers.rows(ACCOUNTS)]

    def user(self, name: str) -> User | None:
        rows = self._readers.rows(ACCOUNT, (name,))
        return User(rows[0][0], Role(rows[0][1]), *rows[0][2:]) if rows else None

    def tokens(self) -> list[Token]:
        return [Token(*row) for row in self._readers.rows(TOKENS)]

    def token(self, digest: str) -> Token | None:
        rows = self._readers.rows(TOKEN, (digest,))
        return Token(*rows[0]) if rows else None

    def generation(self) -> int:
        known = self._readers.mine().known
        if known is not None and "access" in known:
            return int(known["access"])
        ((generation,),) = self._readers.rows(GENERATION)
        if known is not None:
            known["access"] = generation
        return int(generation)


def put_user(tx: Transaction, user: User) -> None:
    if not user.name:
        raise InvalidParameter("user", "A user needs a name.")
    tx.rows(PUT_ACCOUNT, (user.name, int(user.role), user.password_hash, user.created_us))
    tx.rows(RAISE_GENERATION)


def delete_user(tx: Transaction, name: str) -> None:
    """Remove a user and its tokens. Raises NotFound."""
    tx.rows(DELETE_TOKENS, (name,))
    if not tx.rows(DELETE_ACCOUNT, (name,)):
        raise NotFound("user", f"There is no user '{name[:200]}'.")
    tx.rows(RAISE_GENERATION)


def put_token(tx: Transaction, token: Token) -> None:
    """Raises NotFound for an unknown user."""
    if not tx.rows(ACCOUNT, (token.user,)):
        raise NotFound("user", f"There is no user '{token.user[:200]}'.")
    tx.rows(PUT_TOKEN, (token.digest, token.user, token.label, token.created_us, token.expires_us))
    tx.rows(RAISE_GENERATION)


def delete_token(tx: Transaction, digest: str) -> None:
    """Raises NotFound."""
    if not tx.rows(DELETE_TOKEN, (digest,)):
        raise NotFound("token", "There is no token with this digest.")
    tx.rows(RAISE_GENERATION)
