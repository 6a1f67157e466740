"""``thalweg bench``: fill, measure, report, compare. What is done is in ``thalweg.bench``."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from thalweg.bench.options import RunOptions

CREDENTIALS = "THALWEG_BENCH_CREDENTIALS"
TOKEN = "THALWEG_BENCH_TOKEN"  # noqa: S105 (the name of a variable)


class _Bench(click.Group):
    """What stops a measurement is told in a line."""

    def invoke(self, ctx: click.Context) -> Any:
        from thalweg.bench.errors import BenchError

        try:
            return super().invoke(ctx)
        except BenchError as error:
            raise click.ClickException(str(error)) from None


@click.group(cls=_Bench)
def bench() -> None:
    """Repeat the four performance studies on this server or any other, and report.

    Needs the packages of the extra "bench" (pip install 'thalweg[bench]'), and for rates wrk and nginx.
    """


@bench.command("list")
def list_profiles() -> None:
    """List networks and profiles."""
    from thalweg.bench.layers import LAYERS
    from thalweg.bench.networks import NETWORKS
    from thalweg.bench.profiles import PROFILES

    for network in NETWORKS.values():
        click.echo(
            f"data     {network.name:22} {network.procedures:,} procedures x {network.properties} properties, "
            f"{network.rows:,} rows each, {network.values / 1e6:,.1f} M values"
        )
    for layer, kind in LAYERS.items():
        click.echo(f"data     {layer:22} a layer of {kind} features")
    for profile in PROFILES.values():
        click.echo(f"profile  {profile.name:22} {profile.title}")


_FOLDER = click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False), default=Path("thalweg-bench"), show_default=True,
    help="Where stores and results are kept.",
)  # fmt: skip


@bench.command()
@click.argument("data", type=click.Choice(["A", "B", "C", "osm_mainroads", "osm_places", "osm_mainroads_1m"],
                                      case_sensitive=False))  # fmt: skip
@click.option("--scale", default=1.0, show_default=True, type=click.FloatRange(0, 1, min_open=True),
              help="Networks: part of the history that is made.")  # fmt: skip
@click.option(
    "--processes", type=click.IntRange(1, 64), help="That make values and encode.  [default: cores, at most 2]"
)
@click.option(
    "--features", type=click.IntRange(1, 10_000_000),
    help="Layers: how many.  [default: 8,000; of osm_mainroads_1m 1,000,000]",
)  # fmt: skip
@click.option("--source", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Layers: GeoJSON file that is repeated.  [default: made features]")  # fmt: skip
@_FOLDER
def fill(
    data: str, scale: float, processes: int | None, features: int | None, source: Path | None, folder: Path
) -> None:
    """Load DATA, a network or a layer, for the profiles that need it.

    A load that was interrupted goes on when it is run again; a filled network is left as it is.
    """
    from thalweg.cli.progress import progress

    if data.upper() not in ("A", "B", "C"):
        _fill_layer(data.lower(), features, source, folder)
        return
    from thalweg.bench import fill as filling
    from thalweg.bench.networks import NETWORKS

    network = NETWORKS[data.upper()].scaled(scale)
    path = filling.store_path(folder, network.name, scale)
    many = processes or min(2, os.cpu_count() or 1)
    with progress(f"network {network.name}", total=network.values, unit="values") as advance:
        filled = filling.fill(path, network, processes=many, advance=advance)
    click.echo(
        f"{path}: {filled.values:,} values in {filled.seconds:.1f} s "
        f"({filled.values / filled.seconds / 1e6:.1f} M/s), {filled.size_bytes / 1e6:.1f} MB, "
        f"{filled.size_bytes / filled.values:.3f} bytes per value"
    )


def _fill_layer(layer: str, wanted: int | None, source: Path | None, folder: Path) -> None:
    import subprocess
    import sys

    from thalweg.bench import layers
    from thalweg.cli.progress import progress

    features = wanted or layers.FEATURES.get(layer, layers.DEFAULT_FEATURES)
    file = folder / f"{layer}.geojson"
    with progress(layer, total=features, unit="features") as advance:
        layers.write(file, layer, features, source, advance)
    start = time.perf_counter()
    command = [
        sys.executable, "-m", "thalweg", "load", "features", str(file), "--layer", layer, "--if-exists", "replace",
        "--store", f"sqlite:///{folder / 'layers.sqlite'}",
    ]  # fmt: skip
    if subprocess.run(command, check=False).returncode:
        raise click.ClickException(f"{file} could not be loaded.")
    click.echo(f"{layer}: {features:,} features loaded in {time.perf_counter() - start:.1f} s")


def _numbers(kind: type) -> Callable[[click.Context, click.Parameter, str], tuple[Any, ...]]:
    """A list of positive numbers with commas."""

    def read(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[Any, ...]:
        try:
            found = tuple(kind(part) for part in text.split(",") if part)
        except ValueError:
            raise click.BadParameter(f"'{text}' is no list of numbers with commas between.") from None
        if any(number <= 0 for number in found):
            raise click.BadParameter("numbers must be above 0.")
        return found

    return read


def _pairs(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    pairs = dict(part.partition("=")[::2] for part in given)
    if not all(pairs.values()):
        raise click.BadParameter("write NAME=VALUE.")
    return pairs


_OPTIONS = (
    click.option("--network", type=click.Choice(["A", "B", "C"], case_sensitive=False), default="A", show_default=True,
                 help="SOS: on which network; for a peer, what it holds."),
    click.option("--scale", default=1.0, show_default=True, help="SOS: of the network's history, as filled."),
    click.option("--users", default="", callback=_numbers(int), metavar="N,…", help="Users at once, a phase for each."),
    click.option("--connections", default="", callback=_numbers(int), metavar="N,…", help="Connections at once."),
    click.option("--rates", default="", callback=_numbers(float), metavar="N,…", help="Requests due a second."),
    click.option("--requests", default=0, help="How many, where a profile counts them.  [default: the profile's]"),
    click.option("--seconds", type=click.FloatRange(0, 86_400, min_open=True), help="Length of a phase."),
    click.option("--ramp", "ramp_s", type=click.FloatRange(0, 3600), help="Seconds over which users come."),
    click.option("--think", "think_s", default="", callback=_numbers(float), metavar="A,B",
                 help="Shortest and longest pause of a user, seconds."),
    click.option("--rounds", type=click.IntRange(1, 100), help="How often each is measured, by turns."),
    click.option("--timeout", "timeout_s", default=60.0, show_default=True, help="Seconds to wait for an answer."),
    click.option("--producers/--no-producers", default=True, show_default=True,
                 help="SOS users: with sensors that insert."),
    click.option("--producer-every", "producer_s", type=float, metavar="S",
                 help="Seconds between a producer's inserts."),
    click.option("--driver", type=click.Choice(["wrk", "own"]), default="wrk", show_default=True,
                 help="Of loads without pause; 'own' reads and judges each answer."),
    click.option("--sos-version", type=click.Choice(["1.0.0", "2.0.0"]), default="1.0.0", show_default=True),
    click.option("--resource", default="", metavar="ID", help="DataStore: an existing table, taken as it is."),
    click.option("--rows", default=0, help="DataStore: rows of the table that is made.  [default: the profile's]"),
    click.option("--members", type=click.Path(path_type=Path, exists=True, dir_okay=False),
                 help="LDES: file of members, the study's template or N-Quads.  [default: made ones]"),
    click.option("--workers", default=2, show_default=True, help="Processes of the Thalweg that is started."),
    click.option("--setting", "settings", multiple=True, callback=_pairs, metavar="NAME=VALUE",
                 help="Of the Thalweg that is started; repeatable."),
    click.option("--cold", is_flag=True, help="Drop the store from the page cache, and do not warm up."),
    click.option("--server-pid", "pids", multiple=True, type=click.IntRange(1), metavar="PID",
                 help="A peer's process here, to be watched with its children; repeatable (its database's)."),
    click.option("--seed", default=7, show_default=True),
    _FOLDER,
)  # fmt: skip


def _with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(profile: str, out: Path | None, **given: Any) -> Any:
        from thalweg.bench.options import RunOptions
        from thalweg.bench.workloads import Options

        name, _, password = os.environ.get(CREDENTIALS, "").partition(":")
        own = {key: given.pop(key) for key in ("base", "change") if key in given}
        work = Options(
            given.pop("sos_version"), given.pop("resource"), given.pop("rows"), given.pop("members"), given.pop("seed")
        )
        options = RunOptions(
            network=given.pop("network").upper(), own_driver=given.pop("driver") == "own", work=work,
            credentials=(name, password) if name else None, token=os.environ.get(TOKEN, ""), **given,
        )  # fmt: skip
        return function(profile, options, out, **own)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


@bench.command()
@click.argument("profile")
@click.option("--target", "url", default="", metavar="URL",
              help="Address of any server of that protocol.  [default: this Thalweg, started here]")  # fmt: skip
@click.option("--commit", default="", metavar="REV", help="Start that commit of this repository instead.")
@click.option("--name", default="", help="What the report calls the target.")
@click.option("--jtl", type=click.Path(path_type=Path, dir_okay=False), help="Write each request as JMeter does, too.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False),
              help="File of figures (JSON).  [default: in the folder's results]")  # fmt: skip
@_with_options
def run(profile: str, options: RunOptions, out: Path | None) -> None:
    """Run PROFILE (see "thalweg bench list") and keep its figures.

    A peer's credentials are taken from THALWEG_BENCH_CREDENTIALS (name:password) or THALWEG_BENCH_TOKEN. An interrupted
    run keeps what it has, marked partial.
    """
    from thalweg.bench.results import Result
    from thalweg.bench.run import run as measure
    from thalweg.bench.session import default_file, measuring

    chosen = _profile(profile)
    file = out or default_file(options.folder, profile)
    result = Result({"kind": "run"}, file)
    with measuring(result):
        measure(chosen, options, result, click.echo)
    _kept(file, result.data["failures"])


@bench.command()
@click.argument("profile")
@click.option("--base", required=True, metavar="SIDE", help="checkout, commit:REV or a URL.")
@click.option("--change", default="checkout", show_default=True, metavar="SIDE", help="The same.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False),
              help="File of figures (JSON).  [default: in the folder's results]")  # fmt: skip
@_with_options
def compare(profile: str, options: RunOptions, out: Path | None, base: str, change: str) -> None:
    """Measure two servers or commits by turns, five rounds, and give the ratio change : base with its spread.

    First both are asked the same, and what they answer is decoded and has to be equal.
    """
    from thalweg.bench.compare import compare as measure
    from thalweg.bench.results import Result
    from thalweg.bench.session import default_file, measuring

    chosen = _profile(profile)
    file = out or default_file(options.folder, f"{profile}-compared")
    result = Result({"kind": "comparison"}, file)
    with measuring(result):
        measure(chosen, base, change, options, result, click.echo)
    _kept(file, result.data["failures"])


@bench.command()
@click.argument("results", nargs=-1, required=True, metavar="RESULT…", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--html", "html_file", type=click.Path(path_type=Path, dir_okay=False), help="Write a page with plots.")
@click.option("--markdown", "markdown_file", type=click.Path(path_type=Path, dir_okay=False),
              help="Write Markdown.  [default: shown, unless --html is given]")  # fmt: skip
def report(results: tuple[Path, ...], html_file: Path | None, markdown_file: Path | None) -> None:
    """Tables and plots of RESULT files, the studies' own figures beside. The page needs nothing beside itself."""
    from thalweg.bench.report.write import html, markdown
    from thalweg.bench.results import read

    runs = [read(file) for file in results]
    for file, text in ((html_file, html), (markdown_file, markdown)):
        if file is not None:
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text(runs), "utf-8")
            except OSError as error:
                raise click.ClickException(f"{file} cannot be written: {error.strerror}.") from None
            click.echo(f"{file} written", err=True)
    if html_file is None and markdown_file is None:
        click.echo(markdown(runs), nl=False)


@bench.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--target", "url", required=True, metavar="URL", help="Address of an SOS 1.0.0, to read its network.")
@click.option("--network", type=click.Choice(["A", "B", "C"], case_sensitive=False), default="A", show_default=True)
def locustfile(file: Path, url: str, network: str) -> None:
    """Write the SOS study's consumers as a FILE for Locust."""
    from thalweg.bench.locustfile import locustfile as text_of
    from thalweg.bench.sos import discover
    from thalweg.bench.targets import origin_url, peer

    service = discover(peer(url))
    file.write_text(text_of(service, network.upper(), origin_url(url)), "utf-8")
    click.echo(f"{file} written; run: locust -f {file} --host {origin_url(url)} --users 100")


def _profile(name: str) -> Any:
    from thalweg.bench.profiles import PROFILES

    if name not in PROFILES:
        raise click.ClickException(f"There is no profile '{name}'; there are: {', '.join(PROFILES)}.")
    return PROFILES[name]


def _kept(file: Path, failed: int) -> None:
    if failed:
        click.echo(f"{failed} requests FAILED: these figures say nothing about speed.")
    click.echo(f"Figures: {file}. Report: thalweg bench report {file}")
