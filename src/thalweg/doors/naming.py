"""The operation's name of a request to an OGC web service, for metrics and log lines: cheap, and never an error."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from thalweg.doors.http import Request

UNKNOWN: Final = "unknown"
_LOOK_AT: Final = 4096
"""How much of a document is looked at, and a fourth of how much of key-value pairs."""
_AROUND: Final = frozenset((b"Envelope", b"Header", b"Body"))
"""SOAP's elements, which the operation's stands in."""


class Naming:
    """Gives a request's operation by the names that a standard has for them.

    names  by themselves in lower case
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._known = lru_cache(maxsize=256)(self._looked_up)

    def __call__(self, request: Request) -> str:
        """One of the names, or ``unknown``."""
        body = request.body[:_LOOK_AT]
        if not body:
            return self._in_pairs(request.query)
        start = body.find(b"<")
        while start >= 0:
            following = body[start + 1 : start + 2]
            if following not in (b"?", b"!", b"/"):
                # The start tag's name ends at a blank, '>' or '/', and may have a prefix.
                tag = body[start + 1 : start + 100].split(None, 1)[:1]
                name = tag[0].split(b">", 1)[0].split(b"/", 1)[0].rpartition(b":")[2] if tag else b""
                if name not in _AROUND:
                    return self._known(name)
            start = body.find(b"<", start + 1)
        return self._in_pairs(body)

    def _in_pairs(self, query: bytes) -> str:
        lower = query[: 4 * _LOOK_AT].lower()
        start = 0 if lower.startswith(b"request=") else lower.find(b"&request=") + 1
        if start == 0 and not lower.startswith(b"request="):
            return UNKNOWN
        return self._known(lower[start + 8 : start + 72].partition(b"&")[0])

    def _looked_up(self, name: bytes) -> str:
        return self._names.get(name.decode("latin-1").strip().lower(), UNKNOWN)
