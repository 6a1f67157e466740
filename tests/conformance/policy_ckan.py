"""Requests of the CKAN door for the test of the access policy.

CKAN's clients tell what is not there (404) from what may not be read (403), so the door does; of what may not be read
it says nothing else.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import orjson
from tests.conformance.policy_support import Aim, DoorRows, Row, Sent, Target

from thalweg.app import Application
from thalweg.domain.packages import FILE_KEY, Group, Vocabulary
from thalweg.domain.table_values import FieldType
from thalweg.domain.tables import Field, Package, Table, TableChange


def make(application: Application, workspace: str, name: str, public: bool) -> Target:
    store = application.store
    workspace_id = store.workspaces()[workspace].id
    package_name = name.lower()
    package = Package(0, "", workspace_id, package_name, f"Title {name}", public)
    made = store.put_package(package).result(30)
    new = Table(0, "", workspace_id, made.id, f"resource {name}", "datastore")
    fields = (Field("n", FieldType.INT4), Field("word", FieldType.TEXT))
    change = TableChange(fields, aliases=(f"alias-{name}",))
    table = store.alter_table(new, change, [{"n": 1, "word": f"content{name}"}]).result(30).table
    incoming = store.receive_file()
    incoming.write(b"content\n")
    file = incoming.keep(f"content{name}.csv", "text/csv")
    store.put_resource(replace(table, url_type="upload", document={FILE_KEY: file.document()})).result(30)
    # Groups and vocabularies are everybody's: their names tell nothing of the dataset.
    shared = f"shared {uuid.uuid5(uuid.NAMESPACE_URL, name).hex[:12]}"
    group = store.put_group(Group(0, "", shared.replace(" ", "-"))).result(30)
    store.set_membership(group.id, made.id, True).result(30)
    store.put_vocabulary(Vocabulary(0, "", shared, ("first", "second"))).result(30)
    keys = {
        "package": package_name, "table": table.uuid, "alias": f"alias-{name}", "workspace": workspace,
        "group": group.name, "vocabulary": shared,
    }  # fmt: skip
    secrets = (f"Title {name}", f"resource {name}", f"content{name}")
    listed = (package_name, table.uuid, f"alias-{name}")
    return Target(workspace, "table", table.id, keys, secrets, (("package", made.id),), listed)


def absent(workspace: str, name: str) -> Target:
    keys = {"package": name.lower(), "table": str(uuid.uuid5(uuid.NAMESPACE_URL, name)), "alias": f"alias-{name}"}
    keys |= {"workspace": workspace, "group": "nonesuch", "vocabulary": "nonesuch"}
    return Target(workspace, "table", 0, keys, ())


def get(
    action: str, aim: Aim = Aim.DATASET, allowed: tuple[int, ...] = (200,), *, shows: bool = True, **parameters: str
) -> Row:
    def send(target: Target, number: int) -> Sent:
        filled = {name: value.format(**target.keys) for name, value in parameters.items()}
        return Sent(f"/api/3/action/{action}", filled)

    return Row(action, send, aim, allowed, shows=shows)


def post(
    action: str,
    aim: Aim = Aim.DATASET,
    *,
    changes: bool = False,
    of_group: bool = False,
    allowed: tuple[int, ...] = (200,),
    **parameters: Any,
) -> Row:
    def fill(value: Any, target: Target, number: int) -> Any:
        if isinstance(value, str):
            return value.format(number=number, **target.keys)
        if isinstance(value, dict):
            return {key: fill(item, target, number) for key, item in value.items()}
        return [fill(item, target, number) for item in value] if isinstance(value, list) else value

    def send(target: Target, number: int) -> Sent:
        body = orjson.dumps(fill(parameters, target, number))
        return Sent(f"/api/action/{action}", method="POST", body=body, content_type="application/json")

    return Row(action, send, aim, allowed, changes=changes, of_group=of_group)


def hook(action: str, allowed: int, **more: str) -> Row:
    """A call about the web hooks of a table. No address is listed here that could be told, and there are no hooks."""

    def send(target: Target, number: int) -> Sent:
        body = orjson.dumps({"resource_id": target.keys["table"], **more})
        return Sent(f"/api/action/{action}", method="POST", body=body, content_type="application/json")

    return Row(action, send, allowed=(allowed,))


ROWS = DoorRows(
    "ckan",
    make,
    absent,
    (
        get("datastore_search", resource_id="{table}"),
        get("datastore_search", resource_id="{alias}", q="content"),
        get("datastore_search", Aim.LISTING, resource_id="_table_metadata"),
        post("datastore_search", resource_id="{table}"),
        get("datastore_search_sql", sql='SELECT * FROM "{table}"'),
        post("datastore_search_sql", sql='SELECT count(*) FROM "{alias}" JOIN (SELECT 1 AS one) q ON true'),
        get("datastore_info", id="{alias}"),
        post("datastore_create", force=True, resource_id="{table}", records=[{"n": 5}]),
        post("datastore_upsert", force=True, resource_id="{table}", method="insert", records=[{"n": 5}]),
        post("datastore_delete", force=True, resource_id="{table}", filters={"n": 5}),
        post("datastore_records_delete", force=True, resource_id="{table}", filters={"n": 5}),
        get("package_list", Aim.LISTING),
        post("package_create", Aim.WORKSPACE, name="made-{number}"),
        post("package_delete", changes=True, of_group=True, id="{package}"),
        post("dataset_purge", changes=True, of_group=True, id="{package}"),
        get("package_show", id="{package}"),
        get("resource_show", id="{table}"),
        post("resource_create", of_group=True, package_id="{package}", url="http://example.org/{number}"),
        post("resource_delete", changes=True, id="{table}"),
        get("package_search", Aim.LISTING, q="name:{package}", include_private="true"),
        get("package_autocomplete", Aim.LISTING, q="{package}"),
        get("current_package_list_with_resources", Aim.LISTING, shows=False, limit="5"),
        get("recently_changed_packages_activity_list", Aim.LISTING, shows=False, limit="5"),
        post("package_update", changes=True, of_group=True, id="{package}", name="{package}"),
        post("package_patch", of_group=True, id="{package}", notes="note {number}"),
        post("package_owner_org_update", of_group=True, id="{package}", organization_id="{workspace}"),
        post("package_resource_reorder", of_group=True, id="{package}", order=["{table}"]),
        get("resource_search", Aim.LISTING, query="name:resource"),
        get("resource_view_list", id="{table}"),
        post("resource_update", id="{table}", name="resource {number}"),
        post("resource_patch", id="{table}", description="text {number}"),
        post("xloader_submit", resource_id="{table}"),
        post("datapusher_submit", resource_id="{table}"),
        get("xloader_status", allowed=(200, 404), resource_id="{table}"),
        get("datapusher_status", allowed=(200, 404), resource_id="{table}"),
        get("task_status_show", allowed=(200, 404), entity_id="{table}", task_type="xloader", key="xloader"),
        Row(
            "download",
            lambda target, number: Sent("/dataset/{package}/resource/{table}/download/a.csv".format(**target.keys)),
        ),
        Row("page", lambda target, number: Sent(f"/dataset/{target.keys['package']}")),
        Row("page", lambda target, number: Sent("/dataset"), Aim.LISTING, shows=False),
        get("organization_list_for_user", Aim.LISTING, shows=False),
        post("organization_create", Aim.SERVER, name="made{number}"),
        post("organization_update", Aim.WORKSPACE, id="{workspace}", title="Title of all {number}"),
        post("organization_patch", Aim.WORKSPACE, id="{workspace}", title="Title of all {number}"),
        post("organization_delete", Aim.WORKSPACE, allowed=(409,), id="{workspace}"),
        post("organization_purge", Aim.WORKSPACE, allowed=(409,), id="{workspace}"),
        post("datastore_run_triggers", Aim.SERVER, allowed=(409,), resource_id="{table}"),
        post("datastore_function_create", Aim.SERVER, allowed=(409,), name="f", rettype="trigger", definition="x"),
        post("datastore_function_delete", Aim.SERVER, allowed=(409,), name="f"),
        post(
            "organization_member_create", Aim.WORKSPACE, allowed=(409,), id="{workspace}", username="no", role="editor"
        ),
        post("organization_member_delete", Aim.WORKSPACE, allowed=(404,), id="{workspace}", username="nobody"),
        get("group_list", Aim.LISTING, shows=False, all_fields="true"),
        get("group_show", Aim.LISTING, id="{group}", include_datasets="true"),
        get("group_package_show", Aim.LISTING, id="{group}"),
        get("group_list_authz", Aim.LISTING, shows=False),
        post("group_create", Aim.SERVER, name="made-{number}"),
        post("group_update", Aim.SERVER, id="{group}", title="{number}"),
        post("group_patch", Aim.SERVER, id="{group}", title="{number}"),
        post("group_delete", Aim.SERVER, changes=True, id="{group}"),
        post("group_purge", Aim.SERVER, changes=True, id="{group}"),
        post("group_member_create", Aim.SERVER, allowed=(409,), id="{group}", username="no", role="editor"),
        post("group_member_delete", Aim.SERVER, allowed=(404,), id="{group}", username="nobody"),
        get("member_list", Aim.LISTING, (200, 404), shows=False, id="{group}"),
        get("member_list", Aim.LISTING, (200, 404), shows=False, id="{workspace}", object_type="user"),
        post("member_create", Aim.SERVER, id="{group}", object="{package}", object_type="package", capacity="public"),
        post("member_delete", Aim.SERVER, changes=True, id="{group}", object="{package}", object_type="package"),
        get("tag_list", Aim.LISTING, shows=False),
        get("tag_show", Aim.LISTING, (200, 404), shows=False, id="none"),
        get("tag_search", Aim.LISTING, shows=False, query="a"),
        get("tag_autocomplete", Aim.LISTING, shows=False, q="a"),
        get("vocabulary_list", Aim.LISTING, shows=False),
        get("vocabulary_show", Aim.LISTING, shows=False, id="{vocabulary}"),
        post("vocabulary_create", Aim.SERVER, name="made {number}"),
        post("vocabulary_update", Aim.SERVER, id="{vocabulary}", name="{vocabulary}"),
        post("vocabulary_delete", Aim.SERVER, changes=True, id="{vocabulary}"),
        post("tag_create", Aim.SERVER, vocabulary_id="{vocabulary}", name="tag{number}"),
        post("tag_delete", Aim.SERVER, changes=True, vocabulary_id="{vocabulary}", id="first"),
        get("license_list", Aim.LISTING, shows=False),
        get("user_list", Aim.LISTING, (200, 403), shows=False),
        get("user_autocomplete", Aim.LISTING, (200, 403), shows=False, q="a"),
        get("user_show", Aim.LISTING, (200, 403), shows=False),
        post("user_create", Aim.SERVER, allowed=(409,), name="made{number}", password="x"),
        post("user_update", Aim.LISTING, allowed=(403, 404), id="nobody"),
        post("user_delete", Aim.SERVER, allowed=(404,), id="nobody"),
        post("api_token_create", Aim.LISTING, allowed=(403, 404), user="nobody", name="a"),
        get("api_token_list", Aim.LISTING, (403, 404), user_id="nobody"),
        post("api_token_revoke", Aim.LISTING, allowed=(403, 404), token="nonesuch"),
        get("site_read", Aim.LISTING, shows=False),
        get("organization_list", Aim.LISTING, shows=False, all_fields="true"),
        get("organization_show", Aim.LISTING, (200, 404), id="default"),
        hook("thalweg_hook_create", 409, url="http://example.org/hook"),
        hook("thalweg_hook_list", 200),
        hook("thalweg_hook_delete", 404, id="nope"),
        get("status_show", Aim.LISTING, shows=False),
        get("help_show", Aim.LISTING, shows=False, name="package_list"),
        Row("dump", lambda target, number: Sent(f"/datastore/dump/{target.keys['table']}")),
        Row("stream", lambda target, number: Sent(f"/datastore/stream/{target.keys['table']}", {"after": "0"})),
        Row("version", lambda target, number: Sent("/api/3"), Aim.LISTING, shows=False),
        Row("other", lambda target, number: Sent("/api/3/action/nope"), Aim.LISTING, (400,)),
    ),
    everywhere=True,
    anonymous=403,
    hidden=(403, 404),
)
