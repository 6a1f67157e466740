"""The Authorization header, read into types."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import Final

from thalweg.domain.errors import Unauthenticated

CHALLENGE: Final = 'Basic realm="thalweg", charset="UTF-8"'
"""The value of WWW-Authenticate."""

MAX_HEADER_LENGTH: Final = 4096
"""Longer headers cannot hold a password within the limit or a token, and are not decoded."""

# RFC 6750 section 2.1: b64token.
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]{1,1024}=*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Basic:
    """A user's name and password (RFC 7617)."""

    name: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Bearer:
    """An API token (RFC 6750)."""

    token: str = field(repr=False)


def parse_authorization(header: str) -> Basic | Bearer | None:
    """Read the value of an Authorization header.

    header   as received, decoded as Latin-1; empty: none was sent
    returns  None for an empty header
    raises   Unauthenticated for another scheme or a malformed value; the message never repeats the value
    """
    if not header:
        return None
    if len(header) > MAX_HEADER_LENGTH:
        raise Unauthenticated(f"The Authorization header is longer than {MAX_HEADER_LENGTH} characters.")
    scheme, _, value = header.partition(" ")
    value = value.strip(" ")
    kind = scheme.lower()
    if kind == "basic":
        return _parse_basic(value)
    if kind == "bearer":
        if not _TOKEN.fullmatch(value):
            raise Unauthenticated("The Authorization header holds no bearer token.")
        return Bearer(value)
    raise Unauthenticated("The Authorization header must use the scheme Basic or Bearer.")


def parse_bare(header: str) -> Bearer | None:
    """A token that stands alone as the value of an Authorization header (CKAN); None for every other form."""
    return Bearer(header) if len(header) <= MAX_HEADER_LENGTH and _TOKEN.fullmatch(header) else None


def _parse_basic(value: str) -> Basic:
    try:
        raw = base64.b64decode(value.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise Unauthenticated("The Authorization header's Basic credentials are not Base64.") from None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        # Older clients send Latin-1 whatever the challenge says.
        text = raw.decode("latin-1")
    name, colon, password = text.partition(":")
    if not colon or not name or any(ord(letter) < 32 or ord(letter) == 127 for letter in text):
        raise Unauthenticated("The Authorization header's Basic credentials are not of the form name:password.")
    return Basic(name, password)
