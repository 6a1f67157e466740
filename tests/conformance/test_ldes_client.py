"""Replication by ``ldes-client`` (npm), a client that nobody of the project wrote, from a started server."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from queue import Empty, Queue

import httpx
import pytest
import rdflib
from rdflib.compare import isomorphic
from tests.conformance import ldes_client
from tests.conformance.ldes_support import BY_LOCATION, PAGED, PREFIXES, Ldes, view_document
from tests.conftest import BESIDE

from thalweg.encode.rdf.members import read_members

GIPOD = BESIDE / "data" / "gipod"
STREAM = """</hindrances> a ldes:EventStream ;
  ldes:timestampPath prov:generatedAtTime ; ldes:versionOfPath dct:isVersionOf ;
  tree:shape [ a sh:NodeShape ; sh:targetClass <https://data.vlaanderen.be/ns/mobiliteit#Mobiliteitshinder> ] .
"""
BY_MINUTE = """( [ a tree:HierarchicalTimeBasedFragmentation ; tree:maxGranularity "minute" ;
  tree:fragmentationPath prov:generatedAtTime ] )"""
TURTLE = {"Content-Type": "text/turtle"}
NQUADS = {"Content-Type": "application/n-quads"}
TIME = re.compile(r'<http://www\.w3\.org/ns/prov#generatedAtTime> "([^"]+)"')

pytestmark = [pytest.mark.client, pytest.mark.skipif(not GIPOD.is_dir(), reason="GIPOD members not found")]


@contextmanager
def serving(folder: Path, *options: str, environ: dict[str, str] | None = None) -> Iterator[tuple[str, str]]:
    """A server on a store in a folder: its address, and that of the port that event streams have to themselves."""
    ports = []
    with socket.socket() as one, socket.socket() as two:
        for probe in (one, two):
            probe.bind(("127.0.0.1", 0))
            ports.append(probe.getsockname()[1])
    command = [
        sys.executable, "-m", "thalweg", "serve", "--store", f"sqlite:///{folder / 'ldes.sqlite'}",
        "--port", str(ports[0]), "--workers", "2", "--anonymous-role", "network-manager", *options,
    ]  # fmt: skip
    variables = {k: v for k, v in os.environ.items() if not k.startswith("THALWEG_")}
    variables |= {"THALWEG_LDES_PORT": str(ports[1])} | (environ or {})
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "(event streams)" in line:
                break
        yield f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}"
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


@pytest.fixture(scope="module")
def program() -> Path:
    return ldes_client.installed()


def templated(number: object) -> str:
    template = (GIPOD / "member_template.ttl").read_text()
    return template.replace("${__threadNum}${member_counter}", str(number))


def iri_of(block: str) -> str:
    """The member of a block: the only named version with a timestamp."""
    found = set(re.findall(r"^<([^>]+)> <http://www\.w3\.org/ns/prov#generatedAtTime>", block, re.MULTILINE))
    assert len(found) == 1, block[:500]
    return str(found.pop())


def instant(block: str) -> datetime:
    found = TIME.search(block)
    assert found is not None
    return datetime.fromisoformat(found[1])


def settled(server: str, views: int, members: int) -> None:
    """Wait as the public test plans do: for the line of each view to have the count."""
    deadline = time.monotonic() + 60
    pattern = re.compile(r'ldes_server_pagination_members_count\{collection="hindrances",view="[^"]+",\} (\d+\.\d+)')
    while time.monotonic() < deadline:
        text = httpx.get(f"{server}/actuator/prometheus").text
        counts = [float(count) for count in pattern.findall(text)]
        if counts == [float(members)] * views:
            return
        time.sleep(0.1)
    raise AssertionError(f"the views did not fill: {text}")


def real_members() -> dict[str, str]:
    """The 150 real members by IRI."""
    text = (GIPOD / "members.nq").read_text()
    iris = re.findall(r"^# member \d+: (\S+)", text, re.MULTILINE)
    found = re.split(r"^# member \d+: .*\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(iris, found, strict=True))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The 150 real members in three views, at the root of a port of their own."""
    with serving(tmp_path_factory.mktemp("served")) as (_, server), httpx.Client(base_url=server) as client:
        answer = client.post("/admin/api/v1/eventstreams", content=PREFIXES + STREAM, headers=TURTLE)
        assert answer.status_code == 201, answer.text
        for name, strategies in (("by-page", PAGED), ("by-time", BY_MINUTE), ("by-location", BY_LOCATION)):
            body = PREFIXES + view_document(name, strategies, 40)
            answer = client.post("/admin/api/v1/eventstreams/hindrances/views", content=body, headers=TURTLE)
            assert answer.status_code == 201, answer.text
        # As the public plans do, which never made it.
        assert client.delete("/admin/api/v1/eventstreams/hindrances/views/none").status_code == 200
        for body in real_members().values():
            assert client.post("/hindrances", content=body, headers=NQUADS).status_code == 201
        settled(server, 3, 150)
        yield server


@pytest.mark.parametrize("view", ["by-page", "by-time", "by-location"])
def test_whole_view_is_replicated(served: str, program: Path, view: str) -> None:
    found = ldes_client.run(program, f"{served}/hindrances/{view}")
    assert {iri_of(block) for block in found} == set(real_members())


def test_the_stream_itself_is_a_place_to_start(served: str, program: Path) -> None:
    found = ldes_client.run(program, f"{served}/hindrances")
    assert {iri_of(block) for block in found} == set(real_members())


def test_members_arrive_with_the_triples_that_were_posted(served: str, program: Path) -> None:
    """What hangs on the member itself: the client takes a member for what its subject leads to by blank nodes."""
    posted = real_members()
    for block in ldes_client.run(program, f"{served}/hindrances/by-page", "--no-shape"):
        iri = iri_of(block)
        source = rdflib.Graph().parse(data=posted[iri], format="nt")
        wanted, waiting = rdflib.Graph(), [rdflib.URIRef(iri)]
        while waiting:
            subject = waiting.pop()
            for triple in source.triples((subject, None, None)):
                wanted.add(triple)
                if isinstance(triple[2], rdflib.BNode):
                    waiting.append(triple[2])  # type: ignore[arg-type]
        found = rdflib.Graph()
        for s, p, o in rdflib.Graph().parse(data=block, format="turtle"):
            if s == rdflib.URIRef(iri) or isinstance(s, rdflib.BNode):
                found.add((s, p, o))
        assert isomorphic(lower(found), lower(wanted)), iri


def lower(graph: rdflib.Graph) -> rdflib.Graph:
    """Languages in lower case."""
    result = rdflib.Graph()
    for s, p, o in graph:
        if isinstance(o, rdflib.Literal) and o.language:
            o = rdflib.Literal(str(o), lang=o.language.lower())
        result.add((s, p, o))
    return result


@pytest.mark.parametrize(
    ("view", "order"), [("by-time", "ascending"), ("by-time", "descending"), ("by-page", "ascending")]
)
def test_members_come_in_order(served: str, program: Path, view: str, order: str) -> None:
    found = ldes_client.run(program, f"{served}/hindrances/{view}", "-o", order)
    assert {iri_of(block) for block in found} == set(real_members())
    times = [instant(block) for block in found]
    assert times == sorted(times, reverse=order == "descending")


def test_relations_let_the_client_leave_out_other_times(served: str, program: Path) -> None:
    posted = {iri: instant(body) for iri, body in real_members().items()}
    middle = sorted(posted.values())[75]
    for option, expected in (
        ("--after", {iri for iri, at in posted.items() if at > middle}),
        ("--before", {iri for iri, at in posted.items() if at < middle}),
    ):
        found = ldes_client.run(program, f"{served}/hindrances/by-time", option, middle.isoformat())
        assert {iri_of(block) for block in found} == expected


def test_last_versions_only(served: str, program: Path) -> None:
    found = ldes_client.run(program, f"{served}/hindrances/by-time", "--last-version-only")
    versions = re.compile(r"<http://purl\.org/dc/terms/isVersionOf> <([^>]+/mobility-hindrances/\d+)>")
    objects = {str(versions.findall(body)[0]) for body in real_members().values()}
    assert len(found) == len(objects)


def test_follower_gets_what_comes_later(served: str, program: Path) -> None:
    address = f"{served}/hindrances/by-page"
    command = ldes_client.command(program, address, "-f", "--poll-interval", "500")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        lines: Queue[str] = Queue()
        assert process.stdout is not None
        stream = process.stdout

        def read() -> None:
            for line in stream:
                lines.put(line)

        threading.Thread(target=read, daemon=True).start()
        try:
            seen: set[str] = set()

            def until(count: int) -> None:
                deadline = time.monotonic() + 60
                while len(seen) < count:
                    try:
                        line = lines.get(timeout=max(0.1, deadline - time.monotonic()))
                    except Empty:
                        raise AssertionError(f"only {len(seen)} of {count} came") from None
                    match = re.match(r"<([^>]+)> <http://www\.w3\.org/ns/prov#generatedAtTime>", line)
                    if match is not None:
                        seen.add(match[1])

            until(150)
            new = [templated(f"77{n}") for n in range(10)]
            for body in new:
                assert httpx.post(f"{served}/hindrances", content=body, headers=TURTLE).status_code == 201
            # The pages that can still change may be kept by caches for a minute, and the client heeds that.
            until(160)
        finally:
            process.kill()


def test_conditional_and_compressed_requests(served: str) -> None:
    address = f"{served}/hindrances/by-page?pageNumber=1"
    with httpx.Client() as client:
        for kind in ("application/n-quads", "application/trig", "text/turtle", "application/ld+json"):
            headers = {"Accept": kind, "Accept-Encoding": "identity"}
            plain = client.get(address, headers=headers)
            assert plain.status_code == 200
            assert not plain.headers["ETag"].startswith("W/")
            assert plain.headers["Cache-Control"] == "public,max-age=604800,immutable"
            packed = client.get(address, headers={"Accept": kind, "Accept-Encoding": "gzip"})
            assert packed.headers["Content-Encoding"] == "gzip"
            assert packed.content == plain.content
            known = client.get(address, headers=headers | {"If-None-Match": plain.headers["ETag"]})
            assert (known.status_code, known.content) == (304, b"")
            assert known.headers["Cache-Control"] == plain.headers["Cache-Control"]
        head = client.head(address)
        assert (head.status_code, head.content) == (200, b"")
        assert client.options(address).status_code == 204
        assert client.put(address).status_code == 405


def test_both_mounts_serve_the_same_members_under_their_own_links(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, own):
        answer = httpx.post(f"{server}/ldes/admin/api/v1/eventstreams", content=PREFIXES + STREAM, headers=TURTLE)
        assert answer.status_code == 201
        body = PREFIXES + view_document("by-page", PAGED, 40)
        answer = httpx.post(f"{own}/admin/api/v1/eventstreams/hindrances/views", content=body, headers=TURTLE)
        assert answer.status_code == 201
        assert httpx.post(f"{own}/hindrances", content=templated(1), headers=TURTLE).status_code == 201
        assert httpx.post(f"{server}/ldes/hindrances", content=templated(1), headers=TURTLE).status_code == 200
        assert f"<{own}/hindrances>" in httpx.get(f"{own}/hindrances", headers={"Accept": "application/n-quads"}).text
        text = httpx.get(f"{server}/ldes/hindrances", headers={"Accept": "application/n-quads"}).text
        assert f"<{server}/ldes/hindrances>" in text
        assert own not in text
        assert httpx.get(f"{own}/actuator/health").json() == {"status": "UP"}
        # Other doors are not there.
        assert httpx.get(f"{own}/sos").status_code == 404
        assert httpx.get(f"{server}/sos?service=SOS&request=GetCapabilities").status_code == 200


@pytest.mark.long
@pytest.mark.timeout(600)
def test_100_000_templated_members_are_replicated(tmp_path: Path, program: Path) -> None:
    count = 100_000
    ldes = Ldes(tmp_path)
    try:
        ldes.create(("by-page", PAGED, 250), stream=STREAM)
        stream = ldes.services.streams.streams(1)["hindrances"]
        template = (GIPOD / "member_template.ttl").read_bytes()
        for begin in range(0, count, 1_000):
            members = [
                read_members(stream, template.replace(b"${__threadNum}${member_counter}", b"%d-" % n), "text/turtle")[0]
                for n in range(begin, begin + 1_000)
            ]
            assert ldes.services.streams.append(stream, members).result(60).new == 1_000
        ldes.settle()
    finally:
        ldes.close()
    with serving(tmp_path) as (_, server):
        settled(server, 1, count)
        command = ldes_client.command(program, f"{server}/hindrances/by-page")
        seen: set[str] = set()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if "#generatedAtTime>" in line:
                    seen.add(line.partition(">")[0])
        assert process.returncode == 0
        assert len(seen) == count


def test_port_of_event_streams_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = [
            sys.executable, "-m", "thalweg", "serve", "--store", f"sqlite:///{tmp_path / 'ldes.sqlite'}",
            "--port", "0", "--workers", "1",
        ]  # fmt: skip
        environ = {k: v for k, v in os.environ.items() if not k.startswith("THALWEG_")}
        environ["THALWEG_LDES_PORT"] = str(taken.getsockname()[1])
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "ldes_port" in done.stderr
    assert "another program listens on it" in done.stderr
