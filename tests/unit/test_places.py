"""Spatial filters and projections; expected coordinates from EPSG's own worked example and swisstopo's formulas."""

import math

import pytest

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.geometry import Envelope, Geometry, SpatialFilter, SpatialOperator, point
from thalweg.services.places import place_test
from thalweg.services.projection import northing_first, parse_crs, transform, transform_envelope


def passes(geometry: Geometry | None, spatial: SpatialFilter) -> bool:
    return place_test(spatial)(geometry)


SQUARE = Geometry("Polygon", (((0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (0.0, 4.0), (0.0, 0.0)),))


@pytest.mark.parametrize(
    ("operator", "geometry", "inside", "border", "outside"),
    [
        (SpatialOperator.BBOX, Envelope(0, 0, 4, 4), True, True, False),
        (SpatialOperator.INTERSECTS, SQUARE, True, True, False),
        (SpatialOperator.WITHIN, SQUARE, True, False, False),
        (SpatialOperator.TOUCHES, SQUARE, False, True, False),
        (SpatialOperator.DISJOINT, SQUARE, False, False, True),
    ],
)
def test_operators_on_points(
    operator: SpatialOperator, geometry: Geometry | Envelope, inside: bool, border: bool, outside: bool
) -> None:
    test = SpatialFilter(operator, geometry)
    assert passes(point(1, 1), test) is inside
    assert passes(point(4, 2), test) is border
    assert passes(point(5, 5), test) is outside
    assert passes(None, test) is False


def test_operators_on_lines_and_areas() -> None:
    line = Geometry("LineString", ((-1.0, 2.0), (5.0, 2.0)))
    assert passes(line, SpatialFilter(SpatialOperator.CROSSES, SQUARE))
    assert passes(line, SpatialFilter(SpatialOperator.BBOX, Envelope(0, 0, 1, 3)))
    assert not passes(line, SpatialFilter(SpatialOperator.BBOX, Envelope(0, 3, 1, 4)))
    shifted = Geometry("Polygon", (((2.0, 2.0), (6.0, 2.0), (6.0, 6.0), (2.0, 6.0), (2.0, 2.0)),))
    assert passes(shifted, SpatialFilter(SpatialOperator.OVERLAPS, SQUARE))
    assert passes(SQUARE, SpatialFilter(SpatialOperator.EQUALS, SQUARE))
    assert passes(SQUARE, SpatialFilter(SpatialOperator.CONTAINS, point(1, 1)))


def test_distance_in_degrees_and_in_metres() -> None:
    # One degree along the equator of WGS 84 is 111,319.49 m.
    near, far = 111_319.0, 111_320.0
    origin = point(0, 0)
    assert not passes(point(1, 0), SpatialFilter(SpatialOperator.DWITHIN, origin, near, distance_m=True))
    assert passes(point(1, 0), SpatialFilter(SpatialOperator.DWITHIN, origin, far, distance_m=True))
    assert passes(point(1, 0), SpatialFilter(SpatialOperator.BEYOND, origin, near, distance_m=True))
    assert passes(point(1, 0), SpatialFilter(SpatialOperator.DWITHIN, origin, 1.0))
    assert not passes(point(1, 0), SpatialFilter(SpatialOperator.DWITHIN, origin, 0.99))


def test_a_feature_is_brought_into_the_filters_crs() -> None:
    # Bern's old observatory is the origin of the Swiss grid: E 2 600 000, N 1 200 000 in LV95 (EPSG:2056).
    bern = point(7.438632495, 46.951082877)
    moved = transform(bern, 2056)
    assert moved.coordinates == pytest.approx((2_600_000.0, 1_200_000.0), abs=1.5)
    assert passes(bern, SpatialFilter(SpatialOperator.BBOX, Envelope(2_599_990, 1_199_990, 2_600_010, 1_200_010, 2056)))
    box = transform_envelope(Envelope(2_500_000, 1_100_000, 2_700_000, 1_300_000, 2056), 4326)
    assert box.min_x < 7.44 < box.max_x
    assert box.min_y < 46.95 < box.max_y


def test_what_cannot_be_expressed_in_the_filters_crs_does_not_pass() -> None:
    world = SpatialFilter(SpatialOperator.BBOX, Envelope(-2e7, -2e7, 2e7, 2e7, 3857))
    assert not passes(point(0.0, 90.0000001), world)
    assert passes(point(8.0, 46.0), world)
    # EPSG has this code, PROJ knows no way to it.
    assert not passes(point(8.0, 46.0), SpatialFilter(SpatialOperator.BBOX, Envelope(0, 0, 1, 1, 3053)))


def test_height_is_carried_over() -> None:
    assert transform(point(7.4, 46.9, 553.0), 3857).coordinates[2] == 553.0


def test_a_position_that_cannot_be_expressed_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="EPSG:3857"):
        transform(point(0.0, 90.0000001), 3857)
    with pytest.raises(InvalidParameter):
        transform(point(math.nan, 1.0), 3857)


@pytest.mark.parametrize(
    ("text", "srid", "swapped", "name"),
    [
        ("EPSG:4326", 4326, False, "EPSG:4326"),
        ("4326", 4326, False, "EPSG:4326"),
        ("urn:ogc:def:crs:EPSG::4326", 4326, True, "urn:ogc:def:crs:EPSG::4326"),
        ("urn:ogc:def:crs:EPSG:8.5:4326", 4326, True, "urn:ogc:def:crs:EPSG:8.5:4326"),
        ("http://www.opengis.net/def/crs/EPSG/0/4326", 4326, True, "http://www.opengis.net/def/crs/EPSG/0/4326"),
        ("http://www.opengis.net/gml/srs/epsg.xml#4326", 4326, False, "http://www.opengis.net/gml/srs/epsg.xml#4326"),
        ("urn:ogc:def:crs:EPSG::2056", 2056, False, "urn:ogc:def:crs:EPSG::2056"),
        ("urn:ogc:def:crs:EPSG::31467", 31467, True, "urn:ogc:def:crs:EPSG::31467"),
    ],
)
def test_a_crs_name_says_the_axis_order(text: str, srid: int, swapped: bool, name: str) -> None:
    crs = parse_crs(text, "srsName")
    assert (crs.srid, crs.northing_first, crs.name) == (srid, swapped, name)


@pytest.mark.parametrize(
    "text",
    [
        "+proj=longlat +nadgrids=/etc/passwd", "EPSG:999999", "EPSG:5773", "EPSG:4978", "", "EPSG:", "CRS:84x",
        "EPSG:4326 ",
        'GEOGCS["x"]', "urn:ogc:def:crs:EPSG::" + "9" * 100, "http://evil.example/def/crs/EPSG/0/4326",
    ],
)  # fmt: skip
def test_any_other_crs_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        parse_crs(text, "srsName")
    assert caught.value.parameter == "srsName"


def test_axis_order_comes_from_the_authority() -> None:
    assert northing_first(4326)
    assert not northing_first(3857)
    assert not northing_first(2056)
