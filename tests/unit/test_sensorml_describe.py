"""DescribeSensor: SensorML bare in SOS 1.0 and wrapped in 2.0, of procedures and of networks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from lxml import etree
from owslib.swe.sensor.sml import SensorML

from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import (
    AllowedValues,
    Feature,
    ObservedProperty,
    Offering,
    Procedure,
    SensorDescription,
    Series,
    Track,
    Unit,
    Workspace,
)
from thalweg.domain.errors import InvalidParameter, NotFound
from thalweg.domain.geometry import point
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.store import Extent
from thalweg.doors.sos import describe as module
from thalweg.doors.sos.describe import (
    DESCRIPTION_FORMATS,
    MAX_FEATURES,
    describe,
    describe_sensor,
    procedures_named,
    sensor_view,
)

NS = {
    "swes": "http://www.opengis.net/swes/2.0",
    "sml": "http://www.opengis.net/sensorML/1.0.1",
    "sml2": "http://www.opengis.net/sensorml/2.0",
    "gml32": "http://www.opengis.net/gml/3.2",
    "swe": "http://www.opengis.net/swe/1.0.1",
    "xlink": "http://www.w3.org/1999/xlink",
}
FORMATS = [(version, form) for version, forms in DESCRIPTION_FORMATS.items() for form in forms]


class Service:
    """The part of the catalogue's service that descriptions ask."""

    def __init__(self, extents: dict[int, Extent], descriptions: dict[int, SensorDescription]) -> None:
        self._extents, self._descriptions = extents, descriptions

    def extents(self, catalogue: Catalogue) -> dict[int, Extent]:
        return self._extents

    def description(self, procedure: Procedure) -> SensorDescription:
        return self._descriptions.get(procedure.id, SensorDescription())


def services(extents: dict[int, Extent] | None = None, **descriptions: SensorDescription) -> Any:
    return SimpleNamespace(catalogue=Service(extents or {}, {int(key[1:]): d for key, d in descriptions.items()}))


def catalogue(generation: int = 0, title: str = "") -> Catalogue:
    limits = AllowedValues(-40, 50)
    return Catalogue(
        Workspace(1, "u", "default", generation=generation),
        units={1: Unit(1, "Cel")},
        properties={1: ObservedProperty(1, "", "urn:x:air:temperature", "air-temperature")},
        features={
            1: Feature(1, "", "urn:x:f:1", "f1", geometry=point(8.5, 46.1, 200)),
            2: Feature(2, "", "urn:x:f:2", "f2"),
        },
        procedures={
            1: Procedure(
                1, "", "urn:x:p:1", "p1", "urn:x:s:1", title=title, feature_id=1,
                series=(Series(1, 1, ValueKind.NUMBER, limits),),
            ),
            2: Procedure(2, "", "urn:x:p:2", "p2", "urn:x:s:2", series=(Series(1, 1),)),
        },
        offerings={
            1: Offering(1, "", "urn:x:o:all", "all", "the whole network", None, (1, 2)),
            2: Offering(2, "", "urn:x:o:1", "o1", "", 1, (1,)),
            3: Offering(3, "", "urn:x:o:off", "off", "", None, (1, 2), active=False),
        },
        tracks={1: Track(1, 1, 1), 2: Track(2, 2, 2)},
    )  # fmt: skip


@pytest.mark.parametrize(("version", "form"), FORMATS)
@pytest.mark.parametrize("name", ["urn:x:p:1", "p2", "urn:x:s:1", "urn:x:o:all"])
def test_answers_are_valid(schemas: Any, version: str, form: str, name: str) -> None:
    assert schemas.validate(describe(services({1: Extent(0, 10**15, 5)}), catalogue(), name, version, form)) == []


@pytest.mark.parametrize(("version", "form"), FORMATS)
def test_version_100_is_bare_and_version_200_wraps(version: str, form: str) -> None:
    root = etree.fromstring(describe(services(), catalogue(), "p1", version, form))
    expected = "SensorML" if "1.0.1" in form else "PhysicalSystem"
    if version == "1.0.0":
        assert etree.QName(root).localname == expected
    else:
        assert etree.QName(root) == f"{{{NS['swes']}}}DescribeSensorResponse"
        assert root.findtext("swes:procedureDescriptionFormat", None, NS) == form
        (data,) = root.findall("swes:description/swes:SensorDescription/swes:data", NS)
        assert [etree.QName(element).localname for element in data] == [expected]


def test_owslib_reads_the_sensorml_of_both_versions() -> None:
    bare = describe(services(), catalogue(), "p1", "1.0.0", 'text/xml;subtype="sensorML/1.0.1"')
    wrapped = describe(services(), catalogue(), "p1", "2.0.0", NS["sml"])
    inner = etree.fromstring(wrapped).find(".//sml:SensorML", NS)
    for source in (bare, inner):
        (system,) = SensorML(source).members
        assert system.get_identifiers_by_name("uniqueID")[0].value == "urn:x:p:1"


def test_a_registered_constraint_comes_back_and_the_period_with_it() -> None:
    begin, end = 1_388_534_400_000_000, 1_420_070_400_000_000
    document = describe(services({1: Extent(begin, end, 5)}), catalogue(), "p1", "2.0.0", NS["sml"])
    root = etree.fromstring(document)
    assert root.findtext(".//swe:AllowedValues/swe:interval", None, NS) == "-40 50"
    assert root.findtext(".//swe:AllowedTimes/swe:interval", None, NS) == "2014-01-01T00:00:00Z 2015-01-01T00:00:00Z"


def test_the_view_knows_places_offerings_and_axis_order() -> None:
    view = sensor_view(services(), catalogue(), catalogue().procedures[1], None)
    assert [feature.identifier for feature in view.features] == ["urn:x:f:1"]
    assert [offering.identifier for offering in view.offerings] == ["urn:x:o:all", "urn:x:o:1"]
    assert view.northing_first
    assert view.extent is None
    # A sensor that was registered nowhere is where it has been seen.
    other = sensor_view(services(), catalogue(), catalogue().procedures[2], Extent(None, None, 0))
    assert [feature.identifier for feature in other.features] == ["urn:x:f:2"]
    assert (other.extent, other.northing_first) == (None, False)


def test_features_of_a_sensor_that_has_been_everywhere_are_bounded() -> None:
    count = MAX_FEATURES + 50
    plain = catalogue()
    many = Catalogue(
        plain.workspace, units=plain.units, properties=plain.properties, procedures=plain.procedures, offerings={},
        features={i: Feature(i, "", f"urn:f:{i}", f"f{i}") for i in range(1, count + 1)},
        tracks={i: Track(i, 1, i) for i in range(1, count + 1)},
    )  # fmt: skip
    assert len(sensor_view(services(), many, many.procedures[1], None).features) == MAX_FEATURES


def test_a_network_is_a_system_of_its_procedures() -> None:
    root = etree.fromstring(describe(services(), catalogue(), "urn:x:o:all", "2.0.0", NS["sml2"]))
    system = root.find(".//sml2:PhysicalSystem", NS)
    assert system.findtext("gml32:identifier", None, NS) == "urn:x:o:all"
    assert system.findtext("gml32:description", None, NS) == "the whole network"
    components = system.findall("sml2:components/sml2:ComponentList/sml2:component", NS)
    assert [c.get(f"{{{NS['xlink']}}}href") for c in components] == ["urn:x:p:1", "urn:x:p:2"]
    assert [c.get("name") for c in components] == ["p1", "p2"]


def test_a_network_stands_for_its_procedures() -> None:
    known = catalogue()
    assert [p.name for p in procedures_named(known, ("urn:x:o:all",))] == ["p1", "p2"]
    assert [p.name for p in procedures_named(known, ("p2", "urn:x:o:all", "urn:x:s:1"))] == ["p2", "p1"]
    # Neither an offering's short name, nor an inactive network, nor a procedure's own offering is a procedure.
    for key in ("all", "urn:x:o:off", "urn:x:o:1", "urn:nothing"):
        with pytest.raises(NotFound) as caught:
            procedures_named(known, (key,), "procedure")
        assert caught.value.parameter == "procedure"
        with pytest.raises(NotFound):
            describe(services(), known, key, "2.0.0", NS["sml"])


@pytest.mark.parametrize(
    ("version", "form", "parameter"),
    [
        ("1.0.0", "http://www.opengis.net/sensorML/1.0.1", "outputFormat"),
        ("2.0.0", 'text/xml;subtype="sensorML/1.0.1"', "procedureDescriptionFormat"),
        ("2.0.0", "text/html", "procedureDescriptionFormat"),
    ],
)
def test_a_format_of_another_version_is_refused(version: str, form: str, parameter: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        describe_sensor(services(), catalogue(), catalogue().procedures[1], version, form)
    assert caught.value.parameter == parameter
    assert all(offered in caught.value.message for offered in DESCRIPTION_FORMATS[version])


def test_a_registered_document_is_wrapped_like_any_other(schemas: Any) -> None:
    original = (
        '<sml:System xmlns:sml="http://www.opengis.net/sensorML/1.0.1" xmlns:gml="http://www.opengis.net/gml">'
        "<gml:name>as registered</gml:name></sml:System>"
    )
    description = SensorDescription(original=original, original_format=NS["sml"])
    document = describe(services(_1=description), catalogue(), "p1", "2.0.0", NS["sml"])
    assert document.count(b"<?xml") == 1
    assert b"as registered" in document
    assert schemas.validate(document) == []


def test_an_answer_is_kept_until_metadata_or_extent_change(monkeypatch: pytest.MonkeyPatch) -> None:
    served, known = services({1: Extent(0, 10, 1)}), catalogue()
    first = describe(served, known, "p1", "2.0.0", NS["sml"])
    assert describe(served, known, "p1", "2.0.0", NS["sml"]) is first
    assert describe(served, known, "p1", "2.0.0", NS["sml2"]) is not first
    served.catalogue._extents = {1: Extent(0, 20_000_000, 2)}
    moved = describe(served, known, "p1", "2.0.0", NS["sml"])
    assert b"1970-01-01T00:00:20Z" in moved
    known = catalogue(1, "new title")
    assert b"new title" in describe(served, known, "urn:x:p:1", "2.0.0", NS["sml2"])
    monkeypatch.setattr(module, "MAX_KEPT_DOCUMENTS", 2)
    other = services()
    for version, form in FORMATS:
        describe(other, known, "p1", version, form)
    assert len(module._KEPT._stores[other.catalogue]) == 2
