"""The documents say what the code does: reference pages are fresh, links lead somewhere, nothing is left out."""

import re
from pathlib import Path

import pytest

from thalweg.cli import COMMANDS
from thalweg.cli.reference import write as write_reference
from thalweg.settings import reference

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.md")])


def test_reference_pages_are_what_the_code_gives(tmp_path: Path) -> None:
    write_reference(tmp_path)
    fresh = {path.name: path.read_text() for path in tmp_path.iterdir()}
    kept = {path.name: path.read_text() for path in (ROOT / "docs/reference").iterdir()}
    assert kept == fresh, "run `make docs`"


def test_every_setting_and_command_is_in_the_reference() -> None:
    settings = (ROOT / "docs/reference/settings.md").read_text()
    for item in reference():
        assert item.name in settings
        assert item.environment in settings
    commands = (ROOT / "docs/reference/commands.md").read_text()
    for name in COMMANDS:
        assert f"thalweg {name}" in commands


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_of_a_page_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_page_of_limits_names_every_limit_its_default_and_a_test() -> None:
    page = (ROOT / "docs/how-to/limits.md").read_text()
    rows = re.findall(r"^\| [^|]+ \| `(\w+)` \| ([^|]+) \| [^|]+ \| `(\w+)` \|$", page, re.MULTILINE)
    settings = {item.name: item.default for item in reference()}
    tests = "\n".join(path.read_text() for path in ROOT.glob("tests/**/*.py"))
    for name, default, test in rows:
        assert settings[name] == default, name
        assert f"def {test}(" in tests, test
    limits = {
        name for name in settings if name.startswith(("max_", "min_")) or name.endswith(("_timeout_s", "_wait_s"))
    }
    # Of one protocol: in its door's README.
    limits -= {"max_period_days"}
    assert limits - {name for name, _, _ in rows} == set()


def test_readme_opens_with_the_two_commands() -> None:
    head = (ROOT / "README.md").read_text().splitlines()[:12]
    assert any(line.startswith("make demo") for line in head)
    assert any(line.startswith("make test") for line in head)
