"""Packages, resources and tables as callers may see and change them, whatever the protocol."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final

from thalweg.auth.policy import Action, may, require
from thalweg.auth.visibility import seen_by
from thalweg.domain.access import Actor, Principal, Resource, Role, Scope
from thalweg.domain.catalogue import Workspace
from thalweg.domain.errors import AlreadyExists, InvalidParameter, NotFound, PermissionDenied
from thalweg.domain.store import Store
from thalweg.domain.table_values import Cell
from thalweg.domain.tables import (
    Condition,
    Method,
    Package,
    Search,
    Table,
    TableChange,
    TableFigures,
    TableQuery,
    Written,
)
from thalweg.domain.time import MIN_US
from thalweg.services.procedure_rows import ProcedureTable
from thalweg.services.procedure_tables import PACKAGE_PREFIX, ProcedureTables
from thalweg.services.table_declared import with_index

MAX_DOCUMENT_BYTES: Final = 200_000
"""Longest description of a package or resource, as JSON: it is read as a whole each time it is shown."""
NAME_RULE: Final = "Must be purely lowercase alphanumeric (ascii) characters and these symbols: -_"
_RESERVED: Final = ("new", "edit", "search")
_READ_ONLY: Final = "Cannot edit read-only resource: it is made of the observations of procedures, which SOS takes."
_NAME: Final = re.compile(r"[a-z0-9_-]*", re.ASCII)


class TableService:
    """The tables of one store. Every call that is given a caller asks first what that one may do.

    raises  NotFound for what is not there; PermissionDenied or Unauthenticated for what is, and may not be read:
            CKAN's clients tell the two apart
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.procedures = ProcedureTables(store)

    # -------------------------------------------------------------- rights

    def resource_of(self, table: Table) -> Resource:
        """A table for questions of policy: what is granted on its package holds for it, too; of one that is made of a
        procedure, the procedure."""
        if isinstance(table, ProcedureTable) and table.procedure is not None:
            return self._store.catalogue(table.workspace_id).resource_of(table.procedure)
        return self._resource(table.workspace_id, "table", table.id, table.public, ("package", table.package_id))

    def resource_of_package(self, package: Package) -> Resource:
        return self._resource(package.workspace_id, "package", package.id, package.public and package.active)

    def workspace_resource(self, workspace: Workspace) -> Resource:
        return self._store.catalogue(workspace.id).resource

    def private_resource(self, workspace: Workspace) -> Resource:
        """A dataset of a workspace that is nobody's but those who hold a role there."""
        return self._resource(workspace.id, "package", 0, False)

    def _resource(
        self, workspace_id: int, kind: str, number: int, public: bool, within: tuple[str, int] | None = None
    ) -> Resource:
        catalogue = self._store.catalogue(workspace_id)
        found = catalogue.dataset(kind, number, public=public)
        if within is None:
            return found
        guests = found.guests
        if catalogue.guests:
            guests = max(guests, catalogue.guests.get(Scope(workspace_id, *within), Role.NOTHING))
        return Resource(workspace_id, kind, number, found.public, guests, (within,))

    def require_something(self, principal: Principal, visible: Mapping[str, Workspace]) -> None:
        """Refuse a caller who may read nothing at all. ``visible``: the workspaces there is something in for it."""
        if not visible:
            require(principal, Action.READ)
            raise PermissionDenied("There is nothing here that may be read.")

    # -------------------------------------------------------------- packages

    def package(self, key: str, principal: Principal, action: Action = Action.READ) -> Package:
        """By UUID or name, if the caller may do that to it. One that may be read for a single table of it is found."""
        workspace = self.procedures.workspace_of_package(key)
        if workspace is not None:
            return self._procedures_package(workspace, key, principal, action)
        package = self._store.package(key)
        resource = self.resource_of_package(package)
        if not may(principal, Action.READ, resource) and not self.tables(package, principal):
            require(principal, Action.READ, resource)
        if not package.active and not may(principal, Action.REGISTER, resource):
            raise NotFound("id", f"Package {key[:200]!r} was not found.")
        if action is not Action.READ:
            require(principal, action, resource)
        return package

    def _procedures_package(self, workspace: Workspace, key: str, principal: Principal, action: Action) -> Package:
        catalogue = seen_by(self._store.catalogue(workspace.id), principal)
        if catalogue is None or not catalogue.procedures:
            raise NotFound("id", f"Package {key[:200]!r} was not found.")
        if action is not Action.READ:
            require(principal, action, catalogue.resource)
            raise InvalidParameter("read-only", _READ_ONLY)
        return self.procedures.package(workspace)

    def packages(self, principal: Principal) -> list[Package]:
        """Those that the caller may read, by name; among them one for the procedures of each workspace."""
        made = self.made_packages(principal)
        stored = self._stored_packages(principal)
        return sorted([*stored, *made], key=lambda package: package.name) if made else stored

    def made_packages(self, principal: Principal) -> list[Package]:
        """Those of the workspaces of which the caller sees procedures."""
        made = []
        for workspace in self._store.workspaces().values():
            catalogue = seen_by(self._store.catalogue(workspace.id), principal)
            if catalogue is not None and catalogue.procedures:
                made.append(self.procedures.package(workspace))
        return made

    def _stored_packages(self, principal: Principal) -> list[Package]:
        return [
            package
            for package in self._store.packages()
            if package.active
            and (
                may(principal, Action.READ, self.resource_of_package(package)) or self._has_granted(package, principal)
            )
        ]

    def _has_granted(self, package: Package, principal: Principal) -> bool:
        """Whether a table of a package that may not be read as a whole may be: only looked at where single tables are
        granted at all."""
        guests = self._store.catalogue(package.workspace_id).guests
        granted = any(
            scope.kind == "table" and scope.workspace_id == package.workspace_id
            for scopes in (principal.grants, guests)
            for scope in scopes
        )
        return granted and bool(self.tables(package, principal))

    def put_package(
        self, package: Package, resources: Sequence[Table], principal: Principal, workspace: Workspace, by: Actor
    ) -> Future[Package]:
        """Create a package. Raises InvalidParameter naming the field; from the future AlreadyExists (``name``)."""
        require(principal, Action.REGISTER, self.workspace_resource(workspace))
        check_name(package.name)
        check_document(package.document)
        for resource in resources:
            self._check_resource(resource)
        return self._store.put_package(replace(package, workspace_id=workspace.id), resources, by=by)

    def delete_package(self, key: str, principal: Principal, by: Actor) -> Future[Package]:
        """Take a package out of sight; it can be purged."""
        package = self.package(key, principal, Action.REGISTER)
        return self._store.put_package(replace(package, active=False), by=by)

    def purge_package(self, key: str, principal: Principal, by: Actor) -> Future[None]:
        package = self.package(key, principal, Action.REGISTER)
        return self._store.purge_package(package.id, by=by)

    # -------------------------------------------------------------- resources and tables

    def table(self, key: str, principal: Principal, action: Action = Action.READ) -> Table:
        """A resource by UUID or alias, whether it has a table or not, if the caller may do that to it. A procedure
        that the caller may not read is not there.

        raises  InvalidParameter ``read-only`` for whatever would change a procedure
        """
        try:
            table = self._store.table(key)
        except NotFound:
            return self._procedure_table(key, principal, action)
        resource = self.resource_of(table)
        require(principal, Action.READ, resource)
        if action is not Action.READ:
            require(principal, action, resource)
        return table

    def _procedure_table(self, key: str, principal: Principal, action: Action) -> ProcedureTable:
        found = self.procedures.find(key)
        resource = None if found is None else found[0].resource_of(found[1])
        if found is None or resource is None or not may(principal, Action.READ, resource):
            raise NotFound("resource_id", f'Resource "{key[:200]}" was not found.')
        if action is not Action.READ:
            require(principal, action, resource)
            raise InvalidParameter("read-only", _READ_ONLY)
        return self.procedures.table(*found)

    def unguarded(self, key: str) -> Table:
        """A table by the UUID of its resource, for what asks for rights itself or for nobody. NotFound."""
        try:
            table = self._store.table(key)
        except NotFound:
            found = self.procedures.find(key)
            if found is None:
                raise
            return self.procedures.table(*found)
        if not table.active:
            raise NotFound("resource_id", f'Resource "{key[:200]}" was not found.')
        return table

    def active_table(self, key: str, principal: Principal, action: Action = Action.READ) -> Table:
        """The same; NotFound for a resource without a table."""
        table = self.table(key, principal, action)
        if not table.active:
            raise NotFound("resource_id", f'Resource "{key[:200]}" was not found.')
        return table

    def tables(self, package: Package, principal: Principal) -> list[Table]:
        """The resources of a package that the caller may read, in order."""
        if package.id < 0:
            return [*self._procedure_tables(package.workspace_id, principal)]
        return [t for t in self._store.tables(package.id) if may(principal, Action.READ, self.resource_of(t))]

    def _procedure_tables(self, workspace_id: int, principal: Principal) -> list[ProcedureTable]:
        whole = self._store.catalogue(workspace_id)
        seen = seen_by(whole, principal)
        return [] if seen is None else [self.procedures.table(whole, item) for item in seen.procedures.values()]

    def active_tables(self, principal: Principal) -> list[Table]:
        """All that the caller may read, those made of procedures last."""
        stored = [t for t in self._store.active_tables() if may(principal, Action.READ, self.resource_of(t))]
        workspaces = self._store.workspaces().values()
        return stored + [t for workspace in workspaces for t in self._procedure_tables(workspace.id, principal)]

    def put_resource(self, table: Table, by: Actor) -> Future[Table]:
        """The caller has been asked for at the package. Raises InvalidParameter."""
        self._check_resource(table)
        return self._store.put_resource(table, by=by)

    def _check_resource(self, table: Table) -> None:
        check_document(table.document)
        if not table.id and self.procedures.find(table.uuid) is not None:
            raise AlreadyExists("id", f"There is a resource with the id {table.uuid} already.")

    def package_of(self, table: Table) -> Package:
        """The package of a resource that the caller may read."""
        if table.package_id < 0:
            return self.procedures.package(self._store.catalogue(table.workspace_id).workspace)
        return self._store.package_with(table.package_id)

    def delete_resource(self, table: Table, by: Actor) -> Future[None]:
        return self._store.delete_resource(table.id, by=by)

    def alter(
        self, table: Table, change: TableChange, records: Sequence[Any], *, with_rows: bool, by: Actor
    ) -> Future[Written]:
        self._check_resource(table)
        for alias in change.aliases or ():
            if self.procedures.find(alias) is not None:
                # It would hide the procedure.
                raise InvalidParameter("alias", f'The alias "{alias[:200]}" already exists.')
        return self._store.alter_table(table, with_index(table, change), records, with_rows=with_rows, by=by)

    def write(
        self, table: Table, method: Method, records: Sequence[Any], *, dry_run: bool, with_rows: bool, by: Actor
    ) -> Future[Written]:
        return self._store.write_records(table, method, records, dry_run=dry_run, with_rows=with_rows, by=by)

    def delete_records(
        self, table: Table, where: Condition, *, keep: int, by: Actor
    ) -> tuple[int, list[tuple[Cell, ...]]]:
        """May take long: to be called from a thread."""
        return self._store.delete_records(table, where, keep=keep, by=by)

    def drop(self, table: Table, by: Actor) -> Future[None]:
        return self._store.drop_table(table, by=by)

    # -------------------------------------------------------------- reading

    def search(self, table: Table, query: TableQuery) -> Search:
        if isinstance(table, ProcedureTable):
            return self.procedures.search(table, query)
        return self._store.search(table, query)

    def records(self, table: Table, query: TableQuery) -> Iterator[list[tuple[Any, ...]]]:
        if isinstance(table, ProcedureTable):
            return self.procedures.records(table, query)
        return self._store.records(table, query)

    def columns(self, table: Table, query: TableQuery) -> Iterator[list[Sequence[Any]]]:
        """See ``TableStore.record_columns``."""
        if isinstance(table, ProcedureTable):
            return self.procedures.columns(table, query)
        return self._store.record_columns(table, query)

    def newest(self, table: Table) -> int:
        """The ``_id`` of the newest record there is or was; of a procedure without observations one before all."""
        if isinstance(table, ProcedureTable):
            newest = self.procedures.newest(table)
            return MIN_US - 1 if newest is None else newest
        return self._store.table_figures(table).next_id - 1

    def figures(self, table: Table) -> TableFigures:
        if isinstance(table, ProcedureTable):
            return self.procedures.figures(table)
        return self._store.table_figures(table)


def check_name(name: str) -> None:
    """Raises InvalidParameter in CKAN's words."""
    if name in _RESERVED:
        raise InvalidParameter("name", "That name cannot be used")
    if len(name) < 2:
        raise InvalidParameter("name", "Must be at least 2 characters long")
    if len(name) > 100:
        raise InvalidParameter("name", "Name must be a maximum of 100 characters long")
    if not _NAME.fullmatch(name):
        raise InvalidParameter("name", NAME_RULE)
    if name.startswith(PACKAGE_PREFIX):
        raise InvalidParameter("name", f"Names that begin with {PACKAGE_PREFIX} are the server's own")


def check_document(document: Mapping[str, Any]) -> None:
    """Raises InvalidParameter."""
    import orjson

    try:
        size = len(orjson.dumps(dict(document)))
    except (orjson.JSONEncodeError, TypeError):
        raise InvalidParameter("extras", "The description holds something that JSON cannot.") from None
    if size > MAX_DOCUMENT_BYTES:
        raise InvalidParameter("extras", f"The description is longer than {MAX_DOCUMENT_BYTES:,} bytes.")
