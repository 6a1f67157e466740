"""Workspaces by name, and procedures made as a load needs them, over a real store."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from thalweg import app
from thalweg.domain.catalogue import DEFAULT_WORKSPACE, ObservedProperty, Offering, Procedure, Unit, Workspace
from thalweg.domain.errors import NotFound
from thalweg.domain.store import Registration, SeriesRegistration, Store
from thalweg.services.catalogue import CatalogueService
from thalweg.services.load import Load


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = app.open_store(f"sqlite:///{tmp_path / 's.sqlite'}")
    yield opened
    opened.close()


def test_a_workspace_is_found_by_the_name_it_has_now(store: Store) -> None:
    service = CatalogueService(store)
    made = store.put_workspace(Workspace(0, "7d7b7ff0-55c2-4b50-a05c-7b1c3a3a1a01", "river")).result()
    assert service.of("river").workspace.id == made.id
    store.put_workspace(replace(made, name="lake")).result()
    assert service.of("lake").workspace.id == made.id
    with pytest.raises(NotFound):
        service.of("river")
    other = store.put_workspace(Workspace(0, "7d7b7ff0-55c2-4b50-a05c-7b1c3a3a1a02", "river")).result()
    assert service.of("river").workspace.id == other.id


def registration(name: str, *properties: str, network: str = "network") -> Registration:
    return Registration(
        Procedure(0, "", f"urn:p:{name}", name, f"urn:s:{name}"),
        tuple(SeriesRegistration(ObservedProperty(0, "", f"urn:x:{p}", p), Unit(0, "m")) for p in properties),
        offerings=(
            Offering(0, "", f"urn:o:{network}", network),
            Offering(0, "", f"urn:o:{name}", name, procedure_id=0),
        ),
    )


def test_series_are_added_whatever_network_the_file_lies_in(store: Store) -> None:
    service = Load(store)
    assert service.ensure(DEFAULT_WORKSPACE, registration("ewr", "depth")).created
    # A folder called like the station: no network can have that name, but none is to be made.
    found = service.ensure(DEFAULT_WORKSPACE, registration("ewr", "depth", "width", network="ewr"))
    assert (found.created, found.added) == (False, ("urn:x:width",))
