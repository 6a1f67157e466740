"""Where the features of a layer come from: the store, or something that is made when it is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from thalweg.domain.features import (
    FeatureQuery,
    Features,
    FragmentForm,
    FragmentPage,
    FragmentRun,
    Known,
    LayerState,
)
from thalweg.domain.filters import Filter


class LayerSource(Protocol):
    """The reading half of ``domain.features.FeatureStore``, which every store fulfils, in the same words.

    A source without stored fragments gives runs without content, whose features the caller encodes.
    """

    def layer_state(self, layer_id: int) -> LayerState: ...

    def count_features(self, layer_id: int, where: Filter | None = None) -> int: ...

    def scan_features(self, layer_id: int, query: FeatureQuery = ...) -> Iterator[Features]: ...

    def fragment_page(
        self,
        layer_id: int,
        form: FragmentForm,
        stamp: int,
        offset: int,
        limit: int,
        *,
        shapes: bool = False,
        known: Known | None = None,
    ) -> FragmentPage: ...

    def chosen_fragments(
        self,
        layer_id: int,
        form: FragmentForm,
        stamp: int,
        query: FeatureQuery,
        *,
        shapes: bool = False,
        known: Known | None = None,
    ) -> FragmentPage: ...

    def fragments(
        self, layer_id: int, form: FragmentForm, stamp: int, query: FeatureQuery, *, shapes: bool = False
    ) -> Iterator[FragmentRun]: ...
