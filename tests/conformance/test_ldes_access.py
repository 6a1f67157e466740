"""Who may see and change which event stream, what caches may keep, and what the audit log has of it.

What every kind of caller gets from every operation is in ``test_policy.py``; here are the cases beyond its table.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conformance.ldes_support import (
    ADMIN,
    BY_TIME,
    NOBODY,
    PAGED,
    STREAM,
    WRITER,
    Ldes,
    member,
    view_document,
)

from thalweg.domain.access import ANONYMOUS, Actor, AuditQuery, Grant, Principal, Role, Scope, User
from thalweg.domain.catalogue import Workspace
from thalweg.domain.errors import InvalidParameter, NotFound
from thalweg.doors.http import Deferred, Request
from thalweg.services import followers
from thalweg.settings import Settings

PAGE = "hindrances/pages?pageNumber=1"
STREAMS = "eventstreams/hindrances"


@pytest.fixture
def ldes(tmp_path: Path) -> Iterator[Ldes]:
    made = Ldes(tmp_path)
    made.create(("pages", PAGED, 10))
    made.ingest(member(1))
    made.settle()
    yield made
    made.close()


def hide(ldes: Ldes, name: str = "hindrances", *, public: bool = False) -> int:
    """Close a stream of the default workspace; its id."""
    catalogues = ldes.services.catalogue
    return int(catalogues.set_public(catalogues.of(), "stream", name, public).result(30).id)


def holder(role: Role, stream_id: int, kind: str = "stream") -> Principal:
    """Somebody who holds a role for one dataset alone."""
    return Principal("bob", Role.NOTHING, Role.VIEWER, {Scope(1, kind, stream_id): role})


# ---------------------------------------------------------------- roles


def test_a_role_for_one_stream_counts_for_that_alone(ldes: Ldes) -> None:
    ldes.create(stream=STREAM.replace("hindrances", "floods"))
    hide(ldes, "floods")
    bob = holder(Role.DATA_MANAGER, hide(ldes))
    assert ldes.ask("POST", "hindrances", member(2), principal=bob).status == 201
    assert ldes.get(PAGE, principal=bob).status == 200
    assert ldes.ask("POST", "floods", member(2), principal=bob).status == 404
    assert ldes.get("floods", principal=bob).status == 404
    listed = ldes.admin("GET", "eventstreams", principal=bob).text
    assert "hindrances" in listed
    assert "floods" not in listed
    # Inserting is not administering.
    assert ldes.admin("DELETE", STREAMS, principal=bob).status == 403
    assert ldes.admin("POST", "eventstreams", STREAM.replace("hindrances", "more"), principal=bob).status == 403
    # Nor does the same number of another kind of dataset do.
    stranger = holder(Role.ADMIN, hide(ldes), kind="procedure")
    assert ldes.get("hindrances", principal=stranger).status == 404


def test_manager_of_one_stream_administers_it_and_makes_no_other(ldes: Ldes) -> None:
    boss = holder(Role.NETWORK_MANAGER, hide(ldes))
    by_time = view_document("by-time", BY_TIME, 10)
    assert ldes.admin("POST", f"{STREAMS}/views", by_time, principal=boss).status == 201
    other = STREAM.replace("hindrances", "floods")
    assert ldes.admin("POST", "eventstreams", other, principal=boss).status == 403
    assert ldes.admin("POST", "dcat", "[] a dcat:Catalog .", principal=boss).status == 403
    assert ldes.admin("DELETE", STREAMS, principal=boss).status == 200
    # Of what is not there it is not told whether it was.
    assert ldes.admin("DELETE", STREAMS, principal=boss).status == 404
    assert ldes.admin("DELETE", f"{STREAMS}/dcat", principal=boss).status == 403


def test_what_everybody_is_granted_on_a_private_stream_counts(ldes: Ldes) -> None:
    scope = Scope(1, "stream", hide(ldes))
    assert ldes.get(PAGE).status == 404
    assert ldes.ask("POST", "hindrances", member(2), principal=NOBODY).status == 401
    ldes.store.put_grant(Grant(ANONYMOUS, scope, Role.DATA_MANAGER)).result(30)
    # Also on a server that is closed otherwise.
    for caller in (NOBODY, Principal("", Role.VIEWER)):
        assert ldes.get(PAGE, principal=caller).status == 200
    assert ldes.ask("POST", "hindrances", member(2), principal=NOBODY).status == 201
    assert ldes.admin("DELETE", STREAMS, principal=NOBODY).status == 401
    ldes.store.delete_grant(ANONYMOUS, scope).result(30)
    assert ldes.get(PAGE).status == 404


def test_streams_of_a_private_workspace_are_for_its_users_alone(ldes: Ldes) -> None:
    closed = ldes.store.put_workspace(Workspace(0, "", "closed", public=False)).result(30)
    stream = ldes.services.streams.streams(1)["hindrances"]
    ldes.services.streams.create_stream(replace(stream, workspace_id=closed.id))
    inside = Principal("ivy", Role.NOTHING, Role.VIEWER, {Scope(closed.id): Role.VIEWER})

    def get(principal: Principal, workspace: str) -> tuple[int, str, str]:
        base = f"http://x.org/{workspace}/ldes"
        answer = ldes.handle(Request("GET", "hindrances", b"", (), b"", workspace, base, principal))
        return answer.status, answer.text, answer.header("Cache-Control")

    status, _, caching = get(inside, "closed")
    assert (status, caching) == (200, "private,max-age=60")
    for caller in (Principal("", Role.VIEWER), NOBODY, holder(Role.ADMIN, 1)):
        said = get(caller, "closed")
        assert said[0] in (401, 403, 404)
        assert said[1].replace("closed", "nowhere") == get(caller, "nowhere")[1]


def test_a_role_goes_with_the_stream_it_was_held_for(ldes: Ldes) -> None:
    store = ldes.store
    store.put_user(User("bob", Role.NOTHING, "$argon2id$x", 1)).result(30)
    scope = Scope(1, "stream", hide(ldes))
    for principal in ("bob", ANONYMOUS):
        store.put_grant(Grant(principal, scope, Role.VIEWER)).result(30)
    for unknown in (scope._replace(id=99), Scope(999, "stream", scope.id)):
        with pytest.raises(NotFound):
            store.put_grant(Grant("bob", unknown, Role.VIEWER)).result(30)
    generation = store.access_generation()
    assert ldes.admin("DELETE", STREAMS).status == 200
    assert store.grants() == []
    assert store.access_generation() > generation
    # One of the same name is another one.
    ldes.create()
    assert hide(ldes) != scope.id
    assert ldes.get("hindrances", principal=holder(Role.ADMIN, scope.id)).status == 404


# ---------------------------------------------------------------- what is told, and kept


def test_documents_and_validators_do_not_change_with_private_streams(ldes: Ldes) -> None:
    paths = ("", "hindrances", PAGE, "admin/api/v1/eventstreams", "admin/api/v1/dcat", "actuator/prometheus")

    def seen() -> list[tuple[int, str, str]]:
        answers = [ldes.get(path) for path in paths]
        return [(answer.status, answer.etag, answer.text) for answer in answers]

    before = seen()
    ldes.create(stream=STREAM.replace("hindrances", "floods"))
    assert seen() != before
    hide(ldes, "floods")
    assert ldes.ask("POST", "floods", member(5)).status == 201
    assert seen() == before


def test_shared_caches_keep_only_what_everybody_may_read(tmp_path: Path) -> None:
    closed = Ldes(tmp_path, Settings(anonymous_role=Role.NOTHING))
    closed.create(("pages", PAGED, 1))
    closed.ingest(member(1), member(2))
    closed.settle()
    paths = ("", "hindrances", "hindrances/pages", PAGE, "hindrances/pages/description")
    for path in paths:
        answer = closed.get(path, principal=WRITER)
        assert answer.header("Cache-Control").startswith("private,max-age="), path
        assert answer.header("Vary") == "Accept, Authorization, Cookie", path
    # Opened to everybody, though the server is closed.
    scope = Scope(1, "stream", closed.services.streams.streams(1)["hindrances"].id)
    closed.store.put_grant(Grant(ANONYMOUS, scope, Role.VIEWER)).result(30)
    for path in paths[1:]:
        answer = closed.get(path, principal=WRITER)
        assert answer.header("Cache-Control").startswith("public,max-age="), path
        assert answer.header("Vary") == "Accept", path
    # The list is of what the caller may read: no other's is to be given out for it.
    assert closed.get("", principal=NOBODY).header("Cache-Control").startswith("public,")
    assert closed.get("", principal=WRITER).header("Cache-Control").startswith("private,")
    assert closed.get("", principal=NOBODY).header("Vary") == "Accept, Authorization, Cookie"
    closed.close()


def test_validator_of_a_hidden_page_is_no_way_in(ldes: Ldes) -> None:
    etag = ldes.get(PAGE).etag
    hide(ldes)
    answer = ldes.get(PAGE, headers=[(b"if-none-match", etag.encode())])
    assert (answer.status, answer.etag) == (404, "")


def test_follower_is_let_go_when_the_stream_is_hidden(ldes: Ldes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followers, "LOOK_S", 0.01)
    headers = [(b"accept", b"text/event-stream")]
    request = Request("GET", "hindrances", b"", tuple(headers), b"", "default", "http://x.org/ldes", ADMIN)
    waiting = []
    for principal in (Principal("", Role.VIEWER), ADMIN):
        deferred = ldes.door.handle(replace(request, principal=principal), ldes.services)
        assert isinstance(deferred, Deferred)
        waiting.append(deferred)
    hide(ldes)
    threading.Timer(0.05, ldes.ingest, [member(7)]).start()
    hidden, shown = waiting
    hidden.future.result(10)
    with pytest.raises(NotFound):
        hidden.finish(None)
    shown.future.result(10)
    body = shown.finish(None).body
    assert isinstance(body, bytes)
    assert b"example.org/m7" in body


# ---------------------------------------------------------------- the audit log


def test_changes_of_streams_leave_a_line_with_who_did_it(ldes: Ldes) -> None:
    def log(method: str, path: str, body: str = "") -> list[tuple[str, str, str]]:
        """What a request adds: action, object, detail."""
        newest = ldes.store.audit(AuditQuery(limit=1))[0]
        assert ldes.admin(method, path, body).status in (200, 201)
        added = []
        for entry in ldes.store.audit(AuditQuery()):
            if (entry.at_us, entry.number) == (newest.at_us, newest.number):
                break
            assert entry.actor.name == "ada"
            assert (entry.actor.request, entry.actor.door) == ("r-1", "ldes")
            assert entry.workspace_id == 1
            operations.append(entry.actor.operation)
            added.append((entry.action, entry.object, entry.detail))
        return added

    operations: list[str] = []
    views = f"{STREAMS}/views"
    ((action, what, detail),) = log("POST", views, view_document("by-time", BY_TIME, 50))
    assert (action, what, detail) == ("add view", "hindrances/by-time", "TimeFragmentation; pages of 50")
    shape = "[] a sh:NodeShape ; sh:targetClass ex:Other ."
    ((action, what, detail),) = log("PUT", f"{STREAMS}/shape", shape)
    assert (action, what) == ("change event stream", "hindrances")
    assert "shape_class: 'http://example.org/Hindrance' -> 'http://example.org/Other'" in detail
    policy = "[] a ldes:EventSource ; ldes:retentionPolicy [ a ldes:LatestVersionSubset ; ldes:amount 2 ] ."
    ((action, what, detail),) = log("PUT", f"{STREAMS}/eventsource", policy)
    assert (action, what) == ("change event stream", "hindrances")
    assert "versions=0" in detail
    assert "versions=2" in detail
    ((action, what, detail),) = log("POST", f"{STREAMS}/dcat", '[] a dcat:Dataset ; dct:title "A"@en .')
    assert action == "change event stream"
    assert detail.startswith("dcat: ")
    ((action, what, detail),) = log("POST", f"{views}/pages/dcat", '[] a dcat:DataService ; dct:title "B"@en .')
    assert (action, what) == ("change view", "hindrances/pages")
    assert log("DELETE", f"{views}/by-time") == [("delete view", "hindrances/by-time", "")]
    assert log("DELETE", f"{views}/never-there") == []
    assert log("POST", f"{STREAMS}/close") == [("close event stream", "hindrances", "is_closed: False -> True")]
    ((action, what, detail),) = log("POST", "dcat", '[] a dcat:Catalog ; dct:title "C"@en .')
    assert (action, what) == ("change DCAT catalogue", "default")
    assert log("DELETE", f"dcat/{detail}") == [("delete DCAT catalogue", "default", "")]
    assert log("DELETE", STREAMS) == [("delete event stream", "hindrances", "with its members")]
    assert log("POST", "eventstreams", STREAM) == [("add event stream", "hindrances", "")]
    assert operations == [
        "CreateView", "ReplaceShape", "ReplaceEventSource", "CreateStreamDcat", "CreateViewDcat", "DeleteView",
        "CloseEventStream", "CreateCatalogue", "DeleteCatalogue", "DeleteEventStream", "CreateEventStream",
    ]  # fmt: skip


def test_plain_members_and_refused_changes_leave_no_line(ldes: Ldes) -> None:
    before = ldes.store.audit(AuditQuery())
    assert ldes.ingest(member(2), member(2)) == [201, 200]
    assert ldes.admin("POST", "eventstreams", STREAM).status == 400
    assert ldes.admin("DELETE", "eventstreams/nothing").status == 404
    assert ldes.admin("DELETE", STREAMS, principal=WRITER).status == 403
    ldes.settle()
    assert ldes.store.audit(AuditQuery()) == before


def test_opening_and_closing_to_the_public_leaves_a_line(ldes: Ldes) -> None:
    catalogues = ldes.services.catalogue
    by = Actor("system:op", door="command", operation="dataset set")
    catalogues.set_public(catalogues.of(), "stream", "hindrances", False, by=by).result(30)
    line = ldes.store.audit(AuditQuery(limit=1))[0]
    assert (line.actor, line.action, line.object) == (by, "change event stream", "hindrances")
    assert line.detail == "public: True -> False"
    with pytest.raises(NotFound):
        catalogues.set_public(catalogues.of(), "stream", "nothing", False)
    with pytest.raises(InvalidParameter):
        catalogues.set_public(catalogues.of(), "river", "hindrances", False)
