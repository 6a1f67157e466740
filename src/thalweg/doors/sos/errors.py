"""Domain errors as OWS exception reports (OGC 06-121r9 clause 8; SOS codes of OGC 12-006 table 9)."""

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
    TooManyTries,
    Unauthenticated,
)
from thalweg.doors.http import Request, Response
from thalweg.encode.xmltext import attribute, escape


class OperationNotSupported(NotSupported):
    """A known operation that this server, or this version, or this way of asking does not offer."""


class VersionNegotiationFailed(ThalwegError):
    """No version in the client's AcceptVersions is served."""


class InvalidUpdateSequence(ThalwegError):
    """The client's updateSequence is greater than the server's, or none at all."""


# The nearest class in the order of inheritance counts. Locators come from the error's parameter.
TABLE: Final[dict[type[Exception], tuple[str, int]]] = {
    MissingParameter: ("MissingParameterValue", 400),
    InvalidParameter: ("InvalidParameterValue", 400),
    NotFound: ("InvalidParameterValue", 400),
    AlreadyExists: ("InvalidParameterValue", 400),
    InvalidRequest: ("InvalidRequest", 400),
    VersionNegotiationFailed: ("VersionNegotiationFailed", 400),
    InvalidUpdateSequence: ("InvalidUpdateSequence", 400),
    OperationNotSupported: ("OperationNotSupported", 501),
    NotSupported: ("OptionNotSupported", 501),
    TooLarge: ("ResponseExceedsSizeLimit", 413),
    Unauthenticated: ("NoApplicableCode", 401),
    PermissionDenied: ("NoApplicableCode", 403),
    StoreUnavailable: ("NoApplicableCode", 503),
    TooManyTries: ("NoApplicableCode", 429),
    DamagedData: ("NoApplicableCode", 500),
    ThalwegError: ("NoApplicableCode", 400),
    Exception: ("NoApplicableCode", 500),
}

_MESSAGE_LENGTH: Final = 2000


def render_error(request: Request, error: Exception, http_status: str, version: str) -> Response:
    """An exception report.

    http_status  ``ogc``: the status of the table; ``200``: always 200, as some clients need, except where HTTP itself
                 needs another: 401 (or no client would send credentials), 429 and 503 (try again later)
    version      of SOS; written as the report's version as OGC 12-006 clause 8 and 06-009r6 want it
    """
    code, status = next(TABLE[kind] for kind in type(error).__mro__ if kind in TABLE)
    headers: list[tuple[str, str]] = []
    locator: str | None = None
    if isinstance(error, ThalwegError):
        message, locator = error.message, error.parameter
        if isinstance(error, NotFound) and locator == "workspace":
            # Part of the address, not of the request.
            status, locator = 404, None
        if isinstance(error, TooLarge):
            # Said of a request, not of an answer.
            if locator == "request":
                code = "InvalidRequest"
            else:
                locator = None
    else:
        message = "The server failed to answer. The failure is logged"
        message += f" under the request id {request.request_id}." if request.request_id else "."
    # The server adds the challenge that belongs to 401.
    if isinstance(error, StoreUnavailable):
        headers.append(("Retry-After", str(error.retry_after_s)))
    if http_status == "200" and status not in (401, 429, 503):
        status = 200
    body = exception_report(version, code, locator, message)
    return Response(body, "text/xml" if version == "1.0.0" else "application/xml", status, headers)


def exception_report(version: str, code: str, locator: str | None, message: str) -> bytes:
    """The document alone. Characters that XML cannot hold become U+FFFD; overlong messages are cut."""
    where = "" if locator is None else f' locator="{attribute(locator[:300])}"'
    text = escape(message[:_MESSAGE_LENGTH])
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<ows:ExceptionReport xmlns:ows="http://www.opengis.net/ows/1.1" version="{version}" xml:lang="en">'
        f'<ows:Exception exceptionCode="{code}"{where}><ows:ExceptionText>{text}</ows:ExceptionText></ows:Exception>'
        "</ows:ExceptionReport>\n"
    ).encode()
