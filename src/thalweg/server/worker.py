"""One worker process: an application, an event loop, and the background work of its store."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from types import FrameType
from typing import Final, TypeAlias

import uvicorn

from thalweg.domain.errors import ThalwegError
from thalweg.server.contract import Application
from thalweg.server.guard import SWEEP_S, guarded, sweep
from thalweg.server.logs import configure_logging
from thalweg.settings import Settings

logger = logging.getLogger(__name__)

Factory: TypeAlias = Callable[[Settings], Application]
"""Makes the application of one process; a function at the top of a module, as its name goes to the new process."""

READY: Final = "ready"
_TICK_S: Final = 0.1
"""How often uvicorn calls ``on_tick``."""
_MAINTAIN_S: Final = 1.0
SWITCH_INTERVAL_S: Final = 0.001
_FAILED: Final = 3


class _Server(uvicorn.Server):
    """uvicorn's server with the sweep of connections, and with signals left to ``work``."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_started()

    async def on_tick(self, counter: int) -> bool:
        if counter % round(SWEEP_S / _TICK_S) == 0:
            sweep(self.server_state.connections)
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def work(settings: Settings, sockets: list[socket.socket], factory: Factory, channel: Connection) -> None:
    """Serve until SIGTERM or SIGINT, or until the parent is gone; then finish running requests and end the process.

    channel  gets ``READY`` once requests are taken, or the reason why they cannot be
    """
    parent = os.getppid()
    stop = threading.Event()
    server: _Server | None = None

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()
        if server is not None:
            server.should_exit = True

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    configure_logging(settings)
    try:
        application = factory(settings)
        application.warm_up()
    except ThalwegError as error:
        _end(channel, error.message)
    except Exception:
        logger.exception("the application cannot be made")
        _end(channel, "The application cannot be made; the log says why.")

    server = _Server(_config(settings, application), lambda: channel.send(READY))
    if stop.is_set():
        server.should_exit = True

    def maintain() -> None:
        while not stop.wait(_MAINTAIN_S):
            if os.getppid() != parent:
                logger.error("the parent process is gone; worker %d stops", os.getpid())
                on_signal(signal.SIGTERM, None)
                return
            try:
                application.maintain()
            except Exception:
                logger.exception("background work of the store failed; it is tried again")

    # The writer's thread hands the interpreter back and forth with the loop many times a commit; at the usual 5 ms it
    # waits for each turn, and inserts beside heavy reads fall to a quarter.
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    maintainer = threading.Thread(target=maintain, name="maintain", daemon=True)
    maintainer.start()
    # What has been made until now lives as long as the process: no collection needs to look at it again.
    gc.collect()
    gc.freeze()
    try:
        server.run(sockets)
    finally:
        stop.set()
        maintainer.join(2.0)
        application.close()
        logging.shutdown()
        sys.stderr.flush()
    # Threads that are still pulling an answer nobody waits for would be waited for by an ordinary exit.
    os._exit(0)


def _config(settings: Settings, application: Application) -> uvicorn.Config:
    return uvicorn.Config(
        application.asgi,
        loop="uvloop",
        http=guarded(settings),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        # uvicorn hands both on to asyncio, which takes fractions of a second.
        timeout_keep_alive=settings.keep_alive_s,  # type: ignore[arg-type]
        timeout_graceful_shutdown=settings.stop_timeout_s,  # type: ignore[arg-type]
    )


def _end(channel: Connection, reason: str) -> None:
    channel.send(reason)
    sys.exit(_FAILED)
