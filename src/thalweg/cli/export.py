"""``thalweg export``: a layer into a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click

from thalweg.cli.options import with_settings
from thalweg.settings import Settings


@click.command()
@with_settings(("store",))
@click.argument("layer")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--workspace", default="default", show_default=True, metavar="NAME", help="Workspace of the layer.")
@click.option(
    "--format", "key", metavar="NAME",
    help="geojson, geojsonl, gpkg, fgb, csv, kml or shape-zip.  [default: by the file's ending]",
)  # fmt: skip
@click.option("--crs", metavar="CRS", help="CRS of the coordinates, such as EPSG:2056.  [default: the layer's]")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def export(
    settings: Settings, layer: str, file: Path, workspace: str, key: str | None, crs: str | None, force: bool
) -> None:
    """Write a layer into FILE, or to standard output for "-". Works while the store is served.

    The file appears under its name once it is whole.
    """
    from thalweg import app
    from thalweg.cli.progress import progress
    from thalweg.domain.access import Principal, Role
    from thalweg.domain.errors import AlreadyExists, InvalidParameter, NotFound
    from thalweg.encode.crs import parse_crs
    from thalweg.services.export import EXPORT_FORMATS, export_layer, format_of
    from thalweg.services.features import FeatureService

    to_stdout = str(file) == "-"
    chosen = key or getattr(format_of(file.name), "key", "")
    if not chosen:
        raise InvalidParameter("format", f"Say the format by --format: {', '.join(EXPORT_FORMATS)}.")
    if not to_stdout and file.exists() and not force:
        raise AlreadyExists("file", f"'{file}' is there already; --force writes over it.")
    with closing(app.open_existing(settings)) as store:
        service = FeatureService(store)
        target = store.workspaces().get(workspace)
        if target is None:
            raise NotFound("workspace", f"There is no workspace '{workspace}'.")
        # Whoever can read the store's file may read all that it holds.
        found = service.layer(store.catalogue(target.id), layer, Principal("command line", Role.ADMIN), "layer")
        srid = None if crs is None else parse_crs(crs, "crs").srid
        blocks = export_layer(service, found, chosen, srid=srid, file_name=file.stem if not to_stdout else "")
        if to_stdout:
            for block in blocks:
                sys.stdout.buffer.write(block)
            sys.stdout.buffer.flush()
            return
        with progress(f"Exporting {layer}", 0, "bytes") as advance:
            for size in _written(file, blocks):
                advance(size)
    click.echo(f"Wrote {file}: {file.stat().st_size:,} bytes.")


def _written(file: Path, blocks: Iterator[bytes]) -> Iterator[int]:
    """Write the blocks, telling the size of each; the file takes its name at the end."""
    from thalweg.domain.errors import InvalidParameter

    part = file.with_name(file.name + ".part")
    try:
        with part.open("wb") as stream:
            for block in blocks:
                stream.write(block)
                yield len(block)
        part.replace(file)
    except OSError as error:
        raise InvalidParameter("file", f"'{file}' cannot be written: {error.strerror}.") from None
    finally:
        part.unlink(missing_ok=True)
