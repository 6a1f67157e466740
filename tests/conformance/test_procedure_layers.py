"""Procedures as layers: what stations and latest hold, that they are current, and that nobody can change them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from tests.store.support import (
    EVERY_KIND,
    STEP,
    T0,
    WAIT_S,
    SqliteBackend,
    Station,
    block,
    feature,
    insert,
    kinds_of,
    procedure,
    register,
    series,
)

from thalweg.domain.access import Principal, Role, Scope
from thalweg.domain.catalogue import ProcedureKind, Workspace
from thalweg.domain.errors import InvalidParameter, NotSupported, Unauthenticated
from thalweg.domain.features import (
    Delete,
    FeatureQuery,
    Features,
    GeometryKind,
    Insert,
    Layer,
    LockTarget,
    SortKey,
)
from thalweg.domain.filters import FEATURE_ID
from thalweg.domain.geometry import Geometry, point
from thalweg.domain.store import Registration, Store
from thalweg.encode.feature_output import FeatureFormat, Output
from thalweg.services.catalogue import CatalogueService
from thalweg.services.features import FeatureService

ANYBODY = Principal("", Role.VIEWER)
NOBODY = Principal("", Role.NOTHING)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    backend = SqliteBackend(tmp_path)
    yield backend.open()
    backend.close()


@pytest.fixture
def service(store: Store) -> FeatureService:
    return FeatureService(store)


@pytest.fixture
def workspace(store: Store) -> Workspace:
    return store.workspaces()["default"]


def rows(service: FeatureService, layer: Layer, query: FeatureQuery | None = None) -> list[dict[str, Any]]:
    result = []
    for batch in service.features(layer, query or FeatureQuery()):
        for i, number in enumerate(batch.ids.tolist()):
            blob = batch.geometries[i]
            place = None if blob is None else shapely.from_wkb(blob).wkt
            result.append({"@": number, "#": place} | {key: column[i] for key, column in batch.columns.items()})
    return result


def layer_of(store: Store, service: FeatureService, workspace: Workspace, name: str) -> Layer:
    return service.layer(store.catalogue(workspace.id), name, ANYBODY, "layer")


def test_a_workspace_without_procedures_has_no_layers_of_them(
    store: Store, service: FeatureService, workspace: Workspace
) -> None:
    assert service.layers(store.catalogue(workspace.id), ANYBODY) == []


def test_stations_are_the_procedures_at_their_places(
    store: Store, service: FeatureService, workspace: Workspace
) -> None:
    lugano = register(store)
    register(store, "BELLINZONA", [series("air:humidity", "%")])
    insert(store, lugano, block([T0, T0 + STEP], {lugano.ids[0]: [20.5, 21.0]}))
    layer = layer_of(store, service, workspace, "stations")
    first, second = rows(service, layer)
    assert first == {
        "@": lugano.procedure.id,
        "#": "POINT (8.96 46.01)",
        "name": "LUGANO",
        "identifier": "urn:ogc:def:procedure:x-thalweg:1.0:LUGANO",
        "title": None,
        "kind": "insitu-fixed-point",
        "feature_of_interest": "urn:ogc:def:feature:x-thalweg:1.0:LUGANO",
        "altitude": 273.0,
        "observed_properties": "air:temperature air:rainfall",
        "begin": T0,
        "end": T0 + STEP,
        "last_time": T0 + STEP,
        "observations": 2,
    }
    assert (second["name"], second["begin"], second["end"], second["last_time"]) == ("BELLINZONA", None, None, None)
    state = service.state(layer)
    assert state.count == service.count(layer) == 2
    assert state.extent is not None
    assert (state.extent.min_x, state.extent.max_y) == (8.96, 46.01)


def test_latest_is_the_newest_value_of_every_property(
    store: Store, service: FeatureService, workspace: Workspace
) -> None:
    station = register(store, "A", EVERY_KIND)
    temperature, count, present, door = station.ids
    insert(
        store,
        station,
        block(
            [T0, T0 + STEP],
            {temperature: [1.5, 2.5], count: [7, None], present: ["fog", None], door: [None, True]},
            kinds=kinds_of(station),
            quality=110,
        ),
    )
    layer = layer_of(store, service, workspace, "latest")
    found = rows(service, layer)
    assert [(row["observed_property"], row["value"], row["text"], row["unit"], row["time"]) for row in found] == [
        ("air:temperature", 2.5, None, "Cel", T0 + STEP),
        ("traffic:count", 7.0, None, "1", T0),
        ("weather:present", None, "fog", None, T0),
        ("door:open", None, "true", None, T0 + STEP),
    ]
    assert {row["quality"] for row in found} == {110}
    assert {row["#"] for row in found} == {"POINT (8.96 46.01)"}
    assert len({row["@"] for row in found}) == 4


def test_every_acknowledged_observation_is_seen_at_once_and_by_every_process(
    store: Store, service: FeatureService, workspace: Workspace, tmp_path: Path
) -> None:
    other_store = SqliteBackend(tmp_path).open()
    try:
        other = FeatureService(other_store)
        stations = [register(store, f"S{n}") for n in range(3)]
        layer = layer_of(store, service, workspace, "latest")
        generations = []
        for n in range(20):
            station = stations[n % 3]
            insert(store, station, block([T0 + n * STEP], {station.ids[0]: [float(n)]}))
            for reader in (service, other):
                newest = {row["procedure"]: row["value"] for row in rows(reader, layer)}
                assert newest[f"S{n % 3}"] == float(n)
            assert service.state(layer).generation == other.state(layer).generation
            generations.append(service.state(layer).generation)
        assert generations == sorted(set(generations))
    finally:
        other_store.close()


def test_corrections_and_deletions_are_seen(store: Store, service: FeatureService, workspace: Workspace) -> None:
    station = register(store)
    insert(store, station, block([T0, T0 + STEP], {station.ids[0]: [1.0, 2.0]}))
    layer = layer_of(store, service, workspace, "latest")
    before = service.state(layer).generation
    from thalweg.domain.observations import OnDuplicate
    from thalweg.domain.time import Interval

    insert(store, station, block([T0 + STEP], {station.ids[0]: [9.0]}), on_duplicate=OnDuplicate.REPLACE)
    assert [row["value"] for row in rows(service, layer)] == [9.0]
    assert service.state(layer).generation > before
    store.delete(station.track, Interval(T0 + STEP, T0 + STEP + 1)).result(WAIT_S)
    assert [(row["value"], row["time"]) for row in rows(service, layer)] == [(1.0, T0)]
    store.delete_procedure(station.workspace_id, station.procedure.id).result(WAIT_S)
    assert service.layers(store.catalogue(workspace.id), ANYBODY) == []


def test_a_mobile_procedure_is_where_it_was_last(store: Store, service: FeatureService, workspace: Workspace) -> None:
    boat = register(store, "BOAT", kind=ProcedureKind.MOBILE)
    insert(
        store,
        boat,
        block([T0, T0 + STEP], {boat.ids[0]: [1.0, 2.0]}, positions=[[8.9, 46.0, 200.0], [8.95, 46.05, 201.0]]),
    )
    (station,) = rows(service, layer_of(store, service, workspace, "stations"))
    assert (station["#"], station["altitude"]) == ("POINT (8.95 46.05)", 201.0)
    (latest,) = rows(service, layer_of(store, service, workspace, "latest"))
    assert latest["#"] == "POINT (8.95 46.05)"


def test_places_in_another_crs_come_in_longitude_and_latitude(
    store: Store, service: FeatureService, workspace: Workspace
) -> None:
    swiss = feature("BERN", geometry=point(2_600_000, 1_200_000, 560.0, 2056))
    store.register_procedure(workspace.id, Registration(procedure("BERN"), (series("x"),), (swiss,))).result(WAIT_S)
    (station,) = rows(service, layer_of(store, service, workspace, "stations"))
    x, y = shapely.from_wkt(station["#"]).coords[0]
    # Bern's old observatory: 7°26'19.08", 46°57'3.9".
    assert (x, y) == pytest.approx((7.438632, 46.951083), abs=2e-6)
    assert station["altitude"] == 560.0


def test_areas_as_features_of_interest_make_it_a_layer_of_any_geometry(
    store: Store, service: FeatureService, workspace: Workspace
) -> None:
    register(store)
    assert layer_of(store, service, workspace, "stations").geometry_kind is GeometryKind.POINT
    area = feature("FIELD", geometry=Geometry("Polygon", (((8.0, 46.0), (9.0, 46.0), (9.0, 47.0), (8.0, 46.0)),)))
    nowhere = feature("NOWHERE", geometry=None)
    for place in (area, nowhere):
        made = Registration(procedure(place.name), (series(f"y:{place.name}"),), (place,))
        store.register_procedure(workspace.id, made).result(WAIT_S)
    layer = layer_of(store, service, workspace, "stations")
    assert layer.geometry_kind is GeometryKind.GEOMETRY
    assert [row["#"] for row in rows(service, layer)] == [
        "POINT (8.96 46.01)",
        "POLYGON ((8 46, 9 46, 9 47, 8 46))",
        None,
    ]


def test_order_pages_and_fields_are_those_asked_for(
    store: Store, service: FeatureService, workspace: Workspace
) -> None:
    stations = [register(store, name) for name in ("B", "C", "A")]
    insert(store, stations[0], block([T0], {stations[0].ids[0]: [1.0]}))
    layer = layer_of(store, service, workspace, "stations")

    def names(**query: Any) -> list[str]:
        return [row["name"] for row in rows(service, layer, FeatureQuery(**query))]

    assert names() == ["B", "C", "A"]
    assert names(order=(SortKey("name"),)) == ["A", "B", "C"]
    assert names(order=(SortKey("name", descending=True),), offset=1, limit=1) == ["B"]
    # Missing ones last, whatever the direction; ties in the order of the ids.
    assert names(order=(SortKey("begin"),)) == ["B", "C", "A"]
    assert names(order=(SortKey("begin", descending=True), SortKey("name"))) == ["B", "A", "C"]
    assert names(order=(SortKey(FEATURE_ID, descending=True),)) == ["A", "C", "B"]
    assert names(offset=2) == ["A"]
    assert names(offset=5) == []
    (row,) = rows(service, layer, FeatureQuery(limit=1, fields=("kind",), geometry=False))
    assert row == {"@": stations[0].procedure.id, "#": None, "kind": "insitu-fixed-point"}
    batch = service.feature(layer, stations[1].procedure.id)
    assert batch is not None
    assert batch.columns["name"] == ["C"]
    assert service.feature(layer, 999) is None


def test_pages_hold_encoded_features(store: Store, service: FeatureService, workspace: Workspace) -> None:
    for name in ("A", "B", "C"):
        register(store, name)
    layer = layer_of(store, service, workspace, "stations")
    output = Output.of(layer, FeatureFormat.GML32, service.prefix(layer))
    page = service.page(layer, output, 1, 1)
    assert (page.count, page.state.count) == (1, 3)
    text = b"".join(page.content)
    assert b'gml:id="stations.2"' in text
    # The urn's order is latitude before longitude.
    assert b"<gml:pos>46.01 8.96</gml:pos>" in text


def test_nobody_edits_locks_or_takes_the_names(store: Store, service: FeatureService, workspace: Workspace) -> None:
    register(store)
    layer = layer_of(store, service, workspace, "latest")
    admin = "admin"
    batch = Features(np.array([0]), [None], {})
    with pytest.raises(NotSupported, match="inserting observations"):
        service.edit([Insert(layer.id, batch)], admin)
    with pytest.raises(NotSupported):
        service.edit([Delete(layer.id, None)], admin)
    with pytest.raises(NotSupported):
        service.load(layer, [batch], admin)
    with pytest.raises(NotSupported):
        service.delete_layer(layer)
    with pytest.raises(NotSupported):
        service.lock_features([LockTarget(layer.id)], 10, admin)
    for name in ("stations", "LATEST"):
        with pytest.raises(InvalidParameter, match="another name"):
            service.put_layer(workspace, Layer(0, "", workspace.id, name))


def test_workspaces_show_their_own_procedures_alone(store: Store, service: FeatureService) -> None:
    other = store.put_workspace(Workspace(0, "6f9619ff-8b86-d011-b42d-00c04fc964ff", "other")).result(WAIT_S)
    register(store, "A")
    register(store, "B", workspace_id=other.id)
    for name, wanted in (("default", "A"), ("other", "B")):
        workspace = store.workspaces()[name]
        layer = layer_of(store, service, workspace, "stations")
        assert [row["name"] for row in rows(service, layer)] == [wanted]


def test_a_role_without_reading_sees_none(store: Store, service: FeatureService, workspace: Workspace) -> None:
    register(store)
    with pytest.raises(Unauthenticated):
        CatalogueService(store).seen("default", Principal("", Role.NOTHING))
    # As it would be for who holds a role for something else in the workspace.
    assert service.layers(store.catalogue(workspace.id).restricted(frozenset({("layer", 9)})), NOBODY) == []


def hidden_and_shown(store: Store) -> tuple[Station, Station]:
    """A public station, and a private one at a place of its own that observes something of its own."""
    shown = register(store, "SHOWN")
    hidden = register(store, "HIDDEN", [series("air:humidity", "%")])
    place = store.catalogue(1).features[hidden.features[0]]
    store.put_feature(1, replace(place, geometry=point(9.5, 46.9, 1800.0))).result(WAIT_S)
    store.update_procedure(1, replace(hidden.procedure, public=False)).result(WAIT_S)
    insert(store, shown, block([T0], {shown.ids[0]: [1.0]}))
    insert(store, hidden, block([T0], {hidden.ids[0]: [55.0]}))
    return shown, hidden


def test_private_procedures_are_in_no_layer_count_extent_or_filter(
    store: Store, service: FeatureService, workspace: Workspace
) -> None:
    _, hidden = hidden_and_shown(store)
    catalogues = CatalogueService(store)
    viewer = Principal("v", Role.VIEWER)
    partner = Principal("p", Role.NOTHING, grants={Scope(1, "procedure", hidden.procedure.id): Role.VIEWER})
    for caller, names, east in (
        (ANYBODY, ["SHOWN"], 8.96),
        (viewer, ["SHOWN", "HIDDEN"], 9.5),
        (partner, ["HIDDEN"], 9.5),
    ):
        seen = catalogues.seen("default", caller)
        for name, key in (("stations", "name"), ("latest", "procedure")):
            layer = service.layer(seen, name, caller, "layer")
            assert [row[key] for row in rows(service, layer)] == names
            state = service.state(layer)
            assert service.states([layer])[layer.id] == state
            assert (state.count, service.count(layer)) == (len(names), len(names))
            assert state.extent is not None
            assert state.extent.max_x == east
            found = service.feature(layer, rows(service, layer)[0]["@"])
            assert found is not None
        by_number = service.feature(service.layer(seen, "stations", caller, "layer"), hidden.procedure.id)
        assert (by_number is None) == (caller is ANYBODY)
        output = Output.of(layer, FeatureFormat.GML32, "tw")
        text = b"".join(service.page(layer, output, 0, 10).content)
        assert (b"HIDDEN" in text, b"SHOWN" in text) == ("HIDDEN" in names, "SHOWN" in names)


def test_validators_of_these_layers_change_with_what_is_seen_alone(
    store: Store, service: FeatureService, workspace: Workspace, tmp_path: Path
) -> None:
    shown, hidden = hidden_and_shown(store)
    other_store = SqliteBackend(tmp_path).open()
    try:
        other, seen = FeatureService(other_store), CatalogueService(store)

        def validators(service: FeatureService, catalogues: CatalogueService) -> set[tuple[int, int, int]]:
            layers = service.layers(catalogues.seen("default", ANYBODY), ANYBODY)
            assert len(layers) == 2
            return {(layer.id, layer.generation, service.state(layer).generation) for layer in layers}

        before = validators(service, seen)
        # The same in every process.
        assert validators(other, CatalogueService(other_store)) == before
        insert(store, hidden, block([T0 + STEP], {hidden.ids[0]: [56.0]}))
        store.update_procedure(1, replace(hidden.procedure, public=False, title="Secret")).result(WAIT_S)
        assert validators(service, seen) == validators(other, CatalogueService(other_store)) == before
        insert(store, shown, block([T0 + STEP], {shown.ids[0]: [2.0]}))
        after = validators(service, seen)
        assert not {generation for _, _, generation in before} & {generation for _, _, generation in after}
        # Also when all is as numerous as before, and the newest change is gone.
        third = register(store, "THIRD")
        assert validators(service, seen) != after
        store.delete_procedure(1, third.procedure.id).result(WAIT_S)
        assert validators(service, seen) == after
        store.update_procedure(1, replace(hidden.procedure, public=True)).result(WAIT_S)
        whole = service.layer(seen.seen("default", ANYBODY), "stations", ANYBODY, "layer")
        assert service.state(whole).count == 2
        assert whole.id not in {number for number, _, _ in after}
    finally:
        other_store.close()


def test_a_read_after_an_insert_makes_only_that_procedure_anew(
    store: Store, service: FeatureService, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    stations = [register(store, f"S{n}") for n in range(12)]
    for station in stations:
        insert(store, station, block([T0], {station.ids[0]: [1.0]}))
    layer = layer_of(store, service, workspace, "latest")
    rows(service, layer)
    asked: list[int] = []
    states = type(store).states

    def noting(self: Store, track_ids: Any) -> Any:
        ids = list(track_ids)
        asked.append(len(ids))
        return states(self, ids)

    monkeypatch.setattr(type(store), "states", noting)
    rows(service, layer)
    insert(store, stations[3], block([T0 + STEP], {stations[3].ids[0]: [2.0]}))
    rows(service, layer)
    assert asked == [1]
