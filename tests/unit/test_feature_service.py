"""Layers as doors see them: who sees which, and that every output is right, stored or made per request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from pyproj import Transformer
from tests.unit.feature_plain import feature_text

from thalweg.domain.access import Principal, Role
from thalweg.domain.catalogue import Workspace
from thalweg.domain.errors import InvalidParameter, NotFound
from thalweg.domain.features import (
    FeatureQuery,
    Features,
    Field,
    FieldKind,
    GeometryKind,
    Insert,
    Layer,
    LockTarget,
    SortKey,
    Update,
)
from thalweg.domain.filters import FeatureIds
from thalweg.domain.store import Store
from thalweg.encode.feature_output import FeatureFormat, Output
from thalweg.services.feature_projection import lonlat_box, project
from thalweg.services.features import MAX_LOCK_S, FeatureService
from thalweg.store.open import open_store

ANONYMOUS = Principal("", Role.VIEWER)
VIEWER = Principal("v", Role.VIEWER)
ME = "m"
WAIT_S = 30.0
FIELDS = (Field("name", FieldKind.TEXT), Field("population", FieldKind.INTEGER), Field("ele", FieldKind.NUMBER))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = open_store(f"sqlite:///{tmp_path / 'thalweg.sqlite'}")
    yield made
    made.close()


@pytest.fixture
def service(store: Store) -> FeatureService:
    return FeatureService(store)


@pytest.fixture
def workspace(store: Store) -> Workspace:
    return store.workspaces()["default"]


def batch(*rows: tuple[int, float, float, dict[str, Any]], shape: Any = shapely.Point) -> Features:
    return Features(
        np.array([row[0] for row in rows], np.int64),
        [shapely.to_wkb(shape(row[1], row[2]), flavor="iso") for row in rows],
        {field.name: [row[3].get(field.name) for row in rows] for field in FIELDS},
    )


def make(service: FeatureService, workspace: Workspace, name: str = "towns", srid: int = 4326, **more: Any) -> Layer:
    wanted = Layer(0, "", 0, name, geometry_kind=GeometryKind.POINT, srid=srid, fields=FIELDS, **more)
    made = service.put_layer(workspace, wanted).result(WAIT_S)
    base = (9.5, 47.1) if srid == 4326 else (2_600_000.0, 1_200_000.0)
    rows = [
        (n, base[0] + n / 8, base[1] + n / 16, {"name": f'<"{n}" & é>', "population": n * n, "ele": n / 4})
        for n in range(1, 31)
    ]
    service.load(made, [batch(*rows)], ME)
    return made


def plain(layer: Layer, batches: Any, output: Output) -> str:
    """What the plain writer makes of features that are in the CRS of the output already."""
    text = ""
    for features in batches:
        for i, number in enumerate(features.ids.tolist()):
            values = {name: column[i] for name, column in features.columns.items()}
            text += feature_text(layer, output, number, features.geometries[i], values)
    return text


def test_layer_that_is_not_public_exists_for_those_alone_who_may_read_it(
    store: Store, service: FeatureService, workspace: Workspace
) -> None:
    make(service, workspace, "open")
    make(service, workspace, "closed", public=False)
    seen = store.catalogue(workspace.id)
    assert [layer.name for layer in service.layers(seen, VIEWER)][:2] == ["closed", "open"]
    assert "closed" not in [layer.name for layer in service.layers(seen, ANONYMOUS)]
    with pytest.raises(NotFound) as hidden:
        service.layer(seen, "closed", ANONYMOUS, "typeNames")
    with pytest.raises(NotFound) as absent:
        service.layer(seen, "nothing", ANONYMOUS, "typeNames")
    assert hidden.value.parameter == absent.value.parameter == "typeNames"
    assert hidden.value.message.replace("closed", "X") == absent.value.message.replace("nothing", "X")
    assert service.layer(seen, "closed", VIEWER, "typeNames").name == "closed"


OUTPUTS: list[dict[str, Any]] = [
    {},
    {"swapped": False},
    {"swapped": True},
    {"srs_name": "http://www.opengis.net/def/crs/EPSG/0/4326"},
    {"member": ""},
    {"member": "gml:featureMember"},
    {"member": "wfs:member"},
    {"fields": ("population",)},
    {"fields": ()},
    {"geometry": False},
]


@pytest.mark.parametrize("more", OUTPUTS, ids=str)
@pytest.mark.parametrize("format_", FeatureFormat)
@pytest.mark.parametrize("srid", [4326, 2056])
def test_every_output_is_what_the_plain_writer_makes(
    service: FeatureService, workspace: Workspace, format_: FeatureFormat, more: dict[str, Any], srid: int
) -> None:
    layer = make(service, workspace, srid=srid)
    output = Output.of(layer, format_, service.prefix(layer), **more)
    query = FeatureQuery(offset=3, limit=7)
    source = [
        project(features, srid, output.srid, 2) for features in service.features(layer, query)
    ]  # in the CRS of the output
    expected = plain(layer, source, output)
    page = service.page(layer, output, 3, 7)
    assert b"".join(page.content).decode() == expected
    assert (page.count, page.state.count) == (7, 30)
    assert b"".join(content for _, content in service.encoded(layer, output, query)).decode() == expected
    chosen = FeatureQuery(where=FeatureIds((2, 9, 31)), order=(SortKey("population", True),))
    runs = list(service.encoded(layer, output, chosen))
    assert sum(count for count, _ in runs) == 2
    source = [project(features, srid, output.srid, 2) for features in service.features(layer, chosen)]
    assert b"".join(content for _, content in runs).decode() == plain(layer, source, output)


def test_text_of_a_feature_is_never_taken_for_markup(service: FeatureService, workspace: Workspace) -> None:
    layer = make(service, workspace)
    trap = '"urn:ogc:def:crs:EPSG::4326"</wfs:member><wfs:member>'
    service.edit([Update(layer.id, FeatureIds((1,)), {"name": trap})], ME).result(WAIT_S)
    asked = "http://www.opengis.net/def/crs/EPSG/0/4326"
    output = Output.of(layer, FeatureFormat.GML31, service.prefix(layer), srs_name=asked)
    content = b"".join(service.page(layer, output, 0, 2).content).decode()
    assert content.count("<gml:featureMember>") == content.count("</gml:featureMember>") == 2
    assert content.count(f'"{asked}"') == 2
    assert "&quot;urn:ogc:def:crs:EPSG::4326&quot;&lt;/wfs:member&gt;&lt;wfs:member&gt;" in content


def test_other_crs_agrees_with_the_projection_library(service: FeatureService, workspace: Workspace) -> None:
    layer = make(service, workspace, srid=2056)
    to_degrees = Transformer.from_crs(2056, 4326, always_xy=True)
    content = b"".join(service.page(layer, Output.of(layer, FeatureFormat.GEOJSON, "tw"), 0, 100).content)
    for item in json.loads(b"[" + content[:-1] + b"]"):
        n = int(item["id"].rpartition(".")[2])
        expected = to_degrees.transform(2_600_000 + n / 8, 1_200_000 + n / 16)
        assert item["geometry"]["coordinates"] == pytest.approx(expected, abs=1e-9)
    extent = service.lonlat_extent(layer, service.state(layer))
    assert extent is not None
    # Bern's old observatory is at 2600000 1200000: 7.43864 46.95109 (swisstopo).
    assert extent == pytest.approx((7.43864, 46.95109, 7.43869, 46.95111), abs=2e-5)


def test_position_that_cannot_be_expressed_is_refused_by_name(service: FeatureService, workspace: Workspace) -> None:
    layer = make(service, workspace, srid=4326)
    service.edit([Insert(layer.id, batch((500, 9.0, 95.0, {})))], ME).result(WAIT_S)
    output = Output.of(layer, FeatureFormat.GML32, "tw", srid=3857)
    with pytest.raises(InvalidParameter) as caught:
        list(service.encoded(layer, output, FeatureQuery(where=FeatureIds((500,)))))
    assert caught.value.parameter == "srsName"
    swiss = make(service, workspace, "swiss", srid=3035)
    with pytest.raises(InvalidParameter) as refused:
        service.edit([Insert(swiss.id, batch((501, 1e308, 1e308, {})))], ME).result(WAIT_S)
    assert refused.value.parameter == "geometry"
    assert service.state(swiss).count == 30


def test_whole_extent_of_a_box_in_another_crs() -> None:
    from thalweg.domain.geometry import Envelope

    assert lonlat_box(Envelope(1.0, 2.0, 3.0, 4.0)) == (1.0, 2.0, 3.0, 4.0)
    # The south-western corner of UTM zone 32's strip at the equator and its middle meridian.
    box = lonlat_box(Envelope(500_000.0, 0.0, 500_000.0, 0.0, 32632))
    assert box == pytest.approx((9.0, 0.0, 9.0, 0.0), abs=1e-9)


def test_changed_workspace_name_and_layer_are_served_right_at_once(
    service: FeatureService, store: Store, workspace: Workspace
) -> None:
    layer = make(service, workspace)
    output = Output.of(layer, FeatureFormat.GML32, service.prefix(layer))
    renamed = service.put_layer(workspace, replace(layer, name="cities")).result(WAIT_S)
    after = Output.of(renamed, FeatureFormat.GML32, service.prefix(renamed))
    content = b"".join(service.page(renamed, after, 0, 1).content).decode()
    # Ids stay what they were.
    assert content.startswith('<wfs:member><tw:cities gml:id="towns.1">')
    assert service.refresh(renamed) == 30
    assert b"".join(service.page(renamed, after, 0, 1).content).decode() == content
    assert output.prefix == after.prefix == "tw"


def test_load_under_the_name_that_the_layer_will_have(service: FeatureService, workspace: Workspace) -> None:
    made = service.put_layer(
        workspace, Layer(0, "", 0, "_loading", geometry_kind=GeometryKind.POINT, fields=FIELDS)
    ).result(WAIT_S)
    final = replace(made, name="towns", id_prefix="towns")
    service.load(final, [batch((1, 1.0, 2.0, {"name": "a"}))], ME)
    layer = service.put_layer(workspace, final).result(WAIT_S)
    assert layer.id_prefix == "towns"
    assert service.refresh(layer) == 0
    output = Output.of(layer, FeatureFormat.GML2, "tw")
    assert b'<tw:towns fid="towns.1">' in b"".join(service.page(layer, output, 0, 1).content)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), MAX_LOCK_S + 1.0, 1e9])
def test_lock_time_is_bounded(service: FeatureService, workspace: Workspace, seconds: float) -> None:
    layer = make(service, workspace)
    with pytest.raises(InvalidParameter) as caught:
        service.lock_features([LockTarget(layer.id)], seconds, ME).result(WAIT_S)
    assert caught.value.parameter == "expiry"
    held = service.lock_features([LockTarget(layer.id)], 5, ME).result(WAIT_S)
    with pytest.raises(InvalidParameter):
        service.reset_lock(held.id, seconds).result(WAIT_S)
    assert len(service.locked(layer)) == 30


def test_one_feature_by_number(service: FeatureService, workspace: Workspace) -> None:
    layer = make(service, workspace)
    one = service.feature(layer, 7)
    assert one is not None
    assert (one.ids.tolist(), one.columns["population"]) == ([7], [49])
    assert service.feature(layer, 99) is None


@pytest.mark.parametrize(
    ("feature_id", "number"),
    [
        ("towns.7", 7), ("towns.-7", -7), ("towns.0", 0), ("towns.9223372036854775807", 2**63 - 1),
        ("towns.9223372036854775808", None), ("towns.07", None), ("towns.+7", None), ("towns.", None),
        ("towns.-", None),
        ("towns", None), ("7", None), ("roads.7", None), ("towns.7.5", None), ("towns.\u0667", None),
        ("towns.-0", None),
        ("towns. 7", None), ("", None),
    ],
)  # fmt: skip
def test_ids_outside_are_read_as_they_are_written(feature_id: str, number: int | None) -> None:
    layer = Layer(1, "", 1, "towns", id_prefix="towns")
    assert layer.feature_number(feature_id) == number
    if number is not None:
        assert layer.feature_id(number) == feature_id
