"""What packages are found by: written in the transaction of the package or resource, at a cost that goes by it alone.

A package and each of its resources have rows of their own, so that a further resource does not write anew what the
others are found by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from thalweg.domain.packages import FILE_KEY
from thalweg.domain.tables import Package, Table
from thalweg.store.sqlite.writer import Transaction

PUT_ENTRY: Final = """
    INSERT OR REPLACE INTO package_entry
        (package_id, workspace_id, public, active, name, title, created_us, modified_us)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
DELETE_ENTRY: Final = "DELETE FROM package_entry WHERE package_id = ?"
PUT_TERM: Final = "INSERT OR IGNORE INTO package_term (field, value, package_id, resource_id) VALUES (?, ?, ?, ?)"
DELETE_TERMS: Final = "DELETE FROM package_term WHERE package_id = ? AND resource_id = ?"
PUT_TEXT: Final = """
    INSERT OR REPLACE INTO package_text (rowid, name, title, tags, notes, body) VALUES (?, ?, ?, ?, ?, ?)"""
DELETE_TEXT: Final = "DELETE FROM package_text WHERE rowid = ?"
UNKNOWN: Final = "SELECT id FROM package WHERE id NOT IN (SELECT package_id FROM package_entry) LIMIT 1000"

MAX_VALUE: Final = 500
"""Longest value that is found as a whole, characters; longer ones by their words."""
PACKAGE_FIELDS: Final = (
    "license_id", "author", "author_email", "maintainer", "maintainer_email", "version", "url",
)  # fmt: skip
RESOURCE_FIELDS: Final = {
    "format": "res_format", "url": "res_url", "name": "res_name", "description": "res_description", "hash": "res_hash",
}  # fmt: skip


def index_package(tx: Transaction, package: Package) -> None:
    """A package, without its resources, as it is now."""
    tx.rows(
        PUT_ENTRY,
        (
            package.id, package.workspace_id, int(package.public), int(package.active), package.name,
            (package.title or package.name).casefold(), package.created_us, package.modified_us,
        ),
    )  # fmt: skip
    _put_terms(tx, package.id, 0, package_terms(package))
    document = package.document
    tags = [*document.get("tags", ()), *(tag for _, tag in document.get("vocabulary_tags", ()))]
    body = [*_texts(document.get(name) for name in PACKAGE_FIELDS)]
    for item in document.get("extras", ()):
        body += [item["key"], *_texts((item["value"],))]
    # A name is found by its parts, too, and as it is.
    texts = (package.name, package.title, " ".join(tags), str(document.get("notes") or ""), " ".join(body))
    tx.rows(PUT_TEXT, (package.id, *texts))


def package_terms(package: Package) -> Iterator[tuple[str, str]]:
    """Fields and their values."""
    document = package.document
    yield "dataset_type", str(document.get("type") or "dataset")
    for name in PACKAGE_FIELDS:
        yield from ((name, value) for value in _texts((document.get(name),)))
    for tag in document.get("tags", ()):
        yield "tags", tag
    for vocabulary, tag in document.get("vocabulary_tags", ()):
        yield f"vocabulary {vocabulary}", tag
        yield "tags", tag
    for item in document.get("extras", ()):
        yield from ((f"extras_{item['key']}", value) for value in _texts((item["value"],)))


def index_resource(tx: Transaction, table: Table) -> None:
    _put_terms(tx, table.package_id, table.id, resource_terms(table))
    document = table.document
    own = (document.get(name) for name in document if name not in ("description", FILE_KEY))
    body = " ".join(_texts((*own, (document.get(FILE_KEY) or {}).get("name"))))
    tx.rows(PUT_TEXT, (-table.id, "", table.name, "", str(document.get("description") or ""), body))


def resource_terms(table: Table) -> Iterator[tuple[str, str]]:
    given: Mapping[str, Any] = {**table.document, "name": table.name}
    for name, field in RESOURCE_FIELDS.items():
        yield from ((field, value) for value in _texts((given.get(name),)))


def _put_terms(tx: Transaction, package_id: int, resource_id: int, terms: Iterable[tuple[str, str]]) -> None:
    tx.rows(DELETE_TERMS, (package_id, resource_id))
    tx.many(
        PUT_TERM, [(field, value, package_id, resource_id) for field, value in terms if 0 < len(value) <= MAX_VALUE]
    )


def forget_package(tx: Transaction, package_id: int) -> None:
    tx.rows(DELETE_ENTRY, (package_id,))
    tx.rows(DELETE_TERMS, (package_id, 0))
    tx.rows(DELETE_TEXT, (package_id,))


def forget_resource(tx: Transaction, table: Table) -> None:
    tx.rows(DELETE_TERMS, (table.package_id, table.id))
    tx.rows(DELETE_TEXT, (-table.id,))


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str) and value:
            yield value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield str(value)
