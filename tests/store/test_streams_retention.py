"""Retention: who goes, when; closed pages never change, and no page that stays leads to one that has gone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.store.stream_support import (
    BY_KIND,
    BY_TIME,
    Walk,
    append,
    make_stream,
    make_view,
    member,
    state,
    us,
    walk,
    work,
)
from tests.store.support import WAIT_S, Backend, assert_clean

from thalweg.domain.errors import NotFound
from thalweg.domain.store import Store
from thalweg.domain.streams import EventStream, Gone, Member, Retention, View
from thalweg.domain.time import DAY_US

NOW = us("2021-02-01T00:00:00Z")


def on(day: int, n: int, **fields: object) -> Member:
    """Member n of a day in January 2021."""
    return member(n, at=f"2021-01-{day:02d}T12:00:00Z", **fields)  # type: ignore[arg-type]


def test_members_leave_when_they_are_older_than_the_duration(store: Store) -> None:
    stream = make_stream(store)
    view = make_view(store, stream, "v", retention=Retention("P10D"), page_size=4)
    append(store, stream, [on(n, n) for n in range(1, 32)])
    work(store, now_us=NOW)
    # 22 January, noon, is ten days before 1 February but for twelve hours.
    assert walk(store, view).everything() == set(range(22, 32)) | page_mates(21)
    assert state(store, view).members == 10
    for page in range(1, 6):
        with pytest.raises(Gone):
            store.node(stream.id, view.id, "", page)
    with pytest.raises(NotFound) as error:
        store.node(stream.id, view.id, "", 99)
    assert not isinstance(error.value, Gone)
    # The stream itself keeps them.
    assert len(store.members(stream.id)) == 31
    assert_clean(store)


def page_mates(n: int) -> set[int]:
    """A closed page stays as it is until all its members go: pages of four, numbered from 1."""
    first = (n - 1) // 4 * 4 + 1
    return {m for m in range(first, first + 4) if m <= n}


def test_days_that_are_over_leave_the_tree_and_come_back_with_a_late_member(store: Store) -> None:
    stream = make_stream(store)
    view = make_view(store, stream, "v", BY_TIME, retention=Retention("P10D"), page_size=2)
    append(store, stream, [on(day, day * 10 + i) for day in range(1, 32) for i in range(3)])
    old = "year=2021&month=01&day=05"
    work(store, now_us=us("2021-01-01T00:00:00Z"))
    before = store.node(stream.id, view.id, old, 1)
    assert before.is_immutable
    work(store, now_us=NOW)
    found = walk(store, view)
    assert {int(name[-2:]) for name, _ in found.pages} == set(range(22, 32))
    assert found.buckets[""][0].remaining == 30
    for page in (None, 1, 2):
        with pytest.raises(Gone):
            store.node(stream.id, view.id, old, page)
    # A member of that day that comes now is old at once, at the next look; until then its page has a new number.
    append(store, stream, [on(5, 999)])
    work(store, now_us=us("2021-01-01T00:00:00Z"))
    assert walk(store, view).members(old) == [999]
    with pytest.raises(Gone):
        store.node(stream.id, view.id, old, 1)
    work(store, now_us=NOW)
    assert old not in walk(store, view).buckets
    assert_clean(store)


def test_the_newest_versions_of_each_object_stay_by_order_of_ingest(store: Store) -> None:
    # Issue list of the facts, 9: five versions ingested out of the order of their times, two stay.
    stream = make_stream(store)
    view = make_view(store, stream, "v", retention=Retention(versions=2), page_size=100)
    append(store, stream, [on(day, n, obj=7) for n, day in enumerate([5, 9, 1, 8, 2], 1)])
    append(store, stream, [on(1, 6, obj=8)])
    work(store)
    assert walk(store, view).everything() == {4, 5, 6}
    append(store, stream, [on(1, 7, obj=7)])
    work(store)
    assert walk(store, view).everything() == {5, 6, 7}
    assert state(store, view).members == 3
    assert_clean(store)


def test_with_both_policies_the_newest_of_the_old_ones_stay(store: Store) -> None:
    stream = make_stream(store)
    view = make_view(store, stream, "v", retention=Retention("P10D", versions=2), page_size=100)
    days = [1, 2, 3, 25, 26, 27, 4]
    append(store, stream, [on(day, n, obj=1) for n, day in enumerate(days, 1)])
    work(store, now_us=NOW)
    # Old: 1, 2, 3, 7 (days 1 to 4); the newest two of these by ingest, 3 and 7, stay, with all that are not old.
    assert walk(store, view).everything() == {3, 4, 5, 6, 7}
    work(store, now_us=us("2021-03-01T00:00:00Z"))
    # Now all are old, and the newest two by ingest are 6 and 7.
    assert walk(store, view).everything() == {6, 7}
    assert_clean(store)


def test_a_point_in_time_and_members_without_a_time(store: Store) -> None:
    stream = make_stream(store)
    retention = Retention(point_in_time_us=us("2021-01-15T12:00:00Z"))
    view = make_view(store, stream, "v", retention=retention, page_size=100)
    append(store, stream, [*(on(day, day) for day in range(1, 32)), member(99, at=None)])
    work(store)
    assert walk(store, view).everything() == {*range(15, 32), 99}
    assert_clean(store)


def test_half_empty_pages_are_joined_and_the_former_ones_stay_for_the_time_of_grace(store: Store) -> None:
    stream = make_stream(store)
    view = make_view(store, stream, "v", retention=Retention(versions=1), page_size=4)
    # Of twelve objects eight get a second version: pages 1 to 3 keep four members of twelve.
    append(store, stream, [member(n, obj=n) for n in range(1, 13)])
    work(store)
    former = [store.node(stream.id, view.id, "", n) for n in (1, 2, 3)]
    append(store, stream, [member(100 + n, obj=n) for n in range(1, 13) if n % 3])
    now = us("2030-01-01T00:00:00Z")
    work(store, now_us=now, grace_us=7 * DAY_US)
    found = walk(store, view)
    assert found.everything() == {3, 6, 9, 12, *(100 + n for n in range(1, 13) if n % 3)}
    (relation,) = found.buckets[""]
    assert relation.query not in ("pageNumber=1", "pageNumber=2", "pageNumber=3")
    # Unchanged, though nothing leads to them any more.
    assert [store.node(stream.id, view.id, "", n) for n in (1, 2, 3)] == former
    work(store, now_us=now + 8 * DAY_US)
    for page in (1, 2, 3):
        with pytest.raises(Gone):
            store.node(stream.id, view.id, "", page)
    assert walk(store, view).pages == found.pages
    assert_clean(store)


def test_no_page_that_stays_leads_to_one_that_has_gone(store: Store) -> None:
    stream = make_stream(store)
    view = make_view(store, stream, "v", BY_KIND, retention=Retention(versions=1), page_size=3)
    seen: dict[tuple[str, int], object] = {}
    for n in range(120):
        append(store, stream, [member(n, obj=n % 17 if n % 5 else n, kinds=["a"])])
        if n % 7 == 0:
            work(store, grace_us=0)
            found = walk(store, view)
            for key, node in found.fixed.items():
                assert seen.setdefault(key, node) == node
    newest = {n % 17 if n % 5 else n: n for n in range(120)}
    work(store)
    assert set(newest.values()) <= walk(store, view).everything()
    assert state(store, view).members == len(newest)
    assert_clean(store)


# ------------------------------------------------------------------ event source


def source(store: Store, stream: EventStream, retention: Retention) -> EventStream:
    return store.put_stream(replace(stream, retention=retention)).result(WAIT_S)


def left(store: Store, stream: EventStream) -> list[int]:
    return [int(m.iri.rpartition("/")[2]) for m in store.members(stream.id)]


def test_members_of_the_event_source_go_when_no_page_has_them(store: Store) -> None:
    stream = make_stream(store)
    stream = source(store, stream, Retention("P10D"))
    everything = make_view(store, stream, "everything", page_size=5)
    by_kind = make_view(store, stream, "by-kind", BY_KIND, page_size=5)
    append(store, stream, [on(n, n, kinds=["a", "b"]) for n in range(1, 32)])
    work(store, now_us=NOW)
    assert left(store, stream) == list(range(1, 32))
    store.delete_view(stream.id, everything.id).result(WAIT_S)
    work(store, now_us=NOW)
    assert left(store, stream) == list(range(1, 32))
    before = walk(store, by_kind).pages
    store.delete_view(stream.id, by_kind.id).result(WAIT_S)
    work(store, now_us=NOW)
    assert left(store, stream) == list(range(22, 32))
    assert store.stream_state(stream.id).members == 10
    # What has gone can come again, as a new member.
    assert append(store, stream, [on(31, 1)]).is_new == (True,)
    assert append(store, stream, [on(31, 30)]).is_new == (False,)
    view = make_view(store, stream, "late")
    work(store, now_us=NOW)
    assert walk(store, view).everything() == {1, *range(22, 32)}
    assert before
    assert_clean(store)


def test_a_page_in_its_time_of_grace_keeps_its_members_in_the_stream(store: Store) -> None:
    stream = source(store, make_stream(store), Retention(versions=1))
    view = make_view(store, stream, "v", retention=Retention(versions=1), page_size=4)
    append(store, stream, [member(n, obj=n) for n in range(1, 9)])
    append(store, stream, [member(100 + n, obj=n) for n in range(1, 9) if n % 4])
    now = us("2030-01-01T00:00:00Z")
    work(store, now_us=now, grace_us=7 * DAY_US)
    assert len(store.node(stream.id, view.id, "", 1).members) == 4
    assert len(left(store, stream)) == 14
    work(store, now_us=now + 8 * DAY_US)
    work(store, now_us=now + 8 * DAY_US)
    assert set(left(store, stream)) == walk(store, view).everything()
    assert_clean(store)


def test_latest_states_are_kept_in_the_stream(store: Store) -> None:
    stream = source(store, make_stream(store), Retention(point_in_time_us=NOW))
    view = make_view(store, stream, "latest", materialised=True)
    append(store, stream, [on(n, n, obj=n % 2) for n in range(1, 10)])
    work(store)
    assert walk(store, view).everything() == {8, 9}
    assert left(store, stream) == [8, 9]
    append(store, stream, [on(30, 30, obj=1)])
    work(store)
    assert left(store, stream) == [8, 30]
    assert_clean(store)


def test_new_policies_of_the_event_source_apply_to_all_members_anew(store: Store) -> None:
    stream = source(store, make_stream(store), Retention(point_in_time_us=us("2021-01-10T00:00:00Z")))
    view = make_view(store, stream, "v")
    append(store, stream, [on(n, n) for n in range(1, 32)])
    work(store, now_us=NOW)
    # Condemned by the old policy, but not by the new one.
    stream = source(store, stream, Retention(point_in_time_us=us("2021-01-05T00:00:00Z")))
    store.delete_view(stream.id, view.id).result(WAIT_S)
    work(store, now_us=NOW)
    assert left(store, stream) == list(range(5, 32))
    stream = source(store, stream, Retention())
    work(store, now_us=NOW)
    stream = source(store, stream, Retention("P10D"))
    work(store, now_us=NOW)
    assert left(store, stream) == list(range(22, 32))
    assert_clean(store)


def test_retention_of_a_closed_stream(store: Store) -> None:
    stream = make_stream(store)
    view = make_view(store, stream, "v", BY_KIND, retention=Retention("P10D"), page_size=4)
    append(store, stream, [on(n, n, kinds=["a"]) for n in range(1, 11)])
    work(store, now_us=us("2021-01-01T00:00:00Z"))
    store.put_stream(replace(stream, is_closed=True)).result(WAIT_S)
    fixed = walk(store, view).fixed
    assert len(fixed) == 3
    # Day 9 goes: its page, the last one, is fixed and stays as it is.
    work(store, now_us=us("2021-01-19T18:00:00Z"))
    found = walk(store, view)
    assert found.everything() == {9, 10}
    assert found.fixed.items() <= fixed.items()
    work(store, now_us=NOW)
    assert walk(store, view).everything() == set()
    assert_clean(store)


def test_retention_goes_on_where_it_was_cut_off(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    from thalweg.store.sqlite import stream_retention

    monkeypatch.setattr(stream_retention, "MAX_AGED", 3)
    monkeypatch.setattr(stream_retention, "MAX_NOTED", 3)
    monkeypatch.setattr(stream_retention, "MAX_LOOSE", 3)
    store = backend.open()
    stream = source(store, make_stream(store), Retention("P10D"))
    view = make_view(store, stream, "v", BY_KIND, retention=Retention("P10D"), page_size=2)
    append(store, stream, [on(n, n, kinds=["a"]) for n in range(1, 32)])
    work(store, now_us=us("2021-01-01T00:00:00Z"))
    for _ in range(4):
        step = store.retain(stream.id, view.id, NOW, grace_us=0).result(WAIT_S)
        assert step.more
        backend.close()
        store = backend.open()
        assert_clean(store)
    work(store, now_us=NOW)
    found: Walk = walk(store, view)
    # 21 shares its closed page with 22.
    assert found.everything() == set(range(21, 32))
    assert left(store, stream) == list(range(21, 32))
    assert_clean(store)


def test_a_view_of_a_view_document_is_what_was_put(store: Store) -> None:
    stream = make_stream(store)
    view = make_view(store, stream, "v", retention=Retention("P2DT3H", 4, 5))
    assert store.views(stream.id) == {"v": view}
    assert isinstance(view, View)
    assert view.retention.duration_us == (2 * 24 + 3) * 3600 * 1_000_000
    # Months count 30 days, years 365, as the Flanders server has it.
    assert Retention("P1Y1M").duration_us == 395 * DAY_US
