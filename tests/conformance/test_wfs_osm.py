"""The WFS door over the OpenStreetMap sample; numbers are PostGIS' on the same files."""

from __future__ import annotations

import atexit
from pathlib import Path

import orjson
import pytest
from shapely.geometry import shape
from tests.conformance.door_support import Validator
from tests.conformance.wfs_support import (
    GML32,
    LANDUSAGES,
    MAINROADS,
    NS20,
    PLACES,
    READER,
    WFS2,
    Answer,
    Wfs,
)

from thalweg.domain.features import GeometryKind
from thalweg.settings import Settings

_LOADED: list[Wfs] = []


@pytest.fixture
def osm(osm_dir: Path, tmp_path_factory: pytest.TempPathFactory, schemas: Validator) -> Wfs:
    """The three layers, loaded once for all tests."""
    if not _LOADED:
        settings = Settings(public_url="http://x.org", wfs_max_features=10_000)
        wfs = Wfs(tmp_path_factory.mktemp("osm"), schemas, settings)
        wfs.load_osm(osm_dir / "osm_places.geojson", PLACES, GeometryKind.POINT)
        wfs.load_osm(osm_dir / "osm_mainroads.geojson", MAINROADS, GeometryKind.LINESTRING)
        wfs.load_osm(osm_dir / "osm_landusages.geojson", LANDUSAGES, GeometryKind.MULTIPOLYGON)
        atexit.register(wfs.close)
        _LOADED.append(wfs)
    return _LOADED[0]


def matched(osm: Wfs, name: str, **parameters: str) -> int:
    """By numberMatched, which has to be the number of features that come."""
    count = osm.features(name, resultType="hits", **parameters).matched
    assert len(osm.features(name, outputFormat="json", **parameters).ids) == count
    return count


@pytest.mark.parametrize(
    "box",
    [
        "47.0,9.4,47.3,9.7,urn:ogc:def:crs:EPSG::4326",
        "9.4,47.0,9.7,47.3,EPSG:4326",
        "9.4,47.0,9.7,47.3,urn:ogc:def:crs:OGC:1.3:CRS84",
        "47.0,9.4,47.3,9.7,http://www.opengis.net/def/crs/EPSG/0/4326",
        "1046403.2,5942074.1,1079799.1,5991202.1,EPSG:3857",
    ],
)
def test_boxes_by_every_name_of_their_crs(osm: Wfs, box: str) -> None:
    assert matched(osm, "osm_places", bbox=box) == 82


def test_a_box_in_a_wrong_crs_finds_another_number(osm: Wfs) -> None:
    assert matched(osm, "osm_places", bbox="47.0,9.4,47.3,9.7,EPSG:4326") == 0


@pytest.mark.parametrize(
    ("name", "condition", "expected"),
    [
        ("osm_places", "population >= 10000", 20),
        ("osm_places", "population BETWEEN 1000 AND 5000", 111),
        ("osm_places", "population IS NULL", 6353),
        ("osm_places", "type = 'village' AND country = 'LI'", 21),
        ("osm_places", "name LIKE 'Va%'", 33),
        ("osm_places", "name LIKE '%''%'", 2),
        ("osm_places", "name LIKE '%&%'", 1),
        ("osm_places", "name IS NULL", 26),
        ("osm_places", "name = 'Breg'", 15),
        ("osm_places", "DWITHIN(geom, POINT(9.5227962 47.1392862), 5, kilometers)", 26),
        ("osm_mainroads", "type IN ('primary', 'secondary')", 505),
        ("osm_mainroads", "ref IS NOT NULL", 96),
        ("osm_mainroads", "oneway = 1", 259),
        ("osm_mainroads", "INTERSECTS(geom, POLYGON((9.5 47.12, 9.54 47.12, 9.54 47.16, 9.5 47.16, 9.5 47.12)))", 1029),
        ("osm_mainroads", "WITHIN(geom, POLYGON((9.5 47.12, 9.54 47.12, 9.54 47.16, 9.5 47.16, 9.5 47.12)))", 958),
        ("osm_landusages", "INTERSECTS(geom, POLYGON((9.5 47.12, 9.54 47.12, 9.54 47.16, 9.5 47.16, 9.5 47.12)))", 218),
    ],
)
def test_conditions(osm: Wfs, name: str, condition: str, expected: int) -> None:
    assert matched(osm, name, cql_filter=condition) == expected


def test_a_box_asks_geometries_not_their_envelopes(osm: Wfs) -> None:
    """13 roads are in it, the envelope of a fourteenth overlaps it."""
    assert matched(osm, "osm_mainroads", bbox="47.1380,9.5200,47.1395,9.5215") == 13


def test_like_in_the_filter_language(osm: Wfs) -> None:
    def like(text: str, attributes: str = 'wildCard="*" singleChar="?" escapeChar="!"') -> int:
        condition = (
            f"<fes:PropertyIsLike {attributes}><fes:ValueReference>name</fes:ValueReference><fes:Literal>{text}"
            "</fes:Literal></fes:PropertyIsLike>"
        )
        return osm.filtered("tw:osm_places", condition, resultType="hits").matched

    assert like("Va*") == 33
    assert like("*'*") == 2
    assert like("*&amp;*") == 1
    assert like("va*", 'wildCard="*" singleChar="?" escapeChar="!" matchCase="false"') == 33
    # Signs that other languages take for patterns are themselves.
    names = [f["properties"]["name"] or "" for f in osm.features("osm_places", outputFormat="json").json["features"]]
    for sign in "()[].+^$%_\\'-/":
        assert like(f"*{sign}*") == sum(sign in name for name in names), sign
    assert like("*!**") == sum("*" in name for name in names)


def test_the_largest_places_first(osm: Wfs) -> None:
    features = osm.features("osm_places", sortBy="population DESC", count="6", outputFormat="json").json["features"]
    assert [(f["properties"]["name"], f["properties"]["population"]) for f in features] == [
        ("Slovenija", 2058000), ("Ljubljana", 272000), ("Maribor", 96000), ("Celje", 37800), ("Liechtenstein", 37132),
        ("Kranj", 36800),
    ]  # fmt: skip


def pages(osm: Wfs, first: Answer) -> list[str]:
    found = list(first.ids)
    answer = first
    while answer.next:
        answer = osm.follow(answer.next)
        found += answer.ids
    return found


@pytest.mark.parametrize("sort", [{}, {"sortBy": "name"}, {"sortBy": "name DESC"}])
def test_pages_give_every_feature_once(osm: Wfs, sort: dict[str, str]) -> None:
    """6,894 names are distinct of 8,048, so that the order by name has to be made total."""
    first = osm.get(
        service="WFS", version="2.0.0", request="GetFeature", typeNames="osm_places", count="1000",
        propertyName="name", **sort, check=False,
    )  # fmt: skip
    found = list(first.ids)
    address = first.next
    while address:
        page = osm.raw(address.partition("?")[2], READER, check=False)
        found += page.ids
        address = page.next
    assert len(found) == 8048
    assert len(set(found)) == 8048


def test_pages_of_a_box_in_another_crs(osm: Wfs) -> None:
    """What is fewer than asked for is the last page, whatever the CRS of the box."""
    box = "1046403.2,5942074.1,1079799.1,5991202.1,EPSG:3857"
    first = osm.features("osm_places", bbox=box, count="40")
    assert (first.returned, first.matched) == (40, 82)
    found = pages(osm, first)
    assert len(found) == len(set(found)) == 82
    assert sorted(found) == sorted(osm.features("osm_places", bbox=box).ids)


def test_a_page_larger_than_the_server_gives(osm: Wfs) -> None:
    answer = osm.get(
        service="WFS", version="2.0.0", request="GetFeature", typeNames="osm_mainroads,osm_places", count="20000",
        propertyName="osm_id", check=False,
    )  # fmt: skip
    assert (answer.returned, answer.matched) == (10_000, 6946 + 8048)
    assert answer.next


def test_hits_and_limits(osm: Wfs) -> None:
    answer = osm.features("osm_places", resultType="hits", count="5")
    assert (answer.matched, answer.returned) == (8048, 0)


def test_ljubljana_in_both_orders(osm: Wfs) -> None:
    for name, text in (
        ("EPSG:4326", "14.5068602 46.0499803"),
        ("urn:ogc:def:crs:EPSG::4326", "46.0499803 14.5068602"),
        ("http://www.opengis.net/def/crs/EPSG/0/4326", "46.0499803 14.5068602"),
        ("http://www.opengis.net/gml/srs/epsg.xml#4326", "14.5068602 46.0499803"),
    ):
        for form in ("gml2", "gml3", "gml32"):
            root = osm.features("osm_places", resourceId="osm_places.6968827", srsName=name, outputFormat=form).root
            found = next(e.text for e in root.iter() if str(e.tag).endswith(("}pos", "}coordinates")))
            assert str(found).replace(",", " ") == text, (name, form)
    json = osm.features("osm_places", resourceId="osm_places.6968827", outputFormat="json").json
    assert json["features"][0]["geometry"]["coordinates"] == [14.5068602, 46.0499803]


@pytest.mark.parametrize("name", ["osm_places", "osm_mainroads", "osm_landusages"])
def test_geojson_is_what_was_loaded(osm: Wfs, osm_dir: Path, name: str) -> None:
    source = {f["id"]: f for f in orjson.loads((osm_dir / f"{name}.geojson").read_bytes())["features"]}
    found = osm.features(name, outputFormat="json").json["features"]
    assert len(found) == len(source)
    for feature in found:
        original = source[feature["id"]]
        assert feature["properties"] == original["properties"]
        expected = original["geometry"]
        if name == "osm_landusages" and expected["type"] == "Polygon":
            expected = {"type": "MultiPolygon", "coordinates": [expected["coordinates"]]}
        assert feature["geometry"] == expected


def test_all_of_a_layer_is_valid(osm: Wfs) -> None:
    """Every feature of every layer in every version by the official schemas and the door's own."""
    for name, number in (("osm_places", 8048), ("osm_mainroads", 6946), ("osm_landusages", 1755)):
        for version in ("1.0.0", "1.1.0", "2.0.0"):
            answer = osm.get(service="WFS", version=version, request="GetFeature", typeName=name)
            assert len(answer.ids) == number


def test_compact_answers(osm: Wfs) -> None:
    """200 roads and places in about the bytes that the study's servers sent without bounds and indentation."""
    sizes = {
        (name, form): len(osm.features(name, count="200", outputFormat=form).body)
        for name in ("osm_mainroads", "osm_places")
        for form in ("gml32", "gml2", "json")
    }
    assert sizes["osm_mainroads", "gml32"] < 150_000
    assert sizes["osm_places", "gml32"] < 95_000
    assert sizes["osm_mainroads", "json"] < 115_000


def test_a_spatial_join_of_places_and_areas(osm: Wfs) -> None:
    """Places in residential areas, by the same question for each area."""
    condition = (
        "<fes:Filter><fes:And><fes:Within><fes:ValueReference>p/geom</fes:ValueReference><fes:ValueReference>a/geom"
        "</fes:ValueReference></fes:Within><fes:PropertyIsEqualTo><fes:ValueReference>a/type</fes:ValueReference>"
        "<fes:Literal>vineyard</fes:Literal></fes:PropertyIsEqualTo></fes:And></fes:Filter>"
    )
    root = osm.features("(tw:osm_places,tw:osm_landusages)", aliases="(p,a)", filter=condition).root
    expected = 0
    for feature in osm.features("osm_landusages", cql_filter="type = 'vineyard'", outputFormat="json").json["features"]:
        area = shape(feature["geometry"])
        expected += osm.features("osm_places", cql_filter=f"WITHIN(geom, {area.wkt})", resultType="hits").matched
    assert len(list(root.iter(WFS2 + "Tuple"))) == expected


def test_post_of_what_gdal_sends(osm: Wfs) -> None:
    """An Envelope without srsName in latitude, longitude; a box of GML 2 in a filter of 1.1."""
    condition = (
        "<fes:BBOX><fes:ValueReference>geom</fes:ValueReference><gml:Envelope><gml:lowerCorner>47.0 9.4"
        "</gml:lowerCorner><gml:upperCorner>47.3 9.7</gml:upperCorner></gml:Envelope></fes:BBOX>"
    )
    assert osm.filtered("tw:osm_places", condition).matched == 82
    text = (
        '<Filter xmlns="http://www.opengis.net/ogc" xmlns:gml="http://www.opengis.net/gml"><BBOX><PropertyName>geom'
        "</PropertyName><gml:Box><gml:coordinates>47.0,9.4 47.3,9.7</gml:coordinates></gml:Box></BBOX></Filter>"
    )
    assert len(osm.wfs11("GetFeature", typeName="osm_places", filter=text).ids) == 82
    assert (
        osm.post(
            f'<wfs:GetFeature {NS20} service="WFS" version="2.0.0" resultType="hits"><wfs:Query '
            'typeNames="tw:osm_places"/>'
            "</wfs:GetFeature>",
            READER,
        ).root.get("numberMatched")
        == "8048"
    )
    assert next(osm.features("osm_places", count="1").root.iter(GML32 + "Point")) is not None
