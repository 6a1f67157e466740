"""Organizations, packages, resources and groups as CKAN's clients read them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from thalweg.domain.catalogue import Workspace
from thalweg.domain.packages import FILE_KEY, Group, Vocabulary, file_of
from thalweg.domain.tables import Package, Table
from thalweg.doors.ckan.licenses import LICENSES

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
PACKAGE_TEXTS: Final = (
    "notes", "url", "version", "author", "author_email", "maintainer", "maintainer_email", "license_id",
)  # fmt: skip


def iso(us: int) -> str | None:
    """As CKAN writes instants: UTC, without a zone. None for 0: what procedures are shown as has none."""
    if not us:
        return None
    return datetime.fromtimestamp(us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{us % 1_000_000:06d}"


def organization(workspace: Workspace) -> dict[str, Any]:
    """As a package shows it."""
    title = workspace.title or workspace.name
    return {
        "id": workspace.uuid,
        "name": workspace.name,
        "title": title,
        "type": "organization",
        "description": workspace.abstract,
        "image_url": workspace.image_url,
        "created": iso(workspace.created_us),
        "is_organization": True,
        "approval_status": "approved",
        "state": "active",
    }


def download_url(table: Table, package: Package, site: str) -> str:
    """Where the uploaded file of a resource is; empty: it has none."""
    file = file_of(table)
    if file is None:
        return ""
    return f"{site}/dataset/{package.uuid}/resource/{table.uuid}/download/{quote(file.name)}"


def resource_document(table: Table, package: Package, site: str) -> dict[str, Any]:
    document = {name: value for name, value in table.document.items() if name != FILE_KEY}
    file = file_of(table)
    is_here = bool(table.active or table.url_type or file)
    if table.url_type == "datastore":
        document["url"] = f"{site}/datastore/dump/{table.uuid}"
    elif file is not None:
        document |= {"url": download_url(table, package, site), "size": file.size, "hash": file.sha256}
        document["mimetype"] = document.get("mimetype") or file.mimetype
    elif document.get("url"):
        document["url"] = with_scheme(document["url"])
    return {
        "cache_last_updated": None,
        "cache_url": None,
        "description": None,
        "format": "",
        "hash": "",
        "mimetype": None,
        "mimetype_inner": None,
        "resource_type": None,
        "size": None,
        "url": "",
        **document,
        "id": table.uuid,
        "package_id": package.uuid,
        "name": table.name or None,
        "created": iso(table.created_us),
        # Of what lies elsewhere nothing is known but what was said of it.
        "last_modified": iso(table.modified_us) if is_here else document.get("last_modified"),
        "metadata_modified": iso(table.modified_us),
        "state": "active",
        "position": table.position,
        "url_type": table.url_type or None,
        "datastore_active": table.active,
    }


def with_scheme(url: str) -> str:
    """An address that can be followed: one that says no scheme is HTTP's, as CKAN has it."""
    return url if _SCHEME.match(url) else f"http://{url.lstrip('/')}"


def tag_document(name: str, package: Package | None = None, vocabulary: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "display_name": name, "id": f"{vocabulary or 'free'}:{name}", "name": name, "vocabulary_id": vocabulary
    }  # fmt: skip
    return found if package is None else {**found, "state": "active"}


def package_document(
    package: Package, tables: list[Table], workspace: Workspace, groups: list[Group], site: str
) -> dict[str, Any]:
    document = package.document
    free = [tag_document(tag, package) for tag in document.get("tags", ())]
    bound = [tag_document(tag, package, vocabulary) for vocabulary, tag in document.get("vocabulary_tags", ())]
    license_id = document.get("license_id")
    known = LICENSES.get(license_id or "")
    shown = {
        **{name: document.get(name) for name in PACKAGE_TEXTS},
        "license_title": known.title if known is not None else license_id,
        "id": package.uuid,
        "name": package.name,
        "title": package.title or package.name,
        "type": document.get("type", "dataset"),
        "private": not package.public,
        "state": "active" if package.active else document.get("state", "deleted"),
        "isopen": known is not None and known.is_open,
        "creator_user_id": document.get("creator"),
        "owner_org": workspace.uuid,
        "organization": organization(workspace),
        "metadata_created": iso(package.created_us),
        "metadata_modified": iso(package.modified_us),
        "num_resources": len(tables),
        "num_tags": len(free) + len(bound),
        "resources": [resource_document(table, package, site) for table in tables],
        "tags": free + bound,
        "extras": [dict(item) for item in document.get("extras", ())],
        "groups": [group_in_package(group) for group in groups],
        "relationships_as_subject": [],
        "relationships_as_object": [],
    }
    if known is not None and known.url:
        shown["license_url"] = known.url
    return shown


def shown_image(url: str) -> str:
    """A picture that pages can show: one that is at an address of the web."""
    return url if url.startswith(("http://", "https://")) else ""


def group_in_package(group: Group) -> dict[str, Any]:
    title = group.title or group.name
    return {
        "id": group.uuid, "name": group.name, "title": title, "display_name": title,
        "description": group.document.get("description") or "",
        "image_display_url": shown_image(group.document.get("image_url") or ""),
    }  # fmt: skip


def group_document(group: Group, count: int) -> dict[str, Any]:
    return {
        **group_in_package(group),
        "image_url": group.document.get("image_url") or "",
        "type": group.document.get("type") or "group",
        "created": iso(group.created_us),
        "is_organization": False,
        "approval_status": "approved",
        "state": "active",
        "package_count": count,
        "num_followers": 0,
    }


def vocabulary_document(vocabulary: Vocabulary) -> dict[str, Any]:
    tags = [tag_document(tag, None, vocabulary.uuid) for tag in vocabulary.tags]
    return {"id": vocabulary.uuid, "name": vocabulary.name, "tags": tags}


def only(document: Mapping[str, Any], names: list[str] | None) -> dict[str, Any]:
    """Some of its entries; None: all."""
    return dict(document) if names is None else {name: document[name] for name in names if name in document}
