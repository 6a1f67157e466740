"""Whatever parameters an action is given, the answer is one of CKAN's, and what was there is there still."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conformance.ckan_support import Site

from thalweg.doors.ckan.handle import ACTIONS

NAMES = (
    "resource_id id filters q full_text plain language distinct limit offset fields sort include_total records_format "
    "include_next_page records method force dry_run include_records primary_key indexes aliases delete_fields resource "
    "name title owner_org private tags extras resources package_id url all_fields organizations sql"
).split()
TEXTS = st.one_of(
    st.sampled_from(
        [
            "", "n", "_id", "rank", "f1", "n desc", '"n" asc nulls first', "'; DROP TABLE package;--", "f1) OR (1=1",
            '{"n": 1}', '[{"n": 1}]', '{"$or": [{}]}', "a & (b | !c)", "a:* <-> b", '"', "\0", "\ud800", "é" * 100,
            "1e400", "-1", "99999999999999999999", "true", "levels", "_table_metadata", "record_1", "sqlite_schema",
        ]
    ),
    st.text(max_size=20),
)  # fmt: skip
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), TEXTS)
KEYS = st.one_of(st.sampled_from(["n", "s", "_id", "$and", "$or", "$$a", "gt", "in", "id", "type", "info"]), TEXTS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)
PARAMETERS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5)


@pytest.fixture(scope="module")
def table(site: Site) -> str:
    fields = [{"id": "n", "type": "int"}, {"id": "s", "type": "text"}, {"id": "e", "type": "numeric"}]
    return site.table(fields, records=[{"n": i, "s": f"word{i}", "e": i} for i in range(5)], aliases="levels")


def send(site: Site, action: str, parameters: Any, token: str) -> int:
    """Post and give the status; half a surrogate pair goes as JSON's escape, as any client can send it."""
    import json

    headers = {"Content-Type": "application/json", "Authorization": token}
    answer = site.send("POST", f"/api/action/{action}", content=json.dumps(parameters), headers=headers)
    assert answer.status_code in (200, 400, 403, 404, 409), f"{action} {parameters}: {answer.text}"
    answer.json()
    return answer.status_code


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300, deadline=None)
@given(action=st.sampled_from(sorted(ACTIONS)), parameters=PARAMETERS, named=st.booleans())
def test_anything_is_answered_and_changes_nothing_for_nobody(
    site: Site, table: str, action: str, parameters: dict[str, Any], named: bool
) -> None:
    if named:
        parameters["resource_id"] = table
    before = site.rows(table)
    send(site, action, parameters, "")
    assert site.rows(table) == before


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
@given(
    action=st.sampled_from(["datastore_create", "datastore_upsert", "datastore_search", "datastore_records_delete"]),
    parameters=PARAMETERS,
)
def test_administrator_can_send_anything_and_the_store_stays_whole(
    site: Site, table: str, action: str, parameters: dict[str, Any]
) -> None:
    status = send(site, action, {**parameters, "resource_id": table}, site.token)
    if status != 200 or action == "datastore_search":
        return
    found = site.search(table)
    assert found["total"] == site.store.table_figures(site.store.table(table)).count


def test_the_store_is_clean_after_all(site: Site, table: str) -> None:
    assert list(site.store.check()) == []
