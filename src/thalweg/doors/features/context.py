"""One request's surroundings, and the links that answers are made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, Final
from urllib.parse import parse_qsl, quote

import orjson
from xxhash import xxh3_128

from thalweg.auth.policy import Action, may, require
from thalweg.domain.access import Actor, Principal
from thalweg.domain.catalogue import Workspace
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.features import Layer
from thalweg.domain.snapshot import Catalogue
from thalweg.doors.http import Request, Response
from thalweg.services.features import resource_of
from thalweg.services.services import Services

JSON: Final = "application/json"
GEOJSON: Final = "application/geo+json"
SCHEMA_JSON: Final = "application/schema+json"
OPENAPI: Final = "application/vnd.oai.openapi+json;version=3.0"
HTML: Final = "text/html; charset=utf-8"
MAX_PARAMETERS: Final = 100
"""Most query parameters of a request; the server bounds the length of the URL."""
REL: Final = "http://www.opengis.net/def/rel/ogc/1.0/"

Link = dict[str, str]


class Format(Enum):
    """Formats of answers; the value is that of the parameter ``f``."""

    JSON = "json"
    HTML = "html"


_F: Final = {"json": Format.JSON, "geojson": Format.JSON, "html": Format.HTML}
_HTML_TYPES: Final = ("text/html", "application/xhtml+xml")


@dataclass(frozen=True, slots=True)
class Context:
    """One request's surroundings.

    catalogue  of the workspace, as the caller sees it
    by         the caller and the operation, for the audit log
    base_url   of the door, without trailing slash; ``format``: of the answer
    """

    services: Services
    catalogue: Catalogue
    principal: Principal
    by: Actor
    base_url: str
    format: Format

    @property
    def workspace(self) -> Workspace:
        return self.catalogue.workspace

    def layers(self) -> list[Layer]:
        """The layers that the caller may read."""
        return self.services.features.layers(self.catalogue, self.principal)

    def layer(self, name: str) -> Layer:
        """NotFound where it is not, or not for this caller."""
        return self.services.features.layer(self.catalogue, name, self.principal, "collectionId")

    def require(self, action: Action, layer: Layer) -> None:
        """Raises Unauthenticated, PermissionDenied."""
        require(self.principal, action, resource_of(self.catalogue, layer))

    def may_edit(self, layer: Layer) -> bool:
        """Whether the caller may change features of the layer; nobody may those that show procedures."""
        return layer.id > 0 and may(self.principal, Action.EDIT, resource_of(self.catalogue, layer))

    def collection_url(self, layer: Layer) -> str:
        return f"{self.base_url}/collections/{quote(layer.name, safe='')}"

    def items_url(self, layer: Layer) -> str:
        return f"{self.collection_url(layer)}/items"

    def item_url(self, layer: Layer, number: int) -> str:
        return f"{self.items_url(layer)}/{quote(layer.feature_id(number), safe='')}"


def link(href: str, rel: str, media_type: str = JSON, title: str = "") -> Link:
    found = {"href": href, "rel": rel, "type": media_type}
    if title:
        found["title"] = title
    return found


def self_links(url: str, context: Context, media_type: str = JSON) -> list[Link]:
    """The document itself, and the same in the other format."""
    as_json = link(f"{url}?f=json", "self", media_type, "This document")
    as_html = link(f"{url}?f=html", "alternate", "text/html", "This document as HTML")
    if context.format is Format.HTML:
        as_json["rel"], as_html["rel"] = "alternate", "self"
    return [as_json, as_html]


def parse_query(query: bytes) -> dict[str, str]:
    """Parameters by name.

    raises  InvalidParameter for one that comes twice, for too many, and for bytes that are no UTF-8
    """
    try:
        pairs = parse_qsl(
            query.decode("ascii", "strict"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_PARAMETERS,
        )
    except ValueError:
        raise InvalidParameter(
            "query", f"The query string is not UTF-8, percent-encoded, of at most {MAX_PARAMETERS} parameters."
        ) from None
    parameters = dict(pairs)
    if len(parameters) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidParameter(twice[:100], f"The parameter '{twice[:100]}' comes more than once.")
    return parameters


def only(parameters: Iterable[str], known: Iterable[str]) -> None:
    """Refuse parameters that a resource does not have (OGC 17-069r4 requirement 8)."""
    allowed = set(known)
    for name in parameters:
        if name not in allowed:
            raise InvalidParameter(
                name[:100], f"The parameter '{name[:100]}' is not known here; known are {', '.join(sorted(allowed))}."
            )


def choose_format(parameters: dict[str, str], request: Request) -> Format:
    """By the parameter ``f``, else by the header Accept; JSON where the client does not mind."""
    named = parameters.get("f")
    if named is not None:
        found = _F.get(named.lower())
        if found is None:
            raise InvalidParameter("f", f"The format '{named[:40]}' is not known; use json or html.")
        return found
    return _accepted(request.header(b"accept"))


@lru_cache(maxsize=512)
def _accepted(accept: str) -> Format:
    best, chosen = 0.0, Format.JSON
    for item in accept.lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        weight = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    weight = float(parameter[2:])
                except ValueError:
                    weight = 0.0
        if name in _HTML_TYPES:
            kind = Format.HTML
        elif name.endswith("json") or name in ("*/*", "application/*"):
            kind = Format.JSON
        else:
            continue
        if weight > best:
            best, chosen = weight, kind
    return chosen


def etag_of(context: Context, body: bytes) -> str:
    """A strong validator made from a document's bytes and the store's epoch."""
    digest = xxh3_128(context.services.catalogue.epoch.encode())
    digest.update(body)
    return f'"{digest.hexdigest()}"'


def document(context: Context, content: Any, media_type: str = JSON) -> Response:
    """A JSON document with its validator."""
    body = orjson.dumps(content)
    return Response(body, media_type, headers=[("Vary", "Accept")], etag=etag_of(context, body))
