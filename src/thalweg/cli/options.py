"""Options that several commands share: the settings file, and settings as options."""

from __future__ import annotations

import functools
import getpass
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from thalweg.domain.access import Actor
from thalweg.settings import Reference, Settings, find_file, load_settings, reference

F = TypeVar("F", bound=Callable[..., Any])


def with_settings(names: Iterable[str] = ("store",)) -> Callable[[F], Callable[..., Any]]:
    """Give a command ``--config`` and an option for each of the settings named, and pass it ``settings``.

    The options' values are checked like those of the file, so that each is refused in the same words.
    """
    wanted = tuple(names)
    declared = {r.name: r for r in reference()}

    def decorate(function: F) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, config: Path | None, **kwargs: Any) -> Any:
            overrides = {name: kwargs.pop(name) for name in wanted}
            return function(*args, settings=settings_of(config, overrides), **kwargs)

        result: Callable[..., Any] = click.option(
            "--config", type=click.Path(path_type=Path), metavar="FILE", help="Settings file (TOML)."
        )(wrapped)
        for name in reversed(wanted):
            result = _option(declared[name])(result)
        return result

    return decorate


def settings_of(config: Path | None, overrides: dict[str, Any]) -> Settings:
    """Settings of a command: options over environment over file."""
    file = find_file(os.environ, overrides) if config is None else config
    return load_settings(file, os.environ, overrides)


def flags() -> list[str]:
    """Names of the settings that ``thalweg serve`` takes as options."""
    return [r.name for r in reference() if r.declaration.flag]


def actor_of_command(operation: str) -> Actor:
    """Who runs a command, for the audit log: the machine's user."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    return Actor(f"system:{name}", door="command", operation=operation)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Show rows in columns. What cannot be shown, such as the escape codes of terminals, is left out."""
    texts = [[_shown(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in texts) for i in range(len(head))]
    for row in texts:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _shown(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)


def _option(item: Reference) -> Callable[[Any], Any]:
    default = f"  [default: {item.default}]" if item.default else ""
    metavar = {"integer": "N", "number": "N", "role": "ROLE"}.get(item.type, "TEXT")
    if item.name == "store":
        metavar = "URL"
    elif item.declaration.choices:
        metavar = "|".join(item.declaration.choices)
    return click.option(f"--{item.name.replace('_', '-')}", item.name, metavar=metavar, help=item.sentence + default)
