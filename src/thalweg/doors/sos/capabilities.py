"""GetCapabilities: documents joined from a piece per offering, kept between requests.

A new observation moves the end of one procedure: its own offering and the networks it belongs to get a new time, the
other pieces stay, and the document is joined again. A change of metadata makes new pieces where what they show has
changed: those of the procedures, networks and features that are other objects than before. While neither happens the
same bytes are given out, after a look at the catalogue's generation and at the extents. What is given out is a row of
segments, of which the next document shares all that stay: a network of 5,100 sensors is a document of 7 MB, remade at
each registration or insert of any of them, and one whose clients read slowly would otherwise hold one for each.

The size grows with the number of procedures and memberships, nothing is listed twice (istSOS' lists of
procedures in each operation made the document of 5,100 sensors the end of its load test).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from xxhash import xxh3_128

from thalweg.domain.bounded import Bounded
from thalweg.domain.catalogue import Workspace
from thalweg.domain.snapshot import Catalogue, View
from thalweg.domain.store import Extent
from thalweg.doors.http import Kept
from thalweg.doors.sos import capabilities10, capabilities20
from thalweg.doors.sos.capabilities_common import OPERATIONS, SECTIONS, OfferingView, OperationInfo
from thalweg.doors.sos.capabilities_offerings import Place, network_view, place_of, procedure_view
from thalweg.doors.sos.versions import V1, V2
from thalweg.services.catalogue import CatalogueService
from thalweg.services.services import Services

__all__ = ["OPERATIONS", "OperationInfo", "capabilities"]

MAX_CACHED_WORKSPACES: Final = 16
"""Most pairs of workspace (with what its callers see) and version whose pieces are kept; the one not asked for longest
goes first."""
MAX_CACHED_DOCUMENTS: Final = 4
"""Most documents kept of each: they differ by address and sections."""

SEGMENT_PIECES: Final = 32
"""Offerings that are joined to one segment, and joined again when one of them changes: some 40 kB. More of them cost
each change more, fewer each sending."""
LARGE_BYTES: Final = 64 * 1024
"""A piece of that size, a large network's, is no part of a joined segment; its time stands by itself between its other
two parts, so that what is made anew at each insert is small. A document below it is one piece."""
_ALL: Final = frozenset(SECTIONS)


class Document(NamedTuple):
    """A document, whole or in segments that follow one another, with its strong ETag, quotes included."""

    body: bytes | tuple[bytes, ...]
    etag: str
    kept: Kept | None = None


def capabilities(
    services: Services, catalogue: Catalogue, version: str, base_url: str, sections: frozenset[str] | None
) -> Document:
    """The document.

    version   ``1.0.0`` or ``2.0.0``
    base_url  the door's address, which every operation is offered at
    sections  those wanted, as ``SECTIONS`` names them; None: all. Without any, the mandatory parts alone: the root
    """
    wanted = _ALL if sections is None else sections
    renderer = RENDERERS[version]
    if "Contents" not in wanted:
        document = renderer.head(catalogue.workspace, base_url, wanted) + renderer.TAIL
        return Document(document, _etag(services.catalogue.epoch, document))
    pieces = _CACHE.pieces(services.catalogue, catalogue.key, version)
    return pieces.document(services.catalogue, catalogue, base_url, wanted)


def _etag(epoch: str, *parts: bytes) -> str:
    """Made from the bytes or their digests, so that every process gives the same one, and from the epoch, so that none
    given out before a restore is valid after it."""
    digest = xxh3_128(epoch.encode())
    for part in parts:
        digest.update(part)
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

    members  ids of its procedures
    parts    what is written: its beginning, its time, its end; without texts before the first time is written
    """

    view: OfferingView
    members: tuple[int, ...]
    before: bytes
    after: bytes
    period: Period | None = None
    parts: tuple[bytes, ...] = ()


class _Segment(NamedTuple):
    """Texts of pieces, joined, with a digest."""

    texts: list[bytes]
    joined: bytes
    digest: bytes


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
        self._catalogue: Catalogue | None = None
        self._own: dict[int, _Piece] = {}
        self._networks: dict[int, _Piece] = {}
        self._networks_of: dict[int, list[_Piece]] = {}
        self._places: dict[int, Place] = {}
        self._around: tuple[bytes, bytes] = (b"", b"")
        self._segments: list[_Segment] = []

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
                found = joined.documents[key] = self._join(service.epoch, catalogue, base_url, wanted)
            return found

    def _update(self, catalogue: Catalogue, extents: dict[int, Extent]) -> _Joined:
        """Bring the pieces up to a catalogue and extents; the lock is held."""
        old = self._joined
        before: Mapping[int, Extent] = {} if old is None else old.extents
        same = old is not None and old.generation == catalogue.generation
        if old is not None and same and before == extents:
            return old
        if not same:
            self._rebuild(catalogue)
        changed = _differing(before, extents)
        networks = {id(piece): piece for i in changed for piece in self._networks_of.get(i, ())}
        touched = [self._own[i] for i in changed if i in self._own] + list(networks.values())
        if not same:
            touched += [p for p in chain(self._own.values(), self._networks.values()) if not p.parts]
        moved = self._time(touched, extents)
        # More rows within the same period change nothing that is shown.
        documents = old.documents if old is not None and same and not moved else {}
        self._joined = _Joined(catalogue.generation, extents, documents)
        return self._joined

    def _time(self, pieces: Iterable[_Piece], extents: Mapping[int, Extent]) -> bool:
        """Write the times anew of those pieces whose extremes have moved, and say whether there were any."""
        moved = False
        for piece in pieces:
            period = _period(piece.members, extents)
            if period != piece.period or not piece.parts:
                time = self._renderer.NO_PERIOD if period is None else self._renderer.period(piece.view, *period)
                piece.period = period
                if len(piece.before) + len(piece.after) > LARGE_BYTES:
                    piece.parts = (piece.before, time, piece.after)
                else:
                    piece.parts = (piece.before + time + piece.after,)
                moved = True
        return moved

    def _rebuild(self, catalogue: Catalogue) -> None:
        """Make the pieces that a new catalogue needs, keeping those that would be equal."""
        touched = self._touched(catalogue)
        own_offerings = {o.procedure_id: o for o in catalogue.offerings.values() if o.procedure_id is not None}
        own = self._own
        for i in touched:
            own.pop(i, None)
            self._places.pop(i, None)
            procedure = catalogue.procedures.get(i)
            if procedure is None:
                continue
            self._places[i] = place_of(catalogue, procedure)
            offering = own_offerings.get(i)
            if offering is None and self._version == V1 and catalogue.offerings_by_procedure.get(i):
                continue
            if offering is not None and not offering.active:
                continue
            own[i] = self._piece(procedure_view(catalogue, procedure, offering, self._places[i]), (i,))
        if touched:
            # In the order of the catalogue.
            self._own = {i: own[i] for i in catalogue.procedures if i in own}
        old = self._catalogue
        networks: dict[int, _Piece] = {}
        self._networks_of = {}
        for offering in catalogue.offerings.values():
            if offering.procedure_id is not None or not offering.active:
                continue
            piece = self._networks.get(offering.id)
            same = old is not None and old.offerings.get(offering.id) is offering
            if piece is None or not same or not touched.isdisjoint(piece.members):
                members = catalogue.procedures_of((offering,))
                if not members:
                    continue
                view = network_view(catalogue, offering, members.values(), self._places)
                piece = self._piece(view, tuple(members))
            networks[offering.id] = piece
            for i in piece.members:
                self._networks_of.setdefault(i, []).append(piece)
        self._networks = networks
        self._around = self._renderer.contents(catalogue, empty=not (self._own or self._networks))
        self._catalogue = catalogue

    def _touched(self, catalogue: Catalogue) -> set[int]:
        """Ids of the procedures, gone ones too, whose pieces may be other than in the catalogue before.

        What a catalogue and the one after it share are the same objects, and looking for others takes a hundredth of
        the time of comparing what they say.
        """
        old = self._catalogue
        if old is None:
            return set(catalogue.procedures)
        everything = old.procedures.keys() | catalogue.procedures.keys()
        if any(i in old.properties for i in _others(old.properties, catalogue.properties)):
            return everything
        touched = _others(old.procedures, catalogue.procedures)
        for tracks, others in ((old.tracks, catalogue.tracks), (catalogue.tracks, old.tracks)):
            touched.update(track.procedure_id for i, track in tracks.items() if others.get(i) is not track)
        moved = {i for i in _others(old.features, catalogue.features) if i in old.features}
        if moved:
            touched.update(i for i, place in self._places.items() if not moved.isdisjoint(place.features))
        for i in _others(old.offerings, catalogue.offerings):
            # Of a network those that have come or gone: a procedure in none is listed by itself.
            ids = [set(o.procedure_ids) for o in (old.offerings.get(i), catalogue.offerings.get(i)) if o is not None]
            touched |= ids[0] ^ ids[1] if len(ids) == 2 else ids[0]
            for offering in (old.offerings.get(i), catalogue.offerings.get(i)):
                if offering is not None and offering.procedure_id is not None:
                    touched.add(offering.procedure_id)
        return touched & everything

    def _piece(self, view: OfferingView, members: tuple[int, ...]) -> _Piece:
        return _Piece(view, members, *self._renderer.offering(view))

    def _join(self, epoch: str, catalogue: Catalogue, base_url: str, wanted: frozenset[str]) -> Document:
        groups = (self._own, self._networks)
        pieces = [p for group in (groups[::-1] if self._renderer.NETWORKS_FIRST else groups) for p in group.values()]
        # Test suites and hasty clients try the first offering, so that one should have something to give.
        first = next((i for i, piece in enumerate(pieces) if piece.period is not None), 0)
        if first:
            pieces.insert(0, pieces.pop(first))
        before, after = self._around
        head = self._renderer.head(catalogue.workspace, base_url, wanted) + before
        tail = after + self._renderer.TAIL
        self._segments = segments = self._segmented(pieces)
        body = (head, *[segment.joined for segment in segments], tail)
        if sum(map(len, body)) <= LARGE_BYTES:
            whole = b"".join(body)
            return Document(whole, _etag(epoch, whole), Kept())
        return Document(body, _etag(epoch, head, *[segment.digest for segment in segments], tail), Kept())

    def _segmented(self, pieces: Sequence[_Piece]) -> list[_Segment]:
        """The pieces in segments, those taken over that were there before at the same place."""
        rows: list[list[bytes]] = []
        for begin in range(0, len(pieces), SEGMENT_PIECES):
            some = pieces[begin : begin + SEGMENT_PIECES]
            texts: list[bytes] = []
            for piece in some:
                if len(piece.parts) == 1:
                    texts += piece.parts
                else:
                    rows += [texts, *([part] for part in piece.parts)]
                    texts = []
            rows.append(texts)
        rows = [texts for texts in rows if texts]
        known = self._segments
        segments = []
        for number, texts in enumerate(rows):
            # Mostly the same objects, so that this compares no bytes.
            if number < len(known) and known[number].texts == texts:
                segments.append(known[number])
            else:
                joined = texts[0] if len(texts) == 1 else b"".join(texts)
                segments.append(_Segment(texts, joined, xxh3_128(joined).digest()))
        return segments


def _others(old: Mapping[int, object], new: Mapping[int, object]) -> set[int]:
    """Keys of what is not the same object in both, or in one of them alone."""
    found = {i for i, item in new.items() if old.get(i) is not item}
    return found.union(old.keys() - new.keys()) if len(old) + len(found) > len(new) else found


def _differing(old: Mapping[int, Extent], new: Mapping[int, Extent]) -> set[int]:
    """Keys of what is not equal in both, or in one of them alone."""
    return {i for i in _others(old, new) if old.get(i) != new.get(i)}


_Key = tuple[tuple[int, View | None], str]


class _Cache:
    """Pieces by store, workspace with view, and version, bounded; gone with the store's service."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stores: WeakKeyDictionary[CatalogueService, Bounded[_Key, _Pieces]] = WeakKeyDictionary()

    def pieces(self, service: CatalogueService, catalogue: tuple[int, View | None], version: str) -> _Pieces:
        key = (catalogue, version)
        with self._lock:
            kept = self._stores.get(service)
            if kept is None:
                kept = self._stores[service] = Bounded(MAX_CACHED_WORKSPACES)
            return kept.recall(key) or kept.put(key, _Pieces(version))


_CACHE: Final = _Cache()


def _period(members: tuple[int, ...], extents: Mapping[int, Extent]) -> Period | None:
    begins, ends = [], []
    for i in members:
        extent = extents.get(i)
        if extent is not None and extent.begin_us is not None and extent.end_us is not None:
            begins.append(extent.begin_us)
            ends.append(extent.end_us)
    return (min(begins), max(ends)) if begins else None
