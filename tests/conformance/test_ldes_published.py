"""Procedures and offerings as event streams, through the LDES door.

Members are read by rdflib and compared with what was inserted; terms are those of the vocabularies' documents
(SOSA/SSN, OWL-Time, QUDT, DQV, PROV-O), written out here by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import rdflib
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conformance.ldes_support import ADMIN, BASE, DCAT, DCT, FORMATS, LDES, PROV, READER, TREE, Ldes, same
from tests.store.layer_support import by_number, edit, layer, make_layer, point
from tests.store.layer_support import insert as insert_features
from tests.store.support import STEP, T0, WAIT_S, Station, block, insert, register, series, times

from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import Offering, Unit
from thalweg.domain.errors import InvalidParameter, NotFound
from thalweg.domain.features import Delete, Field, FieldKind, Layer, Update
from thalweg.domain.observations import OnDuplicate
from thalweg.domain.time import Interval
from thalweg.doors.http import Request, Response
from thalweg.doors.ldes.follow_published import follow_published
from thalweg.services.published import MAX_CURSOR, MAX_FOLLOWED

SOSA = rdflib.Namespace("http://www.w3.org/ns/sosa/")
TIME = rdflib.Namespace("http://www.w3.org/2006/time#")
QUDT = rdflib.Namespace("http://qudt.org/schema/qudt/")
DQV = rdflib.Namespace("http://www.w3.org/ns/dqv#")
SCHEMA = rdflib.Namespace("http://schema.org/")
XSD = rdflib.XSD
UNITS = "http://qudt.org/vocab/unit/"

WANTED = (series("air:temperature"), series("air:rain", "mm"), series("count", "boxes", ValueKind.INTEGER))
DOCUMENT = """</lugano> a ldes:EventStream ;
  ldes:timestampPath prov:generatedAtTime ; ldes:versionOfPath dct:isVersionOf ;
  tree:shape [ a sh:NodeShape ; sh:targetClass <http://www.w3.org/ns/sosa/Observation> ] ;
  <urn:x-thalweg:{kind}> {key} ;
  tree:view </lugano/by-page>, </lugano/by-time> .
</lugano/by-page> tree:viewDescription [ tree:fragmentationStrategy () ; tree:pageSize 12 ] .
</lugano/by-time> tree:viewDescription [ tree:pageSize 12 ; tree:fragmentationStrategy (
  [ a tree:HierarchicalTimeBasedFragmentation ; tree:maxGranularity "day" ;
    tree:fragmentationPath prov:generatedAtTime ] ) ] .
"""


@pytest.fixture
def ldes(tmp_path: Path) -> Iterator[Ldes]:
    door = Ldes(tmp_path)
    yield door
    door.close()


@pytest.fixture
def station(ldes: Ldes) -> Station:
    """A hundred and sixty rows of three properties, 27 hours: every fourth without rain."""
    made = register(ldes.store, "LUGANO", WANTED)
    put(ldes, made, 0, 160)
    return made


def put(ldes: Ldes, station: Station, first: int, n: int, **options: object) -> None:
    a, b, c = station.ids
    rows = range(first, first + n)
    columns = {a: [i / 10 for i in rows], b: [None if i % 4 == 3 else float(i) for i in rows], c: list(rows)}
    insert(ldes.store, station, block(times(n, T0 + first * STEP), columns, kinds={c: ValueKind.INTEGER}), **options)


def publish(ldes: Ldes, kind: str = "procedure", key: str = '"LUGANO"') -> None:
    answer = ldes.admin("POST", "eventstreams", DOCUMENT.format(kind=kind, key=key))
    assert answer.status == 201, answer.text


def members_of(graphs: dict[str, rdflib.Graph]) -> dict[str, rdflib.Graph]:
    """The page of each member, by IRI; a member is on one page."""
    found: dict[str, rdflib.Graph] = {}
    for graph in graphs.values():
        for member in graph.objects(rdflib.URIRef(f"{BASE}/lugano"), TREE.member):
            assert str(member) not in found
            found[str(member)] = graph
    return found


def instant(text: str) -> rdflib.Literal:
    return rdflib.Literal(text, datatype=XSD.dateTime)


def value(graph: rdflib.Graph, subject: rdflib.term.Node, *path: rdflib.URIRef) -> rdflib.term.Node:
    for step in path:
        (subject,) = graph.objects(subject, step)
    return subject


# ------------------------------------------------------------------ members


@pytest.mark.parametrize("view", ["by-page", "by-time"])
def test_every_value_is_an_observation_of_either_view(ldes: Ldes, station: Station, view: str) -> None:
    publish(ldes)
    ldes.settle()
    found = members_of(ldes.walk(f"lugano/{view}"))
    assert len(found) == 160 + 120 + 160
    of_rain = rdflib.URIRef("urn:ogc:def:parameter:x-thalweg:1.0:air:rain")
    rain = {}
    for iri, graph in found.items():
        member = rdflib.URIRef(iri)
        if value(graph, member, SOSA.observedProperty) == of_rain:
            rain[value(graph, member, SOSA.resultTime)] = value(graph, member, SOSA.hasSimpleResult).toPython()
    assert len(rain) == 120
    # T0 is 2014-05-13T17:00:00Z, rows follow each other by ten minutes.
    assert rain[instant("2014-05-13T17:00:00Z")] == 0.0
    assert rain[instant("2014-05-13T18:40:00Z")] == 10.0
    assert instant("2014-05-13T17:30:00Z") not in rain


def test_a_member_says_what_how_where_when_and_how_good(ldes: Ldes, station: Station) -> None:
    a, b, _ = station.ids
    publish(ldes)
    row = block(
        [T0 + 160 * STEP], {a: [-0.5], b: [2.0]}, begins=[T0 + 159 * STEP], results=[T0 + 162 * STEP], quality=110
    )
    insert(ldes.store, station, row)
    ldes.settle()
    found = members_of(ldes.walk("lugano/by-page"))
    procedure = station.procedure
    base = f"urn:uuid:{procedure.uuid}#{station.track}."
    end = T0 + 160 * STEP
    iri = f"{base}{a}.{end}.{STEP}.{2 * STEP}/0"
    graph, member = found[iri], rdflib.URIRef(iri)
    assert value(graph, member, rdflib.RDF.type) == SOSA.Observation
    assert str(value(graph, member, DCT.isVersionOf)) == iri.removesuffix("/0")
    assert str(value(graph, member, SOSA.madeBySensor)) == procedure.identifier
    assert str(value(graph, member, SOSA.observedProperty)) == "urn:ogc:def:parameter:x-thalweg:1.0:air:temperature"
    assert str(value(graph, member, SOSA.hasFeatureOfInterest)) == "urn:ogc:def:feature:x-thalweg:1.0:LUGANO"
    # 160 steps are 26:40 hours; two more steps and it is 20:00.
    assert value(graph, member, SOSA.resultTime) == instant("2014-05-14T20:00:00Z")
    assert value(graph, member, PROV.generatedAtTime) == instant("2014-05-14T20:00:00Z")
    assert value(graph, member, SOSA.phenomenonTime, rdflib.RDF.type) == TIME.Interval
    for part, text in ((TIME.hasBeginning, "2014-05-14T19:30:00Z"), (TIME.hasEnd, "2014-05-14T19:40:00Z")):
        assert value(graph, member, SOSA.phenomenonTime, part, TIME.inXSDDateTimeStamp) == rdflib.Literal(
            text, datatype=XSD.dateTimeStamp
        )
    assert value(graph, member, SOSA.hasSimpleResult) == rdflib.Literal("-0.5", datatype=XSD.double)
    assert value(graph, member, SOSA.hasResult, QUDT.numericValue) == rdflib.Literal("-0.5", datatype=XSD.double)
    assert str(value(graph, member, SOSA.hasResult, QUDT.hasUnit)) == UNITS + "DEG_C"
    assert set(graph.objects(value(graph, member, SOSA.hasResult), rdflib.RDF.type)) == {
        SOSA.Result, QUDT.QuantityValue
    }  # fmt: skip
    assert value(graph, member, DQV.hasQualityMeasurement, DQV.value) == rdflib.Literal(110)
    # An ordinary row has an instant; a unit that is no IRI and unknown to QUDT is a text.
    counted = f"{base}{station.ids[2]}.{T0}/0"
    graph, member = found[counted], rdflib.URIRef(counted)
    assert value(graph, member, SOSA.phenomenonTime, rdflib.RDF.type) == TIME.Instant
    assert value(graph, member, SOSA.hasSimpleResult) == rdflib.Literal(0)
    assert value(graph, member, SOSA.hasResult, SCHEMA.unitText) == rdflib.Literal("boxes")


def test_changes_are_later_versions_and_closed_pages_stay(ldes: Ldes, station: Station) -> None:
    a, b, _ = station.ids
    publish(ldes)
    ldes.settle()
    track = station.track
    before = [ldes.get(f"lugano/by-page?track={track}&pageNumber={n}") for n in range(1, 41)]
    assert all("immutable" in answer.header("Cache-Control") for answer in before)
    at = T0 + 4 * STEP
    insert(ldes.store, station, block([at], {a: [99.0]}), on_duplicate=OnDuplicate.REPLACE)
    insert(ldes.store, station, block([at - STEP], {b: [77.0]}))
    ldes.store.delete(track, Interval(at, at + 1), [b]).result(WAIT_S)
    ldes.store.seal(everything=True)
    ldes.settle()
    after = [ldes.get(f"lugano/by-page?track={track}&pageNumber={n}") for n in range(1, 41)]
    assert [answer.body for answer in after] == [answer.body for answer in before]
    assert [answer.etag for answer in after] == [answer.etag for answer in before]
    found = members_of(ldes.walk("lugano/by-page"))
    base = f"urn:uuid:{station.procedure.uuid}#{track}."
    for iri, said in (
        (f"{base}{a}.{at}/0", 0.4), (f"{base}{a}.{at}/1", 99.0), (f"{base}{b}.{at - STEP}/2", 77.0),
        (f"{base}{b}.{at}/0", 4.0),
    ):  # fmt: skip
        assert value(found[iri], rdflib.URIRef(iri), SOSA.hasSimpleResult).toPython() == said
    gone = f"{base}{b}.{at}/3"
    graph, member = found[gone], rdflib.URIRef(gone)
    assert value(graph, member, PROV.invalidatedAtTime) == value(graph, member, PROV.generatedAtTime)
    assert not list(graph.objects(member, SOSA.hasSimpleResult))
    assert len(found) == 160 + 120 + 160 + 3


def test_names_and_units_of_a_closed_page_are_those_it_was_closed_with(ldes: Ldes, station: Station) -> None:
    publish(ldes)
    ldes.settle()
    put(ldes, station, 160, 2)
    closed = ldes.get(f"lugano/by-page?track={station.track}&pageNumber=40")
    unit = ldes.store.put_unit(station.workspace_id, Unit(0, "K")).result(WAIT_S)
    first, *others = station.procedure.series
    changed = replace(station.procedure, identifier="urn:x:renamed", series=(replace(first, unit_id=unit.id), *others))
    ldes.store.update_procedure(station.workspace_id, changed).result(WAIT_S)
    again = ldes.get(f"lugano/by-page?track={station.track}&pageNumber=40")
    assert (again.body, again.etag) == (closed.body, closed.etag)
    assert "DEG_C" in again.text
    put(ldes, station, 162, 2)
    ldes.settle()
    later = ldes.get(f"lugano/by-page?track={station.track}&pageNumber=41")
    assert "immutable" in later.header("Cache-Control")
    assert "DEG_C" not in later.text
    assert f"<{UNITS}K>" in later.text
    assert "<urn:x:renamed>" in later.text


def test_all_syntaxes_of_a_page_are_one_graph(ldes: Ldes, station: Station) -> None:
    publish(ldes)
    ldes.settle()
    for path in (
        "",
        f"?track={station.track}",
        f"?track={station.track}&pageNumber=2",
        f"?track={station.track}&year=2014",
    ):
        answers = {kind: ldes.get(f"lugano/by-time{path}", kind) for kind in FORMATS}
        first = answers["application/n-triples"].graph
        assert len(first) > 3
        for kind, answer in answers.items():
            assert answer.status == 200
            assert answer.content_type.startswith(kind)
            assert same(answer.graph, first), kind


def test_relations_by_time_hold_for_all_below(ldes: Ldes, station: Station) -> None:
    """Every member below a relation with a bound is within it, and buckets are the days that there are."""
    publish(ldes)
    insert(ldes.store, station, block([T0], {station.ids[0]: [1.0]}), on_duplicate=OnDuplicate.REPLACE)
    ldes.settle()
    graphs = ldes.walk("lugano/by-time")
    days = sorted(address.partition("&day=")[2] for address in graphs if "&day=" in address)
    # 17:00 on the 13th and 26.5 hours on.
    assert days == ["13", "14"]
    checked = 0
    for address in graphs:
        graph = graphs[address]
        for relation in graph.objects(rdflib.URIRef(address), TREE.relation):
            kind = value(graph, relation, rdflib.RDF.type)
            if kind not in (TREE.GreaterThanOrEqualToRelation, TREE.LessThanRelation):
                continue
            assert value(graph, relation, TREE.path) == PROV.generatedAtTime
            bound = value(graph, relation, TREE.value).toPython()
            below = [str(value(graph, relation, TREE.node))]
            while below:
                target = graphs[below[-1]]
                node = rdflib.URIRef(below.pop())
                below += [str(value(target, r, TREE.node)) for r in target.objects(node, TREE.relation)]
                for member in target.objects(rdflib.URIRef(f"{BASE}/lugano"), TREE.member):
                    at = value(target, member, PROV.generatedAtTime).toPython()
                    assert at >= bound if kind == TREE.GreaterThanOrEqualToRelation else at < bound
                    checked += 1
    assert checked > 800


# ------------------------------------------------------------------ administration


def test_the_description_says_what_is_published(ldes: Ldes, station: Station) -> None:
    publish(ldes)
    answer = ldes.admin("GET", "eventstreams/lugano")
    subject = rdflib.URIRef(f"{BASE}/lugano")
    assert value(answer.graph, subject, rdflib.URIRef("urn:x-thalweg:procedure")) == rdflib.URIRef(
        station.procedure.identifier
    )
    # As it is given back it can be sent again.
    assert ldes.admin("DELETE", "eventstreams/lugano").status == 200
    again = ldes.ask("POST", "admin/api/v1/eventstreams", answer.body)
    assert again.status == 201, again.text
    assert same(again.graph, answer.graph)
    assert (rdflib.URIRef(f"{BASE}/"), DCAT.dataset, subject) in ldes.get("").graph
    page = ldes.get("lugano", "text/html").text
    assert "Publishes" in page
    assert station.procedure.identifier in page
    assert "sosa/Observation" in ldes.get(f"lugano/by-page?track={station.track}&pageNumber=1", "text/html").text


def test_deleting_the_stream_leaves_the_data(ldes: Ldes, station: Station) -> None:
    publish(ldes)
    ldes.settle()
    assert ldes.admin("DELETE", "eventstreams/lugano").status == 200
    ldes.settle()
    assert ldes.get("lugano/by-page").status == 404
    assert ldes.store.states([station.track])[station.track].rows == 160
    assert ldes.store.parts(1) == {}


def test_a_stream_goes_with_what_it_publishes(ldes: Ldes, station: Station) -> None:
    publish(ldes)
    ldes.store.delete_procedure(station.workspace_id, station.procedure.id).result(WAIT_S)
    assert ldes.get("lugano").status == 404
    assert ldes.admin("POST", "eventstreams", DOCUMENT.format(kind="procedure", key='"LUGANO"')).status == 404


@pytest.mark.parametrize(
    ("change", "status", "named"),
    [
        (("ldes:versionOfPath dct:isVersionOf", "ldes:versionOfPath dct:source"), 400, "versionOfPath"),
        (("pageSize 12 ] .\n</lugano/by-time>", "pageSize 13 ] .\n</lugano/by-time>"), 400, "share its pages"),
        (("maxGranularity \"day\" ;\n    tree:fragmentationPath prov:generatedAtTime",
          "maxGranularity \"day\" ;\n    tree:fragmentationPath dct:created"), 400, "fragmented by time"),
        (("tree:fragmentationStrategy () ;", "tree:fragmentationStrategy () ; ldes:retentionPolicy [ a "
          "ldes:LatestVersionSubset ; ldes:amount 1 ] ;"), 400, "keeps every member"),
        (("tree:fragmentationStrategy () ;", "tree:fragmentationStrategy () ; ldes:versionMaterializationOf "
          "</lugano> ;"), 400, "latest states"),
        (('procedure> "LUGANO"', 'procedure> "BELLINZONA"'), 404, "BELLINZONA"),
        (('procedure> "LUGANO"', 'layer> "LUGANO"'), 404, "LUGANO"),
        (('procedure> "LUGANO"', 'procedure> "LUGANO", "OTHER"'), 400, "one IRI or text"),
        (('procedure> "LUGANO"', 'procedure> [ a ldes:X ]'), 400, "one IRI or text"),
    ],
)  # fmt: skip
def test_what_cannot_be_published_is_refused(
    ldes: Ldes, station: Station, change: tuple[str, str], status: int, named: str
) -> None:
    document = DOCUMENT.format(kind="procedure", key='"LUGANO"')
    assert change[0] in document
    answer = ldes.admin("POST", "eventstreams", document.replace(*change))
    assert answer.status == status, answer.text
    assert named in answer.text
    assert ldes.get("lugano").status == 404


def test_members_closing_and_retention_are_refused(ldes: Ldes, station: Station) -> None:
    publish(ldes)
    posted = ldes.ask("POST", "lugano", "<urn:a> <http://purl.org/dc/terms/isVersionOf> <urn:b> .")
    assert posted.status == 400
    assert "LUGANO" in posted.text
    assert ldes.admin("POST", "eventstreams/lugano/close").status == 400
    source = (
        '[] a ldes:EventSource ; ldes:retentionPolicy [ a ldes:DurationAgoPolicy ; tree:value "P1D"^^xsd:duration ] .'
    )
    assert ldes.admin("PUT", "eventstreams/lugano/eventsource", source).status == 400
    assert ldes.get("lugano/by-page").status == 200


@pytest.mark.parametrize(
    "query",
    ["track=0", "track=99", "track=x", "pageNumber=1", "track={}&pageNumber=0", "track={}&pageNumber=200",
     "track={}&year=2014", "track={}&track={}", "year=2014", "track={}&pageNumber=1&pageNumber=1", "other=1",
     "track={}&pageNumber=99999999999999999999"],
)  # fmt: skip
def test_addresses_that_name_nothing_are_404(ldes: Ldes, station: Station, query: str) -> None:
    publish(ldes)
    ldes.settle()
    assert ldes.get(f"lugano/by-page?{query.format(station.track, station.track)}").status == 404
    for more in ("year=2013", "month=05", "year=2014&day=13", "year=abcd", "year=2014&month=05&pageNumber=1"):
        assert ldes.get(f"lugano/by-time?track={station.track}&{more}").status == 404


# ------------------------------------------------------------------ offerings and rights


def offering(ldes: Ldes, *stations: Station) -> None:
    made = Offering(
        0, "u-1", "urn:ogc:def:offering:x-thalweg:1.0:net", "net",
        procedure_ids=tuple(station.procedure.id for station in stations),
    )  # fmt: skip
    ldes.store.put_offering(stations[0].workspace_id, made).result(WAIT_S)


def test_an_offering_has_a_part_for_each_procedure(ldes: Ldes, station: Station) -> None:
    other = register(ldes.store, "AIROLO", WANTED, places=2)
    put(ldes, other, 0, 10)
    put(ldes, other, 0, 5, place=1)
    offering(ldes, station, other)
    publish(ldes, "offering", '"net"')
    ldes.settle()
    root = ldes.get("lugano/by-page").graph
    targets = {value(root, r, TREE.node) for r in root.objects(rdflib.URIRef(f"{BASE}/lugano/by-page"), TREE.relation)}
    about = {
        str(target).rpartition("=")[2]: {
            str(subject).rpartition(":")[2] for subject in root.objects(target, DCT.subject)
        }
        for target in targets
    }
    one, (two, three) = str(station.track), map(str, other.tracks)
    assert about == {one: {"LUGANO"}, two: {"AIROLO"}, three: {"AIROLO", "AIROLO_1"}}
    assert len(members_of(ldes.walk("lugano/by-page"))) == 440 + 28 + 14
    # A procedure that joins later, and a feature that a procedure comes to, are there with the next round.
    late = register(ldes.store, "CHIASSO", WANTED)
    put(ldes, late, 0, 4)
    (net,) = [o for o in ldes.store.catalogue(station.workspace_id).offerings.values() if o.name == "net"]
    joined = replace(net, procedure_ids=(*net.procedure_ids, late.procedure.id))
    ldes.store.put_offering(station.workspace_id, joined).result(WAIT_S)
    ldes.settle()
    assert len(members_of(ldes.walk("lugano/by-time"))) == 440 + 28 + 14 + 11


def test_a_hidden_procedure_is_absent_from_what_is_published(ldes: Ldes, station: Station) -> None:
    other = register(ldes.store, "SECRET", WANTED)
    put(ldes, other, 0, 10)
    offering(ldes, station, other)
    publish(ldes, "offering", '"net"')
    hidden = DOCUMENT.format(kind="procedure", key='"SECRET"').replace("lugano", "secret")
    assert ldes.admin("POST", "eventstreams", hidden).status == 201
    procedure = replace(other.procedure, public=False)
    ldes.store.update_procedure(other.workspace_id, procedure).result(WAIT_S)
    ldes.settle()
    assert len(members_of(ldes.walk("lugano/by-page"))) == 440
    assert ldes.get(f"lugano/by-page?track={other.track}&pageNumber=1").status == 404
    assert ldes.get(f"lugano/by-page?track={other.track}&pageNumber=1", principal=ADMIN).status == 200
    assert ldes.get("lugano/by-page").etag != ldes.get("lugano/by-page", principal=ADMIN).etag
    assert ldes.get("lugano/by-page").header("Cache-Control").startswith("private")
    assert ldes.get("secret").status == ldes.get("secret/by-page").status == 404
    assert ldes.get("secret/by-page", principal=ADMIN).status == 200
    assert "secret" not in ldes.get("").text
    assert "secret" in ldes.get("", principal=ADMIN).text


# ------------------------------------------------------------------ fetching, following


def test_an_open_page_changes_its_validator_and_a_closed_one_never(ldes: Ldes, station: Station) -> None:
    publish(ldes)
    ldes.settle()
    open_page = f"lugano/by-page?track={station.track}&pageNumber=41"
    before = ldes.get(open_page)
    assert "immutable" not in before.header("Cache-Control")
    put(ldes, station, 160, 1)
    after = ldes.get(open_page)
    assert after.etag != before.etag
    assert (rdflib.URIRef(f"{BASE}/{open_page}"), LDES.immutable, None) not in after.graph
    put(ldes, station, 161, 4)
    ldes.settle()
    closed = ldes.get(open_page)
    assert (rdflib.URIRef(f"{BASE}/{open_page}"), LDES.immutable, rdflib.Literal(True)) in closed.graph
    again = ldes.get(open_page, headers=[(b"if-none-match", closed.etag.encode())])
    assert again.etag == closed.etag
    assert again.body == b""


def test_followers_get_what_comes_and_what_changes_once(ldes: Ldes, station: Station) -> None:
    publish(ldes)
    ldes.settle()
    events = "text/event-stream"
    put(ldes, station, 160, 1)
    # Without an id: from now on. The cursor of the first event is where it begins.
    services, stream = ldes.services, ldes.store.streams(station.workspace_id)["lugano"]
    shown = services.catalogue.seen("default", READER)
    cursor = services.published.cursor(stream, shown)
    put(ldes, station, 161, 1)
    insert(ldes.store, station, block([T0], {station.ids[0]: [5.5]}), on_duplicate=OnDuplicate.REPLACE)
    answer = ldes.get("lugano", events, headers=[(b"last-event-id", cursor.encode())])
    assert answer.text.count("event: member") == 4
    assert "/1> " in answer.text
    last = [line for line in answer.text.splitlines() if line.startswith("id: ")][-1].removeprefix("id: ")
    put(ldes, station, 162, 2)
    more = ldes.get(f"lugano?track={station.track}", events, headers=[(b"last-event-id", last.encode())])
    assert more.text.count("event: member") == 5
    assert ldes.get("lugano", events, headers=[(b"last-event-id", b"17")]).status == 400
    assert ldes.get("lugano?track=99", events, headers=[(b"last-event-id", last.encode())]).status == 404


def test_ids_of_events_and_parts_that_are_followed_are_bounded(ldes: Ldes, station: Station) -> None:
    publish(ldes)
    long = f"{station.track}:1.1.1.1.1," * 2_000
    refused = ldes.get("lugano", "text/event-stream", headers=[(b"last-event-id", long.encode())])
    assert refused.status == 400
    assert len(long) > MAX_CURSOR
    for text in (
        "1:1.1.1.1",
        "1:1.1.1.1.1.1",
        "x",
        "1:99999999999999999999.1.1.1.1",
        "1:1.1.1.-1.1",
        ",",
        "1:1.1.1.1.1,",
    ):
        got = ldes.get("lugano", "text/event-stream", headers=[(b"last-event-id", text.encode())])
        assert got.status == 400, text
    assert ldes.get("lugano?track=-1", "text/event-stream").status == 400
    many = register(ldes.store, "MANY", WANTED, places=MAX_FOLLOWED)
    offering(ldes, station, many)
    wide = DOCUMENT.format(kind="offering", key='"net"').replace("lugano", "wide")
    assert ldes.admin("POST", "eventstreams", wide).status == 201
    refused = ldes.get("wide", "text/event-stream")
    assert refused.status == 400
    assert "?track=" in refused.text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    text=st.one_of(
        st.text("0123456789:.,-x", max_size=60),
        st.text(max_size=30),
        st.lists(st.integers(-9, 2**70), min_size=6, max_size=6).map(lambda n: f"{n[0]}:" + ".".join(map(str, n[1:]))),
    )
)
def test_any_id_of_an_event_is_followed_or_refused(ldes: Ldes, station: Station, text: str) -> None:
    """Without waiting for what is still to come."""
    if "lugano" not in ldes.services.streams.streams(1):
        publish(ldes)
    stream = ldes.services.streams.streams(1)["lugano"]
    sent = text.encode("utf-8", "replace")
    request = Request(
        "GET", "lugano", b"", ((b"last-event-id", sent),), b"", "default", BASE, READER, "r-1"
    )  # fmt: skip
    try:
        answer = follow_published(request, ldes.services, stream)
    except (InvalidParameter, NotFound):
        return
    if isinstance(answer, Response):
        assert answer.status == 200


# ------------------------------------------------------------------ layers


@pytest.fixture
def places(ldes: Ldes) -> Layer:
    """Thirty points of EPSG:2056, of which one is changed and one deleted after publishing."""
    fields = (Field("name", FieldKind.TEXT), Field("people", FieldKind.INTEGER))
    made = make_layer(ldes.store, layer(fields=fields, srid=2056))
    rows = [(n, point(2_700_000.5 + n, 1_100_000.0), {"name": f"Place {n}", "people": n * 10}) for n in range(1, 31)]
    insert_features(ldes.store, made, rows)
    publish(ldes, "layer", '"places"')
    edit(ldes.store, Update(made.id, by_number(3), {"people": 33}), Delete(made.id, by_number(4)))
    ldes.settle()
    return made


@pytest.mark.parametrize("view", ["by-page", "by-time"])
def test_versions_of_features_are_members(ldes: Ldes, places: Layer, view: str) -> None:
    found = members_of(ldes.walk(f"lugano/{view}"))
    assert len(found) == 32
    base = f"urn:uuid:{places.uuid}#"
    geo = rdflib.Namespace("http://www.opengis.net/ont/geosparql#")
    changed = rdflib.URIRef(f"{base}feature/places.3/2")
    graph = found[str(changed)]
    assert value(graph, changed, rdflib.RDF.type) == geo.Feature
    assert value(graph, changed, DCT.isVersionOf) == rdflib.URIRef(f"{base}feature/places.3")
    assert value(graph, changed, rdflib.URIRef(f"{base}field/name")) == rdflib.Literal("Place 3")
    assert value(graph, changed, rdflib.URIRef(f"{base}field/people")) == rdflib.Literal(33)
    assert value(graph, changed, geo.hasGeometry, geo.asWKT) == rdflib.Literal(
        "<http://www.opengis.net/def/crs/EPSG/0/2056> POINT (2700003.5 1100000)", datatype=geo.wktLiteral
    )
    first = rdflib.URIRef(f"{base}feature/places.3/1")
    assert value(found[str(first)], first, rdflib.URIRef(f"{base}field/people")) == rdflib.Literal(30)
    gone = rdflib.URIRef(f"{base}feature/places.4/2")
    assert value(found[str(gone)], gone, PROV.invalidatedAtTime) == value(found[str(gone)], gone, PROV.generatedAtTime)
    assert value(found[str(changed)], changed, PROV.generatedAtTime) > value(
        found[str(first)], first, PROV.generatedAtTime
    )


def test_pages_of_a_layer_stay_and_its_followers_get_edits(ldes: Ldes, places: Layer) -> None:
    before = [ldes.get(f"lugano/by-page?pageNumber={n}") for n in (1, 2)]
    assert all("immutable" in answer.header("Cache-Control") for answer in before)
    follower = ldes.services.published
    stream = ldes.store.streams(places.workspace_id)["lugano"]
    cursor = follower.cursor(stream, ldes.services.catalogue.seen("default", READER))
    edit(ldes.store, Update(places.id, by_number(1, 2, 5), {"people": 0}))
    ldes.settle()
    after = [ldes.get(f"lugano/by-page?pageNumber={n}") for n in (1, 2)]
    assert [(answer.body, answer.etag) for answer in after] == [(answer.body, answer.etag) for answer in before]
    events = ldes.get("lugano", "text/event-stream", headers=[(b"last-event-id", cursor.encode())])
    assert events.text.count("event: member") == 3
    for path in ("?pageNumber=99", "?track=1", "?pageNumber=0", "?year=1999"):
        assert ldes.get(f"lugano/by-time{path}").status == 404
    assert ldes.get("lugano", "text/event-stream", headers=[(b"last-event-id", b"x")]).status == 400


def test_a_hidden_layer_is_absent_from_what_is_published(ldes: Ldes, places: Layer) -> None:
    current = ldes.store.layers(places.workspace_id)["places"]
    ldes.store.put_layer(replace(current, public=False)).result(WAIT_S)
    assert ldes.get("lugano").status == ldes.get("lugano/by-page?pageNumber=1").status == 404
    assert ldes.get("lugano/by-page?pageNumber=1", principal=ADMIN).status == 200
    assert "lugano" not in ldes.get("").text
