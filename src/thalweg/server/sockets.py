"""Listening sockets and the files a process may open."""

from __future__ import annotations

import errno
import resource
import socket
from dataclasses import replace

from thalweg.domain.errors import InvalidParameter
from thalweg.settings import Settings

_BACKLOG = 2048
_OTHER_FILES = 100
"""Files a worker opens beside connections: store, log, libraries, some to spare."""


def listen(settings: Settings) -> tuple[list[list[socket.socket]], int]:
    """Listening sockets for each worker, and their port.

    Every worker has a socket of its own on the same address, among which the kernel spreads connections; one that
    starts again takes up the same socket with what waits in it.

    returns  a list per worker, with a socket for each address of the host
    raises   InvalidParameter ``host`` or ``port`` if the name has no address, the port is taken or not allowed
    """
    try:
        found = socket.getaddrinfo(
            settings.host or None, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )  # fmt: skip
    except OSError as error:
        raise InvalidParameter("host", f"The host '{settings.host}' has no address: {error.strerror}.") from None
    addresses = list(dict.fromkeys((family, address[:2]) for family, _, _, _, address in found))
    port = settings.port
    workers: list[list[socket.socket]] = [[] for _ in range(settings.workers)]
    try:
        for family, (host, _) in addresses:
            # With SO_REUSEPORT a second server could join in silently; a plain socket is refused.
            only_one = len(addresses) == 1
            with _bound(family, str(host), port, shared=False, both=only_one) as probe:
                port = probe.getsockname()[1]
            for sockets in workers:
                sockets.append(_bound(family, str(host), port, shared=True, both=only_one))
                sockets[-1].listen(_BACKLOG)
    except OSError as error:
        close_all(workers)
        if error.errno == errno.EADDRNOTAVAIL:
            raise InvalidParameter("host", f"This machine has no address '{settings.host}' to listen on.") from None
        reason = {
            errno.EADDRINUSE: "another program listens on it; give another one with --port, or stop that program",
            errno.EACCES: "ports below 1024 need special rights; give a higher one with --port",
        }.get(error.errno or 0, error.strerror or "unknown reason")
        raise InvalidParameter("port", f"Port {port} of {settings.host} cannot be used: {reason}.") from None
    return workers, port


def _bound(family: int, host: str, port: int, *, shared: bool, both: bool) -> socket.socket:
    """A bound socket; ``both``: an IPv6 one takes IPv4 connections too, if it is for all addresses."""
    created = socket.socket(family, socket.SOCK_STREAM)
    try:
        created.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            created.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            created.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if both and host == "::" else 1)
        created.bind((host, port))
    except OSError:
        created.close()
        raise
    return created


def close_all(workers: list[list[socket.socket]]) -> None:
    for sockets in workers:
        for opened in sockets:
            opened.close()


def fit_to_open_files(settings: Settings) -> tuple[Settings, str]:
    """Allow this process and its children as many open files as the connections need, as far as the system lets.

    returns  the settings, with ``max_connections`` lowered if they must be, and a line saying so or an empty one
    raises   InvalidParameter ``max_connections`` if not even 10 connections would fit
    """
    needed = settings.max_connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return settings, ""
    fitting = soft - _OTHER_FILES
    advice = f"a process may open {soft:,} files only; raise the limit (ulimit -n, LimitNOFILE) to {needed:,}"
    if fitting < 10:
        raise InvalidParameter("max_connections", f"No connections could be served: {advice}.")
    return (
        replace(settings, max_connections=fitting),
        f"Each worker serves {fitting:,} connections instead of {settings.max_connections:,}: {advice}.",
    )
