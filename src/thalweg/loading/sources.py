"""From folders and files to a plan: which file is read how, for which procedure."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

from thalweg.domain.errors import InvalidParameter, NotFound
from thalweg.loading.findings import Kind
from thalweg.loading.istsos import MISSING, DatName, parse_name
from thalweg.loading.mapping import ColumnMapping, FileMapping, Format, Station, checked_format, read_mapping
from thalweg.loading.names import property_path, short_name
from thalweg.loading.stations_csv import NAME as STATION_LIST
from thalweg.loading.stations_csv import is_station_list, read_station_list

MAPPING_NAME: Final = "stations.toml"
MAX_FILES: Final = 100_000
_CSV: Final = (".csv", ".csv.gz", ".tsv", ".tsv.gz")


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What the caller says beside the mapping.

    mapping   a mapping file for all sources; None: one found in each folder
    format    fields of ``Format`` that win over every mapping
    columns, station
              for files that no mapping describes
    offering  network offering that all procedures join, existing ones too; empty: the mapping's, else the folder's
              name, for new procedures alone
    replace   stored values give way to the files'; else they stay
    create    ``.dat`` files may make procedures; units: of their properties, by path or URN
    dry_run   read and report, store nothing
    by        the name written to the change log
    """

    mapping: Path | None = None
    format: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[ColumnMapping, ...] = ()
    station: Station = field(default_factory=Station)
    offering: str = ""
    replace: bool = False
    create: bool = False
    units: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    by: str = ""


@dataclass(frozen=True, slots=True)
class FileTask:
    """One file to be loaded.

    procedure, feature  short names
    dat                 what the name of a csv2istsos file says
    problem             why it cannot be loaded, or empty
    """

    path: Path
    mapping: FileMapping
    procedure: str
    feature: str
    offering: str
    dat: DatName | None = None
    notes: tuple[tuple[Kind, str], ...] = ()
    problem: str = ""

    @property
    def shown(self) -> str:
        return str(self.path)


def plan_files(sources: Sequence[Path], options: LoadOptions) -> list[FileTask]:
    """The files of folders and files in the order given, each once; within a folder in order of its mapping.

    raises  NotFound (``source``) where one does not exist or a folder holds nothing to load, InvalidParameter for
            mappings and options
    """
    mappings = None if options.mapping is None else _read(options.mapping)
    tasks: list[FileTask] = []
    seen: set[Path] = set()
    for source in sources:
        if not source.exists():
            raise NotFound("source", f"There is no file or folder '{source}'.")
        found = list(_of_folder(source, mappings, options) if source.is_dir() else _of_file(source, mappings, options))
        if not found:
            raise NotFound(
                "source", f"'{source}' holds nothing to load: no {MAPPING_NAME}, {STATION_LIST}, .csv or .dat files."
            )
        for task in found:
            key = task.path.resolve()
            if key not in seen:
                seen.add(key)
                tasks.append(task)
        if len(tasks) > MAX_FILES:
            raise InvalidParameter("source", f"'{source}' brings more than {MAX_FILES:,} files; load it in parts.")
    return name_procedures(tasks)


def _read(path: Path) -> list[FileMapping]:
    return read_station_list(path) if path.suffix.lower() == ".csv" else read_mapping(path)


def _of_folder(folder: Path, mappings: Sequence[FileMapping] | None, options: LoadOptions) -> Iterator[FileTask]:
    index: Path | None = None
    if mappings is None:
        index = next((folder / name for name in (MAPPING_NAME, STATION_LIST) if (folder / name).is_file()), None)
        mappings = None if index is None else _read(index)
    named: set[Path] = set()
    for mapping in mappings or ():
        files = _matching(folder, mapping.path)
        if not files:
            problem = f"no file is there that {index.name if index else 'the mapping'} names"
            yield _task(folder / mapping.path, mapping, options, problem=problem)
        for path in files:
            if path not in named and path != index:
                named.add(path)
                yield _task(path, mapping, options)
    others = sorted(path for path in folder.iterdir() if path.is_file() and path not in named and path != index)
    for path in others:
        dat = parse_name(path.name)
        if dat is not None:
            yield _dat_task(path, dat, options)
        elif path.name.lower().endswith(_CSV) and path.name not in (STATION_LIST, MAPPING_NAME):
            if mappings is None:
                yield _unmapped(path, options)
            else:
                note = (Kind.NOT_NAMED, f"{index.name if index else 'the mapping'} does not name this file")
                yield _task(path, FileMapping(path.name), options, notes=(note,), problem="-")


def _of_file(path: Path, mappings: Sequence[FileMapping] | None, options: LoadOptions) -> Iterator[FileTask]:
    dat = parse_name(path.name)
    if dat is not None:
        yield _dat_task(path, dat, options)
        return
    if mappings is None and (path.suffix.lower() == ".toml" or is_station_list(path)):
        for mapping in _read(path):
            files = [found for found in _matching(path.parent, mapping.path) if found != path]
            if not files:
                yield _task(
                    path.parent / mapping.path, mapping, options, problem=f"no file is there that {path.name} names"
                )
            for found in files:
                yield _task(found, mapping, options)
        return
    if mappings is None:
        index = next((path.parent / n for n in (MAPPING_NAME, STATION_LIST) if (path.parent / n).is_file()), None)
        candidates: Sequence[FileMapping] = [] if index is None or options.columns else _read(index)
    else:
        candidates = mappings
    for mapping in candidates:
        pattern = PurePosixPath(mapping.path).name
        if fnmatch.fnmatchcase(path.name, pattern):
            yield _task(path, mapping, options)
            return
    yield _unmapped(path, options)


def _matching(folder: Path, pattern: str) -> list[Path]:
    """Files of a mapping's path, sorted; never outside the folder."""
    parts = PurePosixPath(pattern).parts
    if PurePosixPath(pattern).is_absolute() or ".." in parts:
        raise InvalidParameter("path", f"The mapping's path '{pattern[:100]}' must stay within its folder.")
    if not any(mark in pattern for mark in "*?["):
        return [folder / pattern] if (folder / pattern).is_file() else []
    try:
        return sorted(path for path in folder.glob(pattern) if path.is_file() and path.name != STATION_LIST)
    except (ValueError, NotImplementedError) as error:
        raise InvalidParameter("path", f"The mapping's path '{pattern[:100]}' is not a pattern: {error}.") from None


def _unmapped(path: Path, options: LoadOptions) -> FileTask:
    mapping = FileMapping(path.name, station=options.station, columns={c.column: c for c in options.columns})
    problem = "" if options.columns else (
        f"nothing says what its columns mean: write a {MAPPING_NAME}, or name them by --column"
    )  # fmt: skip
    return _task(path, mapping, options, problem=problem)


def _task(
    path: Path,
    mapping: FileMapping,
    options: LoadOptions,
    *,
    notes: tuple[tuple[Kind, str], ...] = (),
    problem: str = "",
) -> FileTask:
    if options.format:
        mapping = replace(mapping, format=checked_format(replace(mapping.format, **options.format), "options"))
    stem = path.name
    for ending in (".gz", ".csv", ".tsv", ".txt", ".dat"):
        stem = stem.removesuffix(ending)
    name = short_name(mapping.station.name or stem)
    return FileTask(
        path=path,
        mapping=mapping,
        procedure=name,
        feature=short_name(mapping.station.feature) if mapping.station.feature else name,
        offering=short_name(options.offering or mapping.offering or path.resolve().parent.name or "network"),
        notes=notes,
        problem=problem,
    )


def _dat_task(path: Path, dat: DatName, options: LoadOptions) -> FileTask:
    missing = (*MISSING, *options.format.get("missing", ()))
    format = Format(delimiter=",", decimal=".", zone=options.format.get("zone"), missing=missing)
    mapping = FileMapping(path.name, format=format, station=replace(options.station, name=dat.procedure))
    return replace(_task(path, mapping, replace(options, format={})), dat=dat, procedure=dat.procedure)


def name_procedures(tasks: Sequence[FileTask]) -> list[FileTask]:
    """Give files of one station to one procedure if they have the same timestep, else to several.

    Rows of a procedure share their times, so that properties measured at different steps are better kept apart: the
    first file's procedure has the station's name, others the name of their first property added. All of them are at
    the station's feature.
    """
    names: dict[tuple[str, object], str] = {}
    taken: dict[str, object] = {}
    result = []
    for task in tasks:
        station = task.mapping.station
        if not station.name or task.problem or task.dat is not None:
            result.append(task)
            continue
        key = (task.procedure, station.timestep)
        if key not in names:
            name = task.procedure
            if name in taken:
                name = _free(f"{name}_{_suffix(task)}", taken)
            names[key] = name
            taken[name] = station.timestep
        if names[key] != task.procedure:
            note = (
                Kind.DECIDED,
                f"station {task.procedure} has files of several timesteps: this one becomes the procedure "
                f"{names[key]} at the same feature",
            )
            task = replace(task, notes=(*task.notes, note), procedure=names[key])
        result.append(task)
    return result


def _suffix(task: FileTask) -> str:
    column = next(iter(task.mapping.columns.values()), None)
    path = "" if column is None else column.property or property_path(column.column, column.unit)
    word = short_name(path.rpartition(":")[2] or "2")
    return word.upper() if task.procedure.isupper() else word


def _free(name: str, taken: Iterable[str]) -> str:
    number = 2
    free = name
    while free in taken:
        free = f"{name}_{number}"
        number += 1
    return free
