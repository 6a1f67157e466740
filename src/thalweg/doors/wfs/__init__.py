"""Web Feature Service 1.0.0 (OGC 02-058), 1.1.0 (04-094) and 2.0 (09-025r2)."""

from __future__ import annotations

from typing import Final

from thalweg.doors.door import Door
from thalweg.doors.wfs import handle
from thalweg.doors.wfs.errors import render_error
from thalweg.doors.wfs.request import operation_of
from thalweg.services.services import Services
from thalweg.settings import Settings

_CLASS: Final = "http://www.opengis.net/spec/wfs/2.0/conf/"
CONFORMANCE: Final = tuple(
    f"{_CLASS}{name}"
    for name in (
        "simple-wfs", "basic-wfs", "transactional-wfs", "locking-wfs", "http-get", "http-post", "soap",
        "response-paging", "standard-joins", "spatial-joins", "temporal-joins", "manage-stored-queries",
    )
)  # fmt: skip


def make_door(settings: Settings) -> Door[Services]:
    """The door. What it offers at the service level of the settings is decided per request."""
    return Door(
        name="wfs",
        methods=("GET", "POST"),
        handle=handle.handle,
        render_error=render_error,
        operation=operation_of,
        operations=handle.OPERATIONS,
        conformance=CONFORMANCE,
    )
