"""The definition of the API (OpenAPI 3.0), made from the collections that the caller may read."""

from __future__ import annotations

from typing import Any, Final

import thalweg
from thalweg.domain.features import Field, Layer
from thalweg.doors.features.collections import heading
from thalweg.doors.features.context import GEOJSON, JSON, OPENAPI, SCHEMA_JSON, Context
from thalweg.doors.features.errors import PROBLEM
from thalweg.doors.features.query import FILTER_LANGUAGES
from thalweg.doors.features.schemas import field_schema, parameter_names
from thalweg.encode.crs import CRS84

MAX_COLLECTIONS: Final = 300
"""Collections whose paths are written out one by one; of further ones the general paths tell."""

_F: Final = {"$ref": "#/components/parameters/f"}
_PROBLEMS: Final = {
    "400": {"$ref": "#/components/responses/InvalidParameter"},
    "404": {"$ref": "#/components/responses/NotFound"},
    "500": {"$ref": "#/components/responses/ServerError"},
}
_GET_PROBLEMS: Final = {code: _PROBLEMS[code] for code in ("400", "500")}


def definition(context: Context) -> dict[str, Any]:
    """The whole document."""
    layers = context.layers()
    paths: dict[str, Any] = {
        "/": _get("getLandingPage", "Landing page", "Server", _json("LandingPage")),
        "/conformance": _get("getConformance", "Conformance classes", "Server", _json("Conformance")),
        "/api": _get("getApi", "This document", "Server", {OPENAPI: {"schema": {"type": "object"}}}),
        "/functions": _get("getFunctions", "Functions of filters", "Server", _json("AnyObject")),
        "/collections": _get("getCollections", "Collections", "Collections", _json("Collections")),
    }
    named = {"$ref": "#/components/parameters/collectionId"}
    paths |= _of_collection(context, "/collections/{collectionId}", None, [named], "")
    for layer in layers[:MAX_COLLECTIONS]:
        paths |= _of_collection(context, f"/collections/{layer.name}", layer, [], layer.name)
    workspace = context.workspace
    info: dict[str, Any] = {"title": heading(context), "version": thalweg.__version__}
    if workspace.abstract:
        info["description"] = workspace.abstract
    contact = {"name": workspace.provider.name, "email": workspace.provider.email, "url": workspace.provider.site}
    contact = {key: value for key, value in contact.items() if value}
    if contact:
        info["contact"] = contact
    return {
        "openapi": "3.0.3",
        "info": info,
        "servers": [{"url": context.base_url}],
        "tags": [{"name": "Server"}, {"name": "Collections"}, {"name": "Features"}],
        "paths": paths,
        "components": _components(context, layers),
    }


def _of_collection(
    context: Context, path: str, layer: Layer | None, parameters: list[Any], suffix: str
) -> dict[str, Any]:
    """The paths of one collection, or of any."""
    title = "a collection" if layer is None else layer.title or layer.name
    paths: dict[str, Any] = {
        path: _get(f"getCollection{suffix}", f"About {title}", "Collections", _json("Collection"), parameters)
    }
    for name, what in (("queryables", "What filters may name"), ("sortables", "What can be sorted by"),
                       ("schema", "Schema of the features")):  # fmt: skip
        content = {SCHEMA_JSON: {"schema": {"type": "object"}}}
        operation = f"get{name.title()}{suffix}"
        paths[f"{path}/{name}"] = _get(operation, f"{what} ({title})", "Collections", content, parameters)
    items: dict[str, Any] = {
        "get": {
            "operationId": f"getItems{suffix}",
            "summary": f"Features of {title}",
            "tags": ["Features"],
            "parameters": [*parameters, *_items_parameters(layer), *_own_parameters(layer)],
            "responses": {
                "200": {
                    "description": "A page of features.",
                    "headers": {"Content-Crs": {"schema": {"type": "string"}}, "ETag": {"schema": {"type": "string"}}},
                    "content": {GEOJSON: {"schema": {"$ref": "#/components/schemas/FeatureCollection"}},
                                "text/html": {"schema": {"type": "string"}}},
                },
                **_PROBLEMS,
            },
        }
    }  # fmt: skip
    feature_id = {"$ref": "#/components/parameters/featureId"}
    item: dict[str, Any] = {
        "get": {
            "operationId": f"getItem{suffix}",
            "summary": f"A feature of {title}",
            "tags": ["Features"],
            "parameters": [*parameters, feature_id, _F, _crs("crs", "CRS of the answer")],
            "responses": {
                "200": {
                    "description": "The feature.",
                    "headers": {"Content-Crs": {"schema": {"type": "string"}}, "ETag": {"schema": {"type": "string"}}},
                    "content": {GEOJSON: {"schema": {"$ref": "#/components/schemas/Feature"}},
                                "text/html": {"schema": {"type": "string"}}},
                },
                **_PROBLEMS,
            },
        }
    }  # fmt: skip
    if layer is None or context.may_edit(layer):
        items["post"] = _write("createItem" + suffix, "Add a feature", [*parameters], "201", GEOJSON)
        item["put"] = _write("replaceItem" + suffix, "Replace a feature", [*parameters, feature_id], "204", GEOJSON)
        item["patch"] = _write(
            "updateItem" + suffix, "Change a feature", [*parameters, feature_id], "204", "application/merge-patch+json"
        )
        item["delete"] = _write("deleteItem" + suffix, "Remove a feature", [*parameters, feature_id], "204", "")
    return paths | {f"{path}/items": items, f"{path}/items/{{featureId}}": item}


def _get(
    operation: str, summary: str, tag: str, content: dict[str, Any], parameters: list[Any] | None = None
) -> dict[str, Any]:
    return {
        "get": {
            "operationId": operation,
            "summary": summary,
            "tags": [tag],
            "parameters": [*(parameters or []), _F],
            "responses": {
                "200": {"description": summary, "content": {**content, "text/html": {"schema": {"type": "string"}}}},
                **(_PROBLEMS if parameters else _GET_PROBLEMS),
            },
        }
    }


def _json(schema: str) -> dict[str, Any]:
    return {JSON: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}


def _write(operation: str, summary: str, parameters: list[Any], done: str, body: str) -> dict[str, Any]:
    headers: dict[str, Any] = {"ETag": {"schema": {"type": "string"}}}
    if done == "201":
        headers["Location"] = {"schema": {"type": "string"}}
    else:
        parameters = [*parameters, {"$ref": "#/components/parameters/ifMatch"}]
    found: dict[str, Any] = {
        "operationId": operation,
        "summary": summary,
        "tags": ["Features"],
        "parameters": parameters,
        "security": [{"basic": []}, {"bearer": []}],
        "responses": {
            done: {"description": "Done.", "headers": headers},
            **_PROBLEMS,
            "401": {"$ref": "#/components/responses/CredentialsNeeded"},
            "403": {"$ref": "#/components/responses/NotPermitted"},
            "412": {"$ref": "#/components/responses/PreconditionFailed"},
        },
    }
    if body:
        schema = "FeatureGeoJson" if body == GEOJSON else "AnyObject"
        found["requestBody"] = {
            "required": True,
            "content": {body: {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
        }
        found["parameters"] = [*parameters, {"$ref": "#/components/parameters/contentCrs"}]
    return found


def _items_parameters(layer: Layer | None) -> list[Any]:
    names = ["f", "limit", "bbox", "datetime", "offset", "cursor", "properties", "skipGeometry", "sortby",
             "filter", "filterLang"]  # fmt: skip
    found: list[Any] = [{"$ref": f"#/components/parameters/{name}"} for name in names]
    if layer is None or layer.has_geometry:
        found += [
            _crs("crs", "CRS of the answer"),
            _crs("bbox-crs", "CRS of bbox"),
            _crs("filter-crs", "CRS of geometries in filter"),
        ]
    return found


def _own_parameters(layer: Layer | None) -> list[Any]:
    return [] if layer is None else [_own_parameter(field) for field in parameter_names(layer)]


def _own_parameter(field: Field) -> dict[str, Any]:
    return {
        "name": field.name,
        "in": "query",
        "required": False,
        "description": f"Only features whose {field.title or field.name} is this.",
        "schema": {key: value for key, value in field_schema(field).items() if key != "title"},
        "style": "form",
        "explode": False,
    }


def _crs(name: str, description: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": f"{description}, one of the collection's list; longitude, latitude (CRS84) if left out.",
        "schema": {"type": "string", "format": "uri", "default": CRS84},
        "style": "form",
        "explode": False,
    }


def _parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": description,
        "schema": schema,
        "style": "form",
        "explode": False,
    }


def _components(context: Context, layers: list[Layer]) -> dict[str, Any]:
    settings = context.services.settings
    names = [layer.name for layer in layers]
    number = {"type": "number"}
    collection_id: dict[str, Any] = {"type": "string"}
    if names:
        collection_id["enum"] = names
    parameters = {
        "collectionId": {"name": "collectionId", "in": "path", "required": True, "schema": collection_id,
                         "description": "Id of a collection."},
        "featureId": {"name": "featureId", "in": "path", "required": True, "schema": {"type": "string"},
                      "description": "Id of a feature."},
        "ifMatch": {"name": "If-Match", "in": "header", "required": False, "schema": {"type": "string"},
                    "description": "ETag of the feature as it was read: refused with 412 if it has changed since."},
        "contentCrs": {"name": "Content-Crs", "in": "header", "required": False, "schema": {"type": "string"},
                       "description": "CRS of the body's geometry; longitude, latitude (CRS84) if left out."},
        "f": _parameter("f", "Format of the answer; else by the header Accept.",
                        {"type": "string", "enum": ["json", "html"]}),
        "limit": _parameter("limit", "Most features of the page; more than the maximum gives the maximum.",
                            {"type": "integer", "minimum": 1, "maximum": settings.features_max_limit,
                             "default": min(settings.features_default_limit, settings.features_max_limit)}),
        "offset": _parameter("offset", "Features to pass over.", {"type": "integer", "minimum": 0, "default": 0}),
        "cursor": _parameter("cursor", "Where a page begins; taken from links, never made.", {"type": "string"}),
        "bbox": _parameter(
            "bbox", "Only features whose geometry meets the box: west, south, east, north, or with heights in between.",
            {"type": "array", "items": number, "minItems": 4, "maxItems": 6}),
        "datetime": _parameter(
            "datetime", "Only features of this time: an instant, or a period with a slash, '..' unbounded.",
            {"type": "string"}),
        "properties": _parameter("properties", "Only these properties.",
                                 {"type": "array", "items": {"type": "string"}}),
        "skipGeometry": _parameter("skipGeometry", "Leave geometries out.", {"type": "boolean", "default": False}),
        "sortby": _parameter("sortby", "Properties to sort by, '-' before one for descending.",
                             {"type": "array", "items": {"type": "string", "pattern": "[+|-]?.+"}}),
        "filter": _parameter("filter", "A condition in the language of filter-lang.", {"type": "string"}),
        "filterLang": _parameter("filter-lang", "Language of filter.",
                                 {"type": "string", "enum": list(FILTER_LANGUAGES), "default": FILTER_LANGUAGES[0]}),
    }  # fmt: skip
    return {
        "parameters": parameters,
        "responses": {
            "InvalidParameter": _problem("A parameter is unknown or has a value that is not allowed."),
            "NotFound": _problem("There is nothing of that name."),
            "CredentialsNeeded": _problem("Credentials are needed."),
            "NotPermitted": _problem("The caller may not do this."),
            "PreconditionFailed": _problem("The feature has changed since it was read."),
            "ServerError": _problem("The server failed."),
        },
        "schemas": _SCHEMAS,
        "securitySchemes": {
            "basic": {"type": "http", "scheme": "basic"},
            "bearer": {"type": "http", "scheme": "bearer"},
        },
    }


def _problem(description: str) -> dict[str, Any]:
    return {
        "description": description,
        "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties}


_LINKS: Final = {"type": "array", "items": {"$ref": "#/components/schemas/Link"}}
_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_FEATURE: Final = {
    "type": {"type": "string", "enum": ["Feature"]},
    "geometry": {"type": "object", "nullable": True},
    "properties": {"type": "object", "nullable": True},
}
_SCHEMAS: Final[dict[str, Any]] = {
    "Link": _object(["href", "rel"], href=_TEXT, rel=_TEXT, type=_TEXT, title=_TEXT),
    "LandingPage": _object(["links"], title=_TEXT, description=_TEXT, links=_LINKS),
    "Conformance": _object(["conformsTo"], conformsTo=_TEXTS),
    "Collection": _object(
        ["id", "links"],
        id=_TEXT,
        title=_TEXT,
        description=_TEXT,
        extent={"type": "object"},
        itemType=_TEXT,
        crs=_TEXTS,
        storageCrs=_TEXT,
        links=_LINKS,
    ),
    "Collections": _object(
        ["links", "collections"],
        links=_LINKS,
        collections={"type": "array", "items": {"$ref": "#/components/schemas/Collection"}},
    ),
    "Feature": _object(["type", "geometry", "properties"], **_FEATURE, id=_TEXT, links=_LINKS),
    "FeatureGeoJson": _object(["type", "geometry", "properties"], **_FEATURE),
    "FeatureCollection": _object(
        ["type", "features"],
        type={"type": "string", "enum": ["FeatureCollection"]},
        features={"type": "array", "items": {"$ref": "#/components/schemas/Feature"}},
        numberMatched={"type": "integer", "minimum": 0},
        numberReturned={"type": "integer", "minimum": 0},
        links=_LINKS,
    ),
    "Problem": _object([], type=_TEXT, title=_TEXT, status={"type": "integer"}, detail=_TEXT, parameter=_TEXT),
    "AnyObject": {"type": "object"},
}
