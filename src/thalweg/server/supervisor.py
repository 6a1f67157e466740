"""The parent process: starts workers, starts them again when they die, stops them."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType
from typing import Final

from thalweg.domain.errors import StoreUnavailable
from thalweg.server.logs import configure_logging
from thalweg.server.ports import listen_for_doors
from thalweg.server.sockets import close_all, fit_to_open_files, listen
from thalweg.server.tls import tls_of
from thalweg.server.worker import ALIVE, ALIVE_S, READY, Factory, work
from thalweg.settings import Settings

logger = logging.getLogger(__name__)

_FIRST_BACKOFF_S: Final = 0.1
_LONGEST_BACKOFF_S: Final = 10.0
_STEADY_S: Final = 30.0
"""A worker that ran this long did not die of its start: the next one begins without delay."""
_KILL_MARGIN_S: Final = 1.5
"""Beyond ``stop_timeout_s``, what a worker is given to close its store before it is killed."""
_START_TIMEOUT_S: Final = 60.0
SAME_SIGNAL_S: Final = 0.5
"""Signals closer together than this count as one."""


@dataclass(slots=True)
class _Place:
    """One worker's place: its sockets, and the process that has them now."""

    sockets: list[socket.socket]
    process: SpawnProcess | None = None
    channel: Connection | None = None
    started: float = 0.0
    heard: float = 0.0
    ready: bool = False
    backoff_s: float = _FIRST_BACKOFF_S
    start_at: float = 0.0
    failure: str = ""


def serve(
    settings: Settings,
    factory: Factory,
    *,
    prepare: Callable[[Settings], None] | None = None,
    announce: Callable[[Settings], None] | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT.

    factory   makes the application in each worker
    prepare   called once the address is known to be free, before any worker starts
    announce  called once all workers take requests, with the settings as they came out (port, connections)
    returns   0 after an ordinary stop; 1 if running requests had to be cut off by killing a worker
    raises    InvalidParameter for an address that cannot be listened on; what ``prepare`` raises; StoreUnavailable
              with the reason if a worker cannot start at all
    """
    configure_logging(settings)
    # Told before any worker starts.
    tls_of(settings)
    settings, warning = fit_to_open_files(settings)
    if warning:
        logger.warning("%s", warning)
    sockets, port = listen(settings)
    settings = replace(settings, port=port)
    listen_for_doors(settings, sockets)
    try:
        if prepare is not None:
            prepare(settings)
        return _Supervisor(settings, factory, sockets).run(announce)
    finally:
        close_all(sockets)


class _Supervisor:
    def __init__(self, settings: Settings, factory: Factory, sockets: list[list[socket.socket]]) -> None:
        self._settings = settings
        self._factory = factory
        self._places = [_Place(group) for group in sockets]
        # Threads and connections of the parent must not be copied into workers, so they start from nothing.
        self._context = multiprocessing.get_context("spawn")
        self._signals = 0
        self._last_signal = 0.0
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)

    def run(self, announce: Callable[[Settings], None] | None) -> int:
        handlers = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            for place in self._places:
                self._start(place)
            if not self._wait_until_ready():
                return self._stop()
            if announce is not None:
                announce(self._settings)
            while not self._signals:
                looked = time.monotonic()
                self._wait(min(ALIVE_S, self._until_next_start()))
                if time.monotonic() - looked > ALIVE_S + self._settings.worker_timeout_s / 2:
                    # It is this process that has been stopped, or the whole machine: nobody's silence says anything.
                    for place in self._places:
                        place.heard = time.monotonic()
                self._kill_silent()
                self._renew()
            return self._stop()
        finally:
            for place in self._places:
                if place.process is not None and place.process.is_alive():
                    place.process.kill()
            for number, handler in handlers.items():
                signal.signal(number, handler)
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        # One Ctrl-C or stop may arrive twice: from the terminal, and passed on by the program that started this one.
        now = time.monotonic()
        if now - self._last_signal >= SAME_SIGNAL_S:
            self._signals += 1
        self._last_signal = now
        try:
            os.write(self._wake_write, b"!")
        except BlockingIOError:
            pass

    def _start(self, place: _Place) -> None:
        ours, theirs = self._context.Pipe(duplex=False)
        index = self._places.index(place) + 1
        place.process = self._context.Process(
            target=work, args=(self._settings, place.sockets, self._factory, theirs), name=f"worker {index}"
        )
        place.process.start()
        theirs.close()
        place.channel = ours
        place.started = place.heard = time.monotonic()
        place.ready = False

    def _wait(self, timeout_s: float) -> None:
        """Until a worker says something or ends, a signal comes, or the time is over."""
        things: list[Connection | int] = [self._wake_read]
        for place in self._places:
            if place.process is not None:
                things.append(place.process.sentinel)
            if place.channel is not None:
                things.append(place.channel)
        if self._wake_read in wait(things, timeout_s):
            os.read(self._wake_read, 100)
        for place in self._places:
            if place.channel is not None and place.channel.poll():
                self._hear(place, place.channel)

    @staticmethod
    def _hear(place: _Place, channel: Connection) -> None:
        """Take in all that a worker has said."""
        place.heard = time.monotonic()
        try:
            while channel.poll():
                message = channel.recv()
                if message == READY:
                    place.ready = True
                elif message != ALIVE:
                    place.failure = str(message)
        except (EOFError, OSError):
            channel.close()
            place.channel = None

    def _kill_silent(self) -> None:
        """Kill workers that have given no sign of life for long: stopped ones, and ones whose loop hangs. The kernel
        hands them their share of connections all the while."""
        now = time.monotonic()
        for place in self._places:
            limit = self._settings.worker_timeout_s if place.ready else _START_TIMEOUT_S
            process = place.process
            if process is not None and process.is_alive() and now - place.heard > limit:
                logger.error("%s (process %s) gave no sign of life for %.1f s", process.name, process.pid, limit)
                process.kill()
                process.join()

    def _wait_until_ready(self) -> bool:
        """Whether all workers take requests; False if a signal came first. A worker that fails now would fail again:
        StoreUnavailable."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not all(place.ready for place in self._places):
            if self._signals:
                return False
            self._wait(1.0)
            for place in self._places:
                if place.failure:
                    raise StoreUnavailable(place.failure)
                if not place.ready and place.process is not None and not place.process.is_alive():
                    code = place.process.exitcode
                    raise StoreUnavailable(f"A worker process ended while starting (exit code {code}).")
            if time.monotonic() > deadline:
                raise StoreUnavailable(f"The workers did not start within {_START_TIMEOUT_S:g} s.")
        return True

    def _until_next_start(self) -> float:
        waiting = [place.start_at for place in self._places if place.process is None]
        return max(0.0, min(waiting) - time.monotonic()) if waiting else 60.0

    def _renew(self) -> None:
        """Note workers that died, and start those whose turn it is."""
        now = time.monotonic()
        for place in self._places:
            process = place.process
            if process is not None and not process.is_alive():
                place.backoff_s = (
                    _FIRST_BACKOFF_S
                    if now - place.started > _STEADY_S
                    else min(place.backoff_s * 2, _LONGEST_BACKOFF_S)
                )
                place.start_at = now + place.backoff_s
                logger.error(
                    "%s (process %s) ended with exit code %s; another one starts in %.1f s. %s",
                    process.name, process.pid, process.exitcode, place.backoff_s, place.failure,
                )  # fmt: skip
                place.failure = ""
                process.close()
                place.process = None
                if place.channel is not None:
                    place.channel.close()
                    place.channel = None
            if place.process is None and now >= place.start_at and not self._signals:
                self._start(place)

    def _stop(self) -> int:
        """Let running requests end, refuse new ones, and wait for the workers; at a second signal, kill them."""
        logger.info("stopping: running requests have %g s to end", self._settings.stop_timeout_s)
        # While these are open, clients could still connect and would wait for nothing.
        close_all([place.sockets for place in self._places])
        running = [place.process for place in self._places if place.process is not None]
        for process in running:
            process.terminate()
        asked = self._signals
        deadline = time.monotonic() + self._settings.stop_timeout_s + _KILL_MARGIN_S
        # Asked once a round: one that ends between two looks would be waited for until the deadline.
        while alive := [process for process in running if process.is_alive()]:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or self._signals > max(asked, 1):
                break
            waited = wait([self._wake_read, *(process.sentinel for process in alive)], left_s)
            if self._wake_read in waited:
                os.read(self._wake_read, 100)
        killed = 0
        for process in running:
            if process.is_alive():
                logger.error("%s (process %s) did not stop in time and is killed", process.name, process.pid)
                process.kill()
                killed += 1
            process.join()
        logger.info("stopped")
        return 1 if killed else 0
