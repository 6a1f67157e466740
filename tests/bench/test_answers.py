"""Answers of different servers and formats decoded to the same facts; expected facts are written by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from thalweg.bench.answers import decode, difference, same_answers
from thalweg.bench.errors import BenchError, DoorMissing
from thalweg.bench.requests import Request
from thalweg.bench.sos import Sensor, Service, check, common, read_capabilities

P = "urn:ogc:def:parameter:x-istsos:1.0:"
RAIN, TEMP = P + "meteo:air:rainfall", P + "meteo:air:temperature"
AT, NEXT = 1_417_392_600_000_000, 1_417_393_200_000_000
"""2014-12-01T00:10:00Z and ten minutes later."""
FACTS = {("P1", TEMP, AT): 4.2, ("P1", RAIN, AT): 0.0, ("P1", TEMP, NEXT): 3.6, ("P1", RAIN, NEXT): 0.5}

OM10 = f"""<om:ObservationCollection xmlns:om="http://www.opengis.net/om/1.0" xmlns:swe="http://www.opengis.net/swe/1.0.1"
 xmlns:xlink="http://www.w3.org/1999/xlink"><om:member><om:Observation>
 <om:procedure xlink:href="urn:ogc:def:procedure:x-istsos:1.0:P1"/><om:result><swe:DataArray>
 <swe:elementType><swe:DataRecord>
 <swe:field name="Time"><swe:Time definition="{P}time:iso8601"/></swe:field>
 <swe:field name="t"><swe:Quantity definition="{TEMP}"/></swe:field>
 <swe:field name="r"><swe:Quantity definition="{RAIN}"/></swe:field></swe:DataRecord></swe:elementType>
 <swe:encoding><swe:TextBlock tokenSeparator="," blockSeparator="@" decimalSeparator="."/></swe:encoding>
 <swe:values>2014-12-01T01:10:00+01:00,4.20,0@2014-12-01T01:20:00.000000+01:00,3.6,5e-1</swe:values>
 </swe:DataArray></om:result></om:Observation></om:member></om:ObservationCollection>"""


def om20(procedure: str, rows: list[tuple[str, str, str]]) -> str:
    members = "".join(
        f"<sos:observationData><om:OM_Observation><om:phenomenonTime><gml:TimeInstant><gml:timePosition>{at}"
        f'</gml:timePosition></gml:TimeInstant></om:phenomenonTime><om:procedure xlink:href="{procedure}"/>'
        f'<om:observedProperty xlink:href="{observed}"/><om:result>{value}</om:result></om:OM_Observation>'
        "</sos:observationData>"
        for at, observed, value in rows
    )
    return (
        '<sos:GetObservationResponse xmlns:sos="http://www.opengis.net/sos/2.0" xmlns:om="http://www.opengis.net/om/2.0"'
        f' xmlns:gml="http://www.opengis.net/gml/3.2" xmlns:xlink="http://www.w3.org/1999/xlink">{members}'
        "</sos:GetObservationResponse>"
    )


OM20 = om20(
    "http://server/procedure/P1",
    [
        ("2014-12-01T00:10:00Z", TEMP, "4.2"), ("2014-12-01T00:20:00Z", TEMP, "3.6"),
        ("2014-12-01T00:10:00Z", RAIN, "0"), ("2014-12-01T00:20:00Z", RAIN, "0.50"),
    ],
)  # fmt: skip
CSV = (
    f"{P}time:iso8601,urn:ogc:def:procedure,{TEMP},{RAIN}\r\n"
    "2014-12-01T00:10:00Z,P1,4.2,0\r\n2014-12-01T00:20:00Z,P1,3.6,0.5\r\n"
)


@pytest.mark.parametrize(
    ("body", "kind"),
    [(OM10, 'text/xml;subtype="om/1.0.0"'), (OM20, "application/xml"), (CSV, "text/csv")],
    ids=["O&M 1.0", "O&M 2.0", "CSV"],
)
def test_observations_of_any_format_are_the_same_facts(body: str, kind: str) -> None:
    assert decode(body.encode(), kind) == FACTS


def test_difference_names_what_is_missing_more_and_other() -> None:
    assert difference(FACTS, dict(FACTS)) == ""
    changed = dict(FACTS)
    del changed["P1", RAIN, AT]
    changed["P1", TEMP, NEXT] = 3.7
    changed["P2", TEMP, AT] = 1.0
    told = difference(FACTS, changed)
    assert "1 missing" in told
    assert "1 more" in told
    assert "1 different" in told
    assert len(difference(dict.fromkeys(range(9999), 1), {})) < 400


GML2 = """<wfs:FeatureCollection xmlns:wfs="http://www.opengis.net/wfs" xmlns:gml="http://www.opengis.net/gml"
 xmlns:t="t"><gml:boundedBy><gml:null>unknown</gml:null></gml:boundedBy>
<gml:featureMember><t:road fid="osm_mainroads.7"><gml:boundedBy><gml:Box>
<gml:coordinates>0,0 1,1</gml:coordinates></gml:Box></gml:boundedBy><t:geom><gml:LineString srsName="http://www.opengis.net/gml/srs/epsg.xml#4326">
<gml:coordinates>9.5,47.1 9.6,47.2</gml:coordinates></gml:LineString></t:geom>
<t:name>Dorf &amp; Feld</t:name><t:lanes>2</t:lanes><t:ref/></t:road></gml:featureMember></wfs:FeatureCollection>"""
GML32 = """<wfs:FeatureCollection xmlns:wfs="http://www.opengis.net/wfs/2.0" xmlns:gml="http://www.opengis.net/gml/3.2"
 xmlns:t="t"><wfs:member><t:road gml:id="osm_mainroads.7"><t:geom>
<gml:LineString gml:id="g7" srsName="urn:ogc:def:crs:EPSG::4326"><gml:posList>47.1 9.5 47.2 9.6</gml:posList>
</gml:LineString></t:geom><t:lanes>2</t:lanes><t:name>Dorf &amp; Feld</t:name></t:road></wfs:member>
</wfs:FeatureCollection>"""
GEOJSON = json.dumps(
    {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature", "id": "osm_mainroads.7",
                "geometry": {"type": "LineString", "coordinates": [[9.5, 47.1], [9.6, 47.2]]},
                "properties": {"name": "Dorf & Feld", "lanes": 2, "ref": None},
            }
        ],
    }
)  # fmt: skip


@pytest.mark.parametrize("body", [GML2, GML32, GEOJSON], ids=["GML 2", "GML 3.2, latitude first", "GeoJSON"])
def test_features_of_any_format_are_the_same_facts(body: str) -> None:
    assert decode(body.encode(), "whatever") == {
        "7": (("LineString", (9.5, 47.1, 9.6, 47.2)), (("lanes", 2.0), ("name", "Dorf & Feld")))
    }


def test_coordinates_may_lose_their_seventh_digit_and_no_more() -> None:
    exact = decode(GML2.replace("47.1 ", "47.1234567 ").encode(), "")
    for text, equal in (("47.123456", True), ("47.123457", True), ("47.12345", False), ("47.1234", False)):
        assert (difference(exact, decode(GML2.replace("47.1 ", f"{text} ").encode(), "")) == "") is equal, text


def _points(*features: str) -> tuple[str, bytes]:
    text = ",".join(features)
    return "application/json", f'{{"type":"FeatureCollection","features":[{text}]}}'.encode()


def _point(x: int, more: str = "") -> str:
    return f'{{"type":"Feature",{more}"properties":{{}},"geometry":{{"type":"Point","coordinates":[{x},0]}}}}'


def test_features_without_ids_compare_in_their_order() -> None:
    bare = _points(_point(1), _point(2))
    named = _points(_point(1, '"id":"l.7",'), _point(2, '"id":"l.8",'))
    asked = [Request("GetFeature", "/wfs")]
    assert same_answers(asked, lambda _: bare, lambda _: named) == []
    assert same_answers(asked, lambda _: named, lambda _: bare) == []
    # The first differs, and the last alone is equal.
    assert same_answers(asked, lambda _: bare, lambda _: _points(_point(3), _point(2)))
    assert same_answers(asked, lambda _: bare, lambda _: _points(_point(2)))
    assert same_answers(asked, lambda _: named, lambda _: _points(_point(2), _point(1)))


def test_swapped_axes_are_a_difference() -> None:
    wrong = GML32.replace("47.1 9.5 47.2 9.6", "9.5 47.1 9.6 47.2")
    assert "1 different" in difference(decode(GML2.encode(), ""), decode(wrong.encode(), ""))


def test_ckan_records_compare_by_place_and_with_their_total() -> None:
    def answer(total: int, ts: str) -> bytes:
        record = {"_id": 1, "ts": ts, "temp": 1}
        return json.dumps({"success": True, "result": {"records": [record], "total": total}}).encode()

    old, new = (decode(answer(5, ts), "application/json") for ts in ("2020-01-01T00:00:14", "2020-01-01T00:00:14.000"))
    assert old == new
    assert old == {"total": 5, (0, "_id"): 1.0, (0, "ts"): "2020-01-01T00:00:14", (0, "temp"): 1.0}
    assert difference(old, decode(answer(6, "2020-01-01T00:00:14"), "application/json"))


def test_rdf_compares_whatever_labels_blank_nodes_have() -> None:
    turtle = '@prefix e: <http://e/> . e:a e:p [ e:q "x"@EN ; e:r [ e:s 1 ] ] .'
    quads = (
        "<http://e/a> <http://e/p> _:zz .\n"
        '_:k <http://e/s> "1"^^<http://www.w3.org/2001/XMLSchema#integer> .\n'
        '_:zz <http://e/r> _:k .\n_:zz <http://e/q> "x"@en .\n'
    )
    left, right = decode(turtle.encode(), "text/turtle; charset=utf-8"), decode(quads.encode(), "application/n-quads")
    assert len(left) == 4
    assert difference(left, right) == ""
    other = decode(quads.replace("_:zz <http://e/r> _:k", "_:zz <http://e/r> _:zz").encode(), "application/n-quads")
    assert difference(left, other)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<a/>", "text/xml"), (b"<a", "text/xml"), (b"{}", "application/json"), (b"[1,", "application/json"),
        (b"one,two\n", "text/csv"), (b"<ows:ExceptionReport xmlns:ows='o'>no</ows:ExceptionReport>", "text/xml"),
        (b'{"success": false, "result": {}}', "application/json"), (b"@@@", "text/turtle"), (b"", "text/csv"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(body: bytes, kind: str) -> None:
    with pytest.raises(BenchError, match="cannot be read"):
        decode(body, kind)


def test_hostile_xml_reads_no_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("4.2")
    hostile = f'<!DOCTYPE a [<!ENTITY s SYSTEM "file://{secret}">]>' + om20(
        "P1", [("2014-12-01T00:10:00Z", TEMP, "&s;")]
    )
    facts = decode(hostile.encode(), "text/xml")
    assert 4.2 not in facts.values()


def test_two_empty_sides_are_no_comparison() -> None:
    empty = om20("P1", []).encode()
    with pytest.raises(BenchError, match="nothing to compare"):
        same_answers([Request("GO", "/")], lambda _: ("text/xml", empty), lambda _: ("text/xml", empty))
    full = OM20.encode()
    told = same_answers([Request("GO", "/")], lambda _: ("text/xml", full), lambda _: ("text/xml", empty))
    assert len(told) == 1
    assert "4 missing" in told[0]


# ---------------------------------------------------------------- capabilities

CAPABILITIES = """<sos:Capabilities xmlns:sos="http://www.opengis.net/sos/1.0" xmlns:gml="http://www.opengis.net/gml"
 xmlns:xlink="http://www.w3.org/1999/xlink"><sos:Contents><sos:ObservationOfferingList>
 <sos:ObservationOffering gml:id="all"><gml:name>urn:all</gml:name><sos:time><gml:TimePeriod>
 <gml:beginPosition>2014-01-01T00:00:00+01:00</gml:beginPosition><gml:endPosition>2014-02-01T00:00:00Z</gml:endPosition>
 </gml:TimePeriod></sos:time><sos:procedure xlink:href="urn:p:1"/><sos:procedure xlink:href="urn:p:2"/>
 <sos:observedProperty xlink:href="urn:t"/><sos:observedProperty xlink:href="urn:r"/></sos:ObservationOffering>
 <sos:ObservationOffering gml:id="one"><gml:name>urn:one</gml:name><sos:time><gml:TimePeriod>
 <gml:beginPosition>2014-01-05T00:00:00Z</gml:beginPosition><gml:endPosition>2014-01-06T00:00:00Z</gml:endPosition>
 </gml:TimePeriod></sos:time><sos:procedure xlink:href="urn:p:1"/><sos:observedProperty xlink:href="urn:t"/>
 </sos:ObservationOffering>
 <sos:ObservationOffering gml:id="empty"><gml:name>urn:empty</gml:name><sos:procedure xlink:href="urn:p:3"/>
 <sos:observedProperty xlink:href="urn:t"/></sos:ObservationOffering>
 </sos:ObservationOfferingList></sos:Contents></sos:Capabilities>"""
DAY_US = 86_400_000_000
JANUARY = 1_388_534_400_000_000
"""2014-01-01T00:00:00Z"""


def test_sensors_are_read_with_their_smallest_offering_and_time() -> None:
    assert read_capabilities(CAPABILITIES.encode()) == (
        Sensor("urn:p:1", "urn:one", ("urn:t",), JANUARY + 4 * DAY_US, JANUARY + 5 * DAY_US),
        Sensor("urn:p:2", "urn:all", ("urn:t", "urn:r"), JANUARY - 3_600_000_000, JANUARY + 31 * DAY_US),
    )


@pytest.mark.parametrize("body", [b"<html/>", b"no XML", b"<WMS_Capabilities/>"])
def test_other_services_are_no_sos(body: bytes) -> None:
    with pytest.raises(DoorMissing):
        read_capabilities(body)


def test_two_services_are_asked_for_what_both_have() -> None:
    def service(prefix: str, *sensors: tuple[str, int, int]) -> Service:
        return Service("http://h/", "1.0.0", tuple(Sensor(prefix + n, "o", ("t",), b, e) for n, b, e in sensors))

    left, right = common(
        service("urn:a:", ("1", 0, 100), ("2", 0, 100), ("3", 0, 10)),
        service("urn:b:", ("3", 10, 20), ("2", 50, 200), ("4", 0, 100)),
    )
    assert [(s.procedure, s.begin_us, s.end_us) for s in left.sensors] == [("urn:a:2", 50, 100)]
    assert [(s.procedure, s.begin_us, s.end_us) for s in right.sensors] == [("urn:b:2", 50, 100)]
    with pytest.raises(BenchError, match="no sensor"):
        common(service("urn:a:", ("1", 0, 1)), service("urn:b:", ("2", 0, 1)))


def test_exception_report_with_status_200_is_a_failure() -> None:
    report = b'<?xml version="1.0"?><ows:ExceptionReport><ows:Exception exceptionCode="InvalidParameterValue"/>'
    assert check(200, report) == "exception InvalidParameterValue (status 200)"
    assert check(500, b"") == "status 500"
    assert check(200, b"") == "empty answer"
    assert check(200, OM20.encode()) == ""
