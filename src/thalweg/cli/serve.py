"""``thalweg serve``."""

from __future__ import annotations

import sys

import click

from thalweg.cli.options import flags, with_settings
from thalweg.settings import Settings


@click.command()
@with_settings(flags())
def serve(settings: Settings) -> None:
    """Serve the store until SIGTERM or Ctrl-C.

    The store is created at the first start, with an administrator whose password is shown once.
    """
    from thalweg import app

    sys.exit(app.serve(settings, _say))


def _say(line: str) -> None:
    # At once, also into a pipe: whoever started the server waits for these lines.
    click.echo(line)
    sys.stdout.flush()
