"""Uploads and downloads of the CKAN door: whole, bounded, by ranges, and gone when they are to be."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as bounded
from hypothesis import strategies as st
from tests.conformance.ckan_support import Site

from thalweg import app
from thalweg.domain.errors import DamagedData, StoreUnavailable
from thalweg.doors.ckan.files import range_of
from thalweg.doors.ckan.multipart import MAX_FORM_BYTES, MAX_PART_HEADER, MAX_PARTS
from thalweg.services.files import mimetype_of, safe_name
from thalweg.settings import Settings

LIMIT = 1_000_000


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("ckan"), ckan_max_upload_bytes=LIMIT)
    made.act("package_create", name="files")
    yield made
    made.close()


def folder(site: Site) -> Path:
    return site.store.file_path("0" * 32).parent.parent


def stored(site: Site) -> list[Path]:
    return sorted(path for path in folder(site).rglob("*") if path.is_file() and path.name != "lock")


def settled(site: Site, wanted: list[Path]) -> list[Path]:
    """The files there are, once they are those that are wanted, or after ten seconds: what had come of a refused one
    is removed in a thread, when the answer is on its way."""
    until = time.monotonic() + 10
    while (found := stored(site)) != wanted and time.monotonic() < until:
        site.get("/api/3")
    return found


def upload(
    site: Site, content: bytes, name: str = "a.csv", action: str = "resource_create", *, token: str = "",
    kind: str = "text/csv", **fields: Any,
) -> httpx.Response:  # fmt: skip
    data = fields if action != "resource_create" else {"package_id": "files", **fields}
    headers = {"Authorization": token or site.token}
    return site.send(
        "POST", f"/api/action/{action}", data=data, files={"upload": (name, content, kind)}, headers=headers
    )


def made(site: Site, content: bytes, name: str = "a.csv", **fields: Any) -> Any:
    answer = upload(site, content, name, **fields)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


def raw(site: Site, body: bytes, kind: str = "multipart/form-data; boundary=b") -> httpx.Response:
    headers = {"Authorization": site.token, "Content-Type": kind}
    return site.send("POST", "/api/action/resource_create", content=body, headers=headers)


def test_a_file_comes_back_as_it_was(site: Site) -> None:
    content = os.urandom(300_000)
    resource = made(site, content, "Données 1.CSV", description="d")
    assert (resource["url_type"], resource["format"], resource["size"]) == ("upload", "CSV", 300_000)
    assert (resource["name"], resource["mimetype"]) == ("Données-1.CSV", "text/csv")
    assert resource["hash"] == hashlib.sha256(content).hexdigest()
    assert resource["url"].endswith(f"/resource/{resource['id']}/download/Donn%C3%A9es-1.CSV")
    answer = site.get(resource["url"])
    assert answer.content == content
    assert answer.headers["content-length"] == "300000"
    assert answer.headers["content-type"] == "text/csv"
    assert answer.headers["etag"] == f'"{resource["hash"]}"'
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    disposition = answer.headers["content-disposition"]
    assert disposition == "attachment; filename=\"Donn_es-1.CSV\"; filename*=UTF-8''Donn%C3%A9es-1.CSV"
    assert "content-encoding" not in answer.headers
    head = site.send("HEAD", resource["url"])
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "300000")
    # The name at the end is for people.
    assert site.get(resource["url"].rpartition("/")[0]).content == content
    assert site.get(resource["url"].replace("/download/", "/nope/")).status_code == 404
    assert site.get(f"/dataset/other/resource/{resource['id']}/download/a.csv").status_code == 404


@pytest.mark.parametrize("size", [1_000, 200_000])
def test_ranges(site: Site, size: int) -> None:
    content = os.urandom(size)
    resource = made(site, content)

    def part(header: str, **more: str) -> httpx.Response:
        return site.send(
            "GET", resource["url"], headers={"Range": header, **{k.replace("_", "-"): v for k, v in more.items()}}
        )

    for header, begin, end in (
        ("bytes=0-9", 0, 10), ("bytes=5-", 5, size), ("bytes=-7", size - 7, size), (f"bytes=10-{size * 2}", 10, size),
        (f"bytes=-{size * 2}", 0, size),
    ):  # fmt: skip
        answer = part(header)
        assert (answer.status_code, answer.content) == (206, content[begin:end])
        assert answer.headers["content-range"] == f"bytes {begin}-{end - 1}/{size}"
        assert answer.headers["content-length"] == str(end - begin)
    for header in ("bytes=0-1,5-6", "lines=1-2", "bytes=9-5", "bytes=-", "bytes=" + "0-1," * 500):
        answer = part(header)
        assert (answer.status_code, answer.content) == (200, content)
    answer = part(f"bytes={size}-")
    assert (answer.status_code, answer.headers["content-range"]) == (416, f"bytes */{size}")
    etag = f'"{resource["hash"]}"'
    assert part("bytes=0-1", If_Range=etag).status_code == 206
    assert part("bytes=0-1", If_Range='"other"').content == content
    known = site.send("GET", resource["url"], headers={"If-None-Match": etag})
    assert (known.status_code, known.content) == (304, b"")


@given(st.text(max_size=30), st.integers(0, 1_000))
def test_any_range_is_within_the_file(text: str, size: int) -> None:
    for header in (text, f"bytes={text}"):
        found = range_of(header, size)
        assert found is None or found == () or 0 <= found[0] < found[1] <= size


@given(st.text(max_size=400))
def test_names_of_files_are_safe(name: str) -> None:
    safe = safe_name(name)
    assert 0 < len(safe) <= 150
    assert not set(safe) & set('/\\"\r\n\0<>?#%; ')
    assert not safe.startswith(".")
    assert safe_name(safe) == safe
    assert "\n" not in mimetype_of(safe, name)


@pytest.mark.parametrize(
    ("name", "kept"),
    [("../../etc/passwd", "passwd"), ("C:\\data\\a b.csv", "a-b.csv"), ("..", "file"), ("", "file"), (".hidden", "hidden"),
     ("a" * 300 + ".csv", "a" * 146 + ".csv"), ('x";filename="y.csv', "xfilenamey.csv")],
)  # fmt: skip
def test_names_lose_what_leads_elsewhere(name: str, kept: str) -> None:
    assert safe_name(name) == kept


def test_what_a_browser_would_run_is_never_shown(site: Site) -> None:
    resource = made(site, b"<script>alert(1)</script>", "page.html", kind="text/html")
    answer = site.get(resource["url"])
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert "script-src" not in answer.headers["content-security-policy"]
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_another_file_takes_the_place_and_the_old_one_goes(site: Site) -> None:
    first = made(site, b"one", "one.csv", description="kept")
    count = len(stored(site))
    answer = upload(site, b"second", "two.tsv", "resource_patch", id=first["id"])
    second = answer.json()["result"]
    assert (second["name"], second["format"], second["size"]) == ("two.tsv", "TSV", 6)
    assert second["description"] == "kept"
    assert site.get(second["url"]).content == b"second"
    site.store.maintain()
    assert len(stored(site)) == count
    # Said again as it was read, it keeps its file.
    again = site.act("resource_update", **{**second, "description": "e"})
    assert (again["url"], again["hash"], again["description"]) == (second["url"], second["hash"], "e")
    package = site.act("package_show", id="files")
    site.act("package_update", **package)
    assert site.get(second["url"]).content == b"second"
    cleared = site.act("resource_patch", id=first["id"], clear_upload="true", url="http://example.org/x.csv")
    assert (cleared["url"], cleared["url_type"], cleared["hash"]) == ("http://example.org/x.csv", None, "")
    assert site.get(second["url"]).status_code == 404
    site.store.maintain()
    assert len(stored(site)) == count - 1
    third = made(site, b"third")
    site.act("resource_delete", id=third["id"])
    assert site.get(third["url"]).status_code == 404
    site.store.maintain()
    assert len(stored(site)) == count - 1


def test_purging_a_package_removes_its_files(site: Site) -> None:
    site.act("package_create", name="doomed")
    before = len(stored(site))
    resource = upload(site, b"a", package_id="doomed").json()["result"]
    assert len(stored(site)) == before + 1
    site.act("dataset_purge", id="doomed")
    assert site.get(resource["url"]).status_code == 404
    site.store.maintain()
    assert len(stored(site)) == before


def test_files_of_private_packages_are_there_for_those_who_may(site: Site) -> None:
    site.act("package_create", name="private-files", private=True)
    resource = upload(site, b"secret", package_id="private-files").json()["result"]
    assert site.get(resource["url"]).status_code == 404
    answer = site.send("GET", resource["url"], headers={"Authorization": site.token})
    assert (answer.content, answer.headers["cache-control"]) == (b"secret", "private, no-cache")


# ------------------------------------------------------------------ what is refused


def test_refused_uploads_leave_nothing(site: Site) -> None:
    before = stored(site)
    assert upload(site, b"a", token="nobody").status_code == 403
    assert upload(site, b"a", package_id="nope").status_code == 404
    assert upload(site, b"a", url_type="k" * 101).status_code == 409
    assert upload(site, b"x" * LIMIT).status_code == 409
    assert upload(site, b"a", action="package_create", name="x1").status_code == 409
    answer = site.send(
        "POST", "/api/action/resource_create", data={"package_id": "files"}, headers={"Authorization": site.token},
        files=[("upload", ("a", b"1")), ("upload", ("b", b"2"))],
    )  # fmt: skip
    assert answer.json()["error"]["upload"] == ["There is more than one file"]
    answer = site.send(
        "POST", "/api/action/resource_create", data={"package_id": "files"}, headers={"Authorization": site.token},
        files=[("image", ("a", b"1"))],
    )  # fmt: skip
    assert "image" in answer.json()["error"]
    assert site.error("resource_create", package_id="files", upload="text") == {
        "upload": ["A file is uploaded as multipart/form-data"]
    }
    assert settled(site, before) == before


PART = b'--b\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "multipart/form-data; boundary=b"),
        (b"--b\r\n", "multipart/form-data; boundary=b"),
        (PART % (b"upload", b'; filename="a.csv"', b"a,b"), "multipart/form-data; boundary=b"),
        (PART % (b"upload", b'; filename="a.csv"', b"a,b") + b"--b", "multipart/form-data; boundary=b"),
        (b"no form at all", "multipart/form-data; boundary=b"),
        (b"--b--\r\n", "multipart/form-data"),
        (b"--b--\r\n", "multipart/form-data; boundary=" + "b" * 300),
        (b"--b\r\nX: y\r\n\r\nz\r\n--b--\r\n", "multipart/form-data; boundary=b"),
        (PART % (b"a", b"", b"\xff") + b"--b--\r\n", "multipart/form-data; boundary=b"),
        (PART % (b"a", b"", b"1") * (MAX_PARTS + 1) + b"--b--\r\n", "multipart/form-data; boundary=b"),
        (b"--b\r\nX: " + b"y" * (MAX_PART_HEADER + 1) + b"\r\n\r\n1\r\n--b--\r\n", "multipart/form-data; boundary=b"),
        (b"--b\r\n" + b"X: y\r\n" * 2_000 + b"\r\n1\r\n--b--\r\n", "multipart/form-data; boundary=b"),
    ],
)
def test_forms_that_are_cut_off_or_none_are_refused(site: Site, body: bytes, kind: str) -> None:
    before = stored(site)
    answer = raw(site, body, kind)
    assert answer.status_code in (400, 409), answer.text
    assert settled(site, before) == before


def test_fields_of_a_form_are_bounded(tmp_path: Path) -> None:
    site = Site(tmp_path)
    try:
        body = PART % (b"a", b"", b"x" * (MAX_FORM_BYTES + 1)) + b"--b--\r\n"
        answer = raw(site, body)
        assert answer.status_code == 409
        assert "fields of the form" in answer.text
    finally:
        site.close()


def test_compressed_forms_are_refused(site: Site) -> None:
    headers = {
        "Authorization": site.token, "Content-Type": "multipart/form-data; boundary=b", "Content-Encoding": "gzip"
    }  # fmt: skip
    assert site.send("POST", "/api/action/resource_create", content=b"x" * 100, headers=headers).status_code == 409


@pytest.mark.fuzz
@bounded(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [
                    b"--b",
                    b"--b--",
                    b"\r\n",
                    b"--b\r\n",
                    b'Content-Disposition: form-data; name="upload"; filename="a"\r\n\r\n',
                    b":",
                    b'name="',
                    b"\r\n\r\n",
                    b"\n",
                    b";" * 50,
                ]
            ),
            st.binary(max_size=20),
        ),
        max_size=12,
    )
)
def test_any_body_is_answered_and_leaves_nothing(site: Site, pieces: list[bytes]) -> None:
    before = len(stored(site))
    answer = raw(site, b"".join(pieces))
    assert answer.status_code in (400, 409)
    assert len(stored(site)) == before


def test_forms_without_a_file_are_parameters(site: Site) -> None:
    body = PART % (b"package_id", b"", b"files") + PART % (b"url", b"", b"http://example.org/l.csv")
    answer = raw(site, body + PART % (b"upload", b'; filename=""', b"") + b"--b--\r\n")
    assert answer.status_code == 200, answer.text
    assert answer.json()["result"]["url"] == "http://example.org/l.csv"
    body = PART % (b"name", b"", b"by-form") + b"--b--\r\n"
    headers = {"Authorization": site.token, "Content-Type": "multipart/form-data; boundary=b"}
    assert site.send("POST", "/api/action/package_create", content=body, headers=headers).status_code == 200


# ------------------------------------------------------------------ copies, damage, strays


def test_backup_and_restore_take_the_files_along(tmp_path: Path) -> None:
    site = Site(tmp_path / "one")
    site.act("package_create", name="files")
    kept, doomed = made(site, b"kept"), made(site, b"doomed")
    copy = tmp_path / "copy.sqlite"
    site.store.backup(str(copy))
    assert list(app.check_copy(str(copy))) == []
    site.act("resource_delete", id=doomed["id"])
    site.store.maintain()
    site.close()
    settings = Settings(store=f"sqlite:///{tmp_path / 'two' / 'new.sqlite'}")
    assert app.restore(str(copy), settings, force=False) == []
    store = app.open_store(settings.store)
    assert list(store.check()) == []
    for resource, content in ((kept, b"kept"), (doomed, b"doomed")):
        key = store.table(resource["id"]).document["_file"]["key"]
        assert store.file_path(key).read_bytes() == content
    # Damage is found by name.
    store.file_path(key).write_bytes(b"doOmed")
    assert [finding.problem for finding in store.check()] == ["its content is not what was stored"]
    store.file_path(key).unlink()
    assert [finding.problem for finding in store.check()] == ["it is not there"]
    store.close()
    broken = copy.with_name(copy.name + ".files")
    for path in broken.glob("??/*"):
        path.write_bytes(b"x")
    with pytest.raises(DamagedData, match="damaged"):
        app.restore(str(copy), Settings(store=f"sqlite:///{tmp_path / 'three' / 'x.sqlite'}"), force=False)
    assert not (tmp_path / "three" / "x.sqlite.restoring.files").exists()


def test_files_of_nobody_are_swept_away_after_an_hour(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.act("package_create", name="files")
    resource = made(site, b"kept")
    stray, begun = site.store.receive_file(), site.store.receive_file()
    for incoming in (stray, begun):
        incoming.write(b"content")
    kept = stray.keep("a", "text/plain")
    site.store.sweep_files()  # type: ignore[attr-defined]
    assert site.store.file_path(kept.key).exists()
    for path in stored(site):
        os.utime(path, (1, 1))
    site.store.sweep_files()  # type: ignore[attr-defined]
    assert [path.read_bytes() for path in stored(site)] == [b"kept"]
    assert site.get(resource["url"]).content == b"kept"
    site.close()


def test_a_backup_that_fails_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from thalweg.store.sqlite import backup

    site = Site(tmp_path)
    site.act("package_create", name="files")
    made(site, b"content")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backup, "_give_name", fail)
    with pytest.raises(StoreUnavailable):
        site.store.backup(str(tmp_path / "copy.sqlite"))
    assert [path.name for path in tmp_path.glob("copy*")] == []
    # Nothing is removed while a copy is made.
    resource = made(site, b"more")
    from thalweg.store.sqlite.package_files import FileFolder

    with FileFolder(tmp_path / "ckan.sqlite").held():
        site.act("resource_delete", id=resource["id"])
        site.store.maintain()
        assert len(stored(site)) == 2
    site.store.maintain()
    assert len(stored(site)) == 1
    site.close()


def test_what_is_said_of_a_file_before_it_comes_holds_of_it(site: Site) -> None:
    """As loaders of dumps do; of the next file it does not hold."""
    waiting = {"name": "f", "url_type": "upload", "format": "WaterML", "url": "http://old.example.org/f.xml"}
    resource = site.act("resource_create", package_id="files", **waiting)
    first = upload(site, b"<a/>", "f.xml", "resource_patch", id=resource["id"]).json()["result"]
    assert (first["name"], first["format"], first["url_type"]) == ("f", "WaterML", "upload")
    second = upload(site, b"a\n1\n", "f.csv", "resource_patch", id=resource["id"]).json()["result"]
    assert (second["name"], second["format"]) == ("f", "CSV")
