"""Requests and responses as doors see them, independent of the HTTP server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from thalweg.domain.access import Actor, Principal


@dataclass(slots=True)
class Request:
    """One HTTP request, body read and bounded, caller known.

    path       what follows the door's mount point, without leading slash (``""`` for ``/sos``)
    query      the raw query string, not decoded
    headers    as received, names in lower case
    workspace  the workspace's name, from the URL
    base_url   the door's own public address without trailing slash (``https://example.org/sos``), made from the
               setting ``public_url``, never from the Host header
    received   what took the body in place of ``body``; None: nothing did
    address    it came from, behind trusted proxies the one that they name
    """

    method: str
    path: str
    query: bytes
    headers: Iterable[tuple[bytes, bytes]]
    body: bytes
    workspace: str
    base_url: str
    principal: Principal
    request_id: str = ""
    address: str = ""
    received: Receiver | None = None

    def actor(self, door: str, operation: str) -> Actor:
        """The caller as the audit log names who changed something."""
        return Actor(self.principal.name, self.address, self.request_id, door, operation)

    def header(self, name: bytes) -> str:
        """The first header of that (lower case) name, or an empty text."""
        for key, value in self.headers:
            if key == name:
                return value.decode("latin-1")
        return ""


class Receiver(Protocol):
    """Takes a body that is too large to be held in memory, as it arrives. Called from threads, one at a time.

    limit  bytes of the body that are let through
    """

    @property
    def limit(self) -> int: ...

    def feed(self, data: bytes) -> None:
        """The next bytes, some hundred kilobytes at most. Raises domain errors, after which no more come."""
        ...

    def end(self) -> None:
        """The body is whole. Raises domain errors."""
        ...

    def discard(self) -> None:
        """Give back what is held; called in any case, in the end."""
        ...


@dataclass(slots=True, eq=False)
class Kept:
    """What the server makes once of a body that is given out again and again, kept for as long as the door keeps that.

    compressed  the body in gzip, once it has been made
    making      while it is being made
    """

    compressed: bytes | None = None
    making: Future[bytes] | None = None


@dataclass(slots=True)
class Response:
    """One HTTP response.

    body     bytes, or pieces of them that lie ready (a tuple or list, sent one after the other without being joined),
             or an iterator of bytes that is pulled as the client reads; its first item is ready before the status line
             goes out, so that a failure until then can still be an error document
    etag     strong validator with its quotes, or empty; the server answers 304 by it
    kept     of a body that is given out again, the same with the same bytes
    """

    body: bytes | tuple[bytes, ...] | list[bytes] | Iterator[bytes]
    content_type: str
    status: int = 200
    headers: list[tuple[str, str]] = field(default_factory=list)
    etag: str = ""
    kept: Kept | None = None


@dataclass(slots=True)
class Deferred:
    """A response that waits for a write to be durable; the server thread goes on meanwhile.

    future   the store's future
    finish   called with the future's result once it is done; what it or the future raises goes to the door's
             ``render_error``
    repeatable  whether names were chosen that were free in the catalogue looked at: if another write has taken one
             meanwhile (AlreadyExists), the request is to be handled anew, which chooses others or refuses it
    """

    future: Future[Any]
    finish: Callable[[Any], Response]
    repeatable: bool = False
