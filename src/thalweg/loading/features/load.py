"""Load a vector file into a layer: survey the whole file, then store it under a name of its own until it is complete.

Readers of a layer that is replaced see the old features until the new ones are all there. A load that is interrupted
leaves a layer ``_loading.NAME`` behind, which nobody but an administrator sees and the next load of that name removes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, cast
from uuid import uuid4

from thalweg.domain.access import Actor
from thalweg.domain.catalogue import Workspace
from thalweg.domain.errors import (
    AlreadyExists,
    DamagedData,
    InvalidParameter,
    InvalidRequest,
    NotFound,
    StoreUnavailable,
    ThalwegError,
)
from thalweg.domain.features import (
    MAX_EDIT_FEATURES,
    RESERVED_LAYER_NAMES,
    FeaturePreparer,
    Features,
    GeometryKind,
    Insert,
    Layer,
    LoadReceipt,
    OnConflict,
    PreparedFeatures,
)
from thalweg.domain.geometry import WGS84
from thalweg.loading.features.curve import AlongCurve
from thalweg.loading.features.fields import (
    MAX_NAME_LENGTH,
    Mapped,
    map_fields,
    ncname,
)
from thalweg.loading.features.geometries import TYPE_NAMES
from thalweg.loading.features.opening import open_source
from thalweg.loading.features.prepare import Plan, prepare
from thalweg.loading.features.report import LayerReport, Sink
from thalweg.loading.features.source import Advance, Source
from thalweg.loading.features.spool import Batches, Spool
from thalweg.loading.features.survey import IfExists, LayerOptions, Order, Survey, survey_file
from thalweg.loading.features.workers import Workers, processors
from thalweg.services.features import STAGING_PREFIX, FeatureService

GEOMETRY_FIELD: Final = "geometry"
MIN_SHARED_BYTES: Final = 8 << 20
"""A smaller file is loaded before other processes would have begun."""
_SEVERAL: Final = {
    frozenset((GeometryKind.POINT, GeometryKind.MULTIPOINT)): GeometryKind.MULTIPOINT,
    frozenset((GeometryKind.LINESTRING, GeometryKind.MULTILINESTRING)): GeometryKind.MULTILINESTRING,
    frozenset((GeometryKind.POLYGON, GeometryKind.MULTIPOLYGON)): GeometryKind.MULTIPOLYGON,
}


def load_layer(
    service: FeatureService,
    workspace: Workspace,
    path: Path,
    options: LayerOptions,
    *,
    by: Actor | str = "",
    advance: Advance = lambda _: None,
    sink: Sink | None = None,
) -> LayerReport:
    """Load one file. What is wrong with the file is in the report's ``error``; faults of the store rise.

    by       who loads it, for the change log and the audit log
    advance  called with bytes done, the file's size twice in all: once read, once stored
    sink     is given every feature with a problem
    raises   StoreUnavailable, DamagedData
    """
    report = LayerReport(str(path), workspace.name, dry_run=options.dry_run)
    started = time.monotonic()
    try:
        with ExitStack() as stack:
            source = stack.enter_context(closing(open_source(path, options.read)))
            spool = stack.enter_context(Spool())
            workers = stack.enter_context(Workers(_helpers(path)))
            report.format = source.format
            share = _Share(path.stat().st_size if path.is_file() else source.size, advance)
            survey = survey_file(source, options, report, spool, share.of(source.size), sink, workers)
            layer, existing = _planned(service, workspace, source, options, survey, report)
            if not options.dry_run:
                batches: Batches = spool
                if options.order is Order.SPACE:
                    batches = stack.enter_context(AlongCurve(spool, survey.located))
                rows = _rows(batches, layer, survey, report, share.of(max(1, batches.batches)), workers)
                _store(service, workspace, by, layer, existing, rows, report)
    except (StoreUnavailable, DamagedData):
        raise
    except ThalwegError as error:
        report.error = error.message
    except OSError as error:
        # The file goes away while it is read, or there is no room for the temporary copy.
        report.error = f"Reading the file or keeping its features for a while failed: {error.strerror}."
    report.seconds = time.monotonic() - started
    return report


def _helpers(path: Path) -> int:
    """How many processes read and encode for this one: none for small files, or where there is one processor."""
    if path.is_file() and path.stat().st_size < MIN_SHARED_BYTES:
        return 0
    count = processors()
    return count if count > 1 else 0


class _Share:
    """Two halves of a progress, each as long as the file whatever it is counted in."""

    def __init__(self, size: int, advance: Advance) -> None:
        self._size = size
        self._advance = advance

    def of(self, total: int) -> Advance:
        done = told = 0

        def advance(amount: int) -> None:
            nonlocal done, told
            done = min(done + amount, total)
            now = self._size * done // total if total else self._size
            self._advance(now - told)
            told = now

        return advance


# ------------------------------------------------------------------ plan


def _planned(
    service: FeatureService,
    workspace: Workspace,
    source: Source,
    options: LayerOptions,
    survey: Survey,
    report: LayerReport,
) -> tuple[Layer, Layer | None]:
    """The layer that the file fits into, and the one of its name that is there. Raises InvalidParameter,
    AlreadyExists."""
    name = _name_of(source, options)
    report.layer = name
    report.notes += source.notes
    existing = service.stored_layers(workspace).get(name)
    if existing is not None and options.if_exists is IfExists.REFUSE and not options.dry_run:
        raise AlreadyExists(
            "layer", f"There is a layer '{name}' already: --if-exists replace or append says what to do with it."
        )
    kind = _geometry_kind(survey, report)
    report.geometry = kind.value
    report.dimensions = _dimensions(survey, options, report)
    report.srid = options.srid or source.srid
    if report.srid is None:
        if kind is not GeometryKind.NONE:
            raise InvalidParameter("crs", "The file does not tell its CRS; say it by --crs, such as --crs EPSG:4326.")
        report.srid = WGS84
    if existing is not None and options.if_exists is IfExists.APPEND:
        return _fitting(existing, survey, report), existing
    taken = [GEOMETRY_FIELD] if kind is not GeometryKind.NONE else []
    kinds = survey.fields.kinds()
    report.fields = map_fields(kinds, taken)
    for mapped in report.fields:
        if survey.fields.is_mixed(mapped.source):
            report.notes.append(f"'{mapped.source}' holds values of several types, all of them taken as text")
    prefix = _id_prefix(service, workspace, name, options, survey, report)
    old = existing or Layer(0, "", workspace.id, name)
    layer = Layer(
        0,
        str(uuid4()),
        workspace.id,
        name,
        title=options.title or old.title,
        description=options.description or old.description,
        keywords=options.keywords or old.keywords,
        licence=options.licence or old.licence,
        attribution=options.attribution or old.attribution,
        public=old.public if options.public is None else options.public,
        srid=report.srid,
        geometry_field=GEOMETRY_FIELD,
        geometry_kind=kind,
        dimensions=report.dimensions,
        fields=tuple(mapped.field for mapped in report.fields),
        id_prefix=prefix,
    )
    return layer, existing


def _name_of(source: Source, options: LayerOptions) -> str:
    """Raises InvalidParameter for what cannot name a layer."""
    name = options.name or ncname(source.layer)
    if ncname(name) != name or name.startswith(STAGING_PREFIX):
        raise InvalidParameter("layer", f"'{name[:60]}' cannot name a layer: use letters, digits, '_', '-' and '.', "
                               "a letter first.")  # fmt: skip
    if name.lower() in RESERVED_LAYER_NAMES:
        raise InvalidParameter(
            "layer", f"'{name}' is the layer of the workspace's procedures; choose another name by --layer."
        )
    return name


def _id_prefix(
    service: FeatureService, workspace: Workspace, name: str, options: LayerOptions, survey: Survey, report: LayerReport
) -> str:
    """What the file's ids begin with, if they can be used and no other layer's begin so; else the layer's name."""
    prefix, why = survey.ids.result()
    if why and options.id_field:
        raise InvalidParameter("id", f"The field '{options.id_field[:60]}' cannot give the ids: {why}.")
    if why and survey.ids.any:
        how = "in the order of the file" if options.order is Order.FILE else "anew"
        report.notes.append(f"the file's ids cannot be used ({why}): features are numbered {how}")
    others = {layer.id_prefix for layer in service.stored_layers(workspace).values() if layer.name != name}
    if prefix in others:
        report.notes.append(f"ids begin with '{name}', as another layer's do with '{prefix}'")
        return name
    return prefix or name


def _geometry_kind(survey: Survey, report: LayerReport) -> GeometryKind:
    kinds = frozenset(GeometryKind(TYPE_NAMES[number].replace("LinearRing", "LineString")) for number in survey.types)
    if not kinds:
        return GeometryKind.NONE if survey.kept else GeometryKind.GEOMETRY
    if len(kinds) == 1:
        return next(iter(kinds))
    found = _SEVERAL.get(kinds, GeometryKind.GEOMETRY)
    if found is GeometryKind.GEOMETRY:
        names = ", ".join(sorted(kind.value for kind in kinds))
        report.notes.append(f"the file has geometries of several types: {names}")
    return found


def _dimensions(survey: Survey, options: LayerOptions, report: LayerReport) -> int:
    if options.dimensions is not None:
        return options.dimensions
    if survey.heights == {True, False}:
        report.notes.append("only some geometries have heights; the others get the height 0 (--dimensions 2 drops all)")
    return 3 if True in survey.heights else 2


def _fitting(existing: Layer, survey: Survey, report: LayerReport) -> Layer:
    """Fields of the file by their names in a layer that is there; what it lacks is left out and told."""
    exact = {item.name: item for item in existing.fields}
    by_name = {item.name.lower(): item for item in existing.fields}
    mapped = map_fields(survey.fields.kinds(), [existing.geometry_field])
    used = {item.source for item in mapped if item.source in exact}
    report.fields = []
    for item in mapped:
        found = exact.get(item.source)
        if found is None:
            found = by_name.get(item.source.lower()) or by_name.get(item.field.name.lower())
            if found is not None and found.name in used:
                found = None
        if found is None:
            report.notes.append(f"the layer has no field for '{item.source}'; it is left out")
        else:
            used.add(found.name)
            report.fields.append(Mapped(item.source, found))
    prefix, why = survey.ids.result()
    if not why and prefix not in ("", existing.id_prefix):
        report.notes.append(f"the file's ids begin with '{prefix}', the layer's with '{existing.id_prefix}'")
    if report.srid != existing.srid:
        report.notes.append(f"coordinates are taken from EPSG:{report.srid} to the layer's EPSG:{existing.srid}")
    return existing


# ------------------------------------------------------------------ store


Rows = Callable[[FeaturePreparer | None], Iterator[Features | PreparedFeatures]]
"""Gives the features of the file: what the preparer makes of them or, without one, as they are."""


def _rows(
    batches: Batches, layer: Layer, survey: Survey, report: LayerReport, advance: Advance, workers: Workers
) -> Rows:
    """The spooled features in the store's form."""
    _, why = survey.ids.result()
    forced = len(survey.heights) > 1 or bool(survey.heights and (True in survey.heights) != (layer.dimensions == 3))
    moved = report.srid is not None and report.srid != layer.srid

    def rows(preparer: FeaturePreparer | None) -> Iterator[Features | PreparedFeatures]:
        plan = Plan(
            layer, tuple(report.fields), not why, layer.id != 0, forced, report.srid if moved else None, preparer
        )
        for losses, prepared in workers.map((prepare, (data, plan)) for data in batches):
            report.losses.add(losses)
            yield from prepared
            advance(1)

    return rows


def _store(
    service: FeatureService,
    workspace: Workspace,
    by: Actor | str,
    layer: Layer,
    existing: Layer | None,
    rows: Rows,
    report: LayerReport,
) -> None:
    if layer.id:
        _append(service, by, layer, rows, report)
        report.how = "appended"
        return
    staging = f"{STAGING_PREFIX}{layer.name}"[:MAX_NAME_LENGTH]
    left = service.stored_layers(workspace).get(staging)
    if left is not None:
        service.delete_layer(left, by=by).result()
    made = service.put_layer(workspace, replace(layer, name=staging, public=False), by=by).result()
    try:
        # Encoded as it will be called, so that the new name leaves nothing to be encoded again.
        target = replace(made, name=layer.name)
        receipt = service.load(target, rows(service.preparer(target)), by, unseen=True)
        report.loaded = receipt.added
    except BaseException as error:
        if isinstance(error, NotFound):
            raise _overtaken(layer) from None
        # Gone already where another load has overtaken this one; what went wrong here is what is told.
        with suppress(NotFound):
            service.delete_layer(made, by=by).result()
        raise
    # In one transaction with the end of the layer that it replaces, whose roles are held for it from then on.
    ready = replace(made, name=layer.name, public=layer.public)
    try:
        service.put_layer(workspace, ready, replaces=existing, by=by).result()
    except NotFound:
        raise _overtaken(layer) from None
    report.how = "new" if existing is None else "replaced"


def _overtaken(layer: Layer) -> InvalidRequest:
    """Of two loads into one layer at once the later one counts: it cannot be told from one that runs again."""
    return InvalidRequest(
        f"Another load into the layer '{layer.name}' began meanwhile, or the layer was deleted: nothing of this one is "
        "stored."
    )


def _append(
    service: FeatureService,
    by: Actor | str,
    layer: Layer,
    rows: Rows,
    report: LayerReport,
) -> None:
    """All at once where that many are allowed; else in steps, which leave a part behind if interrupted: run again,
    features with ids take their own places."""
    first: list[Features] = []
    count = 0
    # Some of them get their numbers from the store, and cannot be encoded before.
    source = (cast(Features, batch) for batch in rows(None))
    for batch in source:
        first.append(batch)
        count += len(batch)
        if count > MAX_EDIT_FEATURES:
            break
    if count <= MAX_EDIT_FEATURES:
        edits = [Insert(layer.id, batch, OnConflict.REPLACE) for batch in first if len(batch)]
        for edited in service.edit(edits, by).result() if edits else []:
            report.loaded += len(edited.ids)
            report.replaced += int((edited.versions > 1).sum())
        return

    def everything() -> Iterator[Features]:
        yield from first
        yield from source

    receipt: LoadReceipt = service.load(layer, everything(), by, on_conflict=OnConflict.REPLACE)
    report.loaded = receipt.added + receipt.replaced
    report.replaced = receipt.replaced
