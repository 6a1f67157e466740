"""An outside identity provider (OpenID Connect Core 1.0, RFC 7519): its keys, and what its users are here."""

from __future__ import annotations

import http.client
import json
import logging
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from thalweg.auth.identity import Key, Rules, claim, read_keys, texts, verify
from thalweg.domain.access import Role
from thalweg.domain.errors import InvalidParameter, StoreUnavailable, ThalwegError, Unauthenticated
from thalweg.settings import Settings

logger = logging.getLogger(__name__)

PREFIX: Final = "oidc:"
"""Begins the names of the provider's users, which no account's name can."""
DISCOVERY: Final = "/.well-known/openid-configuration"
MAX_DOCUMENT_BYTES: Final = 256 * 1024
FETCH_TIMEOUT_S: Final = 5.0
"""Of each step of a fetch, and twice that of the fetch as a whole."""
AGAIN_S: Final = 30.0
"""Least time between two fetches, whatever tokens ask for."""
STALE_S: Final = 86_400.0
"""Keys that cannot be fetched anew go on for so long."""
MAX_NAME: Final = 128
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class _NoRedirect(HTTPRedirectHandler):
    """A redirect could lead to another host than the operator has named."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def fetch(url: str, hosts: tuple[str, ...]) -> bytes:
    """A document of at most MAX_DOCUMENT_BYTES from one of the hosts that the operator has named.

    raises  StoreUnavailable whatever goes wrong; the message names neither the address nor what it answered
    """
    parts = urlsplit(url)
    refused = StoreUnavailable("The identity provider's keys cannot be fetched now.", retry_after_s=30)
    if parts.scheme not in ("http", "https") or parts.netloc.lower() not in [host.lower() for host in hosts]:
        logger.error("keys are not fetched from %s: its host is none of oidc_hosts", url[:200])
        raise refused
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        logger.error("keys are not fetched from %s: without TLS anybody on the way could replace them", url[:200])
        raise refused
    opener = build_opener(_NoRedirect, HTTPSHandler(context=ssl.create_default_context()))
    deadline = time.monotonic() + 2 * FETCH_TIMEOUT_S
    try:
        # Scheme and host have been checked.
        with opener.open(Request(url, headers={"Accept": "application/json"}), timeout=FETCH_TIMEOUT_S) as answer:  # noqa: S310
            parts_read: list[bytes] = []
            size = 0
            while block := answer.read1(65_536):
                parts_read.append(block)
                size += len(block)
                if size > MAX_DOCUMENT_BYTES:
                    raise ValueError(f"longer than {MAX_DOCUMENT_BYTES:,} bytes")
                if time.monotonic() > deadline:
                    raise ValueError(f"not there within {2 * FETCH_TIMEOUT_S:g} s")
            return b"".join(parts_read)
    except (URLError, OSError, ValueError, http.client.HTTPException) as error:
        logger.warning("keys cannot be fetched from %s: %s", url[:200], error)
        raise refused from None


class KeySource:
    """The provider's keys, read or fetched when they are first needed, and again when they are old or one is missing.

    May be called from any thread; at most one fetches at a time.
    """

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: tuple[Key, ...] = ()
        self._read_s = -STALE_S
        self._tried_s = -STALE_S

    def __call__(self, key_id: str) -> tuple[Key, ...]:
        """Keys of that id; all of them for an empty one, and where keys have no ids.

        raises  StoreUnavailable if there are none yet and they cannot be fetched
        """
        now = self._clock()
        found = self._matching(key_id)
        if found and now - self._read_s < self._settings.oidc_keys_s:
            return found
        with self._lock:
            if self._clock() - self._tried_s >= AGAIN_S:
                self._tried_s = self._clock()
                try:
                    self._keys = read_keys(self._load())
                    self._read_s = self._clock()
                except ThalwegError as error:
                    logger.warning("the identity provider's keys are not renewed: %s", error.message)
            if self._clock() - self._read_s >= STALE_S:
                raise StoreUnavailable("The identity provider's keys cannot be had now.", retry_after_s=int(AGAIN_S))
        return self._matching(key_id)

    def _matching(self, key_id: str) -> tuple[Key, ...]:
        if not key_id:
            return self._keys
        return tuple(key for key in self._keys if key.id in (key_id, ""))

    def _load(self) -> bytes:
        settings = self._settings
        source = settings.oidc_keys
        if source and "://" not in source:
            return self._read_file(Path(source))
        if not source:
            document = fetch(settings.oidc_issuer.rstrip("/") + DISCOVERY, settings.oidc_hosts)
            try:
                described = json.loads(document)
                issuer, source = described["issuer"], described["jwks_uri"]
            except (ValueError, KeyError, TypeError, RecursionError):
                raise InvalidParameter("oidc_issuer", "The issuer's configuration document cannot be read.") from None
            # OpenID Connect Discovery 1.0 section 4.3.
            if issuer != settings.oidc_issuer or not isinstance(source, str):
                raise InvalidParameter("oidc_issuer", "The issuer's configuration document names another issuer.")
        return fetch(source, settings.oidc_hosts)

    @staticmethod
    def _read_file(path: Path) -> bytes:
        try:
            with path.open("rb") as stream:
                document = stream.read(MAX_DOCUMENT_BYTES + 1)
        except OSError as error:
            raise InvalidParameter("oidc_keys", f"The file of keys cannot be read: {error.strerror}.") from None
        if len(document) > MAX_DOCUMENT_BYTES:
            raise InvalidParameter("oidc_keys", f"The file of keys is longer than {MAX_DOCUMENT_BYTES:,} bytes.")
        return document


class Provider:
    """What the settings say of an identity provider."""

    def __init__(self, settings: Settings, keys: Callable[[str], tuple[Key, ...]] | None = None) -> None:
        if not settings.oidc_audience:
            raise InvalidParameter(
                "oidc_audience", "The setting oidc_audience is needed with oidc_issuer: tokens made out for others "
                "must not count here."
            )  # fmt: skip
        self._settings = settings
        self._rules = Rules(
            settings.oidc_issuer, settings.oidc_audience, settings.oidc_algorithms, settings.oidc_leeway_s
        )
        self._keys = KeySource(settings) if keys is None else keys
        self._roles = [_mapping(item) for item in settings.oidc_roles]

    def identify(self, token: str) -> tuple[str, Role, Mapping[str, Role], float]:
        """Name, role on the server, roles by name of workspace, and until when (seconds since 1970).

        raises  Unauthenticated; StoreUnavailable while there are no keys
        """
        claims = verify(token, self._rules, self._keys)
        name = claim(claims, self._settings.oidc_name_claim)
        if not isinstance(name, str) or not name or len(name) > MAX_NAME or not name.isprintable():
            raise Unauthenticated("The token names no user.")
        groups = frozenset(texts(claim(claims, self._settings.oidc_roles_claim)))
        role = Role.NOTHING
        scoped: dict[str, Role] = {}
        for group, given, workspace in self._roles:
            if group in groups:
                if workspace:
                    scoped[workspace] = max(given, scoped.get(workspace, given))
                else:
                    role = max(role, given)
        return PREFIX + name, role, scoped, float(claims["exp"])


def _mapping(item: str) -> tuple[str, Role, str]:
    group, _, given = item.rpartition("=")
    role, _, workspace = given.partition("@")
    return group, Role.named(role), workspace


def provider_of(settings: Settings) -> Provider | None:
    """The provider that the settings name, if any."""
    return Provider(settings) if settings.oidc_issuer else None
