"""What is tried on the CKAN door."""

from __future__ import annotations

from tests.conformance.policy_ckan import get, post
from tests.conformance.policy_support import Aim, Row, Sent, Target
from tests.fuzz.support import DoorFuzz

FORM = "application/x-www-form-urlencoded"
_ANYTHING = "conformance/test_ckan_hostile.py::test_anything_is_answered_and_changes_nothing_for_nobody"
_ADMINISTRATOR = "conformance/test_ckan_hostile.py::test_administrator_can_send_anything_and_the_store_stays_whole"


def _form(action: str, text: str) -> Row:
    def send(target: Target, number: int) -> Sent:
        filled = text
        for name, value in target.keys.items():
            filled = filled.replace(f"(({name}))", value)
        return Sent(f"/api/action/{action}", method="POST", body=filled.encode(), content_type=FORM)

    return Row(action, send)


DOOR = DoorFuzz(
    "ckan",
    seeds=(
        get("datastore_search", resource_id="{table}", filters='{{"n": [1, 2], "word": {{"gte": "a", "lt": "z"}}}}',
            q="content:* & !x", plain="false", language="english", distinct="true", fields="n,word", sort="n desc, word",
            limit="10", offset="3", include_total="true", records_format="csv", full_text="a", include_next_page="1"),
        get("datastore_search", resource_id="{table}", q='{{"word": "content"}}', records_format="lists",
            total_estimation_threshold="1000", callback="x"),
        _form("datastore_search", "resource_id=((table))&filters=%7B%22%24or%22%3A%5B%7B%22n%22%3A1%7D%5D%7D&limit=3"),
        post("datastore_search", resource_id="{table}", filters={"$and": [{"n": {"gt": 0}}, {"$or": [{"word": "x"}]}]}),
        post("datastore_create", Aim.WORKSPACE, resource={"package_id": "{package}", "name": "made"}, primary_key="n",
             fields=[{"id": "n", "type": "int4", "info": {"label": "N"}}, {"id": "t", "type": "timestamptz"},
                     {"id": "a", "type": "text[]"}, {"id": "j", "type": "json"}, {"id": "x", "type": "numeric"}],
             records=[{"n": 1, "t": "2020-01-01T00:00:00+01:00", "a": ["x"], "j": {"k": [1]}, "x": 1.5}],
             aliases="made-{number}", indexes=["n", "t"]),
        post("datastore_upsert", resource_id="{table}", method="upsert", dry_run=True, include_records=True,
             records=[{"_id": 1, "n": 7}]),
        post("package_create", Aim.WORKSPACE, name="made-{number}", title="T", owner_org="default", private=True,
             tags=[{"name": "t"}], extras=[{"key": "k", "value": "v"}], notes="n",
             resources=[{"name": "r", "url": "http://example.org/r"}]),
        get("package_search", Aim.LISTING, q='title:"a b" AND (tags:x OR -name:y*)', fq="metadata_modified:[NOW-1DAY TO *]",
            sort="title desc, score asc", rows="5", start="1", include_private="true", **{"facet.field": '["tags"]'}),
        post("package_update", Aim.WORKSPACE, id="{package}", name="{package}", tags=[{"name": "tt"}], groups=[{"name": "g"}]),
        post("package_patch", id="{package}", extras=[{"key": "k", "value": "v"}], owner_org="{workspace}", state="active"),
        get("resource_search", Aim.LISTING, query='["name:a", "format:csv"]', limit="3"),
        post("resource_patch", id="{table}", name="n", url="http://example.org/x.csv", clear_upload="true"),
        post("group_create", Aim.SERVER, name="made-{number}", title="T", users=[{"name": "a", "capacity": "editor"}]),
        post("member_create", Aim.SERVER, id="{group}", object="{package}", object_type="package", capacity="public"),
        post("organization_create", Aim.SERVER, name="made{number}", title="T", description="d"),
        post("vocabulary_create", Aim.SERVER, name="made {number}", tags=[{"name": "aa"}]),
        get("tag_show", Aim.LISTING, id="x", include_datasets="true", vocabulary_id="y"),
        post("api_token_create", Aim.LISTING, user="a", name="b", expires_in="3", unit="60"),
        get("task_status_show", entity_id="{table}", task_type="xloader", key="xloader"),
        Row("download", lambda target, number: Sent("/dataset/{package}/resource/{table}/download/a".format(**target.keys))),
        Row("page", lambda target, number: Sent(f"/dataset/{target.keys['package']}")),
        Row("dump", lambda target, number: Sent(
            f"/datastore/dump/{target.keys['table']}",
            {"format": "xml", "bom": "true", "limit": "5", "offset": "1", "filters": '{"n": 1}', "sort": "n desc"},
        )),
    ),
    words=(
        "resource_id", "id", "filters", "q", "full_text", "plain", "language", "distinct", "limit", "offset", "fields", "sort",
        "include_total", "records_format", "objects", "lists", "csv", "tsv", "include_next_page", "total_estimation_threshold",
        "records", "method", "insert", "update", "upsert", "force", "dry_run", "include_records", "primary_key", "indexes", "aliases",
        "delete_fields", "triggers", "resource", "package_id", "owner_org", "private", "tags", "extras", "resources", "callback", "bom",
        "format", "_id", "_table_metadata", "_full_text", "$and", "$or", "gt", "gte", "lt", "lte", "eq", "in", "rank", "int4", "int8",
        "numeric", "float8", "timestamp", "timestamptz", "text[]", "_text", "json", "bool", "date", "time", "desc", "asc nulls last",
        "a & (b | !c)", "a:*", "<->", "1e400", "NaN", "2020-01-01T00:00:00.000", "record_1", "sqlite_schema", "SELECT", "true",
    ),
    parsers={
        **dict.fromkeys(
            (
                "thalweg.doors.ckan.catalogue", "thalweg.doors.ckan.describing", "thalweg.doors.ckan.groups", "thalweg.doors.ckan.jobs",
                "thalweg.doors.ckan.organizations", "thalweg.doors.ckan.search_packages", "thalweg.doors.ckan.tags",
                "thalweg.doors.ckan.users", "thalweg.services.packages",
                "thalweg.doors.ckan.dump", "thalweg.doors.ckan.filters", "thalweg.doors.ckan.handle",
                "thalweg.doors.ckan.reading", "thalweg.doors.ckan.search", "thalweg.doors.ckan.transport",
            ),
            _ANYTHING,
        ),
        "thalweg.doors.ckan.package_query": "conformance/test_ckan_bounds.py::test_any_query_is_read_or_refused",
        "thalweg.doors.ckan.multipart": "conformance/test_ckan_files.py::test_any_body_is_answered_and_leaves_nothing",
        "thalweg.doors.ckan.files": "conformance/test_ckan_files.py::test_any_range_is_within_the_file",
        "thalweg.doors.ckan.records": _ADMINISTRATOR,
        **dict.fromkeys(
            (
                "thalweg.loading.tables.json_rows", "thalweg.loading.tables.reading", "thalweg.loading.tables.opening",
                "thalweg.loading.tables.text", "thalweg.loading.tables.guess",
            ),
            "property/test_table_files.py::test_changed_files_are_read_or_refused",
        ),
        "thalweg.sql.parse": "store/test_sql.py::test_any_text_is_parsed_or_refused",
        "thalweg.domain.table_values": "property/test_table_batches.py::test_anything_is_converted_as_cell_by_cell",
    },
    traps={
        "doors/ckan/transport.py: JSON": "bodies, bounded by their size; RecursionError and long numbers caught",
        "doors/ckan/dump.py: JSON": "cells that this store has written",
        "domain/table_values.py: JSON": "arrays of a record: orjson refuses more than 1,024 levels",
        "loading/tables/json_rows.py: JSON": "bounded by the size of document or line; RecursionError and long numbers caught",
        "loading/tables/opening.py: archive": "its list of names alone, in the process that reads, whose memory is bounded",
        "loading/tables/sheet.py: archive": "sizes of a workbook's parts, added up before it is read",
        "services/table_jobs.py: JSON": "lines of the command that this server has started",
        "store/sqlite/package_part.py: JSON": "documents that this store has written",
        "services/job_child.py: program": "this program's own command that loads a file, its words a list",
        "services/table_jobs.py: program": "this program's own command that loads a file, its words a list",
        "store/sqlite/sql/formats.py: expression": "a template of to_date: texts escaped, each part of fixed form",
        "store/sqlite/sql/host.py: JSON": "the answer of the process of SQL",
        "store/sqlite/sql/host.py: code": "a question to the process of SQL, made here",
        "store/sqlite/sql/host.py: program": "this program's own process of SQL",
        "store/sqlite/sql/lists.py: JSON": "values of statements, in the process of SQL; RecursionError caught",
        "store/sqlite/sql/process.py: code": "a question of the server that started it, by its own pipe",
        "store/sqlite/sql/selects.py: expression": "names of columns as the translation has made them",
        "store/sqlite/sql/rows.py: JSON": "cells that were checked before",
        "store/sqlite/table_entities.py: JSON": "documents that this store has written",
        "store/sqlite/table_log.py: JSON": "lines of the change log that this store has written",
    },
    attacks={
        "40": "conformance/test_ckan_sql.py::test_hostile_statements_are_refused_in_time",
        "41": "conformance/test_ckan_attacks.py::test_sql_in_parameters_is_no_sql",
        "42": "conformance/test_ckan_attacks.py::test_numbers_out_of_bounds_are_named",
        "43": "conformance/test_ckan_attacks.py::test_odd_json_is_an_error_of_ckans",
        "44": "conformance/test_ckan_attacks.py::test_fields_beyond_measure_and_names_that_end_statements",
        "45": "conformance/test_ckan_attacks.py::test_lines_of_a_head_cannot_be_made",
        "46": "conformance/test_ckan_attacks.py::test_names_of_actions_are_those_of_a_table",
        "47": "conformance/test_ckan_attacks.py::test_force_does_nothing_for_nobody",
        "CKAN CVE-2026-42031, -42032": "conformance/test_ckan_sql.py::test_private_tables_cannot_be_read_in_any_place",
        "CKAN CVE-2024-43371": "conformance/test_ckan_jobs.py::test_what_is_no_table_is_not_loaded",
    },
)  # fmt: skip
