"""Background work on published streams: pages that are full are closed.

What a page holds is told by two marks, so a step reads rows and changes and writes a line for each page. A step that is
done twice or cut off changes nothing: the next one begins at the mark of the last commit. Until a page is closed,
readers see the same rows on the open one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from thalweg.domain.blocks import Block
from thalweg.domain.errors import DamagedData
from thalweg.domain.published import PUBLISHED_ROWS, ChangedRows, ClosedPage, Mark, PublishedRows, SourceKind
from thalweg.domain.published_layers import ClosedFeaturePage, FeatureVersion, LayerPart
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.streams import EventStream
from thalweg.encode.rdf.features import terms_of as feature_terms
from thalweg.encode.rdf.features import times_of
from thalweg.encode.rdf.observations import bucket_of, extent_of, terms_of

if TYPE_CHECKING:
    from thalweg.domain.store import Store

LOOK_S: Final = 0.25
"""How often it is looked for parts that have changed."""
JOIN_S: Final = 1.0
"""How often it is looked for tracks that a source has got: their first page is there after so long."""
AGAIN_S: Final = 2.0
"""After so long a part with new changes is looked at although they are too few to fill its page: each may be of many
rows."""
SLICE_S: Final = 0.5
PARTS_AT_ONCE: Final = 5_000
PAGES_AT_ONCE: Final = 100
"""Pages closed in one transaction, some milliseconds."""

_log = logging.getLogger(__name__)


def rows_a_page(stream: EventStream, catalogue: Catalogue, procedure_id: int) -> int:
    """Rows of a page: as many as have no more members than it may have, at least one."""
    source = stream.source
    series = len(catalogue.procedures[procedure_id].series)
    return 1 if source is None else min(max(source.page_size // max(series, 1), 1), PUBLISHED_ROWS)


@dataclass(slots=True)
class _Looked:
    """When a part was last looked at: how many rows and changes fill its page, how many changes there were, and when to
    look in any case if there are more."""

    enough: int
    changes: int
    again_s: float


@dataclass(slots=True)
class _Progress:
    """How far the work on a stream is."""

    commit: int = -1
    joined_s: float = -JOIN_S
    waiting: dict[int, tuple[int, int]] = field(default_factory=dict)
    looked: dict[int, _Looked] = field(default_factory=dict)


class PublishedWork:
    """The work of the process that holds the lease. ``round`` is called by one thread at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._progress: dict[int, _Progress] = {}
        self._looked_s = -LOOK_S
        self._looked_at: dict[int, tuple[int, int]] = {}

    def round(self, *, everything: bool = False) -> bool:
        """Close what is full, for half a second at most; whether there is more to do now.

        everything  look at all parts that have changed, now
        raises      StoreUnavailable
        """
        now_s = time.monotonic()
        if not everything and now_s - self._looked_s < LOOK_S:
            return False
        self._looked_s = now_s
        stop_s = now_s + SLICE_S
        streams = [stream for stream in self._streams() if stream.source]
        more = False
        for stream in streams:
            if stream.source is not None and stream.source.kind is SourceKind.LAYER:
                more |= self._layer(stream, stream.source.page_size, stop_s)
            else:
                more |= self._stream(stream, stop_s, everything)
        for stream_id in self._progress.keys() - {stream.id for stream in streams}:
            del self._progress[stream_id]
        return more

    def _streams(self) -> Iterator[EventStream]:
        for workspace_id in {workspace_id for workspace_id, _ in self._store.stream_ids()}:
            yield from self._store.streams(workspace_id).values()

    def _stream(self, stream: EventStream, stop_s: float, everything: bool) -> bool:
        progress = self._progress.setdefault(stream.id, _Progress())
        now_s = time.monotonic()
        if everything or now_s - progress.joined_s >= JOIN_S:
            progress.joined_s = now_s
            if self._store.publish_parts(stream.id).result():
                progress.commit = -1
        changed, progress.commit = self._store.waiting_parts(stream.id, progress.commit, limit=PARTS_AT_ONCE)
        for track_id, rows, changes in changed:
            progress.waiting[track_id] = rows, changes
        for track_id, (rows, changes) in list(progress.waiting.items()):
            looked = progress.looked.get(track_id)
            if looked is not None and rows + changes < looked.enough and not everything:
                if changes == looked.changes:
                    del progress.waiting[track_id]
                    continue
                if now_s < looked.again_s:
                    continue
            if time.monotonic() > stop_s:
                return True
            try:
                missing = self._part(stream, track_id, lambda: time.monotonic() > stop_s)
            except DamagedData as error:
                # Left as it is until something changes in it: everything else goes on.
                _log.error("stream '%s' does not go on: %s", stream.name, error.message)
                missing = 1
            if missing is None:
                return True
            del progress.waiting[track_id]
            progress.looked[track_id] = _Looked(rows + changes + missing, changes, time.monotonic() + AGAIN_S)
        return len(changed) == PARTS_AT_ONCE

    def _layer(self, stream: EventStream, limit: int, stop_s: float) -> bool:
        """Close the full pages of a published layer; whether there is more to do."""
        while True:
            part = self._store.layer_part(stream.id)
            if part is None:
                return False
            if self._looked_at.get(stream.id) == (part.pages, part.newest):
                return False
            try:
                pages, number = self._layer_pages(stream, part, limit)
            except DamagedData as error:
                _log.error("stream '%s' does not go on: %s", stream.name, error.message)
                return False
            if not pages:
                # Not enough for a page before something changes.
                self._looked_at[stream.id] = (part.pages, part.newest)
                return False
            self._store.close_feature_pages(stream.id, part.pages, pages, number).result()
            if time.monotonic() > stop_s:
                return True

    def _layer_pages(self, stream: EventStream, part: LayerPart, limit: int) -> tuple[list[ClosedFeaturePage], int]:
        """Some full pages that follow the closed ones, and how far they go among features."""
        pages: list[ClosedFeaturePage] = []
        number, sequence = part.number, part.sequence
        reached = number
        versions: list[FeatureVersion] = []
        while len(pages) < PAGES_AT_ONCE // 5:
            found = self._store.feature_versions(stream.id, number, sequence, limit - len(versions))
            if (found.number, found.sequence) == (number, sequence):
                break
            number, sequence = found.number, found.sequence
            versions += found.versions
            if len(versions) == limit:
                terms = feature_terms(found.layer, stream.created_us, part.start)
                least_us, greatest_us = times_of(terms, versions)
                first = pages[-1].last if pages else part.sequence
                numbers = tuple(version.number for version in versions if not version.sequence)
                bucket = bucket_of(least_us, greatest_us)
                pages.append(ClosedFeaturePage(numbers, first, sequence, limit, least_us, greatest_us, bucket, terms))
                reached = number
                versions = []
        return pages, reached

    def _part(self, stream: EventStream, track_id: int, is_late: Callable[[], bool]) -> int | None:
        """Close the full pages of a part; how many rows the next one still takes, None if there is more to do."""
        while True:
            catalogue = self._store.catalogue(stream.workspace_id)
            track = catalogue.tracks.get(track_id)
            part = self._store.parts(stream.id, [track_id]).get(track_id)
            if track is None or part is None:
                return 1
            limit = rows_a_page(stream, catalogue, track.procedure_id)
            at_once = max(min(PUBLISHED_ROWS // limit, PAGES_AT_ONCE), 1)
            found = self._store.published_rows(stream.id, track_id, part.mark, limit * at_once)
            is_all = len(found) < limit * at_once
            terms = terms_of(catalogue, track)
            pages = list(cut(found, part.mark, limit, terms))
            if pages:
                # Of rows on pages closed before: those on pages of this step cost no more than others.
                keys = (item.rows.key(row) for item in found.changes for row in range(len(item.rows)))
                changed = [key for key in keys if key <= part.mark.key]
                if not self._store.close_pages(stream.id, part, pages, changed, is_all=is_all).result():
                    continue
                while self._store.settle_page(stream.id, track_id):
                    continue
            if is_all:
                return limit - len(found) % limit
            if is_late():
                return None


def cut(found: PublishedRows, before: Mark, limit: int, terms: str) -> Iterator[ClosedPage]:
    """The full pages of what follows a mark: rows first, then changes."""
    rows = found.rows
    mark = before
    at = 0
    while len(rows) - at >= limit:
        piece = rows.take(slice(at, at + limit))
        at += limit
        mark = Mark(*piece.key(-1), mark.sequence, mark.row)
        yield _page(mark, piece, (), terms)
    rest = rows.take(slice(at, None))
    key = rest.key(-1) if len(rest) else mark.key
    room = limit - len(rest)
    taken: list[ChangedRows] = []
    for item in found.changes:
        first = item.first
        while first < item.stop:
            stop = min(first + room, item.stop)
            taken.append(ChangedRows(item.change, first, stop))
            room -= stop - first
            first = stop
            if room == 0:
                done = taken[-1].is_done
                number = item.change.sequence
                mark = Mark(*key, number + 1, 0) if done else Mark(*key, number, stop)
                yield _page(mark, rest, tuple(taken), terms)
                rest, room, taken = rows.take(slice(0, 0)), limit, []


def _page(mark: Mark, rows: Block, changes: tuple[ChangedRows, ...], terms: str) -> ClosedPage:
    members, least_us, greatest_us = extent_of(rows, changes)
    return ClosedPage(mark, members, least_us, greatest_us, bucket_of(least_us, greatest_us), terms)
