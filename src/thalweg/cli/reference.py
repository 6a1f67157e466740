"""Reference pages made from the code: ``python -m thalweg.cli.reference docs/reference``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from thalweg.cli import COMMANDS, cli
from thalweg.settings import ENVIRONMENT_PREFIX, FILE_NAME, reference

_MADE = "<!-- Made from the code by `make docs`; changes belong there. -->"


def settings_page() -> str:
    """Every setting in Markdown."""
    lines = [
        _MADE,
        "# Settings",
        "",
        "A setting is taken from an option of the command line where it has one, else from the environment variable "
        f"`{ENVIRONMENT_PREFIX}` and its name in capitals, else from a TOML file, else from its default. The file is "
        f"the one given by `--config` or `{ENVIRONMENT_PREFIX}CONFIG`, else `{FILE_NAME}` in the folder of the store. "
        "`thalweg settings` shows the settings in effect and where each came from.",
        "",
        "```toml",
        f"# {FILE_NAME}",
        'public_url = "https://data.example.org"',
        "max_body_bytes = 4194304",
        "```",
        "",
    ]
    for item in reference():
        lines += [f"## {item.name}", "", item.sentence, ""]
        lines.append(f"- Default: {f'`{item.default}`' if item.default else 'empty'}{_unit(item.unit)}")
        lines.append(f"- Allowed: {item.allowed}")
        lines.append(f"- Environment: `{item.environment}`")
        if item.declaration.flag:
            lines.append(f"- Option: `--{item.name.replace('_', '-')}`")
        lines.append("")
    return "\n".join(lines)


def commands_page() -> str:
    """Every command with its help text in Markdown."""
    lines = [_MADE, "# Commands", ""]
    context = _context(cli, "thalweg")
    lines += ["```text", cli.get_help(context), "```", ""]
    for name in COMMANDS:
        command = cli.get_command(context, name)
        if command is not None:
            for words, text in _helps(command, f"thalweg {name}"):
                lines += [f"## {words}", "", "```text", text, "```", ""]
    lines += ["Commands end with 0, or with 2 and one line on standard error for what the caller can mend; "]
    lines[-1] += "`thalweg check` ends with 1 if it finds anything wrong."
    return "\n".join(lines) + "\n"


def _helps(command: click.Command, words: str) -> Iterator[tuple[str, str]]:
    context = _context(command, words)
    yield words, command.get_help(context)
    if isinstance(command, click.Group):
        for name, part in command.commands.items():
            yield from _helps(part, f"{words} {name}")


def _context(command: click.Command, words: str) -> click.Context:
    return click.Context(
        command, info_name=words, max_content_width=100, terminal_width=100, help_option_names=["-h", "--help"]
    )


def _unit(unit: str) -> str:
    return f" {unit}" if unit else ""


def write(folder: Path) -> None:
    """Write both pages into a folder, which is made at need."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.md").write_text(settings_page(), "utf-8")
    (folder / "commands.md").write_text(commands_page(), "utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m thalweg.cli.reference FOLDER")
    write(Path(sys.argv[1]))
