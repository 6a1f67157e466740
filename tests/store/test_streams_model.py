"""Any mix of ingest, steps of background work, views that come and go, retention and restarts, against a model.

The model knows who was acknowledged, what each view has taken in, and by the definition of each policy who has left:
every other member stands in every view exactly where its rule puts it, in the order of acknowledgement; a page that was
once immutable is the same for ever, or gone for ever.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.store.stream_support import AT, BY_KIND, NS, append, make_stream, make_view, member, us, walk
from tests.store.support import BACKENDS, WAIT_S, assert_clean

from thalweg.domain.errors import DamagedData
from thalweg.domain.streams import Gone, Granularity, Member, Node, Placement, Retention, TimeFragmentation, View
from thalweg.domain.time import DAY_US
from thalweg.services.stream_work import StreamWork
from thalweg.store.sqlite import stream_retention, stream_tending

MONTH = (TimeFragmentation(Granularity.MONTH, AT),)
FRAGMENTATIONS = {"plain": (), "kind": BY_KIND, "month": MONTH, "kind, month": (*BY_KIND, *MONTH)}
RETENTIONS = (
    Retention(),
    Retention("P40D"),
    Retention(versions=1),
    Retention(versions=2),
    Retention("P40D", 1),
    Retention(point_in_time_us=us("2021-03-10T00:00:00Z")),
)


@dataclass(frozen=True)
class Sent:
    """A member as the model knows it; ``sequence`` from its receipt."""

    sequence: int
    n: int
    obj: int
    month: int | None
    day: int
    kinds: frozenset[str]

    @property
    def at_us(self) -> int | None:
        return None if self.month is None else us(f"2021-{self.month:02d}-{self.day:02d}T06:00:00Z")

    def buckets(self, kind: str) -> set[str]:
        """By the definition of the strategies."""
        of_kind = {"kind=" + quote(NS + k, safe="") for k in self.kinds} or {"kind=unknown"}
        of_month = {"year=unknown" if self.month is None else f"year=2021&month={self.month:02d}"}
        parts = {"plain": [{""}], "kind": [of_kind], "month": [of_month], "kind, month": [of_kind, of_month]}[kind]
        return {"&".join(each) for each in product(*parts)}


@dataclass
class Seen:
    """A view as the model knows it. ``old``: those that were found old so far; ``fixed``: its pages once immutable."""

    view: View
    kind: str
    position: int = 0
    old: set[Sent] = field(default_factory=set)
    fixed: dict[tuple[str, int], Node] = field(default_factory=dict)
    gone: set[tuple[str, int]] = field(default_factory=set)

    def taken(self, sent: list[Sent]) -> list[Sent]:
        return [m for m in sent if m.sequence <= self.position]

    def living(self, sent: list[Sent]) -> list[Sent]:
        """Members that have not left by the view's policies."""
        return [m for m in self.taken(sent) if m not in left(self.view.retention, self.taken(sent), self.old)]


def left(retention: Retention, taken: list[Sent], old: set[Sent]) -> set[Sent]:
    """Those that go: by age, the old ones; with versions, but for the newest of each object among them."""
    if not retention:
        return set()
    candidates = old if retention.by_age else set(taken)
    if not retention.versions:
        return candidates
    by_object: dict[int, list[Sent]] = defaultdict(list)
    for m in sorted(candidates, key=lambda m: m.sequence):
        by_object[m.obj].append(m)
    return {m for versions in by_object.values() for m in versions[: -retention.versions]}


class Streams(RuleBasedStateMachine):
    backend_name = "sqlite"

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="thalweg-streams-"))
        self.backend = BACKENDS[self.backend_name](self.folder)
        self.store = self.backend.open()
        self.stream = make_stream(self.store)
        self.sent: list[Sent] = []
        self.by_number: dict[int, Sent] = {}
        self.views: dict[str, Seen] = {}
        self.now_us = us("2021-02-01T00:00:00Z")
        self.made = 0
        self.source_seen: list[Sent] = []
        self.source_old: set[Sent] = set()
        self.lost: set[int] = set()

    def teardown(self) -> None:
        if hasattr(self, "backend"):
            self.finish_and_compare()
            self.backend.close()
            shutil.rmtree(self.folder)

    # -------------------------------------------------------------- rules

    @rule(
        members=st.lists(
            st.tuples(
                st.integers(0, 90),
                st.integers(0, 4),
                st.one_of(st.none(), st.integers(1, 6)),
                st.integers(1, 28),
                st.frozensets(st.sampled_from("abc"), max_size=3),
            ),
            min_size=1,
            max_size=12,
        )
    )
    def ingest(self, members: list[tuple[int, int, int | None, int, frozenset[str]]]) -> None:
        """Some are new, some known, some twice in one request."""
        made: list[tuple[Sent, Member]] = []
        for n, obj, month, day, kinds in members:
            at = None if month is None else f"2021-{month:02d}-{day:02d}T06:00:00Z"
            item = member(n, obj=obj, at=at, kinds=sorted(kinds))
            made.append((Sent(0, n, obj, month, day, kinds), item))
        receipt = append(self.store, self.stream, [item for _, item in made])
        for (model, _), sequence, is_new in zip(made, receipt.sequences, receipt.is_new, strict=True):
            if model.n in self.by_number and model.n not in self.lost:
                assert not is_new
                assert sequence == self.by_number[model.n].sequence
            else:
                assert is_new
                stored = replace(model, sequence=sequence)
                assert not self.sent or sequence > self.sent[-1].sequence
                self.sent.append(stored)
                self.source_seen.append(stored)
                self.by_number[model.n] = stored
                self.lost.discard(model.n)

    @precondition(lambda self: len(self.views) < 5)
    @rule(kind=st.sampled_from(sorted(FRAGMENTATIONS)), page_size=st.integers(1, 5), policy=st.sampled_from(RETENTIONS))
    def add_view(self, kind: str, page_size: int, policy: Retention) -> None:
        self.made += 1
        name = f"v{self.made}"
        view = make_view(self.store, self.stream, name, FRAGMENTATIONS[kind], page_size=page_size, retention=policy)
        self.views[name] = Seen(view, kind)

    @precondition(lambda self: bool(self.views))
    @rule(data=st.data())
    def drop_view(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.views)))
        seen = self.views.pop(name)
        self.store.delete_view(self.stream.id, seen.view.id).result(WAIT_S)

    @precondition(lambda self: bool(self.views))
    @rule(data=st.data(), size=st.integers(1, 9))
    def fill_a_little(self, data: st.DataObject, size: int) -> None:
        """A step of another size than the worker's, done twice as after a crash."""
        seen = self.views[data.draw(st.sampled_from(sorted(self.views)))]
        after = self.store.view_states(self.stream.id)[seen.view.id].position
        members = self.store.members(self.stream.id, after, limit=size)
        if not members:
            return
        by_rule = StreamWork(self.store)._rule(seen.view)
        placements = [Placement(m.sequence, by_rule(m.text), m.timestamp_us, m.version_of) for m in members]
        through = members[-1].sequence
        step = (self.stream.id, seen.view.id, after, through, placements)
        assert self.store.assign(*step).result(WAIT_S)
        assert not self.store.assign(*step).result(WAIT_S)

    @rule()
    def fill(self) -> None:
        work = StreamWork(self.store)
        while work.fill():
            continue

    @rule(days=st.integers(0, 25), grace_days=st.sampled_from([0, 30]))
    def retain(self, days: int, grace_days: int) -> None:
        self.positions()
        self.now_us += days * DAY_US
        for seen in self.views.values():
            limit = seen.view.retention.old_before_us(self.now_us)
            if limit is not None:
                seen.old |= {m for m in seen.taken(self.sent) if m.at_us is not None and m.at_us < limit}
        work = StreamWork(self.store, grace_us=grace_days * DAY_US)
        while work.retain(self.now_us) | work.clean(self.now_us):
            continue
        while work.retain(self.now_us):
            continue
        for seen in self.views.values():
            if seen.view.retention:
                living = {bucket for m in seen.living(self.sent) for bucket in m.buckets(seen.kind)}
                listed = {name for name, _ in walk(self.store, seen.view).pages}
                assert listed - {""} == living - {""}
        # Rows of deleted views are gone before: what stood on their pages is then looked at again.
        self.source(self.stream.retention.old_before_us(self.now_us))

    @rule(policy=st.sampled_from(RETENTIONS))
    def change_source(self, policy: Retention) -> None:
        self.stream = self.store.put_stream(replace(self.stream, retention=policy)).result(WAIT_S)
        self.source_seen, self.source_old = list(self.sent), set()

    @rule()
    def clean(self) -> None:
        work = StreamWork(self.store)
        while work.clean(self.now_us):
            continue

    @rule()
    def reopen(self) -> None:
        self.backend.close()
        self.store = self.backend.open()

    @rule()
    def check(self) -> None:
        assert_clean(self.store)

    # -------------------------------------------------------------- what has to hold

    def positions(self) -> None:
        states = self.store.view_states(self.stream.id)
        for seen in self.views.values():
            seen.position = states[seen.view.id].position

    def source(self, limit: int | None) -> None:
        """Members leave the stream if its own policies let them go and no page has them, and only then."""
        if limit is not None:
            self.source_old |= {m for m in self.source_seen if m.at_us is not None and m.at_us < limit}
        condemned = left(self.stream.retention, self.source_seen, self.source_old)
        there: set[int] = set()
        after = 0
        while found := self.store.members(self.stream.id, after):
            after = found[-1].sequence
            there |= {m.sequence for m in found}
        gone = {m for m in self.sent if m.sequence not in there}
        assert gone <= condemned
        if not self.views:
            assert gone == condemned & set(self.sent)
        self.lost |= {m.n for m in gone}
        self.sent = [m for m in self.sent if m not in gone]

    @invariant()
    def every_member_is_where_its_rule_puts_it(self) -> None:
        if not hasattr(self, "store"):
            return
        self.positions()
        for seen in self.views.values():
            found = walk(self.store, seen.view)
            expected: dict[str, list[int]] = defaultdict(list)
            living = seen.living(self.sent)
            for m in living:
                for bucket in m.buckets(seen.kind):
                    expected[bucket].append(m.n)
            alive = {m.n for m in living}
            listed: dict[str, list[int]] = defaultdict(list)
            # In the order of reading: a chain is followed to its end at once.
            for (bucket, page), iris in found.pages.items():
                numbers = [int(iri.rpartition("/")[2]) for iri in iris]
                assert len(numbers) <= seen.view.page_size
                if (bucket, page) not in found.fixed:
                    assert set(numbers) <= alive, "a page that may change lists a member that has left"
                listed[bucket] += [n for n in numbers if n in alive]
            assert {b: n for b, n in listed.items() if n} == dict(expected)
            self.fixed_pages_stay(seen, found.fixed)

    def fixed_pages_stay(self, seen: Seen, fixed: dict[tuple[str, int], Node]) -> None:
        for key, node in fixed.items():
            assert key not in seen.gone
            assert seen.fixed.setdefault(key, node) == node
        for (bucket, page), node in seen.fixed.items():
            try:
                again = self.store.node(self.stream.id, seen.view.id, bucket, page)
            except Gone:
                seen.gone.add((bucket, page))
                continue
            except DamagedData:
                pytest.fail("a page lists a member that is not there")
            assert (bucket, page) not in seen.gone
            assert again == node

    def finish_and_compare(self) -> None:
        work = StreamWork(self.store)
        while work.fill() | work.clean(self.now_us):
            continue
        self.every_member_is_where_its_rule_puts_it()
        assert_clean(self.store)


@pytest.mark.parametrize("backend_name", sorted(BACKENDS))
def test_streams_against_a_model(backend_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Small steps, so that each kind of work is cut into several.
    monkeypatch.setattr(stream_retention, "MAX_AGED", 5)
    monkeypatch.setattr(stream_retention, "MAX_DUE", 2)
    monkeypatch.setattr(stream_retention, "MAX_NOTED", 4)
    monkeypatch.setattr(stream_retention, "MAX_LOOSE", 3)
    monkeypatch.setattr(stream_tending, "MAX_REMOVED", 5)
    machine = type("Streams_" + backend_name, (Streams,), {"backend_name": backend_name})
    run_state_machine_as_test(
        machine,
        settings=settings(settings(), max_examples=max(10, settings().max_examples // 2), stateful_step_count=25),
    )
