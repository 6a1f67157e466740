"""What the LDES door and its loader read, whatever it is given: taken, or refused with a domain error, in bounded time."""

# ruff: noqa: E501 (strategies and documents read better unbroken)

from __future__ import annotations

import gzip
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conformance import policy_ldes
from tests.conformance.ldes_support import (
    ADMIN,
    BY_LOCATION,
    BY_TIME,
    PAGED,
    PREFIXES,
    READER,
    STREAM,
    Ldes,
    member,
    view_document,
)
from tests.conformance.policy_support import Target
from tests.fuzz import ldes as fuzz
from tests.fuzz.mutate import Wire, wire_of
from tests.property.hostile import Within, changed, is_read_or_refused, requests, texts

from thalweg.domain.errors import ThalwegError, TooLarge
from thalweg.domain.streams import (
    MAX_FRAGMENTATIONS,
    MAX_MEMBER_BYTES,
    MAX_PAGE_SIZE,
    EventStream,
    GeospatialFragmentation,
)
from thalweg.encode.rdf import administration as documents
from thalweg.encode.rdf import members as plain
from thalweg.encode.rdf import templates
from thalweg.encode.rdf.read import MAX_JSON_DEPTH, prepare_json, read_quads, to_n_triples
from thalweg.encode.rdf.shapes import validator_of
from thalweg.encode.rdf.syntax import JSON_LD, N_QUADS, N_TRIPLES, RDF_XML, TRIG, TURTLE, Syntax
from thalweg.loading.members import bodies
from thalweg.services import stream_load
from thalweg.services.stream_load import load_members

TRIES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=150)
SOME = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=50)
STATE = STREAM.replace("ldes:timestampPath", "ldes:createVersions true ; ldes:timestampPath")
KINDS = ((EventStream(1, "", 1, "s", "http://www.w3.org/ns/prov#generatedAtTime", "http://purl.org/dc/terms/isVersionOf")),
         (EventStream(2, "", 1, "t", "http://www.w3.org/ns/prov#generatedAtTime", "http://purl.org/dc/terms/isVersionOf", create_versions=True)))  # fmt: skip
BODIES: dict[str, tuple[Syntax, list[bytes], str]] = {}
for _row in fuzz.DOOR.seeds[:5]:
    _sent = _row.send(Target("default", "stream", 1, policy_ldes.keys_of("s"), ()), 1)
    _syntax = {"text/turtle": TURTLE, "application/trig": TRIG, "application/ld+json": JSON_LD, "application/rdf+xml": RDF_XML,
               "application/n-quads": N_QUADS}[_sent.content_type]  # fmt: skip
    BODIES[_sent.content_type] = (_syntax, [_sent.body], {JSON_LD: "json", RDF_XML: "xml"}.get(_syntax, "tokens"))
WORDS = fuzz.DOOR.words


@pytest.mark.parametrize("kind", BODIES)
@TRIES
@given(data=st.data())
def test_bodies_are_quads_that_can_be_kept_or_refused(kind: str, data: st.DataObject) -> None:
    syntax, valid, way = BODIES[kind]
    body = data.draw(st.one_of(changed(valid, WORDS, way), changed(valid, WORDS, "bytes"), st.binary(max_size=80)))
    found = is_read_or_refused(lambda: read_quads(body, syntax, "http://e.org/s"))
    if found[0] == "given":
        kept = is_read_or_refused(to_n_triples, found[1])
        if kept[0] == "given":
            # Another reading of what is kept gives as many triples: nothing of a name or text became a triple of its own.
            again = read_quads(kept[1], N_TRIPLES, "http://e.org/s")
            assert len(again) == len(found[1])


@pytest.mark.parametrize("kind", BODIES)
@TRIES
@given(data=st.data())
def test_bodies_are_members_alike_by_both_ways_or_refused(kind: str, data: st.DataObject) -> None:
    """By template, where there is one, members are those that are read the plain way."""
    _, valid, way = BODIES[kind]
    body = data.draw(st.one_of(changed(valid, WORDS, way), changed(valid, WORDS, "bytes")))
    for stream in KINDS:
        remembered = templates.Templates()
        plainly = is_read_or_refused(plain.read_members, stream, body, kind)
        for _ in range(3):
            found = is_read_or_refused(partial(templates.read_members, stream, body, kind, templates=remembered))
            assert found[0] == plainly[0]
            if found[0] == "given" and not stream.create_versions:
                assert [(item.iri, item.version_of, item.timestamp) for item in found[1]] == [
                    (item.iri, item.version_of, item.timestamp) for item in plainly[1]
                ]
                assert all(len(item.text) <= MAX_MEMBER_BYTES for item in found[1])


@given(st.integers(1, 2 * MAX_JSON_DEPTH), st.sampled_from(("[", "{")))
def test_json_is_nested_as_deep_as_allowed_and_no_deeper(depth: int, sign: str) -> None:
    text = '{"http://e.org/p":' * depth + "1" + "}" * depth if sign == "{" else "[" * depth + "]" * depth
    found = is_read_or_refused(lambda: prepare_json(text.encode(), lambda address: None))
    assert (found[0] == "given") == (depth <= MAX_JSON_DEPTH)


# ---------------------------------------------------------------- documents of the administration

DOCUMENTS = [PREFIXES + text for text in (
    STREAM, STATE, *(view_document(f"v{n}", strategies, 5, fuzz.RETENTION) for n, strategies in enumerate(fuzz.STRATEGIES)), fuzz.SHAPE,
    "[] a ldes:EventSource" + fuzz.RETENTION + " .\n", *policy_ldes.DCAT_OF.values(),
    fuzz._stream(Target("default", "stream", 1, policy_ldes.keys_of("s"), ()), 1),
)]  # fmt: skip
CHANGED = st.one_of(changed(DOCUMENTS, WORDS, "tokens"), changed(DOCUMENTS, WORDS, "bytes"))


@TRIES
@given(CHANGED)
def test_documents_of_the_administration_are_read_or_refused(body: bytes) -> None:
    """Whatever a document is, it may be sent as any other."""
    found = is_read_or_refused(lambda: documents.read_graph(body, "text/turtle", "http://e.org/"))
    if found[0] == "refused":
        return
    graph = found[1]
    stream = is_read_or_refused(documents.read_stream, graph)
    if stream[0] == "given":
        assert stream[1].stream.name
        assert stream[1].stream.name not in documents.RESERVED_NAMES
    is_read_or_refused(documents.read_event_source, graph)
    for what in policy_ldes.DCAT_OF:
        is_read_or_refused(documents.read_dcat, graph, what)
    shape = is_read_or_refused(documents.read_shape, graph)
    if shape[0] == "given":
        is_read_or_refused(validator_of, shape[1][0])


@TRIES
@given(CHANGED)
def test_views_are_within_their_bounds_or_refused(body: bytes) -> None:
    found = is_read_or_refused(lambda: documents.read_view(documents.read_graph(body, "text/turtle", "http://e.org/")))
    if found[0] == "given":
        view = found[1]
        assert 1 <= view.page_size <= MAX_PAGE_SIZE
        assert len(view.fragmentation) <= MAX_FRAGMENTATIONS
        keys = [key for strategy in view.fragmentation for key in strategy.keys]
        assert len(keys) == len(set(keys))
        assert all(0 <= s.max_zoom <= 23 for s in view.fragmentation if isinstance(s, GeospatialFragmentation))


# ---------------------------------------------------------------- the door


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ldes]:
    made = Ldes(tmp_path_factory.mktemp("any"))
    made.create(("pages", PAGED, 2), ("v0", BY_TIME, 2), ("v1", BY_LOCATION, 2))
    assert made.ingest(*(member(n, wkt="POINT (5 50)") for n in range(7))) == [201] * 7
    made.settle()
    yield made
    made.close()


TARGET = Target("default", "stream", 1, {"name": "hindrances", "title": "t", "object": "http://example.org/o1"}, ())


def _reads() -> list[Wire]:
    wires = [wire_of(row.send(TARGET, n)) for n, row in enumerate((*policy_ldes.ROWS.rows, *fuzz.DOOR.seeds))]
    found = [wire for wire in wires if wire.method == "GET"]
    for path, query in (("pages", {"pageNumber": "2"}), ("v0", {"year": "2021", "month": "1", "day": "6", "pageNumber": "1"}),
                        ("v1", {"tile": "13/4209/2747", "pageNumber": "1"}), ("v0", {"year": "100000000000"}), ("v1", {"tile": "40/1/1099511627776"})):  # fmt: skip
        found.append(Wire("GET", f"/ldes/hindrances/{path}", list(query.items())))
    return found


@TRIES
@given(
    wire=requests(_reads(), WORDS),
    accept=st.one_of(texts(WORDS), st.sampled_from(("text/event-stream", "text/turtle", "*/*;q=nan"))),
)
def test_addresses_of_nodes_are_answered_or_refused(door: Ldes, wire: Wire, accept: str) -> None:
    """Also as a stream of events, whose place is named by the client."""
    query = urlencode(wire.query, errors="surrogatepass") if wire.query_text is None else wire.query_text
    path = wire.path.removeprefix("/ldes").strip("/").encode("utf-8", "replace").decode()
    # A client that follows waits where there is nothing new: what it has seen is said, so that nobody does.
    events = ((b"last-event-id", accept.encode("utf-8", "replace") if "event" not in accept else b"0"),)
    with Within():
        answer = door.ask("GET", path.replace("?", "%3F") + "?" + quote(query, safe="&=%+;/", errors="surrogatepass"), accept=accept.encode("latin-1", "replace").decode("latin-1"),
                          principal=READER, headers=events if "event" in accept else ())  # fmt: skip
    assert answer.status in (200, 303, 304, 307, 400, 403, 404, 405, 406), answer.text[:400]
    assert answer.status == 200 or "Traceback" not in answer.text


@pytest.mark.parametrize("text", ["-1", "+1", "1e3", "9" * 19, "٣", "0x1", "1 OR 1=1", "*", "\x00", "1\n2"])
def test_places_in_a_stream_of_events_are_numbers(door: Ldes, text: str) -> None:
    for answer in (door.ask("GET", "hindrances", accept="text/event-stream", headers=((b"last-event-id", text.encode()),)),
                   door.ask("GET", "hindrances?" + urlencode({"after": text}), accept="text/event-stream")):  # fmt: skip
        assert answer.status == 400
        assert "Last-Event-ID" in answer.text


WRITES = [
    wire
    for wire in (wire_of(row.send(TARGET, n)) for n, row in enumerate((*policy_ldes.ROWS.rows, *fuzz.DOOR.seeds)))
    if wire.method != "GET"
    and "/close" not in wire.path
    and not (wire.method == "DELETE" and wire.path.endswith("hindrances"))
]


@SOME
@given(wire=requests(WRITES, WORDS))
def test_changes_are_made_or_refused(door: Ldes, wire: Wire) -> None:
    path = wire.path.removeprefix("/ldes").strip("/").encode("utf-8", "replace").decode().replace("?", "%3F")
    if path.partition("/")[2] == "" and wire.method == "DELETE":
        return
    with Within():
        answer = door.ask(
            wire.method, path, wire.body, kind=dict(wire.headers).get("Content-Type", ""), principal=ADMIN
        )
    assert answer.status in (200, 201, 303, 400, 404, 405, 409, 413, 415), answer.text[:400]


# ---------------------------------------------------------------- files

NAMES = {".nq": "application/n-quads", ".ttl": "text/turtle", ".trig": "application/trig", ".jsonld": "application/ld+json",
         ".rdf": "application/rdf+xml", ".ndjson": "application/ld+json"}  # fmt: skip


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ldes]:
    made = Ldes(tmp_path_factory.mktemp("load"))
    made.create(("pages", PAGED, 100))
    yield made
    made.close()


@pytest.mark.parametrize("suffix", NAMES)
@SOME
@given(data=st.data())
def test_files_of_members_are_loaded_or_their_faults_told(
    loaded: Ldes, tmp_path: Path, suffix: str, data: st.DataObject
) -> None:
    """Every body is stored, known or told to be faulty; never less and never more."""
    _, valid, way = BODIES[NAMES[suffix]]
    parts = data.draw(st.lists(st.one_of(changed(valid, WORDS, way), st.binary(max_size=40)), min_size=1, max_size=4))
    content = b"\n\n".join(parts)
    path = tmp_path / f"members{suffix}"
    if data.draw(st.booleans()):
        path = path.with_name(path.name + ".gz")
        content = gzip.compress(content, 1)[: data.draw(st.sampled_from((None, None, -4)))]
    path.write_bytes(content)
    stream = loaded.services.streams.streams(1)["hindrances"]
    kind = "application/x-ndjson" if suffix == ".ndjson" else NAMES[suffix]
    with Within():
        try:
            done = load_members(loaded.services.streams, stream, bodies(path, kind))
        except ThalwegError as error:
            assert error.message
            return
    assert done.faulty == len(done.faults)
    assert done.faulty <= done.bodies
    assert done.stored + done.known >= (done.bodies > done.faulty)
    assert all(fault.message and fault.file == path.name for fault in done.faults)


def test_faults_of_a_load_are_counted_and_some_told(
    loaded: Ldes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_load, "MAX_FAULTS", 3)
    path = tmp_path / "bad.nq"
    path.write_bytes(b"\n\n".join(b"<http://e.org/%d> nonsense ." % n for n in range(20)))
    done = load_members(
        loaded.services.streams, loaded.services.streams.streams(1)["hindrances"], bodies(path, "application/n-quads")
    )
    assert (done.bodies, done.faulty, len(done.faults), done.stored) == (20, 20, 3, 0)


@pytest.mark.parametrize("syntax", [TURTLE, TRIG, N_TRIPLES, N_QUADS, RDF_XML, JSON_LD], ids=lambda syntax: syntax.name)
@pytest.mark.parametrize("size_mib", [5, 20])
def test_one_text_as_long_as_a_body_is_read_or_too_large(syntax: Syntax, size_mib: int) -> None:
    """A library that gives up on one long text says so by running out of memory."""
    text = "x" * (size_mib << 20)
    body = {
        RDF_XML: f'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e.org/"><rdf:Description '
        f'rdf:about="http://e.org/a"><e:b>{text}</e:b></rdf:Description></rdf:RDF>',
        JSON_LD: f'{{"@id":"http://e.org/a","http://e.org/b":"{text}"}}',
    }.get(syntax, f'<http://e.org/a> <http://e.org/b> "{text}" .')
    try:
        found = read_quads(body.encode(), syntax, "http://e.org/")
    except TooLarge as error:
        assert error.parameter == "request"
    else:
        assert len(found) == 1
