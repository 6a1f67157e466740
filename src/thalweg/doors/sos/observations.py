"""GetObservation and GetObservationById: a selection of observations to an answer in the format asked for."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import numpy as np

from thalweg.domain.blocks import Block, BoolArray, Column, ValueKind
from thalweg.domain.bounded import Bounded
from thalweg.domain.catalogue import Feature, ObservedProperty
from thalweg.domain.errors import InvalidParameter, TooLarge
from thalweg.domain.geometry import Geometry
from thalweg.domain.observations import parse_observation_id
from thalweg.domain.selection import ObservationQuery, Selected
from thalweg.domain.snapshot import Catalogue, View
from thalweg.domain.time import DAY_US, Interval
from thalweg.doors.http import Response
from thalweg.doors.sos.capabilities10 import offerings_named
from thalweg.doors.sos.describe import procedures_named
from thalweg.doors.sos.filters import Comparison
from thalweg.doors.sos.request import GetObservation, GetObservationById
from thalweg.doors.sos.times import TimeFilter
from thalweg.doors.sos.versions import V1, Writer
from thalweg.encode import om10, om20, sos_csv, sos_json
from thalweg.services.catalogue import resolve_features, resolve_properties, resolve_srid
from thalweg.services.observe import closed
from thalweg.services.projection import CrsReference, is_known, northing_first, transform
from thalweg.services.services import Services

WIDE_PROCEDURES: Final = 64
"""Of more procedures than this, observations are selected where the answer is pulled, not where it is asked for."""
MAX_REMEMBERED: Final = 4096
"""Most requests of which the plan is remembered, for each catalogue."""
MAX_WORKSPACES: Final = 64
"""Most workspaces, and views of one, of which plans are remembered."""
MAX_IDS: Final = 1000
"""Most ids of one GetObservationById."""
_CRS_URI: Final = "http://www.opengis.net/def/crs/EPSG/0/"
# The two answers differ in the names of two elements alone. Tags are never part of a text, where '<' is escaped.
_NAMES_BY_ID: Final = (
    (b"<sos:GetObservationResponse ", b"<sos:GetObservationByIdResponse "),
    (b"</sos:GetObservationResponse>", b"</sos:GetObservationByIdResponse>"),
    (b"<sos:observationData>", b"<sos:observation>"),
    (b"</sos:observationData>", b"</sos:observation>"),
)


def get_observation(asked: GetObservation, services: Services, catalogue: Catalogue) -> Response:
    """Select, filter, write. Raises what names and limits give rise to; all else comes with the body's first block."""
    plan = _Plans.of(catalogue).plan(asked, services)
    query = _query(asked, plan, services)
    if plan.chosen is None:
        # Selecting alone takes a while then: it is left to whoever pulls the answer.
        return Response(_later(asked, plan, query, services, catalogue), asked.response_format.content_type)
    selections = _filtered(asked, services.observe.read(plan.chosen, query), catalogue)
    return Response(_write(asked, plan, selections), asked.response_format.content_type)


def _later(
    asked: GetObservation, plan: _Plan, query: ObservationQuery, services: Services, catalogue: Catalogue
) -> Iterator[bytes]:
    body = _write(asked, plan, _filtered(asked, services.observe.select(catalogue, query), catalogue))
    if isinstance(body, bytes):
        yield body
    else:
        yield from body


def _filtered(asked: GetObservation, selections: list[Selected], catalogue: Catalogue) -> list[Selected]:
    if asked.time.exactly:
        for selected in selections:
            selected.blocks = _of_exact_times(selected.blocks, asked.time)
    if asked.result is not None:
        _filter_results(selections, asked.result, catalogue)
    return selections


def _is_wide(query: ObservationQuery, catalogue: Catalogue) -> bool:
    """Whether more procedures may be asked for than can be read within some milliseconds."""
    if query.procedures is not None:
        return len(query.procedures) > WIDE_PROCEDURES
    if query.offerings is not None:
        return sum(len(offering.procedure_ids) for offering in query.offerings) > WIDE_PROCEDURES
    return len(catalogue.procedures) > WIDE_PROCEDURES


def _query(asked: GetObservation, plan: _Plan, services: Services) -> ObservationQuery:
    """The plan's query at the times asked for. Raises InvalidParameter, TooLarge for too long a period."""
    time = asked.time
    phenomenon = time.phenomenon
    if time.exactly:
        phenomenon = (*(phenomenon or ()), *(closed(begin, end) for begin, end in time.exactly))
    if services.settings.max_period_days:
        _check_period(asked, phenomenon or time.result, services.settings.max_period_days)
    query = plan.query
    return ObservationQuery(
        query.offerings, query.procedures, query.properties, query.features, query.spatial,
        phenomenon, time.result, time.latest, time.first, asked.version == V1,
    )  # fmt: skip


class _Plan(NamedTuple):
    """What a request leads to whatever its time.

    query   names looked up, no time
    chosen  the tracks; None where they are too many to be kept
    places  of each chosen one: geometry, name of its CRS, whether north comes first
    """

    query: ObservationQuery
    chosen: list[Selected] | None
    places: list[_Place]


class _Plans:
    """Plans made of one catalogue, remembered as long as it is the newest of its workspace and view."""

    _newest: ClassVar[Bounded[tuple[int, View | None], _Plans]] = Bounded(MAX_WORKSPACES)

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self._kept: Bounded[int, tuple[GetObservation, _Plan]] = Bounded(MAX_REMEMBERED)

    @staticmethod
    def of(catalogue: Catalogue) -> _Plans:
        key = catalogue.key
        plans = _Plans._newest.get(key)
        if plans is None or plans.catalogue is not catalogue:
            plans = _Plans._newest.put(key, _Plans(catalogue))
        return plans

    def plan(self, asked: GetObservation, services: Services) -> _Plan:
        """Raises NotFound naming the parameter, InvalidParameter for the CRS."""
        timeless = asked.timeless
        if timeless is None:
            return self._made(asked, services)
        kept = self._kept.get(id(timeless))
        if kept is not None and kept[0] is timeless:
            return kept[1]
        plan = self._made(asked, services)
        if plan.chosen is not None:
            self._kept.put(id(timeless), (timeless, plan))
        return plan

    def _made(self, asked: GetObservation, services: Services) -> _Plan:
        catalogue = self.catalogue
        if asked.crs is not None:
            resolve_srid(catalogue, asked.crs.srid, "srsName" if asked.version == V1 else "crs")
        query = ObservationQuery(
            offerings_named(catalogue, asked.offerings) if asked.offerings else None,
            procedures_named(catalogue, asked.procedures, "procedure") if asked.procedures else None,
            resolve_properties(catalogue, asked.observed_properties, "observedProperty")
            if asked.observed_properties
            else None,
            resolve_features(catalogue, asked.features, "featureOfInterest") if asked.features else None,
            asked.spatial,
        )
        if _is_wide(query, catalogue):
            return _Plan(query, None, [])
        chosen = services.observe.choose(catalogue, query)
        is_placed = asked.response_format.writer is not Writer.CSV
        return _Plan(query, chosen, _places(chosen, asked.crs, asked.version) if is_placed else [])


def _check_period(asked: GetObservation, intervals: Sequence[Interval] | None, limit_days: int) -> None:
    """Refuses more than the longest period allowed, all intervals together.

    source  istSOS maxGoPeriod: InvalidParameterValue in SOS 1.0, ResponseExceedsSizeLimit in 2.0
    """
    if asked.time.latest or asked.time.first:
        return
    asked_us = math.inf if intervals is None else sum(max(0, i.end_us - i.begin_us) for i in intervals)
    # The microsecond that makes a closed end half-open is not counted.
    if asked_us <= limit_days * DAY_US + len(intervals or ()):
        return
    message = f"At most {limit_days:,} days may be asked for at once (setting max_period_days)."
    if asked.version == V1:
        raise InvalidParameter("eventTime", message)
    raise TooLarge(message)


# ---------------------------------------------------------------- writing


def _write(asked: GetObservation, plan: _Plan, selections: list[Selected]) -> bytes | Iterator[bytes]:
    """The document, whole if it is short."""
    name = description = ""
    offerings = plan.query.offerings
    if offerings:
        name, description = offerings[0].name, offerings[0].description
    places = plan.places
    if plan.chosen is None and asked.response_format.writer is not Writer.CSV:
        places = _places(selections, asked.crs, asked.version)
    return _document(
        selections, places, asked.response_format.writer, asked.version,
        name=name, description=description, offset_s=asked.time.offset_s, with_quality=asked.with_quality,
        merged=asked.merged,
    )  # fmt: skip


def _document(
    selections: list[Selected],
    places: list[_Place],
    writer: Writer,
    version: str,
    *,
    name: str,
    description: str,
    offset_s: int,
    with_quality: bool,
    merged: bool = False,
) -> bytes | Iterator[bytes]:
    if writer is Writer.CSV:
        return sos_csv.csv(selections, offset_s=offset_s, with_quality=with_quality)
    members = _members(selections, places)
    if writer is Writer.JSON:
        return sos_json.collection(
            members, name=name, description=description, offset_s=offset_s, with_quality=with_quality
        )
    if version == V1:
        return om10.collection(
            members, name=name, description=description, offset_s=offset_s, with_quality=with_quality
        )
    return om20.response(members, offset_s=offset_s, with_quality=with_quality, merged=merged)


def _members(selections: list[Selected], places: list[_Place]) -> list[om10.Member]:
    return [om10.Member(selected, *place) for selected, place in zip(selections, places, strict=True)]


_Place: TypeAlias = tuple[Geometry | None, str, bool]
"""Geometry, name of its CRS, whether north comes first."""


def _places(selections: Iterable[Selected], crs: CrsReference | None, version: str) -> list[_Place]:
    """Of each selection the geometry and CRS name to write: as asked for, else the feature's own CRS, by EPSG:n (x y)
    in SOS 1.0 and by the http URI (the authority's order) in 2.0."""
    moved: dict[int, _Place] = {}
    places = []
    for selected in selections:
        feature = selected.feature
        place = moved.get(feature.id)
        if place is None:
            place = moved[feature.id] = _place(feature, crs, version)
        places.append(place)
    return places


def _place(feature: Feature, crs: CrsReference | None, version: str) -> _Place:
    geometry = feature.geometry
    if geometry is None:
        return None, "", False
    if crs is not None:
        return transform(geometry, crs.srid), crs.name, crs.northing_first
    if version == V1:
        return geometry, f"EPSG:{geometry.srid}", False
    return geometry, f"{_CRS_URI}{geometry.srid}", is_known(geometry.srid) and northing_first(geometry.srid)


# ---------------------------------------------------------------- filters on rows


def _of_exact_times(blocks: Iterator[Block], time: TimeFilter) -> Iterator[Block]:
    """Rows whose phenomenon time equals one of the periods, or lies in one of the intervals."""
    for block in blocks:
        begin = block.end if block.begin is None else block.begin
        mask = np.zeros(len(block), np.bool_)
        for first, last in time.exactly:
            mask |= (begin == first) & (block.end == last)
        for interval in time.phenomenon or ():
            mask |= (begin >= interval.begin_us) & (block.end < interval.end_us)
        if mask.any():
            yield block.take(mask)


_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
Test = Callable[[Any], BoolArray]


def _filter_results(selections: list[Selected], comparison: Comparison, catalogue: Catalogue) -> None:
    """Leave only values that pass: of the property named, or of every one. A row without any that passes goes."""
    named: set[int] | None = None
    if comparison.name:
        named = {p.id for p in resolve_properties(catalogue, [comparison.name], "result")}
    tests: dict[ValueKind, Test | None] = {}
    tested_any = not selections
    for selected in selections:
        wanted: dict[int, Test] = {}
        for observed, series in zip(selected.properties, selected.series, strict=True):
            if named is not None and observed.id not in named:
                continue
            if series.kind not in tests:
                tests[series.kind] = _test(comparison, series.kind, observed, required=named is not None)
            test = tests[series.kind]
            if test is not None:
                wanted[observed.id] = test
        tested_any = tested_any or bool(wanted)
        selected.blocks = _passing(selected.blocks, wanted) if wanted else iter(())
    if not tested_any:
        raise InvalidParameter(
            "result",
            f"The filter of results tests '{comparison.name or comparison.literal}', "
            "which none of the observed properties asked for can be compared with.",
        )


def _test(comparison: Comparison, kind: ValueKind, observed: ObservedProperty, *, required: bool) -> Test | None:
    """The comparison for one kind of value; None where its literal is none of that kind."""
    low = _literal(comparison.literal, kind)
    high = _literal(comparison.upper, kind) if comparison.operator == "between" else None
    if low is None or (comparison.operator == "between" and high is None):
        if required:
            raise InvalidParameter(
                "result",
                f"'{comparison.literal[:60]}' cannot be compared with values of '{observed.identifier}' ({kind}).",
            )
        return None
    if comparison.operator == "between":
        return lambda values: np.asarray((values >= low) & (values <= high), np.bool_)
    compare = _OPERATORS[comparison.operator]
    return lambda values: np.asarray(compare(values, low), np.bool_)


def _literal(text: str, kind: ValueKind) -> Any:
    if kind is ValueKind.TEXT:
        return text
    if kind is ValueKind.BOOLEAN:
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower())
    try:
        value = float(text) if len(text) <= 60 and text.isascii() and "_" not in text else math.nan
    except ValueError:
        return None
    if kind is ValueKind.INTEGER and value.is_integer() and text.lstrip("+-").isdigit() and len(text) <= 18:
        return int(text)
    return value if math.isfinite(value) else None


def _passing(blocks: Iterator[Block], tests: dict[int, Test]) -> Iterator[Block]:
    for block in blocks:
        keep = np.zeros(len(block), np.bool_)
        for property_id, test in tests.items():
            column = block.columns[property_id]
            passed = test(column.values)
            if column.valid is not None:
                passed = passed & column.valid
            keep |= passed
            block.columns[property_id] = _without(column, passed)
        if keep.any():
            yield block.take(keep)


def _without(column: Column, passed: BoolArray) -> Column:
    """The column with only the values that passed."""
    if passed.all():
        return column
    values = column.values.copy()
    values[~passed] = Column.missing(column.kind, 1).values[0]
    return Column(column.kind, values, passed, column.quality, scaled=column.scaled, decimals=column.decimals)


# ---------------------------------------------------------------- by id


def get_observation_by_id(asked: GetObservationById, services: Services, catalogue: Catalogue) -> Response:
    """Single observations by id. An id of nothing gives nothing in SOS 2.0 (OGC 12-006 clause 9.1), an error in 1.0."""
    parameter = "ObservationId" if asked.version == V1 else "observation"
    if len(asked.ids) > MAX_IDS:
        raise InvalidParameter(parameter, f"{len(asked.ids):,} ids are given; at most {MAX_IDS:,} are allowed.")
    if asked.crs is not None:
        resolve_srid(catalogue, asked.crs.srid, "srsName")
    found: list[Selected] = []
    for text in dict.fromkeys(asked.ids):
        selected = _selected_by_id(text, parameter, services, catalogue)
        if selected is not None:
            found.append(selected)
        elif asked.version == V1:
            raise InvalidParameter(parameter, f"There is no observation '{text[:120]}'.")
    if asked.version == V1:
        body = _document(
            found, _places(found, asked.crs, V1), asked.response_format.writer, V1,
            name="", description="", offset_s=0, with_quality=True,
        )  # fmt: skip
        return Response(body, asked.response_format.content_type)
    members = _members(found, _places(found, None, asked.version))
    written = om20.response(members, offset_s=0, with_quality=True)
    document = written if isinstance(written, bytes) else b"".join(written)
    for name, by_id in _NAMES_BY_ID:
        document = document.replace(name, by_id)
    return Response(document, asked.response_format.content_type)


def _selected_by_id(text: str, parameter: str, services: Services, catalogue: Catalogue) -> Selected | None:
    try:
        track_id, key, property_id = parse_observation_id(text, parameter)
    except InvalidParameter:
        return None
    track = catalogue.tracks.get(track_id)
    observed = catalogue.properties.get(property_id)
    if track is None or observed is None:
        return None
    end, begin, result = key
    if begin > end:
        return None
    query = ObservationQuery(
        procedures=(catalogue.procedures[track.procedure_id],),
        properties=(observed,),
        features=(catalogue.features[track.feature_id],),
        phenomenon=(closed(begin, end),),
    )
    for selected in services.observe.select(catalogue, query):
        for block in selected.blocks:
            for row in range(len(block)):
                column = block.columns[property_id]
                if block.key(row) == (end, begin, result) and (column.valid is None or column.valid[row]):
                    selected.blocks = iter((block.take(slice(row, row + 1)),))
                    return selected
    return None
