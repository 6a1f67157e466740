"""Names of coordinate reference systems: spellings, orders, and the name to write."""

from __future__ import annotations

import pytest

from thalweg.domain.errors import InvalidParameter
from thalweg.encode.crs import Gml, Style, default_order, northing_first, parse_crs, written_name

XY = ["4326", "EPSG:4326", "epsg:4326", "http://www.opengis.net/gml/srs/epsg.xml#4326"]
YX = [
    "urn:ogc:def:crs:EPSG::4326",
    "urn:ogc:def:crs:EPSG:6.9:4326",
    "urn:x-ogc:def:crs:EPSG:4326",
    "urn:x-ogc:def:crs:EPSG::4326",
    "http://www.opengis.net/def/crs/EPSG/0/4326",
    "https://www.opengis.net/def/crs/EPSG/9.9.1/4326",
    "[EPSG:4326]",
]
CRS84 = [
    "CRS:84",
    "CRS84",
    "OGC:CRS84",
    "urn:ogc:def:crs:OGC:1.3:CRS84",
    "urn:ogc:def:crs:OGC::CRS84",
    "urn:ogc:def:crs:CRS::84",
    "http://www.opengis.net/def/crs/OGC/1.3/CRS84",
    "http://www.opengis.net/def/crs/OGC/0/CRS84h",
    "[OGC:CRS84]",
]


@pytest.mark.parametrize("text", XY + CRS84)
def test_short_names_and_crs84_are_longitude_first(text: str) -> None:
    assert parse_crs(text, "srsName").srid == 4326
    assert not parse_crs(text, "srsName").swapped


@pytest.mark.parametrize("text", YX)
def test_urn_and_http_forms_are_in_the_order_of_the_authority(text: str) -> None:
    assert parse_crs(text, "srsName").srid == 4326
    assert parse_crs(text, "srsName").swapped


# By EPSG: 2056 east north, 3857 east north, 2180 and 31467 north east, 3067 east north, 3031 (polar) easting northing.
@pytest.mark.parametrize(
    ("srid", "swapped"),
    [(2056, False), (3857, False), (2180, True), (31467, True), (3067, False), (3031, False), (4258, True)],
)
def test_the_order_of_the_authority_depends_on_the_crs(srid: int, swapped: bool) -> None:
    assert parse_crs(f"urn:ogc:def:crs:EPSG::{srid}", "srsName").swapped is swapped
    assert not parse_crs(f"EPSG:{srid}", "srsName").swapped


@pytest.mark.parametrize("number", ["900913", "102100"])
def test_other_numbers_of_web_mercator_are_known(number: str) -> None:
    assert parse_crs(f"EPSG:{number}", "srsName").srid == 3857


@pytest.mark.parametrize(
    "text",
    [
        "",
        "+proj=longlat +datum=WGS84",
        "+init=epsg:4326",
        'GEOGCS["WGS 84"]',
        "EPSG:0",
        "EPSG:99999",
        "EPSG:4978",
        "EPSG:4326/../..",
        "urn:ogc:def:crs:EPSG::4326\n",
        "urn:ogc:def:crs,crs:EPSG::4326,crs:EPSG::5773",
        "EPSG:\uff14\uff13\uff12\uff16",
        "/etc/passwd",
        "http://example.org/def/crs/EPSG/0/4326",
        "x" * 5000,
    ],
)
def test_anything_else_is_refused_by_name(text: str) -> None:
    if text.endswith("\n"):
        # White space around a name is no part of it.
        assert parse_crs(text, "srsName").srid == 4326
        return
    with pytest.raises(InvalidParameter) as caught:
        parse_crs(text, "srsName")
    assert caught.value.parameter == "srsName"


@pytest.mark.parametrize("gml", list(Gml))
@pytest.mark.parametrize("srid", [4326, 3857, 2056, 2180])
@pytest.mark.parametrize("swapped", [False, True])
def test_what_is_written_says_the_order_that_is_written(gml: Gml, srid: int, swapped: bool) -> None:
    if swapped and not northing_first(srid):
        return
    name = written_name(gml, srid, swapped)
    read = parse_crs(name, "srsName")
    assert (read.srid, read.swapped) == (srid, swapped)


def test_each_version_of_gml_has_its_usual_name() -> None:
    assert written_name(Gml.V2, 4326, False) == "http://www.opengis.net/gml/srs/epsg.xml#4326"
    assert written_name(Gml.V31, 4326, True) == "urn:ogc:def:crs:EPSG::4326"
    assert written_name(Gml.V32, 4326, True) == "urn:ogc:def:crs:EPSG::4326"
    assert written_name(Gml.V32, 4326, False) == "http://www.opengis.net/gml/srs/epsg.xml#4326"
    assert written_name(Gml.V32, 2056, False) == "urn:ogc:def:crs:EPSG::2056"


def test_styles_name_the_code() -> None:
    assert [style.name(4326) for style in Style] == [
        "EPSG:4326",
        "http://www.opengis.net/gml/srs/epsg.xml#4326",
        "urn:x-ogc:def:crs:EPSG:4326",
        "urn:ogc:def:crs:EPSG::4326",
        "http://www.opengis.net/def/crs/EPSG/0/4326",
    ]


def test_without_a_name_the_version_decides() -> None:
    assert not default_order("1.0.0", 4326)
    assert default_order("1.1.0", 4326)
    assert default_order("2.0.0", 4326)
    assert not default_order("2.0.0", 3857)
