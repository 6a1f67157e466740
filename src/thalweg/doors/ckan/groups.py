"""Actions on groups: packages of any organizations under one heading."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final

from thalweg.auth.policy import Action, require
from thalweg.domain.access import SERVER
from thalweg.domain.errors import NotFound, ThalwegError
from thalweg.domain.packages import Group, PackageQuery, Value
from thalweg.domain.tables import Package
from thalweg.doors.ckan.catalogue import required_id, shown
from thalweg.doors.ckan.describing import MAX_TEXT, read_extras
from thalweg.doors.ckan.documents import group_document
from thalweg.doors.ckan.errors import ValidationError, fault
from thalweg.doors.ckan.listing import containing, in_order, membership, needs_counts, told
from thalweg.doors.ckan.organizations import (
    CAPACITIES,
    MAX_LISTED,
    MAX_SHOWN_PACKAGES,
    MAX_USERS,
    capacity_of,
    members_of,
    new_id,
    role_named,
    set_member,
    unset_member,
    users_given,
    workspace_managed,
)
from thalweg.doors.ckan.reading import Parameters, json_or
from thalweg.doors.ckan.transport import Call, answer
from thalweg.doors.http import Deferred, Response
from thalweg.services.services import Services

MAX_GROUP_EXTRAS: Final = 500
MAX_PACKAGES: Final = 1_000
"""Most packages that a group is made with."""
_TEXTS: Final = ("description", "image_url", "type")


def _counts(call: Call, services: Services) -> Mapping[str, int]:
    query = PackageQuery(limit=0, facets=("groups",), facet_limit=-1, private=True)
    return dict(services.packages.search(query, call.request.principal).facets["groups"])


def group_list(call: Call, services: Services) -> Response:
    """Groups: their names, or with all_fields what they are."""
    read = Parameters(call.parameters)
    wanted, kind = read.listed("groups"), read.text("type", "group")
    limit, offset = read.natural("limit", MAX_LISTED), read.natural("offset", 0)
    read.done()
    counts = _counts(call, services) if needs_counts(read) else {}
    found = [
        group
        for group in services.packages.groups()
        if (wanted is None or group.name in wanted) and group.document.get("type", "group") == kind
    ]
    found = in_order(found, counts, read)[offset : offset + min(limit, MAX_LISTED)]
    if not read.boolean("all_fields", False):
        return answer(call, [group.name for group in found])
    return answer(call, [told(_shown(group, counts, call, services), read, listed=True) for group in found])


def group_autocomplete(call: Call, services: Services) -> Response:
    """Groups whose name or title contains a text."""
    return answer(call, containing(services.packages.groups(), call))


def _document(group: Group, counts: Mapping[str, int]) -> dict[str, Any]:
    return group_document(group, counts.get(group.name, 0))


def _shown(group: Group, counts: Mapping[str, int], call: Call, services: Services) -> dict[str, Any]:
    found = _document(group, counts)
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
    read = Parameters(call.parameters)
    found = told(_shown(group, _counts(call, services), call, services), read, listed=False)
    if read.boolean("include_datasets", False):
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
    """As a client describes it; title, description, picture, kind and users stay where they are left out."""
    faults: dict[str, Any] = {}
    given = {"name": old.name, "title": old.title, **{name: old.document.get(name) for name in _TEXTS}, **given}
    document: dict[str, Any] = {}
    for name in ("name", "title", *_TEXTS):
        value = given[name]
        if value is not None and (not isinstance(value, str) or len(value) > MAX_TEXT or "\0" in value):
            faults[name] = [f"Must be a text of at most {MAX_TEXT:,} characters"]
        elif value and name in _TEXTS:
            document[name] = value
    document["extras"] = read_extras(given, faults, MAX_GROUP_EXTRAS)
    if not given["name"]:
        faults["name"] = ["Missing value"]
    if faults:
        raise ValidationError(faults)
    users = users_given(given, services)
    document["users"] = old.document.get("users", []) if users is None else [list(user) for user in users.items()]
    return replace(old, name=given["name"], title=given["title"] or "", document=document)


def group_create(call: Call, services: Services) -> Response:
    """Make a group; packages can be put into it at once."""
    principal = call.request.principal
    require(principal, Action.REGISTER, SERVER)
    read = Parameters(call.parameters)
    packages = _read_packages(read, call, services)
    group = _described(call.parameters, Group(0, new_id(call), ""), services)
    if not group.document["users"] and principal.name:
        group = replace(group, document={**group.document, "users": [[principal.name, "admin"]]})
    by = call.request.actor("ckan", call.name)
    made = services.packages.put_group(group, principal, by).result()
    for package in packages:
        services.packages.set_membership(made, package, True, principal, by).result()
    return answer(call, _shown(made, _counts(call, services), call, services))


def _read_packages(read: Parameters, call: Call, services: Services) -> list[Package]:
    given = json_or(read.given.get("packages") or [])
    if not isinstance(given, list) or len(given) > MAX_PACKAGES or not all(isinstance(item, dict) for item in given):
        raise fault("packages", f"Not a list of at most {MAX_PACKAGES:,} dicts, each with id or name")
    found: list[Package] = []
    faults: list[dict[str, list[str]]] = []
    for item in given:
        try:
            found.append(services.tables.package(str(item.get("id") or item.get("name")), call.request.principal))
            faults.append({})
        except ThalwegError:
            faults.append({"id": ["Dataset not found"]})
    if any(faults):
        raise ValidationError({"packages": faults})
    return found


def group_update(call: Call, services: Services) -> Deferred:
    """Describe a group anew; extras that are left out go."""
    return _put(call, services, services.packages.group(required_id(call)), {})


def group_patch(call: Call, services: Services) -> Deferred:
    """Change what is said of a group; what is left out stays."""
    group = services.packages.group(required_id(call))
    return _put(call, services, group, {"extras": group.document.get("extras")})


def _put(call: Call, services: Services, group: Group, before: Mapping[str, Any]) -> Deferred:
    principal = call.request.principal
    services.packages.require_editor(group, principal)
    changed = _described({**before, **call.parameters}, group, services)
    future = services.packages.put_group(changed, principal, call.request.actor("ckan", call.name))
    return Deferred(future, lambda made: answer(call, _shown(made, _counts(call, services), call, services)))


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
        if kind in ("", "user") and services.packages.may_edit(group, call.request.principal):
            found += [(name, "user", role.capitalize()) for name, role in group.document.get("users", ())]
        if kind in ("", "package"):
            found += [(package.uuid, "package", "public") for package in _packages(group, call, services, MAX_LISTED)]
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
    read.need("id", "object", "object_type", *(("capacity",) if member else ()))
    key, name, kind = read.text("id"), read.text("object"), read.text("object_type")
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
    before = group.document.get("users", [])
    users = [user for user in before if user[0] != name]
    if users == before and not any(user.name == name for user in services.access.users()):
        raise NotFound("object", "User was not found.")
    if capacity:
        users.append([name, capacity])
        if len(users) > MAX_USERS:
            raise fault("object", f"More than {MAX_USERS:,} users")
    changed = replace(group, document={**group.document, "users": users})
    future: Future[Group] = services.packages.put_group(
        changed, call.request.principal, call.request.actor("ckan", call.name)
    )
    return Deferred(future, lambda _: _told(call, group.uuid, name, "user", capacity))


def _told(call: Call, group: str, name: str, kind: str, capacity: str) -> Response:
    return answer(call, None if call.name.endswith("_delete") else membership(group, name, kind, capacity))


def group_member_create(call: Call, services: Services) -> Deferred:
    """Have a user be an editor of a group."""
    read = Parameters(call.parameters)
    read.need("id", "username", "role")
    group = services.packages.group(required_id(call))
    services.packages.require_editor(group, call.request.principal)
    try:
        return _user(call, services, group, read.text("username"), capacity_of(role_named(read, "role")))
    except NotFound:
        raise fault("username", "User not found") from None


def group_member_delete(call: Call, services: Services) -> Deferred:
    """Have a user be no editor of a group any more."""
    group = services.packages.group(required_id(call))
    services.packages.require_editor(group, call.request.principal)
    return _user(call, services, group, Parameters(call.parameters).required("username"), "")
