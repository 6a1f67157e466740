"""Event streams: members that never change, views that fragment them, and what a store does with both.

Words are those of LDES and TREE: a *stream* has *members* (version objects) in the order of their acknowledgement, a
*view* spreads them over *buckets* by its fragmentation list, and a bucket's members stand on *pages*. A *node* is what
a client fetches: the view itself, a bucket, or a page; *relations* lead from node to node.

Sources: Linked Data Event Streams (w3id.org/ldes), the TREE hypermedia specification (w3id.org/tree).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

from thalweg.domain.access import Actor
from thalweg.domain.errors import NotFound
from thalweg.domain.published import Source
from thalweg.domain.time import DAY_US, parse_duration

DEFAULT_PAGE_SIZE: Final = 100
MAX_PAGE_SIZE: Final = 10_000
"""Members of a page; more make answers of tens of megabytes."""
MAX_APPEND: Final = 10_000
"""Members of one request: they share one transaction."""
MAX_MEMBERS: Final = 1_000
"""Most members that one call of ``StreamStore.members`` gives."""
MAX_MEMBERS_BYTES: Final = 16 << 20
"""Texts of so many bytes end what such a call gives, after at least one member."""
MAX_VIEWS: Final = 64
"""Views of one stream; each costs work for every member."""
MAX_FRAGMENTATIONS: Final = 4
"""Strategies nested in one view."""
MAX_IRI_LENGTH: Final = 2_048
MAX_NAME_LENGTH: Final = 200
MAX_MEMBER_BYTES: Final = 4 << 20
"""N-Triples text of one member."""
UNKNOWN: Final = "unknown"
"""Value of the bucket for members that have no readable value at the path."""

RDF_TYPE: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
GEO_AS_WKT: Final = "http://www.opengis.net/ont/geosparql#asWKT"


class Gone(NotFound):
    """A page that was there and is no more, by retention or compaction (HTTP 410)."""


# ---------------------------------------------------------------- fragmentation


class Granularity(StrEnum):
    """Levels of a hierarchical time fragmentation, and names of their keys."""

    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"
    MINUTE = "minute"
    SECOND = "second"


GRANULARITIES: Final = tuple(Granularity)


@dataclass(frozen=True, slots=True)
class GeospatialFragmentation:
    """Slippy-map tiles at one zoom that a geometry touches; ``tile=z/x/y``.

    path            IRI of the property whose object is a WKT literal, on any subject of the member
    max_zoom        0 to 23
    subject_filter  regular expression that a subject's whole IRI has to match; empty: every subject
    """

    max_zoom: int
    path: str = GEO_AS_WKT
    subject_filter: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        return ("tile",)


@dataclass(frozen=True, slots=True)
class TimeFragmentation:
    """Year, month, ... down to a granularity, in UTC; members at the lowest level only; ``year=2021&month=01``."""

    granularity: Granularity
    path: str
    subject_filter: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(g.value for g in GRANULARITIES[: GRANULARITIES.index(self.granularity) + 1])


@dataclass(frozen=True, slots=True)
class ReferenceFragmentation:
    """One bucket for each IRI that the path leads to; ``reference=<IRI>``."""

    path: str = RDF_TYPE
    key: str = "reference"
    subject_filter: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.key,)


@dataclass(frozen=True, slots=True)
class SubstringFragmentation:
    """Beginnings of a text, a level for each character up to ``length``; ``substring=Gen``.

    A member stands at the deepest level that its text reaches. Characters count as written: case matters, because a
    ``tree:PrefixRelation`` compares so.

    length  1 to 6 characters
    """

    path: str
    length: int = 3
    subject_filter: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        return ("substring",)


Fragmentation: TypeAlias = GeospatialFragmentation | TimeFragmentation | ReferenceFragmentation | SubstringFragmentation


# ---------------------------------------------------------------- retention


@dataclass(frozen=True, slots=True)
class Retention:
    """Which members leave: at most one policy of each kind; with several, those that every one of them lets go.

    duration       ``xsd:duration`` as it was written; members whose timestamp is longer ago leave. Empty: none
    versions       of each object, all but so many newest members (by order of ingest) leave; with a duration or an
                   instant, of those alone that are old by it. 0: none
    point_in_time  members with a timestamp before it leave, microseconds UTC. None: no such policy

    A member without a timestamp is never old.
    """

    duration: str = ""
    versions: int = 0
    point_in_time_us: int | None = None

    def __bool__(self) -> bool:
        return bool(self.duration or self.versions or self.point_in_time_us is not None)

    @property
    def by_age(self) -> bool:
        """Whether age has a say."""
        return bool(self.duration) or self.point_in_time_us is not None

    @property
    def duration_us(self) -> int:
        """The duration, months of 30 and years of 365 days as the Flanders server counts. InvalidParameter."""
        duration = parse_duration(self.duration, "ldes:value")
        years, months = divmod(duration.months, 12)
        return duration.us + (years * 365 + months * 30) * DAY_US

    def old_before_us(self, now_us: int) -> int | None:
        """Members with a timestamp before this instant are old now; None where age has no say."""
        limits = [] if self.point_in_time_us is None else [self.point_in_time_us]
        if self.duration:
            limits.append(now_us - self.duration_us)
        return min(limits, default=None)


# ---------------------------------------------------------------- streams and views


@dataclass(frozen=True, slots=True)
class EventStream:
    """An event stream as it is administered.

    id                 0: not stored yet
    timestamp_path     IRI of ``ldes:timestampPath``
    version_of_path    IRI of ``ldes:versionOfPath``
    create_versions    members arrive as state objects; the server makes the version objects
    version_delimiter  between an object's IRI and the time, where versions are created
    skolem_domain      blank nodes become IRIs under it; empty: they stay blank nodes, renamed
    shape, dcat        RDF as N-Triples text; empty: none
    shape_class        IRI of ``sh:targetClass`` of the shape, where it has one
    retention          of the event source: what may leave the stream itself
    is_closed          takes no members any more
    public             False: for those alone who hold a role
    generation         raised by each change of the stream's or its views' description
    source             what it publishes that is stored already; None: it has members of its own
    """

    id: int
    uuid: str
    workspace_id: int
    name: str
    timestamp_path: str
    version_of_path: str
    create_versions: bool = False
    version_delimiter: str = "/"
    skolem_domain: str = ""
    shape: str = ""
    shape_class: str = ""
    dcat: str = ""
    retention: Retention = field(default_factory=Retention)
    is_closed: bool = False
    public: bool = True
    title: str = ""
    created_us: int = 0
    generation: int = 0
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class View:
    """One fragmentation of a stream.

    fragmentation  strategies from the outside in; empty: pages alone
    materialised   latest state of each object in place of all versions; pages alone, none of them immutable
    dcat           RDF as N-Triples text; empty: none
    """

    id: int
    stream_id: int
    name: str
    fragmentation: tuple[Fragmentation, ...] = ()
    page_size: int = DEFAULT_PAGE_SIZE
    retention: Retention = field(default_factory=Retention)
    materialised: bool = False
    dcat: str = ""
    created_us: int = 0

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the query parameters of its buckets, in the order they are written in."""
        return tuple(key for fragmentation in self.fragmentation for key in fragmentation.keys)


@dataclass(frozen=True, slots=True)
class DcatCatalogue:
    """The catalogue's own DCAT document of a workspace: a UUID and N-Triples text."""

    id: str
    dcat: str


# ---------------------------------------------------------------- members


@dataclass(frozen=True, slots=True)
class Member:
    """A version object to be stored.

    iri           the member's IRI; known ones of the stream are recognised and left as they are
    version_of    IRI of the object it is a version of; empty: not known
    text          all its triples as N-Triples: one a line, ``S P O .`` with single spaces and a line feed at the end
                  of each, no comments; blank nodes named so that they collide with no other member's
    timestamp     lexical form of its timestamp; empty: none
    timestamp_us  the same, microseconds UTC; None: none, or not readable
    """

    iri: str
    version_of: str
    text: bytes
    timestamp: str = ""
    timestamp_us: int | None = None


@dataclass(frozen=True, slots=True)
class StoredMember:
    """A member as it is stored. ``sequence``: 1, 2, 3 ... in the stream, in the order of acknowledgement."""

    sequence: int
    iri: str
    version_of: str
    text: bytes
    timestamp: str
    timestamp_us: int | None


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of the members of one request, in their order.

    sequences  of each member: its own, or of the one that was there before
    is_new     whether it was stored now; a second one of the same IRI within the request is not new
    """

    sequences: tuple[int, ...]
    is_new: tuple[bool, ...]

    @property
    def new(self) -> int:
        return sum(self.is_new)


@dataclass(frozen=True, slots=True)
class StreamState:
    """How far a stream is. ``sequence``: of the newest member ever; ``members``: stored now; ``size_bytes``: of their
    stored form."""

    sequence: int
    members: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ViewState:
    """How far a view is.

    position    sequence of the newest member that is in its buckets
    members     members it holds now, each once
    placed      places its members take, counted once for each bucket
    generation  raised by every step that changes any of its nodes
    """

    view_id: int
    position: int
    members: int
    placed: int
    buckets: int
    pages: int
    generation: int


# ---------------------------------------------------------------- nodes


class RelationType(StrEnum):
    """Local names of TREE's relation classes."""

    PLAIN = "Relation"
    GREATER_OR_EQUAL = "GreaterThanOrEqualToRelation"
    LESS = "LessThanRelation"
    EQUAL = "EqualToRelation"
    PREFIX = "PrefixRelation"
    CONTAINS = "GeospatiallyContainsRelation"


@dataclass(frozen=True, slots=True)
class Relation:
    """A link to another node of the same view.

    query      the node's query string, percent-encoded: ``year=2021&month=01``, ``year=2021&pageNumber=1``
    path       IRI; empty for a plain relation
    value      lexical form, or the IRI where ``datatype`` is empty
    datatype   IRI of the value's datatype
    remaining  ``tree:remainingItems``: members to be found below the node; None: not told
    """

    type: RelationType
    query: str
    path: str = ""
    value: str = ""
    datatype: str = ""
    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """What a client fetches of a view.

    bucket        canonical query string of the bucket, percent-encoded; empty for the view's root
    page          number, or None for the bucket itself
    is_immutable  nothing of it will ever change
    relations     in the order they are to be written
    members       of a page, in the order of acknowledgement (of a materialised view: of first appearance)
    version       changes whenever the node does; with the view's id and the store's epoch a strong validator
    subjects      what nodes that it leads to are about: query string of the node, IRI
    """

    view: View
    bucket: str
    page: int | None
    is_immutable: bool
    relations: tuple[Relation, ...]
    members: tuple[StoredMember, ...]
    version: int
    subjects: tuple[tuple[str, str], ...] = ()

    @property
    def query(self) -> str:
        """The node's own query string; empty for the view's root."""
        if self.page is None:
            return self.bucket
        return f"{self.bucket}&pageNumber={self.page}" if self.bucket else f"pageNumber={self.page}"


# ---------------------------------------------------------------- background work

Chain: TypeAlias = tuple[str, ...]
"""Canonical keys of the buckets from just under the root to the one that holds the member; empty: the root itself."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a view puts a member.

    chains        one for each bucket that holds it, at least one
    version_of    IRI of its object; only views that look at versions need it
    """

    sequence: int
    chains: Sequence[Chain]
    timestamp_us: int | None = None
    version_of: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """Outcome of one bounded step of background work. ``done``: things worked off; ``more``: whether to go on now."""

    done: int
    more: bool


@dataclass(frozen=True, slots=True)
class Backlog:
    """A view that waits for members: those after ``position`` up to ``sequence``."""

    stream: EventStream
    view: View
    position: int
    sequence: int


class StreamStore(Protocol):
    """Event streams. Everything is reached by stream (the distribution key).

    Changes of streams, views and the DCAT document leave a line in the audit log, in their own transaction; members
    that come do not. ``by`` is who does it.
    """

    # ---- administration

    def streams(self, workspace_id: int) -> Mapping[str, EventStream]:
        """All streams of a workspace by name, newest committed state; some microseconds when nothing changed."""
        ...

    def views(self, stream_id: int) -> Mapping[str, View]:
        """The views of a stream by name, in the order of their creation; empty for an unknown stream."""
        ...

    def dcat_catalogue(self, workspace_id: int) -> DcatCatalogue | None: ...

    def put_dcat_catalogue(
        self, workspace_id: int, catalogue: DcatCatalogue | None, *, by: Actor | str = ""
    ) -> Future[None]:
        """Set or (None) remove it. NotFound: the workspace."""
        ...

    def put_stream(
        self, stream: EventStream, views: Sequence[View] = (), *, by: Actor | str = ""
    ) -> Future[EventStream]:
        """Create (``id`` 0), with its first views in the same transaction, or change a stream.

        Of a stored one shape, shape class, DCAT, event source retention, title, visibility and whether it is closed
        may change. AlreadyExists ``stream``, ``view``; NotFound; InvalidParameter.
        """
        ...

    def delete_stream(self, stream_id: int, *, by: Actor | str = "") -> Future[None]:
        """Remove a stream: gone, and its name free, with this commit; rows follow by ``clean``. NotFound."""
        ...

    def put_view(self, view: View, *, by: Actor | str = "") -> Future[View]:
        """Create (``id`` 0) a view, filled by the background work from the first member on; of a stored one the DCAT
        text may change. AlreadyExists ``view``; NotFound; InvalidParameter."""
        ...

    def delete_view(self, stream_id: int, view_id: int, *, by: Actor | str = "") -> Future[None]:
        """As ``delete_stream``, for one view. NotFound."""
        ...

    def stream_state(self, stream_id: int) -> StreamState:
        """NotFound."""
        ...

    def view_states(self, stream_id: int) -> dict[int, ViewState]:
        """By view id; empty for an unknown stream."""
        ...

    # ---- members

    def append(self, stream_id: int, members: Sequence[Member], *, by: Actor | str = "") -> Future[Appended]:
        """Store members at the stream's end, all or none, at most MAX_APPEND. Known IRIs are recognised, the first
        content stays. Cost does not depend on how many are stored.

        raises  NotFound ``stream``; InvalidParameter ``stream`` for a closed one, ``member`` for one out of bounds
        """
        ...

    def members(self, stream_id: int, after: int = 0, *, limit: int = MAX_MEMBERS) -> list[StoredMember]:
        """Members after a sequence number, in order: at most ``limit``, and fewer where they are long; none means that
        there are none. DamagedData names the member."""
        ...

    def member(self, stream_id: int, iri: str) -> StoredMember | None: ...

    # ---- nodes

    def node(
        self, stream_id: int, view_id: int, bucket: str = "", page: int | None = None, *, members: bool = True
    ) -> Node:
        """A node as of the newest commit, from one snapshot.

        bucket   canonical query string (``canonical_bucket``)
        members  False leaves them out, which takes some 15 µs: for who asks whether a node has changed
        raises   NotFound; Gone for a page that was removed; DamagedData
        """
        ...

    # ---- background work; each step is one bounded transaction, may be repeated, and loses nothing when cut off

    def hold_stream_work(self) -> bool:
        """Whether this process holds or gets the lease for background work on streams."""
        ...

    def backlog(self) -> list[Backlog]:
        """Views of all streams that wait for members, the ones furthest behind last."""
        ...

    def assign(
        self, stream_id: int, view_id: int, after: int, through: int, placements: Sequence[Placement] | None
    ) -> Future[bool]:
        """Put members of a view into their buckets: those after ``after``, where the view has to be, to ``through``.

        placements  of every member in between, in order; None where all go to the root and nothing asks for versions.
                    All buckets of a member are filled in the same transaction
        returns     False, with nothing done, if the view is not at ``after`` (another process was faster) or is gone
        """
        ...

    def retain(self, stream_id: int, view_id: int | None, now_us: int, *, grace_us: int) -> Future[Step]:
        """Apply retention, one bounded step: of a view (members leave its pages; pages whose members all left are
        removed, half-empty ones joined to new pages), or with None of the event source (members on no page any more
        leave the stream).

        grace_us  how long pages that others have taken the place of can still be read
        """
        ...

    def clean(self, now_us: int) -> Future[Step]:
        """Remove rows of deleted streams and views, and pages whose time is over: one bounded step."""
        ...

    def tend(self, stream_id: int) -> Step:
        """Keep a stream's own structures in form: settle keys of known IRIs, make a dictionary. One bounded step."""
        ...

    def stream_ids(self) -> Iterator[tuple[int, int]]:
        """(workspace id, stream id) of every stream."""
        ...
