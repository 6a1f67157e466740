"""The contract of a store: what every back end does, in domain words.

Rules that hold for every call:

* **Key first.** Observations are reached by track (the distribution key); one call touches one track, or says that it
  is a listing.
* **Durable.** A write's future gives its result only once the write survives ``kill -9`` and a power cut. A write is
  all or nothing. Any answer given after that, by any process on the same store, includes it.
* **Futures.** Writes return a ``concurrent.futures.Future`` at once, so that many can share one commit; its
  exception, if any, is a domain error. Everything else returns its value. All calls may be made from any thread.
* **Who.** Writes take who makes them (``by``: an Actor, or a bare name). Changes of metadata and of accounts,
  corrections and deletions of observations leave a line in the audit log, in the same transaction; plain inserts do
  not.
* **Bounded.** No call returns more than it says; scans give blocks of at most ``MAX_BLOCK_ROWS`` rows and hold no
  transaction between two blocks.
* **Errors.** ``StoreUnavailable`` (locked, full, I/O error), ``DamagedData`` (checksum), and those named per call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final, Protocol

from thalweg.domain.access import Actor, AuditEntry, AuditQuery, Grant, Scope, Session, Token, User
from thalweg.domain.blocks import Block, ValueKind
from thalweg.domain.catalogue import (
    AllowedValues,
    Feature,
    ObservedProperty,
    Offering,
    Procedure,
    SensorDescription,
    Unit,
    Workspace,
)
from thalweg.domain.features import FeatureStore
from thalweg.domain.hooks import HookStore
from thalweg.domain.observations import Change, Insertion, Receipt, TrackState
from thalweg.domain.packages import PackageStore
from thalweg.domain.published import PublishedStore
from thalweg.domain.published_layers import PublishedLayerStore
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.streams import StreamStore
from thalweg.domain.table_sql import SqlStore
from thalweg.domain.tables import TableStore
from thalweg.domain.time import ALL_TIME, Interval

MAX_BLOCK_ROWS: Final = 8_192


@dataclass(frozen=True, slots=True)
class SeriesRegistration:
    """A series to be registered; property and unit are created where their identifier or code is unknown.

    An existing property or unit is used as it is: registering never changes it.
    """

    observed_property: ObservedProperty
    unit: Unit
    kind: ValueKind = ValueKind.NUMBER
    constraint: AllowedValues | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Registration:
    """A procedure to be registered with all that belongs to it, in one transaction.

    procedure    ``id`` 0, ``series`` empty (they come from ``series``), ``feature_id`` None (comes from ``features``)
    features     where it is, the first one its registered feature; may be empty. ``id`` > 0 names a stored feature,
                 ``id`` 0 with a known identifier the stored one, else the feature is created
    offerings    offerings it joins; created where the identifier is unknown. Those with ``procedure_id`` set to 0
                 become the procedure's own
    """

    procedure: Procedure
    series: tuple[SeriesRegistration, ...]
    features: tuple[Feature, ...] = ()
    offerings: tuple[Offering, ...] = ()
    description: SensorDescription = field(default_factory=SensorDescription)


class CatalogueStore(Protocol):
    """Workspaces and their catalogues. Listing-sized: held in memory by each process, refreshed by generation."""

    def workspaces(self) -> dict[str, Workspace]:
        """All workspaces by name, the default one always among them."""
        ...

    def catalogue(self, workspace_id: int) -> Catalogue:
        """The newest committed catalogue. Checks the generation at each call (some microseconds), reads what
        changed only. Raises NotFound for an unknown workspace."""
        ...

    def description(self, procedure_id: int) -> SensorDescription:
        """What a procedure's description says. Raises NotFound."""
        ...

    def put_workspace(self, workspace: Workspace, *, by: Actor | str = "") -> Future[Workspace]:
        """Create (``id`` 0) or change a workspace. AlreadyExists: the name; NotFound: the id."""
        ...

    def register_procedure(
        self, workspace_id: int, registration: Registration, *, by: Actor | str = ""
    ) -> Future[Procedure]:
        """Store a new procedure. AlreadyExists (parameter ``procedure``) if identifier, name or assigned id is
        taken. A track is created for each of its features."""
        ...

    def update_procedure(
        self,
        workspace_id: int,
        procedure: Procedure,
        description: SensorDescription | None = None,
        *,
        by: Actor | str = "",
    ) -> Future[Procedure]:
        """Replace a procedure's own fields and, if given, its description; series may be appended and their unit,
        constraint and name changed, never removed or reordered. NotFound, AlreadyExists."""
        ...

    def add_series(
        self, procedure_id: int, series: Sequence[SeriesRegistration], *, by: Actor | str = ""
    ) -> Future[Procedure]:
        """Append series that the procedure does not have yet (those it has are left alone)."""
        ...

    def delete_procedure(self, workspace_id: int, procedure_id: int, *, by: Actor | str = "") -> Future[None]:
        """Remove a procedure, its tracks, observations, change log, own offering and memberships. NotFound."""
        ...

    def put_unit(self, workspace_id: int, unit: Unit, *, by: Actor | str = "") -> Future[Unit]:
        """Create (``id`` 0) or change. AlreadyExists: the code."""
        ...

    def put_property(
        self, workspace_id: int, observed_property: ObservedProperty, *, by: Actor | str = ""
    ) -> Future[ObservedProperty]:
        """Create (``id`` 0) or change. AlreadyExists: identifier or name."""
        ...

    def put_feature(self, workspace_id: int, feature: Feature, *, by: Actor | str = "") -> Future[Feature]:
        """Create (``id`` 0) or change. AlreadyExists: identifier or name."""
        ...

    def put_offering(self, workspace_id: int, offering: Offering, *, by: Actor | str = "") -> Future[Offering]:
        """Create (``id`` 0) or change, membership included. AlreadyExists: identifier or name."""
        ...

    def delete_offering(self, workspace_id: int, offering_id: int, *, by: Actor | str = "") -> Future[None]:
        """Remove a network offering; its procedures stay. NotFound; InvalidParameter for a procedure's own one."""
        ...


@dataclass(frozen=True, slots=True)
class Extent:
    """What capabilities say of a procedure's data; instants inclusive, both None without rows."""

    begin_us: int | None
    end_us: int | None
    rows: int


class ObservationStore(Protocol):
    """Observations by track."""

    def insert(
        self, workspace_id: int, insertions: Sequence[Insertion], *, by: Actor | str = ""
    ) -> Future[list[Receipt]]:
        """Store the rows of all insertions or of none; receipts in the order given.

        Checks, in this order, before anything is kept: the procedure exists (NotFound ``procedure``), every column
        is one of its series with that kind (InvalidParameter ``observedProperty``), values are finite and texts
        within MAX_TEXT_LENGTH and free of what FORBIDDEN_TEXT matches (InvalidParameter ``result``), instants within
        the storable years and
        begin <= end (InvalidParameter ``phenomenonTime``), keys sorted and unique within a block
        (InvalidParameter ``phenomenonTime``), duplicates by ``on_duplicate`` (AlreadyExists ``phenomenonTime``,
        message names procedure, property and time). Rows of which no cell is valid are kept as rows only if the
        block has positions; otherwise they are left out.
        Cost does not depend on the length of the track's history.
        """
        ...

    def load(self, workspace_id: int, insertion: Insertion, *, by: Actor | str = "") -> Receipt:
        """Bulk path of ``insert`` for many rows: sealed at once, in bounded transactions that other writers get
        between; repeatable, so that a load interrupted half-way is simply run again. Not all-or-nothing: each
        transaction is. Same checks, made before the first transaction; on_duplicate must not be REFUSE."""
        ...

    def scan(
        self,
        track_id: int,
        property_ids: Sequence[int],
        interval: Interval = ALL_TIME,
        *,
        descending: bool = False,
        rows: int = MAX_BLOCK_ROWS,
    ) -> Iterator[Block]:
        """Rows whose phenomenon end lies in the interval and that have a value for at least one of the properties
        (or a position), in key order (descending: newest block first, and within a block newest row first).

        Columns come in the order of ``property_ids``, without any doubled; a property that the procedure lacks gives
        no column. Blocks hold 1 to ``rows`` rows. Begin and result time arrays are None where all equal ``end``.
        Each block is read in a transaction of its own that is over when the block is given out. A track without rows
        or an unknown one gives nothing.
        """
        ...

    def states(self, track_ids: Iterable[int]) -> dict[int, TrackState]:
        """The maintained states of the given tracks; unknown ids are left out."""
        ...

    def rows_before(self, track_id: int, ends: Sequence[int]) -> list[int]:
        """How many rows of a track have a phenomenon end before each of the instants (microseconds UTC), of one state.

        Rows as ``TrackState.rows`` counts them; 0 for a track without rows or an unknown one. Cost does not depend on
        the length of the track's history, but for its first call after chunks were written, which reads their sizes.
        """
        ...

    def end_at(self, track_id: int, position: int) -> int | None:
        """The phenomenon end of the row that ``position`` rows come before, in key order; None: there is none.
        Costs as ``rows_before``."""
        ...

    def extents(self, workspace_id: int) -> dict[int, Extent]:
        """Listing: the extent of every procedure that has rows, over all its tracks, by procedure id. Cheap enough
        to be called for each capabilities request: reads only what has changed since this process's last call."""
        ...

    def delete(
        self, track_id: int, interval: Interval, property_ids: Sequence[int] | None = None, *, by: Actor | str = ""
    ) -> Future[int]:
        """Delete cells of the properties (None: whole rows) whose phenomenon end lies in the interval; a row left
        without a cell goes too. Returns cells deleted. Extremes, counts and last values are recomputed exactly."""
        ...

    def changes(self, track_id: int, after: int = 0, *, limit: int = 1000) -> list[Change]:
        """The track's change log after a sequence number, in order."""
        ...

    def seal(self, track_id: int | None = None, *, everything: bool = False) -> int:
        """Merge tail rows into chunks: of one track or of all that are due; ``everything`` ignores whether due.
        Never changes what any read returns. Returns the number of rows sealed."""
        ...


class AccessStore(Protocol):
    """Accounts, tokens, sessions, roles, and the audit log."""

    def users(self) -> list[User]: ...

    def user(self, name: str) -> User | None: ...

    def put_user(self, user: User, *, by: Actor | str = "") -> Future[None]:
        """Create or replace by name."""
        ...

    def renew_password_hash(self, name: str, before: str, after: str) -> Future[None]:
        """Keep another hash of the same password, if the present one is still ``before``. What is remembered of
        callers stays right, so that ``access_generation`` stays."""
        ...

    def delete_user(self, name: str, *, by: Actor | str = "") -> Future[None]:
        """Remove a user with its tokens, sessions and grants. NotFound."""
        ...

    def tokens(self) -> list[Token]: ...

    def token(self, digest: str) -> Token | None: ...

    def put_token(self, token: Token, *, by: Actor | str = "") -> Future[None]:
        """Create or replace by digest; ``used_us`` is not kept by it. NotFound: the user."""
        ...

    def delete_token(self, digest: str, *, by: Actor | str = "") -> Future[None]:
        """NotFound."""
        ...

    def session(self, digest: str) -> Session | None: ...

    def put_session(self, session: Session, *, by: Actor | str = "") -> Future[None]:
        """Create; sessions that have ended, and those of the user beyond a bound, go. NotFound: the user."""
        ...

    def delete_session(self, digest: str, *, by: Actor | str = "") -> Future[None]:
        """Nothing if it is gone already."""
        ...

    def delete_sessions(self, user: str, *, but: str = "") -> Future[None]:
        """All sessions of a user, but the one of that digest."""
        ...

    def note_uses(self, tokens: Mapping[str, int], sessions: Mapping[str, int]) -> Future[None]:
        """When tokens and sessions were last used, microseconds UTC by digest. Does not raise the generation."""
        ...

    def grants(self, principal: str | None = None) -> list[Grant]:
        """All grants, or those of one principal; ``ANONYMOUS``: what everybody holds."""
        ...

    def put_grant(self, grant: Grant, *, by: Actor | str = "") -> Future[None]:
        """Create or replace by principal and scope. What everybody is granted is part of the workspace's catalogue
        and raises its generation. NotFound: the user, workspace or dataset; InvalidParameter: the kind."""
        ...

    def delete_grant(self, principal: str, scope: Scope, *, by: Actor | str = "") -> Future[None]:
        """NotFound."""
        ...

    def access_generation(self) -> int:
        """Raised by every change of accounts, tokens, roles and by the end of a session; some microseconds, so that
        verified credentials can be remembered safely."""
        ...

    def audit(self, query: AuditQuery) -> list[AuditEntry]:
        """Lines of the audit log, newest first."""
        ...

    def append_audit(self, entries: Sequence[AuditEntry]) -> Future[None]:
        """Append lines about what is no change of the store, such as sign-ins that failed; ``number`` is given anew."""
        ...

    def delete_audit(self, before_us: int, *, limit: int = 1000) -> Future[int]:
        """Remove the oldest lines from before an instant, at most so many; how many."""
        ...


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing wrong with a store, found by ``check``."""

    place: str
    problem: str


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """Sizes for operators. ``bytes_per_part`` sums the encoded parts of all chunks by kind of part
    (``times``, ``quality``, ``position``, ``property <identifier>``) and the members of event streams (``members``)."""

    url: str
    epoch: str
    format_version: int
    size_bytes: int
    workspaces: int
    procedures: int
    layers: int
    features: int
    tracks: int
    rows: int
    values: int
    chunks: int
    tail_rows: int
    bytes_per_part: dict[str, int]
    event_streams: int = 0
    members: int = 0
    views: int = 0
    packages: int = 0
    tables: int = 0
    records: int = 0


@dataclass(frozen=True, slots=True)
class StoreFigures:
    """What a monitor watches, cheap enough for every few seconds.

    log_bytes  length of the write-ahead log
    reserve    whether the room kept for deleting on a full disk is there
    reopened   how often a writer came back after an I/O error, of all processes
    """

    tracks: int
    rows: int
    tail_rows: int
    procedures: int
    layers: int
    features: int
    size_bytes: int
    log_bytes: int
    free_bytes: int
    reserve: bool
    reopened: int


class MaintenanceStore(Protocol):
    """For operators and background work."""

    def problems(self, timeout_s: float = 2.0) -> list[str]:
        """What keeps the store from its work now, each as a phrase without names of files: it cannot be read, it
        cannot be written within the time, there is no room, nobody does background work. Empty: it is ready."""
        ...

    def figures(self) -> StoreFigures: ...

    @property
    def queued(self) -> int:
        """Writes of this process that wait for their commit."""
        ...

    @property
    def epoch(self) -> str:
        """Names this store's life: new after a restore, so that validators (ETag) given out before are void."""
        ...

    def check(self) -> Iterator[Finding]:
        """Verify everything: the file, each chunk's checksum and decoding, rows in their windows, maintained begin,
        end, count and last values against the rows. Gives findings as it goes; none means clean."""
        ...

    def info(self) -> StoreInfo: ...

    def backup(self, target: str) -> None:
        """Write a consistent copy to a new file while others read and write. AlreadyExists if it is there.

        Damage is copied like all else: whoever relies on the copy checks it.
        """
        ...

    def leads(self) -> bool:
        """Whether this process does the store's background work: it holds the lease for it, or gets it now."""
        ...

    def maintain(self) -> None:
        """One round of background work, if this process holds or gets the lease for it: seal what is due,
        checkpoint. Called about once a second by each process."""
        ...

    def close(self) -> None:
        """Finish queued writes, release leases, close."""
        ...


class Store(
    CatalogueStore,
    ObservationStore,
    FeatureStore,
    TableStore,
    SqlStore,
    PackageStore,
    HookStore,
    StreamStore,
    PublishedStore,
    PublishedLayerStore,
    AccessStore,
    MaintenanceStore,
    Protocol,
):
    """All that a back end does."""

    def together(self) -> AbstractContextManager[None]:
        """For many short calls of one thread that take some milliseconds together; never for a wait. What they read
        is the state at the first of these reads or a later one, and what several would find out anew is found out
        once; what they write is begun at the end, so that it shares a commit. Never raises itself."""
        ...
