"""Selecting observations over a store that holds prepared blocks."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from thalweg.domain.blocks import Block, Column, ValueKind
from thalweg.domain.catalogue import Feature, ObservedProperty, Offering, Procedure, Series, Track, Unit, Workspace
from thalweg.domain.geometry import Envelope, SpatialFilter, SpatialOperator, point
from thalweg.domain.observations import LastValue, SeriesState, TrackState
from thalweg.domain.selection import ObservationQuery, Selected
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.time import ALL_TIME, Interval
from thalweg.services.observe import Observe, closed, open_begin, union


class PreparedStore:
    """Holds one block per track and answers scans from it; nothing else of the contract is needed here."""

    def __init__(self, blocks: dict[int, Block], states: dict[int, TrackState]) -> None:
        self.blocks = blocks
        self._states = states

    def scan(
        self,
        track_id: int,
        property_ids: Sequence[int],
        interval: Interval = ALL_TIME,
        *,
        descending: bool = False,
        rows: int = 8192,
    ) -> Iterator[Block]:
        block = self.blocks.get(track_id)
        if block is None:
            return
        mask = (block.end >= interval.begin_us) & (block.end < interval.end_us)
        present = np.zeros(len(block), np.bool_)
        for i in property_ids:
            column = block.columns[i]
            present |= True if column.valid is None or block.position is not None else column.valid
        index = np.flatnonzero(mask & present)[:rows]
        if len(index):
            part = block.take(index)
            part.columns = {i: part.columns[i] for i in property_ids}
            yield part

    def states(self, track_ids: Iterable[int]) -> dict[int, TrackState]:
        return {i: self._states[i] for i in track_ids if i in self._states}


def last(end: int, value: float) -> LastValue:
    return LastValue(end, end, end, value, 100)


def observe() -> tuple[Observe, Catalogue]:
    end = np.array([10, 20, 30], np.int64)
    intervals = Block(
        end,
        {1: Column.of(ValueKind.NUMBER, [7.0, 8.0, 9.0])},
        begin=np.array([5, 12, 25]),
        result_time=np.array([100, 200, 300]),
    )
    plain = Block(
        end, {1: Column.of(ValueKind.NUMBER, [1.0, 2.0, 3.0]), 2: Column.of(ValueKind.NUMBER, [None, 5.0, None])}
    )
    store: Any = PreparedStore(
        {1: plain, 2: intervals},
        {
            1: TrackState(
                1, 10, 30, 3, 1,
                {1: SeriesState(1, 10, 30, 3, last(30, 3.0)), 2: SeriesState(2, 20, 20, 1, last(20, 5.0))},
            ),
        },
    )  # fmt: skip
    catalogue = Catalogue(
        Workspace(1, "w", "default"),
        units={1: Unit(1, "Cel")},
        properties={1: ObservedProperty(1, "", "urn:1", "one"), 2: ObservedProperty(2, "", "urn:2", "two")},
        features={1: Feature(1, "", "urn:f1", "f1", geometry=point(8, 46)), 2: Feature(2, "", "urn:f2", "f2")},
        procedures={
            1: Procedure(1, "", "urn:p1", "p1", "s1", series=(Series(1, 1), Series(2, 1)), feature_id=1),
            2: Procedure(2, "", "urn:p2", "p2", "s2", series=(Series(1, 1),), feature_id=2),
        },
        offerings={
            1: Offering(1, "", "urn:o", "net", procedure_ids=(1, 2)),
            2: Offering(2, "", "urn:o2", "p2-own", procedure_ids=(2,)),
        },
        tracks={1: Track(1, 1, 1), 2: Track(2, 2, 2)},
    )
    return Observe(store), catalogue


def times(selected: list[Selected]) -> dict[str, list[int]]:
    return {s.procedure.name: [t for b in s.blocks for t in b.end.tolist()] for s in selected}


def test_every_condition_must_hold() -> None:
    service, catalogue = observe()
    everything = service.select(catalogue, ObservationQuery())
    assert times(everything) == {"p1": [10, 20, 30], "p2": [10, 20, 30]}
    both = ObservationQuery(offerings=(catalogue.offerings[2],), procedures=(catalogue.procedures[1],))
    assert service.select(catalogue, both) == []
    own = service.select(catalogue, ObservationQuery(offerings=(catalogue.offerings[2],)))
    assert [s.procedure.id for s in own] == [2]
    only_two = service.select(catalogue, ObservationQuery(properties=(catalogue.properties[2],)))
    assert times(only_two) == {"p1": [20]}
    here = ObservationQuery(features=(catalogue.features[1],))
    assert [s.procedure.id for s in service.select(catalogue, here)] == [1]


def test_a_feature_without_geometry_passes_no_spatial_filter() -> None:
    service, catalogue = observe()
    world = SpatialFilter(SpatialOperator.BBOX, Envelope(-180, -90, 180, 90))
    assert [s.procedure.id for s in service.select(catalogue, ObservationQuery(spatial=(world,)))] == [1]


def test_the_whole_phenomenon_time_must_lie_in_an_interval() -> None:
    service, catalogue = observe()
    query = ObservationQuery(procedures=(catalogue.procedures[2],), phenomenon=(Interval(10, 21), Interval(26, 31)))
    assert times(service.select(catalogue, query)) == {"p2": [20]}
    wide = ObservationQuery(procedures=(catalogue.procedures[2],), phenomenon=(Interval(0, 40),))
    assert times(service.select(catalogue, wide)) == {"p2": [10, 20, 30]}


def test_an_interval_may_begin_where_a_half_open_period_does() -> None:
    """Sums of an hour, paged by day as (begin, end]: the first hour of each day belongs to it."""
    service, catalogue = observe()
    only = (catalogue.procedures[2],)
    # Rows are 5-10, 12-20 and 25-30; the period asked for is (12, 30].
    half_open = ObservationQuery(procedures=only, phenomenon=(open_begin(12, 30),), half_open=True)
    assert times(service.select(catalogue, half_open)) == {"p2": [20, 30]}
    closed_period = ObservationQuery(procedures=only, phenomenon=(closed(13, 30),))
    assert times(service.select(catalogue, closed_period)) == {"p2": [30]}


def test_result_times_are_a_condition_of_their_own() -> None:
    service, catalogue = observe()
    query = ObservationQuery(phenomenon=(Interval(0, 100),), result=(Interval(150, 250), Interval(300, 301)))
    assert times(service.select(catalogue, query)) == {"p1": [], "p2": [20, 30]}


def test_the_latest_value_of_each_property_is_in_its_own_row() -> None:
    service, catalogue = observe()
    selected = service.select(catalogue, ObservationQuery(procedures=(catalogue.procedures[1],), latest=True))
    (block,) = selected[0].blocks
    assert block.end.tolist() == [20, 30]
    assert block.begin is None
    one, two = block.columns[1], block.columns[2]
    assert one.valid is not None
    assert two.valid is not None
    assert (one.valid.tolist(), two.valid.tolist()) == ([False, True], [True, False])
    assert (one.values[1], two.values[0]) == (3.0, 5.0)
    assert times(service.select(catalogue, ObservationQuery(latest=True)))["p2"] == []


def test_the_first_value_of_each_property() -> None:
    service, catalogue = observe()
    selected = service.select(catalogue, ObservationQuery(procedures=(catalogue.procedures[1],), first=True))
    (block,) = selected[0].blocks
    assert block.end.tolist() == [10, 20]
    assert (block.columns[1].values[0], block.columns[2].values[1]) == (1.0, 5.0)


def test_the_first_value_is_not_that_of_a_row_with_a_position_alone() -> None:
    service, catalogue = observe()
    store: Any = service._store
    values: list[float | None] = [None, None, 3.0]
    store.blocks[1].columns = {1: Column.of(ValueKind.NUMBER, values), 2: Column.missing(ValueKind.NUMBER, 3)}
    store.blocks[1].position = np.ones((3, 3))
    selected = service.select(catalogue, ObservationQuery(procedures=(catalogue.procedures[1],), first=True))
    (block,) = selected[0].blocks
    assert (block.end.tolist(), block.columns[1].values.tolist()) == ([30], [3.0])
    assert block.columns[2].valid is not None
    assert not block.columns[2].valid.any()


def test_a_union_is_sorted_and_disjoint() -> None:
    assert union([Interval(5, 9), Interval(1, 3), Interval(3, 4), Interval(7, 12), Interval(20, 20)]) == (
        Interval(1, 4),
        Interval(5, 12),
    )


def test_the_two_readings_of_a_period() -> None:
    assert [t in closed(10, 20) for t in (9, 10, 20, 21)] == [False, True, True, False]
    assert [t in open_begin(10, 20) for t in (10, 11, 20, 21)] == [False, True, True, False]
