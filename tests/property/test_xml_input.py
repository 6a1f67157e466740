"""The one XML parser, whatever it is given: the same tree as another parser's, or a domain error."""

# ruff: noqa: E501 (strategies and documents read better unbroken)

from __future__ import annotations

import time
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from tests.conformance.sos_support import NS20, register_sensor
from tests.fuzz import fragments

from thalweg.domain.errors import InvalidParameter, InvalidRequest, ThalwegError, TooLarge
from thalweg.encode.sensorml.elements import MAX_ITEMS, MAX_TEXT_LENGTH
from thalweg.encode.sensorml.reading import read_sensor
from thalweg.encode.xml_input import parse_document, parse_fragment
from thalweg.services.projection import parse_crs

NAMES = st.sampled_from(("a", "b", "gml:Point", "x", "é"))
PLAIN = st.text(st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="\ufffe\uffff"), max_size=20)


def element(children: st.SearchStrategy[list[ElementTree.Element]]) -> st.SearchStrategy[ElementTree.Element]:
    def make(tag: str, text: str, attributes: dict[str, str], inner: list[ElementTree.Element]) -> ElementTree.Element:
        made = ElementTree.Element(tag.replace("gml:", "{http://www.opengis.net/gml}"), attributes)
        made.text = text
        made.extend(inner)
        return made

    return st.builds(make, NAMES, PLAIN, st.dictionaries(st.sampled_from(("a", "b", "c")), PLAIN, max_size=3), children)


TREES = st.recursive(element(st.just([])), lambda inner: element(st.lists(inner, max_size=4)), max_leaves=12)


def shape(item: ElementTree.Element | etree._Element) -> tuple[object, ...]:
    return item.tag, item.text or "", dict(item.attrib), [shape(child) for child in item]


@given(TREES, st.sampled_from(("utf-8", "utf-16")))
def test_documents_are_read_as_another_parser_does_or_refused(tree: ElementTree.Element, encoding: str) -> None:
    body = ElementTree.tostring(tree, encoding)
    try:
        expected = shape(ElementTree.fromstring(body))  # noqa: S314 (another parser, to compare with)
    except ElementTree.ParseError:
        expected = ()
    try:
        found = shape(parse_document(body))
    except InvalidRequest:
        found = ()
    assert found == expected


@given(st.binary(max_size=200))
def test_any_bytes_are_a_document_or_refused(body: bytes) -> None:
    try:
        parse_document(body)
    except (InvalidRequest, TooLarge) as error:
        assert error.parameter == "request"


@given(
    st.sampled_from(fragments.PROLOGUES),
    st.sampled_from(fragments.ELEMENTS),
    st.sampled_from(("utf-8", "utf-16", "utf-16-le", "utf-32")),
)
def test_hostile_documents_take_no_time_and_bring_in_nothing(prologue: str, inside: str, encoding: str) -> None:
    places = {"listener": "127.0.0.1:9", "secret": "/etc/hostname"}
    text = fragments.fill(prologue + f"<a>&x;{inside}</a>", places)
    started = time.process_time()
    try:
        root = parse_document(text.encode(encoding, "replace"))
    except ThalwegError:
        root = None
    assert time.process_time() - started < 2
    if root is not None:
        assert root.getroottree().docinfo.internalDTD is None


@given(st.integers(1, 40), st.integers(10, 30))
def test_depth_is_bounded_exactly(depth: int, limit: int) -> None:
    body = b"<a>" * depth + b"</a>" * depth
    try:
        parse_document(body, max_depth=limit)
        read = True
    except TooLarge:
        read = False
    assert read == (depth <= limit)


@given(st.text(max_size=80))
def test_fragments_are_one_element_or_refused(text: str) -> None:
    try:
        found = parse_fragment(text, {"gml": "http://www.opengis.net/gml"})
    except (InvalidRequest, TooLarge):
        return
    assert isinstance(found.tag, str)


SENSOR20 = (
    f'<sml:PhysicalSystem {NS20} gml:id="s"><gml:identifier codeSpace="uniqueID">urn:s</gml:identifier><sml:keywords>'
    "<sml:KeywordList><sml:keyword>k</sml:keyword></sml:KeywordList></sml:keywords><sml:capabilities name='c'>"
    "<sml:CapabilityList><sml:capability name='x'><swe:Quantity definition='urn:d'><swe:uom code='m'/><swe:value>1</swe:value>"
    "</swe:Quantity></sml:capability></sml:CapabilityList></sml:capabilities><sml:outputs><sml:OutputList><sml:output name='t'>"
    "<swe:Quantity definition='urn:t'><swe:uom code='Cel'/><swe:constraint><swe:AllowedValues><swe:interval>-40 50"
    "</swe:interval></swe:AllowedValues></swe:constraint></swe:Quantity></sml:output></sml:OutputList></sml:outputs>"
    "<sml:position><gml:Point srsName='EPSG:4326'><gml:pos>8.9 46</gml:pos></gml:Point></sml:position></sml:PhysicalSystem>"
)
TEXTS = st.one_of(PLAIN, st.sampled_from(fragments.NUMBERS + fragments.TIMES + fragments.INJECTIONS)).map(
    lambda text: "".join(c for c in text if c.isprintable())[:3000]
)


@given(st.data())
def test_descriptions_of_sensors_are_read_or_refused(data: st.DataObject) -> None:
    root = etree.fromstring(data.draw(st.sampled_from((SENSOR20, register_sensor("A")))).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        elements = list(root.iter())
        one = data.draw(st.sampled_from(elements))
        way = data.draw(st.integers(0, 4))
        parent = one.getparent()
        if way == 0:
            one.text = data.draw(TEXTS)
        elif way == 1 and one.attrib:
            one.set(data.draw(st.sampled_from(sorted(one.attrib))), data.draw(TEXTS))
        elif way == 2 and parent is not None:
            parent.remove(one)
        elif way == 3:
            one.append(etree.fromstring(etree.tostring(data.draw(st.sampled_from(elements)))))
        else:
            one.tag = data.draw(st.sampled_from(elements)).tag
    started = time.process_time()
    try:
        document = read_sensor(parse_document(etree.tostring(root)), parse_crs=parse_crs)
    except InvalidParameter as error:
        assert error.message
        return
    except TooLarge:
        return
    assert time.process_time() - started < 2
    assert len(document.identifier) <= MAX_TEXT_LENGTH
    assert len(document.description.keywords) <= MAX_ITEMS
