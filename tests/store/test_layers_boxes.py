"""Boxes that hold much of a layer, and pages in other CRSs: quick ways, which give what the plain ones give."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import shapely
from tests.store.layer_support import (
    ME,
    PREFIX,
    batch,
    edit,
    fragments_of,
    ids_of,
    in_box,
    insert,
    layer,
    make_layer,
    point,
    rows_in,
)
from tests.store.support import assert_clean
from tests.unit.feature_plain import feature_text

import thalweg.store.sqlite.layer_reading as reading
import thalweg.store.sqlite.layer_select as selecting
from thalweg.domain.features import (
    Delete,
    FeatureQuery,
    Features,
    FragmentForm,
    GeometryKind,
    Insert,
    LoadReceipt,
    Update,
)
from thalweg.domain.filters import FeatureIds
from thalweg.domain.store import Store
from thalweg.encode.feature_output import FeatureFormat, Output
from thalweg.services.feature_projection import project
from thalweg.services.features import FeatureService

SHAPES = {
    GeometryKind.POINT: lambda x, y, size: shapely.Point(x, y),
    GeometryKind.LINESTRING: lambda x, y, size: shapely.LineString([(x, y), (x + size, y), (x + size, y + size)]),
    # An L, whose box may meet what it does not meet.
    GeometryKind.MULTIPOLYGON: lambda x, y, size: shapely.MultiPolygon(
        [shapely.box(x, y, x + size, y + 0.1), shapely.box(x, y + 0.2, x + 0.1, y + size + 0.3)]
    ),
}


@pytest.mark.parametrize("walked", [10, 4_096])
@pytest.mark.parametrize("kind", list(SHAPES))
def test_box_that_holds_much_is_counted_and_paged_exactly(
    store: Store, kind: GeometryKind, walked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "DENSE", 3)
    monkeypatch.setattr(selecting, "MAX_WALKED", walked)
    monkeypatch.setattr(selecting, "MAX_RIM", 2)
    made = make_layer(store, layer(kind=kind, fields=()))
    rng = random.Random(7)
    shapes = {}
    for number in range(1, 301):
        if number % 10:
            shapes[number] = SHAPES[kind](round(rng.uniform(0, 20), 1), round(rng.uniform(0, 20), 1), rng.uniform(0, 4))
    rows = [(n, shapely.to_wkb(shapes[n], flavor="iso") if n in shapes else None, {}) for n in range(1, 301)]
    insert(store, made, rows)
    for box in [(0, 0, 20, 20), (2.5, 0, 30, 11.3), (-5, -5, 6, 24), (3.1, 3.1, 9, 9), (19, 19, 19.5, 19.5)]:
        where = in_box(made, *box)
        met = [n for n, shape in shapes.items() if shape.intersects(shapely.box(*box))]
        for offset, limit in [(0, 5), (3, 7), (0, 60), (100, 10)]:
            query = FeatureQuery(where=where, offset=offset, limit=limit)
            assert ids_of(store, made, query) == met[offset : offset + limit]
            form = FragmentForm.GEOJSON
            wanted = FeatureQuery(where=in_box(made, *box), offset=offset, limit=limit)
            assert fragments_of(store, made, form, wanted).count('"Feature"') == len(met[offset : offset + limit])
        assert store.count_features(made.id, where) == len(met)
        # Then by the ids, which a whole query leaves behind.
        assert ids_of(store, made, FeatureQuery(where=where)) == met
        assert store.count_features(made.id, where) == len(met)


@pytest.mark.parametrize("srid", [3857, 2056, 4258, 4326])
@pytest.mark.parametrize("format", list(FeatureFormat))
@pytest.mark.parametrize("kind", list(SHAPES))
def test_page_in_another_crs_equals_the_features_encoded(
    store: Store, kind: GeometryKind, format: FeatureFormat, srid: int
) -> None:
    made = make_layer(store, layer(kind=kind))
    rng = random.Random(3)
    rows = [
        (n, shapely.to_wkb(SHAPES[kind](rng.uniform(6, 9), rng.uniform(46, 47), 0.2), flavor="iso") if n % 4 else None,
         {"name": '<gml:pos>"gml:posList>', "ele": n / 2})
        for n in range(1, 12)
    ]  # fmt: skip
    insert(store, made, rows)
    member = "" if format is FeatureFormat.GML31 else None
    output = Output.of(made, format, PREFIX, srid=srid, swapped=True, member=member)
    service = FeatureService(store)
    moved = project(batch(rows), made.srid, srid, 2)
    expected = [feature_text(made, output, *row) for row in rows_in(moved)]
    page = service.page(made, output, 2, 5)
    assert b"".join(page.content).decode() == "".join(expected[2:7])
    for query in (FeatureQuery(), FeatureQuery(where=in_box(made, 6, 46, 9.5, 47.5), limit=20)):
        runs = list(service.encoded(made, output, query))
        wanted = expected if query.where is None else [text for text, row in zip(expected, rows, strict=True) if row[1]]
        assert sum(count for count, _ in runs) == len(wanted)
        assert b"".join(content for _, content in runs).decode() == "".join(wanted)


def test_an_index_that_comes_last_is_of_what_is_there_then(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.store.sqlite.layer_index.MAX_WAITING", 150)
    monkeypatch.setattr("thalweg.store.sqlite.layer_index.STEP_BOXES", 40)
    made = make_layer(store)
    service = FeatureService(store)
    places: dict[int, tuple[float, float] | None] = {n: (n % 25, n // 25) if n % 50 else None for n in range(1, 601)}
    whole = in_box(made, -1, -1, 30, 30)

    def meanwhile(done: LoadReceipt) -> None:
        # Somebody who knows of the layer edits what is stored, of which some boxes are in the index and some are not.
        ids_of(store, made, FeatureQuery(where=whole))
        last = done.added
        edit(
            store,
            Delete(made.id, FeatureIds((last,))),
            Update(made.id, FeatureIds((last - 1,)), {}, point(28, 28)),
            Update(made.id, FeatureIds((last - 2,)), {}, None),
            Insert(made.id, batch([(10_000 + last, point(29, last / 100), {})])),
        )
        places.pop(last)
        places.update({last - 1: (28, 28), last - 2: None, 10_000 + last: (29, last / 100)})
        assert_clean(store)

    rows = [(n, place and point(*place), {}) for n, place in places.items()]
    service.load(made, [batch(rows[at : at + 60]) for at in range(0, 600, 60)], ME, progress=meanwhile, unseen=True)
    for west, south, east, north in ((-1, -1, 30, 30), (3, 3, 9, 9), (27, 27, 29, 29), (29, 0, 29, 3)):
        expected = sorted(
            n for n, place in places.items() if place and west <= place[0] <= east and south <= place[1] <= north
        )
        assert expected
        where = in_box(made, west, south, east, north)
        assert ids_of(store, made, FeatureQuery(where=where)) == expected
        assert store.count_features(made.id, where) == len(expected)
    assert_clean(store)


def test_a_load_that_ends_early_leaves_a_clean_store(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.store.sqlite.layer_index.MAX_WAITING", 50)
    made = make_layer(store)

    def cut_off() -> Iterator[Features]:
        for start in (1, 41, 81):
            yield batch([(n, point(n / 10, n / 20), {}) for n in range(start, start + 40)])
        raise OSError("the file is gone")

    with pytest.raises(OSError, match="the file is gone"):
        FeatureService(store).load(made, cut_off(), ME, unseen=True)
    assert store.count_features(made.id, None) == 120
    assert_clean(store)
    FeatureService(store).delete_layer(made).result(30)
    assert_clean(store)
