"""``thalweg load features``: vector files into layers."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from thalweg.cli.options import actor_of_command, with_settings
from thalweg.settings import Settings


@click.command()
@with_settings(("store",))
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path(path_type=Path))
@click.option("--layer", "name", default="", metavar="NAME", help="Layer to be made.  [default: the file's layer]")
@click.option(
    "--workspace", default="default", show_default=True, metavar="NAME", help="Workspace that is loaded into."
)
@click.option("--crs", metavar="CRS", help="CRS of the coordinates, such as EPSG:2056.  [default: as the file says]")
@click.option("--id", "id_field", default="", metavar="FIELD", help="Integer field that becomes the features' ids.")
@click.option(
    "--order", type=click.Choice(["file", "space"]), default="file", show_default=True,
    help="How features are numbered, and come out: as in the file, or neighbours in space together, without its ids.",
)  # fmt: skip
@click.option(
    "--invalid", type=click.Choice(["keep", "repair", "skip", "refuse"]), default="keep", show_default=True,
    help="What to do with geometries that are not valid.",
)  # fmt: skip
@click.option(
    "--if-exists", type=click.Choice(["refuse", "replace", "append"]), default="refuse", show_default=True,
    help="What to do where the layer is there already.",
)  # fmt: skip
@click.option("--dimensions", type=click.Choice(["2"]), help="2 drops heights.  [default: as the file]")
@click.option("--title", default="", metavar="TEXT", help="Title of the layer.")
@click.option("--description", default="", metavar="TEXT", help="What the layer holds.")
@click.option("--keyword", "keywords", multiple=True, metavar="TEXT", help="Keyword; repeatable.")
@click.option("--attribution", default="", metavar="TEXT", help="Line to be shown with the data.")
@click.option("--licence", default="", metavar="TEXT", help="Licence, as URI or text.")
@click.option("--private", is_flag=True, help="Show the layer to those alone who hold a role.")
@click.option("--source-layer", default="", metavar="NAME", help="Layer of a file that has several.")
@click.option("--x", default="", metavar="COLUMN", help="CSV: column of easting or longitude.")
@click.option("--y", default="", metavar="COLUMN", help="CSV: column of northing or latitude.")
@click.option("--wkt", default="", metavar="COLUMN", help="CSV: column of well-known text.")
@click.option("--delimiter", default="", metavar="CHAR", help="CSV: one of , ; | tab.  [default: found out]")
@click.option("--decimal", type=click.Choice([".", ","]), default=".", show_default=True, help="CSV: decimal mark.")
@click.option("--encoding", default="", metavar="NAME", help="CSV, Shapefile: encoding of texts.")
@click.option("--dry-run", is_flag=True, help="Read and report, store nothing.")
@click.option("--strict", is_flag=True, help="Exit with 1 if a feature or a value was not stored.")
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE", help="All problems, as .json.")
@click.option("--quiet", is_flag=True, help="Show errors alone.")
def features(settings: Settings, files: tuple[Path, ...], workspace: str, **given: Any) -> None:
    """Load vector files, a layer each: GeoJSON, GeoPackage, Shapefile, FlatGeobuf, CSV with coordinates.

    GML, KML and what else GDAL reads needs the extra "thalweg[gdal]". Names and types of fields are taken over, and
    told. A layer appears once all its features are there; a load that was interrupted is run again.
    """
    from thalweg import app
    from thalweg.cli.progress import progress
    from thalweg.domain.errors import InvalidParameter, NotFound
    from thalweg.loading.features.load import load_layer
    from thalweg.loading.features.report import LayerReport, ReportFile, lines
    from thalweg.services.features import FeatureService

    options = _options(given)
    if len(files) > 1 and (given["name"] or given["source_layer"]):
        raise InvalidParameter("layer", "--layer and --source-layer are for one file.")
    reports: list[LayerReport] = []
    with ExitStack() as stack:
        report_file = None if given["report"] is None else stack.enter_context(ReportFile(given["report"]))
        store = app.open_store(settings.store, settings=settings)
        stack.callback(store.close)
        target = store.workspaces().get(workspace)
        if target is None:
            raise NotFound("workspace", f"There is no workspace '{workspace}'.")
        service = FeatureService(store)
        size = 2 * sum(path.stat().st_size for path in files if path.is_file())
        with progress("Loading", size, "bytes") as advance:
            for path in files:
                report = load_layer(
                    service, target, path, options, by=actor_of_command("load features"), advance=advance,
                    sink=None if report_file is None else report_file.add,
                )  # fmt: skip
                reports.append(report)
        if report_file is not None:
            report_file.finish(reports)
    for report in reports:
        if not given["quiet"]:
            for line in lines(report):
                click.echo(line)
        if report.error:
            click.echo(f"Error: {report.file}: {report.error}", err=True)
    rejected = given["strict"] and any(report.rejected for report in reports)
    sys.exit(1 if rejected or any(report.error for report in reports) else 0)


def _options(given: dict[str, Any]) -> Any:
    """Options of the command line as the loader takes them. Raises InvalidParameter."""
    from thalweg.loading.features.crs import srid_of_text
    from thalweg.loading.features.geometries import OnInvalid
    from thalweg.loading.features.source import ReadOptions
    from thalweg.loading.features.survey import IfExists, LayerOptions, Order

    delimiter = {"tab": "\t", "\\t": "\t"}.get(given["delimiter"], given["delimiter"])
    return LayerOptions(
        name=given["name"],
        read=ReadOptions(
            layer=given["source_layer"], x=given["x"], y=given["y"], wkt=given["wkt"], encoding=given["encoding"],
            delimiter=delimiter, decimal=given["decimal"],
        ),
        srid=srid_of_text(given["crs"]) if given["crs"] else None,
        id_field=given["id_field"],
        order=Order(given["order"]),
        invalid=OnInvalid(given["invalid"]),
        if_exists=IfExists(given["if_exists"]),
        dimensions=int(given["dimensions"]) if given["dimensions"] else None,
        title=given["title"],
        description=given["description"],
        keywords=given["keywords"],
        attribution=given["attribution"],
        licence=given["licence"],
        public=False if given["private"] else None,
        dry_run=given["dry_run"],
    )  # fmt: skip
