"""Loading of uploaded files in the background: one at a time, told as it goes, and begun anew after a crash."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.ckan_support import Site

from thalweg.domain.packages import JobState, LoadJob, StoredFile
from thalweg.domain.tables import Table
from thalweg.services.job_child import NICE
from thalweg.services.table_jobs import MAX_ATTEMPTS, MAX_MESSAGE, STALE_S, JobRunner, ending_of


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    made.act("package_create", name="files")
    yield made
    made.close()


def upload(site: Site, name: str, content: bytes) -> str:
    answer = site.send(
        "POST", "/api/action/resource_create", data={"package_id": "files"}, files={"upload": (name, content)},
        headers={"Authorization": site.token},
    )  # fmt: skip
    assert answer.status_code == 200, answer.text
    return str(answer.json()["result"]["id"])


def status(site: Site, resource: str) -> Any:
    return site.act("xloader_status", resource_id=resource)


def runner(site: Site, code: str) -> JobRunner:
    """One that runs Python code: ``path`` is the file, ``uuid`` the resource."""

    def command(path: Path, table: Table) -> Sequence[str]:
        return [sys.executable, "-u", "-c", f"path, uuid = {str(path)!r}, {table.uuid!r}\n{code}"]

    return JobRunner(site.store, command, poll_s=0.01)


def wait(done: Callable[[], Any], timeout_s: float = 30.0) -> Any:
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        found = done()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come about in time")


def test_an_uploaded_table_is_loaded(site: Site) -> None:
    resource = upload(site, "levels.csv", b"station,level\nPavia,1.5\nPiacenza,2\n")
    assert status(site, resource)["status"] == "pending"
    assert site.application.job_runner.step()
    told = status(site, resource)
    assert (told["status"], told["error"], told["task_info"]["rows"]) == ("complete", None, 2), told
    shown = site.act("resource_show", id=resource)
    assert (shown["datastore_active"], shown["url_type"]) == (True, "upload")
    assert site.rows(resource, fields="station") == [["Pavia"], ["Piacenza"]]
    task = site.act("task_status_show", entity_id=resource, task_type="xloader", key="xloader")
    assert (task["state"], task["entity_id"]) == ("complete", resource)
    assert not site.application.job_runner.step()
    # The table is the file's: it is changed by another file.
    assert "read-only" in site.error("datastore_upsert", resource_id=resource, records=[{"level": 3}], method="insert")
    site.send(
        "POST", "/api/action/resource_patch", data={"id": resource},
        files={"upload": ("l.csv", b"station,level\nCremona,7\n")}, headers={"Authorization": site.token},
    )  # fmt: skip
    assert site.application.job_runner.step()
    assert site.rows(resource, fields="station") == [["Cremona"]]


@pytest.mark.parametrize(
    ("name", "format", "ending"),
    [
        ("a.csv.gz", "", "csv"), ("A.JSONL", "", "jsonl"), ("a.xls", "", "xls"), ("a.zip", "", ""), ("a.txt", "", ""),
        ("a.txt", "CSV", "csv"), ("a", "GeoJSON", "geojson"), ("a.gz", "", ""),
    ],
)  # fmt: skip
def test_files_are_known_by_their_endings_or_what_is_said(name: str, format: str, ending: str) -> None:
    assert ending_of(StoredFile("k", name, 1, "", ""), Table(1, "", 1, 1, document={"format": format})) == ending


def test_a_file_that_cannot_be_loaded_says_why_and_leaves_what_was_there(site: Site) -> None:
    resource = upload(site, "broken.xlsx", b"PK\x03\x04 no workbook")
    site.application.job_runner.step()
    told = status(site, resource)
    assert told["status"] == "error"
    assert 0 < len(told["error"]["message"]) <= MAX_MESSAGE
    assert str(site.store.file_path("0" * 32).parent.parent) not in told["error"]["message"]
    assert site.act("resource_show", id=resource)["datastore_active"] is False


def test_what_is_no_table_is_not_loaded(site: Site) -> None:
    resource = upload(site, "picture.png", b"\x89PNG")
    site.act("xloader_status", 404, resource_id=resource)
    assert "resource_id" in site.error("xloader_submit", resource_id=resource)
    link = site.act("resource_create", package_id="files", url="http://example.org/a.csv")
    # Nothing is fetched from elsewhere.
    assert "resource_id" in site.error("datapusher_submit", resource_id=link["id"])


def test_progress_is_told_while_a_job_runs(site: Site) -> None:
    resource = upload(site, "a.csv", b"a\n1\n")
    jobs = runner(
        site,
        'import os, time\nprint(\'{"rows": 7, "bytes": 3, "of": 4}\')\nprint(\'a note\')\n'
        "print(open(path).read().strip()[-1], os.nice(0), path[-4:])\ntime.sleep(3)",
    )
    jobs.start()
    try:
        told = wait(lambda: (s := status(site, resource))["task_info"]["rows"] and s)
        assert (told["status"], told["task_info"]["rows"], told["task_info"]["bytes_done"]) == ("running", 7, 3)
        told = wait(lambda: (s := status(site, resource))["status"] == "complete" and s)
        assert [line["message"] for line in told["task_info"]["logs"]] == [
            "a note",
            f"1 {min(19, os.nice(0) + NICE)} .csv",
        ]
    finally:
        jobs.close()
    assert not list(site.store.file_path("0" * 32).parent.parent.glob("incoming/*"))


def test_a_job_waits_for_the_next_server_when_its_own_ends(site: Site) -> None:
    resource = upload(site, "a.csv", b"a\n1\n")
    jobs = runner(site, "import time\nprint('begun')\ntime.sleep(60)")
    jobs.start()
    wait(lambda: status(site, resource)["status"] == "running")
    jobs.close()
    assert (status(site, resource)["status"], status(site, resource)["task_info"]["attempts"]) == ("pending", 0)
    assert runner(site, "pass").step()
    assert status(site, resource)["status"] == "complete"


def test_a_job_whose_server_died_is_begun_anew_and_not_for_ever(site: Site) -> None:
    resource = upload(site, "a.csv", b"a\n1\n")
    table = site.store.table(resource)
    job = site.store.job(table.id)
    assert job is not None

    def died() -> LoadJob:
        """As a server that was killed leaves it, some time ago."""
        now = site.store.job(table.id)
        assert now is not None
        return replace(now, state=JobState.RUNNING, seen_us=now.seen_us - int((STALE_S + 1) * 1e6))

    class Waiting:
        """The store, with what it says of the job made older."""

        def __getattr__(self, name: str) -> Any:
            return getattr(site.store, name)

        def open_jobs(self, limit: int = 100) -> list[LoadJob]:
            return [died()]

    jobs = JobRunner(Waiting(), lambda path, table: [sys.executable, "-c", "import sys; sys.exit(3)"])  # type: ignore[arg-type]
    site.store.note_job(replace(job, state=JobState.RUNNING, attempts=1)).result(30)
    # One that showed life a moment ago is another server's.
    assert not runner(site, "pass").step()
    assert jobs.step()
    assert status(site, resource)["error"]["message"] == "The loading ended with 3."
    assert status(site, resource)["task_info"]["attempts"] == 2
    site.store.note_job(replace(job, state=JobState.RUNNING, attempts=MAX_ATTEMPTS)).result(30)
    assert jobs.step()
    assert "ended 3 times" in status(site, resource)["error"]["message"]


def test_another_file_ends_the_job_of_the_one_before(site: Site) -> None:
    resource = upload(site, "a.csv", b"a\n1\n")
    first = status(site, resource)["job_id"]
    jobs = runner(site, "import time\nif 'second' not in open(path).read(): time.sleep(60)")
    jobs.start()
    try:
        wait(lambda: status(site, resource)["status"] == "running")
        site.send(
            "POST", "/api/action/resource_patch", data={"id": resource}, files={"upload": ("b.csv", b"second\n1\n")},
            headers={"Authorization": site.token},
        )  # fmt: skip
        told = wait(lambda: (s := status(site, resource))["status"] == "complete" and s)
        assert told["job_id"] != first
    finally:
        jobs.close()


def test_a_resource_that_goes_takes_its_job_along(site: Site) -> None:
    resource = upload(site, "a.csv", b"a\n1\n")
    site.act("resource_delete", id=resource)
    assert site.store.open_jobs() == []
    assert not runner(site, "pass").step()
    assert list(site.store.check()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_child_does_not_outlive_its_server(tmp_path: Path) -> None:
    import subprocess

    child = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    parent = (
        "import os, subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-m', 'thalweg.services.job_child', str(os.getpid()), sys.executable, '-c', "
        f"{child!r}])\ntime.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.kill()
    process.wait()
    wait(lambda: not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text(), 10)
