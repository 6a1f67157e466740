"""Event streams of the embedded store: the contract's calls, each handed to the part that does it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Final, TypeVar

from thalweg.domain.access import Actor
from thalweg.domain.errors import InvalidParameter, NotFound, ThalwegError
from thalweg.domain.streams import (
    MAX_MEMBERS,
    Appended,
    Backlog,
    DcatCatalogue,
    EventStream,
    Member,
    Node,
    Placement,
    Step,
    StoredMember,
    StreamState,
    View,
    ViewState,
)
from thalweg.domain.time import SECOND_US
from thalweg.store.sqlite import stream_catalogue, stream_tending
from thalweg.store.sqlite.connection import Readers
from thalweg.store.sqlite.lease import Lease
from thalweg.store.sqlite.stream_catalogue import StreamCatalogue, check_stream, check_view
from thalweg.store.sqlite.stream_codec import Codec
from thalweg.store.sqlite.stream_filling import assign
from thalweg.store.sqlite.stream_members import MemberReader, append, check_members
from thalweg.store.sqlite.stream_nodes import read_node
from thalweg.store.sqlite.stream_retention import retain_source, retain_view
from thalweg.store.sqlite.writer import Transaction, Writer

T = TypeVar("T")

_log = logging.getLogger(__name__)

LEASE_US: Final = 6 * SECOND_US
"""Short, so that views are not behind for long when a process dies."""

STATE: Final = "SELECT sequence, members, size_bytes FROM stream_state WHERE stream_id = ?"
VIEW_STATES: Final = """
    SELECT s.view_id, s.position, s.members, s.placed, s.buckets, s.pages, s.generation
    FROM stream_view v JOIN view_state s ON s.stream_id = v.stream_id AND s.view_id = v.id WHERE v.stream_id = ?"""
BACKLOG: Final = """
    SELECT v.stream_id, v.id, s.position, t.sequence
    FROM stream_state t JOIN stream_view v ON v.stream_id = t.stream_id
    JOIN view_state s ON s.stream_id = v.stream_id AND s.view_id = v.id
    WHERE s.position < t.sequence ORDER BY t.sequence - s.position"""
FRESH_KEYS: Final = "SELECT fresh_keys FROM stream_state WHERE stream_id = ?"


class StreamCalls:
    """What ``StreamStore`` asks for; part of the store's class."""

    def __init__(self, readers: Readers, writer: Writer) -> None:
        self._stream_readers = readers
        self._stream_writer = writer
        self._codec = Codec()
        self._streams = StreamCatalogue(readers)
        self._members = MemberReader(readers, self._codec)
        self._stream_lease = Lease(readers, writer, "streams", length_us=LEASE_US)
        self._worked = False
        self._nothing_waited = (0, -1)

    # -------------------------------------------------------------- administration

    def streams(self, workspace_id: int) -> Mapping[str, EventStream]:
        return self._streams.streams(workspace_id)

    def views(self, stream_id: int) -> Mapping[str, View]:
        return self._streams.views(stream_id)

    def stream_ids(self) -> Iterator[tuple[int, int]]:
        for stream in list(self._streams.all_streams().values()):
            yield stream.workspace_id, stream.id

    def dcat_catalogue(self, workspace_id: int) -> DcatCatalogue | None:
        return self._streams.document(workspace_id)

    def put_dcat_catalogue(
        self, workspace_id: int, catalogue: DcatCatalogue | None, *, by: Actor | str = ""
    ) -> Future[None]:
        return self._stream_writer.submit(lambda tx: stream_catalogue.put_document(tx, workspace_id, catalogue, by))

    def put_stream(
        self, stream: EventStream, views: Sequence[View] = (), *, by: Actor | str = ""
    ) -> Future[EventStream]:
        def checked() -> Future[EventStream]:
            if views and stream.id:
                raise InvalidParameter("view", "Views come along with a new stream alone.")
            check_stream(stream)
            for view in views:
                check_view(view)
            return self._stream_writer.submit(lambda tx: stream_catalogue.put_stream(tx, stream, views, by))

        return _or_failed(checked)

    def delete_stream(self, stream_id: int, *, by: Actor | str = "") -> Future[None]:
        return self._stream_writer.submit(
            lambda tx: stream_catalogue.delete_stream(tx, stream_id, by), frees_space=True
        )

    def put_view(self, view: View, *, by: Actor | str = "") -> Future[View]:
        def checked() -> Future[View]:
            check_view(view)
            return self._stream_writer.submit(lambda tx: stream_catalogue.put_view(tx, view, by))

        return _or_failed(checked)

    def delete_view(self, stream_id: int, view_id: int, *, by: Actor | str = "") -> Future[None]:
        return self._stream_writer.submit(
            lambda tx: stream_catalogue.delete_view(tx, stream_id, view_id, by), frees_space=True
        )

    def stream_state(self, stream_id: int) -> StreamState:
        for row in self._stream_readers.rows(STATE, (stream_id,)):
            return StreamState(*row)
        raise NotFound("stream", "The event stream is not there.")

    def view_states(self, stream_id: int) -> dict[int, ViewState]:
        return {row[0]: ViewState(*row) for row in self._stream_readers.rows(VIEW_STATES, (stream_id,))}

    # -------------------------------------------------------------- members and nodes

    def append(self, stream_id: int, members: Sequence[Member], *, by: Actor | str = "") -> Future[Appended]:
        def checked() -> Future[Appended]:
            check_members(members)
            return self._stream_writer.submit_joined(
                ("append", stream_id), members, lambda tx, requests: append(tx, self._codec, stream_id, requests)
            )

        return _or_failed(checked)

    def members(self, stream_id: int, after: int = 0, *, limit: int = MAX_MEMBERS) -> list[StoredMember]:
        return self._members.members(stream_id, after, min(limit, MAX_MEMBERS))

    def member(self, stream_id: int, iri: str) -> StoredMember | None:
        return self._members.member(stream_id, iri)

    def node(
        self, stream_id: int, view_id: int, bucket: str = "", page: int | None = None, *, members: bool = True
    ) -> Node:
        view = self._streams.view(stream_id, view_id)
        if view is None:
            raise NotFound("view", "The view is not there.")
        return read_node(self._stream_readers, self._codec, view, bucket, page, members=members)

    # -------------------------------------------------------------- background work

    def hold_stream_work(self) -> bool:
        self._worked = self._stream_lease.hold()
        return self._worked

    def leave_streams(self) -> None:
        """Let another process do the background work at once."""
        if not self._worked:
            return
        try:
            self._stream_writer.submit(self._stream_lease.release).result()
        except ThalwegError as error:
            # It expires by itself.
            _log.warning("background work on event streams is not given up: %s", error.message)

    def backlog(self) -> list[Backlog]:
        reader = self._stream_readers.mine()
        # Changes with every commit of another connection, and all writing is done by one of its own.
        look = (id(reader), reader.rows("PRAGMA data_version")[0][0])
        if look == self._nothing_waited:
            return []
        rows = reader.rows(BACKLOG)
        if not rows:
            self._nothing_waited = look
        streams = self._streams.all_streams()
        found: list[Backlog] = []
        for stream_id, view_id, position, sequence in rows:
            stream, view = streams.get(stream_id), self._streams.view(stream_id, view_id)
            if stream is not None and view is not None:
                found.append(Backlog(stream, view, position, sequence))
        return found

    def assign(
        self, stream_id: int, view_id: int, after: int, through: int, placements: Sequence[Placement] | None
    ) -> Future[bool]:
        view = self._streams.view(stream_id, view_id)
        if view is None:
            return _done(False)
        return self._stream_writer.submit(lambda tx: assign(tx, stream_id, view, after, through, placements))

    def retain(self, stream_id: int, view_id: int | None, now_us: int, *, grace_us: int) -> Future[Step]:
        stream = self._streams.all_streams().get(stream_id)
        view = None if view_id is None else self._streams.view(stream_id, view_id)
        if stream is None or (view is None and view_id is not None):
            return _done(Step(0, False))
        if view is None:
            return self._stream_writer.submit(
                lambda tx: retain_source(tx, self._codec, stream, now_us), frees_space=True
            )
        return self._stream_writer.submit(
            lambda tx: retain_view(tx, self._codec, stream_id, view, now_us, grace_us), frees_space=True
        )

    def clean(self, now_us: int) -> Future[Step]:
        if not self._stream_readers.rows(stream_tending.REMOVAL) and not self._stream_readers.rows(
            stream_tending.GONE, (now_us, 1)
        ):
            return _done(Step(0, False))
        return self._stream_writer.submit(lambda tx: stream_tending.clean(tx, now_us), frees_space=True)

    def tend(self, stream_id: int) -> Step:
        work: Callable[[Transaction], Step] | None = None
        for (fresh_keys,) in self._stream_readers.rows(FRESH_KEYS, (stream_id,)):
            if stream_tending.wants_settling(fresh_keys):
                work = lambda tx: stream_tending.settle(tx, stream_id)  # noqa: E731
        work = work or stream_tending.dictionary_wanted(self._stream_readers, self._codec, stream_id)
        if work is None:
            return Step(0, False)
        return self._stream_writer.submit(work).result()


def _or_failed(submit: Callable[[], Future[T]]) -> Future[T]:
    """What a refusal before the transaction is in the contract: a future with the error."""
    try:
        return submit()
    except ThalwegError as error:
        refused: Future[T] = Future()
        refused.set_exception(error)
        return refused


def _done(value: T) -> Future[T]:
    future: Future[T] = Future()
    future.set_result(value)
    return future
