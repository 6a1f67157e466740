"""Station files into a store: procedures registered as needed, rows stored, everything odd reported."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from thalweg.domain.blocks import Block, Column
from thalweg.domain.catalogue import (
    DEFAULT_WORKSPACE,
    Document,
    Feature,
    ObservedProperty,
    Offering,
    Procedure,
    SensorDescription,
    Unit,
    Workspace,
)
from thalweg.domain.errors import AlreadyExists, DamagedData, InvalidParameter
from thalweg.domain.observations import Insertion, OnDuplicate
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.store import Registration, SeriesRegistration
from thalweg.domain.time import DAY_US, Duration, Interval
from thalweg.loading.findings import FileReport, Kind, LoadReport, Recorder, Sink
from thalweg.loading.header import Unusable
from thalweg.loading.istsos import dat_columns, missing_properties, time_column
from thalweg.loading.istsos import property_path as urn_path
from thalweg.loading.mapping import ColumnMapping
from thalweg.loading.names import DESCRIPTIONS, looks_like_ucum, property_path, short_name
from thalweg.loading.order import OrderChecker, Ordered
from thalweg.loading.rows import Rows, StationFile, batches, stretches
from thalweg.loading.sources import FileTask, LoadOptions, plan_files
from thalweg.services.load import Load

LOADER: Final = "load"
"""Who the change log names where the caller gives no name."""


def load_stations(
    service: Load,
    sources: Sequence[Path],
    options: LoadOptions | None = None,
    *,
    workspace: str = DEFAULT_WORKSPACE,
    sink: Sink | None = None,
    advance: Callable[[int], None] = lambda _: None,
    on_file: Callable[[FileReport], None] = lambda _: None,
) -> LoadReport:
    """Load folders and files; see ``plan_files`` for what is found in them and ``load_files`` for the rest."""
    chosen = options or LoadOptions()
    tasks = plan_files(sources, chosen)
    return load_files(service, tasks, chosen, workspace=workspace, sink=sink, advance=advance, on_file=on_file)


def load_files(
    service: Load,
    tasks: Sequence[FileTask],
    options: LoadOptions,
    *,
    workspace: str = DEFAULT_WORKSPACE,
    sink: Sink | None = None,
    advance: Callable[[int], None] = lambda _: None,
    on_file: Callable[[FileReport], None] = lambda _: None,
) -> LoadReport:
    """Load files one after the other. What is stored already stays as it is (``replace``: gives way), so that
    loading the same files again changes nothing and an interrupted load is simply run again.

    sink     is given every finding as it is made; reports keep some of each kind
    advance  is called with bytes of files that were read
    on_file  is called with each file's report when it is done
    raises   NotFound (``workspace``), StoreUnavailable. A file that cannot be loaded, or only a part of it, is
             reported and the others go on
    """
    begin = time.perf_counter()
    report = LoadReport(workspace, dry_run=options.dry_run)
    service.catalogue(workspace)
    for task in tasks:
        file = FileReport(task.shown, task.procedure, task.feature)
        report.files.append(file)
        started = time.perf_counter()
        loader = _FileLoader(service, workspace, task, options, Recorder(file, sink), report, advance)
        loader.load()
        file.seconds = time.perf_counter() - started
        on_file(file)
    report.seconds = time.perf_counter() - begin
    return report


@dataclass(slots=True)
class _Target:
    """Where rows go: a procedure at a feature, the property of each column in order."""

    workspace_id: int
    procedure_id: int
    feature: int | Feature
    property_ids: list[int]


class _FileLoader:
    def __init__(
        self,
        service: Load,
        workspace: str,
        task: FileTask,
        options: LoadOptions,
        recorder: Recorder,
        report: LoadReport,
        advance: Callable[[int], None],
    ) -> None:
        self._service = service
        self._workspace = workspace
        self._task = task
        self._options = options
        self._recorder = recorder
        self._report = report
        self._advance = advance
        self._target: _Target | None = None
        self._track_id: int | None = None

    def load(self) -> None:
        for kind, message in self._task.notes:
            self._recorder.add(kind, message)
        if self._task.problem == "-":
            return
        if self._task.problem:
            self._recorder.fail(self._task.problem)
            return
        try:
            self._recorder.report.size_bytes = self._task.path.stat().st_size
            self._load()
        except Unusable as error:
            self._recorder.fail(error.message, error.line)
        except OSError as error:
            self._recorder.fail(f"the file cannot be read: {error.strerror or error}")
        except (InvalidParameter, AlreadyExists, DamagedData) as error:
            self._recorder.fail(error.message)

    def _load(self) -> None:
        catalogue = self._service.catalogue(self._workspace)
        format = self._task.mapping.format
        file = StationFile(self._task.path, format, self._recorder, advance=self._advance)
        header = file.open()
        if self._task.dat is not None:
            file.use(replace(format, time=(time_column(header),)))
            columns = self._dat_columns(catalogue, file)
        else:
            columns = self._csv_columns(catalogue, file)
        timestep = self._task.mapping.station.timestep
        names = [column.column for column in columns]
        checker = OrderChecker(self._recorder, names, None if timestep is None else timestep.approximate_us)
        for rows in batches(file.blocks(columns)):
            ordered = checker.order(rows)
            if self._target is None and not self._options.dry_run and _any_value(rows):
                sampling = timestep
                if sampling is None and checker.timestep_us is not None:
                    sampling = Duration(0, checker.timestep_us)
                self._target = self._ensure(columns, sampling)
            self._store(columns, ordered.rows)
            if len(ordered.again):
                self._store_again(columns, ordered, checker)
        checker.finish()
        report = self._recorder.report
        if not report.values and (report.rejected_rows or report.rejected_cells):
            # Most likely a mistake of the mapping: a procedure made now would outlive it.
            if report.counts[Kind.UNREADABLE_TIME] == report.rows:
                raise Unusable(
                    "no time could be read; say how they are written (time_format, --time-format) and in which column "
                    "(time, --time-column)"
                )
            raise Unusable("no row could be stored; see what was rejected, and whether the mapping fits the file")
        if self._target is None and not self._options.dry_run and self._task.dat is None:
            # A station whose file has no rows yet is a station all the same.
            self._ensure(columns, timestep)

    # -- columns

    def _csv_columns(self, catalogue: Catalogue, file: StationFile) -> list[ColumnMapping]:
        columns = []
        used: dict[str, str] = {}
        for column in self._task.mapping.columns.values():
            if not column.unit:
                raise Unusable(f"the unit of the column '{column.column}' is not given")
            path = column.property or property_path(column.column, column.unit)
            column = replace(column, property=path)
            identifier = property_identifier(catalogue, path)
            if identifier in used:
                raise Unusable(f"the columns '{used[identifier]}' and '{column.column}' are both '{path}'")
            used[identifier] = column.column
            columns.append(column)
            if not looks_like_ucum(column.unit):
                self._recorder.add(
                    Kind.ASSUMED,
                    f"the unit '{column.unit}' of '{column.column}' is not a UCUM code known here; stored as written",
                )
        if not columns:
            raise Unusable("the mapping names no columns of values")
        file.check(columns)
        return columns

    def _dat_columns(self, catalogue: Catalogue, file: StationFile) -> list[ColumnMapping]:
        procedure = catalogue.procedure(self._task.procedure)
        if procedure is None and not self._options.create:
            raise Unusable(
                f"there is no procedure '{self._task.procedure}'; register it, or allow that it is made (--create)"
            )
        columns, assumed = dat_columns(file.header, catalogue, procedure, self._options.units)
        for sentence in assumed:
            self._recorder.add(Kind.ASSUMED, sentence)
        if procedure is not None:
            for path in missing_properties(columns, catalogue, procedure):
                self._recorder.add(Kind.DECIDED, f"there is no column of '{path}'; it gets no values")
        file.check(columns)
        return columns

    # -- catalogue

    def _ensure(self, columns: Sequence[ColumnMapping], sampling: Duration | None) -> _Target:
        catalogue = self._service.catalogue(self._workspace)
        registration = self._registration(catalogue, columns, sampling)
        stored = catalogue.procedure(self._task.procedure)
        if self._task.dat is not None and stored is not None:
            # Its own feature and series; nothing is to be made.
            procedure = stored
            feature: int | Feature = registration.features[0] if stored.feature_id is None else stored.feature_id
        else:
            ensured = self._service.ensure(
                self._workspace, registration, join=bool(self._options.offering), by=self._options.by or LOADER
            )
            procedure = ensured.procedure
            feature = registration.features[0]
            if ensured.created:
                self._report.procedures_new.append(procedure.name)
            for identifier in ensured.added:
                self._recorder.add(Kind.DECIDED, f"the procedure {procedure.name} now also observes {identifier}")
            if ensured.moved:
                self._recorder.add(
                    Kind.DECIDED, f"the feature {self._task.feature} is stored at another place, where it stays"
                )
        catalogue = self._service.catalogue(self._workspace)
        if isinstance(feature, Feature):
            known = catalogue.feature(feature.identifier)
            feature = feature if known is None else known.id
        by_identifier = {catalogue.properties[s.property_id].identifier: s.property_id for s in procedure.series}
        identifiers = [item.observed_property.identifier for item in registration.series]
        return _Target(
            catalogue.workspace.id, procedure.id, feature, [by_identifier[identifier] for identifier in identifiers]
        )

    def _registration(
        self, catalogue: Catalogue, columns: Sequence[ColumnMapping], sampling: Duration | None
    ) -> Registration:
        task, station = self._task, self._task.mapping.station
        workspace = catalogue.workspace
        unique = uuid.uuid4()
        procedure = Procedure(
            id=0,
            uuid=str(unique),
            identifier=workspace.urn("procedure", task.procedure),
            name=task.procedure,
            assigned_id=workspace.urn("sensor", unique.hex),
            title=station.title,
            sampling=sampling,
        )
        feature = Feature(
            id=0,
            uuid=str(uuid.uuid4()),
            identifier=_identifier(workspace, "feature", task.feature, catalogue.feature(task.feature)),
            name=task.feature,
            description=station.title,
            geometry=station.geometry,
        )
        offerings = (
            Offering(
                id=0,
                uuid=str(uuid.uuid4()),
                identifier=_identifier(workspace, "offering", task.offering, catalogue.offering(task.offering)),
                name=task.offering,
                description=f"All procedures of the network {task.offering}",
            ),
            Offering(
                id=0,
                uuid=str(uuid.uuid4()),
                identifier=workspace.urn("offering", task.procedure),
                name=task.procedure,
                description=station.title,
                procedure_id=0,
            ),
        )
        documents = []
        if station.source or station.source_url:
            documents.append(Document(f"Source: {station.source or station.source_url}", station.source_url))
        if station.licence or station.licence_url:
            documents.append(Document(f"Licence: {station.licence or station.licence_url}", station.licence_url))
        return Registration(
            procedure=procedure,
            series=tuple(_series(catalogue, column) for column in columns),
            features=(feature,),
            offerings=offerings,
            description=SensorDescription(keywords=station.keywords, documents=tuple(documents)),
        )

    # -- rows

    def _store(self, columns: Sequence[ColumnMapping], rows: Rows) -> None:
        report = self._recorder.report
        present = np.zeros(len(rows), np.bool_)
        for column in rows.columns:
            present |= column.valid
        self._tell_empty(rows, present)
        values = sum(int(np.count_nonzero(column.valid)) for column in rows.columns)
        report.values += values
        if values and self._target is not None:
            on_duplicate = OnDuplicate.REPLACE if self._options.replace else OnDuplicate.SKIP
            self._hand_over(self._target, columns, rows, present, on_duplicate)

    def _hand_over(
        self,
        target: _Target,
        columns: Sequence[ColumnMapping],
        rows: Rows,
        present: np.ndarray[tuple[int], np.dtype[np.bool_]],
        on_duplicate: OnDuplicate,
    ) -> None:
        index = slice(None) if present.all() else np.flatnonzero(present)
        cells = {
            property_id: Column(
                column.kind,
                item.values[index],
                None if item.valid[index].all() else item.valid[index],
                item.quality[index],
            )
            for property_id, column, item in zip(target.property_ids, columns, rows.columns, strict=True)
        }
        block = Block(rows.time_us[index], cells)
        receipt = self._service.rows(
            target.workspace_id,
            Insertion(target.procedure_id, target.feature, block, on_duplicate),
            by=self._options.by or LOADER,
        )
        self._track_id = receipt.track_id
        report = self._recorder.report
        report.rows_new += receipt.rows
        report.values_new += receipt.added
        report.replaced += receipt.replaced
        report.values_different += receipt.conflicting
        report.values_already += receipt.skipped - receipt.conflicting
        if receipt.conflicting:
            self._recorder.add(
                Kind.ALREADY_DIFFERENT,
                "stored before with other values, which stay; load with --replace if the file is right",
                int(rows.lines.min()),
                int(rows.lines.max()),
                count=receipt.conflicting,
            )

    def _tell_empty(self, rows: Rows, present: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        for begin, end in stretches(np.sort(rows.lines[~present]).tolist()):
            message = "no cell has a value; nothing to store"
            self._recorder.add(Kind.ROW_WITHOUT_VALUES, message, begin, end, count=end - begin + 1)

    def _store_again(self, columns: Sequence[ColumnMapping], ordered: Ordered, checker: OrderChecker) -> None:
        """Rows whose times an earlier part of the file had: compared with what is stored of it, gaps filled."""
        again = ordered.again
        differing: dict[int, list[tuple[str, object]]] = {}
        # Without a track nothing of the file is stored yet: no row had a value, or it is a dry run.
        if self._target is not None and self._track_id is not None:
            differing = self._take_differing(self._target, self._track_id, columns, again)
        for index in range(len(again)):
            checker.tell_repeat(again, index, int(ordered.again_first_lines[index]), differing.get(index, []))
        report = self._recorder.report
        already, new = report.values_already, report.values_new
        present = np.zeros(len(again), np.bool_)
        for column_values in again.columns:
            present |= column_values.valid
        if self._target is not None and present.any():
            self._hand_over(self._target, columns, again, present, OnDuplicate.SKIP)
        # Equal cells of a repeated row were counted with its first one.
        report.values_already = already
        report.values += report.values_new - new

    def _take_differing(
        self, target: _Target, track_id: int, columns: Sequence[ColumnMapping], again: Rows
    ) -> dict[int, list[tuple[str, object]]]:
        """Columns and stored values of cells that differ from what is stored, by row; these cells lose theirs."""
        differing: dict[int, list[tuple[str, object]]] = {}
        for begin, end in _stretches(again.time_us):
            interval = Interval(int(again.time_us[begin]), int(again.time_us[end - 1]) + 1)
            for block in self._service.stored(track_id, target.property_ids, interval):
                place = np.searchsorted(block.end, again.time_us[begin:end])
                place = np.minimum(place, len(block) - 1)
                for index in np.flatnonzero(block.end[place] == again.time_us[begin:end]).tolist():
                    row, stored_row = begin + index, int(place[index])
                    for column, property_id, item in zip(columns, target.property_ids, again.columns, strict=True):
                        stored = block.columns.get(property_id)
                        if stored is None or not item.valid[row]:
                            continue
                        has = stored.valid is None or bool(stored.valid[stored_row])
                        if has and stored.values[stored_row] != item.values[row]:
                            differing.setdefault(row, []).append((column.column, stored.values[stored_row]))
                            item.valid[row] = False
        return differing


def _any_value(rows: Rows) -> bool:
    return any(bool(column.valid.any()) for column in rows.columns)


def _stretches(times: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[tuple[int, int]]:
    """Index ranges of sorted times without a distance longer than a day."""
    breaks = [0, *(np.flatnonzero(np.diff(times) > DAY_US) + 1).tolist(), len(times)]
    return list(itertools.pairwise(breaks))


def property_identifier(catalogue: Catalogue, path: str) -> str:
    """The identifier of an observed property: a whole URN or URI as it is, words under the workspace's authority, or
    under the one it had when a property of these words was made."""
    if path.startswith("urn:") or "://" in path:
        return path
    workspace = catalogue.workspace
    urn = workspace.urn("parameter", path)
    if catalogue.observed_property(urn) is None:
        for known in catalogue.match_properties(path):
            if _differs_in_authority(workspace, "parameter", path, known.identifier):
                return known.identifier
    return urn


def _identifier(workspace: Workspace, kind: str, name: str, known: Feature | Offering | None) -> str:
    """The URN of a thing that is new, or that of the known one of this name if it had it under another authority."""
    if known is not None and _differs_in_authority(workspace, kind, name, known.identifier):
        return known.identifier
    return workspace.urn(kind, name)


def _differs_in_authority(workspace: Workspace, kind: str, name: str, identifier: str) -> bool:
    parts = identifier.split(":", 5)
    return len(parts) == 6 and ":".join((*parts[:4], workspace.authority, parts[5])) == workspace.urn(kind, name)


def _series(catalogue: Catalogue, column: ColumnMapping) -> SeriesRegistration:
    path = urn_path(column.property)
    name = column.property_name or short_name(path.rpartition("/")[2].replace(":", "-"))
    observed_property = ObservedProperty(
        id=0,
        uuid=str(uuid.uuid4()),
        identifier=property_identifier(catalogue, column.property),
        name=name,
        description=column.description or DESCRIPTIONS.get(path, ""),
    )
    field_name = name if column.column.startswith("urn:") or column.column.isdigit() else short_name(column.column)
    return SeriesRegistration(observed_property, Unit(0, column.unit), column.kind, name=field_name)
