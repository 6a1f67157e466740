"""Requests of the CKAN door for the test of the access policy.

CKAN's clients tell what is not there (404) from what may not be read (403), so the door does; of what may not be read
it says nothing else.
"""

from __future__ import annotations

import uuid
from typing import Any

import orjson
from tests.conformance.policy_support import Aim, DoorRows, Row, Sent, Target

from thalweg.app import Application
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
    keys = {"package": package_name, "table": table.uuid, "alias": f"alias-{name}"}
    secrets = (f"Title {name}", f"resource {name}", f"content{name}")
    listed = (package_name, table.uuid, f"alias-{name}")
    return Target(workspace, "table", table.id, keys, secrets, (("package", made.id),), listed)


def absent(workspace: str, name: str) -> Target:
    keys = {"package": name.lower(), "table": str(uuid.uuid5(uuid.NAMESPACE_URL, name)), "alias": f"alias-{name}"}
    return Target(workspace, "table", 0, keys, ())


def get(
    action: str, aim: Aim = Aim.DATASET, allowed: tuple[int, ...] = (200,), *, shows: bool = True, **parameters: str
) -> Row:
    def send(target: Target, number: int) -> Sent:
        filled = {name: value.format(**target.keys) for name, value in parameters.items()}
        return Sent(f"/api/3/action/{action}", filled)

    return Row(action, send, aim, allowed, shows=shows)


def post(
    action: str, aim: Aim = Aim.DATASET, *, changes: bool = False, of_group: bool = False, **parameters: Any
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

    return Row(action, send, aim, changes=changes, of_group=of_group)


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
        get("datastore_search_sql", Aim.LISTING, (409,), sql='SELECT * FROM "{table}"'),
        get("datastore_info", id="{alias}"),
        post("datastore_create", resource_id="{table}", records=[{"n": 5}]),
        post("datastore_upsert", resource_id="{table}", method="insert", records=[{"n": 5}]),
        post("datastore_delete", resource_id="{table}", filters={"n": 5}),
        post("datastore_records_delete", resource_id="{table}", filters={"n": 5}),
        get("package_list", Aim.LISTING),
        post("package_create", Aim.WORKSPACE, name="made-{number}"),
        post("package_delete", changes=True, of_group=True, id="{package}"),
        post("dataset_purge", changes=True, of_group=True, id="{package}"),
        get("package_show", id="{package}"),
        get("resource_show", id="{table}"),
        post("resource_create", of_group=True, package_id="{package}", url="http://example.org/{number}"),
        post("resource_delete", changes=True, id="{table}"),
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
