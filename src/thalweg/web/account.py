"""Pages for signing in and for one's own account: password and tokens. They work without script."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial
from typing import Any, Final, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from jinja2 import Environment
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from thalweg.auth.policy import Action, require
from thalweg.auth.sessions import cookie_name, cookie_value, csrf_token, new_session
from thalweg.domain.access import ROLE_NAMES, Actor, AuditQuery, Principal, Role, Scope, Token
from thalweg.domain.errors import (
    AlreadyExists,
    InvalidParameter,
    NotFound,
    StoreUnavailable,
    TooManyTries,
    Unauthenticated,
)
from thalweg.domain.time import DAY_US, format_instant, parse_instant
from thalweg.services.accounts import now_us
from thalweg.services.services import Services
from thalweg.web.forms import expect_own, read_form

HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
}
MAX_AUDIT: Final = 10_000
MAX_WAITING: Final = 50
"""Most forms with passwords of a worker that wait for their turn, some seconds at most."""
T = TypeVar("T")

Handler = Callable[[Request], Awaitable[Response]]


class AccountPages:
    """``/login``, ``/logout``, ``/account`` and, for administrators, ``/admin/audit``."""

    def __init__(self, services: Services, templates: Environment) -> None:
        self._services = services
        self._access = services.access
        self._templates = templates
        self._is_secure = services.settings.base_url.startswith("https:")
        self._cookie = cookie_name(self._is_secure)
        # Proves that the form of signing in comes from our page, before there is a session.
        self._limiter: CapacityLimiter | None = None
        self._hashings = 0
        self._form_cookie = self._cookie.replace("session", "form")

    def routes(self) -> list[Route]:
        return [
            Route("/login", self._login, methods=["GET", "POST"]),
            Route("/logout", self._logout, methods=["POST"]),
            Route("/account", self._account),
            Route("/account/password", self._password, methods=["POST"]),
            Route("/account/tokens", self._create, methods=["POST"]),
            Route("/account/revoke", self._revoke, methods=["POST"]),
            Route("/admin/audit", self._audit),
        ]

    # ------------------------------------------------------------ signing in and out

    async def _login(self, request: Request) -> Response:
        if request.method != "POST":
            return self._login_page(request)
        fields = await read_form(request)
        expect_own(fields, cookie_value(request.headers.get("cookie", ""), self._form_cookie))
        name, password = fields.get("name", "").strip(), fields.get("password", "")
        by = _actor(request, name, "login")
        try:
            user = await self._hashing(partial(self._access.sign_in, name, password, by=_actor(request, "", "login")))
        except TooManyTries as error:
            return self._login_page(request, name, error.message, 429, {"Retry-After": str(error.retry_after_s)})
        except Unauthenticated as error:
            return self._login_page(request, name, error.message, 401)
        old = self._session(request)
        if old:
            await run_in_threadpool(self._access.close_session, old, by=by)
        # Always a new one, so that nobody can be given a session that someone else knows.
        text = await run_in_threadpool(self._access.open_session, user.name, by=_actor(request, user.name, "login"))
        response = _to("account")
        self._set_cookie(response, self._cookie, text, int(self._services.settings.session_lifetime_s), "lax")
        response.delete_cookie(self._form_cookie, path="/", secure=self._is_secure, httponly=True, samesite="strict")
        return response

    async def _hashing(self, work: Callable[[], T]) -> T:
        """Run what hashes a password in a thread apart from those of pages, so that many of them at once hold up
        neither the start page nor a look at the server's health. StoreUnavailable if too many wait."""
        if self._limiter is None:
            # It belongs to the loop that it is first used in.
            self._limiter = CapacityLimiter(self._services.settings.login_concurrency)
        # Counted here: many that come in one turn of the loop are not yet known to wait.
        if self._hashings >= MAX_WAITING + self._services.settings.login_concurrency:
            raise StoreUnavailable("Too many passwords are being checked; try again in some seconds.", retry_after_s=5)
        self._hashings += 1
        try:
            return await run_sync(work, limiter=self._limiter)
        finally:
            self._hashings -= 1

    def _login_page(
        self,
        request: Request,
        name: str = "",
        error: str = "",
        status: int = 200,
        headers: dict[str, str] | None = None,
    ) -> Response:
        text = cookie_value(request.headers.get("cookie", ""), self._form_cookie) or new_session()
        page = self._templates.get_template("login.html").render(
            root="", error=error, notice="", name=name[:64], csrf=csrf_token(text)
        )
        response = HTMLResponse(page, status, {**HEADERS, **(headers or {})})
        self._set_cookie(response, self._form_cookie, text, 3600, "strict")
        return response

    async def _logout(self, request: Request) -> Response:
        fields = await read_form(request)
        session = self._session(request)
        if session:
            expect_own(fields, session)
            by = _actor(request, request.scope["principal"].name, "logout")
            await run_in_threadpool(self._access.close_session, session, by=by)
        response = _to("login")
        response.delete_cookie(self._cookie, path="/", secure=self._is_secure, httponly=True, samesite="lax")
        return response

    def _set_cookie(self, response: Response, name: str, text: str, max_age: int, same_site: Any) -> None:
        response.set_cookie(
            name, text, max_age=max_age, path="/", secure=self._is_secure, httponly=True, samesite=same_site
        )

    @staticmethod
    def _session(request: Request) -> str:
        return str(request.scope.get("session", ""))

    # ------------------------------------------------------------ the account

    async def _account(self, request: Request) -> Response:
        # Browsers send a password by themselves, too: forms are for sessions alone.
        if not self._session(request):
            return _to("login")
        return await run_in_threadpool(self._account_page, request)

    def _account_page(
        self, request: Request, *, error: str = "", notice: str = "", fresh: str = "", status: int = 200
    ) -> Response:
        principal: Principal = request.scope["principal"]
        workspaces = self._services.catalogue.workspaces_seen(principal)
        names = {workspace.id: name for name, workspace in workspaces.items()}
        most = max([principal.role, *principal.grants.values()])
        page = self._templates.get_template("account.html").render(
            root="" if request.url.path.count("/") == 1 else "../",
            error=error,
            notice=notice,
            fresh=fresh,
            user=principal.name,
            csrf=csrf_token(self._session(request)),
            role=principal.role.word,
            grants=[(role.word, self._where(scope, names)) for scope, role in sorted(principal.grants.items())],
            tokens=[_shown(token, names) for token in self._access.tokens(principal.name)],
            roles=[name for name, role in ROLE_NAMES.items() if Role.NOTHING < role < most],
            workspaces=list(workspaces),
        )
        return HTMLResponse(page, status, HEADERS)

    def _where(self, scope: Scope, names: dict[int, str]) -> str:
        workspace = names.get(scope.workspace_id, f"workspace {scope.workspace_id}")
        if not scope.kind:
            return f"workspace {workspace}"
        name = str(scope.id)
        if workspace in names.values():
            catalogues = self._services.catalogue
            name = catalogues.dataset_name(catalogues.of(workspace), scope.kind, scope.id)
        return f"{scope.kind} {name} of {workspace}"

    async def _changed(
        self, request: Request, change: Callable[[dict[str, str], Principal, str, Actor], Any], *, hashes: bool = False
    ) -> Any:
        """Run a change that a form of the account asks for, in a thread; raises what it raises."""
        session = self._session(request)
        fields = await read_form(request)
        expect_own(fields, session)
        principal: Principal = request.scope["principal"]
        by = _actor(request, principal.name, "account")
        work = partial(change, fields, principal, session, by)
        return await (self._hashing(work) if hashes else run_in_threadpool(work))

    async def _password(self, request: Request) -> Response:
        def change(fields: dict[str, str], principal: Principal, session: str, by: Actor) -> None:
            if fields.get("new") != fields.get("again"):
                raise InvalidParameter("again", "The new password was not given twice alike.")
            self._access.change_password(
                principal.name, fields.get("old", ""), fields.get("new", ""), keep=session, by=by
            )

        return await self._done(request, change, "The password is changed.", hashes=True)

    async def _create(self, request: Request) -> Response:
        def change(fields: dict[str, str], principal: Principal, session: str, by: Actor) -> str:
            expires_us = None
            days = fields.get("days", "").strip()
            if days:
                if not (days.isascii() and days.isdigit() and len(days) <= 9 and 1 <= int(days) <= 36_500):
                    raise InvalidParameter("days", "The days until a token expires are a number from 1 to 36500.")
                expires_us = now_us() + int(days) * DAY_US
            role = ROLE_NAMES.get(fields["role"], Role.VIEWER) if fields.get("role") else None
            workspace_id = 0
            if fields.get("workspace"):
                found = self._services.catalogue.workspaces_seen(principal).get(fields["workspace"])
                if found is None:
                    raise NotFound("workspace", "There is no such workspace.")
                workspace_id = found.id
            return self._access.create_token(
                principal.name, fields.get("label", "").strip(), expires_us, role=role, workspace_id=workspace_id, by=by
            )

        try:
            fresh = await self._changed(request, change)
        except (InvalidParameter, NotFound, AlreadyExists) as error:
            message = error.message
        else:
            # Not by a redirect: the token is in no address and no store.
            return await run_in_threadpool(lambda: self._account_page(request, fresh=fresh))
        return await run_in_threadpool(lambda: self._account_page(request, error=message, status=400))

    async def _revoke(self, request: Request) -> Response:
        def change(fields: dict[str, str], principal: Principal, session: str, by: Actor) -> None:
            self._access.revoke_token(fields.get("token", ""), user=principal.name, by=by)

        return await self._done(request, change, "The token is revoked.")

    async def _done(
        self,
        request: Request,
        change: Callable[[dict[str, str], Principal, str, Actor], Any],
        notice: str,
        *,
        hashes: bool = False,
    ) -> Response:
        try:
            await self._changed(request, change, hashes=hashes)
        except TooManyTries as error:
            message, status = error.message, 429
        except (InvalidParameter, NotFound) as error:
            message, status = error.message, 400
        else:
            return await run_in_threadpool(lambda: self._account_page(request, notice=notice))
        return await run_in_threadpool(lambda: self._account_page(request, error=message, status=status))

    # ------------------------------------------------------------ audit

    async def _audit(self, request: Request) -> Response:
        """Lines of the audit log as JSON, newest first, for administrators of the server."""
        principal: Principal = request.scope["principal"]
        require(principal, Action.ADMINISTER)
        asked = request.query_params
        limit = asked.get("limit", "1000")
        if not (limit.isascii() and limit.isdigit() and len(limit) <= 9 and 1 <= int(limit) <= MAX_AUDIT):
            raise InvalidParameter("limit", f"limit is a number from 1 to {MAX_AUDIT:,}.")
        query = AuditQuery(
            since_us=parse_instant(asked["since"], "since")[0] if "since" in asked else None,
            until_us=parse_instant(asked["until"], "until")[0] if "until" in asked else None,
            user=asked.get("user"),
            object=asked.get("object"),
            action=asked.get("action"),
            limit=int(limit),
        )
        entries = await run_in_threadpool(self._access.audit, query)
        lines = [json.dumps({"time": format_instant(e.at_us), **asdict(e)}, ensure_ascii=False) for e in entries]
        text = "".join(f"{line}\n" for line in lines)
        return Response(text.encode(), media_type="application/x-ndjson", headers={"Cache-Control": "no-store"})


def _shown(token: Token, names: dict[int, str]) -> dict[str, str]:
    limits = [] if token.role is None else [token.role.word]
    if token.workspace_id:
        limits.append(names.get(token.workspace_id, f"workspace {token.workspace_id}"))
    return {
        "label": token.label,
        "digest": token.digest,
        "limits": ", ".join(limits) or "-",
        "created": day(token.created_us),
        "expires": "never" if token.expires_us is None else day(token.expires_us),
        "used": "never" if token.used_us is None else day(token.used_us),
    }


def day(us: int) -> str:
    """An instant by its date alone."""
    return format_instant(us)[:10]


def _actor(request: Request, name: str, operation: str) -> Actor:
    return Actor(name, request.scope.get("address", ""), request.scope.get("request_id", ""), "web", operation)


def _to(where: str) -> Response:
    """Go on with GET at a path beside the one asked for."""
    return Response(status_code=303, headers={**HEADERS, "Location": where})
