"""Every line of the attack list and every advisory that applies to what is served, tried on a started server.

Right is, unless a test says otherwise: refused with 4xx (or answered as if nothing were meant) within a second, nothing
shown that is not the client's, no connection out, no file opened, workers as they were. The last three are looked at
once for all, when the server stops.
"""

from __future__ import annotations

import gzip
import html
import http.client
import json
import re
import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from lxml import etree
from tests.conformance.sos_support import NS20, SOS20, register_sensor
from tests.fuzz import fragments, harness
from tests.fuzz.attack_lines import ADVISORIES, ATTACKS, LATER
from tests.fuzz.support import declared, doors

from thalweg.app import DOOR_PATHS
from thalweg.auth.sessions import csrf_token

TRIED: dict[str, set[str]] = {}
Test = Callable[..., None]
REPOSITORY = Path(__file__).resolve().parents[2]


def tries(*lines: str) -> Callable[[Test], Test]:
    """Marks a test with the lines it is for."""

    def mark(test: Test) -> Test:
        for line in lines:
            assert line in ATTACKS or line in ADVISORIES, line
            TRIED.setdefault(line, set()).add(test.__name__)
        return test

    return mark


ELSEWHERE: Mapping[str, str] = {
    "12": "conformance/test_server.py::test_dripping_head_is_closed_with_408",
    "CKAN CVE-2024-27097": "conformance/test_server.py::test_names_cannot_forge_log_lines",
    "CKAN CVE-2025-64100": "conformance/test_account_pages.py::test_a_new_session_at_each_sign_in",
}
"""Lines whose tests need another server than the one here."""


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


class Victim:
    """The server under attack."""

    def __init__(self, folder: Path) -> None:
        self.listener = harness.Listener()
        self.world = harness.build_world(folder, self.listener.address)
        self.server = harness.Server(folder)
        self.places = self.world.places
        self.tokens = {caller.name: caller.token for caller in self.world.callers}
        self.sessions = {caller.name: caller.session for caller in self.world.callers}
        self.open = self.world.targets["sos"]["open"].keys

    def ask(
        self, path: str, body: bytes | str | None = None, *, by: str = "", method: str = "", content_type: str = "text/xml",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:  # fmt: skip
        named = dict(headers or {})
        data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
        if data is not None:
            named.setdefault("Content-Type", content_type)
        if by:
            named["Authorization"] = f"Bearer {self.tokens[by]}"
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=100)
        started = time.monotonic()
        try:
            connection.request(method or ("GET" if data is None else "POST"), path, data, named)
            found = connection.getresponse()
            content = found.read()
            return Answer(
                found.status, {k.lower(): v for k, v in found.getheaders()}, content, time.monotonic() - started
            )
        finally:
            connection.close()

    def sos(self, **parameters: str) -> Answer:
        given = {"service": "SOS", "version": "2.0.0", "request": "GetObservation", **parameters}
        return self.ask("/sos?" + urlencode({k: v for k, v in given.items() if v}, errors="surrogatepass"))

    def raw(self, data: bytes, silence_s: float = 1.0) -> bytes:
        """Everything that comes back until the server closes, or so long a silence."""
        received = b""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as connection:
            try:
                connection.sendall(data)
                connection.settimeout(silence_s)
                while part := connection.recv(65536):
                    received += part
            except OSError:
                pass
        return received

    def form(self, path: str, by: str, **fields: str) -> Answer:
        body = urlencode({"csrf": csrf_token(self.sessions[by]), **fields}, errors="surrogatepass")
        cookie = {"Cookie": f"thalweg-session={self.sessions[by]}"}
        return self.ask(path, body, headers=cookie, content_type="application/x-www-form-urlencoded")

    def page(self, path: str, by: str) -> Answer:
        return self.ask(path, headers={"Cookie": f"thalweg-session={self.sessions[by]}"})


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    made = Victim(tmp_path_factory.mktemp("attacks"))
    try:
        yield made
        assert made.server.outgoing() == []
        assert made.server.children() == made.server.workers
        assert made.server.stop() == 0
        assert made.listener.calls == 0
        assert not made.server.audit.exists(), made.server.audit.read_text()
        log = made.server.log.read_text("utf-8", "replace")
        assert "Traceback" not in log, log[-5000:]
        code, text = made.server.check_store()
        assert code == 0, text
    finally:
        made.listener.close()
        if made.server.process.poll() is None:
            made.server.process.kill()


def refused(answer: Answer, *statuses: int, seconds: float = 1.0) -> None:
    """Mended by the client, quickly, in the door's form, without anything that is not the client's business."""
    assert answer.status in (statuses or (400, 401, 403, 404, 405, 413, 414, 431, 501)), (
        answer.status,
        answer.body[:500],
    )
    harmless(answer, seconds=seconds)


def harmless(answer: Answer, *, seconds: float = 1.0) -> None:
    # Tests of other processes share the machine: a second is what a quiet one has to do with.
    assert answer.seconds < 5 * seconds, answer.seconds
    assert answer.status < 500 or answer.status == 501, (answer.status, answer.body[:500])
    for leak in harness.LEAKS:
        assert leak not in answer.body, answer.body[:1000]
    assert "x-injected" not in answer.headers


def exception(answer: Answer) -> tuple[str, str | None]:
    """(code, locator) of an exception report."""
    found = etree.fromstring(answer.body).find("{http://www.opengis.net/ows/1.1}Exception")
    assert found is not None, answer.body[:500]
    return str(found.get("exceptionCode")), found.get("locator")


# ---------------------------------------------------------------- the list itself


def test_every_line_is_tried_or_has_a_door_that_has_to_bring_it() -> None:
    lines = {**ATTACKS, **ADVISORIES}
    for line, where in {
        **ELSEWHERE,
        **{k: v for door in (*doors(), "common") for k, v in declared(door).attacks.items()},
    }.items():
        assert line in lines, line
        file, _, name = where.partition("::")
        assert f"def {name}(" in (REPOSITORY / "tests" / file).read_text(), where
    for line, name in lines.items():
        if line in LATER:
            door, reason = LATER[line]
            assert reason
            if door in doors():
                assert line in declared(door).attacks, (
                    f"line {line} ({name}): the door '{door}' is here and does not try it"
                )
        else:
            assert line in TRIED or line in ELSEWHERE, f"line {line} ({name}) has no test"


# ---------------------------------------------------------------- HTTP

HOST = b"Host: a\r\n"


@tries("1", "2", "3", "4", "h11 CVE-2025-43859, gunicorn CVE-2024-1135, protocol-http1 CVE-2023-38697")
@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n+0x5\r\nhello\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n100000000000000000\r\nhello\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
        b"Content-Length: 5\r\nContent-Length: 7\r\n\r\nhello",
        b"Content-Length: +5\r\n\r\nhello",
    ],
)
def test_framing_that_can_be_read_in_two_ways_is_never_used(victim: Victim, head: bytes) -> None:
    smuggled = b"GET /metrics HTTP/1.1\r\n" + HOST + b"\r\n"
    found = victim.raw(b"POST /sos HTTP/1.1\r\n" + HOST + head + smuggled)
    statuses = re.findall(rb"HTTP/1\.1 (\d{3})", found)
    assert len(statuses) == 1, found
    assert statuses[0] in (b"400", b"501"), found


@tries("5", "6")
@pytest.mark.parametrize(
    "head", [b"X: " + b"y" * 4_000_000 + b"\r\n", b"".join(b"X-%d: y\r\n" % i for i in range(20_000))]
)
def test_headers_are_bounded(victim: Victim, head: bytes) -> None:
    found = victim.raw(b"GET /sos HTTP/1.1\r\n" + HOST + head + b"\r\n")
    # Of what is refused while it is sent, the answer may be lost with the rest.
    assert found[:13] in (b"HTTP/1.1 431 ", b"HTTP/1.1 400 ", b"")
    assert b"200 OK" not in found


@tries("7")
@pytest.mark.parametrize("head", [b"", b"Host: a\r\nHost: b\r\n"])
def test_a_host_is_named_once(victim: Victim, head: bytes) -> None:
    assert victim.raw(b"GET /sos HTTP/1.1\r\n" + head + b"\r\n").startswith(b"HTTP/1.1 400")


@tries("8", "37", "MapServer 7573, 7544, 7349, 7516, 7546, 7547, 7075")
def test_links_are_never_made_of_what_a_client_says(victim: Victim) -> None:
    """Neither the absolute path of a request, nor Host, nor what only a proxy may say."""
    headers = "".join(
        f"{name}: evil.example\r\n"
        for name in ("X-Forwarded-Host", "X-Forwarded-Server", "X-Host", "X-Original-Host", "Forwarded")
    )
    for path in ("http://evil.example/sos", "/sos", "//evil.example/sos"):
        query = "?service=SOS&request=GetCapabilities"
        found = victim.raw(
            f"GET {path}{query} HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Proto: evil\r\n{headers}Connection: close\r\n\r\n".encode()
        )
        assert found[:12] in (b"HTTP/1.1 200", b"HTTP/1.1 404")
        assert b"evil.example" not in found
    for offset in ('"><script>alert(1)</script>', "1 OR 1=1", "-1"):
        answer = victim.sos(offset=offset, count=offset, startIndex=offset)
        harmless(answer)
        assert b"<script>" not in answer.body


@tries("9")
@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "PUT", "DELETE", "PATCH", "PROPFIND"])
def test_other_methods_are_refused(victim: Victim, method: str) -> None:
    for path in ("/sos", "/", "/login", "/account", "/metrics"):
        answer = victim.ask(path, method=method, headers={"X-Secret": "mirrored"})
        assert answer.status in (400, 405)
        assert b"mirrored" not in answer.body


@tries("10")
def test_requests_sent_ahead_are_answered_in_order(victim: Victim) -> None:
    one = b"GET /health/live HTTP/1.1\r\n" + HOST
    found = victim.raw((one + b"\r\n") * 199 + one + b"Connection: close\r\n\r\n")
    assert found.count(b"HTTP/1.1 200 OK") == 200


@tries("11")
@pytest.mark.parametrize("door", doors())
def test_a_gzip_bomb_is_stopped_at_the_limit(victim: Victim, door: str) -> None:
    """A megabyte that would be a gigabyte."""
    bomb = gzip.compress(b"\0" * (64 << 20), 9, mtime=0) * 16
    before = max(map(victim.server.rss_mb, victim.server.workers))
    for by in ("", "admin"):
        answer = victim.ask(f"/{DOOR_PATHS.get(door, door)}", bomb, by=by, headers={"Content-Encoding": "gzip"})
        refused(answer, 413, 405, 400, seconds=3)
    grown = max(map(victim.server.rss_mb, victim.server.workers)) - before
    assert grown < harness.PEAK_MB


@tries("13", "Starlette CVE-2025-62727, -54121, CVE-2024-47874, CVE-2023-30798, -29159")
def test_ranges_parts_and_static_paths(victim: Victim) -> None:
    ranges = "bytes=" + ",".join(f"{i}-{i}" for i in range(5000))
    for path in ("/static/thalweg.css", "/sos?service=SOS&request=GetCapabilities", "/"):
        answer = victim.ask(path, headers={"Range": ranges[:30_000]})
        assert answer.status in (200, 206, 400, 416)
        assert len(answer.body) < 200_000
        harmless(answer)
    for path in ("/static/../pages.py", "/static../pages.py", "/static/..%2fpages.py", "/static/%2e%2e/pages.py", "/static//etc/passwd",
                 "/static/..%5cpages.py", "/static/thalweg.css%00.py", "/static/" + "a/" * 3000):  # fmt: skip
        refused(victim.ask(path), 404, 400)
    parts = (
        b"".join(b'--x\r\nContent-Disposition: form-data; name="a%d"\r\n\r\n1\r\n' % i for i in range(20_000))
        + b"--x--\r\n"
    )
    for path in ("/login", "/logout", "/account/tokens", "/sos"):
        refused(victim.ask(path, parts, content_type="multipart/form-data; boundary=x"), 400, 403, 413)
        refused(
            victim.ask(path, b"a=" + b"b" * 10_000_000, content_type="application/x-www-form-urlencoded"),
            400,
            403,
            413,
            seconds=2,
        )


@tries("14")
def test_clients_that_reset_cost_nothing(victim: Victim) -> None:
    request = b"GET /sos?service=SOS&request=GetCapabilities HTTP/1.1\r\n" + HOST + b"\r\n"
    for _ in range(100):
        connection = socket.create_connection(("127.0.0.1", victim.server.port), timeout=5)
        connection.sendall(request)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    assert victim.ask("/health/ready").status == 200


@tries("uvicorn CVE-2020-7695, -7694")
@pytest.mark.parametrize(
    "text", ["%0d%0aX-Injected: 1", "\r\nX-Injected: 1", "%E5%98%8A%E5%98%8DX-Injected: 1", "\x1b[2J"]
)
def test_answers_are_never_split(victim: Victim, text: str) -> None:
    for path in (
        f"/sos?{urlencode({'service': 'SOS', 'request': text, 'version': text})}",
        f"/{quote(text)}/sos",
        f"/static/{quote(text)}",
        f"/login?next={quote(text)}",
    ):
        answer = victim.ask(path)
        assert "x-injected" not in answer.headers
        assert answer.status < 500
    log = victim.server.log.read_bytes()
    assert b"\x1b[2J" not in log
    assert b"\nX-Injected" not in log


# ---------------------------------------------------------------- XML

SERVICE = 'service="SOS" version="2.0.0"'
QUESTION = f"<sos:GetCapabilities {NS20} service='SOS'>%s</sos:GetCapabilities>"


@tries(
    "15",
    "16",
    "GeoServer CVE-2025-58360, -30220, -58175, CVE-2024-34711, GEOS-7032",
    "lxml CVE-2026-41066, OWSLib CVE-2023-27476",
)
@pytest.mark.parametrize("prologue", [p for p in fragments.PROLOGUES if "DOCTYPE" in p])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_document_types_are_refused(victim: Victim, prologue: str, encoding: str) -> None:
    body = (
        fragments.fill(prologue, victim.places)
        + QUESTION % "<ows:AcceptVersions><ows:Version>&x;</ows:Version></ows:AcceptVersions>"
    )
    for by in ("", "admin"):
        answer = victim.ask("/sos", body.encode(encoding), by=by)
        refused(answer, 400, 413)
        assert fragments.CONTENT not in answer.text
    form = urlencode({"request": body})
    refused(victim.ask("/sos", form, content_type="application/x-www-form-urlencoded"), 400, 413)
    filtered = (
        fragments.fill(prologue, victim.places)
        + "<ogc:PropertyIsLessThan><ogc:Literal>&x;</ogc:Literal></ogc:PropertyIsLessThan>"
    )
    if len(filtered) < 3000:
        refused(victim.sos(result=filtered, featureOfInterest=filtered, version="1.0.0", offering=victim.open["network"], responseFormat="text/csv",
                           observedProperty=victim.open["parameter"]), 400)  # fmt: skip


@tries(
    "17",
    "GeoServer CVE-2023-43795, -41339, CVE-2024-40625",
    "GeoServer CVE-2025-58360, -30220, -58175, CVE-2024-34711, GEOS-7032",
)
def test_addresses_in_documents_are_never_asked(victim: Victim) -> None:
    calls = victim.listener.calls
    address = f"http://{victim.listener.address}/x"
    for text in (*fragments.ELEMENTS[:6], fragments.PROLOGUES[8]):
        inside = fragments.fill(text, victim.places)
        answer = victim.ask("/sos", inside + QUESTION % "" if inside.startswith("<?") else QUESTION % inside)
        harmless(answer)
        assert fragments.CONTENT not in answer.text
    located = QUESTION.replace(
        "service=", f"xsi:schemaLocation='{SOS20} {address}' xsi:noNamespaceSchemaLocation='{address}' service="
    )
    assert victim.ask("/sos", located % "").status == 200
    # As the place of a sensor, of its feature, of its documents: kept as text.
    body = register_sensor("LISTENED").replace(
        'xlink:href="urn:ogc:def:feature:x-istsos:1.0:listened"', f'xlink:href="{address}"'
    )
    body = body.replace(
        "<sml:outputs>",
        f'<sml:documentation xlink:href="{address}"/><sml:interfaces xlink:href="{address}"/><sml:outputs>',
    )
    harmless(victim.ask("/sos", body, by="admin"))
    for name in (
        "sld",
        "remote_ows_url",
        "url",
        "schema",
        "namespaces",
        "responseFormat",
        "srsName",
        "crs",
        "procedureDescriptionFormat",
    ):
        harmless(victim.sos(**{name: address}))
    assert victim.listener.calls == calls


@tries("18")
def test_depth_and_number_of_nodes_are_bounded(victim: Victim) -> None:
    deep = b"<a>" * 100_000 + b"</a>" * 100_000
    wide = b"<a " + b" ".join(b"b%d=''" % i for i in range(200_000)) + b"/>"
    spaces = b"<a " + b" ".join(b"xmlns:b%d='u%d'" % (i, i) for i in range(50_000)) + b"/>"
    for body in (deep, wide, spaces, b"<a>" * 100_000, b"<a/>" * 100_000, b"<" + b"a" * 5_000_000 + b"/>"):
        for by in ("", "admin"):
            refused(victim.ask("/sos", body, by=by), 400, 413, seconds=2)


# ---------------------------------------------------------------- SOS

HOSTILE_NAMES = ("' OR '1'='1", "'; DROP TABLE track; --", "%", "_", "a%' --", "\0", "x\0y", "(a|a)*$", "(a+)+$" + "a" * 30, "[[:alpha:]]", "*", "sqlite_master",
                 "exec(java.lang.Runtime.getRuntime(),'id')", "*[1]/../x", "count(//*)", "\ud800")  # fmt: skip


@tries("19", "GeoServer CVE-2024-36401", "52°North SOS, FROST, istSOS")
@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_names_are_looked_up_and_never_evaluated(victim: Victim, name: str) -> None:
    for parameter in ("procedure", "offering", "observedProperty", "featureOfInterest"):
        refused(victim.sos(**{parameter: name}), 400)
    for parameter in ("temporalFilter", "spatialFilter"):
        refused(victim.sos(**{parameter: f"{name},2014-01-01"}), 400)
    refused(
        victim.sos(
            request="DescribeSensor", procedure=name, procedureDescriptionFormat="http://www.opengis.net/sensorml/2.0"
        ),
        400,
    )
    # An id of nothing is answered by no observation (OGC 12-006 clause 10).
    answer = victim.sos(request="GetObservationById", observation=name)
    harmless(answer)
    assert answer.status == 400 or len(etree.fromstring(answer.body)) == 0


@tries("20")
@pytest.mark.parametrize(
    "text",
    [
        t
        for t in fragments.INJECTIONS
        if t.startswith(("+", "EPSG:9", "EPSG:-", "urn:ogc:def:crs", "http://www.opengis.net/def", "GEOGCS", "PROJCS"))
    ],
)
def test_no_text_but_a_code_names_a_crs(victim: Victim, text: str) -> None:
    crs = fragments.fill(text, victim.places)
    refused(victim.sos(crs=crs), 400)
    refused(victim.sos(spatialFilter=f"om:featureOfInterest/*/sams:shape,0,0,1,1,{crs}"), 400)
    if "<" not in crs and '"' not in crs:
        gml = f"<gml:Point srsName='{crs}'><gml:pos>8 46</gml:pos></gml:Point>"
        body = f"<sos:GetFeatureOfInterest {NS20} {SERVICE}><sos:spatialFilter><fes:Intersects><fes:ValueReference>sams:shape</fes:ValueReference>{gml}</fes:Intersects></sos:spatialFilter></sos:GetFeatureOfInterest>"
        refused(victim.ask("/sos", body), 400)


@tries("21", "25", "GeoServer CVE-2025-30145, MapServer GHSA-6jr5-rc9c-p3cj, GHSA-33h3-f4q2-pq5q")
@pytest.mark.parametrize(
    "text",
    ["2014-01-01/PT0S", "2014-01-01/-P1D", f"2014-01-01/P{'9' * 400}D", f"2014-01-01/PT0.{'0' * 400}1S", "9" * 14_000, "2014-01-01T00:00:00." + "1" * 10_000,
     "0001-01-01/P9999Y", "PT1S/PT1S"],
)  # fmt: skip
def test_odd_times_are_refused_or_empty(victim: Victim, text: str) -> None:
    answer = victim.sos(temporalFilter=f"om:phenomenonTime,{text}")
    harmless(answer)
    assert answer.status in (200, 400)
    for interval in ("PT0S", "-P1D", "PT1S", "P" + "9" * 400 + "D"):
        refused(victim.sos(version="1.0.0", offering=victim.open["network"], observedProperty=victim.open["parameter"], responseFormat="text/csv",
                           eventTime="0001-01-01/9999-12-31", aggregateInterval=interval, aggregateFunction="AVG"), 400, 501)  # fmt: skip


@tries("22")
def test_twenty_thousand_time_filters_are_refused(victim: Victim) -> None:
    one = "<sos:temporalFilter><fes:TEquals><fes:ValueReference>phenomenonTime</fes:ValueReference><gml:TimeInstant gml:id='t'><gml:timePosition>2014-01-01</gml:timePosition></gml:TimeInstant></fes:TEquals></sos:temporalFilter>"
    refused(
        victim.ask("/sos", f"<sos:GetObservation {NS20} {SERVICE}>{one * 20_000}</sos:GetObservation>"),
        400,
        413,
        seconds=2,
    )
    # As many as an address can hold.
    refused(victim.sos(temporalFilter="phenomenonTime," + ",".join(["2014"] * 1500)), 400)


@tries("23")
@pytest.mark.parametrize(
    "box",
    [
        "nan,nan,nan,nan",
        "-inf,-inf,inf,inf",
        "0,0,1e999,1",
        "0,0,1,1,1",
        "1e308,1e308,-1e308,-1e308",
        "0x0,0,1,1",
        "1_0,0,20,1",
    ],
)
def test_boxes_have_finite_corners(victim: Victim, box: str) -> None:
    answer = victim.sos(spatialFilter=f"om:featureOfInterest/*/sams:shape,{box}")
    refused(answer, 400)
    assert exception(answer) == ("InvalidParameterValue", "spatialFilter")


def inserted(victim: Victim, values: str, by: str = "admin", count: str = "1") -> Answer:
    from tests.conformance.sos_support import insert_observation, quantity

    body = insert_observation(
        victim.open["sensor"], "X", values, begin="2015-01-01", end="2016-01-01", fields=quantity(victim.open["parameter"], "Cel"),
        feature=f'xlink:href="{victim.open["feature"]}"/>',
    )  # fmt: skip
    body = body.replace("urn:ogc:def:procedure:x-istsos:1.0:X", victim.open["procedure"]).replace(
        "<swe:value>3</swe:value>", f"<swe:value>{count}</swe:value>"
    )
    return victim.ask("/sos", body, by=by)


@tries("24")
def test_numbers_are_finite_and_come_back_as_they_were(victim: Victim) -> None:
    for number in ("1e400", "-1e400", "inf", "Infinity", "0x1p3", "1_0", "٣", "9" * 5000):
        refused(inserted(victim, f"2015-02-01T00:00:00Z,{number}"), 400)
    for minute, number in enumerate(("NaN", "-0", "5e-324", "1.7976931348623157e308", "0.1")):
        assert inserted(victim, f"2015-03-01T00:{minute:02}:00Z,{number}").status == 200
    answer = victim.sos(
        procedure=victim.open["procedure"],
        temporalFilter="phenomenonTime,2015-03-01/2015-03-02",
        responseFormat="text/csv",
    )
    cells = [line.rpartition(",")[2] for line in answer.text.splitlines()[1:]]
    assert [float(cell) for cell in cells if cell] == [-0.0, 5e-324, 1.7976931348623157e308, 0.1]


@tries("26")
def test_many_tokens_and_wrong_counts(victim: Victim) -> None:
    refused(inserted(victim, ",".join(["1"] * 400_000)), 400, seconds=2)
    refused(inserted(victim, "@".join(["2015-04-01T00:00:00Z,1"] * 200_000)), 400, seconds=4)
    # The count is what a client says of its own rows; the rows themselves are counted.
    for count in ("-1", "0", "9" * 30, "x"):
        answer = inserted(victim, "2015-04-01T00:00:00Z", count=count)
        refused(answer, 400)
    refused(victim.ask("/sos", f"<sos:InsertResult {NS20} {SERVICE}><sos:template>x</sos:template><sos:resultValues>{'1,' * 200_000}</sos:resultValues></sos:InsertResult>",
                       by="admin"), 501)  # fmt: skip


@tries("27")
def test_nobody_changes_anything_without_a_role(victim: Victim) -> None:
    before = victim.sos(procedure=victim.open["procedure"], responseFormat="text/csv").text
    table = harness.rows_of("sos")
    target = victim.world.targets["sos"]["open"]
    for by, statuses in (("", (401,)), ("viewer", (403,)), ("nobody", (403,))):
        for row in table.rows:
            if row.operation.startswith(("Insert", "Register", "Delete")):
                sent = row.send(target, 777)
                assert victim.ask(sent.path, sent.body, by=by).status in statuses
    assert victim.sos(procedure=victim.open["procedure"], responseFormat="text/csv").text == before


@tries("28", "GeoServer CVE-2024-23640, -23642, -23643, -23818, -23819, -23821, CVE-2023-51445, CVE-2025-21621")
@pytest.mark.parametrize("text", [t for t in fragments.INJECTIONS if fragments.MARK in t and "\n" not in t])
def test_markup_comes_back_as_text(victim: Victim, text: str) -> None:
    for parameters in ({"request": text}, {"service": text}, {"version": text}, {"request": "GetCapabilities", "acceptVersions": text, "version": ""},
                       {"procedure": text}, {"crs": text}):  # fmt: skip
        answer = victim.sos(**parameters)
        refused(answer, 400)
        assert answer.headers["content-type"] in ("application/xml", "text/xml")
        assert answer.headers["x-content-type-options"] == "nosniff"
        # Well-formed, and with none of the client's elements.
        assert {str(item.tag) for item in etree.fromstring(answer.body).iter()} <= {
            "{http://www.opengis.net/ows/1.1}" + name for name in ("ExceptionReport", "Exception", "ExceptionText")
        }
    for path in (
        f"/{quote(text)}",
        f"/{quote(text)}/sos",
        f"/login?x={quote(text)}",
        f"/account?{quote(text)}",
        f"/admin/audit?since={quote(text)}",
        f"/static/{quote(text)}",
    ):
        answer = victim.page(path, "admin")
        assert answer.status < 500
        if "html" in answer.headers.get("content-type", ""):
            assert text not in answer.text
            assert "unsafe" not in answer.headers["content-security-policy"]


# ---------------------------------------------------------------- pages and accounts


@tries(
    "63",
    "GeoServer CVE-2023-41877, -51444, CVE-2024-23634, -24749, CVE-2025-52465",
    "CKAN CVE-2023-50248, -32321, CVE-2022-43685",
)
@pytest.mark.parametrize(
    "name",
    [
        "..",
        "../..",
        "..%2f..",
        "/etc/passwd",
        "default;DROP SCHEMA public",
        "default'--",
        "\0",
        "default\0",
        "%00",
        "__class__",
        "a" * 5000,
        "DEFAULT",
        "static",
    ],
)
def test_names_of_workspaces_lead_nowhere(victim: Victim, name: str) -> None:
    answer = victim.ask(f"/{quote(name, safe='/%')}/sos?service=SOS&request=GetCapabilities")
    refused(answer, 400, 404)
    assert "Capabilities" not in answer.text[:200]


@tries("64")
@pytest.mark.parametrize(
    "header",
    [
        "X-Remote-User",
        "Remote-User",
        "REMOTE_USER",
        "X-Forwarded-User",
        "X-Forwarded-For",
        "X-Real-IP",
        "Client-IP",
        "X-Original-URL",
        "X-Rewrite-URL",
        "X-HTTP-Method-Override",
    ],
)
def test_headers_of_proxies_make_nobody_else(victim: Victim, header: str) -> None:
    for value in ("admin", "fuzz-admin", "127.0.0.1", "/admin/audit", "GET"):
        headers = {header: value}
        assert victim.ask("/admin/audit", headers=headers).status == 401
        assert victim.ask("/metrics", headers=headers).status in (401, 403)
        assert victim.ask("/sos", register_sensor("FORGED"), headers=headers).status == 401
        assert victim.ask("/", headers=headers).status == 200


@tries("65", "GeoServer CVE-2024-29198, CVE-2021-40822")
@pytest.mark.parametrize(
    "where",
    [
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "%2f%2fevil.example",
        "/..//evil.example",
    ],
)
def test_no_page_leads_or_asks_elsewhere(victim: Victim, where: str) -> None:
    for path in ("/login", "/logout", "/account", "/", where, f"//{where}"):
        for name in ("next", "url", "redirect", "came_from", "return_to"):
            answer = victim.ask(f"{quote(path)}?{name}={quote(where)}")
            assert "evil" not in answer.headers.get("location", "")
            assert answer.status < 500
    answer = victim.form("/logout", "nobody", next=where, url=where)
    assert answer.headers.get("location") == "login"
    # No page has a form that goes elsewhere, or a builder of requests that the server would send.
    for path in ("/", "/login"):
        text = victim.ask(path).text
        assert not re.findall(r'<form[^>]*action="(?:https?:|//)', text)
        assert "<script" not in text


@tries("66")
def test_forged_tokens_and_cookies_are_nobody(victim: Victim) -> None:
    pickled = "gASVKAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjA10b3VjaCAvdG1wL3iUhZRSlC4="
    for token in (
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZG1pbiJ9.AAAA",
        "tw_" + "A" * 43,
        pickled,
        "null",
        "undefined",
    ):
        answer = victim.ask("/admin/audit", headers={"Authorization": f"Bearer {token}"})
        assert answer.status == 401
    for cookie in (
        pickled,
        json.dumps({"user": "admin"}),
        "admin",
        victim.sessions["admin"][:-1],
        victim.sessions["admin"] + "x",
        csrf_token(victim.sessions["admin"]),
    ):
        assert victim.ask("/admin/audit", headers={"Cookie": f"thalweg-session={quote(cookie)}"}).status == 401
    # Shown to be right: the session itself is let in.
    assert victim.page("/admin/audit", "admin").status == 200


@tries(
    "67",
    "GeoServer CVE-2024-45747, -45748, Jinja2 CVE-2025-27516, CVE-2019-10906, CVE-2016-10745",
    "CKAN CVE-2025-54384, -24372, CVE-2024-41675, CVE-2021-25967",
)
def test_templates_and_markup_in_stored_texts_are_text(victim: Victim) -> None:
    text = '{{1337*1338}}${1337*1338}<%= 1337*1338 %>"><script>alert(1)</script>[x](javascript:alert(1))'
    assert victim.form("/account/tokens", "viewer", label=text, days="1").status == 200
    page = victim.page("/account", "viewer").text
    assert html.escape("<script>") in page
    assert "<script" not in page
    assert fragments.SUM not in page
    body = (
        register_sensor("SSTI")
        .replace("station SSTI", html.escape(text))
        .replace("<gml:name>SSTI</gml:name>", f"<gml:name>{html.escape(text)}</gml:name>")
    )
    assert victim.ask("/sos", body, by="admin").status == 200
    for path in (
        "/",
        "/sos?service=SOS&request=GetCapabilities&acceptVersions=1.0.0",
        "/sos?service=SOS&request=GetCapabilities",
    ):
        found = victim.ask(path).text
        assert fragments.SUM not in found
        assert "<script" not in found
    described = victim.sos(
        request="DescribeSensor",
        procedure="urn:ogc:def:procedure:x-istsos:1.0:SSTI",
        procedureDescriptionFormat="http://www.opengis.net/sensorml/2.0",
    )
    assert described.status == 200
    assert etree.fromstring(described.body).findall(".//{*}script") == []


def login(victim: Victim, name: str, password: str) -> Answer:
    fields = {"csrf": csrf_token("x"), "name": name, "password": password}
    return victim.ask(
        "/login",
        urlencode(fields, errors="surrogatepass"),
        headers={"Cookie": "thalweg-form=x"},
        content_type="application/x-www-form-urlencoded",
    )


@tries("68")
def test_signing_in_tells_nothing_of_names(victim: Victim) -> None:
    refused(login(victim, "visitor", "x" * 1_000_000), 413, 400)
    refused(login(victim, "visitor\0", "\0"), 401, 429, 400)
    refused(login(victim, "\ud800", "\ud800"), 400, 401, 403)
    refused(victim.ask("/login", b"\0" * 1000, content_type="application/x-www-form-urlencoded"), 400, 403)
    times: dict[str, list[float]] = {"visitor": [], "nobody-of-this-name": []}
    for _ in range(3):
        for name, found in times.items():
            answer = login(victim, name, "wrong password")
            assert answer.status == 401
            found.append(answer.seconds)
    known, unknown = (statistics.median(found) for found in times.values())
    assert max(known, unknown) < 2 * min(known, unknown) + 0.1


@tries("68")
@pytest.mark.parametrize("count", [12, pytest.param(60, marks=pytest.mark.long)])
def test_many_sign_ins_at_once_hold_up_nobody_and_fill_no_memory(victim: Victim, count: int) -> None:
    before = min(map(victim.server.rss_mb, victim.server.workers))
    peak, answers = [0.0], []

    def many(number: int) -> None:
        answers.append(login(victim, f"name-{count}-{number}", "wrong password"))

    threads = [threading.Thread(target=many, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        peak[0] = max(peak[0], *map(victim.server.rss_mb, victim.server.workers))
        # Others are served meanwhile.
        assert victim.ask("/health/live").status == 200
        time.sleep(0.2)
    assert {answer.status for answer in answers} <= {401, 429, 503}
    assert all(answer.headers.get("retry-after") for answer in answers if answer.status in (429, 503))
    assert peak[0] - before < harness.PEAK_MB + harness.HASHING_MB


@tries("CKAN CVE-2026-41255")
def test_a_form_of_another_site_changes_nothing(victim: Victim) -> None:
    cookie = f"thalweg-session={victim.sessions['admin']}"
    own = csrf_token(victim.sessions["admin"])
    for kind in (
        "text/plain",
        "application/json",
        "multipart/form-data; boundary=x",
        "application/x-www-form-urlencoded",
    ):
        for path in ("/account/tokens", "/account/password", "/account/revoke", "/logout"):
            for fields in ({}, {"csrf": csrf_token(victim.sessions["viewer"])}):
                answer = victim.ask(
                    path, urlencode({"label": "x", **fields}), content_type=kind, headers={"Cookie": cookie}
                )
                refused(answer, 400, 403)
            answer = victim.ask(path, urlencode({"csrf": own}), content_type="application/x-www-form-urlencoded",
                                headers={"Cookie": cookie, "Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"})  # fmt: skip
            refused(answer, 403)
    # A door by the cookie alone, as a browser would send it.
    refused(victim.ask("/sos", register_sensor("CSRF"), headers={"Cookie": cookie}, content_type="text/plain"), 403)
    assert victim.page("/account", "admin").status == 200


@tries(
    "CKAN CVE-2023-50248, -32321, CVE-2022-43685",
    "python-multipart CVE-2026-53539, -40347, -24486, CVE-2024-53981, -24762",
)
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"a;" * 200_000, "application/x-www-form-urlencoded"),
        (b"&".join(b"a%d=1" % i for i in range(200_000)), "application/x-www-form-urlencoded"),
        (b"-" * 600_000 + b"\r\n--x--", "multipart/form-data; boundary=x"),
        (
            b'--x\r\nContent-Disposition: form-data; name="a"; filename="../../x"\r\n\r\n1\r\n--x--',
            "multipart/form-data; boundary=x",
        ),
        (b"x", "multipart/form-data; boundary=" + "\\" * 30_000),
        (b"id=admin&name=admin&role=admin&sysadmin=true", "application/x-www-form-urlencoded"),
    ],
)
def test_odd_forms_are_refused_in_no_time(victim: Victim, body: bytes, kind: str) -> None:
    for path in ("/login", "/logout", "/account/tokens", "/account/password", "/sos"):
        # Whoever is not signed in is signed out already.
        also = (303,) if path == "/logout" else ()
        refused(victim.ask(path, body, content_type=kind), 400, 403, 413, 431, *also)


@tries("CKAN CVE-2023-50248, -32321, CVE-2022-43685")
def test_numbers_of_forms_and_queries_are_bounded(victim: Victim) -> None:
    """``000000001`` and thousands of digits more: the first nine of them are within the range."""
    for days in ("000000001" + "9" * 40, "1" * 5000, "0", "-1", "1e3", "٣", " "):
        answer = victim.form("/account/tokens", "viewer", label=f"n{days[:12]}", days=days)
        assert answer.status == (200 if days == " " else 400), days
    for limit in ("000000001" + "9" * 40, "1" * 5000, "0", "-1", "1e3", ""):
        refused(victim.page(f"/admin/audit?limit={limit}", "admin"), 400)
    for name in ("since", "until"):
        refused(victim.page(f"/admin/audit?{name}=" + "9" * 5000, "admin"), 400)
    for text in ("' OR 1=1 --", "%", "\0", "\ud800", "x" * 5000):
        found = victim.page(
            "/admin/audit?" + urlencode({"user": text, "object": text, "action": text}, errors="surrogatepass"), "admin"
        )
        assert (found.status, found.body) == (200, b"")


# ---------------------------------------------------------------- what is told


@tries("GeoServer CVE-2024-34696, -35230, -38524, CVE-2025-27505", "CKAN CVE-2024-41674")
def test_nothing_is_told_of_the_machine(victim: Victim) -> None:
    import lxml
    import numpy
    import starlette
    import uvicorn

    from thalweg import __version__

    versions = [f"{module.__name__}/{module.__version__}" for module in (starlette, uvicorn, numpy, lxml)]  # type: ignore[attr-defined]
    told = [
        *versions,
        "uvicorn",
        str(victim.server.process.pid),
        str(REPOSITORY),
        "/tmp/",
        "THALWEG_STORE",
        "site-packages",
        "Python/3",
    ]
    for path in (
        "/",
        "/health/live",
        "/health/ready",
        "/metrics",
        "/login",
        "/nothing",
        "/sos",
        "/sos?service=SOS&request=GetCapabilities",
        "/admin",
        "/static/",
    ):
        answer = victim.ask(path)
        everything = answer.text + str(answer.headers)
        for text in told:
            assert text not in everything, (path, text)
        assert "server" not in answer.headers
    assert __version__ not in victim.ask("/health/live").text
    assert victim.ask("/metrics").status == 401
    assert victim.ask("/metrics", by="nobody").status == 403


@tries("Datasette CVE-2023-40570, CVE-2021-32670", "52°North SOS, FROST, istSOS")
def test_what_is_private_is_as_what_never_was(victim: Victim) -> None:
    hidden = victim.world.targets["sos"]["hidden"].keys
    never = {key: text.replace(harness.HIDDEN, "neverthere00000") for key, text in hidden.items()}
    for by in ("", "nobody"):
        for parameter, key in (
            ("procedure", "procedure"),
            ("offering", "network"),
            ("observedProperty", "parameter"),
            ("featureOfInterest", "feature"),
        ):
            texts = []
            for keys in (hidden, never):
                query = urlencode(
                    {"service": "SOS", "version": "2.0.0", "request": "GetObservation", parameter: keys[key]}
                )
                answer = victim.ask(f"/sos?{query}", by=by)
                texts.append(
                    (
                        answer.status,
                        answer.text.replace(keys[key], "NAME"),
                        {
                            k: v
                            for k, v in answer.headers.items()
                            if k not in ("x-request-id", "date", "content-length")
                        },
                    )
                )
            assert texts[0] == texts[1]
        for path in ("/", "/sos?service=SOS&request=GetCapabilities", "/sos?_trace=1&service=SOS&request=GetCapabilities&acceptVersions=1.0.0",
                     "/sos?service=SOS&version=2.0.0&request=GetFeatureOfInterest", "/closed/sos?service=SOS&request=GetCapabilities"):  # fmt: skip
            assert harness.HIDDEN not in victim.ask(path, by=by).text
    assert harness.HIDDEN in victim.ask("/sos?service=SOS&request=GetCapabilities", by="viewer").text


# ---------------------------------------------------------------- headers everywhere


@pytest.mark.parametrize("by", ["", "admin", "bad"])
@pytest.mark.parametrize(
    "path",
    ["/", "/login", "/account", "/admin/audit", "/metrics", "/health/live", "/health/ready", "/static/thalweg.css", "/static/nothing", "/nothing", "/nothing/sos",
     "/sos", "/sos?service=SOS&request=GetCapabilities", "/sos?service=SOS&version=2.0.0&request=GetObservation", "/closed/sos?service=SOS&request=GetCapabilities"],
)  # fmt: skip
def test_protective_headers_are_on_every_answer(victim: Victim, path: str, by: str) -> None:
    headers = {"Authorization": "Bearer bad"} if by == "bad" else {}
    for method in ("GET", "HEAD", "POST", "OPTIONS", "DELETE"):
        answer = victim.ask(
            path, b"<a/>" if method == "POST" else None, by="" if by == "bad" else by, method=method, headers=headers
        )
        named = answer.headers
        assert answer.status < 500
        assert named["x-content-type-options"] == "nosniff", (method, path)
        policy = dict(part.strip().partition(" ")[::2] for part in named["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["frame-ancestors"] == "'none'"
        assert "script-src" not in policy
        assert "unsafe" not in named["content-security-policy"]
        assert named["x-request-id"]
        # No origin is let in unless the operator says so.
        assert not any(name.startswith("access-control-") for name in named)
        if answer.status == 401:
            assert named["www-authenticate"].startswith("Basic ")
        if by == "admin" and method == "GET" and path in ("/account", "/admin/audit", "/metrics"):
            assert named["cache-control"] == "no-store"


def test_no_origin_is_let_in_by_default(victim: Victim) -> None:
    for path in ("/sos?service=SOS&request=GetCapabilities", "/", "/metrics"):
        for origin in ("https://evil.example", "null", f"http://127.0.0.1:{victim.server.port}"):
            answer = victim.ask(path, headers={"Origin": origin, "Access-Control-Request-Method": "POST"})
            assert "access-control-allow-origin" not in answer.headers
            preflight = victim.ask(
                path, method="OPTIONS", headers={"Origin": origin, "Access-Control-Request-Method": "POST"}
            )
            assert "access-control-allow-origin" not in preflight.headers
