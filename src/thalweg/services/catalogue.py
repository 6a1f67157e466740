"""Names to things: resolving what requests name, and changing the catalogue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future

from thalweg.domain.catalogue import (
    DEFAULT_WORKSPACE,
    Feature,
    ObservedProperty,
    Offering,
    Procedure,
    SensorDescription,
)
from thalweg.domain.errors import InvalidParameter, NotFound
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.store import Extent, Registration, Store


class CatalogueService:
    """The catalogue of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._workspace_ids: dict[str, int] = {}

    @property
    def epoch(self) -> str:
        """The store's epoch, for validators."""
        return self._store.epoch

    def of(self, workspace: str = DEFAULT_WORKSPACE) -> Catalogue:
        """The newest catalogue of a workspace. Raises NotFound."""
        workspace_id = self._workspace_ids.get(workspace)
        if workspace_id is None:
            found = self._store.workspaces().get(workspace)
            if found is None:
                raise NotFound("workspace", f"There is no workspace '{workspace}'.")
            workspace_id = self._workspace_ids[workspace] = found.id
        return self._store.catalogue(workspace_id)

    def extents(self, catalogue: Catalogue) -> dict[int, Extent]:
        """Begin, end and row count of every procedure that has rows, by procedure id."""
        return self._store.extents(catalogue.workspace.id)

    def description(self, procedure: Procedure) -> SensorDescription:
        return self._store.description(procedure.id)

    def register(self, catalogue: Catalogue, registration: Registration) -> Future[Procedure]:
        """Store a new procedure; see ``CatalogueStore.register_procedure``."""
        return self._store.register_procedure(catalogue.workspace.id, registration)

    def delete(self, catalogue: Catalogue, procedure: Procedure) -> Future[None]:
        """Remove a procedure with its observations; see ``CatalogueStore.delete_procedure``."""
        return self._store.delete_procedure(catalogue.workspace.id, procedure.id)


def resolve_procedures(catalogue: Catalogue, keys: Sequence[str], parameter: str) -> tuple[Procedure, ...]:
    """Procedures by identifier, assigned id or name, order of the request, no doubles. NotFound names the first
    unknown one."""
    found: dict[int, Procedure] = {}
    for key in keys:
        procedure = catalogue.procedure(key)
        if procedure is None:
            raise NotFound(parameter, _unknown("procedure", key, (p.identifier for p in catalogue.procedures.values())))
        found[procedure.id] = procedure
    return tuple(found.values())


def resolve_offerings(catalogue: Catalogue, keys: Sequence[str], parameter: str) -> tuple[Offering, ...]:
    """Offerings by identifier or name."""
    found: dict[int, Offering] = {}
    for key in keys:
        offering = catalogue.offering(key)
        if offering is None:
            raise NotFound(parameter, _unknown("offering", key, (o.identifier for o in catalogue.offerings.values())))
        found[offering.id] = offering
    return tuple(found.values())


def resolve_features(catalogue: Catalogue, keys: Sequence[str], parameter: str) -> tuple[Feature, ...]:
    """Features of interest by identifier or name."""
    found: dict[int, Feature] = {}
    for key in keys:
        feature = catalogue.feature(key)
        if feature is None:
            raise NotFound(
                parameter, _unknown("feature of interest", key, (f.identifier for f in catalogue.features.values()))
            )
        found[feature.id] = feature
    return tuple(found.values())


def resolve_properties(catalogue: Catalogue, keys: Sequence[str], parameter: str) -> tuple[ObservedProperty, ...]:
    """Observed properties by identifier, name or whole part of the URN (several may match one text)."""
    found: dict[int, ObservedProperty] = {}
    for key in keys:
        matches = catalogue.match_properties(key)
        if not matches:
            raise NotFound(
                parameter, _unknown("observed property", key, (p.identifier for p in catalogue.properties.values()))
            )
        found.update((p.id, p) for p in matches)
    return tuple(found.values())


def resolve_srid(catalogue: Catalogue, srid: int, parameter: str) -> int:
    """The EPSG code, if answers of this workspace may be asked in it."""
    if srid not in catalogue.workspace.srids:
        allowed = ", ".join(str(code) for code in catalogue.workspace.srids)
        raise InvalidParameter(parameter, f"EPSG:{srid} is not offered; the codes offered are {allowed}.")
    return srid


def _unknown(what: str, key: str, known: Iterable[str]) -> str:
    examples: list[str] = []
    for identifier in known:
        examples.append(f"'{identifier}'")
        if len(examples) == 3:
            break
    hint = f" Known ones are for example {', '.join(examples)}." if examples else f" No {what} is registered yet."
    return f"There is no {what} '{key[:200]}'.{hint}"
