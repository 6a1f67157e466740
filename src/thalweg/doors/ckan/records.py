"""Actions that make, fill, empty and describe tables: datastore_create, _upsert, _delete, _records_delete, _info."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import orjson

from thalweg.auth.policy import Action
from thalweg.domain.errors import NotFound
from thalweg.domain.table_values import BadValue, Cell, FieldType, guess, type_named
from thalweg.domain.tables import (
    EVERYTHING,
    MAX_FIELD_NAME,
    ROW_ID,
    Field,
    Method,
    Table,
    TableChange,
    Written,
    is_field_name,
)
from thalweg.doors.ckan.catalogue import new_resource, package_for
from thalweg.doors.ckan.errors import JSON, ValidationError, fault
from thalweg.doors.ckan.filters import condition_of, operations_of
from thalweg.doors.ckan.functions import refuse_functions
from thalweg.doors.ckan.reading import Parameters, json_or
from thalweg.doors.ckan.rows import RowWriter
from thalweg.doors.ckan.transport import Call, answer, default, head_of, with_floats
from thalweg.doors.http import Deferred, Response
from thalweg.services.services import Services

DATASTORE: Final = "datastore"
ONLY_TABLE: Final = "_datastore_only_resource"
"""What CKAN calls the address of a resource that is made along with its table."""
_LEFT_OUT: Final = frozenset(("records", "resource", "force", "delete_fields", "fields", "include_records"))
_NOT_ECHOED: Final = frozenset(("id", "force", "include_deleted_records", "calculate_record_count"))
"""Of the parameters of deletions."""
_NATIVE: Final = {
    FieldType.TEXT: "text",
    FieldType.INT4: "integer",
    FieldType.INT8: "bigint",
    FieldType.FLOAT8: "double precision",
    FieldType.NUMERIC: "numeric",
    FieldType.BOOL: "boolean",
    FieldType.DATE: "date",
    FieldType.TIME: "time without time zone",
    FieldType.TIMESTAMP: "timestamp without time zone",
    FieldType.TIMESTAMPTZ: "timestamp with time zone",
    FieldType.JSON: "json",
}


def _writable(table: Table, read: Parameters) -> None:
    """A table of a resource that is a file or link is made from that, and changed by hand on demand alone."""
    if table.url_type != DATASTORE and not read.boolean("force", False):
        raise ValidationError(
            {
                "read-only": [
                    'Cannot edit read-only resource. Either pass "force=True" or change url-type to "datastore"'
                ]
            }
        )


def _records(read: Parameters, services: Services) -> list[Any]:
    records = json_or(read.given.get("records"))
    if records is None or records == "":
        return []
    if not isinstance(records, list):
        raise fault("records", "Not a list of dicts")
    longest = services.settings.ckan_max_records
    if len(records) > longest:
        raise fault("records", f"{len(records):,} records are more than the {longest:,} of one request; send several.")
    return records


# ------------------------------------------------------------------ datastore_create


def datastore_create(call: Call, services: Services) -> Deferred:
    """Make or alter a table and append records, all or nothing; with ``resource`` make the resource, too."""
    read = Parameters(call.parameters)
    resource = json_or(read.given.get("resource"))
    key = read.text("resource_id")
    if resource is not None and resource != "" and key:
        raise fault("resource", "resource cannot be used with resource_id")
    records = _records(read, services)
    principal = call.request.principal
    if resource is not None and resource != "":
        if not isinstance(resource, dict):
            raise fault("resource", "Not a dict")
        package = package_for(resource, services, principal)
        table = replace(new_resource(resource, package), url_type=DATASTORE)
        resource = {**resource, "url": resource.get("url") or ONLY_TABLE}
    elif key:
        try:
            table = services.tables.table(key, principal, Action.REGISTER)
        except NotFound:
            raise fault("resource_id", f"Resource not found: {key[:200]}") from None
        _writable(table, read)
    else:
        raise fault("resource_id", "resource_id or resource required")
    given_fields = json_or(read.given.get("fields"))
    counted = _counted(read)
    with_rows = read.boolean("include_records", False)
    if json_or(read.given.get("triggers")):
        refuse_functions("triggers")
    key_fields = _names(read, "primary_key")
    change = TableChange(
        _fields(table, given_fields, records),
        None if key_fields is None else tuple(dict.fromkeys(key_fields)),
        _indexes(read),
        _names(read, "aliases"),
        read.boolean("delete_fields", False),
    )
    if not table.active and change.fields is None:
        change = replace(change, fields=())
    read.done()
    _check_duplicates(change.aliases)
    by = call.request.actor("ckan", call.name)
    future = services.tables.alter(table, change, records, with_rows=with_rows, by=by)

    def finish(written: Written) -> Response:
        result: dict[str, Any] = {k: v for k, v in read.given.items() if k not in _LEFT_OUT and v is not None}
        made = written.table
        result |= {"calculate_record_count": counted, "delete_fields": change.delete_fields}
        if isinstance(resource, dict):
            result["resource"] = resource
        result |= {"resource_id": made.uuid, "method": "insert"}
        if given_fields:
            result["fields"] = [_echoed(item, made) for item in given_fields]
        if with_rows and records:
            result["records"] = _stored(written.table, written.rows)
        return answer(call, result)

    return Deferred(future, finish)


def _echoed(given: Mapping[str, Any], table: Table) -> dict[str, Any]:
    """A field as it was given, with its type where that was guessed."""
    said = {name: value for name, value in given.items() if value is not None}
    field = table.field(given["id"])
    return said if field is None else {"type": field.type_name, **said}


def _counted(read: Parameters) -> Any:
    """``calculate_record_count``, which counts for nothing here: records are always counted."""
    given = read.given.get("calculate_record_count")
    if given is None or given in ("", "background"):
        return "background"
    if isinstance(given, bool) or str(given).lower() in ("true", "false", "yes", "no", "t", "f", "y", "n", "1", "0"):
        return read.boolean("calculate_record_count", False)
    read.fault("calculate_record_count", "Value must be boolean or one of: background")
    return None


def _stored(table: Table, rows: Sequence[tuple[Cell, ...]]) -> list[dict[str, Any]]:
    """Records with all their fields, as a search of objects writes them."""
    return RowWriter(table, (ROW_ID, *(field.name for field in table.fields))).objects(rows)


def _check_duplicates(aliases: tuple[str, ...] | None) -> None:
    for place, alias in enumerate(aliases or ()):
        if alias in (aliases or ())[:place]:
            raise fault("alias", f'The alias "{alias[:200]}" already exists.')


def _fields(table: Table, given: Any, records: list[Any]) -> tuple[Field, ...] | None:
    """Fields as given, and keys of the first record that are none yet.

    The type of a field that is there stays, whatever is said of it; one that is not given is guessed.
    """
    first = records[0] if records else {}
    if not isinstance(first, dict):
        raise fault("records", "The first row is not a json object")
    if given is None or given == "":
        if not records:
            return None
        given = []
    if not isinstance(given, list) or not all(isinstance(item, dict) for item in given):
        raise fault("fields", "Not a list of dicts")
    named = {name for item in given if isinstance(name := item.get("id"), str)}
    new = [{"id": name} for name in first if name not in named and table.field(name) is None and name != ROW_ID]
    if table.active and not given and not new:
        return None
    fields: list[Field] = []
    for item in [*given, *new]:
        name = item.get("id")
        if name is None or name == "":
            raise ValidationError({"fields": [{"id": ["Missing value"]}]})
        if not isinstance(name, str):
            raise fault("fields", "The id of a field has to be a text")
        if len(name.encode("utf-8", "replace")) > MAX_FIELD_NAME:
            raise fault("fields", f'Column heading "{name[:200]}" exceeds limit of {MAX_FIELD_NAME} characters.')
        if not is_field_name(name):
            raise ValidationError({"fields": [{"id": [f'"{name}" is not a valid field name']}]})
        known = table.field(name)
        wanted = item.get("type")
        info = with_floats(item.get("info") or {})
        if not isinstance(info, dict):
            raise fault("fields", f'The info of "{name}" has to be a dict')
        kind, is_array = _type(name, wanted, known, first)
        fields.append(Field(name, kind, is_array, info=info))
    return tuple(fields)


def _type(name: str, wanted: Any, known: Field | None, first: Mapping[str, Any]) -> tuple[FieldType, bool]:
    if wanted:
        found = type_named(wanted) if isinstance(wanted, str) and len(wanted) <= 100 else None
        if found is None:
            raise fault("fields", f'"{str(wanted)[:100]}" is not a valid field type')
        if known is None:
            return found
    if known is not None:
        return known.kind, known.is_array
    if name not in first:
        raise fault("fields", f'"{name}" type not guessable')
    try:
        return guess(first[name])
    except BadValue:
        raise fault("fields", f'"{name}" type not guessable') from None


def _names(read: Parameters, parameter: str) -> tuple[str, ...] | None:
    if read.given.get(parameter) is None:
        return None
    return tuple(name for name in read.listed(parameter) or () if name)


def _indexes(read: Parameters) -> tuple[tuple[str, ...], ...] | None:
    """A list of names or of lists of names; or one name, or names between commas."""
    given = json_or(read.given.get("indexes"))
    if given is None:
        return None
    if isinstance(given, str):
        given = [item.strip() for item in given.split(",") if item.strip()]
    found: list[tuple[str, ...]] = []
    for item in given if isinstance(given, list) else [given]:
        names = [part.strip() for part in item.split(",")] if isinstance(item, str) else item
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise fault("indexes", "Not a list of names")
        found.append(tuple(names))
    return tuple(dict.fromkeys(found))


# ------------------------------------------------------------------ datastore_upsert


def datastore_upsert(call: Call, services: Services) -> Deferred:
    """Write records into a table, all or nothing."""
    read = Parameters(call.parameters)
    key = read.required("resource_id")
    try:
        method = Method(read.text("method", "upsert"))
    except ValueError:
        raise fault("method", "Value must be one of ['upsert', 'insert', 'update']") from None
    table = services.tables.active_table(key, call.request.principal, Action.INSERT)
    _writable(table, read)
    records = _records(read, services)
    dry_run = read.boolean("dry_run", False)
    with_rows = read.boolean("include_records", False)
    by = call.request.actor("ckan", call.name)
    counted = _counted(read)
    read.done()

    def finish(written: Written) -> Response:
        result: dict[str, Any] = {"resource_id": table.uuid, "method": method.value, "calculate_record_count": counted}
        if dry_run:
            result["dry_run"] = True
        if with_rows and records:
            result["records"] = _stored(written.table, written.rows)
        return answer(call, result)

    future = services.tables.write(table, method, records, dry_run=dry_run, with_rows=with_rows, by=by)
    return Deferred(future, finish)


# ------------------------------------------------------------------ deleting


def datastore_delete(call: Call, services: Services) -> Response | Deferred:
    """Delete records that match; without ``filters`` the table itself."""
    read = Parameters(call.parameters)
    read.only(("resource_id", "id", "filters", "force", "include_deleted_records", "calculate_record_count"))
    key = read.text("resource_id") or read.text("id")
    if not key:
        read.fault("resource_id", "Missing value")
    read.done()
    filters = json_or(read.given.get("filters"))
    principal = call.request.principal
    if filters is not None:
        # An empty text, too, which is no filter but less than a word that the table itself is to go.
        table = services.tables.active_table(key, principal, Action.INSERT)
        return _delete_records(call, read, table, filters, services)
    table = services.tables.active_table(key, principal, Action.REGISTER)
    _writable(table, read)
    result = {k: v for k, v in read.given.items() if k not in _NOT_ECHOED}
    result["resource_id"] = table.uuid
    return Deferred(services.tables.drop(table, call.request.actor("ckan", call.name)), lambda _: answer(call, result))


def datastore_records_delete(call: Call, services: Services) -> Response:
    """Delete records that match; never the table."""
    read = Parameters(call.parameters)
    read.only(("resource_id", "id", "filters", "force", "include_deleted_records", "calculate_record_count"))
    key = read.text("resource_id") or read.text("id")
    if not key:
        read.fault("resource_id", "Missing value")
    filters = json_or(read.given.get("filters"))
    if filters is None or filters == "":
        read.fault("filters", "Missing value")
    read.done()
    table = services.tables.active_table(key, call.request.principal, Action.INSERT)
    return _delete_records(call, read, table, filters, services)


def _delete_records(call: Call, read: Parameters, table: Table, filters: Any, services: Services) -> Response:
    _writable(table, read)
    if not isinstance(filters, dict):
        raise fault("filters", "filters must be either a dict or null.")
    # No filter at all and filters that say nothing: every record.
    where = condition_of(table, filters) if filters else EVERYTHING
    keep = services.settings.ckan_rows_max if read.boolean("include_deleted_records", False) else 0
    by = call.request.actor("ckan", call.name)
    result = {k: v for k, v in read.given.items() if k not in _NOT_ECHOED}
    result |= {"resource_id": table.uuid, "filters": filters}
    if filters:
        result["filterops"] = operations_of(filters)

    def work() -> Iterator[bytes]:
        # In a thread, as all streamed answers are made: it may take many transactions.
        _, rows = services.tables.delete_records(table, where, keep=keep, by=by)
        if keep:
            result["deleted_records"] = _stored(table, rows)
        yield head_of(call.site, call.name) + orjson.dumps(result, default=default) + b"}"

    return Response(work(), JSON, headers=[("Vary", "Cookie")])


# ------------------------------------------------------------------ describing


def datastore_info(call: Call, services: Services) -> Response:
    """A table's count, indexes and fields."""
    read = Parameters(call.parameters)
    key = read.text("resource_id") or read.text("id")
    if not key:
        raise fault("resource_id", "Missing value")
    try:
        table = services.tables.active_table(key, call.request.principal)
    except NotFound:
        raise NotFound("id", f'Resource/Alias "{key[:200]}" was not found.') from None
    result: dict[str, Any] = {}
    if read.boolean("include_meta", True):
        result["meta"] = {
            "id": table.uuid,
            "count": services.tables.figures(table).count,
            "table_type": "BASE TABLE",
            "aliases": list(table.aliases),
        }
    with_schema = read.boolean("include_fields_schema", True)
    result["fields"] = [_described(table, field, with_schema) for field in table.fields]
    return answer(call, result)


def _described(table: Table, field: Field, with_schema: bool) -> dict[str, Any]:
    described: dict[str, Any] = {"id": field.name, "type": field.type_name}
    if field.info:
        described["info"] = dict(field.info)
    if with_schema:
        indexed = [index for index in table.indexes if field.name in index]
        described["schema"] = {
            "native_type": f"{_NATIVE[field.kind]}{'[]' if field.is_array else ''}",
            "notnull": False,
            "index_name": ", ".join(indexed[0]) if indexed else None,
            "is_index": bool(indexed) or field.name in table.key,
            "uniquekey": field.name in table.key,
        }
    return described


Handler = Callable[[Call, Services], Response | Deferred]
