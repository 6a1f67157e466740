"""Published streams of the embedded store: the contract's calls, each handed to the part that does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Final

from thalweg.domain.features import Field
from thalweg.domain.published import ClosedPage, Mark, PageRange, Part, PublishedRows
from thalweg.domain.published_layers import ClosedFeaturePage, FeatureVersion, FeatureVersions, LayerPart
from thalweg.domain.streams import EventStream
from thalweg.store.sqlite import published, published_layers
from thalweg.store.sqlite.connection import Readers
from thalweg.store.sqlite.states import Key
from thalweg.store.sqlite.writer import Transaction, Writer

COMMIT: Final = "SELECT value FROM counter WHERE name = 'commit'"


class PublishedCalls:
    """What ``PublishedStore`` asks for; part of the store's class."""

    def _open_published(
        self, readers: Readers, writer: Writer, streams: Callable[[], Mapping[int, EventStream]]
    ) -> None:
        self._published_readers = readers
        self._published_writer = writer
        self._published_streams = streams

    def parts(self, stream_id: int, track_ids: Iterable[int] | None = None) -> dict[int, Part]:
        return published.read_parts(self._published_readers, stream_id, track_ids)

    def publish_parts(self, stream_id: int) -> Future[int]:
        stream = self._published_streams().get(stream_id)
        source = None if stream is None else stream.source
        if source is None or not published.has_unpublished(self._published_readers, stream_id, source):
            nothing: Future[int] = Future()
            nothing.set_result(0)
            return nothing
        return self._published_writer.submit(lambda tx: published.add_parts(tx, stream_id, source))

    def published_rows(
        self, stream_id: int, track_id: int, after: Mark, limit: int, *, through: Mark | None = None
    ) -> PublishedRows:
        reader = self._published_readers.mine()
        with reader.snapshot():
            return published.read_rows(reader, stream_id, track_id, after, limit, through)

    def closed_page(self, stream_id: int, track_id: int, number: int) -> tuple[PublishedRows, ClosedPage] | None:
        return published.read_page(self._published_readers, stream_id, track_id, number)

    def page_ranges(
        self, stream_id: int, track_id: int, bucket: str, digits: int, *, limit: int
    ) -> tuple[list[str], list[PageRange]]:
        return published.read_ranges(self._published_readers, stream_id, track_id, bucket, digits, limit)

    def close_pages(
        self, stream_id: int, part: Part, pages: Sequence[ClosedPage], changed: Sequence[Key], *, is_all: bool
    ) -> Future[bool]:
        def work(tx: Transaction) -> bool:
            if not published.close_pages(tx, stream_id, part, pages, is_all):
                return False
            published.touch_pages(tx, stream_id, part.track_id, changed)
            return True

        return self._published_writer.submit(work)

    def settle_page(self, stream_id: int, track_id: int) -> bool:
        number = published.often_touched(self._published_readers, stream_id, track_id)
        found = None if number is None else self.closed_page(stream_id, track_id, number)
        if number is None or found is None:
            return False
        rows = found[0].rows
        self._published_writer.submit(lambda tx: published.keep_rows(tx, stream_id, track_id, number, rows)).result()
        return True

    # -------------------------------------------------------------- layers

    def layer_part(self, stream_id: int) -> LayerPart | None:
        return published_layers.read_part(self._published_readers, stream_id)

    def feature_versions(self, stream_id: int, number: int, sequence: int, limit: int) -> FeatureVersions:
        return published_layers.read_versions(self._published_readers, stream_id, number, sequence, limit)

    def feature_page(self, stream_id: int, page: int) -> ClosedFeaturePage | None:
        return published_layers.read_page(self._published_readers, stream_id, page)

    def versions_of(
        self, stream_id: int, page: ClosedFeaturePage, fields: Sequence[Field]
    ) -> tuple[FeatureVersion, ...]:
        return published_layers.read_page_versions(self._published_readers, stream_id, page, fields)

    def feature_page_ranges(
        self, stream_id: int, bucket: str, digits: int, *, limit: int
    ) -> tuple[list[str], list[PageRange]]:
        return published_layers.read_ranges(self._published_readers, stream_id, bucket, digits, limit)

    def close_feature_pages(
        self, stream_id: int, pages_before: int, pages: Sequence[ClosedFeaturePage], number: int
    ) -> Future[bool]:
        return self._published_writer.submit(
            lambda tx: published_layers.close_pages(tx, stream_id, pages_before, pages, number)
        )

    # -------------------------------------------------------------- parts that wait

    def waiting_parts(self, stream_id: int, after: int, *, limit: int) -> tuple[list[tuple[int, int, int]], int]:
        reader = self._published_readers.mine()
        with reader.snapshot():
            ((commit,),) = reader.rows(COMMIT)
            if commit <= after:
                return [], after
            rows = reader.rows(published.WAITING, (stream_id, after, limit))
        if len(rows) == limit:
            # Those of the last commit may go on; they are looked at once more.
            commit = max(after, rows[-1][3] - 1)
        return [(track_id, count, changes) for track_id, count, changes, _ in rows], commit
