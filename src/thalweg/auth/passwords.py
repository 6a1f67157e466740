"""Passwords: hashing and verifying by argon2id, so many at a time."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from thalweg.domain.errors import InvalidParameter, StoreUnavailable

MAX_PASSWORD_BYTES: Final = 1024
MIN_PASSWORD_LENGTH: Final = 8


class Passwords:
    """Hashes and verifies. One hashing takes 64 MiB and about 0.15 s, so that only ``concurrency`` run at once and
    further ones wait at most ``wait_s`` seconds for their turn."""

    def __init__(self, *, concurrency: int = 2, wait_s: float = 5.0, hasher: PasswordHasher | None = None) -> None:
        # argon2-cffi's defaults: RFC 9106, second recommended option (64 MiB, 3 passes, 4 lanes).
        self._hasher = PasswordHasher() if hasher is None else hasher
        self._turns = BoundedSemaphore(concurrency)
        self._wait_s = wait_s
        self._decoy: str | None = None
        self._decoy_lock = Lock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One of the places to hash in. StoreUnavailable if none gets free in time."""
        if not self._turns.acquire(timeout=self._wait_s):
            raise StoreUnavailable("Too many passwords are being checked; try again in some seconds.", retry_after_s=5)
        try:
            yield
        finally:
            self._turns.release()

    def hash(self, password: str) -> str:
        """The argon2id string to store. InvalidParameter ``password`` if it is too short or too long."""
        if len(password) < MIN_PASSWORD_LENGTH or _is_too_long(password):
            raise InvalidParameter(
                "password",
                f"A password must have at least {MIN_PASSWORD_LENGTH} characters and at most "
                f"{MAX_PASSWORD_BYTES:,} bytes.",
            )
        with self.turn():
            return self._hasher.hash(password)

    def verify(self, stored: str | None, password: str) -> bool:
        """Whether the password belongs to the stored argon2id string. Call it within ``turn``.

        stored   None: there is no such user; takes as long as for one that is, and gives False
        returns  False too for a password too long to have been set, at no cost and whoever the user, and for a
                 stored text that is no hash
        """
        if _is_too_long(password):
            return False
        try:
            self._hasher.verify(self._decoy_hash() if stored is None else stored, password)
        except (Argon2Error, InvalidHashError):
            return False
        return stored is not None

    def renewed(self, stored: str, password: str) -> str | None:
        """The argon2id string to store in the place of one made with other parameters than today's; None if it is
        made with these. The password is known to be right. Call it within ``turn``."""
        return self._hasher.hash(password) if self._hasher.check_needs_rehash(stored) else None

    def prepare(self) -> None:
        """Make ready what ``verify`` needs for unknown users, so that the first one does not take longer."""
        self._decoy_hash()

    def _decoy_hash(self) -> str:
        with self._decoy_lock:
            if self._decoy is None:
                self._decoy = self._hasher.hash(secrets.token_hex(16))
            return self._decoy


def new_password() -> str:
    """A random password of 16 letters, digits, ``-`` and ``_`` (96 bits)."""
    return secrets.token_urlsafe(12)


def _is_too_long(password: str) -> bool:
    return len(password) > MAX_PASSWORD_BYTES or len(password.encode("utf-8", "surrogatepass")) > MAX_PASSWORD_BYTES
