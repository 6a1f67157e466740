"""Requests of a load, and where an endless row of them comes from. Every driver takes the same ones."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

Check = Callable[[int, bytes], str]
"""Status and body to the reason why the answer is bad, empty if it is good."""

NAME: Final = "@NAME@"
TIME: Final = "@TIME@"
NUMBER: Final = "@N@"
"""Marks of a template."""


def status_ok(status: int, _body: bytes) -> str:
    """Any status below 400 is good."""
    return "" if 200 <= status < 400 else f"status {status}"


@dataclass(frozen=True, slots=True)
class Request:
    """One request to a target; ``path`` begins with a slash and holds the query.

    refused  whether a status of 400 or above is the good answer; for drivers that see no more than it
    """

    operation: str
    path: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    check: Check = status_ok
    refused: bool = False

    def encoded(self, host: str) -> bytes:
        """The request as it goes over the wire (HTTP/1.1, RFC 9112)."""
        lines = [f"{self.method} {self.path} HTTP/1.1", f"Host: {host}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if self.body or self.method in ("POST", "PUT"):
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + self.body


class Source(Protocol):
    """Where requests come from."""

    def stream(self) -> Iterator[Request]:
        """Requests without end, the same ones at each call."""
        ...


@dataclass(frozen=True, slots=True)
class Pool:
    """Made requests, sent over and over in their order."""

    requests: tuple[Request, ...]

    def stream(self) -> Iterator[Request]:
        while True:
            yield from self.requests


@dataclass(frozen=True, slots=True)
class Template:
    """Requests that differ in a name, a time and a number: each is sent once.

    request  with the marks in its path or body
    names    taken in turn; a round of them shares one time
    base_s   first time, seconds since 1970; step_s to the next round
    first    first number
    width    digits of a number, so that all bodies are equally long
    """

    request: Request
    names: tuple[str, ...] = ("",)
    base_s: int = 0
    step_s: int = 1
    first: int = 0
    width: int = 1

    def at(self, index: int) -> Request:
        """The request of an index from 0."""
        name = self.names[index % len(self.names)]
        moment = self.base_s + index // len(self.names) * self.step_s
        time_text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
        number = f"{self.first + index:0{self.width}d}"

        def filled(text: str) -> str:
            return text.replace(NAME, name).replace(TIME, time_text).replace(NUMBER, number)

        request = self.request
        return Request(
            request.operation, filled(request.path), request.method, request.headers,
            filled(request.body.decode()).encode(), request.check,
        )  # fmt: skip

    def stream(self) -> Iterator[Request]:
        index = 0
        while True:
            yield self.at(index)
            index += 1


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of request of a workload.

    sample  a few of its requests, whose answers are compared with another target's
    base    label of the case that its rate is a ratio to; empty: none
    busy    the workload's writer writes meanwhile
    """

    label: str
    source: Pool | Template
    sample: tuple[Request, ...] = ()
    base: str = ""
    busy: bool = False

    def fresh(self, number: int, seconds: float) -> Case:
        """The case for the phase of a number: what may be sent once only goes on at times and numbers of its own."""
        if isinstance(self.source, Pool):
            return self
        # A million a second is more than any generator sends.
        later = number * int(1_000_000 * max(1.0, seconds))
        moved = replace(self.source, base_s=self.source.base_s + later, first=self.source.first + later)
        return replace(self, source=moved)


def basic(credentials: tuple[str, str] | None) -> dict[str, str]:
    """The header of a name and password (RFC 7617); nothing for None."""
    if credentials is None:
        return {}
    return {"Authorization": "Basic " + base64.b64encode(":".join(credentials).encode()).decode()}
