"""Actions on what this server has none of: views, followers, relationships and collaborators.

Clients ask for them as they go along, and are answered as a CKAN answers where there are none.
"""

from __future__ import annotations

from typing import Final

from thalweg.auth.policy import Action
from thalweg.domain.errors import NotFound
from thalweg.doors.ckan.catalogue import found_resource, workspace_named
from thalweg.doors.ckan.errors import ValidationError, fault
from thalweg.doors.ckan.reading import Parameters
from thalweg.doors.ckan.transport import Call, answer
from thalweg.doors.http import Response
from thalweg.services.services import Services

_ROLES: Final = ("Admin", "Editor", "Member")


def resource_view_list(call: Call, services: Services) -> Response:
    """Views of a resource: none, as this server has pages of its own instead."""
    found_resource(call, services)
    return answer(call, [])


def resource_view_show(call: Call, services: Services) -> Response:
    """A view, of which there are none."""
    Parameters(call.parameters).required("id")
    raise NotFound("id", "Resource view was not found.")


def resource_view_create(call: Call, services: Services) -> Response:
    """Refused: there are no views."""
    read = Parameters(call.parameters)
    read.need("resource_id", "view_type")
    services.tables.table(read.text("resource_id"), call.request.principal, Action.REGISTER)
    raise ValidationError({"view_type": f"No plugin found for view_type {read.text('view_type')[:100]}"})


def default_views(call: Call, services: Services) -> Response:
    """Views that a resource or package has of itself: none."""
    principal = call.request.principal
    given = call.parameters.get("resource") or call.parameters.get("package")
    key = given.get("id") if isinstance(given, dict) else None
    if not isinstance(key, str):
        raise fault("id", "Missing value")
    if call.name.startswith("resource"):
        services.tables.table(key, principal, Action.REGISTER)
    else:
        services.tables.package(key, principal, Action.REGISTER)
    return answer(call, [])


def package_relationships_list(call: Call, services: Services) -> Response:
    """Relationships of a package: none."""
    services.tables.package(Parameters(call.parameters).required("id"), call.request.principal)
    return answer(call, [])


def collaborators(call: Call, services: Services) -> Response:
    """Refused, as CKAN does unless a site allows collaborators: roles are held in organizations."""
    raise ValidationError({"message": "Dataset collaborators not enabled"})


def _look_for_followed(call: Call, services: Services) -> None:
    """Raises ValidationError for what is not there or may not be seen."""
    key = Parameters(call.parameters).required("id")
    kind = "dataset" if "dataset" in call.name else "group" if "group" in call.name else "organization"
    try:
        if kind == "dataset":
            services.tables.package(key, call.request.principal)
        elif kind == "group":
            services.packages.group(key)
        else:
            workspace_named(services, key, call.request.principal)
    except NotFound:
        raise fault("id", f"Not found: {kind.capitalize()}") from None


def follower_count(call: Call, services: Services) -> Response:
    """How many follow a package, group or organization: nobody."""
    _look_for_followed(call, services)
    return answer(call, 0)


def am_following(call: Call, services: Services) -> Response:
    """Whether the caller follows a package, group or organization: no."""
    _look_for_followed(call, services)
    return answer(call, False)


def member_roles_list(call: Call, services: Services) -> Response:
    """The roles that members can have."""
    roles = _ROLES if Parameters(call.parameters).text("group_type", "organization") == "organization" else _ROLES[::2]
    return answer(call, [{"text": role, "value": role.lower()} for role in roles])
