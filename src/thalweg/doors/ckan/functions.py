"""Functions and triggers of the database, which this server does not run for its users: refused in CKAN's shape.

What a trigger is used for - columns made of others, checks, a time of the last change - is done by the client that
writes, or when it is read, by datastore_search_sql.
"""

from __future__ import annotations

from typing import NoReturn

from thalweg.auth.policy import Action, require
from thalweg.domain.errors import NotSupported
from thalweg.doors.ckan.reading import Parameters
from thalweg.doors.ckan.transport import Call
from thalweg.services.services import Services


def refuse_functions(parameter: str) -> NoReturn:
    raise NotSupported(
        "This server keeps no functions and runs no triggers; write the values that a trigger would make, or have "
        "datastore_search_sql make them when they are read.",
        parameter=parameter,
    )


def datastore_function_create(call: Call, services: Services) -> NoReturn:
    """Refused: no function of a user's runs in this server."""
    require(call.request.principal, Action.ADMINISTER)
    Parameters(call.parameters).required("name")
    refuse_functions("name")


def datastore_function_delete(call: Call, services: Services) -> NoReturn:
    """Refused: there are no functions to delete."""
    require(call.request.principal, Action.ADMINISTER)
    Parameters(call.parameters).required("name")
    refuse_functions("name")


def datastore_run_triggers(call: Call, services: Services) -> NoReturn:
    """Refused: tables have no triggers."""
    require(call.request.principal, Action.ADMINISTER)
    services.tables.active_table(Parameters(call.parameters).required("resource_id"), call.request.principal)
    refuse_functions("triggers")
