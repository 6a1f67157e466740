"""Observations as they are asked for, and as a selection of them is handed to encoders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from thalweg.domain.blocks import Block
from thalweg.domain.catalogue import Feature, ObservedProperty, Offering, Procedure, Series, Track, Unit
from thalweg.domain.geometry import SpatialFilter
from thalweg.domain.time import Interval


@dataclass(frozen=True, slots=True)
class ObservationQuery:
    """Which observations are wanted. Every condition given must hold; None or empty means no condition.

    phenomenon  the whole phenomenon time lies in one of the intervals (union)
    half_open   the intervals were asked for as (begin, end] and begin a microsecond after what was asked: a phenomenon
                that lasts may begin where the period does
    result      the result time lies in one of the intervals (union)
    latest      only the newest value of each procedure, feature and property, after the other conditions on names
                and places; not together with intervals
    first       likewise the oldest one
    spatial     the feature's geometry passes all filters; a feature without geometry passes none
    """

    offerings: tuple[Offering, ...] | None = None
    procedures: tuple[Procedure, ...] | None = None
    properties: tuple[ObservedProperty, ...] | None = None
    features: tuple[Feature, ...] | None = None
    spatial: tuple[SpatialFilter, ...] = ()
    phenomenon: tuple[Interval, ...] | None = None
    result: tuple[Interval, ...] | None = None
    latest: bool = False
    first: bool = False
    half_open: bool = False


@dataclass(slots=True)
class Selected:
    """The rows selected of one track.

    properties, series, units  parallel: the wanted ones that the procedure has, in its own order
    blocks                     as ``ObservationStore.scan`` gives them; columns by property id. Consumed once.
                               Rows of ``latest`` may miss values of some properties. A block is never empty
    """

    procedure: Procedure
    feature: Feature
    track: Track
    properties: tuple[ObservedProperty, ...]
    series: tuple[Series, ...]
    units: tuple[Unit, ...]
    blocks: Iterator[Block]
