"""All services over one store, handed to every door."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from thalweg.auth.tries import Tries
from thalweg.domain.store import Store
from thalweg.services.access import Access
from thalweg.services.catalogue import CatalogueService
from thalweg.services.features import FeatureService
from thalweg.services.files import FileService
from thalweg.services.hooks import Hooks
from thalweg.services.observe import Observe
from thalweg.services.packages import PackageService
from thalweg.services.published import Published
from thalweg.services.streams import Streams
from thalweg.services.table_jobs import TableJobs
from thalweg.services.table_procedures import with_table_procedures
from thalweg.services.table_sql import TableSql
from thalweg.services.tables import TableService
from thalweg.settings import Settings


@dataclass(frozen=True, slots=True)
class Services:
    """What a door may call. ``store`` itself is not handed on: a door asks services."""

    observe: Observe
    catalogue: CatalogueService
    access: Access
    features: FeatureService
    tables: TableService
    packages: PackageService
    files: FileService
    jobs: TableJobs
    hooks: Hooks
    sql: TableSql
    streams: Streams
    published: Published
    settings: Settings

    @staticmethod
    def over(store: Store, settings: Settings, tries: Tries | None = None) -> Services:
        """tries: where failed sign-ins are counted; else in this process alone"""
        published = Published(store)
        streams = Streams(
            store,
            contexts=_contexts(settings.ldes_contexts),
            strict=settings.ldes_strict_members,
            published=published,
        )
        observed = with_table_procedures(store)
        tables = TableService(store)
        return Services(
            Observe(observed),
            CatalogueService(observed),
            Access(store, settings, tries=tries),
            FeatureService(store),
            tables,
            PackageService(store, tables),
            FileService(store),
            TableJobs(store),
            Hooks(store, tables, settings.webhook_targets),
            TableSql(store, tables, settings),
            streams,
            published,
            settings,
        )


def _contexts(folder: str) -> Callable[[str], Any]:
    """The JSON-LD contexts of a folder, read when one is first asked for: commands need no RDF library."""

    @cache
    def loaded() -> Callable[[str], Any]:
        from thalweg.encode.rdf.contexts import load_contexts

        return load_contexts(folder)

    return lambda address: loaded()(address)
