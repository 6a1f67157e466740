"""Writing records: all of a request or none, by number or by key, with everything that is kept beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import apsw

from thalweg.domain.errors import ThalwegError
from thalweg.domain.table_values import BadValue, FieldType, coerce, plain_json
from thalweg.domain.tables import ROW_ID, BadRecord, Batch, Field, Method, Table, Written
from thalweg.store.sqlite.connection import Row
from thalweg.store.sqlite.table_cells import decode_rows, decoder, loader, texter, texts_of_rows
from thalweg.store.sqlite.table_log import State, append_log, count_in, count_out, pack
from thalweg.store.sqlite.table_plan import Plan
from thalweg.store.sqlite.table_shape import insert_text_statement, records_of, texts_of
from thalweg.store.sqlite.writer import Transaction

DELETE_STEP: Final = 2_000
"""Records deleted in one transaction; some ten milliseconds."""


class DryRunDone(ThalwegError):
    """How a dry run ends, so that all it did is undone."""

    def __init__(self, written: Written) -> None:
        super().__init__("dry run")
        self.written = written


class Form:
    """A table's fields as its records are read and written. Made anew with each generation of the table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.fields = table.fields
        self.loaders = [loader(field) for field in table.fields]
        self.texters = [texter(field) for field in table.fields]
        self.places = {field.name: place for place, field in enumerate(table.fields)}
        columns = "".join(f", f{field.number:d}" for field in table.fields)
        marks = ", ?" * len(table.fields)
        self.records = records_of(table.part)
        self.insert = f"INSERT INTO {self.records} (id{columns}) VALUES (?{marks})"
        self.insert_text = insert_text_statement(table)
        self.replace_text = insert_text_statement(table, again=True)
        self.decoders = _decoders(table.fields)
        self.select = f"SELECT id{columns} FROM {self.records} WHERE id = ?"
        sets = ", ".join(f"f{field.number:d} = ?" for field in table.fields)
        self.update = f"UPDATE {self.records} SET {sets} WHERE id = ?"
        self.key = [self.places[name] for name in table.key]
        key_columns = [self.fields[place] for place in self.key]
        self.find = f"SELECT id FROM {self.records} WHERE " + " AND ".join(map(_key_condition, key_columns))
        self.key_is_numeric = any(_is_numeric(field) for field in key_columns)


def _decoders(fields: Sequence[Field]) -> list[tuple[int, Callable[[Any], Any]]]:
    """By place in a row that its number leads."""
    made = ((place, decoder(field)) for place, field in enumerate(fields, 1))
    return [(place, decode) for place, decode in made if decode is not None]


def _is_numeric(field: Field) -> bool:
    return field.kind is FieldType.NUMERIC and not field.is_array


def _key_condition(field: Field) -> str:
    name = f"f{field.number:d}"
    # All spellings of a number: 1.5 and 1.50 are the same key.
    return f"({name} >= ? AND {name} < ?)" if _is_numeric(field) else f"{name} = ?"


def _key_bindings(form: Form, values: Sequence[Any]) -> list[Any]:
    from thalweg.store.codec.decimal_key import AFTER, decimal_key, decode_decimal

    bindings: list[Any] = []
    for place in form.key:
        value = values[place]
        if _is_numeric(form.fields[place]):
            key = None if value is None else decimal_key(decode_decimal(value))
            bindings += (key, None if key is None else key + AFTER)
        else:
            bindings.append(value)
    return bindings


MISSING: Final = object()
"""In place of the value of a field that a record does not have."""


@dataclass(slots=True)
class Prepared:
    """Records with their values as they are bound. ``numbers``: the ``_id`` that each was given with, or None."""

    form: Form
    method: Method
    rows: list[list[Any]]
    numbers: list[int | None]


def prepare(form: Form, method: Method, records: Sequence[Any]) -> Prepared:
    """Check and convert; needs no store. Raises BadRecord."""
    is_insert = method is Method.INSERT
    if not is_insert and not form.key and not all(isinstance(r, Mapping) and ROW_ID in r for r in records):
        raise BadRecord("table", "unique key must be passed for update/upsert")
    places, loaders = form.places, form.loaders
    width = len(form.fields)
    rows: list[list[Any]] = []
    numbers: list[int | None] = []
    default = None if is_insert else MISSING
    for index, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise BadRecord("records", f'row "{index}" is not a json object', index)
        row: list[Any] = [default] * width
        number: int | None = None
        for name, value in record.items():
            place = places.get(name)
            if place is None:
                if name == ROW_ID and not is_insert:
                    number = _row_id(value, index)
                    continue
                raise _unknown(name, record, places, index, is_insert)
            try:
                row[place] = loaders[place](value)
            except BadValue as error:
                raise BadRecord("records", str(error), index) from None
        if not is_insert and number is None:
            lacking = [form.fields[place].name for place in form.key if row[place] is MISSING]
            if lacking or not form.key:
                names = ", ".join(f'"{name}"' for name in lacking or [ROW_ID])
                raise BadRecord("key", f"fields {names} are missing but needed as key", index)
        rows.append(row)
        numbers.append(number)
    return Prepared(form, method, rows, numbers)


def _row_id(value: Any, index: int) -> int:
    try:
        number = coerce(FieldType.INT8, False, value)
    except BadValue as error:
        raise BadRecord("records", str(error), index) from None
    if not isinstance(number, int):
        raise BadRecord("key", f'fields "{ROW_ID}" are missing but needed as key', index)
    return number


def _unknown(name: str, record: Mapping[str, Any], places: Mapping[str, int], index: int, is_insert: bool) -> BadRecord:
    names = [str(key)[:100] for key in record if key not in places and (is_insert or key != ROW_ID)][:10]
    listed = '", "'.join(names)
    if is_insert:
        return BadRecord("records", f'row "{index + 1}" has extra keys "{listed}"', index)
    return BadRecord("fields", f'fields "{listed}" do not exist', index)


# ------------------------------------------------------------------ inside a transaction


def write(tx: Transaction, table: Table, prepared: Prepared, by: str) -> Written:
    """Write prepared records of the table as it is now. Raises BadRecord."""
    form = prepared.form
    if not prepared.rows:
        return Written(table, (), 0, 0)
    state = State.of(tx, table.id)
    if prepared.method is Method.INSERT:
        ids = _insert(tx, form, state, prepared.rows, by)
        state.store(tx, table.id)
        return Written(table, ids, len(ids), 0)
    numbers: list[int] = []
    inserted = updated = 0
    for index, (row, given) in enumerate(zip(prepared.rows, prepared.numbers, strict=True)):
        number = _find(tx, form, row, given)
        if number is not None:
            _update(tx, form, state, number, row, by, index)
            updated += 1
        elif prepared.method is Method.UPDATE or given is not None:
            key = {ROW_ID: given} if given is not None else _key_shown(form, row)
            raise BadRecord("key", f'key "{plain_json(key)}" not found', index)
        else:
            (number,) = _insert(tx, form, state, [[None if v is MISSING else v for v in row]], by, index)
            inserted += 1
        numbers.append(number)
    state.store(tx, table.id)
    return Written(table, tuple(numbers), inserted, updated)


def with_stored_rows(tx: Transaction, form: Form, done: Written) -> Written:
    """The same with what is stored now of each record that was written. One that came twice is there once."""
    rows = [tx.rows(form.select, (number,))[0] for number in dict.fromkeys(done.ids)]
    return replace(done, rows=decode_rows(rows, form.decoders))


def _key_shown(form: Form, row: list[Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for place in form.key:
        decode = decoder(form.fields[place])
        value = row[place]
        shown[form.fields[place].name] = value if decode is None or value is None else decode(value)
    return shown


def _find(tx: Transaction, form: Form, row: list[Any], given: int | None) -> int | None:
    if given is not None:
        found = tx.rows(f"SELECT id FROM {form.records} WHERE id = ?", (given,))
    else:
        found = tx.rows(form.find, _key_bindings(form, row))
    return int(found[0][0]) if found else None


def _insert(
    tx: Transaction, form: Form, state: State, rows: list[list[Any]], by: str, index: int = 0
) -> tuple[int, ...]:
    first = state.next_id
    numbered = [(first + i, *row) for i, row in enumerate(rows)]
    if form.key:
        _insert_keyed(tx, form, numbered, index)
    else:
        tx.many(form.insert, numbered)
    tx.many(form.insert_text, texts_of_rows(form.texters, numbered))
    last = first + len(rows) - 1
    state.next_id = last + 1
    state.count += len(rows)
    count_in(tx, form.table.id, first, last)
    append_log(tx, form.table.id, state, "insert", first, last, by)
    return tuple(range(first, last + 1))


def write_batch(tx: Transaction, table: Table, form: Form, batch: Batch, by: str) -> int:
    """Add the records of a batch to a table or draft as it is now; how many. Raises BadRecord."""
    if not batch.length:
        return 0
    state = State.of(tx, table.id)
    first = state.next_id
    last = first + batch.length - 1
    numbered = zip(range(first, last + 1), *batch.columns, strict=True)
    if form.key:
        _insert_keyed(tx, form, list(numbered), 0)
    else:
        tx.many(form.insert, numbered)
    texts = [column if text is None else text for column, text in zip(batch.columns, batch.texts, strict=True)]
    tx.many(form.insert_text, zip(range(first, last + 1), *texts, strict=True))
    state.next_id = last + 1
    state.count += batch.length
    count_in(tx, table.id, first, last)
    append_log(tx, table.id, state, "insert", first, last, by)
    state.store(tx, table.id)
    return batch.length


def _insert_keyed(tx: Transaction, form: Form, numbered: list[tuple[Any, ...]], index: int) -> None:
    """One by one, so that the record at fault can be named."""
    for place, row in enumerate(numbered):
        if form.key_is_numeric and tx.rows(form.find, _key_bindings(form, row[1:])):
            raise _duplicate(form, list(row[1:]), index + place)
        try:
            tx.rows(form.insert, row)
        except apsw.ConstraintError:
            raise _duplicate(form, list(row[1:]), index + place) from None


def _duplicate(form: Form, row: list[Any], index: int) -> BadRecord:
    return BadRecord(
        "records",
        f"duplicate key value violates unique constraint: key {plain_json(_key_shown(form, row))} already exists",
        index,
    )


def _update(tx: Transaction, form: Form, state: State, number: int, row: list[Any], by: str, index: int) -> None:
    before = tx.rows(form.select, (number,))[0][1:]
    after = [old if new is MISSING else new for old, new in zip(before, row, strict=True)]
    if form.key_is_numeric and any(row[place] is not MISSING for place in form.key):
        other = tx.rows(form.find, _key_bindings(form, after))
        if other and other[0][0] != number:
            raise _duplicate(form, after, index)
    try:
        if form.fields:
            tx.rows(form.update, (*after, number))
    except apsw.ConstraintError:
        raise _duplicate(form, after, index) from None
    tx.many(form.replace_text, texts_of_rows(form.texters, [(number, *after)]))
    append_log(tx, form.table.id, state, "update", number, number, by, pack(form.fields, before))


# ------------------------------------------------------------------ deleting


def delete_step(
    tx: Transaction, form: Form, made: Plan, after: int, last: int, by: str, keep: int
) -> tuple[int, int, list[Row]]:
    """Delete some of what a plan finds, by rising number, from behind ``after`` to ``last``.

    returns  how many, the number reached (``last``: all is done) and the first ``keep`` of them
    """
    columns = "".join(f", r.f{field.number:d}" for field in form.fields)
    condition = " AND ".join(part for part in (made.where, "r.id > ? AND r.id <= ?") if part)
    select = f"SELECT r.id{columns} FROM {made.source} WHERE {condition} ORDER BY r.id LIMIT {DELETE_STEP}"
    rows = tx.rows(select, (*made.bindings, after, last))
    if not rows:
        return 0, last, []
    table_id = form.table.id
    state = State.of(tx, table_id)
    numbers = [(row[0],) for row in rows]
    tx.many(f"DELETE FROM {form.records} WHERE id = ?", numbers)
    tx.many(f"DELETE FROM {texts_of(form.table.part)} WHERE rowid = ?", numbers)
    for row in rows:
        append_log(tx, table_id, state, "delete", row[0], row[0], by, pack(form.fields, row[1:]))
    count_out(tx, table_id, (row[0] for row in rows))
    state.count -= len(rows)
    state.shape += 1
    state.store(tx, table_id)
    reached = rows[-1][0] if len(rows) == DELETE_STEP else last
    return len(rows), reached, decode_rows(rows[:keep], form.decoders)
