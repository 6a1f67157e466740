"""ckanapi, a client nobody of the project wrote, against a running server of two workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ckanapi import NotAuthorized, NotFound, RemoteCKAN, ValidationError
from tests.conformance.process_support import ckanapi, running, store_with_administrator

pytestmark = pytest.mark.client


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Address of the server, and an administrator's token."""
    store, token = store_with_administrator(tmp_path_factory.mktemp("ckan"))
    with running("serve", "--store", store, "--workers", "2") as served:
        yield served.url, token


@pytest.fixture
def ckan(server: tuple[str, str]) -> Iterator[Any]:
    with RemoteCKAN(server[0], apikey=server[1]) as client:
        yield client


def test_library_makes_fills_reads_and_removes(ckan: Any) -> None:
    package = ckan.action.package_create(name="rivers", title="Rivers", extras=[{"key": "basin", "value": "Po"}])
    assert ckan.action.package_show(id=package["name"]) == package
    made = ckan.action.datastore_create(
        resource={"package_id": package["id"], "name": "levels"},
        fields=[{"id": "t", "type": "timestamp"}, {"id": "v", "type": "float"}],
        primary_key=["t"],
    )
    key = made["resource_id"]
    for minute in range(60):
        # Workers take turns: each sees at once what the others wrote.
        ckan.action.datastore_upsert(
            resource_id=key, records=[{"t": f"2020-01-01T00:{minute:02}:00", "v": minute / 10}]
        )
        assert ckan.action.datastore_search(resource_id=key, limit=1)["total"] == minute + 1
    latest = ckan.action.datastore_search(resource_id=key, sort="t desc", limit=1)
    assert latest["records"][0]["v"] == 5.9
    january = ckan.action.datastore_search(
        resource_id=key, filters={"t": {"gte": "2020-01-01T00:30", "lt": "2020-01-02"}}
    )
    assert january["total"] == 30
    got = ckan.call_action("datastore_search", {"resource_id": key, "limit": 2}, requests_kwargs=None)
    assert len(got["records"]) == 2
    assert ckan.action.datastore_info(id=key)["meta"]["count"] == 60
    ckan.action.datastore_delete(resource_id=key)
    with pytest.raises(NotFound):
        ckan.action.datastore_search(resource_id=key)
    ckan.action.dataset_purge(id="rivers")
    assert ckan.action.package_list() == []


def test_library_reads_by_get(server: tuple[str, str]) -> None:
    with RemoteCKAN(server[0], get_only=True) as client:
        assert client.action.status_show()["ckan_version"] == "2.12.0"
        assert client.action.organization_list() == ["default"]
        with pytest.raises(NotFound):
            client.action.package_show(id="nope")


def test_library_knows_the_errors(server: tuple[str, str], ckan: Any) -> None:
    with RemoteCKAN(server[0]) as nobody, pytest.raises(NotAuthorized):
        nobody.action.package_create(name="lakes")
    with RemoteCKAN(server[0], apikey="wrong") as nobody, pytest.raises(NotAuthorized):
        nobody.action.package_create(name="lakes")
    with pytest.raises(ValidationError) as refused:
        ckan.action.package_create(name="Not a name")
    assert "name" in refused.value.error_dict
    with pytest.raises(ValidationError) as refused:
        ckan.action.datastore_search(resource_id="_table_metadata", limit=-1)
    assert refused.value.error_dict["limit"] == ["Must be a natural number"]
    with pytest.raises(NotFound):
        ckan.action.resource_show(id="nope")


def test_command_line_acts_and_dumps(server: tuple[str, str], ckan: Any, tmp_path: Path) -> None:
    ckan.action.package_create(name="glaciers", title="Glaciers")
    table = ckan.action.datastore_create(resource={"package_id": "glaciers"}, records=[{"name": "Aletsch", "km": 22.6}])
    assert '"count": 1' in ckanapi(*server, "action", "datastore_info", f"id={table['resource_id']}")
    dumped = ckanapi(*server, "dump", "datasets", "glaciers", "--datastore-fields", "-O", str(tmp_path / "out.jsonl"))
    text = (tmp_path / "out.jsonl").read_text()
    assert dumped == ""
    assert '"name":"glaciers"' in text
    assert '"id":"km"' in text
