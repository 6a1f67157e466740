"""Landing page, conformance, collections (OGC 17-069r4 clauses 7.2 to 7.14)."""

from __future__ import annotations

import math
from typing import Any, Final

from thalweg.domain.features import Layer, LayerState
from thalweg.doors.features import crs
from thalweg.doors.features.context import (
    GEOJSON,
    OPENAPI,
    REL,
    SCHEMA_JSON,
    Context,
    Link,
    link,
    self_links,
)
from thalweg.doors.features.query import temporal_field
from thalweg.encode.crs import CRS84

_PARTS: Final = "http://www.opengis.net/spec/ogcapi-features-"
_CQL2: Final = "http://www.opengis.net/spec/cql2/1.0/conf/"
CONFORMANCE: Final = (
    *(f"{_PARTS}1/1.0/conf/{name}" for name in ("core", "oas30", "html", "geojson")),
    f"{_PARTS}2/1.0/conf/crs",
    *(
        f"{_PARTS}3/1.0/conf/{name}"
        for name in ("queryables", "queryables-query-parameters", "filter", "features-filter")
    ),
    *(f"{_PARTS}4/1.0/conf/{name}" for name in ("create-replace-delete", "update", "optimistic-locking-etags")),
    *(f"{_PARTS}5/1.0/conf/{name}" for name in ("schemas", "core-roles-features", "queryables", "sortables")),
    *(
        f"{_CQL2}{name}"
        for name in (
            "cql2-text", "cql2-json", "basic-cql2", "advanced-comparison-operators", "case-insensitive-comparison",
            "accent-insensitive-comparison", "basic-spatial-functions", "basic-spatial-functions-plus",
            "spatial-functions", "temporal-functions", "property-property", "functions", "arithmetic",
        )
    ),
)  # fmt: skip
"""Conformance classes that are served whole."""


def landing(context: Context) -> dict[str, Any]:
    """The landing page."""
    workspace, base = context.workspace, context.base_url
    links = [
        *self_links(base, context),
        link(f"{base}/api", "service-desc", OPENAPI, "Definition of this API (OpenAPI 3.0)"),
        link(f"{base}/api?f=html", "service-doc", "text/html", "Description of this API"),
        link(f"{base}/conformance", "conformance", title="Conformance classes"),
        link(f"{base}/conformance", f"{REL}conformance", title="Conformance classes"),
        link(f"{base}/collections", "data", title="Collections"),
        link(f"{base}/collections", f"{REL}data", title="Collections"),
        link(f"{base}/functions", f"{REL}functions", title="Functions of filters"),
    ]
    return {"title": heading(context), "description": workspace.abstract or _describe(context), "links": links}


def heading(context: Context) -> str:
    """The workspace's title, or its name where it has none."""
    workspace = context.workspace
    return workspace.title or (f"Features of {workspace.name}" if workspace.name != "default" else "Features")


def _describe(context: Context) -> str:
    return f"Mapped features of the workspace '{context.workspace.name}' (OGC API - Features)."


def conformance(context: Context) -> dict[str, Any]:
    return {"conformsTo": list(CONFORMANCE), "links": self_links(f"{context.base_url}/conformance", context)}


def collections(context: Context) -> dict[str, Any]:
    """All collections that the caller may read."""
    layers = context.layers()
    states = context.services.features.states(layers)
    return {
        "links": self_links(f"{context.base_url}/collections", context),
        "numberMatched": len(layers),
        "numberReturned": len(layers),
        "crs": [CRS84, *map(crs.uri_of, dict.fromkeys((4326, crs.WEB_MERCATOR, *context.workspace.srids)))],
        "collections": [collection(context, layer, states.get(layer.id) or LayerState(layer.id)) for layer in layers],
    }


def collection(context: Context, layer: Layer, state: LayerState) -> dict[str, Any]:
    """One collection. Nothing is counted or measured for it: extents and counts are kept."""
    found: dict[str, Any] = {"id": layer.name, "title": layer.title or layer.name}
    if layer.description:
        found["description"] = layer.description
    if layer.keywords:
        found["keywords"] = list(layer.keywords)
    if layer.attribution:
        found["attribution"] = layer.attribution
    extent: dict[str, Any] = {}
    box = context.services.features.lonlat_extent(layer, state)
    if box is not None:
        extent["spatial"] = {"bbox": [_rounded(box)], "crs": CRS84}
    if temporal_field(layer) is not None:
        extent["temporal"] = {"interval": [[None, None]]}
    if extent:
        found["extent"] = extent
    found["itemType"] = "feature"
    found["itemCount"] = state.count
    if layer.has_geometry:
        found["crs"] = crs.uris(layer, context.workspace)
        found["storageCrs"] = crs.storage_uri(layer)
    found["links"] = collection_links(context, layer)
    return found


def _rounded(box: tuple[float, float, float, float]) -> list[float]:
    """A box a little larger, of six decimals (10 cm): as a condition in another CRS, too, it leaves nothing out."""
    west, south, east, north = box
    return [
        max(-180.0, math.floor(west * 1e6 - 0.1) / 1e6),
        max(-90.0, math.floor(south * 1e6 - 0.1) / 1e6),
        min(180.0, math.ceil(east * 1e6 + 0.1) / 1e6),
        min(90.0, math.ceil(north * 1e6 + 0.1) / 1e6),
    ]


def collection_links(context: Context, layer: Layer) -> list[Link]:
    url = context.collection_url(layer)
    title = layer.title or layer.name
    links = [
        *self_links(url, context),
        link(f"{url}/items?f=json", "items", GEOJSON, f"{title} as GeoJSON"),
        link(f"{url}/items?f=html", "items", "text/html", f"{title} as HTML"),
        link(f"{url}/queryables", f"{REL}queryables", SCHEMA_JSON, "What filters may name"),
        link(f"{url}/sortables", f"{REL}sortables", SCHEMA_JSON, "What can be sorted by"),
        link(f"{url}/schema", f"{REL}schema", SCHEMA_JSON, "Schema of the features"),
        link(f"{url}/schema", "describedby", SCHEMA_JSON, "Schema of the features"),
    ]
    if layer.licence.startswith(("http://", "https://")):
        links.append(link(layer.licence, "license", "text/html", "Licence"))
    return links
