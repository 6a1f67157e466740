"""Geometries and names of CRSs as clients write them: read as another program reads them, or refused, in bounded time."""

# ruff: noqa: E501 (strategies and documents read better unbroken)

from __future__ import annotations

import json
import math
from functools import partial

import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz import features, fragments, wfs
from tests.property.hostile import Within, changed, is_read_or_refused, texts

from thalweg.domain.errors import InvalidParameter, ThalwegError
from thalweg.encode import crs, tiles
from thalweg.encode.geojson_input import read_geojson
from thalweg.encode.gml_input import GEOMETRY_ELEMENTS, read_geometry
from thalweg.encode.xml_input import parse_fragment

GML = {"gml": "http://www.opengis.net/gml/3.2", "xlink": "http://www.w3.org/1999/xlink"}
NUMBERS = st.one_of(
    st.floats(), st.integers(), st.floats(-180, 180), st.sampled_from(["1", None, True, [], {}, 1e308, 2**70])
)
GEOJSON = (
    {"type": "Point", "coordinates": [8.5, 47.5]},
    {"type": "MultiPoint", "coordinates": [[8.5, 47.5], [9, 48]]},
    {"type": "LineString", "coordinates": [[8.5, 47.5, 400], [9, 48, 410]]},
    {"type": "MultiLineString", "coordinates": [[[8.5, 47.5], [9, 48]], [[1, 2], [3, 4]]]},
    {"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [4, 4], [0, 0]], [[1, 1], [2, 1], [2, 2], [1, 1]]]},
    {"type": "MultiPolygon", "coordinates": [[[[0, 0], [4, 0], [4, 4], [0, 0]]]]},
    {"type": "GeometryCollection", "geometries": [{"type": "Point", "coordinates": []}, {"type": "Point", "coordinates": [1, 2]}]},
)  # fmt: skip
TYPES = tuple(str(item["type"]) for item in GEOJSON)


def _nested(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.one_of(
        st.lists(inner, max_size=5),
        st.builds(lambda kind, value: {"type": kind, "coordinates": value}, st.sampled_from(TYPES), inner),
        st.builds(lambda value: {"type": "GeometryCollection", "geometries": value}, st.lists(inner, max_size=3)),
    )


DOCUMENTS = changed([json.dumps(item) for item in GEOJSON], features.DOOR.words, "json")


@given(st.one_of(st.recursive(NUMBERS, _nested, max_leaves=20), DOCUMENTS))
def test_geometries_of_geojson_are_read_as_another_reader_does_or_refused(value: object) -> None:
    if isinstance(value, bytes):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return
    found = is_read_or_refused(read_geojson, value, "geometry")
    if found[0] == "given":
        shape = shapely.from_wkb(found[1])
        assert all(map(math.isfinite, shapely.get_coordinates(shape, include_z=shape.has_z).flat))
        try:
            other = shapely.from_geojson(json.dumps(value))
        except (shapely.errors.ShapelyError, ValueError):
            # GEOS takes no bare numbers beyond its own range, and no fourth ordinate.
            return
        assert shapely.equals_identical(shapely.force_2d(shape), shapely.force_2d(other)) or shape.is_empty


GEOMETRIES = tuple(
    text.replace(">", f' xmlns:gml="{GML["gml"]}">', 1)
    for text in (
        wfs.POINT,
        wfs.POLYGON,
        f'<gml:MultiSurface srsName="EPSG:4326"><gml:surfaceMember>{wfs.POLYGON}</gml:surfaceMember></gml:MultiSurface>',
        '<gml:MultiGeometry><gml:geometryMember><gml:LineString srsDimension="3"><gml:posList>1 2 3 4 5 6</gml:posList></gml:LineString>'
        "</gml:geometryMember></gml:MultiGeometry>",
        "<gml:Curve><gml:segments><gml:LineStringSegment><gml:posList>1 2 3 4</gml:posList></gml:LineStringSegment></gml:segments></gml:Curve>",
        '<gml:Point><gml:coordinates decimal="," cs=";" ts=" ">1,5;2,5</gml:coordinates></gml:Point>',
        "<gml:Envelope><gml:lowerCorner>1 2</gml:lowerCorner><gml:upperCorner>3 4</gml:upperCorner></gml:Envelope>",
        "<gml:Box><gml:coordinates>1,2 3,4</gml:coordinates></gml:Box>",
        "<gml:Surface><gml:patches><gml:PolygonPatch><gml:exterior><gml:LinearRing><gml:pos>0 0</gml:pos><gml:pos>4 0</gml:pos><gml:pos>4 4"
        "</gml:pos><gml:pos>0 0</gml:pos></gml:LinearRing></gml:exterior></gml:PolygonPatch></gml:patches></gml:Surface>",
    )
)  # fmt: skip
WORDS = (*(f"gml:{name}" for name in sorted(GEOMETRY_ELEMENTS)), *wfs.DOOR.words, *fragments.NUMBERS)


@given(changed(GEOMETRIES, WORDS, "xml"))
def test_geometries_of_gml_are_read_or_refused(document: bytes) -> None:
    try:
        element = parse_fragment(document.decode(), GML)
    except (UnicodeDecodeError, ThalwegError):
        return
    for authority_order in (True, False):
        with Within():
            found = is_read_or_refused(partial(read_geometry, element, "geometry", authority_order=authority_order))
        if found[0] == "given":
            shape = shapely.from_wkb(found[1].wkb)
            assert all(map(math.isfinite, shapely.get_coordinates(shape, include_z=shape.has_z).flat))


CODES = st.one_of(st.integers(0, 10**7), st.sampled_from((4326, 3857, 2056, 900913, 31370, 32632)))
FORMS = ("{}", "EPSG:{}", "epsg::{}", "urn:ogc:def:crs:EPSG::{}", "urn:x-ogc:def:crs:EPSG:6.9:{}", "[EPSG:{}]",
         "http://www.opengis.net/def/crs/EPSG/0/{}", "http://www.opengis.net/gml/srs/epsg.xml#{}")  # fmt: skip


@given(st.one_of(texts(wfs.DOOR.words), st.builds(str.format, st.sampled_from(FORMS), CODES),
                 st.tuples(st.sampled_from(FORMS), st.sampled_from(fragments.INJECTIONS)).map("".join)))  # fmt: skip
def test_names_of_crs_are_codes_or_refused(text: str) -> None:
    """No other text than a code of EPSG reaches PROJ: what is read is one that PROJ knows by number."""
    found = is_read_or_refused(crs.parse_crs, text, "srsName")
    if found[0] == "given":
        assert crs.is_known(found[1].srid)
        assert len(text) <= crs.MAX_NAME_LENGTH
        assert str(found[1].srid) in text or found[1].srid in (3857, 4326)
        if found[1].swapped:
            assert crs.northing_first(found[1].srid)


WKT = ("POINT (5 50)", "LINESTRING (5 50, 6 51)", "POLYGON ((5 50, 6 50, 6 51, 5 50))", "MULTIPOINT ((5 50), (6 51))",
       "<http://www.opengis.net/def/crs/EPSG/0/4326> POINT (50 5)", "<http://www.opengis.net/def/crs/EPSG/0/31370> POINT (150000 170000)",
       "<http://www.opengis.net/def/crs/OGC/1.3/CRS84> MULTIPOLYGON (((5 50, 6 50, 6 51, 5 50)))",
       "GEOMETRYCOLLECTION (POINT Z (5 50 1), GEOMETRYCOLLECTION (POINT (6 51)))")  # fmt: skip


@given(
    st.one_of(
        changed(WKT, (*WKT, "EMPTY", "Z", "(", ")", ",", "1e400", "nan", "CIRCULARSTRING"), "tokens").map(lambda raw: raw.decode("utf-8", "replace")),
        texts(WKT),
    ),
    st.integers(0, 23),
)  # fmt: skip
def test_literals_lie_in_tiles_of_the_map_or_in_none(literal: str, zoom: int) -> None:
    with Within():
        found = tiles.tiles(literal, zoom)
    if found is not None:
        assert 0 < len(found) <= tiles.MAX_TILES
        assert len(set(found)) == len(found)
        assert all(0 <= x < 1 << zoom and 0 <= y < 1 << zoom for x, y in found)


@given(st.floats(-180, 180), st.floats(-85, 85), st.integers(0, 23))
def test_a_point_lies_in_the_one_tile_around_it(lon: float, lat: float, zoom: int) -> None:
    """Where a point is by the formula of the map's tiles."""
    ((x, y),) = tiles.tiles(f"POINT ({lon!r} {lat!r})", zoom) or ((-1, -1),)
    n = 1 << zoom
    assert x == min(n - 1, int((lon + 180) / 360 * n))
    expected = (1 - math.asinh(math.tan(math.radians(lat))) / math.pi) / 2 * n
    assert y == pytest.approx(min(n - 1, math.floor(expected)), abs=1e-9) or abs(expected - round(expected)) < 1e-6


def test_bounds_of_literals_and_names() -> None:
    long_name = "EPSG:4326" + " " * (crs.MAX_NAME_LENGTH - 9)
    assert crs.parse_crs(long_name, "srsName").srid == 4326
    with pytest.raises(InvalidParameter):
        crs.parse_crs(long_name + " ", "srsName")
    point = "POINT (5 50)"
    assert tiles.tiles(point + " " * (tiles.MAX_WKT_LENGTH - len(point)), 3) == ((4, 2),)
    assert tiles.tiles(point + " " * (tiles.MAX_WKT_LENGTH - len(point) + 1), 3) is None
    for depth, is_read in ((tiles.MAX_WKT_DEPTH - 1, True), (tiles.MAX_WKT_DEPTH, False), (3000, False)):
        nested = "GEOMETRYCOLLECTION (" * depth + point + ")" * depth
        assert (tiles.tiles(nested, 3) == ((4, 2),)) == is_read
    # 33 by 33 tiles of zoom 13 are more than 1,024, 30 by 30 are not.
    degrees = 360 / (1 << 13)
    for count, is_listed in ((30, True), (40, False)):
        square = shapely.box(0.01, 0.001, 0.01 + count * degrees, 0.001 + count * degrees)
        assert (tiles.tiles(square.wkt, 13) is not None) == is_listed
    assert tiles.tiles(f"POINT (5 {tiles.MAX_LATITUDE})", 3) is not None
    assert tiles.tiles(f"POINT (5 {tiles.MAX_LATITUDE + 1e-6})", 3) is None
