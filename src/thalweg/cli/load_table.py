"""``thalweg load table``: files of records into tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from thalweg.cli.options import actor_of_command, with_settings
from thalweg.settings import Settings

if TYPE_CHECKING:
    from thalweg.domain.access import Actor
    from thalweg.domain.store import Store
    from thalweg.domain.tables import Table


@click.command()
@with_settings(("store",))
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--resource", default="", metavar="UUID", help="Resource that takes the table, by UUID or alias.")
@click.option("--package", default="", metavar="NAME", help="Dataset that a new resource is added to, made at need.")
@click.option("--name", default="", metavar="TEXT", help="Name of a new resource.  [default: the file's]")
@click.option("--workspace", default="default", show_default=True, metavar="NAME", help="Workspace of a new dataset.")
@click.option("--private", is_flag=True, help="Show a new dataset to those alone who hold a role.")
@click.option("--append", is_flag=True, help="Add to the table's records.  [default: take their place]")
@click.option("--key", "key", multiple=True, metavar="FIELD", help="Field of the primary key; repeatable.")
@click.option("--index", "indexes", multiple=True, metavar="FIELD,…", help="Fields looked up together; repeatable.")
@click.option("--type", "types", multiple=True, metavar="FIELD=TYPE", help="Type of a field; repeatable.")
@click.option("--format", "format", default="", metavar="NAME", help="csv, tsv, json, ndjson, geojson, xlsx, parquet.")
@click.option("--encoding", default="", metavar="NAME", help="Encoding of texts.  [default: found out]")
@click.option("--delimiter", default="", metavar="CHAR", help="One of , ; | tab.  [default: found out]")
@click.option("--header/--no-header", default=None, help="Whether the first row is names.  [default: found out]")
@click.option("--sheet", default="", metavar="NAME", help="Sheet of a workbook.  [default: the first]")
@click.option("--missing", multiple=True, metavar="TEXT", help='Text that means "no value"; repeatable.')
@click.option("--json", "as_json", is_flag=True, help="Tell what was done as JSON, progress as lines of it before.")
def table(settings: Settings, file: Path, **given: Any) -> None:
    """Load a file of records into a table: CSV, TSV, JSON, GeoJSON, XLSX, Parquet.

    Encoding, delimiter, header and types are found out. The records take the place of those there were, all at once
    when all are loaded; where one cannot be stored nothing is changed, and the file's line is named.
    """
    from thalweg import app
    from thalweg.cli.progress import progress
    from thalweg.loading.tables import TableLoadOptions, load_table_file
    from thalweg.loading.tables.source import ReadOptions

    options = TableLoadOptions(
        ReadOptions(
            given["format"], given["encoding"], {"tab": "\t", "\\t": "\t"}.get(given["delimiter"], given["delimiter"]),
            given["header"], given["sheet"], given["missing"],
        ),
        _types(given["types"]),
        given["key"],
        tuple(tuple(part.strip() for part in text.split(",")) for text in given["indexes"]),
        given["append"],
    )  # fmt: skip
    by = actor_of_command("load table")
    store = app.open_store(settings.store, settings=settings)
    try:
        target, made = _resource(store, file, given, by)
        size = file.stat().st_size if file.is_file() else 0
        try:
            if given["as_json"]:
                report = load_table_file(store, target.uuid, file, options=options, by=by, progress=_told)
            else:
                with progress("Loading", size, "bytes") as advance:
                    seen = 0

                    def show(_: int, read: int, __: int) -> None:
                        nonlocal seen
                        advance(read - seen)
                        seen = read

                    report = load_table_file(store, target.uuid, file, options=options, by=by, progress=show)
        except BaseException:
            # What was made for a file that could not be loaded.
            if made == "package":
                store.purge_package(target.package_id, by=by).result()
            elif made:
                store.delete_resource(target.id, by=by).result()
            raise
    finally:
        store.close()
    if given["as_json"]:
        click.echo(json.dumps({"resource": target.uuid, **report.document()}))
        return
    for note in report.notes:
        click.echo(f"{file.name}: {note}")
    kinds = ", ".join(f"{name} {kind}" for name, kind in report.fields)
    click.echo(f"Fields: {kinds}")
    rate = report.rows / max(report.seconds, 1e-6)
    click.echo(f"{report.rows:,} record{'s' * (report.rows != 1)} in {report.seconds:.1f} s ({rate:,.0f} a second)")
    click.echo(f"Resource: {target.uuid}")


def _told(rows: int, read: int, size: int) -> None:
    click.echo(json.dumps({"rows": rows, "bytes": read, "of": size}))


def _types(given: tuple[str, ...]) -> dict[str, str]:
    from thalweg.domain.errors import InvalidParameter

    types: dict[str, str] = {}
    for text in given:
        name, equals, kind = text.rpartition("=")
        if not equals or not name or not kind:
            raise InvalidParameter("type", f"--type '{text}' is not of the form FIELD=TYPE.")
        types[name] = kind
    return types


def _resource(store: Store, file: Path, given: dict[str, Any], by: Actor) -> tuple[Table, str]:
    """The resource that is loaded into, and what was made for it now: a ``resource``, or a ``package``, too."""
    from thalweg.domain.errors import InvalidParameter, NotFound
    from thalweg.domain.tables import Package, Table
    from thalweg.services.tables import check_name

    if given["resource"]:
        return store.table(given["resource"]), ""
    if not given["package"]:
        raise InvalidParameter("resource", "Say where the table belongs: --resource UUID or --package NAME.")
    if not file.is_file():
        raise NotFound("source", f"There is no file '{file}'.")
    made = "resource"
    try:
        package = store.package(given["package"])
    except NotFound:
        workspace = store.workspaces().get(given["workspace"])
        if workspace is None:
            raise NotFound("workspace", f"There is no workspace '{given['workspace']}'.") from None
        check_name(given["package"])
        made = "package"
        new = Package(0, "", workspace.id, given["package"], given["package"], not given["private"])
        package = store.put_package(new, by=by).result()
    name = given["name"] or file.name
    new_table = Table(0, "", package.workspace_id, package.id, name, "datastore")
    return store.put_resource(new_table, by=by).result(), made
