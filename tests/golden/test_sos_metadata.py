"""Whole documents that describe a small network: capabilities, sensors, features of interest.

``make bless`` writes them anew; the change is to be read like code.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import (
    AllowedValues,
    Contact,
    Document,
    Feature,
    HistoryEvent,
    ObservedProperty,
    Offering,
    Procedure,
    ProcedureKind,
    Provider,
    SensorDescription,
    Series,
    Term,
    Track,
    Unit,
    Workspace,
)
from thalweg.domain.geometry import Geometry, point
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.store import Extent
from thalweg.domain.time import MINUTE_US, Duration, parse_instant
from thalweg.doors.sos.capabilities import capabilities
from thalweg.doors.sos.describe import describe
from thalweg.doors.sos.places import features_document

FOLDER = Path(__file__).parent / "sos_metadata"
URN = "urn:ogc:def:{}:x-thalweg:1.0:{}".format
CATALOGUE = Catalogue(
    Workspace(
        1,
        "00000000-0000-0000-0000-000000000001",
        "default",
        "Water and weather of the valley",
        "Stations along the river, every ten minutes.",
        ("weather", "river"),
        provider=Provider(
            "Valley Observatory", "https://observatory.example.org/", "A. Person", "data manager", "+41 00 000 00 00",
            "", "Via Lago 1", "Lugano", "Ticino", "6900", "CH", "data@example.org",
        ),
        srids=(4326, 2056),
        generation=12,
    ),
    units={1: Unit(1, "Cel"), 2: Unit(2, "mm"), 3: Unit(3, "m"), 4: Unit(4, "")},
    properties={
        1: ObservedProperty(1, "", URN("parameter", "air:temperature"), "air-temperature", "two metres above ground"),
        2: ObservedProperty(2, "", URN("parameter", "air:rainfall"), "air-rainfall"),
        3: ObservedProperty(3, "", URN("parameter", "water:level"), "water-level"),
        4: ObservedProperty(4, "", URN("parameter", "weather:present"), "present-weather"),
    },
    features={
        1: Feature(1, "", URN("feature", "Point:LUGANO"), "LUGANO", "roof", geometry=point(8.9606, 46.0042, 273)),
        2: Feature(
            2, "", URN("feature", "Curve:CASSARATE"), "CASSARATE", sampled="https://example.org/river/cassarate",
            type_uri="http://www.opengis.net/def/samplingFeatureType/OGC-OM/2.0/SF_SamplingCurve",
            geometry=Geometry("LineString", ((8.967, 46.012), (8.965, 46.006), (8.962, 46.003))),
        ),
        3: Feature(3, "", URN("feature", "somewhere"), "somewhere"),
    },
    procedures={
        1: Procedure(
            1, "", URN("procedure", "T_LUGANO"), "T_LUGANO", URN("sensor", "1"), title="Weather station Lugano",
            series=(
                Series(1, 1, constraint=AllowedValues(-40, 50, role=URN("classifiers", "check:reasonable"))),
                Series(2, 2, constraint=AllowedValues(minimum=0)),
                Series(4, 4, ValueKind.TEXT, AllowedValues(values=("dry", "heavy rain"))),
            ),
            feature_id=1, sampling=Duration(0, 10 * MINUTE_US), acquisition=Duration(0, MINUTE_US),
        ),
        2: Procedure(
            2, "", URN("procedure", "BOAT"), "BOAT", URN("sensor", "2"), ProcedureKind.MOBILE, "Boat on the river",
            series=(Series(3, 3, name="depth"),), feature_id=2,
        ),
        3: Procedure(3, "", URN("procedure", "NEW"), "NEW", URN("sensor", "3"), series=(Series(3, 3),), feature_id=3),
    },
    offerings={
        1: Offering(1, "", URN("offering", "valley"), "valley", "All stations", None, (1, 2, 3)),
        2: Offering(2, "", URN("offering", "T_LUGANO"), "T_LUGANO", "", 1, (1,)),
        3: Offering(3, "", URN("offering", "BOAT"), "BOAT", "", 2, (2,)),
        4: Offering(4, "", URN("offering", "NEW"), "NEW", "", 3, (3,)),
    },
    tracks={1: Track(1, 1, 1), 2: Track(2, 2, 2), 3: Track(3, 3, 3)},
)  # fmt: skip
DESCRIPTIONS = {
    1: SensorDescription(
        ("weather", "rain"),
        (Term("Serial Number", "urn:ogc:def:identifier:OGC:1.0:serialNumber", "42-A"),),
        (Term("Sensor Type", "urn:ogc:def:classifier:x-istsos:1.0:sensorType", "weather station"),),
        (Term("Memory", "urn:x-ogc:def:classifier:x-istsos:1.0:memoryCapacity", "1024", "kByte"),),
        (Term("", "", "https://example.org/sheet.pdf"),),
        (Contact("owner", "A. Person", "Valley Observatory", city="Lugano", country="CH", email="data@example.org"),),
        (Document("Manual", "https://example.org/manual", "2013-01-15", "text/html"),),
        (HistoryEvent("Put in place", "2013-05-01T10:00:00+02:00", "on the roof", "A. Person"),),
        (Term("air", "urn:x:air", "ambient air"),),
        "RS232",
    ),
    2: SensorDescription(
        original=(
            '<sml:System xmlns:sml="http://www.opengis.net/sensorML" xmlns:swe="http://www.opengis.net/swe" '
            'xmlns:gml="http://www.opengis.net/gml" gml:id="BOAT">\n  <gml:name>BOAT</gml:name>\n'
            '  <sml:outputs>\n    <sml:OutputList>\n      <sml:output name="depth">\n        <swe:Quantity '
            f'definition="{URN("parameter", "water:level")}">\n          <swe:uom code="m"/>\n        </swe:Quantity>\n'
            "      </sml:output>\n    </sml:OutputList>\n  </sml:outputs>\n"
            "  <sml:parameters/>\n</sml:System>"
        ),
        original_format="http://www.opengis.net/sensorML/1.0.1",
    ),
}  # fmt: skip
EXTENTS = {
    1: Extent(parse_instant("2013-05-01T08:00Z", "")[0], parse_instant("2014-12-31T23:50Z", "")[0], 87_000),
    2: Extent(parse_instant("2014-06-01T06:30:00.25Z", "")[0], parse_instant("2014-06-01T09:00Z", "")[0], 900),
}
SERVICES = cast(
    "Any",
    SimpleNamespace(
        catalogue=type(
            "Service",
            (),
            {
                "epoch": "epoch",
                "extents": lambda self, catalogue: EXTENTS,
                "description": lambda self, procedure: DESCRIPTIONS.get(procedure.id, SensorDescription()),
            },
        )()
    ),
)


def _capabilities(version: str) -> bytes:
    body = capabilities(SERVICES, CATALOGUE, version, "https://data.example.org/sos", None).body
    return body if isinstance(body, bytes) else b"".join(body)


def _sensor(name: str, version: str, form: str) -> bytes:
    return describe(SERVICES, CATALOGUE, name, version, form)


def _features(version: str) -> bytes:
    return b"".join(features_document(SERVICES, CATALOGUE, list(CATALOGUE.features.values()), version, None))


SENSORML_101 = "http://www.opengis.net/sensorML/1.0.1"
SENSORML_20 = "http://www.opengis.net/sensorml/2.0"
DOCUMENTS: dict[str, Callable[[], bytes]] = {
    "capabilities_100.xml": lambda: _capabilities("1.0.0"),
    "capabilities_200.xml": lambda: _capabilities("2.0.0"),
    "sensor_100.xml": lambda: _sensor("T_LUGANO", "1.0.0", 'text/xml;subtype="sensorML/1.0.1"'),
    "sensor_200.xml": lambda: _sensor("T_LUGANO", "2.0.0", SENSORML_20),
    "sensor_mobile_as_registered_200.xml": lambda: _sensor("BOAT", "2.0.0", SENSORML_101),
    "sensor_mobile_200.xml": lambda: _sensor("BOAT", "2.0.0", SENSORML_20),
    "network_100.xml": lambda: _sensor(URN("offering", "valley"), "1.0.0", 'text/xml;subtype="sensorML/1.0.1"'),
    "features_100.xml": lambda: _features("1.0.0"),
    "features_200.xml": lambda: _features("2.0.0"),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_document_is_as_expected_and_valid(schemas: Any, name: str) -> None:
    document = DOCUMENTS[name]()
    assert schemas.validate(document) == []
    path = FOLDER / name
    if os.environ.get("THALWEG_BLESS"):
        path.write_bytes(document)
    assert document.decode() == path.read_text(encoding="utf-8")


def test_no_document_is_left_over() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(DOCUMENTS)
