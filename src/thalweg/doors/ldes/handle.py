"""From a request to the function that answers it."""

from __future__ import annotations

from thalweg.domain.errors import NotFound
from thalweg.doors.http import Deferred, Request, Response
from thalweg.doors.ldes import actuator, admin, fetch
from thalweg.doors.ldes.answer import seen
from thalweg.doors.ldes.errors import PLAIN
from thalweg.doors.ldes.ingest import ingest
from thalweg.doors.ldes.routes import Route, route
from thalweg.services.services import Services


def handle(request: Request, services: Services) -> Response | Deferred:
    """Answer one request of any operation."""
    asked = route(request.path)
    operation = asked.methods.get(request.method)
    if operation == "IngestMembers":
        return ingest(request, services, asked.stream)
    if operation is None:
        # Who may not even read is not to learn from the answers which paths there are.
        seen(request, services)
        return _no_such(request, asked)
    if operation == "GetNode":
        return fetch.get_node(request, services, asked.stream, asked.view)
    match operation:
        case "GetEventStream":
            return fetch.get_stream(request, services, asked.stream)
        case "GetCatalogue":
            return fetch.get_catalogue(request, services)
        case "GetDescription":
            return fetch.get_description(request, services, asked.stream, asked.view)
        case "GetMetrics":
            return actuator.prometheus(request, services)
        case "GetHealth":
            return actuator.health(request, services)
    return admin.answer(operation, request, services, asked.stream, asked.view)


def _no_such(request: Request, asked: Route) -> Response:
    if not asked.methods:
        raise NotFound("path", f"There is nothing at '{request.path[:200]}'.")
    allow = ", ".join([*asked.methods, *(["HEAD"] if "GET" in asked.methods else []), "OPTIONS"])
    text = f"The method {request.method} is not allowed here; allowed are {allow}.\n"
    return Response(text.encode(), PLAIN, 405, [("Allow", allow)])
