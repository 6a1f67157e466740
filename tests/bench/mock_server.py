"""A small HTTP server of recorded answers for tests of the bench: it may stall, refuse or break off on purpose."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Reply = tuple[int, str, bytes]
Handler = Callable[[str, str, bytes], Reply | None]
"""Method, path with query and body to status, type and body; None closes the connection without an answer."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


@contextmanager
def serving(handler: Handler) -> Iterator[str]:
    """The address of a server that answers by ``handler``."""

    class Once(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _any(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            reply = handler(self.command, self.path, self.rfile.read(size))
            if reply is None:
                self.close_connection = True
                return
            status, kind, body = reply
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = do_PUT = _any  # noqa: N815 (names that http.server wants)

        def log_message(self, *_args: Any) -> None:
            pass

    server = _Server(("127.0.0.1", 0), Once)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


class Stalling:
    """Answers at once, but nothing between two instants after its first request."""

    def __init__(self, begin_s: float, end_s: float) -> None:
        self._begin_s, self._end_s = begin_s, end_s
        self._first: float | None = None
        self._lock = threading.Lock()

    def __call__(self, _method: str, _path: str, _body: bytes) -> Reply:
        with self._lock:
            if self._first is None:
                self._first = time.monotonic()
        at = time.monotonic() - self._first
        if self._begin_s <= at < self._end_s:
            time.sleep(self._end_s - at)
        return 200, "text/plain", b"ok"


class Ckan:
    """As much of CKAN's actions as the bench uses, over lists in memory."""

    def __init__(self) -> None:
        self.tables: dict[str, list[dict[str, Any]]] = {}
        self.indexes: dict[str, list[str]] = {}
        self.package: dict[str, Any] | None = None
        self.lock = threading.Lock()

    def __call__(self, _method: str, path: str, body: bytes) -> Reply:
        parts = urlsplit(path)
        name = parts.path.rpartition("/")[2]
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        asked = json.loads(body) if body else query
        with self.lock:
            found = getattr(self, f"_{name}", lambda _asked: (404, "Not Found Error"))(asked)
        status, result = found
        answer = {"success": status == 200, "result" if status == 200 else "error": result}
        return status, "application/json", json.dumps(answer).encode()

    def _status_show(self, _asked: Any) -> Any:
        return 200, {"ckan_version": "2.12.0"}

    def _package_show(self, _asked: Any) -> Any:
        return (404, "Not Found Error") if self.package is None else (200, self.package)

    def _organization_show(self, _asked: Any) -> Any:
        return 404, "Not Found Error"

    def _organization_create(self, asked: Any) -> Any:
        return 200, asked

    def _package_create(self, asked: Any) -> Any:
        self.package = {"id": "p1", "name": asked["name"], "resources": []}
        return 200, self.package

    def _datastore_create(self, asked: Any) -> Any:
        assert self.package is not None
        identifier = f"r{len(self.tables)}"
        self.tables[identifier] = []
        self.indexes[identifier] = asked.get("indexes", [])
        self.package["resources"].append({"id": identifier, "name": asked["resource"]["name"]})
        return 200, {"resource_id": identifier}

    def _datastore_upsert(self, asked: Any) -> Any:
        table = self.tables[asked["resource_id"]]
        table += [{"_id": len(table) + 1 + i, **record} for i, record in enumerate(asked["records"])]
        return 200, {"method": "insert"}

    def _datastore_search(self, asked: Any) -> Any:
        if not str(asked.get("limit", "100")).isdigit():
            return 409, {"__type": "Validation Error", "limit": ["Invalid integer"]}
        table = self.tables[asked["resource_id"]]
        for name, value in json.loads(asked.get("filters", "{}")).items():
            table = [record for record in table if record[name] == value]
        if "q" in asked:
            table = [record for record in table if asked["q"] in record["note"].split()]
        offset, limit = int(asked.get("offset", 0)), int(asked.get("limit", 100))
        return 200, {"total": len(table), "records": table[offset : offset + limit]}

    def _datastore_search_sql(self, asked: Any) -> Any:
        (identifier,) = re.findall(r'FROM "([^"]+)"', asked["sql"])
        return 200, {"records": self.tables[identifier][:10]}


WFS_CAPABILITIES = b"""<wfs:WFS_Capabilities xmlns:wfs="http://www.opengis.net/wfs/2.0"
 xmlns:ows="http://www.opengis.net/ows/1.1"><ows:OperationsMetadata><ows:Operation name="GetFeature">
 <ows:Parameter name="outputFormat"><ows:AllowedValues><ows:Value>text/xml; subtype=gml/3.2.1</ows:Value>
 <ows:Value>GML2</ows:Value><ows:Value>geojson</ows:Value></ows:AllowedValues></ows:Parameter></ows:Operation>
 </ows:OperationsMetadata><wfs:FeatureTypeList><wfs:FeatureType><wfs:Name>osm:osm_mainroads</wfs:Name>
 </wfs:FeatureType><wfs:FeatureType><wfs:Name>osm:osm_places</wfs:Name></wfs:FeatureType></wfs:FeatureTypeList>
 </wfs:WFS_Capabilities>"""


def wfs(_method: str, path: str, _body: bytes) -> Reply:
    """A WFS with two layers of one feature, whatever is asked for."""
    query = {key.lower(): values[0] for key, values in parse_qs(urlsplit(path).query).items()}
    if query.get("request") == "GetCapabilities":
        return 200, "text/xml", WFS_CAPABILITIES
    if query.get("request") != "GetFeature":
        return 400, "text/xml", b"<ExceptionReport/>"
    if query["outputformat"] == "geojson":
        return 200, "application/json", b'{"type":"FeatureCollection","features":[]}'
    return 200, "text/xml", b'<wfs:FeatureCollection xmlns:wfs="http://www.opengis.net/wfs"/>'


class Ldes:
    """An LDES server that keeps nothing but counts; its views hold all members ``lag`` requests of figures later."""

    def __init__(self, lag: int = 1) -> None:
        self.members: set[bytes] = set()
        self.views: list[str] = []
        self.deleted: list[str] = []
        self.lag = lag
        self.lock = threading.Lock()

    def __call__(self, method: str, path: str, body: bytes) -> Reply:
        with self.lock:
            if path == "/actuator/prometheus":
                self.lag -= 1
                count = len(self.members) if self.lag < 0 else 0
                lines = [
                    f'ldes_server_pagination_members_count{{collection="mobility-hindrances",view="{view}",}} '
                    f"{float(count)}"
                    for view in self.views
                ]
                return 200, "text/plain", "\n".join(lines).encode()
            if path.endswith("/eventstreams") and method == "GET":
                return 200, "text/turtle", b""
            if path.endswith("/views"):
                self.views.append(re.findall(rb"</mobility-hindrances/([a-z-]+)>", body)[0].decode())
                return 201, "text/turtle", b""
            if method == "DELETE":
                self.deleted.append(path.rpartition("/")[2])
                return (200 if self.views else 404), "text/plain", b""
            if path == "/mobility-hindrances":
                new = body not in self.members
                self.members.add(body)
                return (201 if new else 200), "text/plain", b""
            return 201, "text/turtle", b""
