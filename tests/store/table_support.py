"""What the tests of tables share: a package, tables of every type, and records as Python values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.store.support import WAIT_S, default_workspace

from thalweg.domain.store import Store
from thalweg.domain.table_values import FieldType
from thalweg.domain.tables import Field, Method, Package, Table, TableChange, TableQuery, Written

EVERY_TYPE = (
    Field("name", FieldType.TEXT),
    Field("n", FieldType.INT4),
    Field("big", FieldType.INT8),
    Field("x", FieldType.FLOAT8),
    Field("exact", FieldType.NUMERIC),
    Field("ok", FieldType.BOOL),
    Field("day", FieldType.DATE),
    Field("clock", FieldType.TIME),
    Field("at", FieldType.TIMESTAMP),
    Field("zoned", FieldType.TIMESTAMPTZ),
    Field("doc", FieldType.JSON),
    Field("list", FieldType.INT4, True),
)
TWO = (Field("name", FieldType.TEXT), Field("n", FieldType.INT4))


def package(store: Store, name: str = "rivers", **fields: Any) -> Package:
    return store.put_package(Package(0, "", default_workspace(store), name, **fields)).result(WAIT_S)


def make(
    store: Store,
    fields: Sequence[Field] = TWO,
    records: Sequence[Mapping[str, Any]] = (),
    *,
    name: str = "rivers",
    **change: Any,
) -> Table:
    """A table in a package of its own."""
    return make_in(store, package(store, name), fields, records, **change)


def make_in(
    store: Store,
    owner: Package,
    fields: Sequence[Field] = TWO,
    records: Sequence[Mapping[str, Any]] = (),
    **change: Any,
) -> Table:
    new = Table(0, "", owner.workspace_id, owner.id, url_type="datastore")
    return store.alter_table(new, TableChange(tuple(fields), **change), records).result(WAIT_S).table


def alter(store: Store, table: Table, *records: Mapping[str, Any], **change: Any) -> Table:
    return store.alter_table(table, TableChange(**change), records).result(WAIT_S).table


def write(store: Store, table: Table, method: Method, *records: Any, **options: Any) -> Written:
    return store.write_records(table, method, records, **options).result(WAIT_S)


def insert(store: Store, table: Table, *records: Any, **options: Any) -> Written:
    return write(store, table, Method.INSERT, *records, **options)


def find(
    store: Store, table: Table, limit: int = 1000, offset: int = 0, **query: Any
) -> tuple[list[tuple[Any, ...]], int | None]:
    """Rows of cells, and the total."""
    page = store.search(store.table(table.uuid), TableQuery(**query)).run(limit, offset)
    return page.rows, page.total


def numbered(n: int) -> list[dict[str, Any]]:
    return [{"name": f"station {i % 7}", "n": i} for i in range(n)]
