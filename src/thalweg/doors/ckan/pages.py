"""Small pages of datasets, for people and clients who follow links: ``/dataset`` and ``/dataset/{name}``."""

from __future__ import annotations

from html import escape
from typing import Final
from urllib.parse import unquote, urlsplit

from thalweg.domain.packages import PackageQuery
from thalweg.doors.ckan.catalogue import workspace_of
from thalweg.doors.ckan.documents import package_document
from thalweg.doors.ckan.errors import NoSuchPage
from thalweg.doors.http import Request, Response
from thalweg.services.services import Services

LISTED: Final = 100
"""Datasets on the list, the last changed ones."""
_POLICY: Final = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_SCHEMES: Final = ("http", "https", "ftp")


def dataset_page(request: Request, services: Services) -> Response:
    """Raises NotFound, PermissionDenied, NoSuchPage."""
    parts = [unquote(part) for part in request.path.rstrip("/").split("/")][1:]
    if not parts:
        return _list(request, services)
    # A resource has no page but its dataset's.
    if len(parts) not in (1, 3) or (len(parts) == 3 and parts[1] != "resource"):
        raise NoSuchPage("There is no such page.")
    package = services.tables.package(parts[0], request.principal)
    tables = services.tables.tables(package, request.principal)
    if len(parts) == 3 and parts[2] not in [table.uuid for table in tables]:
        raise NoSuchPage("There is no such page.")
    workspace = workspace_of(services, package.workspace_id)
    groups = services.packages.groups_of(package)
    shown = package_document(package, tables, workspace, groups, request.base_url)
    rows = [
        ("Organization", shown["organization"]["title"]), ("Licence", shown["license_title"]),
        ("Author", shown["author"]), ("Maintainer", shown["maintainer"]), ("Version", shown["version"]),
        ("Tags", ", ".join(tag["name"] for tag in shown["tags"])),
        ("Groups", ", ".join(group["title"] for group in shown["groups"])),
        *((item["key"], item["value"]) for item in shown["extras"]),
        ("Last changed", shown["metadata_modified"][:19] + "Z"),
    ]  # fmt: skip
    notes = "".join(f"<p>{escape(text)}</p>\n" for text in (shown["notes"] or "").split("\n\n") if text.strip())
    items = []
    for resource in shown["resources"]:
        name = escape(resource["name"] or resource["url"] or resource["id"])
        links = [_link(resource["url"], name)]
        if resource["datastore_active"] and resource["url_type"] != "datastore":
            links.append(_link(f"{request.base_url}/datastore/dump/{resource['id']}", "table as CSV"))
        said = escape(" ".join(filter(None, (resource["format"], resource["description"] or ""))))
        items.append(f'<li id="{escape(resource["id"])}">{" · ".join(links)} {said}</li>\n')
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>\n" for name, value in rows if value)
    api = f"{request.base_url}/api/3/action/package_show?id={package.name}"
    body = (
        f"{notes}<h2>Resources</h2>\n<ul>\n{''.join(items)}</ul>\n<h2>About</h2>\n<dl>\n{listed}</dl>\n"
        f"<p>{_link(api, 'As JSON')} · {_link(request.base_url + '/dataset', 'All datasets')}</p>\n"
    )
    return _page(shown["title"], body, package.public)


def _list(request: Request, services: Services) -> Response:
    query = PackageQuery(sort=(("metadata_modified", True),), limit=LISTED)
    found = services.packages.search(query, request.principal)
    items = "".join(
        f"<li>{_link(f'{request.base_url}/dataset/{package.name}', escape(package.title or package.name))}</li>\n"
        for package in found.packages
    )
    more = f"<p>The {LISTED} last changed of {found.count:,}.</p>\n" if found.count > LISTED else ""
    return _page("Datasets", f"<ul>\n{items}</ul>\n{more}", True)


def _link(address: str, text: str) -> str:
    """A link, where an address is one that a browser may follow; else the text alone. ``text`` is escaped."""
    try:
        is_safe = urlsplit(address).scheme.lower() in _SCHEMES
    except ValueError:
        is_safe = False
    return f'<a href="{escape(address)}" rel="nofollow noopener">{text}</a>' if is_safe else text


def _page(title: str, body: str, public: bool) -> Response:
    text = (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<h1>{escape(title)}</h1>\n{body}</html>\n"
    )
    headers = [("Content-Security-Policy", _POLICY), ("Cache-Control", "no-cache" if public else "private, no-store")]
    return Response(text.encode(), "text/html; charset=utf-8", headers=headers)
