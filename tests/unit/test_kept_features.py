"""Features kept in another CRS: always what the plain writer makes, whatever was edited meanwhile, and bounded."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import shapely
from tests.unit.feature_plain import feature_text

from thalweg.domain.errors import DamagedData
from thalweg.domain.features import (
    Delete,
    FeatureQuery,
    Features,
    Field,
    FieldKind,
    GeometryKind,
    Insert,
    Layer,
    SortKey,
    Update,
)
from thalweg.domain.filters import FeatureIds
from thalweg.domain.store import Store
from thalweg.encode.feature_moved import features_of
from thalweg.encode.feature_output import FeatureFormat, Output
from thalweg.services import features as service_module
from thalweg.services.feature_projection import project
from thalweg.services.features import FeatureService
from thalweg.services.kept_features import ENTRY_BYTES, KeptFeatures
from thalweg.store.open import open_store

ME = "m"
WAIT_S = 30.0
# Values and names that look like the places where features are cut.
FIELDS = (Field("type", FieldKind.TEXT), Field("id", FieldKind.TEXT))
TRAPS = ("Feature", '}},{"type":"Feature","id":"', "</wfs:member><wfs:member>", "</gml:featureMember>", "a", "")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = open_store(f"sqlite:///{tmp_path / 'thalweg.sqlite'}")
    yield made
    made.close()


def _line(rng: random.Random) -> bytes:
    x, y = rng.uniform(6, 10), rng.uniform(46, 47.5)
    return shapely.to_wkb(shapely.LineString([(x, y), (x + rng.random() / 50, y + 0.01)]), flavor="iso")


def _batch(rng: random.Random, ids: list[int]) -> Features:
    columns = {field.name: [rng.choice(TRAPS) for _ in ids] for field in FIELDS}
    shapes = [None if rng.random() < 0.1 else _line(rng) for _ in ids]
    return Features(np.array(ids, np.int64), shapes, columns)


def _layer(service: FeatureService, store: Store, name: str = "ways") -> Layer:
    wanted = Layer(0, "", 0, name, geometry_kind=GeometryKind.LINESTRING, fields=FIELDS)
    return service.put_layer(store.workspaces()["default"], wanted).result(WAIT_S)


def _plain(service: FeatureService, layer: Layer, output: Output, query: FeatureQuery) -> str:
    texts = []
    for features in service.features(layer, query):
        moved = project(features, layer.srid, output.srid, 2)
        for row, number in enumerate(moved.ids.tolist()):
            values = {name: column[row] for name, column in moved.columns.items()}
            texts.append(feature_text(layer, output, number, moved.geometries[row], values))
    return "".join(texts)


def test_kept_features_are_those_of_the_plain_writer_through_random_edits(store: Store) -> None:
    rng = random.Random(5)
    service = FeatureService(store)
    # So small that much is let go of, and made again.
    service._moved = KeptFeatures(12_000)
    layer = _layer(service, store)
    service.edit([Insert(layer.id, _batch(rng, list(range(1, 31))))], ME).result(WAIT_S)
    alive, gone = set(range(1, 31)), set[int]()
    outputs = [
        Output.of(layer, form, service.prefix(layer), srid=srid)
        for form in FeatureFormat
        for srid in (3857, 2056)
    ]  # fmt: skip
    for _ in range(40):
        some = rng.choice(sorted(alive))
        kind = rng.randrange(4)
        if kind == 0:
            edit: Insert | Update | Delete = Update(layer.id, FeatureIds((some,)), {"id": rng.choice(TRAPS)})
        elif kind == 1:
            edit = Update(layer.id, FeatureIds((some,)), {}, _line(rng))
        elif kind == 2 and len(alive) > 10:
            edit = Delete(layer.id, FeatureIds((some,)))
            alive.discard(some)
            gone.add(some)
        else:
            # A number that was another feature's, where there is one.
            number = rng.choice(sorted(gone)) if gone else max(alive) + 1
            edit = Insert(layer.id, _batch(rng, [number]))
            alive.add(number)
            gone.discard(number)
        service.edit([edit], ME).result(WAIT_S)
        for output in rng.sample(outputs, 4):
            offset, limit = rng.randrange(12), rng.randrange(1, 25)
            page = service.page(layer, output, offset, limit)
            expected = _plain(service, layer, output, FeatureQuery(offset=offset, limit=limit))
            assert b"".join(page.content).decode() == expected
            ids = tuple(rng.sample(range(1, 35), 12))
            query = FeatureQuery(FeatureIds(ids), (SortKey("type", True),), 1, 9)
            chosen = service.chosen(layer, output, query)
            assert b"".join(chosen.content).decode() == _plain(service, layer, output, query)
            assert chosen.matched == len(alive & set(ids))
            assert chosen.count == max(0, min(9, len(alive & set(ids)) - 1))


def test_second_page_is_made_of_what_the_first_has_left(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(6)
    service = FeatureService(store)
    layer = _layer(service, store)
    service.edit([Insert(layer.id, _batch(rng, list(range(1, 41))))], ME).result(WAIT_S)
    output = Output.of(layer, FeatureFormat.GML32, service.prefix(layer), srid=3857)
    first = b"".join(service.page(layer, output, 0, 30).content)
    asked: list[int] = []

    def counted(content: bytes, of: Layer, to: Output, shapes: list[bytes | None], move: object) -> bytes:
        asked.append(len(shapes))
        return with_positions(content, of, to, shapes, move)  # type: ignore[arg-type]

    with_positions = service_module.with_positions
    monkeypatch.setattr(service_module, "with_positions", counted)
    assert b"".join(service.page(layer, output, 0, 30).content) == first
    assert asked == []
    service.page(layer, output, 20, 20)
    assert asked == [10]
    service.edit([Update(layer.id, FeatureIds((25, 27)), {"type": "x"})], ME).result(WAIT_S)
    changed = b"".join(service.page(layer, output, 20, 20).content)
    assert asked == [10, 2]
    assert changed.count(b"<tw:type>x</tw:type>") == 2


def test_layer_of_the_same_name_has_nothing_of_the_one_before(store: Store) -> None:
    rng = random.Random(7)
    service = FeatureService(store)
    seen = []
    for _ in range(2):
        layer = _layer(service, store)
        service.edit([Insert(layer.id, _batch(rng, [1, 2, 3]))], ME).result(WAIT_S)
        output = Output.of(layer, FeatureFormat.GEOJSON, service.prefix(layer), srid=2056)
        content = b"".join(service.page(layer, output, 0, 3).content).decode()
        assert content == _plain(service, layer, output, FeatureQuery())
        seen.append(content)
        service.delete_layer(layer, by=ME).result(WAIT_S)
    assert seen[0] != seen[1]


def test_no_more_is_kept_than_may_be_and_what_is_used_stays() -> None:
    kept = KeptFeatures(20 * (100 + ENTRY_BYTES))
    text = b"x" * 100
    kept.joined("a", [(0, 1)], [None], [text])
    for number in range(1, 200):
        kept.joined("a", [(number, 1)], [None], [text])
        # Asked for all the time, and never of another version or output.
        assert kept.known("a")([(0, 1)]) == [text]
        assert kept.known("a")([(0, 2)]) == kept.known("b")([(0, 1)]) == [None]
        assert sum(len(texts) for half in (kept._young, kept._old) for texts in half.values()) <= 20
    assert kept.known("a")([(5, 1)]) == [None]
    # What would drive out all the rest is not kept.
    many = [(number, 1) for number in range(1000, 1011)]
    assert kept.joined("a", many, [None] * 11, [text] * 11) == text * 11
    assert kept.known("a")(many) == [None] * 11
    assert kept.joined("a", [(0, 1), (900, 1)], [text, None], [b"y"]) == text + b"y"


def test_text_that_is_not_so_many_features_is_damaged() -> None:
    layer = Layer(1, "", 1, "ways", geometry_kind=GeometryKind.LINESTRING, fields=FIELDS)
    for form in (FeatureFormat.GEOJSON, FeatureFormat.GML32):
        output = Output.of(layer, form, "tw", srid=3857)
        assert features_of(b"", output, 0) == []
        with pytest.raises(DamagedData):
            features_of(b"<wfs:member></wfs:member>", output, 2)
