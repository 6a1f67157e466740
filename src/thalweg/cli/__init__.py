"""The command line: one file per command group, thin, calling services.

A command's module is imported only when that command is asked for, so that ``thalweg --help`` answers at once.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import Any, Final

import click

from thalweg import __version__
from thalweg.domain.errors import ThalwegError


@dataclass(frozen=True, slots=True)
class _Command:
    """Where a command is found, and its line in the list of commands."""

    module: str
    attribute: str
    help: str


COMMANDS: Final = {
    "serve": _Command("thalweg.cli.serve", "serve", "Serve the store until SIGTERM or Ctrl-C."),
    "demo": _Command("thalweg.cli.demo", "demo", "Load sample data and serve it."),
    "load": _Command("thalweg.cli.load", "load", "Load files into the store."),
    "export": _Command("thalweg.cli.export", "export", "Write a layer into a file."),
    "check": _Command("thalweg.cli.store", "check", "Verify every part of the store."),
    "backup": _Command("thalweg.cli.store", "backup", "Copy the store to a new file while it is in use."),
    "restore": _Command("thalweg.cli.store", "restore", "Put a back-up in the place of the store."),
    "info": _Command("thalweg.cli.store", "info", "Show what the store holds and how large it is."),
    "layer": _Command("thalweg.cli.layer", "layer", "List, create, describe, publish and delete layers."),
    "stream": _Command("thalweg.cli.stream", "stream", "List, create and delete event streams and their views."),
    "workspace": _Command("thalweg.cli.workspace", "workspace", "List, add and describe workspaces."),
    "user": _Command("thalweg.cli.access", "user", "List, add, change and remove users."),
    "token": _Command("thalweg.cli.access", "token", "List, create and revoke API tokens."),
    "role": _Command("thalweg.cli.roles", "role", "Grant, revoke and list roles for workspaces and datasets."),
    "dataset": _Command("thalweg.cli.roles", "dataset", "List datasets, and open or close them to everybody."),
    "audit": _Command("thalweg.cli.audit", "audit", "Show who changed what, when and from where."),
    "bench": _Command("thalweg.cli.bench", "bench", "Measure this server under load."),
    "settings": _Command("thalweg.cli.show_settings", "settings", "Show the settings in effect and their origin."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = COMMANDS.get(cmd_name)
        if found is None:
            return None
        command = getattr(importlib.import_module(found.module), found.attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{found.module}.{found.attribute} is no command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ThalwegError as error:
            # One line for what the caller can mend; a traceback is for faults of the program.
            click.echo(f"Error: {error.message}", err=True)
            ctx.exit(2)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="thalweg", message="%(prog)s %(version)s")
def cli() -> None:
    """Thalweg, an open data server: one store, several doors.

    Settings come from options, else from environment variables THALWEG_<NAME>, else from the file given by --config or
    thalweg.toml in the folder of the store. "thalweg settings" shows those in effect.
    """


def main() -> None:
    """Entry point of the program ``thalweg``."""
    cli(prog_name="thalweg")
    sys.exit(0)
