"""``thalweg settings``."""

from __future__ import annotations

import click

from thalweg.cli.options import flags, with_settings
from thalweg.settings import Settings, as_text, reference


@click.command()
@with_settings(flags())
def settings(settings: Settings) -> None:
    """Show the settings in effect and where each came from."""
    rows = [(r.name, as_text(getattr(settings, r.name)), r.unit, settings.origin(r.name)) for r in reference()]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    for name, value, unit, origin in rows:
        click.echo(f"{name:{widths[0]}}  {value:{widths[1]}}  {unit:{widths[2]}}  {origin}")
