"""A read-only picture of one workspace's catalogue at one generation, with the look-ups that requests need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from thalweg.domain.access import Resource, Role, Scope
from thalweg.domain.catalogue import (
    Feature,
    ObservedProperty,
    Offering,
    Procedure,
    Series,
    Track,
    Unit,
    Workspace,
)

_MAX_VIEWS: Final = 64
"""Most restricted pictures that a snapshot keeps."""
_MAX_REMEMBERED: Final = 65_536
"""Most answers of one kind that a snapshot remembers: made of names and ids that requests bring."""


NO_OWNERS: Final[Mapping[int, tuple[tuple[str, int], ...]]] = MappingProxyType({})
NO_GUESTS: Final[Mapping[Scope, Role]] = MappingProxyType({})

View: TypeAlias = frozenset[tuple[str, int]]
"""What a restricted picture shows: kind and id of things that a caller holds a role for, and ``PUBLIC`` if the public
ones show, too."""
PUBLIC: Final = ("", 0)


class SeriesSubset(NamedTuple):
    """Some series of a procedure in its own order, with their properties and units in parallel."""

    series: tuple[Series, ...]
    properties: tuple[ObservedProperty, ...]
    units: tuple[Unit, ...]


class Catalogue:
    """One workspace's entities. Immutable: a change of metadata makes a new one, equal parts are shared.

    All mappings by id keep the order of creation. ``tracks`` holds every (procedure, feature) that has or had
    observations or was declared at registration.

    guests  what everybody is granted in this workspace, by scope
    owners  kind and id of the datasets that a procedure is made of, by id of the procedure: what is granted on one of
            them holds for it, too
    view    None: everything; else what this picture, made by ``restricted``, shows. Whatever is made of a catalogue
            and kept longer than it is to be kept by ``key``
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        units: Mapping[int, Unit],
        properties: Mapping[int, ObservedProperty],
        features: Mapping[int, Feature],
        procedures: Mapping[int, Procedure],
        offerings: Mapping[int, Offering],
        tracks: Mapping[int, Track],
        guests: Mapping[Scope, Role] = NO_GUESTS,
        view: View | None = None,
        owners: Mapping[int, tuple[tuple[str, int], ...]] = NO_OWNERS,
    ) -> None:
        self.workspace = workspace
        self.guests = guests
        self.owners = owners
        self.view = view
        self.key: tuple[int, View | None] = (workspace.id, view)
        self.units = units
        self.properties = properties
        self.features = features
        self.procedures = procedures
        self.offerings = offerings
        self.tracks = tracks
        self._matches: dict[str, tuple[ObservedProperty, ...]] = {}
        self._members: dict[int, frozenset[int]] = {}
        self._subsets: dict[tuple[int, tuple[int, ...] | None], SeriesSubset] = {}
        self._restricted: dict[View, Catalogue] = {}

    @property
    def generation(self) -> int:
        return self.workspace.generation

    # ------------------------------------------------------------ who may see what

    @cached_property
    def is_open(self) -> bool:
        """Whether everything in it is public, so that whoever may read the workspace sees all of it."""
        return (
            self.workspace.public
            and all(p.public for p in self.procedures.values())
            and all(o.public for o in self.offerings.values())
        )

    @property
    def resource(self) -> Resource:
        """The workspace as a whole, for questions of policy."""
        return self._resource(self.workspace.public)

    def _resource(self, public: bool, kind: str = "", number: int = 0) -> Resource:
        workspace_id = self.workspace.id
        guests = self.guests
        if not guests:
            return Resource(workspace_id, kind, number, public)
        role = guests.get(Scope(workspace_id), Role.NOTHING) if public else Role.NOTHING
        return Resource(
            workspace_id, kind, number, public, max(role, guests.get(Scope(workspace_id, kind, number), role))
        )

    def dataset(self, kind: str, number: int, *, public: bool) -> Resource:
        """A dataset of any kind in this workspace, for questions of policy.

        public  as the dataset itself says
        """
        return self._resource(public and self.workspace.public, kind, number)

    def resource_of(self, procedure: Procedure) -> Resource:
        """A procedure for questions of policy: what is granted on one of its offerings holds for it, too."""
        found = self._resource(procedure.public and self.workspace.public, "procedure", procedure.id)
        within = tuple([("offering", o.id) for o in self.offerings_by_procedure.get(procedure.id, ())])
        within += self.owners.get(procedure.id, ())
        guests = found.guests
        for kind, number in within if self.guests else ():
            guests = max(guests, self.guests.get(Scope(self.workspace.id, kind, number), guests))
        return Resource(found.workspace_id, found.kind, found.id, found.public, guests, within)

    def restricted(self, view: View) -> Catalogue:
        """The same picture with what the view names alone, and of all else what belongs to it; made once.

        A procedure shows if it is named, if one of its offerings is, or if it is public and the public ones show. Its
        own offering shows with it. A network offering shows if it is named or public, unless all its members are
        hidden. Features and observed properties that no visible procedure has are left out: whose they are cannot be
        told.
        """
        found = self._restricted.get(view)
        if found is None:
            if len(self._restricted) >= _MAX_VIEWS:
                self._restricted.clear()
            found = self._restricted[view] = self._only(view)
        return found

    def _only(self, view: View) -> Catalogue:
        shows_public = PUBLIC in view and self.workspace.public
        named = {i for kind, i in view if kind == "procedure"}
        for kind, i in view:
            if kind == "offering" and i in self.offerings:
                named.update(self.offerings[i].procedure_ids)
        named.update(i for i, within in self.owners.items() if any(owner in view for owner in within))
        procedures = {i: p for i, p in self.procedures.items() if (p.public and shows_public) or i in named}
        offerings = {}
        for i, offering in self.offerings.items():
            if offering.procedure_id is not None:
                if offering.procedure_id in procedures:
                    offerings[i] = offering
            elif offering.public or ("offering", i) in view:
                members = tuple([m for m in offering.procedure_ids if m in procedures])
                if members:
                    whole = members == offering.procedure_ids
                    offerings[i] = offering if whole else replace(offering, procedure_ids=members)
                elif not offering.procedure_ids and (shows_public or not offering.public):
                    offerings[i] = offering
        tracks = {i: t for i, t in self.tracks.items() if t.procedure_id in procedures}
        features = {t.feature_id for t in tracks.values()}
        features.update(p.feature_id for p in procedures.values() if p.feature_id is not None)
        property_ids = {s.property_id for p in procedures.values() for s in p.series}
        unit_ids = {s.unit_id for p in procedures.values() for s in p.series}
        return Catalogue(
            self.workspace,
            units={i: u for i, u in self.units.items() if i in unit_ids},
            properties={i: p for i, p in self.properties.items() if i in property_ids},
            features={i: f for i, f in self.features.items() if i in features},
            procedures=procedures,
            offerings=offerings,
            tracks=tracks,
            guests=self.guests,
            view=view,
            owners=self.owners,
        )

    @cached_property
    def shown_generation(self) -> int:
        """The generation as those who see this picture may learn it: it tells of nothing that they do not see."""
        if self.view is None:
            return self.generation
        return max((p.generation for p in self.procedures.values()), default=1)

    # ------------------------------------------------------------ look-ups

    # Procedures, features, offerings and properties answer to their identifier and to their short name; a sensor
    # also to its assigned id. Identifiers win over names.

    @cached_property
    def _procedure_by_key(self) -> dict[str, Procedure]:
        keys = {p.name: p for p in self.procedures.values()}
        keys.update((p.assigned_id, p) for p in self.procedures.values())
        keys.update((p.identifier, p) for p in self.procedures.values())
        return keys

    @cached_property
    def _feature_by_key(self) -> dict[str, Feature]:
        keys = {f.name: f for f in self.features.values()}
        keys.update((f.identifier, f) for f in self.features.values())
        return keys

    @cached_property
    def _offering_by_key(self) -> dict[str, Offering]:
        keys = {o.name: o for o in self.offerings.values()}
        keys.update((o.identifier, o) for o in self.offerings.values())
        return keys

    @cached_property
    def _property_by_key(self) -> dict[str, ObservedProperty]:
        keys = {p.name: p for p in self.properties.values()}
        keys.update((p.identifier, p) for p in self.properties.values())
        return keys

    @cached_property
    def _unit_by_code(self) -> dict[str, Unit]:
        return {u.code: u for u in self.units.values()}

    @cached_property
    def tracks_by_procedure(self) -> dict[int, tuple[Track, ...]]:
        groups: dict[int, list[Track]] = {}
        for track in self.tracks.values():
            groups.setdefault(track.procedure_id, []).append(track)
        return {key: tuple(group) for key, group in groups.items()}

    @cached_property
    def offerings_by_procedure(self) -> dict[int, tuple[Offering, ...]]:
        """The offerings each procedure belongs to, its own one included."""
        groups: dict[int, list[Offering]] = {}
        for offering in self.offerings.values():
            for procedure_id in offering.procedure_ids:
                groups.setdefault(procedure_id, []).append(offering)
        return {key: tuple(group) for key, group in groups.items()}

    def procedure(self, key: str) -> Procedure | None:
        return self._procedure_by_key.get(key)

    def feature(self, key: str) -> Feature | None:
        return self._feature_by_key.get(key)

    def offering(self, key: str) -> Offering | None:
        return self._offering_by_key.get(key)

    def observed_property(self, key: str) -> ObservedProperty | None:
        return self._property_by_key.get(key)

    def unit(self, code: str) -> Unit | None:
        return self._unit_by_code.get(code)

    def match_properties(self, text: str) -> tuple[ObservedProperty, ...]:
        """Observed properties that a text names: by identifier or name, else by whole colon-delimited parts.

        ``rainfall``, ``air:rainfall`` and ``urn:ogc:def:parameter:x-thalweg:1.0:`` all match
        ``urn:ogc:def:parameter:x-thalweg:1.0:air:rainfall``; ``rain`` does not. Order of creation.
        source: istSOS 2, GetObservation observedProperty
        """
        exact = self._property_by_key.get(text)
        if exact is not None:
            return (exact,)
        found = self._matches.get(text)
        if found is None:
            # istSOS' own scripts ask for ":", which is part of every URN, to get all.
            wanted = text if text == ":" else f":{text.strip(':')}:"
            found = () if wanted == "::" else tuple(
                p for p in self.properties.values() if wanted in f":{p.identifier}:"
            )  # fmt: skip
            # Texts that name nothing would fill it in no time.
            if found and len(self._matches) < 1024:
                self._matches[text] = found
        return found

    def feature_ids_of(self, procedure: Procedure) -> tuple[int, ...]:
        """Features that the procedure is at: the registered one first, then those it has tracks at."""
        ids = [] if procedure.feature_id is None else [procedure.feature_id]
        ids.extend(
            t.feature_id for t in self.tracks_by_procedure.get(procedure.id, ()) if t.feature_id != procedure.feature_id
        )
        return tuple(ids)

    def members(self, offering: Offering) -> frozenset[int]:
        """Ids of an offering's procedures, made once."""
        found = self._members.get(offering.id)
        if found is None:
            found = self._members[offering.id] = frozenset(offering.procedure_ids)
        return found

    def series_of(self, procedure: Procedure, property_ids: tuple[int, ...] | None) -> SeriesSubset:
        """The series of a procedure that observe one of the properties, None: all. The same object each time."""
        key = (procedure.id, property_ids)
        found = self._subsets.get(key)
        if found is None:
            series = procedure.series
            if property_ids is not None:
                series = tuple(s for s in series if s.property_id in property_ids)
            found = SeriesSubset(
                series,
                tuple(self.properties[s.property_id] for s in series),
                tuple(self.units[s.unit_id] for s in series),
            )
            if len(self._subsets) < _MAX_REMEMBERED:
                self._subsets[key] = found
        return found

    def procedures_of(self, offerings: Iterable[Offering]) -> dict[int, Procedure]:
        """Procedures of any of the offerings, by id, order of creation."""
        wanted = {i for offering in offerings for i in offering.procedure_ids}
        return {i: p for i, p in self.procedures.items() if i in wanted}
