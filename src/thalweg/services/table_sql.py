"""Tables read by SQL, as callers may."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future

from thalweg.domain.access import Principal
from thalweg.domain.errors import NotFound, PermissionDenied, Unauthenticated
from thalweg.domain.store import Store
from thalweg.domain.table_sql import MadeTable, SqlAnswer, SqlLimits
from thalweg.domain.tables import Table
from thalweg.services.procedure_rows import ProcedureTable
from thalweg.services.tables import TableService
from thalweg.settings import Settings


class TableSql:
    """Statements of callers. A table is named by its UUID or an alias, and has to be one that the caller may read."""

    def __init__(self, store: Store, tables: TableService, settings: Settings) -> None:
        self._store = store
        self._tables = tables
        self._limits = SqlLimits(settings.ckan_rows_max, settings.ckan_sql_time_s)

    def ask(self, statement: str, principal: Principal) -> Future[SqlAnswer]:
        """raises  StoreUnavailable while too many wait; from the future SqlFault, SqlForbidden, NotFound for a table
        that is not there, PermissionDenied for one that may not be read"""

        def find(names: tuple[str, ...]) -> Mapping[str, Table | MadeTable]:
            return {name: self._table(name, principal) for name in names}

        return self._store.sql(statement, find, self._limits)

    def _table(self, name: str, principal: Principal) -> Table | MadeTable:
        try:
            table = self._tables.active_table(name, principal)
        except (PermissionDenied, Unauthenticated):
            raise PermissionDenied("Not authorized to read resource.") from None
        except NotFound:
            raise NotFound("resource_id", f'Resource "{name[:200]}" was not found.') from None
        if isinstance(table, ProcedureTable):
            return self._tables.procedures.relation(table)
        return table
