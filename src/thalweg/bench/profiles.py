"""The profiles, as data: what is asked of whom, how, and what should come of it.

A profile names its workload (``workloads.py`` makes the requests), one form of load, and the bars that DESIGN sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Mix:
    """Users with think time (closed loop), at each of the numbers of users; ``producers`` beside them, uncounted.

    think_s  shortest and longest pause. 5 to 20 s make 100 users ask 8 times a second, as in the study's tables
    ramp_s   over which the users come; what they ask until then is not counted
    """

    users: tuple[int, ...] = (100, 200, 500, 1000, 2000)
    seconds: float = 300
    ramp_s: float = 20
    think_s: tuple[float, float] = (5.0, 20.0)
    weights: Mapping[str, int] = field(default_factory=dict)
    producers: bool = True


@dataclass(frozen=True, slots=True)
class Closed:
    """Connections that ask without pause (wrk), in rounds.

    limit  alternate with nginx serving the bytes of one answer, and give the share
    """

    connections: tuple[int, ...]
    seconds: int = 4
    rounds: int = 3
    limit: bool = False


@dataclass(frozen=True, slots=True)
class Open:
    """Requests that are due at fixed rates, whatever became of those before; latency counts from then."""

    rates: tuple[float, ...]
    seconds: float = 20
    connections: int = 1000


@dataclass(frozen=True, slots=True)
class Count:
    """A number of requests over so many connections, each answer read and checked."""

    requests: int
    connections: int = 10


@dataclass(frozen=True, slots=True)
class Handler:
    """A door's own time for a request, inside the process, without HTTP."""

    requests: int = 4000


Load: TypeAlias = Mix | Closed | Open | Count | Handler


@dataclass(frozen=True, slots=True)
class Profile:
    """One measurement.

    study   whose published figures are shown beside: sos, ckan, wfs, ldes
    data    what the target has to hold: ``network``, ``table``, ``layers``, ``stream``
    """

    name: str
    study: str
    title: str
    workload: str
    load: Load
    data: str
    parameters: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    networks: tuple[str, ...] = ()


_SOS_WEIGHTS: Final = {"GC": 1, "DS": 5, "GO": 100}
_DAY_S: Final = 86_400
_16_64: Final = (16, 64)


def _ldes(name: str, title: str, members: int, views: tuple[str, ...], actual: bool = False) -> Profile:
    return Profile(name, "ldes", title, "ldes-ingest", Count(members), "stream", {"views": views, "actual": actual})


def _table(name: str, title: str, workload: str, load: Load, **parameters: Any) -> Profile:
    return Profile(name, "ckan", title, workload, load, "table", parameters)


_STUDY_LAYERS: Final = ("osm_mainroads", "osm_places")
_SMALL_AND_BIG: Final = ("osm_mainroads", "osm_mainroads_1m")
_ALONE: Final = Closed((1, 16), seconds=2)
_BY_TURNS: Final = Closed((16,), seconds=2)


def _layers(
    name: str, title: str, workload: str, load: Load, layers: tuple[str, ...] = _STUDY_LAYERS, **parameters: Any
) -> Profile:
    return Profile(name, "wfs", title, workload, load, "layers", {"layers": layers, "count": 200} | parameters)


_ALL: Final = (
    # ------------------------------------------------------------ SOS
    Profile(
        "sos-study", "sos", "the study's consumers and producers, capabilities included", "sos-mix",
        Mix(weights=_SOS_WEIGHTS), "network", networks=("A", "B", "C"),
    ),
    Profile(
        "sos-study-no-gc", "sos", "the same without GetCapabilities (the study's tables 16 to 18)", "sos-mix",
        Mix(weights={"DS": 5, "GO": 100}), "network", networks=("A", "B", "C"),
    ),
    Profile(
        "sos-day", "sos", "GetObservation of a random day, beside nginx serving the same bytes", "sos-periods",
        Closed(_16_64, limit=True), "network", {"seconds": _DAY_S},
    ),
    Profile(
        "sos-day-quality", "sos", "the same with quality indexes", "sos-periods",
        Closed(_16_64, limit=True), "network", {"seconds": _DAY_S, "quality": True},
    ),
    Profile(
        "sos-five-days", "sos", "GetObservation of five random days, beside nginx", "sos-periods",
        Closed(_16_64, limit=True), "network", {"seconds": 5 * _DAY_S},
    ),
    Profile(
        "sos-capabilities", "sos", "GetCapabilities, beside nginx serving the same bytes", "sos-capabilities",
        Closed(_16_64, limit=True), "network",
    ),
    Profile(
        "sos-describe", "sos", "DescribeSensor of a random sensor, beside nginx", "sos-describe",
        Closed(_16_64, limit=True), "network",
    ),
    Profile(
        "sos-open", "sos", "GetObservation of a random day at fixed rates of arrival", "sos-periods",
        Open((500, 1000, 2000)), "network", {"seconds": _DAY_S},
    ),
    Profile(
        "sos-insert", "sos", "durable InsertObservation, on an empty store and on the filled one by turns",
        "sos-insert", Closed(_16_64), "network",
    ),
    Profile(
        "sos-handler", "sos", "the SOS door's own time for a random day, without HTTP", "sos-handler", Handler(),
        "network", {"seconds": _DAY_S},
    ),
    # ------------------------------------------------------------ CKAN DataStore
    _table(
        "datastore-search", "datastore_search with limit 10 and offset 5354, beside nginx", "datastore-search",
        Closed((50, 100, 300, 500), limit=True), offset=5354, rows=140_604,
    ),
    _table(
        "datastore-deep", "the same at random offsets over the whole table", "datastore-search",
        Closed((50,)), offset=-1, rows=1_000_000,
    ),
    _table(
        "datastore-busy", "datastore_search while ten inserts a second arrive, by turns with nobody writing",
        "datastore-search", Closed((50,), rounds=5), offset=5354, rows=140_604, writer_rate=10,
    ),
    _table(
        "datastore-insert", "datastore_upsert, insert of the study's two records", "datastore-insert",
        Closed((50, 100, 300, 500)), rows=140_604,
    ),
    _table(
        "datastore-malformed", "a query that is refused before any table is read", "datastore-malformed",
        Closed((50, 100, 300, 500)), rows=140_604,
    ),
    _table(
        "datastore-sql", "the search by datastore_search_sql, without a total", "datastore-sql",
        Closed((50,)), rows=140_604,
    ),
    _table(
        "datastore-filter", "a filter on an indexed field with 1,000 matches, beside the first page of all",
        "datastore-filter", _ALONE, rows=1_000_000, texts=True,
    ),
    _table(
        "datastore-words", "a word that is in 100, 1,000, 10,000 and 100,000 rows, beside the first page of all",
        "datastore-words", _ALONE, rows=1_000_000, texts=True,
    ),
    # ------------------------------------------------------------ WFS
    _layers(
        "wfs-study", "GetFeature count=200 of two layers in three formats, three rounds", "wfs-getfeature",
        Closed((4, 8, 16, 32), rounds=3),
    ),
    _layers(
        "wfs-limit", "the same, beside nginx serving the same bytes", "wfs-getfeature",
        Closed((4, 8, 16, 32), limit=True, seconds=2),
    ),
    _layers(
        "wfs-crs", "random pages of 200 in EPSG:3857 and EPSG:2056, beside the layer's own CRS", "wfs-crs", _BY_TURNS,
    ),
    _layers("wfs-paging", "200 features at startIndex=6500, beside those at 0", "wfs-paging", _BY_TURNS, start=6500),
    _layers(
        "wfs-hits", "GML 3.2 with the exact numberMatched, beside GML 2, which has no number", "wfs-hits", _BY_TURNS,
    ),
    _layers(
        "wfs-big-layer", "pages of a layer of 1,000,000 features, beside those of a small one", "wfs-big-layer",
        _BY_TURNS, layers=_SMALL_AND_BIG,
    ),
    _layers(
        "wfs-bbox", "random boxes of 200 out of 1,000,000 features, beside a small layer, and nginx", "wfs-bbox",
        Closed((16,), seconds=2, limit=True), layers=_SMALL_AND_BIG,
    ),
    _layers(
        "wfs-whole-layer", "all 1,000,000 features as GeoJSON, once, and how the server's memory grows",
        "wfs-whole-layer", Count(1, 1), layers=("osm_mainroads_1m",),
    ),
    _layers("wfs-insert", "transactions that insert 1,000 features, one after the other", "wfs-insert", Count(10, 1)),
    _layers(
        "wfs-handler", "the WFS door's own time for pages, other CRSs and boxes, without HTTP", "wfs-handler",
        Handler(1000), cases=(
            ("wfs-crs", {"layers": _STUDY_LAYERS, "count": 200}),
            ("wfs-bbox", {"layers": _SMALL_AND_BIG, "count": 200}),
        ),
    ),
    # ------------------------------------------------------------ LDES
    _ldes("ldes-10k", "10,000 actual members, both views", 10_000, ("time", "geospatial"), actual=True),
    _ldes("ldes-100k", "100,000 templated members, no fragmentation", 100_000, ("page",)),
    _ldes("ldes-100k-time", "100,000 templated members by time", 100_000, ("time",)),
    _ldes("ldes-100k-geospatial", "100,000 templated members by place", 100_000, ("geospatial",)),
    _ldes("ldes-100k-both", "100,000 templated members by time and by place", 100_000, ("time", "geospatial")),
    Profile(
        "ldes-store", "ldes", "bulk load, filling of views, nodes and deleting, inside one process", "ldes-store",
        Handler(100_000), "stream",
    ),
    _ldes("ldes-1m", "1,000,000 templated members, both views", 1_000_000, ("time", "geospatial")),
)  # fmt: skip

PROFILES: Final[Mapping[str, Profile]] = MappingProxyType({profile.name: profile for profile in _ALL})

CONSUMER_PERIOD_S: Final = {"A": _DAY_S, "B": _DAY_S, "C": 182 * _DAY_S}
"""What the study's GetObservation asks for: a day, or six months of the monthly network."""

FIGURES_TO_REACH: Final = (
    # profile, network or "", connections or users, quantity, bar, stretch
    ("sos-day", "A", "16, 64", "share of nginx", 0.08, 0.10),
    ("sos-day-quality", "B", "16, 64", "share of nginx", 0.07, 0.09),
    ("sos-five-days", "A", "16, 64", "share of nginx", 0.10, 0.12),
    ("sos-capabilities", "C", "16, 64", "share of nginx", 0.80, 1.00),
    ("sos-insert", "A", "16", "rate", 3500, 5500),
    ("sos-insert", "A", "64", "rate", 4500, 8000),
    ("datastore-search", "", "50", "rate", 12_000, 20_000),
    ("datastore-busy", "", "50", "ratio", 0.90, 1.0),
    ("datastore-insert", "", "50", "rate", 4000, 7000),
    ("datastore-filter", "", "1", "ratio", 0.50, 1.0),
    ("wfs-limit", "", "4, 8, 16, 32", "share of nginx", 0.20, 0.30),
    ("wfs-bbox", "", "16", "share of nginx", 0.15, 0.22),
    ("wfs-bbox", "", "16", "ratio", 0.67, 1.0),
    ("wfs-crs", "", "16", "ratio", 0.40, 1.0),
    ("wfs-paging", "", "16", "ratio", 0.83, 1.0),
    ("wfs-hits", "", "16", "ratio", 0.90, 1.0),
    ("wfs-big-layer", "", "16", "ratio", 0.91, 1.0),
    ("ldes-100k", "", "10", "rate", 3500, 5500),
)  # fmt: skip
"""Bars of the design on two cores, generator on the same machine; ``report`` sets them beside what was seen."""


def inspire_limit_s(operation: str) -> float:
    """The INSPIRE time limit that the SOS study judges an operation by, seconds to the begin of the answer."""
    return 10.0 if operation in ("GC", "DS", "RS") else 30.0


INSPIRE_BYTES_PER_S: Final = 500_000
INSPIRE_REQUESTS_PER_S: Final = 10
INSPIRE_AVAILABILITY_PERCENT: Final = 99.0
INSPIRE_SHARE_PERCENT: Final = 90
"""Part of the requests that have to keep the time limit: the regulation's normal situation is 90 % of the time."""
