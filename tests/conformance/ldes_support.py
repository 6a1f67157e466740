"""What tests of the LDES door share: a store, requests by hand, documents as graphs of another program."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import rdflib
from rdflib.compare import isomorphic
from tests.conformance import door_support
from tests.conformance.door_support import OwnDoor

from thalweg.domain.access import Principal, Role
from thalweg.doors.http import Request
from thalweg.doors.ldes import make_door
from thalweg.services.stream_work import StreamWork
from thalweg.settings import Settings

BASE = "http://x.org/ldes"
ADMIN = Principal("ada", Role.ADMIN)
WRITER = Principal("will", Role.DATA_MANAGER)
READER = Principal("", Role.VIEWER)
NOBODY = Principal("", Role.NOTHING)

TREE = rdflib.Namespace("https://w3id.org/tree#")
LDES = rdflib.Namespace("https://w3id.org/ldes#")
SH = rdflib.Namespace("http://www.w3.org/ns/shacl#")
DCT = rdflib.Namespace("http://purl.org/dc/terms/")
PROV = rdflib.Namespace("http://www.w3.org/ns/prov#")
GEO = rdflib.Namespace("http://www.opengis.net/ont/geosparql#")
DCAT = rdflib.Namespace("http://www.w3.org/ns/dcat#")

PREFIXES = """@prefix ldes: <https://w3id.org/ldes#> .
@prefix tree: <https://w3id.org/tree#> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix dct: <http://purl.org/dc/terms/> .
@prefix dcat: <http://www.w3.org/ns/dcat#> .
@prefix prov: <http://www.w3.org/ns/prov#> .
@prefix geo: <http://www.opengis.net/ont/geosparql#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix ex: <http://example.org/> .
"""
STREAM = """</hindrances> a ldes:EventStream ;
  ldes:timestampPath prov:generatedAtTime ;
  ldes:versionOfPath dct:isVersionOf ;
  tree:shape [ a sh:NodeShape ; sh:targetClass ex:Hindrance ] .
"""
PAGED = "()"
BY_TIME = """( [ a tree:HierarchicalTimeBasedFragmentation ; tree:maxGranularity "day" ;
  tree:fragmentationPath prov:generatedAtTime ] )"""
BY_LOCATION = "( [ a tree:GeospatialFragmentation ; tree:maxZoom 13 ; tree:fragmentationPath geo:asWKT ] )"

FORMATS = {
    "text/turtle": "turtle",
    "application/trig": "trig",
    "application/n-quads": "nquads",
    "application/n-triples": "nt",
    "application/ld+json": "json-ld",
    "application/rdf+xml": "xml",
}
"""Media types, with rdflib's names of them."""


def view_document(name: str, strategies: str, size: int | None = None, more: str = "") -> str:
    """A view of the stream as Turtle, without prefixes."""
    paged = f" ; tree:pageSize {size}" if size is not None else ""
    return (
        f"</hindrances/{name}> a tree:Node ; tree:viewDescription [ a tree:ViewDescription ; "
        f"tree:fragmentationStrategy {strategies}{paged}{more} ] .\n"
    )


def member(
    number: object,
    *,
    version_of: object = 1,
    time: str | None = "2021-01-06T18:05:35.713Z",
    wkt: str = "",
    more: str = "",
) -> str:
    """A version object as Turtle, with prefixes; ``time`` None leaves it out."""
    lines = [f"ex:m{number} a ex:Hindrance ; dct:isVersionOf ex:o{version_of}"]
    if time is not None:
        lines.append(f'prov:generatedAtTime "{time}"^^xsd:dateTime')
    if wkt:
        lines.append(f'ex:where [ geo:asWKT "{wkt}"^^geo:wktLiteral ]')
    if more:
        lines.append(more)
    return PREFIXES + " ;\n  ".join(lines) + " .\n"


class Answer(door_support.Answer):
    """A response, its body read."""

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def graph(self) -> rdflib.Graph:
        """The document, read by rdflib."""
        return read(self.body, self.content_type)


def read(body: bytes, content_type: str) -> rdflib.Graph:
    """All triples of a document as one graph, languages in lower case: they are compared without it (RFC 5646)."""
    with warnings.catch_warnings():
        # rdflib warns of itself.
        warnings.simplefilter("ignore", DeprecationWarning)
        dataset = rdflib.Dataset(default_union=True)
        dataset.parse(data=body, format=FORMATS[content_type.partition(";")[0]])
        graph = rdflib.Graph()
        for s, p, o in dataset.triples((None, None, None)):
            if isinstance(o, rdflib.Literal) and o.language:
                o = rdflib.Literal(str(o), lang=o.language.lower())
            graph.add((s, p, o))
    return graph


def same(one: rdflib.Graph, other: rdflib.Graph) -> bool:
    """Whether two graphs are isomorphic."""
    return bool(isomorphic(one, other))


class Ldes(OwnDoor[Answer]):
    """The door over a store of its own."""

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        super().__init__(folder, make_door, Answer, settings or Settings())
        self.work = StreamWork(self.store)

    def ask(
        self,
        method: str,
        path: str,
        body: str | bytes = b"",
        *,
        kind: str = "text/turtle",
        accept: str = "",
        principal: Principal | None = None,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> Answer:
        """One request; ``path`` after the door's mount, with its query. Writing is done by an administrator."""
        path, _, query = path.partition("?")
        given = [*headers]
        if kind and body:
            given.append((b"content-type", kind.encode()))
        if accept:
            given.append((b"accept", accept.encode()))
        data = body.encode() if isinstance(body, str) else body
        who = principal or (READER if method == "GET" else ADMIN)
        return self.handle(
            Request(method, path.strip("/"), query.encode(), tuple(given), data, "default", BASE, who, "r-1")
        )

    def get(self, path: str, accept: str = "", **more: object) -> Answer:
        return self.ask("GET", path, accept=accept, **more)  # type: ignore[arg-type]

    def admin(self, method: str, path: str, body: str = "", **more: object) -> Answer:
        """A request to the administration; prefixes are put before the body."""
        data = PREFIXES + body if body else ""
        return self.ask(method, f"admin/api/v1/{path}", data, **more)  # type: ignore[arg-type]

    def create(self, *views: tuple[str, str, int], stream: str = STREAM) -> None:
        """A stream with views given by name, strategies and page size."""
        answer = self.admin("POST", "eventstreams", stream)
        assert answer.status == 201, answer.text
        for name, strategies, size in views:
            answer = self.admin("POST", "eventstreams/hindrances/views", view_document(name, strategies, size))
            assert answer.status == 201, answer.text

    def ingest(self, *members: str, kind: str = "text/turtle") -> list[int]:
        """The status of each."""
        return [self.ask("POST", "hindrances", body, kind=kind).status for body in members]

    def settle(self) -> None:
        """All background work done."""
        self.work.finish()

    def walk(self, start: str) -> dict[str, rdflib.Graph]:
        """Every node that can be reached from one, by address, as a client that follows all relations sees them."""
        found: dict[str, rdflib.Graph] = {}
        waiting = [f"{BASE}/{start}"]
        while waiting:
            address = waiting.pop(0)
            if address in found:
                continue
            answer = self.get(address.removeprefix(BASE + "/"))
            assert answer.status == 200, (address, answer.text)
            graph = found[address] = answer.graph
            for relation in graph.objects(rdflib.URIRef(address), TREE.relation):
                waiting += [str(node) for node in graph.objects(relation, TREE.node)]
        return found

    def members_of(self, nodes: dict[str, rdflib.Graph]) -> dict[str, set[str]]:
        """Member IRIs, with the nodes that hold each."""
        found: dict[str, set[str]] = {}
        for address, graph in nodes.items():
            for iri in graph.objects(rdflib.URIRef(f"{BASE}/hindrances"), TREE.member):
                found.setdefault(str(iri), set()).add(address.partition("?")[2])
        return found
