"""The SOS study's users, as behaviours of the closed loop with think time.

Consumers register nothing: each reads the capabilities once, then goes on with GetCapabilities, DescribeSensor and
GetObservation by weight, all properties of a random sensor over a period at a random time. Producers are one per
sensor: each is registered once and inserts at its frequency.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from thalweg.bench.drivers import Session, User
from thalweg.bench.requests import Request, Template
from thalweg.bench.sos import DS, GC, Sensor, Service, assigned_id, insertion, registering
from thalweg.bench.targets import ask


@dataclass(frozen=True, slots=True)
class Consumers:
    """What consumers do.

    weights    by operation (GC, DS, GO)
    think_s    shortest and longest pause after an answer, seconds; evenly distributed between
    period_us  length of what GetObservation asks for
    """

    service: Service
    weights: dict[str, int]
    think_s: tuple[float, float]
    period_us: int
    seed: int

    def user(self, number: int) -> User:
        """One consumer; each has its own chance, the same at each run."""
        rng = random.Random(f"{self.seed} consumer {number}")
        names, weights = list(self.weights), list(self.weights.values())
        service = self.service

        async def behave(session: Session) -> None:
            if self.weights.get(GC):
                await session.ask(service.capabilities())
                await session.think(rng.uniform(*self.think_s))
            while not session.over:
                (operation,) = rng.choices(names, weights)
                if operation == GC:
                    await session.ask(service.capabilities())
                elif operation == DS:
                    await session.ask(service.describe(rng.choice(service.sensors)))
                else:
                    await session.ask(service.random_observations(rng, self.period_us))
                await session.think(rng.uniform(*self.think_s))

        return behave


@dataclass(frozen=True, slots=True)
class Producer:
    """One sensor that reports.

    requests  its inserts, which continue its series, also from one phase to the next
    step_s    between them
    """

    sensor: Sensor
    requests: Iterator[Request]
    step_s: float
    seed: int

    def user(self, number: int) -> User:
        """The behaviour of one phase."""
        rng = random.Random(f"{self.seed} producer {number}")

        async def behave(session: Session) -> None:
            # Sensors report at times of their own.
            await session.think(rng.uniform(0, self.step_s))
            for request in self.requests:
                if session.over:
                    return
                await session.ask(request)
                await session.think(self.step_s)

        return behave


def producers(service: Service, step_s: float, *, register: str = "", seed: int = 1) -> Sequence[Producer]:
    """A producer for each sensor.

    register  empty: the sensors are registered already. Otherwise each producer registers a sensor of its own, whose
              name is the network's sensor's with this at its end: for peers, whose ids only registering tells
    raises    BenchError if registering is refused
    """
    found = []
    for sensor in service.sensors:
        own, assigned = sensor, sensor.procedure
        if register:
            own = replace(sensor, procedure=sensor.procedure + register)
            request = registering(service, own)
            _, _, body = ask(service.url, body=request.body, headers=dict(request.headers))
            assigned = assigned_id(body)
        # Times have whole seconds, whatever the pace of the sending.
        whole_s = max(1, int(step_s))
        base_s = sensor.end_us // 1_000_000 + whole_s
        template = Template(insertion(service, own, assigned=assigned), base_s=base_s, step_s=whole_s)
        found.append(Producer(own, template.stream(), step_s, seed))
    return found
