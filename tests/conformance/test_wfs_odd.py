"""Requests that are odd but legal, or nearly: what other servers stumble over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.conformance.door_support import Validator
from tests.conformance.wfs_support import NS20, READER, URI, WFS1, Wfs, fresh

from thalweg.cli import cli


@pytest.fixture(scope="module")
def wfs(tmp_path_factory: pytest.TempPathFactory, schemas: Validator) -> Iterator[Wfs]:
    made = fresh(tmp_path_factory.mktemp("odd"), schemas)
    yield made
    made.close()


RESOLVED = [
    ({}, 200, None),
    ({"resolve": "none"}, 200, None),
    ({"resolve": "local", "resolveDepth": "*", "resolveTimeout": "20"}, 200, None),
    ({"RESOLVE": "Local", "RESOLVEDEPTH": "2"}, 200, None),
    ({"resolve": ""}, 200, None),
    ({"resolve": "remote"}, 501, ("OptionNotSupported", "resolve")),
    ({"resolve": "all"}, 501, ("OptionNotSupported", "resolve")),
    ({"resolve": "some"}, 400, ("InvalidParameterValue", "resolve")),
    ({"resolveDepth": "deep"}, 400, ("InvalidParameterValue", "resolveDepth")),
    ({"resolveDepth": "-1"}, 400, ("InvalidParameterValue", "resolveDepth")),
    ({"resolveTimeout": "soon"}, 400, ("InvalidParameterValue", "resolveTimeout")),
]


@pytest.mark.parametrize(("parameters", "status", "exception"), RESOLVED)
def test_resolve(wfs: Wfs, parameters: dict[str, str], status: int, exception: tuple[str, str] | None) -> None:
    answers = [
        wfs.wfs2("GetFeature", typeNames="tw:towns", **parameters),
        wfs.wfs2("GetPropertyValue", typeNames="tw:towns", valueReference="kind", **parameters),
    ]
    if all(name[0].islower() for name in parameters):
        attributes = "".join(f' {name}="{value}"' for name, value in parameters.items())
        query = '<wfs:Query typeNames="tw:towns"/>'
        answers.append(
            wfs.post(f'<wfs:GetFeature {NS20} service="WFS" version="2.0.0"{attributes}>{query}</wfs:GetFeature>')
        )
    for answer in answers:
        assert answer.status == status
        if exception:
            assert answer.exception == exception
        else:
            assert answer.body.count(b"<wfs:member>") == 5
    # Before 2.0 it is a parameter like any other that is not known.
    assert wfs.wfs11("GetFeature", typeName="tw:towns", **parameters).status == 200


@pytest.mark.parametrize(
    ("text", "status", "exception"),
    [
        ("ALL", 200, None), ("FIRST", 200, None), ("LAST", 200, None), ("3", 200, None),
        ("2020-01-01T00:00:00Z", 200, None),
        ("PREVIOUS", 501, "OptionNotSupported"), ("NEXT", 501, "OptionNotSupported"),
        ("newest", 400, "InvalidParameterValue"), ("0", 400, "InvalidParameterValue"),
    ],
)  # fmt: skip
def test_feature_versions_of_a_query(wfs: Wfs, text: str, status: int, exception: str | None) -> None:
    answer = wfs.post(
        f'<wfs:GetFeature {NS20} service="WFS" version="2.0.0">'
        f'<wfs:Query typeNames="tw:towns" featureVersion="{text}"/></wfs:GetFeature>'
    )
    assert answer.status == status
    if exception:
        assert answer.exception == (exception, "featureVersion")
    else:
        assert len(answer.ids) == 5


def test_a_layer_made_by_command_is_filled_by_transactions(tmp_path: Path, schemas: Validator) -> None:
    wfs = fresh(tmp_path, schemas)
    command = ["layer", "create", "wells", "--geometry", "MultiPoint", "--field", "name:text:5:required"]
    result = CliRunner().invoke(cli, [*command, "--store", wfs.address])
    assert result.exit_code == 0, result.output
    # The running door knows it at once.
    insert = "<wfs:Insert><tw:wells><tw:name>{}</tw:name></tw:wells></wfs:Insert>"
    assert wfs.transaction(insert.format("toolong")).exception == ("InvalidValue", "name")
    assert wfs.transaction("<wfs:Insert><tw:wells/></wfs:Insert>").exception == ("InvalidValue", "name")
    assert wfs.transaction(insert.format("deep")).status == 200
    assert wfs.features("tw:wells").values("name") == ["deep"]
    wfs.close()


@pytest.mark.parametrize(
    "query",
    [
        "?service=WFS&version=2.0.0&request=GetFeature&typeNames=tw:towns",
        "&&service=wfs&VERSION=2.0.0&ReQuEsT=getfeature&TYPENAMES=tw:towns&",
        "service=WFS&version=2.0.0&request=GetFeature&typeNames=tw:towns&typeName=tw:towns",
        "service=WFS&version=2.0.0&request=GetFeature&typename=towns",
        "service=WFS&version=2.0.0&request=GetFeature&typeNames=(schema-element(tw:towns))",
        "service=WFS&version=2.0.0&request=GetFeature&typeNames=tw:towns&viewParams=a:1;b:2&strict=true&foo=%25&=x&y",
        "service=WFS&version=2.0.0&request=GetFeature&typeNames=tw:towns&count=&bbox=&filter=&sortBy=&propertyName=&"
        "srsName=&resultType=&outputFormat=&startIndex=&cql_filter=&resourceId=&exceptions=",
    ],
)
def test_pairs_as_clients_write_them(wfs: Wfs, query: str) -> None:
    answer = wfs.raw(query)
    assert (answer.status, answer.ids) == (200, ["towns.1", "towns.2", "towns.3", "towns.4", "towns.5"])


def test_two_names_of_a_parameter_that_contradict_each_other(wfs: Wfs) -> None:
    answer = wfs.wfs2("GetFeature", typeNames="tw:towns", typeName="tw:roads")
    assert (answer.status, answer.exception) == (400, ("InvalidParameterValue", "typeName"))


@pytest.mark.parametrize(
    "before",
    [b"", b"\n  ", b'<?xml version="1.0"?>', b'\r\n\t<?xml version="1.0" encoding="UTF-8"?>\n', b"\xef\xbb\xbf",
     b"<!-- from a script --><?go on?>"],
)  # fmt: skip
@pytest.mark.parametrize("content_type", ["text/xml", "application/x-www-form-urlencoded", "", "text/plain"])
def test_documents_as_clients_send_them(wfs: Wfs, before: bytes, content_type: str) -> None:
    body = f'<wfs:GetFeature {NS20} service="WFS" version="2.0.0"><wfs:Query typeNames="tw:roads"/></wfs:GetFeature>'
    answer = wfs.post(before + body.encode(), READER, content_type)
    assert (answer.status, answer.ids) == (200, ["roads.11", "roads.12"])


def test_places_that_are_nowhere_are_refused(wfs: Wfs) -> None:
    point = (
        '<wfs:Insert><tw:towns><tw:place><gml:Point srsName="{}"><gml:pos>{}</gml:pos></gml:Point></tw:place>'
        "</tw:towns></wfs:Insert>"
    )
    for srs, position in (
        ("urn:ogc:def:crs:EPSG::4326", "120 47"), ("EPSG:4326", "47 -91"), ("urn:ogc:def:crs:EPSG::4326", "0 361"),
    ):  # fmt: skip
        answer = wfs.transaction(point.format(srs, position))
        assert (answer.status, answer.exception) == (400, ("InvalidValue", "place"))
        assert b"order of its coordinates" in answer.body
    assert wfs.features("towns").returned == 5


@pytest.mark.parametrize(
    "srs", ["EPSG:4326", "http://www.opengis.net/gml/srs/epsg.xml#4326", "urn:ogc:def:crs:EPSG::4326"]
)
def test_transactions_of_1_0_0_are_x_y_whatever_the_crs_is_called(tmp_path: Path, schemas: Validator, srs: str) -> None:
    """As QGIS 3 sends them for a layer that it reads by 2.0.0 (qgis/QGIS issue 47254)."""
    wfs = fresh(tmp_path, schemas)
    place = f'<gml:Point srsName="{srs}"><gml:coordinates ts=" " cs=",">9.25,46.5</gml:coordinates></gml:Point>'
    answer = wfs.post(
        f'<Transaction xmlns="http://www.opengis.net/wfs" xmlns:tw="{URI}" xmlns:gml="http://www.opengis.net/gml" '
        f'service="WFS" version="1.0.0"><Update typeName="tw:towns"><Property><Name>tw:place</Name><Value>{place}'
        '</Value></Property><Filter xmlns="http://www.opengis.net/ogc"><FeatureId fid="towns.1"/></Filter></Update>'
        f"<Insert><towns xmlns='{URI}'><name>new</name><place>{place}</place></towns></Insert></Transaction>"
    )
    assert b"SUCCESS" in answer.body
    found = wfs.features("towns", bbox="9.24,46.49,9.26,46.51,EPSG:4326")
    assert found.values("name") == ["Vaduz", "new"]
    wfs.close()


def test_what_may_be_done_with_types_is_told_in_each_version(wfs: Wfs) -> None:
    """QGIS edits a layer of 1.0.0 and 1.1.0 only if these say so."""
    old = wfs.get(service="WFS", version="1.0.0", request="GetCapabilities").root
    (common,) = old.findall(f"{WFS1}FeatureTypeList/{WFS1}Operations")
    assert [e.tag for e in common] == [WFS1 + name for name in ("Query", "Insert", "Update", "Delete", "Lock")]
    old = wfs.get(service="WFS", version="1.1.0", request="GetCapabilities").root
    (common,) = old.findall(f"{WFS1}FeatureTypeList/{WFS1}Operations")
    assert [e.text for e in common] == ["Insert", "Update", "Delete", "Lock", "Query", "GetGmlObject"]


def test_a_filter_called_query_is_one(wfs: Wfs) -> None:
    """As OWSLib writes it; anything else of that name is no parameter of WFS and left alone."""
    condition = "<fes:Filter><fes:ResourceId rid='towns.2'/></fes:Filter>"
    assert wfs.features("towns", query=condition).ids == ["towns.2"]
    assert wfs.features("towns", query="towns").returned == 5
    assert wfs.features("towns", query=condition, filter=condition.replace("towns.2", "towns.3")).ids == ["towns.3"]
    assert wfs.features("towns", query=condition, bbox="47,9,48,10").exception == ("InvalidParameterValue", "bbox")
