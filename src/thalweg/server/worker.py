"""One worker process: an application, an event loop, and the background work of its store."""

from __future__ import annotations

import asyncio
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
from typing import Final, TypeAlias, cast

import uvicorn

from thalweg.domain.errors import ThalwegError
from thalweg.server.contract import Application
from thalweg.server.guard import SWEEP_S, GuardedProtocol, guarded, sweep
from thalweg.server.logs import configure_logging
from thalweg.server.tls import Tls, tls_of
from thalweg.settings import Settings

logger = logging.getLogger(__name__)

Factory: TypeAlias = Callable[[Settings], Application]
"""Makes the application of one process; a function at the top of a module, as its name goes to the new process."""

READY: Final = "ready"
ALIVE: Final = "alive"
ALIVE_S: Final = 0.5
"""How often a worker gives a sign of life, from its event loop."""
_RENEW_S: Final = 10.0
"""How often certificate files are looked at."""
_TICK_S: Final = 0.1
"""How often uvicorn calls ``on_tick``."""
_MAINTAIN_S: Final = 1.0
SWITCH_INTERVAL_S: Final = 0.001
_FAILED: Final = 3


class _Server(uvicorn.Server):
    """uvicorn's server with the sweep of connections, signs of life and TLS, and with signals left to ``work``."""

    def __init__(self, config: uvicorn.Config, tls: Tls | None, handshake_s: float, say: Callable[[str], None]) -> None:
        super().__init__(config)
        self._tls = tls
        self._handshake_s = handshake_s
        self._say = say

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # As the one it replaces does for given sockets, with a bound of the handshake's time.
        loop = asyncio.get_running_loop()
        config = self.config

        def protocol() -> asyncio.Protocol:
            return cast("type[GuardedProtocol]", config.http_protocol_class)(config, self.server_state, {})

        self.servers = []
        for listening in sockets or ():
            if self._tls is None:
                server = await loop.create_server(protocol, sock=listening, backlog=config.backlog)
            else:
                server = await loop.create_server(
                    protocol, sock=listening, backlog=config.backlog, ssl=self._tls.context,
                    ssl_handshake_timeout=self._handshake_s,
                )  # fmt: skip
            self.servers.append(server)
        self.started = True
        self._say(READY)

    async def on_tick(self, counter: int) -> bool:
        if counter % round(SWEEP_S / _TICK_S) == 0:
            sweep(self.server_state.connections)
        if counter % round(ALIVE_S / _TICK_S) == 0:
            self._say(ALIVE)
        if self._tls is not None and counter % round(_RENEW_S / _TICK_S) == 0:
            self._tls.renew()
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def work(settings: Settings, sockets: list[socket.socket], factory: Factory, channel: Connection) -> None:
    """Serve until SIGTERM or SIGINT, or until the parent is gone; then finish running requests and end the process.

    channel  gets ``READY`` once requests are taken, or the reason why they cannot be; then ``ALIVE`` again and again
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
        tls = tls_of(settings)
        application = factory(settings)
        application.warm_up()
    except ThalwegError as error:
        _end(channel, error.message)
    except Exception:
        logger.exception("the application cannot be made")
        _end(channel, "The application cannot be made; the log says why.")

    def say(word: str) -> None:
        try:
            channel.send(word)
        except OSError:
            # The parent is gone, which ``maintain`` sees, or it is stopped and the pipe is full.
            pass

    os.set_blocking(channel.fileno(), False)
    server = _Server(_config(settings, application), tls, settings.head_timeout_s, say)
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
        http=guarded(settings, application.direct),
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
