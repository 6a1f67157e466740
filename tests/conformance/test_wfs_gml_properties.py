"""The properties that GML has for every feature (gml:description, gml:identifier, gml:name): kept as they were given.

Every XML answer is checked by the official schemas and the door's own (``Wfs.check``), so that they stand where
gml:AbstractFeatureType has them (OGC 07-036 annex C; description, identifier, name).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lxml import etree
from tests.conformance.door_support import Validator
from tests.conformance.wfs_support import TW, WRITER, Wfs, fresh

from thalweg.domain.features import FeatureQuery, FragmentForm
from thalweg.services.features import stamp_of

GML = "{http://www.opengis.net/gml}"
GML32 = "{http://www.opengis.net/gml/3.2}"
GIVEN = (
    "<gml:description>A &lt;town&gt;</gml:description>"
    '<gml:identifier codeSpace="http://example.org/?a&amp;b">id-1</gml:identifier><gml:name>First</gml:name>'
)


@pytest.fixture
def wfs(tmp_path: Path, schemas: Validator) -> Iterator[Wfs]:
    made = fresh(tmp_path, schemas)
    yield made
    made.close()


def children(feature: etree._Element) -> list[tuple[str, str]]:
    return [(str(child.tag), child.text or "") for child in feature if len(child) == 0]


def feature(wfs: Wfs, rid: str, version: str = "2.0.0") -> etree._Element:
    name = rid.partition(".")[0]
    answer = wfs.get(service="WFS", version=version, request="GetFeature", typeName=name, featureId=rid)
    (found,) = answer.root.iter(TW + name)
    return found


def insert(wfs: Wfs, content: str) -> None:
    answer = wfs.transaction(f"<wfs:Insert>{content}</wfs:Insert>")
    assert answer.status == 200, answer.body


def update(wfs: Wfs, rid: str, reference: str, value: str | None) -> int:
    inside = "" if value is None else f"<wfs:Value>{value}</wfs:Value>"
    answer = wfs.transaction(
        f'<wfs:Update typeName="tw:{rid.partition(".")[0]}"><wfs:Property><wfs:ValueReference '
        f'xmlns:g="http://www.opengis.net/gml/3.2">{reference}</wfs:ValueReference>{inside}</wfs:Property><fes:Filter>'
        f'<fes:ResourceId rid="{rid}"/></fes:Filter></wfs:Update>'
    )
    return answer.status


def test_they_come_back_in_every_version_beside_a_name_of_the_layers_own(wfs: Wfs) -> None:
    insert(wfs, f"<tw:towns>{GIVEN}<tw:name>Own</tw:name></tw:towns>")
    found = feature(wfs, "towns.6")
    assert children(found) == [
        (GML32 + "description", "A <town>"), (GML32 + "identifier", "id-1"), (GML32 + "name", "First"),
        (TW + "name", "Own"),
    ]  # fmt: skip
    assert found[1].get("codeSpace") == "http://example.org/?a&b"
    for version in ("1.0.0", "1.1.0"):
        # No identifier before GML 3.2.
        assert children(feature(wfs, "towns.6", version)) == [
            (GML + "description", "A <town>"), (GML + "name", "First"), (TW + "name", "Own"),
        ]  # fmt: skip
    # Others are what they were.
    assert children(feature(wfs, "swiss.31")) == [(TW + "name", "Bern")]
    assert children(feature(wfs, "towns.4")) == [(TW + "name", "Schaan"), (TW + "kind", "village")]


def test_they_come_before_the_geometry_and_in_other_coordinates(wfs: Wfs) -> None:
    point = '<tw:place><gml:Point srsName="EPSG:4326"><gml:pos>8 47</gml:pos></gml:Point></tw:place>'
    insert(wfs, f"<tw:towns>{GIVEN}{point}</tw:towns>")
    for version, form in (("2.0.0", "EPSG:3857"), ("1.1.0", "EPSG:2056"), ("1.0.0", "EPSG:3857")):
        answer = wfs.get(
            service="WFS", version=version, request="GetFeature", typeName="towns", featureId="towns.6", srsName=form
        )
        (found,) = answer.root.iter(TW + "towns")
        names = [etree.QName(child).localname for child in found if etree.QName(child).localname != "boundedBy"]
        assert names == ["description", *(["identifier"] if version == "2.0.0" else []), "name", "place"]


def test_layers_without_a_geometry_and_without_a_field_called_so(wfs: Wfs) -> None:
    insert(wfs, f"<tw:notes>{GIVEN}<tw:text>t</tw:text></tw:notes>")
    assert [text for _, text in children(feature(wfs, "notes.3"))] == ["A <town>", "id-1", "First", "t"]
    assert b"gml:name" not in wfs.wfs2("DescribeFeatureType", typeNames="notes").body
    assert b"gml:name" not in wfs.wfs2("DescribeFeatureType", typeNames="notes", outputFormat="application/json").body


def test_geojson_has_them_where_they_are(wfs: Wfs) -> None:
    insert(wfs, f"<tw:roads>{GIVEN}<tw:ref>N</tw:ref></tw:roads>")
    features = wfs.features("roads", outputFormat="json").json["features"]
    assert features[0]["properties"] == {"ref": "A1", "town": "Vaduz"}
    assert features[-1]["properties"] == {
        "ref": "N", "town": None, "gml:description": "A <town>", "gml:identifier": "id-1",
        "gml:codeSpace": "http://example.org/?a&b", "gml:name": "First",
    }  # fmt: skip
    table = wfs.features("roads", outputFormat="csv").body.decode().splitlines()
    assert "gml:name" in table[0]
    assert "First" in table[-1]


def test_an_update_sets_and_removes_them(wfs: Wfs) -> None:
    assert update(wfs, "roads.11", "gml:name[1]", "One") == 200
    assert update(wfs, "roads.11", "g:description", "Two") == 200
    assert update(wfs, "roads.11", "gml:identifier", "three") == 200
    found = feature(wfs, "roads.11")
    assert [text for _, text in children(found)] == ["Two", "three", "One", "A1", "Vaduz"]
    assert found[1].get("codeSpace") == ""
    assert update(wfs, "roads.11", "gml:name", None) == 200
    assert update(wfs, "roads.11", "gml:identifier", None) == 200
    assert [text for _, text in children(feature(wfs, "roads.11"))] == ["Two", "A1", "Vaduz"]
    # Taking away what was never there makes no field.
    assert update(wfs, "areas.21", "gml:name", None) == 200
    (layer,) = [item for item in wfs.services.features.layers(wfs.catalogue, WRITER) if item.name == "areas"]
    assert [field.name for field in layer.fields] == ["use"]


def test_a_replacement_keeps_what_it_gives_and_takes_away_the_rest(wfs: Wfs) -> None:
    def replace(content: str) -> None:
        answer = wfs.transaction(
            f"<wfs:Replace><tw:roads>{content}</tw:roads><fes:Filter><fes:ResourceId rid='roads.12'/></fes:Filter>"
            "</wfs:Replace>"
        )
        assert answer.status == 200

    replace(GIVEN)
    assert [text for _, text in children(feature(wfs, "roads.12"))] == ["A <town>", "id-1", "First"]
    replace("<gml:name>Second</gml:name><gml:name>Third</gml:name><tw:ref>R</tw:ref>")
    assert [text for _, text in children(feature(wfs, "roads.12"))] == ["Second", "R"]


def test_filters_values_orders_and_projections_name_them(wfs: Wfs) -> None:
    # Before the layer keeps one, its own field of the name answers, or nothing does.
    assert wfs.features("towns", cql_filter="\"gml:name\" = 'Vaduz'").ids == ["towns.1"]
    assert wfs.features("roads", cql_filter="\"gml:name\" = 'B'").ids == []
    assert update(wfs, "roads.12", "gml:name", "A") == 200
    assert update(wfs, "roads.11", "gml:name", "B") == 200
    assert update(wfs, "roads.11", "gml:identifier", "7") == 200
    assert wfs.features("roads", cql_filter="\"gml:name\" = 'B'").ids == ["roads.11"]
    condition = (
        '<fes:PropertyIsEqualTo><fes:ValueReference xmlns:g="http://www.opengis.net/gml/3.2">g:name</fes:ValueReference>'
        "<fes:Literal>A</fes:Literal></fes:PropertyIsEqualTo>"
    )
    assert wfs.filtered("roads", condition).ids == ["roads.12"]
    assert wfs.features("roads", sortBy="gml:name").ids[:2] == ["roads.12", "roads.11"]
    for reference, expected in (("gml:name", ["B", "A"]), ("tw:roads/gml:identifier", ["7"])):
        values = wfs.wfs2("GetPropertyValue", typeNames="roads", valueReference=reference)
        assert values.matched == len(expected)
        assert [(member.text or "") for member in values.root] == expected
    only = wfs.features("roads", propertyName="gml:name", resourceId="roads.11")
    assert children(next(only.root.iter(TW + "roads"))) == [(GML32 + "name", "B")]
    without = wfs.features("roads", propertyName="ref", resourceId="roads.11")
    assert children(next(without.root.iter(TW + "roads"))) == [(TW + "ref", "A1")]


def test_a_filter_finds_features_by_a_name_of_their_own_until_they_get_another(wfs: Wfs) -> None:
    def named(name: str) -> list[str]:
        return wfs.features("towns", cql_filter=f"\"gml:name\" = '{name}'").ids

    assert (named("Vaduz"), named("First")) == (["towns.1"], [])
    insert(wfs, f"<tw:towns>{GIVEN}<tw:name>Own</tw:name></tw:towns>")
    assert (named("Vaduz"), named("First"), named("Own")) == (["towns.1"], ["towns.6"], [])
    assert update(wfs, "towns.1", "gml:name", "Capital") == 200
    assert (named("Vaduz"), named("Capital")) == ([], ["towns.1"])


def test_stored_answers_of_a_layer_stay_current_and_the_log_knows_what_was(wfs: Wfs) -> None:
    features = wfs.services.features
    (layer,) = [item for item in features.layers(wfs.catalogue, WRITER) if item.name == "roads"]
    stamp = stamp_of(layer, features.prefix(layer))
    assert update(wfs, "roads.11", "gml:name", "One") == 200
    assert update(wfs, "roads.11", "gml:name", "Two") == 200
    (layer,) = [item for item in features.layers(wfs.catalogue, WRITER) if item.name == "roads"]
    assert stamp_of(layer, features.prefix(layer)) == stamp
    store = wfs.store
    for form in (FragmentForm.GML2, FragmentForm.GML3, FragmentForm.GEOJSON):
        (run,) = store.fragments(layer.id, form, stamp, FeatureQuery())
        assert run.content is not None
        assert run.content.count(b"Two") == 1
    newest = store.feature_history(layer.id, 11)[0].before
    assert newest is not None
    assert newest.columns["gml:name"] == ["One"]


def test_a_failed_transaction_leaves_no_field(wfs: Wfs) -> None:
    answer = wfs.transaction(
        "<wfs:Insert><tw:areas><gml:name>x</gml:name></tw:areas></wfs:Insert><wfs:Insert><tw:notes/></wfs:Insert>"
    )
    assert answer.status == 400
    long = "x" * 1_000_001
    assert wfs.transaction(f"<wfs:Insert><tw:areas><gml:name>{long}</gml:name></tw:areas></wfs:Insert>").status == 400
    (layer,) = [item for item in wfs.services.features.layers(wfs.catalogue, WRITER) if item.name == "areas"]
    assert [field.name for field in layer.fields] == ["use"]
