"""``thalweg layer``: make layers without a file, look at them, describe and remove them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from thalweg.cli.options import actor_of_command, table, with_settings
from thalweg.domain.catalogue import DEFAULT_WORKSPACE, Workspace
from thalweg.domain.errors import InvalidParameter, NotFound, StoreUnavailable
from thalweg.settings import Settings

if TYPE_CHECKING:
    from thalweg.domain.features import Field, Layer
    from thalweg.services.features import FeatureService

T = TypeVar("T")

_WRITE_TIMEOUT_S: Final = 60.0
_GEOMETRIES: Final = (
    "Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon", "GeometryCollection", "Geometry",
    "none",
)  # fmt: skip
_KINDS: Final = ("text", "integer", "number", "boolean", "date", "datetime")
_TEXTS: Final = ("title", "description", "keywords", "licence", "attribution")
"""What ``set`` takes, in the order of ``show``."""
_HELP: Final = """
    \b
    title         heading of the layer
    description   what it holds
    keywords      separated by commas
    licence       as URI or text
    attribution   line to be shown with the data

    An empty value takes a text away. A running server shows the change at once.
"""

_workspace = click.option(
    "--workspace", default=DEFAULT_WORKSPACE, show_default=True, metavar="NAME", help="Workspace of the layer."
)


@contextmanager
def _opened(settings: Settings, workspace: str, *, create: bool = False) -> Iterator[tuple[FeatureService, Workspace]]:
    from thalweg import app
    from thalweg.services.features import FeatureService

    store = app.open_store(settings.store, settings=settings) if create else app.open_existing(settings)
    try:
        found = store.workspaces().get(workspace)
        if found is None:
            raise NotFound("workspace", f"There is no workspace '{workspace[:80]}'.")
        yield FeatureService(store), found
    finally:
        store.close()


@click.group()
def layer() -> None:
    """List, create, describe, publish and delete layers of features.

    "thalweg load features" makes layers of files; "thalweg layer create" makes an empty one, to be filled by WFS
    transactions, OGC API - Features or a load. A running server shows each change at once.
    """


@layer.command("list")
@_workspace
@with_settings()
def list_layers(workspace: str, settings: Settings) -> None:
    """List stored layers with their geometry, CRS and number of features."""
    with _opened(settings, workspace) as (service, found):
        layers = list(service.stored_layers(found).values())
        states = service.states(layers)
        rows = [
            (
                item.name,
                item.geometry_kind.value or "none",
                f"EPSG:{item.srid}" if item.has_geometry else "",
                f"{states[item.id].count:,}" if item.id in states else "",
                "public" if item.public else "private",
                item.title,
            )
            for item in layers
        ]
    table(("name", "geometry", "crs", "features", "for", "title"), rows)


@layer.command("show", short_help="Show what the layer NAME is.")
@click.argument("name")
@_workspace
@with_settings()
def show_layer(name: str, workspace: str, settings: Settings) -> None:
    """Show what the layer NAME is, its texts as "thalweg layer set" takes them."""
    with _opened(settings, workspace) as (service, found):
        item = _existing(service, found, name)
        state = service.state(item)
        prefix = service.prefix(item)
    lines = [f"{key}={_shown(getattr(item, key))}" for key in _TEXTS]
    lines += [
        f"type: {prefix}:{item.name}",
        f"ids: {item.id_prefix}.NUMBER",
        f"visibility: {'public' if item.public else 'private'}",
        f"features: {state.count:,}",
    ]
    if item.has_geometry:
        shape = f"{item.geometry_kind.value}, {item.dimensions}D, EPSG:{item.srid}"
        lines.append(f"geometry: {item.geometry_field}, {shape}")
    if state.extent is not None:
        box = state.extent
        lines.append(f"extent: {box.min_x} {box.min_y} {box.max_x} {box.max_y}")
    for field in item.fields:
        notes = f", at most {field.length} characters" * bool(field.length) + ", required" * field.required
        lines.append(f"field: {field.name}, {field.kind.value}{notes}")
    for line in lines:
        click.echo(line)


@layer.command("create")
@click.argument("name")
@click.option(
    "--geometry", "kind", type=click.Choice(_GEOMETRIES, case_sensitive=False), required=True,
    help="Kind of its geometries.",
)  # fmt: skip
@click.option("--crs", default="EPSG:4326", show_default=True, metavar="CRS", help="CRS that it is stored in.")
@click.option("--dimensions", type=click.Choice(["2", "3"]), default="2", show_default=True)
@click.option("--geometry-field", default="geometry", show_default=True, metavar="NAME")
@click.option(
    "--field", "fields", multiple=True, metavar="NAME:KIND[:LENGTH][:required]",
    help=f"A field, of the kind {', '.join(_KINDS)}; repeatable, in order.",
)  # fmt: skip
@click.option("--title", default="", metavar="TEXT", help="Title of the layer.")
@click.option("--description", default="", metavar="TEXT", help="What the layer holds.")
@click.option("--keyword", "keywords", multiple=True, metavar="TEXT", help="Keyword; repeatable.")
@click.option("--licence", default="", metavar="TEXT", help="Licence, as URI or text.")
@click.option("--attribution", default="", metavar="TEXT", help="Line to be shown with the data.")
@click.option("--private", is_flag=True, help="Show the layer to those alone who hold a role.")
@_workspace
@with_settings()
def create_layer(name: str, workspace: str, settings: Settings, **given: Any) -> None:
    """Create the layer NAME without features.

    \b
    thalweg layer create wells --geometry Point --crs EPSG:2056 \\
        --field name:text:80:required --field depth:number --field drilled:date
    """
    from thalweg.domain.features import GeometryKind, Layer
    from thalweg.services.projection import parse_crs

    kind = given["kind"]
    made = Layer(
        0, str(uuid.uuid4()), 0, name,
        title=given["title"], description=given["description"], keywords=tuple(given["keywords"]),
        licence=given["licence"], attribution=given["attribution"], public=not given["private"],
        srid=parse_crs(given["crs"], "crs").srid, geometry_field=given["geometry_field"],
        geometry_kind=GeometryKind.NONE if kind == "none" else GeometryKind(kind),
        dimensions=int(given["dimensions"]), fields=tuple(field_of(text) for text in given["fields"]),
    )  # fmt: skip
    with _opened(settings, workspace, create=True) as (service, found):
        stored = _done(service.put_layer(found, made, by=actor_of_command("layer create")))
        prefix = service.prefix(stored)
    click.echo(f"Created {stored.name}; its features are of the type {prefix}:{stored.name}.")


@layer.command("set", help=f"Change what the layer NAME says of itself.\n{_HELP}")
@click.argument("name")
@click.argument("changes", nargs=-1, required=True, metavar="KEY=VALUE…")
@_workspace
@with_settings()
def set_layer(name: str, changes: tuple[str, ...], workspace: str, settings: Settings) -> None:
    with _opened(settings, workspace) as (service, found):
        before = _existing(service, found, name)
        after = changed(before, changes)
        if after != before:
            _done(service.put_layer(found, after, by=actor_of_command("layer set")))
    click.echo(f"Changed {name}." if after != before else f"{name} says this already.")


@layer.command("publish")
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@_workspace
@with_settings()
def publish(names: tuple[str, ...], workspace: str, settings: Settings) -> None:
    """Show layers to everybody who may read what is public."""
    _set_public(names, workspace, settings, public=True)


@layer.command("hide")
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@_workspace
@with_settings()
def hide(names: tuple[str, ...], workspace: str, settings: Settings) -> None:
    """Show layers to those alone who hold a role for them, their workspace or the server."""
    _set_public(names, workspace, settings, public=False)


@layer.command("delete")
@click.argument("name")
@_workspace
@click.confirmation_option(prompt="The layer and all its features will be lost. Go on?")
@with_settings()
def delete_layer(name: str, workspace: str, settings: Settings) -> None:
    """Delete the layer NAME with its features, their history, and the roles held for it."""
    with _opened(settings, workspace) as (service, found):
        _done(service.delete_layer(_existing(service, found, name), by=actor_of_command("layer delete")))
    click.echo(f"Deleted {name}.")


def _set_public(names: Sequence[str], workspace: str, settings: Settings, *, public: bool) -> None:
    by = actor_of_command("layer publish" if public else "layer hide")
    with _opened(settings, workspace) as (service, found):
        # All of them exist before the first is changed.
        layers = [_existing(service, found, name) for name in names]
        for item in layers:
            _done(service.put_layer(found, replace(item, public=public), by=by))
            click.echo(f"{item.name} is {'public' if public else 'private'}.")


def _existing(service: FeatureService, workspace: Workspace, name: str) -> Layer:
    from thalweg.domain.features import RESERVED_LAYER_NAMES

    found = service.stored_layers(workspace).get(name)
    if found is None:
        if name in RESERVED_LAYER_NAMES:
            raise NotFound("name", f"The layer '{name}' is not stored: it shows the procedures of the workspace.")
        raise NotFound("name", f"There is no layer '{name[:80]}'; list them with: thalweg layer list")
    return found


def field_of(text: str) -> Field:
    """A field from ``NAME:KIND[:LENGTH][:required]``. Raises InvalidParameter ``field``."""
    from thalweg.domain.features import Field, FieldKind

    name, *rest = (part.strip() for part in text.split(":"))
    kind, *notes = rest or [""]
    if kind.lower() not in _KINDS:
        raise InvalidParameter(
            "field", f"'{text[:80]}' is no field: NAME:KIND, the kind one of {', '.join(_KINDS)}."
        )  # fmt: skip
    length, required = 0, False
    for note in notes:
        if note.lower() == "required":
            required = True
        elif note.isascii() and note.isdigit() and len(note) <= 9 and kind.lower() == "text":
            length = int(note)
        else:
            raise InvalidParameter("field", f"'{note[:40]}' says nothing of the {kind.lower()} field '{name[:80]}'.")
    return Field(name, FieldKind(kind.lower()), length=length, required=required)


def changed(layer: Layer, changes: Sequence[str]) -> Layer:
    """The layer with ``KEY=VALUE`` texts applied. InvalidParameter for unknown or doubled keys and other forms."""
    values: dict[str, Any] = {}
    for text in changes:
        key, equals, value = text.partition("=")
        key, value = key.strip().lower(), value.strip()
        if not equals or key not in _TEXTS:
            raise InvalidParameter("changes", f"'{text[:80]}' is not KEY=VALUE with a key of {', '.join(_TEXTS)}.")
        if key in values:
            raise InvalidParameter("changes", f"'{key}' is given twice.")
        keywords = tuple(part.strip() for part in value.split(",") if part.strip())
        values[key] = keywords if key == "keywords" else value
    return replace(layer, **values)


def _shown(value: object) -> str:
    return ",".join(str(part) for part in value) if isinstance(value, tuple) else str(value)


def _done(future: Future[T]) -> T:
    """Wait until a change is durable. StoreUnavailable if that takes more than a minute."""
    try:
        return future.result(_WRITE_TIMEOUT_S)
    except TimeoutError:
        raise StoreUnavailable("The change was not confirmed in time; look whether it was made.") from None
