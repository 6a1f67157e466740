"""A door on a port of its own, at the root: scripts made for the original server run unchanged."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import Final

from thalweg.domain.errors import InvalidParameter
from thalweg.server.sockets import close_all, listen
from thalweg.settings import Settings

DOOR_PORTS: Final = {"ldes": "ldes_port"}
"""Doors that can have a port of their own, with the setting that names it."""


def listen_for_doors(settings: Settings, workers: list[list[socket.socket]]) -> None:
    """Add to each worker's listening sockets those of the doors' own ports.

    raises  InvalidParameter naming the setting if a port cannot be listened on; sockets opened until then are closed
    """
    for name in DOOR_PORTS.values():
        port = getattr(settings, name)
        if not port:
            continue
        try:
            added, _ = listen(replace(settings, port=port))
        except InvalidParameter as error:
            close_all(workers)
            raise InvalidParameter(name, f"{name}: {error.message}") from None
        for sockets, more in zip(workers, added, strict=True):
            sockets.extend(more)
