"""Published streams for clients: nodes made of parts and pages, and members as they come.

The root of a view leads to a bucket for each track (one procedure at one feature of interest), and that to pages. A
view of pages chains them; a view by time leads to them over years, months, ..., a page standing in the smallest bucket
that holds all its members. The pages themselves are the same in all views.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from xxhash import xxh3_64_intdigest

from thalweg.domain.errors import InvalidParameter, NotFound
from thalweg.domain.published import GENERATED_AT, VERSION_OF, Mark, PageRange, Part, Source, SourceKind
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.streams import (
    GRANULARITIES,
    EventStream,
    Granularity,
    Node,
    Relation,
    RelationType,
    StoredMember,
    StreamState,
    TimeFragmentation,
    View,
)
from thalweg.domain.time import format_instant
from thalweg.domain.tree import DATE_TIME, MAX_PAGE_DIGITS, PAGE_NUMBER, time_bounds
from thalweg.encode.rdf.features import feature_members, fields_of
from thalweg.encode.rdf.features import terms_of as feature_terms
from thalweg.encode.rdf.observations import SOSA, UNITS_OF_TIME, iri, members_of, terms_of
from thalweg.services.published_work import rows_a_page

if TYPE_CHECKING:
    from thalweg.domain.store import Store

TRACK: Final = "track"
LISTED: Final = 10_000
"""Pages and buckets that a node of a time view leads to; a finer granularity makes fewer."""
MAX_FOLLOWED: Final = 64
"""Parts that are followed at once: where each stands is told in the id of every event."""
MAX_CURSOR: Final = 16_384
"""Characters of an id: some hundred for each of the parts that are followed at once."""
_LAYER_CURSOR: Final = re.compile(r"(\d{1,18})\.(\d{1,18})", re.ASCII)
DEFAULT_PUBLISHED_PAGE: Final = 250
"""Members of a page where nothing else is said."""
MEMBER_CLASSES: Final = {
    SourceKind.PROCEDURE: f"{SOSA}Observation",
    SourceKind.OFFERING: f"{SOSA}Observation",
    SourceKind.LAYER: "http://www.opengis.net/ont/geosparql#Feature",
}
SHAPE: Final = (
    "_:shape <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://www.w3.org/ns/shacl#NodeShape> .\n"
    "_:shape <http://www.w3.org/ns/shacl#targetClass> <{target}> .\n"
)
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._~-]+")
_CURSOR: Final = re.compile(r"(\d{1,18}):(-?\d{1,19})\.(-?\d{1,19})\.(-?\d{1,19})\.(\d{1,18})\.(\d{1,9})", re.ASCII)


def default_views(page_size: int, granularity: Granularity = Granularity.DAY) -> tuple[View, View]:
    """The views of a published stream that asks for none: pages in a chain, and pages by time."""
    by_time = TimeFragmentation(granularity, GENERATED_AT)
    return View(0, 0, "by-page", (), page_size), View(0, 0, "by-time", (by_time,), page_size)


class Published:
    """Use cases over one store. May be called from any thread.

    ``shown`` is the workspace's catalogue as the caller may see it: procedures that are not in it have no parts.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    # ------------------------------------------------------------ sources

    def source(self, workspace_id: int, kind: SourceKind, key: str, page_size: int) -> Source:
        """What a stream is to be made of.

        key      identifier, name or (of a procedure) assigned id; of a layer its name
        raises   NotFound (parameter: the kind)
        """
        found: int | None = None
        identifier = key
        if kind is SourceKind.LAYER:
            layer = self._store.layers(workspace_id).get(key)
            found = None if layer is None else layer.id
        else:
            catalogue = self._store.catalogue(workspace_id)
            entity = catalogue.procedure(key) if kind is SourceKind.PROCEDURE else catalogue.offering(key)
            if entity is not None:
                found, identifier = entity.id, entity.identifier
        if not found:
            raise NotFound(kind.value, f"There is no {kind.value} '{key[:100]}'.")
        return Source(kind, found, page_size, identifier)

    def description(
        self,
        workspace_id: int,
        kind: SourceKind,
        key: str,
        *,
        name: str = "",
        page_size: int = DEFAULT_PUBLISHED_PAGE,
        granularity: Granularity = Granularity.DAY,
        public: bool = True,
    ) -> tuple[EventStream, tuple[View, ...]]:
        """A stream of a procedure, an offering or a layer, with a view of pages and one by time; not stored yet.

        name    of the stream; empty: the source's name
        raises  NotFound (parameter: the kind)
        """
        source = self.source(workspace_id, kind, key, page_size)
        title = source.key
        if not name:
            catalogue = self._store.catalogue(workspace_id)
            match kind:
                case SourceKind.PROCEDURE:
                    name = catalogue.procedures[source.target].name
                case SourceKind.OFFERING:
                    name = catalogue.offerings[source.target].name
                case SourceKind.LAYER:
                    name = source.key
            name = _NOT_IN_NAMES.sub("_", name).strip("._~-") or kind.value
        stream = EventStream(
            0, "", workspace_id, name, GENERATED_AT, VERSION_OF, public=public, title=title, source=source,
            shape=SHAPE.format(target=MEMBER_CLASSES[kind]), shape_class=MEMBER_CLASSES[kind],
        )  # fmt: skip
        return stream, default_views(page_size, granularity)

    def described(
        self, stream: EventStream, views: Sequence[View], kind: SourceKind, key: str
    ) -> tuple[EventStream, tuple[View, ...]]:
        """A stream that a document describes, with what it publishes, and its views or those it has by default.

        raises  NotFound (parameter: the kind)
        """
        page_size = views[0].page_size if views else DEFAULT_PUBLISHED_PAGE
        source = self.source(stream.workspace_id, kind, key, page_size)
        return replace(stream, source=source), tuple(views) or default_views(page_size)

    # ------------------------------------------------------------ parts

    def parts(self, stream: EventStream, shown: Catalogue) -> dict[int, Part]:
        """By track, those that the caller may read."""
        return {key: part for key, part in self._store.parts(stream.id).items() if key in shown.tracks}

    def _part(self, stream: EventStream, shown: Catalogue, track_id: int) -> Part:
        part = self._store.parts(stream.id, [track_id]).get(track_id) if track_id in shown.tracks else None
        if part is None:
            raise NotFound("view", f"The event stream '{stream.name}' has no such part.")
        return part

    def state(self, stream: EventStream, shown: Catalogue) -> StreamState:
        """``sequence``: of the newest commit that changed a part; ``members``: on closed pages."""
        if stream.source is not None and stream.source.kind is SourceKind.LAYER:
            layer = self._store.layer_part(stream.id)
            return StreamState(0, 0, 0) if layer is None else StreamState(layer.newest, layer.members, 0)
        parts = self.parts(stream, shown).values()
        newest = max((part.generation for part in parts), default=0)
        return StreamState(newest, sum(part.members for part in parts), 0)

    # ------------------------------------------------------------ nodes

    def node(
        self,
        stream: EventStream,
        view: View,
        query: Sequence[tuple[str, str]],
        shown: Catalogue,
        *,
        members: bool = True,
    ) -> Node:
        """The node that a query string names.

        members  False leaves them out where the node can be told without them
        raises   NotFound ``view``; DamagedData
        """
        given = dict(query)
        unknown = NotFound("view", f"The view '{view.name}' has no such node.")
        if len(given) != len(query):
            raise unknown
        track = _whole_number(given.pop(TRACK, None))
        page = _whole_number(given.pop(PAGE_NUMBER, None))
        prefix, depth = _prefix(view, given)
        if stream.source is not None and stream.source.kind is SourceKind.LAYER:
            if track is not None or page == 0 or given or (page and prefix):
                raise unknown
            return self._layer_node(stream, view, page, prefix, depth, members)
        if track == 0 or page == 0 or given or (track is None and (page or prefix)) or (page and prefix):
            raise unknown
        if track is None:
            return self._root(stream, view, shown)
        part = self._part(stream, shown, track)
        if page is not None:
            return self._page(stream, view, part, shown, page, members)
        return self._bucket(view, part, prefix, depth)

    def _root(self, stream: EventStream, view: View, shown: Catalogue) -> Node:
        """Leads to the parts by relations that promise nothing: ldes-client 0.3.0 takes bounds of all properties for
        bounds of the timestamp."""
        relations: list[Relation] = []
        subjects: list[tuple[str, str]] = []
        for track_id in self.parts(stream, shown):
            track = shown.tracks[track_id]
            query = f"{TRACK}={track_id}"
            relations.append(Relation(RelationType.PLAIN, query))
            about = (shown.procedures[track.procedure_id], shown.features[track.feature_id])
            subjects += ((query, iri(item.identifier, item.uuid)) for item in about)
        return _list(view, "", relations, subjects)

    def _bucket(self, view: View, part: Part, prefix: str, depth: int) -> Node:
        root = f"{TRACK}={part.track_id}"
        if not view.fragmentation:
            return _list(view, root, [Relation(RelationType.PLAIN, f"{root}&{PAGE_NUMBER}=1")])
        digits = _digits_below(view, depth)
        below, pages = self._store.page_ranges(view.stream_id, part.track_id, prefix, digits, limit=LISTED)
        return _time_node(view, root, prefix, below, pages, part.pages + 1)

    # ------------------------------------------------------------ layers

    def _layer_node(
        self, stream: EventStream, view: View, page: int | None, prefix: str, depth: int, with_members: bool
    ) -> Node:
        part = self._store.layer_part(stream.id)
        if part is None:
            raise NotFound("stream", f"The event stream '{stream.name}' is not there.")
        if page is None:
            if not view.fragmentation:
                return _list(view, "", [Relation(RelationType.PLAIN, f"{PAGE_NUMBER}=1")])
            digits = _digits_below(view, depth)
            below, pages = self._store.feature_page_ranges(stream.id, prefix, digits, limit=LISTED)
            return _time_node(view, "", prefix, below, pages, part.pages + 1)
        if page <= part.pages:
            following = () if view.fragmentation else (Relation(RelationType.PLAIN, f"{PAGE_NUMBER}={page + 1}"),)
            closed = self._store.feature_page(stream.id, page)
            if closed is None:
                raise NotFound("view", f"The view '{view.name}' has no page {page}.")
            members: list[StoredMember] = []
            if with_members:
                versions = self._store.versions_of(stream.id, closed, fields_of(closed.terms))
                members = feature_members(closed.terms, versions)
            return Node(view, "", page, True, following, tuple(members), page)
        if page > part.pages + 1:
            raise NotFound("view", f"The view '{view.name}' has no page {page}.")
        found = self._store.feature_versions(stream.id, part.number, part.sequence, view.page_size)
        terms = feature_terms(found.layer, stream.created_us, part.start)
        members = feature_members(terms, found.versions) if with_members else []
        version = _digest((part.pages, part.number, part.sequence, part.newest, terms))
        return Node(view, "", page, False, (), tuple(members), version)

    def _page(
        self, stream: EventStream, view: View, part: Part, shown: Catalogue, number: int, with_members: bool
    ) -> Node:
        root = f"{TRACK}={part.track_id}"
        if number <= part.pages:
            following = (
                () if view.fragmentation else (Relation(RelationType.PLAIN, f"{root}&{PAGE_NUMBER}={number + 1}"),)
            )
            members: list[StoredMember] = []
            if with_members:
                found = self._store.closed_page(stream.id, part.track_id, number)
                if found is None:
                    raise NotFound("view", f"The view '{view.name}' has no such node.")
                members = members_of(found[1].terms, part.track_id, found[0])
            return Node(view, root, number, True, following, tuple(members), number)
        if number > part.pages + 1:
            raise NotFound("view", f"The view '{view.name}' has no page {number} of this part.")
        terms, limit = self._written_with(stream, shown, part)
        if with_members:
            rows = self._store.published_rows(stream.id, part.track_id, part.mark, limit)
            members = members_of(terms, part.track_id, rows)
        else:
            members = []
        version = _digest((part.pages, part.generation, limit, terms))
        return Node(view, root, number, False, (), tuple(members), version)

    def _written_with(self, stream: EventStream, shown: Catalogue, part: Part) -> tuple[str, int]:
        """The names of the open page, and its rows."""
        track = shown.tracks[part.track_id]
        return terms_of(shown, track), rows_a_page(stream, shown, track.procedure_id)

    # ------------------------------------------------------------ live following

    def cursor(self, stream: EventStream, shown: Catalogue, track_id: int | None = None) -> str:
        """Where all parts (or that one) stand now, after which members come; the text of an event's id.

        raises  InvalidParameter for more than MAX_FOLLOWED parts; NotFound
        """
        if stream.source is not None and stream.source.kind is SourceKind.LAYER:
            layer = self._store.layer_part(stream.id)
            return "0" if layer is None else f"{layer.last}.{layer.newest}"
        ends: dict[int, Mark] = {}
        for part in self._followed(stream, shown, track_id):
            mark = part.mark
            while True:
                rows = self._store.published_rows(stream.id, part.track_id, mark, 1_000)
                mark = rows.mark
                if len(rows) < 1_000:
                    break
            ends[part.track_id] = mark
        return _cursor_text(ends)

    def members_after(
        self, stream: EventStream, shown: Catalogue, cursor: str, limit: int, track_id: int | None = None
    ) -> tuple[list[StoredMember], str]:
        """Members after a cursor, of one part after the other, at most about ``limit``; and the cursor after them.

        raises  InvalidParameter ``Last-Event-ID`` for a text that is none; NotFound
        """
        if stream.source is not None and stream.source.kind is SourceKind.LAYER:
            return self._versions_after(stream, cursor, limit)
        ends = _cursor_of(cursor)
        found: list[StoredMember] = []
        for part in self._followed(stream, shown, track_id):
            terms, rows_of_page = self._written_with(stream, shown, part)
            mark = ends.get(part.track_id)
            if mark is None:
                # Came since: from its beginning on.
                mark = Mark(-(1 << 63), -(1 << 63), -(1 << 63), part.start + 1, 0)
            rows = self._store.published_rows(stream.id, part.track_id, mark, rows_of_page)
            found += members_of(terms, part.track_id, rows)
            ends[part.track_id] = rows.mark
            if len(found) >= limit:
                break
        return found, _cursor_text(ends)

    def _versions_after(self, stream: EventStream, cursor: str, limit: int) -> tuple[list[StoredMember], str]:
        """As ``members_after``, of a layer."""
        fits = _LAYER_CURSOR.fullmatch(cursor)
        part = self._store.layer_part(stream.id)
        if fits is None or part is None:
            raise InvalidParameter("Last-Event-ID", f"'{cursor[:40]}' is no id of an event of this stream.")
        number, sequence = map(int, fits.groups())
        rows = self._store.feature_versions(stream.id, number, max(sequence, part.start), limit)
        terms = feature_terms(rows.layer, stream.created_us, part.start)
        return feature_members(terms, rows.versions), f"{rows.number}.{rows.sequence}"

    def _followed(self, stream: EventStream, shown: Catalogue, track_id: int | None) -> Iterable[Part]:
        if track_id is not None:
            return [self._part(stream, shown, track_id)]
        parts = self.parts(stream, shown)
        if len(parts) > MAX_FOLLOWED:
            raise InvalidParameter(
                "track",
                f"This stream has {len(parts)} parts; at most {MAX_FOLLOWED} are followed at once. Follow one by "
                f"'?{TRACK}=' with its number, as the view's root names it.",
            )
        return parts.values()


# ---------------------------------------------------------------- pieces


def _digits_below(view: View, depth: int) -> int:
    """Digits of the buckets below one of so many units; 0 where there are only pages."""
    return UNITS_OF_TIME[depth] if depth < len(view.keys) else 0


def _time_node(
    view: View, root: str, prefix: str, below: Sequence[str], pages: Sequence[PageRange], open_page: int
) -> Node:
    """A bucket of a view by time: it leads to smaller buckets, to the closed pages that no smaller one holds, and at
    the top to the open page.

    root    query string of the part, or empty
    raises  NotFound for a bucket that nothing is in
    """
    if prefix and not below and not pages:
        raise NotFound("view", f"The view '{view.name}' has no such node.")
    lead = f"{root}&" if root else ""
    relations: list[Relation] = []
    for bucket in below:
        begin, end = time_bounds([int(text) for text in _values(bucket)])
        relations += _between(f"{lead}{_query_of(bucket)}", begin, end)
    for page in pages:
        target = f"{lead}{PAGE_NUMBER}={page.number}"
        if page.members:
            relations += _between(target, format_instant(page.least_us), _after(page.greatest_us))
        else:
            relations.append(Relation(RelationType.PLAIN, target))
    if not prefix:
        relations.append(Relation(RelationType.PLAIN, f"{lead}{PAGE_NUMBER}={open_page}"))
    return _list(view, f"{lead}{_query_of(prefix)}" if prefix else root, relations)


def _list(view: View, query: str, relations: list[Relation], subjects: Sequence[tuple[str, str]] = ()) -> Node:
    """A node that leads to others; it may change, and so does its version."""
    version = _digest((*map(repr, relations), *subjects))
    return Node(view, query, None, False, tuple(relations), (), version, tuple(subjects))


def _digest(parts: tuple[object, ...]) -> int:
    return xxh3_64_intdigest(repr(parts).encode())


def track_of(text: str) -> int | None:
    """The part that a follower asks for; None: all. InvalidParameter for a text that is no number."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidParameter(TRACK, f"'{text[:40]}' is no number of a part of this stream.")
    return int(text)


def _whole_number(text: str | None) -> int | None:
    """A number from 1 on as it is written in addresses; 0: none; None: not given."""
    if text is None:
        return None
    fits = text.isascii() and text.isdigit() and len(text) <= MAX_PAGE_DIGITS and not text.startswith("0")
    return int(text) if fits else 0


def _prefix(view: View, given: dict[str, str]) -> tuple[str, int]:
    """The digits of the bucket that parameters name, taken out of ``given``, and their number of units.

    A parameter that is no such digit stays, so that the node is not found.
    """
    prefix = ""
    depth = 0
    for item in view.fragmentation:
        if not isinstance(item, TimeFragmentation):
            continue
        for key in item.keys:
            text = given.get(key, "")
            width = 4 if key == Granularity.YEAR else 2
            if len(text) != width or not (text.isascii() and text.isdigit()):
                break
            del given[key]
            prefix += text
            depth += 1
    return prefix, depth


def _values(bucket: str) -> list[str]:
    return [bucket[begin:end] for begin, end in pairwise((0, *UNITS_OF_TIME)) if end <= len(bucket)]


def _query_of(bucket: str) -> str:
    return "&".join(f"{key.value}={value}" for key, value in zip(GRANULARITIES, _values(bucket), strict=False))


def _after(us: int) -> str:
    """The instant just after another; empty at the end of time."""
    try:
        return format_instant(us + 1)
    except OverflowError:
        return ""


def _between(query: str, begin: str, end: str | None) -> list[Relation]:
    """Both bounds of the times below a node; without an end one alone."""
    relations = [Relation(RelationType.GREATER_OR_EQUAL, query, GENERATED_AT, begin, DATE_TIME)]
    if end:
        relations.append(Relation(RelationType.LESS, query, GENERATED_AT, end, DATE_TIME))
    return relations


def _cursor_text(ends: dict[int, Mark]) -> str:
    return ",".join(f"{track}:{'.'.join(map(str, mark))}" for track, mark in ends.items())


def _cursor_of(text: str) -> dict[int, Mark]:
    ends: dict[int, Mark] = {}
    if len(text) > MAX_CURSOR:
        raise InvalidParameter("Last-Event-ID", "This is no id of an event of this stream: it is too long.")
    for item in text.split(",") if text else ():
        found = _CURSOR.fullmatch(item)
        if found is None or len(ends) >= MAX_FOLLOWED:
            raise InvalidParameter("Last-Event-ID", f"'{item[:40]}' is no id of an event of this stream.")
        track, *mark = map(int, found.groups())
        if any(abs(part) > 1 << 63 for part in mark) or max(mark) >= 1 << 63:
            raise InvalidParameter("Last-Event-ID", f"'{item[:40]}' is no id of an event of this stream.")
        ends[track] = Mark(*mark)
    return ends
