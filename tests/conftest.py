"""What all tests share: official schemas, station files, Hypothesis profiles."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis
import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
# Material kept outside the repository, for its size or its licence.
BESIDE = REPOSITORY.parent / "shared"

hypothesis.settings.register_profile(
    "default",
    max_examples=50,
    deadline=None,
    print_blob=True,
    # A build server must give the same verdict twice; at a desk new examples are welcome.
    derandomize=bool(os.environ.get("CI")),
)
hypothesis.settings.register_profile("long", max_examples=1000, deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

SCHEMAS_MISSING = "official schemas not found: {} validations not made"
OSM_MISSING = "OpenStreetMap layers not found: {} tests skipped"
STATIONS_MISSING = "station files not found: {} tests skipped"
GIPOD_MISSING = "sample members of road works (GIPOD) not found: {} tests skipped"
_MISSED: pytest.StashKey[Counter[str]] = pytest.StashKey()


def _required() -> bool:
    return os.environ.get("THALWEG_REQUIRE_SCHEMAS") == "1"


def _folder(variable: str, default: Path) -> Path:
    return Path(os.environ.get(variable) or default)


class Schemas:
    """Official schemas, if they are on this machine."""

    def __init__(self, folder: Path, missed: Counter[str]) -> None:
        self.folder = folder
        self._missed = missed
        self._module = _load_validator(folder / "validate.py")

    @property
    def available(self) -> bool:
        return self._module is not None

    def validate(
        self,
        document: bytes,
        *,
        family: str | None = None,
        app_schemas: Sequence[str | Path] = (),
        strict_features: bool = False,
    ) -> list[str]:
        """Check a response body against its schema.

        family           schema generation, where the namespaces do not tell it (gml2, gml3, sos1, ...)
        app_schemas      application schemas (DescribeFeatureType answers) to use beside the official ones
        strict_features  feature elements must be declared in an application schema
        returns          "line N: message" per error; empty if valid, or if the schemas are absent and not
                         required (counted, and told in the summary)
        """
        if self._module is None:
            if _required():
                pytest.fail(f"THALWEG_REQUIRE_SCHEMAS=1, but there is no validate.py in {self.folder}")
            self._missed[SCHEMAS_MISSING] += 1
            return []
        found = self._module.errors(document, family, [str(path) for path in app_schemas], strict_features)
        return [f"line {line}: {message}" for line, message in found]


def _load_validator(path: Path) -> ModuleType | None:
    if not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location("official_schemas_validate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # The folder is not ours: leave no compiled file in it.
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting comes from the environment that the tests run in."""
    for name in [name for name in os.environ if name.startswith("THALWEG_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def schemas(pytestconfig: pytest.Config) -> Schemas:
    """Official schemas: `assert schemas.validate(body) == []`."""
    return Schemas(_folder("THALWEG_SCHEMAS", BESIDE / "schemas"), pytestconfig.stash[_MISSED])


@pytest.fixture
def stations_dir(pytestconfig: pytest.Config) -> Path:
    """The folder of real station files; the test is skipped where it is absent."""
    folder = _folder("THALWEG_STATIONS", BESIDE / "data" / "stations")
    if not folder.is_dir():
        if _required():
            pytest.fail(f"THALWEG_REQUIRE_SCHEMAS=1, but there are no station files in {folder}")
        pytestconfig.stash[_MISSED][STATIONS_MISSING] += 1
        pytest.skip("station files not found")
    return folder


@pytest.fixture
def osm_dir(pytestconfig: pytest.Config) -> Path:
    """The folder of the OpenStreetMap layers (GeoJSON); the test is skipped where it is absent."""
    folder = _folder("THALWEG_OSM", BESIDE / "data" / "osm")
    if not folder.is_dir():
        if _required():
            pytest.fail(f"THALWEG_REQUIRE_SCHEMAS=1, but there are no OpenStreetMap layers in {folder}")
        pytestconfig.stash[_MISSED][OSM_MISSING] += 1
        pytest.skip("OpenStreetMap layers not found")
    return folder


@pytest.fixture
def gipod_dir(pytestconfig: pytest.Config) -> Path:
    """The folder of real members of an event stream of road works; the test is skipped where it is absent."""
    folder = _folder("THALWEG_GIPOD", BESIDE / "data" / "gipod")
    if not folder.is_dir():
        if _required():
            pytest.fail(f"THALWEG_REQUIRE_SCHEMAS=1, but there are no sample members in {folder}")
        pytestconfig.stash[_MISSED][GIPOD_MISSING] += 1
        pytest.skip("sample members not found")
    return folder


# What was missed is told at the end. Under xdist each worker counts and hands its count to the main process.


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_MISSED] = Counter()


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["thalweg_missed"] = dict(session.config.stash[_MISSED])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    output = getattr(node, "workeroutput", None) or {}
    node.config.stash[_MISSED].update(output.get("thalweg_missed", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for sentence, count in sorted(config.stash[_MISSED].items()):
        terminalreporter.write_line(sentence.format(count), yellow=True)
