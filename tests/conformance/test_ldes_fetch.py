"""Fetch through the LDES door: the worked example document by document, every syntax, caching, what people see."""

# ruff: noqa: E501 (Turtle reads better unbroken)

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import rdflib
from tests.conformance.ldes_support import (
    BASE,
    BY_LOCATION,
    BY_TIME,
    DCT,
    FORMATS,
    GEO,
    LDES,
    PAGED,
    PREFIXES,
    PROV,
    READER,
    TREE,
    Ldes,
    member,
    read,
    same,
    view_document,
)
from tests.conftest import BESIDE

from thalweg.settings import Settings

RDF = rdflib.RDF
GIPOD = BESIDE / "data" / "gipod"
ROOT = f"{BASE}/hindrances"
CRS84 = "<http://www.opengis.net/def/crs/OGC/1.3/CRS84>"
# A polygon of a few metres near 4.46290 E 51.27561 N.
POLYGON = (
    "<http://www.opengis.net/def/crs/EPSG/9.9.1/31370> POLYGON ((156569.258415376 218419.123817213, "
    "156570.525968926 218419.981279909, 156573.583009842 218414.277288932, 156572.203613331 218413.49438821, "
    "156569.258415376 218419.123817213))"
)
LINE = "LINESTRING (5.47119 50.97226, 5.47119 50.94458, 5.51514 50.94458)"


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ldes]:
    """The worked example: members A, B and C in three views."""
    made = Ldes(tmp_path_factory.mktemp("example"))
    made.create(("by-location", BY_LOCATION, 250), ("by-time", BY_TIME, 250), ("by-page", PAGED, 2))
    statuses = made.ingest(
        member("A", wkt=POLYGON),
        member("B", time="2021-01-31T23:30:00-02:00", wkt="POINT (5.47236 50.9642)"),
        # "No time": the timestamp of a version object is one that cannot be read.
        member("C", time="unknown", wkt=LINE),
    )
    assert statuses == [201, 201, 201]
    made.settle()
    yield made
    made.close()


@pytest.fixture
def ldes(tmp_path: Path) -> Iterator[Ldes]:
    made = Ldes(tmp_path)
    yield made
    made.close()


def without_counts(graph: rdflib.Graph) -> rdflib.Graph:
    """``tree:remainingItems`` is additional and tested apart."""
    graph.remove((None, TREE.remainingItems, None))
    return graph


def expected(turtle: str) -> rdflib.Graph:
    return rdflib.Graph().parse(data=PREFIXES + turtle, format="turtle", publicID=BASE + "/")


DESCRIBED = """<hindrances> a ldes:EventStream ; ldes:timestampPath prov:generatedAtTime ; ldes:versionOfPath dct:isVersionOf ;
  tree:shape [ a sh:NodeShape ; sh:targetClass ex:Hindrance ] ."""
PART = "a tree:Node ; dct:isPartOf <hindrances> . <hindrances> a ldes:EventStream ."


def tile_relation(tile: str, polygon: str) -> str:
    address = "hindrances/by-location?tile=" + tile.replace("/", "%2F")
    return (
        f"[ a tree:GeospatiallyContainsRelation ; tree:node <{address}> ; tree:path geo:asWKT ; "
        f'tree:value "{CRS84} {polygon}"^^geo:wktLiteral ]'
    )


def time_relations(query: str, begin: str, end: str) -> str:
    node = f"tree:node <hindrances/by-time?{query}> ; tree:path prov:generatedAtTime"
    return (
        f'[ a tree:GreaterThanOrEqualToRelation ; {node} ; tree:value "{begin}"^^xsd:dateTime ], '
        f'[ a tree:LessThanRelation ; {node} ; tree:value "{end}"^^xsd:dateTime ]'
    )


# Corners as longitude x/2^z*360-180 and latitude atan(sinh(pi*(1-2y/2^z))), north-east first.
TILES = {
    "13/4197/2732": "POLYGON ((4.482421875 51.28940590271678, 4.482421875 51.26191485308451, 4.4384765625 51.26191485308451, 4.4384765625 51.28940590271678, 4.482421875 51.28940590271678))",
    "13/4220/2743": "POLYGON ((5.4931640625 50.98609893339354, 5.4931640625 50.95842672335991, 5.44921875 50.95842672335991, 5.44921875 50.98609893339354, 5.4931640625 50.98609893339354))",
    "13/4220/2744": "POLYGON ((5.4931640625 50.95842672335991, 5.4931640625 50.930738023718185, 5.44921875 50.930738023718185, 5.44921875 50.95842672335991, 5.4931640625 50.95842672335991))",
    "13/4221/2744": "POLYGON ((5.537109375 50.95842672335991, 5.537109375 50.930738023718185, 5.4931640625 50.930738023718185, 5.4931640625 50.95842672335991, 5.537109375 50.95842672335991))",
}


def location_root(kind: str) -> str:
    return f"""{DESCRIBED}
<hindrances> tree:view <hindrances/by-location> .
<hindrances/by-location> a tree:Node ; tree:viewDescription <hindrances/by-location/description> ;
  tree:relation [ a tree:Relation ; tree:node <hindrances/by-location?tile=0%2F0%2F0> ] .
<hindrances/by-location/description> a tree:ViewDescription ; tree:pageSize 250 ; tree:fragmentationStrategy (
  [ a tree:GeospatialFragmentation ; tree:maxZoom 13 ; tree:fragmentationPath geo:asWKT ] ) ."""


TIME_ROOT = f"""{DESCRIBED}
<hindrances> tree:view <hindrances/by-time> .
<hindrances/by-time> a tree:Node ; tree:viewDescription <hindrances/by-time/description> ; tree:relation
  {time_relations("year=2021", "2021-01-01T00:00:00Z", "2022-01-01T00:00:00Z")},
  [ a tree:Relation ; tree:node <hindrances/by-time?year=unknown> ] .
<hindrances/by-time/description> a tree:ViewDescription ; tree:pageSize 250 ; tree:fragmentationStrategy (
  [ a tree:HierarchicalTimeBasedFragmentation ; tree:maxGranularity "day" ; tree:fragmentationPath prov:generatedAtTime ] ) ."""


def page(address: str, *bodies: str, more: str = "") -> rdflib.Graph:
    """A page of members with nothing else."""
    graph = expected(f"<{address}> {PART} {more}")
    for body in bodies:
        found = read(body.encode(), "text/turtle")
        (iri,) = found.subjects(DCT.isVersionOf)
        graph += found
        graph.add((rdflib.URIRef(ROOT), TREE.member, iri))
    return graph


DAY_6 = "hindrances/by-time?year=2021&month=01&day=06"
A = member("A", wkt=POLYGON)
B = member("B", time="2021-01-31T23:30:00-02:00", wkt="POINT (5.47236 50.9642)")
C = member("C", time="unknown", wkt=LINE)

DOCUMENTS: dict[str, rdflib.Graph] = {
    "hindrances/by-location": expected(location_root("")),
    "hindrances/by-location?tile=0%2F0%2F0": expected(
        f"<hindrances/by-location?tile=0%2F0%2F0> {PART} <hindrances/by-location?tile=0%2F0%2F0> tree:relation "
        + ", ".join(tile_relation(tile, polygon) for tile, polygon in TILES.items()) + " ."
    ),
    "hindrances/by-location?tile=13%2F4220%2F2743": expected(
        f"<hindrances/by-location?tile=13%2F4220%2F2743> {PART} <hindrances/by-location?tile=13%2F4220%2F2743> "
        "tree:relation [ a tree:Relation ; tree:node <hindrances/by-location?tile=13%2F4220%2F2743&pageNumber=1> ] ."
    ),
    "hindrances/by-location?tile=13%2F4197%2F2732&pageNumber=1": page(
        "hindrances/by-location?tile=13%2F4197%2F2732&pageNumber=1", A
    ),
    "hindrances/by-location?tile=13%2F4220%2F2743&pageNumber=1": page(
        "hindrances/by-location?tile=13%2F4220%2F2743&pageNumber=1", B, C
    ),
    "hindrances/by-location?tile=13%2F4220%2F2744&pageNumber=1": page(
        "hindrances/by-location?tile=13%2F4220%2F2744&pageNumber=1", C
    ),
    "hindrances/by-location?tile=13%2F4221%2F2744&pageNumber=1": page(
        "hindrances/by-location?tile=13%2F4221%2F2744&pageNumber=1", C
    ),
    "hindrances/by-time": expected(TIME_ROOT),
    "hindrances/by-time?year=2021": expected(
        f"<hindrances/by-time?year=2021> {PART} <hindrances/by-time?year=2021> tree:relation "
        + time_relations("year=2021&month=01", "2021-01-01T00:00:00Z", "2021-02-01T00:00:00Z") + ", "
        + time_relations("year=2021&month=02", "2021-02-01T00:00:00Z", "2021-03-01T00:00:00Z") + " ."
    ),
    "hindrances/by-time?year=2021&month=01": expected(
        f"<hindrances/by-time?year=2021&month=01> {PART} <hindrances/by-time?year=2021&month=01> tree:relation "
        + time_relations("year=2021&month=01&day=06", "2021-01-06T00:00:00Z", "2021-01-07T00:00:00Z") + " ."
    ),
    DAY_6: expected(f"<{DAY_6}> {PART} <{DAY_6}> tree:relation [ a tree:Relation ; tree:node <{DAY_6}&pageNumber=1> ] ."),
    f"{DAY_6}&pageNumber=1": page(f"{DAY_6}&pageNumber=1", A),
    "hindrances/by-time?year=2021&month=02&day=01&pageNumber=1": page(
        "hindrances/by-time?year=2021&month=02&day=01&pageNumber=1", B
    ),
    "hindrances/by-time?year=unknown&pageNumber=1": page("hindrances/by-time?year=unknown&pageNumber=1", C),
    # A full page is closed at once, with the link to the next one.
    "hindrances/by-page?pageNumber=1": page(
        "hindrances/by-page?pageNumber=1", A, B,
        more="<hindrances/by-page?pageNumber=1> ldes:immutable true ; tree:relation "
        "[ a tree:Relation ; tree:node <hindrances/by-page?pageNumber=2> ] .",
    ),
    "hindrances/by-page?pageNumber=2": page("hindrances/by-page?pageNumber=2", C),
}  # fmt: skip


@pytest.mark.parametrize("address", DOCUMENTS)
@pytest.mark.parametrize("kind", FORMATS)
def test_worked_example_in_every_syntax(example: Ldes, address: str, kind: str) -> None:
    answer = example.get(address, kind)
    assert answer.status == 200
    assert answer.content_type == f"{kind};charset=UTF-8"
    found = without_counts(answer.graph)
    assert same(found, DOCUMENTS[address]), "\n".join(sorted(found.serialize(format="nt").splitlines()))


def test_whole_views_give_each_member_and_nothing_else(example: Ldes) -> None:
    nodes = example.walk("hindrances/by-location")
    assert len(nodes) == 10
    places = example.members_of(nodes)
    assert {iri.rpartition("/")[2]: len(found) for iri, found in places.items()} == {"mA": 1, "mB": 1, "mC": 3}
    for view in ("by-time", "by-page"):
        found = example.members_of(example.walk(f"hindrances/{view}"))
        assert {iri.rpartition("/")[2]: len(at) for iri, at in found.items()} == {"mA": 1, "mB": 1, "mC": 1}


def test_remaining_items_count_the_members_below(example: Ldes) -> None:
    graph = example.get("hindrances/by-time?year=2021").graph
    counts = {
        str(graph.value(r, TREE.node)).rpartition("=")[2]: int(str(graph.value(r, TREE.remainingItems)))
        for r in graph.objects(rdflib.URIRef(f"{ROOT}/by-time?year=2021"), TREE.relation)
    }
    assert counts == {"01": 1, "02": 1}


def test_every_tree_node_that_is_linked_says_that_it_is_one(example: Ldes) -> None:
    for view in ("by-location", "by-time", "by-page"):
        for address, graph in example.walk(f"hindrances/{view}").items():
            assert (rdflib.URIRef(address), RDF.type, TREE.Node) in graph


def test_stream_lists_its_views_and_a_view_is_the_only_one_of_its_root(example: Ldes) -> None:
    stream = example.get("hindrances").graph
    assert len(list(stream.objects(rdflib.URIRef(ROOT), TREE.view))) == 3
    root = example.get("hindrances/by-time").graph
    assert list(root.objects(None, TREE.view)) == [rdflib.URIRef(f"{ROOT}/by-time")]
    assert len(list(root.objects(rdflib.URIRef(ROOT), LDES.timestampPath))) == 1


@pytest.mark.parametrize("kind", FORMATS)
def test_stream_and_catalogue_in_every_syntax(example: Ldes, kind: str) -> None:
    for path in ("hindrances", ""):
        assert same(example.get(path, kind).graph, example.get(path, "application/n-triples").graph)


def test_150_real_members_are_in_the_buckets_computed_elsewhere(ldes: Ldes) -> None:
    if not GIPOD.is_dir():
        pytest.skip("GIPOD members not found")
    import re
    from urllib.parse import parse_qs

    buckets = json.loads((GIPOD / "expected_buckets.json").read_text())
    blocks = re.split(r"^# member \d+: .*\n", (GIPOD / "members.nq").read_text(), flags=re.MULTILINE)[1:]
    ldes.create(("by-location", BY_LOCATION, 250), ("by-time", BY_TIME, 40))
    assert set(ldes.ingest(*blocks, kind="application/n-quads")) == {201}
    ldes.settle()
    at = ldes.members_of(ldes.walk("hindrances/by-location"))
    tiles = {iri: sorted(parse_qs(query)["tile"][0] for query in queries) for iri, queries in at.items()}
    assert tiles == {iri: sorted(bucket["tiles13"]) for iri, bucket in buckets.items()}
    assert len({tile for found in tiles.values() for tile in found}) == 86
    days = ldes.members_of(ldes.walk("hindrances/by-time"))
    for iri, queries in days.items():
        (query,) = queries
        assert query.startswith("year={}&month={}&day={}&".format(*buckets[iri]["day"].split("-")))
    assert len(days) == 150


# ---------------------------------------------------------------- negotiation


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "text/turtle"),
        ("*/*", "text/turtle"),
        ("text/*", "text/turtle"),
        ("application/n-quads, application/trig;q=0.95, application/ld+json;q=0.9, text/turtle;q=0.6", "application/n-quads"),
        ("application/trig;q=0.99, text/turtle;q=0.98", "application/trig"),
        ("text/turtle;q=0.5, application/ld+json", "application/ld+json"),
        ("application/rdf+xml;q=0.2, */*;q=0.1", "application/rdf+xml"),
        ("*/*, application/n-triples", "application/n-triples"),
        ("image/png, text/turtle;q=0.1", "text/turtle"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html"),
        ("text/turtle;q=0, application/n-quads;q=0.1", "application/n-quads"),
    ],
)  # fmt: skip
def test_client_gets_the_syntax_it_likes_best(example: Ldes, accept: str, kind: str) -> None:
    for path in ("", "hindrances", "hindrances/by-page", "hindrances/by-page?pageNumber=1"):
        answer = example.get(path, accept)
        assert answer.status == 200
        assert answer.content_type.partition(";")[0] == kind, path
        assert "Accept" in answer.header("Vary")


def test_nothing_acceptable_is_406(example: Ldes) -> None:
    for path in ("", "hindrances", "hindrances/by-page?pageNumber=1"):
        answer = example.get(path, "image/png, text/turtle;q=0")
        assert answer.status == 406
        assert "text/turtle" in answer.text


def test_pages_for_people_link_onwards_and_escape_what_members_say(ldes: Ldes) -> None:
    ldes.create(("by-page", PAGED, 1))
    ldes.ingest(member(1, more='ex:says "<script>alert(1)</script>"'), member(2))
    ldes.settle()
    text = ldes.get("hindrances/by-page?pageNumber=1", "text/html").text
    assert f'href="{ROOT}/by-page?pageNumber=2"' in text
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert f'href="{ROOT}"' in ldes.get("", "text/html").text
    assert f'href="{ROOT}/by-page"' in ldes.get("hindrances", "text/html").text


@pytest.mark.parametrize(
    "more",
    ["<http://example.org/p/1> 1", "a <http://example.org/c/1>", 'ex:says "bell \\u0007"', "<http://example.org/p/> 1"],
)
def test_what_rdf_xml_cannot_say_is_406_there_alone(ldes: Ldes, more: str) -> None:
    ldes.create(("by-page", PAGED, 10))
    assert ldes.ingest(member(1, more=more)) == [201]
    ldes.settle()
    path = "hindrances/by-page?pageNumber=1"
    assert ldes.get(path, "application/rdf+xml").status == 406
    assert same(ldes.get(path, "application/ld+json").graph, ldes.get(path).graph)


def test_rdf_xml_keeps_white_space_of_literals(ldes: Ldes) -> None:
    ldes.create(("by-page", PAGED, 10))
    assert ldes.ingest(member(1, more='ex:says " a\\r\\n\\tb  <&>\\u0085\\u2028 "')) == [201]
    ldes.settle()
    path = "hindrances/by-page?pageNumber=1"
    assert same(ldes.get(path, "application/rdf+xml").graph, ldes.get(path).graph)


# ---------------------------------------------------------------- caching


def test_immutable_page_says_so_in_header_and_data_and_others_do_not(example: Ldes) -> None:
    for address in DOCUMENTS:
        answer = example.get(address)
        in_data = (None, LDES.immutable, None) in answer.graph
        closed = address == "hindrances/by-page?pageNumber=1"
        assert in_data is closed
        assert answer.header("Cache-Control") == ("public,max-age=604800,immutable" if closed else "public,max-age=60")
        assert answer.header("Access-Control-Allow-Origin") == "*"


def test_cache_times_are_settings(tmp_path: Path) -> None:
    ldes = Ldes(tmp_path, Settings(ldes_max_age_s=5, ldes_max_age_immutable_s=9, cors_origins=("https://a.example",)))
    try:
        ldes.create(("by-page", PAGED, 1))
        ldes.ingest(member(1))
        ldes.settle()
        assert ldes.get("hindrances").header("Cache-Control") == "public,max-age=5"
        page = ldes.get("hindrances/by-page?pageNumber=1")
        assert page.header("Cache-Control") == "public,max-age=9,immutable"
        # The server says which origins may read.
        assert page.header("Access-Control-Allow-Origin") == ""
        assert ldes.get("none").header("Access-Control-Allow-Origin") == ""
    finally:
        ldes.close()


def test_validator_changes_with_the_node_and_with_the_syntax(ldes: Ldes) -> None:
    ldes.create(("by-page", PAGED, 2))
    ldes.ingest(member(1))
    ldes.settle()
    first = {kind: ldes.get("hindrances/by-page?pageNumber=1", kind).etag for kind in FORMATS}
    assert len(set(first.values())) == len(FORMATS)
    assert all(etag.startswith('"') and etag.endswith('"') for etag in first.values())
    again = {kind: ldes.get("hindrances/by-page?pageNumber=1", kind).etag for kind in FORMATS}
    assert again == first
    root = ldes.get("hindrances/by-page").etag
    ldes.ingest(member(2), member(3))
    ldes.settle()
    assert ldes.get("hindrances/by-page?pageNumber=1").etag not in first.values()
    closed = ldes.get("hindrances/by-page?pageNumber=1")
    ldes.ingest(member(4), member(5))
    ldes.settle()
    later = ldes.get("hindrances/by-page?pageNumber=1")
    assert (later.etag, later.body) == (closed.etag, closed.body)
    assert root
    headers = ((b"if-none-match", b'W/"x", ' + closed.etag.encode()),)
    known = ldes.get("hindrances/by-page?pageNumber=1", headers=headers)
    assert (known.body, known.etag) == (b"", closed.etag)


def test_equal_documents_have_equal_bytes(example: Ldes, tmp_path: Path) -> None:
    """Two workers answer under one validator, so what one process writes by chance would be another's lie."""
    import subprocess
    import sys

    code = (
        "from thalweg.encode.rdf.write import write, catalogue_quads, Addresses\n"
        "from thalweg.encode.rdf.syntax import SYNTAXES\n"
        "import hashlib\n"
        "print([hashlib.sha256(write(catalogue_quads(Addresses('http://a/b'), None, []), s)).hexdigest() for s in SYNTAXES])"
    )
    found = {subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(4)}
    assert len(found) == 1


# ---------------------------------------------------------------- what is not there


@pytest.mark.parametrize(
    "path",
    [
        "nothing", "hindrances/nothing", "hindrances/by-page?pageNumber=99", "hindrances/by-page?pageNumber=0",
        "hindrances/by-page?pageNumber=x", "hindrances/by-page?other=1", "hindrances/by-page?pageNumber=1&pageNumber=1",
        "hindrances/by-time?year=1999", "hindrances/by-time?month=01", "hindrances/by-location?tile=13/0/0",
        "hindrances/by-location?tile=", "hindrances/by-page?" + "&".join(f"a{n}=1" for n in range(100)),
        "hindrances/by-page?%ff=%00", "hindrances/by-page?pageNumber=" + "9" * 400,
    ],
)  # fmt: skip
def test_unknown_nodes_are_404(example: Ldes, path: str) -> None:
    assert example.get(path).status == 404


def test_order_of_parameters_is_free_for_the_reader(example: Ldes) -> None:
    one = example.get("hindrances/by-time?pageNumber=1&day=06&month=01&year=2021")
    assert one.status == 200
    assert one.body == example.get(f"{DAY_6}&pageNumber=1").body


# ---------------------------------------------------------------- other views


def kinds(graph: rdflib.Graph, address: str) -> dict[str, tuple[str, str]]:
    """Relation type and value by the query of the node that each leads to."""
    found = {}
    for relation in graph.objects(rdflib.URIRef(f"{ROOT}/{address}"), TREE.relation):
        query = str(graph.value(relation, TREE.node)).partition("?")[2]
        value = graph.value(relation, TREE.value)
        found[query] = (str(graph.value(relation, RDF.type)).rpartition("#")[2], "" if value is None else str(value))
    return found


def test_reference_view_has_a_bucket_for_each_iri(ldes: Ldes) -> None:
    ldes.create(
        (
            "by-kind",
            "( [ a tree:ReferenceFragmentation ; tree:fragmentationPath ex:kind ; tree:fragmentationKey 'kind' ] )",
            10,
        )
    )
    ldes.ingest(member(1, more="ex:kind ex:a, ex:b"), member(2, more="ex:kind ex:a"), member(3, more="ex:kind 'text'"))
    ldes.settle()
    a, b = ("kind=http%3A%2F%2Fexample.org%2F" + name for name in "ab")
    graph = ldes.get("hindrances/by-kind").graph
    assert kinds(graph, "by-kind") == {
        a: ("EqualToRelation", "http://example.org/a"), b: ("EqualToRelation", "http://example.org/b"),
        "kind=unknown": ("Relation", ""),
    }  # fmt: skip
    # An IRI is compared with an IRI.
    assert isinstance(next(v for v in graph.objects(None, TREE.value) if str(v).endswith("a")), rdflib.URIRef)
    at = ldes.members_of(ldes.walk("hindrances/by-kind"))
    assert at["http://example.org/m1"] == {f"{a}&pageNumber=1", f"{b}&pageNumber=1"}
    assert at["http://example.org/m2"] == {f"{a}&pageNumber=1"}
    assert at["http://example.org/m3"] == {"kind=unknown&pageNumber=1"}


def test_substring_view_leads_by_beginnings(ldes: Ldes) -> None:
    ldes.create(
        (
            "by-name",
            "( [ a tree:SubstringFragmentation ; tree:fragmentationPath ex:name ; tree:substringLength 2 ] )",
            10,
        )
    )
    ldes.ingest(member(1, more="ex:name 'Gent'"), member(2, more="ex:name 'Genk'"), member(3, more="ex:name 'Aalst'"))
    ldes.settle()
    assert kinds(ldes.get("hindrances/by-name").graph, "by-name") == {
        "substring=G": ("PrefixRelation", "G"), "substring=A": ("PrefixRelation", "A")
    }  # fmt: skip
    at = ldes.members_of(ldes.walk("hindrances/by-name"))
    assert {iri.rpartition("/")[2]: found for iri, found in at.items()} == {
        "m1": {"substring=Ge&pageNumber=1"}, "m2": {"substring=Ge&pageNumber=1"}, "m3": {"substring=Aa&pageNumber=1"}
    }  # fmt: skip


def test_nested_strategies_add_up_in_the_address(ldes: Ldes) -> None:
    nested = BY_LOCATION.rstrip(" )") + BY_TIME.lstrip("( ").replace('"day"', '"year"')
    ldes.create(("nested", nested, 10))
    ldes.ingest(member(1, wkt="POINT (5.47236 50.9642)"), member(2, time="2020-06-01T00:00:00Z"))
    ldes.settle()
    at = ldes.members_of(ldes.walk("hindrances/nested"))
    assert at == {
        "http://example.org/m1": {"tile=13%2F4220%2F2743&year=2021&pageNumber=1"},
        "http://example.org/m2": {"tile=unknown&year=2020&pageNumber=1"},
    }


def test_subject_filter_chooses_whose_place_counts(ldes: Ldes) -> None:
    strategy = BY_LOCATION.replace("tree:maxZoom", "tree:fragmenterSubjectFilter '.*/zones/.*' ; tree:maxZoom")
    ldes.create(("by-zone", strategy, 10))
    more = "<http://e.org/zones/1> geo:asWKT 'POINT (4.46290 51.27561)'^^geo:wktLiteral . <http://e.org/other> geo:asWKT 'POINT (0 0)'^^geo:wktLiteral ."
    assert ldes.ingest(member(1, wkt="POINT (5.47236 50.9642)") + more) == [201]
    ldes.settle()
    assert ldes.members_of(ldes.walk("hindrances/by-zone")) == {
        "http://example.org/m1": {"tile=13%2F4197%2F2732&pageNumber=1"}
    }


def test_view_of_latest_states_holds_one_version_of_each_object(ldes: Ldes) -> None:
    ldes.create()
    body = "</hindrances/latest> tree:viewDescription [ tree:fragmentationStrategy () ; ldes:versionMaterializationOf </hindrances> ] ."
    assert ldes.admin("POST", "eventstreams/hindrances/views", body).status == 201
    ldes.ingest(member(1, version_of=1), member(2, version_of=2), member(3, version_of=1))
    ldes.settle()
    found = ldes.members_of(ldes.walk("hindrances/latest"))
    assert {iri.rpartition("/")[2] for iri in found} == {"m2", "m3"}
    page = ldes.get("hindrances/latest?pageNumber=1")
    assert "immutable" not in page.header("Cache-Control")
    wrong = body.replace("()", BY_LOCATION).replace("latest", "other")
    assert ldes.admin("POST", "eventstreams/hindrances/views", wrong).status == 400


def test_page_whose_members_have_left_is_410(ldes: Ldes) -> None:
    ldes.create()
    policy = " ; ldes:retentionPolicy [ a ldes:LatestVersionSubset ; ldes:amount 1 ]"
    assert ldes.admin("POST", "eventstreams/hindrances/views", view_document("newest", PAGED, 2, policy)).status == 201
    ldes.ingest(*(member(n) for n in range(1, 8)))
    ldes.work.fill()
    assert ldes.get("hindrances/newest?pageNumber=1").status == 200
    # As if a week had passed, for which replaced pages can still be read.
    ldes.work.finish(time.time_ns() // 1000 + 30 * 86_400_000_000)
    assert ldes.get("hindrances/newest?pageNumber=1").status == 410
    assert set(ldes.members_of(ldes.walk("hindrances/newest"))) == {"http://example.org/m7"}


# ---------------------------------------------------------------- following


def sse(body: bytes) -> list[dict[str, str]]:
    """Events of a stream of server-sent events."""
    found = []
    for block in body.decode().split("\n\n"):
        event: dict[str, str] = {}
        for line in block.splitlines():
            name, _, value = line.partition(": ")
            event[name] = f"{event[name]}\n{value}" if name in event else value
        if event:
            found.append(event)
    return found


def test_follower_gets_members_after_the_last_one_it_had(ldes: Ldes) -> None:
    ldes.create(("by-page", PAGED, 10))
    ldes.ingest(*(member(n) for n in range(1, 6)))
    answer = ldes.get("hindrances", "text/event-stream", headers=((b"last-event-id", b"3"),))
    assert answer.content_type.startswith("text/event-stream")
    assert answer.header("Cache-Control") == "no-store"
    events = [event for event in sse(answer.body) if event.get("event") == "member"]
    assert [event["id"] for event in events] == ["4", "5"]
    for number, event in zip((4, 5), events, strict=True):
        assert same(read(event["data"].encode(), "application/n-triples"), read(member(number).encode(), "text/turtle"))
    assert ldes.get("hindrances?after=4", "text/event-stream").body.count(b"event: member") == 1
    assert ldes.get("hindrances", "text/event-stream", headers=((b"last-event-id", b"x"),)).status == 400


def test_follower_waits_for_the_next_member(ldes: Ldes) -> None:
    ldes.create(("by-page", PAGED, 10))
    ldes.ingest(member(1))

    def later() -> None:
        time.sleep(0.4)
        ldes.ingest(member(2))

    thread = threading.Thread(target=later)
    started = time.monotonic()
    thread.start()
    answer = ldes.get("hindrances", "text/event-stream")
    waited_s = time.monotonic() - started
    thread.join()
    assert [event["id"] for event in sse(answer.body) if event.get("event") == "member"] == ["2"]
    assert 0.3 < waited_s < 5


def test_follower_of_a_quiet_stream_is_let_go_without_a_member(tmp_path: Path) -> None:
    ldes = Ldes(tmp_path, Settings(request_timeout_s=1.0))
    try:
        ldes.create(("by-page", PAGED, 10))
        answer = ldes.get("hindrances/by-page", "text/event-stream")
        assert answer.status == 200
        assert b"event: member" not in answer.body
        assert b"retry:" in answer.body
    finally:
        ldes.close()


def test_follower_of_a_stream_that_is_deleted_is_told(ldes: Ldes) -> None:
    ldes.create(("by-page", PAGED, 10))

    def later() -> None:
        time.sleep(0.3)
        ldes.admin("DELETE", "eventstreams/hindrances")

    thread = threading.Thread(target=later)
    thread.start()
    assert ldes.get("hindrances", "text/event-stream").status == 404
    thread.join()


# ---------------------------------------------------------------- operations


def test_metrics_have_the_form_that_public_test_plans_match(example: Ldes) -> None:
    lines = example.get("actuator/prometheus", principal=READER).text.splitlines()
    for view in ("by-location", "by-time", "by-page"):
        for name in ("ldes_server_pagination_members_count", "ldes_server_bucket_members_count"):
            assert f'{name}{{collection="hindrances",view="{view}",}} 3.0' in lines
        assert f'thalweg_view_lag_members{{collection="hindrances",view="{view}",}} 0.0' in lines
    assert 'ldes_server_ingested_members_count{collection="hindrances",} 3.0' in lines
    assert json.loads(example.get("actuator/health").body) == {"status": "UP"}


def test_counts_are_written_as_java_writes_doubles() -> None:
    from thalweg.doors.ldes.actuator import number

    # Double.toString of the Java language's library.
    assert [number(n) for n in (0, 12, 100_000, 9_999_999, 10_000_000, 12_345_678, 100_000_000)] == [
        "0.0", "12.0", "100000.0", "9999999.0", "1.0E7", "1.2345678E7", "1.0E8"
    ]  # fmt: skip


def test_wkt_of_the_relations_is_that_of_the_members_path(example: Ldes) -> None:
    graph = example.get("hindrances/by-location?tile=0%2F0%2F0").graph
    for relation in graph.subjects(RDF.type, TREE.GeospatiallyContainsRelation):
        assert graph.value(relation, TREE.path) == GEO.asWKT
    assert PROV.generatedAtTime in set(example.get("hindrances/by-time").graph.objects(None, TREE.path))
