"""What a profile asks of a target: prepared there, and made into requests."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from thalweg.bench import datastore, sos, wfs, wfs_cases
from thalweg.bench.errors import BenchError
from thalweg.bench.profiles import Profile
from thalweg.bench.requests import Case, Pool, Template
from thalweg.bench.targets import Target, good_answer, origin_url

POOL_SIZE: Final = 5000
"""Different requests of a pool; more than any cache of answers would hold by chance."""
FILTERS: Final = 200
"""Different values of a field that are looked for."""
UNFILTERED: Final = "all"
"""What a search that filters is measured beside."""
SAMPLES: Final = 8
"""Requests whose answers are compared before two targets are."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a run chooses, beside what its profile says.

    sos_version  spoken to an SOS
    resource     an existing table's id (CKAN); empty: one is made
    rows         of the table that is made; 0: as the profile says
    members      file of members (LDES); None: made ones
    sensors      of an SOS that are asked for; empty: all in its capabilities
    """

    sos_version: str = "1.0.0"
    resource: str = ""
    rows: int = 0
    members: Path | None = None
    seed: int = 7
    sensors: tuple[sos.Sensor, ...] = ()


@dataclass(frozen=True, slots=True)
class Work:
    """A prepared workload; ``beside``: requests that a writer sends during busy cases, at ``writer_rate`` a second."""

    cases: tuple[Case, ...]
    about: dict[str, Any]
    beside: Pool | Template | None = None
    writer_rate: float = 0.0


def _service(target: Target, options: Options) -> sos.Service:
    service = sos.discover(target, options.sos_version)
    return replace(service, sensors=options.sensors) if options.sensors else service


def _pool(requests: sos.RandomPeriods) -> Pool:
    return Pool(tuple(islice(requests.stream(), POOL_SIZE)))


def _case(label: str, pool: Pool) -> Case:
    return Case(label, pool, pool.requests[:SAMPLES])


def _sos_periods(profile: Profile, target: Target, options: Options) -> Work:
    service = _service(target, options)
    quality = bool(profile.parameters.get("quality"))
    period = int(profile.parameters["seconds"]) * 1_000_000
    return Work((_case("GO", _pool(sos.RandomPeriods(service, period, options.seed, quality))),), _about(service))


def _sos_capabilities(_profile: Profile, target: Target, options: Options) -> Work:
    service = _service(target, options)
    return Work((Case("GC", Pool((service.capabilities(),))),), _about(service))


def _sos_describe(_profile: Profile, target: Target, options: Options) -> Work:
    service = _service(target, options)
    rng = random.Random(options.seed)
    pool = Pool(tuple(service.describe(rng.choice(service.sensors)) for _ in range(POOL_SIZE)))
    return Work((_case("DS", pool),), _about(service))


def _sos_insert(_profile: Profile, target: Target, options: Options) -> Work:
    service = sos.discover(target, "1.0.0")
    newest = max(sensor.end_us for sensor in service.sensors)
    return Work((Case("IO", sos.inserts(service, newest + 600_000_000, 600)),), _about(service))


def _about(service: sos.Service) -> dict[str, Any]:
    return {
        "sos_version": service.version,
        "sensors": len(service.sensors),
        "capabilities_bytes": service.capabilities_bytes,
    }


def _table(profile: Profile, target: Target, options: Options) -> datastore.Table:
    rows = options.rows or int(profile.parameters["rows"])
    written = profile.workload == "datastore-insert" or bool(profile.parameters.get("writer_rate"))
    texts = bool(profile.parameters.get("texts"))
    return datastore.table(target, rows, resource=options.resource, written=written, texts=texts)


def _datastore_search(profile: Profile, target: Target, options: Options) -> Work:
    table = _table(profile, target, options)
    offset = int(profile.parameters["offset"])
    rng = random.Random(options.seed)
    if offset < 0:
        pool = Pool(tuple(table.search(rng.randrange(max(1, table.rows - 10))) for _ in range(POOL_SIZE)))
    else:
        pool = Pool((table.search(min(offset, max(0, table.rows - 10))),))
    quiet = _case("search", pool)
    rate = float(profile.parameters.get("writer_rate", 0))
    if not rate:
        return Work((quiet,), table.about())
    # By turns on one table: what the writer costs is a ratio, and a machine's speed drifts by more than that.
    busy = replace(quiet, label=f"search beside {rate:g} inserts/s", base=quiet.label, busy=True)
    return Work((quiet, busy), table.about(), Pool((table.insert(),)), rate)


def _datastore_insert(profile: Profile, target: Target, options: Options) -> Work:
    table = _table(profile, target, options)
    return Work((Case("insert", Pool((table.insert(),))),), table.about())


def _datastore_malformed(profile: Profile, target: Target, options: Options) -> Work:
    table = _table(profile, target, options)
    return Work((Case("malformed", Pool((table.malformed(),))),), table.about())


def _datastore_sql(profile: Profile, target: Target, options: Options) -> Work:
    table = _table(profile, target, options)
    return Work((_case("sql", Pool((table.sql(min(5354, max(0, table.rows - 10))),))),), table.about())


def _datastore_filter(profile: Profile, target: Target, options: Options) -> Work:
    table = _table(profile, target, options)
    rng = random.Random(options.seed)
    codes = rng.sample(range(table.codes), min(table.codes, FILTERS))
    found = _case("filter", Pool(tuple(map(table.filtered, codes))))
    return Work((_unfiltered(table), replace(found, base=UNFILTERED)), table.about())


def _datastore_words(profile: Profile, target: Target, options: Options) -> Work:
    table = _table(profile, target, options)
    # Records of the same rank may come in any order, so that totals alone are compared with another target's.
    words = (
        Case(word, Pool((table.words(word),)), (table.words(word, limit=0),), UNFILTERED) for word, _ in datastore.WORDS
    )
    return Work((_unfiltered(table), *words), table.about())


def _unfiltered(table: datastore.Table) -> Case:
    return _case(UNFILTERED, Pool((table.search(0),)))


def _wfs(profile: Profile, target: Target, options: Options) -> Work:
    service = wfs.discover(target)
    fetch = partial(good_answer, origin_url(target.url))
    cases = tuple(wfs_cases.MAKERS[profile.workload](service, profile.parameters, fetch, options.seed))
    return Work(cases, service.about())


_MAKERS: Final[Mapping[str, Callable[[Profile, Target, Options], Work]]] = MappingProxyType(
    {
        "sos-periods": _sos_periods,
        "sos-capabilities": _sos_capabilities,
        "sos-describe": _sos_describe,
        "sos-insert": _sos_insert,
        "datastore-search": _datastore_search,
        "datastore-filter": _datastore_filter,
        "datastore-words": _datastore_words,
        "datastore-insert": _datastore_insert,
        "datastore-malformed": _datastore_malformed,
        "datastore-sql": _datastore_sql,
        **dict.fromkeys(wfs_cases.MAKERS, _wfs),
    }
)


def prepare(profile: Profile, target: Target, options: Options) -> Work:
    """Make ready what a profile asks of a target, and its requests.

    raises  DoorMissing if the target does not speak the protocol; Unreachable; BenchError
    """
    maker = _MAKERS.get(profile.workload)
    if maker is None:
        raise BenchError(f"The profile {profile.name} is no plain row of requests.")
    return maker(profile, target, options)
