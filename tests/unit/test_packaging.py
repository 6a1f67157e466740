"""The package's description, and the files that pin what it needs."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import thalweg

LOCKS = ["run.txt", "dev.txt"]


@pytest.fixture(scope="module")
def pyproject(repository: Path) -> dict[str, Any]:
    return tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))


def entries(path: Path) -> list[str]:
    """Logical lines of a requirements file: comments dropped, continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [line.strip() for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def pins(path: Path) -> dict[str, Requirement]:
    found = [Requirement(entry.split(" --hash=", 1)[0]) for entry in entries(path)]
    return {canonicalize_name(requirement.name): requirement for requirement in found}


def test_installed_version_is_that_of_the_package() -> None:
    assert importlib.metadata.version("thalweg") == thalweg.__version__


def test_licence_is_apache_2(pyproject: dict[str, Any], repository: Path) -> None:
    assert pyproject["project"]["license"] == "Apache-2.0"
    text = (repository / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_package_says_it_is_typed() -> None:
    assert (Path(thalweg.__file__).parent / "py.typed").is_file()


def test_changelog_has_an_unreleased_section(repository: Path) -> None:
    assert "\n## [Unreleased]\n" in (repository / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", LOCKS)
def test_lock_names_no_address_and_no_path(repository: Path, name: str) -> None:
    text = (repository / "requirements" / name).read_text(encoding="utf-8")
    assert "://" not in text
    assert not re.search(r"(^|\s)(-i|-f|--(extra-)?index-url|--find-links|--trusted-host)\b", text)
    assert not re.search(r"(^|\s)\.{0,2}/\w", text)


@pytest.mark.parametrize("name", LOCKS)
def test_lock_pins_every_package_by_version_and_hash(repository: Path, name: str) -> None:
    found = entries(repository / "requirements" / name)
    assert len(found) > 20
    pinned = re.compile(r"[a-z0-9-]+(\[[a-z0-9,-]+\])?==[^ ]+( ; [^\\]+?)?( +--hash=sha256:[0-9a-f]{64})+")
    assert [entry for entry in found if not pinned.fullmatch(entry)] == []


@pytest.mark.parametrize("name", LOCKS)
def test_lock_satisfies_what_the_package_asks_for(repository: Path, pyproject: dict[str, Any], name: str) -> None:
    groups = pyproject["dependency-groups"]
    asked = pyproject["project"]["dependencies"] + groups["editable"]
    if name == "dev.txt":
        asked = asked + [entry for group in groups.values() for entry in group if isinstance(entry, str)]
    locked = pins(repository / "requirements" / name)
    for requirement in map(Requirement, asked):
        pin = locked[canonicalize_name(requirement.name)]
        (version,) = (specifier.version for specifier in pin.specifier)
        assert requirement.specifier.contains(version), f"make lock: {requirement} is locked at {version}"


def test_both_locks_agree(repository: Path) -> None:
    run, dev = (pins(repository / "requirements" / name) for name in LOCKS)
    assert {name: pin.specifier for name, pin in run.items()} == {name: dev[name].specifier for name in run}
