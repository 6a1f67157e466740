"""Capabilities: valid, readable by OWSLib, growing with the network and no faster, kept as long as nothing moves."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from lxml import etree
from owslib.sos import SensorObservationService

from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import (
    Feature,
    ObservedProperty,
    Offering,
    Procedure,
    Provider,
    Series,
    Track,
    Unit,
    Workspace,
)
from thalweg.domain.errors import NotFound
from thalweg.domain.geometry import Geometry, point
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.store import Extent
from thalweg.doors.sos import capabilities as module
from thalweg.doors.sos.capabilities import LARGE_BYTES, MAX_CACHED_DOCUMENTS, OPERATIONS, SEGMENT_PIECES
from thalweg.doors.sos.capabilities10 import gml_id, offerings_named
from thalweg.doors.sos.capabilities20 import PROFILES
from thalweg.doors.sos.capabilities_common import SECTIONS
from thalweg.doors.sos.kvp import SECTIONS as SECTION_NAMES
from thalweg.doors.sos.request import OF_VERSION

URL = "http://example.org/sos"
VERSIONS = ["1.0.0", "2.0.0"]
HOSTILE = "<\"&'> é 中\x00\x1b] "
BEGIN, END = 1_388_534_400_000_000, 1_420_070_399_000_000  # 2014-01-01T00:00:00Z, 2014-12-31T23:59:59Z
NS = {
    "ows": "http://www.opengis.net/ows/1.1",
    "sos1": "http://www.opengis.net/sos/1.0",
    "sos2": "http://www.opengis.net/sos/2.0",
    "swes": "http://www.opengis.net/swes/2.0",
    "gml": "http://www.opengis.net/gml",
    "gml32": "http://www.opengis.net/gml/3.2",
    "xlink": "http://www.w3.org/1999/xlink",
    "fes": "http://www.opengis.net/fes/2.0",
}


class Extents:
    """The part of the catalogue's service that capabilities ask."""

    epoch = "epoch-1"

    def __init__(self, extents: dict[int, Extent]) -> None:
        self.extents_by_id = extents
        self.asked = 0

    def extents(self, catalogue: Catalogue) -> dict[int, Extent]:
        self.asked += 1
        return self.extents_by_id

    def move(self, procedure_id: int, begin_us: int | None, end_us: int | None, rows: int = 1) -> None:
        self.extents_by_id = self.extents_by_id | {procedure_id: Extent(begin_us, end_us, rows)}


def capabilities(*asked: Any) -> tuple[bytes, str]:
    """The whole document, and its validator."""
    document = module.capabilities(*asked)
    body = document.body
    return (body if isinstance(body, bytes) else b"".join(body)), document.etag


def services(extents: dict[int, Extent] | None = None) -> Any:
    return SimpleNamespace(catalogue=Extents(extents or {}))


def network(count: int, text: str = "", features: Iterable[Feature] | None = None, **workspace: Any) -> Catalogue:
    """Procedures 1 to count, each at a feature and in an offering of its own, all in one network."""
    numbers = range(1, count + 1)
    places = {f.id: f for f in features} if features is not None else {
        i: Feature(i, "", f"urn:x:feature:{i:04d}", f"f{i:04d}{text}", geometry=point(8 + i / 1000, 46 - i / 1000, 200))
        for i in numbers
    }  # fmt: skip
    return Catalogue(
        replace(Workspace(1, "uuid", "default", f"Network{text}", generation=7), **workspace),
        units={1: Unit(1, "Cel")},
        properties={
            1: ObservedProperty(1, "", "urn:x:parameter:air:temperature", "air-temperature"),
            2: ObservedProperty(2, "", "urn:x:parameter:weather", "weather"),
        },
        features=places,
        procedures={
            i: Procedure(
                i, "", f"urn:x:procedure:{i:04d}", f"p{i:04d}{text}", f"urn:x:sensor:{i:04d}",
                title=f"Station {i:04d}{text}",
                series=(Series(1, 1), Series(2, 1, ValueKind.TEXT)), feature_id=i if i in places else None,
            )
            for i in numbers
        },
        offerings={
            1: Offering(1, "", "urn:x:offering:network", f"network{text}", f"all{text}", None, tuple(numbers)),
            **{
                i + 1: Offering(i + 1, "", f"urn:x:offering:{i:04d}", f"o{i:04d}{text}", "", i, (i,))
                for i in numbers
            },
        },
        tracks={i: Track(i, i, i) for i in numbers if i in places},
    )  # fmt: skip


def text_of(document: bytes, path: str) -> list[str]:
    return [element.text or "" for element in etree.fromstring(document).findall(path, NS)]


def offerings_of(document: bytes, version: str) -> list[Any]:
    path = ".//sos1:ObservationOffering" if version == "1.0.0" else ".//sos2:ObservationOffering"
    return etree.fromstring(document).findall(path, NS)


def document_of(catalogue: Catalogue, version: str, extents: dict[int, Extent] | None = None) -> bytes:
    return capabilities(services(extents), catalogue, version, URL, None)[0]


# ---------------------------------------------------------------- valid


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("text", ["", HOSTILE], ids=["plain", "hostile"])
def test_documents_are_valid(schemas: Any, version: str, text: str) -> None:
    provider = Provider(*[f"x{text}"] * 12)
    catalogue = network(
        3, text, abstract=text, keywords=("a", text), fees=text, access_constraints="", provider=provider,
        srids=(4326, 2056),
    )  # fmt: skip
    assert schemas.validate(document_of(catalogue, version, {2: Extent(BEGIN, END, 9)})) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_workspace_makes_a_valid_document(schemas: Any, version: str) -> None:
    assert schemas.validate(document_of(network(0), version)) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_any_choice_of_sections_is_valid_and_nothing_else_is_written(schemas: Any, version: str) -> None:
    tags = {
        "ServiceIdentification": "ows:ServiceIdentification",
        "ServiceProvider": "ows:ServiceProvider",
        "OperationsMetadata": "ows:OperationsMetadata",
        "FilterCapabilities": "sos1:Filter_Capabilities" if version == "1.0.0" else "sos2:filterCapabilities",
        "Contents": "sos1:Contents" if version == "1.0.0" else "sos2:contents",
    }
    for number in range(2 ** len(SECTIONS)):
        wanted = frozenset(name for bit, name in enumerate(SECTIONS) if number >> bit & 1)
        document, _ = capabilities(services(), network(1), version, URL, wanted)
        assert schemas.validate(document) == []
        root = etree.fromstring(document)
        assert {name for name, tag in tags.items() if root.find(tag, NS) is not None} == wanted


@pytest.mark.parametrize("strange", ['a"b<c', "a&amp;b", "a b"])
def test_references_say_what_the_identifier_is_whatever_it_holds(strange: str) -> None:
    catalogue = network(3)
    catalogue = Catalogue(
        catalogue.workspace, units=catalogue.units, properties=catalogue.properties, features=catalogue.features,
        procedures={**catalogue.procedures, 2: replace(catalogue.procedures[2], identifier=strange)},
        offerings=catalogue.offerings, tracks=catalogue.tracks,
    )  # fmt: skip
    (whole, *_) = offerings_of(document_of(catalogue, "1.0.0"), "1.0.0")
    told = [element.get(f"{{{NS['xlink']}}}href") for element in whole.findall("sos1:procedure", NS)]
    assert told == ["urn:x:procedure:0001", strange, "urn:x:procedure:0003"]


def test_sections_are_those_that_requests_are_read_into() -> None:
    assert set(SECTIONS) == set(SECTION_NAMES.values())


@pytest.mark.parametrize("version", VERSIONS)
def test_operations_listed_are_those_offered(version: str) -> None:
    document = document_of(network(1), version)
    listed = [o.get("name") for o in etree.fromstring(document).iter(f"{{{NS['ows']}}}Operation")]
    assert set(listed) == OF_VERSION[version] == {operation.name for operation in OPERATIONS[version]}
    for operation in etree.fromstring(document).iter(f"{{{NS['ows']}}}Operation"):
        links = [m.get(f"{{{NS['xlink']}}}href") for m in operation.find("ows:DCP/ows:HTTP", NS)]
        assert links
        assert set(links) == {URL}


# ---------------------------------------------------------------- OWSLib


def test_owslib_reads_version_100() -> None:
    document = document_of(network(3), "1.0.0", {2: Extent(BEGIN, END, 9)})
    service = SensorObservationService(URL, version="1.0.0", xml=document)
    assert service.identification.title == "Network"
    assert service.identification.version == "1.0.0"
    assert service.provider.name == "Network"
    assert {m["type"] for m in service.getOperationByName("GetObservation").methods} == {"Get", "Post"}
    assert list(service.contents) == ["network", "o0001", "o0002", "o0003"]
    whole = service.contents["network"]
    assert whole.name == "urn:x:offering:network"
    assert whole.procedures == ["urn:x:procedure:0001", "urn:x:procedure:0002", "urn:x:procedure:0003"]
    assert whole.observed_properties == ["urn:x:parameter:air:temperature", "urn:x:parameter:weather"]
    assert whole.features_of_interest == ["urn:x:feature:0001", "urn:x:feature:0002", "urn:x:feature:0003"]
    assert whole.bbox == (8.001, 45.997, 8.003, 45.999)
    assert whole.bbox_srs.code == 4326
    assert whole.begin_position.isoformat() == "2014-01-01T00:00:00+00:00"
    assert whole.end_position.isoformat() == "2014-12-31T23:59:59+00:00"
    assert 'text/xml;subtype="om/1.0.0"' in whole.response_formats
    assert (whole.result_model, whole.response_modes) == ("om:Observation", ["inline"])
    own = service.contents["o0002"]
    assert (own.procedures, own.bbox) == (["urn:x:procedure:0002"], (8.002, 45.998, 8.002, 45.998))
    assert service.contents["o0001"].begin_position is None


def test_owslib_reads_version_200() -> None:
    document = document_of(network(3), "2.0.0", {2: Extent(BEGIN, END, 9), 3: Extent(BEGIN, END, 9)})
    service = SensorObservationService(URL, version="2.0.0", xml=document)
    assert service.identification.profiles == list(PROFILES)
    assert service.observed_properties == ["urn:x:parameter:air:temperature", "urn:x:parameter:weather"]
    # The first one has data, although the second procedure is the first that has.
    names = ["urn:x:offering:0002", "urn:x:offering:0001", "urn:x:offering:0003", "urn:x:offering:network"]
    assert list(service.contents) == names
    own = service.contents["urn:x:offering:0002"]
    assert (own.name, own.description) == ("o0002", "Station 0002")
    assert own.procedures == ["urn:x:procedure:0002"]
    assert own.observed_properties == ["urn:x:parameter:air:temperature", "urn:x:parameter:weather"]
    assert own.bbox == (8.002, 45.998, 8.002, 45.998)
    assert own.begin_position.isoformat() == "2014-01-01T00:00:00+00:00"
    assert own.end_position.isoformat() == "2014-12-31T23:59:59+00:00"
    assert own.procedure_description_formats == [
        "http://www.opengis.net/sensorML/1.0.1", "http://www.opengis.net/sensorml/2.0"
    ]  # fmt: skip
    assert own.response_formats[0] == "http://www.opengis.net/om/2.0"
    assert [uri.rpartition("/")[2] for uri in own.observation_models] == ["OM_Measurement", "OM_TextObservation"]
    assert service.contents["urn:x:offering:0001"].begin_position is None
    whole = service.contents["urn:x:offering:network"]
    assert whole.bbox == (8.001, 45.997, 8.003, 45.999)
    # SOS 2.0 lets an offering have one procedure: a network is one itself.
    assert whole.procedures == ["urn:x:offering:network"]


def test_filter_capabilities_of_version_200_list_what_the_door_reads() -> None:
    root = etree.fromstring(document_of(network(1), "2.0.0"))
    spatial = {o.get("name") for o in root.iter(f"{{{NS['fes']}}}SpatialOperator")}
    temporal = {o.get("name") for o in root.iter(f"{{{NS['fes']}}}TemporalOperator")}
    assert spatial == {
        "BBOX", "Equals", "Disjoint", "Intersects", "Touches", "Crosses", "Within", "Contains", "Overlaps", "DWithin",
        "Beyond",
    }  # fmt: skip
    assert temporal == {"During", "TEquals", "After", "Before"}


# ---------------------------------------------------------------- offerings


@pytest.mark.parametrize("text", ["", " é", "~1"])
def test_offerings_are_found_by_the_id_they_have_in_version_100(text: str) -> None:
    catalogue = network(1, text)
    service = SensorObservationService(URL, version="1.0.0", xml=document_of(catalogue, "1.0.0"))
    for key, listed in service.contents.items():
        (found,) = offerings_named(catalogue, [key])
        assert found.identifier == listed.name
        assert offerings_named(catalogue, [found.name, found.identifier]) == (found,)
    for unknown in ("nothing", "nothing_x20_", ""):
        with pytest.raises(NotFound) as caught:
            offerings_named(catalogue, [unknown], "offering")
        assert caught.value.parameter == "offering"
    assert gml_id("plain-name.1") == "plain-name.1"


@pytest.mark.parametrize("version", VERSIONS)
def test_sensors_without_data_place_or_series_are_listed(schemas: Any, version: str) -> None:
    catalogue = network(2, features=())
    catalogue = Catalogue(
        catalogue.workspace, units=catalogue.units, properties=catalogue.properties, features={}, tracks={},
        procedures=dict(catalogue.procedures) | {2: replace(catalogue.procedures[2], series=())},
        offerings=catalogue.offerings,
    )  # fmt: skip
    document = document_of(catalogue, version)
    assert schemas.validate(document) == []
    assert len(offerings_of(document, version)) == 3
    assert b"Envelope><" not in document


@pytest.mark.parametrize("version", VERSIONS)
def test_inactive_and_empty_offerings_are_not_listed(version: str) -> None:
    catalogue = network(2)
    changed = {
        1: replace(catalogue.offerings[1], procedure_ids=()),
        2: replace(catalogue.offerings[2], active=False),
        3: catalogue.offerings[3],
    }
    catalogue = Catalogue(
        catalogue.workspace, units=catalogue.units, properties=catalogue.properties, features=catalogue.features,
        procedures=catalogue.procedures, offerings=changed, tracks=catalogue.tracks,
    )  # fmt: skip
    (only,) = offerings_of(document_of(catalogue, version), version)
    assert "urn:x:offering:0002" in etree.tostring(only, encoding="unicode")


def test_a_procedure_without_an_offering_of_its_own_is_listed_by_its_identifier_in_version_200() -> None:
    catalogue = network(2)
    only_network = {1: catalogue.offerings[1]}
    catalogue = Catalogue(
        catalogue.workspace, units=catalogue.units, properties=catalogue.properties, features=catalogue.features,
        procedures=catalogue.procedures, offerings=only_network, tracks=catalogue.tracks,
    )  # fmt: skip
    document = document_of(catalogue, "2.0.0")
    identifiers = text_of(document, ".//sos2:ObservationOffering/swes:identifier")
    assert identifiers == ["urn:x:procedure:0001", "urn:x:procedure:0002", "urn:x:offering:network"]
    assert len(offerings_of(document_of(catalogue, "1.0.0"), "1.0.0")) == 1


@pytest.mark.parametrize(
    ("geometry", "expected"),
    [
        (point(2_600_000, 1_200_000, srid=2056), (7.4386, 46.951)),
        (Geometry("LineString", ((2_600_000, 1_200_000), (2_600_001, 1_200_001)), 2056), (7.4386, 46.951)),
        (Geometry("MultiPoint", ((7.4386, 46.951), (7.4386, 46.951))), (7.4386, 46.951)),
        (point(1, 2, srid=999_999), None),
        (point(1e12, 1e12, srid=32632), None),
    ],
)
def test_areas_are_in_wgs84_whatever_the_place_is_in(geometry: Geometry, expected: tuple[float, float] | None) -> None:
    feature = Feature(1, "", "urn:f", "f", geometry=geometry)
    service = SensorObservationService(URL, version="2.0.0", xml=document_of(network(1, features=[feature]), "2.0.0"))
    box = service.contents["urn:x:offering:0001"].bbox
    if expected is None:
        assert box is None
    else:
        assert box[:2] == pytest.approx(expected, abs=1e-3)
        assert box[2:] == pytest.approx(expected, abs=1e-3)


# ---------------------------------------------------------------- size


@pytest.mark.parametrize("version", VERSIONS)
def test_size_grows_linearly_with_the_number_of_procedures(version: str) -> None:
    extents = {i: Extent(BEGIN, END, 9) for i in range(1, 5101)}
    sizes = {n: len(document_of(network(n), version, extents)) for n in (0, 100, 1000, 5100)}
    each = [(sizes[n] - sizes[0]) / n for n in (100, 1000, 5100)]
    assert max(each) < 1.1 * min(each)
    assert max(each) < 2500


# ---------------------------------------------------------------- cache and validator


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unchanged_document_is_given_out_again(version: str) -> None:
    served, catalogue = services({1: Extent(BEGIN, END, 9)}), network(3)
    first = capabilities(served, catalogue, version, URL, None)
    document = module.capabilities(served, catalogue, version, URL, None)
    assert module.capabilities(served, catalogue, version, URL, None) is document
    assert first[1] == capabilities(services({1: Extent(BEGIN, END, 9)}), network(3), version, URL, None)[1]
    assert first[1][0] == first[1][-1] == '"'
    # More rows in the same period show nowhere.
    served.catalogue.move(1, BEGIN, END, rows=10)
    assert module.capabilities(served, catalogue, version, URL, None) is document


@pytest.mark.parametrize("version", VERSIONS)
def test_every_change_gives_the_document_that_a_fresh_process_would_give(version: str) -> None:
    served, catalogue = services(), network(3)
    seen = set()

    def check() -> None:
        document, etag = capabilities(served, catalogue, version, URL, None)
        fresh = services(dict(served.catalogue.extents_by_id))
        assert (document, etag) == capabilities(fresh, catalogue, version, URL, None)
        assert etag not in seen
        seen.add(etag)

    check()
    for procedure_id, begin, end in ((2, BEGIN, END), (2, BEGIN, END + 1), (3, BEGIN - 5, END), (2, BEGIN + 7, END)):
        served.catalogue.move(procedure_id, begin, end)
        check()
    served.catalogue.move(3, None, None, rows=0)
    check()
    served.catalogue.extents_by_id = {}
    assert capabilities(served, catalogue, version, URL, None)[1] in seen
    catalogue = network(3, generation=8, title="New title")
    check()
    catalogue = network(4, generation=9)
    served.catalogue.move(4, BEGIN, END)
    check()
    catalogue = network(2, generation=10)
    check()


def test_a_changed_feature_or_property_shows_although_the_procedure_is_the_same() -> None:
    served, catalogue = services(), network(1)
    capabilities(served, catalogue, "2.0.0", URL, None)
    moved = replace(catalogue.features[1], geometry=point(1, 2))
    renamed = replace(catalogue.properties[1], identifier="urn:x:renamed")
    changed = Catalogue(
        replace(catalogue.workspace, generation=8), units=catalogue.units, features={1: moved},
        properties={1: renamed, 2: catalogue.properties[2]}, procedures=catalogue.procedures,
        offerings=catalogue.offerings, tracks=catalogue.tracks,
    )  # fmt: skip
    document = capabilities(served, changed, "2.0.0", URL, None)[0]
    assert document == document_of(changed, "2.0.0")
    assert b"<gml:lowerCorner>2 1</gml:lowerCorner>" in document


def test_a_moving_end_time_makes_only_its_own_piece_and_its_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    served, catalogue = services({i: Extent(BEGIN, END, 9) for i in range(1, 51)}), network(50)
    capabilities(served, catalogue, "2.0.0", URL, None)
    made: list[str] = []
    period, offering = module.capabilities20.period, module.capabilities20.offering
    monkeypatch.setattr(module.capabilities20, "period", lambda view, *t: made.append(view.number) or period(view, *t))
    monkeypatch.setattr(module.capabilities20, "offering", lambda view: made.append("whole") or offering(view))
    served.catalogue.move(7, BEGIN, END + 60_000_000)
    document = capabilities(served, catalogue, "2.0.0", URL, None)[0]
    assert made == ["p7", "n1"]
    assert document.count(b"2015-01-01T00:00:59Z") == 2


class Model:
    """A catalogue that changes as the store's does: what stays is the same object."""

    def __init__(self, count: int) -> None:
        self.catalogue = network(count)
        self.rng = random.Random(count)

    def change(self, **parts: Any) -> None:
        old = self.catalogue
        kept = {
            name: parts.get(name, getattr(old, name))
            for name in ("units", "properties", "features", "procedures", "offerings", "tracks")
        }
        self.catalogue = Catalogue(replace(old.workspace, generation=old.generation + 1), **kept)

    def register(self) -> None:
        old = self.catalogue
        i = max(old.offerings) + 1000
        procedure = Procedure(
            i, "", f"urn:x:procedure:{i}", f"p{i}", f"urn:x:sensor:{i}", series=(Series(1, 1),), feature_id=i
        )
        network = old.offerings[1]
        own = {i: Offering(i, "", f"urn:x:offering:{i}", f"o{i}", "", i, (i,))} if self.rng.random() < 0.7 else {}
        self.change(
            procedures={**old.procedures, i: procedure},
            features={**old.features, i: Feature(i, "", f"urn:x:feature:{i}", f"f{i}", geometry=point(i / 1e4, 9))},
            tracks={**old.tracks, i: Track(i, i, i)},
            offerings={
                **old.offerings, 1: replace(network, procedure_ids=(*network.procedure_ids, i)), **own,
            },
        )  # fmt: skip

    def delete(self) -> None:
        old = self.catalogue
        i = self.rng.choice(list(old.procedures))
        # Of the network at times only, as where its members were not told.
        network = old.offerings[1]
        self.change(
            procedures={k: v for k, v in old.procedures.items() if k != i},
            tracks={k: v for k, v in old.tracks.items() if v.procedure_id != i},
            offerings={
                k: replace(network, procedure_ids=tuple(m for m in network.procedure_ids if m != i)) if k == 1 else v
                for k, v in old.offerings.items()
                if v.procedure_id != i
            },
        )

    def rename(self) -> None:
        old = self.catalogue
        kind = self.rng.choice(["properties", "features", "procedures", "offerings"])
        items = getattr(old, kind)
        i = self.rng.choice(list(items))
        self.change(
            **{kind: {**items, i: replace(items[i], name=f"{items[i].name}-x", identifier=f"urn:y:{kind}:{i}")}}
        )

    def move(self) -> None:
        old = self.catalogue
        i = self.rng.choice(list(old.procedures))
        feature = self.rng.choice(list(old.features))
        number = max([*old.tracks, 5000]) + 1
        self.change(tracks={**old.tracks, number: Track(number, i, feature)})

    def switch(self) -> None:
        old = self.catalogue
        i = self.rng.choice(list(old.offerings))
        self.change(offerings={**old.offerings, i: replace(old.offerings[i], active=not old.offerings[i].active)})

    def drop_offering(self) -> None:
        old = self.catalogue
        # Not always one that a procedure owns: without its network it is listed by itself in 1.0.0.
        i = self.rng.choice([i for i in old.offerings if i != 1] or [1])
        self.change(offerings={k: v for k, v in old.offerings.items() if k != i})

    def leave_network(self) -> None:
        old = self.catalogue
        network = old.offerings[1]
        members = tuple(m for m in network.procedure_ids if self.rng.random() < 0.8)
        self.change(offerings={**old.offerings, 1: replace(network, procedure_ids=members)})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", [3, 2 * SEGMENT_PIECES + 5])
def test_any_row_of_changes_gives_the_documents_that_a_fresh_process_would_give(version: str, count: int) -> None:
    model, served = Model(count), services()
    steps = [
        model.register, model.delete, model.rename, model.move, model.switch, model.drop_offering, model.leave_network
    ]  # fmt: skip
    for number in range(120):
        if model.catalogue.procedures or number % 2:
            step = model.rng.choice(steps) if model.catalogue.procedures else model.register
            if len(model.catalogue.offerings) > 1:
                step()
            else:
                model.register()
        if model.catalogue.procedures and model.rng.random() < 0.5:
            i = model.rng.choice(list(model.catalogue.procedures))
            served.catalogue.move(i, BEGIN + model.rng.randrange(10**9), END + model.rng.randrange(10**9))
        if model.rng.random() < 0.7:
            # Some changes are seen together.
            fresh = services(dict(served.catalogue.extents_by_id))
            seen = capabilities(served, model.catalogue, version, URL, None)
            assert seen == capabilities(fresh, model.catalogue, version, URL, None), step


def test_a_registered_sensor_makes_its_own_piece_and_its_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    model, served = Model(50), services({i: Extent(BEGIN, END, 9) for i in range(1, 51)})
    capabilities(served, model.catalogue, "2.0.0", URL, None)
    made: list[str] = []
    offering = module.capabilities20.offering
    monkeypatch.setattr(
        module.capabilities20, "offering", lambda view: made.append(view.number) or offering(view)
    )  # fmt: skip
    model.register()
    capabilities(served, model.catalogue, "2.0.0", URL, None)
    assert len(made) == 2
    assert made[1] == "n1"


@pytest.mark.parametrize("version", VERSIONS)
def test_documents_share_the_segments_that_stay(version: str) -> None:
    count = 1000
    served, catalogue = services({i: Extent(BEGIN, END, 9) for i in range(1, count + 1)}), network(count)
    first = module.capabilities(served, catalogue, version, URL, None)
    served.catalogue.move(500, BEGIN, END + 60_000_000)
    second = module.capabilities(served, catalogue, version, URL, None)
    assert isinstance(first.body, tuple)
    assert isinstance(second.body, tuple)
    assert first.kept is not None
    assert second.kept is not first.kept
    assert first.etag != second.etag
    assert len(first.body) == len(second.body)
    held = {id(part) for part in first.body}
    new = [part for part in second.body if id(part) not in held]
    # The sensor's segment, the head, the tail, and the time of the network, or it with a small one's.
    assert sum(map(len, new)) < len(b"".join(second.body)) / 8
    assert max(map(len, first.body)) < 4 * LARGE_BYTES
    assert module.capabilities(served, catalogue, version, URL, None) is second


def test_addresses_and_sections_are_kept_apart_and_bounded() -> None:
    served, catalogue = services(), network(2)
    for number in range(3 * MAX_CACHED_DOCUMENTS):
        address = f"http://example.org/{number}"
        document, _ = capabilities(served, catalogue, "2.0.0", address, None)
        assert document.count(f'"{address}"'.encode()) == sum(len(o.methods) for o in OPERATIONS["2.0.0"])
        contents, _ = capabilities(served, catalogue, "2.0.0", address, frozenset({"Contents"}))
        assert b"ows:Operation" not in contents
    pieces = module._CACHE.pieces(served.catalogue, (1, None), "2.0.0")
    assert pieces._joined is not None
    assert len(pieces._joined.documents) <= MAX_CACHED_DOCUMENTS


def test_workspaces_are_kept_apart_and_bounded() -> None:
    served = services()
    for number in range(module.MAX_CACHED_WORKSPACES + 5):
        document, _ = capabilities(served, network(1, id=number, title=f"Title {number}"), "2.0.0", URL, None)
        assert f"Title {number}<".encode() in document
    assert len(module._CACHE._stores[served.catalogue]) == module.MAX_CACHED_WORKSPACES


def test_the_epoch_is_part_of_the_validator() -> None:
    one, two = services(), services()
    two.catalogue.epoch = "epoch-2"
    for sections in (None, frozenset({"ServiceProvider"})):
        before = capabilities(one, network(1), "2.0.0", URL, sections)
        after = capabilities(two, network(1), "2.0.0", URL, sections)
        assert before[0] == after[0]
        assert before[1] != after[1]


def test_documents_stay_whole_while_threads_ask_and_data_moves() -> None:
    served, catalogue = services(), network(20)
    allowed: set[bytes] = set()
    states = [{1: Extent(BEGIN, END + i, 1), 2: Extent(BEGIN - i, END, 1)} for i in range(0, 30_000_000, 1_000_000)]
    for state in states:
        allowed.add(capabilities(services(state), catalogue, "1.0.0", URL, None)[0])
    wrong: list[bytes] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            document = capabilities(served, catalogue, "1.0.0", URL, None)[0]
            if document not in allowed:
                wrong.append(document)

    served.catalogue.extents_by_id = states[0]
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for state in states:
        served.catalogue.extents_by_id = state
        document = capabilities(served, catalogue, "1.0.0", URL, None)[0]
        assert document == capabilities(services(state), catalogue, "1.0.0", URL, None)[0]
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []
