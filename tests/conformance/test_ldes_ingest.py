"""Ingest through the LDES door: the Flanders server's rules one by one, members as they come, hostile input."""

# ruff: noqa: E501 (bodies read better unbroken)

from __future__ import annotations

import gzip
import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import rdflib
from hypothesis import given
from hypothesis import strategies as st
from tests.conformance.ldes_support import (
    BASE,
    DCT,
    NOBODY,
    PAGED,
    PREFIXES,
    PROV,
    READER,
    STREAM,
    WRITER,
    Ldes,
    member,
    read,
    same,
)
from tests.conftest import BESIDE

from thalweg.settings import Settings

GIPOD = BESIDE / "data" / "gipod"
STATES = STREAM.replace(" .\n", " ; ldes:createVersions true .\n")
EX = rdflib.Namespace("http://example.org/")


@pytest.fixture
def ldes(tmp_path: Path) -> Iterator[Ldes]:
    made = Ldes(tmp_path)
    yield made
    made.close()


@pytest.fixture
def paged(ldes: Ldes) -> Ldes:
    ldes.create(("by-page", PAGED, 250))
    return ldes


def stored(ldes: Ldes) -> list[rdflib.Graph]:
    """Every stored member as a graph, in order."""
    stream = ldes.services.streams.streams(1)["hindrances"]
    found = ldes.services.streams.members(stream)
    return [read(m.text, "application/n-triples") for m in found]


def refused(ldes: Ldes, body: str | bytes, status: int, *words: str, kind: str = "text/turtle") -> str:
    """The message of a body that is refused with nothing stored."""
    before = len(stored(ldes))
    answer = ldes.ask("POST", "hindrances", body, kind=kind)
    assert answer.status == status, answer.text
    for word in words:
        assert word in answer.text
    assert len(stored(ldes)) == before
    return answer.text


# ---------------------------------------------------------------- answers


def test_new_member_is_201_and_known_one_200(paged: Ldes) -> None:
    assert paged.ingest(member(1), member(1), member(2)) == [201, 200, 201]
    assert len(stored(paged)) == 2


def test_first_content_of_a_member_stays(paged: Ldes) -> None:
    paged.ingest(member(1, more="ex:lane 1"), member(1, more="ex:lane 2"))
    (found,) = stored(paged)
    assert [str(o) for o in found.objects(EX.m1, EX.lane)] == ["1"]


def test_unknown_stream_is_404(ldes: Ldes) -> None:
    assert ldes.ask("POST", "nothing", member(1)).status == 404


def test_missing_content_type_and_unknown_one_are_415(paged: Ldes) -> None:
    refused(paged, member(1), 415, "text/turtle", kind="")
    refused(paged, member(1), 415, "image/png", kind="image/png")
    refused(paged, member(1), 415, "UTF-8", kind="text/turtle; charset=iso-8859-1")
    assert paged.ingest(member(1), kind="text/turtle; charset=UTF-8") == [201]


def test_closed_stream_takes_nothing(paged: Ldes) -> None:
    paged.ingest(member(1))
    assert paged.admin("POST", "eventstreams/hindrances/close").status == 200
    refused(paged, member(2), 400, "closed")


def test_who_may_not_insert_is_refused_before_the_body_is_read(paged: Ldes) -> None:
    assert paged.ask("POST", "hindrances", "no turtle at all", principal=READER).status == 401
    reader = replace(WRITER, name="rita", role=READER.role)
    assert paged.ask("POST", "hindrances", member(1), principal=reader).status == 403
    assert paged.ask("POST", "hindrances", member(1), principal=NOBODY).status == 401
    assert paged.ask("POST", "hindrances", member(1), principal=WRITER).status == 201


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", ["no triple"]),
        ("ex:a ex:b .", ["line"]),
        ("ex:m a ex:Hindrance ; prov:generatedAtTime '2021-01-01T00:00:00Z'^^xsd:dateTime .", ["isVersionOf"]),
        ("ex:m dct:isVersionOf ex:o .", ["generatedAtTime", "0 values"]),
        ("ex:m dct:isVersionOf ex:o, ex:p ; prov:generatedAtTime '2021-01-01T00:00:00Z'^^xsd:dateTime .", ["2 values"]),
        (
            "ex:m dct:isVersionOf ex:o ; prov:generatedAtTime '2021-01-01T00:00:00Z'^^xsd:dateTime, "
            "'2022-01-01T00:00:00Z'^^xsd:dateTime .",
            ["2 values"],
        ),
        ("ex:m dct:isVersionOf 'o' ; prov:generatedAtTime '2021-01-01T00:00:00Z'^^xsd:dateTime .", ["IRI"]),
        ("ex:m dct:isVersionOf [] ; prov:generatedAtTime '2021-01-01T00:00:00Z'^^xsd:dateTime .", ["IRI"]),
        ("ex:m dct:isVersionOf ex:o ; prov:generatedAtTime 2021 .", ["xsd:dateTime"]),
        ("ex:m dct:isVersionOf ex:o ; prov:generatedAtTime 'some day' .", ["xsd:dateTime"]),
        ("ex:m dct:isVersionOf ex:o ; prov:generatedAtTime ex:now .", ["xsd:dateTime"]),
        ("[] dct:isVersionOf ex:o ; prov:generatedAtTime '2021-01-01T00:00:00Z'^^xsd:dateTime .", ["named subject"]),
    ],
)
def test_what_is_no_version_object_is_400_and_says_why(paged: Ldes, body: str, words: list[str]) -> None:
    refused(paged, PREFIXES + body, 400, *words)


def test_named_graphs_are_refused(paged: Ldes) -> None:
    body = member(1).replace("ex:m1 a", "ex:g { ex:m1 a").rstrip().removesuffix(".") + "}"
    refused(paged, body, 400, "named graph", kind="application/trig")
    line = "<http://e.org/a> <http://e.org/b> <http://e.org/c> <http://e.org/g> .\n"
    refused(paged, line, 400, "named graph", kind="application/n-quads")


def test_trig_without_named_graphs_is_taken(paged: Ldes) -> None:
    assert paged.ingest(member(1), kind="application/trig") == [201]


# ---------------------------------------------------------------- timestamps


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        ('"2021-01-06T18:05:35.713Z"^^xsd:dateTime', 1609956335713000),
        ('"2021-01-06T19:05:35.713+01:00"^^xsd:dateTime', 1609956335713000),
        ('"2021-01-06T18:05:35.713"^^xsd:dateTime', 1609956335713000),
        ('"2021-01-06T18:05:35.7131234567Z"^^xsd:dateTime', 1609956335713123),
        ('"2021-01-06T24:00:00Z"^^xsd:dateTime', 1609977600000000),
        ('"2024-10-07T10:00:00Z"', 1728295200000000),
        ('"2024-10-07T10:00:00Z"^^xsd:string', 1728295200000000),
        ('"yesterday"^^xsd:dateTime', None),
        ('"2021-13-45T00:00:00Z"^^xsd:dateTime', None),
    ],
)
def test_timestamp_is_read_to_utc_and_kept_as_written(paged: Ldes, literal: str, expected: int | None) -> None:
    body = f"{PREFIXES}ex:m dct:isVersionOf ex:o ; prov:generatedAtTime {literal} ."
    assert paged.ingest(body) == [201]
    (found,) = paged.services.streams.members(paged.services.streams.streams(1)["hindrances"])
    assert found.timestamp_us == expected
    assert found.timestamp == literal.split('"')[1]


# ---------------------------------------------------------------- the member rule


def test_member_with_several_named_subjects_keeps_every_triple(paged: Ldes) -> None:
    more = PREFIXES + "ex:zone ex:of ex:m1 ; ex:type ex:t . ex:event ex:has ex:m1 . ex:t ex:label 'x'@nl-BE ."
    body = member(1) + more.replace(PREFIXES, "")
    assert paged.ingest(body) == [201]
    (found,) = stored(paged)
    assert same(found, read(body.encode(), "text/turtle"))


def test_of_two_version_objects_the_one_of_the_target_class_is_the_member(paged: Ldes) -> None:
    other = "ex:z dct:isVersionOf ex:y ; prov:generatedAtTime '2020-01-01T00:00:00Z'^^xsd:dateTime ."
    assert paged.ingest(member(1) + other) == [201]
    (found,) = paged.services.streams.members(paged.services.streams.streams(1)["hindrances"])
    assert found.iri == "http://example.org/m1"
    refused(paged, member(2) + member(3).replace(PREFIXES, ""), 400, "2 subjects", "m2", "m3")


def test_strict_mode_takes_one_named_subject(tmp_path: Path) -> None:
    ldes = Ldes(tmp_path, Settings(ldes_strict_members=True))
    try:
        ldes.create()
        refused(ldes, member(1) + "ex:zone ex:of ex:m1 .", 400, "2 named subjects")
        refused(ldes, member(1) + "[] ex:of ex:m1 .", 400, "blank node")
        refused(ldes, member(1, more="ex:p _:x ; ex:q _:x"), 400, "2 triples")
        assert ldes.ingest(member(1, more="ex:p [ ex:q [ ex:r 1 ] ]")) == [201]
    finally:
        ldes.close()


def test_member_triples_of_other_servers_are_dropped(paged: Ldes) -> None:
    assert paged.ingest(member(1) + "ex:c <https://w3id.org/tree#member> ex:m1 .") == [201]
    (found,) = stored(paged)
    assert same(found, read(member(1).encode(), "text/turtle"))


def test_the_templated_member_of_the_public_test_plans_is_taken_whole(paged: Ldes) -> None:
    if not GIPOD.is_dir():
        pytest.skip("GIPOD members not found")
    assert paged.admin("PUT", "eventstreams/hindrances/shape",
        "[] a sh:NodeShape ; sh:targetClass <https://data.vlaanderen.be/ns/mobiliteit#Mobiliteitshinder> ."
    ).status == 200  # fmt: skip
    template = (GIPOD / "member_template.ttl").read_text()
    bodies = [template.replace("${__threadNum}${member_counter}", str(n)) for n in (1, 2)]
    assert paged.ingest(*bodies) == [201, 201]
    one, two = stored(paged)
    assert len(one) == len(two) == 40
    # rdflib reads the malformed literals "..."^^rdf:langString as they are.
    assert same(one, read(bodies[0].encode(), "text/turtle"))
    assert (
        sum(1 for o in one.objects() if isinstance(o, rdflib.Literal) and str(o.datatype).endswith("langString")) == 4
    )


def test_150_real_members_keep_their_triples(paged: Ldes) -> None:
    if not GIPOD.is_dir():
        pytest.skip("GIPOD members not found")
    expected = json.loads((GIPOD / "expected_buckets.json").read_text())
    blocks = re.split(r"^# member \d+: .*\n", (GIPOD / "members.nq").read_text(), flags=re.MULTILINE)[1:]
    assert set(paged.ingest(*blocks, kind="application/n-quads")) == {201}
    found = paged.services.streams.members(paged.services.streams.streams(1)["hindrances"])
    assert {m.iri: m.text.count(b"\n") for m in found} == {iri: e["triples"] for iri, e in expected.items()}


# ---------------------------------------------------------------- blank nodes


def test_equal_labels_of_two_members_are_two_nodes_on_one_page(paged: Ldes) -> None:
    for number in (1, 2):
        body = member(number, more="ex:where _:b0") + f"_:b0 ex:lane {number} ."
        assert paged.ingest(body) == [201]
    paged.settle()
    page = paged.get("hindrances/by-page?pageNumber=1").graph
    for number in (1, 2):
        (node,) = page.objects(EX[f"m{number}"], EX.where)
        assert [int(str(o)) for o in page.objects(node, EX.lane)] == [number]


def test_text_that_looks_like_a_label_stays(paged: Ldes) -> None:
    text = "_:b0 _:deadbeefdeadbeefdeadbeefdeadbeef <http://e.org/> _:x ."
    assert paged.ingest(member(1, more=f'ex:where [ ex:says "{text}" ]')) == [201]
    (found,) = stored(paged)
    assert [str(o) for o in found.objects(None, EX.says)] == [text]


def test_blank_nodes_become_iris_where_a_domain_is_named(ldes: Ldes) -> None:
    ldes.create(stream=STREAM.replace(" .\n", " ; ldes:skolemizationDomain <http://example.org> .\n"))
    assert ldes.ingest(member(1, more="ex:where [ ex:lane 1 ], [ ex:lane 2 ]")) == [201]
    (found,) = stored(ldes)
    nodes = {str(o) for o in found.objects(EX.m1, EX.where)}
    assert len(nodes) == 2
    assert all(re.fullmatch(r"http://example\.org/\.well-known/genid/\w+", node) for node in nodes)


# ---------------------------------------------------------------- state objects


def test_state_objects_become_versions(ldes: Ldes) -> None:
    ldes.create(stream=STATES)
    before = time.time_ns() // 1000
    body = PREFIXES + "ex:o1 ex:lane 1 ; ex:where [ ex:deep [ ex:lane 5 ] ] . ex:o2 ex:lane 2 ."
    assert ldes.ask("POST", "hindrances", body).status == 201
    found = ldes.services.streams.members(ldes.services.streams.streams(1)["hindrances"])
    assert [m.version_of for m in found] == ["http://example.org/o1", "http://example.org/o2"]
    for m in found:
        assert m.timestamp_us is not None
        assert before <= m.timestamp_us <= time.time_ns() // 1000
        assert m.iri == f"{m.version_of}/{m.timestamp}"
    one = rdflib.Graph().parse(data=found[0].text, format="nt")
    subject = rdflib.URIRef(found[0].iri)
    assert len(one) == 6
    assert one.value(subject, DCT.isVersionOf) == EX.o1
    assert len(list(one.objects(subject, PROV.generatedAtTime))) == 1
    assert (
        f'generatedAtTime> "{found[0].timestamp}"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
        in found[0].text.decode()
    )
    assert str(one.value(one.value(one.value(subject, EX.where), EX.deep), EX.lane)) == "5"
    # The same state again is another version.
    assert ldes.ask("POST", "hindrances", body).status == 201
    assert len(stored(ldes)) == 4


def test_state_objects_with_the_two_properties_or_loose_blank_nodes_are_refused_whole(ldes: Ldes) -> None:
    ldes.create(stream=STATES)
    good = "ex:o1 ex:lane 1 .\n"
    refused(ldes, PREFIXES + good + "ex:o2 dct:isVersionOf ex:o3 .", 400, "isVersionOf")
    refused(ldes, PREFIXES + good + "ex:o2 prov:generatedAtTime 1 .", 400, "generatedAtTime")
    refused(ldes, PREFIXES + good + "[] ex:lane 3 .", 400, "no named subject")
    refused(ldes, PREFIXES + "[] ex:lane 3 .", 400)


def test_delimiter_of_versions_is_the_streams(ldes: Ldes) -> None:
    ldes.create(stream=STATES.replace(" .\n", ' ; ldes:versionDelimiter "#" .\n'))
    assert ldes.ask("POST", "hindrances", PREFIXES + "ex:o1 ex:lane 1 .").status == 201
    (found,) = ldes.services.streams.members(ldes.services.streams.streams(1)["hindrances"])
    assert found.iri.startswith("http://example.org/o1#2")


# ---------------------------------------------------------------- syntaxes


def test_every_syntax_gives_the_same_member(paged: Ldes) -> None:
    source = read(member(1, more='ex:where [ ex:lane 1, 2.5 ; ex:says "é\\n\\"x\\" <&>"@nl ]').encode(), "text/turtle")
    names = {"turtle": "text/turtle", "nt": "application/n-triples", "nquads": "application/n-quads",
             "trig": "application/trig", "json-ld": "application/ld+json", "xml": "application/rdf+xml"}  # fmt: skip
    for number, (form, kind) in enumerate(names.items()):
        graph = rdflib.Graph()
        for s, p, o in source:
            graph.add((EX[f"n{number}"] if s == EX.m1 else s, p, o))
        dataset = rdflib.Dataset()
        for triple in graph:
            dataset.default_graph.add(triple)
        body = (dataset if form in ("nquads", "trig") else graph).serialize(format=form, encoding="utf-8")
        answer = paged.ask("POST", "hindrances", body, kind=kind)
        assert answer.status == 201, (kind, answer.text)
        assert same(stored(paged)[-1], graph), kind


def test_relative_iris_are_resolved_against_the_stream(paged: Ldes) -> None:
    assert paged.ingest(member(1, more="ex:see <#top>, <other>, </root>")) == [201]
    (found,) = stored(paged)
    assert {str(o) for o in found.objects(EX.m1, EX.see)} == {
        f"{BASE}/hindrances#top", f"{BASE}/other", "http://x.org/root"
    }  # fmt: skip


def test_json_ld_context_written_out_is_read(paged: Ldes) -> None:
    body = {
        "@context": {"ex": "http://example.org/", "of": {"@id": str(DCT.isVersionOf), "@type": "@id"},
                     "at": {"@id": str(PROV.generatedAtTime), "@type": "http://www.w3.org/2001/XMLSchema#dateTime"}},
        "@id": "ex:m1", "@type": "ex:Hindrance", "of": "ex:o1", "at": "2021-01-06T18:05:35.713Z",
    }  # fmt: skip
    assert paged.ask("POST", "hindrances", json.dumps(body), kind="application/ld+json").status == 201
    assert same(stored(paged)[0], read(member(1).encode(), "text/turtle"))


def test_json_ld_contexts_by_address_come_from_the_operators_folder_alone(tmp_path: Path) -> None:
    folder = tmp_path / "contexts"
    folder.mkdir()
    context = {"@context": {"of": {"@id": str(DCT.isVersionOf), "@type": "@id"}, "type": "@type", "id": "@id"}}
    (folder / "own.jsonld").write_text(json.dumps(context))
    (folder / "index.json").write_text('{"https://data.example.org/own.jsonld": "own.jsonld"}')
    ldes = Ldes(tmp_path, Settings(ldes_contexts=str(folder)))
    try:
        ldes.create()
        body = {
            "@context": ["https://data.example.org/own.jsonld"], "id": "http://example.org/m1",
            "type": "http://example.org/Hindrance", "of": "http://example.org/o1",
            str(PROV.generatedAtTime): {
                "@value": "2021-01-06T18:05:35.713Z", "@type": "http://www.w3.org/2001/XMLSchema#dateTime"
            },
        }  # fmt: skip
        assert ldes.ask("POST", "hindrances", json.dumps(body), kind="application/ld+json").status == 201
        assert same(stored(ldes)[0], read(member(1).encode(), "text/turtle"))
        body["@context"] = "http://127.0.0.1:9/never-fetched"
        refused(ldes, json.dumps(body), 400, "never fetched", kind="application/ld+json")
        body["@context"] = {"x": {"@id": "http://e.org/x", "@context": "http://127.0.0.1:9/scoped"}}
        refused(ldes, json.dumps(body), 400, "never fetched", kind="application/ld+json")
        body["@context"] = {"@import": "http://127.0.0.1:9/imported"}
        refused(ldes, json.dumps(body), 400, "never fetched", kind="application/ld+json")
    finally:
        ldes.close()


# ---------------------------------------------------------------- hostile bodies


def nested_json(depth: int) -> str:
    return '{"http://e.org/p":' * depth + "1" + "}" * depth


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/ld+json", nested_json(65), 413),
        ("application/ld+json", nested_json(1000), 413),
        ("application/ld+json", nested_json(5000), 400),
        ("application/ld+json", '{"@id": "http://e.org/a"', 400),
        ("application/ld+json", "[]", 400),
        ("application/ld+json", "17", 400),
        ("text/turtle", "<http://e.org/a> <http://e.org/b> " + "<<( <http://e.org/a> <http://e.org/b> " * 30_000, 400),
        ("text/turtle", "<http://e.org/a> <http://e.org/b> <<( <http://e.org/a> <http://e.org/b> 1 )>> .", 400),
        ("text/turtle", "<http://e.org/a> <http://e.org/b> " + "[ <http://e.org/c> " * 200_000, 400),
        ("text/turtle", "<http://e.org/a> <http://e.org/b> " + "1, " * 200_001 + "2 .", 413),
        (
            "application/rdf+xml",
            '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><rdf:RDF '
            'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">&b;</rdf:RDF>',
            400,
        ),
        (
            "application/rdf+xml",
            '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://e.org/">'
            + "<A><b>" * 300 + "</b></A>" * 300 + "</rdf:RDF>",
            413,
        ),
        ("application/rdf+xml", "<rdf:RDF", 400),
        ("application/n-triples", "<http://e.org/a> <http://e.org/b> \"unclosed .\n", 400),
        ("text/turtle", "\x00\x01\x02", 400),
    ],
)  # fmt: skip
def test_hostile_bodies_are_refused_quickly(paged: Ldes, kind: str, body: str, status: int) -> None:
    started = time.process_time()
    refused(paged, body, status, kind=kind)
    assert time.process_time() - started < 10


def test_bytes_that_are_no_utf8_are_refused(paged: Ldes) -> None:
    refused(paged, member(1).encode() + b"ex:m1 ex:p '\xff' .", 400)
    refused(paged, member(1).encode("utf-16"), 400)


def test_byte_order_mark_is_skipped(paged: Ldes) -> None:
    assert paged.ask("POST", "hindrances", b"\xef\xbb\xbf" + member(1).encode()).status == 201


@pytest.mark.parametrize(
    "iri",
    [
        "<http://e.org/a\\u003E <http://e.org/b> <http://e.org/c> . <http://e.org/d>",
        "<http://e.org/a b>",
        "<http://e.org/a\nb>",
        '<http://e.org/"a>',
        "<http://e.org/{a}>",
        "<http://e.org/\\u0000>",
    ],
)
def test_iris_that_would_add_triples_to_a_page_are_refused(paged: Ldes, iri: str) -> None:
    """The library lets them through in its lenient mode, and writes them as they are."""
    refused(paged, member(1, more=f"ex:see {iri}"), 400)
    name = json.dumps(iri[1:-1].encode().decode("unicode_escape"))
    body = f'{{"@id": {name}, "http://e.org/p": {{"@id": {name}}}}}'
    refused(paged, body, 400, kind="application/ld+json")


def test_iris_with_a_percent_sign_alone_are_given_back_wherever_they_came_to(ldes: Ldes) -> None:
    """Real data has them; they are no reason to lose a page, of whatever view."""
    odd = "http://example.org/100%"
    ldes.create(
        ("pages", PAGED, 10),
        ("kinds", "( [ a tree:ReferenceFragmentation ; tree:fragmentationPath dct:isVersionOf ] )", 10),
        ("odd", f"( [ a tree:ReferenceFragmentation ; tree:fragmentationPath <{odd}> ] )", 10),
        stream=STREAM.replace("prov:generatedAtTime", f"<{odd}time>"),
    )
    body = f'<{odd}m> a <{odd}c> ; dct:isVersionOf <{odd}o> ; <{odd}time> "2021-01-06T18:05:35Z"^^xsd:dateTime ; <{odd}> <{odd}x> .'
    assert ldes.ingest(PREFIXES + body) == [201]
    ldes.settle()
    for path in (
        "hindrances",
        "hindrances/pages",
        "hindrances/kinds",
        "hindrances/odd",
        "admin/api/v1/eventstreams/hindrances",
    ):
        for kind in ("text/turtle", "application/n-quads", "application/ld+json", "application/rdf+xml"):
            answer = ldes.get(path, kind)
            assert answer.status == 200, (path, kind, answer.text)
            if path in ("hindrances/kinds", "hindrances/odd") and kind == "application/n-quads":
                assert f"<{odd}" in answer.text
    states = STREAM.replace("ldes:timestampPath", "ldes:createVersions true ; ldes:timestampPath").replace(
        "hindrances", "states"
    )
    assert ldes.admin("POST", "eventstreams", states).status == 201
    assert ldes.ask("POST", "states", PREFIXES + f"<{odd}s> a ex:Hindrance .").status == 201


def test_literals_with_every_character_survive_a_page(paged: Ldes) -> None:
    text = "".join(map(chr, range(1, 0x300))) + "\u2028\u2029\ufffd\U0001f600 \\u003E <a> <b> <c> ."
    graph = rdflib.Graph()
    graph.parse(data=member(1), format="turtle")
    graph.add((EX.m1, EX.says, rdflib.Literal(text)))
    assert paged.ask("POST", "hindrances", graph.serialize(format="nt", encoding="utf-8"),
                     kind="application/n-triples").status == 201  # fmt: skip
    paged.settle()
    for kind in ("text/turtle", "application/n-quads", "application/ld+json"):
        page = paged.get("hindrances/by-page?pageNumber=1", kind).graph
        assert [str(o) for o in page.objects(EX.m1, EX.says)] == [text], kind


def test_unknown_datatypes_and_malformed_values_are_kept_as_they_came(paged: Ldes) -> None:
    more = (
        'ex:a "x"^^rdf:langString ; ex:b "seven"^^xsd:integer ; ex:c "x"^^ex:own ; ex:d "tag"@nl-BE ; '
        'ex:where [ geo:asWKT "POINT (somewhere)"^^geo:wktLiteral ]'
    )
    assert paged.ingest(member(1, more=more)) == [201]
    paged.settle()
    page = paged.get("hindrances/by-page?pageNumber=1", "application/n-quads").text
    for kept in ('"x"^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#langString>', '"seven"^^<http://www.w3.org/2001/'
                 'XMLSchema#integer>', '"x"^^<http://example.org/own>', '"POINT (somewhere)"^^'):  # fmt: skip
        assert kept in page
    # Languages are compared without case; the library writes them in lower case.
    assert '"tag"@nl-be' in page.replace("nl-BE", "nl-be")


def test_huge_member_is_refused_by_name_of_the_limit(paged: Ldes) -> None:
    text = gzip.decompress(gzip.compress(b"x" * (5 << 20))).decode()
    refused(paged, member(1, more=f'ex:says "{text}"'), 413, "4,194,304")
    blanks = " ".join(f"[ ex:lane {n} ]," for n in range(10_001)) + " 1"
    refused(paged, member(1, more=f"ex:where {blanks}"), 413, "10,000")


def test_clique_of_blank_nodes_costs_no_more_than_its_triples(paged: Ldes) -> None:
    pairs = "".join(f"_:n{a} ex:p _:n{b} .\n" for a in range(60) for b in range(60))
    started = time.process_time()
    assert paged.ingest(member(1, more="ex:where _:n0") + pairs) == [201]
    assert time.process_time() - started < 2


# ---------------------------------------------------------------- any input

BODIES = {
    "text/turtle": member(1, wkt="POINT (5 50)", more='ex:says "a \\"b\\" \\n"@nl, 1.5, true, <#x> ; ex:list ( 1 [] )'),
    "application/n-quads": '<http://e.org/m> <http://purl.org/dc/terms/isVersionOf> <http://e.org/o> .\n<http://e.org/m> '
    '<http://www.w3.org/ns/prov#generatedAtTime> "2021-01-06T18:05:35Z"^^<http://www.w3.org/2001/XMLSchema#dateTime> .\n'
    '_:b <http://e.org/p> "x\\u00e9\\n"@en-GB .\n',
    "application/ld+json": json.dumps(
        {
            "@context": {"ex": "http://example.org/"}, "@id": "ex:m1", "ex:list": {"@list": [1, 2.5, None]},
            str(DCT.isVersionOf): {"@id": "ex:o"}, "ex:p": [{"@value": "x", "@language": "en"}, {"ex:q": True}],
            str(PROV.generatedAtTime): {"@value": "2021-01-06T18:05:35Z", "@type": "http://www.w3.org/2001/XMLSchema#dateTime"},
        }
    ),
    "application/rdf+xml": '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:d="http://purl.org/dc/terms/" '
    'xmlns:p="http://www.w3.org/ns/prov#"><rdf:Description rdf:about="http://e.org/m"><d:isVersionOf rdf:resource='
    '"http://e.org/o"/><p:generatedAtTime rdf:datatype="http://www.w3.org/2001/XMLSchema#dateTime">2021-01-06T18:05:35Z'
    '</p:generatedAtTime></rdf:Description></rdf:RDF>',
}  # fmt: skip


@pytest.fixture(scope="module")
def any_input(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ldes]:
    made = Ldes(tmp_path_factory.mktemp("any"))
    made.create(("by-page", PAGED, 1000))
    yield made
    made.close()


@pytest.mark.parametrize("kind", BODIES)
@given(data=st.data())
def test_any_change_of_a_body_is_taken_or_refused_and_pages_stay_readable(
    any_input: Ldes, kind: str, data: st.DataObject
) -> None:
    body = bytearray(BODIES[kind].encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        piece = data.draw(
            st.one_of(st.binary(max_size=3), st.sampled_from([b"<", b">", b'"', b"\\u003E", b"\n", b"[", b"."]))
        )
        body[at : at + data.draw(st.integers(0, 6))] = piece
    answer = any_input.ask("POST", "hindrances", bytes(body), kind=kind)
    assert answer.status in (200, 201, 400, 413), answer.text
    if answer.status == 201:
        stream = any_input.services.streams.streams(1)["hindrances"]
        newest = any_input.services.streams.state(stream).sequence
        (found,) = any_input.services.streams.members(stream, newest - 1)
        # A parser that is not lenient but for malformed literals reads it as one triple a line.
        graph = rdflib.Graph().parse(data=found.text, format="nt")
        assert 0 < len(graph) <= found.text.count(b"\n")


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)


@given(texts=st.lists(st.tuples(TEXTS, st.sampled_from(["", "en", "nl-be"])), max_size=5, unique=True))
def test_page_of_joined_bytes_says_what_was_posted(any_input: Ldes, texts: list[tuple[str, str]]) -> None:
    number = time.monotonic_ns()
    graph = rdflib.Graph().parse(data=member(number), format="turtle")
    for text, language in texts:
        graph.add((EX[f"m{number}"], EX.says, rdflib.Literal(text, lang=language or None)))
    body = graph.serialize(format="nt", encoding="utf-8")
    assert any_input.ask("POST", "hindrances", body, kind="application/n-triples").status == 201
    stream = any_input.services.streams.streams(1)["hindrances"]
    stored_member = any_input.services.streams.member(stream, f"http://example.org/m{number}")
    assert stored_member is not None
    for kind in ("application/n-triples", "text/turtle", "application/trig", "application/n-quads"):
        assert same(read(stored_member.text, kind), graph)
