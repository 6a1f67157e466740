"""A PostgreSQL server of the tests' own, and the same tables in it and in a store."""

from __future__ import annotations

import json
import math
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time as time_module
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.store.support import WAIT_S
from tests.store.table_support import make

from thalweg.domain.store import Store
from thalweg.domain.table_sql import MadeTable, SqlFault, SqlLimits
from thalweg.domain.table_values import FieldType
from thalweg.domain.tables import Field, Table

FIELDS = (
    Field("station", FieldType.TEXT),
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
    Field("tags", FieldType.TEXT, True),
    Field("Upper Case", FieldType.TEXT),
)
SITES = (Field("name", FieldType.TEXT), Field("height", FieldType.NUMERIC), Field("opened", FieldType.DATE))


def _row(*values: Any) -> dict[str, Any]:
    return {field.name: value for field, value in zip(FIELDS, values, strict=True) if value is not None}


READINGS = (
    _row("Ponte Tresa", 1, 9_000_000_000, 1.5, "1.50", True, "2020-01-31", "10:00:00", "2020-01-31T10:00:00",
         "2020-01-31T10:00:00+00:00", {"a": 1, "b": "x"}, [1, 2, 3], ["red", "green"], "Aa"),
    _row("Ponte Tresa", 2, -5, 2.25, "1.5", False, "2020-02-29", "10:10:00.5", "2020-01-31T10:10:00",
         "2020-01-31T23:10:00+00:00", {"a": 2.5, "b": None, "c": [1, {"d": "e"}]}, [2], ["blue"], "bB"),
    _row("Lugano", 3, 0, -0.1, "-20.125", True, "2019-12-30", "00:00:00", "2020-02-01T00:00:00.123456",
         "2020-02-01T00:00:00.5+00:00", [1, 2], [], ["red"], "cc"),
    _row("Lugano", 4, 7, 1e20, "12345678901234567890.123456789", None, "2021-03-01", "23:59:59.999999",
         "2021-03-01T12:30:15.75", "2021-03-28T01:30:00+00:00", {"a": {"b": {"c": "deep"}}}, [4, 4, None], [], None),
    _row("bellinzona", 5, None, 1e-7, "0", False, None, None, None, None, None, None, None, "Zürich"),
    _row("Ägeri_100%", None, 1, 0.1, "0.00", True, "2020-02-29", "06:30:00", "2020-02-29T06:30:00",
         "2020-02-29T06:30:00+00:00", "text", [7, 8], ["a b", "c,d", 'e"f'], "x\\y"),
    _row(None, -7, 2, 3.0, "100", None, "1999-12-31", "12:00:00", "1999-12-31T23:59:59",
         "1999-12-31T23:59:59+00:00", 5, [9], ["NULL"], "tab\there"),
    _row("Lugano", 3, 12, 2.25, "3.14159", True, "2020-06-15", "18:45:30", "2020-06-15T18:45:30",
         "2020-06-15T18:45:30+00:00", {"list": [3, 1, 2], "b": "x"}, [3, 1, 2], ["green", "blue"], "aa"),
)  # fmt: skip
SITE_ROWS = (
    {"name": "Ponte Tresa", "height": "272.00", "opened": "1980-05-01"},
    {"name": "Lugano", "height": "273", "opened": "1991-11-30"},
    {"name": "Locarno", "height": "198.5"},
)


class Postgres:
    """A cluster in a folder of its own, reached by a socket in it alone."""

    def __init__(self) -> None:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        self._bin = found[-1].parent if found else Path(shutil.which("initdb") or "").parent
        if not (self._bin / "initdb").exists():
            pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
        # Not pytest's, which its user alone may enter: a root's server runs as another one.
        self._folder = folder = Path(tempfile.mkdtemp(prefix="sql-"))
        self._user: dict[str, Any] = {}
        if os.getuid() == 0:
            try:
                owner = pwd.getpwnam("postgres")
            except KeyError:
                pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
            os.chown(folder, owner.pw_uid, owner.pw_gid)
            self._user = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        self._run("initdb", "-D", "data", "--locale=C.UTF-8", "-E", "UTF8", "-A", "trust", "-U", "postgres", "-N")
        options = ("listen_addresses=", "fsync=off", "timezone=UTC", "max_connections=10")
        settings = [part for option in options for part in ("-c", option)]
        self._server = subprocess.Popen(
            [str(self._bin / "postgres"), "-D", "data", "-k", str(folder), *settings],
            cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self._user,
        )  # fmt: skip
        self.connection = self._connected()
        for name in ("interval", "json", "jsonb"):
            self.connection.adapters.register_loader(name, psycopg.types.string.TextLoader)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self._bin / program), *arguments], cwd=self._folder, check=True, capture_output=True, timeout=60,
            **self._user,
        )  # fmt: skip

    def _connected(self) -> psycopg.Connection[Any]:
        end = time_module.monotonic() + 30
        while True:
            try:
                return psycopg.connect(host=str(self._folder), user="postgres", dbname="postgres", autocommit=True)
            except psycopg.OperationalError:
                if time_module.monotonic() > end:
                    self._server.kill()
                    raise
                time_module.sleep(0.05)

    def close(self) -> None:
        self.connection.close()
        self._server.send_signal(signal.SIGINT)
        self._server.wait(30)
        shutil.rmtree(self._folder, ignore_errors=True)

    def table(self, name: str, fields: Sequence[Field], rows: Sequence[Mapping[str, Any]]) -> None:
        types = [f"{field.kind.value}{'[]' if field.is_array else ''}" for field in fields]
        columns = "".join(f', "{field.name}" {kind}' for field, kind in zip(fields, types, strict=True))
        self.connection.execute(f'DROP TABLE IF EXISTS "{name}"')
        self.connection.execute(f'CREATE TABLE "{name}" (_id serial PRIMARY KEY{columns})')
        marks = ", ".join(f"%s::{kind}" for kind in types)
        names = ", ".join(f'"{field.name}"' for field in fields)
        for row in rows:
            values = [_given(field, row.get(field.name)) for field in fields]
            self.connection.execute(f'INSERT INTO "{name}" ({names}) VALUES ({marks})', values)  # noqa: S608

    def ask(self, sql: str) -> tuple[list[tuple[str, str]], list[list[Any]]]:
        """Columns (name, type) and rows, as an answer in JSON has them."""
        cursor = self.connection.execute(sql, prepare=False)
        types = psycopg.adapters.types
        columns = []
        for column in cursor.description or ():
            found = types.get(column.type_code)
            name = found.name if found is not None else str(column.type_code)
            if found is not None and column.type_code == found.array_oid:
                name = f"_{name}"
            columns.append((column.name, name))
        return columns, [[_plain(value, kind) for value, (_, kind) in zip(row, columns, strict=True)] for row in cursor]


def _given(field: Field, value: Any) -> Any:
    """As it is bound: JSON as the store keeps it."""
    return json.dumps(value, separators=(",", ":")) if field.kind is FieldType.JSON and value is not None else value


def _plain(value: Any, kind: str) -> Any:
    if isinstance(value, list):
        return [_plain(item, kind[1:]) for item in value]
    if value is not None and kind in ("json", "jsonb"):
        return json.loads(value, parse_float=Decimal)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return value


def tables(store: Store) -> dict[str, Table]:
    return {
        "readings": make(store, FIELDS, READINGS, name="readings"),
        "sites": make(store, SITES, SITE_ROWS, name="sites"),
    }


def ask(
    store: Store, known: Mapping[str, Table | MadeTable], sql: str, limits: SqlLimits | None = None
) -> tuple[list[tuple[str, str]], list[dict[str, Any]]]:
    """The same of a store. Raises what the future does."""
    answer = store.sql(sql, lambda names: {name: known[name] for name in names}, limits or SqlLimits(time_s=20))
    found = answer.result(WAIT_S)
    fields = [(field["id"], field["type"]) for field in json.loads(found.fields)]
    return fields, json.loads(found.records, parse_float=Decimal)


def rows_of(fields: Sequence[tuple[str, str]], records: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    return [[record[name] for name, _ in fields] for record in records]


def same(mine: Any, theirs: Any, kind: str) -> bool:
    """Whether two values are one: numerics digit by digit, floats but for what their last digits are."""
    if mine is None or theirs is None:
        return mine is None and theirs is None
    if isinstance(theirs, list) and isinstance(mine, list):
        return len(mine) == len(theirs) and all(same(a, b, kind.lstrip("_")) for a, b in zip(mine, theirs, strict=True))
    if kind == "float8":
        return math.isclose(float(mine), theirs, rel_tol=1e-11, abs_tol=1e-12)
    if kind == "numeric":
        return format(Decimal(mine), "f") == format(theirs, "f")
    if kind in ("json", "jsonb"):
        return bool(mine == theirs)
    if kind == "bool":
        return mine is theirs
    return bool(mine == theirs)


def differences(mine: Sequence[Sequence[Any]], theirs: Sequence[Sequence[Any]], kinds: Sequence[str]) -> str:
    """What is not alike in two answers' rows; empty: nothing."""
    if len(mine) != len(theirs):
        return f"{len(mine)} rows instead of {len(theirs)}: {mine[:5]} {theirs[:5]}"
    for a, b in zip(mine, theirs, strict=True):
        for x, y, kind in zip(a, b, kinds, strict=True):
            if not same(x, y, kind):
                return f"{kind}: {x!r} instead of {y!r}"
    return ""


def statements(name: str) -> list[str]:
    """Those of a file beside this one, a line each; lines that begin with dashes are remarks."""
    lines = (Path(__file__).parent / name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("-- ")]


def unlike(postgres: Postgres, store: Store, known: Mapping[str, Table | MadeTable], asked: Sequence[str]) -> list[str]:
    """Statements that a store answers otherwise than PostgreSQL, or not at all, and what is not alike; rows in any
    order where none is asked for."""
    wrong: list[str] = []
    for sql in asked:
        columns, theirs = postgres.ask(sql)
        try:
            fields, records = ask(store, known, sql)
        except SqlFault as error:
            wrong.append(f"{sql}\n    {error}")
            continue
        mine = rows_of(fields, records)
        if fields != columns:
            wrong.append(f"{sql}\n    {fields} instead of {columns}")
            continue
        if "ORDER BY" not in sql:
            mine, theirs = in_any_order(mine), in_any_order(theirs)
        found = differences(mine, theirs, [kind for _, kind in columns])
        if found:
            wrong.append(f"{sql}\n    {found}")
    return wrong


def in_any_order(rows: Sequence[Sequence[Any]]) -> list[Any]:
    return sorted(rows, key=lambda row: [_sortable(value) for value in row])


def _sortable(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return ("a", str(value))
    if isinstance(value, int | float | Decimal):
        return ("b", f"{float(value):+030.6f}")
    return ("c", json.dumps(value, default=str))
