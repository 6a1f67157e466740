"""From a path to an action and its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import orjson

from thalweg import __version__
from thalweg.auth.policy import Action, may
from thalweg.domain.access import SERVER
from thalweg.domain.errors import NotFound
from thalweg.doors.ckan import catalogue, records
from thalweg.doors.ckan.dump import page
from thalweg.doors.ckan.errors import JSON, BadRequest, NoSuchPage, action_of, fault
from thalweg.doors.ckan.search import Remembered, datastore_search
from thalweg.doors.ckan.sql import datastore_search_sql
from thalweg.doors.ckan.transport import Call, answer, parameters_of
from thalweg.doors.http import Deferred, Request, Response
from thalweg.services.services import Services

CKAN_VERSION: Final = "2.12.0"
"""The version of the interface that is spoken."""
DUMP: Final = "dump"
VERSION: Final = "version"
OTHER: Final = "other"


@dataclass(frozen=True, slots=True)
class Entry:
    """An action. ``changes``: it has to be posted; ``action``: what a caller has to be permitted to do at least."""

    handle: Callable[[Call, Services], Response | Deferred]
    action: Action = Action.READ
    changes: bool = False


def status_show(call: Call, services: Services) -> Response:
    """What this server is."""
    return answer(
        call,
        {
            "ckan_version": CKAN_VERSION,
            "error_emails_to": None,
            "extensions": ["datastore"],
            "locale_default": "en",
            "site_description": f"Thalweg {__version__.split('+')[0]}" if call.request.principal.name else "",
            "site_title": "Thalweg",
            "site_url": call.site,
        },
    )


def help_show(call: Call, services: Services) -> Response:
    """What an action does."""
    name = call.parameters.get("name")
    if not name or not isinstance(name, str):
        raise fault("name", "Missing value")
    entry = ACTIONS.get(name)
    if entry is None:
        raise NotFound("name", f"Action {name[:100]!r} was not found.")
    return answer(call, entry.handle.__doc__)


ACTIONS: Final[dict[str, Entry]] = {
    "datastore_search": Entry(datastore_search),
    "datastore_search_sql": Entry(datastore_search_sql),
    "datastore_info": Entry(records.datastore_info),
    "datastore_create": Entry(records.datastore_create, Action.REGISTER, changes=True),
    "datastore_upsert": Entry(records.datastore_upsert, Action.INSERT, changes=True),
    "datastore_delete": Entry(records.datastore_delete, Action.INSERT, changes=True),
    "datastore_records_delete": Entry(records.datastore_records_delete, Action.INSERT, changes=True),
    "package_list": Entry(catalogue.package_list),
    "package_show": Entry(catalogue.package_show),
    "package_create": Entry(catalogue.package_create, Action.REGISTER, changes=True),
    "package_delete": Entry(catalogue.package_delete, Action.REGISTER, changes=True),
    "dataset_purge": Entry(catalogue.dataset_purge, Action.REGISTER, changes=True),
    "resource_show": Entry(catalogue.resource_show),
    "resource_create": Entry(catalogue.resource_create, Action.REGISTER, changes=True),
    "resource_delete": Entry(catalogue.resource_delete, Action.REGISTER, changes=True),
    "organization_list": Entry(catalogue.organization_list),
    "organization_show": Entry(catalogue.organization_show),
    "status_show": Entry(status_show),
    "help_show": Entry(help_show),
}
OPERATIONS: Final = {
    **{name: entry.action for name, entry in ACTIONS.items()},
    DUMP: Action.READ,
    VERSION: Action.READ,
    OTHER: Action.READ,
}
"""What the caller has to be permitted to do at least, by name of action; OTHER: what is none."""

_VERSIONS: Final = {"api": 1, "api/": 1, "api/1": 1, "api/2": 2, "api/3": 3}


def operation(request: Request) -> str:
    """The name for metrics and logs: none but those of the table."""
    name = action_of(request)
    if name:
        return name if name in ACTIONS else OTHER
    if request.path.startswith("datastore/dump/"):
        return DUMP
    return VERSION if request.path in _VERSIONS else OTHER


class Handler:
    """Answers requests; remembers searches."""

    def __init__(self) -> None:
        self._remembered = Remembered()

    def __call__(self, request: Request, services: Services) -> Response | Deferred:
        if request.path.endswith("action/datastore_search"):
            found = self._remembered.quick(request, services)
            if found is not None:
                return found
        name = action_of(request)
        if name:
            return self._act(name, request, services)
        version = _VERSIONS.get(request.path)
        if version is not None:
            require_something(request, services)
            return Response(orjson.dumps({"version": version}), JSON)
        return page(request, services)

    @staticmethod
    def _act(name: str, request: Request, services: Services) -> Response | Deferred:
        entry = ACTIONS.get(name)
        if entry is None:
            require_something(request, services)
            if "/" in name:
                raise NoSuchPage("There is no such page.")
            raise BadRequest(f"Action name not known: {name[:100]}")
        parameters, callback = parameters_of(request, entry.changes)
        if callback:
            # A page of any other site can have this done, in the name of whoever looks at it.
            request.principal = services.access.quick("") or replace(request.principal, name="", grants={}, via="")
        if entry.action is Action.READ:
            require_something(request, services)
        return entry.handle(Call(name, parameters, request, callback), services)


def require_something(request: Request, services: Services) -> None:
    """Refuse a caller who may read nothing at all on a closed server."""
    principal = request.principal
    if not may(principal, Action.READ, SERVER):
        services.tables.require_something(principal, services.catalogue.workspaces_seen(principal))
