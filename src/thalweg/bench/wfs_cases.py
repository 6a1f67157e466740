"""What the WFS profiles ask for: each figure of a layer beside the one it is a ratio to."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from thalweg.bench import wfs_runs
from thalweg.bench.errors import BenchError
from thalweg.bench.requests import Case, Pool, Request
from thalweg.bench.wfs import FORMATS, Service

Fetch = Callable[[Request], bytes]
"""A request to the body of its answer. Raises BenchError for a bad one."""

PAGES: Final = 2_000
"""Different pages of a pool: as many answers as no cache of whole answers would hold by chance."""
BOXES: Final = 1_000
"""Different boxes of a pool: more than the server remembers the ids of."""
CENTRES: Final = 20
"""Places that boxes lie around."""
JITTER: Final = 0.1
"""How far a box is moved from its place, of its half side."""
MORE_THAN_ASKED: Final = 1.3
"""A box is as large as holds the features asked for to this many times as many."""
MAX_STEPS: Final = 40
"""Boxes tried for one place."""
OTHER_CRS: Final = (3857, 2056)
_MATCHED: Final = re.compile(rb'numberMatched="(\d+)"')


def study(service: Service, parameters: Mapping[str, Any], _fetch: Fetch, _seed: int) -> Iterator[Case]:
    """The study's requests: the first features of each layer in each format."""
    for layer in parameters["layers"]:
        for form in FORMATS:
            request = service.features(layer, form, int(parameters["count"]))
            yield Case(f"{layer} {form}", Pool((request,)), (request,))


def other_crs(service: Service, parameters: Mapping[str, Any], fetch: Fetch, seed: int) -> Iterator[Case]:
    """Random pages in the layer's CRS, and in others."""
    count = int(parameters["count"])
    for layer in parameters["layers"]:
        offsets = _offsets(matched(service, layer, fetch), count, seed)
        for form in FORMATS:
            base = f"{layer} {form}"
            yield _pages(base, service, layer, form, count, offsets)
            for srid in OTHER_CRS:
                yield _pages(f"{base} EPSG:{srid}", service, layer, form, count, offsets, base, srsName=f"EPSG:{srid}")


def paging(service: Service, parameters: Mapping[str, Any], fetch: Fetch, _seed: int) -> Iterator[Case]:
    """The first page, and one far behind it."""
    count = int(parameters["count"])
    for layer in parameters["layers"]:
        far = max(0, min(int(parameters["start"]), matched(service, layer, fetch) - count))
        for form in FORMATS:
            base = f"{layer} {form}"
            yield _one(base, service.features(layer, form, count))
            yield _one(f"{base} startIndex={far}", service.features(layer, form, count, startIndex=far), base)


def hits(service: Service, parameters: Mapping[str, Any], fetch: Fetch, seed: int) -> Iterator[Case]:
    """Documents that say how many features match beside ones of GML 2, which have no number: of whole layers, and of
    filters of which each is asked once."""
    count = int(parameters["count"])
    rng = random.Random(seed)
    for layer in parameters["layers"]:
        for what in ("all", "filtered"):
            more: list[dict[str, str | int]] = [{}]
            if what == "filtered":
                sample = _geojson(fetch(service.features(layer, "GeoJSON", count)))
                values = sorted(int(feature["properties"]["osm_id"]) for feature in sample)
                # Lets nearly all through, and is another filter each time.
                more = [{"filter": _above("osm_id", rng.randint(-(10**9), values[0] - 1))} for _ in range(PAGES)]
            base = f"{layer} {what} GML2"
            yield _pool(base, [service.features(layer, "GML2", count, **each) for each in more])
            counted = [service.features(layer, "GML3.2", count, **each) for each in more]
            yield _pool(f"{layer} {what} GML3.2", counted, base)


def big_layer(service: Service, parameters: Mapping[str, Any], fetch: Fetch, seed: int) -> Iterator[Case]:
    """The first page and random pages of a layer, and of one that is far larger."""
    count = int(parameters["count"])
    small, large = parameters["layers"]
    offsets = {layer: _offsets(matched(service, layer, fetch), count, seed) for layer in (small, large)}
    for form in FORMATS:
        base = f"{small} {form}"
        yield _one(base, service.features(small, form, count))
        yield _one(f"{large} {form}", service.features(large, form, count), base)
        base = f"{small} random page {form}"
        yield _pages(base, service, small, form, count, offsets[small])
        yield _pages(f"{large} random page {form}", service, large, form, count, offsets[large], base)


def boxes(service: Service, parameters: Mapping[str, Any], fetch: Fetch, seed: int) -> Iterator[Case]:
    """Random boxes of about as many features as are asked for: of a layer, and of one that is far larger."""
    count = int(parameters["count"])
    small, large = parameters["layers"]
    found = {layer: random_boxes(service, layer, count, fetch, seed) for layer in (small, large)}
    for form in FORMATS:
        base = f"{small} box {form}"
        for layer, to in ((small, ""), (large, base)):
            requests = [service.features(layer, form, count, bbox=box) for box in found[layer]]
            yield _pool(f"{layer} box {form}", requests, to)


def whole(service: Service, parameters: Mapping[str, Any], _fetch: Fetch, _seed: int) -> Iterator[Case]:
    """All features of a layer."""
    for layer in parameters["layers"]:
        # A few pages before, so that all processes are as they are when they serve.
        pages = tuple(service.features(layer, "GeoJSON", 1_000, startIndex=n) for n in range(32))
        yield Case(f"{layer} GeoJSON", Pool((service.features(layer, "GeoJSON", None),)), pages)


def inserts(service: Service, _parameters: Mapping[str, Any], _fetch: Fetch, seed: int) -> Iterator[Case]:
    """Transactions of many features."""
    yield Case("Transaction", Pool((wfs_runs.inserts(service, seed),)))


# ---------------------------------------------------------------- parts


def matched(service: Service, layer: str, fetch: Fetch, **more: str | int) -> int:
    """How many features there are."""
    body = fetch(service.features(layer, "GML3.2", None, resultType="hits", **more))
    found = _MATCHED.search(body)
    if found is None:
        raise BenchError(f"{service.url} does not say how many features {layer} has.")
    return int(found[1])


def random_boxes(service: Service, layer: str, count: int, fetch: Fetch, seed: int) -> list[str]:
    """Boxes around features of the layer that hold about so many, as parameters of a request."""
    total = matched(service, layer, fetch)
    wanted = max(1, min(count, total // 4))
    rng = random.Random(seed)
    half = 0.01
    places: list[tuple[float, float, float]] = []
    for _ in range(CENTRES):
        request = service.features(layer, "GeoJSON", 1, startIndex=rng.randrange(total))
        x, y = _position(_geojson(fetch(request))[0]["geometry"]["coordinates"])
        half = _half_side(service, layer, (x, y), half, wanted, fetch)
        places.append((x, y, half))
    found = []
    for number in range(BOXES):
        x, y, half = places[number % CENTRES]
        x += half * rng.uniform(-JITTER, JITTER)
        y += half * rng.uniform(-JITTER, JITTER)
        found.append(_box(x, y, half))
    return found


def _half_side(
    service: Service, layer: str, centre: tuple[float, float], first: float, wanted: int, fetch: Fetch
) -> float:
    low, high, half = 0.0, 0.0, first
    for _ in range(MAX_STEPS):
        number = matched(service, layer, fetch, bbox=_box(*centre, half))
        if wanted <= number <= MORE_THAN_ASKED * wanted:
            break
        if number < wanted:
            low = half
            half = (low + high) / 2 if high else 2 * half
        else:
            high = half
            half = (low + high) / 2
    return half


def _box(x: float, y: float, half: float) -> str:
    return f"{x - half:.7f},{y - half:.7f},{x + half:.7f},{y + half:.7f},EPSG:4326"


def _position(coordinates: Any) -> tuple[float, float]:
    """The first one of a geometry."""
    while not isinstance(coordinates[0], int | float):
        coordinates = coordinates[0]
    return float(coordinates[0]), float(coordinates[1])


def _geojson(body: bytes) -> list[Any]:
    try:
        found: list[Any] = json.loads(body)["features"]
    except (ValueError, KeyError, TypeError):
        raise BenchError("What was to be GeoJSON is none.") from None
    if not found:
        raise BenchError("The layer has no features where its number says there are some.")
    return found


def _above(name: str, value: int) -> str:
    """FES 2.0 (OGC 09-026r2) clause 7.7.3."""
    return (
        f'<fes:Filter xmlns:fes="http://www.opengis.net/fes/2.0"><fes:PropertyIsGreaterThan><fes:ValueReference>{name}'
        f"</fes:ValueReference><fes:Literal>{value}</fes:Literal></fes:PropertyIsGreaterThan></fes:Filter>"
    )


def _offsets(total: int, count: int, seed: int) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(max(1, total - count)) for _ in range(PAGES)]


def _pages(
    label: str,
    service: Service,
    layer: str,
    form: str,
    count: int,
    offsets: Sequence[int],
    base: str = "",
    **more: str,
) -> Case:
    return _pool(label, [service.features(layer, form, count, startIndex=offset, **more) for offset in offsets], base)


def _one(label: str, request: Request, base: str = "") -> Case:
    return Case(label, Pool((request,)), (request,), base)


def _pool(label: str, requests: Sequence[Request], base: str = "") -> Case:
    return Case(label, Pool(tuple(requests)), tuple(islice(requests, SAMPLES)), base)


SAMPLES: Final = 8
"""Requests of a case whose answers are looked at before the load."""

Maker = Callable[[Service, Mapping[str, Any], Fetch, int], Iterator[Case]]
MAKERS: Final[Mapping[str, Maker]] = {
    "wfs-getfeature": study,
    "wfs-crs": other_crs,
    "wfs-paging": paging,
    "wfs-hits": hits,
    "wfs-big-layer": big_layer,
    "wfs-bbox": boxes,
    "wfs-whole-layer": whole,
    "wfs-insert": inserts,
}
