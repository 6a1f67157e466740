"""A layer as an event stream: features as they were when it was published, then each version that an edit makes.

The stream has one part. A page takes features first, by number, then changes, until it is full; so a change always
follows what it changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from thalweg.domain.features import Features, Field, Layer
from thalweg.domain.published import PageRange


@dataclass(frozen=True, slots=True)
class LayerPart:
    """How far a published layer is.

    start           number of the newest change when it was published
    last            greatest number of a feature then
    pages, members  closed pages, and members on them
    number          features up to this are on closed pages; sequence: changes up to this
    newest          number of the layer's newest change
    """

    stream_id: int
    layer_id: int
    start: int
    last: int
    pages: int
    members: int
    number: int
    sequence: int
    newest: int


@dataclass(frozen=True, slots=True)
class FeatureVersion:
    """A version of a feature.

    sequence  of the change that made it; 0: as it was at publication
    at_us     when the change was made; 0 at publication
    feature   one row; None: deleted
    """

    number: int
    version: int
    sequence: int
    at_us: int
    feature: Features | None


@dataclass(frozen=True, slots=True)
class FeatureVersions:
    """What follows a place: versions, and how far they go. ``layer``: as it was read with them."""

    layer: Layer
    versions: tuple[FeatureVersion, ...]
    number: int
    sequence: int


@dataclass(frozen=True, slots=True)
class ClosedFeaturePage:
    """A page to be closed, or one that is.

    numbers      features on it as they were at publication
    first, last  its changes are those after the first and up to the last
    """

    numbers: tuple[int, ...]
    first: int
    last: int
    members: int
    least_us: int
    greatest_us: int
    bucket: str
    terms: str


class PublishedLayerStore(Protocol):
    """Layers made event streams. Reached by stream."""

    def layer_part(self, stream_id: int) -> LayerPart | None: ...

    def feature_versions(self, stream_id: int, number: int, sequence: int, limit: int) -> FeatureVersions:
        """What follows a place among features and changes, at most ``limit`` versions, from one snapshot; fewer where
        many features have gone, so only none at the same place means the end. NotFound; DamagedData."""
        ...

    def feature_page(self, stream_id: int, page: int) -> ClosedFeaturePage | None: ...

    def versions_of(
        self, stream_id: int, page: ClosedFeaturePage, fields: Sequence[Field]
    ) -> tuple[FeatureVersion, ...]:
        """The versions of a closed page, with these fields (by their numbers): the same at any time. NotFound;
        DamagedData."""
        ...

    def feature_page_ranges(
        self, stream_id: int, bucket: str, digits: int, *, limit: int
    ) -> tuple[list[str], list[PageRange]]:
        """As ``PublishedStore.page_ranges``."""
        ...

    def close_feature_pages(
        self, stream_id: int, pages_before: int, pages: Sequence[ClosedFeaturePage], number: int
    ) -> Future[bool]:
        """Close pages one after another; ``number``: how far they go among features. False, with nothing done, if
        there are other pages by now, or the stream is gone."""
        ...
