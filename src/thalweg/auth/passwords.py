"""Passwords: hashing and verifying by argon2id, so many at a time; those of CKAN's users, too, until they sign in."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
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
MAX_PBKDF2_ROUNDS: Final = 1_000_000
"""Most rounds of a hash that comes from elsewhere: half a second for each sign-in."""
_PBKDF2: Final = re.compile(
    r"\$pbkdf2-sha512\$([1-9][0-9]{0,8})\$([A-Za-z0-9./]{11,1024})\$([A-Za-z0-9./]{86})", re.ASCII
)
"""How CKAN keeps a password: PBKDF2 with SHA-512 (RFC 8018) in passlib's modular form; rounds, salt and digest, the
latter two in base 64 with ``.`` for ``+`` and no padding."""


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
        """Whether the password belongs to the stored string, argon2id's or CKAN's. Call it within ``turn``.

        stored   None: there is no such user; takes as long as for one that is, and gives False
        returns  False too for a password too long to have been set, at no cost and whoever the user, and for a
                 stored text that is no hash
        """
        if _is_too_long(password):
            return False
        if stored is not None and is_foreign_hash(stored):
            return _verify_pbkdf2(stored, password)
        try:
            self._hasher.verify(self._decoy_hash() if stored is None else stored, password)
        except (Argon2Error, InvalidHashError):
            return False
        return stored is not None

    def renewed(self, stored: str, password: str) -> str | None:
        """The argon2id string to store in the place of one made with other parameters than today's or elsewhere; None
        if it is made with these. The password is known to be right. Call it within ``turn``."""
        is_old = is_foreign_hash(stored) or self._hasher.check_needs_rehash(stored)
        return self._hasher.hash(password) if is_old else None

    def prepare(self) -> None:
        """Make ready what ``verify`` needs for unknown users, so that the first one does not take longer."""
        self._decoy_hash()

    def _decoy_hash(self) -> str:
        with self._decoy_lock:
            if self._decoy is None:
                self._decoy = self._hasher.hash(secrets.token_hex(16))
            return self._decoy


def is_foreign_hash(text: str) -> bool:
    """Whether a text is the hash of a password as CKAN keeps it, of which sign-ins can be verified."""
    found = _PBKDF2.fullmatch(text)
    # No bytes are written by one letter more than a multiple of four.
    return found is not None and int(found[1]) <= MAX_PBKDF2_ROUNDS and len(found[2]) % 4 != 1


def _verify_pbkdf2(stored: str, password: str) -> bool:
    _, _, rounds, salt, digest = stored.split("$")
    made = hashlib.pbkdf2_hmac("sha512", password.encode("utf-8", "surrogatepass"), _decoded(salt), int(rounds))
    return hmac.compare_digest(made, _decoded(digest))


def _decoded(text: str) -> bytes:
    return base64.b64decode(text.replace(".", "+") + "=" * (-len(text) % 4))


def new_password() -> str:
    """A random password of 16 letters, digits, ``-`` and ``_`` (96 bits)."""
    return secrets.token_urlsafe(12)


def _is_too_long(password: str) -> bool:
    return len(password) > MAX_PASSWORD_BYTES or len(password.encode("utf-8", "surrogatepass")) > MAX_PASSWORD_BYTES
