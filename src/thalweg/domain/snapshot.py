"""A read-only picture of one workspace's catalogue at one generation, with the look-ups that requests need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final, NamedTuple

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

_MAX_REMEMBERED: Final = 65_536
"""Most answers of one kind that a snapshot remembers: made of names and ids that requests bring."""


class SeriesSubset(NamedTuple):
    """Some series of a procedure in its own order, with their properties and units in parallel."""

    series: tuple[Series, ...]
    properties: tuple[ObservedProperty, ...]
    units: tuple[Unit, ...]


class Catalogue:
    """One workspace's entities. Immutable: a change of metadata makes a new one, equal parts are shared.

    All mappings by id keep the order of creation. ``tracks`` holds every (procedure, feature) that has or had
    observations or was declared at registration.
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
    ) -> None:
        self.workspace = workspace
        self.units = units
        self.properties = properties
        self.features = features
        self.procedures = procedures
        self.offerings = offerings
        self.tracks = tracks
        self._matches: dict[str, tuple[ObservedProperty, ...]] = {}
        self._members: dict[int, frozenset[int]] = {}
        self._subsets: dict[tuple[int, tuple[int, ...] | None], SeriesSubset] = {}

    @property
    def generation(self) -> int:
        return self.workspace.generation

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
