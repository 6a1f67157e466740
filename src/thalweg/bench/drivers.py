"""Drivers: closed loop with and without think time, and open loop at a fixed rate of arrivals.

A closed loop waits for an answer before it asks again, as people and most programs do; while a server stalls, it asks
less, and the requests it did not send are in no percentile. The open loop sends when a request is due, whatever became
of those before, and counts from that time: what waits for a stalled server is counted as waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import uvloop

from thalweg.bench.http import Answer, Connection, Origin, origin
from thalweg.bench.requests import Request
from thalweg.bench.samples import Sample, Samples

T = TypeVar("T")

DRAIN_S: Final = 10.0
"""How long answers are waited for when a phase has ended; what has not come by then is a failure."""
REFUSED_PAUSE_S: Final = 0.1
MAX_WAITING: Final = 200_000
"""Requests of an open loop that wait for a connection; a server so far behind needs no more of them."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a driver on a loop of its own."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


@dataclass(frozen=True, slots=True)
class Limits:
    """timeout_s: after which an answer is given up; drain_s: see DRAIN_S."""

    timeout_s: float = 60.0
    drain_s: float = DRAIN_S


class Session:
    """One user: a connection, and the notes of what it has asked for."""

    def __init__(self, to: Origin, samples: Samples, begin: float, limits: Limits, stop: asyncio.Event, number: int):
        self._connection = Connection(to)
        self._host = to.name
        self._samples = samples
        self._begin = begin
        self._limits = limits
        self._stop = stop
        self.number = number

    @property
    def over(self) -> bool:
        """Whether the phase has ended."""
        return self._stop.is_set()

    async def think(self, seconds: float) -> None:
        """Wait, but not beyond the end of the phase."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()

    async def ask(self, request: Request, due: float | None = None) -> Answer | None:
        """Send a request and note what became of it; gives the answer, None for none or a bad one.

        due  when it was to be sent (perf_counter); None: now
        """
        data = request.encoded(self._host)
        sent = time.perf_counter()
        start = sent if due is None else due
        answer: Answer | None = None
        reason, broken = "", False
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                answer = await self._connection.ask(data, repeatable=request.method == "GET")
            reason = request.check(answer.status, answer.body)
        except TimeoutError:
            reason = f"no answer within {self._limits.timeout_s:g} s"
        except OSError as error:
            reason = f"connection: {error.strerror or error}"
            broken = True
        except asyncio.CancelledError:
            self._note(request, start, sent, answer, "no answer when the run ended", len(data))
            raise
        self._note(request, start, sent, answer, reason, len(data))
        if broken:
            # A server that refuses is not asked again at the speed of refusals.
            await self.think(REFUSED_PAUSE_S)
        return answer if not reason else None

    def _note(self, request: Request, start: float, sent: float, answer: Answer | None, reason: str, size: int) -> None:
        waited = sent - start
        self._samples.add(
            Sample(
                request.operation, start - self._begin, time.perf_counter() - start,
                waited + answer.first_s if answer else 0.0, answer.connect_s if answer else 0.0,
                answer.status if answer else 0, size, answer.size if answer else 0, reason, self.number,
            )
        )  # fmt: skip

    def close(self) -> None:
        self._connection.close()


User = Callable[[Session], Awaitable[None]]
"""What one user does until the session is over."""


async def users(
    url: str, behaviours: Sequence[User], *, ramp_s: float, seconds: float, samples: Samples, limits: Limits = Limits()
) -> None:
    """Closed loop: every behaviour is one user; they come evenly over ``ramp_s``, and stop ``seconds`` after that."""
    stop = asyncio.Event()
    to = origin(url)
    begin = time.perf_counter()

    async def one(index: int, behaviour: User) -> None:
        session = Session(to, samples, begin, limits, stop, index)
        try:
            await session.think(ramp_s * index / len(behaviours))
            if not session.over:
                await behaviour(session)
        finally:
            session.close()

    tasks = [asyncio.create_task(one(i, behaviour)) for i, behaviour in enumerate(behaviours)]
    try:
        await _until(tasks, ramp_s + seconds)
    finally:
        stop.set()
        await _drain(tasks, limits.drain_s)


async def closed(
    url: str,
    stream: Iterator[Request],
    connections: int,
    *,
    samples: Samples,
    seconds: float | None = None,
    requests: int | None = None,
    limits: Limits = Limits(),
    done: Callable[[int], None] | None = None,
) -> float:
    """Closed loop without think time, over so many connections, for a time or a number of requests.

    returns  seconds from the first request to the last answer
    """
    left = requests

    def behaviour() -> User:
        async def ask_on(session: Session) -> None:
            nonlocal left
            while not session.over:
                if left is not None:
                    if left <= 0:
                        return
                    left -= 1
                await session.ask(next(stream))
                if done is not None:
                    done(1)

        return ask_on

    begin = time.perf_counter()
    many = [behaviour() for _ in range(connections)]
    await users(url, many, ramp_s=0, seconds=1e9 if seconds is None else seconds, samples=samples, limits=limits)
    return time.perf_counter() - begin


async def open_loop(
    url: str,
    stream: Iterator[Request],
    rate: float,
    seconds: float,
    *,
    samples: Samples,
    connections: int = 1000,
    steady: bool = False,
    seed: int = 1,
    limits: Limits = Limits(),
) -> None:
    """Open loop: requests are due at a rate, and wait for a free connection if all are busy.

    rate         a second; at random (Poisson) unless ``steady``
    connections  most at once
    """
    stop = asyncio.Event()
    to = origin(url)
    begin = time.perf_counter()
    free: asyncio.LifoQueue[Session] = asyncio.LifoQueue()
    opened = 0
    tasks: set[asyncio.Task[None]] = set()
    everyone: list[Session] = []

    async def one(request: Request, due: float) -> None:
        nonlocal opened
        if free.empty() and opened < connections:
            opened += 1
            session = Session(to, samples, begin, limits, stop, opened)
            everyone.append(session)
        else:
            try:
                session = await free.get()
            except asyncio.CancelledError:
                late = time.perf_counter() - due
                samples.add(
                    Sample(
                        request.operation, due - begin, late, 0, 0, 0, 0, 0, "no free connection when the run ended", 0
                    )
                )
                raise
        try:
            await session.ask(request, due)
        finally:
            free.put_nowait(session)

    try:
        async for due in _arrivals(begin, rate, seconds, steady, seed):
            request = next(stream)
            if len(tasks) >= MAX_WAITING:
                samples.add(Sample(request.operation, due - begin, 0, 0, 0, 0, 0, 0, "too many wait already", 0))
                continue
            task = asyncio.create_task(one(request, due))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
    finally:
        stop.set()
        await _drain(list(tasks), limits.drain_s)
        for session in everyone:
            session.close()


async def _arrivals(begin: float, rate: float, seconds: float, steady: bool, seed: int) -> AsyncIterator[float]:
    """The instants (perf_counter) at which requests are due, each given when it has come, late ones at once."""
    rng = random.Random(seed)
    after = 0.0
    given = 0
    while True:
        # From the begin, not from the clock's zero: its rounding would add or drop a request at the end.
        after = (given + 1) / rate if steady else after + rng.expovariate(rate)
        if after >= seconds:
            await asyncio.sleep(max(0.0, begin + seconds - time.perf_counter()))
            return
        due = begin + after
        wait = due - time.perf_counter()
        given += 1
        # Timers are coarser than this; and answers want their turn now and then even when all arrivals are late.
        if wait > 0.0005 or given % 50 == 0:
            await asyncio.sleep(max(0.0, wait))
        yield due


async def _until(tasks: list[asyncio.Task[None]], seconds: float) -> None:
    """Wait for the time, or until all tasks have ended, or one has failed."""
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for task in done:
        task.result()


async def _drain(tasks: list[asyncio.Task[None]], seconds: float) -> None:
    """Wait for what is under way; cancel the rest, which notes it as failed. Raises what a task has failed with."""
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=seconds)
    for task in late:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            raise result
