"""Fixtures of several files about one door; a file that needs another site has a fixture of that name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conformance.ckan_support import Site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The CKAN door over a store of its own."""
    made = Site(tmp_path_factory.mktemp("ckan"))
    yield made
    made.close()
