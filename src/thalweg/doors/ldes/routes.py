"""Paths of the door: which operation a request asks for, and on what."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from thalweg.auth.policy import Action
from thalweg.doors.http import Request

ADMIN: Final = ("admin", "api", "v1")

OPERATIONS: Final = {
    "GetCatalogue": Action.READ,
    "GetEventStream": Action.READ,
    "GetNode": Action.READ,
    "GetDescription": Action.READ,
    "IngestMembers": Action.INSERT,
    "ListEventStreams": Action.READ,
    "CreateEventStream": Action.REGISTER,
    "DescribeEventStream": Action.READ,
    "DeleteEventStream": Action.REGISTER,
    "DescribeShape": Action.READ,
    "ReplaceShape": Action.REGISTER,
    "ListViews": Action.READ,
    "CreateView": Action.REGISTER,
    "DescribeView": Action.READ,
    "DeleteView": Action.REGISTER,
    "ReplaceEventSource": Action.REGISTER,
    "CloseEventStream": Action.REGISTER,
    "CreateStreamDcat": Action.REGISTER,
    "ReplaceStreamDcat": Action.REGISTER,
    "DeleteStreamDcat": Action.REGISTER,
    "CreateViewDcat": Action.REGISTER,
    "ReplaceViewDcat": Action.REGISTER,
    "DeleteViewDcat": Action.REGISTER,
    "DescribeCatalogue": Action.READ,
    "CreateCatalogue": Action.REGISTER,
    "ReplaceCatalogue": Action.REGISTER,
    "DeleteCatalogue": Action.REGISTER,
    "GetMetrics": Action.READ,
    "GetHealth": Action.READ,
}
"""Every operation, with what the caller has to be permitted to do."""

# Below /admin/api/v1: path with placeholders, then operation by method.
_ADMIN_PATHS: Final = {
    ("eventstreams",): {"GET": "ListEventStreams", "POST": "CreateEventStream"},
    ("eventstreams", "{stream}"): {"GET": "DescribeEventStream", "DELETE": "DeleteEventStream"},
    ("eventstreams", "{stream}", "shape"): {"GET": "DescribeShape", "PUT": "ReplaceShape"},
    ("eventstreams", "{stream}", "views"): {"GET": "ListViews", "POST": "CreateView"},
    ("eventstreams", "{stream}", "views", "{view}"): {"GET": "DescribeView", "DELETE": "DeleteView"},
    ("eventstreams", "{stream}", "eventsource"): {"PUT": "ReplaceEventSource"},
    ("eventstreams", "{stream}", "close"): {"POST": "CloseEventStream"},
    ("eventstreams", "{stream}", "dcat"): {
        "POST": "CreateStreamDcat", "PUT": "ReplaceStreamDcat", "DELETE": "DeleteStreamDcat"
    },
    ("eventstreams", "{stream}", "views", "{view}", "dcat"): {
        "POST": "CreateViewDcat", "PUT": "ReplaceViewDcat", "DELETE": "DeleteViewDcat"
    },
    ("dcat",): {"GET": "DescribeCatalogue", "POST": "CreateCatalogue"},
    ("dcat", "{view}"): {"PUT": "ReplaceCatalogue", "DELETE": "DeleteCatalogue"},
}  # fmt: skip
_ROOT: Final = {"GET": "GetCatalogue"}
_STREAM: Final = {"GET": "GetEventStream", "POST": "IngestMembers"}
_NODE: Final = {"GET": "GetNode"}
_DESCRIPTION: Final = {"GET": "GetDescription"}
_FIXED: Final = {
    "actuator/prometheus": {"GET": "GetMetrics"},
    "actuator/health": {"GET": "GetHealth"},
    "actuator/info": {"GET": "GetHealth"},
}


@dataclass(frozen=True, slots=True)
class Route:
    """What a path names.

    methods  operation by HTTP method; empty: nothing is there
    stream   name of a stream, or empty
    view     name of a view (for ``/dcat/{id}`` the id), or empty
    """

    methods: dict[str, str]
    stream: str = ""
    view: str = ""


_NOTHING: Final = Route({})


@lru_cache(maxsize=512)
def route(path: str) -> Route:
    """Where a path leads. Streams and their nodes, which are asked for most, come first."""
    parts = path.strip("/").split("/")
    first = parts[0]
    if first not in ("admin", "actuator"):
        match len(parts):
            case 1:
                return Route(_STREAM, unquote(first)) if first else Route(_ROOT)
            case 2:
                return Route(_NODE, unquote(first), unquote(parts[1]))
            case 3 if parts[2] == "description":
                return Route(_DESCRIPTION, unquote(first), unquote(parts[1]))
        return _NOTHING
    fixed = _FIXED.get("/".join(parts))
    if fixed is not None:
        return Route(fixed)
    if tuple(parts[:3]) != ADMIN or len(parts) > 8:
        return _NOTHING
    rest = parts[3:]
    for pattern, methods in _ADMIN_PATHS.items():
        if len(pattern) == len(rest) and all(p == r or p[0] == "{" for p, r in zip(pattern, rest, strict=True)):
            names = {p: unquote(r) for p, r in zip(pattern, rest, strict=True)}
            return Route(methods, names.get("{stream}", ""), names.get("{view}", ""))
    return _NOTHING


def operation(request: Request) -> str:
    """The operation's name, for metrics and logs."""
    return route(request.path).methods.get(request.method, "?")
