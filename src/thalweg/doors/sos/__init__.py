"""Sensor Observation Service 1.0.0 (OGC 06-009r6) and 2.0.0 (OGC 12-006), as istSOS' clients use it as well."""

from __future__ import annotations

from thalweg.doors.door import Door
from thalweg.doors.http import Request, Response
from thalweg.doors.sos import handle
from thalweg.doors.sos.capabilities20 import PROFILES
from thalweg.doors.sos.errors import render_error
from thalweg.doors.sos.request import operation_of
from thalweg.doors.sos.versions import likely_version
from thalweg.services.services import Services
from thalweg.settings import Settings


def make_door(settings: Settings) -> Door[Services]:
    """The door, with the policy of HTTP statuses that the settings name."""
    http_status = settings.sos_http_status

    def answer_error(request: Request, error: Exception) -> Response:
        return render_error(request, error, http_status, likely_version(request))

    return Door(
        name="sos",
        methods=("GET", "POST"),
        handle=handle.handle,
        render_error=answer_error,
        operation=operation_of,
        operations=handle.OPERATIONS,
        conformance=PROFILES,
    )


DOOR = make_door(Settings())
"""The door with default settings."""
