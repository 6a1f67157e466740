"""Users with think time, in phases of growing numbers."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from thalweg.bench import drivers, sos
from thalweg.bench.errors import BenchError
from thalweg.bench.networks import NETWORKS
from thalweg.bench.options import RunOptions, Say
from thalweg.bench.phases import allow_files, judge, keep_samples, line, operations
from thalweg.bench.profiles import CONSUMER_PERIOD_S, Mix
from thalweg.bench.results import Result
from thalweg.bench.samples import Samples
from thalweg.bench.sos_users import Consumers, Producer, producers
from thalweg.bench.targets import Target
from thalweg.bench.watch import Watch


def mix(load: Mix, target: Target, options: RunOptions, result: Result, say: Say) -> None:
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
        keep_samples(samples, options, count, phase)
        result.add(phase)
        say(line(phase))
        judge(phase)
