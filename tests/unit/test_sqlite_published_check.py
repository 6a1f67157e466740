"""``check`` finds what is wrong with published streams, whatever part of them was spoilt."""

from __future__ import annotations

import pytest
from tests.store.layer_support import ME, batch, make_layer, point
from tests.store.published_support import publish, work
from tests.store.support import SqliteBackend, fill, register

from thalweg.domain.published import SourceKind
from thalweg.services.features import FeatureService


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        ("DELETE FROM published_page WHERE number = 2", "closed pages of"),
        ("UPDATE published_page SET members = members + 1 WHERE number = 2", "closed pages of"),
        ("UPDATE published_page SET end_us = end_us + 1 WHERE number = 3", "its last row is not the one"),
        ("UPDATE published_page SET end_us = end_us - 3600000000 * 24 WHERE number = 3", "ends before the page before"),
        ("UPDATE published_page SET rows = x'0102' WHERE number = 1", "damaged"),
        ("UPDATE published_page SET least_us = greatest_us + 1 WHERE number = 1", "end before they begin"),
        ("UPDATE published_track SET end_us = end_us + 1", "does not go as far as the part says"),
        ("UPDATE published_track SET pages = 2", "closed pages of"),
        ("UPDATE published_track SET sequence = 99", "its pages go to change 99"),
        ("DELETE FROM published_terms", "the names it was closed with are not there"),
        ("DELETE FROM published_track", "it has closed pages, but is no part"),
        ("UPDATE published_track SET stream_id = 77", "of this stream, which is not there"),
        ("UPDATE published_layer SET layer_id = 77", "the layer is not there"),
        ("UPDATE published_layer SET members = 3", "closed pages of"),
        ("UPDATE published_layer SET sequence = 999", "its pages go to change 999"),
        ("UPDATE published_feature_page SET number = 77 WHERE number = 2", "it is not there"),
        ("UPDATE published_feature_page SET numbers = x'00' WHERE number = 2", "cannot be read"),
        ("UPDATE published_feature_page SET numbers = (SELECT numbers FROM published_feature_page WHERE number = 1)"
         " WHERE number = 2", "not in order"),
        ("UPDATE published_feature_page SET first = 5, last = 9 WHERE number = 2", "do not follow those"),
        ("UPDATE published_feature_page SET members = 1 WHERE number = 2", "for 1 members"),
    ],
)  # fmt: skip
def test_spoilt_published_stream_is_found(backend: SqliteBackend, spoil: str, problem: str) -> None:
    store = backend.open()
    station = register(store)
    fill(store, station, 40)
    layer = make_layer(store)
    FeatureService(store).load(layer, [batch((n, point(n, 1), {}) for n in range(1, 40))], ME)
    publish(store, station.workspace_id, SourceKind.PROCEDURE, station.procedure.id)
    publish(store, layer.workspace_id, SourceKind.LAYER, layer.id, name="layer")
    work(store)
    assert list(store.check()) == []
    found = backend.findings_after(spoil)
    assert any(problem in finding.problem for finding in found), found
    assert all(finding.place.startswith("event stream") for finding in found)
