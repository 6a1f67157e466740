"""Everything that is no door: start page, health, static files, plain words for unknown paths."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from thalweg.auth.credentials import CHALLENGE
from thalweg.auth.policy import Action, may
from thalweg.domain.access import Principal
from thalweg.domain.catalogue import DEFAULT_WORKSPACE, Procedure, Workspace
from thalweg.domain.errors import ThalwegError
from thalweg.domain.snapshot import Catalogue
from thalweg.services.services import Services
from thalweg.web.examples import PRESENTATIONS, Example

logger = logging.getLogger(__name__)

_MAX_WORKSPACES: Final = 200
"""Shown on the start page."""
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}


@dataclass(frozen=True, slots=True)
class _Service:
    title: str
    address: str
    examples: list[Example]


@dataclass(frozen=True, slots=True)
class _Section:
    """A workspace as the start page shows it."""

    workspace: Workspace
    procedures: int
    properties: int
    rows: int
    services: list[_Service]


class Pages:
    """The pages over one store.

    doors       names of the doors, in order
    workspaces  all workspaces by name
    ready       raises if the store cannot be read
    """

    def __init__(
        self,
        services: Services,
        doors: Iterable[str],
        workspaces: Callable[[], Mapping[str, Workspace]],
        ready: Callable[[], object],
    ) -> None:
        self._services = services
        self._doors = tuple(doors)
        self._workspaces = workspaces
        self._ready = ready
        self._base_url = services.settings.base_url
        self._templates = Environment(
            loader=PackageLoader("thalweg.web", "templates"), autoescape=True, undefined=StrictUndefined,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        self._templates.filters["grouped"] = lambda number: f"{number:,}"

    def application(self) -> ASGIApp:
        """The ASGI application. Expects the caller as ``scope['principal']``."""
        routes = [
            Route("/", self._start),
            Route("/health/live", self._live),
            Route("/health/ready", self._readiness),
            Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
        ]
        handlers: dict[Any, Any] = {HTTPException: self._http_error, ThalwegError: self._domain_error}
        return _with_headers(Starlette(routes=routes, exception_handlers=handlers))

    async def _start(self, request: Request) -> Response:
        principal: Principal = request.scope["principal"]
        if not may(principal, Action.READ):
            return self._not_allowed(principal)
        page = await run_in_threadpool(self._render_start)
        return HTMLResponse(page, headers={"Cache-Control": "no-cache"})

    def _render_start(self) -> str:
        sections = [self._section(w) for w in list(self._workspaces().values())[:_MAX_WORKSPACES]]
        return self._templates.get_template("start.html").render(sections=sections, base_url=self._base_url)

    def _section(self, workspace: Workspace) -> _Section:
        catalogue = self._services.catalogue.of(workspace.name)
        extents = self._services.catalogue.extents(catalogue)
        shown = _procedure_to_show(catalogue, extents)
        prefix = "" if workspace.name == DEFAULT_WORKSPACE else "/" + quote(workspace.name, safe="")
        services = []
        for name in self._doors:
            address = f"{self._base_url}{prefix}/{name}"
            presentation = PRESENTATIONS.get(name)
            if presentation is None:
                services.append(_Service(name, address, []))
            else:
                examples = presentation.examples(address, catalogue, shown)
                services.append(_Service(presentation.title, address, examples))
        rows = sum(extent.rows for extent in extents.values())
        return _Section(workspace, len(catalogue.procedures), len(catalogue.properties), rows, services)

    async def _live(self, request: Request) -> Response:
        return PlainTextResponse("alive\n", headers={"Cache-Control": "no-store"})

    async def _readiness(self, request: Request) -> Response:
        try:
            await run_in_threadpool(self._ready)
        except Exception as error:
            logger.error("not ready: %s", error)
            return PlainTextResponse("The store cannot be read now.\n", 503, {"Cache-Control": "no-store"})
        return PlainTextResponse("ready\n", headers={"Cache-Control": "no-store"})

    def _not_allowed(self, principal: Principal) -> Response:
        if principal.is_anonymous:
            return PlainTextResponse("Sign in to see this server.\n", 401, {"WWW-Authenticate": CHALLENGE})
        return PlainTextResponse(f"The user '{principal.name}' may not read.\n", 403)

    async def _http_error(self, request: Request, error: Exception) -> Response:
        known = error if isinstance(error, HTTPException) else HTTPException(500)
        if known.status_code == 404:
            text = f"There is nothing at this path. What there is, is listed at {self._base_url}/\n"
        elif known.status_code == 405:
            allowed = (known.headers or {}).get("Allow", "GET, HEAD")
            text = f"The method {request.method[:20]} is not allowed here; allowed are {allowed}.\n"
        else:
            text = f"{known.detail}\n"
        return PlainTextResponse(text, known.status_code, known.headers)

    async def _domain_error(self, request: Request, error: Exception) -> Response:
        logger.error("request %s: %s", request.scope.get("request_id", ""), error)
        return PlainTextResponse("The store cannot be read now.\n", 503, {"Retry-After": "2"})


def _procedure_to_show(catalogue: Catalogue, extents: Mapping[int, object]) -> Procedure | None:
    """The first procedure with observations, else the first one."""
    first: Procedure | None = None
    for procedure in catalogue.procedures.values():
        if procedure.id in extents:
            return procedure
        first = first or procedure
    return first


def _with_headers(application: ASGIApp) -> ASGIApp:
    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await application(scope, receive, sending)

    return wrapped
