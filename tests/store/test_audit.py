"""Who may see what, who holds which role, and who changed what: kept with the change itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.store.stream_support import append, make_stream, make_view, member
from tests.store.support import (
    STEP,
    T0,
    WAIT_S,
    Backend,
    block,
    default_workspace,
    insert,
    insertion,
    register,
)

from thalweg.domain.access import (
    ANONYMOUS,
    Actor,
    AuditEntry,
    AuditQuery,
    Grant,
    Role,
    Scope,
    Session,
    Token,
    User,
)
from thalweg.domain.catalogue import Offering, Unit, Workspace
from thalweg.domain.errors import AlreadyExists, InvalidParameter, NotFound
from thalweg.domain.observations import OnDuplicate
from thalweg.domain.store import Store
from thalweg.domain.time import Interval

ANNA = User("anna", Role.NOTHING, "$argon2id$secret-hash", T0)
BY = Actor("anna", "192.0.2.7", "r-1", "sos", "InsertObservation")


def log(store: Store, query: AuditQuery | None = None) -> list[tuple[str, str, str]]:
    """(actor, action, object), oldest first."""
    return [(e.actor.name, e.action, e.object) for e in reversed(store.audit(query or AuditQuery()))]


# ---------------------------------------------------------------- grants


def test_grants_are_made_replaced_listed_and_taken_away(store: Store) -> None:
    workspace_id = default_workspace(store)
    store.put_user(ANNA).result(WAIT_S)
    station = register(store)
    whole, one = Scope(workspace_id), Scope(workspace_id, "procedure", station.procedure.id)
    for scope, role in ((whole, Role.VIEWER), (one, Role.ADMIN), (whole, Role.DATA_MANAGER)):
        store.put_grant(Grant("anna", scope, role)).result(WAIT_S)
    store.put_grant(Grant(ANONYMOUS, one, Role.VIEWER)).result(WAIT_S)
    store.put_grant(Grant("oidc:bob", whole, Role.VIEWER)).result(WAIT_S)
    assert {(g.scope, g.role) for g in store.grants("anna")} == {(whole, Role.DATA_MANAGER), (one, Role.ADMIN)}
    assert len(store.grants()) == 4
    store.delete_grant("anna", whole).result(WAIT_S)
    assert [g.scope for g in store.grants("anna")] == [one]
    with pytest.raises(NotFound):
        store.delete_grant("anna", whole).result(WAIT_S)
    for grant in (
        Grant("nobody", whole, Role.VIEWER),
        Grant("anna", Scope(999), Role.VIEWER),
        Grant("anna", Scope(workspace_id, "procedure", 999), Role.VIEWER),
        Grant("anna", Scope(workspace_id, "offering", 999), Role.VIEWER),
    ):
        with pytest.raises(NotFound):
            store.put_grant(grant).result(WAIT_S)
    with pytest.raises(InvalidParameter):
        store.put_grant(Grant("anna", Scope(workspace_id, "planet", 1), Role.VIEWER)).result(WAIT_S)
    store.delete_user("anna").result(WAIT_S)
    assert store.grants("anna") == []
    store.delete_procedure(workspace_id, station.procedure.id).result(WAIT_S)
    assert [g.principal for g in store.grants()] == ["oidc:bob"]


def test_grants_of_everybody_are_part_of_the_catalogue_and_others_of_accounts(backend: Backend) -> None:
    one, two = backend.open(), backend.open()
    workspace_id = default_workspace(one)
    one.put_user(ANNA).result(WAIT_S)
    before = two.catalogue(workspace_id), two.access_generation()
    one.put_grant(Grant("anna", Scope(workspace_id), Role.VIEWER)).result(WAIT_S)
    assert two.access_generation() > before[1]
    assert two.catalogue(workspace_id) is before[0]
    assert not two.catalogue(workspace_id).guests
    generation = two.access_generation()
    one.put_grant(Grant(ANONYMOUS, Scope(workspace_id), Role.VIEWER)).result(WAIT_S)
    assert two.access_generation() == generation
    assert dict(two.catalogue(workspace_id).guests) == {Scope(workspace_id): Role.VIEWER}
    one.delete_grant(ANONYMOUS, Scope(workspace_id)).result(WAIT_S)
    assert not two.catalogue(workspace_id).guests


# ---------------------------------------------------------------- visibility


def test_visibility_is_kept_with_the_things_and_seen_by_all(backend: Backend) -> None:
    store, other = backend.open(), backend.open()
    workspace = store.workspaces()["default"]
    station = register(store)
    assert other.catalogue(workspace.id).is_open
    store.update_procedure(workspace.id, replace(station.procedure, public=False)).result(WAIT_S)
    assert not other.catalogue(workspace.id).procedures[station.procedure.id].public
    assert not other.catalogue(workspace.id).is_open
    made = store.put_offering(workspace.id, Offering(0, "", "urn:x:net", "net", public=False)).result(WAIT_S)
    store.put_workspace(Workspace(0, "", "closed", public=False)).result(WAIT_S)
    backend.close()
    store = backend.open()
    found = store.catalogue(workspace.id)
    assert (found.offerings[made.id].public, found.procedures[station.procedure.id].public) == (False, False)
    assert not store.workspaces()["closed"].public
    assert store.workspaces()["default"].public


def test_what_a_private_procedure_alone_had_goes_with_it(backend: Backend) -> None:
    store, other = backend.open(), backend.open()
    workspace_id = default_workspace(store)
    shown = register(store)
    hidden = register(store, "HIDDEN")
    store.update_procedure(workspace_id, replace(hidden.procedure, public=False)).result(WAIT_S)
    before = other.catalogue(workspace_id)
    alone = set(hidden.features) - set(shown.features)
    assert alone
    store.delete_procedure(workspace_id, hidden.procedure.id).result(WAIT_S)
    after = other.catalogue(workspace_id)
    assert set(before.features) - set(after.features) == alone
    # What others have, too, stays; and all that a public procedure had.
    assert {s.property_id for s in shown.procedure.series} <= set(after.properties)
    store.delete_procedure(workspace_id, shown.procedure.id).result(WAIT_S)
    assert set(other.catalogue(workspace_id).features) == set(after.features)


# ---------------------------------------------------------------- tokens and sessions


def test_tokens_keep_their_limits_and_when_they_were_used(store: Store) -> None:
    store.put_user(ANNA).result(WAIT_S)
    workspace_id = default_workspace(store)
    token = Token("ab" * 32, "anna", "logger", T0, None, Role.DATA_MANAGER, workspace_id)
    store.put_token(token).result(WAIT_S)
    assert store.token(token.digest) == token
    generation = store.access_generation()
    store.note_uses({token.digest: T0 + 9, "no such digest": T0}, {}).result(WAIT_S)
    store.note_uses({token.digest: T0 + 5}, {}).result(WAIT_S)
    assert store.tokens() == [replace(token, used_us=T0 + 9)]
    assert store.access_generation() == generation
    store.delete_token(token.digest).result(WAIT_S)
    store.put_token(token).result(WAIT_S)
    assert store.token(token.digest) == token


def test_a_hash_is_renewed_where_the_password_is_still_the_same(store: Store) -> None:
    store.put_user(User("ann", Role.VIEWER, "old", 5)).result(WAIT_S)
    generation = store.access_generation()
    store.renew_password_hash("ann", "old", "new").result(WAIT_S)
    assert store.user("ann") == User("ann", Role.VIEWER, "new", 5)
    assert store.access_generation() == generation
    newest = store.audit(AuditQuery(limit=1))[0]
    assert (newest.action, newest.detail) == ("change user", "hash of the password renewed")
    # A password that was changed meanwhile, and a user that is gone, stay as they are.
    store.renew_password_hash("ann", "old", "other").result(WAIT_S)
    store.renew_password_hash("bob", "old", "other").result(WAIT_S)
    assert [(user.name, user.password_hash) for user in store.users()] == [("ann", "new")]
    assert store.audit(AuditQuery(limit=1))[0] == newest


def test_sessions_are_made_used_bounded_and_ended(store: Store) -> None:
    store.put_user(ANNA).result(WAIT_S)
    later = 4_000_000_000_000_000
    first = Session("s0", "anna", T0, later, T0)
    store.put_session(first).result(WAIT_S)
    assert store.session("s0") == first
    with pytest.raises(NotFound):
        store.put_session(replace(first, digest="x", user="nobody")).result(WAIT_S)
    generation = store.access_generation()
    store.note_uses({}, {"s0": T0 + 50}).result(WAIT_S)
    assert store.session("s0") == replace(first, seen_us=T0 + 50)
    assert store.access_generation() == generation
    # One that has ended goes when another begins, and of many that which was not used for longest.
    store.put_session(Session("old", "anna", T0, T0 + 1, T0)).result(WAIT_S)
    for number in range(1, 21):
        store.put_session(Session(f"s{number}", "anna", T0, later, T0 + 100 + number)).result(WAIT_S)
    assert store.session("old") is None
    assert store.session("s0") is None
    assert store.session("s1") is not None
    assert store.access_generation() > generation
    store.delete_session("s1").result(WAIT_S)
    store.delete_session("s1").result(WAIT_S)
    assert store.session("s1") is None
    store.delete_sessions("anna", but="s2").result(WAIT_S)
    assert (store.session("s2") is not None, store.session("s3")) == (True, None)
    store.delete_user("anna").result(WAIT_S)
    assert store.session("s2") is None


# ---------------------------------------------------------------- audit


def test_metadata_changes_are_logged_with_who_and_what(store: Store) -> None:
    workspace_id = default_workspace(store)
    workspace = store.workspaces()["default"]
    store.put_workspace(replace(workspace, title="Rivers"), by=BY).result(WAIT_S)
    unit = store.put_unit(workspace_id, Unit(0, "furlong"), by=BY).result(WAIT_S)
    store.put_unit(workspace_id, replace(unit, description="220 yards"), by=BY).result(WAIT_S)
    station = register(store)
    procedure = station.procedure
    store.update_procedure(workspace_id, replace(procedure, title="Weir"), by=BY).result(WAIT_S)
    offering = store.put_offering(workspace_id, Offering(0, "", "urn:x:n", "n"), by=BY).result(WAIT_S)
    store.delete_offering(workspace_id, offering.id, by=BY).result(WAIT_S)
    store.delete_procedure(workspace_id, procedure.id, by=BY).result(WAIT_S)
    entries = store.audit(AuditQuery(user="anna"))[::-1]
    assert [(e.action, e.object) for e in entries] == [
        ("change workspace", "default"),
        ("add unit", "furlong"),
        ("change unit", "furlong"),
        ("change procedure", procedure.identifier),
        ("add offering", "urn:x:n"),
        ("delete offering", "urn:x:n"),
        ("delete procedure", procedure.identifier),
    ]
    assert all(e.actor == BY and e.workspace_id == workspace_id for e in entries)
    assert "title: '' -> 'Rivers'" in entries[0].detail
    assert entries[2].detail == "description: '' -> '220 yards'"
    assert entries[3].detail == "title: '' -> 'Weir'"
    assert [e.at_us for e in entries] == sorted(e.at_us for e in entries)


def test_what_was_refused_is_not_logged(store: Store) -> None:
    workspace_id = default_workspace(store)
    store.put_unit(workspace_id, Unit(0, "furlong"), by=BY).result(WAIT_S)
    with pytest.raises(AlreadyExists):
        store.put_unit(workspace_id, Unit(0, "furlong"), by=BY).result(WAIT_S)
    with pytest.raises(NotFound):
        store.delete_procedure(workspace_id, 99, by=BY).result(WAIT_S)
    assert log(store) == [("anna", "add unit", "furlong")]


def test_plain_inserts_are_not_logged_but_corrections_flags_and_deletions_are(store: Store) -> None:
    station = register(store)
    a = station.ids[0]
    name = station.procedure.identifier
    workspace_id = station.workspace_id
    before = len(store.audit(AuditQuery()))

    def put(rows: object, **options: object) -> None:
        made = insertion(station, rows, **options)  # type: ignore[arg-type]
        store.insert(workspace_id, [made], by=BY).result(WAIT_S)

    put(block([T0, T0 + STEP, T0 + 3 * STEP], {a: [1.0, 2.0, 4.0]}))
    put(block([T0 + 2 * STEP], {a: [3.0]}))  # late
    put(block([T0], {a: [1.0]}), on_duplicate=OnDuplicate.REPLACE)  # the same
    put(block([T0], {a: [7.0]}), on_duplicate=OnDuplicate.SKIP)
    assert len(store.audit(AuditQuery())) == before
    put(block([T0], {a: [7.0]}), on_duplicate=OnDuplicate.REPLACE)
    put(block([T0], {a: [7.0]}, quality=200), on_duplicate=OnDuplicate.REPLACE)  # a flag alone
    put(block([T0 + STEP], {a: [9.0]}), replace=Interval(T0 + STEP, T0 + 3 * STEP))
    store.delete(station.track, Interval(T0 + 3 * STEP, T0 + 4 * STEP), by=BY).result(WAIT_S)
    store.delete(station.track, Interval(T0 + 9 * STEP, T0 + 10 * STEP), by=BY).result(WAIT_S)  # nothing there
    store.load(workspace_id, insertion(station, block([T0], {a: [8.0]}), on_duplicate=OnDuplicate.REPLACE), by="loader")
    made = store.audit(AuditQuery(limit=5))[::-1]
    assert [(e.actor.name, e.action, e.object) for e in made] == [
        ("anna", "correct observations", name),
        ("anna", "correct observations", name),
        ("anna", "delete observations", name),
        ("anna", "delete observations", name),
        ("loader", "correct observations", name),
    ]
    assert made[0].detail.startswith("1 values, ")
    assert made[2].detail == "2 rows replaced by an insert of 1"
    assert made[3].detail.startswith("1 values from ")
    assert len(store.audit(AuditQuery())) == before + 5


def test_accounts_tokens_and_roles_are_logged_without_secrets(store: Store) -> None:
    workspace_id = default_workspace(store)
    boss = Actor("root", door="command", operation="user add")
    store.put_user(ANNA, by=boss).result(WAIT_S)
    store.put_user(replace(ANNA, role=Role.VIEWER), by=boss).result(WAIT_S)
    store.put_user(replace(ANNA, password_hash="$argon2id$other-hash"), by=boss).result(WAIT_S)
    token = Token("ab" * 32, "anna", "logger", T0, None, Role.VIEWER)
    store.put_token(token, by=boss).result(WAIT_S)
    store.delete_token(token.digest, by=boss).result(WAIT_S)
    scope = Scope(workspace_id)
    store.put_grant(Grant("anna", scope, Role.VIEWER), by=boss).result(WAIT_S)
    store.put_grant(Grant("anna", scope, Role.ADMIN), by=boss).result(WAIT_S)
    store.delete_grant("anna", scope, by=boss).result(WAIT_S)
    store.put_session(Session("cd" * 32, "anna", T0, 2 * T0, T0), by=boss).result(WAIT_S)
    store.delete_session("cd" * 32, by=boss).result(WAIT_S)
    store.delete_user("anna", by=boss).result(WAIT_S)
    entries = store.audit(AuditQuery())[::-1]
    assert [(e.action, e.object, e.detail) for e in entries] == [
        ("add user", "anna", "role: none"),
        ("change user", "anna", "role: none -> viewer"),
        ("change user", "anna", "role: viewer -> none; password"),
        ("create token", "anna/abababababab", "at most viewer; label: logger"),
        ("revoke token", "anna/abababababab", "label: logger"),
        ("grant role", "anna", "viewer on the workspace default"),
        ("grant role", "anna", "viewer -> admin on the workspace default"),
        ("revoke role", "anna", "admin on the workspace"),
        ("sign in", "anna", ""),
        ("sign out", "anna", ""),
        ("delete user", "anna", ""),
    ]
    whole = repr(entries)
    assert "argon2id" not in whole
    assert "ab" * 32 not in whole
    assert "cd" * 32 not in whole


def test_log_is_filtered_paged_and_bounded(store: Store) -> None:
    entries = [
        AuditEntry(T0 + n // 2, 0, Actor(f"user{n % 2}"), f"sign in{' failed' * (n % 3 == 0)}", f"50%_{n}")
        for n in range(10)
    ]
    store.append_audit(entries).result(WAIT_S)
    assert [(e.at_us, e.number) for e in store.audit(AuditQuery(limit=3))] == [(T0 + 4, 2), (T0 + 4, 1), (T0 + 3, 2)]
    page = store.audit(AuditQuery(limit=4))
    rest = store.audit(AuditQuery(before=(page[-1].at_us, page[-1].number)))
    assert len(page + rest) == len({e.object for e in page + rest}) == 10
    assert {e.object for e in store.audit(AuditQuery(user="user1"))} == {f"50%_{n}" for n in (1, 3, 5, 7, 9)}
    assert {e.object for e in store.audit(AuditQuery(action="sign in f"))} == {f"50%_{n}" for n in (0, 3, 6, 9)}
    assert [e.object for e in store.audit(AuditQuery(object="0%_7"))] == ["50%_7"]
    assert store.audit(AuditQuery(object="0x_7")) == store.audit(AuditQuery(object="' OR 1=1 --")) == []
    assert len(store.audit(AuditQuery(since_us=T0 + 1, until_us=T0 + 3))) == 4
    assert store.delete_audit(T0 + 3, limit=4).result(WAIT_S) == 4
    assert store.delete_audit(T0 + 3, limit=4).result(WAIT_S) == 2
    assert store.delete_audit(T0 + 3, limit=4).result(WAIT_S) == 0
    assert [e.at_us for e in store.audit(AuditQuery())][::-1] == [T0 + 3, T0 + 3, T0 + 4, T0 + 4]


def test_hostile_and_endless_texts_are_kept_whole_or_cut(store: Store) -> None:
    hostile = "'; DROP TABLE audit; --\x1b[2J\r\n" + "é" * 5000
    store.append_audit([AuditEntry(T0, 0, Actor("x" * 9000, "a" * 900), "sign in failed", hostile, 0, hostile)]).result(
        WAIT_S
    )
    (entry,) = store.audit(AuditQuery())
    assert entry.object.startswith("'; DROP TABLE audit; --\x1b[2J\r\n")
    assert max(map(len, (entry.object, entry.actor.name, entry.actor.address))) <= 300
    assert len(entry.detail) == 1000


def test_log_goes_with_a_back_up_and_survives(backend: Backend) -> None:
    store = backend.open()
    store.put_user(ANNA, by="root").result(WAIT_S)
    target = backend.beside("copy.sqlite")
    store.backup(target)
    copied = backend.open_at(backend.url_of(target))
    assert log(copied) == [("root", "add user", "anna")]
    assert copied.users() == [ANNA]


def test_store_that_works_has_no_problems_and_counts_itself(store: Store) -> None:
    station = register(store)
    insert(store, station, block([T0, T0 + STEP], {station.ids[0]: [1.0, 2.0]}))
    assert store.problems() == []
    figures = store.figures()
    assert (figures.procedures, figures.rows, figures.tail_rows) == (1, 2, 2)
    assert figures.tracks >= 1
    assert figures.size_bytes > 0
    assert figures.free_bytes > 0
    store.close()
    assert store.problems() != []


def test_streams_are_audited_in_the_transaction_of_the_change_and_take_their_roles_along(store: Store) -> None:
    workspace_id = default_workspace(store)
    store.put_user(ANNA).result(WAIT_S)
    stream, other = make_stream(store, "floods"), make_stream(store, "works")
    for kind, number in (("stream", stream.id), ("stream", other.id)):
        store.put_grant(Grant("anna", Scope(workspace_id, kind, number), Role.VIEWER)).result(WAIT_S)
    with pytest.raises(NotFound):
        store.put_grant(Grant("anna", Scope(workspace_id, "stream", 999), Role.VIEWER)).result(WAIT_S)
    view = make_view(store, stream, "pages")
    before = len(store.audit(AuditQuery()))
    append(store, stream, [member(1)])
    for refused in (
        lambda: store.put_stream(replace(stream, id=0, uuid="u"), by=BY),
        lambda: store.put_view(replace(view, id=0), by=BY),
        lambda: store.delete_view(stream.id, 999, by=BY),
        lambda: store.delete_stream(999, by=BY),
    ):
        with pytest.raises((AlreadyExists, NotFound)):
            refused().result(WAIT_S)
    assert len(store.audit(AuditQuery())) == before
    store.put_stream(replace(stream, public=False, is_closed=True), by=BY).result(WAIT_S)
    store.delete_view(stream.id, view.id, by=BY).result(WAIT_S)
    store.delete_stream(stream.id, by=BY).result(WAIT_S)
    assert [(e.actor, e.action, e.object, e.workspace_id, e.detail) for e in store.audit(AuditQuery(limit=3))] == [
        (BY, "delete event stream", "floods", workspace_id, "with its members"),
        (BY, "delete view", "floods/pages", workspace_id, ""),
        (BY, "close event stream", "floods", workspace_id, "is_closed: False -> True; public: True -> False"),
    ]
    assert [g.scope.id for g in store.grants("anna")] == [other.id]
