"""What lies at which path, and which methods it takes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from thalweg.auth.policy import Action
from thalweg.domain.errors import NotFound
from thalweg.domain.features import RESERVED_LAYER_NAMES


class Kind(StrEnum):
    """Resources of the door."""

    LANDING = "landing"
    CONFORMANCE = "conformance"
    API = "api"
    FUNCTIONS = "functions"
    COLLECTIONS = "collections"
    COLLECTION = "collection"
    QUERYABLES = "queryables"
    SORTABLES = "sortables"
    SCHEMA = "schema"
    ITEMS = "items"
    ITEM = "item"


METHODS: Final[dict[Kind, tuple[str, ...]]] = dict.fromkeys(Kind, ("GET",)) | {
    Kind.ITEMS: ("GET", "POST"),
    Kind.ITEM: ("GET", "PUT", "PATCH", "DELETE"),
}
WRITES: Final = {"POST": "create", "PUT": "replace", "PATCH": "update", "DELETE": "delete"}
"""Operations by method; reading is named after its resource."""
OPERATIONS: Final[dict[str, Action]] = {kind.value: Action.READ for kind in Kind} | dict.fromkeys(
    WRITES.values(), Action.EDIT
)

_PLAIN: Final = {
    "": Kind.LANDING,
    "conformance": Kind.CONFORMANCE,
    "api": Kind.API,
    "functions": Kind.FUNCTIONS,
    "collections": Kind.COLLECTIONS,
}
_OF_COLLECTION: Final = {
    "items": Kind.ITEMS,
    "queryables": Kind.QUERYABLES,
    "sortables": Kind.SORTABLES,
    "schema": Kind.SCHEMA,
}


@dataclass(frozen=True, slots=True)
class Target:
    """collection, item  as in the path, decoded; empty where the resource has none"""

    kind: Kind
    collection: str = ""
    item: str = ""


def find(path: str) -> Target:
    """What lies at a path below the door. NotFound for anything else."""
    plain = path.removesuffix("/")
    kind = _PLAIN.get(plain)
    if kind is not None:
        return Target(kind)
    parts = plain.split("/", 3)
    if parts[0] == "collections" and all(parts):
        if len(parts) == 2:
            return Target(Kind.COLLECTION, parts[1])
        if len(parts) == 3 and parts[2] in _OF_COLLECTION:
            return Target(_OF_COLLECTION[parts[2]], parts[1])
        if len(parts) == 4 and parts[2] == "items":
            return Target(Kind.ITEM, parts[1], parts[3])
    raise NotFound("path", f"There is nothing at '{path[:200]}'; the landing page lists what there is.")


def methods_of(target: Target) -> tuple[str, ...]:
    """Methods that a resource takes: collections that show procedures are read alone, whether there are any or not."""
    return ("GET",) if target.collection in RESERVED_LAYER_NAMES else METHODS[target.kind]


def allowed(path: str) -> tuple[str, ...]:
    """Methods that a path takes; none where nothing lies."""
    try:
        return methods_of(find(path))
    except NotFound:
        return ()


def operation(method: str, path: str) -> str:
    """The name for metrics and log lines."""
    try:
        target = find(path)
    except NotFound:
        return "unknown"
    if method in ("GET", "HEAD"):
        return target.kind.value
    return WRITES.get(method, "unknown") if method in methods_of(target) else "unknown"
