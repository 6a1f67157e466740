"""``check`` finds what is wrong with layers, whatever part of them was spoilt."""

from __future__ import annotations

import apsw
import pytest
from tests.store.layer_support import ME, batch, by_number, edit, make_layer, point
from tests.store.support import SqliteBackend

from thalweg.domain.features import Delete, Update
from thalweg.services.features import FeatureService


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        ("DELETE FROM layer_1 WHERE id = 700", "there are 511 features, where the group says 512"),
        ("UPDATE layer_1 SET version = 0 WHERE id = 7", "it has the version 0"),
        ("UPDATE layer_1 SET geometry = substr(geometry, 1, 20) WHERE id = 7", "the geometry is cut short"),
        ("UPDATE layer_1 SET geometry = (SELECT geometry FROM layer_1 WHERE id = 9) WHERE id = 7", "another box"),
        ("UPDATE layer_1 SET geometry = NULL WHERE id = 7", "other features than have a geometry"),
        ("DELETE FROM layer_1_box WHERE id = 7", "other features than have a geometry"),
        ("UPDATE layer_1_box SET max_x = max_x + 1 WHERE id = 7", "another box"),
        ("DELETE FROM layer_1_form_4 WHERE id = 7", "fragments of the form GEOJSON are of other features"),
        ("UPDATE layer_1_form_2 SET content = CAST(replace(CAST(content AS TEXT), '7', '8') AS BLOB) WHERE id = 7",
         "the fragment in the form GML3 is damaged"),
        ("UPDATE layer_group SET count = count + 1 WHERE layer_id = 1 AND first = 513", "the groups have 1499"),
        ("UPDATE layer_group SET max_x = max_x + 1 WHERE layer_id = 1 AND first = 513", "where the group says"),
        ("UPDATE layer_group SET first = 5 WHERE layer_id = 1 AND first < 0", "does not begin at the least id"),
        ("UPDATE layer_state SET count = 3", "the groups have 1498 features, where the state says 3"),
        ("UPDATE layer_state SET max_y = 3", "where the state says"),
        ("UPDATE layer_state SET sequence = 3", "where the state says 3"),
        ("UPDATE layer_state SET next_number = 3", "the next number is 3"),
        ("DELETE FROM layer_state", "it has no state"),
        ("DELETE FROM layer_change WHERE sequence = 2", "entry 2 is missing"),
        ("UPDATE layer_change SET before = substr(before, 1, 9) WHERE before IS NOT NULL", "cannot be read"),
        ("INSERT INTO layer_group (layer_id, first, count) VALUES (9, 0, 0)", "the table layer_group has rows"),
        ("INSERT INTO feature_lock_member VALUES (1, 1, 'x')", "held by the lock x"),
    ],
)  # fmt: skip
def test_spoilt_layer_is_found(backend: SqliteBackend, spoil: str, problem: str) -> None:
    store = backend.open()
    made = make_layer(store)
    FeatureService(store).load(made, [batch((0, point(n % 180, n % 90), {"name": str(n)}) for n in range(1500))], ME)
    edit(store, Update(made.id, by_number(3), {"name": "x"}), Delete(made.id, by_number(1499, 1500)))
    assert list(store.check()) == []
    found = backend.findings_after(spoil)
    assert any(problem in finding.problem for finding in found), found
    assert all("layer" in finding.place or finding.place in ("file", "locks") for finding in found)


def test_groups_of_what_is_deleted_go_too(backend: SqliteBackend) -> None:
    store = backend.open()
    made = make_layer(store)
    FeatureService(store).load(made, [batch((n, point(n % 180, 1), {}) for n in range(1, 6001))], ME)
    edit(store, Delete(made.id, by_number(*(n for n in range(1, 6001) if n % 100))))
    connection = apsw.Connection(backend.url.removeprefix("sqlite:///"))
    (groups,) = connection.execute("SELECT count(*), sum(count) FROM layer_group").fetchall()
    connection.close()
    assert groups == (1, 60)
    assert list(store.check()) == []
