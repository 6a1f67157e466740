"""The administration below ``/admin/api/v1``, as the Flanders LDES server has it.

Everything that writes runs in a thread, as it waits for its commit.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from thalweg.auth.policy import Action
from thalweg.domain.errors import AlreadyExists, NotFound
from thalweg.domain.streams import DcatCatalogue, EventStream, View
from thalweg.doors.http import Deferred, Request, Response
from thalweg.doors.ldes.answer import (
    asked_syntax,
    document,
    find_stream,
    find_view,
    is_shown,
    require_workspace,
    seen,
    visible,
)
from thalweg.doors.ldes.errors import PLAIN
from thalweg.doors.ldes.work import in_thread
from thalweg.encode.rdf.administration import (
    read_dcat,
    read_event_source,
    read_graph,
    read_shape,
    read_stream,
    read_view,
)
from thalweg.encode.rdf.graph import Graph
from thalweg.encode.rdf.shapes import validator_of
from thalweg.encode.rdf.write import (
    Addresses,
    catalogue_quads,
    shape_quads,
    stream_quads,
    streams_quads,
    view_quads,
)
from thalweg.services.services import Services


def answer(operation: str, request: Request, services: Services, stream: str, other: str) -> Response | Deferred:
    """One operation of the administration.

    stream, other  names from the path: of a stream, and of a view or catalogue
    """
    call = _Call(operation, request, services, stream, other)
    read = _READS.get(operation)
    if read is not None:
        return read(call)
    write = _WRITES[operation]
    # Before anything is read of the body, and before a thread is asked for.
    if not stream:
        call.workspace()
    elif operation in _OF_NOTHING:
        call.known_stream()
    else:
        call.stream()
    return in_thread(lambda: write(call))


class _Call:
    """A request with what most operations take from it."""

    def __init__(self, operation: str, request: Request, services: Services, stream: str, other: str) -> None:
        self.request = request
        self.services = services
        self.streams = services.streams
        self.name = stream
        self.other = other
        self.by = request.actor("ldes", operation)
        self.addresses = Addresses(request.base_url)

    def body(self) -> Graph:
        request = self.request
        kind = request.header(b"content-type")
        return read_graph(request.body, kind, f"{request.base_url}/", self.streams.contexts)

    def stream(self, action: Action = Action.REGISTER) -> EventStream:
        return find_stream(self.request, self.services, self.name, action)

    def known_stream(self) -> EventStream | None:
        """None where there is none, to who could make one."""
        try:
            return self.stream()
        except NotFound:
            self.workspace()
            return None

    def workspace(self) -> int:
        """The id of the workspace, to who may change it as a whole."""
        return require_workspace(self.request, self.services, Action.REGISTER)

    def view(self, stream: EventStream) -> View:
        return find_view(self.services, stream, self.other)

    def views(self, stream: EventStream) -> list[View]:
        return list(self.streams.views(stream).values())

    def described(self, stream: EventStream, status: int = 200) -> Response:
        quads = stream_quads(self.addresses, stream, self.views(stream))
        return document(quads, asked_syntax(self.request), status)

    def described_view(self, stream: EventStream, view: View, status: int = 200) -> Response:
        return document(view_quads(self.addresses, stream, [view]), asked_syntax(self.request), status)


_DONE: Final = b""


def _done(status: int = 200) -> Response:
    return Response(_DONE, "", status)


# ---------------------------------------------------------------- streams


def _list_streams(call: _Call) -> Response:
    quads = streams_quads(call.addresses, visible(call.request, call.services))
    return document(quads, asked_syntax(call.request))


def _create_stream(call: _Call) -> Response:
    read = read_stream(call.body())
    # Refuses a shape that could not be checked later.
    validator_of(read.stream.shape)
    workspace = call.workspace()
    if read.stream.name in call.streams.streams(workspace):
        raise AlreadyExists("stream", f"There is an event stream '{read.stream.name}' already.")
    wanted, views = replace(read.stream, workspace_id=workspace), read.views
    if read.publishes is not None:
        wanted, views = call.services.published.described(wanted, views, *read.publishes)
        # What the caller may not read cannot be published by it, and does not exist for it.
        if not is_shown(call.request, call.services, seen(call.request, call.services), wanted):
            kind, key = read.publishes
            raise NotFound(kind.value, f"There is no {kind.value} '{key[:100]}'.")
    created = call.streams.create_stream(wanted, views, by=call.by)
    return call.described(created, 201)


def _describe_stream(call: _Call) -> Response:
    return call.described(call.stream(Action.READ))


def _delete_stream(call: _Call) -> Response:
    call.streams.delete_stream(call.stream(), by=call.by)
    return _done()


def _describe_shape(call: _Call) -> Response:
    return document(shape_quads(call.stream(Action.READ)), asked_syntax(call.request))


def _replace_shape(call: _Call) -> Response:
    stream = call.stream()
    shape, shape_class = read_shape(call.body())
    validator_of(shape)
    changed = call.streams.put_shape(stream, shape, shape_class, by=call.by)
    return document(shape_quads(changed), asked_syntax(call.request))


def _replace_event_source(call: _Call) -> Response:
    stream = call.stream()
    changed = call.streams.put_event_source(stream, read_event_source(call.body()), by=call.by)
    return call.described(changed)


def _close(call: _Call) -> Response:
    return call.described(call.streams.close_stream(call.stream(), by=call.by))


# ---------------------------------------------------------------- views


def _list_views(call: _Call) -> Response:
    stream = call.stream(Action.READ)
    return document(view_quads(call.addresses, stream, call.views(stream)), asked_syntax(call.request))


def _create_view(call: _Call) -> Response:
    stream = call.stream()
    view = read_view(call.body())
    if view.name in call.streams.views(stream):
        raise AlreadyExists("view", f"The event stream '{stream.name}' has a view '{view.name}' already.")
    created = call.streams.create_view(stream, view, by=call.by)
    return call.described_view(stream, created, 201)


def _describe_view(call: _Call) -> Response:
    stream = call.stream(Action.READ)
    return call.described_view(stream, call.view(stream))


def _delete_view(call: _Call) -> Response:
    """Succeeds for a view that is not there: public test plans delete one that they never made."""
    call.streams.delete_view(call.stream(), call.other, by=call.by)
    return _done()


# ---------------------------------------------------------------- DCAT


def _create_stream_dcat(call: _Call) -> Response:
    stream = call.stream()
    dcat = read_dcat(call.body(), "stream")
    if stream.dcat:
        raise AlreadyExists("dcat", f"The event stream '{stream.name}' has a DCAT description already; replace it.")
    call.streams.put_dcat(stream, dcat, by=call.by)
    return _done(201)


def _replace_stream_dcat(call: _Call) -> Response:
    stream = call.stream()
    dcat = read_dcat(call.body(), "stream")
    if not stream.dcat:
        raise NotFound("dcat", f"The event stream '{stream.name}' has no DCAT description.")
    call.streams.put_dcat(stream, dcat, by=call.by)
    return _done()


def _delete_stream_dcat(call: _Call) -> Response:
    stream = call.known_stream()
    if stream is not None and stream.dcat:
        call.streams.put_dcat(stream, "", by=call.by)
    return _done()


def _create_view_dcat(call: _Call) -> Response:
    stream = call.stream()
    view = call.view(stream)
    dcat = read_dcat(call.body(), "view")
    if view.dcat:
        raise AlreadyExists("dcat", f"The view '{view.name}' has a DCAT description already; replace it.")
    call.streams.put_view_dcat(stream, view, dcat, by=call.by)
    return _done(201)


def _replace_view_dcat(call: _Call) -> Response:
    stream = call.stream()
    view = call.view(stream)
    dcat = read_dcat(call.body(), "view")
    if not view.dcat:
        raise NotFound("dcat", f"The view '{view.name}' has no DCAT description.")
    call.streams.put_view_dcat(stream, view, dcat, by=call.by)
    return _done()


def _delete_view_dcat(call: _Call) -> Response:
    stream = call.known_stream()
    view = call.streams.views(stream).get(call.other) if stream is not None else None
    if stream is not None and view is not None and view.dcat:
        call.streams.put_view_dcat(stream, view, "", by=call.by)
    return _done()


def _describe_catalogue(call: _Call) -> Response:
    stored = call.streams.dcat_catalogue(seen(call.request, call.services).workspace.id)
    quads = catalogue_quads(call.addresses, stored, visible(call.request, call.services))
    return document(quads, asked_syntax(call.request))


def _create_catalogue(call: _Call) -> Response:
    workspace = call.workspace()
    dcat = read_dcat(call.body(), "catalogue")
    if call.streams.dcat_catalogue(workspace) is not None:
        raise AlreadyExists("dcat", "There is a DCAT catalogue already; replace it.")
    created = DcatCatalogue(str(uuid.uuid4()), dcat)
    call.streams.put_dcat_catalogue(workspace, created, by=call.by)
    return Response(created.id.encode(), PLAIN, 201)


def _replace_catalogue(call: _Call) -> Response:
    workspace = call.workspace()
    dcat = read_dcat(call.body(), "catalogue")
    stored = call.streams.dcat_catalogue(workspace)
    if stored is None or stored.id != call.other:
        raise NotFound("dcat", f"There is no DCAT catalogue '{call.other[:60]}'.")
    call.streams.put_dcat_catalogue(workspace, DcatCatalogue(stored.id, dcat), by=call.by)
    return _done()


def _delete_catalogue(call: _Call) -> Response:
    workspace = call.workspace()
    stored = call.streams.dcat_catalogue(workspace)
    if stored is not None and stored.id == call.other:
        call.streams.put_dcat_catalogue(workspace, None, by=call.by)
    return _done()


_READS: Final[dict[str, Callable[[_Call], Response]]] = {
    "ListEventStreams": _list_streams,
    "DescribeEventStream": _describe_stream,
    "DescribeShape": _describe_shape,
    "ListViews": _list_views,
    "DescribeView": _describe_view,
    "DescribeCatalogue": _describe_catalogue,
}
_OF_NOTHING: Final = ("DeleteStreamDcat", "DeleteViewDcat")
"""Operations that succeed where there is no such stream."""
_WRITES: Final[dict[str, Callable[[_Call], Response]]] = {
    "CreateEventStream": _create_stream,
    "DeleteEventStream": _delete_stream,
    "ReplaceShape": _replace_shape,
    "ReplaceEventSource": _replace_event_source,
    "CloseEventStream": _close,
    "CreateView": _create_view,
    "DeleteView": _delete_view,
    "CreateStreamDcat": _create_stream_dcat,
    "ReplaceStreamDcat": _replace_stream_dcat,
    "DeleteStreamDcat": _delete_stream_dcat,
    "CreateViewDcat": _create_view_dcat,
    "ReplaceViewDcat": _replace_view_dcat,
    "DeleteViewDcat": _delete_view_dcat,
    "CreateCatalogue": _create_catalogue,
    "ReplaceCatalogue": _replace_catalogue,
    "DeleteCatalogue": _delete_catalogue,
}
