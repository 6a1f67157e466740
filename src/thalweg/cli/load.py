"""``thalweg load``: files into the store."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from thalweg.cli.load_features import features
from thalweg.cli.load_table import table
from thalweg.cli.options import with_settings
from thalweg.settings import Settings

if TYPE_CHECKING:
    from thalweg.loading.sources import LoadOptions
    from thalweg.services.load import Load


@click.group()
def load() -> None:
    """Load files into the store."""


load.add_command(features)
load.add_command(table)


@load.command()
@with_settings(("store",))
@click.argument("sources", nargs=-1, required=True, metavar="DIR|FILE…", type=click.Path(path_type=Path))
@click.option("--mapping", type=click.Path(path_type=Path), metavar="FILE", help="What files and columns mean (TOML).")
@click.option(
    "--workspace", default="default", show_default=True, metavar="NAME", help="Workspace that is loaded into."
)
@click.option("--offering", default="", metavar="NAME", help="Network offering to join.  [default: the folder's name]")
@click.option("--replace", is_flag=True, help="Let the files' values take the place of stored ones.")
@click.option("--strict", is_flag=True, help="Exit with 1 if a row or a cell was rejected.")
@click.option("--dry-run", is_flag=True, help="Read and report, store nothing.")
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE", help="All findings, as .json or .csv.")
@click.option("--quiet", is_flag=True, help="Show the table alone.")
@click.option("--zone", metavar="ZONE", help="Zone of times that say none: UTC, +01:00, Europe/Zurich.  [default: UTC]")
@click.option("--time-column", "time", multiple=True, metavar="NAME", help="Column of times; several are joined.")
@click.option("--time-format", metavar="FORMAT", help="iso, unix, unix-ms or a pattern such as '%d.%m.%Y %H:%M'.")
@click.option("--delimiter", metavar="CHAR", help="One of , ; | tab.  [default: found out]")
@click.option("--decimal", metavar="CHAR", help="Decimal mark, . or ,  [default: found out]")
@click.option("--encoding", metavar="NAME", help="Encoding of the files.  [default: utf-8]")
@click.option("--missing", multiple=True, metavar="TEXT", help='Text or number that means "no value"; repeatable.')
@click.option(
    "--column", "columns", multiple=True, metavar="NAME=PROPERTY,UNIT[,KIND]",
    help="A column of values, for files without mapping; repeatable.",
)  # fmt: skip
@click.option("--station", metavar="NAME", help="Station, for a file without mapping.  [default: the file's name]")
@click.option("--longitude", type=float, metavar="DEGREES")
@click.option("--latitude", type=float, metavar="DEGREES")
@click.option("--altitude", type=float, metavar="METRES")
@click.option("--timestep", metavar="DURATION", help="Expected time between rows, such as PT10M.")
@click.option("--create", is_flag=True, help="Let csv2istsos files make procedures that are not there.")
@click.option(
    "--unit",
    "units",
    multiple=True,
    metavar="PROPERTY=CODE",
    help="Unit of a property that --create makes; repeatable.",
)
def stations(settings: Settings, sources: tuple[Path, ...], workspace: str, **given: Any) -> None:
    """Load station files: CSV described by a mapping, or files for istSOS' csv2istsos.

    In a folder, stations.toml or stations.csv says what its files mean. Loading the same files again changes nothing.
    Every defect found is counted and told by file and line.
    """
    from thalweg.cli.progress import progress
    from thalweg.loading.report import ReportFile, details, errors, summary
    from thalweg.loading.report import table as report_table
    from thalweg.loading.sources import plan_files
    from thalweg.loading.stations import load_files

    options = _options(given)
    tasks = plan_files(sources, options)
    with ExitStack() as stack:
        report_file = None if given["report"] is None else stack.enter_context(ReportFile(given["report"]))
        service = _service(settings, stack)
        size = sum(task.path.stat().st_size for task in tasks if task.path.is_file() and not task.problem)
        with progress("Loading", size, "bytes") as advance:
            report = load_files(
                service, tasks, options, workspace=workspace, advance=advance,
                sink=None if report_file is None else report_file.add,
            )  # fmt: skip
        if report_file is not None:
            report_file.finish(report)
    if not given["quiet"]:
        for file in report.files:
            for line in details(file):
                click.echo(line)
        click.echo()
    for line in report_table(report):
        click.echo(line)
    for line in summary(report):
        click.echo(line)
    if not given["dry_run"] and _is_there(settings):
        click.echo(f"Store: {settings.store}")
    for line in errors(report):
        click.echo(f"Error: {line}", err=True)
    sys.exit(1 if report.failed or (given["strict"] and report.rejected) else 0)


@load.command()
@with_settings(("store",))
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path(path_type=Path))
@click.option("--stream", "stream_name", required=True, metavar="NAME", help="Event stream that takes the members.")
@click.option("--workspace", default="default", show_default=True, metavar="NAME", help="Workspace of the stream.")
@click.option("--processes", type=click.IntRange(1, 64), metavar="N", help="Processes that read.  [default: all cores]")
@click.option("--strict", is_flag=True, help="Exit with 1 if a body could not be read.")
def members(
    settings: Settings,
    files: tuple[Path, ...],
    stream_name: str,
    workspace: str,
    processes: int | None,
    strict: bool,
) -> None:
    """Load members into an event stream, in the order of the files.

    Files are N-Quads or N-Triples (members separated by empty or comment lines, or each in a graph of its own),
    NDJSON (a JSON-LD document a line), Turtle, TriG, JSON-LD or RDF/XML (a file a document); also with .gz. Members
    that are there already are left as they are: a load that was cut off is simply run again.
    """
    import os
    import time

    from thalweg.cli.progress import progress
    from thalweg.cli.stream import opened, workspace_id
    from thalweg.loading.members import bodies, media_type_of
    from thalweg.services.stream_load import load_members
    from thalweg.services.stream_work import finish_streams

    kinds = [(path, media_type_of(path)) for path in files]
    with opened(settings) as (store, streams):
        found = streams.stream(workspace_id(store, workspace), stream_name)
        size = sum(path.stat().st_size for path in files if path.is_file())
        started = time.monotonic()
        with progress("Loading", size, "bytes") as advance:
            loaded = load_members(
                streams,
                found,
                (body for path, media_type in kinds for body in bodies(path, media_type)),
                processes=processes or len(os.sched_getaffinity(0)),
                advance=advance,
                by="command line",
            )
        seconds = max(time.monotonic() - started, 1e-6)
        for fault in loaded.faults:
            click.echo(f"{fault.file}, line {fault.line}: {fault.message}")
        click.echo(
            f"{loaded.stored:,} members stored, {loaded.known:,} were there, {loaded.faulty:,} bodies not read "
            f"({loaded.stored / seconds:,.0f} members a second)"
        )
        if not finish_streams(store):
            click.echo("Views are filled by the running server.")
    sys.exit(1 if strict and loaded.faulty else 0)


def _is_there(settings: Settings) -> bool:
    from thalweg import app

    return Path(app.store_file(settings)).exists()


def _service(settings: Settings, stack: ExitStack) -> Load:
    """Loading into the store of the settings; closed with the stack.

    A store that is not there is made when the first procedure is: neither a dry run nor a load that fails leaves an
    empty one behind. Until then an empty one in a temporary folder says what is there, which is nothing.
    """
    import tempfile

    from thalweg import app
    from thalweg.domain.access import Actor
    from thalweg.domain.store import Registration, Store
    from thalweg.services.load import Ensured, Load

    def opened(url: str) -> Store:
        store = app.open_store(url, settings=settings)
        stack.callback(store.close)
        return store

    if _is_there(settings):
        return Load(opened(settings.store))

    class LoadMakingStore(Load):
        made = False

        def ensure(
            self, workspace: str, registration: Registration, *, join: bool = False, by: Actor | str = ""
        ) -> Ensured:
            if not self.made:
                super().__init__(opened(settings.store))
                self.made = True
            return super().ensure(workspace, registration, join=join, by=by)

    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="thalweg-"))
    return LoadMakingStore(opened(f"sqlite:///{folder}/empty.sqlite"))


def _options(given: dict[str, Any]) -> LoadOptions:
    """Options of the command line as the loader takes them. Raises InvalidParameter."""
    from thalweg.domain.errors import InvalidParameter
    from thalweg.domain.geometry import WGS84
    from thalweg.domain.time import parse_duration
    from thalweg.loading.mapping import DEFAULT_MISSING, ColumnMapping, Station, checked_column, make_point, parse_kind
    from thalweg.loading.names import ucum
    from thalweg.loading.sources import LoadOptions

    columns = []
    for text in given["columns"]:
        name, equals, rest = text.rpartition("=")
        parts = rest.split(",")
        if not equals or not name or len(parts) not in (2, 3) or not all(parts):
            raise InvalidParameter("column", f"--column '{text}' is not of the form NAME=PROPERTY,UNIT[,KIND].")
        kind = parse_kind(parts[2] if len(parts) == 3 else "number", f"--column '{text}'")
        columns.append(checked_column(ColumnMapping(name, parts[0], ucum(parts[1]), kind), f"--column '{text}'"))
    units = {}
    for text in given["units"]:
        name, equals, code = text.partition("=")
        if not equals or not name or not code:
            raise InvalidParameter("unit", f"--unit '{text}' is not of the form PROPERTY=CODE.")
        units[name] = ucum(code)
    longitude, latitude = given["longitude"], given["latitude"]
    if (longitude is None) != (latitude is None):
        raise InvalidParameter("longitude", "--longitude and --latitude are only of use together.")
    if longitude is None and given["altitude"] is not None:
        raise InvalidParameter("altitude", "--altitude is of no use without --longitude and --latitude.")
    try:
        timestep = parse_duration(given["timestep"], "timestep") if given["timestep"] else None
    except InvalidParameter as error:
        raise InvalidParameter("timestep", f"--timestep: {error.message}") from None
    format = {name: given[name] for name in ("zone", "time_format", "delimiter", "decimal", "encoding") if given[name]}
    if given["time"]:
        format["time"] = tuple(given["time"])
    if given["missing"]:
        format["missing"] = (*DEFAULT_MISSING, *given["missing"])
    return LoadOptions(
        mapping=given["mapping"],
        format=format,
        columns=tuple(columns),
        station=Station(
            name=given["station"] or "",
            geometry=None
            if longitude is None
            else make_point(longitude, latitude, given["altitude"], WGS84, "--longitude, --latitude"),
            timestep=timestep,
        ),
        offering=given["offering"],
        replace=given["replace"],
        create=given["create"],
        units=units,
        dry_run=given["dry_run"],
    )
