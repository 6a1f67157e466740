"""Assertions of OGC's test suite for WFS 1.1.0 (ets-wfs11), told over the door's own requests.

The suite's data has several geometries per type and names outside ASCII, which layers here do not have: its cases are
told with layers that hold the same kinds of values. Ids are those of the suite's cases.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lxml import etree
from tests.conformance.door_support import Validator
from tests.conformance.wfs_support import (
    GML,
    NS1,
    OGC,
    OWS10,
    READER,
    TW,
    URI,
    WFS1,
    WRITER,
    XSD,
    Answer,
    Wfs,
    fresh,
    small,
)

BOUND = f"xmlns(sf={URI})"
CRS = 'srsName="urn:ogc:def:crs:EPSG::4326"'


@pytest.fixture(scope="module")
def wfs(tmp_path_factory: pytest.TempPathFactory, schemas: Validator) -> Iterator[Wfs]:
    made = small(Wfs(tmp_path_factory.mktemp("cite11"), schemas))
    yield made
    made.close()


@pytest.fixture
def own(tmp_path: Path, schemas: Validator) -> Iterator[Wfs]:
    made = fresh(tmp_path, schemas)
    yield made
    made.close()


def kvp(wfs: Wfs, /, **parameters: str) -> Answer:
    return wfs.get(**parameters)


def post(
    wfs: Wfs, condition: str = "", name: str = "towns", *, query: str = "", root: str = "", inside: str = ""
) -> Answer:
    content = f"<ogc:Filter>{condition}</ogc:Filter>" if condition else ""
    return wfs.post(
        f'<wfs:GetFeature {NS1} service="WFS" version="1.1.0" {root}><wfs:Query xmlns:sf="{URI}" typeName="sf:{name}" '
        f"{query}>{inside}{content}</wfs:Query></wfs:GetFeature>",
        READER,
    )


def report(answer: Answer) -> etree._Element:
    root = answer.root
    assert root.tag == OWS10 + "ExceptionReport", answer.body
    return root


# ---------------------------------------------------------------- GetCapabilities


def test_get_capabilities_tc1_tc4_tc14_tc15(wfs: Wfs) -> None:
    answer = kvp(wfs, service="WFS", version="1.1.0", request="GetCapabilities")
    assert answer.root.tag == WFS1 + "WFS_Capabilities"
    assert answer.content_type == "text/xml"
    names = {e.get("name") for e in answer.root.iter(OWS10 + "Operation")}
    assert names >= {"GetCapabilities", "DescribeFeatureType", "GetFeature"}
    formats = [
        value.text
        for operation in answer.root.iter(OWS10 + "Operation")
        if operation.get("name") == "GetFeature"
        for parameter in operation.iter(OWS10 + "Parameter")
        if parameter.get("name") == "outputFormat"
        for value in parameter
    ]
    assert "text/xml; subtype=gml/3.1.1" in formats


@pytest.mark.parametrize(
    "query",
    [
        "service=WFS&version=1.1.0&request=GetCapabilities&param=ASDF",
        "request=GetCapabilities&version=1.1.0&service=WFS",
        "SERVICE=WFS&VERSION=1.1.0&REQUEST=GetCapabilities",
        "sErViCe=WFS&vErSiOn=1.1.0&rEqUeSt=GetCapabilities",
        "service=WFS&acceptversions=1.1.0,1.0.0&request=GetCapabilities",
        "service=WFS&acceptversions=9.9.9,1.1.0&request=GetCapabilities",
    ],
)
def test_get_capabilities_tc2_tc5_tc6_tc8_tc10_tc15(wfs: Wfs, query: str) -> None:
    assert wfs.raw(query).root.get("version") == "1.1.0"


def test_get_capabilities_tc12_the_highest_version_without_accept_versions(wfs: Wfs) -> None:
    assert kvp(wfs, service="WFS", request="GetCapabilities").root.get("version") == "2.0.0"


@pytest.mark.parametrize(
    ("parameters", "code", "locator"),
    [
        ({"version": "1.1.0", "request": "GetCapabilities"}, "MissingParameterValue", "service"),
        ({"service": "WFS", "version": "1.1.0"}, "MissingParameterValue", "request"),
        ({"service": "ASDF", "version": "1.1.0", "request": "GetCapabilities"}, "InvalidParameterValue", "service"),
        ({"service": "WFS", "version": "1.1.0", "request": "GetCapabilities", "acceptversions": "2006-10-26"},
         "VersionNegotiationFailed", None),
        ({"service": "WFS", "version": "1.1.0", "request": "GetCapabilities", "updateSequence": "999999"},
         "InvalidUpdateSequence", None),
        ({"service": "WFS", "version": "1.1.0", "request": "getCapabilitiesLOL"}, "OperationNotSupported", "request"),
    ],
)  # fmt: skip
def test_get_capabilities_tc13_tc16(wfs: Wfs, parameters: dict[str, str], code: str, locator: str | None) -> None:
    answer = wfs.get(**parameters)
    report(answer)
    assert answer.exception[0] == code
    if locator:
        assert answer.exception[1] == locator


def test_get_capabilities_tc19_sections(wfs: Wfs) -> None:
    def children(**more: str) -> set[str]:
        root = kvp(wfs, service="WFS", version="1.1.0", request="GetCapabilities", **more).root
        return {str(child.tag).rpartition("}")[2] for child in root}

    # The filters are mandatory in every document of this version.
    assert children(sections="") == {"Filter_Capabilities"}
    assert children(sections="ServiceProvider") == {"ServiceProvider", "Filter_Capabilities"}
    assert children(sections="ServiceIdentification,OperationsMetadata") == {
        "ServiceIdentification", "OperationsMetadata", "Filter_Capabilities",
    }  # fmt: skip
    assert len(children(sections="All")) == 5


def test_get_capabilities_tc2_tc20_tc21_tc22_by_post(wfs: Wfs) -> None:
    xml = f'<wfs:GetCapabilities {NS1} xmlns:ows="http://www.opengis.net/ows" service="WFS">{{}}</wfs:GetCapabilities>'
    assert wfs.post(xml.format(""), READER, "application/xml").root.get("version") == "1.1.0"
    accepted = (
        "<ows:AcceptVersions><ows:Version>9.9.9</ows:Version><ows:Version>1.1.0</ows:Version></ows:AcceptVersions>"
    )
    assert wfs.post(xml.format(accepted), READER, "application/xml").root.get("version") == "1.1.0"
    formats = "<ows:AcceptFormats><ows:OutputFormat>text/xml</ows:OutputFormat></ows:AcceptFormats>"
    assert wfs.post(xml.format(formats), READER).content_type == "text/xml"
    form = wfs.post("service=WFS&version=1.1.0&request=GetCapabilities", READER, "application/x-www-form-urlencoded")
    assert form.root.get("version") == "1.1.0"


# ---------------------------------------------------------------- DescribeFeatureType


def described(answer: Answer) -> list[str | None]:
    assert answer.root.tag == XSD + "schema"
    return [element.get("name") for element in answer.root.findall(XSD + "element")]


def test_describe_feature_type_tc1_tc4_tc10(wfs: Wfs) -> None:
    answer = wfs.wfs11("DescribeFeatureType", typeName="sf:towns", namespace=BOUND)
    assert described(answer) == ["towns"]
    assert answer.content_type == "text/xml; subtype=gml/3.1.1"


def test_describe_feature_type_tc3_tc11_tc12_all_types(wfs: Wfs) -> None:
    everything = ["areas", "notes", "roads", "swiss", "towns"]
    assert described(wfs.wfs11("DescribeFeatureType")) == everything
    body = f'<wfs:DescribeFeatureType {NS1} service="WFS" version="1.1.0"/>'
    assert described(wfs.post(body, READER)) == everything


def test_describe_feature_type_tc5_several_types(wfs: Wfs) -> None:
    assert described(wfs.wfs11("DescribeFeatureType", typeName="sf:roads,sf:towns", namespace=BOUND)) == [
        "roads",
        "towns",
    ]
    body = (
        f'<wfs:DescribeFeatureType {NS1} xmlns:sf="{URI}" service="WFS" version="1.1.0"><wfs:TypeName>sf:roads'
        "</wfs:TypeName>"
        "<wfs:TypeName>sf:towns</wfs:TypeName></wfs:DescribeFeatureType>"
    )
    assert described(wfs.post(body, READER)) == ["roads", "towns"]


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("text/xml; subtype=gml/3.1.1", "text/xml; subtype=gml/3.1.1"),
        ("text/xml; subtype=gml/2.1.2", "text/xml; subtype=gml/2.1.2"),
        ("XMLSCHEMA", "text/xml; subtype=gml/2.1.2"),
    ],
)
def test_describe_feature_type_output_formats(wfs: Wfs, name: str, content_type: str) -> None:
    answer = wfs.wfs11("DescribeFeatureType", typeName="tw:towns", outputFormat=name)
    assert answer.content_type == content_type


@pytest.mark.parametrize(
    "parameters",
    [
        {"service": "WFS", "version": "1.1.0", "typename": "sf:towns", "namespace": BOUND},
        {"request": "DescribeFeatureType", "version": "1.1.0", "typename": "sf:towns", "namespace": BOUND},
        {"request": "DescribeFeatureType", "service": "WFS", "typename": "sf:towns", "namespace": BOUND},
        {
            "request": "DescribeFeatureType",
            "service": "WFS",
            "version": "1.1.0",
            "typename": "sf:Bogus",
            "namespace": BOUND,
        },
        {
            "request": "DescribeFeatureType",
            "service": "WFS",
            "version": "1.1.0",
            "typename": "tw:towns",
            "outputFormat": "x",
        },
    ],
)
def test_describe_feature_type_tc4_tc5_exceptions(wfs: Wfs, parameters: dict[str, str]) -> None:
    report(wfs.get(**parameters))


@pytest.mark.parametrize("attributes", ['version="1.1.0"', 'service="WFS"', "", 'service="WFS" version="1.1.0"'])
def test_describe_feature_type_tc3_defaults_of_attributes(wfs: Wfs, attributes: str) -> None:
    body = (
        f"<wfs:DescribeFeatureType {NS1} {attributes}><wfs:TypeName>tw:towns</wfs:TypeName></wfs:DescribeFeatureType>"
    )
    assert described(wfs.post(body, READER)) == ["towns"]


@pytest.mark.parametrize(
    "attributes", ['service="SOS" version="1.1.0"', 'service="WFS" version="9.9.9"', 'service="" version="1.1.0"']
)
def test_describe_feature_type_tc3_wrong_attributes(wfs: Wfs, attributes: str) -> None:
    body = (
        f"<wfs:DescribeFeatureType {NS1} {attributes}><wfs:TypeName>tw:towns</wfs:TypeName></wfs:DescribeFeatureType>"
    )
    assert wfs.post(body, READER).exception[0] in ("InvalidParameterValue", "MissingParameterValue")


# ---------------------------------------------------------------- GetFeature by pairs


def test_get_feature_output_formats(wfs: Wfs) -> None:
    assert wfs.wfs11("GetFeature", typeName="tw:towns").content_type == "text/xml; subtype=gml/3.1.1"
    for name in ("GML2", "text/xml; subtype=gml/2.1.2"):
        assert (
            wfs.wfs11("GetFeature", typeName="tw:towns", outputFormat=name).content_type
            == "text/xml; subtype=gml/2.1.2"
        )


def test_get_feature_tc2_extra_parameter_and_tc3_results(wfs: Wfs) -> None:
    assert len(wfs.wfs11("GetFeature", typeName="tw:towns", extra="x").ids) == 5
    assert len(wfs.wfs11("GetFeature", typeName="tw:towns", resultType="results").ids) == 5
    hits = wfs.wfs11("GetFeature", typeName="tw:towns", resultType="hits")
    assert hits.root.get("numberOfFeatures") == "5"
    assert hits.root.get("timeStamp")
    assert len(hits.root.findall(GML + "featureMember")) == 0


def test_get_feature_tc8_boxes(wfs: Wfs) -> None:
    assert wfs.wfs11(
        "GetFeature", typeName="sf:towns", namespace=BOUND, bbox="47,9,48,10,urn:ogc:def:crs:EPSG::4326"
    ).ids
    assert wfs.wfs11("GetFeature", typeName="sf:towns", namespace=BOUND, bbox="47,9,48,10").ids
    assert wfs.wfs11("GetFeature", typeName="sf:towns", namespace=BOUND, bbox="1,1,2,2").ids == []


def test_get_feature_tc10_namespace(wfs: Wfs) -> None:
    assert len(wfs.wfs11("GetFeature", typeName="sf:towns", namespace=BOUND).ids) == 5


@pytest.mark.parametrize("missing", ["service", "version", "request"])
def test_get_feature_tc23_tc44_mandatory_parameters(wfs: Wfs, missing: str) -> None:
    given = {"service": "WFS", "version": "1.1.0", "request": "GetFeature", "typename": "sf:towns", "namespace": BOUND}
    del given[missing]
    answer = wfs.get(**given)
    report(answer)
    assert answer.exception == ("MissingParameterValue", missing)


def test_get_feature_tc26_several_types(wfs: Wfs) -> None:
    ids = wfs.wfs11("GetFeature", typeName="sf:towns,sf:roads", namespace=BOUND).ids
    assert {text.partition(".")[0] for text in ids} == {"towns", "roads"}


def equal(reference: str, value: str) -> str:
    return (
        f"<ogc:PropertyIsEqualTo><ogc:PropertyName>{reference}</ogc:PropertyName><ogc:Literal>{value}</ogc:Literal>"
        "</ogc:PropertyIsEqualTo>"
    )


@pytest.mark.parametrize("reference", ["sf:name", "sf:towns/sf:name", "sf:name[1]", "/sf:towns/sf:name", "name"])
def test_get_feature_tc21_tc30_paths_and_tc22_tc31_tc32_literals(wfs: Wfs, reference: str) -> None:
    condition = equal(reference, "Vaduz")
    assert post(wfs, condition).ids == ["towns.1"]
    text = f'<ogc:Filter xmlns:ogc="http://www.opengis.net/ogc" xmlns:sf="{URI}">{condition}</ogc:Filter>'
    assert wfs.wfs11("GetFeature", typeName="sf:towns", namespace=BOUND, filter=text).ids == ["towns.1"]


def test_get_feature_tc47_wrong_names(wfs: Wfs) -> None:
    report(wfs.wfs11("GetFeature", typeName="sf:Asdf", namespace=BOUND))
    report(wfs.wfs11("GetFeature", typeName="sf:towns", namespace=BOUND, propertyName="sf:asdfProperty"))


def test_get_feature_tc50_sorting(wfs: Wfs) -> None:
    up = wfs.wfs11("GetFeature", typeName="tw:towns", sortBy="tw:population").values("population")
    assert up == ["5", "5696", "96000", "272000"]
    assert wfs.wfs11("GetFeature", typeName="tw:towns", sortBy="tw:population D").values("population") == up[::-1]


# ---------------------------------------------------------------- GetFeature by post


def test_get_feature_post_tc1_tc4_tc5(wfs: Wfs) -> None:
    answer = post(wfs)
    assert answer.root.tag == WFS1 + "FeatureCollection"
    assert answer.root.get("{http://www.w3.org/2001/XMLSchema-instance}schemaLocation")


def test_get_feature_post_tc2_hits_and_tc3_max_features(wfs: Wfs) -> None:
    assert post(wfs, root='resultType="hits"').root.get("numberOfFeatures") == "5"
    assert len(post(wfs, root='maxFeatures="2"').ids) == 2


def test_get_feature_post_tc6_tc7_tc16_exceptions(wfs: Wfs) -> None:
    def ask(body: str) -> Answer:
        answer = wfs.post(body.format(NS1), READER)
        report(answer)
        return answer

    query = '<wfs:Query typeName="tw:towns"/>'
    unsupported = ask('<wfs:GetFeatureLOL {} service="WFS" version="1.1.0">' + query + "</wfs:GetFeatureLOL>")
    assert unsupported.exception[0] == "OperationNotSupported"
    other = ask(
        '<wfs:GetFeature {} service="WFS" version="1.1.0"><x:Query xmlns:x="http://x/" typeName="tw:towns"/>'
        "</wfs:GetFeature>"
    )
    assert other.exception[0] == "MissingParameterValue"
    bogus = ask('<wfs:GetFeature {} service="WFS" version="1.1.0"><wfs:Smuery typeName="tw:towns"/></wfs:GetFeature>')
    assert bogus.exception[0] == "InvalidParameterValue"
    ask('<wfs:GetFeature {} service="SOS" version="1.1.0">' + query + "</wfs:GetFeature>")
    ask('<wfs:GetFeature {} service="WFS" version="9.9.9">' + query + "</wfs:GetFeature>")


def test_get_feature_post_tc8_tc13_types(wfs: Wfs) -> None:
    assert len(post(wfs).ids) == 5
    report(post(wfs, name="Unknown"))


@pytest.mark.parametrize("name", ["urn:ogc:def:crs:EPSG::4326", "urn:x-ogc:def:crs:EPSG:4326"])
def test_get_feature_tc14_tc17_tc28_tc49_tc210_the_crs(wfs: Wfs, name: str) -> None:
    for query in ("", f'srsName="{name}"'):
        root = post(wfs, query=query).root
        assert {e.get("srsName") for e in root.iter(GML + "Point")} == {"urn:ogc:def:crs:EPSG::4326"}
        assert next(e.text for e in root.iter(GML + "pos")) == "47.1 9.5"


@pytest.mark.parametrize("name", ["urn:ogc:def:crs:EPSG:9.99.9:99999", "urn:ogc:def:crs:ASDF:9.99:9999", "http://x/y"])
def test_get_feature_tc14_tc17_tc25_an_unknown_crs(wfs: Wfs, name: str) -> None:
    report(post(wfs, query=f'srsName="{name}"'))


def test_get_feature_tc15_by_name_and_by_projection(wfs: Wfs) -> None:
    assert post(wfs, equal("gml:name", "Vaduz")).ids == ["towns.1"]
    root = post(wfs, inside="<wfs:PropertyName>sf:name</wfs:PropertyName>").root
    assert {str(child.tag) for feature in root.iter(TW + "towns") for child in feature} == {TW + "name"}


def test_get_feature_tc27_operands_of_boxes(wfs: Wfs) -> None:
    box = (
        f"<gml:Envelope {CRS}><gml:lowerCorner>47 9</gml:lowerCorner><gml:upperCorner>48 10</gml:upperCorner>"
        "</gml:Envelope>"
    )
    assert post(wfs, f"<ogc:BBOX><ogc:PropertyName>sf:place</ogc:PropertyName>{box}</ogc:BBOX>").ids == [
        "towns.1",
        "towns.4",
    ]
    report(post(wfs, f"<ogc:BBOX><ogc:PropertyName>sf:population</ogc:PropertyName>{box}</ogc:BBOX>"))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [("47 9", "48 10", ["towns.1", "towns.4"]), ("46 14.5", "46.05 14.6", ["towns.2"]), ("0 0", "0.01 0.01", []),
     ("46 9", "48 16", ["towns.1", "towns.2", "towns.3", "towns.4"])],
)  # fmt: skip
def test_get_feature_tc29_boxes(wfs: Wfs, low: str, high: str, expected: list[str]) -> None:
    box = (
        f"<gml:Envelope {CRS}><gml:lowerCorner>{low}</gml:lowerCorner><gml:upperCorner>{high}</gml:upperCorner>"
        "</gml:Envelope>"
    )
    assert post(wfs, f"<ogc:BBOX><ogc:PropertyName>sf:place</ogc:PropertyName>{box}</ogc:BBOX>").ids == expected


def test_get_feature_tc33_tc43_ids_and_tc34_of_one_kind(wfs: Wfs) -> None:
    assert post(wfs, '<ogc:GmlObjectId gml:id="towns.1"/>').ids == ["towns.1"]
    assert post(wfs, '<ogc:GmlObjectId gml:id="towns.1"/><ogc:GmlObjectId gml:id="towns.3"/>').ids == [
        "towns.1",
        "towns.3",
    ]
    report(post(wfs, '<ogc:GmlObjectId gml:id="towns.1"/><ogc:FeatureId fid="towns.2"/>'))


def compared(operator: str, reference: str, value: str, attributes: str = "") -> str:
    return (
        f"<ogc:PropertyIs{operator} {attributes}><ogc:PropertyName>sf:{reference}</ogc:PropertyName>"
        f"<ogc:Literal>{value}"
        f"</ogc:Literal></ogc:PropertyIs{operator}>"
    )


def between(reference: str, low: str, high: str) -> str:
    return (
        f"<ogc:PropertyIsBetween><ogc:PropertyName>sf:{reference}</ogc:PropertyName><ogc:LowerBoundary>"
        f"<ogc:Literal>{low}"
        f"</ogc:Literal></ogc:LowerBoundary><ogc:UpperBoundary><ogc:Literal>{high}</ogc:Literal></ogc:UpperBoundary>"
        "</ogc:PropertyIsBetween>"
    )


LIKE = 'wildCard="*" singleChar="#" escapeChar="!"'


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        pytest.param(compared("EqualTo", "name", "Vaduz"), [1], id="tc35.1"),
        pytest.param(compared("EqualTo", "name", "VADUZ", 'matchCase="false"'), [1], id="tc35.2"),
        pytest.param(compared("EqualTo", "population", "5696"), [1], id="tc35.3"),
        pytest.param(compared("EqualTo", "height", "455.5"), [1], id="tc35.4"),
        pytest.param(compared("EqualTo", "founded", "1970-01-01"), [2], id="tc35.5"),
        pytest.param(compared("EqualTo", "capital", "1"), [1, 2], id="tc35.6"),
        pytest.param(compared("NotEqualTo", "name", "Vaduz"), [2, 3, 4], id="tc36.1"),
        pytest.param(compared("NotEqualTo", "name", "VADUZ", 'matchCase="false"'), [2, 3, 4], id="tc36.2"),
        pytest.param(compared("NotEqualTo", "population", "5696"), [2, 3, 5], id="tc36.3"),
        pytest.param(compared("NotEqualTo", "capital", "0"), [1, 2], id="tc36.4"),
        pytest.param(compared("NotEqualTo", "founded", "1970-01-01"), [1, 3, 5], id="tc36.5"),
        pytest.param(compared("LessThan", "height", "290"), [3, 5], id="tc37.1"),
        pytest.param(compared("LessThan", "population", "100"), [5], id="tc37.3"),
        pytest.param(compared("LessThan", "founded", "1970-01-01"), [1, 3], id="tc37.4"),
        pytest.param(compared("GreaterThan", "height", "290"), [1, 2], id="tc38.1"),
        pytest.param(compared("GreaterThan", "founded", "1969-12-31"), [2, 5], id="tc38.3"),
        pytest.param(compared("GreaterThan", "seen", "2026-06-28T19:08:00+02:00"), [], id="tc38.4"),
        pytest.param(compared("LessThanOrEqualTo", "height", "295"), [2, 3, 5], id="tc39.1"),
        pytest.param(compared("LessThanOrEqualTo", "height", "-200.009"), [], id="tc39.2"),
        pytest.param(compared("LessThanOrEqualTo", "population", "5696"), [1, 5], id="tc39.3"),
        pytest.param(compared("LessThanOrEqualTo", "seen", "2020-06-02T14:00:00+02:00"), [1, 2], id="tc39.4"),
        pytest.param(compared("GreaterThanOrEqualTo", "height", "295"), [1, 2], id="tc40.1"),
        pytest.param(compared("GreaterThanOrEqualTo", "founded", "2999-10-22"), [], id="tc40.3"),
        pytest.param(compared("GreaterThanOrEqualTo", "seen", "2020-06-02T14:00:00+02:00"), [2, 3, 5], id="tc40.4"),
        pytest.param(between("height", "262.25", "295"), [2, 3], id="tc41.1"),
        pytest.param(between("population", "6000", "100000"), [3], id="tc41.2"),
        pytest.param(between("founded", "1969-12-31", "1970-01-01"), [2, 3], id="tc41.3"),
        pytest.param(between("founded", "2999-09-01", "2999-11-01"), [], id="tc41.4"),
        pytest.param(compared("Like", "name", "*a*", LIKE), [1, 2, 3, 4], id="tc42.1"),
        pytest.param(compared("Like", "name", "Vad#z", LIKE), [1], id="tc42.2"),
        pytest.param(compared("Like", "name", "Vad#", LIKE), [], id="tc42.3"),
        pytest.param(("<ogc:PropertyIsNull><ogc:PropertyName>sf:name</ogc:PropertyName>"
                     "</ogc:PropertyIsNull>"), [5], id="tc45.1"),
        pytest.param(("<ogc:PropertyIsNull><ogc:PropertyName>sf:kind</ogc:PropertyName>"
                     "</ogc:PropertyIsNull>"), [], id="tc45.2"),
        # Logical operators.
        pytest.param(f"<ogc:Not>{between('population', '5', '5696')}</ogc:Not>", [2, 3], id="tc100.1"),
        pytest.param(
            f"<ogc:Not><ogc:Not>{compared('EqualTo', 'name', 'Vaduz')}</ogc:Not></ogc:Not>", [1], id="tc100.3"
        ),
        pytest.param(
            (f"<ogc:And>{compared('GreaterThan', 'population', '5')}{compared('EqualTo', 'capital', 'true')}"
            "</ogc:And>"), [1, 2],
            id="tc101",
        ),
        pytest.param(
            (f"<ogc:Or>{compared('EqualTo', 'name', 'Vaduz')}{compared('EqualTo', 'name', 'Schaan')}"
            "</ogc:Or>"), [1, 4], id="tc102",
        ),
        # Arithmetic.
        pytest.param(
            "<ogc:PropertyIsEqualTo><ogc:PropertyName>sf:population</ogc:PropertyName><ogc:Add><ogc:Literal>5000"
            "</ogc:Literal>"
            "<ogc:Literal>696</ogc:Literal></ogc:Add></ogc:PropertyIsEqualTo>", [1], id="tc300",
        ),
        pytest.param(
            "<ogc:PropertyIsGreaterThan><ogc:Mul><ogc:PropertyName>sf:height</ogc:PropertyName><ogc:Literal>2"
            "</ogc:Literal>"
            "</ogc:Mul><ogc:Literal>590</ogc:Literal></ogc:PropertyIsGreaterThan>", [1], id="tc302",
        ),
        pytest.param(
            "<ogc:PropertyIsEqualTo><ogc:Div><ogc:PropertyName>sf:population</ogc:PropertyName><ogc:Literal>2"
            "</ogc:Literal>"
            "</ogc:Div><ogc:Literal>2.5</ogc:Literal></ogc:PropertyIsEqualTo>", [5], id="tc303",
        ),
        pytest.param(
            "<ogc:PropertyIsEqualTo><ogc:Sub><ogc:PropertyName>sf:population</ogc:PropertyName><ogc:Literal>6"
            "</ogc:Literal>"
            "</ogc:Sub><ogc:Literal>-1</ogc:Literal></ogc:PropertyIsEqualTo>", [5], id="tc304",
        ),
    ],
)  # fmt: skip
def test_get_feature_filters(wfs: Wfs, condition: str, expected: list[int]) -> None:
    assert post(wfs, condition).ids == [f"towns.{number}" for number in expected]


def test_get_feature_tc301_an_unknown_function(wfs: Wfs) -> None:
    report(
        post(
            wfs,
            "<ogc:PropertyIsEqualTo><ogc:Function name='bogus'/><ogc:Literal>1</ogc:Literal></ogc:PropertyIsEqualTo>",
        )
    )


# West: 9.45-9.55 E, 47.05-47.2 N. East: 14-16 E, 46-47 N with a hole of 14.9-15 E, 46.4-46.5 N.
SQUARE = (
    "<gml:Polygon {}><gml:exterior><gml:LinearRing><gml:posList>{} {} {} {} {} {} {} {} {} {}</gml:posList>"
    "</gml:LinearRing></gml:exterior></gml:Polygon>"
)


def square(south: float, west: float, north: float, east: float) -> str:
    return SQUARE.format(CRS, south, west, south, east, north, east, north, west, south, west)


def line(text: str) -> str:
    return f"<gml:LineString {CRS}><gml:posList>{text}</gml:posList></gml:LineString>"


def dot(text: str) -> str:
    return f"<gml:Point {CRS}><gml:pos>{text}</gml:pos></gml:Point>"


@pytest.mark.parametrize(
    ("operator", "name", "reference", "geometry", "expected"),
    [
        pytest.param("Disjoint", "areas", "area", square(47, 9, 48, 10), ["areas.22"], id="tc200.1"),
        pytest.param("Disjoint", "towns", "place", square(47, 9, 48, 10), ["towns.2", "towns.3"], id="tc200.2"),
        pytest.param("Intersects", "areas", "area", line("47 9.5 47.1 9.5"), ["areas.21"], id="tc201.1"),
        pytest.param("Intersects", "roads", "course", square(47, 9, 47.05, 10), ["roads.11"], id="tc201.2"),
        pytest.param("Intersects", "areas", "area", dot("46.45 14.95"), [], id="tc201.3 in the hole"),
        pytest.param("Within", "towns", "place", square(46, 14, 46.2, 15), ["towns.2"], id="tc203.1"),
        pytest.param("Within", "areas", "area", square(47, 9, 48, 10), ["areas.21"], id="tc203.2"),
        pytest.param("Overlaps", "areas", "area", square(47, 9.5, 48, 10), ["areas.21"], id="tc204.1"),
        pytest.param("Overlaps", "areas", "area", square(47, 9, 48, 10), [], id="tc204.2"),
        pytest.param("Equals", "towns", "place", dot("46.05 14.5"), ["towns.2"], id="tc205.1"),
        pytest.param("Equals", "areas", "area", square(47.05, 9.45, 47.2, 9.55), ["areas.21"], id="tc205.2"),
        pytest.param("Contains", "areas", "area", dot("46.05 14.5"), ["areas.22"], id="tc206.1"),
        pytest.param("Contains", "areas", "area", square(47.1, 9.5, 47.15, 9.52), ["areas.21"], id="tc206.2"),
        pytest.param("Touches", "areas", "area", square(47, 9.55, 47.3, 9.7), ["areas.21"], id="tc207.1"),
        pytest.param("Touches", "roads", "course", dot("47.0 9.4"), ["roads.11"], id="tc207.2"),
        pytest.param("Crosses", "roads", "course", line("47.2 9.4 47.0 9.6"), ["roads.11"], id="tc208.1"),
        pytest.param("Crosses", "areas", "area", line("47.1 9 47.1 10"), ["areas.21"], id="tc208.2"),
    ],
)
def test_get_feature_spatial_filters(
    wfs: Wfs, operator: str, name: str, reference: str, geometry: str, expected: list[str]
) -> None:
    condition = f"<ogc:{operator}><ogc:PropertyName>sf:{reference}</ogc:PropertyName>{geometry}</ogc:{operator}>"
    assert post(wfs, condition, name).ids == expected


@pytest.mark.parametrize(
    ("reference", "geometry"),
    [("sf:place", "<gml:Solid/>"), ("sf:place", "<gml:Arc/>"), ("sf:nothing", dot("1 2")), ("sf:name", dot("1 2"))],
)
def test_get_feature_tc200_4_tc202_tc203_3_operands_that_cannot_be(wfs: Wfs, reference: str, geometry: str) -> None:
    answer = post(wfs, f"<ogc:Intersects><ogc:PropertyName>{reference}</ogc:PropertyName>{geometry}</ogc:Intersects>")
    report(answer)
    assert answer.exception[0] == "InvalidParameterValue"


def test_get_feature_tc209_other_crs(wfs: Wfs) -> None:
    """Maribor in UTM zone 33 (EPSG:32633): 15.65 E is 0.65 degrees from its meridian, 500 km and 0.65 of 76.6 km."""
    answer = post(wfs, '<ogc:FeatureId fid="towns.3"/>', query='srsName="urn:ogc:def:crs:EPSG::32633"')
    east, north = map(float, next(answer.root.iter(GML + "pos")).text.split())  # type: ignore[union-attr]
    assert (east, north) == (pytest.approx(549_850, abs=400), pytest.approx(5_155_300, abs=1_000))


# ---------------------------------------------------------------- transactions and locks


def transaction(own: Wfs, content: str) -> Answer:
    return own.post(f'<wfs:Transaction {NS1} service="WFS" version="1.1.0">{content}</wfs:Transaction>', WRITER)


def inserted(answer: Answer) -> list[str | None]:
    return [e.get("fid") for e in answer.root.iter(OGC + "FeatureId")]


def insert(idgen: str, *ids: str) -> str:
    features = "".join(f'<tw:roads gml:id="{text}"><tw:ref>N</tw:ref></tw:roads>' for text in ids)
    return f'<wfs:Insert idgen="{idgen}">{features}</wfs:Insert>'


def test_transaction_idgen(own: Wfs) -> None:
    first = inserted(transaction(own, insert("GenerateNew", "roads.11", "x")))
    assert first == ["roads.13", "roads.14"]
    assert inserted(transaction(own, insert("UseExisting", "roads.70", "roads.71"))) == ["roads.70", "roads.71"]
    report(transaction(own, insert("UseExisting", "roads.72", "roads.11")))
    assert own.wfs11("GetFeature", typeName="tw:roads", featureId="roads.72").ids == []


def test_transaction_with_an_invalid_lock(own: Wfs) -> None:
    answer = transaction(own, '<wfs:LockId>bogus</wfs:LockId><wfs:Delete typeName="tw:roads"><ogc:Filter>'
                              '<ogc:FeatureId '
                              'fid="roads.11"/></ogc:Filter></wfs:Delete>')  # fmt: skip
    report(answer)
    assert answer.exception[0] == "InvalidLockId"


def lock(own: Wfs, ids: list[str], attributes: str = "") -> Answer:
    filters = "".join(f'<ogc:FeatureId fid="{text}"/>' for text in ids)
    condition = f"<ogc:Filter>{filters}</ogc:Filter>" if ids else ""
    return own.post(
        f'<wfs:LockFeature {NS1} service="WFS" version="1.1.0" {attributes}><wfs:Lock typeName="tw:roads">{condition}'
        "</wfs:Lock></wfs:LockFeature>",
        WRITER,
    )


def test_lock_feature(own: Wfs) -> None:
    answer = lock(own, ["roads.11"])
    assert answer.root.findtext(WFS1 + "LockId")
    assert inserted(answer) == ["roads.11"]
    some = lock(own, ["roads.11", "roads.12"], 'lockAction="SOME"')
    locked, refused = some.root.find(WFS1 + "FeaturesLocked"), some.root.find(WFS1 + "FeaturesNotLocked")
    assert locked is not None
    assert refused is not None
    assert ([e.get("fid") for e in locked], [e.get("fid") for e in refused]) == (["roads.12"], ["roads.11"])
    none = lock(own, ["roads.99"])
    assert none.root.findtext(WFS1 + "LockId")
    assert len(none.root) == 1
    report(own.post(f'<wfs:LockFeature {NS1} service="WFS" version="1.1.0"/>', WRITER))


def test_lock_feature_expiry(own: Wfs) -> None:
    """The suite waits for a minute; the store's clock is asked here with the door's own lock of a second."""
    from thalweg.domain.features import LockTarget

    layer = next(item for item in own.services.features.layers(own.catalogue, WRITER) if item.name == "roads")
    own.services.features.lock_features([LockTarget(layer.id)], 0.5, WRITER.name).result(10)
    delete = '<wfs:Delete typeName="tw:roads"><ogc:Filter><ogc:FeatureId fid="roads.11"/></ogc:Filter></wfs:Delete>'
    report(transaction(own, delete))
    time.sleep(0.7)
    assert transaction(own, delete).root.findtext(f".//{WFS1}totalDeleted") == "1"
