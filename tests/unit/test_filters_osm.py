"""Filters of every language on the OpenStreetMap layers; expected numbers were counted by PostGIS."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest
from pyproj import Transformer
from tests.unit.filter_table import FilterTable, osm_table

from thalweg.domain.filters import Filter
from thalweg.encode.crs import parse_crs
from thalweg.encode.filters.cql2_json import parse_cql2_json
from thalweg.encode.filters.cql2_text import parse_cql2_text
from thalweg.encode.filters.ecql import parse_ecql
from thalweg.encode.filters.fes import parse_fes
from thalweg.encode.xml_input import parse_fragment

CRS84 = parse_crs("http://www.opengis.net/def/crs/OGC/1.3/CRS84", "crs")
NAMESPACES = {
    "fes": "http://www.opengis.net/fes/2.0",
    "ogc": "http://www.opengis.net/ogc",
    "gml": "http://www.opengis.net/gml/3.2",
    "osm": "http://example.org/osm",
}


@lru_cache
def _table(folder: Path, name: str) -> FilterTable:
    return osm_table(folder, name)


def fes(text: str, *, authority_order: bool = True) -> Filter:
    return parse_fes(parse_fragment(text, NAMESPACES), authority_order=authority_order)


def cql2(text: str) -> Filter:
    return parse_cql2_text(text, CRS84)


def count(table: FilterTable, condition: Filter) -> int:
    found = table.select(condition)
    assert found == table.plain(condition)
    assert found == table.select(condition, dense=lambda _: True, use_extent=False)
    return len(found)


VADUZ = "9.5227962 47.1392862"

PLACES: list[tuple[str, Filter, int]] = [
    ("ecql number", parse_ecql("population >= 10000"), 20),
    ("ecql between", parse_ecql("population BETWEEN 1000 AND 5000"), 111),
    ("ecql null", parse_ecql("population IS NULL"), 6353),
    ("ecql not null", parse_ecql("NOT (population IS NULL)"), 1695),
    ("ecql and", parse_ecql("type = 'village' AND country = 'LI'"), 21),
    ("ecql like", parse_ecql("name LIKE 'Va%'"), 33),
    ("ecql apostrophe", parse_ecql("name LIKE '%''%'"), 2),
    ("ecql ampersand", parse_ecql("name LIKE '%&%'"), 1),
    ("ecql dwithin", parse_ecql(f"DWITHIN(geometry, POINT({VADUZ}), 5, kilometers)"), 26),
    ("ecql bbox", parse_ecql("BBOX(geometry, 9.4, 47.0, 9.7, 47.3)"), 82),
    ("ecql bbox urn", parse_ecql("BBOX(geometry, 47.0, 9.4, 47.3, 9.7, 'urn:ogc:def:crs:EPSG::4326')"), 82),
    ("ecql bbox EPSG", parse_ecql("BBOX(geometry, 9.4, 47.0, 9.7, 47.3, 'EPSG:4326')"), 82),
    ("ecql all", parse_ecql("INCLUDE"), 8048),
    ("ecql none", parse_ecql("EXCLUDE"), 0),
    ("ecql ids", parse_ecql("IN ('osm_places.6968827', 'osm_places.1')"), 1),
    ("cql2 number", cql2("population >= 10000"), 20),
    ("cql2 between", cql2("population BETWEEN 1000 AND 5000"), 111),
    ("cql2 null", cql2("population IS NULL"), 6353),
    ("cql2 and", cql2("type = 'village' AND country = 'LI'"), 21),
    ("cql2 like", cql2("name LIKE 'Va%'"), 33),
    ("cql2 bbox", cql2("S_INTERSECTS(geometry, BBOX(9.4, 47.0, 9.7, 47.3))"), 82),
    ("cql2 id", cql2("id = 'osm_places.6968827'"), 1),
    ("json number", parse_cql2_json('{"op": ">=", "args": [{"property": "population"}, 10000]}', CRS84), 20),
    ("json null", parse_cql2_json('{"op": "isNull", "args": [{"property": "population"}]}', CRS84), 6353),
    ("json bbox", parse_cql2_json(
        '{"op": "s_intersects", "args": [{"property": "geometry"}, {"bbox": [9.4, 47.0, 9.7, 47.3]}]}', CRS84), 82),
    ("fes 2.0 like", fes(
        "<fes:Filter><fes:PropertyIsLike wildCard='*' singleChar='?' escapeChar='!'>"
        "<fes:ValueReference>osm:name</fes:ValueReference><fes:Literal>Va*</fes:Literal></fes:PropertyIsLike>"
        "</fes:Filter>"), 33),
    ("fes 1.1 like", fes(
        "<ogc:Filter><ogc:PropertyIsLike wildCard='%' singleChar='_' escapeChar='!'>"
        "<ogc:PropertyName>osm:osm_places/osm:name</ogc:PropertyName><ogc:Literal>Va%</ogc:Literal>"
        "</ogc:PropertyIsLike></ogc:Filter>"), 33),
    ("fes 2.0 bbox without name and CRS", fes(
        "<fes:Filter><fes:BBOX><gml:Envelope><gml:lowerCorner>47.0 9.4</gml:lowerCorner>"
        "<gml:upperCorner>47.3 9.7</gml:upperCorner></gml:Envelope></fes:BBOX></fes:Filter>"), 82),
    ("fes 1.0 box", fes(
        "<ogc:Filter><ogc:BBOX><ogc:PropertyName>geometry</ogc:PropertyName><gml:Box>"
        "<gml:coordinates>9.4,47.0 9.7,47.3</gml:coordinates></gml:Box></ogc:BBOX></ogc:Filter>",
        authority_order=False), 82),
    ("fes dwithin", fes(
        "<fes:Filter><fes:DWithin><fes:ValueReference>geometry</fes:ValueReference>"
        "<gml:Point srsName='urn:ogc:def:crs:EPSG::4326'><gml:pos>47.1392862 9.5227962</gml:pos></gml:Point>"
        "<fes:Distance uom='km'>5</fes:Distance></fes:DWithin></fes:Filter>"), 26),
    ("fes beyond", fes(
        "<fes:Filter><fes:Beyond><fes:ValueReference>geometry</fes:ValueReference>"
        "<gml:Point srsName='EPSG:4326'><gml:pos>9.5227962 47.1392862</gml:pos></gml:Point>"
        "<fes:Distance uom='m'>5000</fes:Distance></fes:Beyond></fes:Filter>"), 8048 - 26),
    ("fes ids", fes(
        "<fes:Filter><fes:ResourceId rid='osm_places.6968827'/><fes:ResourceId rid='osm_places.1932181216'/>"
        "</fes:Filter>"), 2),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "expected"), [row[1:] for row in PLACES], ids=[row[0] for row in PLACES])
def test_places(osm_dir: Path, condition: Filter, expected: int) -> None:
    assert count(_table(osm_dir, "osm_places"), condition) == expected


AREA = "POLYGON((9.50 47.12, 9.54 47.12, 9.54 47.16, 9.50 47.16, 9.50 47.12))"
SMALL = "BBOX(geometry, 9.5200, 47.1380, 9.5215, 47.1395)"

ROADS: list[tuple[str, Filter, int]] = [
    ("in", parse_ecql("type IN ('primary', 'secondary')"), 505),
    ("or", cql2("type = 'primary' OR type = 'secondary'"), 505),
    ("not null", parse_ecql("ref IS NOT NULL"), 96),
    ("number", parse_ecql("oneway = 1"), 259),
    ("box meets geometries, not their boxes", parse_ecql(SMALL), 13),
    ("intersects", parse_ecql(f"INTERSECTS(geometry, {AREA})"), 1029),
    ("disjoint", parse_ecql(f"DISJOINT(geometry, {AREA})"), 6946 - 1029),
    ("not intersects", parse_ecql(f"NOT INTERSECTS(geometry, {AREA})"), 6946 - 1029),
    ("within", parse_ecql(f"WITHIN(geometry, {AREA})"), 958),
    ("contained, operands exchanged", cql2(f"S_CONTAINS({AREA}, geometry)"), 958),
    ("cql2 intersects", cql2(f"S_INTERSECTS(geometry, {AREA})"), 1029),
    ("over the rim", cql2(f"S_INTERSECTS(geometry, {AREA}) AND NOT (S_WITHIN(geometry, {AREA}))"), 1029 - 958),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "expected"), [row[1:] for row in ROADS], ids=[row[0] for row in ROADS])
def test_roads(osm_dir: Path, condition: Filter, expected: int) -> None:
    assert count(_table(osm_dir, "osm_mainroads"), condition) == expected


def test_landusages_with_holes_and_multipolygons(osm_dir: Path) -> None:
    assert count(_table(osm_dir, "osm_landusages"), parse_ecql(f"INTERSECTS(geometry, {AREA})")) == 218


def test_a_box_in_another_crs_finds_the_same(osm_dir: Path) -> None:
    x, y = Transformer.from_crs(4326, 3857, always_xy=True).transform([9.4, 9.7], [47.0, 47.3])
    condition = parse_ecql(f"BBOX(geometry, {x[0]}, {y[0]}, {x[1]}, {y[1]}, 'EPSG:3857')")
    assert count(_table(osm_dir, "osm_places"), condition) == 82


def test_a_wrong_crs_does_not_find_the_same(osm_dir: Path) -> None:
    condition = parse_ecql("BBOX(geometry, 47.0, 9.4, 47.3, 9.7, 'EPSG:4326')")
    assert count(_table(osm_dir, "osm_places"), condition) == 0
