"""Read a vector file to its end: what its fields hold, what its geometries are, what is wrong with which feature."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import numpy as np
import shapely

from thalweg.domain.errors import InvalidParameter, InvalidRequest
from thalweg.domain.features import GeometryKind
from thalweg.domain.wkb import NotWkb, check_wkb
from thalweg.loading.features.fields import FieldSurvey
from thalweg.loading.features.geometries import OnInvalid, check, repaired, to_wkb, unusable, without_measures
from thalweg.loading.features.ids import IdSurvey
from thalweg.loading.features.report import LayerReport, Problem, Sink
from thalweg.loading.features.source import Advance, Batch, ReadOptions, Source
from thalweg.loading.features.spool import Spool, Spooled


class IfExists(StrEnum):
    """What becomes of a layer of that name."""

    REFUSE = "refuse"
    REPLACE = "replace"
    """all its features give way to the file's"""
    APPEND = "append"
    """the file's features are added; one with an id that is there takes its place"""


@dataclass(frozen=True, slots=True)
class LayerOptions:
    """What the caller says of a load.

    name        of the layer; empty: that of the file's layer
    srid        CRS of the coordinates, whatever the file says
    id_field    an integer field that becomes the ids
    dimensions  2 drops heights; None: as the file
    title, description, keywords, attribution, licence
                of a new layer; empty ones leave those of a layer that is there
    dry_run     read and report, store nothing
    """

    name: str = ""
    read: ReadOptions = field(default_factory=ReadOptions)
    srid: int | None = None
    id_field: str = ""
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


@dataclass(slots=True)
class Survey:
    """What the whole file has shown."""

    fields: FieldSurvey
    ids: IdSurvey = field(default_factory=IdSurvey)
    types: set[int] = field(default_factory=set)
    heights: set[bool] = field(default_factory=set)
    measured: int = 0
    kept: int = 0


def survey_file(
    source: Source, options: LayerOptions, report: LayerReport, spool: Spool, advance: Advance, sink: Sink | None
) -> Survey:
    """Read the file to its end into the spool. Raises InvalidRequest if it is to be refused."""
    survey = Survey(FieldSurvey(textual=source.textual))
    for batch in source.batches(advance):
        report.read += len(batch) + len(batch.lost)
        kept = _checked(batch, options, report, survey, sink)
        survey.fields.see(batch.names, batch.columns, source.declared)
        columns = batch.columns
        ids = batch.ids
        if options.id_field:
            if options.id_field not in batch.names:
                raise InvalidParameter("id", f"There is no field '{options.id_field[:60]}'; there are: "
                                       f"{', '.join(batch.names)[:300]}.")  # fmt: skip
            ids = columns[batch.names.index(options.id_field)]
            if source.textual:
                ids = [int(v) if isinstance(v, str) and v.lstrip("-").isdigit() else v for v in ids]
        numbers = list(range(batch.first, batch.first + len(batch) + len(batch.lost)))
        if batch.lost:
            gone = {number for number, _ in batch.lost}
            numbers = [number for number in numbers if number not in gone]
        geometries = to_wkb(batch.geometries)
        if len(kept) < len(batch):
            numbers = [numbers[i] for i in kept]
            geometries = [geometries[i] for i in kept]
            columns = [[column[i] for i in kept] for column in columns]
            ids = None if ids is None else [ids[i] for i in kept]
        survey.ids.see(ids, len(kept))
        survey.kept += len(kept)
        spool.add(Spooled(numbers, ids, geometries, batch.names, columns))
    survey.fields.declare(source.declared)
    refused = report.problems.get("refused", 0)
    if refused:
        raise InvalidRequest(f"{refused:,} feature{'s' * (refused != 1)} cannot be loaded as they are; nothing was.")
    if survey.measured:
        report.notes.append(f"{survey.measured:,} geometries have measures (m), which are left out")
    return survey


def _checked(batch: Batch, options: LayerOptions, report: LayerReport, survey: Survey, sink: Sink | None) -> list[int]:
    """Deal with what is wrong in a batch: repairs are made in it. Returns the indexes of features to keep."""
    refusing = options.invalid is OnInvalid.REFUSE
    gone = "refused" if refusing else "skipped"
    for number, why in batch.lost:
        report.add(Problem(report.file, number, "", why, gone), sink)
    batch.geometries, measured = without_measures(batch.geometries)
    survey.measured += measured
    empty = shapely.is_empty(batch.geometries)
    if empty.any():
        batch.geometries[empty] = None
    lost = dict(batch.problems) | dict(unusable(batch.geometries))
    for index, why in sorted(lost.items()):
        # What cannot be written in any format cannot be kept, whatever the choice.
        report.add(_problem(report.file, batch, index, why, gone), sink)
        batch.geometries[index] = None
    for index in np.flatnonzero(shapely.get_type_id(batch.geometries) >= _POLYGON).tolist():
        if why := _not_storable(batch.geometries[index]):
            lost[index] = why
            report.add(_problem(report.file, batch, index, why, gone), sink)
            batch.geometries[index] = None
    for index, why in check(batch.geometries):
        action = {OnInvalid.KEEP: "kept", OnInvalid.SKIP: "skipped", OnInvalid.REFUSE: "refused"}.get(options.invalid)
        if action is None:
            mended = repaired(batch.geometries[index])
            action = "skipped" if mended is None else "repaired"
            batch.geometries[index] = mended
        report.add(_problem(report.file, batch, index, why, action), sink)
        if action in ("skipped", "refused"):
            lost[index] = why
    kept = [i for i in range(len(batch)) if i not in lost] if lost else list(range(len(batch)))
    there = batch.geometries[kept]
    there = there[~shapely.is_missing(there)]
    report.empty += len(kept) - len(there)
    survey.types.update(np.unique(shapely.get_type_id(there)).tolist())
    survey.heights.update(np.unique(shapely.has_z(there)).tolist())
    return kept


def _not_storable(geometry: Any) -> str:
    """Why the store would not take a geometry: a ring of too few positions, an empty part; else an empty text."""
    (wkb,) = to_wkb(np.array([geometry], dtype=object))
    try:
        check_wkb(wkb or b"", GeometryKind.GEOMETRY, 3 if shapely.has_z(geometry) else 2)
    except NotWkb as error:
        return f"the geometry {error}"
    return ""


def _problem(file: str, batch: Batch, index: int, why: str, action: str) -> Problem:
    gone = {number for number, _ in batch.lost}
    numbers = [n for n in range(batch.first, batch.first + len(batch) + len(gone)) if n not in gone]
    found = "" if batch.ids is None or batch.ids[index] is None else str(batch.ids[index])
    return Problem(file, numbers[index], found, why, action)
