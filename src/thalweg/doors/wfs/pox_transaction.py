"""Transactions as XML: what is to be changed, not yet what the values mean (``transaction.py``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lxml import etree

from thalweg.domain.errors import InvalidParameter, InvalidRequest, MissingParameter
from thalweg.doors.wfs.names import namespaces_of, reference_in, type_name
from thalweg.doors.wfs.pox import srs_name
from thalweg.doors.wfs.request import Change, Delete, FilterXml, Insert, Native, Replace, Transaction, TypeName, Update
from thalweg.doors.wfs.versions import V20
from thalweg.encode.crs import CrsName
from thalweg.encode.xml_elements import child, children, local_name, text_of

MAX_CHANGES: Final = 100_000
"""Most actions of one transaction."""
_ID_GEN: Final = ("GenerateNew", "UseExisting", "ReplaceDuplicate")


def transaction(root: etree._Element, version: str) -> Transaction:
    """``wfs:Transaction`` of any version.

    raises  InvalidRequest, MissingParameter, InvalidParameter
    """
    lock_id = (root.get("lockId") or "").strip()
    release = (root.get("releaseAction") or "").strip().upper()
    if release not in ("", "ALL", "SOME"):
        raise InvalidParameter("releaseAction", f"releaseAction is ALL or SOME, not '{release[:40]}'.")
    common = srs_name(root)
    changes: list[Change] = []
    for element in root:
        name = local_name(element)
        if name == "LockId":
            lock_id = text_of(element)
            continue
        reader = _READERS.get(name)
        if reader is None or (name == "Replace" and version != V20):
            raise InvalidRequest(f"'{name[:60]}' is no action of a transaction.", parameter=name[:60])
        changes.append(reader(element, common, version))
        if len(changes) > MAX_CHANGES:
            raise InvalidParameter("Transaction", f"A transaction may have {MAX_CHANGES:,} actions.")
    return Transaction(version, tuple(changes), lock_id, release != "SOME")


def _handle(element: etree._Element) -> str:
    return (element.get("handle") or "")[:200]


def _insert(element: etree._Element, common: CrsName | None, version: str) -> Insert:
    id_gen = (element.get("idgen") or "GenerateNew").strip()
    if id_gen not in _ID_GEN:
        raise InvalidParameter("idgen", f"idgen is one of {', '.join(_ID_GEN)}, not '{id_gen[:40]}'.")
    return Insert(_handle(element), tuple(element), id_gen, srs_name(element) or common)


def _update(element: etree._Element, common: CrsName | None, version: str) -> Update:
    changes: list[tuple[str, etree._Element | None]] = []
    for part in children(element, "Property"):
        name = child(part, "ValueReference")
        if name is None:
            name = child(part, "Name")
        if name is None:
            raise MissingParameter("ValueReference", "A wfs:Property says by ValueReference (1.x: Name) which it is.")
        action = (name.get("action") or "replace").strip()
        if action not in ("replace", "remove", "insertBefore", "insertAfter"):
            raise InvalidParameter("action", f"'{action[:40]}' is no action of an update.")
        value = None if action == "remove" else child(part, "Value")
        changes.append((reference_in(name, "ValueReference"), value))
    if not changes:
        raise MissingParameter("Property", "An Update has no Property.")
    return Update(_handle(element), _type_of(element), tuple(changes), _filter(element), srs_name(element) or common)


def _replace(element: etree._Element, common: CrsName | None, version: str) -> Replace:
    condition = _filter(element)
    if condition is None:
        raise MissingParameter("Filter", "A Replace says by a filter what it replaces.")
    features = [part for part in element if local_name(part) != "Filter"]
    if len(features) != 1:
        raise InvalidRequest("A Replace holds one feature.", parameter="Replace")
    return Replace(_handle(element), features[0], condition, srs_name(element) or common)


def _delete(element: etree._Element, _: CrsName | None, version: str) -> Delete:
    condition = _filter(element)
    if condition is None:
        raise MissingParameter("Filter", "A Delete says by a filter what it removes.")
    return Delete(_handle(element), _type_of(element), condition)


def _native(element: etree._Element, _: CrsName | None, version: str) -> Native:
    safe = (element.get("safeToIgnore") or "").strip().lower()
    if safe not in ("true", "false", "1", "0"):
        raise InvalidParameter("safeToIgnore", f"safeToIgnore is true or false, not '{safe[:40]}'.")
    return Native(_handle(element), (element.get("vendorId") or "")[:200], safe in ("true", "1"))


def _filter(element: etree._Element) -> FilterXml | None:
    found = child(element, "Filter")
    return None if found is None else FilterXml(found)


def _type_of(element: etree._Element) -> TypeName:
    text = (element.get("typeName") or "").strip()
    if not text:
        raise MissingParameter("typeName")
    return type_name(text, namespaces_of(element))


_READERS: Final[dict[str, Callable[[etree._Element, CrsName | None, str], Change]]] = {
    "Insert": _insert,
    "Update": _update,
    "Replace": _replace,
    "Delete": _delete,
    "Native": _native,
}
