"""Actions on packages (CKAN's datasets), resources and organizations (workspaces)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from thalweg.auth.policy import Action, may, require
from thalweg.domain.access import Principal
from thalweg.domain.catalogue import DEFAULT_WORKSPACE, Workspace
from thalweg.domain.errors import NotFound
from thalweg.domain.tables import Package, Table
from thalweg.doors.ckan.errors import ValidationError, fault
from thalweg.doors.ckan.reading import Parameters, json_or
from thalweg.doors.ckan.transport import Call, answer, with_floats
from thalweg.doors.http import Deferred, Response
from thalweg.services.services import Services

PACKAGE_TEXTS: Final = (
    "notes",
    "url",
    "version",
    "author",
    "author_email",
    "maintainer",
    "maintainer_email",
    "license_id",
)
RESOURCE_TEXTS: Final = (
    "url", "description", "format", "mimetype", "mimetype_inner", "hash", "resource_type", "cache_url",
)  # fmt: skip
_OWN: Final = frozenset(
    "id package_id name position created last_modified metadata_modified state url_type datastore_active size "
    "cache_last_updated revision_id upload clear_upload".split()
)
"""Keys of a resource that the server says itself; all that are not known are kept as they are."""
MAX_TAGS: Final = 200
MAX_EXTRAS: Final = 500
MAX_RESOURCES: Final = 1_000
"""Most resources made with a package in one request."""


def iso(us: int) -> str:
    """As CKAN writes instants: UTC, without a zone."""
    return datetime.fromtimestamp(us / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{us % 1_000_000:06d}"


# ------------------------------------------------------------------ documents


def organization(workspace: Workspace) -> dict[str, Any]:
    title = workspace.title or workspace.name
    return {
        "id": workspace.uuid,
        "name": workspace.name,
        "title": title,
        "type": "organization",
        "description": workspace.abstract,
        "image_url": "",
        "created": None,
        "is_organization": True,
        "approval_status": "approved",
        "state": "active",
    }


def resource_document(table: Table, package: Package, site: str) -> dict[str, Any]:
    document = dict(table.document)
    if table.url_type == "datastore":
        document["url"] = f"{site}/datastore/dump/{table.uuid}"
    return {
        "cache_last_updated": None,
        "cache_url": None,
        "description": None,
        "format": "",
        "hash": "",
        "mimetype": None,
        "mimetype_inner": None,
        "resource_type": None,
        "size": None,
        "url": "",
        **document,
        "id": table.uuid,
        "package_id": package.uuid,
        "name": table.name or None,
        "created": iso(table.created_us) if table.created_us else None,
        "last_modified": iso(table.modified_us) if table.modified_us else None,
        "metadata_modified": iso(table.modified_us) if table.modified_us else None,
        "state": "active",
        "position": table.position,
        "url_type": table.url_type or None,
        "datastore_active": table.active,
    }


def package_document(package: Package, tables: list[Table], workspace: Workspace, site: str) -> dict[str, Any]:
    document = package.document
    tags = document.get("tags", [])
    return {
        **{name: document.get(name) for name in PACKAGE_TEXTS},
        "license_title": document.get("license_id"),
        "id": package.uuid,
        "name": package.name,
        "title": package.title or package.name,
        "type": document.get("type", "dataset"),
        "private": not package.public,
        "state": "active" if package.active else "deleted",
        "isopen": False,
        "creator_user_id": None,
        "owner_org": workspace.uuid,
        "organization": organization(workspace),
        "metadata_created": iso(package.created_us) if package.created_us else None,
        "metadata_modified": iso(package.modified_us) if package.modified_us else None,
        "num_resources": len(tables),
        "num_tags": len(tags),
        "resources": [resource_document(table, package, site) for table in tables],
        "tags": [
            {"id": f"{package.uuid}:{tag}", "name": tag, "display_name": tag, "state": "active", "vocabulary_id": None}
            for tag in tags
        ],
        "extras": [dict(item) for item in document.get("extras", [])],
        "groups": [],
        "relationships_as_subject": [],
        "relationships_as_object": [],
    }


# ------------------------------------------------------------------ reading parameters


def workspace_named(services: Services, key: str, principal: Principal) -> Workspace:
    """A workspace the caller sees, by UUID or name. Raises NotFound ``id``."""
    for workspace in services.catalogue.workspaces_seen(principal).values():
        if key in (workspace.uuid, workspace.name):
            return workspace
    raise NotFound("id", "Organization was not found.")


def _workspace_of(services: Services, workspace_id: int) -> Workspace:
    for workspace in services.catalogue.workspaces().values():
        if workspace.id == workspace_id:
            return workspace
    raise NotFound("id", "Organization was not found.")


def package_for(resource: Mapping[str, Any], services: Services, principal: Principal) -> Package:
    """The package that a new resource is to belong to, if the caller may add to it."""
    key = resource.get("package_id")
    if not key or not isinstance(key, str):
        raise fault("package_id", "Missing value")
    try:
        return services.tables.package(key, principal, Action.REGISTER)
    except NotFound:
        raise NotFound("package_id", f"Dataset {key[:200]!r} was not found.") from None


def new_resource(given: Mapping[str, Any], package: Package) -> Table:
    """A resource as a client describes it, not stored yet. Raises ValidationError."""
    if given.get("upload") not in (None, ""):
        raise fault("upload", "Files cannot be uploaded to this server yet.")
    faults: dict[str, Any] = {}
    for name in ("name", *RESOURCE_TEXTS):
        value = given.get(name)
        if value is not None and not isinstance(value, str):
            faults[name] = ["Must be a text"]
        elif value is not None and ("\0" in value or len(value) > 100_000):
            faults[name] = ["Must be a text of at most 100,000 characters"]
    uuid = given.get("id") or ""
    if not isinstance(uuid, str) or (uuid and not _is_id(uuid)):
        faults["id"] = ["Invalid id provided"]
    url_type = given.get("url_type") or ""
    if url_type not in ("", "datastore"):
        faults["url_type"] = ["Must be 'datastore' or left out"]
    if faults:
        raise ValidationError(faults)
    kept = {name: with_floats(value) for name, value in given.items() if name not in _OWN}
    return Table(0, uuid, package.workspace_id, package.id, given.get("name") or "", url_type, document=kept)


def _is_id(text: str) -> bool:
    """What can stand in a path as it is."""
    return 7 <= len(text) <= 100 and all(letter.isascii() and (letter.isalnum() or letter in "-_") for letter in text)


def _package_of(read: Parameters) -> tuple[Package, list[Mapping[str, Any]]]:
    """A package as a client describes it, and its resources. Raises ValidationError."""
    given = read.given
    document: dict[str, Any] = {}
    for name in ("name", "title", *PACKAGE_TEXTS):
        value = given.get(name)
        if value is not None and not isinstance(value, str):
            read.fault(name, "Must be a text")
        elif name in PACKAGE_TEXTS and value is not None:
            document[name] = value
    if not given.get("name"):
        read.fault("name", "Missing value")
    uuid = given.get("id") or ""
    if not isinstance(uuid, str) or (uuid and not _is_id(uuid)):
        read.fault("id", "Invalid id provided")
    tags = json_or(given.get("tags") or [])
    if not isinstance(tags, list) or len(tags) > MAX_TAGS or not all(_is_tag(tag) for tag in tags):
        read.fault("tags", "Not a list of dicts, each with a name of 2 to 100 characters")
    else:
        document["tags"] = sorted({tag["name"] for tag in tags})
    extras = json_or(given.get("extras") or [])
    if not isinstance(extras, list) or len(extras) > MAX_EXTRAS or not all(_is_extra(item) for item in extras):
        read.fault("extras", "Not a list of dicts, each with key and value")
    else:
        document["extras"] = [{"key": item["key"], "value": item["value"]} for item in extras]
        if len({item["key"] for item in extras}) != len(extras):
            read.fault("extras", "There is a duplicate key")
    resources = json_or(given.get("resources") or [])
    if not isinstance(resources, list) or not all(isinstance(item, dict) for item in resources):
        read.fault("resources", "Not a list of dicts")
        resources = []
    if len(resources) > MAX_RESOURCES:
        read.fault("resources", f"More than {MAX_RESOURCES:,} resources in one request")
    private = read.boolean("private", False)
    read.done()
    package = Package(0, uuid, 0, given["name"], given.get("title") or "", not private, document=document)
    return package, resources


def _is_tag(tag: Any) -> bool:
    return isinstance(tag, dict) and isinstance(tag.get("name"), str) and 2 <= len(tag["name"]) <= 100


def _is_extra(item: Any) -> bool:
    return isinstance(item, dict) and all(isinstance(item.get(name), str) for name in ("key", "value"))


def _id(call: Call) -> str:
    return Parameters(call.parameters).required("id")


# ------------------------------------------------------------------ packages


def package_list(call: Call, services: Services) -> Response:
    """Names of the packages that may be read."""
    read = Parameters(call.parameters)
    limit, offset = read.natural("limit", 1 << 30), read.natural("offset", 0)
    read.done()
    names = [package.name for package in services.tables.packages(call.request.principal)]
    return answer(call, names[offset : offset + limit])


def _shown(package: Package, call: Call, services: Services) -> dict[str, Any]:
    tables = services.tables.tables(package, call.request.principal)
    return package_document(package, tables, _workspace_of(services, package.workspace_id), call.site)


def package_show(call: Call, services: Services) -> Response:
    """A package with its resources."""
    package = services.tables.package(_id(call), call.request.principal)
    if package.id < 0:
        # In a thread, as all streamed answers are made: a workspace may have thousands of procedures.
        response = answer(call, None)
        response.body = _whole(lambda: answer(call, _shown(package, call, services)))
        return response
    return answer(call, _shown(package, call, services))


def _whole(work: Callable[[], Response]) -> Iterator[bytes]:
    body = work().body
    yield body if isinstance(body, bytes) else b"".join(body)


def package_create(call: Call, services: Services) -> Deferred:
    """Make a package, with its resources."""
    principal = call.request.principal
    read = Parameters(call.parameters)
    owner = read.text("owner_org") or DEFAULT_WORKSPACE
    try:
        workspace = workspace_named(services, owner, principal)
    except NotFound:
        # Who may not add to every workspace does not learn which ones there are.
        require(principal, Action.REGISTER)
        raise fault("owner_org", "Organization does not exist") from None
    if not may(principal, Action.REGISTER, services.tables.workspace_resource(workspace)):
        # Who may not is not told what is wrong with the rest.
        services.tables.put_package(Package(0, "", 0, "no"), (), principal, workspace, call.request.actor("ckan", ""))
    package, given = _package_of(read)
    resources = [new_resource(item, package) for item in given]
    by = call.request.actor("ckan", call.name)
    future = services.tables.put_package(package, resources, principal, workspace, by)
    return Deferred(future, lambda made: answer(call, _shown(made, call, services)))


def package_delete(call: Call, services: Services) -> Deferred:
    """Take a package out of sight."""
    future = services.tables.delete_package(_id(call), call.request.principal, call.request.actor("ckan", call.name))
    return Deferred(future, lambda _: answer(call, None))


def dataset_purge(call: Call, services: Services) -> Deferred:
    """Remove a package with its resources and tables for good."""
    future = services.tables.purge_package(_id(call), call.request.principal, call.request.actor("ckan", call.name))
    return Deferred(future, lambda _: answer(call, None))


# ------------------------------------------------------------------ resources


def resource_show(call: Call, services: Services) -> Response:
    """A resource."""
    key = _id(call)
    principal = call.request.principal
    try:
        table = services.tables.table(key, principal)
    except NotFound:
        raise NotFound("id", f'Resource "{key[:200]}" was not found.') from None
    return answer(call, resource_document(table, _package_holding(table, services), call.site))


def _package_holding(table: Table, services: Services) -> Package:
    return services.tables.package_of(table)


def resource_create(call: Call, services: Services) -> Deferred:
    """Add a resource to a package: a link, or with url_type datastore a place for a table."""
    principal = call.request.principal
    package = package_for(call.parameters, services, principal)
    future = services.tables.put_resource(new_resource(call.parameters, package), call.request.actor("ckan", call.name))
    return Deferred(future, lambda made: answer(call, resource_document(made, package, call.site)))


def resource_delete(call: Call, services: Services) -> Deferred:
    """Remove a resource with its table."""
    table = services.tables.table(_id(call), call.request.principal, Action.REGISTER)
    future = services.tables.delete_resource(table, call.request.actor("ckan", call.name))
    return Deferred(future, lambda _: answer(call, None))


# ------------------------------------------------------------------ organizations


def organization_list(call: Call, services: Services) -> Response:
    """Workspaces: their names, or with all_fields what they are."""
    read = Parameters(call.parameters)
    seen = services.catalogue.workspaces_seen(call.request.principal)
    wanted = read.listed("organizations")
    found = [workspace for name, workspace in sorted(seen.items()) if wanted is None or name in wanted]
    limit, offset = read.natural("limit", 1 << 30), read.natural("offset", 0)
    read.done()
    found = found[offset : offset + limit]
    if not read.boolean("all_fields", False):
        return answer(call, [workspace.name for workspace in found])
    counts = _package_counts(call, services)
    return answer(call, [_organization(workspace, counts) for workspace in found])


def _package_counts(call: Call, services: Services) -> dict[int, int]:
    counts: dict[int, int] = {}
    for package in services.tables.packages(call.request.principal):
        counts[package.workspace_id] = counts.get(package.workspace_id, 0) + 1
    return counts


def _organization(workspace: Workspace, counts: Mapping[int, int]) -> dict[str, Any]:
    shown = organization(workspace)
    return {**shown, "display_name": shown["title"], "package_count": counts.get(workspace.id, 0)}


def organization_show(call: Call, services: Services) -> Response:
    """A workspace."""
    workspace = workspace_named(services, _id(call), call.request.principal)
    shown = _organization(workspace, _package_counts(call, services))
    return answer(call, {**shown, "extras": [], "tags": [], "groups": [], "users": []})
