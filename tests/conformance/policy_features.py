"""Requests of the OGC API - Features door for the test of the access policy."""

from __future__ import annotations

import json

from tests.conformance.policy_layers import absent, discard, make
from tests.conformance.policy_support import Aim, DoorRows, Row, Sent, Target

GEOJSON = "application/geo+json"
FEATURE = {
    "type": "Feature",
    "geometry": {"type": "Point", "coordinates": [8.1, 47.1]},
    "properties": {"label": "another"},
}
COLLECTION = "/features/collections/{name}"
ITEM = COLLECTION + "/items/{feature}"


def get(operation: str, path: str = "", allowed: tuple[int, ...] = (200,), **query: str) -> Row:
    def send(target: Target, number: int) -> Sent:
        filled = {name: value.format(**target.keys) for name, value in query.items()}
        return Sent(path.format(**target.keys), filled)

    return Row(operation, send, Aim.DATASET if "{" in path else Aim.LISTING, allowed)


def write(
    operation: str, method: str, path: str, body: object, allowed: int, content_type: str = GEOJSON, *,
    changes: bool = False,
) -> Row:  # fmt: skip
    def send(target: Target, number: int) -> Sent:
        text = b"" if body is None else json.dumps(body).encode()
        return Sent(path.format(**target.keys), method=method, body=text, content_type=content_type)

    return Row(operation, send, Aim.DATASET, (allowed,), changes)


def near_miss(target: Target, number: int) -> Sent:
    """A name that is one letter off: nobody is to be told the right one who may not read it."""
    return Sent(f"/features/collections/{target.keys['name'][:-1]}")


def nothing_of_it(path: str, **query: str) -> Sent:
    return Sent(path, query)


ROWS = DoorRows(
    "features",
    make,
    absent,
    (
        Row("landing", lambda t, n: nothing_of_it("/features", f="json"), Aim.LISTING, shows=False),
        get("landing", "/features", f="html"),
        Row("conformance", lambda t, n: nothing_of_it("/features/conformance"), Aim.LISTING, shows=False),
        Row("functions", lambda t, n: nothing_of_it("/features/functions"), Aim.LISTING, shows=False),
        get("api", "/features/api"),
        get("api", "/features/api", f="html"),
        get("collections", "/features/collections"),
        get("collections", "/features/collections", f="html"),
        get("collection", COLLECTION),
        get("collection", COLLECTION, f="html"),
        Row("collection", near_miss, Aim.LISTING, (404,)),
        get("queryables", COLLECTION + "/queryables"),
        get("queryables", COLLECTION + "/queryables", f="html"),
        get("sortables", COLLECTION + "/sortables"),
        get("schema", COLLECTION + "/schema"),
        get("items", COLLECTION + "/items"),
        get("items", COLLECTION + "/items", f="html"),
        get("items", COLLECTION + "/items", filter="label = 'Label of {name}'", limit="5", sortby="-label"),
        get("items", COLLECTION + "/items", bbox="8,47,9,48", properties="label"),
        get("item", ITEM),
        get("item", ITEM, f="html", crs="http://www.opengis.net/def/crs/EPSG/0/3857"),
        write("create", "POST", COLLECTION + "/items", FEATURE, 201),
        write("replace", "PUT", ITEM, FEATURE, 204, changes=True),
        write("update", "PATCH", ITEM, {"properties": {"label": "x"}}, 204, "application/merge-patch+json",
              changes=True),
        write("delete", "DELETE", ITEM, None, 204, changes=True),
    ),
    discard=discard,
)  # fmt: skip
