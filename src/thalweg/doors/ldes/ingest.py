"""Members coming in: ``POST /{stream}``."""

from __future__ import annotations

from concurrent.futures import Future

from thalweg.auth.policy import Action
from thalweg.domain.streams import Appended
from thalweg.doors.http import Deferred, Request, Response
from thalweg.doors.ldes.answer import find_stream
from thalweg.doors.ldes.work import in_thread
from thalweg.encode.rdf.shapes import validator_of
from thalweg.services.services import Services


def ingest(request: Request, services: Services, name: str) -> Deferred:
    """Store the members of the body, all or none; answered once they are durable."""
    stream = find_stream(request, services, name, Action.INSERT)

    def append() -> Future[Appended]:
        return services.streams.ingest(
            stream,
            request.body,
            request.header(b"content-type"),
            base_iri=f"{request.base_url}/{stream.name}",
            by=request.actor("ldes", "IngestMembers"),
        )

    if stream.shape:
        validator = validator_of(stream.shape)
        if validator is not None and validator.is_slow:
            return in_thread(lambda: _stored(append().result(services.settings.request_timeout_s)))
    return Deferred(append(), _stored)


def _stored(appended: Appended) -> Response:
    """201 if every member is new, 200 if any was known before: its first content stays."""
    return Response(b"", "", 201 if appended.new == len(appended.is_new) else 200)
