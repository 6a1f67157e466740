"""GetFeatureOfInterest: every kind of place, in both versions, valid and in the axis order of the CRS's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from lxml import etree

from thalweg.domain.catalogue import Feature
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.geometry import Geometry, point
from thalweg.doors.sos.places import FEATURES_PER_BLOCK, features_document
from thalweg.services.projection import CrsReference, parse_crs

VERSIONS = ["1.0.0", "2.0.0"]
HOSTILE = "<\"&'> é 中\x00\x1b "
TRIANGLE = ((8.0, 46.0), (9.0, 46.0), (9.0, 47.0), (8.0, 46.0))
HOLE = ((8.5, 46.2), (8.6, 46.2), (8.6, 46.3), (8.5, 46.2))
LINE = ((8.0, 46.0, 1.0), (9.0, 47.0, 2.0))
GEOMETRIES = {
    "none": None,
    "point": point(8.5, 46.1),
    "point z": point(8.5, 46.1, 200),
    "line": Geometry("LineString", LINE),
    "polygon": Geometry("Polygon", (TRIANGLE, HOLE)),
    "points": Geometry("MultiPoint", ((8.0, 46.0), (9.0, 47.0))),
    "lines": Geometry("MultiLineString", (LINE, LINE)),
    "polygons": Geometry("MultiPolygon", ((TRIANGLE, HOLE), (TRIANGLE,))),
}
NS = {
    "sa": "http://www.opengis.net/sampling/1.0",
    "sf": "http://www.opengis.net/sampling/2.0",
    "sams": "http://www.opengis.net/samplingSpatial/2.0",
    "sos": "http://www.opengis.net/sos/2.0",
    "gml": "http://www.opengis.net/gml",
    "gml32": "http://www.opengis.net/gml/3.2",
    "xlink": "http://www.w3.org/1999/xlink",
}
HREF = f"{{{NS['xlink']}}}href"


def feature(geometry: Geometry | None, number: int = 1, text: str = "", **changes: Any) -> Feature:
    known = {"description": text, "geometry": geometry} | changes
    return Feature(number, "", f"urn:x:feature:{number}{text}", f"f{number}{text}", **known)


def blocks(features: Sequence[Feature], version: str, crs: CrsReference | None = None) -> list[bytes]:
    # Neither services nor catalogue are needed for what features know themselves.
    return list(features_document(cast("Any", None), cast("Any", None), features, version, crs))


def document(features: Sequence[Feature], version: str, crs: str = "") -> bytes:
    return b"".join(blocks(features, version, parse_crs(crs, "srsName") if crs else None))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("crs", ["", "EPSG:2056", "urn:ogc:def:crs:EPSG::4326"])
@pytest.mark.parametrize("kind", GEOMETRIES)
def test_one_feature_of_each_kind_is_valid(schemas: Any, version: str, crs: str, kind: str) -> None:
    assert schemas.validate(document([feature(GEOMETRIES[kind])], version, crs)) == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("text", ["", HOSTILE], ids=["plain", "hostile"])
def test_many_features_are_valid(schemas: Any, version: str, text: str) -> None:
    features = [feature(geometry, i, text) for i, geometry in enumerate(GEOMETRIES.values(), 1)]
    assert schemas.validate(document(features, version)) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_no_feature_is_a_valid_answer(schemas: Any, version: str) -> None:
    assert schemas.validate(document([], version)) == []


def test_version_100_names_one_feature_by_its_kind() -> None:
    roots = {kind: etree.fromstring(document([feature(g)], "1.0.0")) for kind, g in GEOMETRIES.items()}
    tags = {kind: etree.QName(root).localname for kind, root in roots.items()}
    assert tags == {
        "none": "SamplingPoint",
        "point": "SamplingPoint",
        "point z": "SamplingPoint",
        "line": "SamplingCurve",
        "polygon": "SamplingSurface",
        "points": "SamplingFeatureCollection",
        "lines": "SamplingFeatureCollection",
        "polygons": "SamplingFeatureCollection",
    }
    names = [e.text for e in roots["point"].findall("gml:name", NS)]
    assert names == ["urn:x:feature:1", "f1"]
    assert roots["none"].find("sa:position", NS).get(HREF) == "urn:ogc:def:nil:OGC:unknown"
    assert len(roots["polygons"].findall("sa:member/sa:SamplingSurface", NS)) == 2
    assert len(roots["polygons"].findall(".//gml:interior", NS)) == 1


def test_version_100_writes_the_point_as_istsos_clients_read_it() -> None:
    root = etree.fromstring(document([feature(point(8.5, 46.1, 200))], "1.0.0"))
    place = root.find("sa:position/gml:Point", NS)
    assert place.get("srsName") == "EPSG:4326"
    assert place.findtext("gml:coordinates", None, NS) == "8.5,46.1,200"


@pytest.mark.parametrize(
    ("crs", "name", "text"),
    [
        ("", "http://www.opengis.net/def/crs/EPSG/0/4326", "46.1 8.5"),
        ("http://www.opengis.net/def/crs/EPSG/0/4326", "http://www.opengis.net/def/crs/EPSG/0/4326", "46.1 8.5"),
        ("urn:ogc:def:crs:EPSG::4326", "urn:ogc:def:crs:EPSG::4326", "46.1 8.5"),
        ("EPSG:4326", "EPSG:4326", "8.5 46.1"),
    ],
)
def test_axis_order_follows_the_name_of_the_crs(crs: str, name: str, text: str) -> None:
    root = etree.fromstring(document([feature(point(8.5, 46.1))], "2.0.0", crs))
    place = root.find(".//sams:shape/gml32:Point", NS)
    assert (place.get("srsName"), place.findtext("gml32:pos", None, NS)) == (name, text)


def test_places_are_brought_into_the_crs_asked_for() -> None:
    # Bern, the origin of the Swiss grid.
    root = etree.fromstring(document([feature(point(7.438632495, 46.951082877, 550))], "2.0.0", "EPSG:2056"))
    x, y, z = map(float, root.findtext(".//gml32:pos", "", NS).split())
    assert (x, y) == pytest.approx((2_600_000, 1_200_000), abs=100)
    assert z == 550


def test_a_place_that_the_crs_cannot_express_is_an_error_before_the_first_block() -> None:
    far = feature(point(1e12, 1e12, srid=32632), 2)
    with pytest.raises(InvalidParameter) as caught:
        features_document(cast("Any", None), cast("Any", None), [feature(point(8, 46)), far], "2.0.0",
                          parse_crs("EPSG:4326", "crs"))  # fmt: skip
    assert caught.value.parameter == "srsName"
    # In its own CRS it can be said.
    assert b"1000000000000" in document([far], "2.0.0")


def test_version_200_says_type_and_sampled_feature() -> None:
    kind = "http://www.opengis.net/def/samplingFeatureType/OGC-OM/2.0/SF_SamplingCurve"
    found = feature(GEOMETRIES["line"], sampled="urn:x:river", type_uri=kind)
    root = etree.fromstring(document([found, feature(None, 2)], "2.0.0"))
    first, second = root.findall("sos:featureMember/sams:SF_SpatialSamplingFeature", NS)
    assert first.find("sf:type", NS).get(HREF) == kind
    assert first.find("sf:sampledFeature", NS).get(HREF) == "urn:x:river"
    assert first.findtext("gml32:identifier", None, NS) == "urn:x:feature:1"
    assert first.findtext(".//gml32:posList", None, NS) == "46 8 1 47 9 2"
    assert second.find("sf:sampledFeature", NS).get(HREF) == "http://www.opengis.net/def/nil/OGC/0/unknown"
    assert second.find("sams:shape", NS).get("nilReason") == "unknown"


@pytest.mark.parametrize("version", VERSIONS)
def test_long_answers_come_in_blocks(schemas: Any, version: str) -> None:
    features = [feature(point(8, 46), i) for i in range(1, 3 * FEATURES_PER_BLOCK + 2)]
    found = blocks(features, version)
    assert len(found) == 1 + 4 + 1
    assert max(map(len, found)) < 1000 * FEATURES_PER_BLOCK
    assert schemas.validate(b"".join(found)) == []
