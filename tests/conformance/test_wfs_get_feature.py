"""GetFeature and GetPropertyValue: parameters, order of axes, pages, formats, joins. Every answer has to be valid."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import shapely
from lxml import etree
from tests.conformance.door_support import Validator
from tests.conformance.wfs_support import (
    BASE,
    GML,
    GML32,
    NS1,
    NS20,
    READER,
    TW,
    WFS1,
    WFS2,
    Wfs,
    fresh,
    small,
)

from thalweg.domain.access import Principal, Role
from thalweg.domain.features import GeometryKind
from thalweg.doors.http import Request
from thalweg.encode.gml_input import read_geometry
from thalweg.settings import Settings

ALL_TOWNS = ["towns.1", "towns.2", "towns.3", "towns.4", "towns.5"]
VERSIONS = ["1.0.0", "1.1.0", "2.0.0"]


@pytest.fixture(scope="module")
def wfs(tmp_path_factory: pytest.TempPathFactory, schemas: Validator) -> Iterator[Wfs]:
    """Layers that the tests of this module only read."""
    made = small(Wfs(tmp_path_factory.mktemp("wfs"), schemas))
    yield made
    made.close()


def positions(root: etree._Element) -> list[str]:
    """Texts of positions, in the order of the document."""
    names = {GML + "coordinates", GML + "pos", GML + "posList", GML32 + "pos", GML32 + "posList"}
    return [element.text or "" for element in root.iter() if element.tag in names]


def srs_names(root: etree._Element) -> set[str]:
    return {str(element.get("srsName")) for element in root.iter() if element.get("srsName")}


# ---------------------------------------------------------------- types, counts, versions


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("parameter", ["typeName", "typeNames"])
@pytest.mark.parametrize("name", ["towns", "tw:towns"])
def test_a_type_is_found_with_and_without_prefix(wfs: Wfs, version: str, parameter: str, name: str) -> None:
    answer = wfs.get(service="WFS", version=version, request="GetFeature", **{parameter: name})
    assert answer.ids == ALL_TOWNS


def test_a_prefix_is_bound_by_the_parameter_namespaces(wfs: Wfs) -> None:
    answer = wfs.features("ns67:towns", namespaces="xmlns(ns67,http://x.org/default)")
    assert answer.ids == ALL_TOWNS
    answer = wfs.get(
        service="WFS", version="1.1.0", request="GetFeature", typeName="a:towns",
        namespace="xmlns(a=http://x.org/default)",
    )  # fmt: skip
    assert answer.ids == ALL_TOWNS
    assert wfs.features("ns67:towns").exception == ("InvalidParameterValue", "typeNames")


def test_version_202_is_answered_as_200(wfs: Wfs) -> None:
    answer = wfs.get(service="WFS", version="2.0.2", request="GetFeature", typeNames="tw:towns")
    assert answer.root.tag == WFS2 + "FeatureCollection"


def test_a_version_is_mandatory(wfs: Wfs) -> None:
    assert wfs.get(service="WFS", request="GetFeature", typeNames="tw:towns").exception == (
        "MissingParameterValue", "version",
    )  # fmt: skip


@pytest.mark.parametrize(("version", "name"), [("1.0.0", "maxFeatures"), ("1.1.0", "maxFeatures"), ("2.0.0", "count"),
                                               ("2.0.0", "maxFeatures"), ("1.1.0", "count")])  # fmt: skip
def test_the_limit_is_taken_under_either_name(wfs: Wfs, version: str, name: str) -> None:
    answer = wfs.get(service="WFS", version=version, request="GetFeature", typeName="towns", **{name: "2"})
    assert answer.ids == ["towns.1", "towns.2"]


def test_count_zero_is_an_empty_collection_with_the_number_matched(wfs: Wfs) -> None:
    answer = wfs.features("towns", count="0")
    assert (answer.matched, answer.returned, answer.ids) == (5, 0, [])


@pytest.mark.parametrize("value", ["abc", "-1", "1.5", "٣", "1e3", "99999999999999999999"])
@pytest.mark.parametrize("name", ["count", "startIndex"])
def test_numbers_that_are_none_are_refused(wfs: Wfs, name: str, value: str) -> None:
    answer = wfs.features("towns", **{name: value})
    assert (answer.status, answer.exception) == (400, ("InvalidParameterValue", name))


def test_hits_give_the_number_alone(wfs: Wfs) -> None:
    answer = wfs.features("towns", resultType="hits")
    assert (answer.matched, answer.returned, answer.ids, answer.next) == (5, 0, [], "")
    old = wfs.wfs11("GetFeature", typeName="towns", resultType="hits")
    assert (old.root.get("numberOfFeatures"), old.ids) == ("5", [])
    assert old.root.get("timeStamp")
    filtered = wfs.features("towns", resultType="hits", cql_filter="population > 5000")
    assert filtered.matched == 3


def test_hits_with_count_lead_to_the_first_page(wfs: Wfs) -> None:
    answer = wfs.features("towns", resultType="hits", count="2")
    assert (answer.matched, answer.returned, answer.previous) == (5, 0, "")
    assert wfs.follow(answer.next).ids == ALL_TOWNS[:2]


def test_several_types_are_a_collection_each(wfs: Wfs) -> None:
    answer = wfs.features("tw:towns,tw:roads")
    inner = answer.root.findall(f"{WFS2}member/{WFS2}FeatureCollection")
    assert [(c.get("numberMatched"), c.get("numberReturned")) for c in inner] == [("5", "5"), ("2", "2")]
    assert (answer.matched, answer.returned) == (7, 7)
    assert wfs.features("(tw:towns)(tw:roads)").ids == answer.ids
    old = wfs.wfs11("GetFeature", typeName="tw:towns,tw:roads")
    assert old.ids == [*ALL_TOWNS, "roads.11", "roads.12"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_feature_that_two_queries_find_is_written_once(wfs: Wfs, version: str) -> None:
    """Ids are unique in a document; the second time there is a reference."""
    answer = wfs.get(
        service="WFS", version=version, request="GetFeature", typeName="towns,towns",
        cql_filter="name LIKE '%a%';capital = true",
    )  # fmt: skip
    assert answer.ids == ["towns.1", "towns.2", "towns.3", "towns.4"]
    references = [e.get("{http://www.w3.org/1999/xlink}href") for e in answer.root.iter()]
    assert [text for text in references if text] == ["#towns.1", "#towns.2"]
    if version == "2.0.0":
        assert (answer.matched, answer.returned) == (6, 6)
    json = wfs.features("towns,towns", cql_filter="name LIKE '%a%';capital = true", outputFormat="json")
    assert len(json.ids) == 6


def test_limit_and_start_go_over_the_whole_answer(wfs: Wfs) -> None:
    assert wfs.features("towns,roads", startIndex="4", count="2").ids == ["towns.5", "roads.11"]
    assert wfs.features("towns,roads", startIndex="6").ids == ["roads.12"]
    assert wfs.features("towns,roads", startIndex="7").ids == []
    assert wfs.features("towns,areas,roads", startIndex="5", count="1").ids == ["areas.21"]


def test_an_answer_is_never_longer_than_the_server_gives(tmp_path: Path, schemas: Validator) -> None:
    wfs = fresh(tmp_path, schemas, Settings(public_url="http://x.org", wfs_max_features=2))
    answer = wfs.features("towns", count="20000")
    assert (answer.matched, answer.returned) == (5, 2)
    assert wfs.follow(answer.next).ids == ALL_TOWNS[2:4]
    capabilities = wfs.get(service="WFS", request="GetCapabilities").body
    assert b'<ows:Constraint name="CountDefault"><ows:NoValues/><ows:DefaultValue>2</ows:DefaultValue>' in capabilities
    wfs.close()


def test_the_number_matched_is_unknown_where_the_operator_wants_it(tmp_path: Path, schemas: Validator) -> None:
    settings = Settings(public_url="http://x.org", wfs_number_matched="unknown")
    wfs = fresh(tmp_path, schemas, settings)
    answer = wfs.features("towns", cql_filter="population > 0", count="2")
    assert (answer.root.get("numberMatched"), answer.returned) == ("unknown", 2)
    second = wfs.follow(answer.next)
    assert (second.returned, second.next) == (2, "")
    assert wfs.features("towns", count="2").matched == 5
    wfs.close()


# ---------------------------------------------------------------- order of axes

# Of OGC names and orders: (srsName asked, version) -> (coordinates of Ljubljana, srsName written).
LON_LAT, LAT_LON = "14.5 46.05", "46.05 14.5"
URL, X_URN, URN = (
    "http://www.opengis.net/gml/srs/epsg.xml#4326", "urn:x-ogc:def:crs:EPSG:4326", "urn:ogc:def:crs:EPSG::4326",
)  # fmt: skip


@pytest.mark.parametrize(
    ("version", "asked", "order", "written"),
    [
        ("1.0.0", "", LON_LAT, URL),
        ("1.1.0", "", LAT_LON, URN),
        ("2.0.0", "", LAT_LON, URN),
        *((version, "EPSG:4326", LON_LAT, URL) for version in VERSIONS),
        *((version, URL, LON_LAT, URL) for version in VERSIONS),
        *((version, "CRS:84", LON_LAT, URL) for version in VERSIONS),
        *(
            (version, name, LAT_LON, URN)
            for version in VERSIONS
            for name in (X_URN, URN, "http://www.opengis.net/def/crs/EPSG/0/4326")
        ),
    ],
)
def test_what_is_written_as_srs_name_is_the_order_of_the_coordinates(
    wfs: Wfs, version: str, asked: str, order: str, written: str
) -> None:
    more = {"srsName": asked} if asked else {}
    answer = wfs.get(
        service="WFS", version=version, request="GetFeature", typeName="towns", featureId="towns.2", **more
    )
    assert positions(answer.root) == [order.replace(" ", "," if version == "1.0.0" else " ")]
    assert srs_names(answer.root) == {written}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("asked", ["", "EPSG:4326", URN])
def test_geojson_is_longitude_latitude_whatever_is_asked(wfs: Wfs, version: str, asked: str) -> None:
    more = {"srsName": asked} if asked else {}
    answer = wfs.get(
        service="WFS", version=version, request="GetFeature", typeName="towns", featureId="towns.2",
        outputFormat="application/json", **more,
    )  # fmt: skip
    assert answer.json["features"][0]["geometry"] == {"type": "Point", "coordinates": [14.5, 46.05]}
    assert answer.json["crs"]["properties"]["name"] == URN


@pytest.mark.parametrize(("form", "root"), [("gml2", WFS1), ("gml3", WFS1), ("gml32", WFS2)])
def test_version_2_with_another_gml_gives_that_versions_document(wfs: Wfs, form: str, root: str) -> None:
    """The study's request: 2.0.0, EPSG:4326, GML 2."""
    answer = wfs.features("tw:towns", srsName="EPSG:4326", outputFormat=form, count="2")
    assert answer.root.tag == root + "FeatureCollection"
    assert [p.replace(",", " ") for p in positions(answer.root)] == ["9.5 47.1", LON_LAT]
    assert srs_names(answer.root) == {URL}


def test_another_crs_moves_the_coordinates(wfs: Wfs) -> None:
    """Bern's old observatory: 2600000 1200000 in EPSG:2056, 46.9510827 N 7.4386324 E by swisstopo."""
    answer = wfs.features("tw:swiss")
    assert positions(answer.root) == ["2600000 1200000"]
    assert srs_names(answer.root) == {"urn:ogc:def:crs:EPSG::2056"}
    moved = wfs.features("tw:swiss", srsName=URN)
    latitude, longitude = map(float, positions(moved.root)[0].split())
    assert (latitude, longitude) == (pytest.approx(46.9510827, abs=2e-5), pytest.approx(7.4386324, abs=2e-5))
    assert srs_names(moved.root) == {URN}
    web = wfs.features("tw:swiss", srsName="EPSG:3857", outputFormat="json").json
    assert web["features"][0]["geometry"]["coordinates"] == pytest.approx([828064.8, 5934093.2], abs=2)
    assert web["crs"]["properties"]["name"] == "urn:ogc:def:crs:EPSG::3857"


@pytest.mark.parametrize("name", ["EPSG:99999", "urn:ogc:def:crs:EPSG::32690", "urn:nonsense", "+proj=longlat"])
@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_crs_is_refused(wfs: Wfs, version: str, name: str) -> None:
    answer = wfs.get(service="WFS", version=version, request="GetFeature", typeName="towns", srsName=name)
    assert answer.exception == ("InvalidParameterValue", "srsName")
    assert answer.status == (400 if version == "2.0.0" else 200)


NEAR_VADUZ = ["towns.1", "towns.4"]


@pytest.mark.parametrize(
    ("version", "box"),
    [
        ("2.0.0", "47.0,9.4,47.3,9.7,urn:ogc:def:crs:EPSG::4326"),
        ("2.0.0", "9.4,47.0,9.7,47.3,EPSG:4326"),
        ("2.0.0", "9.4,47.0,9.7,47.3,urn:ogc:def:crs:OGC:1.3:CRS84"),
        ("2.0.0", "47.0,9.4,47.3,9.7"),
        ("1.1.0", "47.0,9.4,47.3,9.7"),
        ("1.0.0", "9.4,47.0,9.7,47.3"),
        ("1.0.0", "9.4,47.0,9.7,47.3,EPSG:4326"),
        ("1.1.0", "47.0,9.4,47.3,9.7,urn:ogc:def:crs:EPSG::4326"),
        # The same corners in Web Mercator.
        ("2.0.0", "1046403.2,5942074.1,1079799.1,5991202.1,EPSG:3857"),
    ],
)
def test_a_box_is_read_in_the_order_of_its_crs(wfs: Wfs, version: str, box: str) -> None:
    answer = wfs.get(service="WFS", version=version, request="GetFeature", typeName="towns", bbox=box)
    assert answer.ids == NEAR_VADUZ


def test_a_box_in_the_wrong_crs_finds_nothing(wfs: Wfs) -> None:
    assert wfs.features("towns", bbox="47.0,9.4,47.3,9.7,EPSG:4326").ids == []
    assert wfs.features("towns", bbox="9.4,47.0,9.7,47.3,EPSG:3857").ids == []


@pytest.mark.parametrize(
    "box",
    ["1,2,3", "1,2,3,x", "3,2,1,4", "1,2,nan,4", "1,2,3,inf", "1_0,2,30,4", ",,,", "1,2,3,4,EPSG:1", "1,2,3,4,5,6,7,8"],
)
def test_a_box_that_is_none_is_refused(wfs: Wfs, box: str) -> None:
    assert wfs.features("towns", bbox=box).exception == ("InvalidParameterValue", "bbox")


# ---------------------------------------------------------------- conditions


def test_conditions_exclude_one_another(wfs: Wfs) -> None:
    everything = (
        "<fes:Filter><fes:PropertyIsNull><fes:ValueReference>name</fes:ValueReference>"
        "</fes:PropertyIsNull></fes:Filter>"
    )
    for one, other in (("bbox", "filter"), ("resourceId", "filter"), ("bbox", "resourceId"), ("cql_filter", "bbox")):
        values = {"bbox": "1,2,3,4", "filter": everything, "resourceId": "towns.1", "cql_filter": "INCLUDE"}
        answer = wfs.features("towns", **{one: values[one], other: values[other]})
        assert answer.exception[0] == "InvalidParameterValue"
        assert answer.exception[1] in (one, other)


def test_ids_say_of_which_type_features_are(wfs: Wfs) -> None:
    answer = wfs.wfs2("GetFeature", resourceId="roads.12,towns.2,towns.1")
    assert sorted(answer.ids) == ["roads.12", "towns.1", "towns.2"]
    assert wfs.wfs11("GetFeature", featureId="towns.2").ids == ["towns.2"]


def test_an_unknown_id_is_an_empty_collection(wfs: Wfs) -> None:
    for text in ("towns.99", "uuid-1", "towns.x", "towns.1' OR '1'='1", "towns.01", "nothing.1"):
        assert wfs.features("towns", resourceId=text).ids == [], text


def test_an_id_of_another_type_is_refused(wfs: Wfs) -> None:
    assert wfs.features("towns", resourceId="roads.11").exception == ("InvalidParameterValue", "RESOURCEID")
    assert wfs.filtered("tw:towns", '<fes:ResourceId rid="roads.11"/>').exception == (
        "InvalidParameterValue", "RESOURCEID",
    )  # fmt: skip


def test_a_filter_may_use_prefixes_without_declaring_them(wfs: Wfs) -> None:
    text = (
        "<fes:Filter><fes:PropertyIsEqualTo><fes:ValueReference>tw:name</fes:ValueReference>"
        "<fes:Literal>Vaduz</fes:Literal></fes:PropertyIsEqualTo></fes:Filter>"
    )
    assert wfs.features("towns", filter=text).ids == ["towns.1"]
    old = text.replace("fes:", "ogc:").replace("ValueReference", "PropertyName")
    assert wfs.wfs11("GetFeature", typeName="towns", filter=old).ids == ["towns.1"]
    assert wfs.wfs10("GetFeature", typeName="towns", filter=old.replace("ogc:", "")).ids == ["towns.1"]


def test_several_types_have_a_filter_each(wfs: Wfs) -> None:
    def equal(name: str, value: str) -> str:
        return (
            f"(<Filter><PropertyIsEqualTo><ValueReference>{name}</ValueReference><Literal>{value}</Literal>"
            "</PropertyIsEqualTo></Filter>)"
        )

    answer = wfs.features("(tw:towns)(tw:roads)", filter=equal("name", "Vaduz") + equal("ref", "B2"))
    assert answer.ids == ["towns.1", "roads.12"]
    assert wfs.features("towns,roads", cql_filter="name='Vaduz';ref='B2'").ids == ["towns.1", "roads.12"]
    wrong = wfs.features("(tw:towns)(tw:roads)", filter=equal("name", "Vaduz"))
    assert wrong.exception == ("InvalidParameterValue", "filter")


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("name = 'Vaduz'", ["towns.1"]),
        ("population > 5 AND capital = true", ["towns.1", "towns.2"]),
        ("name IS NULL", ["towns.5"]),
        ("name LIKE '%&%'", ["towns.3"]),
        ("name ILIKE 'vad%'", ["towns.1"]),
        ("population BETWEEN 5 AND 5696", ["towns.1", "towns.5"]),
        ("kind IN ('city', 'town')", ["towns.1", "towns.2", "towns.3"]),
        ("INTERSECTS(place, POLYGON((9 47, 10 47, 10 48, 9 48, 9 47)))", NEAR_VADUZ),
        ("BBOX(place, 9, 47, 10, 48)", NEAR_VADUZ),
        ("DWITHIN(place, POINT(9.5 47.1), 10, kilometers)", NEAR_VADUZ),
        ("seen AFTER 2020-06-02T23:00:00Z", ["towns.3", "towns.5"]),
        ("seen DURING 2020-06-01T00:00:00Z/2020-06-02T00:00:00Z", ["towns.1"]),
    ],
)
def test_ecql(wfs: Wfs, condition: str, found: list[str]) -> None:
    assert wfs.features("towns", cql_filter=condition).ids == found


def test_cql2_text_and_json_are_filters_too(wfs: Wfs) -> None:
    text = wfs.features("towns", filter="population > 90000", filter_language="cql2-text")
    assert text.ids == ["towns.2", "towns.3"]
    document = '{"op": ">", "args": [{"property": "population"}, 90000]}'
    assert wfs.features("towns", filter=document, filter_language="cql2-json").ids == text.ids
    assert wfs.features("towns", filter="x", filter_language="klingon").exception == (
        "InvalidParameterValue", "filter_language",
    )  # fmt: skip


def test_a_filter_by_another_property_than_there_is(wfs: Wfs) -> None:
    for parameters in ({"cql_filter": "colour = 'red'"}, {"sortBy": "colour"}, {"propertyName": "colour"}):
        answer = wfs.features("towns", **parameters)
        assert (answer.status, answer.exception[0]) == (400, "InvalidParameterValue")
        assert b"colour" in answer.body


# ---------------------------------------------------------------- order and properties


@pytest.mark.parametrize(
    "text", ["population DESC", "population D", "population desc", "-population", "tw:population DESC"]
)
def test_sorting(wfs: Wfs, text: str) -> None:
    assert wfs.features("towns", sortBy=text).ids == ["towns.2", "towns.3", "towns.1", "towns.5", "towns.4"]


def test_sorting_by_several_properties(wfs: Wfs) -> None:
    assert wfs.features("towns", sortBy="kind ASC,population DESC").ids == [
        "towns.2", "towns.3", "towns.1", "towns.5", "towns.4",
    ]  # fmt: skip
    assert wfs.wfs11("GetFeature", typeName="towns", sortBy="name A").ids == [
        "towns.2", "towns.3", "towns.4", "towns.1", "towns.5",
    ]  # fmt: skip


def test_sorting_by_a_geometry_is_refused(wfs: Wfs) -> None:
    assert wfs.features("towns", sortBy="place").exception == ("InvalidParameterValue", "sortBy")
    assert wfs.features("towns", sortBy="name sideways").exception == ("InvalidParameterValue", "sortBy")


def properties(element: etree._Element) -> list[str]:
    return [str(child.tag).rpartition("}")[2] for child in element]


def test_a_subset_of_properties(wfs: Wfs) -> None:
    for text in ("name,population", "(name,population)", "tw:name,tw:population", "tw:towns/tw:name,population"):
        answer = wfs.features("towns", propertyName=text, count="1")
        assert properties(next(answer.root.iter(TW + "towns"))) == ["name", "population"], text
    answer = wfs.features("towns", propertyName="place", count="1")
    assert properties(next(answer.root.iter(TW + "towns"))) == ["place"]
    both = wfs.features("towns,roads", propertyName="(name)(ref)")
    assert properties(next(both.root.iter(TW + "towns"))) == ["name"]
    assert properties(next(both.root.iter(TW + "roads"))) == ["ref"]
    json = wfs.features("towns", propertyName="name", outputFormat="json", count="1").json["features"][0]
    assert (json["geometry"], json["properties"]) == (None, {"name": "Vaduz"})


def test_mandatory_properties_are_always_there(wfs: Wfs) -> None:
    answer = wfs.wfs11("GetFeature", typeName="notes", propertyName="gml:name")
    assert answer.values("text") == ["a", "b"]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_asterisk_is_all_properties(wfs: Wfs, version: str) -> None:
    answer = wfs.get(
        service="WFS", version=version, request="GetFeature", typeName="towns", propertyName="*", maxFeatures="1"
    )
    assert len(next(answer.root.iter(TW + "towns"))) == 8


def test_unknown_parameters_are_left_alone(wfs: Wfs) -> None:
    assert wfs.wfs11("GetFeature", typeName="towns", foo="bar", maxFeatures="1").ids == ["towns.1"]


# ---------------------------------------------------------------- pages


def test_pages_lead_forth_and_back(wfs: Wfs) -> None:
    first = wfs.features("towns", count="2")
    assert (first.ids, first.previous) == (ALL_TOWNS[:2], "")
    second = wfs.follow(first.next)
    third = wfs.follow(second.next)
    assert (second.ids, third.ids, third.next) == (ALL_TOWNS[2:4], ALL_TOWNS[4:], "")
    assert wfs.follow(third.previous).ids == second.ids
    assert wfs.follow(second.previous).ids == first.ids


def test_links_keep_every_parameter(wfs: Wfs) -> None:
    answer = wfs.get(
        SERVICE="WFS", VERSION="2.0.0", REQUEST="GetFeature", TYPENAMES="tw:towns", COUNT="1", SRSNAME="EPSG:4326",
        CQL_FILTER="name LIKE '%a%' AND 1=1", sortBy="population DESC", foo="a b&c",
    )  # fmt: skip
    query = {name: value[0] for name, value in parse_qs(urlsplit(answer.next).query).items()}
    assert query["CQL_FILTER"] == "name LIKE '%a%' AND 1=1"
    assert (query["foo"], query["startIndex"], query["count"]) == ("a b&c", "1", "1")
    assert wfs.follow(answer.next).ids != answer.ids
    assert srs_names(wfs.follow(answer.next).root) == {URL}


def test_a_request_in_xml_has_links_as_pairs(wfs: Wfs) -> None:
    body = (
        f'<wfs:GetFeature {NS20} service="WFS" version="2.0.0" count="1"><wfs:Query typeNames="tw:towns" '
        'srsName="EPSG:4326"><wfs:PropertyName>tw:name</wfs:PropertyName><fes:Filter><fes:PropertyIsLike '
        'wildCard="*" singleChar="?" escapeChar="!"><fes:ValueReference>tw:name</fes:ValueReference>'
        "<fes:Literal>*a*</fes:Literal></fes:PropertyIsLike></fes:Filter><fes:SortBy><fes:SortProperty>"
        "<fes:ValueReference>name</fes:ValueReference><fes:SortOrder>DESC</fes:SortOrder></fes:SortProperty>"
        "</fes:SortBy></wfs:Query></wfs:GetFeature>"
    )
    first = wfs.post(body, READER)
    seen = [first.ids]
    following = first.next
    while following:
        page = wfs.follow(following)
        seen.append(page.ids)
        following = page.next
    assert seen == [["towns.1"], ["towns.4"], ["towns.3"], ["towns.2"]]


def test_pages_of_several_types(wfs: Wfs) -> None:
    answer = wfs.features("tw:towns,tw:areas,tw:roads", count="2")
    seen = list(answer.ids)
    while answer.next:
        answer = wfs.follow(answer.next)
        seen += answer.ids
    assert seen == [*ALL_TOWNS, "areas.21", "areas.22", "roads.11", "roads.12"]


def test_geojson_has_links(wfs: Wfs) -> None:
    answer = wfs.features("towns", count="2", outputFormat="application/json").json
    assert (answer["numberMatched"], answer["numberReturned"], answer["totalFeatures"]) == (5, 2, 5)
    (link,) = answer["links"]
    assert link["rel"] == "next"
    assert [f["id"] for f in wfs.follow(link["href"]).json["features"]] == ALL_TOWNS[2:4]


# ---------------------------------------------------------------- values and nulls


def test_values_are_written_as_their_types(wfs: Wfs) -> None:
    root = wfs.features("towns").root
    first, fifth = (next(e for e in root.iter(TW + "towns") if e.get(GML32 + "id") == f"towns.{n}") for n in (1, 5))
    assert [child.text for child in first][1:] == [
        "Vaduz", "town", "5696", "455.5", "true", "1351-03-27", "2020-06-01T12:00:00Z",
    ]  # fmt: skip
    # What is missing is left out: no name, no geometry.
    assert properties(fifth) == ["kind", "population", "height", "capital", "founded", "seen"]


def test_characters_of_markup_are_content(wfs: Wfs) -> None:
    for version in VERSIONS:
        answer = wfs.get(service="WFS", version=version, request="GetFeature", typeName="towns", featureId="towns.3")
        assert answer.values("name") == ["Maribor & <Ost>"]


def test_a_layer_without_geometry(wfs: Wfs) -> None:
    for version in VERSIONS:
        answer = wfs.get(service="WFS", version=version, request="GetFeature", typeName="notes")
        assert answer.values("text") == ["a", "b"]
    assert wfs.features("notes", outputFormat="json").json["features"][0]["geometry"] is None


def test_single_geometries_of_a_layer_of_multi_ones_are_multi_ones_of_one(wfs: Wfs) -> None:
    root = wfs.features("areas").root
    assert len(list(root.iter(GML32 + "MultiSurface"))) == 2
    assert len(list(root.iter(GML32 + "interior"))) == 1


# ---------------------------------------------------------------- formats


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("text/xml; subtype=gml/2.1.2", "text/xml; subtype=gml/2.1.2"),
        ("GML2", "text/xml; subtype=gml/2.1.2"),
        ("gml3", "text/xml; subtype=gml/3.1.1"),
        ("text/xml;subtype=gml/3.1.1", "text/xml; subtype=gml/3.1.1"),
        ("application/gml+xml; version=3.2", "application/gml+xml; version=3.2"),
        ("application/gml xml; version=3.2", "application/gml+xml; version=3.2"),
        ("APPLICATION/GML+XML;VERSION=3.2", "application/gml+xml; version=3.2"),
        ("gml32", "application/gml+xml; version=3.2"),
        ("json", "application/json"),
        ("application/json", "application/json"),
        ("application/vnd.geo+json", "application/json"),
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_formats_are_known_by_all_their_names(wfs: Wfs, version: str, name: str, content_type: str) -> None:
    answer = wfs.get(service="WFS", version=version, request="GetFeature", typeName="towns", outputFormat=name)
    assert answer.content_type == content_type
    assert answer.ids == ALL_TOWNS


@pytest.mark.parametrize(("version", "content_type"), [
    ("1.0.0", "text/xml; subtype=gml/2.1.2"), ("1.1.0", "text/xml; subtype=gml/3.1.1"),
    ("2.0.0", "application/gml+xml; version=3.2"),
])  # fmt: skip
def test_each_version_has_its_own_default(wfs: Wfs, version: str, content_type: str) -> None:
    answer = wfs.get(service="WFS", version=version, request="GetFeature", typeName="towns")
    assert answer.content_type == content_type


def test_an_unknown_format_is_refused(wfs: Wfs) -> None:
    assert wfs.features("towns", outputFormat="application/x-nothing").exception == (
        "InvalidParameterValue", "outputFormat",
    )  # fmt: skip


def test_files(wfs: Wfs) -> None:
    table = wfs.features("towns", outputFormat="csv", propertyName="name,place", count="2")
    assert table.body.decode().splitlines()[1] == "towns.1,Vaduz,POINT (9.5 47.1)"
    assert ("Content-Disposition", 'attachment; filename="towns.csv"') in table.headers
    zipped = wfs.features("towns", outputFormat="shape-zip", format_options="filename:here.zip")
    names = zipfile.ZipFile(BytesIO(zipped.body)).namelist()
    assert {name.rpartition(".")[2] for name in names} >= {"shp", "shx", "dbf", "prj"}
    assert ("Content-Disposition", 'attachment; filename="here.zip"') in zipped.headers
    assert wfs.features("towns", outputFormat="kml").body.count(b"<Placemark") == 5
    assert wfs.features("towns,roads", outputFormat="csv").exception == ("InvalidParameterValue", "outputFormat")


def test_a_file_name_cannot_break_out_of_its_header(wfs: Wfs) -> None:
    answer = wfs.features("towns", outputFormat="csv", format_options='filename:a"\r\nX: y/../b.csv')
    (disposition,) = [value for name, value in answer.headers if name == "Content-Disposition"]
    assert not set("\r\n/") & set(disposition)
    assert disposition.count('"') == 2


def test_jsonp_is_off_unless_the_operator_wants_it(wfs: Wfs, tmp_path: Path, schemas: Validator) -> None:
    assert wfs.features("towns", outputFormat="text/javascript").exception[1] == "outputFormat"
    other = fresh(tmp_path, schemas, Settings(public_url="http://x.org", wfs_jsonp=True))
    answer = other.features("towns", outputFormat="text/javascript", format_options="callback:my.f", count="1")
    assert answer.body.startswith(b'/**/my.f({"type":"FeatureCollection"')
    assert answer.body.endswith(b"})")
    wrong = other.features("towns", outputFormat="text/javascript", format_options="callback:alert(1)//")
    assert wrong.exception[1] == "format_options"
    other.close()


# ---------------------------------------------------------------- by id, values, joins


@pytest.mark.parametrize(
    "query", ["urn:ogc:def:query:OGC-WFS::GetFeatureById", "http://www.opengis.net/def/query/OGC-WFS/0/GetFeatureById"]
)
def test_get_feature_by_id_is_the_feature_itself(wfs: Wfs, query: str) -> None:
    answer = wfs.wfs2("GetFeature", storedQuery_id=query, id="towns.2")
    assert answer.root.tag == TW + "towns"
    assert answer.root.get(GML32 + "id") == "towns.2"
    json = wfs.wfs2("GetFeature", storedQuery_id=query, id="towns.2", outputFormat="json").json
    assert (json["type"], json["id"]) == ("Feature", "towns.2")
    body = (
        f'<wfs:GetFeature {NS20} service="WFS" version="2.0.0"><wfs:StoredQuery id="{query}">'
        '<wfs:Parameter name="id">towns.2</wfs:Parameter></wfs:StoredQuery></wfs:GetFeature>'
    )
    assert wfs.post(body, READER).root.get(GML32 + "id") == "towns.2"
    missing = wfs.wfs2("GetFeature", storedQuery_id=query, id="towns.77")
    assert (missing.status, missing.exception[0]) == (404, "NotFound")
    assert wfs.wfs2("GetFeature", storedQuery_id=query).exception == ("MissingParameterValue", "id")


def test_get_gml_object(wfs: Wfs) -> None:
    feature = wfs.wfs11("GetGmlObject", GmlObjectId="towns.2")
    assert feature.root.tag == TW + "towns"
    point = wfs.wfs11("GetGmlObject", GmlObjectId="towns.2.place")
    assert (point.root.tag, point.root[0].text) == (GML + "Point", LAT_LON)
    body = (
        f'<wfs:GetGmlObject {NS1} service="WFS" version="1.1.0" traverseXlinkDepth="0">'
        '<ogc:GmlObjectId gml:id="roads.11"/></wfs:GetGmlObject>'
    )
    assert wfs.post(body, READER).root.tag == TW + "roads"
    assert wfs.wfs11("GetGmlObject", GmlObjectId="towns.77").exception == ("InvalidParameterValue", "GmlObjectId")
    assert wfs.wfs2("GetGmlObject", GmlObjectId="towns.1").exception[0] == "OperationNotSupported"


def members(root: etree._Element) -> list[str | None]:
    return [member.text for member in root.findall(WFS2 + "member")]


def test_values_of_a_property(wfs: Wfs) -> None:
    answer = wfs.wfs2("GetPropertyValue", typeNames="towns", valueReference="name")
    assert answer.root.tag == WFS2 + "ValueCollection"
    assert members(answer.root) == ["Vaduz", "Ljubljana", "Maribor & <Ost>", "Schaan"]
    assert (answer.matched, answer.returned) == (4, 4)
    ids = wfs.wfs2("GetPropertyValue", typeNames="towns", valueReference="@gml:id")
    assert members(ids.root) == ALL_TOWNS
    places = wfs.wfs2(
        "GetPropertyValue", typeNames="tw:towns", valueReference="tw:towns/tw:place", sortBy="name", count="1"
    )
    assert positions(places.root) == [LAT_LON]
    few = wfs.wfs2("GetPropertyValue", typeNames="towns", valueReference="name", count="3", startIndex="3")
    assert (members(few.root), few.next, bool(few.previous)) == (["Schaan"], "", True)
    hits = wfs.wfs2("GetPropertyValue", typeNames="towns", valueReference="population", resultType="hits")
    assert (hits.matched, hits.returned) == (4, 0)
    none = wfs.wfs2("GetPropertyValue", typeNames="towns", valueReference="gml:description")
    assert (none.matched, members(none.root)) == (0, [])


def test_pages_of_values(wfs: Wfs) -> None:
    answer = wfs.wfs2("GetPropertyValue", typeNames="towns", valueReference="name", count="3")
    assert members(wfs.follow(answer.next).root) == ["Schaan"]
    body = (
        f'<wfs:GetPropertyValue {NS20} service="WFS" version="2.0.0" valueReference="tw:name" count="3">'
        '<wfs:Query typeNames="tw:towns"/></wfs:GetPropertyValue>'
    )
    assert members(wfs.follow(wfs.post(body, READER).next).root) == ["Schaan"]


def test_values_of_what_is_no_property(wfs: Wfs) -> None:
    for text, code in (("", "InvalidParameterValue"), ("colour", "InvalidParameterValue"),
                       ("exec(java.lang.Runtime.getRuntime(),'id')", "InvalidParameterValue")):  # fmt: skip
        answer = wfs.wfs2("GetPropertyValue", typeNames="towns", valueReference=text)
        assert (answer.status, answer.exception[0]) == (400, code), text
    assert wfs.wfs2("GetPropertyValue", typeNames="towns").exception == ("MissingParameterValue", "valueReference")


def tuples(root: etree._Element) -> list[tuple[str, ...]]:
    """Ids of features, references to earlier ones included."""
    link = "{http://www.w3.org/1999/xlink}href"
    return [
        tuple(str(member[0].get(GML32 + "id")) if len(member) else str(member.get(link))[1:] for member in item)
        for item in root.iter(WFS2 + "Tuple")
    ]


def join(wfs: Wfs, condition: str, types: str, aliases: str = "", **more: str) -> etree._Element:
    given = {"aliases": aliases} if aliases else {}
    return wfs.features(types, filter=f"<fes:Filter>{condition}</fes:Filter>", **given, **more).root


EQUAL = (
    "<fes:PropertyIsEqualTo><fes:ValueReference>{}</fes:ValueReference><fes:ValueReference>{}</fes:ValueReference>"
    "</fes:PropertyIsEqualTo>"
)


def test_a_standard_join(wfs: Wfs) -> None:
    root = join(wfs, EQUAL.format("tw:roads/tw:town", "tw:towns/tw:name"), "(tw:roads,tw:towns)")
    assert tuples(root) == [("roads.11", "towns.1"), ("roads.12", "towns.2")]
    root = join(wfs, EQUAL.format("a/town", "b/name"), "(tw:roads,tw:towns)", "(a,b)")
    assert tuples(root) == [("roads.11", "towns.1"), ("roads.12", "towns.2")]


def test_a_spatial_join(wfs: Wfs) -> None:
    within = (
        "<fes:Within><fes:ValueReference>t/place</fes:ValueReference><fes:ValueReference>a/area</fes:ValueReference>"
        "</fes:Within>"
    )
    expected = {("towns.1", "areas.21"), ("towns.4", "areas.21"), ("towns.2", "areas.22"), ("towns.3", "areas.22")}
    root = join(wfs, within, "(tw:towns,tw:areas)", "(t,a)")
    assert set(tuples(root)) == expected
    assert root.get("numberMatched") == "4"
    contains = (
        within.replace("Within", "Contains")
        .replace("t/place", "x")
        .replace("a/area", "t/place")
        .replace(">x<", ">a/area<")
    )
    assert set(tuples(join(wfs, contains, "(tw:towns,tw:areas)", "(t,a)"))) == expected
    both = (
        f"<fes:And>{within}<fes:PropertyIsGreaterThan><fes:ValueReference>t/population</fes:ValueReference>"
        "<fes:Literal>90000</fes:Literal></fes:PropertyIsGreaterThan></fes:And>"
    )
    assert set(tuples(join(wfs, both, "(tw:towns,tw:areas)", "(t,a)"))) == {
        ("towns.2", "areas.22"), ("towns.3", "areas.22"),
    }  # fmt: skip


def test_a_temporal_join_of_a_type_with_itself(wfs: Wfs) -> None:
    before = (
        "<fes:Before><fes:ValueReference>a/seen</fes:ValueReference><fes:ValueReference>b/seen</fes:ValueReference>"
        "</fes:Before>"
    )
    root = join(wfs, before, "(tw:towns,tw:towns)", "(a,b)")
    pairs = {(1, 2), (1, 3), (1, 5), (2, 3), (2, 5), (3, 5)}
    assert set(tuples(root)) == {(f"towns.{i}", f"towns.{j}") for i, j in pairs}


def test_pages_of_a_join(wfs: Wfs) -> None:
    before = EQUAL.format("a/town", "b/name")
    first = wfs.features("(tw:roads,tw:towns)", aliases="(a,b)", filter=f"<fes:Filter>{before}</fes:Filter>", count="1")
    assert (first.root.get("numberMatched"), first.returned) == ("unknown", 1)
    second = wfs.follow(first.next)
    assert (tuples(second.root), second.next) == ([("roads.12", "towns.2")], "")
    assert tuples(wfs.follow(second.previous).root) == tuples(first.root)
    hits = join(wfs, before, "(tw:roads,tw:towns)", "(a,b)", resultType="hits")
    assert hits.get("numberMatched") == "2"


def test_a_join_by_post(wfs: Wfs) -> None:
    """As the CITE suite writes it: without aliases, prefixes of its own."""
    body = (
        '<GetFeature xmlns="http://www.opengis.net/wfs/2.0" xmlns:ns1="http://x.org/default" service="WFS" '
        'version="2.0.0"><Query typeNames="ns1:areas ns1:roads"><Filter xmlns="http://www.opengis.net/fes/2.0">'
        '<Intersects><ValueReference xmlns:ns-7="http://x.org/default">ns1:areas/ns-7:area</ValueReference>'
        '<ValueReference xmlns:ns-8="http://x.org/default">ns1:roads/ns-8:course</ValueReference></Intersects>'
        "</Filter></Query></GetFeature>"
    )
    assert set(tuples(wfs.post(body, READER).root)) == {("areas.21", "roads.11"), ("areas.22", "roads.12")}


def test_joins_that_cannot_be(wfs: Wfs) -> None:
    assert wfs.features("(tw:towns,tw:areas)").exception == ("InvalidParameterValue", "filter")
    condition = f"<fes:Filter>{EQUAL.format('a/town', 'b/name')}</fes:Filter>"
    for parameters, locator in (
        ({"aliases": "(a,a)"}, "aliases"),
        ({"aliases": "(a)"}, "aliases"),
        ({"aliases": "(a,b)", "outputFormat": "json"}, "outputFormat"),
    ):
        answer = wfs.features("(tw:roads,tw:towns)", filter=condition, **parameters)
        assert answer.exception == ("InvalidParameterValue", locator), parameters


# ---------------------------------------------------------------- ways of asking


def test_pairs_may_come_as_a_form(wfs: Wfs) -> None:
    body = "service=WFS&version=2.0.0&request=GetFeature&typeNames=tw%3Atowns&count=1"
    assert wfs.post(body, READER, "application/x-www-form-urlencoded").ids == ["towns.1"]


@pytest.mark.parametrize("version", ["1.0.0", "1.1.0"])
def test_xml_of_old_versions(wfs: Wfs, version: str) -> None:
    body = (
        f'<wfs:GetFeature {NS1} service="WFS" version="{version}" maxFeatures="2"><wfs:Query typeName="tw:towns">'
        "<ogc:PropertyName>tw:name</ogc:PropertyName><ogc:Filter><ogc:PropertyIsGreaterThan><ogc:PropertyName>"
        "tw:population</ogc:PropertyName><ogc:Literal>6000</ogc:Literal></ogc:PropertyIsGreaterThan></ogc:Filter>"
        "</wfs:Query></wfs:GetFeature>"
    )
    assert wfs.post(body, READER).ids == ["towns.2", "towns.3"]


def test_several_queries_in_xml(wfs: Wfs) -> None:
    body = (
        f'<wfs:GetFeature {NS20} service="WFS" version="2.0.0"><wfs:Query typeNames="tw:roads"/>'
        '<wfs:StoredQuery id="urn:ogc:def:query:OGC-WFS::GetFeatureById"><wfs:Parameter name="id">towns.2'
        "</wfs:Parameter></wfs:StoredQuery></wfs:GetFeature>"
    )
    assert wfs.post(body, READER).ids == ["roads.11", "roads.12", "towns.2"]


@pytest.mark.parametrize(
    "uri", ["http://schemas.xmlsoap.org/soap/envelope/", "http://www.w3.org/2003/05/soap-envelope"]
)
def test_soap(wfs: Wfs, uri: str) -> None:
    def ask(content: str) -> etree._Element:
        answer = wfs.post(
            f'<s:Envelope xmlns:s="{uri}"><s:Header/><s:Body>{content}</s:Body></s:Envelope>', READER, check=False
        )
        assert answer.content_type == ("text/xml" if "xmlsoap" in uri else "application/soap+xml")
        assert answer.root.tag == f"{{{uri}}}Envelope"
        inside = answer.root.find(f"{{{uri}}}Body")
        assert inside is not None
        return inside[0]

    found = ask(
        f'<wfs:GetFeature {NS20} service="WFS" version="2.0.0" count="1"><wfs:Query typeNames="tw:towns"/>'
        "</wfs:GetFeature>"
    )
    assert found.tag == WFS2 + "FeatureCollection"
    assert wfs.schemas.validate(etree.tostring(found)) == []
    assert ask(f'<wfs:GetCapabilities {NS20} service="WFS"/>').tag == WFS2 + "WFS_Capabilities"
    fault = ask(
        f'<wfs:GetFeature {NS20} service="WFS" version="2.0.0"><wfs:Query typeNames="tw:nothing"/></wfs:GetFeature>'
    )
    assert fault.tag == f"{{{uri}}}Fault"
    assert 'exceptionCode="InvalidParameterValue"' in etree.tostring(fault, encoding="unicode")


# ---------------------------------------------------------------- who sees what


def test_a_layer_that_is_not_public_is_not_there_for_anonymous_callers(tmp_path: Path, schemas: Validator) -> None:
    wfs = fresh(tmp_path, schemas)
    from dataclasses import replace

    layer = next(
        item for item in wfs.services.features.layers(wfs.catalogue, Principal("a", Role.ADMIN)) if item.name == "towns"
    )
    # Asked first, so that what is remembered of the request must not answer later.
    assert len(wfs.features("tw:towns").ids) == 5
    wfs.services.features.put_layer(wfs.workspace, replace(layer, public=False)).result(30)
    viewer = Principal("vera", Role.VIEWER)
    assert wfs.features("tw:towns").exception == ("InvalidParameterValue", "typeNames")
    assert len(wfs.wfs2("GetFeature", viewer, typeNames="tw:towns").ids) == 5
    for version in VERSIONS:
        assert b"towns" not in wfs.get(service="WFS", version=version, request="GetCapabilities").body
        assert b"towns" in wfs.get(viewer, service="WFS", version=version, request="GetCapabilities").body
        assert b"towns" not in wfs.get(service="WFS", version=version, request="DescribeFeatureType").body
    assert wfs.wfs2("GetFeature", resourceId="towns.1").ids == []
    assert (
        wfs.wfs2("GetFeature", storedQuery_id="urn:ogc:def:query:OGC-WFS::GetFeatureById", id="towns.1").status == 404
    )
    assert b"towns" not in wfs.wfs2("ListStoredQueries").body
    assert b"towns" not in wfs.features("tw:roads", resourceId="towns.1").body
    wfs.close()


def test_who_may_read_nothing_learns_nothing(wfs: Wfs) -> None:
    nobody = Principal("", Role.NOTHING)
    answer = wfs.get(nobody, service="WFS", request="GetCapabilities")
    assert (answer.status, answer.exception[0]) == (401, "NoApplicableCode")


def test_an_unknown_workspace_is_not_found(wfs: Wfs) -> None:
    request = Request("GET", "", b"service=WFS&request=GetCapabilities", (), b"", "nowhere", BASE, READER, "r")
    assert wfs.send(request).status == 404


def test_what_is_remembered_of_a_request_follows_the_data(tmp_path: Path, schemas: Validator) -> None:
    wfs = fresh(tmp_path, schemas)
    for _ in range(2):
        assert wfs.features("tw:towns", count="10").matched == 5
    answer = wfs.transaction(
        '<wfs:Delete typeName="tw:towns"><fes:Filter><fes:ResourceId rid="towns.2"/></fes:Filter></wfs:Delete>'
    )
    assert answer.status == 200
    again = wfs.features("tw:towns", count="10")
    assert (again.matched, "towns.2" in again.ids) == (4, False)
    wfs.close()


# ---------------------------------------------------------------- every kind of geometry

SHAPES = {
    "Point": "POINT (1 2)",
    "LineString": "LINESTRING (1 2, 3 4)",
    "Polygon": "POLYGON ((0 0, 4 0, 4 4, 0 0), (2 1, 3 1, 3 2, 2 1))",
    "MultiPoint": "MULTIPOINT (1 2, 3 4)",
    "MultiLineString": "MULTILINESTRING ((1 2, 3 4), (5 6, 7 8))",
    "MultiPolygon": "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)), ((5 5, 6 5, 6 6, 5 5)))",
    "GeometryCollection": "GEOMETRYCOLLECTION (POINT (1 2), LINESTRING (1 2, 3 4))",
}


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("srid", [4326, 3857, 2180])
def test_every_kind_of_geometry_is_valid_and_comes_back(
    tmp_path: Path, schemas: Validator, dimensions: int, srid: int
) -> None:
    """In every version by official and own schemas; and what GML says is read back as what was stored."""
    wfs = Wfs(tmp_path, schemas)
    wanted = {}
    for kind, text in SHAPES.items():
        shape = shapely.from_wkt(text)
        if dimensions == 3:
            shape = shapely.force_3d(shape, 5.5)
        wanted[kind] = shape
        layer = wfs.put_layer(f"l_{kind}", GeometryKind(kind), (), srid=srid, dimensions=dimensions)
        wfs.load(layer, [{"id": 1, "geometry": shape}, {"id": 2, "geometry": None}])
    anything = wfs.put_layer("anything", GeometryKind.GEOMETRY, (), srid=srid, dimensions=dimensions)
    wfs.load(anything, [{"id": n, "geometry": shape} for n, shape in enumerate(wanted.values(), 1)])
    for version in VERSIONS:
        for name in (*(f"l_{kind}" for kind in SHAPES), "anything"):
            root = wfs.get(service="WFS", version=version, request="GetFeature", typeName=name).root
            read = []
            for feature in root.iter(TW + name):
                holder = feature.find(TW + "geometry")
                if holder is not None:
                    value = read_geometry(holder[0], "geometry", authority_order=version != "1.0.0")
                    assert value.srid == srid
                    read.append(shapely.from_wkb(value.wkb))
            expected = list(wanted.values()) if name == "anything" else [wanted[name[2:]]]
            assert [shapely.to_wkt(shape, output_dimension=3) for shape in read] == [
                shapely.to_wkt(shape, output_dimension=3) for shape in expected
            ]
    wfs.close()
