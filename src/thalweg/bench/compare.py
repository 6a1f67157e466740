"""Two targets, or two commits, on the same requests by turns: ratio of each round, their median and spread.

What both answer is decoded and checked equal first. Rounds alternate in which side begins, so that a machine that
slows down or warms up favours neither.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from thalweg.bench import answers, fill, ldes, loops, opening, phases, sos, targets, workloads
from thalweg.bench.context import context
from thalweg.bench.errors import BenchError
from thalweg.bench.options import RunOptions, Say, chosen
from thalweg.bench.profiles import Closed, Count, Open, Profile
from thalweg.bench.requests import Case, Request
from thalweg.bench.results import Result, failures
from thalweg.bench.samples import TOTAL, Samples
from thalweg.bench.stats import spread, verdict
from thalweg.bench.targets import Target, ask, origin_url
from thalweg.bench.watch import processes

ROUNDS: Final = 5
SIDES: Final = ("base", "change")


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: ``spec`` is ``checkout``, ``commit:REV`` or a URL."""

    spec: str

    def options(self, common: RunOptions) -> RunOptions:
        """A run's options for this side. Raises BenchError for what names no side."""
        kind, _, rest = self.spec.partition(":")
        if self.spec == "checkout":
            return replace(common, url="", commit="")
        if kind == "commit" and rest:
            return replace(common, url="", commit=rest)
        if self.spec.startswith(("http://", "https://")):
            return replace(common, url=self.spec, commit="")
        raise BenchError(f"'{self.spec}' names nothing to compare; allowed are checkout, commit:REV and http(s)://….")


def compare(profile: Profile, base: str, change: str, common: RunOptions, result: Result, say: Say) -> None:
    """Measure both sides in alternating rounds; figures and verdicts go into ``result``.

    raises  BenchError, also if the sides' answers differ: a comparison of different answers says nothing
    """
    processes()
    load = chosen(profile.load, common)
    rounds = common.rounds or ROUNDS
    result.data |= {
        "kind": "comparison", "profile": profile.name, "study": profile.study, "title": profile.title,
        "load": {"form": type(load).__name__, **phases.plain(asdict(load))}, "rounds": rounds, "context": context(),
        "base": base, "change": change, "targets": {}, "data": {}, "checks": [], "comparison": [],
    }  # fmt: skip
    if not isinstance(load, Closed | Open | Count):
        raise BenchError(f"{profile.name} is a {type(load).__name__.lower()}; it is run for itself, not compared.")
    sides = {name: Side(spec).options(common) for name, spec in zip(SIDES, (base, change), strict=True)}
    for options in sides.values():
        if options.commit and profile.data == "network":
            _fill_commit(options, say)
    with contextlib.ExitStack() as stack:
        opened = {name: stack.enter_context(opening.opened(profile, sides[name], result)) for name in SIDES}
        result.data.pop("target", None)
        result.data["targets"] = {name: opening.describe(target) for name, target in opened.items()}
        if isinstance(load, Count):
            _alternate_members(profile, load, opened, common, rounds, result, say)
            return
        work = {
            name: workloads.prepare(profile, target, one)
            for (name, target), one in zip(opened.items(), _choices(profile, opened, common), strict=True)
        }
        result.data["data"] = {name: one.about for name, one in work.items()}
        _check_equal(opened, work, result, say)
        for case, other in zip(work["base"].cases, work["change"].cases, strict=True):
            _alternate(load, opened, work, {"base": case, "change": other}, common, rounds, result, say)


def _choices(profile: Profile, opened: dict[str, Target], common: RunOptions) -> list[workloads.Options]:
    """What each side's workload chooses. Both are asked for what both have: a store may have grown since."""
    if profile.study != "sos" or profile.workload == "sos-insert":
        return [common.work, common.work]
    version = common.work.sos_version
    services = sos.common(*(sos.discover(opened[name], version) for name in SIDES))
    return [replace(common.work, sensors=service.sensors) for service in services]


def _fill_commit(options: RunOptions, say: Say) -> None:
    """The network's store of another commit, filled by that commit's own command."""
    folder = options.folder / options.commit
    path = fill.store_path(folder, options.network, options.scale)
    if path.exists():
        return
    say(f"filling network {options.network} as commit {options.commit} does")
    with targets.checkout(options.commit) as source:
        command = [
            sys.executable, "-m", "thalweg", "bench", "fill", options.network, "--scale", f"{options.scale:g}",
            "--folder", str(folder.absolute()),
        ]  # fmt: skip
        ended = subprocess.run(
            command, env=targets.environment_for(source), cwd=source, capture_output=True, text=True, check=False
        )
    if ended.returncode:
        path.unlink(missing_ok=True)
        raise BenchError(f"Commit {options.commit} could not fill its store: {ended.stderr.strip()[-500:]}")


def _check_equal(opened: dict[str, Target], work: dict[str, workloads.Work], result: Result, say: Say) -> None:
    """Raises BenchError if the sides answer differently."""

    def asking(target: Target) -> Any:
        def one(request: Request) -> tuple[str, bytes]:
            base = origin_url(target.url)
            _, headers, body = ask(base + request.path, headers=dict(request.headers))
            return headers.get("content-type", ""), body

        return one

    for case, other in zip(work["base"].cases, work["change"].cases, strict=True):
        if not case.sample:
            first = next(case.source.stream())
            if first.method != "GET" or first.refused:
                result.data["checks"].append({"case": case.label, "compared": "statuses alone"})
                continue
        pairs: list[Any] = list(zip(case.sample, other.sample, strict=True)) or [
            (next(case.source.stream()), next(other.source.stream()))
        ]
        told = answers.same_answers(pairs, asking(opened["base"]), asking(opened["change"]))
        result.data["checks"].append({"case": case.label, "compared": len(pairs), "differences": told})
        if told:
            raise BenchError(
                f"The answers differ ({len(told)} of {len(pairs)} requests), so nothing is compared: {told[0]}"
            )
    say("the answers of both sides are equal")


def _alternate(
    load: Closed | Open, opened: dict[str, Target], work: dict[str, workloads.Work], cases: dict[str, Case],
    options: RunOptions, rounds: int, result: Result, say: Say,
) -> None:  # fmt: skip
    for name, target in opened.items():
        loops.first_answer(target, cases[name])
        if isinstance(load, Closed):
            loops.warm(target, cases[name], options, load.seconds)
    loads = load.connections if isinstance(load, Closed) else load.rates
    for amount in loads:
        seen: dict[str, list[dict[str, Any]]] = {name: [] for name in SIDES}
        for number in range(rounds):
            for name in SIDES if number % 2 == 0 else reversed(SIDES):
                target = opened[name]
                case = cases[name].fresh(len(result.phases), load.seconds)
                others = tuple(pid for side, t in opened.items() if side != name for pid in t.pids)
                if isinstance(load, Closed):
                    with loops.writer(work[name], case, target):
                        phase = loops.closed_phase(target, case, int(amount), load.seconds, options, apart=others)
                else:
                    phase = loops.open_phase(target, case, float(amount), load, options)
                phase |= {"round": number, "side": name}
                result.add(phase)
                phases.judge(phase)
                seen[name].append(phase)
                say(f"{name:6} {phases.line(phase)}")
        conclude(cases["base"].label, amount, seen, result, say)


def _alternate_members(
    profile: Profile, load: Count, opened: dict[str, Target], options: RunOptions, rounds: int, result: Result, say: Say
) -> None:
    read = {name: ldes.read_back(target, options.work.members) for name, target in opened.items()}
    told = answers.difference(read["base"], read["change"])
    check = {"case": "members read back", "compared": ldes.CHECKED, "differences": [told] if told else []}
    result.data["checks"].append(check)
    if told or not read["base"]:
        raise BenchError(f"The members read back differ, so nothing is compared: {told or 'there are none'}.")
    say("the members read back from both sides are equal")
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in SIDES}
    for number in range(rounds):
        for name in SIDES if number % 2 == 0 else reversed(SIDES):
            samples = Samples()
            extra = ldes.run(
                opened[name], load.requests, load.connections, tuple(profile.parameters["views"]),
                file=options.work.members, samples=samples,
            )  # fmt: skip
            phase = {
                "label": f"{load.requests} members", "driver": "count", "seconds": extra["ingest_s"], "side": name,
                "round": number, "operations": phases.operations(samples.figures(0, extra["ingest_s"])), "ldes": extra,
            }  # fmt: skip
            result.add(phase)
            phases.judge(phase)
            seen[name].append(phase)
            say(f"{name:6} {phases.line(phase)}")
    conclude("ingest", load.connections, seen, result, say)


def conclude(case: str, amount: float, seen: dict[str, list[dict[str, Any]]], result: Result, say: Say) -> None:
    """Ratios change : base of the rounds, with their verdict, into the result."""
    errors = sum(failures(phase) for phases in seen.values() for phase in phases)

    def of(name: str, phase: dict[str, Any]) -> float:
        total = phase["operations"][TOTAL]
        return float(total["rate"] if name == "rate" else total["percentiles_ms"].get(name, 0) or 0)

    found: dict[str, Any] = {"case": case, "load": amount, "failures": errors, "quantities": {}}
    for quantity in ("rate", "50", "99"):
        pairs = [(of(quantity, b), of(quantity, c)) for b, c in zip(seen["base"], seen["change"], strict=True)]
        if not all(b > 0 and c > 0 for b, c in pairs):
            if quantity == "rate":
                # A side that answered nothing: said, not left out.
                found["quantities"]["rate"] = {
                    "ratio": None, "low": None, "high": None, "ratios": [], "verdict": "not comparable",
                }  # fmt: skip
            continue
        ratios = spread([c / b for b, c in pairs])
        found["quantities"]["rate" if quantity == "rate" else f"p{quantity}"] = {
            "ratio": round(ratios.median, 4), "low": round(ratios.low, 4), "high": round(ratios.high, 4),
            "ratios": [round(value, 4) for value in ratios.values],
            "verdict": verdict(ratios, errors, higher_is_better=quantity == "rate"),
        }  # fmt: skip
    result.data["comparison"].append(found)
    result.write()
    for name, one in found["quantities"].items():
        say(
            f"{case} at {amount:g}: {name} change/base "
            + ("" if one["ratio"] is None else f"{one['ratio']:.3f} ({one['low']:.3f}-{one['high']:.3f}): ")
            + one["verdict"]
            + (f", {errors} failures" if errors else "")
        )
