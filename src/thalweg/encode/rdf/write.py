"""Documents of streams, views, nodes and catalogues.

A page is the texts of its members, as they were stored, behind a head of a few triples: N-Triples lines are valid
N-Quads, Turtle and TriG, so that four of six syntaxes cost little more than copying. The other two are made from the
same text by the library.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pyoxigraph import BlankNode, Literal, NamedNode, Quad, RdfFormat, Triple, parse, serialize

from thalweg.domain.errors import NotSupported
from thalweg.domain.streams import (
    DcatCatalogue,
    EventStream,
    Fragmentation,
    GeospatialFragmentation,
    Node,
    ReferenceFragmentation,
    Relation,
    Retention,
    SubstringFragmentation,
    TimeFragmentation,
    View,
)
from thalweg.domain.time import format_instant
from thalweg.encode.rdf.graph import Subject, stored_quads
from thalweg.encode.rdf.syntax import JSON_LD, RDF_XML, TRIG, TURTLE, Syntax
from thalweg.encode.rdf.vocabulary import (
    DCT_IS_PART_OF,
    DCTERMS,
    LDES_CREATE_VERSIONS,
    LDES_EVENT_SOURCE,
    LDES_EVENT_SOURCE_CLASS,
    LDES_EVENT_STREAM,
    LDES_RETENTION_POLICY,
    LDES_SKOLEMIZATION_DOMAIN,
    LDES_TIMESTAMP_PATH,
    LDES_VERSION_DELIMITER,
    LDES_VERSION_OF_PATH,
    PREFIXES,
    PUBLISHES,
    RDF_FIRST,
    RDF_NIL,
    RDF_REST,
    RDF_TYPE,
    TREE,
    TREE_FRAGMENTATION_PATH,
    TREE_FRAGMENTATION_STRATEGY,
    TREE_NODE,
    TREE_PAGE_SIZE,
    TREE_SHAPE,
    TREE_VIEW,
    TREE_VIEW_DESCRIPTION,
    XSD_BOOLEAN,
    XSD_DATE_TIME,
    XSD_DURATION,
    XSD_INTEGER,
    dcat,
    ldes,
    named,
    tree,
)

_TREE_RELATION: Final = tree("relation")
_TREE_TARGET: Final = tree("node")
_TREE_PATH: Final = tree("path")
_TREE_VALUE: Final = tree("value")
_TREE_REMAINING: Final = tree("remainingItems")
_TREE_MEMBER_TEXT: Final = f"> <{TREE}member> <".encode()
_IMMUTABLE: Final = ldes("immutable")
_SUBJECT: Final = NamedNode(DCTERMS + "subject")
_TITLE: Final = NamedNode(DCTERMS + "title")
_ABSOLUTE: Final = re.compile(r'[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|\\^`]+')
_TRUE: Final = Literal("true", datatype=XSD_BOOLEAN)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where things are. ``base``: of the door, without trailing slash."""

    base: str

    def stream(self, stream: EventStream) -> str:
        return f"{self.base}/{stream.name}"

    def view(self, stream: EventStream, view: View) -> str:
        return f"{self.base}/{stream.name}/{view.name}"

    def description(self, stream: EventStream, view: View) -> str:
        return f"{self.base}/{stream.name}/{view.name}/description"

    def node(self, stream: EventStream, view: View, query: str) -> str:
        root = self.view(stream, view)
        return f"{root}?{query}" if query else root


# ---------------------------------------------------------------- pieces


def _integer(value: int) -> Literal:
    return Literal(str(value), datatype=XSD_INTEGER)


def _shape(stream: EventStream) -> tuple[Subject, list[Quad]]:
    root = BlankNode("shape")
    quads = stored_quads(stream.shape, "shape", root)
    if quads and isinstance(quads[0].subject, NamedNode):
        return quads[0].subject, quads
    return root, quads


def _stream_core(stream: EventStream, subject: NamedNode) -> list[Quad]:
    """Type, shape and both paths: what the root of a view repeats."""
    root, shape = _shape(stream)
    return [
        Quad(subject, RDF_TYPE, LDES_EVENT_STREAM),
        Quad(subject, LDES_TIMESTAMP_PATH, named(stream.timestamp_path)),
        Quad(subject, LDES_VERSION_OF_PATH, named(stream.version_of_path)),
        Quad(subject, TREE_SHAPE, root),
        *shape,
    ]


def _stream_rest(stream: EventStream, subject: NamedNode) -> list[Quad]:
    quads: list[Quad] = []
    if stream.create_versions:
        quads.append(Quad(subject, LDES_CREATE_VERSIONS, _TRUE))
        quads.append(Quad(subject, LDES_VERSION_DELIMITER, Literal(stream.version_delimiter)))
    if stream.skolem_domain:
        quads.append(Quad(subject, LDES_SKOLEMIZATION_DOMAIN, named(stream.skolem_domain)))
    if stream.retention:
        source = BlankNode("source")
        quads.append(Quad(subject, LDES_EVENT_SOURCE, source))
        quads.append(Quad(source, RDF_TYPE, LDES_EVENT_SOURCE_CLASS))
        quads += _retention(stream.retention, source, "source")
    if stream.source is not None:
        key = stream.source.key
        value = NamedNode(key) if _ABSOLUTE.fullmatch(key) else Literal(key)
        quads.append(Quad(subject, NamedNode(PUBLISHES + stream.source.kind.value), value))
    if stream.title and not stream.dcat:
        quads.append(Quad(subject, _TITLE, Literal(stream.title)))
    quads += stored_quads(stream.dcat, "dataset", subject)
    return quads


def _retention(retention: Retention, subject: Subject, prefix: str) -> list[Quad]:
    quads: list[Quad] = []

    def policy(kind: str, predicate: NamedNode, value: Literal) -> None:
        node = BlankNode(f"{prefix}{kind}")
        quads.append(Quad(subject, LDES_RETENTION_POLICY, node))
        quads.append(Quad(node, RDF_TYPE, ldes(kind)))
        quads.append(Quad(node, predicate, value))

    if retention.duration:
        policy("DurationAgoPolicy", _TREE_VALUE, Literal(retention.duration, datatype=XSD_DURATION))
    if retention.versions:
        policy("LatestVersionSubset", ldes("amount"), _integer(retention.versions))
    if retention.point_in_time_us is not None:
        instant = Literal(format_instant(retention.point_in_time_us), datatype=XSD_DATE_TIME)
        policy("PointInTimePolicy", ldes("pointInTime"), instant)
    return quads


def _strategy(fragmentation: Fragmentation, node: BlankNode) -> list[Quad]:
    match fragmentation:
        case GeospatialFragmentation():
            kind, more = "GeospatialFragmentation", [(tree("maxZoom"), _integer(fragmentation.max_zoom))]
        case TimeFragmentation():
            kind = "HierarchicalTimeBasedFragmentation"
            more = [(tree("maxGranularity"), Literal(fragmentation.granularity.value))]
        case ReferenceFragmentation():
            kind, more = "ReferenceFragmentation", [(tree("fragmentationKey"), Literal(fragmentation.key))]
        case SubstringFragmentation():
            kind, more = "SubstringFragmentation", [(tree("substringLength"), _integer(fragmentation.length))]
    quads = [
        Quad(node, RDF_TYPE, tree(kind)),
        Quad(node, TREE_FRAGMENTATION_PATH, named(fragmentation.path)),
        *(Quad(node, predicate, value) for predicate, value in more),
    ]
    if fragmentation.subject_filter:
        quads.append(Quad(node, tree("fragmenterSubjectFilter"), Literal(fragmentation.subject_filter)))
    return quads


def _view_description(addresses: Addresses, stream: EventStream, view: View, prefix: str) -> list[Quad]:
    subject = NamedNode(addresses.view(stream, view))
    description = NamedNode(addresses.description(stream, view))
    collection = NamedNode(addresses.stream(stream))
    quads = [
        Quad(subject, RDF_TYPE, TREE_NODE),
        Quad(subject, TREE_VIEW_DESCRIPTION, description),
        Quad(description, RDF_TYPE, tree("ViewDescription")),
        Quad(description, TREE_PAGE_SIZE, _integer(view.page_size)),
    ]
    # The RDF list of strategies, from its end.
    rest: Subject = RDF_NIL
    inner: list[Quad] = []
    for number in range(len(view.fragmentation) - 1, -1, -1):
        cell, item = BlankNode(f"{prefix}list{number}"), BlankNode(f"{prefix}strategy{number}")
        inner[:0] = [
            Quad(cell, RDF_FIRST, item),
            Quad(cell, RDF_REST, rest),
            *_strategy(view.fragmentation[number], item),
        ]
        rest = cell
    quads.append(Quad(description, TREE_FRAGMENTATION_STRATEGY, rest))
    quads += inner
    quads += _retention(view.retention, description, f"{prefix}retention")
    if view.materialised:
        quads.append(Quad(description, ldes("versionMaterializationOf"), collection))
    if view.dcat:
        quads += stored_quads(view.dcat, f"{prefix}service", description)
        quads.append(Quad(description, dcat("endpointURL"), subject))
        quads.append(Quad(description, dcat("servesDataset"), collection))
    return quads


# ---------------------------------------------------------------- documents


def stream_quads(addresses: Addresses, stream: EventStream, views: Iterable[View]) -> list[Quad]:
    """A stream with its views' descriptions, as clients fetch it and as the administration gives it back."""
    subject = NamedNode(addresses.stream(stream))
    quads = _stream_core(stream, subject) + _stream_rest(stream, subject)
    for number, view in enumerate(views):
        quads.append(Quad(subject, TREE_VIEW, NamedNode(addresses.view(stream, view))))
        quads += _view_description(addresses, stream, view, f"v{number}")
    return quads


def streams_quads(addresses: Addresses, streams: Sequence[tuple[EventStream, Sequence[View]]]) -> list[Quad]:
    """Several streams in one document."""
    quads: list[Quad] = []
    for number, (stream, views) in enumerate(streams):
        quads += (_apart(quad, f"n{number}") for quad in stream_quads(addresses, stream, views))
    return quads


def _apart(quad: Quad, prefix: str) -> Quad:
    subject, node = quad.subject, quad.object
    if isinstance(subject, BlankNode):
        subject = BlankNode(prefix + subject.value)
    if isinstance(node, BlankNode):
        node = BlankNode(prefix + node.value)
    return Quad(subject, quad.predicate, node)


def shape_quads(stream: EventStream) -> list[Quad]:
    """The shape alone; an empty one is a node shape without constraints."""
    root, quads = _shape(stream)
    return quads or [Quad(root, RDF_TYPE, NamedNode("http://www.w3.org/ns/shacl#NodeShape"))]


def view_quads(addresses: Addresses, stream: EventStream, views: Iterable[View]) -> list[Quad]:
    """Descriptions of views, as the administration gives them back."""
    quads: list[Quad] = []
    for number, view in enumerate(views):
        subject = NamedNode(addresses.stream(stream))
        quads.append(Quad(subject, TREE_VIEW, NamedNode(addresses.view(stream, view))))
        quads += _view_description(addresses, stream, view, f"v{number}")
    return quads


def catalogue_quads(
    addresses: Addresses, catalogue: DcatCatalogue | None, streams: Sequence[tuple[EventStream, Sequence[View]]]
) -> list[Quad]:
    """The DCAT catalogue of a workspace: what was stored of it, and every stream and view (DCAT 3).

    A stream without a description of its own is a data set with its title; a view without one has no data service.
    """
    root = NamedNode(addresses.base + "/")
    quads = stored_quads(catalogue.dcat if catalogue else "", "catalogue", root)
    if not quads:
        quads = [Quad(root, RDF_TYPE, dcat("Catalog"))]
    for number, (stream, views) in enumerate(streams):
        subject = NamedNode(addresses.stream(stream))
        quads.append(Quad(root, dcat("dataset"), subject))
        described = stored_quads(stream.dcat, f"n{number}dataset", subject)
        quads += described or [
            Quad(subject, RDF_TYPE, dcat("Dataset")),
            Quad(subject, _TITLE, Literal(stream.title or stream.name)),
        ]
        quads.append(Quad(subject, RDF_TYPE, LDES_EVENT_STREAM))
        for index, view in enumerate(views):
            page = NamedNode(addresses.view(stream, view))
            quads.append(Quad(subject, TREE_VIEW, page))
            if view.dcat:
                description = NamedNode(addresses.description(stream, view))
                quads.append(Quad(root, dcat("service"), description))
                quads += stored_quads(view.dcat, f"n{number}v{index}", description)
                quads.append(Quad(description, dcat("endpointURL"), page))
                quads.append(Quad(description, dcat("servesDataset"), subject))
    return quads


def node_quads(addresses: Addresses, stream: EventStream, node: Node) -> list[Quad]:
    """All of a node but its members (TREE: tree:Node, tree:relation; LDES: immutable pages)."""
    view = node.view
    subject = NamedNode(addresses.node(stream, view, node.query))
    collection = NamedNode(addresses.stream(stream))
    if node.query:
        quads = [
            Quad(subject, RDF_TYPE, TREE_NODE),
            Quad(subject, DCT_IS_PART_OF, collection),
            Quad(collection, RDF_TYPE, LDES_EVENT_STREAM),
        ]
    else:
        quads = _stream_core(stream, collection)
        quads.append(Quad(collection, TREE_VIEW, subject))
        quads += _view_description(addresses, stream, view, "v")
    if node.is_immutable:
        quads.append(Quad(subject, _IMMUTABLE, _TRUE))
    for query, about in node.subjects:
        quads.append(Quad(NamedNode(addresses.node(stream, view, query)), _SUBJECT, NamedNode(about)))
    for number, relation in enumerate(node.relations):
        quads += _relation(addresses, stream, view, subject, relation, BlankNode(f"r{number}"))
    return quads


def _relation(
    addresses: Addresses, stream: EventStream, view: View, subject: NamedNode, relation: Relation, node: BlankNode
) -> list[Quad]:
    quads = [
        Quad(subject, _TREE_RELATION, node),
        Quad(node, RDF_TYPE, tree(relation.type.value)),
        Quad(node, _TREE_TARGET, NamedNode(addresses.node(stream, view, relation.query))),
    ]
    if relation.path:
        value: NamedNode | Literal
        if relation.datatype:
            value = Literal(relation.value, datatype=named(relation.datatype))
        else:
            value = named(relation.value)
        quads.append(Quad(node, _TREE_PATH, named(relation.path)))
        quads.append(Quad(node, _TREE_VALUE, value))
    if relation.remaining is not None:
        quads.append(Quad(node, _TREE_REMAINING, _integer(relation.remaining)))
    return quads


# ---------------------------------------------------------------- text


def write(quads: Sequence[Quad], syntax: Syntax) -> bytes:
    """A document of some triples, with prefixes where the syntax has them.

    raises  NotSupported (parameter ``Accept``) for RDF/XML and a property whose IRI ends in no XML name
    """
    if syntax is RDF_XML:
        _check_names(quads)
    try:
        if syntax.datasets:
            text = serialize(quads, format=syntax.rdf_format, prefixes=PREFIXES)
        else:
            triples = (Triple(quad.subject, quad.predicate, quad.object) for quad in quads)
            text = serialize(triples, format=syntax.rdf_format, prefixes=PREFIXES)
    except ValueError as error:
        raise NotSupported(
            f"This document cannot be written as {syntax.name}: {str(error)[:200]}. Ask for another syntax.",
            parameter="Accept",
        ) from None
    if syntax is RDF_XML and text is not None:
        _check_characters(text)
        # The library leaves them as they are, and a reader takes them for line feeds (XML 1.0 section 2.11).
        text = text.replace(b"\r", b"&#13;")
    return _in_order(text or b"", syntax)


# What an IRI has to end in to be written as the name of an element (XML Namespaces, NCName).
_ELEMENT_NAME: Final = re.compile(r"[^\W\d][\w.\-]*\Z")


def _check_names(quads: Sequence[Quad]) -> None:
    """The library writes other IRIs of properties and classes as elements all the same, and no parser reads them."""
    for iri in {quad.predicate.value for quad in quads} | {
        quad.object.value for quad in quads if quad.predicate == RDF_TYPE and isinstance(quad.object, NamedNode)
    }:
        if _ELEMENT_NAME.search(iri) is None:
            raise NotSupported(
                f"RDF/XML has no name for <{iri[:200]}>, which this document needs. Ask for another syntax.",
                parameter="Accept",
            )


def _check_characters(text: bytes) -> None:
    """XML 1.0 has no way to write most control characters, which a literal may hold."""
    if _CONTROLS.search(text) is not None:
        raise NotSupported(
            "A literal of this document has a character that XML cannot hold. Ask for another syntax.",
            parameter="Accept",
        )


_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]|\xef\xbf[\xbe\xbf]")


_NAMESPACES: Final = re.compile(rb' xmlns:[a-z]+="[^"]*"')


def _in_order(text: bytes, syntax: Syntax) -> bytes:
    """The text with its prefixes in order: the library writes them in an order of chance, and two workers have to give
    the same bytes under one validator."""
    if syntax in (TURTLE, TRIG):
        lines = text.split(b"\n", len(PREFIXES))
        return b"\n".join(sorted(lines[: len(PREFIXES)]) + lines[len(PREFIXES) :])
    if syntax is RDF_XML:
        begin = text.find(b"<rdf:RDF")
        end = text.find(b">", begin)
        names = sorted(_NAMESPACES.findall(text, begin, end))
        return text[:begin] + b"<rdf:RDF" + b"".join(names) + text[end:]
    return text


def node_parts(head: bytes, addresses: Addresses, stream: EventStream, node: Node) -> list[bytes]:
    """A page in pieces: a head, and the members as they were stored, each after the triple that makes it one."""
    before = b"<" + addresses.stream(stream).encode() + _TREE_MEMBER_TEXT
    parts = [head]
    for member in node.members:
        parts.append(before + member.iri.encode() + b"> .\n")
        parts.append(member.text)
    return parts


def write_node(addresses: Addresses, stream: EventStream, node: Node, syntax: Syntax) -> bytes:
    """A node whole, in any syntax. Errors as ``write``."""
    quads = node_quads(addresses, stream, node)
    if not node.members:
        return write(quads, syntax)
    if syntax in (TURTLE, TRIG):
        return b"".join(node_parts(write(quads, TURTLE), addresses, stream, node))
    head = serialize(quads, format=RdfFormat.N_QUADS) or b""
    joined = b"".join(node_parts(head, addresses, stream, node))
    if syntax in (JSON_LD, RDF_XML):
        return write(list(parse(joined, format=RdfFormat.N_QUADS, lenient=True)), syntax)
    return joined
