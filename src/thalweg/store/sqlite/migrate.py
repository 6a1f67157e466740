"""Bringing a file to the format that this program knows."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from importlib import resources
from typing import Final

import apsw

from thalweg.domain.catalogue import DEFAULT_WORKSPACE, Workspace
from thalweg.domain.errors import StoreUnavailable
from thalweg.store.sqlite.entities import new_uuid, workspace_document

APPLICATION_ID: Final = 1416129655
"""In the file's header: this is a store of ours."""

_NAME = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")


def migrations() -> dict[int, str]:
    """The SQL text of each migration by its number, from 1 on. A number may be missing, never given twice: a file's
    format is the number of the newest one it has had."""
    folder = resources.files("thalweg.store") / "migrations" / "sqlite"
    texts: dict[int, str] = {}
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        match = _NAME.fullmatch(entry.name)
        if match is not None:
            number = int(match.group(1))
            if number in texts:
                raise ValueError(f"there are two migrations with the number {number}")
            texts[number] = entry.read_text("utf-8")
    if min(texts, default=0) != 1:
        raise ValueError(f"migrations do not begin with number 1: {sorted(texts)}")
    return texts


def format_version(connection: apsw.Connection, newest: int) -> int:
    """The format of a file: 0 for an empty one.

    raises  StoreUnavailable for a file that is no store, or one of a newer format
    """
    version = int(connection.pragma("user_version"))
    application = int(connection.pragma("application_id"))
    if version == 0 and application == 0:
        if connection.execute("SELECT count(*) FROM sqlite_schema").get:
            raise _foreign(connection)
        return 0
    if application != APPLICATION_ID:
        raise _foreign(connection)
    if version > newest:
        raise StoreUnavailable(
            f"The store has format {version}; this program knows formats up to {newest}. "
            "It was written by a newer version: use that one, or restore a back-up made before."
        )
    return version


def _foreign(connection: apsw.Connection) -> StoreUnavailable:
    return StoreUnavailable(f"'{connection.filename}' is an SQLite database, but not a Thalweg store.")


def migrate(connection: apsw.Connection, texts: dict[int, str] | None = None) -> list[int]:
    """Apply the migrations that the file lacks, each in a transaction of its own; the caller holds the store's lock.

    connection  a writer's, not in a transaction
    returns     the numbers applied
    raises      StoreUnavailable as ``format_version``
    """
    texts = migrations() if texts is None else texts
    applied: list[int] = []
    version = format_version(connection, max(texts))
    for number, text in sorted(texts.items()):
        if number <= version:
            continue
        cursor = connection.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        try:
            cursor.execute(text)
            if number == 1:
                _begin_life(cursor)
            # Part of the transaction, as the application's id is.
            cursor.execute(f"PRAGMA user_version = {number:d}")
            cursor.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                cursor.execute("ROLLBACK")
            raise
        applied.append(number)
    return applied


def _begin_life(cursor: apsw.Cursor) -> None:
    """What every store has from the start: an epoch, a date of birth, the default workspace."""
    meta: Iterable[tuple[str, str]] = (("epoch", new_uuid()), ("created_us", str(time.time_ns() // 1000)))
    cursor.executemany("INSERT INTO store_meta (key, value) VALUES (?, ?)", meta)
    workspace = Workspace(id=0, uuid=new_uuid(), name=DEFAULT_WORKSPACE)
    cursor.execute(
        "INSERT INTO workspace (uuid, name, generation, document) VALUES (?, ?, 1, ?)",
        (workspace.uuid, workspace.name, workspace_document(workspace)),
    )


def set_new_epoch(connection: apsw.Connection) -> None:
    """Give a copied store a life of its own, so that validators given out by the old one are void."""
    connection.execute("UPDATE store_meta SET value = ? WHERE key = 'epoch'", (new_uuid(),))
