"""Linked Data Event Streams and TREE, with ingest and administration as the Flanders LDES server has them."""

from __future__ import annotations

from functools import partial

from thalweg.doors.door import Door
from thalweg.doors.ldes import errors, handle, routes
from thalweg.encode.rdf.contexts import load_contexts
from thalweg.services.services import Services
from thalweg.settings import Settings

CONFORMANCE = ("https://w3id.org/ldes", "https://w3id.org/tree")


def make_door(settings: Settings) -> Door[Services]:
    """The door. InvalidParameter if the JSON-LD contexts that the settings name cannot be read."""
    load_contexts(settings.ldes_contexts)
    return Door(
        name="ldes",
        methods=("GET", "POST", "PUT", "DELETE"),
        handle=handle.handle,
        render_error=partial(errors.render_error, any_origin=not settings.cors_origins),
        operation=routes.operation,
        operations=routes.OPERATIONS,
        conformance=CONFORMANCE,
    )
