"""A file of records into the table of a resource: all of it or nothing.

Records are loaded into a draft that nobody sees, and take the place of those that there were at once; appended ones
are added in steps, each of which is whole. What was said of the table's fields stays, as do its key and indexes.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from thalweg.domain.access import Actor
from thalweg.domain.errors import InvalidRequest, told_again
from thalweg.domain.table_values import type_named
from thalweg.domain.tables import Batch, Field, Table, TableChange, TableStore
from thalweg.loading.tables.reading import read_apart
from thalweg.loading.tables.report import TableLoadReport
from thalweg.loading.tables.source import ReadOptions, Shape
from thalweg.services.table_declared import ENTRY, with_index

Progress = Callable[[int, int, int], None]
"""Is told the rows stored, the bytes read, and those that there are."""
_END_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class TableLoadOptions:
    """How a file becomes a table.

    types   of fields by name, as PostgreSQL names them; those not named are guessed
    key     fields whose values together are unique; none: the table's own, if the file has its fields
    indexes lists of fields to be looked up together; none: likewise
    append  add to the records there are; the file's columns are fields of the table then
    """

    read: ReadOptions = field(default_factory=ReadOptions)
    types: Mapping[str, str] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    append: bool = False


def load_table_file(
    store: TableStore,
    resource: str,
    path: Path,
    *,
    format: str = "",
    name: str = "",
    options: TableLoadOptions | None = None,
    by: Actor | str = "",
    progress: Progress | None = None,
) -> TableLoadReport:
    """Load a file.

    resource  UUID of the resource, or an alias of its table
    format    as catalogues and media types call it; empty: found out
    name      what the file was called, if it lies under another name

    raises  NotFound, InvalidRequest, InvalidParameter, NotSupported, TooLarge; nothing is stored then, but for what
            was appended in the steps before
    """
    options = options or TableLoadOptions()
    if format:
        given = replace(options.read, format=format)
    else:
        given = options.read
    table = store.table(resource)
    if options.append and not table.active:
        options = replace(options, append=False)
    fixed = table.fields if options.append else kept_types(table.fields, options.types)
    # A fresh interpreter: a copy of a process with threads may hold their locks for ever.
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    reader = context.Process(
        target=read_apart,
        args=(there, path, name, given, dict(options.types), fixed, options.append),
        name="thalweg-reader",
        daemon=True,
    )
    reader.start()
    there.close()
    started = time.monotonic()
    load = _Load(store, table, options, by, progress, path.stat().st_size if path.is_file() else 0)
    try:
        report = load.run(here)
    except BaseException:
        load.give_up()
        raise
    finally:
        here.close()
        reader.join(_END_S)
        if reader.is_alive():
            reader.kill()
            reader.join()
    report.seconds = time.monotonic() - started
    return report


def kept_types(fields: Sequence[Field], said: Mapping[str, str]) -> tuple[Field, ...]:
    """Fields whose type a new file does not change: those that are read as a procedure, by their types, and those whose
    type the data dictionary says (``type_override``, as CKAN's loader has it). ``said``: of these it is said now."""
    kept = []
    for item in fields:
        over = type_named(str(item.info.get("type_override") or ""))
        if item.name not in said and (over is not None or item.info.get(ENTRY) is not None):
            kind, is_array = over or (item.kind, item.is_array)
            kept.append(Field(item.name, kind, is_array, info={}))
    return tuple(kept)


class _Load:
    """One load, from the side that stores."""

    def __init__(
        self,
        store: TableStore,
        table: Table,
        options: TableLoadOptions,
        by: Actor | str,
        progress: Progress | None,
        size: int,
    ) -> None:
        self._store = store
        self._table = table
        self._options = options
        self._by = by
        self._progress = progress
        self._size = size
        self._draft: Table | None = None
        self._fields: Sequence[Field] = ()
        self._places: list[int] | None = None
        self._rows = 0
        self._change = TableChange()
        self._lost: list[str] = []

    def run(self, connection: Connection) -> TableLoadReport:
        waiting: Future[int] | None = None
        while True:
            try:
                message = connection.recv()
            except (EOFError, ConnectionResetError):
                raise InvalidRequest("The file cannot be read: its reader was ended, as by a lack of memory.") from None
            if waiting is not None:
                self._rows += waiting.result()
                waiting = None
            match message:
                case ("batch", batch, size):
                    waiting = self._store.load_batch(self._target, self._arranged(batch), by=self._by)
                    if self._progress is not None:
                        self._progress(self._rows, min(size, self._size), self._size)
                case ("shape" | "again", _, fields):
                    connection.send(self._store.batch_maker(self._begin(fields)))
                case ("end", shape):
                    return self._end(shape)
                case ("fault", kind, parameter, text):
                    raise told_again(kind, parameter, text)

    @property
    def _target(self) -> Table:
        return self._table if self._draft is None else self._draft

    def _begin(self, fields: Sequence[Field]) -> Table:
        """The table that batches of these fields are made for."""
        self.give_up()
        self._rows = 0
        self._fields = fields
        if self._options.append:
            names = [item.name for item in fields]
            self._places = [names.index(item.name) if item.name in names else -1 for item in self._table.fields]
            known = {item.name: item for item in self._table.fields}
            return Table(0, "", 0, 0, fields=tuple(known[name] for name in names))
        known_info = {item.name: item.info for item in self._table.fields}
        self._fields = fields = tuple(replace(item, info=known_info.get(item.name, {})) for item in fields)
        self._change = self._shaped(fields)
        self._draft = self._store.draft(self._table, TableChange(fields)).result()
        return self._draft

    def _shaped(self, fields: tuple[Field, ...]) -> TableChange:
        """Key and indexes of the table that is made. Raises InvalidParameter if it can no longer be the procedure that
        its fields say it is."""
        names = {item.name for item in fields}
        key, indexes = self._options.key, self._options.indexes
        self._lost = []
        if not key:
            key = self._table.key if names.issuperset(self._table.key) else ()
            if key != self._table.key:
                self._lost.append(
                    f"the table has no key any more: the file lacks a field of {', '.join(self._table.key)}"
                )
        if not indexes:
            indexes = tuple(item for item in self._table.indexes if names.issuperset(item))
        return with_index(replace(self._table, fields=()), TableChange(fields, key, indexes))

    def _arranged(self, batch: Batch) -> Batch:
        """The columns of a file in the order of the table's fields; those it does not have are empty."""
        if self._places is None:
            return batch
        nothing = [None] * batch.length
        return Batch(
            batch.length,
            [nothing if place < 0 else batch.columns[place] for place in self._places],
            [None if place < 0 else batch.texts[place] for place in self._places],
        )

    def _end(self, shape: Shape) -> TableLoadReport:
        if self._draft is not None:
            self._store.publish_draft(self._table, self._draft, self._change, by=self._by).result()
            self._draft = None
        if self._progress is not None:
            self._progress(self._rows, self._size, self._size)
        fields = [(item.name, item.type_name) for item in self._fields]
        return TableLoadReport(
            self._rows, shape.format, shape.encoding, shape.delimiter, shape.header, fields, [*shape.notes, *self._lost]
        )

    def give_up(self) -> None:
        """Leave nothing of what was loaded so far."""
        draft, self._draft = self._draft, None
        if draft is not None:
            self._store.discard_draft(draft).result()
