"""Verifying tables: what is maintained against the records, and the records against their fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from thalweg.domain.errors import DamagedData
from thalweg.domain.store import Finding
from thalweg.domain.table_values import FieldType
from thalweg.domain.tables import Field, Table
from thalweg.store.codec.decimal_key import decode_decimal
from thalweg.store.sqlite.connection import Readers
from thalweg.store.sqlite.table_cells import texter
from thalweg.store.sqlite.table_entities import TABLE, TableCatalogue
from thalweg.store.sqlite.table_log import BLOCK_BITS, STATE, unpack
from thalweg.store.sqlite.table_shape import records_of, texts_of

STEP: Final = 5_000
STRAYS: Final = """
    SELECT DISTINCT table_id FROM {table} WHERE table_id NOT IN (SELECT id FROM package_resource)
        AND table_id NOT IN (SELECT table_id FROM table_removal) AND table_id NOT IN (SELECT -part FROM table_draft)"""
_WORD_INDEXES: Final = """
    SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%USING fts5%' AND sql NOT LIKE '%fts5vocab%'"""
_STORED: Final = {
    FieldType.TEXT: str, FieldType.INT4: int, FieldType.INT8: int, FieldType.FLOAT8: float, FieldType.NUMERIC: bytes,
    FieldType.BOOL: int, FieldType.DATE: str, FieldType.TIME: str, FieldType.TIMESTAMP: int,
    FieldType.TIMESTAMPTZ: int, FieldType.JSON: str,
}  # fmt: skip


def check_tables(readers: Readers) -> Iterator[Finding]:
    """Findings as they come. Each table is read in one snapshot; none is open while a finding is given out."""
    for name in ("table_state", "table_block", "table_change", "table_alias"):
        for (table_id,) in readers.rows(STRAYS.format(table=name)):
            yield Finding(f"table {table_id}", f"{name} has rows of this table, which is not there")
    for table in TableCatalogue(readers).active_tables():
        place = f"table {table.uuid}"
        findings: list[Finding] = []
        try:
            with readers.mine().snapshot():
                rows = readers.rows(TABLE, (table.id,))
                if rows and rows[0][7] == table.generation >> 32:
                    findings = [Finding(place, problem) for problem in _problems(readers, table)]
        except DamagedData as error:
            findings.append(Finding(place, error.message))
        yield from findings


def _problems(readers: Readers, table: Table) -> Iterator[str]:
    query = readers.mine().rows
    states = query(STATE, (table.id,))
    if not states:
        yield "it has no state"
        return
    _, _, count, next_id, sequence = states[0]
    columns = "".join(f", f{field.number:d}" for field in table.fields)
    blocks: Counter[int] = Counter()
    found = 0
    last = -(1 << 62)
    texters = [texter(field) for field in table.fields]
    statement = f"SELECT id{columns} FROM {records_of(table.part)} WHERE id > ? ORDER BY id LIMIT {STEP}"
    while rows := query(statement, (last,)):
        last = rows[-1][0]
        found += len(rows)
        blocks.update(row[0] >> BLOCK_BITS for row in rows)
        bad = [
            (row[0], field.name)
            for row in rows
            for field, value in zip(table.fields, row[1:], strict=True)
            if not _fits(field, value)
        ]
        for number, name in bad[:10]:
            yield f"record {number} has a value in '{name}' that is none of its type"
        if rows[0][0] < 1:
            yield f"there is a record with the number {rows[0][0]}"
        if not bad:
            yield from _words(query, table, texters, rows)
    if last >= next_id:
        yield f"there is a record with the number {last}, but the next one is to be {next_id}"
    if found != count:
        yield f"it has {found} records, its count says {count}"
    stored: dict[int, int] = dict(query("SELECT block, count FROM table_block WHERE table_id = ?", (table.id,)))
    for block in sorted(stored.keys() | blocks.keys()):
        if stored.get(block, 0) != blocks[block]:
            yield f"block {block} has {blocks[block]} records, its count says {stored.get(block, 0)}"
    texts = query(f"SELECT count(*) FROM {texts_of(table.part)}")[0][0]
    if texts != found:
        yield f"the index of words has {texts} records instead of {found}"
    log = query("SELECT sequence, before FROM table_change WHERE table_id = ? ORDER BY sequence", (table.id,))
    if [row[0] for row in log] != list(range(1, sequence + 1)):
        yield f"the change log is not 1 to {sequence}"
    for number, before in log:
        if before is not None:
            try:
                unpack(before)
            except (ValueError, TypeError, ArithmeticError):
                yield f"line {number} of the change log cannot be read"


def _fits(field: Field, value: Any) -> bool:
    if value is None:
        return True
    if field.is_array:
        return isinstance(value, str)
    if not isinstance(value, _STORED[field.kind]):
        return False
    if isinstance(value, bytes):
        try:
            decode_decimal(value)
        except (ValueError, IndexError):
            return False
    return True


def _words(query: Any, table: Table, texters: list[Any], rows: list[Any]) -> Iterator[str]:
    """Whether the first record of each batch that has a word is found by it; the whole would be to index all anew."""
    for row in rows:
        for field, text, value in zip(table.fields, texters, row[1:], strict=True):
            shown = value if text is None else text(value)
            words = [w for w in (shown or "").split() if any(letter.isalnum() for letter in w) and len(w) < 100]
            if not words:
                continue
            phrase = words[0].replace('"', '""')
            texts = texts_of(table.part)
            match = f'{{f{field.number:d}}} : "{phrase}"'
            if not query(f"SELECT 1 FROM {texts} WHERE {texts} MATCH ? AND rowid = ?", (match, row[0])):
                yield f"record {row[0]} is not found by a word of its '{field.name}'"
            return


def refresh_words(query: Any) -> None:
    """Have a connection look at every index of words, inside a snapshot: it may remember one as it was before others
    wrote, which PRAGMA integrity_check would take for damage."""
    for (name,) in query(_WORD_INDEXES):
        query(f"SELECT 1 FROM {name} WHERE {name} MATCH 'a' LIMIT 1")
