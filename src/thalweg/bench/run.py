"""One run of a profile against one target: phases in their order, each kept as soon as it has been measured."""

from __future__ import annotations

import contextlib
import resource
import secrets
import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from thalweg import app
from thalweg.bench import drivers, fill, jtl, ldes, sos, targets, tools, wfs, wfs_cases, wfs_runs, workloads, wrk
from thalweg.bench.context import context
from thalweg.bench.errors import BenchError, Unreachable
from thalweg.bench.networks import NETWORKS, Network
from thalweg.bench.profiles import CONSUMER_PERIOD_S, Closed, Count, Handler, Mix, Open, Profile
from thalweg.bench.requests import Case, basic
from thalweg.bench.results import Result
from thalweg.bench.samples import TOTAL, Samples
from thalweg.bench.sos_users import Consumers, Producer, producers
from thalweg.bench.stats import Figures, ratios
from thalweg.bench.targets import Target, ask, origin_url
from thalweg.bench.watch import Watch, processes

WARM_UP_S: Final = 2
"""Load before the first measured phase of a closed loop, uncounted; not longer than that phase."""
_FILES_BESIDE: Final = 200
"""Open files of this process that are no users' connections."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a run chooses. None leaves what the profile says.

    url             of a peer; empty: Thalweg is started here on the store in ``folder``
    commit          of this repository that is started instead of the checkout
    pid             of a peer's process on this machine, to be watched
    connections     of closed loops; ``users`` of mixes; ``rates`` of open ones; ``requests`` of counts
    producers       whether they take part; ``producer_s`` between the inserts of each (None: the network's step)
    own_driver      closed loops by the driver written here, which reads each answer, instead of wrk
    """

    folder: Path = Path("thalweg-bench")
    network: str = "A"
    scale: float = 1.0
    workers: int = 2
    settings: dict[str, str] = field(default_factory=dict)
    cold: bool = False
    url: str = ""
    commit: str = ""
    name: str = ""
    pid: int = 0
    credentials: tuple[str, str] | None = None
    token: str = ""
    users: tuple[int, ...] = ()
    connections: tuple[int, ...] = ()
    rates: tuple[float, ...] = ()
    requests: int = 0
    seconds: float | None = None
    rounds: int | None = None
    ramp_s: float | None = None
    think_s: tuple[float, ...] = ()
    timeout_s: float = 60.0
    producers: bool = True
    producer_s: float | None = None
    own_driver: bool = False
    jtl: Path | None = None
    work: workloads.Options = field(default_factory=workloads.Options)


Say = Callable[[str], None]


def run(profile: Profile, options: RunOptions, result: Result, say: Say) -> None:
    """Measure, and add the phases to ``result``; the caller finishes it.

    say     takes a line for whoever watches
    raises  BenchError; phases measured until then are in the result
    """
    processes()
    load = chosen(profile.load, options)
    result.data |= {
        "profile": profile.name, "study": profile.study, "title": profile.title,
        "load": {"form": type(load).__name__, **plain(asdict(load))}, "seed": options.work.seed,
        "context": context(), "target": {}, "data": {},
    }  # fmt: skip
    if profile.workload == "ldes-store" and isinstance(load, Handler):
        _stream_store(load, options, result, say)
        return
    if isinstance(load, Handler):
        _handler(profile, load, options, result, say)
        return
    if profile.workload == "sos-insert" and not options.url and isinstance(load, Closed):
        _insert(profile, load, options, result, say)
        return
    with opened(profile, options, result) as target:
        if isinstance(load, Mix):
            _mix(load, target, options, result, say)
        elif isinstance(load, Count) and profile.study == "wfs":
            _count_wfs(profile, load, target, options, result, say)
        elif isinstance(load, Count):
            _members(profile, load, target, options, result, say)
        elif isinstance(load, Open):
            _open(profile, load, target, options, result, say)
        else:
            _closed(profile, load, target, options, result, say)


def chosen(load: Any, options: RunOptions) -> Any:
    """A profile's load with what the run chooses."""
    changes: dict[str, Any] = {}
    if isinstance(load, Mix):
        changes = {"users": options.users, "seconds": options.seconds, "ramp_s": options.ramp_s}
        changes["think_s"] = options.think_s
        # Left out where they are not wanted; the profile says whether there are any.
        changes["producers"] = None if options.producers else False
    elif isinstance(load, Closed):
        seconds = None if options.seconds is None else max(1, round(options.seconds))
        changes = {"connections": options.connections, "seconds": seconds, "rounds": options.rounds}
    elif isinstance(load, Open):
        changes = {"rates": options.rates, "seconds": options.seconds}
        changes["connections"] = options.connections[0] if options.connections else None
    elif isinstance(load, Count):
        changes = {"requests": options.requests or None}
        changes["connections"] = options.connections[0] if options.connections else None
    elif isinstance(load, Handler):
        changes = {"requests": options.requests or None}
    return replace(load, **{k: v for k, v in changes.items() if v is not None and v != ()})


def network_of(options: RunOptions) -> Network:
    return NETWORKS[options.network].scaled(options.scale)


@contextlib.contextmanager
def opened(profile: Profile, options: RunOptions, result: Result) -> Iterator[Target]:
    """The target of a run, started at need; what it is and holds goes into the result."""
    if options.url:
        pids = (options.pid,) if options.pid else ()
        target = targets.peer(
            options.url, name=options.name, pids=pids, credentials=options.credentials, token=options.token
        )
        result.data["target"] = describe(target)
        yield target
        return
    store = prepared_store(profile, options, result)
    started = targets.Options(store, options.workers, options.settings, options.cold)
    with targets.thalweg(started, commit=options.commit) as target:
        if profile.study == "ckan":
            target = replace(target, token=targets.token(store))
        result.data["target"] = describe(target)
        yield target


def prepared_store(profile: Profile, options: RunOptions, result: Result) -> Path:
    """The store that Thalweg is started on. Raises BenchError if a network's store is not filled."""
    if profile.data != "network":
        store = options.folder / f"{profile.data}.sqlite"
        app.open_store(f"sqlite:///{store}").close()
        if profile.workload == "wfs-insert":
            wfs_runs.make_insert_layer(store)
        return store
    if options.commit:
        # Another commit's store may be of another format: each has its own, filled by its own command.
        return options.folder / options.commit / f"{options.network.lower()}-{options.scale:g}.sqlite"
    store = fill.store_path(options.folder, options.network, options.scale)
    result.data["data"] = {"scale": options.scale, **fill.inspect(store, network_of(options)).as_json()}
    return store


def describe(target: Target) -> dict[str, Any]:
    """What a report says of a target; never its credentials."""
    return {"name": target.name, "is_thalweg": target.is_thalweg, **target.about}


def operations(figures: Mapping[str, Figures]) -> dict[str, Any]:
    return {name: one.as_json() for name, one in figures.items()}


def judge(phase: dict[str, Any]) -> None:
    """Raise Unreachable if nothing at all was answered: to go on would measure refusals."""
    total = phase["operations"].get(TOTAL, {})
    reasons = total.get("errors", {})
    if total.get("requests") and sum(n for r, n in reasons.items() if r.startswith("connection")) >= total["requests"]:
        raise Unreachable(f"The target has stopped answering: {next(iter(reasons))}.")


# ---------------------------------------------------------------- users with think time


def _mix(load: Mix, target: Target, options: RunOptions, result: Result, say: Say) -> None:
    service = sos.discover(target, options.work.sos_version)
    result.data["data"] |= {
        "sos_version": service.version, "sensors": len(service.sensors),
        "capabilities_bytes": service.capabilities_bytes, "network": options.network,
    }  # fmt: skip
    if len(load.think_s) != 2:
        raise BenchError("Think time is two numbers, the shortest and the longest pause.")
    seed = options.work.seed
    period = CONSUMER_PERIOD_S[options.network] * 1_000_000
    consumers = Consumers(service, dict(load.weights), load.think_s, period, seed)
    reporting: Sequence[Producer] = ()
    # The study has no producers on its monthly network.
    if load.producers and options.network != "C":
        if service.version != "1.0.0":
            raise BenchError("Producers speak SOS 1.0.0; with 2.0.0 measure the consumers alone: --no-producers.")
        register = "" if target.is_thalweg else f"-p{secrets.token_hex(3)}"
        step_s = options.producer_s or NETWORKS[options.network].step_us / 1e6
        reporting = producers(service, step_s, register=register, seed=seed)
    allow_files(max(load.users) + len(reporting))
    for count in load.users:
        say(f"{count} users, {load.ramp_s:g} s to come and {load.seconds:g} s measured")
        people = [consumers.user(number) for number in range(count)]
        people += [producer.user(number) for number, producer in enumerate(reporting)]
        samples = Samples()
        limits = drivers.Limits(timeout_s=options.timeout_s)
        with Watch(target.pids) as watch:
            drivers.run(
                drivers.users(
                    service.url, people, ramp_s=load.ramp_s, seconds=load.seconds, samples=samples, limits=limits
                )
            )
        figures = samples.figures(load.ramp_s, load.ramp_s + load.seconds)
        phase = {
            "label": f"{count} users", "driver": "users", "users": count, "producers": len(reporting),
            "seconds": load.seconds, "operations": operations(figures), "watch": watch.as_json(),
        }  # fmt: skip
        _keep_samples(samples, options, count, phase)
        result.add(phase)
        say(line(phase))
        judge(phase)


def allow_files(connections: int) -> None:
    """Let this process open so many connections. Raises BenchError where the system does not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + _FILES_BESIDE
    if needed > hard:
        raise BenchError(f"{connections} users need {needed} open files, the system allows {hard} (ulimit -Hn).")
    if needed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _keep_samples(samples: Samples, options: RunOptions, threads: int, phase: dict[str, Any]) -> None:
    if options.jtl is not None:
        jtl.append(options.jtl, samples, threads)
        phase["jtl"] = options.jtl.name


# ---------------------------------------------------------------- without think time


def _closed(profile: Profile, load: Closed, target: Target, options: RunOptions, result: Result, say: Say) -> None:
    work = workloads.prepare(profile, target, options.work)
    result.data["data"] |= work.about
    if options.jtl is not None and not options.own_driver:
        raise BenchError("wrk tells of no single requests; a JTL file needs --driver own.")
    for group in groups(work.cases):
        bodies = [first_answer(target, case) for case in group]
        for case in group:
            warm(target, case, options, load.seconds)
        with contextlib.ExitStack() as stack:
            limits = [stack.enter_context(tools.nginx(body)) if load.limit else None for body in bodies]
            for connections in load.connections:
                for number in range(load.rounds):
                    for case, limit in zip(group, limits, strict=True):
                        with _writer(work, target):
                            again = case.fresh(len(result.phases), load.seconds)
                            phase = closed_phase(target, again, connections, load.seconds, options, limit)
                        result.add(phase | {"round": number, "side": "target", "base": case.base})
                        say(line(phase))
                        judge(phase)
                        if limit is not None:
                            result.add(_limit_phase(case, connections, number, load.seconds, limit, target))
        for text in ratio_lines(result.phases, group):
            say(text)


def groups(cases: Sequence[Case]) -> list[list[Case]]:
    """Cases that are measured by turns: each with those after it that are compared with it."""
    found: list[list[Case]] = []
    for case in cases:
        if case.base and found and case.base == found[-1][0].label:
            found[-1].append(case)
        else:
            found.append([case])
    return found


def ratio_lines(phases: Sequence[dict[str, Any]], group: Sequence[Case]) -> Iterator[str]:
    """What the rates of compared cases are of their base's."""
    for case in group[1:]:
        for connections, values in ratios(phases, case.label, case.base).items():
            yield f"{case.label} : {case.base}, {connections} connections: {statistics.median(values):.2f}"


def first_answer(target: Target, case: Case) -> bytes:
    """The answer to a case's first request, read and judged before the load; of several the one of middle length.
    Raises BenchError for a bad one."""
    if next(case.source.stream()).method != "GET":
        return b""
    base = origin_url(target.url)
    bodies = []
    for request in case.sample or (next(case.source.stream()),):
        status, _, body = ask(base + request.path, headers=dict(request.headers), good=tuple(range(400, 500)))
        reason = request.check(status, body)
        if reason:
            raise BenchError(f"{case.label}: {reason}: {body[:300].decode(errors='replace')}")
        bodies.append(body)
    return sorted(bodies, key=len)[len(bodies) // 2]


def warm(target: Target, case: Case, options: RunOptions, seconds: int) -> None:
    """Uncounted load, so that caches and connections are as in the middle of a run. Cold runs go without."""
    if options.cold or next(case.source.stream()).method != "GET":
        return
    url, length = origin_url(target.url), min(WARM_UP_S, seconds)
    if options.own_driver:
        drivers.run(drivers.closed(url, case.source.stream(), 8, samples=Samples(), seconds=length))
    else:
        wrk.run(url, case.source, 8, length)


def closed_phase(
    target: Target, case: Case, connections: int, seconds: int, options: RunOptions,
    limit: tools.Started | None = None, apart: tuple[int, ...] = (),
) -> dict[str, Any]:  # fmt: skip
    """One measured closed loop."""
    url = origin_url(target.url)
    if target.is_thalweg and next(case.source.stream()).method != "GET":
        sign_in(target)
    beside = ((limit.pid,) if limit else ()) + apart
    with Watch(target.pids, beside) as watch:
        if options.own_driver:
            samples = Samples()
            drivers.run(
                drivers.closed(
                    url, case.source.stream(), connections, samples=samples, seconds=seconds,
                    limits=drivers.Limits(timeout_s=options.timeout_s),
                )
            )  # fmt: skip
            figures = samples.figures(0, seconds)
        else:
            one = wrk.run(url, case.source, connections, seconds, timeout_s=min(30.0, options.timeout_s))
            figures = {case.label: one, TOTAL: one}
    phase = {
        "label": f"{case.label}, {connections} connections", "case": case.label, "connections": connections,
        "driver": "own" if options.own_driver else "wrk", "seconds": seconds, "operations": operations(figures),
        "watch": watch.as_json(),
    }  # fmt: skip
    if options.own_driver:
        _keep_samples(samples, options, connections, phase)
    return phase


def _limit_phase(
    case: Case, connections: int, number: int, seconds: int, limit: tools.Started, target: Target
) -> dict[str, Any]:
    with Watch((limit.pid,), target.pids) as watch:
        figures = wrk.run(limit.url, None, connections, seconds)
    return {
        "label": f"{case.label}, {connections} connections, nginx", "case": case.label, "connections": connections,
        "driver": "wrk", "side": "nginx", "round": number, "seconds": seconds,
        "operations": operations({case.label: figures, TOTAL: figures}), "watch": watch.as_json(),
    }  # fmt: skip


@contextlib.contextmanager
def _writer(work: workloads.Work, target: Target) -> Iterator[None]:
    """A writer beside the load, at its own rate; its failures stop the run."""
    if work.beside is None:
        yield
        return
    beside, samples, stop = work.beside, Samples(), threading.Event()

    def write() -> None:
        while not stop.is_set():
            drivers.run(
                drivers.open_loop(
                    origin_url(target.url), beside.stream(), work.writer_rate, 1.0, samples=samples, connections=4,
                    steady=True,
                )
            )  # fmt: skip

    thread = threading.Thread(target=write, name="writer", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
    bad = [sample.reason for sample in samples if sample.reason]
    if bad or not len(samples):
        raise BenchError(f"The writer beside the load failed: {bad[0] if bad else 'it wrote nothing'}.")


def _open(profile: Profile, load: Open, target: Target, options: RunOptions, result: Result, say: Say) -> None:
    work = workloads.prepare(profile, target, options.work)
    result.data["data"] |= work.about
    allow_files(load.connections)
    for case in work.cases:
        first_answer(target, case)
        for rate in load.rates:
            phase = open_phase(target, case, rate, load, options)
            result.add(phase)
            say(line(phase))
            judge(phase)


def open_phase(target: Target, case: Case, rate: float, load: Open, options: RunOptions) -> dict[str, Any]:
    """One measured open loop."""
    samples = Samples()
    with Watch(target.pids) as watch:
        drivers.run(
            drivers.open_loop(
                origin_url(target.url), case.source.stream(), rate, load.seconds, samples=samples,
                connections=load.connections, seed=options.work.seed,
                limits=drivers.Limits(timeout_s=options.timeout_s),
            )
        )  # fmt: skip
    phase = {
        "label": f"{case.label} at {rate:g}/s", "case": case.label, "driver": "open", "rate": rate,
        "connections": load.connections, "seconds": load.seconds,
        "operations": operations(samples.figures(0, load.seconds)), "watch": watch.as_json(),
    }  # fmt: skip
    _keep_samples(samples, options, load.connections, phase)
    return phase


# ---------------------------------------------------------------- special runs


def _count_wfs(profile: Profile, load: Count, target: Target, options: RunOptions, result: Result, say: Say) -> None:
    """Each case so many times, one after the other, and what that does to the memory of the server's processes."""
    work = workloads.prepare(profile, target, options.work)
    result.data["data"] |= work.about
    for case in work.cases:
        if next(case.source.stream()).method != "GET":
            sign_in(target)
        # Processes, connections and what they keep are there before.
        for small in case.sample:
            ask(origin_url(target.url) + small.path, headers=dict(small.headers))
        samples = Samples()
        begin = time.perf_counter()
        with Watch(target.pids) as watch:
            extra = wfs_runs.send(target, case, load.requests, samples, drivers.Limits(timeout_s=options.timeout_s))
        seconds = time.perf_counter() - begin
        seen = watch.as_json()
        if "server_memory_largest" in seen["series"]:
            extra["memory_growth_bytes"] = seen["max"]["server_memory_largest"] - watch.first("server_memory_largest")
        figures = samples.figures(0, seconds)
        phase = {
            "label": case.label, "case": case.label, "driver": "count", "connections": 1, "seconds": seconds,
            "operations": operations(figures), "watch": seen, "wfs": extra,
        }  # fmt: skip
        result.add(phase)
        said = ", ".join(f"{key} {value:,.0f}" for key, value in extra.items())
        say(f"{line(phase)}; {said}")
        judge(phase)


def _members(profile: Profile, load: Count, target: Target, options: RunOptions, result: Result, say: Say) -> None:
    samples = Samples()
    with Watch(target.pids) as watch:
        extra = ldes.run(
            target, load.requests, load.connections, tuple(profile.parameters["views"]), file=options.work.members,
            samples=samples,
        )  # fmt: skip
    figures = samples.figures(0, extra["ingest_s"])
    phase = {
        "label": f"{load.requests} members", "driver": "count", "connections": load.connections,
        "seconds": extra["ingest_s"], "operations": operations(figures), "watch": watch.as_json(), "ldes": extra,
    }  # fmt: skip
    _keep_samples(samples, options, load.connections, phase)
    result.add(phase)
    say(line(phase))
    judge(phase)
    if extra["views_not_full"]:
        raise BenchError(f"Not all members reached {', '.join(extra['views_not_full'])} in time.")


def _stream_store(load: Handler, options: RunOptions, result: Result, say: Say) -> None:
    from thalweg.bench import ldes_store

    result.data["target"] = {"name": "Thalweg, inside one process", "is_thalweg": True}
    seen = ldes_store.measure(options.folder, load.requests, options.work.members, options.workers, say)
    result.add({"label": "stream", "driver": "handler", "stream": seen, "operations": {}})


def _handler(profile: Profile, load: Handler, options: RunOptions, result: Result, say: Say) -> None:
    from thalweg.bench import sos_handler

    store = prepared_store(profile, options, result)
    result.data["target"] = {"name": "Thalweg, inside one process", "is_thalweg": True}
    if profile.study == "wfs":
        _wfs_handler(profile, load, store, options, result, say)
        return
    period = int(profile.parameters["seconds"]) * 1_000_000
    seen = sos_handler.measure(store, network_of(options), period, load.requests, options.work.seed)
    result.add({"label": "handler", "driver": "handler", "handler": seen, "operations": {}})
    say(f"handler p50 {seen['p50_us']:.0f} µs, p99 {seen['p99_us']:.0f} µs, {seen['bytes_mean']:.0f} bytes")


def _wfs_handler(profile: Profile, load: Handler, store: Path, options: RunOptions, result: Result, say: Say) -> None:
    def cases(service: wfs.Service, fetch: wfs_cases.Fetch) -> Iterator[Case]:
        for kind, parameters in profile.parameters["cases"]:
            yield from wfs_cases.MAKERS[kind](service, parameters, fetch, options.work.seed)

    for seen in wfs_runs.handler(store, cases, load.requests):
        label = f"handler {seen['case']}"
        result.add({"label": label, "case": seen["case"], "driver": "handler", "handler": seen, "operations": {}})
        say(
            f"{label}: p50 {seen['p50_us']:.0f} µs, p99 {seen['p99_us']:.0f} µs, processor {seen['cpu_us']:.0f} µs, "
            f"{seen['bytes_mean']:.0f} bytes"
        )


def _insert(profile: Profile, load: Closed, options: RunOptions, result: Result, say: Say) -> None:
    """Inserts on the filled store and on an empty one of the same procedures, by turns, each at times of its own."""
    network = network_of(options)
    full = prepared_store(profile, options, result)
    empty = options.folder / f"empty-{secrets.token_hex(4)}.sqlite"
    base_s = fill.newest_us(full) // 1_000_000
    sensors = tuple(fill.sensor(network, index) for index in range(network.procedures))
    try:
        store = app.open_store(f"sqlite:///{empty}")
        try:
            fill.register(store, network)
        finally:
            store.close()
        for number in range(load.rounds):
            for connections in load.connections:
                for side, path in (("empty", empty), ("full", full)):
                    # After all that went before; a million seconds hold what a run can send in one.
                    base_s += 1_000_000 * load.seconds
                    with targets.thalweg(targets.Options(path, options.workers, options.settings)) as target:
                        result.data["target"] = describe(target)
                        service = sos.Service(target.door("sos"), "1.0.0", sensors, {}, basic(target.credentials))
                        case = Case("IO", sos.inserts(service, base_s * 1_000_000, 600))
                        phase = closed_phase(target, case, connections, load.seconds, options)
                    result.add(phase | {"round": number, "side": side})
                    say(f"{side:5} {line(phase)}")
                    judge(phase)
    finally:
        for leftover in options.folder.glob(f"{empty.name}*"):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)


def sign_in(target: Target) -> None:
    """Have each worker verify the credentials: a password's hashing, once a minute, is measured elsewhere."""
    for _ in range(8 * int(target.about.get("workers", 1))):
        ask(f"{target.url}/sos?service=SOS&request=GetCapabilities", headers=basic(target.credentials))


# ---------------------------------------------------------------- words


def plain(value: Any) -> Any:
    """What JSON takes."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list | tuple) else value


def line(phase: dict[str, Any]) -> str:
    """A phase in one line."""
    total = phase["operations"].get(TOTAL)
    if total is None:
        return str(phase["label"])
    p = total["percentiles_ms"]
    text = f"{phase['label']}: {total['rate']:,.1f}/s"
    if p:
        text += f", p50 {p['50']:.2f} p99 {p['99']:.2f} max {p['100']:.1f} ms"
    if total["failures"]:
        text += f", {total['failures']} FAILED ({', '.join(list(total['errors'])[:3])})"
    return text
