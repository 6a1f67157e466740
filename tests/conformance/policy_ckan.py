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
    return Target(workspace, "table", table.id, keys, secrets, (("package", made.id),))


def absent(workspace: str, name: str) -> Target:
    keys = {"package": name.lower(), "table": str(uuid.uuid5(uuid.NAMESPACE_URL, name)), "alias": f"alias-{name}"}
    return Target(workspace, "table", 0, keys, ())


def get(action: str, aim: Aim = Aim.DATASET, allowed: tuple[int, ...] = (200,), **parameters: str) -> Row:
    def send(target: Target, number: int) -> Sent:
        filled = {name: value.format(**target.keys) for name, value in parameters.items()}
        return Sent(f"/api/3/action/{action}", filled)

    return Row(action, send, aim, allowed)


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
        get("organization_list", Aim.LISTING, all_fields="true"),
        get("organization_show", Aim.LISTING, (200, 404), id="default"),
        get("status_show", Aim.LISTING),
        get("help_show", Aim.LISTING, name="package_list"),
        Row("dump", lambda target, number: Sent(f"/datastore/dump/{target.keys['table']}")),
        Row("version", lambda target, number: Sent("/api/3"), Aim.LISTING),
        Row("other", lambda target, number: Sent("/api/3/action/nope"), Aim.LISTING, (400,)),
    ),
    everywhere=True,
    anonymous=403,
    hidden=(403, 404),
)
