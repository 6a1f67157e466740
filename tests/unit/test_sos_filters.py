"""Spatial filters and comparisons in SOS requests."""

# ruff: noqa: E501 (XML reads better unbroken)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from thalweg.domain.errors import InvalidParameter, MissingParameter, NotSupported, ThalwegError, TooLarge
from thalweg.domain.geometry import Envelope, Geometry, SpatialFilter, SpatialOperator
from thalweg.doors.sos import filters
from thalweg.doors.sos.filters import Comparison, comparison, crs_reference, spatial_filter, spatial_operator

SHAPE = "om:featureOfInterest/*/sams:shape"
URN = "urn:ogc:def:crs:EPSG::4326"
HTTP = "http://www.opengis.net/def/crs/EPSG/0/4326"


def xml(text: str, gml: str = "http://www.opengis.net/gml") -> etree._Element:
    namespaces = f'xmlns:ogc="http://www.opengis.net/ogc" xmlns:fes="http://www.opengis.net/fes/2.0" xmlns:gml="{gml}"'
    return etree.fromstring(f"<r {namespaces}>{text}</r>")[0]


def operand(text: str, operator: str = "Intersects") -> Geometry | Envelope:
    return spatial_operator(xml(f"<ogc:{operator}>{text}</ogc:{operator}>"), "featureOfInterest", 2056).geometry


# ---------------------------------------------------------------- KVP


@pytest.mark.parametrize("name", [URN, HTTP])
def test_box_in_authority_order_is_turned(name: str) -> None:
    """Latitude comes first under these names; the workspace's own CRS does not matter."""
    found = spatial_filter(f"{SHAPE},45.5,8.0,46.5,9.0,{name}", 2056)
    assert found == SpatialFilter(SpatialOperator.BBOX, Envelope(8.0, 45.5, 9.0, 46.5, 4326))


@pytest.mark.parametrize("name", ["EPSG:4326", "4326", "urn:ogc:def:crs:OGC:1.3:CRS84"])
def test_box_with_easting_first_is_left_alone(name: str) -> None:
    found = spatial_filter(f"{SHAPE}, 8.0,45.5 ,9.0,46.5,{name}", 2056)
    assert found.geometry == Envelope(8.0, 45.5, 9.0, 46.5, 4326)


def test_box_without_a_crs_is_in_the_workspaces_own() -> None:
    assert spatial_filter(f"{SHAPE},2600000,1100000,2700000,1200000", 2056).geometry == Envelope(
        2600000.0, 1100000.0, 2700000.0, 1200000.0, 2056
    )


@pytest.mark.parametrize(
    "text",
    [
        f"{SHAPE},8,45,9",
        f"{SHAPE},8,45,9,46,EPSG:4326,more",
        f"{SHAPE},nan,45,9,46",
        f"{SHAPE},8,45,inf,46",
        f"{SHAPE},8,45,1e400,46",
        f"{SHAPE},8,45,1_0,46",
        f"{SHAPE},9,45,8,46",
        f"{SHAPE},8,45,9,46,+proj=longlat +nadgrids=/etc/passwd",
        f"{SHAPE},8,45,9,46,EPSG:999999",
        f"{SHAPE},8,45,9,46,GEOGCS[]",
    ],
)
def test_bad_box_names_spatial_filter(text: str) -> None:
    with pytest.raises(InvalidParameter) as raised:
        spatial_filter(text, 4326)
    assert raised.value.parameter == "spatialFilter"


def test_value_reference_is_compared_never_evaluated() -> None:
    with pytest.raises(MissingParameter) as missing:
        spatial_filter(f",0.0,10.0,0.0,10.0,{URN}", 4326)
    assert missing.value.parameter == "ValueReference"
    for wrong in ("2024-01-01T00:00:00+01:00", "exec(java.lang.Runtime.getRuntime(),'id')", "om:procedure"):
        with pytest.raises(InvalidParameter) as raised:
            spatial_filter(f"{wrong.replace(',', ';')},0.0,0.0,10.0,10.0,{URN}", 4326)
        assert raised.value.parameter == "ValueReference"


# ---------------------------------------------------------------- XML


def test_bbox_of_both_filter_versions() -> None:
    box = "<gml:Envelope srsName='{}'><gml:lowerCorner>{}</gml:lowerCorner><gml:upperCorner>{}</gml:upperCorner></gml:Envelope>"
    old = xml(
        "<ogc:BBOX><ogc:PropertyName>gml:location</ogc:PropertyName>"
        + box.format("EPSG:4326", "8 45.5", "9 46.5")
        + "</ogc:BBOX>"
    )
    new = xml(
        f"<fes:BBOX><fes:ValueReference>{SHAPE}</fes:ValueReference>"
        + box.format(HTTP, "45.5 8", "46.5 9")
        + "</fes:BBOX>",
        "http://www.opengis.net/gml/3.2",
    )
    expected = SpatialFilter(SpatialOperator.BBOX, Envelope(8.0, 45.5, 9.0, 46.5, 4326))
    assert spatial_operator(old, "featureOfInterest", 2056) == expected
    assert spatial_operator(new, "spatialFilter", 2056) == expected


def test_gml_2_box_and_other_separators() -> None:
    assert operand(
        "<gml:Box srsName='EPSG:4326'><gml:coordinates>8,45 9,46</gml:coordinates></gml:Box>", "BBOX"
    ) == Envelope(8.0, 45.0, 9.0, 46.0, 4326)
    assert operand(
        "<gml:Point srsName='EPSG:4326'><gml:coordinates cs=' ' ts=';' decimal=','>8,5 45,25</gml:coordinates></gml:Point>"
    ) == Geometry("Point", (8.5, 45.25), 4326)
    assert operand(
        "<gml:Box srsName='EPSG:4326'><gml:coord><gml:X>8</gml:X><gml:Y>45</gml:Y></gml:coord><gml:coord><gml:X>9</gml:X><gml:Y>46</gml:Y></gml:coord></gml:Box>",
        "BBOX",
    ) == Envelope(8.0, 45.0, 9.0, 46.0, 4326)


def test_point_line_polygon() -> None:
    assert operand(f"<gml:Point srsName='{URN}'><gml:pos>45.5 8.25</gml:pos></gml:Point>") == Geometry(
        "Point", (8.25, 45.5), 4326
    )
    assert operand(f"<gml:Point><gml:pos srsName='{HTTP}'>45.5 8.25 300</gml:pos></gml:Point>") == Geometry(
        "Point", (8.25, 45.5, 300.0), 4326
    )
    assert operand("<gml:LineString><gml:posList srsDimension='3'>1 2 3 4 5 6</gml:posList></gml:LineString>") == (
        Geometry("LineString", ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0)), 2056)
    )
    ring = "<gml:LinearRing><gml:posList>0 0 0 4 4 4 4 0 0 0</gml:posList></gml:LinearRing>"
    hole = "<gml:LinearRing><gml:posList>1 1 2 1 2 2 1 2 1 1</gml:posList></gml:LinearRing>"
    assert operand(
        f"<gml:Polygon srsName='EPSG:2056'><gml:exterior>{ring}</gml:exterior><gml:interior>{hole}</gml:interior></gml:Polygon>"
    ) == Geometry(
        "Polygon",
        (
            ((0.0, 0.0), (0.0, 4.0), (4.0, 4.0), (4.0, 0.0), (0.0, 0.0)),
            ((1.0, 1.0), (2.0, 1.0), (2.0, 2.0), (1.0, 2.0), (1.0, 1.0)),
        ),
        2056,
    )


def test_multi_geometries_curves_and_surfaces() -> None:
    points = "<gml:pointMember><gml:Point><gml:pos>1 2</gml:pos></gml:Point></gml:pointMember>"
    assert operand(f"<gml:MultiPoint>{points * 2}</gml:MultiPoint>") == Geometry(
        "MultiPoint", ((1.0, 2.0), (1.0, 2.0)), 2056
    )
    curve = (
        "<gml:Curve><gml:segments><gml:LineStringSegment><gml:posList>0 0 1 1</gml:posList></gml:LineStringSegment>"
        "</gml:segments></gml:Curve>"
    )
    assert operand(curve) == Geometry("LineString", ((0.0, 0.0), (1.0, 1.0)), 2056)
    assert operand(f"<gml:MultiCurve><gml:curveMember>{curve}</gml:curveMember></gml:MultiCurve>") == Geometry(
        "MultiLineString", (((0.0, 0.0), (1.0, 1.0)),), 2056
    )


def test_all_operators_and_intersect_of_old_clients() -> None:
    at = "<gml:Point><gml:pos>1 2</gml:pos></gml:Point>"
    for name in ("Equals", "Disjoint", "Intersects", "Touches", "Crosses", "Within", "Contains", "Overlaps"):
        assert spatial_operator(xml(f"<ogc:{name}>{at}</ogc:{name}>"), "p", 4326).operator == name
    assert spatial_operator(xml(f"<ogc:Intersect>{at}</ogc:Intersect>"), "p", 4326).operator == "Intersects"


def test_box_of_another_operator_becomes_a_polygon() -> None:
    text = "<gml:Envelope><gml:lowerCorner>0 0</gml:lowerCorner><gml:upperCorner>1 2</gml:upperCorner></gml:Envelope>"
    assert operand(text, "Within") == Geometry(
        "Polygon", (((0.0, 0.0), (1.0, 0.0), (1.0, 2.0), (0.0, 2.0), (0.0, 0.0)),), 2056
    )


@pytest.mark.parametrize(
    ("distance", "expected"),
    [
        ("<ogc:Distance units='m'>500</ogc:Distance>", (500.0, True)),
        ("<ogc:Distance units='km'>0.5</ogc:Distance>", (500.0, True)),
        ("<fes:Distance uom='urn:ogc:def:uom:EPSG::9001'>500</fes:Distance>", (500.0, True)),
        ("<ogc:Distance units='degree'>0.5</ogc:Distance>", (0.5, False)),
        ("<ogc:Distance>0.5</ogc:Distance>", (0.5, False)),
    ],
)
def test_distance_and_its_unit(distance: str, expected: tuple[float, bool]) -> None:
    at = "<gml:Point><gml:pos>1 2</gml:pos></gml:Point>"
    found = spatial_operator(xml(f"<ogc:DWithin>{at}{distance}</ogc:DWithin>"), "p", 4326)
    assert (found.distance, found.distance_m) == expected


@pytest.mark.parametrize(
    "text",
    [
        "<ogc:DWithin><gml:Point><gml:pos>1 2</gml:pos></gml:Point></ogc:DWithin>",
        "<ogc:DWithin><gml:Point><gml:pos>1 2</gml:pos></gml:Point><ogc:Distance units='m'>-1</ogc:Distance></ogc:DWithin>",
        "<ogc:DWithin><gml:Point><gml:pos>1 2</gml:pos></gml:Point><ogc:Distance units='ell'>1</ogc:Distance></ogc:DWithin>",
        "<ogc:Within/>",
        "<ogc:Within><gml:Point/></ogc:Within>",
        "<ogc:Within><gml:Point><gml:pos>1</gml:pos></gml:Point></ogc:Within>",
        "<ogc:Within><gml:Point><gml:pos>1 2 3 4</gml:pos></gml:Point></ogc:Within>",
        "<ogc:Within><gml:Point><gml:pos>1 x</gml:pos></gml:Point></ogc:Within>",
        "<ogc:Within><gml:Point><gml:pos>nan 2</gml:pos></gml:Point></ogc:Within>",
        "<ogc:Within><gml:Point><gml:coordinates>1</gml:coordinates></gml:Point></ogc:Within>",
        "<ogc:Within><gml:LineString><gml:posList>1 2</gml:posList></gml:LineString></ogc:Within>",
        "<ogc:Within><gml:LineString><gml:posList>1 2 3</gml:posList></gml:LineString></ogc:Within>",
        "<ogc:Within><gml:LineString><gml:posList srsDimension='9'>1 2 3</gml:posList></gml:LineString></ogc:Within>",
        "<ogc:Within><gml:Polygon/></ogc:Within>",
        "<ogc:Within><gml:Polygon><gml:exterior><gml:LinearRing><gml:posList>0 0 0 4 4 4 4 0</gml:posList></gml:LinearRing></gml:exterior></gml:Polygon></ogc:Within>",
        # A bow tie: predicates on it would fail inside the geometry library.
        "<ogc:Within><gml:Polygon><gml:exterior><gml:LinearRing><gml:posList>0 0 4 4 4 0 0 4 0 0</gml:posList></gml:LinearRing></gml:exterior></gml:Polygon></ogc:Within>",
        "<ogc:Within><gml:MultiPoint/></ogc:Within>",
        "<ogc:Within><gml:MultiPoint><gml:m><gml:LineString><gml:posList>1 2 3 4</gml:posList></gml:LineString></gml:m></gml:MultiPoint></ogc:Within>",
        "<ogc:Within><gml:Arc/></ogc:Within>",
        "<ogc:Within><gml:Curve><gml:segments><gml:Arc/></gml:segments></gml:Curve></ogc:Within>",
        "<ogc:BBOX><gml:Envelope><gml:lowerCorner>0 0</gml:lowerCorner></gml:Envelope></ogc:BBOX>",
        "<ogc:BBOX><gml:Envelope srsName='nonsense'><gml:lowerCorner>0 0</gml:lowerCorner><gml:upperCorner>1 1</gml:upperCorner></gml:Envelope></ogc:BBOX>",
        "<ogc:Within><gml:Point srsName='EPSG:4326'><gml:pos srsName='EPSG:2056'>1 2</gml:pos></gml:Point></ogc:Within>",
    ],
)
def test_bad_operand_is_an_invalid_parameter(text: str) -> None:
    with pytest.raises(InvalidParameter) as raised:
        spatial_operator(xml(text), "featureOfInterest", 4326)
    assert raised.value.parameter == "featureOfInterest"


def test_operator_that_is_none_is_not_supported() -> None:
    with pytest.raises(NotSupported, match="And"):
        spatial_operator(xml("<ogc:And/>"), "featureOfInterest", 4326)


def test_vertices_and_nesting_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "MAX_VERTICES", 10)
    line = "<gml:LineString><gml:posList>" + "1 2 " * 11 + "</gml:posList></gml:LineString>"
    with pytest.raises(TooLarge):
        operand(line)
    many = (
        "<gml:MultiPoint>" + "<gml:m><gml:Point><gml:pos>1 2</gml:pos></gml:Point></gml:m>" * 11 + "</gml:MultiPoint>"
    )
    with pytest.raises(TooLarge):
        operand(many)
    deep = "<gml:MultiPoint><gml:m>" * 40 + "</gml:m></gml:MultiPoint>" * 40
    with pytest.raises(ThalwegError):
        operand(deep)


def test_crs84_is_longitude_first_and_others_are_as_projection_says() -> None:
    assert crs_reference("http://www.opengis.net/def/crs/OGC/1.3/CRS84", "crs").srid == 4326
    assert crs_reference("urn:ogc:def:crs:OGC:1.3:CRS84", "crs").srid == 4326
    assert crs_reference(URN, "crs").northing_first
    assert not crs_reference("EPSG:4326", "crs").northing_first


# ---------------------------------------------------------------- comparisons


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "<ogc:PropertyIsGreaterThan><ogc:PropertyName>air:temperature</ogc:PropertyName><ogc:Literal> 20.5 </ogc:Literal></ogc:PropertyIsGreaterThan>",
            Comparison(">", "air:temperature", "20.5"),
        ),
        (
            "<ogc:PropertyIsEqualTo><ogc:PropertyName>om:result</ogc:PropertyName><ogc:Literal>0</ogc:Literal></ogc:PropertyIsEqualTo>",
            Comparison("==", "", "0"),
        ),
        (
            "<ogc:PropertyIsBetween><ogc:PropertyName>x</ogc:PropertyName><ogc:LowerBoundary><ogc:Literal>1</ogc:Literal></ogc:LowerBoundary><ogc:UpperBoundary><ogc:Literal>2</ogc:Literal></ogc:UpperBoundary></ogc:PropertyIsBetween>",
            Comparison("between", "x", "1", "2"),
        ),
    ],
)
def test_comparison_is_read(text: str, expected: Comparison) -> None:
    assert comparison(xml(text)) == expected


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("<ogc:PropertyIsEqualTo><ogc:PropertyName/><ogc:Literal/></ogc:PropertyIsEqualTo>", InvalidParameter),
        ("<ogc:PropertyIsEqualTo><ogc:PropertyName>x</ogc:PropertyName></ogc:PropertyIsEqualTo>", InvalidParameter),
        ("<ogc:PropertyIsEqualTo><ogc:Function name='f'/></ogc:PropertyIsEqualTo>", InvalidParameter),
        (
            "<ogc:PropertyIsLike><ogc:PropertyName>x</ogc:PropertyName><ogc:Literal>a*</ogc:Literal></ogc:PropertyIsLike>",
            NotSupported,
        ),
        ("<ogc:And/>", NotSupported),
    ],
)
def test_bad_comparison_names_result(text: str, error: type[ThalwegError]) -> None:
    with pytest.raises(error) as raised:
        comparison(xml(text))
    assert raised.value.parameter == "result"


# ---------------------------------------------------------------- anything


@given(st.text(",.0189e-infa EPSG:4326om/*shape", max_size=80))
def test_any_spatial_filter_gives_a_finite_box_or_a_domain_error(text: str) -> None:
    try:
        found = spatial_filter(text, 4326)
    except ThalwegError:
        return
    assert isinstance(found.geometry, Envelope)
    assert found.geometry.min_x <= found.geometry.max_x


TAGS = ["Point", "pos", "posList", "LineString", "Polygon", "exterior", "LinearRing", "Envelope", "lowerCorner",
        "MultiSurface", "surfaceMember", "coordinates", "segments", "Curve", "coord", "X"]  # fmt: skip
trees = st.recursive(
    st.text("0123456789. -en", max_size=12),
    lambda inner: st.builds(
        lambda tag, parts: f"<gml:{tag}>{''.join(parts)}</gml:{tag}>",
        st.sampled_from(TAGS),
        st.lists(inner, max_size=3),
    ),
    max_leaves=8,
)


@given(st.sampled_from(["BBOX", "Within", "DWithin", "Beyond", "Nope"]), st.lists(trees, max_size=3))
def test_any_tree_gives_a_filter_or_a_domain_error(operator: str, parts: list[str]) -> None:
    try:
        spatial_operator(xml(f"<ogc:{operator}>{''.join(parts)}</ogc:{operator}>"), "p", 4326)
    except ThalwegError:
        pass
