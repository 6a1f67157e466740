"""What the SOS door reads, whatever it is given: values come out as they went in, or a domain error names what is wrong."""

# ruff: noqa: E501 (strategies and documents read better unbroken)

from __future__ import annotations

import math
from urllib.parse import quote_plus, urlencode

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from lxml import etree
from tests.conformance.sos_support import NS10, NS20, insert_observation, register_sensor
from tests.fuzz import fragments, sos
from tests.property.hostile import Within, outcome
from tests.unit.sos_network import network

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.geometry import Envelope, Geometry
from thalweg.domain.time import END_US, MIN_US, format_instant
from thalweg.doors.sos import kvp, pox
from thalweg.doors.sos.filters import MAX_NESTING, read_geometry, spatial_filter
from thalweg.doors.sos.places_input import feature_of
from thalweg.doors.sos.swe_input import read_result
from thalweg.doors.sos.times import event_time, temporal_filter, time_object
from thalweg.encode.xml_input import parse_document

TEXTS = st.one_of(
    st.text(max_size=30), st.sampled_from(fragments.ALL), st.sampled_from(sos.DOOR.words),
    st.tuples(st.sampled_from(fragments.ALL), st.sampled_from(sos.DOOR.words)).map("".join),
)  # fmt: skip
XML_TEXTS = TEXTS.map(lambda text: "".join(c for c in text if c.isprintable() or c in "\n\t")[:5000])


# ---------------------------------------------------------------- key-value pairs

PAIRS = st.dictionaries(
    st.one_of(st.sampled_from([w for w in sos.DOOR.words if w.isalpha()]), st.text(min_size=1, max_size=10)),
    TEXTS,
    max_size=8,
)


@given(PAIRS, st.sampled_from([("GetObservation", "1.0.0"), ("GetObservation", "2.0.0"), ("GetCapabilities", ""), ("DescribeSensor", "2.0.0"),
                               ("GetFeatureOfInterest", "2.0.0"), ("GetObservationById", "1.0.0")]))  # fmt: skip
def test_pairs_are_read_or_refused_and_alike_by_both_ways(pairs: dict[str, str], asked: tuple[str, str]) -> None:
    """The way that remembers requests but for their time says what the plain way says."""
    given_all = {**pairs, "service": "SOS", "request": asked[0], **({"version": asked[1]} if asked[1] else {})}
    query = "&".join(
        f"{quote_plus(k, errors='surrogatepass')}={quote_plus(v, errors='surrogatepass')}" for k, v in given_all.items()
    ).encode()
    with Within():
        plain = outcome(lambda: kvp.parse(kvp.parse_query(query), 4326))
        for _ in range(2):
            assert outcome(kvp.parse_text, query, 4326) == plain


@given(st.binary(max_size=300))
def test_any_bytes_are_a_query_or_refused(query: bytes) -> None:
    found = outcome(kvp.parse_query, query)
    if found[0] == "given":
        assert all(name == name.lower() for name in found[1])
        assert len(found[1]) <= kvp.MAX_PARAMETERS


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=50), max_size=20))
def test_what_a_browser_encodes_comes_out_as_it_was(pairs: dict[str, str]) -> None:
    lowered = {name.strip().lower(): value for name, value in pairs.items()}
    assume(len(lowered) == len(pairs))
    assume(not any("\ud800" <= c <= "\udfff" for text in (*pairs, *pairs.values()) for c in text))
    assert kvp.parse_query(urlencode(pairs).encode()) == lowered


# ---------------------------------------------------------------- documents

DOCUMENTS = [
    register_sensor("A"),
    insert_observation("x", "A", "2014-08-01T00:00:00Z,1,2", begin="2014-08-01", end="2014-08-02"),
    *(row.send(type("T", (), {"keys": {}})(), 1).body.decode() for row in sos.DOOR.seeds[:8]),  # type: ignore[arg-type]
]


@given(st.data())
def test_documents_are_read_or_refused(data: st.DataObject) -> None:
    """One part of a valid request is another: an element left out, doubled, renamed, moved, its text or attribute changed."""
    root = etree.fromstring(data.draw(st.sampled_from(DOCUMENTS)).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        elements = list(root.iter())
        element = data.draw(st.sampled_from(elements))
        parent = element.getparent()
        way = data.draw(st.integers(0, 5))
        if way == 0:
            element.text = data.draw(XML_TEXTS)
        elif way == 1 and element.attrib:
            element.set(data.draw(st.sampled_from(sorted(element.attrib))), data.draw(XML_TEXTS))
        elif way == 2 and parent is not None:
            parent.remove(element)
        elif way == 3 and parent is not None:
            parent.append(etree.fromstring(etree.tostring(element)))
        elif way == 4:
            element.tag = data.draw(st.sampled_from(elements)).tag
        else:
            element.append(etree.fromstring(etree.tostring(data.draw(st.sampled_from(elements)))))
    body = etree.tostring(root)
    assume(len(body) < 200_000)
    with Within():
        outcome(lambda: pox.parse(parse_document(body), 4326))


# ---------------------------------------------------------------- times


@given(TEXTS)
def test_times_are_read_or_refused(text: str) -> None:
    """What is read is a set of half-open intervals within the storable years, or a word of two."""
    for read, parameter in ((event_time, "eventTime"), (temporal_filter, "temporalFilter")):
        with Within():
            found = outcome(read, text if parameter == "eventTime" else f"om:phenomenonTime,{text}")
        if found[0] == "refused":
            assert found[3] == parameter
            continue
        for interval in (*(found[1].phenomenon or ()), *(found[1].result or ())):
            assert MIN_US <= interval.begin_us <= interval.end_us <= END_US
        assert abs(found[1].offset_s) < 86_400


@given(st.integers(MIN_US, END_US - 1), st.integers(0, 10**15), st.sampled_from((0, 3600, -18_000, 20_700)))
def test_periods_hold_their_ends_as_each_version_says(begin: int, length: int, offset_s: int) -> None:
    end = min(begin + length, END_US - 1)
    # Whole milliseconds: what stations write.
    begin, end = begin // 1000 * 1000, end // 1000 * 1000
    assume(begin >= MIN_US)
    text = f"{format_instant(begin, offset_s)}/{format_instant(end, offset_s)}"
    (first,) = event_time(text).phenomenon or ()
    (second,) = temporal_filter(f"phenomenonTime,{text}").phenomenon or ()
    assert (second.begin_us, second.end_us) == (begin, end + 1)
    # (begin, end] in 1.0; a period without length is its instant.
    assert (first.begin_us, first.end_us) == (begin + (begin < end), end + 1)


@given(XML_TEXTS, XML_TEXTS, st.sampled_from(("TimePeriod", "TimeInstant", "TimeNode")))
def test_time_objects_are_read_or_refused(begin: str, end: str, kind: str) -> None:
    element = etree.Element(f"{{http://www.opengis.net/gml}}{kind}")
    for name, text in (("beginPosition", begin), ("endPosition", end), ("timePosition", begin)):
        etree.SubElement(element, f"{{http://www.opengis.net/gml}}{name}").text = text
    found = outcome(time_object, element, "eventTime")
    if found[0] == "given":
        first, last, _ = found[1]
        assert first is None or last is None or first <= last


# ---------------------------------------------------------------- places

GML = "http://www.opengis.net/gml"
NUMBERS = st.floats(-1e6, 1e6).map(lambda x: round(x, 6) + 0.0)
POSITIONS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=30)


def line(positions: list[tuple[float, float]], srs: str = "EPSG:4326", tag: str = "LineString") -> etree._Element:
    element = etree.Element(f"{{{GML}}}{tag}", srsName=srs)
    etree.SubElement(element, f"{{{GML}}}posList").text = " ".join(f"{x!r} {y!r}" for x, y in positions)
    return element


@given(POSITIONS)
def test_geometries_come_out_as_they_were_written(positions: list[tuple[float, float]]) -> None:
    """East first under the short name, turned under the authority's."""
    plain = read_geometry(line(positions), "place", 4326)
    turned = read_geometry(
        line([(y, x) for x, y in positions], "http://www.opengis.net/def/crs/EPSG/0/4326"), "place", 4326
    )
    assert isinstance(plain, Geometry)
    assert isinstance(turned, Geometry)
    assert plain.coordinates == turned.coordinates == tuple(positions)
    text = " ".join(f"{x!r},{y!r}" for x, y in positions)
    old = etree.Element(f"{{{GML}}}LineString", srsName="EPSG:4326")
    etree.SubElement(old, f"{{{GML}}}coordinates").text = text
    assert read_geometry(old, "place", 4326) == plain


@given(st.lists(st.one_of(NUMBERS.map(repr), st.sampled_from(fragments.NUMBERS)), max_size=12), st.sampled_from(
    ("Point", "LineString", "Polygon", "Envelope", "MultiPoint", "Curve", "Arc", "Box")), XML_TEXTS)  # fmt: skip
@example(["nan", "1"], "Point", "EPSG:4326")
def test_odd_geometries_are_read_or_refused(numbers: list[str], kind: str, srs: str) -> None:
    element = etree.Element(f"{{{GML}}}{kind}", srsName=srs)
    holder = element
    if kind == "Polygon":
        holder = etree.SubElement(etree.SubElement(element, f"{{{GML}}}exterior"), f"{{{GML}}}LinearRing")
    elif kind == "MultiPoint":
        holder = etree.SubElement(etree.SubElement(element, f"{{{GML}}}pointMember"), f"{{{GML}}}Point")
    name = {"Point": "pos", "MultiPoint": "pos", "Envelope": "lowerCorner", "Box": "coordinates"}.get(kind, "posList")
    etree.SubElement(holder, f"{{{GML}}}{name}").text = " ".join(numbers)
    with Within():
        found = outcome(read_geometry, element, "place", 4326)
    if found[0] == "given":
        geometry = found[1]
        positions = [(geometry.min_x, geometry.min_y)] if isinstance(geometry, Envelope) else list(geometry.positions())
        assert positions
        assert all(math.isfinite(value) for position in positions for value in position)


@given(st.integers(1, 120))
def test_nesting_of_geometries_is_bounded(depth: int) -> None:
    element = line([(0, 0), (1, 1)])
    for _ in range(depth):
        outer = etree.Element(f"{{{GML}}}Curve")
        etree.SubElement(outer, f"{{{GML}}}segments").append(element)
        element.tag = f"{{{GML}}}LineStringSegment"
        element = outer
    found = outcome(read_geometry, element, "place", 4326)
    if found[0] == "given":
        assert depth <= MAX_NESTING


@given(st.lists(st.one_of(NUMBERS.map(repr), TEXTS), min_size=0, max_size=7).map(",".join))
def test_spatial_filters_are_boxes_with_finite_corners_or_refused(text: str) -> None:
    found = outcome(spatial_filter, f"om:featureOfInterest/*/sams:shape,{text}", 4326)
    if found[0] == "given":
        box = found[1].geometry
        assert box.min_x <= box.max_x
        assert box.min_y <= box.max_y
        assert all(map(math.isfinite, (box.min_x, box.min_y, box.max_x, box.max_y)))
    else:
        assert found[3] in ("spatialFilter", "ValueReference")


@given(XML_TEXTS, XML_TEXTS, XML_TEXTS)
def test_described_features_are_read_or_refused(name: str, place: str, href: str) -> None:
    """A new feature has an identifier that schemas take for a URI, and a name fit for a path."""
    document = etree.fromstring(
        f"<om:featureOfInterest {NS10}><gml:FeatureCollection><gml:name/><gml:location><gml:Point srsName='EPSG:4326'>"
        "<gml:coordinates/></gml:Point></gml:location></gml:FeatureCollection></om:featureOfInterest>"
    )
    document.set("{http://www.w3.org/1999/xlink}href", href)
    document.find(f".//{{{GML}}}name").text = name  # type: ignore[union-attr]
    document.find(f".//{{{GML}}}coordinates").text = place  # type: ignore[union-attr]
    found = outcome(feature_of, document, network())
    if found[0] == "given":
        feature = found[1]
        assert feature.identifier
        assert not any(c.isspace() or c in '<>"' for c in feature.identifier)
        assert feature.name
        assert "/" not in feature.name


# ---------------------------------------------------------------- SWE text

TOKENS = st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp"), exclude_characters=",@;#|"),
    min_size=1,
    max_size=12,
)


def array(width: int, text: str, token: str = ",", block: str = "@") -> etree._Element:
    fields = "".join(f'<swe:field name="f{i}"><swe:Text definition="urn:f{i}"/></swe:field>' for i in range(width))
    element = etree.fromstring(
        f"<swe:DataArray {NS20}><swe:elementType name='r'><swe:DataRecord>{fields}</swe:DataRecord></swe:elementType>"
        "<swe:encoding><swe:TextEncoding/></swe:encoding><swe:values/></swe:DataArray>"
    )
    encoding = element[1][0]
    encoding.set("tokenSeparator", token)
    encoding.set("blockSeparator", block)
    element[2].text = text
    return element


@given(st.integers(1, 6).flatmap(lambda n: st.lists(st.lists(TOKENS, min_size=n, max_size=n), min_size=1, max_size=20)),
       st.sampled_from(((",", "@"), (";", "#"), ("||", "@@"))))  # fmt: skip
def test_a_table_of_texts_comes_out_as_it_was_written(rows: list[list[str]], separators: tuple[str, str]) -> None:
    token, block = separators
    text = block.join(token.join(row) for row in rows)
    found = read_result(array(len(rows[0]), text, token, block), max_values=1000)
    assert [list(row) for row in found.rows] == rows


@given(st.integers(1, 5), XML_TEXTS, XML_TEXTS, XML_TEXTS)
def test_odd_tables_are_as_wide_as_their_fields_or_refused(width: int, text: str, token: str, block: str) -> None:
    with Within():
        found = outcome(lambda: read_result(array(width, text, token, block), max_values=100))
    if found[0] == "given":
        assert all(len(row) == width for row in found[1].rows)
        assert len(found[1].rows) * width <= 100 + width
    else:
        assert found[3] in ("result", "request")


def test_separators_that_are_none_are_refused() -> None:
    for token, block in (("", "@"), (",", ""), ("@", "@")):
        with pytest.raises(InvalidParameter):
            read_result(array(1, "a", token, block), max_values=10)
