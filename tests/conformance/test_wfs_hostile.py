"""Hostile and broken requests: an exception of the protocol, quickly, never a failure of the server, and no effect."""

from __future__ import annotations

import time
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from tests.conformance.door_support import Validator
from tests.conformance.wfs_support import ADMIN, NS1, NS20, READER, WRITER, Wfs, small

pytestmark = pytest.mark.fuzz


@pytest.fixture(scope="module")
def wfs(tmp_path_factory: pytest.TempPathFactory, schemas: Validator) -> Iterator[Wfs]:
    made = small(Wfs(tmp_path_factory.mktemp("hostile"), schemas))
    yield made
    made.close()


@pytest.fixture(autouse=True)
def nothing_changes_and_nothing_takes_long(wfs: Wfs) -> Iterator[None]:
    def state() -> list[object]:
        layers = wfs.services.features.layers(wfs.catalogue, ADMIN)
        return [(layer, wfs.services.features.state(layer)) for layer in layers]

    before = state()
    begin = time.process_time()
    yield
    assert time.process_time() - begin < 5
    assert state() == before


ATTACKS = [
    "'",
    '"',
    "' OR '1'='1",
    "'; DROP TABLE layer; --",
    "x') UNION SELECT * FROM user --",
    "\\",
    "%27",
    "\x00",
    "a\x00b",
    "\ud7ff",
    "\U0010ffff",
    "${jndi:ldap://x}",
    "../../etc/passwd",
    "<script>",
    "]]>",
    "&xxe;",
    "x" * 10_000,
    "exec(java.lang.Runtime.getRuntime(),'id')",
    "{{7*7}}",
    "\u202e",
    "\n\r",
    "1e999",
    "-0",
    "NaN",
]


@pytest.mark.parametrize("attack", ATTACKS, ids=range(len(ATTACKS)))
@pytest.mark.parametrize(
    "parameter",
    [
        "typeNames",
        "propertyName",
        "sortBy",
        "resourceId",
        "cql_filter",
        "filter",
        "bbox",
        "srsName",
        "count",
        "startIndex",
        "outputFormat",
        "resultType",
        "namespaces",
        "aliases",
        "format_options",
        "exceptions",
        "filter_language",
        "foo",
        "version",
        "storedQuery_id",
    ],
)
def test_odd_values_of_every_parameter(wfs: Wfs, parameter: str, attack: str) -> None:
    parameters = {"service": "WFS", "version": "2.0.0", "request": "GetFeature", "typeNames": "tw:towns"}
    answer = wfs.get(**(parameters | {parameter: attack}))
    assert answer.status in (200, 400, 404, 413, 501)
    if answer.status == 200 and parameter == "resourceId" and attack.strip():
        assert answer.ids == []


@pytest.mark.parametrize("attack", ATTACKS, ids=range(len(ATTACKS)))
def test_literals_and_patterns_are_values(wfs: Wfs, attack: str) -> None:
    """As literal of a comparison, as pattern, as escape signs: nothing matches, and nothing breaks."""
    from thalweg.encode.xmltext import attribute, escape

    text, sign = escape(attack), attribute(attack[:1])
    for condition in (
        (
            f"<fes:PropertyIsEqualTo><fes:ValueReference>name</fes:ValueReference><fes:Literal>{text}</fes:Literal>"
            "</fes:PropertyIsEqualTo>"
        ),
        f'<fes:PropertyIsLike wildCard="*" singleChar="{sign}" escapeChar="!"><fes:ValueReference>name'
        "</fes:ValueReference>"
        f"<fes:Literal>{text}</fes:Literal></fes:PropertyIsLike>",
    ):
        answer = wfs.filtered("tw:towns", condition)
        assert answer.status in (200, 400, 413)
        if answer.status == 200 and len(attack) > 3:
            assert answer.ids == [], condition


@pytest.mark.parametrize("attack", ATTACKS, ids=range(len(ATTACKS)))
def test_names_are_looked_up_never_evaluated(wfs: Wfs, attack: str) -> None:
    from thalweg.encode.xmltext import attribute, escape

    for body in (
        f'<wfs:GetFeature {NS20} service="WFS" version="2.0.0"><wfs:Query typeNames="tw:towns"><fes:Filter>'
        "<fes:PropertyIsNull>"
        f"<fes:ValueReference>{escape(attack)}</fes:ValueReference></fes:PropertyIsNull></fes:Filter></wfs:Query>"
        "</wfs:GetFeature>",
        (
            f'<wfs:GetFeature {NS20} service="WFS" version="2.0.0"><wfs:Query typeNames="{attribute(attack)}"/>'
            "</wfs:GetFeature>"
        ),
        f'<wfs:GetPropertyValue {NS20} service="WFS" version="2.0.0" valueReference="{attribute(attack)}"><wfs:Query '
        'typeNames="tw:towns"/></wfs:GetPropertyValue>',
        f'<wfs:Transaction {NS20} service="WFS" version="2.0.0"><wfs:Update typeName="tw:towns"><wfs:Property>'
        f"<wfs:ValueReference>{escape(attack)}</wfs:ValueReference><wfs:Value>1</wfs:Value></wfs:Property></wfs:Update>"
        "</wfs:Transaction>",
        f'<wfs:DropStoredQuery {NS20} service="WFS" version="2.0.0" id="{attribute(attack)}"/>',
    ):
        # With blanks in it, a list of types is a join of too many.
        assert wfs.post(body, WRITER).status in (400, 404, 413), body[:200]


def nested(depth: int, opening: str, closing: str, inside: str) -> str:
    return opening * depth + inside + closing * depth


NULL = "<fes:PropertyIsNull><fes:ValueReference>name</fes:ValueReference></fes:PropertyIsNull>"


@pytest.mark.parametrize("depth", [50, 90, 200, 5_000])
def test_deep_filters(wfs: Wfs, depth: int) -> None:
    answer = wfs.filtered("tw:towns", nested(depth, "<fes:Not>", "</fes:Not>", NULL))
    assert answer.status == (200 if depth == 50 else 413 if depth in (90, 200) or answer.status == 413 else 400)
    text = wfs.features("towns", cql_filter=nested(min(depth, 1500), "(", ")", "name IS NULL"))
    assert text.status in (200, 400, 413)
    negated = wfs.features("towns", cql_filter="NOT " * min(depth, 1500) + "name IS NULL")
    assert negated.status in (200, 400, 413)


def test_wide_filters(wfs: Wfs) -> None:
    many = "".join(
        (
            f"<fes:PropertyIsEqualTo><fes:ValueReference>name</fes:ValueReference><fes:Literal>{i}</fes:Literal>"
            "</fes:PropertyIsEqualTo>"
        )
        for i in range(3000)
    )
    assert wfs.filtered("tw:towns", f"<fes:Or>{many}</fes:Or>").status in (200, 413)
    assert wfs.filtered("tw:towns", f"<fes:Or>{many * 5}</fes:Or>").status == 413
    ids = "".join(f'<fes:ResourceId rid="towns.{i}"/>' for i in range(9_000))
    assert len(wfs.filtered("tw:towns", ids).ids) == 5
    assert wfs.features("towns", cql_filter=f"population IN ({','.join(map(str, range(3_000)))})").ids == ["towns.5"]


@pytest.mark.parametrize(
    "geometry",
    [
        "<gml:MultiGeometry>" * 90 + "</gml:MultiGeometry>" * 90,
        "<gml:Point><gml:pos>" + "1 " * 100_000 + "</gml:pos></gml:Point>",
        "<gml:Point><gml:pos>1e400 2</gml:pos></gml:Point>",
        "<gml:Point><gml:pos>nan nan</gml:pos></gml:Point>",
        "<gml:Point/>",
        "<gml:LineString><gml:posList>1 2</gml:posList></gml:LineString>",
        "<gml:LineString><gml:posList>1 2 3</gml:posList></gml:LineString>",
        "<gml:Polygon><gml:exterior/></gml:Polygon>",
        (
            "<gml:Polygon><gml:exterior><gml:LinearRing><gml:posList>0 0 1 1 2 2</gml:posList></gml:LinearRing>"
            "</gml:exterior></gml:Polygon>"
        ),
        "<gml:Envelope><gml:lowerCorner>1 2</gml:lowerCorner></gml:Envelope>",
        "<gml:Point srsName='+proj=longlat'><gml:pos>1 2</gml:pos></gml:Point>",
        "<gml:Point srsDimension='99'><gml:pos>1 2</gml:pos></gml:Point>",
        "<gml:Point xlink:href='file:///etc/passwd' xmlns:xlink='http://www.w3.org/1999/xlink'/>",
    ],
    ids=range(13),
)
def test_geometries_that_are_none(wfs: Wfs, geometry: str) -> None:
    condition = f"<fes:Intersects><fes:ValueReference>place</fes:ValueReference>{geometry}</fes:Intersects>"
    asked = wfs.filtered("tw:towns", condition)
    # Those that are empty meet nothing.
    assert asked.status in (400, 413) or asked.ids == []
    answer = wfs.transaction(f"<wfs:Insert><tw:towns><tw:place>{geometry}</tw:place></tw:towns></wfs:Insert>")
    assert answer.status in (400, 413)


def test_a_bow_tie_is_asked_without_a_failure(wfs: Wfs) -> None:
    bow_tie = (
        "<gml:Polygon srsName='EPSG:4326'><gml:exterior><gml:LinearRing><gml:posList>9 47 10 48 10 47 9 48 9 47"
        "</gml:posList>"
        "</gml:LinearRing></gml:exterior></gml:Polygon>"
    )
    for operator in ("Intersects", "Within", "Contains", "Touches", "Crosses", "Overlaps", "Equals", "Disjoint"):
        condition = f"<fes:{operator}><fes:ValueReference>place</fes:ValueReference>{bow_tie}</fes:{operator}>"
        assert wfs.filtered("tw:towns", condition).status in (200, 400), operator


@pytest.mark.parametrize(
    "text",
    [
        "POINT(1",
        "POLYGON((0 0, 1 1))",
        "GEOMETRYCOLLECTION(" * 3000,
        "POINT(1 2 3 4 5)",
        "LINESTRING EMPTY",
        "CIRCULARSTRING(0 0, 1 1, 2 0)",
    ],
)
def test_broken_wkt(wfs: Wfs, text: str) -> None:
    assert wfs.features("towns", cql_filter=f"INTERSECTS(place, {text})").status in (200, 400, 413)


@pytest.mark.parametrize(
    "body",
    [
        b"", b" ", b"<", b"<a", b"not xml at all", b"\x00\x01\x02", b"<?xml version='1.0'?>",
        b"<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><a>&x;</a>",
        b"<!DOCTYPE a [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;'>]><a>&b;</a>",
        b'<?xml version="1.0" encoding="UTF-7"?><a/>',
        b"<GetFeature xmlns='http://www.opengis.net/wfs/2.0' service='WFS' version='2.0.0'>",
        b"<GetFeature xmlns='http://example.org/' service='WFS' version='2.0.0'/>",
        b"<GetFeature service='WFS' version='2.0.0'/>",
        b"<a:GetFeature service='WFS'/>",
        b"<GetFeature xmlns='http://www.opengis.net/wfs' service='WFS' version='2.0.0'/>",
        b"<Nothing xmlns='http://www.opengis.net/wfs/2.0' service='WFS' version='2.0.0'/>",
        b"<s:Envelope xmlns:s='http://www.w3.org/2003/05/soap-envelope'/>",
        b"<s:Envelope xmlns:s='http://www.w3.org/2003/05/soap-envelope'><s:Body/></s:Envelope>",
        b"<s:Envelope xmlns:s='http://www.w3.org/2003/05/soap-envelope'><s:Header><x s:mustUnderstand='true'/>"
        b"</s:Header>"
        b"<s:Body><a/></s:Body></s:Envelope>",
        b"<a>" * 5000, b"<a>" * 90 + b"</a>" * 90,
    ],
    ids=range(21),
)  # fmt: skip
def test_broken_bodies(wfs: Wfs, body: bytes) -> None:
    answer = wfs.post(body, READER)
    assert answer.exception
    assert answer.status in ((200,) if b"opengis.net/wfs'" in body else (400, 413, 501)), answer.body
    assert wfs.post(body, READER, "application/x-www-form-urlencoded").exception


@pytest.mark.parametrize(
    "query",
    [
        "",
        "service=WFS",
        "&&&",
        "=",
        "service=WFS&service=WMS&request=GetFeature",
        "service=WFS&request=GetFeature&version=2.0.0&typeNames=%FF",
        "service=WFS&request=GetFeature&version=2.0.0&typeNames=" + quote("\ufffe"),
        "a=b&" * 500,
        "service=WFS&request=" + "x" * 9000,
        "service=WFS&version=2.0.0&request=GetFeature&typeNames=(((",
        "service=WFS&version=2.0.0&request=GetFeature&typeNames=)",
        "service=WFS&version=2.0.0&request=GetFeature&typeNames=()()",
        "service=WFS&version=2.0.0&request=GetFeature&typeNames=,,",
        "service=WFS&version=2.0.0&request=GetFeature&typeNames=" + "towns," * 2000,
        "service=WFS&version=2.0.0&request=GetFeature&typeNames=towns&sortBy=" + "name," * 2000 + "name",
        "service=WFS&version=2.0.0&request=GetFeature&typeNames=towns&filter=" + quote("<" * 3000),
        "service=WFS&version=2.0.0&request=GetFeature&typeNames=towns&namespaces=" + quote("xmlns(" * 1000),
    ],
    ids=range(17),
)
def test_broken_queries(wfs: Wfs, query: str) -> None:
    assert wfs.raw(query).status in (400, 501, 413)


def test_many_queries_and_properties(wfs: Wfs) -> None:
    assert wfs.features(",".join(["towns"] * 101)).exception == ("InvalidParameterValue", "typeNames")
    many = wfs.features(",".join(["notes"] * 100))
    assert (many.returned, many.ids) == (200, ["notes.1", "notes.2"])
    queries = '<wfs:Query typeNames="tw:notes"/>' * 101
    body = f'<wfs:GetFeature {NS20} service="WFS" version="2.0.0">{queries}</wfs:GetFeature>'
    assert wfs.post(body, READER).exception == ("InvalidParameterValue", "Query")
    assert wfs.features("towns", propertyName=",".join(["name"] * 1001)).exception[1] == "propertyName"


def test_undeclared_and_lying_prefixes(wfs: Wfs) -> None:
    for text in (
        "<a:Filter><a:PropertyIsNull><a:ValueReference>b:name</a:ValueReference></a:PropertyIsNull></a:Filter>",
        "<Filter xmlns='urn:nonsense'><PropertyIsNull><ValueReference>name</ValueReference></PropertyIsNull></Filter>",
    ):
        assert wfs.features("towns", filter=text).ids == ["towns.5"]
    for text in ("<a></a><b></b>", "<x:Filter><y:Oops/></x:Filter>", "<Filter/>", "text", "<Filter>&amp;</Filter>"):
        assert wfs.features("towns", filter=text).exception[0] == "InvalidParameterValue"


def test_characters_that_xml_forbids_come_out_as_something_else(wfs: Wfs) -> None:
    answer = wfs.features("a\x01b\ufffe")
    assert answer.exception[0] == "InvalidParameterValue"
    assert b"\x01" not in answer.body


def test_many_actions_and_values(wfs: Wfs) -> None:
    big = (
        "<wfs:Insert>"
        + "<tw:towns><tw:name>x</tw:name></tw:towns>" * 20
        + "<tw:towns><tw:nothing/></tw:towns></wfs:Insert>"
    )
    assert wfs.transaction(big).exception[0] == "InvalidValue"
    same = (
        '<wfs:Delete typeName="tw:towns"><fes:Filter><fes:ResourceId rid="towns.99"/></fes:Filter></wfs:Delete>' * 500
    )
    assert wfs.transaction(same + '<wfs:Native vendorId="x" safeToIgnore="false"/>').status == 501


def test_a_join_of_everything_with_everything_is_bounded(wfs: Wfs) -> None:
    types = ",".join(["tw:towns"] * 6)
    answer = wfs.features(f"({types})", aliases="(a,b,c,d,e,f)", filter=f"<fes:Filter>{NULL}</fes:Filter>")
    assert answer.status == 413
    five = wfs.features(
        "(tw:towns,tw:towns,tw:towns,tw:towns,tw:towns)", aliases="(a,b,c,d,e)", count="10",
        filter="<fes:Filter><fes:PropertyIsGreaterThan><fes:ValueReference>a/population</fes:ValueReference>"
               "<fes:Literal>0"
        "</fes:Literal></fes:PropertyIsGreaterThan></fes:Filter>",
    )  # fmt: skip
    assert five.returned == 10


def test_old_requests_of_the_wrong_namespace(wfs: Wfs) -> None:
    body = f'<wfs:GetFeature {NS1} service="WFS" version="2.0.0"><wfs:Query typeName="tw:towns"/></wfs:GetFeature>'
    assert wfs.post(body).exception == ("InvalidParameterValue", "version")
