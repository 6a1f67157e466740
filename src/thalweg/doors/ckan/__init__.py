"""CKAN's Action API: DataStore and catalogue, as clients of CKAN 2.12 and before use it."""

from __future__ import annotations

from thalweg.doors.ckan import files, handle
from thalweg.doors.ckan.errors import render_error
from thalweg.doors.door import Credentials, Door
from thalweg.services.services import Services
from thalweg.settings import Settings


def make_door(settings: Settings) -> Door[Services]:
    """The door. It answers at CKAN's own paths, at the root alone."""
    return Door(
        name="ckan",
        methods=("GET", "POST"),
        handle=handle.Handler(),
        render_error=render_error,
        operation=handle.operation,
        operations=handle.OPERATIONS,
        conformance=("CKAN Action API 3, DataStore",),
        credentials=Credentials.BARE_TOKEN,
        roots=("api", "datastore", "dataset"),
        receive=files.receiver_of,
    )


DOOR = make_door(Settings())
"""The door with default settings."""
