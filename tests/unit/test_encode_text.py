"""Texts: XML escapes and ids, numbers, units, geometries, pieces of documents."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import pytest
from lxml import etree

from thalweg.domain.geometry import Geometry, point
from thalweg.encode.form import csv_field, json_string, swe_token
from thalweg.encode.gml import gml31, gml32
from thalweg.encode.member import BLOCK_BYTES, WHOLE_BYTES, in_blocks, whole_or_blocks
from thalweg.encode.numbers import format_json_number, format_number
from thalweg.encode.record import uom_attributes, uom_identifier
from thalweg.encode.xmltext import attribute, escape, ncname

HOSTILE = "a&b<c>d\"e'f\tg\nh\ri\x00j\x1fk\ufffel\ud800m]]>né\U0001f30a"


def test_escaped_content_reads_back_with_illegal_characters_replaced() -> None:
    found = etree.fromstring(f"<a>{escape(HOSTILE)}</a>".encode()).text
    assert found == "a&b<c>d\"e'f\tg\nh\ri\ufffdj\ufffdk\ufffdl\ufffdm]]>né\U0001f30a"


def test_escaped_attribute_keeps_white_space() -> None:
    found = etree.fromstring(f'<a b="{attribute(HOSTILE)}"/>'.encode()).get("b")
    assert found == "a&b<c>d\"e'f\tg\nh\ri\ufffdj\ufffdk\ufffdl\ufffdm]]>né\U0001f30a"


@pytest.mark.parametrize(
    "name", ["temporary", "T_A", "_x", "a.b-c_1", "x_", "é", "Schneehöhe", "水位", "Straße.1", "Темп"]
)
def test_plain_names_are_their_own_ids(name: str) -> None:
    assert ncname(name) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("1a", "_x31_a"),
        ("-a", "_x2D_a"),
        ("a b", "a_x20_b"),
        ("urn:x", "urn_x3A_x"),
        ("°C", "_xB0_C"),
        ("\U0001f30a", "_x1F30A_"),
        ("\u0301a", "_x301_a"),
        ("_xE9_", "_x5F_xE9_"),
        ("\ud800", "_xD800_"),
        ("", "_x5F_"),
    ],
)
def test_other_names_are_spelt_in_hex(text: str, name: str) -> None:
    assert ncname(text) == name


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (21.4, "21.4"),
        (6.9, "6.9"),
        (0.0, "0"),
        (-0.0, "-0"),
        (-3.0, "-3"),
        (1e-5, "1e-05"),
        (0.0001, "0.0001"),
        (1e16, "1e+16"),
        (1e15, "1000000000000000"),
        (0.1 + 0.2, "0.30000000000000004"),
        (5e-324, "5e-324"),
        (float("nan"), "NaN"),
        (float("inf"), "INF"),
        (float("-inf"), "-INF"),
        (np.float64(1.5), "1.5"),
    ],
)
def test_numbers_take_their_shortest_text(value: float, text: str) -> None:
    assert format_number(value) == text


def test_negative_zero_reads_back_as_negative_zero() -> None:
    assert struct.pack("<d", float(format_number(-0.0))) == struct.pack("<d", -0.0)


@pytest.mark.parametrize(
    ("value", "text"),
    [(21.4, "21.4"), (0.0, "0"), (-0.0, "-0.0"), (1e-5, "1e-05"), (float("nan"), "null"), (float("inf"), "null")],
)
def test_json_numbers_are_json(value: float, text: str) -> None:
    assert format_json_number(value) == text


def test_separators_in_text_values_are_percent_encoded() -> None:
    assert swe_token("5%, a@b <c>") == "5%25%2C a%40b &lt;c&gt;"


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("plain", "plain"),
        ("a b", "a b"),
        ("a,b", '"a,b"'),
        ('say "x"', '"say ""x"""'),
        ("two\nlines", '"two\nlines"'),
        (" blank", '" blank"'),
        ("nul\0", "nul\ufffd"),
        ("", ""),
    ],
)
def test_csv_fields_are_quoted_where_needed(text: str, field: str) -> None:
    assert csv_field(text) == field


def test_json_strings_survive_lone_surrogates() -> None:
    assert json_string('a"\\\n\0é\ud800') == '"a\\"\\\\\\n\\u0000é\ufffd"'


@pytest.mark.parametrize(
    ("unit", "attributes", "identifier"),
    [
        ("Cel", 'code="Cel"', "Cel"),
        ("m/s", 'code="m/s"', "m/s"),
        ("°C", 'code="°C"', "°C"),
        ("", 'xlink:href="urn:ogc:def:nil:OGC::unknown"', "urn:ogc:def:nil:OGC::unknown"),
        ("deg C", 'xlink:href="#deg%20C" xlink:title="deg C"', "#deg%20C"),
        ("urn:x:uom:1", 'xlink:href="urn:x:uom:1"', "urn:x:uom:1"),
        (": odd", 'xlink:href="#%3A%20odd" xlink:title=": odd"', "#%3A%20odd"),
    ],
)
def test_units_are_codes_or_references(unit: str, attributes: str, identifier: str) -> None:
    assert uom_attributes(unit) == attributes
    assert uom_identifier(unit) == identifier


def test_point_is_written_in_the_order_asked_for() -> None:
    place = point(8.96, 46.0, 344.1)
    assert gml31(place, "EPSG:4326", False) == (
        '<gml:Point srsName="EPSG:4326"><gml:coordinates>8.96,46,344.1</gml:coordinates></gml:Point>'
    )
    assert gml32(place, "urn:ogc:def:crs:EPSG::4326", True, "p") == (
        '<gml:Point gml:id="p" srsName="urn:ogc:def:crs:EPSG::4326"><gml:pos>46 8.96 344.1</gml:pos></gml:Point>'
    )


RING = ((0.0, 0.0), (2.0, 0.0), (2.0, 1.0), (0.0, 0.0))
GEOMETRIES = [
    Geometry("LineString", ((0.0, 1.0), (2.0, 3.5))),
    Geometry("LineString", ((0.0, 1.0, 5.0), (2.0, 3.5, 6.0))),
    Geometry("Polygon", (RING, ((0.5, 0.2), (1.0, 0.2), (1.0, 0.4), (0.5, 0.2)))),
    Geometry("MultiPoint", ((0.0, 1.0), (2.0, 3.0))),
    Geometry("MultiLineString", (((0.0, 1.0), (2.0, 3.0)), ((4.0, 5.0), (6.0, 7.0)))),
    Geometry("MultiPolygon", ((RING,), (RING,))),
]


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda g: g.type)
def test_every_position_of_a_geometry_is_written_once(geometry: Geometry) -> None:
    namespaces = 'xmlns:gml="g"'
    wanted = [value for position in geometry.positions() for value in (position[1], position[0], *position[2:])]
    for text in (gml31(geometry, "EPSG:4326", True), gml32(geometry, "EPSG:4326", True, "i")):
        root = etree.fromstring(text.replace(" ", f" {namespaces} ", 1))
        found = [float(v) for e in root.iter("{g}pos", "{g}posList") for v in (e.text or "").split()]
        assert found == wanted
    ids = [value for e in root.iter() for key, value in e.attrib.items() if key == "{g}id"]
    assert len(ids) == len(set(ids))


def chunks(*sizes: int) -> Iterator[bytes]:
    for i, size in enumerate(sizes):
        yield bytes([65 + i]) * size


def test_first_piece_of_a_document_waits_for_the_second() -> None:
    pieces = list(in_blocks(chunks(BLOCK_BYTES + 1, 1, BLOCK_BYTES, 3)))
    assert [len(piece) for piece in pieces] == [BLOCK_BYTES + 2, BLOCK_BYTES, 3]
    assert b"".join(pieces) == b"".join(chunks(BLOCK_BYTES + 1, 1, BLOCK_BYTES, 3))


def test_short_documents_come_whole_and_long_ones_in_pieces() -> None:
    assert whole_or_blocks(chunks(5, 5)) == b"AAAAABBBBB"
    long = whole_or_blocks(chunks(5, WHOLE_BYTES, 7, BLOCK_BYTES, 1))
    assert not isinstance(long, bytes)
    assert b"".join(long) == b"".join(chunks(5, WHOLE_BYTES, 7, BLOCK_BYTES, 1))
