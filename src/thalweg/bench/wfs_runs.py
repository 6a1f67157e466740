"""WFS measurements that are no rows of equal requests: a whole layer, transactions of many features, the door's own
time."""

from __future__ import annotations

import http.client
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

import numpy as np

from thalweg import app
from thalweg.bench import drivers, layers, wfs
from thalweg.bench.errors import BenchError
from thalweg.bench.requests import Case, Request
from thalweg.bench.samples import Sample, Samples
from thalweg.bench.targets import Target, environment_for, origin_url
from thalweg.domain.access import Principal, Role
from thalweg.domain.catalogue import DEFAULT_WORKSPACE
from thalweg.doors.http import Deferred
from thalweg.doors.http import Request as DoorRequest
from thalweg.settings import Settings

INSERTS: Final = "bench_inserts"
"""The layer that transactions insert into; made anew for each run."""
INSERTED: Final = 1_000
"""Features of a transaction."""
READ_BYTES: Final = 1 << 20
WARM_UP: Final = 200
"""Requests inside the process before the measured ones: they fill caches."""
_FEATURE: Final = b'{"type":"Feature"'


def send(target: Target, case: Case, requests: int, samples: Samples, limits: drivers.Limits) -> dict[str, Any]:
    """A case so many times, one after the other; what is to be told beside times."""
    if next(case.source.stream()).method == "GET":
        return [whole(target, case, samples) for _ in range(requests)][-1]
    drivers.run(
        drivers.closed(
            origin_url(target.url), case.source.stream(), 1, samples=samples, requests=requests, limits=limits
        )
    )
    return {"features": INSERTED}


# ---------------------------------------------------------------- a whole layer


def whole(target: Target, case: Case, samples: Samples) -> dict[str, Any]:
    """Read one answer to its end without keeping it; bytes, features and seconds.

    raises  BenchError for an answer that is none, or ends early
    """
    request = next(case.source.stream())
    parts = urlsplit(origin_url(target.url))
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=600)
    begin = time.perf_counter()
    try:
        connection.request("GET", request.path, headers=dict(request.headers))
        answer = connection.getresponse()
        first_s = time.perf_counter() - begin
        size, features, kept = 0, 0, b""
        while chunk := answer.read(READ_BYTES):
            size += len(chunk)
            # A feature may begin in one piece and go on in the next.
            text = kept + chunk
            features += text.count(_FEATURE)
            kept = text[len(text) - len(_FEATURE) + 1 :]
        reason = "" if answer.status == 200 and kept.endswith(b"}") else f"status {answer.status}, or cut off"
    except (OSError, http.client.HTTPException) as error:
        raise BenchError(f"{case.label}: the answer broke off: {error!r}.") from None
    finally:
        connection.close()
    seconds = time.perf_counter() - begin
    samples.add(Sample(case.label, 0.0, seconds, first_s, 0.0, answer.status, 0, size, reason, 0))
    return {"bytes": size, "features": features, "seconds": seconds}


# ---------------------------------------------------------------- transactions


def make_insert_layer(store: Path) -> None:
    """The layer that ``inserts`` writes to, with the fields of roads. Raises BenchError."""
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as folder:
        file = Path(folder) / "roads.geojson"
        layers.write(file, "osm_mainroads", 100)
        command = [
            sys.executable, "-m", "thalweg", "load", "features", str(file), "--layer", INSERTS, "--if-exists",
            "replace", "--store", f"sqlite:///{store}",
        ]  # fmt: skip
        ended = subprocess.run(
            command, env=environment_for(None), capture_output=True, text=True, check=False, timeout=120
        )
        if ended.returncode:
            raise BenchError(f"{INSERTS} could not be made in {store}: {ended.stderr.strip()}")


def inserts(service: wfs.Service, seed: int) -> Request:
    """A transaction (OGC 09-025r2 clause 15) that inserts made roads. Raises BenchError without the layer."""
    if INSERTS not in service.layers:
        raise BenchError(f"{service.url} has no layer {INSERTS} to insert into.")
    name = service.layers[INSERTS]
    prefix = name.partition(":")[0]
    rng = np.random.default_rng(seed)
    members = []
    for number in range(INSERTED):
        points = np.round(np.cumsum(rng.normal(0, 4e-4, (12, 2)), axis=0) + np.array((9.5, 47.1)), 7)
        text = " ".join(str(value) for value in points.ravel().tolist())
        members.append(
            f'<{name} gml:id="n.{number}"><{prefix}:geometry><gml:LineString gml:id="g.{number}" srsName="EPSG:4326">'
            f"<gml:posList>{text}</gml:posList></gml:LineString></{prefix}:geometry><{prefix}:osm_id>{number}"
            f"</{prefix}:osm_id><{prefix}:name>Road {number}</{prefix}:name><{prefix}:type>residential</{prefix}:type>"
            f"</{name}>"
        )
    body = (
        '<wfs:Transaction service="WFS" version="2.0.0" xmlns:wfs="http://www.opengis.net/wfs/2.0" '
        f'xmlns:gml="http://www.opengis.net/gml/3.2" xmlns:{prefix}={quoteattr(service.namespaces[prefix])}>'
        f"<wfs:Insert>{''.join(members)}</wfs:Insert></wfs:Transaction>"
    )
    headers = {**service.headers, "Content-Type": "text/xml"}
    return Request("Transaction", urlsplit(service.url).path, "POST", headers, body.encode(), wfs.check)


# ---------------------------------------------------------------- inside one process


def handler(
    store: Path, make: Callable[[wfs.Service, Callable[[Request], bytes]], Iterator[Case]], requests: int
) -> list[dict[str, Any]]:
    """The WFS door's time for each case, from the raw request to the last byte of the body; µs. The
    processor's time tells more than the clock's where others compute on the machine.

    make  the cases, given the service and what answers single requests
    """
    application = app.build(Settings(store=f"sqlite:///{store}"))
    door = next(door for door in application.doors if door.name == "wfs")
    reader = Principal("", Role.VIEWER)

    def answer(query: bytes) -> bytes:
        request = DoorRequest("GET", "", query, (), b"", DEFAULT_WORKSPACE, "http://127.0.0.1/wfs", reader)
        response = door.handle(request, application.services)
        if isinstance(response, Deferred):
            raise TypeError("a read must not be deferred")
        body = response.body
        return body if isinstance(body, bytes) else b"".join(body)

    try:
        query = b"service=WFS&version=2.0.0&request=GetCapabilities"
        service = wfs.service_of("http://127.0.0.1/wfs", answer(query), {})
        found = []
        for case in make(service, lambda request: answer(urlsplit(request.path).query.encode())):
            times: list[float] = []
            used: list[float] = []
            size = 0
            for number, asked in enumerate(islice(case.source.stream(), requests + WARM_UP)):
                text = urlsplit(asked.path).query.encode()
                start, cpu = time.perf_counter_ns(), time.process_time_ns()
                body = answer(text)
                cpu, elapsed = time.process_time_ns() - cpu, time.perf_counter_ns() - start
                if number >= WARM_UP:
                    times.append(elapsed / 1000)
                    used.append(cpu / 1000)
                    size += len(body)
            reason = asked.check(200, body)
            if reason:
                raise BenchError(f"{case.label}: {reason}: {body[:300].decode(errors='replace')}")
            times.sort()
            found.append(
                {
                    "case": case.label, "base": case.base, "requests": requests, "bytes_mean": size / requests,
                    "p50_us": times[len(times) // 2], "p99_us": times[int(len(times) * 0.99)],
                    "mean_us": statistics.fmean(times), "min_us": times[0],
                    "cpu_us": statistics.median(used),
                }
            )  # fmt: skip
    finally:
        application.close()
    return found
