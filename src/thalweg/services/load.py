"""Loading in bulk: procedures made as needed, rows through the store's bulk path.

Doors and loaders that bring whole networks use this; single observations go through ``observe``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from thalweg.domain.access import Actor
from thalweg.domain.blocks import Block
from thalweg.domain.catalogue import DEFAULT_WORKSPACE, Procedure
from thalweg.domain.errors import AlreadyExists, InvalidParameter
from thalweg.domain.observations import Insertion, Receipt
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.store import Extent, Registration, SeriesRegistration, Store
from thalweg.domain.time import Interval
from thalweg.services.catalogue import CatalogueService


@dataclass(frozen=True, slots=True)
class Ensured:
    """A procedure that is there now.

    created        by this call; added: identifiers of observed properties that it got by this call
    moved          its feature is stored at another place than the registration says; the stored one stays
    """

    procedure: Procedure
    created: bool = False
    added: tuple[str, ...] = ()
    moved: bool = False


class Load:
    """Bulk loading into one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._catalogues = CatalogueService(store)

    def catalogue(self, workspace: str = DEFAULT_WORKSPACE) -> Catalogue:
        """The newest catalogue of a workspace. Raises NotFound."""
        return self._catalogues.of(workspace)

    def extents(self, catalogue: Catalogue) -> dict[int, Extent]:
        """Begin, end and row count of every procedure that has rows, by procedure id."""
        return self._catalogues.extents(catalogue)

    def ensure(
        self, workspace: str, registration: Registration, *, join: bool = False, by: Actor | str = ""
    ) -> Ensured:
        """Register a procedure, or fit the one of that identifier or name to the registration.

        An existing procedure keeps all it has. Series it lacks are added; ``join`` adds it to the registration's
        network offerings.
        raises  InvalidParameter (``unit``, ``kind``) if it has a series in another unit or kind
        """
        catalogue = self.catalogue(workspace)
        wanted = registration.procedure
        existing = catalogue.procedure(wanted.identifier) or catalogue.procedure(wanted.name)
        if existing is None:
            registration = _with_free_names(catalogue, registration)
            try:
                created = self._store.register_procedure(catalogue.workspace.id, registration, by=by).result()
                return Ensured(created, created=True, moved=_moved(catalogue, registration))
            except AlreadyExists:
                # Another process may have been first.
                catalogue = self.catalogue(workspace)
                existing = catalogue.procedure(wanted.identifier)
                if existing is None:
                    raise
        missing = self._missing_series(catalogue, existing, registration.series)
        procedure = existing
        if missing:
            # Its offerings are no part of this: one that cannot be made is of no matter to a procedure that is there.
            missing = _with_free_names(catalogue, replace(registration, series=tuple(missing), offerings=())).series
            procedure = self._store.add_series(existing.id, missing, by=by).result()
        if join:
            self._join(catalogue, procedure, registration, by)
        return Ensured(
            procedure,
            added=tuple(item.observed_property.identifier for item in missing),
            moved=_moved(catalogue, registration),
        )

    @staticmethod
    def _missing_series(
        catalogue: Catalogue, procedure: Procedure, wanted: Sequence[SeriesRegistration]
    ) -> Sequence[SeriesRegistration]:
        has = {catalogue.properties[series.property_id].identifier: series for series in procedure.series}
        missing = []
        for item in wanted:
            identifier = item.observed_property.identifier
            series = has.get(identifier)
            if series is None:
                missing.append(item)
                continue
            unit = catalogue.units[series.unit_id].code
            if unit != item.unit.code:
                raise InvalidParameter(
                    "unit",
                    f"The procedure '{procedure.name}' has '{identifier}' in '{unit}'; values in '{item.unit.code}' "
                    "cannot be added to it.",
                )
            if series.kind is not item.kind:
                raise InvalidParameter(
                    "kind",
                    f"The procedure '{procedure.name}' has '{identifier}' as {series.kind.value}; values of the kind "
                    f"{item.kind.value} cannot be added to it.",
                )
        return missing

    def _join(self, catalogue: Catalogue, procedure: Procedure, registration: Registration, by: Actor | str) -> None:
        for offering in registration.offerings:
            if offering.procedure_id is not None:
                continue
            stored = catalogue.offering(offering.identifier)
            if stored is None:
                created = replace(offering, procedure_ids=(procedure.id,))
                self._store.put_offering(catalogue.workspace.id, created, by=by).result()
            elif procedure.id not in stored.procedure_ids:
                joined = replace(stored, procedure_ids=(*stored.procedure_ids, procedure.id))
                self._store.put_offering(catalogue.workspace.id, joined, by=by).result()

    def rows(self, workspace_id: int, insertion: Insertion, *, by: Actor | str = "") -> Receipt:
        """Store rows by the bulk path; see ``ObservationStore.load``."""
        return self._store.load(workspace_id, insertion, by=by)

    def stored(self, track_id: int, property_ids: Sequence[int], interval: Interval) -> Iterator[Block]:
        """What is stored of a track; see ``ObservationStore.scan``."""
        return self._store.scan(track_id, property_ids, interval)


def _moved(catalogue: Catalogue, registration: Registration) -> bool:
    """Whether a feature of the registration is stored already at another place."""
    for feature in registration.features:
        stored = catalogue.feature(feature.identifier)
        if stored is not None and feature.geometry is not None and stored.geometry != feature.geometry:
            return True
    return False


def _with_free_names(catalogue: Catalogue, registration: Registration) -> Registration:
    """The registration with names of its new entities that no other entity of their kind has.

    Names and identifiers are unique in a workspace; a network may have been called like a station before.
    raises  InvalidParameter (``offering``) for a network offering that is a procedure's own one
    """
    properties = {item.name: item.identifier for item in catalogue.properties.values()}
    series = []
    for item in registration.series:
        name = _free(item.observed_property.name, item.observed_property.identifier, properties)
        series.append(replace(item, observed_property=replace(item.observed_property, name=name)))
    places = {item.name: item.identifier for item in catalogue.features.values()}
    features = tuple(replace(item, name=_free(item.name, item.identifier, places)) for item in registration.features)
    groups = {item.name: item.identifier for item in catalogue.offerings.values()}
    offerings = []
    for offering in registration.offerings:
        if offering.procedure_id is None:
            stored = catalogue.offering(offering.identifier)
            if stored is not None and stored.procedure_id is not None:
                raise InvalidParameter(
                    "offering", f"The offering '{offering.name}' belongs to one procedure alone; choose another name."
                )
            offerings.append(replace(offering, name=_free(offering.name, offering.identifier, groups)))
    for offering in registration.offerings:
        if offering.procedure_id is not None:
            identifiers = set(groups.values())
            number, name = 2, offering.name
            identifier = offering.identifier
            while name in groups or identifier in identifiers:
                name, identifier = f"{offering.name}-{number}", f"{offering.identifier}-{number}"
                number += 1
            offerings.append(replace(offering, name=name, identifier=identifier))
    return replace(registration, series=tuple(series), features=features, offerings=tuple(offerings))


def _free(name: str, identifier: str, taken: dict[str, str]) -> str:
    """The name, or the name with a number, that no other identifier has; marked as taken."""
    free, number = name, 2
    while taken.get(free, identifier) != identifier:
        free = f"{name}-{number}"
        number += 1
    taken[free] = identifier
    return free
