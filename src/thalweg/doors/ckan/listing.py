"""What lists and descriptions of organizations and of groups have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar
from uuid import NAMESPACE_URL, uuid5

from thalweg.doors.ckan.errors import ValidationError
from thalweg.doors.ckan.reading import Parameters

_PARTS: Final = {
    "package_count": "include_dataset_count", "extras": "include_extras",
    "users": "include_users", "groups": "include_groups", "tags": "include_tags",
}  # fmt: skip
"""What is told of an organization or group only where a parameter does not say otherwise."""


class _Named(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...


T = TypeVar("T", bound=_Named)


def needs_counts(read: Parameters) -> bool:
    """Whether a list is told of, or ordered by, how many packages each has."""
    return read.boolean("all_fields", False) or "package" in read.text("sort") + read.text("order_by")


def in_order(items: list[T], counts: Mapping[str, int], read: Parameters) -> list[T]:
    """Organizations or groups in the order of ``sort``: title, name or package_count, asc or desc.

    raises  ValidationError
    """
    field, _, direction = (read.text("sort") or read.text("order_by") or "title asc").partition(" ")
    keys: dict[str, Callable[[T], Any]] = {
        "name": lambda item: item.name,
        "title": lambda item: (item.title or item.name).casefold(),
        "package_count": lambda item: counts.get(item.name, 0),
    }
    keys["packages"] = keys["package_count"]
    if field not in keys:
        raise ValidationError({"message": f"Cannot sort by field `{field[:100]}`"})
    if direction not in ("", "asc", "desc"):
        raise ValidationError({"message": f"Invalid sort direction `{direction[:100]}`"})
    return sorted(items, key=keys[field], reverse=direction == "desc")


def told(document: dict[str, Any], read: Parameters, *, listed: bool) -> dict[str, Any]:
    """An organization or group with those of its parts that are asked for: by default all, in lists few."""
    for name, parameter in _PARTS.items():
        if not read.boolean(parameter, not listed or name == "package_count"):
            document.pop(name, None)
    return document


def membership(group: str, name: str, kind: str, capacity: str) -> dict[str, Any]:
    """What is told of a new member. Its id is made of what it is of, as there is one at most."""
    number = uuid5(NAMESPACE_URL, f"urn:ckan:member:{group}:{kind}:{name}")
    return {
        "id": str(number), "group_id": group, "table_id": name, "table_name": kind, "capacity": capacity,
        "state": "active",
    }  # fmt: skip
