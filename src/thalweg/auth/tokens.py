"""API tokens: random texts of which only a digest is stored."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

PREFIX: Final = "tw_"
"""Lets secret scanners and people recognise a token."""


def new_token() -> str:
    """A random token: the prefix and 256 bits, URL-safe."""
    return PREFIX + secrets.token_urlsafe(32)


def token_digest(token: str) -> str:
    """SHA-256 in hexadecimal. A slow hash would add nothing: the token is random, not chosen."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
