"""Event streams made of what is stored already: no member of them is kept a second time.

A stream that publishes a procedure or an offering has a *part* for each of their tracks. Members of a part are, in this
order and for ever: rows as they came at the track's end, and changes as the change log has them (late rows,
corrections, deletions). A page takes the rows that are there first, then changes, until it is full; so a change always
follows what it changes, and a closed page is told by two marks, how far it goes among rows and how far among changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from thalweg.domain.blocks import Block
from thalweg.domain.observations import Change

GENERATED_AT: Final = "http://www.w3.org/ns/prov#generatedAtTime"
"""``ldes:timestampPath`` of every published stream."""
VERSION_OF: Final = "http://purl.org/dc/terms/isVersionOf"
"""``ldes:versionOfPath`` of every published stream."""
PUBLISHED_ROWS: Final = 8_192
"""Rows that one call of ``PublishedStore.published_rows`` gives."""
LEAST: Final = -(1 << 63)


class SourceKind(StrEnum):
    """What a stream publishes."""

    PROCEDURE = "procedure"
    OFFERING = "offering"
    LAYER = "layer"


@dataclass(frozen=True, slots=True)
class Source:
    """What a stream is made of.

    target     id of the procedure, offering or layer
    key        what it is known by: the identifier of a procedure or offering, the name of a layer
    page_size  members of a page, more only where one row has more; the same for all views, which share the pages
    newest     id of the newest track when the stream was made: of later ones every change is a member
    """

    kind: SourceKind
    target: int
    page_size: int
    key: str = ""
    newest: int = 0


class Mark(NamedTuple):
    """How far something goes in a part: among rows up to a key, among changes up to a row of an entry.

    end_us, begin_us, result_us  key of the last row; LEAST thrice before the first one
    sequence, row                the first ``row`` rows of that entry of the change log, and all entries before it
    """

    end_us: int
    begin_us: int
    result_us: int
    sequence: int
    row: int

    @property
    def key(self) -> tuple[int, int, int]:
        return self.end_us, self.begin_us, self.result_us


def first_mark(start: int) -> Mark:
    """The mark before the first row and before the first change after entry ``start``."""
    return Mark(LEAST, LEAST, LEAST, start + 1, 0)


@dataclass(frozen=True, slots=True)
class Part:
    """A track as part of a stream.

    start       number of the newest change when it was published: earlier ones are no members
    pages       closed ones, numbered from 1
    members     on them
    mark        how far they go
    generation  of the track's state: raised by every change of its rows
    """

    track_id: int
    start: int
    pages: int
    members: int
    mark: Mark
    generation: int


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Some rows of one entry of the change log: ``change.after`` or, of a deletion, ``change.before`` from ``first`` to
    before ``stop``."""

    change: Change
    first: int
    stop: int

    @property
    def block(self) -> Block:
        """All rows of the entry."""
        return self.change.after if len(self.change.after) else self.change.before

    @property
    def rows(self) -> Block:
        block = self.block
        return block if self.first == 0 and self.stop == len(block) else block.take(slice(self.first, self.stop))

    @property
    def is_done(self) -> bool:
        """Whether these rows are the entry's last ones."""
        return self.stop == len(self.block)


@dataclass(frozen=True, slots=True)
class PublishedRows:
    """What a part holds between two marks, from one snapshot.

    rows     rows as they came, whatever became of them
    changes  empty if there are more rows than were asked for
    mark     how far both go
    """

    rows: Block
    changes: tuple[ChangedRows, ...]
    mark: Mark

    def __len__(self) -> int:
        return len(self.rows) + sum(item.stop - item.first for item in self.changes)


@dataclass(frozen=True, slots=True)
class ClosedPage:
    """A page to be closed, or one that is.

    mark          how far it goes; it begins where the one before ends
    members       on it
    least_us, greatest_us
                  of their timestamps
    bucket        the digits that these have in common, ``YYYYMMDDhhmmss`` cut after a whole unit
    terms         the names it is written with, as the door keeps them
    """

    mark: Mark
    members: int
    least_us: int
    greatest_us: int
    bucket: str
    terms: str


@dataclass(frozen=True, slots=True)
class PageRange:
    """A closed page in a list of a time view."""

    number: int
    members: int
    least_us: int
    greatest_us: int


class PublishedStore(Protocol):
    """Streams made of what is stored. Reached by stream and track."""

    def parts(self, stream_id: int, track_ids: Iterable[int] | None = None) -> dict[int, Part]:
        """The parts of a stream by track, all or those of the given tracks; in the order of the tracks."""
        ...

    def publish_parts(self, stream_id: int) -> Future[int]:
        """Add parts for tracks that the stream's source has and the stream not yet; how many. Of a track made since the
        stream every change is a member; of an older one those from now on."""
        ...

    def published_rows(
        self, stream_id: int, track_id: int, after: Mark, limit: int, *, through: Mark | None = None
    ) -> PublishedRows:
        """What follows a mark: ``limit`` rows at most, first rows as they came, then, if they end before the limit,
        changes; up to the mark ``through``, if it is given, whatever the limit.

        raises  NotFound for an unknown part; DamagedData
        """
        ...

    def closed_page(self, stream_id: int, track_id: int, number: int) -> tuple[PublishedRows, ClosedPage] | None:
        """A closed page, with its rows and changes as they were when it was closed; None for another number."""
        ...

    def page_ranges(
        self, stream_id: int, track_id: int, bucket: str, digits: int, *, limit: int
    ) -> tuple[list[str], list[PageRange]]:
        """What a time view shows below a bucket: the buckets below it, of so many digits (0: none), and the closed
        pages that are in the bucket itself (with 0: in any below it), at most so many of each."""
        ...

    def close_pages(
        self,
        stream_id: int,
        part: Part,
        pages: Sequence[ClosedPage],
        changed: Sequence[tuple[int, int, int]],
        *,
        is_all: bool,
    ) -> Future[bool]:
        """Close pages of a part one after another.

        changed  keys of the rows that changes on these pages are of
        is_all   whether no other page was full; otherwise the part goes on waiting, whatever becomes of who closes
        returns  False, with nothing done, if the part has other pages by now, or is gone
        """
        ...

    def settle_page(self, stream_id: int, track_id: int) -> bool:
        """Let a closed page of which rows were changed many times keep them as they came, so that its cost does not
        grow; whether there was one."""
        ...

    def waiting_parts(self, stream_id: int, after: int, *, limit: int) -> tuple[list[tuple[int, int, int]], int]:
        """Parts changed by commits after one, and since their last page was closed: track, number of rows and of
        changes, at most ``limit``; and the commit up to which these are all."""
        ...
