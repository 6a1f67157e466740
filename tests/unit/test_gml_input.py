"""GML geometries of every version as clients write them: order of axes, forms of coordinates, what is refused."""

from __future__ import annotations

import math

import pytest
import shapely

from thalweg.domain.errors import InvalidParameter
from thalweg.encode.crs import parse_crs
from thalweg.encode.gml_input import read_geometry
from thalweg.encode.xml_input import parse_fragment

GML = {"gml": "http://www.opengis.net/gml/3.2"}
URN = "urn:ogc:def:crs:EPSG::4326"


def read(text: str, **options: object) -> tuple[str, int]:
    value = read_geometry(parse_fragment(text, GML), "geometry", **options)  # type: ignore[arg-type]
    return shapely.to_wkt(shapely.from_wkb(value.wkb), trim=True), value.srid


RING = "<gml:LinearRing><gml:posList>0 0 4 0 4 3 0 3 0 0</gml:posList></gml:LinearRing>"
HOLE = "<gml:LinearRing><gml:coordinates>1,1 2,1 2,2 1,1</gml:coordinates></gml:LinearRing>"
POLYGON = f"<gml:Polygon><gml:exterior>{RING}</gml:exterior><gml:interior>{HOLE}</gml:interior></gml:Polygon>"
POLYGON_WKT = "POLYGON ((0 0, 4 0, 4 3, 0 3, 0 0), (1 1, 2 1, 2 2, 1 1))"

CURVE = "<gml:Curve><gml:segments>{}</gml:segments></gml:Curve>"

FORMS = [
    ("<gml:Point><gml:pos>1 2</gml:pos></gml:Point>", "POINT (1 2)"),
    ("<gml:Point><gml:pos>1 2 3</gml:pos></gml:Point>", "POINT Z (1 2 3)"),
    ("<gml:Point><gml:coordinates>1,2</gml:coordinates></gml:Point>", "POINT (1 2)"),
    ('<gml:Point><gml:coordinates decimal="," cs=";" ts=" ">1,5;2,5</gml:coordinates></gml:Point>', "POINT (1.5 2.5)"),
    ("<gml:Point><gml:coord><gml:X>1</gml:X><gml:Y>2</gml:Y></gml:coord></gml:Point>", "POINT (1 2)"),
    ("<gml:LineString><gml:posList>1 2 3 4</gml:posList></gml:LineString>", "LINESTRING (1 2, 3 4)"),
    ('<gml:LineString srsDimension="3"><gml:posList>1 2 3 4 5 6</gml:posList></gml:LineString>',
     "LINESTRING Z (1 2 3, 4 5 6)"),
    ("<gml:LineString><gml:pos>1 2</gml:pos><gml:pos>3 4</gml:pos></gml:LineString>", "LINESTRING (1 2, 3 4)"),
    ("<gml:LineString><gml:coordinates> 1, 2\n 3 ,4 </gml:coordinates></gml:LineString>", "LINESTRING (1 2, 3 4)"),
    ("<gml:Curve><gml:segments><gml:LineStringSegment><gml:posList>1 2 3 4</gml:posList></gml:LineStringSegment>"
     "<gml:LineStringSegment><gml:posList>3 4 5 6</gml:posList></gml:LineStringSegment></gml:segments></gml:Curve>",
     "LINESTRING (1 2, 3 4, 5 6)"),
    (POLYGON, POLYGON_WKT),
    (f"<gml:Polygon><gml:outerBoundaryIs>{RING}</gml:outerBoundaryIs><gml:innerBoundaryIs>{HOLE}</gml:innerBoundaryIs>"
     "</gml:Polygon>", POLYGON_WKT),
    (f"<gml:Surface><gml:patches><gml:PolygonPatch><gml:exterior>{RING}</gml:exterior></gml:PolygonPatch></gml:patches>"
     "</gml:Surface>", "POLYGON ((0 0, 4 0, 4 3, 0 3, 0 0))"),
    ("<gml:MultiPoint><gml:pointMember><gml:Point><gml:pos>1 2</gml:pos></gml:Point></gml:pointMember>"
     "<gml:pointMember><gml:Point><gml:pos>3 4</gml:pos></gml:Point></gml:pointMember></gml:MultiPoint>",
     "MULTIPOINT ((1 2), (3 4))"),
    ("<gml:MultiCurve><gml:curveMember><gml:LineString><gml:posList>1 2 3 4</gml:posList></gml:LineString>"
     "</gml:curveMember></gml:MultiCurve>", "MULTILINESTRING ((1 2, 3 4))"),
    (f"<gml:MultiSurface><gml:surfaceMembers>{POLYGON}</gml:surfaceMembers></gml:MultiSurface>",
     "MULTIPOLYGON (((0 0, 4 0, 4 3, 0 3, 0 0), (1 1, 2 1, 2 2, 1 1)))"),
    ("<gml:MultiGeometry><gml:geometryMember><gml:Point><gml:pos>1 2</gml:pos></gml:Point></gml:geometryMember>"
     "</gml:MultiGeometry>", "GEOMETRYCOLLECTION (POINT (1 2))"),
    ("<gml:Envelope><gml:lowerCorner>1 2</gml:lowerCorner><gml:upperCorner>3 4</gml:upperCorner></gml:Envelope>",
     "POLYGON ((3 2, 3 4, 1 4, 1 2, 3 2))"),
    ("<gml:Box><gml:coordinates>1,2 3,4</gml:coordinates></gml:Box>", "POLYGON ((3 2, 3 4, 1 4, 1 2, 3 2))"),
    ("<gml:MultiPoint/>", "MULTIPOINT EMPTY"),
    ("<Point xmlns=''><pos>1 2</pos></Point>", "POINT (1 2)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), FORMS, ids=range(len(FORMS)))
def test_forms(text: str, expected: str) -> None:
    assert read(text) == (expected, 0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (URN, "POINT (9.5 47.1)"),
        ("urn:x-ogc:def:crs:EPSG:4326", "POINT (9.5 47.1)"),
        ("http://www.opengis.net/def/crs/EPSG/0/4326", "POINT (9.5 47.1)"),
        ("EPSG:4326", "POINT (47.1 9.5)"),
        ("http://www.opengis.net/gml/srs/epsg.xml#4326", "POINT (47.1 9.5)"),
        ("urn:ogc:def:crs:OGC:1.3:CRS84", "POINT (47.1 9.5)"),
    ],
)
def test_the_spelling_of_the_crs_says_the_order(name: str, expected: str) -> None:
    assert read(f'<gml:Point srsName="{name}"><gml:pos>47.1 9.5</gml:pos></gml:Point>') == (expected, 4326)


def test_the_name_on_an_inner_element_counts() -> None:
    inner = f'<gml:Point srsName="{URN}"><gml:pos>47 9</gml:pos></gml:Point>'
    text = f"<gml:MultiPoint><gml:pointMember>{inner}</gml:pointMember></gml:MultiPoint>"
    assert read(text) == ("MULTIPOINT ((9 47))", 4326)


def test_without_a_name_the_default_counts() -> None:
    text = "<gml:Point><gml:pos>47 9</gml:pos></gml:Point>"
    assert read(text, default=parse_crs(URN, "crs")) == ("POINT (9 47)", 4326)
    value = read_geometry(parse_fragment(text, GML), "geometry")
    assert (value.srid, value.as_written) == (0, True)
    assert not read_geometry(parse_fragment(text, GML), "geometry", authority_order=False).as_written


def test_patches_that_share_a_border_become_one_surface() -> None:
    right = RING.replace("0 0 4 0 4 3 0 3 0 0", "4 0 8 0 8 3 4 3 4 0")
    text = "<gml:Surface><gml:patches>" + "".join(
        f"<gml:PolygonPatch><gml:exterior>{ring}</gml:exterior></gml:PolygonPatch>" for ring in (RING, right)
    ) + "</gml:patches></gml:Surface>"  # fmt: skip
    shape = shapely.from_wkb(read_geometry(parse_fragment(text, GML), "geometry").wkb)
    assert shape.equals(shapely.box(0, 0, 8, 3))


REFUSED = [
    ("<gml:Point><gml:pos>1</gml:pos></gml:Point>", "two nor three"),
    ("<gml:Point><gml:pos>1 2 3 4</gml:pos></gml:Point>", "two nor three"),
    ("<gml:Point><gml:pos>1 x</gml:pos></gml:Point>", "'x' is no number"),
    ("<gml:Point><gml:pos>1 NaN</gml:pos></gml:Point>", "finite"),
    ("<gml:Point><gml:pos>1 1_0</gml:pos></gml:Point>", "finite"),
    ("<gml:Point><gml:coordinates>1,2 3,4</gml:coordinates></gml:Point>", "more than one"),
    ("<gml:LineString><gml:posList>1 2 3</gml:posList></gml:LineString>", "two positions"),
    ('<gml:LineString srsDimension="2"><gml:posList>1 2 3</gml:posList></gml:LineString>', "3 numbers"),
    ('<gml:LineString srsDimension="9"><gml:posList>1 2 3</gml:posList></gml:LineString>', "srsDimension"),
    ("<gml:LineString><gml:posList>1 2</gml:posList></gml:LineString>", "two positions"),
    ("<gml:LineString><gml:coordinates>1,2 3,4,5</gml:coordinates></gml:LineString>", "mixed"),
    ("<gml:Polygon><gml:exterior><gml:LinearRing><gml:posList>0 0 1 0 0 0</gml:posList></gml:LinearRing>"
     "</gml:exterior></gml:Polygon>", "four positions"),
    ("<gml:Polygon><gml:exterior><gml:LinearRing><gml:posList>0 0 1 0 1 1 0 1</gml:posList></gml:LinearRing>"
     "</gml:exterior></gml:Polygon>", "end where it begins"),
    (f"<gml:Polygon><gml:interior>{RING}</gml:interior></gml:Polygon>", "no exterior"),
    (CURVE.format("<gml:Arc><gml:posList>0 0 1 1</gml:posList></gml:Arc>"), "an Arc has three positions"),
    (CURVE.format("<gml:ArcString><gml:posList>0 0 1 1 2 0 3 1</gml:posList></gml:ArcString>"), "odd number"),
    (CURVE.format("<gml:Circle><gml:posList>0 0 1 1 2 2</gml:posList></gml:Circle>"), "on one line"),
    (CURVE.format("<gml:CircleByCenterPoint><gml:pos>0 0</gml:pos><gml:radius uom='m'>1</gml:radius>"
                  "</gml:CircleByCenterPoint>"), "'CircleByCenterPoint' are not read here"),
    (CURVE.format("<gml:BSpline/>"), "'BSpline' are not read here"),
    ("<gml:Envelope><gml:lowerCorner>3 4</gml:lowerCorner><gml:upperCorner>1 2</gml:upperCorner></gml:Envelope>",
     "lower corner"),
    ("<gml:Envelope/>", "two corners"),
    ('<gml:Point srsName="EPSG:999999"><gml:pos>1 2</gml:pos></gml:Point>', "999999"),
    ('<gml:Point srsName="+proj=longlat"><gml:pos>1 2</gml:pos></gml:Point>', "CRS reference"),
    ("<gml:Sphere/>", "no geometry"),
    ('<gml:MultiPoint srsName="EPSG:3857"><gml:pointMember><gml:Point><gml:pos>1 2</gml:pos></gml:Point>'
     '</gml:pointMember><gml:pointMember><gml:Point srsName="EPSG:4326"><gml:pos>1 2</gml:pos></gml:Point>'
     "</gml:pointMember></gml:MultiPoint>", "different CRSs"),
    ("<gml:MultiPoint><gml:pointMember>" + RING + "</gml:pointMember></gml:MultiPoint>", "other geometries"),
    ("<gml:MultiGeometry><gml:geometryMember>" * 9 + "<gml:Point><gml:pos>1 2</gml:pos></gml:Point>"
     + "</gml:geometryMember></gml:MultiGeometry>" * 9, "nested"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "because"), REFUSED, ids=range(len(REFUSED)))
def test_refused(text: str, because: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        read(text)
    assert because in caught.value.message


def curve(*segments: str) -> shapely.Geometry:
    content = "".join(
        f"<gml:{name}><gml:posList>{positions}</gml:posList></gml:{name}>"
        for name, _, positions in (segment.partition(" ") for segment in segments)
    )
    return shapely.from_wkt(read(CURVE.format(content))[0])


@pytest.mark.parametrize(
    ("segment", "length", "given"),
    [
        # Half of a circle of radius 1, either way round; a quarter and three quarters; the whole.
        ("Arc 0 0 1 1 2 0", math.pi, [(0, 0), (1, 1), (2, 0)]),
        ("Arc 0 0 1 -1 2 0", math.pi, [(0, 0), (1, -1), (2, 0)]),
        ("Arc 1 0 0.7071067811865476 0.7071067811865476 0 1", math.pi / 2, [(1, 0), (0, 1)]),
        ("Arc 1 0 -0.7071067811865476 -0.7071067811865476 0 1", 1.5 * math.pi, [(1, 0), (0, 1)]),
        ("Arc 0 0 2 0 0 0", 2 * math.pi, [(0, 0), (2, 0)]),
        ("Circle 0 0 1 1 2 0", 2 * math.pi, [(0, 0), (1, 1), (2, 0)]),
        ("Circle 2 0 1 1 0 0", 2 * math.pi, [(0, 0), (1, 1), (2, 0)]),
        ("ArcString 0 0 1 1 2 0 3 -1 4 0", 2 * math.pi, [(0, 0), (1, 1), (2, 0), (3, -1), (4, 0)]),
        # Three positions on a line are no circle.
        ("Arc 0 0 1 0 2 0", 2, [(0, 0), (1, 0), (2, 0)]),
    ],
)
def test_arcs_become_lines_near_to_them(segment: str, length: float, given: list[tuple[float, float]]) -> None:
    line = curve(segment)
    assert 0.999 * length < line.length <= length + 1e-9
    positions = {(x, y) for x, y in line.coords}
    assert set(given) <= positions
    assert line.is_closed == ("Circle" in segment or segment == "Arc 0 0 2 0 0 0")


def test_positions_between_lie_on_the_circle() -> None:
    line = curve("Arc 600000 200000 600100 200100 600200 200000")
    assert all(math.hypot(x - 600100, y - 200000) == pytest.approx(100, abs=1e-6) for x, y in line.coords)
    assert len(line.coords) == 47


def test_arcs_join_straight_segments_and_keep_heights() -> None:
    line = curve("LineStringSegment -1 0 0 0", "Arc 0 0 1 1 2 0", "LineStringSegment 2 0 3 0")
    assert (line.coords[0], line.coords[-1]) == ((-1, 0), (3, 0))
    assert 1.998 + math.pi < line.length + 0.003 < 2.004 + math.pi
    text = CURVE.format('<gml:Arc srsDimension="3"><gml:posList>0 0 10 1 1 20 2 0 40</gml:posList></gml:Arc>')
    heights = [z for _, _, z in shapely.from_wkt(read(text)[0]).coords]
    assert heights == sorted(heights)
    assert (heights[0], heights[-1], 20 in heights) == (10, 40, True)


def test_a_ring_of_arcs_is_a_disk() -> None:
    ring = f"<gml:Ring><gml:curveMember>{CURVE.format(CIRCLE)}</gml:curveMember></gml:Ring>"
    disk = shapely.from_wkt(read(f"<gml:Polygon><gml:exterior>{ring}</gml:exterior></gml:Polygon>")[0])
    assert disk.is_valid
    assert 0.998 * math.pi < disk.area < math.pi


CIRCLE = "<gml:Circle><gml:posList>0 0 1 1 2 0</gml:posList></gml:Circle>"


def test_arcs_are_bounded() -> None:
    string = CURVE.format("<gml:ArcString><gml:posList>" + "0 0 1 1 2 0 " * 25_001 + "</gml:posList></gml:ArcString>")
    there_and_back = (
        "<gml:Arc><gml:posList>0 0 1 1 2 0</gml:posList></gml:Arc>"
        "<gml:Arc><gml:posList>2 0 1 -1 0 0</gml:posList></gml:Arc>"
    )
    for text, because in ((string, "at most 65,536"), (CURVE.format(there_and_back * 11_000), "1,000,000 positions")):
        with pytest.raises(InvalidParameter, match=because):
            read(text)
