"""Measurements of the SOS door: a random day beside nginx, its handler alone, durable inserts, empty and full."""

from __future__ import annotations

import base64
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from thalweg import app
from thalweg.bench import tools
from thalweg.bench.networks import SHAPES, Network, blocks, procedure_name, registration
from thalweg.domain.access import Principal, Role
from thalweg.domain.catalogue import DEFAULT_WORKSPACE
from thalweg.domain.observations import Insertion, OnDuplicate
from thalweg.domain.store import Store
from thalweg.domain.time import DAY_US, format_instant
from thalweg.doors.http import Deferred, Request
from thalweg.settings import Settings

URN = "urn:ogc:def:procedure:x-thalweg:1.0:"
USER = "bench"

_DAY_SCRIPT = """
local first, days, procedures, prefix, path = {first}, {days}, {procedures}, "{prefix}", "{path}"
math.randomseed({seed})
request = function()
  local day = first + math.random(0, days - 1) * 86400
  local period = os.date("!%Y-%m-%dT00:00:00Z", day) .. "/" .. os.date("!%Y-%m-%dT00:00:00Z", day + 86400)
  local name = string.format("{name}%04d", math.random(0, procedures - 1))
  return wrk.format("GET", path .. "&procedure=" .. prefix .. name .. "&eventTime=" .. period)
end
"""

_INSERT_SCRIPT = """
local template, step, procedures = [[{body}]], {step}, {procedures}
local auth, base, n = "{auth}", {base}, 0
request = function()
  local index = n % procedures
  local at = os.date("!%Y-%m-%dT%H:%M:%SZ", base + math.floor(n / procedures) * step)
  n = n + 1
  local body = template:gsub("@NAME@", string.format("{name}%04d", index)):gsub("@TIME@", at)
  return wrk.format("POST", "/sos", {{["Authorization"] = auth, ["Content-Type"] = "text/xml"}}, body)
end
"""


def fill(store: Store, network: Network, progress: Any = None) -> int:
    """Load a network through the bulk path; gives the number of values. Running it again changes nothing."""
    workspace = store.workspaces()[DEFAULT_WORKSPACE]
    values = 0
    for index in range(network.procedures):
        catalogue = store.catalogue(workspace.id)
        procedure = catalogue.procedure(procedure_name(network, index))
        if procedure is None:
            procedure = store.register_procedure(workspace.id, registration(network, index)).result()
            catalogue = store.catalogue(workspace.id)
        ids = tuple(s.property_id for s in procedure.series)
        feature_id = catalogue.feature_ids_of(procedure)[0]
        for block in blocks(network, index, ids):
            values += block.values_present()
            store.load(workspace.id, Insertion(procedure.id, feature_id, block, on_duplicate=OnDuplicate.SKIP), by=USER)
            if progress is not None:
                progress(len(block) * network.properties)
    return values


def day_query(network: Network) -> str:
    """Query of a GetObservation without procedure and time."""
    properties = ",".join(f"urn:ogc:def:parameter:x-thalweg:1.0:{s.name}" for s in SHAPES[: network.properties])
    return urlencode(
        {
            "service": "SOS", "version": "1.0.0", "request": "GetObservation", "offering": "network",
            "observedProperty": properties, "responseFormat": 'text/xml;subtype="om/1.0.0"',
        }
    )  # fmt: skip


def random_days(network: Network, seed: int) -> Iterator[tuple[str, str]]:
    """Procedure and eventTime of random days, without end."""
    rng = random.Random(seed)
    days = (network.end_us - network.begin_us) // DAY_US
    while True:
        begin = network.begin_us // DAY_US * DAY_US + rng.randrange(1, days) * DAY_US
        name = procedure_name(network, rng.randrange(network.procedures))
        yield URN + name, f"{format_instant(begin)}/{format_instant(begin + DAY_US)}"


def measure_day(
    store: Path, network: Network, connections: tuple[int, ...], seconds: int, rounds: int, workers: int
) -> dict[str, Any]:
    """GetObservation of a random day of a random procedure, alternating with nginx serving one such answer."""
    query = day_query(network)
    days = (network.end_us - network.begin_us) // DAY_US - 1
    procedure, period = next(random_days(network, 7))
    script = _DAY_SCRIPT.format(
        first=network.begin_us // 1_000_000 + 86400, days=days, procedures=network.procedures, prefix=URN,
        path=f"/sos?{query}", seed=11, name=network.name,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, tools.thalweg(store, workers=workers) as url:
        lua = Path(folder) / "day.lua"
        lua.write_text(script)
        body = tools.fetch(f"{url}/sos?{query}&{urlencode({'procedure': procedure, 'eventTime': period})}")
        rows = []
        with tools.nginx(body) as limit:
            tools.wrk(url, 8, 2, lua)  # warm
            for count in connections:
                pairs = [(tools.wrk(url, count, seconds, lua), tools.wrk(limit, count, seconds)) for _ in range(rounds)]
                rows.append(
                    {
                        "connections": count,
                        "share_of_nginx": statistics.median(a.rate / b.rate for a, b in pairs),
                        "shares": [a.rate / b.rate for a, b in pairs],
                        "runs": [{"thalweg": asdict(a), "nginx": asdict(b)} for a, b in pairs],
                    }
                )
    return {"bytes": len(body), "rows": rows}


TURN = 16
"""Requests that the server answers together when many come at once."""


def measure_handler(store: Path, network: Network, requests: int = 4000) -> dict[str, Any]:
    """The door's own time for a random day, from raw request to the last byte of the body, without HTTP; µs.

    By turns one request after the other, each by itself, and ``TURN`` of them together, as the server does under load.
    """
    application = app.build(Settings(store=f"sqlite:///{store}"))
    door = next(d for d in app.all_doors(application.settings) if d.name == "sos")
    query = day_query(network)
    days = random_days(network, 3)
    reader = Principal("", Role.VIEWER)
    alone: list[float] = []
    together: list[float] = []
    size = 0

    def answer(times: list[float]) -> int:
        procedure, period = next(days)
        raw = f"{query}&{urlencode({'procedure': procedure, 'eventTime': period})}".encode()
        request = Request("GET", "", raw, (), b"", DEFAULT_WORKSPACE, "http://127.0.0.1/sos", reader)
        start = time.perf_counter_ns()
        response = door.handle(request, application.services)
        if isinstance(response, Deferred):
            raise TypeError("a read must not be deferred")
        body = response.body if isinstance(response.body, bytes) else b"".join(response.body)
        times.append((time.perf_counter_ns() - start) / 1000)
        return len(body)

    try:
        application.warm_up()
        for _ in range(200):  # the first ones fill caches
            answer([])
        while len(alone) < requests:
            for _ in range(TURN):
                size += answer(alone)
            with application.store.together():
                for _ in range(TURN):
                    size += answer(together)
    finally:
        application.close()
    return {
        "requests": len(alone), "mean_bytes": size / (len(alone) + len(together)), **_times("", alone),
        **_times("together_", together),
    }  # fmt: skip


def _times(prefix: str, times: list[float]) -> dict[str, float]:
    times.sort()
    return {
        f"{prefix}p50_us": times[len(times) // 2], f"{prefix}p99_us": times[int(len(times) * 0.99)],
        f"{prefix}mean_us": statistics.fmean(times),
    }  # fmt: skip


def insert_body(network: Network) -> str:
    """An InsertObservation 1.0.0 of one row with all properties, with marks for name and time."""
    urn = "urn:ogc:def:parameter:x-thalweg:1.0:"
    shapes = SHAPES[: network.properties]
    components = "".join(f'<swe:component xlink:href="{urn}{s.name}"/>' for s in shapes)
    fields = "".join(
        f'<swe:field name="{s.name.replace(":", "-")}"><swe:Quantity definition="{urn}{s.name}">'
        f'<swe:uom code="{s.unit}"/></swe:Quantity></swe:field>'
        for s in shapes
    )
    values = ",".join(f"{s.mean:g}" for s in shapes)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<sos:InsertObservation service="SOS" version="1.0.0" xmlns:sos="http://www.opengis.net/sos/1.0" '
        'xmlns:om="http://www.opengis.net/om/1.0" xmlns:swe="http://www.opengis.net/swe/1.0.1" '
        'xmlns:gml="http://www.opengis.net/gml" xmlns:xlink="http://www.w3.org/1999/xlink">'
        "<sos:AssignedSensorId>urn:ogc:def:sensor:x-thalweg:1.0:@NAME@</sos:AssignedSensorId>"
        f"<om:Observation><om:samplingTime><gml:TimePeriod><gml:beginPosition>@TIME@</gml:beginPosition>"
        "<gml:endPosition>@TIME@</gml:endPosition></gml:TimePeriod></om:samplingTime>"
        f'<om:procedure xlink:href="{URN}@NAME@"/>'
        f'<om:observedProperty><swe:CompositePhenomenon gml:id="comp" dimension="{len(shapes) + 1}">'
        "<gml:name>timeSeriesOfObservations</gml:name>"
        '<swe:component xlink:href="urn:ogc:def:parameter:x-istsos:1.0:time:iso8601"/>'
        f"{components}</swe:CompositePhenomenon></om:observedProperty>"
        '<om:featureOfInterest xlink:href="urn:ogc:def:feature:x-thalweg:1.0:Point:@NAME@"/>'
        "<om:result><swe:DataArray><swe:elementCount><swe:Count><swe:value>1</swe:value></swe:Count>"
        '</swe:elementCount><swe:elementType name="SimpleDataArray"><swe:DataRecord '
        'definition="urn:ogc:def:dataType:x-istsos:1.0:timeSeries"><swe:field name="Time">'
        '<swe:Time definition="urn:ogc:def:parameter:x-istsos:1.0:time:iso8601"/></swe:field>'
        f"{fields}</swe:DataRecord></swe:elementType><swe:encoding>"
        '<swe:TextBlock tokenSeparator="," blockSeparator="@" decimalSeparator="."/></swe:encoding>'
        f"<swe:values>@TIME@,{values}</swe:values></swe:DataArray></om:result></om:Observation>"
        "</sos:InsertObservation>"
    )


def measure_insert(
    stores: dict[str, Path],
    network: Network,
    password: str,
    begin_us: int,
    connections: tuple[int, ...],
    seconds: int,
    rounds: int,
    workers: int,
) -> dict[str, Any]:
    """Durable inserts of one row with all properties, alternating between the named stores (same procedures).

    begin_us  after all that the stores hold
    """
    auth = "Basic " + base64.b64encode(f"{USER}:{password}".encode()).decode()
    body = insert_body(network)
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in stores}
    base = begin_us // 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        for round_number in range(rounds):
            for count in connections:
                for name, path in stores.items():
                    with tools.thalweg(path, workers=workers) as url:
                        # Signing in costs a hashing once a minute in each worker; that is measured elsewhere.
                        signed_in = {"Authorization": auth}
                        for _ in range(8 * workers):
                            tools.fetch(f"{url}/sos?service=SOS&request=GetCapabilities", headers=signed_in)
                        lua = Path(folder) / "insert.lua"
                        # Every run inserts at times of its own, after all that went before.
                        base += 1_000_000 * seconds
                        lua.write_text(
                            _INSERT_SCRIPT.format(
                                body=body, step=600, procedures=network.procedures, auth=auth, base=base,
                                name=network.name,
                            )
                        )  # fmt: skip
                        load = tools.wrk(url, count, seconds, lua)
                        results[name].append({"round": round_number, **asdict(load)})
    return {"body_bytes": len(body), "stores": results}
