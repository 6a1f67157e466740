"""The SQL tables of a part: made with a table, changed with its fields, removed in steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import apsw

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.tables import (
    MAX_ALIASES,
    MAX_FIELD_NAME,
    MAX_FIELDS,
    MAX_INDEXES,
    BadRecord,
    Field,
    Table,
    TableChange,
    is_field_name,
)
from thalweg.store.sqlite.entity_writes import drop_grants_on
from thalweg.store.sqlite.package_files import take_file
from thalweg.store.sqlite.package_index import forget_resource
from thalweg.store.sqlite.table_cells import texter, texts_of_rows
from thalweg.store.sqlite.table_entities import FIND_ALIAS, FIND_UUID, store_table
from thalweg.store.sqlite.table_log import State, append_log
from thalweg.store.sqlite.writer import Transaction

NEW_PART: Final = "INSERT INTO table_part (table_id) VALUES (?) RETURNING id"
PUT_STATE: Final = "INSERT INTO table_state (table_id) VALUES (?) ON CONFLICT DO NOTHING"
PUT_ALIAS: Final = "INSERT INTO table_alias (name, table_id) VALUES (?, ?)"
DROP_ALIASES: Final = "DELETE FROM table_alias WHERE table_id = ?"
REMOVE: Final = "INSERT INTO table_removal (part, table_id) VALUES (?, ?) ON CONFLICT DO NOTHING"
REMOVALS: Final = "SELECT part, table_id FROM table_removal ORDER BY table_id, part"
REMOVED: Final = "DELETE FROM table_removal WHERE part = ? AND table_id = ?"
HAS_TABLE: Final = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
REMOVAL_STEP: Final = 5_000
"""Rows removed in one transaction; some ten milliseconds."""
REMOVE_LOG: Final = f"""
    DELETE FROM table_change WHERE table_id = ?1 AND sequence IN
        (SELECT sequence FROM table_change WHERE table_id = ?1 LIMIT {REMOVAL_STEP}) RETURNING 1"""
MIN_TEXT_COLUMNS: Final = 8
_REBUILD_ROWS: Final = 5_000


def records_of(part: int) -> str:
    return f"record_{part:d}"


def texts_of(part: int) -> str:
    return f"record_{part:d}_text"


def new_part(tx: Transaction, table: Table) -> Table:
    """Give a table, which has none or whose own is to be removed, an empty part; the row is the caller's to store."""
    part = int(tx.rows(NEW_PART, (table.id,))[0][0])
    columns = "".join(f", f{field.number:d} ANY" for field in table.fields)
    tx.rows(f"CREATE TABLE {records_of(part)} (id INTEGER PRIMARY KEY{columns}) STRICT")
    table = replace(table, part=part)
    _make_texts(tx, table)
    make_indexes(tx, table)
    return table


def _make_texts(tx: Transaction, table: Table) -> None:
    columns = ", ".join(f"f{number:d}" for number in range(1, table.text_columns + 1))
    # Without the texts, which the records have. Accents count, as they do for PostgreSQL; case does not.
    tx.rows(
        f"CREATE VIRTUAL TABLE {texts_of(table.part)} USING fts5({columns}, content='', contentless_delete=1, "
        "tokenize='unicode61 remove_diacritics 0')"
    )


def make_indexes(tx: Transaction, table: Table) -> None:
    numbers = {field.name: field.number for field in table.fields}
    records = records_of(table.part)

    def columns(names: Sequence[str]) -> str:
        return ", ".join(f"f{numbers[name]:d}" for name in names)

    try:
        if table.key:
            tx.rows(f"CREATE UNIQUE INDEX {records}_key ON {records} ({columns(table.key)})")
    except apsw.ConstraintError:
        raise BadRecord(
            "constraints", "Cannot insert records or create index because of uniqueness constraint"
        ) from None
    for number, names in enumerate(table.indexes, 1):
        tx.rows(f"CREATE INDEX {records}_i{number:d} ON {records} ({columns(names)})")


def _drop_indexes(tx: Transaction, part: int) -> None:
    for (name,) in tx.rows(
        "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL", (records_of(part),)
    ):
        tx.rows(f'DROP INDEX "{name}"')


def leave_part(tx: Transaction, table: Table) -> None:
    """Have a table's part removed later on."""
    if table.part:
        tx.rows(REMOVE, (table.part, table.id))


def removal_step(tx: Transaction, part: int, table_id: int) -> bool:
    """Remove some rows of a part, or of the log of a table, that is gone; whether there may be more."""
    if part == 0:
        if tx.rows(REMOVE_LOG, (table_id,)):
            return True
    else:
        # The index of words goes as a whole: it is pages, not rows.
        tx.rows(f"DROP TABLE IF EXISTS {texts_of(part)}")
        records = records_of(part)
        if tx.rows(HAS_TABLE, (records,)):
            _drop_indexes(tx, part)
            text = f"DELETE FROM {records} WHERE id IN (SELECT id FROM {records} LIMIT {REMOVAL_STEP}) RETURNING 1"
            if tx.rows(text):
                return True
            tx.rows(f"DROP TABLE {records}")
    tx.rows(REMOVED, (part, table_id))
    return False


# ------------------------------------------------------------------ altering


def alter(tx: Transaction, table: Table, change: TableChange) -> Table:
    """Bring a table to what the change says and store its row. Raises InvalidParameter, BadRecord."""
    numbered = fields_after(table, change)
    added = [field for field in numbered if field.number >= table.next_field]
    next_field = table.next_field + len(added)
    names = {field.name for field in numbered}
    key = key_after(table, change, numbered)
    indexes = change.indexes
    if indexes is None:
        indexes = tuple(index for index in table.indexes if names.issuperset(index))
    check_indexes(names, key, indexes)
    room = table.text_columns
    if next_field - 1 > room or not room:
        # SQLite has 2,000 columns to a table. Room for as many fields again spares indexing all anew with each new one.
        if next_field - 1 > 2 * MAX_FIELDS - 100:
            raise InvalidParameter("fields", "So many fields were added and taken away that there is no room for more.")
        room = max(MIN_TEXT_COLUMNS, min(2 * len(numbered), MAX_FIELDS), next_field - 1)
    changed = replace(
        table, fields=numbered, key=key, indexes=indexes, next_field=next_field, text_columns=room, active=True,
        modified_us=tx.now_us,
    )  # fmt: skip
    if change.aliases is not None:
        changed = replace(changed, aliases=set_aliases(tx, table, change.aliases))
    if not table.active:
        tx.rows(PUT_STATE, (table.id,))
        changed = new_part(tx, changed)
    else:
        for field in added:
            tx.rows(f"ALTER TABLE {records_of(table.part)} ADD COLUMN f{field.number:d} ANY")
        # Values of fields that are gone stay in their columns, which nobody reads: taking them out would write the
        # whole table anew. Their words have to go.
        gone = len(numbered) - len(added) != len(table.fields)
        if gone or room != table.text_columns:
            tx.rows(f"DROP TABLE {texts_of(table.part)}")
            _make_texts(tx, changed)
            _fill_texts(tx, changed)
        if (key, indexes) != (table.key, table.indexes):
            _drop_indexes(tx, table.part)
            make_indexes(tx, changed)
    return store_table(tx, changed)


def _fill_texts(tx: Transaction, table: Table) -> None:
    """Index all records anew, in one transaction: the price of taking a field away."""
    texters = [texter(field) for field in table.fields]
    columns = "".join(f", f{field.number:d}" for field in table.fields)
    select = f"SELECT id{columns} FROM {records_of(table.part)} WHERE id > ? ORDER BY id LIMIT {_REBUILD_ROWS}"
    insert = insert_text_statement(table)
    last = -1
    while rows := tx.rows(select, (last,)):
        tx.many(insert, texts_of_rows(texters, rows))
        last = rows[-1][0]


def insert_text_statement(table: Table, *, again: bool = False) -> str:
    """Index a new record's texts: its number, then the texts of its fields in order. ``again``: of one that may be
    indexed already, which costs a fifth more."""
    columns = "".join(f", f{field.number:d}" for field in table.fields)
    marks = ", ?" * len(table.fields)
    verb = "INSERT OR REPLACE" if again else "INSERT"
    return f"{verb} INTO {texts_of(table.part)} (rowid{columns}) VALUES (?{marks})"


def fields_after(table: Table, change: TableChange) -> tuple[Field, ...]:
    """The fields that a change leaves, new ones numbered. Raises InvalidParameter."""
    number = table.next_field
    numbered: list[Field] = []
    for field in _fields_after(table, change):
        if field.number == 0:
            field = replace(field, number=number)
            number += 1
        numbered.append(field)
    return tuple(numbered)


def key_after(table: Table, change: TableChange, fields: Sequence[Field]) -> tuple[str, ...]:
    """The key that a change leaves: one whose fields are not all there any more goes."""
    if change.key is not None:
        return change.key
    names = {field.name for field in fields}
    return table.key if names.issuperset(table.key) else ()


def _fields_after(table: Table, change: TableChange) -> list[Field]:
    if change.fields is None:
        return list(table.fields)
    known = {field.name: field for field in table.fields}
    after: list[Field] = []
    seen: set[str] = set()
    for field in change.fields:
        if field.name in seen:
            raise InvalidParameter("field", "Duplicate column names are not supported")
        seen.add(field.name)
        check_field_name(field.name)
        old = known.pop(field.name, None)
        if old is None:
            after.append(replace(field, number=0))
            continue
        if (old.kind, old.is_array) != (field.kind, field.is_array):
            raise InvalidParameter(
                "fields", f'The type of the field "{field.name}" is {old.type_name} and cannot be changed.'
            )
        after.append(replace(old, info=field.info if field.info else old.info))
    if not change.delete_fields:
        # Fields that are not named keep their place before the new ones.
        left = [field for field in table.fields if field.name in known]
        if left:
            after = [f for f in after if f.number] + left + [f for f in after if not f.number]
    if len(after) > MAX_FIELDS:
        raise InvalidParameter("fields", f"A table has at most {MAX_FIELDS} fields.")
    return after


def check_field_name(name: str) -> None:
    """Raises InvalidParameter ``fields``."""
    if len(name.encode("utf-8", "replace")) > MAX_FIELD_NAME:
        raise InvalidParameter("fields", f'Column heading "{name[:200]}" exceeds limit of {MAX_FIELD_NAME} characters.')
    if not is_field_name(name):
        raise InvalidParameter("fields", f'"{name}" is not a valid field name')


def check_indexes(names: set[str], key: tuple[str, ...], indexes: tuple[tuple[str, ...], ...]) -> None:
    for parameter, index in [("primary_key", key), *(("index", index) for index in indexes)]:
        if parameter == "index" and not index:
            raise InvalidParameter("index", "An index has at least one field.")
        for name in index:
            if name not in names:
                # Told of an index also where it is that of the key, and of all its fields, as CKAN does.
                shown = name if parameter == "index" and len(index) == 1 else str(list(index))
                raise InvalidParameter("index", f'The field "{shown[:400]}" is not a valid column name.')
        if len(set(index)) != len(index):
            raise InvalidParameter(parameter, "A field is named twice.")
    if len(indexes) > MAX_INDEXES:
        raise InvalidParameter("index", f"A table has at most {MAX_INDEXES} indexes.")


def set_aliases(tx: Transaction, table: Table, aliases: tuple[str, ...]) -> tuple[str, ...]:
    if len(aliases) > MAX_ALIASES:
        raise InvalidParameter("alias", f"A table has at most {MAX_ALIASES} aliases.")
    tx.rows(DROP_ALIASES, (table.id,))
    for name in aliases:
        if not is_field_name(name) or "%" in name or len(name.encode("utf-8", "replace")) > MAX_FIELD_NAME:
            raise InvalidParameter("alias", f'"{name[:200]}" is not a valid alias name')
        if tx.rows(FIND_ALIAS, (name,)) or tx.rows(FIND_UUID, (name,)):
            raise InvalidParameter("alias", f'The alias "{name[:200]}" already exists.')
        tx.rows(PUT_ALIAS, (name, table.id))
    return aliases


def drop(tx: Transaction, table: Table, by: str) -> Table:
    """Take the table of a resource away; its change log goes on. The row is the caller's to store."""
    clear(tx, table, by, restart=True)
    leave_part(tx, table)
    tx.rows(DROP_ALIASES, (table.id,))
    return replace(
        table, active=False, part=0, fields=(), key=(), indexes=(), aliases=(), text_columns=0, next_field=1
    )  # fmt: skip


def clear(tx: Transaction, table: Table, by: str, *, restart: bool = False) -> int:
    """Say that there are no records any more; how many there were. ``restart``: number new ones from 1 again."""
    state = State.of(tx, table.id)
    if state.next_id > 1:
        append_log(tx, table.id, state, "truncate", 1, state.next_id - 1, by)
    count, state.count = state.count, 0
    state.shape += 1
    if restart:
        state.next_id = 1
    state.store(tx, table.id)
    tx.rows("DELETE FROM table_block WHERE table_id = ?", (table.id,))
    return count


def delete(tx: Transaction, table: Table, by: str) -> None:
    """Take a resource away with its table and log."""
    if table.active:
        drop(tx, table, by)
    tx.rows("DELETE FROM table_state WHERE table_id = ?", (table.id,))
    tx.rows(REMOVE, (0, table.id))
    drop_grants_on(tx, table.workspace_id, "table", table.id)
    take_file(tx, table, None)
    forget_resource(tx, table)
    tx.rows("DELETE FROM table_job WHERE table_id = ?", (table.id,))
    tx.rows("DELETE FROM package_resource WHERE id = ?", (table.id,))
