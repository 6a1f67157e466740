"""Who makes a request: the header, else the cookie of a signed-in browser, else nobody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from thalweg.auth.sessions import cookie_name, cookie_value, is_csrf_token
from thalweg.domain.access import Principal
from thalweg.domain.errors import PermissionDenied
from thalweg.doors.door import Credentials
from thalweg.server.contract import Authenticator, Scope
from thalweg.server.pool import Pool
from thalweg.settings import Settings

SAFE_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))
"""Change nothing, so that no other site gains by having a browser send them."""
CSRF_HEADER: Final = b"x-csrf-token"
PRIVATE: Final = ((b"vary", b"cookie"), (b"cache-control", b"private"))
"""Headers of answers to callers known by a cookie, which caches would else give to others."""


class Callers:
    """Turns what requests send into principals. Used on the event loop; what takes long goes to ``logins``."""

    def __init__(self, access: Authenticator, logins: Pool, settings: Settings) -> None:
        self._access = access
        self._logins = logins
        self._cookie = cookie_name(settings.base_url.startswith("https:"))
        self._cookie_bytes = self._cookie.encode("ascii") + b"="
        self._anonymous = access.quick("")

    def session_in(self, cookie: bytes) -> str:
        """The session's text out of a Cookie header; empty: there is none."""
        if self._cookie_bytes not in cookie:
            return ""
        return cookie_value(cookie.decode("latin-1"), self._cookie)

    def known(self, headers: Mapping[bytes, bytes], method: str, credentials: Credentials) -> Principal | None:
        """The caller of a door, if told within microseconds; None: ask ``of``. Never raises.

        headers  of the request, names in lower case
        """
        authorization = headers.get(b"authorization")
        if authorization is None:
            cookie = headers.get(b"cookie")
            if cookie is None:
                return self._anonymous
            session = self.session_in(cookie)
            if not session:
                return self._anonymous
            if method not in SAFE_METHODS:
                return None
            return self._access.quick("", session)
        if credentials is Credentials.BARE_TOKEN:
            return self._access.quick(authorization.decode("latin-1"), "", True)
        return self._access.quick(authorization.decode("latin-1"))

    async def of(
        self,
        headers: Mapping[bytes, bytes],
        method: str,
        credentials: Credentials,
        address: str = "",
        request_id: str = "",
    ) -> Principal:
        """The caller of a door.

        raises  Unauthenticated for bad credentials; TooManyTries, StoreUnavailable; PermissionDenied for a request of a
                signed-in browser that changes something and does not prove to come from a page of this server
        """
        known = self.known(headers, method, credentials)
        if known is not None:
            return known
        authorization = headers.get(b"authorization", b"").decode("latin-1")
        session = "" if authorization else self.session_in(headers.get(b"cookie", b""))
        principal = await self._look_up(
            authorization, session, credentials is Credentials.BARE_TOKEN, address, request_id
        )
        if principal.via == "session" and method not in SAFE_METHODS:
            given = headers.get(CSRF_HEADER, b"").decode("latin-1")
            if not is_csrf_token(given, session):
                raise PermissionDenied(
                    "A browser that is signed in has to send the header X-CSRF-Token of its page along; programs send "
                    "a token or a password in the Authorization header."
                )
        return principal

    async def of_page(self, scope: Scope, address: str, request_id: str) -> Principal:
        """The caller of a page, whose forms prove themselves where they come from; the session's text, if that is how
        the caller is known, goes along as ``scope['session']``. Raises as ``of``."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        authorization = headers.get(b"authorization", b"").decode("latin-1")
        session = "" if authorization else self.session_in(headers.get(b"cookie", b""))
        principal = await self._look_up(authorization, session, False, address, request_id)
        scope["session"] = session if principal.via == "session" else ""
        return principal

    async def _look_up(self, authorization: str, session: str, bare: bool, address: str, request_id: str) -> Principal:
        known = self._access.quick(authorization, session, bare)
        if known is not None:
            return known
        return await self._logins.run(self._access.authenticate, authorization, session, bare, address, request_id)
