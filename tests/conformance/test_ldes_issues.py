"""Faults that were reported in public of other LDES servers and in the specifications, as inputs to this one.

The numbers are those of the reports: LDES server (Informatievlaanderen), LDES and TREE specifications.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import rdflib
from tests.conformance.ldes_support import BASE, BY_LOCATION, LDES, PAGED, TREE, Ldes, member, view_document

RDF = rdflib.RDF
STREAM = rdflib.URIRef(f"{BASE}/hindrances")
BY_HOUR = """( [ a tree:HierarchicalTimeBasedFragmentation ; tree:maxGranularity "hour" ;
  tree:fragmentationPath prov:generatedAtTime ] )"""
COMPARATORS = {
    TREE.GreaterThanOrEqualToRelation, TREE.GreaterThanRelation, TREE.LessThanRelation, TREE.LessThanOrEqualToRelation,
    TREE.EqualToRelation, TREE.PrefixRelation, TREE.SubstringRelation, TREE.GeospatiallyContainsRelation,
}  # fmt: skip


@pytest.fixture
def ldes(tmp_path: Path) -> Iterator[Ldes]:
    made = Ldes(tmp_path)
    yield made
    made.close()


def test_bounds_of_time_are_whole_instants_with_zone(ldes: Ldes) -> None:
    """LDES server 945 and 1295: values such as "2023" or 2023-05-28T18 typed xsd:dateTime."""
    ldes.create(("by-time", BY_HOUR, 10))
    ldes.ingest(member(1, time="2023-05-28T18:34:56Z"), member(2, time="2023-12-31T23:59:59.999Z"))
    ldes.settle()
    values = [str(v) for graph in ldes.walk("hindrances/by-time").values() for v in graph.objects(None, TREE.value)]
    assert values
    lexical = re.findall(r'tree:value "([^"]*)"\^\^xsd:dateTime', ldes.get("hindrances/by-time?year=2023").text)
    assert lexical
    for text in lexical:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text)


def test_two_bounds_lead_to_each_node_of_time(ldes: Ldes) -> None:
    """LDES server 1186 and 1243, TREE 82: no InBetweenRelation; two bounds that both have to hold."""
    ldes.create(("by-time", BY_HOUR, 10))
    ldes.ingest(member(1, time="2023-05-28T18:34:56Z"), member(2, time="2023-12-31T23:00:00Z"))
    ldes.settle()
    for address, graph in ldes.walk("hindrances/by-time").items():
        assert "InBetween" not in graph.serialize(format="nt")
        kinds: dict[str, list[str]] = {}
        for relation in graph.objects(rdflib.URIRef(address), TREE.relation):
            node = str(graph.value(relation, TREE.node))
            kinds.setdefault(node, []).append(str(graph.value(relation, RDF.type)).rpartition("#")[2])
        for node, found in kinds.items():
            if "pageNumber" in node or "unknown" in node:
                assert found == ["Relation"]
            else:
                assert sorted(found) == ["GreaterThanOrEqualToRelation", "LessThanRelation"]
    graph = ldes.get("hindrances/by-time?year=2023&month=12&day=31").graph
    bounds = {str(graph.value(r, RDF.type)).rpartition("#")[2]: str(graph.value(r, TREE.value))
              for r in graph.subjects(TREE.path, None)}  # fmt: skip
    # The last hour of a year ends with the next one.
    assert bounds["GreaterThanOrEqualToRelation"].startswith("2023-12-31T23:00:00")
    assert bounds["LessThanRelation"].startswith("2024-01-01T00:00:00")


def test_time_given_as_text_is_bucketed_like_a_date_time(ldes: Ldes) -> None:
    """LDES server 1392."""
    ldes.create(("by-time", BY_HOUR, 10))
    text = member(2).replace('"2021-01-06T18:05:35.713Z"^^xsd:dateTime', '"2024-10-07T10:00:00Z"')
    assert ldes.ingest(member(1, time="2024-10-07T10:00:00Z"), text) == [201, 201]
    ldes.settle()
    found = ldes.members_of(ldes.walk("hindrances/by-time"))
    assert {iri.rpartition("/")[2]: nodes for iri, nodes in found.items()} == {
        name: {"year=2024&month=10&day=07&hour=10&pageNumber=1"} for name in ("m1", "m2")
    }


def test_617_members_at_250_are_three_pages(ldes: Ldes) -> None:
    """LDES server 827 and 905: wrong page sizes, and pageNumber twice in an address."""
    ldes.create(("by-page", PAGED, 250))
    assert set(ldes.ingest(*(member(n) for n in range(617)))) == {201}
    ldes.settle()
    nodes = ldes.walk("hindrances/by-page")
    assert all(address.count("pageNumber") <= 1 for address in nodes)
    sizes = []
    for number in (1, 2, 3):
        answer = ldes.get(f"hindrances/by-page?pageNumber={number}")
        sizes.append(len(list(answer.graph.objects(STREAM, TREE.member))))
        assert ("immutable" in answer.header("Cache-Control")) is (number < 3)
    assert sizes == [250, 250, 117]
    assert len(nodes) == 4
    assert ldes.get("hindrances/by-page?pageNumber=4").status == 404


def test_250_members_at_250_are_a_full_page_and_an_empty_one(ldes: Ldes) -> None:
    ldes.create(("by-page", PAGED, 250))
    ldes.ingest(*(member(n) for n in range(250)))
    ldes.settle()
    assert "immutable" in ldes.get("hindrances/by-page?pageNumber=1").header("Cache-Control")
    second = ldes.get("hindrances/by-page?pageNumber=2")
    assert second.status == 200
    assert not list(second.graph.objects(STREAM, TREE.member))


def test_members_without_a_place_are_not_lost(ldes: Ldes) -> None:
    """LDES server 424 and 436: also with a second view, whose pages have to be complete."""
    ldes.create(("by-location", BY_LOCATION, 10), ("by-page", PAGED, 10))
    ldes.ingest(
        member(1, wkt="POINT (5.47236 50.9642)"), member(2), member(3, wkt="POINT (north south)"),
        member(4, wkt="POINT (500 50)"), member(5, wkt="POINT EMPTY"),
        member(6, wkt="<http://example.org/no-crs> POINT (5 50)"), member(7, wkt="GEOMETRYCOLLECTION(" * 5000),
    )  # fmt: skip
    ldes.settle()
    at = ldes.members_of(ldes.walk("hindrances/by-location"))
    assert at.pop("http://example.org/m1") == {"tile=13%2F4220%2F2743&pageNumber=1"}
    assert at == {f"http://example.org/m{n}": {"tile=unknown&pageNumber=1"} for n in range(2, 8)}
    assert len(ldes.members_of(ldes.walk("hindrances/by-page"))) == 7


def test_second_arrival_of_a_member_counts_once(ldes: Ldes) -> None:
    """LDES server 1106."""
    ldes.create(("by-page", PAGED, 10))
    assert ldes.ingest(member(1, more="ex:lane 1"), member(1, more="ex:lane 2")) == [201, 200]
    ldes.settle()
    metrics = ldes.get("actuator/prometheus").text
    assert 'ldes_server_ingested_members_count{collection="hindrances",} 1.0' in metrics
    assert 'ldes_server_pagination_members_count{collection="hindrances",view="by-page",} 1.0' in metrics
    page = ldes.get("hindrances/by-page?pageNumber=1").graph
    assert [str(o) for o in page.objects(None, rdflib.URIRef("http://example.org/lane"))] == ["1"]


def test_every_link_leads_to_a_node_with_a_true_content_type(ldes: Ldes) -> None:
    """LDES server 765 and 242."""
    ldes.create(("by-location", BY_LOCATION, 2), ("by-time", BY_HOUR, 2), ("by-page", PAGED, 2))
    ldes.ingest(*(member(n, wkt="POINT (5.47236 50.9642)") for n in range(5)))
    ldes.settle()
    for view in ("by-location", "by-time", "by-page"):
        for address, graph in ldes.walk(f"hindrances/{view}").items():
            assert (rdflib.URIRef(address), RDF.type, TREE.Node) in graph
            answer = ldes.get(address.removeprefix(f"{BASE}/"), "application/n-quads")
            assert answer.content_type == "application/n-quads;charset=UTF-8"
            assert len(answer.graph) == len(graph)


def test_closed_page_says_so_twice_and_comparators_are_complete(ldes: Ldes) -> None:
    """LDES specification 64, TREE 77."""
    ldes.create(("by-location", BY_LOCATION, 2), ("by-time", BY_HOUR, 2))
    ldes.ingest(*(member(n, wkt="POINT (5.47236 50.9642)") for n in range(3)))
    ldes.settle()
    closed = 0
    for view in ("by-location", "by-time"):
        for address, graph in ldes.walk(f"hindrances/{view}").items():
            in_header = "immutable" in ldes.get(address.removeprefix(f"{BASE}/")).header("Cache-Control")
            assert in_header is ((rdflib.URIRef(address), LDES.immutable, None) in graph)
            closed += in_header
            for relation in graph.objects(rdflib.URIRef(address), TREE.relation):
                kinds = list(graph.objects(relation, RDF.type))
                assert len(kinds) == 1
                count = 1 if kinds[0] in COMPARATORS else 0
                assert len(list(graph.objects(relation, TREE.path))) == count
                assert len(list(graph.objects(relation, TREE.value))) == count
                assert len(list(graph.objects(relation, TREE.node))) == 1
    assert closed == 2


def test_latest_versions_by_order_of_ingest_are_kept(ldes: Ldes) -> None:
    """LDES specification 47 and 33: five versions out of the order of their times, two of which are to stay."""
    ldes.create()
    policy = " ; ldes:retentionPolicy [ a ldes:LatestVersionSubset ; ldes:amount 2 ]"
    assert ldes.admin("POST", "eventstreams/hindrances/views", view_document("latest", PAGED, 10, policy)).status == 201
    for number, day in enumerate((5, 1, 4, 2, 3)):
        ldes.ingest(member(number, time=f"2021-01-0{day}T00:00:00Z"))
    ldes.ingest(member(9, version_of=2))
    ldes.settle()
    kept = {iri.rpartition("/")[2] for iri in ldes.members_of(ldes.walk("hindrances/latest"))}
    # The newest two by order of ingest of the one object, and the only one of the other.
    assert kept == {"m3", "m4", "m9"}
    root = ldes.get("hindrances/latest").graph
    assert [int(str(o)) for o in root.objects(None, LDES.amount)] == [2]
