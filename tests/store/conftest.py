"""The fixtures of the shared suite: every test runs on each back end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.store.support import BACKENDS, Backend

from thalweg.domain.store import Store


@pytest.fixture(params=sorted(BACKENDS))
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """A place for a store that does not exist yet."""
    made = BACKENDS[request.param](tmp_path)
    yield made
    made.close()


@pytest.fixture
def store(backend: Backend) -> Store:
    """A new, empty store; closed by the back end."""
    return backend.open()
