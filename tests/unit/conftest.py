"""What tests of single modules share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.store.support import SqliteBackend


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SqliteBackend]:
    """A place for a store of SQLite that does not exist yet."""
    made = SqliteBackend(tmp_path)
    yield made
    made.close()
