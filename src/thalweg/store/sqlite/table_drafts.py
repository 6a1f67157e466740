"""Drafts: tables that are loaded unseen, and take the place of another's records at once.

A draft keeps its state, blocks and log under a number of its own, minus that of its part, so that it is in nobody's
way; what a crash leaves of it is removed when it has not been written to for an hour.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from thalweg.domain.errors import NotFound
from thalweg.domain.tables import MAX_FIELDS, Table, TableChange
from thalweg.store.sqlite import table_shape
from thalweg.store.sqlite.table_entities import store_table, table_in
from thalweg.store.sqlite.table_log import State, append_log
from thalweg.store.sqlite.writer import Transaction

LEFT_AFTER_US: Final = 3_600_000_000
LEFT: Final = "SELECT part FROM table_draft WHERE at_us < ? ORDER BY part"
PUT: Final = "INSERT INTO table_draft (part, at_us) VALUES (?, ?)"
TOUCH: Final = "UPDATE table_draft SET at_us = ? WHERE part = ? RETURNING part"
DROP: Final = "DELETE FROM table_draft WHERE part = ? RETURNING part"
_OWN: Final = ("table_state", "table_block", "table_change")


def make_draft(tx: Transaction, table: Table, change: TableChange) -> Table:
    """See ``TableStore.draft``."""
    blank = Table(0, table.uuid, table.workspace_id, table.package_id)
    fields = table_shape.fields_after(blank, change)
    room = max(table_shape.MIN_TEXT_COLUMNS, min(2 * len(fields), MAX_FIELDS), len(fields))
    shape = replace(blank, id=table.id, fields=fields, next_field=len(fields) + 1, text_columns=room)
    made = table_shape.new_part(tx, shape)
    tx.rows(PUT, (made.part, tx.now_us))
    tx.rows(table_shape.PUT_STATE, (-made.part,))
    return replace(made, id=-made.part, active=True)


def touch(tx: Transaction, draft: Table) -> None:
    """Say that a draft is still written to. Raises NotFound."""
    if not tx.rows(TOUCH, (tx.now_us, draft.part)):
        raise _gone()


def publish(tx: Transaction, table_id: int, draft: Table, change: TableChange, by: str) -> Table:
    """See ``TableStore.publish_draft``."""
    if not tx.rows(DROP, (draft.part,)):
        raise _gone()
    now = table_in(tx, table_id)
    if now.active:
        table_shape.clear(tx, now, by, restart=True)
        table_shape.leave_part(tx, now)
    tx.rows(table_shape.PUT_STATE, (now.id,))
    loaded, state = State.of(tx, draft.id), State.of(tx, now.id)
    state.count, state.next_id = loaded.count, loaded.next_id
    if loaded.next_id > 1:
        append_log(tx, now.id, state, "insert", 1, loaded.next_id - 1, by)
    state.shape += 1
    state.store(tx, now.id)
    tx.rows("UPDATE table_block SET table_id = ? WHERE table_id = ?", (now.id, draft.id))
    _forget(tx, draft.id)
    changed = replace(
        now, active=True, part=draft.part, fields=draft.fields, key=change.key or (), indexes=change.indexes or (),
        text_columns=draft.text_columns, next_field=draft.next_field, modified_us=tx.now_us,
    )  # fmt: skip
    table_shape.check_indexes({field.name for field in changed.fields}, changed.key, changed.indexes)
    if change.aliases is not None:
        changed = replace(changed, aliases=table_shape.set_aliases(tx, now, change.aliases))
    table_shape.make_indexes(tx, changed)
    return store_table(tx, changed)


def discard(tx: Transaction, part: int) -> bool:
    """Give a draft up; False, as there is no more of it to do but what removal does."""
    if tx.rows(DROP, (part,)):
        _forget(tx, -part)
        tx.rows(table_shape.REMOVE, (part, -part))
    return False


def _forget(tx: Transaction, number: int) -> None:
    for name in _OWN:
        tx.rows(f"DELETE FROM {name} WHERE table_id = ?", (number,))


def _gone() -> NotFound:
    return NotFound("resource_id", "The table that was loaded was given up, or took its place already.")
