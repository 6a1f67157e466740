"""The administration of the LDES door: every code of the Flanders server's table, documents written back as read."""

# ruff: noqa: E501 (Turtle reads better unbroken)

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import rdflib
from tests.conformance.ldes_support import (
    BASE,
    BY_LOCATION,
    BY_TIME,
    DCAT,
    LDES,
    NOBODY,
    PAGED,
    PREFIXES,
    READER,
    SH,
    STREAM,
    TREE,
    WRITER,
    Ldes,
    member,
    same,
    view_document,
)
from tests.conftest import REPOSITORY
from tests.store.support import register

RDF = rdflib.RDF
ROOT = rdflib.URIRef(f"{BASE}/hindrances")
VIEWS = "eventstreams/hindrances/views"


@pytest.fixture
def ldes(tmp_path: Path) -> Iterator[Ldes]:
    made = Ldes(tmp_path)
    yield made
    made.close()


def results(graph: rdflib.Graph) -> list[str]:
    """Messages of a SHACL validation report that says no."""
    (report,) = graph.subjects(RDF.type, SH.ValidationReport)
    assert [str(o) for o in graph.objects(report, SH.conforms)] == ["false"]
    found = []
    for result in graph.objects(report, SH.result):
        assert (result, RDF.type, SH.ValidationResult) in graph
        assert graph.value(result, SH.focusNode) is not None
        assert graph.value(result, SH.sourceConstraintComponent) is not None
        found.append(str(graph.value(result, SH.resultMessage)))
    return found


# ---------------------------------------------------------------- streams


def test_created_stream_is_given_back_as_stored(ldes: Ldes) -> None:
    answer = ldes.admin("POST", "eventstreams", STREAM)
    assert answer.status == 201
    assert answer.content_type == "text/turtle;charset=UTF-8"
    graph = answer.graph
    assert (ROOT, RDF.type, LDES.EventStream) in graph
    assert str(graph.value(ROOT, LDES.timestampPath)) == "http://www.w3.org/ns/prov#generatedAtTime"
    assert str(graph.value(ROOT, LDES.versionOfPath)) == "http://purl.org/dc/terms/isVersionOf"
    shape = graph.value(ROOT, TREE.shape)
    assert str(graph.value(shape, SH.targetClass)) == "http://example.org/Hindrance"


@pytest.mark.parametrize("kind", ["application/n-quads", "application/n-triples", "application/ld+json"])
def test_stream_may_come_in_other_syntaxes(ldes: Ldes, kind: str) -> None:
    form = {"application/n-quads": "nquads", "application/n-triples": "nt", "application/ld+json": "json-ld"}[kind]
    source = rdflib.Dataset()
    source.default_graph.parse(data=PREFIXES + STREAM, format="turtle", publicID=BASE + "/")
    graph = source if form == "nquads" else source.default_graph
    body = graph.serialize(format=form, encoding="utf-8")
    assert ldes.ask("POST", "admin/api/v1/eventstreams", body, kind=kind).status == 201
    assert ldes.admin("GET", "eventstreams/hindrances").status == 200


def test_stream_with_all_it_can_say_survives_the_round(ldes: Ldes) -> None:
    more = """ ;
  ldes:createVersions true ; ldes:versionDelimiter "#v" ; ldes:skolemizationDomain <https://example.org/a> ;
  ldes:eventSource [ a ldes:EventSource ; ldes:retentionPolicy
    [ a ldes:DurationAgoPolicy ; tree:value "P2D"^^xsd:duration ], [ a ldes:LatestVersionSubset ; ldes:amount 3 ] ] ;
  tree:view </hindrances/by-page>, </hindrances/by-place-and-day> .
"""
    nested = """( [ a tree:GeospatialFragmentation ; tree:maxZoom "13"^^xsd:integer ; tree:fragmentationPath geo:asWKT ;
      tree:fragmenterSubjectFilter ".*/zones/.*" ]
      [ a tree:HierarchicalTimeBasedFragmentation ; tree:maxGranularity "day" ; tree:fragmentationPath dct:created ]
      [ a tree:ReferenceFragmentation ; tree:fragmentationKey "kind" ] )"""
    retained = (
        ' ; ldes:retentionPolicy [ a ldes:PointInTimePolicy ; ldes:pointInTime "2020-01-01T00:00:00Z"^^xsd:dateTime ]'
    )
    body = STREAM.replace(" .\n", more) + view_document("by-page", PAGED, None, retained)
    body += view_document("by-place-and-day", nested, 250)
    answer = ldes.admin("POST", "eventstreams", body)
    assert answer.status == 201, answer.text
    graph = ldes.admin("GET", "eventstreams/hindrances").graph
    assert str(graph.value(ROOT, LDES.createVersions)) == "true"
    assert str(graph.value(ROOT, LDES.versionDelimiter)) == "#v"
    assert str(graph.value(ROOT, LDES.skolemizationDomain)) == "https://example.org/a"
    policies = list(graph.objects(graph.value(ROOT, LDES.eventSource), LDES.retentionPolicy))
    assert {str(graph.value(p, RDF.type)).rpartition("#")[2] for p in policies} == {
        "DurationAgoPolicy", "LatestVersionSubset"
    }  # fmt: skip
    assert [str(o) for p in policies for o in graph.objects(p, TREE.value)] == ["P2D"]
    assert [int(str(o)) for p in policies for o in graph.objects(p, LDES.amount)] == [3]
    described = graph.value(rdflib.URIRef(f"{BASE}/hindrances/by-place-and-day"), TREE.viewDescription)
    assert int(str(graph.value(described, TREE.pageSize))) == 250
    items = list(rdflib.collection.Collection(graph, graph.value(described, TREE.fragmentationStrategy)))
    assert [str(graph.value(item, RDF.type)).rpartition("#")[2] for item in items] == [
        "GeospatialFragmentation", "HierarchicalTimeBasedFragmentation", "ReferenceFragmentation"
    ]  # fmt: skip
    assert int(str(graph.value(items[0], TREE.maxZoom))) == 13
    assert str(graph.value(items[0], TREE.fragmenterSubjectFilter)) == ".*/zones/.*"
    assert str(graph.value(items[1], TREE.maxGranularity)) == "day"
    assert str(graph.value(items[2], TREE.fragmentationKey)) == "kind"
    assert str(graph.value(items[2], TREE.fragmentationPath)) == str(RDF.type)
    paged = graph.value(rdflib.URIRef(f"{BASE}/hindrances/by-page"), TREE.viewDescription)
    assert int(str(graph.value(paged, TREE.pageSize))) == 100
    assert graph.value(paged, TREE.fragmentationStrategy) == RDF.nil
    policy = graph.value(paged, LDES.retentionPolicy)
    assert str(graph.value(policy, LDES.pointInTime)).startswith("2020-01-01T00:00:00")
    # What was written is read again to the same stream.
    ldes.admin("DELETE", "eventstreams/hindrances")
    assert ldes.ask("POST", "admin/api/v1/eventstreams", answer.body).status == 201
    assert same(ldes.admin("GET", "eventstreams/hindrances").graph, graph)


def test_list_has_all_streams_with_views(ldes: Ldes) -> None:
    assert len(ldes.admin("GET", "eventstreams").graph) == 0
    ldes.create(("by-page", PAGED, 10))
    ldes.admin("POST", "eventstreams", STREAM.replace("hindrances", "works"))
    graph = ldes.admin("GET", "eventstreams").graph
    assert set(graph.subjects(RDF.type, LDES.EventStream)) == {ROOT, rdflib.URIRef(f"{BASE}/works")}
    assert list(graph.objects(ROOT, TREE.view)) == [rdflib.URIRef(f"{BASE}/hindrances/by-page")]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("ldes:EventStream", "ldes:EventStreams"), ["ldes:EventStream"]),
        (("ldes:timestampPath prov:generatedAtTime ;", ""), ["ldes:timestampPath has 0 values"]),
        (("ldes:versionOfPath dct:isVersionOf ;", "ldes:versionOfPath dct:a, dct:b ;"), ["2 values"]),
        (("ldes:versionOfPath dct:isVersionOf ;", "ldes:versionOfPath 'dct:isVersionOf' ;"), ["has to be an IRI"]),
        (("tree:shape [ a sh:NodeShape ; sh:targetClass ex:Hindrance ]", "ex:a 1"), ["tree:shape has 0 values"]),
        (("tree:shape [", "tree:shape [], ["), ["tree:shape has 2 values"]),
        (("tree:shape", "ldes:versionDelimiter '/' ; tree:shape"), ["ldes:createVersions"]),
        (("tree:shape", "ldes:createVersions true ; ldes:versionDelimiter '' ; tree:shape"), ["1 to"]),
        (("tree:shape", "ldes:skolemizationDomain 'example' ; tree:shape"), ["ldes:skolemizationDomain"]),
        (("tree:shape", "ldes:skolemizationDomain <ftp://example.org> ; tree:shape"), ["ldes:skolemizationDomain"]),
        (("tree:shape", "tree:view </hindrances/v> ; tree:shape"), ["not described"]),
        (("</hindrances>", "</admin>"), ["server itself"]),
        (("</hindrances>", "</>"), ["name"]),
        (("prov:generatedAtTime", "dct:isVersionOf"), ["differ"]),
        (("a ldes", "a a ldes"), ["line"]),
        (
            ("tree:shape", "ldes:eventSource [ a ldes:EventSource ; ldes:retentionPolicy "
             "[ a ldes:LatestVersionSubset ; ldes:amount 1 ], [ a ldes:LatestVersionSubset ; ldes:amount 2 ] ] ; tree:shape"),
            ["Two retention policies"],
        ),
        (("sh:targetClass ex:Hindrance", "sh:property [ sh:path ex:a ; sh:minCount 'x' ]"), ["sh:minCount"]),
        (("sh:targetClass ex:Hindrance", "sh:targetClass ex:H ; sh:property [ sh:path ex:a ; sh:pattern '(' ]"), ["RE2"]),
        (("sh:targetClass ex:Hindrance", "sh:sparql [ sh:select 'SELECT' ]"), ["sh:sparql"]),
    ],
)  # fmt: skip
def test_stream_that_is_not_valid_is_400_with_a_report(ldes: Ldes, change: tuple[str, str], words: list[str]) -> None:
    answer = ldes.admin("POST", "eventstreams", STREAM.replace(*change))
    assert answer.status == 400
    said = "\n".join(results(answer.graph)) if "turtle" in answer.content_type else answer.text
    for word in words:
        assert word in said
    assert len(ldes.admin("GET", "eventstreams").graph) == 0


def test_every_fault_is_told_at_once(ldes: Ldes) -> None:
    body = "</x/y> a ldes:EventStream ; ldes:timestampPath 1 ; ldes:createVersions 'perhaps' ."
    assert len(results(ldes.admin("POST", "eventstreams", body).graph)) >= 4


def test_second_stream_of_a_name_is_400(ldes: Ldes) -> None:
    ldes.create()
    answer = ldes.admin("POST", "eventstreams", STREAM)
    assert answer.status == 400
    assert "already" in answer.text


def test_empty_shape_is_taken(ldes: Ldes) -> None:
    ldes.create(stream=STREAM.replace("[ a sh:NodeShape ; sh:targetClass ex:Hindrance ]", "[]"))
    graph = ldes.admin("GET", "eventstreams/hindrances").graph
    assert len(list(graph.objects(ROOT, TREE.shape))) == 1


def test_missing_stream_is_404_everywhere(ldes: Ldes) -> None:
    view = view_document("v", PAGED)
    for method, path, body in [
        ("GET", "eventstreams/no", ""), ("DELETE", "eventstreams/no", ""), ("GET", "eventstreams/no/shape", ""),
        ("PUT", "eventstreams/no/shape", "[] a sh:NodeShape ."), ("GET", "eventstreams/no/views", ""),
        ("POST", "eventstreams/no/views", view), ("GET", "eventstreams/no/views/v", ""),
        ("DELETE", "eventstreams/no/views/v", ""), ("POST", "eventstreams/no/close", ""),
        ("PUT", "eventstreams/no/eventsource", "[] a ldes:EventSource ."),
        ("POST", "eventstreams/no/dcat", "[] a dcat:Dataset ."),
        ("PUT", "eventstreams/no/dcat", "[] a dcat:Dataset ."),
    ]:  # fmt: skip
        assert ldes.admin(method, path, body).status == 404, (method, path)
    # These two succeed whatever is there.
    assert ldes.admin("DELETE", "eventstreams/no/dcat").status == 200
    assert ldes.admin("DELETE", "eventstreams/no/views/v/dcat").status == 200


def test_deleted_stream_is_gone_with_its_members_and_its_name_is_free(ldes: Ldes) -> None:
    ldes.create(("by-page", PAGED, 10))
    ldes.ingest(member(1))
    ldes.settle()
    assert ldes.admin("DELETE", "eventstreams/hindrances").status == 200
    assert ldes.get("hindrances").status == 404
    assert ldes.get("hindrances/by-page?pageNumber=1").status == 404
    ldes.create(("by-page", PAGED, 10))
    assert ldes.ingest(member(1)) == [201]
    ldes.settle()
    assert len(ldes.members_of(ldes.walk("hindrances/by-page"))) == 1


def test_shape_is_replaced_and_read(ldes: Ldes) -> None:
    ldes.create()
    body = "[] a sh:NodeShape ; sh:targetClass ex:Other ; sh:property [ sh:path ex:lane ; sh:maxCount 1 ] ."
    assert ldes.admin("PUT", "eventstreams/hindrances/shape", body).status == 200
    graph = ldes.admin("GET", "eventstreams/hindrances/shape").graph
    (shape,) = graph.subjects(RDF.type, SH.NodeShape)
    assert str(graph.value(shape, SH.targetClass)) == "http://example.org/Other"
    assert int(str(graph.value(graph.value(shape, SH.property), SH.maxCount))) == 1
    for wrong in ("ex:a ex:b ex:c .", "[] a sh:NodeShape . [] a sh:NodeShape .",
                  "[] a sh:NodeShape ; sh:property [ sh:path ex:a ; sh:in 1 ] ."):  # fmt: skip
        assert ldes.admin("PUT", "eventstreams/hindrances/shape", wrong).status == 400, wrong


# ---------------------------------------------------------------- views


def test_view_is_created_read_and_listed(ldes: Ldes) -> None:
    ldes.create()
    answer = ldes.admin("POST", VIEWS, view_document("by-location", BY_LOCATION, 250))
    assert answer.status == 201
    view = rdflib.URIRef(f"{BASE}/hindrances/by-location")
    for graph in (answer.graph, ldes.admin("GET", f"{VIEWS}/by-location").graph, ldes.admin("GET", VIEWS).graph):
        described = graph.value(view, TREE.viewDescription)
        assert described == rdflib.URIRef(f"{BASE}/hindrances/by-location/description")
        assert int(str(graph.value(described, TREE.pageSize))) == 250
    assert ldes.admin("GET", f"{VIEWS}/other").status == 404
    # What a description's address leads to.
    assert ldes.get("hindrances/by-location/description").status == 200


def strategy(text: str) -> str:
    return view_document("v", f"( [ {text} ] )")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (view_document("v", "[ a tree:GeospatialFragmentation ]"), ["RDF list"]),
        ("</hindrances/v> tree:viewDescription [ tree:pageSize 10 ] .", ["RDF list"]),
        ("</hindrances/v> a tree:Node .", ["tree:viewDescription"]),
        (view_document("v", PAGED, 0), ["1 to"]),
        (view_document("v", PAGED, 10_000_000), ["1 to"]),
        (view_document("v", PAGED).replace("()", "() ; tree:pageSize 'many'"), ["whole number"]),
        (strategy("a tree:GeospatialFragmentation ; tree:fragmentationPath geo:asWKT"), ["tree:maxZoom has 0"]),
        (strategy("a tree:GeospatialFragmentation ; tree:maxZoom 24 ; tree:fragmentationPath geo:asWKT"), ["0 to 23"]),
        (strategy("a tree:GeospatialFragmentation ; tree:maxZoom 1"), ["tree:fragmentationPath has 0"]),
        (
            strategy("a tree:HierarchicalTimeBasedFragmentation ; tree:maxGranularity 'week' ; tree:fragmentationPath ex:a"),
            ["year, month, day"],
        ),
        (strategy("a tree:PaginationFragmentation ; tree:memberLimit 10"), ["tree:pageSize"]),
        (strategy("a tree:SomeFragmentation"), ["types"]),
        (strategy("tree:maxZoom 1"), ["types"]),
        (strategy("a tree:ReferenceFragmentation ; tree:fragmentationKey 'a=b'"), ["tree:fragmentationKey"]),
        (strategy("a tree:ReferenceFragmentation ; tree:fragmentationKey 'pageNumber'"), ["twice"]),
        (strategy("a tree:ReferenceFragmentation ; tree:fragmentationSubjectFilter '(a'"), ["RE2"]),
        (view_document("v", "( [ a tree:ReferenceFragmentation ] [ a tree:ReferenceFragmentation ] )"), ["twice"]),
        (view_document("v", PAGED, None, " ; ldes:retentionPolicy []"), ["says nothing"]),
        (view_document("v", PAGED, None, " ; ldes:retentionPolicy [ ldes:amount 1 ]"), ["types"]),
        (
            view_document("v", PAGED, None, " ; ldes:retentionPolicy [ a ldes:DurationAgoPolicy ; tree:value 'soon' ]"),
            ["duration"],
        ),
        (
            view_document("v", PAGED, None, " ; ldes:retentionPolicy [ a ldes:LatestVersionSubset ; ldes:amount 0 ]"),
            ["whole number"],
        ),
        (view_document("a/b c", PAGED), ["forbidden character"]),
    ],
)  # fmt: skip
def test_view_that_is_not_valid_is_400_with_a_report(ldes: Ldes, body: str, words: list[str]) -> None:
    ldes.create()
    answer = ldes.admin("POST", VIEWS, body)
    assert answer.status == 400
    said = "\n".join(results(answer.graph)) if "turtle" in answer.content_type else answer.text
    for word in words:
        assert word in said
    assert len(ldes.admin("GET", VIEWS).graph) == 0


def test_second_view_of_a_name_is_400(ldes: Ldes) -> None:
    ldes.create(("by-page", PAGED, 10))
    assert ldes.admin("POST", VIEWS, view_document("by-page", BY_TIME)).status == 400


def test_all_three_names_of_the_subject_filter_are_read(ldes: Ldes) -> None:
    ldes.create()
    for number, name in enumerate(("fragmenterSubjectFilter", "fragmentationSubjectFilter", "fragmentSubjectFilter")):
        body = f"( [ a tree:ReferenceFragmentation ; tree:{name} '.*/zones/.*' ] )"
        assert ldes.admin("POST", VIEWS, view_document(f"v{number}", body)).status == 201
    graph = ldes.admin("GET", VIEWS).graph
    assert [str(o) for o in graph.objects(None, TREE.fragmenterSubjectFilter)] == [".*/zones/.*"] * 3


def test_missing_view_of_an_existing_stream_is_deleted_with_success(ldes: Ldes) -> None:
    ldes.create(("by-page", PAGED, 10))
    assert ldes.admin("DELETE", f"{VIEWS}/by-page").status == 200
    assert ldes.admin("DELETE", f"{VIEWS}/by-page").status == 200
    assert ldes.admin("DELETE", f"{VIEWS}/never").status == 200
    assert ldes.get("hindrances/by-page").status == 404


def test_event_source_policies_are_replaced(ldes: Ldes) -> None:
    ldes.create()
    path = "eventstreams/hindrances/eventsource"
    body = "[] a ldes:EventSource ; ldes:retentionPolicy [ a ldes:LatestVersionSubset ; ldes:amount 2 ] ."
    assert ldes.admin("PUT", path, body).status == 200
    assert len(list(ldes.get("hindrances").graph.objects(None, LDES.amount))) == 1
    assert ldes.admin("PUT", path, "[] a ldes:EventSource .").status == 200
    assert len(list(ldes.get("hindrances").graph.objects(None, LDES.amount))) == 0
    assert ldes.admin("PUT", path, "[] a ex:Something .").status == 400
    assert ldes.admin("PUT", path, body.replace("amount 2", "amount 'x'")).status == 400


def test_closing_makes_every_page_immutable(ldes: Ldes) -> None:
    ldes.create(("by-page", PAGED, 10))
    ldes.ingest(member(1))
    ldes.settle()
    assert "immutable" not in ldes.get("hindrances/by-page?pageNumber=1").header("Cache-Control")
    assert ldes.admin("POST", "eventstreams/hindrances/close").status == 200
    ldes.settle()
    page = ldes.get("hindrances/by-page?pageNumber=1")
    assert "immutable" in page.header("Cache-Control")
    assert str(page.graph.value(rdflib.URIRef(f"{BASE}/hindrances/by-page?pageNumber=1"), LDES.immutable)) == "true"


# ---------------------------------------------------------------- DCAT


def test_dcat_of_a_stream(ldes: Ldes) -> None:
    ldes.create()
    path = "eventstreams/hindrances/dcat"
    body = "[] a dcat:Dataset ; dct:title 'Hindrances'@en ; dct:publisher [ ex:name 'Town' ] ."
    assert ldes.admin("PUT", path, body).status == 404
    assert ldes.admin("POST", path, "ex:a ex:b ex:c .").status == 400
    assert ldes.admin("POST", path, body).status == 201
    assert ldes.admin("POST", path, body).status == 400
    graph = ldes.get("hindrances").graph
    assert [str(o) for o in graph.objects(ROOT, rdflib.DCTERMS.title)] == ["Hindrances"]
    assert (ROOT, RDF.type, DCAT.Dataset) in graph
    assert ldes.admin("PUT", path, body.replace("Hindrances", "Works")).status == 200
    assert ldes.admin("PUT", path, "[] a dcat:Catalog .").status == 400
    assert [str(o) for o in ldes.get("hindrances").graph.objects(ROOT, rdflib.DCTERMS.title)] == ["Works"]
    assert ldes.admin("DELETE", path).status == 200
    assert ldes.admin("DELETE", path).status == 200
    assert not list(ldes.get("hindrances").graph.objects(ROOT, rdflib.DCTERMS.title))


def test_dcat_of_a_view(ldes: Ldes) -> None:
    ldes.create(("by-page", PAGED, 10))
    path = f"{VIEWS}/by-page/dcat"
    body = "[] a dcat:DataService ; dct:title 'Pages' ."
    assert ldes.admin("PUT", path, body).status == 404
    assert ldes.admin("POST", f"{VIEWS}/none/dcat", body).status == 404
    assert ldes.admin("POST", path, body).status == 201
    assert ldes.admin("POST", path, body).status == 400
    assert ldes.admin("PUT", path, "[] a dcat:Dataset .").status == 400
    description = rdflib.URIRef(f"{BASE}/hindrances/by-page/description")
    view = rdflib.URIRef(f"{BASE}/hindrances/by-page")
    for graph in (ldes.get("hindrances").graph, ldes.get("hindrances/by-page").graph, ldes.get("").graph):
        assert (description, RDF.type, DCAT.DataService) in graph
        assert (description, DCAT.endpointURL, view) in graph
        assert (description, DCAT.servesDataset, ROOT) in graph
    assert ldes.admin("PUT", path, body.replace("Pages", "All")).status == 200
    assert ldes.admin("DELETE", path).status == 200
    assert (description, RDF.type, DCAT.DataService) not in ldes.get("hindrances").graph


def test_dcat_catalogue(ldes: Ldes) -> None:
    ldes.create(("by-page", PAGED, 10))
    body = "[] a dcat:Catalog ; dct:title 'All streams' ; dct:publisher ex:town ."
    assert ldes.admin("POST", "dcat", "[] a dcat:Dataset .").status == 400
    answer = ldes.admin("POST", "dcat", body)
    assert answer.status == 201
    assert answer.content_type.startswith("text/plain")
    name = answer.text
    assert len(name) == 36
    assert ldes.admin("POST", "dcat", body).status == 400
    root = rdflib.URIRef(f"{BASE}/")
    for graph in (ldes.admin("GET", "dcat").graph, ldes.get("").graph):
        assert (root, RDF.type, DCAT.Catalog) in graph
        assert [str(o) for o in graph.objects(root, rdflib.DCTERMS.title)] == ["All streams"]
        assert list(graph.objects(root, DCAT.dataset)) == [ROOT]
        assert (ROOT, RDF.type, DCAT.Dataset) in graph
    assert ldes.admin("PUT", "dcat/other", body).status == 404
    assert ldes.admin("PUT", f"dcat/{name}", "ex:a ex:b 1 .").status == 400
    assert ldes.admin("PUT", f"dcat/{name}", body.replace("All", "Some")).status == 200
    assert ldes.admin("DELETE", "dcat/other").status == 200
    assert "Some streams" in ldes.get("").text
    assert ldes.admin("DELETE", f"dcat/{name}").status == 200
    assert "Some streams" not in ldes.get("").text


# ---------------------------------------------------------------- rights, methods, media types


def test_readers_may_look_and_not_touch(ldes: Ldes) -> None:
    ldes.create(("by-page", PAGED, 10))
    for path in ("eventstreams", "eventstreams/hindrances", VIEWS, "dcat", "eventstreams/hindrances/shape"):
        assert ldes.admin("GET", path, principal=READER).status == 200
        assert ldes.admin("GET", path, principal=NOBODY).status == 401
    for method, path in [
        ("POST", "eventstreams"), ("DELETE", "eventstreams/hindrances"), ("POST", VIEWS), ("POST", "dcat"),
        ("DELETE", f"{VIEWS}/by-page"), ("PUT", "eventstreams/hindrances/shape"), ("DELETE", "eventstreams/none"),
    ]:  # fmt: skip
        assert ldes.admin(method, path, STREAM, principal=READER).status == 401
        assert ldes.admin(method, path, STREAM, principal=WRITER).status == 403
    assert ldes.get("hindrances").status == 200


def test_stream_that_is_not_public_does_not_exist_for_others(ldes: Ldes) -> None:
    ldes.create(("by-page", PAGED, 10))
    ldes.ingest(member(1))
    ldes.settle()
    catalogues = ldes.services.catalogue
    catalogues.set_public(catalogues.of(), "stream", "hindrances", False).result(30)
    for path in ("hindrances", "hindrances/by-page", "hindrances/by-page?pageNumber=1",
                 "admin/api/v1/eventstreams/hindrances"):  # fmt: skip
        assert ldes.get(path).status == 404, path
        assert ldes.get(path, principal=WRITER).status == 200, path
    for path in ("", "admin/api/v1/eventstreams", "admin/api/v1/dcat", "actuator/prometheus"):
        assert "hindrances" not in ldes.get(path).text, path
        assert "hindrances" in ldes.get(path, principal=WRITER).text, path
    # Not even by the answer to a write.
    assert ldes.ask("POST", "hindrances", member(2), principal=READER).status == 401
    assert ldes.ask("POST", "nothing", member(2), principal=READER).status == 401
    assert ldes.get("hindrances", principal=WRITER).header("Cache-Control").startswith("private")


def test_other_methods_are_405_with_those_allowed(ldes: Ldes) -> None:
    ldes.create()
    for method, path, allowed in [
        ("PUT", "admin/api/v1/eventstreams", "GET, POST"), ("PUT", "hindrances", "GET, POST"),
        ("DELETE", "hindrances", "GET, POST"), ("POST", "hindrances/by-page", "GET"), ("POST", "", "GET"),
    ]:  # fmt: skip
        answer = ldes.ask(method, path, member(1))
        assert answer.status == 405, path
        assert answer.header("Allow").startswith(allowed)
    for path in ("admin", "admin/api/v1/nothing", "admin/api/v2/eventstreams", "a/b/c", "actuator/env"):
        assert ldes.get(path).status == 404, path


def test_other_media_types_of_documents_are_415(ldes: Ldes) -> None:
    assert ldes.admin("POST", "eventstreams", STREAM, kind="text/csv").status == 415
    assert ldes.ask("POST", "admin/api/v1/eventstreams", STREAM, kind="").status == 415


def test_documents_are_bounded(ldes: Ldes) -> None:
    many = STREAM + "".join(f"ex:s{n} ex:p {n} .\n" for n in range(6_000))
    assert ldes.admin("POST", "eventstreams", many).status == 413


def test_documented_stream_and_member_are_taken(ldes: Ldes) -> None:
    """docs/how-to/publish-streams.md."""
    text = (REPOSITORY / "docs/how-to/publish-streams.md").read_text()
    document = text.split("```turtle\n")[1].split("```")[0]
    answer = ldes.ask("POST", "admin/api/v1/eventstreams", document)
    assert answer.status == 201, answer.text
    body = text.split("--data-binary '\n")[1].split("'\n```")[0]
    assert ldes.ask("POST", "works", body).status == 201
    assert ldes.ask("POST", "works", body).status == 200
    ldes.settle()
    for view in ("by-page", "by-time", "by-location"):
        nodes = ldes.walk(f"works/{view}")
        members = [m for graph in nodes.values() for m in graph.objects(None, TREE.member)]
        assert members == [rdflib.URIRef("http://example.org/works/1/v1")]
    register(ldes.store, "LUGANO")
    published = PREFIXES + text.split("```turtle\n")[2].split("```")[0]
    assert ldes.ask("POST", "admin/api/v1/eventstreams", published).status == 201
    assert ldes.get("lugano/by-time").status == 200
    recent = PREFIXES + text.split("```turtle\n")[3].split("```")[0]
    assert ldes.ask("POST", "admin/api/v1/eventstreams/works/views", recent).status == 201
