"""The part of the embedded store that keeps packages, resources and tables."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from thalweg.domain.access import Actor, actor
from thalweg.domain.errors import NotFound, ThalwegError
from thalweg.domain.tables import (
    EVERYTHING,
    BadRecord,
    Batch,
    Condition,
    Method,
    Package,
    RecordChange,
    Search,
    Table,
    TableChange,
    TableFigures,
    TableQuery,
    Written,
)
from thalweg.store.sqlite import table_drafts, table_entities, table_log, table_shape
from thalweg.store.sqlite.audit import differences, record
from thalweg.store.sqlite.connection import Readers, Row
from thalweg.store.sqlite.entity_writes import drop_grants_on
from thalweg.store.sqlite.package_index import forget_package
from thalweg.store.sqlite.table_batches import batch_maker
from thalweg.store.sqlite.table_entities import TableCatalogue, package_in, store_table, table_in
from thalweg.store.sqlite.table_plan import plan
from thalweg.store.sqlite.table_reading import TableReader
from thalweg.store.sqlite.table_writing import (
    DryRunDone,
    Form,
    Prepared,
    delete_step,
    prepare,
    with_stored_rows,
    write,
    write_batch,
)
from thalweg.store.sqlite.writer import Transaction, Writer

_log = logging.getLogger(__name__)

LOAD_STEP: Final = 10_000
"""Records of one transaction of a load; some fifty milliseconds of the lock."""
_MAX_FORMS: Final = 256


class TablePart:
    """See ``domain.tables.TableStore``. Mixed into the store, which calls ``_open_tables``."""

    _table_readers: Readers
    _table_writer: Writer
    _table_relieve: Callable[[], None]
    _table_catalogue: TableCatalogue
    _table_reader: TableReader
    _forms: dict[int, Form]
    _forms_lock: threading.Lock

    def _open_tables(self, readers: Readers, writer: Writer, relieve: Callable[[], None]) -> None:
        """``relieve``: called between the transactions of long writes, to keep the log short."""
        self._table_readers = readers
        self._table_writer = writer
        self._table_relieve = relieve
        self._table_catalogue = TableCatalogue(readers)
        self._table_reader = TableReader(readers)
        self._forms = {}
        self._forms_lock = threading.Lock()

    def _form(self, table: Table) -> Form:
        known = self._forms.get(table.id)
        if known is not None and known.table.generation == table.generation:
            return known
        made = Form(table)
        with self._forms_lock:
            if len(self._forms) >= _MAX_FORMS:
                self._forms.clear()
            self._forms[table.id] = made
        return made

    # -------------------------------------------------------------- packages and resources

    def package(self, key: str) -> Package:
        return self._table_catalogue.package(key)

    def package_with(self, package_id: int) -> Package:
        return self._table_catalogue.package_with(package_id)

    def packages(self) -> list[Package]:
        return self._table_catalogue.packages()

    def put_package(
        self, package: Package, resources: Sequence[Table] = (), *, by: Actor | str = ""
    ) -> Future[Package]:
        def work(tx: Transaction) -> Package:
            before = package_in(tx, package.id) if package.id else None
            stored = table_entities.put_package(tx, package)
            verb = "change" if package.id else "add"
            record(tx, by, f"{verb} package", stored.name, differences(before, stored, _LEFT_OUT), stored.workspace_id)
            for resource in resources:
                table_entities.put_resource(tx, replace(resource, id=0, package_id=stored.id))
            return stored

        return self._table_writer.submit(work)

    def purge_package(self, package_id: int, *, by: Actor | str = "") -> Future[None]:
        def work(tx: Transaction) -> None:
            package = package_in(tx, package_id)
            count = 0
            for number, _, _ in tx.rows(table_entities.TABLES_OF, (package_id,)):
                table_shape.delete(tx, table_in(tx, number), actor(by).name)
                count += 1
            drop_grants_on(tx, package.workspace_id, "package", package_id)
            forget_package(tx, package_id)
            tx.rows("DELETE FROM package_group_member WHERE package_id = ?", (package_id,))
            tx.rows(table_entities.DELETE_PACKAGE, (package_id,))
            record(tx, by, "purge package", package.name, f"{count} resources", package.workspace_id)

        return self._table_writer.submit(work, frees_space=True)

    def table(self, key: str) -> Table:
        return self._table_catalogue.table(key)

    def tables(self, package_id: int) -> list[Table]:
        return self._table_catalogue.tables(package_id)

    def active_tables(self) -> list[Table]:
        return self._table_catalogue.active_tables()

    def declared_tables(self) -> list[Table]:
        return self._table_catalogue.declared_tables()

    def put_resource(self, table: Table, *, by: Actor | str = "") -> Future[Table]:
        def work(tx: Transaction) -> Table:
            stored = table_entities.put_resource(tx, table)
            verb = "change" if table.id else "add"
            record(tx, by, f"{verb} resource", stored.uuid, f"name: {stored.name!r}", stored.workspace_id)
            return stored

        return self._table_writer.submit(work)

    def delete_resource(self, table_id: int, *, by: Actor | str = "") -> Future[None]:
        def work(tx: Transaction) -> None:
            table = table_in(tx, table_id)
            table_shape.delete(tx, table, actor(by).name)
            table_entities.touch_package(tx, table.package_id)
            record(tx, by, "delete resource", table.uuid, f"name: {table.name!r}", table.workspace_id)

        return self._table_writer.submit(work, frees_space=True)

    # -------------------------------------------------------------- tables

    def alter_table(
        self,
        table: Table,
        change: TableChange,
        records: Sequence[Mapping[str, Any]] = (),
        *,
        method: Method = Method.INSERT,
        with_rows: bool = False,
        by: Actor | str = "",
    ) -> Future[Written]:
        expected = _expected(table, change)
        prepared: Prepared | None = None
        if expected is not None and records:
            # Outside of the transaction, where it keeps nobody waiting.
            try:
                prepared = prepare(Form(expected), method, records)
            except ThalwegError as error:
                _log.debug("records are read anew within the transaction: %s", error.message)

        def work(tx: Transaction) -> Written:
            now = table_entities.put_resource(tx, table) if table.id == 0 else table_in(tx, table.id)
            was_active = now.active
            now = table_shape.alter(tx, now, change)
            verb = "change" if was_active else "create"
            names = ", ".join(field.name for field in now.fields)
            record(tx, by, f"{verb} table", now.uuid, f"{names}; {len(records)} records", now.workspace_id)
            # Not remembered: the transaction may yet be undone.
            form = Form(now)
            ready = prepared
            if ready is None or expected is None or (now.fields, now.key) != (expected.fields, expected.key):
                ready = prepare(form, method, records)
            done = write(tx, now, replace(ready, form=form), actor(by).name)
            return with_stored_rows(tx, form, done) if with_rows else done

        return self._table_writer.submit(work)

    def write_records(
        self,
        table: Table,
        method: Method,
        records: Sequence[Mapping[str, Any]],
        *,
        dry_run: bool = False,
        with_rows: bool = False,
        by: Actor | str = "",
    ) -> Future[Written]:
        who = actor(by).name
        try:
            prepared = prepare(self._form(table), method, records)
        except ThalwegError as error:
            refused: Future[Written] = Future()
            refused.set_exception(error)
            return refused

        def work(tx: Transaction) -> Written:
            now, ready = self._now(tx, table, prepared, records)
            done = write(tx, now, ready, who)
            if with_rows:
                done = with_stored_rows(tx, ready.form, done)
            if dry_run:
                raise DryRunDone(done)
            return done

        # A plain insert into a table without a key cannot fail once it has begun.
        alone = method is Method.INSERT and not table.key and not dry_run
        future = self._table_writer.submit(work, decides_first=alone)
        return _undone(future) if dry_run else future

    @staticmethod
    def _now(
        tx: Transaction, table: Table, prepared: Prepared, records: Sequence[Mapping[str, Any]]
    ) -> tuple[Table, Prepared]:
        """The table as it is in the transaction, with the records read for that."""
        stamp = tx.rows(_GENERATION, (table.id,))
        if stamp and stamp[0][0] == table.generation >> 32:
            return table, prepared
        now = active_in(tx, table)
        return now, prepare(Form(now), prepared.method, records)

    # -------------------------------------------------------------- loading

    def batch_maker(self, table: Table) -> Callable[[Sequence[Sequence[Any]]], Batch]:
        return batch_maker(table.fields)

    def draft(self, table: Table, change: TableChange) -> Future[Table]:
        return self._table_writer.submit(lambda tx: table_drafts.make_draft(tx, table_in(tx, table.id), change))

    def load_batch(self, table: Table, batch: Batch, *, by: Actor | str = "") -> Future[int]:
        form = self._form(table)
        who = actor(by).name

        def work(tx: Transaction) -> int:
            if table.id < 0:
                table_drafts.touch(tx, table)
                return write_batch(tx, table, form, batch, who)
            now = active_in(tx, table)
            if now.part != table.part or now.fields != table.fields:
                raise NotFound("resource_id", "The table was changed while it was loaded.")
            return write_batch(tx, now, form, batch, who)

        return self._table_writer.submit(work)

    def publish_draft(self, table: Table, draft: Table, change: TableChange, *, by: Actor | str = "") -> Future[Table]:
        def work(tx: Transaction) -> Table:
            made = table_drafts.publish(tx, table.id, draft, change, actor(by).name)
            count = table_log.State.of(tx, made.id).count
            names = ", ".join(field.name for field in made.fields)
            record(tx, by, "load table", made.uuid, f"{names}; {count:,} records", made.workspace_id)
            return made

        return self._table_writer.submit(work)

    def discard_draft(self, draft: Table) -> Future[None]:
        def work(tx: Transaction) -> None:
            table_drafts.discard(tx, draft.part)

        return self._table_writer.submit(work, frees_space=True)

    def load_records(self, table: Table, rows: Iterable[Sequence[Any]], *, by: Actor | str = "") -> int:
        make = self.batch_maker(table)
        total = done = 0
        waiting: Future[int] | None = None
        source = iter(rows)
        while True:
            # While a step is written the next one is read.
            taken = list(islice(source, LOAD_STEP))
            batch = _batch_of(make, taken, len(table.fields), total) if taken else None
            if waiting is not None:
                done += waiting.result()
                self._table_relieve()
            if batch is None:
                return done
            waiting = self.load_batch(table, batch, by=by)
            total += len(taken)

    def delete_records(
        self, table: Table, where: Condition, *, by: Actor | str = "", keep: int = 0
    ) -> tuple[int, list[Row]]:
        who = actor(by).name
        kept: list[Row] = []
        if where == EVERYTHING:
            if keep:
                for rows in self.records(table, TableQuery(limit=keep)):
                    kept += rows

            def clear(tx: Transaction) -> int:
                now = active_in(tx, table)
                table_shape.leave_part(tx, now)
                count = table_shape.clear(tx, now, who)
                store_table(tx, table_shape.new_part(tx, replace(now, part=0)))
                record(tx, by, "delete records", now.uuid, f"all {count:,}", now.workspace_id)
                return count

            return self._table_writer.submit(clear, frees_space=True).result(), kept
        plan(table, TableQuery(where=where))
        after, last, total = -1, self._table_reader.figures(table).next_id - 1, 0

        def delete(tx: Transaction) -> tuple[int, int, list[Row]]:
            now = active_in(tx, table)
            if now.part != table.part:
                # All records that there were then are gone, and those that there are now came later.
                return 0, last, []
            made = plan(now, TableQuery(where=where, total=False))
            done = delete_step(tx, Form(now), made, after, last, who, keep - len(kept))
            if done[0] and done[1] == last:
                record(tx, by, "delete records", now.uuid, f"{total + done[0]:,}", now.workspace_id)
            return done

        while after < last:
            count, after, rows = self._table_writer.submit(delete, frees_space=True).result()
            total += count
            kept += rows
            self._table_relieve()
        return total, kept

    def drop_table(self, table: Table, *, by: Actor | str = "") -> Future[None]:
        def work(tx: Transaction) -> None:
            now = active_in(tx, table)
            store_table(tx, table_shape.drop(tx, now, actor(by).name))
            record(tx, by, "drop table", now.uuid, "", now.workspace_id)

        return self._table_writer.submit(work, frees_space=True)

    # -------------------------------------------------------------- reading

    def search(self, table: Table, query: TableQuery) -> Search:
        return self._table_reader.search(table, query)

    def records(self, table: Table, query: TableQuery) -> Iterator[list[Row]]:
        return self._table_reader.records(table, query)

    def record_columns(self, table: Table, query: TableQuery) -> Iterator[list[Sequence[Any]]]:
        return self._table_reader.columns(table, query)

    def table_figures(self, table: Table) -> TableFigures:
        return self._table_reader.figures(table)

    def record_changes(self, table: Table, after: int = 0, *, limit: int = 1000) -> list[RecordChange]:
        return table_log.changes(self._table_readers, table.id, after, limit)


_LEFT_OUT: Final = ("generation", "uuid", "id", "modified_us", "created_us")
_GENERATION: Final = "SELECT generation FROM package_resource WHERE id = ? AND active"


def _expected(table: Table, change: TableChange) -> Table | None:
    """A table as it will be, as far as records are read by it; None: the change will be refused."""
    try:
        fields = table_shape.fields_after(table, change)
    except ThalwegError:
        return None
    key = table_shape.key_after(table, change, fields)
    if not {field.name for field in fields}.issuperset(key):
        return None
    return replace(table, fields=fields, key=key)


def active_in(tx: Transaction, table: Table) -> Table:
    """A table as it is now. Raises NotFound once it has gone."""
    now = table_in(tx, table.id)
    if not now.active:
        raise table_entities.no_table(table.uuid)
    return now


def _batch_of(
    make: Callable[[Sequence[Sequence[Any]]], Batch], rows: list[Sequence[Any]], width: int, before: int
) -> Batch:
    """Rows as a batch; BadRecord counts on from the rows before."""
    for index, row in enumerate(rows):
        if len(row) != width:
            raise BadRecord("records", f"The row has {len(row)} values for {width} fields.", before + index)
    if not width:
        raise BadRecord("records", "A table without fields is not loaded.", before)
    try:
        return make(list(zip(*rows, strict=True)))
    except BadRecord as error:
        raise BadRecord("records", error.message, before + (error.row or 0)) from None


def _undone(future: Future[Written]) -> Future[Written]:
    """A dry run's future: its result is what the end of the work brought along."""
    outer: Future[Written] = Future()

    def settle(done: Future[Written]) -> None:
        error = done.exception()
        if isinstance(error, DryRunDone):
            outer.set_result(error.written)
        elif error is not None:
            outer.set_exception(error)
        else:  # pragma: no cover (a dry run never returns)
            outer.set_result(done.result())

    future.add_done_callback(settle)
    return outer
