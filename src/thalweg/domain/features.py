"""Layers (feature types) and their features: vocabulary, and what a store does with them.

* **Coordinates** are x y [z] (easting, longitude first), whatever the CRS; geometries are WKB (ISO, little-endian).
* **Values** by kind: TEXT ``str``, INTEGER ``int`` (64 bits), NUMBER ``float`` (finite), BOOLEAN ``bool``, DATE ``int``
  (days since 1970-01-01), DATETIME ``int`` (microseconds UTC). Missing is None.
* **Ids**: a feature's number is a 64-bit integer, unique in its layer, never given twice by the store; outside it is
  ``{id_prefix}.{number}``. The natural order of a layer is that of its numbers; pages go by it.
* **Versions** count a feature's states from 1 on.
* **Fragments** are a feature's bytes in one form, encoded when it is written; see ``FragmentForm``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum, IntEnum, StrEnum
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from thalweg.domain.access import Actor
from thalweg.domain.filters import Filter
from thalweg.domain.geometry import WGS84, Envelope

IdArray: TypeAlias = npt.NDArray[np.int64]
Value: TypeAlias = "str | int | float | bool | None"

MAX_BATCH_FEATURES: Final = 4_096
"""Most features of a batch that a store gives out, and of one step of a load."""
MAX_EDIT_FEATURES: Final = 100_000
"""Most features that one edit (one transaction, all or nothing) may touch over all its layers: some ten seconds of the
store's lock at the worst; larger changes are loads."""
MAX_FIELDS: Final = 500
"""Most fields of a layer; SQLite and PostgreSQL take more, XSD readers tire."""
MAX_GEOMETRY_BYTES: Final = 16 << 20
"""Largest geometry, WKB: some million positions."""
MAX_VALUE_LENGTH: Final = 1_000_000
"""Longest text value, characters."""
STATIONS: Final = "stations"
LATEST: Final = "latest"
RESERVED_LAYER_NAMES: Final = frozenset((STATIONS, LATEST))
"""Of the layers that show a workspace's procedures and are not stored; no stored one is called like these, whatever the
case."""
MAX_GEOMETRY_DEPTH: Final = 4
"""Deepest nesting of geometry collections; libraries crash at thousands."""


class FieldKind(StrEnum):
    """Types of attributes."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    DATE = "date"
    DATETIME = "datetime"


class GeometryKind(StrEnum):
    """What a layer's geometries are; the values are the names of GeoJSON and WKT.

    A layer of a multi kind takes single ones too and keeps them as they came (encoders write them as multi ones with
    one part); GEOMETRY takes any; NONE has no geometry at all.
    """

    NONE = ""
    GEOMETRY = "Geometry"
    POINT = "Point"
    LINESTRING = "LineString"
    POLYGON = "Polygon"
    MULTIPOINT = "MultiPoint"
    MULTILINESTRING = "MultiLineString"
    MULTIPOLYGON = "MultiPolygon"
    GEOMETRYCOLLECTION = "GeometryCollection"

    @property
    def single(self) -> GeometryKind:
        """The kind of one part of a multi kind; any other kind itself."""
        return _SINGLE.get(self, self)


_SINGLE: Final = {
    GeometryKind.MULTIPOINT: GeometryKind.POINT,
    GeometryKind.MULTILINESTRING: GeometryKind.LINESTRING,
    GeometryKind.MULTIPOLYGON: GeometryKind.POLYGON,
}


@dataclass(frozen=True, slots=True)
class Field:
    """An attribute.

    name    an XML name without colon (NCName), unique in the layer whatever the case, and not the geometry field's;
            or one of GML_FIELDS
    number  names the field inside for ever, from 1 on; 0: not yet given. A renamed field keeps it
    length  longest text, characters; 0: MAX_VALUE_LENGTH. For documents and checks
    required  None is refused
    """

    name: str
    kind: FieldKind
    number: int = 0
    title: str = ""
    length: int = 0
    required: bool = False

    @property
    def of_gml(self) -> bool:
        """Whether it is GML's and not the layer's own; see GML_FIELDS."""
        return self.name in GML_FIELDS


GML_DESCRIPTION: Final = "gml:description"
GML_IDENTIFIER: Final = "gml:identifier"
GML_CODE_SPACE: Final = "gml:codeSpace"
"""The attribute ``codeSpace`` of the identifier, which stands and goes with it."""
GML_NAME: Final = "gml:name"
GML_FIELDS: Final = {
    name: Field(name, FieldKind.TEXT) for name in (GML_DESCRIPTION, GML_IDENTIFIER, GML_CODE_SPACE, GML_NAME)
}
"""Properties that every feature may have in GML (gml:AbstractFeatureType, OGC 07-036 clauses 7.2.2.4 and 9.3), in its
order; the identifier in GML 3.2 only. Of several names the first is kept.

A layer gets such a field when an edit first gives it a value, so that layers without them are what they were. Forms in
which a feature is written name it only where it has a value: fragments of the other features stay as they are. A field
of the layer's own that is called ``name`` is another property."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A feature type, without what its data says (that is ``LayerState``).

    id              0: not yet stored
    name            local name, an NCName, unique in the workspace
    id_prefix       what stands before ``.number`` in its features' ids; empty when created: its name
    licence         a URI or a text; attribution: a line to show
    public          False: only those may read it who hold a role
    srid            EPSG code of the stored coordinates
    geometry_field  name of the geometry property
    dimensions      2 or 3; with 3, positions without a height are refused, and with 2 those with one
    fields          in the order of documents
    schema_version  raised by the store when something changes that fragments depend on (names, fields, CRS, prefix)
    generation      of its metadata, raised by each change
    """

    id: int
    uuid: str
    workspace_id: int
    name: str
    title: str = ""
    description: str = ""
    keywords: tuple[str, ...] = ()
    licence: str = ""
    attribution: str = ""
    public: bool = True
    srid: int = WGS84
    geometry_field: str = "geometry"
    geometry_kind: GeometryKind = GeometryKind.GEOMETRY
    dimensions: int = 2
    fields: tuple[Field, ...] = ()
    id_prefix: str = ""
    schema_version: int = 1
    generation: int = 0

    def field(self, name: str) -> Field | None:
        """The field of exactly that name."""
        for item in self.fields:
            if item.name == name:
                return item
        return None

    @property
    def has_geometry(self) -> bool:
        return self.geometry_kind is not GeometryKind.NONE

    @property
    def own_fields(self) -> tuple[Field, ...]:
        """The fields without those of GML."""
        return tuple(item for item in self.fields if not item.of_gml)

    def feature_id(self, number: int) -> str:
        """The id outside."""
        return f"{self.id_prefix}.{number}"

    def feature_number(self, feature_id: str) -> int | None:
        """The number of an outside id; None if it is none of this layer."""
        prefix, dot, digits = feature_id.rpartition(".")
        if not dot or prefix != self.id_prefix or not _is_number(digits):
            return None
        number = int(digits)
        return number if -(1 << 63) <= number < 1 << 63 else None


def _is_number(digits: str) -> bool:
    """Whether it is a number as this program writes it: no leading zeros, no plus."""
    plain = digits.removeprefix("-")
    return plain.isascii() and plain.isdigit() and len(plain) <= 19 and (plain[0] != "0" or digits == "0")


@dataclass(frozen=True, slots=True)
class LayerState:
    """What is maintained of a layer's data, exact at every commit.

    generation  raised by every commit that changes its features
    count       features, those without a geometry included
    extent      exact box of all geometries in the layer's CRS; None without any
    changed_us  time of the last change, microseconds UTC; 0: never
    sequence    of the newest entry of its change log
    """

    layer_id: int
    generation: int = 0
    count: int = 0
    extent: Envelope | None = None
    changed_us: int = 0
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class Features:
    """A batch of features of one layer, by columns, n rows.

    ids         shape (n,); in what is to be inserted 0 where the store is to give one
    geometries  n WKB texts or None; empty list for a layer without geometry
    columns     by field name, n values each. In what is to be written, a field left out is missing in every row
    versions    shape (n,); None in what is to be written
    """

    ids: IdArray
    geometries: Sequence[bytes | None]
    columns: Mapping[str, Sequence[Value]]
    versions: IdArray | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Sequence[int]) -> Features:
        """These rows, in this order."""
        index = np.asarray(rows, np.int64)
        return Features(
            self.ids[index],
            [self.geometries[i] for i in rows] if self.geometries else [],
            {name: [column[i] for i in rows] for name, column in self.columns.items()},
            None if self.versions is None else self.versions[index],
        )


# ---------------------------------------------------------------- fragments


class FragmentForm(IntEnum):
    """Forms that features are stored encoded in; see ``encode/feature_fragments.py`` for what exactly they hold.

    The store keeps a form's number, and knows nothing of what it means.
    """

    GML2 = 1
    """GML 2.1.2, x y order"""
    GML3 = 2
    """GML 3.1.1 and 3.2.1, in the order of the CRS' authority"""
    GML3_XY = 3
    """the same in x y order; only of CRSs whose authority's order is another"""
    GEOJSON = 4
    """RFC 7946, longitude latitude"""


@dataclass(frozen=True, slots=True)
class EncodedFeatures:
    """Fragments of a batch in one form.

    content    the fragments one after the other
    ends       shape (n,), where each ends in ``content``
    texts      the fragments one by one, where the encoder has them at hand
    checksums  of the fragments, where the store has them at hand
    """

    content: bytes
    ends: npt.NDArray[np.int64]
    texts: Sequence[bytes] | None = None
    checksums: Sequence[int] | None = None

    def each(self) -> Sequence[bytes]:
        """The fragments one by one."""
        if self.texts is not None:
            return self.texts
        ends = self.ends.tolist()
        return [self.content[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


class FragmentEncoder(Protocol):
    """Makes fragments for a store, which calls it inside its transaction: quick, pure, no I/O.

    stamp  of what this encoder makes of a layer: differs whenever its bytes would (format, names, prefix, CRS)
    """

    def stamp(self, layer: Layer) -> int: ...

    def encode(self, layer: Layer, features: Features) -> Mapping[FragmentForm, EncodedFeatures]:
        """Every form of the layer. The features are complete: all ids given, all fields there."""
        ...


class PreparedFeatures(Protocol):
    """Features that are checked and encoded, in a form of the store's own; it can be pickled."""

    def __len__(self) -> int: ...


FeaturePreparer: TypeAlias = Callable[[Features], Sequence[PreparedFeatures]]
"""Checks and encodes features, all of which have numbers; raises InvalidParameter as the store does. It reads nothing
of the store and can be pickled, so that it may be called in another process."""


FeatureKey: TypeAlias = tuple[int, int]
"""Number and version of a feature. No two states of a layer's features share one: a number that is used again goes on
with the versions of the feature that had it."""
Known: TypeAlias = Callable[[Sequence[FeatureKey]], Sequence[bytes | None]]
"""Tells which features' texts the caller has, None for the others. Called while a snapshot is read: short, and without
a call to the store."""


@dataclass(frozen=True, slots=True)
class FragmentRun:
    """Neighbouring fragments as a store gives them out.

    count     of features
    content   their fragments joined; None: no current ones are stored, encode ``features``
    features  the features themselves, only where ``content`` is None
    shapes    their geometries, WKB, where they were asked for beside ``content``
    keys      of all the features, where the caller said what it has
    known     what it has, in the order of keys; ``content`` and ``shapes`` are those of the others alone
    """

    count: int
    content: bytes | None
    features: Features | None = None
    shapes: Sequence[bytes | None] | None = None
    keys: Sequence[FeatureKey] | None = None
    known: Sequence[bytes | None] = ()


@dataclass(frozen=True, slots=True)
class FragmentPage:
    """A page, read in one state of the store.

    matched  how many features the query lets through, where that has come out at no cost
    """

    state: LayerState
    count: int
    runs: Sequence[FragmentRun]
    matched: int | None = None


# ---------------------------------------------------------------- queries


@dataclass(frozen=True, slots=True)
class SortKey:
    """Order by a field (or ``domain.filters.FEATURE_ID``); missing values come last, ascending or descending.

    Texts go by code point. The number is always the last key, so that every order is total.
    """

    name: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class FeatureQuery:
    """Which features, in which order.

    where   a bound filter (``domain/filter_binding.bind``); None: all
    order   empty: natural order
    offset  features passed over
    limit   None: all
    fields  names of fields wanted; None: all. Others are not read
    geometry  False: geometries are not read (all None)
    """

    where: Filter | None = None
    order: tuple[SortKey, ...] = ()
    offset: int = 0
    limit: int | None = None
    fields: tuple[str, ...] | None = None
    geometry: bool = True


ALL_FEATURES: Final = FeatureQuery()

# ---------------------------------------------------------------- edits


class OnConflict(Enum):
    """What to do with a feature whose number is taken."""

    REFUSE = "refuse"
    REPLACE = "replace"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Insert:
    """New features. Numbers of 0 are given by the store."""

    layer_id: int
    features: Features
    on_conflict: OnConflict = OnConflict.REFUSE


class _Keep(Enum):
    KEEP = "keep"


KEEP: Final = _Keep.KEEP
"""Stands for a geometry that an update leaves as it is."""


@dataclass(frozen=True, slots=True)
class Update:
    """Change properties of the features that fulfil ``where``.

    values    by field name
    geometry  WKB, None to remove it, or KEEP
    version   the one version that the feature must have (``where`` names one); None: any
    """

    layer_id: int
    where: Filter | None
    values: Mapping[str, Value] = field(default_factory=dict)
    geometry: bytes | _Keep | None = KEEP
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Replace:
    """Put one feature's properties (a batch of one row; its id does not count) in the place of those of each that
    fulfils ``where``; properties that it lacks become missing."""

    layer_id: int
    where: Filter | None
    feature: Features
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the features that fulfil ``where``; as ``Update`` for ``version``."""

    layer_id: int
    where: Filter | None
    version: int | None = None


Edit: TypeAlias = "Insert | Update | Replace | Delete"


@dataclass(frozen=True, slots=True)
class EditReceipt:
    """What an edit did.

    ids        features it touched, in order (of an insert: the order given; skipped ones left out)
    versions   their versions now; of a deleted feature that of its tombstone
    """

    edit: Edit
    ids: IdArray
    versions: IdArray


@dataclass(frozen=True, slots=True)
class LoadReceipt:
    """What a load has done so far: features added, replaced, skipped as their number was taken."""

    added: int
    replaced: int
    skipped: int


class ChangeKind(StrEnum):
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    LOAD = "load"
    """Features ``first`` to ``last`` were loaded in bulk, as version 1 or as new versions of what was there."""


@dataclass(frozen=True, slots=True)
class FeatureChange:
    """An entry of a layer's change log.

    sequence  1, 2, 3 … per layer
    number    the feature; of LOAD the least number
    last      the feature; of LOAD the greatest number
    version   after the change; of a deletion that of the tombstone; of LOAD the count of features
    before    the feature as it was (one row), with its version; None: it was not there, or LOAD
    """

    sequence: int
    kind: ChangeKind
    number: int
    last: int
    version: int
    at_us: int
    by: str
    before: Features | None


# ---------------------------------------------------------------- locks and stored queries


@dataclass(frozen=True, slots=True)
class LockTarget:
    layer_id: int
    where: Filter | None = None


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock on features: until it expires, only edits that name it may change them.

    id         random, a URL-safe text
    duration_s how long it was asked for; each reset starts it anew
    locked, refused  numbers by layer id; refused ones are held by another lock
    """

    id: str
    expires_us: int
    duration_s: float
    locked: Mapping[int, IdArray]
    refused: Mapping[int, IdArray] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredQuery:
    """A query kept under a name, as its door wrote it down.

    identifier  unique in the workspace
    document    UTF-8 text of the door's own
    """

    workspace_id: int
    identifier: str
    document: str


# ---------------------------------------------------------------- the store's part


class LayerSource(Protocol):
    """Where the features of a layer are read: a store, or something that is made when it is read.

    A source without stored fragments gives runs without content, whose features the caller encodes. Filters come bound;
    what they name is in the layer. Errors beside those of all calls: NotFound ``layer`` where the layer is not (any
    more).
    """

    def layer_state(self, layer_id: int) -> LayerState:
        """As of the last commit; one row."""
        ...

    def count_features(self, layer_id: int, where: Filter | None = None) -> int:
        """Exact; without a filter one row is read."""
        ...

    def scan_features(self, layer_id: int, query: FeatureQuery = ALL_FEATURES) -> Iterator[Features]:
        """Batches of 1 to MAX_BATCH_FEATURES rows. No transaction is open between two.

        In natural order each batch is read by key where the one before ended, so that memory is bounded, a feature
        never comes twice, and one that is there all the time always comes. In another order the numbers are fixed
        first, in one state (8 bytes each), and features removed meanwhile are left out.
        """
        ...

    def fragment_page(
        self,
        layer_id: int,
        form: FragmentForm,
        stamp: int,
        offset: int,
        limit: int,
        *,
        shapes: bool = False,
        known: Known | None = None,
    ) -> FragmentPage:
        """``limit`` features (at most MAX_BATCH_FEATURES) of the natural order after the first ``offset``, all read
        in one state. Cost does not depend on the offset, nor (beyond a B-tree's depth) on the layer's size.

        shapes  give the geometries, too
        known   what the caller has needs no content and shape; a source without fragments may leave that out
        """
        ...

    def chosen_fragments(
        self,
        layer_id: int,
        form: FragmentForm,
        stamp: int,
        query: FeatureQuery,
        *,
        shapes: bool = False,
        known: Known | None = None,
    ) -> FragmentPage:
        """As ``fragment_page``, of a query with a filter or an order; its limit is MAX_BATCH_FEATURES at most."""
        ...

    def fragments(
        self, layer_id: int, form: FragmentForm, stamp: int, query: FeatureQuery, *, shapes: bool = False
    ) -> Iterator[FragmentRun]:
        """Fragments of what is asked for, in its order; runs of 1 to MAX_BATCH_FEATURES. ``fields`` and ``geometry``
        of the query do not count. As ``scan_features`` for transactions and order."""
        ...


class FeatureStore(LayerSource, Protocol):
    """Layers and features. One call touches one layer (the distribution key), or says that it is a listing, or is an
    edit over several. Filters and errors are as for reading.
    """

    # ------------------------------------------------------------ layers

    def layers(self, workspace_id: int) -> Mapping[str, Layer]:
        """Listing: all layers by name, as of the last commit; held in memory, checked by generation (microseconds)."""
        ...

    def layer_states(self, workspace_id: int) -> dict[int, LayerState]:
        """Listing: the states of all layers, by layer id; one row each, nothing counted."""
        ...

    def put_layer(self, layer: Layer, *, replaces: int = 0, by: Actor | str = "") -> Future[Layer]:
        """Create (``id`` 0) or change. Fields are matched by number: appended, renamed, reordered and removed (their
        values go), never of another kind; those of GML stay, named or not. CRS, dimensions and geometry kind may change
        only while it has no features, but for a geometry kind that takes all that the old one takes.

        replaces  number of a layer of the workspace that goes in the same transaction, so that this one can have its
                  name; what is granted on that one is granted on this one then. 0: none
        raises    AlreadyExists ``name``; InvalidParameter naming the field; NotFound ``layer``
        """
        ...

    def delete_layer(self, workspace_id: int, layer_id: int, *, by: Actor | str = "") -> Future[None]:
        """Remove a layer with all it has, what is granted on it included. It is gone for every reader at once; its rows
        are removed in bounded steps, which background work takes up again after a crash."""
        ...

    # ------------------------------------------------------------ writing

    def edit_features(
        self,
        edits: Sequence[Edit],
        encoder: FragmentEncoder,
        *,
        lock_id: str = "",
        release: bool = True,
        by: Actor | str = "",
    ) -> Future[list[EditReceipt]]:
        """Do all edits in the order given, or none; over all layers they name. Each sees what those before it did.
        A layer that lacks one of GML_FIELDS gets it by the first edit that gives it a value.
        The audit log gets a line per layer, with how many features were inserted, changed and deleted.

        lock_id  the lock that the caller holds; with ``release`` it is given up by success as a whole, else only the
                 features edited are let go
        raises   before the transaction: InvalidParameter naming the field (unknown, kind, length, required, text with
                 characters that XML forbids, number not finite) or the geometry field (broken, kind, dimensions, too
                 large); TooLarge beyond MAX_EDIT_FEATURES. From the future: AlreadyExists ``id`` (number taken, the
                 message names it), VersionConflict, FeatureLocked, InvalidParameter ``lockId`` (unknown), LockExpired
        """
        ...

    def reserve_numbers(self, layer_id: int, count: int) -> Future[int]:
        """Set numbers aside that no insert will be given; the first of them."""
        ...

    def feature_preparer(self, layer_id: int, encoder: FragmentEncoder) -> FeaturePreparer:
        """What makes batches ready for ``load_features``, by the layer as it is now.

        encoder  one that can be pickled, if the preparer is to be
        """
        ...

    def load_features(
        self,
        layer_id: int,
        batches: Iterable[Features | PreparedFeatures],
        encoder: FragmentEncoder,
        *,
        on_conflict: OnConflict = OnConflict.REFUSE,
        by: Actor | str = "",
        progress: Callable[[LoadReceipt], None] | None = None,
        unseen: bool = False,
    ) -> LoadReceipt:
        """Bulk path: in bounded transactions that other writers get between; each is all or nothing, the whole is
        not. Encodes outside of the lock. Repeatable with SKIP or REPLACE. Same checks as ``edit_features``, made per
        batch; locked features refuse with FeatureLocked. The audit log gets a line when it begins and one at its end.

        batches  features, or what this store's preparer with an equal encoder has made of them
        unseen   nobody looks for features of the layer in space before the load is done, and if it is interrupted the
                 layer is given up: the index of places may come last
        """
        ...

    def refresh_fragments(self, layer_id: int, encoder: FragmentEncoder) -> Iterator[int]:
        """Encode anew what another stamp stands on: each item is the number of features of one bounded transaction
        that is done. What is not taken to its end is begun again by the next call."""
        ...

    def fragment_stamps(self, workspace_id: int) -> dict[int, int]:
        """Listing: the stamp that all fragments of a layer stand on, by layer id; 0: not all on the same. Layers
        without features are left out."""
        ...

    def feature_changes(self, layer_id: int, after: int = 0, *, limit: int = 1000) -> list[FeatureChange]:
        """The change log after a sequence number, in order."""
        ...

    def feature_history(self, layer_id: int, number: int, *, limit: int = 1000) -> list[FeatureChange]:
        """The changes of one feature, the newest first; loads are not among them."""
        ...

    # ------------------------------------------------------------ locks

    def lock_features(
        self, targets: Sequence[LockTarget], duration_s: float, *, some: bool = False, by: Actor | str = ""
    ) -> Future[Lock]:
        """Lock what fulfils the targets. At most MAX_EDIT_FEATURES (TooLarge). Locks are not in the audit log.

        some    lock what can be locked; else FeatureLocked unless all can
        """
        ...

    def reset_lock(self, lock_id: str, duration_s: float | None = None) -> Future[Lock]:
        """Start its time anew. InvalidParameter ``lockId`` (unknown); LockExpired."""
        ...

    def release_lock(self, lock_id: str) -> Future[None]:
        """Give it up. InvalidParameter ``lockId`` (unknown); LockExpired."""
        ...

    def lock(self, lock_id: str) -> Lock | None:
        """The lock, expired or not; one expired more than a day ago, or released, is unknown."""
        ...

    def locked_features(self, layer_id: int) -> IdArray:
        """Numbers of the features that are locked now."""
        ...

    # ------------------------------------------------------------ stored queries

    def stored_queries(self, workspace_id: int) -> dict[str, StoredQuery]:
        """Listing, by identifier."""
        ...

    def put_stored_query(self, query: StoredQuery, *, by: Actor | str = "") -> Future[None]:
        """Create. AlreadyExists ``id``."""
        ...

    def delete_stored_query(self, workspace_id: int, identifier: str, *, by: Actor | str = "") -> Future[None]:
        """NotFound ``id``."""
        ...
