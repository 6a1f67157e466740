"""Random sequences of writes to a table, by two processes' stores, against plain dictionaries.

After every step all that can be asked for equals what is recomputed from the dictionaries: records bit for bit, totals,
any offset from both ends, comparisons by every operator with and without an index, words, and the change log played
back.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from tests.store.support import BACKENDS, bits
from tests.store.table_support import alter, find, make, write

from thalweg.domain.store import Store
from thalweg.domain.table_values import FieldType
from thalweg.domain.tables import (
    EVERYTHING,
    BadRecord,
    Compare,
    Field,
    Method,
    Operator,
    SortKey,
    Table,
    TableQuery,
    TextTerm,
)

WORDS = ("alpha", "Beta", "2020-Q4", "Sistēmas", "the end", "alphabet")
VALUES: dict[FieldType, st.SearchStrategy[Any]] = {
    FieldType.TEXT: st.one_of(st.none(), st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join)),
    FieldType.INT4: st.one_of(st.none(), st.integers(-2, 5)),
    FieldType.FLOAT8: st.one_of(st.none(), st.sampled_from([-0.0, 0.0, 0.1 + 0.2, 1e300, -5e-324, 2.5])),
    FieldType.NUMERIC: st.one_of(
        st.none(),
        st.sampled_from(["0", "0.00", "-1.5", "-1.50", "1.5", "10", "10.0", "0.001", f"{10**30}.5"]),
        st.decimals(-1000, 1000, allow_nan=False, allow_infinity=False, places=3).map(str),
    ),
}  # fmt: skip
START = (Field("key", FieldType.INT4), Field("text", FieldType.TEXT), Field("exact", FieldType.NUMERIC))
MORE = (Field("x", FieldType.FLOAT8), Field("note", FieldType.TEXT), Field("exact", FieldType.NUMERIC))
Record = dict[str, Any]


def cell(kind: FieldType, value: Any) -> Any:
    """What is read of a value that was written."""
    if value is None:
        return None
    return Decimal(value) if kind is FieldType.NUMERIC else value


def tokens(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def text_of(kind: FieldType, value: Any) -> str:
    """What words are looked for in."""
    if value is None:
        return ""
    if kind is FieldType.NUMERIC:
        return format(value, "f")
    return value if kind is FieldType.TEXT else ""


class TableMachine(RuleBasedStateMachine):
    backend_name = ""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="thalweg-tables-"))
        self.backend = BACKENDS[self.backend_name](self.folder)
        self.stores: list[Store] = [self.backend.open(), self.backend.open()]
        self.turn = 0
        self.records: dict[int, Record] = {}
        self.fields: list[Field] = []
        self.key: tuple[str, ...] = ()
        self.next_id = 1
        self.uuid = ""

    def teardown(self) -> None:
        try:
            for _ in range(5):
                self.stores[0].maintain()
            assert list(self.stores[1].check()) == []
        finally:
            self.backend.close()
            shutil.rmtree(self.folder)

    @initialize(keyed=st.booleans(), indexed=st.booleans())
    def begin(self, keyed: bool, indexed: bool) -> None:
        self.fields = list(START)
        self.key = ("key",) if keyed else ()
        indexes = (("text",), ("exact", "key")) if indexed else ()
        self.uuid = make(self.stores[0], START, key=self.key, indexes=indexes).uuid

    @property
    def store(self) -> Store:
        self.turn += 1
        return self.stores[self.turn % 2]

    def table(self, store: Store) -> Table:
        return store.table(self.uuid)

    def draw_record(self, data: st.DataObject) -> Record:
        names = data.draw(st.sets(st.sampled_from([f.name for f in self.fields])), label="names")
        return {f.name: data.draw(VALUES[f.kind], label=f.name) for f in self.fields if f.name in names}

    def cells(self, record: Record) -> Record:
        kinds = {field.name: field.kind for field in self.fields}
        return {name: cell(kinds[name], value) for name, value in record.items()}

    def taken(self, records: dict[int, Record], record: Record, but: int | None = None) -> bool:
        if not self.key or any(record.get(name) is None for name in self.key):
            return False
        return any(
            number != but and all(other[name] == record[name] for name in self.key) for number, other in records.items()
        )

    # -------------------------------------------------------------- rules

    @rule(data=st.data(), count=st.integers(1, 4))
    def insert(self, data: st.DataObject, count: int) -> None:
        given = [self.draw_record(data) for _ in range(count)]
        after = dict(self.records)
        place = None
        for index, record in enumerate(given):
            whole = {f.name: None for f in self.fields} | self.cells(record)
            if self.taken(after, whole):
                place = index
                break
            after[self.next_id + index] = whole
        store = self.store
        if place is not None:
            with pytest.raises(BadRecord) as refused:
                write(store, self.table(store), Method.INSERT, *given)
            assert refused.value.row == place
            return
        done = write(store, self.table(store), Method.INSERT, *given)
        assert done.ids == tuple(range(self.next_id, self.next_id + count))
        self.next_id += count
        self.records = after

    @rule(data=st.data(), count=st.integers(1, 3), method=st.sampled_from([Method.UPDATE, Method.UPSERT]))
    def change(self, data: st.DataObject, count: int, method: Method) -> None:
        after, next_id, bad = {n: dict(r) for n, r in self.records.items()}, self.next_id, False
        given = []
        for _ in range(count):
            record = self.draw_record(data)
            known = data.draw(st.sampled_from([0, *self.records]), label="number")
            if known or not self.key:
                record["_id"] = known
                found = known if known in after else None
            else:
                record.setdefault("key", data.draw(VALUES[FieldType.INT4], label="key"))
                found = next(
                    (n for n, r in after.items() if record["key"] is not None and r["key"] == record["key"]), None
                )
            given.append(record)
            cells = self.cells({name: value for name, value in record.items() if name != "_id"})
            if bad:
                continue
            if found is not None:
                after[found].update(cells)
                bad = self.taken(after, after[found], found)
            elif method is Method.UPDATE or "_id" in record:
                bad = True
            else:
                after[next_id] = {f.name: None for f in self.fields} | cells
                next_id += 1
        store = self.store
        if bad:
            with pytest.raises(BadRecord):
                write(store, self.table(store), method, *given)
            return
        write(store, self.table(store), method, *given)
        self.records, self.next_id = after, next_id

    @rule(value=st.integers(-2, 5), operator=st.sampled_from([Operator.EQ, Operator.LT, Operator.GTE]))
    def delete(self, value: int, operator: Operator) -> None:
        if not any(f.name == "key" for f in self.fields):
            return
        store = self.store
        where = Compare("key", operator, (value,))
        gone = [n for n, r in self.records.items() if holds(r["key"], operator, value)]
        count, kept = store.delete_records(self.table(store), where, keep=2)
        assert count == len(gone)
        assert [row[0] for row in kept] == sorted(gone)[:2]
        for number in gone:
            del self.records[number]

    @rule()
    def delete_all(self) -> None:
        store = self.store
        assert store.delete_records(self.table(store), EVERYTHING)[0] == len(self.records)
        self.records = {}

    @rule(field=st.sampled_from(MORE))
    def add_field(self, field: Field) -> None:
        if any(f.name == field.name for f in self.fields):
            return
        store = self.store
        alter(store, self.table(store), fields=(*self.fields, field))
        self.fields.append(field)
        for record in self.records.values():
            record[field.name] = None

    @rule(name=st.sampled_from(["exact", "x", "note"]))
    def drop_field(self, name: str) -> None:
        left = [f for f in self.fields if f.name != name]
        if len(left) == len(self.fields):
            return
        store = self.store
        alter(store, self.table(store), fields=tuple(left), delete_fields=True)
        self.fields = left
        for record in self.records.values():
            del record[name]

    @rule(keyed=st.booleans())
    def set_key(self, keyed: bool) -> None:
        values = [r["key"] for r in self.records.values() if r["key"] is not None]
        store = self.store
        key = ("key",) if keyed else ()
        if keyed and len(set(values)) != len(values):
            with pytest.raises(BadRecord):
                alter(store, self.table(store), key=key)
            return
        alter(store, self.table(store), key=key)
        self.key = key

    @rule()
    def load(self) -> None:
        """Some hundred records at once, without what would be a key."""
        store = self.store
        table = self.table(store)
        width = len(table.fields)
        places = {f.name: i for i, f in enumerate(table.fields)}
        rows = []
        for i in range(700):
            row: list[Any] = [None] * width
            row[places["text"]] = WORDS[i % len(WORDS)]
            rows.append(row)
        assert store.load_records(table, rows) == 700
        for i in range(700):
            self.records[self.next_id + i] = {f.name: None for f in self.fields} | {"text": WORDS[i % len(WORDS)]}
        self.next_id += 700

    @rule()
    def reopen(self) -> None:
        self.stores[1].close()
        self.stores[1] = self.backend.open()

    # -------------------------------------------------------------- what holds

    @invariant()
    def everything_equals_the_model(self) -> None:
        if not self.uuid:
            return
        store = self.store
        table = self.table(store)
        order = sorted(self.records)
        names = [f.name for f in table.fields]
        assert names == [f.name for f in self.fields]
        rows, total = find(store, table, 100_000)
        assert total == len(order) == store.table_figures(table).count
        assert [[row[0], *map(bits, row[1:])] for row in rows] == [
            [number, *(bits(self.records[number][name]) for name in names)] for number in order
        ]
        assert [str(c) for row in rows for c in row if isinstance(c, Decimal)] == [
            str(self.records[n][name]) for n in order for name in names if isinstance(self.records[n][name], Decimal)
        ]
        for offset in {0, 1, len(order) // 2, max(0, len(order) - 2), len(order), len(order) + 1}:
            found, total = find(store, table, 2, offset)
            assert ([row[0] for row in found], total) == (order[offset : offset + 2], len(order))
            found, total = find(store, table, 2, offset, sort=(SortKey("_id", True),))
            assert ([row[0] for row in found], total) == (order[::-1][offset : offset + 2], len(order))
        assert [row[0] for block in store.records(table, TableQuery(limit=-1)) for row in block] == order
        self.comparisons(store, table, order)
        self.words(store, table, order)
        self.log(store, table)

    def comparisons(self, store: Store, table: Table, order: list[int]) -> None:
        asked: list[tuple[str, list[Any]]] = [("key", [0, 3]), ("text", ["alpha", ""])]
        if any(f.name == "exact" for f in self.fields):
            asked.append(("exact", [Decimal("1.5"), Decimal("-1.500"), Decimal(10)]))
        for name, values in asked:
            for value in values:
                for operator in (Operator.EQ, Operator.LT, Operator.LTE, Operator.GT, Operator.GTE):
                    expected = [n for n in order if holds(self.records[n][name], operator, value)]
                    found, total = find(store, table, 3, where=Compare(name, operator, (value,)))
                    assert ([row[0] for row in found], total) == (expected[:3], len(expected))
            expected = [n for n in order if self.records[n][name] in values]
            found, total = find(store, table, 3, 1, where=Compare(name, Operator.IN, tuple(values)))
            assert ([row[0] for row in found], total) == (expected[1:4], len(expected))
        given = sorted(
            (n for n in order if self.records[n]["key"] is not None), key=lambda n: (self.records[n]["key"], n)
        )
        empty = [n for n in order if self.records[n]["key"] is None]
        found, _ = find(store, table, 5, sort=(SortKey("key"),))
        assert [row[0] for row in found] == (given + empty)[:5]

    def words(self, store: Store, table: Table, order: list[int]) -> None:
        text = {n: tokens(self.records[n]["text"] or "") for n in order}
        anywhere = {n: [tokens(text_of(f.kind, self.records[n][f.name])) for f in self.fields] for n in order}
        for word in ("alpha", "SISTĒMAS", "the"):
            expected = [n for n in order if word.lower() in text[n]]
            found, total = find(store, table, 3, texts=(TextTerm(word, "text"),), sort=(SortKey("_id"),))
            assert ([row[0] for row in found], total) == (expected[:3], len(expected))
        expected = [n for n in order if any("beta" in words for words in anywhere[n])]
        assert find(store, table, 1, texts=(TextTerm("beta"),))[1] == len(expected)
        expected = [n for n in order if any(w.startswith("alph") for w in text[n]) and "beta" not in text[n]]
        found, total = find(store, table, 9, texts=(TextTerm("alph:* & !beta", "text", False),), sort=(SortKey("_id"),))
        assert ([row[0] for row in found], total) == (expected[:9], len(expected))

    def log(self, store: Store, table: Table) -> None:
        """The numbers of the records there are, as the change log alone tells."""
        there: set[int] = set()
        for sequence, change in enumerate(store.record_changes(table, limit=100_000), 1):
            assert change.sequence == sequence
            concerned = set(range(change.first, change.last + 1))
            if change.kind == "insert":
                assert not there & concerned
                there |= concerned
            elif change.kind == "update":
                assert concerned <= there
                assert change.before is not None
            else:
                there -= concerned
        assert there == set(self.records)


def holds(cell: Any, operator: Operator, value: Any) -> bool:
    if cell is None:
        return False
    return {
        Operator.EQ: cell == value,
        Operator.LT: cell < value,
        Operator.LTE: cell <= value,
        Operator.GT: cell > value,
        Operator.GTE: cell >= value,
    }[operator]


def machine(name: str) -> type[TableMachine]:
    return type(f"{name.capitalize()}TableMachine", (TableMachine,), {"backend_name": name})


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_random_writes_equal_the_model(name: str) -> None:
    chosen = settings(max_examples=min(settings().max_examples, 300) // 2, stateful_step_count=20)
    run_state_machine_as_test(machine(name), settings=chosen)
