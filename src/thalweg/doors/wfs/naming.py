"""The operation's name of a request, for metrics and log lines: cheap, and never an error."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from thalweg.doors.http import Request
from thalweg.doors.wfs.request import BY_LOWER_NAME

UNKNOWN: Final = "unknown"
_LOOK_AT: Final = 4096
_AROUND: Final = frozenset((b"Envelope", b"Header", b"Body"))


def operation(request: Request) -> str:
    """One of the standards' operation names, or ``unknown``."""
    body = request.body[:_LOOK_AT]
    if not body:
        return _in_pairs(request.query)
    start = body.find(b"<")
    while start >= 0:
        following = body[start + 1 : start + 2]
        if following not in (b"?", b"!", b"/"):
            # The start tag's name ends at a blank, '>' or '/', and may have a prefix.
            tag = body[start + 1 : start + 100].split(None, 1)[:1]
            name = tag[0].split(b">", 1)[0].split(b"/", 1)[0].rpartition(b":")[2] if tag else b""
            if name not in _AROUND:
                return _known(name)
        start = body.find(b"<", start + 1)
    return _in_pairs(body)


def _in_pairs(query: bytes) -> str:
    lower = query[: 4 * _LOOK_AT].lower()
    start = 0 if lower.startswith(b"request=") else lower.find(b"&request=") + 1
    if start == 0 and not lower.startswith(b"request="):
        return UNKNOWN
    return _known(lower[start + 8 : start + 72].partition(b"&")[0])


@lru_cache(maxsize=256)
def _known(name: bytes) -> str:
    return BY_LOWER_NAME.get(name.decode("latin-1").strip().lower(), UNKNOWN)
