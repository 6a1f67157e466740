"""Domain errors as answers: a line of text, or a SHACL validation report where a shape was not met."""

from __future__ import annotations

from typing import Final

from thalweg.domain.errors import (
    AlreadyExists,
    DamagedData,
    InvalidParameter,
    InvalidRequest,
    MissingParameter,
    NotFound,
    NotSupported,
    PermissionDenied,
    StoreUnavailable,
    ThalwegError,
    TooLarge,
    Unauthenticated,
)
from thalweg.domain.streams import Gone
from thalweg.doors.http import Request, Response
from thalweg.encode.rdf.report import ShapeViolation, report_turtle

PLAIN: Final = "text/plain; charset=utf-8"
TURTLE_TYPE: Final = "text/turtle; charset=utf-8"

# The nearest class in the order of inheritance counts.
TABLE: Final[dict[type[Exception], int]] = {
    ShapeViolation: 400,
    MissingParameter: 400,
    InvalidParameter: 400,
    InvalidRequest: 400,
    AlreadyExists: 400,
    Gone: 410,
    NotFound: 404,
    TooLarge: 413,
    NotSupported: 400,
    Unauthenticated: 401,
    PermissionDenied: 403,
    StoreUnavailable: 503,
    DamagedData: 500,
    ThalwegError: 400,
    Exception: 500,
}
_BY_PARAMETER: Final = {"Content-Type": 415, "Content-Encoding": 415, "Accept": 406}
"""What is not supported, by the header that asks for it."""
_MESSAGE_LENGTH: Final = 2000


def render_error(request: Request, error: Exception, *, any_origin: bool = True) -> Response:
    """The answer to a request that failed.

    any_origin  whether pages of every origin may read it; False where the server itself says which
    """
    headers = [("Access-Control-Allow-Origin", "*")] if any_origin else []
    if isinstance(error, ShapeViolation):
        return Response(report_turtle(error.violations), TURTLE_TYPE, 400, headers)
    status = next(TABLE[kind] for kind in type(error).__mro__ if kind in TABLE)
    if isinstance(error, NotSupported):
        status = _BY_PARAMETER.get(error.parameter or "", status)
    if isinstance(error, ThalwegError):
        text = error.message[:_MESSAGE_LENGTH]
        if error.parameter and error.parameter not in text:
            text = f"{error.parameter}: {text}"
    else:
        text = f"Internal error. The operator finds it in the log as request {request.request_id}."
    return Response(f"{text}\n".encode(), PLAIN, status, headers)
