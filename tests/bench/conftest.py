"""What tests of the bench share: small filled networks, made once."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# tests/bench is no package: its helpers are found beside it.
sys.path.insert(0, str(Path(__file__).parent))

from thalweg.bench import fill, targets
from thalweg.bench.networks import NETWORKS
from thalweg.bench.targets import Target

SCALE = 0.0008
"""Of 25 years: 7 days."""


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the store of network A, a week of it. Not to be written to."""
    folder = tmp_path_factory.mktemp("filled")
    fill.fill(fill.store_path(folder, "A", SCALE), NETWORKS["A"].scaled(SCALE))
    return folder


@pytest.fixture
def folder(filled: Path, tmp_path: Path) -> Path:
    """A copy that may be written to."""
    for file in filled.glob("*.sqlite"):
        shutil.copy(file, tmp_path / file.name)
    return tmp_path


@pytest.fixture(scope="session")
def served(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A server on a copy of network A, and an account that may write."""
    store = tmp_path_factory.mktemp("served") / "store.sqlite"
    shutil.copy(fill.store_path(filled, "A", SCALE), store)
    with targets.thalweg(targets.Options(store, workers=1)) as target:
        yield target


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("THALWEG_BENCH_CREDENTIALS", "THALWEG_BENCH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
