"""Packages and resources as clients describe them, into the domain's. All faults are told at once."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from thalweg.auth.policy import Action
from thalweg.domain.access import Principal
from thalweg.domain.errors import InvalidParameter, NotFound
from thalweg.domain.packages import FILE_KEY, Group, StoredFile, file_of
from thalweg.domain.tables import Package, Table
from thalweg.doors.ckan.documents import PACKAGE_TEXTS
from thalweg.doors.ckan.errors import ValidationError, fault
from thalweg.doors.ckan.formats import format_named, format_of, path_of
from thalweg.doors.ckan.reading import Parameters, json_or, whole_number
from thalweg.doors.ckan.transport import with_floats
from thalweg.services.files import guessed_type
from thalweg.services.packages import check_tag
from thalweg.services.services import Services

RESOURCE_TEXTS: Final = (
    "url", "description", "format", "mimetype", "mimetype_inner", "hash", "resource_type", "cache_url",
)  # fmt: skip
_OWN: Final = frozenset(
    "id package_id name position created last_modified metadata_modified state url_type datastore_active "
    "cache_last_updated revision_id upload clear_upload package datastore_contains_all_records_of_source_file".split()
)
"""Keys of a resource that the server says itself; all that are not known are kept as they are."""
TIMES: Final = ("last_modified", "cache_last_updated")
"""Times of what a link leads to; a client says them."""
TABLES: Final = ("datastore", "tabledesigner")
"""Kinds of resources that are tables and no links; others than these and files are links, whatever extension of CKAN
they belong to."""
MAX_URL_TYPE: Final = 100
MAX_TAGS: Final = 200
MAX_EXTRAS: Final = 500
MAX_RESOURCES: Final = 1_000
"""Most resources that a package is described with in one request."""
MAX_GROUPS: Final = 100
MAX_TEXT: Final = 100_000
"""Longest text of a description, characters."""
MAX_VERSION: Final = 100
"""Longest version of a package, as CKAN has it."""
MAX_EMAIL: Final = 320
"""Longest address of an author or maintainer: 64 characters, @ and 255 (RFC 5321 section 4.5.3.1)."""
_LABEL: Final = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_EMAIL: Final = re.compile(rf"[A-Za-z0-9.!#$%&'*+/=?^_`{{|}}~-]+@{_LABEL}(?:\.{_LABEL})*")
"""What HTML takes for an address (HTML, section 4.10.5.1.5)."""
_FIELDS: Final = frozenset(
    (*PACKAGE_TEXTS, *"id name title type state private owner_org tags tag_string resources groups extras".split())
)
"""Names of fields, which no extra can have."""


@dataclass(slots=True)
class Described:
    """A package, and what it is to hold; None: as it is."""

    package: Package
    resources: list[Table] | None = None
    groups: list[Group] | None = None


def package_for(resource: Mapping[str, Any], services: Services, principal: Principal) -> Package:
    """The package that a new resource is to belong to, if the caller may add to it."""
    key = resource.get("package_id")
    if not key or not isinstance(key, str):
        raise fault("package_id", "Missing value")
    try:
        return services.tables.package(key, principal, Action.REGISTER)
    except NotFound:
        raise NotFound("package_id", f"Dataset {key[:200]!r} was not found.") from None


# ------------------------------------------------------------------ resources


def new_resource(given: Mapping[str, Any], package: Package, file: StoredFile | None = None) -> Table:
    """A resource as a client describes it, not stored yet. Raises ValidationError."""
    uuid = given.get("id") or ""
    faults = resource_faults(given)
    if not isinstance(uuid, str) or (uuid and not is_id(uuid)):
        faults["id"] = ["Invalid id provided"]
    if faults:
        raise ValidationError(faults)
    url_type = given.get("url_type") or ""
    made = Table(0, uuid, package.workspace_id, package.id, given.get("name") or "", "")
    return _described(made, given, "datastore" if url_type in TABLES else "", file)


def changed_resource(old: Table, given: Mapping[str, Any], own_url: str, file: StoredFile | None = None) -> Table:
    """A known one as a client describes it anew.

    own_url  where its file is now; one that is named otherwise, or taken back (``clear_upload``), goes
    raises   ValidationError
    """
    faults = resource_faults(given)
    if faults:
        raise ValidationError(faults)
    if "format" not in given and file is None:
        given = {**given, "format": old.document.get("format")}
    clear = str(given.get("clear_upload") or "").lower() in ("true", "1", "yes", "on")
    url = given.get("url")
    # Old clients send the name alone of a file that is uploaded.
    is_own = not url or url == own_url or (given.get("url_type") == "upload" and "/" not in url)
    kept = file or (None if clear or not is_own else file_of(old))
    url_type = old.url_type if old.url_type == "datastore" and not file else ""
    if given.get("url_type") in TABLES:
        url_type = "datastore"
    elif url_type and isinstance(url, str) and url and not url.endswith(f"/datastore/dump/{old.uuid}"):
        url_type = ""
    return _described(replace(old, name=given.get("name") or ""), given, url_type, kept)


def _described(table: Table, given: Mapping[str, Any], url_type: str, file: StoredFile | None) -> Table:
    kept = {name: with_floats(value) for name, value in given.items() if name not in _OWN and name != FILE_KEY}
    if kept.get("hash") is None:
        kept.pop("hash", None)
    if "size" in kept:
        kept["size"] = whole_number(kept["size"])
    for key in TIMES:
        if instant(given.get(key)):
            kept[key] = instant(given[key])
    name = table.name
    if file is not None:
        url_type = "upload"
        kept = {key: value for key, value in kept.items() if key not in ("url", "size", "hash")}
        kept[FILE_KEY] = file.document()
        kept["mimetype"] = kept.get("mimetype") or file.mimetype
        name = name or file.name
    elif url_type == "datastore":
        kept.pop("url", None)
    elif given.get("url_type") not in (None, "", "upload", *TABLES):
        kept["url_type"] = given["url_type"]
    address = file.name if file is not None else path_of(str(kept.get("url") or ""))
    if not kept.get("mimetype") and guessed_type(address):
        kept["mimetype"] = guessed_type(address)
    given_format = str(kept.pop("format", None) or "").strip()
    found = format_named(given_format) if given_format else format_of(address)
    if found:
        kept["format"] = found
    return replace(table, name=name, url_type=url_type, document=kept)


def resource_faults(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is wrong with a description, by field."""
    faults: dict[str, Any] = {}
    for name in ("name", *RESOURCE_TEXTS):
        value = given.get(name)
        if value is not None and not isinstance(value, str):
            faults[name] = ["Must be a text"]
        elif value is not None and ("\0" in value or len(value) > MAX_TEXT):
            faults[name] = [f"Must be a text of at most {MAX_TEXT:,} characters"]
    url_type = given.get("url_type") or ""
    if not isinstance(url_type, str) or len(url_type) > MAX_URL_TYPE:
        faults["url_type"] = [f"Must be a text of at most {MAX_URL_TYPE} characters"]
    size = given.get("size")
    if size not in (None, "") and whole_number(size) is None:
        faults["size"] = ["Invalid integer"]
    for name in TIMES:
        value = given.get(name)
        if value not in (None, "") and instant(value) is None:
            faults[name] = ["Date format incorrect"]
    upload = given.get("upload")
    if upload not in (None, ""):
        faults["upload"] = ["A file is uploaded as multipart/form-data"]
    return faults


def instant(value: Any) -> str | None:
    """A time as it is shown; None: it is none."""
    if not isinstance(value, str) or len(value) > 40:
        return None
    try:
        found = datetime.fromisoformat(value.strip())
        return (found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found).isoformat()
    except (ValueError, OverflowError):
        # The latter of what is before the first year, or after the last, in UTC.
        return None


def is_id(text: str) -> bool:
    """What can stand in a path as it is."""
    return 7 <= len(text) <= 100 and all(letter.isascii() and (letter.isalnum() or letter in "-_") for letter in text)


# ------------------------------------------------------------------ packages


def described(
    given: Mapping[str, Any], services: Services, old: Package | None = None, tables: list[Table] | None = None,
    own_urls: Mapping[str, str] | None = None,
) -> Described:  # fmt: skip
    """A package as a client describes it.

    old, tables  the package that is changed, with the resources the caller sees; None: a new one
    own_urls     where their files are, by UUID
    raises       ValidationError
    """
    read = Parameters(given)
    document: dict[str, Any] = {}
    for name in ("name", "title", *PACKAGE_TEXTS):
        value = given.get(name)
        if value is not None and not isinstance(value, str):
            read.fault(name, "Must be a text")
        elif value is not None and (len(value) > MAX_TEXT or "\0" in value):
            read.fault(name, f"Must be a text of at most {MAX_TEXT:,} characters")
        elif name in PACKAGE_TEXTS and value is not None:
            document[name] = value
            if name.endswith("_email") and value and not (len(value) <= MAX_EMAIL and _EMAIL.fullmatch(value)):
                read.fault(name, f"Email {value[:MAX_EMAIL]} is not a valid format")
    if len(document.get("version", "")) > MAX_VERSION:
        read.fault("version", f"Version must be a maximum of {MAX_VERSION} characters long")
    given_name = given.get("name") or (old.name if old is not None else "")
    if not given_name:
        read.fault("name", "Missing value")
    # What a package is stays as it was made.
    kind = old.document.get("type", "dataset") if old is not None else given.get("type") or "dataset"
    if not isinstance(kind, str) or len(kind) > 100:
        read.fault("type", "Must be a text")
    elif kind != "dataset":
        document["type"] = kind
    uuid = given.get("id") or ""
    if old is None and (not isinstance(uuid, str) or (uuid and not is_id(uuid))):
        read.fault("id", "Invalid id provided")
    state = given.get("state") or "active"
    if state not in ("active", "deleted", "draft"):
        read.fault("state", "Value must be one of active, deleted, draft")
    elif state == "draft":
        document["state"] = state
    _read_tags(read, document, services)
    _read_extras(read, document)
    groups = _read_groups(read, services)
    private = read.boolean("private", False)
    resources = None
    if old is None or given.get("resources") is not None:
        resources = _read_resources(read, old, tables or [], own_urls or {})
    read.done()
    title = (given.get("title") or "").strip()
    if old is None:
        package = Package(0, uuid, 0, given_name, title, not private, state == "active", document)
    else:
        if "creator" in old.document:
            document["creator"] = old.document["creator"]
        package = replace(
            old, name=given_name, title=title, public=not private, active=state == "active", document=document
        )
    if resources is not None:
        resources = [
            table if table.id else replace(table, workspace_id=package.workspace_id, package_id=package.id)
            for table in resources
        ]
    return Described(package, resources, groups)


def _read_tags(read: Parameters, document: dict[str, Any], services: Services) -> None:
    tags = json_or(read.given.get("tags") or [])
    text = read.given.get("tag_string")
    named = [name.strip() for name in text.split(",") if name.strip()] if isinstance(text, str) else []
    if not isinstance(tags, list) or len(tags) + len(named) > MAX_TAGS or not all(isinstance(t, dict) for t in tags):
        read.fault("tags", f"Not a list of at most {MAX_TAGS} dicts, each with a name")
        return
    for name in named:
        _check_tag(read, "tag_string", name)
    free = set(named)
    bound: set[tuple[str, str]] = set()
    known = None
    for tag in tags:
        name, vocabulary_id = tag.get("name"), tag.get("vocabulary_id")
        if not isinstance(name, str):
            read.fault("tags", "Missing value")
        elif vocabulary_id:
            known = known or {v.uuid: v for v in services.packages.vocabularies()}
            vocabulary = known.get(vocabulary_id) if isinstance(vocabulary_id, str) else None
            if vocabulary is None:
                read.faults.setdefault("tags", []).append({"vocabulary_id": ["Tag vocabulary was not found."]})
            elif name not in vocabulary.tags:
                read.fault("tags", f"Tag {name[:100]} does not belong to vocabulary {vocabulary.name}")
            else:
                bound.add((vocabulary.uuid, name))
        else:
            _check_tag(read, "tags", name)
            free.add(name)
    document["tags"] = sorted(free)
    if bound:
        document["vocabulary_tags"] = [list(item) for item in sorted(bound)]


def _check_tag(read: Parameters, parameter: str, name: str) -> None:
    try:
        check_tag(name)
    except InvalidParameter as error:
        read.fault(parameter, error.message)


def _read_extras(read: Parameters, document: dict[str, Any]) -> None:
    found = read_extras(read.given, read.faults, MAX_EXTRAS, _FIELDS)
    for key, times in Counter(item["key"] for item in found).items():
        if times > 1:
            read.fault("extras_validation", f'Duplicate key "{key[:100]}"')
    document["extras"] = found


def read_extras(
    given: Mapping[str, Any], faults: dict[str, Any], most: int, fields: Collection[str] = ()
) -> list[dict[str, str]]:
    """What is said of a package, group or organization beside its fields.

    faults  what is wrong is added there, by item
    fields  names that no key can be
    """
    extras = json_or(given.get("extras") or [])
    if isinstance(extras, list):
        # A deleted one is sent back as such by old clients.
        extras = [item for item in extras if not (isinstance(item, dict) and item.get("state") == "deleted")]
    if not isinstance(extras, list) or len(extras) > most or not all(isinstance(item, dict) for item in extras):
        faults["extras"] = [f"Not a list of at most {most} dicts, each with key and value"]
        return []
    of_items = [_faults_of_extra(item, fields) for item in extras]
    if any(of_items):
        faults["extras"] = of_items
        return []
    return [{"key": item["key"], "value": _text(item["value"])} for item in extras]


def _faults_of_extra(item: Mapping[str, Any], fields: Collection[str]) -> dict[str, list[str]]:
    faults = {}
    if not isinstance(item.get("key"), str) or not item["key"]:
        faults["key"] = ["Missing value"]
    elif item["key"] in fields:
        faults["key"] = ["There is a schema field with the same name"]
    if "value" not in item:
        faults["value"] = ["Missing value"]
    return faults


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(with_floats(value), ensure_ascii=False) if value is not None else ""


def _read_groups(read: Parameters, services: Services) -> list[Group] | None:
    if read.given.get("groups") is None:
        return None
    given = json_or(read.given["groups"])
    if not isinstance(given, list) or len(given) > MAX_GROUPS or not all(isinstance(item, dict) for item in given):
        read.fault("groups", f"Not a list of at most {MAX_GROUPS} dicts, each with id or name")
        return None
    groups: dict[int, Group] = {}
    for item in given:
        # Of another site it is the name that is known here.
        keys = [key for key in (item.get("id"), item.get("name")) if isinstance(key, str) and key]
        found = _first_group(keys, services)
        if found is None:
            read.fault("groups", f"Group {str(keys[0] if keys else '')[:100]!r} was not found.")
        else:
            groups[found.id] = found
    return list(groups.values())


def _first_group(keys: list[str], services: Services) -> Group | None:
    for key in keys:
        with suppress(NotFound):
            return services.packages.group(key)
    return None


def _read_resources(
    read: Parameters, old: Package | None, tables: list[Table], own_urls: Mapping[str, str]
) -> list[Table]:
    given = json_or(read.given.get("resources") or [])
    if not isinstance(given, list) or not all(isinstance(item, dict) for item in given):
        read.fault("resources", "Not a list of dicts")
        return []
    if len(given) > MAX_RESOURCES:
        read.fault("resources", f"More than {MAX_RESOURCES:,} resources in one request")
        return []
    known = {table.uuid: table for table in tables}
    place = old or Package(0, "", 0, "")
    found: list[Table] = []
    faults: list[dict[str, Any]] = []
    seen: set[str] = set()
    for item in given:
        uuid = item.get("id")
        try:
            if isinstance(uuid, str) and uuid in seen:
                raise fault("id", "Resource id is doubled")
            if isinstance(uuid, str) and uuid in known:
                found.append(changed_resource(known[uuid], item, own_urls.get(uuid, "")))
            else:
                found.append(new_resource(item, place))
            faults.append({})
            if isinstance(uuid, str) and uuid:
                seen.add(uuid)
        except ValidationError as error:
            faults.append(error.faults)
    if any(faults):
        read.faults["resources"] = list(faults)
    return found
