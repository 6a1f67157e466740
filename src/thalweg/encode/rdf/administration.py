"""Documents of the administration: streams, views, shapes, event sources and DCAT descriptions, read and checked.

A document is checked whole, and every fault is told at once as a SHACL validation report. Properties that are not
known are let through, as the Flanders server lets them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from pyoxigraph import Literal, NamedNode, Quad

from thalweg.domain.errors import InvalidRequest
from thalweg.domain.published import SourceKind
from thalweg.domain.streams import (
    MAX_VIEWS,
    EventStream,
    View,
)
from thalweg.encode.rdf.findings import Findings, boolean_at, iri_at, name_of, stored, text_at, text_of
from thalweg.encode.rdf.graph import Graph, Subject, bounded, relabelled
from thalweg.encode.rdf.read import Contexts, no_contexts, read_quads, to_n_triples
from thalweg.encode.rdf.syntax import syntax_of
from thalweg.encode.rdf.views import event_source_of, read_event_source, read_view, view_of
from thalweg.encode.rdf.vocabulary import (
    DCTERMS,
    LDES_CREATE_VERSIONS,
    LDES_EVENT_SOURCE,
    LDES_EVENT_STREAM,
    LDES_SKOLEMIZATION_DOMAIN,
    LDES_TIMESTAMP_PATH,
    LDES_VERSION_DELIMITER,
    LDES_VERSION_OF_PATH,
    PUBLISHES,
    RDF_TYPE,
    TREE_SHAPE,
    TREE_VIEW,
    dcat,
    sh,
)

RESERVED_NAMES: Final = ("admin", "actuator")
"""First path parts of the door itself, which no stream can have as its name."""
_DCAT_CLASSES: Final = {"stream": dcat("Dataset"), "view": dcat("DataService"), "catalogue": dcat("Catalog")}
MAX_DELIMITER_LENGTH: Final = 100

__all__ = [
    "RESERVED_NAMES",
    "StreamDocument",
    "read_dcat",
    "read_event_source",
    "read_graph",
    "read_shape",
    "read_stream",
    "read_view",
]


@dataclass(frozen=True, slots=True)
class StreamDocument:
    """A stream as a document describes it, ids 0.

    publishes  kind and identifier or name of what it is made of; None: it has members of its own
    """

    stream: EventStream
    views: tuple[View, ...]
    publishes: tuple[SourceKind, str] | None = None


def read_graph(body: bytes, media_type: str, base_iri: str, contexts: Contexts = no_contexts) -> Graph:
    """A document of the administration. Errors as ``read_members``."""
    quads = bounded(read_quads(body, syntax_of(media_type), base_iri, contexts=contexts))
    if not quads:
        raise InvalidRequest("The body holds no triple.", parameter="request")
    # Refuses what could not be written back so that every client reads it.
    to_n_triples(quads)
    return Graph(quads)


# ---------------------------------------------------------------- streams


def read_stream(graph: Graph) -> StreamDocument:
    """The one event stream of a document, with its views.

    raises  InvalidRequest if there is not exactly one; ShapeViolation with all faults
    source  Flanders LDES server 3, shape of event streams
    """
    found = [subject for subject in graph.of_type(LDES_EVENT_STREAM) if isinstance(subject, NamedNode)]
    if len(found) != 1:
        raise InvalidRequest(
            f"The body describes {len(found)} named nodes of the type ldes:EventStream; one is needed.",
            parameter="ldes:EventStream",
        )
    (subject,) = found
    findings = Findings()
    name = name_of(findings, subject, "stream")
    if name in RESERVED_NAMES:
        findings.add(subject, "NotConstraintComponent", f"'{name}' is a name that the server itself uses.")
    creates = boolean_at(findings, graph, subject, LDES_CREATE_VERSIONS)
    delimiter = _version_delimiter(findings, graph, subject, creates=creates)
    shape, shape_class = _shape_of(findings, graph, subject)
    retention = event_source_of(findings, graph, subject)
    views = _views_of(findings, graph, subject)
    stream = EventStream(
        id=0,
        uuid="",
        workspace_id=0,
        name=name,
        timestamp_path=iri_at(findings, graph, subject, LDES_TIMESTAMP_PATH),
        version_of_path=iri_at(findings, graph, subject, LDES_VERSION_OF_PATH),
        create_versions=creates,
        version_delimiter=delimiter or "/",
        skolem_domain=_skolem_domain(findings, graph, subject),
        shape=shape,
        shape_class=shape_class,
        retention=retention,
        title=_title(graph, subject),
        dcat=_embedded_dcat(graph, subject),
    )
    if stream.timestamp_path and stream.timestamp_path == stream.version_of_path:
        findings.add(
            subject, "DisjointConstraintComponent", "ldes:timestampPath and ldes:versionOfPath have to differ.",
            LDES_TIMESTAMP_PATH,
        )  # fmt: skip
    publishes = _publishes(findings, graph, subject)
    findings.close("event stream")
    return StreamDocument(stream, tuple(views), publishes)


def _version_delimiter(findings: Findings, graph: Graph, subject: NamedNode, *, creates: bool) -> str | None:
    """What stands between an object's IRI and the rest of its versions'; None if it is not said."""
    delimiter = text_at(findings, graph, subject, LDES_VERSION_DELIMITER)
    if delimiter is not None and not creates:
        findings.add(
            subject, "NotConstraintComponent",
            "ldes:versionDelimiter is for streams with ldes:createVersions true.", LDES_VERSION_DELIMITER,
        )  # fmt: skip
    elif delimiter is not None and not 1 <= len(delimiter) <= MAX_DELIMITER_LENGTH:
        findings.add(
            subject, "MinLengthConstraintComponent",
            f"ldes:versionDelimiter has to have 1 to {MAX_DELIMITER_LENGTH} characters.", LDES_VERSION_DELIMITER,
        )  # fmt: skip
    elif delimiter is not None and not _fits_iri(delimiter):
        findings.add(
            subject, "PatternConstraintComponent", "ldes:versionDelimiter has characters that an IRI cannot have.",
            LDES_VERSION_DELIMITER,
        )  # fmt: skip
    return delimiter


def _views_of(findings: Findings, graph: Graph, subject: NamedNode) -> list[View]:
    views: list[View] = []
    for node in graph.objects(subject, TREE_VIEW):
        if isinstance(node, NamedNode) and graph.quads(node):
            views.append(view_of(findings, graph, node))
        else:
            findings.add(subject, "NodeKindConstraintComponent", f"The view {node} is not described.", TREE_VIEW, node)
    if len(views) > MAX_VIEWS:
        findings.add(subject, "MaxCountConstraintComponent", f"A stream has {MAX_VIEWS} views at most.", TREE_VIEW)
    if len({view.name for view in views}) != len(views):
        findings.add(subject, "NotConstraintComponent", "Two views have the same name.", TREE_VIEW)
    return views


def _publishes(findings: Findings, graph: Graph, subject: Subject) -> tuple[SourceKind, str] | None:
    """What the stream is made of; a node or a text."""
    found = [(kind, value) for kind in SourceKind for value in graph.objects(subject, NamedNode(PUBLISHES + kind))]
    if not found:
        return None
    kind, value = found[0]
    if len(found) > 1 or not isinstance(value, (NamedNode, Literal)):
        findings.add(
            subject, "MaxCountConstraintComponent",
            f"A stream publishes one procedure, offering or layer: <{PUBLISHES}procedure>, … has one IRI or text.",
            NamedNode(PUBLISHES + kind),
        )  # fmt: skip
    return kind, value.value


_DESCRIBED: Final = (
    RDF_TYPE, LDES_TIMESTAMP_PATH, LDES_VERSION_OF_PATH, LDES_CREATE_VERSIONS, LDES_VERSION_DELIMITER,
    LDES_SKOLEMIZATION_DOMAIN, LDES_EVENT_SOURCE, TREE_SHAPE, TREE_VIEW,
    *(NamedNode(PUBLISHES + kind) for kind in SourceKind),
)  # fmt: skip


def _embedded_dcat(graph: Graph, subject: NamedNode) -> str:
    """What a stream's document says beside the stream itself, if it calls it a data set."""
    if dcat("Dataset") not in graph.objects(subject, RDF_TYPE):
        return ""
    quads = graph.closure(subject, without=_DESCRIBED)
    return stored([Quad(subject, RDF_TYPE, dcat("Dataset")), *quads], subject)


def _title(graph: Graph, subject: Subject) -> str:
    for predicate in (NamedNode(DCTERMS + "title"), NamedNode("http://www.w3.org/2000/01/rdf-schema#label")):
        for value in graph.objects(subject, predicate):
            if isinstance(value, Literal):
                return value.value[:500]
    return ""


def _skolem_domain(findings: Findings, graph: Graph, subject: Subject) -> str:
    values = graph.objects(subject, LDES_SKOLEMIZATION_DOMAIN)
    if not values:
        return ""
    text = values[0].value.rstrip("/")
    parts = urlsplit(text)
    if len(values) > 1 or parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        findings.add(
            subject, "PatternConstraintComponent",
            "ldes:skolemizationDomain has to be one address such as <https://example.org>.",
            LDES_SKOLEMIZATION_DOMAIN, values[0],
        )  # fmt: skip
    return text


def _fits_iri(text: str) -> bool:
    return not any(letter <= " " or letter in '<>"{}|^`\\' for letter in text)


# ---------------------------------------------------------------- shapes


def _shape_of(findings: Findings, graph: Graph, subject: Subject) -> tuple[str, str]:
    values = graph.objects(subject, TREE_SHAPE)
    if len(values) != 1 or isinstance(values[0], Literal):
        message = f"tree:shape has {len(values)} values; one shape is needed."
        findings.add(subject, "MinCountConstraintComponent", message, TREE_SHAPE)
        return "", ""
    return _shape_text(findings, graph, values[0])


def _shape_text(findings: Findings, graph: Graph, root: Subject) -> tuple[str, str]:
    classes = [value.value for value in graph.objects(root, sh("targetClass")) if isinstance(value, NamedNode)]
    quads = graph.closure(root, named=True)
    if isinstance(root, NamedNode):
        # A shape with an IRI of its own keeps it.
        return text_of(relabelled(quads, None, "s")), classes[0] if len(classes) == 1 else ""
    return stored(quads, root), classes[0] if len(classes) == 1 else ""


def read_shape(graph: Graph) -> tuple[str, str]:
    """The node shape of a document: N-Triples, and the target class if there is one alone.

    raises  InvalidRequest unless there is one node shape that no other shape refers to; ShapeViolation
    """
    shapes = graph.of_type(sh("NodeShape"))
    if len(shapes) > 1:
        inner = {quad.object for subject in graph.subjects() for quad in graph.quads(subject)}
        shapes = [shape for shape in shapes if shape not in inner]
    if len(shapes) != 1:
        raise InvalidRequest(
            f"The body has {len(shapes)} node shapes (sh:NodeShape); one is needed.", parameter="sh:NodeShape"
        )
    findings = Findings()
    result = _shape_text(findings, graph, shapes[0])
    findings.close("shape")
    return result


# ---------------------------------------------------------------- DCAT


def read_dcat(graph: Graph, what: str) -> str:
    """A DCAT description as it is stored.

    what    ``stream``, ``view`` or ``catalogue``, described by a dcat:Dataset, dcat:DataService or dcat:Catalog
    raises  InvalidRequest if there is not exactly one such node, or if the server's own links are among its triples
    """
    kind = _DCAT_CLASSES[what]
    found = graph.of_type(kind)
    if len(found) != 1:
        raise InvalidRequest(
            f"The body has {len(found)} nodes of the type dcat:{kind.value.rpartition('#')[2]}; one is needed.",
            parameter="rdf:type",
        )
    (root,) = found
    quads = graph.closure(root, named=True, without=(dcat("dataset"), dcat("service"), dcat("servesDataset")))
    return stored(quads, root)
