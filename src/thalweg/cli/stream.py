"""``thalweg stream``: event streams and their views."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from thalweg.cli.options import actor_of_command, with_settings
from thalweg.domain.catalogue import DEFAULT_WORKSPACE
from thalweg.domain.errors import InvalidParameter, NotFound
from thalweg.settings import Settings

if TYPE_CHECKING:
    from thalweg.domain.store import Store
    from thalweg.services.services import Services
    from thalweg.services.streams import Streams

KINDS: Final = ("procedure", "offering", "layer")
GRANULARITIES: Final = ("year", "month", "day", "hour", "minute", "second")
MAX_DOCUMENT_BYTES: Final = 4 << 20
_workspace = click.option(
    "--workspace", default=DEFAULT_WORKSPACE, show_default=True, metavar="NAME", help="Workspace of the stream."
)


@contextmanager
def opened(settings: Settings, *, create: bool = False) -> Iterator[tuple[Store, Streams]]:
    from thalweg import app

    store = app.open_store(settings.store, settings=settings) if create else app.open_existing(settings)
    try:
        yield store, app.streams_of(store, settings)
    finally:
        store.close()


def app_services(store: Store, settings: Settings) -> Services:
    """All use cases over a store."""
    from thalweg.services.services import Services

    return Services.over(store, settings)


def workspace_id(store: Store, name: str) -> int:
    """NotFound ``workspace``."""
    found = store.workspaces().get(name)
    if found is None:
        raise NotFound("workspace", f"There is no workspace '{name}'.")
    return found.id


def read_document(path: Path) -> tuple[bytes, str]:
    """A file's content and media type. Raises NotFound, InvalidParameter."""
    from thalweg.loading.members import media_type_of

    media_type = media_type_of(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise NotFound("file", f"'{path}' cannot be read: {error.strerror}.") from None
    if len(content) > MAX_DOCUMENT_BYTES:
        raise InvalidParameter("file", f"'{path}' is longer than {MAX_DOCUMENT_BYTES >> 20} MiB.")
    return content, media_type


@click.group()
def stream() -> None:
    """List, create and delete event streams and their views.

    Descriptions are RDF files (Turtle, N-Quads, JSON-LD) as the administration of the stream door takes them. A
    running server shows each change at once.
    """


@stream.command("list")
@_workspace
@with_settings()
def list_streams(workspace: str, settings: Settings) -> None:
    """List event streams with their members, and their views with how many members wait."""
    with opened(settings) as (store, streams):
        rows = [("stream", "view", "members", "waiting", "")]
        for item in streams.streams(workspace_id(store, workspace)).values():
            state = streams.state(item)
            notes = ", ".join(note for note in ("closed" * item.is_closed, "" if item.public else "not public") if note)
            rows.append((item.name, "", f"{state.members:,}", "", notes))
            if item.source is not None:
                notes = ", ".join(filter(None, (f"publishes {item.source.kind.value} {item.source.key}", notes)))
                notes = notes.removesuffix(", closed")
                layer = store.layer_part(item.id)
                count = sum(part.members for part in store.parts(item.id).values()) if layer is None else layer.members
                rows[-1] = (item.name, "", f"{count:,}", "", notes)
                rows += [("", view.name, "", "", "") for view in streams.views(item).values()]
                continue
            views = streams.view_states(item)
            for view in streams.views(item).values():
                found = views.get(view.id)
                if found is not None:
                    rows.append(("", view.name, f"{found.members:,}", f"{state.sequence - found.position:,}", ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, view_name, members, waiting, note in rows:
        line = f"{name:{widths[0]}}  {view_name:{widths[1]}}  {members:>{widths[2]}}  {waiting:>{widths[3]}}  {note}"
        click.echo(line.rstrip())


@stream.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--private", is_flag=True, help="For those alone who hold a role for it, its workspace or the server.")
@_workspace
@with_settings()
def create(file: Path, private: bool, workspace: str, settings: Settings) -> None:
    """Create the event stream that FILE describes, with its views.

    Of a stream that is there already, views that it lacks are added; nothing else is changed. "thalweg dataset set
    stream NAME" changes who may read it.
    """
    content, media_type = read_document(file)
    with opened(settings, create=True) as (store, streams):
        workspace_number = workspace_id(store, workspace)
        by = actor_of_command("stream create")
        made, is_new = streams.declare(workspace_number, content, media_type, public=not private, by=by)
        views = ", ".join(streams.views(made)) or "none"
    click.echo(f"{made.name}: {'created' if is_new else 'was there'}; views: {views}")


@stream.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("source")
@click.option("--name", default="", metavar="NAME", help="Name of the stream.  [default: the source's]")
@click.option(
    "--page-size", default=250, show_default=True, type=click.IntRange(1, 10_000), help="Members of a page, at most."
)
@click.option(
    "--granularity",
    default="day",
    show_default=True,
    type=click.Choice(GRANULARITIES),
    help="How deep the view by time goes.",
)
@click.option("--private", is_flag=True, help="For those alone who hold a role for it, its workspace or the server.")
@_workspace
@with_settings()
def publish(
    kind: str,
    source: str,
    name: str,
    page_size: int,
    granularity: str,
    private: bool,
    workspace: str,
    settings: Settings,
) -> None:
    """Publish what is stored as an event stream, without a copy of it.

    SOURCE is the identifier or name of a procedure or an offering, whose observations become members, or the name of
    a layer, of whose features each version does. What is there now comes first, then every later row, correction and
    deletion. The stream gets the views by-page and by-time; "thalweg stream delete" ends it and leaves the data.
    """
    from thalweg.domain.published import SourceKind
    from thalweg.domain.streams import Granularity

    with opened(settings) as (store, streams):
        services = app_services(store, settings)
        stream_made, views = services.published.description(
            workspace_id(store, workspace),
            SourceKind(kind),
            source,
            name=name,
            page_size=page_size,
            granularity=Granularity(granularity),
            public=not private,
        )
        made = streams.create_stream(stream_made, views, by=actor_of_command("stream publish"))
    click.echo(f"{made.name}: publishes the {kind} {source}; views: {', '.join(view.name for view in views)}")


@stream.command()
@click.argument("name")
@_workspace
@click.confirmation_option(prompt="The stream and all its members will be lost. Go on?")
@with_settings()
def delete(name: str, workspace: str, settings: Settings) -> None:
    """Delete the event stream NAME with its members and views."""
    with opened(settings) as (store, streams):
        streams.delete_stream(
            streams.stream(workspace_id(store, workspace), name), by=actor_of_command("stream delete")
        )
    click.echo(f"{name}: deleted")


@stream.command()
@click.argument("name")
@_workspace
@with_settings()
def close(name: str, workspace: str, settings: Settings) -> None:
    """Close the event stream NAME for good: it takes no members any more, and its pages become immutable."""
    with opened(settings) as (store, streams):
        streams.close_stream(streams.stream(workspace_id(store, workspace), name), by=actor_of_command("stream close"))
    click.echo(f"{name}: closed")


@stream.command()
@with_settings()
def work(settings: Settings) -> None:
    """Do the background work that waits: fill views, apply retention, remove what is deleted.

    A running server does it by itself, and then this command leaves it to that.
    """
    from thalweg.services.stream_work import finish_streams

    with opened(settings) as (store, _):
        done = finish_streams(store)
    click.echo("Nothing waits any more." if done else "A running process has it in hand.")


@stream.group()
def view() -> None:
    """Add and delete views of an event stream."""


@view.command("create")
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path))
@_workspace
@with_settings()
def create_view(name: str, file: Path, workspace: str, settings: Settings) -> None:
    """Add the view that FILE describes to the event stream NAME.

    A running server fills it in the background while it serves.
    """
    content, media_type = read_document(file)
    with opened(settings) as (store, streams):
        found = streams.stream(workspace_id(store, workspace), name)
        made = streams.declare_view(found, content, media_type, by=actor_of_command("stream view create"))
    click.echo(f"{name}/{made.name}: created")


@view.command("delete")
@click.argument("name")
@click.argument("view_name", metavar="VIEW")
@_workspace
@with_settings()
def delete_view(name: str, view_name: str, workspace: str, settings: Settings) -> None:
    """Delete VIEW of the event stream NAME; the members stay."""
    with opened(settings) as (store, streams):
        found = streams.stream(workspace_id(store, workspace), name)
        if not streams.delete_view(found, view_name, by=actor_of_command("stream view delete")):
            raise NotFound("view", f"The event stream '{name}' has no view '{view_name}'.")
    click.echo(f"{name}/{view_name}: deleted")
