"""The form of a door: what the server needs to know of a protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from thalweg.auth.policy import Action
from thalweg.doors.http import Deferred, Receiver, Request, Response

S = TypeVar("S")


class Credentials(Enum):
    """How a protocol's clients say who they are, beside the Basic and Bearer schemes that every door takes."""

    STANDARD = "standard"
    """nothing else: any other Authorization header is answered 401"""
    BARE_TOKEN = "bare token"  # noqa: S105 (no token)
    """``Authorization: TOKEN`` as well, and a bad token of that form is an anonymous caller (CKAN)"""


@dataclass(frozen=True, slots=True)
class Door(Generic[S]):
    """One protocol.

    name          first part of its URLs (``/sos``, ``/{workspace}/sos``), of settings, metrics and log lines
    methods       HTTP methods it takes; others get 405 with Allow
    handle        request → response; plain synchronous code that takes some milliseconds at most before it gives
                  an iterator or a Deferred. Raises domain errors
    render_error  any exception → the protocol's error document. An exception that is no ThalwegError is answered
                  without its text, by request id alone; the server has logged it
    operation     the operation's name for metrics and logs, from a request; cheap, never fails
    operations    every operation the door has, by the name that ``operation`` gives, with what the caller has to be
                  permitted to do; ``handle`` goes by the same table
    credentials   how its clients say who they are
    allowed       the methods that the resource of a request takes, of those of the door; None: all of them. Told in
                  answer to OPTIONS
    roots         first path parts that it answers at instead of its name, without any workspace before them: paths
                  that its clients take for granted. ``Request.path`` is then the whole path, and ``base_url`` the
                  server's
    receive   what takes the body of a request as it arrives, once the caller is known; None: it is read into
              ``Request.body``. ``handle`` is then called in a thread. Raises domain errors
    """

    name: str
    methods: tuple[str, ...]
    handle: Callable[[Request, S], Response | Deferred]
    render_error: Callable[[Request, Exception], Response]
    operation: Callable[[Request], str]
    operations: Mapping[str, Action]
    conformance: tuple[str, ...] = ()
    credentials: Credentials = Credentials.STANDARD
    allowed: Callable[[Request], tuple[str, ...]] | None = None
    roots: tuple[str, ...] = ()
    receive: Callable[[Request, S], Receiver | None] | None = None
