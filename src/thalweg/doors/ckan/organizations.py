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
from thalweg.doors.ckan.describing import is_id, read_extras
from thalweg.doors.ckan.documents import organization, shown_image
from thalweg.doors.ckan.errors import ValidationError, fault
from thalweg.doors.ckan.listing import containing, in_order, membership, needs_counts, told
from thalweg.doors.ckan.reading import Parameters, json_or
from thalweg.doors.ckan.transport import Call, answer
from thalweg.doors.http import Response
from thalweg.services.accounts import done, now_us
from thalweg.services.catalogue import MAX_WORKSPACE_EXTRAS
from thalweg.services.services import Services
from thalweg.services.tables import check_name

MAX_LISTED: Final = 10_000
"""Most organizations, groups or tags of one answer."""
MAX_SHOWN_PACKAGES: Final = 10
"""Packages that an organization or group shows of itself, as CKAN has it."""
MAX_USERS: Final = 1_000
"""Most users of an organization or group."""
MAX_URL: Final = 2_000
"""Longest address of a picture, characters."""
_PERMISSIONS: Final = {
    "read": Action.READ,
    **dict.fromkeys(("manage_group", "create_dataset", "update_dataset", "delete_dataset"), Action.REGISTER),
}
"""CKAN's permissions of members; all others are those of its admins."""
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
        raise fault(name, "role does not exist.")
    return found


def new_id(call: Call) -> str:
    """The id that a client chose for what it makes, as loaders of dumps do; empty: it left that to the server."""
    given = call.parameters.get("id") or ""
    if not isinstance(given, str) or (given and not is_id(given)):
        raise fault("id", "Invalid id provided")
    return given


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
        if not isinstance(name, str) or not isinstance(capacity, str):
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
    limit, offset = read.natural("limit", MAX_LISTED), read.natural("offset", 0)
    read.done()
    counts = package_counts(call, services) if needs_counts(read) else {}
    found = in_order([item for item in seen.values() if wanted is None or item.name in wanted], counts, read)
    found = found[offset : offset + min(limit, MAX_LISTED)]
    if not read.boolean("all_fields", False):
        return answer(call, [workspace.name for workspace in found])
    members = _members(services)
    return answer(call, [told(_whole(item, counts, members, call, services), read, listed=True) for item in found])


def organization_autocomplete(call: Call, services: Services) -> Response:
    """Workspaces whose name or title contains a text."""
    return answer(call, containing(services.catalogue.workspaces_seen(call.request.principal).values(), call))


def package_counts(call: Call, services: Services) -> Mapping[str, int]:
    """How many packages the caller sees of each workspace, by its name."""
    query = PackageQuery(limit=0, facets=("organization",), facet_limit=-1, private=True)
    return dict(services.packages.search(query, call.request.principal).facets["organization"])


def _organization(workspace: Workspace, counts: Mapping[str, int]) -> dict[str, Any]:
    found = organization(workspace)
    return {
        **found,
        "display_name": found["title"],
        "image_display_url": shown_image(workspace.image_url),
        "package_count": counts.get(workspace.name, 0),
        "num_followers": 0,
    }


def _whole(
    workspace: Workspace, counts: Mapping[str, int], members: _Members, call: Call, services: Services
) -> dict[str, Any]:
    return {
        **_organization(workspace, counts),
        "extras": [{"key": key, "value": value} for key, value in workspace.extras],
        "users": _users(workspace, members, call, services),
        "groups": [],
        "tags": [],
    }


def organization_show(call: Call, services: Services) -> Response:
    """A workspace."""
    read = Parameters(call.parameters)
    workspace = workspace_named(services, _key(call), call.request.principal)
    found = told(
        _whole(workspace, package_counts(call, services), _members(services), call, services), read, listed=False
    )
    if read.boolean("include_datasets", False):
        query = PackageQuery(Value("organization", workspace.name), limit=MAX_SHOWN_PACKAGES, private=True)
        page = services.packages.search(query, call.request.principal)
        found["packages"] = [shown(package, call, services) for package in page.packages]
    return answer(call, found)


def _key(call: Call) -> str:
    """ckanr and older clients name an organization by one of these."""
    read = Parameters(call.parameters)
    return read.text("id") or read.text("name") or read.required("id")


_Members = Mapping[Scope, list[dict[str, Any]]]


def _members(services: Services) -> _Members:
    """Who holds roles for what, of all workspaces together: a list of them reads it once."""
    found: dict[Scope, list[dict[str, Any]]] = {}
    for grant in services.access.grants():
        if grant.principal:
            name = grant.principal
            user = {"id": name, "name": name, "capacity": capacity_of(grant.role), "state": "active"}
            found.setdefault(grant.scope, []).append(user)
    return found


def _users(workspace: Workspace, members: _Members, call: Call, services: Services) -> list[dict[str, Any]]:
    """Who holds a role for the workspace; told to those alone who manage it."""
    return members.get(Scope(workspace.id), []) if _manages(services, call.request.principal, workspace) else []


def _manages(services: Services, principal: Principal, workspace: Workspace) -> bool:
    return may(principal, Action.ADMINISTER, services.tables.workspace_resource(workspace))


def organization_list_for_user(call: Call, services: Services) -> Response:
    """Workspaces that a user, by default the caller, may do something in: by default make datasets."""
    read = Parameters(call.parameters)
    action = _PERMISSIONS.get(read.text("permission", "manage_group"), Action.ADMINISTER)
    principal = call.request.principal
    if read.text("id", principal.name) != principal.name:
        principal = _other(call, services, read.text("id"))
    if not principal.name:
        return answer(call, [])
    counts = package_counts(call, services)
    found = [
        {**_organization(workspace, counts), "capacity": _capacity(services, principal, workspace)}
        for _, workspace in sorted(services.catalogue.workspaces_seen(principal).items())
        if may(principal, action, services.tables.private_resource(workspace))
    ]
    return answer(call, found)


def _other(call: Call, services: Services, name: str) -> Principal:
    """Another user, of whom administrators alone are told. NotFound."""
    if may(call.request.principal, Action.ADMINISTER, SERVER):
        for user in services.access.users():
            if user.name == name:
                grants = {grant.scope: grant.role for grant in services.access.grants() if grant.principal == name}
                return Principal(name, user.role, grants=grants)
    raise NotFound("id", "User was not found.")


def _capacity(services: Services, principal: Principal, workspace: Workspace) -> str:
    resource = services.tables.workspace_resource(workspace)
    if may(principal, Action.ADMINISTER, resource):
        return "admin"
    return "editor" if may(principal, Action.REGISTER, resource) else "member"


# ------------------------------------------------------------------ changing


def _described(given: Mapping[str, Any], old: Workspace) -> Workspace:
    """As a client describes it; name, title, description and picture stay where they are left out."""
    faults: dict[str, Any] = {}
    for name in ("name", "title", "description", "image_url"):
        if given.get(name) is not None and not isinstance(given[name], str):
            faults[name] = ["Must be a text"]
    image_url = given.get("image_url", old.image_url) or ""
    if isinstance(image_url, str) and (len(image_url) > MAX_URL or "\0" in image_url):
        faults["image_url"] = [f"Must be a text of at most {MAX_URL:,} characters"]
    extras = read_extras(given, faults, MAX_WORKSPACE_EXTRAS)
    if faults:
        raise ValidationError(faults)
    return replace(
        old,
        name=given.get("name") or old.name,
        title=given.get("title", old.title) or "",
        abstract=given.get("description", old.abstract) or "",
        image_url=image_url,
        extras=tuple((item["key"], item["value"]) for item in extras),
    )


def organization_create(call: Call, services: Services) -> Response:
    """Make a workspace, with the users that are said to belong to it."""
    require(call.request.principal, Action.ADMINISTER, SERVER)
    name = Parameters(call.parameters).required("name")
    made = _described(call.parameters, Workspace(0, new_id(call), name, created_us=now_us()))
    try:
        check_name(made.name)
    except InvalidParameter as error:
        raise fault("name", error.message) from None
    return _put(call, services, made)


def organization_update(call: Call, services: Services) -> Response:
    """Describe a workspace anew; extras that are left out go. Who belongs to it is changed by ``users`` alone."""
    return _put(call, services, _described(call.parameters, _managed(call, services)))


def organization_patch(call: Call, services: Services) -> Response:
    """Change what is said of a workspace; what is left out stays."""
    workspace = _managed(call, services)
    extras = [{"key": key, "value": value} for key, value in workspace.extras]
    return _put(call, services, _described({"extras": extras, **call.parameters}, workspace))


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
    except AlreadyExists as error:
        if error.parameter == "workspace":
            raise fault("name", "Group name already exists in database") from None
        raise fault("id", error.message) from None
    except InvalidParameter as error:
        names = {"abstract": "description"}
        raise fault(names.get(error.parameter or "", error.parameter or "name"), error.message) from None
    if users is not None:
        _set_members(call, services, made, users)
    return answer(call, _whole(made, package_counts(call, services), _members(services), call, services))


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
    read = Parameters(call.parameters)
    read.need("id", "username", "role")
    try:
        workspace = _managed(call, services)
    except NotFound:
        raise fault("id", "That group name or ID does not exist.") from None
    role, name = role_named(read, "role"), read.text("username")
    try:
        set_member(call, services, workspace, name, role)
    except NotFound:
        raise fault("username", "User not found") from None
    return answer(call, membership(workspace.uuid, name, "user", capacity_of(role)))


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
        # Who is no member already is none afterwards.
        if not any(user.name == name for user in services.access.users()):
            raise NotFound("username", "User was not found.") from None


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
    if kind in ("", "user"):
        found += [
            (user["id"], "user", user["capacity"].capitalize())
            for user in _users(workspace, _members(services), call, services)
        ]
    if kind in ("", "package"):
        query = PackageQuery(Value("organization", workspace.name), limit=MAX_LISTED, private=True)
        page = services.packages.search(query, call.request.principal)
        found += [(package.uuid, "package", "organization") for package in page.packages]
    return found
