"""Layers as datasets of both feature doors, for the test of the access policy."""

from __future__ import annotations

import numpy as np
import shapely
from tests.conformance.policy_support import Target

from thalweg.app import Application
from thalweg.domain.features import Features, Field, FieldKind, GeometryKind, Layer, StoredQuery

WFS2 = "http://www.opengis.net/wfs/2.0"
LANGUAGE = "urn:ogc:def:queryLanguage:OGC-WFS::WFSQueryExpression"


def keys_of(name: str) -> dict[str, str]:
    return {
        "name": name,
        "type": f"tw:{name}",
        "feature": f"{name}.7",
        "place": f"{name}.7.place",
        "query": f"urn:example:query:{name}",
    }


def definition(identifier: str, type_name: str) -> str:
    """A stored query of one type, without parameters."""
    return (
        f'<wfs:StoredQueryDefinition xmlns:wfs="{WFS2}" xmlns:tw="http://127.0.0.1:8080/default" id="{identifier}">'
        f'<wfs:QueryExpressionText returnFeatureTypes="{type_name}" language="{LANGUAGE}" isPrivate="false">'
        f'<wfs:Query typeNames="{type_name}"/></wfs:QueryExpressionText></wfs:StoredQueryDefinition>'
    )


def make(application: Application, workspace: str, name: str, public: bool) -> Target:
    """A layer of one feature, and a stored query that names it."""
    service = application.services.features
    there = application.store.workspaces()[workspace]
    keys = keys_of(name)
    layer = service.put_layer(
        there,
        Layer(
            0, "", there.id, name,
            title=f"Title of {name}", description=f"About {name}", keywords=(f"key-{name}",), public=public,
            geometry_field="place", geometry_kind=GeometryKind.POINT,
            fields=(Field("label", FieldKind.TEXT), Field(f"f_{name}", FieldKind.INTEGER)),
        ),
    ).result(30)  # fmt: skip
    wkb = shapely.to_wkb(shapely.Point(8.5, 47.5), flavor="iso", byte_order=1)
    service.load(layer, [Features(np.array([7], np.int64), [wkb], {"label": [f"Label of {name}"]})], "")
    query = StoredQuery(there.id, keys["query"], definition(keys["query"], keys["type"]))
    service.put_stored_query(query, by="").result(30)
    return Target(workspace, "layer", layer.id, keys, (name,))


def discard(application: Application, target: Target) -> None:
    """Take both away, as far as they are there."""
    store = application.store
    there = store.workspaces()[target.workspace]
    if target.keys["query"] in store.stored_queries(there.id):
        store.delete_stored_query(there.id, target.keys["query"]).result(30)
    if target.keys["name"] in store.layers(there.id):
        store.delete_layer(there.id, target.id).result(30)


def absent(workspace: str, name: str) -> Target:
    return Target(workspace, "layer", 0, keys_of(name), ())
