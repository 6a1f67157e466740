"""What answers of this door have in common: negotiation, caching, validators, what a caller may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyoxigraph import Quad
from xxhash import xxh3_128_hexdigest

from thalweg.auth.policy import Action, may, may_somewhere, refuse, require
from thalweg.domain.access import Principal, Resource
from thalweg.domain.bounded import Bounded
from thalweg.domain.errors import NotFound, NotSupported
from thalweg.domain.published import SourceKind
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.streams import EventStream, View
from thalweg.doors.http import Request, Response
from thalweg.encode.rdf.syntax import HTML, SYNTAXES, TURTLE, Syntax, wanted
from thalweg.encode.rdf.write import write
from thalweg.services.services import Services

HTML_TYPE: Final = "text/html; charset=utf-8"


def seen(request: Request, services: Services) -> Catalogue:
    """The workspace in the path, as the caller may see it. NotFound, Unauthenticated, PermissionDenied: all before it
    is told what is in it."""
    return services.catalogue.seen(request.workspace, request.principal)


def resource(catalogue: Catalogue, stream: EventStream) -> Resource:
    """A stream for questions of policy."""
    return catalogue.dataset("stream", stream.id, public=stream.public)


def require_workspace(request: Request, services: Services, action: Action) -> int:
    """The id of the workspace in the path, if the caller may do this to it as a whole.

    raises  NotFound, Unauthenticated, PermissionDenied
    """
    catalogue = seen(request, services)
    require(request.principal, action, catalogue.resource)
    return catalogue.workspace.id


def find_stream(request: Request, services: Services, name: str, action: Action = Action.READ) -> EventStream:
    """A stream that the caller may do this to.

    raises  NotFound for one that is not there or that the caller may not read; Unauthenticated, PermissionDenied
    """
    key = (request.workspace, name, action)
    known = _permitted.get(key)
    if known is not None and known.holds(request, services):
        return known.stream
    catalogue = seen(request, services)
    workspace_id = catalogue.workspace.id
    streams = services.streams.streams(workspace_id)
    stream = streams.get(name)
    if stream is None or not is_shown(request, services, catalogue, stream):
        # Who may not do it to any stream is told so, whether this one is there or not.
        if not may(request.principal, action, catalogue.resource) and not may_somewhere(
            request.principal, action, workspace_id
        ):
            refuse(request.principal, action)
        raise NotFound("stream", f"There is no event stream '{name[:100]}'.")
    if action is not Action.READ:
        require(request.principal, action, resource(catalogue, stream))
    if stream.source is not None:
        # Whether what it publishes may be read is asked each time.
        return stream
    _permitted.put(key, _Permitted(services.catalogue.of(request.workspace), streams, request.principal, stream))
    return stream


@dataclass(frozen=True, slots=True)
class _Permitted:
    """That a caller may do something to a stream, and what that was told from: it holds as long as these are the same
    objects, which are made anew where anything about them changes."""

    catalogue: Catalogue
    streams: Mapping[str, EventStream]
    principal: Principal
    stream: EventStream

    def holds(self, request: Request, services: Services) -> bool:
        if request.principal is not self.principal:
            return False
        try:
            if services.catalogue.of(request.workspace) is not self.catalogue:
                return False
        except NotFound:
            return False
        return services.streams.streams(self.catalogue.workspace.id) is self.streams


MAX_PERMITTED: Final = 1_000
_permitted: Final[Bounded[tuple[str, str, Action], _Permitted]] = Bounded(MAX_PERMITTED)
"""Of each workspace, stream and action the last caller who was let through: producers come again and again."""


def is_shown(request: Request, services: Services, catalogue: Catalogue, stream: EventStream) -> bool:
    """Whether the caller may read a stream, and what it publishes.

    catalogue  as the caller sees it
    """
    if not may(request.principal, Action.READ, resource(catalogue, stream)):
        return False
    source = stream.source
    match None if source is None else source.kind:
        case SourceKind.PROCEDURE:
            return source is not None and source.target in catalogue.procedures
        case SourceKind.OFFERING:
            return source is not None and source.target in catalogue.offerings
        case SourceKind.LAYER:
            layers = services.features.layers(catalogue, request.principal)
            return source is not None and any(layer.id == source.target for layer in layers)
    return True


def is_open(request: Request, services: Services, stream: EventStream) -> bool:
    """Whether callers without credentials may read it, so that shared caches may keep what is fetched of it."""
    anybody = Principal("", services.settings.anonymous_role)
    catalogue = services.catalogue.of(request.workspace)
    if not may(anybody, Action.READ, resource(catalogue, stream)):
        return False
    source = stream.source
    if source is None or catalogue.is_open:
        return True
    match source.kind:
        case SourceKind.PROCEDURE:
            procedure = catalogue.procedures.get(source.target)
            return procedure is not None and may(anybody, Action.READ, catalogue.resource_of(procedure))
        case SourceKind.OFFERING:
            # Others may see other parts of it.
            return False
    layers = services.features.layers(catalogue, anybody)
    return any(layer.id == source.target for layer in layers)


def find_view(services: Services, stream: EventStream, name: str) -> View:
    """NotFound."""
    view = services.streams.views(stream).get(name)
    if view is None:
        raise NotFound("view", f"The event stream '{stream.name}' has no view '{name[:100]}'.")
    return view


def visible(request: Request, services: Services) -> list[tuple[EventStream, Sequence[View]]]:
    """The streams that the caller may read, with their views, by name."""
    catalogue = seen(request, services)
    found = services.streams.streams(catalogue.workspace.id)
    return [
        (stream, tuple(services.streams.views(stream).values()))
        for _, stream in sorted(found.items())
        if is_shown(request, services, catalogue, stream)
    ]


def asked_for(request: Request) -> Syntax | str:
    """The syntax, HTML or EVENT_STREAM that the client wants. NotSupported (parameter ``Accept``)."""
    choice = wanted(request.header(b"accept"))
    if choice is None:
        known = ", ".join(syntax.media_type for syntax in SYNTAXES)
        raise NotSupported(
            f"None of the media types asked for can be written; known are {known} and {HTML}.", parameter="Accept"
        )
    return choice


def asked_syntax(request: Request) -> Syntax:
    """The same for documents that have no other form; Turtle for who asks for a page or events."""
    choice = asked_for(request)
    return choice if isinstance(choice, Syntax) else TURTLE


def content_type(syntax: Syntax) -> str:
    return f"{syntax.media_type};charset=UTF-8"


def validator(*parts: object) -> str:
    """A strong ETag made of everything that the bytes depend on."""
    return f'"{xxh3_128_hexdigest(chr(31).join(map(str, parts)).encode())}"'


def head(
    services: Services, *, public: bool, is_immutable: bool = False, differs: bool = False
) -> list[tuple[str, str]]:
    """Headers of a document that is fetched.

    public   False: only for who asked, and for no shared cache
    differs  whether others who may fetch it find other things in it
    """
    settings = services.settings
    scope = "public" if public else "private"
    caching = (
        f"{scope},max-age={settings.ldes_max_age_immutable_s},immutable"
        if is_immutable
        else f"{scope},max-age={settings.ldes_max_age_s}"
    )
    vary = "Accept" if public and not differs else "Accept, Authorization, Cookie"
    headers = [("Cache-Control", caching), ("Vary", vary), ("Content-Disposition", "inline")]
    if not settings.cors_origins:
        # Clients of event streams run in pages of any origin; where origins are configured, the server says which.
        headers.append(("Access-Control-Allow-Origin", "*"))
    return headers


def document(quads: Sequence[Quad], syntax: Syntax, status: int = 200) -> Response:
    """A small document of the administration."""
    headers = [("Cache-Control", "no-store"), ("Vary", "Accept, Authorization, Cookie")]
    return Response(write(quads, syntax), content_type(syntax), status, headers)
