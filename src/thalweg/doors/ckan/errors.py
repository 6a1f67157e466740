"""What went wrong, as CKAN says it: an envelope with ``__type``, or for what is no call at all a JSON string."""

from __future__ import annotations

from typing import Any, Final

import orjson

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
from thalweg.domain.table_sql import SqlFault
from thalweg.domain.tables import BadRecord
from thalweg.doors.http import Request, Response

JSON: Final = "application/json;charset=utf-8"
_HTML: Final = "text/html; charset=utf-8"


class BadRequest(ThalwegError):
    """No call of an action: answered with a JSON string, without an envelope."""


class SearchQueryError(ThalwegError):
    """A query of package_search that cannot be read: 400, with an envelope."""


class NoSuchPage(ThalwegError):
    """An address that leads nowhere. ``status``: 404, or 415 for a body without a type."""

    def __init__(self, message: str, status: int = 404) -> None:
        super().__init__(message)
        self.status = status


class ValidationError(ThalwegError):
    """Several faults at once, by parameter, as CKAN lists them."""

    def __init__(self, faults: dict[str, Any]) -> None:
        first, what = next(iter(faults.items()))
        super().__init__(f"{first}: {what}", parameter=first)
        self.faults = faults


def fault(parameter: str, *messages: str) -> ValidationError:
    """One fault at one parameter."""
    return ValidationError({parameter: list(messages)})


def html(title: str, status: int) -> Response:
    text = f"<!doctype html>\n<title>{status} {title}</title>\n<h1>{status} {title}</h1>\n"
    return Response(text.encode(), _HTML, status)


def action_of(request: Request) -> str:
    """The action a path names; empty: none."""
    for start in ("api/3/action/", "api/action/"):
        if request.path.startswith(start):
            return request.path[len(start) :]
    return ""


def render_error(request: Request, error: Exception) -> Response:
    """Any exception as the client expects it."""
    if isinstance(error, BadRequest):
        return Response(orjson.dumps(f"Bad request: {error.message}"), JSON, 400)
    if isinstance(error, NoSuchPage):
        return html("Unsupported Media Type" if error.status == 415 else "Not Found", error.status)
    status, body = _described(request, error)
    action = action_of(request)
    if not action:
        titles = {403: "Forbidden", 404: "Not Found", 409: "Bad Request", 503: "Service Unavailable"}
        # Dumps are hidden from those who may not see them; a parameter at fault is a bad request there.
        hidden = request.path.startswith(("datastore", "dataset/"))
        shown = {403: 404 if hidden else 403, 409: 400}.get(status, status)
        return html(
            {400: "Bad Request", 404: "Not Found"}.get(shown, titles.get(shown, "Internal Server Error")), shown
        )
    site = request.base_url
    envelope = {
        "help": f"{site}/api/3/action/help_show?name={action[:100]}",
        "error": body,
        "success": False,
    }
    return Response(orjson.dumps(envelope), JSON, status, [("Vary", "Cookie")])


def _described(request: Request, error: Exception) -> tuple[int, dict[str, Any]]:
    match error:
        case ValidationError():
            return 409, {**error.faults, "__type": "Validation Error"}
        case SearchQueryError():
            text = f"Search Query is invalid: {error.message!r}"
            return 400, {"message": text, "__type": "Search Query Error"}
        case BadRecord():
            faults: dict[str, Any] = {error.parameter or "records": [error.message]}
            if error.row is not None and error.parameter == "records":
                faults["records_row"] = error.row
            return 409, {**faults, "__type": "Validation Error"}
        case NotFound() if error.parameter != "owner_org":
            return 404, {"message": f"Not found: {error.message}", "__type": "Not Found Error"}
        case Unauthenticated():
            return 403, {"message": f"Access denied: {error.message}", "__type": "Authorization Error"}
        case PermissionDenied():
            return 403, {"message": f"Access denied: {error.message}", "__type": "Authorization Error"}
        case MissingParameter():
            return 409, {error.parameter or "__before": ["Missing value"], "__type": "Validation Error"}
        case SqlFault():
            # What the text alone is at fault for comes as a message, as of 2.12, and as before it.
            more = {"message": error.message} if error.is_grammar else {"info": {"orig": [error.message]}}
            return 409, {"query": [error.message], **more, "__type": "Validation Error"}
        case InvalidParameter() | AlreadyExists() | NotFound():
            parameter = error.parameter or "__before"
            if parameter == "query":
                return 409, {
                    "query": ["Invalid query"],
                    "info": {"orig": [error.message]},
                    "__type": "Validation Error",
                }
            return 409, {parameter: [error.message], "__type": "Validation Error"}
        case TooLarge() | NotSupported() | InvalidRequest():
            return 409, {error.parameter or "message": [error.message], "__type": "Validation Error"}
        case StoreUnavailable():
            return 503, {"message": error.message, "__type": "Service Unavailable Error"}
        case DamagedData():
            return 500, {"message": error.message, "__type": "Internal Server Error"}
        case _:
            text = f"Internal error. The operator finds it in the log as request {request.request_id}."
            return 500, {"message": text, "__type": "Internal Server Error"}
