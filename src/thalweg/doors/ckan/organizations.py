"""Actions on organizations, which are workspaces, and on who belongs to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from thalweg.auth.policy import Action, may, require
from thalweg.domain.access import SERVER, Principal, Role, Scope
from thalweg.domain.catalogue import Workspace
from thalweg.domain.errors import AlreadyExists, InvalidParameter, NotFound, NotSupported, ThalwegError
from thalweg.domain.packages import PackageQuery, Value
from thalweg.doors.ckan.catalogue import required_id, shown, workspace_named
from thalweg.doors.ckan.describing import is_id
from thalweg.doors.ckan.documents import organization
from thalweg.doors.ckan.errors import fault
from thalweg.doors.ckan.reading import Parameters, json_or
from thalweg.doors.ckan.transport import Call, answer
from thalweg.doors.http import Response
from thalweg.services.accounts import done
from thalweg.services.catalogue import MAX_WORKSPACE_EXTRAS
from thalweg.services.services import Services

MAX_LISTED: Final = 10_000
"""Most organizations, groups or tags of one answer."""
MAX_SHOWN_PACKAGES: Final = 10
"""Packages that an organization or group shows of itself, as CKAN has it."""
MAX_USERS: Final = 1_000
"""Most users of an organization or group."""
CAPACITIES: Final = {
    "member": Role.VIEWER, "editor": Role.NETWORK_MANAGER, "admin": Role.ADMIN,
}  # fmt: skip
"""CKAN's roles in an organization: its editors make datasets, which needs a network manager's right."""


def capacity_of(role: Role) -> str:
    if role >= Role.ADMIN:
        return "admin"
    return "editor" if role >= Role.DATA_MANAGER else "member"


def role_named(read: Parameters, name: str) -> Role:
    """The role that a capacity stands for. Raises ValidationError."""
    found = CAPACITIES.get(read.required(name))
    if found is None:
        raise fault(name, f"Value must be one of {sorted(CAPACITIES)}")
    return found


def new_id(call: Call) -> str:
    """The id that a client chose for what it makes, as loaders of dumps do; empty: it left that to the server."""
    given = call.parameters.get("id") or ""
    if not isinstance(given, str) or (given and not is_id(given)):
        raise fault("id", "Invalid id provided")
    return given


def extras_given(given: Mapping[str, Any], most: int) -> list[tuple[str, Any]]:
    """The ``extras`` of an organization or group: keys and values. Raises ValidationError."""
    extras = json_or(given.get("extras") or [])
    if (
        not isinstance(extras, list)
        or len(extras) > most
        or not all(isinstance(item, dict) and isinstance(item.get("key"), str) for item in extras)
    ):
        raise fault("extras", "Not a list of dicts, each with key and value")
    return [(item["key"], item.get("value")) for item in extras]


def users_given(given: Mapping[str, Any], services: Services) -> dict[str, str] | None:
    """The ``users`` of an organization or group, names to capacities; those without an account are left out, as they
    have none to whom a role could be given. None: it is not said who they are. Raises ValidationError."""
    users = json_or(given.get("users"))
    if users is None:
        return None
    if not isinstance(users, list) or len(users) > MAX_USERS or not all(isinstance(user, dict) for user in users):
        raise fault("users", "Not a list of dicts, each with a name")
    known = {user.name for user in services.access.users()}
    found: dict[str, str] = {}
    for user in users:
        name, capacity = user.get("name") or user.get("id"), user.get("capacity") or "member"
        if not isinstance(name, str):
            raise fault("users", "Not a list of dicts, each with a name")
        if capacity not in CAPACITIES:
            raise fault("users", f"The capacity of {name[:100]} must be one of {sorted(CAPACITIES)}")
        if name in known:
            found[name] = capacity
    return found


def organization_list(call: Call, services: Services) -> Response:
    """Workspaces: their names, or with all_fields what they are."""
    read = Parameters(call.parameters)
    seen = services.catalogue.workspaces_seen(call.request.principal)
    wanted = read.listed("organizations")
    found = [workspace for name, workspace in sorted(seen.items()) if wanted is None or name in wanted]
    limit, offset = read.natural("limit", MAX_LISTED), read.natural("offset", 0)
    read.done()
    found = found[offset : offset + min(limit, MAX_LISTED)]
    if not read.boolean("all_fields", False):
        return answer(call, [workspace.name for workspace in found])
    counts = package_counts(call, services)
    return answer(call, [_organization(workspace, counts) for workspace in found])


def package_counts(call: Call, services: Services) -> Mapping[str, int]:
    """How many packages the caller sees of each workspace, by its name."""
    query = PackageQuery(limit=0, facets=("organization",), facet_limit=-1, private=True)
    return dict(services.packages.search(query, call.request.principal).facets["organization"])


def _organization(workspace: Workspace, counts: Mapping[str, int]) -> dict[str, Any]:
    found = organization(workspace)
    return {
        **found,
        "display_name": found["title"],
        "image_display_url": workspace.image_url,
        "package_count": counts.get(workspace.name, 0),
    }


def _shown(workspace: Workspace, call: Call, services: Services) -> dict[str, Any]:
    return {
        **_organization(workspace, package_counts(call, services)),
        "extras": [{"key": key, "value": value} for key, value in workspace.extras],
        "tags": [],
        "groups": [],
        "users": _users(call, services, workspace),
    }


def organization_show(call: Call, services: Services) -> Response:
    """A workspace."""
    read = Parameters(call.parameters)
    workspace = workspace_named(services, _key(call), call.request.principal)
    found = _shown(workspace, call, services)
    if read.boolean("include_datasets", False):
        query = PackageQuery(Value("organization", workspace.name), limit=MAX_SHOWN_PACKAGES, private=True)
        page = services.packages.search(query, call.request.principal)
        found["packages"] = [shown(package, call, services) for package in page.packages]
    return answer(call, found)


def _key(call: Call) -> str:
    """ckanr and older clients name an organization by one of these."""
    read = Parameters(call.parameters)
    return read.text("id") or read.text("name") or read.required("id")


def _users(call: Call, services: Services, workspace: Workspace) -> list[dict[str, Any]]:
    """Who holds a role for the workspace; told to those alone who manage it."""
    if not _manages(services, call.request.principal, workspace):
        return []
    scope = Scope(workspace.id)
    return [
        {"id": grant.principal, "name": grant.principal, "capacity": capacity_of(grant.role), "state": "active"}
        for grant in services.access.grants()
        if grant.scope == scope and grant.principal
    ]


def _manages(services: Services, principal: Principal, workspace: Workspace) -> bool:
    return may(principal, Action.ADMINISTER, services.tables.workspace_resource(workspace))


def organization_list_for_user(call: Call, services: Services) -> Response:
    """Workspaces that the caller may do something in: by default make datasets."""
    read = Parameters(call.parameters)
    wanted = read.text("permission", "manage_group")
    action = {"read": Action.READ, "manage_group": Action.REGISTER, "admin": Action.ADMINISTER}.get(
        wanted, Action.REGISTER
    )
    principal = call.request.principal
    if not principal.name:
        return answer(call, [])
    counts = package_counts(call, services)
    found = [
        {**_organization(workspace, counts), "capacity": _capacity(services, principal, workspace)}
        for _, workspace in sorted(services.catalogue.workspaces_seen(principal).items())
        if may(principal, action, services.tables.workspace_resource(workspace))
    ]
    return answer(call, found)


def _capacity(services: Services, principal: Principal, workspace: Workspace) -> str:
    resource = services.tables.workspace_resource(workspace)
    if may(principal, Action.ADMINISTER, resource):
        return "admin"
    return "editor" if may(principal, Action.REGISTER, resource) else "member"


# ------------------------------------------------------------------ changing


def _described(call: Call, old: Workspace) -> Workspace:
    given = call.parameters
    for name in ("name", "title", "description", "image_url"):
        if given.get(name) is not None and not isinstance(given[name], str):
            raise fault(name, "Must be a text")
    return replace(
        old,
        name=given.get("name") or old.name,
        title=given.get("title") or "",
        abstract=given.get("description") or "",
        image_url=given.get("image_url") or "",
        extras=tuple(
            (key, "" if value is None else str(value)) for key, value in extras_given(given, MAX_WORKSPACE_EXTRAS)
        ),
    )


def organization_create(call: Call, services: Services) -> Response:
    """Make a workspace, with the users that are said to belong to it."""
    require(call.request.principal, Action.ADMINISTER, SERVER)
    Parameters(call.parameters).required("name")
    return _put(call, services, _described(call, Workspace(0, new_id(call), "")))


def organization_update(call: Call, services: Services) -> Response:
    """Describe a workspace anew; what is left out goes, but who belongs to it: that is changed by ``users``."""
    workspace = _managed(call, services)
    return _put(call, services, _described(call, workspace))


def organization_patch(call: Call, services: Services) -> Response:
    """Change what is said of a workspace; what is left out stays."""
    workspace = _managed(call, services)
    given = {
        "title": workspace.title,
        "description": workspace.abstract,
        "image_url": workspace.image_url,
        "extras": [{"key": key, "value": value} for key, value in workspace.extras],
        **call.parameters,
    }
    return _put(call, services, _described(Call(call.name, given, call.request), workspace))


def _managed(call: Call, services: Services) -> Workspace:
    """The workspace that ``id`` names, if the caller manages it."""
    principal = call.request.principal
    try:
        workspace = workspace_named(services, required_id(call), principal)
    except NotFound:
        # Who may not manage every workspace does not learn which ones there are.
        require(principal, Action.ADMINISTER)
        raise
    require(principal, Action.ADMINISTER, services.tables.workspace_resource(workspace))
    return workspace


def _put(call: Call, services: Services, workspace: Workspace) -> Response:
    users = users_given(call.parameters, services)
    try:
        made = done(services.catalogue.put_workspace(workspace, by=call.request.actor("ckan", call.name)))
    except (InvalidParameter, AlreadyExists) as error:
        names = {"workspace": "name", "abstract": "description", "uuid": "id"}
        raise fault(names.get(error.parameter or "", error.parameter or "name"), error.message) from None
    if users is not None:
        _set_members(call, services, made, users)
    return answer(call, _shown(made, call, services))


def _set_members(call: Call, services: Services, workspace: Workspace, wanted: Mapping[str, str]) -> None:
    """Have these users and no others hold roles for a workspace. Who has the capacity already keeps the role."""
    scope = Scope(workspace.id)
    held = {
        grant.principal: capacity_of(grant.role)
        for grant in services.access.grants()
        if grant.scope == scope and grant.principal
    }
    for name in held.keys() - wanted.keys():
        unset_member(call, services, workspace, name)
    for name, capacity in wanted.items():
        if held.get(name) != capacity:
            set_member(call, services, workspace, name, CAPACITIES[capacity])


def organization_delete(call: Call, services: Services) -> Response:
    """Refused: a workspace holds procedures, layers and streams, too, of which CKAN's clients know nothing."""
    _managed(call, services)
    raise NotSupported(
        "An organization is a workspace, which holds more than datasets; it cannot be deleted by this action.",
        parameter="id",
    )


# ------------------------------------------------------------------ members


def organization_member_create(call: Call, services: Services) -> Response:
    """Have a user hold a role for a workspace."""
    workspace = _managed(call, services)
    read = Parameters(call.parameters)
    role = role_named(read, "role")
    name = read.required("username")
    set_member(call, services, workspace, name, role)
    return answer(
        call, {"group_id": workspace.uuid, "table_id": name, "table_name": "user", "capacity": capacity_of(role)}
    )


def organization_member_delete(call: Call, services: Services) -> Response:
    """Take the role for a workspace away from a user."""
    workspace = _managed(call, services)
    unset_member(call, services, workspace, Parameters(call.parameters).required("username"))
    return answer(call, None)


def set_member(call: Call, services: Services, workspace: Workspace, name: str, role: Role) -> None:
    try:
        by = call.request.actor("ckan", call.name)
        services.access.grant(name, Scope(workspace.id), role, by=by)
    except NotFound:
        raise NotFound("username", "User was not found.") from None


def unset_member(call: Call, services: Services, workspace: Workspace, name: str) -> None:
    try:
        services.access.revoke(name, Scope(workspace.id), by=call.request.actor("ckan", call.name))
    except NotFound:
        raise NotFound("username", "User is not a member.") from None


def workspace_managed(call: Call, services: Services, key: str) -> Workspace | None:
    """The workspace of that name, if there is one that the caller manages; None: it is none that the caller sees."""
    try:
        workspace = workspace_named(services, key, call.request.principal)
    except ThalwegError:
        return None
    require(call.request.principal, Action.ADMINISTER, services.tables.workspace_resource(workspace))
    return workspace


def members_of(call: Call, services: Services, key: str, kind: str) -> list[tuple[str, str, str]] | None:
    """Members of an organization for ``member_list``; None: there is no such one."""
    try:
        workspace = workspace_named(services, key, call.request.principal)
    except NotFound:
        return None
    found: list[tuple[str, str, str]] = []
    if kind in ("", "package"):
        query = PackageQuery(Value("organization", workspace.name), limit=MAX_LISTED, private=True)
        page = services.packages.search(query, call.request.principal)
        found += [(package.uuid, "package", "public") for package in page.packages]
    if kind in ("", "user"):
        found += [(user["id"], "user", user["capacity"].capitalize()) for user in _users(call, services, workspace)]
    return found
