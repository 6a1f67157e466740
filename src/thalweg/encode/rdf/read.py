"""Bodies to quads: every RDF document from outside is read here.

The library is lenient with literals, as producers send ``"text"^^rdf:langString`` without a language, and has no
bounds of its own. So form and depth are bounded before it sees a body (a triple term nested 30,000 deep, 600 kB, ends
the process; so does JSON-LD nested 4,000 deep), the number of quads while it reads, and what it gives is checked
afterwards: a lenient IRI may hold ``>`` or a line break, which in a page of joined members would add triples to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson
from pyoxigraph import Quad, RdfFormat, parse, serialize

from thalweg.domain.errors import InvalidRequest, TooLarge
from thalweg.encode.rdf.syntax import JSON_LD, N_QUADS, N_TRIPLES, RDF_XML, TRIG, TURTLE, Syntax
from thalweg.encode.xml_input import parse_document

MAX_QUADS: Final = 200_000
"""Most quads of a body: a quad takes about 0.4 kB while it is looked at."""
MAX_JSON_DEPTH: Final = 64
MAX_TRIPLE_TERMS: Final = 32
"""Occurrences of ``<<`` outside of texts that are let through to the parser, which refuses them by name."""
MAX_CONTEXT_BYTES: Final = 1 << 20
"""Longest JSON-LD text after contexts have been put in the place of their addresses, beside the body itself."""

_PARAMETER: Final = "request"
_BOM: Final = b"\xef\xbb\xbf"
# An IRI as N-Triples writes it, with a scheme; the characters are those RFC 3987 leaves after RDF's exclusions.
IRI: Final = rb"<[A-Za-z][A-Za-z0-9+.-]*+:[!#-;=?-\[\]_a-z~\x80-\xff]*+>"
_NODE: Final = rb"(?:" + IRI + rb"|_:[0-9A-Za-z]++)"
_LITERAL: Final = (
    rb'"(?:[^"\\\n]++|\\[^\n])*+"(?:@[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*+|\^\^' + IRI + rb")?+"
)  # fmt: skip
_LINE: Final = _NODE + rb" " + IRI + rb" (?:" + _NODE + rb"|" + _LITERAL + rb") \."
_LINES: Final = re.compile(rb"(?>" + _LINE + rb"\n)*+")
_ONE_LINE: Final = re.compile(_LINE)
# Texts, IRIs and comments of the Turtle family, where "<<" means nothing. Those of three quotes are looked for without
# possessive groups: Python takes no notice of a look ahead in one before 3.11.5.
_OPAQUE: Final = re.compile(
    rb'"""(?:[^"\\]|\\.|"(?!""))*"""|\'\'\'(?:[^\'\\]|\\.|\'(?!\'\'))*\'\'\'|"(?:[^"\\\n]|\\.)*+"|'
    rb"'(?:[^'\\\n]|\\.)*+'|<[^<>\s]*+>|\#[^\n]*+",
    re.DOTALL,
)

Contexts = Callable[[str], Any]
"""Gives the value of ``@context`` for an address; None if it is not among those known."""


def no_contexts(address: str) -> None:
    """For bodies of which no context has to be known by its address."""
    return


def read_quads(
    body: bytes,
    syntax: Syntax,
    base_iri: str,
    *,
    contexts: Contexts = no_contexts,
    max_quads: int = MAX_QUADS,
    named_graphs: bool = False,
) -> list[Quad]:
    """All quads of a document, in its order, blank nodes given labels that no other document has.

    body         in UTF-8
    base_iri     what relative IRIs are resolved against
    contexts     JSON-LD contexts by address; nothing is ever fetched
    returns      quads whose IRIs and literals may be anything the library lets through: ``to_n_triples`` checks them
    raises       InvalidRequest with line and column for what is malformed, InvalidRequest for named graphs unless
                 allowed, TooLarge beyond a limit; parameter ``request``
    source       RDF 1.1 Turtle, TriG, N-Triples, N-Quads, JSON-LD 1.1, RDF 1.1 XML Syntax
    """
    body = body.removeprefix(_BOM)
    if syntax is JSON_LD:
        body = prepare_json(body, contexts)
    elif syntax is RDF_XML:
        # Bounds depth and number of elements and refuses document types; its depth costs the library quadratic time.
        parse_document(body)
    elif body.count(b"<<") > MAX_TRIPLE_TERMS:
        _bound_triple_terms(body)
    quads: list[Quad] = []
    # With a base the library takes a fifth longer, whether anything is relative to it or not.
    has_base = syntax not in _ABSOLUTE and (syntax not in _TURTLES or _RELATIVE.search(body) is not None)
    try:
        reader = parse(
            body,
            format=syntax.rdf_format,
            base_iri=base_iri if has_base else None,
            without_named_graphs=not named_graphs,
            rename_blank_nodes=True,
            lenient=True,
        )
        if len(body) <= max_quads:
            # The shortest quad has more bytes than one.
            return list(reader)
        add = quads.append
        for quad in reader:
            add(quad)
            if len(quads) > max_quads:
                raise TooLarge(f"The body has more than {max_quads:,} triples.", parameter=_PARAMETER)
    except SyntaxError as error:
        raise malformed(syntax, error) from None
    except MemoryError:
        # The library's own bound for one name or text, 16 MiB.
        raise TooLarge("One name or text of the body is too long to be read.", parameter=_PARAMETER) from None
    except (ValueError, OSError) as error:
        raise InvalidRequest(
            f"The {syntax.name} body cannot be read: {str(error)[:200]}.", parameter=_PARAMETER
        ) from None
    return quads


def rewritten(body: bytes, syntax: Syntax) -> bytes | None:
    """What ``to_n_triples`` gives of the quads of a Turtle or TriG document, without one of them becoming an object;
    None if it has none, something is wrong with it, or an IRI is relative."""
    body = body.removeprefix(_BOM)
    # The shortest quad has more bytes than one.
    if _RELATIVE.search(body) is not None or b"<<" in body or len(body) > MAX_QUADS:
        return None
    try:
        quads = parse(
            body,
            format=syntax.rdf_format,
            without_named_graphs=True,
            rename_blank_nodes=True,
            lenient=True,
        )
        text = serialize(quads, format=RdfFormat.N_TRIPLES)
    except (SyntaxError, ValueError, OSError):
        return None
    return text if text and _LINES.fullmatch(text) is not None else None


_ABSOLUTE: Final = (N_TRIPLES, N_QUADS)
_TURTLES: Final = (TURTLE, TRIG)
# An IRI without a scheme, or a "<" that begins none.
_RELATIVE: Final = re.compile(rb"<(?![A-Za-z][A-Za-z0-9+.-]*+:)")


def malformed(syntax: Syntax, error: SyntaxError) -> InvalidRequest:
    """What the library says of a document, in one sentence."""
    text = str(error.msg or error)
    if "Named graphs are not allowed" in text:
        return InvalidRequest(
            "The body has named graphs; members and descriptions belong in the default graph.", parameter=_PARAMETER
        )
    if "LoadDocumentCallback" in text:
        return InvalidRequest("The JSON-LD body imports a context, which is never fetched.", parameter=_PARAMETER)
    text = text.removeprefix("Parser error ").rstrip(".")[:300]
    return InvalidRequest(f"The body is not {syntax.name}: {text}.", parameter=_PARAMETER)


def to_n_triples(quads: list[Quad]) -> bytes:
    """The quads as N-Triples, one line each, in their order; also valid Turtle, TriG and N-Quads.

    raises  InvalidRequest for a quad that cannot be written so that every client reads it back: an IRI without scheme
            or with characters that IRIs may not have, a malformed language, RDF 1.2's triple terms and directions
    source  RDF 1.1 N-Triples section 7 (grammar), RFC 3987
    """
    try:
        text = serialize(quads, format=RdfFormat.N_TRIPLES)
    except ValueError as error:
        raise InvalidRequest(f"The body cannot be kept: {str(error)[:200]}.", parameter=_PARAMETER) from None
    if text is None or _LINES.fullmatch(text) is None:
        raise _unfit(quads)
    return text


def _unfit(quads: list[Quad]) -> InvalidRequest:
    """The first quad at fault, found one by one."""
    for quad in quads:
        line = serialize([quad], format=RdfFormat.N_TRIPLES) or b""
        if _ONE_LINE.fullmatch(line.removesuffix(b"\n")) is None:
            shown = " ".join(line.decode("utf-8", "replace").split())[:200]
            return InvalidRequest(
                f"A triple has an IRI without scheme or with a forbidden character, a malformed language tag, or a "
                f"triple term: {shown}",
                parameter=_PARAMETER,
            )
    return InvalidRequest("The body has a triple that cannot be kept.", parameter=_PARAMETER)


def _bound_triple_terms(body: bytes) -> None:
    if _OPAQUE.sub(b"", body).count(b"<<") > MAX_TRIPLE_TERMS:
        raise InvalidRequest("Triple terms (RDF 1.2) are not supported in members.", parameter=_PARAMETER)


# ---------------------------------------------------------------- JSON-LD


def prepare_json(body: bytes, contexts: Contexts) -> bytes:
    """The JSON-LD text with known contexts in the place of their addresses, depth bounded.

    raises  InvalidRequest for what is not JSON and for a context that is not known; TooLarge for depth and length
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"The body is not JSON: {str(error)[:200]}.", parameter=_PARAMETER) from None
    check_depth(document)
    if b"@context" not in body and b"\\u" not in body:
        return body
    grown = [0]
    replaced = _with_contexts(document, contexts, grown, frozenset())
    if not grown[0]:
        # As it came: numbers keep the form they were written in.
        return body
    return orjson.dumps(replaced)


def check_depth(document: Any, limit: int = MAX_JSON_DEPTH) -> None:
    """TooLarge if objects and arrays are nested deeper than the limit."""
    level = [document]
    for _ in range(limit):
        deeper: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                deeper.extend(v for v in value.values() if isinstance(v, dict | list))
            elif isinstance(value, list):
                deeper.extend(v for v in value if isinstance(v, dict | list))
        if not deeper:
            return
        level = deeper
    raise TooLarge(f"The JSON body is nested deeper than {limit} levels.", parameter=_PARAMETER)


def _with_contexts(value: Any, contexts: Contexts, grown: list[int], inside: frozenset[str]) -> Any:
    """A copy in which no context is an address any more.

    grown   bytes added so far, one number
    inside  addresses whose contexts hold this value, so that one that holds itself ends
    """
    if isinstance(value, list):
        return [_with_contexts(item, contexts, grown, inside) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _resolved(item, contexts, grown, inside)
        if key == "@context"
        else _with_contexts(item, contexts, grown, inside)
        for key, item in value.items()
    }


def _resolved(context: Any, contexts: Contexts, grown: list[int], inside: frozenset[str]) -> Any:
    if isinstance(context, list):
        return [_resolved(item, contexts, grown, inside) for item in context]
    if not isinstance(context, str):
        return _with_contexts(context, contexts, grown, inside)
    known = None if context in inside else contexts(context)
    if known is None:
        raise InvalidRequest(
            f"The JSON-LD context '{context[:200]}' is not among those this server knows, and contexts are never "
            "fetched; write it out in the body, or ask the operator to add it.",
            parameter="@context",
        )
    grown[0] += len(orjson.dumps(known))
    if grown[0] > MAX_CONTEXT_BYTES:
        raise TooLarge("The JSON-LD contexts of the body are too long together.", parameter="@context")
    return _resolved(known, contexts, grown, inside | {context})


def contexts_of(known: Mapping[str, Any]) -> Contexts:
    """Contexts by address, a trailing ``#`` or ``/`` making no difference."""
    by_address = {address.rstrip("#/"): context for address, context in known.items()}

    def of(address: str) -> Any:
        return by_address.get(address.rstrip("#/"))

    return of
