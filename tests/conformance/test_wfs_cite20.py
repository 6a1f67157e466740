"""The assertions of OGC's test suite for WFS 2.0 (ets-wfs20), one test for each, told over the door's own requests.

Names are the suite's: class and method. Bindings and feature types that the suite goes through are parameters. The
state of all of them is in the door's README; what does not apply is there, too.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lxml import etree
from tests.conformance.door_support import Validator
from tests.conformance.wfs_support import (
    FES2,
    GML32,
    NS20,
    OWS11,
    READER,
    TW,
    URI,
    WFS2,
    WRITER,
    XSD,
    Answer,
    Wfs,
    fresh,
    small,
)

BINDINGS = ["GET", "POST", "SOAP"]
TYPES = ["towns", "roads", "areas", "swiss", "notes"]
SPATIAL = ["towns", "roads", "areas", "swiss"]
BY_ID = "urn:ogc:def:query:OGC-WFS::GetFeatureById"
XSI_NIL = "{http://www.w3.org/2001/XMLSchema-instance}nil"
# As the suite does, with a prefix of its own.
BOUND = f"xmlns(ns67,{URI})"


@pytest.fixture(scope="module")
def wfs(tmp_path_factory: pytest.TempPathFactory, schemas: Validator) -> Iterator[Wfs]:
    made = small(Wfs(tmp_path_factory.mktemp("cite"), schemas))
    yield made
    made.close()


@pytest.fixture
def own(tmp_path: Path, schemas: Validator) -> Iterator[Wfs]:
    """For tests that change something."""
    made = fresh(tmp_path, schemas)
    yield made
    made.close()


def get_feature(wfs: Wfs, binding: str, name: str, condition: str = "", *, query: str = "", **more: str) -> Answer:
    """A GetFeature in one of the bindings; ``query``: attributes of wfs:Query."""
    content = f"<fes:Filter>{condition}</fes:Filter>" if condition else ""
    if binding == "GET":
        parameters = more | {"typeNames": f"ns67:{name}", "namespaces": f"{BOUND},xmlns(tw,{URI})"}
        if content:
            # The suite serialises the filter with the prefixes it needs.
            parameters["filter"] = content.replace("<fes:Filter>", f"<fes:Filter {NS20}>", 1)
        match = re.fullmatch(r'srsName="(.*)"', query)
        if match:
            parameters["srsName"] = match[1]
        return wfs.wfs2("GetFeature", **parameters)
    attributes = "".join(f' {key}="{value}"' for key, value in more.items())
    body = (
        f'<wfs:GetFeature {NS20} xmlns:ns67="{URI}" service="WFS" version="2.0.0"{attributes}>'
        f'<wfs:Query typeNames="ns67:{name}" {query}>{content}</wfs:Query></wfs:GetFeature>'
    )
    return send(wfs, binding, body)


def send(wfs: Wfs, binding: str, body: str) -> Answer:
    if binding == "POST":
        return wfs.post(body, READER)
    uri = "http://www.w3.org/2003/05/soap-envelope"
    answer = wfs.post(f'<s:Envelope xmlns:s="{uri}"><s:Body>{body}</s:Body></s:Envelope>', READER, check=False)
    inside = answer.root.find(f"{{{uri}}}Body")
    assert inside is not None
    content = inside[0]
    if content.tag == f"{{{uri}}}Fault":
        content = next(content.iter(OWS11 + "ExceptionReport"))
    inner = Answer(answer.status, "application/xml", etree.tostring(content))
    wfs.check(inner)
    return inner


def stored(wfs: Wfs, binding: str, query: str, **values: str) -> Answer:
    if binding == "GET":
        return wfs.wfs2("GetFeature", storedQuery_id=query, **values)
    content = "".join(f'<wfs:Parameter name="{name}">{value}</wfs:Parameter>' for name, value in values.items())
    return send(
        wfs, binding,
        f'<wfs:GetFeature {NS20} service="WFS" version="2.0.0"><wfs:StoredQuery id="{query}">{content}'
        "</wfs:StoredQuery></wfs:GetFeature>",
    )  # fmt: skip


def only_of(answer: Answer, name: str) -> list[etree._Element]:
    """The features, all of one type."""
    assert answer.status == 200, answer.body
    assert answer.root.tag == WFS2 + "FeatureCollection"
    found = [member[0] for member in answer.root.findall(WFS2 + "member")]
    assert all(feature.tag == TW + name for feature in found)
    return found


def compared(operator: str, name: str, value: str, attributes: str = "") -> str:
    return (
        f"<fes:PropertyIs{operator} {attributes}><fes:ValueReference>tw:{name}</fes:ValueReference>"
        f"<fes:Literal>{value}</fes:Literal></fes:PropertyIs{operator}>"
    )


def capabilities(wfs: Wfs) -> etree._Element:
    return wfs.get(service="WFS", version="2.0.0", request="GetCapabilities").root


def constraint(root: etree._Element, name: str) -> str:
    for element in root.iter(OWS11 + "Constraint", FES2 + "Constraint"):
        if element.get("name") == name:
            return str(element.findtext(OWS11 + "DefaultValue"))
    raise AssertionError(name)


def operation(root: etree._Element, name: str) -> etree._Element:
    return next(element for element in root.iter(OWS11 + "Operation") if element.get("name") == name)


# ---------------------------------------------------------------- preconditions


def test_suite_preconditions_verify_service_description(wfs: Wfs) -> None:
    root = capabilities(wfs)
    assert root.tag == WFS2 + "WFS_Capabilities"
    assert root.get("version") == "2.0.0"


def test_suite_preconditions_service_is_available(wfs: Wfs) -> None:
    address = operation(capabilities(wfs), "GetCapabilities").find(f".//{OWS11}Get")
    assert address is not None
    assert address.get("{http://www.w3.org/1999/xlink}href") == "http://x.org/wfs?"


def test_suite_preconditions_data_are_available(wfs: Wfs) -> None:
    names = [element.text for element in capabilities(wfs).iter(WFS2 + "Name")]
    assert names == [f"tw:{name}" for name in sorted(TYPES)]
    assert all(get_feature(wfs, "GET", str(name)[3:], count="1").returned == 1 for name in names)


# ---------------------------------------------------------------- simple


def test_simple_capabilities_get_capabilities_missing_service_param(wfs: Wfs) -> None:
    answer = wfs.get(request="GetCapabilities")
    assert (answer.status, answer.exception) == (400, ("MissingParameterValue", "service"))


def test_simple_capabilities_get_full_capabilities(wfs: Wfs) -> None:
    root = wfs.get(service="WFS", request="GetCapabilities").root
    assert {child.tag.rpartition("}")[2] for child in root} >= {
        "ServiceIdentification", "ServiceProvider", "OperationsMetadata", "FeatureTypeList", "Filter_Capabilities",
    }  # fmt: skip


def test_simple_capabilities_get_capabilities_accept_versions(wfs: Wfs) -> None:
    answer = wfs.get(service="WFS", request="GetCapabilities", acceptVersions="10.0.0,2.0.0,1.1.0")
    assert answer.root.get("version") == "2.0.0"
    body = (
        '<GetCapabilities xmlns="http://www.opengis.net/wfs/2.0" xmlns:ows="http://www.opengis.net/ows/1.1" '
        'service="WFS"><ows:AcceptVersions><ows:Version>10.0.0</ows:Version><ows:Version>2.0.0</ows:Version>'
        "<ows:Version>1.1.0</ows:Version></ows:AcceptVersions></GetCapabilities>"
    )
    assert wfs.post(body, READER).root.get("version") == "2.0.0"


def test_service_metadata_capabilities_doc_is_xml_schema_valid(wfs: Wfs) -> None:
    answer = wfs.get(service="WFS", request="GetCapabilities", version="2.0.0")
    assert wfs.schemas.validate(answer.body) == []


def test_service_metadata_capabilities_doc_corresponds_to_wfs_simple(wfs: Wfs) -> None:
    root = capabilities(wfs)
    for name in (
        "ImplementsBasicWFS", "ImplementsTransactionalWFS", "ImplementsLockingWFS", "ImplementsInheritance",
        "ImplementsRemoteResolve", "ImplementsResultPaging", "ImplementsStandardJoins", "ImplementsSpatialJoins",
        "ImplementsTemporalJoins", "ImplementsFeatureVersioning", "ManageStoredQueries",
    ):  # fmt: skip
        assert constraint(root, name) in ("TRUE", "FALSE")
    for name in ("GetCapabilities", "DescribeFeatureType", "ListStoredQueries", "DescribeStoredQueries", "GetFeature"):
        assert operation(root, name) is not None
    assert constraint(root, "ImplementsQuery") == "TRUE"
    for name in ("GetFeature", "GetFeatureWithLock", "GetPropertyValue"):
        values = [e.text for p in operation(root, name) if p.get("name") == "resolve" for e in p.iter(OWS11 + "Value")]
        assert "local" in values
    assert root.findtext(f".//{OWS11}ServiceType") == "WFS"


def test_describe_feature_type_describe_all_feature_types(wfs: Wfs) -> None:
    root = wfs.wfs2("DescribeFeatureType").root
    assert root.get("targetNamespace") == URI
    assert [element.get("name") for element in root.findall(XSD + "element")] == sorted(TYPES)


def test_describe_feature_type_describe_unknown_feature_type(wfs: Wfs) -> None:
    for answer in (
        wfs.wfs2("DescribeFeatureType", typeNames="ns1:Unknown1.Type", namespaces="xmlns(ns1,http://example.org/ns1)"),
        wfs.post(
            f'<wfs:DescribeFeatureType {NS20} service="WFS" version="2.0.0"><wfs:TypeName '
            'xmlns:ns1="http://example.org/ns1">ns1:Unknown1.Type</wfs:TypeName></wfs:DescribeFeatureType>',
            READER,
        ),
    ):
        assert (answer.status, answer.exception[0]) == (400, "InvalidParameterValue")


def test_list_stored_queries_list_stored_queries(wfs: Wfs) -> None:
    root = wfs.wfs2("ListStoredQueries").root
    assert BY_ID in [query.get("id") for query in root.findall(WFS2 + "StoredQuery")]


def test_describe_stored_queries_describe_all_stored_queries(wfs: Wfs) -> None:
    assert len(wfs.wfs2("DescribeStoredQueries").root) == 2


def test_describe_stored_queries_describe_stored_query_get_feature_by_id(wfs: Wfs) -> None:
    for answer in (
        wfs.wfs2("DescribeStoredQueries", storedQuery_id=BY_ID),
        wfs.post(
            f'<wfs:DescribeStoredQueries {NS20} service="WFS" version="2.0.0"><wfs:StoredQueryId>{BY_ID}'
            "</wfs:StoredQueryId></wfs:DescribeStoredQueries>",
            READER,
        ),
    ):
        (description,) = answer.root
        assert description.get("id") == BY_ID
        assert [p.get("name") for p in description.findall(WFS2 + "Parameter")] == ["id"]


@pytest.mark.parametrize("binding", BINDINGS)
def test_stored_query_unknown_stored_query(wfs: Wfs, binding: str) -> None:
    answer = stored(wfs, binding, "http://docbook.org/ns/docbook")
    assert (answer.status, answer.exception[0]) == (400, "InvalidParameterValue")


@pytest.mark.parametrize("binding", BINDINGS)
def test_stored_query_invoke_get_feature_by_id_with_unknown_id(wfs: Wfs, binding: str) -> None:
    answer = stored(wfs, binding, BY_ID, id="uuid-0c8e6f9e")
    assert (answer.status, answer.exception[0]) == (404, "NotFound")


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("feature", ["towns.2", "roads.11", "notes.1"])
def test_stored_query_invoke_get_feature_by_id(wfs: Wfs, binding: str, feature: str) -> None:
    root = stored(wfs, binding, BY_ID, id=feature).root
    assert (root.tag, root.get(GML32 + "id")) == (TW + feature.partition(".")[0], feature)


# ---------------------------------------------------------------- basic


def test_basic_capabilities_describes_basic_wfs(wfs: Wfs) -> None:
    root = capabilities(wfs)
    assert constraint(root, "ImplementsBasicWFS") == "TRUE"
    assert operation(root, "GetPropertyValue") is not None
    for name in (
        "ImplementsAdHocQuery", "ImplementsResourceId", "ImplementsMinStandardFilter", "ImplementsStandardFilter",
        "ImplementsMinSpatialFilter", "ImplementsSorting", "ImplementsMinimumXPath",
    ):  # fmt: skip
        assert constraint(root, name) == "TRUE"


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("name", TYPES)
def test_basic_get_feature_get_features_by_type(wfs: Wfs, binding: str, name: str) -> None:
    assert only_of(get_feature(wfs, binding, name), name)


@pytest.mark.parametrize("name", SPATIAL)
def test_basic_get_feature_get_feature_in_other_crs(wfs: Wfs, name: str) -> None:
    """Every CRS listed for the type comes back as asked for."""
    listed = next(e for e in capabilities(wfs).iter(WFS2 + "FeatureType") if e.findtext(WFS2 + "Name") == f"tw:{name}")
    others = [str(e.text) for e in listed.findall(WFS2 + "OtherCRS")]
    assert others
    for other in others:
        root = get_feature(wfs, "POST", name, query=f'srsName="{other}"').root
        assert {e.get("srsName") for e in root.iter() if e.get("srsName")} == {other}


@pytest.mark.parametrize("binding", BINDINGS)
def test_basic_get_feature_get_feature_in_unsupported_crs(wfs: Wfs, binding: str) -> None:
    for name in ("urn:ogc:def:crs:EPSG::32690", "http://www.opengis.net/def/crs/EPSG/0/32690"):
        answer = get_feature(wfs, binding, "towns", query=f'srsName="{name}"')
        assert (answer.status, answer.exception) == (400, ("InvalidParameterValue", "srsName"))


@pytest.mark.parametrize("name", TYPES)
def test_get_property_value_get_property_gml_id(wfs: Wfs, name: str) -> None:
    body = (
        f'<wfs:GetPropertyValue {NS20} service="WFS" version="2.0.0" valueReference="@gml:id"><wfs:Query '
        f'typeNames="tw:{name}"/></wfs:GetPropertyValue>'
    )
    values = [member.text for member in wfs.post(body, READER).root]
    assert values == get_feature(wfs, "GET", name).ids


def test_get_property_value_get_property_empty_value_ref(wfs: Wfs) -> None:
    body = (
        f'<wfs:GetPropertyValue {NS20} service="WFS" version="2.0.0" valueReference=""><wfs:Query '
        'typeNames="tw:towns"/></wfs:GetPropertyValue>'
    )
    for answer in (wfs.post(body, READER), wfs.wfs2("GetPropertyValue", typeNames="tw:towns", valueReference="")):
        assert answer.exception == ("InvalidParameterValue", "valueReference")


def populations(answer: Answer) -> list[int]:
    return [int(str(feature.findtext(TW + "population"))) for feature in only_of(answer, "towns")]


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize(
    ("operator", "action", "expected"),
    [
        ("LessThan", "Any", [5]),
        ("LessThan", "All", [5]),
        ("LessThanOrEqualTo", "Any", [5696, 5]),
        ("GreaterThan", "Any", [272000, 96000]),
        ("GreaterThanOrEqualTo", "Any", [5696, 272000, 96000]),
    ],
    ids=["propertyIsLessThan_matchAny", "propertyIsLessThan_matchAll", "propertyIsLessThanEqualTo_matchAny",
         "propertyIsGreaterThan_matchAny", "propertyIsGreaterThanEqualTo_matchAny"],
)  # fmt: skip
def test_comparison_operators(wfs: Wfs, binding: str, operator: str, action: str, expected: list[int]) -> None:
    condition = compared(operator, "population", "5696", f'matchAction="{action}"')
    assert populations(get_feature(wfs, binding, "towns", condition)) == expected


@pytest.mark.parametrize("name", TYPES)
def test_comparison_operators_invalid_property_reference(wfs: Wfs, name: str) -> None:
    answer = get_feature(wfs, "POST", name, compared("EqualTo", "undefined", "1355941270240"))
    assert (answer.status, answer.exception[0]) == (400, "InvalidParameterValue")


@pytest.mark.parametrize("name", SPATIAL)
def test_comparison_operators_invalid_operand_bounded_by(wfs: Wfs, name: str) -> None:
    condition = (
        "<fes:PropertyIsLessThanOrEqualTo><fes:Literal><gml:Point srsName='urn:ogc:def:crs:EPSG::4326' gml:id='p'>"
        "<gml:pos>49.25 -123.1</gml:pos></gml:Point></fes:Literal><fes:ValueReference>gml:boundedBy"
        "</fes:ValueReference></fes:PropertyIsLessThanOrEqualTo>"
    )
    answer = get_feature(wfs, "POST", name, condition)
    assert answer.status in (400, 403)
    assert answer.exception[0] == "OperationProcessingFailed"


def names(answer: Answer) -> list[str | None]:
    return [feature.findtext(TW + "name") for feature in only_of(answer, "towns")]


@pytest.mark.parametrize("binding", BINDINGS)
def test_property_is_equal_to_case_sensitive(wfs: Wfs, binding: str) -> None:
    assert names(get_feature(wfs, binding, "towns", compared("EqualTo", "name", "Vaduz", 'matchCase="true"'))) == [
        "Vaduz"
    ]
    assert names(get_feature(wfs, binding, "towns", compared("EqualTo", "name", "vaduz", 'matchCase="true"'))) == []


@pytest.mark.parametrize("binding", BINDINGS)
def test_property_is_not_equal_to_case_sensitive(wfs: Wfs, binding: str) -> None:
    found = names(get_feature(wfs, binding, "towns", compared("NotEqualTo", "name", "vaduz", 'matchCase="true"')))
    assert found == ["Vaduz", "Ljubljana", "Maribor & <Ost>", "Schaan"]
    assert (
        names(get_feature(wfs, binding, "towns", compared("NotEqualTo", "name", "Vaduz", 'matchCase="true"')))
        == found[1:]
    )


LIKE = 'wildCard="*" singleChar="?" escapeChar="\\"'


@pytest.mark.parametrize("binding", BINDINGS)
def test_property_is_like(wfs: Wfs, binding: str) -> None:
    assert names(get_feature(wfs, binding, "towns", compared("Like", "name", "*adu?", LIKE))) == ["Vaduz"]


@pytest.mark.parametrize("binding", BINDINGS)
def test_property_is_not_like(wfs: Wfs, binding: str) -> None:
    condition = f"<fes:Not>{compared('Like', 'name', '*adu?', LIKE)}</fes:Not>"
    assert names(get_feature(wfs, binding, "towns", condition)) == ["Ljubljana", "Maribor & <Ost>", "Schaan"]


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize(("name", "last"), [("towns", "seen"), ("roads", "town"), ("areas", "use"), ("swiss", "name")])
def test_property_is_nil(wfs: Wfs, binding: str, name: str, last: str) -> None:
    """Only features with xsi:nil="true"; missing values are left out here, so that none has."""
    condition = f"<fes:PropertyIsNil><fes:ValueReference>tw:{last}</fes:ValueReference></fes:PropertyIsNil>"
    found = only_of(get_feature(wfs, binding, name, condition), name)
    assert all(feature.find(TW + last).get(XSI_NIL) == "true" for feature in found)  # type: ignore[union-attr]


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("name", TYPES)
def test_property_is_null_gml_name_is_null(wfs: Wfs, binding: str, name: str) -> None:
    condition = "<fes:PropertyIsNull><fes:ValueReference>gml:name</fes:ValueReference></fes:PropertyIsNull>"
    found = only_of(get_feature(wfs, binding, name, condition), name)
    assert all(feature.find(GML32 + "name") is None for feature in found)


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize(("name", "last"), [("towns", "seen"), ("roads", "town"), ("areas", "use"), ("notes", "text")])
def test_property_is_null_property_is_not_null(wfs: Wfs, binding: str, name: str, last: str) -> None:
    condition = (
        f"<fes:Not><fes:PropertyIsNull><fes:ValueReference>tw:{last}</fes:ValueReference>"
        "</fes:PropertyIsNull></fes:Not>"
    )
    found = only_of(get_feature(wfs, binding, name, condition), name)
    assert found
    assert all(feature.find(TW + last) is not None for feature in found)


@pytest.mark.parametrize("binding", BINDINGS)
def test_resource_id_filter_two_valid_feature_identifiers(wfs: Wfs, binding: str) -> None:
    condition = '<fes:ResourceId rid="towns.3"/><fes:ResourceId rid="towns.1"/>'
    assert sorted(get_feature(wfs, binding, "towns", condition).ids) == ["towns.1", "towns.3"]


@pytest.mark.parametrize("binding", BINDINGS)
def test_resource_id_filter_unknown_feature_identifier(wfs: Wfs, binding: str) -> None:
    assert only_of(get_feature(wfs, binding, "towns", '<fes:ResourceId rid="test-0c8e6f9e"/>'), "towns") == []


@pytest.mark.parametrize("binding", BINDINGS)
def test_resource_id_filter_inconsistent_feature_identifier_and_type(wfs: Wfs, binding: str) -> None:
    answer = get_feature(wfs, binding, "towns", '<fes:ResourceId rid="roads.11"/>')
    assert answer.exception == ("InvalidParameterValue", "RESOURCEID")


# ---------------------------------------------------------------- spatial, temporal

EXTENTS = {"towns": "45.9 9 47.3 16", "roads": "45.9 9 47.3 16", "areas": "45.9 9 47.3 16", "swiss": "46 7 47 8"}


def box(name: str) -> str:
    low, high = EXTENTS[name].split()[:2], EXTENTS[name].split()[2:]
    return (
        '<gml:Envelope srsName="urn:ogc:def:crs:EPSG::4326"><gml:lowerCorner>' + " ".join(low)
        + "</gml:lowerCorner><gml:upperCorner>" + " ".join(high) + "</gml:upperCorner></gml:Envelope>"
    )  # fmt: skip


GEOMETRY = {"towns": "place", "roads": "course", "areas": "area", "swiss": "geometry"}
ALL_WITH_GEOMETRY = {"towns": 4, "roads": 2, "areas": 2, "swiss": 1}


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("name", SPATIAL)
def test_bbox_non_specific_bbox(wfs: Wfs, binding: str, name: str) -> None:
    found = only_of(get_feature(wfs, binding, name, f"<fes:BBOX>{box(name)}</fes:BBOX>"), name)
    assert len(found) == ALL_WITH_GEOMETRY[name]


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("name", SPATIAL)
def test_bbox_with_default_extent(wfs: Wfs, binding: str, name: str) -> None:
    condition = f"<fes:BBOX><fes:ValueReference>tw:{GEOMETRY[name]}</fes:ValueReference>{box(name)}</fes:BBOX>"
    assert len(only_of(get_feature(wfs, binding, name, condition), name)) == ALL_WITH_GEOMETRY[name]


@pytest.mark.parametrize("name", SPATIAL)
def test_bbox_invalid_geometry_operand(wfs: Wfs, name: str) -> None:
    condition = f"<fes:BBOX><fes:ValueReference>gml:description</fes:ValueReference>{box(name)}</fes:BBOX>"
    answer = get_feature(wfs, "POST", name, condition)
    assert (answer.status, answer.exception[0]) == (400, "InvalidParameterValue")


def test_intersects_polygon(wfs: Wfs) -> None:
    condition = (
        "<fes:Intersects><fes:ValueReference>tw:place</fes:ValueReference><gml:Polygon gml:id='p' "
        "srsName='urn:ogc:def:crs:EPSG::4326'><gml:exterior><gml:LinearRing><gml:posList>47 9 47 10 48 10 48 9 47 9"
        "</gml:posList></gml:LinearRing></gml:exterior></gml:Polygon></fes:Intersects>"
    )
    assert get_feature(wfs, "POST", "towns", condition).ids == ["towns.1", "towns.4"]


def test_intersects_curve(wfs: Wfs) -> None:
    for line in (
        "<gml:LineString {}><gml:posList>47 9.5 47.2 9.5</gml:posList></gml:LineString>",
        "<gml:Curve {}><gml:segments><gml:LineStringSegment><gml:posList>47 9.5 47.2 9.5</gml:posList>"
        "</gml:LineStringSegment></gml:segments></gml:Curve>",
    ):
        curve = line.format("gml:id='c' srsName='urn:ogc:def:crs:EPSG::4326'")
        condition = f"<fes:Intersects><fes:ValueReference>tw:area</fes:ValueReference>{curve}</fes:Intersects>"
        assert get_feature(wfs, "POST", "areas", condition).ids == ["areas.21"]


def instant(text: str) -> str:
    return f"<gml:TimeInstant gml:id='t'><gml:timePosition>{text}</gml:timePosition></gml:TimeInstant>"


def period(begin: str, end: str) -> str:
    return (
        f"<gml:TimePeriod gml:id='t'><gml:beginPosition>{begin}</gml:beginPosition><gml:endPosition>{end}"
        "</gml:endPosition></gml:TimePeriod>"
    )


@pytest.mark.parametrize(
    ("operator", "time_", "expected"),
    [
        ("After", period("2020-06-01T00:00:00Z", "2020-06-02T13:00:00Z"), ["towns.3", "towns.5"]),
        ("After", instant("2020-06-02T12:00:00Z"), ["towns.3", "towns.5"]),
        # 14:00 at two hours east of Greenwich is noon UTC.
        ("After", instant("2020-06-02T14:00:00+02:00"), ["towns.3", "towns.5"]),
        ("Before", period("2020-06-02T12:00:00Z", "2020-06-09T00:00:00Z"), ["towns.1"]),
        ("During", period("2020-06-01T13:00:00Z", "2020-06-04T00:00:00Z"), ["towns.2", "towns.3"]),
    ],
    ids=["afterPeriod", "afterInstant", "afterInstantWithOffset", "beforePeriod", "duringPeriod"],
)
@pytest.mark.parametrize("binding", BINDINGS)
def test_temporal_filters(wfs: Wfs, binding: str, operator: str, time_: str, expected: list[str]) -> None:
    condition = f"<fes:{operator}><fes:ValueReference>tw:seen</fes:ValueReference>{time_}</fes:{operator}>"
    assert get_feature(wfs, binding, "towns", condition).ids == expected


def test_spatial_join_join_with_intersects(wfs: Wfs) -> None:
    body = (
        f'<wfs:GetFeature {NS20} service="WFS" version="2.0.0"><wfs:Query xmlns:ns42="{URI}" typeNames="ns42:areas '
        'ns42:roads"><fes:Filter><fes:Intersects><fes:ValueReference>ns42:areas/ns42:area</fes:ValueReference>'
        "<fes:ValueReference>ns42:roads/ns42:course</fes:ValueReference></fes:Intersects></fes:Filter></wfs:Query>"
        "</wfs:GetFeature>"
    )
    root = wfs.post(body, READER).root
    assert [len(item) for item in root.iter(WFS2 + "Tuple")] == [2, 2]
    assert next(root.iter(TW + "areas")) is not None
    assert next(root.iter(TW + "roads")) is not None


# ---------------------------------------------------------------- transactions


def test_transaction_capabilities_describes_transactional_wfs(wfs: Wfs) -> None:
    root = capabilities(wfs)
    assert operation(root, "Transaction") is not None
    assert constraint(root, "ImplementsTransactionalWFS") == "TRUE"


@pytest.mark.parametrize("name", TYPES)
def test_insert_insert_supported_feature(own: Wfs, name: str) -> None:
    """A copy of an existing feature with another gml:id and a gml:identifier."""
    feature = only_of(get_feature(own, "GET", name, count="1"), name)[0]
    feature.set(GML32 + "id", "id-1355941270240")
    identifier = etree.Element(GML32 + "identifier", codeSpace="http://cite.opengeospatial.org/")
    identifier.text = "0c8e6f9e"
    feature.insert(0, identifier)
    answer = own.transaction(f"<wfs:Insert>{etree.tostring(feature, encoding='unicode')}</wfs:Insert>")
    assert answer.status == 200
    rid = answer.root.find(f"{WFS2}InsertResults/{WFS2}Feature/{FES2}ResourceId").get("rid")  # type: ignore[union-attr]
    assert stored(own, "GET", BY_ID, id=str(rid)).status == 200
    assert answer.root.findtext(f".//{WFS2}totalInserted") == "1"


def test_insert_insert_invalid_feature(own: Wfs) -> None:
    answer = own.transaction(
        '<wfs:Insert><tns:Airport xmlns:tns="http://example.org" gml:id="YVR"><gml:identifier '
        'codeSpace="http://www.iata.org/">YVR</gml:identifier><gml:name>Vancouver</gml:name></tns:Airport></wfs:Insert>'
    )
    assert (answer.status, answer.exception[0]) == (400, "InvalidValue")


def update(own: Wfs, rid: str, name: str, reference: str, value: str) -> Answer:
    return own.transaction(
        f'<wfs:Update xmlns:tns="{URI}" typeName="tns:{name}"><wfs:Property><wfs:ValueReference>{reference}'
        f"</wfs:ValueReference><wfs:Value>{value}</wfs:Value></wfs:Property><fes:Filter>"
        f'<fes:ResourceId rid="{rid}"/></fes:Filter></wfs:Update>'
    )


def test_update_update_gml_name(own: Wfs) -> None:
    """Whether the type has a property ``name`` of its own, which stays, or none."""
    for rid, name, before in (("towns.1", "towns", "Vaduz"), ("roads.11", "roads", None)):
        assert update(own, rid, name, "gml:name[1]", "Pellentesque Arcu Lorem").status == 200
        feature = stored(own, "GET", BY_ID, id=rid).root
        assert feature.findtext(GML32 + "name") == "Pellentesque Arcu Lorem"
        assert feature.findtext(TW + "name") == before


def test_update_update_bounded_by_with_kml_point(own: Wfs) -> None:
    answer = own.transaction(
        '<wfs:Update typeName="tw:towns"><wfs:Property><wfs:ValueReference action="replace">gml:boundedBy'
        '</wfs:ValueReference><wfs:Value><Point xmlns="http://www.opengis.net/kml/2.2"><coordinates>-123.1,49.25'
        "</coordinates></Point></wfs:Value></wfs:Property></wfs:Update>"
    )
    assert (answer.status, answer.exception[0]) == (400, "InvalidValue")


@pytest.mark.parametrize(
    ("rid", "property_", "value"),
    [("towns.1", "seen", "2026-01-02T03:04:05Z"), ("towns.1", "founded", "2026-01-02"), ("towns.1", "height", "227.75"),
     ("towns.1", "population", "5697"), ("towns.1", "capital", "false"), ("roads.11", "town", "TEST_VALUE"),
     ("notes.1", "text", "TEST_VALUE")],
)  # fmt: skip
def test_update_update_simple_property_value(own: Wfs, rid: str, property_: str, value: str) -> None:
    name = rid.partition(".")[0]
    answer = update(own, rid, name, f"tns:{property_}[1]", value)
    assert answer.root.findtext(f".//{WFS2}totalUpdated") == "1"
    assert stored(own, "GET", BY_ID, id=rid).root.findtext(TW + property_) == value


@pytest.mark.parametrize("name", TYPES)
def test_replace_replace_feature(own: Wfs, name: str) -> None:
    feature = only_of(get_feature(own, "GET", name, count="1"), name)[0]
    rid = str(feature.get(GML32 + "id"))
    answer = own.transaction(
        f'<wfs:Replace>{etree.tostring(feature, encoding="unicode")}<fes:Filter><fes:ResourceId rid="{rid}"/>'
        "</fes:Filter></wfs:Replace>"
    )
    assert answer.root.findtext(f".//{WFS2}totalReplaced") == "1"
    assert next(answer.root.iter(FES2 + "ResourceId")).get("rid") == rid


@pytest.mark.parametrize("name", TYPES)
def test_delete_delete_feature(own: Wfs, name: str) -> None:
    rid = get_feature(own, "GET", name, count="1").ids[0]
    answer = own.transaction(
        f'<wfs:Delete typeName="tw:{name}"><fes:Filter><fes:ResourceId rid="{rid}"/></fes:Filter></wfs:Delete>'
    )
    assert answer.root.findtext(f".//{WFS2}totalDeleted") == "1"
    assert stored(own, "GET", BY_ID, id=rid).status == 404


# ---------------------------------------------------------------- locks


def lock(own: Wfs, operation_: str, content: str, **attributes: str) -> Answer:
    more = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return own.post(
        f'<wfs:{operation_} {NS20} service="WFS" version="2.0.0"{more}>{content}</wfs:{operation_}>', WRITER
    )


def by_id(rid: str) -> str:
    return f'<wfs:StoredQuery id="{BY_ID}"><wfs:Parameter name="id">{rid}</wfs:Parameter></wfs:StoredQuery>'


def of_type(name: str, rids: list[str] | None = None) -> str:
    ids = "".join(f'<fes:ResourceId rid="{rid}"/>' for rid in rids or ())
    return f'<wfs:Query typeNames="tw:{name}">' + (f"<fes:Filter>{ids}</fes:Filter>" if ids else "") + "</wfs:Query>"


def test_locking_capabilities_capabilities_describes_locking_wfs(wfs: Wfs) -> None:
    root = capabilities(wfs)
    assert constraint(root, "ImplementsLockingWFS") == "TRUE"
    assert operation(root, "LockFeature") is not None
    assert operation(root, "GetFeatureWithLock") is not None


def test_lock_feature_lock_feature_and_attempt_delete(own: Wfs) -> None:
    answer = lock(own, "LockFeature", by_id("towns.2"), expiry="60")
    assert answer.root.get("lockId")
    assert [e.get("rid") for e in answer.root.iter(FES2 + "ResourceId")] == ["towns.2"]
    deletion = '<wfs:Delete typeName="tw:towns"><fes:Filter><fes:ResourceId rid="towns.2"/></fes:Filter></wfs:Delete>'
    assert own.transaction(deletion).exception == ("MissingParameterValue", "lockId")
    with_lock = own.transaction(deletion, attributes=f'lockId="{answer.root.get("lockId")}"')
    assert with_lock.root.findtext(f".//{WFS2}totalDeleted") == "1"


def test_lock_feature_lock_feature_already_locked(own: Wfs) -> None:
    assert lock(own, "LockFeature", by_id("towns.2"), expiry="60").status == 200
    answer = lock(own, "LockFeature", by_id("towns.2"), expiry="180")
    assert (answer.status, answer.exception[0]) == (400, "CannotLockAllFeatures")


@pytest.mark.parametrize("name", TYPES)
def test_lock_feature_lock_all_features_by_type(own: Wfs, name: str) -> None:
    for answer in (lock(own, "LockFeature", of_type(name)),):
        assert answer.root.get("lockId")
        locked = answer.root.find(WFS2 + "FeaturesLocked")
        assert locked is not None
        assert [e.get("rid") for e in locked] == get_feature(own, "GET", name).ids
        assert answer.root.find(WFS2 + "FeaturesNotLocked") is None
    pairs = own.wfs2("LockFeature", WRITER, typeNames=f"tw:{name}", lockAction="SOME")
    assert pairs.root.find(WFS2 + "FeaturesNotLocked") is not None


def test_lock_feature_lock_feature_with_lock_id_and_query(own: Wfs) -> None:
    lock_id = str(lock(own, "GetFeatureWithLock", of_type("towns"), expiry="10").root.get("lockId"))
    answer = lock(own, "LockFeature", of_type("towns"), lockId=lock_id)
    assert (answer.status, answer.exception[0]) == (400, "OperationParsingFailed")


def test_get_feature_with_lock_lock_query_results_hits(own: Wfs) -> None:
    answer = lock(own, "GetFeatureWithLock", of_type("towns"), resultType="hits")
    assert (answer.status, answer.exception[0]) == (400, "InvalidParameterValue")


def test_get_feature_with_lock_lock_all_query_results_20_seconds(own: Wfs) -> None:
    """With one second instead of twenty."""
    answer = lock(own, "GetFeatureWithLock", of_type("towns"), expiry="1")
    assert answer.returned == 5
    lock_id = str(answer.root.get("lockId"))
    assert lock(own, "LockFeature", "", lockId=lock_id).status == 200
    time.sleep(1.3)
    expired = lock(own, "LockFeature", "", lockId=lock_id)
    assert (expired.status, expired.exception[0]) == (403, "LockHasExpired")


def test_get_feature_with_lock_lock_some_features(own: Wfs) -> None:
    first = lock(own, "GetFeatureWithLock", of_type("towns", ["towns.2"]), expiry="60")
    assert (first.root.get("lockId") is not None, first.ids) == (True, ["towns.2"])
    second = lock(own, "GetFeatureWithLock", of_type("towns", ["towns.1", "towns.2", "towns.3"]), lockAction="SOME")
    assert second.root.get("lockId") not in (None, first.root.get("lockId"))
    assert (second.returned, second.ids) == (2, ["towns.1", "towns.3"])


# ---------------------------------------------------------------- pages, stored queries


def test_paging_get_feature_with_hits_only(wfs: Wfs) -> None:
    answer = get_feature(wfs, "GET", "towns", count="1", resultType="hits")
    assert (answer.returned, answer.previous) == (0, "")
    following = wfs.follow(answer.next)
    assert following.returned == 1


@pytest.mark.parametrize("binding", ["GET", "POST"])
def test_paging_traverse_result_set_in_both_directions(wfs: Wfs, binding: str) -> None:
    first = get_feature(wfs, binding, "towns", count="1")
    second = wfs.follow(first.next)
    assert wfs.follow(second.previous).ids == first.ids != second.ids


LANGUAGE = "urn:ogc:def:queryLanguage:OGC-WFS::WFSQueryExpression"


def create(own: Wfs, identifier: str, query: str, parameter: str, language: str = LANGUAGE, types: str = "") -> Answer:
    return own.post(
        '<CreateStoredQuery version="2.0.0" service="WFS" xmlns="http://www.opengis.net/wfs/2.0">'
        f'<StoredQueryDefinition id="{identifier}" xmlns:xsd="http://www.w3.org/2001/XMLSchema"><Title>T</Title>'
        f'<Parameter name="{parameter}" type="xsd:string"><Abstract>A</Abstract></Parameter><QueryExpressionText '
        f'xmlns:fes="http://www.opengis.net/fes/2.0" xmlns:gml="http://www.opengis.net/gml/3.2" xmlns:tw="{URI}" '
        f'returnFeatureTypes="{types}" language="{language}" isPrivate="false">{query}</QueryExpressionText>'
        "</StoredQueryDefinition></CreateStoredQuery>"
    )


BY_NAME = (
    '<Query typeNames="tw:towns"><fes:Filter><fes:PropertyIsLike wildCard="*" singleChar="?" escapeChar="\\">'
    "<fes:ValueReference>gml:name</fes:ValueReference><fes:Literal>*${name}*</fes:Literal></fes:PropertyIsLike>"
    "</fes:Filter></Query>"
)


def test_stored_query_management_supported_stored_query_languages(wfs: Wfs) -> None:
    parameter = next(p for p in operation(capabilities(wfs), "CreateStoredQuery") if p.get("name") == "language")
    assert LANGUAGE in [e.text for e in parameter.iter(OWS11 + "Value")]


def test_create_stored_query_create_get_feature_by_type_name(own: Wfs) -> None:
    identifier = "urn:example:wfs2-query:GetFeatureByTypeName"
    answer = create(own, identifier, '<Query typeNames="${typeName}" />', "typeName")
    assert (answer.status, answer.root.tag) == (200, WFS2 + "CreateStoredQueryResponse")
    for name in TYPES:
        called = own.wfs2(
            "GetFeature", storedQuery_id=identifier, typeName=f"ns5:{name}", namespaces=f"xmlns(ns5,{URI})"
        )
        assert only_of(called, name)
        body = (
            f'<wfs:GetFeature {NS20} service="WFS" version="2.0.0"><wfs:StoredQuery id="{identifier}"><wfs:Parameter '
            f'xmlns:ns6="{URI}" name="typeName">ns6:{name}</wfs:Parameter></wfs:StoredQuery></wfs:GetFeature>'
        )
        assert only_of(own.post(body, READER), name)


def test_create_stored_query_create_stored_query_with_unsupported_query_language(own: Wfs) -> None:
    answer = create(own, "urn:example:wfs2-query:InvalidLang", BY_NAME, "name", "http://qry.example.org")
    assert answer.exception == ("InvalidParameterValue", "language")


def test_create_stored_query_duplicate_query(own: Wfs) -> None:
    identifier = "urn:example:wfs2-query:GetFeatureByName"
    assert create(own, identifier, BY_NAME, "name", types="tw:towns").status == 200
    assert create(own, identifier, BY_NAME, "name").exception == ("DuplicateStoredQueryIdValue", identifier)


def test_drop_stored_query_drop_stored_query(own: Wfs) -> None:
    identifier = "urn:example:wfs2-query:GetFeatureByName"
    assert create(own, identifier, BY_NAME, "name").status == 200
    assert own.wfs2("GetFeature", storedQuery_id=identifier, name="adu").ids == ["towns.1"]
    answer = own.post(f'<wfs:DropStoredQuery {NS20} service="WFS" version="2.0.0" id="{identifier}"/>')
    assert (answer.status, answer.root.tag) == (200, WFS2 + "DropStoredQueryResponse")
    gone = own.wfs2("GetFeature", storedQuery_id=identifier, name="Irrelevant")
    assert gone.exception[0] == "InvalidParameterValue"
    assert "id" in str(gone.exception[1]).lower()


def test_drop_stored_query_drop_nonexistent_query(own: Wfs) -> None:
    answer = own.post(f'<wfs:DropStoredQuery {NS20} service="WFS" version="2.0.0" id="urn:uuid:0c8e6f9e"/>')
    assert answer.exception[0] == "InvalidParameterValue"
    assert "id" in str(answer.exception[1]).lower()
