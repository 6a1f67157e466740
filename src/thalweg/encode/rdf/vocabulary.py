"""Names of the vocabularies that event streams are written in."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from pyoxigraph import NamedNode, RdfFormat, parse

RDF: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS: Final = "http://www.w3.org/2000/01/rdf-schema#"
XSD: Final = "http://www.w3.org/2001/XMLSchema#"
TREE: Final = "https://w3id.org/tree#"
LDES: Final = "https://w3id.org/ldes#"
SHACL: Final = "http://www.w3.org/ns/shacl#"
DCAT: Final = "http://www.w3.org/ns/dcat#"
DCTERMS: Final = "http://purl.org/dc/terms/"
PROV: Final = "http://www.w3.org/ns/prov#"
GEOSPARQL: Final = "http://www.opengis.net/ont/geosparql#"

PUBLISHES: Final = "urn:x-thalweg:"
"""Before ``procedure``, ``offering`` or ``layer``: the property of a stream that publishes what is stored already."""

PREFIXES: Final = {
    "dcat": DCAT,
    "dct": DCTERMS,
    "geo": GEOSPARQL,
    "ldes": LDES,
    "prov": PROV,
    "rdf": RDF,
    "rdfs": RDFS,
    "sh": SHACL,
    "tree": TREE,
    "xsd": XSD,
}
"""Prefixes of the documents that are written, in the order they are declared."""

RDF_TYPE: Final = NamedNode(RDF + "type")
RDF_FIRST: Final = NamedNode(RDF + "first")
RDF_REST: Final = NamedNode(RDF + "rest")
RDF_NIL: Final = NamedNode(RDF + "nil")

XSD_STRING: Final = NamedNode(XSD + "string")
XSD_INTEGER: Final = NamedNode(XSD + "integer")
XSD_BOOLEAN: Final = NamedNode(XSD + "boolean")
XSD_DATE_TIME: Final = NamedNode(XSD + "dateTime")
XSD_DURATION: Final = NamedNode(XSD + "duration")

DCT_IS_PART_OF: Final = NamedNode(DCTERMS + "isPartOf")


def tree(name: str) -> NamedNode:
    """A term of the TREE vocabulary."""
    return NamedNode(TREE + name)


def ldes(name: str) -> NamedNode:
    """A term of the LDES vocabulary."""
    return NamedNode(LDES + name)


def sh(name: str) -> NamedNode:
    """A term of SHACL."""
    return NamedNode(SHACL + name)


def dcat(name: str) -> NamedNode:
    """A term of DCAT."""
    return NamedNode(DCAT + name)


TREE_MEMBER: Final = tree("member")
TREE_VIEW: Final = tree("view")
TREE_NODE: Final = tree("Node")
TREE_SHAPE: Final = tree("shape")
TREE_VIEW_DESCRIPTION: Final = tree("viewDescription")
TREE_FRAGMENTATION_STRATEGY: Final = tree("fragmentationStrategy")
TREE_FRAGMENTATION_PATH: Final = tree("fragmentationPath")
TREE_PAGE_SIZE: Final = tree("pageSize")
LDES_EVENT_STREAM: Final = ldes("EventStream")
LDES_TIMESTAMP_PATH: Final = ldes("timestampPath")
LDES_VERSION_OF_PATH: Final = ldes("versionOfPath")
LDES_CREATE_VERSIONS: Final = ldes("createVersions")
LDES_VERSION_DELIMITER: Final = ldes("versionDelimiter")
LDES_SKOLEMIZATION_DOMAIN: Final = ldes("skolemizationDomain")
LDES_EVENT_SOURCE: Final = ldes("eventSource")
LDES_EVENT_SOURCE_CLASS: Final = ldes("EventSource")
LDES_RETENTION_POLICY: Final = ldes("retentionPolicy")


@lru_cache(maxsize=4096)
def named(iri: str) -> NamedNode:
    """A node of an IRI that was read and checked before (``read.IRI``).

    Some IRIs of real data break a rule that the library's own constructor looks at and its lenient parser does not:
    ``http://e.org/100%``. What was taken has to be given back.
    """
    try:
        return NamedNode(iri)
    except ValueError:
        ((subject, *_),) = parse(f"<{iri}> <a:a> <a:a> .".encode(), format=RdfFormat.N_TRIPLES, lenient=True)
        if not isinstance(subject, NamedNode):
            raise
        return subject
