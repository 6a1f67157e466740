"""The lines of the attack list that are for features and event streams, tried on a started server.

What has to hold for the server as a whole is looked at when the fixture ends, see ``test_attacks.py``.
"""

from __future__ import annotations

import gzip
import json
from urllib.parse import urlencode

import pytest
from lxml import etree
from tests.conformance.ldes_support import PREFIXES, STREAM
from tests.conformance.policy_wfs import NS
from tests.fuzz import harness
from tests.fuzz.test_attacks import Victim, harmless, refused, victim

__all__ = ["victim"]

GEOJSON = "application/geo+json"


def keys(victim: Victim, door: str) -> dict[str, str]:
    return dict(victim.world.targets[door]["open"].keys)


def wfs(**parameters: str) -> str:
    return "/wfs?" + urlencode(
        {"service": "WFS", "version": "2.0.0", "request": "GetFeature", **parameters}, errors="surrogatepass"
    )


def ring(positions: str) -> str:
    return (
        f"<gml:Polygon srsName='EPSG:4326'><gml:exterior><gml:LinearRing><gml:posList>{positions}</gml:posList></gml:LinearRing>"
        "</gml:exterior></gml:Polygon>"
    )


def asking(type_name: str, geometry: str) -> str:
    return (
        f'<wfs:GetFeature {NS["2"]} service="WFS" version="2.0.0"><wfs:Query typeNames="{type_name}"><fes:Filter><fes:Intersects>'
        f"<fes:ValueReference>place</fes:ValueReference>{geometry}</fes:Intersects></fes:Filter></wfs:Query></wfs:GetFeature>"
    )


def test_rings_of_nan_and_of_900_000_positions(victim: Victim) -> None:
    name = keys(victim, "wfs")["type"]
    for positions in ("NaN NaN " * 4, "0 0 0 inf 1 1 0 0", "1e999 0 0 0 1 1 1e999 0", "0 0 0 1 nan 1 0 0"):
        refused(victim.ask("/wfs", asking(name, ring(positions))))
    wide = " ".join(f"{8 + n % 1000 / 1000} {47 + n // 1000 / 1000}" for n in range(900_000))
    harmless(victim.ask("/wfs", asking(name, ring(f"{wide} 8.0 47.0"))), seconds=8)
    for ordinates in (
        "[[[NaN,0],[0,1],[1,1],[NaN,0]]]",
        "[[[1e999,0],[0,1],[1,1],[1e999,0]]]",
        "[[[null,0],[0,1],[1,1],[null,0]]]",
    ):
        body = f'{{"type":"Feature","properties":{{}},"geometry":{{"type":"Polygon","coordinates":{ordinates}}}}}'
        path = f"/features/collections/{keys(victim, 'features')['name']}/items"
        refused(victim.ask(path, body, by="admin", content_type=GEOJSON))


@pytest.mark.parametrize("by", ["", "nobody", "viewer"])
def test_nobody_changes_locks_or_stores_without_a_role(victim: Victim, by: str) -> None:
    named = keys(victim, "wfs")
    before = victim.ask(wfs(typeNames=named["type"])).text.count("<tw:label>")
    name = named["type"]
    for operation, content, attributes in (
        ("CreateStoredQuery", '<wfs:StoredQueryDefinition id="urn:x"><wfs:QueryExpressionText returnFeatureTypes="" isPrivate="false" language='
         f'"urn:ogc:def:queryLanguage:OGC-WFS::WFSQueryExpression"><wfs:Query typeNames="{name}"/></wfs:QueryExpressionText></wfs:StoredQueryDefinition>', ""),
        ("LockFeature", f'<wfs:Query typeNames="{name}"/>', 'expiry="2000000000"'),
        ("LockFeature", f'<wfs:Query typeNames="{name}"/>', 'expiry="1"'),
        ("Transaction", f'<wfs:Delete typeName="{name}"><fes:Filter><fes:ResourceId rid="{named["feature"]}"/></fes:Filter></wfs:Delete>', ""),
        ("Transaction", f"<wfs:Insert><{name}><tw:label>x</tw:label></{name}></wfs:Insert>", ""),
        ("Transaction", '<wfs:Native vendorId="sql" safeToIgnore="false">DROP TABLE layer</wfs:Native>', ""),
    ):  # fmt: skip
        body = f'<wfs:{operation} {NS["2"]} service="WFS" version="2.0.0" {attributes}>{content}</wfs:{operation}>'
        refused(victim.ask("/wfs", body, by=by))
    collection = f"/features/collections/{keys(victim, 'features')['name']}/items"
    for method, path in (
        ("POST", collection),
        ("PUT", f"{collection}/x.1"),
        ("PATCH", f"{collection}/x.1"),
        ("DELETE", f"{collection}/x.1"),
    ):
        refused(
            victim.ask(
                path, '{"type":"Feature","geometry":null,"properties":{}}', by=by, method=method, content_type=GEOJSON
            )
        )
    for method, path in (("POST", "/ldes/admin/api/v1/eventstreams"), ("DELETE", f"/ldes/admin/api/v1/eventstreams/{keys(victim, 'ldes')['name']}"),
                         ("POST", f"/ldes/{keys(victim, 'ldes')['name']}")):  # fmt: skip
        refused(victim.ask(path, PREFIXES + STREAM, by=by, method=method, content_type="text/turtle"))
    assert victim.ask(wfs(typeNames=name)).text.count("<tw:label>") == before


@pytest.mark.parametrize(
    "name",
    [
        "sqlite_master",
        "layer",
        "user",
        "main.user",
        "tw:sqlite_master",
        "pragma_table_info('user')",
        "layer_1",
        "rtree",
    ],
)
def test_tables_of_the_store_are_no_feature_types(victim: Victim, name: str) -> None:
    for by in ("", "admin"):
        refused(victim.ask(wfs(typeNames=name), by=by))
        refused(victim.ask(wfs(request="DescribeFeatureType", typeNames=name), by=by))
        refused(victim.ask(f"/features/collections/{name}/items".replace("'", "%27"), by=by))
        refused(victim.ask(f"/ldes/{name}/pages".replace("'", "%27"), by=by))


def test_addresses_as_namespaces_and_crs_are_never_asked(victim: Victim) -> None:
    """The listener is looked at when the server ends."""
    named = keys(victim, "wfs")
    for address in (
        f"http://{victim.places['listener']}/x",
        f"file://{victim.places['secret']}",
        f"//{victim.places['listener']}/x",
    ):
        for answer in (
            victim.ask(wfs(typeNames=f"a:{named['name']}", namespaces=f"xmlns(a,{address})")),
            victim.ask(wfs(typeNames=named["type"], srsName=address)),
            victim.ask(wfs(typeNames=named["type"], bbox=f"8,47,9,48,{address}")),
            victim.ask(wfs(storedQuery_id=address)),
            victim.ask(f"/features/collections/{named['name']}/items?" + urlencode({"crs": address})),
            victim.ask(f"/features/collections/{named['name']}/items?" + urlencode({"bbox": "8,47,9,48", "bbox-crs": address})),
            victim.ask("/wfs", asking(named["type"], f"<gml:Point srsName='{address}'><gml:pos>1 2</gml:pos></gml:Point>")),
            victim.ask("/wfs", f'<wfs:GetFeature {NS["2"]} xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="http://www.opengis.net/wfs/2.0 '
                       f'{address}" service="WFS" version="2.0.0"><wfs:Query typeNames="a:{named["name"]}" xmlns:a="{address}"/></wfs:GetFeature>'),
            victim.ask(f"/ldes/{keys(victim, 'ldes')['name']}", json.dumps({"@context": address, "@id": "a:b"}), by="admin", content_type="application/ld+json"),
        ):  # fmt: skip
            harmless(answer)
        assert victim.ask(wfs(typeNames=named["type"], srsName=address)).status == 400


@pytest.mark.parametrize("query", [
    {"tile": "40/0/1099511627776"}, {"tile": "40/1099511627776/0"}, {"tile": "15/-1/0"}, {"tile": "1e3/0/0"}, {"year": "100000000000"},
    {"year": "2021", "month": "13"}, {"year": "-1"}, {"year": "0000"}, {"pageNumber": "99999999999999999999"}, {"pageNumber": "0"}, {"pageNumber": "-1"},
    {"pageNumber": "1; DROP TABLE stream"}, {"substring": "a" * 10_000}, {"reference": "javascript:alert(1)"}, {"reference": "a\0b"},
])  # fmt: skip
def test_nodes_that_cannot_be_are_not_found(victim: Victim, query: dict[str, str]) -> None:
    name = keys(victim, "ldes")["name"]
    document = PREFIXES + "".join(
        f"</{name}/attacked{n}> tree:viewDescription [ tree:fragmentationStrategy ( [ a tree:{kind} ] ) ] .\n"
        for n, kind in enumerate(("HierarchicalTimeBasedFragmentation ; tree:maxGranularity \"day\" ; tree:fragmentationPath prov:generatedAtTime",))
    )  # fmt: skip
    victim.ask(f"/ldes/admin/api/v1/eventstreams/{name}/views", document, by="admin", content_type="text/turtle")
    for view in ("pages", "attacked0"):
        refused(victim.ask(f"/ldes/{name}/{view}?" + urlencode(query)), 404)


@pytest.mark.parametrize(
    ("path", "kind"), [("/features/collections/{}/items", GEOJSON), ("/ldes/{}", "text/turtle"), ("/wfs", "text/xml")]
)
def test_a_gzip_bomb_is_stopped_where_bodies_are_read(victim: Victim, path: str, kind: str) -> None:
    """A megabyte that would be a gigabyte, by one who may write."""
    bomb = gzip.compress(b"\0" * (64 << 20), 9, mtime=0) * 16
    door = path.split("/")[1]
    before = max(map(victim.server.rss_mb, victim.server.workers))
    answer = victim.ask(
        path.format(keys(victim, door)["name"]),
        bomb,
        by="admin",
        content_type=kind,
        headers={"Content-Encoding": "gzip"},
    )
    refused(answer, 413, seconds=3)
    assert max(map(victim.server.rss_mb, victim.server.workers)) - before < harness.PEAK_MB


def test_deep_and_wide_filters_on_every_way_in(victim: Victim) -> None:
    named = keys(victim, "wfs")
    null = "<fes:PropertyIsNull><fes:ValueReference>label</fes:ValueReference></fes:PropertyIsNull>"
    deep = "<fes:Not>" * 20_000 + null + "</fes:Not>" * 20_000
    refused(victim.ask("/wfs", f'<wfs:GetFeature {NS["2"]} service="WFS" version="2.0.0"><wfs:Query typeNames="{named["type"]}"><fes:Filter>{deep}</fes:Filter>'
                       "</wfs:Query></wfs:GetFeature>"), seconds=2)  # fmt: skip
    wide = f"<fes:Or>{null * 20_000}</fes:Or>"
    refused(victim.ask("/wfs", f'<wfs:GetFeature {NS["2"]} service="WFS" version="2.0.0"><wfs:Query typeNames="{named["type"]}"><fes:Filter>{wide}</fes:Filter>'
                       "</wfs:Query></wfs:GetFeature>"), seconds=2)  # fmt: skip
    form = urlencode(
        {
            "service": "WFS",
            "version": "2.0.0",
            "request": "GetFeature",
            "typeNames": named["type"],
            "cql_filter": "NOT " * 20_000 + "label IS NULL",
        }
    )
    refused(victim.ask("/wfs", form, content_type="application/x-www-form-urlencoded"), seconds=2)
    like = "label LIKE '" + "*a%" * 1500 + "'"
    form = urlencode(
        {"service": "WFS", "version": "2.0.0", "request": "GetFeature", "typeNames": named["type"], "cql_filter": like}
    )
    answer = victim.ask("/wfs", form, content_type="application/x-www-form-urlencoded")
    harmless(answer)
    assert etree.fromstring(answer.body).get("numberReturned") == "0"
