"""Members read by template are those that are read the plain way, whatever the bodies have in common."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.domain.errors import ThalwegError
from thalweg.domain.streams import EventStream, Member
from thalweg.encode.rdf import members as plain
from thalweg.encode.rdf.lines import read_lines
from thalweg.encode.rdf.syntax import syntax_of
from thalweg.encode.rdf.templates import LEARN_AT_ONCE, LEARN_HITS, Templates, read_members

PROV = "http://www.w3.org/ns/prov#generatedAtTime"
VERSION_OF = "http://purl.org/dc/terms/isVersionOf"
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
XSD = "http://www.w3.org/2001/XMLSchema#"
STREAM = EventStream(1, "", 1, "s", PROV, VERSION_OF)
SKOLEM = EventStream(1, "", 1, "s", PROV, VERSION_OF, skolem_domain="http://skolem.example/")

TURTLE = """@prefix dct: <{prefix}> .
@prefix prov: <http://www.w3.org/ns/prov#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
<{event}> <{property}> <{iri}> ; dct:title "{title}"@nl-BE , "{title}"^^<{datatype}> .
<{iri}> a <{class_}> ; dct:isVersionOf <{object}> ;
  prov:generatedAtTime "{time}"^^xsd:dateTime ;
  dct:creator [ dct:isVersionOf <{event}> ; dct:title "{text}" ; prov:generatedAtTime "{time}" ] ;
  dct:spatial [ dct:extent "{text}"^^<{datatype}> ; dct:hasPart [ dct:title '''{title}''' ] ] ;
  dct:extent 4.50 , true , {number} .
"""
PLAIN_TURTLE = TURTLE.replace("'''{title}'''", '"{title}"')
TRIPLES = """<{event}> <{property}> _:{label} .
<{iri}> <{rdf_type}> <{class_}> .
<{iri}> <{version_of}> <{object}> .
<{second}> <{prov}> "{time}"^^<{xsd}dateTime> .
_:{label} <{property}> "{text}"@en .
_:{other} <{property}> _:{label} .
_:{other} <{version_of}> "{title}"^^<{datatype}> .
"""
GRAPHS = TRIPLES.replace(" .\n", " <{graph}> .\n")
FORMS = [
    (TURTLE, "text/turtle"),
    (PLAIN_TURTLE, "text/turtle"),
    (PLAIN_TURTLE, "application/trig"),
    (PLAIN_TURTLE.replace("@prefix dct", "@base <http://base.example/> .\n@prefix dct"), "text/turtle"),
    (PLAIN_TURTLE.replace("dct:extent 4.50", "# <a> \"b\"\n  dct:extent 4.50"), "text/turtle"),
    (PLAIN_TURTLE.replace("dct:extent 4.50", "<https://w3id.org/tree#member> <{iri}> ; dct:extent 4"), "text/turtle"),
    (TRIPLES, "application/n-triples"),
    (TRIPLES, "application/n-quads"),
    (TRIPLES, "text/turtle"),
    (GRAPHS, "application/n-quads"),
]  # fmt: skip

# Mostly what is as it should be, and what a cut at slots could take for something else.
IRIS = st.sampled_from(
    [f"http://example.org/m/{n}" for n in range(6)]
    + [
        "http://example.org/m/1/zone", "http://example.org/m", "urn:x", "relative", "", "http://a/b/../c/./d", "x:",
        "http://ex.org/a b", "http://ex.org/{a}", "http://ex.org/\\u0041", "http://ex.org/é", "_:b", "http://a#'\"",
        "http://ex.org/%zz", f"{XSD}string", VERSION_OF, PROV, "https://w3id.org/tree#member",
    ]
)  # fmt: skip
PROPERTIES = st.sampled_from(
    ["http://ex.org/p", "http://ex.org/p", RDF_TYPE, VERSION_OF, PROV, "https://w3id.org/tree#member", "p", "bad p"]
)
DATATYPES = st.sampled_from(
    [f"{XSD}string", f"{XSD}integer", f"{XSD}dateTime", "http://ex.org/type",
     "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString", "type"]
)  # fmt: skip
TIMES = st.sampled_from(
    ["2021-01-06T18:05:35.713Z", "2021-01-06T18:05:35+02:00", "2021-01-06", "2021-02-30T00:00:00Z", "", "today",
     "0000-01-01T00:00:00Z", "2021-01-06T24:00:00"]
)  # fmt: skip
TEXTS = st.one_of(
    st.sampled_from(
        ["", "a", "Straat 1", "<http://crs> POINT (1 2)", "a < b", "a > b", "it's", "#no", "_:b1 x", 'a\\"b', "\\u00e9",
         '"', '""', "a\tb", "a\nb", "\x7f", "\ufffe", "\uffff", "é", "\U0001f600", "\u2028", "[x]", "http://example.org/m/1"]
    ),
    st.text(max_size=8),
)  # fmt: skip
LABELS = st.sampled_from(["a", "b1", "b2", "B49c1dc268446ec1952d55d136a72b37b", "a.b", "é", "-"])


UNUSUAL = {
    "iri": IRIS, "second": IRIS, "object": IRIS, "event": IRIS, "property": PROPERTIES, "class_": IRIS,
    "datatype": DATATYPES, "prefix": IRIS, "graph": IRIS, "time": TIMES, "text": TEXTS, "title": TEXTS,
    "number": st.sampled_from(["1.0e5", "-1", "'x'", "ex:y"]), "label": LABELS, "other": LABELS,
}  # fmt: skip


@st.composite
def fields(draw: st.DrawFn) -> dict[str, str]:
    """What is put into a form: as usual but for two fields at most, so that most bodies fit the same template."""
    iri = f"http://example.org/m/{draw(st.integers(0, 9))}"
    values = {
        "iri": iri, "object": "http://example.org/o/1", "event": "http://example.org/e/1",
        "property": "http://ex.org/p", "class_": "http://ex.org/Class", "datatype": "http://ex.org/type",
        "prefix": "http://purl.org/dc/terms/", "graph": "http://ex.org/g", "time": "2021-01-06T18:05:35.713Z",
        "text": "a text", "title": "a title", "number": "7", "label": "a", "other": "b1", "rdf_type": RDF_TYPE,
        "version_of": VERSION_OF, "prov": PROV, "xsd": XSD,
    }  # fmt: skip
    for name in draw(st.lists(st.sampled_from(list(UNUSUAL)), max_size=2)):
        values[name] = draw(UNUSUAL[name])
    return {"second": values["iri"]} | values


def outcome(read: Callable[[], list[Member]]) -> list[Member] | str:
    """Members, or the error in words."""
    try:
        return read()
    except ThalwegError as error:
        return f"{type(error).__name__}: {error.parameter}: {error.message}"


@given(
    st.sampled_from(FORMS),
    st.lists(fields(), min_size=4, max_size=12),
    st.sampled_from([STREAM, SKOLEM]),
)
@settings(max_examples=400, deadline=None)
def test_templates_give_the_members_that_the_plain_way_gives(
    form: tuple[str, str], bodies: list[dict[str, str]], stream: EventStream
) -> None:
    text, media_type = form
    templates = Templates()
    for values in bodies:
        body = text.format(**values).encode("utf-8", "surrogatepass")
        fast = outcome(lambda body=body: read_members(stream, body, media_type, templates=templates))  # type: ignore[misc]
        slow = outcome(lambda body=body: plain.read_members(stream, body, media_type))  # type: ignore[misc]
        assert fast == slow or _same_but_labels(fast, slow)


def _same_but_labels(one: list[Member] | str, other: list[Member] | str) -> bool:
    """Messages may show labels that were made by chance."""
    return isinstance(one, str) and isinstance(other, str) and one.split("_:")[0] == other.split("_:")[0]


@given(st.lists(IRIS, min_size=6, max_size=12), st.sampled_from([PLAIN_TURTLE, TRIPLES]))
@settings(max_examples=100, deadline=None)
def test_bodies_that_differ_in_the_members_iri_alone(iris: list[str], text: str) -> None:
    values = {
        "object": "http://example.org/m", "event": "http://example.org/m/1", "property": "http://ex.org/p",
        "class_": "http://ex.org/Class", "datatype": "http://ex.org/type", "prefix": "http://purl.org/dc/terms/",
        "time": "2021-01-06T18:05:35.713Z", "text": "http://example.org/m/2 'x' é", "title": "t", "number": "7",
        "label": "a", "other": "b", "rdf_type": RDF_TYPE, "version_of": VERSION_OF, "prov": PROV, "xsd": XSD,
    }  # fmt: skip
    templates = Templates()
    usual = [f"http://example.org/member/{n}" for n in range(6)]
    for iri in [*usual, *iris, *usual]:
        body = text.format(iri=iri, second=iri, **values).encode()
        fast = outcome(lambda body=body: read_members(STREAM, body, "text/turtle", templates=templates))  # type: ignore[misc]
        assert fast == outcome(lambda body=body: plain.read_members(STREAM, body, "text/turtle"))  # type: ignore[misc]


def test_templates_and_twins_are_used() -> None:
    """Otherwise the tests above compare the plain way with itself."""
    values = {
        "object": "http://example.org/o", "event": "http://example.org/e", "property": "http://ex.org/p",
        "class_": "http://ex.org/Class", "datatype": "http://ex.org/type", "prefix": "http://purl.org/dc/terms/",
        "text": "text", "title": "t", "number": "7", "label": "a", "other": "b", "rdf_type": RDF_TYPE,
        "version_of": VERSION_OF, "prov": PROV, "xsd": XSD,
    }  # fmt: skip
    for text, media_type in ((PLAIN_TURTLE, "text/turtle"), (TRIPLES, "application/n-quads")):
        for same in (True, False):
            templates = Templates()
            read: list[Member | None] = []
            for n in range(8):
                iri = f"http://example.org/m/{n}"
                time = "2021-01-06T18:05:35Z" if same else f"2021-01-06T18:05:3{n}Z"
                body = text.format(iri=iri, second=iri, time=time, **values).encode()
                read_members(STREAM, body, media_type, templates=templates)
                read.append(templates.read(STREAM, body, syntax_of(media_type)))
            assert [member is not None for member in read[2:]] == [True] * 6
            assert bool(templates._twins) is same


STEADY = {
    "object": "http://example.org/o", "event": "http://example.org/e", "property": "http://ex.org/p",
    "class_": "http://ex.org/Class", "datatype": "http://ex.org/type", "prefix": "http://purl.org/dc/terms/",
    "text": "text", "title": "t", "number": "7", "label": "a", "other": "b", "rdf_type": RDF_TYPE,
    "version_of": VERSION_OF, "prov": PROV, "xsd": XSD, "time": "2021-01-06T18:05:35Z",
}  # fmt: skip
STRING_TIMES = PLAIN_TURTLE.replace('"{time}"^^xsd:dateTime', '"{time}"')


@pytest.mark.parametrize(
    ("text", "usual", "odd"),
    [
        # An IRI and a text in the same place.
        (PLAIN_TURTLE, {"number": "<http://ex.org/x>"}, {"number": '"http://ex.org/x"'}),
        (PLAIN_TURTLE, {"number": "7 . <http://ex.org/x> a 8"}, {"number": '7 . "http://ex.org/x" a 8'}),
        # Bytes that are no UTF-8.
        (PLAIN_TURTLE, {}, {"text": "\udcff"}),
        (TRIPLES, {}, {"title": "\udcff"}),
        # A text for a timestamp has to be an instant; an xsd:dateTime need not.
        (STRING_TIMES, {}, {"time": "today"}),
        (PLAIN_TURTLE, {}, {"time": "today"}),
        # The member's IRI is part of its object's, of a property's, of a text.
        (PLAIN_TURTLE, {"object": "{iri}/o"}, {}),
        (TRIPLES, {"property": "{iri}"}, {}),
        (TRIPLES, {"text": "see {iri} and _:b0 here"}, {"text": "see {iri} and _:b1 here"}),
        # Labels that may not be, and two that become one.
        (TRIPLES, {}, {"label": "-"}),
        (TRIPLES, {}, {"label": "b"}),
        # A long text, a comment, a text in other quotes.
        (PLAIN_TURTLE, {"number": '"""a "b" c"""'}, {"number": '"""a "c" c"""'}),
        (PLAIN_TURTLE, {"number": "'a \"b\" c'"}, {"number": "'a \"c\" c'"}),
        (PLAIN_TURTLE, {"number": '7 # "b"\n'}, {"number": '7 # "c" <\n'}),
    ],
)
def test_one_odd_body_among_many_that_are_alike(text: str, usual: dict[str, str], odd: dict[str, str]) -> None:
    templates = Templates()
    for n in range(12):
        iri = f"http://example.org/m/{n}"
        values = STEADY | usual | (odd if n in (7, 10) else {})
        values = {name: value.replace("{iri}", iri) for name, value in values.items()}
        body = text.format(iri=iri, second=iri, **values).encode("utf-8", "surrogateescape")
        fast = outcome(lambda body=body: read_members(STREAM, body, "text/turtle", templates=templates))  # type: ignore[misc]
        slow = outcome(lambda body=body: plain.read_members(STREAM, body, "text/turtle"))  # type: ignore[misc]
        assert fast == slow or _same_but_labels(fast, slow)


# ---------------------------------------------------------------- lines


def lines_of(values: dict[str, str]) -> bytes:
    return TRIPLES.format(
        **(STEADY | {"iri": "http://example.org/m/1", "second": "http://example.org/m/1"} | values)
    ).encode()


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"text": "é _:a . and <x> _:b1 ."},
        {"property": RDF_TYPE},
        {"time": "today"},
        {"datatype": "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"},
        {"label": "7", "other": "a7"},
        {"label": "a", "other": "a"},
    ],
)
@pytest.mark.parametrize("stream", [STREAM, SKOLEM])
def test_triples_a_line_are_read_as_they_stand(values: dict[str, str], stream: EventStream) -> None:
    body = lines_of(values).replace(b'"@en', b'"@en-GB')
    found = read_lines(stream, body)
    assert found is not None
    assert [found] == plain.read_members(stream, body, "application/n-quads")
    assert found == read_lines(stream, b"\n\n" + body.rstrip(b"\n")) == read_lines(stream, body + b"\n\n")


@pytest.mark.parametrize(
    "values",
    [
        {"text": '\\"'}, {"text": "\x7f"}, {"text": "\uffff"}, {"datatype": XSD + "string"}, {"label": "a.b"},
        {"property": "https://w3id.org/tree#member"}, {"property": "relative"}, {"class_": "http://ex.org/{a}"},
        {"second": "http://example.org/m/2"}, {"property": f"http://ex.org/p> <{VERSION_OF}> <x:y> . <x:y> <x:z"},
    ],
)  # fmt: skip
def test_what_is_not_as_it_would_be_written_is_left_to_the_plain_way(values: dict[str, str]) -> None:
    assert read_lines(STREAM, lines_of(values)) is None


def test_the_member_among_several_objects_with_versions_is_the_one_of_the_class() -> None:
    body = lines_of({}) + f"<http://example.org/z> <{VERSION_OF}> <http://example.org/y> .\n".encode()
    assert read_lines(STREAM, body) is None
    found = read_lines(replace(STREAM, shape_class="http://ex.org/Class"), body)
    assert found is not None
    assert found.iri == "http://example.org/m/1"
    assert read_lines(replace(STREAM, shape_class="http://ex.org/Cla"), body) is None


def test_actual_members_are_read_as_they_stand(gipod_dir: Path) -> None:
    blocks = [b for b in re.split(rb"(?m)^# member[^\n]*$", (gipod_dir / "members.nq").read_bytes()) if b.strip()]
    assert len(blocks) == 150
    templates = Templates()
    for block in blocks:
        found = read_lines(STREAM, block)
        assert found is not None
        assert [found] == plain.read_members(STREAM, block, "application/n-quads")
        assert [found] == read_members(STREAM, block, "application/n-quads", templates=templates)
    # All are different, so that nothing is gained by learning them.
    assert len(templates._known) <= LEARN_AT_ONCE


def test_learning_templates_has_to_be_earned() -> None:
    templates = Templates()
    bodies = [
        PLAIN_TURTLE.format(
            **(STEADY | {"iri": "http://ex.org/m", "second": "http://ex.org/m", "number": str(n)})
        ).encode()
        for n in range(3 * LEARN_AT_ONCE)
    ]
    for body in bodies * 4:
        templates.read(STREAM, body, syntax_of("text/turtle"))
    learned = len(templates._known)
    assert LEARN_AT_ONCE // 2 <= learned <= LEARN_AT_ONCE + 2 * len(bodies) // LEARN_HITS
    # Those that were learned earn others.
    known = [body for body in bodies if templates.read(STREAM, body, syntax_of("text/turtle")) is not None]
    for body in known * (4 * LEARN_HITS):
        templates.read(STREAM, body, syntax_of("text/turtle"))
    for body in bodies:
        templates.read(STREAM, body, syntax_of("text/turtle"))
    assert len(templates._known) > learned
