"""Everything that is no door: start page, health, static files, plain words for unknown paths."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
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
from thalweg.auth.policy import Action, refuse, role_on
from thalweg.domain.access import Principal, Resource
from thalweg.domain.bounded import Bounded
from thalweg.domain.catalogue import DEFAULT_WORKSPACE, Procedure, Workspace
from thalweg.domain.errors import (
    InvalidParameter,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    ThalwegError,
    TooLarge,
    TooManyTries,
    Unauthenticated,
)
from thalweg.domain.features import Layer
from thalweg.domain.snapshot import Catalogue, View
from thalweg.services.services import Services
from thalweg.web.account import AccountPages
from thalweg.web.examples import PRESENTATIONS, Example, Subject

logger = logging.getLogger(__name__)

_MAX_SHOWN: Final = 20
"""Most workspaces that the start page describes; each of them is read for it."""
_MAX_LISTED: Final = 200
"""Most further ones that it names."""
_MAX_LAYERS: Final = 50
"""Most layers of a workspace that it lists."""
_KEPT_S: Final = 5.0
"""Longest time that the start page is kept while no metadata change: its counts of rows may be so much older."""
_MAX_KEPT: Final = 32
"""Most start pages that are kept: one for each set of things that callers may see."""
_HEALTH_S: Final = 1.0
"""Shortest time between two looks at the store's health."""
_STATUSES: Final[tuple[tuple[type[ThalwegError], int], ...]] = (
    (TooManyTries, 429), (Unauthenticated, 401), (PermissionDenied, 403), (NotFound, 404), (TooLarge, 413),
    (InvalidParameter, 400), (InvalidRequest, 400),
)  # fmt: skip
"""Of errors that a client can mend; all others mean that the store cannot be had."""
_Views = tuple[tuple[int, View | None, tuple[int, ...]], ...]
"""Of each workspace its number, what of its catalogue shows, and the layers that do."""
DEFAULT_HEADING: Final = "Sensor Observation Service"
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True, slots=True)
class _Service:
    title: str
    address: str
    examples: list[Example]


@dataclass(frozen=True, slots=True)
class _ListedLayer:
    title: str
    count: int
    attribution: str


@dataclass(frozen=True, slots=True)
class _Section:
    """A workspace as the start page shows it."""

    heading: str
    abstract: str
    procedures: int
    properties: int
    rows: int
    layers: list[_ListedLayer]
    more_layers: int
    services: list[_Service]


@dataclass(frozen=True, slots=True)
class _Kept:
    """A page, what it was made of and when (monotonic seconds)."""

    page: str
    generations: tuple[int, ...]
    made: float


class Pages:
    """The pages over one store.

    doors    names of the doors, in order
    ready    what keeps the store from its work; empty: nothing
    figures  the text of /metrics
    """

    def __init__(
        self,
        services: Services,
        doors: Iterable[str],
        ready: Callable[[], list[str]],
        figures: Callable[[], str],
    ) -> None:
        self._services = services
        self._doors = tuple(doors)
        self._ready = ready
        self._figures = figures
        self._base_url = services.settings.base_url
        self._templates = Environment(
            loader=PackageLoader("thalweg.web", "templates"), autoescape=True, undefined=StrictUndefined,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        self._templates.filters["counted"] = _counted
        self._templates.filters["breakable"] = _breakable
        self._kept: Bounded[_Views, _Kept] = Bounded(_MAX_KEPT)
        self._rendering = Lock()
        self._health: tuple[float, list[str]] = (-_HEALTH_S, [])
        self._account = AccountPages(services, self._templates)

    def application(self) -> ASGIApp:
        """The ASGI application. Expects the caller as ``scope['principal']``."""
        routes = [
            Route("/", self._start),
            Route("/health/live", self._live),
            Route("/health/ready", self._readiness),
            Route("/metrics", self._metrics),
            *self._account.routes(),
            Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
        ]
        handlers: dict[Any, Any] = {HTTPException: self._http_error, ThalwegError: self._domain_error}
        return _with_headers(Starlette(routes=routes, exception_handlers=handlers))

    async def _start(self, request: Request) -> Response:
        principal: Principal = request.scope["principal"]
        page = await run_in_threadpool(self._render_start, principal)
        if page is None:
            return self._not_allowed(principal)
        headers = {"Cache-Control": "no-cache" if principal.is_anonymous else "private, no-cache", "Vary": "Cookie"}
        return HTMLResponse(page, headers=headers)

    def _render_start(self, principal: Principal) -> str | None:
        """The start page as the caller may see it, made again when metadata have changed or its counts are too old;
        None: there is nothing that the caller may read."""
        found = self._services.catalogue.workspaces_seen(principal).values()
        workspaces = sorted(found, key=lambda w: (w.name != DEFAULT_WORKSPACE, w.name))
        catalogues = []
        for workspace in workspaces[:_MAX_SHOWN]:
            try:
                catalogues.append(self._services.catalogue.seen(workspace.name, principal))
            except ThalwegError:
                # Gone, or closed to the caller, since.
                continue
        if not catalogues:
            return None
        others = workspaces[_MAX_SHOWN:]
        seen = [(catalogue, self._services.features.layers(catalogue, principal)) for catalogue in catalogues]
        views = tuple(
            [(*catalogue.key, tuple(layer.id for layer in layers)) for catalogue, layers in seen]
            + [(workspace.id, None, ()) for workspace in others]
        )
        generations = (
            *(catalogue.generation for catalogue in catalogues),
            *(layer.generation for _, layers in seen for layer in layers),
            *(workspace.generation for workspace in others),
        )
        # Those who come while it is made wait for it instead of making it, too.
        with self._rendering:
            kept = self._kept.recall(views)
            if kept is None or kept.generations != generations or time.monotonic() - kept.made > _KEPT_S:
                made = time.monotonic()
                kept = self._kept.put(views, _Kept(self._made_start(seen, others), generations, made))
        return kept.page

    def _made_start(self, seen: list[tuple[Catalogue, list[Layer]]], others: list[Workspace]) -> str:
        return self._templates.get_template("start.html").render(
            sections=[self._section(catalogue, layers) for catalogue, layers in seen],
            others=[(_heading(w), [address for _, address in self._addresses(w)]) for w in others[:_MAX_LISTED]],
            left_out=max(0, len(others) - _MAX_LISTED),
            account=f"{self._base_url}/account",
        )

    def _addresses(self, workspace: Workspace) -> list[tuple[str, str]]:
        """Name and address of each door of a workspace; those with paths of their own are shown once, with the
        default one."""
        is_default = workspace.name == DEFAULT_WORKSPACE
        prefix = "" if is_default else "/" + quote(workspace.name, safe="")
        found = []
        for door in self._doors:
            path = PRESENTATIONS[door].path if door in PRESENTATIONS else ""
            if not path:
                found.append((door, f"{self._base_url}{prefix}/{door}"))
            elif is_default:
                found.append((door, f"{self._base_url}/{path}"))
        return found

    def _section(self, catalogue: Catalogue, layers: list[Layer]) -> _Section:
        workspace = catalogue.workspace
        extents = self._services.catalogue.extents(catalogue)
        shown = _procedure_to_show(catalogue, extents)
        states = self._services.features.states(layers[:_MAX_LAYERS])
        listed = [
            _ListedLayer(layer.title or layer.name, states[layer.id].count, layer.attribution)
            for layer in layers[:_MAX_LAYERS]
            if layer.id in states
        ]
        subject = Subject(catalogue, shown, layers)
        services = []
        for name, address in self._addresses(workspace):
            presentation = PRESENTATIONS.get(name)
            if presentation is None:
                services.append(_Service(name, address, []))
            else:
                examples = presentation.examples(address, subject)
                services.append(_Service(presentation.title, address, examples))
        rows = sum(extent.rows for extent in extents.values())
        counts = (len(catalogue.procedures), len(catalogue.properties), rows)
        more = max(0, len(layers) - _MAX_LAYERS)
        return _Section(_heading(workspace), workspace.abstract, *counts, listed, more, services)

    async def _live(self, request: Request) -> Response:
        return PlainTextResponse("alive\n", headers={"Cache-Control": "no-store"})

    async def _readiness(self, request: Request) -> Response:
        made, problems = self._health
        # Whoever asks more often gets what was found out then.
        if time.monotonic() - made > _HEALTH_S:
            problems = await run_in_threadpool(self._ready)
            self._health = time.monotonic(), problems
        if problems:
            logger.error("not ready: %s", "; ".join(problems))
            text = "".join(f"The store is not ready: {problem}.\n" for problem in problems)
            return PlainTextResponse(text, 503, {"Cache-Control": "no-store"})
        return PlainTextResponse("ready\n", headers={"Cache-Control": "no-store"})

    async def _metrics(self, request: Request) -> Response:
        """For Prometheus. Anonymous callers see nothing unless everybody may: ``metrics_role`` none."""
        principal: Principal = request.scope["principal"]
        least = self._services.settings.metrics_role
        if role_on(principal, Resource(public=False)) < least:
            refuse(principal, Action.ADMINISTER)
        text = await run_in_threadpool(self._figures)
        headers = {"Cache-Control": "no-store", "Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return Response(text.encode(), headers=headers)

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
        headers = {"Cache-Control": "no-store"}
        for kind, status in _STATUSES:
            if isinstance(error, kind):
                if isinstance(error, Unauthenticated):
                    headers["WWW-Authenticate"] = CHALLENGE
                elif isinstance(error, TooManyTries):
                    headers["Retry-After"] = str(error.retry_after_s)
                return PlainTextResponse(f"{error.message}\n", status, headers)
        logger.error("request %s: %s", request.scope.get("request_id", ""), error)
        return PlainTextResponse("The store cannot be read now.\n", 503, {**headers, "Retry-After": "2"})


def _heading(workspace: Workspace) -> str:
    return workspace.title or (DEFAULT_HEADING if workspace.name == DEFAULT_WORKSPACE else workspace.name)


def _counted(number: int, one: str, several: str = "") -> str:
    """``1 row``, ``2,000 rows``."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def _breakable(text: str) -> Markup:
    """An address or URN that a line may end within: after what divides its parts, not in the midst of a word."""
    return Markup("<wbr>").join(re.split(r"(?<=[/:?&=,])(?![/:?&=,])", text))


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
