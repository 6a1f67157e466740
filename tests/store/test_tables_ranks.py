"""Tables: pages of records that words are found in, in every order, and their ranks."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest
from tests.store.support import assert_clean
from tests.store.table_support import TWO, find, insert, make, write

from thalweg.domain.store import Store
from thalweg.domain.tables import Compare, Method, Operator, SortKey, TableQuery, TextTerm

WORD = (TextTerm("rain"),)


@pytest.mark.parametrize(
    ("text", "looked_for", "rank"),
    [
        # What PostgreSQL 15 gives: ts_rank(to_tsvector('simple', ...), to_tsquery('simple', ...)). With the
        # normalization 32, which CKAN asks for, each is divided by itself and one.
        ("a", "a", 0.06079271),
        ("a a", "a", 0.075990885),
        ("a x a x a", "a", 0.082745634),
        ("a a a a a a", "a", 0.09066558),
        ("a " * 300, "a", 0.09976207),
        ("a b a", "a | b", 0.0683918),
        ("a a c", "a | b", 0.037995443),
        ("a b c", "a | b", 0.06079271),
    ],
)
def test_ranks_are_those_of_postgresql(store: Store, text: str, looked_for: str, rank: float) -> None:
    table = make(store, TWO, [{"name": text}])
    ((_, _, _, found),), total = find(store, table, texts=(TextTerm(looked_for, None, False),))
    assert found == pytest.approx(rank / (rank + 1), abs=2e-7 if len(text) < 100 else 1e-6)
    assert total == 1


def test_words_of_one_field_are_ranked_by_it_alone(store: Store) -> None:
    table = make(store, TWO, [{"name": "rain 7 7", "n": 7}])
    assert find(store, table, texts=(TextTerm("7", "n"),))[0][0][-1] == pytest.approx(0.057308756, abs=1e-7)
    assert find(store, table, texts=(TextTerm("7"),))[0][0][-1] == pytest.approx(0.07642204, abs=1e-7)
    # Both words are in the record, one of them twice.
    found = find(store, table, texts=(TextTerm("rain", "name"), TextTerm("7", "name")))[0][0][-1]
    mean = (0.06079271 + 0.075990885) / 2
    assert found == pytest.approx(mean / (mean + 1), abs=1e-7)


def _rainy(store: Store) -> tuple[Any, list[tuple[int, str, Any, int]]]:
    """A table, and its records with how often it rains in each, some of them changed, gone or without a number."""
    rng = random.Random(11)
    table = make(store, TWO)
    given = [
        {
            "name": " ".join(["rain"] * rng.choice((0, 1, 1, 2, 3)) + ["sun"] * rng.choice((0, 1))),
            "n": rng.choice((None, 1, 2, 3)),
        }
        for _ in range(60)
    ]
    insert(store, table, *given)
    for number in (5, 17):
        write(store, table, Method.UPDATE, {"_id": number, "name": "rain rain rain rain"})
        given[number - 1]["name"] = "rain rain rain rain"
    store.delete_records(table, Compare("_id", Operator.IN, (9, 10)))
    rows = [
        (i, str(each["name"]), each["n"], str(each["name"]).count("rain"))
        for i, each in enumerate(given, 1)
        if i not in (9, 10)
    ]
    return table, rows


ORDERS: dict[tuple[SortKey, ...], Any] = {
    (): lambda row: (-row[3], row[0]),
    (SortKey("_id"),): lambda row: row[0],
    (SortKey("_id", True),): lambda row: -row[0],
    (SortKey("n"),): lambda row: (row[2] is None, row[2] or 0, row[0]),
    (SortKey("n", True), SortKey("_id", True)): lambda row: (row[2] is not None, -(row[2] or 0), -row[0]),
    (SortKey("rank"),): lambda row: (row[3], row[0]),
    (SortKey("n"), SortKey("rank", True)): lambda row: (row[2] is None, row[2] or 0, -row[3], row[0]),
    (SortKey("rank", True), SortKey("n")): lambda row: (-row[3], row[2] is None, row[2] or 0, row[0]),
}


def test_pages_of_words_in_every_order_are_those_of_all_records_sorted(store: Store) -> None:
    table, rows = _rainy(store)
    rainy = [row for row in rows if row[3]]
    some = [row for row in rainy if row[2] is not None and row[2] >= 2]
    assert len(rainy) > 30
    assert len(some) > 10
    for (sort, key), fields, where in product(
        ORDERS.items(), (None, ("_id", "n"), ("rank", "_id")), (None, Compare("n", Operator.GTE, (2,)))
    ):
        query: dict[str, Any] = {"sort": sort, "fields": fields, "texts": WORD} | ({"where": where} if where else {})
        expected = [row[0] for row in sorted(rainy if where is None else some, key=key)]
        place = 1 if fields == ("rank", "_id") else 0
        got: list[int] = []
        for offset in range(0, len(expected) + 7, 7):
            page, total = find(store, table, 7, offset, **query)
            assert total == len(expected)
            got += [row[place] for row in page]
        assert got == expected, (sort, fields, where)
        assert find(store, table, 0, 0, **query) == ([], len(expected))


def test_ranks_beside_another_order_are_those_of_the_records(store: Store) -> None:
    table, rows = _rainy(store)
    told = {row[0]: row[-1] for row in find(store, table, texts=WORD)[0]}
    assert set(told) == {row[0] for row in rows if row[3]}
    by_number, _ = find(store, table, 11, 3, texts=WORD, sort=(SortKey("n"),))
    assert len(by_number) == 11
    assert all(row[-1] == told[row[0]] for row in by_number)


def test_different_ranks_alone(store: Store) -> None:
    table, rows = _rainy(store)
    found, total = find(store, table, 2, 1, texts=WORD, fields=("rank",), distinct=True, sort=(SortKey("rank", True),))
    assert total == len({row[3] for row in rows if row[3]}) == 4
    assert [row[0] for row in found] == pytest.approx([0.07642204, 0.075990885 / 1.075990885], abs=2e-7)


def test_dump_of_words_in_both_directions(store: Store) -> None:
    table, rows = _rainy(store)
    expected = [row[0] for row in rows if row[3]]

    def dumped(**query: Any) -> list[int]:
        blocks = store.records(table, TableQuery(("_id",), texts=WORD, **query))
        return [row[0] for block in blocks for row in block]

    assert dumped(limit=-1, sort=(SortKey("_id"),)) == expected
    assert dumped(limit=-1, sort=(SortKey("_id", True),)) == expected[::-1]
    assert dumped(limit=5, offset=4, sort=(SortKey("_id", True),)) == expected[::-1][4:9]
    # By rank, where nothing else is asked for.
    assert dumped(limit=-1) == [row[0] for row in sorted((r for r in rows if r[3]), key=ORDERS[()])]
    assert_clean(store)
