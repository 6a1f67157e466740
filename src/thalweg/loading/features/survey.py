"""Read a vector file to its end: what its fields hold, what its geometries are, what is wrong with which feature."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import numpy as np
import shapely

from thalweg.domain.errors import InvalidParameter, InvalidRequest
from thalweg.domain.features import FieldKind, GeometryKind
from thalweg.domain.wkb import NotWkb, check_wkb
from thalweg.loading.features.curve import Located
from thalweg.loading.features.fields import FieldSurvey, SeenColumns, see_columns
from thalweg.loading.features.geometries import (
    OnInvalid,
    beyond_poles,
    check,
    repaired,
    to_wkb,
    unusable,
    without_measures,
)
from thalweg.loading.features.ids import IdPart, IdSurvey, ids_of
from thalweg.loading.features.report import LayerReport, Problem, Sink
from thalweg.loading.features.source import Advance, Batch, ReadOptions, Source
from thalweg.loading.features.spool import Spool, Spooled
from thalweg.loading.features.workers import Task, Workers
from thalweg.services.projection import in_degrees


class IfExists(StrEnum):
    """What becomes of a layer of that name."""

    REFUSE = "refuse"
    REPLACE = "replace"
    """all its features give way to the file's"""
    APPEND = "append"
    """the file's features are added; one with an id that is there takes its place"""


class Order(StrEnum):
    """The order in which features are numbered, which is that in which they lie in the store and come out of it."""

    FILE = "file"
    """by the file's ids or, where it gives none, as it has them"""
    SPACE = "space"
    """along a curve on which neighbours in space are neighbours; the file's ids are not kept"""


@dataclass(frozen=True, slots=True)
class LayerOptions:
    """What the caller says of a load.

    name        of the layer; empty: that of the file's layer
    srid        CRS of the coordinates, whatever the file says
    id_field    an integer field that becomes the ids
    order       in which features are numbered
    dimensions  2 drops heights; None: as the file
    title, description, keywords, attribution, licence
                of a new layer; empty ones leave those of a layer that is there
    dry_run     read and report, store nothing
    """

    name: str = ""
    read: ReadOptions = field(default_factory=ReadOptions)
    srid: int | None = None
    id_field: str = ""
    order: Order = Order.FILE
    invalid: OnInvalid = OnInvalid.KEEP
    if_exists: IfExists = IfExists.REFUSE
    dimensions: int | None = None
    title: str = ""
    description: str = ""
    keywords: tuple[str, ...] = ()
    attribution: str = ""
    licence: str = ""
    public: bool | None = None
    dry_run: bool = False


_POLYGON: Final = 3
"""The geometry library's number of polygons; those of collections are higher."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a batch is looked at by.

    file      its name, for findings
    declared  fields as the file declares them
    textual   values are texts whatever they mean
    degrees   y is a latitude in degrees
    """

    file: str
    options: LayerOptions
    declared: dict[str, FieldKind | None]
    textual: bool
    degrees: bool


@dataclass(frozen=True, slots=True)
class Examined:
    """What a batch has shown, and its features, packed, as they are to be kept.

    read      features of the file, with those that could not be read
    kept      features in ``packed``; empty: of these, without a geometry
    types     the geometry library's numbers of types
    heights   whether geometries have z
    measured  geometries that had measures
    located   where they lie, for an order in space
    """

    packed: bytes
    read: int
    kept: int
    empty: int
    problems: list[Problem]
    fields: SeenColumns
    ids: IdPart
    types: set[int]
    heights: set[bool]
    measured: int
    located: Located | None


@dataclass(slots=True)
class Survey:
    """What the whole file has shown. ``located``: by batches, for an order in space."""

    fields: FieldSurvey
    ids: IdSurvey = field(default_factory=IdSurvey)
    types: set[int] = field(default_factory=set)
    heights: set[bool] = field(default_factory=set)
    measured: int = 0
    kept: int = 0
    located: list[Located] = field(default_factory=list)


def survey_file(
    source: Source,
    options: LayerOptions,
    report: LayerReport,
    spool: Spool,
    advance: Advance,
    sink: Sink | None,
    workers: Workers,
) -> Survey:
    """Read the file to its end into the spool. Raises InvalidRequest if it is to be refused."""
    in_space = options.order is Order.SPACE
    ids = IdSurvey("they tell nothing of the order in space" if in_space else "")
    survey = Survey(FieldSurvey(textual=source.textual), ids)
    parse = source.parse

    def tasks() -> Iterator[Task[Examined]]:
        for chunk in source.chunks(advance):
            srid = options.srid or source.srid
            degrees = srid is not None and in_degrees(srid)
            reading = Reading(report.file, options, dict(source.declared), source.textual, degrees)
            yield examine, (chunk, parse, reading)

    # What is no quicker to send than to look at stays here.
    here = Workers(0) if parse is None else workers
    for part in here.map(tasks()):
        report.read += part.read
        report.empty += part.empty
        for problem in part.problems:
            report.add(problem, sink)
        survey.fields.see(part.fields)
        survey.ids.see(part.ids)
        survey.types |= part.types
        survey.heights |= part.heights
        survey.measured += part.measured
        survey.kept += part.kept
        if part.located is not None:
            survey.located.append(part.located)
        spool.add(part.packed)
    survey.fields.declare(source.declared)
    refused = report.problems.get("refused", 0)
    if refused:
        raise InvalidRequest(f"{refused:,} feature{'s' * (refused != 1)} cannot be loaded as they are; nothing was.")
    if survey.measured:
        report.notes.append(f"{survey.measured:,} geometries have measures (m), which are left out")
    return survey


def examine(chunk: Any, parse: Callable[[Any], Batch] | None, reading: Reading) -> Examined:
    """Look at a part of a file. Raises InvalidParameter ``id`` where the field that gives the ids is not there."""
    batch: Batch = chunk if parse is None else parse(chunk)
    options = reading.options
    numbers = list(range(batch.first, batch.first + len(batch) + len(batch.lost)))
    if batch.lost:
        gone = {number for number, _ in batch.lost}
        numbers = [number for number in numbers if number not in gone]
    problems = [_lost(reading, number, why) for number, why in batch.lost]
    kept, measured = _checked(batch, numbers, reading, problems)
    columns = batch.columns
    ids = batch.ids
    if options.id_field:
        if options.id_field not in batch.names:
            raise InvalidParameter("id", f"There is no field '{options.id_field[:60]}'; there are: "
                                   f"{', '.join(batch.names)[:300]}.")  # fmt: skip
        ids = columns[batch.names.index(options.id_field)]
        if reading.textual:
            ids = [int(v) if isinstance(v, str) and v.lstrip("-").isdigit() else v for v in ids]
    fields = see_columns(batch.names, columns, reading.declared, textual=reading.textual)
    there = batch.geometries
    if len(kept) < len(batch):
        numbers = [numbers[i] for i in kept]
        there = there[kept]
        columns = [[column[i] for i in kept] for column in columns]
        ids = None if ids is None else [ids[i] for i in kept]
    given = ids_of(ids)
    wkb = to_wkb(there)
    packed = Spooled(
        numbers, None if given.numbers is None else given.numbers.tobytes(), wkb, batch.names, columns
    ).packed()
    located = Located.of(there, wkb, len(packed)) if options.order is Order.SPACE else None
    missing = shapely.is_missing(there)
    there = there[~missing]
    return Examined(
        packed,
        len(batch) + len(batch.lost),
        len(kept),
        int(missing.sum()),
        problems,
        fields,
        given,
        set(np.unique(shapely.get_type_id(there)).tolist()),
        set(np.unique(shapely.has_z(there)).tolist()),
        measured,
        located,
    )


_ACTIONS: Final = {OnInvalid.KEEP: "kept", OnInvalid.SKIP: "skipped", OnInvalid.REFUSE: "refused"}


def _gone(options: LayerOptions) -> str:
    """What becomes of a feature that cannot be kept, whatever the choice."""
    return "refused" if options.invalid is OnInvalid.REFUSE else "skipped"


def _lost(reading: Reading, number: int, why: str) -> Problem:
    return Problem(reading.file, number, "", why, _gone(reading.options))


def _checked(batch: Batch, numbers: list[int], reading: Reading, problems: list[Problem]) -> tuple[list[int], int]:
    """Deal with what is wrong in a batch: repairs are made in it. Returns the indexes of features to keep, and how many
    had measures."""
    invalid = reading.options.invalid

    def found(index: int, why: str, action: str) -> None:
        name = "" if batch.ids is None or batch.ids[index] is None else str(batch.ids[index])
        problems.append(Problem(reading.file, numbers[index], name, why, action))

    batch.geometries, measured = without_measures(batch.geometries)
    empty = shapely.is_empty(batch.geometries)
    if empty.any():
        batch.geometries[empty] = None
    lost = dict(batch.problems) | dict(unusable(batch.geometries))
    for index, why in sorted(lost.items()):
        # What cannot be written in any format cannot be kept, whatever the choice.
        found(index, why, _gone(reading.options))
        batch.geometries[index] = None
    for index in np.flatnonzero(shapely.get_type_id(batch.geometries) >= _POLYGON).tolist():
        if why := _not_storable(batch.geometries[index]):
            lost[index] = why
            found(index, why, _gone(reading.options))
            batch.geometries[index] = None
    for index, why in check(batch.geometries):
        action = _ACTIONS.get(invalid)
        if action is None:
            mended = repaired(batch.geometries[index])
            action = "skipped" if mended is None else "repaired"
            batch.geometries[index] = mended
        found(index, why, action)
        if action in ("skipped", "refused"):
            lost[index] = why
    if reading.degrees:
        for index, why in beyond_poles(batch.geometries):
            # Nothing tells where it should be: there is no repair.
            action = _ACTIONS.get(invalid, "skipped")
            if index not in lost:
                found(index, why, action)
                if action != "kept":
                    lost[index] = why
    return [i for i in range(len(batch)) if i not in lost] if lost else list(range(len(batch))), measured


def _not_storable(geometry: Any) -> str:
    """Why the store would not take a geometry: a ring of too few positions, an empty part; else an empty text."""
    (wkb,) = to_wkb(np.array([geometry], dtype=object))
    try:
        check_wkb(wkb or b"", GeometryKind.GEOMETRY, 3 if shapely.has_z(geometry) else 2)
    except NotWkb as error:
        return f"the geometry {error}"
    return ""
