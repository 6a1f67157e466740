"""Documents of observations: valid by the official schemas, read back by others, right whatever is in them."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from lxml import etree
from tests.conformance.door_support import Validator

from thalweg.domain.blocks import Block, Column, ValueKind
from thalweg.domain.catalogue import Feature, ObservedProperty, Procedure, ProcedureKind, Series, Track, Unit
from thalweg.domain.errors import DamagedData
from thalweg.domain.geometry import Geometry, point
from thalweg.domain.selection import Selected
from thalweg.domain.time import parse_instant
from thalweg.encode import member as member_module
from thalweg.encode import om10, om20, om20_array, sos_csv, sos_json
from thalweg.encode.member import BLOCK_BYTES, Member

NS = {
    "om": "http://www.opengis.net/om/1.0",
    "swe": "http://www.opengis.net/swe/1.0.1",
    "gml": "http://www.opengis.net/gml",
    "xlink": "http://www.w3.org/1999/xlink",
}
NS2 = {
    "sos": "http://www.opengis.net/sos/2.0",
    "om": "http://www.opengis.net/om/2.0",
    "gml": "http://www.opengis.net/gml/3.2",
    "swe": "http://www.opengis.net/swe/2.0",
    "xlink": NS["xlink"],
    "xsi": "http://www.w3.org/2001/XMLSchema-instance",
}
HREF = f"{{{NS['xlink']}}}href"
PREFIX = "urn:ogc:def:parameter:x-thalweg:1.0:"
TIME = "urn:ogc:def:parameter:x-istsos:1.0:time:iso8601"

TEMPERATURE = ObservedProperty(1, "", PREFIX + "air:temperature", "air-temperature")
RAIN = ObservedProperty(2, "", PREFIX + "air:rainfall", "air-rainfall")
COUNT = ObservedProperty(3, "", PREFIX + "count", "count")
REMARK = ObservedProperty(4, "", PREFIX + "remark", "remark")
FROST = ObservedProperty(5, "", PREFIX + "frost", "frost")
KINDS = {
    1: (TEMPERATURE, ValueKind.NUMBER, "Cel"),
    2: (RAIN, ValueKind.NUMBER, "mm"),
    3: (COUNT, ValueKind.INTEGER, "1"),
    4: (REMARK, ValueKind.TEXT, ""),
    5: (FROST, ValueKind.BOOLEAN, ""),
}


def instants(*texts: str) -> Any:
    return np.array([parse_instant(text, "time")[0] for text in texts], np.int64)


def select(
    blocks: Iterable[Block],
    *ids: int,
    number: int = 1,
    kind: ProcedureKind = ProcedureKind.FIXED,
    name: str = "",
) -> Selected:
    name = name or f"P{number}"
    procedure = Procedure(
        number,
        "",
        f"urn:ogc:def:procedure:x-thalweg:1.0:{name}",
        name,
        f"urn:ogc:def:sensor:x-thalweg:1.0:{number}",
        kind,
    )
    feature = Feature(number, "", f"urn:ogc:def:feature:x-thalweg:1.0:{name}", f"{name} place")
    return Selected(
        procedure,
        feature,
        Track(10 + number, number, number),
        tuple(KINDS[i][0] for i in ids),
        tuple(Series(i, i, KINDS[i][1]) for i in ids),
        tuple(Unit(i, KINDS[i][2]) for i in ids),
        iter(blocks),
    )


def member(selected: Selected, geometry: Geometry | None = None) -> Member:
    return Member(selected, geometry or point(8.96, 46.02, 344.1), "EPSG:4326", False)


def column(items: list[Any], i: int, quality: Any = 100) -> Column:
    return Column.of(KINDS[i][1], items, quality)


def day() -> Block:
    """Three rows of all kinds, one value of each missing somewhere."""
    return Block(
        instants("2014-05-31T22:00:00Z", "2014-05-31T22:10:00Z", "2014-05-31T22:20:00Z"),
        {
            1: column([12.3, -0.0, None], 1, [100, 210, 210]),
            2: column([1e-5, None, 0.1 + 0.2], 2),
            3: column([2**53 + 1, 0, None], 3),
            4: column(["a, b", None, "<&>\r\n100% \x00"], 4),
            5: column([True, False, None], 5),
        },
    )


def whole(answer: bytes | Iterator[bytes]) -> bytes:
    return answer if isinstance(answer, bytes) else b"".join(answer)


def collection10(members: Iterable[Member], offset_s: int = 0, with_quality: bool = False) -> bytes:
    options: Any = {"name": "temporary", "description": "All", "offset_s": offset_s, "with_quality": with_quality}
    return whole(om10.collection(members, **options))


def rows_of(document: bytes) -> list[list[list[str]]]:
    """Per array of an O&M 1.0 document its rows, as a client splits them."""
    root = etree.fromstring(document)
    return [
        [line.split(",") for line in (values.text or "").split("@")] for values in root.iterfind(".//swe:values", NS)
    ]


# ---------------------------------------------------------------- O&M 1.0


def test_om10_is_laid_out_as_istsos_does(schemas: Validator) -> None:
    document = collection10([member(select([day()], 1, 2, 3, 4, 5))], 7200)
    assert schemas.validate(document) == []
    root = etree.fromstring(document)
    assert root.findtext("gml:description", None, NS) == "All"
    assert root.findtext("gml:name", None, NS) == "temporary"
    (observation,) = root.iterfind("om:member/om:Observation", NS)
    assert observation.findtext("gml:name", None, NS) == "P1"
    period = "om:samplingTime/gml:TimePeriod"
    assert observation.findtext(f"{period}/gml:beginPosition", None, NS) == "2014-06-01T00:00:00+02:00"
    assert observation.findtext(f"{period}/gml:endPosition", None, NS) == "2014-06-01T00:20:00+02:00"
    assert observation.findtext(f"{period}/gml:duration", None, NS) == "PT20M"
    assert observation.find("om:procedure", NS).get(HREF) == "urn:ogc:def:procedure:x-thalweg:1.0:P1"
    components = [e.get(HREF) for e in observation.iterfind(".//swe:component", NS)]
    assert components == [TIME, *(KINDS[i][0].identifier for i in range(1, 6))]
    assert observation.find(".//swe:CompositePhenomenon", NS).get("dimension") == "6"
    assert observation.find("om:featureOfInterest", NS).get(HREF) == "urn:ogc:def:feature:x-thalweg:1.0:P1"
    place = observation.find("om:featureOfInterest/gml:FeatureCollection/gml:location/gml:Point", NS)
    assert place.get("srsName") == "EPSG:4326"
    assert place.findtext("gml:coordinates", None, NS) == "8.96,46.02,344.1"
    array = observation.find("om:result/swe:DataArray", NS)
    assert array.findtext("swe:elementCount/swe:Count/swe:value", None, NS) == "3"
    fields = [
        (e.get("name"), etree.QName(e[0]).localname, e[0].get("definition"))
        for e in array.iter(f"{{{NS['swe']}}}field")
    ]
    assert fields == [
        ("Time", "Time", TIME),
        ("air-temperature", "Quantity", TEMPERATURE.identifier),
        ("air-rainfall", "Quantity", RAIN.identifier),
        ("count", "Count", COUNT.identifier),
        ("remark", "Text", REMARK.identifier),
        ("frost", "Boolean", FROST.identifier),
    ]
    assert [e.get("code") for e in array.iter(f"{{{NS['swe']}}}uom")] == ["Cel", "mm"]
    block = array.find("swe:encoding/swe:TextBlock", NS)
    assert dict(block.attrib) == {"tokenSeparator": ",", "blockSeparator": "@", "decimalSeparator": "."}
    assert rows_of(document) == [
        [
            ["2014-06-01T00:00:00+02:00", "12.3", "1e-05", "9007199254740993", "a%2C b", "true"],
            ["2014-06-01T00:10:00+02:00", "-0", "NaN", "0", "", "false"],
            ["2014-06-01T00:20:00+02:00", "NaN", "0.30000000000000004", "NaN", "<&>\r\n100%25 \ufffd", ""],
        ]
    ]


def test_om10_puts_a_quality_index_after_each_value(schemas: Validator) -> None:
    document = collection10([member(select([day()], 1, 4))], with_quality=True)
    assert schemas.validate(document) == []
    root = etree.fromstring(document)
    names = [e.get("name") for e in root.iter(f"{{{NS['swe']}}}field")]
    assert names == ["Time", "air-temperature", "air-temperature:qualityIndex", "remark", "remark:qualityIndex"]
    assert root.findall(".//swe:field", NS)[2][0].get("definition") == TEMPERATURE.identifier + ":qualityIndex"
    assert [row[1:] for row in rows_of(document)[0]] == [
        ["12.3", "100", "a%2C b", "100"],
        ["-0", "210", "", "-100"],
        ["NaN", "-100", "<&>\r\n100%25 \ufffd", "100"],
    ]


def test_om10_without_a_match_is_an_empty_member(schemas: Validator) -> None:
    for members in ([], [member(select([], 1))]):
        document = collection10(members)
        assert schemas.validate(document) == []
        assert [len(e) for e in etree.fromstring(document).iterfind("om:member", NS)] == [0]


def test_om10_leaves_out_selections_without_rows(schemas: Validator) -> None:
    selections = [
        select([], 1, number=1),
        select([day()], 1, number=2),
        select([], 1, number=3),
        select([day()], 2, number=4),
    ]
    document = collection10([member(s) for s in selections])
    assert schemas.validate(document) == []
    assert [e.text for e in etree.fromstring(document).iterfind(".//om:Observation/gml:name", NS)] == ["P2", "P4"]


def test_om10_joins_blocks_and_counts_all_rows(schemas: Validator) -> None:
    later = Block(instants("2014-06-02T00:00:00Z", "2014-06-02T00:00:01.5Z"), {1: column([1.0, 2.0], 1)})
    document = collection10([member(select([day(), later], 1))])
    assert schemas.validate(document) == []
    root = etree.fromstring(document)
    assert root.findtext(".//swe:elementCount/swe:Count/swe:value", None, NS) == "5"
    assert root.findtext(".//gml:beginPosition", None, NS) == "2014-05-31T22:00:00Z"
    assert root.findtext(".//gml:endPosition", None, NS) == "2014-06-02T00:00:01.5Z"
    assert root.findtext(".//gml:duration", None, NS) == "P1DT2H1.5S"
    assert [row[0] for row in rows_of(document)[0]][2:] == [
        "2014-05-31T22:20:00Z", "2014-06-02T00:00:00Z", "2014-06-02T00:00:01.5Z",
    ]  # fmt: skip


def long_series(blocks: int, begin: str = "2014-01-01T00:00:00Z", rows: int = 50) -> Iterator[Block]:
    first = int(instants(begin)[0])
    for i in range(blocks):
        end = first + (np.arange(rows) + i * rows) * 600_000_000
        yield Block(end, {1: Column.of(ValueKind.NUMBER, [float(v) for v in range(rows)])})


@pytest.mark.parametrize("end", [None, "2014-01-04T23:50:00Z"])
def test_om10_streams_what_is_too_long_to_count(
    schemas: Validator, monkeypatch: pytest.MonkeyPatch, end: str | None
) -> None:
    monkeypatch.setattr(om10, "GATHERED_BYTES", 3000)
    last = None if end is None else parse_instant(end, "time")[0]
    long = Member(select(long_series(12), 1), None, "EPSG:4326", False, end_us=last)
    document = collection10([long, member(select([day()], 1, number=2))])
    assert schemas.validate(document) == []
    root = etree.fromstring(document)
    first, second = root.iterfind(".//swe:elementCount/swe:Count", NS)
    assert len(first) == 0
    assert second.findtext("swe:value", None, NS) == "3"
    position = root.find(".//gml:endPosition", NS)
    assert (position.text, position.get("indeterminatePosition")) == ((None, "unknown") if end is None else (end, None))
    rows = rows_of(document)[0]
    assert len(rows) == 600
    assert rows[599] == ["2014-01-05T03:50:00Z", "49"]


def test_om10_holds_no_more_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(om10, "GATHERED_BYTES", BLOCK_BYTES)
    read = 0

    def counted() -> Iterator[Block]:
        nonlocal read
        for block in long_series(200, rows=500):
            read += 1
            yield block

    monkeypatch.setattr(member_module, "WHOLE_BYTES", BLOCK_BYTES)
    pieces = om10.collection([member(select(counted(), 1))], name="n", description="", offset_s=0, with_quality=False)
    assert not isinstance(pieces, bytes)
    assert read < 12  # of 200, at some 12 kB each
    assert max(len(piece) for piece in pieces) < 3 * BLOCK_BYTES
    assert read == 200


def test_om10_tells_the_begin_of_intervals_and_result_times(schemas: Validator) -> None:
    instant = Block(instants("2014-06-01T00:00:00Z"), {1: column([1.0], 1)})
    interval = Block(instants("2014-06-03T00:00:00Z"), {1: column([2.0], 1)}, begin=instants("2014-06-02T00:00:00Z"))
    forecast = Block(
        instants("2014-06-04T00:00:00Z"), {1: column([3.0], 1)}, result_time=instants("2014-05-30T00:00:00Z")
    )
    document = collection10([member(select([instant, instant, interval, forecast], 1))])
    assert schemas.validate(document) == []
    root = etree.fromstring(document)
    names = [[e.get("name") for e in record] for record in root.iter(f"{{{NS['swe']}}}DataRecord")]
    assert names == [
        ["Time", "air-temperature"],
        ["Time", "Begin", "air-temperature"],
        ["Time", "Begin", "ResultTime", "air-temperature"],
    ]
    assert rows_of(document) == [
        [["2014-06-01T00:00:00Z", "1"]] * 2,
        [["2014-06-03T00:00:00Z", "2014-06-02T00:00:00Z", "2"]],
        [["2014-06-04T00:00:00Z", "2014-06-04T00:00:00Z", "2014-05-30T00:00:00Z", "3"]],
    ]
    assert [e.text for e in root.iter(f"{{{NS['gml']}}}beginPosition")] == [
        "2014-06-01T00:00:00Z", "2014-06-02T00:00:00Z", "2014-06-04T00:00:00Z",
    ]  # fmt: skip
    one = collection10([member(select([interval], 1))])
    assert [e.text for e in etree.fromstring(one).iter(f"{{{NS['gml']}}}beginPosition")] == ["2014-06-02T00:00:00Z"]


def test_om10_of_a_mobile_procedure_has_positions(schemas: Validator) -> None:
    block = Block(instants("2014-06-01T00:00:00Z"), {1: column([1.5], 1)}, position=np.array([[8.5, 46.25, np.nan]]))
    document = collection10([member(select([block], 1, kind=ProcedureKind.MOBILE))])
    assert schemas.validate(document) == []
    definitions = [e[0].get("definition") for e in etree.fromstring(document).iterfind(".//swe:field", NS)]
    assert definitions[1:4] == [f"urn:ogc:crs:EPSG:4326:{axis}-position" for axis in "xyz"]
    assert rows_of(document) == [[["2014-06-01T00:00:00Z", "8.5", "46.25", "NaN", "1.5"]]]


def test_om10_turns_coordinates_where_the_reference_asks_for_it(schemas: Validator) -> None:
    selected = select([day()], 1)
    document = collection10([Member(selected, point(8.96, 46.02), "urn:ogc:def:crs:EPSG::4326", True)])
    assert schemas.validate(document) == []
    assert b'<gml:Point srsName="urn:ogc:def:crs:EPSG::4326"><gml:coordinates>46.02,8.96<' in document


@pytest.mark.parametrize(
    "geometry",
    [
        Geometry("Polygon", (((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 0.0)),)),
        Geometry("LineString", ((0.0, 0.0, 1.0), (1.0, 0.0, 2.0))),
        Geometry("MultiPoint", ((0.0, 0.0), (1.0, 1.0))),
    ],
    ids=lambda g: g.type,
)
def test_om10_takes_features_of_any_form(schemas: Validator, geometry: Geometry) -> None:
    document = collection10([member(select([day()], 1), geometry)])
    assert schemas.validate(document) == []
    assert f"<gml:{geometry.type} ".encode() in document


def test_om10_of_a_feature_without_geometry_has_the_reference_alone(schemas: Validator) -> None:
    document = collection10([Member(select([day()], 1), None, "EPSG:4326", False)])
    assert schemas.validate(document) == []
    (feature,) = etree.fromstring(document).iterfind(".//om:featureOfInterest", NS)
    assert len(feature) == 0


def test_om10_shows_changed_metadata_at_once() -> None:
    before = select([day()], 1)
    assert b'code="Cel"' in collection10([member(before)])
    after = dataclasses.replace(select([day()], 1), units=(Unit(1, "K"),))
    assert b'code="K"' in collection10([member(after)])
    moved = collection10([member(select([day()], 1), point(1.0, 2.0))])
    assert b"<gml:coordinates>1,2<" in moved


def test_om10_whole_and_in_pieces_are_the_same() -> None:
    options: Any = {"name": "temporary", "description": "All", "offset_s": 0, "with_quality": True}
    found = om10.collection([member(select([day()], 1, 2))], **options)
    assert found == collection10([member(select([day()], 1, 2))], with_quality=True)
    long = om10.collection([member(select(long_series(1000), 1))], **options)
    assert not isinstance(long, bytes)
    assert whole(long) == collection10([member(select(long_series(1000), 1))], with_quality=True)


# ---------------------------------------------------------------- O&M 2.0


def response20(members: Iterable[Member], offset_s: int = 0, with_quality: bool = False, merged: bool = False) -> bytes:
    return whole(om20.response(members, offset_s=offset_s, with_quality=with_quality, merged=merged))


def test_om20_has_an_observation_per_value(schemas: Validator) -> None:
    document = response20([member(select([day()], 1, 2, 3, 4, 5))], 7200)
    assert schemas.validate(document) == []
    root = etree.fromstring(document)
    found = []
    for data in root:
        (observation,) = data
        result = observation.find("om:result", NS2)
        found.append(
            (
                observation.find("om:type", NS2).get(HREF).rpartition("/")[2],
                observation.findtext("om:phenomenonTime/gml:TimeInstant/gml:timePosition", None, NS2)[11:],
                result.get(f"{{{NS2['xsi']}}}type"),
                result.get("uom"),
                result.text,
            )
        )
    measure, count, text, truth = (
        f"OM_{n}" for n in ("Measurement", "CountObservation", "TextObservation", "TruthObservation")
    )
    at = ["00:00:00+02:00", "00:10:00+02:00", "00:20:00+02:00"]
    assert found == [
        (measure, at[0], "gml:MeasureType", "Cel", "12.3"),
        (measure, at[1], "gml:MeasureType", "Cel", "-0"),
        (measure, at[0], "gml:MeasureType", "mm", "1e-05"),
        (measure, at[2], "gml:MeasureType", "mm", "0.30000000000000004"),
        (count, at[0], "xs:integer", None, "9007199254740993"),
        (count, at[1], "xs:integer", None, "0"),
        (text, at[0], "xs:string", None, "a, b"),
        (text, at[2], "xs:string", None, "<&>\r\n100% \ufffd"),
        (truth, at[0], "xs:boolean", None, "true"),
        (truth, at[1], "xs:boolean", None, "false"),
    ]


def test_om20_identifies_observations_and_refers_to_the_rest() -> None:
    root = etree.fromstring(response20([member(select([day()], 1))]))
    first = root[0][0]
    assert first.findtext("gml:identifier", None, NS2) == "11.1.1401573600000000"
    assert first.get(f"{{{NS2['gml']}}}id") == "o_11.1.1401573600000000"
    assert first.find("om:procedure", NS2).get(HREF) == "urn:ogc:def:procedure:x-thalweg:1.0:P1"
    assert first.find("om:observedProperty", NS2).get(HREF) == TEMPERATURE.identifier
    feature = first.find("om:featureOfInterest", NS2)
    assert feature.get(HREF) == "urn:ogc:def:feature:x-thalweg:1.0:P1"
    assert feature.get(f"{{{NS['xlink']}}}title") == "P1 place"
    assert first.findtext("om:resultTime/gml:TimeInstant/gml:timePosition", None, NS2) == "2014-05-31T22:00:00Z"


def test_om20_is_read_by_owslib() -> None:
    from owslib.etree import etree as owslib_etree
    from owslib.swe.observation.sos200 import SOSGetObservationResponse

    document = response20([member(select([day()], 1, 2))], with_quality=True)
    observations = list(SOSGetObservationResponse(owslib_etree.fromstring(document)))
    assert [o.get_result().value for o in observations] == [12.3, -0.0, 1e-5, 0.1 + 0.2]
    assert [o.get_result().uom for o in observations] == ["Cel", "Cel", "mm", "mm"]
    assert [o.observedProperty for o in observations] == [TEMPERATURE.identifier] * 2 + [RAIN.identifier] * 2
    assert {o.procedure for o in observations} == {"urn:ogc:def:procedure:x-thalweg:1.0:P1"}
    assert {o.featureOfInterest for o in observations} == {"urn:ogc:def:feature:x-thalweg:1.0:P1"}
    assert [o.resultTime.isoformat() for o in observations][:2] == [
        "2014-05-31T22:00:00+00:00", "2014-05-31T22:10:00+00:00",
    ]  # fmt: skip


def test_om20_tells_the_quality_as_a_parameter(schemas: Validator) -> None:
    document = response20([member(select([day()], 1))], with_quality=True)
    assert schemas.validate(document) == []
    values = etree.fromstring(document).iterfind(".//om:parameter/om:NamedValue", NS2)
    assert [(v.find("om:name", NS2).get(HREF), v.findtext("om:value", None, NS2)) for v in values] == [
        (TEMPERATURE.identifier + ":qualityIndex", "100"),
        (TEMPERATURE.identifier + ":qualityIndex", "210"),
    ]


def test_om20_of_intervals_and_forecasts(schemas: Validator) -> None:
    block = Block(
        instants("2014-06-03T00:00:00Z", "2014-06-03T00:00:00Z"),
        {1: column([2.0, 3.0], 1)},
        begin=instants("2014-06-02T00:00:00Z", "2014-06-03T00:00:00Z"),
        result_time=instants("2014-05-30T00:00:00Z", "2014-05-31T00:00:00Z"),
    )
    document = response20([member(select([block], 1))])
    assert schemas.validate(document) == []
    first, second = (data[0] for data in etree.fromstring(document))
    period = first.find("om:phenomenonTime/gml:TimePeriod", NS2)
    assert [e.text for e in period] == ["2014-06-02T00:00:00Z", "2014-06-03T00:00:00Z"]
    assert second.findtext("om:phenomenonTime/gml:TimeInstant/gml:timePosition", None, NS2) == "2014-06-03T00:00:00Z"
    result = "om:resultTime/gml:TimeInstant/gml:timePosition"
    assert [o.findtext(result, None, NS2) for o in (first, second)] == ["2014-05-30T00:00:00Z", "2014-05-31T00:00:00Z"]


@pytest.mark.parametrize(
    ("srs_name", "northing_first", "place"),
    [
        (
            "http://www.opengis.net/def/crs/EPSG/0/4326",
            True,
            ("http://www.opengis.net/def/crs/EPSG/0/4326", "46.25 8.5"),
        ),
        ("EPSG:4326", False, ("EPSG:4326", "8.5 46.25")),
        # Positions stay in the procedure's own CRS.
        ("urn:ogc:def:crs:EPSG::21781", False, ("EPSG:4326", "8.5 46.25")),
        ("EPSG:14326", True, ("EPSG:4326", "8.5 46.25")),
    ],
)
def test_om20_of_a_mobile_procedure_has_sampling_geometries(
    schemas: Validator, srs_name: str, northing_first: bool, place: tuple[str, str]
) -> None:
    block = Block(
        instants("2014-06-01T00:00:00Z", "2014-06-01T00:10:00Z", "2014-06-01T00:20:00Z"),
        {1: column([1.5, 2.5, 3.5], 1)},
        position=np.array([[8.5, 46.25, np.nan], [8.5, 46.25, 300.0], [np.nan, 46.0, 1.0]]),
    )
    selected = select([block], 1, kind=ProcedureKind.MOBILE)
    document = response20([Member(selected, None, srs_name, northing_first)])
    assert schemas.validate(document) == []
    points = list(etree.fromstring(document).iterfind(".//om:parameter/om:NamedValue/om:value/gml:Point", NS2))
    assert [(p.get("srsName"), p.findtext("gml:pos", None, NS2)) for p in points] == [
        place,
        (place[0], f"{place[1]} 300"),
    ]


def test_om20_without_a_match_is_an_empty_response(schemas: Validator) -> None:
    for merged in (False, True):
        document = response20([member(select([], 1))], merged=merged)
        assert schemas.validate(document) == []
        assert len(etree.fromstring(document)) == 0


@pytest.mark.parametrize("with_quality", [False, True])
@pytest.mark.parametrize(
    "end",
    [
        instants("2014-06-01T00:00:00Z", "2014-06-01T00:10:00Z"),
        instants("2014-06-01T00:00:00Z", "2014-06-01T00:00:01.5Z"),
        instants("2001-09-09T01:46:39Z", "2001-09-09T01:46:41Z"),
        instants("1969-12-31T23:59:00Z", "1970-01-01T00:00:00Z"),
        instants("1969-12-31T22:59:00Z", "1969-12-31T23:59:00Z"),
        instants("1962-03-01T00:00:00Z", "1962-03-01T00:10:00Z"),
        instants("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"),
    ],
    ids=str,
)
def test_om20_fast_and_plain_writers_agree(end: Any, with_quality: bool) -> None:
    selected = select([], 1, 2, 3, 4, 5)
    block = Block(
        end,
        {
            1: Column(
                ValueKind.NUMBER, None, None, np.array([5, -7], np.int16), scaled=np.array([-5, 214]), decimals=1
            ),
            2: column([1e300, None], 2),
            3: column([-(2**63), 7], 3),
            4: column(["x" * 40, "\x01\x02\x03\x04"], 4),
            5: column([None, True], 5),
        },
    )
    series = om20.kits(member(selected))
    fast = om20.observations(block, series, -3600, with_quality)
    assert fast == om20.observations_plain(block, series, -3600, with_quality)
    assert fast.count(b"<om:OM_Observation") == 8


def test_om20_splits_long_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = long_series(1)
    before = response20([member(select([block], 1))])
    monkeypatch.setattr(om20, "SLICE_VALUES", 7)
    assert response20([member(select([block], 1))]) == before
    ids = [e.get(f"{{{NS2['gml']}}}id") for e in etree.fromstring(before).iter() if e.get(f"{{{NS2['gml']}}}id")]
    assert len(ids) == len(set(ids)) == 150


def test_om20_merged_has_an_array_per_series(schemas: Validator) -> None:
    later = Block(instants("2014-06-02T00:00:00Z"), {i: column([None], i) for i in range(1, 6)})
    later.columns[1] = column([7.25], 1)
    document = response20([member(select([day(), later], 1, 2, 3, 4, 5))], with_quality=True, merged=True)
    assert schemas.validate(document) == []
    found = []
    for (observation,) in etree.fromstring(document):
        assert observation.find("om:type", NS2).get(HREF).endswith("/OM_SWEArrayObservation")
        array = observation.find("om:result/swe:DataArray", NS2)
        names = [e.get("name") for e in array.iterfind(".//swe:field", NS2)]
        period = [e.text for e in observation.iterfind("om:phenomenonTime//*", NS2) if len(e) == 0]
        count = array.findtext("swe:elementCount/swe:Count/swe:value", None, NS2)
        found.append((names, period, count, array.findtext("swe:values", None, NS2)))
    t = ["2014-05-31T22:00:00Z", "2014-05-31T22:10:00Z", "2014-05-31T22:20:00Z", "2014-06-02T00:00:00Z"]
    time, q = "phenomenonTime", "qualityIndex"
    assert found == [
        ([time, "air-temperature", q], [t[0], t[3]], "3", f"{t[0]},12.3,100@{t[1]},-0,210@{t[3]},7.25,100"),
        ([time, "air-rainfall", q], [t[0], t[2]], "2", f"{t[0]},1e-05,100@{t[2]},0.30000000000000004,100"),
        ([time, "count", q], [t[0], t[1]], "2", f"{t[0]},9007199254740993,100@{t[1]},0,100"),
        ([time, "remark", q], [t[0], t[2]], "2", f"{t[0]},a%2C b,100@{t[2]},<&>\r\n100%25 \ufffd,100"),
        ([time, "frost", q], [t[0], t[1]], "2", f"{t[0]},true,100@{t[1]},false,100"),
    ]


def test_om20_merged_splits_what_is_too_long_and_what_changes_shape(
    schemas: Validator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(om20_array, "GATHERED_BYTES", 3000)
    interval = Block(
        instants("2015-01-02T00:00:00Z"),
        {1: column([2.0], 1)},
        begin=instants("2015-01-01T00:00:00Z"),
        result_time=instants("2015-01-03T00:00:00Z"),
    )
    blocks = [*long_series(5), interval]
    document = response20([member(select(blocks, 1))], merged=True)
    assert schemas.validate(document) == []
    root = etree.fromstring(document)
    counts = [int(e.text or 0) for e in root.iterfind(".//swe:elementCount/swe:Count/swe:value", NS2)]
    assert sum(counts) == 251
    assert len(counts) >= 3
    last = root[-1][0]
    assert [etree.QName(e[0]).localname for e in last.iterfind(".//swe:field", NS2)] == [
        "TimeRange",
        "Time",
        "Quantity",
    ]
    assert last.findtext(".//swe:values", None, NS2) == (
        "2015-01-01T00:00:00Z,2015-01-02T00:00:00Z,2015-01-03T00:00:00Z,2"
    )


# ---------------------------------------------------------------- CSV


def csv_text(selections: Iterable[Selected], with_quality: bool = False) -> str:
    return whole(sos_csv.csv(selections, offset_s=0, with_quality=with_quality)).decode()


def test_csv_of_one_procedure() -> None:
    assert csv_text([select([day()], 1, 3)], with_quality=True) == (
        f"{TIME},urn:ogc:def:procedure,{TEMPERATURE.identifier},{TEMPERATURE.identifier}:qualityIndex,"
        f"{COUNT.identifier},{COUNT.identifier}:qualityIndex\n"
        "2014-05-31T22:00:00Z,P1,12.3,100,9007199254740993,100\n"
        "2014-05-31T22:10:00Z,P1,-0,210,0,100\n"
        "2014-05-31T22:20:00Z,P1,,-100,,-100\n"
    )


def test_csv_rows_of_different_procedures_line_up_with_the_header() -> None:
    selections = [
        select([day()], 1, 2, number=1),
        select([day(), day()], 3, 1, number=2, name='odd, "name"'),
        select([], 5, number=3),
    ]
    header, *rows = csv.reader(io.StringIO(csv_text(selections), newline=""))
    assert header[2:] == [TEMPERATURE.identifier, RAIN.identifier, COUNT.identifier, FROST.identifier]
    assert {len(row) for row in rows} == {6}
    assert [row[1:] for row in rows][:4] == [
        ["P1", "12.3", "1e-05", "", ""],
        ["P1", "-0", "", "", ""],
        ["P1", "", "0.30000000000000004", "", ""],
        ['odd, "name"', "12.3", "", "9007199254740993", ""],
    ]
    assert len(rows) == 9


def test_csv_leaves_out_the_quality_of_what_a_procedure_lacks() -> None:
    rows = csv_text([select([day()], 1, number=1), select([day()], 3, number=2)], with_quality=True).splitlines()
    assert rows[1] == "2014-05-31T22:00:00Z,P1,12.3,100,,"
    assert rows[6] == "2014-05-31T22:20:00Z,P2,,,,-100"


def test_csv_without_a_match_is_a_header() -> None:
    assert csv_text([]) == f"{TIME},urn:ogc:def:procedure\n"
    assert csv_text([select([], 1)]) == f"{TIME},urn:ogc:def:procedure,{TEMPERATURE.identifier}\n"


# ---------------------------------------------------------------- JSON


def json_document(members: Iterable[Member], offset_s: int = 0, with_quality: bool = False) -> Any:
    options: Any = {
        "name": "temporary",
        "description": 'All "of" it',
        "offset_s": offset_s,
        "with_quality": with_quality,
    }
    return json.loads(whole(sos_json.collection(members, **options)))


def test_json_has_the_members_of_istsos() -> None:
    found = json_document([member(select([day()], 1, 4, 5))], 7200, True)["ObservationCollection"]
    assert found["name"] == "temporary"
    assert found["description"] == 'All "of" it'
    (one,) = found["member"]
    array = one["result"]["DataArray"]
    definitions = [TIME]
    for observed in (TEMPERATURE, REMARK, FROST):
        definitions += [observed.identifier, observed.identifier + ":qualityIndex"]
    assert one["name"] == "P1"
    assert one["procedure"] == "urn:ogc:def:procedure:x-thalweg:1.0:P1"
    assert one["samplingTime"] == {
        "beginPosition": "2014-06-01T00:00:00+02:00",
        "endPosition": "2014-06-01T00:20:00+02:00",
        "duration": "PT20M",
    }
    assert one["observedProperty"]["CompositePhenomenon"]["dimension"] == "7"
    assert one["observedProperty"]["component"] == definitions
    assert one["featureOfInterest"] == {
        "name": "urn:ogc:def:feature:x-thalweg:1.0:P1",
        "geom": "<gml:Point srsName='EPSG:4326'><gml:coordinates>8.96,46.02,344.1</gml:coordinates></gml:Point>",
    }
    assert array["elementCount"] == "3"
    assert [f["definition"] for f in array["field"]] == definitions
    assert array["field"][1] == {"name": "air-temperature", "definition": TEMPERATURE.identifier, "uom": "Cel"}
    assert array["field"][0] == {"name": "Time", "definition": TIME}
    assert array["values"] == [
        ["2014-06-01T00:00:00+02:00", 12.3, 100, "a, b", 100, True, 100],
        ["2014-06-01T00:10:00+02:00", 0, 210, None, -100, False, 100],
        ["2014-06-01T00:20:00+02:00", None, -100, "<&>\r\n100% \0", 100, None, -100],
    ]
    assert str(array["values"][1][1]) == "-0.0"


def test_json_of_several_members_and_blocks() -> None:
    interval = Block(instants("2014-06-03T00:00:00Z"), {1: column([2.0], 1)}, begin=instants("2014-06-02T00:00:00Z"))
    selections = [select([], 1), select([day(), day(), interval], 1, number=2), select([day()], 2, number=3)]
    members = json_document([member(s) for s in selections])["ObservationCollection"]["member"]
    assert [(m["name"], m["result"]["DataArray"]["elementCount"]) for m in members] == [
        ("P2", "6"),
        ("P2", "1"),
        ("P3", "3"),
    ]
    assert members[1]["result"]["DataArray"]["values"] == [["2014-06-03T00:00:00Z", "2014-06-02T00:00:00Z", 2]]
    assert members[1]["samplingTime"]["beginPosition"] == "2014-06-02T00:00:00Z"


def test_json_without_a_match_has_no_member() -> None:
    assert json_document([])["ObservationCollection"]["member"] == []


# ---------------------------------------------------------------- all of them

WRITERS = {
    "om10": lambda m: om10.collection(m, name="n", description="d", offset_s=0, with_quality=True),
    "om20": lambda m: om20.response(m, offset_s=0, with_quality=True),
    "merged": lambda m: om20.response(m, offset_s=0, with_quality=True, merged=True),
    "csv": lambda m: sos_csv.csv([x.selected for x in m], offset_s=0, with_quality=True),
    "json": lambda m: sos_json.collection(m, name="n", description="d", offset_s=0, with_quality=True),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_short_answer_is_one_text_and_a_long_one_the_same_in_pieces(
    writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def members() -> list[Member]:
        return [member(select(long_series(30, rows=10), 1))]

    text = WRITERS[writer](members())
    assert isinstance(text, bytes)
    monkeypatch.setattr(member_module, "WHOLE_BYTES", 2_000)
    streamed = WRITERS[writer](members())
    assert not isinstance(streamed, bytes)
    pieces = list(streamed)
    assert len(pieces) > 1
    assert b"".join(pieces) == text


@pytest.mark.parametrize("writer", WRITERS)
def test_failure_to_read_the_first_block_comes_before_any_text(writer: str) -> None:
    def damaged() -> Iterator[Block]:
        raise DamagedData("chunk 7")
        yield day()

    with pytest.raises(DamagedData):
        WRITERS[writer]([member(select(damaged(), 1))])


HOSTILE = "x\"'<&>\x00\x1f\ud800,\n%@é"


@pytest.mark.parametrize("writer", WRITERS)
def test_hostile_names_leave_documents_well_formed(writer: str) -> None:
    observed = ObservedProperty(1, "", HOSTILE + "p", HOSTILE + "p")
    other = ObservedProperty(4, "", HOSTILE + "t", HOSTILE + "t")
    selected = Selected(
        Procedure(1, "", HOSTILE, HOSTILE, HOSTILE),
        Feature(1, "", HOSTILE, HOSTILE),
        Track(1, 1, 1),
        (observed, other),
        (Series(1, 1), Series(4, 2, ValueKind.TEXT)),
        (Unit(1, HOSTILE), Unit(2, "")),
        iter([Block(instants("2014-06-01T00:00:00Z"), {1: column([1.5], 1), 4: column([HOSTILE], 4)})]),
    )
    text = whole(WRITERS[writer]([Member(selected, point(1.0, 2.0), HOSTILE, False)]))
    seen = HOSTILE.replace("\x00", "\ufffd").replace("\x1f", "\ufffd").replace("\ud800", "\ufffd")
    if writer == "csv":
        header, row = csv.reader(io.StringIO(text.decode(), newline=""))
        assert header[2] == seen + "p"
        assert row[1] == seen
        assert row[4] == seen
    elif writer == "json":
        (one,) = json.loads(text)["ObservationCollection"]["member"]
        assert one["name"] == HOSTILE.replace("\ud800", "\ufffd")
        assert one["result"]["DataArray"]["values"][0][3] == HOSTILE.replace("\ud800", "\ufffd")
    else:
        root = etree.fromstring(text)
        hrefs = [e.get(HREF) for e in root.iter() if e.get(HREF) is not None]
        assert seen in hrefs
        assert seen + "p" in hrefs
