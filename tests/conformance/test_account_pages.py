"""Signing in and one's own account by forms, as a browser without script does it."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher
from tests.conformance.test_server_pages import registration

from thalweg import app
from thalweg.auth.passwords import Passwords
from thalweg.auth.throttle import Throttle
from thalweg.domain.access import AuditQuery, Role, Scope
from thalweg.domain.catalogue import Workspace
from thalweg.settings import Settings
from thalweg.web import account

PASSWORD = "correct horse"
HOSTILE = "\"><script>alert('{{7*7}}')</script>"


class Browser:
    """Keeps cookies, follows no redirects by itself, and finds the hidden field of a page's forms."""

    def __init__(self, application: app.Application, base_url: str = "http://127.0.0.1:8080") -> None:
        self._runner = asyncio.Runner()
        transport = httpx.ASGITransport(application.asgi, client=("192.0.2.7", 4711))
        self.client = httpx.AsyncClient(transport=transport, base_url=base_url)
        self.page: httpx.Response | None = None

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        self.page = self._runner.run(self.client.request(method, path, **options))
        return self.page

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.ask("GET", path, **options)

    def submit(self, path: str, csrf: str | None = None, **fields: str) -> httpx.Response:
        """Send a form of the page seen last."""
        if csrf is None:
            assert self.page is not None
            found = re.search(r'name="csrf" value="([^"]+)"', self.page.text)
            assert found is not None, self.page.text
            csrf = found.group(1)
        return self.ask("POST", path, data={"csrf": csrf, **fields})

    def sign_in(self, name: str = "ann", password: str = PASSWORD) -> httpx.Response:
        self.get("/login")
        return self.submit("/login", name=name, password=password)

    def close(self) -> None:
        self._runner.run(self.client.aclose())
        self._runner.close()


def build(folder: Path, **settings: Any) -> app.Application:
    application = app.build(Settings(store=f"sqlite:///{folder}/thalweg.sqlite", **settings))
    access = application.services.access
    access._passwords = Passwords(hasher=PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))
    access.add_user("ann", Role.DATA_MANAGER, PASSWORD)
    access.add_user("root", Role.ADMIN, PASSWORD)
    return application


@pytest.fixture
def application(tmp_path: Path) -> Iterator[app.Application]:
    made = build(tmp_path)
    yield made
    made.close()


@pytest.fixture
def browser(application: app.Application) -> Iterator[Browser]:
    made = Browser(application)
    yield made
    made.close()


def logged(application: app.Application) -> list[tuple[str, str, str]]:
    application.services.access.maintain()
    # What was written in the background comes before what is asked for here.
    application.store.append_audit([]).result(30)
    return [(e.actor.name, e.action, e.object) for e in application.store.audit(AuditQuery())[::-1]]


def test_signing_in_shows_the_account_and_signing_out_ends_it(application: app.Application, browser: Browser) -> None:
    start = browser.get("/account")
    assert (start.status_code, start.headers["location"]) == (303, "login")
    answer = browser.sign_in()
    assert (answer.status_code, answer.headers["location"]) == (303, "account")
    cookie = next(c for c in answer.headers.get_list("set-cookie") if c.startswith("thalweg-session="))
    attributes = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"httponly", "path=/", "samesite=lax", "max-age=86400"} <= attributes
    page = browser.get("/account")
    assert page.status_code == 200
    assert "Account of ann" in page.text
    assert "data-manager" in page.text
    text = browser.client.cookies["thalweg-session"]
    assert text not in page.text
    answer = browser.submit("/logout")
    assert (answer.status_code, answer.headers["location"]) == (303, "login")
    assert "thalweg-session" not in browser.client.cookies
    # Also for whoever kept the cookie.
    again = browser.get("/account", headers={"Cookie": f"thalweg-session={text}"})
    assert (again.status_code, again.headers["location"]) == (303, "login")
    assert [entry for entry in logged(application) if entry[0] == "ann"] == [
        ("ann", "sign in", "ann"),
        ("ann", "sign out", "ann"),
    ]
    (entry,) = application.store.audit(AuditQuery(action="sign out"))
    assert (entry.actor.address, entry.actor.door, entry.actor.operation) == ("192.0.2.7", "web", "logout")
    assert entry.actor.request


def test_pages_have_their_headers_and_no_script(browser: Browser) -> None:
    browser.sign_in()
    for path in ("/login", "/account"):
        page = browser.get(path)
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "form-action 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["x-content-type-options"] == "nosniff"
        assert "<script" not in page.text
        assert " style=" not in page.text
        assert not re.search(r"\son\w+=", page.text)
        for field in re.findall(r'<(?:input|select) id="([^"]+)"', page.text):
            assert f'<label for="{field}">' in page.text


def test_a_new_session_at_each_sign_in(browser: Browser) -> None:
    browser.client.cookies.set("thalweg-session", "chosen-by-somebody-else", domain="127.0.0.1")
    browser.sign_in()
    first = [c.value for c in browser.client.cookies.jar if c.name == "thalweg-session"]
    assert "chosen-by-somebody-else" not in first[-1:]
    one = first[-1]
    browser.client.cookies.clear()
    browser.client.cookies.set("thalweg-session", str(one), domain="127.0.0.1")
    browser.sign_in()
    assert browser.get("/account", headers={"Cookie": f"thalweg-session={one}"}).status_code == 303


def test_wrong_password_says_nothing_and_is_bounded(application: app.Application, browser: Browser) -> None:
    texts = set()
    for name in ("ann", "nobody"):
        answer = browser.sign_in(name, "wrong horse")
        assert answer.status_code == 401
        assert "www-authenticate" not in answer.headers
        texts.add(re.sub(r'value="[^"]*"', "", answer.text))
    assert len(texts) == 1
    for _ in range(4):
        browser.sign_in("ann", "wrong horse")
    late = browser.sign_in("ann", PASSWORD)
    assert late.status_code == 429
    assert int(late.headers["retry-after"]) >= 1
    assert "Too many failed sign-ins" in late.text
    assert ("", "sign in failed", "ann") in logged(application)


def test_forms_of_other_sites_are_refused(application: app.Application, browser: Browser) -> None:
    browser.sign_in()
    browser.get("/account")
    for path, fields in (
        ("/account/password", {"old": PASSWORD, "new": "better horse", "again": "better horse"}),
        ("/account/tokens", {"label": "x"}),
        ("/account/revoke", {"token": "ab" * 32}),
        ("/logout", {}),
    ):
        assert browser.submit(path, csrf="", **fields).status_code == 403
        assert browser.submit(path, csrf="A" * 32, **fields).status_code == 403
        browser.get("/account")
        good = re.search(r'name="csrf" value="([^"]+)"', browser.page.text)  # type: ignore[union-attr]
        assert good is not None
        data = {"csrf": good.group(1), **fields}
        assert browser.ask("POST", path, data=data, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
        # As a page of another site can send without asking: text that looks like a form.
        text = "&".join(f"{name}={value}" for name, value in data.items())
        answer = browser.ask("POST", path, content=text, headers={"Content-Type": "text/plain"})
        assert answer.status_code == 400
    assert application.services.access.tokens("ann") == []
    # Signing someone in as somebody else, too.
    other = Browser(application)
    assert other.submit("/login", csrf="A" * 32, name="ann", password=PASSWORD).status_code == 403
    # A password that browsers send by themselves opens no forms.
    answer = other.ask("POST", "/account/tokens", data={"label": "x"}, auth=("ann", PASSWORD))
    assert answer.status_code == 403
    other.close()


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"x" * 40_000, 413), (b"a&" * 30, 400), (b"name=%ff%fe", 400), (b"\xff", 400), ("é".encode(), 400)],
)
def test_hostile_forms_are_refused_within_bounds(browser: Browser, content: bytes, status: int) -> None:
    answer = browser.ask(
        "POST", "/login", content=content, headers={"Content-Type": "application/x-www-form-urlencoded"}
    )
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/plain")


def test_tokens_are_made_shown_once_limited_and_revoked(application: app.Application, browser: Browser) -> None:
    application.store.put_workspace(Workspace(0, "", "lakes")).result(30)
    browser.sign_in()
    browser.get("/account")
    made = browser.submit("/account/tokens", label=HOSTILE, days="7", role="viewer", workspace="lakes")
    found = re.search(r"tw_[\w-]{43}", made.text)
    assert found is not None
    assert made.headers["cache-control"] == "no-store"
    assert HOSTILE not in made.text
    assert "&lt;script&gt;" in made.text
    token = found.group()
    page = browser.get("/account")
    assert token not in page.text
    assert "viewer, lakes" in page.text
    (stored,) = application.services.access.tokens("ann")
    assert (stored.role, stored.workspace_id) == (Role.VIEWER, application.store.workspaces()["lakes"].id)
    assert stored.expires_us is not None
    assert stored.expires_us - stored.created_us == pytest.approx(7 * 86_400 * 10**6, abs=10**6)
    headers = {"Authorization": f"Bearer {token}"}
    other = Browser(application)
    assert other.get("/lakes/sos?service=SOS&request=GetCapabilities", headers=headers).status_code == 200
    for fields in ({"days": "0"}, {"days": "x"}, {"days": "9" * 30}, {"workspace": "nowhere"}, {"label": "x" * 300}):
        browser.get("/account")
        answer = browser.submit("/account/tokens", **fields)
        assert answer.status_code == 400
        assert 'class="error"' in answer.text
    assert len(application.services.access.tokens("ann")) == 1
    # Another user's is not there.
    roots = application.services.access.create_token("root", "")
    digest = application.services.access.tokens("root")[0].digest
    for name in (digest, roots):
        browser.get("/account")
        assert browser.submit("/account/revoke", token=name).status_code == 400
    browser.get("/account")
    assert browser.submit("/account/revoke", token=stored.digest).status_code == 200
    assert other.get("/sos?service=SOS&request=GetCapabilities", headers=headers).status_code == 401
    other.close()


def test_password_is_changed_by_who_knows_the_old_one(application: app.Application, browser: Browser) -> None:
    elsewhere = Browser(application)
    elsewhere.sign_in()
    browser.sign_in()
    for old, new, again in (
        ("wrong horse", "better horse", "better horse"),
        (PASSWORD, "better horse", "other horse"),
        (PASSWORD, "short", "short"),
    ):
        browser.get("/account")
        assert browser.submit("/account/password", old=old, new=new, again=again).status_code == 400
    browser.get("/account")
    changed = browser.submit("/account/password", old=PASSWORD, new="better horse", again="better horse")
    assert changed.status_code == 200
    assert "The password is changed." in changed.text
    assert browser.get("/account").status_code == 200
    assert elsewhere.get("/account").status_code == 303
    assert elsewhere.sign_in().status_code == 401
    assert elsewhere.sign_in("ann", "better horse").status_code == 303
    elsewhere.close()
    assert ("ann", "change user", "ann") in logged(application)


def test_session_reads_doors_and_writes_with_its_proof_alone(application: app.Application, browser: Browser) -> None:
    store, access = application.store, application.services.access
    store.register_procedure(1, registration("lugano")).result(30)
    catalogue = store.catalogue(1)
    application.services.catalogue.set_public(catalogue, "procedure", "lugano", False).result(30)
    path = "/sos?service=SOS&request=GetCapabilities"
    assert "lugano" not in browser.get(path).text
    browser.sign_in()
    seen = browser.get(path)
    assert "lugano" in seen.text
    # Caches between are not to give it to others.
    assert "private" in seen.headers["cache-control"]
    assert "cookie" in seen.headers["vary"].lower()
    page = browser.get("/account")
    found = re.search(r'name="csrf" value="([^"]+)"', page.text)
    assert found is not None
    for headers, status in (({}, 403), ({"X-CSRF-Token": "x"}, 403), ({"X-CSRF-Token": found.group(1)}, 400)):
        answer = browser.ask("POST", "/sos", content=b"<x/>", headers={"Content-Type": "text/plain", **headers})
        assert answer.status_code == status, answer.text
    # A header counts before the cookie, a bad one, too.
    assert browser.get(path, headers={"Authorization": "Bearer tw_x"}).status_code == 401
    access.set_role("ann", Role.NOTHING)
    assert "lugano" not in browser.get(path).text


def test_account_shows_roles_by_name(application: app.Application, browser: Browser) -> None:
    store = application.store
    procedure = store.register_procedure(1, registration("lugano")).result(30)
    application.services.access.grant("ann", Scope(1), Role.VIEWER)
    application.services.access.grant("ann", Scope(1, "procedure", procedure.id), Role.NETWORK_MANAGER)
    browser.sign_in()
    page = browser.get("/account").text
    assert "<td>viewer</td><td>workspace default</td>" in page
    assert "<td>network-manager</td><td>procedure lugano of default</td>" in page


def test_audit_log_is_for_administrators(application: app.Application, browser: Browser) -> None:
    assert browser.get("/admin/audit").status_code == 401
    assert browser.get("/admin/audit", auth=("ann", PASSWORD)).status_code == 403
    answer = browser.get("/admin/audit?action=add&limit=1", auth=("root", PASSWORD))
    assert answer.status_code == 200
    (line,) = [json.loads(text) for text in answer.text.splitlines()]
    assert (line["action"], line["object"], line["detail"]) == ("add user", "root", "role: admin")
    for wrong in ("limit=0", "limit=x", "since=yesterday"):
        assert browser.get(f"/admin/audit?{wrong}", auth=("root", PASSWORD)).status_code == 400
    for query, count in (("until=2000-01-01", 0), ("since=2000-01-01&action=add", 2), ("since=2100-01-01", 0)):
        assert len(browser.get(f"/admin/audit?{query}", auth=("root", PASSWORD)).text.splitlines()) == count
    token = application.services.access.create_token("root", "", role=Role.VIEWER)
    assert browser.get("/admin/audit", headers={"Authorization": f"Bearer {token}"}).status_code == 403


def test_cookies_are_for_tls_alone_where_there_is_tls(tmp_path: Path) -> None:
    application = build(tmp_path, public_url="https://example.org/data")
    browser = Browser(application, "https://example.org")
    try:
        answer = browser.sign_in()
        cookie = next(c for c in answer.headers.get_list("set-cookie") if "session=" in c)
        assert cookie.startswith("__Host-thalweg-session=")
        assert "secure" in cookie.lower()
        assert "domain" not in cookie.lower()
        assert browser.get("/account").status_code == 200
    finally:
        browser.close()
        application.close()


def test_start_page_shows_each_caller_what_it_may_see(application: app.Application, browser: Browser) -> None:
    store = application.store
    store.register_procedure(1, registration("lugano")).result(30)
    store.put_workspace(Workspace(0, "", "secret", title="Hidden basin", public=False)).result(30)
    anonymous = browser.get("/").text
    assert "1 procedure," in anonymous
    assert "Hidden basin" not in anonymous
    application.services.catalogue.set_public(store.catalogue(1), "procedure", "lugano", False).result(30)
    anonymous = browser.get("/").text
    assert "0 procedures," in anonymous
    assert "lugano" not in anonymous
    known = browser.get("/", auth=("ann", PASSWORD)).text
    assert "1 procedure," in known
    assert "Hidden basin" in known
    assert browser.get("/").text == anonymous


def test_many_passwords_at_once_hold_up_nobody_else(
    application: app.Application, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixty forms at once: each is answered, those too many with 503, and health is told meanwhile."""
    access = application.services.access
    access._passwords = Passwords(concurrency=2, wait_s=5, hasher=PasswordHasher(time_cost=2, memory_cost=8192))
    access.set_password("ann", PASSWORD)
    browser.get("/login")
    assert browser.page is not None
    found = re.search(r'name="csrf" value="([^"]+)"', browser.page.text)
    assert found is not None
    data = {"csrf": found.group(1), "name": "ann", "password": "wrong horse"}

    async def ask() -> tuple[list[int], float]:
        forms = [asyncio.ensure_future(browser.client.post("/login", data=data)) for _ in range(60)]
        await asyncio.sleep(0)
        started = time.perf_counter()
        health = await browser.client.get("/health/ready")
        waited = time.perf_counter() - started
        assert health.status_code == 200
        return [(await form).status_code for form in forms], waited

    statuses, waited = browser._runner.run(ask())
    assert set(statuses) <= {401, 429, 503}
    assert 429 in statuses
    assert waited < 2


def test_passwords_of_forms_that_wait_are_bounded(
    application: app.Application, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two are hashed, three wait, and the rest are told so at once."""
    monkeypatch.setattr(account, "MAX_WAITING", 3)
    access = application.services.access
    access._passwords = Passwords(concurrency=2, wait_s=30, hasher=PasswordHasher(time_cost=4, memory_cost=16384))
    access._throttle = Throttle(1000, 1.0)
    browser.get("/login")
    assert browser.page is not None
    found = re.search(r'name="csrf" value="([^"]+)"', browser.page.text)
    assert found is not None
    data = {"csrf": found.group(1), "name": "nobody", "password": "wrong horse"}

    async def ask() -> list[int]:
        forms = [asyncio.ensure_future(browser.client.post("/login", data=data)) for _ in range(20)]
        return [(await form).status_code for form in forms]

    statuses = browser._runner.run(ask())
    assert sorted(statuses) == [401] * 5 + [503] * 15
    # Those done, others are let in.
    assert browser._runner.run(ask()).count(401) == 5
