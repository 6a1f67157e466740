"""GetCapabilities, DescribeFeatureType and exceptions: versions, sections, contents, caching."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
import shapely
from lxml import etree
from tests.conformance.door_support import Validator
from tests.conformance.wfs_support import (
    ADMIN,
    GML,
    NS1,
    NS20,
    OGC,
    OWS10,
    OWS11,
    READER,
    URI,
    WFS1,
    WFS2,
    XSD,
    Answer,
    Wfs,
    fresh,
    small,
)

from thalweg.domain.access import Principal, Role
from thalweg.domain.catalogue import Provider, Workspace
from thalweg.domain.features import Field, FieldKind, GeometryKind, Layer
from thalweg.doors.http import Request
from thalweg.doors.wfs import CONFORMANCE
from thalweg.doors.wfs.handle import OPERATIONS
from thalweg.doors.wfs.request import OPERATIONS as NAMES
from thalweg.settings import Settings

HREF = "{http://www.w3.org/1999/xlink}href"
VERSIONS = ["1.0.0", "1.1.0", "2.0.0"]


@pytest.fixture(scope="module")
def wfs(tmp_path_factory: pytest.TempPathFactory, schemas: Validator) -> Iterator[Wfs]:
    made = small(Wfs(tmp_path_factory.mktemp("wfs"), schemas))
    yield made
    made.close()


def version_of(wfs: Wfs, **parameters: str) -> str:
    return str(wfs.get(service="WFS", request="GetCapabilities", **parameters).root.get("version"))


# ---------------------------------------------------------------- versions


@pytest.mark.parametrize(
    ("parameters", "version"),
    [
        ({}, "2.0.0"),
        ({"version": "2.0.0"}, "2.0.0"),
        ({"version": "2.0.2"}, "2.0.2"),
        ({"version": "1.1.0"}, "1.1.0"),
        ({"version": "1.0.0"}, "1.0.0"),
        ({"acceptVersions": "1.1.0,2.0.0"}, "1.1.0"),
        ({"acceptVersions": "3.0.0,2.0.2,1.0.0"}, "2.0.2"),
        ({"acceptVersions": "1.0.0", "version": "2.0.0"}, "1.0.0"),
        # Others are negotiated: the next lower one, else the lowest.
        ({"version": "0.0.0"}, "1.0.0"),
        ({"version": "1.0.5"}, "1.0.0"),
        ({"version": "1.5.0"}, "1.1.0"),
        ({"version": "2.0.5"}, "2.0.0"),
        ({"version": "10"}, "2.0.0"),
    ],
)
def test_versions_are_negotiated(wfs: Wfs, parameters: dict[str, str], version: str) -> None:
    assert version_of(wfs, **parameters) == version


def test_versions_that_cannot_be(wfs: Wfs) -> None:
    answer = wfs.get(service="WFS", request="GetCapabilities", acceptVersions="3.0.0,4.0.0")
    assert (answer.status, answer.exception[0]) == (400, "VersionNegotiationFailed")
    for text in ("two", "1.x", "1.2.3.4", "-1"):
        answer = wfs.get(service="WFS", request="GetCapabilities", version=text)
        assert answer.exception == ("InvalidParameterValue", "version"), text


# ---------------------------------------------------------------- content


def test_addresses_come_from_the_setting(wfs: Wfs) -> None:
    root = wfs.get(service="WFS", request="GetCapabilities").root
    assert {e.get(HREF) for e in root.iter(OWS11 + "Get")} == {"http://x.org/wfs?"}
    assert {e.get(HREF) for e in root.iter(OWS11 + "Post")} == {"http://x.org/wfs"}
    old = wfs.get(service="WFS", request="GetCapabilities", version="1.0.0").root
    assert {e.get("onlineResource") for e in old.iter(WFS1 + "Get")} == {"http://x.org/wfs?"}


def test_types_with_their_crs_and_extent(wfs: Wfs) -> None:
    root = wfs.get(service="WFS", request="GetCapabilities").root
    types = {str(e.findtext(WFS2 + "Name")): e for e in root.iter(WFS2 + "FeatureType")}
    assert list(types) == ["tw:areas", "tw:notes", "tw:roads", "tw:swiss", "tw:towns"]
    towns = types["tw:towns"]
    assert towns.findtext(WFS2 + "Title") == "Towns"
    assert towns.findtext(WFS2 + "DefaultCRS") == "urn:ogc:def:crs:EPSG::4326"
    assert [e.text for e in towns.findall(WFS2 + "OtherCRS")] == ["urn:ogc:def:crs:EPSG::3857"]
    box = towns.find(OWS11 + "WGS84BoundingBox")
    assert box is not None
    assert [e.text for e in box] == ["9.5 46.05", "15.65 47.17"]
    assert types["tw:swiss"].findtext(WFS2 + "DefaultCRS") == "urn:ogc:def:crs:EPSG::2056"
    swiss = types["tw:swiss"].find(OWS11 + "WGS84BoundingBox")
    assert swiss is not None
    west, south = map(float, str(swiss[0].text).split())
    assert (west, south) == (pytest.approx(7.4386, abs=0.01), pytest.approx(46.951, abs=0.01))
    assert types["tw:notes"].find(WFS2 + "NoCRS") is not None
    assert types["tw:notes"].find(OWS11 + "WGS84BoundingBox") is None
    assert types["tw:roads"].findtext(WFS2 + "Abstract") == "Roads & ways."
    assert [e.text for e in types["tw:roads"].iter(OWS11 + "Keyword")] == ["traffic"]
    assert root.nsmap["tw"] == URI


def test_types_of_old_versions(wfs: Wfs) -> None:
    old = wfs.get(service="WFS", request="GetCapabilities", version="1.0.0").root
    towns = next(e for e in old.iter(WFS1 + "FeatureType") if e.findtext(WFS1 + "Name") == "tw:towns")
    assert towns.findtext(WFS1 + "SRS") == "EPSG:4326"
    box = towns.find(WFS1 + "LatLongBoundingBox")
    assert box is not None
    assert [box.get(name) for name in ("minx", "miny", "maxx", "maxy")] == ["9.5", "46.05", "15.65", "47.17"]
    middle = wfs.get(service="WFS", request="GetCapabilities", version="1.1.0").root
    towns = next(e for e in middle.iter(WFS1 + "FeatureType") if e.findtext(WFS1 + "Name") == "tw:towns")
    assert towns.findtext(WFS1 + "DefaultSRS") == "urn:ogc:def:crs:EPSG::4326"
    assert "hits" in [e.text for e in middle.iter(OWS10 + "Value")]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_listed_name_of_a_crs_is_answered(wfs: Wfs, version: str) -> None:
    root = wfs.get(service="WFS", request="GetCapabilities", version=version).root
    listed = {
        str(element.text)
        for element in root.iter()
        if str(element.tag).rpartition("}")[2] in ("SRS", "DefaultSRS", "OtherSRS", "DefaultCRS", "OtherCRS")
    }
    for name in listed:
        assert wfs.get(service="WFS", version=version, request="GetFeature", typeName="towns", srsName=name).ids


@pytest.mark.parametrize("version", ["1.1.0", "2.0.0"])
def test_every_listed_format_is_answered(wfs: Wfs, version: str) -> None:
    root = wfs.get(service="WFS", request="GetCapabilities", version=version).root
    ows = OWS10 if version == "1.1.0" else OWS11
    operation = next(e for e in root.iter(ows + "Operation") if e.get("name") == "GetFeature")
    parameter = next(e for e in operation.iter(ows + "Parameter") if e.get("name") == "outputFormat")
    formats = [str(e.text) for e in parameter.iter(ows + "Value")]
    assert len(formats) >= 9
    for name in formats:
        answer = wfs.get(service="WFS", version=version, request="GetFeature", typeName="towns", outputFormat=name)
        assert answer.status == 200, name
        assert b"Exception" not in answer.body[:300], name


@pytest.mark.parametrize(
    "section",
    ["ServiceIdentification", "ServiceProvider", "OperationsMetadata", "FeatureTypeList", "Filter_Capabilities"],
)
def test_sections(wfs: Wfs, section: str) -> None:
    root = wfs.get(service="WFS", request="GetCapabilities", sections=section).root
    assert [str(child.tag).rpartition("}")[2] for child in root] == [section]


def test_an_unknown_section(wfs: Wfs) -> None:
    answer = wfs.get(service="WFS", request="GetCapabilities", sections="Weather")
    assert answer.exception == ("InvalidParameterValue", "sections")


def test_types_of_one_prefix(wfs: Wfs) -> None:
    """The vendor parameter ``namespace``."""
    assert b"tw:towns" in wfs.get(service="WFS", request="GetCapabilities", namespace="tw").body
    assert b"tw:towns" not in wfs.get(service="WFS", request="GetCapabilities", namespace="other").body


def test_the_update_sequence(wfs: Wfs) -> None:
    current = str(wfs.get(service="WFS", request="GetCapabilities").root.get("updateSequence"))
    assert len(wfs.get(service="WFS", request="GetCapabilities", updateSequence=current).root) == 0
    assert len(wfs.get(service="WFS", request="GetCapabilities", updateSequence=str(int(current) - 1)).root) == 5
    higher = wfs.get(service="WFS", request="GetCapabilities", updateSequence=str(int(current) + 1))
    assert higher.exception[0] == "InvalidUpdateSequence"
    assert wfs.get(service="WFS", request="GetCapabilities", updateSequence="x").exception[0] == "InvalidUpdateSequence"
    old = wfs.get(service="WFS", request="GetCapabilities", version="1.0.0", updateSequence=current)
    assert old.exception[0] == "CurrentUpdateSequence"


def test_the_document_follows_metadata_and_data(tmp_path: Path, schemas: Validator) -> None:
    wfs = fresh(tmp_path, schemas)
    first = wfs.get(service="WFS", request="GetCapabilities")
    again = wfs.get(service="WFS", request="GetCapabilities")
    assert first.etag
    assert (again.etag, again.body) == (first.etag, first.body)
    assert first.kept is again.kept is not None  # so that the server compresses it once
    layer = next(item for item in wfs.services.features.layers(wfs.catalogue, ADMIN) if item.name == "roads")
    wfs.services.features.put_layer(wfs.workspace, replace(layer, title="New title")).result(30)
    second = wfs.get(service="WFS", request="GetCapabilities")
    assert b"New title" in second.body
    assert second.etag != first.etag
    wfs.transaction(
        '<wfs:Insert><tw:towns><tw:place><gml:Point srsName="EPSG:4326"><gml:pos>1 2</gml:pos></gml:Point></tw:place>'
        "</tw:towns></wfs:Insert>"
    )
    third = wfs.get(service="WFS", request="GetCapabilities")
    assert b"<ows:LowerCorner>1 2</ows:LowerCorner>" in third.body
    wfs.close()


def test_identification_and_provider_of_the_workspace(tmp_path: Path, schemas: Validator) -> None:
    wfs = fresh(tmp_path, schemas)
    provider = Provider(name="Maps & <Co>", email="a@b.ch", city="Lugano", site="https://maps.example/ä?b")
    changed = replace(
        wfs.workspace, title="Our <maps>", abstract="All & sundry", keywords=("a", "b"), provider=provider
    )
    wfs.services.catalogue.put_workspace(changed).result(30)
    for version in VERSIONS:
        root = wfs.get(service="WFS", request="GetCapabilities", version=version).root
        texts = {e.text for e in root.iter()}
        assert "Our <maps>" in texts
        assert "All & sundry" in texts
        if version != "1.0.0":
            assert {"Maps & <Co>", "a@b.ch", "Lugano"} <= texts
    wfs.close()


def test_a_workspace_without_layers_is_described_all_the_same(tmp_path: Path, schemas: Validator) -> None:
    wfs = Wfs(tmp_path, schemas)
    for version in ("1.1.0", "2.0.0"):
        root = wfs.get(service="WFS", request="GetCapabilities", version=version).root
        assert not [e for e in root.iter() if str(e.tag).endswith("FeatureTypeList")]
    assert wfs.get(service="WFS", version="2.0.0", request="DescribeFeatureType").root.tag == XSD + "schema"
    wfs.close()


def test_inspire_by_setting(tmp_path: Path, schemas: Validator) -> None:
    settings = Settings(
        public_url="http://x.org", inspire_metadata_url="https://m.example/csw?id=1&x=<y>", inspire_language="ger"
    )
    wfs = fresh(tmp_path, schemas, settings)
    body = wfs.get(service="WFS", request="GetCapabilities", check=False).root
    dls = "{http://inspire.ec.europa.eu/schemas/inspire_dls/1.0}"
    common = "{http://inspire.ec.europa.eu/schemas/common/1.0}"
    extension = body.find(f".//{OWS11}ExtendedCapabilities/{dls}ExtendedCapabilities")
    assert extension is not None
    assert extension.findtext(f"{common}MetadataUrl/{common}URL") == "https://m.example/csw?id=1&x=<y>"
    assert extension.findtext(f"{common}ResponseLanguage/{common}Language") == "ger"
    assert len(extension.findall(f"{dls}SpatialDataSetIdentifier")) == 5
    assert b"inspire" not in fresh(tmp_path / "b", schemas).get(service="WFS", request="GetCapabilities").body
    wfs.close()


# ---------------------------------------------------------------- DescribeFeatureType


def element_types(root: etree._Element, name: str) -> dict[str, str | None]:
    kind = next(e for e in root.findall(XSD + "complexType") if e.get("name") == f"{name}Type")
    return {str(e.get("name")): e.get("type") for e in kind.iter(XSD + "element")}


@pytest.mark.parametrize(
    ("version", "point", "line", "area"),
    [
        ("1.0.0", "gml:PointPropertyType", "gml:LineStringPropertyType", "gml:MultiPolygonPropertyType"),
        ("1.1.0", "gml:PointPropertyType", "gml:LineStringPropertyType", "gml:MultiSurfacePropertyType"),
        ("2.0.0", "gml:PointPropertyType", "gml:CurvePropertyType", "gml:MultiSurfacePropertyType"),
    ],
)
def test_geometry_types_are_precise(wfs: Wfs, version: str, point: str, line: str, area: str) -> None:
    root = wfs.get(service="WFS", version=version, request="DescribeFeatureType").root
    assert element_types(root, "towns")["place"] == point
    assert element_types(root, "roads")["course"] == line
    assert element_types(root, "areas")["area"] == area


def test_types_of_values(wfs: Wfs) -> None:
    root = wfs.wfs2("DescribeFeatureType", typeNames="tw:towns").root
    assert element_types(root, "towns") == {
        "place": "gml:PointPropertyType", "name": "xsd:string", "kind": None, "population": "xsd:long",
        "height": "xsd:double", "capital": "xsd:boolean", "founded": "xsd:date", "seen": "xsd:dateTime",
    }  # fmt: skip
    assert next(root.iter(XSD + "maxLength")).get("value") == "20"
    notes = wfs.wfs2("DescribeFeatureType", typeNames="tw:notes").root
    text = next(e for e in notes.iter(XSD + "element") if e.get("name") == "text")
    assert (text.get("minOccurs"), text.get("nillable")) == ("1", None)


def test_the_schema_of_another_gml_by_output_format(wfs: Wfs) -> None:
    body = wfs.wfs2("DescribeFeatureType", outputFormat="text/xml; subtype=gml/3.1.1").body
    assert b"gml/3.1.1/base/gml.xsd" in body
    assert wfs.wfs2("DescribeFeatureType", outputFormat="csv").exception == ("InvalidParameterValue", "outputFormat")


def test_types_as_json(wfs: Wfs) -> None:
    answer = wfs.wfs2("DescribeFeatureType", typeNames="tw:towns", outputFormat="application/json").json
    assert (answer["targetNamespace"], answer["targetPrefix"]) == (URI, "tw")
    properties = {p["name"]: (p["type"], p["localType"]) for p in answer["featureTypes"][0]["properties"]}
    assert properties["place"] == ("gml:Point", "Point")
    assert properties["population"] == ("xsd:long", "long")


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_type(wfs: Wfs, version: str) -> None:
    answer = wfs.get(service="WFS", version=version, request="DescribeFeatureType", typeName="tw:nothing")
    assert answer.exception == ("InvalidParameterValue", "typeName")
    # Names that are there are said.
    assert b"tw:areas" in answer.body


# ---------------------------------------------------------------- exceptions


def test_each_version_has_its_own_exception(wfs: Wfs) -> None:
    for version, root, status in (
        ("1.0.0", OGC + "ServiceExceptionReport", 200),
        ("1.1.0", OWS10 + "ExceptionReport", 200),
        ("2.0.0", OWS11 + "ExceptionReport", 400),
    ):
        answer = wfs.get(service="WFS", version=version, request="GetFeature", typeName="tw:nothing")
        assert (answer.root.tag, answer.status) == (root, status)
        if version != "1.0.0":
            assert answer.root.get("version") == version
        as_json = wfs.get(
            service="WFS", version=version, request="GetFeature", typeName="tw:nothing", exceptions="application/json"
        )
        assert (as_json.content_type, as_json.exception[0]) == ("application/json", "InvalidParameterValue")
        assert as_json.json["version"] == version


@pytest.mark.parametrize(("namespaces", "version", "root"), [
    (NS1, "1.0.0", OGC + "ServiceExceptionReport"), (NS1, "1.1.0", OWS10 + "ExceptionReport"),
    (NS20, "2.0.0", OWS11 + "ExceptionReport"),
])  # fmt: skip
def test_exceptions_of_posts(wfs: Wfs, namespaces: str, version: str, root: str) -> None:
    name = "typeName" if version != "2.0.0" else "typeNames"
    body = f'<wfs:GetFeature {namespaces} service="WFS" version="{version}"><wfs:Query {name}="tw:x"/></wfs:GetFeature>'
    assert wfs.post(body, READER).root.tag == root


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"version": "2.0.0", "request": "GetFeature"}, ("MissingParameterValue", "service")),
        ({"service": "WMS", "version": "2.0.0", "request": "GetFeature"}, ("InvalidParameterValue", "service")),
        ({"service": "WFS", "version": "2.0.0"}, ("MissingParameterValue", "request")),
        ({"service": "WFS", "version": "2.0.0", "request": "GetMap"}, ("OperationNotSupported", "request")),
        ({"service": "WFS", "version": "3.0.0", "request": "GetFeature"}, ("InvalidParameterValue", "version")),
        ({"service": "WFS", "version": "2.0.0", "request": "GetFeature"}, ("MissingParameterValue", "typeNames")),
        ({"service": "WFS", "version": "1.1.0", "request": "GetFeature"}, ("MissingParameterValue", "typeName")),
        ({"service": "WFS", "version": "1.1.0", "request": "GetPropertyValue"}, ("OperationNotSupported", "request")),
        ({"service": "WFS", "version": "1.0.0", "request": "ListStoredQueries"}, ("OperationNotSupported", "request")),
        ({"service": "WFS", "version": "2.0.0", "request": "Transaction"}, ("OperationNotSupported", "request")),
        ({"service": "WFS", "version": "2.0.0", "request": "CreateStoredQuery"}, ("OperationNotSupported", "request")),
        ({"service": "WFS", "version": "2.0.0", "request": "GetFeature", "typeNames": "towns", "resultType": "maybe"},
         ("InvalidParameterValue", "resultType")),
        ({"service": "WFS", "version": "2.0.0", "request": "GetFeature", "storedQuery_id": ""},
         ("MissingParameterValue", "storedQuery_Id")),
    ],
)  # fmt: skip
def test_codes_and_locators(wfs: Wfs, parameters: dict[str, str], expected: tuple[str, str]) -> None:
    answer = wfs.get(**parameters)
    assert answer.exception == expected
    assert answer.status in (200, 400, 501)


def test_every_operation_has_its_right() -> None:
    assert set(OPERATIONS) == set(NAMES)
    assert len(CONFORMANCE) == len(set(CONFORMANCE))


def test_operation_names_for_metrics(wfs: Wfs) -> None:
    def name(query: str = "", body: bytes = b"") -> str:
        return wfs.door.operation(
            Request("GET", "", query.encode(), (), body, "default", "", Principal("", Role.VIEWER))
        )

    assert name("service=WFS&REQUEST=getfeature&x=y") == "GetFeature"
    assert name("a=b") == "unknown"
    assert name(body=b'<?xml version="1.0"?><!-- c --><wfs:Transaction xmlns:wfs="x"/>') == "Transaction"
    assert (
        name(body=b"<s:Envelope xmlns:s='x'><s:Header/><s:Body><wfs:LockFeature/></s:Body></s:Envelope>")
        == "LockFeature"
    )
    assert name(body=b"request=GetFeature&service=WFS") == "GetFeature"
    assert name(body=b"\xff\xfe<") == "unknown"
    assert GML


def test_each_workspace_has_its_own_prefix_and_namespace(tmp_path: Path, schemas: Validator) -> None:
    wfs = fresh(tmp_path, schemas)
    workspace = Workspace(0, str(uuid4()), "geo-1", title="Geo")
    stored = wfs.services.catalogue.put_workspace(workspace).result(30)
    fields = (Field("name", FieldKind.TEXT),)
    layer = Layer(0, str(uuid4()), stored.id, "towns", geometry_kind=GeometryKind.POINT, fields=fields)
    made = wfs.services.features.put_layer(stored, layer).result(30)
    wfs.load(made, [{"id": 1, "geometry": shapely.Point(1, 2), "name": "only one"}])

    def ask(query: str) -> Answer:
        base = "http://x.org/geo-1/wfs"
        return wfs.send(Request("GET", "", query.encode(), (), b"", "geo-1", base, READER, "r"), check=False)

    query = "service=WFS&version=2.0.0&request=GetFeature&typeNames="
    for name in ("geo-1:towns", "towns"):
        root = ask(query + name).root
        (feature,) = root.iter("{http://x.org/geo-1}towns")
        assert feature.prefix == "geo-1"
    assert ask(query + "tw:towns").exception == ("InvalidParameterValue", "typeNames")
    # The other workspace goes on as before, with a layer of the same name.
    assert len(wfs.features("tw:towns").ids) == 5
    assert b"http://x.org/geo-1/wfs?" in ask("service=WFS&request=GetCapabilities").body
    assert b"only one" not in wfs.features("tw:towns", resourceId="towns.1").body
    wfs.close()
