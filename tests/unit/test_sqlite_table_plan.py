"""What a search of a table asks the database for."""

from __future__ import annotations

from pathlib import Path

from tests.store.table_support import find, insert, make

from thalweg.domain.tables import Compare, Operator, SortKey, TableQuery
from thalweg.store.open import open_store
from thalweg.store.sqlite.table_plan import plan


def test_all_records_in_any_order_are_not_counted(tmp_path: Path) -> None:
    """The total of a page costs the same however many records there are."""
    store = open_store(f"sqlite:///{tmp_path}/plan.sqlite")
    table = make(store)
    for n in range(5):
        insert(store, table, {"n": n})
    store.delete_records(table, Compare("n", Operator.EQ, (2,)))
    by_n = TableQuery(sort=(SortKey("n", True),))
    assert "count(*)" not in plan(store.table(table.uuid), by_n).count_statement()
    assert find(store, table, 2, 1, sort=by_n.sort)[1] == 4
    some = TableQuery(where=Compare("n", Operator.GT, (1,)), sort=by_n.sort)
    assert "count(*)" in plan(store.table(table.uuid), some).count_statement()
    assert find(store, table, 1, 0, where=some.where, sort=some.sort)[1] == 2
    store.close()
