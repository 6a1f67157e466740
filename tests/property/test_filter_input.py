"""Filters and names of properties, whatever is written: read, or refused with a domain error, in bounded time."""

# ruff: noqa: E501 (strategies and documents read better unbroken)

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st
from tests.fuzz import features, wfs
from tests.property.hostile import changed, is_read_or_refused, texts

from thalweg.domain.errors import ThalwegError
from thalweg.domain.filters import MAX_DEPTH, Property
from thalweg.encode.crs import parse_crs
from thalweg.encode.filters.cql2_json import parse_cql2_json
from thalweg.encode.filters.cql2_text import parse_cql2_text
from thalweg.encode.filters.ecql import parse_ecql
from thalweg.encode.filters.fes import parse_fes
from thalweg.encode.filters.lexer import MAX_TOKENS, Token, tokens
from thalweg.encode.filters.references import MAX_LENGTH, parse_reference
from thalweg.encode.xml_input import parse_fragment

CRS84 = parse_crs("http://www.opengis.net/def/crs/OGC/1.3/CRS84", "filter-crs")
NAMESPACES = {"fes": "http://www.opengis.net/fes/2.0", "ogc": "http://www.opengis.net/ogc",
              "gml": "http://www.opengis.net/gml/3.2", "tw": "http://x.org/default", "wfs": "http://www.opengis.net/wfs/2.0"}  # fmt: skip
WORDS = tuple(dict.fromkeys((*wfs.DOOR.words, *features.DOOR.words)))
OPERATORS = ("AND", "OR", "NOT", "LIKE", "ILIKE", "IN", "BETWEEN", "IS NULL", "=", "<>", "(", ")", ",", "'", '"', "+", "-", "*", "/", "^", "%",
             "DURING", "BEFORE", "P1Y", "2014-01-01T00:00:00Z", "POINT(1 2)", "POINT EMPTY", "GEOMETRYCOLLECTION(", "1e400", "'a''b'", '"a"', "@id",
             "TRUE", "INCLUDE", "EXCLUDE", "a/b", "strLength(", "BBOX(", "T_DURING(", "INTERVAL(", "EXISTS", "RELATE(", "div", "SRID=4326;")  # fmt: skip
TEXTS = (*wfs.TEXTS, *features.TEXTS)
ANY_TEXT = st.one_of(
    texts((*WORDS, *OPERATORS)),
    changed(TEXTS, (*OPERATORS, *WORDS), "tokens").map(lambda raw: raw.decode("utf-8", "replace")),
    st.lists(st.sampled_from(OPERATORS), max_size=12).map(" ".join),
)  # fmt: skip


@given(ANY_TEXT)
@example("a = " + "9" * 400)
@example("a LIKE '" + "%" * 3000 + "'")
def test_texts_of_filters_are_read_or_refused(text: str) -> None:
    for parse in (parse_ecql, lambda given: parse_cql2_text(given, CRS84)):
        is_read_or_refused(parse, text)


@given(ANY_TEXT)
def test_tokens_are_the_text_or_it_is_refused(text: str) -> None:
    """Each begins where it was written, in order; the last is the end."""
    found = is_read_or_refused(tokens, text, "filter")
    if found[0] == "given":
        places = [lexeme.at for lexeme in found[1]]
        assert places == sorted(places)
        assert found[1][-1].token is Token.END
        assert len(found[1]) <= MAX_TOKENS + 1
        for lexeme in found[1]:
            if lexeme.token in (Token.WORD, Token.INSTANT):
                assert text.startswith(str(lexeme.value), lexeme.at)


DOCUMENTS = tuple(json.dumps(condition) for condition in features.CONDITIONS)
JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.sampled_from(WORDS)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(("op", "args", "property", "function", "name", "date", "timestamp", "interval", "bbox", "type", "coordinates")),
                        inner, max_size=3),
    ),
    max_leaves=12,
)  # fmt: skip


@given(
    st.one_of(
        changed(DOCUMENTS, WORDS, "json"),
        JSON_VALUES.map(lambda value: json.dumps(value).encode()),
        st.binary(max_size=60),
    )
)
def test_json_of_filters_is_read_or_refused(document: bytes) -> None:
    is_read_or_refused(parse_cql2_json, document, CRS84)


@given(st.integers(1, 2 * MAX_DEPTH))
def test_conditions_are_nested_as_deep_as_allowed_and_no_deeper(depth: int) -> None:
    """The same bound in every language; a step of grace for how a language counts its outermost level."""
    condition = '{"op":"not","args":[' * depth + '{"op":"isNull","args":[{"property":"a"}]}' + "]}" * depth
    for read in (lambda: parse_cql2_json(condition, CRS84), lambda: parse_ecql("NOT " * depth + "a IS NULL"),
                 lambda: parse_cql2_text("NOT (" * depth + "a IS NULL" + ")" * depth, CRS84)):  # fmt: skip
        found = is_read_or_refused(read)
        if depth > MAX_DEPTH:
            assert found[0] == "refused"
        elif depth < MAX_DEPTH // 2:
            assert found[0] == "given"


FILTERS = (
    *(f"<fes:Filter>{condition}</fes:Filter>" for condition in wfs.CONDITIONS),
    "<ogc:Filter><ogc:BBOX><ogc:PropertyName>place</ogc:PropertyName><gml:Box srsName='EPSG:4326'><gml:coordinates>8,47 9,48"
    "</gml:coordinates></gml:Box></ogc:BBOX></ogc:Filter>",
    "<ogc:Filter><ogc:FeatureId fid='a.1'/><ogc:GmlObjectId gml:id='a.2'/></ogc:Filter>",
    "<fes:Filter><fes:During><fes:ValueReference>seen</fes:ValueReference><gml:TimePeriod gml:id='t'><gml:beginPosition>2014-01-01"
    "</gml:beginPosition><gml:endPosition>2015-01-01</gml:endPosition></gml:TimePeriod></fes:During></fes:Filter>",
)


def _whole(text: str) -> str:
    spaces = " ".join(f'xmlns:{prefix}="{uri}"' for prefix, uri in NAMESPACES.items())
    return text.replace(">", f" {spaces}>", 1)


@given(changed(tuple(map(_whole, FILTERS)), WORDS, "xml"))
def test_documents_of_filters_are_read_or_refused(document: bytes) -> None:
    try:
        text = document.decode()
        element = parse_fragment(text, NAMESPACES)
    except (UnicodeDecodeError, ThalwegError):
        return
    is_read_or_refused(parse_fes, element)


@given(
    st.one_of(
        texts(WORDS),
        st.lists(
            st.sampled_from(("a", "tw:", "/", "@", "gml:id", "[1]", "text()", "..", "*", "(", ")")), max_size=6
        ).map("".join),
    )
)
def test_references_are_names_or_refused(text: str) -> None:
    found = is_read_or_refused(parse_reference, text, NAMESPACES, "valueReference")
    if found[0] == "given":
        assert isinstance(found[1], Property)
        assert len(text.strip()) <= MAX_LENGTH
        assert not any(sign in found[1].name for sign in "[]()@/ \t\n")
