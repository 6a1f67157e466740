"""Event streams: administration, members, order, duplicates, closing."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from tests.store.stream_support import (
    BY_KIND,
    BY_TIME,
    append,
    make_stream,
    make_view,
    member,
    number,
    state,
    walk,
    work,
)
from tests.store.support import WAIT_S, Backend, assert_clean, default_workspace, new_uuid

from thalweg.domain.errors import AlreadyExists, DamagedData, InvalidParameter, NotFound, TooLarge
from thalweg.domain.store import Store
from thalweg.domain.streams import (
    DcatCatalogue,
    EventStream,
    GeospatialFragmentation,
    ReferenceFragmentation,
    Retention,
    SubstringFragmentation,
    View,
)

# ------------------------------------------------------------------ administration


def test_a_stream_is_listed_as_it_was_put(backend: Backend) -> None:
    store = backend.open()
    stream = EventStream(
        0, new_uuid(), default_workspace(store), "mobility-hindrances", "http://x.org/t", "http://x.org/v",
        create_versions=True, version_delimiter="/v/", skolem_domain="http://x.org", shape="_:a <http://p> _:b .\n",
        shape_class="http://x.org/C", dcat="_:a <http://p> 'ü' .", retention=Retention("P2D", 3, 17), public=False,
        title="Hindrances",
    )  # fmt: skip
    views = (
        View(0, 0, "by-page"),
        View(
            0, 0, "by-all", (GeospatialFragmentation(13), *BY_TIME, *BY_KIND, SubstringFragmentation("http://n", 2)),
            page_size=250, retention=Retention("", 2), dcat="x",
        ),
        View(0, 0, "latest", materialised=True),
    )  # fmt: skip
    made = store.put_stream(stream, views).result(WAIT_S)
    assert made == replace(stream, id=made.id, created_us=made.created_us, generation=made.generation)
    second = backend.open()
    assert second.streams(stream.workspace_id) == {"mobility-hindrances": made}
    found = second.views(made.id)
    assert [replace(v, id=0, stream_id=0, created_us=0) for v in found.values()] == list(views)
    assert list(found) == ["by-page", "by-all", "latest"]
    assert list(second.stream_ids()) == [(stream.workspace_id, made.id)]
    assert second.streams(stream.workspace_id + 1) == {}


def test_a_name_is_taken_once_and_free_again_after_deletion(store: Store) -> None:
    first = make_stream(store)
    with pytest.raises(AlreadyExists):
        make_stream(store)
    make_view(store, first, "by-page")
    with pytest.raises(AlreadyExists):
        make_view(store, first, "by-page")
    append(store, first, [member(1), member(2)])
    work(store)
    store.delete_stream(first.id).result(WAIT_S)
    second = make_stream(store)
    assert second.id != first.id
    assert store.members(second.id) == []
    assert store.views(second.id) == {}
    with pytest.raises(NotFound):
        append(store, first, [member(3)])
    with pytest.raises(NotFound):
        store.delete_stream(first.id).result(WAIT_S)
    # Known in the one that is gone, not in this one.
    assert append(store, second, [member(1)]).is_new == (True,)
    work(store)
    assert_clean(store)
    assert store.info().members == 1


def test_a_deleted_view_is_gone_at_once_and_can_be_made_again(store: Store) -> None:
    stream = make_stream(store)
    view = make_view(store, stream, "by-kind", BY_KIND)
    append(store, stream, [member(n, kinds=["a", "b"]) for n in range(10)])
    work(store)
    store.delete_view(stream.id, view.id).result(WAIT_S)
    with pytest.raises(NotFound):
        store.node(stream.id, view.id)
    with pytest.raises(NotFound):
        store.delete_view(stream.id, view.id).result(WAIT_S)
    again = make_view(store, stream, "by-kind", BY_KIND)
    assert again.id != view.id
    assert walk(store, again).everything() == set()
    work(store)
    assert walk(store, again).everything() == set(range(10))
    assert_clean(store)


@pytest.mark.parametrize(
    "view",
    [
        View(0, 0, "no/name"),
        View(0, 0, ""),
        View(0, 0, "x" * 201),
        View(0, 0, "v", page_size=0),
        View(0, 0, "v", page_size=10_001),
        View(0, 0, "v", (GeospatialFragmentation(24),)),
        View(0, 0, "v", (SubstringFragmentation("http://n", 7),)),
        View(0, 0, "v", (GeospatialFragmentation(1), GeospatialFragmentation(2))),
        View(0, 0, "v", (ReferenceFragmentation("http://n", "pageNumber"),)),
        View(0, 0, "v", (ReferenceFragmentation("http://n", "a&b"),)),
        View(0, 0, "v", (ReferenceFragmentation("no iri"),)),
        View(0, 0, "v", retention=Retention("two days")),
        View(0, 0, "v", retention=Retention(versions=-1)),
        View(0, 0, "v", BY_KIND, materialised=True),
        View(0, 0, "v", retention=Retention("P1D"), materialised=True),
    ],
    ids=str,
)
def test_a_faulty_view_is_refused_whole(store: Store, view: View) -> None:
    stream = make_stream(store)
    with pytest.raises(InvalidParameter):
        store.put_view(replace(view, stream_id=stream.id)).result(WAIT_S)
    assert store.views(stream.id) == {}
    with pytest.raises(InvalidParameter):
        make_stream(store, "other", views=[view])
    assert list(store.streams(stream.workspace_id)) == ["hindrances"]


def test_changes_of_a_description_leave_the_rest(store: Store) -> None:
    stream = make_stream(store, views=[View(0, 0, "by-page")])
    append(store, stream, [member(1)])
    changed = store.put_stream(replace(stream, shape="s", shape_class="c", dcat="d", name="other")).result(WAIT_S)
    assert (changed.name, changed.shape, changed.shape_class, changed.dcat) == ("hindrances", "s", "c", "d")
    assert changed.generation > stream.generation
    assert store.streams(stream.workspace_id)["hindrances"] == changed
    view = store.views(stream.id)["by-page"]
    assert store.put_view(replace(view, dcat="e", page_size=7)).result(WAIT_S) == replace(view, dcat="e")
    assert len(store.members(stream.id)) == 1


def test_the_catalogues_own_document(store: Store) -> None:
    workspace_id = default_workspace(store)
    assert store.dcat_catalogue(workspace_id) is None
    for text in ("one", "two"):
        store.put_dcat_catalogue(workspace_id, DcatCatalogue("id", text)).result(WAIT_S)
        assert store.dcat_catalogue(workspace_id) == DcatCatalogue("id", text)
    store.put_dcat_catalogue(workspace_id, None).result(WAIT_S)
    assert store.dcat_catalogue(workspace_id) is None
    with pytest.raises(NotFound):
        store.put_dcat_catalogue(99, None).result(WAIT_S)


# ------------------------------------------------------------------ members


def test_members_come_back_as_they_came_in_the_order_of_acknowledgement(backend: Backend) -> None:
    store = backend.open()
    stream = make_stream(store)
    sent = [member(n, name='é \\" x', padding=n * 7) for n in range(700)]
    receipts = [store.append(stream.id, [m]) for m in sent[:300]]
    assert [r.result(WAIT_S).sequences for r in receipts] == [(n + 1,) for n in range(300)]
    # From here on with a dictionary; a store that was open before goes on with what it knew.
    work(backend.open())
    assert append(backend.open(), stream, sent[300:]).sequences == tuple(range(301, 701))
    found = store.members(stream.id)
    assert [(m.iri, m.version_of, m.text, m.timestamp, m.timestamp_us) for m in found] == [
        (m.iri, m.version_of, m.text, m.timestamp, m.timestamp_us) for m in sent
    ]
    assert [m.sequence for m in found] == list(range(1, 701))
    assert [m.sequence for m in store.members(stream.id, 650, limit=20)] == list(range(651, 671))
    assert store.members(stream.id, 700) == []
    assert store.stream_state(stream.id).members == 700
    assert_clean(store)


def test_known_members_are_recognised_and_the_first_content_stays(store: Store) -> None:
    stream = make_stream(store)
    first = member(1, name="first")
    assert append(store, stream, [first]).is_new == (True,)
    mixed = append(store, stream, [member(2), member(1, name="second"), member(3), member(2, name="again")])
    assert mixed.sequences == (2, 1, 3, 2)
    assert mixed.is_new == (True, False, True, False)
    assert mixed.new == 2
    assert [m.text for m in store.members(stream.id)] == [first.text, member(2).text, member(3).text]
    found = store.member(stream.id, first.iri)
    assert found is not None
    assert found.sequence == 1
    assert store.member(stream.id, "https://example.org/none") is None
    assert_clean(store)


def test_of_a_faulty_request_nothing_is_stored(store: Store) -> None:
    stream = make_stream(store)
    for bad in (
        replace(member(2), iri=""),
        replace(member(2), iri="https://example.org/a b"),
        replace(member(2), iri="https://example.org/" + "a" * 2048),
        replace(member(2), version_of="x\ny"),
        replace(member(2), timestamp="2021\n"),
        replace(member(2), timestamp_us=1 << 62),
    ):
        with pytest.raises(InvalidParameter):
            append(store, stream, [member(1), bad])
    with pytest.raises(TooLarge):
        append(store, stream, [member(1), replace(member(2), text=bytes((4 << 20) + 1))])
    with pytest.raises(TooLarge):
        append(store, stream, [member(1)] * 10_001)
    assert store.members(stream.id) == []
    assert append(store, stream, []).new == 0
    assert store.stream_state(stream.id).sequence == 0


def test_streams_do_not_know_each_others_members(store: Store) -> None:
    first, second = make_stream(store, "first"), make_stream(store, "second")
    append(store, first, [member(1), member(2)])
    assert append(store, second, [member(2), member(3)]).is_new == (True, True)
    assert [number(m.iri) for m in store.members(first.id)] == [1, 2]
    assert [number(m.iri) for m in store.members(second.id)] == [2, 3]
    store.delete_stream(first.id).result(WAIT_S)
    work(store)
    assert [number(m.iri) for m in store.members(second.id)] == [2, 3]
    assert_clean(store)


def test_writers_at_once_get_one_order_and_no_member_twice(backend: Backend) -> None:
    stores = [backend.open() for _ in range(3)]
    stream = make_stream(stores[0])
    got: list[list[tuple[str, int, bool]]] = [[], [], []]

    def write(k: int) -> None:
        for start in range(0, 60, 3):
            sent = [member(n) for n in range(start, start + 3)]
            receipt = append(stores[k], stream, sent)
            got[k] += zip([m.iri for m in sent], receipt.sequences, receipt.is_new, strict=True)

    threads = [threading.Thread(target=write, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    stored = {m.iri: m.sequence for m in stores[0].members(stream.id)}
    assert sorted(stored.values()) == list(range(1, 61))
    assert all(stored[iri] == sequence for each in got for iri, sequence, _ in each)
    assert sum(is_new for each in got for _, _, is_new in each) == 60
    # Each writer saw its own requests answered in a rising order where they were new.
    for each in got:
        fresh = [sequence for _, sequence, is_new in each if is_new]
        assert fresh == sorted(fresh)
    assert_clean(stores[0])


def test_keys_are_settled_without_being_lost(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from thalweg.store.sqlite import stream_tending

    monkeypatch.setattr(stream_tending, "FRESH_KEYS", 50)
    monkeypatch.setattr(stream_tending, "MAX_SETTLED", 16)
    stream = make_stream(store)
    for start in range(0, 400, 100):
        append(store, stream, [member(n) for n in range(start, start + 100)])
        work(store)
        known = append(store, stream, [member(n) for n in range(start + 100)])
        assert known.new == 0
        assert known.sequences == tuple(range(1, start + 101))
    assert_clean(store)


# ------------------------------------------------------------------ closing


def test_a_closed_stream_takes_nothing_and_all_its_pages_are_fixed(store: Store) -> None:
    stream = make_stream(store)
    views = [make_view(store, stream, "by-page"), make_view(store, stream, "by-kind", BY_KIND)]
    append(store, stream, [member(n, kinds=["a" if n % 2 else "b"]) for n in range(8)])
    work(store)
    assert any(len(walk(store, v).fixed) < len(walk(store, v).pages) for v in views)
    before = store.node(stream.id, views[0].id, "", 3).version
    append(store, stream, [member(8, kinds=["b"])])
    store.put_stream(replace(stream, is_closed=True)).result(WAIT_S)
    with pytest.raises(InvalidParameter, match="closed"):
        append(store, stream, [member(9)])
    # One member is still on its way to the views: nothing is fixed before it is there.
    assert len(walk(store, views[1]).fixed) < len(walk(store, views[1]).pages)
    work(store)
    for view in views:
        found = walk(store, view)
        assert found.everything() == set(range(9))
        assert found.fixed.keys() == found.pages.keys()
    assert store.node(stream.id, views[0].id, "", 3).version != before
    with pytest.raises(InvalidParameter, match="opened again"):
        store.put_stream(stream).result(WAIT_S)
    # A view can still be added.
    late = make_view(store, stream, "late", BY_KIND)
    work(store)
    assert walk(store, late).everything() == set(range(9))
    assert len(walk(store, late).fixed) == len(walk(store, late).pages)
    assert_clean(store)


# ------------------------------------------------------------------ damage, copies, sizes


def test_a_damaged_member_is_named_and_all_else_is_served(backend: Backend) -> None:
    store = backend.open()
    stream = make_stream(store)
    view = make_view(store, stream, "by-page", page_size=5)
    append(store, stream, [member(n, padding=200) for n in range(12)])
    work(store)
    backend.close()
    backend.damage_member(stream.id, 7)
    store = backend.open()
    with pytest.raises(DamagedData, match="Member 7"):
        store.members(stream.id)
    with pytest.raises(DamagedData, match="Member 7"):
        store.node(stream.id, view.id, "", 2)
    assert len(store.node(stream.id, view.id, "", 1).members) == 5
    assert len(store.members(stream.id, 7)) == 5
    (finding,) = [f for f in store.check() if "Member 7" in f.problem]
    assert "hindrances" in finding.place
    # A view that needs its content waits; the others go on.
    waiting = make_view(store, stream, "by-kind", BY_KIND)
    plain = make_view(store, stream, "again")
    work(store)
    assert state(store, waiting).position == 0
    assert state(store, plain).position == 12


def test_a_copy_holds_the_streams(backend: Backend) -> None:
    store = backend.open()
    stream = make_stream(store)
    view = make_view(store, stream, "by-kind", BY_KIND)
    append(store, stream, [member(n, kinds=["a"]) for n in range(10)])
    work(store)
    target = backend.beside("copy")
    store.backup(target)
    copy = backend.open_at(backend.url_of(target))
    assert walk(copy, view).pages == walk(store, view).pages
    assert copy.members(stream.id) == store.members(stream.id)
    assert_clean(copy)
    info = store.info()
    assert (info.event_streams, info.members, info.views) == (1, 10, 1)
    assert info.bytes_per_part["members"] == store.stream_state(stream.id).size_bytes
