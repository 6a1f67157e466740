"""The LDES study's test: an event stream with its views made, one member per request, fragmentation followed.

As the study counts: the ingest rate is that of the requests; the fragmentation rate of a view is the members by the
time from the begin of ingest until the view holds them all, asked for each 250 ms.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pyoxigraph import NamedNode, Quad

from thalweg.bench import drivers
from thalweg.bench.answers import Facts, canonical, quads
from thalweg.bench.errors import BenchError, DoorMissing
from thalweg.bench.requests import NUMBER, Request, Source, Template, basic
from thalweg.bench.samples import Samples
from thalweg.bench.targets import Target, ask

STREAM: Final = "mobility-hindrances"
TIMESTAMP_PATH: Final = "http://www.w3.org/ns/prov#generatedAtTime"
VERSION_OF_PATH: Final = "http://purl.org/dc/terms/isVersionOf"
CLASS: Final = "https://data.vlaanderen.be/ns/mobiliteit#Mobiliteitshinder"
POLL_S: Final = 0.25
FRAGMENTATION_TIMEOUT_S: Final = 600.0
"""Longest wait for a view after the last member; the study's plan ends after as much."""
TIMEOUT_S: Final = 2.0
"""The study's plan gives an answer up after so long."""

_PREFIXES: Final = """@prefix ldes: <https://w3id.org/ldes#> .
@prefix tree: <https://w3id.org/tree#> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix dct: <http://purl.org/dc/terms/> .
@prefix prov: <http://www.w3.org/ns/prov#> .
@prefix geo: <http://www.opengis.net/ont/geosparql#> .
@prefix mob: <https://data.vlaanderen.be/ns/mobiliteit#> .
"""
STREAM_DOCUMENT: Final = f"""{_PREFIXES}
</{STREAM}> a ldes:EventStream ; ldes:timestampPath prov:generatedAtTime ; ldes:versionOfPath dct:isVersionOf ;
  tree:shape [ a sh:NodeShape ; sh:targetClass mob:Mobiliteitshinder ] .
"""
_STRATEGIES: Final = {
    "page": "()",
    "time": (
        '( [ a tree:HierarchicalTimeBasedFragmentation ; tree:maxGranularity "day" ;'
        " tree:fragmentationPath prov:generatedAtTime ] )"
    ),
    "geospatial": "( [ a tree:GeospatialFragmentation ; tree:maxZoom 13 ; tree:fragmentationPath geo:asWKT ] )",
}
VIEWS: Final = {"page": "pagination", "time": "by-time", "geospatial": "by-location"}
PAGE_SIZE: Final = 100


def view_document(kind: str) -> str:
    """The description of a view: page, time or geospatial."""
    return (
        f"{_PREFIXES}\n</{STREAM}/{VIEWS[kind]}> tree:viewDescription [ tree:pageSize {PAGE_SIZE} ;\n"
        f"  tree:fragmentationStrategy {_STRATEGIES[kind]} ] .\n"
    )


def member() -> str:
    """A road work in Turtle, of the kind and size of the study's (40 triples); only its number differs."""
    base = "https://data.example.org/hindrances"
    labels = "\n".join(
        f'  [] a org:Organization ; dct:isVersionOf <{base}/offices/{k}> ; skos:prefLabel "Municipality {k}"@en ;\n'
        f'     dct:description "An office that has to do with road works and the closing of roads."@en .'
        for k in range(1, 6)
    )
    return f"""{_PREFIXES}@prefix org: <http://www.w3.org/ns/org#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix locn: <http://www.w3.org/ns/locn#> .
@prefix adms: <http://www.w3.org/ns/adms#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix m8g: <http://data.europa.eu/m8g/> .

<{base}/zonetypes/1> skos:prefLabel "zone of hindrance"@en .
<{base}/statuses/2> skos:prefLabel "unknown"@en .
<{base}/zones/3> a mob:Zone ; dct:type <{base}/zonetypes/1> ; locn:geometry [ a locn:Geometry ;
  geo:asWKT "<http://www.opengis.net/def/crs/EPSG/9.9.1/31370> POLYGON ((156569.258 218419.123, 156570.525 218419.981, \
156573.583 218414.277, 156572.203 218413.494, 156569.258 218419.123))"^^geo:wktLiteral ] .
<{base}/events/4> a mob:Evenement ; dct:relation <{base}/{NUMBER}> .
<{base}/{NUMBER}> a mob:Mobiliteitshinder ;
  dct:isVersionOf <{base}/works/10590560> ;
  prov:generatedAtTime "2021-01-06T18:05:35.713Z"^^xsd:dateTime ;
  dct:created "2021-01-06T12:58:25.483Z"^^xsd:dateTime ;
  dct:modified "2021-01-06T13:03:51.107Z"^^xsd:dateTime ;
  adms:versionNotes "The hindrance was taken over from an older register"@en ;
  adms:status <{base}/statuses/2> ; mob:zone <{base}/zones/3> ;
  adms:identifier [ a adms:Identifier ; skos:notation "10590560" ; adms:schemaAgency "an agency"@en ] ;
  mob:periode [ a m8g:PeriodOfTime ; m8g:startTime "2021-01-11T06:00:00Z"^^xsd:dateTime ;
    m8g:endTime "2021-01-22T15:00:00Z"^^xsd:dateTime ] ;
  dct:description "Connections of houses, repair of drains"@en .
{labels}
"""


def members(stream_path: str, headers: dict[str, str], file: Path | None, *, first: int) -> Source:
    """Where members come from: a Template of one, or a source of actual ones under new ids.

    file    Turtle with ``${__threadNum}${member_counter}`` where the number goes (the study's), or N-Quads with a line
            ``# member …`` before each; None: made ones
    raises  BenchError for a file that is neither
    """
    path = stream_path
    if file is None:
        return Template(_post(path, headers, "text/turtle", member()), first=first, width=9)
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(f"{file} cannot be read: {error}.") from error
    if "${member_counter}" in text:
        marked = text.replace("${__threadNum}${member_counter}", NUMBER)
        return Template(_post(path, headers, "text/turtle", marked), first=first, width=9)
    blocks = [block for block in re.split(r"(?m)^# member[^\n]*$", text) if block.strip()]
    found = re.findall(r"(?m)^# member[^\n]*?(\S+)$", text)
    if not blocks or len(blocks) != len(found):
        raise BenchError(f"{file} has neither '${{member_counter}}' nor lines '# member N: IRI' before N-Quads.")
    return Actual(path, headers, tuple(zip(found, blocks, strict=True)), first)


@dataclass(frozen=True, slots=True)
class Actual:
    """Different members in turn; from the second round on under new ids."""

    path: str
    headers: dict[str, str]
    members: tuple[tuple[str, str], ...]
    first: int

    def stream(self) -> Iterator[Request]:
        index = self.first
        while True:
            iri, block = self.members[index % len(self.members)]
            text = block.replace(f"<{iri}>", f"<{iri}/{index}>").lstrip("\n")
            yield _post(self.path, self.headers, "application/n-quads", text)
            index += 1


def _post(path: str, headers: dict[str, str], kind: str, body: str) -> Request:
    return Request("ingest", path, "POST", headers | {"Content-Type": kind}, body.encode(), check)


def check(status: int, _body: bytes) -> str:
    """A new member is answered 201 (200 by servers of older versions)."""
    return "" if status in (200, 201) else f"status {status}"


class Server:
    """An LDES server's administration and figures."""

    def __init__(self, target: Target) -> None:
        self.base = target.door("ldes")
        self.headers = basic(target.credentials)

    def _ask(
        self, method: str, path: str, body: str = "", good: tuple[int, ...] = ()
    ) -> tuple[int, dict[str, str], bytes]:
        headers = self.headers | ({"Content-Type": "text/turtle"} if body else {})
        return ask(f"{self.base}{path}", body=body.encode() or None, headers=headers, method=method, good=good)

    def make(self, views: tuple[str, ...]) -> None:
        """The stream with its views, anew. Raises DoorMissing if this is no LDES server."""
        status, said, _ = self._ask("GET", "/admin/api/v1/eventstreams", good=(404, 405))
        if status != 200 or "html" in said.get("content-type", ""):
            raise DoorMissing(
                f"{self.base}/admin/api/v1/eventstreams is not there: the target has no LDES door. An LDES server is "
                "measured by its own URL: --target http://HOST:PORT."
            )
        self._ask("DELETE", f"/admin/api/v1/eventstreams/{STREAM}", good=(404,))
        self._ask("POST", "/admin/api/v1/eventstreams", STREAM_DOCUMENT)
        for kind in views:
            self._ask("POST", f"/admin/api/v1/eventstreams/{STREAM}/views", view_document(kind))

    def delete_view(self, kind: str) -> float:
        """Seconds it took."""
        return self._timed(f"/admin/api/v1/eventstreams/{STREAM}/views/{VIEWS[kind]}")

    def delete_stream(self) -> float:
        return self._timed(f"/admin/api/v1/eventstreams/{STREAM}")

    def _timed(self, path: str) -> float:
        begin = time.perf_counter()
        self._ask("DELETE", path)
        return time.perf_counter() - begin

    def held(self) -> dict[str, float]:
        """Members on each view's pages, as the server's metrics say."""
        _, _, text = self._ask("GET", "/actuator/prometheus")
        pattern = rf'ldes_server_pagination_members_count{{collection="{STREAM}",view="([^"]+)",?}} ([0-9.eE+]+)'
        return {view: float(value) for view, value in re.findall(pattern, text.decode())}


def run(
    target: Target, count: int, connections: int, views: tuple[str, ...], *, file: Path | None, samples: Samples,
    advance: Callable[[int], None] = lambda _: None, wait_s: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The whole test on a stream of its own, which is deleted at the end.

    returns  ``ingest_s``; ``fragmented_s`` by view of those full within ``wait_s`` after ingest (None:
             FRAGMENTATION_TIMEOUT_S); seconds of deleting
    """
    server = Server(target)
    server.make(views)
    to = urlsplit(server.base)
    source = members(f"{to.path}/{STREAM}", server.headers, file, first=0)
    follower = _Follower(server, views, count)
    limits = drivers.Limits(timeout_s=TIMEOUT_S)
    follower.start()
    try:
        ingest_s = drivers.run(
            drivers.closed(
                f"{to.scheme}://{to.netloc}", source.stream(), connections, samples=samples, requests=count,
                limits=limits, done=advance,
            )
        )  # fmt: skip
        follower.wait(FRAGMENTATION_TIMEOUT_S if wait_s is None else wait_s)
    finally:
        follower.stop()
    deleted = {VIEWS[kind]: server.delete_view(kind) for kind in views}
    return {
        "ingest_s": ingest_s,
        "members": count,
        "fragmented_s": dict(sorted(follower.full.items())),
        "fragmentation_rate": {view: count / at for view, at in sorted(follower.full.items()) if at},
        "views_not_full": [VIEWS[kind] for kind in views if VIEWS[kind] not in follower.full],
        "delete_view_s": deleted,
        "delete_stream_s": server.delete_stream(),
    }


CHECKED: Final = 20
"""Members that are sent to both sides of a comparison and read back."""
_CHECKED_PAGES: Final = 50
_OWN: Final = ("https://w3id.org/tree#", "https://w3id.org/ldes#", "http://purl.org/dc/terms/isPartOf")
"""What pages say of themselves."""


def read_back(target: Target, file: Path | None, wait_s: float = 60.0) -> Facts:
    """Members are sent, and their triples read from the pages of a view: what a client of the stream gets.

    raises  BenchError if they do not come
    """
    server = Server(target)
    server.make(("page",))
    to = urlsplit(server.base)
    origin = f"{to.scheme}://{to.netloc}"
    for request in islice(members(f"{to.path}/{STREAM}", server.headers, file, first=0).stream(), CHECKED):
        ask(origin + request.path, body=request.body, headers=dict(request.headers))
    end = time.monotonic() + wait_s
    while server.held().get(VIEWS["page"], 0) < CHECKED:
        if time.monotonic() > end:
            raise BenchError(f"{target.name} has not put {CHECKED} members on pages within {wait_s:g} s.")
        time.sleep(POLL_S)
    kept: list[Quad] = []
    left, seen = [f"{server.base}/{STREAM}/{VIEWS['page']}"], set[str]()
    while left and len(seen) < _CHECKED_PAGES:
        url = left.pop(0)
        seen.add(url)
        _, headers, body = ask(url, headers=server.headers | {"Accept": "application/n-quads"})
        try:
            found = quads(body, headers.get("content-type", "application/n-quads"))
        except ValueError as error:
            raise BenchError(f"A page of {target.name} cannot be read: {error}") from error
        for quad in found:
            predicate = quad.predicate.value
            if predicate == "https://w3id.org/tree#node" and isinstance(quad.object, NamedNode):
                # A link may name the host otherwise than the caller does.
                link = urlsplit(quad.object.value)
                address = f"{origin}{link.path}{'?' + link.query if link.query else ''}"
                if address not in seen and address not in left:
                    left.append(address)
            elif not predicate.startswith(_OWN) and not str(quad.subject).startswith(f"<{server.base}"):
                kept.append(Quad(quad.subject, quad.predicate, quad.object))
    server.delete_stream()
    return canonical(kept)


class _Follower:
    """Notes in a thread of its own when each view is full; asking must not wait for the ingesting loop."""

    def __init__(self, server: Server, views: tuple[str, ...], count: int) -> None:
        self._server = server
        self._left = {VIEWS[kind] for kind in views}
        self._count = count
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self._begin = 0.0
        self.full: dict[str, float] = {}

    def start(self) -> None:
        self._begin = time.perf_counter()
        self._thread.start()

    def wait(self, seconds: float) -> None:
        self._thread.join(seconds)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        while self._left and not self._stop.wait(POLL_S):
            try:
                held = self._server.held()
            except BenchError:
                # What is not full in the end is told.
                continue
            now = time.perf_counter() - self._begin
            for view in [v for v in self._left if held.get(v, 0) >= self._count]:
                self.full[view] = now
                self._left.discard(view)
