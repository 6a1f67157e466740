"""Random histories of a published procedure beside a model of its own: what every page says, and that closed ones stay.

The model knows nothing of chunks, tails or the change log: it keeps cells, the greatest end ever, and a list of what
happened in words. The stream has to tell just that, each thing once.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.store.published_support import Told, pages, publish, told, work
from tests.store.support import (
    BACKENDS,
    EVERY_KIND,
    STEP,
    T0,
    WAIT_S,
    Backend,
    block,
    insertion,
    kinds_of,
    register,
    series,
)

from thalweg.domain.blocks import ValueKind
from thalweg.domain.observations import OnDuplicate
from thalweg.domain.published import SourceKind
from thalweg.domain.store import Store
from thalweg.domain.time import Interval
from thalweg.services import published_work
from thalweg.store.sqlite import published

Key = tuple[int, int, int]
Happened = tuple[str, Key, int, Any, int | None]
"""late, correction or deletion; of which cell; value and quality since (None: deleted)."""


class History:
    """A store with one published procedure, and the model."""

    def __init__(self, backend: Backend, rng: random.Random) -> None:
        self.backend = backend
        self.rng = rng
        self.store: Store = backend.open()
        self.station = register(self.store, "ALPHA", EVERY_KIND)
        self.kinds = kinds_of(self.station)
        self.cells: dict[Key, dict[int, tuple[Any, int]]] = {}
        self.reach: int | None = None
        self.came: list[tuple[Key, int, Any, int]] = []
        self.happened: list[list[Happened]] = []
        self.closed: dict[int, list[tuple[str, bytes]]] = {}
        self.stream: Any = None

    # ------------------------------------------------------------ what is done

    def publish(self) -> None:
        """What is stored now comes first; what happened before is no member."""
        self.stream = publish(
            self.store, self.station.workspace_id, SourceKind.PROCEDURE, self.station.procedure.id,
            page_size=3 * len(self.station.ids),
        )  # fmt: skip
        self.happened.clear()
        self.came = [
            (key, p, *self.cells[key][p])
            for key in sorted(self.cells)
            for p in self.station.ids
            if p in self.cells[key]
        ]

    def value(self, kind: ValueKind) -> Any:
        rng = self.rng
        match kind:
            case ValueKind.NUMBER:
                return rng.choice([0.0, -0.0, 21.4, 1e-300, rng.uniform(-50, 50), float(rng.randrange(100))])
            case ValueKind.INTEGER:
                return rng.randrange(-5, 10**12)
            case ValueKind.BOOLEAN:
                return rng.random() < 0.5
        return rng.choice(["", "dry", 'a "b"\\\n\tc', "Größe ☔", "x" * 300])

    def rows(self) -> dict[Key, dict[int, tuple[Any, int]]]:
        """Rows near the end, some of them early, some intervals and forecasts."""
        rng = self.rng
        made: dict[Key, dict[int, tuple[Any, int]]] = {}
        newest = T0 if self.reach is None else self.reach
        at = newest + rng.choice([1, 1, 1, -3, -8, -30]) * STEP
        for _ in range(rng.choice([1, 1, 2, 5, 12])):
            begin = at - rng.choice([0, 0, 0, STEP])
            result = at + rng.choice([0, 0, 0, STEP, -2 * STEP])
            given = [p for p in self.station.ids if rng.random() < 0.7] or [rng.choice(self.station.ids)]
            made[at, begin, result] = {p: (self.value(self.kinds[p]), rng.choice([100, 100, 110])) for p in given}
            at += rng.choice([0, 1, 1, 1, 3]) * STEP
        return dict(sorted(made.items()))

    def put(self) -> None:
        rng = self.rng
        rows = self.rows()
        policy = rng.choice([OnDuplicate.SKIP, OnDuplicate.REPLACE])
        keys = list(rows)
        columns = {p: [rows[key].get(p, (None, 0))[0] for key in keys] for p in self.station.ids}
        made = block(
            [k[0] for k in keys], columns, kinds=self.kinds, begins=[k[1] for k in keys], results=[k[2] for k in keys]
        )
        # Quality of a row is one: that of its first cell.
        for key in keys:
            quality = next(iter(rows[key].values()))[1]
            rows[key] = {p: (value, quality) for p, (value, _) in rows[key].items()}
        for column in made.columns.values():
            column.quality = column.quality.copy()
            column.quality[:] = [next(iter(rows[key].values()))[1] for key in keys]
        interval = None
        if rng.random() < 0.15:
            interval = Interval(keys[0][0] - rng.choice([0, 4]) * STEP, keys[-1][0] + 1)
        item = insertion(self.station, made, on_duplicate=policy, replace=interval)
        events: list[Happened] = []
        if interval is not None:
            events += self.forget(interval, list(self.station.ids))
        reach = self.reach
        if rng.random() < 0.2:
            self.store.load(self.station.workspace_id, item)
        else:
            self.store.insert(self.station.workspace_id, [item]).result(WAIT_S)
        for key, offered in rows.items():
            row = self.cells.setdefault(key, {})
            for p, cell in offered.items():
                old = row.get(p)
                if old is not None and (policy is OnDuplicate.SKIP or _same(old, cell)):
                    continue
                row[p] = cell
                if old is not None:
                    events.append(("correction", key, p, *cell))
                elif reach is not None and key[0] <= reach:
                    events.append(("late", key, p, *cell))
                else:
                    self.came.append((key, p, *cell))
            self.reach = key[0] if self.reach is None else max(self.reach, key[0])
        if events:
            self.happened.append(events)

    def forget(self, interval: Interval, ids: list[int]) -> list[Happened]:
        events: list[Happened] = []
        for key in [key for key in self.cells if key[0] in interval]:
            for p in [p for p in self.cells[key] if p in ids]:
                events.append(("deletion", key, p, None, None))
                del self.cells[key][p]
            if not self.cells[key]:
                del self.cells[key]
        return events

    def delete(self) -> None:
        rng = self.rng
        if self.reach is None:
            return
        begin = self.reach - rng.choice([0, 2, 10, 40]) * STEP
        interval = Interval(begin, begin + rng.choice([1, STEP + 1, 6 * STEP, 100 * STEP]))
        ids = list(self.station.ids)
        if rng.random() < 0.4:
            ids = rng.sample(ids, 2)
        events = self.forget(interval, ids)
        assert self.store.delete(self.station.track, interval, ids).result(WAIT_S) == len(events)
        if events:
            self.happened.append(events)

    def reopen(self) -> None:
        self.backend.close()
        self.store = self.backend.open()

    # ------------------------------------------------------------ what is seen

    def look(self, *, complete: bool = False) -> None:
        """Fetch all pages: closed ones are as ever, and together they tell what happened."""
        if self.stream is None:
            return
        found = pages(self.store, self.stream, self.station.track)
        assert [node.is_immutable for node in found] == [True] * (len(found) - 1) + [False]
        members: list[Told] = []
        for node in found:
            assert node.page is not None
            texts = [(member.iri, member.text) for member in node.members]
            if node.is_immutable:
                assert self.closed.setdefault(node.page, texts) == texts
            members += [told(member) for member in node.members]
        assert self.closed.keys() <= {node.page for node in found if node.is_immutable}
        assert len({(m.key, m.property_id, m.version) for m in members}) == len(members)

        came = [(m.key, m.property_id, m.value, m.quality) for m in members if m.version == 0]
        # Rows as they came are in the order of their keys, as their ends rise; so are cells within a row.
        expected = sorted(self.came, key=lambda item: (item[0], self.station.ids.index(item[1])))
        assert _exact(came) == _exact(expected[: len(came)])
        later = [m for m in members if m.version]
        assert [m.version for m in later] == sorted(m.version for m in later)
        at = 0
        for events in self.happened:
            seen = [(m.key, m.property_id, m.value, m.quality) for m in later[at : at + len(events)]]
            wanted = [event[1:] for event in events]
            if len(seen) < len(events):
                assert not Counter(_exact(seen)) - Counter(_exact(wanted))
                assert not complete
                at += len(seen)
                break
            assert Counter(_exact(seen)) == Counter(_exact(wanted))
            at += len(events)
        assert at == len(later)
        if complete:
            assert len(came) == len(self.came)
            # The newest version of each cell is what is stored.
            newest = {(m.key, m.property_id): m for m in members}
            left = {k: (m.value, m.quality) for k, m in newest.items() if not m.is_deletion}
            stored = {(key, p): cell for key, row in self.cells.items() for p, cell in row.items()}
            assert {k: _exact([v]) for k, v in left.items()} == {k: _exact([v]) for k, v in stored.items()}


def _same(one: tuple[Any, int], other: tuple[Any, int]) -> bool:
    return _exact([one]) == _exact([other])


def _exact(items: list[Any]) -> list[str]:
    """Texts that tell 0 from -0 and True from 1."""
    return [repr(item) for item in items]


@pytest.mark.parametrize("name", BACKENDS)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_a_published_procedure_tells_its_history_once_and_closed_pages_stay(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "MAX_TOUCHES", 3)
    rng = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="thalweg-published-"))
    backend = BACKENDS[name](folder)
    try:
        history = History(backend, rng)
        publish_at = rng.choice([0, 0, 5])
        for step in range(40):
            if step == publish_at:
                history.publish()
            action = rng.choices(
                [history.put, history.delete, lambda: history.store.seal(everything=rng.random() < 0.5),
                 history.reopen, lambda: work(history.store), history.look],
                [12, 3, 3, 1, 3, 3],
            )[0]  # fmt: skip
            action()
        work(history.store)
        history.look(complete=True)
        history.store.seal(everything=True)
        history.look(complete=True)
        assert list(history.store.check()) == []
    finally:
        backend.close()
        shutil.rmtree(folder)


def test_full_pages_that_work_was_cut_off_before_are_closed_by_the_next(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a kill between two steps: nothing was written since, and yet there is something to do."""
    station = register(store, "ALPHA", [series("a")])
    stream = publish(store, station.workspace_id, SourceKind.PROCEDURE, station.procedure.id, page_size=2)
    (a,) = station.ids
    ends = [T0 + n * STEP for n in range(11)]
    store.insert(station.workspace_id, [insertion(station, block(ends, {a: list(range(11))}))]).result(WAIT_S)
    monkeypatch.setattr(published_work, "PAGES_AT_ONCE", 2)
    monkeypatch.setattr(published_work, "SLICE_S", 0)
    first = published_work.PublishedWork(store)
    store.publish_parts(stream.id).result(WAIT_S)
    assert first._part(stream, station.track, lambda: True) is None
    assert store.parts(stream.id)[station.track].pages == 2
    monkeypatch.setattr(published_work, "SLICE_S", 60)
    work(store)
    assert store.parts(stream.id)[station.track].pages == 5
    found = [told(member).value for node in pages(store, stream, station.track) for member in node.members]
    assert found == list(range(11))
    # Now there is nothing left to look at.
    assert store.waiting_parts(stream.id, -1, limit=10)[0] == []
