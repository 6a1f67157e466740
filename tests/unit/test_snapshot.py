"""Look-ups in a catalogue."""

import time

import pytest

from thalweg.domain.catalogue import Feature, ObservedProperty, Offering, Procedure, Series, Track, Unit, Workspace
from thalweg.domain.errors import InvalidParameter, NotFound
from thalweg.domain.snapshot import Catalogue
from thalweg.services.catalogue import (
    resolve_features,
    resolve_offerings,
    resolve_procedures,
    resolve_properties,
    resolve_srid,
)

URN = "urn:ogc:def:parameter:x-thalweg:1.0:"


def make() -> Catalogue:
    properties = {
        1: ObservedProperty(1, "u1", URN + "air:rainfall", "air-rainfall"),
        2: ObservedProperty(2, "u2", URN + "air:temperature", "air-temperature"),
        3: ObservedProperty(3, "u3", URN + "water:temperature", "water-temperature"),
    }
    procedures = {
        5: Procedure(5, "p5", "urn:p:A", "A", "urn:s:a", series=(Series(1, 1), Series(2, 1)), feature_id=8),
        6: Procedure(6, "p6", "urn:p:B", "B", "urn:s:b", series=(Series(3, 1),), feature_id=None),
    }
    return Catalogue(
        Workspace(1, "w", "default", srids=(4326, 2056)),
        units={1: Unit(1, "Cel")},
        properties=properties,
        features={8: Feature(8, "f8", "urn:f:8", "here"), 9: Feature(9, "f9", "urn:f:9", "there")},
        procedures=procedures,
        offerings={
            1: Offering(1, "o1", "urn:o:net", "net", procedure_ids=(5, 6)),
            2: Offering(2, "o2", "urn:o:A", "A-own", procedure_id=5, procedure_ids=(5,)),
        },
        tracks={1: Track(1, 5, 9), 2: Track(2, 5, 8)},
    )


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (URN + "air:rainfall", ["air-rainfall"]),
        ("air-rainfall", ["air-rainfall"]),
        ("rainfall", ["air-rainfall"]),
        ("air:temperature", ["air-temperature"]),
        ("temperature", ["air-temperature", "water-temperature"]),
        ("air", ["air-rainfall", "air-temperature"]),
        (URN, ["air-rainfall", "air-temperature", "water-temperature"]),
        ("rain", []),
        ("emperature", []),
        ("", []),
        (":", ["air-rainfall", "air-temperature", "water-temperature"]),
        ("::", []),
        ("(a|a)*", []),
        ("%", []),
    ],
)
def test_properties_match_by_whole_parts_of_the_urn(text: str, names: list[str]) -> None:
    catalogue = make()
    for _ in range(2):  # the second time from memory
        assert [p.name for p in catalogue.match_properties(text)] == names


def test_procedures_answer_to_identifier_name_and_assigned_id() -> None:
    catalogue = make()
    assert [catalogue.procedure(key) for key in ("urn:p:A", "A", "urn:s:a")] == [catalogue.procedures[5]] * 3
    assert catalogue.procedure("a") is None
    assert [p.id for p in resolve_procedures(catalogue, ["B", "urn:p:A", "A"], "procedure")] == [6, 5]


def test_an_unknown_name_is_told_with_known_ones() -> None:
    catalogue = make()
    for resolve, parameter in (
        (resolve_procedures, "procedure"),
        (resolve_offerings, "offering"),
        (resolve_features, "featureOfInterest"),
        (resolve_properties, "observedProperty"),
    ):
        with pytest.raises(NotFound) as caught:
            resolve(catalogue, ["nowhere' OR '1'='1"], parameter)
        assert caught.value.parameter == parameter
        assert "urn:" in caught.value.message


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("air:temprature", URN + "air:temperature"),
        ("watr:temperature", URN + "water:temperature"),
        (URN + "air:rainfal", URN + "air:rainfall"),
        ("Water-Temperatur", URN + "water:temperature"),
        ("AIR:RAINFALL", URN + "air:rainfall"),
    ],
)
def test_a_misspelt_property_gets_the_one_that_is_like_it(key: str, meant: str) -> None:
    with pytest.raises(NotFound) as caught:
        resolve_properties(make(), [key], "observedProperty")
    assert caught.value.message == f"There is no observed property '{key}'. Did you mean '{meant}'?"


def test_misspelt_procedures_offerings_and_features_get_a_hint_too() -> None:
    for resolve, key, meant in (
        (resolve_procedures, "a", "urn:p:A"),
        (resolve_offerings, "Nett", "urn:o:net"),
        (resolve_offerings, "a_own", "urn:o:A"),
        (resolve_features, "theer", "urn:f:9"),
    ):
        with pytest.raises(NotFound, match=f"Did you mean '{meant}'"):
            resolve(make(), [key], "x")


def test_looking_for_what_was_meant_is_bounded() -> None:
    tail = "abcdefghij" * 8
    many = {
        i: ObservedProperty(i, f"u{i}", f"{URN}station:{i:05d}-{tail}", f"station-{i:05d}-{tail}")
        for i in range(20_000)
    }
    catalogue = Catalogue(
        Workspace(1, "w", "default"), units={}, properties=many, features={}, procedures={}, offerings={}, tracks={}
    )
    for key in (f"statian-00017-{tail}", f"00017_{tail}", "x" * 100_000, ":" * 5000, ""):
        before = time.process_time()
        with pytest.raises(NotFound) as caught:
            resolve_properties(catalogue, [key], "observedProperty")
        assert time.process_time() - before < 0.5
        assert len(caught.value.message) < 1000


def test_a_crs_that_the_workspace_does_not_offer_is_refused() -> None:
    assert resolve_srid(make(), 2056, "srsName") == 2056
    with pytest.raises(InvalidParameter, match="4326, 2056"):
        resolve_srid(make(), 3857, "srsName")


def test_memberships_and_places() -> None:
    catalogue = make()
    assert [o.id for o in catalogue.offerings_by_procedure[5]] == [1, 2]
    assert list(catalogue.procedures_of([catalogue.offerings[2]])) == [5]
    assert catalogue.feature_ids_of(catalogue.procedures[5]) == (8, 9)
    assert catalogue.feature_ids_of(catalogue.procedures[6]) == ()
    assert catalogue.unit("Cel") == Unit(1, "Cel")
    assert catalogue.unit("K") is None
