"""Background work on event streams: filling views, retention, removing what is deleted.

One process at a time does it, by lease. Each step is one bounded transaction that says where it begins, so a step that
is done twice, or cut off by a crash, changes nothing: the next one begins where the last commit ended.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from thalweg.domain.bounded import Bounded
from thalweg.domain.errors import DamagedData, StoreUnavailable
from thalweg.domain.streams import Backlog, Placement, StoredMember, View
from thalweg.domain.time import DAY_US
from thalweg.services.published_work import PublishedWork

if TYPE_CHECKING:
    from thalweg.domain.store import Store

POLL_S: Final = 0.1
"""How often the process with the lease looks for members that came; IDLE_POLL_S: the others for the lease. A view is
behind by no more, and members that come meanwhile share a step."""
IDLE_POLL_S: Final = 0.5
STEP_MEMBERS: Final = 1_000
"""Members of one step: about 30 ms with a fragmentation, of which the lock is held for 10."""
STEP_PLACES: Final = 10_000
"""Places of members in buckets that end a step: some members are in hundreds."""
PLAIN_STEP_MEMBERS: Final = 5_000
"""The same for views of pages alone, where nothing is read of the members."""
TEND_S: Final = 2.0
SLICE_S: Final = 0.5
"""Longest stretch of one kind of work before the others have their turn."""
GRACE_US: Final = 7 * DAY_US
"""How long pages that compaction has replaced can still be read."""
MAX_RULES: Final = 1_000

_log = logging.getLogger(__name__)

Rule = Callable[[bytes], "tuple[tuple[str, ...], ...]"]


class StreamWork:
    """The background work of one process. ``round`` may be called from any thread, one at a time."""

    def __init__(self, store: Store, *, retention_s: float = 60.0, grace_us: int = GRACE_US) -> None:
        """retention_s  how often retention is applied; grace_us  see ``StreamStore.retain``"""
        self._store = store
        self._retention_s = retention_s
        self._grace_us = grace_us
        self._retained_s = -retention_s
        self._tended_s = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._published = PublishedWork(store)
        self._rules: Bounded[tuple[int, int], tuple[View, Rule]] = Bounded(MAX_RULES)
        self._damaged: set[tuple[int, int]] = set()
        self._step: tuple[tuple[int, int, int], list[StoredMember]] | None = None

    # ------------------------------------------------------------ the thread

    def start(self) -> None:
        """Work in a thread of its own until ``close``."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="streams", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End after the step that is under way."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(10.0)

    def _run(self) -> None:
        wait_s = 0.0
        while not self._stop.wait(wait_s):
            wait_s = IDLE_POLL_S
            try:
                if self._store.hold_stream_work():
                    wait_s = 0.0 if self.round() else POLL_S
            except StoreUnavailable as error:
                _log.warning("background work on event streams was put off: %s", error.message)
                wait_s = 2.0
            except Exception:
                _log.exception("background work on event streams failed; it is tried again")
                wait_s = 2.0

    # ------------------------------------------------------------ rounds

    def round(self) -> bool:
        """One round of everything that is due, some tenths of a second at most; whether there is more to do now.

        raises  StoreUnavailable
        """
        more = self.fill() | self._published.round()
        now_s = time.monotonic()
        if now_s - self._tended_s >= TEND_S:
            more |= self.tend()
            if self.clean(time.time_ns() // 1000):
                more = True
            else:
                self._tended_s = now_s
        if now_s - self._retained_s >= self._retention_s:
            if not self.retain(time.time_ns() // 1000):
                self._retained_s = now_s
            else:
                more = True
        return more

    def finish(self, now_us: int | None = None) -> None:
        """Do all there is to do, for commands and tests."""
        while True:
            now = time.time_ns() // 1000 if now_us is None else now_us
            more = self.fill() | self._published.round(everything=True)
            more |= self.tend()
            more |= self.retain(now)
            more |= self.clean(now)
            if not more:
                return

    # ------------------------------------------------------------ views

    def fill(self) -> bool:
        """Put members that wait into the buckets of their views, a step of each view in turn; whether more wait."""
        try:
            return self._fill_views()
        finally:
            self._step = None

    def _fill_views(self) -> bool:
        stop_s = time.monotonic() + SLICE_S
        while not self._stop.is_set():
            waiting = [b for b in self._store.backlog() if (b.stream.id, b.view.id) not in self._damaged]
            if not waiting:
                return False
            for backlog in waiting:
                self._fill(backlog)
                if time.monotonic() > stop_s or self._stop.is_set():
                    return True
        return True

    def _fill(self, backlog: Backlog) -> None:
        stream_id, view = backlog.stream.id, backlog.view
        try:
            if _is_plain(view):
                through = min(backlog.sequence, backlog.position + PLAIN_STEP_MEMBERS)
                self._store.assign(stream_id, view.id, backlog.position, through, None).result()
                return
            members = self._members(stream_id, backlog.position, backlog.sequence)
            rule = self._rule(view)
            placements: list[Placement] = []
            places = 0
            for member in members:
                chains = rule(member.text)
                placements.append(Placement(member.sequence, chains, member.timestamp_us, member.version_of))
                places += len(chains)
                if places >= STEP_PLACES:
                    break
            # Members at the end may have left the stream.
            through = placements[-1].sequence if placements else backlog.sequence
            self._store.assign(stream_id, view.id, backlog.position, through, placements).result()
        except DamagedData as error:
            # Left as it is until the next start: everything else goes on.
            self._damaged.add((stream_id, view.id))
            _log.error("view '%s' of '%s' is not filled: %s", view.name, backlog.stream.name, error.message)

    def _members(self, stream_id: int, after: int, sequence: int) -> list[StoredMember]:
        """Members of one step; read once for all views of a stream that are equally far.

        sequence  of the stream's newest member
        """
        key = (stream_id, after, sequence)
        known = self._step
        if known is None or known[0] != key:
            known = self._step = (key, self._store.members(stream_id, after, limit=STEP_MEMBERS))
        return known[1]

    def _rule(self, view: View) -> Rule:
        key = (view.stream_id, view.id)
        known = self._rules.get(key)
        if known is None or known[0] != view:
            known = self._rules.put(key, (view, _make_rule(view)))
        return known[1]

    # ------------------------------------------------------------ the rest

    def retain(self, now_us: int) -> bool:
        """Apply retention to everything that has some; whether there is more to do."""
        stop_s = time.monotonic() + SLICE_S
        for workspace_id, stream_id in list(self._store.stream_ids()):
            views: list[int | None] = [view.id for view in self._store.views(stream_id).values() if view.retention]
            streams = self._store.streams(workspace_id).values()
            if any(stream.id == stream_id and stream.retention for stream in streams):
                views.append(None)
            for view_id in views:
                while True:
                    try:
                        step = self._store.retain(stream_id, view_id, now_us, grace_us=self._grace_us).result()
                    except DamagedData as error:
                        _log.error("retention of stream %d stops short: %s", stream_id, error.message)
                        break
                    if not step.more:
                        break
                    if time.monotonic() > stop_s or self._stop.is_set():
                        return True
        return False

    def tend(self) -> bool:
        """Keep the streams' own structures in form; whether there is more to do."""
        more = False
        for _, stream_id in list(self._store.stream_ids()):
            try:
                more |= self._store.tend(stream_id).more
            except DamagedData as error:
                _log.error("stream %d is left as it is: %s", stream_id, error.message)
        return more

    def clean(self, now_us: int) -> bool:
        """Remove rows of what is deleted; whether there are more."""
        stop_s = time.monotonic() + SLICE_S
        while self._store.clean(now_us).result().more:
            if time.monotonic() > stop_s or self._stop.is_set():
                return True
        return False


def _is_plain(view: View) -> bool:
    """Whether a view asks nothing of its members."""
    return not view.fragmentation and not view.materialised and not view.retention.versions


def _make_rule(view: View) -> Rule:
    if not view.fragmentation:
        return lambda text: ((),)
    from thalweg.encode.buckets import rule

    return rule(view)


def finish_streams(store: Store) -> bool:
    """Do all background work that waits, for commands that end at once; False if another process has it in hand."""
    if not store.hold_stream_work():
        return False
    StreamWork(store).finish()
    return True
