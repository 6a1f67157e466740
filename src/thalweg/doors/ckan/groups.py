"""Actions on groups: packages of any organizations under one heading."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final

from thalweg.auth.policy import Action, require
from thalweg.domain.access import SERVER
from thalweg.domain.errors import NotFound
from thalweg.domain.packages import Group, PackageQuery, Value
from thalweg.domain.tables import Package
from thalweg.doors.ckan.catalogue import required_id, shown
from thalweg.doors.ckan.describing import MAX_TEXT
from thalweg.doors.ckan.documents import group_document
from thalweg.doors.ckan.errors import ValidationError, fault
from thalweg.doors.ckan.organizations import (
    CAPACITIES,
    MAX_LISTED,
    MAX_SHOWN_PACKAGES,
    MAX_USERS,
    capacity_of,
    extras_given,
    members_of,
    new_id,
    role_named,
    set_member,
    unset_member,
    users_given,
    workspace_managed,
)
from thalweg.doors.ckan.reading import Parameters
from thalweg.doors.ckan.transport import Call, answer, with_floats
from thalweg.doors.http import Deferred, Response
from thalweg.services.services import Services

MAX_GROUP_EXTRAS: Final = 500


def _counts(call: Call, services: Services) -> Mapping[str, int]:
    query = PackageQuery(limit=0, facets=("groups",), facet_limit=-1, private=True)
    return dict(services.packages.search(query, call.request.principal).facets["groups"])


def group_list(call: Call, services: Services) -> Response:
    """Groups: their names, or with all_fields what they are."""
    read = Parameters(call.parameters)
    wanted = read.listed("groups")
    found = [group for group in services.packages.groups() if wanted is None or group.name in wanted]
    limit, offset = read.natural("limit", MAX_LISTED), read.natural("offset", 0)
    sort = read.text("sort") or read.text("order_by") or "title asc"
    read.done()
    counts = _counts(call, services)
    field, _, direction = sort.partition(" ")
    keys = {
        "name": lambda group: group.name,
        "title": lambda group: (group.title or group.name).casefold(),
        "package_count": lambda group: counts.get(group.name, 0),
        "packages": lambda group: counts.get(group.name, 0),
    }
    if field not in keys or direction not in ("", "asc", "desc"):
        raise fault("sort", f"Cannot sort by field `{field[:100]}`")
    found.sort(key=keys[field], reverse=direction == "desc")
    found = found[offset : offset + min(limit, MAX_LISTED)]
    if not read.boolean("all_fields", False):
        return answer(call, [group.name for group in found])
    return answer(call, [_document(group, counts) for group in found])


def _document(group: Group, counts: Mapping[str, int]) -> dict[str, Any]:
    return group_document(group, counts.get(group.name, 0))


def _shown(group: Group, call: Call, services: Services) -> dict[str, Any]:
    found = _document(group, _counts(call, services))
    found["extras"] = [dict(item) for item in group.document.get("extras", ())]
    found["users"] = []
    if services.packages.may_edit(group, call.request.principal):
        found["users"] = [
            {"id": name, "name": name, "capacity": capacity, "state": "active"}
            for name, capacity in group.document.get("users", ())
        ]
    found["tags"], found["groups"] = [], []
    return found


def group_show(call: Call, services: Services) -> Response:
    """A group; with include_datasets some of its packages."""
    group = services.packages.group(required_id(call))
    found = _shown(group, call, services)
    if Parameters(call.parameters).boolean("include_datasets", False):
        found["packages"] = [shown(p, call, services) for p in _packages(group, call, services, MAX_SHOWN_PACKAGES)]
    return answer(call, found)


def _packages(group: Group, call: Call, services: Services, limit: int, offset: int = 0) -> list[Package]:
    query = PackageQuery(Value("groups", group.name), sort=(("name", False),), limit=limit, offset=offset, private=True)
    return services.packages.search(query, call.request.principal).packages


def group_package_show(call: Call, services: Services) -> Response:
    """The packages of a group."""
    group = services.packages.group(required_id(call))
    read = Parameters(call.parameters)
    limit, offset = min(read.natural("limit", 1_000), 1_000), read.natural("offset", 0)
    read.done()
    return answer(call, [shown(p, call, services) for p in _packages(group, call, services, limit, offset)])


def group_list_authz(call: Call, services: Services) -> Response:
    """Groups that the caller may put packages into."""
    principal = call.request.principal
    counts = _counts(call, services)
    groups = [group for group in services.packages.groups() if services.packages.may_edit(group, principal)]
    return answer(call, [_document(group, counts) for group in groups])


# ------------------------------------------------------------------ changing


def _described(given: Mapping[str, Any], old: Group, services: Services) -> Group:
    faults: dict[str, Any] = {}
    document: dict[str, Any] = {}
    for name in ("name", "title", "description", "image_url", "type"):
        value = given.get(name)
        if value is not None and (not isinstance(value, str) or len(value) > MAX_TEXT or "\0" in value):
            faults[name] = [f"Must be a text of at most {MAX_TEXT:,} characters"]
        elif value and name in ("description", "image_url", "type"):
            document[name] = value
    if not given.get("name"):
        faults["name"] = ["Missing value"]
    if faults:
        raise ValidationError(faults)
    document["extras"] = [
        {"key": key, "value": with_floats(value)} for key, value in extras_given(given, MAX_GROUP_EXTRAS)
    ]
    users = users_given(given, services)
    document["users"] = old.document.get("users", []) if users is None else [list(user) for user in users.items()]
    return replace(old, name=given["name"], title=given.get("title") or "", document=document)


def group_create(call: Call, services: Services) -> Deferred:
    """Make a group; packages can be put into it at once."""
    principal = call.request.principal
    require(principal, Action.REGISTER, SERVER)
    group = _described(call.parameters, Group(0, new_id(call), ""), services)
    if group.document.get("users") == [] and principal.name:
        group = replace(group, document={**group.document, "users": [[principal.name, "admin"]]})
    future = services.packages.put_group(group, principal, call.request.actor("ckan", call.name))
    return Deferred(future, lambda made: answer(call, _shown(made, call, services)))


def group_update(call: Call, services: Services) -> Deferred:
    """Describe a group anew; what is left out goes, but its packages."""
    return _put(call, services, {})


def group_patch(call: Call, services: Services) -> Deferred:
    """Change what is said of a group; what is left out stays."""
    group = services.packages.group(required_id(call))
    before = {"name": group.name, "title": group.title, **group.document}
    before.pop("users", None)
    return _put(call, services, before)


def _put(call: Call, services: Services, before: Mapping[str, Any]) -> Deferred:
    principal = call.request.principal
    group = services.packages.group(required_id(call))
    services.packages.require_editor(group, principal)
    given = {**before, **call.parameters}
    given["name"] = given.get("name") or group.name
    future = services.packages.put_group(
        _described(given, group, services), principal, call.request.actor("ckan", call.name)
    )
    return Deferred(future, lambda made: answer(call, _shown(made, call, services)))


def group_delete(call: Call, services: Services) -> Deferred:
    """Remove a group; its packages stay."""
    principal = call.request.principal
    require(principal, Action.REGISTER, SERVER)
    group = services.packages.group(required_id(call))
    future = services.packages.delete_group(group, principal, call.request.actor("ckan", call.name))
    return Deferred(future, lambda _: answer(call, None))


# ------------------------------------------------------------------ members


def member_list(call: Call, services: Services) -> Response:
    """Members of a group or organization, as [id, type, capacity]; ``object_type``: package or user."""
    read = Parameters(call.parameters)
    key = required_id(call)
    kind = read.text("object_type")
    found = members_of(call, services, key, kind)
    if found is None:
        group = services.packages.group(key)
        found = []
        if kind in ("", "package"):
            found += [(package.uuid, "package", "public") for package in _packages(group, call, services, MAX_LISTED)]
        if kind in ("", "user") and services.packages.may_edit(group, call.request.principal):
            found += [(name, "user", role.capitalize()) for name, role in group.document.get("users", ())]
    capacity = read.text("capacity").lower()
    return answer(call, [list(item) for item in found if not capacity or item[2].lower() == capacity])


def member_create(call: Call, services: Services) -> Response | Deferred:
    """Put a package into a group, or have a user hold a role for a group or organization."""
    return _member(call, services, True)


def member_delete(call: Call, services: Services) -> Response | Deferred:
    """Take a package out of a group, or a user's role away."""
    return _member(call, services, False)


def _member(call: Call, services: Services, member: bool) -> Response | Deferred:
    read = Parameters(call.parameters)
    key, name, kind = required_id(call), read.required("object"), read.required("object_type")
    if kind not in ("package", "user"):
        raise fault("object_type", "Value must be one of ['package', 'user']")
    principal = call.request.principal
    workspace = workspace_managed(call, services, key)
    if workspace is not None:
        if kind == "package":
            raise fault("object_type", "A package is moved to an organization by package_owner_org_update")
        if member:
            set_member(call, services, workspace, name, role_named(read, "capacity"))
        else:
            unset_member(call, services, workspace, name)
        return _told(call, workspace.uuid, name, kind, read.text("capacity", "member"))
    group = services.packages.group(key)
    services.packages.require_editor(group, principal)
    if kind == "package":
        package = services.tables.package(name, principal)
        by = call.request.actor("ckan", call.name)
        future = services.packages.set_membership(group, package, member, principal, by)
        return Deferred(future, lambda _: _told(call, group.uuid, package.uuid, kind, "public"))
    return _user(call, services, group, name, read.text("capacity", "member") if member else "")


def _user(call: Call, services: Services, group: Group, name: str, capacity: str) -> Deferred:
    """Have a user be an editor of a group, or with an empty capacity no longer."""
    if capacity and capacity not in CAPACITIES:
        raise fault("capacity", f"Value must be one of {sorted(CAPACITIES)}")
    users = [user for user in group.document.get("users", ()) if user[0] != name]
    if capacity:
        if not any(user.name == name for user in services.access.users()):
            raise NotFound("object", "User was not found.")
        users.append([name, capacity])
        if len(users) > MAX_USERS:
            raise fault("object", f"More than {MAX_USERS:,} users")
    changed = replace(group, document={**group.document, "users": users})
    future: Future[Group] = services.packages.put_group(
        changed, call.request.principal, call.request.actor("ckan", call.name)
    )
    return Deferred(future, lambda _: _told(call, group.uuid, name, "user", capacity))


def _told(call: Call, group: str, name: str, kind: str, capacity: str) -> Response:
    if call.name.endswith("_delete"):
        return answer(call, None)
    return answer(
        call, {"group_id": group, "table_id": name, "table_name": kind, "capacity": capacity, "state": "active"}
    )


def group_member_create(call: Call, services: Services) -> Deferred:
    """Have a user be an editor of a group."""
    read = Parameters(call.parameters)
    group = services.packages.group(required_id(call))
    services.packages.require_editor(group, call.request.principal)
    return _user(call, services, group, read.required("username"), capacity_of(role_named(read, "role")))


def group_member_delete(call: Call, services: Services) -> Deferred:
    """Have a user be no editor of a group any more."""
    group = services.packages.group(required_id(call))
    services.packages.require_editor(group, call.request.principal)
    return _user(call, services, group, Parameters(call.parameters).required("username"), "")
