"""The catalogue by clients: ckanapi itself, requests of others as they send them, and a server that is killed."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from ckanapi import RemoteCKAN
from tests.conformance.process_support import ckanapi, running, store_with_administrator

from thalweg import app

pytestmark = pytest.mark.client


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    store, token = store_with_administrator(tmp_path_factory.mktemp("ckan"))
    with running("serve", "--store", store, "--workers", "1") as served:
        yield served.url, token


@pytest.fixture
def ckan(server: tuple[str, str]) -> Iterator[Any]:
    with RemoteCKAN(server[0], apikey=server[1]) as client:
        yield client


def wait_for(ckan: Any, resource: str) -> Any:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        told = ckan.action.xloader_status(resource_id=resource)
        if told["status"] in ("complete", "error"):
            return told
        time.sleep(0.2)
    raise AssertionError(told)


def test_ckanapi_uploads_a_file_that_becomes_a_table(server: tuple[str, str], ckan: Any, tmp_path: Path) -> None:
    ckan.action.package_create(name="levels", title="Levels")
    path = tmp_path / "levels.csv"
    path.write_text("station,level\n" + "".join(f"s{n},{n / 10}\n" for n in range(50_000)))
    with path.open("rb") as file:
        resource = ckan.action.resource_create(package_id="levels", name="levels", upload=file)
    assert resource["size"] == path.stat().st_size
    assert httpx.get(resource["url"]).content == path.read_bytes()
    assert wait_for(ckan, resource["id"])["status"] == "complete"
    found = ckan.action.datastore_search(resource_id=resource["id"], filters={"station": "s49999"})
    assert (found["total"], found["records"][0]["level"]) == (1, 4999.9)
    # What the QGIS CKAN browser does with a resource: a HEAD for its length, then the file by its name.
    head = httpx.head(resource["url"])
    assert int(head.headers["content-length"]) == path.stat().st_size
    assert 'filename="levels.csv"' in head.headers["content-disposition"]
    page = httpx.get(f"{server[0]}/dataset/levels")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "<h1>Levels</h1>" in page.text
    assert resource["url"] in page.text
    assert httpx.get(f"{server[0]}/dataset/nope").status_code == 404
    assert ">Levels</a>" in httpx.get(f"{server[0]}/dataset").text


def test_command_line_dumps_and_loads(server: tuple[str, str], ckan: Any, tmp_path: Path) -> None:
    ckan.action.group_create(name="ice", title="Ice")
    ckan.action.organization_create(name="glaciology", title="Glaciology")
    ckan.action.package_create(
        name="glaciers", owner_org="glaciology", groups=[{"name": "ice"}], tags=[{"name": "cold"}],
        extras=[{"key": "k", "value": "v"}], resources=[{"url": "http://example.org/g.csv", "name": "g"}],
    )  # fmt: skip
    for kind in ("groups", "organizations", "datasets"):
        ckanapi(*server, "dump", kind, "--all", "-O", str(tmp_path / kind))
    lines = [json.loads(line) for line in (tmp_path / "datasets").read_text().splitlines()]
    glaciers = next(line for line in lines if line["name"] == "glaciers")
    assert glaciers["resources"][0]["url"] == "http://example.org/g.csv"
    ckanapi(*server, "delete", "datasets", "glaciers")
    ckanapi(*server, "action", "dataset_purge", "id=glaciers")
    ckanapi(*server, "delete", "groups", "ice")
    for kind in ("groups", "organizations", "datasets"):
        ckanapi(*server, "load", kind, "-I", str(tmp_path / kind))
    again = ckan.action.package_show(id="glaciers")
    for name in ("title", "owner_org", "extras", "name", "num_tags"):
        assert again[name] == glaciers[name]
    assert [group["name"] for group in again["groups"]] == ["ice"]
    assert [r["url"] for r in again["resources"]] == ["http://example.org/g.csv"]
    assert '"glaciers"' in ckanapi(*server, "search", "datasets", "q=glaciers")


def test_requests_of_other_clients_are_answered(server: tuple[str, str], ckan: Any) -> None:
    address, token = server
    ckan.action.package_create(name="asked", title="Asked for", resources=[{"url": "http://example.org/a.csv"}])
    # The QGIS CKAN browser.
    groups = httpx.get(f"{address}/api/3/action/group_list?all_fields=true").json()
    assert groups["success"] is True
    found = httpx.get(
        f"{address}/api/3/action/package_search?q=asked&fq=&facet.field=[]&sort=name+asc&rows=50&start=0"
    ).json()["result"]
    assert found["count"] == 1
    assert found["results"][0]["resources"][0]["format"] == "CSV"
    # The ckan portal of frictionless.
    found = httpx.get(f"{address}/api/3/action/package_search", params={"q": "*:*", "rows": 1000, "start": 0}).json()
    assert "asked" in [package["name"] for package in found["result"]["results"]]
    headers = {"Authorization": token}
    made = httpx.post(
        f"{address}/api/action/package_create", json={"name": "written", "resources": []}, headers=headers
    )
    package = made.json()["result"]
    made = httpx.post(f"{address}/api/action/package_update", json=package, headers=headers)
    assert made.json()["result"]["id"] == package["id"]
    made = httpx.post(
        f"{address}/api/action/resource_create", data={"package_id": package["id"], "name": "datapackage.json"},
        files={"upload": ("datapackage.json", b"{}", "application/json")}, headers=headers,
    )  # fmt: skip
    assert made.json()["result"]["url_type"] == "upload"
    # ckanr: GET with key, creation as JSON, update of a file as a form.
    shown = httpx.get(f"{address}/api/3/action/package_show", params={"id": "asked", "use_default_schema": "FALSE"})
    assert shown.json()["result"]["name"] == "asked"
    changed = httpx.post(
        f"{address}/api/3/action/resource_update", data={"id": made.json()["result"]["id"]},
        files={"upload": ("b.json", b"[]")}, headers=headers,
    )  # fmt: skip
    assert changed.json()["result"]["size"] == 2
    facets = httpx.get(f"{address}/api/3/action/package_search", params={"q": "*:*", "facet.field": '["res_format"]'})
    assert facets.json()["result"]["search_facets"]["res_format"]["items"]


def test_a_large_upload_takes_no_memory_and_a_killed_server_leaves_nothing_half(tmp_path: Path) -> None:
    store, token = store_with_administrator(tmp_path)
    folder = tmp_path / "store.sqlite.files"
    size = 96 << 20

    def pieces(count: int, then: threading.Event | None = None) -> Iterator[bytes]:
        yield (
            b'--b\r\nContent-Disposition: form-data; name="package_id"\r\n\r\nlarge\r\n'
            b'--b\r\nContent-Disposition: form-data; name="upload"; filename="l.bin"\r\n\r\n'
        )
        for _ in range(count):
            yield b"x" * (1 << 20)
        if then is not None:
            then.wait(20)
        yield b"\r\n--b--\r\n"

    headers = {"Authorization": token, "Content-Type": "multipart/form-data; boundary=b"}
    with running("serve", "--store", store, "--workers", "1") as server:
        address, process = server.url, server.process
        httpx.post(f"{address}/api/action/package_create", json={"name": "large"}, headers={"Authorization": token})
        url = f"{address}/api/action/resource_create"
        made = httpx.post(url, content=pieces(size >> 20), headers=headers, timeout=120)
        assert made.status_code == 200, made.text
        assert made.json()["result"]["size"] == size
        workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        peaks = [
            int(line.split()[1])
            for worker in workers
            for line in Path(f"/proc/{worker}/status").read_text().splitlines()
            if line.startswith("VmHWM")
        ]
        assert max(peaks) < 300 << 10  # KiB; the imports alone take half of it
        stopped = threading.Event()

        def send() -> None:
            try:
                httpx.post(url, content=pieces(8, stopped), headers=headers, timeout=60)
            except httpx.HTTPError:
                pass

        thread = threading.Thread(target=send)
        thread.start()
        end = time.monotonic() + 30
        while not any(path.stat().st_size for path in folder.glob("incoming/*")) and time.monotonic() < end:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        stopped.set()
        thread.join(60)
    opened = app.open_store(store)
    try:
        assert list(opened.check()) == []
        assert len(opened.tables(opened.package("large").id)) == 1
        for path in folder.glob("incoming/*"):
            os.utime(path, (1, 1))
        opened.sweep_files()  # type: ignore[attr-defined]
        assert list(folder.glob("incoming/*")) == []
        assert len(list(folder.glob("??/*"))) == 1
    finally:
        opened.close()
