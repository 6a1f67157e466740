"""Loading members in bulk: several processes read bodies, large transactions store them, in the order of the files."""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from thalweg.domain.errors import ThalwegError
from thalweg.domain.streams import Appended, EventStream, Member
from thalweg.services.streams import LOCAL_BASE, Streams, no_contexts

BATCH_BODIES: Final = 500
BATCH_BYTES: Final = 4 << 20
"""A batch of bodies ends with what comes first; its members share a transaction."""
STORING: Final = 3
"""Batches that wait for their commit while further ones are read."""
POOL_BYTES: Final = 16 << 20
"""Bodies of so many bytes are read in this process before others are started, which takes a second."""
HAND_OVER_NS: Final = 10
"""What handing a byte of a body to another process and its members back takes this one, ns: bodies that are read as
fast as that, as those that are all alike, are read here."""
SAMPLE_NS: Final = 50_000_000
"""Reading is measured for so long before others are started."""
MAX_FAULTS: Final = 1_000
"""Faults that are told one by one; all are counted."""


@dataclass(frozen=True, slots=True)
class Body:
    """One RDF document of a file. ``line``: where it begins, from 1; ``end``: the file's bytes up to its end."""

    content: bytes
    media_type: str
    file: str
    line: int
    size: int


@dataclass(frozen=True, slots=True)
class Fault:
    """A body that could not be read."""

    file: str
    line: int
    message: str


@dataclass(slots=True)
class Loaded:
    """What a load did: members stored and members that were there before; bodies that could not be read."""

    bodies: int = 0
    stored: int = 0
    known: int = 0
    faulty: int = 0
    faults: list[Fault] = field(default_factory=list)


_Outcome = list[list[Member] | str]


_Packed = list[list[tuple[str, str, bytes, str, int | None]] | str]


def read_batch(stream: EventStream, strict: bool, bodies: list[tuple[bytes, str]]) -> _Packed:
    """What ``_read`` gives, as what other processes hand over most quickly."""
    outcome = _read(Streams.reader(stream, no_contexts, strict), bodies)
    return [
        found
        if isinstance(found, str)
        else [(item.iri, item.version_of, item.text, item.timestamp, item.timestamp_us) for item in found]
        for found in outcome
    ]


def _unpacked(packed: _Packed) -> _Outcome:
    return [found if isinstance(found, str) else [Member(*item) for item in found] for found in packed]


def _read(read: Callable[[bytes, str, str], list[Member]], bodies: Iterable[tuple[bytes, str]]) -> _Outcome:
    """Members of each body, or what is wrong with it."""
    outcome: _Outcome = []
    for content, media_type in bodies:
        try:
            outcome.append(read(content, media_type, LOCAL_BASE))
        except ThalwegError as error:
            outcome.append(error.message)
    return outcome


def load_members(
    streams: Streams,
    stream: EventStream,
    bodies: Iterator[Body],
    *,
    processes: int = 1,
    advance: Callable[[int], None] = lambda size: None,
    by: str = "",
) -> Loaded:
    """Store the members of bodies, in their order; members that are there already are left as they are, so that a load
    that was cut off is simply run again.

    processes  that read bodies; 1 reads in this one
    advance    gets the bytes of the files that are done
    raises     what storing finds: NotFound, InvalidParameter for a closed stream, StoreUnavailable
    """
    loader = _Loader(streams, stream, processes, advance, by)
    try:
        for batch in _batches(bodies):
            loader.read(batch)
        return loader.finish()
    finally:
        loader.close()


def _batches(bodies: Iterator[Body]) -> Iterator[list[Body]]:
    batch: list[Body] = []
    size = 0
    for body in bodies:
        batch.append(body)
        size += len(body.content)
        if len(batch) >= BATCH_BODIES or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _Loader:
    """Batches on their way: being read, being stored."""

    def __init__(
        self, streams: Streams, stream: EventStream, processes: int, advance: Callable[[int], None], by: str
    ) -> None:
        self._streams = streams
        self._stream = stream
        self._by = by
        self._advance = advance
        self._processes = processes
        self._pool: ProcessPoolExecutor | None = None
        self._seen_bytes = 0
        self._read_bytes = 0
        self._read_ns = 0
        self._reading: deque[tuple[list[Body], Future[_Packed] | _Outcome]] = deque()
        self._storing: deque[tuple[list[Body], Future[Appended]]] = deque()
        self._loaded = Loaded()
        self._read_here = Streams.reader(stream, streams.contexts, streams.strict)

    def read(self, batch: list[Body]) -> None:
        """Have a batch read; earlier ones are stored meanwhile."""
        bodies = [(body.content, body.media_type) for body in batch]
        self._seen_bytes += sum(len(content) for content, _ in bodies)
        # Contexts of JSON-LD are this process' own.
        if self._processes > 1 and self._is_slow() and not any("json" in body.media_type for body in batch):
            if self._pool is None:
                # Threads and connections of this process must not be copied.
                context = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(self._processes, mp_context=context)
            self._reading.append(
                (batch, self._pool.submit(partial(read_batch, self._stream, self._streams.strict), bodies))
            )
        else:
            begin = time.thread_time_ns()
            outcome = _read(self._read_here, bodies)
            self._read_ns += time.thread_time_ns() - begin
            self._read_bytes += sum(len(content) for content, _ in bodies)
            self._reading.append((batch, outcome))
        while self._reading and (_is_done(self._reading[0][1]) or len(self._reading) > self._processes + 1):
            self._store(*self._reading.popleft())

    def _is_slow(self) -> bool:
        """Whether it is worth while to have others read."""
        return (
            self._seen_bytes > POOL_BYTES
            and self._read_ns > SAMPLE_NS
            and self._read_ns > self._read_bytes * HAND_OVER_NS
        )

    def _store(self, batch: list[Body], reading: Future[_Packed] | _Outcome) -> None:
        members: list[Member] = []
        outcomes = reading if isinstance(reading, list) else _unpacked(reading.result())
        for body, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, str):
                self._loaded.faulty += 1
                if len(self._loaded.faults) < MAX_FAULTS:
                    self._loaded.faults.append(Fault(body.file, body.line, outcome))
            else:
                members += outcome
        self._storing.append((batch, self._streams.append(self._stream, members, by=self._by)))
        while len(self._storing) > STORING:
            self._settle(*self._storing.popleft())

    def _settle(self, batch: list[Body], storing: Future[Appended]) -> None:
        appended = storing.result()
        self._loaded.bodies += len(batch)
        self._loaded.stored += appended.new
        self._loaded.known += len(appended.is_new) - appended.new
        # A dictionary as soon as there are enough members to make one from: they take a third of the room then.
        self._streams.tend(self._stream)
        self._advance(sum(body.size for body in batch))

    def finish(self) -> Loaded:
        """Wait for all that is on its way."""
        while self._reading:
            self._store(*self._reading.popleft())
        while self._storing:
            self._settle(*self._storing.popleft())
        return self._loaded

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def _is_done(reading: Future[_Packed] | _Outcome) -> bool:
    return isinstance(reading, list) or reading.done()
