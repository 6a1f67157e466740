"""GetCapabilities: documents joined from a piece per offering, kept between requests.

A new observation moves the end of one procedure: its own offering and the networks it belongs to get a new time, the
other pieces stay, and the document is joined again. A change of metadata makes new pieces where what they show has
changed. While neither happens the same bytes are given out, after a look at the catalogue's generation and at the
extents. The size grows with the number of procedures and memberships, nothing is listed twice (istSOS' lists of
procedures in each operation made the document of 5,100 sensors the end of its load test).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from xxhash import xxh3_128

from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import Feature, Offering, Procedure, Workspace
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.geometry import WGS84, Envelope
from thalweg.domain.snapshot import Catalogue, View
from thalweg.domain.store import Extent
from thalweg.doors.sos import capabilities10, capabilities20
from thalweg.doors.sos.capabilities_common import OPERATIONS, SECTIONS, OfferingView, OperationInfo
from thalweg.doors.sos.versions import V1, V2
from thalweg.services.catalogue import CatalogueService
from thalweg.services.projection import is_known, transform, transform_envelope
from thalweg.services.services import Services

__all__ = ["OPERATIONS", "OperationInfo", "capabilities"]

MAX_CACHED_WORKSPACES: Final = 16
"""Most pairs of workspace (with what its callers see) and version whose pieces are kept; the one not asked for longest
goes first."""
MAX_CACHED_DOCUMENTS: Final = 4
"""Most documents kept of each: they differ by address and sections."""

Document = tuple[bytes, str]
_ALL: Final = frozenset(SECTIONS)


def capabilities(
    services: Services, catalogue: Catalogue, version: str, base_url: str, sections: frozenset[str] | None
) -> Document:
    """The document and its strong ETag, quotes included.

    version   ``1.0.0`` or ``2.0.0``
    base_url  the door's address, which every operation is offered at
    sections  those wanted, as ``SECTIONS`` names them; None: all. Without any, the mandatory parts alone: the root
    """
    wanted = _ALL if sections is None else sections
    renderer = RENDERERS[version]
    if "Contents" not in wanted:
        document = renderer.head(catalogue.workspace, base_url, wanted) + renderer.TAIL
        return document, _etag(services.catalogue.epoch, document)
    pieces = _CACHE.pieces(services.catalogue, catalogue.key, version)
    return pieces.document(services.catalogue, catalogue, base_url, wanted)


def _etag(epoch: str, document: bytes) -> str:
    """Made from the bytes, so that every process gives the same one, and from the epoch, so that none given out
    before a restore is valid after it."""
    digest = xxh3_128(epoch.encode())
    digest.update(document)
    return f'"{digest.hexdigest()}"'


class Renderer(Protocol):
    """What ``capabilities10`` and ``capabilities20`` do."""

    NETWORKS_FIRST: bool
    NO_PERIOD: bytes
    TAIL: bytes

    def head(self, workspace: Workspace, base_url: str, wanted: frozenset[str]) -> bytes: ...

    def contents(self, catalogue: Catalogue, *, empty: bool) -> tuple[bytes, bytes]: ...

    def offering(self, view: OfferingView) -> tuple[bytes, bytes]: ...

    def period(self, view: OfferingView, begin_us: int, end_us: int) -> bytes: ...


RENDERERS: Final[dict[str, Renderer]] = {V1: capabilities10, V2: capabilities20}
Period = tuple[int, int]


@dataclass(slots=True)
class _Piece:
    """One offering of the document.

    key      what it was made from: as long as that is equal, so is the piece
    members  ids of its procedures
    """

    key: object
    view: OfferingView
    members: tuple[int, ...]
    before: bytes
    after: bytes
    period: Period | None
    text: bytes


@dataclass(frozen=True, slots=True)
class _Joined:
    """The documents of one generation and one set of extents, by address and sections."""

    generation: int
    extents: Mapping[int, Extent]
    documents: dict[tuple[str, frozenset[str]], Document] = field(default_factory=dict)


class _Pieces:
    """The pieces of one workspace in one version. ``document`` may be called from any thread."""

    def __init__(self, version: str) -> None:
        self._renderer = RENDERERS[version]
        self._version = version
        self._lock = threading.Lock()
        self._joined: _Joined | None = None
        self._own: dict[int, _Piece] = {}
        self._networks: dict[int, _Piece] = {}
        self._networks_of: dict[int, list[_Piece]] = {}
        self._around: tuple[bytes, bytes] = (b"", b"")

    def document(
        self, service: CatalogueService, catalogue: Catalogue, base_url: str, wanted: frozenset[str]
    ) -> Document:
        # A copy: what the service gave may be its own, and change. Extents themselves never do.
        extents = dict(service.extents(catalogue))
        key = (base_url, wanted)
        joined = self._joined
        if joined is not None and joined.generation == catalogue.generation and joined.extents == extents:
            found = joined.documents.get(key)
            if found is not None:
                return found
        with self._lock:
            joined = self._update(catalogue, extents)
            found = joined.documents.get(key)
            if found is None:
                if len(joined.documents) >= MAX_CACHED_DOCUMENTS:
                    joined.documents.clear()
                document = self._join(catalogue, base_url, wanted)
                found = joined.documents[key] = document, _etag(service.epoch, document)
            return found

    def _update(self, catalogue: Catalogue, extents: dict[int, Extent]) -> _Joined:
        """Bring the pieces up to a catalogue and extents; the lock is held."""
        old = self._joined
        if old is not None and old.generation == catalogue.generation:
            if old.extents == extents:
                return old
            changed = {i for i, extent in extents.items() if old.extents.get(i) != extent}
            changed.update(i for i in old.extents if i not in extents)
            networks = {id(piece): piece for i in changed for piece in self._networks_of.get(i, ())}
            touched = [self._own[i] for i in changed if i in self._own] + list(networks.values())
            # More rows within the same period change nothing that is shown.
            same = not self._time(touched, extents)
            self._joined = _Joined(catalogue.generation, extents, old.documents if same else {})
        else:
            self._rebuild(catalogue)
            self._time((*self._own.values(), *self._networks.values()), extents)
            self._joined = _Joined(catalogue.generation, extents)
        return self._joined

    def _time(self, pieces: Iterable[_Piece], extents: Mapping[int, Extent]) -> bool:
        """Write the times anew of those pieces whose extremes have moved, and say whether there were any."""
        moved = False
        for piece in pieces:
            period = _period(piece.members, extents)
            if period != piece.period or not piece.text:
                time = self._renderer.NO_PERIOD if period is None else self._renderer.period(piece.view, *period)
                piece.period = period
                piece.text = piece.before + time + piece.after
                moved = True
        return moved

    def _rebuild(self, catalogue: Catalogue) -> None:
        """Make the pieces that a new catalogue needs, keeping those that would be equal."""
        own_offerings = {o.procedure_id: o for o in catalogue.offerings.values() if o.procedure_id is not None}
        own: dict[int, _Piece] = {}
        for procedure in catalogue.procedures.values():
            offering = own_offerings.get(procedure.id)
            if offering is None and self._version == V1 and catalogue.offerings_by_procedure.get(procedure.id):
                continue
            if offering is not None and not offering.active:
                continue
            features = tuple(catalogue.features[i] for i in catalogue.feature_ids_of(procedure))
            properties = tuple(catalogue.properties[s.property_id] for s in procedure.series)
            key = (offering, procedure, features, properties)
            known = self._own.get(procedure.id)
            if known is not None and known.key == key:
                own[procedure.id] = known
            else:
                view = _procedure_view(catalogue, procedure, offering, features)
                own[procedure.id] = self._piece(key, view, (procedure.id,))
        self._own = own
        self._networks = {}
        self._networks_of = {}
        for offering in catalogue.offerings.values():
            if offering.procedure_id is not None or not offering.active:
                continue
            members = catalogue.procedures_of((offering,))
            if members:
                piece = self._piece(None, _network_view(catalogue, offering, members.values()), tuple(members))
                self._networks[offering.id] = piece
                for i in members:
                    self._networks_of.setdefault(i, []).append(piece)
        self._around = self._renderer.contents(catalogue, empty=not (self._own or self._networks))

    def _piece(self, key: object, view: OfferingView, members: tuple[int, ...]) -> _Piece:
        before, after = self._renderer.offering(view)
        return _Piece(key, view, members, before, after, None, b"")

    def _join(self, catalogue: Catalogue, base_url: str, wanted: frozenset[str]) -> bytes:
        groups = (self._own, self._networks)
        pieces = [p for group in (groups[::-1] if self._renderer.NETWORKS_FIRST else groups) for p in group.values()]
        # Test suites and hasty clients try the first offering, so that one should have something to give.
        first = next((i for i, piece in enumerate(pieces) if piece.period is not None), 0)
        if first:
            pieces.insert(0, pieces.pop(first))
        before, after = self._around
        return b"".join(
            (
                self._renderer.head(catalogue.workspace, base_url, wanted),
                before,
                *(piece.text for piece in pieces),
                after,
                self._renderer.TAIL,
            )
        )


_Key = tuple[tuple[int, View | None], str]


class _Cache:
    """Pieces by store, workspace with view, and version, bounded; gone with the store's service."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stores: WeakKeyDictionary[CatalogueService, OrderedDict[_Key, _Pieces]] = WeakKeyDictionary()

    def pieces(self, service: CatalogueService, catalogue: tuple[int, View | None], version: str) -> _Pieces:
        key = (catalogue, version)
        with self._lock:
            kept = self._stores.get(service)
            if kept is None:
                kept = self._stores[service] = OrderedDict()
            found = kept.get(key)
            if found is None:
                found = kept[key] = _Pieces(version)
                if len(kept) > MAX_CACHED_WORKSPACES:
                    kept.popitem(last=False)
            else:
                kept.move_to_end(key)
            return found


_CACHE: Final = _Cache()


# ---------------------------------------------------------------- offerings


def _period(members: tuple[int, ...], extents: Mapping[int, Extent]) -> Period | None:
    begins, ends = [], []
    for i in members:
        extent = extents.get(i)
        if extent is not None and extent.begin_us is not None and extent.end_us is not None:
            begins.append(extent.begin_us)
            ends.append(extent.end_us)
    return (min(begins), max(ends)) if begins else None


def _procedure_view(
    catalogue: Catalogue, procedure: Procedure, offering: Offering | None, features: tuple[Feature, ...]
) -> OfferingView:
    """The offering of one procedure; one without an offering of its own goes by its own identifier."""
    return _view(
        catalogue,
        (procedure,),
        features,
        number=f"p{procedure.id}",
        identifier=procedure.identifier if offering is None else offering.identifier,
        name=procedure.name if offering is None else offering.name,
        description=(offering.description if offering is not None else "") or procedure.title,
    )


def _network_view(catalogue: Catalogue, offering: Offering, members: Iterable[Procedure]) -> OfferingView:
    procedures = tuple(members)
    ids = dict.fromkeys(i for procedure in procedures for i in catalogue.feature_ids_of(procedure))
    return _view(
        catalogue,
        procedures,
        tuple(catalogue.features[i] for i in ids),
        number=f"n{offering.id}",
        identifier=offering.identifier,
        name=offering.name,
        description=offering.description,
    )


def _view(
    catalogue: Catalogue,
    procedures: tuple[Procedure, ...],
    features: tuple[Feature, ...],
    *,
    number: str,
    identifier: str,
    name: str,
    description: str,
) -> OfferingView:
    property_ids = dict.fromkeys(s.property_id for procedure in procedures for s in procedure.series)
    kinds: frozenset[ValueKind] = frozenset(s.kind for procedure in procedures for s in procedure.series)
    return OfferingView(
        number,
        identifier,
        name,
        description,
        tuple(procedure.identifier for procedure in procedures),
        tuple(catalogue.properties[i].identifier for i in property_ids),
        tuple(feature.identifier for feature in features),
        tuple(dict.fromkeys(feature.type_uri for feature in features)),
        kinds,
        _area(features),
    )


def _area(features: Iterable[Feature]) -> Envelope | None:
    """The box around all features that have a place which WGS 84 can say."""
    area: Envelope | None = None
    for feature in features:
        geometry = feature.geometry
        if geometry is None:
            continue
        try:
            if geometry.srid == WGS84:
                box = geometry.envelope()
            elif not is_known(geometry.srid):
                continue
            elif geometry.type == "Point":
                box = transform(geometry, WGS84).envelope()
            else:
                box = transform_envelope(geometry.envelope(), WGS84)
        except InvalidParameter:
            continue
        area = box if area is None else area.union(box)
    return area
