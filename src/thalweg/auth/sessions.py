"""Sessions of browsers: a random text in a cookie, of which only a digest is stored."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Final

MAX_COOKIE: Final = 8192
"""Longer Cookie headers are not looked through."""


def new_session() -> str:
    """The cookie's value: 256 random bits, URL-safe."""
    return secrets.token_urlsafe(32)


def session_digest(text: str) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def csrf_token(text: str) -> str:
    """What a form of that session has to send along. It tells nothing of the session's text."""
    digest = hmac.new(text.encode("utf-8", "surrogatepass"), b"thalweg form", "sha256").digest()
    return base64.urlsafe_b64encode(digest[:24]).decode("ascii")


def is_csrf_token(given: str, text: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), csrf_token(text).encode("ascii"))


def cookie_name(is_secure: bool) -> str:
    """With ``__Host-`` a browser takes the cookie by TLS alone, and from no other host of the domain."""
    return "__Host-thalweg-session" if is_secure else "thalweg-session"


def cookie_value(header: str, name: str) -> str:
    """One cookie out of a Cookie header (RFC 6265 section 4.2); empty: it is not there."""
    if len(header) > MAX_COOKIE:
        return ""
    for pair in header.split(";"):
        key, _, value = pair.strip(" ").partition("=")
        if key == name:
            return value if len(value) <= 128 else ""
    return ""
