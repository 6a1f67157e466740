"""Bounds of event streams, of files that are loaded and of what the server keeps: one more is refused, cut or forgotten."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from io import BytesIO
from pathlib import Path

import pytest
from pyoxigraph import BlankNode, NamedNode, Quad
from tests.conformance.ldes_support import PAGED, PREFIXES, STREAM, Ldes, member, view_document
from tests.unit.sos_network import network
from tests.unit.test_sos_insert import insert

from thalweg.domain import streams as domain
from thalweg.domain.errors import InvalidParameter, InvalidRequest, StoreUnavailable, TooLarge
from thalweg.domain.streams import EventStream, Member, ReferenceFragmentation, StoredMember, View
from thalweg.domain.tree import MAX_PAGE_DIGITS, canonical
from thalweg.doors.http import Response
from thalweg.doors.ldes import fetch, follow, pages, work
from thalweg.doors.sos import producers
from thalweg.encode import buckets
from thalweg.encode.rdf import contexts, members, patterns, read, report, shape_compiler, shapes, syntax, templates
from thalweg.encode.rdf.administration import MAX_DELIMITER_LENGTH, read_graph, read_shape
from thalweg.encode.rdf.graph import MAX_DESCRIPTION_QUADS
from thalweg.encode.rdf.syntax import N_TRIPLES, TURTLE
from thalweg.loading.features import json_split
from thalweg.loading.features.report import MAX_EXAMPLES, LayerReport, Problem
from thalweg.server.clients import MAX_FORWARDED, Clients
from thalweg.server.turn import MAX_ANSWERS, Turn
from thalweg.services import followers, stream_work
from thalweg.settings import Settings

EX = "http://example.org/"
KIND = "application/n-triples"
OF = "http://purl.org/dc/terms/isVersionOf"
STATED = EventStream(1, "", 1, "s", "http://www.w3.org/ns/prov#generatedAtTime", OF, create_versions=True)
VERSIONED = EventStream(1, "", 1, "s", "http://www.w3.org/ns/prov#generatedAtTime", OF)


@pytest.fixture(scope="module")
def ldes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ldes]:
    made = Ldes(tmp_path_factory.mktemp("bounds"))
    made.create(("pages", PAGED, 100))
    yield made
    made.close()


# ---------------------------------------------------------------- bodies


def test_triples_blank_nodes_and_triple_terms_of_a_body_are_bounded() -> None:
    lines = b"".join(b"<a:%d> <a:b> <a:c> .\n" % n for n in range(read.MAX_QUADS))
    assert len(read.read_quads(lines, N_TRIPLES, EX)) == read.MAX_QUADS
    with pytest.raises(TooLarge):
        read.read_quads(lines + b"<a:x> <a:b> <a:c> .\n", N_TRIPLES, EX)
    about = f'<a:m> <{OF}> <a:o> .\n<a:m> <{VERSIONED.timestamp_path}> "2021-01-06T18:05:35Z"^^<http://www.w3.org/2001/XMLSchema#dateTime> .\n'
    for number, is_taken in ((members.MAX_BLANK_NODES, True), (members.MAX_BLANK_NODES + 1, False)):
        body = about + "".join(f"<a:m> <a:p> _:b{n} .\n" for n in range(number))
        if is_taken:
            assert len(members.read_members(VERSIONED, body.encode(), KIND)) == 1
        else:
            with pytest.raises(TooLarge):
                members.read_members(VERSIONED, body.encode(), KIND)
    # Within quotes they are text; outside, a few are told of by name and many are not read at all.
    assert read.read_quads(b'<a:a> <a:b> "' + b"<< " * 1000 + b'" .', TURTLE, EX)
    for number in (read.MAX_TRIPLE_TERMS, read.MAX_TRIPLE_TERMS + 1, 30_000):
        with pytest.raises(InvalidRequest):
            members.read_members(VERSIONED, b"<a:a> <a:b> " + b"<<( <a:a> <a:b> " * number, "text/turtle")


def test_members_their_names_and_texts_are_bounded(ldes: Ldes) -> None:
    for number, is_taken in ((domain.MAX_APPEND, True), (domain.MAX_APPEND + 1, False)):
        body = "".join(f'<a:{n}> <a:p> "x" .\n' for n in range(number)).encode()
        if is_taken:
            assert len(members.read_members(STATED, body, KIND)) == number
        else:
            with pytest.raises(TooLarge):
                members.read_members(STATED, body, KIND)
    stream = ldes.services.streams.streams(1)["hindrances"]

    def append(iri: str = "a:m", version_of: str = "a:o", text: bytes = b"<a:m> <a:b> <a:c> .\n") -> None:
        ldes.store.append(stream.id, [Member(iri, version_of, text)]).result(30)

    long = "a:" + "x" * (domain.MAX_IRI_LENGTH - 2)
    append(long, long)
    for names in ((long + "x", "a:o"), ("a:n", long + "x")):
        with pytest.raises(InvalidParameter):
            append(*names)
    line = b'<a:m> <a:b> "%b" .\n'
    append("a:large", text=line % (b"x" * (domain.MAX_MEMBER_BYTES - len(line) + 2)))
    with pytest.raises(TooLarge):
        append("a:larger", text=line % (b"x" * (domain.MAX_MEMBER_BYTES - len(line) + 3)))


def test_contexts_are_bounded_in_files_and_bytes(tmp_path: Path) -> None:
    def load(number: int, size: int) -> None:
        (tmp_path / "c.jsonld").write_text(json.dumps({"@context": {"a": "b" * size}}))
        (tmp_path / "index.json").write_text(json.dumps({f"http://e.org/{n}": "c.jsonld" for n in range(number)}))
        contexts.load_contexts(str(tmp_path))

    load(contexts.MAX_FILES, 10)
    load(1, contexts.MAX_FILE_BYTES - 100)
    for number, size in ((contexts.MAX_FILES + 1, 10), (1, contexts.MAX_FILE_BYTES)):
        with pytest.raises(InvalidParameter):
            load(number, size)
    known = read.contexts_of({"http://e.org/c": {"a": "x" * 1000}})
    for number, is_read in ((read.MAX_CONTEXT_BYTES // 1100, True), (read.MAX_CONTEXT_BYTES // 1000, False)):
        body = json.dumps([{"@context": "http://e.org/c"}] * number).encode()
        if is_read:
            assert len(read.prepare_json(body, known)) > len(body)
        else:
            with pytest.raises(TooLarge):
                read.prepare_json(body, known)


# ---------------------------------------------------------------- the administration


def test_descriptions_are_bounded_in_triples_names_views_pages_and_strategies(ldes: Ldes) -> None:
    for number, is_read in ((MAX_DESCRIPTION_QUADS, True), (MAX_DESCRIPTION_QUADS + 1, False)):
        body = "".join(f"<a:{n}> <a:b> <a:c> .\n" for n in range(number)).encode()
        if is_read:
            read_graph(body, KIND, EX)
        else:
            with pytest.raises(TooLarge):
                read_graph(body, KIND, EX)

    def create(document: str) -> int:
        return ldes.admin("POST", "eventstreams", document).status

    name = "n" * domain.MAX_NAME_LENGTH
    assert create(STREAM.replace("hindrances", name)) == 201
    assert create(STREAM.replace("hindrances", name + "n")) == 400
    versions = STREAM.replace(
        "ldes:timestampPath", 'ldes:createVersions true ; ldes:versionDelimiter "{}" ; ldes:timestampPath'
    )
    assert create(versions.replace("hindrances", "one").replace("{}", "d" * MAX_DELIMITER_LENGTH)) == 201
    assert create(versions.replace("hindrances", "two").replace("{}", "d" * (MAX_DELIMITER_LENGTH + 1))) == 400

    def view(name: str, strategies: str = PAGED, size: int = 10) -> int:
        document = view_document(name, strategies, size)
        return ldes.admin("POST", "eventstreams/hindrances/views", document).status

    assert view("large", size=domain.MAX_PAGE_SIZE) == 201
    assert view("larger", size=domain.MAX_PAGE_SIZE + 1) == 400
    strategy = (
        '[ a tree:ReferenceFragmentation ; tree:fragmentationPath dct:isVersionOf ; tree:fragmentationKey "k{}" ] '
    )
    nested = [strategy.format(n) for n in range(domain.MAX_FRAGMENTATIONS + 1)]
    assert view("nested", f"( {' '.join(nested[:-1])} )") == 201
    assert view("deeper", f"( {' '.join(nested)} )") == 400
    there = len(ldes.services.streams.views(ldes.services.streams.streams(1)["hindrances"]))
    for number in range(there, domain.MAX_VIEWS):
        assert view(f"v{number}") == 201
    assert view("more") == 413


def test_shapes_their_expressions_and_reports_are_bounded() -> None:
    patterns.check_pattern("a" * patterns.MAX_PATTERN_LENGTH, "sh:pattern")
    with pytest.raises(InvalidParameter):
        patterns.check_pattern("a" * (patterns.MAX_PATTERN_LENGTH + 1), "sh:pattern")

    def validator(depth: int) -> shapes.Validator:
        inner = "sh:property [ sh:path ex:p ; " * depth + "sh:minCount 1" + " ]" * depth
        document = f"{PREFIXES}[] a sh:NodeShape ; sh:targetClass ex:T ; {inner} .".encode()
        found = shapes.validator_of(read_shape(read_graph(document, "text/turtle", EX))[0])
        assert found is not None
        return found

    assert not validator(shape_compiler.MAX_NESTING).is_slow
    assert validator(shape_compiler.MAX_NESTING + 1).is_slow
    rdf_type = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
    body = [Quad(NamedNode(f"{EX}{n}"), rdf_type, NamedNode(EX + "T")) for n in range(10 * shapes.MAX_VIOLATIONS)]
    with pytest.raises(report.ShapeViolation) as caught:
        validator(1)(body)
    assert len(caught.value.violations) == shapes.MAX_VIOLATIONS
    violation = report.Violation(BlankNode("x"), "MinCountConstraintComponent", "m")
    many = [violation] * (report.MAX_RESULTS + 50)
    result = NamedNode("http://www.w3.org/ns/shacl#result")
    assert sum(quad.predicate == result for quad in report.report_quads(many)) == report.MAX_RESULTS


# ---------------------------------------------------------------- reading


def test_questions_to_the_ldes_door_are_bounded(ldes: Ldes) -> None:
    for number, is_read in ((fetch.MAX_PARAMETERS, True), (fetch.MAX_PARAMETERS + 1, False)):
        answer = ldes.get("hindrances/pages?" + "&".join(f"k{n}=1" for n in range(number)))
        assert answer.status == 404
        assert ("no node with such a query string" in answer.text) != is_read, answer.text
    view = View(1, 1, "v", (ReferenceFragmentation(),))
    assert canonical(view, [("pageNumber", "1" * MAX_PAGE_DIGITS)]) == ("", int("1" * MAX_PAGE_DIGITS))
    assert canonical(view, [("pageNumber", "1" * (MAX_PAGE_DIGITS + 1))]) is None
    ranges = ["text/x"] * (syntax.MAX_RANGES - 1)
    assert syntax.wanted(",".join([*ranges, "text/html"])) == "text/html"
    assert syntax.wanted(",".join([*ranges, "text/x", "text/html"])) is None


def test_pages_show_some_members_whole(ldes: Ldes) -> None:
    own = STREAM.replace("hindrances", "shown")
    assert ldes.admin("POST", "eventstreams", own).status == 201
    assert (
        ldes.admin(
            "POST", "eventstreams/shown/views", view_document("all", PAGED, 100).replace("hindrances", "shown")
        ).status
        == 201
    )
    for number in range(pages.MAX_SHOWN + 5):
        assert ldes.ask("POST", "shown", member(number)).status == 201
    ldes.settle()
    page = ldes.get("shown/all?pageNumber=1", "text/html").text
    assert page.count("<pre>") == pages.MAX_SHOWN
    assert page.count("<li>http://example.org/m") == pages.MAX_SHOWN + 5


def test_events_of_one_answer_and_followers_are_bounded(ldes: Ldes, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = ldes.services.streams.streams(1)["hindrances"]
    large = [StoredMember(n, "a:m", "a:o", b"x" * (follow.MAX_BYTES // 2), "", None) for n in range(1, 5)]
    assert follow.events(large, stream, 0).count(b"event: member") == 2
    # One that is larger by itself is given alone.
    assert (
        follow.events([StoredMember(1, "a:m", "a:o", b"x" * (2 * follow.MAX_BYTES), "", None)], stream, 0).count(
            b"event: member"
        )
        == 1
    )
    monkeypatch.setattr(follow, "MAX_EVENTS", 3)
    before = ldes.services.streams.state(stream).sequence
    assert ldes.ingest(*(member(f"e{n}") for n in range(6))) == [201] * 6
    assert ldes.get(f"hindrances?after={before}", "text/event-stream").text.count("event: member") == 3
    monkeypatch.setattr(followers, "MAX_FOLLOWERS", 2)
    waiting = followers.Followers("test", "streams")
    newest = ldes.services.streams.state(stream).sequence

    def wait() -> Future[None]:
        return waiting.wait(stream.id, lambda: ldes.services.streams.state(stream).sequence, newest, 0.1)

    held = [wait() for _ in range(2)]
    with pytest.raises(StoreUnavailable):
        wait()
    for future in held:
        future.result(10)
    wait().result(10)


def test_work_that_waits_in_the_ldes_door_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "MAX_WAITING", work._waiting + 3)
    go = threading.Event()

    def wait() -> Response:
        go.wait(10)
        return Response(b"", "text/plain")

    held = [work.in_thread(wait) for _ in range(3)]
    with pytest.raises(StoreUnavailable):
        work.in_thread(wait)
    go.set()
    for deferred in held:
        deferred.future.result(10)


def test_reads_of_members_are_bounded(ldes: Ldes, monkeypatch: pytest.MonkeyPatch) -> None:
    from thalweg.store.sqlite import stream_members, streams

    stream = ldes.services.streams.streams(1)["hindrances"]
    ldes.ingest(*(member(f"r{n}") for n in range(6)))
    monkeypatch.setattr(streams, "MAX_MEMBERS", 4)
    assert len(ldes.store.members(stream.id, 0, limit=100)) == 4
    monkeypatch.setattr(stream_members, "MAX_MEMBERS_BYTES", 1)
    assert len(ldes.store.members(stream.id, 0, limit=100)) == 1


# ---------------------------------------------------------------- buckets


def test_values_and_buckets_of_a_member_are_bounded() -> None:
    text = b"".join(b"<a:m> <a:p> <a:%d> .\n" % n for n in range(2 * buckets.MAX_VALUES))
    assert len(list(buckets.finder("a:p")(text))) == buckets.MAX_VALUES
    one, other = ReferenceFragmentation("a:p", "p"), ReferenceFragmentation("a:q", "q")
    rule = buckets.rule(View(1, 1, "v", (one, other)))
    side = 64
    assert side * side == buckets.MAX_CHAINS

    def chains(count: int) -> int:
        lines = [b"<a:m> <a:p> <a:%d> .\n" % n for n in range(side)] + [
            b"<a:m> <a:q> <a:%d> .\n" % n for n in range(count)
        ]
        return len(rule(b"".join(lines)))

    assert chains(side) == buckets.MAX_CHAINS
    # More go where every client looks.
    assert chains(side + 1) == 1


# ---------------------------------------------------------------- what is kept


def test_what_is_remembered_of_producers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    document = insert().encode()
    assert producers.split(document) is not None
    padded = document.replace(b"</om:Observation>", b"<!--%b--></om:Observation>" % (b"x" * producers.MAX_BYTES))
    assert producers.split(padded) is None
    monkeypatch.setattr(producers, "MAX_PRODUCERS", 5)
    known, catalogue = producers.Producers(), network()
    for number in range(50):
        known.put(catalogue, (b"%d" % number,), None, None)  # type: ignore[arg-type]
        assert len(known._of[catalogue]) <= 5


def test_templates_of_members_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "MAX_TEMPLATES", 5)
    monkeypatch.setattr(templates, "MAX_SEEN", 7)
    monkeypatch.setattr(templates, "IDLE", 10**9)
    known = templates.Templates()
    for number in range(60):
        body = member(1, more=f"ex:p{number} 1")
        for _ in range(3):
            templates.read_members(VERSIONED, body.encode(), "text/turtle", templates=known)
        assert len(known._known) <= 5
        assert len(known._before) <= 5
        assert len(known._seen) <= 7
    assert known._known
    monkeypatch.setattr(templates, "MAX_BODY_BYTES", 10)
    fresh = templates.Templates()
    templates.read_members(VERSIONED, member(1).encode(), "text/turtle", templates=fresh)
    assert not fresh._seen


def test_rules_of_views_are_bounded(ldes: Ldes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_work, "MAX_RULES", 5)
    made = stream_work.StreamWork(ldes.store)
    for number in range(40):
        made._rule(View(number, 1, "v", (ReferenceFragmentation(),)))
        assert len(made._rules) <= 5


def test_answers_of_one_turn_are_bounded() -> None:
    """However many requests have come at once, some are answered before the others are begun."""
    begun: list[int] = []

    class Connection:
        def by_asgi(self, cycle: object, answer: object) -> None: ...

    class Cycle:
        scope: dict[str, object] = {}  # noqa: RUF012
        body = b""

    class Direct:
        def answer(self, scope: object, body: bytes) -> object:
            begun.append(1)
            return lambda *_: None

    turn = Turn(Direct())  # type: ignore[arg-type]
    turn._requests.extend((Connection(), Cycle()) for _ in range(5 * MAX_ANSWERS))  # type: ignore[misc]
    turn._answer_some()
    assert 0 < len(begun) <= MAX_ANSWERS


def test_addresses_of_proxies_are_bounded() -> None:
    clients = Clients(Settings(trusted_proxies=("10.0.0.0/8",)))
    for number, found in ((MAX_FORWARDED - 1, "192.0.2.1"), (MAX_FORWARDED, "10.0.0.1")):
        line = ", ".join(["192.0.2.1", *["10.0.0.1"] * number]).encode()
        assert clients.address("10.0.0.2", [(b"x-forwarded-for", line)]) == found


# ---------------------------------------------------------------- files


def test_heads_and_tails_of_files_of_features_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_split, "MAX_HEAD_BYTES", 1000)
    feature = b'{"type":"Feature","properties":{},"geometry":null}'
    whole = b'{"type":"FeatureCollection","name":"%b","features":[%b]%b}'

    def split(head: int, tail: int) -> list[bytes]:
        text = whole % (b"x" * head, feature, b',"more":"' + b"x" * tail + b'"')
        return [item for batch in json_split.FeatureSplitter(BytesIO(text)).batches() for item in batch]

    assert split(10, 10) == [feature]
    with pytest.raises((TooLarge, InvalidRequest)):
        split(10, 3_000_000)


def test_examples_of_a_load_are_bounded() -> None:
    made = LayerReport("x.geojson", "default")
    for number in range(2 * MAX_EXAMPLES):
        made.add(Problem("x.geojson", number, "", "r", "skipped"), None)
    assert len(made.examples) == MAX_EXAMPLES
    assert made.problems == {"skipped": 2 * MAX_EXAMPLES}
