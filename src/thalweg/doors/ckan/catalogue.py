"""Actions on packages (CKAN's datasets) and their resources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final

from thalweg.auth.policy import Action, require
from thalweg.domain.access import Principal
from thalweg.domain.catalogue import DEFAULT_WORKSPACE, Workspace
from thalweg.domain.errors import NotFound
from thalweg.domain.packages import file_of
from thalweg.domain.tables import Package, Table
from thalweg.doors.ckan import jobs
from thalweg.doors.ckan.describing import changed_resource, described, new_resource, package_for
from thalweg.doors.ckan.documents import download_url, package_document, resource_document
from thalweg.doors.ckan.errors import fault
from thalweg.doors.ckan.files import Upload, has_upload, upload_of
from thalweg.doors.ckan.reading import Parameters, json_or
from thalweg.doors.ckan.transport import Call, answer, in_thread
from thalweg.doors.http import Deferred, Response
from thalweg.services.services import Services

__all__ = ["new_resource", "package_for"]

MAX_TERMS: Final = 10
"""Most fields that resource_search compares."""
MAX_FOUND: Final = 1_000
"""Most resources or packages of one answer."""


def workspace_named(services: Services, key: str, principal: Principal) -> Workspace:
    """A workspace the caller sees, by UUID or name. Raises NotFound ``id``."""
    for workspace in services.catalogue.workspaces_seen(principal).values():
        if key in (workspace.uuid, workspace.name):
            return workspace
    raise NotFound("id", "Organization was not found.")


def workspace_of(services: Services, workspace_id: int) -> Workspace:
    for workspace in services.catalogue.workspaces().values():
        if workspace.id == workspace_id:
            return workspace
    raise NotFound("id", "Organization was not found.")


def shown(package: Package, call: Call, services: Services) -> dict[str, Any]:
    """A package as the caller may see it."""
    tables = services.tables.tables(package, call.request.principal)
    workspace = workspace_of(services, package.workspace_id)
    return package_document(package, tables, workspace, services.packages.groups_of(package), call.site)


def required_id(call: Call) -> str:
    return Parameters(call.parameters).required("id")


# ------------------------------------------------------------------ packages


def package_list(call: Call, services: Services) -> Response:
    """Names of the packages that may be read."""
    read = Parameters(call.parameters)
    limit, offset = read.natural("limit", 1 << 30), read.natural("offset", 0)
    read.done()
    names = [package.name for package in services.tables.packages(call.request.principal)]
    return answer(call, names[offset : offset + limit])


def package_show(call: Call, services: Services) -> Response:
    """A package with its resources."""
    read = Parameters(call.parameters)
    key = read.text("name_or_id") or read.text("id") or read.required("name_or_id")
    package = services.tables.package(key, call.request.principal)
    if package.id < 0:
        # In a thread, as all streamed answers are made: a workspace may have thousands of procedures.
        response = answer(call, None)
        response.body = in_thread(lambda: answer(call, shown(package, call, services)))
        return response
    return answer(call, shown(package, call, services))


def current_package_list_with_resources(call: Call, services: Services) -> Response:
    """Packages with their resources, the last changed one first."""
    read = Parameters(call.parameters)
    limit, offset = read.natural("limit", MAX_FOUND), read.natural("offset", 0)
    read.done()
    packages = services.tables.packages(call.request.principal)
    packages.sort(key=lambda package: -package.modified_us)
    return answer(call, [shown(p, call, services) for p in packages[offset : offset + min(limit, MAX_FOUND)]])


def _owner(call: Call, services: Services, default: str) -> Workspace:
    """The workspace that ``owner_org`` names."""
    principal = call.request.principal
    owner = Parameters(call.parameters).text("owner_org") or default
    try:
        return workspace_named(services, owner, principal)
    except NotFound:
        # Who may not add to every workspace does not learn which ones there are.
        require(principal, Action.REGISTER)
        raise fault("owner_org", "Organization does not exist") from None


def package_create(call: Call, services: Services) -> Deferred:
    """Make a package, with its resources."""
    principal = call.request.principal
    workspace = _owner(call, services, DEFAULT_WORKSPACE)
    # Who may not is not told what is wrong with the rest.
    require(principal, Action.REGISTER, services.tables.workspace_resource(workspace))
    given = described(call.parameters, services)
    document = {**given.package.document, "creator": principal.name}
    package = replace(given.package, document=document)
    by = call.request.actor("ckan", call.name)
    future = services.packages.save(package, given.resources, given.groups, principal, workspace, by)
    return Deferred(future, lambda made: answer(call, shown(made, call, services)))


def package_update(call: Call, services: Services) -> Deferred:
    """Describe a package anew. What is left out goes; its name stays, and without ``resources`` all that it has."""
    read = Parameters(call.parameters)
    package = services.tables.package(
        read.text("id") or read.text("name") or read.required("id"), call.request.principal, Action.REGISTER
    )
    return _save(call, services, package, call.parameters)


def package_patch(call: Call, services: Services) -> Deferred:
    """Change what is said of a package; what is left out stays."""
    package = services.tables.package(required_id(call), call.request.principal, Action.REGISTER)
    before = shown(package, call, services)
    given = {**before, "groups": None, **call.parameters, "id": package.uuid}
    if "owner_org" not in call.parameters:
        given["owner_org"] = None
    return _save(call, services, package, given)


def _save(call: Call, services: Services, package: Package, given: Mapping[str, Any]) -> Deferred:
    principal = call.request.principal
    workspace: Workspace | None = None
    owner = given.get("owner_org")
    if owner:
        here = workspace_of(services, package.workspace_id)
        if owner not in (here.uuid, here.name):
            workspace = _owner(Call(call.name, dict(given), call.request, call.callback), services, "")
            require(principal, Action.REGISTER, services.tables.workspace_resource(workspace))
    tables = services.tables.tables(package, principal)
    urls = {table.uuid: download_url(table, package, call.site) for table in tables}
    found = described(given, services, package, tables, urls)
    by = call.request.actor("ckan", call.name)
    future = services.packages.save(found.package, found.resources, found.groups, principal, workspace, by)
    return Deferred(future, lambda made: answer(call, shown(made, call, services)))


def package_owner_org_update(call: Call, services: Services) -> Deferred:
    """Move a package to another organization."""
    principal = call.request.principal
    package = services.tables.package(required_id(call), principal, Action.REGISTER)
    key = Parameters(call.parameters).required("organization_id")
    here = workspace_of(services, package.workspace_id)
    workspace = None
    if key not in (here.uuid, here.name):
        workspace = workspace_named(services, key, principal)
    future = services.packages.save(package, None, None, principal, workspace, call.request.actor("ckan", call.name))
    return Deferred(future, lambda _: answer(call, None))


def package_resource_reorder(call: Call, services: Services) -> Deferred:
    """Put resources of a package first, in the order given."""
    principal = call.request.principal
    package = services.tables.package(required_id(call), principal, Action.REGISTER)
    read = Parameters(call.parameters)
    read.need("order")
    order = read.listed("order") or []
    read.done()
    tables = {table.uuid: table for table in services.tables.tables(package, principal)}
    if len(set(order)) != len(order):
        raise fault("order", "Must supply unique resource_ids")
    for uuid in order:
        if uuid not in tables:
            raise fault("order", f"resource_id {uuid[:100]} can not be found")
    wanted = [*order, *(uuid for uuid in tables if uuid not in order)]
    by = call.request.actor("ckan", call.name)
    future = services.packages.save(package, [tables[uuid] for uuid in wanted], None, principal, None, by)
    return Deferred(future, lambda made: answer(call, {"id": made.uuid, "order": wanted}))


def package_delete(call: Call, services: Services) -> Deferred:
    """Take a package out of sight."""
    future = services.tables.delete_package(
        required_id(call), call.request.principal, call.request.actor("ckan", call.name)
    )
    return Deferred(future, lambda _: answer(call, None))


def dataset_purge(call: Call, services: Services) -> Deferred:
    """Remove a package with its resources, tables and files for good."""
    future = services.tables.purge_package(
        required_id(call), call.request.principal, call.request.actor("ckan", call.name)
    )
    return Deferred(future, lambda _: answer(call, None))


# ------------------------------------------------------------------ resources


def found_resource(call: Call, services: Services, action: Action = Action.READ) -> Table:
    """The resource that ``id`` names. Raises NotFound in CKAN's words."""
    key = required_id(call)
    try:
        return services.tables.table(key, call.request.principal, action)
    except NotFound:
        raise NotFound("id", f'Resource "{key[:200]}" was not found.') from None


def resource_show(call: Call, services: Services) -> Response:
    """A resource."""
    table = found_resource(call, services)
    return answer(call, resource_document(table, services.tables.package_of(table), call.site))


def resource_create(call: Call, services: Services) -> Deferred:
    """Add a resource to a package: a link, a file (multipart/form-data, field ``upload``), or with url_type datastore
    a place for a table."""
    package = package_for(call.parameters, services, call.request.principal)
    with upload_of(call) as upload:
        table = new_resource(call.parameters, package, upload.keep() if upload else None)
        return _put(call, services, table, package, upload)


def resource_update(call: Call, services: Services) -> Deferred:
    """Describe a resource anew, or give it another file. What is left out goes, but its file and its table."""
    return _change(call, services, {})


def resource_patch(call: Call, services: Services) -> Deferred:
    """Change what is said of a resource, or give it another file; what is left out stays."""
    table = found_resource(call, services, Action.REGISTER)
    before = resource_document(table, services.tables.package_of(table), call.site)
    old = file_of(table)
    if has_upload(call) and old is not None:
        # They were of the file before. Where there was none they were said of this one, as loaders of dumps do.
        before |= {"mimetype": None, "format": "", "hash": "", "size": None}
        if old.name == table.name:
            before["name"] = None
    elif table.url_type == "upload" and call.parameters.get("clear_upload"):
        before |= {"mimetype": None, "hash": "", "size": None}
    return _change(call, services, before)


def _change(call: Call, services: Services, before: Mapping[str, Any]) -> Deferred:
    table = found_resource(call, services, Action.REGISTER)
    package = services.tables.package_of(table)
    with upload_of(call) as upload:
        file = upload.keep() if upload else None
        own_url = download_url(table, package, call.site)
        changed = changed_resource(table, {**before, **call.parameters}, own_url, file)
        return _put(call, services, changed, package, upload)


def _put(call: Call, services: Services, table: Table, package: Package, upload: Upload | None) -> Deferred:
    by = call.request.actor("ckan", call.name)
    future = services.tables.put_resource(table, by)

    def finish(made: Table) -> Response:
        return answer(call, resource_document(made, package, call.site))

    if upload is None:
        return Deferred(future, finish)
    upload.taken_by(future)
    # That it is to be loaded is as durable as the file when this is answered.
    return Deferred(_asked(future, lambda made: jobs.ask_for_upload(made, services, by)), finish)


def _asked(future: Future[Table], ask: Callable[[Table], Future[None] | None]) -> Future[Table]:
    """A resource once it is stored and what is asked for then is, too."""
    outer: Future[Table] = Future()

    def stored(done: Future[Table]) -> None:
        error = done.exception()
        if error is not None:
            outer.set_exception(error)
            return
        try:
            further = ask(done.result())
        except Exception as problem:
            outer.set_exception(problem)
            return
        if further is None:
            outer.set_result(done.result())
        else:
            further.add_done_callback(lambda _: outer.set_result(done.result()))

    future.add_done_callback(stored)
    return outer


def resource_delete(call: Call, services: Services) -> Deferred:
    """Remove a resource with its table and file."""
    table = found_resource(call, services, Action.REGISTER)
    future = services.tables.delete_resource(table, call.request.actor("ckan", call.name))
    return Deferred(future, lambda _: answer(call, None))


def resource_search(call: Call, services: Services) -> Response:
    """Resources whose fields contain texts: ``query`` is one ``field:text`` or a list of them."""
    read = Parameters(call.parameters)
    given = json_or(read.given.get("query"))
    if not given:
        raise fault("query", "Missing value")
    terms: list[tuple[str, str]] = []
    for item in given if isinstance(given, list) else [given]:
        name, colon, text = item.partition(":") if isinstance(item, str) else ("", "", "")
        if not colon or not text:
            raise fault("query", "Must be <field>:<value> pair(s)")
        if name not in ("name", "description", "format", "url", "hash"):
            raise fault("query", f'Field "{name[:100]}" not recognised in resource_search.')
        terms.append((name, text))
    if len(terms) > MAX_TERMS:
        raise fault("query", f"More than {MAX_TERMS} fields")
    limit, offset = min(read.natural("limit", MAX_FOUND), MAX_FOUND), read.natural("offset", 0)
    read.done()
    count, tables = services.packages.resources_with(terms, call.request.principal, limit=limit, offset=offset)
    results = [resource_document(table, services.tables.package_of(table), call.site) for table in tables]
    return answer(call, {"count": count, "results": results})


def resource_view_list(call: Call, services: Services) -> Response:
    """Views of a resource: none, as this server has pages of its own instead."""
    found_resource(call, services)
    return answer(call, [])
