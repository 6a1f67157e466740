"""Layers and features on each back end: what is kept, counted, found, refused, and what edits leave behind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.store.layer_support import (
    FIELDS,
    ME,
    PREFIX,
    batch,
    by_number,
    compare,
    edit,
    expected_fragments,
    fragments_of,
    ids_of,
    in_box,
    insert,
    layer,
    make_layer,
    point,
    rows_of,
    wkb,
    workspace,
)
from tests.store.support import WAIT_S, Backend, assert_clean

from thalweg.domain.errors import (
    AlreadyExists,
    InvalidParameter,
    NotFound,
    ThalwegError,
    TooLarge,
    VersionConflict,
)
from thalweg.domain.features import (
    MAX_EDIT_FEATURES,
    ChangeKind,
    Delete,
    FeatureQuery,
    Features,
    Field,
    FieldKind,
    FragmentForm,
    GeometryKind,
    Insert,
    Layer,
    LoadReceipt,
    OnConflict,
    Replace,
    SortKey,
    StoredQuery,
    Update,
)
from thalweg.domain.filters import FEATURE_ID, Kind
from thalweg.domain.geometry import Envelope, SpatialOperator
from thalweg.domain.store import Store
from thalweg.services.features import FeatureService, stamp_of

VADUZ = (0, point(9.5227962, 47.1392862), {"name": "Vaduz", "population": 5450, "capital": True, "ele": 455.5})
BALZERS = (
    0,
    point(9.5, 47.0666),
    {"name": "Balzers", "population": 4628, "founded": -20000, "seen": 1_600_000_000_000_001},
)
NOWHERE = (0, None, {"name": "Nowhere"})


# ------------------------------------------------------------------ layers


def test_layer_is_listed_as_it_was_made(store: Store) -> None:
    made = make_layer(store, layer(title="Places", keywords=("a", "b"), licence="ODbL-1.0", public=False, dimensions=3))
    assert made.id > 0
    assert len(made.uuid) == 36
    assert made.id_prefix == "places"
    assert [field.number for field in made.fields] == [1, 2, 3, 4, 5, 6]
    assert store.layers(made.workspace_id) == {"places": made}
    state = store.layer_state(made.id)
    assert (state.count, state.extent, state.sequence) == (0, None, 0)
    assert store.layer_states(made.workspace_id) == {made.id: state}


def test_other_processes_see_a_new_layer_at_once(backend: Backend) -> None:
    one, other = backend.open(), backend.open()
    assert other.layers(workspace(other).id) == {}
    made = make_layer(one)
    assert other.layers(made.workspace_id) == {"places": made}
    insert(one, made, [VADUZ])
    assert other.layer_state(made.id).count == 1
    one.delete_layer(made.workspace_id, made.id).result(WAIT_S)
    assert other.layers(made.workspace_id) == {}
    with pytest.raises(NotFound):
        other.layer_state(made.id)


@pytest.mark.parametrize(
    ("change", "parameter"),
    [
        ({"name": "two words"}, "name"),
        ({"name": "a:b"}, "name"),
        ({"name": "1st"}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "x'; DROP TABLE layer; --"}, "name"),
        ({"id_prefix": "a b"}, "id_prefix"),
        ({"geometry_field": "<geom>"}, "geometry_field"),
        ({"dimensions": 4}, "dimensions"),
        ({"srid": 0}, "srid"),
        ({"fields": (Field("a", FieldKind.TEXT), Field("A", FieldKind.TEXT))}, "fields"),
        ({"fields": (Field("geometry", FieldKind.TEXT),)}, "fields"),
        ({"fields": (Field("a b", FieldKind.TEXT),)}, "fields"),
        ({"fields": tuple(Field(f"f{i}", FieldKind.TEXT) for i in range(501))}, "fields"),
    ],
)
def test_layer_that_no_document_could_describe_is_refused(store: Store, change: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        make_layer(store, replace(layer(), **change))
    assert caught.value.parameter == parameter
    assert store.layers(workspace(store).id) == {}


def test_name_is_unique_in_its_workspace(store: Store) -> None:
    made = make_layer(store)
    with pytest.raises(AlreadyExists, match="places"):
        make_layer(store)
    other = make_layer(store, layer("roads"))
    with pytest.raises(AlreadyExists):
        make_layer(store, replace(other, name="places"))
    assert set(store.layers(made.workspace_id)) == {"places", "roads"}


def test_fields_are_added_renamed_reordered_and_removed(store: Store) -> None:
    made = make_layer(store)
    insert(store, made, [VADUZ])
    name, population, *_ = made.fields
    changed = make_layer(
        store, replace(made, fields=(Field("country", FieldKind.TEXT), replace(name, name="title"), population))
    )
    assert [(field.name, field.number) for field in changed.fields] == [("country", 7), ("title", 1), ("population", 2)]
    assert changed.schema_version == made.schema_version + 1
    ((number, geometry, values),) = rows_of(store, changed)
    assert (geometry, values) == (VADUZ[1], {"title": "Vaduz", "population": 5450})
    # A field that is gone does not come back with its values.
    again = make_layer(store, replace(changed, fields=(*changed.fields, Field("ele", FieldKind.NUMBER))))
    assert "ele" not in rows_of(store, again)[0][2]
    edit(store, Update(again.id, by_number(number), {"ele": 455.0, "country": "LI"}))
    assert rows_of(store, again)[0][2] == {"title": "Vaduz", "population": 5450, "ele": 455.0, "country": "LI"}
    assert_clean(store)


@pytest.mark.parametrize(
    ("change", "parameter"),
    [
        (lambda made: {"srid": 2056}, "srid"),
        (lambda made: {"dimensions": 3}, "dimensions"),
        (lambda made: {"geometry_kind": GeometryKind.LINESTRING}, "geometry_kind"),
        (lambda made: {"geometry_kind": GeometryKind.NONE}, "geometry_kind"),
        (lambda made: {"fields": (replace(made.fields[0], kind=FieldKind.INTEGER),)}, "fields"),
        (lambda made: {"fields": (replace(made.fields[0], required=True),)}, "fields"),
        (lambda made: {"fields": (replace(made.fields[0], length=3),)}, "fields"),
        (lambda made: {"fields": (Field("new", FieldKind.TEXT, required=True),)}, "fields"),
        (lambda made: {"fields": (Field("new", FieldKind.TEXT, number=99),)}, "fields"),
    ],
)
def test_change_that_features_would_contradict_is_refused(store: Store, change: Any, parameter: str) -> None:
    made = make_layer(store)
    insert(store, made, [VADUZ])
    with pytest.raises(InvalidParameter) as caught:
        make_layer(store, replace(made, **change(made)))
    assert caught.value.parameter == parameter
    assert store.layers(made.workspace_id)["places"] == made


def test_kind_may_become_one_that_takes_all(store: Store) -> None:
    made = make_layer(store)
    insert(store, made, [VADUZ])
    wider = make_layer(store, replace(made, geometry_kind=GeometryKind.MULTIPOINT))
    insert(store, wider, [(0, wkb("MULTIPOINT (1 2, 3 4)"), {})])
    any_kind = make_layer(store, replace(wider, geometry_kind=GeometryKind.GEOMETRY))
    insert(store, any_kind, [(0, wkb("LINESTRING (1 2, 3 4)"), {})])
    assert store.layer_state(made.id).count == 3


# ------------------------------------------------------------------ inserting and reading


def test_features_come_back_as_they_went_in(store: Store) -> None:
    made = make_layer(store)
    receipt = insert(store, made, [VADUZ, BALZERS, NOWHERE])
    assert receipt.ids.tolist() == [1, 2, 3]
    assert receipt.versions.tolist() == [1, 1, 1]
    assert rows_of(store, made) == [(1, *VADUZ[1:]), (2, *BALZERS[1:]), (3, *NOWHERE[1:])]
    state = store.layer_state(made.id)
    assert state.count == 3
    assert state.extent == Envelope(9.5, 47.0666, 9.5227962, 47.1392862)
    assert_clean(store)


def test_numbers_of_the_source_are_kept_and_never_given_again(store: Store) -> None:
    made = make_layer(store)
    insert(store, made, [(6_968_827, point(1, 1), {}), (-7, point(2, 2), {}), (0, point(3, 3), {})])
    assert ids_of(store, made) == [-7, 6_968_827, 6_968_828]
    edit(store, Delete(made.id, by_number(6_968_828)))
    assert insert(store, made, [(0, point(4, 4), {})]).ids.tolist() == [6_968_829]
    assert store.reserve_numbers(made.id, 10).result(WAIT_S) == 6_968_830
    assert insert(store, made, [(0, point(4, 4), {})]).ids.tolist() == [6_968_840]


def test_greatest_number_leaves_none_to_give(store: Store) -> None:
    made = make_layer(store)
    insert(store, made, [(2**63 - 1, point(1, 1), {})])
    with pytest.raises(InvalidParameter, match="no numbers left"):
        insert(store, made, [(0, point(1, 1), {})])
    with pytest.raises(InvalidParameter):
        insert(store, made, [(-(2**63), point(1, 1), {})])
    assert ids_of(store, made) == [2**63 - 1]
    assert_clean(store)


@pytest.mark.parametrize(
    ("geometry", "values", "parameter"),
    [
        (None, {"unknown": 1}, "unknown"),
        (None, {"population": "5"}, "population"),
        (None, {"population": 5.0}, "population"),
        (None, {"population": True}, "population"),
        (None, {"population": 2**63}, "population"),
        (None, {"name": 5}, "name"),
        (None, {"name": "a\x00b"}, "name"),
        (None, {"name": "\x1e"}, "name"),
        (None, {"name": "\ud800"}, "name"),
        (None, {"name": "x" * 1_000_001}, "name"),
        (None, {"ele": float("nan")}, "ele"),
        (None, {"ele": float("inf")}, "ele"),
        (None, {"ele": 10**400}, "ele"),
        (None, {"capital": 1}, "capital"),
        (None, {"founded": 10**7}, "founded"),
        (None, {"seen": 2**62}, "seen"),
        (wkb("LINESTRING (1 2, 3 4)"), {}, "geometry"),
        (wkb("POINT EMPTY"), {}, "geometry"),
        (wkb("POINT Z (1 2 3)"), {}, "geometry"),
        (point(1, 2)[:-1], {}, "geometry"),
        (point(1, 2) + b"x", {}, "geometry"),
        (b"", {}, "geometry"),
        (b"\x00\x00\x00\x00\x01" + bytes(16), {}, "geometry"),
        (point(float("inf"), 2), {}, "geometry"),
        (b"\x01\x01\x00\x00\x20\xe6\x10\x00\x00" + bytes(16), {}, "geometry"),
    ],
)
def test_feature_that_cannot_be_given_back_is_refused_whole(
    store: Store, geometry: bytes | None, values: dict[str, Any], parameter: str
) -> None:
    made = make_layer(store)
    with pytest.raises(InvalidParameter) as caught:
        insert(store, made, [VADUZ, (0, geometry, values)])
    assert caught.value.parameter == parameter
    assert store.layer_state(made.id).count == 0
    assert rows_of(store, made) == []


def nested(depth: int) -> bytes:
    return b"\x01\x07\x00\x00\x00\x01\x00\x00\x00" * depth + point(1, 2)


@pytest.mark.parametrize(
    "geometry",
    [
        nested(5),
        nested(20_000),
        b"\x01\x07\x00\x00\x00\xff\xff\xff\xff" + point(1, 2),
        b"\x01\x03\x00\x00\x00\xff\xff\xff\xff" + bytes(64),
        b"\x01\x02\x00\x00\x00\xff\xff\xff\xff" + bytes(64),
        wkb("LINESTRING (0 0, 1 1)").replace(b"\x02\x00\x00\x00" + bytes(8), b"\x01\x00\x00\x00" + bytes(8)),
        # A ring that is not closed.
        b"\x01\x03\x00\x00\x00\x01\x00\x00\x00\x04\x00\x00\x00" + np.arange(8.0).tobytes(),
        b"\x01\x08\x00\x00\x00\x00\x00\x00\x00",
        wkb("GEOMETRYCOLLECTION (POINT EMPTY)"),
    ],
)
def test_hostile_geometry_never_reaches_the_library(store: Store, geometry: bytes) -> None:
    made = make_layer(store, layer(kind=GeometryKind.GEOMETRY))
    with pytest.raises(InvalidParameter) as caught:
        insert(store, made, [(0, geometry, {})])
    assert caught.value.parameter == "geometry"


def test_taken_number_is_refused_skipped_or_replaced(store: Store) -> None:
    made = make_layer(store)
    insert(store, made, [(5, point(1, 1), {"name": "old", "population": 1})])
    rows = [(4, point(0, 0), {"name": "new"}), (5, point(2, 2), {"name": "again"})]
    with pytest.raises(AlreadyExists, match=r"places\.5") as caught:
        insert(store, made, rows)
    assert caught.value.parameter == "id"
    assert ids_of(store, made) == [5]
    assert insert(store, made, rows, OnConflict.SKIP).ids.tolist() == [4]
    assert rows_of(store, made)[1] == (5, point(1, 1), {"name": "old", "population": 1})
    receipt = insert(store, made, rows, OnConflict.REPLACE)
    assert (receipt.ids.tolist(), receipt.versions.tolist()) == ([4, 5], [2, 2])
    assert rows_of(store, made) == rows
    assert store.layer_state(made.id).extent == Envelope(0, 0, 2, 2)
    with pytest.raises(InvalidParameter, match="twice"):
        insert(store, made, [(9, None, {}), (9, None, {})])
    assert_clean(store)


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        (GeometryKind.POINT, "POINT (9.5 47.1)"),
        (GeometryKind.LINESTRING, "LINESTRING (1 2, 3.25 4, 1e-7 1e16)"),
        (GeometryKind.POLYGON, "POLYGON ((0 0, 4 0, 4 4, 0 0), (1 0.5, 2 0.5, 2 1, 1 0.5))"),
        (GeometryKind.MULTIPOINT, "MULTIPOINT (1 2, 3 4)"),
        (GeometryKind.MULTIPOINT, "POINT (1 2)"),
        (GeometryKind.MULTILINESTRING, "MULTILINESTRING ((1 2, 3 4), (5 6, 7 8, 9 10))"),
        (GeometryKind.MULTIPOLYGON, "MULTIPOLYGON (((0 0, 4 0, 4 4, 0 0)), ((9 9, 9 8, 8 9, 9 9)))"),
        (GeometryKind.MULTIPOLYGON, "POLYGON ((0 0, 4 0, 4 4, 0 0))"),
        (GeometryKind.GEOMETRY, "GEOMETRYCOLLECTION (POINT (1 2), MULTIPOINT (3 4, 5 6), LINESTRING (7 8, 9 10))"),
        (GeometryKind.GEOMETRYCOLLECTION, "GEOMETRYCOLLECTION (GEOMETRYCOLLECTION (POINT (1 2)), POINT (-0.5 4))"),
    ],
)
@pytest.mark.parametrize("dimensions", [2, 3])
def test_every_geometry_is_kept_and_encoded(store: Store, kind: GeometryKind, shape: str, dimensions: int) -> None:
    import shapely

    geometry = shapely.from_wkt(shape)
    if dimensions == 3:
        geometry = shapely.force_3d(geometry, 12.5)
    text = shapely.to_wkb(geometry, flavor="iso")
    made = make_layer(store, layer(kind=kind, dimensions=dimensions, srid=3857))
    insert(store, made, [(0, text, {"name": "one"}), (0, None, {}), (0, text, {})])
    rows = rows_of(store, made)
    assert [geometry for _, geometry, _ in rows] == [text, None, text]
    for form in (FragmentForm.GML2, FragmentForm.GML3):
        assert fragments_of(store, made, form) == expected_fragments(made, form, rows)
    assert_clean(store)


def test_layer_without_geometry(store: Store) -> None:
    made = make_layer(store, layer(kind=GeometryKind.NONE))
    insert(store, made, [NOWHERE])
    with pytest.raises(InvalidParameter):
        insert(store, made, [VADUZ])
    assert store.layer_state(made.id).extent is None
    assert fragments_of(store, made, FragmentForm.GEOJSON) == (
        '{"type":"Feature","id":"places.1","geometry":null,"properties":{"name":"Nowhere","population":null,'
        '"ele":null,"capital":null,"founded":null,"seen":null}},'
    )
    assert_clean(store)


# ------------------------------------------------------------------ queries


@pytest.fixture
def towns(store: Store) -> Layer:
    """Numbers 1 to 40 on a diagonal; population from 100 down, missing in each fifth, names in pairs."""
    made = make_layer(store)
    insert(
        store,
        made,
        [
            (n, point(n, n / 2), {"name": f"town {n // 2}", **({} if n % 5 == 0 else {"population": 100 - n})})
            for n in range(1, 41)
        ],
    )
    return made


def test_filtered_count_page_and_rows_agree(store: Store, towns: Layer) -> None:
    where = compare("population", "<", 70, Kind.INTEGER)
    expected = [n for n in range(31, 41) if n % 5]
    assert store.count_features(towns.id, where) == len(expected)
    assert ids_of(store, towns, FeatureQuery(where=where)) == expected
    assert ids_of(store, towns, FeatureQuery(where=where, offset=2, limit=3)) == expected[2:5]
    got = fragments_of(store, towns, FragmentForm.GML3, FeatureQuery(where=where, offset=2, limit=3))
    rows = [row for row in rows_of(store, towns) if row[0] in expected[2:5]]
    assert got == expected_fragments(towns, FragmentForm.GML3, rows)


def test_order_is_total_and_puts_missing_values_last(store: Store, towns: Layer) -> None:
    missing = [n for n in range(1, 41) if n % 5 == 0]
    present = [n for n in range(1, 41) if n % 5]
    by = FeatureQuery(order=(SortKey("population"),))
    assert ids_of(store, towns, by) == present[::-1] + missing
    assert ids_of(store, towns, replace(by, order=(SortKey("population", True),))) == present + missing
    by_name = FeatureQuery(order=(SortKey("name"), SortKey(FEATURE_ID, True)))
    names = {n: f"town {n // 2}" for n in range(1, 41)}
    expected = sorted(range(1, 41), key=lambda n: (names[n], -n))
    assert ids_of(store, towns, by_name) == expected
    pages = [ids_of(store, towns, replace(by_name, offset=at, limit=7)) for at in range(0, 42, 7)]
    assert [n for page in pages for n in page] == expected
    with pytest.raises(InvalidParameter) as caught:
        ids_of(store, towns, FeatureQuery(order=(SortKey("nothing"),)))
    assert caught.value.parameter == "nothing"


def test_fields_and_geometry_can_be_left_out(store: Store, towns: Layer) -> None:
    for where in (None, by_number(3)):
        query = FeatureQuery(where=where, fields=("name",), geometry=False, offset=2 if where is None else 0, limit=1)
        (features,) = store.scan_features(towns.id, query)
        assert dict(features.columns) == {"name": ["town 1"]}
        assert list(features.geometries) == [None]


def test_box_tests_geometries_not_envelopes(store: Store) -> None:
    made = make_layer(store, layer(kind=GeometryKind.LINESTRING))
    insert(
        store,
        made,
        [
            (1, wkb("LINESTRING (0 0, 10 10)"), {}),
            (2, wkb("LINESTRING (0 0, 10 0, 10 10)"), {}),
            (3, wkb("LINESTRING (4 4, 5 5)"), {}),
            (4, None, {}),
            (5, wkb("LINESTRING (6 2, 9 2)"), {}),
        ],
    )
    assert ids_of(store, made, FeatureQuery(where=in_box(made, 3, 3, 6, 6))) == [1, 3]
    assert store.count_features(made.id, in_box(made, 6, 1, 8, 3)) == 1
    for operator in (SpatialOperator.BBOX, SpatialOperator.INTERSECTS):
        assert store.count_features(made.id, in_box(made, -1, -1, 11, 11, operator=operator)) == 4
    # Touching counts; a hair beside does not.
    assert store.count_features(made.id, in_box(made, 9, 1, 9.5, 2)) == 1
    assert store.count_features(made.id, in_box(made, np.nextafter(9, 10), 1, 9.5, 2)) == 0


def test_box_is_exact_beyond_the_precision_of_the_index(store: Store) -> None:
    made = make_layer(store, layer(kind=GeometryKind.LINESTRING))
    insert(store, made, [(1, wkb("LINESTRING (1.1 47.1392862, 1.2 47.1392863)"), {})])
    top, bottom, hair = 47.1392863, 47.1392862, 1e-9
    assert store.count_features(made.id, in_box(made, 0, top, 3, 48)) == 1
    assert store.count_features(made.id, in_box(made, 0, top + hair, 3, 48)) == 0
    assert store.count_features(made.id, in_box(made, 0, 46, 3, bottom)) == 1
    assert store.count_features(made.id, in_box(made, 0, 46, 3, bottom - hair)) == 0
    assert store.count_features(made.id, in_box(made, 1.2 + hair, 47, 3, 48)) == 0
    assert store.count_features(made.id, in_box(made, 0, 47, 1.1 - hair, 48)) == 0


@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 1024, 1025, 2500])
def test_every_offset_finds_its_feature(store: Store, size: int, step: int) -> None:
    made = make_layer(store)
    # One after the other but for one that is missing, or each some way from the next.
    numbers = [step * (n - 300) for n in range(size)]
    if size:
        FeatureService(store).load(made, [batch((n or 10**9, point(n, 1), {}) for n in numbers)], ME)
        numbers = sorted(n or 10**9 for n in numbers)
    stamp = stamp_of(made, PREFIX)
    for offset in sorted({0, 1, 200, 510, 511, 512, 513, 1023, 1024, size - 1, size, size + 5}):
        if offset < 0:
            continue
        page = store.fragment_page(made.id, FragmentForm.GEOJSON, stamp, offset, 3)
        found = [line.split('"', 1)[0] for line in "".join(
            (run.content or b"").decode() for run in page.runs).split('"id":"places.')[1:]]  # fmt: skip
        assert found == [str(n) for n in numbers[offset : offset + 3]]
        assert page.count == len(found)
        assert page.state.count == size
        assert ids_of(store, made, FeatureQuery(offset=offset, limit=3)) == numbers[offset : offset + 3]
    assert ids_of(store, made) == numbers
    assert_clean(store)


def test_page_is_bounded(store: Store, towns: Layer) -> None:
    stamp = stamp_of(towns, PREFIX)
    for offset, limit in ((-1, 5), (0, -1), (0, 4097)):
        with pytest.raises(InvalidParameter):
            store.fragment_page(towns.id, FragmentForm.GML2, stamp, offset, limit)
    assert store.fragment_page(towns.id, FragmentForm.GML2, stamp, 0, 0).count == 0


def test_scan_goes_on_by_key_beside_writers(store: Store) -> None:
    made = make_layer(store)
    FeatureService(store).load(made, [batch((0, point(n, n), {}) for n in range(3000))], ME)
    batches = store.scan_features(made.id)
    seen = next(batches).ids.tolist()
    # Removed before and behind, and added behind: nothing doubled, nothing lost of what stays.
    edit(store, Delete(made.id, by_number(1, 2, 2999)))
    insert(store, made, [(0, None, {})])
    for features in batches:
        seen += features.ids.tolist()
    assert seen == [n for n in range(1, 3002) if n != 2999]


def test_stream_of_a_layer_that_is_deleted_ends_with_an_error(store: Store) -> None:
    made = make_layer(store)
    FeatureService(store).load(made, [batch((0, point(n, n), {}) for n in range(3000))], ME)
    streams = [
        store.scan_features(made.id),
        store.fragments(made.id, FragmentForm.GML2, stamp_of(made, PREFIX), FeatureQuery()),
        store.scan_features(made.id, FeatureQuery(order=(SortKey("name"),))),
    ]
    for stream in streams:
        next(stream)
    store.delete_layer(made.workspace_id, made.id).result(WAIT_S)
    for stream in streams:
        with pytest.raises(NotFound):
            next(stream)


# ------------------------------------------------------------------ edits


def test_update_changes_what_it_names_alone(store: Store) -> None:
    made = make_layer(store)
    insert(store, made, [VADUZ, BALZERS])
    (receipt,) = edit(
        store, Update(made.id, compare("name", "=", "Vaduz", Kind.TEXT), {"population": 5500, "ele": None})
    )
    assert (receipt.ids.tolist(), receipt.versions.tolist()) == ([1], [2])
    assert rows_of(store, made)[0] == (1, VADUZ[1], {"name": "Vaduz", "population": 5500, "capital": True})
    assert rows_of(store, made)[1] == (2, *BALZERS[1:])
    assert_clean(store)


def test_geometry_moves_the_box_the_extent_and_the_index(store: Store) -> None:
    made = make_layer(store)
    insert(store, made, [(1, point(0, 0), {}), (2, point(5, 5), {}), (3, point(9, 9), {})])
    edit(store, Update(made.id, by_number(3), geometry=point(6, 4)))
    assert store.layer_state(made.id).extent == Envelope(0, 0, 6, 5)
    assert store.count_features(made.id, in_box(made, 8, 8, 10, 10)) == 0
    assert ids_of(store, made, FeatureQuery(where=in_box(made, 4, 4, 7, 7))) == [2, 3]
    edit(store, Update(made.id, by_number(2), geometry=None))
    assert store.layer_state(made.id).extent == Envelope(0, 0, 6, 4)
    assert ids_of(store, made, FeatureQuery(where=in_box(made, 4, 4, 7, 7))) == [3]
    edit(store, Delete(made.id, by_number(1, 3)))
    assert store.layer_state(made.id).extent is None
    assert store.layer_state(made.id).count == 1
    assert_clean(store)


def test_replacement_takes_everything_else_away(store: Store) -> None:
    made = make_layer(store)
    insert(store, made, [VADUZ])
    (receipt,) = edit(store, Replace(made.id, by_number(1), batch([(77, point(1, 2), {"name": "New"})])))
    assert (receipt.ids.tolist(), receipt.versions.tolist()) == ([1], [2])
    assert rows_of(store, made) == [(1, point(1, 2), {"name": "New"})]


def test_edits_see_what_those_before_them_did(store: Store) -> None:
    made = make_layer(store)
    receipts = edit(
        store,
        Insert(made.id, batch([(10, point(1, 1), {"name": "a"})])),
        Insert(made.id, batch([(0, point(2, 2), {"population": 2}), (0, None, {})])),
        Update(made.id, compare("name", "=", "a", Kind.TEXT), {"population": 1}),
        Delete(made.id, compare("population", "=", 2, Kind.INTEGER)),
    )
    assert [receipt.ids.tolist() for receipt in receipts] == [[10], [11, 12], [10], [11]]
    assert rows_of(store, made) == [(10, point(1, 1), {"name": "a", "population": 1}), (12, None, {})]
    assert_clean(store)


def test_edits_of_several_layers_are_done_together_or_not_at_all(store: Store) -> None:
    one, two = make_layer(store), make_layer(store, layer("roads", GeometryKind.LINESTRING))
    edit(store, Insert(one.id, batch([VADUZ])), Insert(two.id, batch([(0, None, {"name": "road"})])))
    before = [(rows_of(store, item), store.layer_state(item.id)) for item in (one, two)]
    for bad in (
        Insert(two.id, batch([(1, None, {})])),
        Insert(two.id, batch([(0, point(1, 1), {})])),
        Update(two.id, None, {"nothing": 1}),
        Update(two.id, by_number(1), {"name": "x"}, version=7),
        Insert(999, batch([(0, None, {})])),
    ):
        with pytest.raises(ThalwegError):
            edit(store, Delete(one.id, None), Update(two.id, None, {"name": "changed"}), bad)
        assert [(rows_of(store, item), store.layer_state(item.id)) for item in (one, two)] == before
    assert_clean(store)


def test_version_that_is_not_the_expected_one_conflicts(store: Store) -> None:
    made = make_layer(store)
    insert(store, made, [VADUZ])
    edit(store, Update(made.id, by_number(1), {"ele": 1.0}, version=1))
    for late in (
        Update(made.id, by_number(1), {"ele": 2.0}, version=1),
        Replace(made.id, by_number(1), batch([VADUZ]), version=1),
        Delete(made.id, by_number(1), version=3),
    ):
        with pytest.raises(VersionConflict, match=r"places\.1"):
            edit(store, late)
    assert rows_of(store, made)[0][2]["ele"] == 1.0
    (receipt,) = edit(store, Delete(made.id, by_number(1), version=2))
    assert receipt.versions.tolist() == [3]


def test_of_concurrent_conditional_edits_one_wins(backend: Backend) -> None:
    stores = [backend.open(), backend.open()]
    made = make_layer(stores[0])
    insert(stores[0], made, [(1, None, {"population": 0})])
    won = 0
    with ThreadPoolExecutor(8) as pool:
        for version in range(1, 6):

            def attempt(i: int, version: int = version) -> bool:
                try:
                    edit(stores[i % 2], Update(made.id, by_number(1), {"population": i}, version=version))
                except VersionConflict:
                    return False
                return True

            results = list(pool.map(attempt, range(8)))
            assert results.count(True) == 1
            won += 1
    assert won == 5
    assert_clean(stores[0])


def test_edit_is_bounded(store: Store) -> None:
    made = make_layer(store, layer(fields=()))
    n = MAX_EDIT_FEATURES + 1
    with pytest.raises(TooLarge):
        edit(store, Insert(made.id, Features(np.zeros(n, np.int64), [], {})))
    assert store.layer_state(made.id).count == 0


def test_used_number_begins_with_the_version_after_its_tombstone(store: Store) -> None:
    made = make_layer(store)
    insert(store, made, [(5, None, {"name": "a"})])
    edit(store, Update(made.id, by_number(5), {"name": "b"}))
    edit(store, Delete(made.id, by_number(5)))
    assert insert(store, made, [(5, None, {"name": "c"})]).versions.tolist() == [4]


# ------------------------------------------------------------------ change log


def test_change_log_holds_every_state_there_was(store: Store) -> None:
    made = make_layer(store)
    insert(store, made, [VADUZ, BALZERS])
    edit(store, Update(made.id, by_number(2), {"population": 4700}, geometry=None))
    edit(store, Delete(made.id, by_number(1)))
    changes = store.feature_changes(made.id)
    assert [(c.sequence, c.kind, c.number, c.version, c.by) for c in changes] == [
        (1, ChangeKind.INSERT, 1, 1, "tester"),
        (2, ChangeKind.INSERT, 2, 1, "tester"),
        (3, ChangeKind.UPDATE, 2, 2, "tester"),
        (4, ChangeKind.DELETE, 1, 2, "tester"),
    ]
    assert changes[0].before is None
    before = changes[2].before
    assert before is not None
    assert (before.geometries, before.columns["population"], before.columns["seen"]) == (
        [BALZERS[1]], [4628], [1_600_000_000_000_001])  # fmt: skip
    assert before.versions is not None
    assert before.versions.tolist() == [1]
    gone = changes[3].before
    assert gone is not None
    assert gone.columns["capital"] == [True]
    assert [c.sequence for c in store.feature_changes(made.id, 1, limit=2)] == [2, 3]
    assert [c.sequence for c in store.feature_history(made.id, 2)] == [3, 2]
    assert store.layer_state(made.id).sequence == 4


# ------------------------------------------------------------------ loading


def test_load_in_steps_with_and_without_numbers(store: Store) -> None:
    made = make_layer(store)
    told: list[int] = []
    rows = [(0 if n % 3 else -n - 1, point(n % 180, n % 90), {"population": n}) for n in range(3000)]
    receipt = FeatureService(store).load(
        made, [batch(rows[:100]), batch(rows[100:])], ME, progress=lambda r: told.append(r.added)
    )
    assert receipt == LoadReceipt(3000, 0, 0)
    assert told[-1] == 3000
    assert told == sorted(told)
    found = rows_of(store, made)
    assert len({number for number, _, _ in found}) == 3000
    assert sorted(values["population"] for _, _, values in found) == list(range(3000))  # type: ignore[type-var]
    assert {number for number, _, values in found if values["population"] % 3 == 0} == {  # type: ignore[operator]
        -n - 1 for n in range(0, 3000, 3)
    }
    assert store.layer_state(made.id).count == 3000
    kinds = [change.kind for change in store.feature_changes(made.id)]
    assert set(kinds) == {ChangeKind.LOAD}
    for form in (FragmentForm.GML2, FragmentForm.GEOJSON):
        assert fragments_of(store, made, form) == expected_fragments(made, form, found)
    assert_clean(store)


def test_load_can_be_run_again(store: Store) -> None:
    made = make_layer(store)
    service = FeatureService(store)
    rows = [(n, point(n % 180, 1), {"name": "a"}) for n in range(1, 2000)]
    service.load(made, [batch(rows[:1500])], ME)
    with pytest.raises(AlreadyExists):
        service.load(made, [batch(rows)], ME)
    assert service.load(made, [batch(rows)], ME, on_conflict=OnConflict.SKIP) == LoadReceipt(499, 0, 1500)
    again = [(n, point(n % 90, 2), {"name": "b"}) for n in range(1000, 2100)]
    receipt = service.load(made, [batch(again)], ME, on_conflict=OnConflict.REPLACE)
    assert receipt == LoadReceipt(100, 1000, 0)
    assert store.layer_state(made.id).count == 2099
    found = rows_of(store, made)
    assert found[998:1001] == [rows[998], again[0], again[1]]
    assert fragments_of(store, made, FragmentForm.GML3_XY) == expected_fragments(made, FragmentForm.GML3_XY, found)
    assert_clean(store)


def test_load_beside_inserts_never_gives_a_number_twice(backend: Backend) -> None:
    one, other = backend.open(), backend.open()
    made = make_layer(one)

    def batches() -> Any:
        for n in range(12):
            insert(other, made, [(0, None, {"name": "insert"})])
            yield batch((0, point(n, i % 90), {"name": "load"}) for i in range(100))

    FeatureService(one).load(made, batches(), ME)
    found = rows_of(one, made)
    assert [values["name"] for _, _, values in found].count("insert") == 12
    assert [values["name"] for _, _, values in found].count("load") == 1200
    assert fragments_of(one, made, FragmentForm.GML2) == expected_fragments(made, FragmentForm.GML2, found)
    assert_clean(one)


# ------------------------------------------------------------------ fragments that are not current


def test_renamed_field_is_served_right_before_and_after_refreshing(store: Store) -> None:
    made = make_layer(store)
    service = FeatureService(store)
    service.load(made, [batch((0, point(n % 180, n % 90), {"name": str(n)}) for n in range(1500))], ME)
    changed = make_layer(store, replace(made, fields=(replace(made.fields[0], name="label"), *made.fields[1:])))
    stamp = stamp_of(changed, PREFIX)
    run = next(iter(store.fragments(made.id, FragmentForm.GML2, stamp, FeatureQuery())))
    assert run.content is None
    assert run.features is not None
    assert run.features.columns["label"][0] == "0"
    page = store.fragment_page(made.id, FragmentForm.GML2, stamp, 700, 2)
    assert page.runs[0].features is not None
    assert page.runs[0].features.ids.tolist() == [701, 702]
    # What is written meanwhile does not make the rest current.
    insert(store, changed, [(0, None, {"label": "new"})])
    assert store.fragment_page(made.id, FragmentForm.GML2, stamp, 0, 1).runs[0].content is None
    assert service.refresh(changed) == 1501
    assert service.refresh(changed) == 0
    assert fragments_of(store, changed, FragmentForm.GML3) == expected_fragments(
        changed, FragmentForm.GML3, rows_of(store, changed)
    )
    assert_clean(store)


# ------------------------------------------------------------------ stored queries


def test_stored_queries_by_workspace(store: Store) -> None:
    found = workspace(store).id
    query = StoredQuery(found, "urn:example:towns", "<Query/>")
    store.put_stored_query(query).result(WAIT_S)
    with pytest.raises(AlreadyExists):
        store.put_stored_query(query).result(WAIT_S)
    assert store.stored_queries(found) == {"urn:example:towns": query}
    store.delete_stored_query(found, "urn:example:towns").result(WAIT_S)
    with pytest.raises(NotFound):
        store.delete_stored_query(found, "urn:example:towns").result(WAIT_S)
    assert store.stored_queries(found) == {}
    with pytest.raises(InvalidParameter):
        store.put_stored_query(StoredQuery(found, "", "x")).result(WAIT_S)


# ------------------------------------------------------------------ removal and copies


def test_deleted_layer_leaves_nothing(store: Store) -> None:
    made = make_layer(store)
    FeatureService(store).load(made, [batch((0, point(n % 180, n % 90), {}) for n in range(5000))], ME)
    store.delete_layer(made.workspace_id, made.id).result(WAIT_S)
    with pytest.raises(NotFound):
        store.delete_layer(made.workspace_id, made.id).result(WAIT_S)
    with pytest.raises(NotFound):
        store.count_features(made.id)
    assert_clean(store)
    # The name is free at once, and the number is not given again.
    again = make_layer(store)
    assert again.id != made.id
    for _ in range(20):
        store.maintain()
    assert_clean(store)
    assert store.layer_state(again.id).count == 0


def test_back_up_holds_the_layers(backend: Backend) -> None:
    store = backend.open()
    made = make_layer(store)
    insert(store, made, [VADUZ, BALZERS])
    target = backend.beside("copy")
    store.backup(target)
    insert(store, made, [NOWHERE])
    copy = backend.open_at(backend.url_of(target))
    assert rows_of(copy, made) == [(1, *VADUZ[1:]), (2, *BALZERS[1:])]
    assert copy.layers(made.workspace_id) == {"places": made}
    assert_clean(copy)


def test_fields_of_the_suite_cover_every_kind() -> None:
    assert {field.kind for field in FIELDS} == set(FieldKind)
