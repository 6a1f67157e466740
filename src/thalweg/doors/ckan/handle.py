"""From a path to an action and its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import orjson

from thalweg import __version__
from thalweg.auth.policy import Action, may, refuse
from thalweg.domain.access import SERVER
from thalweg.domain.errors import NotFound
from thalweg.doors.ckan import (
    absent,
    catalogue,
    files,
    functions,
    groups,
    hooks,
    jobs,
    organizations,
    pages,
    records,
    revise,
    search_packages,
    tags,
    users,
)
from thalweg.doors.ckan.dump import page
from thalweg.doors.ckan.errors import JSON, BadRequest, NoSuchPage, action_of, fault
from thalweg.doors.ckan.follow import PATH, follow
from thalweg.doors.ckan.search import Remembered, datastore_search
from thalweg.doors.ckan.sql import datastore_search_sql
from thalweg.doors.ckan.transport import JAVASCRIPT, Call, answer, check_texts, parameters_of
from thalweg.doors.http import Deferred, Request, Response
from thalweg.services.services import Services

CKAN_VERSION: Final = "2.12.0"
"""The version of the interface that is spoken."""
DUMP: Final = "dump"
DOWNLOAD: Final = "download"
PAGE: Final = "page"
STREAM: Final = "stream"
VERSION: Final = "version"
OTHER: Final = "other"


@dataclass(frozen=True, slots=True)
class Entry:
    """An action.

    action     what a caller has to be permitted to do at least
    changes    it has to be posted
    in_thread  it may take longer than the event loop should wait, or waits itself for what it writes
    """

    handle: Callable[[Call, Services], Response | Deferred]
    action: Action = Action.READ
    changes: bool = False
    in_thread: bool = False


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


def site_read(call: Call, services: Services) -> Response:
    """Whether the site can be read: it answers."""
    return answer(call, True)


def help_show(call: Call, services: Services) -> Response:
    """What an action does."""
    name = call.parameters.get("name")
    if name is None:
        raise fault("name", "Missing value")
    entry = ACTIONS.get(name) if isinstance(name, str) else None
    if entry is None:
        raise NotFound("name", "Action function not found")
    return answer(call, entry.handle.__doc__)


_READ, _INSERT, _REGISTER, _ADMINISTER = Action.READ, Action.INSERT, Action.REGISTER, Action.ADMINISTER

ACTIONS: Final[dict[str, Entry]] = {
    "datastore_search": Entry(datastore_search),
    "datastore_search_sql": Entry(datastore_search_sql),
    "datastore_info": Entry(records.datastore_info),
    "datastore_create": Entry(records.datastore_create, _REGISTER, changes=True),
    "datastore_upsert": Entry(records.datastore_upsert, _INSERT, changes=True),
    "datastore_delete": Entry(records.datastore_delete, _INSERT, changes=True),
    "datastore_records_delete": Entry(records.datastore_records_delete, _INSERT, changes=True),
    "datastore_run_triggers": Entry(functions.datastore_run_triggers, _ADMINISTER, changes=True),
    "datastore_function_create": Entry(functions.datastore_function_create, _ADMINISTER, changes=True),
    "datastore_function_delete": Entry(functions.datastore_function_delete, _ADMINISTER, changes=True),
    "package_list": Entry(catalogue.package_list),
    "package_show": Entry(catalogue.package_show),
    "package_search": Entry(search_packages.package_search, in_thread=True),
    "package_autocomplete": Entry(search_packages.package_autocomplete, in_thread=True),
    "current_package_list_with_resources": Entry(catalogue.current_package_list_with_resources, in_thread=True),
    "recently_changed_packages_activity_list": Entry(
        search_packages.recently_changed_packages_activity_list, in_thread=True
    ),
    "package_create": Entry(catalogue.package_create, _REGISTER, changes=True),
    "package_update": Entry(catalogue.package_update, _REGISTER, changes=True),
    "package_patch": Entry(catalogue.package_patch, _REGISTER, changes=True),
    "package_revise": Entry(revise.package_revise, _REGISTER, changes=True),
    "bulk_update_private": Entry(catalogue.bulk_update, _REGISTER, changes=True, in_thread=True),
    "bulk_update_public": Entry(catalogue.bulk_update, _REGISTER, changes=True, in_thread=True),
    "bulk_update_delete": Entry(catalogue.bulk_update, _REGISTER, changes=True, in_thread=True),
    "package_owner_org_update": Entry(catalogue.package_owner_org_update, _REGISTER, changes=True),
    "package_resource_reorder": Entry(catalogue.package_resource_reorder, _REGISTER, changes=True),
    "package_delete": Entry(catalogue.package_delete, _REGISTER, changes=True),
    "dataset_purge": Entry(catalogue.dataset_purge, _REGISTER, changes=True),
    "resource_show": Entry(catalogue.resource_show),
    "resource_search": Entry(catalogue.resource_search, in_thread=True),
    "resource_view_list": Entry(absent.resource_view_list),
    "resource_view_show": Entry(absent.resource_view_show),
    "resource_view_create": Entry(absent.resource_view_create, _REGISTER, changes=True),
    "resource_view_update": Entry(absent.resource_view_show, changes=True),
    "resource_view_delete": Entry(absent.resource_view_show, changes=True),
    "resource_create_default_resource_views": Entry(absent.default_views, _REGISTER, changes=True),
    "package_create_default_resource_views": Entry(absent.default_views, _REGISTER, changes=True),
    "package_relationships_list": Entry(absent.package_relationships_list),
    "package_collaborator_list": Entry(absent.collaborators),
    "package_collaborator_list_for_user": Entry(absent.collaborators),
    "package_collaborator_create": Entry(absent.collaborators, changes=True),
    "package_collaborator_delete": Entry(absent.collaborators, changes=True),
    "dataset_follower_count": Entry(absent.follower_count),
    "group_follower_count": Entry(absent.follower_count),
    "organization_follower_count": Entry(absent.follower_count),
    "am_following_dataset": Entry(absent.am_following),
    "am_following_group": Entry(absent.am_following),
    "member_roles_list": Entry(absent.member_roles_list),
    "format_autocomplete": Entry(search_packages.format_autocomplete, in_thread=True),
    "organization_autocomplete": Entry(organizations.organization_autocomplete),
    "group_autocomplete": Entry(groups.group_autocomplete),
    "resource_create": Entry(catalogue.resource_create, _REGISTER, changes=True),
    "resource_update": Entry(catalogue.resource_update, _REGISTER, changes=True),
    "resource_patch": Entry(catalogue.resource_patch, _REGISTER, changes=True),
    "resource_delete": Entry(catalogue.resource_delete, _REGISTER, changes=True),
    "organization_list": Entry(organizations.organization_list),
    "organization_show": Entry(organizations.organization_show, in_thread=True),
    "organization_list_for_user": Entry(organizations.organization_list_for_user),
    "organization_create": Entry(organizations.organization_create, _ADMINISTER, changes=True, in_thread=True),
    "organization_update": Entry(organizations.organization_update, _ADMINISTER, changes=True, in_thread=True),
    "organization_patch": Entry(organizations.organization_patch, _ADMINISTER, changes=True, in_thread=True),
    "organization_delete": Entry(organizations.organization_delete, _ADMINISTER, changes=True),
    "organization_purge": Entry(organizations.organization_delete, _ADMINISTER, changes=True),
    "organization_member_create": Entry(
        organizations.organization_member_create, _ADMINISTER, changes=True, in_thread=True
    ),
    "organization_member_delete": Entry(
        organizations.organization_member_delete, _ADMINISTER, changes=True, in_thread=True
    ),
    "group_list": Entry(groups.group_list),
    "group_show": Entry(groups.group_show),
    "group_package_show": Entry(groups.group_package_show, in_thread=True),
    "group_list_authz": Entry(groups.group_list_authz),
    "group_create": Entry(groups.group_create, _REGISTER, changes=True, in_thread=True),
    "group_update": Entry(groups.group_update, _REGISTER, changes=True),
    "group_patch": Entry(groups.group_patch, _REGISTER, changes=True),
    "group_delete": Entry(groups.group_delete, _REGISTER, changes=True),
    "group_purge": Entry(groups.group_delete, _REGISTER, changes=True),
    "group_member_create": Entry(groups.group_member_create, _REGISTER, changes=True),
    "group_member_delete": Entry(groups.group_member_delete, _REGISTER, changes=True),
    "member_list": Entry(groups.member_list),
    "member_create": Entry(groups.member_create, _REGISTER, changes=True, in_thread=True),
    "member_delete": Entry(groups.member_delete, _REGISTER, changes=True, in_thread=True),
    "tag_list": Entry(tags.tag_list, in_thread=True),
    "tag_show": Entry(tags.tag_show, in_thread=True),
    "tag_search": Entry(tags.tag_search, in_thread=True),
    "tag_autocomplete": Entry(tags.tag_autocomplete, in_thread=True),
    "tag_create": Entry(tags.tag_create, _REGISTER, changes=True),
    "tag_delete": Entry(tags.tag_delete, _REGISTER, changes=True),
    "vocabulary_list": Entry(tags.vocabulary_list),
    "vocabulary_show": Entry(tags.vocabulary_show),
    "vocabulary_create": Entry(tags.vocabulary_create, _REGISTER, changes=True),
    "vocabulary_update": Entry(tags.vocabulary_update, _REGISTER, changes=True),
    "vocabulary_delete": Entry(tags.vocabulary_delete, _REGISTER, changes=True),
    "license_list": Entry(tags.license_list),
    "user_list": Entry(users.user_list),
    "user_autocomplete": Entry(users.user_autocomplete),
    "user_show": Entry(users.user_show),
    "user_create": Entry(users.user_create, _ADMINISTER, changes=True, in_thread=True),
    "user_update": Entry(users.user_update, changes=True, in_thread=True),
    "user_patch": Entry(users.user_patch, changes=True, in_thread=True),
    "user_delete": Entry(users.user_delete, _ADMINISTER, changes=True, in_thread=True),
    "api_token_create": Entry(users.api_token_create, changes=True, in_thread=True),
    "api_token_list": Entry(users.api_token_list),
    "api_token_revoke": Entry(users.api_token_revoke, changes=True, in_thread=True),
    "xloader_submit": Entry(jobs.submit, _REGISTER, changes=True),
    "datapusher_submit": Entry(jobs.submit, _REGISTER, changes=True),
    "xloader_status": Entry(jobs.status, _REGISTER),
    "datapusher_status": Entry(jobs.status, _REGISTER),
    "task_status_show": Entry(jobs.task_status_show, _REGISTER),
    "thalweg_hook_create": Entry(hooks.hook_create, _REGISTER, changes=True),
    "thalweg_hook_delete": Entry(hooks.hook_delete, _REGISTER, changes=True),
    "thalweg_hook_list": Entry(hooks.hook_list, _REGISTER),
    "status_show": Entry(status_show),
    "site_read": Entry(site_read),
    "help_show": Entry(help_show),
}
OPERATIONS: Final = {
    **{name: entry.action for name, entry in ACTIONS.items()},
    DUMP: Action.READ,
    DOWNLOAD: Action.READ,
    PAGE: Action.READ,
    STREAM: Action.READ,
    VERSION: Action.READ,
    OTHER: Action.READ,
}
"""What the caller has to be permitted to do at least, by name of action; OTHER: what is none."""

_NUMBERS: Final = {"api": 1, "api/1": 1, "api/2": 2, "api/3": 3}
_VERSIONS: Final = {f"{path}{end}": number for path, number in _NUMBERS.items() for end in ("", "/")}


def operation(request: Request) -> str:
    """The name for metrics and logs: none but those of the table."""
    name = action_of(request)
    if name:
        return name if name in ACTIONS else OTHER
    if request.path.startswith("datastore/dump/"):
        return DUMP
    if request.path.startswith("dataset"):
        return DOWNLOAD if files.is_download(request.path) else PAGE
    if request.path.startswith(PATH):
        return STREAM
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
        if request.path.startswith(PATH) and len(request.path) > len(PATH):
            return follow(request, services)
        version = _VERSIONS.get(request.path)
        if version is not None:
            require_something(request, services)
            return Response(orjson.dumps({"version": version}), JSON)
        if request.path == "dataset" or request.path.startswith("dataset/"):
            if request.method != "GET":
                raise NoSuchPage("There is no such page.")
            if files.is_download(request.path):
                return files.download(request, services)
            require_something(request, services)
            return pages.dataset_page(request, services)
        return page(request, services)

    @staticmethod
    def _act(name: str, request: Request, services: Services) -> Response | Deferred:
        entry = ACTIONS.get(name)
        if entry is None:
            require_something(request, services)
            if "/" in name:
                raise NoSuchPage("There is no such page.")
            raise BadRequest(f"Action name not known: {name[:100]}")
        if files.is_refused(request):
            # Nothing of its body has been looked at.
            refuse(request.principal, Action.REGISTER)
        parameters, callback = parameters_of(request, entry.changes)
        if callback:
            # A page of any other site can have this done, in the name of whoever looks at it.
            request.principal = services.access.quick("") or replace(request.principal, name="", grants={}, via="")
        if entry.action is Action.READ or not name.startswith("datastore_"):
            require_something(request, services)
        if entry.changes or not name.startswith("datastore_"):
            # Records have cells, which are read one by one.
            check_texts({key: value for key, value in parameters.items() if key != "records"})
        call = Call(name, parameters, request, callback)
        return _threaded(entry, call, services) if entry.in_thread else entry.handle(call, services)


def _threaded(entry: Entry, call: Call, services: Services) -> Response:
    """As a stream is made, which is in a thread; its errors come before its first block."""

    def work() -> Iterator[bytes]:
        made = entry.handle(call, services)
        if isinstance(made, Deferred):
            made = made.finish(made.future.result(services.settings.request_timeout_s))
        if not isinstance(made.body, bytes):  # pragma: no cover (actions answer whole)
            raise TypeError(call.name)
        yield made.body

    kind = JAVASCRIPT if call.callback else JSON
    return Response(work(), kind, headers=[("Vary", "Cookie")])


def require_something(request: Request, services: Services) -> None:
    """Refuse a caller who may read nothing at all on a closed server."""
    principal = request.principal
    if not may(principal, Action.READ, SERVER):
        services.tables.require_something(principal, services.catalogue.workspaces_seen(principal))
