"""Web hooks: registering, deliveries that are signed, in order, at least once, and what is refused."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.conformance.ckan_support import Site
from tests.store.support import STEP, T0, WAIT_S, block, insert, register

from thalweg.domain.access import Role, User
from thalweg.domain.hooks import WebHook
from thalweg.loading.tables import load_table_file
from thalweg.services import hooks
from thalweg.services.hooks import allowed


class Receiver:
    """An address that keeps what it is told. ``status``: what it answers."""

    def __init__(self) -> None:
        self.status = 200
        self.got: list[tuple[dict[str, str], bytes]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.got.append((dict(self.headers), body))
                self.send_response(outer.status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def ids(self) -> list[int]:
        return [record["_id"] for _, body in self.got for record in orjson.loads(body)["records"]]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def site(tmp_path: Path, receiver: Receiver) -> Iterator[Site]:
    made = Site(tmp_path, webhook_targets=(receiver.url,))
    yield made
    made.close()


FIELDS = [{"id": "n", "type": "numeric"}, {"id": "t", "type": "timestamp"}]


def write(site: Site, table: str, *numbers: int) -> None:
    records = [{"n": number, "t": "2020-01-01T00:00:00"} for number in numbers]
    site.act("datastore_upsert", resource_id=table, method="insert", records=records)


def until(reached: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 10
    while not reached():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def deliver(site: Site) -> None:
    while site.application.hook_work.round():
        pass


def test_new_records_are_delivered_signed(site: Site, receiver: Receiver) -> None:
    table = site.table(FIELDS)
    write(site, table, 1, 2)
    made = site.act("thalweg_hook_create", resource_id=table, url=receiver.url, secret="shared")
    assert made["secret"] == "shared"
    assert made["delivered_id"] == 2
    deliver(site)
    assert receiver.got == []
    write(site, table, 3, 4)
    deliver(site)
    ((headers, body),) = receiver.got
    assert headers["X-Hub-Signature"] == "sha256=" + hmac.new(b"shared", body, hashlib.sha256).hexdigest()
    assert orjson.loads(body) == {
        "hook_id": made["id"], "resource_id": table,
        "records": [{"_id": number, "n": number, "t": "2020-01-01T00:00:00.000"} for number in (3, 4)],
    }  # fmt: skip
    (listed,) = site.act("thalweg_hook_list", resource_id=table)
    assert listed["delivered_id"] == 4
    assert "secret" not in listed
    deliver(site)
    assert len(receiver.got) == 1
    site.act("thalweg_hook_delete", resource_id=table, id=made["id"])
    write(site, table, 5)
    deliver(site)
    assert len(receiver.got) == 1


def test_many_records_come_in_order_and_in_parts(
    site: Site, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "MAX_RECORDS", 40)
    monkeypatch.setattr(hooks, "MAX_BYTES", 1_000)
    table = site.table(FIELDS)
    site.act("thalweg_hook_create", resource_id=table, url=receiver.url)
    write(site, table, *range(100))
    deliver(site)
    assert receiver.ids == list(range(1, 101))
    assert all(len(body) < 1_200 for _, body in receiver.got)


@pytest.mark.parametrize("status", [500, 404, 302])
def test_what_failed_is_tried_again_later_and_longer(site: Site, receiver: Receiver, status: int) -> None:
    table = site.table(FIELDS)
    made = site.act("thalweg_hook_create", resource_id=table, url=receiver.url)
    write(site, table, 1)
    receiver.status = status
    deliver(site)
    (hook,) = site.store.hooks()
    first_wait_us = hook.next_us - time.time_ns() // 1000
    assert (hook.failures, hook.position, hook.problem) == (1, 0, f"it answered {status}")
    # Not before its time; nor does a redirect lead anywhere.
    deliver(site)
    assert len(receiver.got) == 1
    from dataclasses import replace

    site.store.note_delivery(replace(hook, next_us=0)).result(WAIT_S)
    deliver(site)
    (hook,) = site.store.hooks()
    assert hook.failures == 2
    assert hook.next_us - time.time_ns() // 1000 > first_wait_us
    assert site.act("thalweg_hook_list", resource_id=table)[0]["problem"] == f"it answered {status}"
    receiver.status = 204
    write(site, table, 2)
    site.store.note_delivery(replace(hook, next_us=0)).result(WAIT_S)
    deliver(site)
    assert receiver.ids[-2:] == [1, 2]
    assert site.store.hooks()[0].failures == 0
    assert made["failures"] == 0


def test_deliveries_go_on_after_a_restart(tmp_path: Path, receiver: Receiver) -> None:
    site = Site(tmp_path, webhook_targets=(receiver.url,))
    table = site.table(FIELDS)
    site.act("thalweg_hook_create", resource_id=table, url=receiver.url)
    write(site, table, 1)
    site.close()
    again = Site(tmp_path, webhook_targets=(receiver.url,))
    try:
        again.application.hook_work.start()
        until(lambda: receiver.ids == [1])
        write(again, table, 2)
        until(lambda: receiver.ids == [1, 2])
    finally:
        again.close()
    # Without the address in the setting nothing is sent any more.
    last = Site(tmp_path, webhook_targets=("https://example.org/",))
    try:
        write(last, table, 3)
        deliver(last)
        assert receiver.ids == [1, 2]
        assert "webhook_targets" in last.store.hooks()[0].problem
    finally:
        last.close()


def test_observations_of_a_procedure_are_delivered(site: Site, receiver: Receiver) -> None:
    station = register(site.store)
    key = site.act("package_show", id="procedures-of-default")["resources"][0]["id"]
    site.act("thalweg_hook_create", resource_id=key, url=receiver.url)
    for step in range(2):
        insert(site.store, station, block([T0 + step * STEP], {station.ids[0]: [1.5]}))
        deliver(site)
    assert receiver.ids == [T0, T0 + STEP]


def test_an_unreachable_address_holds_up_nobody_else(site: Site, receiver: Receiver) -> None:
    table, other = site.table(FIELDS), site.table(FIELDS)
    site.act("thalweg_hook_create", resource_id=table, url=receiver.url)
    site.act("thalweg_hook_create", resource_id=other, url=receiver.url)
    (first, _) = site.store.hooks()
    # As if its port were closed.
    work = hooks.HookWork(site.store, site.application.services.tables, (receiver.url,))
    write(site, table, 1)
    write(site, other, 7)
    real = work._post
    work._post = lambda hook, body, turn: "unreachable" if hook.id == first.id else real(hook, body, turn)  # type: ignore[method-assign]
    work.round()
    assert len(receiver.got) == 1
    assert [hook.failures for hook in site.store.hooks()] == [1, 0]


def test_records_after_those_of_another_file_are_told(site: Site, receiver: Receiver, tmp_path: Path) -> None:
    table = site.table(FIELDS)
    write(site, table, 1, 2, 3)
    site.act("thalweg_hook_create", resource_id=table, url=receiver.url)
    (tmp_path / "a.csv").write_text("n,t\n7,2020-01-01\n")
    load_table_file(site.store, table, tmp_path / "a.csv")
    deliver(site)
    assert receiver.got == []
    write(site, table, 8)
    deliver(site)
    assert receiver.ids == [2]


def test_receivers_that_hang_hold_up_nobody_else(
    site: Site, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "AT_ONCE", 1)
    monkeypatch.setattr(hooks, "QUICK_S", 0.05)
    table = site.table(FIELDS)
    for _ in range(4):
        site.act("thalweg_hook_create", resource_id=table, url=receiver.url)
    *hanging, _ = [hook.id for hook in site.store.hooks()]
    work = hooks.HookWork(site.store, site.application.services.tables, (receiver.url,))
    free = threading.Event()
    real = work._post

    def post(hook: WebHook, body: bytes, turn: hooks._Turn) -> str:
        if hook.id in hanging:
            free.wait(20)
        return real(hook, body, turn)

    work._post = post  # type: ignore[method-assign]
    write(site, table, 1)
    work.start()
    try:
        until(lambda: receiver.ids == [1])
        write(site, table, 2)
        until(lambda: receiver.ids == [1, 2])
        until(lambda: [hook.position for hook in site.store.hooks()] == [0, 0, 0, 2])
    finally:
        free.set()
        until(lambda: [hook.position for hook in site.store.hooks()] == [2] * 4)
        work.close()


def test_a_receiver_that_drips_its_answer_is_cut_off(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "TIMEOUT_S", 0.5)
    table = site.table(FIELDS)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/hook"
        site.store.add_hook(WebHook(0, "", 1, table, url, "s")).result(WAIT_S)
        work = hooks.HookWork(site.store, site.application.services.tables, (url,))
        write(site, table, 1)

        def drip() -> None:
            connection, _ = listening.accept()
            with connection, contextlib.suppress(OSError):
                while True:
                    connection.sendall(b"H")
                    time.sleep(0.1)

        thread = threading.Thread(target=drip)
        thread.start()
        begun_s = time.monotonic()
        work.round()
        assert time.monotonic() - begun_s < 5
        thread.join()
        work.close()
    (hook,) = site.store.hooks()
    assert (hook.failures, hook.position) == (1, 0)


def test_a_hook_ends_with_its_resource(site: Site, receiver: Receiver) -> None:
    table = site.table(FIELDS)
    site.act("thalweg_hook_create", resource_id=table, url=receiver.url)
    site.act("resource_delete", id=table)
    deliver(site)
    assert site.store.hooks() == []


def test_only_who_may_register_may_and_sees_them(site: Site, receiver: Receiver) -> None:
    table = site.table(FIELDS)
    given = {"resource_id": table, "url": receiver.url}
    assert site.act("thalweg_hook_create", 403, token="", **given)["__type"] == "Authorization Error"
    made = site.act("thalweg_hook_create", **given)
    site.store.put_user(User("reader", Role.DATA_MANAGER, "$argon2id$none", 1)).result(WAIT_S)
    token = site.application.services.access.create_token("reader", "")
    assert site.act("thalweg_hook_create", 403, token=token, **given)["__type"] == "Authorization Error"
    assert site.act("thalweg_hook_list", 403, token=token, resource_id=table)["__type"] == "Authorization Error"
    for who in (token, ""):
        refused = site.act("thalweg_hook_delete", 403, token=who, resource_id=table, id=made["id"])
        assert refused["__type"] == "Authorization Error"
    site.act("thalweg_hook_delete", 404, resource_id=table, id="nope")
    assert len(site.store.hooks()) == 1


def test_bad_hooks_are_refused(site: Site, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    table = site.table(FIELDS)
    wrong = (
        "http://127.0.0.1:1/hook",
        f"{receiver.url}/../x",
        "file:///etc/passwd",
        receiver.url[:-1],
        f"{receiver.url}/{'x' * hooks.MAX_URL}",
    )
    for url in wrong:
        assert "webhook_targets" in site.error("thalweg_hook_create", resource_id=table, url=url)["url"][0]
    assert "secret" in site.error("thalweg_hook_create", resource_id=table, url=receiver.url, secret="x" * 201)
    assert "secret" in site.error("thalweg_hook_create", resource_id=table, url=receiver.url, secret="\n")
    assert "url" in site.error("thalweg_hook_create", resource_id=table)
    assert "__extras" in site.error("thalweg_hook_create", resource_id=table, url=receiver.url, more=1)
    site.act("thalweg_hook_create", 404, resource_id="nope", url=receiver.url)
    monkeypatch.setattr("thalweg.store.sqlite.hooks.MAX_HOOKS", 0)
    assert "web hooks already" in str(site.error("thalweg_hook_create", resource_id=table, url=receiver.url))


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("https://example.org/hooks", True),
        ("https://example.org/hooks/", True),
        ("https://example.org/hooks/a?b=c", True),
        ("https://example.org/hooksx", False),
        ("https://example.org/hooks/../admin", False),
        ("https://example.org/hooks/%2e%2e/admin", False),
        ("https://example.org:444/hooks", False),
        ("http://example.org/hooks", False),
        ("https://example.org.evil.test/hooks", False),
        ("https://example.org@evil.test/hooks", False),
        ("https://user@example.org/hooks", False),
        ("https://example.org\\@evil.test/hooks", False),
        ("https://example.org/hooks#x", False),
        ("https://example.org/hooks\r\nHost: x", False),
        ("https://[::1", False),
        ("https://example.org:99999999/hooks", False),
        ("//example.org/hooks", False),
        ("", False),
    ],
)
def test_addresses_begin_as_the_operator_says(url: str, is_allowed: bool) -> None:
    assert allowed(url, ("https://example.org/hooks",)) is is_allowed
    assert not allowed(url, ())
