"""Verifying what packages are found by against the packages and resources themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from thalweg.domain.store import Finding
from thalweg.store.sqlite.connection import Readers
from thalweg.store.sqlite.package_index import MAX_VALUE, package_terms, resource_terms
from thalweg.store.sqlite.table_entities import TableCatalogue

_ENTRIES: Final = "SELECT package_id, workspace_id, public, active, name, created_us, modified_us FROM package_entry"
_TERMS: Final = "SELECT field, value, resource_id FROM package_term WHERE package_id = ?"
_STRAYS: Final = "SELECT DISTINCT package_id FROM {table} WHERE package_id NOT IN (SELECT id FROM package)"
_IS_THERE: Final = "SELECT 1 FROM package WHERE id = ?"


def check_packages(readers: Readers) -> Iterator[Finding]:
    """Findings as they come, each package read in a snapshot."""
    for name in ("package_entry", "package_term", "package_group_member"):
        for (number,) in readers.rows(_STRAYS.format(table=name)):
            yield Finding(f"package {number}", f"{name} has rows of this package, which is not there")
    catalogue = TableCatalogue(readers)
    for known in catalogue.packages():
        with readers.mine().snapshot():
            problems = list(_problems(readers, catalogue, known.id)) if readers.rows(_IS_THERE, (known.id,)) else []
        yield from (Finding(f"package {known.name}", problem) for problem in problems)


def _problems(readers: Readers, catalogue: TableCatalogue, number: int) -> Iterator[str]:
    package = catalogue.package_with(number)
    entry = (
        package.id, package.workspace_id, int(package.public), int(package.active), package.name,
        package.created_us, package.modified_us,
    )  # fmt: skip
    if readers.rows(f"{_ENTRIES} WHERE package_id = ?", (number,)) != [entry]:
        yield "what it is listed by is not what it is"
    expected = {(field, value, 0) for field, value in package_terms(package)}
    for table in catalogue.tables(number):
        expected |= {(field, value, table.id) for field, value in resource_terms(table)}
    expected = {term for term in expected if 0 < len(term[1]) <= MAX_VALUE}
    if set(readers.rows(_TERMS, (number,))) != expected:
        yield "what it is found by is not what it says"
