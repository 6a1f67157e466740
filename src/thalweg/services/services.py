"""All services over one store, handed to every door."""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.domain.store import Store
from thalweg.services.access import Access
from thalweg.services.catalogue import CatalogueService
from thalweg.services.observe import Observe
from thalweg.services.tables import TableService
from thalweg.settings import Settings


@dataclass(frozen=True, slots=True)
class Services:
    """What a door may call. ``store`` itself is not handed on: a door asks services."""

    observe: Observe
    catalogue: CatalogueService
    access: Access
    tables: TableService
    settings: Settings

    @staticmethod
    def over(store: Store, settings: Settings) -> Services:
        return Services(Observe(store), CatalogueService(store), Access(store, settings), TableService(store), settings)
