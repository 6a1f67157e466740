"""What clients replicate from: the catalogue, streams, views and their nodes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qsl

from thalweg.domain.errors import NotFound
from thalweg.domain.streams import EventStream, Node, View
from thalweg.doors.http import Deferred, Request, Response
from thalweg.doors.ldes import pages
from thalweg.doors.ldes.answer import (
    HTML_TYPE,
    asked_for,
    content_type,
    find_stream,
    find_view,
    head,
    is_open,
    seen,
    validator,
    visible,
)
from thalweg.doors.ldes.follow import follow
from thalweg.doors.ldes.follow_published import follow_published
from thalweg.doors.ldes.work import in_thread
from thalweg.encode.rdf.syntax import EVENT_STREAM, TRIG, TURTLE, Syntax
from thalweg.encode.rdf.write import (
    Addresses,
    catalogue_quads,
    node_parts,
    node_quads,
    stream_quads,
    view_quads,
    write,
    write_node,
)
from thalweg.services.services import Services

MAX_PARAMETERS: Final = 20
LARGE_PAGE: Final = 500
"""Pages of views with more members than this a page are read in a thread: that takes over five milliseconds."""
JOINED_BYTES: Final = 4 << 20
"""Longer pages leave in pieces, so that their text is not held twice."""


def get_catalogue(request: Request, services: Services) -> Response | Deferred:
    """The DCAT catalogue of the workspace (DCAT 3), composed of what the caller may see."""
    choice = asked_for(request)
    streams = visible(request, services)
    headers = head(services, public=request.principal.is_anonymous, differs=True)
    if choice == EVENT_STREAM:
        choice = TURTLE
    if not isinstance(choice, Syntax):
        body = pages.catalogue(request.base_url, streams)
        return Response(body, HTML_TYPE, 200, headers, etag=validator(services.catalogue.epoch, body))
    stored = services.streams.dcat_catalogue(seen(request, services).workspace.id)
    body = write(catalogue_quads(Addresses(request.base_url), stored, streams), choice)
    return Response(body, content_type(choice), 200, headers, etag=validator(services.catalogue.epoch, body))


def get_stream(request: Request, services: Services, name: str) -> Response | Deferred:
    """A stream's description with all its views; its members as they come, to who asks for events."""
    stream = find_stream(request, services, name)
    choice = asked_for(request)
    if choice == EVENT_STREAM:
        return follow_any(request, services, stream)
    views = tuple(services.streams.views(stream).values())
    headers = head(services, public=is_open(request, services, stream))
    if not isinstance(choice, Syntax):
        state = services.streams.state(stream)
        if stream.source is not None:
            state = services.published.state(stream, seen(request, services))
        body = pages.stream(request.base_url, stream, views, state)
        return Response(body, HTML_TYPE, 200, headers, etag=validator(services.catalogue.epoch, body))
    body = _stream_document(request.base_url, stream, views, choice)
    etag = validator(services.catalogue.epoch, request.base_url, stream.id, stream.generation, choice.name)
    return Response(body, content_type(choice), 200, headers, etag=etag)


@lru_cache(maxsize=64)
def _stream_document(base_url: str, stream: EventStream, views: tuple[View, ...], syntax: Syntax) -> bytes:
    return write(stream_quads(Addresses(base_url), stream, views), syntax)


def get_description(request: Request, services: Services, name: str, view_name: str) -> Response | Deferred:
    """What ``tree:viewDescription`` leads to."""
    stream = find_stream(request, services, name)
    view = find_view(services, stream, view_name)
    choice = asked_for(request)
    syntax = choice if isinstance(choice, Syntax) else TURTLE
    body = write(view_quads(Addresses(request.base_url), stream, [view]), syntax)
    headers = head(services, public=is_open(request, services, stream))
    return Response(body, content_type(syntax), 200, headers, etag=validator(services.catalogue.epoch, body))


# ---------------------------------------------------------------- nodes


def get_node(request: Request, services: Services, name: str, view_name: str) -> Response | Deferred:
    """A view's root, a bucket or a page (TREE)."""
    stream = find_stream(request, services, name)
    view = find_view(services, stream, view_name)
    choice = asked_for(request)
    if choice == EVENT_STREAM:
        return follow_any(request, services, stream)
    query = _query(request)
    if stream.source is not None:
        # Its pages are made of rows: some milliseconds.
        return in_thread(lambda: _published_node(request, services, stream, view, query, choice))
    if request.header(b"if-none-match"):
        # What most clients get that follow a view; the members would be read for nothing.
        found = services.streams.node(stream, view, query, members=False)
        headers, etag = _identity(request, services, stream, found, choice)
        if etag in request.header(b"if-none-match"):
            # The server answers 304: nothing has to be written for it.
            return Response(b"", "", 200, headers, etag=etag)
    if isinstance(choice, Syntax) and choice.joins and view.page_size <= LARGE_PAGE:
        return _node(request, services, stream, services.streams.node(stream, view, query), choice)
    return in_thread(lambda: _node(request, services, stream, services.streams.node(stream, view, query), choice))


def _published_node(
    request: Request,
    services: Services,
    stream: EventStream,
    view: View,
    query: list[tuple[str, str]],
    choice: Syntax | str,
) -> Response:
    shown = seen(request, services)
    if request.header(b"if-none-match"):
        found = services.published.node(stream, view, query, shown, members=False)
        headers, etag = _identity(request, services, stream, found, choice)
        if etag in request.header(b"if-none-match"):
            return Response(b"", "", 200, headers, etag=etag)
    return _node(request, services, stream, services.published.node(stream, view, query, shown), choice)


def follow_any(request: Request, services: Services, stream: EventStream) -> Response | Deferred:
    """Members as they come, of whatever stream."""
    if stream.source is not None:
        return follow_published(request, services, stream)
    return follow(request, services, stream)


def _query(request: Request) -> list[tuple[str, str]]:
    if not request.query:
        return []
    try:
        return parse_qsl(
            request.query.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=MAX_PARAMETERS,
        )
    except ValueError:
        raise NotFound("view", "There is no node with such a query string.") from None


def _identity(
    request: Request, services: Services, stream: EventStream, node: Node, choice: Syntax | str
) -> tuple[list[tuple[str, str]], str]:
    """Headers and validator of a node's document."""
    headers = head(services, public=is_open(request, services, stream), is_immutable=node.is_immutable)
    name = choice.name if isinstance(choice, Syntax) else choice
    etag = validator(
        services.catalogue.epoch, request.base_url, stream.generation, node.view.id, node.query, node.version, name
    )
    return headers, etag


def _node(request: Request, services: Services, stream: EventStream, node: Node, choice: Syntax | str) -> Response:
    headers, etag = _identity(request, services, stream, node, choice)
    if not isinstance(choice, Syntax):
        return Response(pages.node(request.base_url, stream, node), HTML_TYPE, 200, headers, etag=etag)
    kind = content_type(choice)
    addresses = Addresses(request.base_url)
    if not choice.joins:
        return Response(write_node(addresses, stream, node, choice), kind, 200, headers, etag=etag)
    syntax = TURTLE if choice is TRIG else choice
    parts = node_parts(write(node_quads(addresses, stream, node), syntax), addresses, stream, node)
    if len(node.members) > LARGE_PAGE or sum(map(len, parts)) > JOINED_BYTES:
        return Response(_given(parts), kind, 200, headers, etag=etag)
    return Response(b"".join(parts), kind, 200, headers, etag=etag)


def _given(parts: list[bytes]) -> Iterator[bytes]:
    """The pieces, each let go once it is given."""
    parts.reverse()
    while parts:
        yield parts.pop()
