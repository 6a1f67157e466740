"""The SOS door's own time for a request: inside one process, without HTTP."""

from __future__ import annotations

import statistics
import time
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from thalweg import app
from thalweg.bench.networks import Network
from thalweg.bench.sos import RandomPeriods, Service, read_capabilities
from thalweg.domain.access import Principal, Role
from thalweg.domain.catalogue import DEFAULT_WORKSPACE
from thalweg.doors.http import Deferred, Request, Response
from thalweg.settings import Settings

WARM_UP: int = 200
"""Requests before the measured ones: they fill caches."""


def measure(store: Path, network: Network, period_us: int, requests: int, seed: int) -> dict[str, Any]:
    """GetObservation of random sensors and periods, from the raw request to the last byte of the body; µs."""
    application = app.build(Settings(store=f"sqlite:///{store}"))
    door = next(door for door in application.doors if door.name == "sos")
    reader = Principal("", Role.VIEWER)

    def handle(query: bytes) -> Response:
        request = Request("GET", "", query, (), b"", DEFAULT_WORKSPACE, "http://127.0.0.1/sos", reader)
        response = door.handle(request, application.services)
        if isinstance(response, Deferred):
            raise TypeError("a read must not be deferred")
        return response

    try:
        service = Service("http://127.0.0.1/sos", "1.0.0", ())
        capabilities = _body(handle(urlsplit(service.capabilities().path).query.encode()))
        sensors = read_capabilities(capabilities)
        service = Service(service.url, service.version, sensors)
        times: list[float] = []
        size = 0
        for number, asked in enumerate(islice(RandomPeriods(service, period_us, seed).stream(), requests + WARM_UP)):
            query = urlsplit(asked.path).query.encode()
            start = time.perf_counter_ns()
            body = _body(handle(query))
            elapsed = time.perf_counter_ns() - start
            if number >= WARM_UP:
                times.append(elapsed / 1000)
                size += len(body)
    finally:
        application.close()
    times.sort()
    return {
        "requests": requests, "bytes_mean": size / requests, "p50_us": times[len(times) // 2],
        "p99_us": times[int(len(times) * 0.99)], "mean_us": statistics.fmean(times), "network": network.name,
    }  # fmt: skip


def _body(response: Response) -> bytes:
    return response.body if isinstance(response.body, bytes) else b"".join(response.body)
