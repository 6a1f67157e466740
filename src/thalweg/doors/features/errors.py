"""Domain errors as problem documents (RFC 9457)."""

from __future__ import annotations

from typing import Any, Final

import orjson

from thalweg.domain.errors import (
    AlreadyExists,
    DamagedData,
    FeatureLocked,
    InvalidParameter,
    InvalidRequest,
    LockExpired,
    MissingParameter,
    NotFound,
    NotSupported,
    PermissionDenied,
    StoreUnavailable,
    ThalwegError,
    TooLarge,
    Unauthenticated,
    VersionConflict,
)
from thalweg.doors.http import Request, Response

PROBLEM: Final = "application/problem+json"
_MESSAGE_LENGTH: Final = 2000


class MethodNotAllowed(ThalwegError):
    """The resource is there, and does not take this method.

    allowed  the methods it takes
    """

    def __init__(self, method: str, allowed: tuple[str, ...]) -> None:
        super().__init__(f"The method {method} is not allowed here; allowed are {', '.join(allowed)}.")
        self.allowed = allowed


class UnsupportedMediaType(ThalwegError):
    """The body is in a format that is not read here."""


class PreconditionFailed(ThalwegError):
    """The client's If-Match names another state of the feature than it has."""


# The nearest class in the order of inheritance counts.
TABLE: Final[dict[type[Exception], tuple[int, str]]] = {
    MissingParameter: (400, "Missing parameter"),
    InvalidParameter: (400, "Invalid parameter"),
    InvalidRequest: (400, "Invalid request"),
    NotFound: (404, "Not found"),
    MethodNotAllowed: (405, "Method not allowed"),
    AlreadyExists: (409, "Exists already"),
    FeatureLocked: (409, "Locked"),
    LockExpired: (409, "Lock expired"),
    PreconditionFailed: (412, "Precondition failed"),
    VersionConflict: (412, "Precondition failed"),
    TooLarge: (413, "Too large"),
    UnsupportedMediaType: (415, "Unsupported media type"),
    Unauthenticated: (401, "Credentials needed"),
    PermissionDenied: (403, "Not permitted"),
    NotSupported: (501, "Not supported"),
    StoreUnavailable: (503, "Unavailable"),
    DamagedData: (500, "Damaged data"),
    ThalwegError: (400, "Error"),
    Exception: (500, "Internal error"),
}


def render_error(request: Request, error: Exception) -> Response:
    """A problem document; ``parameter`` names what is at fault, where something is."""
    status, title = next(TABLE[kind] for kind in type(error).__mro__ if kind in TABLE)
    problem: dict[str, Any] = {"type": "about:blank", "title": title, "status": status}
    headers: list[tuple[str, str]] = []
    if isinstance(error, ThalwegError):
        problem["detail"] = _legible(error.message[:_MESSAGE_LENGTH])
        if error.parameter:
            problem["parameter"] = _legible(error.parameter[:200])
    else:
        problem["detail"] = "The server failed to answer. The failure is logged" + (
            f" under the request id {request.request_id}." if request.request_id else "."
        )
    if isinstance(error, MethodNotAllowed):
        headers.append(("Allow", ", ".join(error.allowed)))
    if isinstance(error, StoreUnavailable):
        headers.append(("Retry-After", str(error.retry_after_s)))
    return Response(orjson.dumps(problem), PROBLEM, status, headers)


def _legible(text: str) -> str:
    """Half surrogates, which a client can send and no encoding can carry, replaced."""
    return text.encode("utf-8", "replace").decode()
