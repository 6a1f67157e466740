"""Options that several commands share: the settings file, and settings as options."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

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


def _option(item: Reference) -> Callable[[Any], Any]:
    default = f"  [default: {item.default}]" if item.default else ""
    metavar = {"integer": "N", "number": "N", "role": "ROLE"}.get(item.type, "TEXT")
    if item.name == "store":
        metavar = "URL"
    elif item.declaration.choices:
        metavar = "|".join(item.declaration.choices)
    return click.option(f"--{item.name.replace('_', '-')}", item.name, metavar=metavar, help=item.sentence + default)
