"""Packages and resources as rows, and what each process remembers of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import orjson

from thalweg.domain.errors import AlreadyExists, NotFound
from thalweg.domain.table_values import FieldType
from thalweg.domain.tables import Field, Package, Table
from thalweg.store.sqlite.connection import Readers, Row
from thalweg.store.sqlite.entities import new_uuid, to_json
from thalweg.store.sqlite.entity_writes import drop_grants_on, refuse_taken_uuid
from thalweg.store.sqlite.package_files import take_file
from thalweg.store.sqlite.package_index import index_package, index_resource
from thalweg.store.sqlite.writer import Transaction

PACKAGE_BY_UUID: Final = "SELECT id, generation FROM package WHERE uuid = ?"
PACKAGE_BY_NAME: Final = "SELECT id, generation FROM package WHERE name = ?"
ALL_PACKAGES: Final = "SELECT id, generation FROM package ORDER BY name"
PACKAGE: Final = "SELECT id, workspace_id, uuid, name, generation, document FROM package WHERE id = ?"
INSERT_PACKAGE: Final = """
    INSERT INTO package (workspace_id, uuid, name, generation, document) VALUES (?, ?, ?, 1, ?) RETURNING id"""
UPDATE_PACKAGE: Final = """
    UPDATE package SET workspace_id = ?, name = ?, generation = generation + 1, document = ? WHERE id = ?
    RETURNING generation"""
DELETE_PACKAGE: Final = "DELETE FROM package WHERE id = ?"
MOVE_RESOURCES: Final = "UPDATE package_resource SET workspace_id = ? WHERE package_id = ? AND workspace_id <> ?"
FIND_WORKSPACE: Final = "SELECT 1 FROM workspace WHERE id = ?"

_STAMPS: Final = "r.id, r.generation, p.generation"
_JOIN: Final = "FROM package_resource r JOIN package p ON p.id = r.package_id"
TABLE_BY_UUID: Final = f"SELECT {_STAMPS} {_JOIN} WHERE r.uuid = ?"
TABLE_BY_ALIAS: Final = f"""
    SELECT {_STAMPS} FROM table_alias a JOIN package_resource r ON r.id = a.table_id
        JOIN package p ON p.id = r.package_id
    WHERE a.name = ?"""
TABLES_OF: Final = f"SELECT {_STAMPS} {_JOIN} WHERE r.package_id = ? ORDER BY r.position, r.id"
ACTIVE_TABLES: Final = f"SELECT {_STAMPS} {_JOIN} WHERE r.active ORDER BY r.id"
DECLARED_TABLES: Final = f"""
    SELECT {_STAMPS} FROM package_resource r INDEXED BY package_resource_declared JOIN package p ON p.id = r.package_id
    WHERE r.active AND instr(r.document, '"thalweg":') ORDER BY r.id"""
TABLE: Final = f"""
    SELECT r.id, r.uuid, r.workspace_id, r.package_id, r.position, r.active, r.part, r.generation, r.document,
        p.generation, p.document {_JOIN} WHERE r.id = ?"""
INSERT_TABLE: Final = """
    INSERT INTO package_resource (workspace_id, package_id, uuid, position, active, part, generation, document)
    VALUES (?, ?, ?, ?, 0, 0, 1, ?) RETURNING id"""
UPDATE_TABLE: Final = """
    UPDATE package_resource SET package_id = ?, position = ?, active = ?, part = ?, generation = generation + 1,
        document = ?
    WHERE id = ?"""
NEXT_POSITION: Final = "SELECT coalesce(max(position), -1) + 1 FROM package_resource WHERE package_id = ?"
FIND_UUID: Final = "SELECT 1 FROM package_resource WHERE uuid = ?"
FIND_ALIAS: Final = "SELECT table_id FROM table_alias WHERE name = ?"

MAX_KEPT: Final = 20_000
"""Most packages, and most resources, that a process remembers."""


def no_package(key: object) -> NotFound:
    return NotFound("id", f"Package {str(key)[:200]!r} was not found.")


def no_table(key: object) -> NotFound:
    return NotFound("resource_id", f'Resource "{str(key)[:200]}" was not found.')


# ------------------------------------------------------------------ documents


def _package_document(package: Package) -> str:
    return to_json(
        {
            "title": package.title,
            "public": package.public,
            "active": package.active,
            "created": package.created_us,
            "modified": package.modified_us,
            "document": dict(package.document),
        },
        "package",
    )


def _package_of(row: Row) -> Package:
    number, workspace_id, uuid, name, generation, text = row
    found = orjson.loads(text)
    return Package(
        number, uuid, workspace_id, name, found["title"], found["public"], found["active"], found["document"],
        found["created"], found["modified"], generation,
    )  # fmt: skip


def _table_document(table: Table) -> str:
    return to_json(
        {
            "name": table.name,
            "url_type": table.url_type,
            "created": table.created_us,
            "modified": table.modified_us,
            "document": dict(table.document),
            "fields": [[f.name, f.kind.value, f.is_array, f.number, dict(f.info)] for f in table.fields],
            "key": table.key,
            "indexes": table.indexes,
            "aliases": table.aliases,
            "text_columns": table.text_columns,
            "next_field": table.next_field,
        },
        "resource",
    )


def _table_of(row: Row) -> Table:
    number, uuid, workspace_id, package_id, position, active, part, generation, text, package_generation, package = row
    found: dict[str, Any] = orjson.loads(text)
    fields = tuple(
        Field(name, FieldType(kind), is_array, column, info) for name, kind, is_array, column, info in found["fields"]
    )
    of_package = orjson.loads(package)
    return Table(
        number, uuid, workspace_id, package_id, found["name"], found["url_type"], position, found["document"],
        bool(active), part, fields, tuple(found["key"]), tuple(tuple(i) for i in found["indexes"]),
        tuple(found["aliases"]), found["text_columns"], found["next_field"],
        of_package["public"] and of_package["active"], found["created"], found["modified"],
        # Of both, as its visibility is the package's: a number that no other state of the two has.
        generation << 32 | package_generation,
    )  # fmt: skip


# ------------------------------------------------------------------ reading


class TableCatalogue:
    """Packages and resources by key; each is decoded once for each of its generations. For all threads."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._packages: dict[int, Package] = {}
        self._tables: dict[int, Table] = {}

    def package(self, key: str) -> Package:
        rows = self._readers.rows(PACKAGE_BY_UUID, (key,)) or self._readers.rows(PACKAGE_BY_NAME, (key,))
        for stamp in rows:
            found = self._package(stamp)
            if found is not None:
                return found
        raise no_package(key)

    def package_with(self, package_id: int) -> Package:
        for stamp in self._readers.rows("SELECT id, generation FROM package WHERE id = ?", (package_id,)):
            found = self._package(stamp)
            if found is not None:
                return found
        raise no_package(package_id)

    def packages(self) -> list[Package]:
        found = [self._package(stamp) for stamp in self._readers.rows(ALL_PACKAGES)]
        return [package for package in found if package is not None]

    def _package(self, stamp: Row) -> Package | None:
        number, generation = stamp
        known = self._packages.get(number)
        if known is not None and known.generation == generation:
            return known
        rows = self._readers.rows(PACKAGE, (number,))
        if not rows:
            return None
        if len(self._packages) >= MAX_KEPT:
            self._packages.clear()
        self._packages[number] = package = _package_of(rows[0])
        return package

    def table(self, key: str) -> Table:
        rows = self._readers.mine().rows(TABLE_BY_UUID, (key,)) or self._readers.rows(TABLE_BY_ALIAS, (key,))
        for stamp in rows:
            found = self._table(stamp)
            if found is not None:
                return found
        raise no_table(key)

    def tables(self, package_id: int) -> list[Table]:
        return self._listed(self._readers.rows(TABLES_OF, (package_id,)))

    def active_tables(self) -> list[Table]:
        return self._listed(self._readers.rows(ACTIVE_TABLES))

    def declared_tables(self) -> list[Table]:
        # Asked with each catalogue, so with each request for observations: once for all that share a snapshot.
        reader = self._readers.mine()
        known = reader.known
        if known is None:
            return self._listed(reader.rows(DECLARED_TABLES))
        found: list[Table] | None = known.get(DECLARED_TABLES)
        if found is None:
            found = known[DECLARED_TABLES] = self._listed(reader.rows(DECLARED_TABLES))
        return found

    def _listed(self, stamps: list[Row]) -> list[Table]:
        found = [self._table(stamp) for stamp in stamps]
        return [table for table in found if table is not None]

    def _table(self, stamp: Row) -> Table | None:
        number, generation, package_generation = stamp
        known = self._tables.get(number)
        if known is not None and known.generation == generation << 32 | package_generation:
            return known
        rows = self._readers.rows(TABLE, (number,))
        if not rows:
            return None
        if len(self._tables) >= MAX_KEPT:
            self._tables.clear()
        self._tables[number] = table = _table_of(rows[0])
        return table


# ------------------------------------------------------------------ inside a transaction


def package_in(tx: Transaction, package_id: int) -> Package:
    """Raises NotFound."""
    rows = tx.rows(PACKAGE, (package_id,))
    if not rows:
        raise no_package(package_id)
    return _package_of(rows[0])


def put_package(tx: Transaction, package: Package) -> Package:
    """See ``TableStore.put_package``."""
    if not tx.rows(FIND_WORKSPACE, (package.workspace_id,)):
        raise NotFound("owner_org", "Organization does not exist")
    for number, _ in tx.rows(PACKAGE_BY_NAME, (package.name,)):
        if number != package.id:
            raise AlreadyExists("name", "That URL is already in use.")
    if package.id == 0:
        uuid = refuse_taken_uuid(tx, "package", package.uuid, 0, "id", by_name=True)
        made = replace(package, uuid=uuid, created_us=tx.now_us, modified_us=tx.now_us)
        values = (made.workspace_id, made.uuid, made.name, _package_document(made))
        made = replace(made, id=int(tx.rows(INSERT_PACKAGE, values)[0][0]), generation=1)
        index_package(tx, made)
        return made
    old = package_in(tx, package.id)
    if old.workspace_id != package.workspace_id:
        # Roles are held for something in a workspace.
        drop_grants_on(tx, old.workspace_id, "package", old.id)
        for number, _, _ in tx.rows(TABLES_OF, (old.id,)):
            drop_grants_on(tx, old.workspace_id, "table", number)
    made = replace(package, uuid=old.uuid, created_us=old.created_us, modified_us=tx.now_us)
    changed = (made.workspace_id, made.name, _package_document(made), made.id)
    made = replace(made, generation=int(tx.rows(UPDATE_PACKAGE, changed)[0][0]))
    tx.rows(MOVE_RESOURCES, (made.workspace_id, made.id, made.workspace_id))
    index_package(tx, made)
    return made


def touch_package(tx: Transaction, package_id: int) -> None:
    """Note that something of a package has changed: one of its resources."""
    made = replace(package_in(tx, package_id), modified_us=tx.now_us)
    tx.rows(UPDATE_PACKAGE, (made.workspace_id, made.name, _package_document(made), made.id))
    tx.rows("UPDATE package_entry SET modified_us = ? WHERE package_id = ?", (tx.now_us, package_id))


def table_in(tx: Transaction, table_id: int) -> Table:
    """A resource as it is now. Raises NotFound."""
    rows = tx.rows(TABLE, (table_id,))
    if not rows:
        raise no_table(table_id)
    return _table_of(rows[0])


def put_resource(tx: Transaction, table: Table) -> Table:
    """See ``TableStore.put_resource``."""
    package = package_in(tx, table.package_id)
    touch_package(tx, package.id)
    if table.id == 0:
        uuid = table.uuid or new_uuid()
        if tx.rows(FIND_UUID, (uuid,)) or tx.rows(FIND_ALIAS, (uuid,)):
            raise AlreadyExists("id", "Resource id already exists.")
        position = tx.rows(NEXT_POSITION, (package.id,))[0][0]
        made = Table(
            0, uuid, package.workspace_id, package.id, table.name, table.url_type, position, table.document,
            created_us=tx.now_us, modified_us=tx.now_us,
        )  # fmt: skip
        number = tx.rows(INSERT_TABLE, (package.workspace_id, package.id, uuid, position, _table_document(made)))[0][0]
        stored = table_in(tx, number)
        take_file(tx, None, stored)
        index_resource(tx, stored)
        return stored
    old = table_in(tx, table.id)
    stored = store_table(
        tx,
        replace(
            old, name=table.name, url_type=table.url_type, position=table.position, document=table.document,
            modified_us=tx.now_us,
        ),
    )  # fmt: skip
    take_file(tx, old, stored)
    index_resource(tx, stored)
    return stored


def store_table(tx: Transaction, table: Table) -> Table:
    """Replace a resource's row, its shape included; gives it as it is then."""
    tx.rows(
        UPDATE_TABLE,
        (table.package_id, table.position, int(table.active), table.part, _table_document(table), table.id),
    )
    return table_in(tx, table.id)
