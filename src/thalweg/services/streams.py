"""Event streams: ingest, administration, nodes for clients, live following."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from thalweg.domain.access import Actor
from thalweg.domain.bounded import Bounded
from thalweg.domain.errors import AlreadyExists, InvalidParameter, NotFound, StoreUnavailable
from thalweg.domain.streams import (
    MAX_MEMBERS,
    Appended,
    DcatCatalogue,
    EventStream,
    Member,
    Node,
    Retention,
    StoredMember,
    StreamState,
    StreamStore,
    View,
    ViewState,
)
from thalweg.domain.tree import canonical

if TYPE_CHECKING:
    from thalweg.encode.rdf.shapes import Validator
    from thalweg.services.published import Published

T = TypeVar("T")

_WRITE_TIMEOUT_S: Final = 60.0
_MAX_VALIDATORS: Final = 1_000
LOCAL_BASE: Final = "http://localhost/"
"""What relative IRIs of documents without an address are resolved against."""


def no_contexts(address: str) -> Any:
    """For bodies of which no JSON-LD context has to be known by its address."""
    return None


class Streams:
    """Use cases over one store. May be called from any thread.

    Who may do what is the door's question (``auth.policy`` with ``Catalogue.dataset("stream", ...)``); ``by`` names the
    caller for the audit log.
    """

    def __init__(
        self,
        store: StreamStore,
        *,
        contexts: Callable[[str], Any] = no_contexts,
        strict: bool = False,
        published: Published | None = None,
    ) -> None:
        """contexts, strict  how bodies are read: see ``encode.rdf.members.read_members``
        published        finds what descriptions in files publish
        """
        self._store = store
        self._published = published
        self.contexts = contexts
        self.strict = strict
        self._validators: Bounded[int, tuple[str, Validator | None]] = Bounded(_MAX_VALIDATORS)

    # ------------------------------------------------------------ reading

    def streams(self, workspace_id: int) -> Mapping[str, EventStream]:
        """By name."""
        return self._store.streams(workspace_id)

    def stream(self, workspace_id: int, name: str) -> EventStream:
        """NotFound ``stream``."""
        found = self._store.streams(workspace_id).get(name)
        if found is None:
            raise NotFound("stream", f"There is no event stream '{name[:80]}'.")
        return found

    def views(self, stream: EventStream) -> Mapping[str, View]:
        """By name, in the order of creation."""
        return self._store.views(stream.id)

    def view(self, stream: EventStream, name: str) -> View:
        """NotFound ``view``."""
        found = self._store.views(stream.id).get(name)
        if found is None:
            raise NotFound("view", f"The event stream '{stream.name}' has no view '{name[:80]}'.")
        return found

    def state(self, stream: EventStream) -> StreamState:
        """NotFound ``stream``."""
        return self._store.stream_state(stream.id)

    def view_states(self, stream: EventStream) -> dict[int, ViewState]:
        """By view id."""
        return self._store.view_states(stream.id)

    def node(self, stream: EventStream, view: View, query: Sequence[tuple[str, str]], *, members: bool = True) -> Node:
        """The node that a query string names, its parameters decoded and in any order.

        members  False leaves them out, which takes some 15 µs whatever the page
        raises  NotFound ``view``, for parameters that name no node, too; Gone; DamagedData
        """
        found = canonical(view, query)
        if found is None:
            raise NotFound("view", f"The view '{view.name}' has no such node.")
        return self._store.node(stream.id, view.id, *found, members=members)

    def members(self, stream: EventStream, after: int = 0, *, limit: int = MAX_MEMBERS) -> list[StoredMember]:
        """Members after a sequence number: what live following sends next."""
        return self._store.members(stream.id, after, limit=limit)

    def member(self, stream: EventStream, iri: str) -> StoredMember | None:
        return self._store.member(stream.id, iri)

    # ------------------------------------------------------------ ingest

    def ingest(
        self,
        stream: EventStream,
        body: bytes,
        media_type: str,
        *,
        base_iri: str = LOCAL_BASE,
        by: Actor | str = "",
    ) -> Future[Appended]:
        """Read a request's body into members and store them, all or none.

        base_iri  what relative IRIs are resolved against
        raises  at once what reading finds (InvalidRequest, InvalidParameter, TooLarge; NotSupported for the media
                type); the future raises NotFound, InvalidParameter (closed), StoreUnavailable
        """
        from thalweg.encode.rdf.templates import read_members

        _refuse_published(stream)
        members = read_members(
            stream,
            body,
            media_type,
            base_iri=base_iri,
            contexts=self.contexts,
            strict=self.strict,
            validate=self._validator(stream),
        )
        return self._store.append(stream.id, members, by=by)

    @staticmethod
    def reader(
        stream: EventStream, contexts: Callable[[str], Any], strict: bool
    ) -> Callable[[bytes, str, str], list[Member]]:
        """What ``ingest`` reads bodies with, for those who read many: body, media type and base IRI to members."""
        from thalweg.encode.rdf.shapes import validator_of
        from thalweg.encode.rdf.templates import read_members

        validate = validator_of(stream.shape) if stream.shape else None

        def read(body: bytes, media_type: str, base_iri: str) -> list[Member]:
            return read_members(
                stream,
                body,
                media_type,
                base_iri=base_iri,
                contexts=contexts,
                strict=strict,
                validate=validate,
            )

        return read

    def append(self, stream: EventStream, members: Sequence[Member], *, by: Actor | str = "") -> Future[Appended]:
        """Store members that have been read, all or none; see ``StreamStore.append``."""
        _refuse_published(stream)
        return self._store.append(stream.id, members, by=by)

    def tend(self, stream: EventStream) -> None:
        """Keep the stream's own structures in form, for those who bring many members."""
        while self._store.tend(stream.id).more:
            continue

    def _validator(self, stream: EventStream) -> Validator | None:
        """What checks bodies against the stream's shape; None where it asks for nothing."""
        known = self._validators.get(stream.id)
        if known is not None and known[0] == stream.shape:
            return known[1]
        from thalweg.encode.rdf.shapes import validator_of

        made = validator_of(stream.shape) if stream.shape else None
        self._validators.put(stream.id, (stream.shape, made))
        return made

    # ------------------------------------------------------------ administration; each waits for its commit

    def create_stream(self, stream: EventStream, views: Sequence[View] = (), *, by: Actor | str = "") -> EventStream:
        """Store a new stream with its first views; id, UUID and time of creation are given here.

        raises  AlreadyExists ``stream``, ``view``; NotFound ``workspace``; InvalidParameter
        """
        names = [view.name for view in views]
        if len(set(names)) < len(names):
            raise AlreadyExists("view", "Two views have the same name.")
        made = replace(stream, id=0, uuid=str(uuid.uuid4()), created_us=time.time_ns() // 1000)
        return _done(self._store.put_stream(made, [replace(view, id=0) for view in views], by=by))

    def delete_stream(self, stream: EventStream, *, by: Actor | str = "") -> None:
        """The stream is gone and its name free when this returns. NotFound."""
        _done(self._store.delete_stream(stream.id, by=by))

    def put_shape(self, stream: EventStream, shape: str, shape_class: str, *, by: Actor | str = "") -> EventStream:
        """shape  N-Triples text; shape_class  IRI of its ``sh:targetClass``, or empty"""
        return _done(self._store.put_stream(replace(stream, shape=shape, shape_class=shape_class), by=by))

    def put_dcat(self, stream: EventStream, dcat: str, *, by: Actor | str = "") -> EventStream:
        """Empty text removes it."""
        return _done(self._store.put_stream(replace(stream, dcat=dcat), by=by))

    def put_event_source(self, stream: EventStream, retention: Retention, *, by: Actor | str = "") -> EventStream:
        """Replace the policies of the event source; they are applied anew to all members."""
        return _done(self._store.put_stream(replace(stream, retention=retention), by=by))

    def close_stream(self, stream: EventStream, *, by: Actor | str = "") -> EventStream:
        """No member comes any more; every page becomes immutable once all members are in their buckets."""
        return _done(self._store.put_stream(replace(stream, is_closed=True), by=by))

    def create_view(self, stream: EventStream, view: View, *, by: Actor | str = "") -> View:
        """A view; the background work fills it from the first member on. AlreadyExists ``view``; InvalidParameter."""
        return _done(self._store.put_view(replace(view, id=0, stream_id=stream.id), by=by))

    def delete_view(self, stream: EventStream, name: str, *, by: Actor | str = "") -> bool:
        """Says whether there was one."""
        view = self._store.views(stream.id).get(name)
        if view is None:
            return False
        try:
            _done(self._store.delete_view(stream.id, view.id, by=by))
        except NotFound:
            # Another process was faster.
            return False
        return True

    def put_view_dcat(self, stream: EventStream, view: View, dcat: str, *, by: Actor | str = "") -> View:
        """Empty text removes it."""
        return _done(self._store.put_view(replace(view, dcat=dcat), by=by))

    def dcat_catalogue(self, workspace_id: int) -> DcatCatalogue | None:
        return self._store.dcat_catalogue(workspace_id)

    def put_dcat_catalogue(self, workspace_id: int, catalogue: DcatCatalogue | None, *, by: Actor | str = "") -> None:
        """Set or (None) remove the workspace's own DCAT document."""
        _done(self._store.put_dcat_catalogue(workspace_id, catalogue, by=by))

    # ------------------------------------------------------------ descriptions in files

    def declare(
        self, workspace_id: int, document: bytes, media_type: str, *, public: bool = True, by: Actor | str = ""
    ) -> tuple[EventStream, bool]:
        """Have the stream that a description names: made with its views if it is not there; of one that is there,
        views it lacks are added and nothing else is changed.

        public   who may read one that is made now: see ``EventStream``
        returns  the stream, and whether it was made
        raises   what reading the description finds; AlreadyExists never
        """
        from thalweg.encode.rdf.administration import read_graph, read_stream

        described = read_stream(read_graph(document, media_type, LOCAL_BASE, self.contexts))
        wanted = replace(described.stream, workspace_id=workspace_id, public=public)
        stored = self._store.streams(workspace_id).get(wanted.name)
        if stored is None:
            views = described.views
            if described.publishes is not None:
                if self._published is None:
                    raise NotFound(described.publishes[0].value, "Nothing is here to be published.")
                wanted, views = self._published.described(wanted, views, *described.publishes)
            try:
                return self.create_stream(wanted, views, by=by), True
            except AlreadyExists:
                # Another process was faster.
                stored = self.stream(workspace_id, wanted.name)
        for path in ("timestamp_path", "version_of_path", "create_versions"):
            if getattr(stored, path) != getattr(wanted, path):
                raise InvalidParameter(
                    "stream",
                    f"The event stream '{stored.name}' is there already, with another {path.replace('_', ' ')}.",
                )
        there = self.views(stored)
        for view in described.views:
            if view.name not in there:
                try:
                    self.create_view(stored, view, by=by)
                except AlreadyExists:
                    continue
        return stored, False

    def declare_view(self, stream: EventStream, document: bytes, media_type: str, *, by: Actor | str = "") -> View:
        """Add the view that a document describes. AlreadyExists ``view``, and what reading it finds."""
        from thalweg.encode.rdf.administration import read_graph, read_view

        return self.create_view(stream, read_view(read_graph(document, media_type, LOCAL_BASE, self.contexts)), by=by)


def _refuse_published(stream: EventStream) -> None:
    """InvalidParameter for a stream whose members are made by the server."""
    if stream.source is not None:
        raise InvalidParameter(
            "stream",
            f"The event stream '{stream.name}' publishes the {stream.source.kind.value} '{stream.source.key}': what is "
            "stored there becomes a member, and nothing else.",
        )


def _done(future: Future[T]) -> T:
    """The result, once durable. StoreUnavailable if that takes more than a minute."""
    try:
        return future.result(_WRITE_TIMEOUT_S)
    except TimeoutError:
        raise StoreUnavailable("The change was not confirmed in time; look whether it was made.") from None
