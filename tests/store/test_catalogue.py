"""Workspaces, procedures, properties, units, features, offerings: registered whole, changed, removed, seen at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.store.support import (
    EVERY_KIND,
    NUMBERS,
    STEP,
    T0,
    WAIT_S,
    Backend,
    block,
    default_workspace,
    feature,
    insert,
    new_uuid,
    observed_property,
    procedure,
    register,
    scan,
    series,
    station_of,
)

from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import (
    AllowedValues,
    Contact,
    Document,
    Feature,
    HistoryEvent,
    ObservedProperty,
    Offering,
    ProcedureKind,
    Provider,
    SensorDescription,
    Term,
    Unit,
    Workspace,
)
from thalweg.domain.errors import AlreadyExists, InvalidParameter, NotFound, ThalwegError
from thalweg.domain.geometry import Geometry
from thalweg.domain.store import Registration, SeriesRegistration, Store
from thalweg.domain.time import Duration

DESCRIPTION = SensorDescription(
    keywords=("weather", "Füße & <Maße>"),
    identifiers=(Term("uniqueID", "urn:ogc:def:identifier:OGC:uniqueID", "urn:x:1"),),
    classifiers=(Term("System Type", "urn:ogc:def:classifier:x:1.0:systemType", "insitu-fixed-point"),),
    capabilities=(Term("Sampling time resolution", "urn:x:resolution", "PT10M", "iso8601"),),
    characteristics=(Term("height", "urn:x:height", "2.0", "m"),),
    contacts=(Contact(role="owner", individual="R. Rossi", organization="IST", email="info@example.org"),),
    documents=(Document("manual", "https://example.org/m.pdf", "2014-01-01", "application/pdf"),),
    history=(HistoryEvent("calibration", "2014-02-01", "in the laboratory", "https://example.org/c"),),
    inputs=(Term("input", "urn:x:input", ""),),
    interfaces="RS232",
    original="<SensorML>\n  <!-- é -->\n</SensorML>",
    original_format='text/xml;subtype="sensorML/1.0.1"',
)


def offering(name: str, **fields: object) -> Offering:
    return Offering(0, new_uuid(), f"urn:ogc:def:offering:x-thalweg:1.0:{name}", name, **fields)  # type: ignore[arg-type]


# ------------------------------------------------------------------ workspaces


def test_new_store_has_the_default_workspace_and_nothing_in_it(store: Store) -> None:
    assert list(store.workspaces()) == ["default"]
    catalogue = store.catalogue(default_workspace(store))
    assert catalogue.workspace.name == "default"
    assert not catalogue.procedures
    assert not catalogue.offerings
    assert not catalogue.features


def test_workspace_is_created_and_changed_with_all_its_fields(store: Store) -> None:
    wanted = Workspace(
        0,
        new_uuid(),
        "ticino",
        title="Hydrometeorology",
        abstract="Rete di misura",
        keywords=("rain", "river"),
        fees="NONE",
        access_constraints="CC BY 4.0",
        authority="x-ist",
        srids=(21781, 4326),
        provider=Provider(name="IST", email="info@example.org", city="Canobbio"),
    )
    made = store.put_workspace(wanted).result(WAIT_S)
    assert made.id > 0
    assert replace(made, id=0, generation=0) == wanted
    found = store.workspaces()["ticino"]
    assert replace(found, generation=0) == replace(made, generation=0)
    before = store.catalogue(made.id).generation
    changed = store.put_workspace(replace(found, title="Idrometeorologia", srids=(2056,))).result(WAIT_S)
    assert changed.id == made.id
    catalogue = store.catalogue(made.id)
    assert catalogue.workspace.title == "Idrometeorologia"
    assert catalogue.workspace.srids == (2056,)
    assert catalogue.generation > before


def test_workspace_name_is_unique_and_unknown_id_is_refused(store: Store) -> None:
    with pytest.raises(AlreadyExists):
        store.put_workspace(Workspace(0, new_uuid(), "default")).result(WAIT_S)
    with pytest.raises(NotFound):
        store.put_workspace(Workspace(4711, new_uuid(), "elsewhere")).result(WAIT_S)
    with pytest.raises(NotFound):
        store.catalogue(4711)


def test_workspaces_do_not_see_one_another(store: Store) -> None:
    other = store.put_workspace(Workspace(0, new_uuid(), "other")).result(WAIT_S)
    here = register(store, "LUGANO")
    there = register(store, "LUGANO", workspace_id=other.id)
    assert here.procedure.id != there.procedure.id
    assert not set(here.tracks) & set(there.tracks)
    assert list(store.catalogue(other.id).procedures) == [there.procedure.id]
    with pytest.raises(NotFound):
        insert(store, replace(here, workspace_id=other.id), block([T0], {here.ids[0]: [1.0]}))


# ------------------------------------------------------------------ registration


def test_registration_comes_back_whole(store: Store) -> None:
    workspace_id = default_workspace(store)
    constraint = AllowedValues(
        minimum=-40.0, maximum=60.0, role="urn:ogc:def:classifiers:x-istsos:1.0:qualityIndex:check:reasonable"
    )
    wanted = Registration(
        procedure(
            "T_LUGANO", kind=ProcedureKind.FIXED, title="Lugano", srid=21781, acquisition=Duration(0, STEP // 10)
        ),
        (
            SeriesRegistration(
                observed_property("air:temperature", description="2 m", constraint=AllowedValues(minimum=-273.15)),
                Unit(0, "Cel", "degree Celsius"),
                ValueKind.NUMBER,
                constraint,
                "temp",
            ),
            SeriesRegistration(
                observed_property("sky", constraint=AllowedValues(values=("clear", "overcast"))),
                Unit(0, ""),
                ValueKind.TEXT,
            ),
        ),
        (feature("LUGANO"),),
        (offering("network"), offering("T_LUGANO", procedure_id=0)),
        DESCRIPTION,
    )
    made = store.register_procedure(workspace_id, wanted).result(WAIT_S)
    catalogue = store.catalogue(workspace_id)
    found = catalogue.procedures[made.id]
    assert replace(found, generation=0) == replace(made, generation=0)
    plain = replace(found, id=0, series=(), feature_id=None, generation=0)
    assert plain == wanted.procedure
    assert [s.kind for s in found.series] == [ValueKind.NUMBER, ValueKind.TEXT]
    assert found.series[0].constraint == constraint
    assert found.series[0].name == "temp"
    properties = [catalogue.properties[s.property_id] for s in found.series]
    assert [replace(p, id=0) for p in properties] == [s.observed_property for s in wanted.series]
    units = [catalogue.units[s.unit_id] for s in found.series]
    assert [u.code for u in units] == ["Cel", ""]
    assert units[0].description == "degree Celsius"
    assert found.feature_id is not None
    assert replace(catalogue.features[found.feature_id], id=0) == wanted.features[0]
    assert [(t.procedure_id, t.feature_id) for t in catalogue.tracks.values()] == [(made.id, found.feature_id)]
    network, own = catalogue.offering("network"), catalogue.offering("T_LUGANO")
    assert network is not None
    assert own is not None
    assert network.procedure_id is None
    assert own.procedure_id == made.id
    assert network.procedure_ids == own.procedure_ids == (made.id,)
    assert store.description(made.id) == DESCRIPTION


def test_second_procedure_uses_what_is_known_and_changes_none_of_it(store: Store) -> None:
    workspace_id = default_workspace(store)
    first = register(store, "LUGANO")
    before = store.catalogue(workspace_id)
    store.register_procedure(
        workspace_id,
        Registration(
            procedure("T2"),
            (
                SeriesRegistration(
                    observed_property("air:temperature", description="another text"),
                    Unit(0, "Cel", "another text"),
                    ValueKind.INTEGER,
                ),
            ),
            (feature("LUGANO", description="another text"), feature("SECOND")),
        ),
    ).result(WAIT_S)
    after = store.catalogue(workspace_id)
    assert after.properties == before.properties
    assert after.units == before.units
    assert {k: after.features[k] for k in before.features} == before.features
    second = after.procedure("T2")
    assert second is not None
    assert second.feature_id == first.features[0]
    assert second.series[0].property_id == first.ids[0]
    assert len(after.tracks_by_procedure[second.id]) == 2


def test_registration_at_a_stored_feature_by_id(store: Store) -> None:
    workspace_id = default_workspace(store)
    place = store.put_feature(workspace_id, feature("HERE")).result(WAIT_S)
    made = store.register_procedure(workspace_id, Registration(procedure("P"), NUMBERS, (place,))).result(WAIT_S)
    assert made.feature_id == place.id
    assert list(store.catalogue(workspace_id).features) == [place.id]


@pytest.mark.parametrize("taken", ["identifier", "name", "assigned_id"])
def test_taken_name_is_refused_and_leaves_nothing(store: Store, taken: str) -> None:
    station = register(store, "LUGANO")
    before = store.catalogue(station.workspace_id)
    wanted = replace(procedure("OTHER"), **{taken: getattr(station.procedure, taken)})
    with pytest.raises(AlreadyExists) as refused:
        store.register_procedure(
            station.workspace_id,
            Registration(wanted, (series("new:property", "new"),), (feature("NEW"),), (offering("new"),)),
        ).result(WAIT_S)
    assert refused.value.parameter == "procedure"
    after = store.catalogue(station.workspace_id)
    for part in ("procedures", "properties", "units", "features", "offerings", "tracks"):
        assert getattr(after, part) == getattr(before, part)


def test_procedure_without_feature_and_without_sampling(store: Store) -> None:
    workspace_id = default_workspace(store)
    made = store.register_procedure(workspace_id, Registration(procedure("LOOSE", sampling=None), NUMBERS)).result(
        WAIT_S
    )
    assert made.feature_id is None
    found = store.catalogue(workspace_id)
    assert found.procedures[made.id].sampling is None
    assert not found.tracks_by_procedure.get(made.id)
    assert store.description(made.id) == SensorDescription()


def test_feature_geometries_come_back_exactly(store: Store) -> None:
    workspace_id = default_workspace(store)
    for name, geometry in {
        "none": None,
        "point": Geometry("Point", (8.960000000000001, -46.1)),
        "high": Geometry("Point", (2_600_000.25, 1_200_000.5, 273.123456789), 2056),
        "area": Geometry("Polygon", (((0.0, 0.0), (1.0, 0.0), (1.0, 1 / 3), (0.0, 0.0)), ((0.1, 0.1),) * 4)),
        "line": Geometry("LineString", ((0.0, 0.0), (1e-300, 2.0))),
    }.items():
        made = store.put_feature(workspace_id, feature(name, geometry=geometry, sampled="urn:x:lake")).result(WAIT_S)
        assert made.geometry == geometry
        assert store.catalogue(workspace_id).features[made.id].geometry == geometry


def test_unknown_description_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        store.description(4711)


# ------------------------------------------------------------------ changes


def test_procedure_is_changed_and_its_description_only_if_given(store: Store) -> None:
    station = register(store)
    changed = replace(station.procedure, title="new title", sampling=Duration(0, 2 * STEP))
    store.update_procedure(station.workspace_id, changed, DESCRIPTION).result(WAIT_S)
    again = replace(changed, title="newer title")
    store.update_procedure(station.workspace_id, again).result(WAIT_S)
    found = store.catalogue(station.workspace_id).procedures[station.procedure.id]
    assert replace(found, generation=0) == replace(again, generation=0)
    assert found.generation > station.procedure.generation
    assert store.description(found.id) == DESCRIPTION


def test_series_are_changed_and_appended_but_never_removed_or_reordered(store: Store) -> None:
    station = register(store)
    workspace_id = station.workspace_id
    other = register(store, "OTHER", [series("air:pressure", "hPa")])
    fahrenheit = store.put_unit(workspace_id, Unit(0, "[degF]")).result(WAIT_S)
    first, second = station.procedure.series
    changed = replace(first, unit_id=fahrenheit.id, constraint=AllowedValues(maximum=130.0), name="T")
    wanted = replace(station.procedure, series=(changed, second, other.procedure.series[0]))
    store.update_procedure(workspace_id, wanted).result(WAIT_S)
    assert store.catalogue(workspace_id).procedures[station.procedure.id].series == wanted.series
    for series_ in ((second, changed, wanted.series[2]), (changed, second), ()):
        with pytest.raises(ThalwegError):
            store.update_procedure(workspace_id, replace(wanted, series=series_)).result(WAIT_S)
    assert store.catalogue(workspace_id).procedures[station.procedure.id].series == wanted.series


def test_update_refuses_unknown_procedures_and_taken_names(store: Store) -> None:
    station, other = register(store), register(store, "OTHER")
    with pytest.raises(NotFound):
        store.update_procedure(station.workspace_id, replace(station.procedure, id=4711)).result(WAIT_S)
    with pytest.raises(AlreadyExists):
        store.update_procedure(station.workspace_id, replace(station.procedure, name=other.procedure.name)).result(
            WAIT_S
        )


def test_added_series_hold_values_beside_the_old_ones(store: Store) -> None:
    station = register(store)
    insert(store, station, block([T0], {station.ids[0]: [1.0]}))
    changed = store.add_series(
        station.procedure.id,
        [
            SeriesRegistration(observed_property("air:temperature"), Unit(0, "K"), ValueKind.INTEGER),
            series("air:pressure", "hPa"),
        ],
    ).result(WAIT_S)
    assert changed.series[:2] == station.procedure.series
    assert len(changed.series) == 3
    new = station_of(store, station.workspace_id, station.procedure.id)
    assert new.procedure.series == changed.series
    insert(store, new, block([T0], {new.ids[2]: [1013.25]}))
    assert [sorted(cells) for _, cells, _ in scan(store, new.track, new.ids)] == [[new.ids[0], new.ids[2]]]


def test_deleted_procedure_takes_all_its_own_with_it_and_nothing_else(store: Store) -> None:
    workspace_id = default_workspace(store)
    store.register_procedure(
        workspace_id,
        Registration(
            procedure("GONE"), NUMBERS, (feature("HERE"),), (offering("network"), offering("GONE", procedure_id=0))
        ),
    ).result(WAIT_S)
    store.register_procedure(
        workspace_id, Registration(procedure("STAYS"), NUMBERS, (feature("HERE"),), (offering("network"),))
    ).result(WAIT_S)
    catalogue = store.catalogue(workspace_id)
    gone, stays = catalogue.procedure("GONE"), catalogue.procedure("STAYS")
    assert gone is not None
    assert stays is not None
    for found in (gone, stays):
        station = station_of(store, workspace_id, found.id)
        insert(store, station, block([T0, T0 + STEP], {station.ids[0]: [1.0, 2.0]}))
        insert(store, station, block([T0 - STEP], {station.ids[0]: [0.0]}))
        store.seal(station.track, everything=True)
        insert(store, station, block([T0 + 2 * STEP], {station.ids[0]: [3.0]}))
    lost = station_of(store, workspace_id, gone.id).track
    kept = station_of(store, workspace_id, stays.id).track
    store.delete_procedure(workspace_id, gone.id).result(WAIT_S)
    catalogue = store.catalogue(workspace_id)
    assert list(catalogue.procedures) == [stays.id]
    assert lost not in catalogue.tracks
    assert catalogue.offering("GONE") is None
    network = catalogue.offering("network")
    assert network is not None
    assert network.procedure_ids == (stays.id,)
    ids = [s.property_id for s in stays.series]
    assert scan(store, lost, ids) == []
    assert store.states([lost]) == {}
    assert store.changes(lost) == []
    assert list(store.extents(workspace_id)) == [stays.id]
    assert len(scan(store, kept, ids)) == 4
    assert list(store.check()) == []
    with pytest.raises(NotFound):
        store.delete_procedure(workspace_id, gone.id).result(WAIT_S)
    with pytest.raises(NotFound):
        store.description(gone.id)
    # Its names are free again.
    again = register(store, "GONE")
    assert scan(store, again.track, again.ids) == []


def test_units_are_made_and_changed(store: Store) -> None:
    workspace_id = default_workspace(store)
    made = store.put_unit(workspace_id, Unit(0, "m3/s", "discharge")).result(WAIT_S)
    store.put_unit(workspace_id, replace(made, description="cubic metre per second")).result(WAIT_S)
    assert store.catalogue(workspace_id).units == {made.id: Unit(made.id, "m3/s", "cubic metre per second")}
    with pytest.raises(AlreadyExists):
        store.put_unit(workspace_id, Unit(0, "m3/s")).result(WAIT_S)


@pytest.mark.parametrize("taken", ["identifier", "name"])
def test_properties_features_offerings_are_made_changed_and_unique(store: Store, taken: str) -> None:
    workspace_id = default_workspace(store)
    a_property = store.put_property(workspace_id, observed_property("river:height")).result(WAIT_S)
    a_feature = store.put_feature(workspace_id, feature("RIVER")).result(WAIT_S)
    an_offering = store.put_offering(workspace_id, offering("rivers")).result(WAIT_S)
    store.put_property(workspace_id, replace(a_property, description="above datum")).result(WAIT_S)
    store.put_feature(workspace_id, replace(a_feature, geometry=None)).result(WAIT_S)
    store.put_offering(workspace_id, replace(an_offering, active=False)).result(WAIT_S)
    catalogue = store.catalogue(workspace_id)
    assert catalogue.properties[a_property.id].description == "above datum"
    assert catalogue.features[a_feature.id].geometry is None
    assert not catalogue.offerings[an_offering.id].active
    fields: dict[str, Any] = {"identifier": "urn:x:other", "name": "other"}
    del fields[taken]
    twin_property: ObservedProperty = replace(a_property, id=0, uuid=new_uuid(), **fields)
    twin_feature: Feature = replace(a_feature, id=0, uuid=new_uuid(), **fields)
    twin_offering: Offering = replace(an_offering, id=0, uuid=new_uuid(), **fields)
    for future in (
        store.put_property(workspace_id, twin_property),
        store.put_feature(workspace_id, twin_feature),
        store.put_offering(workspace_id, twin_offering),
    ):
        with pytest.raises(AlreadyExists):
            future.result(WAIT_S)


def test_offering_membership_is_replaced_and_network_offering_removed(store: Store) -> None:
    one, two = register(store, "ONE"), register(store, "TWO")
    workspace_id = one.workspace_id
    made = store.put_offering(workspace_id, offering("all", procedure_ids=(one.procedure.id, two.procedure.id))).result(
        WAIT_S
    )
    assert store.catalogue(workspace_id).offerings[made.id].procedure_ids == (one.procedure.id, two.procedure.id)
    store.put_offering(workspace_id, replace(made, procedure_ids=(two.procedure.id,))).result(WAIT_S)
    assert store.catalogue(workspace_id).offerings[made.id].procedure_ids == (two.procedure.id,)
    store.delete_offering(workspace_id, made.id).result(WAIT_S)
    catalogue = store.catalogue(workspace_id)
    assert made.id not in catalogue.offerings
    assert len(catalogue.procedures) == 2
    with pytest.raises(NotFound):
        store.delete_offering(workspace_id, made.id).result(WAIT_S)


def test_own_offering_cannot_be_removed(store: Store) -> None:
    workspace_id = default_workspace(store)
    store.register_procedure(
        workspace_id, Registration(procedure("P"), NUMBERS, (), (offering("P", procedure_id=0),))
    ).result(WAIT_S)
    own = store.catalogue(workspace_id).offering("P")
    assert own is not None
    with pytest.raises(InvalidParameter):
        store.delete_offering(workspace_id, own.id).result(WAIT_S)


# ------------------------------------------------------------------ generations and other store objects


def test_generation_rises_with_metadata_and_not_with_observations(store: Store) -> None:
    station = register(store)
    before = store.catalogue(station.workspace_id)
    insert(store, station, block([T0], {station.ids[0]: [1.0]}))
    assert store.catalogue(station.workspace_id).generation == before.generation
    store.put_unit(station.workspace_id, Unit(0, "K")).result(WAIT_S)
    after = store.catalogue(station.workspace_id)
    assert after.generation > before.generation
    # A picture once taken stays as it was.
    assert "K" not in [u.code for u in before.units.values()]
    assert "K" in [u.code for u in after.units.values()]


def test_refused_change_raises_no_generation(store: Store) -> None:
    station = register(store)
    before = store.catalogue(station.workspace_id).generation
    with pytest.raises(AlreadyExists):
        register(store)
    assert store.catalogue(station.workspace_id).generation == before


def test_other_store_object_sees_each_change_at_once(backend: Backend) -> None:
    one, two = backend.open(), backend.open()
    workspace_id = default_workspace(one)
    for i in range(5):
        writer, reader = (one, two) if i % 2 else (two, one)
        made = register(writer, f"P{i}", EVERY_KIND)
        assert made.procedure.id in reader.catalogue(workspace_id).procedures
        assert reader.description(made.procedure.id) == SensorDescription()
        writer.add_series(made.procedure.id, [series("air:pressure", "hPa")]).result(WAIT_S)
        assert len(reader.catalogue(workspace_id).procedures[made.procedure.id].series) == 5
    other = one.put_workspace(Workspace(0, new_uuid(), "other")).result(WAIT_S)
    assert two.workspaces()["other"].id == other.id
    assert two.catalogue(other.id).workspace.name == "other"


def test_catalogue_survives_reopening(backend: Backend) -> None:
    store = backend.open()
    station = register(store, "LUGANO", EVERY_KIND, places=2)
    before = store.catalogue(station.workspace_id)
    backend.close()
    after = backend.open().catalogue(station.workspace_id)
    assert after.workspace == before.workspace
    for part in ("procedures", "properties", "units", "features", "offerings", "tracks"):
        assert getattr(after, part) == getattr(before, part)
        assert list(getattr(after, part)) == list(getattr(before, part))
