"""Transactions, locks and stored queries, in every version; and that a failed transaction leaves nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance.door_support import Validator
from tests.conformance.wfs_support import (
    ADMIN,
    FES2,
    GML32,
    NS1,
    NS20,
    OGC,
    READER,
    TW,
    WFS1,
    WFS2,
    WRITER,
    Answer,
    Wfs,
    fresh,
)

from thalweg.domain.access import Principal, Role
from thalweg.settings import Settings


@pytest.fixture
def wfs(tmp_path: Path, schemas: Validator) -> Iterator[Wfs]:
    made = fresh(tmp_path, schemas)
    yield made
    made.close()


def point(x: float, y: float, srs: str = "urn:ogc:def:crs:EPSG::4326") -> str:
    return f'<tw:place><gml:Point srsName="{srs}"><gml:pos>{x} {y}</gml:pos></gml:Point></tw:place>'


def totals(answer: Answer) -> tuple[int, ...]:
    """Inserted, updated, replaced, deleted of a 2.0 answer."""
    assert answer.status == 200, answer.body
    names = ("totalInserted", "totalUpdated", "totalReplaced", "totalDeleted")
    return tuple(int(str(answer.root.findtext(f".//{WFS2}{name}"))) for name in names)


def town(wfs: Wfs, rid: str) -> dict[str, object]:
    (feature,) = wfs.features("tw:towns", resourceId=rid, outputFormat="json").json["features"]
    return feature["properties"] | {"at": feature["geometry"] and feature["geometry"]["coordinates"]}  # type: ignore[no-any-return]


def everything(wfs: Wfs) -> list[bytes]:
    """All features of all layers, to see whether anything has changed."""
    layers = wfs.services.features.layers(wfs.catalogue, ADMIN)
    return [wfs.features(layer.name, outputFormat="csv").body for layer in layers]


def delete(rid: str) -> str:
    name = rid.partition(".")[0]
    return f'<wfs:Delete typeName="tw:{name}"><fes:Filter><fes:ResourceId rid="{rid}"/></fes:Filter></wfs:Delete>'


def update(rid: str, reference: str, value: str | None, handle: str = "") -> str:
    name = rid.partition(".")[0]
    content = "" if value is None else f"<wfs:Value>{value}</wfs:Value>"
    return (
        f'<wfs:Update typeName="tw:{name}" handle="{handle}"><wfs:Property><wfs:ValueReference>{reference}'
        f'</wfs:ValueReference>{content}</wfs:Property><fes:Filter><fes:ResourceId rid="{rid}"/></fes:Filter>'
        "</wfs:Update>"
    )


# ---------------------------------------------------------------- insert


def test_an_inserted_feature_is_what_was_sent(wfs: Wfs) -> None:
    answer = wfs.transaction(
        f"<wfs:Insert handle='first'><tw:towns gml:id='mine'>{point(46.5, 8.5)}<tw:name>A &amp; &lt;B&gt;</tw:name>"
        "<tw:kind>town</tw:kind><tw:population>12</tw:population><tw:height>1e2</tw:height><tw:capital>1</tw:capital>"
        "<tw:founded>1291-08-01</tw:founded><tw:seen>2020-06-01T02:00:00+02:00</tw:seen></tw:towns></wfs:Insert>"
    )
    assert totals(answer) == (1, 0, 0, 0)
    feature = answer.root.find(f"{WFS2}InsertResults/{WFS2}Feature")
    assert feature is not None
    assert feature.get("handle") == "first"
    assert feature[0].get("rid") == "towns.6"
    assert town(wfs, "towns.6") == {
        "name": "A & <B>", "kind": "town", "population": 12, "height": 100.0, "capital": True, "founded": "1291-08-01",
        "seen": "2020-06-01T00:00:00Z", "at": [8.5, 46.5],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("srs", "first", "second"),
    [("urn:ogc:def:crs:EPSG::4326", 46.5, 8.5), ("EPSG:4326", 8.5, 46.5),
     ("http://www.opengis.net/def/crs/EPSG/0/4326", 46.5, 8.5)],
)  # fmt: skip
def test_coordinates_come_in_the_order_of_their_crs(wfs: Wfs, srs: str, first: float, second: float) -> None:
    wfs.transaction(f"<wfs:Insert><tw:towns>{point(first, second, srs)}</tw:towns></wfs:Insert>")
    assert town(wfs, "towns.6")["at"] == [8.5, 46.5]
    # Without a CRS of their own they are in that of the action, else in the layer's, authority's order.
    bare = "<tw:place><gml:Point><gml:pos>{} {}</gml:pos></gml:Point></tw:place>"
    wfs.transaction(f'<wfs:Insert srsName="{srs}"><tw:towns>{bare.format(first, second)}</tw:towns></wfs:Insert>')
    assert town(wfs, "towns.7")["at"] == [8.5, 46.5]
    wfs.transaction(f"<wfs:Insert><tw:towns>{bare.format(46.5, 8.5)}</tw:towns></wfs:Insert>")
    assert town(wfs, "towns.8")["at"] == [8.5, 46.5]


def test_a_geometry_in_another_crs_is_moved(wfs: Wfs) -> None:
    wfs.transaction(f"<wfs:Insert><tw:towns>{point(2_600_000, 1_200_000, 'EPSG:2056')}</tw:towns></wfs:Insert>")
    assert town(wfs, "towns.6")["at"] == pytest.approx([7.4386324, 46.9510827], abs=2e-5)


def test_several_features_and_collections(wfs: Wfs) -> None:
    answer = wfs.transaction(
        "<wfs:Insert><tw:towns><tw:name>a</tw:name></tw:towns><tw:roads><tw:ref>b</tw:ref></tw:roads>"
        "<tw:towns><tw:name>c</tw:name></tw:towns></wfs:Insert><wfs:Insert><wfs:FeatureCollection><wfs:member>"
        "<tw:towns><tw:name>d</tw:name></tw:towns></wfs:member></wfs:FeatureCollection></wfs:Insert>"
    )
    assert totals(answer) == (4, 0, 0, 0)
    rids = [element.get("rid") for element in answer.root.iter(FES2 + "ResourceId")]
    assert rids == ["towns.6", "roads.13", "towns.7", "towns.8"]


def test_nil_and_empty_are_missing(wfs: Wfs) -> None:
    wfs.transaction(
        '<wfs:Insert><tw:towns xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><tw:place xsi:nil="true"/>'
        '<tw:name xsi:nil="true"/><tw:population/><tw:kind></tw:kind></tw:towns></wfs:Insert>'
    )
    found = town(wfs, "towns.6")
    assert (found["at"], found["name"], found["population"], found["kind"]) == (None, None, None, "")


def test_a_thousand_inserts_take_less_than_a_second(wfs: Wfs) -> None:
    """The issue's figure, with room for a busy machine."""
    content = "".join(f"<tw:towns>{point(46, 8)}<tw:name>n{i}</tw:name></tw:towns>" for i in range(1000))
    begin = time.perf_counter()
    answer = wfs.transaction(f"<wfs:Insert>{content}</wfs:Insert>")
    took = time.perf_counter() - begin
    assert totals(answer)[0] == 1000
    assert took < 3
    assert wfs.features("tw:towns", resultType="hits").matched == 1005


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("<tw:towns><tw:population>many</tw:population></tw:towns>", "population"),
        ("<tw:towns><tw:population>99999999999999999999</tw:population></tw:towns>", "population"),
        ("<tw:towns><tw:height>NaN</tw:height></tw:towns>", "height"),
        ("<tw:towns><tw:height>INF</tw:height></tw:towns>", "height"),
        ("<tw:towns><tw:capital>perhaps</tw:capital></tw:towns>", "capital"),
        ("<tw:towns><tw:founded>yesterday</tw:founded></tw:towns>", "founded"),
        ("<tw:towns><tw:founded>2020-02-30</tw:founded></tw:towns>", "founded"),
        ("<tw:towns><tw:seen>2020-13-01T00:00:00Z</tw:seen></tw:towns>", "seen"),
        ("<tw:towns><tw:colour>red</tw:colour></tw:towns>", "colour"),
        ("<tw:towns><tw:name>a</tw:name><tw:name>b</tw:name></tw:towns>", "name"),
        ("<tw:towns><tw:name><b>bold</b></tw:name></tw:towns>", "name"),
        ("<tw:towns><tw:kind>" + "x" * 21 + "</tw:kind></tw:towns>", "kind"),
        ("<tw:towns><tw:place>46 8</tw:place><tw:place/></tw:towns>", "place"),
        (("<tw:towns><tw:place><gml:LineString><gml:posList>1 2 3 4</gml:posList></gml:LineString></tw:place>"
         "</tw:towns>"), "place"),
        ("<tw:towns><tw:place><gml:Point><gml:pos>1</gml:pos></gml:Point></tw:place></tw:towns>", "place"),
        ("<tw:towns><tw:place><gml:Point><gml:pos>x y</gml:pos></gml:Point></tw:place></tw:towns>", "place"),
        (("<tw:towns><tw:place><gml:Point srsName='EPSG:1'><gml:pos>1 2</gml:pos></gml:Point></tw:place>"
         "</tw:towns>"), "place"),
        ("<tw:towns><tw:place><kml:Point xmlns:kml='http://www.opengis.net/kml/2.2'/></tw:place></tw:towns>", "place"),
        ("<tw:areas><tw:area><gml:Polygon><gml:exterior><gml:LinearRing><gml:posList>0 0 1 1</gml:posList>"
         "</gml:LinearRing></gml:exterior></gml:Polygon></tw:area></tw:areas>", "area"),
        ("<tw:notes/>", "text"),
        ("<tw:nothing/>", "nothing"),
        ("<x:towns xmlns:x='http://example.org/'/>", "towns"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_and_nothing_is_stored(wfs: Wfs, content: str, names: str) -> None:
    before = everything(wfs)
    answer = wfs.transaction(f"{delete('towns.1')}<wfs:Insert>{content}</wfs:Insert>")
    assert (answer.status, answer.exception[0]) == (400, "InvalidValue"), answer.body
    assert names in answer.body.decode()
    with_handle = wfs.transaction(f"{delete('towns.1')}<wfs:Insert handle='the second'>{content}</wfs:Insert>")
    if not any(judged in content for judged in ("xxx", "LineString", "kml:")):
        # Lengths and kinds of geometries are judged by the store, for all actions at once.
        assert with_handle.exception == ("InvalidValue", "the second")
    assert everything(wfs) == before


# ---------------------------------------------------------------- update, replace, delete


def test_update_changes_what_it_names(wfs: Wfs) -> None:
    answer = wfs.transaction(
        update("towns.1", "tw:name", "Neu") + update("towns.1", "population", None)
        + update("towns.1", "tw:place", '<gml:Point srsName="EPSG:4326"><gml:pos>1 2</gml:pos></gml:Point>')
    )  # fmt: skip
    assert totals(answer) == (0, 3, 0, 0)
    found = town(wfs, "towns.1")
    assert (found["name"], found["population"], found["at"], found["kind"]) == ("Neu", None, [1.0, 2.0], "town")


def test_update_by_condition_and_of_all(wfs: Wfs) -> None:
    by_kind = (
        '<wfs:Update typeName="tw:towns"><wfs:Property><wfs:ValueReference>population</wfs:ValueReference><wfs:Value>1'
        "</wfs:Value></wfs:Property>{}</wfs:Update>"
    )
    condition = (
        "<fes:Filter><fes:PropertyIsEqualTo><fes:ValueReference>kind</fes:ValueReference><fes:Literal>city"
        "</fes:Literal></fes:PropertyIsEqualTo></fes:Filter>"
    )
    answer = wfs.transaction(by_kind.format(condition))
    assert totals(answer) == (0, 2, 0, 0)
    assert [e.get("rid") for e in answer.root.iter(FES2 + "ResourceId")] == ["towns.2", "towns.3"]
    assert totals(wfs.transaction(by_kind.format(""))) == (0, 5, 0, 0)
    assert wfs.features("towns", cql_filter="population = 1").matched == 5


@pytest.mark.parametrize(
    ("reference", "value"),
    [("colour", "red"), ("@gml:id", "towns.9"), ("gml:boundedBy", "x"), ("gml:codeSpace", "x"), ("population", "x"),
     ("place", "text"), ("name", "<b/>"), ("a/b/c", "x"), ("", "x")],
)  # fmt: skip
def test_what_cannot_be_updated_is_refused(wfs: Wfs, reference: str, value: str) -> None:
    before = everything(wfs)
    answer = wfs.transaction(update("towns.2", "name", "changed") + update("towns.1", reference, value))
    if (reference, value) == ("place", "text"):
        # An element without a geometry removes it.
        assert totals(answer) == (0, 2, 0, 0)
        return
    assert answer.status == 400
    assert answer.exception[0] in ("InvalidValue", "MissingParameterValue")
    assert everything(wfs) == before


def test_a_mandatory_property_cannot_be_removed(wfs: Wfs) -> None:
    assert wfs.transaction(update("notes.1", "text", None)).exception == ("InvalidValue", "text")


def test_replace_takes_away_what_it_does_not_give(wfs: Wfs) -> None:
    answer = wfs.transaction(
        "<wfs:Replace handle='r'><tw:towns gml:id='towns.1'><tw:name>Neu</tw:name></tw:towns><fes:Filter>"
        '<fes:ResourceId rid="towns.1"/></fes:Filter></wfs:Replace>'
    )
    assert totals(answer) == (0, 0, 1, 0)
    found = town(wfs, "towns.1")
    assert (found["name"], found["population"], found["at"]) == ("Neu", None, None)


def test_delete_by_condition(wfs: Wfs) -> None:
    answer = wfs.transaction(
        '<wfs:Delete typeName="tw:towns"><fes:Filter><fes:BBOX><fes:ValueReference>place</fes:ValueReference>'
        '<gml:Envelope srsName="EPSG:4326"><gml:lowerCorner>9 47</gml:lowerCorner><gml:upperCorner>10 48'
        "</gml:upperCorner></gml:Envelope></fes:BBOX></fes:Filter></wfs:Delete>"
    )
    assert totals(answer) == (0, 0, 0, 2)
    assert wfs.features("towns").ids == ["towns.2", "towns.3", "towns.5"]


def test_a_delete_without_a_filter_is_refused(wfs: Wfs) -> None:
    assert wfs.transaction('<wfs:Delete typeName="tw:towns"/>').exception == ("MissingParameterValue", "Filter")
    assert len(wfs.features("towns").ids) == 5


def test_actions_see_what_those_before_did(wfs: Wfs) -> None:
    answer = wfs.transaction(
        "<wfs:Insert><tw:roads><tw:ref>N</tw:ref></tw:roads></wfs:Insert>" + delete("roads.13") + delete("roads.13")
        + update("roads.11", "ref", "Z") + delete("roads.11")
    )  # fmt: skip
    assert totals(answer) == (1, 1, 0, 2)
    assert wfs.features("roads").ids == ["roads.12"]


def test_ids_are_not_given_twice(wfs: Wfs) -> None:
    insert = "<wfs:Insert><tw:roads/></wfs:Insert>"
    first = wfs.transaction(insert).root.find(f".//{FES2}ResourceId")
    wfs.transaction(delete("roads.13"))
    second = wfs.transaction(insert).root.find(f".//{FES2}ResourceId")
    assert first is not None
    assert second is not None
    assert (first.get("rid"), second.get("rid")) == ("roads.13", "roads.14")


def test_a_transaction_without_actions_does_nothing(wfs: Wfs) -> None:
    assert totals(wfs.transaction("")) == (0, 0, 0, 0)


def test_native_actions(wfs: Wfs) -> None:
    native = '<wfs:Native vendorId="x" safeToIgnore="{}"/>'
    assert totals(wfs.transaction(native.format("true") + delete("towns.1"))) == (0, 0, 0, 1)
    refused = wfs.transaction(delete("towns.2") + native.format("false"))
    assert refused.exception[0] == "OptionNotSupported"
    assert wfs.features("towns", resourceId="towns.2").ids == ["towns.2"]


# ---------------------------------------------------------------- old versions


def old(wfs: Wfs, version: str, content: str, principal: Principal = WRITER) -> Answer:
    return wfs.post(f'<wfs:Transaction {NS1} service="WFS" version="{version}">{content}</wfs:Transaction>', principal)


OLD_INSERT = (
    '<wfs:Insert handle="h"{}><tw:roads {}><tw:course><gml:LineString srsName="EPSG:4326"><gml:coordinates>1,2 3,4'
    "</gml:coordinates></gml:LineString></tw:course><tw:ref>N</tw:ref></tw:roads></wfs:Insert>"
)


def test_version_110(wfs: Wfs) -> None:
    answer = old(wfs, "1.1.0", OLD_INSERT.format("", ""))
    assert answer.root.findtext(f".//{WFS1}totalInserted") == "1"
    feature = answer.root.find(f"{WFS1}InsertResults/{WFS1}Feature")
    assert feature is not None
    assert (feature.get("handle"), feature[0].get("fid")) == ("h", "roads.13")
    assert wfs.features("roads", resourceId="roads.13", outputFormat="json").json["features"][0]["geometry"][
        "coordinates"
    ] == [[1, 2], [3, 4]]
    change = old(
        wfs, "1.1.0",
        '<wfs:Update typeName="tw:roads"><wfs:Property><wfs:Name>tw:ref</wfs:Name><wfs:Value>M</wfs:Value>'
        '</wfs:Property><ogc:Filter><ogc:FeatureId fid="roads.13"/></ogc:Filter></wfs:Update><wfs:Delete '
        'typeName="tw:roads"><ogc:Filter><ogc:GmlObjectId gml:id="roads.11"/></ogc:Filter></wfs:Delete>',
    )  # fmt: skip
    assert (change.root.findtext(f".//{WFS1}totalUpdated"), change.root.findtext(f".//{WFS1}totalDeleted")) == (
        "1",
        "1",
    )
    failed = old(wfs, "1.1.0", '<wfs:Insert handle="h"><tw:roads><tw:colour/></tw:roads></wfs:Insert>')
    assert (failed.status, failed.exception) == (200, ("InvalidValue", "h"))


def test_idgen_of_110(wfs: Wfs) -> None:
    own = 'gml:id="roads.77"'
    assert b'fid="roads.77"' in old(wfs, "1.1.0", OLD_INSERT.format(' idgen="UseExisting"', own)).body
    again = old(wfs, "1.1.0", OLD_INSERT.format(' idgen="UseExisting"', own))
    assert again.exception[0] == "InvalidParameterValue"
    replaced = old(wfs, "1.1.0", OLD_INSERT.format(' idgen="ReplaceDuplicate"', 'gml:id="roads.11"'))
    assert b'fid="roads.11"' in replaced.body
    assert wfs.features("roads", resourceId="roads.11").values("ref") == ["N"]
    new = old(wfs, "1.1.0", OLD_INSERT.format(' idgen="GenerateNew"', own))
    assert b'fid="roads.78"' in new.body
    assert old(wfs, "1.1.0", OLD_INSERT.format(' idgen="UseExisting"', 'gml:id="x"')).exception == ("InvalidValue", "h")


def test_version_100(wfs: Wfs) -> None:
    answer = old(wfs, "1.0.0", OLD_INSERT.format("", ""))
    assert answer.root.tag == WFS1 + "WFS_TransactionResponse"
    assert answer.root.find(f"{WFS1}InsertResult/{OGC}FeatureId").get("fid") == "roads.13"  # type: ignore[union-attr]
    assert answer.root.find(f"{WFS1}TransactionResult/{WFS1}Status/{WFS1}SUCCESS") is not None
    failed = old(wfs, "1.0.0", '<wfs:Insert handle="h"><tw:roads><tw:colour/></tw:roads></wfs:Insert>')
    assert failed.status == 200
    assert failed.root.find(f"{WFS1}TransactionResult/{WFS1}Status/{WFS1}FAILED") is not None
    assert failed.root.findtext(f"{WFS1}TransactionResult/{WFS1}Locator") == "h"
    pairs = wfs.get(
        WRITER, service="WFS", version="1.0.0", request="Transaction", operation="Delete", typeName="tw:roads",
        featureId="roads.12",
    )  # fmt: skip
    assert pairs.root.find(f"{WFS1}TransactionResult/{WFS1}Status/{WFS1}SUCCESS") is not None
    assert wfs.features("roads").ids == ["roads.11", "roads.13"]


# ---------------------------------------------------------------- who may


def test_who_may_not_change_anything(wfs: Wfs) -> None:
    before = everything(wfs)
    anonymous = wfs.transaction(delete("towns.1"), READER)
    assert (anonymous.status, anonymous.exception[0]) == (401, "NoApplicableCode")
    viewer = wfs.transaction(delete("towns.1"), Principal("vera", Role.VIEWER))
    assert (viewer.status, viewer.exception[0]) == (403, "NoApplicableCode")
    assert old(wfs, "1.0.0", OLD_INSERT.format("", ""), READER).status == 401
    for request in ("LockFeature", "GetFeatureWithLock"):
        assert wfs.wfs2(request, typeNames="tw:towns").status == 401
    assert wfs.wfs2("DropStoredQuery", storedQuery_id="x").status == 401
    assert everything(wfs) == before


@pytest.mark.parametrize(("level", "refused"), [("basic", 5), ("transactional", 2), ("complete", 0)])
def test_service_levels(tmp_path: Path, schemas: Validator, level: str, refused: int) -> None:
    wfs = fresh(tmp_path, schemas, Settings(public_url="http://x.org", wfs_service_level=level))
    asked = [
        wfs.transaction(delete("towns.1")),
        wfs.wfs2("LockFeature", WRITER, typeNames="tw:towns"),
        wfs.wfs2("GetFeatureWithLock", WRITER, typeNames="tw:roads"),
        wfs.wfs2("DropStoredQuery", WRITER, storedQuery_id="x"),
        wfs.post(
            f'<wfs:CreateStoredQuery {NS20} service="WFS" version="2.0.0"><wfs:StoredQueryDefinition/>'
            "</wfs:CreateStoredQuery>"
        ),
    ]
    codes = [answer.exception[0] for answer in asked if answer.status >= 400]
    assert codes.count("OperationNotSupported") == refused
    body = wfs.get(service="WFS", version="2.0.0", request="GetCapabilities").body
    assert (b'"Transaction"' in body, b'"LockFeature"' in body) == (level != "basic", level == "complete")
    for version in ("1.0.0", "1.1.0"):
        body = wfs.get(service="WFS", version=version, request="GetCapabilities").body
        assert (b"Transaction" in body, b"LockFeature" in body) == (level != "basic", level == "complete")
    wfs.close()


# ---------------------------------------------------------------- locks


def lock(wfs: Wfs, content: str, operation: str = "LockFeature", **attributes: str) -> Answer:
    more = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return wfs.post(f'<wfs:{operation} {NS20} service="WFS" version="2.0.0"{more}>{content}</wfs:{operation}>')


def test_a_lock_keeps_others_out_until_it_is_used_up(wfs: Wfs) -> None:
    lock_id = lock(wfs, '<wfs:Query typeNames="tw:roads"/>', expiry="60").root.get("lockId")
    assert wfs.transaction(update("roads.11", "ref", "x")).exception == ("MissingParameterValue", "lockId")
    assert wfs.transaction(delete("roads.11"), attributes='lockId="another"').exception[0] == "InvalidLockId"
    # SOME lets go only of what was changed.
    some = wfs.transaction(update("roads.11", "ref", "x"), attributes=f'lockId="{lock_id}" releaseAction="SOME"')
    assert totals(some) == (0, 1, 0, 0)
    assert totals(wfs.transaction(delete("roads.11"))) == (0, 0, 0, 1)
    assert wfs.transaction(delete("roads.12")).exception[0] == "MissingParameterValue"
    assert totals(wfs.transaction(update("roads.12", "ref", "y"), attributes=f'lockId="{lock_id}"')) == (0, 1, 0, 0)
    assert totals(wfs.transaction(delete("roads.12"))) == (0, 0, 0, 1)


def test_a_failed_transaction_keeps_its_lock(wfs: Wfs) -> None:
    lock_id = lock(wfs, '<wfs:Query typeNames="tw:roads"/>').root.get("lockId")
    assert wfs.transaction(update("roads.11", "colour", "x"), attributes=f'lockId="{lock_id}"').status == 400
    assert wfs.transaction(delete("roads.11")).exception[0] == "MissingParameterValue"


def test_a_transaction_without_actions_releases_a_lock(wfs: Wfs) -> None:
    lock_id = lock(wfs, '<wfs:Query typeNames="tw:roads"/>').root.get("lockId")
    assert wfs.transaction("", attributes='lockId="another"').exception[0] == "InvalidLockId"
    # With SOME it gives up what it changed: nothing.
    assert totals(wfs.transaction("", attributes=f'lockId="{lock_id}" releaseAction="SOME"')) == (0, 0, 0, 0)
    assert wfs.transaction(delete("roads.11")).exception[0] == "MissingParameterValue"
    assert wfs.transaction("", READER, attributes=f'lockId="{lock_id}"').status == 401
    assert totals(wfs.transaction("", attributes=f'lockId="{lock_id}" releaseAction="ALL"')) == (0, 0, 0, 0)
    assert totals(wfs.transaction(delete("roads.11"))) == (0, 0, 0, 1)
    assert wfs.transaction("", attributes=f'lockId="{lock_id}"').exception[0] == "InvalidLockId"


@pytest.mark.parametrize("version", ["1.0.0", "1.1.0"])
def test_locks_of_old_versions(wfs: Wfs, version: str) -> None:
    body = (
        f'<wfs:LockFeature {NS1} service="WFS" version="{version}" expiry="1"><wfs:Lock typeName="tw:roads">'
        '<ogc:Filter><ogc:FeatureId fid="roads.11"/></ogc:Filter></wfs:Lock><wfs:Lock typeName="tw:areas"/>'
        "</wfs:LockFeature>"
    )
    answer = wfs.post(body)
    assert answer.root.tag == WFS1 + ("WFS_LockFeatureResponse" if version == "1.0.0" else "LockFeatureResponse")
    lock_id = answer.root.findtext(WFS1 + "LockId")
    assert [e.get("fid") for e in answer.root.iter(OGC + "FeatureId")] == ["roads.11", "areas.21", "areas.22"]
    again = wfs.post(body)
    assert (again.status, again.exception[0]) == (200, "CannotLockAllFeatures")
    some = wfs.get(
        WRITER, service="WFS", version=version, request="LockFeature", typeName="tw:roads", lockAction="SOME"
    )
    assert some.root.find(f"{WFS1}FeaturesNotLocked/{OGC}FeatureId").get("fid") == "roads.11"  # type: ignore[union-attr]
    done = old(
        wfs, version,
        f'<wfs:LockId>{lock_id}</wfs:LockId><wfs:Delete typeName="tw:roads"><ogc:Filter><ogc:FeatureId fid="roads.11"/>'
        "</ogc:Filter></wfs:Delete>",
    )  # fmt: skip
    assert b"SUCCESS" in done.body or b"<wfs:totalDeleted>1<" in done.body
    with_lock = wfs.get(
        WRITER, service="WFS", version=version, request="GetFeatureWithLock", typeName="tw:towns", maxFeatures="2"
    )
    assert with_lock.root.get("lockId")
    assert with_lock.ids == ["towns.1", "towns.2"]


def test_get_feature_with_lock_locks_its_page_alone(wfs: Wfs) -> None:
    answer = wfs.wfs2(
        "GetFeatureWithLock", WRITER, typeNames="tw:towns", count="2", startIndex="1", sortBy="population DESC"
    )
    assert answer.ids == ["towns.3", "towns.1"]
    assert wfs.transaction(delete("towns.2")).status == 200
    assert wfs.transaction(delete("towns.3")).exception[0] == "MissingParameterValue"
    empty = wfs.wfs2("GetFeatureWithLock", WRITER, typeNames="tw:towns", resourceId="towns.99")
    assert (empty.ids, empty.root.get("lockId")) == ([], None)


@pytest.mark.parametrize(
    ("attributes", "code"),
    [({"expiry": "0"}, "InvalidParameterValue"), ({"expiry": "x"}, "InvalidParameterValue"),
     ({"expiry": "99999999"}, "InvalidParameterValue"), ({"lockAction": "MAYBE"}, "InvalidParameterValue")],
)  # fmt: skip
def test_locks_that_cannot_be(wfs: Wfs, attributes: dict[str, str], code: str) -> None:
    assert lock(wfs, '<wfs:Query typeNames="tw:roads"/>', **attributes).exception[0] == code
    assert lock(wfs, "", lockId="nothing").exception == ("InvalidLockId", "lockId")
    assert lock(wfs, "").exception[0] == "MissingParameterValue"


# ---------------------------------------------------------------- stored queries

LANGUAGE = "urn:ogc:def:queryLanguage:OGC-WFS::WFS_QueryExpression"


def create(wfs: Wfs, query: str, parameters: str = "", **attributes: str) -> Answer:
    given = {"id": "urn:q", "language": LANGUAGE, "types": "tw:towns", "private": "false"} | attributes
    return wfs.post(
        f'<wfs:CreateStoredQuery {NS20} xmlns:xs="http://www.w3.org/2001/XMLSchema" service="WFS" version="2.0.0">'
        f'<wfs:StoredQueryDefinition id="{given["id"]}"><wfs:Title>Title</wfs:Title>{parameters}'
        "<wfs:QueryExpressionText "
        f'returnFeatureTypes="{given["types"]}" language="{given["language"]}" isPrivate="{given["private"]}">{query}'
        "</wfs:QueryExpressionText></wfs:StoredQueryDefinition></wfs:CreateStoredQuery>"
    )


WITHIN = (
    '<wfs:Query typeNames="tw:towns"><fes:Filter><fes:And><fes:Within><fes:ValueReference>place</fes:ValueReference>'
    "${area}</fes:Within><fes:PropertyIsGreaterThan><fes:ValueReference>population</fes:ValueReference><fes:Literal>"
    "${least}</fes:Literal></fes:PropertyIsGreaterThan></fes:And></fes:Filter></wfs:Query>"
)
PARAMETERS = '<wfs:Parameter name="area" type="gml:PolygonType"/><wfs:Parameter name="least" type="xs:int"/>'
POLYGON = (
    '<gml:Polygon srsName="EPSG:4326"><gml:exterior><gml:LinearRing><gml:posList>9 47 10 47 10 48 9 48 9 47'
    "</gml:posList></gml:LinearRing></gml:exterior></gml:Polygon>"
)


def test_a_parameter_may_be_a_geometry(wfs: Wfs) -> None:
    assert create(wfs, WITHIN, PARAMETERS).status == 200
    assert wfs.wfs2("GetFeature", storedQuery_id="urn:q", area=POLYGON, least="100").ids == ["towns.1"]
    body = (
        f'<wfs:GetFeature {NS20} service="WFS" version="2.0.0"><wfs:StoredQuery id="urn:q"><wfs:Parameter name="area">'
        f'{POLYGON}</wfs:Parameter><wfs:Parameter name="least">1</wfs:Parameter></wfs:StoredQuery></wfs:GetFeature>'
    )
    answer = wfs.post(body, READER)
    assert answer.ids == ["towns.1"]
    assert wfs.wfs2("GetFeature", storedQuery_id="urn:q", area=POLYGON).exception == ("MissingParameterValue", "least")


def test_a_value_cannot_become_markup(wfs: Wfs) -> None:
    query = (
        '<wfs:Query typeNames="tw:towns"><fes:Filter><fes:PropertyIsEqualTo><fes:ValueReference>name'
        "</fes:ValueReference><fes:Literal>${name}</fes:Literal></fes:PropertyIsEqualTo></fes:Filter></wfs:Query>"
    )
    assert create(wfs, query, '<wfs:Parameter name="name" type="xs:string"/>').status == 200
    attack = "x</fes:Literal></fes:PropertyIsEqualTo><fes:PropertyIsNull/>"
    assert wfs.wfs2("GetFeature", storedQuery_id="urn:q", name=attack).ids == []
    assert wfs.wfs2("GetFeature", storedQuery_id="urn:q", name="Maribor & <Ost>").ids == ["towns.3"]
    assert wfs.wfs2("GetFeature", storedQuery_id="urn:q", name="<tw:a/>").ids == []
    assert wfs.wfs2("GetFeature", storedQuery_id="urn:q", name="a\x00b").status in (200, 400)
    assert wfs.wfs2("GetFeature", storedQuery_id="urn:q", name="${name}").ids == []


def test_pages_of_a_stored_query(wfs: Wfs) -> None:
    create(wfs, '<wfs:Query typeNames="${type}"/>', '<wfs:Parameter name="type" type="xs:QName"/>', types="")
    answer = wfs.wfs2("GetFeature", storedQuery_id="urn:q", type="tw:towns", count="2")
    assert wfs.follow(answer.next).ids == ["towns.3", "towns.4"]
    body = (
        f'<wfs:GetFeature {NS20} service="WFS" version="2.0.0" count="2"><wfs:StoredQuery id="urn:q"><wfs:Parameter '
        'name="type">tw:towns</wfs:Parameter></wfs:StoredQuery></wfs:GetFeature>'
    )
    assert wfs.follow(wfs.post(body, READER).next).ids == ["towns.3", "towns.4"]


def test_private_text_is_not_shown(wfs: Wfs) -> None:
    create(wfs, '<wfs:Query typeNames="tw:towns"/>', private="true")
    body = wfs.wfs2("DescribeStoredQueries", storedQuery_id="urn:q").body
    assert b"<wfs:Query " not in body
    assert b'returnFeatureTypes="tw:towns"' in body


@pytest.mark.parametrize(
    ("query", "attributes", "expected"),
    [
        ('<wfs:Query typeNames="tw:towns"/>', {"language": "x"}, ("InvalidParameterValue", "language")),
        ('<wfs:Query typeNames="tw:towns"/>', {"types": "tw:nothing"}, ("InvalidParameterValue", "returnFeatureTypes")),
        ('<wfs:Query typeNames="${other}"/>', {}, ("InvalidParameterValue", "QueryExpressionText")),
        ("", {}, ("InvalidParameterValue", "QueryExpressionText")),
        ("<fes:Filter/>", {}, ("InvalidParameterValue", "QueryExpressionText")),
        ('<wfs:Query typeNames="tw:towns"/>', {"id": ""}, ("MissingParameterValue", "id")),
        ('<wfs:Query typeNames="tw:towns"/>', {"id": "a b"}, ("InvalidParameterValue", "id")),
    ],
)
def test_definitions_that_are_wrong(
    wfs: Wfs, query: str, attributes: dict[str, str], expected: tuple[str, str]
) -> None:
    assert create(wfs, query, **attributes).exception == expected
    assert len(wfs.wfs2("ListStoredQueries").root) == 2


def test_a_parameter_defined_twice(wfs: Wfs) -> None:
    twice = '<wfs:Parameter name="a" type="xs:int"/>' * 2
    answer = create(wfs, '<wfs:Query typeNames="tw:towns"/>', twice)
    assert (answer.status, answer.exception) == (409, ("DuplicateStoredQueryParameterName", "a"))


def test_get_feature_by_id_cannot_be_dropped(wfs: Wfs) -> None:
    answer = wfs.wfs2("DropStoredQuery", WRITER, storedQuery_id="urn:ogc:def:query:OGC-WFS::GetFeatureById")
    assert answer.exception == ("InvalidParameterValue", "storedQuery_Id")


def test_what_was_read_can_be_written_back(wfs: Wfs) -> None:
    """A round trip of every feature in GML 3.2."""
    for name, number in (("towns", 5), ("roads", 2), ("areas", 2), ("swiss", 1)):
        root = wfs.features(f"tw:{name}").root
        from lxml import etree

        content = "".join(etree.tostring(feature, encoding="unicode") for feature in root.iter(TW + name))
        assert totals(wfs.transaction(f"<wfs:Insert>{content}</wfs:Insert>")) == (number, 0, 0, 0)
        features = wfs.features(name, outputFormat="json").json["features"]
        old_, new = features[:number], features[number:]
        for before, after in zip(old_, new, strict=True):
            assert after["properties"] == before["properties"]
            assert after["geometry"] == before["geometry"]
        assert root.get(GML32 + "id") is None


# ---------------------------------------------------------------- pages under writes


def test_pages_neither_skip_nor_repeat_while_others_write(wfs: Wfs) -> None:
    content = "".join(f"<tw:towns><tw:name>n{i}</tw:name><tw:kind>new</tw:kind></tw:towns>" for i in range(40))
    wfs.transaction(f"<wfs:Insert>{content}</wfs:Insert>")
    for more in (
        {},
        {"cql_filter": "kind = 'new'"},
        {"outputFormat": "json"},
        {"outputFormat": "json", "srsName": "EPSG:3857"},
    ):
        everything_ = wfs.features("tw:towns", **more).ids
        gone: set[str] = set()
        seen: list[str] = []
        answer = wfs.features("tw:towns", count="7", **more)
        while True:
            seen += answer.ids
            # Three of those seen and one not yet seen go, two come.
            gone_now = [*seen[-3:], *[rid for rid in everything_ if rid not in seen][3:4]]
            wfs.transaction("".join(delete(rid) for rid in gone_now if rid not in gone))
            gone |= set(gone_now)
            wfs.transaction("<wfs:Insert><tw:towns><tw:kind>new</tw:kind></tw:towns><tw:towns/></wfs:Insert>")
            following = _next(answer)
            if not following or len(seen) > 120:
                break
            answer = wfs.follow(following)
        assert len(seen) == len(set(seen))
        missed = [rid for rid in everything_ if rid not in seen and rid not in gone]
        assert missed == []


def _next(answer: Answer) -> str:
    if "json" in answer.content_type:
        return next((str(link["href"]) for link in answer.json.get("links", ()) if link["rel"] == "next"), "")
    return answer.next


def test_the_previous_page_ends_where_this_one_begins(wfs: Wfs) -> None:
    content = "".join(f"<tw:towns><tw:name>n{i}</tw:name></tw:towns>" for i in range(20))
    wfs.transaction(f"<wfs:Insert>{content}</wfs:Insert>")
    first = wfs.features("tw:towns", count="6")
    second = wfs.follow(first.next)
    wfs.transaction(delete("towns.1") + delete("towns.4"))
    # Two are gone, so that the page before begins earlier than it did: with what is left of the first page.
    assert wfs.follow(second.previous).ids == ["towns.2", "towns.3", "towns.5", "towns.6"]
    third = wfs.follow(second.next)
    assert third.ids == [f"towns.{n}" for n in range(13, 19)]
    back = wfs.follow(third.previous)
    assert back.ids == [f"towns.{n}" for n in range(7, 13)]
    assert wfs.follow(back.previous).ids == ["towns.2", "towns.3", "towns.5", "towns.6"]


@pytest.mark.parametrize("text", ["x", "1.5", "99999999999999999999", "--1"])
def test_anchors_that_are_none(wfs: Wfs, text: str) -> None:
    assert wfs.features("tw:towns", startAfter=text).exception == ("InvalidParameterValue", "startAfter")
    assert wfs.features("tw:towns", endBefore=text).exception == ("InvalidParameterValue", "endBefore")
    assert wfs.features("tw:towns", startAfter="99").ids == []
    assert wfs.features("tw:towns", startAfter="-5", startIndex="3").ids == [
        "towns.1",
        "towns.2",
        "towns.3",
        "towns.4",
        "towns.5",
    ]
    assert wfs.features("tw:towns", endBefore="3", count="1").ids == ["towns.2"]
