"""Administration of streams and views: the picture each process keeps, and the writes."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from thalweg.domain.access import Actor
from thalweg.domain.errors import AlreadyExists, InvalidParameter, NotFound, TooLarge
from thalweg.domain.published import GENERATED_AT, VERSION_OF, Source, SourceKind
from thalweg.domain.streams import (
    MAX_FRAGMENTATIONS,
    MAX_NAME_LENGTH,
    MAX_PAGE_SIZE,
    MAX_VIEWS,
    UNKNOWN,
    DcatCatalogue,
    EventStream,
    GeospatialFragmentation,
    Retention,
    SubstringFragmentation,
    TimeFragmentation,
    View,
)
from thalweg.store.sqlite.audit import differences, record
from thalweg.store.sqlite.connection import Reader, Readers
from thalweg.store.sqlite.entity_writes import drop_grants_on
from thalweg.store.sqlite.published import add_parts, check_source
from thalweg.store.sqlite.stream_entities import stream_document, stream_of, view_document, view_of
from thalweg.store.sqlite.writer import Transaction

GENERATION: Final = "SELECT value FROM counter WHERE name = 'streams'"
RAISE: Final = "UPDATE counter SET value = value + 1 WHERE name = 'streams' RETURNING value"
STREAMS: Final = "SELECT id, uuid, workspace_id, name, generation, document FROM event_stream ORDER BY id"
STREAM: Final = "SELECT id, uuid, workspace_id, name, generation, document FROM event_stream WHERE id = ?"
VIEWS: Final = "SELECT stream_id, id, name, document FROM stream_view ORDER BY stream_id, id"
VIEW: Final = "SELECT stream_id, id, name, document FROM stream_view WHERE stream_id = ? AND id = ?"
DOCUMENT: Final = "SELECT id, document FROM catalogue_document WHERE workspace_id = ?"

HAS_WORKSPACE: Final = "SELECT name FROM workspace WHERE id = ?"
HAS_NAME: Final = "SELECT 1 FROM event_stream WHERE workspace_id = ? AND name = ?"
INSERT_STREAM: Final = """
    INSERT INTO event_stream (workspace_id, uuid, name, generation, document) VALUES (?, ?, ?, ?, ?) RETURNING id"""
INSERT_STATE: Final = "INSERT INTO stream_state (stream_id, uuid) VALUES (?, ?)"
UPDATE_STREAM: Final = "UPDATE event_stream SET generation = ?, document = ? WHERE id = ?"
TOUCH_STREAM: Final = "UPDATE event_stream SET generation = ? WHERE id = ? RETURNING workspace_id, name"
CLOSE: Final = "UPDATE stream_state SET is_closed = ?, generation = generation + 1 WHERE stream_id = ?"
DELETE_STREAM: Final = "DELETE FROM event_stream WHERE id = ? RETURNING workspace_id, name"
DELETE_STATE: Final = "DELETE FROM stream_state WHERE stream_id = ?"
DELETE_VIEWS: Final = "DELETE FROM stream_view WHERE stream_id = ?"
DELETE_VIEW_STATES: Final = "DELETE FROM view_state WHERE stream_id = ?"
DELETE_VIEW_STATE: Final = "DELETE FROM view_state WHERE stream_id = ? AND view_id = ?"
REMOVAL: Final = "INSERT OR IGNORE INTO stream_removal (stream_id, view_id) VALUES (?, ?)"

STREAMS_OF: Final = """
    SELECT id FROM event_stream WHERE workspace_id = ? AND document ->> '$.source.kind' = ?
        AND document ->> '$.source.target' = ?"""
OWN_OFFERING: Final = "SELECT id FROM offering WHERE procedure_id = ?"

VIEW_NAMES: Final = "SELECT name FROM stream_view WHERE stream_id = ?"
NEXT_VIEW: Final = "UPDATE stream_state SET next_view = next_view + 1 WHERE stream_id = ? RETURNING next_view - 1"
INSERT_VIEW: Final = "INSERT INTO stream_view (stream_id, id, name, document) VALUES (?, ?, ?, ?)"
UPDATE_VIEW: Final = "UPDATE stream_view SET document = ? WHERE stream_id = ? AND id = ?"
DELETE_VIEW: Final = "DELETE FROM stream_view WHERE stream_id = ? AND id = ? RETURNING name"
INSERT_VIEW_STATE: Final = "INSERT INTO view_state (stream_id, view_id, buckets, pages) VALUES (?, ?, ?, ?)"
INSERT_ROOT: Final = """
    INSERT INTO bucket (stream_id, view_id, id, parent_id, query, members, own, first_page, open_page, pages_made, dead,
                        generation, is_removed, is_due)
    VALUES (?, ?, 0, -1, '', 0, 0, ?, ?, ?, 0, 0, 0, 0)"""
INSERT_FIRST_PAGE: Final = """
    INSERT INTO page (stream_id, view_id, bucket_id, number, first, last, members, is_closed, next_page, dead, gone_us,
                      generation, sequences, dead_bits)
    VALUES (?, ?, 0, 1, 0, -1, 0, 0, NULL, 0, NULL, 0, x'', NULL)"""
SOURCE_VIEW: Final = "SELECT source_view FROM stream_state WHERE stream_id = ?"
SET_SOURCE_VIEW: Final = "UPDATE stream_state SET source_view = ? WHERE stream_id = ?"

PUT_DOCUMENT: Final = """
    INSERT INTO catalogue_document (workspace_id, id, document) VALUES (?1, ?2, ?3)
    ON CONFLICT (workspace_id) DO UPDATE SET id = ?2, document = ?3"""
DROP_DOCUMENT: Final = "DELETE FROM catalogue_document WHERE workspace_id = ? RETURNING id"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]*", re.ASCII)
_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}", re.ASCII)
_IRI: Final = re.compile(r'[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|\\^`]+')
_NOTHING: Final[Mapping[str, View]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Picture:
    """All streams and views as of one generation."""

    generation: int
    by_workspace: Mapping[int, Mapping[str, EventStream]]
    by_id: Mapping[int, EventStream]
    views: Mapping[int, Mapping[str, View]]


class StreamCatalogue:
    """The newest committed descriptions, read again when their generation has risen."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._lock = threading.Lock()
        self._picture = _Picture(-1, {}, {}, {})

    def _current(self) -> _Picture:
        reader = self._readers.mine()
        known = reader.known
        found: _Picture | None = None if known is None else known.get("streams")
        if found is None:
            found = self._read(reader)
            if known is not None:
                known["streams"] = found
        return found

    def _read(self, reader: Reader) -> _Picture:
        picture = self._picture
        if reader.rows(GENERATION)[0][0] == picture.generation:
            return picture
        with self._lock:
            with reader.snapshot():
                generation = reader.rows(GENERATION)[0][0]
                if generation == self._picture.generation:
                    return self._picture
                streams = [stream_of(row) for row in reader.rows(STREAMS)]
                views = [view_of(row) for row in reader.rows(VIEWS)]
            by_workspace: dict[int, dict[str, EventStream]] = {}
            for stream in streams:
                by_workspace.setdefault(stream.workspace_id, {})[stream.name] = stream
            by_stream: dict[int, dict[str, View]] = {}
            for view in views:
                by_stream.setdefault(view.stream_id, {})[view.name] = view
            self._picture = _Picture(
                generation,
                {key: MappingProxyType(value) for key, value in by_workspace.items()},
                {stream.id: stream for stream in streams},
                {key: MappingProxyType(value) for key, value in by_stream.items()},
            )
            return self._picture

    def streams(self, workspace_id: int) -> Mapping[str, EventStream]:
        return self._current().by_workspace.get(workspace_id, MappingProxyType({}))

    def all_streams(self) -> Mapping[int, EventStream]:
        """By id."""
        return self._current().by_id

    def views(self, stream_id: int) -> Mapping[str, View]:
        return self._current().views.get(stream_id, _NOTHING)

    def view(self, stream_id: int, view_id: int) -> View | None:
        for view in self.views(stream_id).values():
            if view.id == view_id:
                return view
        return None

    def document(self, workspace_id: int) -> DcatCatalogue | None:
        for document_id, text in self._readers.rows(DOCUMENT, (workspace_id,)):
            return DcatCatalogue(document_id, text)
        return None


# ---------------------------------------------------------------- checks


def check_name(name: str, parameter: str) -> None:
    """A name fit for a path. Raises InvalidParameter."""
    if len(name) > MAX_NAME_LENGTH or not _NAME.fullmatch(name):
        raise InvalidParameter(
            parameter,
            f"'{name[:80]}' cannot be a name: it must begin with a letter or digit and have at most "
            f"{MAX_NAME_LENGTH} of the letters A-Z, digits and . _ ~ -",
        )


def check_iri(iri: str, parameter: str) -> None:
    """An absolute IRI. Raises InvalidParameter."""
    if len(iri) > 2048 or not _IRI.fullmatch(iri):
        raise InvalidParameter(parameter, f"'{iri[:80]}' is not an absolute IRI.")


def check_retention(retention: Retention) -> None:
    if retention.duration:
        _ = retention.duration_us
    if not 0 <= retention.versions <= 1_000_000:
        raise InvalidParameter("ldes:amount", "The number of versions that stay must be from 1 to 1,000,000.")


def check_stream(stream: EventStream) -> None:
    """Raises InvalidParameter."""
    check_name(stream.name, "stream")
    check_iri(stream.timestamp_path, "ldes:timestampPath")
    check_iri(stream.version_of_path, "ldes:versionOfPath")
    if stream.create_versions and not stream.version_delimiter:
        raise InvalidParameter("ldes:versionDelimiter", "The delimiter between an object and its time is empty.")
    check_retention(stream.retention)
    if stream.source is not None:
        check_published(stream)


def check_published(stream: EventStream) -> None:
    """What a stream made of what is stored cannot have. Raises InvalidParameter."""
    if stream.timestamp_path != GENERATED_AT or stream.version_of_path != VERSION_OF:
        raise InvalidParameter(
            "ldes:timestampPath",
            f"A published stream has the paths {GENERATED_AT} (ldes:timestampPath) and {VERSION_OF} "
            "(ldes:versionOfPath).",
        )
    if stream.create_versions:
        raise InvalidParameter("ldes:createVersions", "A published stream takes no members, so it makes no versions.")
    if stream.retention:
        raise InvalidParameter("ldes:retentionPolicy", "A published stream keeps every member: it takes no retention.")
    if stream.is_closed:
        raise InvalidParameter("stream", "A published stream goes on as long as its source; delete it to end it.")


def check_published_view(source: Source, view: View) -> None:
    """A view of a stream made of what is stored: pages, or pages by time. Raises InvalidParameter."""
    if view.page_size != source.page_size:
        raise InvalidParameter(
            "tree:pageSize", f"All views of this stream share its pages of {source.page_size}, not {view.page_size}."
        )
    if view.retention:
        raise InvalidParameter("ldes:retentionPolicy", "A published stream keeps every member: it takes no retention.")
    if view.materialised:
        raise InvalidParameter("view", "A published stream has no view of latest states.")
    items = view.fragmentation
    by_time = [item for item in items if isinstance(item, TimeFragmentation) and not item.subject_filter]
    if len(items) > 1 or len(by_time) != len(items) or any(item.path != GENERATED_AT for item in by_time):
        raise InvalidParameter(
            "tree:fragmentationStrategy",
            f"A published stream is paged alone, or fragmented by time along {GENERATED_AT}.",
        )


def check_view(view: View) -> None:
    """Raises InvalidParameter."""
    check_name(view.name, "view")
    if not 1 <= view.page_size <= MAX_PAGE_SIZE:
        raise InvalidParameter(
            "tree:pageSize", f"A page has from 1 to {MAX_PAGE_SIZE:,} members, not {view.page_size}."
        )
    if len(view.fragmentation) > MAX_FRAGMENTATIONS:
        raise InvalidParameter("tree:fragmentationStrategy", f"A view nests at most {MAX_FRAGMENTATIONS} strategies.")
    if view.materialised and (view.fragmentation or view.retention):
        raise InvalidParameter("view", "A view of latest states has neither fragmentation nor retention.")
    keys = view.keys
    for key in keys:
        if not _KEY.fullmatch(key) or key == "pageNumber" or keys.count(key) > 1:
            raise InvalidParameter("tree:fragmentationKey", f"The key '{key[:80]}' is not free, or no name.")
    for item in view.fragmentation:
        check_iri(item.path, "tree:fragmentationPath")
        if isinstance(item, GeospatialFragmentation) and not 0 <= item.max_zoom <= 23:
            raise InvalidParameter("tree:maxZoom", f"The zoom must be from 0 to 23, not {item.max_zoom}.")
        if isinstance(item, SubstringFragmentation) and not 1 <= item.length < len(UNKNOWN):
            raise InvalidParameter(
                "tree:substringLength", f"The length must be from 1 to {len(UNKNOWN) - 1}, not {item.length}."
            )
    check_retention(view.retention)


# ---------------------------------------------------------------- writes


def put_stream(tx: Transaction, stream: EventStream, views: Sequence[View], by: Actor | str = "") -> EventStream:
    """See ``StreamStore.put_stream``."""
    generation = tx.rows(RAISE)[0][0]
    if stream.id:
        stored = stored_stream(tx, stream.id)
        if stored.is_closed and not stream.is_closed:
            raise InvalidParameter("stream", "A closed event stream cannot be opened again: its pages are fixed.")
        if stored.source is not None:
            check_published(stream)
        changed = replace(
            stored,
            shape=stream.shape,
            shape_class=stream.shape_class,
            dcat=stream.dcat,
            retention=stream.retention,
            is_closed=stream.is_closed,
            public=stream.public,
            title=stream.title,
            generation=generation,
        )
        tx.rows(UPDATE_STREAM, (generation, stream_document(changed), stream.id))
        if changed.is_closed != stored.is_closed:
            tx.rows(CLOSE, (int(changed.is_closed), stream.id))
        if changed.retention != stored.retention:
            _renew_source(tx, stream.id, changed.retention)
        verb = "close" if changed.is_closed and not stored.is_closed else "change"
        detail = differences(stored, changed)
        record(tx, by, f"{verb} event stream", stored.name, detail, stored.workspace_id)
        return changed
    if not tx.rows(HAS_WORKSPACE, (stream.workspace_id,)):
        raise NotFound("workspace", "The workspace is not there.")
    if tx.rows(HAS_NAME, (stream.workspace_id, stream.name)):
        raise AlreadyExists("stream", f"There is an event stream '{stream.name}' already.")
    created = replace(stream, created_us=stream.created_us or tx.now_us, generation=generation)
    if created.source is not None:
        newest = check_source(tx, stream.workspace_id, created.source)
        created = replace(created, source=replace(created.source, newest=newest))
    ((stream_id,),) = tx.rows(
        INSERT_STREAM, (stream.workspace_id, stream.uuid, stream.name, generation, stream_document(created))
    )
    tx.rows(INSERT_STATE, (stream_id, stream.uuid))
    if created.is_closed:
        tx.rows(CLOSE, (1, stream_id))
    _renew_source(tx, stream_id, created.retention)
    record(tx, by, "add event stream", stream.name, "" if stream.public else "private", stream.workspace_id)
    for view in views:
        _create_view(tx, replace(view, stream_id=stream_id), stream.workspace_id, stream.name, by)
    if created.source is not None:
        # Nobody adds members to it but its source.
        tx.rows(CLOSE, (1, stream_id))
        add_parts(tx, stream_id, created.source)
    return replace(created, id=stream_id)


def stored_stream(tx: Transaction, stream_id: int) -> EventStream:
    rows = tx.rows(STREAM, (stream_id,))
    if not rows:
        raise NotFound("stream", "The event stream is not there.")
    return stream_of(rows[0])


def _renew_source(tx: Transaction, stream_id: int, retention: Retention) -> None:
    """Begin the event source's retention anew: what the former policies had noted goes with their view."""
    ((former,),) = tx.rows(SOURCE_VIEW, (stream_id,))
    if former:
        tx.rows(DELETE_VIEW_STATE, (stream_id, former))
        tx.rows(REMOVAL, (stream_id, former))
    source = 0
    if retention:
        ((source,),) = tx.rows(NEXT_VIEW, (stream_id,))
        tx.rows(INSERT_VIEW_STATE, (stream_id, source, 0, 0))
    tx.rows(SET_SOURCE_VIEW, (source, stream_id))


def delete_stream(tx: Transaction, stream_id: int, by: Actor | str = "") -> None:
    """See ``StreamStore.delete_stream``. What is granted on the stream goes with it."""
    published = stored_stream(tx, stream_id).source is not None
    ((workspace_id, name),) = tx.rows(DELETE_STREAM, (stream_id,))
    drop_grants_on(tx, workspace_id, "stream", stream_id)
    detail = "what it published stays" if published else "with its members"
    record(tx, by, "delete event stream", name, detail, workspace_id)
    tx.rows(DELETE_STATE, (stream_id,))
    tx.rows(DELETE_VIEWS, (stream_id,))
    # Without it no step of background work goes on.
    tx.rows(DELETE_VIEW_STATES, (stream_id,))
    tx.rows(REMOVAL, (stream_id, 0))
    tx.rows(RAISE)


def delete_streams_of(tx: Transaction, workspace_id: int, kind: SourceKind, target: int, by: Actor | str = "") -> None:
    """Delete the streams that publish what is about to go; of a procedure, those of its own offering, too."""
    for (stream_id,) in tx.rows(STREAMS_OF, (workspace_id, kind.value, target)):
        delete_stream(tx, stream_id, by)
    if kind is SourceKind.PROCEDURE:
        for (offering_id,) in tx.rows(OWN_OFFERING, (target,)):
            delete_streams_of(tx, workspace_id, SourceKind.OFFERING, offering_id, by)


def put_view(tx: Transaction, view: View, by: Actor | str = "") -> View:
    """See ``StreamStore.put_view``."""
    workspace_id, stream_name = _touch(tx, view.stream_id)
    if view.id:
        rows = tx.rows(VIEW, (view.stream_id, view.id))
        if not rows:
            raise NotFound("view", f"There is no view '{view.name[:80]}'.")
        stored = view_of(rows[0])
        changed = replace(stored, dcat=view.dcat)
        tx.rows(UPDATE_VIEW, (view_document(changed), view.stream_id, view.id))
        what = f"{stream_name}/{stored.name}"
        record(tx, by, "change view", what, differences(stored, changed), workspace_id)
        return changed
    return _create_view(tx, view, workspace_id, stream_name, by)


def _touch(tx: Transaction, stream_id: int) -> tuple[int, str]:
    """Raise the generation of a stream whose views change; its workspace and name. NotFound."""
    ((generation,),) = tx.rows(RAISE)
    rows = tx.rows(TOUCH_STREAM, (generation, stream_id))
    if not rows:
        raise NotFound("stream", "The event stream is not there.")
    return int(rows[0][0]), str(rows[0][1])


def _create_view(tx: Transaction, view: View, workspace_id: int, stream_name: str, by: Actor | str) -> View:
    source = stored_stream(tx, view.stream_id).source
    if source is not None:
        check_published_view(source, view)
    names = [name for (name,) in tx.rows(VIEW_NAMES, (view.stream_id,))]
    if view.name in names:
        raise AlreadyExists("view", f"There is a view '{view.name}' already.")
    if len(names) >= MAX_VIEWS:
        raise TooLarge(f"A stream has at most {MAX_VIEWS} views.", parameter="view")
    ((view_id,),) = tx.rows(NEXT_VIEW, (view.stream_id,))
    created = replace(view, id=view_id, created_us=view.created_us or tx.now_us)
    tx.rows(INSERT_VIEW, (view.stream_id, view_id, view.name, view_document(created)))
    # A view of pages alone has its first one at once, empty.
    page = None if view.fragmentation else 1
    tx.rows(INSERT_VIEW_STATE, (view.stream_id, view_id, 1, page or 0))
    tx.rows(INSERT_ROOT, (view.stream_id, view_id, page, page, page or 0))
    if page:
        tx.rows(INSERT_FIRST_PAGE, (view.stream_id, view_id))
    parts = [*(type(item).__name__ for item in view.fragmentation), f"pages of {view.page_size}"]
    if view.materialised:
        parts.append("latest states")
    if view.retention:
        parts.append(repr(view.retention))
    record(tx, by, "add view", f"{stream_name}/{view.name}", "; ".join(parts), workspace_id)
    return created


def delete_view(tx: Transaction, stream_id: int, view_id: int, by: Actor | str = "") -> None:
    """See ``StreamStore.delete_view``."""
    workspace_id, stream_name = _touch(tx, stream_id)
    rows = tx.rows(DELETE_VIEW, (stream_id, view_id))
    if not rows:
        raise NotFound("view", "The view is not there.")
    record(tx, by, "delete view", f"{stream_name}/{rows[0][0]}", "", workspace_id)
    tx.rows(DELETE_VIEW_STATE, (stream_id, view_id))
    tx.rows(REMOVAL, (stream_id, view_id))


def put_document(tx: Transaction, workspace_id: int, catalogue: DcatCatalogue | None, by: Actor | str = "") -> None:
    """See ``StreamStore.put_dcat_catalogue``."""
    workspace = tx.rows(HAS_WORKSPACE, (workspace_id,))
    if not workspace:
        raise NotFound("workspace", "The workspace is not there.")
    if catalogue is None:
        if tx.rows(DROP_DOCUMENT, (workspace_id,)):
            record(tx, by, "delete DCAT catalogue", workspace[0][0], "", workspace_id)
    else:
        record(tx, by, "change DCAT catalogue", workspace[0][0], catalogue.id, workspace_id)
        tx.rows(PUT_DOCUMENT, (workspace_id, catalogue.id, catalogue.dcat))
