"""OGC API - Features, parts 1 (OGC 17-069r4), 2 (18-058r1), 3 (19-079r2), 4 (20-002r1) and 5 (23-058r1)."""

from __future__ import annotations

from thalweg.doors.door import Door
from thalweg.doors.features import paths
from thalweg.doors.features.collections import CONFORMANCE
from thalweg.doors.features.errors import render_error
from thalweg.doors.features.handle import handle
from thalweg.doors.http import Request
from thalweg.services.services import Services
from thalweg.settings import Settings


def _operation(request: Request) -> str:
    return paths.operation(request.method, request.path)


def _allowed(request: Request) -> tuple[str, ...]:
    return paths.allowed(request.path)


def make_door(settings: Settings) -> Door[Services]:
    """The door."""
    return Door(
        name="features",
        methods=("GET", "POST", "PUT", "PATCH", "DELETE"),
        handle=handle,
        render_error=render_error,
        operation=_operation,
        operations=paths.OPERATIONS,
        conformance=CONFORMANCE,
        allowed=_allowed,
    )
